"""Pairs of base and tuned models: their gains by prompt, and the audit of the study's counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.formatting import strip_owner
from thermostats.modelling.classical.association import (
    estimate_one_sample,
    estimate_paired_difference,
)
from thermostats.modelling.classical.many import measure_margin
from thermostats.studies.delia2026.prompt_gains import TWIN, load_every_prompt
from thermostats.studies.delia2026.stated_facts import (
    check_figures,
    index_models,
    load_stated,
    load_stated_models,
)
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
    models = index_models(tables, last=True)
    here = sorted(set(gains["model_id"]))
    facts = models.loc[here]
    tuned = facts.index[facts["variant"] == "instruct"]
    if tables.name in VIEWS:
        parents = facts.loc[tuned, "parent"]
        return {child: base for child, base in parents.items() if base in facts.index}
    is_base = facts["variant"] != "instruct"
    bases = facts.loc[is_base, "family"]
    matched = {}
    for child in tuned:
        family = facts.loc[child, "family"]
        of_family = bases.index[bases == family]
        matched[child] = of_family[0]
    return matched


def choose_common_prompts(gains: pd.DataFrame, base: str, child: str) -> pd.DataFrame:
    """Gains of a base and of a model tuned from it, one run of each, on a prompt set that both
    met; empty where there is none."""
    of_pair = gains["model_id"].isin([base, child])
    rows = gains[of_pair]
    met = rows.groupby("prompt_set")["model_id"].transform("nunique")
    n_models = len({base, child})
    on_both = rows[met == n_models]
    return choose_prompt_set(on_both)


def build_pairs(tables: Evidence, *, seed: int) -> pd.DataFrame:
    """One row per pair of `match_bases`: gains of both with intervals, their ratio (Bonferroni over
    pairs), and who was tuned from whom.

    Every pair is on prompts that both met, which need not be those of another pair.
    `base_and_child` is false where a model was tuned from another than the base that it stands
    with.
    """
    gains = load_every_prompt(tables, "last_gain", TWIN)
    models = index_models(tables, last=True)
    labs = gains.drop_duplicates("model_id").set_index("model_id")["heritage"]
    pairs = dict[tuple[str, str], pd.DataFrame]()
    for child, base in match_bases(tables, gains).items():
        common = choose_common_prompts(gains, base, child)
        wide = common.pivot(index="prompt_id", columns="model_id", values="value")
        both = wide.reindex(columns=[base, child]).dropna()
        if len(both) > 1:
            pairs[base, child] = both
    rows = []
    level = 1 - 0.05 / max(1, len(pairs))
    for (base, child), both in pairs.items():
        before = both[base]
        after = both[child]
        parent = models.loc[child, "parent"]
        ratio = estimate_pair_ratio(both, "instruct", level=level, seed=seed)
        flips = (before > 1) != (after > 1)
        pair = {
            "model_id": base,
            "instruct": child,
            "heritage": labs[child],
            "base_and_child": parent == base,
            "n_prompts": len(both),
            "base_sd": before.std(ddof=0),
            "instruct_sd": after.std(ddof=0),
            "base_gain": before.mean(),
            "instruct_gain": after.mean(),
            **ratio,
            "prompts_that_flip": int(flips.sum()),
        }
        rows.append(pair)
    columns = None if rows else ["model_id", "instruct", "heritage", "base_and_child"]
    return pd.DataFrame(rows, columns=columns)


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
    features = tables.table("features").dropna(subset=gain)
    rows = keep_last_revision(features, "model_id")
    n = rows["n_prompts"].astype("float64")
    sd = rows[f"{gain}_sd"].astype("float64")
    quantile = measure_margin(1.0, (n - 1).clip(lower=1))
    error = (sd / np.sqrt(n) * quantile).fillna(0.0)
    off = rows[gain] - 1
    clear = off.abs() > error
    side = np.sign(off) * clear
    gains = rows[gain].astype("float64")
    rows = rows.assign(gain=gains, side=side.astype("float64"), n_prompts=n.fillna(0.0))
    has_parent = rows["parent"] != ""
    tuned = rows[(rows["variant"] == "instruct") & has_parent]
    tuned = tuned[[*facts, "parent", "heritage", "n_prompts", "gain", "side"]]
    both = rows[[*facts, "gain", "side"]].merge(
        tuned, left_on=facts, right_on=["parent", *facts[1:]], suffixes=("_base", "")
    )
    both = both.sort_values("n_prompts", ascending=False, kind="stable").drop_duplicates("model_id")
    flips = both["side"] * both["side_base"] < 0
    named = both.assign(instruct=both["model_id"], flips=flips)
    named["model_id"] = both["model_id_base"]
    named = named.rename(columns={"gain_base": "base_gain", "gain": "instruct_gain"})
    return named[PAIR].sort_values("instruct", ignore_index=True)


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
        ratio = both["value_tuned"] / both["value"]
        made.append(both.assign(log_ratio=np.log(ratio)))
    columns = ["model_id", "heritage", "prompt_id", "category", "log_ratio"]
    if not made:
        return pd.DataFrame(columns=columns)
    return pd.concat(made, ignore_index=True)[columns]


def estimate_pair_ratio(
    both: pd.DataFrame, tuned: str, *, level: float, seed: int
) -> dict[str, Any]:
    """Geometric means of a base's gains and of a tuned model's, with 95% t intervals; their ratio.

    both: prompts by the two models, base first. tuned: what the second is called in the names.
    """
    base, child = (both[model] for model in both)
    b = estimate_one_sample(base, against=1, log=True, seed=seed)
    c = estimate_one_sample(child, against=1, log=True, seed=seed)
    ratio = estimate_paired_difference(child, base, level=level, seed=seed)
    rises = b.upper < 0 < c.lower
    falls = c.upper < 0 < b.lower
    return {
        "base_geometric": b.ratio,
        "base_lower": b.ratio_lower,
        "base_upper": b.ratio_upper,
        f"{tuned}_geometric": c.ratio,
        f"{tuned}_lower": c.ratio_lower,
        f"{tuned}_upper": c.ratio_upper,
        "flips": rises or falls,
        "ratio": ratio.ratio,
        "ratio_lower": ratio.ratio_lower,
        "ratio_upper": ratio.ratio_upper,
        "p": ratio.p_value,
    }


def check_counts(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Numbers of pairs and measurements of the file; `table` from `build_pairs`."""
    figures = (len(table), 2 * table["n_prompts"].sum())
    return check_figures(tables, COUNTS, figures, TWIN)


def check_gains(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Gains of the text and of the file, their standard deviations (divisor n), ratios and
    differences."""
    published = load_stated(tables, IN_THE_TEXT) | load_stated_models(tables, TWIN, PAIRS_BY_MODEL)
    true = table[table["base_and_child"]]
    change = true["instruct_gain"] / true["base_gain"] - 1
    largest = 100 * change.abs().max()
    figures = {LARGEST: float(largest)}
    for row in table.itertuples():
        base = strip_owner(row.model_id)
        child = strip_owner(row.instruct)
        for name, gain, sd in (
            (base, row.base_gain, row.base_sd),
            (child, row.instruct_gain, row.instruct_sd),
        ):
            figures[name] = gain
            figures[f"{name} in the file"] = gain
            figures[f"SD of {name}"] = sd
        figures[f"{child} over its base"] = row.instruct_gain / row.base_gain
        figures[f"{child} less its base"] = row.instruct_gain - row.base_gain
    reproduced = {name: float(value) for name, value in figures.items() if name in published}
    return Audit(published, reproduced)
