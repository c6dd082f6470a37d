"""Known standard errors, `se=`: given the scales as R's metafor has them, and so at the largest
likelihood.

The numbers are of metafor 3.8-1: `rma(yi, vi, tau2=…)`, `rma(yi, vi, method="REML" or "ML",
control=list(threshold= 1e-14))` and `rma.mv(yi, vi, random=list(~1|group, ~1|id), sigma2=…)`, of
`dat.bcg` by `escalc(measure="RR")` (13 trials of BCG vaccine, Colditz et al. 1994,
doi:10.1001/jama.1994.03510330076038) and of eight gains with v = (se/gain)².
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.draws import Settings
from thermostats.modelling.fit import Fit
from thermostats.modelling.gaussian import Gaussian, build_factor
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.kleiber import read_bounded_rows
from thermostats.modelling.lines import fit_line

FEW = Settings(draws=50)
BCG = pd.DataFrame(
    {
        "model_id": [f"trial{i}" for i in range(13)],
        "y": [
            *(
                -0.889311333920205449,
                -1.585388657201430629,
                -1.348073148299693269,
                -1.441551190021305384,
            ),
            *(
                -0.21754732221129558,
                -0.786115585818863982,
                -1.620898223598391752,
                0.011952333523840508,
            ),
            *(
                -0.469417648738149396,
                -1.371344803472784424,
                -0.339358828338390595,
                0.445913400571378737,
            ),
            -0.017313948216879815,
        ],
        "v": [
            *(
                0.3255847650039613295,
                0.194581121398143847,
                0.415367965367965386,
                0.0200100319022475728,
            ),
            *(
                0.0512101721696308632,
                0.0069056184559087574,
                0.2230172475723151693,
                0.0039615792978177295,
            ),
            *(
                0.0564342104632489655,
                0.0730247936130289099,
                0.0124122139715597199,
                0.5325058452001527609,
            ),
            0.0714046596839862935,
        ],
        "latitude": [44, 55, 42, 52, 13, 44, 19, 13, 27, 42, 18, 33, 33],
        "allocation": [*["random"] * 4, *["alternate"] * 2, *["random"] * 3, *["systematic"] * 4],
    }
).assign(se=lambda t: np.sqrt(t["v"]))
GAINS = pd.DataFrame(
    {
        "model_id": [f"m{i}" for i in range(8)],
        "heritage": list("aaabbccc"),
        "gain": [1.05, 0.93, 1.20, 1.11, 0.88, 1.31, 1.02, 0.97],
        "gain_se": [0.02, 0.03, 0.05, 0.01, 0.04, 0.06, 0.02, 0.03],
        "n_layers": [12, 24, 36, 48, 12, 24, 32, 6],
        "source": "mine",
    }
)


def exact(fit: Fit) -> Gaussian:
    assert isinstance(fit.model, Gaussian)
    return fit.model


def given(model: Gaussian, scales: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariance of β and the effects given the scales, with β's prior taken off: flat,
    as metafor has it."""
    factor, _, d = (
        part[0] for part in build_factor(model, np.log([scales]), model.moments[0][None])
    )
    q, p = d.size, model.sd.size
    precision, pulled = factor[:q, :q] @ factor[:q, :q].T, factor[:q, :q] @ factor[q, :q]
    precision[range(p), range(p)] -= 1
    pulled[:p] += model.centre / model.sd
    covariance = np.linalg.inv(precision)
    means = d * (covariance @ pulled)
    means[:p] += model.centre
    return means, d[:, None] * covariance * d


@pytest.mark.parametrize(
    ("square", "mean", "error"),
    [
        (0.05, -0.63945148163281385, 0.092715258592706587),
        (0.3132, -0.7145283840907436, 0.17977152116368653),
    ],
)
def test_given_the_spread_mean_and_error_are_metafors(
    square: float, mean: float, error: float
) -> None:
    model = exact(fit_line(BCG, "y", se="se", group=None))
    means, covariance = given(model, [square**0.5])
    assert (means[0], covariance[0, 0] ** 0.5) == pytest.approx((mean, error), rel=1e-8)


def test_given_the_spread_a_slope_and_its_error_are_metafors() -> None:
    fit = fit_line(BCG, "y", "latitude", se="se", group=None)
    means, covariance = given(exact(fit), [0.07**0.5])
    sd = BCG["latitude"].std(ddof=0)
    assert means[1] / sd == pytest.approx(-0.029162872635521555, rel=1e-8)
    assert covariance[1, 1] ** 0.5 / sd == pytest.approx(0.0069759427499998727, rel=1e-8)


def test_given_the_spreads_levels_of_groups_leave_the_mean_of_metafor() -> None:
    model = exact(fit_line(BCG, "y", se="se", group="allocation"))
    means, covariance = given(model, [0.2**0.5, 0.1**0.5])
    assert (means[0], covariance[0, 0] ** 0.5) == pytest.approx(
        (-0.63154436774870448, 0.28557702790627532), rel=1e-8
    )


def largest(function: Callable[[float], float]) -> float:
    """The square of the scale at which a function of its log is largest."""
    found = optimize.minimize_scalar(
        lambda log: -function(log), bounds=(-4.0, 1.0), method="bounded", options={"xatol": 1e-12}
    )
    return float(np.exp(2 * found.x))


def restricted(model: Gaussian) -> float:
    """Of the density of the outcomes given the scale, β integrated out: the restricted likelihood
    where β is wide."""
    return largest(
        lambda log: float(
            model.log_density(np.array([[log]]))[0] - model.prior.log_density(np.array([[log]]))[0]
        )
    )


def full(model: Gaussian) -> float:
    """Of the likelihood, β at its best."""

    def profile(log: float) -> float:
        weight = 1 / (np.exp(2 * log) + np.square(model.error))
        beta = (weight * model.y).sum() / weight.sum()
        return float(
            model.log_likelihood({"beta": np.array([[beta]]), "scale": np.exp([[log]])}).sum()
        )

    return largest(profile)


def test_the_largest_likelihoods_are_metafors() -> None:
    """A prior of 200 about the mean moves the restricted one by a millionth."""
    model = exact(fit_line(BCG, "y", se="se", group=None, scale=100.0))
    assert restricted(model) == pytest.approx(0.31324325813648085, rel=1e-5)
    assert full(model) == pytest.approx(0.28002813726864378, rel=1e-6)


def of_line(table: pd.DataFrame, se: Any = "gain_se") -> Fit:
    return fit_line(table, "np.log(gain) ~ 1", se=se, group=None, seed=1)


def test_on_the_log_scale_errors_are_those_of_the_delta_method() -> None:
    fit = of_line(GAINS)
    means, covariance = given(exact(fit), [0.1])
    assert (means[0], covariance[0, 0] ** 0.5) == pytest.approx(
        (0.048131491952110236, 0.037149835305133966), rel=1e-8
    )
    assert any("delta method: gain_se / gain" in said for said in fit.warnings)
    assert full(exact(fit)) == pytest.approx(0.012852381293011179, rel=1e-6)
    for name, base in (("np.log10", np.log(10)), ("np.log2", np.log(2))):
        other = exact(fit_line(GAINS, f"{name}(gain) ~ 1", se="gain_se", group=None))
        assert other.error * base == pytest.approx(exact(fit).error)


def test_the_mean_of_a_population_of_labs_is_metafors() -> None:
    """Labs are centred over models in the law: α less what their mean is,
    population_mean_log_gain."""
    fit = fit_heritage(GAINS.drop(columns="n_layers"), se="gain_se", seed=1)
    shares = fit.design.effects["u_heritage"].basis.to_numpy()
    unit = 1 / np.sqrt(1 - np.square(shares).sum())
    means, covariance = given(exact(fit), [0.02**0.5 / unit, 0.005**0.5])
    weights = np.concatenate([[1.0], -unit * shares])
    assert weights @ means == pytest.approx(0.043669303069454636, rel=1e-8)
    assert (weights @ covariance @ weights) ** 0.5 == pytest.approx(0.086248860522508394, rel=1e-8)


def test_the_root_of_a_tree_is_metafors() -> None:
    """Labs that share half of a tree of unit height: `rma.mv(…, R=list(sp=K), Rscale="none",
    sigma2=c(.02, .005))`."""
    fit = thermostats.fit_lineage(GAINS, thermostats.tree(GAINS), {}, se="gain_se", settings=FEW)
    model, lineage = exact(fit), fit.design.lineage
    drift = fit.design.effects["u_descent"].basis
    scales = [0.02**0.5 * drift.unit, 0.005**0.5]
    means, covariance = given(model, scales)
    assert lineage.tree.covariance(list(GAINS["model_id"])) == pytest.approx(
        np.where(np.equal.outer(list("aaabbccc"), list("aaabbccc")), 0.5, 0) + 0.5 * np.eye(8)
    )
    inside, besides = drift.start()
    weights = np.concatenate([[1.0], inside[0]])
    variance = weights @ covariance @ weights + (scales[0] * np.linalg.norm(besides)) ** 2
    assert (weights @ means, variance**0.5) == pytest.approx(
        (0.045065906482217408, 0.07336892944645719), rel=1e-8
    )


FITS: dict[str, Callable[..., Fit]] = {
    "line": of_line,
    "heritage": lambda table, se="gain_se": fit_heritage(table, geometry="n_layers", se=se, seed=1),
    "lineage": lambda table, se="gain_se": thermostats.fit_lineage(
        table, thermostats.tree(table), {}, se=se, seed=1
    ),
}


@pytest.mark.parametrize("law", FITS)
def test_known_errors_are_the_same_whatever_the_number_of_prompts(law: str) -> None:
    """Where spreads over prompts stand beside them these are not read, and it is said."""
    alone = FITS[law](GAINS)
    for n in (2, 1000):
        beside = FITS[law](GAINS.assign(gain_sd=GAINS["gain_se"] * n**0.5, n_prompts=n))
        assert beside.summary().equals(alone.summary()), n


@pytest.mark.parametrize("law", FITS)
def test_errors_of_zero_are_no_errors(law: str) -> None:
    without, zero = FITS[law](GAINS, se=None), FITS[law](GAINS, se=0.0)
    assert zero.summary().equals(without.summary())
    assert (
        any('se="gain_se" takes it as known' in said for said in without.warnings) or law == "line"
    )


@pytest.mark.parametrize("law", FITS)
def test_one_number_is_the_error_of_every_outcome(law: str) -> None:
    model, column = (
        exact(FITS[law](table, se)) for table, se in ((GAINS, 0.03), (GAINS.assign(e=0.03), "e"))
    )
    assert model.error == pytest.approx(0.03 / GAINS["gain"]) and model.error == pytest.approx(
        column.error
    )


def test_the_curve_of_depth_has_known_errors_of_any_n() -> None:
    for n in (2, 1000):
        table = GAINS.assign(gain_n=n, gain_sd=1.0)
        rows = read_bounded_rows(table, "gain", se="gain_se").table
        assert rows["log10_error"].tolist() == pytest.approx(
            list(GAINS["gain_se"] / GAINS["gain"] / np.log(10))
        )
        assert (rows["n_prompts"] == 0).all(), "as good as normal"


BAD: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "below 0": (lambda t: t.assign(gain_se=-t["gain_se"]), r"a standard error below 0 \(gain_se\)"),
    "missing": (
        lambda t: t.assign(gain_se=t["gain_se"].where(t.index > 0)),
        r"missing \(gain_se\): got none of m0",
    ),
    "in per cent": (
        lambda t: t.assign(gain_se=100 * t["gain_se"]),
        r"is this the standard error of gain\?.*/ 100",
    ),
    "not there": (lambda t: t.drop(columns="gain_se"), "gain_se"),
    "in words": (lambda t: t.assign(gain_se="small"), r"a column is not numeric \(gain_se\)"),
}


@pytest.mark.parametrize("law", FITS)
@pytest.mark.parametrize("bad", BAD)
def test_bad_errors_are_refused_or_asked(law: str, bad: str) -> None:
    spoil, words = BAD[bad]
    with pytest.raises(UsageError, match=words):
        FITS[law](spoil(GAINS))


def test_errors_larger_than_the_outcomes_are_asked_about_and_a_scale_is_the_answer() -> None:
    table = BCG.assign(se=100 * BCG["se"])
    with pytest.raises(UsageError, match=r"in its unit\? Most errors are larger") as asked:
        fit_line(table, "y", se="se", group=None)
    assert (
        eval(asked.value.next_step, {"thermostats": thermostats, "df": table}).rows.shape[0] == 13  # noqa: S307
    )


@pytest.mark.parametrize("se", [True, BCG["se"], [0.1] * 13])
def test_an_error_that_is_neither_a_column_nor_a_number_is_refused(se: Any) -> None:
    with pytest.raises(UsageError, match="a column or a number"):
        fit_line(BCG, "y", se=se, group=None)
    with pytest.raises(UsageError, match="errors of such an outcome are not known"):
        fit_line(GAINS, "np.sqrt(gain) ~ 1", se="gain_se", group=None)


def test_errors_that_a_table_has_and_a_fit_does_not_read_are_named() -> None:
    rng = np.random.default_rng(5)
    gains = np.exp(rng.normal(0, 0.1, 12))
    models = [f"m{number}" for number in range(12)]
    columns = {"model": models, "lab": ["a", "b", "c"] * 4, "gain": gains, "x": range(1, 13)}
    rows = pd.DataFrame(columns).assign(**{"Gain SE": 0.01})
    said = 'Gain SE is not read: se="Gain SE" takes it as known'
    asked = {"outcome": "gain", "model": "model", "lab": "lab", "geometry": ["x"], "scale": []}
    assert said in thermostats.fit_heritage(rows, **asked).warnings
    assert said not in thermostats.fit_heritage(rows, **asked, se="Gain SE").warnings
    line = thermostats.fit_line(rows, "gain", "x", model="model", group=None)
    assert said in line.warnings
    errors = np.linspace(0.01, 0.02, 12)
    of_errors = rows.assign(**{"Gain SE": errors})
    of_it = thermostats.fit_line(of_errors, "gain", "Gain SE", model="model", group=None)
    assert said not in of_it.warnings
