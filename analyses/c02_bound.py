"""C02: the maximum gain is bounded by 10^(1/L), so that no network amplifies more than tenfold."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import (
    Audit,
    Case,
    Claim,
    Evidence,
    Inference,
    Result,
    Test,
    Trial,
    Views,
)
from thermostats.claims.rule import Always, Posterior, V
from thermostats.claims.worlds import build_bound_worlds
from thermostats.modelling.classical.association import (
    estimate_correlation,
    estimate_slope,
    fit_power_law,
)
from thermostats.modelling.classical.counts import measure_exceedance
from thermostats.modelling.classical.many import Many, estimate_shares, wrap_counts
from thermostats.modelling.columns import read_numbers
from thermostats.modelling.kleiber import fit_envelope
from thermostats.modelling.specification import build_fraction_above
from thermostats.plots.general import draw_gain_by_depth, prepare_drawing
from thermostats.studies.delia2026 import curves
from thermostats.studies.delia2026.stated_facts import (
    FOUR,
    build_penultimate_features,
    load_gains,
    load_stated,
    load_stated_models,
)

TOTAL = 10.0
TOLERATED = 0.05
MOST = 0.25
"""Share of models above at which a bound is none: the null of the simulated worlds."""
LEVEL = 0.95
SEED = 2
SHARE = "share of models above"
CLEAR = "models clearly above"
WITHIN_BOUND = Always("models above", V(SHARE).upper < MOST, CLEAR)
ENVELOPE = Posterior(
    "envelope at most 10^(1/L) at the middle depth", draws=V("frontier_over_bound") <= 1
)

CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Bound(Case):
    """One thing that the bound can be about."""

    per_block: bool = True
    """Whether the bound is 10^(1/L), else 10 whatever the depth."""

    def find_bounds(self, rows: pd.DataFrame) -> pd.Series:
        """The bound of every model."""
        return (
            TOTAL ** (1 / rows["n_layers"])
            if self.per_block
            else pd.Series(TOTAL, index=rows.index)
        )


GAINS = (
    Bound("max_gain", "the largest gain of blocks 2 to L − 1", "max_gain_to_penultimate"),
    Bound("penultimate_gain", "the penultimate gain (block L − 1)", "gain"),
    Bound(
        "geometric_gain",
        "the mean gain per block of blocks 2 to L − 1",
        "geometric_gain_to_penultimate",
    ),
)
PRODUCTS = (
    Bound(
        "from_block_1",
        "the product of gains of blocks 2 to L − 1",
        "total_to_penultimate",
        per_block=False,
    ),
    Bound(
        "from_input",
        "the product of gains of blocks 1 to L − 1",
        "total_from_input",
        per_block=False,
    ),
)


models = CLAIM.shared(load_gains)


def select_comparable(evidence: Evidence) -> pd.DataFrame:
    """Models whose gains depend on their weights."""
    every = models(evidence)
    return every[every["comparable"]].reset_index(drop=True)


def add_bound(evidence: Evidence, what: Bound) -> pd.DataFrame:
    """Comparable models with the outcome, its bound and its relative error of measurement.

    The error of a block is that of the penultimate gain over prompts, the one that was published;
    errors of the blocks of a product are taken to go together, which is the most that they can add
    up to.
    """
    rows = select_comparable(evidence).dropna(subset=what.column)
    half = (rows["upper"] - rows["gain"]) / rows["gain"]
    error = half / stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"] - 1)
    blocks = 1 if what.per_block else rows["n_layers"] - 2
    return rows.assign(
        outcome=rows[what.column], bound=what.find_bounds(rows), error=error * blocks
    ).reset_index(drop=True)


def count_above(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """How many models lie above the bound, with and without their errors of measurement."""
    values = outcomes["outcome"]
    bound = rows["bound"].to_numpy(np.float64)
    read_numbers(values[0], "values", positive=True)
    reach = rows["error"].to_numpy(np.float64) * stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"] - 1)
    above = values > bound
    clear = values * np.exp(-reach) > bound
    counts = {"models above": wrap_counts(above.sum(axis=1)), CLEAR: wrap_counts(clear.sum(axis=1))}
    return {SHARE: estimate_shares(above), **counts}


def describe_above(rows: pd.DataFrame, result: Result) -> Result:
    """By how much models lie above, and which clearly do."""
    found = measure_exceedance(rows["outcome"], rows["bound"], tolerated=TOLERATED)
    lower = rows["outcome"] * np.exp(
        -rows["error"] * stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"] - 1)
    )
    return result.adding(
        words={"found": found, "clear": list(rows.loc[lower > rows["bound"], "model_id"])}
    )


ABOVE = Test(
    count_above, ("outcome",), "95% Clopper–Pearson exact interval", describe=describe_above
)
VIEWS = Views(models=5)
TRIAL = Trial(
    add_bound, ABOVE, "", build_bound_worlds("outcome", "bound", "error", MOST, "n_layers", SHARE)
)


@CLAIM.finding(
    "bound", primary=WITHIN_BOUND, robustness=ENVELOPE, over=GAINS[:1], trial=TRIAL, views=VIEWS
)
def judge_largest(evidence: Evidence, what: Bound) -> Result:
    """The largest gain, by counting and by a power law with free constants."""
    rows, (features, known) = select_comparable(evidence), build_penultimate_features(evidence)
    law = fit_power_law(rows["n_layers"], np.log10(rows[what.column]), against=-1.0)
    logs = pd.DataFrame(
        {"log_L": np.log10(rows["n_layers"]), "log_G": np.log10(np.log10(rows[what.column]))}
    )
    columns = ["model_id", "heritage", "n_layers", *[one.column for one in (*GAINS, *PRODUCTS)]]
    products = load_stated_models(evidence, FOUR, {"{}": r"/results/[^/]+/final_cumulative"})
    curves = {"bound 10^(1/L)": lambda L: TOTAL ** (1 / L)}
    ylabel = "largest gain, blocks 2 to L − 1"
    return judge_bound(evidence, what).adding(
        table=rows[columns].assign(bound=what.find_bounds(rows)),
        draw=prepare_drawing(draw_gain_by_depth, rows, y=what.column, curves=curves, ylabel=ylabel),
        inference=Inference(
            later=partial(fit_envelope, features, what.column, **known, seed=SEED),
            tables=("models", "quantiles", "rivals"),
        ),
        audit=Audit(
            load_stated(evidence, {"total gain ≤": "section 4.1, eq. 3"}),
            {"total gain ≤": float(rows["total_to_penultimate"].max())},
        ),
        words={
            "law": law,
            "classical": estimate_slope(logs, "log_G ~ log_L", errors="classical"),
            "growth": [
                estimate_correlation(rows["n_layers"], np.log(rows[one.column]), seed=SEED)
                for one in PRODUCTS
            ],
            "products": list(products.values()),
            "tenfold": sum(value > TOTAL for value in products.values()),
            "left_out": models(evidence)
            .loc[lambda every: ~every["comparable"], "model_id"]
            .tolist(),
        },
    )


@CLAIM.finding("total", primary=WITHIN_BOUND, over=PRODUCTS, trial=TRIAL, views=VIEWS)
@CLAIM.finding("bound", primary=WITHIN_BOUND, over=GAINS[1:], trial=TRIAL, views=VIEWS)
def judge_bound(evidence: Evidence, what: Bound) -> Result:
    """Models above the bound, and their families."""
    rows = add_bound(evidence, what)
    above = rows.loc[rows["outcome"] > rows["bound"], "family"].nunique()
    words = {"families_above": above, "families": rows["family"].nunique(), "tolerated": TOLERATED}
    return ABOVE(rows).adding(words=words)


CLAIM.curve(
    f"bound.{GAINS[0].id}",
    rows=curves.collect_universe_rows,
    choices=curves.BOUND,
    estimate=build_fraction_above,
    test=lambda rows: ABOVE(curves.prepare_bound_rows(rows)),
    above=False,
)


if __name__ == "__main__":
    CLAIM.main()
