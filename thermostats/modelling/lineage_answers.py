"""What a fit along a tree answers: slopes with and without descent, ancestors, changes of side, the next model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling.comparing import compared
from thermostats.modelling.draws import Array, equal_tailed
from thermostats.modelling.fit import Fit
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.leave_out import LeftOut, held_out, held_out_of
from thermostats.modelling.lineage_drift import Drift
from thermostats.modelling.lineage_law import Lineage, LineageDesign, descended_at, log_gains
from thermostats.modelling.lineage_likelihood import (
    ML,
    REML,
    TOLD,
    WANTED,
    Maximum,
    Restricted,
    line,
    pagel,
    power_by_size,
)
from thermostats.modelling.lineage_processes import DESCENT
from thermostats.modelling.lineage_pruning import pagel_by_pruning
from thermostats.modelling.mixture import Mixture
from thermostats.plots.tree import draw_tree

DRAWS = 1_000
"""Draws of nodes' log gains."""


def columns(means: pd.DataFrame, lineage: Lineage) -> tuple[Array, tuple[str, ...]]:
    """Intercept and all columns of blocks, one row per model, and their names; what others determine is left out."""
    rows = means.groupby("model_id", sort=False).first()
    x, names = np.ones((len(rows), 1)), ["(intercept)"]
    for name in dict.fromkeys(column for block in lineage.blocks.values() for column in block):
        values = rows[name].to_numpy(np.float64)
        more = np.column_stack([x, np.log(values) if lineage.logs else values])
        if np.linalg.matrix_rank(more / np.maximum(np.abs(more).max(axis=0), 1e-300), tol=1e-8) == more.shape[1]:
            x, names = more, [*names, f"log {name}" if lineage.logs else name]
    return x, tuple(names)


def outcomes(means: pd.DataFrame) -> Array:
    """Mean log gain of every model."""
    return np.asarray(means.groupby("model_id", sort=False)["log_gain"].mean(), dtype=np.float64)


def covariance(means: pd.DataFrame, lineage: Lineage) -> Array:
    """K over the models, of a tree of unit height."""
    return lineage.tree.covariance(list(dict.fromkeys(means["model_id"])))


def restricted(means: pd.DataFrame, lineage: Lineage) -> Restricted:
    """Restricted likelihood of λ beyond the blocks; errors of measurement count as the models' own."""
    return Restricted.of(outcomes(means), columns(means, lineage)[0], covariance(means, lineage))


def wanted(means: pd.DataFrame, lineage: Lineage, lam: float = TOLD) -> tuple[int, int] | None:
    """Models and clades of a study of many such trees that tells λ from 0 in 80% of simulations; None: above 1,000."""
    table = _power(means, lineage, lam)
    enough = table[table["power"] >= WANTED]
    return None if enough.empty else (int(enough["models"].iloc[0]), int(enough["clades"].iloc[0]))


def _power(means: pd.DataFrame, lineage: Lineage, lam: float) -> pd.DataFrame:
    clades = lineage.tree.keep(means["model_id"]).clades(list(dict.fromkeys(means["model_id"])))
    columns_there_are = columns(means, lineage)[0].shape[1]
    return power_by_size(covariance(means, lineage), columns_there_are, len(set(clades)), lam)


def power(fit: Fit) -> pd.DataFrame:
    """How often studies of this tree's shape tell a share of descent from none, by number of models."""
    lineage = fit.designed(LineageDesign).lineage
    return pd.concat([_power(fit.rows, lineage, lam) for lam in (0.3, TOLD, 0.9)], ignore_index=True)


def likelihood(fit: Fit) -> pd.DataFrame:
    """Maxima of the likelihood without priors, restricted and full: least squares, Brownian motion, Pagel's λ.

    Errors of measurement are part of what is the models' own. `p`: of λ = 0, exact for normal outcomes; with `lower`
    and `upper`, where the restricted likelihood ratio does not reject λ.
    """
    lineage = fit.designed(LineageDesign).lineage
    test = restricted(fit.rows, lineage)
    low, high = test.interval(fit.level)
    rows = [
        (name, made.method, made.parameter, made.sigma, made.log_likelihood)
        for name, made in _maxima(fit.rows, lineage)
    ]
    table = pd.DataFrame(rows, columns=["model", "method", "lambda", "sigma", "log_likelihood"])
    reml = (table["model"] == "Pagel's λ") & (table["method"] == REML)
    return table.assign(
        lower=np.where(reml, low, np.nan), upper=np.where(reml, high, np.nan), p=np.where(reml, test.p_value(1), np.nan)
    )


def _maxima(means: pd.DataFrame, lineage: Lineage) -> list[tuple[str, Maximum]]:
    y, (x, _), k = outcomes(means), columns(means, lineage), covariance(means, lineage)
    models, maxima = list(dict.fromkeys(means["model_id"])), []
    apart = np.linalg.eigvalsh(k)[0] > 1e-10
    for method in (REML, ML):
        maxima.append(("least squares", line(y, x, np.eye(len(y)), method=method, parameter=0.0)))
        if apart:
            maxima.append(("Brownian motion", line(y, x, k, method=method, parameter=1.0)))
        by_tree = lineage.pruned(models)
        best = pagel_by_pruning(y, x, lineage.tree, models, method=method) if by_tree else pagel(y, x, k, method=method)
        maxima.append(("Pagel's λ", best))
    return maxima


def slopes(fit: Fit) -> pd.DataFrame:
    """Slopes on the blocks' columns: by least squares, along the tree by likelihood (REML), and of the posterior."""
    lineage = fit.designed(LineageDesign).lineage
    names = columns(fit.rows, lineage)[1]
    rows = []
    for model, made in _maxima(fit.rows, lineage):
        half = stats.t.ppf((1 + fit.level) / 2, fit.rows["model_id"].nunique() - len(names)) * made.se
        if made.method == REML:
            rows += [
                (model, name, b, s, b - h, b + h)
                for name, b, s, h in zip(names[1:], made.beta[1:], made.se[1:], half[1:], strict=True)
            ]
    for block, of_block in lineage.blocks.items():
        drawn = fit.draws.flat(f"u_{block}") @ fit.designed(LineageDesign).units.maps[block].T
        for column in of_block:
            d = drawn[:, fit.design.covariates.index(column)]
            lower, upper = equal_tailed(d, fit.level)
            label = f"log {column}" if lineage.logs else column
            rows.append(("posterior", label, float(d.mean()), float(d.std()), float(lower), float(upper)))
    return pd.DataFrame(rows, columns=["model", "slope on", "estimate", "se", "lower", "upper"])


def node_gains(fit: Fit) -> tuple[Array, NDArray[np.bool_]]:
    """Draws of the log gain at every node, draws × nodes, and which nodes are models with rows.

    A model's is its own, of its shape and size; an ancestor's that of a model of mean shape and size without anything
    of its own.
    """
    design = fit.designed(LineageDesign)
    lineage, values = design.lineage, fit.draws.few(DRAWS)
    drawn = values["beta"] + descended_at(design, values, Drift.nodes, len(lineage.tree))
    gains = log_gains(values, design, fit.model.observed, fit.rows["error"].to_numpy(np.float64))
    measured = np.zeros(len(lineage.tree), dtype=bool)
    for i, name in enumerate(fit.rows["model_id"]):
        place = lineage.tree.place(name)
        drawn[:, place], measured[place] = gains[:, i], True
    return drawn, measured


def nodes(fit: Fit) -> pd.DataFrame:
    """Log gain of every node: models as measured, ancestors as the tree says; P(below 1)."""
    tree = fit.designed(LineageDesign).lineage.tree
    drawn, measured = node_gains(fit)
    return pd.DataFrame({"node": tree.names, "kind": tree.kinds, "measured": measured, **_summary(drawn, fit.level)})


def _summary(drawn: Array, level: float) -> dict[str, Array]:
    """Mean and interval of log gains, draws × columns, and P(below 1)."""
    lower, upper = equal_tailed(drawn, level)
    below = np.asarray((drawn < 0).mean(axis=0))
    return {"mean": drawn.mean(axis=0), "lower": lower, "upper": upper, "probability_dampens": below}


def _changes(fit: Fit) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    tree = fit.designed(LineageDesign).lineage.tree
    drawn, measured = node_gains(fit)
    pairs = [(i, parent) for i, parents in enumerate(tree.parents) for parent in parents]
    child, parent = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in (0, 1))
    changed = (drawn[:, child] < 0) != (drawn[:, parent] < 0)
    table = pd.DataFrame(
        {
            "parent": [tree.names[i] for i in parent],
            "node": [tree.names[i] for i in child],
            "kind": [tree.kinds[i] or "not stated" for i in child],
            "both_measured": measured[child] & measured[parent],
            "p_change": changed.mean(axis=0),
        }
    )
    return table, changed


def branches(fit: Fit) -> pd.DataFrame:
    """Every branch of the tree: P(parent and child lie on opposite sides of 1)."""
    return _changes(fit)[0]


def sides(fit: Fit) -> pd.DataFrame:
    """How often the side of 1 changes, by kind of branch and in all: branches, changes with their interval, share."""
    table, changed = _changes(fit)
    kinds: Mapping[str, Any] = {kind: (table["kind"] == kind).to_numpy() for kind in sorted(set(table["kind"]))}
    kinds = {**kinds, "all": np.ones(len(table), dtype=bool), "both measured": table["both_measured"].to_numpy()}
    rows = []
    for kind, mask in kinds.items():
        if not mask.any():
            continue
        counts = changed[:, mask].sum(axis=1)
        lower, upper = equal_tailed(counts.astype(np.float64), fit.level)
        n = int(mask.sum())
        rows.append((kind, n, counts.mean(), float(lower), float(upper), counts.mean() / n))
    return pd.DataFrame(rows, columns=["kind", "branches", "changes", "lower", "upper", "share"])


def upcoming(fit: Fit) -> pd.DataFrame:
    """Log gain of a model not yet seen below every inner node: the next lab, family, sibling, or child of a model.

    Its shape and size are the mean of the models there. P(below 1).
    """
    lineage = fit.designed(LineageDesign).lineage
    tree, x = lineage.tree, list(fit.design.covariates)
    above = {name: set(tree.ancestors(name)) for name in dict.fromkeys(fit.rows["model_id"])}
    new = []
    for name in tree.names:
        below = fit.rows[[name in above[model] for model in fit.rows["model_id"]]]
        facts = np.log(below[x]).mean().pipe(np.exp) if lineage.logs else below[x].mean()
        new.append({"model_id": f"next of {name}", "parent": name, **facts})
    frame = pd.DataFrame(new)
    if lineage.instrument:
        frame[lineage.instrument] = "another"
    measured = set(fit.rows["model_id"])
    what = ["child" if n in measured else "top" if i == 0 else "sibling" for i, n in enumerate(tree.names)]
    return pd.DataFrame({"below": tree.names, "what": what, **_summary(fit.predicted(frame), fit.level)})


def clades_predicted(fit: Fit) -> pd.DataFrame:
    """Every clade predicted from the others, exactly: the fit, and the same without descent and without each block."""
    lineage = fit.designed(LineageDesign).lineage
    folds = fit.rows["clade"].tolist()
    fits = {"all": fit}
    for name in (DESCENT, *lineage.blocks):
        other = lineage.without(name)
        fits[f"without {name}"] = fit.under(replace(fit.law, of=other.of))
    return compared({name: _held_out(fit_of, folds) for name, fit_of in fits.items()}).reset_index()


def _held_out(fit: Fit, folds: list[str]) -> LeftOut:
    if isinstance(fit.model, Mixture):
        return held_out_of(fit.model, folds, seed=fit.seed)
    assert isinstance(fit.model, Gaussian)  # noqa: S101 - a lineage has no third
    return held_out(fit.model, fit.draws, folds, seed=fit.seed)


def dendrogram(fit: Fit, axes: Axes) -> Axes:
    """The tree with the log gain of every node as its colour."""
    table = nodes(fit)
    return draw_tree(
        fit.designed(LineageDesign).lineage.tree, dict(zip(table["node"], table["mean"], strict=True)), axes
    )


TABLES: Mapping[str, Callable[[Fit], pd.DataFrame]] = {
    "slopes": slopes,
    "likelihood": likelihood,
    "nodes": nodes,
    "branches": branches,
    "sides": sides,
    "next": upcoming,
    "left out": clades_predicted,
    "power": power,
}
