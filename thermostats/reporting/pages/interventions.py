"""The page of what can be changed in a trained model, and at what price: rows of `interventions`
and exact changes on one scale."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.evidence import INTERVENED, Evidence
from thermostats.formatting import format_number, format_percent
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.price_curves import (
    LEVEL,
    SAME,
    STEPS,
    estimate_stiffness,
    list_crossings,
)
from thermostats.plots.price_curves import draw_price_scale
from thermostats.plots.svg import render_svg
from thermostats.reporting.render import Files
from thermostats.reporting.state import describe_machine
from thermostats.tables.invariants import find_moves, read_effects

GAIN = "penultimate_gain"
ONES = "ones"
"""Exact changes that are drawn: a constant in the stream, which LayerNorms do not read."""
ENTROPY = "entropy"
BESIDES = {"last_gain": "last gain", "total_amplification": "total gain"}
"""What may move when the gain is moved, in words."""
WORDS = {"down": "below 1", "up": "above 1"}
SIDES = {True: "grew", False: "dampened"}
LEAST_FAMILIES = 4
"""Families with several models from which on their share of the variance of stiffness is
estimated."""
STATES = ("gains_before", "gains_after")


def build_files(tables: Evidence) -> dict[str, bytes]:
    """`interventions.md`, its figure, and its tables as CSV; without rows the page says so."""
    rows = tables.named(INTERVENED).table("interventions")
    crossings = list_crossings(rows)
    made = Files()
    if not (crossings["gain"] == GAIN).any():
        made.add_page("interventions.md", figure="", machine=describe_machine())
        return made.contents
    exact = list_exact_changes()
    scale = compare_scale(rows, exact)
    summary = summarise_crossings(crossings)
    stiffness = estimate_stiffness(rows, GAIN)
    by_side = summarise_stiffness(stiffness)
    models = tables.named(INTERVENED).table("models")
    picture = render_svg(lambda axes: draw_picture(rows, exact, axes))
    figure = made.add_figure(picture, "interventions.svg", write_caption(rows, exact))
    prices = made.add_table(scale, "Prices in nats a token", "scale.csv")
    mirrored = made.add_table(summary, "Crossings with their mirrors", "crossings.csv")
    by_side_table = made.add_table(by_side, "Stiffness by side of 1", "stiffness.csv")
    made.add_page(
        "interventions.md",
        figure=figure,
        scale=prices,
        crossings=mirrored,
        stiffness=by_side_table,
        machine=describe_machine(),
        inherited=describe_inherited(stiffness, models),
        **collect_words(rows, crossings, exact),
    )
    return made.contents


def list_exact_changes() -> pd.DataFrame:
    """Changes of trained models that leave every output as it is and move the gain, as rows of
    `interventions`: price 0, where no entropy of a prediction moved."""
    moves = find_moves(GAIN)
    moves = moves[moves["change"] == ONES]
    entropies = []
    for model, how in zip(moves["model"], moves["how"], strict=True):
        entropies.append(read_effects(model, how)[ENTROPY]["moved"])
    moves = moves[[moved == 0 for moved in entropies]]
    return pd.DataFrame(
        {
            "model_id": moves["model"],
            "operation": "do",
            "what": moves["how"],
            "gain": GAIN,
            "gain_before": moves["before"],
            "gain_after": moves["after"],
            "kl": 0.0,
        }
    ).reset_index(drop=True)


def draw_picture(rows: pd.DataFrame, exact: pd.DataFrame, axes: Axes) -> Axes:
    """Prices of the gain against the distance it was moved, with exact changes at the foot."""
    kept = (rows["gain"] == GAIN) | (rows["operation"] == "floor")
    return draw_price_scale(pd.concat([rows[kept], exact], ignore_index=True), axes)


def write_caption(rows: pd.DataFrame, exact: pd.DataFrame) -> str:
    """What is drawn, and what came out."""
    steered = _select(rows, "steer")
    tuned = _select(rows, "tune")
    n_models = steered["model_id"].nunique()
    words = (
        f"What it costs to move the penultimate gain of {n_models} small "
        f"models, and how far it is moved. A curve is one model under one seed of the steering; "
        f"distances are positive towards 1 and beyond it, and negative away from it, where the "
        f"mirrors are. Filled points have crossed 1. A dash is the same number of steps without "
        f"a target. Steering costs at most {format_number(steered['kl'].max())} nats a token"
    )
    if len(tuned):
        cheapest = format_number(tuned["kl"].min())
        dearest = format_number(tuned["kl"].max())
        words += f"; crosses are ordinary tuning of the same models, at {cheapest} to {dearest}"
    logs = _measure_distance(exact)
    return (
        f"{words}. Pluses at the foot are exact changes of LayerNorm models, which cost nothing; "
        f"those that reach beyond the frame go as far as {format_number(logs.max())}."
    )


def _select(rows: pd.DataFrame, operation: str) -> pd.DataFrame:
    """Rows of one operation on the gain."""
    return rows[(rows["operation"] == operation) & (rows["gain"] == GAIN)]


def _measure_distance(rows: pd.DataFrame) -> pd.Series[float]:
    """How far the gain was moved: |log(after / before)|."""
    ratios = rows["gain_after"] / rows["gain_before"]
    distance: pd.Series[float] = np.log(ratios).abs()
    return distance


def compare_scale(rows: pd.DataFrame, exact: pd.DataFrame) -> pd.DataFrame:
    """Every kind of change by its price: columns change, models, rows, distance, cheapest, median,
    dearest."""
    steered = _select(rows, "steer")
    asked = np.log(steered["target"] / steered["gain_start"]).abs()
    kinds = {
        "exact, a constant in the stream (LayerNorm)": exact,
        "the same steps without a target": rows[rows["operation"] == "floor"],
    }
    for step in STEPS:
        off = (asked / step - 1).abs()
        kinds[f"steered by {step:g} in log, either way"] = steered[off < SAME]
    tuned = _select(rows, "tune")
    kinds |= {f"ordinary tuning: {what}": group for what, group in tuned.groupby("what")}
    made = []
    for what, group in kinds.items():
        made.append({"change": what, **_describe_prices(group)})
    return pd.DataFrame([row for row in made if row["rows"]])


def _describe_prices(rows: pd.DataFrame) -> dict[str, Any]:
    prices = rows["kl"]
    has_gain = rows["gain"].eq(GAIN).all()
    distance = float(_measure_distance(rows).median()) if has_gain else np.nan
    prices_by = {"cheapest": prices.min(), "median": prices.median(), "dearest": prices.max()}
    described = {"models": rows["model_id"].nunique(), "rows": len(rows), "distance": distance}
    return described | {what: float(price) for what, price in prices_by.items()}


def summarise_crossings(crossings: pd.DataFrame) -> pd.DataFrame:
    """Crossings by gain and direction: medians of prices, of their mirrors, floors and ratios."""
    made = []
    for (gain, direction), group in crossings.groupby(["gain", "direction"], sort=False):
        median = group[["kl", "kl_mirror", "kl_floor", "ratio"]].median()
        row = {
            "gain": str(gain).replace("_", " "),
            "taken": WORDS[str(direction)],
            "models": group["model_id"].nunique(),
            "price": median["kl"],
            "mirror": median["kl_mirror"],
            "floor": median["kl_floor"],
            "price / mirror": median["ratio"],
            "smallest": group["ratio"].min(),
            "largest": group["ratio"].max(),
            "least share of texts across": group["beyond"].min(),
        }
        made.append(row)
    return pd.DataFrame(made).sort_values(["gain", "taken"], kind="stable", ignore_index=True)


def summarise_stiffness(stiffness: pd.DataFrame) -> pd.DataFrame:
    """Stiffness of models that grew and of those that dampened before."""
    made = []
    for grew, group in stiffness.groupby(stiffness["gain_before"] > 1, sort=False):
        values = group["stiffness"]
        row = {
            "before": SIDES[bool(grew)],
            "models": group["model_id"].nunique(),
            "smallest": values.min(),
            "median": values.median(),
            "largest": values.max(),
        }
        made.append(row)
    return pd.DataFrame(made)


def collect_words(
    rows: pd.DataFrame, crossings: pd.DataFrame, exact: pd.DataFrame
) -> Mapping[str, Any]:
    """Numbers of the page's sentences."""
    own = crossings[crossings["gain"] == GAIN]
    tuned = _select(rows, "tune")
    trained = rows[rows["operation"] != "do"]
    crossed = np.log(tuned["gain_before"]) * np.log(tuned["gain_after"]) < 0
    median = own[["kl", "kl_floor", "ratio"]].median()
    return {
        "n_rows": len(trained),
        "n_models": trained["model_id"].nunique(),
        "n_crossed": own["model_id"].nunique(),
        "targets": 2 * len(STEPS),
        "crossing": float(median["kl"]),
        "floor": float(median["kl_floor"]),
        "ratio": float(median["ratio"]),
        "tuned": len(tuned),
        "tuned_across": int(crossed.sum()),
        "tuning": float(tuned["kl"].median()) if len(tuned) else None,
        "exact": exact.to_dict("records"),
        "besides": measure_besides(rows),
    }


def measure_besides(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """How far other gains move with the one that is steered: slopes of their log distances on its
    own, through 0."""
    steered = _select(rows, "steer")
    before, after = (_read_gains(steered[name]) for name in STATES)
    logs = np.log(after / before)
    own = logs[GAIN]
    besides = []
    for name, words in BESIDES.items():
        if name in logs:
            slope = (logs[name] * own).sum() / (own**2).sum()
            besides.append({"words": words, "share": float(slope)})
    return besides


def _read_gains(values: pd.Series) -> pd.DataFrame:
    return pd.DataFrame(values.map(json.loads).tolist())


def describe_inherited(stiffness: pd.DataFrame, models: pd.DataFrame) -> str:
    """Share of the variance of log stiffness that goes with the family; empty where few families
    have several models."""
    names = models.drop_duplicates("model_id").set_index("model_id")["family"]
    rows = stiffness.drop_duplicates("model_id")
    rows = rows.assign(lineage=rows["model_id"].map(names))
    repeated = (rows["lineage"].value_counts() > 1).sum()
    if repeated < LEAST_FAMILIES or (rows["stiffness"] <= 0).any():
        return ""
    width = 2 * stats.norm.ppf((1 + LEVEL) / 2)
    rows = rows.assign(se=(rows["upper"] - rows["lower"]) / width)
    summary = fit_heritage(rows, outcome="stiffness", lab="lineage", se="se").summary()
    share = summary.loc["share_heritage"]
    interval = f"{format_percent(share['lower'])} to {format_percent(share['upper'])}"
    level = summary.attrs["level"]
    n_families = rows["lineage"].nunique()
    median = format_percent(share["median"])
    return (
        f"Of the variance of log stiffness over {len(rows)} models, "
        f"{median} goes with the family ({interval}, "
        f"{level:.0%} interval, heritage model of "
        f"{n_families} families, {repeated} of which have several models). In the "
        f"models that ship a family is one recipe on one corpus, and models of a family differ by "
        f"their seed alone."
    )
