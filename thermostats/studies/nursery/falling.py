"""Whether the gain falls with depth or head density in every corpus: rules, tests and worlds of slopes by corpus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.noise import ERRORS, Errors, Noise
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, EveryRow, V
from thermostats.claims.worlds import World, worlds_in_groups
from thermostats.plots.general import drawing, forest
from thermostats.studies.nursery import second, third, together
from thermostats.studies.nursery.crossed_factors import hotelling
from thermostats.studies.nursery.rows import by_t
from thermostats.studies.nursery.slopes import combined

ALPHA = 0.05
SMALL = float(np.log(1.05) / np.log(2))
"""A slope on a logarithm that moves the gain by 5% where the logarithm's argument doubles."""
QUARTER, BETWEEN = 0.5, 0.2
"""What would be of interest: a quarter of the variance (r = ±0.5; the null is none), where 20% lie between recipes."""
MEAN, APART = "mean slope over corpora", "difference between corpora"
KINDS = ("normal", "t3", "heteroscedastic labs")


def below(slope: V) -> Decide:
    """The rule of a slope: below 0, or not as much as a fall of 5% a doubling."""
    return Decide((slope < 0) & (slope.p <= ALPHA), slope.lower > -SMALL)


IN_EVERY = EveryRow(below(V("slope")), "corpora")
FALLING = worlds_in_groups("log_gain", "column", -QUARTER, BETWEEN)
"""Of one corpus; for several, worlds in which the gain does not fall in all of them are added."""


@dataclass(frozen=True)
class InSome:
    """Worlds of `FALLING`, in which the models of some corpora do not fall."""

    id: str
    words: str
    by: str
    """Column of the corpus."""
    falling: tuple[str, ...]
    """Corpora in which the gain falls."""

    def change(self, rows: pd.DataFrame, noise: Noise, rng: np.random.Generator) -> pd.DataFrame:
        """Rows with log gains."""
        made, flat = (FALLING[at].signal(rows, noise, rng) for at in (0, 1))
        return made.assign(log_gain=made["log_gain"].where(rows[self.by].isin(self.falling), flat["log_gain"]))

    @property
    def worlds(self) -> tuple[World, ...]:
        """One a kind of errors."""
        return tuple(
            World(f"{self.id}, {kind}", f"{self.words}, {ERRORS[kind]}", False, self.change, Errors(kind))
            for kind in KINDS
        )


IN_ONE = InSome(
    "in one corpus alone",
    f"correlation −{QUARTER:g} in models of the synthetic corpus, none in others",
    "corpus",
    ("synthetic",),
).worlds
IN_ALL_BUT_ONE = InSome(
    "in all corpora but one",
    f"correlation −{QUARTER:g} in models of all corpora but English, none in these",
    "trained_on",
    tuple(name for name in third.CORPORA if name != "english"),
).worlds


def by_corpora(rows: pd.DataFrame, corpora: pd.DataFrame) -> Result:
    """Slopes of two corpora, their mean, and how far they lie apart; corpora: columns of `slopes_of_corpora`."""
    by = corpora.set_index("corpus")
    return _of_corpora(rows, corpora, *(combined(by, sign) for sign in (1.0, -1.0)))


def _of_corpora(rows: pd.DataFrame, corpora: pd.DataFrame, mean: Estimate, apart: Estimate) -> Result:
    by = corpora.set_index("corpus")
    words = {"by": {corpus: (row["slope"], row["slope_lower"], row["slope_upper"]) for corpus, row in by.iterrows()}}
    return Result.of(rows, {MEAN: mean, APART: apart}, table=None, rows={"corpora": corpora}, words=words)


def by_recipes(rows: pd.DataFrame) -> Result:
    """Slopes of the second study's recipes at the shapes that all have, by corpus."""
    return by_corpora(rows, second.slopes_of_corpora(rows, rows["term"].iloc[0]))


def by_both(rows: pd.DataFrame) -> Result:
    """Slopes within recipes of both studies, by corpus."""
    return by_corpora(rows, together.slopes_of_corpora(rows, rows["term"].iloc[0]))


def by_crossed(rows: pd.DataFrame) -> Result:
    """Of the third, slopes of recipes that are in all corpora: how far apart is that of the steepest and the flattest.

    Its p is by Hotelling's T² that all corpora have one slope, its interval Bonferroni over their pairs.
    """
    term = rows["term"].iloc[0]
    slopes, corpora = third.slopes(rows, term)
    every = slopes.mean(axis=0)
    mean = by_t(every.mean(), float(stats.sem(every)), len(every) - 1, "95% t interval, recipes as the unit")
    each = slopes[slopes.mean(axis=1).argmax()] - slopes[slopes.mean(axis=1).argmin()]
    pairs = len(corpora) * (len(corpora) - 1) / 2
    half = float(stats.t.isf(0.025 / pairs, len(each) - 1) * stats.sem(each))
    middle, p = float(each.mean()), hotelling(slopes.T)[3]
    words = "95% t interval, recipes as the unit, Bonferroni over pairs of corpora"
    apart = Estimate(middle, middle - half, middle + half, words, p)
    return _of_corpora(rows, third.slopes_of_corpora(rows, term), mean, apart)


def other_terms(rows: pd.DataFrame) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Slopes of the third study by corpus on every other of its terms."""
    named = rows["term"].iloc[0]
    terms = {third.WORDS[term]: term for term in third.TERMS if term != named}
    return {words: in_words(third.slopes_of_corpora(rows, term)) for words, term in terms.items()}


def in_words(table: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Slope with its interval by corpus, in words."""
    return {third.IN_WORDS[row.corpus]: (row.slope, row.slope_lower, row.slope_upper) for row in table.itertuples()}


def on_each_set(rows: pd.DataFrame) -> dict[str, Result]:
    """The third study's slopes with all models on the prompts of one corpus, each in turn."""
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
    slopes = table.rename(columns={"slope": "estimate", "slope_lower": "lower", "slope_upper": "upper"})
    named = slopes.assign(row=slopes["corpus"].map(third.IN_WORDS))
    draw = drawing(forest, named, label="row", xlabel=f"slope of the log penultimate gain on {on}")
    return result.adding(words=words, table=every.reset_index("prompts"), draw=draw)
