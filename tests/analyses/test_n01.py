"""N01 on simulated studies whose causes are known."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))
from simulated_nursery import Simulated

from thermostats.modelling.heritage.shares import corrected_shares, dominance, drawn_shares
from thermostats.studies.nursery.recipe_fit import (
    GEOMETRY,
    columns_of_block,
    distinct,
    fit_recipes,
    judged,
    slopes,
    too_few,
)
from thermostats.studies.nursery.rows import final

PRIMARY = "penultimate_gain"


def load(claim: str) -> ModuleType:
    (path,) = (Path(__file__).parents[2] / "analyses").glob(f"{claim}_*.py")
    name = f"tested_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="module")
def recipe_first() -> Simulated:
    return Simulated(lambda x: 0.4 * x["optimiser=sgd"] + 0.25 * x["peak"] + 0.3 * x["log_L"], noise=0.02)


@pytest.fixture(scope="module")
def rows(recipe_first: Simulated) -> pd.DataFrame:
    return judged(final(recipe_first), PRIMARY)


def test_pinned_and_two_block_models_are_not_judged(recipe_first: Simulated, rows: pd.DataFrame) -> None:
    everything = final(recipe_first)
    assert len(everything) == 96 and rows["comparable"].all() and rows["n_layers"].min() == 4
    assert len(judged(everything, PRIMARY, pinned=True)) > len(rows)
    assert 2 in set(judged(everything, "last_gain")["n_layers"])
    assert not too_few(rows) and too_few(rows.iloc[:20])


def test_shares_less_their_exact_null_are_those_of_many_shuffles(rows: pd.DataFrame) -> None:
    columns = load("n01").design_blocks(rows)
    shuffled = dominance(rows, "log_gain", columns, seed=1, permutations=4000).adjusted
    exact = corrected_shares(rows, "log_gain", columns)
    assert exact == pytest.approx(shuffled, abs=0.01)
    assert exact["recipe"] > exact["geometry"] > 0.02 and abs(exact["scale"]) < 0.05


def test_a_second_seed_belongs_to_its_model(rows: pd.DataFrame) -> None:
    unit = distinct(rows)
    repeated = rows["replicate_of"] != ""
    assert list(unit[repeated]) == list(rows.loc[repeated, "replicate_of"])
    assert list(unit[~repeated]) == list(rows.loc[~repeated, "model"]) and unit.duplicated().sum() >= 5


def test_the_verdict_follows_the_causes(rows: pd.DataFrame) -> None:
    n01 = load("n01")
    assert n01.order(rows, PRIMARY).verdict == "supported"
    shape = rows.assign(log_gain=rows["log_L"] + 0.3 * rows["log_rho"])
    assert n01.order(shape, PRIMARY).verdict == "not supported"


def test_residuals_drawn_anew_spread_as_outcomes_of_the_same_causes_do(rows: pd.DataFrame) -> None:
    """The bootstrap's spread of a share against that of simulated studies, noise drawn from its distribution."""
    columns = load("n01").design_blocks(rows)
    causes = 0.3 * rows["x peak"] + 0.2 * rows["log_L"]
    rng = np.random.default_rng(7)
    outcomes = [rows.assign(log_gain=causes + rng.normal(0, 0.2, len(rows))) for _ in range(150)]
    spread = np.std([corrected_shares(one, "log_gain", columns)["geometry"] for one in outcomes])
    told = np.median([drawn_shares(one, "log_gain", columns, seed=1, draws=300)[:, 2].std() for one in outcomes[:15]])
    assert 0.6 < told / spread < 1.6


@pytest.mark.parametrize(("noise", "verdict"), [(0.01, "supported"), (1.0, "not supported")])
def test_the_share_of_the_seed(rows: pd.DataFrame, noise: float, verdict: str) -> None:
    rng = np.random.default_rng(3)
    known = 0.5 * rows["x peak"] + 0.3 * rows["log_L"] + rng.normal(0, noise, len(rows))
    assert load("n01").seeds(rows.assign(log_gain=known)).verdict == verdict


def test_slopes_of_the_fit_are_those_of_the_causes(rows: pd.DataFrame) -> None:
    fit = fit_recipes(rows, PRIMARY, seed=1)
    found = slopes(fit, rows, "geometry", GEOMETRY).mean(axis=0)
    unit = np.log(20 / 2) / 2
    assert found == pytest.approx([0.3 / unit, 0.0], abs=0.03)
    assert len(columns_of_block(rows, "architecture")) >= 5


def test_too_few_models_need_measurement() -> None:
    (finding,) = load("n01").analyse(Simulated(lambda x: x["peak"], models=30))
    assert finding.verdict == "needs measurement" and "are needed" in finding.plain


def test_published_gains_made_by_the_nursery_s_slopes_are_foretold(rows: pd.DataFrame) -> None:
    n01 = load("n01")
    rng = np.random.default_rng(5)
    published = pd.DataFrame(
        {
            "model_id": [f"lab{i % 5}/m{i}" for i in range(20)],
            "heritage": [f"lab{i % 5}" for i in range(20)],
            "n_layers": rng.integers(12, 48, 20),
            "d_model": rng.integers(512, 4096, 20),
            "log_rho": rng.normal(-1, 1, 20),
        }
    )
    published = published.assign(log_L=np.log(published["n_layers"]), log_d=np.log(published["d_model"]))
    fit = fit_recipes(rows, PRIMARY, seed=1)
    known = n01.with_posterior(fit, n01.order(rows, PRIMARY)).posterior
    for slope, verdict in ((0.26, {"supported", "inconclusive"}), (-0.26, {"not supported", "inconclusive"})):
        gains = published.assign(log_gain=slope * published["log_L"] + rng.normal(0, 0.01, 20))
        finding = n01.foretold(fit, rows, gains, known)
        assert finding.verdict in verdict and (finding.estimate > 0) == (slope > 0)
        assert (finding.posterior.probability > 0.95) == (slope > 0)


@pytest.mark.slow
def test_the_whole_analysis(recipe_first: Simulated) -> None:
    findings = load("n01").analyse(recipe_first)
    assert len(findings) == 8 and findings[0].posterior is not None and findings[0].posterior.probability > 0.95
    for finding in findings:
        assert finding.claim == "N01" and finding.plain.endswith(".") and "nan" not in finding.plain
        if finding.draw is not None:
            axes = Figure().add_subplot()
            finding.draw(axes)
            assert axes.has_data() and finding.caption
