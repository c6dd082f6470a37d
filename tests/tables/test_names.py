"""Names that deceive or run: hidden and turning characters, formulas, paths; free text is kept as it is."""

from __future__ import annotations

import errno
from pathlib import Path

import pandas as pd
import pytest
from conftest import layer, model, run, snapshot, table

from thermostats.errors import DataError
from thermostats.tables import atomic, store
from thermostats.tables.join import join
from thermostats.tables.names import check_names

NAMES = {
    "lab/\u202emallEtfel": "hidden character",
    "lab/a\u200bb": "hidden character",
    "lab/a\x1b[31mb": "hidden character",
    "lab/a\nb": "hidden character",
    "lab/a\x00b": "hidden character",
    "\ufefflab/a": "hidden character",
    "=cmd|'/c calc'!A1": "formula",
    "+1": "formula",
    "-1": "formula",
    "@SUM(A1)": "formula",
    "lab/\ud800": "half of a character",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_deceive_or_run_are_refused_by_what_is_wrong(small_store: Path, name: str) -> None:
    before = snapshot(small_store)
    with pytest.raises(DataError, match=NAMES[name]) as caught:
        join(table("models", model()).astype(object).assign(model_id=pd.Series([name], dtype=object)), data=small_store)
    assert "model_id" in str(caught.value)
    assert not any(ord(character) < 32 or character in "\u202e\u200b\ufeff" for character in str(caught.value))
    assert snapshot(small_store) == before


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-0.5B", "études/modèle-7b", "ラボ/模型", "a=b", "lab/<b>&'"])
def test_other_names_are_kept(name: str, small_store: Path) -> None:
    join(table("models", model(name)), data=small_store)
    assert name in set(store.load("models", small_store)["model_id"])


@pytest.mark.parametrize(
    "text", ["=1+1", "\u202eabc\u202c", "a\rb", "tab\tand\nline", "שלום", " lead", '"', "-", "NaN"]
)
def test_prompts_and_tokens_come_back_as_they_were(text: str, tmp_path: Path) -> None:
    frame = table("outputs", {"run_id": "r", "prompt_id": "p", "top_token": text, "missing": "not measured"})
    store.save(frame, "outputs", tmp_path / "outputs.csv")
    assert store.read(tmp_path / "outputs.csv", "outputs")["top_token"][0] == text


@pytest.mark.parametrize("name", ["../../outside", "a/b", "..", "/etc/x", "a\\b", "a.b", "é"])
def test_a_run_id_names_a_file_and_nothing_else(name: str) -> None:
    with pytest.raises(DataError, match="run_id"):
        table("layers", layer({**run(), "run_id": name}, 1, 1.0))


def test_nothing_is_written_outside_the_folder(small_store: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for path in (small_store / ".." / "outside" / "a.csv", outside / "a.csv"):
        with pytest.raises(DataError, match="outside its folder"):
            atomic.write_all(small_store, {path: b""})
    measured = run(source="elsewhere")
    (small_store / "measured" / "weights").symlink_to(outside)
    row = {"run_id": measured["run_id"], "layer": 1, "matrix": "W_V", "missing": "not measured"}
    before = snapshot(small_store)
    with pytest.raises(DataError, match=r"outside its folder.*symbolic link"):
        join([table("runs", measured), table("weights", row)], data=small_store)
    assert snapshot(small_store) == before
    assert list(outside.iterdir()) == []


def test_a_linked_file_is_replaced_not_followed(small_store: Path, tmp_path: Path) -> None:
    target = tmp_path / "models.csv"
    (small_store / "models.csv").replace(target)
    (small_store / "models.csv").symlink_to(target)
    before = target.read_bytes()
    join(table("models", model("lab/other")), data=small_store)
    assert target.read_bytes() == before
    assert not (small_store / "models.csv").is_symlink()


def test_what_a_killed_writer_left_is_removed_by_the_next(small_store: Path) -> None:
    staging = small_store / atomic.STAGING
    staging.mkdir()
    (staging / "models.csv.abc").write_bytes(b"half a li")
    join(table("models", model("lab/other")), data=small_store)
    assert not staging.exists()


def test_a_drive_without_locks_is_said(small_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import filelock

    for error in (NotImplementedError("no flock here"), OSError(errno.ENOLCK, "No locks available")):

        def refuse(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
        with pytest.raises(DataError, match=r"cannot lock.*(no flock here|No locks available)"):
            join(table("models", model("lab/other")), data=small_store)


def test_of_a_set_of_files_none_is_replaced_when_one_cannot_be_staged(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"old")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="cannot write"):
        atomic.write_all(tmp_path, {tmp_path / "a": b"new", tmp_path / "file" / "b": b"new"})
    assert snapshot(tmp_path) == {"a": b"old", "b": b"old", "file": b""}
    atomic.write_all(tmp_path, {tmp_path / "a": b"new", tmp_path / "deep" / "er" / "c": b"c"})
    assert snapshot(tmp_path) == {"a": b"new", "b": b"old", "file": b"", "deep/er/c": b"c"}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


HIDDEN = [
    (0x0, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x61C, 0x61C),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
]


@pytest.mark.parametrize(("first", "last"), HIDDEN)
def test_every_hidden_character_is_refused_and_its_neighbours_are_not(first: int, last: int) -> None:
    frame = table("models", model()).astype(object)
    for code in range(first, last + 1):
        with pytest.raises(DataError, match="column family holds a hidden character"):
            check_names(frame.assign(family=f"a{chr(code)}b"), "models")
    for code in (first - 1, last + 1):
        if code >= 0 and not any(low <= code <= high for low, high in HIDDEN):
            check_names(frame.assign(family=f"a{chr(code)}b"), "models")


def test_half_of_a_character_is_refused_in_free_text_too_and_a_formula_only_in_names() -> None:
    for code in (0xD800, 0xDFFF):
        for name, row, label in (("models", model(), "family"), ("outputs", {"run_id": "r"}, "top_token")):
            frame = table(name, row).astype(object).assign(**{label: pd.Series([f"a{chr(code)}"], dtype=object)})
            with pytest.raises(DataError, match=f"column {label} holds half of a character"):
                check_names(frame, name, "here")
    check_names(table("outputs", {"run_id": "r", "top_token": "=1+1\u202e"}), "outputs")
    for sign in "=+-@":
        with pytest.raises(DataError, match="column source begins as a formula") as caught:
            check_names(table("models", model()).assign(source=f"{sign}x"), "models", "here")
        assert (caught.value.where, caught.value.got) == ("here", f"'{sign}x'")
        check_names(table("models", model()).assign(source=f"x{sign}"), "models")


@pytest.mark.parametrize(
    ("run_id", "good"), [("A-b_9", True), ("-a", False), ("_a", False), ("a b", False), ("a\n", False)]
)
def test_what_a_run_may_be_called(run_id: str, good: bool) -> None:
    frame = table("layers", layer(run(), 1, 1.0)).assign(run_id=run_id)
    if good:
        check_names(frame, "layers")
        return
    with pytest.raises(DataError, match="names a run by more than letters, digits, - and _"):
        check_names(frame, "layers")
