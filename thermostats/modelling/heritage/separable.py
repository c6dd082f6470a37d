"""What rows cannot separate: too few models, labs of one model, constant columns; refused or said."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import named
from thermostats.modelling.heritage.blocks import FAMILY, scaled_map
from thermostats.modelling.heritage.law import LAB, Heritage, groups_of

LEAST, SMALL_STUDY = 4, 10
LEVEL = 0.95
NO_FAMILIES = "families are not stated, so each model is its own: they have no share"


def what_rows_cannot_say(rows: pd.DataFrame, heritage: Heritage, without_labs: str, look: str) -> list[str]:
    """What the rows cannot say, in words; UsageError where they say nothing of a block.

    without_labs: the call that asks nothing of labs; look: one that shows rows which are too few for any fit.
    """
    if len(rows) < LEAST:
        step = f"add models, your own or from thermostats.features; of these alone: {look}"
        got = f"{len(rows)}, {what_rows_say(rows)}"
        raise UsageError("too few models for shares", got=got, allowed=f"{LEAST} or more", next_step=step)
    warnings, used = list[str](), 1
    for name, columns in heritage.blocks.items():
        if name == FAMILY:
            continue
        if name in heritage.groups:
            sizes = groups_of(rows, columns).value_counts()
            warnings += _of_groups(name, sizes, without_labs, what_rows_say(rows))
            used += len(sizes) - 1
            continue
        x = rows[list(columns)].to_numpy(np.float64)
        constant = np.ptp(x, axis=0) <= 1e-12 * np.abs(x).max()
        if constant.all():
            raise UsageError(
                "a block without variation",
                where=name,
                got=f"{', '.join(columns)} constant",
                allowed="one column that varies",
            )
        left = [column for column, same in zip(columns, constant, strict=True) if same]
        warnings += [f"{column} is the same in all models and left out" for column in left]
        rank = scaled_map(np.log(x) if heritage.logs else x).shape[1]
        if rank < len(columns) - len(left):
            warnings.append(f"{name} has rank {rank} of {len(columns) - len(left)} columns")
        used += rank
    if len(rows) < SMALL_STUDY:
        warnings.append(f"{len(rows)} models: shares stay close to their prior")
    if heritage.lab == LAB:
        warnings += _of_families(rows) if FAMILY in heritage.blocks else [NO_FAMILIES]
    if used >= len(rows):
        warnings.append(f"{len(rows)} models for {used} effects: the shares depend strongly on the prior")
    return warnings


def what_rows_say(rows: pd.DataFrame) -> str:
    """The geometric mean of the gains with its t interval, models as units, and their range; one gain as it is."""
    logs = rows["log_gain"].to_numpy(np.float64)
    mean, n = float(np.exp(logs.mean())), len(logs)
    if n < 2:
        return f"whose gain is {mean:.3g}"
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * logs.std(ddof=1) / np.sqrt(n))
    low, high = mean * np.exp(-half), mean * np.exp(half)
    return (
        f"whose geometric mean gain is {mean:.3g}, {LEVEL:.0%} interval {low:.3g} to {high:.3g}, "
        f"and whose gains go from {np.exp(logs.min()):.3g} to {np.exp(logs.max()):.3g}"
    )


def _of_groups(name: str, sizes: pd.Series, step: str, say: str) -> list[str]:
    """Refuse groups that cannot be separated from the mean or from the residual."""
    if len(sizes) < 2:
        single = "one lab: its effect" if name == LAB else f"one {name}: its effect"
        got = f"{sizes.index[0]} with {int(sizes.sum())} models, {say}"
        raise UsageError(f"{single} cannot be separated from the mean", got=got, allowed="2 or more", next_step=step)
    if sizes.max() == 1:
        what = "lab" if name == LAB else name
        raise UsageError(
            f"every {what} has one model: {name} cannot be separated from the residual between models",
            got=f"{len(sizes)} {what}s, {say}",
            allowed="two models or more in at least one",
            next_step=step,
        )
    if (sizes > 1).sum() < 2:
        return [
            f"only one {'lab' if name == LAB else name} has two models or more: {name} rests on the spread within it"
        ]
    return []


def _of_families(rows: pd.DataFrame) -> list[str]:
    warnings, family = list[str](), groups_of(rows, (LAB, "family"))
    if (lacking := rows["family"].isna()).any():
        warnings.append("treated as a separate family, since none is stated: " + named(rows.loc[lacking, "model_id"]))
    if family.groupby(rows[LAB]).nunique().max() < 2:
        warnings.append(
            "no lab has two families: effects of lab and family cannot be separated and are divided by the prior; "
            "their sum, the lineage, can be estimated"
        )
    if family.value_counts().max() < 2:
        warnings.append("no family has two models: effects of family and model cannot be separated")
    return warnings
