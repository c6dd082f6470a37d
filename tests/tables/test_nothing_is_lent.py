"""What is handed out – tables, selections of them, tables and draws of a fit – is the caller's own:
nothing that he writes into it changes a later answer."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.claims.evidence import Evidence
from thermostats.tables import store
from thermostats.tables.model_rows import model_rows
from thermostats.tables.reading import Selection
from thermostats.tables.schemas import TABLES

OF_A_SELECTION = ("models", "runs", "layers", "weights", "features")


def other_value(values: Any) -> Any:
    """A value of the column's type that does not stand in its first row."""
    kind = values.dtype.kind
    if kind in "iufb":
        return not values[0] if kind == "b" else 999.0 if kind == "f" else 999
    return "written"


def write_into(frame: pd.DataFrame) -> None:
    """Write into every column by every way that pandas has; those that it refuses are no fault."""
    for label in frame:
        column = frame[label]
        value = other_value(column.array)
        for array in (column.array, column.to_numpy(), column.values):
            with suppress(ValueError, TypeError):
                array[0] = value
        for part in ("_data", "_mask"):
            with suppress(AttributeError, ValueError, TypeError):
                getattr(column.array, part)[0] = True
        with suppress(ValueError, TypeError):
            frame.iloc[0, frame.columns.get_loc(label)] = value


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_was_written_into_is_loaded_as_it_was(name: str) -> None:
    first = thermostats.load(name)
    wanted = first.copy()
    if first.empty:
        return
    write_into(first)
    assert not first.equals(wanted), "nothing was written, so nothing is tried"
    pd.testing.assert_frame_equal(thermostats.load(name), wanted)
    pd.testing.assert_frame_equal(store.load(name), wanted)


@pytest.mark.parametrize("name", OF_A_SELECTION)
@pytest.mark.parametrize("asked", [{}, {"heritage": "EleutherAI"}])
@pytest.mark.parametrize("kind", [Selection, Evidence])
def test_rows_of_a_selection_are_handed_out_anew(
    kind: type[Selection], name: str, asked: dict[str, str]
) -> None:
    if asked and name == "runs":
        return
    tables = kind()
    first = tables.table(name, **asked)
    wanted = first.copy()
    write_into(first)
    pd.testing.assert_frame_equal(tables.table(name, **asked), wanted)
    pd.testing.assert_frame_equal(tables.table(name, **asked), wanted)


def test_rows_of_models_are_handed_out_anew() -> None:
    evidence = Evidence().named("pooled")
    first = model_rows(evidence, "last_gain")
    wanted = first.copy()
    write_into(first)
    pd.testing.assert_frame_equal(model_rows(evidence, "last_gain"), wanted)


def small_fit() -> thermostats.Fit:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, 24)
    gain = 1 + x + rng.normal(0, 0.1, 24)
    lab = list("abcd") * 6
    names = [f"m{i}" for i in range(24)]
    rows = pd.DataFrame({"model_id": names, "heritage": lab, "x": x, "gain": gain})
    return thermostats.fit_line(rows, "gain", "x")


def test_tables_of_a_fit_are_handed_out_anew() -> None:
    fit = small_fit()
    for name in fit.law.tables:
        wanted = fit.table(name).copy()
        write_into(fit.table(name))
        pd.testing.assert_frame_equal(fit.table(name), wanted)
    wanted = fit.summary()
    write_into(fit.summary())
    pd.testing.assert_frame_equal(fit.summary(), wanted)


def test_draws_of_a_fit_cannot_be_written_into() -> None:
    fit = small_fit()
    for arrays in (fit.draws.values, fit.quantities, fit.reported):
        for name, array in arrays.items():
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
                pytest.fail(name)
