"""C05: what turns its verdicts, on made-up norms of published models and of models trained here."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, by_rules_alone
from altered import verdict as said
from simulated_studies import Trained

from thermostats.claims.result import TooFew
from thermostats.studies.nursery import load_shipped_table

c05 = by_rules_alone("c05")


def rows(sign: float, n: int = 9) -> pd.DataFrame:
    ratio = np.linspace(0.5, 8.0, n)
    gain = 1.0 + sign * 0.05 * (ratio - 4.0)
    return pd.DataFrame(
        {"ratio": ratio, "gain": gain, "model_id": [f"m{i}" for i in range(n)], "heritage": "lab"}
    )


@pytest.mark.parametrize(("sign", "verdict"), [(-1, YES), (1, NO)])
def test_the_rank_correlation_must_be_negative(sign: int, verdict: str) -> None:
    result = c05.judge_ratio(rows(sign), "made up")
    assert c05.NEGATIVE.verdict(result) == verdict and result.headline.value == pytest.approx(sign)


def test_an_interval_above_what_is_weak_speaks_against_it_and_four_models_decide_nothing() -> None:
    noise = pd.DataFrame(
        {"ratio": np.arange(1.0, 61), "gain": 1 + np.tile([0.1, -0.1, 0.2], 20), "heritage": "lab"}
    )
    noise = noise.assign(model_id=[f"m{i}" for i in noise.index])
    assert c05.NEGATIVE.verdict(c05.judge_ratio(noise, "made up")) == NO
    assert c05.NEGATIVE.verdict(c05.judge_ratio(noise.iloc[:6], "made up")) == OPEN
    assert not c05.judge_ratio(rows(-1, 4), "made up").quantities


@pytest.mark.parametrize(
    ("norms", "right", "verdict"),
    [
        ([20.0, 22.0, 2.0, 2.2], True, YES),
        ([20.0, 4.0, 2.0, 2.2], True, NO),
        ([20.0, 22.0, 0.9, 2.2], True, OPEN),  # one pair is too far apart, the labs' means are not
        ([50.0, 60.0, 2.0, 2.2], True, NO),
        ([20.0, 22.0, 2.0, 2.2], False, UNMEASURED),
    ],
)
def test_tenfold_is_asked_of_every_pair_and_refuted_by_the_means(
    norms: list[float], right: bool, verdict: str
) -> None:
    labs = ["EleutherAI", "EleutherAI", "Meta", "Meta"]
    rows = pd.DataFrame({"W_V": norms, "heritage": labs, "right_matrix": right, "model_id": "m"})
    result = c05.OF_LABS(c05.select_right_norms(rows))
    assert said(c05, "value_norm.labs", result) == verdict


def of_trained(**made: Any) -> list[Any]:
    tables = Trained(**made)
    return [c05.judge_recipes(tables, column, "made up") for column in ("ratio", "ratio_cut")]


@pytest.mark.parametrize(("elasticity", "verdict"), [(-0.3, YES), (0.3, NO)])
def test_the_slope_that_was_put_in_is_found_and_the_published_slicing_weakens_it(
    elasticity: float, verdict: str
) -> None:
    right, cut = of_trained(models=90, elasticity=elasticity, cut=20.0)
    assert c05.NEGATIVE.verdict(right) == verdict and right.n_groups <= 16
    assert abs(cut.headline.value) < abs(right.headline.value)
    assert right.words["off"].tolist() == pytest.approx([20] * len(right.words["off"]))


def test_pinned_gains_and_models_of_two_blocks_are_left_out_and_few_models_need_measurement() -> (
    None
):
    design = load_shipped_table()
    right, _ = of_trained(models=96, elasticity=-0.3)
    assert right.n_models == int(((design["norm"] != "post") & (design["n_layers"] >= 3)).sum())
    for models in (0, 20):
        with pytest.raises(TooFew):
            c05.judge_recipes(Trained(models=models), "ratio", "made up")


def rows_of_recipes(gains: list[int]) -> pd.DataFrame:
    """Eight models of each recipe, whose ratios and gains have levels and hardly differ within."""
    rows = pd.DataFrame(
        [(i, j) for i in range(len(gains)) for j in range(8)], columns=["recipe", "copy"]
    )
    gain = rows["recipe"].map(dict(enumerate(gains))) + 0.01 * rows["copy"]
    names = {"heritage": "r" + rows["recipe"].astype(str), "model_id": "m" + rows.index.astype(str)}
    return rows.assign(ratio=rows["recipe"] + 1 + 0.01 * rows["copy"], gain=gain, **names)


@pytest.mark.parametrize(
    ("gains", "verdict"), [([5, 4, 3, 2, 1, 0], YES), ([3, 5, 1, 4, 0, 2], OPEN)]
)
def test_recipes_are_the_units_of_models_trained_here(gains: list[int], verdict: str) -> None:
    """Over models both orders of six recipes would decide."""
    rows = rows_of_recipes(gains)
    assert c05.NEGATIVE.verdict(c05.RANKS(rows)) == YES
    found = c05.OF_RECIPES(rows)
    assert c05.NEGATIVE.verdict(found) == verdict and (found.n_models, found.n_groups) == (48, 6)
