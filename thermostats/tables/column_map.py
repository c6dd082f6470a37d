"""What a mapping says: other people's columns and ours, from a TOML file, a dict, or a recipe that
ships.

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

    [norms]                       # of layers: gains are made of norms
    state = "hook"
    norm = "norm"
    last = "normed"
    states = "inputs"             # or "outputs"; needed where there are fewer than L + 1
    form = "raw"                  # or "centred", of the stream less its mean; needed of hooks of
                                  # TransformerLens

A dict of names alone, `{"block": "layer", "growth": "gain_block"}`, is the part [columns]. Recipes
(`RECIPES`) say besides what their columns may be called, `[aliases]`, and which rows count,
`[only]`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import DataError, UsageError, build_unknown_error
from thermostats.tables.choices import RECIPES
from thermostats.tables.entries import drop_empty, drop_names, keep_names, keep_values
from thermostats.tables.remedies import Remedy
from thermostats.tables.schemas import (
    FLOAT,
    GAINS,
    INTEGER,
    TABLES,
    TEXT,
    list_dtypes,
    list_key_columns,
    list_optional,
)
from thermostats.tables.validation import NUMBER, convert_numbers, describe_wanted_value

FILLED_WITH = {
    ("models", "revision"): "main",
    ("runs", "revision"): "main",
    ("runs", "dtype"): "unstated",
    ("runs", "attention"): "unstated",
    ("summaries", "prompt_id"): "",
}
"""What a column is filled with where rows do not have it; any other text is empty."""
TELLING = ("model_id", "source")
"""What rows must say for the run that they are of to follow."""
NEEDED = "needed"
OPTIONAL = "optional"
REFUSED = {
    "findings": "findings are made by `thermostats report`",
    "candidates": "candidates ship with the package; what is known of a model of yours goes to the "
    "table models",
}
"""Tables that nothing is joined to, and why."""
FILLED = {
    ("prompts", "text_sha256"): "filled in from text",
    ("runs", "prompt_sha"): "filled in from prompt_set",
}
FILLED |= {
    place: f"filled in: {value or 'empty, all prompts together'}"
    for place, value in FILLED_WITH.items()
}


SHAPE: tuple[str, ...] = ("d_head", "n_kv_heads", "d_ff", "n_params_nonembedding")
READ = ("heritage", "family", *SHAPE, "norm_kind", "norm_place", "position_scheme", "year")
"""Columns of models that may be left out and that a claim reads."""


def is_optional(table: str, name: str) -> bool:
    """Whether a column may be empty: it is filled in, or no key, and nullable or any text."""
    column = TABLES[table].columns[name]
    if (table, name) in FILLED_WITH:
        return True
    if (table == "runs" and name in TELLING) or name in list_key_columns(table):
        return False
    if column.nullable or name in list_optional(table):
        return True
    return column.dtype == TEXT and (not column.checks or "" in column.checks[0].value)


def describe_requirement(table: str, label: str) -> str:
    """Whether rows that are joined with a mapping must have a column: `needed`, `optional`, or how
    it is filled in.

    Empty for a table that nothing is joined to.
    """
    if table in REFUSED:
        return ""
    if label == "run_id":
        return f"filled in from {' and '.join(TELLING)}"
    return FILLED.get((table, label), OPTIONAL if is_optional(table, label) else NEEDED)


IDENTITY = ("model_id", "revision", "source")
"""What a gain has of its model, and whose both are."""
NAMED_GAINS = (*GAINS, *(f"{gain}_sd" for gain in GAINS))
"""Names of gains, and of their standard deviations over prompts."""


def is_gain(name: object) -> bool:
    """Whether a name is that of a gain, or of its standard deviation over prompts."""
    return isinstance(name, str) and name in NAMED_GAINS


def split_mapping(content: Mapping[str, Any], entries: Sequence[str]) -> list[dict[str, Any]]:
    """A mapping as those of the tables that it fills: itself, or where it names gains one of models
    and one a gain."""
    plain = not set(content) <= set(entries)
    columns = dict(content) if plain else dict(content.get("columns", {}))
    gains = keep_values(columns, NAMED_GAINS)
    if not gains or content.get("table"):
        return [dict(content)]
    facts = drop_names(columns, gains)
    rest: Mapping[str, Any] = {} if plain else content
    constants = dict(rest.get("constants", {}))
    factors = dict(rest.get("factors", {}))
    if not {"model_id"} & {*facts.values(), *constants}:
        step = 'mapping={"their column of models": "model_id", …}'
        raise UsageError(
            "gains of no model", where="mapping", got=", ".join(columns), next_step=step
        )
    fixed = keep_names(constants, list_dtypes("models"))
    of_models = {
        "table": "models",
        "columns": facts,
        "constants": fixed,
        "factors": drop_names(factors, NAMED_GAINS),
        "ignore": _list_ignored(rest, gains),
    }
    of_models_alone = set(fixed) - set(list_dtypes("runs"))
    of_runs = drop_names(constants, of_models_alone)
    named = keep_values(facts, IDENTITY)
    mappings = [of_models] if set(facts.values()) - set(IDENTITY) else []
    for theirs, gain in gains.items():
        used = {**named, theirs: "value"}
        of_gain = {
            "table": "summaries",
            "columns": used,
            "constants": {**of_runs, "estimand": gain, "prompt_id": ""},
            "factors": {"value": factors[gain]} if gain in factors else {},
            "ignore": _list_ignored(rest, drop_names(columns, used)),
        }
        mappings.append(of_gain)
    return mappings


def _list_ignored(
    rest: Mapping[str, Any], columns: Sequence[str] | Mapping[str, str]
) -> list[str] | str:
    """What the user leaves out, and what another part takes."""
    ignore = rest.get("ignore", [])
    return ignore if isinstance(ignore, str) else [*ignore, *columns]


NEEDED_NORMS = {
    "state": "column of states, by number or hook name",
    "norm": "column of norms",
    "last": "stream or normed",
}
"""What `[norms]` of a mapping file says."""
INPUTS = "inputs"
OUTPUTS = "outputs"
STATES = {INPUTS: "they are what enters the blocks", OUTPUTS: "they are what leaves the blocks"}
"""What `states` of `[norms]` may be."""
STREAM = "stream"
NORMED = "normed"
UNKNOWN = "unknown"
LAST = (STREAM, NORMED, UNKNOWN)
RAW, CENTRED = FORMS = ("raw", "centred")
"""Whether norms are those of the stream, or of what is left of it without its mean over
channels."""
READ_COLUMNS = {"norm_in": "read_norm", "gain_block": "gain_read"}
"""Columns of norms of the stream → of norms of what LayerNorms read of it."""
NO_RAW = "the stream was centred, so norms of the stream itself are not known"
ENTRIES = {
    **NEEDED_NORMS,
    "states": " or ".join(STATES),
    "counted_from": "0 or 1, number of the first block's state",
    "form": " or ".join(FORMS),
}
EARLIER = {"first": 'states = "outputs" and counted_from = 0 say that state 0 leaves block 1'}
"""Entries of earlier versions, and what says the same now."""
HOOK = re.compile(r"(?:blocks\.)?(\d+)(?:\.hook_resid)?_(pre|post)")
"""A state by name: a hook of TransformerLens, or a label of its stacks of the accumulated stream
(`3_pre`)."""
MODULE = re.compile(r"(?:[\w.]+\.)?(?:layers?|h|blocks?)\.(\d+)\.(input|output)s?(?:\.0|\[0\])?")
"""A state by module, as nnsight has it: `model.layers.3.output.0` is x_4,
`transformer.h.3.input` x_3."""
FINAL = "final_post"
"""What such a stack calls x_L."""
AGREE = 1e-4
"""Relative difference of two norms for one state."""


def convert_norms(
    frame: pd.DataFrame, norms: Mapping[str, Any], where: object, models: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """G_l = n_l / n_(l−1): `layer` l, `norm_in` n_(l−1) and `gain_block` G_l in the place of states
    and norms.

    Where the last state is `normed`, also the ratio of its norm to n_(L−1), in a second frame, as
    `normed_gain`.

    States are names of TransformerLens, of which `blocks.3.hook_resid_post` is x_4,
    `blocks.3.hook_resid_pre` and `3_pre` are x_3 and `final_post` is x_L, or numbers. Of L + 1
    states, numbered 0 to L, state l is x_l. Fewer may be what enters the blocks or what leaves
    them, so `states` says which: state 0 (or 1, where they count from 1) is x_0 for `inputs`, x_1
    for `outputs`. All other columns say whose norms they are. last: whether x_L is the stream, or
    `normed` as the last of the hidden states of transformers is, or `unknown`; then the
    gain of block L is not known.

    form: `centred` norms, as TransformerLens has them by default, are what LayerNorms read of the
    stream: `read_norm` and `gain_read` take the place of `norm_in` and `gain_block`, which no
    centred stream has.

    models: `n_layers`, `norm_place` and `norm_kind` of the model of each row, missing where it
    is not known.

    Raises UsageError where an entry or a column is missing or it is not said what the states are,
    or of hooks of TransformerLens in which form; DataError for states that are no states, norms
    that are not above 0, two norms for one state, normed states of a model without a final norm,
    and centred norms of one that does not subtract a mean.
    """
    check_entries(norms, where)
    for name in ("state", "norm"):
        if norms[name] not in frame:
            what = f"the column of {name}s is missing"
            raise build_unknown_error(what, norms[name], map(str, frame), where=where)
    others = list(frame.columns.drop([norms["state"], norms["norm"]]))
    facts = pd.DataFrame(index=frame.index) if models is None else models
    facts = facts.reindex(columns=["n_layers", "norm_place", "norm_kind"])
    named = frame[norms["state"]]
    form = _find_form(named, facts, norms, where)
    stated = frame[norms["norm"]]
    rows = frame[others].assign(norm=convert_numbers(stated)[0])
    rows["depth"] = facts["n_layers"].astype("float64")
    if wrong := stated[~(rows["norm"] > 0)].tolist():
        raise DataError("a norm is a number above 0", where=where, got=repr(wrong[0]))
    rows["state"] = _read_states(named, rows, others, norms, where)
    rows["post"] = facts["norm_place"].eq("post")
    rows = compute_ratios(rows, [*others, "depth", "post"], where)
    last = rows["layer"] == rows["depth"].fillna(rows["last"])
    of_last = rows[last].rename(columns={"gain_block": "normed_gain"})
    is_normed = norms["last"] == NORMED
    if is_normed and of_last["post"].any():
        raise DataError(
            "no final norm is known of this model, which norms after every sum: its last state is "
            "the stream",
            where=where,
            got="last = normed",
            remedy=Remedy(when="read it so", mapping={"norms": {"last": STREAM}}),
        )
    gains = rows if norms["last"] == STREAM else rows[~last]
    of_gains = [*others, "layer", "norm_in", "gain_block"]
    gains = gains[of_gains].reset_index(drop=True)
    if form == CENTRED:
        gains = convert_read_gains(gains)
    normed = of_last if is_normed else rows[:0]
    normed = normed.reindex(columns=[*others, "normed_gain"])
    return gains, normed.reset_index(drop=True)


def convert_read_gains(gains: pd.DataFrame) -> pd.DataFrame:
    """Gains of a centred stream as read gains; of the stream itself there are none, and the reason
    stands with them."""
    return gains.rename(columns=READ_COLUMNS).assign(missing=NO_RAW)


def _find_form(
    states: pd.Series, facts: pd.DataFrame, norms: Mapping[str, Any], where: object
) -> str:
    """The form of norms; asked for where TransformerLens named the states of a model that it
    centres by default."""
    form = str(norms.get("form", ""))
    uncentred = facts["norm_kind"].eq("RMSNorm") | facts["norm_place"].eq("post")
    if form == CENTRED and uncentred.any():
        as_it_is = "where the tool left the stream as it is, as TransformerLens does"
        raise DataError(
            "blocks of this model do not subtract the mean of what they read, so its centred norms "
            "are no read norms",
            where=where,
            got=f"form = {CENTRED}",
            remedy=Remedy(when=as_it_is, words={"form": RAW}),
        )
    named = states.astype(str)
    hooks = named.str.fullmatch(HOOK.pattern) | states.eq(FINAL)
    centred = states[hooks & ~uncentred]
    if form or centred.empty:
        return form or RAW
    unprocessed = Remedy(when="if loaded by from_pretrained_no_processing", words={"form": RAW})
    processed = Remedy(when="if loaded by from_pretrained", words={"form": CENTRED})
    raise UsageError(
        "TransformerLens folds norms and centres the stream unless it is loaded without "
        "processing: in which form?",
        where=where,
        got=f"states such as {centred.iloc[0]}",
        allowed=_list_values("form", FORMS),
        remedy=(unprocessed, processed),
    )


def _list_values(entry: str, values: Iterable[str]) -> str:
    """What an entry of a mapping file may say."""
    return ", ".join(f'{entry} = "{value}"' for value in values)


def check_entries(norms: Mapping[str, Any], where: object) -> None:
    """Raise UsageError where an entry of `[norms]` is missing, or is none or has a value that it
    may not have."""
    for name, what in NEEDED_NORMS.items():
        if name not in norms:
            raise UsageError(f"[norms] lacks {name}", where=where, allowed=what)
    for name in norms:
        if name in EARLIER:
            raise UsageError(
                f"[norms] has no {name} any more", where=where, next_step=EARLIER[name]
            )
        if name not in ENTRIES:
            raise build_unknown_error("[norms] has no such entry", name, ENTRIES, where=where)
    kinds = (
        ("last", "kind of last state", LAST),
        ("states", "kind of states", STATES),
        ("form", "form of norms", FORMS),
    )
    for name, what, values in kinds:
        if name in norms and norms[name] not in values:
            raise build_unknown_error(f"no such {what}", norms[name], values, where=where)
    if norms.get("form") == CENTRED and norms["last"] == NORMED:
        step = f'last = "{STREAM}" or last = "{UNKNOWN}"'
        raise UsageError(
            "a normed last state is over the raw stream",
            where=where,
            got="form = centred",
            next_step=step,
        )
    if norms.get("counted_from", 0) not in (0, 1):
        raise UsageError(
            "states count from 0 or from 1",
            where=where,
            got=f"counted_from = {norms['counted_from']!r}",
        )


def compute_ratios(rows: pd.DataFrame, others: Sequence[str], where: object) -> pd.DataFrame:
    """Of rows with `state` l and `norm` n_l those with n_(l−1): `layer`, `norm_in`, `gain_block`;
    `last`: largest l.

    others: columns that say whose norms they are. Raises DataError for two norms for one state.
    """
    by = [*others, "state"]
    spread = rows.groupby(by, dropna=False)["norm"].agg(["min", "max"])
    if (spread["max"] > spread["min"] * (1 + AGREE)).any():
        raise DataError("two norms for one state", where=where, got=str(spread.idxmax()["max"]))
    rows = rows.drop_duplicates(by).sort_values(by)
    whose = _group_rows(rows, others)
    before = whose[["state", "norm"]].shift()
    gain = rows["norm"] / before["norm"]
    made = rows.assign(layer=rows["state"], norm_in=before["norm"], gain_block=gain)
    made["last"] = whose["state"].transform("max")
    return made[rows["state"] == before["state"] + 1]


def _group_rows(rows: pd.DataFrame, others: Sequence[str]) -> Any:
    by: Any = list(others) or np.zeros(len(rows))
    return rows.groupby(by, dropna=False)


def _read_states(
    values: pd.Series,
    rows: pd.DataFrame,
    others: Sequence[str],
    norms: Mapping[str, Any],
    where: object,
) -> list[int]:
    """Our numbers of states that are named or numbered; DataError for what is neither, or both."""
    states = []
    unnamed = []
    for value, depth in zip(values, rows["depth"], strict=True):
        state = _read_state_name(value, depth)
        if state is None:
            unnamed.append(value)
        else:
            states.append(state)
    if not unnamed:
        return states
    numbers = [_parse_number(value, where) for value in unnamed]
    if states:
        what = "states by name and by number"
        raise DataError(what, where=where, got=repr(unnamed[0]), allowed="one or the other")
    shift = _shift(rows.assign(state=numbers), others, norms, where)
    return [number + shift for number in numbers]


def _read_state_name(value: object, depth: float) -> int | None:
    """The number of a state that is named; None where its name says none."""
    if value == FINAL:
        return None if np.isnan(depth) else int(depth)
    name = str(value)
    hook = HOOK.fullmatch(name) or MODULE.fullmatch(name)
    if hook is None:
        return None
    leaves_block = hook[2] in ("post", "output")
    return int(hook[1]) + leaves_block


def _parse_number(value: object, where: object) -> int:
    text = str(value)
    number = float(text) if NUMBER.fullmatch(text) else -1.0
    if number < 0 or number != int(number):
        allowed = "0 to L, or blocks.0.hook_resid_pre to blocks.(L-1).hook_resid_post"
        raise DataError("not a state of the stream", where=where, got=repr(value), allowed=allowed)
    return int(number)


def _shift(
    rows: pd.DataFrame, others: Sequence[str], norms: Mapping[str, Any], where: object
) -> int:
    """What is added to their numbers of states for state l to be x_l; UsageError where the numbers
    do not say it.

    Of models whose depth is not known nothing can be said, and nothing is asked.
    """
    whose = _group_rows(rows, others)["state"]
    first = whose.transform("min")
    last = whose.transform("max")
    depth = rows["depth"]
    complete = (first == 0) & (last == depth)
    fewer = depth.notna() & (last <= depth) & ~complete
    states = norms.get("states")
    if states is None:
        if fewer.any():
            raise _refuse_unsaid(rows[fewer], where)
        return 0
    if states == OUTPUTS and complete.any():
        what = "states 0 to L are what enters block 1 and what leaves every block, no outputs alone"
        raise UsageError(
            what,
            where=where,
            got=_describe_states(rows[complete]),
            next_step='leave out states = "outputs"',
        )
    bases = {0} if (first == 0).any() else set()
    from_1_to_last = (first > 0) & (last == depth)
    if from_1_to_last.any():
        bases.add(1)
    if "counted_from" not in norms and depth.notna().any() and len(bases) != 1:
        remedies = []
        for base in (0, 1):
            counted = {"norms": {"counted_from": base}}
            remedies.append(Remedy(when=f"from {base}", mapping=counted))
        raise UsageError(
            "the numbers of the states do not say whether they count from 0 or from 1",
            where=where,
            got=_describe_states(rows),
            remedy=tuple(remedies),
        )
    base = norms.get("counted_from", min(bases, default=0))
    return int(states == OUTPUTS) - int(base)


def _describe_states(rows: pd.DataFrame) -> str:
    depth = int(rows["depth"].iloc[0])
    states = rows["state"]
    return f"states {states.min()} to {states.max()} of a model of {depth} blocks"


def _refuse_unsaid(rows: pd.DataFrame, where: object) -> UsageError:
    """The error for fewer states than L + 1 of which it is not said what they are, with a line for
    either."""
    remedies = []
    for name, what in STATES.items():
        remedies.append(Remedy(when=f"if {what}", words={"states": name}))
    return UsageError(
        "of fewer states than 0 to L it must be said whether they are what enters or what leaves "
        "the blocks",
        where=where,
        got=_describe_states(rows),
        allowed=_list_values("states", STATES),
        remedy=tuple(remedies),
    )


FOLDER = Path(__file__).parent / "recipes"
OTHERS = "*"
ENTRIES_COLUMN_MAP = {
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
    form: str = "",
) -> ColumnMap:
    """A mapping from a file or a dict with further constants, over the recipe of this name, if
    there is one.

    table: where the mapping does not say it; else it follows from the columns of ours that the
    mapping names. states, form: what the states and norms of `[norms]` are, as there.

    Raises UsageError where there is no such file or recipe, it is not TOML, it names a table or
    column that there is not, or a constant is not what its column holds.
    """
    beneath = _load_recipe(recipe) if recipe else ColumnMap(table=table or "")
    where: object = "mapping"
    if isinstance(source, Mapping):
        content = dict(source)
        if not set(content) <= set(ENTRIES_COLUMN_MAP):
            if not all(isinstance(value, str) for value in content.values()):
                _check_names(content, ENTRIES_COLUMN_MAP, where)
            content = {"columns": content}
    else:
        where = Path(source)
        content = _read(Path(source))
    loaded = _build_map(content, where, ENTRIES_COLUMN_MAP)
    loaded = replace(loaded, constants={**loaded.constants, **(constants or {})})
    filled = {*loaded.columns.values(), *loaded.constants}
    aliases = drop_names(beneath.aliases, filled)
    mapping = _merge_maps(replace(beneath, aliases=aliases), loaded)
    said = {"states": states, "form": form}
    norms = _resolve_norms(mapping.norms, loaded.norms, said, where)
    mapping = replace(mapping, norms=norms)
    if not mapping.table:
        mapping = replace(mapping, table=_find_table(mapping, where))
    _check(mapping, where)
    return mapping


def load_maps(
    source: str | Path | Mapping[str, Any],
    table: str | None = None,
    recipe: str = "",
    constants: Mapping[str, Any] | None = None,
    states: str = "",
    form: str = "",
) -> list[ColumnMap]:
    """As `load_map`; a mapping of models with named gains is one of each table."""
    if table or recipe or states or form:
        return [load_map(source, table, recipe, constants, states, form)]
    content = dict(source) if isinstance(source, Mapping) else _read(Path(source))
    if constants and not set(content) <= set(ENTRIES_COLUMN_MAP):
        content = {"columns": content}
    if constants:
        content = {**content, "constants": {**content.get("constants", {}), **constants}}
    several = split_mapping(content, tuple(ENTRIES_COLUMN_MAP))
    if len(several) > 1:
        return [load_map(each) for each in several]
    return [load_map(source, None, "", constants)]


def _resolve_norms(
    norms: Mapping[str, Any], stated: Mapping[str, Any], entries: Mapping[str, str], where: object
) -> Mapping[str, Any]:
    """`[norms]` with what its states are. A recipe's `normed` is of the last of L + 1; of outputs
    it is not known.

    stated: what the user's own `[norms]` says. entries: what stands over it, empty ones left out.
    """
    said = drop_empty(entries)
    if said and not norms:
        allowed = "states of norms: a recipe of norms, or a mapping with [norms]"
        got = ", ".join(f"{name} = {value!r}" for name, value in said.items())
        raise UsageError("these rows have no states", where=where, got=got, allowed=allowed)
    norms = {**norms, **said}
    are_outputs = norms.get("states") == OUTPUTS
    if are_outputs and norms.get("last") == NORMED and "last" not in stated:
        return {**norms, "last": UNKNOWN}
    return norms


def _load_recipe(name: str) -> ColumnMap:
    if name not in RECIPES:
        raise build_unknown_error("no such recipe", name, RECIPES)
    path = FOLDER / f"{name}.toml"
    return _build_map(_read(path), path, {**ENTRIES_COLUMN_MAP, **OF_RECIPES})


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise UsageError("no such mapping file", where=path) from error
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"the mapping file cannot be read: {error}", where=path) from error


def _build_map(content: Mapping[str, Any], where: object, entries: Mapping[str, Any]) -> ColumnMap:
    for name, value in content.items():
        _check_names([name], entries, where)
        if not isinstance(value, entries[name]):
            raise UsageError(f"{name} of the mapping is not valid", where=where, got=repr(value))
    wide = keep_names(content.get("wide", {}), ("name", "value"))
    for part, named in {"columns": content.get("columns", {}), "wide": wide}.items():
        for name, value in named.items():
            if isinstance(value, Mapping | list):
                step = f'quote a name that has a dot: "a.b" = "layer" below [{part}]'
                what = f"{part} of the mapping is not valid"
                raise UsageError(what, where=where, got=f"{name} = {value!r}", next_step=step)
    ignore = content.get("ignore", ())
    ignored = ignore if isinstance(ignore, str) else tuple(map(str, ignore))
    return ColumnMap(**{**content, "ignore": ignored})


def _check_names(names: Iterable[str], entries: Mapping[str, Any], where: object) -> None:
    """UsageError for a name that is no entry of a mapping."""
    for name in names:
        if name not in entries:
            raise build_unknown_error("a mapping has no such entry", name, entries, where=where)


def _merge_maps(beneath: ColumnMap, mapping: ColumnMap) -> ColumnMap:
    """A mapping whose entries stand over those of another."""
    both: dict[str, Any] = {}
    for each in fields(ColumnMap):
        low = getattr(beneath, each.name)
        high = getattr(mapping, each.name)
        merged = {**low, **high} if isinstance(low, Mapping) else high or low
        both[each.name] = merged
    return ColumnMap(**both)


def _find_table(mapping: ColumnMap, where: object) -> str:
    """The table whose columns a mapping names."""
    wide = {mapping.wide.get("name"), mapping.wide.get("value")} - {None}
    names = {*mapping.columns.values(), *mapping.factors, *mapping.constants, *wide}
    fit = {}
    for name in TABLES:
        if name not in REFUSED:
            fit[name] = len(names.intersection(list_dtypes(name)))
    most = max(fit.values())
    best = []
    for name, count in fit.items():
        if names and count == most and names <= set(list_columns(name)):
            best.append(name)
    if len(best) != 1:
        got = (
            f"its columns fit {' and '.join(best)}"
            if best
            else "no table of ours has all columns that it names"
        )
        step = "name it: table = \"layers\" in the mapping, or table='layers' in Python"
        raise UsageError(
            "the mapping names no table",
            where=where,
            got=got,
            allowed=", ".join(fit),
            next_step=step,
        )
    return best[0]


def _check(mapping: ColumnMap, where: object) -> None:
    if mapping.table not in TABLES:
        raise build_unknown_error("the mapping names no table", mapping.table, TABLES, where=where)
    if mapping.norms and mapping.table != "layers":
        raise UsageError("[norms] is only for the table layers", where=where, got=mapping.table)
    if mapping.norms:
        check_entries(mapping.norms, where)
    ours = list_columns(mapping.table)
    listing = f"thermostats ls columns {mapping.table}"
    made = list(map(str, keep_names(mapping.norms, ("state", "norm")).values()))
    if mapping.wide:
        _check_wide(mapping, [*ours, *made], where)
    parts = {
        "columns": (mapping.columns.values(), {*ours, *made}),
        "factors": (mapping.factors, ours),
        "constants": (mapping.constants, ours),
    }
    for part, (names, fitting) in parts.items():
        for name in names:
            if not isinstance(name, str) or name not in fitting:
                what = f"{part} of the mapping is not one of our columns"
                raise build_unknown_error(what, name, ours, where=where, otherwise=listing)
    for name, factor in mapping.factors.items():
        number = isinstance(factor, int | float) and not isinstance(factor, bool)
        if ours[name] not in (FLOAT, INTEGER) or not number:
            raise UsageError(
                "a factor is a number for a column of numbers",
                where=where,
                got=f"{name} = {factor!r}",
            )
    for name, value in mapping.constants.items():
        owner = mapping.table if name in TABLES[mapping.table].columns else "runs"
        many = "one value, the same in every row" if isinstance(value, list | dict) else ""
        if wanted := many or describe_wanted_value(value, owner, name):
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
            raise build_unknown_error(
                f"{name} of [wide] is not one of our columns",
                mapping.wide[name],
                names,
                otherwise=step,
            )


def list_columns(table: str) -> dict[str, str]:
    """Columns that rows of a table may carry, with their types: its own, and of a table of runs
    those of the run."""
    types = list_dtypes(table)
    return {**types, **list_dtypes("runs"), **types} if "run_id" in types else types


def resolve_aliases(mapping: ColumnMap, frame: pd.DataFrame) -> ColumnMap:
    """A mapping whose aliases are replaced by the columns that rows have; a recipe's constant gives
    way to a column."""
    written = list(map(str, frame.columns))
    there = dict(zip(map(str.casefold, written), written, strict=True))
    columns = dict(mapping.columns)
    constants = dict(mapping.constants)
    norms = dict(mapping.norms)
    for ours, names in mapping.aliases.items():
        name = next(filter(None, map(there.get, names)), None)
        if name is None or name in columns:
            continue
        if ours in norms:
            norms[ours] = name
        else:
            columns[name] = ours
            constants.pop(ours, None)
    long = bool(mapping.aliases) and norms.get("state") in frame.columns
    wide = {} if long else mapping.wide
    return replace(
        mapping, columns=columns, constants=constants, norms=norms, wide=wide, aliases={}
    )
