"""log Σ exp x, many times over small arrays: scipy looks for half a millisecond at what each of them is."""

from __future__ import annotations

from typing import Any

import numpy as np

from thermostats.modelling.inference.draws import Array


def logsumexp(x: Any, axis: int | None = None) -> Array:
    """log Σ exp x along an axis, or over all; −∞ where every x is."""
    x = np.asarray(x, dtype=np.float64)
    highest = x.max(axis=axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(x - highest).sum(axis=axis)) + highest.squeeze(axis))
