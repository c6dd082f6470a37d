"""The script that made data/published: every number accounted for, the same files give the same
bytes."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import import_study
import pytest
from conftest import STUDY

from thermostats.errors import ThermostatsError
from thermostats.tables import store

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "data"
WHOLE = ROOT.parent / "shared" / "published"
"""The study's files with their sentences."""
FAMILY = "pythia_family_NO_FINAL_LN_20260105_174820.json"
without_sentences = pytest.mark.skipif(
    not WHOLE.is_dir(), reason="the study's sentences are not beside the checkout"
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("models.csv", "prompts.csv"):
        shutil.copy(DATA / name, folder)
    return folder


@pytest.mark.slow
@without_sentences
def test_importing_again_gives_the_committed_bytes(data: Path) -> None:
    subprocess.run(
        [sys.executable, ROOT / "scripts/delia2026/import_study.py", WHOLE, "--data", data],
        check=True,
    )
    made = {path.name: path.read_bytes() for path in (data / "published").iterdir()}
    assert made == {path.name: path.read_bytes() for path in (DATA / "published").iterdir()}
    texts = store.load("prompts", data)
    assert (texts.loc[texts["prompt_set"].str.startswith("study_"), "text"] != "").sum() == 34


@without_sentences
def test_the_files_of_the_tests_are_the_studys_but_for_their_sentences(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, ROOT / "scripts/delia2026/study_figures.py", WHOLE, tmp_path], check=True
    )
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {
        path.name: path.read_bytes() for path in STUDY.iterdir() if path.name != "README.md"
    }


def test_without_its_sentences_the_study_gives_the_committed_figures() -> None:
    tables = import_study.import_study(STUDY, DATA)
    for name, mine in tables.items():
        theirs = store.read_typed(DATA / "published" / f"{name}.csv", name)
        assert len(mine) == len(theirs), name
        columns = [[label] for label in mine.select_dtypes("number").columns if label != "bytes"]
        for names in [["value", "other_value"]] if name == "inconsistencies" else columns:
            # ids of runs are hashes of prompts: rows, and the two sides of a comparison, are in
            # another order
            assert sorted(mine[names].stack().dropna()) == sorted(theirs[names].stack().dropna()), (
                name,
                names,
            )


def count(value: Any) -> int:
    """Numbers in a parsed file, counted by float() and what it should not take: truth, spaces,
    underscores."""
    if isinstance(value, dict):
        return sum(map(count, value.values()))
    if isinstance(value, list):
        return sum(map(count, value))
    if isinstance(value, str):
        if not value or re.search(r"[\s_]|^[+-]?inf", value, re.IGNORECASE):
            return 0
        try:
            return int(float(value) is not None)
        except ValueError:
            return 0
    return int(isinstance(value, (int, float)) and not isinstance(value, bool))


def test_every_number_of_every_file_has_a_fate() -> None:
    account = store.read_typed(DATA / "published" / "reconciliation.csv", "reconciliation")
    counted = {}
    for path in STUDY.glob("*.*"):
        if path.suffix in (".json", ".csv"):
            with path.open(encoding="utf-8", newline="") as lines:
                counted[path.name] = count(
                    json.load(lines) if path.suffix == ".json" else list(csv.DictReader(lines))
                )
    assert account.groupby("file")["numbers"].sum().to_dict() == counted


DAMAGES = {
    "renamed key": ('"residual_gain_all"', '"residual_gains_all"', "residual_gain_all"),
    "new number": ('"n_models": 8', '"n_models": 8, "extra": {"a": [1, 2]}', "/extra/a/0"),
    "number as null": ('"rotary_pct": 0.25', '"rotary_pct": null', "a number was expected"),
    "unknown model": ('"pythia-70m"', '"pythia-71m"', "no such model"),
    "gain list too short": (r"1\.3183484597440411,", "", "another length"),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_file_that_is_not_as_published_stops_the_import(damage: str, tmp_path: Path) -> None:
    files = shutil.copytree(STUDY, tmp_path / "files")
    pattern, new, words = DAMAGES[damage]
    text = (files / FAMILY).read_text()
    (files / FAMILY).write_text(re.sub(pattern, new, text, count=1))
    assert (files / FAMILY).read_text() != text
    with pytest.raises(ThermostatsError, match=re.escape(words)):
        import_study.import_study(files, DATA)
    (files / FAMILY).unlink()
    with pytest.raises(ThermostatsError, match="files of the study are missing"):
        import_study.import_study(files, DATA)
