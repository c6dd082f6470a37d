"""Which folder is read and which is written, what lies beneath a store, which files make up a
table."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables import folders
from thermostats.tables.folders import prepare_folder


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THERMOSTATS_DATA", raising=False)


def begun_store(folder: Path) -> Path:
    """A folder that says that it is a store, without rows."""
    folder.mkdir(exist_ok=True)
    (folder / folders.MARK).touch()
    return folder


def test_the_argument_comes_before_the_variable_and_the_package_s_tables_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = folders.find_shipped("data")
    assert (shipped / "models.csv").is_file() and list(
        folders.find_shipped("analyses").glob("c01*.py")
    )
    for chosen in (folders.find_data_folder, folders.find_lookup_folder):
        monkeypatch.delenv("THERMOSTATS_DATA", raising=False)
        assert chosen() == shipped
        monkeypatch.setenv("THERMOSTATS_DATA", "")
        assert chosen() == shipped
        monkeypatch.setenv("THERMOSTATS_DATA", str(begun_store(tmp_path)))
        assert chosen() == tmp_path
        assert chosen(str(begun_store(tmp_path / "a"))) == tmp_path / "a"
    assert folders.find_own_folder() == tmp_path
    assert folders.find_own_folder(tmp_path / "new") == tmp_path / "new"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ([], "no such data folder"),
        (["new/"], "the data folder has no tables yet"),
        (["new/.lock", "new/notes.txt"], "the data folder has no tables yet"),
    ],
)
def test_a_folder_without_tables_is_looked_up_in_the_package_s_and_not_read(
    made: list[str], words: str, tmp_path: Path
) -> None:
    for name in made:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).write_text("")
    assert folders.find_lookup_folder(tmp_path / "new") == folders.find_shipped("data")
    with pytest.raises(UsageError, match=words) as caught:
        folders.find_data_folder(tmp_path / "new")
    assert caught.value.where == str(tmp_path / "new")


@pytest.mark.parametrize(
    "name", ["store.toml", "models.csv", "lineage.csv", "external/theirs/layers.csv", "measured/x"]
)
def test_a_folder_with_tables_of_any_kind_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("")
    assert folders.find_data_folder(tmp_path) == folders.find_lookup_folder(tmp_path) == tmp_path


def test_no_folder_is_written_to_where_none_was_named() -> None:
    with pytest.raises(UsageError, match="no folder for your rows was named"):
        folders.find_own_folder()


def test_a_wheel_holds_what_ships_inside_the_package_where_it_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "thermostats" / "_shipped"
    monkeypatch.setattr(folders, "INSTALLED", wheel)
    assert folders.find_shipped("data") == tmp_path / "data"
    (wheel / "data").mkdir(parents=True)
    assert folders.find_shipped("data") == wheel / "data"
    assert folders.find_shipped("analyses") == tmp_path / "analyses"
    for inside in (wheel / "data", wheel / "data" / "mine", wheel / ".." / "_shipped"):
        with pytest.raises(
            UsageError, match=r"^the tables that ship with the package are read-only .*--data mine"
        ):
            folders.find_own_folder(inside)
    assert folders.find_own_folder(tmp_path / "mine") == tmp_path / "mine"


@pytest.mark.parametrize("content", ["schema = 1\n", "", 'begun_with = "0.1"\n'])
def test_the_package_s_tables_lie_beneath_a_store_and_not_beneath_a_folder_of_tables(
    tmp_path: Path, content: str
) -> None:
    assert folders.list_layers(tmp_path) == (tmp_path,)
    (tmp_path / "store.toml").write_text(content)
    assert folders.list_layers(tmp_path) == (folders.find_shipped("data"), tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("schema = 0", "created with an older schema.*got schema = 0; allowed: 1. Next: export it"),
        (
            "schema = 2",
            "created with a newer schema.*got schema = 2; allowed: 1. Next: install a newer",
        ),
        ('schema = "1"', "created with a newer schema.*got schema = '1'"),
        ("schema", "store.toml cannot be read.*schema = 1"),
    ],
)
def test_a_store_of_another_schema_is_not_read(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "store.toml").write_text(content)
    with pytest.raises(DataError, match=words) as caught:
        folders.list_layers(tmp_path)
    assert caught.value.where == str(tmp_path / "store.toml")


def test_a_file_in_the_place_of_a_folder_holds_no_tables_and_one_that_is_refused_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "measured").write_text("")
    assert folders.list_own_files("runs", tmp_path) == []

    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(DataError, match="a folder of tables cannot be read") as caught:
        folders.list_own_files("runs", tmp_path)
    assert (caught.value.where, caught.value.got) == (str(tmp_path), "Permission denied")


def test_a_store_is_begun_where_it_is_named_and_that_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deep" / "er"
    for _ in range(2):
        assert prepare_folder(folder) == folder
        assert [path.name for path in folder.iterdir()] == ["store.toml"]
    stored = tomllib.loads((folder / "store.toml").read_text(encoding="utf-8"))
    assert stored == {"begun_with": thermostats.__version__, "schema": 1}
    printed = capsys.readouterr()
    assert (
        printed.out,
        printed.err.count("new data folder for your own rows"),
        printed.err.count(str(folder)),
    ) == ("", 1, 1)
    monkeypatch.setenv("THERMOSTATS_DATA", str(tmp_path / "asked"))
    assert prepare_folder() == tmp_path / "asked"
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot create a data folder") as caught:
        prepare_folder(tmp_path / "file" / "x")
    assert (caught.value.got, caught.value.where) == (
        "Not a directory",
        str(tmp_path / "file" / "x"),
    )
    assert caught.value.next_step == "free space or choose a folder that can be written"
