"""What measuring a spec comes to: its runs, those that are finished, and the model's row; no weight
is read.

A model is measured in up to three runs, each with its own run_id: `weights` from its files alone,
`residual` with the attention implementation that is its default, and `attention` with eager
attention, the only one with weights to show.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermostats.errors import (
    ThermostatsError,
    TransientError,
    UsageError,
    build_install_error,
    take_first_line,
)
from thermostats.measurement.batching import BUDGET
from thermostats.measurement.checkpoint import UNLOADABLE, open_checkpoint, read_geometry
from thermostats.measurement.lookup import lookup, select_decoder_config
from thermostats.measurement.model_class import Architecture, Config
from thermostats.measurement.model_row import FEED_FORWARD
from thermostats.measurement.spec import MADE, WHAT, RunSpec, is_shipped_set
from thermostats.measurement.spectra import read_config

if TYPE_CHECKING:
    import torch

    from thermostats.measurement.forward import Batch, Decoder
from collections.abc import Mapping

import pandas as pd

from thermostats.measurement import spectra
from thermostats.measurement.architectures import ARCHITECTURES, STACKS
from thermostats.measurement.checkpoint import find_doubled
from thermostats.measurement.gguf_parts import is_gguf, name_gguf_model
from thermostats.measurement.hub import (
    ModelFolder,
    fetch_config_folder,
    fetch_model_folder,
    find_local_folder,
)
from thermostats.measurement.model_class import UnknownArchitectureError
from thermostats.measurement.model_row import (
    MEASURE_VERSION,
    add_stated_facts,
    build_model_row,
    check_name,
    check_switches,
    find_stored_dtype,
    find_unused_tensors,
    resolve_run,
)
from thermostats.measurement.prompts import load_prompts
from thermostats.measurement.spec import AGAIN, PRECISIONS, Cost, Outcome
from thermostats.measurement.spectra import hash_model
from thermostats.next_steps import write_command, write_value
from thermostats.tables import store
from thermostats.tables.choices import MAIN, split_revision
from thermostats.tables.identities import COUNTED
from thermostats.tables.labels import find_misspelt
from thermostats.tables.model_rows import FACTS, check_lab
from thermostats.tables.runs import LIKE, hash_prompts, run_id

WIDTHS = 10
"""Tensors of the stream's width alive at once in a block: stream, normed, q, k, v, rotated ones,
what is written."""
HIDDEN = 3
"""Tensors of the feed-forward layer's width: gate, up, their product."""
SCORES = 3
"""Matrices of attention weights in float32 at once, where they are computed at all: scores, masked
scores, weights."""
LOGITS = 4
"""Tensors over the vocabulary in float32: logits, log p, p, p log p."""
ITEM = {"float32": 4, "bfloat16": 2, "float16": 2}
BYTES_PER_TOKEN = 4
PROCESS = 600 * 2**20
"""Bytes of a process without its model: torch and transformers take 500 MiB once an empty model was
measured."""
RATE = {"cpu": 5e10, "accelerator": 3e13}
"""Multiplications and additions a second that a forward pass comes to, about: a desktop's
processor, one GPU."""


@dataclass(frozen=True)
class Place:
    """Where a model is measured: memory of one device in bytes (None: unknown), how many of them
    one model may have."""

    kind: str
    """cpu or accelerator."""
    each: int | None
    devices: int = 1

    @property
    def room(self) -> float:
        """Bytes that one model may have in all; a processor has one memory."""
        return (
            math.inf
            if self.each is None
            else self.each * (1 if self.kind == "cpu" else self.devices)
        )


@dataclass(frozen=True)
class Need:
    """Bytes that measuring a spec takes: of the weights at the precision asked for, and of the
    largest batch."""

    n_params: int
    weights: int
    activations: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.weights + self.activations


def estimate_pass_bytes(
    entry: Architecture,
    config: Config,
    *,
    rows: int,
    n: int,
    item: int,
    eager: bool,
    prompts: int = 0,
) -> int:
    """About how many bytes one forward pass holds at most above the model, from the shapes alone.

    T(10 d + 3 d_ff) at the model's precision for T = rows · n tokens, padding included; 3·4·H·n² a
    row under eager attention; and 4·4·V for each of the prompts that the head is run on.
    """
    g = read_geometry(entry, config)
    decoder = select_decoder_config(config)
    d_ff = next((int(decoder[key]) for key in FEED_FORWARD if decoder.get(key)), 4 * g.d_model)
    width = max(g.d_model, g.n_heads * g.d_head)
    size = rows * n * (WIDTHS * width + HIDDEN * d_ff) * item
    size += SCORES * 4 * rows * g.n_heads * n**2 if eager else 0
    return size + LOGITS * 4 * prompts * int(decoder.get("vocab_size") or 0)


def estimate(folder: Path, spec: RunSpec, texts: Sequence[str], kind: str) -> Need:
    """Memory for a spec whose configuration is in a folder, on a device of a kind (cpu or
    accelerator).

    Raises ThermostatsError where the configuration is missing, damaged or of a model that cannot be
    measured.
    """
    images = spec.prompts == MADE or (
        Path(spec.prompts).is_dir() and not is_shipped_set(spec.prompts)
    )
    config = read_config(folder, "image" if images else "text")
    entry = lookup(config)
    n_params = count_parameters(folder, entry.loader, **entry.set_values)
    if all(WHAT[name][0] == "weights" for name in spec.what):
        return Need(n_params, 0, 0)  # matrices are read one by one
    longest = max(map(estimate_tokens, texts))
    budget = spec.token_budget or BUDGET[kind]
    rows = max(1, min(len(texts), budget // longest))
    item = ITEM[spec.dtype]
    eager = "attention" in spec.what
    prompts = rows if "outputs" in spec.what else 0
    activations = estimate_pass_bytes(
        entry, config, rows=rows, n=longest, item=item, eager=eager, prompts=prompts
    )
    return Need(n_params, n_params * item, activations)


def count_parameters(folder: Path, loader: str = "AutoModelForCausalLM", **values: bool) -> int:
    """Weights of the model that a folder's configuration describes, tied ones once; raises as
    `build_empty_model` does."""
    return sum(
        parameter.numel() for parameter in build_empty_model(folder, loader, **values).parameters()
    )


def read_config_facts(model: str | Path) -> dict[str, int]:
    """n_layers, n_heads, d_head and n_params (tied weights once) by a configuration alone; no
    weights are read.

    model: a config.json or other file of its kind, a model's folder, or a hub id, behind an @
    a revision. Counting needs torch, which builds the model without memory.

    Raises UsageError for what is no model, for a class that is not described, that norms the stream
    itself or that does not attend to text; DataError for a configuration that is damaged.
    """
    path = Path(model).expanduser()
    if not path.is_file() or is_gguf(path):
        name, revision = split_revision(str(model))
        find_local_folder(name)
        return _read_facts(fetch_config_folder(name, revision=revision or MAIN))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(path, Path(folder) / "config.json")
        return _read_facts(Path(folder))


def _read_facts(folder: Path) -> dict[str, int]:
    config = read_config(folder)
    entry = lookup(config)
    if not (entry.additive and entry.attends and entry.reads == "text"):
        what = "gains of models of this class are not compared with those of others"
        allowed = "decoders that attend and add to their stream without norming it"
        raise UsageError(what, got=f"model_type {entry.model_type}", allowed=allowed)
    g = read_geometry(entry, config)
    try:
        n_params = count_parameters(folder, entry.loader, **entry.set_values)
    except ModuleNotFoundError as error:
        raise build_install_error(
            error, "counting a model's weights needs torch and transformers"
        ) from error
    return {"n_layers": g.n_layers, "n_heads": g.n_heads, "d_head": g.d_head, "n_params": n_params}


def build_empty_model(
    folder: Path, loader: str = "AutoModelForCausalLM", **values: bool
) -> torch.nn.Module:
    """The model that a folder's configuration describes, without memory and without its weights.

    `values` stand in the place of the configuration's own.

    Raises ThermostatsError where transformers cannot build it.
    """
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    auto: Any = getattr(transformers, loader)
    try:
        config = load_class_config(folder, loader, **values)
        with torch.device("meta"):
            model: torch.nn.Module = (
                auto.from_config(config) if loader.startswith("Auto") else auto(config)
            )
    except UNLOADABLE as error:
        raise ThermostatsError(
            "transformers cannot build the model", where=folder, got=take_first_line(error)
        ) from error
    model.tie_weights()  # type: ignore[operator]
    return model


def load_class_config(
    folder: Path, loader: str, *, trust_remote_code: bool = False, **values: bool
) -> Any:
    """transformers' configuration of the model in a folder, `values` in the place of its own.

    What it says of the kernel that computes attention, which may not be installed here, and of the
    form in which outputs are returned is no part of the model, and left out.
    """
    import transformers  # noqa: PLC0415

    auto: Any = getattr(transformers, loader)
    kind = transformers.AutoConfig if loader.startswith("Auto") else auto.config_class
    config = kind.from_pretrained(
        folder, local_files_only=True, trust_remote_code=trust_remote_code, **values
    )
    config._attn_implementation = None
    for part in (
        config,
        *(getattr(config, name, None) for name in getattr(config, "sub_configs", ())),
    ):
        if part is not None:
            part.return_dict, part.output_hidden_states, part.output_attentions = True, False, False
    return config


def estimate_memory(n_params: int, dtype: str) -> int:
    """Bytes that a process takes with a model of so many parameters; batches come on top."""
    return n_params * ITEM[dtype] + PROCESS


def has_room(n_params: int, dtype: str, place: Place) -> bool:
    """Whether a place has the memory for a model's weights; True if that is unknown."""
    return estimate_memory(n_params, dtype) <= place.room


def estimate_seconds(n_params: int, texts: Sequence[str], passes: int, kind: str) -> float:
    """About how long so many forward passes over texts take: 2 n_params operations a token at the
    rate of the kind."""
    return 2 * n_params * sum(map(estimate_tokens, texts)) * passes / RATE[kind]


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, a special one in front."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN) + 1


def count_devices(need: Need, place: Place) -> int:
    """Devices that a model is spread over: 1 where it fits into one, else as many as hold it."""
    if place.each is None or place.kind == "cpu":
        return 1
    return max(1, math.ceil((need.total + PROCESS) / place.each))


def find_refusal(spec: RunSpec, need: Need, place: Place) -> ThermostatsError | None:
    """The error for a spec that cannot fit, with what would; None where it fits or nobody can
    tell."""
    if place.each is None or need.weights == 0 or need.total <= (room := place.room):
        return None
    would = []
    if spec.dtype == "float32":
        half = replace(need, weights=need.weights // 2, activations=need.activations // 2)
        if half.total <= room:
            would.append(f"--dtype bfloat16 ({format_gib(half.total)})")
    if place.kind != "cpu":
        would.append(
            f"--set device_map=auto over {count_devices(need, place)} devices of "
            f"{format_gib(place.each)}"
        )
    if need.activations > need.weights:
        would.append("a smaller --set token_budget=N or shorter prompts")
    would.append(
        f"a machine with {format_gib(need.total + PROCESS)} free"
        if place.kind == "cpu"
        else "--set device=cpu"
    )
    would.append("--what weights, which reads only the files")
    what = "the model cannot fit into memory and was not loaded"
    got = (
        f"{format_gib(need.weights)} of weights and {format_gib(need.activations)} of activations, "
        f"{format_gib(room)} "
        f"there are"
    )
    where = f"{spec.model} in {spec.dtype}"
    return ThermostatsError(
        what, where=where, got=got, next_step="what would fit: " + "; ".join(would)
    )


def format_gib(n_bytes: float) -> str:
    """Bytes in GiB, as text."""
    return f"{n_bytes / 2**30:.3g} GiB"


def find_free_memory(device: torch.device) -> int | None:
    """Bytes free on a device: a GPU's own, or else the machine's or its control group's; None if
    unknown."""
    import psutil  # noqa: PLC0415
    import torch  # noqa: PLC0415

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    with suppress(
        OSError, KeyError, ValueError
    ):  # no control group, one of another version, or one without limit
        statistics = dict(
            line.split()
            for line in (group / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        free = min(
            free, int((group / "memory.max").read_text(encoding="ascii")) - int(statistics["anon"])
        )
    return free


def check_memory(folder: Path, dtype: str, device: torch.device) -> None:
    """Raise ThermostatsError where the weights alone are more than the memory that is free."""
    needed = ITEM[dtype] * sum(
        math.prod(tensor.shape) for tensor in open_checkpoint(folder).values()
    )
    free = find_free_memory(device)
    if free is not None and needed > free:
        where = f"{folder.name} in {dtype} on {device}"
        got = f"{format_gib(needed)} of weights, {format_gib(free)} free"
        step = "try --dtype bfloat16, --set device_map=auto over several devices, or --what weights"
        raise TransientError(
            "not enough memory for the model", where=where, got=got, next_step=step
        )


def estimate_activation_bytes(decoder: Decoder, batch: Batch, *, outputs: bool) -> int:
    """About how many bytes one forward pass holds at most above the model, see
    `estimate_pass_bytes`."""
    rows, n = batch.mask.shape
    settings = getattr(decoder.model, "config", None)
    return estimate_pass_bytes(
        decoder.entry,
        decoder.config,
        rows=rows,
        n=n,
        item=decoder.dtype.itemsize,
        eager=getattr(settings, "_attn_implementation", "eager") == "eager",
        prompts=len(batch.indices) if outputs else 0,
    )


def check_batches(decoder: Decoder, batches: Sequence[Batch], *, outputs: bool = False) -> None:
    """Raise ThermostatsError if the largest batch would not fit into memory together with the
    model."""
    needed, batch = max(
        ((estimate_activation_bytes(decoder, b, outputs=outputs), b) for b in batches),
        key=lambda pair: pair[0],
    )
    free = find_free_memory(decoder.device)
    if free is not None and needed > free:
        rows, n = batch.mask.shape
        raise TransientError(
            "not enough memory for a batch of prompts",
            where=f"on {decoder.device}",
            got=f"{rows} × {n} tokens take {format_gib(needed)}, {format_gib(free)} free",
            next_step="--set token_budget=512, shorter prompts, --dtype bfloat16, or no attention "
            "in --what",
            options=("--set", "token_budget=512"),
        )


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


def plan(spec: RunSpec, data: Path) -> MeasurementPlan:
    """What measuring a spec would do; reads the model's configuration and headers, not its weights.

    Raises UsageError or DataError where model or prompts cannot be had or read.
    """
    prompts = load_prompts(spec.prompts, data)
    folder = _stack(fetch_folder(spec), str(prompts["modality"].iloc[0]))
    entry = _find_entry(spec, folder)
    check_switches(spec, spectra.read_config(folder.path, folder.reads), folder.path)
    sha = hash_model(folder.path)
    recorded = load_recorded_rows(folder.model_id, folder.revision, data)
    named = {"model_id": folder.model_id, "revision": folder.revision, "heritage": spec.heritage}
    row = build_model_row(
        folder.path, models=store.load("models", data), reads=folder.reads, **named
    )
    row = add_stated_facts(row, store.load("candidates"))
    earlier = store.load("runs", data)
    earlier = earlier[
        (earlier["model_id"] == folder.model_id) & (earlier["revision"] == folder.revision)
    ]
    check_name(folder, sha, earlier[earlier["source"] == spec.source], recorded, row)
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
        line = write_command("set", folder.model_id, f"heritage={spec.heritage}")
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
    labels = {
        "name": (folder.model_id, store.load("models", data)["model_id"]),
        "prompts": (str(prompts["prompt_set"].iloc[0]), sets),
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
    return spec.name or (
        path.resolve().name
        if path.is_dir()
        else name_gguf_model(path)
        if is_gguf(path)
        else spec.model
    )


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
    return (
        tuple(run.run["run_id"] for run in planned.runs)
        if planned.finished and not planned.confirmed
        else None
    )


def _find_runs_by_name(spec: RunSpec, prompts: pd.DataFrame, data: Path) -> tuple[str, ...] | None:
    runs = store.load("runs", data)
    finished = []
    for kind, tables in _group_kinds(spec).items():
        precisions = STORED if kind == "weights" else (spec.dtype,)
        wanted = [
            _run(kind, spec, name_model(spec), spec.revision, dtype, prompts, "")
            for dtype in precisions
        ]
        alike = runs[
            runs[LIKE]
            .apply(tuple, axis=1)
            .isin([tuple(run[label] for label in LIKE) for run in wanted])
        ]
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
    other = [name for name in prompts["modality"].unique() if name != entry.reads]
    if other and set(kinds) - {"weights"}:
        images = entry.reads == "image"
        raise UsageError(
            f"a model that reads {entry.reads} cannot be given {other[0]}",
            where=prompts["prompt_set"].iloc[0],
            next_step="--prompts images, or a folder of them"
            if images
            else "name a prompt set of texts",
            options=("--prompts", "images") if images else (),
        )
    none = {
        *(() if entry.has_head else ("outputs",)),
        *(WHAT["attention"][1] if entry.depths or entry.mixers else ()),
    }
    left = {kind: [name for name in names if name not in none] for kind, names in kinds.items()}
    if not any(left.values()):
        step = "thermostats measure MODEL --dry-run says what can be measured"
        asked = ", ".join(name for names in kinds.values() for name in names)
        raise UsageError(
            "the model has none of the requested quantities", got=asked, next_step=step
        )
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
