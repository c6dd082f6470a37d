"""Where output goes: to pipes that close early, to full disks, to machines that want JSON, to
terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import command, finding, table

from thermostats.cli.tools import create_claim
from thermostats.errors import DataError, suggest_nearest
from thermostats.tables import store

COMMAND = [sys.executable, "-m", "thermostats"]


def in_terminal(*arguments: str, **environment: str) -> tuple[str, str]:
    """What a command shows on a terminal: standard output, standard error."""
    shown, said = (pty.openpty() for _ in range(2))
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=shown[1],
        stderr=said[1],
        env={**os.environ, "TERM": "xterm", **environment},
    )
    for descriptor in (shown[1], said[1]):
        os.close(descriptor)
    texts = []
    for descriptor in (shown[0], said[0]):
        parts = []
        while True:
            try:
                parts.append(os.read(descriptor, 65536))
            except OSError:  # Linux says so where the other end is closed
                break
            if not parts[-1]:
                break
        os.close(descriptor)
        texts.append(b"".join(parts).decode())
    assert process.wait(timeout=60) == 0
    return texts[0], texts[1]


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize("asked", [("ls", "claims"), ("ls", "claims", "--json"), ("ls", "nothing")])
def test_what_a_terminal_cannot_encode_is_replaced(encoding: str, asked: tuple[str, ...]) -> None:
    """In JSON it is escaped, so that nothing is lost."""
    done = subprocess.run(
        [*COMMAND, *asked],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        check=False,
    )
    assert b"Traceback" not in done.stderr and done.returncode == (2 if "nothing" in asked else 0)
    whole = subprocess.run([*COMMAND, *asked], capture_output=True, check=False).stdout
    if "--json" in asked:
        assert json.loads(done.stdout.decode(encoding)) == json.loads(whole)
    elif encoding != "cp1252":
        wanted = whole.decode().encode(encoding, "replace")
        assert done.stdout == wanted


def test_an_argument_that_is_no_text_is_refused_with_the_command_that_was_meant() -> None:
    """Typed in Latin-1, where the terminal's encoding is UTF-8."""
    done = subprocess.run(
        [*COMMAND, "ls", "runs", "--lab", b"Ma\xf1ana"], capture_output=True, check=False
    )
    assert done.returncode == 2 and done.stdout == b""
    assert b"an argument is no text" in done.stderr
    meant = "thermostats ls runs --lab 'Mañana'\n"
    assert done.stderr.decode().endswith(meant) and "UTF8" not in done.stderr.decode()


def test_an_argument_in_utf_8_is_not_read_in_ascii() -> None:
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    asked = [*COMMAND, "ls", "runs", "--lab", "Mañana".encode()]
    done = subprocess.run(asked, capture_output=True, check=False, env={**os.environ, **plain})
    assert done.returncode == 2 and b"text in ascii" in done.stderr
    assert b"PYTHONUTF8=1 before the same command" in done.stderr
    again = {**os.environ, **plain, "PYTHONUTF8": "1"}
    done = subprocess.run(asked, capture_output=True, check=False, env=again)
    assert b"no runs of this lab" in done.stderr


def test_a_path_may_be_of_any_bytes(tmp_path: Path) -> None:
    """As POSIX has them: of a folder that is there, and of a new one that is named as a path."""
    folder = os.fsencode(tmp_path) + b"/d\xf1"
    asked = ["export", folder, "models"]
    done = subprocess.run([*COMMAND, *asked], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"models.csv" in os.listdir(folder)  # noqa: PTH208
    done = subprocess.run([*COMMAND, *asked], capture_output=True, check=False)
    assert done.returncode == 2 and b"is not empty" in done.stderr
    done = subprocess.run(
        [*COMMAND, "measure", folder, "--data", tmp_path / "mine"], capture_output=True, check=False
    )
    assert done.returncode == 2 and b"the path of the model is no text" in done.stderr


@pytest.mark.parametrize("what", ["a listing", "an analysis"])
def test_a_reader_that_stops_gets_no_traceback(what: str, tmp_path: Path) -> None:
    asked = [*COMMAND, "ls", "columns"]
    if what == "an analysis":
        asked = [sys.executable, str(create_claim("depth helps", tmp_path))]
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("what", ["prompts", "columns"])
def test_a_full_disk_gives_a_sentence(what: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "ls", what], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "thermostats: the output cannot be written: No space left on device.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "where", "words"),
    [
        (["ls", "model"], 2, "", "thermostats ls models"),
        (["chek"], 2, "", "did you mean 'check'?"),
        (["power", "--models", "3"], 2, "", "thermostats power --help"),
        (
            ["check", "--data", "nowhere"],
            2,
            "nowhere",
            "begins it: thermostats measure MODEL --data nowhere",
        ),
    ],
)
def test_a_refusal_is_json_too(
    arguments: list[str], code: int, where: str, words: str, tmp_path: Path
) -> None:
    done = command(*arguments, "--json", cwd=tmp_path)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["exit_code"], error["where"]) == (code, code, where)
    assert words in error["next_step"]
    assert done.stderr == f"thermostats: {error['message']}\n"


def test_a_terminal_gets_a_table_and_a_next_step_a_pipe_neither() -> None:
    shown, said = in_terminal("ls", "prompts")
    assert "\x1b[1m" in shown
    assert "Next: thermostats measure MODEL --prompts SET" in said
    piped = command("ls", "prompts")
    assert "\x1b" not in piped.stdout
    assert piped.stdout.startswith("prompt_set\tprompts\t")
    assert piped.stderr == ""


def test_findings_are_rounded_for_people_and_whole_in_json(tmp_path: Path) -> None:
    numbers = {
        "estimate": -0.8784280431089985,
        "lower": -0.977812345,
        "upper": -0.45612345,
        "n_models": 123456,
    }
    rows = table("findings", finding("C01", **numbers), finding("C04", finding="C04"))
    store.save(rows, "findings", tmp_path / "findings.csv")
    _, row = command("findings", "c01", "--out", tmp_path).stdout.splitlines()
    assert row.split("\t") == [
        "C01",
        "claim",
        "supported",
        "",
        "x",
        "−0.88 [−0.98, −0.46]",
        "123456",
        "2",
    ]
    told, _ = json.loads(command("findings", "--out", tmp_path, "--json").stdout)
    assert (told["estimate"], told["lower"]) == (-0.8784280431089985, -0.977812345)
    assert (
        "−0.88 [−0.98, −0.46]" in in_terminal("findings", "--out", str(tmp_path), COLUMNS="200")[0]
    )


def lines_at_80(*arguments: str) -> tuple[list[str], str]:
    """Lines of a command on a terminal of 80 columns, without colours, and what it says on standard
    error."""
    shown, said = in_terminal(*arguments, COLUMNS="80", NO_COLOR="1")
    return [
        re.sub("\x1b\\[[0-9;]*m", "", line) for line in shown.replace("\r", "").splitlines()
    ], said


@pytest.mark.parametrize("what", ["models", "claims", "columns"])
def test_nothing_is_cut_at_80_columns(what: str) -> None:
    lines, said = lines_at_80("ls", what)
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    rows = json.loads(command("ls", what, "--json").stdout)
    names = lines[0].split()
    first = [line.split()[0] for line in lines[1:] if line[:1].strip()]
    assert first == [str(row[names[0]]).split()[0] for row in rows]
    left = said.partition("left out for lack of width: ")[2].partition(";")[0].split(", ")
    assert not set(left) & set(names)


def test_no_color_leaves_no_colour_in_help() -> None:
    colour = "\x1b[1;36m"
    assert colour in in_terminal("ls", "--help")[0]
    plain = in_terminal("ls", "--help", NO_COLOR="1")[0]
    assert not any(f"\x1b[{style}3{n}m" in plain for style in ("", "1;") for n in range(1, 8))


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert suggest_nearest("ELEUTHERAI/pythia-160", ["EleutherAI/pythia-160m", "gpt2"]) == (
        "did you mean EleutherAI/pythia-160m?"
    )
    assert suggest_nearest("xyz", ["models"], "look around") == "look around"


def test_wrong_rows_are_listed_up_to_ten() -> None:
    error = DataError("rows are wrong", rows=[f"row {n}" for n in range(12)], next_step="mend them")
    assert str(error).splitlines()[1:] == [
        *(f"  row {n}" for n in range(10)),
        "  … and 2 more",
        "Next: mend them",
    ]


@pytest.mark.slow
def test_an_interrupted_report_says_so_and_nothing_else(tmp_path: Path) -> None:
    """One claim is through, fits of the other are under way, in another process or, on one core, in
    this one."""
    process = subprocess.Popen(
        [*COMMAND, "report", "C20", "C03", "--out", str(tmp_path / "report")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "THERMOSTATS_CACHE": "off"},
    )
    assert process.stderr is not None
    assert ": building 2 claims; " in process.stderr.readline()
    assert " done in " in process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    told = process.stderr.read()
    assert process.wait(timeout=30) == 130
    assert (
        told
        == "\nthermostats: interrupted; every file is complete; the same command resumes where it "
        "stopped\n"
    )
    assert "index.html" in command("report", "C20", "--out", tmp_path / "report").stdout
