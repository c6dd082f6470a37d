"""Timings and targets to the tables that the benchmark prints and writes."""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

RESULTS = Path(__file__).parent / "results"


@dataclass
class Results:
    """What the sections of a run found, in order; a section that was not run keeps what an earlier
    run wrote."""

    targets: list[dict[str, Any]] = field(default_factory=list)
    timings: list[dict[str, Any]] = field(default_factory=list)
    profiles: list[tuple[str, str, str]] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    section: str = ""

    def start(self, section: str) -> None:
        """What follows belongs to a section."""
        self.section = section
        self.loads = [os.getloadavg()[0]]

    def target(
        self,
        what: str,
        on: str,
        unit: str,
        target: float | None,
        reached: float,
        cpu: float = float("nan"),
        *,
        at_least: bool = True,
        note: str = "",
    ) -> bool:
        """Add a line and print it: reached by the wall clock and, beside it, by CPU time. True
        where it is missed."""
        missed, by = False, ""
        if math.isnan(reached):
            by = "not measured"
        elif target is not None:
            missed = reached < target if at_least else reached > target
            by = f"missed by {abs(reached / target - 1):.1%}" if missed else "reached"
        sign = "≥" if at_least else "≤"
        wanted = "" if target is None else f"{sign} {target:g} {unit}".rstrip()
        load = f"{min(self.loads):.1f} to {max(self.loads):.1f}"
        row = {
            "section": self.section,
            "what": what,
            "on": on,
            "unit": unit,
            "target": wanted,
            "reached": reached,
            "by_cpu_time": cpu,
            "verdict": by,
            "note": note,
            "load": load,
            "measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        }
        print(
            *(f"{value:.4g}" if isinstance(value, float) else value for value in row.values()),
            sep=" | ",
            flush=True,
        )
        self.targets.append(row)
        return missed

    def timing(self, on: str, contender: str, runs: Sequence[dict[str, Any]], note: str) -> None:
        """Add the repeats of one contender."""
        wall, cpu = ([run[name] for run in runs] for name in ("seconds", "cpu"))
        row = {"section": self.section, "on": on, "contender": contender, "repeats": len(runs)}
        for name, seconds in (("seconds", wall), ("cpu_seconds", cpu)):
            row |= {
                f"{name}_median": _of(statistics.median, seconds),
                f"{name}_lowest": _of(min, seconds),
            }
            row[f"{name}_highest"] = _of(max, seconds)
        self.timings.append({**row, "note": note})

    def profile(self, on: str, words: str, text: str) -> None:
        """Add where the time of a section went, in words and as the profiler printed it."""
        self.profiles.append((f"{self.section}, {on}", words, text))

    def write(self, heading: Sequence[str]) -> None:
        """measurement.csv (targets), measurement-timings.csv, measurement.md (both) and
        measurement-profile.md."""
        RESULTS.mkdir(exist_ok=True)
        sections = {row["section"] for row in self.targets}
        tables = {}
        for name, rows in (("measurement", self.targets), ("measurement-timings", self.timings)):
            table = pd.DataFrame(rows)
            before = (
                pd.read_csv(RESULTS / f"{name}.csv")
                if (RESULTS / f"{name}.csv").is_file()
                else table[:0]
            )
            table = pd.concat([before[~before["section"].isin(sections)], table]).fillna(
                {"note": "", "target": ""}
            )
            table.to_csv(
                RESULTS / f"{name}.csv", index=False, float_format="%.4g", lineterminator="\n"
            )
            tables[name] = table
        lines = [
            "# The measurement layer beside other ways",
            "",
            *heading,
            "",
            markdown(tables["measurement"]),
            "",
        ]
        lines += ["## Seconds", "", markdown(tables["measurement-timings"]), ""]
        (RESULTS / "measurement.md").write_text("\n".join(lines), encoding="utf-8")
        profiles = RESULTS / "measurement-profile.md"
        before = (
            re.split(r"^## ", profiles.read_text(encoding="utf-8"), flags=re.M)[1:]
            if profiles.is_file()
            else []
        )
        parts = [part.strip() for part in before if part.split(",")[0] not in sections]
        parts += [
            f"{title}\n\n{words}\n\n```\n{text.strip()}\n```"
            for title, words, text in self.profiles
        ]
        title = "# Where the time goes where a target is missed"
        text = "\n\n".join(
            [title, missed(tables["measurement"], parts), *(f"## {part}" for part in parts)]
        )
        profiles.write_text(text + "\n", encoding="utf-8")


def missed(targets: pd.DataFrame, profiles: Sequence[str]) -> str:
    """A line for every target that was missed: by how much, and what the profile of its section
    says."""
    words = {
        title: rest.strip().split("\n")[0]
        for title, _, rest in (part.partition("\n") for part in profiles)
    }
    rows = targets[targets["verdict"].astype(str).str.startswith("missed")].to_dict("records")
    lines = []
    for row in rows:
        where = f"{row['section']}, {row['on']}"
        figures = f"{row['reached']:.3g} where {row['target']} was wanted, {row['verdict']}"
        lines.append(f"- {where}: {row['what']}, {figures}. {words.get(where, '')}".rstrip())
    return "\n".join(lines) if lines else "No target is missed."


def interleaved(
    contenders: Sequence[Any], repeats: int, results: Results
) -> dict[str, list[dict[str, Any]]]:
    """Every contender once to warm up, then `repeats` rounds in which each runs once; the order
    turns every round."""
    for contender in contenders:
        contender.ask("run")
    runs: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    for turn in range(repeats):
        results.loads.append(os.getloadavg()[0])
        shift = turn % len(contenders)
        for contender in [*contenders[shift:], *contenders[:shift]]:
            answer = contender.ask("run")
            if answer:
                runs[contender.name].append(answer)
    return runs


def ratio(
    above: Sequence[dict[str, Any]], below: Sequence[dict[str, Any]], clock: str = "seconds"
) -> float:
    """Median over rounds of the ratio of two contenders' times; NaN where one of them is not
    there."""
    return _of(statistics.median, [a[clock] / b[clock] for a, b in zip(above, below, strict=False)])


def worst(ours: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> float:
    """Largest relative difference between the numbers that two contenders found."""
    if not ours or not others:
        return float("nan")
    pairs = zip(ours[-1]["values"], others[-1]["values"], strict=True)
    return max(abs(a / b - 1) for a, b in pairs)


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown."""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return "" if math.isnan(value) else f"{value:.3g}"
        return str(value).replace("|", "\\|")

    rows = [[str(name).replace("_", " ") for name in table.columns], ["---"] * len(table.columns)]
    rows += [[text(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _of(reduce: Callable[[Sequence[float]], float], values: Sequence[float]) -> float:
    return float(reduce(values)) if values else float("nan")
