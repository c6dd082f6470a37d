"""C22: profiles that lose at every block support it, profiles that lose at the last one do not."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from altered import (
    NO,
    OPEN,
    UNMEASURED,
    YES,
    altered,
    analysis,
    by_rules_alone,
    judged,
    of,
    shipped,
    untried,
    verdict,
)

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Result
from thermostats.claims.rule import V

LAB = "EleutherAI"


def losing(blocks: str) -> Evidence:
    """The shipped gains made 1.05, of EleutherAI .98 at all blocks, at the penultimate one or at
    none."""
    layers = shipped().table("models")[["model_id", "n_layers"]].drop_duplicates("model_id")

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        rng = np.random.default_rng(1)
        depth = frame["model_id"].map(layers.set_index("model_id")["n_layers"])
        there = {"all": depth > 0, "penultimate": frame["layer"] == depth - 1, "none": depth < 0}[
            blocks
        ]
        loses = frame["model_id"].str.startswith(LAB) & there
        return frame.assign(
            gain_block=np.where(loses, 0.98, 1.05) + rng.uniform(-0.01, 0.01, len(frame))
        )

    return altered(layers=change)


@pytest.mark.parametrize(
    ("blocks", "model", "labs", "end"),
    [("all", YES, YES, YES), ("penultimate", NO, NO, NO), ("none", UNMEASURED, NO, OPEN)],
)
def test_profiles_decide(blocks: str, model: str, labs: str, end: str) -> None:
    tables = losing(blocks)
    c22 = untried(by_rules_alone("c22"))
    found = judged(c22, tables)
    assert found["every_layer"].verdict == labs
    assert found["from_the_end"].verdict == end
    assert found["dampening"].verdict == model
    if blocks != "none":
        assert found["from_the_end"].headline.value == {"all": 10, "penultimate": 1}[blocks]


def test_gains_of_a_block_are_those_of_the_tables() -> None:
    """GPT-Neo 125M, counted by hand from its file: blocks 2 to 11, of which three lie below 1."""
    c22 = analysis("c22")
    rows = c22.load_block_gains(shipped().named("published"))
    own = rows[rows["model_id"] == "EleutherAI/gpt-neo-125m"].sort_values("layer")
    assert own["layer"].tolist() == list(range(2, 12))
    runs = shipped().table("runs")
    (run,) = runs.loc[of("gpt-neo-125m", "high_rho")(runs), "run_id"]
    layers = shipped().table("layers", position="last")
    known = layers[(layers["run_id"] == run) & layers["layer"].between(2, 11)].sort_values("layer")[
        "gain_block"
    ]
    assert np.exp(own["log_gain"]).tolist() == pytest.approx(known.astype(float).tolist())
    assert int((known < 1).sum()) == int((own["log_gain"] < 0).sum()) == 3


@pytest.mark.parametrize("true", [1, 4, 10])
def test_the_step_is_the_one_of_least_squares(true: int) -> None:
    """By brute force over all steps."""
    c22, rng = analysis("c22"), np.random.default_rng(true)
    profile = np.where(np.arange(10) < true, -0.1, 0.0) + rng.normal(0, 0.02, 10)
    squares = [
        np.square(profile - np.where(np.arange(10) < k, profile[:k].mean(), 0)).sum()
        for k in range(1, 11)
    ]
    assert c22.find_step(profile) == np.argmin(squares) + 1
    assert abs(c22.find_step(profile) - true) <= 1


def study(c22: Any, part: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"model_id": range(24), "family": [f"f{i % 8}" for i in range(24)]})
    rows = rows.assign(focal=rows["family"].isin(["f0", "f1", "f2"]), heritage=rows["family"])
    lowered = -0.1 * rows["focal"].to_numpy(float)
    blocks = {
        name: lowered * (part if at else 1.0) + rng.normal(0, 0.01, 24)
        for at, name in enumerate(c22.AT)
    }
    return rows.assign(**blocks)


@pytest.mark.parametrize(("part", "expected", "blocks"), [(1.0, YES, 10), (0.0, NO, 1)])
def test_known_profiles_are_recovered(part: float, expected: str, blocks: int) -> None:
    c22 = analysis("c22")
    result = c22.DISTANCE(study(c22, part, 3))
    assert verdict(c22, "from_the_end", result) == expected
    assert result.quantities["blocks from the end"].value == blocks
    assert result.quantities["earlier blocks"].value == pytest.approx(0.05 - 0.1 * part, abs=0.01)


def test_many_studies_have_what_single_ones_have() -> None:
    c22 = analysis("c22")
    design = study(c22, 0.5, 1)
    studies = [study(c22, 0.5, seed) for seed in range(4)]
    outcomes = {name: np.stack([each[name] for each in studies]) for name in c22.AT}
    many = Result(quantities=c22.DISTANCE.many(design, outcomes))
    for place, each in enumerate(studies):
        single = c22.DISTANCE(each)
        for part in (V("earlier blocks"), V("earlier blocks").lower, V("earlier blocks").upper):
            assert part.read_number(many)[place] == pytest.approx(part.read_number(single))


@pytest.mark.parametrize("true", [1, 5, 10])
def test_the_interval_of_the_number_of_blocks_holds_the_true_one(true: int) -> None:
    """Families that differ by as much as models do: 60 studies, of which 95% would be 57."""
    c22, held = analysis("c22"), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = study(c22, 1.0, seed)
        of_family = rng.normal(0, 0.02, (8, len(c22.AT)))[rows["family"].str[1:].astype(int)]
        lowered = np.outer(rows["focal"], np.where(np.arange(len(c22.AT)) < true, -0.08, 0.0))
        blocks = pd.DataFrame(
            lowered + of_family + rng.normal(0, 0.03, lowered.shape), columns=list(c22.AT)
        )
        depth = c22.estimate_depth(rows.assign(**blocks))
        held += depth.lower <= true <= depth.upper
    assert held >= 54
