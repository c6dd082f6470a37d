"""One model to rows: what is asked for becomes runs, finished runs are skipped, each run's tables are joined whole.

A model is measured in up to three runs, each with its own run_id: `weights` from its files alone, `residual` with the
attention implementation that is its default, and `attention` with eager attention, the only one with weights to show.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

from thermostats.errors import DataError, ThermostatsError, TransientError, UsageError
from thermostats.measurement import spectra
from thermostats.measurement.architectures import ARCHITECTURES, STACKS, Architecture, UnknownArchitectureError, lookup
from thermostats.measurement.checkpoint import doubled, open_checkpoint
from thermostats.measurement.digest import model_sha
from thermostats.measurement.gguf_parts import is_gguf, stem
from thermostats.measurement.hub import ModelFolder, model_folder
from thermostats.measurement.identity import MEASURE_VERSION, check_name, standing
from thermostats.measurement.images import processed
from thermostats.measurement.layouts import geometry
from thermostats.measurement.model_row import model_row, stored_dtype, unused
from thermostats.measurement.prompts import load_prompts
from thermostats.measurement.spec import AGAIN, PRECISIONS, WHAT, RunSpec
from thermostats.measurement.switches import check_switches
from thermostats.measurement.transitions import transitions
from thermostats.tables import spec_states, store
from thermostats.tables.confirm import confirm
from thermostats.tables.join import join
from thermostats.tables.model_facts import FACTS, check_lab, set_facts
from thermostats.tables.parameters import COUNTED
from thermostats.tables.runs import LIKE, prompt_sha, run_id

PACKAGES = ("thermostats", "torch", "transformers", "numpy")
STORED = (*PRECISIONS, "float64", "mixed")
"""Precisions that checkpoints are stored in."""
Progress = Callable[[str, str, int, int], None]
"""Called with the model, what is being measured, prompts done and prompts in all."""
PartProgress = Callable[[str, int, int], None]
"""The same without the model."""


@dataclass(frozen=True)
class Outcome:
    """What became of one spec: `measured`, `skipped` (every run was finished), `planned` (dry run) or `failed`."""

    model: str
    status: str
    revision: str = ""
    runs: tuple[str, ...] = ()
    """Runs measured, or to be measured."""
    finished: tuple[str, ...] = ()
    """Runs that were finished before and are skipped."""
    rows: dict[str, int] | None = None
    n_params: int | None = None
    gigabytes: float | None = None
    """Memory for weights and activations at the precision asked for, GB; empty where nothing is left to load."""
    disk: float | None = None
    """To be downloaded, GB; of a dry run."""
    seconds: float = 0.0
    differences: str = ""
    """Where files, configuration and the model differ."""
    reason: str = ""
    """Why it failed, with what to do next."""
    wrong_use: bool = False
    """It failed because it was asked for wrongly."""
    again: bool = False
    """It failed by the machine's or the network's fault, and may be tried again."""
    attempts: int = 1


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

    def outcome(self, status: str, rows: dict[str, int] | None = None, seconds: float = 0.0) -> Outcome:
        """The outcome of a spec that was planned, and measured where there are rows."""
        todo = tuple(run.run["run_id"] for run in self.runs if run.tables)
        finished = tuple(run.run["run_id"] for run in self.runs if not run.tables)
        folder, n_params = self.folder, int(self.model["n_params"])
        return Outcome(folder.model_id, status, folder.revision, todo, finished, rows, n_params, seconds=seconds)


def plan(spec: RunSpec, data: Path) -> Plan:
    """What measuring a spec would do; reads the model's configuration and headers, not its weights.

    Raises UsageError or DataError where model or prompts cannot be had or read.
    """
    prompts = load_prompts(spec.prompts, data)
    folder = _stack(folder_of(spec), str(prompts["modality"].iloc[0]))
    entry = _entry(spec, folder)
    check_switches(spec, spectra.read_config(folder.path, folder.reads), folder.path)
    sha = model_sha(folder.path)
    known = _known(folder.model_id, folder.revision, data)
    named = {"model_id": folder.model_id, "revision": folder.revision, "heritage": spec.heritage}
    row = model_row(folder.path, known=store.load("models", data), reads=folder.reads, **named)
    runs = store.load("runs", data)
    runs = runs[(runs["model_id"] == folder.model_id) & (runs["revision"] == folder.revision)]
    check_name(folder, sha, runs[runs["source"] == spec.source], known, row)
    lab = known["heritage"].iloc[0] if len(known) else ""
    if spec.heritage and lab not in ("", spec.heritage):
        step = f"leave out --lab, or thermostats set {folder.model_id} heritage={spec.heritage} for a model of yours"
        raise UsageError("the tables name another lab", got=spec.heritage, allowed=lab, next_step=step)
    check_lab(spec.heritage, folder.model_id, data)
    kinds = _fitting(_kinds(spec), entry, prompts)
    if set(kinds) - {"weights"}:
        check_loadable(folder)
    planned: list[Planned] = []
    confirmed: list[str] = []
    for kind, tables in kinds.items():
        dtype = stored_dtype(open_checkpoint(folder.path)) if kind == "weights" else spec.dtype
        new = _run(kind, spec, folder.model_id, folder.revision, dtype, prompts, sha)
        run, answered = standing(new, folder, runs, spec.older)
        confirmed += answered
        planned.append(Planned(kind, run, _lacking(tables, run["run_id"], data)))
    found = Plan(spec, folder, row, prompts, tuple(planned), sha, tuple(confirmed))
    if not found.finished:
        row, differences = _reconciled(row, entry, folder, trusted=spec.trust_remote_code)
        found = replace(found, model=row, differences=tuple(differences))
    return replace(found, model=_kept_facts(known.iloc[0].to_dict(), row, spec.older)) if len(known) else found


def model_id(spec: RunSpec) -> str:
    """What a model is called in the tables: a hub id as it is, a folder or file as the spec or else it is named."""
    path = Path(spec.model)
    return spec.name or (path.resolve().name if path.is_dir() else stem(path) if is_gguf(path) else spec.model)


def finished_runs(spec: RunSpec, prompts: pd.DataFrame, data: Path) -> tuple[str, ...] | None:
    """Runs of a spec if every one is finished, otherwise None; a model that is gone is taken for the one measured."""
    if spec.heritage and {spec.heritage} != set(_known(model_id(spec), spec.revision, data)["heritage"]):
        return None
    here = replace(spec, download=False)
    try:
        folder_of(here)
    except ThermostatsError:
        return _finished_by_name(spec, prompts, data)
    try:
        planned = plan(here, data)
    except ThermostatsError:
        return None  # said when it is measured
    return tuple(run.run["run_id"] for run in planned.runs) if planned.finished and not planned.confirmed else None


def _finished_by_name(spec: RunSpec, prompts: pd.DataFrame, data: Path) -> tuple[str, ...] | None:
    runs, found = store.load("runs", data), []
    for kind, tables in _kinds(spec).items():
        precisions = STORED if kind == "weights" else (spec.dtype,)
        wanted = [_run(kind, spec, model_id(spec), spec.revision, dtype, prompts, "") for dtype in precisions]
        alike = runs[runs[LIKE].apply(tuple, axis=1).isin([tuple(run[label] for label in LIKE) for run in wanted])]
        done = [run for run in alike["run_id"] if not _lacking(tables, run, data)]
        if not done:
            return None
        found.append(str(done[-1]))
    return tuple(found)


def folder_of(spec: RunSpec) -> ModelFolder:
    """The folder of a spec's model, downloaded where it is not on this machine; raises as `model_folder` does."""
    cache = None if spec.cache is None else Path(spec.cache)
    how: dict[str, Any] = {"download": spec.download, "code": spec.trust_remote_code, "pickles": spec.pickles}
    found = model_folder(spec.model, revision=spec.revision, cache=cache, **how)
    return replace(found, model_id=spec.name) if spec.name else found


def _stack(folder: ModelFolder, reads: str) -> ModelFolder:
    """Of a model of several stacks the one that reads the prompts, by a name of its own: it is a run of its own."""
    model_type = str(spectra.read_config(folder.path, "").get("model_type"))
    stack = next((entry.stack for entry in ARCHITECTURES if entry.model_type == model_type), "")
    if model_type not in STACKS:
        return replace(folder, model_id=f"{folder.model_id}:{stack}") if stack else folder
    name = f"{folder.model_id}:{'vision' if reads == 'image' else 'text'}"
    return replace(folder, reads=reads, model_id=name)


def take_answers(planned: Plan, data: Path) -> None:
    """Write what a spec says of what is in the tables: the lab where none is named, and older runs as of this model."""
    if planned.confirmed:
        confirm(planned.confirmed, planned.sha, data)
    if planned.spec.older == AGAIN and len(_known(planned.model["model_id"], planned.model["revision"], data)):
        join(_table("models", planned.model), data=data, replace=True)
    model, lab = planned.model["model_id"], planned.spec.heritage
    known = _known(model, planned.model["revision"], data)
    if lab and len(known) and not known["heritage"].iloc[0]:
        set_facts(model, {"heritage": lab}, revision=planned.model["revision"], data=data)


def measure_one(spec: RunSpec, data: Path, attempt: int = 1, progress: Progress | None = None) -> Outcome:
    """Measure what is lacking of one spec into a data folder, whatever engine runs it; no fault is raised."""
    planned = None
    try:
        write_state(data, spec, spec_states.RUNNING, attempt=attempt)
        planned = plan(spec, data)
        take_answers(planned, data)
        outcome = planned.outcome("skipped") if planned.finished else measure_plan(planned, data, progress)
    except Exception as error:  # one model's fault must not take the others with it
        outcome = failed(spec, error)
        finished, said = ((), "") if planned is None else kept_runs(planned, data)
        outcome = replace(outcome, finished=finished, reason=f"{outcome.reason} {said}".rstrip())
        with suppress(DataError):  # where nothing can be written, the outcome says it
            write_state(data, spec, spec_states.FAILED, outcome.reason, attempt)
        return outcome
    spec_states.clear(data, spec_id(spec))
    return outcome


def kept_runs(planned: Plan, data: Path) -> tuple[tuple[str, ...], str]:
    """Runs of a plan that are whole in the data folder, and the sentence that names them; none are empty."""
    whole = {run.run["run_id"]: run.kind for run in planned.runs if not _lacking(run.tables, run.run["run_id"], data)}
    names = ", ".join(f"{kind} ({name})" for name, kind in whole.items())
    return tuple(whole), f"Kept: {names}." if whole else ""


def measure_plan(planned: Plan, data: Path, progress: Progress | None = None) -> Outcome:
    """Measure what a plan lacks and join it into the data folder, run by run; a finished run survives what follows.

    Raises ThermostatsError where a run cannot be measured; runs before it are kept.
    """
    started = perf_counter()
    rows: dict[str, int] = {}
    differences: list[str] = []
    spec = planned.spec
    label = spec.model if spec.revision == "main" else f"{spec.model}@{spec.revision}"
    commit = [f"commit={planned.folder.commit}"] * bool(planned.folder.commit)
    for run in planned.runs:
        if not run.tables:
            continue
        tick = perf_counter()
        frames = MEASURE[run.kind](planned, run, None if progress is None else partial(progress, label))
        apart = [*planned.differences, *frames.pop("differences", ())]
        recorded = {
            "special_tokens": str(frames.pop("special_tokens", "")),
            "proof": str(frames.pop("proof", "")),
            "differences": "; ".join(apart),
            "versions": " ".join([*(f"{name}={version(name)}" for name in PACKAGES), *commit]),
            "device": str(frames.pop("device", "cpu")),
            "seconds": perf_counter() - tick,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        differences += apart
        known = len(_known(planned.model["model_id"], planned.model["revision"], data))
        joined = [] if known else [_table("models", planned.model)]
        if run.run["prompt_set"] not in {"", *store.load("prompts", data)["prompt_set"]}:
            joined.append(planned.prompts)
        joined.append(_table("runs", {**run.run, **recorded}))
        joined += [frame.assign(run_id=run.run["run_id"]) for name, frame in frames.items() if name in run.tables]
        for done in join(joined, data=data):
            rows[done.table] = rows.get(done.table, 0) + done.added
    outcome = planned.outcome("measured", rows, round(perf_counter() - started, 1))
    return replace(outcome, differences="; ".join(dict.fromkeys(differences)))


def measure_quietly(spec: RunSpec, data: str, attempt: int) -> Outcome:
    """What a process elsewhere runs: `measure_one` without anything printed."""
    quiet()
    return measure_one(spec, Path(data), attempt)


def failed(spec: RunSpec, error: BaseException) -> Outcome:
    """The outcome of a spec that could not be measured."""
    if isinstance(error, ThermostatsError):
        reason, again = str(error), isinstance(error, TransientError)
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"unexpected {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"
        again = isinstance(error, OSError | MemoryError)
    wrong_use = isinstance(error, UsageError)
    return Outcome(spec.model, "failed", spec.revision, reason=reason, wrong_use=wrong_use, again=again)


def lost(spec: RunSpec, reason: str) -> Outcome:
    """The outcome of a spec whose process is gone."""
    return Outcome(spec.model, "failed", spec.revision, reason=reason, again=True)


def _entry(spec: RunSpec, folder: ModelFolder) -> Architecture:
    """The entry of a model's class; raises UsageError for the model's own code, where nobody allowed it to run."""
    config = spectra.read_config(folder.path, folder.reads)
    try:
        return lookup(config)
    except UnknownArchitectureError:
        if not config.get("auto_map") or spec.trust_remote_code:
            raise
        what = "the model comes with its own code, and no entry describes its class"
        step = "read that code, add an entry (docs/how-to/architecture.md), then --set trust_remote_code=yes to run it"
        raise UsageError(what, where=folder.model_id, next_step=step) from None


def check_loadable(folder: ModelFolder) -> None:
    """Raise UsageError where transformers would load another model than the one whose weights are in the files."""
    left = "--what weights reads the files alone"
    if (folder.path / "adapter_config.json").is_file():
        what = "the folder holds a model's weights and adapters, and it is not certain which of them would run"
        step = f"merge the adapters with merge_and_unload, or move adapter_config.json away; {left}"
        raise UsageError(what, where=folder.path, got="adapter_config.json", next_step=step)


def _kept_facts(known: dict[str, Any], row: Mapping[str, Any], older: str) -> dict[str, Any]:
    """A model's row as the tables have it; what an older version counted is counted again where that was asked for."""
    if older != AGAIN or known["source"] != COUNTED:
        return known
    return {**known, **{name: value for name, value in row.items() if name not in FACTS}}


def _known(model: str, revision: str, data: Path) -> pd.DataFrame:
    """Rows of `models` that a model has already."""
    models = store.load("models", data)
    return models[(models["model_id"] == model) & (models["revision"] == revision)]


def _kinds(spec: RunSpec) -> dict[str, list[str]]:
    """Runs that a spec comes to, each with the tables it fills."""
    kinds: dict[str, list[str]] = {}
    for name in spec.what:
        kind, filled = WHAT[name]
        kinds.setdefault(kind, []).extend(filled)
    return kinds


def _lacking(tables: Sequence[str], run: str, data: Path) -> tuple[str, ...]:
    """Tables of a run that are still to be filled; summaries alone are not: they came with the rest, or there are none.

    A model without a final norm has no summary of its gains, and no file of a run says that.
    """
    lacking = tuple(name for name in tables if not store.has_run(name, run, data))
    return () if set(lacking) <= {"summaries"} else lacking


def _fitting(kinds: dict[str, list[str]], entry: Architecture, prompts: pd.DataFrame) -> dict[str, list[str]]:
    """The kinds without what a model has none of: the next-token distribution of one without a head, attention of all
    tokens to all of one that attends within windows.

    Raises UsageError where nothing is left, and where the model reads images and the prompts are texts, or the reverse.
    """
    other = [name for name in prompts["modality"].unique() if name != entry.reads]
    if other and set(kinds) - {"weights"}:
        step = "--prompts images, or a folder of them" if entry.reads == "image" else "name a prompt set of texts"
        what = f"a model that reads {entry.reads} cannot be given {other[0]}"
        raise UsageError(what, where=prompts["prompt_set"].iloc[0], next_step=step)
    none = {*(() if entry.has_head else ("outputs",)), *(WHAT["attention"][1] if entry.depths or entry.mixers else ())}
    left = {kind: [name for name in names if name not in none] for kind, names in kinds.items()}
    if not any(left.values()):
        step = "thermostats measure MODEL --dry-run says what can be measured"
        raise UsageError("the model has none of the requested quantities", got=", ".join(kinds), next_step=step)
    return {kind: names for kind, names in left.items() if names}


def _run(
    kind: str, spec: RunSpec, model: str, revision: str, dtype: str, prompts: pd.DataFrame, sha: str
) -> dict[str, Any]:
    with_prompts = kind != "weights"
    row = {
        "model_id": model,
        "revision": revision,
        "dtype": dtype,
        "attention": {"weights": "", "residual": "default", "attention": "eager"}[kind],
        "prompt_set": str(prompts["prompt_set"].iloc[0]) if with_prompts else "",
        "prompt_sha": prompt_sha(prompts) if with_prompts else "",
        "measure_version": MEASURE_VERSION,
        "source": spec.source,
        "model_sha": sha,
    }
    return {"run_id": run_id(row), **row}


def _reconciled(
    row: dict[str, Any], entry: Architecture, folder: ModelFolder, *, trusted: bool
) -> tuple[dict[str, Any], list[str]]:
    """A model's row with the facts of its class where files say otherwise, and where they do, in words."""
    from thermostats.measurement.estimate import built  # noqa: PLC0415 - torch is loaded only where it is needed
    from thermostats.measurement.facts import differing, facts_of  # noqa: PLC0415 - as above

    config, tensors = spectra.read_config(folder.path, folder.reads), open_checkpoint(folder.path)
    differences = doubled(folder.path)
    if spectra.contradicts_tie(entry, config, tensors):
        differences.append(TIED)
    if idle := unused(entry, tensors, geometry(entry, config).n_layers):
        differences.append(f"{len(idle)} tensors, such as {idle[0]}, belong to no block that runs and are not counted")
    if config.get("auto_map") and not trusted:
        return row, differences
    try:
        model = built(folder.path, entry.loader)
        model = model.get_submodule(entry.part) if entry.part else model
    except ThermostatsError as error:
        return row, [*differences, f"not held against its class: {error.got or error.what}"]
    facts = facts_of(model, entry, config, tied=bool(row["tied_embeddings"]))
    return {**row, **facts}, [*differences, *differing(row, facts, "of its class")]


TIED = "the configuration says that the embeddings are tied, the files hold another unembedding, which the model uses"


def _table(name: str, row: dict[str, Any]) -> pd.DataFrame:
    return store.validate(pd.DataFrame([row]), name)


def _weights(planned: Plan, _run: Planned, progress: PartProgress | None) -> dict[str, Any]:
    if progress is not None:
        progress("weights", 0, 1)
    folder, reads = planned.folder.path, planned.folder.reads
    config = spectra.read_config(folder, reads)
    values = spectra.embedding_summaries(lookup(config), config, open_checkpoint(folder))
    rows = [{"prompt_id": "", "estimand": name, "value": value, "missing": ""} for name, value in values.items()]
    summaries = pd.DataFrame(rows, columns=["prompt_id", "estimand", "value", "missing"])
    return {"weights": spectra.weights(folder, reads=reads), "summaries": summaries}


def _residual(planned: Plan, run: Planned, progress: PartProgress | None) -> dict[str, Any]:
    from thermostats.measurement.gains import measure_gains  # noqa: PLC0415 - torch is loaded only where it is needed
    from thermostats.measurement.proof import check_proof, left_out, proved  # noqa: PLC0415 - as above

    loaded, tokens, options, provenance = _loaded(planned, "default", "gains", progress)
    proof = check_proof(loaded.decoder, needed=("stream",))
    decode = (lambda token: str(loaded.tokenizer.decode([token]))) if "outputs" in run.tables else None
    measure, alone = partial(measure_gains, loaded.decoder), {"token_budget": 1, "packed": False}
    measured, again = proved(measure, loaded.decoder, tokens, options={**options, "decode": decode}, alone=alone)
    measured = left_out(measured, proof)
    frames = {"layers": measured.layers, "summaries": measured.summaries, **_proven(provenance, proof, again)}
    return frames if measured.outputs is None else {**frames, "outputs": measured.outputs}


def _attention(planned: Plan, _run: Planned, progress: PartProgress | None) -> dict[str, Any]:
    from thermostats.measurement.attention import block_values, measure_attention  # noqa: PLC0415 - as above
    from thermostats.measurement.proof import check_proof, proved  # noqa: PLC0415 - as above

    loaded, tokens, options, provenance = _loaded(planned, "eager", "attention", progress)
    proof = check_proof(loaded.decoder, needed=("value",))
    measure = partial(measure_attention, loaded.decoder, values=block_values(loaded.decoder))
    rows, again = proved(measure, loaded.decoder, tokens, options=options, alone={"token_budget": 1})
    return {"attention": rows, "transitions": transitions(rows), **_proven(provenance, proof, again)}


MEASURE: dict[str, Callable[[Plan, Planned, PartProgress | None], dict[str, Any]]] = {
    "weights": _weights,
    "residual": _residual,
    "attention": _attention,
}


def _proven(provenance: dict[str, Any], proof: Any, again: str) -> dict[str, Any]:
    """What `runs` says of a model and its proof; what failed stands among the differences."""
    return {**provenance, "proof": f"{proof} {again}", "differences": [*provenance["differences"], *proof.reasons]}


def _loaded(planned: Plan, attention: str, part: str, progress: PartProgress | None) -> tuple[Any, ...]:
    """The loaded model, its tokenised prompts, options of a pass over them, and what `runs` says of both."""
    from thermostats.measurement.batching import tokenise  # noqa: PLC0415 - as above
    from thermostats.measurement.facts import check_loaded, differing, facts_of  # noqa: PLC0415 - as above
    from thermostats.measurement.loading import load  # noqa: PLC0415 - as above

    spec = planned.spec
    options = {name: getattr(spec, name) for name in ("dtype", "device", "device_map", "trust_remote_code")}
    loaded = load(planned.folder, attention=attention, **options)
    config = spectra.read_config(planned.folder.path, planned.folder.reads)
    tied = check_loaded(loaded.decoder, planned.folder.path, config)
    facts = facts_of(loaded.decoder.model, loaded.decoder.entry, config, tied=tied)
    differences = differing(planned.model, facts, "of the loaded model")
    provenance = {"device": loaded.device, "differences": differences}
    passes = {"token_budget": spec.token_budget, "progress": None if progress is None else partial(progress, part)}
    if loaded.decoder.entry.reads == "image":
        own = Path(spec.prompts) if Path(spec.prompts).is_dir() else None
        images = processed(loaded.tokenizer, planned.prompts.itertuples(), own)
        return loaded, images, passes, provenance
    texts = planned.prompts[["prompt_id", "text"]].itertuples(index=False, name=None)
    prompts, before = tokenise(loaded.tokenizer, texts, causal=loaded.decoder.entry.causal)
    return loaded, prompts, passes, {**provenance, "special_tokens": before}


def spec_id(spec: RunSpec) -> str:
    """Name of a spec's state: 16 hexadecimal digits of the SHA-256 of what is measured."""
    parts = (spec.model, spec.name, spec.source, spec.revision, spec.dtype, spec.prompts, *sorted(spec.what))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def write_state(data: Path, spec: RunSpec, state: str, reason: str = "", attempt: int = 1) -> None:
    """Write down that a spec waits, runs or failed."""
    written = spec_states.State(spec.model, spec.revision, spec.dtype, spec.prompts, state, reason, attempt)
    spec_states.write(data, spec_id(spec), written)


def quiet() -> None:
    """No bars and no warnings of transformers in this process; what matters becomes an outcome."""
    import transformers  # noqa: PLC0415 - loaded only where something is measured

    logging: Any = transformers.utils.logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()
