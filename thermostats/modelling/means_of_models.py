"""y_mi ~ N(a_m + τ_m z_mc(i), σ_m²), z ~ N(0, 1): the means of several models, each as if it were alone.

Outcomes i of a model lie in groups c, such as prompts in categories, which are alike. Outcomes tell the average of a
model's groups better than a_m, which is drawn given it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.modelling.columns import columns_of, labels, needing, numbers, prior_scale
from thermostats.modelling.draws import SEED, Array, Settings, Statistic, equal_tailed
from thermostats.modelling.fit import Fit, fits, law_fitted
from thermostats.modelling.laws import WIDER, Design, Law
from thermostats.modelling.populations import numbered, populations, several_members
from thermostats.modelling.sampling import Sampled, padded

LEAST = 4
"""Outcomes of a model."""
BETWEEN = " | "
PRIORS = ("group_average", "group_sd", "residual_sd")
"""Variables that have priors of their own."""


@fits
def fit_means(
    table: pd.DataFrame,
    outcome: str,
    *,
    scale: float,
    group: str = "category",
    sources: Sequence[str] = (),
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> Fit:
    """y_mi ~ N(a_m + τ_m z_mc(i), σ_m²): the mean of every model, its outcomes alike within groups.

    `table`: rows with `model_id`, `outcome` (a column of numbers) and `group` (a column of labels). `scale`: a
    difference of the outcome that would be no surprise; a_m ~ N(0, (2 scale)²), τ_m and σ_m half-normal of that scale.
    Models share nothing: of one model this is `fit_line` with levels of groups. Quantities, each by model: mean (a),
    residual_sd, group_sd. Statements: "every mean < 0", "every mean > 0". Tables: `means`, `rows`.

    Raises UsageError for missing columns or labels, outcomes that are no finite numbers or constant, fewer than 4
    outcomes of a model, a scale that is not above 0.
    """
    rows = checked_means(table, outcome, group=group, scale=scale)
    law = partial(_law, outcome, group)
    return law_fitted(
        replace(law(scale), alternatives={name: law(factor * scale) for name, factor in WIDER.items()}),
        rows,
        seed=seed,
        settings=settings,
        estimand=outcome,
        sources=sources,
        reads=needing("model_id", group),
    )


def checked_means(table: pd.DataFrame, outcome: str, *, group: str, scale: float) -> pd.DataFrame:
    """Rows of outcomes by model and group, numbered anew; raises as `fit_means`."""
    columns_of(table, "model_id", outcome, group)
    table = table.reset_index(drop=True)
    prior_scale(scale, outcome)
    labels(table[group], group)
    for model, rows in table.assign(model_id=labels(table["model_id"], "model_id")).groupby("model_id"):
        numbers(rows[outcome], f"{outcome} of {model}", least=LEAST, varied=True)
    return table


def questions_of_means(outcome: str, group: str) -> dict[str, Any]:
    """What a law of means of models is asked and shows, by argument of `Law`."""
    return {
        "statements": {
            "every mean < 0": lambda q: (q["mean"] < 0).all(axis=-1),
            "every mean > 0": lambda q: (q["mean"] > 0).all(axis=-1),
        },
        "tables": {"means": table_of_means, "rows": partial(outcome_rows, outcome)},
        "figures": {"fit": figure_of_means},
        "units": ("model_id", group),
    }


def means(data: Mapping[str, Any]) -> None:
    """The model; further elements belong to no outcome."""
    import pymc as pm  # noqa: PLC0415 - seconds

    n, model = data["populations"], data["model"]
    group_sd = pm.HalfNormal("group_sd", data["scale"], shape=n)
    residual_sd = pm.HalfNormal("residual_sd", data["scale"], shape=n)
    _, level = populations("group", 2 * data["scale"], group_sd, data)
    pm.Normal("y", level[data["group"]], residual_sd[model], observed=data["y_observed"])


def _law(outcome: str, group: str, scale: float) -> Law:
    why = f"a difference of {scale:g} would be no surprise"
    return Law(
        name="means",
        of=partial(_of, outcome, group, scale),
        quantities=_quantities,
        statistics=_statistics,
        equations=(f"{outcome}_mi = a_m + τ_m z_m,{group}(i) + ε_mi", "z ~ N(0, 1),  ε_mi ~ N(0, σ_m²)"),
        priors=(
            ("a_m", f"N(0, {2 * scale:g}²)", f"twice the scale: {why}"),
            ("σ_m, τ_m", f"half-normal({scale:g})", why),
        ),
        **questions_of_means(outcome, group),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class MeansDesign(Design):
    """Outcomes by model, whose names are the labels, and by group within it."""

    after: Callable[[pd.DataFrame, tuple[str, ...], tuple[str, ...], NDArray[np.int64]], MeansDesign]
    """Rows by models and groups that come first, and the model of each group."""
    models: tuple[str, ...]
    within: tuple[str, ...]
    """Groups within models."""
    of: NDArray[np.int64]
    """Model of every group."""
    model_of: NDArray[np.int64]
    """Model of every outcome."""

    def of_new(self, rows: pd.DataFrame) -> MeansDesign:
        """Other rows by these models and groups."""
        return self.after(rows, self.models, self.within, self.of)


def _of(outcome: str, group_column: str, scale: float, rows: pd.DataFrame) -> MeansDesign:
    return _after(outcome, group_column, scale, rows, (), (), np.empty(0, dtype=np.int64))


def _after(
    outcome: str,
    group_column: str,
    scale: float,
    rows: pd.DataFrame,
    models: tuple[str, ...],
    within: tuple[str, ...],
    before: NDArray[np.int64],
) -> MeansDesign:
    """Outcomes by model and by group within it; those of a fit come first."""
    names, model = numbered(rows["model_id"], models)
    groups, group = numbered(rows["model_id"].astype(str) + BETWEEN + rows[group_column].astype(str), within)
    of = np.pad(before, (0, len(groups) - before.size))
    of[group] = model
    data = {
        "scale": np.asarray(scale),
        **several_members(of, before.size or of.size, padded(len(names)), padded(len(groups))),
        "model": model,
        "group": group,
        "y_observed": rows[outcome].to_numpy(dtype=np.float64) if outcome in rows else np.zeros(len(rows)),
    }
    return MeansDesign(
        model=Sampled(declare=means, data=data, per_row=("model", "group", "y_observed"), priors=PRIORS),
        outcomes=tuple(range(len(rows))),
        labels=dict.fromkeys(("mean", "group_sd", "residual_sd"), names),
        after=partial(_after, outcome, group_column, scale),
        models=names,
        within=groups,
        of=of,
        model_of=model,
    )


def _quantities(values: Mapping[str, Array], design: MeansDesign) -> dict[str, Array]:
    named = {**values, "mean": values["group_mean"]}
    return {name: named[name][..., : len(models)] for name, models in design.labels.items()}


def _statistics(design: MeansDesign) -> dict[str, Statistic]:
    which = np.eye(design.model_of.max() + 1)[design.model_of]
    means = which / which.sum(axis=0)
    return {
        "largest mean": lambda y: (y @ means).max(axis=-1),
        "smallest mean": lambda y: (y @ means).min(axis=-1),
        "spread": lambda y: y.std(axis=-1),
    }


def table_of_means(fit: Fit) -> pd.DataFrame:
    """Mean of every model with its interval and P(mean < 0)."""
    models = fit.design.labels["mean"]
    mean = fit.quantities["mean"].reshape(-1, len(models))
    lower, upper = equal_tailed(mean, fit.level)
    estimates = {"mean": mean.mean(axis=0), "lower": lower, "upper": upper, "p_below_0": (mean < 0).mean(axis=0)}
    return pd.DataFrame({"model_id": models, **estimates})


def outcome_rows(outcome: str, fit: Fit) -> pd.DataFrame:
    """The outcomes by model."""
    return fit.rows.assign(outcome=fit.rows[outcome])[["model_id", "outcome"]]


def figure_of_means(fit: Fit, axes: Axes) -> Axes:
    """Outcomes of every model as dots, and the interval of its mean."""
    rows, table = fit.table("rows"), fit.table("means")
    at = np.arange(len(table))
    for place, name in enumerate(table["model_id"]):
        y = rows.loc[rows["model_id"] == name, "outcome"]
        axes.plot(y, np.full(len(y), place - 0.18), "o", markersize=3, alpha=0.4, color="0.5")
    axes.hlines(at, table["lower"], table["upper"], linewidth=3, color="0.2")
    axes.plot(table["mean"], at, "o", color="0.2")
    axes.axvline(0, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_yticks(at, table["model_id"])
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.set_xlabel(f"{fit.estimand.replace('_', ' ')}: outcomes (grey), mean with {fit.level:.0%} interval")
    return axes
