"""Whether runs of a name are of the model that is here: by the hash of the model, which newer runs state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from thermostats.errors import UsageError
from thermostats.measurement.hub import ModelFolder
from thermostats.measurement.spec import AGAIN, SAME
from thermostats.tables.runs import LIKE

MEASURE_VERSION = "3"
"""Changes when the same model and prompts would give other numbers, or more of them; see `versions.py`."""
SHAPE = ("n_layers", "d_model", "n_heads")
"""Facts that no two models of one name and revision can differ in."""


def check_name(folder: ModelFolder, sha: str, runs: pd.DataFrame, stated: pd.DataFrame, row: Mapping[str, Any]) -> None:
    """Raise UsageError where the tables hold another model by the name of the one in a folder.

    runs: those of this name and revision. stated: its row of `models` in the tables, or none. row: what its files say.
    """
    hashes = runs["model_sha"].where(runs["model_sha"] != "", runs["confirmed_sha"])
    other = runs[(hashes != "") & (hashes != sha)]
    if len(other):
        got = f"run {other['run_id'].iloc[0]} is of {hashes[other.index[0]][:12]}, this model is {sha[:12]}"
        raise _other(folder, "other weights or another configuration were measured under this name", got)
    apart = [
        f"{label} {stated[label].iloc[0]} in the tables, {row[label]} here"
        for label in SHAPE
        if len(stated) and int(stated[label].iloc[0]) != int(row[label])
    ]
    if apart:
        raise _other(folder, "the tables hold another model by this name", ", ".join(apart))


def _other(folder: ModelFolder, what: str, got: str) -> UsageError:
    label = f"{folder.model_id} @ {folder.revision}"
    name = f"{folder.path.parent.name}/{folder.path.name}"
    step = f"--set name={name} measures it as a model of its own (name= in Python), --revision as another state of it"
    options = ("--set", f"name={name}")
    if folder.commit:
        step = f"--revision {folder.commit} measures it as that state of the model"
        options = ("--revision", folder.commit)
    return UsageError(what, where=f"{label}, {folder.path}", got=got, next_step=step, options=options)


def standing(
    run: Mapping[str, Any], folder: ModelFolder, runs: pd.DataFrame, older: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The run of the tables that measured what a new run would, else the new one; and the runs that `older` confirms.

    runs: those of the model's name and revision. A run of an older version stands where it states the model's hash or
    commit, or is confirmed to be of it, unless `older` says that it is measured again.

    Raises UsageError where there are runs of another commit, or runs without a hash and `older` does not say whether
    they are of this model.
    """
    alike = runs[(runs[LIKE] == pd.Series({label: run[label] for label in LIKE})).all(axis=1)]
    if run["run_id"] in set(alike["run_id"]) or older == AGAIN or alike.empty:
        return dict(run), ()
    stated = alike["versions"].str.extract(r"(?:^|\s)commit=(\S+)", expand=False).fillna("")
    of_commit = (stated == folder.commit) & (stated != "")
    ours = (alike["model_sha"] == run["model_sha"]) | (alike["confirmed_sha"] == run["model_sha"]) | of_commit
    if folder.commit and not ours.any() and (stated != "").all():
        got = f"run {alike['run_id'].iloc[0]} is of commit {stated.iloc[0]}, this model is {folder.commit}"
        raise _other(folder, "another commit was measured under this revision", got)
    if not ours.any() and older != SAME:
        names = ", ".join(alike["run_id"])
        raise UsageError(
            "runs of this name are older than the hash of a model's weights, which would say whether they are of it",
            where=f"{folder.model_id} @ {folder.revision}, {folder.path}",
            got=names,
            next_step="--set older=same keeps them as of these weights (older='same' in Python), --set older=again "
            f"measures again; if they are of another model, --set name={folder.path.parent.name}/{folder.path.name}",
        )
    chosen = alike[ours] if ours.any() else alike
    newest = chosen.loc[pd.to_numeric(chosen["measure_version"], errors="coerce").fillna(0).idxmax()]
    confirmed = () if ours.any() else tuple(chosen["run_id"])
    return {str(label): value for label, value in newest.items()}, confirmed
