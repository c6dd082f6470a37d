"""C23: the total gain is the same at every depth."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    PUBLISHED,
    Case,
    Claim,
    Evidence,
    Result,
    Test,
    Trial,
    Views,
)
from thermostats.claims.rule import Decide, V
from thermostats.claims.worlds import build_exponent_worlds
from thermostats.modelling.classical.many import Many, fit_clustered_slopes
from thermostats.modelling.left_out import describe_left_out
from thermostats.plots.general import draw_gain_by_depth, prepare_drawing
from thermostats.studies.delia2026.published_gains import load_gains
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.schemas import INTERVENED

ALPHA = 0.05
TOTAL = 10.0
RIVAL = 0.9
"""Slope beyond the law's where every block is alike whatever the depth: 1 against about 0.1."""
HALF = RIVAL / 2
SCATTER = 0.5
"""SD of log log A about the line, such that 38 models have the slope's known error of 0.13."""
BEYOND = V("slope beyond the law's")
SLOPE = "slope"
WITHIN = (BEYOND.lower > -HALF) & (BEYOND.upper < HALF)
HOLDS = Decide(WITHIN & (BEYOND.p > ALPHA), BEYOND.p <= ALPHA)
INTERVAL = "95% t interval, labs as clusters"
CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Product(Case):
    """A product of gains of consecutive blocks up to L − 1."""

    first: int = 2
    """Its first block."""

    def count_gains(self, layers: Any) -> Any:
        """How many gains a model of so many layers has in it."""
        return layers - self.first

    def evaluate_law(self, layers: Any) -> Any:
        """The product where each block has a gain of 10^(1/L)."""
        return TOTAL ** (self.count_gains(layers) / layers)


PRODUCTS = (
    Product("from_block_1", "product of gains of blocks 2 to L − 1", "total_to_penultimate"),
    Product("from_input", "product of gains of blocks 1 to L − 1", "total_from_input", first=1),
)
models = CLAIM.shared(load_gains)


def select_growing(evidence: Evidence, what: Product) -> pd.DataFrame:
    """Comparable models whose product is above 1, of which log log A exists.

    Columns: `log_blocks`, `excess` (log log A − log log A of the law) and `law` (the latter).
    """
    every = models(evidence).dropna(subset=what.column)
    rows = drop_unlabelled(
        every[every["comparable"] & (every[what.column] > 1)].reset_index(drop=True), "heritage"
    )
    layers = rows["n_layers"].astype(float)
    product = rows[what.column].astype(float)
    law = np.log(np.log(what.evaluate_law(layers)))
    return rows.assign(
        log_blocks=np.log(what.count_gains(layers)), law=law, excess=np.log(np.log(product)) - law
    )


def compare_law(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Slope of log log A on the log of the number of blocks; p: against the law's slope on the same
    models."""
    x = rows["log_blocks"].to_numpy(np.float64)
    beyond = fit_clustered_slopes(x, outcomes["excess"], rows["heritage"])
    law = find_law_slope(rows)
    return {SLOPE: beyond.shift(law), BEYOND.name: beyond}


def find_law_slope(rows: pd.DataFrame) -> float:
    """Of log log A on the log of the number of blocks where each block has the law's gain."""
    return float(
        np.polyfit(rows["log_blocks"].to_numpy(np.float64), rows["law"].to_numpy(np.float64), 1)[0]
    )


AGAINST_THE_LAW = Test(compare_law, ("excess",), INTERVAL, "p-value against the law")
VIEWS = partial(Views, models=8, groups=3)


def build_trial(what: Product) -> Trial:
    """The test of a product in worlds whose errors go as far as its residuals allow."""
    worlds = build_exponent_worlds(
        "excess", "log_blocks", 0.0, RIVAL, SCATTER, measured=f"growth_{what.id}"
    )
    sizes = replace(worlds, null=RIVAL, others={"falling": -RIVAL})
    return Trial(select_growing, AGAINST_THE_LAW, "heritage", sizes)


@CLAIM.finding(
    "law",
    primary=HOLDS,
    over=PRODUCTS[:1],
    trial=build_trial,
    evidence=POOLED,
    views=VIEWS(sets=(PUBLISHED, EXTERNAL, MEASURED)),
)
def judge_block_product(evidence: Evidence, what: Product) -> Result:
    """The product that every model has, of all evidence first: the study's own models end at 36
    layers."""
    rows = select_growing(evidence, what)
    found = AGAINST_THE_LAW(rows)
    slope = found.quantities[SLOPE].value
    assert slope is not None  # noqa: S101
    level = float((rows["excess"] + rows["law"] - slope * rows["log_blocks"]).mean())
    curves = {
        "10^((L − 2)/L)": what.evaluate_law,
        "fitted": lambda L: np.exp(np.exp(level) * what.count_gains(L) ** slope),
    }
    deepest = rows[rows["n_layers"] == rows["n_layers"].max()]
    columns = ["model_id", "heritage", "n_layers", what.column, "gain"]
    return found.adding(
        table=rows[columns].assign(law=what.evaluate_law(rows["n_layers"].astype(float))),
        draw=prepare_drawing(
            draw_gain_by_depth, rows, y=what.column, curves=curves, ylabel=what.words, log="y"
        ),
        words={
            **describe_products(rows, what),
            "deepest": deepest.to_dict("records"),
            "left_out": describe_left_out(evidence.named(INTERVENED).table("interventions")),
        },
    )


@CLAIM.finding(
    "law",
    primary=HOLDS,
    over=PRODUCTS[1:],
    trial=build_trial,
    views=VIEWS(sets=(POOLED, EXTERNAL, MEASURED)),
)
def judge_input_product(evidence: Evidence, what: Product) -> Result:
    """The product from the embedding on, of the study's own files first."""
    rows = select_growing(evidence, what)
    return AGAINST_THE_LAW(rows).adding(words=describe_products(rows, what))


def describe_products(rows: pd.DataFrame, what: Product) -> dict[str, Any]:
    """Depths, and how the products lie."""
    product = rows[what.column].astype(float)
    return {
        "depths": (int(rows["n_layers"].min()), int(rows["n_layers"].max())),
        "median": float(product.median()),
        "above": int((product > TOTAL).sum()),
        "of_law": find_law_slope(rows),
        "total": TOTAL,
        "law_at": {int(L): TOTAL ** (1 / L) for L in sorted(set(rows["n_layers"].astype(int)))},
    }


if __name__ == "__main__":
    CLAIM.main()
