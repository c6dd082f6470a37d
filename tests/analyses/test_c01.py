"""C01: the verdict follows the gains."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, by_rules_alone, judged, shipped

from thermostats.claims.operating import judged as judged_rows
from thermostats.formatting import comparison
from thermostats.studies.delia2026 import audit
from thermostats.studies.delia2026.gains import NAMED_GAINS


def test_the_text_has_the_figures_of_density_in_place_of_depth() -> None:
    c01, tables = analysis("c01"), altered().named("published")
    figures = audit.depth(tables, c01.models(tables), seed=c01.SEED)
    rows = comparison(figures.published, figures.reproduced)
    assert len(rows) == 22
    assert {row.name for row in rows if not row.agrees} == {"r of the text", "p of the text"}
    assert f"{figures.reproduced['r with ρ in place of depth']:.2f}" == "-0.81"
    assert {c01.FALLS.verdict(c01.by_depth(c01.outcomes(tables, gain))) for gain in NAMED_GAINS} == {YES}


@pytest.mark.parametrize(("gains", "verdict"), [([0.5, 0.02], NO), ([0.9, 0.0], OPEN)], ids=["rising", "irregular"])
def test_verdict_follows_the_gains(gains: list[float], verdict: str) -> None:
    def changed(layers: pd.DataFrame) -> pd.DataFrame:
        last = layers.groupby("run_id")["layer"].transform("max")
        irregular = 0.1 * (last.astype(float) % 5) * (gains[1] == 0)
        value = gains[0] + gains[1] * last + irregular
        return layers.assign(gain_block=layers["gain_block"].where(layers["layer"] < last, value))

    c01 = analysis("c01")
    assert (
        c01.FALLS.verdict(c01.by_depth(c01.outcomes(altered(layers=changed).named("published"), NAMED_GAINS[0])))
        == verdict
    )


def test_shallow_models_carry_it_and_size_adds_to_depth() -> None:
    found = judged(by_rules_alone("c01"), shipped(), "depth.penultimate_gain")["depth.penultimate_gain"]
    assert (found.verdict, found.reason) == (OPEN, "the rule errs too often")
    notes = " ".join(found.notes)
    assert (
        "The 3 shallow models carry the correlation: among the 5 models of at least 24 layers r = −0.28 (p = 0.64)"
        in notes
    )
    c01 = analysis("c01")
    every, bare = c01.depth_and_size(c01.models(shipped().named("published"))).values()
    assert [round(every[term].p_value, 4) for term in ("depth", "size")] == [0.0006, 0.0061]
    assert [round(bare[term].p_value, 4) for term in ("depth", "size")] == [0.0013, 0.0119]
    assert round(every["size"].r_squared, 2) == 0.96 and every["size"].estimate > 0
    assert "all weights p = 0.0061 (R² 0.96)" in notes and "non-embedding weights p = 0.012" in notes


@pytest.mark.parametrize(("first", "slope", "verdict"), [(6, 0.0, OPEN), (29, -0.02, YES)])
def test_a_correlation_of_one_model_is_left_open(first: int, slope: float, verdict: str) -> None:
    """By the correlation alone both fall, p at most 0.05."""
    (question, *_) = analysis("c01").CLAIM.questions
    rows = pd.DataFrame({"n_layers": [first, *range(30, 54)], "model_id": [f"m{i}" for i in range(25)], "family": "f"})
    gains = slope * (rows["n_layers"] - 30) + 0.01 * np.cos(3 * rows.index)
    rows = rows.assign(heritage="lab", outcome=gains.where(rows.index > 0, 1.5))
    assert question.primary.verdict(question.trial.test(rows)) == YES
    assert judged_rows(question.primary, question.trial, rows)[0] == verdict
