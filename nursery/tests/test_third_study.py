"""The third study's estimates against known truth, and that its frozen design is what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nursery import designs, third_study
from nursery.component_worlds import logs
from nursery.recipes import CORPORA
from nursery.third_study import OUT
from thermostats.studies.nursery import crossed
from thermostats.studies.nursery.crossed import CrossedWorld

DESIGN = designs.read(OUT / "design.toml")
X = logs(DESIGN.grid)


def test_the_frozen_design_is_what_its_digest_says_and_what_the_code_makes(tmp_path):
    assert (OUT / "design.sha256").read_text().strip() == designs.digest(OUT / "design.toml")
    designs.write(
        third_study.design_of("third", *third_study.CANDIDATES[third_study.CHOSEN]),
        tmp_path / "again.toml",
    )
    assert (tmp_path / "again.toml").read_bytes() == (OUT / "design.toml").read_bytes()


def test_every_recipe_is_in_every_corpus_and_size_is_apart_from_shape():
    stems = {
        corpus: {r.name.partition("-")[0] for r in DESIGN.recipes if r.corpus == corpus}
        for corpus in CORPORA
    }
    assert len({frozenset(names) for names in stems.values()}) == 1
    for recipe in DESIGN.recipes:
        twin = next(
            r for r in DESIGN.recipes if r.name == recipe.name.partition("-")[0] + "-english"
        )
        assert replace(recipe, name="", corpus="") == replace(twin, name="", corpus="")
    z = crossed.encode_shapes(X)
    assert np.abs(np.corrcoef(z.T) - np.eye(3)).max() < 0.03
    assert np.exp(np.ptp(z[:, 2])) > 16


def test_the_coding_is_that_of_depth_width_and_size():
    L, rho, d = np.exp(X).T
    z = crossed.encode_shapes(X)
    for column, truth in zip(z.T, (np.log(L / d), np.log(rho), np.log(L * d**2)), strict=True):
        assert column == pytest.approx(truth - truth.mean())


WORLD = CrossedWorld(
    "w", (0.05, 0.08), (0.03, 0.06), (0.02, 0.04), alike=0.6, slopes=0.0, residual=0.02, spread=0.0
)


def test_variances_of_a_large_study_are_the_true_ones():
    y = WORLD.simulate_study(4000, X, np.random.default_rng(1))
    estimates = crossed.estimate_variances(*crossed.fit_lines(y, crossed.encode_shapes(X)))
    betas = WORLD.build_betas()
    truth = {
        "recipe": np.mean(np.square(WORLD.recipe)),
        "architecture": np.mean([beta @ crossed.COVARIANCE @ beta for beta in betas]),
        "shape": np.mean(np.square(WORLD.shape)),
        "size": np.mean(np.square(WORLD.size)),
    }
    for name, value in truth.items():
        assert getattr(estimates, name) == pytest.approx(value, rel=0.06), name
    assert estimates.alike == pytest.approx(0.6 * 0.05 * 0.08 / truth["recipe"], abs=0.04)


def test_estimates_of_variances_are_unbiased_where_there_is_nothing():
    """Errors alone: variances are 0 on average, their errors taken off."""
    empty = CrossedWorld("", (0.0,) * 2, (0.0,) * 2, (0.0,) * 2, alike=0.0, slopes=0.0)
    draws = []
    for seed in range(400):
        y = empty.simulate_study(10, X, np.random.default_rng(seed))
        draws.append(crossed.estimate_variances(*crossed.fit_lines(y, crossed.encode_shapes(X))))
    for name in ("recipe", "architecture", "shape", "size"):
        values = np.array([getattr(estimates, name) for estimates in draws])
        assert abs(values.mean()) < 4 * values.std() / 20, name


def test_rules_err_in_at_most_a_twentieth_of_the_frozen_worlds_but_for_chance():
    rates = pd.read_csv(OUT / "candidates.csv")
    rates = rates[rates["candidate"] == third_study.CHOSEN]
    wrong = rates["not_supported"].where(rates["holds"], rates["supported"])
    assert (wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / rates["simulations"])).all()
