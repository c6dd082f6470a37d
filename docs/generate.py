"""Write the reference pages that follow from the code: commands, tables, models. `make docs` runs it first.

The pages are not committed, so that they cannot be stale. The table of findings in the README is: with `--readme` it is
written anew, and a test holds it against the report.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from thermostats.tables.describe import codebook
from thermostats.words import number, range_text

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
IN_README = ("C01", "C02", "C03", "C04", "C10", "C11", "N01", "N02", "N03", "N04")
BEGIN, END = "<!-- findings: python docs/generate.py --readme -->\n", "<!-- end of findings -->\n"


def commands() -> str:
    """Every command with its arguments and options, as typer describes them."""
    asked = [sys.executable, "-m", "typer", "thermostats.cli.app", "utils", "docs", "--name", "thermostats"]
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


def verdicts(reports: Path) -> str:
    """Table of some claims with their verdicts, estimates and what they rest on, and a sentence on all of them."""
    pages = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(reports.glob("[cn]*/findings.json"))]
    counts: dict[str, int] = {}
    lines = ["| claim | verdict | estimate [interval] | models / labs |", "|---|---|---|---|"]
    for page in pages:
        claim, found = page["claim"], page["findings"][0]
        counts[found["verdict"]] = counts.get(found["verdict"], 0) + 1
        if claim["id"] in IN_README:
            estimate = f"{number(found['estimate'])} {range_text(found['lower'], found['upper'])}".strip()
            of = f"{estimate}: {found['estimand']}" if estimate else found["estimand"]
            rests = f"{found['n_models']} / {found['n_heritages']}"
            lines.append(
                f"| [{claim['id']}](reports/{claim['id'].lower()}/index.md) {claim['title']} | "
                f"{found['verdict']} | {of} | {rests} |"
            )
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items(), key=lambda item: -item[1]))
    return "\n".join([*lines, "", f"All {len(pages)} claims: {told}."]) + "\n"


def with_verdicts(readme: str, reports: Path) -> str:
    """A README with the table of findings between its marks as the report has it."""
    return re.sub(
        f"(?<={re.escape(BEGIN)}).*(?={re.escape(END)})", lambda _: verdicts(reports), readme, count=1, flags=re.DOTALL
    )


def _fits(reports: Path) -> dict[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], list[tuple[str, str]]]:
    """Equations and priors of every fit of a report → claim and sentence of each of its uses."""
    found: dict[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], list[tuple[str, str]]] = {}
    for path in sorted(reports.glob("[cn]*/findings.json")):
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
    if sys.argv[1:] == ["--readme"]:
        README.write_text(with_verdicts(README.read_text(encoding="utf-8"), ROOT / "reports"), encoding="utf-8")
    else:
        write(ROOT / "docs" / "reference")
