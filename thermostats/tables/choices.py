"""Names of tables and formats that a user gives, checked before pandas is loaded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thermostats.errors import SHOWN_OF, UsageError, build_unknown_error, find_nearest
from thermostats.next_steps import call
from thermostats.tables.schemas import EXTERNAL, GAINS, INTERVENED, NURSERY, TABLES

if TYPE_CHECKING:
    import pandas as pd


FORMATS = ("csv", "parquet")
RECIPES = ("hidden-states", "logos-in-layers", "sae-norms", "transformer-lens")
"""Recipes that ship, by the names of their files: tools whose tables are joined in one line."""
DESCRIBED = (*TABLES, "features")
"""Tables whose columns are described: those of the store, and the features that follow from
them."""


def check_table(name: str, tables: Collection[str] = TABLES, line: str = "") -> None:
    """Raise UsageError for a table that does not exist; `line` as for `build_unknown_error`."""
    if not isinstance(name, str) or name not in tables:
        raise build_unknown_error(
            "no such table",
            name,
            tables,
            otherwise="" if line else "thermostats ls tables",
            line=line,
        )


def check_gain(gain: object, function: str) -> None:
    """Raise UsageError for what is no named gain, with the call of one, or of a fit where it is a
    table."""
    if isinstance(gain, str) and gain in GAINS:
        return
    near = find_nearest(gain, GAINS) if isinstance(gain, str) else ""
    line = call(function, near or "penultimate_gain")
    is_table = hasattr(gain, "columns")
    raise UsageError(
        "no such gain",
        got=f"a {type(gain).__name__}" if is_table else repr(gain)[:SHOWN_OF],
        allowed=", ".join(GAINS),
        next_step="of your own table: thermostats.fit_heritage(df)" if is_table else line,
    )


def check_export(
    folder: Path, tables: Sequence[str] | None, format_: str, partition: str | None
) -> None:
    """Raise UsageError for a table or a format that does not exist, parts of a CSV file, or a
    folder with content."""
    if format_ not in FORMATS:
        raise build_unknown_error("tables cannot be exported in this way", format_, FORMATS)
    for name in tables or ():
        check_table(name)
    if partition is not None and format_ != "parquet":
        raise UsageError(
            "only Parquet is partitioned",
            got=format_,
            next_step="leave out --partition or --format",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            "the folder to export to is not empty", where=folder, next_step="name a new one"
        )


MOST_LINES = 8
"""Lines of a figure that a reader can distinguish."""
MAIN = "main"
"""Revision where none is named, which stands for the last checkpoint wherever it is there."""


def split_revision(model: str, revision: str | None = None) -> tuple[str, str | None]:
    """A model and its revision, which may stand behind the name: `owner/name@step1000`.

    revision: as it was named besides; None: it was not. A path that exists is a name as it is.
    Raises UsageError where two revisions are named.
    """
    name, _, behind = model.rpartition("@")
    if not name or not behind or is_path(model):
        return model, revision
    if revision not in (None, behind):
        raise UsageError(
            "two revisions of one model",
            got=f"{model} and revision {revision}",
            allowed="one of them",
            next_step=f"name {name}, or leave the revision out",
        )
    return name, behind


def is_text(word: str) -> bool:
    """Whether every character can be written, which of a path in another encoding some cannot."""
    return word.encode(errors="ignore").decode() == word


def is_path(model: str) -> bool:
    """Whether there is such a file or folder; a text that can be none is none."""
    try:
        return Path(model).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


PUBLISHED = "published"
MEASURED = "measured"
POOLED = "pooled"
OWN_ROWS = "own"
SETS = {
    PUBLISHED: "what a study's own files say",
    EXTERNAL: "other people's measurements, each with its source and licence",
    MEASURED: "every model measured here or joined by the user",
    POOLED: "published, external and measured together, all measurements of a model in one "
    "estimate",
    OWN_ROWS: "the user's own rows alone, without those that ship",
    NURSERY: "the controlled study",
    INTERVENED: "trained models that something was done to, and what it cost",
}
"""Sets of evidence and what is in each."""
MEASUREMENTS = tuple(name for name in SETS if name not in (OWN_ROWS, INTERVENED))
"""Those of models as they are: a question about one of them may be put to all others. Own rows are
asked wherever there are some."""
CALLED = {
    PUBLISHED: "the study’s own files",
    EXTERNAL: "others’ measurements",
    MEASURED: "models measured here or joined",
    POOLED: "all evidence",
    OWN_ROWS: "your own rows",
    NURSERY: "the controlled study",
    INTERVENED: "interventions on trained models",
}
"""The same sets in as few words as a table has room for."""
DECODER = "decoder"
"""What sets are of, where no other modality is asked for: the studies' statements are about
decoders."""
FIRST_MODEL = "MODEL"
"""Stands in a suggested line for the model of whoever reads it."""
PLACEHOLDERS = {
    "heritage": "LAB",
    "family": "FAMILY",
    "n_layers": "LAYERS",
    "n_heads": "HEADS",
    "d_model": "WIDTH",
    "n_params": "PARAMETERS",
}
"""Facts of a model, and the words that stand for them in suggested lines."""
ANY_VALUE = "VALUE"
"""The word that stands for the value of any fact."""


def refuse_placeholder(fact: str, value: object) -> None:
    """Raise UsageError where a fact is the word that stands for it in a suggested line; what is
    missing is none."""
    words = (PLACEHOLDERS.get(fact), fact.upper(), ANY_VALUE)
    if isinstance(value, str) and value in words:
        raise UsageError(
            "a line was pasted as it was printed, with a word in capitals for what only you know",
            where=fact,
            got=value,
            allowed="a name, or nothing where nobody knows it",
            next_step=f"write the name in the place of {value}, or leave {fact} out",
        )


ALL = "all"
"""Findings on every set."""


def check_set(name: str | None, *more: str) -> None:
    """Raise UsageError where there is no such set of evidence."""
    if name not in {None, *SETS, *more}:
        raise build_unknown_error("no such set of evidence", str(name), [*SETS, *more])


def is_asked(evidence: str | None, of: str, view_of: str) -> bool:
    """Whether a finding is asked for: None of the set that its question was first asked of, `all`
    of every set."""
    return not view_of if evidence is None else evidence in (ALL, of)


def find_origin(source: pd.Series[str], published: set[str]) -> pd.Series[str]:
    """Who measured, by source: the files of a study are one instrument and count as one source,
    `published`."""
    return source.mask(source.isin(published), PUBLISHED)


def of_interventions(runs: pd.DataFrame) -> pd.Series[bool]:
    """Runs that changed a model rather than measured it as it is."""
    return runs["measure_version"].str.startswith(INTERVENED)


def mark_set(
    name: str, rows: pd.DataFrame, published: set[str], runs: pd.DataFrame
) -> pd.Series[bool]:
    """Which rows with a `source` are of a set; what no run measured is of every set but the
    controlled study's.

    published: sources that are files of a study. runs: all runs, which say which sources are other
    people's, and which changed a model: rows of these are of one set alone, and so are models
    of which there are no others. Whose rows they are only their folder says (`Selection`): here the
    user's own are those of all measurements.
    """
    source = rows["source"]
    acted = of_interventions(runs)
    if "run_id" in rows:
        changed = rows["run_id"].isin(runs.loc[acted, "run_id"])
        here = ~changed
    else:
        changed = rows["model_id"].isin(runs.loc[acted, "model_id"])
        here = ~changed | rows["model_id"].isin(runs.loc[~acted, "model_id"])
    if name == INTERVENED:
        return changed
    if name == NURSERY:
        return here & (source == NURSERY)
    here &= source != NURSERY
    if name in (POOLED, OWN_ROWS) or "run_id" not in rows:
        return here
    theirs = source.isin(published)
    others = source.isin(runs.loc[runs["measure_version"] == EXTERNAL, "source"])
    if name in (PUBLISHED, EXTERNAL):
        return here & (theirs if name == PUBLISHED else others)
    return here & ~theirs & ~others
