"""W_V and W_O as the stream is read and written: norm weights folded, sides that nobody reads taken
away.

    OV as read   m P diag(s) W_O,h W_V,h diag(γ) P

P: I − 11ᵀ/d where norms subtract the mean, else I. γ: weight of the norm in front of W_V, with
latent attention that of the latent (and no P there); s, m: what multiplies the write. Balanced: of
all pairs with the same OV in each group of heads the one with W_V,k W_V,kᵀ = Σ_h W_O,hᵀ W_O,h.
numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermostats.measurement.checkpoint import decode
from thermostats.measurement.lookup import select_decoder_config
from thermostats.measurement.model_class import Architecture, Config

RMS_NORMS = ("t5", "mt5", "umt5", "mamba", "mamba2", "falcon_mamba", "lfm2", "lfm2_moe")
"""Classes with RMSNorm whose configurations do not call its ε so."""
LAYER_NORMS = ("phimoe", "cohere2_moe")
"""Classes whose norms subtract the mean though their configuration speaks of RMS."""
POST_NORM = "post-norm: the norm behind each sum sets the scale of the stream"
NORMED_WRITE = "a norm follows what attention writes"

Vectors = Callable[[str, str], NDArray[Any] | None]
"""Path below a block and kind (``weight``, or empty for a parameter) → the vector of that name, if
the model has it."""


@dataclass(frozen=True)
class MatrixSide:
    """What multiplies the d columns of a matrix, and whether their mean is taken away
    afterwards."""

    factors: NDArray[Any] | None = None
    centred: bool = False

    def apply(self, block: NDArray[Any]) -> NDArray[Any]:
        """A matrix (rows × d) as it is read or written."""
        with np.errstate(invalid="ignore"):  # of weights that are not finite, which their rows say
            scaled = block if self.factors is None else block * self.factors
            return scaled - scaled.mean(axis=1, keepdims=True) if self.centred else scaled


@dataclass(frozen=True)
class AsRead:
    """Both sides of the OV circuit of one block."""

    of_values: MatrixSide
    of_output: MatrixSide
    no_ov: str = ""
    """Why the norm of OV as read is no number of the function; empty: it is, over that of the
    stream."""
    no_balance: str = ""
    """The same of the balanced ratio."""


def name_norm_kind(entry: Architecture, decoder: Config) -> str:
    """LayerNorm or RMSNorm, as a class's configuration (of the decoder) implies."""
    stated = "rms_norm_eps" in decoder and entry.model_type not in LAYER_NORMS
    return "RMSNorm" if stated or entry.model_type in RMS_NORMS else "LayerNorm"


def is_mean_subtracted(entry: Architecture, config: Config) -> bool:
    """Whether all norms that read the stream subtract its mean: P = I − 11ᵀ/d, else P = I."""
    return name_norm_kind(entry, select_decoder_config(config)) == "LayerNorm"


def is_read_centred(entry: Architecture, config: Config) -> bool:
    """Whether P x alone is read of the stream; post-norm blocks add x itself to what they write."""
    return entry.additive and is_mean_subtracted(entry, config)


def describe_reading(
    entry: Architecture, config: Config, vectors: Vectors, *, normed: bool
) -> AsRead:
    """How W_V reads and W_O writes in one block; `normed`: its norm is there, be it without
    weights."""
    latent = entry.layout == "latent"
    centred = is_read_centred(entry, config)
    norm = f"{entry.value.rpartition('.')[0]}.kv_a_layernorm" if latent else entry.attention_norm
    weight = vectors(norm, "weight") if norm and not entry.norm_after else None
    gamma = None if weight is None else decode(weight) + entry.unit_offset
    scale = vectors(entry.attention_scale, "") if entry.attention_scale else None
    multiplier = (
        float(select_decoder_config(config)[entry.residual_multiplier])
        if entry.residual_multiplier
        else 1.0
    )
    written = multiplier if scale is None else multiplier * decode(scale)
    of_values = MatrixSide(gamma, centred and normed and not latent)
    is_unscaled = np.ndim(written) == 0 and written == 1
    of_output = MatrixSide(None if is_unscaled else np.asarray(written), centred)
    no_balance = "" if entry.additive else POST_NORM
    no_ov = no_balance or (NORMED_WRITE if entry.attention_write else "")
    return AsRead(of_values, of_output, no_ov, no_balance)


def _decompose_qr(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Q and R at the matrix's own precision; numpy's is in float64, and takes three times as long
    for float32."""
    from scipy.linalg import qr  # noqa: PLC0415

    basis, triangle = qr(matrix, mode="economic", check_finite=False)
    return basis, triangle


class Balanced(NamedTuple):
    """W_V (K·r × d) and W_O (d × H·r) as read, balanced, and the spectral norm of OV as read of
    each query head."""

    w_v: NDArray[Any]
    w_o: NDArray[Any]
    ov: NDArray[Any]


def build_balanced_pair(
    v: NDArray[Any], o: NDArray[Any], of_query: NDArray[np.int64], read: AsRead
) -> Balanced:
    """The balanced pair, group by group; NaN where a weight is not finite.

    With the heads of a group one below the other OV = U S Wᵀ, and then W_V = √S Wᵀ, W_O = U √S. v
    (K × d_h × d_in) and o (H × d_h × d): as stored, the heads of W_O transposed. r: the smaller of
    d_h and what it leads to.
    """
    values = []
    outputs = dict[int, NDArray[Any]]()
    largest = np.full(len(of_query), np.nan)
    for k, stored in enumerate(v):
        heads = np.flatnonzero(of_query == k)
        basis_v, r_v = _decompose_qr(read.of_values.apply(decode(stored)).T)
        reading = [read.of_output.apply(decode(o[h])).T for h in heads]
        basis_o, r_o = _decompose_qr(np.concatenate(reading))
        core = r_o @ r_v.T
        if not np.isfinite(core).all():
            none = np.full((1, 1), np.nan)
            return Balanced(none, none.copy(), np.full(len(of_query), np.nan))
        left, singular, right = np.linalg.svd(core, full_matrices=False)
        roots = np.sqrt(singular)
        values.append((roots[:, None] * right) @ basis_v.T)
        parts = np.split((basis_o @ left) * roots, len(heads))
        for h, part in zip(heads.tolist(), parts, strict=True):
            outputs[h] = part
            largest[h] = singular[0]
            if len(heads) > 1:
                gram = (part.T @ part) * roots[:, None] * roots
                largest[h] = np.sqrt(np.linalg.eigvalsh(gram)[-1])
    in_order = [outputs[h] for h in sorted(outputs)]
    return Balanced(np.concatenate(values), np.concatenate(in_order, axis=1), largest)
