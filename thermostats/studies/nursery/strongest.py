"""Factors of the third study's recipes, each tested alone: the strongest of them, its ratio of gains, and a figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import NEVER, Decide, Some, V
from thermostats.plots.general import drawing, forest
from thermostats.studies.nursery import crossed_factors, third

ALPHA, RATIO = 0.05, "ratio"
MOVED = Decide(Some("factors", V("F").p <= ALPHA, adjust="holm"), NEVER)
STRONGEST = "F of the strongest factor"
IN_WORDS = {
    "log_rate": "log rate",
    "shrinking": "decay over training",
    "depth_power": "init by depth",
    "log_init": "log init",
    "log_embed": "log embedding",
    "log_warmup": "log warm-up",
    "log_batch": "log batch",
    "log_clip": "log clipping",
    "log_tokens": "log tokens",
}
"""Factors whose columns do not say what they are."""


def strongest(rows: pd.DataFrame, tests: pd.DataFrame) -> Result:
    """The factor with the least p of some tests."""
    best = tests.loc[tests["p"].idxmin()]
    f = Estimate(float(best["F"]), p=float(min(1.0, best["p"] * len(tests))), p_kind="p-value, Bonferroni")
    return Result.of(rows, {STRONGEST: f}, rows={"factors": tests}, words={"factor": best["factor"]})


def by_corpus_and_others(rows: pd.DataFrame) -> Result:
    """The corpus, which every recipe has in turn, and all else in which recipes differ."""
    return strongest(rows, crossed_factors.tests(rows, corpus=True))


def by_all_else(rows: pd.DataFrame) -> Result:
    """Everything in which recipes differ but the corpus, of rows with one a recipe."""
    return strongest(rows, crossed_factors.factor_tests(rows, third.FACTORS))


def headed(result: Result, rows: pd.DataFrame, table: pd.DataFrame) -> Result:
    """A result headed by its factor's ratio in a table of contrasts, which it shows."""
    row = table.set_index("factor").loc[result.words["factor"]]
    interval = f"95% t interval, recipes as the unit, Bonferroni over {len(table)} factors"
    ends = {name: row[name] for name in ("lower", "upper")}
    ratio = replace(result.quantities[STRONGEST], value=row["ratio"], interval=interval, **ends)
    return replace(
        result,
        quantities={RATIO: ratio, **result.quantities},
        n_models=int(rows["n"].sum()),
        table=table,
        words={
            "factor": IN_WORDS.get(str(row.name), row.name),
            "what": row["what"],
            "of_variance": row["share"],
            "tests": len(table),
        },
        draw=of_ratios(table.assign(factor=table["factor"].replace(IN_WORDS))),
    )


def of_ratios(table: pd.DataFrame) -> Callable[..., None]:
    """Figure of the ratios of a table."""
    named, xlabel = table.assign(row=table["factor"] + ": " + table["what"]), "ratio of geometric mean gains"
    return drawing(forest, named, label="row", estimate="ratio", null=1.0, xlabel=xlabel, log="x")
