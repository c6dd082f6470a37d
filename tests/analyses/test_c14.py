"""C14: follows how often prompts agree; models measured here have findings of their own."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, altered, by_rules_alone, judged, measured_again

from thermostats.formatting import agrees, comparison


def test_on_the_published_tables() -> None:
    found = judged(by_rules_alone("c14"), altered())
    assert {name: one.verdict for name, one in found.items()} == {
        "every_prompt.penultimate_gain": NO,
        "every_prompt.last_gain": NO,
        "own_side.penultimate_gain": OPEN,
        "own_side.last_gain": OPEN,
        "variance": YES,
        "entropy": OPEN,
        "own_side.measured": OPEN,
        "variance.measured": OPEN,
    }
    rows = [row for one in found.values() for row in comparison(one.audit.published, one.audit.reproduced)]
    assert len(rows) >= 41 and all(row.agrees for row in rows)
    for name, printed in (("Pearson r", 0.2075225), ("Spearman p", 0.2847570)):
        assert agrees(name, printed, found["entropy"].reproduced[name])
    assert "entropy: inconclusive whatever it shows" in by_rules_alone("c14").CLAIM.stated().rule


def test_every_prompt_of_five_of_eight_models_is_not_on_one_side() -> None:
    """Two prompts on the other side make a counterexample, and two counterexamples refute it; one prompt makes none."""
    found = judged(by_rules_alone("c14"), altered(), "every_prompt.penultimate_gain")["every_prompt.penultimate_gain"]
    assert found.estimate == 5 / 8 and "pythia-70m" in found.plain
    c14 = by_rules_alone("c14")
    for turned, models, verdict in ((1, 20, YES), (2, 1, OPEN), (2, 2, NO)):
        rows = pd.DataFrame([(f"m{m}", p) for m in range(20) for p in range(25)], columns=["model_id", "prompt"])
        against = (rows["prompt"] < turned) & (rows["model_id"].isin([f"m{m}" for m in range(models)]))
        rows = rows.assign(heritage="lab", log_gain=np.where(against, -0.1, 0.1))
        assert c14.ANY.verdict(c14.crossing(c14.both_sides(rows))) == verdict, (turned, models)


@pytest.mark.parametrize(("spread", "verdict"), [(0.0, YES), (0.001, YES), (0.5, NO)])
def test_follows_how_often_prompts_agree(spread: float, verdict: str) -> None:
    """Over the eight models of one family the rule says "supported" falsely too often, and so does not say it."""

    def gains(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame["prompt_id"] != ""
        frame.loc[rows, "gain_block"] = 1.02 + spread * np.random.default_rng(0).uniform(-1, 1, int(rows.sum()))
        return frame

    names = ("own_side.last_gain", "own_side.penultimate_gain")
    found = judged(by_rules_alone("c14"), altered(layers=gains), *names)
    assert [found[name].verdict for name in names] == [verdict, OPEN if verdict == YES else verdict]
    assert ("too often to be believed" in found[names[1]].settles) == (verdict == YES)


def test_models_measured_here_have_findings_of_their_own() -> None:
    mine = altered(**dict.fromkeys(("runs", "layers", "summaries"), measured_again))
    found = judged(by_rules_alone("c14"), mine, "own_side.measured", "variance.measured")
    assert [one.sample.n_models for one in found.values()] == [4, 4] and found[
        "variance.measured"
    ].verdict != UNMEASURED
    assert all("measured here" in one.estimand and "measured here" in one.plain for one in found.values())
