"""`fit_lineage`: gains of models on a tree of descent, by the exact engine; what of the gain is
inherited.

log G = α + Xβ + u + e, u drifting along the tree (`tree_likelihood.py`), e the model's own. On a
tree of unit height the share of u in u + e is Pagel's λ, the heritability of quantitative genetics
(Lynch 1991, doi:10.2307/2409687; Housworth, Martins and Lynch 2004, doi:10.1086/380570).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError, build_unknown_error
from thermostats.formatting import format_count
from thermostats.modelling.columns import (
    check_columns,
    convert_log_errors,
    list_names,
    read_numbers,
    require_columns,
    warn_unread_errors,
)
from thermostats.modelling.draws import SEED, Array, Settings, find_equal_tailed
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.heritage.law import (
    BLOCKS,
    MODERATED,
    OWN,
    POPULATION_MEAN,
    TOTAL_SD,
    check_distinct_columns,
    declare_numbers,
    describe_numbers,
    list_orders,
    mark_ordered,
)
from thermostats.modelling.laws import Law, Prior
from thermostats.modelling.leave_out import (
    LeftOut,
    compare_predictions,
    leave_folds_out,
    leave_mixture_folds_out,
)
from thermostats.modelling.lineage_law import (
    DENSE,
    INSTRUMENT,
    REPEAT,
    Drift,
    Lineage,
    LineageDesign,
    build_statistics,
    compute_placed_descent,
    compute_quantities,
    list_models,
    log_gains,
)
from thermostats.modelling.mixed_model import state_law
from thermostats.modelling.model_gains import (
    add_moderated_errors,
    filter_gains,
    read_model_gains,
    read_remarks,
)
from thermostats.modelling.planned import WANTED
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
    Maximum,
    Restricted,
    build_level_columns,
    fit_gls,
    fit_pagel,
    fit_pagel_by_pruning,
    scale_height,
    simulate_power_by_size,
)
from thermostats.plots.posterior import draw_tree
from thermostats.tables.tree import Tree

DRAWS = 1_000
"""Draws of nodes' log gains."""


def _read_lineage(fit: Fit) -> Lineage:
    return fit.designed(LineageDesign).lineage


def build_columns(means: pd.DataFrame, lineage: Lineage) -> tuple[Array, tuple[str, ...]]:
    """Intercept and all columns of blocks, one row per model, and their names; what others
    determine is left out."""
    rows = means.groupby("model_id", sort=False).first()
    x = np.ones((len(rows), 1))
    names = ["(intercept)"]
    columns = [column for block in lineage.blocks.values() for column in block]
    for name in dict.fromkeys(columns):
        values = rows[name].to_numpy(np.float64)
        more = np.column_stack([x, np.log(values) if lineage.logs else values])
        largest = np.abs(more).max(axis=0)
        scaled = more / np.maximum(largest, 1e-300)
        if np.linalg.matrix_rank(scaled, tol=1e-8) == more.shape[1]:
            x = more
            names.append(f"log {name}" if lineage.logs else name)
    return x, tuple(names)


def read_outcomes(means: pd.DataFrame) -> Array:
    """Mean log gain of every model."""
    means_of_models = means.groupby("model_id", sort=False)["log_gain"].mean()
    return np.asarray(means_of_models, dtype=np.float64)


def build_covariance(means: pd.DataFrame, lineage: Lineage) -> Array:
    """K over the models, of a tree of unit height."""
    return lineage.tree.covariance(list_models(means))


def build_restricted(means: pd.DataFrame, lineage: Lineage) -> Restricted:
    """Restricted likelihood of λ beyond the blocks; errors of measurement count as the models'
    own."""
    y = read_outcomes(means)
    x, _ = build_columns(means, lineage)
    return Restricted.build(y, x, build_covariance(means, lineage))


def find_wanted_size(
    means: pd.DataFrame, lineage: Lineage, lam: float = TOLD
) -> tuple[int, int] | None:
    """Models and clades of a study of many such trees that tells λ from 0 in 80% of simulations;
    None: above 1,000."""
    table = _simulate_power(means, lineage, lam)
    enough = table[table["power"] >= WANTED]
    if enough.empty:
        return None
    smallest = enough.iloc[0]
    return int(smallest["models"]), int(smallest["clades"])


def _simulate_power(means: pd.DataFrame, lineage: Lineage, lam: float) -> pd.DataFrame:
    tree = lineage.tree.keep(means["model_id"])
    clades = set(tree.clades(list_models(means)))
    x, _ = build_columns(means, lineage)
    covariance = build_covariance(means, lineage)
    return simulate_power_by_size(covariance, x.shape[1], len(clades), lam)


def summarise_power(fit: Fit) -> pd.DataFrame:
    """How often studies of this tree's shape tell a share of descent from none, by number of
    models."""
    lineage = _read_lineage(fit)
    tables = [_simulate_power(fit.rows, lineage, lam) for lam in (0.3, TOLD, 0.9)]
    return pd.concat(tables, ignore_index=True)


def summarise_likelihood(fit: Fit) -> pd.DataFrame:
    """Maxima of the likelihood without priors, restricted and full: least squares, Brownian motion,
    Pagel's λ.

    Errors of measurement are part of what is the models' own. `p`: of λ = 0, exact for normal
    outcomes; with `lower` and `upper`, where the restricted likelihood ratio does not reject λ.
    """
    lineage = _read_lineage(fit)
    test = build_restricted(fit.rows, lineage)
    low, high = test.interval(fit.level)
    rows = []
    for name, made in _find_maxima(fit.rows, lineage):
        rows.append((name, made.method, made.parameter, made.sigma, made.log_likelihood))
    table = pd.DataFrame(rows, columns=["model", "method", "lambda", "sigma", "log_likelihood"])
    pagel = table["model"] == "Pagel's λ"
    reml = pagel & (table["method"] == REML)
    lower = np.where(reml, low, np.nan)
    upper = np.where(reml, high, np.nan)
    p = np.where(reml, test.p_value(1), np.nan)
    return table.assign(lower=lower, upper=upper, p=p)


def _find_maxima(means: pd.DataFrame, lineage: Lineage) -> list[tuple[str, Maximum]]:
    y = read_outcomes(means)
    x, _ = build_columns(means, lineage)
    k = build_covariance(means, lineage)
    models = list_models(means)
    independent = np.eye(len(y))
    maxima = []
    apart = np.linalg.eigvalsh(k)[0] > 1e-10
    for method in (REML, ML):
        squares = fit_gls(y, x, independent, method=method, parameter=0.0)
        maxima.append(("least squares", squares))
        if apart:
            brownian = fit_gls(y, x, k, method=method, parameter=1.0)
            maxima.append(("Brownian motion", brownian))
        if lineage.is_pruned(models):
            best = fit_pagel_by_pruning(y, x, lineage.tree, models, method=method)
        else:
            best = fit_pagel(y, x, k, method=method)
        maxima.append(("Pagel's λ", best))
    return maxima


def summarise_slopes(fit: Fit) -> pd.DataFrame:
    """Slopes on the blocks' columns: by least squares, along the tree by likelihood (REML), and of
    the posterior."""
    design = fit.designed(LineageDesign)
    lineage = design.lineage
    names = build_columns(fit.rows, lineage)[1]
    rows = []
    df = fit.rows["model_id"].nunique() - len(names)
    t = stats.t.ppf((1 + fit.level) / 2, df)
    for model, made in _find_maxima(fit.rows, lineage):
        if made.method != REML:
            continue
        slopes = zip(names[1:], made.beta[1:], made.se[1:], strict=True)
        for name, b, se in slopes:
            half = t * se
            rows.append((model, name, b, se, b - half, b + half))
    for block, of_block in lineage.blocks.items():
        _, by = design.effects[f"u_{block}"].basis
        drawn = fit.draws.flat(f"u_{block}") @ by.T
        for column in of_block:
            place = fit.design.covariates.index(column)
            d = drawn[:, place]
            lower, upper = find_equal_tailed(d, fit.level)
            label = f"log {column}" if lineage.logs else column
            ends = float(lower), float(upper)
            rows.append(("posterior", label, float(d.mean()), float(d.std()), *ends))
    return pd.DataFrame(rows, columns=["model", "slope on", "estimate", "se", "lower", "upper"])


def draw_node_gains(fit: Fit) -> tuple[Array, NDArray[np.bool_]]:
    """Draws of the log gain at every node, draws × nodes, and which nodes are models with rows.

    A model's is its own, of its shape and size; an ancestor's that of a model of mean shape and
    size without anything of its own.
    """
    design = fit.designed(LineageDesign)
    tree = design.lineage.tree
    values = fit.draws.few(DRAWS)
    descent = compute_placed_descent(design, values, Drift.project_nodes, len(tree))
    drawn = values["beta"] + descent
    error = fit.rows["error"].to_numpy(np.float64)
    gains = log_gains(values, design, fit.model.observed, error)
    measured = np.zeros(len(tree), dtype=bool)
    for i, name in enumerate(fit.rows["model_id"]):
        place = tree.place(name)
        drawn[:, place] = gains[:, i]
        measured[place] = True
    return drawn, measured


def list_nodes(fit: Fit) -> pd.DataFrame:
    """Log gain of every node: models as measured, ancestors as the tree says; P(below 1)."""
    tree = _read_lineage(fit).tree
    drawn, measured = draw_node_gains(fit)
    nodes = {"node": tree.names, "kind": tree.kinds, "measured": measured}
    return pd.DataFrame({**nodes, **_summarise_gains(drawn, fit.level)})


def _summarise_gains(drawn: Array, level: float) -> dict[str, Array]:
    """Mean and interval of log gains, draws × columns, and P(below 1)."""
    lower, upper = find_equal_tailed(drawn, level)
    below = np.asarray((drawn < 0).mean(axis=0))
    return {
        "mean": drawn.mean(axis=0),
        "lower": lower,
        "upper": upper,
        "probability_dampens": below,
    }


def _find_changes(fit: Fit) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    tree = _read_lineage(fit).tree
    drawn, measured = draw_node_gains(fit)
    pairs = []
    for place, parents in enumerate(tree.parents):
        for above in parents:
            pairs.append((place, above))
    child, parent = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    dampens = drawn < 0
    changed = dampens[:, child] != dampens[:, parent]
    parent_names = [tree.names[i] for i in parent]
    child_names = [tree.names[i] for i in child]
    kinds = [tree.kinds[i] or "not stated" for i in child]
    columns = {
        "parent": parent_names,
        "node": child_names,
        "kind": kinds,
        "both_measured": measured[child] & measured[parent],
        "p_change": changed.mean(axis=0),
    }
    return pd.DataFrame(columns), changed


def list_branches(fit: Fit) -> pd.DataFrame:
    """Every branch of the tree: P(parent and child lie on opposite sides of 1)."""
    return _find_changes(fit)[0]


def count_side_changes(fit: Fit) -> pd.DataFrame:
    """How often the side of 1 changes, by kind of branch and in all: branches, changes with their
    interval, share."""
    table, changed = _find_changes(fit)
    masks = {}
    for kind in sorted(set(table["kind"])):
        masks[kind] = (table["kind"] == kind).to_numpy()
    masks["all"] = np.ones(len(table), dtype=bool)
    masks["both measured"] = table["both_measured"].to_numpy()
    rows = []
    for kind, mask in masks.items():
        if not mask.any():
            continue
        counts = changed[:, mask].sum(axis=1)
        lower, upper = find_equal_tailed(counts.astype(np.float64), fit.level)
        mean = counts.mean()
        n = int(mask.sum())
        rows.append((kind, n, mean, float(lower), float(upper), mean / n))
    return pd.DataFrame(rows, columns=["kind", "branches", "changes", "lower", "upper", "share"])


def list_upcoming(fit: Fit) -> pd.DataFrame:
    """Log gain of a model not yet seen below every inner node: the next lab, family, sibling, or
    child of a model.

    Its shape and size are the mean of the models there. P(below 1).
    """
    lineage = _read_lineage(fit)
    tree = lineage.tree
    x = list(fit.design.covariates)
    above = {}
    for name in dict.fromkeys(fit.rows["model_id"]):
        above[name] = set(tree.ancestors(name))
    new = []
    for name in tree.names:
        lies_below = [name in above[model] for model in fit.rows["model_id"]]
        numbers = fit.rows.loc[lies_below, x]
        facts = np.exp(np.log(numbers).mean()) if lineage.logs else numbers.mean()
        new.append({"model_id": f"next of {name}", "parent": name, **facts})
    frame = pd.DataFrame(new)
    if lineage.instrument:
        frame[lineage.instrument] = "another"
    measured = set(fit.rows["model_id"])
    what = []
    for i, n in enumerate(tree.names):
        what.append("child" if n in measured else "top" if i == 0 else "sibling")
    gains = _summarise_gains(fit.predicted(frame), fit.level)
    return pd.DataFrame({"below": tree.names, "what": what, **gains})


def score_clades(fit: Fit) -> pd.DataFrame:
    """Every clade predicted from the others, exactly: the fit, and the same without descent and
    without each block."""
    lineage = _read_lineage(fit)
    folds = fit.rows["clade"].tolist()
    fits = {"all": fit}
    for name in (DESCENT, *lineage.blocks):
        law = replace(fit.law, of=lineage.drop_block(name).design_rows)
        fits[f"without {name}"] = fit.refit_law(law)
    left_out = {name: _leave_folds_out(fit_of, folds) for name, fit_of in fits.items()}
    return compare_predictions(left_out).reset_index()


def _leave_folds_out(fit: Fit, folds: list[str]) -> LeftOut:
    if isinstance(fit.model, Mixture):
        return leave_mixture_folds_out(fit.model, folds, seed=fit.seed)
    assert isinstance(fit.model, Gaussian)  # noqa: S101
    return leave_folds_out(fit.model, fit.draws, folds, seed=fit.seed)


def draw_dendrogram(fit: Fit, axes: Axes) -> Axes:
    """The tree with the log gain of every node as its colour."""
    table = list_nodes(fit)
    tree = _read_lineage(fit).tree
    colours = dict(zip(table["node"], table["mean"], strict=True))
    return draw_tree(tree, colours, axes)


TABLES: Mapping[str, Callable[[Fit], pd.DataFrame]] = {
    "slopes": summarise_slopes,
    "likelihood": summarise_likelihood,
    "nodes": list_nodes,
    "branches": list_branches,
    "sides": count_side_changes,
    "next": list_upcoming,
    "left out": score_clades,
    "power": summarise_power,
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


@record_call
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
    """Ask what of a gain is inherited along a tree of descent, next to shape and size.

        log G_i = α + Σ_b f_b,i + f_descent,i + f_i,model + error_i,
        shares φ of τ² ~ Dirichlet(a, …, a)

    The covariance is that of a tree whose highest model stands at 1, not a correlation; in trees of
    unequal heights lower models vary less. More than 400 models, up to 2,000, are drawn along the
    tree (Brownian motion, one row a model, no merges); their errors count as known.

    Parameters
    ----------
    rows : DataFrame
        `model_id` and `gain` as `gain_rows` gives them (per prompt, or averages with `gain_sd` and
        `n_prompts`), or `log_gain` with its standard error `error`, one row per model and
        `instrument`; several rows of a model count as repeats.
    tree : Tree
        Of `thermostats.tree`; base and tuned models enter together.
    blocks : mapping of str to columns
        Name to columns of numbers; by default geometry and scale by their logarithms, where the
        rows have them; `{}`: none.
    process : str
        `brownian`, `free` (a pull α, by quadrature; siblings may resemble each other more than
        parent and child do), `levels` (labs, families and parents each with a scale; the nested
        heritage model).
    estimand : str
        Which gain it is.
    instrument : str
        A column of who measured.
    se : str or float
        Known errors of `gain` as given, a column or a number.
    total_sd : float
        Scale of the half-normal prior of τ.
    concentration : float
        The a of the prior of the shares.
    seed : int
        Of the draws.
    settings : Settings
        How to draw.

    Returns
    -------
    Fit
        Quantities: `sd_<block>`, `share_<block>` of `descent`, every block and the single `model`;
        lambda; half_life, parent_child and siblings of `free`. Statements: orders of the blocks.
        Tables: slopes (least squares, Brownian, Pagel's λ, the posterior), likelihood, nodes
        (ancestral log gains), branches and sides (how often the side of 1 changes), next (sibling,
        child, lab), left out (exact, clade by clade), power.

    Raises
    ------
    UsageError
        For rows that are not in the tree, fewer than 4 models, gains that are not positive or all
        the same, a tree on which no two models share a branch, a process or column that does not
        exist.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.model_rows("pooled", "penultimate_gain")
    >>> tree = thermostats.tree(rows)
    >>> fit = thermostats.fit_lineage(rows, tree, blocks={})
    >>> fit.params[["share_descent", "share_model", "lambda"]].round(1)
    quantity
    share_descent    0.6
    share_model      0.4
    lambda           0.7
    Name: mean, dtype: float64
    """
    if process not in PROCESSES:
        raise build_unknown_error("no such process", process, PROCESSES)
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
    instruments = [instrument] if instrument else []
    check_columns(rows, "model_id", *instruments)
    rows, of_errors = _add_errors(_drop_repeats(rows, tree), se)
    chosen, logs = _read_blocks(rows, blocks)
    columns = [column for block in chosen.values() for column in block]
    means, warnings = _take_means(rows, estimand, columns, instrument, positive=logs)
    warnings += of_errors
    warnings += _check_tree(means, tree, process)
    warnings += _warn_borrowed(rows, tree)
    read_numbers(means["log_gain"], f"log {estimand}", varied=True)
    models = list_models(means)
    pruned = scale_height(tree.keep(models), models)
    descents: tuple[str, ...] = (DESCENT,)
    if process == LEVELS:
        descents = tuple(_build_levels(pruned, models))
    repeated = bool(means["model_id"].duplicated().any())
    lineage = Lineage(
        tree=pruned,
        process=process,
        descents=descents,
        blocks=chosen,
        logs=logs,
        total_sd=total_sd,
        concentration=concentration,
        instrument=instrument or "",
        repeated=repeated,
    )
    means["clade"] = lineage.tree.clades(means["model_id"].tolist())
    warnings += _warn_undetermined(means, lineage)
    sources = sorted(set(rows["source"].dropna())) if "source" in rows else []
    estimated = bool(np.isfinite(means["freedom"]).any()) and not lineage.is_pruned(models)
    law = build_lineage_law(lineage, estimated=estimated)
    return build_fit(
        law,
        means,
        seed=seed,
        settings=settings,
        estimand=estimand,
        sources=sources,
        warnings=(*read_remarks(rows), *tree.notes, *warnings),
        reads=require_columns("model_id", *columns, *instruments),
    )


def _build_levels(tree: Tree, models: Sequence[str]) -> dict[str, Array]:
    """Columns of each level of a tree's branches; UsageError for a tree that has none."""
    places = [tree.place(name) for name in models]
    return build_level_columns(tree, tree.roots()[places])


def build_lineage_law(lineage: Lineage, *, estimated: bool) -> Law:
    """The law of a tree, a process and blocks; `estimated`: errors of measurement are estimates."""
    parts = (DESCENT, *lineage.blocks, OWN)
    spreads = [*parts]
    if lineage.repeated:
        spreads.append(REPEAT)
    if lineage.instrument:
        spreads.append(INSTRUMENT)
    levels = [f"{DESCENT}_{name}" for name in ("lab", "family", "parent")]
    reported = [f"sd_{name}" for name in spreads]
    reported += [f"share_{name}" for name in parts]
    reported += ["lambda", "half_life", "parent_child", "siblings", "total_sd", POPULATION_MEAN]
    reported += [f"share_{name}" for name in levels]
    statements = {}
    for order in list_orders((DESCENT, *lineage.blocks)):
        statements[order] = partial(mark_ordered, order)
    of_pull = PULL if lineage.process == FREE else ()
    of_errors = (MODERATED,) if estimated else ()
    law = Law(
        name="lineage",
        of=lineage.design_rows,
        quantities=compute_quantities,
        reported=tuple(reported),
        statements=statements,
        statistics=build_statistics,
        equations=describe_descent(lineage),
        priors=(*of_pull, *of_errors),
        tables=TABLES,
        figures={"tree": draw_dendrogram},
        units=("clade", "model_id"),
    )
    others = {}
    for factor in (0.5, 2.0):
        value = factor * lineage.concentration
        others[f"concentration {value:g}"] = replace(lineage, concentration=value)
    return state_law(law, lineage, others)


def _drop_repeats(rows: pd.DataFrame, tree: Tree) -> pd.DataFrame:
    """Rows without those that a merged model has for its further parents; they are no repeats of a
    measurement."""
    merged = rows["model_id"].isin(tree.merges)
    facts = rows.drop(columns=["parent", "share"], errors="ignore")
    return rows[~(merged & facts.duplicated())]


def _add_errors(rows: pd.DataFrame, se: str | float | None) -> tuple[pd.DataFrame, list[str]]:
    """Rows with the log of a gain whose error is stated, and what was done."""
    if se is None:
        return rows, warn_unread_errors(rows, "gain", se) if "log_gain" in rows else []
    check_columns(rows, "gain")
    rows, warnings = filter_gains(rows, "gain")
    gain = rows["gain"].to_numpy(dtype=np.float64)
    errors, words = convert_log_errors(rows, se, "gain", gain)
    warnings.append(words)
    warnings += warn_unread_errors(rows, "gain", se, "gain_sd")
    return rows.assign(log_gain=np.log(gain), error=errors), warnings


def _read_blocks(
    rows: pd.DataFrame, blocks: Mapping[str, Sequence[str]] | None
) -> tuple[dict[str, tuple[str, ...]], bool]:
    """Blocks of columns, and whether they enter by their logarithms."""
    if blocks is None:
        standard = {}
        for name in ("geometry", "scale"):
            if set(BLOCKS[name]) <= set(rows):
                standard[name] = BLOCKS[name]
        return standard, True
    chosen = {}
    for name, columns_in in blocks.items():
        names = [columns_in] if isinstance(columns_in, str) else columns_in
        chosen[str(name)] = tuple(names)
    if not all(chosen.values()) or {DESCENT, OWN, INSTRUMENT, REPEAT} & set(chosen):
        allowed = (
            f"each of one column or more, none called {DESCENT}, {OWN}, {INSTRUMENT} or {REPEAT}"
        )
        raise UsageError("no such blocks", got=chosen, allowed=allowed)
    check_distinct_columns(
        chosen, lambda blocks: f"thermostats.fit_lineage(rows, tree, {blocks!r})"
    )
    columns = [column for in_block in chosen.values() for column in in_block]
    check_columns(rows, *columns)
    for column in columns:
        if not pd.api.types.is_numeric_dtype(rows[column]):
            raise UsageError(
                "a block of descent is of numbers; groups belong into the tree",
                where=column,
                got=rows[column].dtype,
                next_step="make columns of numbers with pandas.get_dummies, or name a parent in "
                "the tree",
            )
    return chosen, False


def _take_means(
    rows: pd.DataFrame,
    estimand: str,
    columns: Sequence[str],
    instrument: str | None,
    *,
    positive: bool,
) -> tuple[pd.DataFrame, list[str]]:
    """One row per model and instrument: log_gain, error, freedom, columns."""
    instruments = [instrument] if instrument else []
    if "log_gain" in rows:
        needed = dict.fromkeys(["model_id", "log_gain", *columns, *instruments])
        means = rows[[*needed]].copy()
        means["model_id"] = means["model_id"].astype(str)
        for name in ("log_gain", *columns):
            of_block = name in columns
            means[name] = read_numbers(rows[name], name, positive=positive and of_block)
        means["error"] = rows["error"].astype("float64").to_numpy() if "error" in rows else 0.0
        if not (np.isfinite(means["error"]) & (means["error"] >= 0)).all():
            raise UsageError(
                "a standard error is missing or below 0", where="error", allowed="0 or above"
            )
        return means.assign(freedom=np.inf).reset_index(drop=True), []
    read = partial(
        read_model_gains,
        estimand=estimand,
        outcome="gain",
        errors=add_moderated_errors,
        quantities=columns,
        optional=["family"],
        positive=positive,
    )
    if not instrument:
        gains = read(rows)
        return gains.table, [*gains.warnings]
    parts = []
    messages = []
    for name, group in rows.groupby(instrument, sort=True):
        gains = read(group)
        parts.append(gains.table.assign(**{instrument: name}))
        messages += [f"{name}: {warning}" for warning in gains.warnings]
    return pd.concat(parts, ignore_index=True), messages


def _check_tree(means: pd.DataFrame, tree: Tree, process: str) -> list[str]:
    """Refuse rows that the tree does not have and trees that say nothing; what else is odd about
    the two."""
    lacking = sorted({name for name in means["model_id"] if name not in tree})
    if lacking:
        raise UsageError(
            f"{format_count(len(lacking), 'model')} with rows and no place in the tree",
            got=list_names(lacking),
            allowed="models that are nodes of the tree",
            next_step='rows = rows[rows["model_id"].isin(tree.names)], or thermostats.tree(df)',
        )
    models = list_models(means)
    if len(models) < LEAST:
        raise UsageError("too few models", got=len(models), allowed=f"{LEAST} or more")
    repeated = means["model_id"].duplicated().any()
    prunable = process == BROWNIAN and not tree.merges and not repeated
    if len(models) > (MOST if prunable else DENSE):
        step = (
            "maximise the likelihood instead: "
            "thermostats.modelling.tree_likelihood.fit_pagel_by_pruning"
        )
        raise UsageError(
            "too many models for draws",
            got=len(models),
            allowed=f"{MOST} of one row each on a tree without merges, process='brownian'; else "
            f"{DENSE}",
            next_step=step if len(models) > MOST else "",
        )
    pruned = tree.keep(models)
    if process == LEVELS:
        _build_levels(pruned, models)
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
    messages = []
    if without:
        messages.append(
            f"{len(without)} tips of the tree have no rows and say nothing: {list_names(without)}"
        )
    estimated = np.isfinite(means["freedom"]).any()
    if len(models) > DENSE and estimated and (means["error"] > 0).any():
        messages.append(
            f"more than {DENSE} models: their standard errors count as known, and none is left out"
        )
    clades = sorted(set(pruned.clades(models)))
    if len(tree.keep(models).names) < len(tree) and set(tree.clades(models)) != set(clades):
        messages.append(
            f"all models lie in one clade ({pruned.names[0]}): descent is estimated within it alone"
        )
    return messages


def _warn_borrowed(rows: pd.DataFrame, tree: Tree) -> list[str]:
    """Models that hang on those of another lab, where the rows name labs that the tree has."""
    if "heritage" not in rows:
        return []
    first = rows.drop_duplicates("model_id").set_index("model_id")
    labs = first["heritage"].dropna().astype(str)
    other = []
    for name, lab in labs.items():
        if lab in tree and lab not in tree.ancestors(str(name)):
            other.append(name)
    if not other:
        return []
    return [f"hang on models of another lab, whose clade they count for: {list_names(other)}"]


def _warn_undetermined(means: pd.DataFrame, lineage: Lineage) -> list[str]:
    """Where λ cannot be estimated, with the size of a study that could."""
    n = means["model_id"].nunique()
    clades = means["clade"].nunique()
    test = build_restricted(means, lineage)
    low, high = test.interval()
    if high - low < WIDE:
        return []
    size = find_wanted_size(means, lineage)
    could = f"{size[0]} models in {size[1]} clades" if size else "more than 1,000 models"
    return [
        f"λ cannot be estimated from {n} models in {clades} clades (likelihood interval {low:.2f} "
        f"to {high:.2f}); "
        f"with trees of this shape it takes {could} to separate λ = 0.6 from 0 in 80% of studies"
    ]


def describe_descent(lineage: Lineage) -> tuple[str, ...]:
    """What the symbols of the model stand for."""
    lines = [
        "e_i ~ N(0, se_i²)   (model i)",
        EQUATIONS[lineage.process],
        "λ = σ²/(σ² + own²), σ² the variance of drift at the height of the highest model",
    ]
    for kind in declare_numbers(lineage.blocks, logs=lineage.logs):
        lines.append(describe_numbers(kind, logs=lineage.logs))
    return tuple(lines)


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
