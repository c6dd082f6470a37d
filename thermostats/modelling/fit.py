"""One record for every fit, exact or sampled, of a law of ours or of a user's own PyMC model.

A `Law` says how rows become a model and what is reported of its draws; a `Fit` is a law, rows and draws. What a report,
a check or a user asks of a fit is asked here, once for all laws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError, unknown
from thermostats.modelling import checks, display
from thermostats.modelling.calls import READ, Call
from thermostats.modelling.checks import LOCATION, Gate, Statement, Statistic, truth_of
from thermostats.modelling.draws import SEED, Array, Draws, Settings, equal_tailed, summary, to_arviz
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.leave_out import LeftOut, compared, leave_one_out
from thermostats.modelling.mixture import Mixture
from thermostats.modelling.sampling import Declare, Sampled
from thermostats.settings import at_level, options

Constants = Mapping[str, Any]
Prior = tuple[str, str, str]
"""A quantity, its distribution in words or symbols, and the reason for it."""
ROUNDING = 1e-12
REFIT_EXACT, REFIT_SAMPLED = 250, 1000
"""Draws a chain of a refit, whose probabilities are compared with 0.80: 1,000 independent ones are right to ±0.013."""
NO_SOURCE = "the table names no source, so the page cannot say what the fit rests on"


@dataclass(frozen=True, kw_only=True)
class Laid:
    """Rows laid out as a model."""

    model: Gaussian | Mixture | Sampled
    constants: Constants = field(default_factory=dict)
    """What quantities, tables and predictions need besides the draws: names of levels, means and SDs of covariates.

    `labels` has names of the elements of quantities that are arrays, `outcomes` names of the outcomes."""


@dataclass(frozen=True, kw_only=True)
class Law:
    """A family of models: all that its fits, their checks and their pages are made of."""

    name: str
    lay_out: Callable[[pd.DataFrame, Constants | None], Laid]
    """Rows to a model; with the constants of a fit the levels and units are those of the fit, unseen levels last."""
    quantities: Callable[[Mapping[str, Array], Constants], dict[str, Array]]
    """Draws (chain × draw × …) to what is reported, or statements may read."""
    reported: tuple[str, ...] = ()
    """Quantities that the summary shows; all by default."""
    statements: Mapping[str, Statement] = field(default_factory=dict)
    statistics: Callable[[Constants], Mapping[str, Statistic]] = lambda constants: LOCATION
    """Test quantities of the outcomes, which bear on the claim; the gate closes on them."""
    equations: tuple[str, ...] = ()
    priors: tuple[Prior, ...] = ()
    tables: Mapping[str, Callable[[Fit], pd.DataFrame]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Fit, Axes], object]] = field(default_factory=dict)
    """The first is what `plot()` draws."""
    alternatives: Mapping[str, Law] = field(default_factory=dict)
    """Other priors, and models without what a reader may doubt."""
    units: tuple[str, ...] = ("heritage", "model_id")
    """Columns of the rows whose values are left out one by one."""


def _varies(values: Array) -> bool:
    """Whether draws differ by more than rounding."""
    return bool(np.ptp(values) > ROUNDING * np.abs(values).max())


def _as_it_is(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


@dataclass(frozen=True, kw_only=True, repr=False)
class Fit:
    """One law fitted to one table; every interval is equal-tailed at `level`.

    At a prompt it is a few lines, in a notebook a table.
    """

    law: Law
    rows: pd.DataFrame
    model: Gaussian | Mixture | Sampled
    constants: Constants
    draws: Draws
    seed: int = SEED
    level: float = field(default_factory=lambda: options.level)
    estimand: str = ""
    """Which gain, or which definition of a layer, at which position."""
    sources: tuple[str, ...] = ()
    """Files or measurements that the rows come from."""
    warnings: tuple[str, ...] = ()
    reads: Callable[[pd.DataFrame], pd.DataFrame] = _as_it_is
    """A user's rows as the law reads them, for predictions."""
    call: Call | None = None
    """What made the fit; None of one that was fitted again to other rows or by another law."""

    def __repr__(self) -> str:
        return "\n".join(display.lines(self))

    def _repr_html_(self) -> str:
        return display.html(self)

    @cached_property
    def quantities(self) -> dict[str, Array]:
        """What is reported, and what statements may read: draws by name, chain × draw × …"""
        return self.law.quantities(self.draws.values, self.constants)

    @property
    def reported(self) -> dict[str, Array]:
        """The quantities that the summary shows."""
        names = self.law.reported or tuple(self.quantities)
        return {name: self.quantities[name] for name in names if name in self.quantities}

    @property
    def statements(self) -> Mapping[str, Statement]:
        """What the fit is asked where nothing else is."""
        return self.law.statements

    @property
    def probabilities(self) -> dict[str, float]:
        """Posterior probability of every statement of the law."""
        return {name: self.probability(name) for name in self.law.statements}

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler` where the draws fail their gate."""
        return self.draws.status

    @cached_property
    def log_prior(self) -> Array:
        """Log prior of every draw, up to a constant, chains joined."""
        return self.model.log_prior(self.draws.few(self.draws.size))

    def probability(self, statement: str | Statement) -> float:
        """Posterior probability of a statement, by its name among the law's or as a function of the quantities."""
        if isinstance(statement, str):
            if statement not in self.law.statements:
                raise unknown("no such statement", statement, self.law.statements, where=self.law.name)
            statement = self.law.statements[statement]
        return float(truth_of(statement, self.quantities).mean())

    def summary(self, *, level: float | None = None) -> pd.DataFrame:
        """One row per quantity: mean, sd, median, interval of its kind and level; R-hat and ESS of what was sampled."""
        exact = self.reported if self.draws.exact else ()
        table = summary(self.reported, level=self.level if level is None else level, exact=exact)
        labels = self.constants.get("labels", {})
        names = {f"{n}[{i}]": f"{n}[{label}]" for n, every in labels.items() for i, label in enumerate(every)}
        quantity = table["quantity"].replace(names)
        return table.assign(quantity=quantity, estimand=self.estimand, sources="; ".join(self.sources))

    @property
    def params(self) -> pd.Series:
        """Posterior means by quantity."""
        return self.summary().set_index("quantity")["mean"]

    def conf_int(self, level: float | None = None) -> pd.DataFrame:
        """Equal-tailed intervals by quantity: lower, upper."""
        return self.summary(level=level).set_index("quantity")[["lower", "upper"]]

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

    def without(self, out: NDArray[np.bool_] | pd.Series) -> Fit:
        """The same law fitted to the other rows, with fewer draws: 1,000 independent ones of the exact engine."""
        return self._again(self.law, self.rows[~np.asarray(out)])

    def under(self, law: Law) -> Fit:
        """Another law fitted to the same rows, with fewer draws like `without`."""
        return self._again(law, self.rows)

    def _again(self, law: Law, rows: pd.DataFrame) -> Fit:
        laid = law.lay_out(rows, None)
        size = REFIT_EXACT if self.draws.exact else REFIT_SAMPLED
        draws = laid.model.sample(seed=self.seed, settings=replace(self.draws.settings, draws=size))
        return replace(self, law=law, rows=rows, model=laid.model, constants=laid.constants, draws=draws, call=None)

    def predict(self, new: pd.DataFrame, *, level: float | None = None) -> pd.DataFrame:
        """Predicted outcomes of new rows, with mean, sd, median, lower and upper; a lab never seen is drawn anew."""
        drawn = self.predicted(new)
        lower, upper = equal_tailed(drawn, self.level if level is None else level)
        laid_names = self.law.lay_out(self.reads(new), self.constants).constants.get("outcomes")
        table = pd.DataFrame(
            {
                "mean": drawn.mean(axis=0),
                "sd": drawn.std(axis=0, ddof=1),
                "median": np.median(drawn, axis=0),
                "lower": lower,
                "upper": upper,
            }
        )
        if len(table) == len(new):
            return pd.concat([new.reset_index(drop=True), table], axis=1)
        table.insert(0, "outcome", list(laid_names or range(len(table))))
        return table

    def predicted(self, new: pd.DataFrame) -> Array:
        """Predictive draws of new rows' outcomes, draws × outcomes."""
        laid, rng = self.law.lay_out(self.reads(new), self.constants), np.random.default_rng(self.seed)
        values = self.draws.few(self.draws.size)
        if isinstance(laid.model, Sampled):
            return laid.model.predict(values, rng)
        values.pop("error", None)  # of the outcomes fitted
        return laid.model.replicate(values, rng)

    @cached_property
    def _left_out(self) -> LeftOut:
        return leave_one_out(self.model, self.draws, seed=self.seed)

    def loo(self) -> LeftOut:
        """Every outcome predicted from all others: elpd, its standard error, PIT, Pareto k before any refit."""
        return self._left_out

    def compare(self, other: Fit) -> pd.DataFrame:
        """Both fits by their log predictive density of outcomes left out, with the difference's standard error.

        Raises UsageError for fits of other outcomes.
        """
        return compared({"this": self.loo(), "other": other.loo()}, self.model.observed, other.model.observed)

    def table(self, name: str) -> pd.DataFrame:
        """One of the law's tables; computed when first asked for."""
        if name not in self.law.tables:
            raise unknown("no such table of the fit", name, self.law.tables, where=self.law.name)
        if name not in self._tables:
            with at_level(self.level):
                self._tables[name] = self.law.tables[name](self)
        return self._tables[name]

    @cached_property
    def _tables(self) -> dict[str, pd.DataFrame]:
        return {}

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
        prior = self.law.quantities({name: v[None] for name, v in before.items()}, self.constants)
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
        labels = {n: list(v) for n, v in self.constants.get("labels", {}).items() if n in varied}
        dims = {name: [f"{name}_of"] for name in labels} | {"y": ["outcome"]}
        names = self._names()
        return to_arviz(groups, dims, {f"{n}_of": v for n, v in labels.items()} | {"outcome": list(names)})

    def _names(self) -> Sequence[object]:
        """Of the outcomes: models where each has one, else as the law names them."""
        names = tuple(self.constants.get("outcomes", range(self.model.observed.size)))
        if names == tuple(self.rows.index) and "model_id" in self.rows and self.rows["model_id"].is_unique:
            return tuple(self.rows["model_id"].astype(str))
        return names

    def save(self, path: str | Path) -> Path:
        """Write draws, rows and words to a netCDF file; `thermostats.load_fit` reads it.

        Raises UsageError where the file cannot be written.
        """
        from thermostats.modelling.saving import save  # noqa: PLC0415 - xarray; it reads fits too

        return save(self, path)

    def __reduce__(self) -> tuple[Callable[[bytes], Fit], tuple[bytes]]:
        """For pickle and other processes: laws hold functions, which pickle alone cannot write."""
        return _unpickled, (cloudpickle.dumps({each.name: getattr(self, each.name) for each in fields(self)}),)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as JSON takes it: missing and infinite numbers are null."""
        return display.as_dict(self)


def _unpickled(written: bytes) -> Fit:
    return Fit(**cloudpickle.loads(written))


def law_fitted(
    law: Law,
    rows: pd.DataFrame,
    *,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    estimand: str = "",
    sources: Sequence[str] | None = (),
    warnings: Sequence[str] = (),
    reads: Callable[[pd.DataFrame], pd.DataFrame] = _as_it_is,
) -> Fit:
    """A law fitted to rows; `sources`: files or measurements that these come from, None where it is not asked."""
    laid = law.lay_out(rows, None)
    draws = READ.get() or laid.model.sample(seed=seed, settings=settings)
    return Fit(
        law=law,
        rows=rows,
        model=laid.model,
        constants=laid.constants,
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
    units: Sequence[str] = ("heritage", "model_id"),
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> Fit:
    """A PyMC model of your own, fitted to a table and checked like every other fit.

    `model(data)` declares variables in an open PyMC model. `per_row` names the columns that it reads from `data`, and
    `outcome` the observed variable and the column of its values, which the model finds as `data["<outcome>_observed"]`.
    Columns of text are numbered from 0 in the order of their names, `data["n_<column>"]` is how many there are; numbers
    stay as they are. `constants`: further entries of `data`. `statements`: functions of the variables, draw by draw.

    Raises UsageError for a column that is missing or not finite, a model that declares no such outcome or one of
    another length; ThermostatsError where sampling cannot start.
    """
    columns = [*per_row, outcome]
    if missing := [name for name in columns if name not in rows]:
        raise UsageError("no such column", got=", ".join(missing), allowed=", ".join(map(str, rows.columns)))
    law = own_law(model, per_row=per_row, outcome=outcome, constants=constants, statements=statements, units=units)
    table = rows.reset_index(drop=True)
    return law_fitted(law, table, seed=seed, settings=settings, estimand=outcome, sources=None)


def own_law(
    model: Declare,
    *,
    per_row: Sequence[str],
    outcome: str = "y",
    constants: Mapping[str, Any] | None = None,
    statements: Mapping[str, Statement] | None = None,
    units: Sequence[str] = ("heritage", "model_id"),
) -> Law:
    """The law of a PyMC model of your own; arguments as in `fit`."""
    return Law(
        name=getattr(model, "__name__", "model"),
        lay_out=partial(_own_lay_out, model, tuple(per_row), outcome, dict(constants or {})),
        quantities=lambda values, constants: dict(values),
        statements=statements or {},
        units=tuple(units),
    )


def _own_lay_out(
    model: Declare,
    per_row: tuple[str, ...],
    outcome: str,
    more: Mapping[str, Any],
    rows: pd.DataFrame,
    like: Constants | None,
) -> Laid:
    """Columns as arrays, text numbered; unseen values of text come after those of the fit."""
    data, levels = dict(more), dict[str, list[str]]()
    for name in per_row:
        if pd.api.types.is_numeric_dtype(rows[name]):
            data[name] = _as_array(rows[name])
            continue
        before = list(like["levels"][name]) if like else []
        levels[name] = [*before, *sorted(set(rows[name].astype(str)) - set(before))]
        data[name] = np.array([levels[name].index(value) for value in rows[name].astype(str)], dtype=np.int64)
        data[f"n_{name}"] = len(levels[name])
    values = rows[outcome] if outcome in rows else pd.Series(0.0, index=rows.index)
    if not pd.api.types.is_numeric_dtype(values):
        raise UsageError(
            "an outcome that is no numbers", where=outcome, got=values.iloc[0], allowed="a column of numbers"
        )
    data[f"{outcome}_observed"] = _as_array(values)
    sampled = Sampled(declare=model, data=data, outcome=outcome, per_row=(*per_row, f"{outcome}_observed"))
    declared = {"per_row": list(per_row), "outcome": outcome, "constants": dict(more)}
    return Laid(model=sampled, constants={"levels": levels, "own": declared})


def _as_array(values: pd.Series) -> NDArray[Any]:
    """Numbers of any dtype of pandas as floats, whole numbers or truth values; whole ones with gaps as floats."""
    kind = {"i": np.int64, "u": np.int64, "b": np.bool_}.get(str(values.dtype.kind), np.float64)
    if kind is np.float64 or values.isna().any():
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(values.to_numpy(dtype=kind))
