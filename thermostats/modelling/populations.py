"""Effects and levels of a population inside a PyMC model, so that NUTS mixes whatever outcomes tell of them.

Padded elements, which no outcome tells, are levels that were never seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.draws import Array


def effects(name: str, scale: Any, informed: Any, size: int) -> Any:
    """Effects ~ N(0, scale²) of the model that is open, as its variable `name`.

    Sampled is raw = effect / scale^(1 − informed): where `informed` is 1 the effects as they are, which mixes where
    outcomes tell them well; where it is 0 standard normal numbers, which mixes where none do; Papaspiliopoulos et al.
    2007, doi:10.1214/088342307000000014.
    """
    import pymc as pm  # noqa: PLC0415 - seconds

    raw = pm.Normal(f"{name}_raw", 0.0, scale**informed, shape=size)
    return pm.Deterministic(name, scale ** (1 - informed) * raw)


def population(name: str, mean: float, mean_sd: Any, scale: Any, data: Mapping[str, Any]) -> tuple[Any, Any]:
    """m ~ N(mean, mean_sd²), as `<name>_mean`, and levels ~ N(m, scale²), as the variable `name`.

    `data` has the entries of `members`, and `<name>_told` as `informed_share` has it. Outcomes tell the average of
    n levels better than m: sampled is the average ~ N(mean, mean_sd² + scale²/n), then m given it, and contrasts
    between levels.
    """
    import pymc as pm  # noqa: PLC0415 - seconds

    average, middle = _averaged(name, mean, mean_sd, scale / data["number"] ** 0.5)
    informed = data["contrast"] * data[f"{name}_told"]
    off = pm.math.dot(data["basis"], effects(f"{name}_contrasts", scale, informed, data["size"]))
    return middle, pm.Deterministic(name, data["seen"] * average + (1 - data["seen"]) * middle + off)


def populations(name: str, mean_sd: Any, scales: Any, data: Mapping[str, Any]) -> tuple[Any, Any]:
    """m_k ~ N(0, mean_sd²), as `<name>_mean`, and levels g of each ~ N(m_k(g), scale_k(g)²), for several k at once.

    Sampled as `population` is, contrasts as standard normal numbers. `data` has the entries of `several_members`.
    """
    import pymc as pm  # noqa: PLC0415 - seconds

    of, seen = data["of"], data["seen"]
    average, middle = _averaged(name, 0.0, mean_sd, scales / data["number"] ** 0.5, data["populations"])
    off = pm.math.dot(data["basis"], pm.Normal(f"{name}_contrasts", shape=data["size"]))
    return middle, seen * average[of] + (1 - seen) * middle[of] + scales[of] * off


def _averaged(name: str, mean: float, mean_sd: Any, error: Any, shape: int | None = None) -> tuple[Any, Any]:
    """Averages of levels about m ~ N(mean, mean_sd²), with errors of such standard deviation, and m given them."""
    import pymc as pm  # noqa: PLC0415 - seconds

    total = (mean_sd**2 + error**2) ** 0.5
    average = pm.Normal(f"{name}_average", mean, total, shape=shape)
    rest = pm.Normal(f"{name}_rest", shape=shape or 1)
    rest = (rest if shape else rest[0]) * mean_sd * error / total
    return average, pm.Deterministic(f"{name}_mean", mean + (mean_sd / total) ** 2 * (average - mean) + rest)


def members(number: int, size: int) -> dict[str, Any]:
    """Data of a population of so many levels that outcomes tell, padded to a size with others that none does.

    number; basis, columns of contrasts between the former and one for each of the latter; seen, which levels the former
    are, and contrast, which columns are contrasts.
    """
    basis, level = np.eye(size), np.arange(size)
    basis[:number, :number] = 0.0
    basis[:number, : number - 1] = sum_zero(number)
    return {
        "size": size,
        "number": np.asarray(float(number)),
        "basis": basis,
        "seen": (level < number).astype(np.float64),
        "contrast": (level < number - 1).astype(np.float64),
    }


def several_members(of: NDArray[np.int64], seen: int, populations: int, size: int) -> dict[str, Any]:
    """The same of several populations, of which every level's is numbered; levels from `seen` on no outcome tells."""
    basis, number = np.eye(size), np.ones(populations)
    basis[:seen, :seen] = 0.0
    for k in np.unique(of[:seen]):
        levels = np.flatnonzero(of[:seen] == k)
        number[k] = levels.size
        basis[np.ix_(levels, levels[:-1])] = sum_zero(levels.size)
    return {
        "populations": populations,
        "size": size,
        "number": number,
        "basis": basis,
        "seen": (np.arange(size) < seen).astype(np.float64),
        "of": np.pad(of, (0, size - of.size)),
    }


def informed_share(values: Array, error: float) -> float:
    """How far outcomes tell levels or effects: B/(B + E), B the root mean square of estimates, E the error of one."""
    size = float(np.sqrt(np.square(values).mean())) if values.size else 0.0
    return size / (size + error)


def sum_zero(n: int, within: NDArray[np.int64] | None = None) -> Array:
    """Orthonormal columns that sum to zero, over all n or within each group: n × (n − groups)."""
    group = np.zeros(n, dtype=np.int64) if within is None else within
    same = (group[:, None] == group).astype(np.float64)
    basis, size, _ = np.linalg.svd(np.eye(n) - same / same.sum(axis=1))
    return np.asarray(basis[:, size > 0.5], dtype=np.float64)
