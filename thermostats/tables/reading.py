"""Tables and features for use in a notebook: with their models, and for the models that the user
names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import (
    SHOWN_OF,
    UsageError,
    build_unknown_error,
    find_nearest,
    join_some,
    make_list,
)
from thermostats.next_steps import call, write_command
from thermostats.tables import features as feature_table
from thermostats.tables import store
from thermostats.tables.choices import (
    DECODER,
    FIRST_MODEL,
    MAIN,
    OWN_ROWS,
    POOLED,
    check_set,
    check_table,
    find_origin,
    mark_set,
    split_revision,
)
from thermostats.tables.features import LAST, combine
from thermostats.tables.frames import mark_rows, select_rows
from thermostats.tables.runs import mark_superseded
from thermostats.tables.schemas import GAINS, NURSERY, RUN_TABLES, TABLES, list_key_columns

FILTERS = {"lab": "heritage", "family": "family", "model": "model_id", "source": "source"}
"""Filters in words, and the column that each is of."""
MOST_NAMED = 30
"""Names that the error for another one lists."""
OF_RUN = ("model_id", "revision", "source", "dtype", "prompt_set", "instrument", "licence")
"""What `load(models=True)` says of each row's run."""


def load(
    name: str = "",
    data: str | Path | None = None,
    *,
    model: str | Sequence[str] | None = None,
    models: bool = False,
    private: bool = True,
    runs: str | Collection[str] | None = None,
    without: str | Collection[str] = (),
) -> pd.DataFrame:
    """Read a whole table, validated and sorted by its key.

    A row of a user's folder replaces the package's row with the same key. Where there are no rows
    the table is empty, with the right columns.

    Parameters
    ----------
    name : str
        A table, such as `layers`; without one the tables that there are come, a row each, with
        their number of rows, key and meaning.
    data : str or Path
        A user's folder, read together with the package's own tables.
    model : str or sequence of str
        Models whose rows are kept, named as in `features`.
    models : bool
        With the columns of each row's run and model, among them `model_id`, `heritage` (the lab),
        `family`, `n_layers`, `n_heads`, `d_head` and `n_params`.
    private : bool
        Whether prompt texts that may not be shipped are filled in from `private/prompts.csv`, if it
        exists.
    runs, without : str or collection of str
        Ids of the runs whose rows are kept, or left out.

    Returns
    -------
    DataFrame
        A row each key; types, units and meanings of its columns are those of `thermostats ls
        columns TABLE`.

    Raises
    ------
    UsageError
        For a table, a folder, models or runs that do not exist, and for models of a table whose
        rows belong to none.
    DataError
        If a file is damaged, a value is not allowed or a key occurs twice.

    Notes
    -----
    The table `models` has no rows of the third controlled study, which N01 to N05 ask: its 656
    models are in `thermostats.studies.nursery.load_shipped_table("third/models")`.

    Examples
    --------
    >>> import thermostats
    >>> layers = thermostats.load("layers", model="pythia-160m")
    >>> last = layers[layers["position"] == "last"]
    >>> last.groupby("layer")["gain_block"].median().round(2).head(3)
    layer
    1    17.35
    2     1.22
    3     1.05
    Name: gain_block, dtype: float64
    """
    if not name:
        return _list_tables(data)
    check_table(name, line='thermostats.load("{}")')
    if not isinstance(models, bool):
        line = call("load", name, model=models)
        what = "models= asks for columns of models, and is true or false"
        raise UsageError(what, got=repr(models)[:SHOWN_OF], next_step=line)
    _check_no_model(data, "load", name)
    kept_runs = make_list(runs, "runs")
    dropped = make_list(without, "without") or []
    if named := [*(kept_runs or ()), *dropped]:
        ids = set(store.load("runs", data)["run_id"])
        if strange := [run for run in named if run not in ids]:
            raise UsageError("no such run", got=repr(strange[0]), next_step="thermostats ls runs")
    frame = store.load(name, data, private=private, runs=kept_runs)
    if model is not None:
        frame = _choose_models(frame, make_list(model, "model") or [], name, data)
    if "run_id" not in frame and (models or kept_runs is not None or dropped) and name != "models":
        step = "leave out models and runs"
        raise UsageError("rows of this table belong to no run or model", got=name, next_step=step)
    if kept_runs is not None:
        frame = select_rows(frame, run_id=kept_runs)
    if dropped:
        frame = frame[~frame["run_id"].isin(dropped)]
    if models and name != "models":
        return _add_models(frame.reset_index(drop=True), data)
    return frame


def _choose_models(
    frame: pd.DataFrame, wanted: Sequence[str], name: str, data: str | Path | None
) -> pd.DataFrame:
    """Rows of these models: by their own column, or by that of their run; UsageError where rows
    belong to none."""
    if "model_id" not in frame and "run_id" not in frame:
        folder = {"data": str(data)} if data else {}
        what = "rows of this table belong to no run or model"
        raise UsageError(what, got=name, next_step=call("load", name, **folder))
    whose = frame
    if "model_id" not in frame:
        runs = store.load("runs", data)[["run_id", "model_id", "revision"]]
        of_runs = frame[["run_id"]].merge(runs, on="run_id", how="left")
        whose = of_runs.set_axis(frame.index)
    if "revision" not in whose:
        whose = whose.assign(revision=MAIN)
    line = f'thermostats.load("{name}", model="{{}}")'
    return frame[_match_models(whose, wanted, line)].reset_index(drop=True)


def _check_no_model(data: str | Path | None, function: str, *before: str) -> None:
    """UsageError where a folder is named that is none, and that is the name of a model: the call
    with it as the model."""
    if not isinstance(data, str) or Path(data).exists():
        return
    known = store.load("models")
    owners = known["model_id"].str.casefold()
    wanted = split_revision(data)[0].casefold()
    if not (owners.eq(wanted) | owners.str.rpartition("/")[2].eq(wanted)).any():
        return
    raise UsageError(
        "this is a model, and no folder of tables",
        got=data,
        allowed="a data folder; models are named by model=",
        next_step=call(function, *before, model=data),
    )


def _list_tables(data: str | Path | None) -> pd.DataFrame:
    rows = []
    for name, schema in TABLES.items():
        key = ", ".join(list_key_columns(name))
        rows.append((name, len(store.load(name, data)), key, schema.description))
    return pd.DataFrame(rows, columns=["table", "rows", "key", "meaning"])


def models(
    data: str | Path | None = None, *, model: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """List every model of the tables, or those named, one row each revision.

    It is the table `models`, as `load("models")` gives it. The 656 models of the third controlled
    study are in tables of its own, see `load`.

    Parameters
    ----------
    data : str or Path
        A user's folder, read together with the package's own tables.
    model : str or sequence of str
        Models whose rows are kept, named as in `features`.

    Returns
    -------
    DataFrame
        A row each model and revision: lab (`heritage`), family, shape, number of parameters and
        what else `thermostats ls columns models` lists.

    Raises
    ------
    UsageError
        For a folder or a model that does not exist.
    DataError
        If a file is damaged.

    Examples
    --------
    >>> import thermostats
    >>> pythia = thermostats.models(model=["pythia-160m", "pythia-1.4b"])
    >>> pythia[["model_id", "heritage", "n_layers", "n_heads"]]
                     model_id    heritage  n_layers  n_heads
    0  EleutherAI/pythia-1.4b  EleutherAI        24       16
    1  EleutherAI/pythia-160m  EleutherAI        12       12
    """
    _check_no_model(data, "models")
    return load("models", data, model=model)


def features(
    data: str | Path | None = None,
    *,
    heritage: str | Sequence[str] | None = None,
    lab: str | Sequence[str] | None = None,
    family: str | Sequence[str] | None = None,
    model: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
    evidence: str | None = None,
    position: str = LAST,
    comparable: bool = False,
    every: bool = False,
) -> pd.DataFrame:
    """Give one row per model and source, with every named gain, geometry and lab.

    A gain is missing where its rows do not allow it.

    Of a model that a source measured at several revisions the last counts (`main`, else the highest
    number; `every=True` gives all), and of its runs the one with most prompts; transition layers
    that it lacks are those of the source's other runs. The controlled study (the nursery) is left
    out unless it is asked for by lab, model or source. `model_rows` gives one row a model.

    Parameters
    ----------
    data : str or Path
        A user's folder, read together with the package's own tables.
    heritage, lab, family, model, source : str or sequence of str
        Rows to keep, one or several names each, whatever the case. `heritage` is what the column of
        labs is called. Of a source the beginning is enough, of a model the name without its owner,
        and behind an @ a revision.
    evidence : str
        A set of measurements, such as `published` or `pooled`; `thermostats ls evidence` lists
        them.
    position : str
        Token position of the gains, one of those in the table `layers`.
    comparable : bool
        Without models that norm after the residual sum, whose gains are near 1 by construction.
    every : bool
        A row for each revision, in the order of their numbers, prompt set and precision, the
        controlled study's too: how gains change over the checkpoints of a training.

    Returns
    -------
    DataFrame
        The columns are those of `thermostats ls columns features`; gains are ratios of norms,
        without a unit.

    Raises
    ------
    UsageError
        For a lab, family, model, source, set of evidence or position that the tables do not have.
    DataError
        Where a table is damaged or refers to a run or model that is not there.

    Examples
    --------
    >>> import thermostats
    >>> gains = thermostats.features(source="pythia_family")
    >>> gains = gains.sort_values("n_layers")
    >>> gains[["model_id", "n_layers", "penultimate_gain"]].round(3).head(3)
                     model_id  n_layers  penultimate_gain
    7   EleutherAI/pythia-70m         6             1.201
    2  EleutherAI/pythia-160m        12             1.157
    3    EleutherAI/pythia-1b        16             1.216
    """
    if lab is not None and heritage is not None:
        raise UsageError(
            "one name for labs",
            got=f"lab={lab!r}, heritage={heritage!r}",
            allowed="lab or heritage",
        )
    _check_no_model(data, "features")
    rows = feature_table.build_features(data, position=position)
    if evidence is not None:
        check_set(evidence)
        published = set(store.load("sources", data)["file"])
        of_set = mark_set(evidence, rows, published, store.load("runs", data))
        rows = rows[of_set & (rows["modality"] == DECODER)]
        if evidence == OWN_ROWS:
            rows = select_rows(rows, run_id=require_own_runs(data)["run_id"])
    of = (lab if heritage is None else heritage, family, model, source)
    wanted = {}
    for name, value in zip(FILTERS, of, strict=True):
        wanted[name] = make_list(value, name)
    for name, values in wanted.items():
        if values is not None:
            is_model = name == "model"
            column = rows[FILTERS[name]]
            match = _match_models(rows, values) if is_model else _match_rows(column, values, name)
            rows = rows[match]
    if comparable:
        rows = rows[rows["comparable"]]
    if not every:
        named = [*(wanted["lab"] or ()), *(wanted["model"] or ()), *(wanted["source"] or ())]
        asked = evidence == NURSERY or any(name.casefold().startswith(NURSERY) for name in named)
        if not asked:
            rows = rows[rows["source"] != NURSERY]
        return _pick_runs(rows).reset_index(drop=True)
    keys = {"model": rows["model_id"], "number": number_revisions(rows["revision"])}
    order = pd.DataFrame(keys).sort_values(["model", "number"], kind="stable").index
    return rows.loc[order].reset_index(drop=True)


def _add_models(frame: pd.DataFrame, data: str | Path | None) -> pd.DataFrame:
    models = store.load("models", data).drop(columns="source")
    runs = store.load("runs", data)
    if "revision" not in frame:
        about = [label for label in OF_RUN if label not in frame]
        frame = frame.merge(runs[["run_id", *about]], on="run_id", how="left")
    return frame.merge(models, on=["model_id", "revision"], how="left")


def _match_rows(
    column: pd.Series[str], wanted: Sequence[str], name: str, line: str = ""
) -> pd.Series[bool]:
    """Rows whose value is one of those wanted; of sources their beginning counts, of models the
    name without its owner.

    line: the call in which {} is a value, by default that of `features`. Raises UsageError for a
    value that no row has.
    """
    line = line or f'thermostats.features({name}="{{}}")'

    folded = column.str.casefold()
    fits = pd.Series(False, index=column.index)
    for text in wanted:
        value = text.casefold()
        equal = folded == value
        if name == "source" and not equal.any() and value:
            equal = folded.str.startswith(value)
        if name == "model" and not equal.any():
            equal = folded.str.rpartition("/")[2] == value
        if not equal.any():
            there = sorted(set(column) - {""})
            if len(there) <= MOST_NAMED:
                raise build_unknown_error(f"no rows of this {name}", text, there, line=line)
            near = find_nearest(text, there) or _find_nearest_bare(text, there)
            step = line.format(near) if near else "thermostats ls models"
            raise UsageError(f"no rows of this {name}", got=repr(text), next_step=step)
        fits |= equal
    return fits


def _find_nearest_bare(text: str, there: Sequence[str]) -> str:
    """The model whose name without its owner is nearest; empty where none is near."""
    bare = {name.rpartition("/")[2]: name for name in there}
    return bare.get(find_nearest(text, bare), "")


def _match_models(rows: pd.DataFrame, wanted: Sequence[str], line: str = "") -> pd.Series[bool]:
    """Rows of models by name, with or without its owner; behind an @ a revision.

    line: as of `_match_rows`. Raises UsageError for a model, or a revision of it, that no row has.
    """
    line = line or 'thermostats.features(model="{}")'
    fits = pd.Series(False, index=rows.index)
    known = set(rows["model_id"].str.casefold())
    for text in wanted:
        name, revision = (text, None) if text.casefold() in known else split_revision(text)
        match = _match_rows(rows["model_id"], [name], "model", line)
        if revision is not None:
            of_model = rows.loc[match, "revision"]
            match &= rows["revision"].eq(revision)
            if not match.any():
                there = sorted(set(of_model))
                near = find_nearest(revision, there) or there[-1]
                step = line.format(f"{name}@{near}")
                allowed = join_some(there, revision)
                raise UsageError(
                    "no rows of this revision", got=text, allowed=allowed, next_step=step
                )
        fits |= match
    return fits


def number_revisions(revisions: pd.Series[str]) -> pd.Series[float]:
    """The last number in the name of a revision, which steps go by; −1 without one, and after all
    numbers `main`."""
    number = revisions.str.extract(r"(\d+)\D*$")[0].astype("float64")
    return number.fillna(-1.0).mask(revisions == MAIN, float("inf"))


def keep_last_revision(rows: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Rows of the last revision of each group of rows: `main`, else the highest number."""
    number = number_revisions(rows["revision"])
    last = number.groupby([rows[label] for label in by]).transform("max")
    return rows[number == last]


def _pick_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per model and source: of its last revision the run with most gains."""
    rows = keep_last_revision(rows, "model_id", "source")
    named = rows[list(GAINS)].notna().any(axis=1)
    prompts = rows["n_prompts"].fillna(0)
    ranks = pd.DataFrame({"named": named, "prompts": prompts})
    order = ranks.sort_values(["named", "prompts"], ascending=False, kind="stable").index
    ordered = rows.loc[order]
    first = ordered.drop_duplicates(["model_id", "source"]).sort_index()
    stars = [label for label in rows if str(label).startswith("L_star_")]
    lacking = first[stars].isna().all(axis=1)
    if stars and lacking.any():
        others = ordered.groupby(["model_id", "source"])[stars].first()
        keys = pd.MultiIndex.from_frame(first.loc[lacking, ["model_id", "source"]])
        first.loc[lacking, stars] = others.reindex(keys).to_numpy()
    return first


RUN_COLUMNS = ["run_id", "model_id", "revision", "prompt_set", "source"]
MODEL_COLUMNS = ["model_id", "revision", "heritage", "family", "modality", "quantised"]


def require_own_runs(data: str | Path | None = None) -> pd.DataFrame:
    """Ids of the user's own runs; raises UsageError with the lines that bring some in where there
    are none."""
    folder = store.find_data_folder(data)
    runs = store.read_own_runs(folder)
    if runs.empty:
        raise UsageError(
            "there are no rows of your own here",
            where=folder,
            got=f"evidence {OWN_ROWS}",
            allowed="a data folder that rows were measured or joined into",
            next_step=write_command("measure", FIRST_MODEL, data="mine"),
        )
    return runs


OWN_RUNS = "own runs"
"""Under which the ids of the user's own runs are kept among the tables."""
OF_FACTS = "lineage"
"""Table whose source is who states a fact of a model, whichever set that is measured in."""


class Selection:
    """Tables of a data folder, each loaded once, and the set of evidence that rows are handed out
    of.

    The texts of prompts are left out, since they are not on every machine; their hashes represent
    them.
    """

    def __init__(self, data: str | Path | None = None, name: str = "") -> None:
        self._folder, self.name = store.find_data_folder(data), name
        self.left_out = ""
        """Source whose rows are not handed out."""
        self._files: dict[str, pd.DataFrame] = {}
        self._loaded: dict[str, pd.DataFrame] = {}

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        """Rows of table `name` whose columns have the given values (one, or one of a list); all
        rows without.

        Run-keyed tables can be selected by the columns of `runs` and `models` too (`source`,
        `model_id`, `heritage`), which are then joined in. `features` is a table too: one row per
        model and source (`tables/features.py`). Models that are no decoders are handed out, with
        the column `modality`, where they are asked for by it alone. In the controlled study a
        recipe stands in the place of the lab (`heritage`). Without `source` only rows of the named
        set are handed out; of a user's own rows with `source` too.
        """
        return self._select(name, equals)

    def computed_rows(
        self, _key: tuple[Hashable, ...], compute: Callable[[], pd.DataFrame]
    ) -> pd.DataFrame:
        """Rows that are computed of those of the set."""
        return compute()

    def has_own_runs(self) -> bool:
        """Whether the user's folder has measurements besides those of the package."""
        return not self._load_own_runs().empty

    def _load_own_runs(self) -> pd.DataFrame:
        """Ids of the runs in the user's own folder, read once."""
        if OWN_RUNS not in self._files:
            self._files[OWN_RUNS] = store.read_own_runs(self._folder)
        return self._files[OWN_RUNS]

    def origin(self, source: pd.Series[str]) -> pd.Series[str]:
        """Who measured, by source; see `tables.choices.origin`."""
        return find_origin(source, set(self.table("sources")["file"]))

    def _select(self, name: str, equals: Mapping[str, str | list[str]]) -> pd.DataFrame:
        frame = self._join_table(name)
        if self.name == NURSERY and {"heritage", "family"} <= set(frame):
            frame = frame.assign(heritage=frame["family"])
        is_own = self.name == OWN_ROWS
        conditions = []
        if "source" in frame and (is_own or "source" not in equals) and name != OF_FACTS:
            published = set(self._select_table("sources")["file"])
            runs = self._select_table("runs")
            conditions.append(mark_set(self.name or POOLED, frame, published, runs))
        if is_own and "run_id" in frame:
            conditions.append(frame["run_id"].isin(self._load_own_runs()["run_id"]))
        if self.left_out and {"run_id", "source"} <= set(frame):
            published = set(self._select_table("sources")["file"])
            conditions.append(find_origin(frame["source"], published) != self.left_out)
        spare = []
        if "modality" in frame and name != "prompts" and "modality" not in equals:
            conditions.append(frame["modality"].fillna(DECODER) == DECODER)
            spare.append("modality")
        for label, wanted in equals.items():
            if label not in frame:
                raise UsageError(
                    f"table {name} cannot be selected by {label!r}",
                    allowed=join_some(frame.columns, label),
                )
            conditions.append(mark_rows(frame, label, wanted))
        kept = np.ones(len(frame), dtype=bool)
        for condition in conditions:
            kept &= condition.to_numpy(bool, na_value=False)
        chosen = frame.loc[kept, frame.columns.difference(spare, sort=False)]
        return chosen.reset_index(drop=True).copy()  # shares no array with what is kept

    def _join_table(self, name: str) -> pd.DataFrame:
        if name not in self._loaded:
            frame = self._select_features() if name == "features" else self._select_table(name)
            if "run_id" in frame and name not in {"runs", "features"}:
                runs = self._select_table("runs")[RUN_COLUMNS]
                frame = frame.merge(runs, on="run_id", how="left")
            if "model_id" in frame and "revision" in frame and name not in {"models", "features"}:
                models = self._select_table("models")[MODEL_COLUMNS]
                frame = frame.merge(models, on=["model_id", "revision"], how="left")
            self._loaded[name] = frame
        return self._loaded[name]

    def _select_features(self) -> pd.DataFrame:
        names = ("runs", "models", "layers", "summaries", "transitions", "weights")
        return combine(**{name: self._select_table(name) for name in names})

    def _select_table(self, name: str) -> pd.DataFrame:
        if name not in self._files:
            frame = self._drop_superseded(name, self._read(name))
            self._files[name] = frame.assign(text="") if name == "prompts" else frame
        return self._files[name]

    def _drop_superseded(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Rows of a table without those of runs that were measured again."""
        if name != "runs" and name not in RUN_TABLES:
            return frame
        runs = frame if name == "runs" else self._read("runs")
        old = set(runs.loc[mark_superseded(runs), "run_id"])
        return frame[~frame["run_id"].isin(old)] if old else frame

    def _read(self, name: str) -> pd.DataFrame:
        return store.load(name, self._folder)


def select_set(evidence: str, data: str | Path | None = None) -> Selection:
    """The tables of a folder under a set of evidence; raises UsageError where there is no such set,
    and for own rows where there are none."""
    check_set(evidence)
    if evidence == OWN_ROWS:
        require_own_runs(data)
    return Selection(data, evidence)


QUANTITIES = {
    "gain": "gain_block",
    "norm": "norm_in",
    "read gain": "gain_read",
    "attention gain": "gain_attention",
    "mlp gain": "gain_mlp",
}
"""What is drawn over depth → its column of the table `layers`."""
OWN = "thermostats"
"""Source of runs that this package measured, which are taken before others'."""
COLUMNS = ["model", "run_id", "prompt_set", "prompt", "layer", "value"]


def find_column(quantity: str) -> str:
    """The column of a quantity; raises UsageError for one that there is not."""
    if quantity not in QUANTITIES:
        raise build_unknown_error(
            "no such quantity of a block", quantity, QUANTITIES, where="quantity"
        )
    return QUANTITIES[quantity]


def read_values(
    model: str | Path, quantity: str = "gain", position: str = LAST, data: str | Path | None = None
) -> pd.DataFrame:
    """A quantity of a model in every run that has it: `COLUMNS`, the runs of this package first, of
    these the newest.

    model: its name in the tables, with or without its owner, or its folder; behind an @ a revision.
    A prompt is its text, or its name where the text is not known; an empty one stands for a mean
    over prompts.

    Raises UsageError for a quantity or position that there is not, and for a model without such
    rows.
    """
    column = find_column(quantity)
    path = Path(model)
    name, revision = (path.resolve().name, None) if path.is_dir() else split_revision(str(model))
    runs = store.load("runs", data)
    bare = f"/{name.casefold()}"
    of_model = runs["model_id"].eq(name) | runs["model_id"].str.casefold().str.endswith(bare)
    runs = runs[of_model]
    if revision:
        runs = select_rows(runs, revision=revision)
    step = write_command("measure", str(model), what="gains", data=data or "mine")
    if runs.empty:
        raise UsageError(
            "nothing is measured of this model", where="models", got=str(model), next_step=step
        )
    layers = store.load("layers", data, runs=set(runs["run_id"]))
    layers = select_rows(layers, run_id=runs["run_id"])
    at_token = select_rows(layers, position=position).dropna(subset=column)
    if at_token.empty:
        there = sorted(set(layers.dropna(subset=column)["position"]))
        allowed = "a model with rows of its blocks"
        if there:
            allowed = f"{quantity} at {', '.join(there)}"
            near = find_nearest(position, there) or there[-1]
            step = f"position={near!r}"
        what = "the model has no such rows of its blocks"
        got = f"{quantity} at {position} of {model}"
        raise UsageError(what, where="models", got=got, allowed=allowed, next_step=step)
    by = ["others", "measured_at", "run_id"]
    others = ~runs["source"].str.startswith(OWN)
    order = runs.assign(others=others).sort_values(by, ascending=[True, False, True])
    rows = order[["run_id", "prompt_set"]].merge(at_token, on="run_id", how="inner")
    prompts = _read_texts(rows, data)
    values = rows[column].astype("float64")
    rows = rows.assign(model=str(model), prompt=prompts, value=values)
    return rows.astype({"layer": "int64"})[COLUMNS]


def _read_texts(rows: pd.DataFrame, data: str | Path | None) -> pd.Series:
    key = ["prompt_set", "prompt_id"]
    prompts = store.load("prompts", data)[[*key, "text"]]
    texts = rows[key].merge(prompts, on=key, how="left")["text"]
    texts.index = rows.index
    named = rows["prompt_set"] + ":" + rows["prompt_id"]
    stated = texts.fillna("").ne("")
    return texts.where(stated, named.where(rows["prompt_id"].ne(""), ""))


def find_shared_runs(sides: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Of each model the rows of one run: the first of a prompt set that all have, else the first of
    each."""
    shared = set.intersection(*(set(side["prompt_set"]) for side in sides))
    common = next((name for name in sides[0]["prompt_set"] if name in shared), None)
    chosen = []
    for side in sides:
        rows = side if common is None else select_rows(side, prompt_set=common)
        chosen.append(select_rows(rows, run_id=rows["run_id"].iloc[0]))
    return chosen


def summarise_runs(
    runs: Mapping[str, Collection[str]], data: str | Path | None = None
) -> list[dict[str, Any]]:
    """Of each model by its runs one row: L, gains of the last two blocks, read gain of the last,
    and the lowest block.

    All are means over prompts at the last token. Models without such rows have none.
    """
    wanted = set(chain.from_iterable(runs.values()))
    layers = store.load("layers", data, runs=wanted)
    layers = select_rows(layers, position=LAST)
    table = []
    for model, names in runs.items():
        rows = select_rows(layers, run_id=names)
        means = rows.groupby("layer")[["gain_block", "gain_read"]].mean()
        if means["gain_block"].isna().all():
            continue
        depth = int(means.index.max())
        gains = means["gain_block"]
        last_read_gain = means["gain_read"].iloc[-1]
        row = {
            "model": model,
            "L": depth,
            "last_gain": float(gains.iloc[-1]),
            "penultimate_gain": float(gains.iloc[-2]) if depth > 1 else None,
            "last_read_gain": None if pd.isna(last_read_gain) else float(last_read_gain),
            "lowest_block": int(gains.idxmin()),
        }
        table.append(row)
    return table
