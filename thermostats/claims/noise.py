"""Errors of simulated studies: their kinds, and what makes them unlike or alike along a column and
within groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.formatting import format_declared
from thermostats.modelling.classical.boxed import FEW, NOISY
from thermostats.modelling.nuisances import DECLARED, Bounds

Array = NDArray[Any]
Rng = np.random.Generator
Noise = Callable[[pd.DataFrame], Array]
"""Draws errors of variance 1, study × row."""
OUTLYING = 4.0
"""Standard deviations by which what is aberrant lies off."""
ERRORS: Mapping[str, str] = {
    "normal": "normal errors",
    "t3": "errors with the tails of t₃",
    "t4": "errors with the tails of t₄",
    "lognormal": "skewed (log-normal) errors",
    "heteroscedastic labs": "errors whose SD differs between labs (SD 0.7 of its log)",
    "small noisy labs": "errors three times as large in labs of one or two models",
    "one outlying lab": "normal errors, and one of the smallest labs four standard deviations off",
    "one aberrant model": "normal errors, and one model four standard deviations off",
}
LONG_TAILED, UPWARD, DOWNWARD = "long-tailed", "upward skewed", "downward skewed"
UNLIKE_LABS, UNLIKE_SOURCES = "unlike labs", "unlike sources"
UNLIKE_MODELS, ALIKE_IN_CELLS = "unlike models", "alike in cells"
ESTIMATED: Mapping[str, str] = {
    LONG_TAILED: "errors with the tails of t with {df} degrees of freedom",
    UPWARD: "log-normal errors of σ {up}",
    DOWNWARD: "log-normal errors of σ {down} whose long tail lies below",
    UNLIKE_LABS: "errors whose SD differs between labs (SD {labs} of its log)",
    UNLIKE_SOURCES: "errors whose SD differs between sources (SD {sources} of its log)",
    UNLIKE_MODELS: "errors whose SD differs between models (SD {labs} of its log)",
    ALIKE_IN_CELLS: "a share of {cells} of the errors' variance between a model's categories of "
    "prompts",
}
"""Kinds that go as far as residuals of the outcome allow (`Limits`)."""
INSTEAD = {
    "t3": (LONG_TAILED,),
    "t4": (),
    "lognormal": (UPWARD, DOWNWARD),
    "heteroscedastic labs": (UNLIKE_LABS,),
    "noisy models": (UNLIKE_MODELS,),
    "alike in categories": (ALIKE_IN_CELLS,),
}
"""Kinds of `ERRORS` and `BY_PROMPT` whose strength is declared, and those of `ESTIMATED` in their
place."""
ALONG = {
    "n_layers": "depth",
    "log_n": "size",
    "log_params": "size",
    "rho": "head density",
    "dense": "head density",
    "log_ratio": "ratio of norms",
    "log_norm": "norm",
    "place": "place in the order",
    "column": "value of what is asked about",
    "ranked": "early gain",
    "predicted": "predicted gain",
    "published": "value of the published curve",
    "log_L": "depth",
    "log_blocks": "depth",
    "log_rho": "head density",
    "log_rate": "rate",
    "log_embed": "scale of the embedding",
}
"""Columns along which errors differ, in words."""
AMONG = {
    "focal": "in the lab that the claim names",
    "apart": "in one recipe",
    "expander": "in models that expand",
    "cliche": "for clichés",
    "dampens": "in models that dampen",
    "x corpus": "in recipes of one corpus",
    "english": "in recipes of the English corpus",
}
"""Columns of truth values, by where they are true."""
IN_ONE_LAB = ("normal", "t3", "t4", "lognormal", "one aberrant model")
"""Kinds for models of one lab, where those of labs are others of these."""
BY_PROMPT: Mapping[str, str] = {
    "normal": "normal errors",
    "t3": "errors with the tails of t₃",
    "lognormal": "skewed (log-normal) errors",
    "noisy models": "errors whose SD differs between models (SD 0.7 of its log)",
    "alike in categories": "half of the errors' variance between a model's categories of prompts",
    "one aberrant "
    "prompt": "normal errors, and one prompt of one model four standard deviations off",
}
ALIKE = tuple(kind for kind in BY_PROMPT if kind != "alike in categories")
"""Kinds for prompts whose category is what is asked about."""
SHARED = 0.3
"""Share of the errors' variance that a prompt has in all models."""
HALF_OF_CELLS = 0.5
"""Share of the errors' variance between a model's categories, as it is declared."""
_AS_MODELS = {
    "noisy models": "heteroscedastic labs",
    UNLIKE_MODELS: UNLIKE_LABS,
    "one aberrant prompt": "one aberrant model",
}
"""Kinds of errors of prompts of models by the names of the same for models of labs."""


QUARTILE = 0.75


@dataclass(frozen=True)
class Random:
    """Random numbers of many studies of one design at once: every array begins with an axis of
    studies."""

    rng: Rng
    studies: int = 1

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        """Normal numbers."""
        return scale * self.rng.standard_normal((self.studies, *shape))

    def t(self, df: float, *shape: int) -> Array:
        """Of Student's t with variance 1, or where it has none with the quartiles of a normal; of
        infinite df normal ones."""
        if np.isinf(df):
            return self.normal(*shape)
        if df > 2:
            scale = ((df - 2) / df) ** 0.5
        else:
            scale = stats.norm.ppf(QUARTILE) / stats.t.ppf(QUARTILE, df)
        return np.asarray(self.rng.standard_t(df, (self.studies, *shape)) * scale)

    def uniform(self, *shape: int) -> Array:
        """Numbers between 0 and 1."""
        return self.rng.random((self.studies, *shape))

    def signs(self, *shape: int) -> Array:
        """−1 or 1."""
        return self.rng.choice([-1.0, 1.0], (self.studies, *shape))

    def levels(self, rows: pd.DataFrame, column: str) -> Array:
        """A normal level of every value of a column, one for each row."""
        codes = pd.factorize(rows[column])[0]
        return self.normal(codes.max() + 1)[:, codes]


@dataclass(frozen=True)
class Limits:
    """How far errors of one outcome may go: as its residuals allow, or as it is declared."""

    outcome: str = ""
    """Its name in `data/nuisances.csv`; empty: all is declared."""
    errors: Bounds = DECLARED
    """Those between labs have the SDs of labs as `spread`; of values by prompt `spread` is that of
    models, and `share` that between a model's categories."""
    sources: float = DECLARED.spread
    """SD of the logarithm of sources' SDs."""

    def widen(self) -> Limits:
        """Beyond them, as the hostile box is."""
        return replace(self, errors=self.errors.widen(), sources=2 * self.sources)

    def choose_kinds(self, kinds: tuple[str, ...], group: str) -> tuple[str, ...]:
        """Kinds of errors, those whose strength was estimated in the place of declared ones;
        group: the column of groups, of which sources may have SDs of their own."""
        if not self.outcome:
            return kinds
        chosen: list[str] = []
        for kind in kinds:
            chosen.extend(INSTEAD.get(kind, (kind,)))
        if group == "source":
            chosen.append(UNLIKE_SOURCES)
        down, up = self.errors.skew
        none = {UPWARD: up == 0, DOWNWARD: down == 0}
        return tuple(kind for kind in chosen if not none.get(kind, False))

    def describe(self, kind: str) -> str:
        """A kind of errors in words."""
        if kind not in ESTIMATED:
            return {**ERRORS, **BY_PROMPT}[kind]
        down, up = self.errors.skew
        numbers = {
            "df": 1 / self.errors.tails,
            "up": up,
            "down": -down,
            "labs": self.errors.spread,
            "cells": self.errors.share,
            "sources": self.sources,
        }
        shown = {}
        for name, value in numbers.items():
            shown[name] = format_declared(float(f"{value:.2g}"))
        return ESTIMATED[kind].format(**shown)


@dataclass(frozen=True)
class Errors:
    """Errors of models: a kind of `ERRORS` or `ESTIMATED`, and what else may be wrong with them.

    Along a column e_t = ar·e_(t−1) + √(1 − ar²)·e_t of independent errors e; then what labs and
    aberrant rows have by the kind; then √b·u + √(1 − b)·e with b = `between` and u of the row's
    group; then the standard deviation goes along the column from 1 to `ratio` times as much, by
    ranks. Levels of groups come after the chain: one lab that lies off is no trend along it.
    """

    kind: str = "normal"
    between: float = 0.0
    group: str = "heritage"
    along: str = ""
    ar: float = 0.0
    ratio: float = 1.0
    unlike: float = 0.0
    """Where it is not 0, levels u of groups have this ratio of SDs, not that of errors."""
    limits: Limits = Limits()

    def draw(self, rows: pd.DataFrame, random: Random) -> Array:
        """One error for each study and row."""
        return self._draw_parts(rows, random)[0]

    def draw_levels(self, rows: pd.DataFrame, random: Random) -> Array:
        """What all rows of a group have in common in the errors that the same random numbers give
        with `draw`."""
        return self._draw_parts(rows, random)[1]

    def _draw_parts(self, rows: pd.DataFrame, random: Random) -> tuple[Array, Array]:
        """Errors, and of these what groups have in common."""
        base = _draw_base(len(rows), self.kind, random, self.limits)
        chain = _build_chain(base, self._order_rows(rows), self.ar)
        off, levels = _draw_aberrant(rows, self.kind, random)
        drawn = chain * _draw_row_sds(rows, self.kind, random, self.limits) + off
        drawn = drawn + levels
        common = np.zeros((1, 1))
        if self.between:
            common = self.between**0.5 * random.levels(rows, self.group)
            levels = (1 - self.between) ** 0.5 * levels
            drawn = (1 - self.between) ** 0.5 * drawn
        if not self.along:
            return common + drawn, common + levels
        sds = _build_uneven_sds(rows, self.along, self.ratio)
        common = common * (_build_uneven_sds(rows, self.along, self.unlike) if self.unlike else sds)
        return common + drawn * sds, common + levels * sds

    @property
    def mean_square(self) -> float:
        """That of endless labs and sources: above 1 where these have log-normal SDs of their own.

        Single rows and labs that lie off, and small labs, whose errors are noise about what is
        true of the others, do not count.
        """
        spreads = {
            "heteroscedastic labs": DECLARED.spread,
            UNLIKE_LABS: self.limits.errors.spread,
            UNLIKE_SOURCES: self.limits.sources,
        }
        own = math.exp(2 * spreads.get(self.kind, 0.0) ** 2)
        return self.between + (1 - self.between) * own

    def _order_rows(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """Rows along the column; as they are where errors go along none."""
        if not self.along:
            return np.arange(len(rows))
        return np.argsort(rows[self.along].to_numpy(np.float64), kind="stable")

    @property
    def words(self) -> str:
        """What they are like."""
        parts = [self.kind_words]
        if self.between:
            groups = describe_groups(self.group)
            parts.append(f"{self.between:.0%} of their variance between {groups}")
        if self.ar:
            column = describe_column(self.along)
            ar = format_declared(self.ar)
            parts.append(f"correlated at {ar} between neighbours in {column}")
        parts += _describe_uneven(self.along, self.ratio)
        if self.unlike not in (0.0, 1.0):
            where = AMONG.get(self.along, f"at the largest {describe_column(self.along)}")
            times = format_declared(self.unlike)
            parts.append(f"{describe_groups(self.group)} {times} times as unlike {where}")
        return ", ".join(parts)

    @property
    def kind_words(self) -> str:
        """The kind in words."""
        return self.limits.describe(self.kind)


def _build_chain(errors: Array, order: NDArray[np.int64], ar: float) -> Array:
    """Independent errors made into a chain whose neighbours in an order are correlated at `ar`."""
    if not ar:
        return errors
    chain = errors.copy()
    for before, here in pairwise(order):
        fresh = (1 - ar**2) ** 0.5 * errors[:, here]
        chain[:, here] = ar * chain[:, before] + fresh
    return chain


@dataclass(frozen=True)
class PromptErrors:
    """Errors of values by prompt: √s·u + √(1 − s)·e with s = `shared`, u of the prompt, e of a kind
    of `BY_PROMPT`.

    Then their standard deviation goes along a column from 1 to `ratio` times as much, by ranks.
    """

    kind: str = "normal"
    shared: float = SHARED
    along: str = ""
    ratio: float = 1.0
    limits: Limits = Limits()

    def draw(self, rows: pd.DataFrame, random: Random) -> Array:
        """One error for each study and row."""
        kind = _AS_MODELS.get(self.kind, self.kind)
        single = _draw_errors(rows.assign(heritage=rows["model_id"]), kind, random, self.limits)
        if cells := self._share_cells():
            cell = rows["model_id"].astype(str) + " " + rows["category"].astype(str)
            levels = random.levels(rows.assign(cell=cell), "cell")
            single = (1 - cells) ** 0.5 * single + cells**0.5 * levels
        by_prompt = random.levels(rows, "prompt_id")
        shared = self.shared**0.5 * by_prompt
        drawn = np.asarray(shared + (1 - self.shared) ** 0.5 * single)
        return drawn * _build_uneven_sds(rows, self.along, self.ratio) if self.along else drawn

    @property
    def words(self) -> str:
        """What they are like."""
        parts = [self.kind_words]
        parts += [f"{self.shared:.0%} of their variance of prompts in all models"] * (
            self.shared != SHARED
        )
        return ", ".join([*parts, *_describe_uneven(self.along, self.ratio)])

    def _share_cells(self) -> float:
        """Share of the errors' variance between a model's categories of prompts."""
        known = {"alike in categories": HALF_OF_CELLS, ALIKE_IN_CELLS: self.limits.errors.share}
        return known.get(self.kind, 0.0)

    @property
    def kind_words(self) -> str:
        """The kind in words."""
        return BY_PROMPT.get(self.kind) or self.limits.describe(self.kind)


def describe_groups(column: str) -> str:
    """The groups that a column names, in words."""
    return {"heritage": "labs", "family": "families"}.get(column, f"{column}s")


def _build_uneven_sds(rows: pd.DataFrame, along: str, ratio: float) -> Array:
    """Standard deviations from 1 to `ratio` times as much along a column, by ranks; of mean square
    1."""
    rank = rows[along].rank().to_numpy(np.float64)
    scale = ratio ** ((rank - rank.min()) / max(np.ptp(rank), 1.0))
    return np.asarray(scale / np.sqrt(np.square(scale).mean()))


def _describe_uneven(along: str, ratio: float) -> list[str]:
    where = AMONG.get(along, f"at the largest {describe_column(along)}")
    return [f"SD {format_declared(ratio)} times as large {where}"] * (ratio != 1)


def describe_column(name: str) -> str:
    """A column along which errors differ, in words."""
    return ALONG.get(name, name.replace("_", " "))


def _draw_errors(rows: pd.DataFrame, kind: str, random: Random, limits: Limits) -> Array:
    """Errors with variance 1 but for what is aberrant."""
    drawn = _draw_base(len(rows), kind, random, limits)
    off, levels = _draw_aberrant(rows, kind, random)
    return drawn * _draw_row_sds(rows, kind, random, limits) + off + levels


def _draw_row_sds(rows: pd.DataFrame, kind: str, random: Random, limits: Limits) -> Array:
    """How many times as large errors of each row are."""
    if kind == UNLIKE_LABS:
        return _draw_group_sds(rows["heritage"], limits.errors.spread, random)
    if kind == UNLIKE_SOURCES:
        return _draw_group_sds(rows["source"], limits.sources, random)
    return _draw_lab_sds(rows, kind, random)


def _draw_base(n: int, kind: str, random: Random, limits: Limits) -> Array:
    """Independent errors of n rows, of variance 1; normal where a kind is about labs or single
    rows."""
    if kind in {"t3", "t4"}:
        return random.t(int(kind[1]), n)
    if kind == LONG_TAILED:
        return random.t(1 / limits.errors.tails, n)
    if kind == UPWARD:
        return _draw_skewed(limits.errors.skew[1], n, random)
    if kind == DOWNWARD:
        return -_draw_skewed(-limits.errors.skew[0], n, random)
    if kind == "lognormal":
        return _draw_skewed(1.0, n, random)
    return random.normal(n)


def _draw_skewed(sigma: float, n: int, random: Random) -> Array:
    """Log-normal errors of mean 0 and variance 1."""
    square = np.exp(sigma**2)
    drawn = np.exp(random.normal(n, scale=sigma)) - square**0.5
    return np.asarray(drawn / (square * (square - 1)) ** 0.5)


def _draw_group_sds(groups: pd.Series, spread: float, random: Random) -> Array:
    """Log-normal SDs of groups, one for each row."""
    codes = pd.factorize(groups)[0]
    sds = np.exp(random.normal(int(codes.max()) + 1, scale=spread))
    return np.asarray(sds[:, codes])


def _draw_lab_sds(rows: pd.DataFrame, kind: str, random: Random) -> Array:
    """How many times as large errors are in the lab of each row."""
    lab = pd.factorize(rows["heritage"])[0]
    sizes = np.bincount(lab)
    if kind == "heteroscedastic labs":
        return _draw_group_sds(rows["heritage"], DECLARED.spread, random)
    if kind == "small noisy labs":
        return np.where(sizes[lab] <= FEW, NOISY, 1.0)[None]
    return np.ones((1, len(rows)))


def _draw_aberrant(rows: pd.DataFrame, kind: str, random: Random) -> tuple[Array, Array]:
    """How far one row of every study lies off, and how far a lab as a whole does."""
    n = len(rows)
    none = np.zeros((random.studies, n))
    if kind == "one outlying lab":
        lab = pd.factorize(rows["heritage"])[0]
        sizes = np.bincount(lab)
        smallest = np.flatnonzero(sizes == sizes.min())
        outlying = random.rng.choice(smallest, (random.studies, 1))
        return none, (lab == outlying) * OUTLYING * random.signs(1)
    if kind == "one aberrant model":
        one = none.copy()
        chosen = random.rng.integers(n, size=random.studies)
        one[np.arange(random.studies), chosen] = OUTLYING * random.signs()
        return one, none
    return none, none
