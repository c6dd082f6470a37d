"""C10: the rule of a threshold, that on ranks, and the two named models."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, shipped

from thermostats.claims import levels
from thermostats.claims.evidence import Evidence
from thermostats.claims.question import convert_numpy
from thermostats.claims.result import AGAINST, SUPPORTED, Estimate, Result
from thermostats.studies.delia2026.stated_audits import score_density_rule


@pytest.mark.parametrize(
    ("above", "below", "verdict"),
    [(0.9, 1.1, YES), (1.1, 0.9, NO), (0.9, 0.9, NO)],
    ids=["as said", "reversed", "one"],
)
def test_threshold(above: float, below: float, verdict: str) -> None:
    c10, rho = analysis("c10"), np.linspace(0.05, 0.4, 14)
    rows = pd.DataFrame({"rho": rho, "gain": np.where(rho >= 0.18, above, below)})
    tried = [score_density_rule(rows, cut) for cut in (0.15, 0.2)]
    ends = [(one.estimate, one.lower, one.upper, one.majority, one.p_value) for one in tried]
    parts = ["accuracy", "accuracy_lower", "accuracy_upper"]
    table = pd.DataFrame(ends, columns=[*parts, "share of the commoner sign", "p"])
    assert c10.BETTER.verdict(Result(rows={c10.ENDS: table})) == verdict


@pytest.mark.parametrize(("upper", "verdict"), [(0.65, NO), (0.75, OPEN)])
def test_a_rule_that_only_looks_worse_than_guessing_is_not_refuted(
    upper: float, verdict: str
) -> None:
    """The correlation on the same models is open: what is not clear may not be said of the
    threshold either."""
    c10 = analysis("c10")
    ends = {
        "accuracy": [0.36],
        "accuracy_lower": [0.1],
        "accuracy_upper": [upper],
        c10.COMMONER: [0.71],
        "p": [0.9],
    }
    assert c10.BETTER.verdict(Result(rows={c10.ENDS: pd.DataFrame(ends)})) == verdict
    words = c10.CLAIM.answer(NO)
    assert "threshold" in words and "does not predict" not in words


@pytest.mark.parametrize(
    ("r", "lower", "p", "verdict"),
    [(-0.9, -0.99, 0.01, YES), (0.9, 0.5, 0.01, NO), (0.1, -0.2, 0.5, NO), (0.0, -0.5, 0.9, OPEN)],
)
def test_association(r: float, lower: float, p: float, verdict: str) -> None:
    found = Result(quantities={"rank correlation": Estimate(r, lower, 1.0, p=p)})
    assert analysis("c10").FALLS.verdict(found) == verdict


@pytest.mark.parametrize(("r", "verdict"), [(-1.0, YES), (1.0, NO)])
def test_the_rule_on_other_families_reads_rows_alone(r: float, verdict: str) -> None:
    c10 = analysis("c10")
    rows = pd.concat([c10.select_outside(altered().named("published"))] * 4, ignore_index=True)
    rows["log_gain"] = 0.1 * r * (rows["dense"] - 0.5)
    assert c10.BETTER.verdict(c10.BY_RULE(rows)) == verdict
    once = rows.head(14).assign(
        log_gain=lambda f: f["log_gain"].where(f.index >= 3, -f["log_gain"])
    )
    assert c10.BETTER.verdict(c10.BY_RULE(once)) == (OPEN if r < 0 else NO)


def test_the_named_pair_is_of_one_lab() -> None:
    """Which is why it contradicts C03, as both pages say."""
    models = shipped().table("models", model_id=list(analysis("c10").LEVELS))
    assert set(models["heritage"]) == {"EleutherAI"} and models["model_id"].nunique() == 2


def test_noisy_labs_weaken_the_correlation_that_counts_among_other_families() -> None:
    """The side “not supported” was judged in worlds whose correlation is −.14, not the −.304 that
    they were said to have."""
    asked = next(one for one in analysis("c10").CLAIM.questions if one.id == "C10.density.others")
    _, trial = asked.require_trial()
    assert trial.worlds is not None
    rows = convert_numpy(trial.read_rows(Evidence().named("published"), asked.over))
    noisy = {"kind": "small noisy labs", "ar": 0.4738, "ratio": 2.561}
    held = levels.count_truths(asked, rows, trial.worlds.build_world("0.453125", **noisy))
    assert held[AGAINST] >= levels.MOSTLY
    plain = levels.count_truths(asked, rows, trial.worlds.build_world())
    assert plain == {SUPPORTED: levels.SAMPLES, AGAINST: 0}
