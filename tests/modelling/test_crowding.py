import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
from simulated import model_table

from thermostats.errors import UsageError
from thermostats.modelling.crowding import fit_crowding


def table(seed: int, *, within: float = 0.0, between: float = 0.0, step: float = 0.0, n: int = 36, labs: int = 6):
    rng = np.random.default_rng(seed)
    lab = np.arange(n) % labs
    level, effects = rng.normal(-1.6, 0.5, labs), rng.normal(0, 0.1, labs)
    x = level[lab] + rng.normal(0, 0.5, n)
    mean = np.array([x[lab == j].mean() for j in range(labs)])[lab]
    y = 0.05 + within * (x - mean) + between * (mean - x.mean()) + step * (x > np.log(0.2))
    y += effects[lab] + rng.normal(0, 0.1, n)
    return model_table(y, rho=np.exp(x), labs=labs)


def test_slopes_within_and_between_labs_are_told_apart():
    found = fit_crowding(table(1, within=-0.25, between=0.4), seed=1, cache=False)
    rows = found.summary().set_index("quantity")
    assert found.status == "passed"
    assert rows.loc["within", "lower"] < -0.25 < rows.loc["within", "upper"] < 0
    assert rows.loc["between", "lower"] < 0.4 < rows.loc["between", "upper"]
    assert found.probabilities["within < 0"] > 0.99
    assert found.table("rivals")["rival"].iloc[0] == "slopes apart"


def test_a_threshold_is_found_where_there_is_one():
    found = fit_crowding(table(2, step=-0.4), seed=1, cache=False)
    assert found.table("rivals")["rival"].iloc[0] == "step"
    assert found.numbers["threshold_lower"] < 0.2 < found.numbers["threshold_upper"]
    assert found.probabilities["gain falls at the step"] > 0.99
    assert found.probabilities["expands below and dampens above"] > 0.7
    assert found.table("threshold")["probability"].sum() == pytest.approx(1)


def test_without_an_effect_constant_is_preferred_on_average_and_checks_pass():
    fits = [fit_crowding(table(seed), seed=1, cache=False) for seed in (3, 4, 5)]
    assert np.mean([f.numbers["log_bayes_step_over_constant"] for f in fits]) < 0
    assert np.mean([f.numbers["log_bayes_slope_over_constant"] for f in fits]) < 0
    found = fits[0]
    gate = found.check()
    assert gate.passes, gate.reasons
    assert {"slopes: LOO-PIT", "influence"} <= {check.name for check in gate.checks}
    json.dumps(found.to_dict(), allow_nan=False)
    figure, axes = plt.subplots()
    assert found.plot(axes) is axes
    plt.close(figure)


def test_bad_tables_are_refused_or_said():
    good = table(4)
    with pytest.raises(UsageError, match="2 labs or more"):
        fit_crowding(good.assign(heritage="one"), seed=1)
    with pytest.raises(UsageError, match="constant"):
        fit_crowding(good.assign(rho=0.2), seed=1)
    with pytest.raises(UsageError, match="missing"):
        fit_crowding(good.assign(rho=np.nan), seed=1)
    with pytest.raises(UsageError, match="too few"):
        fit_crowding(good.head(2), seed=1)
    said = fit_crowding(good.head(6), seed=1, cache=False).warnings
    assert any("does not vary within any lab" in words for words in said)


@pytest.mark.slow
def test_slopes_are_covered_at_their_level():
    covered = []
    for i in range(20):
        rows = (
            fit_crowding(table(100 + i, within=-0.1, between=0.1), seed=i, cache=False).summary().set_index("quantity")
        )
        covered.append(
            [rows.loc[n, "lower"] < t < rows.loc[n, "upper"] for n, t in (("within", -0.1), ("between", 0.1))]
        )
    assert (np.mean(covered, axis=0) > 0.82).all()
