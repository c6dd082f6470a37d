"""log(tuned/base)_jp ~ t₄(δ_j + γ_j (log base_jp − μ_j), r_j), δ_j ~ N(Δ, s_δ²): does tuning move
the gain past 1?

Pairs j of a base model and the model tuned from it, one population of pairs, with the prompts p
that both answered.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import t as student

from thermostats.errors import UsageError
from thermostats.formatting import strip_owner
from thermostats.modelling.columns import (
    check_columns,
    is_constant,
    list_names,
    name_estimand,
    read_labels,
    read_numbers,
    require_columns,
)
from thermostats.modelling.draws import (
    SEED,
    Array,
    Quantities,
    Settings,
    Statement,
    Statistic,
    find_equal_tailed,
)
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.importance import estimate_moderated_errors
from thermostats.modelling.laws import LOG, Law
from thermostats.modelling.mixed_model import (
    Fixed,
    Levels,
    Mixed,
    MixedDesign,
    Rest,
    declare_law,
    name_draws,
)
from thermostats.modelling.populations import check_repeated_prompts, list_sources
from thermostats.next_steps import write_command
from thermostats.plots.general import log_axis
from thermostats.settings import check_coverage, options
from thermostats.settings import options as session
from thermostats.tables.features import LAST
from thermostats.tables.reading import read_values

LEAST = 3
"""Prompts of a pair."""
ROUNDING = 1e-12


def build_pairs(
    table: pd.DataFrame, *, only_related: bool = True
) -> tuple[pd.DataFrame, list[str]]:
    """One row per pair and shared prompt, from one row per model and prompt; and what was left out.

    Columns taken: model_id, heritage, family, variant, parent, prompt_id, value (the gain). Given:
    pair (its name), base_id, tuned_id, related (tuned from this base), heritage, prompt_id, base
    (log gain of the base), change (log(tuned/base)). A tuned model goes with its parent; without
    one in the table it goes with the only base of its family, and is left out with a warning where
    `only_related`; so are bases that nothing was tuned from, and prompts that one model of a pair
    did not answer.

    Raises UsageError for gains that are missing, infinite or not above 0, a prompt twice, a missing
    lab, no pair, fewer than 3 prompts of a pair, and a pair in which one gain is constant or
    follows from the other exactly.
    """
    columns = ("heritage", "family", "variant", "parent", "prompt_id", "value")
    check_columns(table, "model_id", *columns)
    values = read_numbers(table["value"], "value", positive=True)
    gains = table.reset_index(drop=True).assign(value=values)
    check_repeated_prompts(gains)
    read_labels(gains["heritage"], "heritage")
    models = gains.drop_duplicates("model_id").set_index("model_id")
    is_base = models["variant"] == "base"
    bases = models[is_base]
    wide = np.log(gains.pivot(index="prompt_id", columns="model_id", values="value"))
    pairs = []
    warnings = list[str]()
    unshared = list[str]()
    for tuned, row in models[models["variant"] != "base"].sort_index().iterrows():
        family = bases.index[bases["family"] == row["family"]]
        related = row["parent"] in bases.index
        if not related and (only_related or len(family) != 1):
            warnings.append(f"{tuned} left out: its parent is not in the table")
            continue
        base = row["parent"] if related else family[0]
        if not related:
            warnings.append(f"{tuned} was not tuned from {base}")
        both = wide[[base, tuned]].dropna(how="all")
        names = f"{base}, {tuned}"
        shared = _find_shared_prompts(both, names)
        name = f"{base} → {tuned}"
        missing = len(both) - len(shared)
        if missing:
            unshared.append(f"{missing} of {len(both)} in {name}")
        changes = {
            "pair": name,
            "base_id": base,
            "tuned_id": tuned,
            "related": related,
            "heritage": row["heritage"],
            "prompt_id": shared.index,
            "base": shared[base],
            "change": shared[tuned] - shared[base],
        }
        pairs.append(pd.DataFrame(changes).reset_index(drop=True))
    if not pairs:
        raise UsageError(
            "no pair of base and tuned model",
            got="; ".join(warnings) or "no tuned model",
            allowed="a tuned model whose parent is in the table",
        )
    rows = pd.concat(pairs, ignore_index=True)
    warnings += _collect_warnings(rows, set(bases.index), unshared)
    return rows, warnings


def _find_shared_prompts(both: pd.DataFrame, where: str) -> pd.DataFrame:
    """Prompts that both models answered, their changes with spread beyond what the base tells: else
    no scale exists."""
    shared = both.dropna()
    if len(shared) < LEAST:
        raise UsageError(
            "too few shared prompts", where=where, got=len(shared), allowed=f"at least {LEAST}"
        )
    base, tuned = shared.to_numpy(dtype=np.float64).T
    change = tuned - base
    X = np.column_stack([np.ones(base.size), base])
    slopes = np.linalg.lstsq(X, change, rcond=None)[0]
    rest: Array = change - X @ slopes
    sizes = np.abs(shared.to_numpy())
    largest = max(sizes.max(), 1e-300)
    if is_constant(base) or np.abs(rest).max() <= ROUNDING * largest:
        raise UsageError(
            "one gain of a pair is constant, or follows from the other exactly",
            where=where,
            allowed="gains that were measured prompt by prompt",
            next_step="look for a file that holds one model twice",
        )
    return shared


def _collect_warnings(rows: pd.DataFrame, bases: set[str], unshared: list[str]) -> list[str]:
    pairs = rows.drop_duplicates("pair")
    several = set(pairs.loc[pairs["base_id"].duplicated(), "base_id"])
    found: dict[str, Collection[str]] = {
        "prompts that one model of a pair did not answer, left out": unshared,
        "left out, since no model tuned from it is in the table": bases - set(pairs["base_id"]),
        "base of several pairs, which are counted as independent": several,
    }
    lines = []
    for words, names in found.items():
        if names:
            lines.append(f"{words}: {list_names(names)}")
    labs = pairs["heritage"]
    if len(pairs) > 1 and labs.nunique() == 1:
        only = labs.iloc[0]
        lines.append(f"all pairs are of {only}: what tuning does in other labs is not observed")
    return lines


SCALE = 0.5
SHARE = SCALE / 2**0.5
MARGIN = 1.1
"""Changes by less than this factor count as none."""
OF_PRIOR = 20_000
"""Draws from the prior of pairs not seen."""
FEW = 10
SIDES = (0.1, 0.25, 0.5)
"""Shares of pairs that change sides, for which it is said how likely these pairs were to show
one."""
REST = 0.01
"""Prior scale of what a mean of log gains leaves out besides its prompts: 1% of the gain."""


@record_call
def fit_invariance(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    only_related: bool = True,
    margin: float = MARGIN,
    seed: int = SEED,
    settings: Settings = Settings(),  # noqa: B008
) -> Fit:
    """Ask whether tuning changes a gain: pairs of a base and a tuned model on the same prompts.

        b̄_j ~ N(μ_j, s_0² + e_j²), d̄_j − γ_j b̄_j ~ N(δ_j − γ_j μ_j, s_0² + f_j²)

    A pair has two outcomes: its base's mean log gain, and its mean change less what the base's
    prompts tell of it, with standard errors over prompts that are uncertain themselves. δ_j ~ N(Δ,
    s_δ²), μ_j ~ N(m, s_μ²).

    Parameters
    ----------
    table : DataFrame
        One row per model and prompt, as `prompt_rows` gives it.
    estimand : str
        The gain that is in `value`.
    only_related : bool
        Pairs of which the tuned model was made from the base, alone.
    margin : float
        A ratio within 1/margin to margin counts as no change; above 1.
    seed : int
        Of the draws.
    settings : Settings
        How to draw.

    Returns
    -------
    Fit
        Quantities: ratio (by pair), ratio_of_all (exp Δ), shift_sd, level_sd; statements may read
        level (μ) and change (δ) too. Tables: `pairs` (levels, ratio with interval, P(sign changes),
        P(ratio within 1/margin to margin), share of prompts that change sides), `new_pair` (P(sign
        changes) of a pair not seen: of any pair, with a base that dampens, that expands, that is
        near 1; from the prior alone with it), `shown` (what so many pairs can show: the chance of
        one that changes sides, were a share of them to do so, and the bound on that share had
        none).

    Raises
    ------
    UsageError
        For gains that are missing, infinite or not above 0, a prompt twice, a missing lab, no pair,
        fewer than 3 prompts of a pair, a pair in which one gain is constant or follows from the
        other exactly, and for a margin not above 1.

    Examples
    --------
    >>> import thermostats
    >>> from thermostats.studies.delia2026 import fit_invariance
    >>> fit = fit_invariance(thermostats.prompt_rows("last_gain", "pooled"))
    >>> sorted(fit.reported)
    ['level_sd', 'ratio', 'ratio_of_all', 'shift_sd']
    """
    rows, warnings = check_pairs(table, margin, only_related=only_related)
    of_pairs = table["model_id"].isin({*rows["base_id"], *rows["tuned_id"]})
    law = declare_law(state_pairs(margin), PAIRS)
    sources = list_sources(table[of_pairs])
    return build_fit(
        law,
        rows,
        seed=seed,
        settings=settings,
        estimand=name_estimand(estimand, table),
        sources=sources,
        warnings=warnings,
        reads=require_columns("pair"),
    )


def check_pairs(
    table: pd.DataFrame, margin: float, *, only_related: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Rows of `build_pairs` and warnings about them; raises as `fit_invariance`."""
    if not (math.isfinite(margin) and margin > 1):
        raise UsageError(
            "an equivalence margin is a ratio",
            where="margin",
            got=margin,
            allowed="above 1, such as 1.1",
        )
    rows, warnings = build_pairs(table, only_related=only_related)
    return rows, [*warnings, *_collect_pair_warnings(rows)]


def average_pairs(rows: pd.DataFrame) -> pd.DataFrame:
    """By pair means of bases, and of changes less what the base tells, with errors and their
    freedom; slopes."""
    pair = rows["pair"].astype(str)
    logs = rows[["base", "change"]].astype("float64")
    n = logs.groupby(pair).size().to_numpy(np.float64)
    mean = logs.groupby(pair).mean()
    off = logs - mean.loc[pair].to_numpy()
    squares = (off["base"] ** 2).groupby(pair).sum()
    products = (off["base"] * off["change"]).groupby(pair).sum()
    slope = products / squares
    left = off["change"] - slope.loc[pair].to_numpy() * off["base"]
    rest = np.square(left).groupby(pair).sum()
    base_sd = np.sqrt(squares.to_numpy() / (n - 1))
    change_sd = np.sqrt(rest.to_numpy() / (n - 2))
    base_error, base_freedom = estimate_moderated_errors(base_sd, n)
    change_error, change_freedom = estimate_moderated_errors(change_sd, n - 1)
    columns = {
        "base": mean["base"],
        "base_error": base_error,
        "base_freedom": base_freedom,
        "change": mean["change"] - slope * mean["base"],
        "change_error": change_error * np.sqrt((n - 1) / n),
        "change_freedom": change_freedom,
        "slope": slope,
    }
    return pd.DataFrame(columns)


def tabulate_pairs(rows: pd.DataFrame, fit: pd.DataFrame | None) -> pd.DataFrame:
    """Two outcomes a pair, bases first: how far each is its level, and its change; pairs to predict
    have no more."""
    if fit is None:
        pairs = average_pairs(rows)
    else:
        new_pairs = rows["pair"].astype(str)
        names_of_new = pd.unique(new_pairs)
        pairs = pd.DataFrame({"slope": 0.0}, index=names_of_new)
    ones = np.ones(len(pairs))
    level = np.concatenate([ones, -pairs["slope"]])
    change = np.concatenate([np.zeros(len(pairs)), ones])
    coefficients = {"pair": [*pairs.index] * 2, "level": level, "change": change}
    names = []
    for what in ("base", "change"):
        for name in pairs.index:
            names.append(f"{name}: {what}")
    table = pd.DataFrame(coefficients, index=names)
    if fit is not None:
        return table
    for name, suffix in {"y": "", "error": "_error", "freedom": "_freedom"}.items():
        both = [pairs[f"{what}{suffix}"] for what in ("base", "change")]
        table[name] = np.concatenate(both)
    return table


MEANS = "mean level and mean change over pairs: half the variance of log gains each way"
SPREADS = "spread of levels and of changes over pairs: the other half"
PAIRS = Mixed(
    outcome="y",
    left="y_jk",
    fixed=(
        Fixed(column="level", sd=SHARE, symbol="m", why=MEANS, term="l_jk", quantity="level_mean"),
        Fixed(
            column="change", sd=SHARE, symbol="Δ", why=MEANS, term="c_jk", quantity="change_mean"
        ),
    ),
    kinds=(
        Levels(
            column="pair",
            scale=SHARE,
            symbol="s_μ",
            why=SPREADS,
            effect="u_j l_jk",
            quantity="level_sd",
            name="level",
            covariate="level",
        ),
        Levels(
            column="pair",
            scale=SHARE,
            symbol="s_δ",
            why=SPREADS,
            effect="v_j c_jk",
            quantity="shift_sd",
            name="change",
            covariate="change",
        ),
    ),
    rest=Rest(
        scale=REST,
        symbol="s_0",
        why="what prompts do not show of a mean",
        effect="ε_jk",
        error="error",
        error_symbol="e_jk",
        freedom="freedom",
    ),
    scale=LOG,
    tabulate=tabulate_pairs,
    rowwise=False,
    labels={"ratio": "level"},
)
PARTS_OF_PAIRS = (
    "y_j1: mean log gain of the base of pair j, l = 1, c = 0;  e_jk standard errors over prompts, "
    "estimated",
    "y_j2: mean change less γ_j times the base's mean, l = −γ_j, c = 1;  γ_j by least squares",
)


def state_pairs(margin: float) -> Law:
    """What is asked of pairs."""
    return Law(
        name="pair means",
        of=PAIRS.design_rows,
        quantities=_compute_quantities,
        reported=("ratio", "ratio_of_all", "shift_sd", "level_sd"),
        statements=ask_pairs(margin),
        statistics=_build_statistics,
        equations=PARTS_OF_PAIRS,
        tables={
            "pairs": partial(list_pairs, margin),
            "new_pair": estimate_new_pair,
            "shown": list_power,
        },
        figures={"fit": partial(draw_pairs, margin)},
        units=("heritage", "pair"),
    )


def ask_pairs(margin: float) -> dict[str, Statement]:
    """Statements about pairs; changes by less than the factor `margin` count as none."""
    near = math.log(margin)
    return {
        "any of these pairs changes sides": lambda q: is_changing_sides(q).any(axis=-1),
        "every pair within the margin": lambda q: (np.abs(q["change"]) < near).all(axis=-1),
        "mean change within the margin": lambda q: np.abs(np.log(q["ratio_of_all"])) < near,
        "mean change below 1": lambda q: q["ratio_of_all"] < 1,
    }


def _compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    pairs = len(design.effects["level"].names)
    drawn = name_draws(values, design)
    level_mean = drawn["level_mean"]
    change_mean = drawn["change_mean"]
    level = level_mean[..., None] + values["level"][..., :pairs]
    change = change_mean[..., None] + values["change"][..., :pairs]
    ratios = {"ratio": np.exp(change), "ratio_of_all": np.exp(change_mean)}
    return {**ratios, **drawn, "level": level, "change": change}


def _build_statistics(design: MixedDesign) -> dict[str, Statistic]:
    n = len(design.table) // 2
    levels = design.table["level"].to_numpy()
    slope = -levels[n:]

    def change(y: Array) -> Array:
        level = y[..., :n]
        return np.asarray(y[..., n:] + slope * level)

    def is_changing(y: Array) -> NDArray[np.bool_]:
        return np.asarray(crosses_one(y[..., :n], change(y)))

    return {
        "largest mean change": lambda y: np.abs(change(y)).max(axis=-1),
        "pairs that change sides": lambda y: is_changing(y).mean(axis=-1),
        "bases that dampen": lambda y: (y[..., :n] < 0).mean(axis=-1),
        "spread of bases": lambda y: y[..., :n].std(axis=-1),
    }


def is_changing_sides(quantities: Quantities) -> NDArray[np.bool_]:
    """Whether the tuned model of a pair stands on the other side of 1 than its base, chain × draw ×
    pair."""
    return np.asarray(crosses_one(quantities["level"], quantities["change"]))


def crosses_one(level: Any, change: Any) -> Any:
    """Whether a log gain and the one after its change have other signs."""
    return (level > 0) != (level + change > 0)


def _collect_pair_warnings(rows: pd.DataFrame) -> list[str]:
    pairs = rows.groupby("pair")
    means = pairs["base"].mean()
    n = len(means)
    lines = []
    if n < FEW:
        bound = (
            f"{_find_unseen_bound(n):.0%} of pairs still could (exact {options.level:.0%} bound)"
        )
        lines.append(
            f"{n} pairs: even if none of them had crossed 1, up to {bound}; statements about a new "
            f"pair rest on the priors of the spreads over pairs"
        )
    if (means >= 0).all():
        lines.append(
            "no base model dampens, so whether tuning can turn a dampener into an expander was not "
            "observed"
        )
    return lines


def _find_unseen_bound(n: Any) -> Any:
    """Exact bound on the share of pairs that change sides, had none of n done so."""
    return 1 - (1 - options.level) ** (1 / n)


def list_power(fit: Fit) -> pd.DataFrame:
    """What these pairs can show, and 3, 10, 30 and 100."""
    n = len(fit.design.labels["ratio"])
    sizes = np.unique([n, 3, 10, 30, 100])
    bounds = _find_unseen_bound(sizes)
    table = pd.DataFrame({"n_pairs": sizes, "here": sizes == n, "bound_had_none": bounds})
    for share in SIDES:
        table[f"p_seen_at_{share:.0%}"] = 1 - (1 - share) ** sizes
    return table


def estimate_new_pair(fit: Fit) -> pd.DataFrame:
    """P(sign changes) of a pair of the same population, by its base; from the posterior and from
    the prior alone."""
    rng = np.random.default_rng(fit.seed)
    level_mean, change_mean = rng.normal(0, SHARE, (2, OF_PRIOR))
    level_sd, shift_sd = np.abs(rng.normal(0, SHARE, (2, OF_PRIOR)))
    prior = {
        "level_mean": level_mean,
        "change_mean": change_mean,
        "level_sd": level_sd,
        "shift_sd": shift_sd,
    }
    posterior = {name: fit.quantities[name].ravel() for name in prior}
    stages = {"p_sign_changes": posterior, "from_prior_alone": prior}
    columns = {}
    for stage, draws in stages.items():
        level = rng.normal(draws["level_mean"], draws["level_sd"])
        change = rng.normal(draws["change_mean"], draws["shift_sd"])
        crosses = pd.Series(crosses_one(level, change))
        kinds = {
            "any pair": np.ones(level.size, dtype=bool),
            "base that dampens": level < 0,
            "base that expands": level >= 0,
            "base within 1.2 of 1": np.abs(level) < math.log(1.2),
        }
        chances = {}
        for name, kind in kinds.items():
            chances[name] = crosses[kind].mean()
        columns[stage] = chances
    return pd.DataFrame(columns).rename_axis("pair").reset_index()


def list_pairs(margin: float, fit: Fit) -> pd.DataFrame:
    """One row per pair: what was seen, its ratio with interval, and whether it changes sides."""
    names = fit.design.labels["ratio"]
    level = fit.quantities["level"].reshape(-1, len(names))
    change = fit.quantities["change"].reshape(-1, len(names))
    lower, upper = find_equal_tailed(change, fit.level)
    estimates = pd.DataFrame(
        {
            "pair": names,
            "base": np.exp(level.mean(axis=0)),
            "tuned": np.exp((level + change).mean(axis=0)),
            "ratio": np.exp(np.median(change, axis=0)),
            "ratio_lower": np.exp(lower),
            "ratio_upper": np.exp(upper),
        }
    )
    chances = {
        "p_sign_changes": crosses_one(level, change),
        "p_within_margin": np.abs(change) < math.log(margin),
        "p_base_dampens": level < 0,
    }
    for name, holds in chances.items():
        estimates[name] = holds.mean(axis=0)
    crosses = crosses_one(fit.rows["base"], fit.rows["change"])
    sides = fit.rows.assign(crosses=crosses)
    by = sides.groupby("pair")
    observed = by.agg(
        heritage=("heritage", "first"),
        related=("related", "first"),
        n_prompts=("change", "size"),
        prompts_that_change_sides=("crosses", "mean"),
        t_test_p=("change", lambda d: float(stats.ttest_1samp(d, 0.0).pvalue)),
    )
    return observed.reset_index().merge(estimates, on="pair")


def _name_tuned(pair: str) -> str:
    """A pair by the short name of its tuned model, and of its base where that one's does not begin
    it."""
    base, _, tuned = (strip_owner(name) for name in pair.partition(" → "))
    return tuned if tuned.startswith(base) or not tuned else f"{base} → {tuned}"


def draw_pairs(margin: float, fit: Fit, axes: Axes) -> Axes:
    """Ratios of the pairs with their intervals; the band counts as no change."""
    table = fit.table("pairs")
    at = np.arange(len(table))
    axes.hlines(at, table["ratio_lower"], table["ratio_upper"], linewidth=3, alpha=0.5)
    axes.plot(table["ratio"], at, "o")
    axes.axvspan(1 / margin, margin, alpha=0.12)
    axes.axvline(1, linewidth=0.8)
    axes.set_xlabel("gain of the tuned model over that of its base; band: counts as no change")
    log_axis(axes, "x")
    axes.set_yticks(at, [_name_tuned(str(name)) for name in table["pair"]])
    return axes


LEAST_PROMPTS = 2
"""Prompts that a standard deviation needs."""


def paired(
    first: str | Path,
    second: str | Path,
    *,
    quantity: str = "gain",
    position: str = LAST,
    data: str | Path | None = None,
    level: float | None = None,
) -> pd.DataFrame:
    """Compare two models block by block on the prompts that both were measured on.

        d̄_l ± t_(n−1) s_l / √n of the differences d_lp = G_l^second(p) − G_l^first(p)
        over the n prompts p of both

    Prompts are the same where their texts are, whatever set they are of.

    Parameters
    ----------
    first, second, quantity, position : str
        As in `profile`.
    data : str or Path
        A user's folder, read together with the package's own tables.
    level : float
        Of the intervals; by default that of `options`.

    Returns
    -------
    DataFrame
        One row a block: layer, n_prompts, first and second (means over those prompts), difference,
        sd, lower and upper (the interval of Student's t for the mean difference over prompts like
        these). Its attributes (`attrs`) say of what it is; `thermostats.profile` draws it.

    Raises
    ------
    UsageError
        For models without such rows, of different depths, or measured on other prompts.

    References
    ----------
    Student, The probable error of a mean, Biometrika 6, 1908.

    Examples
    --------
    >>> import thermostats
    >>> both = thermostats.paired("nursery/r01-5", "nursery/r01-6")
    >>> both[["layer", "n_prompts", "difference", "lower", "upper"]].round(2).head(3)
       layer  n_prompts  difference  lower  upper
    0      1          6        3.43   2.07   4.79
    1      2          6       -0.23  -0.40  -0.05
    """
    inside = session.level if level is None else check_coverage(level)
    a = read_values(first, quantity, position, data)
    b = read_values(second, quantity, position, data)
    together = _join_shared_runs(a, b, str(first), str(second), data)
    _check_depths(a, b, [str(first), str(second)])
    together["difference"] = together["second"] - together["first"]
    groups = together.groupby("layer")
    table = groups[["first", "second", "difference"]].mean()
    mean = table["difference"]
    n = groups.size()
    sd = groups["difference"].std(ddof=1)
    quantile = student.ppf((1 + inside) / 2, n - 1)
    half = quantile * sd / np.sqrt(n)
    table = table.assign(sd=sd, lower=mean - half, upper=mean + half)
    table.insert(0, "n_prompts", n)
    table = table.reset_index()
    table.attrs = {
        "first": str(first),
        "second": str(second),
        "quantity": quantity,
        "position": position,
        "level": inside,
    }
    return table


def _check_depths(first: pd.DataFrame, second: pd.DataFrame, models: list[str]) -> None:
    """Raise UsageError where two models have different numbers of blocks."""
    depths = [int(side["layer"].max()) for side in (first, second)]
    if depths[0] != depths[1]:
        what = "the models have different numbers of blocks"
        allowed = "models of one depth, as a base and a tuned one"
        step = f"thermostats.profile({models}) draws both over relative depth"
        got = f"{depths[0]} and {depths[1]}"
        raise UsageError(what, got=got, allowed=allowed, next_step=step)


def _join_shared_runs(
    first: pd.DataFrame, second: pd.DataFrame, here: str, there: str, data: str | Path | None
) -> pd.DataFrame:
    """layer, prompt, first and second of the first two runs that share prompts."""
    for _, a in first[first["prompt"].ne("")].groupby("run_id", sort=False):
        for _, b in second[second["prompt"].ne("")].groupby("run_id", sort=False):
            values = {"first": _index_values(a), "second": _index_values(b)}
            both = pd.concat(values, axis=1, join="inner").reset_index()
            if both["prompt"].nunique() >= LEAST_PROMPTS:
                return both
    sets = []
    for side in (first, second):
        prompt_sets = dict.fromkeys(side["prompt_set"])
        sets.append(", ".join(prompt_sets))
    prompts = first["prompt_set"].iloc[0]
    step = write_command("measure", there, prompts=prompts, what="gains", data=data or "mine")
    raise UsageError(
        "the two models were measured on other prompts, so nothing can be paired",
        where=f"{here}, {there}",
        got=f"prompt sets {sets[0]} and {sets[1]}",
        allowed=f"{LEAST_PROMPTS} prompts or more of the same text",
        next_step=step,
    )


def _index_values(rows: pd.DataFrame) -> pd.Series:
    key = ["layer", "prompt"]
    return rows.drop_duplicates(key).set_index(key)["value"]
