"""ȳ_i = α + Σ_b f_b,i + f_descent,i + f_i,model + error_i: rows of models on a tree, laid out for the exact engine.

Descent is a block like any other, its basis the sources of drift (`lineage_processes`), centred over models and scaled
to unit expected variance. On a star of labs that is the block of labs of the heritage model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling import residuals
from thermostats.modelling.draws import Array
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.heritage.blocks import OWN, block_sds, group_basis, scaled_map
from thermostats.modelling.heritage.quantities import POPULATION_MEAN
from thermostats.modelling.laws import Design
from thermostats.modelling.lineage_along import along_tree
from thermostats.modelling.lineage_drift import DENSE, Drift
from thermostats.modelling.lineage_processes import BROWNIAN, DESCENT, LEVELS, columns_by_level, nodes_of, sources
from thermostats.modelling.mixture import Mixture
from thermostats.modelling.predictions import LOG
from thermostats.modelling.residuals import Regressors
from thermostats.modelling.scales import Shares
from thermostats.modelling.statements import Statistic
from thermostats.tables.tree import Tree

INSTRUMENT, REPEAT = "instrument", "repeat"


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
        """Rows in the units of a fit that held these models; others hang on the node that their `parent` names."""
        models = list(dict.fromkeys(rows["model_id"].astype(str)))
        of, (x, columns) = _places(rows, models), self._numbers(rows)
        fixed = {name: (x - units.centre) @ units.maps[name] for name in self.blocks}
        levels = units.shares
        if self.instrument:
            labels = rows[self.instrument].astype(str)
            new = sorted(set(labels) - set(levels.index))
            levels = pd.concat([levels, pd.Series(0.0, index=new)]) if new else levels
            fixed[INSTRUMENT] = group_basis(levels.index.get_indexer(labels), levels.to_numpy(np.float64))
        made = [{name: each.rows_of(models, rows, of)[of] for name, each in drift.items()} for drift in drifts]
        own, nodes = self._own(models, of, held), [bases | fixed for bases in made]  # of every node of the process
        gaussians = tuple(self._gaussian(rows, bases | own) for bases in nodes)
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
            regressors=Regressors(x=(x - units.centre) / np.maximum(x.std(axis=0), 1e-300), groups=clades),
            lineage=self,
            units=replace(units, shares=levels),
            drifts=drifts,
            nodes=nodes,
            models=held,
            model_of=of,
            alone=own,
        )

    def pruned(self, models: Sequence[str]) -> bool:
        """Whether the fit goes along the tree: of many models, each with one row, that Brownian motion relates."""
        return len(models) > DENSE and self.process == BROWNIAN and not (self.repeated or self.tree.merges)

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

    def _own(self, models: Sequence[str], of: NDArray[np.int64], held: Sequence[str]) -> dict[str, Array]:
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
            prior=Shares(total=self.total_sd, number=len(bases) + 1, concentration=self.concentration),
            error=rows.get("error", missing).to_numpy(dtype=np.float64),
            freedom=freedom if np.isfinite(freedom).any() else None,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class LineageUnits:
    """What the rows of a fit fix: centre and maps of their numbers, and every instrument's share of the rows."""

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
    design: LineageDesign, values: Mapping[str, Array], where: Callable[[Drift], tuple[Array, Array]], size: int
) -> Array:
    """Contribution of descent at places that a drift names, such as its nodes, … × size; the rest is drawn."""
    rng = np.random.default_rng(0)

    def drawn(k: int, name: str, at: NDArray[np.bool_], place: int) -> Array:
        inside, besides = where(design.drifts[k][name])
        fresh = rng.standard_normal((int(at.sum()), besides.shape[1]))
        return np.asarray(values[f"u_{name}"][at] @ inside.T + values["scale"][at][:, [place]] * (fresh @ besides.T))

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
    """Log gains of models without errors of measurement, repeats and instruments, … × rows; drawn given all else."""
    parts = contributions(values, design)
    instrument = parts.pop(INSTRUMENT, 0.0)
    centre = values["beta"] + sum(parts.values(), np.zeros(y.size))
    if OWN in design.alone:
        return np.asarray(centre + values[f"u_{OWN}"] @ design.alone[OWN].T)
    variance = np.square(values["scale"][..., -1:])
    weight = variance / (variance + np.square(values.get("error", error)))
    noise = np.sqrt(weight * np.square(values.get("error", error))) * np.random.default_rng(0).standard_normal(
        centre.shape
    )
    return np.asarray(centre + weight * (y - instrument - centre) + noise)


def quantities(values: Mapping[str, Array], design: LineageDesign) -> dict[str, Array]:
    """Standard deviations over models, shares of variance, λ and what the process has besides."""
    lineage = design.lineage
    parts, square = contributions(values, design), np.square(values["scale"])
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
    drawn = block_sds(parts) | {f"sd_{name}": np.sqrt(by[name]) for name in (OWN, REPEAT) if name in by}
    drawn |= {f"share_{name}": by[name] / total for name in by if name not in {INSTRUMENT, REPEAT}}
    drawn |= {"total_sd": np.sqrt(total), POPULATION_MEAN: values["beta"][..., 0]}
    if lineage.process:
        drawn[POPULATION_MEAN] = drawn[POPULATION_MEAN] + descended_at(design, values, Drift.start, 1)[..., 0]
    if lineage.process and lineage.process != LEVELS:
        drawn |= _of_process(values, design, by)
    return drawn


def _of_process(values: Mapping[str, Array], design: LineageDesign, by: Mapping[str, Array]) -> dict[str, Array]:
    """λ = σ²/(σ² + own²), σ² the variance of drift at the top of the tree; of a pull its half-life, of siblings r's."""
    drifts, lineage = design.drifts, design.lineage
    which = values["node"].astype(np.int64) if "node" in values else np.zeros(by[OWN].shape, dtype=np.int64)
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
        **residuals.statistics(design.regressors, residuals.CLOSING),
    }
