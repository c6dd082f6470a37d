"""log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε_mp, μ_m ~ N(c, s_μ²), ε_mp ~ t₄(0, σ_m): how do
models rank?

Models m × prompts p in categories c: which order of models, and how much of the gain is prompt.
Whether entropy goes with it inside models is asked by `entropy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.columns import at_position, needing
from thermostats.modelling.draws import SEED, Array, Quantities, Settings, Statistic, equal_tailed
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian, HalfNormals
from thermostats.modelling.importance import moderated
from thermostats.modelling.laws import LOG, WIDER, Design, Law, fits
from thermostats.modelling.populations import (
    cells,
    contrasts,
    effects,
    informed_share,
    interplay,
    members,
    numbered,
    population,
    refuse_large,
    sources_of,
)
from thermostats.modelling.sampling import Sampled, padded
from thermostats.modelling.unit_means import freedom_of
from thermostats.plots.general import forest, log_axis

CENTRE = 1.0
APART = 0.5
EFFECTS = APART / 2 / 3**0.5
RESIDUAL = -3.0
RESIDUAL_SD = 0.7
SPREAD, SPREAD_SD = 0.5, 0.5
"""Prior median of the spread of log residual scales over models, and the standard deviation of its
logarithm."""
NU, ALMOST_NORMAL = 4.0, 1e4
"""Degrees of freedom of the residuals."""
SMALL = 1e-3
"""Added to residuals where their logarithm is taken."""
KINDS = ("prompt", "category", "model × category")
PARTS = ("model", "category", "prompt", "model × category", "residual")
PRIORS = (
    (
        "c",
        f"N(0, {CENTRE:g}²)",
        "a step of a transformer may lengthen or shorten all models by a factor e",
    ),
    (
        "s_μ",
        f"half-normal({APART:g})",
        "models that differ by a factor 1.6, or by nothing, are no surprise",
    ),
    (
        "s_κ, s_π, s_ξ",
        f"half-normal({EFFECTS:.3g})",
        "together half of what models differ by, in equal parts",
    ),
    (
        "ν",
        f"N({RESIDUAL:g}, {RESIDUAL_SD:g}²)",
        "residual scale of a middling model: 5%, and 1% to 20%",
    ),
    (
        "ω",
        f"log-normal(log {SPREAD:g}, {SPREAD_SD:g}²)",
        "models differ in residual scale by a factor 1.6 or so",
    ),
)


@fits
def fit_benchmark(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    order: Sequence[str] | None = None,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε_mp: ranks of models, P(order), shares of the
    variance.

    `table`: one row per model and prompt with `model_id`, `prompt_id`, `category` and `value`, the
    gain that `estimand` names. `order`: models from low to high whose order is asked for; by
    default that of the means (which any table has, so that its probability is no test). Quantities:
    gain (exp μ by model), the spreads of the kinds of effects, share (realised variance of each
    part over these cells; Gelman 2005, doi:10.1214/009053604000001048). Statements may read μ by
    the name of a model. Tables: `ranks` (P(rank), P(gain < 1) by model), `shares`, `order`.

    Raises UsageError as `crossed_table.cells`, for too large a table, and for an order of models
    that are not there.
    """
    rows, order, warnings = cells_and_order(table, order, lambda m, c, p: m * c + p)
    others = {
        **{name: _law(order, factor=factor) for name, factor in WIDER.items()},
        "normal errors of the same variance": _law(
            order, nu=ALMOST_NORMAL, wider=(NU / (NU - 2)) ** 0.5
        ),
    }
    return law_fitted(
        replace(_law(order), alternatives=others),
        rows,
        seed=seed,
        settings=settings,
        estimand=at_position(estimand, table),
        sources=sources_of(table),
        warnings=warnings,
        reads=needing("model_id", "prompt_id", "category"),
    )


def cells_and_order(
    table: pd.DataFrame, order: Sequence[str] | None, size: Callable[[int, int, int], int]
) -> tuple[pd.DataFrame, Sequence[str], list[str]]:
    """Cells of models and prompts, the order that is asked about, and warnings; raises as
    `fit_benchmark`.

    size: unknowns of so many models, categories and prompts.
    """
    rows, warnings = cells(table, "an order of models")
    refuse_large(
        rows, size(*(rows[name].nunique() for name in ("model_id", "category", "prompt_id")))
    )
    order, notes = asked_order(rows, order)
    return rows, order, [*warnings, *notes]


def questions_of_ranks(order: Sequence[str]) -> dict[str, Any]:
    """What a law of ranks is asked and shows, by argument of `Law`."""
    return {
        "statements": {"order": partial(in_order, order)},
        "tables": {
            "ranks": table_of_ranks,
            "shares": table_of_shares,
            "order": partial(table_of_order, order),
        },
        "figures": {"fit": figure_of_ranks},
    }


def asked_order(rows: pd.DataFrame, order: Sequence[str] | None) -> tuple[Sequence[str], list[str]]:
    """The order of models that is asked about, that of the means where none is given; raises as
    `fit_benchmark`."""
    if order is None:
        means = np.log(rows["value"].astype("float64")).groupby(rows["model_id"]).mean()
        ordered = means.sort_values().index.astype(str).tolist()
        return ordered, ["no order was given, so that of the means is used, which is not a test"]
    if len(order) < 2 or set(order) - set(rows["model_id"]) or len(set(order)) < len(order):
        raise UsageError(
            "not an order of the models",
            got=", ".join(order),
            allowed=", ".join(set(rows["model_id"])),
        )
    return order, []


def benchmark(data: Mapping[str, Any]) -> None:
    """The model; columns of the design beyond the effects there are belong to no cell."""
    import pymc as pm  # noqa: PLC0415

    _, level = population(
        "level", 0.0, data["centre_sd"], pm.HalfNormal("apart", data["apart_scale"]), data
    )
    spread = pm.LogNormal("sigma_spread", np.log(SPREAD), data["spread_sd"])
    _, log_sigma = population("log_sigma", RESIDUAL, data["residual_sd"], spread, data)
    sigma = pm.math.exp(log_sigma) * data["wider"]
    sds = pm.math.stack(
        [*(pm.HalfNormal(f"{kind} SD", data["effect_scale"]) for kind in KINDS), 1.0]
    )
    of_cells = effects(
        "effects", pm.math.dot(data["kind"], sds), data["effects_told"], data["n_effects"]
    )
    mean = level[data["model"]] + pm.math.dot(data["design"], of_cells)
    pm.StudentT(
        "y", nu=data["nu"], mu=mean, sigma=sigma[data["model"]], observed=data["y_observed"]
    )


def _law(order: Sequence[str], factor: float = 1.0, nu: float = NU, wider: float = 1.0) -> Law:
    """`factor`: of all prior scales; `wider`: of the residual scales."""
    scales = {
        "centre_sd": CENTRE,
        "apart_scale": APART,
        "residual_sd": RESIDUAL_SD,
        "spread_sd": SPREAD_SD,
    }
    priors = {name: scale * factor for name, scale in {**scales, "effect_scale": EFFECTS}.items()}
    arrays = {
        name: np.asarray(value) for name, value in {**priors, "nu": nu, "wider": wider}.items()
    }
    return Law(
        name="benchmark",
        of=partial(_of, arrays),
        quantities=_quantities,
        reported=("gain", *(f"{kind}_sd" for kind in KINDS), "share"),
        statistics=_statistics,
        equations=(
            "log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε_mp,  ε_mp ~ t₄(0, σ_m)",
            "μ_m ~ N(c, s_μ²),  log σ_m ~ N(ν, ω²)",
            "κ_c ~ N(0, s_κ²),  π_p ~ N(0, s_π²),  ξ_mc ~ N(0, s_ξ²);  κ and ξ sum to zero, π "
            "within each category",
        ),
        priors=PRIORS,
        **questions_of_ranks(order),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Levels:
    """Models, prompts and categories, and the category of every prompt."""

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    categories: tuple[str, ...]
    within: NDArray[np.int64]

    def blocks(
        self, rows: pd.DataFrame
    ) -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.int64], list[Array]]:
        """Of rows their models, those of these levels first, model and prompt of every cell, and
        columns of effects."""
        models, model = numbered(rows["model_id"], self.models)
        _, prompt = numbered(rows["prompt_id"], self.prompts)
        _, category = numbered(rows["category"], self.categories)
        blocks = [
            contrasts(prompt, len(self.prompts), self.within),
            contrasts(category, len(self.categories)),
            interplay(model, category, len(self.models), len(self.categories)),
        ]
        return models, model, prompt, blocks


@dataclass(frozen=True, kw_only=True, eq=False)
class RankingDesign(Design):
    """Cells of models and prompts; names of models are the label of `gain`."""

    priors: Mapping[str, Array]
    fitted: Levels
    """Those of the fit."""
    columns: Sequence[int]
    """Columns of effects that the fit has, by kind."""
    informed: Mapping[str, Array]
    """How far the cells of the fit tell levels, spreads and effects."""
    data: Mapping[str, Any]
    prompt: NDArray[np.int64]

    @property
    def models(self) -> tuple[str, ...]:
        """Models of the fit."""
        return self.fitted.models

    def of_new(self, rows: pd.DataFrame) -> RankingDesign:
        """Other cells; what the fit has not seen comes after its own levels and columns."""
        return _made(self.priors, rows, self.fitted, self.columns, self.informed)


def _of(priors: Mapping[str, Array], rows: pd.DataFrame) -> RankingDesign:
    models, _ = numbered(rows["model_id"])
    prompts, prompt = numbered(rows["prompt_id"])
    categories, category = numbered(rows["category"])
    within = pd.Series(category).groupby(prompt).first().to_numpy()
    levels = Levels(models=models, prompts=prompts, categories=categories, within=within)
    _, model, _, blocks = levels.blocks(rows)
    widths = [block.shape[1] for block in blocks]
    y = np.log(rows["value"].to_numpy(dtype=np.float64))
    return _made(
        priors, rows, levels, widths, _told(y, model, np.concatenate(blocks, axis=1), widths)
    )


def _made(
    priors: Mapping[str, Array],
    rows: pd.DataFrame,
    levels: Levels,
    widths: Sequence[int],
    informed: Mapping[str, Array],
) -> RankingDesign:
    """Cells with columns of effects, those of the fit first."""
    models, model, prompt, blocks = levels.blocks(rows)
    ends = list(zip(blocks, widths, strict=True))
    parts = [*(block[:, :k] for block, k in ends), *(block[:, k:] for block, k in ends)]
    design = np.concatenate(parts, axis=1)
    kind = np.repeat([0, 1, 2, 0, 1, 2], [part.shape[1] for part in parts])
    n_effects = padded(kind.size)
    data = {
        **priors,
        **members(len(levels.models), padded(len(models))),
        "level_told": informed["level"],
        "log_sigma_told": informed["log_sigma"],
        "effects_told": np.pad(np.repeat(informed["kinds"], widths), (0, n_effects - sum(widths))),
        "n_effects": n_effects,
        "kind": np.eye(4)[np.pad(kind, (0, n_effects - kind.size), constant_values=3)],
        "model": model,
        "design": np.pad(design, ((0, 0), (0, n_effects - kind.size))),
        "y_observed": np.log(rows["value"].to_numpy(dtype=np.float64))
        if "value" in rows
        else np.zeros(len(rows)),
    }
    return RankingDesign(
        model=Sampled(declare=benchmark, data=data, per_row=("model", "design", "y_observed")),
        outcomes=tuple(
            f"{m}, {p}" for m, p in zip(rows["model_id"], rows["prompt_id"], strict=True)
        ),
        labels={"gain": models, "share": PARTS},
        scale=LOG,
        groups=("model_id",),
        priors=priors,
        fitted=levels,
        columns=widths,
        informed=informed,
        data=data,
        prompt=prompt,
    )


def _told(
    y: Array, model: NDArray[np.int64], design: Array, columns: Sequence[int]
) -> dict[str, Array]:
    """How far the cells tell levels, residual scales and effects, by least squares and a middling
    residual scale."""
    which = np.eye(model.max() + 1)[model]
    X = np.column_stack([which, design])
    estimates = np.linalg.lstsq(X, y, rcond=None)[0]
    level, *kinds = np.split(estimates, np.cumsum([which.shape[1], *columns])[:-1])
    square = np.square(y - X @ estimates) @ which / which.sum(axis=0)
    log_sigma = 0.5 * np.log(square + SMALL**2)
    n = which.sum(axis=0).mean()
    sigma = np.exp(RESIDUAL)
    cells = [
        np.square(part).sum() / max(part.shape[1], 1)
        for part in np.split(design, np.cumsum(columns)[:-1], axis=1)
    ]
    return {
        "level": np.asarray(informed_share(level - level.mean(), sigma / n**0.5)),
        "log_sigma": np.asarray(
            informed_share(log_sigma - log_sigma.mean(), ((NU + 3) / (2 * NU * n)) ** 0.5)
        ),
        "kinds": np.array(
            [informed_share(b, sigma / max(m, 1) ** 0.5) for b, m in zip(kinds, cells, strict=True)]
        ),
    }


def _quantities(values: Mapping[str, Array], design: RankingDesign) -> dict[str, Array]:
    """Levels by the models' names too; a kind without effects has no spread."""
    data = design.data
    columns = design.columns
    level = values["level"][..., : len(design.models)]
    effects = values["effects"][..., : sum(columns)]
    parts = {"model": level[..., data["model"]]}
    for kind, at in zip(
        KINDS, np.split(np.arange(sum(columns)), np.cumsum(columns)[:-1]), strict=True
    ):
        parts[kind] = effects[..., at] @ data["design"][:, at].T
    parts["residual"] = data["y_observed"] - sum(parts.values())
    variance = np.stack([parts[name].var(axis=-1) for name in PARTS], axis=-1)
    spreads = {
        f"{kind}_sd": values[f"{kind} SD"] for kind, k in zip(KINDS, columns, strict=True) if k
    }
    shares = {"share": variance / variance.sum(axis=-1, keepdims=True), "level": level}
    by_name = dict(zip(design.models, np.moveaxis(level, -1, 0), strict=True))
    return {"gain": np.exp(level), **spreads, **shares, **by_name}


def in_order(models: Sequence[str], quantities: Quantities) -> NDArray[np.bool_]:
    """Whether models rise from the first to the last, of those there are."""
    present = [name for name in models if name in quantities]
    if len(present) < 2:
        raise KeyError("an order needs two models")
    return np.asarray(np.all([quantities[a] < quantities[b] for a, b in pairwise(present)], axis=0))


def _statistics(design: RankingDesign) -> dict[str, Statistic]:
    def means(number: NDArray[np.int64]) -> Array:
        which = np.eye(number.max() + 1)[number]
        return np.asarray(which / which.sum(axis=0))

    by_model = means(design.data["model"])
    by_prompt = means(design.prompt)
    return {
        "share of dampeners": lambda y: (y < 0).mean(axis=-1),
        "spread of model means": lambda y: (y @ by_model).std(axis=-1),
        "spread of prompt means": lambda y: (y @ by_prompt).std(axis=-1),
    }


def table_of_ranks(fit: Fit) -> pd.DataFrame:
    """Models by their mean rank: gain with its interval, P(gain < 1), P(rank = k)."""
    models = fit.design.labels["gain"]
    level = fit.quantities["level"].reshape(-1, len(models))
    ranks = level.argsort(axis=1).argsort(axis=1) + 1
    lower, upper = equal_tailed(np.exp(level), fit.level)
    gains = {"gain": np.exp(np.median(level, axis=0)), "lower": lower, "upper": upper}
    chances = {f"p_rank_{k}": (ranks == k).mean(axis=0) for k in range(1, len(models) + 1)}
    more = {"mean_rank": ranks.mean(axis=0), "p_dampens": (level < 0).mean(axis=0)}
    return pd.DataFrame({"model_id": models, **gains, **more, **chances}).sort_values(
        "mean_rank", ignore_index=True
    )


def table_of_shares(fit: Fit) -> pd.DataFrame:
    """Parts of the variance with their intervals."""
    parts = fit.design.labels["share"]
    shares = fit.quantities["share"].reshape(-1, len(parts))
    lower, upper = equal_tailed(shares, fit.level)
    return pd.DataFrame(
        {"part": parts, "share": shares.mean(axis=0), "lower": lower, "upper": upper}
    )


def table_of_order(order: Sequence[str], fit: Fit) -> pd.DataFrame:
    """The order that was asked for."""
    return pd.DataFrame({"rank": np.arange(1, len(order) + 1), "model_id": list(order)})


def figure_of_ranks(fit: Fit, axes: Axes) -> Axes:
    """Gains of the models with their intervals."""
    forest(fit.table("ranks"), axes, label="model_id", estimate="gain", null=1.0)
    log_axis(axes, "x")
    axes.set_xlabel(fit.estimand.replace("_", " "))
    return axes


PARTS_OF_MEANS = ("model", "category", "model × category", "prompt and rest")
PRIORS_OF_MEANS = (
    (
        "c",
        f"N(0, {CENTRE:g}²)",
        "a step of a transformer may lengthen or shorten all models by a factor e",
    ),
    (
        "s_μ",
        f"half-normal({APART:g})",
        "models that differ by a factor 1.6, or by nothing, are no surprise",
    ),
    (
        "s_κ, s_ξ",
        f"half-normal({EFFECTS:.3g})",
        "a twelfth of the variance that models differ by, each",
    ),
)


@fits
def fit_rank_means(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    order: Sequence[str] | None = None,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """ȳ_mc ~ N(c + u_m + κ_c, s_ξ² + e_mc²): ranks of models by means over categories of prompts.

    `table`, `estimand` and `order` as in `fit_benchmark`. Quantities: gain (by model, the
    exponential of its mean over these categories), category_sd, interplay_sd (s_ξ), share (realised
    variance of each part over these cells, prompts and what is left as observed; Gelman 2005,
    doi:10.1214/009053604000001048). Statements may read the mean log gain by the name of a model.
    Tables: `ranks`, `shares`, `order`.

    Raises UsageError as `fit_benchmark`.
    """
    rows, order, warnings = cells_and_order(table, order, lambda m, c, _: m + c)
    others = {name: _law_of_means(order, factor) for name, factor in WIDER.items()}
    return law_fitted(
        replace(_law_of_means(order), alternatives=others),
        rows,
        seed=seed,
        settings=settings,
        estimand=at_position(estimand, table),
        sources=sources_of(table),
        warnings=warnings,
        reads=needing("model_id", "category"),
    )


def _law_of_means(order: Sequence[str], factor: float = 1.0) -> Law:
    """`factor`: of all prior scales."""
    return Law(
        name="rank means",
        of=partial(_means_design, factor),
        quantities=_quantities_of_means,
        reported=("gain", "category_sd", "interplay_sd", "share"),
        statistics=_statistics_of_means,
        equations=(
            "mean log gain of model m over category c ~ N(c + u_m + κ_c, s_ξ² + e_mc²),  e_mc² "
            "estimated",
            "u_m ~ N(0, s_μ²),  κ_c ~ N(0, s_κ²), which sum to zero",
            "prompts' effects are taken off within each category by least squares",
        ),
        priors=PRIORS_OF_MEANS,
        **questions_of_ranks(order),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class RankMeansDesign(Design):
    """Means of models over categories; names of models are the label of `gain`."""

    factor: float
    models: tuple[str, ...]
    categories: tuple[str, ...]
    places: NDArray[np.int64]
    """Model and category of every outcome."""
    cells: Array
    """Prompts of every outcome."""
    y: Array
    error: Array
    within: float
    """Mean square of what prompts leave."""

    def of_new(self, rows: pd.DataFrame) -> RankMeansDesign:
        """Models and categories that a fit has not seen come last."""
        places = Places.of(rows, self.models, self.categories)
        nothing = np.zeros(len(places.pairs))
        return _design_of_cells(
            self.factor, places, len(self.categories), nothing, nothing, None, 0.0
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """Pairs of models and categories that rows have."""

    models: tuple[str, ...]
    categories: tuple[str, ...]
    category: NDArray[np.int64]
    """Of every row."""
    pairs: NDArray[np.int64]
    at: NDArray[np.int64]
    """Pair of every row."""

    @classmethod
    def of(
        cls, rows: pd.DataFrame, models: tuple[str, ...] = (), categories: tuple[str, ...] = ()
    ) -> Places:
        """Those of rows; these models and categories come first."""
        models, model = numbered(rows["model_id"], models)
        categories, category = numbered(rows["category"], categories)
        pairs, at = np.unique(np.column_stack([model, category]), axis=0, return_inverse=True)
        return cls(
            models=models, categories=categories, category=category, pairs=pairs, at=at.ravel()
        )


def _means_design(factor: float, rows: pd.DataFrame) -> RankMeansDesign:
    places = Places.of(rows)
    y, error, degrees, within = _outcomes(rows, places.category, places.at)
    return _design_of_cells(
        factor, places, len(places.categories), y, error, freedom_of(degrees), within
    )


def _design_of_cells(
    factor: float,
    places: Places,
    seen: int,
    y: Array,
    error: Array,
    freedom: Array | None,
    within: float,
) -> RankMeansDesign:
    """The model of means; `seen`: categories of the fit."""
    models = places.models
    categories = places.categories
    pairs = places.pairs
    gaussian = Gaussian(
        y=y,
        X=np.ones((len(pairs), 1)),
        sd=np.array([factor * CENTRE]),
        blocks={
            "model": np.eye(len(models))[pairs[:, 0]],
            "category": contrasts(pairs[:, 1], seen),
        },
        prior=HalfNormals((factor * APART, factor * EFFECTS, factor * EFFECTS)),
        error=error,
        freedom=freedom,
    )
    return RankMeansDesign(
        model=gaussian,
        outcomes=tuple(f"{models[m]}, {categories[c]}" for m, c in pairs),
        labels={"gain": models, "share": PARTS_OF_MEANS},
        by_row=False,
        scale=LOG,
        factor=factor,
        models=models,
        categories=categories,
        places=pairs,
        cells=np.bincount(places.at).astype(np.float64),
        y=y,
        error=error,
        within=within,
    )


def _outcomes(
    rows: pd.DataFrame, category: NDArray[np.int64], at: NDArray[np.int64]
) -> tuple[Array, Array, Array, float]:
    """Means by model and category without prompts' effects, errors, their degrees of freedom;
    variance within."""
    logs = np.log(rows["value"].to_numpy(np.float64))
    prompt = pd.factorize(rows["prompt_id"])[0]
    n = np.bincount(at).astype(np.float64)
    mean = np.bincount(at, logs) / n
    rest = np.zeros(logs.size)
    degrees = n - 1
    for c in np.unique(category):
        here = category == c
        units, unit = np.unique(at[here], return_inverse=True)
        which = np.eye(units.size)[unit]
        by_prompt = contrasts(pd.factorize(prompt[here])[0], len(np.unique(prompt[here])))
        alone = by_prompt if units.size > 1 else by_prompt[:, :0]
        design = np.column_stack([which, alone])
        fitted = np.linalg.lstsq(design, logs[here])[0]
        mean[units], rest[here] = fitted[: units.size], logs[here] - design @ fitted
        left = max(here.sum() - np.linalg.matrix_rank(design), 0)
        degrees[units] *= left / max((n[units] - 1).sum(), 1)
    square = np.bincount(at, np.square(rest))
    sd = np.sqrt(np.divide(square, degrees, out=np.zeros_like(square), where=degrees > 0))
    error, freedom = moderated(sd, degrees + 1)
    return (
        mean,
        error * np.sqrt((degrees + 1) / n),
        freedom,
        float((np.square(logs - mean[at])).mean()),
    )


def _quantities_of_means(values: Mapping[str, Array], design: RankMeansDesign) -> dict[str, Array]:
    """Realised means of models over these categories, where what an outcome leaves open is
    drawn."""
    models = design.models
    categories = design.categories
    means = _of_places(values, design)
    table = np.zeros((len(models), len(categories)))
    table[tuple(design.places.T)] = design.cells
    level = _averaged(means, table, axis=-1)
    kind = _averaged(means - level[..., None], table, axis=-2)
    rest = means - level[..., None] - kind[..., None, :]
    parts = (level[..., None] + 0 * rest, kind[..., None, :] + 0 * rest, rest)
    between = [_variance(part, table) for part in parts]
    variance = np.stack([*between, np.full(between[0].shape, design.within)], axis=-1)
    by_name = dict(zip(models, np.moveaxis(level, -1, 0), strict=True))
    return {
        "gain": np.exp(level),
        "category_sd": values["scale"][..., 1],
        "interplay_sd": values["scale"][..., 2],
        "share": variance / variance.sum(axis=-1, keepdims=True),
        "level": level,
        **by_name,
    }


def _of_places(values: Mapping[str, Array], design: RankMeansDesign) -> Array:
    """Mean log gain of every model in every category without errors, … × M × C; of given draws
    always the same."""
    models = len(design.models)
    categories = len(design.categories)
    basis = contrasts(np.arange(categories), categories)
    centre = values["beta"][..., None] + values["model"][..., :models, None]
    centre = centre + (values["category"][..., : basis.shape[1]] @ basis.T)[..., None, :]
    model, category = design.places.T
    y = np.asarray(values.get("y", design.y))
    error = np.asarray(values.get("error", design.error))
    variance = np.broadcast_to(np.square(values["scale"][..., 2])[..., None, None], centre.shape)
    weight = np.zeros(centre.shape)
    off = np.zeros(centre.shape)
    square = np.zeros(centre.shape)
    square[..., model, category] = np.square(error)
    off[..., model, category] = y - centre[..., model, category]
    measured = np.zeros((models, categories), dtype=bool)
    measured[model, category] = True
    weight = np.where(measured, variance / (variance + square), 0.0)
    noise = np.sqrt(np.where(measured, weight * square, variance))
    return np.asarray(
        centre + weight * off + noise * np.random.default_rng(0).standard_normal(centre.shape)
    )


def _averaged(values: Array, cells: Array, axis: int) -> Array:
    """Means along models or categories, equally over those that have cells."""
    there = (cells > 0).astype(np.float64)
    return np.asarray((values * there).sum(axis=axis) / there.sum(axis=axis))


def _variance(part: Array, cells: Array) -> Array:
    """Variance over cells."""
    share = cells / cells.sum()
    mean = (part * share).sum(axis=(-2, -1), keepdims=True)
    return np.asarray((np.square(part - mean) * share).sum(axis=(-2, -1)))


def _statistics_of_means(design: RankMeansDesign) -> dict[str, Statistic]:
    which = np.eye(len(design.models))[design.places[:, 0]]
    by_model = which / which.sum(axis=0)
    return {
        "share of dampeners": lambda y: (y < 0).mean(axis=-1),
        "spread of model means": lambda y: (y @ by_model).std(axis=-1),
        "largest": lambda y: y.max(axis=-1),
        "smallest": lambda y: y.min(axis=-1),
    }
