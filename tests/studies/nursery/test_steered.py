"""How much seeds of the fourth study differ, by hand and as it ships."""

from __future__ import annotations

import pandas as pd
import pytest

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery.steered import limit_losses, pair_seeds


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
