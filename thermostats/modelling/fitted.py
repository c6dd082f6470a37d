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

from thermostats.errors import UsageError, unknown
from thermostats.modelling.columns import frame_of
from thermostats.modelling.draws import KIND, SEED, Array, Draws, convergence, element_names, summary
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.labelled import labelled_new
from thermostats.modelling.leave_out import LeftOut, leave_one_out
from thermostats.modelling.mixture import Mixture
from thermostats.modelling.predictions import AS_GIVEN, OWN, OutcomeScale, beyond, table_of
from thermostats.modelling.reprs import Quantities, Statements
from thermostats.modelling.residuals import Regressors
from thermostats.modelling.sampling import Sampled
from thermostats.modelling.statements import LOCATION, Statement, Statistic, truth_of
from thermostats.next_steps import methods_in_words
from thermostats.settings import at_level, coverage, options

Prior = tuple[str, str, str]
"""A quantity, its distribution in words or symbols, and the reason for it."""


WIDER = {"half the prior scales": 0.5, "twice the prior scales": 2.0}
"""Alternatives to a law: factors of all its prior scales."""
SUMMARY = ("mean", "sd", "median", "lower", "upper")
"""Columns of a summary."""
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Rows as the model of a law, and what quantities, tables and predictions read besides the draws.

    A law whose levels and units are those of its rows has a record of its own, which keeps them.
    """

    model: Gaussian | Mixture | Sampled
    outcomes: tuple[object, ...] = ()
    """Names of the outcomes."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the elements of quantities that are arrays."""
    by_row: bool = True
    """Whether every row is one outcome."""
    scale: OutcomeScale = AS_GIVEN
    """That of the outcomes."""
    groups: tuple[str, ...] = ()
    """Columns of the rows whose values have levels of their own."""
    covariates: tuple[str, ...] = ()
    """Columns of numbers that the law reads."""
    regressors: Regressors | None = None
    """What residuals are looked at against."""

    def of_new(self, rows: pd.DataFrame) -> Design:
        """Other rows in the units of these, levels that these do not have last."""
        raise NotImplementedError


D = TypeVar("D", bound=Design)


@dataclass(frozen=True, kw_only=True)
class Law:
    """A family of models: all that its fits, their checks and their pages are made of."""

    name: str
    of: Callable[[pd.DataFrame], Design]
    """The design of rows."""
    quantities: Callable[[Mapping[str, Array], Any], dict[str, Array]]
    """Draws (chain × draw × …) to what is reported, or statements may read."""
    reported: tuple[str, ...] = ()
    """Quantities that the summary shows; all by default."""
    statements: Mapping[str, Statement] = field(default_factory=dict)
    statistics: Callable[[Any], Mapping[str, Statistic]] = lambda design: LOCATION
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
    design: Design
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

    @property
    def model(self) -> Gaussian | Mixture | Sampled:
        """What was drawn."""
        return self.design.model

    def designed(self, kind: type[D]) -> D:
        """The design, of the kind that a law makes; TypeError where it is of another law."""
        if not isinstance(self.design, kind):
            raise TypeError(f"the design of a fit of {self.law.name} is no {kind.__name__}")
        return self.design

    @cached_property
    def quantities(self) -> dict[str, Array]:
        """What is reported, and what statements may read: draws by name, chain × draw × …"""
        return Quantities(self.law.quantities(self.draws.values, self.design))

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
        """By quantity: mean, sd, median, and the ends lower and upper of its equal-tailed interval.

        What is the same of every quantity is in `attrs`: law, estimand, sources, kind and level of the intervals.
        """
        level = self.level if level is None else coverage(level, "fit.summary(level={})")
        table = summary(self.reported, level=level, exact=self.reported).set_index("quantity")
        result = table[list(SUMMARY)].rename(self._named_elements())
        result.attrs |= {"law": self.law.name, "estimand": self.estimand, "sources": list(self.sources)}
        result.attrs |= {"kind": KIND, "level": level}
        return result

    def convergence(self) -> pd.DataFrame:
        """By quantity: rhat, ess_bulk and ess_tail of what was sampled; no rows where draws are independent."""
        sampled = {} if self.draws.exact else self.reported
        columns = [pd.DataFrame(convergence(v.reshape(*v.shape[:2], -1))) for v in sampled.values()]
        names = [element for name, v in sampled.items() for element in element_names(name, v.shape[2:])]
        table = pd.concat(columns) if columns else pd.DataFrame(columns=["rhat", "ess_bulk", "ess_tail"], dtype=float)
        return table.set_axis(pd.Index(names, name="quantity")).rename(self._named_elements())

    def _named_elements(self) -> dict[str, str]:
        """Elements of quantities that are arrays, by the names of what they are of."""
        labels = self.design.labels
        return {f"{n}[{i}]": f"{n}[{label}]" for n, every in labels.items() for i, label in enumerate(every)}

    @property
    def params(self) -> pd.Series:
        """Posterior means by quantity."""
        return self.summary()["mean"]

    def conf_int(self, level: float | None = None) -> pd.DataFrame:
        """Equal-tailed intervals by quantity: lower, upper. UsageError for a level below one half."""
        level = level if level is None else coverage(level, "fit.conf_int({})")
        return self.summary(level=level)[["lower", "upper"]]

    def without(self, out: NDArray[np.bool_] | pd.Series, *, refit: bool = True) -> Self:
        """The same law fitted to the other rows, with fewer draws: 1,000 independent ones of the exact engine.

        `refit`: else these are draws of this fit, weighted, where their weights can be trusted (Pareto k up to 0.7).
        Raises UsageError for what is no truth value of every row.
        """
        gone = np.asarray(out)
        if gone.shape != (len(self.rows),) or gone.dtype != bool:
            got, allowed = f"{gone.dtype} of {gone.shape}", f"true or false for each of {len(self.rows)} rows"
            raise UsageError("rows to leave out need one truth value each", got=got, allowed=allowed)
        rest = self.rows[~gone]
        if refit or not isinstance(self.model, Gaussian) or self.model.y.size != len(self.rows):
            return self._again(self.law, rest)
        design = self.law.of(rest)
        draws = None
        if isinstance(design.model, Gaussian) and design.model.y.size == len(rest):
            size = REFIT_EXACT * self.draws.settings.chains
            draws = design.model.reweighted(self.draws, self.model, ~gone, seed=self.seed, size=size)
        if draws is None:
            return self._again(self.law, rest)
        return replace(self, rows=rest, design=design, draws=draws, call=None)

    def under(self, law: Law) -> Self:
        """Another law fitted to the same rows, with fewer draws like `without`."""
        return self._again(law, self.rows)

    def _again(self, law: Law, rows: pd.DataFrame) -> Self:
        design = law.of(rows)
        size = REFIT_EXACT if self.draws.exact else REFIT_SAMPLED
        draws = design.model.sample(seed=self.seed, settings=replace(self.draws.settings, draws=size))
        return replace(self, law=law, rows=rows, design=design, draws=draws, call=None)

    def predict(self, new: Any, *, scale: str = OWN, level: float | None = None) -> pd.DataFrame:
        """Predicted outcomes of new rows on the outcome's own scale: <outcome>_mean, _sd, _median, _lower, _upper.

        new: a table, records, or one row as a dict. scale: "log" (of a law that has it; "log10" of others) for columns
        log_<outcome>_mean, …. Of gains `P(<outcome> < 1)`, too. A lab never seen is drawn anew: `new` names levels that
        the fit has not seen, and `outside` numbers beyond those of its rows. Where the law's outcomes are not rows,
        such as counts of groups, `outcome` names them.

        Raises UsageError for what is no table, for columns that are missing, for numbers that are not finite, and for a
        scale that the law does not have.
        """
        new = frame_of(new)
        level = self.level if level is None else coverage(level, "fit.predict(new, level={})")
        design, rows, drawn = self._predicted(new)
        table = table_of(drawn, design.scale, scale, self.estimand, level)
        if not design.by_row:
            table.insert(0, "outcome", list(design.outcomes))
            return table
        far = beyond(rows, self.rows, design.groups, design.covariates)
        return pd.concat([new.reset_index(drop=True), table, far], axis=1)

    def predicted(self, new: Any) -> Array:
        """Predictive draws of new rows' outcomes on the law's scale, draws × outcomes."""
        return self._predicted(frame_of(new))[2]

    def _predicted(self, new: pd.DataFrame) -> tuple[Design, pd.DataFrame, Array]:
        if not len(new):
            raise UsageError("an empty table", got="0 rows", allowed="at least one row")
        new = new if self.call is None else labelled_new(new, self.call.arguments, self.call.standard)
        rows, rng = self.reads(new), np.random.default_rng(self.seed)
        design, values = self.design.of_new(rows), self.draws.few(self.draws.size)
        if isinstance(design.model, Sampled):
            drawn = design.model.predict(values, rng)
        else:
            values.pop("error", None)  # of the outcomes fitted
            drawn = design.model.replicate(values, rng)
        if bad := int((~np.isfinite(drawn)).any(axis=0).sum()):
            got, allowed = f"{bad} of {drawn.shape[1]} outcomes", "finite numbers in the columns that the law reads"
            raise UsageError("rows have no finite prediction", where=self.law.name, got=got, allowed=allowed)
        return design, rows, drawn

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
    def left_out_alone(self) -> LeftOut:
        """As `loo` with every outcome by itself, as draws of PyMC are always weighted."""
        if isinstance(self.model, Sampled):
            return self.loo()
        return leave_one_out(self.model, self.draws, seed=self.seed, together=False)

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
