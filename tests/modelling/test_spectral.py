import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from simulated import model_table

from thermostats.errors import UsageError
from thermostats.modelling.spectral import fit_spectral, norm_ratios


def tables(seed: int, elasticity: float, n: int = 32, labs: int = 8):
    rng = np.random.default_rng(seed)
    log_ratio = rng.normal(0, 0.8, labs)[np.arange(n) % labs] + rng.normal(0, 0.4, n)
    y = 0.05 + elasticity * log_ratio + 0.1 * rng.normal(size=labs)[np.arange(n) % labs] + rng.normal(0, 0.1, n)
    table = model_table(y, labs=labs)
    return table, pd.DataFrame({"model_id": table["model_id"], "ratio": np.exp(log_ratio)})


def test_a_ratio_that_counts_foretells_other_labs():
    found = fit_spectral(*tables(1, 0.2), seed=1, cache=False)
    rows = found.summary().set_index("quantity")
    assert found.status == "passed"
    assert rows.loc["elasticity", "lower"] < 0.2 < rows.loc["elasticity", "upper"]
    assert found.numbers["elpd_gain_across_labs"] > 3
    assert found.numbers["r_squared_across_labs"] > 0.4
    assert found.numbers["coverage_across_labs"] > 0.8
    assert found.check().passes
    json.dumps(found.to_dict(), allow_nan=False)
    figure, axes = plt.subplots()
    assert found.plot(axes) is axes
    plt.close(figure)


def test_a_ratio_that_does_not_count_foretells_nothing():
    found = [fit_spectral(*tables(seed, 0.0), seed=1, cache=False) for seed in (2, 3)]
    assert np.mean([f.numbers["elpd_gain_across_labs"] for f in found]) < 0.5
    assert np.mean([f.probabilities["ratio rather than constant"] for f in found]) < 0.4


def test_bad_tables_are_refused_or_said():
    table, ratios = tables(5, 0.1)
    with pytest.raises(UsageError, match="too few"):
        fit_spectral(table, ratios.head(3), seed=1)
    with pytest.raises(UsageError, match="constant"):
        fit_spectral(table, ratios.assign(ratio=1.0), seed=1)
    with pytest.raises(UsageError, match="logarithm"):
        fit_spectral(table, ratios.assign(ratio=0.0), seed=1)
    with pytest.raises(UsageError, match="2 labs or more"):
        fit_spectral(table.assign(heritage="one"), ratios, seed=1)
    extra = pd.concat([ratios.assign(sliced="published_thirds"), pd.DataFrame({"model_id": ["new"], "ratio": [2.0]})])
    said = " ".join(fit_spectral(table, extra, seed=1, cache=False).warnings)
    assert "gain not: new" in said
    assert "is not W_V" in said


def test_ratios_are_taken_from_the_matrix_asked_for():
    runs = pd.DataFrame({"run_id": ["a", "b"], "model_id": ["m", "n"], "source": "s"})
    weights = pd.DataFrame(
        [("a", "W_V", "", 2.0), ("a", "W_V", "", 4.0), ("a", "W_V", "1", 9.0), ("a", "W_O", "", 1.5),
         ("a", "W_V_published_thirds", "", 6.0)],
        columns=["run_id", "matrix", "head", "spectral_norm"],
    )  # fmt: skip
    summaries = pd.DataFrame(
        [("b", "", "W_V_spectral_norm_mean", 5.0), ("b", "", "W_O_spectral_norm_mean", 2.0)],
        columns=["run_id", "prompt_id", "estimand", "value"],
    )
    right = norm_ratios(runs, weights, summaries).set_index("model_id")
    assert right["ratio"].to_dict() == {"m": 2.0, "n": 2.5}
    cut = norm_ratios(runs, weights, summaries, slicing="published_thirds").set_index("model_id")
    assert cut["ratio"].to_dict() == {"m": 4.0, "n": 2.5}
    assert cut["sliced"].to_dict() == {"m": "published_thirds", "n": "right"}
    with pytest.raises(UsageError, match="no such slicing"):
        norm_ratios(runs, weights, summaries, slicing="halves")
