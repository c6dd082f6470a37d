"""How a table and its columns are declared: pandera schemas that carry unit, meaning, key and references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandera.pandas as pa

FLOAT, INTEGER, TEXT, FLAG = "float64", "Int64", "str", "boolean"


def column(
    dtype: str,
    meaning: str,
    unit: str = "",
    *,
    nullable: bool = False,
    allowed: Sequence[str] | None = None,
    lower: float | None = None,
    upper: float | None = None,
    above: float | None = None,
    free: bool = False,
) -> pa.Column:
    """Declare one column; `allowed`, `lower`, `upper` and `above` (exclusive) become checks. `free`: any text."""
    checks = []
    if allowed is not None:
        checks.append(pa.Check.isin(list(allowed), error=f"one of {', '.join(repr(a) for a in allowed)}"))
    if lower is not None:
        checks.append(pa.Check.ge(lower, error=f"at least {lower:g}"))
    if above is not None:
        checks.append(pa.Check.gt(above, error=f"above {above:g}"))
    if upper is not None:
        checks.append(pa.Check.le(upper, error=f"at most {upper:g}"))
    metadata = {"unit": unit, "dtype": dtype, "free": free}
    return pa.Column(dtype, checks, nullable=nullable, description=meaning, metadata=metadata)


def table(
    name: str, meaning: str, key: Sequence[str], columns: Mapping[str, pa.Column], **references: str
) -> pa.DataFrameSchema:
    """Declare one table; `references` maps a column to the table whose key it must be found in."""
    metadata: dict[str, Any] = {"key": tuple(key), "references": references}
    return pa.DataFrameSchema(
        dict(columns), name=name, description=meaning, unique=list(key), strict=True, ordered=True, metadata=metadata
    )


def gain(meaning: str) -> pa.Column:
    """Declare a ratio of norms: positive, or empty where it is missing."""
    return column(FLOAT, meaning, "ratio", nullable=True, above=0.0)


MISSING = column(TEXT, "why numeric values of this row are missing; empty where none is")
