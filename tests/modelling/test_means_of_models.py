"""Means of several models: NUTS gives what the exact engine gives for every model alone."""

import numpy as np
import pandas as pd
import pytest

from thermostats import fit_line
from thermostats.errors import UsageError
from thermostats.modelling.unit_means import fit_means

MEANS = {"low": -0.3, "near": -0.01, "spread": 0.05}


def rows(name: str, mean: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kinds = np.repeat(list("abcde"), 5)
    level = rng.normal(0, 0.05, 5)[np.repeat(np.arange(5), 5)]
    y = mean + level + rng.normal(0, 0.02 if name == "low" else 0.1, kinds.size)
    return pd.DataFrame({"model_id": name, "heritage": f"lab of {name}", "kind": kinds, "y": y})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.concat(
        [rows(name, mean, k) for k, (name, mean) in enumerate(MEANS.items())], ignore_index=True
    )


@pytest.fixture(scope="module")
def fitted(table: pd.DataFrame):
    return fit_means(table, "y", scale=0.25, group="kind", sources=["a file"], seed=1)


@pytest.mark.slow
def test_every_mean_is_that_of_the_model_alone(table, fitted):
    assert fitted.status == "passed"
    summary, size = fitted.summary(), fitted.convergence()["ess_bulk"]
    for name, own in table.groupby("model_id"):
        alone = fit_line(own, "y", scale=0.25, group="kind", model=None, seed=1)
        for quantity in ("mean", "residual_sd", "group_sd"):
            draws, row = alone.quantities[quantity], summary.loc[f"{quantity}[{name}]"]
            error = np.hypot(
                draws.std() / draws.size**0.5, row["sd"] / size[f"{quantity}[{name}]"] ** 0.5
            )
            assert abs(row["mean"] - draws.mean()) < 5 * error, (quantity, name)
            assert row["sd"] == pytest.approx(draws.std(), rel=0.15)


@pytest.mark.slow
def test_means_mix(fitted):
    """Sampled with their groups' effects they had an effective number of a tenth to a third of the
    draws."""
    means = fitted.convergence()["ess_bulk"].filter(like="mean[")
    assert len(means) == 3 and means.min() > fitted.draws.size / 2


@pytest.mark.slow
def test_a_group_and_a_model_never_seen_are_drawn_anew(table, fitted):
    new = pd.DataFrame({"model_id": ["low", "low", "other"], "kind": ["a", "never seen", "a"]})
    predicted = fitted.predict(new)
    assert predicted["y_mean"][1] == pytest.approx(MEANS["low"], abs=0.06)
    assert predicted["y_sd"][0] < predicted["y_sd"][1] < predicted["y_sd"][2]
    assert predicted["y_sd"][2] == pytest.approx(
        (0.5**2 + 2 * 0.25**2) ** 0.5, rel=0.06
    )  # the prior's


@pytest.mark.slow
def test_the_joint_probability_is_the_product(fitted):
    below = fitted.table("means").set_index("model_id")["p_below_0"]
    assert fitted.probabilities["every mean < 0"] == pytest.approx(below.prod(), abs=0.03)
    assert fitted.plot().get_yticklabels()[1].get_text() == "near"
    gate = fitted.check(refits=False)
    assert gate.passes, gate.reasons


def test_bad_tables_are_refused(table):
    bad = {
        "too few points": (table[table.index % 10 == 0], 0.25),
        "constant column": (
            table.assign(y=table["y"].where(table["model_id"] != "low", 1.0)),
            0.25,
        ),
        "missing or infinite": (table.assign(y=table["y"].where(table.index > 0)), 0.25),
        "labels are missing": (table.assign(kind=table["kind"].where(table.index > 0)), 0.25),
        "prior scale": (table, 0.0),
    }
    for words, (wrong, scale) in bad.items():
        with pytest.raises(UsageError, match=words):
            fit_means(wrong, "y", scale=scale, group="kind")
