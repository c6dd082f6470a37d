"""A model in GGUF as a model's folder: every tensor dequantised to float32 once and kept in a
cache.

GGUF is llama.cpp's format: metadata, a tokenizer and tensors in blocks of integers with scales. The
package gguf dequantises, transformers knows what each tensor is called in its own classes. Next to
the weights the folder has `gguf.json`: the files it was made from, the scheme, what every tensor
was stored as, and whether the head is a copy of the embedding.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from thermostats.errors import (
    DataError,
    ThermostatsError,
    UsageError,
    build_install_error,
    take_first_line,
)
from thermostats.measurement.checkpoint import (
    ORIGINAL,
    SINGLE,
    list_load_errors,
    list_ropes,
    read_geometry,
)
from thermostats.measurement.gguf_defaults import LEFT_OUT, NEEDED
from thermostats.measurement.gguf_parts import SUFFIX, list_parts, name_gguf_model
from thermostats.measurement.gguf_tokenizers import check_tokenizer
from thermostats.measurement.lookup import lookup
from thermostats.measurement.model_class import Architecture, Config
from thermostats.tables.folders import hold_folder
from thermostats.tables.store import cache_folder

HARMLESS = (
    *("vocab_size", "embedding_length", "feed_forward_length", "expert_count"),
    *("expert_feed_forward_length", "expert_shared_feed_forward_length", "ssm.inner_size"),
    *("context_length", "rope.scaling.finetuned", "decoder_start_token_id"),
    *("pooling_type", "classifier.output_labels", "dense_2_feat_in", "dense_2_feat_out"),
)
"""Keys of an architecture that need not be read: widths, which the shapes of the tensors state once
more and are held against; how far a model was trained; how its output begins; what follows the last
block."""
ROUNDED = 1e-6
"""Largest relative difference of a number that GGUF stores in 32 bits."""
AHEAD = "nextn_predict_layers"
"""Key of how many of the blocks predict tokens further ahead; they are counted among the others and
not loaded."""
DATA_LAYOUT = "Meta AI original pth"
"""Order of query and key rows that the loader undoes."""
GATES = {1: "softmax", 2: "sigmoid"}
"""How GGUF numbers what makes weights of a router's scores."""


@dataclass(frozen=True)
class Converted:
    """What transformers made of a file: the entry of its class and its configuration."""

    entry: Architecture
    config: Config

    def find_first(self, *names: str) -> Any:
        """The first of some values that the configuration states; None: it states none of them."""
        return _find_first(self.config, names)

    def find_rope(self, *names: str, kind: str = "full_attention") -> Any:
        """The same of its rotary embedding, of that for a kind of block where they differ."""
        stated: Config = self.find_first("rope_parameters", "rope_scaling") or {}
        of_kind = stated.get(kind)
        rope: Config = of_kind if isinstance(of_kind, Mapping) else list_ropes(self.config)[0]
        return _find_first(rope, names)


def _find_first(config: Config, names: Sequence[str]) -> Any:
    """The first of some values that a configuration states; None: it states none of them."""
    for name in names:
        if config.get(name) is not None:
            return config[name]
    return None


def _read_rope_type(made: Converted) -> str:
    kind = made.find_rope("rope_type", "type")
    return "none" if kind in (None, "default") else str(kind)


def _count_rotated(made: Converted) -> int:
    share = (
        made.find_rope("partial_rotary_factor")
        or made.find_first("partial_rotary_factor", "rotary_pct")
        or 1.0
    )
    return round(read_geometry(made.entry, made.config).d_head * share)


def _scale(made: Converted) -> float:
    width = (
        made.find_first("query_pre_attn_scalar") or read_geometry(made.entry, made.config).d_head
    )
    return 1 / math.sqrt(width)


def _list_windows(made: Converted) -> list[bool]:
    return [kind == "sliding_attention" for kind in made.find_first("layer_types") or ()]


def _count_blocks(made: Converted) -> int:
    return read_geometry(made.entry, made.config).n_layers


HELD: dict[str, Callable[[Converted], Any]] = {
    "block_count": _count_blocks,
    "attention.head_count": lambda made: read_geometry(made.entry, made.config).n_heads,
    "attention.head_count_kv": lambda made: read_geometry(made.entry, made.config).n_kv_heads,
    "attention.key_length": lambda made: read_geometry(made.entry, made.config).d_head,
    "attention.value_length": lambda made: read_geometry(made.entry, made.config).d_head,
    "attention.layer_norm_rms_epsilon": lambda made: made.find_first(
        "rms_norm_eps", "layer_norm_epsilon", "norm_eps"
    ),
    "attention.layer_norm_epsilon": lambda made: made.find_first(
        "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"
    ),
    "attention.causal": lambda made: made.entry.causal,
    "attention.scale": _scale,
    "attention.sliding_window": lambda made: made.find_first("sliding_window"),
    "attention.sliding_window_pattern": _list_windows,
    "attention.relative_buckets_count": lambda made: made.find_first(
        "relative_attention_num_buckets"
    ),
    "attn_logit_softcapping": lambda made: made.find_first("attn_logit_softcapping"),
    "final_logit_softcapping": lambda made: made.find_first("final_logit_softcapping"),
    "rope.dimension_count": _count_rotated,
    "rope.dimension_sections": lambda made: made.find_rope("mrope_section"),
    "rope.freq_base": lambda made: made.find_rope("rope_theta"),
    "rope.freq_base_swa": lambda made: made.find_rope("rope_theta", kind="sliding_attention"),
    "rope.scaling.type": _read_rope_type,
    "rope.scaling.factor": lambda made: made.find_rope("factor") or 1.0,
    "rope.scaling.attn_factor": lambda made: made.find_rope("attention_factor") or 1.0,
    "rope.scaling.original_context_length": lambda made: (
        made.find_rope(ORIGINAL) or made.find_first(ORIGINAL, "max_position_embeddings")
    ),
    "use_parallel_residual": lambda made: made.find_first("use_parallel_residual"),
    "tensor_data_layout": lambda made: (
        DATA_LAYOUT if made.entry.model_type in ("llama", "mistral") else None
    ),
    "expert_used_count": lambda made: made.find_first("num_experts_per_tok"),
    "expert_weights_norm": lambda made: made.find_first("norm_topk_prob"),
    "expert_weights_scale": lambda made: made.find_first("routed_scaling_factor"),
    "expert_gating_func": lambda made: {name: n for n, name in GATES.items()}.get(
        made.find_first("scoring_func")
    ),
    "full_attention_interval": lambda made: made.find_first("full_attention_interval"),
    "shortconv.l_cache": lambda made: made.find_first("conv_L_cache"),
    "ssm.conv_kernel": lambda made: made.find_first("conv_kernel", "linear_conv_kernel_dim"),
    "ssm.state_size": lambda made: made.find_first("state_size", "linear_key_head_dim"),
    "ssm.time_step_rank": lambda made: made.find_first("time_step_rank", "linear_num_value_heads"),
    "ssm.group_count": lambda made: made.find_first("linear_num_key_heads"),
    "ssm.dt_b_c_rms": lambda made: made.entry.model_type == "falcon_mamba",
}
"""Key of an architecture → its value by the configuration that transformers made."""


def check_metadata(stated: Mapping[str, Any], made: Converted, file: Path) -> None:
    """Raise UsageError by name for keys of the architecture that transformers did not read, or
    takes for something else than llama.cpp where the file leaves them out.

    stated: what the file holds, by the key's whole name.
    """
    architecture = str(stated.get("general.architecture"))
    start = f"{architecture}."
    keys = {}
    for name, value in stated.items():
        if name.startswith(start):
            keys[name.removeprefix(start)] = value
    if keys.get("block_count", 0) - keys.get(AHEAD, 0) == _count_blocks(made):
        keys.pop(AHEAD, None)
        keys["block_count"] = _count_blocks(made)
    passed_over = []
    for key, value in keys.items():
        is_held = key in HELD and match_value(value, HELD[key](made))
        if key not in HARMLESS and not is_held:
            passed_over.append(f"{start}{key} = {str(value)[:40]}")
    passed_over += [f"no {start}{words}" for words in _list_left_out(architecture, keys, made)]
    if passed_over:
        raise UsageError(
            "transformers would compute another model than the file describes: it does not read "
            "all of its metadata",
            where=file,
            got="; ".join(passed_over),
            next_step="measure the model in safetensors instead, whose config.json states them",
        )


def _list_left_out(architecture: str, keys: Mapping[str, Any], made: Converted) -> list[str]:
    """Keys that a file lacks and transformers fills in otherwise than llama.cpp, with its value."""
    has_rope = made.find_rope("rope_theta") is not None
    found = []
    for key, find_default in LEFT_OUT.items():
        if key in keys or (key.startswith("rope.") and not has_rope):
            continue
        meant = find_default(architecture, keys)
        if meant is None:
            continue
        here = HELD[key](made)
        if here not in (None, []) and not match_value(meant, here):
            found.append(f"{key}, which stands for {meant} and not for {here}")
    n_heads = read_geometry(made.entry, made.config).n_heads
    has = {
        "*": True,
        "attention": bool(n_heads),
        "experts": bool(made.find_first("num_experts_per_tok")),
        "scores": made.find_first("scoring_func") is not None,
    }
    for names, kind in NEEDED.items():
        if has[kind] and not any(name in keys for name in names):
            found.append(f"{names[0]}, which llama.cpp needs")
    return found


def match_value(value: Any, made: Any) -> bool:
    """Whether a value of a file is the one that was made of it: a number to rounding; of one number
    a block those that are not 0, as a block without attention has no heads."""
    if isinstance(value, list) and isinstance(made, list):
        return [each for each in value if each or isinstance(each, bool)] == made
    if isinstance(value, list):
        return all(match_value(each, made) for each in value if each)
    if isinstance(value, (int, float)) and isinstance(made, (int, float)):
        return math.isclose(value, made, rel_tol=ROUNDED)
    return bool(value == made)


RECORD = "gguf.json"
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
"""What GGUF calls the embedding of tokens and the unembedding."""
COPIED = 0.5
"""‖U − E‖/‖E‖ below which a head U stored apart from the embedding E is a copy of it, rounded
otherwise: rounding to 2 bits moves a matrix by less than that; two matrices that were trained apart
lie about √2 apart."""
VOCABULARY = tuple(
    f"tokenizer.ggml.{name}" for name in ("tokens", "scores", "token_type", "merges")
)
"""Metadata that are as long as a vocabulary."""
UNROUNDED = ("F32", "F16", "BF16")
"""Schemes that are precisions, no quantisation."""
ROWS = 4096
"""Most rows of the two that are compared."""


def prepare_gguf_folder(path: Path, cache: Path | None = None) -> Path:
    """Folder of the model in a GGUF file or in all parts of one, made at the first call and found
    again later.

    cache: folder to keep it in; by default the package's cache.

    Raises UsageError where the package gguf is not installed, the model's class is not measured or
    the metadata describe another model than transformers would compute; DataError where a part is
    missing, files are cut off, of another model or damaged, a tensor is stored by a scheme that
    cannot be read, or the tokenizer is another one.
    """
    files = list_parts(path)
    place = cache or cache_folder()
    if place is None:
        step = "unset THERMOSTATS_CACHE, or set it to a folder with room for the model in float32"
        raise UsageError(
            "a GGUF model is kept in the cache, which is switched off", where=path, next_step=step
        )
    states = []
    for file in files:
        status = file.stat()
        states.append((file, status.st_size, status.st_mtime_ns))
    digest = _hash_files(tuple(states))
    name = f"{name_gguf_model(files[0])}-{digest[:12]}-{version('transformers')}"
    folder = place / "gguf" / name
    with hold_folder(folder.parent):
        if not (folder / RECORD).is_file():
            _make(files, digest, folder)
    return folder


def record(folder: Path) -> dict[str, Any]:
    """What a folder made of GGUF says of itself, `scheme`, `head`, `licence` and `types` by tensor;
    else nothing."""
    path = folder / RECORD
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


@lru_cache(maxsize=8)
def _hash_files(files: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, _size, _changed in files:
        with file.open("rb") as stream:
            for chunk in iter(lambda: stream.read(2**24), b""):
                digest.update(chunk)
    return digest.hexdigest()


def _make(files: Sequence[Path], digest: str, folder: Path) -> None:
    """Write the folder next to its place, and move it there once it is complete."""
    try:
        import gguf  # noqa: F401, PLC0415
    except ImportError as error:
        raise build_install_error(error, "reading GGUF needs the package gguf") from error
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as temporary:
        made = Path(temporary) / "model"
        joined = Path(temporary) / f"joined{SUFFIX}"
        file = files[0] if len(files) == 1 else _join_files(files, joined)
        facts = _convert(file, files[0], made)
        facts = {"files": [each.name for each in files], "sha256": digest, **facts}
        (made / RECORD).write_text(json.dumps(facts, indent=1, sort_keys=True), encoding="utf-8")
        shutil.move(made, folder)


def _join_files(files: Sequence[Path], target: Path) -> Path:
    """Pieces put one behind the other, or the parts of a split as one GGUF file."""
    with files[1].open("rb") as stream:
        split = stream.read(4) == b"GGUF"
    if not split:
        with target.open("wb") as out:
            for file in files:
                with file.open("rb") as stream:
                    shutil.copyfileobj(stream, out, 2**24)
        return target
    readers = [_open_reader(file) for file in files]
    _check_parts(files, readers)
    _merge(readers, target)
    return target


def _open_reader(file: Path) -> Any:
    """gguf's reader of a file, whose header it holds against the file's length."""
    import gguf  # noqa: PLC0415

    try:
        return gguf.GGUFReader(file)
    except ValueError as error:
        if "GGMLQuantizationType" in str(error):
            what = "a tensor is stored by a scheme that is not known"
            step = "pip install --upgrade gguf, or use a file of another quantisation, such as Q8_0"
            raise DataError(what, where=file, got=take_first_line(error), next_step=step) from error
        raise _build_damage_error(file, error) from error
    except (
        IndexError,
        KeyError,
        OverflowError,
        UnicodeDecodeError,
        MemoryError,
        TypeError,
        OSError,
    ) as error:
        raise _build_damage_error(file, error) from error


def _build_damage_error(file: Path, error: Exception) -> DataError:
    what = "the GGUF file is cut off or damaged"
    step = "download the file again, and compare its length with the original's"
    got = f"{file.stat().st_size} bytes; {take_first_line(error)}"
    return DataError(what, where=file, got=got, next_step=step)


def _read_value(reader: Any, name: str) -> Any:
    field = reader.get_field(name)
    return None if field is None else field.contents()


def _read_metadata(reader: Any) -> dict[str, Any]:
    """What a file states, but for the vocabulary of its tokenizer."""
    metadata: dict[str, Any] = {}
    for name, field in reader.fields.items():
        if not name.endswith(VOCABULARY):
            metadata[name] = field.contents()
    return metadata


def _check_parts(files: Sequence[Path], readers: Sequence[Any]) -> None:
    """Raise DataError where parts of a split are not those of one model, in order."""
    stated = [_read_value(reader, "split.no") for reader in readers]
    if stated != list(range(len(files))):
        place = next(i for i, number in enumerate(stated) if number != i)
        got = f"it says that it is part {'none' if stated[place] is None else stated[place] + 1}"
        step = "name the parts as they were when the file was split"
        raise DataError(
            "the parts of the GGUF model are not in order",
            where=files[place],
            got=got,
            allowed=f"part {place + 1}",
            next_step=step,
        )
    step = "put the parts of one model into a folder of their own"
    names = [tensor.name for reader in readers for tensor in reader.tensors]
    total = _read_value(readers[0], "split.tensors.count")
    counts = {
        (_read_value(reader, "split.count"), _read_value(reader, "split.tensors.count"))
        for reader in readers
    }
    if (
        len(counts) > 1
        or len(names) != len(set(names))
        or (total is not None and total != len(names))
    ):
        got = f"{len(names)} tensors, {len(set(names))} of them by different names"
        what = "the parts are of two models"
        raise DataError(
            what, where=files[0].parent, got=got, allowed=f"{total} tensors", next_step=step
        )


def _merge(readers: Sequence[Any], target: Path) -> None:
    """The first part's metadata and every part's tensors in one file, each tensor as it is
    stored."""
    import gguf  # noqa: PLC0415

    writer = gguf.GGUFWriter(target, str(_read_value(readers[0], "general.architecture")))
    for name, field in readers[0].fields.items():
        if name == "general.architecture" or name.startswith(("GGUF.", "split.")):
            continue
        inner = None
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            inner = field.types[-1]
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    tensors = [tensor for reader in readers for tensor in reader.tensors]
    for tensor in tensors:
        data = tensor.data
        writer.add_tensor_info(tensor.name, data.shape, data.dtype, data.nbytes, tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in tensors:
        writer.write_tensor_data(tensor.data)
    writer.close()


def _convert(file: Path, named: Path, folder: Path) -> dict[str, Any]:
    """Write a GGUF file as a model's folder in float32; what it was stored as. `named`: the file in
    messages."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415
    from safetensors.torch import save_file  # noqa: PLC0415

    reader = _open_reader(file)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    _check_schemes(tensors, named)
    where: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    try:
        config = transformers.AutoConfig.from_pretrained(file.parent, **where)
    except list_load_errors() as error:
        what = "transformers does not read this model from GGUF"
        step = "measure the model in safetensors instead"
        raise UsageError(what, where=named, got=take_first_line(error), next_step=step) from error
    entry = lookup(config.to_dict())
    stated = _read_metadata(reader)
    check_metadata(stated, Converted(entry, config.to_dict()), named)
    apart = _measure_tie_distance(tensors)
    if apart is not None and apart < COPIED:
        config.tie_word_embeddings = True
    auto: Any = getattr(transformers, entry.loader)
    try:
        model, info = auto.from_pretrained(
            file.parent, config=config, dtype=torch.float32, output_loading_info=True, **where
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, **where)
    except list_load_errors() as error:
        what = "transformers cannot load the model from GGUF"
        step = "measure the model in safetensors instead"
        raise DataError(what, where=named, got=take_first_line(error), next_step=step) from error
    check_tokenizer(stated, tokenizer, named)
    names = _map_names(model, config, str(_read_value(reader, "general.architecture")))
    _check_all(tensors, names, info, named, tied=bool(config.tie_word_embeddings))
    folder.mkdir()
    copies = (
        set(entry.list_tensor_names(entry.unembedding[0])) if config.tie_word_embeddings else set()
    )
    weights = {}
    for name, weight in model.state_dict().items():
        if name not in copies:
            weights[name] = weight
    save_file(weights, folder / SINGLE, metadata={"format": "pt"})
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    types = {}
    for name, tensor in tensors.items():
        types[names.get(name, name)] = tensor.tensor_type.name
    head = (
        "own"
        if not config.tie_word_embeddings
        else "tied"
        if apart is None
        else "tied, stored twice"
    )
    licence = str(_read_value(reader, "general.license") or "")
    return {"scheme": _name_scheme(reader, types), "head": head, "licence": licence, "types": types}


def _check_schemes(tensors: Mapping[str, Any], file: Path) -> None:
    import gguf  # noqa: PLC0415

    for kind, tensor in {tensor.tensor_type: tensor for tensor in tensors.values()}.items():
        try:
            row = tensor.data.reshape(-1, tensor.data.shape[-1])[:1]
            gguf.dequantize(row, kind)
        except NotImplementedError as error:
            what = "a tensor is stored by a scheme that cannot be dequantised"
            step = "use a file of another quantisation, such as Q8_0"
            raise DataError(
                what, where=file, got=f"{kind.name} for {tensor.name}", next_step=step
            ) from error


def _measure_tie_distance(tensors: Mapping[str, Any]) -> float | None:
    """‖U − E‖/‖E‖ of the embedding E and the head U, over rows spread evenly; None where there is
    no head."""
    import gguf  # noqa: PLC0415

    if not {EMBEDDING, HEAD} <= tensors.keys():
        return None
    both = [tensors[name] for name in (EMBEDDING, HEAD)]
    if list(both[0].shape) != list(both[1].shape):
        return float("inf")
    step = max(1, len(both[0].data) // ROWS)
    dense = []
    for each in both:
        rows = np.ascontiguousarray(each.data[::step])
        dense.append(gguf.dequantize(rows, each.tensor_type))
    E, U = dense
    return float(np.linalg.norm(U - E) / np.linalg.norm(E))


def _map_names(model: Any, config: Any, architecture: str) -> dict[str, str]:
    """Name in GGUF → name in transformers' class."""
    from transformers import modeling_gguf_pytorch_utils as reading  # noqa: PLC0415

    library: Any = reading  # it has no types
    processor = library.TENSOR_PROCESSORS.get(architecture, library.TensorProcessor)(
        config=config.to_dict()
    )
    return dict(library.get_gguf_hf_weights_map(model, processor))


def _check_all(
    tensors: Mapping[str, Any],
    names: Mapping[str, str],
    info: Mapping[str, Any],
    file: Path,
    *,
    tied: bool,
) -> None:
    """Raise ThermostatsError where the file has a tensor that the model lacks, or the model a
    weight that it lacks."""
    known = {*names, HEAD} if tied else set(names)
    unread = sorted(set(tensors) - known)
    missing = sorted(info["missing_keys"])
    if unread or missing or info["mismatched_keys"]:
        lists = {
            "that transformers does not read": unread,
            "missing": missing,
            "of another shape": info["mismatched_keys"],
        }
        said = []
        for what, each in lists.items():
            if each:
                said.append(f"{len(each)} {what} ({next(iter(each))}, …)")
        got = ", ".join(said)
        what = "transformers would read another model than the file holds"
        step = "measure the model in safetensors instead, or try another release of transformers"
        raise ThermostatsError(what, where=file, got=f"tensors {got}", next_step=step)


def _name_scheme(reader: Any, types: Mapping[str, str]) -> str:
    """Name of the quantisation, such as Q4_K_M: as the file says, else what most of its matrices
    are stored as."""
    import gguf  # noqa: PLC0415

    number = _read_value(reader, "general.file_type")
    try:
        return str(gguf.LlamaFileType(number).name).removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        kinds = [kind for kind in types.values() if kind != "F32"] or ["F32"]
        return max(sorted(set(kinds)), key=kinds.count)
