"""Every fit, exact or sampled, of a law of ours or of a user's own PyMC model: what a report or a
user asks of it.

Checks, figures, tables and files are made by modules of their own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import cloudpickle
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import SHOWN_OF, DataError, UsageError, build_unknown_error
from thermostats.modelling import checks, display
from thermostats.modelling.arviz_groups import build_groups
from thermostats.modelling.checks import Gate
from thermostats.modelling.columns import check_columns, read_frame
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
from thermostats.modelling.fit_power import STUDIES, FitPower, simulate_power
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.group_effects import (
    GroupContrast,
    GroupEffects,
    contrast_groups,
    measure_group_effects,
)
from thermostats.modelling.labelled import convert_new_labels
from thermostats.modelling.laws import (
    OWN,
    UNITS,
    Call,
    D,
    Design,
    Law,
    Prior,
    build_own_law,
    mark_extrapolation,
    rebuild_fit,
    summarise_predictions,
)
from thermostats.modelling.leave_out import LeftOut, compare_predictions, leave_one_out
from thermostats.modelling.planned import Numbers, Sizes
from thermostats.modelling.sampling import Declare, Sampled
from thermostats.next_steps import Code, wrap_methods
from thermostats.next_steps import call as line
from thermostats.settings import check_coverage, options, set_level

__all__ = ["Design", "Fit", "Law", "Prior", "build_fit", "build_own_law", "fit"]
SUMMARY = ("mean", "sd", "median", "lower", "upper")
"""Columns of a summary."""
REFIT_EXACT, REFIT_SAMPLED = 250, 1000
"""Draws a chain of a refit, whose probabilities are compared with 0.80: 1,000 independent ones are
right to ±0.013."""
DIVISIONS = "divisions"
"""The table of a law whose statements hang on names of columns."""
NO_SOURCE = "the table names no source, so the page cannot say what the fit rests on"


def keep_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that the law reads as they are."""
    return rows


@wrap_methods
@dataclass(frozen=True, kw_only=True, repr=False)
class Fit:
    """One law fitted to one table; every interval is equal-tailed at `level`.

    At a prompt it is a few lines, in a notebook a table. It draws when draws are first asked for,
    unless it has them.
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
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest probability of every statement that hangs on which column is called
        which, over the table `divisions`; empty where the law has none."""
        if DIVISIONS not in self.law.tables:
            return {}
        by = self.table(DIVISIONS).groupby("statement", sort=False)["probability"]
        return {str(name): (float(of.min()), float(of.max())) for name, of in by}

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
            raise UsageError(
                "a statement has not one truth value a draw",
                where=self.law.name,
                got=f"an array of {truth.shape}",
                allowed=f"{self.draws.size} truth values",
                next_step="of a quantity with several elements ask for .all(axis=-1) or "
                ".any(axis=-1)",
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
        table = summarise_quantities(self.reported, level=level, exact=self.reported).set_index(
            "quantity"
        )
        result = table[list(SUMMARY)].rename(self._name_elements())
        result.attrs |= {
            "law": self.law.name,
            "estimand": self.estimand,
            "sources": list(self.sources),
        }
        priors = [list(prior) for prior in self.law.priors]
        result.attrs |= {"kind": KIND, "level": level, "priors": priors}
        result.attrs |= {"ranges": self.ranges} if self.ranges else {}
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
        columns = [
            pd.DataFrame(measure_convergence(v.reshape(*v.shape[:2], -1))) for v in sampled.values()
        ]
        names = [
            element for name, v in sampled.items() for element in name_elements(name, v.shape[2:])
        ]
        table = (
            pd.concat(columns)
            if columns
            else pd.DataFrame(columns=["rhat", "ess_bulk", "ess_tail"], dtype=float)
        )
        return table.set_axis(pd.Index(names, name="quantity")).rename(self._name_elements())

    def _name_elements(self) -> dict[str, str]:
        """Elements of quantities that are arrays, by the names of what they are of."""
        labels = self.design.labels
        return {
            f"{n}[{i}]": f"{n}[{label}]"
            for n, every in labels.items()
            for i, label in enumerate(every)
        }

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
            draws = design.model.reweighted(
                self.draws, self.model, ~gone, seed=self.seed, size=size
            )
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
        draws = design.model.sample(
            seed=self.seed, settings=replace(self.draws.settings, draws=size)
        )
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
        new = (
            new
            if self.call is None
            else convert_new_labels(new, self.call.arguments, self.call.standard)
        )
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
        units = checks.list_units(self.rows, self.law.units)
        return [(name, self.exclude_rows(out, refit=False).quantities) for name, out in units]

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

    def table(self, name: str) -> pd.DataFrame:
        """Give one of the law's tables, computed when first asked for.

        Parameters
        ----------
        name : str
            One of `fit.law.tables`.

        Returns
        -------
        DataFrame
            A copy.

        Raises
        ------
        UsageError
            For a table that the law does not have.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> list(fit.law.tables), len(fit.table("rows")) == len(fit.rows)
        (['rows'], True)
        """
        if name not in self.law.tables:
            raise build_unknown_error(
                "no such table of the fit", name, self.law.tables, where=self.law.name
            )
        if name not in self._tables:
            with set_level(self.level):
                self._tables[name] = self.law.tables[name](self)
        return self._tables[name].copy()

    @cached_property
    def _tables(self) -> dict[str, pd.DataFrame]:
        return {}

    def effects(self, group: str = "lab") -> GroupEffects:
        """Estimate what every group adds to its outcomes, partially pooled.

        Parameters
        ----------
        group : str
            lab, family, or the column of other groups; on the scale of the law, of gains the log.

        Returns
        -------
        GroupEffects
            Draws, and a table at a prompt.

        Raises
        ------
        UsageError
            For a fit without such groups.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> fit.effects("lab").table[["n_models", "mean"]].round(2)
                     n_models  mean
        lab
        BigScience          4  0.03
        EleutherAI         12 -0.05
        Meta                4  0.03
        StabilityAI         1 -0.01
        TII                 1  0.01
        """
        return measure_group_effects(self, group)

    def contrast(self, first: str, second: str, *, group: str = "") -> GroupContrast:
        """Estimate the effect of one group minus that of another, from the draws.

        Parameters
        ----------
        first, second : str
            Names of groups.
        group : str
            As in `effects`; by default the fit's first, labs where it has any.

        Returns
        -------
        GroupContrast
            Estimate, interval and P > 0.

        Raises
        ------
        UsageError
            For a group that is not there or is of one model, and for a fit without groups.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> round(fit.contrast("EleutherAI", "Meta").estimate, 2)
        -0.08
        """
        return contrast_groups(self, first, second, group)

    def power(
        self,
        models: Numbers = (),
        labs: Numbers = (),
        *,
        sizes: Sizes = (),
        studies: int = STUDIES,
        seed: int | None = None,
    ) -> FitPower:
        """How often studies like this one would reach P ≥ .95, or an interval without 0.

        Studies have so many models in so many labs, as even as may be, or labs of stated `sizes`.
        Rows but for the outcome are drawn from those at hand, lab by lab; all labs and models are
        new. Outcomes are drawn by the law, each study's from another draw of the fit, and the law
        is fitted to each of them. What is asked: every statement of the law, and of a line whether
        the interval of every slope leaves out 0.

        Parameters
        ----------
        models, labs : int or list of int
            Every pair of them is a study; of a fit without labs `models` alone.
        sizes : list of int, or list of such lists
            Models of each lab of one study, or of several: `[8, 7, 1, 1]`.
        studies : int
            Simulated studies of each size.
        seed : int, optional
            Of the simulation; by default the fit's.

        Returns
        -------
        FitPower
            At a prompt a line for each thing asked, and a table; `table`, `sentences`, and
            `plot(axes)`. Where it is stopped, what it has by then, and what it lacks.

        Raises
        ------
        UsageError
            For sizes that no study has, and for laws whose outcomes are not rows.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> planned = fit.power(models=20, labs=4, studies=10)
        >>> list(planned.table.columns)[:3]
        ['asked', 'models', 'labs']
        """
        return simulate_power(
            self, models, labs, sizes, studies=studies, seed=self.seed if seed is None else seed
        )

    def __repr__(self) -> str:
        return "\n".join(display.format_lines(self))

    def _repr_html_(self) -> str:
        return display.render_html(self)

    @property
    def posterior(self) -> Any:
        """Draws of the quantities as an xarray Dataset, dimensions chain and draw first."""
        group = self.to_arviz()["posterior"]
        return group.to_dataset() if hasattr(group, "to_dataset") else group

    def check(
        self,
        statements: Mapping[str, Statement] | None = None,
        *,
        refits: bool = True,
        seed: int | None = None,
    ) -> Gate:
        """Check what keeps the answer to some statements from counting, and what they hang on.

        Parameters
        ----------
        statements : mapping
            Statements by name; the law's by default.
        refits : bool
            Also under other priors and without each unit, by refits.
        seed : int
            Of what is simulated; by default the fit's.

        Returns
        -------
        Gate
            A row each check: passed, warned or failed, with the reason.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> fit.check(refits=False).passes
        True
        """
        asked_for = self.law.statements if statements is None else statements
        return checks.run_checks(
            self, asked_for, refits=refits, seed=self.seed if seed is None else seed
        )

    def sensitivity(
        self, statements: Mapping[str, Statement] | None = None, *, refits: bool = True
    ) -> pd.DataFrame:
        """Compute the probabilities of statements as fitted and under every alternative.

        Parameters
        ----------
        statements : mapping
            Statements by name; the law's by default.
        refits : bool
            With exact refits under the law's alternatives.

        Returns
        -------
        DataFrame
            Columns: statement, alternative, probability (missing where weights cannot be trusted),
            pareto_k (of importance weights; without it an exact refit).

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> table = fit.sensitivity({"rises": lambda q: q["slope on n_layers"] > 0}, refits=False)
        >>> table["alternative"].tolist()
        ['as fitted', 'prior to the power 0.8', 'prior to the power 1.25']
        """
        return checks.measure_sensitivity(
            self, self.law.statements if statements is None else statements, refits=refits
        )

    def plot(self, kind: str = "", axes: Axes | None = None) -> Axes:
        """Draw one figure, onto the axes or onto those of a new figure.

        Parameters
        ----------
        kind : str
            One of the law's figures (the first by default), `intervals`, `prior` (before and after
            the data) or `replicated` (the test quantities).
        axes : Axes
            Where to draw.

        Returns
        -------
        Axes
            What was drawn onto.

        Raises
        ------
        UsageError
            For another kind.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> fit.plot("intervals").figure.savefig("intervals.svg")
        """
        with set_level(self.level):
            return display.draw(self, kind, axes)

    def to_arviz(self) -> Any:
        """Give the fit as the installed ArviZ has it: InferenceData before 1.0, DataTree since.

        Quantities that the rows leave no doubt of, such as the mean of outcomes that are exact, are
        not among them: no density can be drawn of them.

        Returns
        -------
        InferenceData or DataTree
            Groups: posterior, prior, posterior_predictive, prior_predictive, log_likelihood,
            log_prior, observed_data (outcomes `y`) and constant_data (columns that the law reads,
            `lab_index`, `y_se`). Effects of labs are `lab_effect`, of the dimension `lab`, whose
            coordinates are their names; so of other groups. Attributes say in words of which
            outcomes the weights of `az.loo` cannot be trusted (`log_likelihood.attrs["pareto_k"]`;
            `fit.loo()` predicts these too), and that exact draws have no energy.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> float(fit.to_arviz()["posterior"]["residual_sd"].mean()) > 0
        True
        """
        return build_groups(self, list(_names_of_outcomes(self)))

    def save(self, path: str | Path) -> Path:
        """Write draws, rows and words to a netCDF file, which `thermostats.load_fit` reads.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Path
            The same.

        Raises
        ------
        UsageError
            Where the file cannot be written.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> fit.save("line.nc").name
        'line.nc'
        """
        from thermostats.modelling.saving import save  # noqa: PLC0415

        return save(self, path)

    def to_latex(self, *, digits: int = 3) -> str:
        """Write the summary as a table for a paper, with booktabs.

        Parameters
        ----------
        digits : int
            Significant ones of every number.

        Returns
        -------
        str
            LaTeX.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> print(fit.to_latex(digits=2).splitlines()[0])
        % line fit of log_gain: 22 models of 5 labs, passed
        """
        return display.render_latex(self, digits)

    def to_dict(self) -> dict[str, Any]:
        """Give everything but the draws, as JSON takes it: missing and infinite numbers are null.

        Returns
        -------
        dict
            Words, numbers and tables by name.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> import json
        >>> isinstance(json.dumps(fit.to_dict()), str)
        True
        """
        return display.dump_fit(self)

    def __reduce__(self) -> tuple[Callable[[type[Fit], bytes], Fit], tuple[type[Fit], bytes]]:
        """For pickle and other processes: laws hold functions, which pickle alone cannot write."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _rebuild_fit, (type(self), cloudpickle.dumps(values))


def _names_of_outcomes(fit: Fit) -> Sequence[Any]:
    """Models where each has one outcome, else as the law names them."""
    names = fit.design.outcomes or tuple(range(fit.model.observed.size))
    rows = fit.rows
    if names == tuple(rows.index) and "model_id" in rows and rows["model_id"].is_unique:
        return tuple(rows["model_id"].astype(str))
    return names


def _rebuild_fit(kind: type[Fit], written: bytes) -> Fit:
    return kind(**cloudpickle.loads(written))


def build_fit(
    law: Law,
    rows: pd.DataFrame,
    *,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
    estimand: str = "",
    sources: Sequence[str] | None = (),
    warnings: Sequence[str] = (),
    reads: Callable[[pd.DataFrame], pd.DataFrame] = keep_rows,
) -> Fit:
    """A law fitted to rows, not drawn yet; `sources`: where these come from, None where it is not
    asked."""
    return Fit(
        law=law,
        rows=rows,
        design=law.of(rows),
        settings=settings,
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
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """Fit a PyMC model of your own to a table and check it like every other fit.

    Parameters
    ----------
    rows : DataFrame
        The table.
    model : callable
        `model(data)` declares variables in an open PyMC model.
    per_row : sequence of str
        Columns that the model reads from `data`. Columns of text are numbered from 0 in the order
        of their names, and `data["n_<column>"]` is how many there are; numbers stay as they are.
    outcome : str
        The observed variable and the column of its values, which the model finds as
        `data["<outcome>_observed"]`.
    constants : mapping
        Further entries of `data`.
    statements : mapping
        Functions of the variables by name, true or false draw by draw.
    units : sequence of str
        Columns whose values `check` leaves out one by one.
    seed : int
        Of the draws.
    settings : Settings
        How to draw.

    Returns
    -------
    Fit
        Drawn when draws are first asked for.

    Raises
    ------
    UsageError
        For a column that is missing or not finite, a model that declares no such outcome or one of
        another length or reads what its data lack.
    ThermostatsError
        Where sampling cannot start.

    Examples
    --------
    >>> import pandas as pd
    >>> import pymc as pm
    >>> import thermostats
    >>> rows = pd.DataFrame({"model_id": list("abcdef"), "x": range(6), "y": range(6)})
    >>> def line(data):
    ...     slope = pm.Normal("slope", 0, 1)
    ...     pm.Normal("y", slope * data["x"], 1.0, observed=data["y_observed"])
    >>> rising = {"slope > 0": lambda quantities: quantities["slope"] > 0}
    >>> fit = thermostats.fit(rows, model=line, per_row=["x"], statements=rising)
    >>> round(fit.probability("slope > 0"), 2)
    1.0
    """
    law = build_own_law(
        model,
        per_row=per_row,
        outcome=outcome,
        constants=constants,
        statements=statements,
        units=units,
    )
    table = read_frame(rows).reset_index(drop=True)
    if table.empty:
        raise UsageError("an empty table", got="0 rows", allowed="at least one row")
    check_columns(table, outcome, *([] if tuple(units) == UNITS else law.units))
    planned = build_fit(law, table, seed=seed, settings=settings, estimand=outcome, sources=None)
    return replace(planned, drawn=planned.draws)


if TYPE_CHECKING:
    from thermostats.measurement.compare import Comparison


def load_fit(path: str | Path, *, law: Law | None = None, model: Declare | None = None) -> Fit:
    """Read a fit that `save` wrote.

    A fit of a function of this package is as it was; of any other its law or model is named again.

    Parameters
    ----------
    path : str or Path
        The netCDF file.
    law : Law
        The law of the fit, where no function of this package made it.
    model : callable
        The PyMC model of your own that was fitted.

    Returns
    -------
    Fit
        With the draws of the file.

    Raises
    ------
    UsageError
        For a file that is missing, no fit, or of another law.
    DataError
        For a damaged file, and for one whose rows this version of the package reads otherwise.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.model_rows("published", "penultimate_gain")
    >>> path = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5).save("line.nc")
    >>> thermostats.load_fit(path).status
    'passed'
    """
    from thermostats.modelling.saving import read_call, read_file, read_rows  # noqa: PLC0415

    record, values = read_file(Path(path))
    draws = Draws(
        values=values,
        diagnostics=pd.read_json(
            io.StringIO(record["diagnostics"]), orient="table", precise_float=True
        ),
        settings=Settings(**json.loads(record["settings"])),
        **json.loads(record["draws"]),
    )
    words: dict[str, Any] = json.loads(record["fit"])
    words |= {name: tuple(words[name]) for name in ("sources", "warnings")}
    rows = read_rows(record["rows"])
    if law is None and model is None and record.get("call"):
        fit = rebuild_fit(read_call(record["call"]))
        if fit.law.name != record["law"]:
            what = "this version fits another law by the name of a saved fit"
            step = "fit and save it again"
            raise DataError(
                what, where=path, got=record["law"], allowed=fit.law.name, next_step=step
            )
        if list(fit.rows.columns) != list(rows.columns) or len(fit.rows) != len(rows):
            step = "fit and save it again"
            raise DataError(
                "this version reads the rows of a saved fit otherwise", where=path, next_step=step
            )
        return replace(fit, drawn=draws, **words)
    if law is None and model is None:
        own = "per_row" in json.loads(record["own"])
        missing = {"model": Code("MODEL")} if own else {"law": Code("FIT.law")}
        raise UsageError(
            "functions are not in a saved fit",
            where=path,
            got=f"a fit of “{record['law']}”",
            allowed="law= of a fit like it, or model= of your own",
            next_step=line("load_fit", str(path), **missing),
        )
    chosen = law if law is not None else build_own_law(model, **json.loads(record["own"]))  # type: ignore[arg-type]
    if chosen.name != record["law"]:
        raise UsageError("a fit of another law", where=path, got=chosen.name, allowed=record["law"])
    return Fit(law=chosen, rows=rows, design=chosen.of(rows), drawn=draws, **words)


LINE = 'thermostats.compare({"first": FIT, "second": OTHER})'


@overload
def compare(first: Mapping[str, Fit]) -> pd.DataFrame: ...
@overload
def compare(
    first: str | Path, second: str | Path, *, data: str | Path | None = None
) -> Comparison: ...
def compare(first: Any, second: Any = None, *, data: Any = None) -> Any:
    """Compare fits by how well they predict, or two folders of models tensor by tensor.

    Parameters
    ----------
    first : mapping of Fit, str or Path
        Fits by name, such as `{"with lab": a, "without": b}`; or a folder of a model, or its hub
        id.
    second : str or Path
        The other folder.
    data : str or Path
        A user's folder, in which measurements of both are looked up.

    Returns
    -------
    DataFrame or Comparison
        Of fits a table, indexed by name, the best first: rank (0 is the best), elpd, elpd_diff
        (below the best's), weight (stacking: of the mixture of predictive densities that predicts
        best), se, dse (of the difference), p_worse (that the expected difference is above 0, by its
        normal error; NaN of the best). Of folders a `Comparison`, see `thermostats.measurement`.

    Raises
    ------
    UsageError
        For what is neither, for fits of other outcomes, and for models that cannot be subtracted.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.model_rows("published", "penultimate_gain")
    >>> depth = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
    >>> none = thermostats.fit_line(rows, "log_gain", scale=0.5)
    >>> thermostats.compare({"depth": depth, "none": none})[["rank", "elpd", "elpd_diff"]].round(1)
           rank  elpd  elpd_diff
    fit
    depth     0  16.6        0.0
    none      1  14.0        2.5
    """
    if isinstance(first, Mapping):
        return compare_fits(first)
    if isinstance(first, Fit) or isinstance(second, Fit):
        raise UsageError(
            "fits are compared by name", got="fits without names", allowed="a dict", next_step=LINE
        )
    if not all(isinstance(folder, (str, Path)) for folder in (first, second)):
        got = ", ".join(type(each).__name__ for each in (first, second))
        allowed = "a dict of fits, or the folders of two models"
        raise UsageError("nothing to compare", got=got, allowed=allowed, next_step=LINE)
    from thermostats.measurement.compare import compare as of_models  # noqa: PLC0415

    return of_models(first, second, data=data)


def _orders(fits: Sequence[Fit]) -> list[NDArray[np.intp]]:
    """Places of every fit's outcomes in the order of the first fit's, where all are of the same
    models; else as they are."""
    names = [pd.Index(_names_of_outcomes(fit)) for fit in fits]
    first = names[0]
    if any(not each.is_unique or set(each) != set(first) for each in names):
        return [np.arange(len(each)) for each in names]
    return [np.asarray(each.get_indexer(first)) for each in names]


def _put_in_order(left: LeftOut, order: NDArray[np.intp]) -> LeftOut:
    """What each outcome alone was predicted with, named by its place in the first fit."""
    density = {str(place): left.log_density[str(own)] for place, own in enumerate(order)}
    return replace(left, log_density=density)


def compare_fits(fits: Mapping[str, Fit]) -> pd.DataFrame:
    """The table of `compare`; UsageError for fewer than two fits, or fits of other outcomes."""
    if strange := [name for name, fit in fits.items() if not isinstance(fit, Fit)]:
        got = f"{strange[0]}: {fits[strange[0]]!r}"[:SHOWN_OF]
        raise UsageError("not a fit", got=got, allowed="fits of the same outcomes", next_step=LINE)
    if len(fits) < 2:
        raise UsageError(
            "nothing to compare", got=f"{len(fits)} fit", allowed="two or more", next_step=LINE
        )
    orders = _orders(list(fits.values()))
    observed = [fit.model.observed[o] for fit, o in zip(fits.values(), orders, strict=True)]
    if any(y.shape != observed[0].shape or not np.allclose(y, observed[0]) for y in observed[1:]):
        sizes = ", ".join(
            f"{name}: {y.size} outcomes" for name, y in zip(fits, observed, strict=True)
        )
        raise UsageError("only fits of the same outcomes can be compared", got=sizes)
    if any((order != orders[0]).any() for order in orders):
        each = zip(fits.items(), orders, strict=True)
        return compare_predictions(
            {str(name): _put_in_order(f.left_out_separately, order) for (name, f), order in each}
        )
    alone = len({isinstance(fit.model, Sampled) for fit in fits.values()}) > 1
    return compare_predictions(
        {str(name): fit.left_out_separately if alone else fit.loo() for name, fit in fits.items()}
    )
