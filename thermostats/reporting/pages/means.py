"""The page "What this means": what the verdicts mean for who picks or tunes models, each line linked to its claim."""

from __future__ import annotations

from collections.abc import Sequence

from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, UNMEASURED
from thermostats.reporting.claim_page import Entry
from thermostats.reporting.names import folder_of
from thermostats.reporting.render import link, text


def means_text(entries: Sequence[Entry]) -> str:
    """The page's Markdown; a claim without a sentence for its verdict has no line."""
    lines: dict[str, list[tuple[str, str]]] = {verdict: [] for verdict in (SUPPORTED, AGAINST, OPEN, UNMEASURED)}
    for entry in entries:
        if entry.claim and entry.findings and not entry.error:
            verdict = entry.findings[0].verdict
            if sentence := entry.claim.practice.get(verdict):
                lines[verdict].append((sentence, link(entry.id, f"{folder_of(entry.id)}/index.md")))
    return text("means.md", holds=lines[SUPPORTED], fails=lines[AGAINST], unknown=lines[OPEN] + lines[UNMEASURED])
