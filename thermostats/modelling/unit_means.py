"""ȳ_u ~ N(θ_u, s_0² + e_u²), θ_u ~ N(c, s²), e_u² estimated: means of units, one population, drawn
exactly.

A unit's mean is over its groups, such as categories of prompts, which are alike inside. Every error
rests on few groups, so it is drawn with the rest (`Gaussian.freedom`), by what all units together
tell of it (`estimate_moderated_errors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.modelling.columns import (
    check_columns,
    check_prior_scale,
    read_labels,
    read_numbers,
    require_columns,
)
from thermostats.modelling.draws import SEED, Array, Settings, Statement, find_equal_tailed
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import deprecate, record_call
from thermostats.modelling.importance import estimate_moderated_errors
from thermostats.modelling.laws import Law
from thermostats.modelling.mixed_model import (
    Fixed,
    Levels,
    Mixed,
    MixedDesign,
    Rest,
    declare_law,
    name_draws,
)
from thermostats.modelling.pairs import fit_invariance

LEAST = 4
"""Outcomes of a model."""


def check_means(table: pd.DataFrame, outcome: str, *, group: str, scale: float) -> pd.DataFrame:
    """Rows of outcomes by model and group, numbered anew; raises as `fit_unit_means`."""
    check_columns(table, "model_id", outcome, group)
    table = table.reset_index(drop=True)
    check_prior_scale(scale, outcome)
    read_labels(table[group], group)
    names = read_labels(table["model_id"], "model_id")
    models = table.assign(model_id=names)
    for model, rows in models.groupby("model_id"):
        read_numbers(rows[outcome], f"{outcome} of {model}", least=LEAST, varied=True)
    return table


def list_means(fit: Fit) -> pd.DataFrame:
    """Mean of every model with its interval and P(mean < 0)."""
    models = fit.design.labels["mean"]
    mean = fit.quantities["mean"].reshape(-1, len(models))
    lower, upper = find_equal_tailed(mean, fit.level)
    means = mean.mean(axis=0)
    p_below_0 = (mean < 0).mean(axis=0)
    estimates = {"mean": means, "lower": lower, "upper": upper, "p_below_0": p_below_0}
    return pd.DataFrame({"model_id": models, **estimates})


def list_outcomes(outcome: str, fit: Fit) -> pd.DataFrame:
    """The outcomes by model."""
    return pd.DataFrame({"model_id": fit.rows["model_id"], "outcome": fit.rows[outcome]})


def draw_means(fit: Fit, axes: Axes) -> Axes:
    """Outcomes of every model as dots, and the interval of its mean."""
    rows = fit.table("rows")
    table = fit.table("means")
    at = np.arange(len(table))
    for place, name in enumerate(table["model_id"]):
        y = rows.loc[rows["model_id"] == name, "outcome"]
        height = np.full(len(y), place - 0.18)
        axes.plot(y, height, "o", markersize=3, alpha=0.4, color="0.5")
    axes.hlines(at, table["lower"], table["upper"], linewidth=3, color="0.2")
    axes.plot(table["mean"], at, "o", color="0.2")
    axes.axvline(0, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_yticks(at, table["model_id"])
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.set_xlabel(
        f"{fit.estimand.replace('_', ' ')}: outcomes (grey), mean with {fit.level:.0%} interval"
    )
    return axes


REST = 0.05
"""Prior scale of what a mean leaves out besides the spread of its values, in units of that between
units."""


@record_call
def fit_unit_means(
    table: pd.DataFrame,
    outcome: str,
    *,
    scale: float,
    group: str = "category",
    sources: Sequence[str] = (),
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """Estimate the mean of an outcome of units of several groups, partially pooled.

        ȳ_m ~ N(θ_m, s_0² + e_m²), θ_m ~ N(c, s²)

    e_m is the standard error over the groups' means, over outcomes where no model has two groups;
    it is itself uncertain.

    Parameters
    ----------
    table : DataFrame
        Rows with `model_id`, `outcome` and `group`.
    outcome : str
        A column of numbers.
    scale : float
        A difference of the outcome that would be no surprise; c ~ N(0, (2 scale)²), s half-normal
        of that scale, s_0 of a twentieth of it.
    group : str
        A column of labels.
    sources : sequence of str
        Where the rows come from.
    seed : int
        Of the draws.
    settings : Settings
        How to draw.

    Returns
    -------
    Fit
        Quantities: mean (θ, by model), population (c), unit_sd (s). Statements: "every mean < 0",
        "every mean > 0". Tables: `means`, `rows`.

    Raises
    ------
    UsageError
        For missing columns or labels, outcomes that are no finite numbers or constant, fewer than 4
        outcomes of a model, a scale that is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> import thermostats
    >>> from thermostats.modelling.unit_means import fit_unit_means
    >>> rows = thermostats.prompt_rows("last_gain", "measured")
    >>> rows = rows.assign(log_gain=np.log(rows["value"].astype(float)))
    >>> fit = fit_unit_means(rows, "log_gain", scale=0.5)
    >>> list(fit.reported)
    ['mean', 'population', 'unit_sd']
    """
    rows = check_means(table, outcome, group=group, scale=scale)
    units = declare_units(outcome, group, scale)
    stated = state_units(units, outcome, group)
    law = declare_law(stated, units)
    return build_fit(
        law,
        rows,
        seed=seed,
        settings=settings,
        estimand=outcome,
        sources=sources,
        reads=require_columns("model_id"),
    )


def estimate_units(values: pd.Series, unit: Sequence[pd.Series]) -> pd.DataFrame:
    """One row per unit: mean of its values, standard error and the error's degrees of freedom, and
    how many it has."""
    by = values.groupby([each.to_numpy() for each in unit], sort=False)
    table = by.agg(["mean", "std", "size"]).fillna(0.0)
    n = table["size"].to_numpy(np.float64)
    error, freedom = estimate_moderated_errors(table["std"].to_numpy(), n)
    return table.assign(error=error, freedom=freedom)


def declare_units(outcome: str, group: str, scale: float) -> Mixed:
    """Means of models; `scale`: a difference that would be no surprise."""
    why = f"a difference of {scale:g} would be no surprise"
    why_rest = "a twentieth of it: what the values of a mean do not show"
    population = Fixed(
        sd=2 * scale, symbol="c", why=f"twice the scale: {why}", quantity="population"
    )
    unit = Levels(
        column="model_id",
        scale=scale,
        symbol="s",
        why=why,
        effect="u_m",
        quantity="unit_sd",
        name="unit",
    )
    rest = Rest(
        scale=REST * scale,
        symbol="s_0",
        why=why_rest,
        effect="ε_m",
        error="error",
        error_symbol="e_m",
        freedom="freedom",
    )
    return Mixed(
        outcome="mean",
        left="ȳ_m",
        fixed=(population,),
        kinds=(unit,),
        rest=rest,
        tabulate=partial(tabulate_means, outcome, group),
        rowwise=False,
        labels={"mean": "unit"},
    )


def state_units(units: Mixed, outcome: str, group: str) -> Law:
    """What is asked of means."""
    signs: dict[str, Statement] = {
        "every mean < 0": lambda q: (q["mean"] < 0).all(axis=-1),
        "every mean > 0": lambda q: (q["mean"] > 0).all(axis=-1),
    }
    return Law(
        name="unit means",
        of=units.design_rows,
        quantities=_compute_quantities,
        statements=signs,
        equations=(f"ȳ_m: mean of {outcome} over {group};  e_m² ~ inverse χ² about its estimate",),
        tables={"means": list_means, "rows": partial(list_outcomes, outcome)},
        figures={"fit": draw_means},
        units=("model_id", group),
    )


def tabulate_means(
    outcome: str, group: str, rows: pd.DataFrame, fit: pd.DataFrame | None
) -> pd.DataFrame:
    """A row a model with its mean; of rows to predict its name."""
    names = rows["model_id"].astype(str)
    if fit is not None:
        return pd.DataFrame({"model_id": names}).set_axis(names)
    table = estimate_units(*_collect_values(rows, outcome, group))
    table = table.loc[sorted(set(names))]
    return table.assign(model_id=table.index)


def _collect_values(
    rows: pd.DataFrame, outcome: str, group: str
) -> tuple[pd.Series, list[pd.Series]]:
    """The values that a mean is over and their models: means of groups, outcomes where no model has
    two groups."""
    model = rows["model_id"].astype(str)
    if (rows[group].groupby(model).nunique() < 2).all():
        return rows[outcome].astype("float64"), [model]
    values = rows[outcome].astype("float64")
    means = values.groupby([model, rows[group].astype(str)]).mean().reset_index()
    return means[outcome], [means["model_id"]]


def _compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    models = len(design.effects["unit"].names)
    mean = values["beta"] + values["unit"][..., :models]
    return {"mean": mean, **name_draws(values, design)}


fit_pair_means = deprecate(fit_invariance, "fit_pair_means")
