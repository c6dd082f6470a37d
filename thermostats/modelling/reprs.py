"""Quantities and statements of a fit as a prompt shows them: a line each, in the place of arrays and functions."""

from __future__ import annotations

from typing import Any

import numpy as np


class Quantities(dict[str, Any]):
    """Draws by name; at a prompt their shape, mean and standard deviation."""

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:{width}}  {_in_short(np.asarray(draws))}" for name, draws in self.items())


class Statements(dict[str, Any]):
    """Functions of the quantities by name; at a prompt the names, which `probability` takes."""

    def __repr__(self) -> str:
        return "\n".join(self)


def _in_short(draws: np.ndarray) -> str:
    chains, size, *shape = draws.shape
    what = f"{chains} × {size:,} draws" + (f" of {' × '.join(map(str, shape))} elements" if shape else "")
    return what if shape else f"{what}, mean {draws.mean():.4g}, sd {draws.std():.4g}"
