"""How the norm n_l of the stream grows with depth: one growth rate for every block, or one that
falls with depth.

exponential   log G_l = c + e_l                     n_l ∝ exp(c l)
power         log G_l = a log(l / (l − 1)) + e_l    n_l ∝ l^a

G_l = n_l / n_(l−1) is the gain of block l, 2 ≤ l ≤ L − 1. Both laws have one parameter. They are
compared on increments, log G_l, since cumulated norms add up all errors before them, so that
neighbours err alike.

Exponential growth was described in GPT-2 and other models (Heimersheim and Turner 2023, Residual
stream norms grow exponentially over the forward pass, alignmentforum.org/posts/8mizBCm3dyc432nK8),
with 1.045 per block in GPT-2 XL, and is stated for networks that normalise before each block (Sun
et al. 2025, arXiv 2502.05795). A power of 1/2 is what independent writes of equal size give, as at
initialisation (Xiong et al. 2020, arXiv 2002.04745).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import LAST, Evidence
from thermostats.modelling.draws import Array
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import model_rows, pick_model_rows
from thermostats.tables.reading import keep_last_revision

GAIN = "geometric_gain_to_penultimate"
LEAST_BLOCKS, MISSING = 8, 1
"""Blocks from 2 to L − 1 that a model must have, and how many of them its rows may lack."""
STRONG = 6.0
"""A difference of BIC from which evidence is strong (Kass and Raftery 1995,
doi:10.1080/01621459.1995.10476572)."""


def build_profiles(evidence: Evidence, revision: str = "") -> pd.DataFrame:
    """Mean over prompts of log G_l, 2 ≤ l ≤ L − 1, at a model's last revision, of the complete run
    with most prompts.

    Columns: model_id, heritage, n_layers, n_prompts, layer, log_gain. Comparable models, as
    `model_rows` has them. revision: another one, such as a step of training.
    """
    every = evidence.table("layers", position=LAST).dropna(subset="gain_block")
    if revision:
        layers = every[every["revision"] == revision]
    else:
        layers = keep_last_revision(every, "model_id")
    models = drop_unlabelled(model_rows(evidence, GAIN), "heritage")
    models = models[["model_id", "heritage", "n_layers"]]
    inner = layers.drop(columns="heritage").merge(models, on="model_id")
    from_second = inner["layer"] >= 2
    between = from_second & (inner["layer"] < inner["n_layers"])
    inner = inner[between]
    gains = inner["gain_block"].astype("float64")
    logs = inner.assign(log_gain=np.log(gains))
    by_run = [*models, "run_id", "source"]
    by_layer = logs.groupby([*by_run, "layer"], as_index=False)["log_gain"]
    means = by_layer.agg(log_gain="mean", n_prompts="size")
    runs = means.groupby(by_run, as_index=False).agg(
        blocks=("layer", "size"), n_prompts=("n_prompts", "min")
    )
    inner_blocks = runs["n_layers"] - 2
    needed = np.maximum(LEAST_BLOCKS, inner_blocks - MISSING)
    complete = runs[runs["blocks"] >= needed]
    chosen = pick_model_rows(complete)["run_id"]
    rows = means[means["run_id"].isin(chosen)]
    rows = rows.sort_values(["model_id", "layer"], ignore_index=True)
    return rows[[*models, "n_prompts", "layer", "log_gain"]]


def fit_laws(rows: pd.DataFrame) -> pd.DataFrame:
    """Both laws fitted to every model of `build_profiles`, one row each.

    Columns besides its model's: blocks; growth, e^c; power, a; `delta`, BIC of the exponential law
    minus BIC of the power; exponential, whether that is below 0; `neighbours`, the correlation of
    neighbours' errors about the exponential law where it is fitted to cumulated log norms, and
    `neighbours_of_increments` where it is to increments.
    """
    labels = ["model_id", "heritage", "n_layers"]
    fitted = []
    for names, model in rows.groupby(labels):
        layer = model["layer"].to_numpy(float)
        law = _fit_model(layer, model["log_gain"].to_numpy())
        facts = dict(zip(labels, names, strict=True))
        fitted.append(facts | law)
    columns = [
        *labels,
        "blocks",
        "growth",
        "power",
        "delta",
        "exponential",
        "neighbours",
        "neighbours_of_increments",
    ]
    return pd.DataFrame(fitted, columns=columns)


def compare_training_steps(evidence: Evidence) -> pd.DataFrame:
    """At every step of training that was kept, in how many models the exponential law fits better.

    Columns: step, models, exponential, power (the median a). Revisions are named by their step.
    """
    names = evidence.table("layers", position=LAST)["revision"]
    numbers = names.str.extract(r"(\d+)$")[0].astype("float64")
    steps = numbers.groupby(names).first().dropna().sort_values()
    rows = []
    for revision, step in steps.items():
        at = fit_laws(build_profiles(evidence, str(revision)))
        counts = {
            "step": int(step),
            "models": len(at),
            "exponential": int(at["exponential"].sum()),
            "power": float(at["power"].median()),
        }
        rows.append(counts)
    return pd.DataFrame(rows)


def _fit_model(layer: Array, log_gain: Array) -> dict[str, float | bool]:
    """Least squares of both laws: equal numbers of parameters, so BIC differs by n log of the ratio
    of squares."""
    slower = np.log(layer / (layer - 1))
    power = float(slower @ log_gain / (slower @ slower))
    errors = log_gain - log_gain.mean()
    left = log_gain - power * slower
    squares = np.square(left).sum()
    delta = log_gain.size * float(np.log(errors @ errors) - np.log(squares))
    norms = np.cumsum(log_gain)
    coefficients = np.polyfit(layer, norms, 1)
    line = np.polyval(coefficients, layer)
    growth = float(np.exp(log_gain.mean()))
    return {
        "blocks": log_gain.size,
        "growth": growth,
        "power": power,
        "delta": delta,
        "exponential": delta < 0,
        "neighbours": _measure_autocorrelation(norms - line),
        "neighbours_of_increments": _measure_autocorrelation(errors),
    }


def _measure_autocorrelation(errors: Array) -> float:
    """Correlation of neighbours."""
    products = errors[1:] @ errors[:-1]
    return float(products / (errors @ errors))
