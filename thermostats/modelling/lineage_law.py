"""ȳ_i = α + Σ_b f_b,i + f_descent,i + f_i,model + error_i: rows of models on a tree, laid out for
the exact engine.

Descent is a block like any other, its basis the sources of drift (`build_sources`), centred
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

from thermostats.modelling import regressors
from thermostats.modelling.columns import check_columns
from thermostats.modelling.draws import Array, Statistic, join_draws
from thermostats.modelling.gaussian import NUMBERS, Gaussian, Mixture, read_scales
from thermostats.modelling.heritage.law import (
    OWN,
    POPULATION_MEAN,
    GroupBlock,
    ShareKind,
    compute_contribution,
    declare_numbers,
    declare_shares,
    measure_block_sds,
    read_logs,
    standardise,
)
from thermostats.modelling.importance import Squares
from thermostats.modelling.laws import Prior
from thermostats.modelling.mixed_model import (
    Effects,
    Kind,
    Levels,
    Mixed,
    MixedDesign,
    MixtureDesign,
)
from thermostats.modelling.regressors import Regressors
from thermostats.modelling.tree_likelihood import (
    BROWNIAN,
    DESCENT,
    LEVELS,
    Process,
    Pruning,
    Sources,
    build_level_columns,
    build_sources,
    list_processes,
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
    def build(cls, drift: Sources, rows: Array, mask: Any) -> Drift:
        """Centred over models and scaled so that the mean variance of their effects is 1."""
        of_model = rows[:, mask]
        mean = of_model.mean(axis=0)
        centred = of_model - mean
        variances = np.square(centred).sum(axis=1)
        unit = float(np.sqrt(variances.mean()))
        return cls(drift, mask, mean, unit, _find_axes(centred / unit))

    def scale_sources(self, rows: Array) -> Array:
        """Rows of sources, centred over the models of the fit and in units of the block."""
        centred = rows[:, self.mask] - self.mean
        return centred / self.unit

    def build_basis(
        self, models: Sequence[str], rows: pd.DataFrame, of: NDArray[np.int64]
    ) -> Array:
        """Basis of models: the axes and, where some are new, what lies besides and what is their
        own."""
        tree = self.sources.tree
        new = [name for name in models if name not in tree]
        if not new:
            places = [tree.place(name) for name in models]
            scaled = self.scale_sources(self.sources.rows[places])
            return scaled @ self.axes
        check_columns(rows, "parent")
        parents = rows["parent"].astype(str).to_numpy()
        rows_found = []
        length = np.zeros((len(models), len(new)))
        for i, name in enumerate(models):
            if name in tree:
                rows_found.append(self.sources.rows[tree.place(name)])
                continue
            first = np.flatnonzero(of == i)[0]
            parent = parents[first]
            branch = measure_branch_below(tree, parent)
            row, scale = self.sources.child(parent, branch)
            rows_found.append(row)
            length[i, new.index(name)] = scale / self.unit
        scaled = self.scale_sources(np.array(rows_found))
        inside, besides = self.split(scaled)
        return np.column_stack([inside, besides, length])

    def split(self, scaled: Array) -> tuple[Array, Array]:
        """Rows along the axes, and what is left of them."""
        inside = scaled @ self.axes
        return inside, scaled - inside @ self.axes.T

    def start(self) -> tuple[Array, Array]:
        """A place that has no drift, such as the root that motion along the tree begins at."""
        return self.split(-self.mean[None] / self.unit)

    def project_nodes(self) -> tuple[Array, Array]:
        """Every node of the tree along the axes, and what is left of it."""
        scaled = self.scale_sources(self.sources.rows)
        return self.split(scaled)


def _find_axes(scaled: Array) -> Array:
    """Orthonormal axes along which rows differ, sources × axes; of many rows by their products,
    which is faster."""
    if len(scaled) <= DENSE:
        _, s, right = np.linalg.svd(scaled, full_matrices=False)
        return np.asarray(right[s > 1e-9 * s[0]].T)
    square, left = np.linalg.eigh(scaled @ scaled.T)
    there = square > 1e-12 * square[-1]
    roots = np.sqrt(square[there])
    return np.asarray(scaled.T @ (left[:, there] / roots))


def measure_branch_below(tree: Tree, parent: str) -> float:
    """Length of a branch to a new model below a node, so that it stands as high as the models there
    do, or all."""
    place = tree.place(parent)
    children = []
    for i, parents in enumerate(tree.parents):
        if place in parents:
            children.append(i)
    if not children:
        return float(np.median(tree.lengths[1:]))
    heights = tree.heights
    below = {place}
    tips = set(tree.tips)
    for i, parents in enumerate(tree.parents):
        if below & set(parents):
            below.add(i)
    tip_heights = []
    for i in below:
        if tree.names[i] in tips:
            tip_heights.append(heights[i])
    above_parent = np.median(tip_heights) - heights[place]
    return max(float(above_parent), 1e-9)


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

    def select_rows(self, which: NDArray[np.bool_]) -> AlongTree:
        """The same model of some of the outcomes."""
        fewer = super().select_rows(which)
        assert isinstance(fewer, AlongTree)  # noqa: S101
        pruning = replace(self.pruning, models=self.pruning.models[which])
        rows = self.rows_of_sources[which]
        common = self.common[which]
        return replace(fewer, pruning=pruning, rows_of_sources=rows, common=common)

    def log_density(self, theta: Array, square: Array | Squares | None = None) -> Array:
        """log p(y | θ) + log p(θ) of every row of θ = log s."""
        density = [self._score_density(part) for part in self._split_parts(theta)]
        return np.concatenate(density) + self.prior.log_density(theta)

    def _score_density(self, theta: Array) -> Array:
        k, noise, inner = self._read_scales(theta)
        columns = np.column_stack([self._low, self.y])
        log_det, cross = self.pruning.compute_many_products(columns, k, noise)
        grown, moved = self._solve_low_rank(inner, cross)
        low = cross[:, :-1, -1]
        quadratic = cross[:, -1, -1] - (low * moved).sum(axis=1)
        constant = self.y.size * math.log(2 * math.pi)
        return np.asarray(-0.5 * (constant + log_det + grown + quadratic))

    def _solve_low_rank(self, inner: Array, cross: Array) -> tuple[Array, Array]:
        """log|I + MG| and (I + MG)⁻¹Mg, G = U'V₀⁻¹U and g = U'V₀⁻¹ of the last column."""
        identity = np.eye(inner.shape[1])
        matrix = identity + inner @ cross[:, :-1, :-1]
        right = inner @ cross[:, :-1, -1:]
        log_det = np.linalg.slogdet(matrix)[1]
        solved = np.linalg.solve(matrix, right)
        return np.asarray(log_det), np.asarray(solved[..., 0])

    def _draw_effects(
        self, theta: Array, square: Array, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Draws of everything given θ."""
        parts = [self._draw_tree_effects(part, rng) for part in self._split_parts(theta)]
        drawn = join_draws(parts)
        effects = {name: drawn[name] for name in ("beta", *self.blocks)}
        return effects | {"scale": np.exp(theta)}

    def _draw_tree_effects(self, theta: Array, rng: np.random.Generator) -> dict[str, Array]:
        k, noise, inner = self._read_scales(theta)
        scale = read_scales(self, theta)
        size = len(theta)
        z = rng.standard_normal((size, self.rows_of_sources.shape[1]))
        beta = self.sd * rng.standard_normal((size, 1))
        residual = np.sqrt(noise) * rng.standard_normal(noise.shape)
        lacks = self.y - beta - residual
        scales = {}
        for place, name in enumerate(self.blocks):
            scales[name] = scale[:, [place]]
        drift_scale = scales[self.along]
        lacks -= drift_scale * (z @ self.rows_of_sources.T)
        effects = {}
        for name in self._others:
            design = self.blocks[name]
            effects[name] = scales[name] * rng.standard_normal((size, design.shape[1]))
            lacks -= effects[name] @ design.T
        low = np.broadcast_to(self._low, (size, *self._low.shape))
        columns = np.concatenate([low, lacks[..., None]], axis=2)
        _, cross = self.pruning.compute_many_products(columns, k, noise)
        moved = self._solve_low_rank(inner, cross)[1]
        solved = self.pruning.solve(lacks - moved @ self._low.T, k, noise)
        total = solved.sum(axis=1, keepdims=True)
        values = {"beta": beta + np.square(self.sd) * total}
        for name, effect in effects.items():
            pulled = solved @ self.blocks[name]
            values[name] = effect + np.square(scales[name]) * pulled
        z += drift_scale * (solved @ self.rows_of_sources)
        values[self.along] = drift_scale * (z @ self.drift.axes)
        return values

    def _read_scales(self, theta: Array) -> tuple[Array, Array, Array]:
        """k, the variances of what is no drift, draws × n, and M."""
        scale = read_scales(self, theta)
        variances = {}
        for place, name in enumerate(self.blocks):
            variances[name] = np.square(scale[:, place])
        k = variances[self.along] / self.drift.unit**2
        noise = np.square(scale[:, -1:]) + np.square(self.error)
        width = self._low.shape[1]
        inner = np.zeros((len(theta), width, width))
        prior_variance = float(self.sd[0]) ** 2
        inner[:, 0, 0] = prior_variance + k * self.mean_common
        inner[:, 0, 1] = inner[:, 1, 0] = -k
        first = 2
        for name in self._others:
            end = first + self.blocks[name].shape[1]
            columns = np.arange(first, end)
            inner[:, columns, columns] = variances[name][:, None]
            first = end
        return k, noise, inner

    @property
    def _others(self) -> list[str]:
        return [name for name in self.blocks if name != self.along]

    @cached_property
    def _low(self) -> Array:
        """U."""
        intercept = np.ones(self.y.size)
        others = [self.blocks[name] for name in self._others]
        return np.column_stack([intercept, self.common, *others])

    def _split_parts(self, theta: Array) -> Iterator[Array]:
        width = self._low.shape[1] + 1
        numbers = len(theta) * self.pruning.parent.size * width
        yield from np.array_split(theta, max(1, numbers // NUMBERS))


def build_along_tree(model: Gaussian, block: str, drift: Drift, names: list[str]) -> AlongTree:
    """A model that drifts by one of its blocks, `drift`, with outcomes of these models; errors
    count as exact."""
    tree = drift.sources.tree
    places = [tree.place(name) for name in names]
    held = drift.sources.rows[places][:, drift.mask]
    scaled = (held - drift.mean) / drift.unit
    mean_common = drift.mean @ drift.mean
    return AlongTree(
        y=model.y,
        X=model.X,
        sd=model.sd,
        blocks=model.blocks,
        prior=model.prior,
        error=model.error,
        along=block,
        drift=drift,
        pruning=Pruning.build(tree, names),
        rows_of_sources=scaled,
        common=held @ drift.mean,
        mean_common=float(mean_common),
    )


INSTRUMENT = "instrument"
REPEAT = "repeat"


@dataclass(frozen=True, kw_only=True)
class DescentBlock(ShareKind):
    """Drift along a tree, a block like any other."""

    sources: Sources
    level: str = ""
    """Branches of labs, families or parents alone."""

    def arrange(self, table: pd.DataFrame, fit: Effects | None) -> Effects | None:
        """Effects of sources along the axes in which models of the fit differ; their basis: the
        drift."""
        models = list_models(table)
        drift = fit.basis if fit else self.drift_models(models)
        if not drift:
            return None
        at = _locate_models(table, models)
        basis = drift.build_basis(models, table, at)
        return Effects(columns=basis[at], basis=drift)

    def drift_models(self, models: Sequence[str]) -> Drift | None:
        """The drift over models; None where none of its branches leads to two of them."""
        sources = self.sources
        places = [sources.tree.place(name) for name in models]
        rows = sources.rows[places]
        if not self.level:
            reached = (sources.rows != 0).any(axis=0)
            return Drift.build(sources, rows, reached)
        mask = build_level_columns(sources.tree, rows).get(self.level)
        return None if mask is None else Drift.build(sources, rows, mask)


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """A tree, a process along it, blocks of columns, and priors."""

    tree: Tree
    """The tree of the models and what they come from alone, of unit height."""
    process: str = BROWNIAN
    """brownian, free, levels."""
    descents: tuple[str, ...] = (DESCENT,)
    """Blocks of descent: levels have one each; empty: no descent."""
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

    def declare_process(self, process: Process) -> Mixed:
        """The model where the process has these constants."""
        kinds: list[Kind] = []
        if self.descents:
            drift = build_sources(self.tree, process)
            levels = self.descents if self.process == LEVELS else ("",)
            for name, level in zip(self.descents, levels, strict=True):
                effect = f"f_i,{name}"
                block = DescentBlock(name=name, effect=effect, sources=drift, level=level)
                kinds.append(block)
        kinds += declare_numbers(self.blocks, logs=self.logs, symbols=False)
        if self.instrument:
            effect = f"f_i,{INSTRUMENT}"
            kinds.append(GroupBlock(name=INSTRUMENT, effect=effect, columns=(self.instrument,)))
        if self.repeated:
            kinds.append(Levels(name=f"u_{OWN}", effect=f"f_i,{OWN}", column="model_id", met=True))
        rest = "e_i" if self.repeated else f"f_i,{OWN} + e_i"
        mixed = declare_shares(kinds, self.total_sd, self.concentration, "μ", rest)
        return replace(mixed, regress=self.look_over_clades, engine=self.prune_design)

    @cached_property
    def nodes(self) -> tuple[Mixed, ...]:
        """The model for all values of the process's constants."""
        processes = list_processes(self.process if self.descents else BROWNIAN)
        return tuple(self.declare_process(process) for process in processes)

    @property
    def equations(self) -> tuple[str, ...]:
        """Those of every node."""
        return self.nodes[0].equations

    @property
    def priors(self) -> tuple[Prior, ...]:
        """Those of every node."""
        return self.nodes[0].priors

    def design_rows(self, rows: pd.DataFrame) -> LineageDesign:
        """The model of these rows."""
        designs = [node.design_rows(rows) for node in self.nodes]
        model = designs[0].model
        if len(designs) > 1:
            nodes = tuple(design.gaussian for design in designs)
            weights = np.full(len(designs), 1 / len(designs))
            model = Mixture(nodes=nodes, weights=weights)
        return LineageDesign.mix(designs, model, lineage=self, groups=())

    def prune_design(self, design: MixedDesign) -> Gaussian:
        """The model as it goes along the tree, of very many models of a fit."""
        models = list_models(design.table)
        if design.before or not self.is_pruned(models):
            return design.gaussian
        block = f"u_{DESCENT}"
        drift = design.effects[block].basis
        return build_along_tree(design.gaussian, block, drift, models)

    def look_over_clades(self, design: MixedDesign) -> Regressors | None:
        """Numbers of all blocks, standardised, and clades of the models of a fit."""
        if design.before:
            return None
        models = list_models(design.table)
        at = _locate_models(design.table, models)
        names = np.array(self.tree.clades(models))
        clades = pd.factorize(names)[0][at]
        x = read_logs(design.table, design.covariates, logs=self.logs)
        return Regressors(x=standardise(x), groups=clades)

    def is_pruned(self, models: Sequence[str]) -> bool:
        """Whether the fit goes along the tree: of many models, each with one row, that Brownian
        motion relates."""
        if len(models) <= DENSE or self.process != BROWNIAN or not self.descents:
            return False
        return not (self.repeated or self.tree.merges)

    def drop_block(self, name: str) -> Lineage:
        """The law without a block, or without descent."""
        blocks = {}
        for each, columns in self.blocks.items():
            if each != name:
                blocks[each] = columns
        return replace(self, blocks=blocks, descents=() if name == DESCENT else self.descents)


@dataclass(frozen=True, kw_only=True, eq=False)
class LineageDesign(MixtureDesign):
    """Rows of models on a tree, laid out for every value of the process's constants."""

    lineage: Lineage

    @property
    def effects(self) -> Mapping[str, Effects]:
        """Of the first value."""
        return self.designs[0].effects


def list_drifts(design: MixedDesign) -> dict[str, Drift]:
    """Blocks of descent."""
    kinds = [kind for kind in design.mixed.kinds if isinstance(kind, DescentBlock)]
    drifts = {}
    for kind in kinds:
        if kind.block in design.effects:
            drifts[kind.name] = design.effects[kind.block].basis
    return drifts


def list_models(rows: pd.DataFrame) -> list[str]:
    """The models of rows, each once, in the order in which they come."""
    return list(dict.fromkeys(rows["model_id"].astype(str)))


def _locate_models(rows: pd.DataFrame, models: Sequence[str]) -> NDArray[np.int64]:
    places = pd.Index(models).get_indexer(rows["model_id"].astype(str))
    return np.asarray(places, dtype=np.int64)


def _read_nodes(values: Mapping[str, Array], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Of every draw the value of the process's constants; draws of one value do not say it."""
    if "node" in values:
        return values["node"].astype(np.int64)
    return np.zeros(shape, dtype=np.int64)


def compute_descent(design: LineageDesign, values: Mapping[str, Array]) -> Array:
    """Contribution of descent to every row, … × rows."""

    def draw_part(k: int, name: str, at: NDArray[np.bool_]) -> Array:
        basis = design.designs[k].effects[f"u_{name}"].columns
        effects = values[f"u_{name}"][at]
        return effects[:, : basis.shape[1]] @ basis.T

    return _combine_processes(design, values, len(design.outcomes), draw_part)


def compute_placed_descent(
    design: LineageDesign,
    values: Mapping[str, Array],
    where: Callable[[Drift], tuple[Array, Array]],
    size: int,
) -> Array:
    """Contribution of descent at places that a drift names, such as its nodes, … × size; the rest
    is drawn."""
    rng = np.random.default_rng(0)

    def draw_part(k: int, name: str, at: NDArray[np.bool_]) -> Array:
        effects = design.designs[k].effects
        block = f"u_{name}"
        inside, besides = where(effects[block].basis)
        fresh = rng.standard_normal((int(at.sum()), besides.shape[1]))
        place = list(effects).index(block)
        scale = values["scale"][at][:, [place]]
        besides_drawn = scale * (fresh @ besides.T)
        return values[block][at] @ inside.T + besides_drawn

    return _combine_processes(design, values, size, draw_part)


def _combine_processes(
    design: LineageDesign,
    values: Mapping[str, Array],
    size: int,
    draw_part: Callable[[int, str, NDArray[np.bool_]], Array],
) -> Array:
    """Sums over blocks of descent, of every draw those of the node of its process."""
    lead = values["beta"].shape[:-1]
    which = _read_nodes(values, lead)
    total = np.zeros((*lead, size))
    for k in np.unique(which):
        at = which == k
        for name in list_drifts(design.designs[k]):
            total[at] += draw_part(k, name, at)
    return total


def compute_contributions(values: Mapping[str, Array], design: LineageDesign) -> dict[str, Array]:
    """Contribution of every block to every row, what is left to the single model last."""
    lineage = design.lineage
    parts = {DESCENT: compute_descent(design, values)} if lineage.descents else {}
    instruments = [INSTRUMENT] if lineage.instrument else []
    for name in (*lineage.blocks, *instruments):
        basis = design.effects[f"u_{name}"].columns
        parts[name] = compute_contribution(values, name, basis)
    return parts


def log_gains(values: Mapping[str, Array], design: LineageDesign, y: Array, error: Array) -> Array:
    """Log gains of models without errors of measurement, repeats and instruments, … × rows; drawn
    given all else."""
    parts = compute_contributions(values, design)
    instrument = parts.pop(INSTRUMENT, 0.0)
    contributions = sum(parts.values(), np.zeros(y.size))
    centre = values["beta"] + contributions
    if f"u_{OWN}" in design.effects:
        basis = design.effects[f"u_{OWN}"].columns
        return centre + values[f"u_{OWN}"] @ basis.T
    variance = np.square(values["scale"][..., -1:])
    error_variance = np.square(values.get("error", error))
    weight = variance / (variance + error_variance)
    z = np.random.default_rng(0).standard_normal(centre.shape)
    noise = np.sqrt(weight * error_variance) * z
    residual = y - instrument - centre
    return np.asarray(centre + weight * residual + noise)


def compute_quantities(values: Mapping[str, Array], design: LineageDesign) -> dict[str, Array]:
    """Standard deviations over models, shares of variance, λ and what the process has besides."""
    lineage = design.lineage
    parts = compute_contributions(values, design)
    square = np.square(values["scale"])
    names = [block.removeprefix("u_") for block in design.effects]
    names.append(REPEAT if OWN in names else OWN)
    by = {}
    for k, name in enumerate(names):
        by[name] = square[..., k]
    descents = list(list_drifts(design.designs[0]))
    if descents:
        by = _add_descent(by, descents)
    counted = []
    for name in (DESCENT, *lineage.blocks, OWN):
        if name in by:
            counted.append(name)
    total = sum(by[name] for name in counted)
    drawn = measure_block_sds(parts)
    for name in (OWN, REPEAT):
        if name in by:
            drawn[f"sd_{name}"] = np.sqrt(by[name])
    for name, variance in by.items():
        if name not in {INSTRUMENT, REPEAT}:
            drawn[f"share_{name}"] = variance / total
    drawn["total_sd"] = np.sqrt(total)
    drawn[POPULATION_MEAN] = values["beta"][..., 0]
    if lineage.descents:
        start = compute_placed_descent(design, values, Drift.start, 1)
        drawn[POPULATION_MEAN] = drawn[POPULATION_MEAN] + start[..., 0]
    if lineage.descents and lineage.process != LEVELS:
        drawn |= _compute_process_quantities(values, design, by)
    return drawn


def _add_descent(by: Mapping[str, Array], descents: Sequence[str]) -> dict[str, Array]:
    """Variances with that of all descent first and those of its levels last."""
    total = sum(by[name] for name in descents)
    variances = {DESCENT: np.asarray(total)}
    for name, variance in by.items():
        if name not in descents:
            variances[name] = variance
    for name in descents:
        if name != DESCENT:
            variances[f"{DESCENT}_{name}"] = by[name]
    return variances


def _compute_process_quantities(
    values: Mapping[str, Array], design: LineageDesign, by: Mapping[str, Array]
) -> dict[str, Array]:
    """λ = σ²/(σ² + own²), σ² the variance of drift at the top of the tree; of a pull its half-life,
    of siblings r's."""
    drifts = [list_drifts(each) for each in design.designs]
    lineage = design.lineage
    which = _read_nodes(values, by[OWN].shape)
    units = np.array([drift[DESCENT].unit for drift in drifts])
    drift = by[DESCENT] / np.square(units[which])
    parameters = {"lambda": drift / (drift + by[OWN])}
    if len(drifts) == 1:
        return parameters
    processes = [drift[DESCENT].sources.process for drift in drifts]
    length = float(np.median(lineage.tree.lengths[1:]))
    remaining = np.array([process.remains(length) for process in processes])
    common = np.array([process.common for process in processes])
    rates = np.array([process.alpha for process in processes])
    half_life = np.log(2) / rates
    shared = remaining**2
    siblings = shared + (1 - shared) * common
    parameters["half_life"] = half_life[which]
    parameters["parent_child"] = remaining[which]
    parameters["siblings"] = siblings[which]
    return parameters


def build_statistics(design: LineageDesign) -> dict[str, Statistic]:
    """Whether models dampen, and what of the residuals moves the shares."""
    moving = regressors.build_statistics(design.regressors, regressors.CLOSING)
    return {"share of models that dampen": lambda y: (y < 0).mean(axis=-1), **moving}
