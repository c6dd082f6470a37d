"""Why pages are stale: parts of a record changed one by one, files edited or gone, a manifest not to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from thermostats.claims.evidence import Evidence
from thermostats.errors import DataError
from thermostats.reporting import stale, state
from thermostats.reporting.names import MANIFEST
from thermostats.reporting.stale import PAGE_CODE, Record, stale_because


@pytest.fixture
def tables(small_store: Path) -> Evidence:
    read = Evidence(small_store)
    read.table("models", heritage="Lab")
    return read


def test_a_claim_is_stale_where_its_rules_are_tried_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c01.py").write_text("")
    monkeypatch.setattr(state.folders, "shipped", lambda name: tmp_path / name)
    (tmp_path / "data").mkdir()

    def digest(rates: str) -> str:
        (tmp_path / "data" / "worlds.csv").write_text(rates)
        of = state.State(tmp_path, tmp_path / "data", {"C01": tmp_path / "c01.py"}, {}, whole=False)
        return of.now("C01").script

    one = digest("rule,world\nC01.depth,normal\nC02.bound,normal\n")
    assert one == digest("rule,world\nC01.depth,normal\nC02.bound,t3\n") != digest("rule,world\nC01.depth,t3\n")


@pytest.fixture
def record(tables: Evidence) -> Record:
    return Record(script="1", code="2", page="3", selections=dict(tables.selections))


def test_each_part_of_a_record_makes_its_pages_stale(record: Record, tables: Evidence, tmp_path: Path) -> None:
    other = dict.fromkeys(record.selections, "changed")
    reasons = {
        "": (record, record),
        "not built yet": (None, record),
        "its script, its words or the error rates of its rules changed": (record, replace(record, script="4")),
        "what it shows changed": (replace(record, selections={}), replace(record, script="4")),
        "built with other versions of libraries": (record, replace(record, machine="5")),
        "code that it imports changed": (record, replace(record, code="4")),
        "rows that it reads changed": (replace(record, selections=other), record),
        PAGE_CODE: (record, replace(record, page="4")),
    }
    assert {why: stale_because(before, now, tables.changed, tmp_path) for why, (before, now) in reasons.items()} == {
        why: why for why in reasons
    }


def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert stale.read_manifest(tmp_path) == {}
    (tmp_path / MANIFEST).mkdir()
    with pytest.raises(DataError, match=r"the manifest of the report cannot be read .*Is a directory"):
        stale.read_manifest(tmp_path)


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Versions are asked for anew, here and afterwards."""
    stale.machine.cache_clear()
    yield
    stale.machine.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_a_library_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "nutpie":
            raise PackageNotFoundError(name)
        return f"{name} 1"

    monkeypatch.setattr(stale, "version", version)
    found = stale.machine()
    assert "nutpie" not in found
    assert found["pymc"] == "pymc 1"


def test_code_that_a_file_does_not_import_makes_it_not_stale() -> None:
    path = Path(__file__).with_name("imports_plots.py")
    found = {file.relative_to(stale.HERE).as_posix() for file in stale.closure(path)}
    assert {"plots/general.py", "plots/labels.py", "tables/store.py"} <= found
    assert not {"reporting/pages/claim.py", "tables/join.py"} & found
    assert stale.code_sha(path) == stale.code_sha(path)


def test_a_style_next_to_a_module_counts_as_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(__file__).with_name("imports_plots.py")
    before, read = stale.code_sha(path), stale._own

    def with_another_style(file: Path) -> bytes:
        return read(file) + b"axes.grid : True" * (file.name == "house.mplstyle")

    monkeypatch.setattr(stale, "_own", with_another_style)
    assert stale.code_sha(path) != before


STYLES = {
    "backslash": "from thermostats.tables \\\n    import export",
    "after a semicolon": "a = 1; from thermostats.tables import export",
    "try on one line": "try: import thermostats.tables.export\nexcept ImportError: pass",
    "a # in a string before": "a = '#'; import thermostats.tables.export",
    "parentheses": "import thermostats.tables.store\n(thermostats\n .export('there'))",
    "another part imported": "import thermostats.tables.store\nthermostats.export('there')",
    "by another name": "import thermostats as own\nown.export('there')",
}


@pytest.mark.parametrize("source", STYLES.values(), ids=list(STYLES))
def test_imports_of_a_user_s_script_count_in_every_style(tmp_path: Path, source: str) -> None:
    (tmp_path / "u01_own.py").write_text(f"{source}\n")
    assert stale.HERE / "tables" / "export.py" in stale.closure(tmp_path / "u01_own.py")


@pytest.mark.parametrize("reader", [stale._imported, stale._imported_by])
def test_imports_for_the_type_checker_alone_do_not_count(reader: Callable[[bytes], frozenset[Path]]) -> None:
    source = b"if TYPE_CHECKING:  # x\n    from thermostats.tables import export\n\nfrom thermostats import errors\n"
    assert reader(source) == {stale.HERE / "errors.py"}


def test_a_script_with_a_mistake_imports_nothing_that_is_known() -> None:
    for source in (b"from thermostats.tables import (", b"\0"):
        assert stale._imported_by(source) == frozenset()


def test_the_text_of_the_package_s_files_says_all_that_their_syntax_does() -> None:
    files = [*stale.HERE.rglob("*.py"), *stale.folders.shipped("analyses").glob("*.py")]
    sources = {str(path): path.read_bytes() for path in files}
    assert [name for name, text in sources.items() if stale._imported_by(text) - stale._imported(text)] == []
