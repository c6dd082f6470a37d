"""Pairs of a base model and the model tuned from it: last gains over the prompts both answered, and their audit."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.modelling.classical.means import one_sample, paired_difference
from thermostats.studies.delia2026.by_prompt import TWIN, gain_by_prompt
from thermostats.studies.delia2026.stated import stated, stated_by_model
from thermostats.words import short_name

COUNTS = {"pairs": "/n_families", "measurements": "/n_total_measurements"}
LARGEST = "largest change, %"
IN_THE_TEXT = {
    "gemma-7b": "section 5.5 Gemma base",
    "gemma-7b-it": "section 5.5 Gemma instruct",
    LARGEST: "section 5.5 change",
}
BASE, TUNED = r"/twin_summary/[^/]+/base/", r"/twin_summary/[^/]+/instruct/"
BY_MODEL = {
    "{} in the file": f"({BASE}|{TUNED})mean_gain",
    "SD of {}": f"({BASE}|{TUNED})std_gain",
    "{} over its base": r"/hypothesis_results/\d+/Ratio",
    "{} less its base": r"/hypothesis_results/\d+/Delta",
}


def by_prompt(tables: Evidence) -> pd.DataFrame:
    """Last gains by model and prompt, with the model's `variant` and `parent`."""
    models = tables.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    return gain_by_prompt(tables, "last_gain", TWIN).merge(models, on="model_id")


def pairs(tables: Evidence, *, seed: int) -> pd.DataFrame:
    """One row a pair: gains of both with intervals, their ratio (Bonferroni over pairs), and who was tuned from whom.

    A tuned model stands with the base of its family; `base_and_child` is false where it was tuned from another.
    """
    gains = gain_by_prompt(tables, "last_gain", TWIN)
    models = tables.table("models").set_index("model_id")
    wide = gains.pivot(index="prompt_id", columns="model_id", values="value")
    rows = []
    tuned = [model for model in wide if models.loc[model, "variant"] == "instruct"]
    for child in tuned:
        family = models.loc[[m for m in wide if m not in tuned], "family"]
        base = family.index[family == models.loc[child, "family"]][0]
        both = wide[[base, child]].dropna()
        b, c = (one_sample(both[m], against=1, log=True, seed=seed) for m in (base, child))
        ratio = paired_difference(both[child], both[base], level=1 - 0.05 / len(tuned), seed=seed)
        rows.append(
            {
                "model_id": base,
                "instruct": child,
                "heritage": models.loc[child, "heritage"],
                "base_and_child": models.loc[child, "parent"] == base,
                "n_prompts": len(both),
                "base_sd": both[base].std(ddof=0),
                "instruct_sd": both[child].std(ddof=0),
                "base_gain": both[base].mean(),
                "instruct_gain": both[child].mean(),
                "base_geometric": b.ratio,
                "base_lower": b.ratio_lower,
                "base_upper": b.ratio_upper,
                "instruct_geometric": c.ratio,
                "instruct_lower": c.ratio_lower,
                "instruct_upper": c.ratio_upper,
                "flips": b.upper < 0 < c.lower or c.upper < 0 < b.lower,
                "ratio": ratio.ratio,
                "ratio_lower": ratio.ratio_lower,
                "ratio_upper": ratio.ratio_upper,
                "p": ratio.p_value,
                "prompts_that_flip": int(((both[base] > 1) != (both[child] > 1)).sum()),
            }
        )
    return pd.DataFrame(rows)


def counts_audit(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Numbers of pairs and measurements of the file; `table` from `pairs`."""
    found = {"measurements": float(2 * table["n_prompts"].sum()), "pairs": float(len(table))}
    return Audit(stated(tables, COUNTS, TWIN), found)


def gains_audit(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Gains of the text and of the file, their standard deviations (divisor n), ratios and differences."""
    published = stated(tables, IN_THE_TEXT) | stated_by_model(tables, TWIN, BY_MODEL)
    true = table[table["base_and_child"]]
    found = {LARGEST: float(100 * (true["instruct_gain"] / true["base_gain"] - 1).abs().max())}
    for row in table.itertuples():
        base, child = short_name(row.model_id), short_name(row.instruct)
        for name, gain, sd in ((base, row.base_gain, row.base_sd), (child, row.instruct_gain, row.instruct_sd)):
            found |= {name: gain, f"{name} in the file": gain, f"SD of {name}": sd}
        found[f"{child} over its base"] = row.instruct_gain / row.base_gain
        found[f"{child} less its base"] = row.instruct_gain - row.base_gain
    return Audit(published, {name: float(value) for name, value in found.items() if name in published})
