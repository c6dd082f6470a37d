"""What measuring a spec comes to: its runs, those that are finished, and the model's row; no weight
is read.

A model is measured in up to three runs, each with its own run_id: `weights` from its files alone,
`residual` with the attention implementation that is its default, and `attention` with eager
attention, the only one with weights to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import ThermostatsError, UsageError
from thermostats.measurement import spectra
from thermostats.measurement.architectures import ARCHITECTURES, STACKS
from thermostats.measurement.checkpoint import find_doubled, open_checkpoint, read_geometry
from thermostats.measurement.empty_models import build_empty_model
from thermostats.measurement.gguf_parts import is_gguf, name_gguf_model
from thermostats.measurement.hub import ModelFolder, fetch_model_folder
from thermostats.measurement.lookup import lookup
from thermostats.measurement.model_class import Architecture, UnknownArchitectureError
from thermostats.measurement.model_row import (
    MEASURE_VERSION,
    add_stated_facts,
    build_model_row,
    check_name,
    check_only_name,
    check_switches,
    find_stored_dtype,
    find_unused_tensors,
    resolve_run,
)
from thermostats.measurement.prompts import load_prompts
from thermostats.measurement.spec import AGAIN, PRECISIONS, WHAT, Cost, Outcome, RunSpec
from thermostats.measurement.spectra import hash_model
from thermostats.next_steps import write_command, write_value
from thermostats.tables import store
from thermostats.tables.identities import COUNTED
from thermostats.tables.labels import find_misspelt
from thermostats.tables.model_rows import FACTS, check_lab
from thermostats.tables.runs import LIKE, hash_prompts, run_id

TIED = (
    "the configuration says that the embeddings are tied, the files hold another unembedding, "
    "which the model uses"
)
STORED = (*PRECISIONS, "float64", "mixed")
"""Precisions that checkpoints are stored in."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a spec: its row of `runs`, and the tables that are still to be filled."""

    kind: str
    run: dict[str, Any]
    tables: tuple[str, ...]


@dataclass(frozen=True)
class MeasurementPlan:
    """What a spec comes to: the model's folder and row, its prompts, and its runs, finished ones
    without tables."""

    spec: RunSpec
    folder: ModelFolder
    model: dict[str, Any]
    prompts: pd.DataFrame
    runs: tuple[PlannedRun, ...]
    sha: str = ""
    """Hash of the model."""
    confirmed: tuple[str, ...] = ()
    """Older runs that the spec says are of this model."""
    differences: tuple[str, ...] = ()
    """Where files and configuration differ, and which counts."""

    @property
    def finished(self) -> bool:
        """Nothing is left to measure."""
        return not any(run.tables for run in self.runs)

    def build_outcome(
        self, status: str, rows: dict[str, int] | None = None, seconds: float = 0.0
    ) -> Outcome:
        """The outcome of a spec that was planned, and measured where there are rows."""
        todo = tuple(run.run["run_id"] for run in self.runs if run.tables)
        finished = tuple(run.run["run_id"] for run in self.runs if not run.tables)
        folder = self.folder
        n_params = int(self.model["n_params"])
        cost = Cost(seconds=seconds)
        return Outcome(
            folder.model_id, status, folder.revision, todo, finished, rows, n_params, cost
        )


def plan(spec: RunSpec, data: Path, *, asks: bool = True) -> MeasurementPlan:
    """What measuring a spec would do; reads the model's configuration and headers, not its weights.

    asks: of weights that the tables hold under another name alone, by which name they go.

    Raises UsageError or DataError where model or prompts cannot be had or read.
    """
    prompts = load_prompts(spec.prompts, data)
    folder = _stack(fetch_folder(spec), str(prompts["modality"].iloc[0]))
    entry = _find_entry(spec, folder)
    check_switches(spec, spectra.read_config(folder.path, folder.reads), folder.path)
    sha = hash_model(folder.path)
    recorded = load_recorded_rows(folder.model_id, folder.revision, data)
    named = {"model_id": folder.model_id, "revision": folder.revision, "heritage": spec.heritage}
    models = store.load("models", data)
    row = build_model_row(folder.path, models=models, reads=folder.reads, **named)
    row = add_stated_facts(row, store.load("candidates"))
    held = store.load("runs", data)
    if asks and not spec.name:
        check_only_name(folder, sha, held[held["source"] == spec.source])
    is_model = held["model_id"] == folder.model_id
    earlier = held[is_model & (held["revision"] == folder.revision)]
    of_source = earlier[earlier["source"] == spec.source]
    check_name(folder, sha, of_source, recorded, row)
    _check_lab(spec, folder, recorded, data)
    _check_labels(spec, folder, prompts, data)
    kinds = _filter_kinds(_group_kinds(spec), entry, prompts)
    if set(kinds) - {"weights"}:
        check_loadable(folder)
    runs: list[PlannedRun] = []
    confirmed: list[str] = []
    for kind, tables in kinds.items():
        dtype = find_stored_dtype(open_checkpoint(folder.path)) if kind == "weights" else spec.dtype
        new = _run(kind, spec, folder.model_id, folder.revision, dtype, prompts, sha)
        run, answered = resolve_run(new, folder, earlier, spec.older)
        confirmed += answered
        runs.append(PlannedRun(kind, run, find_missing_tables(tables, run["run_id"], data)))
    differences: list[str] = []
    if any(run.tables for run in runs):
        row, differences = _update_facts(row, entry, folder, trusted=spec.trust_remote_code)
    if len(recorded):
        row = _merge_recorded_facts(recorded.iloc[0].to_dict(), row, spec.older)
    return MeasurementPlan(
        spec, folder, row, prompts, tuple(runs), sha, tuple(confirmed), tuple(differences)
    )


def _check_lab(spec: RunSpec, folder: ModelFolder, recorded: pd.DataFrame, data: Path) -> None:
    """Raise UsageError where a spec names another lab than the tables, or one whose name is not a
    lab's."""
    lab = recorded["heritage"].iloc[0] if len(recorded) else ""
    if spec.heritage and lab not in ("", spec.heritage):
        line = write_command("set", folder.model_id, f"heritage={spec.heritage}", data=data)
        step = f"leave out --lab, or {line} for a model of yours"
        raise UsageError(
            "the tables name another lab", got=spec.heritage, allowed=lab, next_step=step
        )
    check_lab(spec.heritage, folder.model_id, data)


def _check_labels(spec: RunSpec, folder: ModelFolder, prompts: pd.DataFrame, data: Path) -> None:
    """Raise UsageError for a model, a prompt set or a source that the tables have in another
    spelling."""
    runs = store.load("runs", data)
    sets = store.load("prompts", data)["prompt_set"]
    set_name = str(prompts["prompt_set"].iloc[0])
    models = store.load("models", data)["model_id"]
    labels = {
        "name": (folder.model_id, models),
        "prompts": (set_name, sets),
        "source": (spec.source, runs["source"]),
    }
    for option, (value, held) in labels.items():
        there = set(held) - {""}
        if value not in there and (apart := find_misspelt([value], sorted(there))):
            meant = apart[value]
            step = f"if it is the same, {option}={write_value(meant)}, else another {option}"
            what = "the tables spell this otherwise"
            got = repr(value)
            raise UsageError(what, where=option, got=got, allowed=meant, next_step=step)


def name_model(spec: RunSpec) -> str:
    """What a model is called in the tables: a hub id as it is, a folder or file as the spec or else
    it is named."""
    path = Path(spec.model)
    if spec.name:
        return spec.name
    if path.is_dir():
        return path.resolve().name
    return name_gguf_model(path) if is_gguf(path) else spec.model


def find_finished_runs(spec: RunSpec, prompts: pd.DataFrame, data: Path) -> tuple[str, ...] | None:
    """Runs of a spec if every one is finished, otherwise None; a model that is gone is taken for
    the one measured."""
    if spec.heritage and {spec.heritage} != set(
        load_recorded_rows(name_model(spec), spec.revision, data)["heritage"]
    ):
        return None
    here = replace(spec, download=False)
    try:
        fetch_folder(here)
    except ThermostatsError:
        return _find_runs_by_name(spec, prompts, data)
    try:
        planned = plan(here, data)
    except ThermostatsError:
        return None  # said when it is measured
    if not planned.finished or planned.confirmed:
        return None
    return tuple(run.run["run_id"] for run in planned.runs)


def _find_runs_by_name(spec: RunSpec, prompts: pd.DataFrame, data: Path) -> tuple[str, ...] | None:
    runs = store.load("runs", data)
    keys = runs[LIKE].apply(tuple, axis=1)
    finished = []
    for kind, tables in _group_kinds(spec).items():
        wanted = []
        for dtype in STORED if kind == "weights" else (spec.dtype,):
            run = _run(kind, spec, name_model(spec), spec.revision, dtype, prompts, "")
            wanted.append(tuple(run[label] for label in LIKE))
        alike = runs[keys.isin(wanted)]
        done = [run for run in alike["run_id"] if not find_missing_tables(tables, run, data)]
        if not done:
            return None
        finished.append(str(done[-1]))
    return tuple(finished)


def fetch_folder(spec: RunSpec) -> ModelFolder:
    """The folder of a spec's model, downloaded where it is not on this machine; raises as
    `fetch_model_folder` does."""
    cache = None if spec.cache is None else Path(spec.cache)
    how: dict[str, Any] = {
        "download": spec.download,
        "code": spec.trust_remote_code,
        "pickles": spec.pickles,
    }
    folder = fetch_model_folder(spec.model, revision=spec.revision, cache=cache, **how)
    return replace(folder, model_id=spec.name) if spec.name else folder


def _stack(folder: ModelFolder, reads: str) -> ModelFolder:
    """Of a model of several stacks the one that reads the prompts, by a name of its own: it is a
    run of its own."""
    model_type = str(spectra.read_config(folder.path, "").get("model_type"))
    stack = next((entry.stack for entry in ARCHITECTURES if entry.model_type == model_type), "")
    if model_type not in STACKS:
        return replace(folder, model_id=f"{folder.model_id}:{stack}") if stack else folder
    name = f"{folder.model_id}:{'vision' if reads == 'image' else 'text'}"
    return replace(folder, reads=reads, model_id=name)


def _find_entry(spec: RunSpec, folder: ModelFolder) -> Architecture:
    """The entry of a model's class; raises UsageError for the model's own code, where nobody
    allowed it to run."""
    config = spectra.read_config(folder.path, folder.reads)
    try:
        return lookup(config)
    except UnknownArchitectureError:
        if not config.get("auto_map") or spec.trust_remote_code:
            raise
        what = "the model comes with its own code, and no entry describes its class"
        step = (
            "read that code, add an entry (docs/how-to/architecture.md), then --set "
            "trust_remote_code=yes to run it"
        )
        raise UsageError(what, where=folder.model_id, next_step=step) from None


def check_loadable(folder: ModelFolder) -> None:
    """Raise UsageError where transformers would load another model than the one whose weights are
    in the files."""
    left = "--what weights reads the files alone"
    if (folder.path / "adapter_config.json").is_file():
        what = (
            "the folder holds a model's weights and adapters, and it is not certain which of them "
            "would run"
        )
        step = f"merge the adapters with merge_and_unload, or move adapter_config.json away; {left}"
        raise UsageError(what, where=folder.path, got="adapter_config.json", next_step=step)


def _merge_recorded_facts(
    recorded: dict[str, Any], row: Mapping[str, Any], older: str
) -> dict[str, Any]:
    """A model's row as the tables have it; what an older version counted is counted again where
    that was asked for."""
    if older != AGAIN or recorded["source"] != COUNTED:
        return recorded
    return {**recorded, **{name: value for name, value in row.items() if name not in FACTS}}


def load_recorded_rows(model: str, revision: str, data: Path) -> pd.DataFrame:
    """Rows of `models` that a model has already."""
    models = store.load("models", data)
    return models[(models["model_id"] == model) & (models["revision"] == revision)]


def _group_kinds(spec: RunSpec) -> dict[str, list[str]]:
    """Runs that a spec comes to, each with the tables it fills."""
    kinds: dict[str, list[str]] = {}
    for name in spec.what:
        kind, filled = WHAT[name]
        kinds.setdefault(kind, []).extend(filled)
    return kinds


def find_missing_tables(tables: Sequence[str], run: str, data: Path) -> tuple[str, ...]:
    """Tables of a run that are still to be filled; summaries alone are not: they came with the
    rest, or there are none.

    A model without a final norm has no summary of its gains, and no file of a run says that.
    """
    missing = tuple(name for name in tables if not store.has_run(name, run, data))
    return () if set(missing) <= {"summaries"} else missing


def _filter_kinds(
    kinds: dict[str, list[str]], entry: Architecture, prompts: pd.DataFrame
) -> dict[str, list[str]]:
    """The kinds without what a model has none of: the next-token distribution of one without a
    head, attention of all tokens to all of one that attends within windows.

    Raises UsageError where nothing is left, and where the model reads images and the prompts are
    texts, or the reverse.
    """
    other = []
    for name in prompts["modality"].unique():
        if name != entry.reads:
            other.append(name)
    if other and set(kinds) - {"weights"}:
        images = entry.reads == "image"
        step = "--prompts images, or a folder of them" if images else "name a prompt set of texts"
        raise UsageError(
            f"a model that reads {entry.reads} cannot be given {other[0]}",
            where=prompts["prompt_set"].iloc[0],
            next_step=step,
            options=("--prompts", "images") if images else (),
        )
    none: set[str] = set()
    if not entry.has_head:
        none.add("outputs")
    if entry.depths or entry.mixers:
        none.update(WHAT["attention"][1])
    left: dict[str, list[str]] = {}
    for kind, names in kinds.items():
        if there := [name for name in names if name not in none]:
            left[kind] = there
    if not left:
        step = "thermostats measure MODEL --dry-run says what can be measured"
        asked = ", ".join(name for names in kinds.values() for name in names)
        raise UsageError(
            "the model has none of the requested quantities", got=asked, next_step=step
        )
    return left


def _run(
    kind: str, spec: RunSpec, model: str, revision: str, dtype: str, prompts: pd.DataFrame, sha: str
) -> dict[str, Any]:
    attention = {"weights": "", "residual": "default", "attention": "eager"}
    with_prompts = kind != "weights"
    row = {
        "model_id": model,
        "revision": revision,
        "dtype": dtype,
        "attention": attention[kind],
        "prompt_set": str(prompts["prompt_set"].iloc[0]) if with_prompts else "",
        "prompt_sha": hash_prompts(prompts) if with_prompts else "",
        "measure_version": MEASURE_VERSION,
        "source": spec.source,
        "model_sha": sha,
    }
    return {"run_id": run_id(row), **row}


def _update_facts(
    row: dict[str, Any], entry: Architecture, folder: ModelFolder, *, trusted: bool
) -> tuple[dict[str, Any], list[str]]:
    """A model's row with the facts of its class where files say otherwise, and where they do, in
    words."""
    from thermostats.measurement.class_facts import collect_facts, find_differences  # noqa: PLC0415

    config = spectra.read_config(folder.path, folder.reads)
    tensors = open_checkpoint(folder.path)
    differences = find_doubled(folder.path)
    if spectra.has_tie_conflict(entry, config, tensors):
        differences.append(TIED)
    if idle := find_unused_tensors(entry, tensors, read_geometry(entry, config).n_layers):
        differences.append(
            f"{len(idle)} tensors, such as {idle[0]}, belong to no block that runs and are not "
            f"counted"
        )
    if config.get("auto_map") and not trusted:
        return row, differences
    try:
        model = build_empty_model(folder.path, entry.loader, **entry.set_values)
        model = model.get_submodule(entry.part) if entry.part else model
    except ThermostatsError as error:
        return row, [*differences, f"not held against its class: {error.got or error.what}"]
    facts = collect_facts(model, entry, config, tied=bool(row["tied_embeddings"]))
    return {**row, **facts}, [*differences, *find_differences(row, facts, "of its class")]
