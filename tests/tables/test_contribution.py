"""Rows given back: the form of data/external, never without a licence, and read again as they
were."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import command, layer, run, table
from conftest import model as model_row

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables import store
from thermostats.tables.export import CHECKS, FILE, Source, contribute, read_source
from thermostats.tables.export import LICENCE_FILE as LICENCE
from thermostats.tables.schemas import INTERVENED

ROOT = Path(__file__).parents[2]
FILES = ROOT.parent / "shared" / "external" / "standard-model-of-transformers"
sys.path.insert(0, str(ROOT / "scripts" / "external"))
import make  # noqa: E402
from contribution import contributions  # noqa: E402

MINE = Source(
    name="my hooks",
    title="Gains of a small model",
    address="example.org/rows",
    commit="abc",
    licence="CC-BY-4.0",
    licence_file="",
    licence_by="A. Person",
)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with a model that the package lacks, two prompts with their texts, and gains
    of another tool."""
    folder, measured = (
        tmp_path_factory.mktemp("joined") / "mine",
        run(source="my hooks", measure_version="2"),
    )
    texts = [
        {"prompt_set": "two", "prompt_id": name, "text": name, "category": "Plain"} for name in "ab"
    ]
    rows = [
        layer(measured, number, gain, name)
        for number, gain in ((1, 9.0), (2, 1.5), (3, 0.5))
        for name in "ab"
    ]
    frame = pd.DataFrame(rows).drop(columns="run_id")
    thermostats.join(table("models", model_row()), data=folder)
    thermostats.join(pd.DataFrame(texts), table="prompts", data=folder)
    facts = {"model_id": "lab/small", "source": "my hooks", "prompt_set": "two"}
    thermostats.join(frame.assign(**facts), table="layers", data=folder)
    return folder


@pytest.fixture
def mine(joined: Path, tmp_path: Path) -> Path:
    return shutil.copytree(joined, tmp_path / "mine")


def stated(folder: Path, **other: str) -> Path:
    """The folder with a record of whose its rows are."""
    (folder / FILE).write_bytes(Source(**{**vars(MINE), **other}).toml())
    return folder


def test_a_contribution_has_rows_provenance_licence_and_checks(mine: Path, tmp_path: Path) -> None:
    made = contribute(tmp_path / "out", data=stated(mine))
    assert {each.table: each.rows for each in made} == {
        "runs": 1,
        "layers": 6,
        "prompts": 2,
        "models": 1,
    }
    place = tmp_path / "out" / "my hooks"
    assert read_source(place / FILE) == MINE
    assert (place / LICENCE).read_text() == "CC-BY-4.0 by A. Person: example.org/rows, abc.\n"
    runs = store.read_typed(place / "runs.csv", "runs")
    assert runs[["source", "measure_version", "licence", "instrument"]].iloc[0].tolist() == [
        *("my hooks", "external", "CC-BY-4.0", "unstated")
    ]
    assert runs["run_id"].tolist() == [thermostats.run_id(row) for row in runs.to_dict("records")]
    prompts = store.read_typed(place / "prompts.csv", "prompts")
    assert prompts["text"].eq("").all() and prompts["text_sha256"].ne("").all()
    checks = (place / CHECKS).read_text()
    assert (
        "- 6 rows of layers" in checks and "- lab/small" in checks and checks.endswith("- none\n")
    )
    with pytest.raises(UsageError, match="not empty"):
        contribute(tmp_path / "out", data=mine)


def test_interventions_are_no_measurements_and_stay_out(mine: Path, tmp_path: Path) -> None:
    changed = run(
        source="my hooks", prompt_set="", prompt_sha="", measure_version=f"{INTERVENED} 1"
    )
    row = {"run_id": changed["run_id"], "intervention": "do W_V * 2", "operation": "do", "seed": 1}
    row |= {"steps": 0, "n_train": 0, "n_held_out": 4, "n_tokens": 8}
    thermostats.join([table("runs", changed), table("interventions", row)], data=mine)
    stated(mine)
    done = contribute(tmp_path / "contribution", data=mine)
    assert "interventions" not in {each.table for each in done}
    runs = pd.read_csv(next(path for path in (tmp_path / "contribution").rglob("runs.csv")))
    assert len(runs) == 1


def test_who_says_nothing_is_asked_and_the_same_command_goes_on(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"a file that asks was written.*export contribution --data"
    ):
        contribute(tmp_path / "out", data=mine)
    begun = read_source(mine / FILE)
    assert (begun.name, begun.licence) == ("my hooks", "")
    with pytest.raises(UsageError, match="no title, address"):
        contribute(tmp_path / "out", data=mine)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("licence", ["", "CC-BY-NC-4.0"])
def test_without_a_licence_that_lets_rows_ship_nothing_is_written(
    licence: str, mine: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"does not permit that the rows ship.*state in") as caught:
        contribute(tmp_path / "out", data=stated(mine, licence=licence))
    assert caught.value.got == (licence or "none stated") and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"licence_by": ""}, "nobody is named"),
        ({"licence_file": "NONE"}, "nobody is named"),
        ({"name": "another"}, "no own rows of this source"),
        ({"name": "../up"}, "name is that of a folder"),
    ],
)
def test_what_is_stated_wrongly_is_named(
    other: dict[str, str], what: str, mine: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=what):
        contribute(tmp_path / "out", data=stated(mine, **other))


def test_the_command_refuses_what_a_contribution_has_no_part_of(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("export", "contribution", "layers", "--data", mine)
    assert done.returncode == 2 and "has all tables of your rows" in done.stderr
    done = command("export", "contribution", "--data", stated(mine), "--json")
    rows = {each["table"]: each["path"] for each in json.loads(done.stdout)}
    assert Path(rows["layers"]) == Path("contribution/my hooks/layers.csv")


@pytest.mark.skipif(not FILES.is_dir(), reason="no ../shared/external")
def test_rows_that_ship_come_out_the_same_by_join_and_contribution(tmp_path: Path) -> None:
    results = json.loads((FILES / "phase238_instruct_vs_base.json").read_text(encoding="utf-8"))[
        "results"
    ]
    names = {"Base-0.5B": "Qwen/Qwen2.5-0.5B", "Instruct-0.5B": "Qwen/Qwen2.5-0.5B-Instruct"}
    norms = pd.concat(
        pd.DataFrame({"model_id": id_, "layer": range(25), "norm": results[name]["mean_U"]})
        for name, id_ in names.items()
    )
    constants = {
        "position": "last",
        "source": "again",
        "dtype": "float16",
        "prompt_set": "standard_model_pair_15",
    }
    mine = tmp_path / "mine"
    thermostats.join(norms, recipe="hidden-states", constants=constants, data=mine)
    contribute(tmp_path / "out", data=stated(mine, name="again", licence="MIT"))
    (reader,) = contributions(tmp_path / "out")
    assert make.licence(reader.SOURCE, tmp_path / "out" / "again").startswith(b"MIT by A. Person")
    rows = reader.tables(tmp_path / "out" / "again").rows
    assert {name: len(each) for name, each in rows.items()} == {
        "runs": 2,
        "layers": 46,
        "summaries": 2,
    }
    made = tmp_path / "layers.csv"
    made.write_bytes(store.encode_csv(pd.DataFrame(rows["layers"]), "layers"))
    assert made.read_bytes() == (tmp_path / "out" / "again" / "layers.csv").read_bytes()
    runs = store.load("runs")
    shipped = runs[runs["prompt_set"] == "standard_model_pair_15"]
    theirs = store.load("layers").merge(shipped[["run_id", "model_id"]], on="run_id")
    ours = pd.DataFrame(rows["layers"]).merge(
        pd.DataFrame(rows["runs"])[["run_id", "model_id"]], on="run_id"
    )
    both = theirs.merge(
        ours, on=["model_id", "layer", "position"], suffixes=("", "_again"), validate="1:1"
    )
    assert len(both) == 46
    for column in ("gain_block", "norm_in"):
        assert np.array_equal(both[column].astype(float), both[f"{column}_again"].astype(float))
    checks = (tmp_path / "out" / "again" / CHECKS).read_text()
    assert (
        "Qwen/Qwen2.5-0.5B, penultimate_gain: 1.066 by again, 1.066 by "
        "standard-model-of-transformers" in checks
    )


def test_rows_under_another_licence_are_not_given_away(mine: Path, tmp_path: Path) -> None:
    (path,) = (mine / "measured" / "runs").glob("*.csv")
    store.save(store.read_typed(path, "runs").assign(licence="MIT"), "runs", path)
    with pytest.raises(DataError, match="under another licence"):
        contribute(tmp_path / "out", data=stated(mine))
