"""What the model families return: named quantities, probabilities, numbers, tables, and the checks of their draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.calibration import Calibration, Simulator, calibrate
from thermostats.modelling.inference.draws import LEVEL, PASSED, SAMPLER, Array, Draws
from thermostats.modelling.inference.interface import (
    Prior,
    Replicates,
    Update,
    Updates,
    new_axes,
    plain,
    records,
    sampler_table,
    updates_of,
)

POWERS = (0.8, 1.25)
"""Powers of the prior in the sensitivity check."""
CHECKED = 500
"""Draws that are replicated, of fewer all."""
UPDATED = 2000
"""Draws from the prior that stand beside those of the posterior."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One sampled model of a fit with what its checks need; the functions are called when it is checked."""

    draws: Draws
    observed: Array
    statistics: Mapping[str, checks.Statistic]
    """Test quantities of the outcome, chosen for the claim."""
    decisive: Mapping[str, Array | NDArray[np.bool_]]
    """Draws of what a verdict may rest on; indicators for probabilities."""
    prior: Callable[[int], Array]
    """Seed to outcomes under the prior, draws × rows."""
    replicate: Callable[[int], Array]
    """Seed to replicated outcomes of draws at even spacing, draws × rows."""
    density: Callable[[], Array]
    """Log density of every outcome under the same draws, draws × rows."""
    log_prior: Callable[[], Array]
    """Log prior density of the quantities that no other depends on, one a draw."""
    updates: Updates = lambda seed: {}
    """Seed to the quantities that no other depends on, before and after the data."""
    simulator: Simulator
    """What calibration asks of this model."""
    loo: Callable[[int], checks.Check] | None = None
    """Seed to the LOO-PIT where there is a better way than importance weights of the draws."""


def sampled_part(
    model: sampling.Model,
    data: Mapping[str, Any],
    draws: Draws,
    outcome: str,
    *,
    observed: Array,
    top: Sequence[str],
    statistics: Mapping[str, checks.Statistic],
    decisive: Mapping[str, Array | NDArray[np.bool_]],
    simulator: Simulator,
) -> Part:
    """A part whose outcome is an observed variable of the model; `top`: quantities whose priors the checks scale."""

    def density() -> Array:
        found = sampling.log_likelihood(model, data, draws)[outcome]
        found = found.reshape(-1, found.shape[-1])
        return np.asarray(found[np.linspace(0, len(found) - 1, min(CHECKED, len(found))).astype(int)])

    def updates(seed: int) -> dict[str, Update]:
        prior = sampling.prior_predictive(model, data, seed=seed, draws=UPDATED)
        return updates_of({name: prior[name] for name in top}, draws.values)

    return Part(
        draws=draws,
        observed=observed,
        statistics=statistics,
        decisive=decisive,
        prior=lambda seed: sampling.prior_predictive(model, data, seed=seed, draws=CHECKED)[outcome],
        replicate=lambda seed: sampling.posterior_predictive(model, data, draws, seed=seed, draws=CHECKED)[outcome],
        density=density,
        log_prior=lambda: sampling.log_prior(model, data, draws, list(top)),
        updates=updates,
        simulator=simulator,
    )


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """One fit of one model family to one table; every interval is equal-tailed at `level`."""

    family: str
    estimand: str
    """Which gain, or which definition of a layer, at which position."""
    sources: tuple[str, ...]
    """Files or measurements that the rows come from."""
    n_models: int
    n_heritages: int
    parts: Mapping[str, Part]
    quantities: Mapping[str, Array]
    """Draws of what is reported, chain × draw × …"""
    probabilities: Mapping[str, float]
    """Posterior probabilities by what they are of."""
    numbers: Mapping[str, float]
    """Other single figures by name."""
    tables: Mapping[str, pd.DataFrame]
    warnings: tuple[str, ...]
    figure: Callable[[Fitted, Axes], Axes]
    seed: int
    level: float = LEVEL
    refits: Callable[[int], pd.DataFrame] | None = None
    """Seed to the table `sensitivity` with every alternative sampled anew, where it rests on importance weights."""
    influence: Callable[[int], checks.Check] | None = None
    """Seed to what exact refits without each lab, model or pair say; None where none can be left out."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the elements of quantities that are arrays."""
    equations: tuple[str, ...] = ()
    """The model, a line an equation."""
    priors: tuple[Prior, ...] = ()
    """Every prior: quantity, distribution, reason."""
    gates: dict[int, checks.Gate] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What `check` has found, by seed: several findings may rest on one fit."""

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler` where the draws of any part fail their gate."""
        return PASSED if all(part.draws.status == PASSED for part in self.parts.values()) else SAMPLER

    @property
    def sampled(self) -> dict[str, Draws]:
        """Draws of every part."""
        return {name: part.draws for name, part in self.parts.items()}

    def to_arviz(self) -> dict[str, Any]:
        """Draws of every part as the installed ArviZ has them: InferenceData before 1.0, DataTree since."""
        return {name: sampling.to_arviz(draws) for name, draws in self.sampled.items()}

    def summary(self) -> pd.DataFrame:
        """One row a quantity: mean, sd, median, interval of its kind and level, R-hat and effective sample sizes."""
        table = sampling.summary(self.quantities, level=self.level)
        named = {f"{name}[{i}]": f"{name}[{label}]" for name, own in self.labels.items() for i, label in enumerate(own)}
        return table.assign(
            quantity=table["quantity"].replace(named), estimand=self.estimand, sources="; ".join(self.sources)
        )

    def diagnostics(self) -> pd.DataFrame:
        """The sampler's diagnostics of every part."""
        return sampler_table(self.sampled)

    def updates(self, *, seed: int | None = None) -> dict[str, Update]:
        """Quantities that no other depends on, before and after the data; parts of one model share theirs."""
        chosen = self.seed if seed is None else seed
        return {name: update for part in self.parts.values() for name, update in part.updates(chosen).items()}

    def replicates(self, *, seed: int | None = None) -> dict[str, Replicates]:
        """Observed and replicated outcomes of every part."""
        chosen = self.seed if seed is None else seed
        return {
            name: Replicates(observed=part.observed, replicated=part.replicate(chosen), statistics=part.statistics)
            for name, part in self.parts.items()
        }

    def check(self, *, seed: int | None = None) -> checks.Gate:
        """Every part: sampler, prior and posterior predictive, LOO-PIT, power-scaled priors; then influence of labs."""
        chosen = self.seed if seed is None else seed
        if chosen not in self.gates:
            found = [replace(c, name=f"{name}: {c.name}") for name, p in self.parts.items() for c in _checks(p, chosen)]
            one = self.influence(chosen) if self.influence else checks.nothing_left_out("too few to leave one out")
            found.append(one)
            self.gates[chosen] = checks.Gate(checks=tuple(found))
        return self.gates[chosen]

    def sensitivity(self, *, seed: int | None = None) -> pd.DataFrame:
        """The table `sensitivity`; where it rests on importance weights by new sampling, as long as the fit each."""
        return self.refits(self.seed if seed is None else seed) if self.refits else self.table("sensitivity")

    def calibrate(
        self,
        simulations: int = 200,
        *,
        part: str | None = None,
        seed: int | None = None,
        cache: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Calibration:
        """Simulation-based calibration of a part (by default the first) on this design: one refit a simulation.

        Outcomes are drawn from the prior, each is fitted by the same model and method in few draws, and the truths are
        ranked in the posteriors. Sampled parts go on where an interrupted call stopped.
        Raises UsageError for a part that the fit does not have and as `calibration.calibrate`.
        """
        name = next(iter(self.parts)) if part is None else part
        if name not in self.parts:
            raise UsageError("no such part of the fit", got=name, allowed=", ".join(self.parts))
        chosen = self.seed if seed is None else seed
        return calibrate(self.parts[name].simulator, simulations, seed=chosen, cache=cache, progress=progress)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the fit's figure onto the axes, or onto those of a new figure, and return them."""
        return self.figure(self, axes or new_axes())

    def table(self, name: str) -> pd.DataFrame:
        """One of `tables`."""
        if name not in self.tables:
            raise UsageError("no such table in the fit", got=name, allowed=", ".join(self.tables))
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as JSON takes it: missing and infinite numbers are null."""
        return {
            "family": self.family,
            "estimand": self.estimand,
            "sources": list(self.sources),
            "n_models": self.n_models,
            "n_heritages": self.n_heritages,
            "status": self.status,
            "level": self.level,
            "seed": self.seed,
            "equations": list(self.equations),
            "priors": [list(line) for line in self.priors],
            "versions": dict(next(iter(self.parts.values())).draws.versions),
            "gate": {name: list(part.draws.diagnostics.failures()) for name, part in self.parts.items()},
            "summary": records(self.summary()),
            "probabilities": {name: plain(value) for name, value in self.probabilities.items()},
            "numbers": {name: plain(value) for name, value in self.numbers.items()},
            "tables": {name: records(table) for name, table in self.tables.items()},
            "warnings": list(self.warnings),
        }


def _checks(part: Part, seed: int) -> list[checks.Check]:
    replicated, log_prior = part.replicate(seed), part.log_prior()
    powers = {f"prior to the power {p:g}": checks.power_scaling(log_prior, power=p) for p in POWERS}
    return [
        checks.diagnostics(part.draws),
        checks.prior_predictive(part.prior(seed), part.observed, part.statistics),
        checks.posterior_predictive(replicated, part.observed, part.statistics),
        part.loo(seed) if part.loo else checks.loo_pit(part.density(), replicated, part.observed, seed=seed),
        checks.prior_sensitivity(powers, part.decisive),
    ]
