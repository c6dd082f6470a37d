"""ȳ_u ~ N(θ_u, s_0² + e_u²), θ_u ~ N(c, s²), e_u² estimated: means of units, one population, drawn
exactly.

A unit's mean is over its groups, such as categories of prompts, which are alike inside. Every error
rests on few groups, so it is drawn with the rest (`Gaussian.freedom`), by what all units together
tell of it (`moderated`).
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
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian, HalfNormals
from thermostats.modelling.importance import moderated
from thermostats.modelling.laws import LOG, WIDER, Design, Law, fits
from thermostats.modelling.pairs import MARGIN, OF_PAIRS, SHARE, fitted_to_pairs, questions_of_pairs
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
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """y_mi ~ N(a_m + τ_m z_mc(i), σ_m²): the mean of every model, its outcomes alike within groups.

    `table`: rows with `model_id`, `outcome` (a column of numbers) and `group` (a column of labels).
    `scale`: a difference of the outcome that would be no surprise; a_m ~ N(0, (2 scale)²), τ_m and
    σ_m half-normal of that scale. Models share nothing: of one model this is `fit_line` with levels
    of groups. Quantities, each by model: mean (a), residual_sd, group_sd. Statements: "every mean <
    0", "every mean > 0". Tables: `means`, `rows`.

    Raises UsageError for missing columns or labels, outcomes that are no finite numbers or
    constant, fewer than 4 outcomes of a model, a scale that is not above 0.
    """
    rows = checked_means(table, outcome, group=group, scale=scale)
    law = partial(_law, outcome, group)
    return law_fitted(
        replace(
            law(scale), alternatives={name: law(factor * scale) for name, factor in WIDER.items()}
        ),
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
    for model, rows in table.assign(model_id=labels(table["model_id"], "model_id")).groupby(
        "model_id"
    ):
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
    import pymc as pm  # noqa: PLC0415

    n = data["populations"]
    model = data["model"]
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
        equations=(
            f"{outcome}_mi = a_m + τ_m z_m,{group}(i) + ε_mi",
            "z ~ N(0, 1),  ε_mi ~ N(0, σ_m²)",
        ),
        priors=(
            ("a_m", f"N(0, {2 * scale:g}²)", f"twice the scale: {why}"),
            ("σ_m, τ_m", f"half-normal({scale:g})", why),
        ),
        **questions_of_means(outcome, group),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class MeansDesign(Design):
    """Outcomes by model, whose names are the labels, and by group within it."""

    after: Callable[
        [pd.DataFrame, tuple[str, ...], tuple[str, ...], NDArray[np.int64]], MeansDesign
    ]
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
    groups, group = numbered(
        rows["model_id"].astype(str) + BETWEEN + rows[group_column].astype(str), within
    )
    of = np.pad(before, (0, len(groups) - before.size))
    of[group] = model
    data = {
        "scale": np.asarray(scale),
        **several_members(of, before.size or of.size, padded(len(names)), padded(len(groups))),
        "model": model,
        "group": group,
        "y_observed": rows[outcome].to_numpy(dtype=np.float64)
        if outcome in rows
        else np.zeros(len(rows)),
    }
    return MeansDesign(
        model=Sampled(
            declare=means, data=data, per_row=("model", "group", "y_observed"), priors=PRIORS
        ),
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
    estimates = {
        "mean": mean.mean(axis=0),
        "lower": lower,
        "upper": upper,
        "p_below_0": (mean < 0).mean(axis=0),
    }
    return pd.DataFrame({"model_id": models, **estimates})


def outcome_rows(outcome: str, fit: Fit) -> pd.DataFrame:
    """The outcomes by model."""
    return pd.DataFrame({"model_id": fit.rows["model_id"], "outcome": fit.rows[outcome]})


def figure_of_means(fit: Fit, axes: Axes) -> Axes:
    """Outcomes of every model as dots, and the interval of its mean."""
    rows = fit.table("rows")
    table = fit.table("means")
    at = np.arange(len(table))
    for place, name in enumerate(table["model_id"]):
        y = rows.loc[rows["model_id"] == name, "outcome"]
        axes.plot(y, np.full(len(y), place - 0.18), "o", markersize=3, alpha=0.4, color="0.5")
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


@fits
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
    """ȳ_m ~ N(θ_m, s_0² + e_m²), θ_m ~ N(c, s²): the mean of every model over groups of outcomes.

    `table`: rows with `model_id`, `outcome` (a column of numbers) and `group` (a column of labels).
    `scale`: a difference of the outcome that would be no surprise; c ~ N(0, (2 scale)²), s
    half-normal of that scale, s_0 of a twentieth of it. e_m is the standard error over the groups'
    means, over outcomes where no model has two groups; it is itself uncertain. Quantities: mean (θ,
    by model), population (c), unit_sd (s). Statements: "every mean < 0", "every mean > 0". Tables:
    `means`, `rows`. `fit_means` is the sampled law of the outcomes themselves, in which models
    share nothing.

    Raises UsageError as `fit_means`.
    """
    rows = checked_means(table, outcome, group=group, scale=scale)
    law = partial(_law_of_units, outcome, group)
    return law_fitted(
        replace(
            law(scale), alternatives={name: law(factor * scale) for name, factor in WIDER.items()}
        ),
        rows,
        seed=seed,
        settings=settings,
        estimand=outcome,
        sources=sources,
        reads=needing("model_id"),
    )


def estimated(values: pd.Series, unit: Sequence[pd.Series]) -> pd.DataFrame:
    """One row per unit: mean of its values, standard error and the error's degrees of freedom, and
    how many it has."""
    by = values.groupby([each.to_numpy() for each in unit], sort=False)
    table = by.agg(["mean", "std", "size"]).fillna(0.0)
    error, freedom = moderated(table["std"].to_numpy(), table["size"].to_numpy(np.float64))
    return table.assign(error=error, freedom=freedom)


def freedom_of(freedom: Array) -> Array | None:
    """Degrees of freedom as the engine takes them: none where every error is exact."""
    return freedom if np.isfinite(freedom).any() else None


def _law_of_units(outcome: str, group: str, scale: float) -> Law:
    why = f"a difference of {scale:g} would be no surprise"
    return Law(
        name="unit means",
        of=partial(_units_design, outcome, group, scale),
        quantities=_quantities_of_units,
        equations=(
            f"mean of {outcome}_m over {group} ~ N(θ_m, s_0² + e_m²),  e_m² ~ inverse χ² about its "
            f"estimate",
            "θ_m ~ N(c, s²)",
        ),
        priors=(
            ("c", f"N(0, {2 * scale:g}²)", f"twice the scale: {why}"),
            ("s", f"half-normal({scale:g})", why),
            (
                "s_0",
                f"half-normal({REST * scale:g})",
                "a twentieth of it: what the values of a mean do not show",
            ),
        ),
        **questions_of_means(outcome, group),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitMeansDesign(Design):
    """Models with their means; names of models are the label of `mean`."""

    size: float
    """A difference of the outcome that would be no surprise."""

    def of_new(self, rows: pd.DataFrame) -> UnitMeansDesign:
        """Models that a fit has not seen come last."""
        models, model = numbered(rows["model_id"], self.labels["mean"])
        there = np.unique(model)
        nothing = np.zeros(there.size)
        return _made(self.size, models, there, nothing, nothing, np.full(there.size, np.inf))


def _units_design(outcome: str, group: str, scale: float, rows: pd.DataFrame) -> UnitMeansDesign:
    models, model = numbered(rows["model_id"])
    units = estimated(*_alike(rows, outcome, group)).loc[list(models)]
    y, error, freedom = (units[name].to_numpy(np.float64) for name in ("mean", "error", "freedom"))
    return _made(scale, models, np.unique(model), y, error, freedom)


def _made(
    scale: float,
    models: tuple[str, ...],
    there: NDArray[np.int64],
    y: Array,
    error: Array,
    freedom: Array,
) -> UnitMeansDesign:
    """The model of the means of models that are `there` among those named."""
    gaussian = Gaussian(
        y=y,
        X=np.ones((there.size, 1)),
        sd=np.array([2 * scale]),
        blocks={"unit": np.eye(len(models))[there]},
        prior=HalfNormals((scale, REST * scale)),
        error=error,
        freedom=freedom_of(freedom),
    )
    outcomes = tuple(models[k] for k in there)
    labels = {"mean": models}
    return UnitMeansDesign(
        model=gaussian, outcomes=outcomes, labels=labels, by_row=False, size=scale
    )


def _alike(rows: pd.DataFrame, outcome: str, group: str) -> tuple[pd.Series, list[pd.Series]]:
    """The values that a mean is over and their models: means of groups, outcomes where no model has
    two groups."""
    model = rows["model_id"].astype(str)
    if (rows[group].groupby(model).nunique() < 2).all():
        return rows[outcome].astype("float64"), [model]
    groups = (
        rows[outcome]
        .astype("float64")
        .groupby([model, rows[group].astype(str)])
        .mean()
        .reset_index()
    )
    return groups[outcome], [groups["model_id"]]


def _quantities_of_units(values: Mapping[str, Array], design: UnitMeansDesign) -> dict[str, Array]:
    units = values["unit"][..., : len(design.labels["mean"])]
    return {
        "mean": values["beta"] + units,
        "population": values["beta"][..., 0],
        "unit_sd": values["scale"][..., 0],
    }


REST_OF_LOGS = 0.01
"""Prior scale of what a mean of log gains leaves out besides its prompts: 1% of the gain."""
PRIORS_OF_UNITS = (
    *OF_PAIRS,
    ("s_0", f"half-normal({REST_OF_LOGS:g})", "what prompts do not show of a mean"),
)


@fits
def fit_pair_means(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    only_related: bool = True,
    margin: float = MARGIN,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """b̄_j ~ N(μ_j, s_0² + e_j²), d̄_j − γ_j b̄_j ~ N(δ_j − γ_j μ_j, s_0² + f_j²): pairs of means.

    `table`, `estimand`, `only_related`, `margin`, quantities, statements and tables as in
    `fit_invariance`, the sampled law of the single prompts. Here the outcomes of a pair are two,
    its base's mean log gain and its mean change less what the base's prompts tell of it, with
    standard errors over prompts that are uncertain themselves.

    Raises UsageError as `fit_invariance`.
    """
    others = {name: _pair_means_law(margin, factor) for name, factor in WIDER.items()}
    return fitted_to_pairs(
        replace(_pair_means_law(margin), alternatives=others),
        table,
        estimand,
        margin=margin,
        only_related=only_related,
        seed=seed,
        settings=settings,
        reads=needing("pair"),
    )


def _pair_means_law(margin: float, factor: float = 1.0) -> Law:
    """`factor`: of all prior scales."""
    return Law(
        name="pair means",
        of=partial(_pair_means_of, factor),
        quantities=_pair_means_quantities,
        statistics=_statistics_of_units,
        equations=(
            "mean log gain of the base ~ N(μ_j, s_0² + e_j²),  e_j and f_j standard errors over "
            "prompts, estimated",
            "mean change less γ_j times the base's mean ~ N(δ_j − γ_j μ_j, s_0² + f_j²),  γ_j by "
            "least squares",
            "μ_j ~ N(m, s_μ²),  δ_j ~ N(Δ, s_δ²);  j a pair",
        ),
        priors=PRIORS_OF_UNITS,
        **questions_of_pairs(margin),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairMeansDesign(Design):
    """Two outcomes a pair, bases first; names of pairs are the label of `ratio`."""

    factor: float
    slope: Array
    """Of change on base, by pair."""

    def of_new(self, rows: pd.DataFrame) -> PairMeansDesign:
        """Pairs that a fit has not seen come after its own."""
        names, pair = numbered(rows["pair"], self.labels["ratio"])
        there = np.unique(pair)
        nothing = np.zeros(2 * there.size)
        return _pair_means_made(
            self.factor, names, there, nothing, nothing, np.zeros(there.size), None
        )


def _pair_means_of(factor: float, rows: pd.DataFrame) -> PairMeansDesign:
    names, pair = numbered(rows["pair"])
    y, error, slope, degrees = _outcomes(rows, pair)
    return _pair_means_made(factor, names, np.unique(pair), y, error, slope, freedom_of(degrees))


def _pair_means_made(
    factor: float,
    names: tuple[str, ...],
    there: NDArray[np.int64],
    y: Array,
    error: Array,
    slope: Array,
    freedom: Array | None,
) -> PairMeansDesign:
    """The model of pairs that are `there` among those named."""
    unit = np.eye(len(names))[there]
    nothing = np.zeros((there.size, len(names)))
    ones = np.ones(there.size)
    gaussian = Gaussian(
        y=y,
        X=np.block([[ones[:, None], 0 * ones[:, None]], [-slope[:, None], ones[:, None]]]),
        sd=np.full(2, factor * SHARE),
        blocks={
            "level": np.concatenate([unit, -slope[:, None] * unit]),
            "change": np.concatenate([nothing, unit]),
        },
        prior=HalfNormals((factor * SHARE, factor * SHARE, factor * REST_OF_LOGS)),
        error=error,
        freedom=freedom,
    )
    outcomes = tuple(f"{names[k]}: {what}" for what in ("base", "change") for k in there)
    labels = {"ratio": names}
    return PairMeansDesign(
        model=gaussian,
        outcomes=outcomes,
        labels=labels,
        by_row=False,
        scale=LOG,
        factor=factor,
        slope=slope,
    )


def _outcomes(rows: pd.DataFrame, pair: NDArray[np.int64]) -> tuple[Array, Array, Array, Array]:
    """Means of bases, then of changes less what the base tells; errors; slopes; degrees of freedom
    of the errors."""
    by = rows[["base", "change"]].astype("float64").groupby(pair)
    n = by.size().to_numpy(np.float64)
    mean = by.mean()
    off = rows[["base", "change"]].astype("float64") - mean.loc[pair].to_numpy()
    squares = (off["base"] ** 2).groupby(pair).sum()
    products = (off["base"] * off["change"]).groupby(pair).sum()
    slope = (products / squares).to_numpy()
    rest = np.square(off["change"] - slope[pair] * off["base"]).groupby(pair).sum().to_numpy()
    of_base, base_freedom = moderated(np.sqrt(squares.to_numpy() / (n - 1)), n)
    of_change, change_freedom = moderated(np.sqrt(rest / (n - 2)), n - 1)
    return (
        np.concatenate([mean["base"], mean["change"] - slope * mean["base"]]),
        np.concatenate([of_base, of_change * np.sqrt((n - 1) / n)]),
        slope,
        np.concatenate([base_freedom, change_freedom]),
    )


def _pair_means_quantities(
    values: Mapping[str, Array], design: PairMeansDesign
) -> dict[str, Array]:
    n, (level, change) = len(design.labels["ratio"]), np.moveaxis(values["beta"], -1, 0)
    by_pair = {
        "level": level[..., None] + values["level"][..., :n],
        "change": change[..., None] + values["change"][..., :n],
    }
    over_pairs = {"level_sd": values["scale"][..., 0], "shift_sd": values["scale"][..., 1]}
    return {
        "ratio": np.exp(by_pair["change"]),
        "ratio_of_all": np.exp(change),
        **over_pairs,
        "level_mean": level,
        "change_mean": change,
        **by_pair,
    }


def _statistics_of_units(design: PairMeansDesign) -> dict[str, Statistic]:
    slope = design.slope
    n = slope.size

    def change(y: Array) -> Array:
        return np.asarray(y[..., n:] + slope * y[..., :n])

    return {
        "largest mean change": lambda y: np.abs(change(y)).max(axis=-1),
        "pairs that change sides": lambda y: (
            (y[..., :n] > 0) != (y[..., :n] + change(y) > 0)
        ).mean(axis=-1),
        "bases that dampen": lambda y: (y[..., :n] < 0).mean(axis=-1),
        "spread of bases": lambda y: y[..., :n].std(axis=-1),
    }
