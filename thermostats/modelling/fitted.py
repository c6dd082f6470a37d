"""A law, rows laid out as a model, draws: what every fit has, and what follows of it.

A `Law` says how rows become a model and what is reported of its draws; checks, figures and files are made of a `Fitted`
by modules of their own, which `fit.Fit` brings together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import cloudpickle
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import SHOWN_OF, UsageError, unknown
from thermostats.modelling.columns import frame_of
from thermostats.modelling.draws import SEED, Array, Draws, equal_tailed, summary
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.labelled import labelled_new
from thermostats.modelling.leave_out import LeftOut, compared, leave_one_out
from thermostats.modelling.mixture import Mixture
from thermostats.modelling.reprs import Quantities, Statements
from thermostats.modelling.sampling import Sampled
from thermostats.modelling.statements import LOCATION, Statement, Statistic, truth_of
from thermostats.next_steps import methods_in_words
from thermostats.settings import at_level, coverage, options

Constants = Mapping[str, Any]
Prior = tuple[str, str, str]
"""A quantity, its distribution in words or symbols, and the reason for it."""


WIDER = {"half the prior scales": 0.5, "twice the prior scales": 2.0}
"""Alternatives to a law: factors of all its prior scales."""
REFIT_EXACT, REFIT_SAMPLED = 250, 1000
"""Draws a chain of a refit, whose probabilities are compared with 0.80: 1,000 independent ones are right to ±0.013."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A function that fits and its arguments, the table among them."""

    module: str
    function: str
    arguments: Mapping[str, Any]
    standard: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that it does not name."""


@dataclass(frozen=True, kw_only=True)
class Laid:
    """Rows laid out as a model."""

    model: Gaussian | Mixture | Sampled
    constants: Constants = field(default_factory=dict)
    """What quantities, tables and predictions need besides the draws: names of levels, means and SDs of covariates.

    `labels` has names of the elements of quantities that are arrays, `outcomes` names of the outcomes."""
    by_row: bool = True
    """Whether every row is one outcome."""


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
    tables: Mapping[str, Callable[[Fitted], pd.DataFrame]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Fitted, Axes], object]] = field(default_factory=dict)
    """The first is what `plot()` draws."""
    alternatives: Mapping[str, Law] = field(default_factory=dict)
    """Other priors, and models without what a reader may doubt."""
    units: tuple[str, ...] = ("heritage", "model_id")
    """Columns of the rows whose values are left out one by one."""


def as_it_is(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that the law reads as they are."""
    return rows


@methods_in_words
@dataclass(frozen=True, kw_only=True, repr=False)
class Fitted:
    """One law fitted to one table; every interval is equal-tailed at `level`."""

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
    reads: Callable[[pd.DataFrame], pd.DataFrame] = as_it_is
    """A user's rows as the law reads them, for predictions."""
    call: Call | None = None
    """What made the fit; None of one that was fitted again to other rows or by another law."""

    @cached_property
    def quantities(self) -> dict[str, Array]:
        """What is reported, and what statements may read: draws by name, chain × draw × …"""
        return Quantities(self.law.quantities(self.draws.values, self.constants))

    @property
    def reported(self) -> dict[str, Array]:
        """The quantities that the summary shows."""
        names = self.law.reported or tuple(self.quantities)
        return {name: self.quantities[name] for name in names if name in self.quantities}

    @property
    def statements(self) -> Mapping[str, Statement]:
        """What the fit is asked where nothing else is."""
        return Statements(self.law.statements)

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
        return float(self.truth(statement).mean())

    def truth(self, statement: Statement) -> NDArray[np.bool_]:
        """Whether a statement holds, draw by draw.

        Raises UsageError where it asks for a quantity that there is none of, or has no single value a draw.
        """
        try:
            truth = truth_of(statement, self.quantities)
        except KeyError as error:
            what, where = "a statement asks for a quantity that there is none of", self.law.name
            raise unknown(what, error.args[0], self.quantities, where=where) from None
        if truth.size != self.draws.size:
            raise UsageError(
                "a statement has not one truth value a draw",
                where=self.law.name,
                got=f"an array of {truth.shape}",
                allowed=f"{self.draws.size} truth values",
                next_step="of a quantity with several elements ask for .all(axis=-1) or .any(axis=-1)",
            )
        return truth

    def summary(self, *, level: float | None = None) -> pd.DataFrame:
        """One row per quantity: mean, sd, median, interval of its kind and level; R-hat and ESS of what was sampled."""
        level = self.level if level is None else coverage(level, "fit.summary(level={})")
        exact = self.reported if self.draws.exact else ()
        table = summary(self.reported, level=level, exact=exact)
        labels = self.constants.get("labels", {})
        names = {f"{n}[{i}]": f"{n}[{label}]" for n, every in labels.items() for i, label in enumerate(every)}
        quantity = table["quantity"].replace(names)
        return table.assign(quantity=quantity, estimand=self.estimand, sources="; ".join(self.sources))

    @property
    def params(self) -> pd.Series:
        """Posterior means by quantity."""
        return self.summary().set_index("quantity")["mean"]

    def conf_int(self, level: float | None = None) -> pd.DataFrame:
        """Equal-tailed intervals by quantity: lower, upper. UsageError for a level below one half."""
        level = level if level is None else coverage(level, "fit.conf_int({})")
        return self.summary(level=level).set_index("quantity")[["lower", "upper"]]

    def without(self, out: NDArray[np.bool_] | pd.Series) -> Self:
        """The same law fitted to the other rows, with fewer draws: 1,000 independent ones of the exact engine.

        Raises UsageError for what is no truth value of every row.
        """
        gone = np.asarray(out)
        if gone.shape != (len(self.rows),) or gone.dtype != bool:
            got, allowed = f"{gone.dtype} of {gone.shape}", f"true or false for each of {len(self.rows)} rows"
            raise UsageError("rows to leave out need one truth value each", got=got, allowed=allowed)
        return self._again(self.law, self.rows[~gone])

    def under(self, law: Law) -> Self:
        """Another law fitted to the same rows, with fewer draws like `without`."""
        return self._again(law, self.rows)

    def _again(self, law: Law, rows: pd.DataFrame) -> Self:
        laid = law.lay_out(rows, None)
        size = REFIT_EXACT if self.draws.exact else REFIT_SAMPLED
        draws = laid.model.sample(seed=self.seed, settings=replace(self.draws.settings, draws=size))
        return replace(self, law=law, rows=rows, model=laid.model, constants=laid.constants, draws=draws, call=None)

    def predict(self, new: pd.DataFrame, *, level: float | None = None) -> pd.DataFrame:
        """Predicted outcomes of new rows, with mean, sd, median, lower and upper; a lab never seen is drawn anew.

        Where the law's outcomes are not rows, such as counts of groups, `outcome` names them. Raises UsageError for
        what is no table, for columns that are missing, and for numbers that are not finite.
        """
        new = frame_of(new)
        level = self.level if level is None else coverage(level, "fit.predict(new, level={})")
        laid, drawn = self._predicted(new)
        lower, upper = equal_tailed(drawn, level)
        table = pd.DataFrame(
            {
                "mean": drawn.mean(axis=0),
                "sd": drawn.std(axis=0, ddof=1),
                "median": np.median(drawn, axis=0),
                "lower": lower,
                "upper": upper,
            }
        )
        if laid.by_row:
            return pd.concat([new.reset_index(drop=True), table], axis=1)
        table.insert(0, "outcome", list(laid.constants["outcomes"]))
        return table

    def predicted(self, new: pd.DataFrame) -> Array:
        """Predictive draws of new rows' outcomes, draws × outcomes."""
        return self._predicted(frame_of(new))[1]

    def _predicted(self, new: pd.DataFrame) -> tuple[Laid, Array]:
        if not len(new):
            raise UsageError("an empty table", got="0 rows", allowed="at least one row")
        new = new if self.call is None else labelled_new(new, self.call.arguments, self.call.standard)
        laid, rng = self.law.lay_out(self.reads(new), self.constants), np.random.default_rng(self.seed)
        values = self.draws.few(self.draws.size)
        if isinstance(laid.model, Sampled):
            drawn = laid.model.predict(values, rng)
        else:
            values.pop("error", None)  # of the outcomes fitted
            drawn = laid.model.replicate(values, rng)
        if bad := int((~np.isfinite(drawn)).any(axis=0).sum()):
            got, allowed = f"{bad} of {drawn.shape[1]} outcomes", "finite numbers in the columns that the law reads"
            raise UsageError("rows have no finite prediction", where=self.law.name, got=got, allowed=allowed)
        return laid, drawn

    @cached_property
    def _left_out(self) -> LeftOut:
        return leave_one_out(self.model, self.draws, seed=self.seed)

    def loo(self, *, refit: bool = True) -> LeftOut:
        """Every outcome predicted from all others: elpd, its standard error, PIT, Pareto k before any refit.

        `refit`: a sampled model without each outcome whose weights cannot be trusted; else they stand.
        """
        if refit or not isinstance(self.model, Sampled) or "_left_out" in vars(self):
            return self._left_out
        return leave_one_out(self.model, self.draws, seed=self.seed, refit=False)

    @cached_property
    def _alone(self) -> LeftOut:
        """The same with every outcome by itself, as draws of PyMC are always weighted."""
        if isinstance(self.model, Sampled):
            return self.loo()
        return leave_one_out(self.model, self.draws, seed=self.seed, together=False)

    def compare(self, other: Fitted) -> pd.DataFrame:
        """Both fits by their log predictive density of outcomes left out, with the difference's standard error.

        Raises UsageError for what is no fit, and for fits of other outcomes.
        """
        if not isinstance(other, Fitted):
            raise UsageError("not a fit", got=repr(other)[:SHOWN_OF], allowed="another fit of the same outcomes")
        alone = isinstance(self.model, Sampled) != isinstance(other.model, Sampled)
        left_out = {name: fit._alone if alone else fit.loo() for name, fit in (("this", self), ("other", other))}
        return compared(left_out, self.model.observed, other.model.observed)

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

    def __reduce__(self) -> tuple[Callable[[type[Self], bytes], Self], tuple[type[Self], bytes]]:
        """For pickle and other processes: laws hold functions, which pickle alone cannot write."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _unpickled, (type(self), cloudpickle.dumps(values))


F = TypeVar("F", bound=Fitted)


def _unpickled(kind: type[F], written: bytes) -> F:
    return kind(**cloudpickle.loads(written))
