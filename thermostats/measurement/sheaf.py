"""Measures of the sheaf Laplacian of attention weights, rows of the table `attention`, and the
identities behind them.

Of arrays alone: nothing here needs torch, so that claims may ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Row = dict[str, object]
MEASURES = (
    *("trace", "self_attention", "graph_lambda2", "laplacian_min", "laplacian_max"),
    *("entropy", "distance", "operator_norm", "contraction_ratio"),
)
OF_EDGES = ("graph_lambda2", "laplacian_min", "laplacian_max", "contraction_ratio")
ONE_TOKEN = "one token: the graph has no edges"  # noqa: S105
NOT_FINITE = "attention or W_V is not finite"
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ValueSpectra:
    """Squared singular values of W_V of every query head, descending; shape (H, d_h)."""

    squared: Floats

    @property
    def frobenius_squared(self) -> Floats:
        """‖W_V^h‖_F², shape (H,)."""
        return np.asarray(self.squared.sum(axis=1))

    @property
    def spectral(self) -> Floats:
        """‖W_V^h‖₂, shape (H,)."""
        return np.asarray(np.sqrt(self.squared.max(axis=1, initial=0.0)))


def measure_value_spectra(heads: NDArray[Any]) -> ValueSpectra:
    """Spectra of W_V^h from its Gram matrices W_V^h W_V^hᵀ in float64; `heads` has shape (H, d_h,
    d).

    Values under max(d_h, d)·ε·σ_max² are zeros of a rank-deficient head that rounding has blurred,
    and set to zero.
    """
    if not np.isfinite(heads).all():
        return ValueSpectra(np.full(heads.shape[:2], np.nan))
    wide = heads.astype(np.float64)
    squared = np.linalg.eigvalsh(wide @ wide.transpose(0, 2, 1))
    squared = squared[:, ::-1]
    size = max(heads.shape[1:], default=0)
    floor = size * EPSILON * squared.max(axis=1, initial=0.0)
    return ValueSpectra(np.where(squared > floor[:, None], squared, 0.0))


def measure_heads(attention: NDArray[Any], spectra: ValueSpectra) -> dict[str, Floats]:
    """Every measure of the table `attention` per head, each of shape (H,).

    `attention` has shape (H, n, n), row i the weights with which token i attends. Edges are all
    pairs of tokens, and the operator norm of edge {i, j} is √(A_ij + A_ji)·‖W_V^h‖₂, one term of
    which is zero under causal masking. Entropy (nat) and distance (tokens) are means over rows,
    each row scaled to sum 1 as attention sinks take a share. With one token, what needs an edge is
    NaN.
    """
    A = np.asarray(attention, np.float64)
    n = A.shape[1]
    sums = A.sum(axis=(1, 2))
    diagonal = A.trace(axis1=1, axis2=2)
    measured = {
        "trace": (sums - diagonal) * spectra.frobenius_squared,
        "self_attention": diagonal / n,
    }
    measured["entropy"], measured["distance"] = _measure_entropy_and_distance(A)
    if n > 1:
        graph = np.asarray(np.linalg.eigvalsh(build_laplacian(A)), np.float64)
        smallest = _find_smallest_positive(graph, n * EPSILON)
        smallest_squared = _find_smallest_positive(spectra.squared, 0.0)
        largest_squared = spectra.squared.max(axis=1, initial=0.0)
        later, earlier = np.tril_indices(n, -1)
        both = A + A.transpose(0, 2, 1)
        of_edges = np.sqrt(both)[:, later, earlier]
        measured["graph_lambda2"] = np.maximum(graph[:, 1], 0.0)
        measured["laplacian_min"] = smallest * smallest_squared
        measured["laplacian_max"] = graph[:, -1] * largest_squared
        measured["contraction_ratio"] = of_edges.mean(axis=1)
    else:
        without_edges = np.full(A.shape[0], np.nan)
        measured |= dict.fromkeys(OF_EDGES, without_edges)
    measured["operator_norm"] = measured["contraction_ratio"] * spectra.spectral
    return measured


def build_laplacian(attention: Floats) -> Floats:
    """L_G = D − w, w_ij = (A_ij + A_ji)/2 for i ≠ j; shape (…, n, n)."""
    weights = (attention + np.swapaxes(attention, -1, -2)) / 2
    index = np.arange(attention.shape[-1])
    weights[..., index, index] = 0.0
    laplacian = -weights
    laplacian[..., index, index] = weights.sum(axis=-1)
    return laplacian


def build_attention_rows(
    attention: NDArray[Any],
    spectra: ValueSpectra,
    published: ValueSpectra,
    *,
    layer: int,
    prompt_id: str,
) -> list[Row]:
    """Rows of the table `attention`, without run_id, of one layer and prompt: per head, all heads,
    published variants.

    All heads together (head empty): the total operator is block-diagonal, one copy of the stalk per
    head, so traces add and the extreme eigenvalues are the extremes over heads; every other measure
    is the mean over heads. `published` are the spectra of W_V as the study cut it, for the variants
    `first_head` and `multi_head`.
    """
    A = np.asarray(attention, np.float64)
    row = partial(_build_row, layer, prompt_id)
    heads = []
    for h in range(A.shape[0]):
        heads.append(str(h + 1))
    if not (np.isfinite(A).all() and np.isfinite(spectra.squared).all()):
        return [row(head, "exact", {}, NOT_FINITE) for head in (*heads, "")]
    measured = measure_heads(A, spectra)
    missing = ONE_TOKEN if A.shape[1] == 1 else ""
    rows = []
    for h, head in enumerate(heads):
        of_head = {name: float(measured[name][h]) for name in MEASURES}
        rows.append(row(head, "exact", of_head, missing))
    rows.append(row("", "exact", _summarise_heads(measured), missing))
    traces = {
        "printed_factor": measure_printed_trace(A, spectra),
        "first_head": measure_first_head_trace(A, published),
        "multi_head": measure_multi_head_trace(A, published),
    }
    for name, value in traces.items():
        rows.append(row("", name, {"trace": value}, ""))
    return rows


def build_proxy_row(layer: int, spectral_norm: float) -> Row:
    """The published `proxy` of a layer, ‖W_V‖₂² of its whole W_V; no prompt enters."""
    missing = "" if np.isfinite(spectral_norm) else NOT_FINITE
    return _build_row(layer, "", "", "proxy", {"trace": spectral_norm**2}, missing)


def measure_first_head_trace(attention: Floats, spectra: ValueSpectra) -> float:
    """Published: (Σ Ā − tr Ā)·‖W_V^(first head)‖_F² with the attention Ā averaged over heads."""
    mean = attention.mean(axis=0)
    off_diagonal = mean.sum() - np.trace(mean)
    return float(off_diagonal * spectra.frobenius_squared[0])


def measure_multi_head_trace(attention: Floats, spectra: ValueSpectra) -> float:
    """Published: Σ_h (Σ A^h − tr A^h)·‖W_V^h‖_F²."""
    factors = attention.sum(axis=(1, 2)) - attention.trace(axis1=1, axis2=2)
    return float(factors @ spectra.frobenius_squared)


def measure_printed_trace(attention: Floats, spectra: ValueSpectra) -> float:
    """As printed in the preprint's equation 4: Σ_h (Σ A^h − n)·‖W_V^h‖_F², zero but for rounding
    under a softmax."""
    factors = attention.sum(axis=(1, 2)) - attention.shape[1]
    return float(factors @ spectra.frobenius_squared)


def _summarise_heads(measured: dict[str, Floats]) -> dict[str, float]:
    together = {}
    for name, values in measured.items():
        together[name] = float(values.mean())
    together["trace"] = float(measured["trace"].sum())
    finite = measured["laplacian_min"][np.isfinite(measured["laplacian_min"])]
    together["laplacian_min"] = float(finite.min()) if finite.size else float("nan")
    together["laplacian_max"] = float(measured["laplacian_max"].max())
    return together


def _build_row(
    layer: int, prompt_id: str, head: str, variant: str, values: dict[str, float], missing: str
) -> Row:
    key = {"layer": layer, "head": head, "prompt_id": prompt_id, "variant": variant}
    return {
        **key,
        **{name: values.get(name, float("nan")) for name in MEASURES},
        "missing": missing,
    }


def _find_smallest_positive(values: Floats, relative: float) -> Floats:
    """Smallest entry of each row above `relative` times the row's largest; NaN where there is
    none."""
    floor = np.maximum(relative * values.max(axis=1, initial=0.0), 0.0)
    above = np.where(values > floor[:, None], values, np.inf)
    smallest = above.min(axis=1, initial=np.inf)
    return np.where(np.isfinite(smallest), smallest, np.nan)


def _measure_entropy_and_distance(A: Floats) -> tuple[Floats, Floats]:
    sums = A.sum(axis=2, keepdims=True)
    index = np.arange(A.shape[1])
    rows = np.divide(A, sums, out=np.zeros_like(A), where=sums > 0)
    logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
    apart = np.abs(index[:, None] - index[None, :])
    entropy = -(rows * logs).sum(axis=2).mean(axis=1) + 0.0
    distance = (rows * apart).sum(axis=2).mean(axis=1)
    return entropy, distance


def build_dense_operator(A: Floats, W: Floats) -> Floats:
    """δᵀδ, H·n·d squared, on the stalks of all heads, of attention A (H × n × n) and value maps W
    (H × d_h × d).

    δ maps a token's stalk of head h to √w_ij (W^h x_i − W^h x_j) on edge {i, j}, w_ij = (A_ij +
    A_ji)/2.
    """
    H, n, _ = A.shape
    _, d_h, d = W.shape
    rows = []
    for h, i in np.ndindex(H, n):
        for j in range(i):
            delta = np.zeros((d_h, H, n, d))
            mean = (A[h, i, j] + A[h, j, i]) / 2
            weight = np.sqrt(mean)
            delta[:, h, i] = weight * W[h]
            delta[:, h, j] = -weight * W[h]
            rows.append(delta.reshape(d_h, -1))
    coboundary = np.vstack(rows)
    return np.asarray(coboundary.T @ coboundary)


def measure_identity_residuals(
    sizes: Sequence[tuple[int, int, int, int]], *, seed: int
) -> pd.DataFrame:
    """Relative residual of every identity against the dense operator on one random example a size
    (n, H, d_h, d).

    Tr(L_F) = (Σ A − tr A)·‖W_V‖_F² for one head; the Laplacian of H heads is block-diagonal, so
    that traces add.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for n, H, d_h, d in sizes:
        A = np.tril(rng.exponential(size=(H, n, n)))
        A /= A.sum(axis=2, keepdims=True)
        W = rng.normal(size=(H, d_h, d))
        dense = build_dense_operator(A, W)
        spectra = measure_value_spectra(W)
        total = np.trace(dense)
        by_formula = measure_heads(A, spectra)["trace"]
        block = np.ones((n * d, n * d))
        inside = np.kron(np.eye(H), block) > 0
        traces = np.diag(dense).reshape(H, -1).sum(axis=1)
        outside = np.abs(np.where(inside, 0.0, dense))
        by_head = by_formula / traces
        as_printed = measure_printed_trace(A, spectra) / total
        row = {
            "n": n,
            "H": H,
            "d_h": d_h,
            "d": d,
            "trace_of_the_dense_operator": total,
            "outside_the_blocks": outside.max() / np.abs(dense).max(),
            "trace_by_formula": np.abs(by_head - 1).max(),
            "trace_as_printed": abs(as_printed - 1),
            "traces_add": abs(by_formula.sum() / total - 1),
        }
        rows.append(row)
    return pd.DataFrame(rows)


Curve = NDArray[np.float64]


def find_max_gradient(curve: Curve) -> int | None:
    """argmax_l |dT/dl|, central differences, one-sided at both ends; the first where several are
    equal. 1-based."""
    if curve.size < 2:
        return None
    slopes = np.abs(np.gradient(curve))
    return int(slopes.argmax()) + 1


def find_sign_change(curve: Curve) -> int | None:
    """First layer at which the curve stops rising and next falls, the first of a flat top; None if
    it never does."""
    difference = np.diff(curve)
    moves = np.flatnonzero(difference)
    steps = difference[moves]
    turns = np.flatnonzero((steps[:-1] > 0) & (steps[1:] < 0))
    return int(moves[turns[0]]) + 2 if turns.size else None


def find_peak(curve: Curve) -> int | None:
    """Layer of the largest value, the first where several are equal. 1-based."""
    return int(curve.argmax()) + 1 if curve.size else None


def find_minimum(curve: Curve) -> int | None:
    """Layer of the smallest value, the first where several are equal. 1-based."""
    return int(curve.argmin()) + 1 if curve.size else None


CURVES: dict[str, tuple[str, dict[str, Callable[[Curve], int | None]]]] = {
    "": (
        "trace",
        {
            "max_abs_gradient": find_max_gradient,
            "first_sign_change": find_sign_change,
            "peak": find_peak,
        },
    ),
    "spectral_gap": ("laplacian_min", {"max_spectral_gap": find_peak}),
    "lambda2": ("graph_lambda2", {"max_lambda2": find_peak}),
    "contraction_ratio": ("contraction_ratio", {"minimum": find_minimum}),
}
"""Trace variant → the column of `attention` it is read from and its definitions; empty: the variant
of the row.

The spectral gap of the sheaf Laplacian is its smallest non-zero eigenvalue, as its kernel is never
empty.
"""
UNTURNED = "the curve does not turn from rising to falling"
SHORT = "a single layer has no gradient"
INCOMPLETE = "a layer of the curve is missing"


def find_transitions(attention: pd.DataFrame) -> pd.DataFrame:
    """L* of every prompt under every definition, from a run's rows of the table `attention` over
    all heads.

    One row per prompt and definition, as the table `transitions`.
    """
    rows = []
    for (prompt_id, variant), group in attention[attention["head"] == ""].groupby(
        ["prompt_id", "variant"], sort=True
    ):
        ordered = group.sort_values("layer")
        for curve_name, (column, definitions) in CURVES.items():
            if curve_name and variant != "exact":
                continue
            values = ordered[column].to_numpy(dtype=np.float64)
            every = list(range(1, len(ordered) + 1))
            complete = bool(np.isfinite(values).all()) and ordered["layer"].tolist() == every
            for definition, find in definitions.items():
                layer = (find(values) if complete else None) or np.nan
                none = (
                    INCOMPLETE
                    if not complete
                    else UNTURNED
                    if definition == "first_sign_change"
                    else SHORT
                )
                of_curve = {"definition": definition, "trace_variant": curve_name or variant}
                place = {"layer": float(layer), "relative_depth": layer / len(values)}
                row = {"prompt_id": prompt_id, **of_curve, **place}
                row["missing"] = none if np.isnan(layer) else ""
                rows.append(row)
    columns = ["prompt_id", "definition", "trace_variant", "layer", "relative_depth", "missing"]
    return pd.DataFrame(rows, columns=columns)
