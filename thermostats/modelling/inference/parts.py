"""Parts of a fit: what its checks need of data and draws, from a sampled model or from draws made directly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.inference import checks
from thermostats.modelling.inference.calibration import Simulator
from thermostats.modelling.inference.checks import MOST_STATISTICS, SHAPES, Check, Statistic
from thermostats.modelling.inference.draws import Array, Draws, element_names

CHECKED = 500
"""Draws that are replicated, of fewer all."""
AXES = {"pair": "pair", "model_id": "model_id", "prompt_id": "prompt_id", "group": "group", "heritage": "lab"}
"""Columns that name what a row is of, and the dimension each is called by; ArviZ keeps `model` for what it compares."""
UPDATED = 2000
"""Draws from the prior that accompany those of the posterior."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """One quantity before and after the data."""

    prior: Array
    posterior: Array
    """Both one draw an entry."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One sampled model of a fit with what its checks need; the functions are called when it is checked."""

    draws: Draws
    observed: Array
    statistics: Mapping[str, Statistic]
    """At most five test quantities of the outcome, which bear on what is asked: the gate closes on them."""
    shapes: Mapping[str, Statistic] = field(default_factory=lambda: SHAPES)
    """Further ones that only warn."""
    prior: Callable[[int], Array]
    """Seed to outcomes under the prior, draws × rows."""
    replicate: Callable[[int], Array]
    """Seed to replicated outcomes of draws at even spacing, draws × rows."""
    density: Callable[[], Array]
    """Log density of every outcome under the same draws, draws × rows."""
    log_prior: Callable[[], Array]
    """Log prior density of the quantities that no other depends on, one a draw."""
    alternatives: Callable[[], Mapping[str, Array]] | None = None
    """Other priors and errors by name, log(other/this joint density) of every draw; powers of the prior are added."""
    updates: Callable[[int], Mapping[str, Update]] = lambda seed: {}
    """Seed to the quantities that no other depends on, before and after the data."""
    simulator: Simulator
    """What calibration asks of this model."""
    loo: Callable[[int], Check] | None = None
    """Seed to the LOO-PIT where there is a better way than importance weights of the draws."""
    of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What each outcome is of, one name per row: by `model_id`, `prompt_id`, `lab`, … as `names_of` has them."""

    def __post_init__(self) -> None:
        """Refuse more test quantities than a gate can ask about."""
        if len(self.statistics) > MOST_STATISTICS:
            raise UsageError(
                "too many test quantities", got=", ".join(self.statistics), allowed=f"{MOST_STATISTICS} at most"
            )


def names_of(table: pd.DataFrame) -> dict[str, list[str]]:
    """Names of what the rows of a table are of, by the dimension that ArviZ is given: models, pairs, prompts, labs."""
    return {axis: table[column].astype(str).tolist() for column, axis in AXES.items() if column in table}


def direct_part(
    draws: Draws,
    *,
    priors: Mapping[str, tuple[Any, Any]],
    simulator: Simulator,
    values: Mapping[str, Array] | None = None,
    **own: Any,
) -> Part:
    """A part that simulates itself, without a graph of its model.

    `priors`: centre and scale of the normal or half-normal prior of every quantity that no other depends on; `values`:
    their draws, by default those of `draws`; `own`: the part's other fields.
    """
    drawn = draws.values if values is None else values

    def log_prior() -> Array:
        squares = (np.square((drawn[name] - centre) / scale) for name, (centre, scale) in priors.items())
        return np.asarray(-0.5 * sum(square.reshape(*square.shape[:2], -1).sum(axis=-1) for square in squares))

    def updates(seed: int) -> dict[str, Update]:
        prior = simulator.joint(seed, UPDATED)[0]
        return updates_of({name: prior[name] for name in priors}, drawn)

    return Part(
        draws=draws,
        prior=lambda seed: simulator.joint(seed, CHECKED)[1],
        log_prior=log_prior,
        updates=updates,
        simulator=simulator,
        **own,
    )


def spaced(draws: Draws) -> NDArray[np.int64]:
    """`CHECKED` draws at even spacing, as numbers of the draws with chains joined; of fewer all."""
    size = draws.settings.chains * draws.settings.draws
    return np.linspace(0, size - 1, min(CHECKED, size)).astype(np.int64)


def updates_of(prior: Mapping[str, Array], posterior: Mapping[str, NDArray[Any]]) -> dict[str, Update]:
    """Element by element: `prior` draws × …, `posterior` chain × draw × …, the quantities that both have."""
    found = {}
    for name in (name for name in prior if name in posterior):
        shape = posterior[name].shape[2:]
        before, after = (drawn.reshape(-1, math.prod(shape)) for drawn in (prior[name], posterior[name]))
        for i, element in enumerate(element_names(name, shape)):
            found[element] = Update(prior=before[:, i], posterior=after[:, i])
    return found


def checks_of(part: Part, seed: int) -> list[Check]:
    """What is checked of every part of every fit, whatever is asked of it, in this order."""
    replicated, prior = part.replicate(seed), part.prior(seed)
    return [
        checks.prior_predictive(prior, part.observed, part.statistics),
        checks.posterior_predictive(replicated, part.observed, part.statistics, part.shapes),
        part.loo(seed) if part.loo else checks.loo_pit(part.density(), replicated, part.observed, seed=seed),
    ]
