"""What a fit returns: named arrays of draws, how they were made, whether they may be used; and how they are kept.

The user's cache folder has one file per model, data, settings and versions.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.choices import LEVEL as LEVEL  # noqa: PLC0414 (said here too)
from thermostats.choices import options
from thermostats.errors import ThermostatsError, UsageError
from thermostats.tables.caching import CACHE_VARIABLE, OFF

Array = NDArray[np.float64]

SEED = 1
"""Of a fit that names none."""
KIND = "ETI"
"""Equal-tailed: the interval of a log gain, exponentiated, is the interval of the gain."""
PASSED = "passed"
SAMPLER = "inconclusive: sampler"
RHAT_LIMIT, ESS_LIMIT, BFMI_LIMIT = 1.01, 400.0, 0.3
MOST_DIVERGENT = 0.001
"""Share of divergent transitions above which draws are not used; up to there they warn."""
PARETO_LIMIT = 0.7
"""Importance ratios with a larger Pareto k cannot be trusted; Vehtari et al. 2024, JMLR 25(72)."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to sample; `retried()` gives the settings of the second and last attempt."""

    chains: int = 4
    draws: int = 1000
    """Kept per chain."""
    tune: int = 400
    """Discarded per chain; nutpie's own number. PyMC's own sampler takes 1000 by default."""
    target_accept: float = 0.9
    sampler: str = "nutpie"
    """nutpie, or pymc for PyMC's own"""

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
                "target_accept is not a probability", got=self.target_accept, allowed="above 0 and below 1"
            )
        if self.sampler not in {"nutpie", "pymc"}:
            raise UsageError("no such sampler", got=self.sampler, allowed="nutpie, pymc")

    def retried(self) -> Settings:
        """Smaller steps and twice the draws."""
        accept = max(0.99, self.target_accept)
        return replace(self, draws=2 * self.draws, tune=2 * self.tune, target_accept=accept)


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Worst values over all sampled quantities; those that never vary are left out."""

    rhat_max: float
    """Rank-normalised split R-hat, Vehtari et al. 2021, doi:10.1214/20-BA1221."""
    rhat_name: str
    ess_bulk_min: float
    ess_bulk_name: str
    ess_tail_min: float
    ess_tail_name: str
    divergences: int
    bfmi_min: float
    """Energy fraction of missing information, smallest over chains; Betancourt 2016, arXiv:1604.00695.

    NaN where chains have no energy, and so no divergences."""

    def table(self) -> pd.DataFrame:
        """One row per diagnostic: diagnostic, worst, limit, quantity, passes, and its failure in words."""
        rows = [
            ("R-hat", self.rhat_max, RHAT_LIMIT, self.rhat_name, "{0} {1:.3f} of {3} above {2}"),
            ("bulk ESS", self.ess_bulk_min, ESS_LIMIT, self.ess_bulk_name, "{0} {1:.0f} of {3} below {2:.0f}"),
            ("tail ESS", self.ess_tail_min, ESS_LIMIT, self.ess_tail_name, "{0} {1:.0f} of {3} below {2:.0f}"),
            ("divergences", float(self.divergences), 0.0, "", "{1:.0f} divergent transitions"),
            ("energy fraction", self.bfmi_min, BFMI_LIMIT, "", "{0} {1:.2f} below {2}"),
        ]
        return _judged(rows[:3] if math.isnan(self.bfmi_min) else rows)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Of independent draws: nothing where they are by quadrature, else how even the weights are that chose them."""

    effective: float = math.inf
    """Effective number 1/Σw² of the weights by which they were chosen."""
    pareto_k: float = -math.inf
    name: str = "importance weights"

    def table(self) -> pd.DataFrame:
        """As that of `Diagnostics`; no row where there are no weights."""
        rows = [
            ("importance ESS", self.effective, ESS_LIMIT, self.name, "{0} {1:.0f} of {3} below {2:.0f}"),
            ("Pareto k", self.pareto_k, PARETO_LIMIT, self.name, "{0} {1:.2f} of {3} above {2}"),
        ]
        return _judged([row for row in rows if not math.isinf(row[1])])


def _judged(rows: list[tuple[str, float, float, str, str]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["diagnostic", "worst", "limit", "quantity", "failure"])
    at_most = table["diagnostic"].isin(["R-hat", "divergences", "Pareto k"])
    passes = np.where(at_most, table["worst"] <= table["limit"], table["worst"] >= table["limit"])
    return table.assign(passes=passes.astype(bool), failure=[words.format(*row) for *row, words in rows])


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Posterior draws of named quantities, arrays of shape chain × draw × …"""

    values: Mapping[str, Array]
    diagnostics: Diagnostics | Weights
    settings: Settings
    """Of the attempt that is kept."""
    attempts: int
    seed: int
    compile_seconds: float
    sample_seconds: float
    versions: Mapping[str, str] = field(default_factory=dict)
    from_cache: bool = False
    exact: bool = False
    """Independent draws by quadrature or importance weights: no chains, nothing adapted."""

    @property
    def short(self) -> bool:
        """Whether its chains are groups of short ones, one after another: without energy, and so no divergences."""
        return isinstance(self.diagnostics, Diagnostics) and math.isnan(self.diagnostics.bfmi_min)

    @property
    def effective(self) -> float:
        """Smallest effective sample size, bulk or tail; of independent draws that of their weights, at most all."""
        if isinstance(self.diagnostics, Weights):
            return min(self.diagnostics.effective, self.settings.chains * self.settings.draws)
        return min(self.diagnostics.ess_bulk_min, self.diagnostics.ess_tail_min)

    def beyond_limits(self) -> tuple[str, ...]:
        """Every diagnostic that is beyond its limit, of nuisance parameters too, in words."""
        table = self.diagnostics.table()
        return tuple(table.loc[~table["passes"], "failure"])

    def failures(self) -> tuple[str, ...]:
        """Of these what keeps the draws from being used: not the energy fraction, nor few divergences."""
        table = self.diagnostics.table().set_index("diagnostic")
        few = self.settings.chains * self.settings.draws * MOST_DIVERGENT
        warns = (table.index == "energy fraction") | ((table.index == "divergences") & (table["worst"] <= few))
        return tuple(table.loc[~table["passes"] & ~warns, "failure"])

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler` where some quantity fails after the second attempt."""
        return SAMPLER if self.failures() else PASSED

    def __getitem__(self, name: str) -> Array:
        """Draws of one quantity, chain × draw × …"""
        if name not in self.values:
            raise UsageError("no such quantity", got=name, allowed=", ".join(sorted(self.values)))
        return self.values[name]

    def flat(self, name: str) -> Array:
        """Draws of one quantity with chains joined, (chains·draws) × …"""
        values = self[name]
        return values.reshape(-1, *values.shape[2:])


def equal_tailed(values: Array, level: float | None = None, axis: int | tuple[int, ...] = 0) -> tuple[Array, Array]:
    """Quantiles (1 − level)/2 and (1 + level)/2 along an axis; by default the session's level."""
    level = options.level if level is None else level
    lower, upper = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=axis)
    return lower, upper


def element_names(name: str, shape: Iterable[int]) -> list[str]:
    """`name`, or `name[i]`, `name[i,j]` in the order of a flattened array."""
    shape = tuple(shape)
    return [f"{name}[{','.join(map(str, index))}]" if shape else name for index in np.ndindex(*shape)]


def finite(values: Mapping[str, Array]) -> None:
    """Raise ThermostatsError where a sampled quantity is not finite."""
    bad = [name for name, array in values.items() if not np.isfinite(array).all()]
    if bad:
        raise ThermostatsError(
            "the sampler returned values that are not finite", got=", ".join(bad), next_step="look at the priors"
        )


def source_of(function: Callable[..., Any]) -> str:
    """Name and source of a function's module, so that a changed helper is a changed model.

    Functions without a source file (an interactive session) are known by their compiled code.
    """
    module = inspect.getmodule(function)
    try:
        source = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        source = ""
    if not source:
        code = function.__code__
        source = repr((code.co_code, code.co_consts, code.co_names, function.__defaults__))
    return f"{function.__module__}.{function.__qualname__}\n{source}"


def cache_key(model: Callable[..., Any], data: Mapping[str, Any], **settings: object) -> str:
    """SHA-256 over model source, arrays with their types and shapes, and settings."""
    digest = hashlib.sha256(source_of(model).encode())
    for name in sorted(data):
        value = data[name]
        if isinstance(value, np.ndarray):
            digest.update(f"{name}:{value.dtype}:{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(f"{name}:{value!r}".encode())
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def load_draws(path: Path) -> Draws | None:
    """Draws of a cache file; None where there is none or it is damaged, which is as good as none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            record = json.loads(str(file["record"]))
            values = {name.removeprefix("draws/"): file[name] for name in file.files if name.startswith("draws/")}
        return Draws(
            values=values,
            diagnostics=Diagnostics(**record.pop("diagnostics")),
            settings=Settings(**record.pop("settings")),
            from_cache=True,
            **record,
        )
    except Exception:  # a damaged archive raises whatever it comes upon; draws that are not kept are made afresh
        return None


def save_draws(path: Path, draws: Draws) -> None:
    """Write draws to a temporary file and rename it.

    Raises UsageError where the folder cannot be written.
    """
    record = asdict(replace(draws, values={}))
    del record["values"], record["from_cache"]
    arrays: dict[str, Any] = {f"draws/{name}": array for name, array in draws.values.items()}
    write_whole(path, lambda file: np.savez(file, record=np.array(json.dumps(record)), **arrays))


def write_whole(path: Path, put: Callable[[IO[bytes]], None]) -> None:
    """Write a file of the cache whole or not at all: under another name, then renamed.

    Raises UsageError where the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".partial", delete=False) as file:
            put(file)
        Path(file.name).replace(path)
    except OSError as error:
        raise UsageError(
            "the cache of draws cannot be written",
            where=path.parent,
            got=error,
            next_step=f"set {CACHE_VARIABLE} to another folder, or to {OFF}",
        ) from error
