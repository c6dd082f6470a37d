"""The gate lets stronger evidence pass where weaker does, and fails a right model in at most 5% of its worlds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_quadrature import some_lines

from thermostats.modelling.inference import checks
from thermostats.modelling.inference.parts import Part
from thermostats.modelling.inference.quadrature import Lines
from thermostats.modelling.laws.lines import STATISTICS, sample, simulator
from thermostats.modelling.shares import fit_share

LABS = 8


def held(k: int, n: int) -> pd.DataFrame:
    """n models of eight labs, of which k hold, in an order that has nothing to do with labs."""
    order = np.random.default_rng(1).permutation(n)
    names = [f"m{i}" for i in range(n)]
    return pd.DataFrame({"model_id": names, "heritage": [f"lab{i % LABS}" for i in range(n)], "holds": order < k})


def closes(part: Part) -> bool:
    """Whether what can close the gate does: the declared test quantities, as nothing was sampled."""
    assert part.draws.exact
    return checks.posterior_predictive(part.replicate(1), part.observed, part.statistics, {}).outcome == checks.FAILED


@cache
def share_closes(k: int, n: int) -> bool:
    return closes(fit_share(held(k, n), "holds", sources=["file"], seed=1).parts["share"])


@pytest.mark.parametrize("n", [24, 64, 96])
def test_the_gate_does_not_grow_stricter_with_stronger_evidence(n: int) -> None:
    """Along k of n that hold, once it passes it passes for all stronger counts."""
    passes = [not share_closes(k, n) for k in (n * 3 // 4, n * 15 // 16, n - 2, n - 1, n)]
    assert all(passes), passes


def test_every_one_of_96_passes_and_the_prior_predictive_only_warns() -> None:
    gate = fit_share(held(96, 96), "holds", sources=["file"], seed=1).check()
    assert gate.passes, gate.reasons
    assert any(words.startswith("share: prior predictive warned") for words in gate.reasons)
    assert "sampler" not in {check.name for check in gate.checks}


def line_part(lines: Lines, seed: int) -> Part:
    """A line with the test quantities of `fit_line`."""
    x = lines.X[:, 1]
    return sample(lines, seed=seed).part(statistics=STATISTICS | {"covariance with x": lambda y: float((y * x).mean())})


def test_a_line_far_from_its_prior_passes_as_one_within_it_does() -> None:
    lines = some_lines(5, n=20, groups=4)
    for shift in (0.0, 5.0, 50.0):
        assert not closes(line_part(replace(lines, y=lines.y + shift * lines.sigma_scale), 1)), shift


@pytest.mark.slow
def test_a_right_model_fails_the_gate_in_at_most_5_percent_of_its_worlds() -> None:
    lines, n = some_lines(6, n=24, groups=5), 200
    outcomes = simulator(lines).joint(3, n)[1]
    failed = sum(closes(line_part(replace(lines, y=y), seed)) for seed, y in enumerate(outcomes))
    assert failed <= stats.binom.isf(0.01, n, 0.05) and failed / n <= 0.05, failed
