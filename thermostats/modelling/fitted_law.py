"""A law fitted to a table: what its draws say, what it predicts, and the same law fitted to other
rows.

What checks, figures, effects and files make of it stands in modules of their own, which `fit.Fit`
brings together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import cloudpickle
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError, build_unknown_error
from thermostats.modelling.draws import (
    KIND,
    SEED,
    Array,
    Draws,
    NamedDraws,
    Quantities,
    Settings,
    Statement,
    Statements,
    evaluate_statement,
    measure_convergence,
    name_elements,
    read_only,
    summarise_quantities,
)
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.labelled import convert_new_labels
from thermostats.modelling.laws import (
    OWN,
    Call,
    D,
    Design,
    Law,
    mark_extrapolation,
    summarise_predictions,
)
from thermostats.modelling.leave_out import LeftOut, leave_one_out, list_units
from thermostats.modelling.sampling import Sampled
from thermostats.next_steps import wrap_methods
from thermostats.settings import check_coverage, options, set_level
from thermostats.tables.frames import read_frame

SUMMARY = ("mean", "sd", "median", "lower", "upper")
"""Columns of a summary."""
REFIT_EXACT = 250
REFIT_SAMPLED = 1000
"""Draws a chain of a refit, whose probabilities are compared with 0.80: 1,000 independent ones are
right to ±0.013."""
DIVISIONS = "divisions"
"""The table of a law whose statements hang on names of columns."""
INFLUENCE = "influence"
"""The check without each unit, and its table, which a fit of every law has."""


def keep_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that the law reads as they are."""
    return rows


@wrap_methods
@dataclass(frozen=True, kw_only=True, repr=False)
class FittedLaw:
    """One law fitted to one table, and what its draws say; every interval is equal-tailed at
    `level`.

    It draws when draws are first asked for, unless it has them.
    """

    law: Law
    rows: pd.DataFrame
    design: Design
    drawn: Draws | None = None
    """Draws that were made; None: none yet."""
    settings: Settings = field(default_factory=Settings)
    """How to draw."""
    seed: int = SEED
    level: float = field(default_factory=lambda: options.level)
    estimand: str = ""
    """Which gain, or which definition of a layer, at which position."""
    sources: tuple[str, ...] = ()
    """Files or measurements that the rows come from."""
    warnings: tuple[str, ...] = ()
    reads: Callable[[pd.DataFrame], pd.DataFrame] = keep_rows
    """A user's rows as the law reads them, for predictions."""
    call: Call | None = None
    """What made the fit; None of one that was fitted again to other rows or by another law."""

    @cached_property
    def draws(self) -> Draws:
        """Draws of the posterior: those there are, else made now."""
        if self.drawn is not None:
            return self.drawn
        return self.design.model.sample(seed=self.seed, settings=self.settings)

    @property
    def model(self) -> Gaussian | Mixture | Sampled:
        """What was drawn."""
        return self.design.model

    def designed(self, kind: type[D]) -> D:
        """Give the design, of the kind that a law makes.

        Parameters
        ----------
        kind : type
            The class of the design.

        Returns
        -------
        Design
            The same object, known to be of this kind.

        Raises
        ------
        TypeError
            Where it is of another law.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> from thermostats.modelling.mixed_model import MixedDesign
        >>> fit.designed(MixedDesign) is fit.design
        True
        """
        if not isinstance(self.design, kind):
            raise TypeError(f"the design of a fit of {self.law.name} is no {kind.__name__}")
        return self.design

    @cached_property
    def quantities(self) -> dict[str, Array]:
        """What is reported, and what statements may read: draws by name, chain × draw × …"""
        quantities = self.law.quantities(self.draws.values, self.design)
        return NamedDraws(read_only(quantities))

    @property
    def priors(self) -> pd.DataFrame:
        """What everything is drawn from, by symbol: prior and reason, in words."""
        rows = list(self.law.priors)
        return pd.DataFrame(rows, columns=["symbol", "prior", "reason"]).set_index("symbol")

    @property
    def reported(self) -> dict[str, Array]:
        """The quantities that the summary shows."""
        names = self.law.reported or tuple(self.quantities)
        reported = {}
        for name in names:
            if name in self.quantities:
                reported[name] = self.quantities[name]
        return reported

    @property
    def statements(self) -> Mapping[str, Statement]:
        """What the fit is asked where nothing else is."""
        return Statements(self.law.statements)

    @property
    def probabilities(self) -> dict[str, float]:
        """Posterior probability of every statement of the law."""
        return {name: self.probability(name) for name in self.law.statements}

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest probability of every statement that hangs on which column is called
        which, over the table `divisions`; empty where the law has none."""
        if DIVISIONS not in self.law.tables:
            return {}
        table = self.table(DIVISIONS)
        ranges = {}
        for name, of in table.groupby("statement", sort=False)["probability"]:
            ranges[str(name)] = (float(of.min()), float(of.max()))
        return ranges

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler` where the draws fail their gate."""
        return self.draws.status

    @cached_property
    def log_prior(self) -> Array:
        """Log prior of every draw, up to a constant, chains joined."""
        return self.model.log_prior(self.draws.few(self.draws.size))

    def probability(self, statement: str | Statement) -> float:
        """Compute the posterior probability of a statement.

        Parameters
        ----------
        statement : str or callable
            Its name among the law's, or a function of the quantities that is true or false draw by
            draw.

        Returns
        -------
        float
            The share of draws in which it holds.

        Raises
        ------
        UsageError
            For a name that the law does not have, and as `truth` does.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> round(fit.probability("slope on n_layers > 0"), 2)
        0.01
        >>> round(fit.probability(lambda quantities: quantities["group_sd"] > 0), 2)
        1.0
        """
        if isinstance(statement, str):
            if statement not in self.law.statements:
                raise build_unknown_error(
                    "no such statement", statement, self.law.statements, where=self.law.name
                )
            statement = self.law.statements[statement]
        return float(self.truth(statement).mean())

    def truth(self, statement: Statement) -> NDArray[np.bool_]:
        """Say whether a statement holds, draw by draw.

        Parameters
        ----------
        statement : callable
            A function of the quantities.

        Returns
        -------
        array of bool
            Chain × draw.

        Raises
        ------
        UsageError
            Where it asks for a quantity that there is none of, or has no single value a draw.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> fit.truth(lambda quantities: quantities["residual_sd"] > 0).shape
        (4, 1000)
        """
        try:
            truth = evaluate_statement(statement, self.quantities)
        except KeyError as error:
            what = "a statement asks for a quantity that there is none of"
            where = self.law.name
            raise build_unknown_error(what, error.args[0], self.quantities, where=where) from None
        if truth.size != self.draws.size:
            shown = f"an array of {truth.shape}"
            step = "of a quantity with several elements ask for .all(axis=-1) or .any(axis=-1)"
            raise UsageError(
                "a statement has not one truth value a draw",
                where=self.law.name,
                got=shown,
                allowed=f"{self.draws.size} truth values",
                next_step=step,
            )
        return truth

    def summary(self, *, level: float | None = None) -> pd.DataFrame:
        """Summarise every quantity: mean, sd, median, and the ends of its equal-tailed interval.

        Parameters
        ----------
        level : float
            Probability of the intervals; by default the fit's.

        Returns
        -------
        DataFrame
            A row each quantity: mean, sd, median, lower, upper. What is the same of every quantity
            is in `attrs`: law, estimand, sources, priors, kind and level of the intervals.

        Raises
        ------
        UsageError
            For a level below one half.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> fit.summary(level=0.9)[["median", "lower", "upper"]].round(2)
                           median  lower  upper
        quantity
        mean                 0.06  -0.01   0.15
        slope on n_layers   -0.01  -0.01  -0.00
        residual_sd          0.10   0.08   0.14
        group_sd             0.07   0.01   0.20
        """
        level = self.level if level is None else check_coverage(level, "fit.summary(level={})")
        table = summarise_quantities(self.reported, level=level, exact=self.reported)
        by_name = table.set_index("quantity")[list(SUMMARY)]
        result = by_name.rename(self._name_elements())
        result.attrs |= {
            "law": self.law.name,
            "estimand": self.estimand,
            "sources": list(self.sources),
            "kind": KIND,
            "level": level,
            "priors": [list(prior) for prior in self.law.priors],
        }
        if self.ranges:
            result.attrs["ranges"] = self.ranges
        return result

    def convergence(self) -> pd.DataFrame:
        """Measure how far sampling converged: rhat, ess_bulk and ess_tail by quantity.

        Returns
        -------
        DataFrame
            A row each quantity that was sampled; none where draws are independent.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> len(fit.convergence())  # drawn exactly
        0
        """
        sampled = {} if self.draws.exact else self.reported
        columns = []
        names = []
        for name, draws in sampled.items():
            elements = draws.reshape(*draws.shape[:2], -1)
            columns.append(pd.DataFrame(measure_convergence(elements)))
            names += name_elements(name, draws.shape[2:])
        table = pd.DataFrame(columns=["rhat", "ess_bulk", "ess_tail"], dtype=float)
        if columns:
            table = pd.concat(columns)
        by_name = table.set_axis(pd.Index(names, name="quantity"))
        return by_name.rename(self._name_elements())

    def _name_elements(self) -> dict[str, str]:
        """Elements of quantities that are arrays, by the names of what they are of."""
        names = {}
        for quantity, labels in self.design.labels.items():
            for place, label in enumerate(labels):
                names[f"{quantity}[{place}]"] = f"{quantity}[{label}]"
        return names

    @property
    def params(self) -> pd.Series:
        """Posterior means by quantity."""
        return self.summary()["mean"]

    def conf_int(self, level: float | None = None) -> pd.DataFrame:
        """Give equal-tailed intervals by quantity.

        Parameters
        ----------
        level : float
            Probability of the intervals; by default the fit's.

        Returns
        -------
        DataFrame
            Columns lower and upper.

        Raises
        ------
        UsageError
            For a level below one half.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> fit.conf_int(0.5).round(2)
                           lower  upper
        quantity
        mean                0.04   0.09
        slope on n_layers  -0.01  -0.01
        residual_sd         0.09   0.12
        group_sd            0.04   0.10
        """
        level = level if level is None else check_coverage(level, "fit.conf_int({})")
        return self.summary(level=level)[["lower", "upper"]]

    def exclude_rows(self, out: NDArray[np.bool_] | pd.Series, *, refit: bool = True) -> Self:
        """Fit the same law to the other rows, with fewer draws.

        The exact engine makes 1,000 independent ones.

        Parameters
        ----------
        out : array or Series of bool
            True for every row that is left out.
        refit : bool
            Else these are draws of this fit, weighted, where their weights can be trusted (Pareto k
            up to 0.7).

        Returns
        -------
        Fit
            Of the rows that stay.

        Raises
        ------
        UsageError
            For what is no truth value of every row.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> others = fit.exclude_rows(fit.rows["heritage"] == "EleutherAI")
        >>> len(fit.rows), len(others.rows)
        (22, 10)
        """
        gone = np.asarray(out)
        if gone.shape != (len(self.rows),) or gone.dtype != bool:
            got = f"{gone.dtype} of {gone.shape}"
            allowed = f"true or false for each of {len(self.rows)} rows"
            raise UsageError(
                "rows to leave out need one truth value each", got=got, allowed=allowed
            )
        rest = self.rows[~gone]
        if refit or not isinstance(self.model, Gaussian) or self.model.y.size != len(self.rows):
            return self._refit_rows(self.law, rest)
        design = self.law.of(rest)
        draws = None
        if isinstance(design.model, Gaussian) and design.model.y.size == len(rest):
            size = REFIT_EXACT * self.draws.settings.chains
            model = design.model
            draws = model.reweighted(self.draws, self.model, ~gone, seed=self.seed, size=size)
        if draws is None:
            return self._refit_rows(self.law, rest)
        return replace(self, rows=rest, design=design, drawn=draws, call=None)

    def refit_law(self, law: Law) -> Self:
        """Fit another law to the same rows, with fewer draws, as `exclude_rows` has them.

        Parameters
        ----------
        law : Law
            The law, such as one of `fit.law.alternatives`.

        Returns
        -------
        Fit
            Of the same rows.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> name, law = next(iter(fit.law.alternatives.items()))
        >>> name, fit.refit_law(law).status
        ('half the prior scales', 'passed')
        """
        return self._refit_rows(law, self.rows)

    def _refit_rows(self, law: Law, rows: pd.DataFrame) -> Self:
        design = law.of(rows)
        size = REFIT_EXACT if self.draws.exact else REFIT_SAMPLED
        settings = replace(self.draws.settings, draws=size)
        draws = design.model.sample(seed=self.seed, settings=settings)
        return replace(self, law=law, rows=rows, design=design, drawn=draws, call=None)

    def predict(
        self,
        new: pd.DataFrame | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        scale: str = OWN,
        level: float | None = None,
    ) -> pd.DataFrame:
        """Predict outcomes of new rows on the outcome's own scale.

        A lab never seen is drawn anew.

        Parameters
        ----------
        new : DataFrame, mapping or sequence of mapping
            A table, whose index the predictions have, records, or one row as a dict.
        scale : str
            "log" (of a law that has it; "log10" of others) for columns `log_<outcome>_mean`, ….
        level : float
            Of the equal-tailed intervals, by default the fit's; it is in `attrs`.

        Returns
        -------
        DataFrame
            `<outcome>_mean`, _sd, _median, _lower, _upper; of gains `P(<outcome> < 1)`, too. `new`
            names levels that the fit has not seen, and `outside` numbers beyond those of its rows.
            Where the law's outcomes are not rows, such as counts of groups, `outcome` names them.

        Raises
        ------
        UsageError
            For what is no table, for columns that are missing, for numbers that are not finite, and
            for a scale that the law does not have.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> predicted = fit.predict({"n_layers": 24, "heritage": "a new lab"})
        >>> predicted[["log_gain_median", "new"]].round(1)
           log_gain_median            new
        0              0.1  lab a new lab
        """
        new = read_frame(new)
        index = new.index
        new = new.reset_index(drop=True)
        level = self.level if level is None else check_coverage(level, "fit.predict(new, level={})")
        design, rows, drawn = self._draw_predictions(new)
        table = summarise_predictions(drawn, design.scale, scale, self.estimand, level)
        if design.by_row:
            far = mark_extrapolation(rows, self.rows, design.groups, design.covariates)
            table = pd.concat([new, table, far], axis=1).set_axis(index)
        else:
            table.insert(0, "outcome", list(design.outcomes))
        table.attrs = {"level": level, "kind": "equal-tailed"}
        return table

    def predicted(self, new: Any) -> Array:
        """Draw outcomes of new rows on the law's scale.

        Parameters
        ----------
        new : DataFrame, mapping or sequence of mapping
            As for `predict`.

        Returns
        -------
        array
            Draws × outcomes.

        Raises
        ------
        UsageError
            As `predict` does.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> fit.predicted({"n_layers": 24, "heritage": "a new lab"}).shape
        (4000, 1)
        """
        return self._draw_predictions(read_frame(new))[2]

    def _draw_predictions(self, new: pd.DataFrame) -> tuple[Design, pd.DataFrame, Array]:
        if not len(new):
            raise UsageError("an empty table", got="0 rows", allowed="at least one row")
        if self.call is not None:
            new = convert_new_labels(new, self.call.arguments, self.call.standard)
        rows = self.reads(new)
        rng = np.random.default_rng(self.seed)
        design = self.design.build_new(rows)
        values = self.draws.few(self.draws.size)
        if isinstance(design.model, Sampled):
            drawn = design.model.predict(values, rng)
        else:
            values.pop("error", None)  # of the outcomes fitted
            drawn = design.model.replicate(values, rng)
        if bad := int((~np.isfinite(drawn)).any(axis=0).sum()):
            got = f"{bad} of {drawn.shape[1]} outcomes"
            allowed = "finite numbers in the columns that the law reads"
            raise UsageError(
                "rows have no finite prediction", where=self.law.name, got=got, allowed=allowed
            )
        return design, rows, drawn

    @cached_property
    def alternative_quantities(self) -> dict[str, Quantities]:
        """Quantities under every alternative of the law, by its name, each from a refit."""
        laws = self.law.alternatives.items()
        return {name: self.refit_law(law).quantities for name, law in laws}

    @cached_property
    def reduced_quantities(self) -> list[tuple[str, Quantities]]:
        """Quantities without each unit, by its name: from the draws' weights, or a refit."""
        units = list_units(self.rows, self.law.units)
        reduced: list[tuple[str, Quantities]] = []
        for name, out in units:
            without = self.exclude_rows(out, refit=False)
            reduced.append((name, without.quantities))
        return reduced

    @cached_property
    def _left_out(self) -> LeftOut:
        return leave_one_out(self.model, self.draws, seed=self.seed)

    def loo(self, *, refit: bool = True) -> LeftOut:
        """Predict every outcome from all others (leave one out).

        Parameters
        ----------
        refit : bool
            A sampled model without each outcome whose weights cannot be trusted; else they stand.

        Returns
        -------
        LeftOut
            elpd, its standard error, PIT, Pareto k before any refit.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> round(fit.loo().elpd), round(fit.loo().se)
        (17, 3)
        """
        if refit or not isinstance(self.model, Sampled) or "_left_out" in vars(self):
            return self._left_out
        return leave_one_out(self.model, self.draws, seed=self.seed, refit=False)

    @cached_property
    def left_out_separately(self) -> LeftOut:
        """As `loo` with every outcome by itself, as draws of PyMC are always weighted."""
        if isinstance(self.model, Sampled):
            return self.loo()
        return leave_one_out(self.model, self.draws, seed=self.seed, together=False)

    def table(self, name: str = "") -> pd.DataFrame:
        """Give one of the law's tables, computed when first asked for.

        Parameters
        ----------
        name : str
            One of `fit.law.tables`, or `influence`: the probability of every statement without each
            unit, as `check` asks it (statement, left_out, probability).

        Returns
        -------
        DataFrame
            A copy.

        Raises
        ------
        UsageError
            For a table that the law does not have, and without a name.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> list(fit.law.tables), len(fit.table("rows")) == len(fit.rows)
        (['rows'], True)
        """
        tables = {**self.law.tables, INFLUENCE: _tabulate_influence}
        if name not in tables:
            raise build_unknown_error(
                "no such table of the fit",
                name,
                tables,
                where=self.law.name,
                line='fit.table("{}")',
            )
        if name not in self._tables:
            with set_level(self.level):
                self._tables[name] = tables[name](self)
        return self._tables[name].copy()

    @cached_property
    def _tables(self) -> dict[str, pd.DataFrame]:
        return {}

    def __reduce__(
        self,
    ) -> tuple[Callable[[type[FittedLaw], bytes], FittedLaw], tuple[type[FittedLaw], bytes]]:
        """For pickle and other processes: laws hold functions, which pickle alone cannot write."""
        values = {}
        for each in fields(self):
            values[each.name] = getattr(self, each.name)
        return _rebuild_fit, (type(self), cloudpickle.dumps(values))


def _tabulate_influence(fit: FittedLaw) -> pd.DataFrame:
    """What becomes of the law's statements without each unit."""
    return measure_unit_influence(fit, fit.law.statements)


def measure_unit_influence(fit: FittedLaw, statements: Mapping[str, Statement]) -> pd.DataFrame:
    """Probabilities of statements with nothing left out and without each unit: statement, left_out,
    probability.

    Of exact draws by their weights, by a refit where these cannot be trusted. A unit without which
    the statement cannot be put is passed over.
    """
    rest = fit.reduced_quantities
    rows = []
    for name, statement in statements.items():
        as_fitted = float(fit.truth(statement).mean())
        rows.append((name, "nothing", as_fitted))
        for unit, p in evaluate_refits(statement, rest):
            rows.append((name, unit, p))
    return pd.DataFrame(rows, columns=["statement", "left_out", "probability"])


def evaluate_refits(
    statement: Statement, refits: Iterable[tuple[str, Quantities]]
) -> Iterator[tuple[str, float]]:
    """The probability of a statement in every refit that it can be put to."""
    if isinstance(statement, np.ndarray):
        return
    for name, quantities in refits:
        try:
            yield name, float(evaluate_statement(statement, quantities).mean())
        except KeyError:
            continue


def _rebuild_fit(kind: type[FittedLaw], written: bytes) -> FittedLaw:
    return kind(**cloudpickle.loads(written))
