"""Joining: idempotent, conflicts named, all checked before the first is written."""

from __future__ import annotations

import shlex
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import pytest
from conftest import command, layer, model, run, snapshot, table

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables import folders, store
from thermostats.tables.features import build_features
from thermostats.tables.folders import prepare_folder
from thermostats.tables.join import Joined, describe_unread, join


def new_run(gain: float = 1.25, **fields: object) -> tuple[pd.DataFrame, pd.DataFrame]:
    measured = run(**{"source": "elsewhere", **fields})
    return table("runs", measured), table(
        "layers", *(layer(measured, number, gain) for number in (1, 2, 3))
    )


def test_new_rows_are_added_one_file_per_run_and_again_change_nothing(
    small_store: Path, tmp_path: Path
) -> None:
    runs, layers = new_run()
    (tmp_path / "half.csv").write_bytes(store.encode_csv(layers.iloc[:2], "layers"))
    done = join([tmp_path / "half.csv", runs, layers.iloc[1:]], data=small_store)
    assert [(d.table, d.added, d.unchanged, d.replaced) for d in done] == [
        ("runs", 1, 0, 0),
        ("layers", 3, 0, 0),
    ]
    assert [[path.relative_to(small_store).as_posix() for path in each.files] for each in done] == [
        [f"measured/{name}/{runs['run_id'][0]}.csv"] for name in ("runs", "layers")
    ]
    assert store.check(small_store)["layers"] == 9
    before = snapshot(small_store)
    again = join(list(new_run()), data=small_store)
    assert [(d.added, d.unchanged, d.replaced, d.files) for d in again] == [
        (0, 1, 0, ()),
        (0, 3, 0, ()),
    ]
    recorded = runs.assign(seconds=3.0, versions="torch=1")  # no conflict, and no part of the run
    assert join(recorded, data=small_store)[0].unchanged == 1
    assert snapshot(small_store) == before


def test_other_values_are_refused_with_the_largest_difference_named(small_store: Path) -> None:
    runs, layers = new_run()
    join([runs, layers], data=small_store)
    before = snapshot(small_store)
    layers.loc[0, "gain_block"] = 1.2500001
    layers.loc[2, "gain_block"] = 4.5
    message = (
        r"2 of these rows .* gain_block at .*layer 3.* there .*1\.25.* new .*4\.5.*replace=True"
    )
    with pytest.raises(DataError, match=message):
        join(layers, data=small_store)
    layers.loc[1, ["gain_block", "missing"]] = [None, "overflow"]
    with pytest.raises(DataError, match=r"gain_block at .*layer 2"):
        join(layers, data=small_store)
    assert snapshot(small_store) == before


def test_a_row_given_twice_with_other_values_is_refused(small_store: Path) -> None:
    runs, layers = new_run()
    with pytest.raises(DataError, match="twice"):
        join([runs, layers, layers.assign(gain_block=3.0)], data=small_store)


def _join_model(arguments: tuple[Path, int]) -> int:
    folder, number = arguments
    return join(table("models", model(f"lab/{number}")), data=folder)[0].added


def test_writers_at_once_lose_nothing(small_store: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        assert sum(pool.map(_join_model, [(small_store, number) for number in range(6)])) == 6
    assert len(store.load("models", small_store)) == 7


def test_replacing_some_rows_leaves_the_others_and_adds_what_is_new(small_store: Path) -> None:
    before = store.load("layers", small_store)
    some = before.iloc[[0, 1]].assign(gain_block=[before["gain_block"][0], 7.0])
    new = before.iloc[[0]].assign(position="first")
    (done,) = join(pd.concat([some, new]), data=small_store, replace=True)
    assert (done.table, done.added, done.unchanged, done.replaced) == ("layers", 1, 1, 1)
    assert [path.name for path in done.files] == [f"{run()['run_id']}.csv"]
    after = store.load("layers", small_store)
    last = after[after["position"] == "last"].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        last.drop(columns="gain_block"), before.drop(columns="gain_block")
    )
    assert last["gain_block"].tolist() == [before["gain_block"][0], 7.0, *before["gain_block"][2:]]
    assert (after["position"] == "first").sum() == 1


MISFITS = {
    "a misspelt column": (
        (new_run()[1].rename(columns={"gain_block": "gain_blok"}), None),
        "nearly those of layers: without gain_block, unknown gain_blok.*did you mean gain_block",
    ),
    "few columns": (
        (pd.DataFrame([model()])[["model_id", "heritage", "n_layers", "d_model", "n_heads"]], None),
        "not those of table models.*got without n_params",
    ),
    "a column more": (
        (new_run()[0].assign(note=1), None),
        "nearly those of runs: without none, unknown note",
    ),
    "no source": (
        (new_run()[1].drop(columns="run_id").assign(model_id="lab/model"), "layers"),
        "do not say to which run they belong.*add source",
    ),
    "no such table": (
        (new_run()[0], "runz"),
        "no such table.*'runz'.*allowed: models, lineage, prompts, runs",
    ),
    "lacking and unknown": (
        (new_run()[1].rename(columns={"gain_block": "gain"}).drop(columns="position"), "layers"),
        "columns are not those of table layers.*got without position; unknown gain",
    ),
    "findings": ((table("findings"), "findings"), "thermostats report"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_rows_of_no_table_are_told_with_the_nearest_and_what_is_misspelt(
    name: str, small_store: Path
) -> None:
    (rows, named), message = MISFITS[name]
    with pytest.raises(UsageError, match=message) as caught:
        join(rows, table=named, data=small_store)
    assert "findings" not in caught.value.allowed


SHIPPED = store.find_shipped("data")


def test_without_a_folder_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(folders.DATA_VARIABLE, raising=False)
    before = snapshot(SHIPPED)
    with pytest.raises(UsageError, match=r"read-only.*--data mine"):
        join(table("models", model()))
    assert snapshot(SHIPPED) == before
    monkeypatch.setenv(folders.DATA_VARIABLE, str(tmp_path / "mine"))
    join(table("models", model()))
    assert "lab/small" in set(store.load("models")["model_id"])


def test_own_rows_lie_over_the_package_s(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    before = snapshot(SHIPPED)
    measured = run(source="mine", prompt_set="own")
    prompt = {"prompt_set": "own", "prompt_id": "a", "text": "x", "text_sha256": "0" * 64}
    rows = [layer(measured, number, gain) for number, gain in ((1, 9.0), (2, 1.5), (3, 0.5))]
    join(
        [
            table("models", model()),
            table("prompts", prompt),
            table("runs", measured),
            table("layers", *rows),
        ],
        data=mine,
    )
    assert len(store.load("layers", mine)) == len(store.load("layers", SHIPPED)) + 3
    assert len(store.load("models", mine)) == len(store.load("models", SHIPPED)) + 1
    assert len(store.read_typed(mine / "models.csv", "models")) == 1
    assert build_features(mine).set_index("source").loc["mine", "last_gain"] == 0.5
    assert store.has_run("layers", str(measured["run_id"]), mine)
    assert snapshot(SHIPPED) == before


def test_a_row_of_one_s_own_stands_for_the_package_s_with_the_same_key(tmp_path: Path) -> None:
    mine = prepare_folder(tmp_path / "mine")
    theirs = store.load("models", SHIPPED).iloc[[0]]
    mine_instead = theirs.assign(heritage="somebody else")
    with pytest.raises(DataError, match="already has 1 of these rows"):
        join(mine_instead, data=mine)
    done = join(mine_instead, data=mine, replace=True)[0]
    assert (done.added, done.replaced) == (0, 1)
    seen = store.load("models", mine).set_index(["model_id", "revision"])
    assert len(seen) == len(store.load("models", SHIPPED))
    assert seen.loc[tuple(theirs.iloc[0][["model_id", "revision"]]), "heritage"] == "somebody else"
    assert join(mine_instead, data=mine)[0].unchanged == 1
    join(theirs, data=mine, replace=True)
    assert len(store.load("models", mine)) == len(store.load("models", SHIPPED))


def test_figures_of_the_study_are_not_replaced(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path / "mine")
    rows = store.read_typed(SHIPPED / "published" / "outputs.csv", "outputs").iloc[:1]
    before = snapshot(folder)
    with pytest.raises(DataError, match="figures of the study"):
        join(rows.assign(entropy=9.0), data=folder, replace=True)
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_id": "lab/none"}, "model_id 'lab/none'"),
        ({"prompt_set": "none"}, "prompt set"),
        ({"dtype": "float8"}, "float8"),
    ],
)
def test_rows_that_refer_to_nothing_are_refused(
    small_store: Path, change: dict[str, str], words: str
) -> None:
    before = snapshot(small_store)
    with pytest.raises(DataError, match=words):
        runs, layers = new_run(**change)
        join([runs, layers], data=small_store)
    assert snapshot(small_store) == before


def test_rows_at_a_position_that_no_claim_reads_are_counted_with_the_reason() -> None:
    said = describe_unread(pd.Series({"last": 1, "all": 2, "unstated": 1}))
    assert said.startswith("3 rows enter no claim: their position is all (")
    assert "pooled over all tokens" in said and "last real token" in said
    assert describe_unread(pd.Series({"last": 1})) == ""


def join_steps(folder: Path, *revisions: str) -> dict[str, Joined]:
    """One model at some revisions, joined."""
    rows = []
    for place, revision in enumerate(revisions):
        facts = {"heritage": "me", "n_layers": 3, "n_heads": 2, "d_model": 8, "n_params": 1000}
        gains = {"last_gain": 1.1 + place / 100, "source": "mine"}
        rows.append({"model_id": "me/tiny", "revision": revision, **facts, **gains})
    return {each.table: each for each in join(pd.DataFrame(rows), data=folder)}


def test_a_join_of_several_revisions_says_what_shows_them(tmp_path: Path) -> None:
    several = join_steps(tmp_path / "several", "step2", "step10", "step1")["runs"]
    assert several.revisions.startswith("1 model came at several revisions")
    line = several.revisions.rpartition(": ")[2]
    assert several.revisions in repr(several)
    shown = eval(line, {"thermostats": thermostats})  # noqa: S307
    assert shown["revision"].tolist() == ["step1", "step2", "step10"]
    alone = join_steps(tmp_path / "alone", "step2")["runs"]
    assert alone.revisions == "" and "revisions" not in repr(alone)


def test_revisions_are_shown_at_a_position_that_they_have(tmp_path: Path) -> None:
    models, rows = [], []
    for name in ("me/a", "me/b"):
        for revision in ("step2", "step10"):
            one = {"model_id": name, "revision": revision}
            shape = {"n_layers": 3, "n_heads": 2, "d_model": 8, "n_params": 1000}
            models.append({**one, "heritage": "me", **shape})
            for number in (1, 2, 3):
                rows.append({**one, "layer": number, "prompt_id": "p", "gain_block": 1.1})
    data = tmp_path / "mine"
    join(pd.DataFrame(models), table="models", data=data)
    layers = pd.DataFrame(rows).assign(position="unstated", source="mine")
    said = {each.table: each for each in join(layers, table="layers", data=data)}["runs"].revisions
    assert said.startswith("2 models came at several revisions")
    shown = eval(said.rpartition(": ")[2], {"thermostats": thermostats})  # noqa: S307
    assert shown["model_id"].tolist() == ["me/a", "me/a", "me/b", "me/b"]
    assert shown["last_gain"].notna().all()


def test_a_recipe_that_does_not_fit_leads_to_the_join_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Path(__file__).parents[1] / "readers" / "wandb_export.csv"
    with pytest.raises(UsageError, match="the column of norms is missing") as refused:
        join(export, recipe="hidden-states", data=tmp_path / "mine")
    line = refused.value.next_step.partition(": ")[2]
    with pytest.raises(UsageError, match="its columns are not ours"):
        eval(line, {"thermostats": thermostats})  # noqa: S307
    done = command("join", str(export), "--as", "hidden-states", "--data", "mine", cwd=tmp_path)
    _, option, code = shlex.split(done.stderr.partition("without the recipe: ")[2])
    assert option == "-c"
    with pytest.raises(UsageError, match="its columns are not ours"):
        exec(code, {})  # noqa: S102
    monkeypatch.setenv("THERMOSTATS_DATA", str(tmp_path / "other"))
    with pytest.raises(UsageError, match="the column of norms is missing") as refused:
        join(export, recipe="hidden-states")
    assert "None" not in refused.value.next_step


def test_all_models_that_are_lacking_are_asked_for_at_once(tmp_path: Path) -> None:
    names = ["me/a", "me/b", "me/c"]
    facts = {"layer": 1, "prompt_id": "p", "position": "last", "gain_block": 1.1, "source": "mine"}
    with pytest.raises(DataError, match="does not have") as refused:
        join(pd.DataFrame({"model_id": names, **facts}), table="layers", data=tmp_path / "mine")
    assert [name for name in names if f'model_id="{name}"' in refused.value.next_step] == names


def test_the_command_says_what_shows_several_revisions(tmp_path: Path) -> None:
    frame = tmp_path / "steps.csv"
    rows = [f"me/tiny,step{step},mine,3,2,8,1000,1.{step}" for step in (1, 2)]
    head = "model_id,revision,source,n_layers,n_heads,d_model,n_params,last_gain"
    frame.write_text("\n".join([head, *rows]) + "\n")
    done = command("join", str(frame), "--data", "mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = [each for each in done.stderr.splitlines() if "several revisions" in each]
    _, code = shlex.split(said[0].partition("python ")[2])
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert "step1" in shown and "step2" in shown and "1.2" in shown
