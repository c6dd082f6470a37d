"""Models opened to be changed: loaded and held against their class, with texts of their own or a
user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from thermostats.errors import TransientError, UsageError
from thermostats.measurement.batching import tokenise
from thermostats.measurement.checkpoint import read_geometry
from thermostats.measurement.forward import Decoder
from thermostats.measurement.from_python import (
    check_same,
    in_memory_spec,
    unpack_model,
    write_prompts,
)
from thermostats.measurement.gguf_parts import is_gguf
from thermostats.measurement.intervention_rows import RealTexts, RowKeeper, describe_run
from thermostats.measurement.loading import Loaded, load
from thermostats.measurement.plan import MeasurementPlan, plan
from thermostats.measurement.prompts import load_prompts
from thermostats.measurement.proof import check_proof
from thermostats.measurement.resources import (
    ITEM,
    RATE,
    estimate_pass_bytes,
    find_free_memory,
    format_gib,
)
from thermostats.measurement.sampled_texts import (
    Texts,
    find_first_token,
    pad_texts,
    sample_texts,
    split_prompts,
    split_texts,
)
from thermostats.measurement.session import set_quiet
from thermostats.measurement.spec import (
    RunSpec,
    build_spec,
    check_device,
    check_set,
    require_device,
)
from thermostats.measurement.steering import count_rows
from thermostats.measurement.steering_spec import SteeringSettings, SteeringSpec
from thermostats.tables.folders import find_lookup_folder
from thermostats.tables.schemas import OURS

COPIES = 5
"""Of the weights, while they are trained: the model as it was, its copy, gradients, two moments of
Adam."""
PASSES = 8
"""Operations a weight and token of a step: the copy forward and back, the model as it was
forward."""
BLOCK_SECONDS = 1.5e-3
"""What a block of a small model takes in a step, whatever its size."""
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
)
HALF = (
    "in {dtype} a weight keeps 8 to 11 bits: changes below 1/256 of it are lost, so prices are "
    "higher "
    "than in float32"
)


@dataclass(frozen=True)
class ModelRequest:
    """A model that a user named or holds in memory, and how it is opened."""

    model: Any
    tokenizer: Any
    data: Path | None
    prompts: Any
    """Texts instead of the model's own samples; None: these."""
    dtype: str
    device: str = "auto"
    name: str = ""
    lab: str = ""
    source: str = OURS
    older: str = ""
    """`same`: earlier runs of this name, without a hash of weights, are of these weights."""


@dataclass(frozen=True)
class OpenedModel:
    """A model that is loaded to be changed, and what it is in the tables."""

    request: ModelRequest
    planned: MeasurementPlan
    loaded: Loaded

    @property
    def base(self) -> Decoder:
        """The model as it was."""
        return self.loaded.decoder

    @property
    def width(self) -> int:
        """Width of its stream."""
        return read_geometry(self.base.entry, self.base.config).d_model

    @property
    def label(self) -> str:
        """What it is called."""
        return self.planned.folder.model_id

    @property
    def sampled(self) -> bool:
        """Whether its texts are its own samples."""
        return self.request.prompts is None

    def keep_rows(self) -> RowKeeper:
        """Where rows of interventions on it go."""
        run = describe_run(self.planned, sampled=self.sampled, source=self.request.source)
        return RowKeeper(self.planned, run, self.loaded.device, self.request.data, self.sampled)

    def split_samples(self, settings: SteeringSettings, seed: int) -> tuple[Texts, Texts]:
        """Texts to train on and texts held out: its own samples, or a user's prompts."""
        if not self.sampled:
            return split_prompts(self._tokenise_prompts(), seed)
        count = settings.texts + settings.held_out
        texts = self.sample(count, settings.tokens, seed)
        return split_texts(texts, settings.held_out, seed)

    def hold_out(self, settings: SteeringSettings, seed: int) -> Texts:
        """Texts that a change without training is measured on."""
        if not self.sampled:
            return pad_texts([prompt.token_ids for prompt in self._tokenise_prompts()])
        return self.sample(settings.held_out, settings.tokens, seed)

    def sample(self, count: int, tokens: int, seed: int) -> Texts:
        """So many of its own samples."""
        first = find_first_token(self.base, self.loaded.tokenizer)
        return sample_texts(self.base, count, tokens, first, seed)

    def read_texts(self, name: str | Path) -> RealTexts:
        """A prompt set or a file of texts, as the model reads it."""
        rows = load_prompts(str(name), find_lookup_folder(self.request.data))
        pairs = rows[["prompt_id", "text"]].itertuples(index=False, name=None)
        prompts, _ = tokenise(self.loaded.tokenizer, pairs)
        texts = pad_texts([prompt.token_ids for prompt in prompts])
        return RealTexts(str(rows["prompt_set"].iloc[0]), texts, texts)

    def _tokenise_prompts(self) -> Sequence[Any]:
        pairs = self.planned.prompts[["prompt_id", "text"]].itertuples(index=False, name=None)
        return tokenise(self.loaded.tokenizer, pairs)[0]


@contextmanager
def open_model(request: ModelRequest, *, reads_texts: bool) -> Iterator[OpenedModel]:
    """A model, loaded and held against its class, while open.

    reads_texts: its tokenizer is needed. Raises UsageError for a model without a next token's
    distribution or in GGUF, DataError for one whose files cannot be read or are quantised,
    ThermostatsError where it cannot be loaded.
    """
    _check_kind(request.model)
    check_device(request.device)
    require_device(request.device)
    set_quiet()
    tables = find_lookup_folder(request.data)
    with TemporaryDirectory(prefix="thermostats-") as temporary:
        spec = _build_spec(request, Path(temporary))
        if request.prompts is not None:
            check_set(spec.prompts, tables)
        planned = plan(spec, tables, asks=False)
        files = planned.folder.path
        needed = reads_texts or any((files / name).is_file() for name in TOKENIZER)
        loaded = load(planned.folder, dtype=request.dtype, device=request.device, tokenizer=needed)
        _check_decoder(loaded.decoder)
        if not isinstance(request.model, (str, Path)):
            check_same(
                unpack_model(request.model),
                request.tokenizer,
                planned,
                reads_prompts=request.prompts is not None,
            )
        check_proof(loaded.decoder, needed=("stream",))
        yield OpenedModel(request, planned, loaded)


def _build_spec(request: ModelRequest, place: Path) -> RunSpec:
    """The spec of a model as `measure` has it, gains alone."""
    prompts = "core" if request.prompts is None else write_prompts(request.prompts, place)
    fields: dict[str, Any] = {
        "what": ("gains",),
        "prompts": prompts,
        "dtype": request.dtype,
        "device": request.device,
        "name": request.name,
        "heritage": request.lab,
        "source": request.source,
        "older": request.older,
    }
    if isinstance(request.model, (str, Path)):
        if request.tokenizer is not None:
            what = "a tokenizer is only given with a model in memory; a named model has its own"
            got = repr(request.tokenizer)[:60]
            raise UsageError(what, where="tokenizer", got=got, next_step="leave it out")
        return build_spec(str(request.model), fields)
    plain = unpack_model(request.model)
    if not hasattr(request.tokenizer, "save_pretrained"):
        what = "a model in memory needs its tokenizer"
        step = "thermostats.steer(model, TOKENIZER), or save both and name the folder"
        raise UsageError(what, got=repr(request.tokenizer)[:60], next_step=step)
    return in_memory_spec(plain, request.tokenizer, fields, place)


def _check_kind(model: Any) -> None:
    """Raise UsageError for a file in GGUF, which holds rounded numbers."""
    if isinstance(model, (str, Path)) and is_gguf(Path(model)):
        what = "weights in GGUF are rounded numbers of a format that nothing trains in"
        step = "name the folder or hub id of the model that the file was made from"
        raise UsageError(what, where=model, next_step=step)


def _check_decoder(places: Decoder) -> None:
    """Raise UsageError for a model that gives no distribution of the next token after those before
    it."""
    entry = places.entry
    if entry.reads == "text" and entry.causal and entry.has_head:
        return
    what = (
        "only a decoder with its head can be steered: KL is that of the next token's distribution"
    )
    kind = "reads images" if entry.reads != "text" else "reads in both directions"
    if entry.causal and entry.reads == "text":
        kind = "has no head"
    got = f"{entry.name}, which {kind}"
    step = "thermostats measure MODEL --what gains says its gains; nothing here says what they cost"
    raise UsageError(what, got=got, allowed="a class of AutoModelForCausalLM", next_step=step)


def check_room(opened: OpenedModel, spec: SteeringSpec, tokens: int) -> int:
    """Bytes that training takes. Raises TransientError where they are more than are free."""
    needed = estimate_memory(opened, spec, tokens)
    free = find_free_memory(opened.base.device)
    if free is not None and needed > free:
        what = "not enough memory to train the model"
        got = f"{format_gib(needed)} needed, {format_gib(free)} free"
        step = (
            "--rank 8 trains adapters alone, --set batch=4 takes fewer texts at once, or a GPU: "
            "--set device=cuda"
        )
        where = f"{opened.label} in {opened.request.dtype} on {opened.base.device}"
        raise TransientError(what, where=where, got=got, next_step=step)
    return needed


def estimate_memory(opened: OpenedModel, spec: SteeringSpec, tokens: int) -> int:
    """About how many bytes training takes: five times the weights, and what a pass keeps of every
    block.

    With adapters it is twice the weights, of the model as it was and of the copy.
    """
    base = opened.base
    item = ITEM[opened.request.dtype]
    weights = _count_weights(base) * item
    copies = COPIES if spec.rank is None else 2
    rows = min(spec.settings.batch, count_rows(base, tokens))
    size = {"rows": rows, "n": tokens, "item": item, "prompts": rows * tokens}
    of_pass = estimate_pass_bytes(base.entry, base.config, eager=False, **size)
    inner = estimate_pass_bytes(base.entry, base.config, eager=False, **{**size, "prompts": 0})
    return copies * weights + of_pass + (len(base.blocks) - 1) * inner


def _count_weights(base: Decoder) -> int:
    return sum(parameter.numel() for parameter in base.model.parameters())


def announce(
    opened: OpenedModel, spec: SteeringSpec, trainings: int, say: Callable[[str], None]
) -> None:
    """Say before training how many steps it is, about how long it takes, and its memory; refuse
    where that lacks."""
    settings = spec.settings
    base = opened.base
    kind = "cpu" if base.device.type == "cpu" else "accelerator"
    operations = PASSES * _count_weights(base) * settings.batch * (settings.tokens + 1)
    step = operations / RATE[kind] + BLOCK_SECONDS * len(base.blocks)
    minutes = trainings * settings.steps * step / 60
    memory = check_room(opened, spec, settings.tokens + 1)
    length = f"{trainings} trainings of {settings.steps} steps, about {minutes:.2g} min"
    room = f"{format_gib(memory)} of memory (its weights {COPIES} times, and a pass)"
    say(f"{opened.label}: {length} on {base.device}, {room}")
    if opened.request.dtype != "float32":
        say(HALF.format(dtype=opened.request.dtype))
