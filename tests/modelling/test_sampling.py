"""The seam against reference posteriors of posteriordb, and what it promises about caches, refits and retries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from calibrated import FALSE_ALARM
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Settings, cache_key, load_draws
from thermostats.tables.caching import CACHE_VARIABLE

REFERENCE = json.loads((Path(__file__).parent / "reference.json").read_text())
GOLD = Path(__file__).parents[3] / "shared" / "reference"
QUICK = Settings(chains=2, draws=200, tune=200)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def eight_schools(pm: Any, data: Mapping[str, Any]) -> None:
    mu = pm.Normal("mu", 0, 5)
    tau = pm.HalfCauchy("tau", 5)
    theta = pm.Deterministic("theta", mu + tau * pm.Normal("theta_trans", 0, 1, shape=data["J"]))
    pm.Normal("effect", theta, data["sigma"], observed=data["y"])


def mesquite(pm: Any, data: Mapping[str, Any]) -> None:
    beta = pm.Flat("beta", shape=data["p"])
    pm.Normal("log_weight", (data["x"] * beta).sum(axis=1), pm.HalfFlat("sigma"), observed=data["y"])


def normal_mean(pm: Any, data: Mapping[str, Any]) -> None:
    pm.Normal("observed", pm.Normal("mu", 0, 10), 1.0, observed=data["y"])


def groups(pm: Any, data: Mapping[str, Any]) -> None:
    m = pm.Normal("m", data["centre"], 1.0, shape=data["n"])
    pm.Normal("observed", m[data["group"]], 0.01, observed=data["y"])


def improper(pm: Any, data: Mapping[str, Any]) -> None:
    """Neal's funnel with a steep neck, which no sampler with few draws passes."""
    depth = pm.Normal("depth", 0, 5)
    pm.Normal("x", 0, pm.math.exp(depth), shape=data["n"])


def schools_data() -> dict[str, Any]:
    raw = REFERENCE["eight_schools_noncentered"]["data"]
    return {"J": 8, "y": np.array(raw["y"], float), "sigma": np.array(raw["sigma"], float)}


def mesquite_data() -> dict[str, Any]:
    raw = {name: np.array(values, float) for name, values in REFERENCE["mesquite_log"]["data"].items()}
    logs = [np.log(raw[name]) for name in ("diam1", "diam2", "canopy_height", "total_height", "density")]
    x = np.column_stack([np.ones(46), *logs, raw["group"]])
    return {"p": 7, "x": x, "y": np.log(raw["weight"])}


def compare(draws: Mapping[str, np.ndarray], name: str) -> None:
    """|z| as far as a right sampler goes but once in a thousand runs, with both Monte Carlo errors; SDs within 5%."""
    limit = stats.norm.isf(FALSE_ALARM / len(REFERENCE[name]["posterior"]) / 2)
    for quantity, truth in REFERENCE[name]["posterior"].items():
        values = draws[quantity]
        error = np.hypot(sampling.mcse(values), truth["sd"] / np.sqrt(REFERENCE[name]["draws"]))
        assert abs(values.mean() - truth["mean"]) <= limit * error, quantity
        assert values.std() / truth["sd"] == pytest.approx(1, abs=0.05), quantity


@pytest.mark.slow
def test_eight_schools() -> None:
    draws = sampling.fit(eight_schools, schools_data(), seed=1, settings=Settings(draws=4000, target_accept=0.95))
    assert draws.status == "passed"
    named = {f"theta[{i + 1}]": draws["theta"][..., i] for i in range(8)}
    compare({"mu": draws["mu"], "tau": draws["tau"], **named}, "eight_schools_noncentered")


@pytest.mark.slow
def test_log_mesquite() -> None:
    draws = sampling.fit(mesquite, mesquite_data(), seed=2, settings=Settings(draws=3000))
    assert draws.status == "passed"
    named = {f"beta[{i + 1}]": draws["beta"][..., i] for i in range(7)}
    compare({"sigma": draws["sigma"], **named}, "mesquite_log")


@pytest.mark.skipif(not GOLD.is_dir(), reason="the reference draws themselves are not beside the checkout")
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("eight_schools_noncentered", "eight_schools-eight_schools_noncentered.draws.json.zip"),
        ("mesquite_log", "mesquite-logmesquite.draws.json.zip"),
    ],
)
def test_shipped_figures_are_those_of_the_reference_draws(name: str, file: str) -> None:
    with ZipFile(GOLD / file) as archive:
        chains = json.loads(archive.read(archive.namelist()[0]))
    for quantity, truth in REFERENCE[name]["posterior"].items():
        pooled = np.concatenate([chain[quantity] for chain in chains])
        assert pooled.size == REFERENCE[name]["draws"]
        assert (pooled.mean(), pooled.std(ddof=1)) == pytest.approx((truth["mean"], truth["sd"]), rel=1e-6, abs=1e-7)


def test_conjugate_posterior_refit_without_compilation_and_predictions() -> None:
    """Posterior of a normal mean: N(Σy/(n + 1/100), 1/(n + 1/100)); a refit with other, fewer data is as right."""
    y = np.array([1.0, 2.0, 4.0, 5.0])
    settings = Settings(draws=2000, tune=500)
    for data in (y, y[:2] + 3):
        draws = sampling.fit(normal_mean, {"y": data}, seed=3, settings=settings)
        precision = data.size + 0.01
        assert draws["mu"].mean() == pytest.approx(data.sum() / precision, abs=4 * sampling.mcse(draws["mu"]))
        assert draws["mu"].std() == pytest.approx(precision**-0.5, rel=0.05)
    assert draws.compile_seconds < 0.2
    prior = sampling.prior_predictive(normal_mean, {"y": y}, seed=5)
    assert prior["mu"].std() == pytest.approx(10, rel=0.15)
    assert prior["observed"].shape == (500, 4)


def test_same_seed_same_draws_and_cache() -> None:
    data = {"y": np.array([0.3, -0.2])}
    first = sampling.fit(normal_mean, data, seed=6, settings=QUICK, retry=False)
    again = sampling.fit(normal_mean, data, seed=6, settings=QUICK, retry=False)
    anew = sampling.fit(normal_mean, data, seed=6, settings=QUICK, retry=False, cache=False)
    other = sampling.fit(normal_mean, data, seed=7, settings=QUICK, retry=False)
    assert (first.from_cache, again.from_cache, anew.from_cache) == (False, True, False)
    assert np.array_equal(first["mu"], again["mu"])
    assert np.array_equal(first["mu"], anew["mu"])
    assert not np.array_equal(first["mu"], other["mu"])
    assert replace(again, values=first.values, from_cache=False) == first


def test_draws_for_simulation_studies_are_those_of_a_fit() -> None:
    data = {"y": np.array([0.3, -0.2])}
    fitted = sampling.fit(normal_mean, data, seed=6, settings=QUICK, retry=False, cache=False)
    values, divergences = sampling.sample_only(normal_mean, data, seed=6, settings=QUICK)
    assert np.array_equal(fitted["mu"], values["mu"])
    assert divergences == fitted.diagnostics.divergences


def test_key_follows_data_model_and_settings() -> None:
    data = {"y": np.array([0.3, -0.2]), "n": 2}
    base = cache_key(normal_mean, data, seed=1)
    assert base == cache_key(normal_mean, {"n": 2, "y": data["y"].copy()}, seed=1)
    assert (
        len(
            {
                base,
                cache_key(eight_schools, data, seed=1),
                cache_key(normal_mean, data, seed=2),
                cache_key(normal_mean, {**data, "n": 3}, seed=1),
                cache_key(normal_mean, {**data, "y": np.array([0.3, -0.1])}, seed=1),
            }
        )
        == 5
    )


def test_damaged_cache_file_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    path.write_bytes(b"PK\x03\x04 cut off")
    assert load_draws(path) is None
    assert load_draws(tmp_path / "absent.npz") is None


def test_failing_diagnostics_are_retried_once_and_said() -> None:
    draws = sampling.fit(improper, {"n": 20}, seed=1, settings=Settings(chains=2, draws=100, tune=50))
    assert draws.attempts == 2
    assert draws.settings == Settings(chains=2, draws=200, tune=100, target_accept=0.99)
    assert draws.status == "inconclusive: sampler"
    assert draws.failures()


def test_summary_names_interval_and_convergence() -> None:
    x = np.random.default_rng(0).normal(size=(4, 1000, 2))
    table = sampling.summary({"x": x, "still": np.ones((4, 1000))})
    assert list(table["quantity"]) == ["x[0]", "x[1]", "still"]
    assert list(table.columns[5:]) == ["upper", "kind", "level", "rhat", "ess_bulk", "ess_tail"]
    assert table["lower"][0] == pytest.approx(-1.881, abs=0.12)  # normal quantile 0.03
    assert table["ess_bulk"][0] == pytest.approx(4000, rel=0.2)
    assert np.isnan(table["rhat"][2])


def test_pareto_smoothing_keeps_the_mean_of_a_shifted_normal() -> None:
    x = np.random.default_rng(1).normal(size=20_000)
    log_weights, k = sampling.pareto_smooth(0.5 * x[None])  # ∝ density of N(0.5, 1) over N(0, 1)
    assert np.exp(log_weights).sum() == pytest.approx(1)
    assert (np.exp(log_weights[0]) * x).sum() == pytest.approx(0.5, abs=0.05)
    assert k[0] < 0.5


def test_equal_ratios_are_equal_weights_and_a_tail_of_one_value_is_not_trusted() -> None:
    x = np.random.default_rng(1).normal(size=400)
    flat = np.concatenate([x[:300] - 5, np.ones(100)])
    rows = np.stack([np.full(400, 3.0), x, flat])
    log_weights, k = sampling.pareto_smooth(rows)
    assert np.exp(log_weights[0]) == pytest.approx(np.full(400, 1 / 400))
    assert np.exp(log_weights).sum(axis=1) == pytest.approx(np.ones(3))
    assert k[0] == -np.inf and np.isfinite(k[1]) and k[2] == np.inf
    alone, k_alone = sampling.pareto_smooth(x[None])
    assert log_weights[1] == pytest.approx(alone[0]) and k[1] == k_alone[0]
    few, k_few = sampling.pareto_smooth(x[None, :10])
    assert np.exp(few[0]) == pytest.approx(np.exp(x[:10]) / np.exp(x[:10]).sum()) and k_few[0] == np.inf


def test_bad_input() -> None:
    with pytest.raises(UsageError, match="missing or infinite"):
        sampling.fit(normal_mean, {"y": np.array([np.nan])}, seed=1)
    with pytest.raises(UsageError, match="too little sampling"):
        Settings(chains=1)
    with pytest.raises(UsageError, match="no such sampler"):
        Settings(sampler="walk")


def test_importing_the_layer_loads_no_sampler() -> None:
    modules = "{'pymc', 'arviz', 'nutpie', 'numba'}"
    code = f"import sys, thermostats.modelling.inference.sampling; print({modules} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
