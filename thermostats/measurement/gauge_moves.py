"""What a change of weights does to every quantity of the tables, on a model in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from numpy.typing import NDArray

from thermostats.measurement.attention import measure_attention
from thermostats.measurement.batching import tokenise
from thermostats.measurement.checkpoint import StoredTensor
from thermostats.measurement.forward import Decoder, build_decoder, read_configuration
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.gauge import ModelWeights, extract_weights, replace_weights
from thermostats.measurement.lookup import lookup
from thermostats.measurement.sheaf import find_transitions
from thermostats.measurement.spectra import build_embedding_rows, build_weight_rows
from thermostats.tables import store
from thermostats.tables.features import combine
from thermostats.tables.schemas import TABLES, add_later_columns, list_dtypes, list_key_columns

COLUMNS = ["change", "table", "quantity", "before", "after", "moved"]
PROMPTS = 12
NAME = "changed"
"""Run and model that rows of a model in memory are of."""


def measure_change(
    folder: str | Path,
    change: Callable[[ModelWeights], ModelWeights],
    *,
    name: str = "",
    **config: Any,
) -> pd.DataFrame:
    """What a change does to a trained model in a folder, as `measure_moves` has it; nothing is
    written.

    change: of the model's weights, such as `gauge.fold_norms`; name: what it is called in the
    table. config: values of the configuration that are other than in the folder. Measured on the
    first prompts of the set core, with weights in float64; what the class computes in float32 is
    left to 1e-6.

    Raises DataError where the folder cannot be read, UsageError for a class that is not measured.
    """
    places, prompts = open_model(folder, **config)
    changed = replace_weights(places, change(extract_weights(places)))
    return measure_moves(name, build_tables(places, prompts), build_tables(changed, prompts))


def open_model(folder: str | Path, **config: Any) -> tuple[Decoder, list[Any]]:
    """A trained model of a folder with its weights in float64 and eager attention, and its
    prompts."""
    said = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager", **config)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        folder, config=said, dtype=torch.float64
    )
    texts = store.load("prompts")
    texts = texts[texts["prompt_set"] == "core"].head(PROMPTS)[["prompt_id", "text"]]
    tokens, _ = tokenise(
        transformers.AutoTokenizer.from_pretrained(folder), texts.itertuples(index=False, name=None)
    )
    places = read_configuration(model)
    return build_decoder(model.eval(), lookup(places), places), list(tokens)


def build_tables(places: Decoder, prompts: Sequence[Any]) -> dict[str, pd.DataFrame]:
    """Rows of the tables that a loaded model's weights, stream, outputs and attention give, and its
    row of `features`.

    Attention is measured where it is eager and every block has W_V.
    """
    measured = measure_gains(places, prompts, decode=str if places.entry.has_head else None)
    frames = {
        "layers": measured.layers,
        "summaries": measured.summaries,
        "weights": measure_spectra(extract_weights(places)),
    }
    if measured.outputs is not None:
        frames["outputs"] = measured.outputs
    if places.entry.attends and places.model.config._attn_implementation == "eager":  # type: ignore[union-attr]
        frames["attention"] = measure_attention(places, prompts)
        frames["transitions"] = find_transitions(frames["attention"])
    return {**frames, "features": _build_features(frames, len(places.blocks))}


def measure_spectra(weights: ModelWeights) -> pd.DataFrame:
    """Table `weights`, without run_id, of weights in memory."""
    stored = {}
    for name, array in weights.tensors.items():
        stored[name] = StoredTensor(name, Path(), "F64", array.shape, partial(np.asarray, array))
    rows = build_embedding_rows(weights.entry, weights.config, stored)
    for layer in weights.layers:
        rows += build_weight_rows(weights.entry, weights.config, stored, layer + 1)
    return pd.DataFrame(rows)


def measure_moves(
    change: str, before: Mapping[str, pd.DataFrame], after: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """One row per numeric column of the tables before and after a change, and per matrix of
    `weights`.

    `before` and `after` are means over rows; `moved` is the largest |x' − x| over its rows, over
    the largest |x|, infinite where numbers came or went.
    """
    rows = []
    for name, frame in before.items():
        again = after[name].reindex(columns=frame.columns)
        for part, first, second in _split_table(name, frame, again):
            for label in _list_numeric(name, first):
                x = first[label].to_numpy("float64", na_value=np.nan)
                y = second[label].to_numpy("float64", na_value=np.nan)
                if np.isfinite(x).any():
                    means = [_take_finite_mean(x), _take_finite_mean(y)]
                    largest = _measure_largest_move(x, y)
                    rows.append((change, name, label + part, *means, largest))
    return pd.DataFrame(rows, columns=COLUMNS)


def _take_finite_mean(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else np.nan


def _measure_largest_move(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    there = np.isfinite(x)
    if (there != np.isfinite(y)).any():
        return np.inf
    size = float(np.abs(x[there]).max())
    moved = float(np.abs(y - x)[there].max())
    return moved / size if size else moved


def _split_table(
    name: str, first: pd.DataFrame, second: pd.DataFrame
) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """The rows of a table before and after in one order; those of `weights` by matrix, whole or by
    head, of `attention` and `transitions` by variant, of `summaries` by estimand."""
    if name == "features":
        return [("", first, second)]
    keys = [label for label in list_key_columns(name) if label != "run_id"]
    both = first.merge(second, on=keys, suffixes=("", "\0"))
    old = both[first.columns]
    later = [f"{label}\0" for label in first if label not in keys]
    new = both[[*keys, *later]]
    new = new.rename(columns=lambda label: label.removesuffix("\0"))
    columns = {
        "weights": "matrix",
        "attention": "variant",
        "transitions": "trace_variant",
        "summaries": "estimand",
    }
    if name not in columns:
        return [("", old, new)]
    kinds = old[columns[name]]
    parts = []
    for kind in kinds.unique():
        there = kinds == kind
        parts.append((f" of {kind}", old[there], new[there]))
    return parts


def _list_numeric(name: str, frame: pd.DataFrame) -> list[str]:
    """Columns of measured numbers."""
    if name == "features":
        return [label for label in frame.select_dtypes("float64") if frame[label].notna().any()]
    labels = []
    for label, column in TABLES[name].columns.items():
        if column.dtype == "float64" and label in frame:
            labels.append(label)
    return labels


def _build_features(frames: Mapping[str, pd.DataFrame], depth: int) -> pd.DataFrame:
    """The row of `features` of one model's rows, without its geometry."""
    names = {
        "run_id": NAME,
        "model_id": NAME,
        "revision": "main",
        "n_layers": depth,
        "stages": 1,
        "source": NAME,
    }
    of_runs = ("layers", "summaries", "transitions", "weights")
    tables: dict[str, pd.DataFrame] = {}
    for name in ("runs", "models", *of_runs):
        if name in of_runs:
            rows = frames.get(name, pd.DataFrame()).assign(run_id=NAME)
        else:
            rows = pd.DataFrame([names])
        features = add_later_columns(rows, name)
        dtypes = list_dtypes(name)
        texts = {}
        for label, dtype in dtypes.items():
            if dtype == "str" and label not in features:
                texts[label] = ""
        whole = features.assign(**texts).reindex(columns=list(dtypes))
        tables[name] = whole.astype(dtypes)
    return combine(**tables)
