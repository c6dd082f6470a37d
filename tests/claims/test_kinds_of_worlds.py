"""Worlds of shifts, bounds and contrasts have the sizes that they say."""

import numpy as np
import pandas as pd
import pytest

from thermostats.claims.noise import ERRORS
from thermostats.claims.worlds import (
    worlds_of_bound,
    worlds_of_contrast,
    worlds_of_line,
    worlds_of_path,
    worlds_of_shares,
    worlds_of_shift,
)
from thermostats.claims.worlds.lines import MOVED

N = 4000


def rows() -> pd.DataFrame:
    """Models of 400 labs, a quarter of them of a kind of its own."""
    rng = np.random.default_rng(1)
    made = pd.DataFrame({"heritage": [f"lab{i % 400}" for i in range(N)], "kind": np.arange(N) % 4 == 0})
    return made.assign(family=made["heritage"], x=rng.normal(size=N), bound=2.0, error=0.01)


@pytest.mark.parametrize("by", ["", "kind"])
def test_a_shift_is_of_all_rows_or_of_one_kind(by: str) -> None:
    for world in worlds_of_shift("y", 3.0, 0.5, by, "heritage"):
        made = world.change(rows(), np.random.default_rng(2))
        shifted = made["y"][made[by]].median() - made["y"][~made[by]].median() if by else made["y"].mean()
        assert shifted == pytest.approx(3.0 * world.holds, abs=0.1)
    assert made["y"].groupby(made["heritage"]).mean().var() / made["y"].var() > 0.4  # the last: levels of labs
    assert [world.declared for world in worlds_of_shift("y", 3.0, 0.5)] == [True] + [False] * len(ERRORS)


def test_a_line_may_have_a_world_of_levels() -> None:
    named = [world.id for world in worlds_of_line("y", "x", -0.5, "family")]
    assert named == [world.id for world in worlds_of_line("y", "x", -0.5)] + ["levels of family"]


def test_a_path_leads_through_the_mediator_or_past_it() -> None:
    for world in worlds_of_path("y", "x", "through", 0.5):
        made = world.change(rows(), np.random.default_rng(5))
        assert np.corrcoef(made["x"], made["through"])[0, 1] == pytest.approx(MOVED, abs=0.03)
        design = np.column_stack([made["through"], made["x"], np.ones(N)])
        slopes = np.linalg.lstsq(design, made["y"].to_numpy(), rcond=None)[0] / 0.2
        assert slopes[:2] == pytest.approx([0.5, 0.0] if world.holds else [0.0, 0.5], abs=0.12)


def test_causes_have_the_shares_of_the_variance_that_the_world_says() -> None:
    models = rows().assign(shape=np.random.default_rng(6).normal(size=N))
    causes = {"both": ({"size": 0.2, "form": 0.3}, True), "form alone": ({"form": 0.3}, False)}
    worlds = worlds_of_shares("y", {"size": ("x",), "form": ("shape",)}, causes, declared="both", kinds=("normal",))
    assert [(world.id, world.holds, world.declared) for world in worlds] == [
        *(("normal", False, False), ("both", True, True), ("form alone", False, False))
    ]
    for world in worlds[1:]:
        made = world.change(models, np.random.default_rng(7))
        shares = [np.corrcoef(made[column], made["y"])[0, 1] ** 2 for column in ("x", "shape")]
        assert shares == pytest.approx([0.2 * world.holds, 0.3], abs=0.06)


def test_outcomes_lie_below_the_bound_or_above_in_a_share() -> None:
    for world in worlds_of_bound("y", "bound", "error", 0.25):
        above = world.change(rows(), np.random.default_rng(3))["y"] > 2.0
        assert above.mean() == pytest.approx(0.0 if world.holds else 0.25, abs=0.05)


def test_shares_differ_between_one_kind_and_the_others() -> None:
    for world in worlds_of_contrast("holds", "kind", (0.8, 0.0), 0.4, "family"):
        share = world.change(rows(), np.random.default_rng(4)).groupby("kind")["holds"].mean()
        assert [share[True], share[False]] == pytest.approx([0.8, 0.0] if world.holds else [0.4, 0.4], abs=0.05)
