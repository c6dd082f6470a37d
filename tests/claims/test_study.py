"""Registered studies, of the package and of other distributions, and the import of their files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from thermostats.claims import study as registry
from thermostats.claims.study import Change, Imported, Study, import_published, named, studies
from thermostats.errors import UsageError

DONE = Imported(1, 2, {"imported": 2}, {"runs": 1}, ("README.md",), (Change("runs", 1, 0, 0),))


def read(source: Path, data: Path) -> Imported:
    return replace(DONE, rows={source.name: 1, data.name: 2})


class Entry:
    """An entry point of another distribution."""

    def load(self) -> Study:
        return Study("other", "Another study", importer=f"{__name__}:read", pages={"other": "json"})


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "entry_points", lambda group: [Entry()] if group == "thermostats.studies" else [])
    studies.cache_clear()
    yield
    studies.cache_clear()


def test_the_packages_studies_are_found_by_listing_them() -> None:
    assert list(studies()) == ["beyond", "delia2026", "nursery"]
    for study in studies().values():
        for path in filter(None, [study.importer, study.verbs]):
            assert callable(named(path))
        assert all(callable(named(page).files) for page in study.pages.values())


def test_a_study_of_another_distribution_is_found_by_its_entry_point_and_its_files_are_read(other: None) -> None:
    assert list(studies()) == ["beyond", "delia2026", "nursery", "other"]
    assert named(studies()["other"].pages["other"]) is json
    assert import_published(Path("files"), Path("mine"), "other").rows == {"files": 1, "mine": 2}


@pytest.mark.parametrize("name", ["", "nowhere", "nursery"])
def test_files_of_no_one_study_are_wrong_use(name: str, other: None) -> None:
    with pytest.raises(UsageError, match="delia2026, other"):
        import_published(Path("files"), Path("mine"), name)


def test_what_an_import_did_is_said_a_line_each() -> None:
    assert str(DONE).split("\n") == [
        "1 files, 2 numbers: 2 imported",
        "ignored: README.md",
        "runs: 1 rows added, 0 removed, 0 altered",
    ]
    again = replace(DONE, ignored=(), changes=())
    assert again.unchanged and str(again).endswith("nothing was written")
