"""Listings as rows: of tables, models, runs and prompts, and of architectures, columns and claims,
which need no table."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.result import describe_verdict
from thermostats.claims.study import choose_claims, list_scripts
from thermostats.errors import DataError, UsageError, build_unknown_error
from thermostats.formatting import format_estimate
from thermostats.reporting.pages import find_findings_file, refuse_own_findings
from thermostats.tables import runs as spec_states
from thermostats.tables import store
from thermostats.tables.choices import ALL, OWN_ROWS, check_set, is_asked
from thermostats.tables.column_map import describe_requirement
from thermostats.tables.features import FEATURES
from thermostats.tables.folders import find_data_folder, find_shipped, list_layers, list_own_files
from thermostats.tables.frames import select_rows
from thermostats.tables.reading import load
from thermostats.tables.schemas import NURSERY, ONE_OF, TABLES, Column, list_key_columns

Rows = tuple[list[dict[str, Any]], list[str]]
OWN = ("models", "runs")
"""Listings of models: of the folder's own alone, of one lab or family, with or without the
controlled study."""


def list_rows(
    what: str,
    data: str | Path | None,
    *,
    alone: bool,
    lab: str = "",
    family: str = "",
    nursery: bool = True,
) -> Rows:
    """Rows and the columns to show of a listing.

    alone: of models and runs those alone that lie in the folder itself. lab, family: those of them
    alone. nursery: without it, those of the controlled study are left out unless they are asked for
    by lab.
    """
    read: dict[str, Callable[[str | Path | None, bool], Rows]] = {
        "models": _list_models,
        "prompts": _list_prompts,
        "runs": _list_runs,
        "tables": _list_tables,
    }
    listed, columns = read[what](data, alone)
    if what not in OWN:
        return listed, columns
    of = {}
    for row in convert_rows(store.load("models", data)):
        of[_identify(row)] = row
    pairs = [(row, of.get(_identify(row), {})) for row in listed]
    matching = pairs
    for name, label, wanted in (("lab", "heritage", lab), ("family", "family", family)):
        if wanted:
            if not any(_is(model, label, wanted) for _, model in pairs):
                named = {str(model.get(label) or "") for _, model in matching} - {"", NURSERY}
                raise build_unknown_error(f"no {what} of this {name}", wanted, sorted(named))
            matching = [(row, model) for row, model in matching if _is(model, label, wanted)]
    leave_out = not nursery and lab.casefold() != NURSERY
    kept = []
    for row, model in matching:
        if not (leave_out and model.get("heritage") == NURSERY):
            kept.append(row)
    return kept, columns


def _identify(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["model_id"], row["revision"]


def _is(model: Mapping[str, Any], label: str, wanted: str) -> bool:
    """Whether a model's lab or family is the one wanted, whatever the case."""
    return str(model.get(label) or "").casefold() == wanted.casefold()


def list_findings(
    out: Path, claims: Sequence[str] = (), evidence: str | None = None
) -> list[dict[str, Any]]:
    """Findings of the last report, of some claims or all, each claim's first question first, named
    figures as objects.

    evidence: the set that they rest on, or `all`; None: of each question the set it was first asked
    of.

    Raises UsageError for a claim that the report does not have, and for another set.
    """
    check_set(evidence, ALL)
    path = find_findings_file(out)
    stated = store.read_typed(path, "findings")
    listed = convert_rows(store.validate(stated, "findings", path))
    try:
        for row in listed:
            for name in ("published", "reproduced"):
                row[name] = json.loads(row[name])
    except (ValueError, RecursionError) as error:
        got = str(error)
        step = "thermostats report --all"
        raise DataError(
            "the named figures of a finding are no JSON", where=path, got=got, next_step=step
        ) from error
    first = {row["finding"] for row in listed if row["headline"]}
    there = dict.fromkeys((row["claim"] for row in listed), path)
    wanted = choose_claims(claims or None, there)
    asked = []
    for row in listed:
        if row["claim"] in wanted and is_asked(evidence, row["evidence"], row["view_of"]):
            asked.append(row)
    if evidence == OWN_ROWS and not asked:
        some = any(row["evidence"] == OWN_ROWS for row in listed)
        refuse_own_findings(out, claims, some=some)
    return sorted(asked, key=lambda row: (row["claim"], row["finding"] not in first))


def describe_finding(row: Mapping[str, Any], first: Container[str]) -> dict[str, str]:
    """What a person reads in place of columns of a finding: whether it is of a claim's first
    question, on any set; the verdict with where it leans and whether it is provisional; the
    estimate as pages round it.
    """
    estimate = format_estimate(row["estimate"], row["lower"], row["upper"])
    return {
        "headline": "claim" if row["finding"] in first else "",
        "verdict": describe_verdict(row),
        "estimate": estimate,
    }


def _list_tables(data: str | Path | None, _alone: bool) -> Rows:
    listed = load(data=data).to_dict("records")
    return listed, list(listed[0])


def _list_models(data: str | Path | None, alone: bool) -> Rows:
    columns = [
        "model_id",
        "heritage",
        "family",
        "variant",
        "n_layers",
        "d_model",
        "n_heads",
        "d_head",
        "n_params",
    ]
    rows = _load_own_last("models", data, alone)
    names = [row["model_id"] for row in rows]
    if len(names) > len(set(names)):
        columns.insert(1, "revision")
    return rows, columns


def _list_prompts(data: str | Path | None, _alone: bool) -> Rows:
    listed = []
    for name, rows in store.load("prompts", data).groupby("prompt_set", sort=False):
        row = {"prompt_set": name, "prompts": len(rows)}
        row["texts"] = int((rows["text"] != "").sum())
        row["categories"] = ", ".join(sorted(set(rows["category"]) - {""}))
        listed.append(row)
    return listed, ["prompt_set", "prompts", "texts", "categories"]


def _list_runs(data: str | Path | None, alone: bool) -> Rows:
    """Runs in the tables, then specs that are not measured: waiting, running, interrupted or
    failed."""
    columns = ["run_id", "model_id", "revision", "dtype", "prompt_set", "source", "state", "reason"]
    rows = []
    for run in _load_own_last("runs", data, alone):
        rows.append({**run, "state": spec_states.DONE, "reason": ""})
    empty = dict.fromkeys(TABLES["runs"].columns) | {"run_id": "", "source": ""}
    for spec in spec_states.read(find_data_folder(data)):
        row = {
            **empty,
            "model_id": spec.model,
            "revision": spec.revision,
            "dtype": spec.dtype,
            "prompt_set": spec.prompts,
            "state": spec.state,
            "reason": spec.reason,
        }
        rows.append(row)
    return rows, columns


def _load_own_last(name: str, data: str | Path | None, alone: bool) -> list[dict[str, Any]]:
    """Rows of a table, those of a user's store below the package's, where they are seen; `alone`:
    without these."""
    folder = find_data_folder(data)
    listed = convert_rows(store.load(name, data))
    if not list_layers(folder)[:-1]:
        return listed
    keys = list_key_columns(name)
    held_here: set[tuple[Any, ...]] = set()
    for path in list_own_files(name, folder):
        named = store.read_typed(path, name)[keys]
        held_here.update(named.itertuples(index=False, name=None))
    own: list[dict[str, Any]] = []
    beneath: list[dict[str, Any]] = []
    for row in listed:
        is_own = tuple(row[label] for label in keys) in held_here
        (own if is_own else beneath).append(row)
    return own if alone else [*beneath, *own]


def convert_rows(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain Python values, a missing one as None."""
    cells = rows.astype(object).where(rows.notna(), None)
    records: list[dict[str, Any]] = cells.rename(columns=str).to_dict("records")
    return records


CLAIMED = ("claim", "reads", "needs", "title")
"""What is shown of a claim."""
SPARE = (
    "variant",
    "d_model",
    "dtype",
    "source",
    "prompt_set",
    "family",
    "n_heads",
    "d_head",
    "type",
    "unit",
)
"""Columns of listings that a narrow terminal does without, in this order."""


def list_table_rows(
    what: str,
    data: str | Path | None = None,
    *,
    table: str | None = None,
    analyses: Path | None = None,
    rules: bool = True,
    yours: bool = False,
    proofs: bool = False,
    **chosen: Any,
) -> Rows:
    """Rows and the columns to show of one listing.

    table: of columns, those of this table alone. analyses: folder of claims. rules: without them,
    claims that ship are read from their words alone, since scripts state the rules. The verb has
    checked the names. own, chosen: models and runs that `list_rows` lists. proofs: of
    architectures, what was proved of each.

    Raises UsageError where there is no listing of own rows, and for a lab or family that none of
    them has.
    """
    if yours and what not in OWN:
        raise UsageError("own rows are not listed separately", got=what, allowed=", ".join(OWN))
    if what == "columns":
        return _list_columns(table)
    if what == "architectures":
        return list_proofs() if proofs else _list_architectures()
    if what == "claims":
        return _list_claims(
            analyses or find_shipped("analyses"), rules=rules or analyses is not None
        )
    if what == "evidence":
        return _list_evidence(data)
    return list_rows(what, data, alone=yours, **chosen)


def _list_claims(analyses: Path, *, rules: bool) -> Rows:
    """The claims of a folder by their words, and with their rules, for which all that computes is
    loaded."""
    from thermostats.claims.template import Template  # noqa: PLC0415

    listed: list[dict[str, Any]] = []
    for script in list_scripts(analyses).values():
        words = Template.read(script.with_suffix(".md"))
        row = {
            "claim": words.id,
            "reads": words.facts.get("rows", ""),
            "needs": words.facts.get("needs", ""),
            "title": words.title,
        }
        listed.append(row)
    if rules:
        from thermostats.claims.run import load_claims  # noqa: PLC0415

        for row, claim in zip(listed, load_claims(analyses), strict=True):
            row |= {"said": claim.statement, "rule": claim.rule}
    return listed, [*CLAIMED]


def _list_evidence(data: str | Path | None) -> Rows:
    """Sets of evidence with their models and labs."""
    from thermostats.tables import store  # noqa: PLC0415
    from thermostats.tables.choices import DECODER, SETS, of_interventions  # noqa: PLC0415
    from thermostats.tables.features import build_features  # noqa: PLC0415
    from thermostats.tables.model_rows import count_labs, count_models, count_set  # noqa: PLC0415
    from thermostats.tables.schemas import INTERVENED  # noqa: PLC0415

    rows_of_table = build_features(data)
    decoders = select_rows(rows_of_table, modality=DECODER)
    own_runs = store.read_own_runs(find_data_folder(data))["run_id"]
    published = set(store.load("sources", data)["file"])
    runs = store.load("runs", data)
    models = store.load("models", data)
    listed: list[Any] = count_models(decoders, runs, published).to_dict("records")
    listed.append(count_set(OWN_ROWS, select_rows(decoders, run_id=own_runs)))
    changed = runs[of_interventions(runs)].merge(models, on=["model_id", "revision"])
    kinds = {
        "": changed,
        "comparable_": changed[changed["norm_place"] != "post"],
        "last_token_": changed,
    }
    row: dict[str, Any] = {"evidence": INTERVENED}
    for kind, of in kinds.items():
        row[f"{kind}models"] = of["model_id"].nunique()
        row[f"{kind}labs"] = count_labs(of)
    listed.append({**row, "what": SETS[INTERVENED]})
    return listed, list(listed[0])


def _list_columns(table: str | None) -> Rows:
    listed = []
    for name, schema in TABLES.items():
        for label, column in schema.columns.items():
            row = {"table": name, "column": label}
            row["key"] = "key" if label in list_key_columns(name) else ""
            row["joined"] = describe_requirement(name, label)
            meaning = [str(column.description), *_list_values(column)]
            listed.append({**row, **_describe_column(column), "meaning": "; ".join(meaning)})
    for label, column in FEATURES.items():
        row = {"table": "features", "column": label, "key": "", "joined": ""}
        listed.append({**row, **_describe_column(column), "meaning": column.description})
    return [row for row in listed if table in (None, row["table"])], list(listed[0])


def _describe_column(column: Column) -> dict[str, str]:
    return {"type": column.dtype, "unit": column.unit, "of": column.of}


def _list_values(column: Column) -> list[str]:
    """The values that a column of text may have, where its meaning does not name them."""
    lists = (check.value for check in column.checks if check.kind == ONE_OF)
    values = list(filter(None, chain.from_iterable(lists)))
    if all(value in column.description for value in values):
        return []
    return [f"one of {', '.join(values)}"]


def _list_architectures() -> Rows:
    from thermostats.measurement.architectures import ARCHITECTURES, TEXT_TOWERS  # noqa: PLC0415

    listed: list[dict[str, Any]] = []
    for entry in ARCHITECTURES:
        row = {
            "architecture": entry.name,
            "model_type": entry.model_type,
            "values": entry.layout,
            "parallel": entry.parallel,
            "additive": entry.additive,
            "when": ", ".join(f"{name} = {value}" for name, value in entry.when),
        }
        listed.append(row)
    tower = dict.fromkeys(("values", "parallel", "additive"), "its text tower's")
    for name in sorted(TEXT_TOWERS):
        listed.append({"architecture": name, "model_type": name, **tower, "when": ""})
    return listed, list(listed[0])


def list_proofs() -> Rows:
    """A row a class and version of transformers: what was proved; classes of which nothing was have
    a row too."""
    from thermostats.measurement.architectures import ARCHITECTURES, TEXT_TOWERS  # noqa: PLC0415
    from thermostats.tables.register import load_proofs  # noqa: PLC0415

    rows = convert_rows(load_proofs())
    there = set()
    listed = []
    for row in rows:
        there.add(row["architecture"])
        listed.append({**row, "state": "failed" if row["failed"] else "proved"})
    empty: dict[str, Any] = dict.fromkeys(TABLES["proofs"].columns, "")
    empty |= {"held": 0, "difference": None, "state": "unproven"}
    for name in (*(entry.name for entry in ARCHITECTURES), *sorted(TEXT_TOWERS)):
        if name not in there:
            listed.append({**empty, "architecture": name})
    columns = [
        "architecture",
        "transformers",
        "state",
        "held",
        "difference",
        "identity",
        "not_covered",
        "proved_on",
    ]
    return listed, columns
