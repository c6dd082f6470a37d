"""Registered studies, of the package and of other distributions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from thermostats.claims import study as registry
from thermostats.claims.study import Study, load_named, load_studies


class Entry:
    """An entry point of another distribution."""

    def load(self) -> Study:
        return Study("other", "Another study", pages={"other": "json"})


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [Entry()] if group == "thermostats.studies" else []
    )
    load_studies.cache_clear()
    yield
    load_studies.cache_clear()


def test_the_packages_studies_are_found_by_listing_them() -> None:
    assert {"delia2026", "nursery"} <= set(load_studies())
    for study in load_studies().values():
        assert all(callable(load_named(page).build_files) for page in study.pages.values())


def test_a_study_of_another_distribution_is_found_by_its_entry_point(other: None) -> None:
    assert [*load_studies()][-1] == "other"
    assert load_named(load_studies()["other"].pages["other"]) is json
