"""From a folder with the study's files to `published/` in a data folder: read, account, check, then write at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.study import Imported
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
from thermostats.studies.delia2026.importer.ledger import DERIVABLE, Document
from thermostats.studies.delia2026.importer.reading import UNSTATED_SET, Reading, declared
from thermostats.studies.delia2026.importer.writing import write
from thermostats.tables import store
from thermostats.tables.runs import check_run_ids
from thermostats.tables.schemas import references

TABLES = (
    "runs",
    "layers",
    "summaries",
    "outputs",
    "weights",
    "attention",
    "transitions",
    "prompts",
    "sources",
    "statements",
    "inconsistencies",
    "reconciliation",
)
READERS: tuple[tuple[Callable[..., None], tuple[str, ...]], ...] = (
    (prompt_gains.read_benchmark, ("thermodynamic_benchmark.json", "thermodynamic_benchmark.csv")),
    (prompt_gains.read_twins, ("twin_test_results.json", "twin_test_results.csv")),
    (prompt_gains.read_gpt2, ("gpt2_layernorm_validation.json", "gpt2_layernorm_validation.csv")),
    (prompt_gains.read_gptj, ("gptj_parallel_test.json", "gptj_parallel_test.csv")),
    (penultimate_gains.read_family, ("pythia_family_NO_FINAL_LN.json",)),
    (penultimate_gains.read_hunt, ("high_rho_hunt_NO_FINAL_LN.json",)),
    (penultimate_gains.read_clean, ("clean_residual_NO_FINAL_LN.json",)),
    (pooled_norms.read_four_models, ("4model_validation_results.json",)),
    (pooled_norms.read_input_dependency, ("input_dependency_thermodynamics.json",)),
    (pooled_norms.read_mistral, ("mistral_paradox_investigation_results.json",)),
    (pooled_norms.read_llama, ("llama_anomaly_hypothesis_tests.json",)),
    (sub_blocks.read_ffn, ("ffn_expansion_results.json",)),
    (sub_blocks.read_scaling, ("scaling_law_multi_pythia_results.json",)),
    (sub_blocks.read_opt, ("OPT_anomaly.json",)),
    (sub_blocks.read_restriction_summary, ("restriction_map_summary.csv",)),
    (laplacians.read_h4, ("H4_validation.json", "H4_summary.csv")),
    (laplacians.read_h4_v2, ("H4_v2_validation.json", "H4_v2_summary.csv")),
    (laplacians.read_h4_extended, ("H4_v2_extended.json",)),
    (laplacians.read_maps, ("restriction_maps_results.json",)),
    (laplacians.read_sign_change, ("l_star_sign_change.json",)),
)
"""Which function reads which families; the prompt set of the benchmark is declared first."""


def import_files(source: Path, data: Path) -> Imported:
    """Read all result files of the study in `source` into `data/published`, prompt texts into `data/private`.

    Everything is read, accounted for, validated and serialised before the first file is written; tables that are there
    already are replaced whole where they differ.

    Raises UsageError where the folder or a file is missing, DataError where a file is damaged or not as published, or
    the data folder cannot be written; nothing has changed then.
    """
    source, data = Path(source), store.data_folder(data)
    found, ignored = source_files.find(source)
    models = store.load("models", data)
    sources = {family: source_files.read(family, path) for family, path in found.items()}
    reading = Reading({family: item.document for family, item in sources.items()}, _facts(models))
    reading.prompts(UNSTATED_SET, [("unstated", "", "unstated", None)])
    for reader, families in READERS:
        reader(reading, *(reading.documents[family] for family in families))
    for document in reading.documents.values():
        document.close()
    for row in declared("stated.csv"):
        reading.add("statements", **{**row, "value": float(row["value"]), "missing": ""})
    measured = list(between_files.gains_by_model(reading))
    between_files.find(reading, measured)
    within_files.find(reading, measured)
    names = {family: item.path.name for family, item in sources.items()}
    reading.rows["sources"] = [item.row(names) for item in sources.values()]
    reading.rows["reconciliation"] = [row for document in reading.documents.values() for row in _account(document)]
    tables = {name: _table(reading, name) for name in TABLES}
    _cross_check(tables, models, data)
    texts = tables["prompts"][tables["prompts"]["text"] != ""]
    tables["prompts"] = tables["prompts"].assign(text="")
    changes = write(tables, texts, data)
    entries = [entry for document in reading.documents.values() for entry in document.entries.values()]
    fates = pd.Series([entry.fate for entry in entries]).value_counts()
    return Imported(
        files=len(sources),
        numbers=len(entries),
        fates={fate: int(fates.get(fate, 0)) for fate in ("imported", "derivable", "left out")},
        rows={name: len(frame) for name, frame in tables.items()},
        ignored=tuple(ignored),
        changes=changes,
    )


def _facts(models: pd.DataFrame) -> dict[str, dict[str, Any]]:
    main = models[models["revision"] == "main"]
    return {str(row["model_id"]): {str(k): v for k, v in row.items()} for row in main.to_dict("records")}


def _table(reading: Reading, name: str) -> pd.DataFrame:
    frame = pd.DataFrame(reading.rows.get(name, []))
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


def _account(document: Document) -> list[dict[str, object]]:
    """Rows of the table `reconciliation` of one file: its numbers by place and fate."""
    groups: dict[tuple[str, str], list[int]] = {}
    entries = list(document.entries.values())
    for index, entry in enumerate(entries):
        groups.setdefault((entry.pattern, entry.fate), []).append(index)
    rows = []
    for (pattern, fate), indices in groups.items():
        of = [entries[index] for index in indices]
        differences = [entry.difference for entry in of if entry.difference is not None]
        rows.append(
            {
                "file": document.file,
                "pointer": pattern,
                "fate": fate,
                "numbers": len(of),
                "missing": sum(entry.missing for entry in of),
                "largest_difference": max(differences) if fate == DERIVABLE and differences else None,
                "where": _joined([entry.where for entry in of]),
            }
        )
    return rows


def _joined(places: list[str]) -> str:
    distinct = list(dict.fromkeys(places))
    if len(distinct) > 3:
        return f"{distinct[0]} … {distinct[-1]} ({len(distinct)} names)"
    return "; ".join(distinct)
