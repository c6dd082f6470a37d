"""The specification curve: universes from data, its joint p under the null and under a signal, what
moves it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import estimate_correlation
from thermostats.modelling.heritage.variance_shares import estimate_share_table
from thermostats.modelling.specification import (
    Null,
    Rearranged,
    build_correlation,
    build_fraction_difference,
    build_share_estimator,
    build_smallest_step,
    build_universes,
    draw_rearrangements,
    measure_choice_effects,
    measure_mean_deviations,
    permute_across_labs,
    permute_between_and_within_labs,
    permute_between_labs,
    permute_within_labs,
    specification_curve,
    transform_normal_scores,
)

BLOCKS = {"heritage": ["heritage"], "shape": ["log_L"], "size": ["log_N"]}
CHOICES: dict[str, dict[str, Any]] = {
    "gain": {"first": {"outcome": "y"}, "second": {"outcome": "y_again"}},
    "models": {"every": "", "good": "good"},
}
SIZES = (5, 4, 4, 3, 3, 2, 1, 1)


def study(
    rng: np.random.Generator, *, lab: float = 0.0, slope: float = 0.0, level: float = 0.0
) -> pd.DataFrame:
    """Models of eight labs; SD of labs' levels, slope on depth inside and between labs, slope on a
    lab's column."""
    labs = np.repeat(np.arange(len(SIZES)), SIZES)
    n, column = len(labs), rng.normal(size=len(SIZES))
    depth = rng.normal(size=n) + rng.normal(size=len(SIZES))[labs]
    y = (
        slope * depth
        + (lab * rng.normal(size=len(SIZES)) + level * column)[labs]
        + rng.normal(size=n)
    )
    return pd.DataFrame(
        {
            "model_id": [f"m{i}" for i in range(n)],
            "heritage": [f"lab {i}" for i in labs],
            "log_L": depth,
            "log_N": depth + rng.normal(size=n),
            "column": column[labs],
            "y": y,
            "y_again": y + 0.5 * rng.normal(size=n),
            "good": rng.random(n) < 0.85,
        }
    )


DESIGNS = {
    "heritage": (
        permute_across_labs("log_L", "log_N"),
        build_share_estimator("heritage", "shape", BLOCKS),
        {"lab": 1.5},
    ),
    "inside labs": (
        permute_within_labs(),
        build_correlation("log_L", groups="heritage"),
        {"slope": 0.8},
    ),
    "between labs": (permute_between_labs(), build_correlation("column"), {"level": 1.5}),
    "both": (permute_between_and_within_labs(), build_correlation("log_L"), {"slope": 0.8}),
}

IN_TURN = [
    "heritage",
    *(pytest.param(name, marks=pytest.mark.long) for name in DESIGNS if name != "heritage"),
]


def joint_p(name: str, studies: int, **truth: float) -> np.ndarray:
    null, estimate, _ = DESIGNS[name]
    rng = np.random.default_rng(7)
    curves = (
        specification_curve(study(rng, **truth), CHOICES, estimate, null=null, resamples=99, seed=i)
        for i in range(studies)
    )
    return np.array([curve.p for curve in curves])


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_TURN)
def test_the_joint_p_is_uniform_where_the_statement_is_false(name: str) -> None:
    """Labs differ in two of the four designs: what a statement is not about must not make it
    true."""
    p = joint_p(name, 200, **({} if name in {"heritage", "between labs"} else {"lab": 1.0}))
    for level in (0.05, 0.2, 0.5):
        assert stats.binomtest(int((p <= level).sum()), len(p), level).pvalue > 0.002, (
            level,
            (p <= level).mean(),
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_TURN)
def test_the_joint_p_is_small_where_the_statement_is_true(name: str) -> None:
    assert (joint_p(name, 60, **DESIGNS[name][2]) <= 0.05).mean() > 0.5


def test_units_move_only_within_their_groups_and_alike_in_every_universe() -> None:
    codes = np.array([0, 1, 0, 1, 1, 0, 2])
    places = draw_rearrangements(codes, 200, np.random.default_rng(1))
    assert (codes[places] == codes).all()
    assert (np.sort(places, axis=1) == np.arange(7)).all()
    rows = study(np.random.default_rng(1)).assign(outcome=lambda f: f["y"])
    rearranged = Rearranged(rows, Null("residuals"), 50, seed=1)
    assert np.array_equal(
        rearranged.build_outcomes(rows), rearranged.build_outcomes(rows.assign(heritage="one"))
    )
    assert np.allclose(np.sort(rearranged.build_outcomes(rows), axis=1), np.sort(rows["y"]))


UNEQUAL = np.repeat(np.arange(10), [12, 8] + [1] * 8)


def unequal(rng: np.random.Generator, between: float) -> pd.DataFrame:
    """Models of labs of 12, 8 and one, with a column and an outcome that have nothing to do with
    each other."""
    labs = np.array([f"lab {i}" for i in UNEQUAL])
    x = rng.normal(size=10)[UNEQUAL] + 0.5 * rng.normal(size=UNEQUAL.size)
    y = between**0.5 * rng.normal(size=10)[UNEQUAL] + (1 - between) ** 0.5 * rng.normal(
        size=UNEQUAL.size
    )
    return pd.DataFrame(
        {"model_id": [f"m{i}" for i in range(len(labs))], "heritage": labs, "x": x, "outcome": y}
    )


def test_means_of_labs_are_as_sure_as_their_models_are_many() -> None:
    """Over many studies of labs of 12 and of one the deviation is √(τ² + σ²/n) of the world, by
    moments."""
    rng, squares = np.random.default_rng(5), []
    for _ in range(400):
        rows = unequal(rng, 0.6)
        y = rows["outcome"].to_numpy() - rows["outcome"].mean()
        means = np.bincount(UNEQUAL, y) / np.bincount(UNEQUAL)
        squares.append(
            np.square(measure_mean_deviations(y - means[UNEQUAL], means, np.bincount(UNEQUAL)))[
                [0, -1]
            ]
        )
    assert np.mean(squares, axis=0) == pytest.approx([0.6 + 0.4 / 12, 1.0], rel=0.15)
    assert (
        measure_mean_deviations(np.zeros(4), np.array([1.0, -1.0]), np.array([2, 2])) == 1
    ).all()


@pytest.mark.slow
@pytest.mark.parametrize("between", [0.0, 0.6])
def test_p_is_uniform_where_labs_are_of_unequal_size(between: float) -> None:
    """Exchanged as if equally sure, 1.7% of studies without lab effects have p ≤ .05."""
    rng, choices, null = (
        np.random.default_rng(11),
        {"models": {"every": ""}},
        permute_between_and_within_labs(),
    )
    studies = (unequal(rng, between) for _ in range(400))
    curves = (
        specification_curve(rows, choices, build_correlation("x"), null=null, resamples=99)
        for rows in studies
    )
    p = np.array([curve.p for curve in curves])
    for level in (0.05, 0.2, 0.5):
        assert stats.binomtest(int((p <= level).sum()), len(p), level).pvalue > 0.002, level


def test_closed_forms_are_those_of_the_tests() -> None:
    rows = study(np.random.default_rng(2), lab=1.0, slope=0.5).assign(outcome=lambda f: f["y"])
    y = rows["outcome"].to_numpy()[None]
    for method in ("pearson", "spearman"):
        for groups in ("", "heritage"):
            one = build_correlation("log_L", method=method, groups=groups)(rows)(y)[0]  # type: ignore[arg-type]
            by = rows[groups] if groups else None
            other = estimate_correlation(
                rows["log_L"], rows["y"], method=method, groups=by, seed=1, resamples=99
            )  # type: ignore[arg-type]
            assert one == pytest.approx(other.estimate, abs=1e-12), (method, groups)
    table = estimate_share_table(
        rows, "outcome", BLOCKS, [("heritage", "shape")], seed=1
    ).set_index("what")
    share = build_share_estimator("heritage", "shape", BLOCKS)(rows)(y)[0]
    assert share == pytest.approx(table.loc["heritage − shape", "estimate"], abs=1e-12)
    marked = rows.assign(focal=rows["heritage"].isin(["lab 0", "lab 6"]))
    fractions = (rows["outcome"] < 0).groupby(rows["heritage"]).mean()
    inside = fractions.index.isin(["lab 0", "lab 6"])
    by_hand = fractions[inside].mean() - fractions[~inside].mean()
    assert build_fraction_difference("focal", "heritage")(marked)(y)[0] == pytest.approx(by_hand)
    placed = rows.assign(place=rows["heritage"].map({f"lab {i}": min(i, 2) for i in range(8)}))
    means = placed.groupby("heritage")["outcome"].mean()
    steps = [
        means["lab 1"] - means["lab 0"],
        *(means[f"lab {i}"] - means["lab 1"] for i in range(2, 8)),
    ]
    assert build_smallest_step("place", "heritage")(placed)(y)[0] == pytest.approx(min(steps))


def test_variance_is_decomposed_by_choice() -> None:
    """Additive choices explain what they add; what two do only together is in both totals and in
    none alone."""
    effects = {
        "a": {"1": 0.0, "2": 3.0},
        "b": {"1": 0.0, "2": 1.0, "3": 2.0},
        "c": {"1": 0.0, "2": 0.0},
    }
    labels = [(a, b, c) for a in effects["a"] for b in effects["b"] for c in effects["c"]]
    table = pd.DataFrame(labels, columns=list("abc"))
    table["estimate"] = sum(table[name].map(effect) for name, effect in effects.items())
    moves = measure_choice_effects(table, list("abc")).set_index("choice")
    assert moves["alone"].to_dict() == pytest.approx(
        {"a": 27 / 35, "b": 8 / 35, "c": 0.0}, abs=1e-12
    )
    assert moves["together"].to_dict() == pytest.approx(
        {"a": 27 / 35, "b": 8 / 35, "c": 0.0}, abs=1e-12
    )
    assert (moves.loc["a", "lowest"], moves.loc["a", "highest_mean"]) == ("1", 4.0)
    only_together = table.assign(estimate=(table["a"] == "1") ^ (table["c"] == "1")).astype(
        {"estimate": float}
    )
    moves = measure_choice_effects(only_together, list("abc")).set_index("choice")
    assert moves["alone"].to_dict() == pytest.approx(dict.fromkeys("abc", 0.0), abs=1e-12)
    assert moves["together"].to_dict() == pytest.approx({"a": 1.0, "b": 0.0, "c": 1.0}, abs=1e-12)


def test_a_universe_is_one_option_of_every_choice() -> None:
    rows = study(np.random.default_rng(5))
    choices = CHOICES | {
        "outcome": {"log": "", "ranks": transform_normal_scores},
        "depth": {"big": ("log_L > 0", {"x": "2 * y"})},
    }
    made = dict(build_universes(rows, choices))
    assert len(made) == 2 * 2 * 2 * 1
    deep = rows[rows["log_L"] > 0]
    assert made["first", "every", "log", "big"]["x"].tolist() == (2 * deep["y"]).tolist()
    assert (
        made["second", "good", "log", "big"]["outcome"].tolist()
        == deep.loc[deep["good"], "y_again"].tolist()
    )
    scores = made["first", "every", "ranks", "big"]["outcome"]
    assert scores.rank().tolist() == deep["y"].rank().tolist()
    assert scores.mean() == pytest.approx(0, abs=1e-9)


def test_the_smallest_p_is_that_of_the_design() -> None:
    """Four labs have 24 orders, so that no data give less than 1/24; labs of one model each have no
    p inside them."""
    labs = pd.DataFrame(
        {
            "model_id": list("abcd"),
            "heritage": list("abcd"),
            "x": [1.0, 2, 3, 4],
            "y": [1.0, 2, 3, 4.5],
        }
    )
    choices = {"gain": {"only": {"outcome": "y"}}}
    between = specification_curve(
        labs, choices, build_correlation("x"), null=permute_between_labs(), resamples=4799
    )
    assert between.smallest_p == pytest.approx(1 / 24, rel=0.25)
    assert between.p == between.smallest_p
    inside = specification_curve(
        labs, choices, build_correlation("x"), null=permute_within_labs(), resamples=99
    )
    assert (inside.p, inside.smallest_p) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("choices", "null", "said"),
    [
        ({"gain": {}}, None, "a choice without options"),
        ({"gain": {"a": {"outcome": "nothing + 1"}}}, None, "gain: a"),
        ({"models": {"every": ""}}, None, "universes without an outcome"),
        (
            {"gain": {"a": {"outcome": "y"}}, "models": {"none": "y > 100"}},
            None,
            "no universe has an estimate",
        ),
        ({"gain": {"a": {"outcome": "y"}}}, permute_within_labs(lab="nothing"), "no such column"),
        ({"gain": {"a": {"outcome": "y"}}}, permute_across_labs("nothing"), "no such column"),
        (
            {"gain": {"a": {"outcome": "y"}}},
            Null("residuals", unit="heritage"),
            "two rows of one unit",
        ),
    ],
)
def test_what_is_declared_wrongly_is_named(choices: Any, null: Null | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        specification_curve(
            study(np.random.default_rng(8)),
            choices,
            build_correlation("log_L"),
            null=null,
            resamples=9,
        )


def test_residuals_are_given_columns_that_options_set() -> None:
    curve = specification_curve(
        study(np.random.default_rng(8)),
        {"gain": {"a": {"outcome": "y"}}, "shape": {"log": {"coded": "log_L"}}},
        build_correlation("log_L"),
        null=permute_across_labs("coded"),
        resamples=99,
    )
    assert curve.p is not None
