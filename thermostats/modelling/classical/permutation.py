"""Is the sign a matter of lab? Permutation tests whose unit is the model, the family or the lab."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import NO_INTERVAL, RESAMPLES, Array, Estimate, labels, same_length
from thermostats.modelling.classical.resampling import MOST_ARRANGEMENTS

TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class SignPermutation(Estimate):
    """Is the sign a matter of lab? `p_value` is the one whose unit is the family; the others stand beside it."""

    p_models: float
    """Labels permuted over models, as if models of one family were independent."""
    p_families: float
    p_labs: float
    """The focal lab's place among labs, each lab one unit; NaN without a focal lab. It cannot go below 1/labs."""
    counted_models: str
    counted_families: str
    n_families: int
    n_labs: int
    smallest_p_families: float
    """The smallest p the family-level test can give with these family sizes; NaN where it was not exact."""


def clustered_sign_permutation(
    dampens: Sequence[bool] | pd.Series,
    labs: Sequence[str] | pd.Series,
    families: Sequence[str] | pd.Series,
    *,
    focal: str | None = None,
    seed: int,
    resamples: int = RESAMPLES,
) -> SignPermutation:
    """Permutation tests of "the sign is a matter of lab", with models, families and labs as units.

    With s_i ∈ {0, 1} the sign of unit i, the statistic is mean(s in focal) − mean(s elsewhere), two-sided, or without a
    focal lab η² = Σ_lab n_lab (s̄_lab − s̄)² / Σ_i (s_i − s̄)². Three units: models (exact, by the multivariate
    hypergeometric distribution of dampening models over labs); families, each with the share of its models that dampen,
    so that models of one recipe do not count as independent; labs (focal only), each with the mean of its families.
    Raises UsageError where there is one lab, one sign, an unknown focal lab, or a family spread over two labs.
    """
    signs, lab, family = np.asarray(dampens, dtype=np.float64), labels(labs, "labs"), labels(families, "families")
    same_length(dampens=signs, labs=lab, families=family)
    if not np.isin(signs, (0.0, 1.0)).all() or len(set(signs)) < 2:
        raise UsageError(
            "the sign does not vary", where="dampens", got=sorted(set(signs)), allowed="both true and false"
        )
    if len(set(lab)) < 2 or (focal is not None and focal not in lab):
        raise UsageError(
            "no labs to compare",
            where="labs",
            got=focal or lab[0],
            allowed=f"two labs or more, the focal one of {sorted(set(lab))}",
        )
    units = (
        pd.DataFrame({"family": family, "lab": lab, "share": signs})
        .groupby("family")
        .agg(share=("share", "mean"), lab=("lab", "first"), n_labs=("lab", "nunique"))
    )
    if (units["n_labs"] > 1).any():
        raise UsageError(
            "a family spread over labs",
            where="families",
            got=list(units.index[units["n_labs"] > 1]),
            allowed="one lab a family",
        )
    share, unit_lab = units["share"].to_numpy(np.float64), labels(units["lab"], "labs")
    by_lab = units.groupby("lab")["share"].mean()
    p_models = _exact_over_models(signs, lab, focal)
    p_families, counted, smallest = _over_units(share, unit_lab, focal, seed=seed, resamples=resamples)
    p_labs = math.nan
    if focal is not None:
        p_labs = _over_units(
            by_lab.to_numpy(np.float64), labels(by_lab.index.to_series(), "labs"), focal, seed=seed, resamples=resamples
        )[0]
    return SignPermutation(
        test="permutation test of the sign against the lab, unit: the family"
        + ("" if focal is None else f"; {focal} against the rest, two-sided"),
        estimate=float(_spread(signs[None, :], lab, focal)[0] if focal is None else _contrast(signs, lab == focal)),
        lower=math.nan,
        upper=math.nan,
        level=math.nan,
        interval=f"{NO_INTERVAL}: a test of no association",
        p_value=p_families,
        n=signs.size,
        p_models=p_models,
        p_families=p_families,
        p_labs=p_labs,
        counted_models="exact",
        counted_families=counted,
        n_families=len(units),
        n_labs=len(by_lab),
        smallest_p_families=smallest,
    )


def _contrast(values: Array, focal: NDArray[np.bool_]) -> float:
    return float(values[focal].mean() - values[~focal].mean())


def _spread(values: Array, groups: NDArray[np.str_], focal: str | None) -> Array:
    """Statistic of each row of `values` (arrangements × units): |contrast|, or η² without a focal lab."""
    if focal is not None:
        inside = groups == focal
        return np.asarray(np.abs(values[:, inside].mean(axis=1) - values[:, ~inside].mean(axis=1)))
    centred = values - values.mean(axis=1, keepdims=True)
    between = sum((groups == g).sum() * centred[:, groups == g].mean(axis=1) ** 2 for g in sorted(set(groups)))
    total = np.square(centred).sum(axis=1)
    return np.asarray(np.divide(between, total, out=np.zeros_like(total), where=total > 0))


def _exact_over_models(signs: Array, lab: NDArray[np.str_], focal: str | None) -> float:
    """P over all placements of the dampening models, counted by how many fall into each lab."""
    group = lab if focal is None else np.where(lab == focal, "focal", "rest")
    names, sizes = np.unique(group, return_counts=True)
    k, n = int(signs.sum()), signs.size

    def distance(counts: Iterable[int]) -> float:
        return float(sum((c - k * size / n) ** 2 / size for c, size in zip(counts, sizes, strict=True)))

    observed = distance(int(signs[group == name].sum()) for name in names)
    # one step per lab: (dampening models placed, distance so far) → placements; both are sums over labs
    states: dict[tuple[int, float], int] = {(0, 0.0): 1}
    for size in map(int, sizes):
        grown: dict[tuple[int, float], int] = {}
        for (placed, so_far), ways in states.items():
            for c in range(min(size, k - placed) + 1):
                key = (placed + c, round(so_far + (c - k * size / n) ** 2 / size, 10))
                grown[key] = grown.get(key, 0) + ways * math.comb(size, c)
        states = grown
    hits = sum(ways for (placed, d), ways in states.items() if placed == k and d >= observed - 1e-8)
    return hits / math.comb(n, k)


def _over_units(
    values: Array, groups: NDArray[np.str_], focal: str | None, *, seed: int, resamples: int
) -> tuple[float, str, float]:
    """p, how it was counted, and the smallest p possible (NaN where not exact)."""
    n = values.size
    observed = float(_spread(values[None, :], groups, focal)[0])
    inside = 0 if focal is None else int((groups == focal).sum())
    total = math.factorial(n) if focal is None else math.comb(n, inside)
    if total > MOST_ARRANGEMENTS:
        rng = np.random.default_rng(seed)
        null = _spread(rng.permuted(np.tile(values, (resamples, 1)), axis=1), groups, focal)
        return (
            float((np.sum(null >= observed - TOLERANCE) + 1) / (resamples + 1)),
            f"Monte Carlo, (b + 1)/({resamples} + 1)",
            math.nan,
        )
    if focal is None:
        arranged = np.array(list(itertools.permutations(values)))
    else:
        chosen = np.zeros((total, n), dtype=bool)
        for row, units in enumerate(itertools.combinations(range(n), inside)):
            chosen[row, list(units)] = True
        arranged = np.empty((total, n))
        arranged[:, groups == focal] = np.tile(values, (total, 1))[chosen].reshape(total, inside)
        arranged[:, groups != focal] = np.tile(values, (total, 1))[~chosen].reshape(total, n - inside)
    null = _spread(arranged, groups, focal)
    return (
        float(np.mean(null >= observed - TOLERANCE)),
        f"exact, all {total} arrangements",
        float(np.mean(null >= null.max() - TOLERANCE)),
    )
