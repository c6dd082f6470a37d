"""Everything that reads what others wrote: seeds that it accepts, and the call that a fuzzer makes with other bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
from conftest import SHA, STUDY, layer, model, run, table

from thermostats.measurement import checkpoint, prompts, spectra
from thermostats.measurement.facts import model_row, stored_dtype
from thermostats.tables import store

CONFIG = {
    "model_type": "gpt2",
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 4,
    "n_inner": 8,
    "vocab_size": 5,
    "n_positions": 6,
    "tie_word_embeddings": True,
}
SHAPES = {
    "wte.weight": (5, 4),
    "wpe.weight": (6, 4),
    "h.0.ln_1.weight": (4,),
    "h.0.attn.c_attn.weight": (4, 12),
    "h.0.attn.c_proj.weight": (4, 4),
    "h.0.mlp.c_fc.weight": (4, 8),
    "h.0.mlp.c_proj.weight": (8, 4),
}


@dataclass(frozen=True)
class Reader:
    """A reader: the file that it is given, seeds for it, and the call; it may raise ThermostatsError alone."""

    name: str
    file: str
    seeds: tuple[bytes, ...]
    call: Callable[[Path], object]
    others: tuple[tuple[str, bytes], ...] = ()
    """Files that stand beside it, sound ones."""


def safetensors(shapes: dict[str, tuple[int, ...]], **lies: object) -> bytes:
    """A safetensors file of float32 numbers; `lies` replace entries of its header."""
    header: dict[str, object] = {}
    at = 0
    for name, shape in shapes.items():
        size = 4 * pd.Series(shape).prod()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + int(size)]}
        at += int(size)
    text = json.dumps(header | lies).encode()
    numbers = struct.pack(f"<{at // 4}f", *(0.1 + (7 * i % 13) / 8 for i in range(at // 4)))
    return len(text).to_bytes(8, "little") + text + numbers


def read_weights(path: Path) -> None:
    """Open a safetensors file and touch every tensor."""
    for tensor in checkpoint.read_safetensors(path).values():
        checkpoint.decode(tensor.raw()).sum()


def read_model(path: Path) -> None:
    """What `measure --what weights` reads of a model's folder."""
    folder = path.parent
    model_row(folder, model_id="a/b", revision="main", known=table("models"))
    stored_dtype(checkpoint.open_checkpoint(folder))
    spectra.weights(folder, thirds=True)


def read_rows(path: Path) -> None:
    """What `join` does with a file before it looks at the store."""
    from thermostats.tables import incoming
    from thermostats.tables.join import _as_tables
    from thermostats.tables.rows import typed

    for name, rows in _as_tables(incoming.read(path), None, None, str(path), dict):
        store.to_csv(typed(rows, name, str(path)), name)


def read_stored(name: str) -> Callable[[Path], None]:
    """What every verb does with a file of the store; what is accepted is written as it was read."""

    def call(path: Path) -> None:
        frame = store.validate(store.read(path, name), name, path)
        again = path.with_name("again.csv")
        again.write_bytes(store.to_csv(frame, name))
        pd.testing.assert_frame_equal(store.validate(store.read(again, name), name), frame)
        again.unlink()

    return call


def read_sidecars(path: Path) -> None:
    """Files that a report, a cache and a measurement keep for themselves."""
    from thermostats.modelling.inference import cache as draws
    from thermostats.reporting import freshness
    from thermostats.tables import states

    freshness.read_stamp(path.parent)
    freshness.read_seconds(path.parent)
    draws.load(path)
    folder = path.parent / states.FOLDER
    folder.mkdir()
    content = path.read_bytes()
    try:
        (folder / "0.json").write_bytes(content)
        with suppress_refusals():
            states.read(path.parent)
    finally:
        (folder / "0.json").unlink()
        folder.rmdir()
    freshness.read_manifest(path.parent)


def suppress_refusals() -> suppress:
    """Refusals are what is hoped for; the next reader of the same bytes comes after."""
    from thermostats.errors import ThermostatsError

    return suppress(ThermostatsError)


def read_findings(path: Path) -> None:
    """Findings of a report's claim, as the index reads them."""
    from thermostats.reporting.claim_page import read_entry

    read_entry(path.read_bytes())


def read_published(family: str) -> Callable[[Path], None]:
    """One of the study's files through its own reader."""

    def call(path: Path) -> None:
        from thermostats.studies.delia2026.importer import files
        from thermostats.studies.delia2026.importer.importer import READERS as BY_FAMILY
        from thermostats.studies.delia2026.importer.study import UNSTATED_SET, Study

        reader, families = next(pair for pair in BY_FAMILY if family in pair[1])
        sources = {name: files.read(name, _published(name)) for name in families if name != family}
        sources[family] = files.read(family, path)
        study = Study({name: source.document for name, source in sources.items()}, _facts())
        study.prompts(UNSTATED_SET, [("unstated", "", "unstated", None)])
        reader(study, *(study.documents[name] for name in families))
        for document in study.documents.values():
            document.close()

    return call


@cache
def _published(family: str) -> Path:
    from thermostats.studies.delia2026.importer import files

    return files.find(STUDY)[0][family]


@cache
def _facts() -> object:
    from thermostats.studies.delia2026.importer.importer import _facts as facts

    return facts(store.load("models"))


def read_specs(path: Path) -> None:
    """A file of specs for `measure`."""
    from thermostats.measurement.specs import specs

    specs([str(path)], {})


def read_map(path: Path) -> None:
    """A mapping of other people's columns."""
    from thermostats.tables.mapping import load_map

    load_map(path)


def readers() -> dict[str, Reader]:
    """Readers by name."""
    weights = safetensors(SHAPES)
    config = json.dumps(CONFIG).encode()
    measured = run()
    rows = [layer(measured, number, 1.0 + number) for number in (1, 2)]
    stored = {
        "layers": store.to_csv(table("layers", *rows), "layers"),
        "models": store.to_csv(table("models", model()), "models"),
        "runs": store.to_csv(table("runs", measured), "runs"),
        "prompts": store.to_csv(
            table("prompts", {"prompt_set": "s", "prompt_id": "a", "text": 'x, "y"', "text_sha256": SHA}), "prompts"
        ),
    }
    as_json = json.dumps([dict(row) for row in table("layers", *rows).astype(object).to_dict("records")], default=str)
    as_lines = "\n".join(json.dumps(row) for row in json.loads(as_json))
    index = {"weight_map": dict.fromkeys(SHAPES, "model.safetensors.part")}
    stamp = {"machine": {}, "claims": {"C01": "0"}, "seconds": {"C01": 1.0}}
    manifest = {"C01": {"script": "0", "code": "0", "page": "0", "selections": {}, "files": {"a": "0"}}}
    found = [
        Reader("safetensors header", "model.safetensors", (weights, safetensors({"a": (2, 0)})), read_weights),
        Reader("model config", "config.json", (config,), read_model, (("model.safetensors", weights),)),
        Reader(
            "shard index",
            "model.safetensors.index.json",
            (json.dumps(index).encode(),),
            lambda path: checkpoint.open_checkpoint(path.parent),
            (("model.safetensors.part", weights),),
        ),
        *(Reader(f"table {name}", f"{name}.csv", (content,), read_stored(name)) for name, content in stored.items()),
        Reader("rows as CSV", "rows.csv", tuple(stored.values()), read_rows),
        Reader("rows as JSON", "rows.json", (as_json.encode(), b"[]"), read_rows),
        Reader("rows as JSON lines", "rows.jsonl", (as_lines.encode(), b'{"run_id": "a", "layer": 1}\n{}'), read_rows),
        Reader("prompts as text", "p.txt", (b"Once upon\na time\n", "\u00e9\u202e\n".encode()), prompts.read_prompts),
        Reader("prompts as CSV", "p.csv", (b'prompt_id,text,complexity\na,"b, c",1\n',), prompts.read_prompts),
        Reader("prompts as JSON lines", "p.jsonl", (b'{"text": "a b", "complexity": 2}\n',), prompts.read_prompts),
        Reader("specs as TOML", "s.toml", (b'[[spec]]\nmodel = "a/b"\nrevision = ["x", "y"]\n',), read_specs),
        Reader("specs as CSV", "s.csv", (b"model,revision,token_budget\na/b,main,9\n",), read_specs),
        Reader("specs as JSON lines", "s.jsonl", (b'{"model": "a/b", "what": ["gains"]}\n',), read_specs),
        Reader("mapping", "m.toml", (b'table = "layers"\n[columns]\nb = "layer"\n[factors]\nnorm_in = 2\n',), read_map),
        Reader("sidecars", "manifest.json", (json.dumps(manifest).encode(), json.dumps(stamp).encode()), read_sidecars),
        Reader("findings", "findings.json", (b'{"claim": {}, "findings": []}',), read_findings),
    ]
    for family in ("gptj_parallel_test.json", "OPT_anomaly.json", "restriction_map_summary.csv", "H4_validation.json"):
        content = _published(family).read_bytes()
        found.append(Reader(f"published {family}", _published(family).name, (content,), read_published(family)))
    return {reader.name: reader for reader in found}
