"""`compare`: fits of the same outcomes by how well they predict them, or two models in their folders by their weights.

Of fits the table has the columns of ArviZ's `compare`: expected log predictive density of outcomes left out, its
difference from the best with the standard error over outcomes, and stacking weights (Yao et al. 2018,
doi:10.1214/17-BA1091).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from thermostats.errors import SHOWN_OF, UsageError
from thermostats.modelling.draws import Array
from thermostats.modelling.fit import Fit
from thermostats.modelling.leave_out import LeftOut
from thermostats.modelling.sampling import Sampled

if TYPE_CHECKING:
    from thermostats.measurement.compare import Comparison

LINE = 'thermostats.compare({"first": FIT, "second": OTHER})'


@overload
def compare(first: Mapping[str, Fit]) -> pd.DataFrame: ...
@overload
def compare(first: str | Path, second: str | Path, *, data: str | Path | None = None) -> Comparison: ...
def compare(first: Any, second: Any = None, *, data: Any = None) -> Any:
    """Fits by name, {"with lab": a, "without": b}, as a table; or two folders of models, tensor by tensor.

    Fits: indexed by name, the best first: rank (0 is the best), elpd, elpd_diff (below the best's), weight (stacking:
    of the mixture of predictive densities that predicts best), se, dse (of the difference), p_worse (that the expected
    difference is above 0, by its normal error; NaN of the best). Folders: a `Comparison`, see
    `thermostats.measurement`.

    Raises UsageError for what is neither, for fits of other outcomes, and for models that cannot be subtracted.
    """
    if isinstance(first, Mapping):
        return of_fits(first)
    if isinstance(first, Fit) or isinstance(second, Fit):
        raise UsageError("fits are compared by name", got="fits without names", allowed="a dict", next_step=LINE)
    if not all(isinstance(folder, (str, Path)) for folder in (first, second)):
        got = ", ".join(type(each).__name__ for each in (first, second))
        allowed = "a dict of fits, or the folders of two models"
        raise UsageError("nothing to compare", got=got, allowed=allowed, next_step=LINE)
    from thermostats.measurement.compare import compare as of_models  # noqa: PLC0415 - reads weights

    return of_models(first, second, data=data)


def of_fits(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """The table of `compare`; UsageError for fewer than two fits, or fits of other outcomes."""
    if strange := [name for name, fit in fits.items() if not isinstance(fit, Fit)]:
        got = f"{strange[0]}: {fits[strange[0]]!r}"[:SHOWN_OF]
        raise UsageError("not a fit", got=got, allowed="fits of the same outcomes", next_step=LINE)
    if len(fits) < 2:
        raise UsageError("nothing to compare", got=f"{len(fits)} fit", allowed="two or more", next_step=LINE)
    observed = [fit.model.observed for fit in fits.values()]
    if any(y.shape != observed[0].shape or not np.allclose(y, observed[0]) for y in observed[1:]):
        sizes = ", ".join(f"{name}: {y.size} outcomes" for name, y in zip(fits, observed, strict=True))
        raise UsageError("only fits of the same outcomes can be compared", got=sizes)
    alone = len({isinstance(fit.model, Sampled) for fit in fits.values()}) > 1
    return compared({str(name): fit.left_out_alone if alone else fit.loo() for name, fit in fits.items()})


def compared(left_out: Mapping[str, LeftOut]) -> pd.DataFrame:
    """The table of predictions of the same outcomes; UsageError where others were left out together."""
    folds = {frozenset(each.log_density) for each in left_out.values()}
    if len(folds) > 1:
        raise UsageError("other outcomes were left out together", got=", ".join(f"{len(f)} folds" for f in folds))
    points = pd.DataFrame({name: pd.Series(dict(each.log_density)) for name, each in left_out.items()})
    order = list(points.sum().sort_values(ascending=False).index)
    points, spread = points[order], len(points) ** 0.5
    below = (-points).add(points[order[0]], axis=0)
    difference, error = below.sum().to_numpy(), below.std().to_numpy() * spread
    with np.errstate(divide="ignore", invalid="ignore"):
        worse = stats.norm.cdf(difference / error)
    table = {
        "rank": range(len(order)),
        "elpd": points.sum().to_numpy(),
        "elpd_diff": difference,
        "weight": stacked(points.to_numpy()),
        "se": points.std().to_numpy() * spread,
        "dse": error,
        "p_worse": np.where(np.arange(len(order)) == 0, np.nan, worse),
    }
    return pd.DataFrame(table, index=pd.Index(order, name="fit"))


def stacked(points: Array) -> Array:
    """Weights w ≥ 0, Σ w = 1, that make Σ_i log Σ_k w_k exp(points_ik) largest; points × fits."""
    density = np.exp(points - points.max(axis=1, keepdims=True))

    def negative(x: Array) -> tuple[float, Array]:
        weight = special.softmax(np.append(x, 0.0))
        mixed = density @ weight
        slope = weight * ((density / mixed[:, None]).sum(axis=0) - len(points))
        return -float(np.log(mixed).sum()), -slope[:-1]

    best: Sequence[float] = optimize.minimize(negative, np.zeros(points.shape[1] - 1), jac=True, method="BFGS").x
    return np.asarray(special.softmax(np.append(best, 0.0)))
