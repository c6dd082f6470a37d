"""From a table of gains to the arrays of the heritage model: observations, and a basis for every block.

A block b contributes f_b (one value per model, in log gain), with E[Σ_i f_b,i² / M] = 1 before it is scaled. Grouping
blocks are exchangeable effects, centred over models, c·(u_lab(i) − mean), c² = 1/(1 − Σ_j (n_j/M)²); blocks of
covariates are √(M/r)·Q z with Q an orthonormal basis of rank r of the centred columns.

Heritage is the effect of the lab. Families within labs, where they are stated, are a separate block, always pooled, and
neither heritage nor residual; lineage is both together. If no lab has two families, or no family two models, a
warning says what cannot be separated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import at_position, columns_of, labels, named
from thermostats.modelling.heritage.averages import Averages
from thermostats.modelling.heritage.rows import GEOMETRY, SCALE, observations
from thermostats.modelling.heritage.study import CAUSES
from thermostats.modelling.inference.checks import SURE
from thermostats.modelling.inference.draws import Array

Integers = NDArray[np.int64]
BLOCKS = (*CAUSES, "model")
"""The last is what is left to the single model; where families are stated theirs comes before it."""
FAMILY = "family"
INTERACTION = "lab × geometry"
EFFECTS = {"heritage": "u", "geometry": "b_geometry", "scale": "b_scale", FAMILY: "v", INTERACTION: "b_lab_geometry"}
"""Names of the blocks' standardised effects among the draws."""
ORDER = "heritage > geometry > scale"
LINEAGE_ORDER = "lineage > geometry > scale"
"""Of lab and family together, in the place of the lab."""
ORDERS = ("heritage > geometry", "geometry > scale", ORDER)
SMALL_STUDY, LARGE_STUDY = 10, 300
NOBODY: Integers = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Design:
    """What the heritage model is fitted to; arrays have one entry per model unless they say otherwise."""

    estimand: str
    models: tuple[str, ...]
    labs: tuple[str, ...]
    """Names of labs, in the order of `lab`."""
    lab: Integers
    families: tuple[str, ...]
    """Names of families within labs, in the order of `family`; none where they are not stated."""
    family: Integers
    """One entry per model, or none."""
    sources: tuple[str, ...]
    """Files or measurements that the rows come from."""
    geometry: Array
    """M × rank, scaled as `scaled_basis` does."""
    scale: Array
    categories: tuple[str, ...]
    y: Array
    """Per prompt row: log gain."""
    y_model: Integers
    y_category: Integers
    prompted: Integers
    """Models that have prompt rows."""
    average: Array
    """Per model that has no prompt rows: mean log gain."""
    average_variance: Array
    """Of the log gain over prompts, divisor n − 1."""
    average_n: Array
    """Prompts."""
    average_model: Integers
    warnings: tuple[str, ...]
    interaction: bool = False
    """Every lab has slopes of geometry of its own: a block too."""

    @property
    def n_models(self) -> int:
        """Number of models, M."""
        return len(self.models)

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks in the order of their shares."""
        return (*self.bases(), BLOCKS[-1])

    @property
    def orders(self) -> tuple[str, ...]:
        """Orders of the blocks that are asked about."""
        return (*ORDERS, LINEAGE_ORDER) if self.families else ORDERS

    def bases(self) -> dict[str, Array]:
        """Basis of every block but the single model's, M × columns, each of unit expected variance."""
        found = {"heritage": lab_basis(self.lab), "geometry": self.geometry, "scale": self.scale}
        found |= {FAMILY: lab_basis(self.family)} if self.families else {}
        if self.interaction:
            slopes = (lab_basis(self.lab)[:, :, None] * self.geometry[:, None, :]).reshape(self.n_models, -1)
            slopes = slopes - slopes.mean(axis=0)
            found[INTERACTION] = slopes * np.sqrt(self.n_models / np.square(slopes).sum())
        return found

    def lab_sizes(self) -> Integers:
        """Models per lab."""
        return np.bincount(self.lab, minlength=len(self.labs))

    def lab_means(self) -> Array:
        """M × labs: what values of models times this are means over the models of every lab."""
        return np.asarray(np.eye(len(self.labs))[self.lab] / self.lab_sizes()[self.lab][:, None])

    @cached_property
    def averages(self) -> Averages:
        """Mean log gain, spread over prompts and number of prompts of every model."""
        mean, sd, n = np.zeros(self.n_models), np.zeros(self.n_models), np.ones(self.n_models)
        at = self.average_model
        mean[at], sd[at], n[at] = self.average, np.sqrt(self.average_variance), self.average_n
        for i in np.unique(self.y_model):
            rows = self.y[self.y_model == i]
            mean[i], sd[i], n[i] = rows.mean(), rows.std(ddof=1) if rows.size > 1 else 0.0, rows.size
        return Averages(mean=mean, sd=sd, n=n)

    def means(self) -> tuple[Array, Array]:
        """Mean log gain of every model over its prompts and its standard error, spreads partially pooled."""
        return self.averages.mean, self.averages.error


def design(table: pd.DataFrame, estimand: str, *, blocks: Mapping[str, Sequence[str]] | None = None) -> Design:
    """Arrays of the heritage model from rows as `gain_rows` gives them.

    `blocks`: the columns of heritage (one, of names), geometry and scale (numbers, as they are); by default the lab and
    the logs of `GEOMETRY` and `SCALE`. Rows without a gain are left out and counted in `warnings`.

    Raises UsageError for gains that are not positive and finite, missing geometry, other blocks, models with two labs,
    fewer than 4 models, one lab, one model in every lab, a block without variation, a prompt twice in one model.
    """
    heritage, chosen = _chosen(blocks)
    columns_of(table, "model_id", heritage, *chosen["geometry"], *chosen["scale"], "gain")
    warnings: list[str] = []
    rows = table.assign(heritage=table[heritage]).dropna(subset="gain").reset_index(drop=True)
    if len(rows) < len(table):
        gone = set(table["model_id"].dropna()) - set(rows["model_id"])
        warnings.append(
            f"{len(table) - len(rows)} of {len(table)} rows have no gain and are left out"
            + (f", and with them {named(gone)}" if gone else "")
        )
    if rows.empty:
        raise UsageError("no row has a gain", where=estimand, got=f"{len(table)} rows", allowed="gains above 0")
    gain = rows["gain"].to_numpy(dtype=np.float64)
    bad = ~(np.isfinite(gain) & (gain > 0))
    if bad.any():
        raise UsageError(
            "a gain is not positive and finite",
            where=rows["model_id"].to_numpy()[bad][0],
            got=f"{gain[bad][0]:g} in {int(bad.sum())} of {gain.size} rows",
            allowed="gains above 0",
            next_step="look at these measurements; an overflow in half precision gives such values",
        )
    facts = _facts(rows, [*chosen["geometry"], *chosen["scale"]], positive=blocks is None)
    models, labs = tuple(facts.index), tuple(sorted(set(facts["heritage"])))
    lab = np.array([labs.index(name) for name in facts["heritage"]], dtype=np.int64)
    warnings += _sizes(models, labs, lab)
    families, family = _families(rows, facts, warnings) if heritage == "heritage" else ((), NOBODY)
    covariates = {
        name: _varied(facts[list(own)].to_numpy(np.float64), own, name, warnings, logs=blocks is None)
        for name, own in chosen.items()
    }
    bases = {name: scaled_basis(block) for name, block in covariates.items()}
    for name, block in covariates.items():
        if bases[name].shape[1] < block.shape[1]:
            warnings.append(f"{name} has rank {bases[name].shape[1]} of {block.shape[1]} columns")
    used = len(labs) + sum(basis.shape[1] for basis in bases.values())
    if used >= len(models):
        warnings.append(f"{len(models)} models for {used} effects: the shares depend strongly on the prior")
    return Design(
        estimand=at_position(estimand, rows),
        models=models,
        labs=labs,
        lab=lab,
        families=families,
        family=family,
        sources=tuple(sorted(set(rows["source"].dropna()))) if "source" in rows else (),
        geometry=bases["geometry"],
        scale=bases["scale"],
        **observations(rows, models, warnings),
        warnings=tuple(warnings),
    )


def _chosen(blocks: Mapping[str, Sequence[str]] | None) -> tuple[str, dict[str, Sequence[str]]]:
    """The column of heritage, and the columns of geometry and scale."""
    if blocks is None:
        return "heritage", {"geometry": GEOMETRY, "scale": SCALE}
    if set(blocks) != set(CAUSES) or not all(blocks.values()) or len(blocks["heritage"]) != 1:
        raise UsageError(
            "blocks that the heritage model does not have",
            got={name: list(own) for name, own in blocks.items()},
            allowed=f"{', '.join(CAUSES)}: one column of heritage, one or more of the others",
        )
    return blocks["heritage"][0], {name: blocks[name] for name in CAUSES[1:]}


def _facts(rows: pd.DataFrame, columns: Sequence[str], *, positive: bool) -> pd.DataFrame:
    facts = rows[["model_id", "heritage", *columns]].drop_duplicates()
    labels(facts["heritage"], "heritage")
    twice = facts["model_id"].duplicated()
    if twice.any():
        raise UsageError(
            "a model has two labs or two geometries", got=facts["model_id"][twice].iloc[0], allowed="one row of facts"
        )
    for column in columns:
        values = facts[column].to_numpy(dtype=np.float64, na_value=np.nan)
        bad = ~(np.isfinite(values) & (values > 0 if positive else True))
        if bad.any():
            raise UsageError(
                "missing geometry",
                where=column,
                got=", ".join(facts["model_id"].to_numpy()[bad][:5]),
                allowed=f"a number{' above 0' if positive else ''} for every model",
                next_step="fill in the table models, or leave these models out",
            )
    return facts.set_index("model_id").sort_index()


def _families(rows: pd.DataFrame, facts: pd.DataFrame, warnings: list[str]) -> tuple[tuple[str, ...], Integers]:
    """Families within labs and the family of every model, or nothing where they are not stated."""
    known = rows[["model_id", "family"]].replace("", None).dropna() if "family" in rows else rows.head(0)
    stated = known.drop_duplicates().set_index("model_id")["family"] if len(known) else pd.Series(dtype=object)
    if stated.empty or stated.index.duplicated().any():
        warnings.append("families are not stated, so each model is its own: they have no share")
        return (), NOBODY
    if lacking := set(facts.index) - set(stated.index):
        warnings.append("treated as a separate family, since none is stated: " + named(lacking))
    family = stated.reindex(facts.index)
    within = facts["heritage"].astype(str) + " / " + family.where(family.notna(), facts.index.to_series()).astype(str)
    names, codes = np.unique(within.to_numpy(dtype=str), return_inverse=True)
    if within.groupby(facts["heritage"]).nunique().max() < 2:
        warnings.append(
            "no lab has two families: effects of lab and family cannot be separated and are divided by the prior; "
            "their sum, the lineage, can be estimated"
        )
    if np.bincount(codes).max() < 2:
        warnings.append("no family has two models: effects of family and model cannot be separated")
    return tuple(map(str, names)), codes.astype(np.int64)


def _sizes(models: Sequence[str], labs: Sequence[str], lab: Integers) -> list[str]:
    if len(models) < 4:
        raise UsageError("too few models", got=len(models), allowed="4 or more")
    if len(labs) < 2:
        raise UsageError("one lab: its effect cannot be separated from the mean", got=labs[0], allowed="2 labs or more")
    sizes = np.bincount(lab)
    if sizes.max() == 1:
        raise UsageError(
            "every lab has one model: heritage cannot be separated from the residual between models",
            got=f"{len(labs)} labs",
            allowed="two models or more in at least one lab",
        )
    warnings = []
    if (sizes > 1).sum() < 2:
        warnings.append("only one lab has two models or more: heritage rests on the spread within that lab")
    if len(models) < SMALL_STUDY:
        warnings.append(f"{len(models)} models: shares stay close to their prior")
    if len(models) > LARGE_STUDY:
        warnings.append(f"{len(models)} models: sampling takes long; the closed form of the means is quicker")
    return warnings


def _varied(x: Array, columns: Sequence[str], block: str, warnings: list[str], *, logs: bool) -> Array:
    """Columns as they are, or their logs about their means; those that are the same in all models are left out."""
    x = np.log(x) if logs else x
    constant = np.ptp(x, axis=0) < 1e-12
    if constant.all():
        raise UsageError(
            "a block without variation",
            where=block,
            got=f"{', '.join(columns)} constant",
            allowed="one column that varies",
        )
    warnings += [
        f"{column} is the same in all models and left out" for column, c in zip(columns, constant, strict=True) if c
    ]
    varied = np.asarray(x[:, ~constant])
    return varied - varied.mean(axis=0) if logs else varied


def lab_basis(lab: Integers) -> Array:
    """Centred indicators of groups, M × groups, scaled to unit expected variance of exchangeable effects."""
    indicators = np.eye(int(lab.max()) + 1)[lab]
    shares = indicators.mean(axis=0)
    return np.asarray((indicators - shares) / np.sqrt(1 - np.square(shares).sum()))


def scaled_basis(columns: Array) -> Array:
    """√(M/r)·Q, Q an orthonormal basis of the centred, standardised columns; rank 0 for columns without variation."""
    centred = columns - columns.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    kept = norms > 1e-9 * (1 + np.abs(columns).max())
    if not kept.any():
        return np.empty((columns.shape[0], 0))
    u, s, _ = np.linalg.svd(centred[:, kept] / norms[kept], full_matrices=False)
    q = u[:, s > 1e-8 * s[0]]
    q = q * np.sign(q[np.abs(q).argmax(axis=0), np.arange(q.shape[1])])
    return np.ascontiguousarray(q * np.sqrt(columns.shape[0] / q.shape[1]))


def residual(columns: Array, given: Array) -> Array:
    """What least squares on `given` leaves of the columns."""
    return np.asarray(columns - given @ np.linalg.lstsq(given, columns, rcond=None)[0])


def block_sds(contributions: Mapping[str, Array]) -> dict[str, Array]:
    """`sd_<block>`: finite-population standard deviation √(Σ_i (f_i − mean f)²/M) over the last axis, of every block.

    Gelman 2005, AOS 33(1).
    """
    return {f"sd_{name}": np.asarray(part.std(axis=-1)) for name, part in contributions.items()}


def in_order(order: str, drawn: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Draws in which the blocks' standard deviations `sd_<block>` come in an order such as `heritage > scale`."""
    named = [drawn[f"sd_{name}"] for name in order.split(" > ")]
    return np.asarray(np.logical_and.reduce([a > b for a, b in pairwise(named)]))


def orders(drawn: Mapping[str, Array], asked: Sequence[str] = ORDERS) -> dict[str, float]:
    """Probabilities that the blocks' standard deviations come in these orders."""
    return {order: float(in_order(order, drawn).mean()) for order in asked}


def verdict(probability: float) -> str:
    """The decision rule for an order of blocks."""
    return "supported" if probability >= SURE else "not supported" if probability <= 1 - SURE else "inconclusive"


def bayes_factor(posterior: float, prior: float) -> float:
    """Posterior odds over prior odds of an order; infinite where every draw obeys it."""
    return np.inf if posterior >= 1 else posterior / (1 - posterior) / (prior / (1 - prior))
