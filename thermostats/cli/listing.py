"""Listings as rows: architectures, columns and claims, which need no table; others are `table_listing`'s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thermostats.claims.scripts import scripts
from thermostats.errors import UsageError
from thermostats.tables.feature_columns import FEATURES
from thermostats.tables.folders import shipped
from thermostats.tables.join_columns import when_joined
from thermostats.tables.schemas import ONE_OF, TABLES, Column, key

Rows = tuple[list[dict[str, Any]], list[str]]
CLAIMED = ("claim", "reads", "needs", "title")
"""What is shown of a claim."""
OWN = ("models", "runs")
"""Listings of models: of the folder's own alone, of one lab or family, with or without the controlled study."""
SPARE = ("variant", "d_model", "dtype", "source", "prompt_set", "family", "n_heads", "d_head", "type", "unit")
"""Columns of listings that a narrow terminal does without, in this order."""


def rows(
    what: str,
    data: str | Path | None = None,
    *,
    table: str | None = None,
    analyses: Path | None = None,
    rules: bool = True,
    yours: bool = False,
    **chosen: Any,
) -> Rows:
    """Rows and the columns to show of one listing.

    table: of columns, those of this table alone. analyses: folder of claims. rules: without them, claims that ship are
    read from their words alone, since scripts state the rules. The verb has checked the names. own, chosen: models and
    runs that `table_listing.rows` lists.

    Raises UsageError where there is no listing of own rows, and for a lab or family that none of them has.
    """
    if yours and what not in OWN:
        raise UsageError("own rows are not listed separately", got=what, allowed=", ".join(OWN))
    if what == "columns":
        return _columns(table)
    if what == "architectures":
        return _architectures()
    if what == "claims":
        return _claims(analyses or shipped("analyses"), rules=rules or analyses is not None)
    if what == "evidence":
        return _evidence(data)
    from thermostats.cli import table_listing  # noqa: PLC0415 - pandas

    return table_listing.rows(what, data, alone=yours, **chosen)


def _claims(analyses: Path, *, rules: bool) -> Rows:
    """The claims of a folder by their words, and with their rules, for which all that computes is loaded."""
    from thermostats.claims.template import Template  # noqa: PLC0415 - jinja2

    words = [Template.read(script.with_suffix(".md")) for script in scripts(analyses).values()]
    listed = [
        dict(zip(CLAIMED, (each.id, each.facts.get("rows", ""), each.facts.get("needs", ""), each.title), strict=True))
        for each in words
    ]
    if rules:
        from thermostats.claims.run import claims  # noqa: PLC0415 - listing tables must not load it

        ruled = {claim.id: {"said": claim.statement, "rule": claim.rule} for claim in claims(analyses)}
        listed = [row | ruled[row["claim"]] for row in listed]
    return listed, [*CLAIMED]


def _evidence(data: str | Path | None) -> Rows:
    """Sets of evidence with their models and labs."""
    from thermostats.tables import store  # noqa: PLC0415 - pandas
    from thermostats.tables.between_sources import counts  # noqa: PLC0415
    from thermostats.tables.evidence import DECODER  # noqa: PLC0415
    from thermostats.tables.features import features  # noqa: PLC0415

    rows, published = features(data), set(store.load("sources", data)["file"])
    listed = counts(rows[rows["modality"] == DECODER], store.load("runs", data), published).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in listed], [str(name) for name in listed[0]]


def _columns(table: str | None) -> Rows:
    listed = [
        {
            "table": name,
            "column": label,
            "key": "key" if label in key(name) else "",
            "joined": when_joined(name, label),
            "type": column.dtype,
            "unit": column.unit,
            "of": column.of,
            "meaning": "; ".join([str(column.description), *_values(column)]),
        }
        for name, schema in TABLES.items()
        for label, column in schema.columns.items()
    ]
    listed += [
        {"table": "features", "key": "", "joined": "", "column": label}
        | {"type": column.dtype, "unit": column.unit, "of": column.of}
        | {"meaning": column.description}
        for label, column in FEATURES.items()
    ]
    return [row for row in listed if table in (None, row["table"])], list(listed[0])


def _values(column: Column) -> list[str]:
    """The values that a column of text may have, where its meaning does not name them."""
    values = [value for check in column.checks if check.kind == ONE_OF for value in check.value if value]
    return [f"one of {', '.join(values)}"] * any(value not in column.description for value in values)


def _architectures() -> Rows:
    from thermostats.measurement.architectures import ARCHITECTURES, TEXT_TOWERS  # noqa: PLC0415 - tables need no models

    listed = [
        {
            "architecture": entry.name,
            "model_type": entry.model_type,
            "values": entry.layout,
            "parallel": entry.parallel,
            "additive": entry.additive,
            "when": ", ".join(f"{name} = {value}" for name, value in entry.when),
        }
        for entry in ARCHITECTURES
    ]
    tower = dict.fromkeys(("values", "parallel", "additive"), "its text tower's")
    listed += [{"architecture": name, "model_type": name, **tower, "when": ""} for name in sorted(TEXT_TOWERS)]
    return listed, list(listed[0])
