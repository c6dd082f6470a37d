"""A mapping for rows that came without one, filled in from the names of their columns, as text to read and to paste.

Names say little: units, the position of a token and which gain a number is are asked for too.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.tables.cells import numbers_of
from thermostats.tables.remedies import SHELL, written

FACTS = {
    "model_id": "model name model_name id checkpoint",
    "heritage": "lab organisation organization org company developer",
    "n_layers": "layers depth num_layers num_hidden_layers n_layer blocks",
    "n_heads": "heads num_heads num_attention_heads n_head",
    "d_model": "hidden hidden_size width dim n_embd",
    "n_params": "params parameters n_parameters size num_parameters params_m params_b",
    "last_gain": "gain gains",
}
"""Ours → names that a column of a table of models may have; what else is called gain is the last block's."""
ROWS = {
    "model_id": FACTS["model_id"],
    "layer": "block layer_no layer_idx layer_index layer_id",
    "prompt_id": "prompt prompt_name text_id",
    "gain_block": "gain growth ratio",
}
"""Ours → names that a column of a table with a row a layer may have."""
NUMBERED = re.compile(r"(?P<before>.*?)[0-9]+")
LEAST = 3
"""Columns with a number in their names that are taken for one quantity, a column a layer."""
POSITION = "last"


def suggested(frame: pd.DataFrame, where: str, data: str | Path | None) -> str:
    """The mapping as a file and the line that uses it, or for rows in memory the call; empty where no name is known."""
    is_file = bool(Path(where).suffix)
    mapping = _mapping(frame, Path(where).stem if is_file else "mine")
    if not mapping:
        return ""
    folder = str(data or "mine")
    if not (is_file and SHELL.get()):
        rows = written(where) if is_file else "df"
        return f"thermostats.join({rows}, mapping={written(mapping)}, data={written(folder)})"
    lines, name = "\n".join(_toml(mapping)), _free("map.toml")
    command = shlex.join(["thermostats", "join", where, "--map", name, "--data", folder])
    return f"save the mapping and join with it:\ncat > {name} <<'END'\n{lines}\nEND\n{command}"


def _free(name: str) -> str:
    """A name of a file that is not there yet."""
    path = Path(name)
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return str(path if not path.exists() else next(other for other in others if not other.exists()))


def doubts_of(frame: pd.DataFrame) -> str:
    """What a suggested mapping takes for granted."""
    mapping = _mapping(frame, "mine")
    doubts = []
    if "last_gain" in mapping.get("columns", {}).values():
        doubts.append("which gain it is (last_gain, penultimate_gain, …)")
    if "position" in mapping.get("constants", {}):
        doubts.append("which token's gains these are")
    if mapping.get("factors"):
        doubts.append("the unit of n_params")
    return f"check {', '.join(doubts)}" if doubts else ""


def _mapping(frame: pd.DataFrame, source: str) -> dict[str, Any]:
    """Entries of a mapping whose columns are there; none where no model is named."""
    wide = _wide(frame)
    by_layer = bool(wide) or bool(_known(frame, {"layer": ROWS["layer"]}))
    columns = _known(frame, ROWS if by_layer else FACTS)
    if wide:
        columns = {theirs: ours for theirs, ours in columns.items() if ours in ("model_id", "prompt_id")}
    if "model_id" not in columns.values():
        return {}
    spare = [name for name in map(str, frame.columns) if name not in columns and not (wide and _numbered(name, wide))]
    constants = {"source": source} if "source" not in frame else {}
    mapping: dict[str, Any] = {
        "columns": columns,
        "factors": {} if by_layer else _factors(frame, columns),
        "constants": {**constants, **({"position": POSITION} if by_layer else {})},
        "wide": {"columns": f"{wide}*", "name": "layer", "value": "gain_block"} if wide else {},
        "ignore": spare,
    }
    return {name: entry for name, entry in mapping.items() if entry}


def _known(frame: pd.DataFrame, names: Mapping[str, str]) -> dict[str, str]:
    """Theirs → ours of columns whose names are known, each of ours once."""
    there = {str(name).casefold(): str(name) for name in frame.columns}
    columns: dict[str, str] = {}
    for ours, others in names.items():
        theirs = next((there[name] for name in (ours, *others.split()) if name in there), None)
        if theirs is not None:
            columns[theirs] = ours
    return columns


def _wide(frame: pd.DataFrame) -> str:
    """What stands before the number in columns that are one quantity, a column a layer; empty where there are none."""
    before = pd.Series([match["before"] for name in map(str, frame) if (match := NUMBERED.fullmatch(name))], dtype=str)
    counted = before[before != ""].value_counts()
    return str(counted.index[0]) if len(counted) and counted.iloc[0] >= LEAST else ""


def _numbered(name: str, before: str) -> bool:
    return name.startswith(before) and name.removeprefix(before).isdigit()


def _factors(frame: pd.DataFrame, columns: Mapping[str, str]) -> dict[str, int]:
    """By what numbers of parameters are to be multiplied, by the ending of their name or their size."""
    theirs = next((name for name, ours in columns.items() if ours == "n_params"), None)
    if theirs is None:
        return {}
    values = numbers_of(frame[theirs])[0].astype("float64").dropna()
    if theirs.casefold().endswith("_b") or (len(values) and values.max() < 1000 and values.min() < 1):
        return {"n_params": 10**9}
    return {"n_params": 10**6} if theirs.casefold().endswith("_m") or (len(values) and values.max() < 10**6) else {}


def _toml(mapping: Mapping[str, Any]) -> Sequence[str]:
    """Lines of a mapping file."""
    lines = [f"ignore = {json.dumps(mapping['ignore'])}"] if "ignore" in mapping else []
    for name, entry in mapping.items():
        if name != "ignore":
            pairs = [f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
            lines += [f"[{name}]", *pairs]
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
