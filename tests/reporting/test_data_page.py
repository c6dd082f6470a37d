"""Where a report finds the tables of a user's store and those beneath it."""

from __future__ import annotations

from pathlib import Path

from conftest import model, table

from thermostats.reporting.state import Layout
from thermostats.tables import store
from thermostats.tables.folders import list_own_files
from thermostats.tables.join import join
from thermostats.tables.schemas import TABLES

SHIPPED = store.find_shipped("data")


def test_a_report_on_a_store_lists_both_layers_and_copies_what_lies_elsewhere(
    tmp_path: Path,
) -> None:
    join(table("models", model()), data=tmp_path / "mine")
    layout = Layout(tmp_path / "report", tmp_path / "mine", ())
    names = [listed.name for listed in layout.tables]
    assert names[0] == "mine/models.csv"
    assert "report/package/models.csv" in names
    assert (
        len(names)
        == len(set(names))
        == 2 + sum(len(list_own_files(name, SHIPPED)) for name in TABLES)
    )
    copies = layout.collect_copies()
    assert copies["package/models.csv"] == (SHIPPED / "models.csv").read_bytes()
    assert "mine/models.csv" not in copies
    hrefs = {listed.name: layout.make_href(listed) for listed in layout.tables}
    assert hrefs["mine/models.csv"] == "../mine/models.csv"
    assert hrefs["report/package/models.csv"] == "package/models.csv"
    lines = layout.list_checksums({}).decode().splitlines()
    assert {line.split("  ")[1] for line in lines} == set(names)
