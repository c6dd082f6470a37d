"""What a fit returns: named arrays of draws, how they were made, and whether they may be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thermostats.errors import ThermostatsError, UsageError

Array = NDArray[np.float64]

LEVEL = 0.94
KIND = "ETI"
"""Equal-tailed: the interval of a log gain, exponentiated, is the interval of the gain."""
PASSED = "passed"
SAMPLER = "inconclusive: sampler"
RHAT_LIMIT, ESS_LIMIT, BFMI_LIMIT = 1.01, 400.0, 0.3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to sample; `retried()` gives the settings of the second and last attempt."""

    chains: int = 4
    draws: int = 1000
    """Kept per chain."""
    tune: int = 400
    """Discarded per chain; nutpie's own number. PyMC's own sampler takes 1000 where it is not told."""
    target_accept: float = 0.9
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
            raise UsageError("target_accept is no probability", got=self.target_accept, allowed="above 0 and below 1")
        if self.sampler not in {"nutpie", "pymc"}:
            raise UsageError("no such sampler", got=self.sampler, allowed="nutpie, pymc")

    def retried(self) -> Settings:
        """Smaller steps and twice the draws."""
        return Settings(
            chains=self.chains,
            draws=2 * self.draws,
            tune=2 * self.tune,
            target_accept=max(0.99, self.target_accept),
            sampler=self.sampler,
        )


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
    """Energy fraction of missing information, smallest over chains; Betancourt 2016, arXiv:1604.00695."""

    def failures(self) -> tuple[str, ...]:
        """What keeps these draws from being used, in words; empty where nothing does."""
        found = []
        if not self.rhat_max <= RHAT_LIMIT:
            found.append(f"R-hat {self.rhat_max:.3f} of {self.rhat_name} above {RHAT_LIMIT}")
        if not self.ess_bulk_min >= ESS_LIMIT:
            found.append(f"bulk ESS {self.ess_bulk_min:.0f} of {self.ess_bulk_name} below {ESS_LIMIT:.0f}")
        if not self.ess_tail_min >= ESS_LIMIT:
            found.append(f"tail ESS {self.ess_tail_min:.0f} of {self.ess_tail_name} below {ESS_LIMIT:.0f}")
        if self.divergences:
            found.append(f"{self.divergences} divergent transitions")
        if not self.bfmi_min >= BFMI_LIMIT:
            found.append(f"energy fraction {self.bfmi_min:.2f} below {BFMI_LIMIT}")
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Posterior draws of named quantities, arrays of shape chain × draw × …"""

    values: Mapping[str, Array]
    diagnostics: Diagnostics
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
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler` where the diagnostics fail after the second attempt."""
        return SAMPLER if self.diagnostics.failures() else PASSED

    def __getitem__(self, name: str) -> Array:
        """Draws of one quantity, chain × draw × …"""
        if name not in self.values:
            raise UsageError("no such quantity", got=name, allowed=", ".join(sorted(self.values)))
        return self.values[name]

    def flat(self, name: str) -> Array:
        """Draws of one quantity with chains joined, (chains·draws) × …"""
        values = self[name]
        return values.reshape(-1, *values.shape[2:])


def equal_tailed(values: Array, level: float = LEVEL, axis: int | tuple[int, ...] = 0) -> tuple[Array, Array]:
    """Quantiles (1 − level)/2 and (1 + level)/2 along an axis."""
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
