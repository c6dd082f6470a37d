"""Next-token distribution after the last token of each prompt, from the logits of that token alone.

Entropy −Σ p ln p in nats, computed in float32 or wider from log-probabilities; sd over the vocabulary (population).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from thermostats.tables.schemas import TABLES

COLUMNS = [name for name in TABLES["outputs"].columns if name != "run_id"]
VALUES = ("entropy", "top_probability", "logit_mean", "logit_sd", "logit_range")


def escape(token: str) -> str:
    """A token as text for a table: control characters and backslashes as in JSON, quotes as they are."""
    return json.dumps(token, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("\x7f", "\\u007f")


def output_rows(
    prompt_ids: Sequence[str], logits: Tensor, decode: Callable[[int], str], dtype: str
) -> list[dict[str, Any]]:
    """A row per prompt from its last token's logits (batch × vocabulary); values are missing where they overflowed."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    log_p = wide.log_softmax(-1)
    p = log_p.exp()
    top_p, top = p.max(-1)
    columns = {
        "entropy": -torch.where(p > 0, p * log_p, 0.0).sum(-1),
        "top_probability": top_p,
        "logit_mean": wide.mean(-1),
        "logit_sd": wide.std(-1, correction=0),
        "logit_range": wide.amax(-1) - wide.amin(-1),
    }
    table = {name: values.double().cpu().numpy() for name, values in columns.items()}
    finite = torch.isfinite(wide).all(-1).cpu().numpy()
    rows: list[dict[str, Any]] = []
    for i, (prompt_id, token) in enumerate(zip(prompt_ids, top.tolist(), strict=True)):
        row = {name: float(table[name][i]) if finite[i] else float("nan") for name in VALUES}
        rows.append(
            {"prompt_id": prompt_id, "top_token": escape(decode(token)) if finite[i] else "", **row}
            | {"missing": "" if finite[i] else f"logits not finite in {dtype}"}
        )
    return rows


def outputs_frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The rows as a frame with the columns of the table `outputs`, without run_id, in order of its key."""
    return pd.DataFrame(rows, columns=COLUMNS).sort_values("prompt_id", ignore_index=True)
