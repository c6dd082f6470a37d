"""The table of what rounding changes is that of the measurement."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_in_the_how_to_is_that_of_the_results() -> None:
    page = (
        (ROOT / "docs/how-to/gguf.md")
        .read_text(encoding="utf-8")
        .split("## What rounding changes")[1]
    )
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    with (ROOT / "benchmarks/results/rounding.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    assert [row[:2] for row in shown[1:]] == [row[:2] for row in rows[1:]]
    for row, measured in zip(shown[1:], rows[1:], strict=True):
        assert [float(x) for x in row[2:]] == [float(f"{100 * float(x):.2g}") for x in measured[2:]]
