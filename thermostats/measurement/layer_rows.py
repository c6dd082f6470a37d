"""Norms per token into rows of the table `layers`, with the reason wherever a value cannot be given. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.tables.schemas import TABLES

Array = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

POSITIONS = ("first", "last", "mean")
RATIOS = {
    "gain_block": ("norm_out", "norm_in"),
    "gain_attention": ("attention_out", "attention_in"),
    "gain_mlp": ("mlp_out", "mlp_in"),
    "write_attention": ("attention_write", "norm_in"),
    "write_mlp": ("mlp_write", "norm_in"),
}
"""Column: numerator and denominator among the recorded norms."""
SOURCES = {**RATIOS, "norm_in": ("norm_in",), "cosine": ("product", "norm_in", "norm_out"), "anisotropy": ("norm_out",)}
SIGNED = ("cosine", "anisotropy")
COLUMNS = [name for name in TABLES["layers"].columns if name != "run_id"]


def layer_rows(prompt_id: str, n: int, norms: Mapping[str, Array], spread: Array, dtype: str) -> Columns:
    """Columns of one prompt's rows (layers × positions).

    `norms` holds norm_in, norm_out, product, attention_in, attention_out, attention_write and the same for mlp, each
    (L × n), NaN throughout where a module was not called; `spread` (L) is the anisotropy. At `mean`, norms and gains
    are geometric means over all tokens but the first, the cosine an arithmetic one. The anisotropy belongs to the
    prompt and stands in the rows of every position.
    """
    L = len(spread)
    with np.errstate(all="ignore"):
        per_token = {"norm_in": norms["norm_in"]}
        per_token |= {column: norms[above] / norms[below] for column, (above, below) in RATIOS.items()}
        values = {
            name: np.stack([x[:, 0], x[:, n - 1], np.exp(_mean(np.log(x[:, 1:])))], axis=1)
            for name, x in per_token.items()
        }
        cosine = norms["product"] / (norms["norm_in"] * norms["norm_out"])
        values["cosine"] = np.stack([cosine[:, 0], cosine[:, n - 1], _mean(cosine[:, 1:])], axis=1)
    values["anisotropy"] = np.repeat(spread[:, None], len(POSITIONS), axis=1)
    reasons: dict[tuple[int, int], dict[str, list[str]]] = {}
    for column, value in values.items():
        usable = np.isfinite(value) & ((value > 0) | (column in SIGNED))
        for layer, place in np.argwhere(~usable).tolist():
            why = _reason(column, POSITIONS[place], layer, norms, n, dtype)
            reasons.setdefault((layer, place), {}).setdefault(why, []).append(column)
        value[~usable] = np.nan
    missing = np.full((L, len(POSITIONS)), "", dtype=object)
    for cell, by_reason in reasons.items():
        missing[cell] = "; ".join(f"{why}: {', '.join(columns)}" for why, columns in by_reason.items())
    shape = (L, len(POSITIONS))
    columns: Columns = {
        "layer": np.broadcast_to(np.arange(1, L + 1)[:, None], shape),
        "prompt_id": np.full(shape, prompt_id, dtype=object),
        "position": np.broadcast_to(np.array(POSITIONS, dtype=object), shape),
        "n_tokens": np.full(shape, n),
        "missing": missing,
        **values,
    }
    return {name: column.ravel() for name, column in columns.items()}


def layers_frame(parts: Sequence[Columns]) -> pd.DataFrame:
    """All prompts' rows with the columns of the table `layers`, without run_id, in order of its key."""
    frame = pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in COLUMNS})
    text = dict.fromkeys(("prompt_id", "position", "missing"), "str")
    frame = frame.astype({"layer": "Int64", "n_tokens": "Int64", **text})
    return frame.sort_values(["layer", "prompt_id", "position"], ignore_index=True)


def _mean(values: Array) -> Array:
    """Mean over tokens; NaN where there is none."""
    return values.mean(axis=1) if values.shape[1] else np.full(len(values), np.nan)


def _reason(column: str, position: str, layer: int, norms: Mapping[str, Array], n: int, dtype: str) -> str:
    if column == "anisotropy" and n < 3:
        return "fewer than three tokens"
    if position == "mean" and n == 1:
        return "no token but the first"
    at = slice(1, n) if position == "mean" or column == "anisotropy" else 0 if position == "first" else n - 1
    used = [np.asarray(norms[name][layer, at]) for name in SOURCES[column]]
    if all(np.isfinite(values).all() for values in used):
        return "norm of zero"
    if any(np.isnan(norms[name][layer]).all() for name in SOURCES[column]):
        return f"not a number in {dtype}, or the module was not called"
    return f"norm not finite in {dtype}"
