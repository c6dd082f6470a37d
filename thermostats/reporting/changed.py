"""What moved in a report's findings since its rows changed last: those that the report kept from
before, next to those of the rows as they are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.result import describe_verdict
from thermostats.claims.study import choose_claims, list_scripts
from thermostats.errors import DataError
from thermostats.formatting import format_count, format_estimate, join_words
from thermostats.next_steps import write_command
from thermostats.reporting.pages import BEFORE, TABLE, check_written, read_origin
from thermostats.reporting.report import report
from thermostats.reporting.snapshot import ROUNDING, convert_number, read_findings
from thermostats.reporting.state import locate_shipped_snapshot
from thermostats.tables.choices import ALL, check_set, is_asked
from thermostats.tables.folders import find_shipped

KEYS = ["claim", "finding", "evidence"]
SIDES = ("before", "now")
SHOWN = ("verdict", "estimate", "lower", "upper", "n_models")
"""Columns of a finding that are set side by side."""
VERDICT, ESTIMATE, NEW, GONE = "verdict", "estimate", "new", "no longer found"
MOVED = (VERDICT, GONE, ESTIMATE, NEW)
"""What moved, in the order in which it is shown."""
COLUMNS = [*KEYS, "moved", *(f"{name}_{side}" for name in SHOWN for side in SIDES), "shift"]
LINES = 18
"""Findings that a screen has room for."""
SINCE_ROWS = "Before: what this report found until its rows changed last."
SINCE_SHIPPED = (
    "Before: the findings that ship with the package, which know no rows of yours; the rows of "
    "this report have not changed since it was first made."
)


@dataclass(frozen=True)
class Changes:
    """Findings that moved, and what they are compared with."""

    table: pd.DataFrame
    """One row a finding that moved; columns in `COLUMNS`."""
    compared_with: str
    """In a sentence."""
    both: int
    """Findings that there are on both sides."""

    def write_sentences(self) -> list[str]:
        """What is compared, and how much of it moved."""
        counts = {}
        for name in MOVED:
            counts[name] = int(self.table["moved"].eq(name).sum())
        moved = [format_count(counts[VERDICT], "verdict")]
        moved.append(format_count(counts[ESTIMATE], "further estimate"))
        sentence = f"Of {format_count(self.both, 'finding')} {' and '.join(moved)} moved"
        new = self.table.loc[self.table["moved"].eq(NEW), "evidence"]
        others = []
        if len(new):
            others.append(f"{counts[NEW]} new on {join_words(sorted(set(new)))}")
        if counts[GONE]:
            others.append(f"{counts[GONE]} {GONE}")
        return [self.compared_with, f"{'; '.join([sentence, *others])}."]

    def tabulate(self) -> list[dict[str, str]]:
        """Rows for a screen: those that moved most of what a reader would see move."""
        rows = []
        for row in self.table.to_dict("records"):
            shown = _show(row)
            if shown["verdict"] or shown["estimate"]:
                rows.append(shown)
        return rows[:LINES]


def find_changes(
    claims: Sequence[str] | None = None, *, evidence: str | None = None, out: Path
) -> Changes:
    """Verdicts and estimates that differ between a report's findings and those from before its rows
    changed last; claims of the report that are stale are made again first.

    claims, evidence: those alone; None: all. Raises UsageError where no report is there or it has
    no such claim, DataError where it does not say which rows it is of.
    """
    check_written(out, claims)
    check_set(evidence, ALL)
    there: list[str] = []
    if (out / TABLE).is_file():
        there = sorted(set(read_findings(out / TABLE)["claim"]))
    wanted = choose_claims(claims or None, dict.fromkeys(there, out))
    _make_again(there, out)
    kept = out / BEFORE
    path = kept if kept.is_file() else locate_shipped_snapshot()
    before = _choose(read_findings(path), wanted, evidence)
    now = _choose(read_findings(out / TABLE), wanted, evidence)
    table = compare_findings(before, now)
    both = len(before.merge(now, on=KEYS))
    return Changes(table, SINCE_ROWS if path == kept else SINCE_SHIPPED, both)


def _choose(frame: pd.DataFrame, claims: Sequence[str], evidence: str | None) -> pd.DataFrame:
    """Findings of some claims, on a set of evidence or on all."""
    of_set = pd.Series([is_asked(evidence or ALL, name, "") for name in frame["evidence"]])
    of_claims = frame["claim"].isin(claims).to_numpy(bool)
    return frame[of_set.to_numpy(bool) & of_claims]


def _make_again(there: Sequence[str], out: Path) -> None:
    """Bring the claims of a report up to date with the rows of the folder that it was made of."""
    origin = read_origin(out)
    if not origin:
        step = write_command("report", "--all", out=out if out != Path("reports") else None)
        raise DataError(
            "the report does not say which rows it is of",
            where=out,
            next_step=f"{step}, with --data where rows of yours are read",
        )
    analyses = origin["analyses"] or None
    scripts = list_scripts(analyses or find_shipped("analyses"))
    claims = [name for name in there if name in scripts]
    report(claims, data=origin["data"] or None, out=out, analyses=analyses)


def compare_findings(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """Findings that are others now, in the order of `MOVED`, estimates by how far they moved.

    `shift` is in halves of the width of the interval from before.
    """
    texts = []
    for frame in (before, now):
        texts.append(frame.assign(verdict=frame.apply(describe_verdict, axis=1)))
    suffixes = [f"_{side}" for side in SIDES]
    both = texts[0].merge(texts[1], on=KEYS, how="outer", suffixes=suffixes, indicator="side")
    moved = []
    for row in both.to_dict("records"):
        compared = _compare_row(row)
        if compared["moved"]:
            moved.append(compared)
    moved.sort(key=_rank_change)
    return pd.DataFrame(moved, columns=COLUMNS)


def _rank_change(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return MOVED.index(row["moved"]), -row["shift"], row["finding"]


def _compare_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Both sides of one finding, and what of it moved; empty where nothing did."""
    first, last = (convert_number(row[f"estimate_{side}"]) for side in SIDES)
    half = (convert_number(row["upper_before"]) - convert_number(row["lower_before"])) / 2
    gap = abs(last - first)
    shift = gap / half if half > 0 and gap >= 0 else 0.0
    moved = ""
    if row["side"] != "both":
        moved = GONE if row["side"] == "left_only" else NEW
    elif row["verdict_before"] != row["verdict_now"]:
        moved = VERDICT
    elif pd.isna(first) != pd.isna(last) or gap > ROUNDING * max(abs(first), abs(last), 1e-3):
        moved = ESTIMATE
    return {name: row.get(name) for name in COLUMNS} | {"moved": moved, "shift": shift}


def _show(row: Mapping[Any, Any]) -> dict[str, str]:
    """A finding as a person reads it: what moved as `before → now`, what stayed once; an estimate
    that looks the same is empty."""
    verdicts = []
    estimates = []
    counts = []
    for side in SIDES:
        verdicts.append(_write(row[f"verdict_{side}"]))
        counts.append(_write_count(row[f"n_models_{side}"]))
        numbers = []
        for name in SHOWN[1:4]:
            numbers.append(_read(row[f"{name}_{side}"]))
        estimates.append(format_estimate(*numbers))
    verdict = "" if verdicts[0] == verdicts[1] else _join(verdicts)
    estimate = "" if estimates[0] == estimates[1] else _join(estimates)
    shown = {"finding": str(row["finding"]), "evidence": str(row["evidence"])}
    return shown | {"verdict": verdict, "estimate": estimate, "models": _join(counts)}


def _read(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _write(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _write_count(value: Any) -> str:
    return "" if pd.isna(value) else str(int(value))


def _join(sides: Sequence[str]) -> str:
    """Both sides with an arrow; one where they are the same."""
    before, now = (side or "—" for side in sides)
    return now if before == now else f"{before} → {now}"
