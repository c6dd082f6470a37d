"""One model to rows: what is asked for becomes runs, finished runs are skipped, each run's tables are joined whole.

A model is measured in up to three runs, each with its own run_id: `weights` from its files alone, `residual` with the
attention implementation that is its default, and `attention` with eager attention, the only one with weights to show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

from thermostats.measurement import spectra
from thermostats.measurement.architectures import RemoteCodeError, UnknownArchitectureError, lookup
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.facts import model_row, stored_dtype
from thermostats.measurement.hub import ModelFolder, model_folder
from thermostats.measurement.prompts import load_prompts, prompt_sha
from thermostats.measurement.spec import PRECISIONS, WHAT, RunSpec
from thermostats.measurement.transitions import transitions
from thermostats.tables import store
from thermostats.tables.folders import has_run
from thermostats.tables.join import join
from thermostats.tables.runs import run_id

MEASURE_VERSION = "1"
"""Changes when the same model and prompts would give other numbers."""
STORED = (*PRECISIONS, "float64", "mixed")
"""Precisions that checkpoints are stored in."""
Progress = Callable[[str, int, int], None]
"""Called with what is being measured, prompts done and prompts in all."""


@dataclass(frozen=True)
class Planned:
    """One run of a spec: its row of `runs`, and the tables that are still to be filled."""

    kind: str
    run: dict[str, Any]
    tables: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What a spec comes to: the model's folder and row, its prompts, and its runs, finished ones without tables."""

    spec: RunSpec
    folder: ModelFolder
    model: dict[str, Any]
    prompts: pd.DataFrame
    runs: tuple[Planned, ...]

    @property
    def finished(self) -> bool:
        """Nothing is left to measure."""
        return not any(run.tables for run in self.runs)


@dataclass(frozen=True)
class Done:
    """What came of a spec: run_ids measured and skipped, rows added by table."""

    model_id: str
    measured: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    rows: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def plan(spec: RunSpec, data: Path) -> Plan:
    """What measuring a spec would do; reads the model's configuration and headers, not its weights.

    Raises UsageError or DataError where model or prompts cannot be had or read.
    """
    folder = folder_of(spec)
    prompts = load_prompts(spec.prompts, data)
    models = store.load("models", data)
    known = models[(models["model_id"] == folder.model_id) & (models["revision"] == folder.revision)]
    row = known.iloc[0].to_dict() if len(known) else _described(spec, folder, models)
    planned = []
    for kind, tables in _kinds(spec).items():
        dtype = stored_dtype(open_checkpoint(folder.path)) if kind == "weights" else spec.dtype
        run = _run(kind, spec, folder.model_id, folder.revision, dtype, prompts)
        lacking = tuple(name for name in tables if not has_run(name, run["run_id"], data))
        planned.append(Planned(kind, run, lacking))
    return Plan(spec, folder, row, prompts, tuple(planned))


def model_id(spec: RunSpec) -> str:
    """What a spec's model is called in the tables: a hub id as it is, a folder as the spec or else it is named."""
    path = Path(spec.model)
    return spec.name or (path.resolve().name if path.is_dir() else spec.model)


def finished_runs(spec: RunSpec, prompts: pd.DataFrame, data: Path) -> tuple[str, ...] | None:
    """Runs of a spec where every one is finished, told without its model, which may be gone; else None."""
    found = []
    for kind, tables in _kinds(spec).items():
        precisions = STORED if kind == "weights" else (spec.dtype,)
        runs = (_run(kind, spec, model_id(spec), spec.revision, dtype, prompts)["run_id"] for dtype in precisions)
        done = next((run for run in runs if all(has_run(name, run, data) for name in tables)), None)
        if done is None:
            return None
        found.append(str(done))
    return tuple(found)


def folder_of(spec: RunSpec) -> ModelFolder:
    """The folder of a spec's model, downloaded where it is not on this machine; raises as `model_folder` does."""
    cache = None if spec.cache is None else Path(spec.cache)
    found = model_folder(
        spec.model, revision=spec.revision, download=spec.download, code=spec.trust_remote_code, cache=cache
    )
    return replace(found, model_id=spec.name) if spec.name else found


def measure_plan(planned: Plan, data: Path, progress: Progress | None = None) -> Done:
    """Measure what a plan lacks and join it into the data folder, run by run; a finished run survives what follows.

    Raises ThermostatsError where a run cannot be measured; runs before it are kept.
    """
    started = perf_counter()
    rows: dict[str, int] = {}
    todo = [run for run in planned.runs if run.tables]
    for run in todo:
        tick = perf_counter()
        frames = MEASURE[run.kind](planned, run, progress)
        recorded = {
            "special_tokens": str(frames.pop("special_tokens", "")),
            "versions": _versions(),
            "device": str(frames.pop("device", "cpu")),
            "seconds": perf_counter() - tick,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        joined = [_table("models", planned.model)] if not _is_known(planned.model, data) else []
        if run.run["prompt_set"] and not _set_is_known(planned.prompts, data):
            joined.append(planned.prompts)
        joined.append(_table("runs", {**run.run, **recorded}))
        joined += [frame.assign(run_id=run.run["run_id"]) for name, frame in frames.items() if name in run.tables]
        for done in join(joined, data=data):
            rows[done.table] = rows.get(done.table, 0) + done.added
    return Done(
        planned.folder.model_id,
        tuple(run.run["run_id"] for run in todo),
        tuple(run.run["run_id"] for run in planned.runs if not run.tables),
        rows,
        perf_counter() - started,
    )


def _described(spec: RunSpec, folder: ModelFolder, models: pd.DataFrame) -> dict[str, Any]:
    try:
        return model_row(
            folder.path, model_id=folder.model_id, revision=folder.revision, known=models, heritage=spec.heritage
        )
    except UnknownArchitectureError:
        if spectra.read_config(folder.path).get("auto_map") and not spec.trust_remote_code:
            raise RemoteCodeError(folder.model_id) from None
        raise


def _kinds(spec: RunSpec) -> dict[str, list[str]]:
    """Runs that a spec comes to, each with the tables it fills."""
    kinds: dict[str, list[str]] = {}
    for name in spec.what:
        kind, filled = WHAT[name]
        kinds.setdefault(kind, []).extend(filled)
    return kinds


def _run(kind: str, spec: RunSpec, model: str, revision: str, dtype: str, prompts: pd.DataFrame) -> dict[str, Any]:
    row = {
        "model_id": model,
        "revision": revision,
        "dtype": dtype,
        "attention": {"weights": "", "residual": "default", "attention": "eager"}[kind],
        "prompt_set": str(prompts["prompt_set"].iloc[0]),
        "prompt_sha": prompt_sha(prompts),
        "measure_version": MEASURE_VERSION,
        "source": spec.source,
    }
    if kind == "weights":
        row |= {"prompt_set": "", "prompt_sha": ""}
    return {"run_id": run_id(row), **row}


def _weights(planned: Plan, run: Planned, progress: Progress | None) -> dict[str, Any]:
    del run
    if progress is not None:
        progress("weights", 0, 1)
    config = spectra.read_config(planned.folder.path)
    values = spectra.embedding_summaries(lookup(config), config, open_checkpoint(planned.folder.path))
    rows = [{"prompt_id": "", "estimand": name, "value": value, "missing": ""} for name, value in values.items()]
    return {"weights": spectra.weights(planned.folder.path, thirds=True), "summaries": pd.DataFrame(rows)}


def _residual(planned: Plan, run: Planned, progress: Progress | None) -> dict[str, Any]:
    from thermostats.measurement.gains import measure_gains  # noqa: PLC0415 - torch is loaded only where it is needed

    loaded, words = _loaded(planned, "default")
    decode = (lambda token: str(loaded.tokenizer.decode([token]))) if "outputs" in run.tables else None
    measured = measure_gains(
        loaded.decoder,
        words.prompts,
        decode=decode,
        token_budget=planned.spec.token_budget,
        progress=_part("gains", progress),
    )
    frames = {"layers": measured.layers, "summaries": measured.summaries, **_where(loaded, words)}
    return frames if measured.outputs is None else {**frames, "outputs": measured.outputs}


def _attention(planned: Plan, run: Planned, progress: Progress | None) -> dict[str, Any]:
    from thermostats.measurement.attention import measure_attention  # noqa: PLC0415 - as above

    del run
    loaded, words = _loaded(planned, "eager")
    rows = measure_attention(
        loaded.decoder, words.prompts, token_budget=planned.spec.token_budget, progress=_part("attention", progress)
    )
    return {"attention": rows, "transitions": transitions(rows), **_where(loaded, words)}


MEASURE: dict[str, Callable[[Plan, Planned, Progress | None], dict[str, Any]]] = {
    "weights": _weights,
    "residual": _residual,
    "attention": _attention,
}


def _loaded(planned: Plan, attention: str) -> tuple[Any, Any]:
    from thermostats.measurement.loading import load  # noqa: PLC0415 - as above
    from thermostats.measurement.tokenising import tokenise  # noqa: PLC0415 - as above

    spec = planned.spec
    loaded = load(
        planned.folder,
        dtype=spec.dtype,
        device=spec.device,
        device_map=spec.device_map,
        attention=attention,
        trust_remote_code=spec.trust_remote_code,
    )
    texts = planned.prompts[["prompt_id", "text"]].itertuples(index=False, name=None)
    return loaded, tokenise(loaded.tokenizer, texts)


def _where(loaded: Any, words: Any) -> dict[str, str]:
    return {"device": loaded.device, "special_tokens": words.special_before}


def _part(name: str, progress: Progress | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(name, done, total)


def _versions() -> str:
    return " ".join(f"{name}={version(name)}" for name in ("thermostats", "torch", "transformers", "numpy"))


def _is_known(row: dict[str, Any], data: Path) -> bool:
    models = store.load("models", data)
    return bool(((models["model_id"] == row["model_id"]) & (models["revision"] == row["revision"])).any())


def _set_is_known(prompts: pd.DataFrame, data: Path) -> bool:
    return str(prompts["prompt_set"].iloc[0]) in set(store.load("prompts", data)["prompt_set"])


def _table(name: str, row: dict[str, Any]) -> pd.DataFrame:
    return store.validate(pd.DataFrame([row]), name)
