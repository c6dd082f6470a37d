"""The verb `prove`: identities of a model on its own prompts, and what another tool makes of the
same.

A model is found, loaded and given its prompts as `measure` does it, and refused where `measure`
refuses it. Without a tokenizer, where `measure` has no prompts, token ids are drawn.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch

from thermostats.errors import ThermostatsError, UsageError
from thermostats.measurement import forward, spectra
from thermostats.measurement.activations import Activations, Vectors, read_activations
from thermostats.measurement.batching import ImagePrompt, TokenisedPrompt, tokenise
from thermostats.measurement.checkpoint import find_context_limit
from thermostats.measurement.class_facts import (
    check_loaded,
    collect_facts,
    find_differences,
    find_ends,
)
from thermostats.measurement.forward import (
    Decoder,
    is_batch_independent,
    read_configuration,
    read_image_shape,
)
from thermostats.measurement.from_python import find_places, unpack_model, write_prompts
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.identities import (
    IDENTITIES,
    Deviation,
    Held,
    check_read_gain,
    find_deviations,
    read_window,
)
from thermostats.measurement.loading import load
from thermostats.measurement.lookup import lookup, select_decoder_config
from thermostats.measurement.other_tools import Tool, find_tool, read_tool
from thermostats.measurement.plan import MeasurementPlan, fetch_folder, plan
from thermostats.measurement.prompts import load_prompts, prepare_images
from thermostats.measurement.proof import (
    TOLERANCES,
    InputsMeetError,
    check_conformance,
    check_finite,
    measure_proved,
    scale_writes,
)
from thermostats.measurement.spec import MADE, RunSpec, build_spec
from thermostats.tables.folders import find_lookup_folder, find_shipped

UNNAMED = "the model that is to be proved"
"""Its name in a plan, which is none that the tables have."""
HOLDS = "holds"
FAILS = "fails"
OPEN = "not covered"
LENGTHS = (2, 5, 9, 14)
"""Tokens of prompts that are drawn; as many images."""
SPECIAL = 3
"""Ids below it are seldom drawn from: they begin, end and fill texts."""
WORDS = (
    "tokenizer*",
    "vocab*",
    "*.model",
    "spiece*",
    "preprocessor_config.json",
    "processor_config.json",
)
"""Files that say how a model reads texts or images."""
PLACES = {
    "x_in": "stream before a block",
    "x_out": "stream behind a block",
    "attention_read": "what attention reads",
    "heads": "the heads",
    "attention": "attention's output",
    "attention_write": "attention's write",
    "mlp_read": "what the feed-forward layer reads",
    "mlp_write": "the feed-forward layer's write",
}
"""Names of `Activations` in words, as two tools may agree on them."""
UNCOVERED = {
    "states": "the class returns other states",
    "embedding": "the class returns no state of its embedding",
    "order": "no stream between two sub-blocks is known",
    "heads": "no block has heads and W_O",
    "window": "what it reads has no order, or no block attends",
    "read": "post-norm blocks have no read gain",
    "value": "no block has W_V",
    "circuit": "no block has W_O",
    "facts": "a model in memory has no files",
}
"""Why an identity may have nothing to hold."""


@dataclass(frozen=True)
class ProvedIdentity:
    """One identity over all blocks and prompts, at the place where it is furthest off."""

    name: str
    state: str
    """``holds``, ``fails`` or ``not covered``."""
    difference: float | None
    """Largest relative difference; None: not covered."""
    excess: float | None
    """Largest part of one that rounding does not explain, held against `allowed`."""
    allowed: float
    place: str
    why: str
    """What is wrong, and what would explain it; or why it is not covered."""


@dataclass(frozen=True)
class ToolProof:
    """What another tool's accessors come to on the same model and ids."""

    tool: str
    version: str
    identities: tuple[ProvedIdentity, ...]
    agreement: tuple[ProvedIdentity, ...]
    """By what is read: how far the tool's tensors are from ours."""

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of what does not hold, or is not what we read."""
        failed: list[str] = []
        for each in (*self.identities, *self.agreement):
            if each.state == FAILS:
                failed.append(each.name)
        return tuple(failed)


@dataclass(frozen=True)
class ModelProof:
    """What was proved of a model."""

    model: str
    architecture: str
    dtype: str
    transformers: str
    torch: str
    prompts: str
    """How many inputs of which set, or that they were drawn."""
    identities: tuple[ProvedIdentity, ...]
    uncovered: tuple[str, ...]
    """What was not tried."""
    notes: tuple[str, ...] = ()
    tool: ToolProof | None = None

    def __repr__(self) -> str:
        lines = [f"  {each.name}: {each.state}" for each in self.identities]
        return "\n".join([f"{self.model}, {self.prompts}: {self.badge}", *lines])

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the identities that do not hold."""
        return tuple(each.name for each in self.identities if each.state == FAILS)

    @property
    def passed(self) -> bool:
        """Whether all that was tried holds, of another tool too where one was asked."""
        return not self.failed and not (self.tool and self.tool.failed)

    @property
    def badge(self) -> str:
        """One line that a badge can show."""
        where = f"{self.dtype}, transformers {self.transformers}"
        if self.tool is not None:
            named = f"{self.tool.tool} {self.tool.version}"
            off = ", ".join(self.tool.failed)
            return (
                f"{named} is off: {off} ({where})" if off else f"{named} holds and agrees ({where})"
            )
        if self.failed:
            return f"not proved: {', '.join(self.failed)} ({where})"
        held = [each for each in self.identities if each.state == HOLDS]
        largest = max(each.difference or 0.0 for each in held)
        return f"proved: {len(held)} identities to {largest:.1e} ({where})"

    def to_json(self) -> dict[str, Any]:
        """Give all of it as plain values; what is infinite is None.

        Returns
        -------
        dict
            Names to values, as JSON takes them.

        Examples
        --------
        >>> import transformers
        >>> import thermostats
        >>> transformers.set_seed(1)
        >>> shape = {"n_layer": 3, "n_head": 2, "n_embd": 16, "vocab_size": 64, "n_positions": 64}
        >>> config = transformers.GPT2Config(**shape, bos_token_id=1, eos_token_id=1)
        >>> proof = thermostats.prove(transformers.GPT2LMHeadModel(config).eval())
        >>> proof.to_json()["passed"]
        True
        """
        values: dict[str, Any] = replace_infinite(asdict(self))
        return {"badge": self.badge, "passed": self.passed, **values}


def replace_infinite(value: Any) -> Any:
    """A nested value with None in the place of numbers that JSON has not."""
    if isinstance(value, dict):
        return {name: replace_infinite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [replace_infinite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Opened:
    """A model with its places and inputs, and what its files say."""

    name: str
    decoder: Decoder
    inputs: Sequence[Any]
    source: str
    """Where the inputs come from, in words."""
    differing: tuple[str, ...] | None
    """Facts that are not those of the loaded model; None: nothing states any."""
    notes: tuple[str, ...] = ()
    quantised: bool = False


def prove(
    model: Any,
    tokenizer: Any = None,
    *,
    prompts: str | Path | Sequence[str] | None = None,
    tool: str = "",
    **options: Any,
) -> ModelProof:
    """Hold a model against itself on its own prompts, block by block and token by token.

        x_l = x_(l−1) + what attention and feed-forward layer write,
        Σ_h W_O,h z_h = attention's output

    Further: where norms stand; the last state before the final norm; read gains; and what a run
    proves of itself. `IDENTITIES` names all. What fails is no error: `passed` is False, and
    `failed` names it.

    Parameters
    ----------
    model : str, Path or transformers model
        A hub id or a model's folder, or a transformers model in memory.
    tokenizer : transformers tokenizer
        Of a model in memory, where there is one; without it ids are drawn.
    prompts : str, Path or sequence of str
        As for `measure`; by default the set core, of images the set images.
    tool : str
        nnterp, transformer-lens or nnsight, whose accessors are held against the same on the
        shortest and the longest prompt; the model is then in memory twice.
    **options
        dtype, revision, device, download, trust_remote_code of `RunSpec`.

    Returns
    -------
    ModelProof
        Every identity with its state and its largest relative difference.

    Raises
    ------
    UsageError, DataError, ThermostatsError
        As `measure` does, and UsageError for a tool that is not installed or cannot read the class.

    Examples
    --------
    >>> import transformers
    >>> import thermostats
    >>> transformers.set_seed(1)
    >>> shape = {"n_layer": 3, "n_head": 2, "n_embd": 16, "vocab_size": 64, "n_positions": 64}
    >>> config = transformers.GPT2Config(**shape, bos_token_id=1, eos_token_id=1)
    >>> proof = thermostats.prove(transformers.GPT2LMHeadModel(config).eval())
    >>> proof.passed, proof.failed
    (True, ())
    """
    other = find_tool(tool) if tool else None
    with TemporaryDirectory(prefix="thermostats-") as temporary:
        named = None if prompts is None else write_prompts(prompts, Path(temporary))
        if isinstance(model, str | Path):
            opened = open_folder(str(model), named, options)
        else:
            opened = open_memory(model, tokenizer, named)
    return prove_opened(opened, other)


def open_folder(model: str, prompts: str | None, options: Mapping[str, Any]) -> Opened:
    """A named model, loaded, with its prompts; see `prove`."""
    fields = {**options, "what": ("gains",), "name": UNNAMED}
    spec = build_spec(model, {**fields, "prompts": prompts or "core"})
    if prompts is None:
        spec = replace(spec, prompts=choose_prompts(spec))
    planned = plan(spec, find_lookup_folder())
    folder = planned.folder
    reads_words = any(next(folder.path.glob(pattern), None) for pattern in WORDS)
    drawn = prompts is None and not reads_words
    how: dict[str, Any] = {
        "dtype": spec.dtype,
        "device": spec.device,
        "trust_remote_code": spec.trust_remote_code,
    }
    loaded = load(folder, tokenizer=not drawn, **how)
    decoder = loaded.decoder
    config = spectra.read_config(folder.path, folder.reads)
    tied = check_loaded(decoder, folder.path, config)
    facts = collect_facts(decoder.model, decoder.entry, config, tied=tied)
    apart = tuple(find_differences(planned.model, facts, "of the loaded model"))
    inputs, source = (
        draw_inputs(decoder) if drawn else read_inputs(planned, decoder, loaded.tokenizer)
    )
    quantised = bool(planned.model["quantised"])
    return Opened(model, decoder, inputs, source, apart, planned.differences, quantised)


def choose_prompts(spec: RunSpec) -> str:
    """The set of prompts that a model can read; what is wrong with the model is said where it is
    planned."""
    with suppress(ThermostatsError):
        entry = lookup(spectra.read_config(fetch_folder(spec).path, "text"))
        return MADE if entry.reads == "image" else spec.prompts
    return spec.prompts


def read_inputs(
    planned: MeasurementPlan, decoder: Decoder, reader: Any
) -> tuple[Sequence[Any], str]:
    """The inputs that a plan's prompts come to, and where they come from."""
    table = planned.prompts
    source = f"{len(table)} prompts of {table['prompt_set'].iloc[0]}"
    if decoder.entry.reads == "image":
        folder = Path(planned.spec.prompts) if Path(planned.spec.prompts).is_dir() else None
        return prepare_images(reader, table.itertuples(), folder), source
    return read_texts(table, decoder, reader), source


def read_texts(table: pd.DataFrame, decoder: Decoder, tokenizer: Any) -> list[TokenisedPrompt]:
    """Prompts of a table as tokens."""
    texts = table[["prompt_id", "text"]].itertuples(index=False, name=None)
    prompts, _ = tokenise(tokenizer, texts, causal=decoder.entry.causal)
    return prompts


def draw_inputs(decoder: Decoder) -> tuple[Sequence[Any], str]:
    """Token ids, or images of noise, the same each time, as many as `LENGTHS`, and that they were
    drawn."""
    generator = torch.Generator().manual_seed(0)
    entry = decoder.entry
    if entry.reads == "image":
        shape = read_image_shape(decoder)
        images = []
        for _ in LENGTHS:
            images.append(torch.randn(shape, generator=generator).to(decoder.dtype))
        return [
            ImagePrompt(f"drawn-{i}", pixels) for i, pixels in enumerate(images, 1)
        ], "images of noise"
    size = int(select_decoder_config(decoder.config)["vocab_size"])
    most = find_context_limit(entry, decoder.config) or max(LENGTHS)
    lowest = SPECIAL if size > SPECIAL + 1 else 0
    lengths = dict.fromkeys(min(length, most) for length in LENGTHS)
    ids = []
    for length in lengths:
        ids.append(torch.randint(lowest, size, (length,), generator=generator).tolist())
    return [TokenisedPrompt(f"drawn-{len(each)}", tuple(each)) for each in ids], "ids drawn"


def open_memory(model: Any, tokenizer: Any, prompts: str | None) -> Opened:
    """A model in memory with its prompts; see `prove`."""
    plain = unpack_model(model)
    decoder = find_places(plain, lookup(read_configuration(plain)))
    name = type(plain).__name__
    if tokenizer is None:
        if prompts is not None:
            what = "prompts are read by a tokenizer, and none was given"
            step = "prove(model, tokenizer, prompts=…), or leave prompts out: ids are drawn then"
            raise UsageError(what, where="prompts", got=prompts, next_step=step)
        inputs, source = draw_inputs(decoder)
        return Opened(name, decoder, inputs, source, check_tie(decoder))
    images = decoder.entry.reads == "image"
    table = load_prompts(prompts or (MADE if images else "core"), find_shipped("data"))
    source = f"{len(table)} prompts of {table['prompt_set'].iloc[0]}"
    if images:
        folder = Path(prompts) if prompts and Path(prompts).is_dir() else None
        inputs = prepare_images(tokenizer, table.itertuples(), folder)
    else:
        inputs = read_texts(table, decoder, tokenizer)
    return Opened(name, decoder, inputs, source, check_tie(decoder))


def check_tie(decoder: Decoder) -> tuple[str, ...] | None:
    """Whether the unembedding is the embedding, where a configuration says so or not; None: it says
    nothing."""
    config = decoder.config
    stated = config.get(
        "tie_word_embeddings", select_decoder_config(config).get("tie_word_embeddings")
    )
    ends = find_ends(decoder) if decoder.entry.has_head else None
    if ends is None or not isinstance(stated, bool):
        return None
    facts = {"tied_embeddings": ends.head is ends.embedding}
    return tuple(find_differences({"tied_embeddings": stated}, facts, "of the model in memory"))


def prove_opened(opened: Opened, other: tuple[Tool, str] | None = None) -> ModelProof:
    """Every identity of an opened model, and another tool's."""
    decoder = opened.decoder
    found = list(find_all(opened))
    allowed = TOLERANCES[decoder.dtype]
    identities = collect_worst(found, IDENTITIES, allowed, UNCOVERED)
    if any(each.state == FAILS for each in identities):
        check_finite(decoder)
    dtype = str(decoder.dtype).removeprefix("torch.")
    versions = (version("transformers"), version("torch"))
    named = (opened.name, decoder.entry.name, dtype, *versions, opened.source)
    done = ModelProof(*named, identities, tuple(find_uncovered(opened)), opened.notes)
    return done if other is None else replace(done, tool=prove_tool(opened, *other))


def find_all(opened: Opened) -> Iterator[Deviation]:
    """Deviations of every identity: those of a run's own proof, of its rows, and of every prompt by
    itself."""
    decoder = opened.decoder
    for layer in range(len(decoder.blocks)):
        proof = check_conformance(decoder, layers=[layer])
        attended = ("value", "circuit") if decoder.entry.value else ()
        for name in ("residual", "stream", "final", *attended):
            off = getattr(proof, name)
            yield Deviation(name, off, off, f"block {layer + 1}, one token")
    if opened.differing is not None:
        off = float(bool(opened.differing))
        yield Deviation("facts", off, off, "", "; ".join(opened.differing))
    alone = {"token_budget": 1, "packed": False}
    try:
        measured, again = measure_proved(
            partial(measure_gains, decoder), decoder, opened.inputs, options={}, alone=alone
        )
    except InputsMeetError as error:
        yield Deviation("again", math.inf, math.inf, "", error.got)
        measured = measure_gains(decoder, opened.inputs, token_budget=1, packed=False)
    else:
        size, *one_by_one = again.removeprefix("again=").split()
        off = float(size)
        yield Deviation("again", off, off, "measured one by one" if one_by_one else "")
    for prompt in opened.inputs:
        seen = read_activations(decoder, make_call(decoder, prompt))
        for each in (
            *find_deviations(decoder, seen),
            *check_read_gain(decoder, seen, prompt, measured.layers),
        ):
            yield replace(each, place=f"prompt {prompt.prompt_id}, {each.place}")


def make_call(decoder: Decoder, prompt: Any) -> dict[str, Any]:
    """What a model is called with for one input by itself."""
    if isinstance(prompt, ImagePrompt):
        return {"pixel_values": prompt.pixels.unsqueeze(0).to(decoder.device, decoder.dtype)}
    return {"input_ids": torch.tensor([prompt.token_ids], device=decoder.device)}


def collect_worst(
    deviations: Iterable[Deviation],
    names: Mapping[str, str],
    allowed: float,
    uncovered: Mapping[str, str],
) -> tuple[ProvedIdentity, ...]:
    """What was found, a row a name: the worst of each; `uncovered`: why one may not have been
    tried."""
    by_name: dict[str, list[Deviation]] = {}
    for name in names:
        by_name[name] = []
    for each in deviations:
        by_name[each.identity].append(each)
    proved = []
    for name, words in names.items():
        if by_name[name]:
            proved.append(find_worst(name, words, by_name[name], allowed))
        else:
            why = uncovered.get(name, "not handed out")
            proved.append(ProvedIdentity(name, OPEN, None, None, allowed, "", why))
    return tuple(proved)


def find_worst(
    name: str, words: str, deviations: Sequence[Deviation], allowed: float
) -> ProvedIdentity:
    """One identity over all its places; `words`: what is wrong where it is off."""
    worst = max(deviations, key=lambda each: (each.excess, each.difference))
    largest = max(each.difference for each in deviations)
    off = [each for each in deviations if not each.excess <= allowed]
    causes = ", ".join(dict.fromkeys(each.cause for each in off if each.cause))
    why = f"{words}{': ' * bool(causes)}{causes}" if off else ""
    return ProvedIdentity(
        name, FAILS if off else HOLDS, largest, worst.excess, allowed, worst.place, why
    )


def find_uncovered(opened: Opened) -> Iterator[str]:
    """What of a model was not tried."""
    decoder = opened.decoder
    if decoder.dtype == torch.float32:
        yield "half precision"
    if not opened.quantised:
        yield "quantised weights"
    is_text_on_cpu = decoder.entry.reads == "text" and decoder.device.type == "cpu"
    packed = decoder.entry.packs and is_text_on_cpu
    if not (packed and is_batch_independent(decoder)):
        yield "packs"
    longest = max((len(getattr(each, "token_ids", ())) for each in opened.inputs), default=0)
    entry = decoder.entry
    windows = {read_window(entry, decoder.config, layer) for layer in range(len(decoder.blocks))}
    if entry.reads == "text" and (
        wide := sorted(each for each in windows if each and each >= longest)
    ):
        yield f"windows of {', '.join(map(str, wide))} tokens"


def prove_tool(opened: Opened, tool: Tool, number: str) -> ToolProof:
    """Identities of another tool's accessors on the shortest and the longest prompt, and where they
    agree with ours.

    Its writes are held to add up as they are handed out, without the factors that our entries name,
    unless it reads at the places of our entry.
    """
    decoder = opened.decoder
    entry = decoder.entry
    if entry.reads != "text":
        raise UsageError(
            f"{tool.name} is given token ids alone", got=f"a model that reads {entry.reads}"
        )
    plain = replace(entry, residual_multiplier="", attention_scale="", mlp_scale="")
    claims = decoder if tool.borrows_places else replace(decoder, entry=plain)
    by_length = sorted(opened.inputs, key=lambda each: len(each.token_ids))
    ends = {}
    for each in (by_length[0], by_length[-1]):
        ends[each.prompt_id] = each
    found: list[Deviation] = []
    apart: list[Deviation] = []
    for prompt in ends.values():
        ours = read_activations(decoder, make_call(decoder, prompt))
        places = forward.build_decoder(copy.deepcopy(decoder.model), entry, decoder.config)
        ids = torch.tensor([prompt.token_ids], device=decoder.device)
        theirs = Activations(read_tool(tool, places, ids), ours.hidden, ours.final)
        where = f"prompt {prompt.prompt_id}, "
        for each in find_deviations(decoder, theirs, claims):
            found.append(replace(each, place=where + each.place))
        for each in compare_places(decoder, ours, theirs, claims):
            apart.append(replace(each, place=where + each.place))
    allowed = TOLERANCES[decoder.dtype]
    offered = [
        name
        for name in IDENTITIES
        if name not in ("window", "read", "value", "circuit", "facts", "again")
    ]
    identities = collect_worst(found, {name: IDENTITIES[name] for name in offered}, allowed, {})
    words = {name: f"{what} is not the tensor that we read" for name, what in PLACES.items()}
    return ToolProof(tool.name, number, identities, collect_worst(apart, words, allowed, {}))


def compare_places(
    decoder: Decoder, ours: Activations, theirs: Activations, claims: Decoder
) -> Iterator[Deviation]:
    """How far another tool's tensors are from ours, what is written with the factors of each."""
    for layer, (own, read) in enumerate(zip(ours.blocks, theirs.blocks, strict=True)):
        expected = add_factors(decoder, layer, own)
        given = add_factors(claims, layer, read)
        for name in PLACES:
            if name in expected and name in given:
                held = Held(name, decoder, claims, theirs, layer)
                yield held.judge([given[name]], expected[name])


def add_factors(claims: Decoder, layer: int, vectors: Vectors) -> Vectors:
    """Vectors of a block, its writes times the factors of an entry."""
    names = ["attention_write", *["mlp_write"] * bool(claims.entry.mlp)]
    if not vectors.keys() >= set(names):
        return vectors
    return {**vectors, **dict(zip(names, scale_writes(claims, layer, vectors), strict=False))}


def list_rows(proof: ModelProof) -> list[dict[str, Any]]:
    """Rows for a table: an identity each, and with another tool its number and ours."""
    rows = [asdict(each) for each in proof.identities]
    if proof.tool is None:
        return rows
    own = {each.name: each.difference for each in proof.identities}
    of_tool = []
    for each in proof.tool.identities:
        of_tool.append({**asdict(each), "ours": own[each.name]})
    agreement = []
    for each in proof.tool.agreement:
        agreement.append({**asdict(each), "name": PLACES[each.name], "ours": None})
    return [*of_tool, *agreement]
