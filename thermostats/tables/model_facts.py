"""What no file of a model says, its lab above all: set in the user's own rows, never over rows that ship."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from thermostats.errors import UsageError, did_you_mean
from thermostats.next_steps import command
from thermostats.tables import store
from thermostats.tables.folders import own_files, own_folder, shipped
from thermostats.tables.join import Joined, join
from thermostats.tables.labels import bare
from thermostats.tables.parameters import COUNTED
from thermostats.tables.schemas import dtypes

SHAPE = ("d_head", "n_kv_heads", "d_ff", "n_params_nonembedding", "norm_kind", "norm_place", "position_scheme")
"""What the files of a model say, and whoever joins one without files."""
FACTS = ("heritage", "family", "variant", "parent", "seed_of", "year", "quantised", "package", "model_licence")


ALIASES = {"lab": "heritage"}
"""Words for facts that the columns call otherwise."""


def set_facts(
    models: str | Sequence[str],
    facts: Mapping[str, str],
    *,
    revision: str | None = None,
    data: str | Path | None = None,
) -> list[Joined]:
    """Set columns of models' rows in the user's folder: those of one revision, or of every one.

    facts: of `FACTS`, and of `SHAPE` for models whose files were not read, by column, or `lab` for `heritage`; a year
    is a number, an empty text takes a fact away.

    Raises UsageError for other columns and for models whose rows are not the user's own, DataError for values that the
    table `models` does not take.
    """
    facts = {ALIASES.get(name, name): value for name, value in facts.items()}
    if wrong := [name for name in facts if name not in (*FACTS, *SHAPE)]:
        step = did_you_mean(wrong[0], FACTS, "all else is read from the model's files")
        raise UsageError("not a fact to set", got=wrong[0], allowed=", ".join(FACTS), next_step=step)
    folder = own_folder(data)
    rows = own_models(folder)
    names = [models] if isinstance(models, str) else list(models)
    chosen = rows[rows["model_id"].isin(names) & (rows["revision"].eq(revision) if revision else True)]
    for model in sorted(set(names) - set(chosen["model_id"])):
        named = model if revision is None else f"{model}@{revision}"
        step = did_you_mean(model, rows["model_id"], command("ls", "models", own=True, data=folder))
        raise UsageError("no such model among your own rows", where=folder, got=named, next_step=step)
    read = chosen.loc[chosen["source"] == COUNTED, "model_id"]
    if len(read) and (wrong := [name for name in facts if name in SHAPE]):
        what, step = "the files of this model say so themselves", f"leave {wrong[0]} out"
        raise UsageError(what, where=read.iloc[0], got=wrong[0], allowed=", ".join(FACTS), next_step=step)
    return join(chosen.assign(**facts), table="models", data=folder, replace=True, accept=True)


def own_models(folder: Path) -> pd.DataFrame:
    """The user's own rows of the table `models`, none if the folder does not exist yet."""
    held = [store.read(path, "models") for path in own_files("models", folder)]
    return pd.concat(held) if held else pd.DataFrame(columns=list(dtypes("models")))


def own_ids(folder: Path) -> set[str]:
    """Models of the user's own tables; of the tables that ship none."""
    return set() if folder == shipped("data") else set(own_models(folder)["model_id"])


def spelt_otherwise(heritage: str, folder: Path) -> str:
    """A lab of the tables that differs from a name by capitals, spaces or dashes alone, if there is one."""
    labs = set(store.load("models", folder)["heritage"]) - {heritage, ""}
    return next((name for name in sorted(labs) if bare(name) == bare(heritage)), "")


def check_lab(heritage: str, model: str, folder: Path) -> None:
    """Raise UsageError for a lab that the tables do not have, while they have one that differs by spelling alone."""
    labs = set(store.load("models", folder)["heritage"])
    if heritage and heritage not in labs and (other := spelt_otherwise(heritage, folder)):
        line = command("set", model, f"heritage={heritage}")
        step = f"--lab {shlex.quote(other)}; if it is another lab, leave --lab out, then {line}"
        raise UsageError("the tables spell this lab otherwise", got=repr(heritage), allowed=other, next_step=step)
