"""Measurements of several sources together: simulated levels are found, and least squares says the
same."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from thermostats.errors import UsageError
from thermostats.modelling.lines import fit_line
from thermostats.modelling.measurements import fit_sources

SHIFTS = {"x": 0.0, "y": 0.2, "z": -0.1}


def measured(
    models: int = 24, run: float = 0.02, seed: int = 1, error: float = 0.0
) -> pd.DataFrame:
    """Every model by three sources with prompts of their own, one of them in half precision as
    well."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(models):
        mean = rng.normal(0.1, 0.3)
        for source, dtype in [*((name, "float32") for name in SHIFTS), ("x", "float16")]:
            gain = math.exp(mean + SHIFTS[source] + rng.normal(0, run) + rng.normal(0, error))
            rows.append((f"m{k}", f"lab{k % 5}", source, f"prompts of {source}", dtype, gain))
    columns = ["model_id", "heritage", "source", "prompt_set", "dtype", "penultimate_gain"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(
        penultimate_gain_sd=error * 5 * frame["penultimate_gain"], penultimate_gain_n=25
    )


def test_a_source_s_level_is_the_difference_on_the_models_that_both_have() -> None:
    rows = measured()
    fit = fit_sources(rows)
    assert fit.status == "passed"
    y = np.log(
        rows.pivot_table(index="model_id", columns=["source", "dtype"], values="penultimate_gain")
    )
    differences = (y["y", "float32"] - y["x", "float32"]).to_numpy()
    names = fit.design.labels["source"]
    sets = fit.design.labels["prompt_set"]
    source, prompts = (fit.quantities[kind].reshape(-1, 3) for kind in ("source", "prompt_set"))
    # source and prompts coincide: their sum is what the rows tell
    both = source + prompts[:, [sets.index(f"prompts of {name}") for name in names]]
    found = both[:, names.index("y")] - both[:, names.index("x")]
    standard_error = differences.std(ddof=1) / len(differences) ** 0.5
    # of x there are two rows a model: those in half precision count as well
    assert found.mean() == pytest.approx(differences.mean(), abs=standard_error)
    assert found.std() == pytest.approx(standard_error, rel=0.4)
    assert float(np.median(fit.quantities["sd_run"])) == pytest.approx(0.02, abs=0.004)
    assert fit.probability("sd of sources > 0.1") > 0.3
    assert (
        "every prompt_set is of one source: their priors decide between their levels"
        in fit.warnings
    )
    assert "24 of 24 models have two sources or more: they tell sources apart" in fit.warnings


def test_what_cannot_be_fitted_is_refused_and_what_is_left_out_is_said() -> None:
    rows = measured(models=6)
    with pytest.raises(UsageError, match="no model was measured by two sources"):
        fit_sources(rows[rows["source"] == "x"])
    with pytest.raises(UsageError, match=r"repeated|several rows"):
        fit_sources(pd.concat([rows, rows.iloc[[3]]]))
    with pytest.raises(UsageError, match="no such column"):
        fit_sources(rows.drop(columns="dtype"))
    with pytest.raises(UsageError, match="above 0"):
        fit_sources(rows.assign(penultimate_gain=-rows["penultimate_gain"]))
    fit = fit_sources(
        rows.assign(comparable=rows["model_id"] != "m0", dtype="float32", run_id=range(len(rows)))
    )
    assert fit.warnings[0].startswith("left out, since normalised after the sum: m0")
    assert "one dtype: no level of it is fitted" in fit.warnings and "dtype" not in fit.quantities
    assert len(fit.rows) == 20


def line_rows(seed: int, shift: float) -> pd.DataFrame:
    """40 models, half of them by another source that lifts every outcome; depth and source go
    together a little."""
    rng = np.random.default_rng(seed)
    source = np.arange(40) % 4
    depth = rng.normal(size=40) + (source - 1.5) * 0.5
    outcome = 0.3 * depth + shift * np.array([0.0, 1.0, -1.0, 2.0])[source] + rng.normal(0, 0.1, 40)
    return pd.DataFrame(
        {
            "model_id": [f"m{i}" for i in range(40)],
            "heritage": [f"lab{i % 7}" for i in range(40)],
            "source": [f"s{k}" for k in source],
            "depth": depth,
            "outcome": outcome,
        }
    )


def test_levels_of_sources_in_a_line_keep_its_slope_right() -> None:
    rows = line_rows(3, 0.5)
    fit = fit_line(rows, "outcome", ["depth"], scale=0.5, levels=["source"], sources=["s"])
    dummies = np.column_stack([pd.get_dummies(rows["source"]).to_numpy(float), rows["depth"]])
    within = np.linalg.lstsq(dummies, rows["outcome"].to_numpy())[0][-1]
    assert fit.params["slope on depth"] == pytest.approx(within, abs=0.02)
    assert fit.params["residual_sd"] == pytest.approx(0.1, abs=0.03)
    assert 0.2 < fit.params["source_sd"] < 1.0 and fit.params["group_sd"] < 0.1
    without = fit.refit_law(fit.law.alternatives["no levels of source"])
    assert without.params["residual_sd"] > 3 * fit.params["residual_sd"]
    assert any("v_source ~ N(0, τ_source²)" in line for line in fit.law.equations)
    assert [name for name, *_ in fit.law.priors][-1] == "τ, τ_source, σ"
