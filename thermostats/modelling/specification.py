"""The specification curve: an estimate under every defensible choice, and one joint test of all of
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.errors import UsageError, join_some, take_first_line
from thermostats.formatting import format_count, format_number, join_words
from thermostats.modelling.heritage.variance_shares import build_share_difference
from thermostats.modelling.populations import number_groups, weigh_group_means
from thermostats.plots.general import set_house_style, start_axes
from thermostats.plots.posterior import draw_specification
from thermostats.tables.frames import read_frame

Option = str | Mapping[str, str] | Callable[[pd.DataFrame], pd.DataFrame] | tuple[Any, ...]
"""Text: a condition on the loaded rows that stay, empty for all. A mapping: columns that are set,
each an expression over the loaded rows. A function: of the universe's rows, called last. A tuple:
several of these."""
Choices = Mapping[str, Mapping[str, Option]]
"""Options by what they are called, by choice."""
OUTCOME = "outcome"
"""Column that every universe has, set by some option."""


@dataclass(frozen=True)
class _Part:
    """One option, worked out on the loaded rows."""

    stays: np.ndarray
    columns: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Callable[[pd.DataFrame], pd.DataFrame], ...] = ()

    def __and__(self, other: _Part) -> _Part:
        stays = self.stays & other.stays
        columns = {**self.columns, **other.columns}
        return _Part(stays, columns, self.changes + other.changes)


def build_universes(
    rows: pd.DataFrame, choices: Choices
) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """Build the rows of every universe, one for each combination of options.

    Rows without a finite `outcome` are left out.

    Parameters
    ----------
    rows : DataFrame
        A row each unit.
    choices : mapping
        By choice its options by what they are called: a mapping sets columns by expressions, a text
        is a condition on the rows that stay, a function changes the rows last.

    Returns
    -------
    iterator of tuple
        Labels of the options, and the rows.

    Raises
    ------
    UsageError
        For a choice without options, an option that cannot be applied, or universes without
        `outcome`.

    Examples
    --------
    >>> import pandas as pd
    >>> from thermostats.modelling.specification import build_universes
    >>> rows = pd.DataFrame({"gain": [0.9, 1.2, 1.4], "lab": ["a", "a", "b"]})
    >>> labs = {"all": "", "a": "lab == 'a'"}
    >>> choices = {"gain": {"log": {"outcome": "log(gain)"}}, "labs": labs}
    >>> [(labels, len(table)) for labels, table in build_universes(rows, choices)]
    [(('log', 'all'), 3), (('log', 'a'), 2)]
    """
    if empty := [name for name, options in choices.items() if not options]:
        raise UsageError(
            "a choice without options", got=", ".join(empty), allowed="one option or more each"
        )
    parts: list[dict[str, _Part]] = []
    for choice, given in choices.items():
        built: dict[str, _Part] = {}
        for label, option in given.items():
            built[label] = _build_part(rows, option, f"{choice}: {label}")
        parts.append(built)
    every = _Part(np.ones(len(rows), dtype=bool))
    for labels in product(*parts):
        part = every
        for options, label in zip(parts, labels, strict=True):
            part &= options[label]
        yield labels, _apply_part(rows, part)


def _apply_part(rows: pd.DataFrame, part: _Part) -> pd.DataFrame:
    outcome = part.columns.get(OUTCOME, rows.get(OUTCOME))
    if outcome is None:
        got = ", ".join({**dict.fromkeys(rows), **part.columns})
        raise UsageError(
            "universes without an outcome", got=got, allowed=f"an option sets {OUTCOME!r}"
        )
    try:
        numbers = np.asarray(outcome, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            "the outcome of a universe is no number",
            where=OUTCOME,
            got=take_first_line(error),
            allowed="numbers, of which some may be missing",
            next_step="an option that makes numbers of it, or rows whose column holds numbers",
        ) from error
    stays = part.stays & np.isfinite(numbers)
    values_of = {}
    for name, values in part.columns.items():
        values_of[name] = values[stays] if np.ndim(values) else values
    universe = rows.take(np.flatnonzero(stays)).assign(**values_of).reset_index(drop=True)
    for change in part.changes:
        universe = change(universe)
    return universe


def _build_part(rows: pd.DataFrame, option: Option, where: str) -> _Part:
    stays = np.ones(len(rows), dtype=bool)
    if isinstance(option, tuple):
        part = _Part(stays)
        for each in option:
            part &= _build_part(rows, each, where)
        return part
    if isinstance(option, str):
        if option:
            kept = _evaluate_expression(rows, option, where)
            stays = np.asarray(kept, dtype=bool)
        return _Part(stays)
    if isinstance(option, Mapping):
        columns = {}
        for name, text in option.items():
            columns[name] = _evaluate_expression(rows, text, where)
        return _Part(stays, columns)
    return _Part(stays, changes=(option,))


def _evaluate_expression(rows: pd.DataFrame, expression: str, where: str) -> Any:
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            return rows.eval(expression, engine="python")
    except (SyntaxError, TypeError, ValueError, NameError, KeyError, AttributeError) as error:
        columns = join_some(rows.columns)
        raise UsageError(
            "an option cannot be applied to the rows",
            where=where,
            got=f"{expression!r}: {error}",
            allowed=f"an expression over the columns {columns}",
        ) from error


Array = npt.NDArray[np.float64]
Statistic = Callable[[Array], Array]
Estimator = Callable[[pd.DataFrame], Statistic]


def _check_columns(rows: pd.DataFrame, *names: str) -> None:
    """Raise UsageError by the name of a column that rows lack; an empty name is none."""
    if absent := [name for name in names if name and name not in rows]:
        raise UsageError(f"no column {absent[0]}", allowed=join_some(rows, absent[0]))


def build_correlation(
    column: str, *, method: Literal["pearson", "spearman"] = "pearson", groups: str = ""
) -> Estimator:
    """Build the correlation of a column with the outcome.

    As `classical.association.estimate_correlation`.

    Parameters
    ----------
    column : str
        The column.
    method : str
        `pearson` or `spearman`.
    groups : str
        A column; both are then less the means of their groups.

    Returns
    -------
    Estimator
        For `specification_curve`.

    Examples
    --------
    >>> import pandas as pd
    >>> from thermostats.modelling.specification import build_correlation
    >>> rows = pd.DataFrame({"n_layers": [6, 12, 24, 36], "outcome": [0.3, 0.2, 0.2, 0.1]})
    >>> outcomes = rows[["outcome"]].to_numpy().T
    >>> build_correlation("n_layers")(rows)(outcomes).round(2)
    array([-0.92])
    """

    def estimator(rows: pd.DataFrame) -> Statistic:
        _check_columns(rows, column, groups)
        codes = number_groups(rows[groups] if groups else None, len(rows))
        is_short = len(rows) - len(set(codes)) < 3
        x = _subtract_group_means(rows[column].to_numpy(np.float64), codes)
        if is_short or np.ptp(x) == 0:
            what = "too few rows for a correlation"
            raise UsageError(what, got=f"{len(rows)} rows", allowed="4, not all alike")
        x = _normalise_rows(x if method == "pearson" else stats.rankdata(x))

        def statistic(outcomes: Array) -> Array:
            y = _subtract_group_means(outcomes, codes)
            if method != "pearson":
                y = stats.rankdata(y, axis=1)
            return _normalise_rows(y) @ x

        return statistic

    return estimator


def build_share_estimator(
    first: str, second: str, blocks: Mapping[str, Sequence[str]]
) -> Estimator:
    """Build the difference between the corrected shares of variance of two blocks.

    As `heritage.variance_shares.build_share_difference`.

    Parameters
    ----------
    first, second : str
        Names of blocks.
    blocks : mapping of str to sequence of str
        Columns of every block.

    Returns
    -------
    Estimator
        For `specification_curve`.

    Examples
    --------
    >>> import numpy as np
    >>> import thermostats
    >>> from thermostats.modelling.specification import build_share_estimator
    >>> rows = thermostats.model_rows("published", "penultimate_gain")
    >>> rows = rows.assign(outcome=rows["log_gain"], log_L=np.log(rows["n_layers"].astype(float)))
    >>> blocks = {"heritage": ["heritage"], "depth": ["log_L"]}
    >>> difference = build_share_estimator("heritage", "depth", blocks)(rows)
    >>> difference(rows[["outcome"]].to_numpy().T).shape
    (1,)
    """
    return lambda rows: build_share_difference(rows, OUTCOME, blocks, first, second)


def build_fraction_difference(column: str, unit: str) -> Estimator:
    """Build a difference of fractions of negative outcomes between two kinds of units.

    It is the mean over units of the fraction where a true/false column is true, less where it is
    not.

    Parameters
    ----------
    column : str
        The true/false column.
    unit : str
        The column that names units.

    Returns
    -------
    Estimator
        For `specification_curve`; UsageError where all units are of one kind.

    Examples
    --------
    >>> import pandas as pd
    >>> from thermostats.modelling.specification import build_fraction_difference
    >>> rows = pd.DataFrame({"focal": [True, True, False], "lab": ["a", "a", "b"]})
    >>> rows["outcome"] = [-1.0, 1.0, 1.0]
    >>> build_fraction_difference("focal", "lab")(rows)(rows[["outcome"]].to_numpy().T)
    array([0.5])
    """

    def estimator(rows: pd.DataFrame) -> Statistic:
        _check_columns(rows, unit, column)
        codes, units = pd.factorize(rows[unit])
        kinds = rows.groupby(unit)[column].first()
        inside = kinds.reindex(units).to_numpy(bool)
        if inside.all() or not inside.any():
            raise UsageError(
                "nothing to compare with",
                where=column,
                got=f"{len(units)} units",
                allowed="both sides",
            )
        of_unit = np.where(inside, 1 / inside.sum(), -1 / (~inside).sum())
        weights = of_unit[codes] / np.bincount(codes)[codes]
        return lambda outcomes: np.asarray((outcomes < 0) @ weights)

    return estimator


def build_fraction_above(rows: pd.DataFrame) -> Statistic:
    """Build the fraction of positive outcomes.

    Parameters
    ----------
    rows : DataFrame
        A row each unit.

    Returns
    -------
    callable
        From outcomes, a row each arrangement, to an estimate each.

    Raises
    ------
    UsageError
        For no rows.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from thermostats.modelling.specification import build_fraction_above
    >>> build_fraction_above(pd.DataFrame({"outcome": [1.0, -1.0]}))(np.array([[1.0, -1.0]]))
    array([0.5])
    """
    if rows.empty:
        raise UsageError("no rows", got="0 rows", allowed="1 or more")
    return lambda outcomes: np.asarray((outcomes > 0).mean(axis=1))


def build_smallest_step(place: str, unit: str) -> Estimator:
    """Build the smallest difference of mean outcomes of two units whose places follow one another.

    The lower unit's mean is taken from that of the higher.

    Parameters
    ----------
    place : str
        The column that orders units.
    unit : str
        The column that names them.

    Returns
    -------
    Estimator
        For `specification_curve`; UsageError where there are no two places.

    Examples
    --------
    >>> import pandas as pd
    >>> from thermostats.modelling.specification import build_smallest_step
    >>> rows = pd.DataFrame({"place": [0, 1, 2], "family": list("abc"), "outcome": [0.0, 1.0, 1.5]})
    >>> build_smallest_step("place", "family")(rows)(rows[["outcome"]].to_numpy().T)
    array([0.5])
    """

    def estimator(rows: pd.DataFrame) -> Statistic:
        _check_columns(rows, unit, place)
        codes, units = pd.factorize(rows[unit])
        places = rows.groupby(unit)[place].first().reindex(units).to_numpy()
        rank = pd.factorize(places, sort=True)[0]
        follows = rank[:, None] == rank[None] + 1
        high, low = np.nonzero(follows)
        if not len(high):
            raise UsageError(
                "no two places to compare",
                where=place,
                got=f"{len(set(places))}",
                allowed="2 or more",
            )
        mean = weigh_group_means(codes)

        def statistic(outcomes: Array) -> Array:
            means = outcomes @ mean
            steps = means[:, high] - means[:, low]
            return np.asarray(steps.min(axis=1))

        return statistic

    return estimator


def wrap_function(function: Callable[[pd.DataFrame], float]) -> Estimator:
    """Wrap any estimate of rows.

    It is called once for every rearrangement: as slow as the function.

    Parameters
    ----------
    function : callable
        From rows to a number.

    Returns
    -------
    Estimator
        For `specification_curve`.

    Examples
    --------
    >>> import pandas as pd
    >>> from thermostats.modelling.specification import wrap_function
    >>> rows = pd.DataFrame({"outcome": [1.0, 2.0, 6.0]})
    >>> wrap_function(lambda table: table["outcome"].median())(rows)(rows[["outcome"]].to_numpy().T)
    array([2.])
    """

    def estimator(rows: pd.DataFrame) -> Statistic:
        def statistic(outcomes: Array) -> Array:
            return np.array([function(rows.assign(outcome=y)) for y in outcomes])

        return statistic

    return estimator


def transform_normal_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Give outcomes as normal scores of their ranks, on which heavy tails and skew have no hold.

        Φ⁻¹((r − ½)/n)

    Parameters
    ----------
    rows : DataFrame
        With a column `outcome`.

    Returns
    -------
    DataFrame
        The same rows with the scores as `outcome`.

    Examples
    --------
    >>> import pandas as pd
    >>> from thermostats.modelling.specification import transform_normal_scores
    >>> rows = pd.DataFrame({"outcome": [1.0, 2.0, 600.0]})
    >>> transform_normal_scores(rows)["outcome"].round(2).tolist()
    [-0.97, 0.0, 0.97]
    """
    ranks = stats.rankdata(rows[OUTCOME].to_numpy(np.float64))
    if rows.empty:
        return rows.assign(outcome=ranks)
    return rows.assign(outcome=stats.norm.ppf((ranks - 0.5) / len(rows)))


def _subtract_group_means(values: Array, codes: npt.NDArray[np.int64]) -> Array:
    if not codes.any():
        return values
    means = values @ weigh_group_means(codes)
    return values - means[..., codes]


LARGEST = 1e100
"""Outcomes beyond it, or as small, are divided by the largest: their squares are no numbers."""


def _normalise_rows(values: Array) -> Array:
    centred = values - values.mean(axis=-1, keepdims=True)
    largest = np.abs(centred).max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(invalid="ignore"):
        inside = (largest > 1 / LARGEST) & (largest < LARGEST)
        scaled = centred / np.where(inside, 1.0, largest)
        lengths = np.sqrt(np.square(scaled).sum(axis=-1, keepdims=True))
        return np.asarray(scaled / lengths)


Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Null:
    """What makes no difference if the statement is false, and is therefore rearranged.

    y = effect of `columns` + means of `means` + residuals. Residuals move among rows within values
    of `within` (None: they stay where they are; empty: among all rows), and means among values of
    `means` (empty: there are none), in units of their standard deviations
    (`measure_mean_deviations`). Labs moved whole keep their clustering and cannot test whether labs
    matter, hence `permute_across_labs`.
    """

    words: str
    within: str | None = ""
    means: str = ""
    columns: tuple[str, ...] = ()
    unit: str = "model_id"
    """Column that names rows, where residuals move."""


def permute_across_labs(*columns: str) -> Null:
    """Declare the null that the lab makes no difference: residuals move among all models.

    Parameters
    ----------
    *columns : str
        Residuals are those given these columns.

    Returns
    -------
    Null
        For `specification_curve`.

    Examples
    --------
    >>> from thermostats.modelling.specification import permute_across_labs
    >>> permute_across_labs("log_L").words
    'residuals given log_L among the models of all labs'
    """
    given = _describe_given(columns)
    return Null(f"residuals{given} among the models of all labs", columns=columns)


def permute_within_labs(*columns: str, lab: str = "heritage") -> Null:
    """Declare the null that a column of models makes no difference inside labs.

    Residuals move among the models of each lab.

    Parameters
    ----------
    *columns : str
        Residuals are those given these columns.
    lab : str
        The column of labs.

    Returns
    -------
    Null
        For `specification_curve`.

    Examples
    --------
    >>> from thermostats.modelling.specification import permute_within_labs
    >>> permute_within_labs().words
    'residuals among the models of each lab'
    """
    given = _describe_given(columns)
    group = _describe_column(lab)
    words = f"residuals{given} among the models of each {group}"
    return Null(words, within=lab, columns=columns)


def permute_between_labs(*columns: str, lab: str = "heritage") -> Null:
    """Declare the null that a column of labs makes no difference.

    Labs' means move among labs, with labs' residuals where they are.

    Parameters
    ----------
    *columns : str
        Means are those given these columns.
    lab : str
        The column of labs.

    Returns
    -------
    Null
        For `specification_curve`.

    Examples
    --------
    >>> from thermostats.modelling.specification import permute_between_labs
    >>> permute_between_labs().words
    'the means of labs among them'
    """
    given = _describe_given(columns)
    plural = _format_plural(lab)
    words = f"the means of {plural}{given} among them"
    return Null(words, within=None, means=lab, columns=columns)


def permute_between_and_within_labs(*columns: str, lab: str = "heritage") -> Null:
    """Declare the null that a column makes no difference, neither inside labs nor between them.

    Both means and residuals move.

    Parameters
    ----------
    *columns : str
        Means and residuals are those given these columns.
    lab : str
        The column of labs.

    Returns
    -------
    Null
        For `specification_curve`.

    Examples
    --------
    >>> from thermostats.modelling.specification import permute_between_and_within_labs
    >>> permute_between_and_within_labs().words
    'the means of labs among them, and residuals among the models of each'
    """
    words = (
        f"the means of {_format_plural(lab)}{_describe_given(columns)} among them, and residuals "
        f"among the models "
        f"of each"
    )
    return Null(words, within=lab, means=lab, columns=columns)


def _describe_given(columns: tuple[str, ...]) -> str:
    return f" given {', '.join(columns)}" if columns else ""


def _describe_column(column: str) -> str:
    words = {"heritage": "lab", "model_id": "model", "clade": "family"}
    spaced = column.replace("_", " ")
    return words.get(column, spaced)


def _format_plural(column: str) -> str:
    words = _describe_column(column)
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


class Rearranged:
    """m rearrangements of all units and groups that some rows hold; a universe of fewer follows the
    same ones.

    A universe that lacks units takes, of each rearrangement, the first unit that it does have: a
    uniform rearrangement of all induces a uniform one of the rest, and units that two universes
    share move alike.
    """

    def __init__(self, rows: pd.DataFrame, null: Null, m: int, seed: int) -> None:
        """Raises UsageError where a column that the null names is missing, or a unit is in two
        groups."""
        unit = null.unit if null.within is not None else ""
        _require_columns(rows, (null.within, null.means, unit))
        self.null = null
        rng = np.random.default_rng(seed)
        if null.within is not None:
            groups = [null.within] if null.within else []
            names = list(dict.fromkeys([null.unit, *groups]))
            units = rows[names].drop_duplicates()
            _refuse_repeated(units[null.unit], "a unit in several groups", "one group each")
            self.units = pd.Index(units[null.unit])
            codes = number_groups(units[null.within] if groups else None, len(units))
            self.unit_places = draw_rearrangements(codes, m, rng)
        if null.means:
            self.groups = pd.Index(rows[null.means].unique())
            codes = np.zeros(len(self.groups), dtype=np.int64)
            self.group_places = draw_rearrangements(codes, m, rng)

    def build_outcomes(self, rows: pd.DataFrame) -> Array:
        """Outcomes of a universe's rows, m × rows.

        Raises UsageError where two rows that may move are of one unit, and where a column that
        residuals are given is missing, which options may have set.
        """
        null = self.null
        _require_columns(rows, null.columns)
        y = rows[OUTCOME].to_numpy(np.float64)
        fitted = _fit_given(rows, null, y)
        residuals = np.tile(y - fitted, (1, 1))
        if null.means:
            codes, values = pd.factorize(rows[null.means])
            sizes = np.bincount(codes)
            means = np.bincount(codes, residuals[0]) / sizes
            residuals = residuals - means[codes]
            sd = measure_mean_deviations(residuals[0], means, sizes)
            chosen = self.groups.get_indexer(values)
            places = trace_first_return(self.group_places, chosen)
            moved = (means / sd)[places] * sd
            fitted = fitted + moved[:, codes]
        if null.within is not None:
            units = rows[null.unit]
            _refuse_repeated(units, "two rows of one unit", "one row each")
            chosen = self.units.get_indexer(units)
            places = trace_first_return(self.unit_places, chosen)
            residuals = residuals[0][places]
        return np.asarray(fitted + residuals)


def _refuse_repeated(units: pd.Series, what: str, allowed: str) -> None:
    """Raise UsageError where a unit is met twice."""
    repeated = units[units.duplicated()]
    if len(repeated):
        raise UsageError(what, where=str(units.name), got=repeated.iloc[0], allowed=allowed)


def _require_columns(rows: pd.DataFrame, named: Sequence[str | None]) -> None:
    """Raise UsageError where a column that a null names is missing."""
    if absent := [name for name in named if name and name not in rows]:
        raise UsageError(
            "no such column",
            where="null",
            got=", ".join(absent),
            allowed=join_some(rows, absent[0]),
        )


def measure_mean_deviations(residuals: Array, means: Array, sizes: Places) -> Array:
    """Standard deviation of each group's mean, √(τ² + σ²/n): of one model it is less sure than of
    twelve.

    residuals: within groups; means: off 0. σ² is their mean square, τ² by moments, at least 0 (the
    ANOVA estimator for unequal n; Searle, Casella and McCulloch 1992, Variance Components, section
    3.6). All are 1 where groups are of one size, or nothing tells them apart.
    """
    n = int(sizes.sum())
    k = sizes.size
    if n == k or k < 2 or (sizes == sizes[0]).all():
        return np.ones(k)
    squares = float(residuals @ residuals)
    within = squares / (n - k)
    mean = sizes @ means / n
    between = float(sizes @ np.square(means - mean)) - (k - 1) * within
    effective = n - float(sizes @ sizes) / n
    variance = max(between / effective, 0.0) + within / sizes
    return np.sqrt(variance) if (variance > 0).all() else np.ones(k)


def _fit_given(rows: pd.DataFrame, null: Null, y: Array) -> Array:
    """Least squares on what is given, with a level for every group in which residuals move but
    whose means do not."""
    levels = null.within and not null.means
    given = [rows[name].to_numpy(np.float64) for name in null.columns]
    intercept = np.ones(len(rows))
    design = [intercept, *given]
    if levels:
        design.append(pd.get_dummies(rows[null.within], dtype=float).to_numpy())
    x = np.column_stack(design)
    return np.asarray(x @ np.linalg.lstsq(x, y, rcond=None)[0])


def draw_rearrangements(codes: Places, m: int, rng: np.random.Generator) -> Places:
    """m uniform rearrangements within groups, m × n: place i receives what was at `[i]`."""
    n = len(codes)
    base = np.argsort(codes, kind="stable")
    places = np.empty((m, n), dtype=np.int64)
    shuffled = codes + rng.random((m, n))
    places[:, base] = np.argsort(shuffled, axis=1)
    return places


def trace_first_return(places: Places, chosen: Places) -> Places:
    """The rearrangements that those of all units induce on some of them, m × len(chosen), as
    positions in `chosen`."""
    position = np.full(places.shape[1], -1)
    position[chosen] = np.arange(len(chosen))
    reached = places[:, chosen]
    while (outside := position[reached] < 0).any():
        further = np.take_along_axis(places, reached, axis=1)
        reached = np.where(outside, further, reached)
    return position[reached]


RESAMPLES = 999
Judge = Callable[[pd.DataFrame], Mapping[str, Any]]
"""Further columns of a universe, such as its interval and its verdict."""


@dataclass(frozen=True, kw_only=True)
class SpecificationCurve:
    """Estimates of all universes; `p` and `smallest_p` are None where nothing was rearranged."""

    table: pd.DataFrame
    """A row per universe by its estimate: a column for each choice, estimate, n_rows, what the
    judge adds.

    Of rearrangements: p (one-sided), null_lower and null_upper (central 95% of the estimates at
    this place)."""
    choices: tuple[str, ...]
    moves: pd.DataFrame
    """See `measure_choice_effects`."""
    failed: pd.DataFrame
    """Universes without an estimate: columns of choices, and why."""
    median: float
    above: bool
    """Whether the statement is that the estimate is large."""
    null: str = ""
    """What was rearranged, in words."""
    p: float | None = None
    """One-sided: share of rearrangements whose median over universes is at least as far on the
    statement's side."""
    smallest_p: float | None = None
    """That of the most extreme rearrangement: no data could have given less."""
    resamples: int = 0
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options by choice, in the order in which they were declared."""

    def __repr__(self) -> str:
        ends = map(format_number, self.table["estimate"].agg(["min", "max"]))
        count = "" if self.verdicts else f"{format_count(len(self.table), 'universe')}, "
        head = f"{count}median {format_number(self.median)}, from {' to '.join(ends)}"
        return f"{head}\n{self.summary}"

    @property
    def verdicts(self) -> str:
        """Share of universes by verdict, in words; empty where nothing judged them."""
        if "verdict" not in self.table:
            return ""
        shares = self.table["verdict"].value_counts(normalize=True)
        words = [f"“{verdict}” in {share:.0%}" for verdict, share in shares.items()]
        return join_words(words)

    @property
    def summary(self) -> str:
        """Verdicts, the choice that moves the estimate most, and the joint p, in one line."""
        first = self.moves.iloc[0]
        count = format_count(len(self.table), "universe")
        words = [f"{count}: {self.verdicts}" if self.verdicts else ""]
        words.append(f"most is moved by {first['choice']} ({first['alone']:.0%} of the variance)")
        words.append(f"joint p {format_number(self.p, 2)}" if self.p is not None else "")
        return "; ".join(filter(None, words))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the curve with its choices below, onto the axes or onto those of a new figure.

        Parameters
        ----------
        axes : Axes
            Where to draw.

        Returns
        -------
        Axes
            What was drawn onto.

        Examples
        --------
        >>> import thermostats
        >>> from thermostats.modelling.specification import build_correlation
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> gains = ("penultimate_gain", "geometric_gain_to_penultimate")
        >>> choices = {"gain": {name: {"outcome": f"log({name})"} for name in gains}}
        >>> curve = thermostats.specification_curve(rows, choices, build_correlation("n_layers"))
        >>> curve.plot().figure.savefig("curve.svg")
        """
        with set_house_style():
            axes = axes if axes is not None else start_axes()
            moves = dict(zip(self.moves["choice"], self.moves["alone"], strict=True))
            return draw_specification(self.table, axes, labels=self.labels, moves=moves)


def specification_curve(
    rows: pd.DataFrame,
    choices: Choices,
    estimate: Estimator,
    *,
    null: Null | None = None,
    above: bool = True,
    judge: Judge | None = None,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> SpecificationCurve:
    """Estimate in every universe of choices, and test the median against rearrangements.

        p = (b + 1)/(resamples + 1), the same rearrangement of models in every universe

    Parameters
    ----------
    rows : DataFrame
        A row each unit.
    choices : mapping
        See `build_universes`.
    estimate : Estimator
        A closed form, such as `build_correlation` makes one, or `wrap_function` of any function.
    null : Null
        What is rearranged, such as `permute_within_labs()`; None: no joint p.
    above : bool
        The statement is that the estimate is large, else that it is small.
    judge : callable
        From a universe's rows to further columns, such as its interval and its verdict.
    resamples : int
        Number of rearrangements.
    seed : int
        Of the rearrangements.

    Returns
    -------
    SpecificationCurve
        The estimate in every universe, and what its choices move.

    Raises
    ------
    UsageError
        As `build_universes` does, and where no universe has an estimate.

    References
    ----------
    Simonsohn, Simmons and Nelson 2020, doi:10.1038/s41562-020-0912-z.

    Examples
    --------
    >>> import thermostats
    >>> from thermostats.modelling.specification import build_correlation, permute_within_labs
    >>> rows = thermostats.model_rows("published", "penultimate_gain")
    >>> gains = ("penultimate_gain", "geometric_gain_to_penultimate")
    >>> choices = {
    ...     "gain": {name: {"outcome": f"log({name})"} for name in gains},
    ...     "models": {"all": "", "no Pythia": "family != 'pythia'"},
    ... }
    >>> estimate = build_correlation("n_layers", groups="heritage")
    >>> curve = thermostats.specification_curve(
    ...     rows, choices, estimate, null=permute_within_labs(), above=False, resamples=99
    ... )
    >>> len(curve.table), round(curve.median, 2)
    (4, -0.7)
    """
    rows = read_frame(rows)
    rearranged = Rearranged(rows, null, resamples, seed) if null is not None else None
    names = list(choices)
    records = []
    failed = []
    draws = []
    for labels, universe in build_universes(rows, choices):
        at = dict(zip(names, labels, strict=True))
        try:
            statistic = estimate(universe)
            outcomes = universe[OUTCOME].to_numpy(np.float64)
            values = statistic(outcomes[None])
            value = float(values[0])
            if not np.isfinite(value):
                raise UsageError("no finite estimate", got=value, allowed="a number")
            judged = judge(universe) if judge else {}
        except UsageError as error:
            failed.append({**at, "why": error.what})
            continue
        records.append({**at, "estimate": value, "n_rows": len(universe), **judged})
        if rearranged is not None:
            moved = rearranged.build_outcomes(universe)
            draws.append(statistic(moved))
    if not records:
        why = failed[0]["why"] if failed else "no choices"
        raise UsageError(
            "no universe has an estimate", got=why, allowed="rows that carry the estimate"
        )
    table = pd.DataFrame(records)
    estimates = table["estimate"].to_numpy()
    joint = _measure_joint(estimates, np.array(draws), above) if draws else {}
    columns = joint.pop("columns", {})
    table = table.assign(**columns)
    table = table.sort_values("estimate", kind="stable", ignore_index=True)
    places = joint.pop("places", {})
    table = table.assign(**places)
    by_choice = {name: tuple(options) for name, options in choices.items()}
    return SpecificationCurve(
        table=table,
        choices=tuple(names),
        moves=measure_choice_effects(table, names),
        failed=pd.DataFrame(failed, columns=[*names, "why"]),
        median=float(table["estimate"].median()),
        above=above,
        null=null.words if null is not None else "",
        labels=by_choice,
        **joint,
    )


def _measure_joint(estimates: Array, draws: Array, above: bool) -> dict[str, Any]:
    """p of every universe and of the median of all, and where rearrangements put the curve; draws:
    universes × m."""
    m = draws.shape[1]
    side = 1.0 if above else -1.0
    medians = side * np.nanmedian(draws, axis=0)
    median = side * float(np.median(estimates))
    beyond = (side * draws >= side * estimates[:, None] - 1e-12).sum(axis=1)
    by_place = np.sort(draws, axis=0)
    lower, upper = np.nanquantile(by_place, [0.025, 0.975], axis=1)
    bar = max(float(medians.max()), median) - 1e-12
    ties = (medians >= bar).sum() + (median >= bar)
    is_as_far = medians >= median - 1e-12
    as_far = is_as_far.sum()
    return {
        "columns": {"p": (beyond + 1) / (m + 1)},
        "places": {"null_lower": lower, "null_upper": upper},
        "p": float(as_far + 1) / (m + 1),
        "smallest_p": float(ties / (m + 1)),
        "resamples": m,
    }


def measure_choice_effects(
    table: pd.DataFrame, choices: Sequence[str], value: str = "estimate"
) -> pd.DataFrame:
    """Which choice moves a value how much: choice, alone, together, lowest, lowest_mean, highest,
    highest_mean.

    alone: V(E[value | choice])/V(value), what the choice explains by itself; together: 1 −
    V(E[value | all other choices])/V(value), with its interplay with others (Sobol indices;
    Saltelli and others 2010, doi:10.1016/j.cpc.2009.09.018). lowest and highest: the options with
    the smallest and largest mean.
    """
    total = float(table[value].var(ddof=0))
    records = []
    for choice in choices:
        by_option = table.groupby(choice, sort=False)
        means = by_option[value].mean()
        others = [name for name in choices if name != choice]
        rest = pd.Series(0.0, index=table.index)
        if others:
            alike = table.groupby(others)
            rest = alike[value].transform("mean")
        alone = 0.0
        together = 0.0
        if total > 0:
            alone = float(table[choice].map(means).var(ddof=0)) / total
            together = 1 - float(rest.var(ddof=0)) / total
        record = {
            "choice": choice,
            "alone": alone,
            "together": together,
            "lowest": means.idxmin(),
            "lowest_mean": means.min(),
            "highest": means.idxmax(),
            "highest_mean": means.max(),
        }
        records.append(record)
    effects_of_all = pd.DataFrame(records)
    return effects_of_all.sort_values("alone", ascending=False, kind="stable", ignore_index=True)
