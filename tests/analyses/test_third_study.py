"""Findings over the third study on studies of known truth: verdicts turn with it, and nothing is
said without data."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, by_rules_alone, is_drawn, judged, shipped, untried
from scipy import stats
from third_tables import made, with_third, write

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Result
from thermostats.studies import nursery as tables_that_ship
from thermostats.studies.nursery import third, third_tests
from thermostats.studies.nursery.crossed import (
    ALIKE,
    RECIPE,
    THRESHOLDS,
    CrossedWorld,
    build_table,
    build_worlds,
    estimate_ratios,
    list_worlds,
)
from thermostats.studies.nursery.crossed import SHAPE_OF_WORLDS as SHAPE
from thermostats.studies.nursery.third_tests import (
    LEFT,
    NAMES,
    OVER_SIZE,
    SHARED,
    build_ratio_test,
    build_rule,
)

FINDINGS = {
    "n01": ("whole", "recipe", "shape", "alike", "carry_over_third"),
    "n02": ("third", "third_given_corpus"),
    "n03": ("third.depth", "third.density", "third.shape"),
    "n04": ("third", "third_tuning", "third_stiffness"),
    "n05": ("third.log_wv", "third.log_wo", "third_mediation"),
}
STRONG = CrossedWorld("recipe", (0.15,) * 4, (0.04,) * 4, (0.005,) * 4, alike=0.95, residual=0.02)
WEAK = CrossedWorld("architecture", (0.02,) * 4, (0.02,) * 4, (0.15,) * 4, alike=0.0, residual=0.02)


@cache
def study(world: CrossedWorld, **truth: float) -> Evidence:
    return with_third(made(world, **truth))


@pytest.mark.parametrize("claim", FINDINGS)
def test_nothing_is_said_before_the_study_is_measured(claim: str) -> None:
    columns = {"models": tables_that_ship.MODELS} | tables_that_ship.READ
    empty = {f"third_{name}": pd.DataFrame(columns=list(names)) for name, names in columns.items()}
    tables = shipped().fork()
    tables._loaded = dict(tables._loaded) | empty
    tables._frames = {}
    assert {
        found.verdict for found in judged(by_rules_alone(claim), tables, *FINDINGS[claim]).values()
    } == {UNMEASURED}


@pytest.mark.parametrize("claim", FINDINGS)
def test_every_finding_is_drawn_and_in_words(claim: str) -> None:
    for name, found in judged(
        by_rules_alone(claim), study(list_worlds()[2], crossing=9), *FINDINGS[claim]
    ).items():
        assert found.verdict != UNMEASURED and found.sample.n_models
        assert found.figure.draw is None or is_drawn(found), name
        assert "{{" not in " ".join(found.notes) and not {"nan", "None"} & set(
            " ".join(found.notes).split()
        ), name


@pytest.mark.parametrize(
    "claim, finding, world, truth, verdict",
    [
        ("n01", "recipe", STRONG, {}, YES),
        ("n01", "recipe", WEAK, {}, NO),
        ("n01", "shape", STRONG, {}, YES),
        ("n01", "shape", WEAK, {}, NO),
        ("n01", "alike", STRONG, {}, YES),
        ("n01", "alike", replace(STRONG, alike=0.0), {}, NO),
        ("n02", "third_given_corpus", STRONG, {"embed": 0.4}, YES),
        ("n02", "third_given_corpus", STRONG, {}, OPEN),
        ("n03", "third.shape", replace(STRONG, shape=(0.2,) * 4), {}, YES),
        ("n03", "third.shape", replace(STRONG, shape=(0.2, 0.0, 0.2, 0.2)), {}, NO),
        ("n04", "third", STRONG, {"early": 0.99}, YES),
        ("n04", "third", STRONG, {"early": 0.0}, NO),
        ("n04", "third_tuning", STRONG, {"crossing": 24}, YES),
        ("n04", "third_tuning", STRONG, {"crossing": 0}, NO),
        ("n04", "third_stiffness", STRONG, {"crossing": 0, "stiff": 0.1}, YES),
        ("n04", "third_stiffness", STRONG, {"crossing": 0, "stiff": 10.0}, NO),
        ("n04", "third_stiffness", STRONG, {"crossing": 0}, OPEN),
        ("n05", "third.log_wv", STRONG, {"follows": 0.5}, YES),
        ("n05", "third.log_wv", STRONG, {"follows": 0.0}, NO),
        ("n05", "third_mediation", WEAK, {"through": 0.5}, YES),
        ("n05", "third_mediation", WEAK, {}, OPEN),
    ],
)
def test_verdicts_turn_with_the_truth(claim, finding, world, truth, verdict):
    found = judged(untried(by_rules_alone(claim)), study(world, **truth), finding)[finding]
    assert found.verdict == verdict


def test_the_order_is_that_of_both_ratios() -> None:
    found = judged(untried(by_rules_alone("n01")), study(STRONG), *FINDINGS["n01"])
    assert found["whole"].verdict == YES and found["whole"].sample.group == "recipe"
    assert (
        judged(untried(by_rules_alone("n01")), study(WEAK), *FINDINGS["n01"])["whole"].verdict == NO
    )


def test_a_verdict_that_one_corpus_makes_is_left_open() -> None:
    interval = Result(
        quantities={
            OVER_SIZE: build_ratio_test(SHAPE)(third.select_ends(study(STRONG))).quantities[
                OVER_SIZE
            ]
        }
    )
    every = pd.DataFrame({"choice": ["a", "b"], OVER_SIZE: [3.0, 2.0]})
    assert build_rule(SHAPE).verdict(replace(interval, rows={LEFT: every})) == YES
    assert (
        build_rule(SHAPE).verdict(replace(interval, rows={LEFT: every.replace(2.0, 0.9)})) == OPEN
    )


def test_gains_are_those_of_the_penultimate_block_on_prompts_of_the_own_corpus() -> None:
    tables = made(STRONG, elsewhere=-0.2)
    rows = third.select_ends(with_third(tables))
    row, gains = rows.iloc[7], tables["gains"]
    gains = gains[(gains["model"] == row["model"]) & (gains["step"] == row["steps"])]
    gains = gains[(gains["prompts"] == row["trained_on"]) & (gains["layer"] == row["n_layers"] - 1)]
    assert row["log_gain"] == gains["log_gain"].item() and len(rows) == 640
    assert rows["recipe"].nunique() == 20 and not rows["model"].str.endswith("-again").any()


def test_gains_on_prompts_of_others_are_compared_by_recipe() -> None:
    rows = third.select_ends(with_third(made(STRONG, elsewhere=-0.2)))
    assert third.compare_prompt_sets(rows)["difference"].to_numpy() == pytest.approx([0.2] * 4)
    rng, columns = np.random.default_rng(1), list(third.ON.values())
    rows[columns] += rng.normal(0, 0.1, (len(rows), len(columns)))
    others = third.compare_prompt_sets(rows).set_index("corpus")
    assert list(others.index) == list(rows["trained_on"].unique())
    for corpus, group in rows.groupby("trained_on"):
        elsewhere = group[[third.ON[name] for name in third.CORPORA if name != corpus]].to_numpy()
        by_recipe = (
            (group["log_gain"] - elsewhere.mean(axis=1)).groupby(group["recipe"]).mean().to_numpy()
        )
        test = stats.ttest_1samp(by_recipe, 0)
        expected = [
            group["log_gain"].mean(),
            elsewhere.mean(),
            by_recipe.mean(),
            *test.confidence_interval(),
        ]
        expected += [test.pvalue, by_recipe.min(), by_recipe.max()]
        assert others.loc[corpus].drop("words").tolist() == pytest.approx(expected), corpus


def test_ratios_are_means_of_logs_by_precision_over_corpora_that_have_language() -> None:
    """By hand: one corpus at a time, weights held fixed while each recipe is left out, t over
    recipes."""
    rows = third.select_ends(study(list_worlds()[2]))
    quantity = build_ratio_test(SHAPE)(rows).quantities[OVER_SIZE]
    y, x, corpora = build_table(rows[rows["trained_on"] != "shuffled"])
    assert corpora == ["code", "english", "synthetic"]

    def log_ratios(kept: np.ndarray) -> np.ndarray:
        return np.log(
            [estimate_ratios(y[[c]][:, kept], x)["shape / size"].estimate for c in range(3)]
        )

    n = y.shape[1]
    left = np.array([log_ratios(np.delete(np.arange(n), r)) for r in range(n)])
    weights = 1 / left.var(axis=0)
    weights /= weights.sum()
    mean, parts = weights @ log_ratios(np.arange(n)), left @ weights
    half = stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) * parts.var())
    assert [quantity.value, quantity.lower, quantity.upper] == pytest.approx(
        np.exp([mean, mean - half, mean + half])
    )


def test_what_shuffled_english_does_moves_no_ratio() -> None:
    rows = third.select_ends(study(list_worlds()[2]))
    loud = rows.assign(
        log_gain=rows["log_gain"] * np.where(rows["trained_on"] == "shuffled", 5.0, 1.0)
    )
    assert build_ratio_test(SHAPE)(loud).quantities == build_ratio_test(SHAPE)(rows).quantities


def test_slopes_in_two_codings_are_one_plane() -> None:
    """d y/d log L at one width is the slope on log L/d plus that on log N."""
    rows = third.select_ends(study(list_worlds()[2]))
    at = {term: third.fit_recipe_slopes(rows, term)[0] for term in third.TERMS}
    assert at["log_L"] == pytest.approx(at["log_shape"] + at["log_N"])


def test_one_mean_in_all_columns_is_tested_as_hotelling_does() -> None:
    """Of two columns it is the paired t test; unlike means are found."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=(12, 2))
    f, df, rest, p = third_tests.run_hotelling(y)
    t = stats.ttest_rel(y[:, 0], y[:, 1])
    assert (
        (df, rest) == (1, 11)
        and f == pytest.approx(t.statistic**2)
        and p == pytest.approx(t.pvalue)
    )
    draws = [
        third_tests.run_hotelling(rng.normal(size=(20, 4)) * [1, 2, 3, 4] + 5)[3]
        for _ in range(400)
    ]
    assert stats.kstest(draws, "uniform").pvalue > 0.001
    assert third_tests.run_hotelling(rng.normal([0, 0, 0, 3], 1, (20, 4)))[3] < 1e-4


def test_worlds_at_the_edge_lie_on_it() -> None:
    for name in (RECIPE, SHAPE, ALIKE):
        family = build_worlds(name, NAMES[name])
        assert family.claimed.values[name] > THRESHOLDS[name]
        for point in family.hostile():
            world = family.build_world("null", **point)
            assert "at the boundary" in world.words
            assert not any(
                side.statement().holds(world.large)
                for side in (build_rule(name).supported, build_rule(name).against)
            )
    rows = third.select_ends(study(STRONG))
    edge = build_worlds(ALIKE, SHARED).build_world(
        "null", residual=0.02, slopes=0.0, tails=0.0, unlike=3.0
    )
    rng = np.random.default_rng(1)
    shares = [
        build_ratio_test(ALIKE)(edge.change(rows, rng)).quantities[SHARED].value for _ in range(200)
    ]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.04)


def test_tables_are_read_as_the_trainings_write_them(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "nursery" / "third"
    write(made(STRONG), folder)
    monkeypatch.setattr(tables_that_ship, "find_shipped", lambda _: tmp_path)
    assert len(third.select_ends(Evidence())) == 640
    (folder / "read" / "gains.parquet").write_bytes(b"")
    with pytest.raises(Exception, match="a table of the nursery cannot be read"):
        third.select_ends(Evidence())
