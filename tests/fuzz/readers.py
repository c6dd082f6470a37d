"""Everything that reads what others wrote: sound files, and the call that is given damaged ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from conftest import SHA, layer, model, run, table

from thermostats.errors import ThermostatsError
from thermostats.measurement import checkpoint, prompts, spectra
from thermostats.measurement.model_row import build_model_row, find_stored_dtype
from thermostats.measurement.spec import collect_specs
from thermostats.reporting import build, state
from thermostats.reporting.claim_page import read_entry
from thermostats.tables import incoming, runs, store
from thermostats.tables.column_map import load_map
from thermostats.tables.join import split_tables
from thermostats.tables.validation import convert_rows

SIZES = {"n_layer": 1, "n_head": 2, "n_embd": 4, "n_inner": 8, "vocab_size": 5, "n_positions": 6}
CONFIG = {"model_type": "gpt2", **SIZES, "tie_word_embeddings": True}
SHAPES = {
    "wte.weight": (5, 4),
    "wpe.weight": (6, 4),
    "h.0.ln_1.weight": (4,),
    "h.0.attn.c_attn.weight": (4, 12),
    "h.0.attn.c_proj.weight": (4, 4),
    "h.0.mlp.c_fc.weight": (4, 8),
    "h.0.mlp.c_proj.weight": (8, 4),
}


class Reader(NamedTuple):
    """A reader: the file that it is given, sound ones, the call, and sound files that stand with
    it."""

    name: str
    file: str
    seeds: tuple[bytes, ...]
    call: Callable[[Path], object]
    others: tuple[tuple[str, bytes], ...] = ()


def safetensors(shapes: dict[str, tuple[int, ...]], **lies: object) -> bytes:
    """A safetensors file of float32 numbers; `lies` replace entries of its header."""
    header: dict[str, object] = {}
    at = 0
    for name, shape in shapes.items():
        end = at + 4 * int(pd.Series(shape).prod())
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header | lies).encode()
    return (
        len(text).to_bytes(8, "little")
        + text
        + struct.pack(f"<{at // 4}f", *(0.1 + i % 13 for i in range(at // 4)))
    )


def read_weights(path: Path) -> None:
    """Every tensor of a safetensors file."""
    for tensor in checkpoint.read_safetensors(path).values():
        checkpoint.decode(tensor.read_raw()).sum()


def read_model(path: Path) -> None:
    """What `measure --what weights` reads of a model's folder."""
    build_model_row(path.parent, model_id="a/b", revision="main", models=table("models"))
    find_stored_dtype(checkpoint.open_checkpoint(path.parent))
    spectra.measure_weights(path.parent)


def read_rows(path: Path) -> None:
    """What `join` does with a file before it looks at the store."""
    for name, rows in split_tables(incoming.read(path), None, None, str(path), dict, pd.DataFrame):
        store.encode_csv(convert_rows(rows, name, str(path)), name)


def read_stored(name: str, path: Path) -> None:
    """What every verb does with a file of the store; what is accepted is written as it was read."""
    frame = store.validate(store.read_typed(path, name), name, path)
    again = path.with_name("again.csv")
    again.write_bytes(store.encode_csv(frame, name))
    pd.testing.assert_frame_equal(store.validate(store.read_typed(again, name), name), frame)
    again.unlink()


def read_sidecars(path: Path) -> None:
    """Files that a report, a cache and a measurement keep for themselves; each may refuse."""
    folder = path.parent / runs.FOLDER
    folder.mkdir()
    (folder / "0.json").write_bytes(path.read_bytes())
    try:
        for read in (build.read_seconds, state.read_manifest, runs.read):
            with suppress(ThermostatsError):
                read(path.parent)
    finally:
        (folder / "0.json").unlink()
        folder.rmdir()


def readers() -> dict[str, Reader]:
    """Readers by name."""
    weights, measured = safetensors(SHAPES), run()
    config, index = (
        json.dumps(CONFIG).encode(),
        {"weight_map": dict.fromkeys(SHAPES, "model.safetensors.part")},
    )
    layers = table("layers", *(layer(measured, number, 1.0 + number) for number in (1, 2)))
    prompt = {"prompt_set": "s", "prompt_id": "a", "text": 'x, "y"', "text_sha256": SHA}
    tables = {
        "models": table("models", model()),
        "runs": table("runs", measured),
        "prompts": table("prompts", prompt),
    }
    stored = {
        name: store.encode_csv(frame, name) for name, frame in {"layers": layers, **tables}.items()
    }
    rows = json.dumps(layers.astype(object).to_dict("records"), default=str)
    lines = "\n".join(map(json.dumps, json.loads(rows)))
    stamp = {"machine": {}, "claims": {"C01": "0"}, "seconds": {"C01": 1.0}}
    manifest = {
        "C01": {"script": "0", "code": "0", "page": "0", "selections": {}, "files": {"a": "0"}}
    }
    found = [
        Reader(
            "safetensors header",
            "model.safetensors",
            (weights, safetensors({"a": (2, 0)})),
            read_weights,
        ),
        Reader(
            "model config", "config.json", (config,), read_model, (("model.safetensors", weights),)
        ),
        Reader(
            "shard index",
            "model.safetensors.index.json",
            (json.dumps(index).encode(),),
            lambda path: checkpoint.open_checkpoint(path.parent),
            (("model.safetensors.part", weights),),
        ),
        *(
            Reader(f"table {name}", f"{name}.csv", (text,), partial(read_stored, name))
            for name, text in stored.items()
        ),
        Reader("rows as CSV", "rows.csv", tuple(stored.values()), read_rows),
        Reader("rows as JSON", "rows.json", (rows.encode(), b"[]"), read_rows),
        Reader(
            "rows as JSON lines",
            "rows.jsonl",
            (lines.encode(), b'{"run_id": "a", "layer": 1}\n{}'),
            read_rows,
        ),
        Reader(
            "prompts as text",
            "p.txt",
            (b"Once upon\na time\n", "\u00e9\u202e\n".encode()),
            prompts.read_prompts,
        ),
        Reader(
            "prompts as CSV",
            "p.csv",
            (b'prompt_id,text,complexity\na,"b, c",1\n',),
            prompts.read_prompts,
        ),
        Reader(
            "prompts as JSON lines",
            "p.jsonl",
            (b'{"text": "a b", "complexity": 2}\n',),
            prompts.read_prompts,
        ),
        *(
            Reader(
                f"specs as {form}",
                f"s.{ending}",
                (text,),
                lambda path: collect_specs([str(path)], {}),
            )
            for form, ending, text in (
                ("TOML", "toml", b'[[spec]]\nmodel = "a/b"\nrevision = ["x", "y"]\n'),
                ("CSV", "csv", b"model,revision,token_budget\na/b,main,9\n"),
                ("JSON lines", "jsonl", b'{"model": "a/b", "what": ["gains"]}\n'),
            )
        ),
        Reader(
            "mapping",
            "m.toml",
            (b'table = "layers"\n[columns]\nb = "layer"\n[factors]\nnorm_in = 2\n',),
            load_map,
        ),
        Reader(
            "sidecars",
            "manifest.json",
            (json.dumps(manifest).encode(), json.dumps(stamp).encode()),
            read_sidecars,
        ),
        Reader(
            "findings",
            "findings.json",
            (b'{"claim": {}, "findings": []}',),
            lambda path: read_entry(path.read_bytes()),
        ),
    ]
    return {reader.name: reader for reader in found}
