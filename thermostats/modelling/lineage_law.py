"""ȳ_i = α + Σ_b f_b,i + f_descent,i + f_i,model + error_i: rows of models on a tree, laid out for
the exact engine.

Descent is a block like any other, its basis the sources of drift (`lineage_processes`), centred
over models and scaled to unit expected variance. On a star of labs that is the block of labs of the
heritage model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling import laws
from thermostats.modelling.columns import columns_of
from thermostats.modelling.draws import Array, Statistic
from thermostats.modelling.gaussian import NUMBERS, Gaussian, Mixture, Shares, scales_of
from thermostats.modelling.heritage.law import (
    OWN,
    POPULATION_MEAN,
    block_sds,
    group_basis,
    scaled_map,
)
from thermostats.modelling.laws import LOG, Design, Regressors
from thermostats.modelling.tree_likelihood import (
    BROWNIAN,
    DESCENT,
    LEVELS,
    Pruning,
    Sources,
    columns_by_level,
    nodes_of,
    sources,
)
from thermostats.tables.tree import Tree

DENSE = 400
"""Models up to which covariances are held whole; beyond, what can is pruned."""


@dataclass(frozen=True, eq=False)
class Drift:
    """One block of descent: sources, which of them are its own, and how models' rows are centred,
    scaled and turned.

    Of its sources only the axes along which the models of the fit differ enter it; ancestors and
    new models have what is at right angles to these besides, of which the fit says nothing.
    """

    sources: Sources
    mask: Any
    mean: Array
    unit: float
    """Root mean square of a centred row: a drift of variance 1 at the top has 1/unit² of the
    block's."""
    axes: Array
    """Sources × axes, orthonormal."""

    @classmethod
    def of(cls, drift: Sources, rows: Array, mask: Any) -> Drift:
        """Centred over models and scaled so that the mean variance of their effects is 1."""
        of_model = rows[:, mask]
        mean = of_model.mean(axis=0)
        unit = float(np.sqrt(np.square(of_model - mean).sum(axis=1).mean()))
        return cls(drift, mask, mean, unit, _axes((of_model - mean) / unit))

    def scaled(self, rows: Array) -> Array:
        """Rows of sources, centred over the models of the fit and in units of the block."""
        return np.asarray((rows[:, self.mask] - self.mean) / self.unit)

    def rows_of(self, models: Sequence[str], rows: pd.DataFrame, of: NDArray[np.int64]) -> Array:
        """Basis of models: the axes and, where some are new, what lies besides and what is their
        own."""
        tree = self.sources.tree
        new = [name for name in models if name not in tree]
        if not new:
            held = self.sources.rows[[tree.place(name) for name in models]]
            return np.asarray(self.scaled(held) @ self.axes)
        columns_of(rows, "parent")
        parents = rows["parent"].astype(str).to_numpy()
        rows_found = []
        length = np.zeros((len(models), len(new)))
        for i, name in enumerate(models):
            if name in tree:
                rows_found.append(self.sources.rows[tree.place(name)])
                continue
            parent = parents[int(np.flatnonzero(of == i)[0])]
            row, scale = self.sources.child(parent, branch_below(tree, parent))
            rows_found.append(row)
            length[i, new.index(name)] = scale / self.unit
        inside, besides = self.split(self.scaled(np.array(rows_found)))
        return np.column_stack([inside, besides, length])

    def split(self, scaled: Array) -> tuple[Array, Array]:
        """Rows along the axes, and what is left of them."""
        inside = scaled @ self.axes
        return inside, scaled - inside @ self.axes.T

    def start(self) -> tuple[Array, Array]:
        """A place that has no drift, such as the root that motion along the tree begins at."""
        return self.split(-self.mean[None] / self.unit)

    def nodes(self) -> tuple[Array, Array]:
        """Every node of the tree along the axes, and what is left of it."""
        return self.split(self.scaled(self.sources.rows))


def _axes(scaled: Array) -> Array:
    """Orthonormal axes along which rows differ, sources × axes; of many rows by their products,
    which is faster."""
    if len(scaled) <= DENSE:
        _, s, right = np.linalg.svd(scaled, full_matrices=False)
        return np.asarray(right[s > 1e-9 * s[0]].T)
    square, left = np.linalg.eigh(scaled @ scaled.T)
    there = square > 1e-12 * square[-1]
    return np.asarray(scaled.T @ (left[:, there] / np.sqrt(square[there])))


def branch_below(tree: Tree, parent: str) -> float:
    """Length of a branch to a new model below a node, so that it stands as high as the models there
    do, or all."""
    place = tree.place(parent)
    children = [i for i, parents in enumerate(tree.parents) if place in parents]
    if not children:
        return float(np.median(tree.lengths[1:]))
    heights = tree.heights
    below = {place}
    tips = set(tree.tips)
    for i, parents in enumerate(tree.parents):
        if below & set(parents):
            below.add(i)
    return max(
        float(np.median([heights[i] for i in below if tree.names[i] in tips]) - heights[place]),
        1e-9,
    )


@dataclass(frozen=True, kw_only=True)
class AlongTree(Gaussian):
    """A Gaussian model with an intercept, one block of which drifts along a tree; its errors count
    as exact."""

    LEAVES_OUT: ClassVar = False

    along: str
    """The block."""
    drift: Drift
    pruning: Pruning
    """The tree with the models of these outcomes, in their order."""
    rows_of_sources: Array
    """(R − 1r̄')/unit of the outcomes, n × sources."""
    common: Array
    """a of the outcomes: the mean covariance of each with all models of the fit."""
    mean_common: float
    """Its mean over all models of the fit."""

    def rows(self, which: NDArray[np.bool_]) -> AlongTree:
        """The same model of some of the outcomes."""
        fewer = super().rows(which)
        assert isinstance(fewer, AlongTree)  # noqa: S101
        pruning = replace(self.pruning, models=self.pruning.models[which])
        rows = self.rows_of_sources[which]
        common = self.common[which]
        return replace(fewer, pruning=pruning, rows_of_sources=rows, common=common)

    def log_density(self, theta: Array, square: Array | None = None) -> Array:
        """log p(y | θ) + log p(θ) of every row of θ = log s."""
        density = [self._density(part) for part in self._parts(theta)]
        return np.concatenate(density) + self.prior.log_density(theta)

    def _density(self, theta: Array) -> Array:
        k, noise, inner = self._scales(theta)
        log_det, cross = self.pruning.many(np.column_stack([self._low, self.y]), k, noise)
        grown, moved = self._by_low(inner, cross)
        quadratic = cross[:, -1, -1] - (cross[:, :-1, -1] * moved).sum(axis=1)
        return np.asarray(
            -0.5 * (self.y.size * math.log(2 * math.pi) + log_det + grown + quadratic)
        )

    def _by_low(self, inner: Array, cross: Array) -> tuple[Array, Array]:
        """log|I + MG| and (I + MG)⁻¹Mg, G = U'V₀⁻¹U and g = U'V₀⁻¹ of the last column."""
        matrix = np.eye(inner.shape[1]) + inner @ cross[:, :-1, :-1]
        right = inner @ cross[:, :-1, -1:]
        return np.asarray(np.linalg.slogdet(matrix)[1]), np.asarray(
            np.linalg.solve(matrix, right)[..., 0]
        )

    def _effects(self, theta: Array, square: Array, rng: np.random.Generator) -> dict[str, Array]:
        """Draws of everything given θ."""
        parts = [self._drawn(part, rng) for part in self._parts(theta)]
        return {
            name: np.concatenate([part[name] for part in parts]) for name in ("beta", *self.blocks)
        } | {"scale": np.exp(theta)}

    def _drawn(self, theta: Array, rng: np.random.Generator) -> dict[str, Array]:
        (k, noise, inner), scale, size = self._scales(theta), scales_of(self, theta), len(theta)
        z = rng.standard_normal((size, self.rows_of_sources.shape[1]))
        values = {"beta": self.sd * rng.standard_normal((size, 1))}
        lacks = self.y - values["beta"] - np.sqrt(noise) * rng.standard_normal(noise.shape)
        places = {name: scale[:, [place]] for place, name in enumerate(self.blocks)}
        lacks -= places[self.along] * (z @ self.rows_of_sources.T)
        for name in self._others:
            values[name] = places[name] * rng.standard_normal((size, self.blocks[name].shape[1]))
            lacks -= values[name] @ self.blocks[name].T
        low = np.broadcast_to(self._low, (size, *self._low.shape))
        _, cross = self.pruning.many(np.concatenate([low, lacks[..., None]], axis=2), k, noise)
        moved = self._by_low(inner, cross)[1]
        solved = self.pruning.solve(lacks - moved @ self._low.T, k, noise)
        values["beta"] = values["beta"] + np.square(self.sd) * solved.sum(axis=1, keepdims=True)
        for name in self._others:
            values[name] = values[name] + np.square(places[name]) * (solved @ self.blocks[name])
        z += places[self.along] * (solved @ self.rows_of_sources)
        return values | {self.along: places[self.along] * (z @ self.drift.axes)}

    def _scales(self, theta: Array) -> tuple[Array, Array, Array]:
        """k, the variances of what is no drift, draws × n, and M."""
        scale = scales_of(self, theta)
        places = {name: np.square(scale[:, place]) for place, name in enumerate(self.blocks)}
        k = places[self.along] / self.drift.unit**2
        noise = np.square(scale[:, -1:]) + np.square(self.error)
        inner = np.zeros((len(theta), self._low.shape[1], self._low.shape[1]))
        inner[:, 0, 0] = float(self.sd[0]) ** 2 + k * self.mean_common
        inner[:, 0, 1] = inner[:, 1, 0] = -k
        at = 2
        for name in self._others:
            columns = np.arange(at, at + self.blocks[name].shape[1])
            inner[:, columns, columns] = places[name][:, None]
            at += columns.size
        return k, noise, inner

    @property
    def _others(self) -> list[str]:
        return [name for name in self.blocks if name != self.along]

    @cached_property
    def _low(self) -> Array:
        """U."""
        return np.column_stack(
            [np.ones(self.y.size), self.common, *(self.blocks[name] for name in self._others)]
        )

    def _parts(self, theta: Array) -> Iterator[Array]:
        numbers = len(theta) * self.pruning.parent.size * (self._low.shape[1] + 1)
        yield from np.array_split(theta, max(1, numbers // NUMBERS))


def along_tree(model: Gaussian, block: str, drift: Drift, names: list[str]) -> AlongTree:
    """A model that drifts by one of its blocks, `drift`, with outcomes of these models; errors
    count as exact."""
    tree = drift.sources.tree
    held = drift.sources.rows[[tree.place(name) for name in names]][:, drift.mask]
    common = held @ drift.mean
    return AlongTree(
        y=model.y,
        X=model.X,
        sd=model.sd,
        blocks=model.blocks,
        prior=model.prior,
        error=model.error,
        along=block,
        drift=drift,
        pruning=Pruning.of(tree, names),
        rows_of_sources=(held - drift.mean) / drift.unit,
        common=common,
        mean_common=float(drift.mean @ drift.mean),
    )


INSTRUMENT = "instrument"
REPEAT = "repeat"


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """A tree, a process along it, blocks of columns, and priors."""

    tree: Tree
    """The tree of the models and what they come from alone, of unit height."""
    process: str = BROWNIAN
    """brownian, free, levels; empty: no descent."""
    blocks: Mapping[str, tuple[str, ...]]
    logs: bool
    """Columns enter by their logarithms."""
    total_sd: float
    """Scale of the half-normal prior of τ."""
    concentration: float = 1.0
    instrument: str = ""
    """Column of who measured; empty: one instrument."""
    repeated: bool = False
    """Whether models have several rows, so that what is a model's own differs from what is left."""

    def of(self, rows: pd.DataFrame) -> LineageDesign:
        """The model of these rows."""
        models = tuple(dict.fromkeys(rows["model_id"].astype(str)))
        x, columns = self._numbers(rows)
        shares = pd.Series(dtype=np.float64)
        if self.instrument:
            shares = rows[self.instrument].astype(str).value_counts(normalize=True).sort_index()
        units = LineageUnits(centre=x.mean(axis=0), maps=self._maps(x, columns), shares=shares)
        clades = pd.factorize(np.array(self.tree.clades(models)))[0][_places(rows, models)]
        return self.in_units(rows, units, self._drifts(models), models, clades)

    def in_units(
        self,
        rows: pd.DataFrame,
        units: LineageUnits,
        drifts: Sequence[Mapping[str, Drift]],
        held: tuple[str, ...],
        clades: NDArray[np.int64] | None = None,
    ) -> LineageDesign:
        """Rows in the units of a fit that held these models; others hang on the node that their
        `parent` names."""
        models = list(dict.fromkeys(rows["model_id"].astype(str)))
        of, (x, columns) = _places(rows, models), self._numbers(rows)
        fixed = {name: (x - units.centre) @ units.maps[name] for name in self.blocks}
        levels = units.shares
        if self.instrument:
            labels = rows[self.instrument].astype(str)
            new = sorted(set(labels) - set(levels.index))
            levels = pd.concat([levels, pd.Series(0.0, index=new)]) if new else levels
            fixed[INSTRUMENT] = group_basis(
                levels.index.get_indexer(labels), levels.to_numpy(np.float64)
            )
        made = [
            {name: each.rows_of(models, rows, of)[of] for name, each in drift.items()}
            for drift in drifts
        ]
        singles = self._own(models, of, held)
        nodes = [bases | fixed for bases in made]  # of every node of the process
        gaussians = tuple(self._gaussian(rows, bases | singles) for bases in nodes)
        model: Gaussian | Mixture = gaussians[0]
        if len(gaussians) > 1:
            model = Mixture(nodes=gaussians, weights=np.full(len(gaussians), 1 / len(gaussians)))
        elif clades is not None and self.pruned(models):
            model = along_tree(gaussians[0], f"u_{DESCENT}", drifts[0][DESCENT], models)
        return LineageDesign(
            model=model,
            outcomes=tuple(rows["model_id"].astype(str)),
            scale=LOG,
            covariates=columns,
            regressors=Regressors(
                x=(x - units.centre) / np.maximum(x.std(axis=0), 1e-300), groups=clades
            ),
            lineage=self,
            units=replace(units, shares=levels),
            drifts=drifts,
            nodes=nodes,
            models=held,
            model_of=of,
            alone=singles,
        )

    def pruned(self, models: Sequence[str]) -> bool:
        """Whether the fit goes along the tree: of many models, each with one row, that Brownian
        motion relates."""
        return (
            len(models) > DENSE
            and self.process == BROWNIAN
            and not (self.repeated or self.tree.merges)
        )

    def without(self, *names: str) -> Lineage:
        """The law without some blocks, or without descent."""
        blocks = {name: columns for name, columns in self.blocks.items() if name not in names}
        return replace(self, blocks=blocks, process="" if DESCENT in names else self.process)

    def _drifts(self, models: Sequence[str]) -> list[dict[str, Drift]]:
        """Blocks of descent, for every node of the process."""
        if not self.process:
            return [{}]
        drifts = []
        for process in nodes_of(self.process):
            drift = sources(self.tree, process)
            rows = drift.rows[[self.tree.place(name) for name in models]]
            masks = {DESCENT: (drift.rows != 0).any(axis=0)}
            if self.process == LEVELS:
                masks = columns_by_level(self.tree, rows)
            drifts.append({name: Drift.of(drift, rows, mask) for name, mask in masks.items()})
        return drifts

    def _numbers(self, rows: pd.DataFrame) -> tuple[Array, tuple[str, ...]]:
        """Columns of the blocks as they enter, rows × columns, and their names."""
        columns = tuple(dict.fromkeys(column for block in self.blocks.values() for column in block))
        x = rows[list(columns)].to_numpy(dtype=np.float64) if columns else np.zeros((len(rows), 0))
        return (np.log(x) if self.logs else x), columns

    def _maps(self, x: Array, columns: Sequence[str]) -> dict[str, Array]:
        """Map of every block from the centred columns of all blocks, p × rank."""
        maps = {}
        for name, block in self.blocks.items():
            at = [columns.index(column) for column in block]
            by = scaled_map(x[:, at])
            maps[name] = np.zeros((len(columns), by.shape[1]))
            maps[name][at] = by
        return maps

    def _own(
        self, models: Sequence[str], of: NDArray[np.int64], held: Sequence[str]
    ) -> dict[str, Array]:
        """What is the single model's own, where its rows repeat; else it is the residual."""
        if not self.repeated:
            return {}
        every = pd.Index([*held, *(name for name in models if name not in set(held))])
        return {OWN: np.eye(len(every))[every.get_indexer(pd.Index(models))][of]}

    def _gaussian(self, rows: pd.DataFrame, bases: Mapping[str, Array]) -> Gaussian:
        missing = pd.Series(0.0, index=rows.index)
        freedom = rows.get("freedom", missing + np.inf).to_numpy(dtype=np.float64)
        return Gaussian(
            y=rows.get("log_gain", missing).to_numpy(dtype=np.float64),
            X=np.ones((len(rows), 1)),
            sd=np.array([2 * self.total_sd]),
            blocks={f"u_{name}": basis for name, basis in bases.items()},
            prior=Shares(
                total=self.total_sd, number=len(bases) + 1, concentration=self.concentration
            ),
            error=rows.get("error", missing).to_numpy(dtype=np.float64),
            freedom=freedom if np.isfinite(freedom).any() else None,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LineageUnits:
    """What the rows of a fit fix: centre and maps of their numbers, and every instrument's share of
    the rows."""

    centre: Array
    maps: Mapping[str, Array]
    shares: pd.Series


@dataclass(frozen=True, kw_only=True, eq=False)
class LineageDesign(Design):
    """Rows of models on a tree, with what fixes their blocks."""

    lineage: Lineage
    units: LineageUnits
    drifts: Sequence[Mapping[str, Drift]]
    """Of every node of the process its blocks of descent."""
    nodes: Sequence[Mapping[str, Array]]
    """Of every node of the process the bases of all blocks."""
    models: tuple[str, ...]
    """Those of the fit."""
    model_of: NDArray[np.int64]
    """Model of every row."""
    alone: Mapping[str, Array]
    """Basis of what is the single model's own, where its rows repeat."""

    def of_new(self, rows: pd.DataFrame) -> LineageDesign:
        """Other rows by the blocks of these."""
        return self.lineage.in_units(rows, self.units, self.drifts, self.models)


def _places(rows: pd.DataFrame, models: Sequence[str]) -> NDArray[np.int64]:
    return np.asarray(pd.Index(models).get_indexer(rows["model_id"].astype(str)), dtype=np.int64)


def descended(design: LineageDesign, values: Mapping[str, Array]) -> Array:
    """Contribution of descent to every row, … × rows."""

    def drawn(k: int, name: str, at: NDArray[np.bool_], place: int) -> Array:
        basis = design.nodes[k][name]
        return np.asarray(values[f"u_{name}"][at][:, : basis.shape[1]] @ basis.T)

    return _by_process(design, values, len(design.model_of), drawn)


def descended_at(
    design: LineageDesign,
    values: Mapping[str, Array],
    where: Callable[[Drift], tuple[Array, Array]],
    size: int,
) -> Array:
    """Contribution of descent at places that a drift names, such as its nodes, … × size; the rest
    is drawn."""
    rng = np.random.default_rng(0)

    def drawn(k: int, name: str, at: NDArray[np.bool_], place: int) -> Array:
        inside, besides = where(design.drifts[k][name])
        fresh = rng.standard_normal((int(at.sum()), besides.shape[1]))
        return np.asarray(
            values[f"u_{name}"][at] @ inside.T
            + values["scale"][at][:, [place]] * (fresh @ besides.T)
        )

    return _by_process(design, values, size, drawn)


def _by_process(
    design: LineageDesign,
    values: Mapping[str, Array],
    size: int,
    drawn: Callable[[int, str, NDArray[np.bool_], int], Array],
) -> Array:
    """Sums over blocks of descent, of every draw those of the node of its process."""
    lead = values["beta"].shape[:-1]
    which = values["node"].astype(np.int64) if "node" in values else np.zeros(lead, dtype=np.int64)
    total = np.zeros((*lead, size))
    for k in np.unique(which):
        at = which == k
        for place, name in enumerate(design.drifts[k]):
            total[at] += drawn(k, name, at, place)
    return total


def contributions(values: Mapping[str, Array], design: LineageDesign) -> dict[str, Array]:
    """Contribution of every block to every row, what is left to the single model last."""
    lineage = design.lineage
    bases = design.nodes[0]
    parts = {DESCENT: descended(design, values)} if lineage.process else {}
    for name in (*lineage.blocks, *([INSTRUMENT] if lineage.instrument else [])):
        parts[name] = values[f"u_{name}"][..., : bases[name].shape[1]] @ bases[name].T
    return parts


def log_gains(values: Mapping[str, Array], design: LineageDesign, y: Array, error: Array) -> Array:
    """Log gains of models without errors of measurement, repeats and instruments, … × rows; drawn
    given all else."""
    parts = contributions(values, design)
    instrument = parts.pop(INSTRUMENT, 0.0)
    centre = values["beta"] + sum(parts.values(), np.zeros(y.size))
    if OWN in design.alone:
        return np.asarray(centre + values[f"u_{OWN}"] @ design.alone[OWN].T)
    variance = np.square(values["scale"][..., -1:])
    weight = variance / (variance + np.square(values.get("error", error)))
    noise = np.sqrt(weight * np.square(values.get("error", error))) * np.random.default_rng(
        0
    ).standard_normal(centre.shape)
    return np.asarray(centre + weight * (y - instrument - centre) + noise)


def quantities(values: Mapping[str, Array], design: LineageDesign) -> dict[str, Array]:
    """Standard deviations over models, shares of variance, λ and what the process has besides."""
    lineage = design.lineage
    parts = contributions(values, design)
    square = np.square(values["scale"])
    names = list(design.nodes[0]) + list(design.alone) + [REPEAT if design.alone else OWN]
    by = {name: square[..., k] for k, name in enumerate(names)}
    descents = list(design.drifts[0])
    if descents:
        by = {
            DESCENT: np.asarray(sum(by[name] for name in descents)),
            **{n: v for n, v in by.items() if n not in descents},
        } | {f"{DESCENT}_{name}": by[name] for name in descents if name != DESCENT}
    counted = [name for name in (DESCENT, *lineage.blocks, OWN) if name in by]
    total = sum(by[name] for name in counted)
    drawn = block_sds(parts) | {
        f"sd_{name}": np.sqrt(by[name]) for name in (OWN, REPEAT) if name in by
    }
    drawn |= {f"share_{name}": by[name] / total for name in by if name not in {INSTRUMENT, REPEAT}}
    drawn |= {"total_sd": np.sqrt(total), POPULATION_MEAN: values["beta"][..., 0]}
    if lineage.process:
        drawn[POPULATION_MEAN] = (
            drawn[POPULATION_MEAN] + descended_at(design, values, Drift.start, 1)[..., 0]
        )
    if lineage.process and lineage.process != LEVELS:
        drawn |= _of_process(values, design, by)
    return drawn


def _of_process(
    values: Mapping[str, Array], design: LineageDesign, by: Mapping[str, Array]
) -> dict[str, Array]:
    """λ = σ²/(σ² + own²), σ² the variance of drift at the top of the tree; of a pull its half-life,
    of siblings r's."""
    drifts = design.drifts
    lineage = design.lineage
    which = (
        values["node"].astype(np.int64)
        if "node" in values
        else np.zeros(by[OWN].shape, dtype=np.int64)
    )
    unit = np.array([drift[DESCENT].unit for drift in drifts])[which]
    drift = by[DESCENT] / np.square(unit)
    parameters = {"lambda": drift / (drift + by[OWN])}
    if len(drifts) == 1:
        return parameters
    processes = [drift[DESCENT].sources.process for drift in drifts]
    length = float(np.median(lineage.tree.lengths[1:]))
    remaining = np.array([process.remains(length) for process in processes])
    common = np.array([process.common for process in processes])
    half = np.array([np.log(2) / process.alpha for process in processes])
    return parameters | {
        "half_life": half[which],
        "parent_child": remaining[which],
        "siblings": (remaining**2 + (1 - remaining**2) * common)[which],
    }


def statistics(design: LineageDesign) -> dict[str, Statistic]:
    """Whether models dampen, and what of the residuals moves the shares."""
    return {
        "share of models that dampen": lambda y: (y < 0).mean(axis=-1),
        **laws.statistics(design.regressors, laws.CLOSING),
    }
