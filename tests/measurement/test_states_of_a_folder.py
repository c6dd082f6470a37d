"""What every verb prints for a data folder that is not there, is empty, was measured into, and was
joined into."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import command

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
from safetensors.numpy import load_file, save_file

import thermostats
from thermostats.errors import UsageError
from thermostats.tables import folders

STORIES = Path(__file__).parents[3] / "shared" / "models" / "stories260k"
NEW = ("new", "empty")
"""States in which there is nothing to read."""
HELD = ("measured", "joined")
READERS = [
    "check --data DATA",
    *(
        f"ls {what} --data DATA"
        for what in (
            "architectures",
            "claims",
            "columns",
            "evidence",
            "models",
            "prompts",
            "runs",
            "tables",
        )
    ),
    "ls columns layers --data DATA",
    "ls models --own --data DATA",
    "ls runs --own --lab LAB --data DATA",
    "report C06 --check --data DATA --out OUT",
    "export OUT --data DATA",
    "export OUT runs --format parquet --data DATA",
    "cite --data DATA",
    "compare BASE TUNED --data DATA",
    "forget --source SOURCE --dry-run --data DATA",
    "forget --source SOURCE --data DATA",
    "set MODEL lab=Us --data DATA",
]
SLOW = [
    "needs C05 --data DATA",
    "predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab EleutherAI --data DATA",
    "power C05 --models 20 --labs 5 --studies 20 --data DATA",
    "next C01 --models 2 --data DATA",
    "new heritage --folder OUT --data DATA",
    "report C06 --data DATA --out OUT",
    "report C02 --data DATA --out OUT",
]
WRITERS = [
    "join ROWS --data DATA",
    "join ROWS --dry-run --data DATA",
    "measure BASE TUNED --prompts PROMPTS --what gains --data DATA",
    "steer BASE --gain last --to 1.1 --steps 2 --prompts SIX --data DATA",
    "do BASE W_V*2 --prompts PROMPTS --data DATA",
    "measure BASE TUNED --prompts PROMPTS --what gains --dry-run --data DATA",
]
OTHERS = [
    "version",
    "prove BASE --prompts PROMPTS --offline",
    "doctor --data DATA",
    "new claim depth-helps --folder OUT",
    "findings C06 --out OUT",
]
"""Neither read tables nor write them, or look at them where they are."""
NUMBER = re.compile(r"[\d.]+( (s|min|h)\b)?")
NEED_NOTHING = [line for line in OTHERS if not line.startswith("findings")]
"""Those that need no report either."""
CHECKED = {"report C06 --check --data DATA --out OUT"}
"""Ends with 1 where the report is not as the rows are, which it is not yet."""
OWN = {"measured": ("thermostats", "base", "Us"), "joined": ("my hooks", "me/one", "Me")}
"""By state: whose rows they are, a model of the user's own, and its lab."""


def save_pair(folder: Path) -> None:
    """A base model, one tuned from it, prompts of their words, and rows of somebody's hooks."""
    small.save_model(folder / "base")
    tuned = small.save_model(folder / "tuned")
    tensors = load_file(tuned / "model.safetensors")
    name = "transformer.h.1.mlp.c_fc.weight"
    tensors[name] = tensors[name] + np.float32(0.1)
    save_file(tensors, tuned / "model.safetensors", metadata={"format": "pt"})
    three = small.save_prompts(folder).read_text().splitlines()
    turned = [" ".join(reversed(line.split())) for line in three]
    (folder / "six.txt").write_text("\n".join([*three, *turned]) + "\n")
    gains = [
        {
            "model_id": "EleutherAI/pythia-70m",
            "layer": layer,
            "prompt_id": prompt,
            "gain_block": 1.2 + layer / 10,
        }
        for layer in range(1, 7)
        for prompt in ("p1", "p2", "p3")
    ]
    facts = thermostats.load("models").query("model_id == 'EleutherAI/pythia-70m'").iloc[[0]]
    facts.assign(model_id="me/one", heritage="Me", source="my hooks").to_csv(
        folder / "models.csv", index=False
    )
    rows = pd.DataFrame(gains).assign(revision="main", position="last", source="my hooks")
    rows.to_csv(folder / "rows.csv", index=False)
    rows.assign(model_id="me/one").to_csv(folder / "own.csv", index=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data folder in every state, and what is measured and joined."""
    folder = tmp_path_factory.mktemp("states")
    save_pair(folder)
    (folder / "empty").mkdir()
    for words in (
        "measure base tuned --prompts three.txt --what gains,weights --lab Us --data measured",
        "join models.csv --data joined",
        "join own.csv --data joined",
    ):
        done = command(*words.split(), cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def typed(line: str, state: str) -> list[str]:
    """The words of a command."""
    source, model, lab = OWN.get(state, OWN["measured"])
    stands_for = {"DATA": state, "OUT": "out", "SOURCE": source, "MODEL": model, "LAB": lab}
    stands_for |= {"BASE": "base", "TUNED": "tuned", "PROMPTS": "three.txt", "ROWS": "rows.csv"}
    stands_for["SIX"] = "six.txt"
    return [stands_for.get(word, word) for word in line.split()]


@pytest.fixture
def here(place: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it."""
    yield shutil.copytree(place, tmp_path / "here")


def ran(line: str, state: str, folder: Path) -> Any:
    """A command that ended without a traceback, a bare warning, or a word of other libraries."""
    done = command(*typed(line, state), cwd=folder)
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr, done.stderr
    return done


def check_text(line: str, state: str, folder: Path) -> str:
    done = ran(line, state, folder)
    assert done.returncode == int(line in CHECKED), done.stderr
    assert done.stdout.strip()
    return str(done.stdout)


def check_refused(line: str, state: str, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    done = ran(line, state, folder)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert ("no such data folder" if state == "new" else "has no tables yet") in done.stderr
    assert done.stderr.rstrip().endswith(f"begins it: thermostats measure MODEL --data {state}")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("state", HELD)
@pytest.mark.parametrize(
    "line", [*READERS, *WRITERS, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)]
)
def test_every_verb_prints_its_text_where_there_are_rows(line: str, state: str, here: Path) -> None:
    check_text(line, state, here)


@pytest.mark.slow
@pytest.mark.parametrize("line", [*READERS, *WRITERS, *SLOW, *NEED_NOTHING])
def test_no_verb_stumbles_over_a_terminal_of_ascii(
    line: str, here: Path, place: Path, tmp_path: Path
) -> None:
    """What is printed is what a terminal of UTF-8 shows, with ? in the place of other characters;
    numbers aside, among which are times."""
    words = typed(line, "joined")
    whole = command(*words, cwd=shutil.copytree(place, tmp_path / "too"), PYTHONIOENCODING="utf-8")
    done = command(*words, cwd=here, PYTHONIOENCODING="ascii")
    assert done.returncode == whole.returncode == int(line in CHECKED), done.stderr
    assert "Traceback" not in done.stderr and "UnicodeEncodeError" not in done.stderr
    replaced = whole.stdout.encode("ascii", "replace").decode()
    said, expected = (NUMBER.sub("0", text) for text in (done.stdout, replaced))
    assert said.replace("/here", "/too") == expected


@pytest.mark.parametrize("state", NEW)
@pytest.mark.parametrize("line", [*READERS, *SLOW])
def test_what_only_reads_is_refused_with_the_line_that_begins_a_folder(
    line: str, state: str, here: Path
) -> None:
    check_refused(line, state, here)


@pytest.mark.parametrize("state", NEW)
@pytest.mark.parametrize("line", WRITERS)
def test_what_writes_begins_a_folder(line: str, state: str, here: Path) -> None:
    check_text(line, state, here)
    dry = "--dry-run" in line
    assert (here / state / folders.MARK).is_file() != dry
    if not dry:
        assert "EleutherAI/pythia-12b" in check_text("ls models --data DATA", state, here)


@pytest.mark.parametrize("state", [*NEW, *HELD])
@pytest.mark.parametrize("line", NEED_NOTHING)
def test_what_asks_for_no_rows_needs_none(line: str, state: str, here: Path) -> None:
    check_text(line, state, here)


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
def test_a_report_is_written_into_an_empty_folder_and_not_read_from_one(
    there: bool, here: Path
) -> None:
    if there:
        (here / "out").mkdir()
    refused = ran("findings C06 --out OUT", "measured", here)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.rstrip().endswith("make it: thermostats report C06 --out out")
    assert (here / "out").is_dir() == there
    check_text("report C06 --check --data DATA --out OUT", "measured", here)
    check_text("report C06 --data DATA --out OUT", "measured", here)
    assert "C06" in check_text("findings C06 --out OUT", "measured", here)


@pytest.mark.parametrize(
    "line", ["export OUT runs --data DATA", "new claim depth-helps --folder OUT"]
)
def test_other_files_are_written_into_an_empty_folder_too(line: str, here: Path) -> None:
    (here / "out").mkdir()
    check_text(line, "joined", here)
    assert any((here / "out").iterdir())


def test_every_verb_and_option_that_names_such_a_folder_is_tried() -> None:
    import typer

    from thermostats.cli.app import app

    def verbs(below: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
        for name, each in getattr(below, "commands", {}).items():
            yield from verbs(each, (*path, name))
        if not hasattr(below, "commands"):
            yield " ".join(path), below

    lines = [*READERS, *SLOW, *WRITERS, *OTHERS]
    for verb, declared in verbs(typer.main.get_command(app)):
        named = {option for each in declared.params for option in each.opts} & {
            "--data",
            "--out",
            "--folder",
        }
        tried = [line for line in lines if line.startswith(verb)]
        assert tried and all(any(option in line for line in tried) for option in named), verb


def test_two_measured_models_are_compared_block_by_block(here: Path) -> None:
    said = check_text("compare BASE TUNED --data DATA", "measured", here)
    head = "Gains of the blocks on the same prompts, tuned minus base, 94% intervals:"
    assert said.splitlines().count(head) == 1
    paired = thermostats.paired("base@main", "tuned@main", data=here / "measured")
    shown = [line.split("\t") for line in said.partition(head)[2].split("\n")[2:] if line]
    assert [int(row[0]) for row in shown] == paired["layer"].tolist()
    for column, name in enumerate(
        ("n_prompts", "first", "second", "difference", "lower", "upper"), 1
    ):
        assert [float(row[column]) for row in shown] == pytest.approx(
            paired[name].tolist(), rel=1e-3
        )


@pytest.mark.slow
@pytest.mark.skipif(not STORIES.is_dir(), reason="the model is not on this machine")
def test_a_real_model_and_a_copy_that_was_changed_are_compared(tmp_path: Path) -> None:
    shutil.copytree(STORIES, tmp_path / "stories", copy_function=shutil.copyfile)
    shutil.copytree(STORIES, tmp_path / "changed", copy_function=shutil.copyfile)
    weights = tmp_path / "changed" / "model.safetensors"
    tensors = load_file(weights)
    name = next(each for each in tensors if "layers.2.mlp.down_proj" in each)
    save_file(
        {**tensors, name: tensors[name] * np.float32(1.1)}, weights, metadata={"format": "pt"}
    )
    named = ("--set", "name=stories")  # the tables have its weights under another name
    for words in (("stories", *named), ("changed",)):
        measured = command("measure", *words, "--what", "gains", "--data", "mine", cwd=tmp_path)
        assert measured.returncode == 0, measured.stderr
    said = command("compare", "stories", "changed", "--data", "mine", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    rows = [
        line.split("\t") for line in said.stdout.partition("94% intervals:")[2].splitlines()[2:]
    ]
    difference = {int(row[0]): float(row[4]) for row in rows}
    assert difference[1] == difference[2] == 0 != difference[3]


SHAPE = {"n_layers": 24, "n_heads": 16, "d_head": 64, "n_params": 4e8}
CALLS: dict[str, Callable[[Path], object]] = {
    "check": thermostats.check,
    "citations": thermostats.citations,
    "compare": lambda data: thermostats.compare(
        data.parent / "base", data.parent / "tuned", data=data
    ),
    "contribute": lambda data: thermostats.contribute(data.parent / "contribution", data=data),
    "export": lambda data: thermostats.export(data.parent / "tables", data=data),
    "features": thermostats.features,
    "forget": lambda data: thermostats.forget("my hooks", data=data),
    "gain_rows": lambda data: thermostats.gain_rows("penultimate_gain", data=data),
    "load": lambda data: thermostats.load("models", data),
    "models": thermostats.models,
    "model_rows": lambda data: thermostats.model_rows(data=data),
    "next_models": lambda data: thermostats.next_models("C01", models=2, data=data),
    "paired": lambda data: thermostats.paired("base", "tuned", data=data),
    "power": lambda data: thermostats.power("C05", models=[20], labs=[5], data=data),
    "predict_gain": lambda data: thermostats.predict_gain(SHAPE, lab="EleutherAI", data=data),
    "profile": lambda data: thermostats.profile("EleutherAI/pythia-70m", data=data),
    "prompt_rows": lambda data: thermostats.prompt_rows(data=data),
    "report": lambda data: thermostats.report("C06", data=data, out=data.parent / "out"),
    "trajectories": lambda data: thermostats.trajectories(model="EleutherAI/pythia-70m", data=data),
    "tree": lambda data: thermostats.tree(data=data),
}
"""By name: every public function that reads a data folder, called with one."""


def test_every_public_function_that_takes_a_data_folder_is_called() -> None:
    public = {name: getattr(thermostats, name) for name in thermostats.__all__}
    taking = {
        name
        for name, each in public.items()
        if inspect.isfunction(each) and "data" in inspect.signature(each).parameters
    }
    assert taking == {*CALLS, "do", "join", "measure", "steer"}


@pytest.mark.parametrize("state", NEW)
@pytest.mark.parametrize("name", CALLS)
def test_a_function_that_reads_refuses_a_folder_without_tables(
    name: str, state: str, here: Path
) -> None:
    before = sorted(here.rglob("*"))
    with pytest.raises(UsageError, match=r"no such data folder|has no tables yet") as caught:
        CALLS[name](here / state)
    assert caught.value.where == str(here / state)
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize("state", NEW)
def test_functions_that_write_begin_a_folder(state: str, here: Path) -> None:
    thermostats.join(here / "models.csv", data=here / state)
    assert "me/one" in set(thermostats.models(here / state)["model_id"])
    other = here / f"{state} too"
    if state == "empty":
        other.mkdir()
    rows = thermostats.measure(
        here / "base", data=other, prompts=here / "three.txt", what="gains", heritage="Us"
    )
    assert len(rows) and "base" in set(thermostats.models(other)["model_id"])


def test_the_variable_names_such_a_folder_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOSTATS_DATA", str(here / "empty"))
    with pytest.raises(UsageError, match="has no tables yet"):
        thermostats.load("models")
    thermostats.join(here / "models.csv")
    assert "me/one" in set(thermostats.load("models")["model_id"])
