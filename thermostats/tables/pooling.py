"""All measurements of a model in one estimate: instrument, prompt set and precision are levels of variance."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import optimize

LEVELS = ("source", "prompt_set", "dtype")
"""Whose instrument, which prompts, which precision; what is left differs from run to run."""

APART, SMALLEST = 3.0, 0.01
"""Errors, and the log ratio, above which two measurements of one model disagree."""
EXACT = 1e-12
"""Variance of a measurement of which no error is known, so that those of one model count alike."""


def variances(rows: pd.DataFrame) -> dict[str, float]:
    """Variances of a log measurement between the values of each level and between runs, by name (`run` the last).

    Two measurements r, s of one model differ by E (y_r − y_s)² − e_r² − e_s² = 2 (σ²_run + Σ_k σ²_k 1[k_r ≠ k_s]);
    the variances are least squares of this over all pairs, none below 0, every model with the same weight: the method
    of moments of DerSimonian and Laird 1986 (doi:10.1016/0197-2456(86)90046-2), here with several levels.

    rows: `model_id`, the levels, `y` (log of the measurement) and `e` (its standard error). Where no model was measured
    twice every variance is 0.
    """
    design, seen = [], []
    for _, measured in rows.groupby("model_id"):
        pairs = list(combinations(measured.to_dict("records"), 2))
        for a, b in pairs:
            weight = len(pairs) ** -0.5
            design.append([weight, *(weight * (a[name] != b[name]) for name in LEVELS)])
            seen.append(weight * ((a["y"] - b["y"]) ** 2 - a["e"] ** 2 - b["e"] ** 2) / 2)
    fitted = optimize.nnls(np.array(design), np.array(seen))[0] if seen else np.zeros(len(LEVELS) + 1)
    return dict(zip(("run", *LEVELS), map(float, fitted), strict=True))


def pooled(rows: pd.DataFrame, components: Mapping[str, float] | None = None) -> pd.DataFrame:
    """One estimate a model: `y` = 1'V⁻¹y / 1'V⁻¹1 and its standard error `e` = (1'V⁻¹1)^(−½), by `model_id`.

    V = diag(e² + σ²_run) + Σ_k σ²_k 1[k_r = k_s], with `variances`. A model's error has the levels in it: one
    instrument more is worth more than one run more. rows: as for `variances`, whose result stands for `components`
    where these are not given.
    """
    components = variances(rows) if components is None else components
    estimates = []
    for model, measured in rows.groupby("model_id", sort=False):
        covariance = np.diag(measured["e"].to_numpy(np.float64) ** 2 + components["run"])
        for name in LEVELS:
            value = measured[name].to_numpy()
            covariance = covariance + components[name] * (value[:, None] == value[None, :])
        weights = np.linalg.solve(covariance + EXACT * np.eye(len(measured)), np.ones(len(measured)))
        mean = weights @ measured["y"].to_numpy(np.float64) / weights.sum()
        estimates.append((model, float(mean), float(weights.sum() ** -0.5), len(measured)))
    return pd.DataFrame(estimates, columns=["model_id", "y", "e", "measurements"]).set_index("model_id")


def disagreements(features: pd.DataFrame, gain: str = "penultimate_gain") -> list[str]:
    """Pairs of measurements of one model whose gains lie apart by more than three errors and 1%, a sentence each.

    features: rows of the table `features`. The error is that over prompts, of both.
    """
    rows = features[features[gain] > 0]
    n = rows[f"{gain}_n"].astype("float64").clip(lower=1)
    rows = rows.assign(error=(rows[f"{gain}_sd"] / rows[gain] / np.sqrt(n)).fillna(0.0).astype("float64"))
    sentences = []
    for (model, _), measured in rows.groupby(["model_id", "revision"]):
        for a, b in combinations(measured.to_dict("records"), 2):
            apart = float(np.log(b[gain] / a[gain]))
            if abs(apart) > max(APART * np.hypot(a["error"], b["error"]), SMALLEST):
                first, second = (f"{row[gain]:.4g} by {row['source']}" for row in (a, b))
                sentences.append(f"{model}: {gain} {first}, {second} ({100 * np.expm1(apart):+.0f}%)")
    return sentences
