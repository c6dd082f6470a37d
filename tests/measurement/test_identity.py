"""What a model is, not what its folder is called, decides whether it was measured; older runs are
asked about once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import torch
import transformers
from conftest import run, table
from typer.testing import CliRunner

from thermostats.cli.app import app
from thermostats.errors import UsageError
from thermostats.measurement import spectra
from thermostats.measurement.execute import run_specs
from thermostats.measurement.from_python import measure
from thermostats.measurement.hub import ModelFolder
from thermostats.measurement.model_row import resolve_run
from thermostats.measurement.spec import RunSpec
from thermostats.measurement.spectra import hash_file, hash_model
from thermostats.measurement.versions import find_outdated_rows
from thermostats.tables import folders, store
from thermostats.tables.features import build_features
from thermostats.tables.schemas import OF_RUNS

WHAT = ("weights", "gains")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, prompts, and a data folder in which it is measured; a test works on a copy."""
    place = tmp_path_factory.mktemp("place")
    model = small.save_model(place / "first" / "checkpoint-500")
    (place / "mine").mkdir()
    shutil.copy(
        store.find_shipped("data") / "models.csv", place / "mine"
    )  # without the package's rows beneath
    measure(model, place / "mine", prompts=str(small.save_prompts(place)), what=WHAT)
    return place


@pytest.fixture(autouse=True)
def copied(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    return str(tmp_path / "three.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "first" / "checkpoint-500"


def trained(folder: Path) -> None:
    """Change a matrix of a model where it lies, as training on would."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.transformer.h[0].attn.c_attn.weight.mul_(5)
    model.save_pretrained(folder)


def rope(folder: Path) -> None:
    """Change a number of the configuration that no tensor shows."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layer_norm_epsilon": 0.1}))


@pytest.mark.parametrize("change", [trained, pytest.param(rope, marks=pytest.mark.slow)])
def test_a_folder_that_changed_is_not_taken_for_the_one_measured(
    change: Callable[[Path], None], folder: Path, prompts: str, tmp_path: Path
) -> None:
    before = measure(folder, tmp_path / "mine", prompts=prompts, what=WHAT)
    change(folder)
    with pytest.raises(UsageError, match="measured under this name") as caught:
        measure(folder, tmp_path / "mine", prompts=prompts, what=WHAT)
    assert "--set name=first/checkpoint-500" in str(caught.value.next_step)
    (outcome,) = run_specs([RunSpec(str(folder), prompts=prompts, what=WHAT)], tmp_path / "mine")
    assert (outcome.status, outcome.problem.wrong_use) == ("failed", True)
    again = measure(
        folder, tmp_path / "mine", prompts=prompts, what=WHAT, name="first/checkpoint-500"
    )
    assert set(again["run_id"]).isdisjoint(before["run_id"])
    assert set(again["model_id"]) == {"first/checkpoint-500"}
    assert abs(again["gain_block"] - before["gain_block"]).max() > 1e-3


def test_the_same_weights_under_another_name_are_asked_about(
    folder: Path, prompts: str, tmp_path: Path
) -> None:
    data, how = tmp_path / "mine", {"prompts": prompts, "what": WHAT}
    first = measure(folder, data, **how)
    for name in ("second-name", "third-name"):
        copy = Path(shutil.copytree(folder, tmp_path / name))
        with pytest.raises(UsageError, match="the same weights under another name") as caught:
            measure(copy, data, **how)
        assert caught.value.got == "checkpoint-500"
        assert caught.value.options == ("--set", "name=checkpoint-500")
        same = measure(copy, data, name="checkpoint-500", **how)
        assert set(same["run_id"]) == set(first["run_id"])
    assert set(store.load("runs", data)["model_id"]) == {"checkpoint-500"}
    other = measure(copy, data, name="third-name", **how)
    assert set(other["model_id"]) == {"third-name"}
    again = measure(copy, data, **how)  # named once, it is known by both
    assert set(again["run_id"]) == set(other["run_id"])
    (outcome,) = run_specs([RunSpec(str(tmp_path / "second-name"), **how)], data)
    assert (outcome.status, outcome.problem.wrong_use) == ("failed", True)


def test_one_model_at_several_places_is_measured_once(
    folder: Path, prompts: str, tmp_path: Path
) -> None:
    first = measure(folder, tmp_path / "mine", prompts=prompts, what=WHAT)
    moved = Path(shutil.copytree(folder, tmp_path / "backup" / folder.name))
    (tmp_path / "latest").symlink_to(folder)
    for place in (moved, tmp_path / "latest"):
        pd.testing.assert_frame_equal(
            measure(place, tmp_path / "mine", prompts=prompts, what=WHAT), first
        )
    (done,) = run_specs([RunSpec(str(moved), prompts=prompts, what=WHAT)], tmp_path / "mine")
    assert done.status == "skipped"


def test_what_the_configuration_says_of_its_origin_does_not_count(folder: Path) -> None:
    before = hash_model(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(
        json.dumps({**config, "_name_or_path": "elsewhere", "transformers_version": "9"}, indent=7)
    )
    assert hash_model(folder) == before
    path.write_text(json.dumps({**config, "n_head": 4}))
    assert hash_model(folder) != before


def test_a_hash_is_that_of_the_bytes_and_kept_until_the_file_changes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THERMOSTATS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(spectra, "SETTLED", -1.0)
    path = folder / "model.safetensors"
    assert hash_file(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    (note,) = (tmp_path / "cache" / "weights").iterdir()
    noted = json.loads(note.read_text())
    note.write_text(json.dumps({**noted, "sha256": "0" * 64}))
    assert hash_file(path) == "0" * 64, "it is not read again"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(noted["seen"][2], noted["seen"][2]))
    assert hash_file(path) == hashlib.sha256(content).hexdigest(), (
        "neither size nor time of change was new"
    )
    note.write_text("{")
    assert hash_file(path) == hashlib.sha256(content).hexdigest()


def test_the_hubs_cache_names_the_hash(tmp_path: Path) -> None:
    blob = tmp_path / "models--a--b" / "blobs" / ("ab" * 32)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"not read")
    link = tmp_path / "models--a--b" / "snapshots" / "c" / "model.safetensors"
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    assert hash_file(link) == "ab" * 32


def as_before(data: Path) -> dict[str, str]:
    """Runs of a data folder as a version wrote them that knew no hashes of models; ids by what they
    were called."""
    ids = {}
    for path in list((data / "measured" / "runs").glob("*.csv")):
        row = pd.read_csv(path, dtype=str, keep_default_na=False).iloc[0]
        named = ("model_id", "revision", "dtype", "attention", "prompt_set", "prompt_sha")
        text = "\n".join([*(row[label] for label in named), "1", row["source"]])
        old = ids[row["run_id"]] = hashlib.sha256(text.encode()).hexdigest()[:16]
        facts = row.drop(["model_sha", *({"confirmed_sha", "differences"} & set(row.index))])
        pd.DataFrame([{**facts, "run_id": old, "measure_version": "1"}]).to_csv(path, index=False)
        for name in ("runs", *(each.name for each in OF_RUNS)):
            file = data / "measured" / name / path.name
            if file.is_file():
                file.write_text(file.read_text().replace(row["run_id"], old))
                file.rename(file.with_name(f"{old}.csv"))
    return ids


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A data folder with the model measured by an older version."""
    as_before(tmp_path / "mine")
    return tmp_path / "mine"


def test_older_runs_are_asked_about_once(before: Path, folder: Path, prompts: str) -> None:
    call = [
        "measure",
        str(folder),
        "--data",
        str(before),
        "--prompts",
        prompts,
        "--what",
        ",".join(WHAT),
    ]
    refused = CliRunner().invoke(app, call)
    assert refused.exit_code == 2
    assert "--set older=same" in refused.stderr
    files = sorted(path.name for path in (before / "measured" / "runs").iterdir())
    answered = CliRunner().invoke(app, [*call, "--set", "older=same"])
    assert (answered.exit_code, "skipped" in answered.stdout) == (0, True), answered.output
    assert "skipped" in CliRunner().invoke(app, call).stdout, "it is not asked again"
    assert sorted(path.name for path in (before / "measured" / "runs").iterdir()) == files
    assert not find_outdated_rows(before)
    trained(folder)
    with pytest.raises(UsageError, match="measured under this name"):
        measure(folder, before, prompts=prompts, what=WHAT)


def test_older_runs_of_which_tables_lack_are_completed_once_confirmed(
    before: Path, folder: Path, prompts: str
) -> None:
    old = {path.stem for path in (before / "measured" / "layers").iterdir()}
    with pytest.raises(UsageError, match="older than the hash"):
        measure(folder, before, prompts=prompts, what=("gains", "outputs"))
    rows = measure(folder, before, prompts=prompts, what=("gains", "outputs"), older="same")
    assert (
        set(rows["run_id"])
        == old
        == {path.stem for path in (before / "measured" / "outputs").iterdir()}
    )


@pytest.mark.parametrize("recorded", ["c" * 40, "d" * 40, ""])
def test_an_older_run_of_the_same_commit_stands(recorded: str, tmp_path: Path) -> None:
    old = run("a/b", versions=f"numpy=2 commit={recorded}" if recorded else "numpy=2")
    new = {**run("a/b", measure_version="2", model_sha="x")}
    there = table("runs", old)
    hub = ModelFolder("a/b", "main", tmp_path, "c" * 40)
    assert resolve_run(new, hub, there, "again")[0]["run_id"] == new["run_id"]
    if recorded == hub.commit:
        assert resolve_run(new, hub, there, "")[0]["run_id"] == old["run_id"]
    elif recorded:
        with pytest.raises(UsageError, match="another commit") as caught:
            resolve_run(new, hub, there, "same")
        assert f"--revision {hub.commit}" in str(caught.value.next_step)
    else:
        with pytest.raises(UsageError, match="older than the hash"):
            resolve_run(new, hub, there, "")
        confirmed, answered = resolve_run(new, hub, there, "same")
        assert confirmed["run_id"] == old["run_id"] == answered[0]


def test_older_runs_that_are_measured_again_give_way(
    before: Path, folder: Path, prompts: str
) -> None:
    assert len(find_outdated_rows(before)) == 1
    assert "2 runs do not state" in find_outdated_rows(before)[0]
    old = {path.stem for path in (before / "measured" / "layers").iterdir()}
    new = measure(folder, before, prompts=prompts, what=WHAT, older="again")
    assert set(new["run_id"]).isdisjoint(old)
    rows = build_features(before).set_index("model_id").loc[["checkpoint-500"]]
    assert rows["run_id"].tolist() == list(new["run_id"].unique())
    assert not find_outdated_rows(before)
    assert set(measure(folder, before, prompts=prompts, what=WHAT)["run_id"]) == set(new["run_id"])


@pytest.mark.slow
def test_check_names_facts_that_no_model_of_their_class_has(before: Path) -> None:
    models = store.read_typed(before / "models.csv", "models")
    models = models[models["model_id"] == "checkpoint-500"].assign(
        architecture="modernbert", gated_mlp=False
    )
    store.save(models, "models", before / "models.csv")
    (before / folders.MARK).write_text(f"schema = {folders.SCHEMA}\n")
    sentences = [line for line in find_outdated_rows(before) if "gated_mlp" in line]
    assert sentences == [
        "checkpoint-500 @ main: gated_mlp False is not what its class has; "
        "thermostats measure checkpoint-500 --set older=again corrects it"
    ]
    checked = CliRunner().invoke(app, ["check", "--data", str(before)])
    assert (checked.exit_code, sentences[0] in checked.stderr) == (0, True)


def test_check_names_what_a_switch_of_the_configuration_changed(
    before: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched = {
        "chunk_size_feed_forward": 2,
        "rope_scaling": {"type": "longrope"},
        "num_hidden_layers": 1,
    }
    monkeypatch.setattr("thermostats.measurement.versions._read_cached_config", lambda *_: switched)
    text = "\n".join(find_outdated_rows(before))
    gains = next(path.stem for path in (before / "measured" / "layers").iterdir())
    assert text.count(f"run {gains}:") == 3
    assert all(word in text for word in ("chunk_size_feed_forward", "longest prompt", "one block"))
    monkeypatch.setattr(
        "thermostats.measurement.versions._read_cached_config",
        lambda *_: {"chunk_size_feed_forward": 0},
    )
    assert "run " not in "".join(find_outdated_rows(before)).replace("runs do not", "")


def test_a_model_in_the_tables_of_another_shape_is_not_taken_for_it(
    prompts: str, tmp_path: Path
) -> None:
    for path in (tmp_path / "mine" / "measured").rglob("*.csv"):
        path.unlink()
    deeper = small.save_model(tmp_path / "second" / "checkpoint-500", n_layer=5)
    with pytest.raises(UsageError, match="another model by this name") as caught:
        measure(deeper, tmp_path / "mine", prompts=prompts, what="weights")
    assert "n_layers 3 in the tables, 5 here" in str(caught.value.got)


def test_a_model_that_is_gone_is_finished_by_its_name(
    folder: Path, prompts: str, tmp_path: Path
) -> None:
    shutil.rmtree(folder)
    spec = RunSpec("checkpoint-500", prompts=prompts, what=WHAT, download=False)
    (outcome,) = run_specs([spec], tmp_path / "mine")
    assert (outcome.status, len(outcome.finished)) == ("skipped", 2), outcome.problem.reason


def test_a_model_in_memory_that_changed_is_another_and_the_first_is_kept(
    prompts: str, tmp_path: Path
) -> None:
    folder = small.save_model(tmp_path / "m")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    first = measure(model, tokenizer, tmp_path / "mine", prompts=prompts, what=WHAT)
    with torch.no_grad():
        model.transformer.h[1].mlp.c_proj.weight.mul_(2)
    second = measure(model, tokenizer, tmp_path / "mine", prompts=prompts, what=WHAT)
    assert set(first["revision"]).isdisjoint(second["revision"])
    with torch.no_grad():
        model.transformer.h[1].mlp.c_proj.weight.div_(2)
    pd.testing.assert_frame_equal(
        measure(model, tokenizer, tmp_path / "mine", prompts=prompts, what=WHAT), first
    )


def test_a_name_with_a_blank_is_quoted_for_the_shell(
    folder: Path, prompts: str, tmp_path: Path
) -> None:
    data, how = tmp_path / "other", {"prompts": prompts, "what": WHAT}
    spaced = Path(shutil.copytree(folder, tmp_path / "my runs" / "last one"))
    measure(spaced, data, **how)
    copy = Path(shutil.copytree(folder, tmp_path / "copied"))
    with pytest.raises(UsageError, match="the same weights under another name") as caught:
        measure(copy, data, **how)
    assert caught.value.next_step.startswith("--set 'name=last one' where it is that model")
    trained(spaced)
    with pytest.raises(UsageError, match="measured under this name") as caught:
        measure(spaced, data, **how)
    assert caught.value.next_step.startswith("--set 'name=my runs/last one' measures it as")
