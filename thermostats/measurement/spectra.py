"""Spectra of W_V, W_O, the OV circuit and the embeddings, from a model's folder: no torch, no model
in memory.

One matrix at a time is mapped and decoded (bfloat16 and float16 to float32); what is kept of a
layer are the Gram matrices of its heads, d_h × d_h each.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from logging import ERROR
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import DataError, ThermostatsError, describe_file_error, take_first_line
from thermostats.measurement.checkpoint import (
    StoredTensor,
    align_matrices,
    decode,
    find_value_runs,
    has_same_bits,
    list_load_errors,
    list_weight_files,
    map_query_heads,
    open_checkpoint,
    read_geometry,
    take_published_thirds,
)
from thermostats.measurement.gguf_files import record
from thermostats.measurement.lookup import (
    HEADLESS,
    lookup,
    select_decoder_config,
    select_layer_config,
    select_stack_config,
)
from thermostats.measurement.model_class import Architecture, Config
from thermostats.measurement.readings import AsRead, build_balanced_pair, describe_reading
from thermostats.tables.folders import CONFIG, read_bytes
from thermostats.tables.store import cache_folder, warn_unkept, write_cache

Matrix = NDArray[Any]
TOLERANCE = 5e-7
"""Bound on the relative error of a spectral norm that is accepted."""
BLOCK_BYTES = 1 << 19
RESIDENT_BYTES = 80_000_000
SMALL = 64
"""Shorter side up to which the Gram matrix is diagonalised at once."""
RESTARTS = 30


@dataclass(frozen=True)
class Norms:
    """Spectral and Frobenius norm of a matrix.

    `bound` is the relative error that the residual of the singular vector allows, 0 where the
    matrix was diagonalised.
    """

    spectral: float
    frobenius: float
    bound: float = 0.0

    @property
    def stable_rank(self) -> float:
        """‖W‖_F² / σ_max², between 1 and the rank; NaN for a zero matrix."""
        return (self.frobenius / self.spectral) ** 2 if self.spectral > 0 else float("nan")


def measure_norms(stored: Matrix, *, seed: int = 0) -> Norms:
    """σ_max(W) and ‖W‖_F of a matrix (m × n), as stored (bfloat16 as 16-bit words), in row blocks.

    The two largest eigenvalues θ = σ² of WᵀW by the implicitly restarted Lanczos method (ARPACK),
    one pass over the rows a product, in the weights' own precision (float32 for halves). A Ritz
    value only bounds λ_max from below, so it is accepted when the residual r = ‖WᵀW v − θ v‖,
    computed from the weights in float64, makes min(r, 2 r²/gap) / (2θ) ≤ `TOLERANCE`; the Rayleigh
    quotient in float64 is what is returned, so that the error of the vector enters squared. Two
    values are asked for, from a random start, lest close values or a start without the first
    singular vector hide σ_max behind σ_2. Where the bound is not reached, and for a short side up
    to `SMALL`, the Gram matrix of the shorter side is diagonalised in float64 instead.

    Both norms are NaN where a weight is not finite.
    """
    matrix = _choose_row_order(load_resident(stored))
    frobenius = _measure_frobenius(matrix)
    if not np.isfinite(frobenius):
        return Norms(float("nan"), float("nan"))
    if frobenius == 0:
        return Norms(0.0, 0.0)
    iterated = _estimate_spectral_norm(matrix, seed) if min(matrix.shape) > SMALL else None
    if iterated is None:
        return Norms(_solve_dense(matrix), frobenius)
    return Norms(iterated[0], frobenius, iterated[1])


def iterate_row_blocks(matrix: Matrix) -> Iterator[tuple[slice, Matrix]]:
    """Row slices of a stored matrix with their numbers as float32 or float64; what is too large is
    let go again."""
    rows = _count_block_rows(matrix)
    for first in range(0, matrix.shape[0], rows):
        part = slice(first, min(first + rows, matrix.shape[0]))
        yield part, decode(matrix[part])
        if matrix.size * 4 > RESIDENT_BYTES and first // rows % 16 == 15:
            release(matrix)


def _count_block_rows(matrix: Matrix) -> int:
    return max(1, int(BLOCK_BYTES // max(1, 4 * matrix.shape[1])))


def load_resident(stored: Matrix) -> Matrix:
    """The matrix decoded at once, its rows one after the other, if it fits in `RESIDENT_BYTES`,
    else as stored."""
    by_row = _choose_row_order(stored)
    plain = stored.dtype in (np.float32, np.float64)
    if (plain and by_row.flags.c_contiguous) or stored.size * max(
        4, stored.itemsize
    ) > RESIDENT_BYTES:
        return stored
    decoded = np.empty(by_row.shape, stored.dtype if plain else np.float32)
    for part, block in iterate_row_blocks(by_row):
        decoded[part] = block
    release(stored)
    return decoded if by_row is stored else decoded.T


def _choose_row_order(matrix: Matrix) -> Matrix:
    """The matrix, or its transpose where that is what lies row by row."""
    return matrix.T if matrix.strides[0] < matrix.strides[1] else matrix


def release(matrix: Matrix) -> None:
    """Give the pages of a mapped file back; they are read again when needed."""
    base: Any = matrix
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _measure_frobenius(matrix: Matrix) -> float:
    total = 0.0
    for _, block in iterate_row_blocks(matrix):
        total += float(np.vecdot(block, block).sum(dtype=np.float64))
    return float(np.sqrt(total))


def _estimate_spectral_norm(matrix: Matrix, seed: int) -> tuple[float, float] | None:
    """σ_max and the bound on its relative error; None where `TOLERANCE` is not reached."""
    n = matrix.shape[1]
    dtype: type[np.floating[Any]] = np.float32
    if matrix.dtype == np.float64:
        dtype = np.float64
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh  # noqa: PLC0415

    held = _hold_blocks(matrix)

    def apply(x: Matrix) -> Matrix:
        return _apply_gram(held or iterate_row_blocks(matrix), x.ravel())

    gram = LinearOperator((n, n), matvec=apply, dtype=dtype)
    start = _start(n, seed).astype(dtype)
    try:
        values, vectors = eigsh(gram, k=2, which="LA", v0=start, maxiter=RESTARTS, tol=TOLERANCE)
    except ArpackNoConvergence:
        return None
    gap = float(values[-1] - values[0])
    sigma, bound = _verify_vector(matrix, vectors[:, -1], gap)
    return (sigma, bound) if bound <= TOLERANCE else None


@lru_cache(maxsize=8)
def _start(n: int, seed: int) -> Matrix:
    """A random vector of n normal numbers."""
    return np.random.default_rng(seed).standard_normal(n)


def _hold_blocks(matrix: Matrix) -> list[tuple[slice, Matrix]]:
    """Row blocks of a matrix that lies decoded in memory, for as many passes as there are; none of
    another, whose blocks are decoded and let go in each."""
    is_decoded = matrix.dtype in (np.float32, np.float64)
    is_small = matrix.size * matrix.itemsize <= RESIDENT_BYTES
    return list(iterate_row_blocks(matrix)) if is_decoded and is_small else []


def _apply_gram(blocks: Iterable[tuple[slice, Matrix]], vector: Matrix) -> Matrix:
    """WᵀW v in one pass over the rows of a matrix."""
    product: Matrix = np.zeros_like(vector)
    for _, block in blocks:
        product += (block @ vector) @ block
    return product


def _find_error_bound(theta: float, residual: float, gap: float) -> float:
    """Relative error of σ = √θ: |λ − θ| ≤ r, and ≤ r²/gap (Kato–Temple) with half the gap that the
    Ritz values show."""
    if theta <= 0:
        return float("inf")
    quadratic = 2 * residual**2 / gap if gap > 0 else float("inf")
    return min(residual, quadratic) / (2 * theta)


def _verify_vector(matrix: Matrix, vector: Matrix, gap: float) -> tuple[float, float]:
    """Rayleigh quotient of `vector` and the bound on its error, from the weights in float64."""
    x: Matrix = vector.astype(np.float64)
    x /= np.linalg.norm(x)
    theta = 0.0
    gram: Matrix = np.zeros_like(x)
    rows = (_count_block_rows(matrix) + 1) // 2
    buffer: Matrix = np.empty((rows, x.size))
    for _, block in iterate_row_blocks(matrix):
        for half in (block[:rows], block[rows:]):
            wide = buffer[: half.shape[0]]
            np.copyto(wide, half)
            product = wide @ x
            theta += float(product @ product)
            gram += product @ wide
    residual = float(np.linalg.norm(gram - theta * x))
    return float(np.sqrt(theta)), _find_error_bound(theta, residual, gap)


def _solve_dense(matrix: Matrix) -> float:
    """σ_max from the Gram matrix of the shorter side, accumulated in float64."""
    from scipy.linalg import eigh  # noqa: PLC0415

    rows = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    gram: Matrix = np.zeros((rows.shape[1], rows.shape[1]))
    for _, block in iterate_row_blocks(rows):
        wide = block.astype(np.float64)
        gram += wide.T @ wide
    last = gram.shape[0] - 1
    largest = eigh(
        gram, eigvals_only=True, subset_by_index=[last, last], driver="evx", overwrite_a=True
    )[0]
    return float(np.sqrt(max(0.0, largest)))


Tensors = Mapping[str, StoredTensor]
Row = dict[str, object]
MEASURES = ["spectral_norm", "frobenius_norm", "stable_rank", "ov_read_norm", "balanced_norm"]
COLUMNS = ["layer", "matrix", "head", *MEASURES, "missing"]
WITHOUT_HEAD = re.compile(
    r"(For(Sequence|Token|Text)\w*(Classification|Regression)|ForQuestionAnswering|Reward\w*|(?<!LMHead)(?<!DoubleHeads)Model)$"
)
"""How classes of decoders without a head of next tokens are called: embedding, reward and
classifying models."""
NOT_FINITE = "weights are not finite"
ZERO = "all weights are zero: no stable rank"


def measure_weights(folder: Path, *, reads: str = "text") -> pd.DataFrame:
    """Table `weights`, without run_id, of the model in a folder with config.json and its
    weights.

    Per layer W_V (K·d_h × d) and W_O (d × H·d_h) whole, per query head h W_V^h, W_O^h and the OV
    circuit W_O^h W_V^h, and W_V_published_thirds, W_V as the study cut it out of a fused matrix;
    layer 0 has the embedding of tokens and, with a head, the unembedding, equal where they are
    tied. Layers that share their weights have the rows of the first alone; blocks without attention
    have none. `reads`: see `read_config`.

    Raises DataError where files are missing, damaged, quantised or disagree with the configuration,
    and UsageError where the architecture is not known.
    """
    config = read_config(folder, reads)
    entry = lookup(config)
    tensors = open_checkpoint(folder)
    rows = build_embedding_rows(entry, config, tensors)
    for layer in range(1, 2 if entry.shared else read_geometry(entry, config).n_layers + 1):
        rows += build_weight_rows(entry, config, tensors, layer)
    types = record(folder).get("types")
    if types:
        for row in rows:
            row["stored_as"] = _name_stored_types(entry, tensors, types, row)
    return pd.DataFrame(rows, columns=[*COLUMNS, "stored_as"] if types else COLUMNS)


def _name_stored_types(
    entry: Architecture, tensors: Tensors, types: Mapping[str, str], row: Row
) -> str:
    """Types that the tensors of a row's matrix had before they were dequantised, see
    `gguf_files`."""
    matrix = str(row["matrix"])
    layer = int(str(row["layer"]))
    if layer == 0:
        head = (
            find_named(tensors, entry.list_tensor_names(entry.unembedding[0]))
            if matrix == "unembedding"
            else None
        )
        stored = [head or find(tensors, entry.list_tensor_names(entry.embedding))]
    else:
        modules_by_matrix = {"W_O": (entry.output,), "OV": (entry.output, entry.value)}
        modules = modules_by_matrix.get(matrix, (entry.value,))
        stored = []
        for module in modules:
            stored.append(find(tensors, entry.list_tensor_names(module, layer - 1)))
    return " ".join(dict.fromkeys(types[tensor.name] for tensor in stored))


def read_config(folder: Path, reads: str = "text") -> Config:
    """The configuration of a model's folder as transformers reads it, defaults of its class and
    old spellings filled in; of several stacks the one that reads ``text`` or ``image``; with
    `HEADLESS` of a decoder without its head.

    No code of the folder runs. A class that transformers does not know has what is stated alone.
    Raises DataError where config.json is missing or damaged.
    """
    config = select_stack_config(_read_filled(folder), reads)
    return {**config, HEADLESS: True} if _is_headless(config, folder) else config


KEPT_SINCE = "0.5"
"""Version since which nothing but filled configurations is kept."""
SHOWN_OF_REASON = 300
"""Characters of what transformers says of a configuration."""


def _read_filled(folder: Path) -> Config:
    """A folder's configuration with its defaults, from the cache where this version of transformers
    filled it in before: its classes load torch."""
    config = stated_config(folder)
    where = folder / "config.json"
    if not isinstance(config.get("model_type"), str):
        return config
    cache = cache_folder()
    if cache is None:
        return _fill_defaults(config, where)
    asked = json.dumps([metadata.version("transformers"), KEPT_SINCE, config], sort_keys=True)
    digest = hashlib.sha256(asked.encode()).hexdigest()[:32]
    path = cache / "configurations" / f"{digest}.json"
    try:
        kept: Config = json.loads(path.read_bytes())
    except (OSError, ValueError):
        filled = _fill_defaults(config, where)
        if why := write_cache(path, json.dumps(filled).encode()):
            warn_unkept(why)
        return filled
    return kept


def _fill_defaults(config: Config, where: Path) -> Config:
    """A configuration with everything that its class in transformers says of it; DataError for
    values that the class refuses, without which no default is known.

    where: the file that it was read from.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    model_type = str(config["model_type"])
    if model_type not in CONFIG_MAPPING:
        return config
    level = logging.get_verbosity()
    logging.set_verbosity(ERROR)
    try:
        plain = json.loads(json.dumps(config), object_hook=_read_float)
        read = CONFIG_MAPPING[model_type].from_dict(plain)
        normal = json.loads(json.dumps(read.to_dict(), default=str))
    except list_load_errors() as error:
        raise build_config_error(where, error) from error
    finally:
        logging.set_verbosity(level)
    return {**config, **normal}


def build_config_error(where: Path, error: BaseException) -> DataError:
    """The error for a configuration whose values its class in transformers refuses.

    where: its file. error: what the class raised.
    """
    return DataError(
        "transformers cannot read the configuration",
        where=where,
        got=take_first_line(error, SHOWN_OF_REASON),
        allowed="values that its class takes",
        next_step="check it against that of the model's page",
    )


def _read_float(entry: dict[str, Any]) -> Any:
    """A number that JSON lacks, as transformers writes it: {"__float__": "Infinity"}."""
    stated = entry.get("__float__")
    return float(stated) if len(entry) == 1 and isinstance(stated, str) else entry


def stated_config(folder: Path) -> Config:
    """What config.json of a model's folder states, without defaults.

    Raises DataError where it is missing or damaged.
    """
    path = folder / "config.json"
    try:
        config = json.loads(read_bytes(path, CONFIG).decode("utf-8"))
    except OSError as error:
        step = "name a folder that holds a model as transformers saves it"
        raise DataError(
            "no configuration", where=path, got=error.strerror or str(error), next_step=step
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(
            "configuration is not readable", where=path, got=str(error)[:200]
        ) from error
    if not isinstance(config, dict):
        raise DataError("configuration is not an object", where=path, got=type(config).__name__)
    return config


def _is_headless(config: Config, folder: Path) -> bool:
    """Whether the class is one without a head of next tokens, and the files hold no such head
    either."""
    classes = config.get("architectures")
    if (
        not isinstance(classes, list)
        or not classes
        or not all(WITHOUT_HEAD.search(str(name)) for name in classes)
    ):
        return False
    try:
        entry = lookup(config)
        tensors = open_checkpoint(folder)
    except ThermostatsError:
        return False  # said by what needs them
    if not entry.has_head:
        return False
    return find_named(tensors, entry.list_tensor_names(entry.unembedding[0])) is None


def build_weight_rows(
    entry: Architecture, config: Config, tensors: Tensors, layer: int, *, heads: bool = True
) -> list[Row]:
    """Rows of one layer (1-based), see `measure_weights`; without `heads` those of W_V and W_O
    whole alone."""
    config = select_layer_config(entry, config, layer - 1)
    g = read_geometry(entry, config)
    if not entry.attends and (
        not entry.value
        or find_named(tensors, entry.list_tensor_names(entry.value, layer - 1)) is None
    ):
        return []  # something else stands in the place of attention
    value = find(tensors, entry.list_tensor_names(entry.value, layer - 1)).read_raw()
    output = find(tensors, entry.list_tensor_names(entry.output, layer - 1)).read_raw()
    fused, stored_o = align_matrices(entry, config, value, output)
    w_v = load_resident(_collect_values(fused, find_value_runs(entry, config)))
    w_o = load_resident(stored_o)
    rows = [_build_row(layer, "W_V", "", measure_norms(w_v))]
    rows.append(_build_row(layer, "W_O", "", measure_norms(w_o)))
    if heads:
        v = w_v.reshape(g.n_kv_heads, g.d_head, -1)
        o = w_o.T.reshape(g.n_heads, g.d_head, -1)
        of_query = map_query_heads(entry, config)
        rows += _build_head_rows(layer, _build_grams(v)[of_query], _build_grams(o))
        _add_read_norms(rows, _describe_reading(entry, config, tensors, layer - 1), v, o, of_query)
    release(w_v)
    release(w_o)
    del w_v, w_o
    if heads and entry.layout != "separate":
        published = measure_norms(take_published_thirds(entry, value))
        rows.append(_build_row(layer, "W_V_published_thirds", "", published))
    return rows


def _describe_reading(entry: Architecture, config: Config, tensors: Tensors, layer: int) -> AsRead:
    """How W_V reads and W_O writes in one block (from 0)."""

    def vector(path: str, kind: str, layer: int = layer) -> NDArray[Any] | None:
        names = (name.removesuffix(".") for name in entry.list_tensor_names(path, layer, kind=kind))
        stored = find_named(tensors, tuple(names))
        return None if stored is None else stored.read_raw()

    norm = entry.attention_norm
    depth = 1 if entry.shared else read_geometry(entry, config).n_layers
    is_normed = (vector(norm, "weight", each) is not None for each in range(depth))
    alone = vector(norm, "weight") is None and any(is_normed)
    return describe_reading(entry, config, vector, normed=bool(norm) and not alone)


def _add_read_norms(
    rows: list[Row], read: AsRead, v: NDArray[Any], o: NDArray[Any], of_query: NDArray[np.int64]
) -> None:
    """Put `ov_read_norm` into the rows of OV and `balanced_norm` into those of W_V and W_O, or why
    there is none."""
    values: dict[tuple[str, str], float] = {}
    if not read.no_balance:
        pair = build_balanced_pair(v, o, of_query, read)
        if not read.no_ov:
            for h, norm in enumerate(pair.ov):
                values["OV", str(h + 1)] = float(norm)
        values["W_V", ""] = measure_norms(pair.w_v).spectral
        values["W_O", ""] = measure_norms(pair.w_o).spectral
    for row in rows:
        is_ov = row["matrix"] == "OV"
        column, why = ("ov_read_norm", read.no_ov) if is_ov else ("balanced_norm", read.no_balance)
        if is_ov or row["head"] == "":
            matrix_and_head = (str(row["matrix"]), str(row["head"]))
            row[column] = values.get(matrix_and_head, np.nan)
            reasons = (str(row["missing"]), f"{why}: {column}" if why else "")
            row["missing"] = "; ".join(filter(None, reasons))


def _collect_values(fused: NDArray[Any], runs: list[slice]) -> NDArray[Any]:
    """W_V as stored: a view where its rows lie together, else gathered, a part of the file mapped
    at a time."""
    if len(runs) == 1:
        return fused[runs[0]]
    n_rows = sum(run.stop - run.start for run in runs)
    gathered = np.empty((n_rows, fused.shape[1]), fused.dtype)
    at = 0
    for run in runs:
        end = at + run.stop - run.start
        gathered[at:end] = fused[run]
        at = end
        if fused.nbytes > RESIDENT_BYTES // 8:
            release(fused)
    return gathered


def build_embedding_rows(entry: Architecture, config: Config, tensors: Tensors) -> list[Row]:
    """Rows of embedding and unembedding; of a tied pair the norms are computed once."""
    by_name: dict[str, Norms] = {}
    for name, stored in _find_embeddings(entry, config, tensors).items():
        by_name[name] = (
            by_name["embedding"] if stored is None else measure_norms(_check_matrix(stored))
        )
    return [_build_row(0, name, "", each) for name, each in by_name.items()]


def _find_embeddings(
    entry: Architecture, config: Config, tensors: Tensors
) -> dict[str, StoredTensor | None]:
    """Embedding of tokens and unembedding, as far as a model has them; None where it is tied to the
    embedding."""
    if entry.reads == "image":
        return {}
    embedding = find_embedding(entry, config, tensors)
    head = {"unembedding": find_unembedding(entry, config, tensors)} if entry.has_head else {}
    return {"embedding": embedding, **head}


OF_LENGTHS: dict[str, Any] = {"mean": np.mean, "sd": np.std, "min": np.min, "max": np.max}


def summarise_embeddings(entry: Architecture, config: Config, tensors: Tensors) -> dict[str, float]:
    """Mean, standard deviation, smallest and largest row norm of embedding and unembedding, by
    name."""
    summaries: dict[str, float] = {}
    for name, stored in _find_embeddings(entry, config, tensors).items():
        if stored is None:
            for of in OF_LENGTHS:
                summaries[f"{name}_row_norm_{of}"] = summaries[f"embedding_row_norm_{of}"]
            continue
        squares = []
        for _, b in iterate_row_blocks(_check_matrix(stored)):
            squares.append(np.einsum("ij,ij->i", b, b).astype(np.float64))
        lengths = np.sqrt(np.concatenate(squares))
        for of, summarise in OF_LENGTHS.items():
            summaries[f"{name}_row_norm_{of}"] = float(summarise(lengths))
    return summaries


def find_embedding(entry: Architecture, config: Config, tensors: Tensors) -> StoredTensor:
    """The tensor of the embedding: that of the unembedding where the two are tied and it alone is
    stored."""
    names = entry.list_tensor_names(entry.embedding)
    stored = find_named(tensors, names)
    if stored is None and entry.has_head and _read_tie(config) is not False:
        stored = find_named(tensors, entry.list_tensor_names(entry.unembedding[0]))
    return find(tensors, names) if stored is None else stored


def find_unembedding(entry: Architecture, config: Config, tensors: Tensors) -> StoredTensor | None:
    """The tensor of the unembedding; None where it is tied to the embedding.

    As transformers decides: one that is stored with other numbers than the embedding's is a matrix
    of its own, whatever the configuration says; with the same numbers, or not stored, it is tied
    unless the configuration denies that.
    """
    names = entry.list_tensor_names(entry.unembedding[0])
    stored = find_named(tensors, names)
    tied = _read_tie(config)
    if tied is False:
        return find(tensors, names)
    if stored is None or has_same_bits(stored, find_embedding(entry, config, tensors)):
        return None
    return stored


def has_tie_conflict(entry: Architecture, config: Config, tensors: Tensors) -> bool:
    """Whether the configuration says that the embeddings are tied, and the files hold two."""
    return (
        entry.has_head
        and _read_tie(config) is True
        and find_unembedding(entry, config, tensors) is not None
    )


def _read_tie(config: Config) -> object:
    return config.get(
        "tie_word_embeddings", select_decoder_config(config).get("tie_word_embeddings")
    )


def find(tensors: Tensors, names: tuple[str, ...]) -> StoredTensor:
    """The tensor under one of its names, or under the only name that ends in one after a further
    prefix.

    Raises DataError where there is none or more than one.
    """
    stored = find_named(tensors, names)
    if stored is None:
        where = next((each.path.parent for each in tensors.values()), "")
        step = "check that config.json belongs to these weights"
        what = "the checkpoint lacks a tensor that its architecture has"
        got = f"{len(tensors)} tensors, such as {', '.join(list(tensors)[:3])}"
        raise DataError(what, where=where, got=got, allowed=" or ".join(names), next_step=step)
    return stored


def find_named(tensors: Tensors, names: tuple[str, ...]) -> StoredTensor | None:
    """The tensor of one of some names; None where there is none or more than one."""
    for name in names:
        if name in tensors:
            return tensors[name]
    endings = tuple(f".{name}" for name in names)
    longer = []
    for name, tensor in tensors.items():
        if name.endswith(endings):
            longer.append(tensor)
    return longer[0] if len(longer) == 1 else None


def _check_matrix(stored: StoredTensor) -> NDArray[Any]:
    raw = stored.read_raw()
    if raw.ndim != 2:
        raise DataError(
            f"tensor {stored.name} is no matrix", where=stored.path, got=f"shape {raw.shape}"
        )
    return raw


def _build_grams(heads: NDArray[Any]) -> NDArray[np.float64]:
    """M Mᵀ of each head's (d_h × columns) matrix, in float64: (heads × d_h × d_h)."""
    n_heads, d_head = heads.shape[:2]
    grams = np.empty((n_heads, d_head, d_head))
    for h, stored in enumerate(heads):
        block = decode(stored)
        grams[h] = block @ block.T
    return grams


def _build_head_rows(
    layer: int, gram_v: NDArray[np.float64], gram_o: NDArray[np.float64]
) -> list[Row]:
    """Rows of W_V^h, W_O^h and OV^h from W_V^h W_V^hᵀ and W_O^hᵀ W_O^h (H × d_h × d_h each).

    The squared singular values of W_O W_V are the eigenvalues of √G_V G_O √G_V, and ‖W_O W_V‖_F² =
    tr(G_O G_V).
    """
    gram_v, lost_v = _clean_grams(gram_v)
    gram_o, lost_o = _clean_grams(gram_o)
    values, vectors = np.linalg.eigh(gram_v)
    scales = np.sqrt(np.maximum(values, 0.0))
    roots = vectors * scales[:, None, :] @ vectors.transpose(0, 2, 1)
    largest_o = np.linalg.eigvalsh(gram_o)[:, -1]
    largest_ov = np.linalg.eigvalsh(roots @ gram_o @ roots)[:, -1]
    total_ov = np.einsum("hij,hji->h", gram_o, gram_v)
    total_o = np.trace(gram_o, axis1=1, axis2=2)
    squares = {
        "W_V": (values[:, -1], values.sum(axis=1), lost_v),
        "W_O": (largest_o, total_o, lost_o),
        "OV": (largest_ov, total_ov, lost_v | lost_o),
    }
    rows = []
    for matrix, (largest, total, lost) in squares.items():
        pair = np.sqrt(np.maximum(np.stack([largest, total]), 0.0))
        pair[:, lost] = np.nan
        for h, (spectral, frobenius) in enumerate(pair.T):
            norms = Norms(float(spectral), float(frobenius))
            rows.append(_build_row(layer, matrix, str(h + 1), norms))
    return rows


def _clean_grams(grams: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The Gram matrices with zeros for heads that hold a number which is not finite, and which
    heads those are."""
    is_finite = np.isfinite(grams).all(axis=(1, 2))
    lost: NDArray[np.bool_] = np.logical_not(is_finite)
    return np.where(lost[:, None, None], 0.0, grams), lost


def _build_row(layer: int, matrix: str, head: str, norms: Norms) -> Row:
    missing = NOT_FINITE if np.isnan(norms.frobenius) else ZERO if norms.frobenius == 0 else ""
    measured = (norms.spectral, norms.frobenius, norms.stable_rank, np.nan, np.nan)
    return dict(zip(COLUMNS, (layer, matrix, head, *measured, missing), strict=True))


BLOB = re.compile(r"[0-9a-f]{64}")
"""What the hub's cache calls a file of weights: its SHA-256."""
PROVENANCE = {
    "_name_or_path",
    "_commit_hash",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
}
"""Keys of a configuration that say where a model is from or how it is stored, not what it
computes."""
SETTLED = 2.0
"""Seconds after which a file that is written again has another time of change, however coarse the
clock."""


def hash_model(folder: Path) -> str:
    """SHA-256 over name and SHA-256 of each file of weights, sorted, and over the configuration, in
    hexadecimal.

    A file's SHA-256 is what the hub's cache calls it, if it does; else it is computed, and kept by
    path, size and time of change. Of the configuration `PROVENANCE` does not count. Raises
    DataError where a file cannot be read.
    """
    weight_files = sorted(list_weight_files(folder), key=lambda path: path.name)
    files = [f"{path.name} {hash_file(path)}" for path in weight_files]
    stated = json.dumps(_strip_provenance(stated_config(folder)), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256("\n".join([*files, stated]).encode()).hexdigest()


def _strip_provenance(config: Any) -> Any:
    """A configuration, and those nested in it, without what does not count."""
    if isinstance(config, dict):
        kept = {}
        for key, value in config.items():
            if key not in PROVENANCE:
                kept[key] = _strip_provenance(value)
        return kept
    return [_strip_provenance(each) for each in config] if isinstance(config, list) else config


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes; raises DataError where it cannot be read."""
    place = path.resolve()
    if BLOB.fullmatch(place.name) and place.parent.name == "blobs":
        return place.name
    try:
        state = place.stat()
        seen = [str(place), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        note = _locate_note(place)
        if sha := _read_note(note, seen):
            return sha
        with place.open("rb") as file:
            computed = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            "weights cannot be read", where=path, got=describe_file_error(error)
        ) from error
    if note is not None and time.time() - max(state.st_mtime, state.st_ctime) > SETTLED:
        _keep(note, seen, computed)
    return computed


def _locate_note(path: Path) -> Path | None:
    """Where a file's hash is kept; None where nothing is."""
    cache = cache_folder()
    if cache is None:
        return None
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    return cache / "weights" / f"{digest}.json"


def _read_note(path: Path | None, seen: list[Any]) -> str:
    """The hash of a file as it was seen; empty where it is not known, or the note of it is
    damaged."""
    if path is None:
        return ""
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not isinstance(written, dict) or written.get("seen") != seen:
        return ""
    digest = str(written.get("sha256"))
    return digest if BLOB.fullmatch(digest) else ""


def _keep(path: Path, seen: list[Any], computed: str) -> None:
    """Write down a file's hash; where nothing can be written it is computed again the next time."""
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"seen": seen, "sha256": computed}), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
