"""|predicted − L*|/L of every rule for the transition layer, of networks and labs that it was not fitted on.

The logit model's rivals: a polynomial L* = L (a + b L + c/H), one place for all, the middle, and a published formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from thermostats.modelling.draws import Array, equal_tailed
from thermostats.modelling.fit import Fit
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.leave_out import folds, held_out
from thermostats.modelling.lines import Line, gaussian_of
from thermostats.modelling.scales import HalfNormals
from thermostats.settings import options

Formula = tuple[float, float, float]
"""a, b, c of L* = L (a + b L + c/H)."""
ROUNDING = 12**-0.5
"""Standard error of L* in layers: it is a whole number."""
FRACTION_SD, FRACTION_SPREAD = 0.5, 0.25
"""Prior scales of the refitted polynomial's terms and residual, in units of the depth."""


def predictions(line: Line, published: Formula | None, fit: Fit) -> pd.DataFrame:
    """L* and every rule's prediction from other labs, one row per network."""
    labs = folds(fit.rows["heritage"].astype(str).tolist())
    return _compared(line, fit, labs, np.ones(len(fit.rows), dtype=bool), published)[0]


def across_labs(line: Line, published: Formula | None, fit: Fit) -> pd.DataFrame:
    """Errors of every rule with each lab left out."""
    labs = folds(fit.rows["heritage"].astype(str).tolist())
    return _compared(line, fit, labs, np.ones(len(fit.rows), dtype=bool), published)[1]


def within_labs(line: Line, published: Formula | None, fit: Fit) -> pd.DataFrame:
    """Errors with each network left out alone, of many every twentieth together; empty where no lab has two."""
    several = fit.rows["heritage"].duplicated(keep=False).to_numpy()
    if not several.any():
        return pd.DataFrame(columns=["rule", "error_of_depth"])
    return _compared(line, fit, folds(fit.rows["model_id"].astype(str).tolist()), several, published)[1]


def _compared(
    line: Line, fit: Fit, names: Sequence[str], counted: NDArray[np.bool_], published: Formula | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Predictions of every rule and L*, one row per network, and their errors, one row per rule, the best first.

    Rules that are fitted predict every fold from the others; only networks `counted` count.
    """
    every, seed = fit.rows, fit.seed
    depth = every["n_layers"].to_numpy(dtype=np.float64)
    rows = every.loc[counted, ["model_id", "heritage", "n_layers", "n_heads", "L_star"]].copy()
    L, star = depth[counted], rows["L_star"].to_numpy()
    fixed = {"L/2": L / 2}
    if published:
        a, b, c = published
        fixed["published formula"] = L * (a + b * L + c / rows["n_heads"].to_numpy(dtype=np.float64))
    drawn = {}
    for name, each in (("logit", line), ("mean fraction", replace(line, covariates=(), sd=line.sd[:1]))):
        model = gaussian_of(each, every)
        logits = held_out(model, model.sample(seed=seed), names, seed=seed, size=4000, measured=False).draws
        drawn[name] = np.clip(np.ceil(expit(logits) * depth), 1, depth)
    model = _polynomial(every)
    drawn["polynomial"] = held_out(model, model.sample(seed=seed), names, seed=seed, size=4000).draws * depth
    errors: list[dict[str, object]] = []
    for name, layers in fixed.items():
        rows[name] = layers
        errors.append({"rule": name, "fitted": False, **_errors(layers, star, L)})
    for name, values in drawn.items():
        low, high = equal_tailed(values[:, counted])
        middle = np.median(values[:, counted], axis=0)
        rows[name], rows[f"{name}_lower"], rows[f"{name}_upper"] = middle, low, high
        spread = {
            "coverage": ((low <= star) & (star <= high)).mean(),
            "width_of_depth": ((high - low) / L).mean(),
            "interval_inside": ((low >= 0.5) & (high <= L + 0.5)).mean(),
        }
        errors.append({"rule": name, "fitted": True, **_errors(middle, star, L), **spread})
    return rows, pd.DataFrame(errors).sort_values("error_of_depth", ignore_index=True)


def _errors(predicted: Array, star: Array, L: Array) -> dict[str, float]:
    """Errors of one rule, and the error of depth of L/2 minus the rule's, paired by network, with its t interval."""
    off = np.abs(predicted - star)
    gained = np.abs(L / 2 - star) / L - off / L
    reach = stats.t.ppf((1 + options.level) / 2, gained.size - 1) * gained.std(ddof=1) / gained.size**0.5
    return {
        "error_of_depth": float((off / L).mean()),
        "mape": float((off / star).mean()),
        "inside": float(((predicted >= 0.5) & (predicted <= L + 0.5)).mean()),
        "better_than_half": float(gained.mean()),
        "better_than_half_lower": float(gained.mean() - reach),
        "better_than_half_upper": float(gained.mean() + reach),
    }


def _polynomial(rows: pd.DataFrame) -> Gaussian:
    """L*/L as a + b L + c/H, with L in units of the largest and 1/H of the smallest."""
    L, H = (rows[name].to_numpy(dtype=np.float64) for name in ("n_layers", "n_heads"))
    return Gaussian(
        y=rows["L_star"].to_numpy(dtype=np.float64) / L,
        X=np.column_stack([np.ones(L.size), L / L.max(), H.min() / H]),
        sd=np.full(3, FRACTION_SD),
        blocks={},
        prior=HalfNormals((FRACTION_SPREAD,)),
        error=ROUNDING / L,
    )


def terms(published: Formula | None, fit: Fit) -> pd.DataFrame:
    """The polynomial's terms as published and as fitted."""
    L, H = (fit.rows[name].to_numpy(dtype=np.float64) for name in ("n_layers", "n_heads"))
    drawn = _polynomial(fit.rows).sample(seed=fit.seed).flat("beta") / np.array([1.0, L.max(), 1 / H.min()])
    low, high = equal_tailed(drawn)
    stated = {"published": published} if published else {}
    return pd.DataFrame({"term": [*"abc"], **stated, "median": np.median(drawn, axis=0), "lower": low, "upper": high})
