"""Gains early in training against those at its end, among models of one shape: tests, rule and
worlds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.common_tests import count_share_in_groups
from thermostats.claims.evidence import Evidence
from thermostats.claims.noise import Errors, Noise, Random
from thermostats.claims.question import Test
from thermostats.claims.result import Estimate, Result, TooFew
from thermostats.claims.rule import ALPHA, AtLeast, Decide, EveryRow, Given, V
from thermostats.claims.worlds import (
    Outcomes,
    World,
    Worlds,
    build_errors,
    build_line_worlds,
    build_share_worlds,
    build_shift_worlds,
)
from thermostats.errors import UsageError
from thermostats.modelling.classical.interval_laws import StudentLaw
from thermostats.modelling.classical.many import (
    Many,
    estimate_differences,
    infer_by_student,
    measure_margin,
    wrap_counts,
)
from thermostats.modelling.draws import Array
from thermostats.plots.general import INK, MUTED, draw_reference, place_legend
from thermostats.plots.point_names import Look
from thermostats.studies.delia2026.published_gains import load_gains
from thermostats.studies.nursery.crossed import LOGS, build_table, fit_lines
from thermostats.studies.nursery.study_rows import (
    SIDES_OF_INTERVAL,
    add_logs,
    encode_levels,
    fit_inner_slope,
    measure_half_width,
    record_ends,
    run_jackknife,
)

R = V("within-cell rank correlation")
RARE = V("models on the rarer side")
KAPPA = "agreement beyond chance (κ)"
BY_RECIPE = "95% jackknife t interval over recipes"
HALF, RARER = 0.71, 10
"""Least correlation of interest, half of the variance of the ranks. With fewer models on the rarer
side signs say nothing."""
NEARLY_ONE, LEAST_GROUPS = 1 - 1e-12, 2
"""The largest correlation that has a finite z, and the fewest groups that say how it varies."""
FIXED = 0.9
"""Correlation with the end that is called fixed; the null is 0, what chance keeps."""
TABLE_OF_CORPORA = "corpora"
IN_CORPUS = Decide(R.lower > HALF, R.upper < HALF)
SETTLES = Given(RARE >= RARER, EveryRow(IN_CORPUS, TABLE_OF_CORPORA))
"""In every corpus by itself: correlations of corpora that differ have no mean that is anyone's."""


def build_end_worlds(cells: int, models: int) -> Worlds:
    """Gains at the end that go with the early ones at r = 0.9 inside cells, or not at all, alike in
    recipes.

    Over all rows less is needed than inside cells, in which 1 − cells/models of the errors'
    variance lies. Errors are normal: others have another rank correlation.
    """
    free = 1 - cells / models
    inside = FIXED**2 * free
    left = 1 - FIXED**2 * (1 - free)
    over_all = (inside / left) ** 0.5
    return build_line_worlds(
        "end",
        "ranked",
        over_all,
        kinds=("normal",),
        ordered=False,
        group="recipe",
        mean=True,
        measured="third_end",
    )


def measure_cell_correlation(
    x: pd.Series, y: pd.Series, cells: pd.Series, groups: pd.Series
) -> Estimate:
    """Spearman correlation of two columns inside cells, ranks over all rows off their cell's mean;
    rows of one group are not independent: a 95% jackknife t interval over groups, of Fisher's z,
    and the two-sided p of the same t.

    Raises UsageError where nothing varies inside cells.
    """
    outcomes = y.to_numpy(float)[None]
    found = measure_cell_correlations(x, outcomes, cells, groups)
    parts = (found.estimate, found.lower, found.upper, found.p)
    r, lower, upper, p = (float(part[0]) for part in parts)
    if math.isnan(r):
        raise refuse_uncorrelated(len(x), groups.nunique())
    return Estimate(r, lower, upper, BY_RECIPE, p)


def refuse_uncorrelated(rows: int, groups: int) -> UsageError:
    """What is wrong with rows that have no correlation inside cells."""
    return UsageError("nothing to correlate inside cells", got=f"{rows} rows, {groups} groups")


def measure_cell_correlations(
    x: pd.Series, outcomes: Array, cells: pd.Series, groups: pd.Series
) -> Many:
    """`measure_cell_correlation` of every row of `outcomes` (study × row); NaN where nothing
    varies inside cells."""
    cell, names = pd.factorize(cells)
    group, every = pd.factorize(groups)
    if len(every) < LEAST_GROUPS:
        raise refuse_uncorrelated(len(x), len(every))
    of_cell = _mark_members(cell, len(names))
    of_group = _mark_members(group, len(every))
    others = 1 - of_group.T
    weights = np.vstack([np.ones(len(x)), others])
    size = np.maximum(weights @ of_cell, 1)
    a = rank_cells(x, cells)
    b = stats.rankdata(outcomes, axis=1)
    cell_means = (b @ of_cell) / of_cell.sum(axis=0)
    b = b - cell_means[:, cell]

    def add_up(values: Array) -> Array:
        """Sums by cell without each group, study × (whole, groups) × cell."""
        return np.asarray(np.einsum("kr,sr,rc->skc", weights, values, of_cell, optimize=True))

    a1 = add_up(a[None])
    b1 = add_up(b)

    def add_products(products: Array, u: Array, v: Array) -> Array:
        """Sums of products off the means of cells, study × (whole, groups)."""
        off = add_up(products) - u * v / size
        return np.asarray(off.sum(axis=2))

    aa = add_products(a[None] * a, a1, a1)
    bb = add_products(b * b, b1, b1)
    ab = add_products(a * b, a1, b1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = ab / np.sqrt(aa * bb)
        bounded = np.clip(correlations, -NEARLY_ONE, NEARLY_ONE)
        z = np.arctanh(bounded).T
    half = measure_half_width(z[1:])
    df = len(z) - 2
    error = half / measure_margin(1.0, df)
    whole = z[0]
    t = np.abs(whole) / np.maximum(error, 1e-300)
    r, lower, upper = map(np.tanh, (whole, whole - half, whole + half))
    p = 2 * stats.t.sf(t, df)
    return Many(r, lower, upper, p, StudentLaw(df, scale="atanh"))


def _mark_members(codes: npt.NDArray[np.int64], n: int) -> Array:
    """1 where a row is of a group, rows × n groups."""
    member = codes[:, None] == np.arange(n)
    return np.asarray(member, dtype=float)


def _collect_sums(
    values: Array, group: npt.NDArray[np.int64], cell: npt.NDArray[np.int64]
) -> Array:
    """Sums by cell (columns) of all rows, then of all without each group in turn."""
    n_groups = int(group.max()) + 1
    n_cells = int(cell.max()) + 1
    places = group * n_cells + cell
    sums = np.bincount(places, values, n_groups * n_cells)
    sums = sums.reshape(n_groups, n_cells)
    whole = sums.sum(axis=0, keepdims=True)
    return np.concatenate([whole, whole - sums])


def rank_cells(values: pd.Series, cells: pd.Series) -> Array:
    """Ranks over all rows, off the mean rank of their cell."""
    ranks = pd.Series(stats.rankdata(values), index=cells.index)
    means = ranks.groupby(cells).transform("mean")
    return np.asarray(ranks - means)


def measure_kappa(first: pd.Series, second: pd.Series, groups: pd.Series) -> Estimate:
    """Cohen's κ of two columns of truth values, with its 95% jackknife t interval over groups; None
    where undefined."""
    a = first.to_numpy(bool)
    b = second.to_numpy(bool)
    group = pd.factorize(groups)[0]
    one_cell = np.zeros_like(group)
    sums = []
    for column in (np.ones(len(a)), a, b, a == b):
        numbers = np.asarray(column, float)
        by_group = _collect_sums(numbers, group, one_cell)
        sums.append(by_group[:, 0])
    n, p, q, same = sums
    p = p / n
    q = q / n
    same = same / n
    chance = p * q + (1 - p) * (1 - q)
    with np.errstate(divide="ignore", invalid="ignore"):
        agreement = (same - chance) / (1 - chance)
        values = np.where(chance < 1, agreement, np.nan)
    half = measure_half_width(values[1:])
    reach = half * SIDES_OF_INTERVAL
    ends = (values[0] + reach).tolist()
    value, lower, upper = (None if math.isnan(end) else end for end in ends)
    return Estimate(value, lower, upper, BY_RECIPE)


def estimate_ranks(rows: pd.DataFrame) -> Result:
    """Correlation of `early` with `end` inside cells, agreement of their signs, and how many end on
    the rarer side."""
    early = rows["early"]
    end = rows["end"]
    recipe = rows["recipe"]
    up = end > 0
    rare = float(min(up.sum(), (~up).sum()))
    r = measure_cell_correlation(early, end, rows["cell"], recipe)
    kappa = measure_kappa(early > 0, up, recipe)
    return Result.build(rows, {R.name: r, KAPPA: kappa, RARE.name: Estimate(rare)})


def estimate_corpus_ranks(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Correlation of `early` with `end` inside cells of every corpus, and how many models end on
    the rarer side."""
    end = outcomes["end"]
    up = (end > 0).sum(axis=1)
    each = []
    numbered = rows.assign(place=np.arange(len(rows)))
    for _, part in numbered.groupby("trained_on", sort=True):
        ends = end[:, part["place"]]
        r = measure_cell_correlations(part["early"], ends, part["cell"], part["recipe"])
        each.append({R.name: r})
    rare = np.minimum(up, len(rows) - up)
    return {RARE.name: wrap_counts(rare), TABLE_OF_CORPORA: each}


def describe_corpus_ranks(rows: pd.DataFrame, result: Result) -> Result:
    """Correlations by corpus, the largest of which heads it, and agreement of the signs."""
    table = result.rows[TABLE_OF_CORPORA]
    table = table.rename(columns={"p": f"{R.name}_p"})
    corpora = rows["trained_on"].astype(str).unique()
    table.insert(0, "corpus", sorted(corpora))
    ends = [f"{R.name}_{part}" for part in ("lower", "upper", "p")]
    largest = table.loc[table[R.name].idxmax(), [R.name, *ends]]
    r, lower, upper, p = map(float, largest)
    kappa = measure_kappa(rows["early"] > 0, rows["end"] > 0, rows["recipe"])
    quantities = {R.name: Estimate(r, lower, upper, BY_RECIPE, p), KAPPA: kappa}
    quantities |= result.quantities
    return replace(result, quantities=quantities, rows={TABLE_OF_CORPORA: table})


CORPUS_RANKS = Test(estimate_corpus_ranks, ("end",), describe=describe_corpus_ranks)


def describe_corpus(rows: pd.DataFrame) -> dict[str, float | None]:
    """Models on either side at the end, those that kept their side, and the correlation; of one
    corpus."""
    r = estimate_ranks(rows).quantities[R.name]
    ends = {"r": r.value, "lower": r.lower, "upper": r.upper}
    early_side = rows["early"] > 0
    kept = early_side == (rows["end"] > 0)
    dampen = rows["end"] < 0
    counts = {"models": len(rows), "dampen": int(dampen.sum()), "kept": int(kept.sum())}
    return {**ends, **counts}


def summarise_training(
    at_share: Callable[[float], pd.DataFrame], shares: Sequence[float]
) -> pd.DataFrame:
    """By share of training: models that dampen, correlation with the end inside cells and κ, with
    their intervals."""
    rows = []
    for share in shares:
        if (at_step := at_share(share)).empty:
            continue
        quantities = estimate_ranks(at_step).quantities
        dampen = int((at_step["early"] < 0).sum())
        row: dict[str, float | None] = {"share": share, "models": len(at_step), "dampen": dampen}
        row |= record_ends("r", quantities[R.name])
        row |= record_ends("kappa", quantities[KAPPA])
        rows.append(row)
    return pd.DataFrame(rows)


LAW, MARGIN = 0.5, 0.25
"""Exponents of the law; half of it up or down is no longer it."""
SCATTER, CORPUS = 0.3, 0.35
"""SD of what else differs between recipes, as in the design's simulation (rules.csv), and what the
corpus does."""
FOUND = 0.5
"""That SD as the second study's recipes have it."""
RATE = "exponent of rate"
DECAY = "exponent of 1/decay"
SINGLE = "power of √(rate/decay)"
INTERVAL = "95% t interval over recipes"


def fit_exponents(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Least squares of `spectrum` on log_rate and log_decay, and on log_ratio alone, given
    optimiser and corpus."""
    y = outcomes["spectrum"]
    rate = _fit_slopes(rows, y, "log_rate", "log_decay")
    decay = _fit_slopes(rows, y, "log_decay", "log_rate")
    inverse = replace(decay, estimate=-decay.estimate, lower=-decay.upper, upper=-decay.lower)
    return {RATE: rate, DECAY: inverse, SINGLE: _fit_slopes(rows, y, "log_ratio")}


def lead_decay(_: pd.DataFrame, result: Result) -> Result:
    """The result headed by the exponent of decay."""
    return replace(result, estimate=DECAY)


EXPONENTS = Test(fit_exponents, ("spectrum",), INTERVAL, "p-value", lead_decay)


def _fit_slopes(rows: pd.DataFrame, y: Array, term: str, *others: str) -> Many:
    """`fit_inner_slope` of every row of `y`, given optimiser and corpus; raises UsageError where
    rows are no more than what is given and the slope."""
    given = encode_levels(rows, "optimiser", [*others, "synthetic"])
    projection = given @ np.linalg.pinv(given)
    off = np.eye(len(rows)) - projection
    x = off @ rows[term].to_numpy(float)
    rank = int(np.linalg.matrix_rank(given))
    df = len(rows) - rank - 1
    if df < 1:
        allowed = f"{len(rows) - df + 1} or more"
        raise UsageError("too few recipes for an exponent", got=len(rows), allowed=allowed)
    slope = y @ x / (x @ x)
    explained = slope[:, None] * x
    left = y @ off - explained
    variance = np.square(left).sum(axis=1) / df
    error = np.sqrt(variance / (x @ x))
    return infer_by_student(slope, error, df)


KINDS = ("normal", "t3", "heteroscedastic labs")


def build_exponent_worlds(measured: str) -> Worlds:
    """Both exponents as the law has them, and at the edges of the margin or where one of the two
    does nothing.

    SDs are as designed or as found. measured: the outcome, as `build_errors` has it.
    """
    at_rest, of_errors = build_errors("log_rate", ordered=False, group="", measured=measured)
    weak = LAW - MARGIN
    others = {
        "both weak": (weak, weak),
        "weak rate": (weak, LAW),
        "strong rate": (LAW + MARGIN, LAW),
        "rate alone": (LAW, 0.0),
        "decay alone": (0.0, LAW),
        "neither": (0.0, 0.0),
    }
    box = {**of_errors, "scatter": (SCATTER, FOUND)}
    nuisances = {"scatter": "errors have an SD of {value}"}
    kinds = at_rest.limits.choose_kinds(KINDS, "")
    make = partial(_make_world, at_rest)
    return Worlds(make, (LAW, LAW), (LAW, weak), box, kinds, others, nuisances)


def _make_world(
    at_rest: Errors,
    both: tuple[float, float],
    *,
    kind: str,
    ratio: float,
    scatter: float,
    wide: float = 0.0,
) -> World:
    rate, decay = both
    limits = at_rest.limits.widen() if wide else at_rest.limits
    errors = replace(at_rest, kind=kind, ratio=ratio, limits=limits)
    exponents = f"{rate:.3g} of rate and {decay:.3g} of 1/decay"
    words = f"exponents {exponents}, SD {scatter:.3g}, {errors.words}"
    return World(words, partial(_simulate_changes, rate, decay, scatter), errors)


def _simulate_changes(
    rate: float, decay: float, scatter: float, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    x = rows[["log_rate", "log_decay", "synthetic"]].to_numpy(float)
    effects = np.array([rate, -decay, CORPUS])
    return {"spectrum": x @ effects + scatter * noise(rows)}


SOME, MANY, SHOULD = 0.01, 0.10, 0.20
"""Crossings in more than 1% are some; in fewer than 10% tuning as good as never crosses; 20% should
be found."""
TUNED = AtLeast(models=40)
CROSSED = V("share of pairs that cross 1")
CAN_CROSS = Decide(CROSSED.lower > SOME, CROSSED.upper < MANY)
ACROSS = build_share_worlds("flips", SHOULD, 0.0, "pair")


CROSSING = count_share_in_groups(CROSSED.name, "flips", "pair")
"""Share of pairs that cross 1 clearly."""

STIFF, HALF_AS_MUCH = V("log ratio of changes, dampening to expanding"), math.log(0.5)
"""Stiff models change less; half as much is the declared size."""
OF_A_NORMAL = 1.11
"""Standard deviation of log |z| of a normal z, as the logs of changes without a rule have."""
LESS = Decide((STIFF < 0) & (STIFF.p <= ALPHA), (STIFF > 0) & (STIFF.p <= ALPHA))
STIFFER = build_shift_worlds(
    "log_change", HALF_AS_MUCH, OF_A_NORMAL, "dampens", group="", measured="third_change"
)
"""Recipes are moved whole between the sides, so that what a recipe's models have in common is no
nuisance."""


def add_changes(rows: pd.DataFrame) -> pd.DataFrame:
    """Pairs with `log_change`, the log of |Δ log gain|, and `side`, the recipe with the side of 1
    of its bases.

    Raises TooFew for fewer than two recipes on a side of 1.
    """
    change = (rows["tuned"] - rows["base"]).abs()
    side = np.where(rows["dampens"], " below 1", " above 1")
    rows = rows.assign(log_change=np.log(change), side=rows["heritage"] + side)
    recipes = rows.groupby("dampens")["side"].nunique()
    if recipes.reindex([True, False], fill_value=0).min() < LEAST_GROUPS:
        raise TooFew(Result.build(rows))
    return rows


def compare_sides(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """How much less dampening models change, over recipes, moved whole between the sides of 1."""
    dampens = rows["dampens"].to_numpy(bool)
    found = estimate_differences(outcomes["log_change"], dampens, rows["side"])
    moved = wrap_counts(found.estimate)
    return {STIFF.name: replace(moved, p=found.p)}


STIFFNESS = Test(compare_sides, ("log_change",), p_kind="permutation p-value, recipes moved whole")


def summarise_changes(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Geometric means of |Δ log gain| of dampening and expanding bases by kind of tuning."""
    log_changes = rows.groupby(["kind", "dampens"])["log_change"].mean()
    means = np.exp(log_changes)
    sides = {True: "dampening", False: "expanding"}
    by: dict[str, dict[str, float]] = {}
    for kind in means.index.unique("kind"):
        by[str(kind)] = {}
    for (kind, dampens), change in means.items():
        by[str(kind)][sides[bool(dampens)]] = float(change)
    return by


def count_crossings(rows: pd.DataFrame) -> dict[str, Any]:
    """Pairs that cross 1 by kind, of how many bases, and from how far."""
    bases = rows.drop_duplicates("pair")
    kinds = rows.groupby("kind")["flips"].agg(["sum", "size"])
    crossing = rows[rows["flips"]]
    far = crossing["base"].abs()
    farthest = None
    reach = 0.0
    if len(far):
        log_gain = crossing["base"].loc[far.idxmax()]
        farthest = float(np.exp(log_gain))
        reach = far.max()
    within = rows["base"].abs() <= reach
    downwards = crossing["base"] > 0
    return {
        "flips": len(crossing),
        "pairs": len(rows),
        "kinds": kinds.to_dict("index"),
        "bases": rows["pair"].nunique(),
        "crossed": crossing["pair"].nunique(),
        "dampened": int(bases["dampens"].sum()),
        "downwards": int(downwards.sum()),
        "farthest": farthest,
        "as_near": int(within.sum()),
    }


SHAPES = {
    "adamw": ("AdamW", "o", "#0072B2"),
    "lion": ("Lion", "s", "#9C4A4A"),
    "muon": ("Muon", "^", "#3B7A78"),
}
"""Optimisers whose steps have a set size."""


BLOCKS = {
    "corpus": "corpus",
    "recipe": "recipe, of one corpus\n(claimed: most)",
    "shape": "shape at one size: L/d, ρ\n(claimed: second)",
    "size": "size: N\n(claimed: least)",
}
"""Blocks of the figure of spreads, from the top, with their place in the claim."""
COLORS = ("#0072B2", "#D55E00", "#3B7A78", "#9C4A4A")
DIAGONAL: Look = {"color": MUTED, "linewidth": 0.9, "linestyle": (0, (4, 3))}


def draw_spreads(table: pd.DataFrame, axes: Axes) -> Axes:
    """Standard deviations that BLOCKS make in the log gain with 95% intervals; the first `of` is
    drawn thickest."""
    every = table["of"].unique()
    for place, of in enumerate(every):
        color = (INK, *COLORS)[place]
        rows = table[table["of"] == of].set_index("block")
        rows = rows.loc[list(BLOCKS)]
        middle = (len(every) - 1) / 2
        off = 0.64 / len(every) * (place - middle)
        at = np.arange(len(BLOCKS)) + off
        width, size = (1.2, 24) if place else (2.2, 44)
        axes.hlines(at, rows["lower"], rows["upper"], color=color, linewidth=width)
        look: Look = {"color": color, "marker": "osD^v"[place], "s": size}
        axes.scatter(rows["estimate"], at, zorder=3, label=of, **look)
    axes.set_yticks(np.arange(len(BLOCKS)), list(BLOCKS.values()))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("standard deviation of the log penultimate gain")
    place_legend(axes)
    return axes


def draw_recipes(rows: pd.DataFrame, axes: Axes) -> Axes:
    """Mean log gain of every recipe in every corpus, off the corpus's mean, recipes by their mean
    over corpora."""
    means = rows.pivot_table(index="recipe", columns="trained_on", values="log_gain", observed=True)
    means = means - means.mean()
    over_corpora = means.mean(axis=1).sort_values()
    means = means.loc[over_corpora.index]
    places = np.arange(len(means))
    for (corpus, frame), marker, color in zip(means.items(), "osD^", COLORS, strict=False):
        axes.scatter(places, frame, marker=marker, s=26, color=color, label=str(corpus))
    axes.plot(places, means.mean(axis=1), color=INK, linewidth=1.0)
    draw_reference(axes, 0.0)
    axes.set_xticks(places, means.index, rotation=90, fontsize=7)
    axes.set(xlabel="recipe, by its mean over corpora", ylabel="mean log gain, off its corpus's")
    place_legend(axes)
    return axes


def draw_spectra(rows: pd.DataFrame, axes: Axes, what: str) -> None:
    """Log spectral norm (column `spectrum`, in words `what`) against log √(rate/decay): fitted
    line, and slope 1.

    Open marks are recipes of the synthetic corpus.
    """
    for (name, synthetic), group in rows.groupby(["optimiser", "synthetic"]):
        words, marker, color = SHAPES[str(name)]
        look: Look = {"facecolor": color, "label": words}
        if synthetic == 1:
            look = {"facecolor": "white"}
        look |= {"edgecolor": color, "marker": marker}
        axes.scatter(group["log_ratio"], group["spectrum"], s=28, **look)
    ratios = rows["log_ratio"]
    ends = np.array([ratios.min(), ratios.max()], dtype=float)
    slope, _, _ = fit_inner_slope(rows, "spectrum", "log_ratio", "optimiser", ["synthetic"])
    axes.plot(ends, slope * ends, color=INK, linewidth=1.2, label="fitted, given the corpus")
    axes.plot(ends, ends, label="slope 1", **DIAGONAL)
    place_legend(axes)
    axes.set_xlabel("log √(rate/decay), off the optimiser's mean")
    axes.set_ylabel(f"log {what}, off the optimiser's mean")


def draw_settling(table: pd.DataFrame, axes: Axes) -> None:
    """Correlation with the end (`r`) and agreement of the sides (`kappa`) by `share` of
    training, with intervals."""
    measures = {"r": "gain: rank correlation within shape", "kappa": "side of 1: κ"}
    for place, (name, words) in enumerate(measures.items()):
        at = np.arange(len(table)) + 0.12 * place
        value = table[name].astype(float)
        ends = table[[f"{name}_lower", f"{name}_upper"]].astype(float)
        off = np.abs(ends.to_numpy().T - value.to_numpy())
        color = (INK, SHAPES["lion"][2])[place]
        look: Look = {"marker": "os"[place], "markersize": 5, "color": color}
        axes.errorbar(at, value, off, label=words, linewidth=1.2, **look)
    draw_reference(axes, 0.0)
    shares = [f"{share:.0%}" for share in table["share"]]
    axes.set_xticks(np.arange(len(table)), shares)
    axes.set(xlabel="share of training", ylabel="agreement with the end")
    place_legend(axes)


KIND_LOOKS = (("#0072B2", "o"), ("#9C4A4A", "s"), ("#3B7A78", "^"))
"""Colours and marks of kinds of tuning."""


def draw_changes(rows: pd.DataFrame, axes: Axes) -> None:
    """|Δ log gain| by tuning against the log gain of the base by `kind`, on a log axis."""
    draw_reference(axes, 0.0, vertical=True)
    for place, (kind, group) in enumerate(rows.groupby("kind")):
        change = np.exp(group["log_change"])
        color, marker = KIND_LOOKS[place]
        axes.scatter(group["base"], change, s=30, marker=marker, color=color, label=kind)
    axes.set_yscale("log")
    axes.set(xlabel="log penultimate gain of the base", ylabel="change of the log gain by tuning")
    place_legend(axes)


def draw_tuned(rows: pd.DataFrame, axes: Axes) -> None:
    """Log gain after tuning (`tuned`) against that of its base (`base`) by `kind`; filled
    where the pair crosses 1."""
    draw_reference(axes, 0.0)
    draw_reference(axes, 0.0, vertical=True)
    for place, (kind, group) in enumerate(rows.groupby("kind")):
        color, marker = KIND_LOOKS[place]
        face = np.where(group["flips"], color, "white")
        look: Look = {"facecolor": face, "edgecolor": color, "marker": marker}
        axes.scatter(group["base"], group["tuned"], s=30, label=kind, **look)
    base = rows["base"]
    ends = [float(base.min()), float(base.max())]
    axes.plot(ends, ends, **DIAGONAL)
    axes.set(xlabel="log penultimate gain of the base", ylabel="after tuning")
    place_legend(axes)


SAVED = "squared error saved"
QUARTER = 0.5
"""What would be of interest: predictions that correlate at 0.5, a quarter of the variance; the null
is 0."""
UNITS = {"labs": "heritage", "models": "model_id"}


def load_published_rows(tables: Evidence) -> pd.DataFrame:
    """Comparable published models with C04's columns and the design's."""
    rows = load_gains(tables)
    return add_logs(rows[rows["comparable"]].reset_index(drop=True))


def combine_slopes(rows: pd.DataFrame) -> Array:
    """Mean slopes on log L, log ρ and log d over recipes and corpora."""
    y, x, _ = build_table(rows)
    effects, _ = fit_lines(y, x - x.mean(axis=0))
    slopes = effects[..., 1:]
    return np.asarray(slopes.mean(axis=(0, 1)))


def add_predictions(published: pd.DataFrame, slope: Array) -> pd.DataFrame:
    """Per published model: model_id, heritage, log_gain, and predicted by one row of slopes about
    the mean."""
    x = published[LOGS].to_numpy(float)
    centred = x - x.mean(axis=0)
    predicted = published["log_gain"].mean() + centred @ slope
    return published[["model_id", "heritage", "log_gain"]].assign(predicted=predicted)


def measure_saved(rows: pd.DataFrame, y: Array) -> tuple[Array, dict[str, Array]]:
    """Mean squared error of the mean of outcomes (study × row) minus that of the predictions, and
    half the width of its 95% jackknife t interval over labs and over models."""
    predicted = rows["predicted"].to_numpy(float)

    def save(remaining: npt.NDArray[np.bool_]) -> Array:
        kept = y[:, remaining]
        deviations = kept - kept.mean(axis=1, keepdims=True)
        guesses = predicted[remaining]
        left = deviations - (guesses - guesses.mean())
        error = np.square(left).mean(axis=1)
        saved = np.square(deviations).mean(axis=1) - error
        return np.asarray(saved)

    halves = {}
    for unit, column in UNITS.items():
        _, _, half = run_jackknife(rows[column], save)
        halves[unit] = half
    every = np.ones(len(rows), dtype=bool)
    return save(every), halves


def estimate_saved(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Squared error that predictions save over the mean, of rows of `add_predictions`.

    Its interval is the wider of two 95% jackknife t intervals, over labs and over models: of five
    labs of unequal size the one over labs alone can be a quarter of that over models.
    """
    saved, halves = measure_saved(rows, outcomes["log_gain"])
    half = np.maximum(*halves.values())
    wider = np.argmax(list(halves.values()), axis=0)
    free = np.array([rows[column].nunique() - 1 for column in UNITS.values()])
    none = np.full(len(saved), np.nan)
    law = StudentLaw(free[wider])
    ends = (saved, saved - half, saved + half)
    return {SAVED: Many(*ends, none, law)}


def describe_saved(rows: pd.DataFrame, result: Result) -> Result:
    """With which of the two intervals is the wider, and the rows."""
    y = rows["log_gain"].to_numpy(float)
    _, halves = measure_saved(rows, y[None])
    unit = max(halves, key=lambda name: float(halves[name][0]))
    interval = (
        f"the wider of two 95% jackknife t intervals, over labs and over models (that over {unit})"
    )
    return result.name_intervals({SAVED: interval}).adding(table=rows)


PREDICTED = Test(estimate_saved, ("log_gain",), describe=describe_saved)


def draw_predictions(axes: Axes, predictions: pd.DataFrame) -> None:
    """Published against predicted, with the line of agreement."""
    predicted = predictions["predicted"]
    axes.scatter(predicted, predictions["log_gain"], s=28, color="0.2")
    ends = [float(predicted.min()), float(predicted.max())]
    axes.plot(ends, ends, color="0.6", linewidth=1)
    draw_reference(axes, 0.0)
    axes.set_xlabel("log penultimate gain as predicted by the nursery")
    axes.set_ylabel("as published")


def judge_predictions(predictions: pd.DataFrame) -> Result:
    """Squared error saved with its figure, and how predictions go with what was published."""
    published = predictions["log_gain"]
    r = np.corrcoef(predictions["predicted"], published)[0, 1]
    words = {"r": float(r), "variance": float(published.var(ddof=0))}
    draw = partial(draw_predictions, predictions=predictions)
    return replace(PREDICTED(predictions), draw=draw, words=words)
