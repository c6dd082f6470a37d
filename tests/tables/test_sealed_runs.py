"""Runs of many rows: Parquet files that are read without being validated again, while they are as
they were written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import layer, make_store, model, run, snapshot, table

from thermostats.errors import DataError
from thermostats.tables import export, sealed_runs, store
from thermostats.tables.features import LAYER_COLUMNS, OF_RUNS, build_features, combine
from thermostats.tables.folders import write_all
from thermostats.tables.join import forget, join
from thermostats.tables.schemas import RUN_TABLES

THEIRS = run(source="others")
NAME = f"measured/layers/{THEIRS['run_id']}"


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of more than three rows are large."""
    monkeypatch.setattr(sealed_runs, "LARGE", 3)


def rows(*numbers: int, of: dict[str, object] = THEIRS, gain: float = 1.25) -> list[pd.DataFrame]:
    layers = [layer(of, number, gain + number / 64, name) for number in numbers for name in "ab"]
    return [table("runs", of), table("layers", *layers)]


def is_file(folder: Path, ending: str) -> bool:
    return (folder / f"{NAME}.{ending}").is_file()


@pytest.mark.parametrize("name", RUN_TABLES)
@pytest.mark.usefixtures("low")
def test_rows_of_every_column_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    shipped = store.load(name)
    counts = shipped["run_id"].value_counts()
    chosen = shipped[shipped["run_id"].isin(counts[counts > 3].index[:3])]
    assert len(chosen)
    places = {
        tmp_path / "measured" / name / f"{run_id}.csv": part
        for run_id, part in chosen.groupby("run_id")
    }
    contents = store.encode_files(store.FilesOfRows.build(places, name), name)
    assert {path.suffix for path in contents} == {".parquet"}
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        assert sealed_runs.is_sealed(content, name, path.stem)
    loaded = store.load(name, tmp_path)
    pd.testing.assert_frame_equal(loaded, chosen.reset_index(drop=True), check_exact=True)
    one = places.popitem()[0].stem
    alone = store.load(name, tmp_path, runs={one})
    pd.testing.assert_frame_equal(
        alone, chosen[chosen["run_id"] == one].reset_index(drop=True), check_exact=True
    )


def test_a_large_run_is_one_file_with_the_rows_of_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = (make_store(tmp_path / name) for name in ("small", "large"))
    assert [each.added for each in join(rows(2, 3), data=small)] == [1, 4]
    assert is_file(small, "csv")
    monkeypatch.setattr(sealed_runs, "LARGE", 3)
    assert [each.added for each in join(rows(2, 3), data=large)] == [1, 4]
    assert is_file(large, "parquet") and not is_file(large, "csv")
    for name in ("layers", "runs"):
        pd.testing.assert_frame_equal(
            store.load(name, small), store.load(name, large), check_exact=True
        )
    pd.testing.assert_frame_equal(build_features(small), build_features(large), check_exact=True)
    assert store.check(small) == store.check(large)
    exports = [tmp_path / f"out-{each.name}" for each in (small, large)]
    for folder, out in zip((small, large), exports, strict=True):
        export.export(out, data=folder)
    assert snapshot(exports[0]) == snapshot(exports[1])
    tables = []
    for folder in (small, large):
        out = tmp_path / f"parquet-{folder.name}"
        done = export.export(out, data=folder, format="parquet")
        counts = {each.table: each.rows for each in done}
        tables.append((counts, pq.read_table(out / "layers.parquet")))
        of_models = tmp_path / f"by-model-{folder.name}"
        export.export(of_models, "layers", data=folder, format="parquet", partition="model_id")
        assert len(pq.read_table(of_models / "layers")) == 10
    assert tables[0][0] == tables[1][0] and tables[0][0]["layers"] == 10
    assert tables[0][1].equals(tables[1][1], check_metadata=True)


@pytest.mark.usefixtures("low")
def test_the_same_rows_again_leave_the_bytes_and_in_a_new_folder_give_them(
    small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(store.CACHE_VARIABLE, store.OFF)
    join(rows(2, 3), data=small_store)
    before = snapshot(small_store)
    assert [each.unchanged for each in join(rows(3, 2), data=small_store)] == [1, 4]
    assert snapshot(small_store) == before
    other = make_store(tmp_path / "other")
    join(rows(3, 2), data=other)
    assert snapshot(other) == before
    with pytest.raises(DataError, match="already has 4 of these rows with other values"):
        join(rows(2, 3, gain=1.5), data=small_store)
    assert snapshot(small_store) == before
    done = join(rows(2, 3, gain=1.5), data=small_store, replace=True)
    assert [each.replaced for each in done] == [0, 4]
    assert is_file(small_store, "parquet")
    assert store.load("layers", small_store, runs={str(THEIRS["run_id"])})["gain_block"].min() > 1.5


@pytest.mark.usefixtures("low")
def test_a_large_run_is_forgotten(small_store: Path) -> None:
    before = snapshot(small_store)
    join(rows(2, 3), data=small_store)
    assert is_file(small_store, "parquet")
    assert forget("others", data=small_store) == {"layers": 4, "runs": 1}
    assert snapshot(small_store) == before


def test_a_run_that_grows_large_has_one_file(
    small_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(rows(2), data=small_store)
    monkeypatch.setattr(sealed_runs, "LARGE", 3)
    assert is_file(small_store, "csv")
    join(rows(3), data=small_store)
    assert is_file(small_store, "parquet") and not is_file(small_store, "csv")
    assert len(store.load("layers", small_store, runs={str(THEIRS["run_id"])})) == 4


def test_csv_runs_above_the_limit_are_read(
    small_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(rows(2, 3), data=small_store)
    held = store.load("layers", small_store)
    monkeypatch.setattr(sealed_runs, "LARGE", 3)
    pd.testing.assert_frame_equal(store.load("layers", small_store), held, check_exact=True)
    before = snapshot(small_store)
    join(rows(2, 3), data=small_store)
    assert snapshot(small_store) == before and is_file(small_store, "csv")


@pytest.mark.usefixtures("low")
def test_of_two_files_of_a_run_the_larger_form_stands_and_the_next_join_removes_the_other(
    small_store: Path,
) -> None:
    join(rows(2, 3), data=small_store)
    left = small_store / f"{NAME}.csv"
    left.write_bytes(store.encode_csv(rows(2, gain=8.0)[1], "layers"))
    held = store.load("layers", small_store)
    assert len(held) == 10 and held["gain_block"].max() == 9.0
    join([table("models", model("lab/other"))], data=small_store)
    assert left.is_file()
    join(rows(2, 3), data=small_store)
    assert not left.is_file() and is_file(small_store, "parquet")


def validated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the tables that are validated from now on."""
    seen: list[int] = []
    validate = store.validate

    def counted(frame: pd.DataFrame, name: str, where: object = "") -> pd.DataFrame:
        seen.append(len(frame))
        return validate(frame, name, where)

    monkeypatch.setattr(store, "validate", counted)
    return seen


@pytest.mark.usefixtures("low")
def test_rows_are_validated_once_and_again_where_a_file_was_changed(
    small_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(rows(2, 3), data=small_store)
    path = small_store / f"{NAME}.parquet"
    store.PARSED.clear()
    seen = validated(monkeypatch)
    held = store.load("layers", small_store)
    assert len(held) == 10 and seen == [6]
    written = pq.read_table(path)
    pq.write_table(written, path)  # with the seal of the file as it was
    assert pq.read_schema(path).metadata[sealed_runs.SEAL.encode()]
    pd.testing.assert_frame_equal(store.load("layers", small_store), held, check_exact=True)
    assert seen == [6, 10]
    at = written.column_names.index("gain_block")
    edited = written.set_column(at, "gain_block", pa.array([1.0, 2.0, 3.0, 4.0]))
    pq.write_table(edited, path)
    own = store.load("layers", small_store, runs={str(THEIRS["run_id"])})
    assert own.loc[own["run_id"] == THEIRS["run_id"], "gain_block"].tolist() == [1.0, 2.0, 3.0, 4.0]
    wrong = written.set_column(at, "gain_block", pa.array([1.0, -2.0, 3.0, 4.0]))
    pq.write_table(wrong, path)
    with pytest.raises(DataError, match="column gain_block has a value that is not allowed"):
        store.load("layers", small_store)
    pq.write_table(pa.concat_tables([written, written]), path)
    with pytest.raises(DataError, match="holds a key twice"):
        store.load("layers", small_store)
    pq.write_table(written.drop_columns(["position"]), path)
    with pytest.raises(DataError, match="columns of table layers are not as declared"):
        store.load("layers", small_store)


@pytest.mark.parametrize("size", [0, 7, 100, -1, -9, -200])
@pytest.mark.usefixtures("low")
def test_a_file_that_was_cut_is_refused_in_words(small_store: Path, size: int) -> None:
    join(rows(2, 3), data=small_store)
    path = small_store / f"{NAME}.parquet"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DataError, match="table layers cannot be read") as caught:
        store.load("layers", small_store)
    assert str(path) in str(caught.value) and "join the rows of this run again" in str(caught.value)
    path.unlink()
    join(rows(2, 3), data=small_store)
    assert len(store.load("layers", small_store)) == 10


@pytest.mark.usefixtures("low")
def test_a_changed_byte_breaks_the_seal(small_store: Path) -> None:
    join(rows(2, 3), data=small_store)
    content = (small_store / f"{NAME}.parquet").read_bytes()
    run_id = str(THEIRS["run_id"])
    assert sealed_runs.is_sealed(content, "layers", run_id)
    assert not sealed_runs.is_sealed(content, "layers", "0" * 16)
    assert not sealed_runs.is_sealed(content, "weights", run_id)
    for at in range(0, len(content), 7):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        assert not sealed_runs.is_sealed(changed, "layers", run_id), at


@pytest.mark.usefixtures("low")
def test_a_row_that_other_files_have_as_well_is_found(small_store: Path) -> None:
    join(rows(2, 3), data=small_store)
    own = store.load("layers", small_store, runs={str(THEIRS["run_id"])})
    store.save(own.tail(1), "layers", small_store / "layers.csv")
    with pytest.raises(DataError, match="holds a key twice"):
        store.load("layers", small_store)


@pytest.mark.usefixtures("low")
def test_a_file_under_the_name_of_another_run_is_validated(
    small_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join(rows(2, 3), data=small_store)
    path = small_store / f"{NAME}.parquet"
    path.rename(path.with_name(f"{'0' * 16}.parquet"))
    seen = validated(monkeypatch)
    assert len(store.load("layers", small_store)) == 10 and seen == [10]


@pytest.mark.parametrize("position", ["last", "mean"])
@pytest.mark.usefixtures("low")
def test_features_of_sealed_runs_are_those_of_all_rows_at_once(
    position: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {name: store.load(name) for name in ("runs", "models", *OF_RUNS)}
    layers = tables["layers"]
    counts = layers["run_id"].value_counts()
    some = set(counts[counts > 3].index[::40])
    parts = {
        tmp_path / "measured" / "layers" / f"{run_id}.csv": rows
        for run_id, rows in layers[layers["run_id"].isin(some)].groupby("run_id")
    }
    contents = store.encode_files(store.FilesOfRows.build(parts, "layers"), "layers")
    rest = {**tables, "layers": layers[~layers["run_id"].isin(some)]}
    contents |= {
        tmp_path / f"{name}.csv": store.encode_csv(rows, name) for name, rows in rest.items()
    }
    write_all(tmp_path, contents)
    sealed = list((tmp_path / "measured" / "layers").glob("*.parquet"))
    assert len(sealed) == len(some) > 5
    size = int(counts[list(some)].sum() // 3)
    monkeypatch.setattr(store, "ROWS_OF_A_PART", size)
    assert len(list(store.load_parts("layers", tmp_path, LAYER_COLUMNS))) > 2
    pd.testing.assert_frame_equal(
        build_features(tmp_path, position=position),
        combine(**tables, position=position),
        check_exact=True,
    )
    pd.testing.assert_frame_equal(store.load("layers", tmp_path), layers, check_exact=True)
