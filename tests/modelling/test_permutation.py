"""The sign against the lab: exact by brute force, and the size of the test when models of a family go together."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.permutation import clustered_sign_permutation

LABS = ["E"] * 4 + ["M"] * 2 + ["T"]
FAMILIES = ["p", "p", "n", "j", "o", "l", "f"]


def brute_force(signs: list[int], labs: list[str], focal: str | None) -> float:
    def statistic(order: tuple[int, ...]) -> float:
        s = np.array(order, float)
        if focal is not None:
            inside = np.array(labs) == focal
            return abs(float(s[inside].mean() - s[~inside].mean()))
        parts = [s[np.array(labs) == lab] for lab in sorted(set(labs))]
        return float(sum(len(p) * (p.mean() - s.mean()) ** 2 for p in parts))

    null = [statistic(order) for order in itertools.permutations(signs)]
    return float(np.mean(np.array(null) >= statistic(tuple(signs)) - 1e-9))


@pytest.mark.parametrize("focal", [None, "E"])
@pytest.mark.parametrize("signs", [[1, 1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 0, 1]])
def test_over_models_it_is_exact_by_brute_force(signs: list[int], focal: str | None) -> None:
    result = clustered_sign_permutation(signs, LABS, FAMILIES, focal=focal, seed=0)
    assert result.p_models == pytest.approx(brute_force(signs, LABS, focal))


def test_over_families_it_is_the_same_test_on_one_row_a_family() -> None:
    signs = [1, 1, 1, 0, 0, 0, 0]
    result = clustered_sign_permutation(signs, LABS, FAMILIES, focal="E", seed=0)
    assert result.p_families == pytest.approx(brute_force([1, 1, 0, 0, 0, 0], ["E", "E", "E", "M", "M", "T"], "E"))
    assert (result.n, result.n_families, result.n_labs) == (7, 6, 3)
    assert result.p_labs == pytest.approx(1 / 3)
    assert result.p_value == result.p_families
    assert "exact" in result.counted_families


def test_balanced_focal_groups_agree_with_fisher() -> None:
    labs, signs = ["E"] * 6 + ["X"] * 6, [1] * 5 + [0] * 2 + [1] + [0] * 4
    names = [f"f{i}" for i in range(12)]
    result = clustered_sign_permutation(signs, labs, names, focal="E", seed=0)
    assert result.p_models == pytest.approx(stats.fisher_exact([[5, 1], [1, 5]])[1])
    assert result.p_families == pytest.approx(result.p_models)


def test_families_keep_the_size_that_models_lose() -> None:
    """Eight families of four like-signed models in four labs, signs unrelated to labs."""
    rng = np.random.default_rng(0)
    labs, families = np.repeat(list("abcd"), 8), np.repeat(list("ijklmnop"), 4)
    p = []
    for i in range(60):
        sign = rng.permutation([1, 1, 1, 0, 0, 0, 0, 0])
        result = clustered_sign_permutation(np.repeat(sign, 4), labs, families, focal="a", seed=i)
        p.append((result.p_models, result.p_families))
    models, by_family = (np.array(p) <= 0.12).mean(axis=0)
    assert models > 0.3
    assert by_family <= 0.21


def test_one_family_a_lab_can_decide_nothing_without_a_focal_lab() -> None:
    result = clustered_sign_permutation([1, 1, 0, 0], list("aabc"), list("xxyz"), seed=0)
    assert result.p_families == 1 and result.smallest_p_families == 1


def test_many_families_are_sampled_with_the_seed() -> None:
    labs, families = list("aaaabbbbcccc"), list("abcdefghijkl")
    first = clustered_sign_permutation([1] * 4 + [0] * 8, labs, families, seed=1, resamples=999)
    again = clustered_sign_permutation([1] * 4 + [0] * 8, labs, families, seed=1, resamples=999)
    assert first.p_families == again.p_families
    assert "Monte Carlo" in first.counted_families and math.isnan(first.smallest_p_families)
    assert first.p_families == pytest.approx(first.p_models, abs=0.01)


def test_bad_input_is_refused() -> None:
    with pytest.raises(UsageError, match="sign does not vary"):
        clustered_sign_permutation([1, 1], list("ab"), list("xy"), seed=0)
    with pytest.raises(UsageError, match="labs"):
        clustered_sign_permutation([1, 0], list("aa"), list("xy"), seed=0)
    with pytest.raises(UsageError, match="labs"):
        clustered_sign_permutation([1, 0], list("ab"), list("xy"), focal="c", seed=0)
    with pytest.raises(UsageError, match="family"):
        clustered_sign_permutation([1, 0], list("ab"), list("xx"), seed=0)
