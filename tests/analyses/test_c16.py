"""C16: what turns its verdicts, on the study's maps and on made-up ones of models trained here."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, altered, by_rules_alone, judged, untried

from thermostats.tables.schemas import NURSERY

STUDY = ("contraction.relative", "contraction.absolute")


def maps(before: float, after: float, model: str = "m") -> pd.DataFrame:
    """Ten layers, the fifth being L* by the smallest contraction ratio and by the steepest
    trace."""
    layers = np.arange(1, 11)
    norm = np.where(layers < 5, before, after)
    return pd.DataFrame(
        {
            "model_id": model,
            "heritage": "r01",
            "layer": layers,
            "head": "",
            "variant": "exact",
            "prompt_id": "p",
            "operator_norm": norm,
            "contraction_ratio": np.where(layers == 5, 0.1, 0.2),
            "trace": norm,
        }
    )


def trained(monkeypatch: pytest.MonkeyPatch, shapes: list[tuple[float, float]]) -> str:
    """Verdict where the models trained here have such maps, all other tables being as shipped."""
    c16, tables = by_rules_alone("c16"), altered()
    models = tables.table("models", source=NURSERY)["model_id"].unique()[: len(shapes)]
    rows = pd.concat([maps(*shape, model) for shape, model in zip(shapes, models, strict=True)])
    monkeypatch.setattr(c16, "select_end_rows", lambda *_: rows)
    found = judged(c16, tables, "contraction.trained_absolute")["contraction.trained_absolute"]
    assert found.sample.group == "recipe"
    return found.verdict


def test_one_model_that_shows_the_pattern_with_the_right_matrix_decides_nothing() -> None:
    def pattern(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame["operator_norm"].notna()
        frame.loc[rows, "operator_norm"] = np.where(frame.loc[rows, "layer"] < 11, 0.5, 2.0)
        return frame

    def right(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(estimand=frame["estimand"].str.replace("_published_thirds", ""))

    found = judged(
        untried(by_rules_alone("c16")), altered(attention=pattern, summaries=right), *STUDY
    )
    assert (found["contraction.relative"].verdict, found["contraction.absolute"].verdict) == (
        NO,
        OPEN,
    )


@pytest.mark.parametrize(
    ("shapes", "verdict"),
    [
        ([(0.5, 2.0)] * 24, YES),
        ([(2.0, 0.5)] * 24, NO),
        ([(0.5, 2.0), (0.5, 0.5)] * 12, OPEN),
        ([(0.5, 2.0)] * 23, UNMEASURED),
    ],
)
def test_trained_models_are_judged_by_their_share(
    shapes: list[tuple[float, float]], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trained(monkeypatch, shapes) == verdict
