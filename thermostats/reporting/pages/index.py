"""The index: the table of all claims, group by group, and the table `findings`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from thermostats import words
from thermostats.claims.scripts import is_own
from thermostats.claims.study import studies
from thermostats.claims.verdict import SUPPORTED
from thermostats.modelling.classical.estimates import holm
from thermostats.reporting.pages.claim import Entry, corrected, folder_of
from thermostats.reporting.stale import machine
from thermostats.reporting.text import FAILED, MISSING, Text, link, slug, text
from thermostats.tables import store
from thermostats.tables.vocabulary import VERDICTS

TITLE = "Residual-stream gains in transformers"
LEVEL = 0.05
"""Adjusted p above which a supported claim is named below the table."""
FURTHER = "Further claims"
"""Group of claims that are of no registered study."""
ORDER = [*VERDICTS, FAILED, MISSING]
"""Verdicts in the order in which the index lists them."""


def index_text(
    entries: Sequence[Entry], pages: Mapping[str, str], page_of: str = "{}/index.md", findings: str = "findings.csv"
) -> str:
    """The page's Markdown. pages: titles of other pages by name. page_of: a claim's page by its folder."""
    grouped = by_group(entries)
    families = {title: adjusted_p_values(own) for title, own in grouped.items()}
    adjusted = {claim: p for family in families.values() for claim, p in family.items()}
    rows = {entry.id: _row(entry, adjusted, page_of) for entry in entries}
    tally = Counter(row["verdict"] for row in rows.values())
    known = {study.claims: study for study in studies().values() if study.claims}
    return text(
        "index.md",
        title=TITLE,
        rows=list(rows.values()),
        groups=[
            {
                "title": title,
                "about": known[title].about if title in known else "",
                "summary": summary(own),
                "rows": [rows[entry.id] for entry in own],
            }
            for title, own in grouped.items()
        ],
        tally=[(word, tally[word]) for word in ORDER if tally[word]],
        family=family_words(families),
        beyond=supported_but_not_adjusted(entries, adjusted),
        corrected=[entry.id for entry in entries if corrected(entry.findings)],
        one_sided=[row["id"] for row in rows.values() if row["p"] and row["side"]],
        fitted=any(row["posterior"] for row in rows.values()),
        own=sum(is_own(entry.id) for entry in entries),
        pages=pages,
        findings=Text(findings),
        machine=machine(),
        credits=[known[title].credit for title in grouped if title in known and known[title].credit],
    )


def findings_table(entries: Sequence[Entry]) -> pd.DataFrame:
    """Table `findings`: one row a finding, named figures as canonical JSON."""
    columns = list(store.dtypes("findings"))
    rows = []
    for entry in entries:
        for number, finding in enumerate(entry.findings):
            fit = (entry.posteriors[number] if number < len(entry.posteriors) else None) or {}
            row = {
                **asdict(finding),
                "finding": finding.id or f"{finding.claim}.{slug(finding.estimand)}",
                "headline": number == 0,
                "posterior": fit.get("probability"),
                "mc_error": fit.get("probability_error"),
                "inputs_sha": entry.inputs_sha,
            }
            for name in ("published", "reproduced"):
                row[name] = json.dumps(row[name], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            rows.append([row[column] for column in columns])
    return store.validate(pd.DataFrame(rows, columns=columns), "findings")


def by_group(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Entries by the study whose claims they are, in the order of the claims' ids; those of no study last."""
    titles = {study.letter: study.claims for study in studies().values() if study.letter}
    letters = sorted(titles)
    found = {titles[letter]: [entry for entry in entries if entry.id[:1] == letter] for letter in letters}
    found[FURTHER] = [entry for entry in entries if entry.id[:1] not in titles]
    return {title: own for title, own in found.items() if own}


def summary(entries: Sequence[Entry]) -> str:
    """What came out of some claims, what that rests on and what it cannot say, in two or three sentences."""
    primary = [entry.findings[0] for entry in entries if entry.findings and not entry.error]
    if not primary:
        return "No claim has been put to the test yet."
    said = [f"Of {words.plural(len(entries), 'claim')} put to the test, {verdict_counts(f.verdict for f in primary)}."]
    fitted = [entry.posteriors[0] for entry in entries if entry.posteriors and entry.posteriors[0]]
    if fitted:
        failed = sum(not posterior["passes"] for posterior in fitted)
        apart = sum(
            bool(posterior["passes"] and posterior["classical"] and posterior["classical"] != posterior["concluded"])
            for posterior in fitted
        )
        rest, count = ("rests", "counts") if len(fitted) == 1 else ("rest", "count")
        said.append(
            f"Of these, {len(fitted)} {rest} on a fitted model and a classical test and {count} as decided only where "
            f"both agree: in {apart} they differ, in {failed} a check of the fit failed."
        )
    most, groups = (max(getattr(finding, name) for finding in primary) for name in ("n_models", "n_heritages"))
    said.append(
        f"No verdict rests on more than {words.plural(most, 'model')} or {words.plural(groups, primary[0].group)}; "
        "that is few, and the intervals say so."
    )
    return " ".join(said)


def verdict_counts(verdicts: Iterable[str]) -> str:
    """How often each verdict was given: `3 came out as supported and 2 as inconclusive`."""
    counts = Counter(verdicts)
    parts = [f"{counts[verdict]} as {verdict}" for verdict in VERDICTS if counts[verdict]]
    return words.listed(parts).replace(" as", " came out as", 1)


def family_words(families: Mapping[str, Mapping[str, float]]) -> str:
    """Over how many claims p-values are adjusted, in words: `12 claims`, with several groups group by group."""
    counts = {title: len(family) for title, family in families.items() if family}
    if len(counts) < 2:
        return words.plural(sum(counts.values()), "claim")
    parts = [f"{words.plural(count, 'claim')} of “{title}”" for title, count in counts.items()]
    return ", and apart from them over the ".join(parts)


def adjusted_p_values(entries: Sequence[Entry]) -> dict[str, float]:
    """Holm-adjusted p-values of the claims whose first finding rests on a p-value, by claim."""
    family = {
        entry.id: float(entry.findings[0].probability)
        for entry in entries
        if entry.findings
        and words.is_p_value(entry.findings[0].probability_kind)
        and entry.findings[0].probability is not None
    }
    return holm(family) if family else {}


def supported_but_not_adjusted(entries: Sequence[Entry], adjusted: Mapping[str, float]) -> str:
    """One sentence that names claims supported by their rule whose adjusted p is above `LEVEL`; empty: none."""
    named = [
        f"{entry.id} (p {words.relation(adjusted[entry.id])})"
        for entry in entries
        if not entry.error
        and entry.findings
        and entry.findings[0].verdict == SUPPORTED
        and adjusted.get(entry.id, 0.0) > LEVEL
    ]
    if not named:
        return ""
    who = "One claim is supported by its" if len(named) == 1 else f"{len(named)} claims are supported by their"
    return f"{who} own rule with an adjusted p above {LEVEL:g}: {'; '.join(named)}."


def _row(entry: Entry, adjusted: Mapping[str, float], page_of: str) -> dict[str, Any]:
    primary = entry.findings[0] if entry.findings else None
    named = f"{entry.id} {entry.claim.title}" if entry.claim else entry.id
    shown = entry.claim is not None and not entry.error
    return {
        "id": entry.id,
        "claim": entry.claim,
        "link": link(named, page_of.format(folder_of(entry.id)) if shown else ""),
        "verdict": FAILED if entry.error else primary.verdict if primary else MISSING,
        "error": entry.error,
        "finding": None if entry.error else primary,
        "more": max(0, len(entry.findings) - 1),
        "posterior": entry.posteriors[0] if entry.posteriors else None,
        "p": words.relation(adjusted[entry.id]) if entry.id in adjusted else "",
        "side": "one-sided" if primary and "one-sided" in primary.probability_kind else "",
    }
