"""`fit_lineage`: gains of models on a tree of descent, by the exact engine; what of the gain is
inherited.

log G = α + Xβ + u + e, u drifting along the tree (`lineage_processes`), e the model's own. On a
tree of unit height the share of u in u + e is Pagel's λ, the heritability of quantitative genetics
(Lynch 1991, doi:10.2307/2409687; Housworth, Martins and Lynch 2004, doi:10.1086/380570).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError, unknown
from thermostats.formatting import plural
from thermostats.modelling.columns import (
    columns_of,
    errors_not_read,
    errors_of_logs,
    named,
    needing,
    numbers,
)
from thermostats.modelling.draws import SEED, Array, Settings, equal_tailed
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.heritage.law import (
    BLOCKS,
    MODERATED,
    OWN,
    POPULATION_MEAN,
    TOTAL_SD,
    columns_once,
    declare_numbers,
    describe_numbers,
    in_order,
    orders_of,
)
from thermostats.modelling.laws import Law, Prior, fits
from thermostats.modelling.leave_out import LeftOut, compared, held_out, held_out_of
from thermostats.modelling.lineage_law import (
    DENSE,
    INSTRUMENT,
    REPEAT,
    Drift,
    Lineage,
    LineageDesign,
    descended_at,
    log_gains,
    quantities,
    statistics,
)
from thermostats.modelling.mixed_model import state_law
from thermostats.modelling.model_gains import model_gains, moderated_errors, said_of, with_gains
from thermostats.modelling.tree_likelihood import (
    BROWNIAN,
    COMMON,
    DESCENT,
    FREE,
    LEVELS,
    ML,
    PROCESSES,
    RATES,
    REML,
    TOLD,
    WANTED,
    Maximum,
    Restricted,
    columns_by_level,
    line,
    pagel,
    pagel_by_pruning,
    power_by_size,
    unit_height,
)
from thermostats.plots.posterior import draw_tree
from thermostats.tables.tree import Tree

DRAWS = 1_000
"""Draws of nodes' log gains."""


def columns(means: pd.DataFrame, lineage: Lineage) -> tuple[Array, tuple[str, ...]]:
    """Intercept and all columns of blocks, one row per model, and their names; what others
    determine is left out."""
    rows = means.groupby("model_id", sort=False).first()
    x = np.ones((len(rows), 1))
    names = ["(intercept)"]
    for name in dict.fromkeys(column for block in lineage.blocks.values() for column in block):
        values = rows[name].to_numpy(np.float64)
        more = np.column_stack([x, np.log(values) if lineage.logs else values])
        if (
            np.linalg.matrix_rank(more / np.maximum(np.abs(more).max(axis=0), 1e-300), tol=1e-8)
            == more.shape[1]
        ):
            x = more
            names = [*names, f"log {name}" if lineage.logs else name]
    return x, tuple(names)


def outcomes(means: pd.DataFrame) -> Array:
    """Mean log gain of every model."""
    return np.asarray(means.groupby("model_id", sort=False)["log_gain"].mean(), dtype=np.float64)


def covariance(means: pd.DataFrame, lineage: Lineage) -> Array:
    """K over the models, of a tree of unit height."""
    return lineage.tree.covariance(list(dict.fromkeys(means["model_id"])))


def restricted(means: pd.DataFrame, lineage: Lineage) -> Restricted:
    """Restricted likelihood of λ beyond the blocks; errors of measurement count as the models'
    own."""
    return Restricted.of(outcomes(means), columns(means, lineage)[0], covariance(means, lineage))


def wanted(means: pd.DataFrame, lineage: Lineage, lam: float = TOLD) -> tuple[int, int] | None:
    """Models and clades of a study of many such trees that tells λ from 0 in 80% of simulations;
    None: above 1,000."""
    table = _power(means, lineage, lam)
    enough = table[table["power"] >= WANTED]
    return None if enough.empty else (int(enough["models"].iloc[0]), int(enough["clades"].iloc[0]))


def _power(means: pd.DataFrame, lineage: Lineage, lam: float) -> pd.DataFrame:
    clades = lineage.tree.keep(means["model_id"]).clades(list(dict.fromkeys(means["model_id"])))
    columns_there_are = columns(means, lineage)[0].shape[1]
    return power_by_size(covariance(means, lineage), columns_there_are, len(set(clades)), lam)


def power(fit: Fit) -> pd.DataFrame:
    """How often studies of this tree's shape tell a share of descent from none, by number of
    models."""
    lineage = fit.designed(LineageDesign).lineage
    return pd.concat(
        [_power(fit.rows, lineage, lam) for lam in (0.3, TOLD, 0.9)], ignore_index=True
    )


def likelihood(fit: Fit) -> pd.DataFrame:
    """Maxima of the likelihood without priors, restricted and full: least squares, Brownian motion,
    Pagel's λ.

    Errors of measurement are part of what is the models' own. `p`: of λ = 0, exact for normal
    outcomes; with `lower` and `upper`, where the restricted likelihood ratio does not reject λ.
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
        lower=np.where(reml, low, np.nan),
        upper=np.where(reml, high, np.nan),
        p=np.where(reml, test.p_value(1), np.nan),
    )


def _maxima(means: pd.DataFrame, lineage: Lineage) -> list[tuple[str, Maximum]]:
    y, (x, _), k = outcomes(means), columns(means, lineage), covariance(means, lineage)
    models = list(dict.fromkeys(means["model_id"]))
    maxima = []
    apart = np.linalg.eigvalsh(k)[0] > 1e-10
    for method in (REML, ML):
        maxima.append(("least squares", line(y, x, np.eye(len(y)), method=method, parameter=0.0)))
        if apart:
            maxima.append(("Brownian motion", line(y, x, k, method=method, parameter=1.0)))
        by_tree = lineage.is_pruned(models)
        best = (
            pagel_by_pruning(y, x, lineage.tree, models, method=method)
            if by_tree
            else pagel(y, x, k, method=method)
        )
        maxima.append(("Pagel's λ", best))
    return maxima


def slopes(fit: Fit) -> pd.DataFrame:
    """Slopes on the blocks' columns: by least squares, along the tree by likelihood (REML), and of
    the posterior."""
    lineage = fit.designed(LineageDesign).lineage
    names = columns(fit.rows, lineage)[1]
    rows = []
    for model, made in _maxima(fit.rows, lineage):
        half = (
            stats.t.ppf((1 + fit.level) / 2, fit.rows["model_id"].nunique() - len(names)) * made.se
        )
        if made.method == REML:
            rows += [
                (model, name, b, s, b - h, b + h)
                for name, b, s, h in zip(
                    names[1:], made.beta[1:], made.se[1:], half[1:], strict=True
                )
            ]
    for block, of_block in lineage.blocks.items():
        _, by = fit.designed(LineageDesign).effects[f"u_{block}"].basis
        drawn = fit.draws.flat(f"u_{block}") @ by.T
        for column in of_block:
            d = drawn[:, fit.design.covariates.index(column)]
            lower, upper = equal_tailed(d, fit.level)
            label = f"log {column}" if lineage.logs else column
            rows.append(
                ("posterior", label, float(d.mean()), float(d.std()), float(lower), float(upper))
            )
    return pd.DataFrame(rows, columns=["model", "slope on", "estimate", "se", "lower", "upper"])


def node_gains(fit: Fit) -> tuple[Array, NDArray[np.bool_]]:
    """Draws of the log gain at every node, draws × nodes, and which nodes are models with rows.

    A model's is its own, of its shape and size; an ancestor's that of a model of mean shape and
    size without anything of its own.
    """
    design = fit.designed(LineageDesign)
    lineage = design.lineage
    values = fit.draws.few(DRAWS)
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
    return pd.DataFrame(
        {"node": tree.names, "kind": tree.kinds, "measured": measured, **_summary(drawn, fit.level)}
    )


def _summary(drawn: Array, level: float) -> dict[str, Array]:
    """Mean and interval of log gains, draws × columns, and P(below 1)."""
    lower, upper = equal_tailed(drawn, level)
    below = np.asarray((drawn < 0).mean(axis=0))
    return {
        "mean": drawn.mean(axis=0),
        "lower": lower,
        "upper": upper,
        "probability_dampens": below,
    }


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
    """How often the side of 1 changes, by kind of branch and in all: branches, changes with their
    interval, share."""
    table, changed = _changes(fit)
    kinds: Mapping[str, Any] = {
        kind: (table["kind"] == kind).to_numpy() for kind in sorted(set(table["kind"]))
    }
    kinds = {
        **kinds,
        "all": np.ones(len(table), dtype=bool),
        "both measured": table["both_measured"].to_numpy(),
    }
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
    """Log gain of a model not yet seen below every inner node: the next lab, family, sibling, or
    child of a model.

    Its shape and size are the mean of the models there. P(below 1).
    """
    lineage = fit.designed(LineageDesign).lineage
    tree = lineage.tree
    x = list(fit.design.covariates)
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
    what = [
        "child" if n in measured else "top" if i == 0 else "sibling"
        for i, n in enumerate(tree.names)
    ]
    return pd.DataFrame(
        {"below": tree.names, "what": what, **_summary(fit.predicted(frame), fit.level)}
    )


def clades_predicted(fit: Fit) -> pd.DataFrame:
    """Every clade predicted from the others, exactly: the fit, and the same without descent and
    without each block."""
    lineage = fit.designed(LineageDesign).lineage
    folds = fit.rows["clade"].tolist()
    fits = {"all": fit}
    for name in (DESCENT, *lineage.blocks):
        fits[f"without {name}"] = fit.under(
            replace(fit.law, of=lineage.drop_block(name).design_rows)
        )
    return compared({name: _held_out(fit_of, folds) for name, fit_of in fits.items()}).reset_index()


def _held_out(fit: Fit, folds: list[str]) -> LeftOut:
    if isinstance(fit.model, Mixture):
        return held_out_of(fit.model, folds, seed=fit.seed)
    assert isinstance(fit.model, Gaussian)  # noqa: S101
    return held_out(fit.model, fit.draws, folds, seed=fit.seed)


def dendrogram(fit: Fit, axes: Axes) -> Axes:
    """The tree with the log gain of every node as its colour."""
    table = nodes(fit)
    return draw_tree(
        fit.designed(LineageDesign).lineage.tree,
        dict(zip(table["node"], table["mean"], strict=True)),
        axes,
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


LEAST, MOST = 4, 2_000
"""Models; above `DENSE` of Brownian motion alone, one row each, on a tree without merges."""
WIDE = 0.5
"""Length of the interval of λ from which on it counts as not estimated."""
EQUATIONS = {
    BROWNIAN: "f_descent: Brownian motion along the tree, covariance of two models the path that "
    "they share",
    FREE: "f_descent: r = exp(−α t) between parent and child, r² + (1 − r²) η between siblings",
    LEVELS: "f_descent: independent effects of labs, families and parents, each level with a scale "
    "of its own",
}


@fits
def fit_lineage(
    rows: pd.DataFrame,
    tree: Tree,
    blocks: Mapping[str, Sequence[str]] | None = None,
    *,
    process: str = BROWNIAN,
    estimand: str = "gain",
    instrument: str | None = None,
    se: str | float | None = None,
    total_sd: float = TOTAL_SD,
    concentration: float = 1.0,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """log G_i = α + Σ_b f_b,i + f_descent,i + f_i,model + error_i; shares φ of τ² ~ Dirichlet(a, …,
    a).

    rows: `model_id` and `gain` as `gain_rows` gives them (per prompt, or averages with `gain_sd`
    and `n_prompts`), or `log_gain` with its standard error `error`, one row per model and
    `instrument` (a column of who measured); several rows of a model count as repeats. se: known
    errors of `gain` as given, a column or a number. tree: of `thermostats.tree`; base and tuned
    models enter together. blocks: name to columns of numbers; by default geometry and scale by
    their logarithms, where the rows have them; `{}`: none. process: `brownian`, `free` (a pull α,
    by quadrature; siblings may resemble each other more than parent and child do), `levels` (labs,
    families and parents each with a scale; the nested heritage model). The covariance is that of a
    tree whose highest model stands at 1, not a correlation; in trees of unequal heights lower
    models vary less. More than 400 models, up to 2,000, are drawn along the tree (Brownian motion,
    one row a model, no merges); their errors count as known. total_sd: scale of the half-normal
    prior of τ.

    Quantities: sd_<block>, share_<block> of `descent`, every block and the single `model`; lambda;
    half_life, parent_child and siblings of `free`. Statements: orders of the blocks. Tables: slopes
    (least squares, Brownian, Pagel's λ, the posterior), likelihood, nodes (ancestral log gains),
    branches and sides (how often the side of 1 changes), next (sibling, child, lab), left out
    (exact, clade by clade), power.

    Raises UsageError for rows that are not in the tree, fewer than 4 models, gains that are not
    positive or all the same, a tree on which no two models share a branch, a process or column that
    does not exist.
    """
    if process not in PROCESSES:
        raise unknown("no such process", process, PROCESSES)
    if not isinstance(tree, Tree):
        raise UsageError(
            "no tree",
            got=type(tree).__name__,
            allowed="a Tree",
            next_step="tree = thermostats.tree(df)",
        )
    if not (0 < concentration < math.inf and 0 < total_sd < math.inf):
        got = f"concentration {concentration}, total_sd {total_sd}"
        raise UsageError("priors out of range", got=got, allowed="finite numbers above 0")
    columns_of(rows, "model_id", *([instrument] if instrument else []))
    rows, of_errors = _with_errors(_once(rows, tree), se)
    chosen, logs = _blocks(rows, blocks)
    columns = [column for block in chosen.values() for column in block]
    means, warnings = _means(rows, estimand, columns, instrument, positive=logs)
    warnings += [*of_errors, *_in_tree(means, tree, process), *_borrowed(rows, tree)]
    numbers(means["log_gain"], f"log {estimand}", varied=True)
    models = list(dict.fromkeys(means["model_id"]))
    pruned = unit_height(tree.keep(models), models)
    descents: tuple[str, ...] = (DESCENT,)
    if process == LEVELS:
        descents = tuple(
            columns_by_level(pruned, pruned.roots()[[pruned.place(name) for name in models]])
        )
    lineage = Lineage(
        tree=pruned,
        process=process,
        descents=descents,
        blocks=chosen,
        logs=logs,
        total_sd=total_sd,
        concentration=concentration,
        instrument=instrument or "",
        repeated=bool(means["model_id"].duplicated().any()),
    )
    means["clade"] = lineage.tree.clades(means["model_id"].tolist())
    warnings += _odd(means, lineage)
    sources = sorted(set(rows["source"].dropna())) if "source" in rows else []
    estimated = bool(np.isfinite(means["freedom"]).any()) and not lineage.is_pruned(models)
    return law_fitted(
        lineage_law(lineage, estimated=estimated),
        means,
        seed=seed,
        settings=settings,
        estimand=estimand,
        sources=sources,
        warnings=(*said_of(rows), *tree.notes, *warnings),
        reads=needing("model_id", *columns, *([instrument] if instrument else [])),
    )


def lineage_law(lineage: Lineage, *, estimated: bool) -> Law:
    """The law of a tree, a process and blocks; `estimated`: errors of measurement are estimates."""
    extra = (*([REPEAT] if lineage.repeated else []), *([INSTRUMENT] if lineage.instrument else []))
    parts = (DESCENT, *lineage.blocks, OWN)
    law = Law(
        name="lineage",
        of=lineage.design_rows,
        quantities=quantities,
        reported=(
            *(f"sd_{name}" for name in (*parts, *extra)),
            *(f"share_{name}" for name in parts),
            *("lambda", "half_life", "parent_child", "siblings", "total_sd", POPULATION_MEAN),
            *(f"share_{DESCENT}_{name}" for name in ("lab", "family", "parent")),
        ),
        statements={
            order: partial(in_order, order) for order in orders_of((DESCENT, *lineage.blocks))
        },
        statistics=statistics,
        equations=describe_descent(lineage),
        priors=(*(PULL if lineage.process == FREE else ()), *([MODERATED] if estimated else [])),
        tables=TABLES,
        figures={"tree": dendrogram},
        units=("clade", "model_id"),
    )
    values = [factor * lineage.concentration for factor in (0.5, 2.0)]
    others = {f"concentration {value:g}": replace(lineage, concentration=value) for value in values}
    return state_law(law, lineage, others)


def _once(rows: pd.DataFrame, tree: Tree) -> pd.DataFrame:
    """Rows without those that a merged model has for its further parents; they are no repeats of a
    measurement."""
    merged = rows["model_id"].isin(tree.merges)
    return rows[~(merged & rows.drop(columns=["parent", "share"], errors="ignore").duplicated())]


def _with_errors(rows: pd.DataFrame, se: str | float | None) -> tuple[pd.DataFrame, list[str]]:
    """Rows with the log of a gain whose error is stated, and what was done."""
    if se is None:
        return rows, errors_not_read(rows, "gain", se) if "log_gain" in rows else []
    columns_of(rows, "gain")
    rows, warnings = with_gains(rows, "gain")
    gain = rows["gain"].to_numpy(dtype=np.float64)
    errors, words = errors_of_logs(rows, se, "gain", gain)
    return rows.assign(log_gain=np.log(gain), error=errors), [
        *warnings,
        words,
        *errors_not_read(rows, "gain", se, "gain_sd"),
    ]


def _blocks(
    rows: pd.DataFrame, blocks: Mapping[str, Sequence[str]] | None
) -> tuple[dict[str, tuple[str, ...]], bool]:
    """Blocks of columns, and whether they enter by their logarithms."""
    if blocks is None:
        standard = {name: BLOCKS[name] for name in ("geometry", "scale")}
        return {
            name: columns_in
            for name, columns_in in standard.items()
            if set(columns_in) <= set(rows)
        }, True
    chosen = {
        str(name): tuple([columns_in] if isinstance(columns_in, str) else columns_in)
        for name, columns_in in blocks.items()
    }
    if not all(chosen.values()) or {DESCENT, OWN, INSTRUMENT, REPEAT} & set(chosen):
        allowed = (
            f"each of one column or more, none called {DESCENT}, {OWN}, {INSTRUMENT} or {REPEAT}"
        )
        raise UsageError("no such blocks", got=chosen, allowed=allowed)
    columns_once(chosen, lambda blocks: f"thermostats.fit_lineage(rows, tree, {blocks!r})")
    columns_of(rows, *(column for columns_in in chosen.values() for column in columns_in))
    for column in (column for columns_in in chosen.values() for column in columns_in):
        if not pd.api.types.is_numeric_dtype(rows[column]):
            raise UsageError(
                "a block of descent is of numbers; groups belong into the tree",
                where=column,
                got=rows[column].dtype,
                next_step="make columns of numbers with pandas.get_dummies, or name a parent in "
                "the tree",
            )
    return chosen, False


def _means(
    rows: pd.DataFrame,
    estimand: str,
    columns: Sequence[str],
    instrument: str | None,
    *,
    positive: bool,
) -> tuple[pd.DataFrame, list[str]]:
    """One row per model and instrument: log_gain, error, freedom, columns."""
    if "log_gain" in rows:
        needed = ["model_id", "log_gain", *columns, *([instrument] if instrument else [])]
        means = rows[list(dict.fromkeys(needed))].copy()
        means["model_id"] = means["model_id"].astype(str)
        for name in ("log_gain", *columns):
            means[name] = numbers(rows[name], name, positive=positive and name in columns)
        means["error"] = rows["error"].astype("float64").to_numpy() if "error" in rows else 0.0
        if not (np.isfinite(means["error"]) & (means["error"] >= 0)).all():
            raise UsageError(
                "a standard error is missing or below 0", where="error", allowed="0 or above"
            )
        return means.assign(freedom=np.inf).reset_index(drop=True), []
    read = partial(
        model_gains,
        estimand=estimand,
        outcome="gain",
        errors=moderated_errors,
        quantities=columns,
        optional=["family"],
        positive=positive,
    )
    if not instrument:
        gains = read(rows)
        return gains.table, [*gains.warnings]
    parts = []
    messages = list[str]()
    for name, group in rows.groupby(instrument, sort=True):
        gains = read(group)
        parts.append(gains.table.assign(**{instrument: name}))
        messages += [f"{name}: {warning}" for warning in gains.warnings]
    return pd.concat(parts, ignore_index=True), messages


def _in_tree(means: pd.DataFrame, tree: Tree, process: str) -> list[str]:
    """Refuse rows that the tree does not have and trees that say nothing; what else is odd about
    the two."""
    lacking = sorted({name for name in means["model_id"] if name not in tree})
    if lacking:
        raise UsageError(
            f"{plural(len(lacking), 'model')} with rows and no place in the tree",
            got=named(lacking),
            allowed="models that are nodes of the tree",
            next_step='rows = rows[rows["model_id"].isin(tree.names)], or thermostats.tree(df)',
        )
    models = list(dict.fromkeys(means["model_id"]))
    if len(models) < LEAST:
        raise UsageError("too few models", got=len(models), allowed=f"{LEAST} or more")
    prunable = process == BROWNIAN and not tree.merges and not means["model_id"].duplicated().any()
    if len(models) > (MOST if prunable else DENSE):
        raise UsageError(
            "too many models for draws",
            got=len(models),
            allowed=f"{MOST} of one row each on a tree without merges, process='brownian'; else "
            f"{DENSE}",
            next_step="maximise the likelihood instead: "
            "thermostats.modelling.tree_likelihood.pagel_by_pruning"
            if len(models) > MOST
            else "",
        )
    pruned = tree.keep(models)
    if process == LEVELS:
        columns_by_level(pruned, pruned.roots()[[pruned.place(name) for name in models]])
    k = pruned.covariance(models)
    apart = k[~np.eye(len(k), dtype=bool)]
    if np.ptp(apart) < 1e-12:
        raise UsageError(
            "every two models share as much of the tree as any other two, so descent cannot be "
            "separated from a mean",
            got=f"{len(models)} models, all on {pruned.names[0]}",
            allowed="a tree on which some models share a branch that others do not",
            next_step="give the models their labs, families or parents",
        )
    without = sorted(set(tree.tips) - set(models))
    messages = [
        f"{len(without)} tips of the tree have no rows and say nothing: {named(without)}"
    ] * bool(without)
    if len(models) > DENSE and (means["error"] > 0).any() and np.isfinite(means["freedom"]).any():
        messages.append(
            f"more than {DENSE} models: their standard errors count as known, and none is left out"
        )
    clades = sorted(set(pruned.clades(models)))
    if len(tree.keep(models).names) < len(tree) and set(tree.clades(models)) != set(clades):
        messages.append(
            f"all models lie in one clade ({pruned.names[0]}): descent is estimated within it alone"
        )
    return messages


def _borrowed(rows: pd.DataFrame, tree: Tree) -> list[str]:
    """Models that hang on those of another lab, where the rows name labs that the tree has."""
    if "heritage" not in rows:
        return []
    labs = rows.drop_duplicates("model_id").set_index("model_id")["heritage"].dropna().astype(str)
    other = [
        name for name, lab in labs.items() if lab in tree and lab not in tree.ancestors(str(name))
    ]
    return [f"hang on models of another lab, whose clade they count for: {named(other)}"] * bool(
        other
    )


def _odd(means: pd.DataFrame, lineage: Lineage) -> list[str]:
    """Where λ cannot be estimated, with the size of a study that could."""
    n = means["model_id"].nunique()
    clades = means["clade"].nunique()
    test = restricted(means, lineage)
    low, high = test.interval()
    if high - low < WIDE:
        return []
    size = wanted(means, lineage)
    could = f"{size[0]} models in {size[1]} clades" if size else "more than 1,000 models"
    return [
        f"λ cannot be estimated from {n} models in {clades} clades (likelihood interval {low:.2f} "
        f"to {high:.2f}); "
        f"with trees of this shape it takes {could} to separate λ = 0.6 from 0 in 80% of studies"
    ]


def describe_descent(lineage: Lineage) -> tuple[str, ...]:
    """What the symbols of the model stand for."""
    return (
        "e_i ~ N(0, se_i²)   (model i)",
        EQUATIONS[lineage.process],
        "λ = σ²/(σ² + own²), σ² the variance of drift at the height of the highest model",
        *(
            describe_numbers(kind, logs=lineage.logs)
            for kind in declare_numbers(lineage.blocks, logs=lineage.logs)
        ),
    )


def list_values(values: Sequence[float]) -> str:
    """A prior under which each of some values is as likely as another."""
    return f"one of {', '.join(f'{value:.3g}' for value in values)}"


PULL: tuple[Prior, ...] = (
    (
        "α",
        list_values(RATES),
        "per height, even on the log scale: from near all to nothing is inherited",
    ),
    ("η", list_values(COMMON), "siblings share nothing but their parent, or nearly all"),
)
