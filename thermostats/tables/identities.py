"""What rows of different tables must agree on, by definition: measured runs are held against it on
every join.

Published rows are what the study states, agreeing or not; where they do not, the table
`inconsistencies` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import DataError
from thermostats.tables.entries import drop_names, keep_names
from thermostats.tables.frames import select_rows
from thermostats.tables.remedies import Remedy, write_change
from thermostats.tables.runs import hash_prompts
from thermostats.tables.schemas import FLOAT, OURS, list_dtypes, list_key_columns, list_optional
from thermostats.tables.schemas import MEASURES as OF_MODELS
from thermostats.tables.validation import locate_values

Tables = Mapping[str, pd.DataFrame]
PUBLISHED = "published"
TOLERANCE = {"float64": 1e-3, "float32": 1e-3, "bfloat16": 3e-2, "float16": 3e-2}
"""Largest relative gap by precision; attention in 16 bits keeps 8 to 11 bits of every weight."""
PART = 100_000
"""Rows of all tables that are checked at a time, about."""
SINKS = ("gpt_oss", "flint")
"""Architectures whose rows of attention sum to less than 1."""
EMPTY = {
    "layers": 'df[df[{gain_block}].replace("", None).notna()]',
    "summaries": 'df[df[{value}].replace("", None).notna()]',
}
"""Rows that have the value that other people mostly give, where files are read as texts too."""
MODEL = ["model_id", "revision"]
LOOK = [*MODEL, "dtype", "source", "prompt_set", "prompt_sha"]
GEOMETRY = ["architecture", "n_layers", "n_heads", "n_kv_heads"]
HEAD = [*MODEL, "layer", "head"]
MEASURES = [schema.name for schema in OF_MODELS]


def check_identities(tables: Tables) -> None:
    """Raise DataError where rows of measured runs contradict each other or lack a value without a
    reason.

    `tables` needs models, prompts, runs and those of `MEASURES`; rows of runs that are not in runs
    are passed over.
    """
    measured = tables["runs"][tables["runs"]["measure_version"] != PUBLISHED]
    runs = measured.merge(tables["models"][[*MODEL, *GEOMETRY]], on=MODEL)
    try:
        for part, rows in _split_models(tables, runs):
            _check(part, rows, tables["prompts"])
    except DataError:  # said of all rows, not of a part
        _check(runs, tables, tables["prompts"])
        raise


def _split_models(
    tables: Tables, runs: pd.DataFrame
) -> Iterator[tuple[pd.DataFrame, dict[str, pd.DataFrame]]]:
    """Runs and their rows, some models at a time; rows of different models are never compared."""
    numbers = {}
    sizes = np.zeros(len(runs), dtype=np.int64)
    for name in MEASURES:
        number = locate_values(tables[name]["run_id"], runs["run_id"])
        sizes += np.bincount(number[number >= 0], minlength=len(runs))
        numbers[name] = number
    model = runs.groupby(MODEL, sort=False).ngroup().to_numpy()
    before = np.bincount(model, weights=sizes).cumsum() - 1
    part = (before // PART).astype(np.int64)[model]
    for each in np.unique(part):
        rows = {}
        for name, number in numbers.items():
            is_of_part = (number >= 0) & (part[number] == each)
            rows[name] = tables[name].take(np.flatnonzero(is_of_part))
        yield runs[part == each], rows


def _check(runs: pd.DataFrame, tables: Tables, prompts: pd.DataFrame) -> None:
    """Raise DataError as `check_identities`, of some runs and their rows."""
    facts = runs[["run_id", *LOOK, *GEOMETRY]]
    rows = {}
    there = {}
    for name in MEASURES:
        rows[name] = tables[name].merge(facts, on="run_id")
        if len(rows[name]):
            there[name] = rows[name]
    check_prompts(there, runs, prompts)
    check_places(there)
    check_reasons(there)
    if "layers" in there:
        check_products(rows["layers"])
    if "summaries" in there:
        check_amplification(rows["layers"], rows["summaries"])
    if "weights" in there:
        check_heads(rows["weights"])
    if "attention" in there:
        check_traces(rows["attention"], rows["layers"], rows["weights"])
    if "summaries" in there:
        check_means(rows["weights"], rows["summaries"])


def check_prompts(rows: Tables, runs: pd.DataFrame, prompts: pd.DataFrame) -> None:
    """Prompts of rows are in the set of their run; the set of a run of this package still has the
    texts it had."""
    in_sets = pd.MultiIndex.from_frame(prompts[["prompt_set", "prompt_id"]])
    for name, frame in drop_names(rows, ("weights",)).items():
        there = pd.MultiIndex.from_frame(frame[["prompt_set", "prompt_id"]]).isin(in_sets)
        named = (frame["prompt_id"] != "") & (frame["prompt_set"] != "")
        wrong = named & ~there
        allowed = "a prompt of the set {prompt_set}"
        _refuse(frame, wrong, name, "a prompt is not in the set of its run", allowed, ["prompt_id"])
    hashes = {}
    for name, group in prompts.groupby("prompt_set"):
        hashes[str(name)] = hash_prompts(group)
    ours = select_rows(runs, source=OURS)
    ours = ours[ours["prompt_set"] != ""]
    other = ours["prompt_sha"] != ours["prompt_set"].map(hashes)
    _refuse(ours, other, "runs", "the prompt set has other texts than when it was measured")


def check_places(rows: Tables) -> None:
    """Layers and heads are those of the model, counted from 1."""
    for name, frame in keep_names(rows, ("layers", "weights", "attention")).items():
        beyond = frame["layer"] > frame["n_layers"]
        first = 0 if name == "weights" else 1
        allowed = f"{first} to {{n_layers}}, the model's n_layers"
        counted = Remedy(
            when="with what they are ahead for OFFSET", rows=write_change("layer", "{n} - OFFSET")
        )
        _refuse(
            frame, beyond, name, "a layer is beyond the model's last", allowed, ["layer"], counted
        )
        if "head" in frame:
            head = pd.to_numeric(frame["head"], errors="coerce")
            wrong = (frame["head"] != "") & ~head.between(1, frame["n_heads"])
            allowed = "1 to {n_heads}, the model's n_heads, or empty"
            _refuse(frame, wrong, name, "the model has no such head", allowed, ["head"])


def check_reasons(rows: Tables) -> None:
    """A row without any value needs a reason; one that this package measured needs one for every
    value it lacks."""
    for name, frame in rows.items():
        added = list_optional(name)
        values = [label for label in _list_number_columns(name) if label not in added]
        lacks = frame[values].isna()
        partly = (frame["source"] == OURS) & lacks.any(axis=1)
        if name == "attention":  # of the published variants there is a trace alone
            partly &= (frame["variant"] == "exact") | lacks["trace"]
        silent = (lacks.all(axis=1) | partly) & (frame["missing"] == "")
        without = Remedy(when="without such rows", rows=EMPTY[name]) if name in EMPTY else None
        reason = "its reason in the column missing"
        _refuse(frame, silent, name, "a value is missing without a reason", reason, values, without)


def check_products(layers: pd.DataFrame) -> None:
    """The gains up to a block multiply to its norm over the first: Σ log G_l = log n_in(l+1) − log
    n_in(1).

    Between stages of a hierarchical model patches are merged: there is another number of tokens,
    and no such product.
    """
    if layers["norm_in"].isna().all():
        return
    chain = ["run_id", "prompt_id", "position"]
    ordered = layers.sort_values([*chain, "layer"])
    groups = ordered.groupby(chain)
    after = groups[["layer", "n_tokens", "norm_in"]].shift(-1)
    follows = after["layer"] == ordered["layer"] + 1
    other_length = after["n_tokens"] != ordered["n_tokens"]
    follows &= ~other_length.fillna(False).astype("bool")
    product = np.log(ordered["gain_block"]) + np.log(ordered["norm_in"])
    gap = product - np.log(after["norm_in"])
    known = gap.where(follows).fillna(0.0)
    total = known.groupby([ordered[label] for label in chain]).cumsum()
    wrong = total.abs() > _compute_tolerance(ordered)
    _refuse(ordered, wrong, "layers", "the gains do not multiply to the norms")


def check_amplification(layers: pd.DataFrame, summaries: pd.DataFrame) -> None:
    """A stated total amplification is the product of the gains of blocks 2 … L at the last
    token."""
    where = ["run_id", "prompt_id"]
    inner = select_rows(layers, position="last")
    inner = inner[inner["layer"] > 1]
    groups = np.log(inner["gain_block"]).groupby([inner[label] for label in where])
    complete = groups.count() == groups.size()
    product = np.exp(groups.sum(min_count=1).where(complete))
    stated = select_rows(summaries, estimand="total_amplification")
    implied = _align_values(product, stated, where)
    _compare(stated, "value", implied, "summaries", "is not the product of its gains")


def check_heads(weights: pd.DataFrame) -> None:
    """Squared Frobenius norms of heads add to that of the matrix; spectral norms bound it; F²/σ² is
    the stable rank.

    A key/value head stands in the rows of all query heads that share it.
    """
    ratio = (weights["frobenius_norm"] / weights["spectral_norm"]) ** 2
    what = "is not the squared Frobenius norm over the squared spectral norm"
    _compare(weights, "stable_rank", ratio, "weights", what)
    where = ["run_id", "layer", "matrix"]
    heads = select_rows(weights, matrix=["W_V", "W_O"])
    heads = heads[heads["head"] != ""]
    of_query = (heads["n_kv_heads"] / heads["n_heads"]).astype(float)
    shared = of_query.where(heads["matrix"] == "W_V", 1.0)
    groups = heads.assign(square=heads["frobenius_norm"] ** 2 * shared).groupby(where)
    complete = groups["square"].count() == groups["n_heads"].first()
    matrices = select_rows(weights, head="")
    total = np.sqrt(groups["square"].sum().where(complete))
    implied = _align_values(total, matrices, where)
    _compare(matrices, "frobenius_norm", implied, "weights", "is not the sum over its heads")
    largest = _align_values(groups["spectral_norm"].max(), matrices, where)
    bound = matrices["spectral_norm"] * (1 + _compute_tolerance(matrices))
    what = "a head has a larger spectral norm than its matrix"
    _refuse(matrices, largest > bound, "weights", what)


def check_traces(attention: pd.DataFrame, layers: pd.DataFrame, weights: pd.DataFrame) -> None:
    """Of a head Tr = (n − tr A)·‖W_V‖_F², of a layer the sum over its heads; the proxy is
    ‖W_V‖₂²."""
    exact = select_rows(attention, variant="exact")
    per_head = exact[exact["head"] != ""]
    per_layer = select_rows(exact, head="")
    where = ["run_id", "layer", "prompt_id"]
    groups = per_head.groupby(where)
    complete = groups["trace"].count() == groups["n_heads"].first()
    total = groups["trace"].sum().where(complete)
    implied = _align_values(total, per_layer, where)
    _compare(per_layer, "trace", implied, "attention", "is not the sum over its heads")
    prompt = [*MODEL, "prompt_set", "prompt_sha", "prompt_id"]
    counted = layers.dropna(subset="n_tokens").drop_duplicates(prompt)
    lengths = counted.set_index(prompt)["n_tokens"].astype(float)
    values = select_rows(weights, matrix="W_V").drop_duplicates(HEAD)
    values = values.set_index(HEAD)
    n = _align_values(lengths, per_head, prompt)
    scale = n * _align_values(values["frobenius_norm"], per_head, HEAD) ** 2
    gap = per_head["trace"] - (1 - per_head["self_attention"]) * scale
    size = gap.where(per_head["architecture"].isin(SINKS), gap.abs())
    wrong = size > _compute_tolerance(per_head) * scale
    _refuse(per_head, wrong, "attention", "the trace is not (n − tr A)·‖W_V‖²")
    proxy = select_rows(attention, variant="proxy")
    norm = _align_values(values["spectral_norm"], proxy, HEAD)
    _compare(proxy, "trace", norm**2, "attention", "is not the squared spectral norm of W_V")


def check_means(weights: pd.DataFrame, summaries: pd.DataFrame) -> None:
    """A stated mean spectral norm of W_V or W_O is the mean over the layers of the same model."""
    matrices = select_rows(weights, head="", matrix=["W_V", "W_O"])
    matrices = matrices.assign(estimand=matrices["matrix"] + "_spectral_norm_mean")
    where = [*MODEL, "estimand"]
    means = matrices.groupby(where)["spectral_norm"].mean()
    stated = select_rows(summaries, estimand=matrices["estimand"], prompt_id="")
    mean = _align_values(means, stated, where)
    _compare(stated, "value", mean, "summaries", "is not the mean over the layers")


def _list_number_columns(name: str) -> list[str]:
    number_columns: list[str] = []
    for label, dtype in list_dtypes(name).items():
        if dtype == FLOAT:
            number_columns.append(label)
    return number_columns


def _align_values(values: pd.Series, frame: pd.DataFrame, labels: list[str]) -> pd.Series:
    """Values by key as a column of a frame; NaN where there is none."""
    index = pd.MultiIndex.from_frame(frame[labels])
    return pd.Series(values.reindex(index).to_numpy(dtype=float), index=frame.index)


def _compute_tolerance(frame: pd.DataFrame) -> pd.Series:
    coarsest = max(TOLERANCE.values())
    return frame["dtype"].map(TOLERANCE).fillna(coarsest).astype(float)


def _compare(frame: pd.DataFrame, label: str, implied: pd.Series, name: str, what: str) -> None:
    """Raise DataError for the first row whose stated value is not the one that is implied."""
    gap = frame[label].astype(float) - implied
    wrong = gap.abs() > _compute_tolerance(frame) * implied.abs()
    _refuse(frame, wrong, name, f"a value {what}", allowed=implied)


def _refuse(
    frame: pd.DataFrame,
    wrong: pd.Series,
    name: str,
    what: str,
    allowed: str | pd.Series = "",
    labels: Sequence[str] = (),
    remedy: Remedy | None = None,
) -> None:
    """Raise DataError for the first row that is wrong.

    allowed: a value by row, or words in which columns in braces are filled in. labels: columns
    whose values are shown; without any, the measured values that the row has.
    """
    wrong = wrong.fillna(False).astype(bool)
    if not wrong.any():
        return
    first = wrong.idxmax()
    row = frame.loc[first]
    count = int(wrong.sum())
    there = labels or [label for label in _list_number_columns(name) if pd.notna(row[label])]
    values = row.astype(object).mask(row.isna(), "empty")
    limit = allowed.format_map(row) if isinstance(allowed, str) else f"{allowed[first]:g}"
    keys = _list_cells(row, list_key_columns(name))
    raise DataError(
        f"table {name}: {what}, in {count} {'row' if count == 1 else 'rows'}",
        where=", ".join([row["model_id"], *keys]),
        got=", ".join(_list_cells(values, there)),
        allowed=limit,
        next_step="correct it or measure it again, or leave it out",
        remedy=remedy,
    )


def _list_cells(row: pd.Series, labels: Sequence[str]) -> list[str]:
    """Cells of a row behind the names of their columns."""
    return [f"{label} {row[label]}" for label in labels]


COUNTED = "its configuration and checkpoint"
"""Source of a row whose numbers of weights were counted, not computed."""
COUNTS = ("n_params", "n_params_nonembedding", "vocab_size", "n_positions")
FACTS = (
    "d_embed",
    "d_head",
    "d_ff",
    "n_kv_heads",
    "norm_kind",
    "norm_place",
    "gated_mlp",
    "tied_embeddings",
)
"""What the formula needs besides the counts; a model of which it is not stated is not held against
it."""
VECTORS_PER_NORM = {"LayerNorm": 2, "RMSNorm": 1}


@dataclass(frozen=True)
class Weights:
    """What an architecture has besides its matrices."""

    block_norms: int = 2  # of width d, in a block
    qkv_bias: bool = False
    out_bias: bool = False  # of the attention's output projection
    mlp_bias: bool = False
    head_norms: int = 0  # of width d_h in a block, shared by the heads (query and key norm)
    block_scalars: int = 0  # single numbers learned in a block
    embedding_norm: bool = False  # before block 1
    unembedding_bias: bool = False


ALL_BIASES = Weights(qkv_bias=True, out_bias=True, mlp_bias=True)
WEIGHTS: dict[str, Weights] = {
    "apertus": Weights(head_norms=2, block_scalars=2),
    "bloom": replace(ALL_BIASES, embedding_norm=True),
    "falcon": Weights(block_norms=1),
    "gemma": Weights(),
    "gemma2": Weights(block_norms=4),
    "gpt2": ALL_BIASES,
    "gpt_neo": Weights(out_bias=True, mlp_bias=True),
    "gpt_neox": ALL_BIASES,
    "gptj": Weights(block_norms=1, mlp_bias=True, unembedding_bias=True),
    "llama": Weights(),
    "mistral": Weights(),
    "opt": ALL_BIASES,
    "qwen2": Weights(qkv_bias=True),
    "qwen3": Weights(head_norms=2),
}


def count_parameters(row: Mapping[str, Any]) -> tuple[int, int]:
    """Weights in all, tied ones once, and weights without token embedding, position table and
    unembedding.

    With v vectors per norm (2 for LayerNorm, 1 for RMSNorm), m matrices in the feed-forward layer
    (3 where gated, else 2), [c] = 1 where c holds and 0 elsewhere, and e the width of the token
    embedding:

        block  = (d + [qkv bias]) d_h (H + 2K) + d d_h H + [out bias] d
                 + m d d_ff + [mlp bias] ((m - 1) d_ff + d)
                 + v (block norms · d + head norms · d_h) + block scalars
        n_params_nonembedding
               = L block + v d ([embedding norm] + [final norm]) + [e ≠ d] 2 e d
        n_params
               = n_params_nonembedding + V e (1 + [untied]) + [unembedding bias] V + n_positions d

    A model has a final norm unless it norms after the residual sum (norm_place "post"). Where e ≠
    d, one projection follows the embedding and one precedes the unembedding. Which terms an
    architecture has: `WEIGHTS`, read off its implementation in transformers. Falcon stands for its
    7b form: parallel, one norm, one key/value head.

    row: one row of the table models, by column name. Raises DataError where the architecture is not
    in `WEIGHTS`.
    """
    terms = WEIGHTS.get(str(row["architecture"]))
    if terms is None:
        raise DataError(
            "no formula for the number of weights of this architecture",
            where=row["model_id"],
            got=repr(row["architecture"]),
            allowed=", ".join(WEIGHTS),
            next_step="declare it in tables/parameters.py",
        )
    d, e, d_h, d_ff = (int(row[label]) for label in ("d_model", "d_embed", "d_head", "d_ff"))
    L, H, K, V = (int(row[label]) for label in ("n_layers", "n_heads", "n_kv_heads", "vocab_size"))
    v = VECTORS_PER_NORM[str(row["norm_kind"])]
    m = 3 if row["gated_mlp"] else 2
    qkv = (d + terms.qkv_bias) * d_h * (H + 2 * K)
    attention = qkv + d * d_h * H + terms.out_bias * d
    mlp_biases = (m - 1) * d_ff + d
    mlp = m * d * d_ff + terms.mlp_bias * mlp_biases
    norms = v * (terms.block_norms * d + terms.head_norms * d_h)
    block = attention + mlp + norms + terms.block_scalars
    norms_outside = terms.embedding_norm + (row["norm_place"] != "post")
    projections = 2 * e * d if e != d else 0
    nonembedding = L * block + v * d * norms_outside + projections
    token_tables = 1 if row["tied_embeddings"] else 2
    embedding = V * e * token_tables + terms.unembedding_bias * V
    embedding += int(row["n_positions"]) * d
    return nonembedding + embedding, nonembedding


def check_models(models: pd.DataFrame) -> None:
    """Raise DataError where a row of the table models does not have the numbers of weights its
    geometry implies.

    Rows of architectures without a formula, and rows whose numbers were counted in a checkpoint,
    must have an embedding besides their other weights: n_params_nonembedding < n_params, but for
    those without tokens and position table.
    """
    for row in models.to_dict("records"):
        where = f"{row['model_id']} @ {row['revision']}"
        if any(pd.isna(row[label]) for label in COUNTS):
            continue  # not all is stated
        total = int(row["n_params"])
        inner = int(row["n_params_nonembedding"])
        stated = not any(pd.isna(row[label]) or row[label] == "" for label in FACTS)
        if stated and row["architecture"] in WEIGHTS and row["source"] != COUNTED:
            implied = count_parameters(row)
            if (total, inner) != implied:
                raise DataError(
                    "table models, n_params and n_params_nonembedding are not what the geometry "
                    "implies",
                    where=where,
                    got=str((total, inner)),
                    allowed=str(implied),
                    next_step="correct the geometry or the numbers of weights",
                )
        embedded = int(row["vocab_size"]) + int(row["n_positions"])
        if inner > total or (inner == total and embedded):
            raise DataError(
                "table models, n_params_nonembedding is not below n_params",
                where=where,
                got=f"n_params_nonembedding {inner}, n_params {total}",
                allowed=f"below {total}: without token embedding, position table and unembedding",
                next_step="correct one of the two",
            )
