"""Both controlled studies in one table, each with a level of its own: slopes within recipes, and what recipes come to.

y_i = a_r(i) + x_i·b + e_i, a_r ~ N(μ_s(r), τ²) for recipe r of study s; x: logs of L, ρ and d, and the first study's
architecture. b by least squares within recipes, its covariance by recipe (Liang and Zeger 1986,
doi:10.1093/biomet/73.1.13), so that slopes may differ between recipes.

For the components every study and corpus has levels and slopes on L, ρ and d of its own, and squares are averaged over
them: slopes of opposite sign in two studies do not cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery import second
from thermostats.studies.nursery.components import (
    CORPUS,
    DRAWS,
    LEAST,
    OVER,
    Components,
    ComponentVariances,
    over_reference,
    ratios,
)
from thermostats.studies.nursery.components import components as of_study
from thermostats.studies.nursery.factor_effects import residual
from thermostats.studies.nursery.rows import by_t, columns_of_block, final, judged, read_by_tests

PENULTIMATE = "penultimate_gain"
LINES = list(second.LOGS)
SEED = 101
"""Seed of the draws of components."""
LEVELS = dict.fromkeys(("corpus", "optimiser", "schedule"), "levels")
"""Factors that both studies have."""


def models(tables: Evidence) -> pd.DataFrame:
    """Models of the first study and drawn ones of the second, one row each: log_gain, `study`, `recipe`, LINES, LEVELS.

    Columns that begin with `x ` are the first study's architecture, 0 in the second. Raises TooFew for less than half
    of the second.
    """
    later = second.enough(tables).assign(study="second")
    rows = judged(final(tables), PENULTIMATE)
    architecture = columns_of_block(rows, "architecture")
    first = read_by_tests(rows, *LEVELS)[["model_id", "recipe", "log_gain", *LINES, *LEVELS, *architecture]]
    first = first.assign(study="first", recipe="first " + first["recipe"].astype(str))
    both = pd.concat([first, later[[name for name in later if name in first]]], ignore_index=True)
    return both.assign(heritage=both["recipe"]).fillna(dict.fromkeys(architecture, 0.0))


@dataclass(frozen=True)
class Within:
    """Least squares within recipes; the first three columns are LINES."""

    slopes: Array
    covariance: Array
    residual: tuple[float, int]
    """Sum of squares and degrees of freedom."""
    columns: list[str]


def within(rows: pd.DataFrame, lines: Sequence[str] = LINES) -> Within:
    """Slopes of the log gain, recipes as the unit of their covariance; lines: the first columns."""
    columns = [*lines, *(name for name in rows if str(name).startswith("x "))]
    values, inside = rows[["log_gain", *columns]].to_numpy(np.float64), by_recipe(rows)
    both = values - (inside @ means(values, inside))
    moving = np.abs(both[:, 1:]).max(axis=0) > 1e-9
    y, x = both[:, 0], both[:, 1:][:, moving]
    inverse = np.linalg.pinv(x.T @ x)
    slopes = inverse @ x.T @ y
    errors = y - x @ slopes
    scores = inside.T @ (x * errors[:, None])
    (n, units), rank = inside.shape, int(np.linalg.matrix_rank(x))
    covariance = inverse @ scores.T @ scores @ inverse * units / (units - 1) * (n - 1) / (n - rank)
    names_moving = [name for name, moves in zip(columns, moving, strict=True) if moves]
    return Within(slopes, covariance, (float(errors @ errors), n - units - rank), names_moving)


def by_recipe(rows: pd.DataFrame) -> Array:
    """1 where a model (row) is of a recipe (column), else 0; recipes by name."""
    codes, names = pd.factorize(rows["recipe"], sort=True)
    return np.asarray(np.eye(len(names))[codes])


def means(values: Array, inside: Array) -> Array:
    """Means by recipe, (recipes, columns)."""
    return np.asarray(inside.T @ values / inside.sum(axis=0)[:, None])


def slope(rows: pd.DataFrame, term: str) -> Estimate:
    """Slope of the log gain on one of LINES within recipes of both studies: t interval, recipes as the unit."""
    pooled = within(rows)
    place = pooled.columns.index(term)
    error, df = float(np.sqrt(pooled.covariance[place, place])), rows["recipe"].nunique() - 1
    return by_t(pooled.slopes[place], error, df, "95% t interval, recipes of both studies as the unit")


def recipes(rows: pd.DataFrame) -> pd.DataFrame:
    """Per recipe: `log_gain` at the mean shape of all models by the slopes within recipes, `study`, LEVELS, n."""
    pooled = within(rows)
    x = rows[pooled.columns]
    adjusted = rows.assign(log_gain=rows["log_gain"] - (x - x.mean()) @ pooled.slopes, n=1)
    by = {"log_gain": "mean", "n": "sum", **dict.fromkeys(LEVELS, "first")}
    table = adjusted.groupby(["study", "recipe"], as_index=False).agg(by)
    return table.assign(model_id=table["recipe"], heritage=table["recipe"])


def components(rows: pd.DataFrame, *, draws: int = DRAWS, seed: int = 1) -> Components:
    """Draws of the standard deviations of the components over both studies and their corpora, each alike in weight.

    `depth` is not separated from the errors of the slopes: NaN. Raises UsageError for fewer than six recipes of a
    corpus.
    """
    rng = np.random.default_rng(seed)
    return Components.of([_by_corpus(group, draws, rng) for _, group in rows.groupby("study")])


def as_ratios(rows: pd.DataFrame, parts: Components, estimate: str = OVER) -> Result:
    """Ratios of the components, geometry and scale over the published models' shapes."""
    sizes = {name: float(np.median(drawn)) for name, drawn in vars(parts).items()}
    words = {"sizes": sizes, "in_order": parts.in_order}
    return Result.of(rows, ratios(parts), estimate=estimate, table=None, words=words)


def by_components(rows: pd.DataFrame) -> Result:
    """Components, as ratios of gains, of the second study's recipes that were seen at every shape."""
    return as_ratios(rows, of_study(second.by_corpus(rows), seed=SEED))


def by_corpora(rows: pd.DataFrame) -> Result:
    """The same ratios, headed by the corpus."""
    return replace(by_components(rows), estimate=CORPUS)


def by_both(rows: pd.DataFrame) -> Result:
    """Of both studies, every study and corpus with slopes of its own."""
    return as_ratios(rows, components(rows, seed=SEED))


def crossed(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Rows of a study with every line for each corpus apart, 0 in the others, and the names of these columns."""
    corpora = sorted(rows["corpus"].unique())
    lines = {f"{name} {corpus}": rows[name] * (rows["corpus"] == corpus) for corpus in corpora for name in LINES}
    return rows.assign(**lines), list(lines)


def _by_corpus(rows: pd.DataFrame, draws: int, rng: np.random.Generator) -> list[ComponentVariances]:
    """Draws of one study, slopes of every corpus apart: t slopes, variances from scaled inverse χ²."""
    lined, names = crossed(rows)
    pooled = within(lined, names)
    normal = rng.multivariate_normal(np.zeros(len(pooled.slopes)), pooled.covariance, draws)
    x = rows[[*LINES, *pooled.columns[len(names) :]]].to_numpy(np.float64)
    x, y, corpora = x - x.mean(axis=0), rows["log_gain"].to_numpy(np.float64)[:, None], rows["corpus"].to_numpy()
    left, left_df = pooled.residual
    parts = []
    for place, corpus in enumerate(sorted(set(corpora))):
        of_corpus = corpora == corpus
        inside = by_recipe(rows[of_corpus])
        size = inside.sum(axis=0)
        if len(size) < LEAST:
            raise UsageError("too few recipes of a corpus", where=corpus, got=len(size), allowed=f"{LEAST} or more")
        df = len(size) - 1
        drawn = pooled.slopes + np.sqrt(df / rng.chisquare(df, draws))[:, None] * normal
        lines = drawn[:, len(LINES) * place : len(LINES) * (place + 1)]
        slopes = np.column_stack([lines, drawn[:, len(names) :]])
        at_one_shape = means(y[of_corpus], inside).T - slopes @ means(x[of_corpus], inside).T
        noise = left / rng.chisquare(left_df, draws)
        off = at_one_shape - at_one_shape.mean(axis=1, keepdims=True)
        between = np.square(off).sum(axis=1) / rng.chisquare(df, draws)
        level = at_one_shape.mean(axis=1) + np.sqrt(between / len(size)) * rng.normal(size=draws)
        recipe = between - noise * float((1 / size).mean())
        parts.append(ComponentVariances(level, recipe, *over_reference(lines), np.full(draws, np.nan), noise))
    return parts


def slopes_of_corpora(rows: pd.DataFrame, term: str) -> pd.DataFrame:
    """Slope on one of LINES within recipes of a corpus, of both studies: columns as in `second.slopes_of_corpora`."""
    lined, names = crossed(rows)
    fitted = within(lined, names)
    errors, table = np.sqrt(np.diag(fitted.covariance)), []
    for corpus, group in rows.groupby("corpus"):
        place, df = fitted.columns.index(f"{term} {corpus}"), group["recipe"].nunique() - 1
        at = by_t(fitted.slopes[place], errors[place], df, "")
        table.append((corpus, at.value, at.lower, at.upper, at.p, errors[place], df))
    return pd.DataFrame(table, columns=second.SLOPES)


def by_study(rows: pd.DataFrame) -> pd.DataFrame:
    """Slopes on LINES of every study and corpus, given the others: study, term, and columns of `slopes_of_corpora`."""
    rows_of = [
        slopes_of_corpora(group, term).assign(study=study, term=term)
        for study, group in rows.groupby("study")
        for term in LINES
    ]
    return pd.concat(rows_of, ignore_index=True)


def factor_tests(table: pd.DataFrame, factors: dict[str, str], grouping: str = "study") -> pd.DataFrame:
    """F of every factor alone, given a column of levels, over recipes: factor, F, df, df_error, p.

    table: one row per recipe; factors: column → `levels`, or `number`.
    """
    y = table["log_gain"].to_numpy(np.float64)
    studies = pd.get_dummies(table[grouping]).to_numpy(np.float64)
    (left, rank), tests = residual(y, studies), []
    for name, kind in factors.items():
        squares, both = residual(y, np.column_stack([studies, _columns(table, name, kind)]))
        df, rest = both - rank, len(y) - both
        f = (left - squares) / df / (squares / rest) if df and rest else np.nan
        tests.append((name, f, df, rest, float(stats.f.sf(f, df, rest))))
    return pd.DataFrame(tests, columns=["factor", "F", "df", "df_error", "p"])


def _columns(table: pd.DataFrame, name: str, kind: str) -> Array:
    columns = pd.get_dummies(table[name]) if kind == "levels" else table[[name]]
    return np.asarray(columns, dtype=np.float64)


def contrasts(
    table: pd.DataFrame, factors: dict[str, str], grouping: str = "study", *, among: int | None = None
) -> pd.DataFrame:
    """Of every factor alone, given a column of levels, how far apart it sets the gain: more columns of `factor_tests`.

    `what` is compared, its highest level with its lowest, or one SD of a number; `ratio` of geometric mean gains;
    `lower` and `upper`, 95% t interval, Bonferroni over factors (`among` so many) and pairs of levels; `share` of the
    variance between recipes of one of its levels.
    """
    tests = factor_tests(table, factors, grouping)
    y = table["log_gain"].to_numpy(np.float64)
    studies = pd.get_dummies(table[grouping]).to_numpy(np.float64)
    before, rows = np.zeros(studies.shape[1]), []
    for (name, kind), test in zip(factors.items(), tests.itertuples(), strict=True):
        columns = _columns(table, name, kind)
        x = np.column_stack([studies, columns if kind == "levels" else columns / columns.std(ddof=1)])
        inverse = np.linalg.pinv(x.T @ x)
        slopes = inverse @ x.T @ y
        contrast, pairs, what = np.ones(1), 1, "one SD more"
        if kind == "levels":
            effects, levels = slopes[before.size :], pd.get_dummies(table[name]).columns
            high, low = effects.argmax(), effects.argmin()
            contrast = np.eye(len(levels))[high] - np.eye(len(levels))[low]
            pairs, what = math.comb(len(levels), 2), f"{levels[high]} against {levels[low]}"
        contrast = np.append(before, contrast)
        variance = np.square(y - x @ slopes).sum() / test.df_error
        half = stats.t.isf((1 - LEVEL) / 2 / (among or len(factors)) / pairs, test.df_error)
        ends = contrast @ slopes + np.array([0, -1, 1]) * half * np.sqrt(variance * contrast @ inverse @ contrast)
        rows.append((what, *np.exp(ends), test.F * test.df / (test.F * test.df + test.df_error)))
    return tests.join(pd.DataFrame(rows, columns=["what", "ratio", "lower", "upper", "share"]))
