"""The table `lineage` and the tree that it makes with the table models: root, lab, family, model, models tuned from it.

A model with parents hangs on them; one without hangs on its family, a family on its lab, a lab on the root. So base and
tuned models stand in one tree, and labs of a single family or families of a single model are known by where they hang.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import DataError, UsageError, some_of, unknown
from thermostats.tables import newick, store
from thermostats.tables.lineage import check_lineage, joined
from thermostats.tables.tree import EQUAL, Tree

ROOT = "root"
LAB, FAMILY = "lab", "family"
"""Kinds of the branches above labs and families."""
LENGTHS = {
    EQUAL: "every branch counts 1",
    "tokens": "10^9 tokens trained since the parent",
    "distance": "distance of its weights from the parent's",
}
NEWICK = (".nwk", ".newick", ".tree")
NOWHERE = "not stated"


def tree(
    source: pd.DataFrame | str | Path | None = None,
    *,
    lengths: str = EQUAL,
    models: Collection[str] | None = None,
    data: str | Path | None = None,
) -> Tree:
    """The tree of descent of the models in the tables, of a table of your own, or of a file in Newick's notation.

    source: None for the tables `models` and `lineage`; a table or CSV file with `model_id` and, where known,
    `heritage` (lab), `family`, `parent` (model_id; several rows for a merge, with `share`), `kind` and `year`; text or
    a file (.nwk) in Newick's notation. Models that are named as parents and stand in no row of a table of yours are
    looked up in the package's. lengths: `equal`, `tokens`, `distance`, or a column of the table; a branch without a
    length takes the median of the others and is named in `notes`. models: those that are kept, with their ancestors.

    Raises DataError for a circle, a model that is its own parent, an orphan, two roots, a child older than its parent,
    shares that do not add up to 1, lengths below 0; UsageError for a file or column that does not exist.
    """
    if isinstance(source, (str, Path)):
        source = _read(source)
    if isinstance(source, Tree):
        complete = source
    else:
        rows = descent(data) if source is None else _of_user(source, data)
        complete = grown(rows, lengths)
    return complete if models is None else complete.keep(models)


def descent(data: str | Path | None = None) -> pd.DataFrame:
    """One row per model and parent of the tables: lineage, with lab, family and year of the table models."""
    models, lineage = store.load("models", data), store.load("lineage", data)
    check_lineage(models, lineage)
    return joined(models, lineage)


def grown(rows: pd.DataFrame, lengths: str = EQUAL) -> Tree:
    """The tree of rows with model_id, parent, heritage, family, and share, kind, year and lengths where they are."""
    held, notes = _lengths(rows, lengths)
    scratch = rows["parent"] == ""
    places = rows[scratch].drop_duplicates("model_id")
    lab = places["heritage"].where(places["heritage"] != "", NOWHERE)
    family = _families(places, lab)
    tops = {(name, ROOT, LAB) for name in lab} | {
        (inner, outer, FAMILY) for inner, outer in zip(family, lab, strict=True) if inner != outer
    }
    clash = sorted(({name for name, _, _ in tops} | {ROOT}) & set(rows["model_id"]))
    if clash:
        raise DataError(
            "a model is called as a lab or a family is",
            got=", ".join(clash[:5]),
            next_step="rename the lab or the family",
        )
    with_parents = rows.assign(
        parent=rows["parent"].mask(scratch, rows["model_id"].map(dict(zip(places["model_id"], family, strict=True))))
    )
    above = pd.DataFrame([(ROOT, "", ""), *sorted(tops)], columns=["name", "parent", "kind"])
    unit = 1.0 if lengths == EQUAL else float(held.median())
    below = with_parents.assign(name=with_parents["model_id"], length=held)[
        ["name", "parent", "kind", "share", "length"]
    ]
    edges = pd.concat([above.assign(length=unit, share=np.nan), below], ignore_index=True)
    made = Tree.of(edges, unit=lengths, notes=notes)
    _check_years(rows)
    return made


def _of_user(table: pd.DataFrame, data: str | Path | None) -> pd.DataFrame:
    """Rows of a user's table, one a model and parent, and of the package's for parents that it lacks."""
    if "model_id" not in table:
        allowed = "model_id and, where known, heritage, family, parent, share, kind, year"
        raise UsageError("no column model_id", got=some_of(table.columns, "model_id"), allowed=allowed)
    texts, numbers = ("parent", "kind", "heritage", "family"), ("share", "year")
    rows = table.drop_duplicates(["model_id", *(["parent"] if "parent" in table else [])]).reset_index(drop=True)
    rows = rows.assign(**{x: rows[x].fillna("").astype(str) if x in rows else "" for x in texts})
    rows = rows.assign(**{x: pd.to_numeric(rows[x]) if x in rows else np.nan for x in numbers})
    lacking = set(rows["parent"]) - set(rows["model_id"]) - {""}
    if lacking:
        held = descent(data)
        while new := set(held.loc[held["model_id"].isin(lacking), "parent"]) - lacking - set(rows["model_id"]) - {""}:
            lacking |= new
        rows = pd.concat([rows, held[held["model_id"].isin(lacking)]], ignore_index=True)
    return rows


def _read(source: str | Path) -> Tree | pd.DataFrame:
    text = str(source)
    if isinstance(source, str) and ";" in text and "(" in text:
        return newick.read(text)
    path = Path(source)
    try:
        if path.suffix.lower() in NEWICK:
            return newick.read(path.read_text(), path)
        return pd.read_csv(path)
    except OSError as error:
        raise UsageError(
            "no such tree", got=text[-100:], allowed="a table, a CSV file, a file .nwk, or text such as (A:1,B:1)root;"
        ) from error


def _lengths(rows: pd.DataFrame, lengths: str) -> tuple[pd.Series, list[str]]:
    """Length of every row's branch, and what was filled in."""
    if lengths == EQUAL:
        return pd.Series(1.0, index=rows.index), []
    if lengths not in rows or not pd.api.types.is_numeric_dtype(rows[lengths]):
        numeric = [str(x) for x in rows if pd.api.types.is_numeric_dtype(rows[x]) and x not in {"share", "year"}]
        raise unknown("no such branch lengths", lengths, [*LENGTHS, *(x for x in numeric if x not in LENGTHS)])
    held = rows[lengths].astype("float64")
    lacking = held.isna()
    if lacking.all():
        raise UsageError("no branch has such a length", got=lengths, next_step="take lengths='equal'")
    names = list(rows.loc[lacking, "model_id"])
    notes = [f"{lengths} of {len(names)} of {len(rows)} branches are not stated: the median of the others"] * bool(
        names
    )
    return held.fillna(held.median()), notes


def _families(places: pd.DataFrame, lab: pd.Series) -> list[str]:
    """Node that each model without parents hangs on; a family called as its lab, or none, is the lab itself."""
    return [
        outer if inner in {"", outer} else f"{outer}: {inner}"
        for inner, outer in zip(places["family"], lab, strict=True)
    ]


def _check_years(rows: pd.DataFrame) -> None:
    """DataError where a child is older than its parent, by year of release."""
    if "year" not in rows:
        return
    year = rows.dropna(subset="year").drop_duplicates("model_id").set_index("model_id")["year"]
    late = rows["parent"].map(year).astype("float64") > rows["model_id"].map(year).astype("float64")
    if late.any():
        model, parent = rows.loc[late, ["model_id", "parent"]].iloc[0]
        raise DataError(
            "a child is older than its parent",
            where=model,
            got=f"{model} of {year[model]:.0f}, its parent {parent} of {year[parent]:.0f}",
            next_step="correct the year or the parent of one of them",
        )
