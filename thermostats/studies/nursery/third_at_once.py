"""Tests of the third study, of many studies of one design at once: what its single tests give, an array a number.

Each takes rows and outcomes (study × row) as `modelling.classical.many` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.many import AtOnce, Many, counted, means
from thermostats.modelling.columns import LEVEL
from thermostats.modelling.draws import Array
from thermostats.studies.nursery.crossed import ALIKE, coded, lines, mean_ratios, ratios, table
from thermostats.studies.nursery.study_rows import half_width
from thermostats.studies.nursery.third import CONTROL, FACTORS, LEFT, NAMES, TERMS, hotelling, of_factors
from thermostats.studies.nursery.training_choices import (
    CORPORA,
    DECAY,
    LEAST_GROUPS,
    NEARLY_ONE,
    RARE,
    RATE,
    R,
    ranked_in,
)

STUDIES = 50
"""Studies whose recipes are left out at once."""
Outcomes = Mapping[str, Any]


def gains(rows: pd.DataFrame, outcomes: Outcomes) -> tuple[Array, Array]:
    """Log gains (study, corpora, recipes, shapes), and logs of shapes, as `crossed.table` has them of one."""
    places, x, _ = table(rows.assign(log_gain=np.arange(len(rows))))
    return outcomes["log_gain"][:, places.astype(np.int64)], x


def ratios_of(name: str) -> AtOnce:
    """A ratio, or what corpora have in common, with its interval; the same without each corpus that has language."""

    def at_once(rows: pd.DataFrame, outcomes: Outcomes) -> dict[str, Any]:
        language = (rows["trained_on"] != CONTROL).to_numpy()
        y, x = gains(rows[language].reset_index(drop=True), {"log_gain": outcomes["log_gain"][:, language]})
        corpora = np.arange(y.shape[1])
        chosen = [corpora, *(np.delete(corpora, corpus) for corpus in corpora)]
        whole, *left = (_in_parts(lambda part: _ratio(name, part, x), y[:, kept]) for kept in chosen)
        return {NAMES[name]: whole, LEFT: [{NAMES[name]: counted(each.estimate)} for each in left]}

    return at_once


def _ratio(name: str, y: Array, x: Array) -> Array:
    """Estimate and ends of its interval, (3, study)."""
    at = ratios(y, x)[name] if name == ALIKE else mean_ratios(y, x)[0][name]
    return np.stack([at.estimate, at.lower, at.upper])


def _in_parts(of: Callable[[Array], Array], y: Array) -> Many:
    parts = np.concatenate([of(y[at : at + STUDIES]) for at in range(0, len(y), STUDIES)], axis=1)
    estimate, lower, upper = parts
    return Many(estimate, lower, upper, np.full(len(y), np.nan))


def slopes_by_corpus(rows: pd.DataFrame, outcomes: Outcomes) -> dict[str, Any]:
    """Mean slope over recipes in every corpus, with its t interval and p."""
    coding, place = TERMS[rows["term"].iloc[0]]
    y, x = gains(rows, outcomes)
    every = lines(y, coded(x) if coding == "coded" else x - x.mean(axis=0))[0][..., place]
    return {"corpora": [{"slope": means(of_corpus)} for of_corpus in np.moveaxis(every, 1, 0)]}


def factors(rows: pd.DataFrame, outcomes: Outcomes) -> dict[str, Any]:
    """F of every factor, of rows with one a recipe."""
    return _of_tests(of_factors(outcomes["log_gain"], rows, FACTORS))


def factors_and_corpus(rows: pd.DataFrame, outcomes: Outcomes) -> dict[str, Any]:
    """F of the corpus, and of every factor over means of recipes, which are in every corpus."""
    places = rows.assign(place=np.arange(len(rows))).pivot(index="recipe", columns="trained_on", values="place")
    y = outcomes["log_gain"][:, places.dropna().to_numpy(np.int64)]
    recipes = rows.drop_duplicates("recipe").set_index("recipe").loc[places.index]
    if len(y[0]) < len(recipes):
        raise UsageError("recipes that are not in every corpus", got=len(recipes) - len(y[0]), allowed="none")
    return _of_tests([("corpus", *hotelling(y)), *of_factors(y.mean(axis=2), recipes, FACTORS)])


def _of_tests(tests: list[tuple[str, Any, int, int, Any]]) -> dict[str, Any]:
    if np.isnan([p for *_, p in tests]).any():
        raise UsageError("a factor without a test", got=", ".join(name for name, *_, p in tests if np.isnan(p).any()))
    none = np.full(len(tests[0][1]), np.nan)
    return {"factors": [{"F": Many(f, none, none, p)} for _, f, _, _, p in tests]}


def settled(rows: pd.DataFrame, outcomes: Outcomes) -> dict[str, Any]:
    """Correlation of `early` with `end` inside cells of every corpus, and how many models end on the rarer side."""
    up = (outcomes["end"] > 0).sum(axis=1)
    parts = rows.assign(place=np.arange(len(rows))).groupby("trained_on", sort=True)
    each = [{R.name: _within_cells(own, outcomes["end"][:, own["place"]])} for _, own in parts]
    return {RARE.name: counted(np.minimum(up, len(rows) - up)), CORPORA: each}


def _within_cells(rows: pd.DataFrame, end: Array) -> Many:
    """`training_choices.within_cells` of every row of `end`."""
    (cell, cells), (group, groups) = (pd.factorize(rows[name]) for name in ("cell", "recipe"))
    if len(groups) < LEAST_GROUPS:
        raise UsageError("nothing to correlate inside cells", got=f"{len(rows)} rows, {len(groups)} groups")
    of_cell = (cell[:, None] == np.arange(len(cells))).astype(np.float64)
    of_group = (group[:, None] == np.arange(len(groups))).astype(np.float64)
    kept = np.vstack([np.ones(len(rows)), 1 - of_group.T])
    size = np.maximum(kept @ of_cell, 1)
    a, b = ranked_in(rows["early"], rows["cell"]), stats.rankdata(end, axis=1)
    b = b - ((b @ of_cell) / of_cell.sum(axis=0))[:, cell]

    def summed(values: Array) -> Array:
        """Sums by cell without each group, study × (whole, groups) × cell."""
        return np.asarray(np.einsum("kr,sr,rc->skc", kept, values, of_cell, optimize=True))

    a1, b1 = summed(a[None]), summed(b)
    pairs = ((a[None] * a, a1, a1), (b * b, b1, b1), (a * b, a1, b1))
    aa, bb, ab = ((summed(uv) - u * v / size).sum(axis=2) for uv, u, v in pairs)
    z = np.arctanh(np.clip(ab / np.sqrt(aa * bb), -NEARLY_ONE, NEARLY_ONE)).T
    half, df = half_width(z[1:]), len(z) - 2
    p = 2 * stats.t.sf(np.abs(z[0]) / np.maximum(half / stats.t.ppf(0.975, df), 1e-300), df)
    return Many(np.tanh(z[0]), np.tanh(z[0] - half), np.tanh(z[0] + half), p)


def exponents(rows: pd.DataFrame, outcomes: Outcomes) -> dict[str, Any]:
    """Exponents of rate and decay, as `training_choices.exponents` has them of one study."""
    rate, decay = (
        _slope(rows, outcomes["spectrum"], term, other)
        for term, other in (("log_rate", "log_decay"), ("log_decay", "log_rate"))
    )
    return {RATE: rate, DECAY: replace(decay, estimate=-decay.estimate, lower=-decay.upper, upper=-decay.lower)}


def _slope(rows: pd.DataFrame, y: Array, term: str, other: str) -> Many:
    """`study_rows.slope_within` of every row of `y`, given optimiser and corpus."""
    given = np.column_stack([pd.get_dummies(rows["optimiser"]), rows[[other, "synthetic"]]]).astype(np.float64)
    off = np.eye(len(rows)) - given @ np.linalg.pinv(given)
    x, df = off @ rows[term].to_numpy(np.float64), len(rows) - int(np.linalg.matrix_rank(given)) - 1
    slope = y @ x / (x @ x)
    error = np.sqrt(np.square(y @ off - slope[:, None] * x).sum(axis=1) / df / (x @ x))
    half = stats.t.ppf((1 + LEVEL) / 2, df) * error
    return Many(slope, slope - half, slope + half, 2 * stats.t.sf(np.abs(slope) / error, df))


def mediation(rows: pd.DataFrame, outcomes: Outcomes, quantity: str) -> dict[str, Any]:
    """Effect of √(rate/decay) through the spectra with its jackknife interval; it is linear in the gains."""
    codes, names = pd.factorize(rows["recipe"], sort=True)
    kept = [np.ones(len(rows), dtype=bool), *(codes != code for code in range(len(names)))]
    effects = np.stack([outcomes["log_gain"][:, mask] @ _through(rows[mask]) for mask in kept])
    half = half_width(effects[1:])
    return {quantity: Many(effects[0], effects[0] - half, effects[0] + half, np.full(half.shape, np.nan))}


def _through(rows: pd.DataFrame) -> Array:
    """Weights of log gains in the effect c − c' of `third.mediated`."""
    controls = np.column_stack([pd.get_dummies(rows["optimiser"]), rows["synthetic"]]).astype(np.float64)
    off = np.eye(len(rows)) - controls @ np.linalg.pinv(controls)
    x, m = off @ rows["log_ratio"].to_numpy(np.float64), off @ rows["log_norm"].to_numpy(np.float64)
    first = x @ m / (x @ x)
    error = m - first * x
    return np.asarray(first * off @ error / (error @ error))
