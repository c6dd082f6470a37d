"""Progress: plain lines where nobody looks, few of them, with the time left; a bar on a
terminal."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small

from thermostats.errors import UsageError
from thermostats.measurement import session
from thermostats.measurement.execute import run_specs
from thermostats.measurement.printed import measure_models
from thermostats.measurement.session import Bars, ProgressLines
from thermostats.measurement.spec import Cost, Outcome, Problem, collect_specs


def test_a_line_at_the_start_of_a_part_and_then_now_and_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "perf_counter", iter((0.0, 10.0, 40.0, 45.0, 80.0, 90.0)).__next__)
    report = ProgressLines(every=30).report
    for done in (0, 1, 5, 6):
        report("gpt2", "gains", done, 25)
    report("gpt2", "gains", 25, 25)
    report("gpt2", "attention", 0, 25)
    assert capsys.readouterr().err.splitlines() == [
        "gpt2: gains",
        "gpt2: gains, 5 of 25, about 160 s left",
        "gpt2: attention",
    ]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_bar_moves_and_a_line_says_what_is_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    display = Bars()
    with display.bars as bars:
        report = display.report
        report("lab/a", "gains", 3, 25)
        assert [(task.description, task.completed, task.total) for task in bars.tasks] == [
            ("lab/a gains", 3, 25)
        ]
        report("lab/a", "attention", 25, 25)
        assert [(task.description, task.completed) for task in bars.tasks] == [
            ("lab/a attention", 25)
        ]
        display.print_outcome(
            1,
            2,
            Outcome(
                "lab/a",
                "measured",
                "main",
                runs=("x", "y"),
                rows={"layers": 5, "outputs": 2},
                cost=Cost(seconds=4.2),
            ),
        )
        assert bars.tasks == []
    display = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue())  # type: ignore[attr-defined]
    assert "[1/2] lab/a measured: 2 runs, 7 rows in 4 s" in display


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            Outcome("lab/a", "planned", "main", ("x",), ("y", "z")),
            "[2/3] lab/a planned: 1 runs to measure, 2 finished",
        ),
        (Outcome("lab/a", "skipped", "step5"), "[2/3] lab/a@step5 skipped: every run is finished"),
        (Outcome("lab/a", "failed", "", problem=Problem("no room")), "[2/3] lab/a failed: no room"),
    ],
)
def test_where_nobody_looks_a_line_says_what_became_of_a_model(
    outcome: Outcome, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ProgressLines().print_outcome(2, 3, outcome)
    assert capsys.readouterr().err == f"{line}\n"


def test_measuring_without_its_extra_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "thermostats.measurement.execute", None)
    with pytest.raises(UsageError, match=r"pip install -e '.*\[measure\]'"):
        measure_models(["gpt2"], {}, tmp_path / "mine", dry_run=False)
    assert list(tmp_path.iterdir()) == []


NOTHING_TO_DO = """
import sys
from pathlib import Path
from thermostats.measurement.printed import measure_models
outcomes = measure_models([sys.argv[1]], {"prompts": sys.argv[2], "heritage": "Us"}, sys.argv[3], dry_run=False)
print([outcome.status for outcome in outcomes], sorted({"torch", "transformers", "scipy"} & set(sys.modules)))
"""  # noqa: E501


def test_where_nothing_is_left_to_measure_torch_is_not_loaded(tmp_path: Path) -> None:
    """In a process of its own, as this one has loaded it."""
    folder, prompts = small.save_model(tmp_path / "m"), small.save_prompts(tmp_path)
    data = tmp_path / "data"
    list(run_specs(collect_specs([str(folder)], {"prompts": str(prompts), "heritage": "Us"}), data))
    command = [sys.executable, "-c", NOTHING_TO_DO, str(folder), str(prompts), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['skipped'] []"
