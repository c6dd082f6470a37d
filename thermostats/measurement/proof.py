"""What a run proves of itself before it is stored, and what it leaves out where a proof fails.

The model is held to its entry on one token (`oracle`); then two inputs, each alone in the model as it was loaded, are
held to the rows in which they stood among others. Where these part, all are measured again, each alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from thermostats.errors import DataError, ThermostatsError
from thermostats.measurement.forward import Decoder
from thermostats.measurement.gains import RATIOS, Measured
from thermostats.measurement.oracle import PROOF, TOLERANCES, Conformance, conformance

BY_RATIO = ("norm_in", "gain_block")
BY_DIFFERENCE = ("self_attention", "entropy")
"""Columns that a second pass is held against the first in."""
OF_SUBBLOCKS = [name for name in RATIOS if name not in ("gain_block", "gain_read")]
"""Columns that stand on what the sub-blocks write."""


class InputsMeetError(ThermostatsError):
    """What a model does with one input depends on the others of its batch."""


def check_proof(decoder: Decoder, needed: Collection[str] = tuple(PROOF)) -> Conformance:
    """What holds of a model on its first, middle and last block.

    Raises ThermostatsError by the name of what is `needed` and does not, DataError where a weight is not finite, which
    spreads through the stream into the last block.
    """
    proof = conformance(decoder, layers={0, len(decoder.blocks) // 2, len(decoder.blocks) - 1})
    if proof.failed:
        check_finite(decoder)
    for name in proof.failed:
        if name in needed:
            raise proof.error(name)
    return proof


def check_finite(decoder: Decoder) -> None:
    """Raise DataError where a weight is not a finite number at the precision that it was loaded in."""
    for name, weight in decoder.model.named_parameters():
        if weight.is_meta or not weight.numel() or all(map(torch.isfinite, weight.aminmax())):
            continue
        what, step = "the weights hold numbers that are not finite", "download the file again, or --dtype float32"
        raise DataError(what, where=name, got=f"{decoder.dtype}".removeprefix("torch."), next_step=step)


def without_unproven(measured: Measured, proof: Conformance) -> Measured:
    """The rows without what rests on a proof that failed: the columns of the sub-blocks, or `normed_gain`."""
    layers, summaries = measured.layers, measured.summaries
    if "residual" in proof.failed:
        why = f"{PROOF['residual']}: {', '.join(OF_SUBBLOCKS)}"
        missing = layers["missing"].map(lambda reason: f"{reason}; {why}" if reason else why)
        layers = layers.assign(**dict.fromkeys(OF_SUBBLOCKS, np.nan), missing=missing.astype("str"))
    if "final" in proof.failed:
        summaries = summaries.assign(value=np.nan, missing=PROOF["final"])
    return Measured(layers, summaries, measured.outputs)


def second_pass(
    decoder: Decoder, inputs: Sequence[Any], of_one: Callable[[Any], pd.DataFrame], rows: pd.DataFrame
) -> str:
    """Measure two inputs once more, each by itself in a model as it was loaded; what `runs` keeps of it.

    `rows` are those of the run, in which they stood among others, and `of_one` gives those of an input alone. Of texts
    the shortest and the longest are taken, as the longest of a batch may decide for all; of images the first and last.

    Raises InputsMeetError where they differ by more than rounding.
    """
    by_length = sorted(inputs, key=lambda each: len(getattr(each, "token_ids", ())))
    ends = by_length if len(by_length) == 1 else [by_length[0], by_length[-1]]
    once = pd.concat([of_one(each) for each in ends])
    key = [name for name in ("layer", "head", "variant", "prompt_id", "position") if name in rows]
    both = once.merge(rows, on=key, suffixes=("", "_run"))
    if "variant" in rows:
        both = both[both["variant"] == "exact"]
    off = [np.log(both[name] / both[f"{name}_run"]) for name in BY_RATIO if name in rows]
    off += [both[name] - both[f"{name}_run"] for name in BY_DIFFERENCE if name in rows]
    differences = np.abs(np.concatenate(off))
    largest, allowed = float(differences[np.isfinite(differences)].max(initial=0.0)), TOLERANCES[decoder.dtype]
    if largest > allowed:
        what = "the measurement failed its own check: two inputs measured again by themselves give different numbers"
        step = "report the model and the versions: the same input gives other numbers each time"
        raise InputsMeetError(what, got=f"off by {largest:.2g}", allowed=f"at most {allowed:g}", next_step=step)
    return f"again={largest:.1e}"


def proved(
    measure: Callable[..., Any],
    decoder: Decoder,
    inputs: Sequence[Any],
    *,
    options: dict[str, Any],
    alone: dict[str, Any],
) -> tuple[Any, str]:
    """What `measure` (inputs, options) gives of all inputs, and what `runs` keeps of its second pass.

    `alone`: the options under which each input is in a batch of its own.

    Raises InputsMeetError where a model gives other numbers each time.
    """

    def of_one(each: Any) -> pd.DataFrame:
        return _rows(measure([each], **alone))

    measured = measure(inputs, **options)
    try:
        return measured, second_pass(decoder, inputs, of_one, _rows(measured))
    except InputsMeetError:
        measured = measure(inputs, **{**options, **alone})
        return measured, f"{second_pass(decoder, inputs, of_one, _rows(measured))} alone"


def _rows(measured: Any) -> pd.DataFrame:
    rows: pd.DataFrame = getattr(measured, "layers", measured)
    return rows
