"""k_g ~ Binomial(n_g, p_g), logit p_g = μ + τ z_g: in what share of models does a statement hold, labs being alike?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, labels
from thermostats.modelling.inference import binomial, sampling
from thermostats.modelling.inference.binomial import MU_SD, TAU_SCALE
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator, exactly
from thermostats.modelling.inference.checks import Check, exact_pit
from thermostats.modelling.inference.draws import SEED, Array, Draws, Settings, equal_tailed
from thermostats.modelling.inference.fitted import NO_SOURCE, Fitted, chances
from thermostats.modelling.inference.held_out import few_folds
from thermostats.modelling.inference.parts import AXES, Part, direct_part, spaced
from thermostats.modelling.inference.sensitivity import FACTORS
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.modelling.laws.lines import each_left_out
from thermostats.plots.general import MUTED, forest

SETTINGS = Settings()
FEW = 5
"""Units below which the result says that its prior speaks loudest."""
LEFT_OUT = 1000
"""Predictive draws of a group that is left out."""


def fit_share(
    table: pd.DataFrame,
    holds: str,
    *,
    against: float = 0.5,
    group: str | None = "heritage",
    sources: Sequence[str] = (),
    seed: int = SEED,
) -> Fitted:
    """k_g ~ Binomial(n_g, p_g), logit p_g = μ + τ z_g: the share of units for which a statement holds.

    `table`: one row per unit with `model_id`, `heritage`; `holds` names a column of true and false; units of one value
    of `group` are alike (None, or one group: all units are). μ ~ N(0, 1.5²), close to uniform on the share; τ
    half-normal(1). Quantities: share (over the units at hand, their groups' p weighted by size), p of every group, and
    where there are groups share_of_new_group and τ. Probabilities: "share > {against}", "every group > {against}".
    Table: `groups`.

    Raises UsageError for missing columns, an empty table, cells that are neither true nor false, a missing group,
    `against` outside (0, 1).
    """
    columns_of(table, "model_id", "heritage", holds, *([group] if group else []))
    if not 0 < against < 1:
        raise UsageError("a share to hold against lies between 0 and 1", got=against)
    if not set(table[holds]) <= {True, False}:
        raise UsageError("neither true nor false", where=holds, got=str(sorted(map(str, set(table[holds])))[:5]))
    if group:
        labels(table[group], group)
    keys = table[group].astype(str) if group else pd.Series("all", index=table.index)
    kept = table.assign(_key=keys, _holds=table[holds].astype(bool))
    counts = kept.groupby("_key")["_holds"].agg(["sum", "size"]).rename_axis(group)
    grouped, names = len(counts) >= 2, tuple(counts.index)
    draws = _drawn(counts, grouped, seed)
    shown = _quantities(counts, draws)
    if grouped:
        drawn = binomial.Shares(mu=draws["mu"], tau=draws["tau"], p=draws["p"])
        shown |= {"share_of_new_group": drawn.new_group(np.random.default_rng(seed)), "tau": draws["tau"]}
    asked: dict[str, Statement] = {
        f"share > {against:g}": lambda q: q["share"] > against,
        f"every group > {against:g}": lambda q: (q["p"] > against).all(axis=-1),
    }
    return Fitted(
        family="share",
        estimand=holds,
        sources=tuple(sources),
        n_models=table["model_id"].nunique(),
        n_heritages=table["heritage"].nunique(),
        parts={"share": _part(counts, grouped, draws)},
        quantities=shown,
        statements=asked,
        probabilities=chances(asked, shown),
        numbers={"holds": float(counts["sum"].sum()), "units": float(counts["size"].sum())},
        tables={"groups": counts.rename(columns={"sum": "holds", "size": "units"}).rename_axis("group").reset_index()},
        warnings=(*_said(counts, group), *(() if sources else (NO_SOURCE,))),
        figure=_figure,
        alternatives=partial(_alternatives, counts, grouped, group),
        left_out=partial(_left_out, counts) if grouped else None,
        labels={"p": names},
        equations=("k_g ~ Binomial(n_g, p_g)", "logit p_g = μ + τ z_g, z_g ~ N(0, 1)" if grouped else "logit p = μ"),
        priors=(
            ("μ", f"N(0, {MU_SD:g}²)", "close to uniform on the share"),
            *((("τ", f"half-normal({TAU_SCALE:g})", "odds of groups differ by a factor e or so"),) if grouped else ()),
        ),
        seed=seed,
    )


def _said(counts: pd.DataFrame, group: str | None) -> tuple[str, ...]:
    said, held, units = [], int(counts["sum"].sum()), int(counts["size"].sum())
    if group and len(counts) == 1:
        said.append(f"one {group}: units count as independent")
    if group and len(counts) > 1 and (counts["size"] == 1).all():
        said.append(f"one unit of every {group}: how alike units of one {group} are is the prior's")
    if held in (0, units):
        said.append(f"it holds for {'every' if held else 'no'} unit: how groups differ is the prior's")
    if units < FEW:
        said.append(f"{units} units: the share stays close to its prior")
    few_folds([str(name) for name in counts.index], "groups", said)
    return tuple(said)


def _quantities(counts: pd.DataFrame, draws: Draws) -> dict[str, Array]:
    """p of every group, and over the units at hand."""
    return {"share": draws["p"] @ (counts["size"] / counts["size"].sum()).to_numpy(), "p": draws["p"]}


def _alternatives(
    counts: pd.DataFrame, grouped: bool, group: str | None, seed: int
) -> Iterator[tuple[str, Quantities]]:
    """Exact refits under other priors, without levels of groups, and without groups of one unit."""
    others = {name: (counts, grouped, f) for name, f in FACTORS.items()}
    if grouped:
        named = "labs" if group == "heritage" else f"{group}s"
        others[f"no effects of {named}"] = (counts, False, 1.0)
        several = counts[counts["size"] > 1]
        if 2 <= len(several) < len(counts):
            others[f"without {named} of one unit"] = (several, True, 1.0)
    for name, (rest, apart, factor) in others.items():
        yield name, _quantities(rest, _drawn(rest, apart, seed, factor))


def _drawn(counts: pd.DataFrame, grouped: bool, seed: int, factor: float = 1.0) -> Draws:
    start = time.perf_counter()
    k, n = counts[["sum", "size"]].to_numpy(dtype=np.int64).T
    size = SETTINGS.chains * SETTINGS.draws
    found = binomial.posterior(k, n, grouped=grouped, seed=seed, draws=size, factor=factor)
    values = {"mu": found.mu, "tau": found.tau, "p": found.p}
    return sampling.exact_draws(values, seed=seed, settings=SETTINGS, start=start)


def _part(counts: pd.DataFrame, grouped: bool, draws: Draws) -> Part:
    """What the checks need."""
    k, n = counts[["sum", "size"]].to_numpy(dtype=np.int64).T
    p = draws.flat("p")[spaced(draws)]

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        found = binomial.prior(k.size, grouped=grouped, seed=seed, draws=size)
        truths = {"mu": found.mu, "p": found.p} | ({"tau": found.tau} if grouped else {})
        return truths, np.random.default_rng([seed, 1]).binomial(n, found.p).astype(np.float64)

    def again(outcome: Array, seed: int) -> Refit:
        own = outcome.astype(np.int64)
        return exactly(vars(binomial.posterior(own, n, grouped=grouped, seed=seed, draws=SHORT.chains * SHORT.draws)))

    def pit(seed: int) -> Check:
        """Groups predicted from all others; of many groups every twentieth together."""
        folds = few_folds([str(g) for g in range(k.size)], "groups")
        return exact_pit(binomial.left_out_pit(k, n, folds, seed=seed, draws=LEFT_OUT))

    return direct_part(
        draws,
        observed=k.astype(np.float64),
        of={AXES.get(str(counts.index.name), "group"): [str(name) for name in counts.index]},
        statistics={
            "units it holds for": lambda k: k.sum(axis=-1),
            "spread of groups' shares": lambda k: (k / n).std(axis=-1),
        },
        shapes={},
        priors={"mu": (0.0, MU_SD)} | ({"tau": (0.0, TAU_SCALE)} if grouped else {}),
        simulator=Simulator(joint=joint, posterior=again),
        replicate=lambda seed: np.random.default_rng(seed).binomial(n, p).astype(np.float64),
        density=lambda: np.asarray(stats.binom.logpmf(k, n, p)),
        loo=pit if grouped else None,
    )


def _left_out(counts: pd.DataFrame, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits without each group, of many groups every twentieth together."""
    for name, kept in each_left_out([str(name) for name in counts.index]):
        yield name, _quantities(counts[kept], _drawn(counts[kept], True, seed))


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    """Shares of the groups with their intervals, and counts as observed."""
    groups = fitted.table("groups")
    p = fitted.quantities["p"].reshape(-1, len(groups))
    lower, upper = equal_tailed(p, fitted.level)
    names = [f"{row.group} ({row.holds} of {row.units})" for row in groups.itertuples()]
    rows = groups.assign(name=names, p=np.median(p, axis=0), lower=lower, upper=upper)
    axes.scatter(rows["holds"] / rows["units"], rows.index, marker="x", color=MUTED, zorder=4)
    forest(rows, axes, label="name", estimate="p", null=None)
    axes.set(xlim=(0, 1), xlabel=f"{fitted.estimand.replace('_', ' ')} (cross: observed)")
    return axes
