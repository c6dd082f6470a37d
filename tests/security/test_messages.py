"""Messages show what they tell of: names from files and arguments cannot move a cursor or turn text
around."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from thermostats.errors import ThermostatsError, escape_hidden

NAMES = ["a\x1b[2Jb", "a\u202eb", "a\rb", "a\u200bb", "a\x07b", "a\udcffb"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_hidden_is_escaped_in_every_part(name: str) -> None:
    error = ThermostatsError(
        "what", where=name, got=name, allowed=name, next_step=name, rows=[name]
    )
    for text in (str(error), error.where, error.got, error.allowed, error.next_step, *error.rows):
        assert "a\\" in text
        assert escape_hidden(text) == text
        text.encode()


def test_lines_and_other_scripts_are_kept() -> None:
    text = "two\nlines, été, 模型, שלום"
    assert escape_hidden(text) == text


@pytest.mark.skipif(sys.platform == "win32", reason="file names are bytes elsewhere alone")
@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_a_hostile_file_name_gives_a_sentence(tmp_path: Path, flags: list[str]) -> None:
    for name in (b"\x1b[2J\xff.csv", "\u202evsc.csv".encode()):
        path = os.path.join(os.fsencode(tmp_path), name)  # noqa: PTH118
        with open(path, "wb") as stream:  # noqa: PTH123
            stream.write(b"a,b\n1,2\n")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "thermostats",
                "join",
                path,
                "--data",
                str(tmp_path / "mine"),
                *flags,
            ],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        told = (done.stdout + done.stderr).decode()
        assert done.returncode == 2
        assert "Traceback" not in told
        assert escape_hidden(told) == told
        if flags:
            assert json.loads(done.stdout)["error"]["exit_code"] == 2
