"""What a mapping says: other people's columns and ours, from a TOML file, a dict, or a recipe that ships.

A mapping file is TOML, and a dict has the same entries::

    table = "layers"
    ignore = ["notes"]            # their columns to leave out; "*": all that are not named

    [columns]                     # theirs = ours
    block = "layer"
    growth = "gain_block"

    [factors]                     # ours = number that their values are multiplied by
    norm_in = 0.001

    [constants]                   # ours = value of every row
    position = "last"
    model_id = "EleutherAI/pythia-160m"
    source = "my own hooks"

    [wide]                        # columns that hold one quantity, a column a layer: a row for each
    columns = "layer_*"           # * is what `name` takes; or theirs = value of `name`, as a table
    name = "layer"
    value = "gain_block"

    [norms]                       # of layers: gains are made of norms, see `tables/norms.py`
    state = "hook"
    norm = "norm"
    last = "normed"
    states = "inputs"             # or "outputs"; needed where there are fewer than L + 1

A dict of names alone, `{"block": "layer", "growth": "gain_block"}`, is the part [columns]. Recipes (`RECIPES`) say
besides what their columns may be called, `[aliases]`, and which rows count, `[only]`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import UsageError, unknown
from thermostats.tables.arguments import RECIPES
from thermostats.tables.join_columns import REFUSED
from thermostats.tables.model_gains import parts
from thermostats.tables.norms import NORMED, OUTPUTS, UNKNOWN, check_entries
from thermostats.tables.schemas import FLOAT, INTEGER, TABLES, dtypes
from thermostats.tables.validation import wanted_instead

FOLDER = Path(__file__).parent / "recipes"
OTHERS = "*"
ENTRIES = {
    "table": str,
    "columns": dict,
    "factors": dict,
    "constants": dict,
    "ignore": list | str,
    "norms": dict,
    "wide": dict,
}
"""Entries of a mapping with their types."""
OF_RECIPES = {"aliases": dict, "only": dict}
WIDE = ("columns", "name", "value")


@dataclass(frozen=True)
class ColumnMap:
    """Whose column is which; see the module's text."""

    table: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    ignore: tuple[str, ...] | str = ()
    norms: Mapping[str, Any] = field(default_factory=dict)
    wide: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, list[str]] = field(default_factory=dict)
    only: Mapping[str, str] = field(default_factory=dict)


def load_map(
    source: str | Path | Mapping[str, Any],
    table: str | None = None,
    recipe: str = "",
    constants: Mapping[str, Any] | None = None,
    states: str = "",
) -> ColumnMap:
    """A mapping from a file or a dict with further constants, over the recipe of this name, if there is one.

    table: where the mapping does not say it; else it follows from the columns of ours that the mapping names.
    states: what the states of `[norms]` are, as there.

    Raises UsageError where there is no such file or recipe, it is not TOML, it names a table or column that there is
    not, or a constant is not what its column holds.
    """
    beneath = _recipe(recipe) if recipe else ColumnMap(table=table or "")
    where: object = "mapping"
    if isinstance(source, Mapping):
        content = dict(source)
        if not set(content) <= set(ENTRIES):
            if not all(isinstance(value, str) for value in content.values()):
                name = next(name for name in content if name not in ENTRIES)
                raise unknown("a mapping has no such entry", name, ENTRIES, where=where)
            content = {"columns": content}
    else:
        where = Path(source)
        content = _read(Path(source))
    loaded = _made(content, where, ENTRIES)
    loaded = replace(loaded, constants={**loaded.constants, **(constants or {})})
    filled = {*loaded.columns.values(), *loaded.constants}
    aliases = {ours: names for ours, names in beneath.aliases.items() if ours not in filled}
    mapping = _over(replace(beneath, aliases=aliases), loaded)
    mapping = replace(mapping, norms=_of_states(mapping.norms, loaded.norms, states, where))
    if not mapping.table:
        mapping = replace(mapping, table=_table_of(mapping, where))
    _check(mapping, where)
    return mapping


def load_maps(
    source: str | Path | Mapping[str, Any],
    table: str | None = None,
    recipe: str = "",
    constants: Mapping[str, Any] | None = None,
    states: str = "",
) -> list[ColumnMap]:
    """As `load_map`; a mapping of models with named gains (`tables/model_gains.py`) is one of each table."""
    if table or recipe or states:
        return [load_map(source, table, recipe, constants, states)]
    content = dict(source) if isinstance(source, Mapping) else _read(Path(source))
    if constants and not set(content) <= set(ENTRIES):
        content = {"columns": content}
    if constants:
        content = {**content, "constants": {**content.get("constants", {}), **constants}}
    several = parts(content, tuple(ENTRIES))
    return [load_map(each) for each in several] if len(several) > 1 else [load_map(source, None, "", constants)]


def _of_states(norms: Mapping[str, Any], stated: Mapping[str, Any], states: str, where: object) -> Mapping[str, Any]:
    """`[norms]` with what its states are. A recipe's `normed` is of the last of L + 1; of outputs it is not known.

    stated: what the user's own `[norms]` says.
    """
    if states and not norms:
        allowed = "states of norms: a recipe of norms, or a mapping with [norms]"
        raise UsageError("these rows have no states", where=where, got=f"states = {states!r}", allowed=allowed)
    norms = {**norms, **({"states": states} if states else {})}
    unknown_last = norms.get("states") == OUTPUTS and norms.get("last") == NORMED and "last" not in stated
    return {**norms, "last": UNKNOWN} if unknown_last else norms


def _recipe(name: str) -> ColumnMap:
    if name not in RECIPES:
        raise unknown("no such recipe", name, RECIPES)
    path = FOLDER / f"{name}.toml"
    return _made(_read(path), path, {**ENTRIES, **OF_RECIPES})


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise UsageError("no such mapping file", where=path) from error
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"the mapping file cannot be read: {error}", where=path) from error


def _made(content: Mapping[str, Any], where: object, entries: Mapping[str, Any]) -> ColumnMap:
    for name, value in content.items():
        if name not in entries:
            raise unknown("a mapping has no such entry", name, entries, where=where)
        if not isinstance(value, entries[name]):
            raise UsageError(f"{name} of the mapping is not valid", where=where, got=repr(value))
    ignore = content.get("ignore", ())
    return ColumnMap(**{**content, "ignore": ignore if isinstance(ignore, str) else tuple(map(str, ignore))})


def _over(beneath: ColumnMap, mapping: ColumnMap) -> ColumnMap:
    """A mapping whose entries stand over those of another."""
    both: dict[str, Any] = {}
    for each in fields(ColumnMap):
        low, high = getattr(beneath, each.name), getattr(mapping, each.name)
        both[each.name] = {**low, **high} if isinstance(low, Mapping) else high or low
    return ColumnMap(**both)


def _table_of(mapping: ColumnMap, where: object) -> str:
    """The table whose columns a mapping names."""
    wide = {mapping.wide.get("name"), mapping.wide.get("value")} - {None}
    names = {*mapping.columns.values(), *mapping.factors, *mapping.constants, *wide}
    fit = {name: len(names & set(dtypes(name))) for name in TABLES if name not in REFUSED}
    best = [name for name in fit if names and names <= set(columns_of_rows(name)) and fit[name] == max(fit.values())]
    if len(best) != 1:
        got = f"its columns fit {' and '.join(best)}" if best else "no table of ours has all columns that it names"
        step = "name it: table = \"layers\" in the mapping, or table='layers' in Python"
        raise UsageError("the mapping names no table", where=where, got=got, allowed=", ".join(fit), next_step=step)
    return best[0]


def _check(mapping: ColumnMap, where: object) -> None:
    if mapping.table not in TABLES:
        raise unknown("the mapping names no table", mapping.table, TABLES, where=where)
    if mapping.norms and mapping.table != "layers":
        raise UsageError("[norms] is only for the table layers", where=where, got=mapping.table)
    if mapping.norms:
        check_entries(mapping.norms, where)
    ours, listing = columns_of_rows(mapping.table), f"thermostats ls columns {mapping.table}"
    made = {str(mapping.norms.get(name)) for name in ("state", "norm")} if mapping.norms else set()
    if mapping.wide:
        _check_wide(mapping, [*ours, *made], where)
    parts = {"columns": mapping.columns.values(), "factors": mapping.factors, "constants": mapping.constants}
    for part, names in parts.items():
        for name in names:
            if not isinstance(name, str) or name not in (*ours, *(made if part == "columns" else ())):
                what = f"{part} of the mapping is not one of our columns"
                raise unknown(what, name, ours, where=where, otherwise=listing)
    for name, factor in mapping.factors.items():
        number = not isinstance(factor, bool) and isinstance(factor, int | float)
        if ours[name] not in (FLOAT, INTEGER) or not number:
            raise UsageError("a factor is a number for a column of numbers", where=where, got=f"{name} = {factor!r}")
    for name, value in mapping.constants.items():
        owner = mapping.table if name in TABLES[mapping.table].columns else "runs"
        many = "one value, the same in every row" if isinstance(value, list | dict) else ""
        if wanted := many or wanted_instead(value, owner, name):
            raise UsageError(
                "a constant of the mapping does not fit its column",
                where=where,
                got=f"{name} = {value!r}",
                allowed=wanted,
                next_step=f"thermostats ls columns {owner}",
            )


def _check_wide(mapping: ColumnMap, names: Sequence[str], where: object) -> None:
    if lacking := [name for name in WIDE if name not in mapping.wide]:
        raise UsageError(f"[wide] lacks {lacking[0]}", where=where, allowed=", ".join(WIDE))
    for name in ("name", "value"):
        if mapping.wide[name] not in names:
            step = f"thermostats ls columns {mapping.table}"
            raise unknown(f"{name} of [wide] is not one of our columns", mapping.wide[name], names, otherwise=step)


def columns_of_rows(table: str) -> dict[str, str]:
    """Columns that rows of a table may carry, with their types: its own, and of a table of runs those of the run."""
    types = dtypes(table)
    return {**types, **dtypes("runs"), **types} if "run_id" in types else types


def settled(mapping: ColumnMap, frame: pd.DataFrame) -> ColumnMap:
    """A mapping whose aliases are replaced by the columns that rows have; a recipe's constant gives way to a column."""
    there = {str(name).casefold(): str(name) for name in frame.columns}
    columns, constants, norms = dict(mapping.columns), dict(mapping.constants), dict(mapping.norms)
    for ours, names in mapping.aliases.items():
        name = next((there[name] for name in names if name in there), None)
        if name is None or name in columns:
            continue
        if ours in norms:
            norms[ours] = name
        else:
            columns[name] = ours
            constants.pop(ours, None)
    long = bool(mapping.aliases) and norms.get("state") in frame.columns
    wide = {} if long else mapping.wide
    return replace(mapping, columns=columns, constants=constants, norms=norms, wide=wide, aliases={})
