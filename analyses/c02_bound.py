"""C02: the maximum gain is bounded by 10^(1/L), so that no network amplifies more than tenfold."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from thermostats.claims.claim import Audit, Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Decide, Posterior, V
from thermostats.modelling.classical.association import correlation, power_law, slope
from thermostats.modelling.classical.counts import one_sample_bound
from thermostats.modelling.laws.depth import fit_kleiber
from thermostats.plots.general import drawing, gain_by_depth
from thermostats.studies.delia2026.gains import FOUR, HUNT, PYTHIA, features_of, gains, prompt_counts
from thermostats.studies.delia2026.stated import stated, stated_by_model

TOTAL = 10.0
TOLERATED = 0.05
MOST = 0.25
SEED = 2
SHARE = "share of models above"
REFUTED_BY_ONE = Decide((V("models above") <= 0) & (V(SHARE).upper < MOST), V("models above") > 0)

CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Bound:
    """One thing that the bound can be about."""

    id: str
    words: str
    column: str
    per_block: bool = True
    """Whether the bound is 10^(1/L), else 10 whatever the depth."""

    def of(self, rows: pd.DataFrame) -> pd.Series:
        """The bound of every model."""
        return TOTAL ** (1 / rows["n_layers"]) if self.per_block else pd.Series(TOTAL, index=rows.index)


GAINS = (
    Bound("max_gain", "the largest gain of blocks 2 to L − 1", "max_gain_to_penultimate"),
    Bound("penultimate_gain", "the penultimate gain (block L − 1)", "gain"),
    Bound("geometric_gain", "the mean gain a block of blocks 2 to L − 1", "geometric_gain_to_penultimate"),
)
PRODUCTS = (
    Bound("from_block_1", "the product of gains of blocks 2 to L − 1", "total_to_penultimate", per_block=False),
    Bound("from_input", "the product of gains of blocks 1 to L − 1", "total_from_input", per_block=False),
)


@CLAIM.shared
def models(evidence: Evidence) -> pd.DataFrame:
    """One row a model, those that norm after the residual sum among them."""
    return gains(evidence)


def comparable(evidence: Evidence) -> pd.DataFrame:
    """Models whose gains depend on their weights."""
    every = models(evidence)
    return every[every["comparable"]].reset_index(drop=True)


@CLAIM.finding("bound", primary=REFUTED_BY_ONE, robustness=Posterior("every model below 10^(1/L)"), over=GAINS[:1])
def largest(evidence: Evidence, what: Bound) -> Result:
    """The largest gain, by counting and by a power law with free constants."""
    rows, features = comparable(evidence), features_of(evidence, PYTHIA, HUNT)
    counts = prompt_counts(evidence, features)
    law = power_law(rows["n_layers"], np.log10(rows[what.column]), against=-1.0)
    logs = pd.DataFrame({"log_L": np.log10(rows["n_layers"]), "log_G": np.log10(np.log10(rows[what.column]))})
    columns = ["model_id", "heritage", "n_layers", *[one.column for one in (*GAINS, *PRODUCTS)]]
    products = stated_by_model(evidence, FOUR, {"{}": r"/results/[^/]+/final_cumulative"})
    curves, ylabel = {"bound 10^(1/L)": lambda L: TOTAL ** (1 / L)}, "largest gain, blocks 2 to L − 1"
    result = bounded(evidence, what)
    return replace(
        result,
        table=rows[columns].assign(bound=what.of(rows)),
        draw=drawing(gain_by_depth, rows, y=what.column, curves=curves, ylabel=ylabel),
        fit=fit_kleiber(features, what.column, source=[PYTHIA, HUNT], prompt_counts=counts, seed=SEED),
        fit_tables=("models", "quantiles", "rivals"),
        audit=Audit(
            stated(evidence, {"total gain ≤": "section 4.1, eq. 3"}),
            {"total gain ≤": float(rows["total_to_penultimate"].max())},
        ),
        words={
            **result.words,
            "law": law,
            "classical": slope(logs, "log_G ~ log_L", errors="classical"),
            "growth": [correlation(rows["n_layers"], np.log(rows[one.column]), seed=SEED) for one in PRODUCTS],
            "products": list(products.values()),
            "tenfold": sum(value > TOTAL for value in products.values()),
            "left_out": models(evidence).loc[lambda every: ~every["comparable"], "model_id"].tolist(),
        },
    )


@CLAIM.finding("total", primary=REFUTED_BY_ONE, over=PRODUCTS)
@CLAIM.finding("bound", primary=REFUTED_BY_ONE, over=GAINS[1:])
def bounded(evidence: Evidence, what: Bound) -> Result:
    """How many models lie above the bound, and by how much."""
    known = comparable(evidence).dropna(subset=what.column)
    bound = what.of(known)
    found = one_sample_bound(known[what.column], bound, tolerated=TOLERATED)
    return Result.of(
        known,
        {SHARE: Estimate.of(found), "models above": Estimate(found.n_above)},
        table=None,
        words={
            "found": found,
            "families_above": known.loc[known[what.column] > bound, "family"].nunique(),
            "families": known["family"].nunique(),
            "tolerated": TOLERATED,
        },
    )


if __name__ == "__main__":
    CLAIM.main()
