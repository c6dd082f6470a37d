"""ȳ_mc ~ N(c + u_m + κ_c, s_ξ² + e_mc²), e_mc² estimated: how do models rank, and how much of the
gain is prompt?

Means of models m over categories c of prompts, effects of prompts taken off. Whether entropy goes
with the gain inside models is asked by `entropy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.columns import name_estimand, require_columns
from thermostats.modelling.draws import (
    SEED,
    Array,
    Quantities,
    Settings,
    Statistic,
    find_equal_tailed,
)
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.importance import estimate_moderated_errors
from thermostats.modelling.laws import LOG, Law
from thermostats.modelling.mixed_model import (
    Fixed,
    Levels,
    Mixed,
    MixedDesign,
    Rest,
    apply_effects,
    declare_law,
    name_draws,
)
from thermostats.modelling.populations import (
    build_contrasts,
    list_sources,
    read_cells,
    refuse_large,
)
from thermostats.plots.general import draw_forest, log_axis

CENTRE = 1.0
APART = 0.5
EFFECTS = APART / 2 / 3**0.5


@record_call
def fit_benchmark(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    order: Sequence[str] | None = None,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """Rank models by their mean log gain over categories of prompts.

        ȳ_mc ~ N(c + u_m + κ_c, s_ξ² + e_mc²)

    Parameters
    ----------
    table : DataFrame
        One row per model and prompt with `model_id`, `prompt_id`, `category` and `value`, the gain.
    estimand : str
        The gain that is in `value`.
    order : sequence of str
        Models from low to high whose order is asked for; by default that of the means (which any
        table has, so that its probability is no test).
    seed : int
        Of the draws.
    settings : Settings
        How to draw.

    Returns
    -------
    Fit
        Quantities: gain (by model, the exponential of its mean over these categories), category_sd,
        interplay_sd (s_ξ), share (realised variance of each part over these cells, prompts and what
        is left as observed). Statements may read the mean log gain by the name of a model. Tables:
        `ranks`, `shares`, `order`.

    Raises
    ------
    UsageError
        For gains not above 0, a cell twice, a prompt in two categories, fewer than 2 models or 4
        prompts, missing labels, for too large a table, and for an order of models that are not
        there.

    References
    ----------
    Gelman 2005, doi:10.1214/009053604000001048, on the realised variance.

    Examples
    --------
    >>> import thermostats
    >>> from thermostats.studies.delia2026 import fit_benchmark
    >>> fit = fit_benchmark(thermostats.prompt_rows("last_gain", "measured"))
    >>> sorted(fit.reported)
    ['category_sd', 'gain', 'interplay_sd', 'share']
    """
    rows, warnings = read_cells(table, "an order of models")
    refuse_large(rows, rows["model_id"].nunique() + rows["category"].nunique())
    order, notes = choose_order(rows, order)
    law = declare_law(state_ranks(order), RANKS)
    return build_fit(
        law,
        rows,
        seed=seed,
        settings=settings,
        estimand=name_estimand(estimand, table),
        sources=list_sources(table),
        warnings=[*warnings, *notes],
        reads=require_columns("model_id", "category"),
    )


def choose_order(
    rows: pd.DataFrame, order: Sequence[str] | None
) -> tuple[Sequence[str], list[str]]:
    """The order of models that is asked about, that of the means where none is given; raises as
    `fit_benchmark`."""
    if order is None:
        gains = rows["value"].astype("float64")
        logs = np.log(gains)
        by_model = logs.groupby(rows["model_id"])
        means = by_model.mean()
        ordered = means.sort_values().index.astype(str).tolist()
        return ordered, ["no order was given, so that of the means is used, which is not a test"]
    if len(order) < 2 or set(order) - set(rows["model_id"]) or len(set(order)) < len(order):
        raise UsageError(
            "not an order of the models",
            got=", ".join(order),
            allowed=", ".join(set(rows["model_id"])),
        )
    return order, []


def is_ordered(models: Sequence[str], quantities: Quantities) -> NDArray[np.bool_]:
    """Whether models rise from the first to the last, of those there are."""
    present = [name for name in models if name in quantities]
    if len(present) < 2:
        raise KeyError("an order needs two models")
    rises = [quantities[a] < quantities[b] for a, b in pairwise(present)]
    return np.asarray(np.all(rises, axis=0))


def list_ranks(fit: Fit) -> pd.DataFrame:
    """Models by their mean rank: gain with its interval, P(gain < 1), P(rank = k)."""
    models = fit.design.labels["gain"]
    level = fit.quantities["level"].reshape(-1, len(models))
    places = level.argsort(axis=1)
    ranks = places.argsort(axis=1) + 1
    lower, upper = find_equal_tailed(np.exp(level), fit.level)
    gains = {"gain": np.exp(np.median(level, axis=0)), "lower": lower, "upper": upper}
    chances = {f"p_rank_{k}": (ranks == k).mean(axis=0) for k in range(1, len(models) + 1)}
    more = {"mean_rank": ranks.mean(axis=0), "p_dampens": (level < 0).mean(axis=0)}
    columns = {"model_id": models, **gains, **more, **chances}
    table = pd.DataFrame(columns)
    return table.sort_values("mean_rank", ignore_index=True)


def list_shares(fit: Fit) -> pd.DataFrame:
    """Parts of the variance with their intervals."""
    parts = fit.design.labels["share"]
    shares = fit.quantities["share"].reshape(-1, len(parts))
    lower, upper = find_equal_tailed(shares, fit.level)
    means = shares.mean(axis=0)
    return pd.DataFrame({"part": parts, "share": means, "lower": lower, "upper": upper})


def list_order(order: Sequence[str], fit: Fit) -> pd.DataFrame:
    """The order that was asked for."""
    ranks = np.arange(1, len(order) + 1)
    columns = {"rank": ranks, "model_id": list(order)}
    return pd.DataFrame(columns)


def draw_ranks(fit: Fit, axes: Axes) -> Axes:
    """Gains of the models with their intervals."""
    draw_forest(fit.table("ranks"), axes, label="model_id", estimate="gain", null=1.0)
    log_axis(axes, "x")
    estimand = fit.estimand.replace("_", " ")
    axes.set_xlabel(estimand)
    return axes


PARTS_OF_MEANS = ("model", "category", "model × category", "prompt and rest")
WORDS_OF_MEANS = (
    "ȳ_mc: mean log gain of model m over category c;  κ_c sum to zero;  e_mc² estimated",
    "prompts' effects are taken off within each category by least squares",
)


def state_ranks(order: Sequence[str]) -> Law:
    """What is asked of means."""
    return Law(
        name="rank means",
        of=RANKS.design_rows,
        quantities=_compute_quantities,
        reported=("gain", "category_sd", "interplay_sd", "share"),
        statements={"order": partial(is_ordered, order)},
        statistics=_build_statistics,
        equations=WORDS_OF_MEANS,
        tables={"ranks": list_ranks, "shares": list_shares, "order": partial(list_order, order)},
        figures={"fit": draw_ranks},
    )


def tabulate_means(rows: pd.DataFrame, fit: pd.DataFrame | None) -> pd.DataFrame:
    """A row a model and category: mean log gain without prompts' effects, its error; rows to
    predict have no more."""
    table = rows[["model_id", "category"]].astype(str)
    if fit is None:
        cells = table.groupby(["model_id", "category"])
        place = cells.ngroup().to_numpy()
        table = table.drop_duplicates().sort_values(["model_id", "category"], ignore_index=True)
        table = pd.concat([table, estimate_means(rows, place)], axis=1)
    return table.set_axis(table["model_id"] + ", " + table["category"])


EACH = "a twelfth of the variance that models differ by, each"
STEP = "a step of a transformer may lengthen or shorten all models by a factor e"
DIFFER = "models that differ by a factor 1.6, or by nothing, are no surprise"
RANKS = Mixed(
    outcome="y",
    left="ȳ_mc",
    fixed=(Fixed(sd=CENTRE, symbol="c", why=STEP),),
    kinds=(
        Levels(
            column="model_id", scale=APART, symbol="s_μ", why=DIFFER, effect="u_m", name="model"
        ),
        Levels(
            column="category",
            scale=EFFECTS,
            symbol="s_κ",
            why=EACH,
            effect="κ_c",
            quantity="category_sd",
            sum_zero=True,
        ),
    ),
    rest=Rest(
        scale=EFFECTS,
        symbol="s_ξ",
        why=EACH,
        effect="ε_mc",
        quantity="interplay_sd",
        error="error",
        error_symbol="e_mc",
        freedom="freedom",
    ),
    scale=LOG,
    tabulate=tabulate_means,
    rowwise=False,
    labels={"gain": "model", "share": PARTS_OF_MEANS},
)


def estimate_means(rows: pd.DataFrame, place: NDArray[np.int64]) -> pd.DataFrame:
    """By place, a model and category: mean without prompts' effects, its error with freedom, number
    of prompts.

    `within`: mean square of what the means leave.
    """
    logs = np.log(rows["value"].to_numpy(np.float64))
    prompt = pd.factorize(rows["prompt_id"])[0]
    category = pd.factorize(rows["category"])[0]
    n = np.bincount(place).astype(np.float64)
    mean = np.bincount(place, logs) / n
    rest = np.zeros(logs.size)
    degrees = n - 1
    for each in np.unique(category):
        here = category == each
        places, at = np.unique(place[here], return_inverse=True)
        codes, prompts = pd.factorize(prompt[here])
        effects = build_contrasts(codes, len(prompts))
        if places.size == 1:
            effects = effects[:, :0]
        design = np.column_stack([np.eye(places.size)[at], effects])
        fitted = np.linalg.lstsq(design, logs[here])[0]
        mean[places] = fitted[: places.size]
        rest[here] = logs[here] - design @ fitted
        left = max(here.sum() - np.linalg.matrix_rank(design), 0)
        counted = (n[places] - 1).sum()
        degrees[places] *= left / max(counted, 1)
    squares = np.square(rest)
    square = np.bincount(place, squares)
    variance = np.divide(square, degrees, out=np.zeros_like(square), where=degrees > 0)
    error, freedom = estimate_moderated_errors(np.sqrt(variance), degrees + 1)
    error = error * np.sqrt((degrees + 1) / n)
    within = float(np.square(logs - mean[place]).mean())
    columns = {"y": mean, "error": error, "freedom": freedom, "prompts": n}
    return pd.DataFrame(columns).assign(within=within)


def _compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    """Realised means of models over these categories, where what an outcome leaves open is
    drawn."""
    models = design.effects["model"]
    categories = design.effects["category"]
    means = draw_places(values, design)
    prompts = np.zeros((len(models.names), len(categories.names)))
    prompts[models.codes, categories.codes] = design.table["prompts"]
    level = _take_means(means, prompts, axis=-1)
    by_model = level[..., None]
    kind = _take_means(means - by_model, prompts, axis=-2)
    by_category = kind[..., None, :]
    rest = means - by_model - by_category
    parts = (by_model + 0 * rest, by_category + 0 * rest, rest)
    between = [_measure_variance(part, prompts) for part in parts]
    within = np.full_like(between[0], design.table["within"].iloc[0])
    variance = np.stack([*between, within], axis=-1)
    share = variance / variance.sum(axis=-1, keepdims=True)
    drawn = name_draws(values, design)
    quantities = {"gain": np.exp(level), **drawn, "share": share, "level": level}
    for name, of_model in zip(models.names, np.moveaxis(level, -1, 0), strict=True):
        quantities[name] = of_model
    return quantities


def draw_places(values: Mapping[str, Array], design: MixedDesign) -> Array:
    """Mean log gain of every model in every category without errors, … × M × C; of given draws
    always the same."""
    model = design.effects["model"].codes
    category = design.effects["category"].codes
    models = len(design.effects["model"].names)
    categories = len(design.effects["category"].names)
    basis = build_contrasts(np.arange(categories), categories)
    levels = values["model"][..., :models, None]
    kinds = apply_effects(values["category"], basis)
    centre = values["beta"][..., None] + levels + kinds[..., None, :]
    y = values.get("y", design.gaussian.y)
    error = values.get("error", design.gaussian.error)
    rest = np.square(values["scale"][..., 2])
    variance = np.broadcast_to(rest[..., None, None], centre.shape)
    off = np.zeros(centre.shape)
    square = np.zeros(centre.shape)
    square[..., model, category] = np.square(error)
    expected = centre[..., model, category]
    off[..., model, category] = y - expected
    measured = np.zeros((models, categories), dtype=bool)
    measured[model, category] = True
    reliability = variance / (variance + square)
    weight = np.where(measured, reliability, 0.0)
    noise = np.sqrt(np.where(measured, weight * square, variance))
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(centre.shape)
    return centre + weight * off + noise * drawn


def _take_means(values: Array, cells: Array, axis: int) -> Array:
    """Means along models or categories, equally over those that have cells."""
    there = (cells > 0).astype(np.float64)
    counted = values * there
    sums = counted.sum(axis=axis)
    return np.asarray(sums / there.sum(axis=axis))


def _measure_variance(part: Array, cells: Array) -> Array:
    """Variance over cells."""
    share = cells / cells.sum()
    mean = (part * share).sum(axis=(-2, -1), keepdims=True)
    squares = np.square(part - mean) * share
    return np.asarray(squares.sum(axis=(-2, -1)))


def _build_statistics(design: MixedDesign) -> dict[str, Statistic]:
    models = design.effects["model"]
    which = np.eye(len(models.names))[models.codes]
    means = which / which.sum(axis=0)
    return {
        "share of dampeners": lambda y: (y < 0).mean(axis=-1),
        "spread of model means": lambda y: (y @ means).std(axis=-1),
        "largest": lambda y: y.max(axis=-1),
        "smallest": lambda y: y.min(axis=-1),
    }
