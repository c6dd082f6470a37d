"""Findings kept from run to run: one whose rows, rule and code are as they were is not made again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thermostats.claims.as_json import as_it_is, decode, encode
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.posterior import FittedModel, Undrawn
from thermostats.plots.svg import drawn
from thermostats.settings import drawing
from thermostats.tables.atomic import write_atomically
from thermostats.tables.caching import cache_folder

LAST = 3
"""Versions of a finding that are kept: on the package's tables alone, and with rows of one's own."""


@dataclass(frozen=True)
class Made:
    """A finding with its figures drawn, and the SHA-256 of the rows it was made of, by selection."""

    finding: Finding
    figure: bytes
    """SVG; empty where there is none."""
    panels: tuple[bytes, ...]
    selections: dict[str, str]


class Stored:
    """The findings of one claim; `key`: digest of all that they depend on but rows, empty where nothing is kept."""

    def __init__(self, claim: str, key: str = "") -> None:
        folder = cache_folder() if key else None
        self.file = folder / "findings" / f"{claim}.json" if folder else None
        self.key = key
        self.made: dict[tuple[str, str], Made] = {}
        """What this run gave, by id and set of evidence."""
        self._known: dict[tuple[str, str], list[Made]] = _read(self.file, self.key) if self.file else {}
        self._new = False

    def __call__(
        self, name: str, evidence: Evidence, make: Callable[[Evidence], Finding], over: Sequence[Finding]
    ) -> Finding:
        """The finding of one question on one set, made only where its rows changed, or those of what it is over."""
        versions = self._known.setdefault((name, evidence.name), [])
        usable = (made for made in versions if not (drawing() and isinstance(made.finding.posterior, Undrawn)))
        made_before = next((made for made in usable if not evidence.changed(made.selections)), None)
        if made_before is None:
            with evidence.recording() as selections:
                finding = make(evidence)
            rests_on = (self.made[part.id, part.sample.evidence].selections for part in over)
            made_before = _drawn(
                finding, {name: digest for each in (*rests_on, selections) for name, digest in each.items()}
            )
            self._new = True
        evidence.selections.update(made_before.selections)
        versions[:] = [made_before, *(made for made in versions if made is not made_before)][:LAST]
        self.made[name, evidence.name] = made_before
        return made_before.finding

    def write(self) -> None:
        """Keep what this run gave for the next one."""
        if self.file and self._new:
            content = json.dumps({"key": self.key, "findings": list(_written(self._known))})
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, content.encode())


def _written(stored: Mapping[tuple[str, str], Sequence[Made]]) -> Iterator[tuple[str, str, list[Any]]]:
    """Findings as JSON; one whose tables have no form in Parquet is made again the next time."""
    for (name, evidence), versions in stored.items():
        with suppress(TypeError):
            yield name, evidence, [encode(made) for made in versions]


def _read(file: Path, key: str) -> dict[tuple[str, str], list[Made]]:
    """What a file keeps under a key; nothing where there is no such file, or it is damaged."""
    try:
        content = json.loads(file.read_bytes())
        if content["key"] != key:
            return {}
        return {(name, evidence): [decode(made) for made in each] for name, evidence, each in content["findings"]}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError, RecursionError):
        return {}


def _drawn(finding: Finding, selections: dict[str, str]) -> Made:
    """A finding whose figures are drawn, without the functions that drew them: those cannot leave the process."""
    draw, posterior = finding.figure.draw, finding.posterior
    figure = drawn(draw) if draw else b""
    panels: tuple[bytes, ...] = ()
    if isinstance(posterior, FittedModel):
        panels = tuple(drawn(panel.draw) for panel in posterior.panels)
        posterior = replace(posterior, panels=tuple(replace(panel, draw=as_it_is) for panel in posterior.panels))
    without = replace(finding, figure=replace(finding.figure, draw=None), posterior=posterior)
    return Made(without, figure, panels, selections)
