"""Write the reference pages that follow from the code: commands, tables, models. `make docs` runs it first.

The pages are not committed, so that they cannot be stale.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from thermostats.tables.codebook import codebook

ROOT = Path(__file__).resolve().parents[1]


def commands() -> str:
    """Every command with its arguments and options, as typer describes them."""
    asked = [sys.executable, "-m", "typer", "thermostats.cli", "utils", "docs", "--name", "thermostats"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT).stdout  # noqa: S603 - our own
    return told.replace("# `thermostats`", "# Commands", 1)


def tables() -> str:
    """Every table and column."""
    return codebook().replace("# Codebook", "# Tables", 1)


def models(reports: Path) -> str:
    """Equations and priors of every model that the report holds, as its fits gave them."""
    lines = [
        "# Models",
        "",
        "Every model in the report with its equations and priors, as its fit states them (`fit.equations`, "
        "`fit.priors`), and the claims that rest on it. Prior scales follow from the outcome, so a family can stand "
        "here more than once. The functions that fit them: [Fits](api/fits.md).",
    ]
    for (equations, priors), uses in _fits(reports).items():
        claims = sorted({claim for claim, _ in uses})
        lines += ["", f"## {', '.join(claims)}: {uses[0][1].rstrip('.')}", "", "```text", *equations, "```", ""]
        lines += ["| quantity | prior | why |", "|---|---|---|"]
        lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in prior)} |" for prior in priors]
    return "\n".join(lines) + "\n"


def _fits(reports: Path) -> dict[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], list[tuple[str, str]]]:
    """Equations and priors of every fit of a report → claim and sentence of each of its uses."""
    found: dict[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], list[tuple[str, str]]] = {}
    for path in sorted(reports.glob("c*/findings.json")):
        page = json.loads(path.read_text(encoding="utf-8"))
        for finding in page["findings"]:
            if fit := finding.get("posterior"):
                key = tuple(fit["equations"]), tuple(tuple(prior) for prior in fit["priors"])
                found.setdefault(key, []).append((page["claim"]["id"], fit["model"]))
    return found


def write(folder: Path) -> None:
    """Write the three pages into a folder."""
    pages = {"cli.md": commands(), "tables.md": tables(), "models.md": models(ROOT / "reports")}
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / "docs" / "reference")
