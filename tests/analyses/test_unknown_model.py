"""Every claim with one unknown model of the user's, of which no more is stated than `join`
requires."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from altered import ROOT, by_rules_alone, shipped_by_rules_alone

import thermostats
from thermostats.claims.evidence import MEASURED, POOLED, Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.question import Question
from thermostats.claims.result import UNMEASURED, TooFew
from thermostats.tables.column_map import READ, is_optional
from thermostats.tables.schemas import TABLES

CLAIMS = sorted(path.name[:3] for path in (ROOT / "analyses").glob("*.py"))
NAME = "me/unknown"
REQUIRED = {"model_id": NAME, "n_layers": 6, "n_heads": 8, "d_model": 64, "n_params": 10**7}
REST = {
    "heritage": "Me",
    "family": "mine",
    "d_head": 8,
    "n_kv_heads": 8,
    "d_ff": 256,
    "n_params_nonembedding": 10**6,
}
REST |= {"norm_kind": "LayerNorm", "norm_place": "pre", "position_scheme": "rotary", "year": 2024}
GAINS = [9.0, 1.2, 1.1, 1.05, 1.04, 1.3]
PROMPTS = [f"p{number}" for number in range(4)]


def measured() -> Iterator[tuple[str, pd.DataFrame]]:
    """Rows of every kind that a claim reads of a model."""
    layers = pd.DataFrame({"layer": range(1, 7), "gain_block": GAINS, "position": "last"})
    by_prompt = [
        layers.assign(prompt_id=p, gain_block=layers["gain_block"] * (1 + k / 100))
        for k, p in enumerate(PROMPTS)
    ]
    yield "layers", pd.concat(by_prompt)
    yield (
        "summaries",
        pd.DataFrame(
            {"prompt_id": PROMPTS, "estimand": "normed_gain", "value": [1.4, 1.5, 1.6, 1.3]}
        ),
    )
    norms = [
        {"layer": n, "matrix": m, "head": "", "spectral_norm": 3.0 + n}
        for n in range(1, 7)
        for m in ("W_V", "W_O")
    ]
    yield "weights", pd.DataFrame(norms)
    found = {
        "definition": ["peak"],
        "trace_variant": "unstated",
        "layer": 3.0,
        "relative_depth": 0.5,
        "prompt_id": "",
    }
    yield "transitions", pd.DataFrame(found)
    yield (
        "outputs",
        pd.DataFrame(
            {"prompt_id": PROMPTS, "entropy": [2.0, 3.0, 2.5, 2.2], "top_probability": 0.3}
        ),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("own") / "meine Daten"
    (done,) = thermostats.join(pd.DataFrame([REQUIRED]), data=data)
    assert (
        all(name in done.unstated for name in READ) and f"thermostats set {NAME}" in done.unstated
    )
    for table, rows in measured():
        thermostats.join(rows.assign(model_id=NAME, source="mine"), table=table, data=data)
    return data


@pytest.fixture(scope="module")
def own(folder: Path) -> Evidence:
    """Tables with the model, and what shared functions compute of them, once."""
    return Evidence(folder)


def test_what_is_required_and_what_is_asked_for_are_all_columns_that_this_test_leaves_out() -> None:
    required = [name for name in TABLES["models"].columns if not is_optional("models", name)]
    assert sorted(required) == sorted(REQUIRED) and set(REST) == set(READ)


def unused(question: Question, evidence: Evidence) -> bool:
    """Whether the test of a question does not read the model, though its set has it and is enough
    for the test."""
    with suppress(TooFew):
        return question.trial is not None and NAME not in set(
            question.trial.read_rows(evidence, question.over)["model_id"]
        )
    return False


def by_set(findings: list[Finding]) -> dict[tuple[str, str], Finding]:
    return {(finding.id, finding.sample.evidence): finding for finding in findings}


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS)
def test_an_unknown_model_takes_no_verdict_away(claim: str, own: Evidence, tmp_path: Path) -> None:
    module = by_rules_alone(claim)
    without = by_set(shipped_by_rules_alone(claim))
    found = by_set(module.CLAIM.judge(own))
    assert without.keys() <= found.keys()
    assert all(found[key].verdict == UNMEASURED for key in found.keys() - without.keys()), (
        "sets that its rows alone are in"
    )
    other = {key for key, finding in without.items() if finding.verdict != found[key].verdict}
    if other:  # then it is in, and counts as it would with all that is stated of it
        data = tmp_path / "stated"
        thermostats.join(pd.DataFrame([REQUIRED | REST]), data=data)
        for table, rows in measured():
            thermostats.join(rows.assign(model_id=NAME, source="mine"), table=table, data=data)
        stated = by_set(module.CLAIM.judge(Evidence(data)))
        assert {key: found[key].verdict for key in other} == {
            key: stated[key].verdict for key in other
        }
    for question in module.CLAIM.questions:
        for name in (MEASURED, POOLED):
            finding = found.get((question.id, name))
            if (
                finding is not None
                and module.CLAIM.basis.measures
                and unused(question, own.named(name))
            ):
                assert any(NAME in note for note in finding.notes), (question.id, name)


@pytest.mark.slow
def test_the_row_left_out_is_named_with_the_line_that_brings_it_in(
    folder: Path, own: Evidence
) -> None:
    notes = [note for finding in by_rules_alone("c03").CLAIM.judge(own) for note in finding.notes]
    (line,) = {note for note in notes if NAME in note}
    assert f"thermostats set {NAME} heritage=LAB --data '{folder}'" in line
