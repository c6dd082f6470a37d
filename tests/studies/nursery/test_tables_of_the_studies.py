"""The data package of the later studies says what their tables hold, and is current."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from scripts.describe_nursery import FLAG, NUMBER, TEXT, WHOLE, datapackage
from thermostats.studies.nursery.shipped import shipped_table
from thermostats.tables.folders import shipped

FOLDER = shipped("data") / "nursery"
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
    resource, (study, _, table) = RESOURCES[name], name.partition("-")
    assert (FOLDER / resource["path"]).is_file()
    rows, fields = shipped_table(f"{study}/{table}"), resource["schema"]["fields"]
    assert list(rows) == [field["name"] for field in fields]
    assert not rows.duplicated(resource["schema"]["primaryKey"]).any()
    for field in fields:
        filled = rows[field["name"]].dropna()
        assert filled.empty or IS[field["type"]](filled), field["name"]


def test_the_third_study_s_tables_are_at_most_eight_megabytes() -> None:
    assert sum(path.stat().st_size for path in (FOLDER / "third").glob("*.*")) <= 8 * 2**20
