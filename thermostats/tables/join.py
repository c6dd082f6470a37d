"""Join new rows into the tables of a data folder: idempotent, with conflicts named and nothing
half-written.

Existing rows with equal values change nothing. Rows with other values are refused, and the largest
difference is named, unless `replace` is given. What was merely recorded of a run (versions, device,
time) is no conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from thermostats.errors import (
    DataError,
    UsageError,
    build_unknown_error,
    find_nearest,
    join_some,
    suggest_nearest,
)
from thermostats.formatting import format_count, strip_owner
from thermostats.next_steps import SHELL, Code, is_table, write_command, write_shell_command
from thermostats.next_steps import call as write_call
from thermostats.tables import finished_joins, store
from thermostats.tables.column_map import READ, REFUSED, ColumnMap, is_gain, list_columns, load_maps
from thermostats.tables.entries import drop_names
from thermostats.tables.folders import (
    find_data_folder,
    find_lookup_folder,
    find_own_folder,
    hold_folder,
    list_layers,
    list_own_files,
    stage_files,
    start_folder,
    write_all,
)
from thermostats.tables.frames import read_arrow, select_rows
from thermostats.tables.identities import MEASURES, check_identities, check_models
from thermostats.tables.incoming import Source, choose_pandas_read, is_separated_otherwise, read
from thermostats.tables.labels import find_model_name
from thermostats.tables.mapping import add_runs, fill_columns, fill_hashes, hash_sets, map_rows
from thermostats.tables.plausible import check_plausible
from thermostats.tables.remedies import JoinCall, Remedy
from thermostats.tables.runs import RECORDED, check_run_ids
from thermostats.tables.schemas import (
    FLOAT,
    INTEGER,
    POSITIONS,
    RUN_TABLES,
    TABLES,
    add_later_columns,
    list_dtypes,
    list_key_columns,
    list_optional,
    list_references,
)
from thermostats.tables.store import is_archive
from thermostats.tables.suggested_join import Suggestion, list_block_models, suggest_join
from thermostats.tables.suggested_models import MOST_NAMED, check_filled
from thermostats.tables.validation import (
    compare_columns,
    convert_rows,
    locate_ranks,
    mark_repeats,
    rank_keys,
    rank_rows,
)
from thermostats.tables.waiting import Waiting

MAP = "name yours in a file for --map; ours are those of: thermostats ls columns {}"
Tables = Mapping[str, pd.DataFrame]
KINDS = (str, Path, pd.DataFrame, pa.Table)


AT_LAST, UNREAD = "last", ("all", "mean_norm", "unstated")
"""The position that claims read, and those of other people's files that none does."""


@dataclass(frozen=True, repr=False)
class Joined:
    """What a join did to one table, in rows."""

    table: str
    added: int
    unchanged: int
    replaced: int
    files: tuple[Path, ...]
    unstated: str = ""
    """What models do not state and claims read, and the line that states it."""
    unread: str = ""
    """How many rows enter no claim, and why."""
    revisions: str = ""
    """How many models came at several revisions, and the line that shows all of these."""

    def __repr__(self) -> str:
        counts = f"added={self.added}, unchanged={self.unchanged}, replaced={self.replaced}"
        words = [f"{name}={value!r}" for name in SAID if (value := getattr(self, name))]
        return f"Joined({', '.join([f'table={self.table!r}', counts, *words])})"


REVISIONS = "^(model_id|revision)$|_gain$"
"""Columns that show how gains change over revisions."""
SAID = ("unstated", "unread", "revisions")
"""What a join says in words, where there is something to say."""


class Incoming(NamedTuple):
    """Rows of a call that wait."""

    waiting: Waiting
    needs_mapping: bool
    """Whether no source says by its columns which table it belongs to."""


class Plan(NamedTuple):
    """Rows to add, rows to put in place of others, and how many are there already."""

    added: pd.DataFrame
    replaced: pd.DataFrame
    unchanged: int


def join(
    sources: Source | Sequence[Source],
    *,
    table: str | None = None,
    mapping: str | Path | Mapping[str, Any] | ColumnMap | None = None,
    recipe: str = "",
    constants: Mapping[str, Any] | None = None,
    states: str = "",
    form: str = "",
    data: str | Path | None = None,
    replace: bool = False,
    accept: bool = False,
    dry_run: bool = False,
) -> list[Joined]:
    """Join rows of files, frames or dicts into a data folder, all checked before any is written.

    Sources are CSV, TSV, JSON, JSON Lines or Parquet files, DataFrames, Arrow tables or dicts.
    Those of one call may refer to each other (runs and their layers). Equal rows change nothing.

    Parameters
    ----------
    sources : path, DataFrame, Arrow table or dict, or a sequence of them
        The rows. Which table each belongs to follows from its columns, unless `table` or a mapping
        says so; then columns that may be empty may be left out.
    table : str
        The table that the rows belong to.
    mapping : str, Path, dict or ColumnMap
        From other people's columns to ours, a TOML file or a dict (`tables/column_map.py`), in
        which named gains may stand next to the facts of their models.
    recipe : str
        A mapping for the tables of a tool, one of `RECIPES`, over which `mapping` stands.
    constants : dict
        What every row has.
    states : str
        Of norms, `inputs` or `outputs`, where there are fewer than L + 1 of them.
    form : str
        Of norms, `raw` or `centred`, of hooks of TransformerLens.
    data : str or Path
        The user's folder; by default the one that `THERMOSTATS_DATA` names.
    replace : bool
        Put rows with other values in the place of those with the same key.
    accept : bool
        Take rows that lie far beyond every known one, contradict another column or name a lab that
        is spelt otherwise elsewhere, which are refused without it.
    dry_run : bool
        Check and count, and write nothing.

    Returns
    -------
    list of Joined
        A record each table: rows added, unchanged and replaced.

    Raises
    ------
    DataError
        Where a source is damaged, a row is not as it must be, refers to a row that does not exist,
        contradicts one that does or is hardly what it says.
    UsageError
        Where a source belongs to no table.

    Examples
    --------
    >>> import pandas as pd
    >>> import thermostats
    >>> gains = pd.DataFrame({"block": [11, 12], "prompt": "a", "growth": [1.31, 1.12]})
    >>> columns = {"block": "layer", "prompt": "prompt_id", "growth": "gain_block"}
    >>> stated = {"position": "last", "model_id": "EleutherAI/pythia-160m", "source": "my hooks"}
    >>> column_map = {"table": "layers", "columns": columns, "constants": stated}
    >>> joined = thermostats.join(gains, mapping=column_map, data="mine")
    >>> [(each.table, each.added) for each in joined]
    [('runs', 1), ('layers', 2)]
    """
    given = _list_given(sources)
    inputs = _read_given(given)
    options = tuple(name for name, value in (("replace", replace), ("accept", accept)) if value)
    call = JoinCall(
        sources=[sources] if _is_records(given) else given,
        mapping=mapping,
        table=table,
        recipe=recipe,
        constants=constants,
        states=states,
        form=form,
        data=data,
        options=options,
    )
    with _append_call(call):
        _check_folder(data)
        digest = finished_joins.hash_call(call)
        if (rows := finished_joins.find_finished_rows(digest, data)) is not None:
            joined: list[Joined] = []
            for name, count in rows.items():
                joined.append(Joined(name, 0, count, 0, ()))
            return joined
        return _run_join(inputs, call, digest, replace, accept, dry_run)


def _run_join(
    inputs: Sequence[Source],
    call: JoinCall,
    digest: str,
    replace: bool,
    accept: bool,
    dry_run: bool,
) -> list[Joined]:
    """What `join` does, its sources in a list; digest: of the call, see `finished_joins`."""
    waiting, needs_mapping = _read_incoming(inputs, call)
    if dry_run:
        return _join_all(waiting, find_lookup_folder(call.data), replace, accept, dry_run)
    with start_folder(call.data) as folder, hold_folder(folder):
        done = _join_all(waiting, folder, replace, accept, dry_run)
        if digest and finished_joins.hash_call(call) == digest:
            counts = {}
            for each in done:
                counts[each.table] = each.added + each.unchanged + each.replaced
            digests = [digest]
            if needs_mapping:  # the same files again need none: their rows are there
                digests.append(finished_joins.hash_call(JoinCall(sources=call.sources)))
            finished_joins.keep(digests, counts, folder)
    return done


def _is_mapped(call: JoinCall) -> bool:
    """Whether a call says how rows under other names are read."""
    return call.mapping is not None or bool(
        call.recipe or call.constants or call.states or call.form
    )


def _check_folder(data: str | Path | None) -> None:
    try:
        find_own_folder(data)
    except UsageError as error:
        error.remedy = Remedy(
            when="into a folder of your own (--data mine, or $THERMOSTATS_DATA)", data="mine"
        )
        raise


@contextmanager
def _append_call(call: JoinCall) -> Iterator[None]:
    """Errors that say what would let the rows pass end in the call with it."""
    try:
        yield
    except (DataError, UsageError) as error:
        remedies = (
            error.remedy
            if isinstance(error.remedy, tuple)
            else (error.remedy,)
            if error.remedy
            else ()
        )
        lines = [f"{remedy.when}: {line}" for remedy in remedies if (line := call.line(remedy))]
        if not lines:
            raise
        raise error.replace_next_step("\n  or ".join(lines)) from error


def _read_incoming(inputs: Sequence[Source], call: JoinCall) -> Incoming:
    """Rows of the sources of a call by table."""
    table = call.table
    mapping = call.mapping
    recipe = call.recipe
    constants = call.constants
    data = call.data
    maps: list[ColumnMap | None] = [mapping if isinstance(mapping, ColumnMap) else None]
    if maps == [None] and _is_mapped(call):
        content = {} if mapping is None or isinstance(mapping, ColumnMap) else mapping
        maps = [*load_maps(content, table, recipe, constants, call.states, call.form)]
    waiting = Waiting()
    needs_mapping = True

    def hashes() -> dict[str, str]:
        held = store.load("prompts", find_lookup_folder(data), private=False)
        return hash_sets(_merge_rows(held, waiting.get("prompts"), "prompts"))

    def models() -> pd.DataFrame:
        folder = find_lookup_folder(data)
        held = {}
        for name in ("models", "runs"):
            held[name] = _merge_rows(store.load(name, folder), waiting.get(name), name)
        return index_facts(held["models"], held["runs"])

    def list_model_ids() -> set[str]:
        held = store.load("models", find_lookup_folder(data))
        return set(_merge_rows(held, waiting.get("models"), "models")["model_id"])

    def read_source(source: Source) -> None:
        nonlocal needs_mapping
        where = str(source) if isinstance(source, str | Path) else type(source).__name__
        refused = None
        reading = ""
        try:
            given_rows = read(source)
        except UsageError as error:
            if maps != [None] or table or not is_separated_otherwise(error):
                raise
            refused = error
            by_pandas = choose_pandas_read(Path(cast(str, source)))
            given_rows = by_pandas.read()
            reading = by_pandas.line
        needs_mapping = needs_mapping and not _match_tables(given_rows)
        using_each = maps
        if maps == [None] and table is None:
            using_each = find_maps(given_rows, where, data, reading)
            if refused is not None:
                raise refused
        for using in using_each:
            with _suggest_without_recipe(call, source):
                for name, frame in split_tables(
                    given_rows, table, using, where, hashes, models, list_model_ids
                ):
                    waiting.add(name, convert_rows(frame, name, where), where)

    for source in inputs:
        read_source(source)
        pa.default_memory_pool().release_unused()
    return Incoming(waiting, needs_mapping)


@contextmanager
def _suggest_without_recipe(call: JoinCall, source: Source) -> Iterator[None]:
    """Where a recipe does not fit rows and no other remedy is known, the same join without it comes
    next: it says how their columns may be read."""
    try:
        yield
    except UsageError as error:
        if error.next_step or error.remedy or not call.recipe or call.mapping is not None:
            raise
        again = Suggestion(made=replace_fields(call, sources=[source], recipe="")).write()
        raise error.replace_next_step(f"without the recipe: {again}") from error


def _list_given(sources: Source | Sequence[Source]) -> list[Source]:
    """What was given, one source or several, as a list."""
    single = isinstance(sources, (*KINDS, Mapping)) or is_table(sources)
    if single or not isinstance(sources, Iterable):
        return [cast(Source, sources)]
    return list(cast(Iterable[Source], sources))


def _read_given(given: Sequence[Source]) -> list[Source]:
    """Sources with frames of other libraries read, rows that are dicts as one table; UsageError for
    what is none."""
    allowed = "paths of files, DataFrames, Arrow tables, or dicts of columns"
    if not given:
        raise UsageError("nothing to join", got="no source", allowed=allowed)
    sources = list(map(read_arrow, given))
    if wrong := [each for each in sources if not isinstance(each, (*KINDS, Mapping))]:
        step = "df.collect()" if hasattr(wrong[0], "collect") else ""
        what = "only files and tables can be joined"
        raise UsageError(what, got=repr(wrong[0])[:60], allowed=allowed, next_step=step)
    return [pd.DataFrame(sources, dtype=object)] if _is_records(sources) else sources


def _is_records(sources: Sequence[Source]) -> bool:
    """Whether all sources are dicts of one row each."""
    return bool(sources) and all(
        isinstance(each, Mapping) and not any(map(is_list_like, each.values())) for each in sources
    )


REFERRED = ("models", "prompts", "runs")
"""Tables that the rows of a join may refer to."""


def _join_all(
    incoming: Waiting, folder: Path, replace: bool, accept: bool, dry_run: bool
) -> list[Joined]:
    new = {name: incoming.get(name) for name in REFERRED}
    if new["models"] is not None:
        check_filled(new["models"])
    existing = {}
    after = {}
    for name, stated in new.items():
        existing[name] = store.load(name, folder, private=stated is not None)
        after[name] = _merge_rows(existing[name], stated, name)
    if new["runs"] is not None:
        check_run_ids(new["runs"])
        store.check_prompts(new["runs"], after["prompts"])
    names = incoming.list_tables()
    done: dict[str, Joined] = {}
    positions: list[pd.Series] = []
    with stage_files(folder) as staged:
        for rows in incoming.split_turns(after["runs"]):
            texts, plans = _plan_turn(rows, existing, after, folder, replace, accept)
            contents: dict[str, dict[Path, bytes]] = {}
            if not dry_run:
                for name, plan in plans.items():
                    contents[name] = _plan_contents(name, folder, plan, staged.paths)
                for each in (texts, *contents.values()):
                    staged.add(each)
            for name, plan in plans.items():
                fresh = _stack_rows(plan.added, plan.replaced)
                unstated = ask_facts(fresh, folder) if name == "models" else ""
                added = len(plan.added)
                replaced = len(plan.replaced)
                files = tuple(contents.get(name, ()))
                turn = Joined(name, added, plan.unchanged, replaced, files, unstated)
                done[name] = _add_joined(done[name], turn) if name in done else turn
                if name == "layers":
                    positions.append(fresh["position"].value_counts())
                del fresh
            del rows, plans, contents
            pa.default_memory_pool().release_unused()
        staged.put()
    if not dry_run:
        for name in names:
            store.remove_replaced(name, folder)
    rows_at = pd.concat(positions).groupby(level=0).sum() if positions else pd.Series(dtype=int)
    done |= _add_words(done, rows_at, None if dry_run else new["runs"], folder)
    return [done.get(name, Joined(name, 0, 0, 0, ())) for name in names]


def _add_words(
    done: Mapping[str, Joined], rows_at: pd.Series[int], runs: pd.DataFrame | None, data: Path
) -> dict[str, Joined]:
    """What was done to layers and runs, with what all turns together lead to.

    rows_at: rows of layers by position. runs: those that are written.
    """
    told = {}
    if "layers" in done:
        told["layers"] = replace_fields(done["layers"], unread=describe_unread(rows_at))
    if runs is not None:
        revisions = describe_revisions(runs, rows_at, data)
        told["runs"] = replace_fields(done["runs"], revisions=revisions)
    return told


def _add_joined(one: Joined, more: Joined) -> Joined:
    """What two turns of a join did to a table."""
    sums = {}
    for name in ("added", "unchanged", "replaced", "files"):
        sums[name] = getattr(one, name) + getattr(more, name)
    return replace_fields(one, **sums)


def _plan_turn(
    incoming: Tables, held: Tables, after: Tables, folder: Path, replace: bool, accept: bool
) -> tuple[dict[Path, bytes], dict[str, Plan]]:
    """Check rows against each other and those that are there: texts of prompts to write, and by
    table which rows are new.

    held, after: the tables of `REFERRED` as they are, and as they will be.
    """
    about: set[str] = set()
    for frame in incoming.values():
        if "run_id" in frame:
            about.update(frame["run_id"].unique())
    existing = dict(held)
    for name in drop_names(incoming, held):
        runs = about if name in MEASURES else None
        existing[name] = store.load(name, folder, runs=runs)
    for name, rows in incoming.items():
        for label, target in list_references(name).items():
            store.check_reference(rows, name, label, after[target], target)
    texts: dict[Path, bytes] = {}
    if "models" in incoming and not replace:
        incoming = {**incoming, "models": _fill_facts(incoming["models"], existing["models"])}
    if "prompts" in incoming:
        incoming = {**incoming, "prompts": _fill_texts(incoming["prompts"], existing["prompts"])}
        texts, existing["prompts"] = _store_private_texts(
            incoming["prompts"], existing["prompts"], folder
        )
    plans = {}
    for name, rows in incoming.items():
        plans[name] = _plan(name, rows, existing[name], replace)
    if not accept:
        fresh = {}
        for name, plan in plans.items():
            fresh[name] = _stack_rows(plan.added, plan.replaced)
        check_plausible(fresh, after["models"], after["runs"], existing)
    if "models" in incoming:
        check_models(incoming["models"])
    if not incoming.keys().isdisjoint({"runs", *MEASURES}):
        check_identities(_collect_same_models(incoming, existing, after, about, folder))
    return texts, plans


def describe_unread(rows_at: pd.Series[int]) -> str:
    """How many rows of the table `layers` stand at a position that no claim reads, and why; empty
    where there are none.

    rows_at: their numbers by position.
    """
    unread = rows_at[rows_at.index.isin(UNREAD)].sort_index()
    if unread.empty:
        return ""
    each = [f"{name} ({POSITIONS[str(name)]})" for name in unread.index]
    return (
        f"{unread.sum()} rows enter no claim: their position is {', '.join(each)}. Claims read "
        f"{POSITIONS[AT_LAST]} ({AT_LAST})."
    )


def describe_revisions(runs: pd.DataFrame, rows_at: pd.Series[int], data: Path) -> str:
    """How many models of runs are there at several revisions, and the line that shows all of
    these, at a position that they have; empty where there is none."""
    each = runs.groupby("model_id", sort=False)["revision"].nunique()
    several = each.index[each > 1].tolist()
    if not several:
        return ""
    shown = several[:MOST_NAMED]
    at = {} if AT_LAST in rows_at or rows_at.empty else {"position": str(rows_at.idxmax())}
    model = shown[0] if len(shown) == 1 else shown
    every = write_call("features", str(data), model=model, every=True, **at)
    line = f'{every}.filter(regex="{REVISIONS}").dropna(axis=1, how="all")'
    if SHELL.get():
        line = write_shell_command(line)
    whose = "these" if len(shown) == len(several) else f"the first {len(shown)}"
    return (
        f"{format_count(len(several), 'model')} came at several revisions, of which features gives "
        f"the last. All of {whose}, in their order: {line}"
    )


def ask_facts(models: pd.DataFrame, data: object = None) -> str:
    """What some models do not state of `READ`, and the line that states it; empty where all is
    stated."""
    empty = {}
    for name in READ:
        empty[name] = models[name].isna() | (models[name] == "").fillna(False)
    unstated = pd.DataFrame(empty, index=models.index)
    lacking = [name for name in READ if unstated[name].any()]
    if not lacking:
        return ""
    names = list(dict.fromkeys(models.loc[unstated.any(axis=1), "model_id"]))
    facts = [f"{name}={name.upper()}" for name in lacking]
    line = write_command("set", *names[:3], *facts, data=data)
    return (
        f"{', '.join(lacking)} of {len(names)} of these models: claims that read one leave them "
        f"out. {line}"
    )


def _collect_same_models(
    incoming: Tables, existing: Tables, after: Tables, about: set[str], folder: Path
) -> dict[str, pd.DataFrame]:
    """Rows of every run of the models that incoming rows are about, as they will be."""
    model = ["model_id", "revision"]
    runs = after["runs"]
    same_models = runs.loc[runs["run_id"].isin(about), model].drop_duplicates()
    runs = runs.merge(same_models, on=model)
    chosen = set(runs["run_id"])
    tables = {**after, "runs": runs}
    for name in MEASURES:
        if name in existing and chosen == about:
            held = existing[name]
        else:
            held = store.load(name, folder, runs=chosen)
        rows = _merge_rows(held, incoming.get(name), name)
        there = rows["run_id"].isin(chosen)
        tables[name] = rows if there.all() else rows[there]
    return tables


def _merge_rows(held: pd.DataFrame, new: pd.DataFrame | None, name: str) -> pd.DataFrame:
    """Rows of a table with new ones, which stand over those of the same key."""
    if new is None or not len(held):
        return held if new is None else new
    rows = pd.concat([held, new])
    return rows[~mark_repeats(rank_keys(rows, name), keep="last")]


def _fill_texts(new: pd.DataFrame, old: pd.DataFrame) -> pd.DataFrame:
    """Prompts of which the hash alone is given, with the text of that hash which is there: it is no
    other value."""
    same = ["prompt_set", "prompt_id", "text_sha256"]
    held = new[same].merge(old[[*same, "text"]], on=same, how="left")["text"]
    texts = held.fillna("").set_axis(new.index)
    return new.assign(text=new["text"].where(new["text"] != "", texts))


def _store_private_texts(
    new: pd.DataFrame, old: pd.DataFrame, folder: Path
) -> tuple[dict[Path, bytes], pd.DataFrame]:
    """Texts of prompts of which the tables have the hash alone: the file that holds them, and the
    old rows with them.

    They are other people's: what stands in `private/` is read, and never exported.
    """
    same = ["prompt_set", "prompt_id", "text_sha256"]
    untold = select_rows(old, text="")[same]
    texts = new[new["text"] != ""].merge(untold, on=same)
    if texts.empty:
        return {}, old
    path = folder / "private" / "prompts.csv"
    before = [store.read_typed(path, "prompts")] if path.is_file() else []
    private = pd.concat([*before, texts], ignore_index=True)
    written = {path: store.encode_csv(private, "prompts")}
    by_hash = texts.drop_duplicates("text_sha256").set_index("text_sha256")["text"]
    told = old["text_sha256"].map(by_hash).fillna("")
    return written, old.assign(text=old["text"].where(old["text"] != "", told))


def _fill_facts(new: pd.DataFrame, old: pd.DataFrame) -> pd.DataFrame:
    """Models with facts that new rows do not state as those that are there: what is not stated is
    no other value."""
    stored = old.set_index(list_key_columns("models"))
    rows = new.set_index(list_key_columns("models"))
    if stored.index.intersection(rows.index).empty:
        return new
    stored = stored.reindex(rows.index)
    stated = {}
    for label in rows:
        stated[label] = rows[label].notna() & rows[label].ne("").fillna(True)
    filled_in = {}
    for label in rows:
        filled_in[label] = rows[label].where(stated[label] | stored[label].isna(), stored[label])
    return store.validate(rows.assign(**filled_in).reset_index(), "models")


def _plan(name: str, new: pd.DataFrame, old: pd.DataFrame, replace: bool) -> Plan:
    rank = rank_rows(pd.concat([old[label], new[label]]) for label in list_key_columns(name))
    at = locate_ranks(rank[len(old) :], rank[: len(old)])
    mine = new[at >= 0]
    theirs = old.take(at[at >= 0])
    if mine.empty:
        return Plan(new, mine, 0)
    compared = []
    for label in new:
        if label not in list_key_columns(name) and not (name == "runs" and label in RECORDED):
            compared.append(label)
    differs = np.zeros(len(mine), dtype=np.bool_)
    for label in compared:
        differs |= _mark_differences(
            mine[label].reset_index(drop=True), theirs[label].reset_index(drop=True)
        )
    if differs.any() and not replace:
        here = mine[differs].set_index(list_key_columns(name))[compared]
        there = theirs[differs].set_index(list_key_columns(name))[compared]
        raise DataError(
            _describe_conflict(name, here, there),
            next_step="join with --replace to keep the new values, or leave these rows out",
            remedy=Remedy(when="to keep the new values", option="replace"),
        )
    return Plan(new[at < 0], mine[differs], int((~differs).sum()))


def _mark_differences(mine: pd.Series, theirs: pd.Series) -> NDArray[np.bool_]:
    """Which values of two columns are not the same; two that are missing are."""
    same = (mine == theirs) | (mine.isna() & theirs.isna())
    return np.asarray(~same.fillna(False), dtype=np.bool_)


def _describe_conflict(name: str, mine: pd.DataFrame, theirs: pd.DataFrame) -> str:
    """What differs most, in words: of numbers the largest difference, else the first text."""
    dtypes = list_dtypes(name)
    numbers = [label for label in mine if dtypes[label] in (FLOAT, INTEGER)]
    ours = mine[numbers].astype(float)
    others = theirs[numbers].astype(float)
    gaps = (ours - others).abs().fillna(np.inf)
    gaps = gaps.where(ours.notna() | others.notna(), 0.0)
    if not (gaps > 0).any(axis=None):
        gaps = (mine != theirs).drop(columns=numbers).astype(float)
    label = gaps.max().idxmax()
    row = gaps[label].idxmax()
    key = row if isinstance(row, tuple) else (row,)
    cells = zip(list_key_columns(name), key, strict=True)
    named = ", ".join(f"{column} {value}" for column, value in cells)
    values = f"there {theirs.loc[row, label]}, new {mine.loc[row, label]}"
    return (
        f"table {name} already has {len(mine)} of these rows with other values; "
        f"the largest difference is in {label} at {named}: {values}"
    )


def _plan_contents(
    name: str, folder: Path, plan: Plan, staged: Mapping[Path, Path]
) -> dict[Path, bytes]:
    """Files that a join changes, as they will be. staged: files that earlier turns of it wrote, by
    their places."""
    changed, fresh = _replace_rows(name, folder, plan.replaced, staged)
    new = _stack_rows(plan.added, fresh)
    number, paths = _locate_rows(new, name, folder)
    changed |= {
        path: store.read_typed(path, name)
        for path in paths
        if path not in changed and path.is_file()
    }
    files = {path: number for number, path in enumerate(dict.fromkeys([*changed, *paths]))}
    held = store.FilesOfRows.build(changed, name)
    of_path = np.array([files[path] for path in paths], dtype=np.int64)
    rows = pd.concat([held.rows, new]) if changed else new
    return store.encode_files(
        store.FilesOfRows(rows, np.concatenate([held.number, of_path[number]]), tuple(files)), name
    )


def _replace_rows(
    name: str, folder: Path, new: pd.DataFrame, staged: Mapping[Path, Path]
) -> tuple[dict[Path, pd.DataFrame], pd.DataFrame]:
    """Files with rows that others stand in the place of, with these; and the rows whose old ones
    are in no file."""
    changed: dict[Path, pd.DataFrame] = {}
    fresh = new.set_index(list_key_columns(name))
    if len(fresh):
        _refuse_published(name, folder, fresh.index)
        runs = set(new["run_id"]) if "run_id" in new else None
        for path, rows in _read_own_files(name, folder, runs, staged):
            held = rows.set_index(list_key_columns(name))
            here = held.index.intersection(fresh.index)
            if len(here):
                both = pd.concat([held.drop(here), fresh.loc[here]])
                changed[path] = both.reset_index()
                fresh = fresh.drop(here)
    return changed, fresh.reset_index()


def _locate_rows(
    rows: pd.DataFrame, name: str, folder: Path
) -> tuple[NDArray[np.int64], list[Path]]:
    """The number of each row's file, and the files by number: of rows of runs one each, in order of
    their names."""
    if "run_id" not in rows:
        return np.zeros(len(rows), dtype=np.int64), [folder / f"{name}.csv"] * bool(len(rows))
    number, runs = pd.factorize(rows["run_id"], sort=True)
    return number, [store.locate_run(name, run, folder) for run in runs]


def _stack_rows(rows: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Rows with further ones below them."""
    return pd.concat([rows, more]) if len(more) else rows


def _refuse_published(name: str, folder: Path, replaced: pd.Index) -> None:
    for layer in list_layers(folder):
        path = layer / "published" / f"{name}.csv"
        if not path.is_file():
            continue
        published = store.read_typed(path, name).set_index(list_key_columns(name))
        here = published.index.intersection(replaced)
        if len(here):
            raise DataError(
                "these rows are figures of the study and cannot be replaced",
                where=path,
                got=f"{len(here)} of them",
                next_step="give your own rows a separate run (another `source`)",
            )


def index_facts(models: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Depth of models, where they norm and how, by `model_id`, with its owner and without where
    one model alone is called so, and by `run_id`."""
    facts = ["n_layers", "norm_place", "norm_kind"]
    by_model = models.drop_duplicates("model_id", keep="last").set_index("model_id")[facts]
    by_run = by_model.reindex(runs["model_id"]).set_axis(runs["run_id"])
    bare = by_model.set_axis(by_model.index.map(strip_owner))
    unclear = bare.index.duplicated(keep=False) | bare.index.isin(by_model.index)
    return pd.concat([by_model, by_run, bare[~unclear]])


def _name_fully(
    rows: pd.DataFrame, table: str, list_model_ids: Callable[[], Collection[str]]
) -> pd.DataFrame:
    """Rows whose models are named with their owners, where one model of the tables alone is called
    so; those of models, and those whose runs have their ids, as they are."""
    if table == "models" or "model_id" not in rows or "run_id" in rows:
        return rows
    there = list_model_ids()
    named = {}
    for name in rows["model_id"].dropna().unique():
        named[name] = find_model_name(str(name), there)
    return rows.assign(model_id=rows["model_id"].replace(named))


def split_tables(
    frame: pd.DataFrame,
    table: str | None,
    using: ColumnMap | None,
    where: str,
    hashes: Callable[[], dict[str, str]],
    models: Callable[[], pd.DataFrame] | None = None,
    list_model_ids: Callable[[], Collection[str]] = tuple,
) -> list[tuple[str, pd.DataFrame]]:
    """Rows under our columns by table: those that a mapping makes of them, and of the runs whose
    columns they carry.

    hashes: gives `prompt_sha` of every prompt set. models: gives what `index_facts` does.
    list_model_ids: gives the models of the tables, whose names may stand without their owner.
    """
    name = using.table if using is not None else table or _find_table(frame, where)
    if name not in TABLES or name in REFUSED:
        allowed = ", ".join(label for label in TABLES if label not in REFUSED)
        raise UsageError(
            REFUSED.get(name, "no such table"), where=where, got=repr(name), allowed=allowed
        )
    if using:
        made = map_rows(frame, using, where, models)
    else:
        made = {name: fill_columns(frame, name) if table else frame}
    named = {each: _name_fully(rows, each, list_model_ids) for each, rows in made.items()}
    tables: list[tuple[str, pd.DataFrame]] = []
    for each, rows in named.items():
        tables += _add_runs(rows, each, where, hashes)
    return tables


def _add_runs(
    rows: pd.DataFrame, name: str, where: str, hashes: Callable[[], dict[str, str]]
) -> list[tuple[str, pd.DataFrame]]:
    """Rows of one table, and before them those of the runs whose columns they carry."""
    rows = add_later_columns(fill_hashes(rows) if name == "prompts" else rows, name)
    of_sets = "prompt_set" in rows and "run_id" not in rows
    rows, runs = add_runs(rows, name, hashes() if of_sets else None)
    _check_columns(rows, name, where)
    return [(name, rows)] if runs is None else [("runs", runs), (name, rows)]


def _check_columns(rows: pd.DataFrame, name: str, where: str) -> None:
    lacking, unknown = compare_columns(rows, list_dtypes(name))
    if "run_id" in lacking and "model_id" in rows:
        raise UsageError(
            f"rows of table {name} do not say to which run they belong",
            where=where,
            got="model_id without source",
            next_step="add source, as a column or under [constants] of a mapping: run_id then "
            "follows from both",
            remedy=Remedy(
                when="add source, from which run_id follows",
                mapping={"constants": {"source": "mine"}},
            ),
        )
    if lacking or unknown:
        got = [f"without {', '.join(lacking)}"] * bool(lacking) + [
            f"unknown {', '.join(unknown)}"
        ] * bool(unknown)
        step = f"say under [constants] what is the same in every row, or {MAP.format(name)}"
        if unknown:
            step = suggest_nearest(unknown[0], lacking, MAP.format(name))
        means = Remedy(
            when="if these are means over prompts", mapping={"constants": {"prompt_id": ""}}
        )
        raise UsageError(
            f"columns are not those of table {name}",
            where=where,
            got="; ".join(got),
            next_step=step,
            remedy=means if got == ["without prompt_id"] else None,
        )


NOT_OURS = "its columns are not ours"


def find_maps(
    frame: pd.DataFrame, where: str, data: str | Path | None, reading: str = ""
) -> list[ColumnMap | None]:
    """How rows without a mapping are read: as a table that has exactly these columns, or by our own
    names in them.

    Of rows under our names columns that may be empty may be left out, and gains may stand next to
    facts. Raises UsageError for other names, with a mapping filled in as far as their columns
    say.

    reading: an expression that reads the file, where its rows cannot be read without.
    """
    names = [str(name) for name in frame.columns]
    if _match_tables(frame):
        return [None]
    columns = set(chain.from_iterable(map(list_columns, TABLES)))
    ours = [name for name in names if is_gain(name) or name in columns]
    if len(ours) == len(names):
        with suppress(UsageError):
            return [*load_maps({"columns": {name: name for name in names}})]
    if len(ours) < len(names) / 2:
        model_ids = set(store.load("models", find_lookup_folder(data))["model_id"])
        if step := suggest_join(frame, where, data, model_ids, _try_call, reading):
            raise UsageError(NOT_OURS, where=where, got=join_some(names), next_step=step)
    return [None]


def suggest_block_join(
    frame: pd.DataFrame, data: str | Path | None = None
) -> tuple[str, list[str]]:
    """The lines that join rows of blocks, and the models that are there then; empty of other
    rows."""
    known = set(store.load("models", find_lookup_folder(data))["model_id"])
    models = list_block_models(frame, known)
    if not models:
        return "", []
    try:
        find_maps(frame, "DataFrame", data)
    except UsageError as refused:
        return refused.next_step, models
    return write_call("join", Code("df"), data=str(data or "mine")), models


def _try_call(call: JoinCall, frame: pd.DataFrame) -> None:
    """Join rows by a call without writing; raises as `join` does."""
    incoming = _read_incoming([frame], call)
    _join_all(
        incoming.waiting, find_lookup_folder(call.data), replace=False, accept=False, dry_run=True
    )


def _match_tables(frame: pd.DataFrame) -> list[str]:
    """Tables that have exactly these columns."""
    columns = set(frame)
    tables: list[str] = []
    for name in TABLES:
        if set(list_dtypes(name)) - set(list_optional(name)) <= columns <= set(list_dtypes(name)):
            tables.append(name)
    return tables


def _find_table(frame: pd.DataFrame, where: object) -> str:
    """The table that has exactly these columns."""
    columns = set(frame)
    if exact := _match_tables(frame):
        return exact[0]

    def count_apart(name: str) -> tuple[int, int]:
        """How many columns are none of a table, and how many of its own are not there."""
        return len(columns - set(list_columns(name))), len(set(list_dtypes(name)) - columns)

    nearest = min((name for name in TABLES if name not in REFUSED), key=count_apart)
    lacking = compare_columns([*frame, *list_optional(nearest)], list_dtypes(nearest))[0]
    unknown = compare_columns(frame, list_columns(nearest))[1]
    near = "nearly those" if len(unknown) < len(columns) / 2 else "nearest those"
    step = MAP.format(nearest)
    if unknown:
        step = suggest_nearest(unknown[0], lacking, step)
    without = ", ".join(lacking) or "none"
    spare = ", ".join(unknown) or "none"
    got = f"{near} of {nearest}: without {without}, unknown {spare}"
    raise UsageError("its columns do not match any table", where=where, got=got, next_step=step)


MODEL = ["model_id", "revision"]


def forget(source: str, *, data: str | Path | None = None, dry_run: bool = False) -> dict[str, int]:
    """Remove the runs of a source from a user's folder, with their rows and the models it states.

    A model stays while a run of another source is of it; prompts stay. Rows of runs go before the
    runs, so that what is interrupted is finished by the same call.

    Parameters
    ----------
    source : str
        The source, as its rows name it.
    data : str or Path
        The user's folder; by default the one that `THERMOSTATS_DATA` names.
    dry_run : bool
        Count, and remove nothing.

    Returns
    -------
    dict
        Number of rows removed, by table.

    Raises
    ------
    UsageError
        Where the folder has no tables yet or no rows of this source.
    DataError
        Where a file cannot be removed.

    Examples
    --------
    >>> import pandas as pd
    >>> import thermostats
    >>> gains = pd.DataFrame({"layer": [11, 12], "prompt_id": "a", "gain_block": [1.31, 1.12]})
    >>> stated = {"position": "last", "model_id": "EleutherAI/pythia-160m", "source": "my hooks"}
    >>> _ = thermostats.join(gains, mapping={"table": "layers", "constants": stated}, data="mine")
    >>> thermostats.forget("my hooks", data="mine")
    {'layers': 2, 'runs': 1}
    """
    folder = find_data_folder(find_own_folder(data))
    with hold_folder(folder):
        none = pd.DataFrame(columns=["run_id", "source", *MODEL], dtype="str")
        runs = pd.concat([none, *(rows for _, rows in _read_own_files("runs", folder))])
        models = pd.concat([none, *(rows for _, rows in _read_own_files("models", folder))])
        sources = {*runs["source"], *models["source"]} - {""}
        if source not in sources:
            meant = find_nearest(source, sources) or next(iter(sorted(sources)), "SOURCE")
            line = write_command("forget", source=meant, data=folder)
            error = build_unknown_error(
                "no own rows of this source", source, sorted(sources), where=folder
            )
            raise error.replace_next_step(f"{error.next_step} {line}".strip())
        gone = set(select_rows(runs, source=source)["run_id"])
        every = store.load("runs", folder)
        used = pd.MultiIndex.from_frame(every.loc[~every["run_id"].isin(gone), MODEL])
        changed: dict[str, dict[Path, pd.DataFrame]] = {}
        counts: dict[str, int] = {}
        for name in (*RUN_TABLES, "runs", "models"):
            for path, rows in _read_own_files(name, folder, None if name == "models" else gone):
                if name == "models":
                    is_used = pd.MultiIndex.from_frame(rows[MODEL]).isin(used)
                    goes = (rows["source"] == source) & ~is_used
                else:
                    goes = rows["run_id"].isin(gone)
                if goes.any():
                    changed.setdefault(name, {})[path] = rows[~goes]
                    counts[name] = counts.get(name, 0) + int(goes.sum())
        if not dry_run:
            for name, of in changed.items():
                _replace(of, name, folder)
    return counts


def _read_own_files(
    name: str,
    folder: Path,
    runs: Collection[str] | None = None,
    staged: Mapping[Path, Path] = MappingProxyType({}),
) -> Iterator[tuple[Path, pd.DataFrame]]:
    """Files of a table that may have rows of some runs, archives left out, each with its rows as
    they are, or will be where it is staged."""
    for path in list_own_files(name, folder):
        if not is_archive(path) and store.is_candidate(path, runs):
            yield path, store.read_typed(staged.get(path, path), name)


def _replace(files: dict[Path, pd.DataFrame], name: str, folder: Path) -> None:
    """Write what is left of files of a table; a file with nothing left is removed."""
    kept = {path: rows for path, rows in files.items() if len(rows)}
    left = store.FilesOfRows.build(kept, name)
    write_all(folder, store.encode_files(left, name))
    store.remove_replaced(name, folder)
    for path in drop_names(files, kept):
        store.remove_file(path)
        with suppress(OSError):  # other runs have files there
            path.parent.rmdir()


def record_model(run_ids: Collection[str], model_sha: str, folder: Path) -> None:
    """Record in a user's folder that runs are of the model with this hash; a run that ships gets a
    row there.

    Raises DataError where the folder cannot be written.
    """
    with hold_folder(folder):
        changed: dict[Path, pd.DataFrame] = {}
        left = set(run_ids)
        for path, rows in _read_own_files("runs", folder):
            here = rows["run_id"].isin(left)
            if here.any():
                confirmed = rows["confirmed_sha"].mask(here, model_sha)
                changed[path] = rows.assign(confirmed_sha=confirmed)
                left -= set(rows.loc[here, "run_id"])
        beneath = store.load("runs", folder)
        for run_id, rows in select_rows(beneath, run_id=left).groupby("run_id"):
            path = folder / "measured" / "runs" / f"{run_id}.csv"
            changed[path] = rows.assign(confirmed_sha=model_sha)
        files = store.FilesOfRows.build(changed, "runs")
        write_all(folder, store.encode_files(files, "runs"))
