"""Worlds have the sizes and the errors that they say."""

import numpy as np
import pandas as pd
import pytest

from thermostats.claims.noise import Errors, PromptErrors, Random
from thermostats.claims.worlds import (
    build_bound_worlds,
    build_cause_worlds,
    build_contrast_worlds,
    build_descent_worlds,
    build_level_worlds,
    build_part_worlds,
    build_shift_worlds,
    build_slope_worlds,
)

N = 4000
SIZES = ("claimed", "null")


def rows() -> pd.DataFrame:
    """Models of 400 labs, a quarter of them of a kind of its own."""
    rng = np.random.default_rng(1)
    made = pd.DataFrame(
        {"heritage": [f"lab{i % 400}" for i in range(N)], "kind": np.arange(N) % 4 == 0}
    )
    return made.assign(family=made["heritage"], x=rng.normal(size=N), bound=2.0, error=0.01)


def prompts(models: int = 40) -> pd.DataFrame:
    """Values of prompts in four categories by models of five labs."""
    cells = [
        (f"m{m}", f"lab{m % 5}", f"p{p}", f"c{p % 4}") for m in range(models) for p in range(24)
    ]
    made = pd.DataFrame(cells, columns=["model_id", "heritage", "prompt_id", "category"])
    return made.assign(x=np.random.default_rng(2).normal(size=len(made)))


@pytest.mark.parametrize("by", ["", "kind"])
def test_a_shift_is_of_all_rows_or_of_one_kind(by: str) -> None:
    worlds = build_shift_worlds("y", 3.0, 0.5, by)
    for size, shift in zip(SIZES, (3.0, 0.0), strict=True):
        made = worlds.build_world(size).change(rows(), np.random.default_rng(2))
        shifted = (
            made["y"][made[by]].median() - made["y"][~made[by]].median() if by else made["y"].mean()
        )
        assert shifted == pytest.approx(shift, abs=0.1)
    alike = worlds.build_world("null", between=0.6).change(rows(), np.random.default_rng(2))
    assert alike["y"].groupby(alike["heritage"]).mean().var() / alike["y"].var() > 0.5


def test_causes_have_the_shares_of_the_variance_that_the_world_says() -> None:
    models = rows().assign(shape=np.random.default_rng(6).normal(size=N))
    columns = {"size": ("x",), "form": ("shape",)}
    worlds = build_cause_worlds(
        "y", columns, {"size": 0.2, "form": 0.3}, {"form alone": {"form": 0.3}}
    )
    for size, shares in (
        ("claimed", (0.2, 0.3)),
        ("0.5", (0.1, 0.15)),
        ("null", (0, 0)),
        ("form alone", (0, 0.3)),
    ):
        made = worlds.build_world(size).change(models, np.random.default_rng(7))
        found = [np.corrcoef(made[column], made["y"])[0, 1] ** 2 for column in ("x", "shape")]
        assert found == pytest.approx(shares, abs=0.06)


def test_descent_has_a_share_of_the_variance() -> None:
    models = rows().assign(family="", model_id=[f"m{i}" for i in range(N)], log_n=np.arange(N))
    worlds = build_descent_worlds("y", 0.6, "log_n")
    for size, share in zip(SIZES, (0.2, 0.0), strict=True):  # a third of 0.6 lies between labs
        made = worlds.build_world(size).change(models, np.random.default_rng(8))
        within = made["y"].groupby(made["heritage"]).var().mean()
        assert 1 - within / made["y"].var() == pytest.approx(share, abs=0.05)


def test_outcomes_lie_below_the_bound_or_above_in_a_share() -> None:
    worlds = build_bound_worlds("y", "bound", "error", 0.25)
    for size, share in zip(SIZES, (0.0, 0.25), strict=True):
        above = worlds.build_world(size).change(rows(), np.random.default_rng(3))["y"] > 2.0
        assert above.mean() == pytest.approx(share, abs=0.05)


def test_shares_differ_between_one_kind_and_the_others() -> None:
    worlds = build_contrast_worlds("holds", "kind", (0.8, 0.0), (0.4,), "family")
    for size, shares in zip(SIZES, ([0.8, 0.0], [0.4, 0.4]), strict=True):
        share = (
            worlds.build_world(size)
            .change(rows(), np.random.default_rng(4))
            .groupby("kind")["holds"]
            .mean()
        )
        assert [share[True], share[False]] == pytest.approx(shares, abs=0.05)


def test_worlds_by_prompt_have_the_levels_and_slopes_that_they_say() -> None:
    levels = {f"m{m}": float(m % 2) for m in range(40)}
    worlds = build_level_worlds("y", levels, dict.fromkeys(levels, 0.5), sd=0.2)
    for size in SIZES:
        means = (
            worlds.build_world(size)
            .change(prompts(), np.random.default_rng(1))
            .groupby("model_id")["y"]
            .mean()
        )
        assert means.mean() == pytest.approx(0.5, abs=0.1) and (means.std() > 0.4) == (
            size == "claimed"
        )
    slopes = build_slope_worlds("y", "x", 0.6)
    for size, r in zip(SIZES, (0.6, 0.0), strict=True):
        made = slopes.build_world(size).change(prompts(), np.random.default_rng(1))
        within = made[["x", "y"]] - made.groupby("model_id")[["x", "y"]].transform("mean")
        assert within.corr().iloc[0, 1] == pytest.approx(r, abs=0.1)


def test_models_have_the_share_of_the_variance_that_the_world_says() -> None:
    worlds = build_part_worlds("y", 0.9, 0.5)
    for size, share in zip(SIZES, (0.9, 0.5), strict=True):
        found = []
        for seed in range(30):
            made = worlds.build_world(size).change(prompts(), np.random.default_rng(seed))
            found.append(1 - made.groupby("model_id")["y"].var().mean() / made["y"].var())
        assert np.median(found) == pytest.approx(share, abs=0.15)


def test_errors_are_correlated_and_uneven_as_they_say() -> None:
    line = pd.DataFrame({"heritage": np.arange(4000) % 400, "x": np.arange(4000.0)})
    (drawn,) = Errors("normal", along="x", ar=0.6, ratio=3.0).draw(
        line, Random(np.random.default_rng(1))
    )
    assert np.corrcoef(drawn[1:], drawn[:-1])[0, 1] == pytest.approx(0.6, abs=0.05)
    assert drawn[-400:].std() / drawn[:400].std() == pytest.approx(3.0, rel=0.25)
    assert np.square(drawn).mean() == pytest.approx(1.0, abs=0.1)
    (alike,) = Errors("normal", between=0.5).draw(line, Random(np.random.default_rng(2)))
    assert pd.Series(alike).groupby(line["heritage"]).mean().var() == pytest.approx(
        0.5 + 0.05, abs=0.1
    )
    words = Errors("normal", along="n_layers", ar=0.6, ratio=3.0).words
    assert words.endswith(
        "correlated at 0.6 between neighbours in depth, SD 3 times as large at the largest depth"
    )


@pytest.mark.parametrize("kind", ["normal", "t3", "lognormal", "one aberrant model"])
def test_studies_at_once_are_independent_and_of_variance_one(kind: str) -> None:
    drawn = Errors(kind).draw(rows().iloc[:40], Random(np.random.default_rng(3), 500))
    assert drawn.shape == (500, 40) and np.abs(np.corrcoef(drawn[:, 0], drawn[:, 20])[0, 1]) < 0.2
    assert np.median(drawn.std(axis=1)) == pytest.approx(1.0, abs=0.35)
    by_prompt = PromptErrors("normal", shared=0.5).draw(
        prompts(4), Random(np.random.default_rng(4), 400)
    )
    assert np.corrcoef(by_prompt[:, 0], by_prompt[:, 24])[0, 1] == pytest.approx(0.5, abs=0.1)
