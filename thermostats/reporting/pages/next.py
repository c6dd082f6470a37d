"""The page of what would settle the claims: claims by rows, sets of public models by columns, from
the advice that ships (`claims/planning/shipped_advice.py`)."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.planning.campaign import MEASURES
from thermostats.claims.planning.candidates import read_candidates
from thermostats.claims.planning.next_models import write_lines
from thermostats.claims.planning.shipped_advice import (
    OWN_SET,
    digest_rule,
    digest_runs,
    load_advice,
)
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.formatting import format_count, format_percent, join_words
from thermostats.reporting.pages import name_folder
from thermostats.reporting.render import Files, Text, render_link
from thermostats.reporting.state import describe_machine
from thermostats.tables.folders import find_shipped

OWN_LABEL = "its own best set"
NONE = "—"


def build_files(tables: Evidence) -> dict[str, bytes]:
    """`next.md` and its table as CSV; without advice that ships the page says so."""
    made = Files()
    advice = load_advice()
    shown = tabulate_claims(advice)
    table = ""
    if len(shown):
        table = made.add_table(shown, "Probability of a verdict", "next.csv", excerpt=shown)
    campaigns = list_campaigns(advice)
    own = advice[advice["set"] == OWN_SET]
    says = []
    for claim, words in zip(own["claim"], own["says"], strict=True):
        says.append({"link": render_link(claim, f"{name_folder(claim)}/"), "says": words})
    described = [Text(describe_campaign(advice, name)) for name in campaigns]
    made.add_page(
        "next.md",
        table=table,
        campaigns=described,
        says=says,
        first=next(iter(campaigns), ""),
        stale=find_stale(advice, tables),
        machine=describe_machine(),
    )
    return made.contents


def list_campaigns(advice: pd.DataFrame) -> list[str]:
    """Names of the campaigns, the smallest first."""
    return list(advice.loc[advice["claim"] == "", "set"])


def tabulate_claims(advice: pd.DataFrame) -> pd.DataFrame:
    """Of every claim, what the rows at hand say, and how probable a verdict is with each set of
    models."""
    rows = []
    for claim, of_claim in advice[advice["claim"] != ""].groupby("claim"):
        by_set = of_claim.set_index("set")
        own = by_set.loc[OWN_SET]
        row = {"claim": claim, "at hand": own["at_hand"] or "too few rows"}
        row[OWN_LABEL] = describe_cell(own)
        for name in list_campaigns(advice):
            row[name] = NONE
            if name in by_set.index:
                row[name] = describe_cell(by_set.loc[name])
        rows.append(row)
    return pd.DataFrame(rows)


def describe_cell(row: pd.Series) -> str:
    """How probable a verdict is with a set, of how many models; a line where none is possible."""
    if not row["models"] or pd.isna(row["chance"]):
        return NONE
    count = len(row["models"].split())
    models = format_count(count, "model")
    return f"{format_percent(row['chance'])} ({models}, {row['download_gb']:.3g} GB)"


def find_stale(advice: pd.DataFrame, tables: Evidence) -> str:
    """What the advice is no longer of, in words; empty where it is of the rules and rows as they
    are."""
    if advice.empty:
        return ""
    parts = []
    if advice["runs"].iloc[0] != digest_runs(tables):
        parts.append("other rows than are read here")
    own = advice[(advice["set"] == OWN_SET) & (advice["finding"] != "")]
    known = dict(zip(own["finding"], own["made_of"], strict=True))
    digests = {}
    for path in list_scripts(find_shipped("analyses")).values():
        for question in load_claim(path).questions:
            if question.id in known:
                digests[question.id] = digest_rule(question)
    changed = []
    for name, made in known.items():
        if digests.get(name) != made:
            changed.append(name.partition(".")[0])
    if changed:
        parts.append(f"an earlier rule or earlier worlds of {join_words(changed)}")
    return " and ".join(parts)


def describe_campaign(advice: pd.DataFrame, name: str) -> str:
    """A campaign as Markdown: what it costs, what it brings, and the lines that measure it."""
    of_set = advice[advice["set"] == name]
    whole = of_set[of_set["claim"] == ""].iloc[0]
    models = whole["models"].split()
    if not models:
        return str(whole["says"])
    facts = read_candidates().set_index("model_id").loc[models]
    gated = facts["gated"]
    n_gated = int(gated.fillna(False).sum())
    n_unstated = int(gated.isna().sum())
    disk = facts["download_gb"]
    lines = [
        str(whole["says"]),
        "",
        f"- Disk: {whole['download_gb']:.3g} GB in all; the largest is `{disk.idxmax()}` with "
        f"{disk.max():.3g} GB. Memory: twice that, as models are read in float32.",
        f"- Gated: {n_gated}; not stated: {n_unstated} of {format_count(len(models), 'model')}.",
        "",
        "```sh",
        *write_lines(facts["modality"].to_dict(), MEASURES),
        "```",
        "",
        "| claim | at hand | a verdict | supported | not supported | if true |",
        "|---|---|---:|---:|---:|---:|",
    ]
    judged = of_set[of_set["claim"] != ""]
    for row in judged.sort_values("chance", ascending=False).to_dict("records"):
        shares = [row[label] for label in ("chance", "supported", "against", "declared")]
        cells = [NONE if pd.isna(share) else format_percent(share) for share in shares]
        at_hand = row["at_hand"] or "too few rows"
        lines.append(f"| {row['claim']} | {at_hand} | {' | '.join(cells)} |")
    return "\n".join(lines)
