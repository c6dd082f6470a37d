"""What both engines return: named arrays of draws with their diagnostics; intervals, weights and
convergence of draws.

The only seam to ArviZ, 0.23 and 1.x, which is imported where a fit is handed over to it, and to its
statistics of arrays (`arviz_stats.base`), which both generations have.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import ThermostatsError, UsageError
from thermostats.formatting import format_count
from thermostats.settings import SAMPLERS, check_coverage, options

Array = NDArray[np.float64]
ARVIZ_NOTICE = r"\s*ArviZ is undergoing a major refactor"
"""What ArviZ 0.23 says once a day: both its generations are supported here."""

SEED = 1
"""Seed of a fit that names none."""
KIND = "ETI"
"""Equal-tailed: the interval of a log gain, exponentiated, is the interval of the gain."""
EXACT = "exact"
"""The engine of independent draws."""
PASSED = "passed"
SAMPLER = "inconclusive: sampler"
RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
BFMI_LIMIT = 0.3
MOST_DIVERGENT = 0.001
"""Share of divergent transitions above which draws are not used; up to there they warn."""
PARETO_LIMIT = 0.7
"""Importance ratios with a larger Pareto k cannot be trusted; Vehtari et al. 2024, JMLR 25(72)."""
TAILS = (0.05, 0.95)
LEAST_TAIL = 5
"""Draws in the tail of importance ratios that its Pareto shape takes."""
BOUNDED, MANY = 10.0, 1000
"""Of so many ratios none above so many times their mean: a tail of k = 0.7 does that in one case of
a thousand."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to sample; `retried()` gives the settings of the second and last attempt."""

    chains: int = 4
    draws: int = 1000
    """Stored per chain."""
    tune: int = 600
    """Discarded per chain."""
    target_accept: float = 0.95
    sampler: str = "nutpie"
    """nutpie, or pymc for PyMC's own."""

    def __post_init__(self) -> None:
        """Refuse what no sampler takes."""
        if self.chains < 2 or self.draws < 4 or self.tune < 10:
            raise UsageError(
                "too little sampling",
                got=f"{self.chains} chains of {self.tune} + {self.draws}",
                allowed="2 chains of 10 + 4 or more",
            )
        if not 0 < self.target_accept < 1:
            raise UsageError(
                "target_accept is not a probability",
                got=self.target_accept,
                allowed="above 0 and below 1",
            )
        if self.sampler not in {"nutpie", "pymc"}:
            raise UsageError("no such sampler", got=self.sampler, allowed="nutpie, pymc")

    def retried(self) -> Settings:
        """Give the settings of the second and last attempt: smaller steps and twice the draws.

        Returns
        -------
        Settings
            New ones.

        Examples
        --------
        >>> from thermostats.modelling.draws import Settings
        >>> Settings(draws=500).retried().draws
        1000
        """
        accept = max(0.99, self.target_accept)
        return replace(self, draws=2 * self.draws, tune=2 * self.tune, target_accept=accept)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Posterior draws of named quantities, arrays of shape chain × draw × …, and whether they may
    be used."""

    values: Mapping[str, Array]
    diagnostics: pd.DataFrame
    """diagnostic, worst, limit, quantity, passes, failure (in words)."""
    engine: str
    """`exact`, or the sampler."""
    settings: Settings
    """Settings of the attempt that counts."""
    attempts: int = 1
    effective: float = math.inf
    """Effective number: of the importance weights, or the smallest of any quantity."""
    log_evidence: float = math.nan
    """log p(y), of the exact engine alone."""
    seconds: float = math.nan

    def __post_init__(self) -> None:
        """Keep the arrays so that nobody who gets them can write into them."""
        object.__setattr__(self, "values", read_only(self.values))

    def __repr__(self) -> str:
        """Engine and number of draws, then a line a quantity; the arrays are in `values`."""
        effective = f", {self.effective:,.0f} effective" * math.isfinite(self.effective)
        head = f"{format_count(self.size, 'draw')} ({self.engine}{effective})"
        return f"{head}\n{NamedDraws(self.values)!r}"

    @property
    def exact(self) -> bool:
        """Whether the draws are independent, without chains."""
        return self.engine == EXACT

    @property
    def size(self) -> int:
        """Number of draws."""
        first = next(iter(self.values.values()))
        return int(first.shape[0] * first.shape[1])

    def list_exceeded_limits(self) -> tuple[str, ...]:
        """Every diagnostic that is beyond its limit, of nuisance parameters too, in words."""
        return tuple(self.diagnostics.loc[~self.diagnostics["passes"], "failure"])

    def failures(self) -> tuple[str, ...]:
        """Of these what keeps the draws from being used: not the energy fraction, nor few
        divergences."""
        table = self.diagnostics
        divergent = table["diagnostic"] == "divergences"
        few = divergent & (table["worst"] <= self.size * MOST_DIVERGENT)
        energy = table["diagnostic"] == "energy fraction"
        failed = ~table["passes"] & ~few & ~energy
        return tuple(table.loc[failed, "failure"])

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler` where some quantity fails after the second
        attempt."""
        return SAMPLER if self.failures() else PASSED

    def __getitem__(self, name: str) -> Array:
        """Draws of one quantity, chain × draw × …"""
        if name not in self.values:
            raise UsageError("no such quantity", got=name, allowed=", ".join(sorted(self.values)))
        return self.values[name]

    def flat(self, name: str) -> Array:
        """Draws of one quantity with chains joined, (chains·draws) × …"""
        values = self[name]
        chains, size, *shape = values.shape
        return values.reshape(chains * size, *shape)

    def few(self, size: int) -> dict[str, Array]:
        """At most so many draws of every quantity, evenly spaced, chains joined."""
        places = np.linspace(0, self.size - 1, min(size, self.size))
        rows = np.unique(places.round().astype(np.int64))
        return {name: self.flat(name)[rows] for name in self.values}


def split_chains(values: Mapping[str, Array], settings: Settings) -> dict[str, Array]:
    """Independent draws (size × …) as chain × draw × …; raises ThermostatsError where one is not
    finite."""
    check_finite(values)
    chains = {}
    for name, v in values.items():
        size = len(v) // settings.chains
        chains[name] = v.reshape(settings.chains, size, *v.shape[1:])
    return chains


def join_draws(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Draws that were made a part of them at a time, one part after another."""
    joined = {}
    for name in parts[0]:
        joined[name] = np.concatenate([part[name] for part in parts])
    return joined


def check_finite(values: Mapping[str, Array]) -> None:
    """Raise ThermostatsError where a quantity is not finite."""
    bad = []
    for name, array in values.items():
        if not np.isfinite(array).all():
            bad.append(name)
    if bad:
        raise ThermostatsError(
            "the sampler returned values that are not finite",
            got=", ".join(bad),
            next_step="look at the priors",
        )


def count_effective(weight: Array) -> float:
    """Effective number of draws of these weights, which sum to 1."""
    return float(1 / np.square(weight).sum())


def check_weights(effective: float, pareto_k: float) -> pd.DataFrame:
    """Diagnostics of importance weights."""
    return judge_diagnostics(
        [
            ("importance ESS", effective, ESS_LIMIT, "the scales", "{0} {1:.0f} below {2:.0f}"),
            ("Pareto k", pareto_k, PARETO_LIMIT, "the scales", "{0} {1:.2f} above {2}"),
        ]
    )


def check_chains(
    values: Mapping[str, Array], energy: Array, divergences: int
) -> tuple[pd.DataFrame, float]:
    """Diagnostics of sampled chains, and the smallest effective number; quantities that never vary
    are left out."""
    names = []
    columns = []
    for name, array in values.items():
        names += name_elements(name, array.shape[2:])
        columns.append(array.reshape(*array.shape[:2], -1))
    measures = measure_convergence(np.concatenate(columns, axis=2))
    rhat = measures["rhat"]
    bulk = measures["ess_bulk"]
    tail = measures["ess_tail"]
    steps = np.square(np.diff(energy, axis=1)).mean(axis=1)
    bfmi = steps / energy.var(axis=1)
    apart = np.nanargmax(rhat)
    few = np.nanargmin(bulk)
    few_of_tails = np.nanargmin(tail)
    worst_rhat = float(rhat[apart])
    least_bulk = float(bulk[few])
    least_tail = float(tail[few_of_tails])
    too_few = "{0} {1:.0f} of {3} below {2:.0f}"
    rows = [
        ("R-hat", worst_rhat, RHAT_LIMIT, names[apart], "{0} {1:.3f} of {3} above {2}"),
        ("bulk ESS", least_bulk, ESS_LIMIT, names[few], too_few),
        ("tail ESS", least_tail, ESS_LIMIT, names[few_of_tails], too_few),
        ("divergences", float(divergences), 0.0, "", "{1:.0f} divergent transitions"),
        ("energy fraction", float(bfmi.min()), BFMI_LIMIT, "", "{0} {1:.2f} below {2}"),
    ]
    return judge_diagnostics(rows), min(least_bulk, least_tail)


AT_MOST = {"R-hat", "divergences", "Pareto k"}
"""Diagnostics that hold at or below their limits; the others do at or above."""


def judge_diagnostics(rows: Sequence[tuple[str, float, float, str, str]]) -> pd.DataFrame:
    """Diagnostics, limits and whether they hold; the last entry of a row is its failure in
    words."""
    judged = []
    for diagnostic, worst, limit, quantity, failure in rows:
        passes = worst <= limit if diagnostic in AT_MOST else worst >= limit
        words = failure.format(diagnostic, worst, limit, quantity)
        judged.append((diagnostic, worst, limit, quantity, words, passes))
    columns = ["diagnostic", "worst", "limit", "quantity", "failure", "passes"]
    return pd.DataFrame(judged, columns=columns)


def measure_convergence(columns: Array) -> dict[str, Array]:
    """Rank-normalised R-hat and effective numbers of chain × draw × quantity; NaN for one that
    never varies.

    Vehtari et al. 2021, doi:10.1214/20-BA1221.
    """
    statistics = _import_statistics()
    measures: dict[str, Callable[[Array], Any]] = {
        "rhat": statistics.rhat,
        "ess_bulk": partial(statistics.ess, method="bulk"),
        "ess_tail": partial(statistics.ess, method="tail", prob=TAILS),
    }
    varying = np.flatnonzero(np.ptp(columns, axis=(0, 1)) > 0)
    measured = {}
    for name, measure in measures.items():
        measured[name] = np.full(columns.shape[2], np.nan)
        of_varying = [float(measure(columns[:, :, i])) for i in varying]
        measured[name][varying] = of_varying
    return measured


def summarise_quantities(
    quantities: Mapping[str, Array], *, level: float, exact: Collection[str] = ()
) -> pd.DataFrame:
    """One row per quantity (chain × draw × …): mean, sd, median, interval of a named kind and
    level, convergence.

    exact: those drawn independently, of whose convergence there is nothing to say.
    """
    tables = []
    for name, values in quantities.items():
        columns = values.reshape(*values.shape[:2], -1)
        lower, upper = find_equal_tailed(columns, level, axis=(0, 1))
        table = pd.DataFrame(
            {
                "quantity": name_elements(name, values.shape[2:]),
                "mean": columns.mean(axis=(0, 1)),
                "sd": columns.std(axis=(0, 1), ddof=1),
                "median": np.median(columns, axis=(0, 1)),
                "lower": lower,
                "upper": upper,
                "kind": KIND,
                "level": level,
            }
        )
        if name not in exact:
            table = table.assign(**measure_convergence(columns))
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def estimate_mcse(values: Array) -> float:
    """Monte-Carlo standard error of the mean of one quantity, chain × draw."""
    size = _import_statistics().ess(values, method="mean")
    return float(values.std(ddof=1) / np.sqrt(size))


def find_equal_tailed(
    values: Array, level: float | None = None, axis: int | tuple[int, ...] = 0
) -> tuple[Array, Array]:
    """Quantiles (1 − level)/2 and (1 + level)/2 along an axis; by default the session's level.

    Raises UsageError for a level below one half or not below 1.
    """
    level = check_coverage(options.level if level is None else level)
    tails = [(1 - level) / 2, (1 + level) / 2]
    lower, upper = np.quantile(values, tails, axis=axis)
    return lower, upper


def name_elements(name: str, shape: Iterable[int]) -> list[str]:
    """`name`, or `name[i]`, `name[i,j]` in the order of a flattened array."""
    shape = tuple(shape)
    elements = []
    for index in np.ndindex(*shape):
        place = ",".join(map(str, index))
        elements.append(f"{name}[{place}]" if shape else name)
    return elements


def normalise_pareto_weights(log_ratios: Array) -> tuple[Array, Array]:
    """Normalised log weights (… × draws) and Pareto k of importance ratios; Vehtari et al. 2024,
    JMLR 25(72).

    Ratios that are all the same are equal weights, k = −∞. Where the tail is one value or has fewer
    than `LEAST_TAIL` draws there is nothing to fit: the weights as they are, k = ∞, which no check
    trusts. Many ratios of which none is `BOUNDED` times their mean are bounded, k at most 0: next
    to a plateau a few larger look heavy.
    """
    size = log_ratios.shape[-1]
    rows = np.asarray(log_ratios, dtype=np.float64).reshape(-1, size)
    tail = int(3 * size**0.5) if size > 225 else size // 5
    ordered = np.sort(rows, axis=1)
    largest = ordered[:, -1]
    same = ordered[:, 0] == largest
    fitted = np.zeros(len(rows), dtype=bool)
    if tail >= LEAST_TAIL:
        fitted = ordered[:, -tail] != largest
    total = np.logaddexp.reduce(rows, axis=1)
    weights = rows - total[:, None]
    k = np.where(same, -np.inf, np.inf)
    if fitted.any():
        with np.errstate(over="ignore"):  # of shapes that do not count
            weights[fitted], k[fitted] = _import_statistics().psislw(-rows[fitted])
    if size >= MANY:
        even = fitted & (largest - total <= math.log(BOUNDED / size))
        k[even] = np.minimum(k[even], 0.0)
    shape = log_ratios.shape
    return weights.reshape(shape), k.reshape(shape[:-1])


def resample_systematically(
    weight: Array, size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows chosen by their weights, systematically, in random order."""
    heights = np.cumsum(weight) / weight.sum()
    places = np.searchsorted(heights, (rng.random() + np.arange(size)) / size)
    return rng.permutation(np.minimum(places, weight.size - 1))


LOG_PRIOR = "log_prior"
"""A group that `from_dict` does not know before ArviZ 1.0."""


def build_arviz(
    groups: Mapping[str, Mapping[str, Array]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[str]],
) -> Any:
    """Groups of variables as the installed ArviZ has them: InferenceData before 1.0, DataTree
    since."""
    arviz = _import_arviz()
    names = {"dims": dict(dims), "coords": dict(coords)}
    tables = {name: dict(group) for name, group in groups.items()}
    if not is_first_generation():
        return arviz.from_dict(tables, **names)
    further = {}
    for name in (LOG_PRIOR,):
        if name in tables:
            further[name] = tables.pop(name)
    data = arviz.from_dict(**tables, **names)
    if further:
        data.add_groups(further)
    return data


@cache
def list_versions() -> Mapping[str, str]:
    """Versions of what the draws depend on."""
    return {name: version(name) for name in SAMPLERS}


def is_first_generation() -> bool:
    """Whether ArviZ is older than 1.0."""
    return hasattr(_import_arviz(), "psislw")


def _import_statistics() -> Any:
    """ArviZ's statistics of arrays, which need neither its figures nor xarray."""
    return importlib.import_module("arviz_stats.base").array_stats


def _import_arviz() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=ARVIZ_NOTICE, category=FutureWarning)
        return importlib.import_module("arviz")


Statistic = Callable[[Array], Array]
"""One number from every data set, … × n to …"""
Quantities = Mapping[str, Array]
Statement = Callable[[Quantities], Any] | NDArray[np.bool_]
"""Truth of a statement draw by draw, from the quantities of a fit by name; or truth values of a
fit's own draws, which powers of the prior can weigh and no refit can answer."""
LOCATION: Mapping[str, Statistic] = {
    "mean": lambda y: y.mean(axis=-1),
    "spread": lambda y: y.std(axis=-1),
}


def evaluate_statement(statement: Statement, quantities: Quantities) -> NDArray[np.bool_]:
    """Whether it holds, chain × draw."""
    if isinstance(statement, np.ndarray):
        return np.asarray(statement, dtype=bool)
    return np.asarray(statement(quantities), dtype=bool)


def read_only(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The same arrays by name, through which nothing can be written."""
    views = {}
    for name, array in arrays.items():
        views[name] = np.asarray(array).view()
    for view in views.values():
        view.flags.writeable = False
    return views


class NamedDraws(dict[str, Any]):
    """Draws by name; at a prompt their shape, mean and standard deviation."""

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        lines = []
        for name, draws in self.items():
            lines.append(f"{name:{width}}  {_format_draws(np.asarray(draws))}")
        return "\n".join(lines)


class Statements(dict[str, Any]):
    """Functions of the quantities by name; at a prompt the names, which `probability` takes."""

    def __repr__(self) -> str:
        return "\n".join(self)


def _format_draws(draws: np.ndarray) -> str:
    chains, size, *shape = draws.shape
    what = f"{chains} × {size:,} draws"
    if shape:
        sides = " × ".join(map(str, shape))
        return f"{what} of {sides} elements"
    return f"{what}, mean {draws.mean():.4g}, sd {draws.std():.4g}"
