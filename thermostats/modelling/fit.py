"""Every fit, exact or sampled, of a law of ours or of a user's own PyMC model: what a report or a
user asks of it.

Checks, figures, tables and files are made by modules of their own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import SHOWN_OF, DataError, UsageError
from thermostats.modelling import checks, display
from thermostats.modelling.arviz_groups import build_groups
from thermostats.modelling.checks import Gate
from thermostats.modelling.columns import check_columns
from thermostats.modelling.draws import SEED, Draws, Settings, Statement
from thermostats.modelling.fit_power import STUDIES, FitPower, simulate_power
from thermostats.modelling.fitted_law import FittedLaw, keep_rows
from thermostats.modelling.group_effects import (
    GroupContrast,
    GroupEffects,
    contrast_groups,
    measure_group_effects,
)
from thermostats.modelling.laws import UNITS, Call, Design, Law, Prior, build_own_law
from thermostats.modelling.leave_out import LeftOut, compare_predictions
from thermostats.modelling.planned import Numbers, Sizes
from thermostats.modelling.sampling import Declare, Sampled
from thermostats.next_steps import Code, wrap_methods
from thermostats.next_steps import call as line
from thermostats.settings import set_level
from thermostats.tables.frames import read_frame

__all__ = ["Design", "Fit", "Law", "Prior", "build_fit", "build_own_law", "fit"]
OURS = "thermostats.modelling."
"""How modules begin whose fits are made again from their calls."""
NO_SOURCE = "the table names no source, so the page cannot say what the fit rests on"


@wrap_methods
@dataclass(frozen=True, kw_only=True, repr=False)
class Fit(FittedLaw):
    """One law fitted to one table; every interval is equal-tailed at `level`.

    At a prompt it is a few lines, in a notebook a table. It draws when draws are first asked for,
    unless it has them.
    """

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
        >>> fit.effects("lab").table[["n_models", "mean"]].round(3)
                     n_models   mean
        lab
        BigScience          4  0.026
        EleutherAI         12 -0.047
        Meta                4  0.033
        StabilityAI         1 -0.015
        TII                 1  0.006
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
            Estimate, interval and P > 0; of logs also the ratio with its interval.

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
        chosen = self.seed if seed is None else seed
        return simulate_power(self, models, labs, sizes, studies=studies, seed=chosen)

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
        chosen = self.seed if seed is None else seed
        return checks.run_checks(self, asked_for, refits=refits, seed=chosen)

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
        asked_for = self.law.statements if statements is None else statements
        return checks.measure_sensitivity(self, asked_for, refits=refits)

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


def _names_of_outcomes(fit: Fit) -> Sequence[Any]:
    """Models where each has one outcome, else as the law names them."""
    names = fit.design.outcomes or tuple(range(fit.model.observed.size))
    rows = fit.rows
    if names == tuple(rows.index) and "model_id" in rows and rows["model_id"].is_unique:
        return tuple(rows["model_id"].astype(str))
    return names


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
    named = tuple(sources or ())
    without = (NO_SOURCE,) if sources is not None and not named else ()
    return Fit(
        law=law,
        rows=rows,
        design=law.of(rows),
        settings=settings,
        seed=seed,
        estimand=estimand,
        sources=named,
        warnings=(*warnings, *without),
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
    written = io.StringIO(record["diagnostics"])
    diagnostics = pd.read_json(written, orient="table", precise_float=True)
    settings = Settings(**json.loads(record["settings"]))
    of_draws = json.loads(record["draws"])
    draws = Draws(values=values, diagnostics=diagnostics, settings=settings, **of_draws)
    words: dict[str, Any] = json.loads(record["fit"])
    for name in ("sources", "warnings"):
        words[name] = tuple(words[name])
    rows = read_rows(record["rows"])
    if law is None and model is None and record.get("call"):
        fit = _rebuild_call(read_call(record["call"]))
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
        shown = f"a fit of “{record['law']}”"
        raise UsageError(
            "functions are not in a saved fit",
            where=path,
            got=shown,
            allowed="law= of a fit like it, or model= of your own",
            next_step=line("load_fit", str(path), **missing),
        )
    chosen = law
    if chosen is None:
        chosen = build_own_law(model, **json.loads(record["own"]))  # type: ignore[arg-type]
    if chosen.name != record["law"]:
        raise UsageError("a fit of another law", where=path, got=chosen.name, allowed=record["law"])
    return Fit(law=chosen, rows=rows, design=chosen.of(rows), drawn=draws, **words)


def _rebuild_call(call: Call) -> Fit:
    """The fit of a call before it draws; UsageError where the function is none of ours."""
    module = import_module(call.module) if call.module.startswith(OURS) else None
    function = getattr(module, call.function, None)
    if function is None or not hasattr(function, "fits"):
        raise UsageError(
            "a fit of an unknown function", got=f"{call.module}.{call.function}", allowed=f"{OURS}…"
        )
    fit: Fit = function.fits(**call.arguments)
    return replace(fit, call=call)


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
    density = {}
    for place, own in enumerate(order):
        density[str(place)] = left.log_density[str(own)]
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
    first = orders[0]
    observed = []
    for fit, order in zip(fits.values(), orders, strict=True):
        observed.append(fit.model.observed[order])
    y = observed[0]
    if any(other.shape != y.shape or not np.allclose(other, y) for other in observed[1:]):
        sizes = []
        for name, other in zip(fits, observed, strict=True):
            sizes.append(f"{name}: {other.size} outcomes")
        got = ", ".join(sizes)
        raise UsageError("only fits of the same outcomes can be compared", got=got)
    reordered = any((order != first).any() for order in orders)
    alone = len({isinstance(fit.model, Sampled) for fit in fits.values()}) > 1
    left_out = {}
    for (name, fit), order in zip(fits.items(), orders, strict=True):
        if reordered:
            left_out[str(name)] = _put_in_order(fit.left_out_separately, order)
        else:
            left_out[str(name)] = fit.left_out_separately if alone else fit.loo()
    return compare_predictions(left_out)
