"""C11: two flips are enough against it, one is not, many pairs without one support it, and what
turns the magnitude."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, by_rules_alone, judged, of

from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.planning.candidates import planned_evidence, planned_tables, read_candidates
from thermostats.studies.delia2026.tuned_pairs import build_pairs, build_penultimate_pairs


@pytest.mark.parametrize(
    ("flip", "verdict"), [(["gemma-7b-it"], OPEN), (["gemma-7b-it", "3.1-8B-Instruct"], NO)]
)
def test_two_flips_are_enough_against_it(flip: list[str], verdict: str) -> None:
    flipped = altered(
        layers=lambda f: f.assign(gain_block=f["gain_block"] * np.where(any_of(flip)(f), 0.5, 1))
    )
    assert judged(by_rules_alone("c11"), flipped, "sign")["sign"].verdict == verdict


def any_of(models: list[str]) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda f: np.logical_or.reduce([of(model, "twin")(f) for model in models])


@pytest.mark.parametrize(("pairs", "verdict"), [(36, YES), (35, OPEN), (2, OPEN)])
def test_many_pairs_without_a_flip_support_it(pairs: int, verdict: str) -> None:
    c11 = analysis("c11")
    rows = pd.DataFrame({"model_id": range(pairs), "heritage": "lab", "flips": False})
    assert c11.CANNOT.verdict(c11.FLIPPED(rows)) == verdict
    assert c11.CANNOT.verdict(c11.FLIPPED(rows.assign(flips=rows.index == 0))) == OPEN
    assert c11.CANNOT.verdict(c11.FLIPPED(rows.assign(flips=rows.index < 2))) == NO


@pytest.mark.parametrize(
    ("change", "spread", "verdict"),
    [(0.5, 0.01, YES), (1.0, 0.001, NO), (1.1, 0.2, OPEN)],
    ids=["half", "none", "?"],
)
def test_the_magnitude_is_judged_over_categories_of_prompts(
    change: float, spread: float, verdict: str
) -> None:
    c11 = analysis("c11")
    wobble = np.tile([-1.0, -0.5, 0.0, 0.5, 1.0], 5)  # the same in every prompt of a category
    categories = np.tile(list("abcde"), 5)
    rows = pd.DataFrame({"model_id": "m", "heritage": "lab", "category": categories, "pairs": 2})
    rule = next(q.primary for q in c11.CLAIM.questions if q.name == "magnitude")
    assert (
        rule.verdict(c11.CHANGES(rows.assign(log_ratio=np.log(change) + spread * wobble)))
        == verdict
    )


def test_pairs_known_by_the_penultimate_gain_count_where_one_source_has_both() -> None:
    """Tuned by hand: a pair of one source that crosses 1 clearly, one whose interval holds 1, one
    of two sources."""
    facts = {
        "prompt_set": "core",
        "heritage": "lab",
        "revision": "main",
        "n_prompts": 25.0,
        "penultimate_gain_sd": 0.05,
    }
    models = [
        ("a", "base", "", "one", 0.9),
        ("a-it", "instruct", "a", "one", 1.1),
        ("b", "base", "", "one", 0.99),
        ("b-it", "instruct", "b", "one", 1.1),
        ("c", "base", "", "one", 0.9),
        ("c-it", "instruct", "c", "other", 1.1),
    ]
    rows = pd.DataFrame(
        models, columns=["model_id", "variant", "parent", "source", "penultimate_gain"]
    ).assign(**facts)
    found = build_penultimate_pairs(SimpleNamespace(table=lambda _: rows))
    assert list(found["instruct"]) == ["a-it", "b-it"] and list(found["flips"]) == [True, False]
    unstated = build_penultimate_pairs(
        SimpleNamespace(table=lambda _: rows.assign(penultimate_gain_sd=None))
    )
    assert list(unstated["flips"]) == [True, True]
    c11 = analysis("c11")
    assert (
        c11.CANNOT.verdict(c11.FLIPPED(found)) == OPEN
        and c11.CANNOT.verdict(c11.FLIPPED(unstated)) == NO
    )


def test_pairs_on_other_prompts_than_those_of_the_study_add_to_its_pairs() -> None:
    here = Evidence(None).named(POOLED)
    tuned = "h2oai/h2o-danube3-500m-chat"
    candidates = read_candidates(None)
    own = candidates[candidates["model_id"].isin([tuned, "h2oai/h2o-danube3-500m-base"])]
    more = planned_evidence(here, planned_tables(own, here, ["gains"]), own["model_id"])
    before = build_pairs(here, seed=1).set_index("instruct")
    after = build_pairs(more, seed=1).set_index("instruct")
    assert set(after.index) == {*before.index, tuned}
    pd.testing.assert_series_equal(after.loc[before.index, "ratio"], before["ratio"])
