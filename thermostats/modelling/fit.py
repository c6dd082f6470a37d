"""Every fit, exact or sampled, of a law of ours or of a user's own PyMC model: what a report or a user asks of it.

Checks, figures and files are made by modules of their own, which know a fit as a `Fitted`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import SHOWN_OF, UsageError, listed
from thermostats.modelling import checks, display
from thermostats.modelling.calls import READ
from thermostats.modelling.checks import Gate
from thermostats.modelling.classical.estimates import columns_of, labels, numbers
from thermostats.modelling.columns import frame_of
from thermostats.modelling.declared import Declare
from thermostats.modelling.draws import SEED, Array, Settings, to_arviz
from thermostats.modelling.fitted import Design, Fitted, Law, Prior, as_it_is
from thermostats.modelling.sampling import Sampled
from thermostats.modelling.statements import Statement
from thermostats.next_steps import methods_in_words
from thermostats.settings import at_level

__all__ = ["Design", "Fit", "Law", "Prior", "fit", "law_fitted", "own_law"]
ROUNDING = 1e-12
UNITS = ("heritage", "model_id")
"""Columns of units that are left out where a table has them."""
NO_SOURCE = "the table names no source, so the page cannot say what the fit rests on"


def _varies(values: Array) -> bool:
    """Whether draws differ by more than rounding."""
    return bool(np.ptp(values) > ROUNDING * np.abs(values).max())


@methods_in_words
@dataclass(frozen=True, kw_only=True, repr=False)
class Fit(Fitted):
    """One law fitted to one table; every interval is equal-tailed at `level`.

    At a prompt it is a few lines, in a notebook a table.
    """

    def __repr__(self) -> str:
        return "\n".join(display.lines(self))

    def _repr_html_(self) -> str:
        return display.html(self)

    @property
    def posterior(self) -> Any:
        """Draws of the quantities as an xarray Dataset, dimensions chain and draw first."""
        group = self.to_arviz()["posterior"]
        return group.to_dataset() if hasattr(group, "to_dataset") else group

    def check(
        self, statements: Mapping[str, Statement] | None = None, *, refits: bool = True, seed: int | None = None
    ) -> Gate:
        """What keeps the answer to some statements (the law's by default) from counting, and what they hang on.

        `refits`: also under other priors and without each unit, by refits.
        """
        asked_for = self.law.statements if statements is None else statements
        return checks.gate(self, asked_for, refits=refits, seed=self.seed if seed is None else seed)

    def sensitivity(self, statements: Mapping[str, Statement] | None = None, *, refits: bool = True) -> pd.DataFrame:
        """Probabilities of statements as fitted and under every alternative, as `checks.sensitivity` has them."""
        return checks.sensitivity(self, self.law.statements if statements is None else statements, refits=refits)

    def plot(self, kind: str = "", axes: Axes | None = None) -> Axes:
        """Draw one figure, onto the axes or onto those of a new figure, and return them.

        kind: one of the law's figures (the first by default), `intervals`, `prior` (before and after the data) or
        `replicated` (the test quantities). Raises UsageError for another one.
        """
        with at_level(self.level):
            return display.draw(self, kind, axes)

    def to_arviz(self) -> Any:
        """As the installed ArviZ has it: InferenceData before 1.0, DataTree since.

        Quantities that the rows leave no doubt of, such as the mean of outcomes that are exact, are not among them: no
        density can be drawn of them. Groups: posterior, prior, posterior_predictive, prior_predictive, log_likelihood,
        observed_data (outcomes `y`).
        """
        rng, few = np.random.default_rng(self.seed), self.draws.few(self.draws.size)
        before = self.model.from_prior(checks.OF_PRIOR, rng)
        prior = self.law.quantities({name: v[None] for name, v in before.items()}, self.design)
        chains = next(iter(self.draws.values.values())).shape[:2]
        varied = {name: values for name, values in self.reported.items() if _varies(values)}
        groups = {
            "posterior": varied,
            "prior": {name: prior[name] for name in varied},
            "posterior_predictive": {"y": self.model.replicate(few, rng).reshape(*chains, -1)},
            "prior_predictive": {"y": self.model.replicate(before, rng)[None]},
            "log_likelihood": {"y": self.model.log_likelihood(few).reshape(*chains, -1)},
            "observed_data": {"y": self.model.observed},
        }
        labels = {n: list(v) for n, v in self.design.labels.items() if n in varied}
        dims = {name: [f"{name}_of"] for name in labels} | {"y": ["outcome"]}
        names = self._names()
        return to_arviz(groups, dims, {f"{n}_of": v for n, v in labels.items()} | {"outcome": list(names)})

    def _names(self) -> Sequence[Any]:
        """Of the outcomes: models where each has one, else as the law names them."""
        names = self.design.outcomes or tuple(range(self.model.observed.size))
        if names == tuple(self.rows.index) and "model_id" in self.rows and self.rows["model_id"].is_unique:
            return tuple(self.rows["model_id"].astype(str))
        return names

    def save(self, path: str | Path) -> Path:
        """Write draws, rows and words to a netCDF file; `thermostats.load_fit` reads it.

        Raises UsageError where the file cannot be written.
        """
        from thermostats.modelling.saving import save  # noqa: PLC0415 - xarray; it reads fits too

        return save(self, path)

    def to_latex(self, *, digits: int = 3) -> str:
        """The summary as a table for a paper, with booktabs; `digits`: significant ones of every number."""
        return display.latex(self, digits)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as JSON takes it: missing and infinite numbers are null."""
        return display.as_dict(self)


def law_fitted(
    law: Law,
    rows: pd.DataFrame,
    *,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    estimand: str = "",
    sources: Sequence[str] | None = (),
    warnings: Sequence[str] = (),
    reads: Callable[[pd.DataFrame], pd.DataFrame] = as_it_is,
) -> Fit:
    """A law fitted to rows; `sources`: files or measurements that these come from, None where it is not asked."""
    design = law.of(rows)
    draws = READ.get() or design.model.sample(seed=seed, settings=settings)
    return Fit(
        law=law,
        rows=rows,
        design=design,
        draws=draws,
        seed=seed,
        estimand=estimand,
        sources=tuple(sources or ()),
        warnings=(*warnings, *((NO_SOURCE,) if sources is not None and not sources else ())),
        reads=reads,
    )


def fit(
    rows: pd.DataFrame,
    *,
    model: Declare,
    per_row: Sequence[str],
    outcome: str = "y",
    constants: Mapping[str, Any] | None = None,
    statements: Mapping[str, Statement] | None = None,
    units: Sequence[str] = UNITS,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> Fit:
    """A PyMC model of your own, fitted to a table and checked like every other fit.

    `model(data)` declares variables in an open PyMC model. `per_row` names the columns that it reads from `data`, and
    `outcome` the observed variable and the column of its values, which the model finds as `data["<outcome>_observed"]`.
    Columns of text are numbered from 0 in the order of their names, `data["n_<column>"]` is how many there are; numbers
    stay as they are. `constants`: further entries of `data`. `statements`: functions of the variables, draw by draw.
    `units`: columns whose values `check` leaves out one by one.

    Raises UsageError for a column that is missing or not finite, a model that declares no such outcome or one of
    another length or reads what its data lack; ThermostatsError where sampling cannot start.
    """
    law = own_law(model, per_row=per_row, outcome=outcome, constants=constants, statements=statements, units=units)
    table = frame_of(rows).reset_index(drop=True)
    if table.empty:
        raise UsageError("an empty table", got="0 rows", allowed="at least one row")
    columns_of(table, outcome, *([] if tuple(units) == UNITS else law.units))
    return law_fitted(law, table, seed=seed, settings=settings, estimand=outcome, sources=None)


def own_law(
    model: Declare,
    *,
    per_row: Sequence[str],
    outcome: str = "y",
    constants: Mapping[str, Any] | None = None,
    statements: Mapping[str, Statement] | None = None,
    units: Sequence[str] = UNITS,
) -> Law:
    """The law of a PyMC model of your own; arguments as in `fit`."""
    if not callable(model):
        raise UsageError(
            "a model is a function", where="model", got=repr(model)[:SHOWN_OF], allowed="def model(data): …"
        )
    columns = tuple(listed(per_row, "per_row") or ())
    if taken := {*columns, outcome, f"{outcome}_observed"} & set(constants or {}):
        raise UsageError("a constant has the name of a column", got=", ".join(sorted(taken)), next_step="rename it")
    return Law(
        name=getattr(model, "__name__", "model"),
        of=partial(_own_of, model, columns, outcome, {k: _plain(v) for k, v in (constants or {}).items()}),
        quantities=lambda values, design: dict(values),
        statements=statements or {},
        units=tuple(listed(units, "units") or ()),
    )


def _plain(value: Any) -> Any:
    """A constant as a model takes it: lists as arrays, numbers of numpy as Python's."""
    if isinstance(value, (list, tuple, pd.Series)):
        value = np.asarray(value)
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnDesign(Design):
    """The data of a PyMC model of your own."""

    declare: Declare
    per_row: tuple[str, ...]
    outcome: str
    constants: Mapping[str, Any]
    """Further entries of the data."""
    levels: Mapping[str, tuple[str, ...]]
    """Of every column of text its values."""

    def of_new(self, rows: pd.DataFrame) -> OwnDesign:
        """Other rows; unseen values of text come after those of the fit."""
        values = np.zeros(len(rows))
        return _own_after(self.declare, self.per_row, self.outcome, self.constants, rows, values, self.levels)


def _own_of(
    declare: Declare, per_row: tuple[str, ...], outcome: str, constants: Mapping[str, Any], rows: pd.DataFrame
) -> OwnDesign:
    """Columns as arrays, text numbered."""
    columns_of(rows, *per_row)
    if not pd.api.types.is_numeric_dtype(rows[outcome]):
        raise UsageError(
            "an outcome that is no numbers", where=outcome, got=rows[outcome].iloc[0], allowed="a column of numbers"
        )
    texts = [name for name in per_row if not pd.api.types.is_numeric_dtype(rows[name])]
    return _own_after(declare, per_row, outcome, constants, rows, _as_array(rows[outcome]), dict.fromkeys(texts, ()))


def _own_after(
    declare: Declare,
    per_row: tuple[str, ...],
    outcome: str,
    constants: Mapping[str, Any],
    rows: pd.DataFrame,
    values: NDArray[Any],
    before: Mapping[str, tuple[str, ...]],
) -> OwnDesign:
    """Columns as arrays, text numbered after these values."""
    columns_of(rows, *per_row)
    data, levels = dict(constants), dict[str, tuple[str, ...]]()
    for name in per_row:
        if name not in before:
            data[name] = _as_array(rows[name])
            continue
        texts = labels(rows[name], name)
        levels[name] = (*before[name], *sorted(set(texts) - set(before[name])))
        data[name] = np.array([levels[name].index(text) for text in texts], dtype=np.int64)
        data[f"n_{name}"] = len(levels[name])
    data[f"{outcome}_observed"] = values
    return OwnDesign(
        model=Sampled(declare=declare, data=data, outcome=outcome, per_row=(*per_row, f"{outcome}_observed")),
        declare=declare,
        per_row=per_row,
        outcome=outcome,
        constants=constants,
        levels=levels,
    )


def _as_array(values: pd.Series) -> NDArray[Any]:
    """Numbers of any dtype of pandas as floats, whole numbers or truth values; whole ones with gaps as floats."""
    if not pd.api.types.is_numeric_dtype(values):
        return numbers(values, str(values.name), least=1)
    kind = {"i": np.int64, "u": np.int64, "b": np.bool_}.get(str(values.dtype.kind), np.float64)
    if kind is np.float64 or values.isna().any():
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(values.to_numpy(dtype=kind))
