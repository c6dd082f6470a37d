"""Blocks of models' gains: a basis of unit expected variance for every block, and orders of what blocks contribute.

A block b contributes f_b (one value per model, in log gain), with E[Σ_i f_b,i² / M] = 1 before it is scaled. Blocks of
groups are exchangeable effects, centred over models, c·(u_lab(i) − mean), c² = 1/(1 − Σ_j (n_j/M)²); blocks of columns
are √(M/r)·Q z with Q an orthonormal basis of rank r of the centred columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array

Integers = NDArray[np.int64]
ORDER = "heritage > geometry > scale"
TOGETHER = "geometry and scale"
"""Both as one block: `sd_geometry_and_scale` is the spread of the sum of what they contribute."""
OWN = "model"
"""What is left to the single model."""
FAMILY, LINEAGE = "family", "lineage"
"""Families within labs are a block of their own, neither heritage nor residual; lineage is lab and family together."""


def group_basis(codes: Integers, shares: Array) -> Array:
    """Centred indicators of groups, M × groups, scaled to unit expected variance; `shares`: of every group's models."""
    indicators = np.eye(shares.size)[codes]
    return np.asarray((indicators - shares) / np.sqrt(1 - np.square(shares).sum()))


def scaled_map(columns: Array) -> Array:
    """A, columns × rank r, with (x − mean)A = √(M/r)·Q, Q orthonormal; rank 0 where nothing varies."""
    centred = columns - columns.mean(axis=0)
    norms = np.linalg.norm(centred, axis=0)
    varied = norms > 1e-9 * (1 + np.abs(columns).max(initial=0.0))
    if not varied.any():
        return np.empty((columns.shape[1], 0))
    _, s, right = np.linalg.svd(centred[:, varied] / norms[varied], full_matrices=False)
    rank = int((s > 1e-8 * s[0]).sum())
    by = np.zeros((columns.shape[1], rank))
    by[varied] = right[:rank].T / s[:rank] / norms[varied][:, None]
    q = centred @ by
    signs = np.sign(q[np.abs(q).argmax(axis=0), np.arange(rank)])
    return np.asarray(by * signs * np.sqrt(len(columns) / rank))


def residual(columns: Array, adjusted: Array) -> Array:
    """What least squares on `adjusted` leaves of the columns."""
    return np.asarray(columns - adjusted @ np.linalg.lstsq(adjusted, columns, rcond=None)[0])


def block_sds(contributions: Mapping[str, Array]) -> dict[str, Array]:
    """`sd_<block>`: finite-population standard deviation √(Σ_i (f_i − mean f)²/M) over the last axis, of every block.

    Gelman 2005, AOS 33(1).
    """
    return {f"sd_{name}": np.asarray(part.std(axis=-1)) for name, part in contributions.items()}


def columns_once(
    blocks: Mapping[str, Sequence[str]], call: Callable[[dict[str, list[str]]], str], outcome: str = ""
) -> None:
    """UsageError where a column stands in two blocks, twice in one, or is the outcome: it would belong to neither.

    `call`: the line that works, from blocks that hold each column once.
    """
    places: dict[str, list[str]] = {outcome: ["the outcome"]} if outcome else {}
    for name, columns in blocks.items():
        for column in columns:
            places.setdefault(column, []).append(name)
    last = {column: named[-1] for column, named in places.items() if column != outcome}
    once = {name: [c for c in dict.fromkeys(columns) if last.get(c) == name] for name, columns in blocks.items()}
    for column, named in places.items():
        if len(named) > 1:
            raise UsageError(
                "a column stands in two blocks" if len(set(named)) > 1 else "a column is named twice in a block",
                where=column,
                got=" and ".join(dict.fromkeys(named)),
                allowed="each column once",
                next_step=call({name: columns for name, columns in once.items() if columns}),
            )


def orders_of(blocks: Sequence[str]) -> tuple[str, ...]:
    """Orders that are asked about: of neighbours, of all, and of all with the lineage in the place of the lab."""
    causes = [name for name in blocks if name != FAMILY]
    orders = [" > ".join(pair) for pair in pairwise(causes)]
    orders += [" > ".join(causes)] * (len(causes) > 2)
    if FAMILY in blocks and len(causes) > 1:
        orders.append(" > ".join([LINEAGE, *causes[1:]]))
    return tuple(orders)


def asked_of(blocks: Sequence[str]) -> tuple[str, ...]:
    """What a fit is asked first: the first block above geometry and scale together, the order of all, then the rest."""
    orders, causes = orders_of(blocks), [name for name in blocks if name != FAMILY]
    joint = [f"{causes[0]} > {TOGETHER}"] if {"geometry", "scale"} <= set(causes[1:]) else []
    return tuple(dict.fromkeys([*joint, *[" > ".join(causes)] * (len(causes) > 1), *orders]))


def in_order(order: str, drawn: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Draws whose standard deviations `sd_<block>` come in an order such as `heritage > geometry and scale`."""
    named = [drawn[f"sd_{name.replace(' ', '_')}"] for name in order.split(" > ")]
    return np.asarray(np.logical_and.reduce([a > b for a, b in pairwise(named)]))


def bayes_factor(posterior: float, prior: float) -> float:
    """Posterior odds over prior odds of an order; infinite where every draw obeys it."""
    return np.inf if posterior >= 1 else posterior / (1 - posterior) / (prior / (1 - prior))
