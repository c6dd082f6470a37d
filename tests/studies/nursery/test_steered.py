"""How much seeds of the fourth study differ, by hand and as it ships."""

from __future__ import annotations

import pandas as pd
import pytest

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import AGAINST, OPEN
from thermostats.modelling.price_curves import JUDGED
from thermostats.studies.nursery.steered import (
    CROSSED,
    GAINS,
    count_crossed,
    judge_steered,
    limit_losses,
    pair_seeds,
)


def test_a_limit_is_the_median_over_pairs_of_the_models_own_corpus() -> None:
    rows = [("a", None, 3.0), ("a-again", "a", 3.1), ("b", None, 2.0), ("b-again", "b", 1.7)]
    rows += [("c", None, 1.0), ("c-again", "c", 1.5), ("d", None, 4.0)]
    models = pd.DataFrame(rows, columns=["model", "replicate_of", "loss"])
    models = models.assign(corpus="code", parent=None, learned=True)
    models.loc[models["model"] == "d", ["corpus", "learned"]] = ["english", False]
    assert pair_seeds(models)["difference"].tolist() == pytest.approx([0.1, 0.3, 0.5])
    limits = limit_losses(models)
    assert limits["nursery/fourth/a"] == pytest.approx(0.3)
    assert "nursery/fourth/d" not in limits


def test_of_the_study_eight_recipes_have_two_seeds_in_each_corpus() -> None:
    limits = limit_losses(Evidence().table("fourth_models"))
    assert len(limits) == 40
    by_corpus = {"code": set(), "english": set()}
    for model, limit in limits.items():
        by_corpus["code" if "-code-" in model else "english"].add(round(limit, 3))
    assert by_corpus == {"code": {0.1}, "english": {0.026}}


def test_cannot_is_refuted_in_both_directions_only() -> None:
    way = {"gain": "last_gain", "seeds": 2, "kl": 0.1, "ratio": 1.0, "ce_rise": 0.0, "limit": 0.1}
    down = {**way, "model_id": "nursery/fourth/c1-code", "direction": "down", "why": ""}
    up = {**down, "model_id": "nursery/fourth/c1-english", "direction": "up"}
    for met, verdict in (((True, True), AGAINST), ((True, False), OPEN), ((False, True), OPEN)):
        rows = [{**down, "meets": met[0]}, {**up, "meets": met[1]}]
        found = count_crossed(pd.DataFrame(rows, columns=JUDGED), GAINS[0])
        assert CROSSED.verdict(found) == verdict
        assert (found.n_models, found.n_groups) == (2, 1)
    assert count_crossed(pd.DataFrame(columns=JUDGED), GAINS[0]).n_models == 0


def test_models_that_are_judged_are_the_studys_first_seeds_and_two_others() -> None:
    evidence = Evidence()
    models = evidence.table("fourth_models")
    first = models.loc[models["parent"].isna() & models["replicate_of"].isna(), "model"]
    judged = judge_steered(evidence.named("intervened"))
    own = {f"nursery/fourth/{model}" for model in first}
    assert len(own) == 24
    assert set(judged["model_id"]) == own | {"karpathy/stories260K", "nursery/r03-1"}
    assert set(judged["gain"]) == {gain.id for gain in GAINS}
    assert (judged["seeds"] == 2).all()
