"""Write what the harnesses found into benchmarks/results: `make robustness`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

Line = dict[str, Any]


def lines(folder: Path, name: str) -> list[Line]:
    """What one harness noted, in order; nothing where it was not run."""
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as a Markdown table."""
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join(
        [*head, *(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows)]
    )


def by(found: list[Line], name: str) -> list[tuple[str, list[Line]]]:
    """Lines by the value of a name, in order of first appearance."""
    order = {value: place for place, value in reversed(list(enumerate(line[name] for line in found)))}
    ordered = sorted(found, key=lambda line: order[line[name]])
    return [(value, list(group)) for value, group in groupby(ordered, key=lambda line: line[name])]


def total(group: list[Line], name: str) -> int:
    """Sum of a number over lines."""
    return sum(line[name] for line in group)


def wrong(group: list[Line]) -> int:
    """Faults over lines."""
    return sum(len(line["faults"]) for line in group)


def faults(kills: list[Line], writers: list[Line]) -> str:
    """Page about kills and writers."""
    counts = ("kills", "by_time", "by_operation", "torn", "reruns")
    rows = [
        [job, *(total(group, name) for name in counts), wrong(group)]
        for job, group in [*by(kills, "job"), ("all", kills)]
    ]
    columns = (
        "command",
        "kills",
        "after a random time",
        "at a random file operation",
        "files left in between",
        "whole runs after",
        "faults",
    )
    many = [[line["writers"], line["joins"], line["kills"], len(line["wrong"])] for line in writers]
    return f"""# Kills and writers

`make kills`, `make writers`, then `make robustness`. A kill is a SIGKILL to a forked child that runs the command on a
small input: half after a random part of the command's time, half at a random file operation of it. After each, every
file must be what it was before or what it is at the end, to the byte; after the next whole run all files must be those
of an uninterrupted run and nothing else. "Files left in between": kills after which some files were new and others old.

{table(columns, rows)}

Writers that join at once into one store, some of them killed and started again; the store must then hold, to the byte,
what writers one after the other leave.

{table(("writers", "joins", "kills", "files that differ"), many)}
"""


def fuzz(found: list[Line]) -> str:
    """Page about inputs."""
    rows = [
        [
            name,
            total(group, "inputs") - total(group, "guided"),
            total(group, "guided"),
            total(group, "accepted"),
            f"{max(line['slowest'] for line in group):.2f}",
            wrong(group),
        ]
        for name, group in [*by(found, "reader"), ("all", found)]
    ]
    return f"""# Inputs

`make fuzz`, then `make robustness`. Every reader is given mutations of sound files and, with atheris, inputs guided by
the branches they reach. A fault is anything but acceptance or a sentence: another exception, more than 10 s, more than
2 GB, a file that is new, gone or changed. Counted are the runs since the last mend.

{table(("reader", "mutations", "coverage-guided", "of the mutations accepted", "slowest, s", "faults"), rows)}
"""


EQUIVALENT = Path(__file__).with_name("equivalent_mutants.csv")
"""Mutants that change nothing which anyone could notice, each with the reason: judged by hand, one by one."""


def equivalents() -> dict[tuple[str, str, str], str]:
    """Reasons by module, line of code and what is changed in it."""
    with EQUIVALENT.open(encoding="utf-8", newline="") as stream:
        return {(row["module"], row["code"], row["changed"]): row["reason"] for row in csv.DictReader(stream)}


def judged(line: Line, known: dict[tuple[str, str, str], str]) -> str:
    """Why a survivor is no fault of the tests; empty for others."""
    changed = line["mutant"].partition(":")[2]
    return known.get((line["module"], line["code"], changed), "") if line["outcome"] == "survived" else ""


def mutants(found: list[Line], fresh: list[Line]) -> str:
    """Page about mutants."""
    newest = {line["module"]: line["sha"] for line in found}  # of a module that has changed since, its newest form
    found = [line for line in found if line["sha"] == newest[line["module"]]]
    found = sorted({(line["module"], line["mutant"]): line for line in found}.values(), key=lambda line: line["module"])
    known = equivalents()
    rows, same, survived = [], [], []
    for module, group in [*by(found, "module"), ("all", found)]:
        dead = sum(line["outcome"] != "survived" for line in group)
        nothing = sum(bool(judged(line, known)) for line in group)
        every = group[0]["of"] if module != "all" else sum(lines_[0]["of"] for _, lines_ in by(found, "module"))
        counted = len(group) - nothing
        interval = binomtest(dead, counted).proportion_ci(method="wilson")
        shares = [f"{100 * dead / of:.0f} %" for of in (len(group), counted)]
        within = f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"
        rows.append([module, every, len(group), nothing, dead, *shares, within])
    for line in found:
        if reason := judged(line, known):
            same.append([line["module"], f"`{line['code']}`", line["mutant"], reason])
        elif line["outcome"] == "survived":
            survived.append([line["module"], f"`{line['code']}`", line["mutant"], line["tests"]])
    of, weighted = sum(row[1] for row in rows[:-1]), [0.0, 0.0]
    for _, every, drawn, nothing, dead, *_ in rows[:-1]:
        weighted[0] += every * dead / drawn / of
        weighted[1] += every * dead / (drawn - nothing) / of
    again = ""
    if fresh:
        dead = sum(line["outcome"] != "survived" for line in fresh)
        interval = binomtest(dead, len(fresh)).proportion_ci(method="wilson")
        left = table(
            ("module", "code", "what was changed", "tests that it was given"),
            [
                [line["module"], f"`{line['code']}`", line["mutant"], line["tests"]]
                for line in fresh
                if line["outcome"] == "survived"
            ],
        )
        again = f"""
## Another draw

Tests were written for survivors of the draw above, so its share is what they reach on mutants that were seen. Another
draw, for which none was written (`scripts/mutants.py --seed 2 --results build/fresh.jsonl`), all counted, those that
change nothing too: {dead} of {len(fresh)} killed, {100 * dead / len(fresh):.0f} %
({100 * interval.low:.0f}–{100 * interval.high:.0f} %), from {len({line["module"] for line in fresh})} modules.

{left}
"""
    columns = (
        "module",
        "mutants there are",
        "drawn",
        "change nothing",
        "killed",
        "of those drawn",
        "of those that change something",
        "interval",
    )
    return f"""# Mutants

`make mutants`, then `make robustness`. One thing in a module is changed (a comparison, an operator, a condition, a
constant, a word, a result, a dropped call); words for people are left alone. Each mutant runs against the tests of the
module that reach its line, as many as take a few seconds when nothing is wrong, the slow ones left out; a test that
fails, or three times the time of all of them, kills it. A survivor is therefore no proof that no test notices: the
number of tests that it was given stands beside it, and `--again --budget 60` gives it more. Modules are as they were
when their mutants ran. The sample is drawn with a seed; the interval is Wilson's, 95 %, of those that change something.

{table(columns, rows)}

As many mutants are drawn from a large module as from a small one. Each module weighted by the mutants that there are:
{100 * weighted[0]:.0f} % of all, {100 * weighted[1]:.0f} % of those that change something.

## Survivors

{table(("module", "code", "what was changed", "tests that it was given"), survived)}

## Survivors that change nothing

Judged by hand, in `scripts/equivalent_mutants.csv`; they are left out of the last share and not of the one before.

{table(("module", "code", "what was changed", "why nothing changes"), same)}
{again}"""


def clusters(found: list[Line]) -> str:
    """Page about engines."""
    rows = [
        [
            line["engine"],
            line["nodes"],
            line["specs"],
            line["kills"],
            line["measured"],
            line["again"],
            line["differ"],
            line["left"],
            line["seconds"],
        ]
        for line in found
    ]
    columns = (
        "engine",
        "nodes",
        "specs",
        "kills",
        "measured",
        "of these tried again",
        "files that differ",
        "states left",
        "seconds",
    )
    return f"""# Engines

`make clusters`, then `make robustness`. Small models are measured one after the other, then on every engine: processes
of this machine, a Ray cluster reached by its address (a head without cores and so many nodes, all on one machine), jobs
of submitit's local executor. Once every node is at work one of those is killed (a process, a node, a job) with SIGKILL.
Every spec must be measured all the same, and the files of gains be those of the uninterrupted run, to the byte.

{table(columns, rows)}
"""


def main() -> None:
    """Write the pages whose harness was run."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    if kills := lines(folder, "kills"):
        (out / "faults.md").write_text(faults(kills, lines(folder, "writers")), encoding="utf-8")
    if found := lines(folder, "fuzz"):
        (out / "fuzz.md").write_text(fuzz(found), encoding="utf-8")
    if found := lines(folder, "clusters"):
        (out / "clusters.md").write_text(clusters(found), encoding="utf-8")
    if found := lines(folder, "mutants"):
        (out / "mutants.md").write_text(mutants(found, lines(folder, "fresh")), encoding="utf-8")


if __name__ == "__main__":
    main()
