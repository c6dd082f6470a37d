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
from thermostats.studies.nursery import together
from thermostats.studies.nursery.second import GIVEN_CORPUS

CORPUS = "corpus"


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean log gains, recipes × corpora, of rows with one of each."""
    return rows.pivot(index="recipe", columns="trained_on", values="log_gain").dropna()


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `third.recipes` as one a recipe, means over its corpora."""
    by = {"log_gain": "mean", "n": "sum"} if "n" in rows else {"log_gain": "mean"}
    table = rows.groupby("recipe", as_index=False).agg(by | dict.fromkeys(GIVEN_CORPUS, "first"))
    return table.assign(study="third", model_id=table["recipe"], heritage=table["recipe"])


def hotelling(y: Array) -> tuple[float, int, int, float]:
    """That the columns of y (units, columns) have one mean: F, its degrees of freedom, p."""
    off = y[:, 1:] - y[:, :1]
    n, df = off.shape
    mean, covariance = off.mean(axis=0), np.atleast_2d(np.cov(off.T))
    f = float(n * mean @ np.linalg.pinv(covariance) @ mean) * (n - df) / (df * (n - 1))
    return f, df, n - df, float(stats.f.sf(f, df, n - df))


def tests(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """F of every factor alone, of the corpus among them or not: columns of `together.factor_tests`."""
    others = together.factor_tests(means(rows), GIVEN_CORPUS)
    if not corpus:
        return others
    of_corpus = pd.DataFrame([(CORPUS, *hotelling(wide(rows).to_numpy(np.float64)))], columns=others.columns)
    return pd.concat([of_corpus, others], ignore_index=True)


def contrasts(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """The same with how far apart each factor sets the gain: columns of `together.contrasts`.

    `share` of the corpus is that of the variance of all recipes in all corpora. Intervals are Bonferroni over factors.
    """
    among = len(GIVEN_CORPUS) + corpus
    others = together.contrasts(means(rows), GIVEN_CORPUS, among=among)
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
    """A factor's contrast in every corpus alone: corpus, and columns of `together.contrasts`."""
    parts = [
        together.contrasts(group.assign(study="third"), {factor: GIVEN_CORPUS[factor]}).assign(corpus=corpus)
        for corpus, group in rows.groupby("trained_on")
    ]
    return pd.concat(parts, ignore_index=True)


def without_each(rows: pd.DataFrame) -> dict[str, float]:
    """p of the corpus without each corpus in turn."""
    y = wide(rows)
    return {str(name): hotelling(y.drop(columns=name).to_numpy(np.float64))[3] for name in y}
