"""W_V as the study cut it, for comparison only: the last third of the fused matrix's first axis, as stored.

That is W_V where queries, keys and values lie one below the other. GPT-NeoX and BLOOM interleave them per head and
GPT-2 stores its matrix transposed, so that there it is something else. A matrix of its own was left whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermostats.measurement.architectures import Architecture, Config
from thermostats.measurement.layouts import geometry


def published_thirds(entry: Architecture, value: NDArray[Any]) -> NDArray[Any]:
    """The rows that the study took for W_V out of the tensor `entry.value` as stored; a view."""
    if entry.layout == "separate":
        return value
    return value[2 * (value.shape[0] // 3) :]


def published_heads(entry: Architecture, config: Config, value: NDArray[Any]) -> NDArray[Any]:
    """Those rows cut into H heads of d_h consecutive rows (H × d_h × columns); rows beyond the last are zero.

    Fewer rows than H·d_h are left with grouped queries and with GPT-2's transposed matrix.
    """
    g = geometry(entry, config)
    rows = published_thirds(entry, value)[: g.n_heads * g.d_head]
    heads = np.zeros((g.n_heads * g.d_head, value.shape[1]), value.dtype)
    heads[: rows.shape[0]] = rows
    return heads.reshape(g.n_heads, g.d_head, value.shape[1])
