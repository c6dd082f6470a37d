"""One model to rows: the runs that its plan lacks are measured, and the tables of each run are
joined whole."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thermostats.errors import DataError
from thermostats.measurement import spectra
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.lookup import lookup
from thermostats.measurement.plan import (
    MeasurementPlan,
    PlannedRun,
    find_missing_tables,
    load_recorded_rows,
    plan,
)
from thermostats.measurement.prompts import prepare_images
from thermostats.measurement.sheaf import find_transitions
from thermostats.measurement.spec import AGAIN, Outcome, RunSpec, build_failure
from thermostats.tables import runs as spec_states
from thermostats.tables import store
from thermostats.tables.join import join, record_model
from thermostats.tables.model_rows import set_facts
from thermostats.tables.register import describe_unproven


class ProgressLines:
    """Progress as lines: one where a part of a model begins, then one at most every so many
    seconds."""

    def __init__(self, every: float = 30.0) -> None:
        self.every = every
        self.parts: dict[tuple[str, str], tuple[float, float]] = {}
        self.bars: AbstractContextManager[Any] = nullcontext()

    def report(self, model: str, what: str, done: int, total: int) -> None:
        """Prompts done of one part of one model."""
        now = perf_counter()
        began, last = self.parts.get((model, what), (now, None))
        if last is None:
            self.show(f"{model}: {what}")
        elif now - last >= self.every and 0 < done < total:
            left = (now - began) * (total - done) / done
            progress = f"{done} of {total}, about {left:.0f} s left"
            self.show(f"{model}: {what}, {progress}")
        else:
            return
        self.parts[model, what] = (began, now)

    def print_outcome(self, number: int, total: int, outcome: Any) -> None:
        """What became of a model."""
        n_runs = len(outcome.runs)
        rows = sum((outcome.rows or {}).values())
        more = {
            "measured": f"{n_runs} runs, {rows} rows in {outcome.cost.seconds:.0f} s",
            "planned": f"{n_runs} runs to measure, {len(outcome.finished)} finished",
            "skipped": "every run is finished",
            "failed": outcome.problem.reason,
        }
        model = outcome.model
        if outcome.revision not in ("", "main"):
            model = f"{outcome.model}@{outcome.revision}"
        said = more[outcome.status]
        self.show(f"[{number}/{total}] {model} {outcome.status}: {said}")
        if outcome.differences:
            self.show(f"{model}: {outcome.differences}")

    def show(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class Bars(ProgressLines):
    """One bar per part that is being measured."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.bars: Progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.tasks: dict[str, tuple[str, Any]] = {}

    def report(self, model: str, what: str, done: int, total: int) -> None:
        """Move the bar of one part of one model."""
        if self.tasks.get(model, ("",))[0] != what:
            self.remove_bar(model)
            bar = self.bars.add_task(f"{model} {what}", total=total)
            self.tasks[model] = (what, bar)
        self.bars.update(self.tasks[model][1], completed=done, total=total)

    def print_outcome(self, number: int, total: int, outcome: Any) -> None:
        """Print the line of a model that is through."""
        for model in (outcome.model, f"{outcome.model}@{outcome.revision}"):
            self.remove_bar(model)
        super().print_outcome(number, total, outcome)

    def show(self, line: str) -> None:
        """Print a line above the bars."""
        self.bars.console.print(line, markup=False)

    def remove_bar(self, model: str) -> None:
        """Take the bar of a model away."""
        if model in self.tasks:
            self.bars.remove_task(self.tasks.pop(model)[1])


PACKAGES = ("thermostats", "torch", "transformers", "numpy")
OnProgress = Callable[[str, str, int, int], None]
"""Called with the model, what is being measured, prompts done and prompts in all."""
PartProgress = Callable[[str, int, int], None]
"""Called with what is being measured, prompts done and prompts in all."""


def take_answers(planned: MeasurementPlan, data: Path) -> None:
    """Write what a spec says of what is in the tables: the lab where none is named, and older runs
    as of this model."""
    if planned.confirmed:
        record_model(planned.confirmed, planned.sha, data)
    if planned.spec.older == AGAIN and len(
        load_recorded_rows(planned.model["model_id"], planned.model["revision"], data)
    ):
        join(_build_table("models", planned.model), data=data, replace=True)
    model = planned.model["model_id"]
    lab = planned.spec.heritage
    recorded = load_recorded_rows(model, planned.model["revision"], data)
    if lab and len(recorded) and not recorded["heritage"].iloc[0]:
        set_facts(model, {"heritage": lab}, revision=planned.model["revision"], data=data)


def measure_one(
    spec: RunSpec, data: Path, attempt: int = 1, progress: OnProgress | None = None
) -> Outcome:
    """Measure what is lacking of one spec into a data folder, whatever engine runs it; no fault is
    raised."""
    planned = None
    try:
        write_state(data, spec, spec_states.RUNNING, attempt=attempt)
        planned = plan(spec, data)
        take_answers(planned, data)
        outcome = (
            planned.build_outcome("skipped")
            if planned.finished
            else measure_plan(planned, data, progress)
        )
    except Exception as error:  # one model's fault must not take the others with it
        outcome = build_failure(spec, error)
        finished, sentence = ((), "") if planned is None else list_complete_runs(planned, data)
        reason = outcome.problem.reason
        reason = f"{reason.rstrip('.')}. {sentence}" if sentence else reason
        outcome = replace(outcome, finished=finished).replace_reason(reason)
        with suppress(DataError):  # where nothing can be written, the outcome says it
            write_state(data, spec, spec_states.FAILED, reason, attempt)
        return outcome
    spec_states.clear(data, hash_spec(spec))
    return outcome


def list_complete_runs(planned: MeasurementPlan, data: Path) -> tuple[tuple[str, ...], str]:
    """Runs of a plan that are whole in the data folder, and the sentence that names them; none are
    empty."""
    complete = {}
    for run in planned.runs:
        name = run.run["run_id"]
        if not find_missing_tables(run.tables, name, data):
            complete[name] = run.kind
    names = ", ".join(f"{kind} ({name})" for name, kind in complete.items())
    return tuple(complete), f"Stored: {names}." if complete else ""


def measure_plan(
    planned: MeasurementPlan, data: Path, progress: OnProgress | None = None
) -> Outcome:
    """Measure what a plan lacks and join it into the data folder, run by run; a finished run
    survives what follows.

    Raises ThermostatsError where a run cannot be measured; runs before it are kept.
    """
    started = perf_counter()
    rows: dict[str, int] = {}
    differences: list[str] = []
    spec = planned.spec
    label = spec.model if spec.revision == "main" else f"{spec.model}@{spec.revision}"
    versions = [f"{name}={version(name)}" for name in PACKAGES]
    if planned.folder.commit:
        versions.append(f"commit={planned.folder.commit}")
    for run in planned.runs:
        if not run.tables:
            continue
        tick = perf_counter()
        report = None if progress is None else partial(progress, label)
        frames = MEASURE[run.kind](planned, run, report)
        apart = [*planned.differences, *frames.pop("differences", ())]
        facts = {
            "special_tokens": str(frames.pop("special_tokens", "")),
            "proof": str(frames.pop("proof", "")),
            "differences": "; ".join(apart),
            "versions": " ".join(versions),
            "device": str(frames.pop("device", "cpu")),
            "seconds": perf_counter() - tick,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        differences += apart
        for done in join(_build_tables(planned, run, facts, frames, data), data=data):
            rows[done.table] = rows.get(done.table, 0) + done.added
    outcome = planned.build_outcome("measured", rows, round(perf_counter() - started, 1))
    return replace(outcome, differences="; ".join(dict.fromkeys(differences)))


def _build_tables(
    planned: MeasurementPlan,
    run: PlannedRun,
    facts: Mapping[str, Any],
    frames: Mapping[str, pd.DataFrame],
    data: Path,
) -> list[pd.DataFrame]:
    """The frames of a run and its row, after the model's row and the prompts where the data folder
    lacks them."""
    recorded = load_recorded_rows(planned.model["model_id"], planned.model["revision"], data)
    tables = [] if len(recorded) else [_build_table("models", planned.model)]
    if run.run["prompt_set"] not in {"", *store.load("prompts", data)["prompt_set"]}:
        tables.append(planned.prompts)
    tables.append(_build_table("runs", {**run.run, **facts}))
    for name, frame in frames.items():
        if name in run.tables:
            tables.append(frame.assign(run_id=run.run["run_id"]))
    return tables


def measure_quietly(spec: RunSpec, data: str, attempt: int) -> Outcome:
    """What a process elsewhere runs: `measure_one` without anything printed."""
    set_quiet()
    return measure_one(spec, Path(data), attempt)


def _build_table(name: str, row: dict[str, Any]) -> pd.DataFrame:
    return store.validate(pd.DataFrame([row]), name)


def _measure_weights(
    planned: MeasurementPlan, _run: PlannedRun, progress: PartProgress | None
) -> dict[str, Any]:
    if progress is not None:
        progress("weights", 0, 1)
    folder, reads = planned.folder.path, planned.folder.reads
    config = spectra.read_config(folder, reads)
    values = spectra.summarise_embeddings(lookup(config), config, open_checkpoint(folder))
    rows = []
    for name, value in values.items():
        rows.append({"prompt_id": "", "estimand": name, "value": value, "missing": ""})
    summaries = pd.DataFrame(rows, columns=["prompt_id", "estimand", "value", "missing"])
    return {"weights": spectra.measure_weights(folder, reads=reads), "summaries": summaries}


def _measure_residual(
    planned: MeasurementPlan, run: PlannedRun, progress: PartProgress | None
) -> dict[str, Any]:
    from thermostats.measurement.gains import measure_gains  # noqa: PLC0415
    from thermostats.measurement.proof import check_proof, drop_unproven, measure_proved  # noqa: PLC0415

    loaded, tokens, options, provenance = _load_planned(planned, "default", "gains", progress)
    proof = check_proof(loaded.decoder, needed=("stream",))

    def decode(token: int) -> str:
        return str(loaded.tokenizer.decode([token]))

    measure = partial(measure_gains, loaded.decoder)
    options = {**options, "decode": decode if "outputs" in run.tables else None}
    alone = {"token_budget": 1, "packed": False}
    measured, again = measure_proved(measure, loaded.decoder, tokens, options=options, alone=alone)
    measured = drop_unproven(measured, proof)
    frames = {
        "layers": measured.layers,
        "summaries": measured.summaries,
        **_describe_proof(provenance, proof, again),
    }
    return frames if measured.outputs is None else {**frames, "outputs": measured.outputs}


def _measure_attention(
    planned: MeasurementPlan, _run: PlannedRun, progress: PartProgress | None
) -> dict[str, Any]:
    from thermostats.measurement.attention import measure_attention, measure_block_values  # noqa: PLC0415
    from thermostats.measurement.proof import check_proof, measure_proved  # noqa: PLC0415

    loaded, tokens, options, provenance = _load_planned(planned, "eager", "attention", progress)
    proof = check_proof(loaded.decoder, needed=("value",))
    measure = partial(
        measure_attention, loaded.decoder, values=measure_block_values(loaded.decoder)
    )
    rows, again = measure_proved(
        measure, loaded.decoder, tokens, options=options, alone={"token_budget": 1}
    )
    return {
        "attention": rows,
        "transitions": find_transitions(rows),
        **_describe_proof(provenance, proof, again),
    }


MEASURE: dict[str, Callable[[MeasurementPlan, PlannedRun, PartProgress | None], dict[str, Any]]] = {
    "weights": _measure_weights,
    "residual": _measure_residual,
    "attention": _measure_attention,
}


def _describe_proof(provenance: dict[str, Any], proof: Any, again: str) -> dict[str, Any]:
    """What `runs` says of a model and its proof; what failed stands among the differences."""
    said = " ".join(filter(None, (str(proof), again, provenance["unproven"])))
    return {
        **provenance,
        "proof": said,
        "differences": [*provenance["differences"], *proof.reasons],
    }


def _load_planned(
    planned: MeasurementPlan, attention: str, part: str, progress: PartProgress | None
) -> tuple[Any, ...]:
    """The loaded model, its tokenised prompts, options of a pass over them, and what `runs` says of
    both."""
    from thermostats.measurement.batching import tokenise  # noqa: PLC0415
    from thermostats.measurement.class_facts import check_loaded, collect_facts, find_differences  # noqa: PLC0415
    from thermostats.measurement.loading import load  # noqa: PLC0415

    spec = planned.spec
    options = {
        name: getattr(spec, name) for name in ("dtype", "device", "device_map", "trust_remote_code")
    }
    loaded = load(planned.folder, attention=attention, **options)
    config = spectra.read_config(planned.folder.path, planned.folder.reads)
    tied = check_loaded(loaded.decoder, planned.folder.path, config)
    facts = collect_facts(loaded.decoder.model, loaded.decoder.entry, config, tied=tied)
    differences = find_differences(planned.model, facts, "of the loaded model")
    unproven = describe_unproven(loaded.decoder.entry.name)
    provenance = {"device": loaded.device, "differences": differences, "unproven": unproven}
    passes = {
        "token_budget": spec.token_budget,
        "progress": None if progress is None else partial(progress, part),
    }
    if loaded.decoder.entry.reads == "image":
        folder = Path(spec.prompts) if Path(spec.prompts).is_dir() else None
        images = prepare_images(loaded.tokenizer, planned.prompts.itertuples(), folder)
        return loaded, images, passes, provenance
    texts = planned.prompts[["prompt_id", "text"]].itertuples(index=False, name=None)
    prompts, before = tokenise(loaded.tokenizer, texts, causal=loaded.decoder.entry.causal)
    return loaded, prompts, passes, {**provenance, "special_tokens": before}


def hash_spec(spec: RunSpec) -> str:
    """Name of a spec's state: 16 hexadecimal digits of the SHA-256 of what is measured."""
    parts = [spec.model, spec.name, spec.source, spec.revision, spec.dtype, spec.prompts]
    parts += sorted(spec.what)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def write_state(data: Path, spec: RunSpec, state: str, reason: str = "", attempt: int = 1) -> None:
    """Write down that a spec waits, runs or failed."""
    written = spec_states.SpecState(
        spec.model, spec.revision, spec.dtype, spec.prompts, state, reason, attempt
    )
    spec_states.write(data, hash_spec(spec), written)


def set_quiet() -> None:
    """No bars and no warnings of transformers in this process; what matters becomes an outcome."""
    import transformers  # noqa: PLC0415

    logging: Any = transformers.utils.logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()
