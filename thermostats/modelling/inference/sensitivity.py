"""What a fit says under other priors, and without what a reader may doubt: one table in all fits.

Lines are refitted exactly, with other errors by importance weights, as are all alternatives of sampled models;
`Fitted.sensitivity` samples these anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.checks import PARETO_LIMIT
from thermostats.modelling.inference.draws import Array, Draws, Settings, equal_tailed
from thermostats.modelling.inference.quadrature import Lines, Posterior, posterior

STATED = "as stated"
FACTORS = {"half the prior scales": 0.5, "twice the prior scales": 2.0}
NORMAL = "normal errors of the same variance"
HEAVY = "t₄ errors of the same variance"
NU = 4.0
SAME_SD = (NU / (NU - 2)) ** 0.5
"""Standard deviation of t_4 over its scale."""
AT_ONCE = 4_000_000
"""Numbers of a table of draws × rows; of more, fewer draws at a time."""
Quantities = Mapping[str, Callable[[Posterior], Array]]


def alternatives(lines: Lines, group: str = "lab") -> dict[str, Lines]:
    """The same rows under other priors, with exact outcomes, without group effects, without groups of one row."""
    found = {STATED: lines} | {
        name: replace(lines, sd=lines.sd * f, sigma_scale=lines.sigma_scale * f, tau_scale=lines.tau_scale * f)
        for name, f in FACTORS.items()
    }
    if lines.error.any():
        found["outcomes taken as exact"] = replace(lines, error=np.zeros(lines.y.size))
    if lines.n_groups:
        found[f"no effects of {group}s"] = replace(lines, n_groups=0)
        kept = np.bincount(lines.groups)[lines.groups] > 1
        if not kept.all() and kept.sum() >= 2:
            found[f"without {group}s of one model"] = lines.rows(kept)
    return found


def sensitivity(lines: Lines, quantities: Quantities, *, seed: int, group: str = "lab") -> pd.DataFrame:
    """One row an alternative and quantity: P(quantity > 0), median and interval.

    By exact refits, with t errors by importance weights.
    """
    stated = posterior(lines, seed=seed)
    exact = exactly_refitted(lines, quantities, seed=seed, group=group, stated=stated)
    drawn = {name: of(stated) for name, of in quantities.items()}
    heavy = weighted({HEAVY: heavy_errors(lines, stated)}, drawn, lines.y.size)
    return pd.concat([exact, heavy[heavy["alternative"] == HEAVY]], ignore_index=True)


def exactly_refitted(
    lines: Lines, quantities: Quantities, *, seed: int, group: str = "lab", stated: Posterior | None = None
) -> pd.DataFrame:
    """The same columns of `alternatives`; `stated`: the posterior under the stated priors, where it is there."""
    rows = []
    for name, other in alternatives(lines, group).items():
        found = stated if name == STATED and stated is not None else posterior(other, seed=seed)
        rows += [row(name, quantity, of(found), other.y.size) for quantity, of in quantities.items()]
    return pd.DataFrame(rows)


def heavy_errors(lines: Lines, found: Posterior) -> Array:
    """log(joint density with t_4 errors of variance d_i = σ² + error_i² / with normal ones) of every draw."""
    total = np.empty(found.sigma.size)
    for at in np.array_split(np.arange(total.size), -(-total.size * lines.y.size // AT_ONCE)):
        mean = found.beta[at] @ lines.X.T
        if lines.n_groups:
            mean = mean + np.pad(found.effects[at], ((0, 0), (0, 1)))[:, lines.groups]  # -1: none
        e = (lines.y - mean) / np.sqrt(np.square(found.sigma[at])[:, None] + np.square(lines.error))
        total[at] = (stats.t.logpdf(e * SAME_SD, NU) + np.log(SAME_SD) - stats.norm.logpdf(e)).sum(axis=1)
    return total


def row(alternative: str, quantity: str, drawn: Array, n: int) -> dict[str, object]:
    """One quantity under one alternative, from its draws; `n` outcomes."""
    low, high = equal_tailed(drawn.ravel())
    return {
        "alternative": alternative,
        "quantity": quantity,
        "P(> 0)": float((drawn > 0).mean()),
        "median": float(np.median(drawn)),
        "lower": float(low),
        "upper": float(high),
        "n": n,
    }


def weighted(log_ratios: Mapping[str, Array], quantities: Mapping[str, Array], n: int) -> pd.DataFrame:
    """The same columns by importance weights, and `pareto_k`: no numbers where the weights cannot be trusted.

    `log_ratios`: log(other/this joint density) of every draw by alternative; `quantities` of the same draws.
    """
    rows = []
    for name, ratio in ({STATED: np.zeros(next(iter(quantities.values())).size)} | dict(log_ratios)).items():
        at, k = resampled(ratio)
        for quantity, drawn in quantities.items():
            rows.append(row(name, quantity, drawn.ravel()[at], n) | {"pareto_k": k})
    table = pd.DataFrame(rows)
    table.loc[~(table["pareto_k"] <= PARETO_LIMIT), ["P(> 0)", "median", "lower", "upper"]] = np.nan
    return table


def resampled(log_ratio: Array) -> tuple[NDArray[np.int64], float]:
    """As many draws, by number, as importance weights choose at even spacing; and the Pareto k of the weights."""
    log_weights, k = sampling.pareto_smooth(log_ratio.ravel())
    total = np.exp(log_weights).cumsum()
    return np.searchsorted(total / total[-1], (np.arange(total.size) + 0.5) / total.size), float(k)


def refitted(
    model: sampling.Model,
    others: Mapping[str, Mapping[str, Any]],
    quantities: Callable[[Draws], Mapping[str, Array]],
    n: int,
    *,
    seed: int,
    settings: Settings,
    cache: bool,
    stated: Draws | None = None,
) -> pd.DataFrame:
    """The same columns with every alternative sampled anew, and the `status` of its draws.

    `stated`: the fit's own draws, which are not made again for their seed.
    """
    rows = []
    for name, data in others.items():
        known = stated if name == STATED and stated is not None and stated.seed == seed else None
        draws = known or sampling.fit(model, data, seed=seed, settings=settings, cache=cache)
        rows += [{**row(name, q, x, n), "status": draws.status} for q, x in quantities(draws).items()]
    return pd.DataFrame(rows)


def others_of(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Data of a sampled model as stated, with other prior scales (`factor`), and with errors that are `normal`."""
    found = {STATED: dict(data)} | {name: {**data, "factor": f} for name, f in FACTORS.items()}
    return found | {NORMAL: {**data, "normal": True}}


def rescaled(x: Array, scale: float, factor: float) -> Array:
    """Log ratio of N(0, (factor scale)²) to N(0, scale²), or of half-normals, summed over the axes after the draws."""
    ratio = -0.5 * np.square(x / scale) * (factor**-2 - 1) - np.log(factor)
    return np.asarray(ratio.reshape(*x.shape[:2], -1).sum(axis=-1))
