"""In what share of models does a statement hold, where models of one lab are alike?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling import sampling
from thermostats.modelling.checks import Check, influence
from thermostats.modelling.draws import Array, Settings
from thermostats.modelling.estimates import columns_of
from thermostats.modelling.fitted import Fitted, sampled_part

MU_SD, TAU_SCALE = 1.5, 1.0
STEPS = Settings(target_accept=0.95)
SURE = 0.95


def share_model(pm: Any, data: Mapping[str, Any]) -> None:
    """k_g ~ Binomial(n_g, p_g), logit p_g = μ + τ z_g, z_g ~ N(0, 1); without groups p is one number."""
    mu = pm.Normal("mu", 0.0, data["mu_sd"])
    logit = mu
    if data["grouped"]:
        tau = pm.HalfNormal("tau", data["tau_scale"])
        logit = mu + tau * pm.Normal("z", 0.0, 1.0, shape=data["n_groups"])
    else:
        logit = mu + np.zeros(data["n_groups"])
    p = pm.Deterministic("p", pm.math.sigmoid(logit))
    pm.Binomial("count", n=data["n"], p=p, observed=data["k"])


def fit_share(
    table: pd.DataFrame,
    holds: str,
    *,
    against: float = 0.5,
    group: str | None = "heritage",
    sources: Sequence[str] = (),
    seed: int,
    cache: bool = True,
) -> Fitted:
    """k_g ~ Binomial(n_g, p_g), logit p_g = μ + τ z_g: the share of units for which a statement holds.

    `table`: a row a unit with `model_id` and `heritage`; `holds` names a column of true and false; units of one value
    of `group` are alike (None, or one group: all units are). μ ~ N(0, 1.5²), close to uniform on the share; τ
    half-normal(1). Quantities: share (over the units at hand, their groups' p weighted by size), p of every group, and
    where there are groups share_of_new_group and τ. Probabilities: "share > {against}", "every group > {against}".

    Raises UsageError for missing columns, an empty table, cells that are neither true nor false, `against` outside
    (0, 1).
    """
    columns_of(table, "model_id", "heritage", holds, *([group] if group else []))
    if not 0 < against < 1:
        raise UsageError("a share to hold against lies between 0 and 1", got=against)
    if not set(table[holds]) <= {True, False}:
        raise UsageError("neither true nor false", where=holds, got=str(sorted(map(str, set(table[holds])))[:5]))
    keys = table[group].astype(str) if group else pd.Series("all", index=table.index)
    counts = table.assign(_key=keys, _holds=table[holds].astype(bool)).groupby("_key")["_holds"].agg(["sum", "size"])
    grouped, names = len(counts) >= 2, tuple(counts.index)
    data = _data(counts["sum"].to_numpy(), counts["size"].to_numpy(), grouped)
    draws = sampling.fit(share_model, data, seed=seed, settings=STEPS, cache=cache)
    p = draws["p"]
    weight = (counts["size"] / counts["size"].sum()).to_numpy()
    share = p @ weight
    quantities: dict[str, Array] = {"share": share, "p": p}
    if grouped:
        fresh = np.random.default_rng(seed).standard_normal(share.shape)
        quantities["share_of_new_group"] = 1 / (1 + np.exp(-(draws["mu"] + draws["tau"] * fresh)))
        quantities["tau"] = draws["tau"]
    decided = {f"share > {against:g}": share > against, f"every group > {against:g}": (p > against).all(axis=-1)}
    part = sampled_part(
        share_model, data, draws, "count", observed=data["k"].astype(np.float64), top=("mu", "tau")[: 1 + grouped],
        statistics={
            "units it holds for": lambda k: k.sum(axis=-1),
            "spread of groups' shares": lambda k: (k / data["n"]).std(axis=-1),
        },
        decisive=decided,
    )  # fmt: skip
    return Fitted(
        family="share",
        estimand=holds,
        sources=tuple(sources),
        n_models=table["model_id"].nunique(),
        n_heritages=table["heritage"].nunique(),
        parts={"share": part},
        quantities=quantities,
        probabilities={statement: float(true.mean()) for statement, true in decided.items()},
        numbers={"holds": float(counts["sum"].sum()), "units": float(counts["size"].sum())},
        tables={"groups": counts.rename(columns={"sum": "holds", "size": "units"}).rename_axis("group").reset_index()},
        warnings=() if grouped or group is None else (f"one {group}: units count as independent",),
        figure=_figure,
        influence=(lambda s: _without_each(counts, against, s)) if grouped else None,
        labels={"p": names},
        equations=("k_g ~ Binomial(n_g, p_g)", "logit p_g = μ + τ z_g, z_g ~ N(0, 1)" if grouped else "logit p = μ"),
        priors=(
            ("μ", f"N(0, {MU_SD:g}²)", "close to uniform on the share"),
            *((("τ", f"half-normal({TAU_SCALE:g})", "odds of groups differ by a factor e or so"),) if grouped else ()),
        ),
        seed=seed,
    )


def _data(k: Any, n: Any, grouped: bool) -> dict[str, Any]:
    return {
        "k": np.asarray(k, dtype=np.int64),
        "n": np.asarray(n, dtype=np.int64),
        "n_groups": len(k),
        "grouped": grouped,
        "mu_sd": MU_SD,
        "tau_scale": TAU_SCALE,
    }


def _without_each(counts: pd.DataFrame, against: float, seed: int) -> Check:
    """P(share > against) with each group left out, by exact refits."""

    def say(rows: pd.DataFrame) -> tuple[str, dict[str, float]]:
        data = _data(rows["sum"].to_numpy(), rows["size"].to_numpy(), True)
        drawn = sampling.fit(share_model, data, seed=seed, settings=STEPS)["p"]
        p = float((drawn @ (rows["size"] / rows["size"].sum()).to_numpy() > against).mean())
        return ("above" if p >= SURE else "below" if p <= 1 - SURE else "open"), {f"P(share > {against:g})": p}

    found = {str(name): say(counts.drop(index=name)) for name in counts.index}
    return influence(say(counts)[0], {k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()})


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    """Shares of the groups with their intervals, and counts as observed."""
    groups = fitted.table("groups")
    p = fitted.quantities["p"].reshape(-1, len(groups))
    lower, middle, upper = np.quantile(p, [(1 - fitted.level) / 2, 0.5, (1 + fitted.level) / 2], axis=0)
    at = np.arange(len(groups))
    axes.errorbar(middle, at, xerr=[middle - lower, upper - middle], fmt="o", color="0.2")
    axes.scatter(groups["holds"] / groups["units"], at, marker="x", zorder=3, label="observed")
    axes.set_yticks(at, [f"{row.group} ({row.holds}/{row.units})" for row in groups.itertuples()])
    axes.set_xlim(0, 1)
    axes.set_xlabel(fitted.estimand.replace("_", " "))
    axes.legend()
    return axes
