"""What the factors of recipes do to the gain where every recipe is trained on every corpus: tests and ratios.

The corpus is tested within recipes: Hotelling's T² of the recipes' differences between corpora, exact for normal ones
whatever their covariance (1931, doi:10.1214/aoms/1177732979). Every other factor is tested alone over the recipes'
means of all corpora, of which each has the same, so that the corpus is given.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.modelling.draws import Array
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.third import FACTORS

CORPUS = "corpus"


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean log gains, recipes × corpora, of rows with one of each."""
    return rows.pivot(index="recipe", columns="trained_on", values="log_gain").dropna()


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `third.recipes` as one a recipe, means over its corpora."""
    by = {"log_gain": "mean", "n": "sum"} if "n" in rows else {"log_gain": "mean"}
    table = rows.groupby("recipe", as_index=False).agg(by | dict.fromkeys(FACTORS, "first"))
    return table.assign(model_id=table["recipe"], heritage=table["recipe"])


def hotelling(y: Array) -> tuple[float, int, int, float]:
    """That the columns of y (units, columns) have one mean: F, its degrees of freedom, p."""
    off = y[:, 1:] - y[:, :1]
    n, df = off.shape
    mean, covariance = off.mean(axis=0), np.atleast_2d(np.cov(off.T))
    f = float(n * mean @ np.linalg.pinv(covariance) @ mean) * (n - df) / (df * (n - 1))
    return f, df, n - df, float(stats.f.sf(f, df, n - df))


def residual(y: Array, x: Array) -> tuple[float, int]:
    """Residual sum of squares of least squares, and rank of the columns, the mean among them."""
    u, s, _ = np.linalg.svd(np.column_stack([np.ones(y.size), x - x.mean(axis=0)]), full_matrices=False)
    u = u[:, s > s[0] * 1e-9]
    return float(y @ y - np.square(y @ u).sum()), u.shape[1]


def factor_tests(table: pd.DataFrame, factors: dict[str, str]) -> pd.DataFrame:
    """F of every factor alone over recipes: factor, F, df, df_error, p.

    table: one row per recipe; factors: column → `levels`, or `number`.
    """
    y = table["log_gain"].to_numpy(np.float64)
    (left, rank), tests = residual(y, np.empty((y.size, 0))), []
    for name, kind in factors.items():
        squares, both = residual(y, _columns(table, name, kind))
        df, rest = both - rank, len(y) - both
        f = (left - squares) / df / (squares / rest) if df and rest else np.nan
        tests.append((name, f, df, rest, float(stats.f.sf(f, df, rest))))
    return pd.DataFrame(tests, columns=["factor", "F", "df", "df_error", "p"])


def _columns(table: pd.DataFrame, name: str, kind: str) -> Array:
    columns = pd.get_dummies(table[name]) if kind == "levels" else table[[name]]
    return np.asarray(columns, dtype=np.float64)


def contrasts_of(table: pd.DataFrame, factors: dict[str, str], *, among: int | None = None) -> pd.DataFrame:
    """Of every factor alone, how far apart it sets the gain: more columns of `factor_tests`.

    `what` is compared, its highest level with its lowest, or one SD of a number; `ratio` of geometric mean gains;
    `lower` and `upper`, 95% t interval, Bonferroni over factors (`among` so many) and pairs of levels; `share` of the
    variance between recipes.
    """
    tests, y, rows = factor_tests(table, factors), table["log_gain"].to_numpy(np.float64), []
    for (name, kind), test in zip(factors.items(), tests.itertuples(), strict=True):
        columns = _columns(table, name, kind)
        x = np.column_stack([np.ones(y.size), columns if kind == "levels" else columns / columns.std(ddof=1)])
        inverse = np.linalg.pinv(x.T @ x)
        slopes = inverse @ x.T @ y
        contrast, pairs, what = np.ones(1), 1, "one SD more"
        if kind == "levels":
            effects, levels = slopes[1:], pd.get_dummies(table[name]).columns
            high, low = effects.argmax(), effects.argmin()
            contrast = np.eye(len(levels))[high] - np.eye(len(levels))[low]
            pairs, what = math.comb(len(levels), 2), f"{levels[high]} against {levels[low]}"
        contrast = np.append(0.0, contrast)
        variance = np.square(y - x @ slopes).sum() / test.df_error
        half = stats.t.isf((1 - LEVEL) / 2 / (among or len(factors)) / pairs, test.df_error)
        ends = contrast @ slopes + np.array([0, -1, 1]) * half * np.sqrt(variance * contrast @ inverse @ contrast)
        rows.append((what, *np.exp(ends), test.F * test.df / (test.F * test.df + test.df_error)))
    return tests.join(pd.DataFrame(rows, columns=["what", "ratio", "lower", "upper", "share"]))


def tests(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """F of every factor alone, of the corpus among them or not: columns of `factor_tests`."""
    others = factor_tests(means(rows), FACTORS)
    if not corpus:
        return others
    of_corpus = pd.DataFrame([(CORPUS, *hotelling(wide(rows).to_numpy(np.float64)))], columns=others.columns)
    return pd.concat([of_corpus, others], ignore_index=True)


def contrasts(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """The same with how far apart each factor sets the gain: columns of `contrasts_of`.

    `share` of the corpus is that of the variance of all recipes in all corpora. Intervals are Bonferroni over factors.
    """
    among = len(FACTORS) + corpus
    others = contrasts_of(means(rows), FACTORS, among=among)
    if not corpus:
        return others
    y = wide(rows)
    high, low = y.mean().idxmax(), y.mean().idxmin()
    each, pairs = y[high] - y[low], math.comb(y.shape[1], 2)
    half = stats.t.isf((1 - LEVEL) / 2 / among / pairs, len(each) - 1) * each.sem()
    ends = np.exp(each.mean() + half * np.array([0, -1, 1]))
    values = y.to_numpy(np.float64)
    share = np.square(values.mean(axis=0) - values.mean()).mean() / values.var()
    row = (*tests(rows, corpus=True).iloc[0], f"{high} against {low}", *ends, share)
    return pd.concat([pd.DataFrame([row], columns=others.columns), others], ignore_index=True)


def in_each(rows: pd.DataFrame, factor: str) -> pd.DataFrame:
    """A factor's contrast in every corpus alone: corpus, and columns of `contrasts_of`."""
    parts = [
        contrasts_of(group, {factor: FACTORS[factor]}).assign(corpus=corpus)
        for corpus, group in rows.groupby("trained_on")
    ]
    return pd.concat(parts, ignore_index=True)


def without_each(rows: pd.DataFrame) -> dict[str, float]:
    """p of the corpus without each corpus in turn."""
    y = wide(rows)
    return {str(name): hotelling(y.drop(columns=name).to_numpy(np.float64))[3] for name in y}
