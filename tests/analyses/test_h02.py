"""H02: models that one carrier makes alike, models that another does, and what is not stated."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis

from thermostats.claims.descent import inherited
from thermostats.claims.result import TooFew

H02 = analysis("h02")


def models(carrier: str, lam: float, seed: int = 0) -> pd.DataFrame:
    """48 models of 12 labs on 8 tokenizers and 10 corpora that cross the labs, of two families a lab; none is tuned."""
    rng, i = np.random.default_rng(seed), np.arange(48)
    labels = {"lab": i // 4, "family": i // 2, "tokenizer": (5 * i + i // 7) % 8, "corpus": (3 * i + i // 5) % 10}
    rows = pd.DataFrame(
        {
            "model_id": [f"m{k}" for k in i],
            "heritage": [f"lab{k}" for k in labels["lab"]],
            "family": [f"f{k}" for k in labels["family"]],
            "tokenizer": [f"t{k}" for k in labels["tokenizer"]],
            "corpus": [f"c{k}" for k in labels["corpus"]],
            "ancestor": [f"m{k}" for k in i],
            **{name: rng.normal(size=48) for name in H02.COLUMNS},
        }
    )
    own = labels.get(carrier, i)
    effect = rng.normal(size=48)[own]
    return rows.assign(log_gain=0.2 * (lam**0.5 * effect + (1 - lam) ** 0.5 * rng.normal(size=48)))


def verdict(rows: pd.DataFrame, carrier: str) -> str:
    return str(H02.CARRIES.verdict(H02.compared(rows, carrier)))


def test_the_carrier_is_found_and_a_rival_is_not() -> None:
    rows = models("tokenizer", 0.9)
    assert verdict(rows, "tokenizer") == YES and verdict(rows, "lab") == NO
    rows = models("lab", 0.9, seed=1)
    assert verdict(rows, "lab") == YES and verdict(rows, "corpus") == NO


def test_where_nothing_is_carried_nothing_is_said_to_carry() -> None:
    assert {verdict(models("none", 0.0, seed), name) for seed in range(4) for name in ("lab", "corpus")} <= {OPEN, NO}


def test_a_carrier_that_no_two_models_share_is_not_asked() -> None:
    pooled, gain = altered().named("pooled"), H02.GAIN
    assert H02.sharing(H02.carried(H02.rows_of("lab", pooled, gain))["parent"]) == 0
    with pytest.raises(TooFew):
        H02.rows_of("parent", pooled, gain)


def test_facts_of_a_tuned_model_are_those_of_the_nearest_ancestor_that_states_them() -> None:
    lines = [("child", "middle", ""), ("middle", "base", "code"), ("base", "", "web")]
    table = pd.DataFrame(lines, columns=["model_id", "parent", "corpus"]).assign(tokenizer="")
    known = inherited(SimpleNamespace(table=lambda name: table), ["child", "base", "unknown"])
    assert known["corpus"].tolist() == ["code", "web", ""] and known["ancestor"].tolist() == ["base", "base", "unknown"]
    rows = H02.models(altered().named("pooled"), "penultimate_gain").set_index("model_id")
    assert (
        rows.loc["Qwen/Qwen3-8B", "corpus"] == "qwen3" and rows.loc["Qwen/Qwen3-8B", "ancestor"] == "Qwen/Qwen3-8B-Base"
    )


def test_a_lab_and_a_corpus_that_go_together_are_named_and_neither_leads() -> None:
    rows = models("lab", 0.9, seed=1).assign(corpus=lambda t: t["heritage"])
    rivals = H02.compared(rows, "lab").rows[H02.RIVALS].set_index("rival")
    assert rivals.loc["corpus", "lead"] == 0 and verdict(rows, "lab") == OPEN
