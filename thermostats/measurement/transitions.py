"""The transition layer L*: named definitions applied to curves over the layers of one model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Curve = NDArray[np.float64]


def max_abs_gradient(curve: Curve) -> int | None:
    """argmax_l |dT/dl|, central differences, one-sided at both ends; the first where several are equal. 1-based."""
    return int(np.abs(np.gradient(curve)).argmax()) + 1 if curve.size > 1 else None


def first_sign_change(curve: Curve) -> int | None:
    """First layer at which the curve stops rising and next falls, the first of a flat top; None if it never does."""
    difference = np.diff(curve)
    moves = np.flatnonzero(difference)
    turns = np.flatnonzero((difference[moves][:-1] > 0) & (difference[moves][1:] < 0))
    return int(moves[turns[0]]) + 2 if turns.size else None


def peak(curve: Curve) -> int | None:
    """Layer of the largest value, the first where several are equal. 1-based."""
    return int(curve.argmax()) + 1 if curve.size else None


def minimum(curve: Curve) -> int | None:
    """Layer of the smallest value, the first where several are equal. 1-based."""
    return int(curve.argmin()) + 1 if curve.size else None


CURVES: dict[str, tuple[str, dict[str, Callable[[Curve], int | None]]]] = {
    "": ("trace", {"max_abs_gradient": max_abs_gradient, "first_sign_change": first_sign_change, "peak": peak}),
    "spectral_gap": ("laplacian_min", {"max_spectral_gap": peak}),
    "lambda2": ("graph_lambda2", {"max_lambda2": peak}),
    "contraction_ratio": ("contraction_ratio", {"minimum": minimum}),
}
"""Trace variant → the column of `attention` it is read from and its definitions; empty: the variant of the row.

The spectral gap of the sheaf Laplacian is its smallest non-zero eigenvalue, as its kernel is never empty.
"""
UNTURNED = "the curve does not turn from rising to falling"
SHORT = "a single layer has no gradient"
INCOMPLETE = "a layer of the curve is missing"


def transitions(attention: pd.DataFrame) -> pd.DataFrame:
    """L* of every prompt under every definition, from a run's rows of the table `attention` over all heads.

    One row per prompt and definition, as the table `transitions`.
    """
    rows = []
    for (prompt_id, variant), group in attention[attention["head"] == ""].groupby(["prompt_id", "variant"], sort=True):
        ordered = group.sort_values("layer")
        for curve_name, (column, definitions) in CURVES.items():
            if curve_name and variant != "exact":
                continue
            values = ordered[column].to_numpy(dtype=np.float64)
            complete = bool(np.isfinite(values).all()) and ordered["layer"].tolist() == list(range(1, len(ordered) + 1))
            for definition, find in definitions.items():
                layer = (find(values) if complete else None) or np.nan
                none = INCOMPLETE if not complete else UNTURNED if definition == "first_sign_change" else SHORT
                of_curve = {"definition": definition, "trace_variant": curve_name or variant}
                place = {"layer": float(layer), "relative_depth": layer / len(values)}
                rows.append({"prompt_id": prompt_id, **of_curve, **place, "missing": none if np.isnan(layer) else ""})
    columns = ["prompt_id", "definition", "trace_variant", "layer", "relative_depth", "missing"]
    return pd.DataFrame(rows, columns=columns)
