"""The index: the table of all claims, what stands behind it, and the table `findings`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from thermostats import words
from thermostats.claims.evidence import Evidence
from thermostats.claims.scripts import is_own
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, UNMEASURED
from thermostats.modelling.classical.estimates import holm
from thermostats.reporting import rendering
from thermostats.reporting.blocks import TableView, view
from thermostats.reporting.claim_page import Entry, corrected, folder_of
from thermostats.reporting.freshness import machine
from thermostats.reporting.rendering import FAILED, INDEX, MISSING
from thermostats.tables import store
from thermostats.tables.vocabulary import VERDICTS

LEVEL = 0.05
"""Adjusted p above which a supported claim is named below the table."""
MEASURED = "thermostats"
"""Source of the runs that this package measured."""
MEASURED_GAINS = {
    "last_gain": "last gain",
    "penultimate_gain": "last gain but one",
    "normed_gain": "last gain, normed",
    "geometric_gain": "mean gain a block",
    "total_amplification": "total amplification",
}
TOLD = ("inconsistencies", "reconciliation", "sources")
"""Tables that the index tells of, beside the findings and the gains measured by this package."""
GROUPS = {"C": "Claims of the study", "N": "The nursery: a controlled study", "U": "Further claims"}
"""Groups of claims by the letter of their ids; adjustment for many tests stays within a group."""
ORDER = [*VERDICTS, FAILED, MISSING]
"""Verdicts in the order in which the index lists and sorts them."""


def index_files(entries: Sequence[Entry], tables: Evidence, pages: Sequence[str], code: str) -> dict[str, bytes]:
    """Files about all claims: `index.html`, `index.md`, `findings.csv`; `pages`: which others the report has."""
    measured, inconsistencies, reconciliation, sources = read(tables)
    grouped = by_group(entries)
    families = {title: adjusted_p_values(own) for title, own in grouped.items()}
    adjusted = {claim: p for family in families.values() for claim, p in family.items()}
    rows = [_row(entry, adjusted) for entry in entries]
    groups = {title: [row for row in rows if group_of(row["id"]) == title] for title in grouped}
    nursery = grouped.pop(GROUPS["N"], [])
    tally = Counter(row["verdict"] for row in rows)
    shared = {
        "rows": rows,
        "groups": groups,
        "tally": [(word, tally[word]) for word in ORDER if tally[word]],
        "family": family_words(families),
        "nursery": nursery_summary(nursery),
        "summary": summary([entry for own in grouped.values() for entry in own], measured),
        "kinds": sorted(Counter(inconsistencies["kind"]).items()),
        "inconsistencies": _inconsistencies(inconsistencies),
        "fates": _fates(reconciliation),
        "sources": len(sources),
        "machine": machine(),
        "code_sha": code,
        "pages": list(pages),
        "measured": measured_table(measured),
        "beyond": supported_but_not_adjusted(entries, adjusted),
        "corrected": words.listed([entry.id for entry in entries if corrected(entry.findings)]),
        "one_sided": words.listed([row["id"] for row in rows if row["holm"] and row["side"]]),
        "fitted": any(row["posterior"] for row in rows),
        "page": INDEX,
        "up": "",
        "own": sum(is_own(entry.id) for entry in entries),
        "study": not all(is_own(entry.id) for entry in entries),
        "scripts": ("claims.js",),
    }
    return {
        "index.html": rendering.html("index.html", **shared),
        "index.md": rendering.markdown("index.md", **shared),
        "findings.csv": store.to_csv(findings_table(entries), "findings"),
    }


def read(tables: Evidence) -> list[pd.DataFrame]:
    """What the index tells of beside the findings: gains measured by this package, then the tables of `TOLD`."""
    return [tables.table("features", source=MEASURED), *map(tables.table, TOLD)]


def summary(entries: Sequence[Entry], measured: pd.DataFrame) -> str:
    """Three sentences on claims other than the nursery's: what came out, what it rests on, what it cannot say."""
    primary = {entry.id: entry.findings[0] for entry in entries if entry.findings and not entry.error}
    if not primary:
        return "No claim has been put to the test yet."
    told = verdict_counts(finding.verdict for finding in primary.values())
    first = f"Of {words.plural(len(entries), 'claim')} put to the test, {told}."
    fitted = [entry.posteriors[0] for entry in entries if entry.posteriors and entry.posteriors[0]]
    models = len(set(measured["model_id"]))
    here = f" and {words.plural(models, 'model')} measured here" if models else ""
    if fitted:
        failed = sum(not posterior["passes"] for posterior in fitted)
        apart = sum(
            bool(posterior["passes"] and posterior["classical"] and posterior["classical"] != posterior["concluded"])
            for posterior in fitted
        )
        second = (
            f"Of these, {len(fitted)} {'rests' if len(fitted) == 1 else 'rest'} on a fitted model beside a classical "
            f"test and {'counts' if len(fitted) == 1 else 'count'} as decided only where both agree: in {apart} they "
            f"differ, in {failed} a check of the fit failed."
        )
    else:
        files = "the tables of a data folder" if all(map(is_own, primary)) else f"the study’s own result files{here}"
        rest = "It rests" if len(entries) == 1 else "They rest"
        second = f"{rest} on {files}, and on classical tests."
    most = max((finding.n_models for finding in primary.values()), default=0)
    labs = max((finding.n_heritages for finding in primary.values()), default=0)
    third = f"No verdict rests on more than {words.plural(most, 'model')} or {words.plural(labs, 'lab')}; that is few, "
    third += "and the intervals say so."
    return f"{first} {second} {third}"


def verdict_counts(verdicts: Iterable[str]) -> str:
    """How often each verdict was given: `3 came out as supported and 2 as yet to be measured`."""
    counts = Counter(verdicts)
    said = {SUPPORTED: SUPPORTED, AGAINST: AGAINST, OPEN: OPEN, UNMEASURED: "yet to be measured"}
    parts = [f"{counts[verdict]} as {word}" for verdict, word in said.items() if counts[verdict]]
    return words.listed(parts).replace(" as", " came out as", 1)


def group_of(claim: str) -> str:
    """Group of a claim by its id."""
    return GROUPS["U"] if is_own(claim) else GROUPS[claim[0]]


def by_group(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Entries by group, in the order of `GROUPS`; groups without entries are left out."""
    found = {title: [entry for entry in entries if group_of(entry.id) == title] for title in GROUPS.values()}
    return {title: own for title, own in found.items() if own}


def nursery_summary(entries: Sequence[Entry]) -> str:
    """Three sentences on the controlled study: what came out, each claim's estimate, what it cannot say.

    Empty without claims of the nursery that have been run.
    """
    known = [(entry, entry.findings[0]) for entry in entries if entry.claim and entry.findings and not entry.error]
    if not known:
        return ""
    models, recipes = (max(getattr(found, name) for _, found in known) for name in ("n_models", "n_heritages"))
    first = (
        f"The nursery, a controlled study of up to {words.plural(models, 'small model')} of "
        f"{words.plural(recipes, 'recipe')} assigned by design, put {words.plural(len(known), 'claim')} to the test: "
        f"{verdict_counts(found.verdict for _, found in known)}."
    )
    estimates = [
        f"{entry.id}, {re.split('[,:]', found.estimand)[0]}, {words.number(found.estimate)} "
        f"{words.range_text(found.lower, found.upper)}".rstrip()
        for entry, found in known
        if found.estimate is not None
    ]
    second = f"The estimates: {'; '.join(estimates)}." if estimates else "None of it has been estimated yet."
    third = (
        "The models are small and were trained briefly on two corpora, so that recipes are known as causes here, and "
        "what carries over to large models is a hypothesis."
    )
    return f"{first} {second} {third}"


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


def measured_table(features: pd.DataFrame) -> TableView | None:
    """Gains that this package measured itself, one row a model, prompt set and precision; None where there are "
    "none."""
    rows = features.dropna(subset=list(MEASURED_GAINS), how="all") if len(features) else features
    if rows.empty:
        return None
    shown = pd.DataFrame(
        {
            "model": rows["model_id"],
            "lab": rows["heritage"],
            "L": rows["n_layers"],
            "prompts": rows["prompt_set"] + " (" + rows["n_prompts"].astype(str) + ")",
            "dtype": rows["dtype"],
        }
    )
    gains = {label: rows[gain] for gain, label in MEASURED_GAINS.items()}
    return view(shown.assign(**gains), "Gains measured here", most=len(shown))


def findings_table(entries: Sequence[Entry]) -> pd.DataFrame:
    """Table `findings`: one row per claim and estimand, named figures as canonical JSON."""
    columns = list(store.dtypes("findings"))
    rows = []
    for entry in entries:
        for number, finding in enumerate(entry.findings):
            row = {**asdict(finding), "headline": number == 0, "inputs_sha": entry.inputs_sha}
            for name in ("published", "reproduced"):
                row[name] = json.dumps(row[name], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            rows.append([row[column] for column in columns])
    return store.validate(pd.DataFrame(rows, columns=columns), "findings")


def _row(entry: Entry, adjusted: Mapping[str, float]) -> dict[str, Any]:
    primary = entry.findings[0] if entry.findings else None
    verdict = primary.verdict if primary and not entry.error else FAILED if entry.error else MISSING
    posterior = entry.posteriors[0] if entry.posteriors else None
    return {
        "id": entry.id,
        "claim": entry.claim,
        "folder": folder_of(entry.id),
        "verdict": verdict,
        "error": entry.error,
        "finding": None if entry.error else primary,
        "more": max(0, len(entry.findings) - 1),
        "posterior": posterior,
        "p": adjusted.get(entry.id),
        "holm": words.relation(adjusted[entry.id]) if entry.id in adjusted else "",
        "side": "one-sided" if primary and "one-sided" in primary.probability_kind else "",
        "place": ORDER.index(verdict),
    }


def _fates(reconciliation: pd.DataFrame) -> list[tuple[str, int]]:
    numbers = reconciliation.groupby("fate", sort=False)["numbers"].sum()
    return [(str(fate), int(total)) for fate, total in numbers.sort_values(ascending=False).items()]


def _inconsistencies(table: pd.DataFrame) -> TableView | None:
    if table.empty:
        return None
    files = table["file"] + table["other_file"].where(table["other_file"] == "", " / " + table["other_file"])
    shown = pd.DataFrame(
        {
            "kind": table["kind"],
            "file": files,
            "model": table["model_id"],
            "what disagrees": table["what"],
            "value": [words.figure(value, 5) for value in table["value"]],
            "other value": [words.figure(value, 5) for value in table["other_value"]],
            "what was done": table["handling"],
        }
    )
    return view(shown, "Inconsistencies", most=len(shown))
