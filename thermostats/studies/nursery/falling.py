"""Whether the gain falls with depth or head density in every corpus: rules, tests and worlds of slopes by corpus."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.noise import Noise, Random
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, EveryRow, V
from thermostats.claims.worlds import TOTAL, Worlds
from thermostats.claims.worlds.world import Outcomes, along, family, standard
from thermostats.plots.general import drawing, forest
from thermostats.studies.nursery import third
from thermostats.studies.nursery.crossed_factors import hotelling
from thermostats.studies.nursery.rows import by_t

ALPHA = 0.05
SMALL = float(np.log(1.05) / np.log(2))
"""A slope on a logarithm that moves the gain by 5% where the logarithm's argument doubles."""
QUARTER, BETWEEN = 0.5, 0.2
"""What would be of interest: a quarter of the variance (r = ±0.5; the null is none), where 20% lie between recipes."""
MEAN, APART = "mean slope over corpora", "difference between corpora"


def below(slope: V) -> Decide:
    """The rule of a slope: below 0, or not as much as a fall of 5% a doubling."""
    return Decide((slope < 0) & (slope.p <= ALPHA), slope.lower > -SMALL)


IN_EVERY = EveryRow(below(V("slope")), "corpora")


def _falling(by: Mapping[str, float], rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
    r = rows["trained_on"].map(by).to_numpy(np.float64)
    x, levels = standard(rows["column"].to_numpy(np.float64)), standard(random.levels(rows, "recipe"))
    return {"log_gain": TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows) + BETWEEN**0.5 * levels)}


def in_all() -> Worlds:
    """Log gains that fall with a column at r = −0.5 in models of every corpus, of none, or of all but English."""
    at_rest = along("column", ordered=False, group="recipe")
    falls, flat = (dict.fromkeys(third.CORPORA, r) for r in (-QUARTER, 0.0))
    others = {"all corpora but English": {**falls, "english": 0.0}}
    return family(_falling, "correlations {}", "log_gain", at_rest, falls, flat, others=others)


IN_ALL = in_all()


def by_crossed(rows: pd.DataFrame) -> Result:
    """Slopes of recipes that are in all corpora: their mean, and how far the steepest corpus lies from the flattest.

    Its p is by Hotelling's T² that all corpora have one slope, its interval Bonferroni over their pairs.
    """
    term = rows["term"].iloc[0]
    by_corpus, corpora = third.slopes(rows, term)
    every = by_corpus.mean(axis=0)
    mean = by_t(every.mean(), float(stats.sem(every)), len(every) - 1, "95% t interval, recipes as the unit")
    each = by_corpus[by_corpus.mean(axis=1).argmax()] - by_corpus[by_corpus.mean(axis=1).argmin()]
    pairs = len(corpora) * (len(corpora) - 1) / 2
    half = float(stats.t.isf(0.025 / pairs, len(each) - 1) * stats.sem(each))
    middle, p = float(each.mean()), hotelling(by_corpus.T)[3]
    words = "95% t interval, recipes as the unit, Bonferroni over pairs of corpora"
    apart = Estimate(middle, middle - half, middle + half, words, p)
    by = third.slopes_of_corpora(rows, term)
    return Result.of(rows, {MEAN: mean, APART: apart}, table=None, rows={"corpora": by})


def other_terms(rows: pd.DataFrame) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Slopes by corpus on every other of the terms."""
    named = rows["term"].iloc[0]
    terms = {third.WORDS[term]: term for term in third.TERMS if term != named}
    return {words: in_words(third.slopes_of_corpora(rows, term)) for words, term in terms.items()}


def in_words(table: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Slope with its interval by corpus, in words."""
    return {third.IN_WORDS[row.corpus]: (row.slope, row.slope_lower, row.slope_upper) for row in table.itertuples()}


def on_each_set(rows: pd.DataFrame) -> dict[str, Result]:
    """Slopes with all models on the prompts of one corpus, each in turn."""
    return {corpus: by_crossed(rows.assign(log_gain=rows[column])) for corpus, column in third.ON.items()}


def shown_by_corpus(rows: pd.DataFrame, on: str) -> Result:
    """`by_crossed` with its figure, table and words; on: what the slope is on, in words."""
    result = by_crossed(rows)
    table, sets = result.rows["corpora"], on_each_set(rows)
    words = {
        "by": in_words(table),
        "doubled": {corpus: np.expm1(by[0] * np.log(2)) for corpus, by in in_words(table).items()},
        "others": other_terms(rows),
        "extent": third.extent(rows),
        "on": {third.IN_WORDS[corpus]: IN_EVERY.verdict(each) for corpus, each in sets.items()},
    }
    every = pd.concat({"own": table} | {name: each.rows["corpora"] for name, each in sets.items()}, names=["prompts"])
    estimates = table.rename(columns={"slope": "estimate", "slope_lower": "lower", "slope_upper": "upper"})
    named = estimates.assign(row=estimates["corpus"].map(third.IN_WORDS))
    draw = drawing(forest, named, label="row", xlabel=f"slope of the log penultimate gain on {on}")
    return result.adding(words=words, table=every.reset_index("prompts"), draw=draw)
