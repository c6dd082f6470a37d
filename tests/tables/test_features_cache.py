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
from thermostats.tables import store
from thermostats.tables.caching import CACHE_VARIABLE
from thermostats.tables.features import features
from thermostats.tables.features_cache import signatures
from thermostats.tables.group_sums import Groups, numbered

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


def made_anew(folder: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Models whose features are made when they are asked for again; they are as from scratch."""
    found = features(folder)
    expected, anew = from_scratch(folder, monkeypatch), made[-2]
    assert_same(found, expected)
    return {name for name, run_id in ids(folder).items() if run_id in anew}


EVERY = {f"lab/{number}" for number in range(5)}


def test_only_runs_that_are_new_or_changed_are_made(
    many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made_anew(many, made, monkeypatch) == EVERY
    assert made_anew(many, made, monkeypatch) == set()
    write(many, 5)
    assert made_anew(many, made, monkeypatch) == {"lab/5"}
    write(many, 2, scale=1.25)
    assert made_anew(many, made, monkeypatch) == {"lab/2"}
    published = many / "published" / "summaries.csv"
    published.write_text(published.read_text().replace("9.0", "8.0"))
    assert made_anew(many, made, monkeypatch) == {"lab/1"}
    models = [model(f"lab/{number}", n_layers=2 if number == 4 else 3) for number in range(6)]
    store.save(table("models", *models), "models", many / "models.csv")
    assert made_anew(many, made, monkeypatch) == {"lab/4"}


def test_rows_of_a_run_in_a_file_of_another_count_and_a_run_that_is_gone_is_gone(
    many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    features(many)
    places = [many / "measured" / "weights" / f"{ids(many)[f'lab/{i}']}.csv" for i in (2, 3)]
    rows = pd.concat([store.read(path, "weights") for path in places])
    places[0].unlink()
    store.save(rows, "weights", places[1])
    assert made_anew(many, made, monkeypatch) == {"lab/2", "lab/3"}
    for path in (many / "measured").rglob(places[1].name):
        path.unlink()
    assert made_anew(many, made, monkeypatch) == {"lab/2"}


def test_a_signature_is_of_every_table_and_says_which(tmp_path: Path) -> None:
    run_id = "a" * 16
    found = set()
    for name, content in ((name, content) for name in ("layers", "weights") for content in ("1", "2")):
        path = tmp_path / "measured" / name / f"{run_id}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"run_id,x\n{run_id},{content}\n")
        found.add(signatures(tmp_path, {run_id: 3})[run_id])
        found.add(signatures(tmp_path, {run_id: 4})[run_id])
        path.unlink()
    assert len(found) == 8
    path.mkdir()
    assert signatures(tmp_path, {}) == {}


@pytest.mark.parametrize("of", ["code", "numpy", "pandas", "another folder"])
def test_what_other_code_or_libraries_made_is_made_anew(
    of: str, many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    features(many)
    with monkeypatch.context() as patch:
        if of == "code":
            patch.setattr(module, "_code", lambda: "of another version")
        elif of == "another folder":
            many = Path(shutil.copytree(many, many.with_name("other")))
        else:
            patch.setattr(np if of == "numpy" else pd, "__version__", "0")
        assert made_anew(many, made, monkeypatch) == EVERY
    assert len(list((many.parent / "cache" / "features").glob("*.npz"))) == 2


def test_code_is_every_module_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "features.py"))
    seen = []
    for name, text in (("a.py", "a"), ("b.py", "b"), ("b.py", "c"), ("c.py", "c"), ("notes.txt", "d")):
        (tmp_path / name).write_text(text)
        seen.append(module._code())
    assert len(set(seen[:4])) == 4 and seen[4] == seen[3]
    (tmp_path / "c.py").rename(tmp_path / "d.py")
    assert module._code() not in seen


def test_with_the_cache_off_nothing_is_kept(many: Path, made: list[set[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        from_scratch(many, monkeypatch)
        assert made[-1] == set(ids(many).values())
    assert not (many.parent / "cache").exists()


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


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 not an archive", b"\x80\x04.", None])
def test_a_damaged_cache_is_as_good_as_none(
    many: Path, made: list[set[str]], damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    features(many)
    (path,) = (many.parent / "cache").rglob("*.npz")
    path.write_bytes(path.read_bytes()[:-30] if damage is None else damage)
    assert made_anew(many, made, monkeypatch) == EVERY


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
