"""A study's models measured again by its plan, from a hub on this machine that has every fault a hub may have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import study_hub
from conftest import remount
from test_hub import TOKEN, run

from thermostats.claims import replication as plans
from thermostats.claims.run import claims as stated
from thermostats.cli import replication
from thermostats.errors import UsageError
from thermostats.measurement.estimate import Place, fits, memory, seconds
from thermostats.measurement.settings import Settings
from thermostats.tables import spec_states, store
from thermostats.tables.folders import shipped
from thermostats.tables.join import join

NAME = "delia2026"
PLAN = plans.plan_of(plans.study_named(NAME))
MODELS = sorted({part.model for part in PLAN})
PINNED = {part.model: part.commit for part in PLAN if part.commit}
SMALL, RENAMED, LOCKED = "EleutherAI/pythia-70m", "EleutherAI/gpt-neo-125m", "google/gemma-2b"


@pytest.fixture(scope="module")
def claims() -> list[Any]:
    return [claim for claim in stated(shipped("analyses")) if claim.id.startswith("C")]


def test_the_plan_has_every_model_of_the_study_in_every_precision_that_it_states() -> None:
    runs = store.load("runs")
    runs = runs[runs["source"].isin(store.load("sources")["file"])]
    assert set(runs["model_id"]) == set(MODELS) and len(MODELS) == 36
    for model, of in runs.groupby("model_id"):
        parts = [part for part in PLAN if part.model == model]
        half = {name for part in parts for name in part.study_precisions}
        assert half == set(of["dtype"]) - {"unstated", "float32"}, model
        assert set(of["prompt_set"]) - {""} == {name for part in parts for name in part.published_on}, model
    sets = store.load("prompts").groupby("prompt_set")["category"]
    for part in PLAN:
        assert len(part.commit) in (0, 40) and part.commit_from
        if part.instead:
            ours, theirs = (sorted(sets.get_group(name)) for name in (part.instead, part.prompts))
            assert ours == theirs  # of equal size and categories


def test_what_claims_read_is_what_is_measured(claims: list[Any]) -> None:
    (c05,) = (claim for claim in claims if claim.id == "C05")
    parts = plans.chosen(PLAN, [c05], [SMALL])
    assert [(part.model, part.what, part.prompts) for part in parts] == [(SMALL, ("weights", "gains"), "study_25")]
    assert plans.settled(parts[0], [c05]) == ["C05"]
    assert [part.prompts for part in plans.chosen(PLAN, claims, [], "core")] == ["core"] * 36
    wrong_model = [SMALL.replace("70m", "70n")]
    for wrong, options in {"--models": ([c05], wrong_model, "study"), "--prompts": ([c05], [], "cor")}.items():
        with pytest.raises(UsageError, match="did you mean") as refused:
            plans.chosen(PLAN, *options)
        assert refused.value.where == wrong
    with pytest.raises(UsageError, match="serves these claims"):
        plans.chosen(PLAN, [replace(c05, measures=())], [])
    with pytest.raises(UsageError, match=NAME):
        plans.study_named("delia")


def test_precision_is_a_level_and_float32_is_left_out_where_it_does_not_fit() -> None:
    part = next(part for part in PLAN if part.study_precisions == ("bfloat16", "float16") and part.instead)
    assert plans.precisions(part, lambda _: True) == ("float32", "bfloat16", "float16")
    assert plans.precisions(part, lambda dtype: dtype != "float32") == ("bfloat16", "float16")
    plain = replace(part, study_precisions=())
    assert plans.precisions(plain, lambda _: True) == ("float32",)
    assert plans.precisions(plain, lambda _: False) == ("bfloat16",)
    specs = plans.specs(part, ("float32", "bfloat16"), pickles=False)
    assert [("weights" in spec.what, spec.dtype) for spec in specs] == [(True, "float32"), (False, "bfloat16")]
    assert plans.specs(replace(part, what=("weights",)), ("float32", "bfloat16"))[1:] == []
    seven = 7 * 10**9
    assert not fits(seven, "float32", Place("cpu", 20 * 10**9)) and fits(seven, "bfloat16", Place("cpu", 20 * 10**9))
    assert fits(seven, "float32", Place("accelerator", 16 * 10**9, 2)) and fits(seven, "float32", Place("cpu", None))
    assert memory(seven, "float32") > 4 * seven
    assert seconds(seven, ["x" * 40], 2, "cpu") == pytest.approx(2 * seven * 11 * 2 / 5e10)


def test_a_dry_run_lists_every_model_with_its_facts() -> None:
    asked = replication.asked_for(NAME, [], [], "study", shipped("data"))
    rows = replication.plan_rows(asked, Settings(), shipped("data"), offline=True, pickles=False)
    assert {row["model"] for row in rows} == set(MODELS)
    for row in rows:
        assert row["disk_gb"] > 0 and row["memory_gb"] > 0 and row["claims"] and row["precisions"], row
        assert {"fits", "minutes", "gated", "needs", "commit_from", "position", "device", "texts"} <= set(row)


def test_without_the_texts_it_says_where_they_are_and_what_takes_their_place() -> None:
    asked = replication.asked_for(NAME, ["C01"], [SMALL], "study", shipped("data"))
    with pytest.raises(UsageError) as refused:
        replication.check_texts(asked)
    for words in ("study_25", "10.5281/zenodo.18165365", "thermostats join", "--prompts core"):
        assert words in str(refused.value)
    replication.check_texts(replication.asked_for(NAME, ["C01"], [SMALL], "core", shipped("data")))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


def replicate(hub: str, work: Path, *options: object, data: str = "mine", seconds: float = 900) -> Any:
    arguments = ["-m", "thermostats", "replicate", NAME, "--data", str(work / data), "--out", str(work / "out")]
    ran = run([*arguments, *map(str, options)], hub, work / "cache", seconds=seconds)
    assert TOKEN not in ran.stdout + ran.stderr
    return ran


def told(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Outcomes by model, and whatever else the JSON says; a cluster on this machine has lines of its own before it."""
    found = json.loads(ran.stdout[ran.stdout.index("{\n") :])
    return {**found, "by_model": {row["model"]: row for row in found["outcomes"]}}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with texts of the study's prompts; they are made up, and so its published runs stand alone."""
    data = tmp_path_factory.mktemp("texts") / "data"
    data.mkdir()
    for name in ("models.csv", "prompts.csv"):
        shutil.copy(shipped("data") / name, data)
    prompts = store.load("prompts", data)
    join(prompts.assign(text=prompts["text"].where(prompts["text"] != "", "A text.")), data=data)
    return data


@pytest.mark.slow
def test_from_the_hub_to_the_page_and_the_bundle(root: Path, texts: Path, tmp_path: Path) -> None:
    shutil.copytree(texts, tmp_path / "mine")
    folders = study_hub.study_folders(root, [SMALL, LOCKED], {})
    with study_hub.serving(folders, {LOCKED: study_hub.GATED}, {}) as (url, _):
        asked = ("--models", f"{SMALL},{LOCKED}", "--claims", "C01", "--source", "one-lab", "--json")
        ran = replicate(url, tmp_path, *asked)
        assert ran.returncode == 1, ran.stderr
        first = told(ran)
        status = {model: row["status"] for model, row in first["by_model"].items()}
        assert status == {SMALL: "measured", LOCKED: "failed"}
        assert "accept the conditions" in first["by_model"][LOCKED]["reason"]
        assert [state.model for state in spec_states.read(tmp_path / "mine")] == [LOCKED] * 2
        again = told(replicate(url, tmp_path, *asked))
    status = {model: row["status"] for model, row in again["by_model"].items()}
    assert status == {SMALL: "skipped", LOCKED: "failed"}
    page = (tmp_path / "out" / "index.md").read_text()
    assert "1 model of 36 in the plan" in page and "0 specs measured now, 1 measured before, 2 failed" in page
    assert "### C01" in page and "<svg" in (tmp_path / "out" / "index.html").read_text()
    assert set(first["figures"]) <= {"within error", "beyond error", "error unknown"}
    commits = store.load("runs", tmp_path / "mine")["versions"].str.extract(r"commit=(\w{40})")[0].dropna()
    assert commits.nunique() == 1
    shutil.copytree(texts, tmp_path / "theirs")
    done = {each.table: each.added for each in join(tmp_path / "out" / "bundle.zip", data=tmp_path / "theirs")}
    assert done["runs"] == 1
    joined = store.load("runs", tmp_path / "theirs")
    assert (joined["source"] == "one-lab").sum() == 1
    assert set(zipfile.ZipFile(tmp_path / "out" / "bundle.zip").namelist()) >= {"manifest.json", "page/index.html"}


PLAGUED = {
    "google/gemma-7b": study_hub.GATED,
    "facebook/opt-2.7b": study_hub.MISSING,
    "EleutherAI/gpt-neo-2.7B": study_hub.RENAMED,
    "facebook/opt-6.7b": study_hub.PICKLES,
    "meta-llama/Llama-3.1-8B": study_hub.SHARDED,
    "stabilityai/stablelm-base-alpha-3b": study_hub.HANGS,
    "EleutherAI/pythia-410m": study_hub.HALFWAY,
    "swiss-ai/Apertus-8B-2509": study_hub.BUSY,
    "google/gemma-2-9b": study_hub.BROKEN,
}
REASONS = {
    study_hub.GATED: "gated.*accept the conditions",
    study_hub.MISSING: "no such model",
    study_hub.PICKLES: "only as pickles, which were neither downloaded nor read",
    study_hub.HANGS: "hub cannot be reached.*[Tt]ime",
    study_hub.HALFWAY: "hub cannot be reached",
    study_hub.BUSY: "hub cannot be reached.*429",
    study_hub.BROKEN: "hub cannot be reached.*500",
}
"""What is said of a fault that keeps a model from being measured."""


UNSEEN = (None, study_hub.RENAMED, study_hub.SHARDED, study_hub.HALFWAY)
"""Faults that are none, or that only a download meets."""


@pytest.mark.long
@pytest.mark.slow
def test_the_whole_plan_whatever_the_hub_does(root: Path, texts: Path, tmp_path: Path) -> None:
    moved = {**PINNED, next(iter(PINNED)): "f" * 40}
    shutil.copytree(texts, tmp_path / "mine")
    with study_hub.serving(study_hub.study_folders(root / "all", MODELS, PLAGUED), PLAGUED, moved) as (url, hub):
        rows = {row["model"]: row for row in json.loads(replicate(url, tmp_path, "--dry-run", "--json").stdout)}
        assert rows.keys() == set(MODELS) and rows[RENAMED]["commit_now"]
        said = {model: (rows[model]["gated"], rows[model]["only_pickles"]) for model in PLAGUED}
        assert said["google/gemma-7b"] == (True, False) and said["facebook/opt-6.7b"] == (False, True)
        assert {model for model, row in rows.items() if not row["needs"]} == {
            model for model in MODELS if model not in PINNED and PLAGUED.get(model) in UNSEEN
        }
        ran = replicate(url, tmp_path, "--cpus", 1, "--json", seconds=1500)
        assert ran.returncode == 1
        outcomes = told(ran)["outcomes"]
        assert not any(path.endswith(".bin") for path in hub.asked)
    by_model = {row["model"]: row for row in outcomes}
    faults = {**PLAGUED, **dict.fromkeys(PINNED, study_hub.GONE)}
    reasons = {**REASONS, study_hub.GONE: "no such revision"}
    for model in MODELS:
        expected = reasons.get(faults.get(model, ""))
        rows = [row for row in outcomes if row["model"] == model]
        assert {row["status"] for row in rows} == {"failed" if expected else "measured"}, by_model[model]
        assert expected is None or all(re.search(expected, row["reason"]) for row in rows), by_model[model]
    page = (tmp_path / "out" / "index.md").read_text()
    assert "### C20" in page and "## What was not measured" in page


@pytest.mark.slow
def test_a_full_disk_is_said_and_with_room_the_same_command_goes_on(
    root: Path, small_disk: Path, tmp_path: Path
) -> None:
    asked = ("--models", SMALL, "--claims", "C01", "--prompts", "core", "--retries", 0)
    with study_hub.serving(study_hub.study_folders(root, [SMALL], {}), {}, {}) as (url, _):
        ran = replicate(url, small_disk, *asked)
        assert ran.returncode in (1, 2) and "disk" in ran.stderr and "Traceback" not in ran.stderr
        remount(small_disk, "size=64m")
        ran = replicate(url, small_disk, *asked)
    assert ran.returncode == 0, ran.stderr
    assert (small_disk / "out" / "bundle.zip").is_file()
