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
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding, FittedModel, Undrawn
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


PAGE = ("files", "")
"""Under which a page's files are kept."""


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
        self._known: dict[tuple[str, str], list[Any]] = (
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
        made = self._find_fresh((name, evidence.name), evidence)
        if made is None:
            with evidence.recording() as selections:
                finding = make(evidence)
            rests_on = (self.made[part.id, part.sample.evidence].selections for part in over)
            made = _draw_finding(
                finding,
                {name: digest for each in (*rests_on, selections) for name, digest in each.items()},
            )
        self._keep((name, evidence.name), made, evidence)
        self.made[name, evidence.name] = made
        finding_made: Finding = made.finding
        return finding_made

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
        made = self._find_fresh(part, evidence)
        if made is None:
            with evidence.recording() as selections:
                value = make(evidence)
            made = MadeValue(value, dict(selections))
        self._keep(part, made, evidence)
        return made.value

    def rows(self, evidence: Evidence) -> str:
        """SHA-256 of the rows that all of it is made of; empty where a part has to be made anew."""
        fresh = [self._find_fresh(part, evidence) for part in self._known]
        if not fresh or any(made is None for made in fresh):
            return ""
        return hash_selections(
            {name: digest for made in fresh for name, digest in made.selections.items()}
        )

    def _find_fresh(self, part: tuple[str, str], evidence: Evidence) -> Any:
        """The version that was made of the rows as they are now, drawn where it is to be; None
        where there is none."""
        versions = (
            made for made in self._known.get(part, []) if not (is_drawing() and _is_undrawn(made))
        )
        return next((made for made in versions if not evidence.changed(made.selections)), None)

    def _keep(self, part: tuple[str, str], made: Any, evidence: Evidence) -> None:
        """Put a version first of those that are kept."""
        others = [version for version in self._known.get(part, []) if version is not made]
        self._new |= len(others) == len(self._known.get(part, []))
        self._known[part] = [made, *others][:LAST]
        evidence.record(made.selections)

    def write(self) -> str:
        """Keep what this run gave for the next one; why it cannot be kept, empty where it is or
        nothing is new."""
        if self.file is None or not self._new:
            return ""
        content = json.dumps(
            {"key": self.key, "findings": list(_encode_findings(self._known, self.key))}
        )
        return write_cache(self.file, content.encode())


def _is_undrawn(made: Made | MadeValue) -> bool:
    return isinstance(made, Made) and isinstance(made.finding.posterior, Undrawn)


def hash_selections(selections: Mapping[str, str]) -> str:
    """SHA-256 of the digests of some selections of rows."""
    return hashlib.sha256(json.dumps(sorted(selections.items())).encode()).hexdigest()


def _encode_findings(
    stored: Mapping[tuple[str, str], Sequence[Any]], key: str
) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Findings as JSON, each version behind its checksum; what has no form in Parquet is made again
    the next time."""
    for part, versions in stored.items():
        with suppress(TypeError):
            texts = [json.dumps(encode(made)) for made in versions]
            yield *part, [(_hash_version(key, *part, text), text) for text in texts]


def _hash_version(key: str, name: str, evidence: str, text: str) -> str:
    """SHA-256 of one version, of what it is of, and of all that it depends on but rows."""
    return hashlib.sha256(json.dumps([key, name, evidence, text]).encode()).hexdigest()


def _read(file: Path, key: str) -> dict[tuple[str, str], list[Any]]:
    """What a file keeps under a key, without what was edited; nothing where there is no such file,
    or it is damaged."""
    known: dict[tuple[str, str], list[Any]] = {}
    try:
        content = json.loads(file.read_bytes())
        if content["key"] != key:
            return {}
        for name, evidence, versions in content["findings"]:
            sound = (
                text
                for checksum, text in versions
                if checksum == _hash_version(key, name, evidence, text)
            )
            known[name, evidence] = [decode(json.loads(text)) for text in sound]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError, RecursionError):
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
