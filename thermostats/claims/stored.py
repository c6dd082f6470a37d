"""What was made before, and of which rows, finding by finding: what rows make stale is decided here
alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd

from thermostats.claims.evidence import Evidence, hash_rows
from thermostats.claims.finding import Finding, FittedModel, Undrawn
from thermostats.claims.memo import Memo, Part, Version
from thermostats.modelling.specification import SpecificationCurve
from thermostats.plots.svg import render_svg
from thermostats.settings import is_drawing

PAGE: Part = ("files", "")
"""Under which a page's files are kept."""
INNER = "inner "
"""How names begin of what findings are made of and nothing shows by itself."""


@dataclass(frozen=True)
class Made:
    """A finding with its figures drawn, and the SHA-256 of the rows it was made of, by
    selection."""

    finding: Finding
    figure: bytes
    """SVG; empty where there is none."""
    panels: tuple[bytes, ...]
    selections: Mapping[str, str] = field(default_factory=dict)
    """Empty where it is kept: its version names them."""


class Stored:
    """The findings of one claim, the advice for it, or the files of one page about all claims.

    key: digest of all that they depend on but rows, empty where nothing is kept. anew: what was
    kept is not read.
    """

    def __init__(self, name: str, key: str = "", *, anew: bool = False) -> None:
        self.memo = Memo(f"findings/{name}", key, anew=anew)
        self.made: dict[Part, Made] = {}
        """What this run gave, by id and set of evidence."""

    def __call__(
        self,
        name: str,
        evidence: Evidence,
        make: Callable[[Evidence], Finding],
        over: Sequence[Finding],
    ) -> Finding:
        """The finding of one question on one set, made only where its rows changed, or those of
        what it is over."""

        def make_version() -> Version:
            selections: dict[str, str] = {}
            with evidence.recording() as read:
                finding = make(evidence)
            for each in over:
                selections |= self.made[each.id, each.sample.evidence].selections
            return Version.hold(_draw_finding(finding), selections | read)

        part = (name, evidence.name)
        version = self._keep(part, evidence, make_version)
        made: Made = replace(version.value, selections=version.made_of)
        self.made[part] = made
        return made.finding

    def add_curve(
        self,
        finding: Finding,
        evidence: Evidence,
        read: Callable[[Evidence], pd.DataFrame],
        make: Callable[[pd.DataFrame], SpecificationCurve],
    ) -> Finding:
        """A finding that this run gave with its curve, which is made only where the rows of its
        universes changed, whichever rows these came from."""
        curve = self.keep_of_rows((f"{finding.id} curve", evidence.name), evidence, read, make)
        drawn = replace(finding, curve=curve)
        part = (finding.id, evidence.name)
        self.made[part] = replace(self.made[part], finding=drawn)
        return drawn

    def page(
        self, evidence: Evidence, make: Callable[[Evidence], dict[str, bytes]]
    ) -> dict[str, bytes]:
        """The files of a page, made only where rows that it reads changed."""
        files: dict[str, bytes] = self.keep_value(PAGE, evidence, make)
        return files

    def keep_value(self, part: Part, evidence: Evidence, make: Callable[[Evidence], Any]) -> Any:
        """A value of a name and a set of evidence, made only where rows that it reads changed."""

        def make_version() -> Version:
            with evidence.recording() as selections:
                value = make(evidence)
            return Version.hold(value, selections)

        return self._keep(part, evidence, make_version).value

    def keep_inner(self, name: str, evidence: Evidence, make: Callable[[Evidence], Any]) -> Any:
        """A value that findings are made of, which is shown by these alone: what they depend on is
        what it was made of."""
        return self.keep_value((f"{INNER}{name}", evidence.name), evidence, make)

    def keep_of_rows(
        self,
        part: Part,
        evidence: Evidence,
        read: Callable[[Evidence], pd.DataFrame],
        make: Callable[[pd.DataFrame], Any],
    ) -> Any:
        """A value that is made of some rows and of nothing else, made only where these changed."""

        def make_version() -> Version:
            with evidence.recording() as selections:
                rows = read(evidence)
            digest = hash_rows(rows)
            alike = self.memo.find_readable(part, lambda version: version.rows == digest)
            value = make(rows) if alike is None else alike.value
            return Version.hold(value, selections, digest)

        return self._keep(part, evidence, make_version).value

    def rows(self, evidence: Evidence) -> str:
        """SHA-256 of the rows that all of it is made of; empty where a part has to be made anew."""
        selections: dict[str, str] = {}
        for part in self.memo.versions:
            if part[0].startswith(INNER):
                continue
            version = self.memo.find(part, partial(_is_fresh, evidence))
            if version is None:
                return ""
            selections |= version.made_of
        return hash_selections(selections) if self.memo.versions else ""

    def write(self) -> str:
        """Keep what this run gave for the next one; why it cannot be kept, empty where it is or
        nothing is new."""
        return self.memo.write()

    def _keep(self, part: Part, evidence: Evidence, make: Callable[[], Version]) -> Version:
        """The version that was made of the rows as they are now, or one that is made; its rows are
        recorded."""
        version = self.memo.find_readable(part, partial(_is_fresh, evidence)) or make()
        self.memo.keep(part, version)
        evidence.record(version.made_of)
        return version


def _is_fresh(evidence: Evidence, version: Version) -> bool:
    """Whether a version was made of the rows as they are now, and is drawn where it is to be."""
    if evidence.changed(version.made_of):
        return False
    return not is_drawing() or (version.is_readable and not _is_undrawn(version.value))


def _is_undrawn(value: Any) -> bool:
    return isinstance(value, Made) and isinstance(value.finding.posterior, Undrawn)


def hash_selections(selections: Mapping[str, str]) -> str:
    """SHA-256 of the digests of some selections of rows."""
    return hashlib.sha256(json.dumps(sorted(selections.items())).encode()).hexdigest()


def _draw_finding(finding: Finding) -> Made:
    """A finding whose figures are drawn, without the functions that drew them: those cannot leave
    the process."""
    draw = finding.figure.draw
    figure = render_svg(draw) if draw else b""
    posterior = finding.posterior
    panels: tuple[bytes, ...] = ()
    if isinstance(posterior, FittedModel):
        panels = tuple(render_svg(panel.draw) for panel in posterior.panels if panel.draw)
        undrawn = tuple(replace(panel, draw=None) for panel in posterior.panels)
        posterior = replace(posterior, panels=undrawn)
    without = replace(finding, figure=replace(finding.figure, draw=None), posterior=posterior)
    return Made(without, figure, panels)
