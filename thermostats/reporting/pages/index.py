"""The index: what holds, what does not and what is open, the table of all claims, and the table
`findings`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple

import pandas as pd

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import EXTERNAL, MEASURED, OWN_ROWS, POOLED, PUBLISHED, SETS
from thermostats.claims.finding import Finding
from thermostats.claims.judge import pick_own_verdict, pick_verdicts
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, UNMEASURED
from thermostats.claims.rule import ALPHA
from thermostats.claims.study import (
    Study,
    is_own,
    list_further_statements,
    list_study_models,
    load_studies,
)
from thermostats.formatting import (
    escape_markdown,
    estimate_range,
    format_count,
    format_declared,
    join_words,
    take_sentences,
)
from thermostats.reporting.claim_page import Entry, set_capital
from thermostats.reporting.pages import name_folder
from thermostats.reporting.render import (
    FAILED,
    MISSING,
    SIGNS,
    Text,
    build_page_environment,
    render_link,
    render_text,
)
from thermostats.reporting.state import describe_machine
from thermostats.tables import store
from thermostats.tables.choices import MEASUREMENTS
from thermostats.tables.schemas import NURSERY, VERDICTS, list_dtypes

FARTHEST = 4.0
"""Half-widths from the number compared with that a picture shows; what lies beyond is an arrow at
its edge."""
LEFT, RIGHT, ROW = 38.0, 116.0, 9.0
"""Ends of the scale and height of a line, in points."""
SHAPES = {
    PUBLISHED: "M-2.2,0A2.2,2.2 0 1 0 2.2,0A2.2,2.2 0 1 0 -2.2,0Z",
    MEASURED: "M-2,-2H2V2H-2Z",
    EXTERNAL: "M-2.2,-1H-1V-2.2H1V-1H2.2V1H1V2.2H-1V1H-2.2Z",
    POOLED: "M0,-2.8L2.8,0L0,2.8L-2.8,0Z",
    OWN_ROWS: "M-2.6,-2H2.6L0,2.6Z",
    NURSERY: "M0,-2.6L2.6,2H-2.6Z",
}


class Seen(NamedTuple):
    """An estimate on the scale of pictures; 0 is the number that it is compared with, above 0 is as
    claimed."""

    evidence: str
    estimate: float
    lower: float
    upper: float
    end: float
    """Where what is claimed ends on its right."""
    words: str


def place_finding(finding: Finding) -> Seen | None:
    """A finding on the scale; None without an interval, or without a number to compare it with."""
    x = finding.headline.value
    lower = finding.headline.lower
    upper = finding.headline.upper
    rule = finding.criterion
    evidence = finding.sample.evidence
    bars = [bar for bar in (rule.above, rule.below) if bar is not None]
    if x is None or lower is None or upper is None or not lower < upper or not bars:
        return None
    bar = min(bars, key=lambda value: abs(x - value))
    side = 1 if bar == rule.above else -1
    below = x - lower
    beyond = upper - x
    unit = (below or beyond) if x > bar else (beyond or below)

    def place(value: float) -> float:
        return side * (value - bar) / unit

    first, last = sorted(map(place, (lower, upper)))
    others = (place(value) for value in bars if value != bar)
    other = next(others, FARTHEST)
    bounds = []
    if rule.above is not None:
        bounds.append(f"above {format_declared(rule.above)}")
    if rule.below is not None:
        bounds.append(f"below {format_declared(rule.below)}")
    shown = estimate_range(finding.headline)
    words = f"{evidence}: {shown}, claimed: {' and '.join(bounds)}"
    return Seen(evidence, place(x), first, last, other, words)


def put_headline_first(findings: Sequence[Finding]) -> list[Finding]:
    """Findings that answer the claim's first question, on whichever set of evidence, before others;
    a further question may be put to a set before the first one is."""
    return sorted(findings, key=lambda finding: finding.id != findings[0].id)


def place_first_findings(findings: Sequence[Finding]) -> list[Seen]:
    """Of every set of evidence its first finding, in their order, as far as it can be shown."""
    first: dict[str, Finding] = {}
    for finding in put_headline_first(findings):
        first.setdefault(finding.sample.evidence, finding)
    return [estimate for finding in first.values() if (estimate := place_finding(finding))]


def render_picture(estimates: Sequence[Seen]) -> bytes:
    """The picture as SVG, a line for each estimate."""
    rows = []
    for place, estimate in enumerate(estimates):
        row = {
            "name": estimate.evidence,
            "shape": SHAPES.get(estimate.evidence, SHAPES[PUBLISHED]),
            "y": ROW * (place + 0.5),
            "end": _place(estimate.end),
            "from": _place(estimate.lower),
            "to": _place(estimate.upper),
            "at": _place(estimate.estimate),
            "beyond": (estimate.lower < -FARTHEST) - (estimate.upper > FARTHEST),
        }
        rows.append(row)
    values: dict[str, Any] = {
        "rows": rows,
        "row": ROW,
        "bar": _place(0),
        "left": LEFT,
        "right": RIGHT,
    }
    return build_page_environment().get_template("evidence.svg").render(values).encode()


def _place(value: float) -> float:
    clipped = max(-FARTHEST, min(FARTHEST, value))
    along = (RIGHT - LEFT) * (clipped + FARTHEST) / (2 * FARTHEST)
    return round(LEFT + along, 2)


TITLE = "Residual-stream gains in transformers"
FURTHER = "Further claims"
"""Group of claims that are of no registered study."""
OVERALL = "overall"
"""Group of findings that have no set of evidence of their own."""
ONE_OBSERVATION = "Further statements"
"""Heading of claims and findings of one observation."""
ORDER = [*VERDICTS, FAILED, MISSING]
"""Verdicts in the order in which the index lists them."""
IN_SHORT = (
    ("What holds", (SUPPORTED,), 4),
    ("What does not", (AGAINST,), 3),
    ("What is open", (OPEN, UNMEASURED), 3),
)
"""Headings of the summary, the verdicts below each, and how many claims it names."""
NEW = (EXTERNAL, MEASURED, POOLED)
"""Sets with measurements that are not the study's own."""
GAIN = "gain.svg"
"""The picture that says what a gain is."""


def index_text(
    entries: Sequence[Entry],
    pages: Mapping[str, str],
    page_of: str = "{}/index.md",
    *,
    command: str = "thermostats report --all",
    sets: Sequence[Mapping[str, Any]] = (),
    illustrated: bool = True,
) -> str:
    """The page's Markdown. pages: titles of other pages by name. page_of: a claim's page by its
    folder.

    command: what made the report, as one would type it. sets: sets of evidence with their models
    and labs, as `pages.sources.counted` has them. illustrated: with the pictures of
    `render_pictures`.
    """
    grouped = group_entries(entries)
    rows = {entry.id: _build_row(entry, page_of) for entry in entries}
    further = list_further_statements()
    tally = Counter(row["verdict"] for row in rows.values())
    matrix = _build_matrix(entries)
    studies = load_studies().values()
    by_heading = {study.report.heading: study for study in studies if study.report.heading}
    groups: list[dict[str, Any]] = []
    for title, group in grouped.items():
        study = by_heading.get(title)
        listed = []
        for entry in _put_leading_first(group, study):
            if entry.id not in further:
                listed.append(rows[entry.id])
        place = {"title": title, "study": study, "rows": listed}
        groups.append({**place, **_summarise_entries(group)})
    findings = [finding for entry in entries for finding in entry.findings]
    worlds = [finding.criterion.worlds for finding in findings]
    changed = []
    for entry in entries:
        if entry.claim and entry.claim.history:
            changed.append(entry.id)
    there = []
    for name in SETS:
        if name in MEASUREMENTS or name in matrix:
            there.append(name)
    return render_text(
        "index.md",
        title=TITLE,
        rows=list(rows.values()),
        groups=groups,
        further=_list_further_rows(entries, rows, page_of),
        title_of_further=ONE_OBSERVATION,
        tally=[(word, tally[word]) for word in ORDER if tally[word]],
        short=summarise_groups([group["rows"] for group in groups]),
        command=Text(command),
        tried=sum(map(bool, worlds)),
        untried=worlds.count(0),
        most_false=ALPHA,
        changed=changed,
        matrix=matrix,
        yours=any(row["yours"] for row in rows.values()),
        moved=_list_moved(entries, page_of),
        illustrated=illustrated,
        sets=[f"{SETS[name]} ({name})" for name in there],
        counted=sets,
        apart=list_study_models(),
        own=sum(is_own(entry.id) for entry in entries),
        pages=pages,
        machine=describe_machine(),
    )


def _put_leading_first(group: Sequence[Entry], study: Study | None) -> list[Entry]:
    """Entries of a study with those first that it names so, in its order."""
    leading = study.report.leading if study is not None else ()

    def find_place(entry: Entry) -> int:
        return leading.index(entry.id) if entry.id in leading else len(leading)

    return sorted(group, key=find_place)


def _list_further_rows(
    entries: Sequence[Entry], rows: Mapping[str, dict[str, Any]], page_of: str
) -> list[dict[str, Any]]:
    """Rows of the claims and findings of one observation that the report has."""
    by_claim = {entry.id: entry for entry in entries}
    listed = []
    for id_ in list_further_statements():
        claim, _, name = id_.partition(".")
        if claim not in by_claim:
            continue
        own = []
        for f in _list_findings(by_claim[claim]):
            if f.id == id_:
                own.append(f)
        if not name:
            listed.append(rows[claim])
        elif own:
            listed.append(_build_statement_row(by_claim[claim], own, page_of))
    return listed


def render_pictures(entries: Sequence[Entry]) -> dict[str, bytes]:
    """The small pictures of the index by file name; of a claim without an estimate to show there is
    none."""
    pictures = {GAIN: render_gain_picture()}
    for entry in entries:
        if estimates := place_first_findings(_list_findings(entry)):
            pictures[_name_picture(entry)] = render_picture(estimates)
    return pictures


def render_gain_picture() -> bytes:
    """The picture that says what a gain is."""
    return (files("thermostats.reporting") / "templates" / GAIN).read_bytes()


def summarise_groups(
    groups: Sequence[Sequence[dict[str, Any]]],
) -> list[tuple[str, list[dict[str, Any]]]]:
    """Headings of the summary with their rows: those of most labs, then models, from each group of
    claims in turn.

    What is open is listed as the groups have it: of a study's claims the first are those that it
    rests on.
    """
    chosen = {}
    for verdict in (SUPPORTED, AGAINST, UNMEASURED):
        chosen[verdict] = _take_turns(groups, verdict)
    every_row = chain.from_iterable(groups)
    chosen[OPEN] = [row for row in every_row if row["verdict"] == OPEN]
    summary = []
    for heading, verdicts, most in IN_SHORT:
        rows = chain.from_iterable(chosen[verdict] for verdict in verdicts)
        summary.append((heading, list(islice(rows, most))))
    return summary


def _take_turns(groups: Sequence[Sequence[dict[str, Any]]], verdict: str) -> list[dict[str, Any]]:
    best = []
    for rows in groups:
        alike = [row for row in rows if row["verdict"] == verdict]
        best.append(sorted(alike, key=_count_models, reverse=True))
    return [row for row in chain.from_iterable(zip_longest(*best)) if row is not None]


def _count_models(row: Mapping[str, Any]) -> tuple[int, int]:
    """Labs and models that the first finding of a claim rests on."""
    return row["finding"].sample.n_groups, row["finding"].sample.n_models


def build_findings_table(entries: Sequence[Entry]) -> pd.DataFrame:
    """Table `findings`: one row per finding, named figures as canonical JSON."""
    columns = list(list_dtypes("findings"))
    rows = []
    for entry in entries:
        for number, finding in enumerate(entry.findings):
            has_fit = number < len(entry.posteriors)
            fit = (entry.posteriors[number] if has_fit else None) or {}
            row = {
                **finding.columns(),
                "finding": finding.id,
                "headline": number == 0,
                "posterior": fit.get("probability"),
                "mc_error": fit.get("probability_error"),
                "drawn": fit.get("drawn", ""),
                "inputs_sha": entry.inputs[number],
            }
            for name in ("published", "reproduced"):
                row[name] = json.dumps(
                    row[name], sort_keys=True, ensure_ascii=False, separators=(",", ":")
                )
            rows.append([row[column] for column in columns])
    return store.validate(pd.DataFrame(rows, columns=columns), "findings")


def group_entries(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Entries by the study whose claims they are, in the order of the claims' ids; those of no
    study last."""
    studies = load_studies().values()
    titles = {study.letter: study.report.heading for study in studies if study.letter}
    groups: dict[str, list[Entry]] = {}
    for letter in sorted(titles):
        groups[titles[letter]] = []
    groups[FURTHER] = []
    for entry in entries:
        groups[titles.get(entry.id[:1], FURTHER)].append(entry)
    return {title: group for title, group in groups.items() if group}


def _summarise_entries(entries: Sequence[Entry]) -> dict[str, Any]:
    """What came out of some claims, counted, and what that rests on."""
    primary = []
    for entry in entries:
        if entry.findings and not entry.error:
            primary.append(entry.findings[0])
    counts = Counter(finding.verdict for finding in primary)
    reached = [verdict for verdict in VERDICTS if counts[verdict]]
    fitted = []
    for entry in entries:
        fit = entry.posteriors[0] if entry.posteriors else None
        if fit is not None and "passes" in fit:
            fitted.append(fit)
    passing = [fit for fit in fitted if fit["passes"]]
    apart = sum(fit["classical"] not in ("", fit["concluded"]) for fit in passing)
    words: list[str] = []
    for verdict in reached:
        words.append(f"{counts[verdict]} {'' if words else 'came out '}as {verdict}")
    samples = [finding.sample for finding in primary]
    most_models = max((sample.n_models for sample in samples), default=0)
    most_groups = max((sample.n_groups for sample in samples), default=0)
    return {
        "counts": words,
        "tested": len(primary),
        "fitted": len(fitted),
        "apart": apart,
        "failed": len(fitted) - len(passing),
        "most_models": most_models,
        "most_groups": most_groups,
        "noun": samples[0].group if samples else "",
    }


def _build_matrix(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Of every set of evidence, for every claim in order, the sign of the first finding on it;
    empty where none is."""
    matrix = {}
    for name in (*SETS, OVERALL):
        matrix[name] = [""] * len(entries)
    for place, entry in enumerate(entries):
        for finding in reversed(put_headline_first(entry.findings)):
            name = finding.sample.evidence or OVERALL
            matrix[name][place] = SIGNS[finding.verdict]
    return {name: signs for name, signs in matrix.items() if any(signs)}


def _list_moved(entries: Sequence[Entry], page_of: str) -> list[dict[str, str]]:
    """Claims whose first finding has another verdict on measurements that are not the study's own,
    with both."""
    rows = []
    for entry in entries:
        first = []
        for each in _list_findings(entry):
            if each.id == entry.findings[0].id:
                first.append(each)
        by_set = {each.sample.evidence: each.verdict for each in first}
        if PUBLISHED not in by_set:
            continue
        before = by_set[PUBLISHED]
        parts = []
        for verdict in VERDICTS:
            sets = [name for name in NEW if by_set.get(name) == verdict]
            if sets and verdict not in (UNMEASURED, before):
                parts.append(f"{verdict} on {join_words(sets)}")
        if parts:
            link = render_link(entry.id, page_of.format(name_folder(entry.id)))
            rows.append({"link": link, "before": before, "after": "; ".join(parts)})
    return rows


def _name_picture(entry: Entry) -> str:
    return f"evidence/{name_folder(entry.id)}.svg"


def _list_findings(entry: Entry) -> Sequence[Finding]:
    return () if entry.error else entry.findings


def _compare_verdicts(entry: Entry) -> dict[str, str]:
    """The verdicts of a claim's first question on the study's own files, on all evidence and on
    the user's rows, each on one line.

    A verdict on neither, such as one on mathematics, stands in both.
    """
    findings = _list_findings(entry)
    if not findings:
        word = FAILED if entry.error else MISSING
        return {**dict.fromkeys(("own", "every"), f"{SIGNS[word]} {word}"), "yours": ""}
    own, every = pick_verdicts(findings)
    if own is None and every is None:
        own = every = findings[0]
    by_column = {"own": own, "every": every, "yours": pick_own_verdict(findings)}
    return {name: _state_verdict(finding) for name, finding in by_column.items()}


def _state_verdict(finding: Finding | None) -> str:
    """A verdict with its sign and what it rests on, in one line."""
    if finding is None:
        return ""
    verdict = f"{SIGNS[finding.verdict]} {finding.stands}"
    sample = finding.sample
    if not sample.n_models:
        return verdict
    models = format_count(sample.n_models, "model")
    groups = f" of {format_count(sample.n_groups, sample.group)}" if sample.n_groups else ""
    return f"{verdict} · {models}{groups}"


def _answer_claim(claim: Claim, findings: Sequence[Finding]) -> str:
    """The answer to a claim's first question, and what further findings add to it that have no
    row of their own."""
    first = findings[0]
    answer = claim.answer(first.verdict) or take_sentences(first.plain, 1)
    apart = list_further_statements()
    more = (finding.short for finding in findings[1:] if finding.id not in apart)
    return " ".join([answer, *filter(None, more)])


def _build_statement_row(entry: Entry, findings: Sequence[Finding], page_of: str) -> dict[str, Any]:
    """The row of one finding, on its own set of evidence and on others."""
    first = findings[0]
    row = _build_row(replace(entry, findings=tuple(findings)), page_of)
    page = page_of.format(name_folder(entry.id))
    answer = first.short or take_sentences(first.plain, 1)
    link = render_link(f"{first.id} {set_capital(first.estimand)}", page)
    return row | {"link": link, "answer": answer, "picture": Text()}


def _build_row(entry: Entry, page_of: str) -> dict[str, Any]:
    findings = _list_findings(entry)
    primary = next(iter(findings), None)
    caption = "; ".join(estimate.words for estimate in place_first_findings(findings))
    named = f"{entry.id} {entry.claim.title}" if entry.claim else entry.id
    is_built = entry.claim is not None and not entry.error
    page = page_of.format(name_folder(entry.id)) if is_built else ""
    picture = f"![{escape_markdown(caption)}]({_name_picture(entry)})" if caption else ""
    found = primary.verdict if primary else MISSING
    answer = _answer_claim(entry.claim, findings) if entry.claim and primary else ""
    return {
        "id": entry.id,
        "short": render_link(entry.id, page),
        "claim": entry.claim,
        "link": render_link(named, page),
        "answer": answer,
        **_compare_verdicts(entry),
        "verdict": FAILED if entry.error else found,
        "error": entry.error,
        "finding": primary,
        "picture": Text(picture),
    }
