"""Features of runs that are kept: the same bytes as from scratch, and only what is new or changed is made."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import layer, model, run, table
from hypothesis import given
from hypothesis import strategies as st

from thermostats.errors import DataError
from thermostats.tables import features as module
from thermostats.tables import features_cache as kept
from thermostats.tables import store
from thermostats.tables.caching import CACHE_VARIABLE
from thermostats.tables.features import features
from thermostats.tables.features_cache import signatures
from thermostats.tables.grouped import Groups, numbered

GAINS = np.exp(np.random.default_rng(3).normal(0, 0.3, (6, 3, 7)))
"""Of six models, by layer and prompt."""


def write(folder: Path, number: int, scale: float = 1.0) -> dict[str, object]:
    """Rows of one model's run: layers at seven prompts, transition layers, spectral norms, a stated gain."""
    row = run(f"lab/{number}", prompt_set="", prompt_sha="")
    of = {"run_id": row["run_id"]}
    every = {
        "runs": [row],
        "layers": [
            layer(row, depth + 1, scale * float(gain), f"p{prompt}")
            for depth, gains in enumerate(GAINS[number])
            for prompt, gain in enumerate(gains)
        ],
        "transitions": [
            {**of, "prompt_id": f"p{prompt}", "definition": "peak", "trace_variant": "exact", "layer": 1.0 + prompt % 3}
            for prompt in range(number + 2)
        ],
        "weights": [
            {**of, "layer": depth, "matrix": matrix, "spectral_norm": scale * (depth + number / 7)}
            for depth in (1, 2, 3)
            for matrix in ("W_V", "W_O")
        ],
        "summaries": [{**of, "prompt_id": "", "estimand": "normed_gain_mean", "value": 1.5 + number}],
    }
    for name, rows in every.items():
        store.save(table(name, *rows), name, folder / "measured" / name / f"{row['run_id']}.csv")
    return row


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with five models and their runs, one run of which has summaries in a file of several runs."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "data"
    store.save(table("models", *(model(f"lab/{i}") for i in range(6))), "models", folder / "models.csv")
    rows = [write(folder, number) for number in range(5)]
    stated = {"run_id": rows[1]["run_id"], "prompt_id": "", "estimand": "max_gain_sd", "value": 9.0}
    store.save(table("summaries", stated), "summaries", folder / "published" / "summaries.csv")
    return folder


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Runs whose features were made, a set a time."""
    seen: list[set[str]] = []
    whole = module.by_run

    def noted(runs: pd.DataFrame, models: pd.DataFrame, layers: pd.DataFrame, **others: pd.DataFrame) -> object:
        seen.append(set(layers["run_id"]))
        return whole(runs, models, layers, **others)

    monkeypatch.setattr(module, "by_run", noted)
    return seen


def from_scratch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    with monkeypatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, "off")
        return features(folder)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert found.to_csv() == expected.to_csv()


def ids(folder: Path) -> dict[str, str]:
    runs = store.load("runs", folder)
    return dict(zip(runs["model_id"], runs["run_id"], strict=True))


def test_only_runs_that_are_new_or_changed_are_made(
    many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    every, beside = set(ids(many).values()), ids(many)["lab/1"]  # lab/1: its rows stand in two files
    assert_same(features(many), from_scratch(many, monkeypatch))
    assert made[0] == every
    features(many)
    assert made[-1] == {beside}
    write(many, 5)
    assert_same(features(many), from_scratch(many, monkeypatch))
    assert made[-2] == {ids(many)["lab/5"], beside}
    write(many, 2, scale=1.25)
    assert_same(features(many), from_scratch(many, monkeypatch))
    assert made[-2] == {ids(many)["lab/2"], beside}


def test_a_signature_is_of_the_bytes_of_every_file_of_a_run_and_of_its_depth(tmp_path: Path) -> None:
    a, b = "a" * 16, "b" * 16
    places = {
        (run_id, name): tmp_path / "measured" / name / f"{run_id}.csv"
        for run_id in (a, b)
        for name in ("layers", "summaries", "transitions", "weights")
    }
    for (run_id, _), path in places.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"run_id,x\n{run_id},1\n{run_id},2\n")
    (tmp_path / "layers.csv").write_text(f"run_id,x\n{a},1\n")  # of several runs: made anew every time
    depths = {a: 3, b: 4}
    first = signatures(tmp_path, depths)
    assert first is not None and first.keys() == {a, b} and first[a] != first[b]
    assert signatures(tmp_path, depths) == first
    other = signatures(tmp_path, {a: 3, b: 5})
    assert other is not None and (other[a] == first[a]) and (other[b] != first[b])
    for path in (path for (run_id, _), path in places.items() if run_id == a):
        whole = path.read_text()
        path.write_text(whole.replace(",2", ",3"))
        other = signatures(tmp_path, depths)
        assert other is not None and (other[a] != first[a]) and (other[b] == first[b])
        for wrong in (whole.replace(f"\n{a},2", f"\n{b},2"), whole + "\n", whole.replace(f"{a},2", f"{a}2")):
            path.write_text(wrong)
            assert signatures(tmp_path, depths) is None
        path.unlink()
        path.mkdir()
        assert signatures(tmp_path, depths) is None
        path.rmdir()
        path.write_text(whole)
    swapped = [places[a, name].read_text() for name in ("layers", "weights")]
    places[a, "layers"].write_text(swapped[0].replace(",2", ",9"))
    one = signatures(tmp_path, depths)
    places[a, "layers"].write_text(swapped[0])
    places[a, "weights"].write_text(swapped[1].replace(",2", ",9"))
    assert one is not None and one != signatures(tmp_path, depths)


def test_what_is_kept_is_read_back_and_nothing_where_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    gains = pd.DataFrame({"run_id": pd.Series(["a", "b"], dtype="str"), "last_gain": [1.5, np.nan]})
    empty = pd.DataFrame({"run_id": pd.Series([], dtype="str"), "label": pd.Series([], dtype="str")})
    assert kept.read(tmp_path, "code") == ({}, {})
    kept.write(tmp_path, "code", {"a": "1", "b": "2"}, {"gains": gains, "norms": empty})
    known, tables = kept.read(tmp_path, "code")
    assert known == {"a": "1", "b": "2"}
    pd.testing.assert_frame_equal(tables["gains"], gains, check_exact=True)
    assert tables.keys() == {"gains", "norms"} and list(tables["norms"]) == ["run_id", "label"]
    assert kept.only(gains, {"b"})["run_id"].tolist() == ["b"] and kept.only(gains, []).empty
    assert kept.read(tmp_path, "other code") == ({}, {})
    assert kept.read(tmp_path.parent, "code") == ({}, {})
    (path,) = (tmp_path / "cache" / "features").iterdir()
    for damage in (b"", b"PK", path.read_bytes()[:-30]):
        path.write_bytes(damage)
        assert kept.read(tmp_path, "code") == ({}, {})
    monkeypatch.setenv(CACHE_VARIABLE, "off")
    kept.write(tmp_path, "code", {}, {})
    assert kept.read(tmp_path, "code") == ({}, {})


def test_what_other_code_kept_is_made_anew(many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    every, beside = set(ids(many).values()), ids(many)["lab/1"]
    first = features(many)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_code", lambda: "of another version")
        assert_same(features(many), first)
        assert made[-1] == every
    assert_same(features(many), first)
    assert made[-1] == {beside}


def test_code_is_every_module_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "features.py"))
    seen = []
    for name, text in (
        ("features.py", "a"),
        ("grouped.py", "b"),
        ("grouped.py", "c"),
        ("read.py", "c"),
        ("notes.txt", "d"),
    ):
        (tmp_path / name).write_text(text)
        seen.append(module._code())
    assert len(set(seen[:4])) == 4
    assert seen[4] == seen[3]
    (tmp_path / "read.py").rename(tmp_path / "reading.py")
    assert module._code() not in seen


def test_what_another_library_kept_is_made_anew(
    many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    features(many)
    for library in (np, pd):
        with monkeypatch.context() as patch:
            patch.setattr(library, "__version__", "0")
            features(many)
        assert made[-1] == set(ids(many).values())


def test_a_folder_s_features_are_its_own(many: Path, made: list[set[str]], tmp_path: Path) -> None:
    features(many)
    other = tmp_path / "other"
    shutil.copytree(many, other)
    features(other)
    assert made[-1] == set(ids(many).values())
    (one, also) = sorted((tmp_path / "cache").rglob("*.npz"))
    assert one.parent == also.parent == tmp_path / "cache" / "features"


def test_with_the_cache_off_nothing_is_kept(many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "off")
    for _ in range(2):
        features(many)
        assert made[-1] == set(ids(many).values())
    assert not (many.parent / "cache").exists()


def test_a_run_that_is_gone_is_gone_and_one_of_another_depth_is_made_anew(
    many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    features(many)
    gone = ids(many)["lab/3"]
    for path in (many / "measured").rglob(f"{gone}.csv"):
        path.unlink()
    found = features(many)
    assert gone not in set(found["run_id"])
    assert_same(found, from_scratch(many, monkeypatch))
    models = [model(f"lab/{i}", n_layers=2 if i == 4 else 3) for i in range(6)]
    store.save(table("models", *models), "models", many / "models.csv")
    found = features(many)
    assert made[-1] == {ids(many)["lab/4"], ids(many)["lab/1"]}
    assert_same(found, from_scratch(many, monkeypatch))


def test_damage_and_rows_without_a_run_are_named_as_from_scratch(many: Path) -> None:
    features(many)
    path = many / "measured" / "layers" / f"{ids(many)['lab/2']}.csv"
    whole = path.read_text()
    path.write_text(whole.replace(",last,", ",end,", 1))
    with pytest.raises(DataError, match="'end'"):
        features(many)
    path.write_text(whole)
    (many / "measured" / "runs" / path.name).unlink()
    with pytest.raises(DataError, match=path.stem):
        features(many)


def test_a_file_with_rows_of_another_run_keeps_nothing(
    many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    features(many)
    places = [many / "measured" / "weights" / f"{ids(many)[f'lab/{i}']}.csv" for i in (2, 3)]
    rows = pd.concat([store.read(path, "weights") for path in places])
    places[0].unlink()
    store.save(rows, "weights", places[1])
    assert_same(features(many), from_scratch(many, monkeypatch))
    assert made[-2] == set(ids(many).values())


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 not an archive", b"\x80\x04."])
def test_a_damaged_cache_is_as_good_as_none(
    many: Path, made: list[set[str]], damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    features(many)
    (path,) = (many.parent / "cache").rglob("*.npz")
    path.write_bytes(damage)
    assert_same(features(many), from_scratch(many, monkeypatch))
    assert made[-2] == set(ids(many).values())


def test_a_cache_that_cannot_be_written_changes_nothing(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (many.parent / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(many.parent / "file"))
    assert_same(features(many), from_scratch(many, monkeypatch))


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1e6, 1e6)), max_size=40))
def test_groups_are_summed_as_if_they_were_alone(rows: list[tuple[int, float]]) -> None:
    number = np.array([group for group, _ in rows], dtype=np.int64)
    values = np.array([value for _, value in rows], dtype=np.float64)
    groups = Groups.of(number)
    assert groups.numbers.tolist() == sorted(set(number.tolist()))
    for at, group in enumerate(groups.numbers):
        own = values[number == group]
        alone = Groups.of(np.zeros(len(own), dtype=np.int64))
        for found, by_itself, expected in (
            (groups.sum(values), alone.sum(own), own.sum()),
            (groups.mean(values), alone.mean(own), own.mean()),
            (groups.max(values), alone.max(own), own.max()),
            (groups.std(values), alone.std(own), np.std(own, ddof=1) if len(own) > 1 else np.nan),
        ):
            assert found[at : at + 1].tobytes() == by_itself.tobytes()
            assert found[at] == pytest.approx(expected, rel=1e-9, abs=1e-6, nan_ok=True)


def test_texts_are_numbered_in_their_order() -> None:
    rows = pd.DataFrame({"a": ["y", "x", "y", "x"], "b": ["1", "2", "1", "1"]})
    number, texts = numbered(rows, ["a", "b"])
    assert number.tolist() == [2, 1, 2, 0]
    assert texts.to_dict("list") == {"a": ["x", "x", "y"], "b": ["1", "2", "1"]}
