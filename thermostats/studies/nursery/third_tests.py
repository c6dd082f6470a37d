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
from thermostats.studies.nursery.study_rows import build_t_estimate, measure_half_width
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
    f = (
        n
        * np.einsum("...i,...ij,...j->...", mean, np.linalg.pinv(covariance), mean)
        * (n - df)
        / (df * (n - 1))
    )
    return f, df, n - df, stats.f.sf(f, df, n - df)


def measure_residual(y: Array, x: Array) -> tuple[Any, int]:
    """Residual sum of squares of least squares of y (…, units), and rank of the columns, the mean
    among them."""
    u, s, _ = np.linalg.svd(
        np.column_stack([np.ones(len(x)), x - x.mean(axis=0)]), full_matrices=False
    )
    u = u[:, s > s[0] * 1e-9]
    return np.square(y).sum(axis=-1) - np.square(y @ u).sum(axis=-1), u.shape[1]


def run_factor_tests(table: pd.DataFrame, factors: dict[str, str]) -> pd.DataFrame:
    """F of every factor alone over recipes: factor, F, df, df_error, p.

    table: one row per recipe; factors: column → `levels`, or `number`.
    """
    tests = evaluate_factors(table["log_gain"].to_numpy(np.float64), table, factors)
    return pd.DataFrame(tests, columns=COLUMNS_OF_TESTS)


def evaluate_factors(
    y: Array, table: pd.DataFrame, factors: dict[str, str]
) -> list[tuple[str, Any, int, int, Any]]:
    """The same of outcomes y (…, recipes), a row a factor."""
    (left, rank), tests = measure_residual(y, np.empty((len(table), 0))), []
    for name, kind in factors.items():
        squares, both = measure_residual(y, _build_columns(table, name, kind))
        df = both - rank
        rest = len(table) - both
        f = (left - squares) / df / (squares / rest) if df and rest else np.full_like(left, np.nan)
        tests.append((name, f, df, rest, stats.f.sf(f, df, rest)))
    return tests


def _build_columns(table: pd.DataFrame, name: str, kind: str) -> Array:
    columns = pd.get_dummies(table[name]) if kind == "levels" else table[[name]]
    return np.asarray(columns, dtype=np.float64)


def measure_contrasts(
    table: pd.DataFrame, factors: dict[str, str], *, among: int | None = None
) -> pd.DataFrame:
    """Of every factor alone, how far apart it sets the gain: more columns of `run_factor_tests`.

    `what` is compared, its highest level with its lowest, or one SD of a number; `ratio` of
    geometric mean gains; `lower` and `upper`, 95% t interval, Bonferroni over factors (`among` so
    many) and pairs of levels; `share` of the variance between recipes.
    """
    tests = run_factor_tests(table, factors)
    y = table["log_gain"].to_numpy(np.float64)
    rows = []
    for (name, kind), test in zip(factors.items(), tests.itertuples(), strict=True):
        columns = _build_columns(table, name, kind)
        x = np.column_stack(
            [np.ones(y.size), columns if kind == "levels" else columns / columns.std(ddof=1)]
        )
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
            contrast = np.eye(len(levels))[high] - np.eye(len(levels))[low]
            pairs = math.comb(len(levels), 2)
            what = f"{levels[high]} against {levels[low]}"
        contrast = np.append(0.0, contrast)
        variance = np.square(y - x @ slopes).sum() / test.df_error
        half = stats.t.isf((1 - LEVEL) / 2 / (among or len(factors)) / pairs, test.df_error)
        ends = contrast @ slopes + np.array([0, -1, 1]) * half * np.sqrt(
            variance * contrast @ inverse @ contrast
        )
        rows.append((what, *np.exp(ends), test.F * test.df / (test.F * test.df + test.df_error)))
    return tests.join(pd.DataFrame(rows, columns=["what", "ratio", "lower", "upper", "share"]))


def run_tests(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """F of every factor alone, of the corpus among them or not: columns of `run_factor_tests`."""
    others = run_factor_tests(combine_corpora(rows), FACTORS)
    if not corpus:
        return others
    of_corpus = pd.DataFrame(
        [(CORPUS, *run_hotelling(build_corpus_matrix(rows).to_numpy(np.float64)))],
        columns=others.columns,
    )
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
    half = stats.t.isf((1 - LEVEL) / 2 / among / pairs, len(each) - 1) * each.sem()
    ends = np.exp(each.mean() + half * np.array([0, -1, 1]))
    values = y.to_numpy(np.float64)
    share = np.square(values.mean(axis=0) - values.mean()).mean() / values.var()
    row = (*run_tests(rows, corpus=True).iloc[0], f"{high} against {low}", *ends, share)
    return pd.concat([pd.DataFrame([row], columns=others.columns), others], ignore_index=True)


def compare_each_corpus(rows: pd.DataFrame, factor: str) -> pd.DataFrame:
    """A factor's contrast in every corpus alone: corpus, and columns of `measure_contrasts`."""
    parts = []
    for corpus, group in rows.groupby("trained_on"):
        parts.append(measure_contrasts(group, {factor: FACTORS[factor]}).assign(corpus=corpus))
    return pd.concat(parts, ignore_index=True)


def drop_each_corpus(rows: pd.DataFrame) -> dict[str, float]:
    """p of the corpus without each corpus in turn."""
    y = build_corpus_matrix(rows)
    estimates: dict[str, float] = {}
    for name in y:
        estimates[str(name)] = run_hotelling(y.drop(columns=name).to_numpy(np.float64))[3]
    return estimates


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
    return Decide(
        (quantity.interval > bar) & Gate(Each(LEFT, quantity > bar)),
        (quantity.interval < bar) & Gate(Each(LEFT, quantity < bar)),
    )


def select_language_models(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of corpora that have language."""
    return rows[rows["trained_on"] != CONTROL]


def stack_gains(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> tuple[Array, Array]:
    """Log gains (study, corpora, recipes, shapes), and logs of shapes, as `crossed.table` has them
    of one."""
    places, x, _ = build_table(rows.assign(log_gain=np.arange(len(rows))))
    return outcomes["log_gain"][:, places.astype(np.int64)], x


def summarise_ratios(y: Array, x: Array) -> dict[str, Estimate]:
    """The ratios as means over corpora, and what recipes share in all, with intervals, by the names
    that pages use."""
    by_block = {**estimate_mean_ratios(y, x)[0], ALIKE: estimate_ratios(y, x)[ALIKE]}
    ratios: dict[str, Estimate] = {}
    for name, at in by_block.items():
        ratios[NAMES[name]] = Estimate(
            float(at.estimate), float(at.lower), float(at.upper), INTERVAL
        )
    return ratios


def estimate_prompt_sets(rows: pd.DataFrame) -> pd.DataFrame:
    """The estimates with all models on the prompts of one corpus, each in turn."""
    parts = []
    for corpus, column in ON.items():
        y, x, _ = build_table(select_language_models(rows), column)
        values = {}
        for name, at in summarise_ratios(y, x).items():
            values[name] = at.value
        parts.append({"choice": f"all on prompts of {IN_WORDS[corpus]}", **values})
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
    frames |= {
        words: rows.assign(log_gain=rows["model"].map(means[gain]))
        for words, gain in others.items()
    }
    parts = []
    for words, chosen in frames.items():
        y, x, _ = build_table(select_language_models(chosen))
        parts.append(
            {"choice": words, "recipes": y.shape[1], **_flatten_estimates(summarise_ratios(y, x))}
        )
    y, x, _ = build_table(rows)
    squares = {}
    for name, at in estimate_ratios(y, x).items():
        squares[NAMES[name]] = Estimate(at.estimate, at.lower, at.upper)
    for words, made in (
        ("shuffled English among the corpora", summarise_ratios(y, x)),
        (SQUARES, squares),
    ):
        parts.append({"choice": words, "recipes": y.shape[1], **_flatten_estimates(made)})
    return pd.DataFrame(parts)


def _flatten_estimates(estimates_of: Mapping[str, Estimate]) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {}
    for name, at in estimates_of.items():
        numbers |= {name: at.value, f"{name}_lower": at.lower, f"{name}_upper": at.upper}
    return numbers


def judge_ratio_choices(name: str, rows: pd.DataFrame) -> Result:
    """The ratios by the rule, on each set of prompts too; each corpus alone, the control among
    them."""
    result = build_ratio_test(name)(rows)
    choices = pd.concat([result.rows[LEFT], estimate_prompt_sets(rows)], ignore_index=True)
    words = {"choices": choices.to_dict("records"), "alone": estimate_corpora(rows)[name]}
    return replace(result, rows={LEFT: choices}).adding(words=words)


def estimate_corpora(rows: pd.DataFrame) -> dict[str, dict[str, Estimate]]:
    """Every ratio of each corpus alone, the control among them."""
    y, x, corpora = build_table(rows)
    ratios = {}
    for i, corpus in enumerate(corpora):
        ratios[IN_WORDS[corpus]] = summarise_ratios(y[[i]], x)
    estimates: dict[str, dict[str, Estimate]] = {}
    for name, words in NAMES.items():
        estimates[name] = {corpus: of[words] for corpus, of in ratios.items()}
    return estimates


def weigh_corpora(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """How much each corpus that has language counts in the mean of either ratio."""
    y, x, corpora = build_table(select_language_models(rows))
    by_ratio = estimate_mean_ratios(y, x)[1].T
    names = [IN_WORDS.get(corpus, corpus) for corpus in corpora]
    weights_by_ratio: dict[str, dict[str, float]] = {}
    for name, weights in zip((RECIPE, SHAPE), by_ratio, strict=True):
        weights_by_ratio[name] = dict(zip(names, weights, strict=True))
    return weights_by_ratio


def summarise_spreads(rows: pd.DataFrame) -> pd.DataFrame:
    """Standard deviations with 95% intervals, of all corpora and of each: of, block, estimate,
    lower, upper."""
    y, x, corpora = build_table(rows)
    every = {"all corpora": estimate_spreads(y, x)}
    for place, name in enumerate(corpora):
        every[IN_WORDS.get(name, name)] = estimate_spreads(y[[place]], x)
    records: list[dict[str, Any]] = []
    for of, spread in every.items():
        records += [{"of": of, "block": block} | vars(at) for block, at in spread.items()]
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
    return Decide((slope < 0) & (slope.p <= ALPHA), slope.lower > -SMALL)


IN_EVERY = EveryRow(build_slope_rule(V("slope")), "corpora")


def _simulate_falling(
    by: Mapping[str, float], rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    r = rows["trained_on"].map(by).to_numpy(np.float64)
    x = standardise_values(rows["column"].to_numpy(np.float64))
    levels = standardise_values(random.levels(rows, "recipe"))
    return {"log_gain": TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows) + BETWEEN**0.5 * levels)}


def build_slope_worlds(term: str) -> Worlds:
    """Log gains that fall with a term, the column `column`, at r = −0.5 in models of every corpus,
    of none, or of all but English."""
    at_rest = build_errors(term, ordered=False, group="recipe", measured="third_gain")
    falls, flat = (dict.fromkeys(CORPORA, r) for r in (-QUARTER, 0.0))
    others = {"all corpora but English": {**falls, "english": 0.0}}
    return build_family(
        _simulate_falling, "correlations {}", "log_gain", at_rest, falls, flat, others=others
    )


def estimate_slopes(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Mean slope over recipes in every corpus, with its t interval and p."""
    coding, place = TERMS[rows["term"].iloc[0]]
    y, x = stack_gains(rows, outcomes)
    every = fit_lines(y, encode_shapes(x) if coding == "coded" else x - x.mean(axis=0))[0][
        ..., place
    ]
    return {
        "corpora": [{"slope": estimate_means(of_corpus)} for of_corpus in np.moveaxis(every, 1, 0)]
    }


def describe_crossed(rows: pd.DataFrame, result: Result) -> Result:
    """With the mean of the corpora's slopes, and how far the steepest lies from the flattest.

    Its p is by Hotelling's T² that all corpora have one slope, its interval Bonferroni over their
    pairs.
    """
    by_corpus, corpora = fit_recipe_slopes(rows, rows["term"].iloc[0])
    every = by_corpus.mean(axis=0)
    mean = build_t_estimate(
        every.mean(), float(stats.sem(every)), len(every) - 1, "95% t interval, recipes as the unit"
    )
    each = by_corpus[by_corpus.mean(axis=1).argmax()] - by_corpus[by_corpus.mean(axis=1).argmin()]
    pairs = len(corpora) * (len(corpora) - 1) / 2
    half = float(stats.t.isf(0.025 / pairs, len(each) - 1) * stats.sem(each))
    middle = float(each.mean())
    p = run_hotelling(by_corpus.T)[3]
    words = "95% t interval, recipes as the unit, Bonferroni over pairs of corpora"
    apart = Estimate(middle, middle - half, middle + half, words, p)
    table = (
        result.rows["corpora"]
        .rename(columns={"p": "slope_p"})
        .assign(corpus=corpora, error=stats.sem(by_corpus, axis=1), df=by_corpus.shape[1] - 1)
    )
    corpora_rows = table[[*SLOPES, f"slope{OF_LAW}"]]
    return replace(result, quantities={MEAN: mean, APART: apart}, rows={"corpora": corpora_rows})


CROSSED_SLOPES = Test(estimate_slopes, ("log_gain",), describe=describe_crossed)


def estimate_other_terms(rows: pd.DataFrame) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Slopes by corpus on every other of the terms."""
    named = rows["term"].iloc[0]
    terms = {WORDS[term]: term for term in TERMS if term != named}
    other_terms: dict[str, dict[str, tuple[float, float, float]]] = {}
    for words, term in terms.items():
        other_terms[words] = describe_slopes(summarise_corpus_slopes(rows, term))
    return other_terms


def describe_slopes(table: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Slope with its interval by corpus, in words."""
    slopes: dict[str, tuple[float, float, float]] = {}
    for row in table.itertuples():
        slopes[IN_WORDS[row.corpus]] = (row.slope, row.slope_lower, row.slope_upper)
    return slopes


def judge_prompt_sets(rows: pd.DataFrame) -> dict[str, Result]:
    """Slopes with all models on the prompts of one corpus, each in turn."""
    prompt_sets: dict[str, Result] = {}
    for corpus, column in ON.items():
        prompt_sets[corpus] = CROSSED_SLOPES(rows.assign(log_gain=rows[column]))
    return prompt_sets


def show_corpus_slopes(rows: pd.DataFrame, on: str) -> Result:
    """`CROSSED_SLOPES` with its figure, table and words; on: what the slope is on, in
    words."""
    result = CROSSED_SLOPES(rows)
    table = result.rows["corpora"]
    slopes = describe_slopes(table)
    sets = judge_prompt_sets(rows)
    words = {
        "by": slopes,
        "doubled": {corpus: np.expm1(slope * np.log(2)) for corpus, (slope, *_) in slopes.items()},
        "others": estimate_other_terms(rows),
        "extent": describe_extent(rows),
        "on": {IN_WORDS[corpus]: IN_EVERY.verdict(each) for corpus, each in sets.items()},
    }
    every = pd.concat(
        {"own": table} | {name: each.rows["corpora"] for name, each in sets.items()},
        names=["prompts"],
    )
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
    tests = result.rows["factors"].astype(counts).assign(factor=names)[COLUMNS_OF_TESTS]
    best = tests.loc[tests["p"].idxmin()]
    f = Estimate(
        float(best["F"]), p=float(min(1.0, best["p"] * len(tests))), p_kind="p-value, Bonferroni"
    )
    return replace(
        result, quantities={STRONGEST: f}, rows={"factors": tests}, words={"factor": best["factor"]}
    )


def estimate_other_factors(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """F of every factor but the corpus, of rows with one a recipe."""
    return _collect_tests(evaluate_factors(outcomes["log_gain"], rows, FACTORS))


def estimate_every_factor(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """F of the corpus over recipes that are in every corpus, and of every factor over means of
    recipes."""
    places = rows.assign(place=np.arange(len(rows))).pivot(
        index="recipe", columns="trained_on", values="place"
    )
    there = places.notna().to_numpy()
    y = outcomes["log_gain"][:, places.fillna(0).to_numpy(np.int64)]
    means = np.where(there, y, 0.0).sum(axis=2) / there.sum(axis=1)
    recipes = rows.drop_duplicates("recipe").set_index("recipe").loc[places.index]
    of_corpus = (CORPUS, *run_hotelling(y[:, there.all(axis=1)]))
    return _collect_tests([of_corpus, *evaluate_factors(means, recipes, FACTORS)])


def _collect_tests(tests: list[tuple[str, Any, int, int, Any]]) -> dict[str, Any]:
    if np.isnan([p for *_, p in tests]).any():
        raise UsageError(
            "a factor without a test",
            got=", ".join(name for name, *_, p in tests if np.isnan(p).any()),
        )
    none = np.full(len(tests[0][1]), np.nan)
    rows = []
    for _, f, df, rest, p in tests:
        counts = {"df": np.full(len(f), df), "df_error": np.full(len(f), rest)}
        rows.append(
            {"F": Many(f, none, none, p), **{name: wrap_counts(n) for name, n in counts.items()}}
        )
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
    row = table.set_index("factor").loc[result.words["factor"]]
    interval = f"95% t interval, recipes as the unit, Bonferroni over {len(table)} factors"
    ends = {name: row[name] for name in ("lower", "upper")}
    ratio = replace(result.quantities[STRONGEST], value=row["ratio"], interval=interval, **ends)
    words = {
        "factor": FACTORS_IN_WORDS.get(str(row.name), row.name),
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
    named = table.assign(row=table["factor"] + ": " + table["what"])
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
        y, x = stack_gains(
            rows[language].reset_index(drop=True), {"log_gain": outcomes["log_gain"][:, language]}
        )
        corpora = np.arange(y.shape[1])
        chosen = [corpora, *(np.delete(corpora, corpus) for corpus in corpora)]

        def estimate_each(rows: NDArray[np.int64]) -> dict[str, Many]:
            parts = {each: partial(_estimate_ratio, each, x) for each in names}
            laws = {each: _find_law(each, y.shape[2]) for each in names}
            estimates: dict[str, Many] = {}
            for each, part in parts.items():
                estimates[NAMES[each]] = _run_parts(part, y[:, rows], laws[each])
            return estimates

        whole, *left = map(estimate_each, chosen)
        return {**whole, LEFT: [keep_estimates(without) for without in left]}

    def describe(rows: pd.DataFrame, result: Result) -> Result:
        corpora = build_table(select_language_models(rows))[2]
        left = result.rows[LEFT].copy()
        left.insert(0, "choice", [f"without {IN_WORDS.get(corpus, corpus)}" for corpus in corpora])
        return replace(result, estimate=NAMES[name], rows={LEFT: left})

    return Test(
        estimate, ("log_gain",), INTERVAL, describe=describe, finely={"names": tuple(NAMES)}
    )


def keep_estimates(estimates: Mapping[str, Many]) -> dict[str, Many]:
    """The same without intervals."""
    return {name: wrap_counts(at.estimate) for name, at in estimates.items()}


def _estimate_ratio(name: str, x: Array, y: Array) -> Array:
    """Estimate and ends of its interval, (3, study)."""
    at = estimate_ratios(y, x)[name] if name == ALIKE else estimate_mean_ratios(y, x)[0][name]
    return np.stack([at.estimate, at.lower, at.upper])


def _find_law(name: str, recipes: int) -> IntervalLaw:
    """The law of its interval: t by a jackknife over recipes, of ratios of their log."""
    return StudentLaw(recipes - 1, scale="" if name == ALIKE else "log")


def _run_parts(of: Callable[[Array], Array], y: Array, law: IntervalLaw) -> Many:
    parts = np.concatenate([of(y[at : at + STUDIES]) for at in range(0, len(y), STUDIES)], axis=1)
    estimate, lower, upper = parts
    return Many(estimate, lower, upper, np.full(len(y), np.nan), law)


def estimate_effect(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Effect of √(rate/decay) through the spectra with its jackknife interval; it is linear in the
    gains."""
    codes, names = pd.factorize(rows["recipe"], sort=True)
    masks = [np.ones(len(rows), dtype=bool), *(codes != code for code in range(len(names)))]
    effects = np.stack(
        [outcomes["log_gain"][:, mask] @ _weigh_outcomes(rows[mask]) for mask in masks]
    )
    half = measure_half_width(effects[1:])
    ends = (effects[0], effects[0] - half, effects[0] + half)
    law = StudentLaw(len(names) - 1)
    return {THROUGH_SPECTRA: Many(*ends, np.full(half.shape, np.nan), law)}


def _weigh_outcomes(rows: pd.DataFrame) -> Array:
    """Weights of log gains in the effect c − c' of `third.estimate_mediation`."""
    controls = np.column_stack([pd.get_dummies(rows["optimiser"]), rows["synthetic"]]).astype(
        np.float64
    )
    off = np.eye(len(rows)) - controls @ np.linalg.pinv(controls)
    x = off @ rows["log_ratio"].to_numpy(np.float64)
    m = off @ rows["log_norm"].to_numpy(np.float64)
    first = x @ m / (x @ x)
    error = m - first * x
    return np.asarray(first * off @ error / (error @ error))


def describe_effect(rows: pd.DataFrame, result: Result) -> Result:
    """With how far errors of spectrum and gain must go together for the effect to be nothing."""
    return result.adding(words={"vanishes": estimate_mediation(rows)[1]})


MEDIATION = Test(
    estimate_effect, ("log_gain",), "95% jackknife t interval", describe=describe_effect
)
