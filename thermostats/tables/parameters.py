"""Numbers of weights of a model from its geometry, by the formula of its architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from thermostats.errors import DataError

COUNTED = "its configuration and checkpoint"
"""Source of a row whose numbers of weights were counted, not computed."""
COUNTS = ("n_params", "n_params_nonembedding", "vocab_size", "n_positions")
FACTS = ("d_embed", "d_head", "d_ff", "n_kv_heads", "norm_kind", "norm_place", "gated_mlp", "tied_embeddings")
"""What the formula needs besides the counts; a model of which it is not stated is not held against it."""
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


def parameter_counts(row: Mapping[str, Any]) -> tuple[int, int]:
    """Weights in all, tied ones once, and weights without token embedding, position table and unembedding.

    With v vectors per norm (2 for LayerNorm, 1 for RMSNorm), m matrices in the feed-forward layer (3 where gated, else
    2), [c] = 1 where c holds and 0 elsewhere, and e the width of the token embedding:

    block  = (d + [qkv bias]) d_h (H + 2K) + d d_h H + [out bias] d + m d d_ff + [mlp bias] ((m - 1) d_ff + d)
             + v (block norms · d + head norms · d_h) + block scalars
    n_params_nonembedding = L block + v d ([embedding norm] + [final norm]) + [e ≠ d] 2 e d
    n_params = n_params_nonembedding + V e (1 + [untied]) + [unembedding bias] V + n_positions d

    A model has a final norm unless it norms after the residual sum (norm_place "post"). Where e ≠ d, one projection
    follows the embedding and one precedes the unembedding. Which terms an architecture has: `WEIGHTS`, read off its
    implementation in transformers. Falcon stands for its 7b form: parallel, one norm, one key/value head.

    row: one row of the table models, by column name. Raises DataError where the architecture is not in `WEIGHTS`.
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
    attention = (d + terms.qkv_bias) * d_h * (H + 2 * K) + d * d_h * H + terms.out_bias * d
    mlp = m * d * d_ff + terms.mlp_bias * ((m - 1) * d_ff + d)
    block = attention + mlp + v * (terms.block_norms * d + terms.head_norms * d_h) + terms.block_scalars
    norms_outside = terms.embedding_norm + (row["norm_place"] != "post")
    nonembedding = L * block + v * d * norms_outside + (2 * e * d if e != d else 0)
    embedding = V * e * (1 if row["tied_embeddings"] else 2) + terms.unembedding_bias * V + int(row["n_positions"]) * d
    return nonembedding + embedding, nonembedding


def check_models(models: pd.DataFrame) -> None:
    """Raise DataError where a row of the table models does not have the numbers of weights its geometry implies.

    Rows of architectures without a formula, and rows whose numbers were counted in a checkpoint, must have an embedding
    besides their other weights: n_params_nonembedding < n_params, but for those without tokens and position table.
    """
    for row in models.to_dict("records"):
        where = f"{row['model_id']} @ {row['revision']}"
        if any(pd.isna(row[label]) for label in COUNTS):
            continue  # not all is stated
        total, inner = int(row["n_params"]), int(row["n_params_nonembedding"])
        stated = not any(pd.isna(row[label]) or row[label] == "" for label in FACTS)
        if stated and row["architecture"] in WEIGHTS and row["source"] != COUNTED:
            implied = parameter_counts({str(label): value for label, value in row.items()})
            if (total, inner) != implied:
                raise DataError(
                    "table models, n_params and n_params_nonembedding are not what the geometry implies",
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
