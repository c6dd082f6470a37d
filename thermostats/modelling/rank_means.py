"""ȳ_mc ~ N(c + u_m + κ_c, s_ξ² + e_mc²), u_m ~ N(0, s_μ²): models ranked by their means of categories, drawn exactly.

Models m × categories c of prompts. Prompts that several models answered are taken off first, by least squares within
the category, so that the error of a mean is of what the model alone does; it is an estimate (`Gaussian.freedom`). How
single prompts matter is the sampled law's question, `fit_benchmark`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling.columns import at_position, needing
from thermostats.modelling.draws import SEED, Array, Settings, Statistic
from thermostats.modelling.fit import Fit, fits, law_fitted
from thermostats.modelling.gaussian import Gaussian, HalfNormals, moderated
from thermostats.modelling.laws import WIDER, Design, Law
from thermostats.modelling.populations import contrasts, numbered, sources_of
from thermostats.modelling.predictions import LOG
from thermostats.modelling.ranking import APART, CENTRE, EFFECTS, cells_and_order, questions_of_ranks
from thermostats.modelling.unit_means import freedom_of

PARTS = ("model", "category", "model × category", "prompt and rest")
PRIORS = (
    ("c", f"N(0, {CENTRE:g}²)", "a step of a transformer may lengthen or shorten all models by a factor e"),
    ("s_μ", f"half-normal({APART:g})", "models that differ by a factor 1.6, or by nothing, are no surprise"),
    ("s_κ, s_ξ", f"half-normal({EFFECTS:.2f})", "a sixth of the variance that models differ by, each"),
)


@fits
def fit_rank_means(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    order: Sequence[str] | None = None,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> Fit:
    """ȳ_mc ~ N(c + u_m + κ_c, s_ξ² + e_mc²): ranks of models by means over categories of prompts.

    `table`, `estimand` and `order` as in `fit_benchmark`. Quantities: gain (by model, the exponential of its mean over
    these categories), category_sd, interplay_sd (s_ξ), share (realised variance of each part over these cells, prompts
    and what is left as observed; Gelman 2005, doi:10.1214/009053604000001048). Statements may read the mean log gain by
    the name of a model. Tables: `ranks`, `shares`, `order`.

    Raises UsageError as `fit_benchmark`.
    """
    rows, order, warnings = cells_and_order(table, order, lambda m, c, _: m + c)
    others = {name: _law(order, factor) for name, factor in WIDER.items()}
    return law_fitted(
        replace(_law(order), alternatives=others),
        rows,
        seed=seed,
        settings=settings,
        estimand=at_position(estimand, table),
        sources=sources_of(table),
        warnings=warnings,
        reads=needing("model_id", "category"),
    )


def _law(order: Sequence[str], factor: float = 1.0) -> Law:
    """`factor`: of all prior scales."""
    return Law(
        name="rank means",
        of=partial(_of, factor),
        quantities=_quantities,
        reported=("gain", "category_sd", "interplay_sd", "share"),
        statistics=_statistics,
        equations=(
            "mean log gain of model m over category c ~ N(c + u_m + κ_c, s_ξ² + e_mc²),  e_mc² estimated",
            "u_m ~ N(0, s_μ²),  κ_c ~ N(0, s_κ²), which sum to zero",
            "prompts' effects are taken off within each category by least squares",
        ),
        priors=PRIORS,
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
        return _made(self.factor, places, len(self.categories), nothing, nothing, None, 0.0)


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
    def of(cls, rows: pd.DataFrame, models: tuple[str, ...] = (), categories: tuple[str, ...] = ()) -> Places:
        """Those of rows; these models and categories come first."""
        models, model = numbered(rows["model_id"], models)
        categories, category = numbered(rows["category"], categories)
        pairs, at = np.unique(np.column_stack([model, category]), axis=0, return_inverse=True)
        return cls(models=models, categories=categories, category=category, pairs=pairs, at=at.ravel())


def _of(factor: float, rows: pd.DataFrame) -> RankMeansDesign:
    places = Places.of(rows)
    y, error, degrees, within = _outcomes(rows, places.category, places.at)
    return _made(factor, places, len(places.categories), y, error, freedom_of(degrees), within)


def _made(
    factor: float, places: Places, seen: int, y: Array, error: Array, freedom: Array | None, within: float
) -> RankMeansDesign:
    """The model of means; `seen`: categories of the fit."""
    models, categories, pairs = places.models, places.categories, places.pairs
    gaussian = Gaussian(
        y=y,
        X=np.ones((len(pairs), 1)),
        sd=np.array([factor * CENTRE]),
        blocks={"model": np.eye(len(models))[pairs[:, 0]], "category": contrasts(pairs[:, 1], seen)},
        prior=HalfNormals((factor * APART, factor * EFFECTS, factor * EFFECTS)),
        error=error,
        freedom=freedom,
    )
    return RankMeansDesign(
        model=gaussian,
        outcomes=tuple(f"{models[m]}, {categories[c]}" for m, c in pairs),
        labels={"gain": models, "share": PARTS},
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
    """Means by model and category without prompts' effects, errors, their degrees of freedom; variance within."""
    logs, prompt = np.log(rows["value"].to_numpy(np.float64)), pd.factorize(rows["prompt_id"])[0]
    n = np.bincount(at).astype(np.float64)
    mean, rest, degrees = np.bincount(at, logs) / n, np.zeros(logs.size), n - 1
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
    return mean, error * np.sqrt((degrees + 1) / n), freedom, float((np.square(logs - mean[at])).mean())


def _quantities(values: Mapping[str, Array], design: RankMeansDesign) -> dict[str, Array]:
    """Realised means of models over these categories, where what an outcome leaves open is drawn."""
    models, categories = design.models, design.categories
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
    """Mean log gain of every model in every category without errors, … × M × C; of given draws always the same."""
    models, categories = len(design.models), len(design.categories)
    basis = contrasts(np.arange(categories), categories)
    centre = values["beta"][..., None] + values["model"][..., :models, None]
    centre = centre + (values["category"][..., : basis.shape[1]] @ basis.T)[..., None, :]
    model, category = design.places.T
    y, error = np.asarray(values.get("y", design.y)), np.asarray(values.get("error", design.error))
    variance = np.broadcast_to(np.square(values["scale"][..., 2])[..., None, None], centre.shape)
    weight, off, square = np.zeros(centre.shape), np.zeros(centre.shape), np.zeros(centre.shape)
    square[..., model, category] = np.square(error)
    off[..., model, category] = y - centre[..., model, category]
    known = np.zeros((models, categories), dtype=bool)
    known[model, category] = True
    weight = np.where(known, variance / (variance + square), 0.0)
    noise = np.sqrt(np.where(known, weight * square, variance))
    return np.asarray(centre + weight * off + noise * np.random.default_rng(0).standard_normal(centre.shape))


def _averaged(values: Array, cells: Array, axis: int) -> Array:
    """Means along models or categories, equally over those that have cells."""
    there = (cells > 0).astype(np.float64)
    return np.asarray((values * there).sum(axis=axis) / there.sum(axis=axis))


def _variance(part: Array, cells: Array) -> Array:
    """Variance over cells."""
    share = cells / cells.sum()
    mean = (part * share).sum(axis=(-2, -1), keepdims=True)
    return np.asarray((np.square(part - mean) * share).sum(axis=(-2, -1)))


def _statistics(design: RankMeansDesign) -> dict[str, Statistic]:
    which = np.eye(len(design.models))[design.places[:, 0]]
    by_model = which / which.sum(axis=0)
    return {
        "share of dampeners": lambda y: (y < 0).mean(axis=-1),
        "spread of model means": lambda y: (y @ by_model).std(axis=-1),
        "largest": lambda y: y.max(axis=-1),
        "smallest": lambda y: y.min(axis=-1),
    }
