"""What a join of other people's rows without a mapping may mean: the call filled in, tried before
it is printed.

A mapping is guessed from the columns (`mapping.py`). What it leaves open, such as whether norms are
those of what enters or of what leaves the blocks, the try finds, and each answer is a line of its
own. Rows of models that neither the tables nor the rows describe are left out, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import ThermostatsError
from thermostats.next_steps import (
    SHELL,
    Code,
    call,
    write_command,
    write_shell_command,
    write_value,
)
from thermostats.tables.column_map import HOOK, OTHERS, is_gain, list_columns
from thermostats.tables.entries import keep_values
from thermostats.tables.labels import guess_column, list_column_names, list_unknown, spell_name
from thermostats.tables.mapping import (
    build_mapping,
    describe_doubts,
    describe_errors,
    find_free_name,
    find_state_column,
    write_toml,
)
from thermostats.tables.remedies import JoinCall, Remedy, merge_entries
from thermostats.tables.suggested_models import (
    APART,
    IN_CAPITALS,
    LOOP,
    MOST_NAMED,
    NO_LAB,
    YOURS,
    suggest_facts,
)
from thermostats.tables.validation import is_missing
from thermostats.tables.written_numbers import PER_CENT, PLAIN, convert_written, read_written

LAYERS = "layers"
MOST_ROWS = 200_000
"""Rows above which a call is printed without a try."""
DEEPEST = 3
"""Questions that one try after another may find."""


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A call, when it is right, and the rows that it takes."""

    made: JoinCall
    when: str = ""
    rows: str = ""
    """An expression of the rows `df`; empty: as they are."""

    def write(self) -> str:
        """The call as a line."""
        return self.made.line(Remedy(when="", rows=self.rows, as_given=True))


def suggest_join(
    frame: pd.DataFrame,
    where: str,
    data: str | Path | None,
    model_ids: Collection[str],
    attempt: Callable[[JoinCall, pd.DataFrame], object],
    reading: str = "",
) -> str:
    """The lines that join rows under other people's names, with what is to be checked; empty where
    no model is named.

    model_ids: models of the tables. attempt: joins rows by a call without writing. reading: an
    expression that reads the file, where its rows cannot be read without.
    """
    is_file = bool(Path(where).suffix)
    source = Path(where).stem if is_file else "mine"
    rows = Code(reading) if reading else where
    made = JoinCall(sources=[rows if is_file else frame], data=str(data or "mine"))
    if find_state_column(frame, HOOK):
        fixed = {"source": source, "position": "last"}
        made = replace(made, recipe="transformer-lens", constants=fixed)
        models = next((str(c) for c in frame if spell_name(str(c)) in WHOSE), "")
        mapping: dict[str, Any] = {"columns": {models: "model_id"}} if models else {}
    else:
        mapping = build_mapping(frame, source)
        made = replace(made, mapping=mapping)
    if not mapping:
        return ""
    errors = describe_errors(mapping.get("ignore", ()))
    notes = [note for note in (describe_doubts(frame), errors) if note]
    theirs = {ours: name for name, ours in mapping["columns"].items()}
    of_models = "table" not in mapping and not made.recipe and "wide" not in mapping
    of_models = of_models and bool({*theirs} & {*IN_CAPITALS})
    if of_models:
        return _suggest_facts(frame, made, mapping, notes, attempt)
    whose = theirs.get("model_id", "")
    gone = list_unknown(frame, whose, model_ids) if whose else []
    kept = frame[~frame[whose].isin(gone)] if gone else frame
    if gone and kept.empty:
        facts = f"join their facts first: {_write_facts(gone, made, frame, whose)}"
        then = f"then {Suggestion(made=made).write()}"
        remarks = [YOURS, NO_LAB, *([APART] if LOOP in facts else [])]
        return "\n# ".join([facts, then, "; ".join(remarks), *notes])
    rows = ""
    if gone:
        rows = f"df[~df[{write_value(whose)}].isin({write_value(gone)})]"
        facts = _write_facts(gone, made, frame[frame[whose].isin(gone)], whose)
        what = f"leaves out {len(frame) - len(kept)} of {len(frame)} rows, of models that no table"
        notes.append(f"{what} describes; with their facts: {facts}")
    return _write_all(_try_calls(Suggestion(made=made, rows=rows), kept, attempt), notes)


def list_block_models(frame: pd.DataFrame, model_ids: Collection[str]) -> list[str]:
    """Models whose rows of blocks a suggested join takes: those of the tables, or all where these
    have none; empty where the rows are not of blocks."""
    if find_state_column(frame, HOOK):
        whose = next((str(c) for c in frame if spell_name(str(c)) in WHOSE), "")
    else:
        mapping = build_mapping(frame, "")
        theirs = {}
        for name, ours in mapping.get("columns", {}).items():
            theirs[ours] = name
        of_blocks = mapping.get("table") == LAYERS or "wide" in mapping or "gain_block" in theirs
        whose = theirs["model_id"] if of_blocks else ""
    if not whose:
        return []
    every = [*frame[whose].dropna().astype(str).unique()]
    gone = list_unknown(frame, whose, model_ids)
    return [name for name in every if name not in gone] or every


def suggest_line(frame: pd.DataFrame) -> str:
    """A line through the gains of rows of models over their depth, drawn; empty where the rows
    name no model or no gain."""
    columns = build_mapping(frame, "").get("columns", {})
    gain = next((name for name, ours in columns.items() if is_gain(ours)), "")
    depth = next((name for name, ours in columns.items() if ours == "n_layers"), "")
    if not gain:
        return ""
    return f"{call('fit_line', Code('df'), *filter(None, (gain, depth)))}.plot()"


WHOSE = list_column_names("model_id")


def _write_facts(models: Sequence[str], made: JoinCall, frame: pd.DataFrame, whose: str) -> str:
    """The call that joins facts of models, from the columns that state them, with what only the
    user knows in capitals.

    whose: the column of models.
    """
    names = [name for name in map(str, frame) if name != whose]
    theirs = {ours: column for ours in IN_CAPITALS if (column := guess_column(ours, names))}
    once = frame.drop_duplicates([whose, *theirs.values()])
    if theirs and not once[whose].duplicated().any():
        lacking = {}
        for ours in IN_CAPITALS:
            if ours not in theirs:
                lacking[ours] = Code(IN_CAPITALS[ours])
        columns = {whose: "model_id", **{column: ours for ours, column in theirs.items()}}
        columns |= {ours: ours for ours in lacking}
        assigned = f".assign(**{write_value(lacking)})" if lacking else ""
        rows = f"df.drop_duplicates([{write_value(whose)}]){assigned}"
        facts = replace(made, mapping={"columns": columns, "ignore": OTHERS}, recipe="")
        return Suggestion(made=replace(facts, constants=None), rows=rows).write()
    some = models[:MOST_NAMED]
    steps = _find_steps(made)
    revisions: dict[str, list[str]] = {}
    for name, of_model in frame.groupby(frame[whose].astype(str)):
        revisions[str(name)] = of_model[steps].astype(str).unique().tolist() if steps else []
    together: dict[tuple[str, ...], list[str]] = {}
    for name in some:
        together.setdefault(tuple(revisions[name]) or (name,), []).append(name)
    stated = " + ".join(suggest_facts(names, revisions[names[0]]) for names in together.values())
    more = " + MORE" * (len(models) > len(some))
    line = call("join", Code(f"{stated}{more}"), data=str(made.data))
    return write_shell_command(line) if SHELL.get() else line


def _find_steps(made: JoinCall) -> str:
    """The column that a mapping takes for a revision; empty where it has none."""
    columns = (made.mapping or {}).get("columns", {})
    return next((theirs for theirs, ours in columns.items() if ours == "revision"), "")


def _suggest_facts(
    frame: pd.DataFrame,
    made: JoinCall,
    mapping: dict[str, Any],
    notes: list[str],
    attempt: Callable[[JoinCall, pd.DataFrame], object],
) -> str:
    """The line that joins facts of models: numbers made of texts, models left out of which one is
    missing, and in capitals what no column says."""
    columns = dict(mapping["columns"])
    theirs = {ours: name for name, ours in columns.items()}
    needed = [name for name, ours in columns.items() if ours in list_columns("models")]
    needed += [name for name, ours in columns.items() if ours.endswith("gain")]
    blank = frame[needed].apply(convert_written).map(is_missing).any(axis=1)
    rows = ""
    if blank.any() and not blank.all():
        gone = list(dict.fromkeys(frame.loc[blank, theirs["model_id"]].astype(str)))
        rows = f"df[~df[{write_value(theirs['model_id'])}].isin({write_value(gone)})]"
        notes = [*notes, f"leaves out {int(blank.sum())} of {len(frame)} rows, with empty cells"]
        frame = frame[~frame[theirs["model_id"]].astype(str).isin(gone)]
    assigned = dict[str, str]()
    for ours in IN_CAPITALS:
        if ours in mapping.get("constants", {}):
            continue
        if ours in theirs:
            assigned |= _write_numbers(frame, theirs[ours], ours)
            continue
        text, cells = _find_written(frame, ours, columns)
        name = text or ours
        assigned[name] = cells or IN_CAPITALS[ours]
        columns[name] = theirs[ours] = ours
    per_cent = _find_per_cent_texts(frame, mapping)
    assigned |= per_cent
    factors = {}
    for ours, factor in mapping.get("factors", {}).items():
        if theirs.get(ours) not in per_cent:
            factors[ours] = factor
    mapping = {**mapping, "factors": factors}
    ignore = [name for name in mapping.get("ignore", ()) if name not in columns]
    kept = {
        name: entry
        for name, entry in mapping.items()
        if name not in ("columns", "ignore") and entry
    }
    entries = {"columns": columns, **kept, **({"ignore": ignore} if ignore else {})}
    made = replace(made, mapping=entries)
    if keep_values(assigned, [*IN_CAPITALS.values()]):
        notes = [YOURS, *notes]
    if assigned:
        cells = ", ".join(f"{write_value(name)}: {each}" for name, each in assigned.items())
        rows = f"{rows or 'df'}.assign(**{{{cells}}})"
        return _write_all([Suggestion(made=made, rows=rows)], notes)
    return _write_all(_try_calls(Suggestion(made=made, rows=rows), frame, attempt), notes)


def _find_per_cent_texts(frame: pd.DataFrame, mapping: Mapping[str, Any]) -> dict[str, str]:
    """Columns that are to be divided by 100 and hold texts such as 91.5%, with the expression of
    their numbers, which does so."""
    columns = []
    for name, ours in mapping["columns"].items():
        if ours in mapping.get("factors", {}):
            columns.append(name)
    made = {}
    for name in columns:
        words, cells = read_written(frame[name], f"df[{write_value(name)}]")
        if words.startswith(PER_CENT):
            made[name] = cells
    return made


def _write_numbers(frame: pd.DataFrame, name: str, ours: str) -> dict[str, str]:
    """The numbers that the texts of a column stand for, as an expression by its name; empty where
    they are plain numbers, or names."""
    if ours == "heritage":
        return {}
    what, cells = read_written(frame[name], f"df[{write_value(name)}]")
    return {name: cells} if cells and what != PLAIN else {}


def _find_written(frame: pd.DataFrame, ours: str, taken: Mapping[str, str]) -> tuple[str, str]:
    """A column of texts that is called as one of ours and holds its numbers, with the expression of
    these; both empty where there is none."""
    names = list_column_names(ours)
    for name in map(str, frame):
        if name not in taken and spell_name(name) in names:
            _, cells = read_written(frame[name], f"df[{write_value(name)}]")
            return (name, cells) if cells else ("", "")
    return "", ""


def _try_calls(
    first: Suggestion, frame: pd.DataFrame, attempt: Callable[[JoinCall, pd.DataFrame], object]
) -> list[Suggestion]:
    """The call, or where a try finds a question the calls with either answer."""
    found = [first]
    if len(frame) > MOST_ROWS:
        return found
    for _ in range(DEEPEST):
        found = [each for one in found for each in _answer(one, frame, attempt)]
    return found


def _answer(
    one: Suggestion, frame: pd.DataFrame, attempt: Callable[[JoinCall, pd.DataFrame], object]
) -> list[Suggestion]:
    try:
        attempt(replace(one.made, sources=[frame]), frame)
    except ThermostatsError as error:
        remedies = error.remedy if isinstance(error.remedy, tuple) else (error.remedy,)
        answered = []
        for each in remedies:
            if each and (each.words or each.mapping):
                when = f"{one.when} and {each.when}" if one.when else each.when
                answered.append(replace(one, made=_apply(one.made, each), when=when))
        return answered or [one]
    return [one]


def _apply(made: JoinCall, remedy: Remedy) -> JoinCall:
    """A call with what a remedy says."""
    mapping = merge_entries(made.mapping, remedy.mapping) if remedy.mapping else made.mapping
    return replace(made, mapping=mapping, **dict[str, Any](remedy.words))


def _write_all(found: Sequence[Suggestion], notes: Sequence[str]) -> str:
    """Lines of the calls; in a shell, of a file whose rows are taken as they are, with the mapping
    as a file."""
    made = found[0].made
    is_file = isinstance(made.sources[0], str)
    plain = SHELL.get() and is_file and not any(each.rows for each in found)
    lines = []
    begin = ""
    if plain and made.mapping:
        name = find_free_name("map.toml")
        content = "\n".join(write_toml(made.mapping))
        begin = f"save the mapping and join with it:\ncat > {name} <<'END'\n{content}\nEND\n"
    for each in found:
        if not plain:
            lines.append(f"{each.when}: {each.write()}" if each.when else each.write())
            continue
        constants = each.made.constants or {}
        options = {
            "as": each.made.recipe,
            "map": name if made.mapping else "",
            "constant": [f"{key}={value}" for key, value in constants.items()],
            "states": each.made.states,
            "form": each.made.form,
        }
        line = write_command("join", *made.sources, **options, data=made.data)
        lines.append(f"{line}\n# {each.when}" if each.when else line)
    return begin + "\n# ".join(["\n".join(lines), *notes])
