"""From other people's columns to ours: rows renamed, converted and filled in under a mapping, and
the runs they are of.

What a mapping says: `column_map.py`. Where rows of a table that belongs to runs carry no `run_id`,
but `model_id` and `source`, their runs are made from the columns of `runs` that they carry.
Hashes of texts and prompt sets are filled in where they are empty.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, UsageError, find_nearest, join_some, suggest_nearest
from thermostats.next_steps import write_value
from thermostats.tables.column_map import (
    FILLED_WITH,
    HOOK,
    MODULE,
    NAMED_GAINS,
    OTHERS,
    STREAM,
    TELLING,
    ColumnMap,
    convert_norms,
    is_gain,
    is_optional,
    list_columns,
    resolve_aliases,
)
from thermostats.tables.entries import drop_empty, drop_names, find_name, keep_names, keep_values
from thermostats.tables.frames import select_rows
from thermostats.tables.labels import (
    BESIDE_GAIN,
    PER_CENT,
    PLAIN_GAINS,
    compares_gains,
    guess_column,
    is_called_gain,
    is_per_cent,
    spell_name,
    split_words,
)
from thermostats.tables.remedies import Remedy
from thermostats.tables.runs import MEASURED, hash_prompts, run_id
from thermostats.tables.schemas import FLOAT, INTEGER, TABLES, TEXT, list_dtypes, list_optional
from thermostats.tables.validation import NUMBER, WORDS, convert_numbers, convert_text, is_missing

MILLION = 10**6
OF_ONE_TOKEN = ("last", "cls")
"""Positions at which the gain of the last block with the final norm in it has a name."""
ROUNDING = 1e-9
"""Relative distance from a whole number that a product of a factor may have."""


def map_rows(
    frame: pd.DataFrame,
    using: ColumnMap,
    where: object,
    models: Callable[[], pd.DataFrame] | None = None,
) -> dict[str, pd.DataFrame]:
    """Rows under our names by table, converted, with constants, and with empty columns where a
    column may be empty.

    Of norms whose last is normed those of `normed_gain` at the last token as well. models: gives
    `n_layers`, `norm_place` and `norm_kind` by `model_id` and by `run_id`.

    Raises UsageError where a column that is named is not there, two become one, or one is neither
    named nor ignored; DataError where a value to be converted is not a number.
    """
    using = resolve_aliases(using, frame)
    frame = _unpack_wide(_filter_rows(frame, using), using, where)
    if not using.norms:
        return {using.table: _rename_columns(frame, using, where)}
    frame = frame.drop(columns=_list_spare(frame, using))
    facts = _read_facts(frame, using, models()) if models is not None else None
    gains, normed = convert_norms(frame, using.norms, where, facts)
    rows = {using.table: _rename_columns(gains, using, where)}
    return rows if normed.empty else rows | _read_normed(_rename_columns(normed, using, where))


def _read_facts(frame: pd.DataFrame, using: ColumnMap, models: pd.DataFrame) -> pd.DataFrame:
    """Facts of the model of each row, which a column or a constant names; missing where none
    does."""
    constants = using.constants
    whose = constants.get("model_id", constants.get("run_id"))
    names = list(map(str, frame))
    columns = {**dict(zip(names, names, strict=True)), **using.columns}
    for theirs in keep_values(columns, ("model_id", "run_id")):
        if theirs in frame:
            whose = convert_text(frame[theirs]).to_numpy()
    by_row = pd.Series(whose, index=frame.index)
    return models.reindex(by_row).set_axis(frame.index)


def _read_normed(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Rows of `summaries` from those of the last block as normed states give it, which at other
    tokens have no name."""
    rows = select_rows(rows, position=OF_ONE_TOKEN)
    ours = [name for name in list_columns("summaries") if name in rows]
    stated = rows[ours].assign(estimand="normed_gain", value=rows["normed_gain"])
    made = fill_columns(stated, "summaries")
    return {} if made.empty else {"summaries": made}


def _rename_columns(frame: pd.DataFrame, using: ColumnMap, where: object) -> pd.DataFrame:
    """Rows as `map_rows`, of one table."""
    ours = dict(list_columns(using.table))
    if using.norms:
        ours["normed_gain"] = FLOAT
    for name, meant in using.columns.items():
        if name not in frame.columns:
            raise _refuse_missing(name, meant, frame, using, where)
    renamed = frame.rename(columns=dict(using.columns))
    spare = [name for name in renamed.columns if name not in ours]
    unnamed: list[str] = []
    for name in spare:
        if using.ignore != OTHERS and name not in using.ignore:
            unnamed.append(str(name))
    if unnamed:
        words = ("name them under columns, or leave them out", describe_errors(unnamed))
        when = "; ".join(filter(None, words))
        raise UsageError(
            "columns that are not ours and that the mapping does not name",
            where=where,
            got=join_some(unnamed, unnamed[0]),
            next_step=suggest_nearest(unnamed[0], ours, "name them under [columns] or in ignore"),
            remedy=Remedy(when=when, mapping={"ignore": unnamed}),
        )
    renamed = renamed.drop(columns=spare)
    twice = set(renamed.columns[renamed.columns.duplicated()])
    twice |= set(using.constants).intersection(renamed.columns)
    if twice:
        raise UsageError(
            "one of our columns is filled twice", where=where, got=", ".join(sorted(twice))
        )
    for name, factor in using.factors.items():
        scaled = None
        if name in renamed:
            scaled = _scale_numbers(renamed[name], factor, ours[name], where)
        renamed[name] = scaled
    _check_unit(renamed, using, where)
    return fill_columns(renamed.assign(**using.constants), using.table)


def _refuse_missing(
    name: str, meant: str, frame: pd.DataFrame, using: ColumnMap, where: object
) -> UsageError:
    """The error for a column that is not there: a pattern of columns, one nearly of that name, or
    one to be named."""
    free = [each for each in map(str, frame) if each not in using.columns]
    near = find_nearest(name, free)
    if pattern := re.fullmatch(r"(.*)(?:\*|\{.*\})(.*)", name):
        step = "columns that hold a layer each stand under wide"
        wide = {"columns": f"{pattern[1]}*{pattern[2]}", "name": "layer", "value": meant}
        change: dict[str, Any] = {"columns": {name: None}, "wide": wide}
    else:
        unknown = f"with the name of your column of {meant} for COLUMN"
        step = f"did you mean {near}?" if near else unknown
        change = {"columns": {name: None, near or "COLUMN": meant}}
    what = "a column that the mapping names is missing"
    allowed = join_some(frame, name)
    remedy = Remedy(when=step.removesuffix("?"), mapping=change)
    return UsageError(
        what, where=where, got=repr(name), allowed=allowed, next_step=step, remedy=remedy
    )


def _check_unit(frame: pd.DataFrame, using: ColumnMap, where: object) -> None:
    """Raise UsageError for parameters that are no whole numbers, as where they are counted in
    millions."""
    if using.table != "models" or "n_params" not in frame or "n_params" in using.factors:
        return
    values = convert_numbers(frame["n_params"])[0].astype("float64").dropna()
    if len(values) and (values % 1 > 0).any() and values.max() < MILLION:
        step = (
            "give the unit: 'factors': {'n_params': 1_000_000} in the mapping, n_params = "
            "1_000_000 under [factors]"
        )
        what = "parameters are counted one by one"
        allowed = "whole numbers"
        remedy = Remedy(when="if they are in millions", mapping={"factors": {"n_params": MILLION}})
        got = f"n_params {values.iloc[0]:g}"
        raise UsageError(what, where=where, got=got, allowed=allowed, next_step=step, remedy=remedy)


def _list_spare(frame: pd.DataFrame, using: ColumnMap) -> list[str]:
    """Columns that do not say whose norms they stand by."""
    if using.ignore != OTHERS:
        return [name for name in using.ignore if name in frame]
    used = {*using.columns, *list_columns(using.table)}
    used.update(keep_names(using.norms, ("state", "norm")).values())
    return [name for name in frame if name not in used]


def _filter_rows(frame: pd.DataFrame, using: ColumnMap) -> pd.DataFrame:
    """The rows that a recipe is about: those whose column, where they have it, is as `only`
    says."""
    for name, pattern in using.only.items():
        column = using.norms.get(name, name)
        if column in frame:
            frame = frame[[fnmatchcase(str(value), pattern) for value in frame[column]]]
    return frame


def _unpack_wide(frame: pd.DataFrame, using: ColumnMap, where: object) -> pd.DataFrame:
    """Rows of a wide table one below the other; cells that are empty make none.

    Raises UsageError where no column is one of those that [wide] names.
    """
    if not using.wide:
        return frame
    stated = using.wide["columns"]
    name = using.wide["name"]
    value = using.wide["value"]
    if isinstance(stated, Mapping):
        names = {}
        for column, each in stated.items():
            if column in frame:
                names[str(column)] = each
    else:
        patterns = [stated] if isinstance(stated, str) else list(stated)
        matches = (_match_columns(frame, each, using) for each in patterns)
        names = next(filter(None, matches), {})
    if not names:
        got = join_some(frame.columns)
        step = f"columns = {stated!r} under [wide] names them"
        raise UsageError("no column holds a layer each", where=where, got=got, next_step=step)
    others = [each for each in frame.columns if each not in names]
    cells = frame.astype(object)
    long = cells.melt(others, list(names), var_name=name, value_name=value)
    long = long[~long[value].map(is_missing).astype(bool)]
    long[name] = long[name].map(names)
    return long.reset_index(drop=True)


def _match_columns(frame: pd.DataFrame, pattern: str, using: ColumnMap) -> dict[str, str]:
    """Columns that a pattern fits, with what its `*` stands for; in a recipe with hooks the
    column's own name."""
    written = [*map(str, frame.columns)]
    if pattern.count("*") > 1:
        return {name: name for name in written if fnmatchcase(name, pattern)}
    before, _, after = map(re.escape, pattern.partition("*"))
    is_number = using.wide["name"] in ("layer", "state", using.norms.get("state"))
    counted = re.compile(f"{before}({'[0-9]+' if is_number else '.+'}){after}")
    matches = {}
    for name in written:
        match = counted.fullmatch(name)
        if match and name not in using.columns:
            matches[name] = match[1]
    return matches


def _scale_numbers(values: pd.Series, factor: float, dtype: str, where: object) -> pd.Series:
    """Numbers times a factor, whole ones exactly; an empty cell stays empty. Raises DataError for
    another cell."""
    numbers, wrong = convert_numbers(values)
    for value in wrong:
        what = f"column {values.name} is to be converted but does not hold only numbers"
        raise DataError(what, where=where, got=repr(value)[:60], allowed=WORDS[FLOAT])
    if dtype != INTEGER:
        return numbers * factor
    cells = []
    for value in values:
        product = None if is_missing(value) else _scale_whole(value, factor)
        if product is None and not is_missing(value):
            what = f"column {values.name} times {factor:g} is no whole number"
            raise DataError(what, where=where, got=repr(value)[:60], allowed=WORDS[INTEGER])
        cells.append(product)
    return pd.Series(cells, index=values.index, dtype=object)


def _scale_whole(value: object, factor: float) -> int | None:
    """Value times factor, exact in the decimal digits that both are written with; None where it is
    not whole."""
    try:
        product = Decimal(str(value).strip()) * Decimal(str(factor))
    except ArithmeticError:
        return None
    if not product.is_finite() or abs(product) > 2**62:
        return None
    nearest = round(product)
    tolerance = abs(product) * Decimal(ROUNDING)
    return int(nearest) if abs(product - nearest) <= tolerance else None


def fill_columns(frame: pd.DataFrame, table: str) -> pd.DataFrame:
    """Rows with the columns of a table that may be left out: empty, or as in `FILLED_WITH`."""
    dtypes = set(list_dtypes(table).values())
    empty = {dtype: _make_empty(frame, dtype) for dtype in dtypes}  # shared, which saves memory
    stated = list_optional(table)
    spare = {}
    for name, column in TABLES[table].columns.items():
        if name not in frame and is_optional(table, name):
            filling = FILLED_WITH.get((table, name), empty[column.dtype])
            spare[name] = stated.get(name) or filling
    return frame.assign(**spare)


def _make_empty(frame: pd.DataFrame, dtype: str) -> pd.Series:
    """A column without values for a frame."""
    return pd.Series("" if dtype == TEXT else None, index=frame.index, dtype=dtype)


def add_runs(
    frame: pd.DataFrame, table: str, hashes: Mapping[str, str] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Rows with the `run_id` of the runs whose columns they carry, and those runs, each as its
    first row says.

    Rows as they are where they carry none. hashes: `prompt_sha` of prompt sets, for rows that
    name only the set.
    """
    ours = list_dtypes(table)
    if "run_id" in frame or "run_id" not in ours or not set(TELLING) <= set(frame.columns):
        return frame, None
    columns = [name for name in list_dtypes("runs") if name in frame]
    runs = fill_columns(frame[columns], "runs")
    identity = [*MEASURED, "model_sha"]
    for name in identity:
        runs[name] = convert_text(runs[name])
    known = hashes or {}
    hash_of_set = runs["prompt_set"].map(lambda name: known.get(name, ""))
    runs["prompt_sha"] = runs["prompt_sha"].where(runs["prompt_sha"] != "", hash_of_set)
    groups = runs.groupby(identity, sort=False)
    ids = []
    for values, _ in groups:
        ids.append(run_id(dict(zip(identity, values, strict=True))))
    runs["run_id"] = groups.ngroup().map(dict(enumerate(ids)))
    if table == "runs":
        return runs, None
    rest = frame.drop(columns=[name for name in columns if name not in ours])
    return rest.assign(run_id=runs["run_id"]), runs.drop_duplicates("run_id")


def fill_hashes(prompts: pd.DataFrame) -> pd.DataFrame:
    """Rows of prompts whose `text_sha256` is empty though their text is there, with the hash of the
    text."""
    if not {"text", "text_sha256"} <= set(prompts.columns):
        return prompts
    texts = convert_text(prompts["text"])
    stated = convert_text(prompts["text_sha256"])
    made = texts.map(_hash_text)
    return prompts.assign(text_sha256=stated.where(stated != "", made))


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def hash_sets(prompts: pd.DataFrame) -> dict[str, str]:
    """`prompt_sha` of every prompt set of a table of prompts; empty where no text's hash is
    known."""
    sets = prompts.groupby("prompt_set")
    hashes: dict[str, str] = {}
    for name, texts in sets:
        hashes[str(name)] = hash_prompts(texts) if (texts["text_sha256"] != "").any() else ""
    return hashes


FACTS = ("model_id", "heritage", "n_layers", "n_heads", "d_head", "d_model", "n_params")
"""Columns of models that are looked for under other names; what is called gain is the last
block's."""
ROWS = ("model_id", "layer", "prompt_id")
"""Columns of a table with a row a layer that are looked for under other names."""
OF_LAYERS = {"layer", "layers", "block", "blocks", "l"}
"""Words of columns that are one quantity, a column a layer, of which one must be there."""
OF_NORMS = {"norm", "norms", "l2"}
BESIDE_NORM = (
    OF_NORMS
    | OF_LAYERS
    | {
        *("resid", "residual", "hidden", "state", "states", "stream", "mean", "avg", "h", "x", "n"),
        *("", "post", "pre"),
    }
)
"""Words that the names of norms, a column a state, may have."""
OF_PROMPTS = {
    *("prompt", "prompts", "sentence", "sentences", "text", "texts", "item", "items", "question"),
    *("questions", "example", "examples", "sample", "input", "inputs", "instance", "document"),
    *("doc", "passage", "query", "stimulus", "problem", "utterance", "statement"),
}
"""Words of a column that tells prompts apart, of which one must be there."""
BESIDE_PROMPT = OF_PROMPTS | {
    *("id", "ids", "idx", "index", "no", "nr", "number", "num", "name", "key", "uid", ""),
    *("eval", "test", "user", "own"),
}
"""Words that it may have besides; any other, such as seed, size or length, forbids it."""
STEPS = {"step", "steps", "iteration", "iterations", "iter", "checkpoint", "ckpt"}
"""Words of a column that tells checkpoints of a training apart, which are revisions of a model."""
BESIDE_STEP = STEPS | {
    *("global", "train", "training", "opt", "optimizer", "optimiser", "update", "updates"),
    *("id", "idx", "index", "no", "nr", "number", "num", "n", "name", "model", "of", ""),
}
"""Words that it may have besides; any other, such as size or time, forbids it."""
UNCLEAR = {
    "model_id": "name id checkpoint",
    "heritage": "company owner vendor developer group maker team",
    "family": "series",
    "prompt_id": "text_id",
    "n_layers": "depth blocks l",
    "n_heads": "h",
    "d_model": "hidden width dim",
    "n_params": "size",
    "norm": "norms norm l2 l2_norm mean_norm",
}
"""Names that others have for other things as well: they are taken where cells fit, and doubted."""
SURELY_GAIN = (
    {"gain", "gains"}
    | PER_CENT
    | OF_LAYERS
    | {*("mean", "avg", "average", "per", "by", "of", "the", "value", "stream", "g", "")}
)
"""Words of names that say gain and nothing else: of a norm, a token or what is residual may be
other gains."""
MEANT = {
    "model_id": "a model's name",
    "heritage": "the lab",
    "family": "the family",
    "prompt_id": "the prompt",
    "revision": "a step of training, each a revision of its model",
    "n_layers": "the number of layers",
    "n_heads": "the number of heads",
    "d_model": "the width",
    "n_params": "the number of parameters",
    "gain_block": "the gain of a block, n_l / n_(l-1)",
    "last_gain": "a gain",
    "norm": "the norm of the stream",
}
"""What is asked of a column that is guessed."""
NAMES = ("model_id", "heritage", "family", "prompt_id")
"""Columns of names; the others that are looked for hold numbers."""
NUMBERED = re.compile(r"(?P<before>.*?)[0-9]+")
LEAST = 3
"""Columns with a number in their names that are taken for one quantity, a column a layer."""
POSITION = "last"
OF_POSITION = "of the last token (position; else mean, all, unstated)"
"""What is asked of the position that a suggested mapping states."""


def find_free_name(name: str) -> str:
    """A name of a file that is not there yet."""
    path = Path(name)
    if not path.exists():
        return str(path)
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return str(next(other for other in others if not other.exists()))


def describe_doubts(frame: pd.DataFrame) -> str:
    """What a suggested mapping takes for granted, and what it leaves out that looks like more."""
    mapping = build_mapping(frame, "mine")
    if find_state_column(frame, HOOK):
        return f"check whether these are norms {OF_POSITION}"
    doubts = []
    if "position" in mapping.get("constants", {}):
        what = "norms" if "norms" in mapping else "gains"
        doubts.append(f"whether these are {what} {OF_POSITION}")
    for theirs, ours in _guessed(mapping).items():
        doubts.append(f"whether {theirs} is {MEANT[ours]}")
    if alike := _rows_alike(frame, mapping):
        doubts.append(f"what {alike} says, by which alone rows of a block differ")
    if "last_gain" in mapping.get("columns", {}).values():
        doubts.append("which gain it is (last_gain, penultimate_gain, …)")
    if "prompt_id" in mapping.get("constants", {}):
        doubts.append("whether they are means over prompts")
    if "norms" in mapping:
        doubts.append(
            "whether the last norm is of the stream (last: normed, where it is that of "
            "hidden_states)"
        )
    norm = guess_column("norm", list(map(str, frame)))
    if norm and norm in mapping.get("ignore", ()):
        doubts.append(f"whether {norm} is what enters the block (then it is norm_in)")
    if mapping.get("factors"):
        doubts.append(f"the unit of {' and '.join(mapping['factors'])}")
    return f"check {', '.join(doubts)}" if doubts else ""


def describe_errors(ignored: Sequence[str]) -> str:
    """Why standard errors are among the columns that are left out, and what takes them; empty where
    none are."""
    name = guess_column("se", [*ignored])
    taken = f"a fit of the same rows takes {name} as se={write_value(name)}"
    return f"tables of measurements keep no standard errors: {taken}" if name else ""


def build_mapping(frame: pd.DataFrame, source: str) -> dict[str, Any]:
    """Entries of a mapping whose columns are there; none where no model is named."""
    names = list(map(str, frame))
    wide = _find_wide(frame)
    by_layer = bool(wide) or bool(guess_column("layer", names))
    columns = _find_columns(frame, by_layer=by_layer)
    free = [name for name in names if name not in columns]
    norms: dict[str, str] = {}
    if wide:
        columns = keep_values(columns, ("model_id", "prompt_id"))
    elif states := find_state_column(frame, MODULE) if not by_layer else "":
        norm = find_norm_column(frame)
        norms = {"state": states, "norm": norm, "last": STREAM} if norm else {}
        by_layer = bool(norms)
        columns = drop_names(keep_values(columns, ("model_id",)), norms.values())
        if prompt := _find_theirs("prompt_id", frame, columns):
            columns[prompt] = "prompt_id"
    elif gain := _find_gain(free, () if by_layer else LAST):
        columns[gain] = "gain_block" if by_layer else "last_gain"
    elif by_layer and "gain_block" not in columns and (norm := guess_column("norm", names)):
        norms = {"state": guess_column("layer", names), "norm": norm, "last": STREAM}
        of_blocks = keep_values(columns, ("layer",))
        columns = drop_names(columns, {*of_blocks, norm})
    apart = _find_key_column(frame, columns, norms) if by_layer and not wide else ""
    if _tells_prompts(apart):
        columns[apart] = "prompt_id"
    if by_layer and (step := _find_step_column(frame, columns, norms)):
        columns[step] = "revision"
    if wide and not _holds_gains(wide):
        norms = {"state": "state", "norm": "norm", "last": STREAM}
    if "model_id" not in columns.values() or (
        by_layer and not (wide or norms or {*columns.values()} - {*ROWS})
    ):
        return {}
    used = {*columns, *norms.values()}
    if wide:
        used.update(name for name in names if _is_numbered(name, wide))
    constants = {"source": source}
    if by_layer:
        constants |= {"position": POSITION, "prompt_id": ""}
    factors = _find_per_cent(columns | {wide: "gain_block"} if wide else columns)
    if not by_layer:
        factors |= _find_factors(frame, columns)
    mapping: dict[str, Any] = {
        "table": "layers" if norms else "",
        "columns": columns,
        "factors": factors,
        "constants": drop_names(constants, columns.values()),
        "wide": _wide_entry(wide, norms) if wide else {},
        "norms": norms,
        "ignore": [name for name in names if name not in used],
    }
    return drop_empty(mapping)


def _find_columns(frame: pd.DataFrame, *, by_layer: bool) -> dict[str, str]:
    """Columns of rows of layers or of models: those called as ours, and those that may be ours."""
    ours = {*list_columns("layers")} if by_layer else {*list_columns("models"), *NAMED_GAINS}
    called = {name: name for name in map(str, frame) if name in ours}
    found = dict(called)
    for column in ROWS if by_layer else FACTS:
        if theirs := _find_theirs(column, frame, called):
            found[theirs] = column
    return found


def find_state_column(frame: pd.DataFrame, pattern: re.Pattern[str]) -> str:
    """The column whose texts are names of states, most of them as a pattern says; empty where none
    is."""
    for name in map(str, frame):
        cells = frame[name] if isinstance(frame[name], pd.Series) else None
        if cells is None or pd.api.types.is_numeric_dtype(cells):
            continue
        texts = cells.dropna().astype(str).unique()
        named = list(filter(pattern.fullmatch, texts))
        if len(texts) > 1 and 2 * len(named) > len(texts):
            return name
    return ""


def find_norm_column(frame: pd.DataFrame) -> str:
    """The column of numbers that is called a norm of the stream; empty where none is."""
    called = list(filter(_is_called_norm, map(str, frame)))
    return guess_column("norm", called) or next(iter(called), "")


def _is_called_norm(name: str) -> bool:
    words = split_words(name)
    return bool(words & OF_NORMS) and words <= BESIDE_NORM | {"last", "token"}


def _find_key_column(
    frame: pd.DataFrame, columns: Mapping[str, str], norms: Mapping[str, str]
) -> str:
    """The one column that tells rows of a model and block apart; empty where prompts are known or
    nothing repeats."""
    rows = frame.set_axis(list(map(str, frame)), axis=1).astype(str)
    key = list(keep_values(columns, ("model_id", "layer")))
    key += [norms["state"]] if norms else []
    if "prompt_id" in columns.values() or not rows.duplicated(key).any():
        return ""
    free = [name for name in rows if name not in columns]
    return _find_telling_column(rows, key, free)


def _find_step_column(
    frame: pd.DataFrame, columns: Mapping[str, str], norms: Mapping[str, str]
) -> str:
    """The one column called a step of training that tells rows apart which are else of one model,
    block and prompt; empty where there is none."""
    rows = frame.set_axis(list(map(str, frame)), axis=1).astype(str)
    key = list(keep_values(columns, ("model_id", "layer", "prompt_id")))
    key += [norms["state"]] if norms else []
    if "revision" in columns.values() or not key or not rows.duplicated(key).any():
        return ""
    steps = [name for name in rows if name not in columns and _tells_steps(name)]
    return _find_telling_column(rows, key, steps)


def _find_telling_column(rows: pd.DataFrame, key: Sequence[str], names: Sequence[str]) -> str:
    """The one of some columns that with a key tells all rows apart; empty where none does, or
    several do."""
    apart = [name for name in names if not rows.duplicated([*key, name]).any()]
    return apart[0] if len(apart) == 1 else ""


def _tells_prompts(name: str) -> bool:
    """Whether the name of a column says that it tells prompts apart."""
    words = split_words(name)
    return bool(words & OF_PROMPTS) and words <= BESIDE_PROMPT


def _tells_steps(name: str) -> bool:
    """Whether the name of a column says that it tells steps of a training apart."""
    words = split_words(name)
    return bool(words & STEPS) and words <= BESIDE_STEP


def _holds_gains(wide: str) -> bool:
    """Whether columns with this before their number hold gains; else they hold norms."""
    words = split_words(wide)
    return bool(words & {*PLAIN_GAINS}) or not words & OF_NORMS


def _wide_entry(wide: str, norms: Mapping[str, str]) -> dict[str, str]:
    """The entry of columns that are one quantity, of layers or of states."""
    name = "state" if norms else "layer"
    return {"columns": f"{wide}*", "name": name, "value": "norm" if norms else "gain_block"}


def _rows_alike(frame: pd.DataFrame, mapping: Mapping[str, Any]) -> str:
    """The one column by which rows of a model and block differ and that is left out; empty where
    there is none."""
    columns = mapping.get("columns", {})
    if "layer" not in columns.values() and "norms" not in mapping:
        return ""
    apart = (
        _find_key_column(frame, columns, mapping.get("norms", {})) if "wide" not in mapping else ""
    )
    return apart if apart in mapping.get("ignore", ()) else ""


def _is_guess(theirs: str, ours: str) -> bool:
    """Whether a name does not say alone that it is that of a column of ours."""
    spelt = spell_name(theirs)
    if spelt in UNCLEAR.get(ours, "").split():
        return True
    if ours == "revision":
        return spelt != ours
    if theirs == ours:
        return False
    if ours == "prompt_id":
        return guess_column(ours, [theirs]) == ""
    return ours in ("gain_block", "last_gain") and not _says_gain(theirs)


def _guessed(mapping: Mapping[str, Any]) -> dict[str, str]:
    """Columns whose names do not say alone what they are, with what they are taken for."""
    columns = mapping.get("columns", {})
    guessed = {}
    for theirs, ours in columns.items():
        if _is_guess(theirs, ours):
            guessed[theirs] = ours
    norms = mapping.get("norms", {})
    wide = mapping.get("wide", {})
    if wide and not _says_gain(wide["columns"]):
        guessed[wide["columns"]] = wide["value"]
    elif not wide and spell_name(norms.get("norm", "")) in UNCLEAR["norm"].split():
        guessed[norms["norm"]] = "norm"
    return guessed


def _says_gain(name: str) -> bool:
    """Whether a name says gain, and no word that makes another quantity of it."""
    words = split_words(name.removesuffix("*"))
    return bool(words & {"gain", "gains"}) and words <= SURELY_GAIN


LAST = ("final",)
"""What the last gain of a model may be called besides."""


def _find_gain(names: Iterable[str], further: Sequence[str]) -> str:
    """The column that is called a gain, else the only one with that word in its name; empty where
    none is.

    further: words that its name may have besides.
    """
    called = [name for name in names if is_called_gain(name, *further)]
    single = called[0] if len(called) == 1 else ""
    return next((name for name in called if name.casefold() in PLAIN_GAINS), single)


def _find_theirs(ours: str, frame: pd.DataFrame, taken: Mapping[str, str]) -> str:
    """Their name of one of our columns that none is called as, of those that are not taken and
    whose cells may be it."""
    if ours in taken.values():
        return ""
    free = []
    for place, name in enumerate(map(str, frame)):
        if name not in taken and _may_be(ours, name, frame.iloc[:, place]):
            free.append(name)
    return guess_column(ours, free)


def _may_be(ours: str, name: str, cells: pd.Series) -> bool:
    """Whether a column of an unclear name may be one of ours: names are no numbers, numbers no
    names."""
    if spell_name(name) not in UNCLEAR.get(ours, "").split():
        return True
    texts = [str(cell) for cell in cells.unique() if not is_missing(cell)]
    are_numbers = all(map(NUMBER.fullmatch, texts))
    return not are_numbers if ours in NAMES else are_numbers


def _find_wide(frame: pd.DataFrame) -> str:
    """What stands before the number in columns that are gains or norms, a column a layer; empty
    where there are none, or where a word says that they are something else."""
    matches = filter(None, map(NUMBERED.fullmatch, map(str, frame)))
    before = [match["before"] for match in matches]
    counted = pd.Series(list(filter(_may_be_wide, before)), dtype=str).value_counts()
    return str(counted.index[0]) if len(counted) and counted.iloc[0] >= LEAST else ""


def _may_be_wide(before: str) -> bool:
    """Whether what stands before a number says gains or norms of layers, and nothing else."""
    words = split_words(before)
    gains = words & (OF_LAYERS | {*PLAIN_GAINS}) and words <= {*PLAIN_GAINS} | BESIDE_GAIN
    if gains and not compares_gains(words):
        return True
    return bool(words & OF_NORMS and words <= BESIDE_NORM)


def _is_numbered(name: str, before: str) -> bool:
    return name.startswith(before) and name.removeprefix(before).isdigit()


def _find_per_cent(columns: Mapping[str, str]) -> dict[str, float]:
    """By what gains are to be multiplied whose column says that it is in per cent."""
    per_cent: dict[str, float] = {}
    for theirs, ours in columns.items():
        if (ours == "gain_block" or is_gain(ours)) and is_per_cent(theirs):
            per_cent[ours] = 0.01
    return per_cent


def _find_factors(frame: pd.DataFrame, columns: Mapping[str, str]) -> dict[str, int]:
    """By what numbers of parameters are to be multiplied, by the ending of their name or their
    size."""
    theirs = find_name(columns, "n_params")
    if not theirs:
        return {}
    spelt = spell_name(theirs)
    values = convert_numbers(frame[theirs])[0].astype("float64").dropna()
    if spelt.endswith("_b") or (len(values) and values.max() < 1000 and values.min() < 1):
        return {"n_params": 10**9}
    if spelt.endswith("_m") or (len(values) and values.max() < 10**6):
        return {"n_params": MILLION}
    return {}


def write_toml(mapping: Mapping[str, Any]) -> Sequence[str]:
    """Lines of a mapping file."""
    lines = []
    for name in ("table", "ignore"):
        if name in mapping:
            lines.append(_format_entry(name, mapping[name]))
    for name, entry in drop_names(mapping, ("table", "ignore")).items():
        lines.append(f"[{name}]")
        for key, value in entry.items():
            lines.append(_format_entry(_format_key(key), value))
    return lines


def _format_entry(name: str, value: object) -> str:
    return f"{name} = {json.dumps(value, ensure_ascii=False)}"


def _format_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
