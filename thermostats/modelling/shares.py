"""k_g ~ Binomial(n_g, p_g), logit p_g = μ + τ z_g: in what share of units does a statement hold,
labs being alike?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.special import expit

from thermostats.errors import UsageError, take_first_line
from thermostats.modelling.columns import (
    Columns,
    guess_argument,
    read_labels,
    read_unit_rows,
    suggest_complete_rows,
    suggest_numbers,
)
from thermostats.modelling.draws import SEED, Array, Statement, Statistic, find_equal_tailed
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.laws import WIDER, Design, Law, OutcomeScale, Prior
from thermostats.modelling.sampling import Sampled, pad_levels
from thermostats.next_steps import Code, repeat_call, write_value
from thermostats.plots.general import MUTED, draw_forest

MU_SD = 1.5
TAU_SCALE = 1.0
ALIKE = 1e-6
"""Prior scale of τ where groups are alike."""
GROUP, HOLDS = "group of the unit", "whether it holds"
"""Columns that a share has, whatever the user's are called."""
FEW = 5
"""Units below which the result says that its prior speaks loudest."""


@record_call
def fit_share(
    table: pd.DataFrame,
    holds: str,
    *,
    against: float = 0.5,
    model: str | Sequence[str] | None = "model_id",
    group: str | None = "heritage",
    sources: Sequence[str] = (),
    seed: int = SEED,
) -> Fit:
    """Estimate the share of units for which a statement holds, over groups of units that are alike.

        k_g ~ Binomial(n_g, p_g), logit p_g = μ + τ z_g, μ ~ N(0, 1.5²), τ half-normal(1)

    The prior of the share is close to uniform.

    Parameters
    ----------
    table : DataFrame
        One row per unit.
    holds : str
        A column of true and false, or an expression such as "gain > 1".
    against : float
        The share that statements compare with, between 0 and 1.
    model : str or sequence of str
        The column, or columns together, that name a row (None: rows are units).
    group : str
        Units of one value of this column are alike (None, or one group: all units are).
    sources : sequence of str
        Where the rows come from.
    seed : int
        Of the draws.

    Returns
    -------
    Fit
        Quantities: share (over the units at hand, their groups' p weighted by size), p of every
        group, and where there are groups share_of_new_group and tau. Statements: "share >
        {against}", "every group > {against}". Table: `groups`.

    Raises
    ------
    UsageError
        For missing columns, a unit in two rows, an empty table, cells that are neither true nor
        false or of which an expression cannot tell since a value is missing, a missing group,
        `against` outside (0, 1).

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.model_rows("published", "penultimate_gain")
    >>> fit = thermostats.fit_share(rows, "gain < 1", group=None)
    >>> round(float(fit.quantities["share"].mean()), 1)
    0.4
    """
    computed = partial(_group_rows, group)
    request = Columns(call="fit_share", named={"holds": holds}, computed=computed)
    units = read_unit_rows(_add_comparison(table, holds), request, model, group)
    if not 0 < against < 1:
        raise UsageError("a share to hold against lies between 0 and 1", got=against)
    rows = units.rows
    group = units.group
    if unknown := int(rows[holds].isna().sum()):
        raise _refuse_unknown(rows, holds, unknown)
    if not set(rows[holds]) <= {True, False}:
        call = f"df.assign(holds=df[{write_value(holds)}] > 1)"
        above = Code(call)
        is_numeric = pd.api.types.is_numeric_dtype(rows[holds])
        step = repeat_call(above, holds="holds") if is_numeric else ""
        values = set(rows[holds])
        wrong = sorted(map(str, values))
        raise UsageError("neither true nor false", where=holds, got=str(wrong[:5]), next_step=step)
    if rows.empty:
        raise UsageError("an empty table", got="0 rows", allowed="at least one row")
    names = read_labels(rows[group], group) if group else ["all"] * len(rows)
    known = rows[holds].astype(bool)
    rows = rows.assign(**{GROUP: names, HOLDS: known})
    grouped = rows[GROUP].nunique() >= 2
    others = {}
    for name, factor in WIDER.items():
        others[name] = _build_law(grouped, against, factor)
    if grouped:
        plural = "labs" if group == "heritage" else f"{group}s"
        others[f"no effects of {plural}"] = _build_law(False, against)
    own = _build_law(grouped, against)
    law = replace(own, alternatives=others)
    return build_fit(
        law,
        rows,
        seed=seed,
        estimand=holds,
        sources=sources,
        warnings=[*units.warnings, *_collect_warnings(rows, group)],
        reads=units.columns.read_new,
    )


def _add_comparison(table: pd.DataFrame, holds: str) -> pd.DataFrame:
    """The table with the column that an expression of its columns stands for."""
    if not isinstance(holds, str):
        step = _suggest_comparison(table)
        what = "what holds is named, not given"
        allowed = "a column of true and false, or an expression of columns"
        raise UsageError(
            what, where="holds", got=type(holds).__name__, allowed=allowed, next_step=step
        )
    if holds in table or not any(sign in holds for sign in "<>="):
        return table
    try:
        return table.assign(**{holds: _convert_gaps(table).eval(holds, engine="python")})
    except (NameError, SyntaxError, ValueError, TypeError) as error:
        step = _suggest_read_numbers(table, holds) or _suggest_comparison(table)
        got = take_first_line(error)
        raise UsageError(
            "the expression cannot be read", where=holds, got=got, next_step=step
        ) from None


def _suggest_read_numbers(table: pd.DataFrame, holds: str) -> str:
    """The call with the numbers that texts stand for which the expression compares; empty where
    there are none."""
    for name in table:
        if str(name) in holds and not pd.api.types.is_numeric_dtype(table[name]):
            step = suggest_numbers(str(name), table[name])
            if step:
                return step
    return ""


def _suggest_comparison(table: pd.DataFrame) -> str:
    """The call that is being made of the comparison that is likely, else of one that only the user
    knows."""
    return repeat_call(holds=guess_argument("holds", table, (), None) or Code("HOLDS"))


def _convert_gaps(table: pd.DataFrame) -> pd.DataFrame:
    """The table in kinds of columns whose comparisons with a missing value are missing, not
    false."""
    nullable = table.convert_dtypes()
    texts = nullable.select_dtypes("string").columns
    return nullable.astype(dict.fromkeys(texts, pd.StringDtype(na_value=pd.NA)))


def _refuse_unknown(rows: pd.DataFrame, holds: str, number: int) -> UsageError:
    """The error for units of which nobody knows: the columns whose values are missing, and the call
    without them."""
    missing = []
    for name in rows:
        if str(name) != holds and str(name) in holds and rows[name].isna().any():
            missing.append(str(name))
    columns = missing or [holds]
    step = suggest_complete_rows(*columns)
    return UsageError(
        "whether it holds is not known of every unit: values are missing",
        where=", ".join(columns),
        got=f"{number} of {len(rows)} rows",
        allowed="true or false for every unit",
        next_step=step,
    )


def _group_rows(group: str | None, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with their groups; what holds of them is not asked of rows to predict."""
    groups = rows[group].astype(str) if group in rows else "all"
    columns = {GROUP: groups, HOLDS: False}
    return rows.assign(**columns)


def declare_share(data: Mapping[str, Any]) -> None:
    """The model; `group` numbers the group of every count, further elements of z belong to no
    count."""
    import pymc as pm  # noqa: PLC0415

    mu = pm.Normal("mu", 0.0, data["mu_sd"])
    tau = pm.HalfNormal("tau", data["tau_scale"])
    z = pm.Normal("z", shape=data["n_groups"])
    log_odds = mu + tau * z[data["group"]]
    pm.Binomial("y", n=data["n"], logit_p=log_odds, observed=data["y_observed"])


def _build_law(grouped: bool, against: float, factor: float = 1.0) -> Law:
    """`factor`: of both prior scales."""
    sd = factor * MU_SD
    mean = f"N(0, {sd:.3g}²)"
    priors: tuple[Prior, ...] = (("μ", mean, "close to uniform on the share"),)
    if grouped:
        scale = factor * TAU_SCALE
        spread = f"half-normal({scale:.3g})"
        priors += (("τ", spread, "odds of groups differ by a factor e or so"),)
    log_odds = "logit p_g = μ + τ z_g, z_g ~ N(0, 1)" if grouped else "logit p = μ"
    statements: dict[str, Statement] = {
        f"share > {against:g}": lambda q: q["share"] > against,
        f"every group > {against:g}": lambda q: (q["p"] > against).all(axis=-1),
    }
    return Law(
        name="share",
        of=partial(_build_design, grouped, factor),
        quantities=_compute_quantities,
        reported=("share", "p", "share_of_new_group", "tau") if grouped else ("share", "p"),
        statements=statements,
        statistics=_build_statistics,
        equations=("k_g ~ Binomial(n_g, p_g)", log_odds),
        priors=priors,
        tables={"groups": _list_groups},
        figures={"fit": _draw_figure},
        units=(GROUP,) if grouped else (),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareDesign(Design):
    """Counts by group; names of groups are the label of `p`."""

    grouped: bool
    factor: float
    n: NDArray[np.int64]
    """Units of every group."""

    def build_new(self, rows: pd.DataFrame) -> ShareDesign:
        """Groups of a fit come first, in its order."""
        return _build_design(self.grouped, self.factor, rows, self.labels["p"])


def _build_design(
    grouped: bool, factor: float, rows: pd.DataFrame, before: tuple[str, ...] = ()
) -> ShareDesign:
    """Counts by group; these groups come first."""
    counts = rows.groupby(GROUP)[HOLDS].agg(["sum", "size"])
    new = [name for name in counts.index if name not in before]
    names = [*before, *new]
    codes = [names.index(name) for name in counts.index]
    n = counts["size"].to_numpy(dtype=np.int64)
    data = {
        "mu_sd": np.asarray(MU_SD * factor),
        "tau_scale": np.asarray(TAU_SCALE * factor if grouped else ALIKE),
        "n_groups": pad_levels(len(names)),
        "group": np.array(codes, dtype=np.int64),
        "n": n,
        "y_observed": counts["sum"].to_numpy(dtype=np.int64),
    }
    return ShareDesign(
        model=Sampled(declare=declare_share, data=data, per_row=("group", "n", "y_observed")),
        outcomes=tuple(counts.index),
        labels={"p": tuple(names)},
        by_row=False,
        scale=OutcomeScale(outcome="units"),
        grouped=grouped,
        factor=factor,
        n=n,
    )


def _compute_quantities(values: Mapping[str, Array], design: ShareDesign) -> dict[str, Array]:
    """p of every group and over the units at hand; the last element of z belongs to a group that
    was not seen."""
    groups = len(design.labels["p"])
    tau = values["tau"]
    logit = values["mu"][..., None] + tau[..., None] * values["z"]
    seen = logit[..., :groups]
    p = expit(seen)
    share = p @ (design.n / design.n.sum())
    return {"share": share, "p": p, "share_of_new_group": expit(logit[..., -1]), "tau": tau}


def _build_statistics(design: ShareDesign) -> dict[str, Statistic]:
    n = design.n
    held: dict[str, Statistic] = {"units it holds for": lambda k: k.sum(axis=-1)}
    if n.size > 1:
        held["spread of groups' shares"] = lambda k: (k / n).std(axis=-1)
    return held


def _collect_warnings(rows: pd.DataFrame, group: str | None) -> list[str]:
    sizes = rows.groupby(GROUP).size()
    held = int(rows[HOLDS].sum())
    units = len(rows)
    every = "every" if held else "no"
    one_a_group = len(sizes) > 1 and bool((sizes == 1).all())
    one_unit = f"one unit of every {group}: how alike units of one {group} are is the prior's"
    words = {
        f"one {group}: units count as independent": bool(group) and len(sizes) == 1,
        one_unit: one_a_group,
        f"it holds for {every} unit: how groups differ is the prior's": held in (0, units),
        f"{units} units: the share stays close to its prior": units < FEW,
    }
    return [line for line, holds in words.items() if holds]


def _list_groups(fit: Fit) -> pd.DataFrame:
    """Units and how many it holds for, by group."""
    counts = fit.rows.groupby(GROUP)[HOLDS].agg(holds="sum", units="size")
    return counts.rename_axis("group").reset_index()


def _draw_figure(fit: Fit, axes: Axes) -> Axes:
    """Shares of the groups with their intervals, and counts as observed."""
    groups = fit.table("groups")
    p = fit.quantities["p"].reshape(-1, len(groups))
    lower, upper = find_equal_tailed(p, fit.level)
    names = [f"{row.group} ({row.holds} of {row.units})" for row in groups.itertuples()]
    rows = groups.assign(name=names, p=np.median(p, axis=0), lower=lower, upper=upper)
    observed = rows["holds"] / rows["units"]
    axes.scatter(observed, rows.index, marker="x", color=MUTED, zorder=4)
    draw_forest(rows, axes, label="name", estimate="p", null=None)
    axes.set(xlim=(0, 1), xlabel=f"{fit.estimand.replace('_', ' ')} (cross: observed)")
    return axes
