"""From a folder with the study's files to `published/` in a data folder: read, account, check, then write at once."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.study import Change, Imported
from thermostats.errors import DataError
from thermostats.studies.delia2026.importer import (
    between_files,
    laplacians,
    penultimate_gains,
    pooled_norms,
    prompt_gains,
    source_files,
    sub_blocks,
    within_files,
)
from thermostats.studies.delia2026.importer.ledger import DERIVABLE, IMPORTED, Document
from thermostats.studies.delia2026.importer.reading import UNSTATED_SET, Reading, declared
from thermostats.tables import store
from thermostats.tables.atomic import only_writer, write_all
from thermostats.tables.runs import check_run_ids
from thermostats.tables.schemas import key, references

TABLES = (
    *("runs", "layers", "summaries", "outputs", "weights", "attention", "transitions", "prompts"),
    *("sources", "statements", "inconsistencies", "reconciliation"),
)
READERS: dict[str, Callable[..., None]] = {
    "thermodynamic_benchmark.json": prompt_gains.read_benchmark,
    "twin_test_results.json": prompt_gains.read_twins,
    "gpt2_layernorm_validation.json": prompt_gains.read_gpt2,
    "gptj_parallel_test.json": prompt_gains.read_gptj,
    "pythia_family_NO_FINAL_LN.json": penultimate_gains.read_family,
    "high_rho_hunt_NO_FINAL_LN.json": penultimate_gains.read_hunt,
    "clean_residual_NO_FINAL_LN.json": penultimate_gains.read_clean,
    "4model_validation_results.json": pooled_norms.read_four_models,
    "input_dependency_thermodynamics.json": pooled_norms.read_input_dependency,
    "mistral_paradox_investigation_results.json": pooled_norms.read_mistral,
    "llama_anomaly_hypothesis_tests.json": pooled_norms.read_llama,
    "ffn_expansion_results.json": sub_blocks.read_ffn,
    "scaling_law_multi_pythia_results.json": sub_blocks.read_scaling,
    "OPT_anomaly.json": sub_blocks.read_opt,
    "restriction_map_summary.csv": sub_blocks.read_restriction_summary,
    "H4_validation.json": laplacians.read_h4,
    "H4_v2_validation.json": laplacians.read_h4_v2,
    "H4_v2_extended.json": laplacians.read_h4_extended,
    "restriction_maps_results.json": laplacians.read_maps,
    "l_star_sign_change.json": laplacians.read_sign_change,
}
"""Families (names without time stamp) and what reads them; the prompt set of the benchmark is declared first."""
COPIES = {
    "thermodynamic_benchmark.json": "thermodynamic_benchmark.csv",
    "twin_test_results.json": "twin_test_results.csv",
    "gpt2_layernorm_validation.json": "gpt2_layernorm_validation.csv",
    "gptj_parallel_test.json": "gptj_parallel_test.csv",
    "H4_validation.json": "H4_summary.csv",
    "H4_v2_validation.json": "H4_v2_summary.csv",
}
"""Families and those that repeat them."""
FAMILIES = (*READERS, *COPIES.values())


def import_files(source: Path, data: Path) -> Imported:
    """Read all result files of the study in `source` into `data/published`, prompt texts into `data/private`.

    Everything is read, accounted for, validated and serialised before the first file is written; tables that are there
    already are replaced whole where they differ.

    Raises UsageError where the folder or a file is missing, DataError where a file is damaged or not as published, or
    the data folder cannot be written; nothing has changed then.
    """
    source, data = Path(source), store.data_folder(data)
    found, ignored = source_files.find(source, FAMILIES)
    models = store.load("models", data)
    documents = {family: source_files.read(path) for family, path in found.items()}
    reading = Reading(documents, facts(models))
    for family in READERS:
        read(reading, family)
    for row in declared("stated.csv"):
        reading.add("statements", **{**row, "value": float(row["value"]), "missing": ""})
    measured = between_files.gains_by_model(reading)
    between_files.find(reading, measured)
    within_files.find(reading, measured)
    originals = {copy: reading.file(family) for family, copy in COPIES.items()}
    for family, document in documents.items():
        reading.add("sources", **source_files.source_row(document, originals.get(family, "")))
    reading.rows["reconciliation"] = [row for document in documents.values() for row in _account(document)]
    tables = {name: _table(reading, name) for name in TABLES}
    _cross_check(tables, models, data)
    texts = tables["prompts"][tables["prompts"]["text"] != ""]
    tables["prompts"] = tables["prompts"].assign(text="")
    fates = [entry.fate for document in documents.values() for entry in document.entries.values()]
    return Imported(
        files=len(documents),
        numbers=len(fates),
        fates={fate: fates.count(fate) for fate in (IMPORTED, DERIVABLE, "left out")},
        rows={name: len(frame) for name, frame in tables.items()},
        ignored=tuple(ignored),
        changes=_write(tables, texts, data),
    )


def facts(models: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Rows of the table `models` by hub id."""
    main = models[models["revision"] == "main"]
    return {str(row["model_id"]): {str(k): v for k, v in row.items()} for row in main.to_dict("records")}


def read(reading: Reading, family: str) -> None:
    """Read the file of a family, and the one that repeats it.

    Raises DataError where it is not as published: a part is missing, or parts do not go together.
    """
    if UNSTATED_SET not in {row["prompt_set"] for row in reading.rows.get("prompts", [])}:
        reading.prompts(UNSTATED_SET, [("unstated", "", "unstated", None)])
    documents = [reading.documents[name] for name in (family, COPIES.get(family)) if name]
    try:
        READERS[family](reading, *documents)
    except (ArithmeticError, LookupError, ValueError) as error:
        raise DataError(
            "parts of the file do not go together",
            where=documents[0].file,
            got=f"{type(error).__name__}: {error}",
            next_step="restore the published file",
        ) from error
    for document in documents:
        document.close()


def _account(document: Document) -> Iterator[dict[str, object]]:
    """Rows of the table `reconciliation` of one file: its numbers by place and fate."""
    for (pattern, fate), own in pd.DataFrame(document.entries.values()).groupby(["pattern", "fate"], sort=False):
        places = list(own["where"].unique())
        many = len(places) > 3
        yield {
            "file": document.file,
            "pointer": pattern,
            "fate": fate,
            "numbers": len(own),
            "missing": int(own["missing"].sum()),
            "largest_difference": own["difference"].max(),
            "where": f"{places[0]} … {places[-1]} ({len(places)} names)" if many else "; ".join(places),
        }


def _table(reading: Reading, name: str) -> pd.DataFrame:
    frame = pd.DataFrame(reading.rows[name])
    for label in store.dtypes(name):
        if label not in frame:
            frame[label] = None
    return store.validate(frame, name, "the study's files")


def _cross_check(tables: Mapping[str, pd.DataFrame], models: pd.DataFrame, data: Path) -> None:
    for name, frame in tables.items():
        for label, target in references(name).items():
            store.check_reference(frame, name, label, models if target == "models" else tables[target], target)
    store.check_prompts(tables["runs"], tables["prompts"])
    check_run_ids(tables["runs"])
    own = data / "prompts.csv"
    if own.is_file():
        clash = set(store.read(own, "prompts")["prompt_set"]) & set(tables["prompts"]["prompt_set"])
        if clash:
            raise DataError(
                "the data folder has prompt sets of the same names", where=own, got=", ".join(sorted(clash))
            )


def _write(tables: Mapping[str, pd.DataFrame], texts: pd.DataFrame, data: Path) -> tuple[Change, ...]:
    """Write `published/<table>.csv` and the prompts' texts to `private/prompts.csv`; only what differs, all or none."""
    places = {data / "published" / f"{name}.csv": (name, name, frame) for name, frame in tables.items()}
    private = data / "private" / "prompts.csv"
    if private.is_file():
        before = store.read(private, "prompts")
        texts = pd.concat([before[~before["prompt_set"].isin(set(texts["prompt_set"]))], texts], ignore_index=True)
    places[private] = "private/prompts", "prompts", texts
    contents, changes = {}, []
    for path, (label, name, frame) in places.items():
        if path.exists() and not path.is_file():
            raise DataError("something that is not a file is in the place of a table", where=path)
        try:
            old = path.read_bytes() if path.is_file() else b""
        except OSError as error:
            raise DataError("table cannot be read", where=path, got=error.strerror or str(error)) from error
        if (content := store.to_csv(frame, name)) != old:
            contents[path] = content
            changes.append(_change(label, _rows(old, name), _rows(content, name)))
    if contents:
        with only_writer(data):
            write_all(data, contents)
    return tuple(changes)


def _change(label: str, old: dict[tuple[str, ...], Any], new: dict[tuple[str, ...], Any]) -> Change:
    altered = sum(old[row] != new[row] for row in new.keys() & old.keys())
    return Change(label, len(new.keys() - old.keys()), len(old.keys() - new.keys()), altered)


def _rows(content: bytes, name: str) -> dict[tuple[str, ...], list[Any]]:
    lines = csv.DictReader(io.StringIO(content.decode("utf-8", errors="replace"), newline=""))
    return {tuple(line.get(label) or "" for label in key(name)): list(line.values()) for line in lines}
