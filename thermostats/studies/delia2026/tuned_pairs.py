"""Pairs of base and tuned models: their gains by prompt, and the audit of the study's counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.formatting import strip_owner
from thermostats.modelling.classical.association import (
    estimate_one_sample,
    estimate_paired_difference,
)
from thermostats.studies.delia2026.prompt_gains import TWIN, load_every_prompt
from thermostats.studies.delia2026.stated_facts import load_stated, load_stated_models
from thermostats.tables.model_rows import choose_prompt_set
from thermostats.tables.reading import keep_last_revision

COUNTS = {"pairs": "/n_families", "measurements": "/n_total_measurements"}
LARGEST = "largest change, %"
IN_THE_TEXT = {
    "gemma-7b": "section 5.5 Gemma base",
    "gemma-7b-it": "section 5.5 Gemma instruct",
    LARGEST: "section 5.5 change",
}
BASE = r"/twin_summary/[^/]+/base/"
TUNED = r"/twin_summary/[^/]+/instruct/"
PAIRS_BY_MODEL = {
    "{} in the file": f"({BASE}|{TUNED})mean_gain",
    "SD of {}": f"({BASE}|{TUNED})std_gain",
    "{} over its base": r"/hypothesis_results/\d+/Ratio",
    "{} less its base": r"/hypothesis_results/\d+/Delta",
}


def collect_prompt_gains(tables: Evidence) -> pd.DataFrame:
    """Last gains by model and prompt of all pairs, with the model's `variant` and `parent`."""
    models = tables.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    gains = load_every_prompt(tables, "last_gain", TWIN)
    return gains.drop(columns="category").merge(models, on="model_id")


def match_bases(tables: Evidence, gains: pd.DataFrame) -> dict[str, str]:
    """The base that every tuned model of some gains stands with, by the tuned model.

    That is the base of its family; of another set of evidence than the published one that which it
    was tuned from.
    """
    models = tables.table("models").drop_duplicates("model_id", keep="last").set_index("model_id")
    here = sorted(set(gains["model_id"]))
    facts = models.loc[here]
    tuned = facts.index[facts["variant"] == "instruct"]
    if tables.name in VIEWS:
        parents = facts.loc[tuned, "parent"]
        return {child: base for child, base in parents.items() if base in facts.index}
    family = facts.loc[facts["variant"] != "instruct", "family"]
    return {child: family.index[family == facts.loc[child, "family"]][0] for child in tuned}


def choose_common_prompts(gains: pd.DataFrame, base: str, child: str) -> pd.DataFrame:
    """Gains of a base and of a model tuned from it, one run of each, on a prompt set that both
    met; empty where there is none."""
    rows = gains[gains["model_id"].isin([base, child])]
    met = rows.groupby("prompt_set")["model_id"].transform("nunique")
    return choose_prompt_set(rows[met == len({base, child})])


def build_pairs(tables: Evidence, *, seed: int) -> pd.DataFrame:
    """One row per pair of `match_bases`: gains of both with intervals, their ratio (Bonferroni over
    pairs), and who was tuned from whom.

    Every pair is on prompts that both met, which need not be those of another pair.
    `base_and_child` is false where a model was tuned from another than the base that it stands
    with.
    """
    gains = load_every_prompt(tables, "last_gain", TWIN)
    models = tables.table("models").drop_duplicates("model_id", keep="last").set_index("model_id")
    labs = gains.drop_duplicates("model_id").set_index("model_id")["heritage"]
    pairs = dict[tuple[str, str], pd.DataFrame]()
    for child, base in match_bases(tables, gains).items():
        common = choose_common_prompts(gains, base, child)
        wide = common.pivot(index="prompt_id", columns="model_id", values="value")
        both = wide.reindex(columns=[base, child]).dropna()
        if len(both) > 1:
            pairs[base, child] = both
    rows = []
    for (base, child), both in pairs.items():
        pair = {"model_id": base, "instruct": child, "heritage": labs[child]}
        pair |= {"base_and_child": models.loc[child, "parent"] == base, "n_prompts": len(both)}
        pair |= {"base_sd": both[base].std(ddof=0), "instruct_sd": both[child].std(ddof=0)}
        pair |= {"base_gain": both[base].mean(), "instruct_gain": both[child].mean()}
        pair |= estimate_pair_ratio(both, "instruct", level=1 - 0.05 / len(pairs), seed=seed)
        flips = (both[base] > 1) != (both[child] > 1)
        rows.append(pair | {"prompts_that_flip": int(flips.sum())})
    return pd.DataFrame(
        rows, columns=None if rows else ["model_id", "instruct", "heritage", "base_and_child"]
    )


PAIR = [
    "model_id",
    "instruct",
    "heritage",
    "source",
    "n_prompts",
    "base_gain",
    "instruct_gain",
    "flips",
]


def build_penultimate_pairs(tables: Evidence) -> pd.DataFrame:
    """One row per tuned model and the base that it was tuned from: penultimate gains of one source
    and set of prompts.

    Columns PAIR. `flips`: both 95% t intervals over prompts exclude 1, on opposite sides; a mean
    whose errors its source does not state counts as exact. Of several such pairs of measurements
    that with most prompts counts.
    """
    gain = "penultimate_gain"
    facts = ["model_id", "source", "prompt_set"]
    rows = keep_last_revision(tables.table("features").dropna(subset=gain), "model_id")
    n = rows["n_prompts"].astype("float64")
    error = (
        rows[f"{gain}_sd"].astype("float64")
        / np.sqrt(n)
        * stats.t.ppf(0.975, (n - 1).clip(lower=1))
    ).fillna(0.0)
    side = np.sign(rows[gain] - 1) * ((rows[gain] - 1).abs() > error)
    rows = rows.assign(
        gain=rows[gain].astype("float64"), side=side.astype("float64"), n_prompts=n.fillna(0.0)
    )
    tuned = rows[(rows["variant"] == "instruct") & (rows["parent"] != "")]
    both = rows[[*facts, "gain", "side"]].merge(
        tuned[[*facts, "parent", "heritage", "n_prompts", "gain", "side"]],
        left_on=facts,
        right_on=["parent", *facts[1:]],
        suffixes=("_base", ""),
    )
    both = both.sort_values("n_prompts", ascending=False, kind="stable").drop_duplicates("model_id")
    flips = both["side"] * both["side_base"] < 0
    named = both.assign(
        instruct=both["model_id"],
        base_gain=both["gain_base"],
        instruct_gain=both["gain"],
        flips=flips,
    )
    return named.assign(model_id=both["model_id_base"])[PAIR].sort_values(
        "instruct", ignore_index=True
    )


def log_ratios(tables: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Logs of tuned over base by prompt, for pairs of `build_pairs`: model_id (the base), heritage,
    prompt_id, category."""
    gains = load_every_prompt(tables, "last_gain", TWIN)
    made = []
    for pair in table.itertuples():
        common = choose_common_prompts(gains, pair.model_id, pair.instruct)
        base = common[common["model_id"] == pair.model_id]
        tuned = common[common["model_id"] == pair.instruct]
        both = base.merge(tuned[["prompt_id", "value"]], on="prompt_id", suffixes=("", "_tuned"))
        made.append(both.assign(log_ratio=np.log(both["value_tuned"] / both["value"])))
    columns = ["model_id", "heritage", "prompt_id", "category", "log_ratio"]
    return pd.concat(made, ignore_index=True)[columns] if made else pd.DataFrame(columns=columns)


def estimate_pair_ratio(
    both: pd.DataFrame, tuned: str, *, level: float, seed: int
) -> dict[str, Any]:
    """Geometric means of a base's gains and of a tuned model's, with 95% t intervals; their ratio.

    both: prompts by the two models, base first. tuned: what the second is called in the names.
    """
    base, child = (both[model] for model in both)
    b, c = (estimate_one_sample(gain, against=1, log=True, seed=seed) for gain in (base, child))
    ratio = estimate_paired_difference(child, base, level=level, seed=seed)
    figures: dict[str, Any] = {}
    for name, sample in (("base", b), (tuned, c)):
        figures |= {
            f"{name}_geometric": sample.ratio,
            f"{name}_lower": sample.ratio_lower,
            f"{name}_upper": sample.ratio_upper,
        }
    figures["flips"] = b.upper < 0 < c.lower or c.upper < 0 < b.lower
    figures |= {
        "ratio": ratio.ratio,
        "ratio_lower": ratio.ratio_lower,
        "ratio_upper": ratio.ratio_upper,
    }
    return figures | {"p": ratio.p_value}


def check_counts(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Numbers of pairs and measurements of the file; `table` from `build_pairs`."""
    figures = {"measurements": float(2 * table["n_prompts"].sum()), "pairs": float(len(table))}
    return Audit(load_stated(tables, COUNTS, TWIN), figures)


def check_gains(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Gains of the text and of the file, their standard deviations (divisor n), ratios and
    differences."""
    published = load_stated(tables, IN_THE_TEXT) | load_stated_models(tables, TWIN, PAIRS_BY_MODEL)
    true = table[table["base_and_child"]]
    figures = {LARGEST: float(100 * (true["instruct_gain"] / true["base_gain"] - 1).abs().max())}
    for row in table.itertuples():
        base = strip_owner(row.model_id)
        child = strip_owner(row.instruct)
        for name, gain, sd in (
            (base, row.base_gain, row.base_sd),
            (child, row.instruct_gain, row.instruct_sd),
        ):
            figures |= {name: gain, f"{name} in the file": gain, f"SD of {name}": sd}
        figures[f"{child} over its base"] = row.instruct_gain / row.base_gain
        figures[f"{child} less its base"] = row.instruct_gain - row.base_gain
    return Audit(
        published, {name: float(value) for name, value in figures.items() if name in published}
    )
