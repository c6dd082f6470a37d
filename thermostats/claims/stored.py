"""What was made before, and of which rows, finding by finding: what rows make stale is decided here alone."""

from __future__ import annotations

import hashlib
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


@dataclass(frozen=True)
class MadePage:
    """Files of a page about all claims by name, and the SHA-256 of the rows they were made of, by selection."""

    files: dict[str, bytes]
    selections: dict[str, str]


PAGE = ("files", "")
"""Under which a page's files are kept."""


class Stored:
    """The findings of one claim, or the files of one page about all claims.

    key: digest of all that they depend on but rows, empty where nothing is kept. anew: what was kept is not read.
    """

    def __init__(self, name: str, key: str = "", *, anew: bool = False) -> None:
        folder = cache_folder() if key else None
        self.file = folder / "findings" / f"{name}.json" if folder else None
        self.key = key
        self.made: dict[tuple[str, str], Made] = {}
        """What this run gave, by id and set of evidence."""
        read = self.file is not None and not anew
        self._known: dict[tuple[str, str], list[Any]] = _read(self.file, self.key) if self.file and read else {}
        self._new = False

    def __call__(
        self, name: str, evidence: Evidence, make: Callable[[Evidence], Finding], over: Sequence[Finding]
    ) -> Finding:
        """The finding of one question on one set, made only where its rows changed, or those of what it is over."""
        made = self._fresh((name, evidence.name), evidence)
        if made is None:
            with evidence.recording() as selections:
                finding = make(evidence)
            rests_on = (self.made[part.id, part.sample.evidence].selections for part in over)
            made = _drawn(finding, {name: digest for each in (*rests_on, selections) for name, digest in each.items()})
        self._keep((name, evidence.name), made, evidence)
        self.made[name, evidence.name] = made
        finding_made: Finding = made.finding
        return finding_made

    def page(self, evidence: Evidence, make: Callable[[Evidence], dict[str, bytes]]) -> dict[str, bytes]:
        """The files of a page, made only where rows that it reads changed."""
        made = self._fresh(PAGE, evidence)
        if made is None:
            with evidence.recording() as selections:
                files = make(evidence)
            made = MadePage(files, dict(selections))
        self._keep(PAGE, made, evidence)
        files_made: dict[str, bytes] = made.files
        return files_made

    def rows(self, evidence: Evidence) -> str:
        """SHA-256 of the rows that all of it is made of; empty where a part has to be made anew."""
        fresh = [self._fresh(part, evidence) for part in self._known]
        if not fresh or any(made is None for made in fresh):
            return ""
        return digest_of({name: digest for made in fresh for name, digest in made.selections.items()})

    def _fresh(self, part: tuple[str, str], evidence: Evidence) -> Any:
        """The version that was made of the rows as they are now, drawn where it is to be; None where there is none."""
        versions = (made for made in self._known.get(part, []) if not (drawing() and _is_undrawn(made)))
        return next((made for made in versions if not evidence.changed(made.selections)), None)

    def _keep(self, part: tuple[str, str], made: Any, evidence: Evidence) -> None:
        """Put a version first of those that are kept."""
        others = [version for version in self._known.get(part, []) if version is not made]
        self._new |= len(others) == len(self._known.get(part, []))
        self._known[part] = [made, *others][:LAST]
        evidence.selections.update(made.selections)

    def write(self) -> None:
        """Keep what this run gave for the next one."""
        if self.file and self._new:
            content = json.dumps({"key": self.key, "findings": list(_written(self._known))})
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, content.encode())


def _is_undrawn(made: Made | MadePage) -> bool:
    return isinstance(made, Made) and isinstance(made.finding.posterior, Undrawn)


def digest_of(selections: Mapping[str, str]) -> str:
    """SHA-256 of the digests of some selections of rows."""
    return hashlib.sha256(json.dumps(sorted(selections.items())).encode()).hexdigest()


def _written(stored: Mapping[tuple[str, str], Sequence[Any]]) -> Iterator[tuple[str, str, list[Any]]]:
    """Findings as JSON; one whose tables have no form in Parquet is made again the next time."""
    for (name, evidence), versions in stored.items():
        with suppress(TypeError):
            yield name, evidence, [encode(made) for made in versions]


def _read(file: Path, key: str) -> dict[tuple[str, str], list[Any]]:
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
