"""Questions put to sets of evidence beside the published rows: by the same rule, or with what they
need."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables

import thermostats
from thermostats.claims import run
from thermostats.claims.claim import Claim
from thermostats.claims.evidence import EXTERNAL, MEASURED, POOLED, PUBLISHED, SETS, Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.judge import repeat_question
from thermostats.claims.question import Question, Views
from thermostats.claims.result import UNMEASURED
from thermostats.claims.run import find_needs, load_claim
from thermostats.claims.study import list_scripts
from thermostats.errors import DataError, UsageError
from thermostats.tables import model_rows as model_rows_module
from thermostats.tables import store
from thermostats.tables.choices import MEASUREMENTS
from thermostats.tables.model_rows import model_rows
from thermostats.tables.schemas import NURSERY

CLAIMS = {
    name: load_claim(path)
    for name, path in list_scripts(store.find_shipped("analyses")).items()
    if name.startswith("C")
}
KEY = ["model_id", "revision"]


def asked(claim: Claim) -> list[Question]:
    return [question for question in claim.questions if question.views]


def view(question: Question, data: Path | None, name: str) -> Finding:
    return repeat_question(question, tables(data).named(name))


@cache
def tables(data: Path | None) -> Evidence:
    return Evidence(data)


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with gains of five models of one family and three of another, joined from one
    table."""
    folder = tmp_path_factory.mktemp("five")
    rng, rows = np.random.default_rng(3), []
    models = thermostats.load("models")
    chosen = models[models["family"].isin(["pythia", "opt"]) & (models["norm_place"] != "post")]
    for model in chosen.itertuples():
        for prompt in range(6):
            gains = np.exp(rng.normal(0.3 - 0.02 * model.n_layers, 0.05, model.n_layers))
            rows += [
                {
                    "model_id": model.model_id,
                    "layer": layer,
                    "prompt_id": f"p{prompt}",
                    "gain_block": gain,
                }
                for layer, gain in enumerate(gains, 1)
            ]
    table = pd.DataFrame(rows).assign(revision="main", position="last", source="my hooks")
    thermostats.join(table, table="layers", mapping=same_columns(folder), data=folder / "mine")
    return folder / "mine"


def same_columns(folder: Path) -> Path:
    """A mapping of columns that have their names already."""
    names = ("model_id", "revision", "layer", "prompt_id", "gain_block", "position", "source")
    path = folder / "map.toml"
    lines = ['table = "layers"', "[columns]", *(f'{name} = "{name}"' for name in names)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_sets_hold_what_they_say(five: Path) -> None:
    sources = {name: set(Evidence(five).named(name).table("runs")["source"]) for name in SETS}
    files = set(store.load("sources")["file"])
    assert sources[PUBLISHED] <= files and sources[NURSERY] == {NURSERY}
    assert sources[MEASURED] == {"thermostats", "my hooks"}
    assert sources[EXTERNAL] == {
        path.name for path in (store.find_shipped("data") / "external").iterdir() if path.is_dir()
    }
    assert sources[POOLED] == sources[PUBLISHED] | sources[EXTERNAL] | sources[MEASURED]


def test_joined_gains_are_judged_by_the_rule_of_every_claim_that_they_allow(five: Path) -> None:
    before = {
        q.id: view(q, None, MEASURED).verdict
        for name in ("C01", "C02", "C10")
        for q in asked(CLAIMS[name])
    }
    after = {
        q.id: view(q, five, MEASURED).verdict
        for name in ("C01", "C02", "C10")
        for q in asked(CLAIMS[name])
    }
    assert {verdict for name, verdict in before.items() if name.startswith("C01.")} == {UNMEASURED}
    assert after["C01.depth.penultimate_gain"] != UNMEASURED
    assert after["C02.bound.max_gain"] != UNMEASURED
    assert after["C10.pair"] == UNMEASURED


def test_a_row_changes_the_sets_that_it_enters_and_no_other(five: Path) -> None:
    (question, *_) = asked(CLAIMS["C01"])
    for name in (PUBLISHED, NURSERY):
        found, other = (
            question.trial.rows(tables(data).named(name), question.over) for data in (None, five)
        )
        pd.testing.assert_frame_equal(found, other)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_every_view_has_a_verdict_or_says_what_it_takes(name: str) -> None:
    for question in asked(CLAIMS[name]):
        for of in question.views.sets:
            found = view(question, None, of)
            assert (
                found.verdict != UNMEASURED
                or "needs at least" in found.criterion.settles
                or "cannot be made" in found.criterion.settles
            )
            assert found.sample.view_of == question.scope.evidence and found.sample.evidence == of


def test_claims_of_one_set_are_those_of_mathematics_and_of_sets_that_they_name() -> None:
    assert {name for name, claim in CLAIMS.items() if not asked(claim)} == {
        "C06",
        "C07",
        "C15",
        "C16",
    }


def test_a_lab_that_is_asked_about_must_be_there() -> None:
    (question, *_) = asked(CLAIMS["C03"])
    found = view(question, None, NURSERY)
    assert (
        found.verdict == UNMEASURED
        and "EleutherAI among them" in found.criterion.settles
        and found.sample.n_models == 40
    )


def test_pooled_rows_are_one_a_model_and_agree_with_a_single_measurement() -> None:
    every = shipped_tables().named(POOLED)
    rows = model_rows(every, incomparable=True).set_index("model_id")
    single = model_rows(shipped_tables().named(PUBLISHED), incomparable=True).set_index("model_id")
    assert rows.index.is_unique
    once = [
        name
        for name in single.index
        if every.table("features")
        .query("penultimate_gain == penultimate_gain")["model_id"]
        .eq(name)
        .sum()
        == 1
    ]
    np.testing.assert_allclose(rows.loc[once, "gain"], single.loc[once, "gain"], rtol=1e-9)
    twice = rows.loc["EleutherAI/gpt-j-6b", "gain"]
    assert 1.132 < twice < 1.136


def test_the_files_of_a_study_are_one_instrument(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    combine = model_rows_module.combine_measurements
    monkeypatch.setattr(
        model_rows_module,
        "combine_measurements",
        lambda rows: seen.update(rows["source"]) or combine(rows),
    )
    model_rows(Evidence(None).named(POOLED))  # of no other test
    others = set(shipped_tables().named(EXTERNAL).table("runs")["source"])
    assert {PUBLISHED, "thermostats"} <= seen <= {PUBLISHED, "thermostats"} | others


def test_recipes_stand_in_the_place_of_labs_in_the_controlled_study_alone() -> None:
    tables = shipped_tables()
    assert set(tables.named(NURSERY).table("features")["heritage"]) == {
        f"r{k:02}" for k in range(1, 17)
    }
    assert "EleutherAI" in set(tables.named(PUBLISHED).table("features")["heritage"])
    assert set(tables.table("models", source=NURSERY)["heritage"]) == {NURSERY}


def test_needs_name_models_and_the_line_that_brings_them_in(
    five: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "Evidence", lambda data: tables(data).fork())
    found = find_needs(CLAIMS["C05"], five)
    lacking = {one.model_id: one.lacks for one in found.models}
    assert lacking["EleutherAI/pythia-70m"] == ("weights",)
    assert lacking["openai-community/gpt2"] == ("weights", "gains")
    line, again = found.commands
    assert line.startswith("thermostats measure ") and line.endswith(
        f"--what weights,gains --data {five}"
    )
    assert lacking["google/gemma-3-270m"] == ("ov_read and the balanced ratio",)
    assert "google/gemma-3-270m" in again and again.endswith(
        f"--what weights,gains --set older=again --data {five}"
    )
    assert "google/gemma-3-270m" not in {
        one.model_id for one in find_needs(CLAIMS["C01"], five).models
    }
    assert all(one.disk > 0 and one.memory > one.disk and one.seconds > 0 for one in found.models)
    assert find_needs(CLAIMS["C07"]).sets == ()


def test_no_such_set_is_named() -> None:
    with pytest.raises(UsageError, match="measured"):
        thermostats.features(evidence="mesured")


def test_features_of_a_set() -> None:
    assert set(thermostats.features(evidence="nursery")["source"]) == {NURSERY}
    assert set(thermostats.features(evidence="measured")["source"]) == {"thermostats"}


def test_other_sets_are_all_but_the_one_that_a_finding_asks() -> None:
    for first in SETS:
        assert set(Views(models=4).name_sets(first, "U01.line").sets) == set(MEASUREMENTS) - {first}
    with pytest.raises(DataError, match=r"own set is no other set.*U01.line.*got views of pooled"):
        Views(models=4, sets=(PUBLISHED, POOLED)).name_sets(POOLED, "U01.line")


def test_a_question_without_a_trial_has_no_views() -> None:
    question = Question("T01.x", "x", None, lambda _: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(DataError, match="one set of evidence"):
        repeat_question(question, shipped_tables().named(MEASURED))


@pytest.fixture(scope="module")
def own_nursery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The controlled study's models at the end of training as a user's own rows, recipes as
    labs."""
    folder = tmp_path_factory.mktemp("nursery") / "mine"
    whole = shipped_tables().named(NURSERY)
    models = whole.table("models")
    last = models.groupby("model_id")["revision"].max()
    models = models[models["revision"] == models["model_id"].map(last)]
    renamed = models.assign(
        model_id=models["model_id"].str.replace(NURSERY, "mine"),
        parent=models["parent"].str.replace(NURSERY, "mine"),
        heritage=models["family"],
        source="mine",
    )
    runs = store.load("runs")
    runs = runs[(runs["source"] == NURSERY) & (runs["revision"] == runs["model_id"].map(last))]
    kept = {
        "models": renamed,
        "runs": runs.assign(model_id=runs["model_id"].str.replace(NURSERY, "mine"), source="mine"),
    }
    for name in ("layers", "summaries", "outputs", "weights", "attention", "transitions"):
        frame = store.load(name)
        kept[name] = frame[frame["run_id"].isin(runs["run_id"])]
    new = {row["run_id"]: thermostats.run_id(row) for row in kept["runs"].to_dict("records")}
    for name, frame in kept.items():
        own = frame.assign(run_id=frame["run_id"].map(new)) if "run_id" in frame else frame
        thermostats.join(
            own[[label for label in store.list_dtypes(name) if label in own]],
            table=name,
            data=folder,
        )
    return folder


@pytest.mark.slow
def test_the_nursery_as_own_rows_gets_a_verdict_or_a_need_from_every_claim(
    own_nursery: Path,
) -> None:
    said = {}
    for claim in CLAIMS.values():
        for question in asked(claim):
            if MEASURED in question.views.sets:
                said[question.id] = view(question, own_nursery, MEASURED)
    assert {key[:3] for key in said} >= {
        "C01",
        "C02",
        "C03",
        "C04",
        "C05",
        "C08",
        "C09",
        "C10",
        "C11",
        "C12",
        "C13",
    }
    assert all(found.verdict != UNMEASURED or found.criterion.settles for found in said.values())
    assert sum(found.verdict != UNMEASURED for found in said.values()) > 15


@pytest.mark.slow
def test_seeds_are_the_ceiling_of_shares_of_variance() -> None:
    question = next(q for q in asked(CLAIMS["C04"]) if q.id == "C04.size.penultimate_gain")
    evidence = shipped_tables().named(POOLED)
    assert not repeat_question(question, evidence).notes
    features = evidence._join_table("features")
    repeats = features["model_id"] == "EleutherAI/pythia-1b"
    evidence._loaded["features"] = features.assign(
        seed_of=np.where(repeats, "EleutherAI/pythia-1.4b", "")
    )
    evidence._digests.clear()
    evidence._frames.clear()
    (note,) = repeat_question(question, evidence).notes
    assert "seeds alone change the penultimate gain" in note and "of its log variance" in note
    assert "EleutherAI/pythia-1b" not in set(model_rows(evidence)["model_id"])
