"""A mapping for rows that came without one, filled in from the names of their columns, as text to read and to paste.

Names say little: units, the position of a token and which gain a number is are asked for too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.next_steps import SHELL, Code, call, command
from thermostats.tables.cells import numbers_of
from thermostats.tables.column_map import columns_of_rows
from thermostats.tables.model_gains import is_gain
from thermostats.tables.norms import STREAM
from thermostats.tables.synonyms import fitting

FACTS = ("model_id", "heritage", "n_layers", "n_heads", "d_head", "d_model", "n_params")
"""Columns of models that are looked for under other names; what is called gain is the last block's."""
ROWS = ("model_id", "layer", "prompt_id")
"""Columns of a table with a row a layer that are looked for under other names."""
PLAIN_GAINS = ("gain", "gains", "growth", "ratio")
"""What a gain is called where it is not said which."""
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
        return call("join", where if is_file else Code("df"), mapping=mapping, data=folder)
    lines, name = "\n".join(_toml(mapping)), _free("map.toml")
    line = command("join", where, map=name, data=folder)
    return f"save the mapping and join with it:\ncat > {name} <<'END'\n{lines}\nEND\n{line}"


def _free(name: str) -> str:
    """A name of a file that is not there yet."""
    path = Path(name)
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return str(path if not path.exists() else next(other for other in others if not other.exists()))


def doubts_of(frame: pd.DataFrame) -> str:
    """What a suggested mapping takes for granted, and what it leaves out that looks like more."""
    mapping = _mapping(frame, "mine")
    doubts = []
    if "last_gain" in mapping.get("columns", {}).values():
        doubts.append("which gain it is (last_gain, penultimate_gain, …)")
    if "position" in mapping.get("constants", {}):
        doubts.append(f"which token's {'norms' if 'norms' in mapping else 'gains'} these are")
    if "norms" in mapping:
        doubts.append("whether the last norm is of the stream (last: normed, where it is that of hidden_states)")
    if norm := next((name for name in mapping.get("ignore", ()) if name == fitting("norm", [*map(str, frame)])), ""):
        doubts.append(f"whether {norm} is what enters the block (then it is norm_in)")
    if mapping.get("factors"):
        doubts.append("the unit of n_params")
    return f"check {', '.join(doubts)}" if doubts else ""


def _mapping(frame: pd.DataFrame, source: str) -> dict[str, Any]:
    """Entries of a mapping whose columns are there; none where no model is named."""
    names, wide = [*map(str, frame)], _wide(frame)
    by_layer = bool(wide) or bool(fitting("layer", names))
    ours = columns_of_rows("layers" if by_layer else "models")
    columns = {name: name for name in names if name in ours or (not by_layer and is_gain(name))}
    columns |= {theirs: own for own in (ROWS if by_layer else FACTS) if (theirs := _theirs(own, names, columns))}
    norms: dict[str, str] = {}
    if wide:
        columns = {theirs: own for theirs, own in columns.items() if own in ("model_id", "prompt_id")}
    elif gain := next((name for name in names if name.casefold() in PLAIN_GAINS and name not in columns), ""):
        columns[gain] = "gain_block" if by_layer else "last_gain"
    elif by_layer and "gain_block" not in columns and (norm := fitting("norm", names)):
        norms = {"state": fitting("layer", names), "norm": norm, "last": STREAM}
        columns = {theirs: own for theirs, own in columns.items() if own != "layer" and theirs != norm}
    if "model_id" not in columns.values():
        return {}
    used = {*columns, *norms.values()}
    spare = [name for name in names if name not in used and not (wide and _numbered(name, wide))]
    constants = {"source": source} if "source" not in columns.values() else {}
    at = {"position": POSITION} if by_layer and "position" not in columns.values() else {}
    mapping: dict[str, Any] = {
        "table": "layers" if norms else "",
        "columns": columns,
        "factors": {} if by_layer else _factors(frame, columns),
        "constants": {**constants, **at},
        "wide": {"columns": f"{wide}*", "name": "layer", "value": "gain_block"} if wide else {},
        "norms": norms,
        "ignore": spare,
    }
    return {name: entry for name, entry in mapping.items() if entry}


def _theirs(ours: str, names: Sequence[str], taken: Mapping[str, str]) -> str:
    """Their name of one of our columns that none is called as, of those that are not taken."""
    return "" if ours in taken.values() else fitting(ours, [name for name in names if name not in taken])


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
    plain = [name for name in ("table", "ignore") if name in mapping]
    lines = [f"{name} = {json.dumps(mapping[name], ensure_ascii=False)}" for name in plain]
    for name, entry in mapping.items():
        if name not in plain:
            pairs = [f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
            lines += [f"[{name}]", *pairs]
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
