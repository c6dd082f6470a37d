"""What hangs on one source, labs that one source alone measured, and columns that a set lacks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd
import pytest
from conftest import shipped_tables

from thermostats.claims.claim import (
    EXTERNAL,
    POOLED,
    PUBLISHED,
    Estimate,
    Evidence,
    Result,
    Trial,
    Views,
)
from thermostats.claims.evidence import READS, describe_coincidence, find_lacking, list_lab_sources
from thermostats.claims.judge import describe_settling, find_decisive_source, repeat_question, weigh
from thermostats.claims.question import Question
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, Reason
from thermostats.claims.rule import NEAR, Above, Below


@dataclass
class Rows:
    """Rows by source in the place of evidence."""

    frame: pd.DataFrame

    def exclude_source(self, source: str) -> Rows:
        return Rows(self.frame[self.frame["source"] != source])

    def sources(self, models: set[str]) -> list[str]:
        return sorted(set(self.frame.loc[self.frame["model_id"].isin(models), "source"]))


def study(**gains: list[float]) -> Rows:
    """Gains of models by source; models have the same names in every source."""
    rows = [(f"m{k}", source, x) for source, values in gains.items() for k, x in enumerate(values)]
    return Rows(pd.DataFrame(rows, columns=["model_id", "source", "gain"]).assign(heritage="a"))


def mean(rows: pd.DataFrame) -> Result:
    """A mean that is always a tenth of its interval's half away from either end."""
    value = float(rows["gain"].mean())
    return Result.build(rows, {"mean": Estimate(value, value - 0.1, value + 0.1)})


QUESTION = Question(
    "U01.one",
    "one",
    None,
    Result,
    primary=Above("mean", 0),
    trial=Trial(lambda rows: rows.frame, mean, ""),
)
LEAST = Views(models=2)


def hanging(rows: Rows, least: Views = LEAST) -> str:
    return find_decisive_source(QUESTION, rows, rows.frame, SUPPORTED, least, NEAR).unit


def test_a_verdict_that_falls_without_one_source_hangs_on_it() -> None:
    assert hanging(study(x=[9.0, 9.0], y=[-1.0, -2.0], z=[-1.0, 0.5])) == "x"
    assert hanging(study(x=[9.0, 9.0], y=[1.0, 2.0])) == ""


def test_nothing_is_known_of_a_source_without_which_there_are_too_few_rows() -> None:
    rows = study(x=[9.0, 9.0], y=[-1.0])
    assert hanging(rows) == "" and hanging(rows, Views(models=1)) == "x"


def test_a_set_of_one_source_hangs_on_none() -> None:
    assert hanging(study(x=[9.0, 9.0]), Views(models=0)) == ""


def test_a_counterexample_stands_without_its_source() -> None:
    rows = study(x=[-9.0, -9.0], y=[1.0, 2.0])
    by_lab = replace(
        QUESTION, trial=Trial(lambda own: own.frame, mean, "heritage"), primary=Below("mean", 0)
    )
    one = replace(by_lab, trial=QUESTION.trial, primary=by_lab.primary)
    assert find_decisive_source(by_lab, rows, rows.frame, SUPPORTED, LEAST, NEAR).unit == "x"
    against = replace(one, primary=Above("mean", 0))
    assert not find_decisive_source(against, rows, rows.frame, AGAINST, LEAST, NEAR).unit
    with_units = replace(against, trial=by_lab.trial)
    assert find_decisive_source(with_units, rows, rows.frame, AGAINST, LEAST, NEAR).unit == "x"


def test_a_verdict_that_hangs_on_one_source_is_open_and_says_so() -> None:
    rows = study(x=[9.0, 9.0], y=[-1.0, -2.0], z=[-1.0, 0.5])
    found = weigh(QUESTION, rows, mean(rows.frame), rows.frame, LEAST)  # type: ignore[arg-type]
    assert (found.verdict, found.reason, found.strength.leans) == (
        OPEN,
        Reason.ONE_SOURCE,
        SUPPORTED,
    )
    assert describe_settling(QUESTION, found).startswith("Without the rows of the source x")


def test_the_level_of_a_verdict_that_hangs_on_one_source_is_that_without_it() -> None:
    """A quarter of it, beyond the limit that the table has beside it."""
    rows = study(x=[9.0, 9.0], y=[-1.0, -2.0], z=[-1.0, 0.5])
    at = weigh(QUESTION, rows, mean(rows.frame), rows.frame, LEAST).strength  # type: ignore[arg-type]
    assert at.level is not None and at.full_level is not None
    assert at.full_level < 0.05 < at.level and at.unit == "x"


@pytest.fixture(scope="module")
def shipped() -> Evidence:
    return shipped_tables()


def test_rows_of_a_source_are_left_out_and_the_whole_set_is_remembered_alone(
    shipped: Evidence,
) -> None:
    pooled = shipped.named(POOLED)
    every = set(pooled.table("runs")["source"])
    assert {"logos-in-layers", "buk81-removed"} <= every
    kept = dict(pooled.selections)
    rest = pooled.exclude_source("logos-in-layers")
    assert set(rest.table("runs")["source"]) == every - {"logos-in-layers"}
    assert set(pooled.exclude_source(PUBLISHED).table("runs")["source"]) == {
        source for source in every if not source.endswith((".json", ".csv"))
    }
    assert pooled.selections == kept and pooled.changed(kept) is False


def test_labs_of_one_source_are_named_from_the_rows(shipped: Evidence) -> None:
    pooled, models = (
        shipped.named(POOLED),
        {"01-ai/Yi-34B", "mistralai/Mistral-7B-v0.1", "google/gemma-2-27b"},
    )
    assert list_lab_sources(pooled, models).to_dict() == {
        "01.AI": {"logos-in-layers"},
        "Google": {"logos-in-layers"},
        "Mistral AI": {"logos-in-layers", PUBLISHED, "buk81-removed"} - {"buk81-removed"},
    }
    said = describe_coincidence(pooled, models)
    assert said.startswith(
        "In this set every new lab comes from one source: 01.AI and Google from logos-in-layers."
    )
    assert (
        describe_coincidence(shipped.named(PUBLISHED), models)
        == ""
        == describe_coincidence(pooled, {"mistralai/Mistral-7B-v0.1"})
    )
    said = describe_coincidence(shipped.named(EXTERNAL), {"01-ai/Yi-34B", "openai-community/gpt2"})
    assert said.startswith(
        "In this set 1 of 2 labs was measured by one source alone: 01.AI by logos-in-layers."
    )


def test_columns_that_a_set_lacks_are_named(shipped: Evidence) -> None:
    external = shipped.named(EXTERNAL)
    assert find_lacking(external, list(READS.values())) == ["outputs.entropy", "attention.trace"]
    assert find_lacking(external, ["summaries.normed_gain", "layers.gain_mlp"]) == [
        "layers.gain_mlp"
    ]
    trial = Trial(lambda evidence: evidence.table("features").iloc[:0], mean, "")
    question = replace(QUESTION, trial=trial, views=LEAST)
    assert (
        "no values of attention.trace"
        in repeat_question(question, external, measures=["attention"]).criterion.settles
    )
