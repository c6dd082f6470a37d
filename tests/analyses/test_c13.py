"""C13: the test of the rule with and without the norm, and the norm alone."""

import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, altered, analysis, by_rules_alone, judged, of
from altered import verdict as said

from thermostats.claims.result import Estimate, Result
from thermostats.modelling.classical.counts import estimate_proportion


@pytest.mark.parametrize(
    ("p", "right", "wrong", "verdict"), [(0.01, 9, 1, YES), (0.6, 3, 3, NO), (0.2, 5, 2, OPEN)]
)
def test_accuracy(p: float, right: int, wrong: int, verdict: str) -> None:
    counts = {"models put right": Estimate(right), "models put wrong": Estimate(wrong)}
    found = Result(quantities={"accuracy without the norm": Estimate(0.5, p=p), **counts})
    assert analysis("c13").RAISES.verdict(found) == verdict


def test_a_norm_that_hides_the_rule_supports_the_claim() -> None:
    models = altered().table("models").set_index("model_id")
    above = (models["n_heads"] / models["d_head"] >= 0.2).to_dict()

    def obey(frame: pd.DataFrame) -> pd.DataFrame:
        rows = of("", "high_rho")(frame)
        frame.loc[rows, "gain_block"] = (
            frame.loc[rows, "model_id"].map(above).map({True: 0.9, False: 1.1})
        )
        return frame

    def disobey(frame: pd.DataFrame) -> pd.DataFrame:
        rows = of("", "high_rho")(frame) & (frame["estimand"] == "normed_gain")
        frame.loc[rows, "value"] = (
            frame.loc[rows, "model_id"].map(above).map({True: 3.0, False: 0.3})
        )
        return frame

    found = judged(by_rules_alone("c13"), altered(layers=obey, summaries=disobey), "accuracy.hunt")[
        "accuracy.hunt"
    ]
    assert (found.verdict, found.headline.value) == (YES, 1.0)


@pytest.mark.parametrize(
    ("changed", "n", "verdict"), [(0, 8, OPEN), (8, 8, YES), (0, 40, NO), (4, 4, UNMEASURED)]
)
def test_the_norm_alone_is_judged_on_enough_models(changed: int, n: int, verdict: str) -> None:
    share = Estimate.build(estimate_proportion(changed, n))
    assert (
        said(
            analysis("c13"),
            "sign",
            Result(quantities={"share that changes sides": share}, n_models=n),
        )
        == verdict
    )
