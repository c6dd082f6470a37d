"""Next steps run as they are pasted, in a folder with a space, or name what only the user knows.

Of every refusal that any test meets `conftest.py` tries the lines, and that test fails where one
does not run. Here are the joins and commands whose lines are held against what they should give,
and lines that must be told from good ones.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pasted import Refusal, code_in, faults, watched

import thermostats
from thermostats.errors import ThermostatsError, build_unknown_error, join_some
from thermostats.next_steps import Code, call, write_command, write_file_read, write_value

ROOT = Path(__file__).parents[1]
FRAME = pd.DataFrame(
    {"model": "a-1", "block": [1, 2, 3, 4], "text": "p", "my gain": [1.1, 1.2, 0.9, 1.3]}
)
NAMES = {"model": "model_id", "block": "layer", "text": "prompt_id", "my gain": "gain_block"}
FIXED = {"source": "hooks", "position": "last"}
MODEL = {
    "model_id": "a-1",
    "heritage": "A",
    "n_layers": 4,
    "n_heads": 4,
    "d_model": 64,
    "n_params": 1_000_000,
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of one model."""
    data = tmp_path_factory.mktemp("begun") / "eigene Zeilen"
    thermostats.join(pd.DataFrame([MODEL]), data=data)
    return data


@pytest.fixture
def folder(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(begun, begun.name)
    return tmp_path


Spoil = Callable[[pd.DataFrame], pd.DataFrame]
SPOILT: dict[str, tuple[Spoil, int]] = {
    "one wrong cell": (lambda df: df.assign(**{"my gain": ["x", 1.2, 0.9, 1.3]}), 3),
    "an empty row before a wrong cell": (
        lambda df: df.assign(**{"my gain": [1.1, 1.2, "x", 1.3]}),
        3,
    ),
    "per cent": (lambda df: df.assign(**{"my gain": df["my gain"] * 100}), 4),
    "layers from 0": (lambda df: df.assign(block=df["block"] - 1), 4),
    "layers in texts": (lambda df: df.assign(block="block_" + df["block"].astype(str)), 4),
    "a key twice": (
        lambda df: pd.concat([df, df.assign(**{"my gain": 1.0})], ignore_index=True),
        4,
    ),
    "a space at the end": (lambda df: df.assign(text=["p", "p ", "p", "p"]), 4),
    "a column that says nothing": (lambda df: df.assign(note="x"), 4),
    "names that are no names": (
        lambda df: df.assign(text=["007", "1e5", "n/a", "p"], **{"my gain": [1.1, 1.2, 0.9, "x"]}),
        3,
    ),
}
WRITE: dict[str, Callable[[pd.DataFrame, str], object]] = {
    ".csv": lambda df, path: df.to_csv(path, index=False),
    ".tsv": lambda df, path: df.to_csv(path, index=False, sep="\t"),
    ".json": lambda df, path: df.to_json(path, orient="records"),
    ".jsonl": lambda df, path: df.to_json(path, orient="records", lines=True),
    ".parquet": lambda df, path: df.to_parquet(path),
}
SOURCES = ("frame", "frame of nullable numbers", "records", *WRITE)
ASKED = [
    (name, source)
    for name in SPOILT
    for source in SOURCES
    if source in ("frame", ".csv") or name in ("one wrong cell", "names that are no names")
]
"""What is wrong with the rows, in a frame and a file; and every kind of rows, with a change of rows
and of texts."""


@pytest.mark.parametrize(("name", "source"), ASKED)
def test_the_line_of_a_join_joins_the_rows(name: str, source: str, folder: Path) -> None:
    spoil, rows = SPOILT[name]
    df: Any = spoil(FRAME)
    if source == "frame of nullable numbers":
        df = df.convert_dtypes().set_index(pd.Index([5] * len(df)))
    if source == "records":
        df = df.to_dict("records")
    if source == ".parquet":
        df = df.astype({column: str for column in df if df[column].dtype == object})
    given: Any = df
    if source in WRITE:
        given = f"meine Zeilen{source}"
        WRITE[source](df, given)
    if name.startswith("an empty row") and source == ".csv":
        text = Path(given).read_text().splitlines()
        Path(given).write_text("\n".join([text[0], ",,,", *text[1:]]))
    how: dict[str, Any] = {"mapping": NAMES, "constants": FIXED, "data": "eigene Zeilen"}
    with pytest.raises(ThermostatsError) as refused:
        thermostats.join(given, **how)
    (line,) = code_in(refused.value.next_step)
    done = eval(line, {"thermostats": thermostats, "pd": pd, "df": df})  # noqa: S307
    assert {table.table: table.added for table in done}["layers"] == rows
    if name == "names that are no names":
        held = thermostats.load("layers", "eigene Zeilen", models=True)
        assert set(held.loc[held["source"] == "hooks", "prompt_id"]) == {"007", "1e5", "n/a"}


@pytest.mark.slow  # processes
@pytest.mark.parametrize(
    "words",
    [
        ["join", "meine Zeilen.csv", "--data", "eigene Zeilen"],
        [
            "join",
            "Normen.csv",
            "--as",
            "hidden-states",
            "--constant",
            "position=last",
            "--data",
            "eigene Zeilen",
        ],
        ["forget", "--source", "hook", "--data", "eigene Zeilen"],
        ["set", "a-1", "My lab", "--data", "eigene Zeilen"],
        ["ls", "model", "--data", "eigene Zeilen"],
    ],
)
def test_the_command_of_a_refusal_runs_as_it_stands(words: list[str], folder: Path) -> None:
    FRAME.to_csv("meine Zeilen.csv", index=False)
    states = {"model": "a-1", "state": range(5), "norm": [1.0, 1.2, 1.3, 1.5, 1.6]}
    pd.DataFrame(states).to_csv("Normen.csv")
    how = {"mapping": NAMES, "constants": FIXED, "data": "eigene Zeilen"}
    if words[0] == "forget":
        thermostats.join(FRAME, **how)
    program = [sys.executable, "-m", "thermostats"]
    refused = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
    assert refused.returncode == (1 if "Normen.csv" in words else 2), (
        refused.stderr
    )  # a damaged file is no wrong use
    step = refused.stderr.partition("Next: ")[2]
    here = re.search(r"cat > .*\n(?:.*\n)*?END\nthermostats .*", step)
    line = (
        here[0]
        if here
        else re.search(
            r"(?:thermostats|python -c) "
            r".*",
            step,
        )[0]
    )  # type: ignore[index]
    run = line.replace("thermostats join", f"{shlex.join(program)} join") if here else line
    run = re.sub(r"^thermostats", shlex.join(program), run)
    run = re.sub(r"^python", shlex.quote(sys.executable), run)
    done = subprocess.run(run, shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert done.returncode == 0, f"{run}\n{done.stderr}"


DF = pd.DataFrame(
    {
        "model_id": list("abcdef"),
        "heritage": list("xxyyzz"),
        "gain": [1.1, 1.2, 0.9, 1.3, 1.0, 0.8],
        "x": range(6),
    }
)
GOOD = (
    'thermostats.fit_line(df, "gain", "x")',
    'without y: thermostats.fit_line(df.drop(columns="x"), "gain") or another',
    'df["gain"] or df.assign(gain=lambda t: t["gain"] + 1)',
    "thermostats.fit_line(df, OUTCOME, group=None)",
    "thermostats ls models --data 'meine Daten/rows'; --json is for machines",
    "thermostats needs C03, which lists models",
    "thermostats measure MODEL --lab LAB",
    'thermostats.report("C03")',
    "rename one of both",
)
WRONG = {
    'thermostats.fit_line(df, "gain", sed=1)': "sed",
    'thermostats.fit_lines(df, "gain")': "has no fit_lines",
    'thermostats.fit_line(table, "gain")': "nobody has table",
    'thermostats.fit_line(df, "gain", "y")': "is refused as before",
    'df["nothing"]': "KeyError",
    'thermostats.fit_line(df.assign(x=lambda), "gain")': "no expression",
    "thermostats ls models --data meine Daten/rows": "not quoted",
    "thermostats ls models --dat rows": "--dat",
    "thermostats lst models": "no verb lst",
    "thermostats measure --lab": "requires",
    "thermostats join 'rows": "no line of a shell",
    "python -c 'import thermostats; print(thermostats.load(tabel=1))'": "tabel",
}


def refusal_ending_in(step: str) -> Refusal:
    with watched() as met, pytest.raises(ThermostatsError):
        thermostats.fit_line(DF, "gain", "y")
    refusal = met[-1]  # after the one that is told in the user's names
    return replace(refusal, error=refusal.error.replace_next_step(step), site=step)


@pytest.mark.parametrize("step", GOOD)
def test_a_line_that_runs_is_let_pass(step: str) -> None:
    assert faults([refusal_ending_in(step)]) == []


@pytest.mark.parametrize("step", WRONG)
def test_a_line_that_does_not_run_is_named(step: str) -> None:
    (fault,) = faults([refusal_ending_in(step)])
    assert fault.startswith(step) and WRONG[step] in fault


def test_a_message_names_the_five_nearest_of_many() -> None:
    names = [f"column_{number}" for number in range(130)]
    assert join_some(names[:30]) == ", ".join(names[:30])
    assert (
        join_some(names, "column_77").startswith("column_77, ")
        and join_some(names, "x").count(", ") == 4
    )
    assert join_some(names, "column_77").endswith(" and 125 more")
    wide = pd.DataFrame({name: [1.0, 2.0] for name in names})
    for refuse in (
        lambda: thermostats.fit_line(wide, "colum_77", model=None),
        lambda: _raise(build_unknown_error("no", "x", names)),
    ):
        with pytest.raises(ThermostatsError) as refused:
            refuse()
        assert "125 more" in str(refused.value) and len(str(refused.value)) < 400


def _raise(error: Exception) -> None:
    raise error


def test_values_are_written_as_python_has_them() -> None:
    values = [
        1,
        np.int64(1),
        np.float32(0.5),
        True,
        None,
        'a "b"',
        Path("x y"),
        {"k": [1, (2,)]},
        Code("df"),
    ]
    texts = ["1", "1", "0.5", "True", "None", '"a \\"b\\""', '"x y"', '{"k": [1, (2,)]}', "df"]
    assert [write_value(value) for value in values] == texts
    assert call("join", Code("df"), data="x y") == 'thermostats.join(df, data="x y")'
    line = write_command(
        "set", "m", "lab=My lab", data="x y", own=True, constant=["a=1", "b=2"], revision=""
    )
    assert line == "thermostats set m 'lab=My lab' --data 'x y' --own --constant a=1 --constant b=2"
    assert (
        write_file_read("a b.tsv")
        == 'pd.read_csv("a b.tsv", sep="\\t", dtype=str, keep_default_na=False)'
    )
