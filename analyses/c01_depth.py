"""C01: in the Pythia family the gain falls with depth."""

from dataclasses import replace

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Decide, Each, Posterior, V
from thermostats.modelling.classical.association import correlation, slope
from thermostats.modelling.laws.lines import fit_line
from thermostats.plots.general import drawing, gain_by_depth
from thermostats.studies.delia2026 import audit
from thermostats.studies.delia2026.gains import NAMED_GAINS, PYTHIA, Gain, gains

ALPHA = 0.05
WEAK = -0.3
SEED = 1
SCALE = 0.25
"""Models of one family whose gains differ by a factor e^0.25 = 1.3 would be no surprise."""
R = V("r")
WITHOUT_ONE = "correlations with one model left out"
FALLS = Decide(
    (R < 0) & (R.p <= ALPHA) & Each(WITHOUT_ONE, V("r") < 0),
    ((R > 0) & (R.p <= ALPHA)) | ((R.p > ALPHA) & (R.lower > WEAK)),
)
LINE = Posterior("slope on depth < 0", draws=V("n_layers") < 0)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence) -> pd.DataFrame:
    """The Pythia models by depth."""
    rows = gains(evidence)
    return rows[rows["source"] == PYTHIA].sort_values("n_layers", ignore_index=True)


@CLAIM.finding("depth", primary=FALLS, robustness=LINE, over=NAMED_GAINS[:1])
def penultimate(evidence: Evidence, gain: Gain) -> Result:
    """The gain that the study means, by a test and by a line through the log gains."""
    rows = models(evidence)
    error = rows["penultimate_gain_sd"] / rows["gain"] / np.sqrt(rows["n_prompts"])
    known = rows.assign(error=error)
    fit = fit_line(known, "log_gain", ["n_layers"], scale=SCALE, group=None, error="error", sources=[PYTHIA], seed=SEED)
    slopes = slope(rows, "gain ~ n_layers")
    columns = ["model_id", "heritage", "n_layers", "gain", "lower", "upper", *[one.column for one in NAMED_GAINS[1:]]]
    line = {"straight line": lambda L: slopes.intercept + slopes.estimate * L}
    result = other(evidence, gain)
    return replace(
        result,
        table=rows[columns],
        draw=drawing(gain_by_depth, rows, y="gain", lower="lower", upper="upper", curves=line, ylabel=gain.words),
        fit=fit,
        fit_tables=("rows",),
        audit=audit.depth(evidence, rows, seed=SEED),
        words={
            **result.words,
            "depth": correlation(rows["n_layers"], rows["gain"], seed=SEED),
            "density": correlation(rows["rho"], rows["gain"], seed=SEED),
            "together": correlation(rows["n_layers"], rows["rho"], seed=SEED),
            "growth": correlation(rows["n_layers"], np.log(rows["total_to_penultimate"]), seed=SEED),
            "own": {
                term: slope(rows, "log_gain ~ n_layers + rho", term=term, errors="classical")
                for term in ("n_layers", "rho")
            },
            "prompts": int(rows["n_prompts"].min()),
        },
    )


@CLAIM.finding("depth", primary=FALLS, over=NAMED_GAINS[1:])
def other(evidence: Evidence, gain: Gain) -> Result:
    """One named gain."""
    rows = models(evidence)
    r = correlation(rows["n_layers"], rows[gain.column], seed=SEED)
    parts = (rows.drop(place) for place in rows.index)
    without = [float(np.corrcoef(part["n_layers"], part[gain.column])[0, 1]) for part in parts]
    return Result.of(
        rows,
        {"r": Estimate.of(r, p=r.p_permutation)},
        rows={WITHOUT_ONE: pd.DataFrame({"r": without})},
        table=None,
        words={"permutation": r.permutation, "without": [min(without), max(without)]},
    )


if __name__ == "__main__":
    CLAIM.main()
