import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from thermostats.errors import UsageError
from thermostats.modelling.transition import fit_transition


def table(seed: int, *, slope: float = 0.8, n: int = 24, labs: int = 6, formula: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    L, H = rng.choice([12, 16, 24, 32, 36, 48], n), rng.choice([8, 12, 16, 20, 32, 40], n)
    lab = np.arange(n) % labs
    p = expit(0.4 + slope * np.log(L / 24) + rng.normal(0, 0.3, labs)[lab] + rng.normal(0, 0.3, n))
    star = L * (0.11 + 0.012 * L + 4.9 / H) if formula else L * p + 0.5
    return pd.DataFrame(
        {
            "model_id": [f"m{i}" for i in range(n)], "heritage": [f"lab{j}" for j in lab], "source": "simulated",
            "n_layers": L, "n_heads": H, "L_star_peak": np.clip(np.round(star), 1, L),
        }
    )  # fmt: skip


def test_depth_and_slope_are_recovered_and_other_labs_foretold():
    found = fit_transition(table(1), "peak", seed=1, cache=False)
    rows, errors = found.summary().set_index("quantity"), found.table("errors").set_index("rule")
    assert found.status == "passed"
    assert rows.loc["depth", "lower"] < expit(0.4) < rows.loc["depth", "upper"]
    assert found.probabilities["deeper networks turn relatively later"] > 0.5
    assert errors.loc["logit", "error_of_depth"] < errors.loc["L/2", "error_of_depth"]
    assert errors.loc["logit", "coverage"] > 0.8
    assert errors.loc["logit", "interval_inside"] == 1
    assert found.check().passes
    json.dumps(found.to_dict(), allow_nan=False)
    figure, axes = plt.subplots()
    assert found.plot(axes) is axes
    plt.close(figure)


def test_the_published_polynomial_is_recovered_where_it_holds():
    small = table(2, formula=True, n=30)
    found = fit_transition(small[small["L_star_peak"] < small["n_layers"]], "peak", seed=1, cache=False)
    terms = found.table("polynomial").set_index("term")
    assert (terms["lower"] < terms["published"]).all()
    assert (terms["published"] < terms["upper"]).all()
    errors = found.table("errors").set_index("rule")
    assert errors["error_of_depth"].idxmin() in ("published formula", "polynomial")
    assert errors.loc["published formula", "error_of_depth"] < 0.02


def test_errors_are_those_of_their_definitions():
    found = fit_transition(table(3), "peak", seed=1, cache=False)
    models, errors = found.table("models"), found.table("errors").set_index("rule")
    off = (models["n_layers"] / 2 - models["L_star"]).abs()
    assert errors.loc["L/2", "error_of_depth"] == pytest.approx((off / models["n_layers"]).mean())
    assert errors.loc["L/2", "mape"] == pytest.approx((off / models["L_star"]).mean())


def test_bad_tables_are_refused_or_said():
    good = table(4)
    with pytest.raises(UsageError, match="no such definition"):
        fit_transition(good, "minimum", seed=1)
    with pytest.raises(UsageError, match="outside its network"):
        fit_transition(good.assign(L_star_peak=99), "peak", seed=1)
    with pytest.raises(UsageError, match="too few"):
        fit_transition(good.head(3), "peak", seed=1)
    with pytest.raises(UsageError, match="2 labs or more"):
        fit_transition(good.assign(heritage="one"), "peak", seed=1)
    with pytest.raises(UsageError, match="missing"):
        fit_transition(good.assign(n_heads=np.nan), "peak", seed=1)
    flat = good.assign(n_layers=48, n_heads=12).head(6)
    said = " ".join(fit_transition(flat, "peak", seed=1, cache=False).warnings)
    assert "rank 1" in said
    assert "no slope" in said


@pytest.mark.slow
def test_intervals_of_other_labs_cover():
    covered = [
        fit_transition(table(50 + i, labs=8), "peak", seed=i, cache=False)
        .table("errors")
        .set_index("rule")
        .loc["logit", "coverage"]
        for i in range(25)
    ]
    assert 0.88 < np.mean(covered) < 0.99
