"""Findings kept from run to run: one whose rows, rule and code are as they were is not made again."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.plots.svg import drawn
from thermostats.tables.atomic import write_atomically
from thermostats.tables.caching import cache_folder

LAST = 3
"""Versions of a finding that are kept: on the package's tables alone, and with rows of one's own."""
DIGEST = hashlib.sha256().digest_size
TABLES = {
    *("bytearray", "slice", "_reconstruct", "ndarray", "dtype", "scalar", "DataFrame", "Series", "BlockManager"),
    *("SingleBlockManager", "_unpickle_block", "_new_Index", "Index", "RangeIndex", "MultiIndex", "StringArray"),
    *("ArrowStringArray", "StringDtype", "_restore_array", "type_for_alias", "py_buffer", "IntegerArray", "Int64Dtype"),
    *("FloatingArray", "Float64Dtype", "BooleanArray", "BooleanDtype"),
}
"""What builtins, numpy, pandas and pyarrow make a table of; nothing else of theirs is called by a file of findings."""


@dataclass(frozen=True)
class Made:
    """A finding with its figures drawn, and the SHA-256 of the rows it was made of, by selection."""

    finding: Finding
    figure: bytes
    """SVG; empty where there is none."""
    panels: tuple[bytes, ...]
    selections: dict[str, str]


class Kept:
    """The findings of one claim; `key`: digest of all that they depend on but rows, empty where nothing is kept."""

    def __init__(self, claim: str, key: str = "") -> None:
        folder = cache_folder() if key else None
        self.file = folder / "findings" / f"{claim}.bin" if folder else None
        self.key = bytes.fromhex(key)
        self.made: dict[tuple[str, str], Made] = {}
        """What this run gave, by id and set of evidence."""
        self._known: dict[tuple[str, str], list[Made]] = _read(self.file, self.key) if self.file else {}
        self._new = False

    def __call__(
        self, name: str, evidence: Evidence, make: Callable[[Evidence], Finding], over: Sequence[Finding]
    ) -> Finding:
        """The finding of one question on one set, made only where its rows changed, or those of what it is over."""
        known = self._known.setdefault((name, evidence.name), [])
        found = next((made for made in known if not evidence.changed(made.selections)), None)
        if found is None:
            with evidence.recording() as selections:
                finding = make(evidence)
            rests_on = (self.made[one.id, one.evidence].selections for one in over)
            found = _drawn(finding, {name: digest for each in (*rests_on, selections) for name, digest in each.items()})
            self._new = True
        evidence.selections.update(found.selections)
        known[:] = [found, *(made for made in known if made is not found)][:LAST]
        self.made[name, evidence.name] = found
        return found.finding

    def write(self) -> None:
        """Keep what this run gave for the next one."""
        if self.file and self._new:
            content = pickle.dumps(self._known)
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, hashlib.sha256(content).digest() + self.key + content)


def _read(file: Path, key: bytes) -> dict[tuple[str, str], list[Made]]:
    """What a file keeps under a key; nothing where there is no such file, or not the whole of it and nothing else."""
    content = file.read_bytes() if file.is_file() else b""
    digest, of, rest = content[:DIGEST], content[DIGEST : 2 * DIGEST], content[2 * DIGEST :]
    if of != key or digest != hashlib.sha256(rest).digest():
        return {}
    try:
        known: dict[tuple[str, str], list[Made]] = _Records(io.BytesIO(rest)).load()
    except pickle.UnpicklingError:
        return {}
    return known


class _Records(pickle.Unpickler):
    """Reads a file of findings and runs no code but that of records and tables; UnpicklingError for any other."""

    def find_class(self, module: str, name: str) -> Any:
        root = module.partition(".")[0]
        if root in ("builtins", "numpy", "pandas", "pyarrow") and name in TABLES:
            return super().find_class(module, name)
        if root == "thermostats":
            found = super().find_class(module, name)
            if found is _as_it_is or is_dataclass(found) or (isinstance(found, type) and issubclass(found, Enum)):
                return found
        raise pickle.UnpicklingError(f"A file of findings does not hold {module}.{name}.")


def _drawn(finding: Finding, selections: dict[str, str]) -> Made:
    """A finding whose figures are drawn, without the functions that drew them: those cannot leave the process."""
    figure, posterior = drawn(finding.draw) if finding.draw else b"", finding.posterior
    panels: tuple[bytes, ...] = ()
    if posterior is not None:
        panels = tuple(drawn(panel.draw) for panel in posterior.panels)
        posterior = replace(posterior, panels=tuple(replace(panel, draw=_as_it_is) for panel in posterior.panels))
    return Made(replace(finding, draw=None, posterior=posterior), figure, panels, selections)


def _as_it_is(axes: object) -> object:
    return axes
