"""C14: follows how often prompts agree; models measured here have findings of their own."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, by_rules_alone, judged, untried


def test_every_prompt_of_five_of_eight_models_is_not_on_one_side() -> None:
    """Two prompts on the other side make a counterexample, and two counterexamples refute it; one
    prompt makes none."""
    found = judged(by_rules_alone("c14"), altered(), "every_prompt.penultimate_gain")[
        "every_prompt.penultimate_gain"
    ]
    assert found.headline.value == 5 / 8 and "pythia-70m" in found.plain
    c14 = by_rules_alone("c14")
    for turned, models, verdict in ((1, 20, YES), (2, 1, OPEN), (2, 2, NO)):
        rows = pd.DataFrame(
            [(f"m{m}", p) for m in range(20) for p in range(25)], columns=["model_id", "prompt"]
        )
        against = (rows["prompt"] < turned) & (
            rows["model_id"].isin([f"m{m}" for m in range(models)])
        )
        rows = rows.assign(heritage="lab", log_gain=np.where(against, -0.1, 0.1))
        assert c14.ANY.verdict(c14.CROSSED(c14.count_sides(rows))) == verdict, (turned, models)


@pytest.mark.parametrize(("spread", "verdict"), [(0.001, YES), (0.5, NO)])
def test_follows_how_often_prompts_agree(spread: float, verdict: str) -> None:
    def gains(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame["prompt_id"] != ""
        frame.loc[rows, "gain_block"] = 1.02 + spread * np.random.default_rng(0).uniform(
            -1, 1, int(rows.sum())
        )
        return frame

    names = ("own_side.last_gain", "own_side.penultimate_gain")
    tables = altered(layers=gains)
    assert [
        one.verdict for one in judged(untried(by_rules_alone("c14")), tables, *names).values()
    ] == [verdict] * 2
