"""How long measuring takes: forward passes at this machine's speed, or at one that is stated."""

from __future__ import annotations

import time
from contextvars import ContextVar
from functools import cache

import numpy as np

TOKENS = 12
"""About how many tokens a prompt has that is measured where nothing else is asked for."""
CORE = 25
"""How many these prompts are."""
PRODUCT = 1024
"""Size of the matrix product by which the machine is timed."""
STATED: ContextVar[float | None] = ContextVar("STATED", default=None)
"""Operations a second at which times are reckoned; None: those of this machine, as busy as it
is."""


@cache
def time_products() -> float:
    """Floating-point operations a second of this machine, by the fastest of three matrix
    products."""
    a = np.ones((PRODUCT, PRODUCT), dtype=np.float32)
    took = []
    for _ in range(3):
        start = time.perf_counter()
        a @ a
        took.append(time.perf_counter() - start)
    return 2 * PRODUCT**3 / min(took)


def estimate_seconds(n_params: float, prompts: int = CORE) -> float:
    """Seconds of the forward passes of a model over prompts: two operations a weight and token."""
    return 2 * n_params * TOKENS * prompts / (STATED.get() or time_products())


def describe_speed() -> str:
    """The speed at which times are reckoned, where one is stated."""
    stated = STATED.get()
    return f" at {stated / 1e9:g} GFLOP/s" if stated else ""
