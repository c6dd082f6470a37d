"""What was made before, and of which rows, finding by finding: what rows make stale is decided here
alone."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence, hash_rows
from thermostats.claims.finding import Finding, FittedModel, Undrawn
from thermostats.modelling.specification import SpecificationCurve
from thermostats.plots.svg import render_svg
from thermostats.settings import is_drawing
from thermostats.tables.store import cache_folder, write_cache

PACKAGE = "thermostats."
KIND, VALUE = "kind", "value"
"""Of what JSON has no form of: its kind, and what it is made from."""


def encode(value: Any) -> Any:
    """What `json` can write of a record, a table, a number, text, or lists and mappings of these.

    Raises TypeError for anything else.
    """
    plain = (
        type(value) in (bool, int, str)
        or value is None
        or (type(value) is float and math.isfinite(value))
    )
    if plain:
        return value
    if type(value) is list:
        return [encode(each) for each in value]
    kind, held = _encode_value(value)
    return {KIND: kind, VALUE: held}


def _encode_value(value: Any) -> tuple[str, Any]:
    """Kind of a value that JSON has no form of, and what it is made from."""
    held: Any = None
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    if isinstance(value, Enum):
        held = encode(value.value)
    elif is_dataclass(value) and name.startswith(PACKAGE):
        held = {each.name: encode(getattr(value, each.name)) for each in fields(value)}
    elif type(value) is float:
        name = "float"
        held = str(value)
    elif isinstance(value, tuple):
        name = "tuple"
        held = [encode(each) for each in value]
    elif isinstance(value, dict):
        name = "dict"
        held = [[encode(each), encode(of)] for each, of in value.items()]
    elif isinstance(value, bytes):
        name = "bytes"
        held = base64.b64encode(value).decode()
    elif isinstance(value, pd.DataFrame):
        name = "table"
        held = _dump_parquet(value)
    elif isinstance(value, pd.Series):
        name, held = "column", [encode(value.name), _dump_parquet(value.to_frame("0"))]
    elif isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf":
        content = np.ascontiguousarray(value).tobytes()
        name = "array"
        held = [value.dtype.str, list(np.shape(value)), base64.b64encode(content).decode()]
    elif value is keep_axes:
        name = "drawn"
    else:
        raise TypeError(f"a {type(value).__name__} has no form in JSON")
    return name, held


def keep_axes(axes: object) -> object:
    """In the place of the function that drew a figure which is drawn."""
    return axes


def decode(value: Any) -> Any:
    """What `encode` was given; raises ValueError for what it cannot have written."""
    if isinstance(value, list):
        return [decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {KIND, VALUE}:
        raise ValueError("not a record")
    kind = value[KIND]
    held = value[VALUE]
    return KINDS[kind](held) if kind in KINDS else _record(kind, held)


def _dump_parquet(frame: pd.DataFrame) -> str:
    stream = io.BytesIO()
    try:
        frame.to_parquet(stream)
    except (ValueError, TypeError) as error:  # Arrow's own errors are ValueErrors
        raise TypeError(f"a table has no form in Parquet: {error}") from error
    return base64.b64encode(stream.getvalue()).decode()


def _read_table(held: str) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(base64.b64decode(held)))


def _read_column(held: list[Any]) -> pd.Series:
    return _read_table(held[1])["0"].rename(decode(held[0]))


def _read_array(held: list[Any]) -> Any:
    dtype, shape, content = held
    array = np.frombuffer(base64.b64decode(content), dtype=dtype).reshape(shape).copy()
    return array if shape else array[()]


def _record(kind: str, held: Any) -> Any:
    """A record or a member of an enumeration of the package."""
    module, _, name = str(kind).partition(":")
    if not module.startswith(PACKAGE):
        raise ValueError(f"{kind} is no record of the package")
    cls = getattr(import_module(module), name, None)
    if isinstance(cls, type) and issubclass(cls, Enum):
        return cls(decode(held))
    if not (isinstance(cls, type) and is_dataclass(cls)):
        raise ValueError(f"{kind} is no record of the package")
    record = object.__new__(cls)
    for each, of in held.items():
        object.__setattr__(record, each, decode(of))
    return record


KINDS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": lambda held: tuple(decode(each) for each in held),
    "dict": lambda held: {decode(name): decode(each) for name, each in held},
    "bytes": base64.b64decode,
    "table": _read_table,
    "column": _read_column,
    "array": _read_array,
    "drawn": lambda _: keep_axes,
}


LAST = 3
"""Versions of a finding that are kept: on the package's tables alone, and with rows of one's
own."""


@dataclass(frozen=True)
class Made:
    """A finding with its figures drawn, and the SHA-256 of the rows it was made of, by
    selection."""

    finding: Finding
    figure: bytes
    """SVG; empty where there is none."""
    panels: tuple[bytes, ...]
    selections: dict[str, str]


@dataclass(frozen=True)
class MadeValue:
    """What else is kept, such as the files of a page about all claims by name, and the SHA-256 of
    the rows it was made of, by selection."""

    value: Any
    selections: dict[str, str]


@dataclass(frozen=True)
class MadeOfRows:
    """What is made of some rows alone, such as a curve: their SHA-256, and the selections that
    they came from."""

    value: Any
    rows: str
    selections: dict[str, str]


PAGE = ("files", "")
"""Under which a page's files are kept."""
INNER = "inner "
"""How names begin of what findings are made of and nothing shows by itself."""
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ImportError, RecursionError)
"""What decoding raises of a file that this version did not write."""


class Version:
    """One version of a finding, of a page or of another value: the rows that it was made of, and
    the rest, which is decoded where it is asked for.

    text: JSON of it without its selections, as a file has it.
    """

    def __init__(self, selections: dict[str, str], text: str) -> None:
        self.selections = selections
        self._text = text

    @classmethod
    def keep(cls, made: Any) -> Version:
        """What was made now; it is encoded where it is written."""
        version = cls(made.selections, "")
        version.made = made
        return version

    @cached_property
    def made(self) -> Any:
        """What was made, a record; raises one of `UNREADABLE` where the text is of no record."""
        return replace(decode(json.loads(self._text)), selections=self.selections)

    @property
    def is_readable(self) -> bool:
        """Whether it can be decoded."""
        try:
            return bool(self.made)
        except UNREADABLE:
            return False

    @property
    def text(self) -> str:
        """JSON of it; raises TypeError for what has no form in it."""
        return self._text or json.dumps(encode(replace(self.made, selections={})))


class Stored:
    """The findings of one claim, the advice for it, or the files of one page about all claims.

    key: digest of all that they depend on but rows, empty where nothing is kept. anew: what was
    kept is not read.
    """

    def __init__(self, name: str, key: str = "", *, anew: bool = False) -> None:
        folder = cache_folder() if key else None
        self.file = folder / "findings" / f"{name}.json" if folder else None
        self.key = key
        self.made: dict[tuple[str, str], Made] = {}
        """What this run gave, by id and set of evidence."""
        read = self.file is not None and not anew
        self._known: dict[tuple[str, str], list[Version]] = (
            _read(self.file, self.key) if self.file and read else {}
        )
        self._new = False

    def __call__(
        self,
        name: str,
        evidence: Evidence,
        make: Callable[[Evidence], Finding],
        over: Sequence[Finding],
    ) -> Finding:
        """The finding of one question on one set, made only where its rows changed, or those of
        what it is over."""
        part = (name, evidence.name)
        version = self._find_readable(part, evidence)
        if version is None:
            with evidence.recording() as selections:
                finding = make(evidence)
            rests_on = (self.made[part.id, part.sample.evidence].selections for part in over)
            known = {
                name: digest for each in (*rests_on, selections) for name, digest in each.items()
            }
            version = Version.keep(_draw_finding(finding, known))
        self._keep(part, version, evidence)
        self.made[part] = version.made
        finding_made: Finding = version.made.finding
        return finding_made

    def add_curve(
        self,
        finding: Finding,
        evidence: Evidence,
        read: Callable[[Evidence], pd.DataFrame],
        make: Callable[[pd.DataFrame], SpecificationCurve],
    ) -> Finding:
        """A finding that this run gave with its curve, which is made only where the rows of its
        universes changed, whichever rows these came from."""
        part = (f"{finding.id} curve", evidence.name)
        curve = self.keep_of_rows(part, evidence, read, make)
        drawn = replace(finding, curve=curve)
        key = (finding.id, evidence.name)
        self.made[key] = replace(self.made[key], finding=drawn)
        return drawn

    def page(
        self, evidence: Evidence, make: Callable[[Evidence], dict[str, bytes]]
    ) -> dict[str, bytes]:
        """The files of a page, made only where rows that it reads changed."""
        files: dict[str, bytes] = self.keep_value(PAGE, evidence, make)
        return files

    def keep_value(
        self, part: tuple[str, str], evidence: Evidence, make: Callable[[Evidence], Any]
    ) -> Any:
        """A value of a name and a set of evidence, made only where rows that it reads changed."""
        version = self._find_readable(part, evidence)
        if version is None:
            with evidence.recording() as selections:
                value = make(evidence)
            version = Version.keep(MadeValue(value, dict(selections)))
        self._keep(part, version, evidence)
        return version.made.value

    def keep_inner(self, name: str, evidence: Evidence, make: Callable[[Evidence], Any]) -> Any:
        """A value that findings are made of, which is shown by these alone: what they depend on is
        what it was made of."""
        return self.keep_value((f"{INNER}{name}", evidence.name), evidence, make)

    def keep_of_rows(
        self,
        part: tuple[str, str],
        evidence: Evidence,
        read: Callable[[Evidence], pd.DataFrame],
        make: Callable[[pd.DataFrame], Any],
    ) -> Any:
        """A value that is made of some rows and of nothing else, made only where these changed."""
        version = self._find_readable(part, evidence)
        if version is None:
            with evidence.recording() as selections:
                rows = read(evidence)
            digest = hash_rows(rows)
            before = (each.made for each in self._known.get(part, []) if each.is_readable)
            alike = next((made for made in before if made.rows == digest), None)
            value = make(rows) if alike is None else alike.value
            version = Version.keep(MadeOfRows(value, digest, dict(selections)))
        self._keep(part, version, evidence)
        return version.made.value

    def rows(self, evidence: Evidence) -> str:
        """SHA-256 of the rows that all of it is made of; empty where a part has to be made anew."""
        selections: dict[str, str] = {}
        for part in self._known:
            if part[0].startswith(INNER):
                continue
            version = self._find_fresh(part, evidence)
            if version is None:
                return ""
            selections |= version.selections
        return hash_selections(selections) if self._known else ""

    def _find_fresh(self, part: tuple[str, str], evidence: Evidence) -> Version | None:
        """The version that was made of the rows as they are now, drawn where it is to be; None
        where there is none."""
        of_rows = (
            version
            for version in self._known.get(part, [])
            if not evidence.changed(version.selections)
        )
        if is_drawing():
            of_rows = (each for each in of_rows if each.is_readable and not _is_undrawn(each.made))
        return next(of_rows, None)

    def _find_readable(self, part: tuple[str, str], evidence: Evidence) -> Version | None:
        """The same, without those that cannot be decoded, which are kept no longer."""
        while (version := self._find_fresh(part, evidence)) is not None:
            if version.is_readable:
                break
            self._known[part].remove(version)
        return version

    def _keep(self, part: tuple[str, str], version: Version, evidence: Evidence) -> None:
        """Put a version first of those that are kept."""
        others = [each for each in self._known.get(part, []) if each is not version]
        self._new |= len(others) == len(self._known.get(part, []))
        self._known[part] = [version, *others][:LAST]
        evidence.record(version.selections)

    def write(self) -> str:
        """Keep what this run gave for the next one; why it cannot be kept, empty where it is or
        nothing is new."""
        if self.file is None or not self._new:
            return ""
        content = json.dumps(
            {"key": self.key, "findings": list(_encode_findings(self._known, self.key))}
        )
        return write_cache(self.file, content.encode())


def _is_undrawn(made: Made | MadeValue | MadeOfRows) -> bool:
    return isinstance(made, Made) and isinstance(made.finding.posterior, Undrawn)


def hash_selections(selections: Mapping[str, str]) -> str:
    """SHA-256 of the digests of some selections of rows."""
    return hashlib.sha256(json.dumps(sorted(selections.items())).encode()).hexdigest()


def _encode_findings(
    stored: Mapping[tuple[str, str], Sequence[Version]], key: str
) -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
    """Findings as JSON, each version as its checksum, its selections and the rest; what has no form
    in Parquet is made again the next time."""
    for part, versions in stored.items():
        with suppress(TypeError):
            texts = [(json.dumps(each.selections), each.text) for each in versions]
            yield *part, [(_hash_version(key, *part, *text), *text) for text in texts]


def _hash_version(key: str, name: str, evidence: str, selections: str, text: str) -> str:
    """SHA-256 of one version, of what it is of, and of all that it depends on but rows."""
    parts = [key, name, evidence, selections, text]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(file: Path, key: str) -> dict[tuple[str, str], list[Version]]:
    """What a file keeps under a key, without what was edited; nothing where there is no such file,
    or it is damaged."""
    known: dict[tuple[str, str], list[Version]] = {}
    try:
        content = json.loads(file.read_bytes())
        if content["key"] != key:
            return {}
        for name, evidence, versions in content["findings"]:
            known[name, evidence] = [
                Version(json.loads(selections), text)
                for checksum, selections, text in versions
                if checksum == _hash_version(key, name, evidence, selections, text)
            ]
    except (OSError, *UNREADABLE):
        return {}
    return known


def _draw_finding(finding: Finding, selections: dict[str, str]) -> Made:
    """A finding whose figures are drawn, without the functions that drew them: those cannot leave
    the process."""
    draw = finding.figure.draw
    posterior = finding.posterior
    figure = render_svg(draw) if draw else b""
    panels: tuple[bytes, ...] = ()
    if isinstance(posterior, FittedModel):
        panels = tuple(render_svg(panel.draw) for panel in posterior.panels)
        posterior = replace(
            posterior, panels=tuple(replace(panel, draw=keep_axes) for panel in posterior.panels)
        )
    without = replace(finding, figure=replace(finding.figure, draw=None), posterior=posterior)
    return Made(without, figure, panels, selections)
