"""Make data/published from the study's result files: `python scripts/delia2026/import_study.py
FOLDER`.

FOLDER holds the files of doi:10.5281/zenodo.18165365. Every number in them is imported into a
table, recomputed from imported ones, or stated as it is; a number that nothing reads stops the
import. Tables go to DATA/published, the prompts' texts, which may not be shipped, to DATA/private.
The same files give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import between_files
import laplacians
import pandas as pd
import penultimate_gains
import pooled_norms
import prompt_gains
import sub_blocks
import within_files
from ledger import STAMP, Document
from reading import UNSTATED_SET, Reading, declared, stated_date

from thermostats.errors import ThermostatsError, UsageError
from thermostats.tables import store
from thermostats.tables.schemas import TABLES as SCHEMAS

DOI = "10.5281/zenodo.18165365"
LICENCE = "MIT"
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
"""Families (names without time stamp) and what reads them; the prompt set of the benchmark is
declared first."""
COPIES = {
    "thermodynamic_benchmark.json": "thermodynamic_benchmark.csv",
    "twin_test_results.json": "twin_test_results.csv",
    "gpt2_layernorm_validation.json": "gpt2_layernorm_validation.csv",
    "gptj_parallel_test.json": "gptj_parallel_test.csv",
    "H4_validation.json": "H4_summary.csv",
    "H4_v2_validation.json": "H4_v2_summary.csv",
}
"""Families and those that repeat them."""
DECIMALS = 12
"""Of a relative difference that is written: below, it is rounding, which differs between
processors."""


def documents(folder: Path) -> dict[str, Document]:
    """The study's files by family, in the order of READERS and COPIES; raises UsageError where one
    is missing."""
    there = {re.sub(STAMP, "", path.name): path for path in sorted(folder.glob("*.*"))}
    families = (*READERS, *COPIES.values())
    if lacking := [family for family in families if family not in there]:
        raise UsageError(
            "files of the study are missing",
            where=folder,
            got=", ".join(lacking),
            next_step=f"see {DOI}",
        )
    return {family: Document.read(path) for family, path in there.items() if family in families}


def import_study(folder: Path, data: Path) -> dict[str, pd.DataFrame]:
    """Every table that the study's files give; raises DataError where a file is not as
    published."""
    files = documents(folder)
    models = store.load("models", data)
    main = models[models["revision"] == "main"].set_index("model_id", drop=False)
    reading = Reading(files, main.to_dict("index"))
    reading.prompts(UNSTATED_SET, [("unstated", "", "unstated", None)])
    for family, read in READERS.items():
        parts = [files[name] for name in (family, COPIES.get(family)) if name]
        read(reading, *parts)
        for part in parts:
            part.close()
    for row in declared("stated.csv"):
        reading.add("statements", **{**row, "value": float(row["value"]), "missing": ""})
    measured = between_files.gains_by_model(reading)
    between_files.find(reading, measured)
    within_files.find(reading, measured)
    repeated = {copy: reading.file(family) for family, copy in COPIES.items()}
    reading.rows["sources"] = [
        _source(document, repeated.get(family, "")) for family, document in files.items()
    ]
    reading.rows["reconciliation"] = [
        row for document in files.values() for row in _account(document)
    ]
    return {name: _table(reading, name) for name in TABLES}


def write(tables: dict[str, pd.DataFrame], data: Path) -> None:
    """Write the tables to `published/`, the texts of prompts to `private/`, and check them with all
    others there."""
    texts = tables["prompts"][tables["prompts"]["text"] != ""]
    store.save(texts, "prompts", data / "private" / "prompts.csv")
    for name, frame in {**tables, "prompts": tables["prompts"].assign(text="")}.items():
        store.save(frame, name, data / "published" / f"{name}.csv")
    store.check(data)


def _source(document: Document, repeats: str) -> dict[str, Any]:
    content = document.content
    facts = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "doi": DOI,
        "licence": LICENCE,
    }
    return {
        "file": document.file,
        **facts,
        "measured_at": stated_date(document.root),
        "repeats": repeats,
    }


def _account(document: Document) -> Iterator[dict[str, Any]]:
    """Rows of the table `reconciliation` of one file: its numbers by place and fate."""
    for (pattern, fate), rows in pd.DataFrame(document.entries.values()).groupby(
        ["pattern", "fate"], sort=False
    ):
        places = list(rows["where"].unique())
        yield {
            "file": document.file,
            "pointer": pattern,
            "fate": fate,
            "numbers": len(rows),
            "missing": int(rows["missing"].sum()),
            "largest_difference": rows["difference"].astype(float).max().round(DECIMALS),
            "where": f"{places[0]} … {places[-1]} ({len(places)} names)"
            if len(places) > 3
            else "; ".join(places),
        }


def _table(reading: Reading, name: str) -> pd.DataFrame:
    frame = pd.DataFrame(reading.rows[name])
    absent = {column: None for column in SCHEMAS[name].columns if column not in frame}
    return store.validate(frame.assign(**absent), name, "the study's files")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the study's result files")
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder with models.csv; by default data"
    )
    arguments = parser.parse_args()
    try:
        write(import_study(arguments.folder, arguments.data), arguments.data)
    except ThermostatsError as error:
        parser.exit(error.exit_code, f"{error}\n")
