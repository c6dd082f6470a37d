"""Tests of the third study's findings, of one study and of many of one design at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.noise import Noise, Random
from thermostats.claims.question import Test
from thermostats.claims.result import OF_LAW, Estimate, Result
from thermostats.claims.rule import NEVER, Decide, Each, EveryRow, Gate, Some, V
from thermostats.claims.worlds import (
    TOTAL,
    Outcomes,
    Worlds,
    build_errors,
    build_family,
    standardise_values,
)
from thermostats.errors import UsageError
from thermostats.modelling.classical.interval_laws import IntervalLaw, StudentLaw
from thermostats.modelling.classical.many import Many, estimate_means, wrap_counts
from thermostats.modelling.draws import Array
from thermostats.modelling.heritage.variance_shares import find_span
from thermostats.plots.general import draw_forest, prepare_drawing
from thermostats.studies.delia2026.published_gains import LEVEL
from thermostats.studies.nursery.crossed import (
    ALIKE,
    RECIPE,
    THRESHOLDS,
    build_table,
    encode_shapes,
    estimate_mean_ratios,
    estimate_ratios,
    estimate_spreads,
    fit_lines,
)
from thermostats.studies.nursery.crossed import SHAPE_OF_WORLDS as SHAPE
from thermostats.studies.nursery.study_rows import (
    SIDES_OF_INTERVAL,
    build_t_estimate,
    encode_levels,
    measure_half_width,
    record_ends,
)
from thermostats.studies.nursery.third import (
    CORPORA,
    FACTORS,
    IN_WORDS,
    ON,
    SLOPES,
    TERMS,
    WORDS,
    build_corpus_matrix,
    combine_corpora,
    describe_extent,
    estimate_mediation,
    fit_recipe_slopes,
    mark_unlearned,
    summarise_corpus_slopes,
)

CORPUS = "corpus"
COLUMNS_OF_TESTS = ["factor", "F", "df", "df_error", "p"]


def run_hotelling(y: Array) -> tuple[Any, int, int, Any]:
    """That the columns of y (…, units, columns) have one mean: F, its degrees of freedom, p."""
    off = y[..., 1:] - y[..., :1]
    n, df = off.shape[-2:]
    mean = off.mean(axis=-2)
    centred = off - mean[..., None, :]
    covariance = np.swapaxes(centred, -1, -2) @ centred / (n - 1)
    inverse = np.linalg.pinv(covariance)
    squared = np.einsum("...i,...ij,...j->...", mean, inverse, mean)
    rest = n - df
    f = n * squared * rest / (df * (n - 1))
    p = stats.f.sf(f, df, rest)
    return f, df, rest, p


def measure_residual(y: Array, x: Array) -> tuple[Any, int]:
    """Residual sum of squares of least squares of y (…, units), and rank of the columns, the mean
    among them."""
    centred = x - x.mean(axis=0)
    columns = np.column_stack([np.ones(len(x)), centred])
    u = find_span(columns)
    whole = np.square(y).sum(axis=-1)
    explained = np.square(y @ u).sum(axis=-1)
    return whole - explained, u.shape[1]


def run_factor_tests(table: pd.DataFrame, factors: dict[str, str]) -> pd.DataFrame:
    """F of every factor alone over recipes: factor, F, df, df_error, p.

    table: one row per recipe; factors: column → `levels`, or `number`.
    """
    y = table["log_gain"].to_numpy(float)
    tests = evaluate_factors(y, table, factors)
    return pd.DataFrame(tests, columns=COLUMNS_OF_TESTS)


def evaluate_factors(
    y: Array, table: pd.DataFrame, factors: dict[str, str]
) -> list[tuple[str, Any, int, int, Any]]:
    """The same of outcomes y (…, recipes), a row a factor."""
    nothing = np.empty((len(table), 0))
    left, rank = measure_residual(y, nothing)
    tests = []
    for name, kind in factors.items():
        columns = _build_columns(table, name, kind)
        squares, both = measure_residual(y, columns)
        df = both - rank
        rest = len(table) - both
        f = np.full_like(left, np.nan)
        if df and rest:
            f = (left - squares) / df / (squares / rest)
        p = stats.f.sf(f, df, rest)
        tests.append((name, f, df, rest, p))
    return tests


def _build_columns(table: pd.DataFrame, name: str, kind: str) -> Array:
    columns = pd.get_dummies(table[name]) if kind == "levels" else table[[name]]
    return np.asarray(columns, dtype=float)


def measure_contrasts(
    table: pd.DataFrame, factors: dict[str, str], *, among: int | None = None
) -> pd.DataFrame:
    """Of every factor alone, how far apart it sets the gain: more columns of `run_factor_tests`.

    `what` is compared, its highest level with its lowest, or one SD of a number; `ratio` of
    geometric mean gains; `lower` and `upper`, 95% t interval, Bonferroni over factors (`among` so
    many) and pairs of levels; `share` of the variance between recipes.
    """
    tests = run_factor_tests(table, factors)
    y = table["log_gain"].to_numpy(float)
    rows = []
    for (name, kind), test in zip(factors.items(), tests.itertuples(), strict=True):
        columns = _build_columns(table, name, kind)
        if kind != "levels":
            columns = columns / columns.std(ddof=1)
        intercept = np.ones(y.size)
        x = np.column_stack([intercept, columns])
        inverse = np.linalg.pinv(x.T @ x)
        slopes = inverse @ x.T @ y
        contrast = np.ones(1)
        pairs = 1
        what = "one SD more"
        if kind == "levels":
            effects = slopes[1:]
            levels = pd.get_dummies(table[name]).columns
            high = effects.argmax()
            low = effects.argmin()
            places = np.eye(len(levels))
            contrast = places[high] - places[low]
            pairs = math.comb(len(levels), 2)
            what = f"{levels[high]} against {levels[low]}"
        contrast = np.append(0.0, contrast)
        off = y - x @ slopes
        left = np.square(off).sum()
        variance = left / test.df_error
        tail = (1 - LEVEL) / 2 / (among or len(factors)) / pairs
        half = stats.t.isf(tail, test.df_error)
        spread = variance * contrast @ inverse @ contrast
        reach = half * np.sqrt(spread)
        ends = contrast @ slopes + SIDES_OF_INTERVAL * reach
        explained = test.F * test.df
        share = explained / (explained + test.df_error)
        rows.append((what, *np.exp(ends), share))
    contrasts = pd.DataFrame(rows, columns=["what", "ratio", "lower", "upper", "share"])
    return tests.join(contrasts)


def run_tests(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """F of every factor alone, of the corpus among them or not: columns of `run_factor_tests`."""
    others = run_factor_tests(combine_corpora(rows), FACTORS)
    if not corpus:
        return others
    y = build_corpus_matrix(rows).to_numpy(float)
    test = (CORPUS, *run_hotelling(y))
    of_corpus = pd.DataFrame([test], columns=others.columns)
    return pd.concat([of_corpus, others], ignore_index=True)


def compare_factors(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """The same with how far apart each factor sets the gain: columns of `measure_contrasts`.

    `share` of the corpus is that of the variance of all recipes in all corpora. Intervals are
    Bonferroni over factors.
    """
    among = len(FACTORS) + corpus
    others = measure_contrasts(combine_corpora(rows), FACTORS, among=among)
    if not corpus:
        return others
    y = build_corpus_matrix(rows)
    high = y.mean().idxmax()
    low = y.mean().idxmin()
    each = y[high] - y[low]
    pairs = math.comb(y.shape[1], 2)
    tail = (1 - LEVEL) / 2 / among / pairs
    quantile = stats.t.isf(tail, len(each) - 1)
    half = quantile * each.sem()
    ends = np.exp(each.mean() + half * SIDES_OF_INTERVAL)
    values = y.to_numpy(float)
    off = values.mean(axis=0) - values.mean()
    share = np.square(off).mean() / values.var()
    test = run_tests(rows, corpus=True).iloc[0]
    row = (*test, f"{high} against {low}", *ends, share)
    of_corpus = pd.DataFrame([row], columns=others.columns)
    return pd.concat([of_corpus, others], ignore_index=True)


def compare_each_corpus(rows: pd.DataFrame, factor: str) -> pd.DataFrame:
    """A factor's contrast in every corpus alone: corpus, and columns of `measure_contrasts`."""
    parts = []
    for corpus, group in rows.groupby("trained_on"):
        contrasts = measure_contrasts(group, {factor: FACTORS[factor]})
        parts.append(contrasts.assign(corpus=corpus))
    return pd.concat(parts, ignore_index=True)


def drop_each_corpus(rows: pd.DataFrame) -> dict[str, float]:
    """p of the corpus without each corpus in turn."""
    y = build_corpus_matrix(rows)
    p_values = {}
    for name in y:
        others = y.drop(columns=name).to_numpy(float)
        *_, p = run_hotelling(others)
        p_values[str(name)] = p
    return p_values


OVER_ARCHITECTURE = "SD of recipe / SD of architecture"
OVER_SIZE = "SD of shape / SD of size"
SHARED = "share of what recipes do that all corpora have"
NAMES = {RECIPE: OVER_ARCHITECTURE, SHAPE: OVER_SIZE, ALIKE: SHARED}
"""The frozen rules' names, and those of their quantities."""
LEFT = "other choices"
CONTROL = "shuffled"
SQUARES = "squares averaged over all four corpora, the frozen estimate"
INTERVAL = "95% jackknife t interval over recipes"


def build_rule(name: str) -> Decide:
    """The frozen rule, and that no corpus and no set of prompts is needed for what it says."""
    quantity = V(NAMES[name])
    bar = THRESHOLDS[name]
    above = quantity > bar
    below = quantity < bar
    return Decide(
        (quantity.interval > bar) & Gate(Each(LEFT, above)),
        (quantity.interval < bar) & Gate(Each(LEFT, below)),
    )


def select_language_models(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of corpora that have language."""
    return rows[rows["trained_on"] != CONTROL]


def stack_gains(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> tuple[Array, Array]:
    """Log gains (study, corpora, recipes, shapes), and logs of shapes, as `crossed.table` has them
    of one."""
    numbered = rows.assign(log_gain=np.arange(len(rows)))
    places, x, _ = build_table(numbered)
    gains = outcomes["log_gain"]
    indices = places.astype(np.int64)
    return gains[:, indices], x


def summarise_ratios(y: Array, x: Array) -> dict[str, Estimate]:
    """The ratios as means over corpora, and what recipes share in all, with intervals, by the names
    that pages use."""
    means, _ = estimate_mean_ratios(y, x)
    by_block = {**means, ALIKE: estimate_ratios(y, x)[ALIKE]}
    ratios = {}
    for name, at in by_block.items():
        numbers = (float(at.estimate), float(at.lower), float(at.upper))
        ratios[NAMES[name]] = Estimate(*numbers, INTERVAL)
    return ratios


def estimate_prompt_sets(rows: pd.DataFrame) -> pd.DataFrame:
    """The estimates with all models on the prompts of one corpus, each in turn."""
    parts = []
    for corpus, column in ON.items():
        y, x, _ = build_table(select_language_models(rows), column)
        values = {}
        for name, at in summarise_ratios(y, x).items():
            values[name] = at.value
        words = IN_WORDS[corpus]
        parts.append({"choice": f"all on prompts of {words}", **values})
    return pd.DataFrame(parts)


def estimate_other_choices(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """The estimates with their intervals for other gains, models and means, on which nothing rests.

    The penultimate gain of the mean over tokens, the last gain, recipes all of whose models
    learned, shuffled English among the corpora, and squares averaged over all four, as the frozen
    rule had them.
    """
    means = tables.table("third_means").set_index("model")
    others = {
        "gain of the mean over tokens": "penultimate_gain_of_mean",
        "gain of the last block": "last_gain",
    }
    frames = {"recipes whose models all learned": rows[~mark_unlearned(rows)]}
    for words, gain in others.items():
        other_gain = rows["model"].map(means[gain])
        frames[words] = rows.assign(log_gain=other_gain)
    parts = []
    for words, chosen in frames.items():
        y, x, _ = build_table(select_language_models(chosen))
        ratios = summarise_ratios(y, x)
        parts.append(_record_choice(words, y, ratios))
    y, x, _ = build_table(rows)
    squares = {}
    for name, at in estimate_ratios(y, x).items():
        squares[NAMES[name]] = Estimate(at.estimate, at.lower, at.upper)
    shuffled = "shuffled English among the corpora"
    ratios = summarise_ratios(y, x)
    parts.append(_record_choice(shuffled, y, ratios))
    parts.append(_record_choice(SQUARES, y, squares))
    return pd.DataFrame(parts)


def _record_choice(
    words: str, y: Array, estimates_of: Mapping[str, Estimate]
) -> dict[str, str | float | None]:
    """A choice with the number of its recipes, and every estimate with both its ends."""
    numbers: dict[str, str | float | None] = {"choice": words, "recipes": y.shape[1]}
    for name, at in estimates_of.items():
        numbers |= record_ends(name, at)
    return numbers


def judge_ratio_choices(name: str, rows: pd.DataFrame) -> Result:
    """The ratios by the rule, on each set of prompts too; each corpus alone, the control among
    them."""
    result = build_ratio_test(name)(rows)
    left = result.rows[LEFT]
    choices = pd.concat([left, estimate_prompt_sets(rows)], ignore_index=True)
    alone = estimate_corpora(rows)[name]
    words = {"choices": choices.to_dict("records"), "alone": alone}
    return replace(result, rows={LEFT: choices}).adding(words=words)


def estimate_corpora(rows: pd.DataFrame) -> dict[str, dict[str, Estimate]]:
    """Every ratio of each corpus alone, the control among them."""
    y, x, corpora = build_table(rows)
    ratios = {}
    for i, corpus in enumerate(corpora):
        alone = y[[i]]
        ratios[IN_WORDS[corpus]] = summarise_ratios(alone, x)
    estimates = {}
    for name, words in NAMES.items():
        by_corpus = {corpus: of[words] for corpus, of in ratios.items()}
        estimates[name] = by_corpus
    return estimates


def weigh_corpora(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """How much each corpus that has language counts in the mean of either ratio."""
    y, x, corpora = build_table(select_language_models(rows))
    _, weights_of_ratios = estimate_mean_ratios(y, x)
    by_ratio = weights_of_ratios.T
    names = [IN_WORDS.get(corpus, corpus) for corpus in corpora]
    weights_by_ratio = {}
    for name, weights in zip((RECIPE, SHAPE), by_ratio, strict=True):
        weights_by_ratio[name] = dict(zip(names, weights, strict=True))
    return weights_by_ratio


def summarise_spreads(rows: pd.DataFrame) -> pd.DataFrame:
    """Standard deviations with 95% intervals, of all corpora and of each: of, block, estimate,
    lower, upper."""
    y, x, corpora = build_table(rows)
    every = {"all corpora": estimate_spreads(y, x)}
    for place, name in enumerate(corpora):
        words = IN_WORDS.get(name, name)
        every[words] = estimate_spreads(y[[place]], x)
    records = []
    for of, spread in every.items():
        for block, at in spread.items():
            records.append({"of": of, "block": block} | vars(at))
    return pd.DataFrame(records)


ALPHA = 0.05
SMALL = float(np.log(1.05) / np.log(2))
"""A slope on a logarithm that moves the gain by 5% where the logarithm's argument doubles."""
QUARTER, BETWEEN = 0.5, 0.2
"""What would be of interest: a quarter of the variance (r = ±0.5; the null is none), where 20% lie
between recipes."""
MEAN = "mean slope over corpora"
APART = "difference between corpora"


def build_slope_rule(slope: V) -> Decide:
    """The rule of a slope: below 0, or not as much as a fall of 5% a doubling."""
    falls = (slope < 0) & (slope.p <= ALPHA)
    return Decide(falls, slope.lower > -SMALL)


IN_EVERY = EveryRow(build_slope_rule(V("slope")), "corpora")


def _simulate_falling(
    by: Mapping[str, float], rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    r = rows["trained_on"].map(by).to_numpy(float)
    x = standardise_values(rows["column"].to_numpy(float))
    levels = standardise_values(random.levels(rows, "recipe"))
    rest = (1 - r**2) ** 0.5
    log_gain = r * x + rest * noise(rows) + BETWEEN**0.5 * levels
    return {"log_gain": TOTAL * log_gain}


def build_slope_worlds(term: str) -> Worlds:
    """Log gains that fall with a term, the column `column`, at r = −0.5 in models of every corpus,
    of none, or of all but English."""
    at_rest = build_errors(term, ordered=False, group="recipe", measured="third_gain")
    falls = dict.fromkeys(CORPORA, -QUARTER)
    flat = dict.fromkeys(CORPORA, 0.0)
    others = {"all corpora but English": {**falls, "english": 0.0}}
    return build_family(
        _simulate_falling, "correlations {}", "log_gain", at_rest, falls, flat, others=others
    )


def estimate_slopes(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Mean slope over recipes in every corpus, with its t interval and p."""
    term = rows["term"].iloc[0]
    coding, place = TERMS[term]
    y, x = stack_gains(rows, outcomes)
    coded = encode_shapes(x) if coding == "coded" else x - x.mean(axis=0)
    slopes, *_ = fit_lines(y, coded)
    by_corpus = np.moveaxis(slopes[..., place], 1, 0)
    return {"corpora": [{"slope": estimate_means(of_corpus)} for of_corpus in by_corpus]}


def describe_crossed(rows: pd.DataFrame, result: Result) -> Result:
    """With the mean of the corpora's slopes, and how far the steepest lies from the flattest.

    Its p is by Hotelling's T² that all corpora have one slope, its interval Bonferroni over their
    pairs.
    """
    term = rows["term"].iloc[0]
    by_corpus, corpora = fit_recipe_slopes(rows, term)
    every = by_corpus.mean(axis=0)
    unit = "95% t interval, recipes as the unit"
    mean = build_t_estimate(every.mean(), float(stats.sem(every)), len(every) - 1, unit)
    means = by_corpus.mean(axis=1)
    steepest = by_corpus[means.argmax()]
    each = steepest - by_corpus[means.argmin()]
    pairs = len(corpora) * (len(corpora) - 1) / 2
    quantile = stats.t.isf(0.025 / pairs, len(each) - 1)
    half = float(quantile * stats.sem(each))
    middle = float(each.mean())
    p = run_hotelling(by_corpus.T)[3]
    words = f"{unit}, Bonferroni over pairs of corpora"
    apart = Estimate(middle, middle - half, middle + half, words, p)
    table = result.rows["corpora"].rename(columns={"p": "slope_p"})
    table["corpus"] = corpora
    table["error"] = stats.sem(by_corpus, axis=1)
    table["df"] = by_corpus.shape[1] - 1
    corpora_rows = table[[*SLOPES, f"slope{OF_LAW}"]]
    quantities = {MEAN: mean, APART: apart}
    return replace(result, quantities=quantities, rows={"corpora": corpora_rows})


CROSSED_SLOPES = Test(estimate_slopes, ("log_gain",), describe=describe_crossed)


def estimate_other_terms(rows: pd.DataFrame) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Slopes by corpus on every other of the terms."""
    named = rows["term"].iloc[0]
    terms = {WORDS[term]: term for term in TERMS if term != named}
    other_terms = {}
    for words, term in terms.items():
        other_terms[words] = describe_slopes(summarise_corpus_slopes(rows, term))
    return other_terms


def describe_slopes(table: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Slope with its interval by corpus, in words."""
    slopes = {}
    for row in table.itertuples():
        numbers = (row.slope, row.slope_lower, row.slope_upper)
        slopes[IN_WORDS[row.corpus]] = numbers
    return slopes


def judge_prompt_sets(rows: pd.DataFrame) -> dict[str, Result]:
    """Slopes with all models on the prompts of one corpus, each in turn."""
    prompt_sets = {}
    for corpus, column in ON.items():
        on_corpus = rows.assign(log_gain=rows[column])
        prompt_sets[corpus] = CROSSED_SLOPES(on_corpus)
    return prompt_sets


def show_corpus_slopes(rows: pd.DataFrame, on: str) -> Result:
    """`CROSSED_SLOPES` with its figure, table and words; on: what the slope is on, in
    words."""
    result = CROSSED_SLOPES(rows)
    table = result.rows["corpora"]
    slopes = describe_slopes(table)
    sets = judge_prompt_sets(rows)
    doubled = {}
    for corpus, (slope, *_) in slopes.items():
        doubling = slope * np.log(2)
        doubled[corpus] = np.expm1(doubling)
    verdicts = {}
    tables = {"own": table}
    for corpus, each in sets.items():
        verdicts[IN_WORDS[corpus]] = IN_EVERY.verdict(each)
        tables[corpus] = each.rows["corpora"]
    words = {
        "by": slopes,
        "doubled": doubled,
        "others": estimate_other_terms(rows),
        "extent": describe_extent(rows),
        "on": verdicts,
    }
    every = pd.concat(tables, names=["prompts"])
    estimates = table.rename(
        columns={"slope": "estimate", "slope_lower": "lower", "slope_upper": "upper"}
    )
    named = estimates.assign(row=estimates["corpus"].map(IN_WORDS))
    draw = prepare_drawing(
        draw_forest, named, label="row", xlabel=f"slope of the log penultimate gain on {on}"
    )
    return result.adding(words=words, table=every.reset_index("prompts"), draw=draw)


RATIO = "ratio"
MOVED = Decide(Some("factors", V("F").p <= ALPHA, adjust="holm"), NEVER)
STRONGEST = "F of the strongest factor"
FACTORS_IN_WORDS = {
    "log_rate": "log rate",
    "shrinking": "decay over training",
    "depth_power": "init by depth",
    "log_init": "log init",
    "log_embed": "log embedding",
    "log_warmup": "log warm-up",
    "log_batch": "log batch",
    "log_clip": "log clipping",
    "log_tokens": "log tokens",
}
"""Factors whose columns do not say what they are."""


def describe_strongest(names: Sequence[str], rows: pd.DataFrame, result: Result) -> Result:
    """Tests of factors by their names, headed by the one of the least p."""
    counts = {"df": int, "df_error": int}
    tests = result.rows["factors"].astype(counts)
    tests = tests.assign(factor=names)[COLUMNS_OF_TESTS]
    best = tests.loc[tests["p"].idxmin()]
    bonferroni = best["p"] * len(tests)
    p = float(min(1.0, bonferroni))
    f = Estimate(float(best["F"]), p=p, p_kind="p-value, Bonferroni")
    words = {"factor": best["factor"]}
    return replace(result, quantities={STRONGEST: f}, rows={"factors": tests}, words=words)


def estimate_other_factors(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """F of every factor but the corpus, of rows with one a recipe."""
    return _collect_tests(evaluate_factors(outcomes["log_gain"], rows, FACTORS))


def estimate_every_factor(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """F of the corpus over recipes that are in every corpus, and of every factor over means of
    recipes."""
    numbered = rows.assign(place=np.arange(len(rows)))
    places = numbered.pivot(index="recipe", columns="trained_on", values="place")
    there = places.notna().to_numpy()
    indices = places.fillna(0).to_numpy(np.int64)
    y = outcomes["log_gain"][:, indices]
    sums = np.where(there, y, 0.0).sum(axis=2)
    means = sums / there.sum(axis=1)
    recipes = rows.drop_duplicates("recipe").set_index("recipe")
    recipes = recipes.loc[places.index]
    complete = there.all(axis=1)
    of_corpus = (CORPUS, *run_hotelling(y[:, complete]))
    return _collect_tests([of_corpus, *evaluate_factors(means, recipes, FACTORS)])


def _collect_tests(tests: list[tuple[str, Any, int, int, Any]]) -> dict[str, Any]:
    lacking = [name for name, *_, p in tests if np.isnan(p).any()]
    if lacking:
        raise UsageError("a factor without a test", got=", ".join(lacking))
    rows = []
    for _, f, df, rest, p in tests:
        size = len(f)
        none = np.full(size, np.nan)
        row = {
            "F": Many(f, none, none, p),
            "df": wrap_counts(np.full(size, df)),
            "df_error": wrap_counts(np.full(size, rest)),
        }
        rows.append(row)
    return {"factors": rows}


OTHER_FACTORS = Test(
    estimate_other_factors, ("log_gain",), describe=partial(describe_strongest, [*FACTORS])
)
"""Everything in which recipes differ but the corpus, of rows with one a recipe."""
EVERY_FACTOR = Test(
    estimate_every_factor, ("log_gain",), describe=partial(describe_strongest, [CORPUS, *FACTORS])
)
"""The corpus, which every recipe has in turn, and all else in which recipes differ."""


def add_headline(result: Result, rows: pd.DataFrame, table: pd.DataFrame) -> Result:
    """A result headed by its factor's ratio in a table of contrasts, which it shows."""
    by_factor = table.set_index("factor")
    row = by_factor.loc[result.words["factor"]]
    interval = f"95% t interval, recipes as the unit, Bonferroni over {len(table)} factors"
    ends = {"value": row["ratio"], "lower": row["lower"], "upper": row["upper"]}
    ratio = replace(result.quantities[STRONGEST], interval=interval, **ends)
    factor = FACTORS_IN_WORDS.get(str(row.name), row.name)
    words = {
        "factor": factor,
        "what": row["what"],
        "of_variance": row["share"],
        "tests": len(table),
    }
    named = table.assign(factor=table["factor"].replace(FACTORS_IN_WORDS))
    return replace(
        result,
        quantities={RATIO: ratio, **result.quantities},
        n_models=int(rows["n"].sum()),
        table=table,
        words=words,
        draw=prepare_ratio_figure(named),
    )


def prepare_ratio_figure(table: pd.DataFrame) -> Callable[..., None]:
    """Figure of the ratios of a table."""
    contrasts = table["factor"] + ": " + table["what"]
    named = table.assign(row=contrasts)
    xlabel = "ratio of geometric mean gains"
    return prepare_drawing(
        draw_forest, named, label="row", estimate="ratio", null=1.0, xlabel=xlabel, log="x"
    )


THROUGH_SPECTRA = "effect through the spectra"
STUDIES = 50
"""Studies whose recipes are left out at once."""


def build_ratio_test(name: str) -> Test:
    """A ratio, or what corpora have in common, with its interval; the same without each corpus that
    has language. Of one study all three, headed by that one."""

    def estimate(
        rows: pd.DataFrame, outcomes: Mapping[str, Any], names: Sequence[str] = (name,)
    ) -> dict[str, Any]:
        language = (rows["trained_on"] != CONTROL).to_numpy()
        chosen_rows = rows[language].reset_index(drop=True)
        gains = outcomes["log_gain"][:, language]
        y, x = stack_gains(chosen_rows, {"log_gain": gains})
        corpora = np.arange(y.shape[1])
        chosen = [corpora, *(np.delete(corpora, corpus) for corpus in corpora)]

        def estimate_each(rows: NDArray[np.int64]) -> dict[str, Many]:
            estimates = {}
            for each in names:
                part = partial(_estimate_ratio, each, x)
                law = _find_law(each, y.shape[2])
                estimates[NAMES[each]] = _run_parts(part, y[:, rows], law)
            return estimates

        whole, *left = map(estimate_each, chosen)
        return {**whole, LEFT: [keep_estimates(without) for without in left]}

    def describe(rows: pd.DataFrame, result: Result) -> Result:
        corpora = build_table(select_language_models(rows))[2]
        left = result.rows[LEFT].copy()
        choices = [f"without {IN_WORDS.get(corpus, corpus)}" for corpus in corpora]
        left.insert(0, "choice", choices)
        return replace(result, estimate=NAMES[name], rows={LEFT: left})

    return Test(
        estimate, ("log_gain",), INTERVAL, describe=describe, finely={"names": tuple(NAMES)}
    )


def keep_estimates(estimates: Mapping[str, Many]) -> dict[str, Many]:
    """The same without intervals."""
    return {name: wrap_counts(at.estimate) for name, at in estimates.items()}


def _estimate_ratio(name: str, x: Array, y: Array) -> Array:
    """Estimate and ends of its interval, (3, study)."""
    ratios = estimate_ratios(y, x) if name == ALIKE else estimate_mean_ratios(y, x)[0]
    at = ratios[name]
    return np.stack([at.estimate, at.lower, at.upper])


def _find_law(name: str, recipes: int) -> IntervalLaw:
    """The law of its interval: t by a jackknife over recipes, of ratios of their log."""
    return StudentLaw(recipes - 1, scale="" if name == ALIKE else "log")


def _run_parts(of: Callable[[Array], Array], y: Array, law: IntervalLaw) -> Many:
    parts = []
    for start in range(0, len(y), STUDIES):
        outcomes = y[start : start + STUDIES]
        parts.append(of(outcomes))
    estimate, lower, upper = np.concatenate(parts, axis=1)
    none = np.full(len(y), np.nan)
    return Many(estimate, lower, upper, none, law)


def estimate_effect(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Effect of √(rate/decay) through the spectra with its jackknife interval; it is linear in the
    gains."""
    codes, names = pd.factorize(rows["recipe"], sort=True)
    masks = [np.ones(len(rows), dtype=bool), *(codes != code for code in range(len(names)))]
    effects = []
    for mask in masks:
        gains = outcomes["log_gain"][:, mask]
        weights = _weigh_outcomes(rows[mask])
        effects.append(gains @ weights)
    effect, *without = effects
    half = measure_half_width(np.stack(without))
    law = StudentLaw(len(names) - 1)
    none = np.full(half.shape, np.nan)
    ends = (effect, effect - half, effect + half)
    return {THROUGH_SPECTRA: Many(*ends, none, law)}


def _weigh_outcomes(rows: pd.DataFrame) -> Array:
    """Weights of log gains in the effect c − c' of `third.estimate_mediation`."""
    controls = encode_levels(rows, "optimiser", ["synthetic"])
    explained = controls @ np.linalg.pinv(controls)
    off = np.eye(len(rows)) - explained
    x = off @ rows["log_ratio"].to_numpy(float)
    m = off @ rows["log_norm"].to_numpy(float)
    first = x @ m / (x @ x)
    error = m - first * x
    weights = first * off @ error
    return np.asarray(weights / (error @ error))


def describe_effect(rows: pd.DataFrame, result: Result) -> Result:
    """With how far errors of spectrum and gain must go together for the effect to be nothing."""
    return result.adding(words={"vanishes": estimate_mediation(rows)[1]})


MEDIATION = Test(
    estimate_effect, ("log_gain",), "95% jackknife t interval", describe=describe_effect
)
