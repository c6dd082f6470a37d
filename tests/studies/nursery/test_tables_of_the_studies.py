"""The data package of the later studies says what their tables hold, and is current."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from scripts.nursery_tables import FLAG, NUMBER, TEXT, WHOLE, datapackage, extract
from thermostats.errors import DataError
from thermostats.studies import nursery as tables_that_ship
from thermostats.studies.nursery import READ, THIRD, count_third_study, load_shipped_table
from thermostats.tables.folders import find_shipped

ROOT = Path(__file__).parents[3]
FOLDER = find_shipped("data") / "nursery"
RESOURCES = {each["name"]: each for each in json.loads(datapackage())["resources"]}
IS = {
    WHOLE: pd.api.types.is_integer_dtype,
    NUMBER: pd.api.types.is_numeric_dtype,
    FLAG: pd.api.types.is_bool_dtype,
    TEXT: lambda values: not pd.api.types.is_numeric_dtype(values),
}


def test_it_is_current() -> None:
    assert (FOLDER / "datapackage.json").read_bytes() == datapackage()


@pytest.mark.parametrize("name", RESOURCES)
def test_a_table_has_the_columns_and_the_key_that_it_names(name: str) -> None:
    resource = RESOURCES[name]
    assert (FOLDER / resource["path"]).is_file()
    rows, fields = (
        load_shipped_table(resource["path"].partition(".")[0]),
        resource["schema"]["fields"],
    )
    assert list(rows) == [field["name"] for field in fields]
    assert not rows.duplicated(resource["schema"]["primaryKey"]).any()
    for field in fields:
        filled = rows[field["name"]].dropna()
        assert filled.empty or IS[field["type"]](filled), field["name"]


def test_what_is_read_of_the_third_study_is_made_from_its_tables() -> None:
    tables = {name: load_shipped_table(f"third/{name}") for name in THIRD}
    made = extract(**tables)
    assert set(made) == set(READ)
    for name, rows in made.items():
        pd.testing.assert_frame_equal(load_shipped_table(f"third/read/{name}"), rows)
    model = tables["models"].iloc[5]
    of_model = tables["prompts"][tables["prompts"]["model"] == model["model"]].set_index("position")
    own = of_model[of_model["prompts"] == model["corpus"]]
    by_hand = [own.loc["last", "last_gain"].mean(), own.loc["mean", "penultimate_gain"].mean()]
    row = made["means"].set_index("model").loc[model["model"]]
    assert row.tolist() == pytest.approx(by_hand)


def test_the_third_study_is_as_its_design_says() -> None:
    counts = count_third_study()
    assert counts == {
        "models": 656,
        "recipes": 20,
        "corpora": 4,
        "shapes": 8,
        "repeats": 16,
        "tuned": 60,
    }
    assert (
        counts["models"]
        == counts["recipes"] * counts["corpora"] * counts["shapes"] + counts["repeats"]
    )


def test_of_the_nursery_at_most_eight_megabytes_are_in_a_wheel() -> None:
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]["exclude"]
    left_out = [ROOT / name.removeprefix("/") for name in excluded]
    assert all(path.exists() for path in left_out)
    shipping = [
        p
        for p in FOLDER.rglob("*")
        if p.is_file() and not any(p.is_relative_to(out) for out in left_out)
    ]
    assert sum(path.stat().st_size for path in shipping) <= 8e6


def test_a_table_that_is_no_part_of_the_installed_package_is_said_to_be_none(
    monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(tables_that_ship, "INSTALLED", tmp_path)
    monkeypatch.setattr(tables_that_ship, "find_shipped", lambda name: tmp_path / name)
    with pytest.raises(DataError, match=r"no part of the installed package.*second/gains"):
        load_shipped_table("second/gains")
