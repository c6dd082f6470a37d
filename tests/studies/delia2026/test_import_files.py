"""The importer: every number of the study's files accounted for, damage refused; the committed tables that it made."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import STUDY
from scipy import stats

from thermostats.claims.study import import_published
from thermostats.errors import DataError, ThermostatsError, UsageError
from thermostats.tables import store

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "data"
WHOLE = ROOT.parent / "shared" / "published"
"""The study's files with their sentences."""
FAMILY = "pythia_family_NO_FINAL_LN_20260105_174820.json"
TWINS = "twin_test_results_20260105_160237.json"
BENCHMARK = "thermodynamic_benchmark_20260105_141034.json"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(DATA / "models.csv", folder)
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for path in STUDY.iterdir():
        shutil.copyfile(path, folder / path.name)
    return folder


def published(name: str) -> pd.DataFrame:
    return store.read(DATA / "published" / f"{name}.csv", name)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.suffix == ".csv"}


def count(value: Any) -> int:
    """Numbers in a parsed file, counted by float() and what it should not take: truth, spaces, underscores."""
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


# The real files


@pytest.mark.skipif(not WHOLE.is_dir(), reason="the study's sentences are not beside the checkout")
def test_the_import_of_the_whole_files_gives_the_committed_tables(data: Path) -> None:
    """Row by row in their order; the last digit of a correlation depends on the processor."""
    import_published(WHOLE, data)
    for path in sorted((DATA / "published").glob("*.csv")):
        mine = store.read(data / "published" / path.name, path.stem)
        pd.testing.assert_frame_equal(mine, published(path.stem), rtol=1e-14, atol=1e-15)


@pytest.mark.skipif(not WHOLE.is_dir(), reason="the study's sentences are not beside the checkout")
def test_the_files_of_the_tests_are_the_studys_but_for_their_sentences(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "study_figures.py", WHOLE, tmp_path], check=True)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in STUDY.iterdir() if path.name != "README.md"}


def test_figures_are_those_committed_and_a_second_import_is_unchanged(data: Path) -> None:
    done = import_published(STUDY, data)
    assert not done.unchanged
    for path in sorted((DATA / "published").glob("*.csv")):
        mine, theirs = (store.read(p, path.stem) for p in (data / "published" / path.name, path))
        assert len(mine) == len(theirs), path.name
        numbers = [[name] for name in mine.select_dtypes("number").columns if name != "bytes"]
        for names in [["value", "other_value"]] if path.stem == "inconsistencies" else numbers:
            # ids of runs are hashes of prompts: rows, and the two sides of a comparison, are in another order
            ours, committed = (sorted(frame[names].stack().dropna()) for frame in (mine, theirs))
            assert ours == pytest.approx(committed, rel=1e-14, abs=1e-15), (path.name, names)
    before = {p: p.stat().st_mtime_ns for p in data.rglob("*.csv")}
    again = import_published(STUDY, data)
    assert again.unchanged and "unchanged" in str(again)
    assert {p: p.stat().st_mtime_ns for p in data.rglob("*.csv")} == before
    texts = store.load("prompts", data)
    known = texts[texts["text_sha256"] != ""]
    assert len(known) == 34
    assert [hashlib.sha256(t.encode()).hexdigest() for t in known["text"]] == list(known["text_sha256"])
    store.check(data)


def test_every_number_of_every_file_has_a_fate() -> None:
    account = published("reconciliation").groupby("file")["numbers"].sum()
    seen = 0
    for path in sorted(STUDY.glob("*.json")):
        numbers = count(json.loads(path.read_text(encoding="utf-8")))
        assert account[path.name] == numbers, path.name
        seen += numbers
    for path in sorted(STUDY.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as stream:
            numbers = count(list(csv.DictReader(stream)))
        assert account[path.name] == numbers, path.name
        seen += numbers
    assert account.sum() == seen > 7000


@pytest.mark.slow
def test_changed_figures_replace_the_tables_and_are_named(data: Path, source: Path) -> None:
    import_published(source, data)
    path = source / "ffn_expansion_results.json"
    path.write_text(path.read_text().replace("0.5269130406442787", "0.5269130406442788"))
    done = import_published(source, data)
    changed = {change.table: change for change in done.changes}
    assert (changed["layers"].added, changed["layers"].removed, changed["layers"].altered) == (0, 0, 1)
    assert changed["sources"].altered == 1
    assert not {"runs", "summaries", "weights"} & changed.keys()
    assert "layers: 0 rows added, 0 removed, 1 altered" in str(done)


def edit(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        after = change(path.read_text(encoding="utf-8"))
        assert after != path.read_text(encoding="utf-8")
        path.write_text(after, encoding="utf-8")

    return damage


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    return edit(name, lambda text: text.replace(old, new, 1))


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (edit(FAMILY, lambda text: text[: len(text) // 2]), "damaged"),
    "empty file": (edit(FAMILY, lambda text: ""), "damaged"),
    "not an object": (edit(FAMILY, lambda text: "[1, 2]"), "damaged"),
    "deep": (edit(FAMILY, lambda text: "[" * 100_000), "damaged"),
    "infinite": (replace(FAMILY, '"n_models": 8', '"n_models": Infinity'), "range of numbers"),
    "too large": (replace(FAMILY, '"n_models": 8', '"n_models": 1e999'), "range of numbers"),
    "key twice": (replace(FAMILY, '"n_models": 8', '"n_models": 8, "n_models": 8'), "twice"),
    "renamed key": (replace(FAMILY, '"residual_gain_all"', '"residual_gains_all"'), "residual_gain_all"),
    "new number": (replace(FAMILY, '"n_models": 8', '"n_models": 8, "extra": {"a": [1, 2]}'), "/extra/a/0"),
    "new number in text": (replace(FAMILY, '"n_models": 8', '"n_models": 8, "extra": "4.5"'), "/extra"),
    "null for number": (replace(FAMILY, '"n_layers": 6', '"n_layers": null'), "a number was expected"),
    "list for object": (replace(FAMILY, '"analysis": {', '"analysis": [], "other": {'), "an object was expected"),
    "negative gain": (replace(FAMILY, "1.3183484597440411", "-1.3183484597440411"), "out of range"),
    "zero gain": (replace(BENCHMARK, "0.7694174757281553", "0.0"), "out of range"),
    "probability in per cent": (replace(BENCHMARK, '"0.1632"', '"16.32"'), "out of range"),
    "p above 1": (replace(FAMILY, "0.014438080433771188", "1.4438"), "out of range"),
    "layer beyond the model": (
        replace("l_star_sign_change_20260106_111315.json", '"L_star_calibration": 16', '"L_star_calibration": 24'),
        "out of range",
    ),
    "gain list too short": (
        edit("ffn_expansion_results.json", lambda text: re.sub(r"0\.5269130406442787,\s*", "", text, count=1)),
        "another length",
    ),
    "unknown model": (replace(FAMILY, '"pythia-70m"', '"pythia-71m"'), "does not know this model"),
    "unknown prompt": (replace(BENCHMARK, '"Prompt": "sentence', '"Prompt": "other'), "not one of the benchmark's"),
    "csv column renamed": (replace(BENCHMARK.replace("json", "csv"), "Total_Amp", "Total_Gain"), "columns"),
    "csv line short": (edit(BENCHMARK.replace("json", "csv"), lambda text: text.rsplit(",", 1)[0] + "\n"), "cells"),
    "csv rows missing": (
        edit(BENCHMARK.replace("json", "csv"), lambda text: "\n".join(text.split("\n")[:5])),
        "length",
    ),
    "not UTF-8": (lambda folder: (folder / FAMILY).write_bytes(b"\xff\xfe{}") and None, "damaged"),
    "file missing": (lambda folder: (folder / FAMILY).unlink(), "missing"),
    "family twice": (
        lambda folder: shutil.copy(folder / FAMILY, folder / "pythia_family_NO_FINAL_LN.json") and None,
        "two",
    ),
    "file too many": (lambda folder: (folder / "notes.json").write_text("{}") and None, "does not know"),
    "empty folder": (clear, "missing"),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_damage_is_refused_and_every_file_stays(damage: str, data: Path, source: Path) -> None:
    shutil.copytree(DATA / "published", data / "published")
    before = contents(data)
    harm, words = DAMAGES[damage]
    harm(source)
    with pytest.raises(ThermostatsError, match=re.escape(words)) as caught:
        import_published(source, data)
    assert isinstance(caught.value, (DataError, UsageError))
    assert contents(data) == before


def test_a_missing_folder_is_wrong_use(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        import_published(tmp_path / "nowhere", data)


def test_a_failure_while_writing_leaves_every_file(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DATA / "published", data / "published")
    for name in ("runs", "weights"):
        (data / "published" / f"{name}.csv").unlink()
    before = contents(data)
    calls = []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        import_published(STUDY, data)
    assert contents(data) == before
    assert not list(data.rglob(".staging"))


def test_a_folder_that_cannot_be_written_is_said(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    with pytest.raises(DataError, match=r"cannot write.*Permission denied"):
        import_published(STUDY, data)
    assert not contents(data / "published")


# The committed tables


def test_the_account_is_whole() -> None:
    account = published("reconciliation")
    assert set(account["file"]) == set(published("sources")["file"])
    assert (account["numbers"] > 0).all() and (account["missing"] <= account["numbers"]).all()
    derivable = account["fate"] == "derivable"
    assert account.loc[derivable, "largest_difference"].between(0.0, 1e-6).all()
    assert account.loc[~derivable, "largest_difference"].isna().all()
    assert (account["where"] != "").all()


def test_nothing_is_missing_without_a_reason() -> None:
    for name, values in {
        "layers": ["gain_block", "gain_attention"],
        "summaries": ["value"],
        "outputs": ["entropy"],
        "weights": ["spectral_norm"],
        "attention": ["trace", "graph_lambda2", "entropy", "contraction_ratio"],
        "transitions": ["layer"],
        "statements": ["value"],
    }.items():
        frame = published(name)
        empty = frame[values].isna().all(axis=1)
        assert (frame.loc[empty, "missing"] != "").all(), name
    assert (published("summaries")["missing"] != "").sum() == 6
    assert (published("prompts")["text"] == "").all()


def test_layers_of_transition_are_1_based_and_nan_is_no_extreme() -> None:
    rows = published("transitions").merge(published("runs"), on="run_id")
    v2 = rows[rows["source"].str.startswith("H4_v2_validation") & (rows["definition"] == "max_abs_gradient")]
    assert dict(zip(v2["model_id"], v2["layer"], strict=True)) == {
        "EleutherAI/pythia-160m": 8,
        "EleutherAI/pythia-410m": 17,
        "facebook/opt-125m": 9,
        "openai-community/gpt2": 10,
    }
    extended = rows[rows["source"].str.startswith("H4_v2_extended")].set_index("model_id")
    assert math.isnan(extended.loc["EleutherAI/pythia-2.8b", "layer"])
    assert extended.loc["google/gemma-2b", "layer"] == 18


def test_known_disagreements_are_recorded() -> None:
    rows = published("inconsistencies")
    assert len(rows) > 100 and (rows["what"] != "").all() and (rows["handling"] != "").all()
    assert set(rows["file"]) | set(rows["other_file"]) - {""} <= set(published("sources")["file"])
    thrice = rows[rows["inconsistency_id"].str.startswith("twice: penultimate gain, EleutherAI/pythia-6.9b")]
    assert len(thrice) == 3
    assert {"facebook/opt-350m", "bigscience/bloom-3b"} == set(
        rows.loc[rows["inconsistency_id"].str.startswith("other labs expand"), "model_id"]
    )


def gains(family: str, layer_from_end: int) -> pd.Series:
    runs = published("runs").merge(store.load("models", DATA)[["model_id", "n_layers"]], on="model_id")
    rows = published("layers").merge(runs, on="run_id")
    rows = rows[rows["source"].str.startswith(family) & (rows["position"] == "last")]
    rows = rows[rows["layer"] == rows["n_layers"] - layer_from_end]
    single = rows[rows["prompt_id"] != ""]
    return (single if len(single) else rows).groupby("model_id")["gain_block"].mean()


def test_the_preprints_figures_follow_from_the_tables() -> None:
    last = gains("thermodynamic_benchmark", 0).round(2)
    assert sorted(last) == [0.80, 1.11, 1.48, 2.31]
    twins = gains("twin_test", 0)
    assert round(twins["google/gemma-7b"], 2) == 2.32 and round(twins["google/gemma-7b-it"], 2) == 1.15
    models = store.load("models", DATA).set_index("model_id")
    family = gains("pythia_family", 1)
    depth = stats.pearsonr(models.loc[family.index, "n_layers"].astype(float), family)
    density = stats.pearsonr((models["n_heads"] / models["d_head"]).loc[family.index].astype(float), family)
    assert round(depth.statistic, 3) == -0.878 and round(depth.pvalue, 3) == 0.004
    assert round(density.statistic, 2) == -0.81 and round(density.pvalue, 3) == 0.014
    hunt = gains("high_rho_hunt", 1)
    labs = hunt.groupby(models.loc[hunt.index, "heritage"]).mean().round(2)
    assert labs[["TII", "StabilityAI", "Meta", "BigScience"]].tolist() == [1.03, 1.08, 1.10, 1.11]
    assert len({*hunt.index, *family.index}) == 23


def test_traces_and_the_exponent_follow_from_the_tables() -> None:
    runs = published("runs")
    traces = published("attention").query("variant == 'multi_head'").merge(runs, on="run_id")
    traces = traces[traces["source"].str.startswith("H4_v2_validation")]
    means = traces.groupby("model_id")["trace"].mean()
    assert round(means["openai-community/gpt2"]) == 62696 and round(means["facebook/opt-125m"]) == 2368
    models = store.load("models", DATA).set_index("model_id")
    rows = published("layers").merge(runs, on="run_id")
    rows = rows[rows["source"].str.startswith("scaling_law")].set_index("model_id")
    last = rows[rows["layer"] == models.loc[rows.index, "n_layers"]]["gain_mlp"]
    fit = stats.linregress(np.log10(models.loc[last.index, "n_params"].astype(float)), np.log10(last))
    assert (round(fit.slope, 3), round(fit.stderr, 3)) == (0.265, 0.079)
