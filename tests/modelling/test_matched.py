"""One lab against others at equal shape: by hand, by brute force, with known truth, and the study's
own models."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import linalg, optimize, stats
from statsmodels.regression.linear_model import GLS

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.fit import Fit
from thermostats.modelling.matched import (
    Cells,
    build_cells,
    build_side_design,
    estimate_random_ratios,
    estimate_ratio,
    fit_matched,
    simulate_false_rate,
)

ROWS = pd.DataFrame(
    {
        "model_id": list("abcdefghi"),
        "heritage": ["A", "A", "B", "C", "A", "B", "A", "C", "B"],
        "family": ["a1", "a2", "b", "c", "a1", "b", "a2", "c", "b"],
        "n_layers": [12, 12, 12, 12, 24, 24, 36, 36, 48],
        "n_heads": 12,
        "d_model": 768,
        "gain": [0.9, 1.0, 1.2, 1.1, 0.95, 1.05, 1.02, 0.98, 3.0],
    }
)
"""Three shapes that A shares, and one that it has not."""


def statistic(rows: pd.DataFrame, first: pd.Series) -> float:
    """Mean over cells of the log ratio of geometric means, NaN where no cell holds both."""
    ratios = [
        np.log(cell.gain[first[cell.index]]).mean() - np.log(cell.gain[~first[cell.index]]).mean()
        for _, cell in rows.groupby("n_layers")
        if 0 < first[cell.index].sum() < len(cell)
    ]
    return float(np.mean(ratios)) if ratios else np.nan


def fitted(**changed: Any) -> Fit:
    return fit_matched(ROWS, "gain", **{"focal": "A", "seed": 1, **changed})


def test_the_ratio_and_its_interval_are_those_of_scipy() -> None:
    """Of logs by cell: ln(√(.9) / √(1.2 · 1.1)), ln(.95/1.05), ln(1.02/.98)."""
    each = [np.log(0.9) / 2 - np.log(1.2 * 1.1) / 2, np.log(0.95 / 1.05), np.log(1.02 / 0.98)]
    fit = fitted()
    row, level = fit.table("estimate").iloc[0], fit.level
    low, high = stats.t.interval(level, 2, np.mean(each), stats.sem(each))
    assert tuple(row[["ratio", "lower", "upper"]]) == pytest.approx(
        tuple(np.exp([np.mean(each), low, high]))
    )
    cells = fit.table("cells")
    assert cells["ratio"].tolist() == pytest.approx(list(np.exp(each)))
    assert cells["focal_lowest"].tolist() == [True, True, False]
    assert cells["opposite_sides"].tolist() == [True, True, True]


def test_permutations_are_those_of_brute_force() -> None:
    rows = ROWS[ROWS["n_layers"] < 48].reset_index(drop=True)
    at_hand = statistic(rows, rows["heritage"] == "A")
    whole = [
        statistic(rows, rows["family"].isin(two))
        for two in itertools.combinations(["a1", "a2", "b", "c"], 2)
    ]
    cells = [list(cell.index) for _, cell in rows.groupby("n_layers")]
    within = []
    for chosen in itertools.product(
        *(itertools.combinations(cell, n) for cell, n in zip(cells, (2, 1, 1), strict=True))
    ):
        within.append(
            statistic(rows, pd.Series(rows.index.isin([i for part in chosen for i in part])))
        )
    table = fitted().table("permutation").set_index("moved")
    for moved, null in (("families moved whole", whole), ("models within cells", within)):
        row, known = table.loc[moved], np.array(null)[np.isfinite(null)]
        assert row["arrangements"] == len(known) and row["least_p"] == 1 / len(known)
        assert row["p"] == pytest.approx(np.mean(np.abs(known) >= abs(at_hand) - 1e-12))
        assert row["p_below"] == pytest.approx(np.mean(known <= at_hand + 1e-12))


def test_very_many_arrangements_are_drawn_and_come_to_the_same() -> None:
    rng = np.random.default_rng(2)
    cell, side = np.repeat(np.arange(8), 6), np.tile([True, True, False, False, False, False], 8)
    cells = Cells(cell=cell, side=side, group=np.arange(48))
    y = rng.normal(0, 0.1, 48) - 0.05 * side
    drawn = estimate_ratio(y, cells).units
    means = y.reshape(8, 6)
    variance = np.array([np.var(x, ddof=1) * (1 / 2 + 1 / 4) for x in means]).sum() / 64
    normal = 2 * stats.norm.sf(abs(estimate_ratio(y, cells).estimate) / variance**0.5)
    assert drawn.arrangements == 20_000 and drawn.p_value == pytest.approx(normal, abs=0.02)


DESIGN = [(("n", "p"), "o"), (("p",), "b"), (("n", "p"), "b"), (("p",), "o"), (("p",), "o")]
"""The study's five cells: families of EleutherAI, and of others."""


def design() -> Cells:
    rows = [(c, f, f in own) for c, (own, others) in enumerate(DESIGN) for f in (*own, *others)]
    group = np.array(["nopb".index(f) for _, f, _ in rows])
    return Cells(
        cell=np.array([c for c, _, _ in rows]),
        side=np.array([side for _, _, side in rows]),
        group=group,
    )


def test_a_test_of_models_errs_as_often_as_its_arrangements_say_and_more_where_families_differ() -> (  # noqa: E501
    None
):
    """Of 72 arrangements 3 have p ≤ .05 where models are exchangeable; at the families' SD it is
    one study in five."""
    cells = design()
    units = cells.permute_units()
    assert len(units) == 72 and len(cells.permute_groups()) == 6
    assert simulate_false_rate(cells, units, group_sd=0, unit_sd=0.1, size=20_000) == pytest.approx(
        3 / 72, abs=0.005
    )
    assert simulate_false_rate(
        cells, units, group_sd=0.09, unit_sd=0.07, size=20_000
    ) == pytest.approx(0.2, abs=0.03)
    assert simulate_false_rate(cells, cells.permute_groups(), group_sd=0.09, unit_sd=0.07) == 0, (
        "no p of six is below 1/6"
    )


def test_random_families_are_those_of_the_largest_likelihood() -> None:
    """The likelihood of contrasts, by scipy between all ratios of variances, and generalised least
    squares of statsmodels there."""
    rng = np.random.default_rng(4)
    side = np.tile([True, True, False, False], 7)
    group = np.where(side, rng.integers(0, 3, 28), rng.integers(3, 8, 28))
    cells = Cells(cell=np.repeat(np.arange(7), 4), side=side, group=group)
    x = build_side_design(cells)
    contrasts = linalg.null_space(x.T)
    alike = (group[:, None] == group).astype(float)
    studies = rng.normal(0, 0.1, (6, 28)) + rng.normal(0, 0.1, (6, 8))[:, group] - 0.1 * side
    found = estimate_random_ratios(studies, cells)
    df = np.unique(group).size - 2
    for place, y in enumerate(studies):

        def lack(log_ratio: float, y: Any = y) -> float:
            own = contrasts.T @ (np.exp(log_ratio) * alike + np.eye(28)) @ contrasts
            left = contrasts.T @ y
            variance = left @ np.linalg.solve(own, left) / len(left)
            return float(-stats.multivariate_normal(cov=variance * own).logpdf(left))

        best = optimize.minimize_scalar(lack, bounds=(-12, 4), method="bounded").x
        line = GLS(y, x, np.exp(best) * alike + np.eye(28)).fit()
        error = line.bse[-1]
        assert np.log(found.estimate[place]) == pytest.approx(line.params[-1], abs=0.03 * error)
        half = stats.t.ppf(0.975, df) * error
        upper = line.params[-1] + half
        assert np.log(found.upper[place]) == pytest.approx(upper, abs=0.15 * error)
        p = stats.t.sf(abs(line.params[-1]) / error, df)
        assert found.p[place] == pytest.approx(p, rel=0.15)


def test_random_families_err_in_one_study_in_twenty() -> None:
    """On the study's five cells, where moving models errs in one study in five."""
    cells = design()
    rng = np.random.default_rng(5)
    group = np.unique(cells.group, return_inverse=True)[1]
    for between in (0.0, 0.09):
        families = rng.normal(0, between, (4000, group.max() + 1))[:, group]
        found = estimate_random_ratios(families + rng.normal(0, 0.07, (4000, group.size)), cells)
        assert 0.005 < ((found.p <= 0.05) & (found.estimate < 1)).mean() < 0.07
        covered = (found.lower < 1) & (found.upper > 1)
        assert covered.mean() > 0.93


def simulated(ratio: float, seed: int, cells: int = 20) -> pd.DataFrame:
    """Three labs of four families, in every cell a model of each lab."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {"cell": np.repeat(np.arange(cells), 3), "lab": np.tile(list("ABC"), cells)}
    )
    rows = rows.assign(fam=rows["lab"] + (rows["cell"] % 4).astype(str))
    family = {name: rng.normal(0, 0.05) for name in sorted(set(rows["fam"]))}
    y = (
        rng.normal(0, 0.2, cells)[rows["cell"]]
        + rows["fam"].map(family)
        + np.log(ratio) * (rows["lab"] == "A")
    )
    return rows.assign(
        name=[f"m{i}" for i in rows.index], y=np.exp(y + rng.normal(0, 0.05, len(rows)))
    )


def test_a_ratio_that_is_known_is_recovered_from_a_users_own_columns() -> None:
    inside = []
    for seed in range(20):
        table = simulated(0.8, seed)
        fit = fit_matched(
            table, "y", model="name", lab="lab", family="fam", shape="cell", focal="A", seed=1
        )
        lower, upper = fit.conf_int().loc["ratio"]
        inside.append(lower < 0.8 < upper)
        assert upper - lower < 0.35
    assert sum(inside) >= 16, "of twenty intervals of 94%; fewer come about once in two hundred"


def test_known_errors_enter_the_law_and_the_cells() -> None:
    rows = ROWS.assign(e=0.05)
    fit = fit_matched(rows, "gain", focal="A", se="e", seed=1)
    assert fit.model.error == pytest.approx(0.05 / fit.rows["gain"])
    first = fit.table("cells").iloc[0]
    square = sum((0.05 / g) ** 2 / 4 for g in (0.9, 1.0, 1.2, 1.1))
    assert first["log_error"] == pytest.approx(square**0.5)
    assert any("delta method: e / gain" in said for said in fit.warnings)
    assert fitted(se=0.0).summary().equals(fitted().summary())


def test_without_effects_of_families_they_have_no_spread_and_tests_err_as_those_of_models_do() -> (
    None
):
    fit = fitted()
    alone = fit.refit_law(fit.law.alternatives["no effects of families"])
    assert list(alone.reported) == ["ratio", "log_ratio", "cell_sd", "residual_sd"]
    cells, spread = build_cells(fit.rows), float(np.median(alone.quantities["residual_sd"]))
    expected = simulate_false_rate(
        cells, cells.permute_units(fit.seed), group_sd=0.0, unit_sd=spread
    )
    assert (
        alone.table("permutation").set_index("moved")["false_rate"]["models within cells"]
        == expected
    )


BAD: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "a focal lab that is absent": (
        lambda t: t.assign(heritage=t["heritage"].replace("A", "a lab")),
        r"no such lab",
    ),
    "one shape in common": (
        lambda t: t[t["n_layers"].isin([12, 48])],
        r"too few shapes.*got 1 shape, 12 × 12 × 768",
    ),
    "a model of two labs": (
        lambda t: pd.concat([t, t.head(1).assign(heritage="B", family="b")]),
        r"a model stands in several rows",
    ),
    "a family of two labs": (
        lambda t: t.assign(family="x"),
        r"a family of the focal lab and of another.*got x",
    ),
    "a shape that is missing": (
        lambda t: t.assign(n_heads=t["n_heads"].where(t.index > 0)),
        r"missing \(n_heads\)",
    ),
    "an outcome below 0": (lambda t: t.assign(gain=-t["gain"]), "a logarithm is taken"),
    "no shape": (
        lambda t: t.drop(columns="d_model"),
        r"shape: d_model.*Next: thermostats.fit_matched\(df, \"gain\"",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_compared_is_refused(bad: str) -> None:
    spoil, words = BAD[bad]
    with pytest.raises(UsageError, match=words):
        fit_matched(spoil(ROWS), "gain", focal="A")


def test_what_is_odd_is_said() -> None:
    said = " ".join(fitted().warnings)
    assert "1 of 9 models are left out" in said and "no p is below 1/6" in said
    assert "one model of each side" in said and "24 × 12 × 768, 36 × 12 × 768" in said
    without = " ".join(fit_matched(ROWS.drop(columns="family"), "gain", focal="A", seed=1).warnings)
    assert "every model is taken as one of its own" in without
    floats = fit_matched(
        ROWS.assign(n_layers=ROWS["n_layers"].astype(float)), "gain", focal="A", seed=1
    )
    assert floats.table("cells")["cell"].tolist() == [
        "12 × 12 × 768",
        "24 × 12 × 768",
        "36 × 12 × 768",
    ]


def test_predictions_are_of_known_and_of_new_cells() -> None:
    """A cell and a family never seen are drawn anew: the same expectation for all such rows of one
    side."""
    new = ROWS.tail(2).assign(heritage=["A", "B"], n_layers=96, family=["new", "newer"])
    fit = fitted()
    drawn, delta = fit.predicted(new), fit.quantities["log_ratio"].ravel()
    assert (drawn[:, 0] - drawn[:, 1]).mean() == pytest.approx(delta.mean(), abs=0.05)


def test_eleutherai_in_the_studys_files() -> None:
    """.843 [.775, .916] over five cells, lowest in each; 1/6 is the least p of four families.
    Sources are averaged."""
    rows = thermostats.features()
    there = (
        rows["penultimate_gain"].notna() & rows["comparable"] & rows["variant"].isin(["", "base"])
    )
    files = rows[there & rows["source"].str.endswith((".json", ".csv"))]
    facts = files.groupby("model_id")[
        ["heritage", "family", "n_layers", "n_heads", "d_model"]
    ].first()
    gain = np.exp(np.log(files["penultimate_gain"]).groupby(files["model_id"]).mean())
    fit = fit_matched(facts.assign(gain=gain).reset_index(), "gain", focal="EleutherAI", seed=1)
    result = estimate_ratio(
        fit.rows["log of the outcome"].to_numpy(), build_cells(fit.rows), level=0.95
    )
    assert (result.ratio, result.ratio_lower, result.ratio_upper) == pytest.approx(
        (0.843, 0.775, 0.916), abs=0.0006
    )
    assert result.n == 5 and fit.table("cells")["focal_lowest"].all()
    assert (result.groups.p_below, result.groups.least) == (
        pytest.approx(1 / 6),
        pytest.approx(1 / 6),
    )
    assert (
        result.units.p_value == pytest.approx(0.028, abs=0.001) and result.units.arrangements == 72
    )


def test_it_is_drawn_saved_and_read_again(tmp_path: Any) -> None:
    fit = fitted()
    axes = fit.plot()
    assert next(label.get_text() for label in axes.get_yticklabels()) == "12 × 12 × 768"
    assert "A over others of equal shape" in axes.get_xlabel()
    assert thermostats.load_fit(fit.save(tmp_path / "fit.nc")).summary().equals(fit.summary())
    assert fit.check().checks
