"""Prices of changing a model, from rows of `interventions`: crossings with their mirrors,
stiffness.

    crossing    a gain taken to the other side of 1, at log distance δ
    mirror      as far, without crossing
    stiffness   k = Σ δ_i² (kl_i − kl_0) / Σ δ_i⁴  over targets,  δ_i = log(g_i / g)

kl_0 is the floor.

Intervals are 95% by the percentile bootstrap over held-out texts, which two rows of one model and
seed share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.tables.frames import list_records

Array = NDArray[np.float64]
DRAWS = 2000
LEVEL = 0.95
SAME = 1e-6
"""Relative distance up to which two targets are one."""
MODEL = ["model_id", "revision", "run_id", "seed"]
"""What rows share that were made on the same texts."""
SETTINGS = ["steps", "rate", "n_train", "n_tokens", "what"]
"""What a row and its floor share besides."""
OF_FLOOR = (*MODEL, *SETTINGS)
OF_MIRROR = (*OF_FLOOR, "gain", "penalty", "every")
"""What a row shares with its floor, which has no target, and with its mirror."""
MARGIN = 1.05
"""How far beyond 1 a crossing goes: from above to 1/1.05, from below to 1.05."""
STEPS = (0.1, 0.2, 0.4)
"""Log distances of the targets that a stiffness is of."""
MOST_RATIO = 1.5
"""Price of a crossing over that of its mirror up to which nothing guards the side."""


def read_prices(row: Mapping[str, Any]) -> Array:
    """KL of a row's held-out texts, nats a token."""
    prices: Array = np.array(json.loads(row["kl_texts"]), dtype=np.float64)
    return prices


def compare_prices(row: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, float, float]:
    """Difference of the prices of two rows on the same texts, and its 95% interval.

    Raises UsageError where they are of other texts.
    """
    first = read_prices(row)
    second = read_prices(other)
    if first.shape != second.shape:
        what = "prices of other texts cannot be compared text by text"
        raise UsageError(what, got=f"{len(first)} and {len(second)} texts")
    gaps = first - second
    drawn = _resample_means(gaps[None])[0]
    lower, upper = np.quantile(drawn, _ENDS).tolist()
    return float(gaps.mean()), lower, upper


_ENDS = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]


def _resample_means(values: Array) -> Array:
    """Means over drawn texts (rows × draws) of values of texts (rows × texts); the same draws for
    every row."""
    texts = values.shape[1]
    drawn = np.random.default_rng(texts).integers(texts, size=(DRAWS, texts))
    means: Array = values[:, drawn].mean(axis=2)
    return means


Records = list[dict[str, Any]]


def group_records(rows: pd.DataFrame, labels: Sequence[str]) -> dict[tuple[Any, ...], Records]:
    """Rows in their order by what they share in some columns; a row that lacks one is left out."""
    return {key: list_records(group) for key, group in rows.groupby(list(labels))}


def group_floors(rows: pd.DataFrame) -> dict[tuple[Any, ...], Records]:
    """Floors by model, texts and steps: those of a row are under `take_values(row, OF_FLOOR)`."""
    return group_records(rows[rows["operation"] == "floor"], OF_FLOOR)


def take_values(row: Mapping[str, Any], labels: Sequence[str]) -> tuple[Any, ...]:
    """What a row has in some columns."""
    return tuple(row[label] for label in labels)


CROSSING = [
    *("model_id", "revision", "gain", "seed", "direction", "gain_before", "gain_after"),
    *("beyond", "prompts_beyond", "prompts_last_beyond", "kl", "kl_mirror", "kl_floor", "ratio"),
    *("above_floor", "mirror_above_floor", "ce_rise"),
]


def list_crossings(rows: pd.DataFrame, margin: float = MARGIN) -> pd.DataFrame:
    """Every crossing to 1/margin or margin with its mirror and its floor: one row a model, gain
    and seed.

    A row is a crossing where its target lies on the other side of 1 than the gain was, and its
    mirror was taken too.

    Columns: model_id, revision, gain, seed; direction (`down` from above 1, `up` from below);
    gain_before, gain_after, beyond, prompts_beyond, prompts_last_beyond; kl, kl_mirror, kl_floor,
    ratio (kl over kl_mirror); above_floor, mirror_above_floor: whether the interval of the
    difference to the floor lies above 0; ce_rise: of cross-entropy on real texts.
    """
    is_steered = rows["operation"] == "steer"
    steered = rows[is_steered]
    floors = group_floors(rows)
    alike = group_records(steered, OF_MIRROR)
    made = []
    for row in list_records(steered):
        log_target = np.log(row["target"])
        crosses = np.log(row["gain_before"]) * log_target < 0
        crosses &= abs(abs(log_target) / np.log(margin) - 1) < SAME
        mirrored = _find_mirror(alike.get(take_values(row, OF_MIRROR), []), row)
        of_row = floors.get(take_values(row, OF_FLOOR), [])
        if crosses and mirrored is not None and of_row:
            crossing = _describe_crossing(row, mirrored, of_row[0])
            made.append(crossing)
    return pd.DataFrame(made, columns=CROSSING)


def _find_mirror(alike: Records, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first of rows whose target is as far on the other side of where the gain started; None
    where there is none."""
    wanted = row["gain_start"] ** 2 / row["target"]
    for other in alike:
        if abs(other["target"] / wanted - 1) < SAME:
            return other
    return None


def _describe_crossing(
    row: Mapping[str, Any], mirrored: Mapping[str, Any], floor: Mapping[str, Any]
) -> dict[str, Any]:
    same = ("model_id", "revision", "gain", "seed", "gain_before", "gain_after")
    shares = ("beyond", "prompts_beyond", "prompts_last_beyond")
    crossing = {name: row[name] for name in (*same, *shares, "kl")}
    _, least, _ = compare_prices(row, floor)
    _, least_of_mirror, _ = compare_prices(mirrored, floor)
    return {
        **crossing,
        "direction": "down" if row["gain_before"] > 1 else "up",
        "kl_mirror": mirrored["kl"],
        "kl_floor": floor["kl"],
        "ratio": row["kl"] / mirrored["kl"],
        "above_floor": least > 0,
        "mirror_above_floor": least_of_mirror > 0,
        "ce_rise": row["real_ce_after"] - row["real_ce_before"],
    }


JUDGED = [
    *("model_id", "gain", "direction", "seeds", "kl", "ratio", "ce_rise", "limit"),
    *("meets", "why"),
]


def judge_models(crossings: pd.DataFrame, limits: Mapping[str, float]) -> pd.DataFrame:
    """Which models meet the rule against "cannot", a row a model and gain, with why not.

    Every seed of the steering must have all held-out texts and all prompts across 1, at no more
    than 1.5 times the mirror or neither distinguished from its floor, and cross-entropy on real
    texts risen by less than the model's limit.

    limits: of cross-entropy by model_id; a model without one does not meet it.
    """
    made = []
    for (model, gain, direction), group in crossings.groupby(["model_id", "gain", "direction"]):
        limit = limits.get(str(model), np.nan)
        reasons = _list_reasons(group, limit)
        judged = {
            "model_id": model,
            "gain": gain,
            "direction": direction,
            "seeds": group["seed"].nunique(),
            "kl": group["kl"].max(),
            "ratio": group["ratio"].max(),
            "ce_rise": group["ce_rise"].max(),
            "limit": limit,
            "meets": not reasons,
            "why": "; ".join(reasons),
        }
        made.append(judged)
    return pd.DataFrame(made, columns=JUDGED)


def _list_reasons(group: pd.DataFrame, limit: float) -> list[str]:
    """Why a model's crossings of one gain do not meet the rule; none: they do."""
    is_above_floor = group["above_floor"] | group["mirror_above_floor"]
    is_cheap = group["ratio"] <= MOST_RATIO
    near = is_cheap | ~is_above_floor
    prompts = group["prompts_beyond"]
    real = group["ce_rise"]
    across = prompts.isna() | (prompts == 1)
    held = {
        "one seed of the steering": group["seed"].nunique() >= 2,
        "a held-out text is not across": (group["beyond"] == 1).all(),
        "no prompts of its own": prompts.notna().all(),
        "a prompt is not across": across.all(),
        f"over {MOST_RATIO:g} times its mirror": near.all(),
        "no real texts of its corpus": real.notna().all(),
        "no recipe with two seeds": not np.isnan(limit),
        "cross-entropy on real texts": not (real >= limit).any(),
    }
    return [words for words, fine in held.items() if not fine]


def estimate_stiffness(rows: pd.DataFrame, gain: str = "penultimate_gain") -> pd.DataFrame:
    """Price per squared log distance of a gain near rest: one row a model and seed, of three
    targets or more.

    Columns: model_id, revision, seed, stiffness, lower, upper (nats a token), floor, gain_before,
    n_targets.
    """
    steered = rows[(rows["operation"] == "steer") & (rows["gain"] == gain)]
    floors = group_floors(rows)
    made = []
    for key, records in group_records(steered, OF_FLOOR).items():
        near = _select_curve(records)
        if key not in floors or len(near) < 3:
            continue
        made.append(_fit_stiffness(near, floors[key][0]))
    return pd.DataFrame(made)


def _select_curve(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows whose targets are those of the curve, `STEPS` on either side of where the gain
    started."""
    near = []
    for row in records:
        distance = abs(np.log(row["target"] / row["gain_start"]))
        if any(abs(distance / step - 1) < SAME for step in STEPS):
            near.append(row)
    return near


def _fit_stiffness(near: Sequence[Mapping[str, Any]], floor: Mapping[str, Any]) -> dict[str, Any]:
    squares = np.array([np.log(row["gain_after"] / row["gain_before"]) ** 2 for row in near])
    over = np.stack([read_prices(row) for row in near]) - read_prices(floor)
    weights = squares / (squares**2).sum()
    drawn = weights @ _resample_means(over)
    lower, upper = np.quantile(drawn, _ENDS).tolist()
    first = near[0]
    return {
        **{name: first[name] for name in ("model_id", "revision", "seed")},
        "stiffness": float(weights @ over.mean(axis=1)),
        "lower": lower,
        "upper": upper,
        "floor": floor["kl"],
        "gain_before": first["gain_before"],
        "n_targets": len(near),
    }
