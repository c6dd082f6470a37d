"""CSV files that repeat a JSON file: every cell is held against the figure it repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thermostats.errors import DataError
from thermostats.studies.delia2026.importer.ledger import DERIVABLE, IMPORTED, NUMERAL, Document, Place
from thermostats.studies.delia2026.importer.study import EXACT, Study


def twin(study: Study, copy: Document, original: Sequence[Mapping[str, Any]], file: str) -> None:
    """Hold a CSV against the JSON rows that it repeats, cell by cell; disagreements are recorded."""
    for place, row in zip(copy.top.each(len(original)), original, strict=True):
        if set(place.value) != set(row):
            raise DataError(
                "the columns are not those of the file that is repeated",
                where=place.where,
                got=", ".join(place.value),
                allowed=", ".join(row),
            )
        for label, value in row.items():
            _cell(study, place[label], value, file)


def _cell(study: Study, cell: Place, original: Any, file: str) -> None:
    rule = f"the same figure of {file}"
    if isinstance(original, (int, float)) and not isinstance(original, bool):
        study.derive(cell, float(original), rule, within=EXACT)
        return
    equal = cell.value == original
    if NUMERAL.fullmatch(cell.text()):
        cell.enter(*((DERIVABLE, f"{rule}; equal", 0.0) if equal else (IMPORTED, "inconsistencies.what")))
    if not equal:
        study.disagree(
            cell.where,
            "does not follow",
            cell.document,
            f"the cell reads {cell.value!r}, the file it repeats {original!r}",
            f"{file} is imported",
            other_file=file,
        )
