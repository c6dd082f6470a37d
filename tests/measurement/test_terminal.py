"""Progress where nobody looks: plain lines, few of them, with the time left."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from thermostats.measurement.terminal import plain_report


def test_a_line_at_the_start_of_a_part_and_then_now_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 10.0, 40.0, 45.0, 80.0, 90.0))
    report = plain_report(every=30, clock=lambda: next(times))
    for done in (0, 1, 5, 6):
        report("gpt2", "gains", done, 25)
    report("gpt2", "gains", 25, 25)
    report("gpt2", "attention", 0, 25)
    assert capsys.readouterr().err.splitlines() == [
        "gpt2: gains",
        "gpt2: gains, 5 of 25, about 160 s left",
        "gpt2: attention",
    ]
