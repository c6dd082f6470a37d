"""One record for the fits of every family of models: what a report, a check or a user asks of any of them."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.choices import at_level, options
from thermostats.errors import UsageError
from thermostats.modelling.inference import checks, groups, sampling, shown, statements
from thermostats.modelling.inference.calibration import Calibration, calibrate
from thermostats.modelling.inference.checks import Check, Gate
from thermostats.modelling.inference.draws import PASSED, SAMPLER, Array, Draws
from thermostats.modelling.inference.parts import Part, Update, checks_of
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.words import number

NO_SOURCE = "the table names no source, so the page cannot say what the fit rests on"
POWERS = (0.8, 1.25)
"""Powers of the prior in the sensitivity check."""
Prior = tuple[str, str, str]
"""A quantity, its distribution in words or symbols, and the reason for it."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One figure of a fit."""

    name: str
    """Short, for a file name: `prior-to-posterior`."""
    draw: Callable[..., object]
    """Draws the figure onto the matplotlib axes it is given."""
    caption: str
    """What it shows and what was estimated, with its result; the alt text."""


class Deferred(Mapping[str, Any]):
    """Entries that are computed once, when they are first asked for, such as tables that take permutations."""

    def __init__(self, entries: Mapping[str, Callable[[], Any]]) -> None:
        """`entries`: what computes each."""
        self._entries = dict(entries)
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: D105
        if name not in self._found:
            self._found[name] = self._entries[name]()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:  # noqa: D105
        return iter(self._entries)

    def __len__(self) -> int:  # noqa: D105
        return len(self._entries)


Refits = Callable[[int], Iterable[tuple[str, Quantities]]]
"""Seed to what was changed or left out, and the quantities (… × draws × …) of the refit."""


def chances(asked: Mapping[str, Statement], quantities: Quantities) -> dict[str, float]:
    """Posterior probabilities of statements."""
    return {name: float(statements.truth_of(one, quantities).mean()) for name, one in asked.items()}


@dataclass(frozen=True, kw_only=True, repr=False)
class Fitted:
    """One fit of one model family to one table; every interval is equal-tailed at `level`.

    At a prompt it is a few lines, in a notebook a table; it can be pickled, its checks and figures with it.
    """

    family: str
    estimand: str
    """Which gain, or which definition of a layer, at which position."""
    sources: tuple[str, ...]
    """Files or measurements that the rows come from."""
    n_models: int
    n_heritages: int
    parts: Mapping[str, Part]
    quantities: Quantities
    """Draws of what is reported, chain × draw × …"""
    more: Quantities = field(default_factory=dict)
    """Further draws that statements may ask about, which no summary shows."""
    statements: Mapping[str, Statement] = field(default_factory=dict)
    """What the fit is asked where nothing else is; what a claim asks it takes their place."""
    probabilities: Mapping[str, float]
    """Posterior probabilities by what they are of."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Other single figures by name."""
    tables: Mapping[str, pd.DataFrame]
    warnings: tuple[str, ...]
    figure: Callable[[Any, Axes], Axes]
    """Draws a fit of this family onto axes, which it returns."""
    seed: int
    level: float = field(default_factory=lambda: options.level)
    alternatives: Refits = lambda seed: ()
    """Refits under other priors or without what a reader may doubt; parts add theirs by importance weights."""
    left_out: Refits | None = None
    """Exact refits without each lab, recipe, model or pair; None where none can be left out."""
    exact: tuple[str, ...] = ()
    """Quantities drawn independently in a fit with parts that were sampled."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the elements of quantities that are arrays."""
    equations: tuple[str, ...] = ()
    """The model, one line per equation."""
    priors: tuple[Prior, ...] = ()
    """Every prior: quantity, distribution, reason."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of tables whose names say too little on a page."""
    called: Mapping[str, str] = field(default_factory=dict)
    """Words that are called otherwise on a page, such as labs that are recipes."""
    prefixed: bool = True
    """Names of checks begin with the name of their part."""
    kept: dict[tuple[str, int], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was computed, by name and seed: several findings may rest on one fit."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A family's own record is shown as this one is: a dataclass keeps the `__repr__` that its class has."""
        super().__init_subclass__(**options)
        cls.__repr__ = Fitted.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:  # noqa: D105
        return "\n".join(shown.lines(self))

    def _repr_html_(self) -> str:
        said = [f"P({name}) = {number(value)}" for name, value in self.probabilities.items()]
        columns = ["quantity", "mean", "sd", "median", "lower", "upper"]
        return shown.html(shown.headline(self), self.summary()[columns], [*said[: shown.SHOWN], *self.warnings])

    def __reduce__(self) -> tuple[Any, ...]:  # noqa: D105
        return shown.restored, (type(self), shown.pickled({f.name: getattr(self, f.name) for f in fields(self)}))

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler` where the draws of any part fail their gate."""
        return PASSED if all(draws.status == PASSED for draws in self.sampled.values()) else SAMPLER

    @property
    def sampled(self) -> dict[str, Draws]:
        """Draws of every part."""
        return {name: part.draws for name, part in self.parts.items()}

    def to_arviz(self, part: str | None = None, *, seed: int | None = None) -> Any:
        """A part (by default the first) as the installed ArviZ has it: InferenceData before 1.0, DataTree since.

        Groups: posterior, with what is reported; prior, prior_predictive, posterior_predictive, log_likelihood and
        observed_data, in which the outcome is called `outcome`. Dimensions are named: model_id, lab, family, block.
        Predictive groups and the likelihood are of `CHECKED` draws at even spacing; where a model has an effect of its
        own and prompts below it, the likelihood is of the model, over that effect. `seed`: of what is simulated.

        Raises UsageError for a part that the fit does not have.
        """
        chosen = self.seed if seed is None else seed
        return groups.to_arviz(self, self.parts[self._part(part)], chosen)

    def _part(self, name: str | None) -> str:
        chosen = next(iter(self.parts)) if name is None else name
        if chosen not in self.parts:
            raise UsageError("no such part of the fit", got=chosen, allowed=", ".join(self.parts))
        return chosen

    def summary(self) -> pd.DataFrame:
        """One row per quantity: mean, sd, median, interval of its kind and level; R-hat and ESS of what was sampled."""
        exact = self.quantities if all(draws.exact for draws in self.sampled.values()) else self.exact
        table = sampling.summary(self.quantities, level=self.level, exact=exact)
        named = {f"{name}[{i}]": f"{name}[{label}]" for name, own in self.labels.items() for i, label in enumerate(own)}
        return table.assign(
            quantity=table["quantity"].replace(named), estimand=self.estimand, sources="; ".join(self.sources)
        )

    def diagnostics(self) -> pd.DataFrame:
        """One row per part and diagnostic of the sampler: part, diagnostic, worst, limit, quantity, passes."""
        tables = [draws.diagnostics.table().assign(part=name) for name, draws in self.sampled.items()]
        columns = ["part", "diagnostic", "worst", "limit", "quantity", "passes"]
        return pd.concat(tables, ignore_index=True)[columns]

    def updates(self, *, seed: int | None = None) -> dict[str, Update]:
        """Quantities that no other depends on, before and after the data; parts of one model share theirs."""
        chosen = self.seed if seed is None else seed
        return {name: update for part in self.parts.values() for name, update in part.updates(chosen).items()}

    @property
    def everything(self) -> Quantities:
        """What a statement may ask about."""
        return ChainMap(dict(self.quantities), self.more)  # type: ignore[arg-type]

    def check(self, asked: Mapping[str, Statement] | None = None, *, seed: int | None = None) -> Gate:
        """What keeps the answer to some statements from counting, and what they hang on.

        Sampler, prior and posterior predictive and LOO-PIT of every part; then the probabilities of the statements,
        by default those of the fit, under other priors and without each unit.
        """
        chosen, asked = self.seed if seed is None else seed, self.statements if asked is None else asked
        found = [checks.sampler(self.sampled, statements.read_by(asked, self.everything))] if self.parts else []
        found += self._once("parts", chosen, self._of_parts)
        found.append(checks.prior_sensitivity(self.sensitivity(asked, seed=chosen)))
        refits = self._once("left out", chosen, lambda seed: list(self.left_out(seed)) if self.left_out else [])
        table = statements.influence(asked, self.everything, refits)
        found.append(checks.influence(table) if refits else checks.nothing_left_out("no unit was left out"))
        return Gate(checks=tuple(check for check in found if check))

    def sensitivity(self, asked: Mapping[str, Statement] | None = None, *, seed: int | None = None) -> pd.DataFrame:
        """Probabilities of statements as fitted and under every alternative.

        Columns: statement, alternative, probability, pareto_k (of importance weights; without it an exact refit).
        """
        chosen, asked = self.seed if seed is None else seed, self.statements if asked is None else asked
        refits = self._once("alternatives", chosen, lambda seed: list(self.alternatives(seed)))
        return statements.sensitivity(asked, self.everything, refits, self._once("weights", chosen, self._weights))

    def _once(self, name: str, seed: int, compute: Callable[[int], Any]) -> Any:
        if (name, seed) not in self.kept:
            self.kept[name, seed] = compute(seed)
        return self.kept[name, seed]

    def _of_parts(self, seed: int) -> list[Check]:
        named = [(name, one) for name, part in self.parts.items() for one in checks_of(part, seed)]
        return [replace(one, name=f"{name}: {one.name}") if self.prefixed else one for name, one in named]

    def _weights(self, seed: int) -> dict[str, Array]:
        """Log ratios by alternative, of parts with draws of their own summed up."""
        found: dict[str, Array] = {}
        for part in {id(part.draws): part for part in self.parts.values()}.values():
            own = {**checks.powers(part.log_prior(), POWERS), **(part.alternatives() if part.alternatives else {})}
            for name, ratio in own.items():
                same = name in found and found[name].size == ratio.size
                found[name] = found[name] + ratio if same else found.get(name, ratio)
        return found

    def beside(self, name: str, other: Fitted) -> Fitted:
        """This fit with another one, of other rows or another model, among its alternatives."""
        return replace(self, alternatives=lambda seed: [*self.alternatives(seed), (name, other.everything)])

    def calibrate(
        self,
        simulations: int = 200,
        *,
        part: str | None = None,
        seed: int | None = None,
        cache: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Calibration:
        """Simulation-based calibration of a part (by default the first) on this design: one refit per simulation.

        Outcomes are drawn from the prior, each is fitted by the same model and method in few draws, and the truths are
        ranked in the posteriors. Sampled parts go on where an interrupted call stopped.
        Raises UsageError for a part that the fit does not have and as `calibration.calibrate`.
        """
        chosen = self.seed if seed is None else seed
        return calibrate(
            self.parts[self._part(part)].simulator, simulations, seed=chosen, cache=cache, progress=progress
        )

    def plot(self, axes: Axes | None = None, *, kind: str = "fit") -> Axes:
        """Draw a figure onto the axes, or onto those of a new figure that all labels fit into, and return them.

        kind: fit, the family's own figure; intervals of the quantities; prior, before and after the data; replicated,
        the test quantities of replicated data; or one of `panels` where the family has some.

        Raises UsageError for a kind that does not exist.
        """
        with at_level(self.level):
            return shown.draw(self, axes, kind)

    def table(self, name: str) -> pd.DataFrame:
        """One of `tables`."""
        if name not in list(self.tables):
            raise UsageError("no such table in the fit", got=name, allowed=", ".join(self.tables))
        with at_level(self.level):
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
            "gate": {name: list(draws.failures()) for name, draws in self.sampled.items()},
            "summary": records(self.summary()),
            "probabilities": {name: plain(value) for name, value in self.probabilities.items()},
            "numbers": {name: plain(value) for name, value in self.numbers.items()},
            "tables": {name: records(table) for name, table in self.tables.items()},
            "warnings": list(self.warnings),
        }


def records(table: pd.DataFrame) -> list[dict[str, object]]:
    """Rows of a table as JSON takes them."""
    return [{str(k): plain(v) for k, v in row.items()} for row in table.to_dict("records")]


def plain(value: Any) -> Any:
    """A number as JSON takes it: missing and infinite become null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if value is pd.NA else value
