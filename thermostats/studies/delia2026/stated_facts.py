"""Figures that the preprint, its notes and its files state, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.errors import DataError
from thermostats.formatting import strip_owner

STATED_IN = ("preprint", "note")
H4_V2 = "H4_v2_validation_20260106_015547.json"
H4_EXTENDED = "H4_v2_extended_20260106_012606.json"
KNOWN_GAIN = "known gain"


def load_stated(tables: Evidence, names: Mapping[str, str], *sources: str) -> dict[str, float]:
    """Figures of the preprint and its notes, or of the named file: name in the finding → value.

    `names` maps the name to the figure's pointer. Raises DataError for a pointer that the table
    does not hold.
    """
    pointers = sorted(set(names.values()))
    rows = tables.table("statements", source=list(sources or STATED_IN), pointer=pointers)
    values = rows.set_index("pointer")["value"]
    absent = sorted(set(pointers) - set(values.index))
    if absent:
        raise DataError("a stated figure is not in the table statements", got=", ".join(absent))
    stated = {}
    for name, pointer in names.items():
        stated[name] = float(values[pointer])
    return stated


def check_figures(
    tables: Evidence, names: Mapping[str, str], values: Iterable[float], *sources: str
) -> Audit:
    """Figures as `load_stated` has them against those recomputed, in the same order."""
    stated = load_stated(tables, names, *sources)
    reproduced = dict(zip(names, map(float, values), strict=True))
    return Audit(stated, reproduced)


def index_models(tables: Evidence, *, last: bool = False) -> pd.DataFrame:
    """Facts of models by `model_id`, from the first or the last row of each."""
    models = tables.table("models")
    single = models.drop_duplicates("model_id", keep="last" if last else "first")
    return single.set_index("model_id")


def load_stated_models(tables: Evidence, source: str, names: Mapping[str, str]) -> dict[str, float]:
    """Figures of one file model by model: name in the finding → value; figures that are no number
    are left out.

    `names` maps a name, with {} for the model's short name, to a pattern of pointers.
    Raises DataError for a pattern without a figure.
    """
    rows = tables.table("statements", source=source)
    of_models = rows["value"].notna() & (rows["model_id"] != "")
    rows = rows[of_models]
    figures = {}
    for name, pattern in names.items():
        matches = rows["pointer"].str.fullmatch(pattern)
        matching = rows[matches]
        if matching.empty:
            raise DataError(
                "a stated figure is not in the table statements", where=source, got=pattern
            )
        for row in matching.itertuples():
            called = strip_owner(row.model_id)
            figures[name.format(called)] = float(row.value)
    return figures


def check_model_figures(
    tables: Evidence,
    source: str,
    names: Mapping[str, str],
    recomputed: Iterable[tuple[object, Sequence[float]]],
) -> Audit:
    """Figures of one file (`names` as in `load_stated_models`) against those recomputed: model and
    values in turn."""
    reproduced = {}
    for model, values in recomputed:
        called = strip_owner(str(model))
        for name, value in zip(names, values, strict=True):
            reproduced[name.format(called)] = float(value)
    return Audit(load_stated_models(tables, source, names), reproduced)


def iterate_model_figures(
    rows: pd.DataFrame, figures: Callable[[pd.DataFrame], Sequence[float]]
) -> Iterator[tuple[object, Sequence[float]]]:
    """Every model of some rows with the figures of its own rows, as `check_model_figures` takes
    them."""
    return ((model, figures(of_model)) for model, of_model in rows.groupby("model_id"))


def join_audits(*audits: Audit) -> Audit:
    """All figures of some audits."""
    published: dict[str, float] = {}
    reproduced: dict[str, float] = {}
    for audit in audits:
        published |= audit.published
        reproduced |= audit.reproduced
    return Audit(published, reproduced)


def load_known_gains(tables: Evidence, *sources: str) -> pd.DataFrame:
    """Gains that the files of the Laplacian copy by hand, and the behaviour they state.

    Columns model_id, known_gain, behaviour.
    One row per model; a gain whose behaviour is stated as unknown is a placeholder and left out.
    """
    rows = tables.table("statements", source=list(sources))
    copied_by_hand = rows["statistic"].str.startswith(KNOWN_GAIN)
    rows = rows[copied_by_hand].drop_duplicates("model_id")
    behaviour = rows["statistic"].str.rsplit(" ", n=1).str[-1]
    copied = pd.DataFrame(
        {"model_id": rows["model_id"], "known_gain": rows["value"], "behaviour": behaviour}
    )
    return copied[copied["behaviour"] != "UNKNOWN"].reset_index(drop=True)
