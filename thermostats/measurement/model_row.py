"""A model's row of the table `models`, from its configuration and the headers of its checkpoint,
and what is refused.

No torch is loaded; `class_facts.py` holds the row against the class.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, UsageError
from thermostats.measurement.checkpoint import (
    BUFFERS,
    NO_NUMBERS,
    PRECISION,
    StoredTensor,
    open_checkpoint,
    read_count,
    read_geometry,
)
from thermostats.measurement.gguf_files import UNROUNDED, record
from thermostats.measurement.hub import ModelFolder
from thermostats.measurement.lookup import lookup, select_decoder_config
from thermostats.measurement.model_class import Architecture, Config, UnsupportedArchitectureError
from thermostats.measurement.readings import name_norm_kind
from thermostats.measurement.spec import AGAIN, SAME, WHAT, RunSpec
from thermostats.measurement.spectra import (
    Tensors,
    find,
    find_embedding,
    find_unembedding,
    read_config,
)
from thermostats.next_steps import write_command
from thermostats.tables.identities import COUNTED
from thermostats.tables.runs import LIKE, read_hashes

POSITION_TABLES = (
    "wpe",
    "embed_positions",
    "positions_embed",
    "position_embeddings",
    "position_embedding",
)
LEARNED = ("openai-gpt", "gpt2", "gpt_neo", "gpt_bigcode", "opt", "biogpt")
SCHEMES = {
    **dict.fromkeys(LEARNED, "learned"),
    "xglm": "sinusoidal",
    "bloom": "alibi",
    "mpt": "alibi",
}
SCHEMES |= dict.fromkeys(
    ("deberta", "deberta-v2", "mpnet", "swin", "t5", "mt5", "umt5"), "relative"
)
SCHEMES |= dict.fromkeys(("marian", "pegasus", "m2m_100"), "sinusoidal")
SCHEMES |= dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "jamba"), "none")
SCHEMES |= {"roformer": "rotary"}
ROTATES_IF_SAID = ("granitemoehybrid",)
"""Classes without positions, unless their configuration's `position_embedding_type` is ``rope``."""
FEED_FORWARD = (
    "intermediate_size",
    "ffn_dim",
    "n_inner",
    "ffn_hidden_size",
    "ffn_hidden_dim",
    "hidden_dim",
)
ROUTERS = {"gate", "router", "wg", "shared_expert_gate", "moe_statics"}
"""Modules of a block that choose experts."""
COUNTS = tuple(f"{of}.e_score_correction_bias" for of in ("gate", "mlp", "block_sparse_moe"))
NEVER_LEARNED = (*BUFFERS, "act_fn.beta", "act_fn.eps", "expert_bias", *COUNTS)
"""Tensors of checkpoints that are no parameters of the model: masks, frequencies, constants,
routers' counts."""


def build_model_row(
    path: Path,
    *,
    model_id: str,
    revision: str,
    models: pd.DataFrame,
    heritage: str = "",
    reads: str = "text",
) -> dict[str, Any]:
    """Row of the table `models` for the model in a folder.

    Where no heritage is given, it is that of the rows in `models`, rows of the same table, that
    share the hub organisation, if they share one; else it stays empty. Family, parent and year are
    not in a model's files. `reads`: of several stacks the one that reads ``text`` or ``image``.

    Raises DataError where configuration or checkpoint are missing or damaged, UsageError for
    unknown architectures.
    """
    config = read_config(path, reads)
    entry = lookup(config)
    decoder = select_decoder_config(config)
    tensors = open_checkpoint(path)
    g = read_geometry(entry, config)
    vocabulary = 0
    d_embed = g.d_model
    if entry.reads == "text":
        vocabulary, d_embed = find_embedding(entry, config, tensors).shape
    head = find_unembedding(entry, config, tensors) if entry.has_head else None
    table = _find_position_table(entry, config, tensors)
    origin = record(path)
    total = _count(entry, tensors, tied=head is None, n_layers=g.n_layers)
    bias = _find_head_bias(entry, tensors)
    apart = [each for each in (head, table, bias) if each is not None]
    outside = sum(math.prod(each.shape) for each in apart)
    outside += vocabulary * d_embed
    widths = (read_count(decoder, key) for key in FEED_FORWARD if decoder.get(key))
    stated = next(widths, 4 * g.d_model)
    blocks = _collect_block_shapes(entry, tensors, g.n_layers)
    width, gated = measure_feed_forward(entry, config, blocks) or (stated, False)
    scheme = origin.get("scheme")
    return {
        "model_id": model_id,
        "revision": revision,
        "heritage": heritage or _guess_heritage(model_id, models),
        "family": "",
        "variant": "",
        "parent": "",
        "seed_of": "",
        "architecture": entry.model_type,
        "n_layers": g.n_layers,
        "d_model": g.d_model,
        "d_embed": d_embed,
        "n_heads": g.n_heads,
        "n_kv_heads": g.n_kv_heads,
        "d_head": g.d_head,
        "d_ff": width if entry.mlp else 0,
        "vocab_size": vocabulary,
        "n_positions": table.shape[-2] if table else 0,
        "tied_embeddings": head is None,
        "gated_mlp": gated,
        "n_params": total,
        "n_params_nonembedding": total - outside,
        "norm_kind": name_norm_kind(entry, decoder),
        "norm_place": _name_norm_place(entry),
        "position_scheme": _name_position_scheme(entry, config, learned=table is not None),
        "parallel_block": entry.parallel,
        "year": None,
        "modality": _name_modality(entry),
        "stages": len(entry.depths) or 1,
        "source": COUNTED,
        "quantised": "" if scheme in (None, *UNROUNDED) else scheme,
        "package": "",
        "model_licence": origin.get("licence", ""),
    }


def _name_modality(entry: Architecture) -> str:
    if entry.reads == "image":
        return "vision"
    return "decoder" if entry.has_head or entry.headless else "encoder"


def find_stored_dtype(tensors: Tensors) -> str:
    """Precision of a checkpoint's matrices, as the table `runs` names it; mixed where they
    differ."""
    precisions = set()
    for name, tensor in tensors.items():
        if len(tensor.shape) != 2 or name.endswith(BUFFERS):
            continue
        if tensor.dtype not in NO_NUMBERS:
            precisions.add(PRECISION.get(tensor.dtype, tensor.dtype))
    if unknown := precisions - set(PRECISION.values()):
        got = ", ".join(sorted(unknown))
        allowed = ", ".join(PRECISION.values())
        raise DataError("the checkpoint is quantised", got=got, allowed=allowed)
    return precisions.pop() if len(precisions) == 1 else "mixed"


def measure_feed_forward(
    entry: Architecture, config: Config, blocks: Sequence[Mapping[str, tuple[int, ...]]]
) -> tuple[int, bool] | None:
    """Width of the feed-forward layer, and whether it is gated, from the shapes in its first and
    last block.

    Of an ungated layer one matrix leads from d to d_ff and one back; a gate is one more of d ×
    d_ff, stored alone or with the other. Of experts one is looked at. Where blocks differ in width,
    the one that the configuration states counts, else that of the last. blocks: shapes by name
    within the block. None where the shapes are no such layer's.
    """
    measured = [_measure_width(entry, config, shapes) for shapes in blocks]
    widths = [each for each in measured if each is not None]
    decoder = select_decoder_config(config)
    stated = [decoder.get(key) for key in FEED_FORWARD]
    last = widths[-1] if widths else None
    return next((each for each in widths if each[0] in stated), last)


def _measure_width(
    entry: Architecture, config: Config, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[int, bool] | None:
    mixing = (entry.attention, entry.value, entry.output, *entry.mixers)
    feed_forward = entry.mlp.partition(".")[0]
    attention = {path.partition(".")[0] for path in mixing} - {feed_forward}
    parts = {}
    for name in shapes:
        if not name.endswith("bias"):
            parts[name] = name.split(".")
    matrices = {}
    for name, words in parts.items():
        is_mixing = words[0] in attention or name.startswith(f"{entry.attention}.")
        if not is_mixing and ROUTERS.isdisjoint(words) and len(shapes[name]) > 1:
            matrices[name] = shapes[name]
    experts = {}
    for name, shape in matrices.items():
        if "experts" in parts[name]:
            experts[name] = shape
    if experts:
        matrices = {}
        for name, shape in experts.items():
            if {"0"} >= set(filter(str.isdigit, parts[name])):
                matrices[name] = shape
    d = read_geometry(entry, config).d_model
    sides = []
    for shape in matrices.values():
        if d in shape[-2:]:
            sides.append(shape[-2:])
    if not sides:
        return None
    others = [a if b == d else b for a, b in sides]
    narrow = min(others)
    times, rest = divmod(sum(others), narrow)
    gated = {2: False, 3: True}.get(times) if rest == 0 else None
    return None if gated is None else (narrow, gated)


def _collect_block_shapes(
    entry: Architecture, tensors: Tensors, n_layers: int
) -> list[dict[str, tuple[int, ...]]]:
    """Shapes of the tensors of the first and the last block, by their names within it."""
    blocks = []
    for layer in dict.fromkeys((0, 0 if entry.shared else n_layers - 1)):
        if entry.attends:
            name = find(tensors, entry.list_tensor_names(entry.value, layer)).name
        else:
            in_block = re.compile(rf"(.*\.)?{entry.blocks}\.{layer}\.")
            name = next(filter(in_block.match, tensors), "")
        place = re.match(rf"(.*\.)?{entry.find_stage(layer)[1]}\.", name)
        start = place.group() if place else ""
        shapes = {}
        for each, tensor in tensors.items():
            if each.startswith(start):
                shapes[each.removeprefix(start)] = tuple(tensor.shape)
        blocks.append(shapes)
    return blocks


def find_unused_tensors(entry: Architecture, tensors: Tensors, n_layers: int) -> list[str]:
    """Tensors of layers that the model does not have: beyond its last block, or for predicting
    several tokens."""
    if entry.depths or entry.shared:
        return []
    place = re.compile(rf"(?:^|\.){re.escape(entry.blocks)}\.(\d+)\.")
    unused = []
    for name in tensors:
        layer = place.search(name)
        is_beyond = layer is not None and int(layer.group(1)) >= n_layers
        if is_beyond or any(part.startswith("mtp") for part in name.split(".")):
            unused.append(name)
    return unused


def has_learned_positions(entry: Architecture, config: Config) -> bool:
    """Whether a table of positions in the files is one that the model adds and learned."""
    kind = str(select_decoder_config(config).get("position_embedding_type") or "absolute")
    fixed = entry.model_type == "roformer" or SCHEMES.get(entry.model_type) == "sinusoidal"
    return kind == "absolute" and not fixed


def _count(entry: Architecture, tensors: Tensors, *, tied: bool, n_layers: int) -> int:
    embeddings = entry.list_tensor_names(entry.embedding)
    copies = [name for name in embeddings if name in tensors][1:]
    aside = {*find_unused_tensors(entry, tensors, n_layers), *copies}
    names = set(embeddings)
    if tied and not names.isdisjoint(tensors):  # else the head's is the one matrix of both
        aside |= set(entry.list_tensor_names(entry.unembedding[0]))
    for name, tensor in tensors.items():
        if name.endswith(NEVER_LEARNED) or tensor.dtype in NO_NUMBERS:
            aside.add(name)
    counted = (name for name in tensors if name not in aside)
    in_stack = entry.filter_stack_names(counted)
    return sum(math.prod(tensors[name].shape) for name in in_stack)


def _find_head_bias(entry: Architecture, tensors: Tensors) -> StoredTensor | None:
    names = entry.list_tensor_names(entry.unembedding[0], kind="bias") if entry.has_head else ()
    return next((tensors[name] for name in names if name in tensors), None)


def _find_position_table(
    entry: Architecture, config: Config, tensors: Tensors
) -> StoredTensor | None:
    if not has_learned_positions(entry, config):
        return None
    counted = entry.filter_stack_names(tensors)
    for name, tensor in tensors.items():
        last_word = name.removesuffix(".weight").rpartition(".")[2]
        if name in counted and last_word in POSITION_TABLES:
            return tensor
    return None


def _name_position_scheme(entry: Architecture, config: Config, *, learned: bool) -> str:
    """How positions enter, by the class, its switches and whether there is a table of them."""
    decoder = select_decoder_config(config)
    if entry.model_type in SCHEMES:
        return SCHEMES[entry.model_type]
    kind = str(decoder.get("position_embedding_type") or "")
    if kind.startswith("relative"):
        return "relative"
    if kind == "nope" or (entry.model_type in ROTATES_IF_SAID and kind != "rope"):
        return "none"
    if not entry.has_head and learned:
        return "learned"
    if entry.model_type == "beit":
        biased = decoder.get("use_relative_position_bias") or decoder.get(
            "use_shared_relative_position_bias"
        )
        return "relative" if biased else "none"
    return "alibi" if decoder.get("alibi") is True else "rotary"


def _name_norm_place(entry: Architecture) -> str:
    if not entry.additive:
        return "post"
    if entry.attention_write:
        return "sandwich" if entry.attention_norm else "output"
    return "pre"


STATED = ("heritage", "family", "variant", "parent", "seed_of", "year")
"""What a list of public models states of one and its files do not say."""
ALIKE = ("n_layers", "n_heads", "d_model")
"""What tells a public model from another of the same name."""


def add_stated_facts(row: Mapping[str, Any], candidates: pd.DataFrame) -> dict[str, Any]:
    """The row with what `candidates` states of this model where the row says nothing: whose it is,
    its family, and what it comes from.

    candidates: rows of that table. A model of the same name and another shape is another model. A
    stack of several, `model:vision`, has the facts of its model.
    """
    name = str(row["model_id"]).partition(":")[0]
    own = candidates[candidates["model_id"] == name]
    if own.empty or any(int(own.iloc[0][label]) != int(row[label]) for label in ALIKE):
        return dict(row)
    stated = own.iloc[0]
    filled = {}
    for label in STATED:
        is_lacking = pd.isna(row.get(label)) or row.get(label) == ""
        if is_lacking and pd.notna(stated[label]):
            filled[label] = stated[label]
    return {**row, **filled}


def _guess_heritage(model_id: str, models: pd.DataFrame) -> str:
    organisation = model_id.partition("/")[0] + "/"
    of_organisation = models["model_id"].str.startswith(organisation)
    heritages = set(models.loc[of_organisation, "heritage"]) - {""}
    return heritages.pop() if len(heritages) == 1 and "/" in model_id else ""


QUANTISED = "quantization_config"
LOADED = (
    "AutoModelForCausalLM.from_pretrained(FOLDER, {}).save_pretrained(OTHER) multiplies the "
    "weights out; measure OTHER"
)
STEPS = {
    "fp8": LOADED.format("quantization_config=FineGrainedFP8Config(dequantize=True)"),
    "mxfp4": LOADED.format("quantization_config=Mxfp4Config(dequantize=True)"),
    "compressed-tensors": LOADED.format(
        "quantization_config=CompressedTensorsConfig(run_compressed=False)"
    ),
    "bitsandbytes": "AutoModelForCausalLM.from_pretrained(FOLDER).dequantize()"
    ".save_pretrained(OTHER); measure OTHER",
}
"""Method of transformers → how to have its weights as numbers."""
OTHERWISE = "measure the model that it was made from, or a file of it in GGUF, which is dequantised"


def check_quantised(config: Config, folder: Path) -> None:
    """Raise DataError by the method's name where a configuration states one and the weights are
    stored by it."""
    stated = config.get(QUANTISED) or select_decoder_config(config).get(QUANTISED)
    if not stated:
        return
    try:
        find_stored_dtype(open_checkpoint(folder))
    except DataError as error:
        method = _name_method(stated)
        what = f"the checkpoint is quantised by {method}"
        step = STEPS.get(method, OTHERWISE)
        raise DataError(
            what, where=folder, got=error.got, allowed=error.allowed, next_step=step
        ) from error


def _name_method(stated: Any) -> str:
    """Name of the method in a configuration, of bitsandbytes' two the package's."""
    name = (
        str(stated.get("quant_method") or "an unnamed method")
        if isinstance(stated, Mapping)
        else "an unnamed method"
    )
    return "bitsandbytes" if name.startswith("bitsandbytes") else name


OF_MODEL = ("gains", "outputs", "attention")
"""Quantities for which the model is loaded; `weights` reads its files alone."""


@dataclass(frozen=True)
class Switch:
    """A configuration value of a model type, why it is not supported, and the quantities that it
    takes away."""

    model_type: str
    key: str
    why: str
    lost: tuple[str, ...] = OF_MODEL
    harmless: tuple[object, ...] = (None, False, 0)


SWITCHES = (
    Switch(
        "bloom",
        "apply_residual_connection_post_layernorm",
        "the stream goes on from what each norm leaves, so that the writes are not its step",
    ),
    *(
        Switch(
            model_type,
            "conv_kernel_size",
            "a convolution changes the stream between the first and the second block, outside both",
        )
        for model_type in ("deberta", "deberta-v2")
    ),
    Switch(
        "roformer",
        "rotary_value",
        "values are rotated by their position, so that W_V is not what the heads' values are",
        lost=("weights", "attention"),
    ),
)


def find_unsupported(config: Config) -> dict[str, str]:
    """Quantities that a model's configuration takes away, each with the value that does and the
    reason."""
    inner = select_decoder_config(config)
    reasons: dict[str, str] = {}
    for switch in SWITCHES:
        value = inner.get(switch.key)
        if inner.get("model_type") == switch.model_type and value not in switch.harmless:
            why = f"{switch.key}={value} is not supported: {switch.why}"
            reasons |= dict.fromkeys(switch.lost, why)
    if config.get(QUANTISED) or inner.get(QUANTISED):
        why = f"config.json has a {QUANTISED}, but the weights are not quantised"
        reasons |= dict.fromkeys(OF_MODEL, why)
    return reasons


def check_switches(spec: RunSpec, config: Config, folder: Path) -> None:
    """Raise UnsupportedArchitectureError where a quantity of a spec is taken away; the next step is
    what is left.

    Raises DataError where the weights are quantised.
    """
    lost = find_unsupported(config)
    refused = [name for name in spec.what if name in lost]
    if not refused:
        return
    check_quantised(config, folder)
    why = lost[refused[0]]
    left = [name for name in WHAT if name not in lost]
    revision = "" if spec.revision == "main" else spec.revision
    line = write_command("measure", spec.model, revision=revision, what=",".join(left))
    step = f"remove {QUANTISED} from config.json, or {line}" if QUANTISED in why else line
    got = ", ".join(refused)
    allowed = f"{', '.join(left)} can be measured"
    raise UnsupportedArchitectureError(
        why, where=folder.name, got=got, allowed=allowed, next_step=step
    )


MEASURE_VERSION = "3"
"""Changes when the same model and prompts would give other numbers, or more of them; see
`versions.py`."""
SHAPE = ("n_layers", "d_model", "n_heads")
"""Facts that no two models of one name and revision can differ in."""


def check_name(
    folder: ModelFolder, sha: str, runs: pd.DataFrame, stated: pd.DataFrame, row: Mapping[str, Any]
) -> None:
    """Raise UsageError where the tables hold another model by the name of the one in a folder.

    runs: those of this name and revision. stated: its row of `models` in the tables, or none. row:
    what its files say.
    """
    hashes = read_hashes(runs)
    other = runs[(hashes != "") & (hashes != sha)]
    if len(other):
        first = f"run {other['run_id'].iloc[0]} is of {hashes[other.index[0]][:12]}"
        got = f"{first}, this model is {sha[:12]}"
        raise _build_mismatch_error(
            folder, "other weights or another configuration were measured under this name", got
        )
    if not len(stated):
        return
    apart = []
    for label in SHAPE:
        held = stated[label].iloc[0]
        if int(held) != int(row[label]):
            apart.append(f"{label} {held} in the tables, {row[label]} here")
    if apart:
        raise _build_mismatch_error(
            folder, "the tables hold another model by this name", ", ".join(apart)
        )


def check_only_name(folder: ModelFolder, sha: str, runs: pd.DataFrame) -> None:
    """Raise UsageError where the tables hold the weights of a folder under another name alone, as
    one model under two names would count as two.

    runs: of the spec's source.
    """
    hashes = read_hashes(runs)
    there = runs.loc[hashes == sha, "model_id"]
    whole = []
    for name in (folder.model_id, *there):
        whole.append(name.partition(":")[0])
    own, *names = whole  # without the stack, of a model of several
    if not names or own in names:
        return
    other = names[0]
    step = (
        f"{_write_name(other)} where it is that model, whose runs then stand; {_write_name(own)} "
        f"where it shall count as another (name= in Python)"
    )
    what = "the tables hold the same weights under another name, and two names count as two models"
    raise UsageError(
        what,
        where=f"{folder.model_id}, {folder.path}",
        got=other,
        next_step=step,
        options=("--set", f"name={other}"),
    )


def _write_name(name: str) -> str:
    """The option that measures a model under a name, for a shell."""
    return shlex.join(("--set", f"name={name}"))


def _build_mismatch_error(folder: ModelFolder, what: str, got: str) -> UsageError:
    label = f"{folder.model_id} @ {folder.revision}"
    name = f"{folder.path.parent.name}/{folder.path.name}"
    step = (
        f"{_write_name(name)} measures it as a model of its own (name= in Python), --revision as "
        f"another state of it"
    )
    options = ("--set", f"name={name}")
    if folder.commit:
        step = f"--revision {folder.commit} measures it as that state of the model"
        options = ("--revision", folder.commit)
    return UsageError(
        what, where=f"{label}, {folder.path}", got=got, next_step=step, options=options
    )


def resolve_run(
    run: Mapping[str, Any], folder: ModelFolder, runs: pd.DataFrame, older: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The run of the tables that measured what a new run would, else the new one; and the runs that
    `older` confirms.

    runs: those of the model's name and revision. A run of an older version stands where it states
    the model's hash or commit, or is confirmed to be of it, unless `older` says that it is measured
    again.

    Raises UsageError where there are runs of another commit, or runs without a hash and `older`
    does not say whether they are of this model.
    """
    wanted = pd.Series({label: run[label] for label in LIKE})
    alike = runs[(runs[LIKE] == wanted).all(axis=1)]
    if run["run_id"] in set(alike["run_id"]) or older == AGAIN or alike.empty:
        return dict(run), ()
    stated = alike["versions"].str.extract(r"(?:^|\s)commit=(\S+)", expand=False).fillna("")
    of_commit = (stated == folder.commit) & (stated != "")
    is_hashed = alike["model_sha"] == run["model_sha"]
    is_confirmed = alike["confirmed_sha"] == run["model_sha"]
    ours = is_hashed | is_confirmed | of_commit
    if folder.commit and not ours.any() and (stated != "").all():
        first = f"run {alike['run_id'].iloc[0]} is of commit {stated.iloc[0]}"
        got = f"{first}, this model is {folder.commit}"
        raise _build_mismatch_error(folder, "another commit was measured under this revision", got)
    if not ours.any() and older != SAME:
        names = ", ".join(alike["run_id"])
        where = f"{folder.model_id} @ {folder.revision}, {folder.path}"
        other_name = f"{folder.path.parent.name}/{folder.path.name}"
        raise UsageError(
            "runs of this name are older than the hash of a model's weights, which would say "
            "whether they are of it",
            where=where,
            got=names,
            next_step="--set older=same keeps them as of these weights (older='same' in Python), "
            "--set older=again "
            f"measures again; if they are of another model, --set name={other_name}",
        )
    chosen = alike[ours] if ours.any() else alike
    measured_by = pd.to_numeric(chosen["measure_version"], errors="coerce").fillna(0)
    newest = chosen.loc[measured_by.idxmax()]
    confirmed = () if ours.any() else tuple(chosen["run_id"])
    return {str(label): value for label, value in newest.items()}, confirmed
