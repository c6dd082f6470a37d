"""A frame keeps its index and its names: predictions have the index of their rows, columns of the
user's are never written over, and what is named twice counts once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bad_inputs import CASES

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.columns import COMPUTED
from thermostats.modelling.matched import Cells

NAMES = (
    *("error", "outcome", "value", "lab", "holds", "freedom", "log_gain", "y", "x", "_x", "sd"),
    *("cell", "group", "group_", "level", "mean", "residual", "scale", "index"),
)
"""What a column of the user's may be called, and what laws have columns for."""
SLOW = pytest.mark.slow
"""Fits that PyMC draws."""
PREDICTING = (
    *("heritage", "crowding", "sources", "line", "matched"),
    *(pytest.param(name, marks=SLOW) for name in ("kleiber", "transition")),
)
"""Fits whose rows to predict are rows of models."""


def models(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    lab = np.array(list("ABCD") * (n // 4))
    size = rng.uniform(6, 40, n)
    level = pd.Series(lab).map({"A": -0.4, "B": -0.1, "C": 0.1, "D": 0.4}).to_numpy()
    gain = np.exp(0.02 * size + level + rng.normal(0, 0.05, n))
    names = [f"m{i}" for i in range(n)]
    table = pd.DataFrame({"model_id": names, "heritage": lab, "size": size, "gain": gain})
    return table.assign(gain_se=0.02, depth=rng.integers(6, 40, n))


def small(fit: Any) -> Any:
    return fit.summary()["mean"].to_numpy()


@pytest.mark.parametrize("name", PREDICTING)
def test_predictions_have_the_index_of_their_rows(name: str) -> None:
    good: pd.DataFrame = CASES[name].good(12, 4)
    fit = CASES[name].fit(good)
    if not fit.design.by_row:
        pytest.skip("outcomes are no rows")
    new = good.drop_duplicates("model_id").set_index(pd.Index(list("lkjihgfedcba")))
    some = new.iloc[[5, 2, 9]]
    predicted = fit.predict(some)
    assert list(predicted.index) == list(some.index)
    plain = fit.predict(some.reset_index(drop=True))
    pd.testing.assert_frame_equal(predicted.reset_index(drop=True), plain)
    twice = fit.predict(some.set_axis([0, 0, 1]))
    assert list(twice.index) == [0, 0, 1]
    for index in (
        pd.MultiIndex.from_tuples([("a", 2), ("a", 1), ("b", 2)], names=["run", "seed"]),
        pd.date_range("2024-01-03", periods=3, tz="UTC"),
    ):
        assert fit.predict(some.set_axis(index)).index.equals(index)


@pytest.mark.parametrize("name", PREDICTING)
def test_columns_called_as_computed_ones_change_no_prediction(name: str) -> None:
    good: pd.DataFrame = CASES[name].good(12, 4)
    fit = CASES[name].fit(good)
    new = good.drop_duplicates("model_id").head(4)
    wanted = fit.predict(new)
    others = {label: 9.0 for label in COMPUTED if label not in new}
    got = fit.predict(new.assign(**others))
    pd.testing.assert_frame_equal(got.drop(columns=list(others)), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_a_covariate_of_any_name_is_kept(name: str) -> None:
    rows = models().rename(columns={"size": name})
    fit = thermostats.fit_line(rows, "gain", name, se="gain_se")
    wanted = thermostats.fit_line(models(), "gain", "size", se="gain_se")
    np.testing.assert_allclose(small(fit), small(wanted))
    table = fit.table("rows")
    np.testing.assert_array_equal(table[name], rows[name])
    axes = fit.plot()
    assert axes.get_xlim()[1] > 30
    axes.figure.clear()


@pytest.mark.parametrize("name", NAMES)
def test_groups_and_outcomes_of_any_name_are_kept(name: str) -> None:
    wanted = thermostats.fit_line(models(), "gain", "size")
    by_group = models().rename(columns={"heritage": name})
    got = thermostats.fit_line(by_group, "gain", "size", group=name)
    np.testing.assert_allclose(small(got), small(wanted))
    by_outcome = models().rename(columns={"gain": name})
    fit = thermostats.fit_line(by_outcome, name, "size")
    np.testing.assert_allclose(small(fit), small(wanted))
    np.testing.assert_array_equal(fit.rows[name], by_outcome[name])


@SLOW
@pytest.mark.parametrize("name", NAMES)
def test_shares_keep_columns_of_any_name(name: str) -> None:
    rows = models().assign(above=models()["gain"] > 1.3)
    wanted = thermostats.fit_share(rows, "above", group=None)
    got = thermostats.fit_share(rows.rename(columns={"above": name}), name, group=None)
    np.testing.assert_allclose(small(got), small(wanted))
    surplus = thermostats.fit_share(rows.assign(**{name: 5.0}), "above", group=None)
    np.testing.assert_allclose(small(surplus), small(wanted))


@pytest.mark.parametrize("name", NAMES)
def test_a_size_of_any_name_is_read_or_refused_in_words(name: str) -> None:
    wanted = thermostats.fit_heritage(models(), geometry="depth", scale="size")
    rows = models().rename(columns={"depth": name})
    if name in (*COMPUTED, "sd"):
        with pytest.raises(UsageError, match=f"{name}.*rename"):
            thermostats.fit_heritage(rows, geometry=name, scale="size")
        return
    got = thermostats.fit_heritage(rows, geometry=name, scale="size")
    np.testing.assert_allclose(small(got), small(wanted))


def test_a_group_that_is_named_twice_counts_once() -> None:
    wanted = thermostats.fit_line(models(), "gain", "size")
    twice = thermostats.fit_line(models(), "gain", ["size", "size"])
    np.testing.assert_allclose(small(twice), small(wanted))
    with pytest.raises(UsageError, match="named as group and among levels") as caught:
        thermostats.fit_line(models(), "gain", "size", levels=["heritage"])
    assert caught.value.next_step == 'thermostats.fit_line(df, "gain", "size")'
    rows = models().assign(source=["a", "b"] * 20)
    once = thermostats.fit_line(rows, "gain", "size", levels=["source"])
    got = thermostats.fit_line(rows, "gain", "size", levels=["source", "source"])
    np.testing.assert_allclose(small(got), small(once))


@pytest.mark.parametrize("how", [str, lambda value: f" {value}", lambda value: f"{value:.1f}"])
def test_sizes_given_as_text_are_numbers(how: Any) -> None:
    wanted = thermostats.fit_heritage(models(), geometry="depth", scale="size")
    for columns in (["depth"], ["size"], ["depth", "size"]):
        texts = models().assign(depth=models()["depth"], size=models()["size"].round(1))
        exact = thermostats.fit_heritage(texts, geometry="depth", scale="size")
        written = texts.assign(**{c: texts[c].map(how) for c in columns})
        got = thermostats.fit_heritage(written, geometry="depth", scale="size")
        np.testing.assert_allclose(small(got), small(exact))
    assert list(got.quantities) == list(wanted.quantities)


@pytest.mark.parametrize("size", ["1.4B", "1,400", "large", "7 b"])
def test_a_size_that_is_no_number_is_asked_about(size: str) -> None:
    rows = models().assign(size=[size] * 20 + ["2"] * 20)
    with pytest.raises(UsageError, match="a size is no number"):
        thermostats.fit_heritage(rows, geometry="depth", scale="size")
    blocks = {"labs": ["heritage"], "scale": ["size"]}
    with pytest.raises(UsageError, match="a size is no number"):
        thermostats.fit_heritage(rows, blocks=blocks)


@pytest.mark.parametrize("focal", [1, 1.0, np.int64(1), "1"])
def test_a_focal_lab_may_be_a_number(focal: Any) -> None:
    lab = np.repeat([1, 2, 3], 8)
    rng = np.random.default_rng(3)
    gain = np.exp(rng.normal(0, 0.05, 24) - 0.2 * (lab == 1))
    shape = np.tile([6, 12, 24, 32], 6)
    rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(24)], "lab": lab, "n_layers": shape})
    rows["gain"] = gain
    fit = thermostats.fit_matched(rows, "gain", focal=focal, lab="lab", shape=["n_layers"])
    first = rows[rows["lab"] == 1].groupby("n_layers")["gain"].apply(lambda g: np.log(g).mean())
    rest = rows[rows["lab"] != 1].groupby("n_layers")["gain"].apply(lambda g: np.log(g).mean())
    assert fit.table("estimate")["ratio"].iloc[0] == pytest.approx(np.exp((first - rest).mean()))


@pytest.mark.parametrize("n", [40, 120])
def test_fits_of_the_same_models_in_another_order_are_compared(n: int) -> None:
    rows = models(n)
    other = rows.sample(frac=1, random_state=2)
    first = thermostats.fit_line(rows, "gain", "size")
    without = thermostats.fit_line(rows, "gain")
    moved = thermostats.fit_line(other, "gain")
    wanted = thermostats.compare({"a": first, "b": without})
    got = thermostats.compare({"a": first, "b": moved})
    assert list(got.index) == list(wanted.index)
    tolerance = 0.02 if n <= 100 else 0.1  # of more than 100 models groups are left out together
    np.testing.assert_allclose(got["elpd_diff"], wanted["elpd_diff"], rtol=tolerance)
    np.testing.assert_allclose(got["dse"], wanted["dse"], rtol=3 * tolerance)
    with pytest.raises(UsageError, match="same outcomes"):
        thermostats.compare({"a": first, "b": thermostats.fit_line(other.head(30), "gain")})


class Frame:
    """What polars and others hand out: Arrow's stream, its length and its columns."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(schema)

    def to_pandas(self) -> pd.DataFrame:
        return self.table.to_pandas()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Any:
        return iter(self.table.columns)


def test_frames_of_other_libraries_fit() -> None:
    wanted = thermostats.fit_line(models(), "gain", "size")
    table = pa.Table.from_pandas(models(), preserve_index=False)
    for other in (table, Frame(table), table.to_batches()[0]):
        np.testing.assert_allclose(
            small(thermostats.fit_line(other, "gain", "size")), small(wanted)
        )


def test_a_fit_keeps_its_rows_when_the_frame_is_changed() -> None:
    rows = models()
    fit = thermostats.fit_line(rows, "gain", "size")
    before = fit.model.observed.copy()
    rows["gain"].array[0] = 99.0
    np.testing.assert_array_equal(fit.model.observed, before)
    assert fit.rows["gain"].iloc[0] == before[0]


ODD = ("a_b", "50 % & more", "x^2 ~ {y}", "back\\slash", "#1 $", "two\nlines", "<, >")


@pytest.mark.parametrize("name", ODD)
def test_names_of_the_users_are_plain_text_in_latex(name: str) -> None:
    rows = models().rename(columns={"size": name})
    text = thermostats.fit_line(rows, "gain", name, sources=[f"of {name}"]).to_latex()
    plain = text
    for sign in "&%$#_{}":
        plain = plain.replace(f"\\{sign}", "")
    lines = [line for line in plain.splitlines() if not line.startswith("%")]
    assert all(line.startswith("\\") or line.rstrip().endswith("\\\\") for line in lines)
    slope = next(line for line in lines if line.startswith("slope on"))
    assert not set("%#_") & set(slope.partition("&")[0])


def test_cells_of_one_side_are_no_cells_of_a_ratio() -> None:
    cells = Cells(
        cell=np.array([0, 0, 1, 1, 2]),
        side=np.array([True, False, True, False, True]),
        group=np.arange(5),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights = cells.weigh_cells()
    np.testing.assert_array_equal(weights, [[1, -1, 0, 0, 0], [0, 0, 1, -1, 0]])


@pytest.mark.parametrize("name", ["log(gain)", "log(x)", "np.log(gain)", "C(x)"])
def test_errors_of_a_column_that_is_called_as_a_formula_are_its_own(name: str) -> None:
    rows = models().assign(other=lambda table: table["gain"] + 3)
    wanted = thermostats.fit_line(rows, "other", "size", se="gain_se")
    got = thermostats.fit_line(rows.rename(columns={"other": name}), name, "size", se="gain_se")
    np.testing.assert_allclose(small(got), small(wanted))


def test_a_column_without_a_name_is_asked_about() -> None:
    for fit in (
        lambda t: thermostats.fit_line(t, "gain", "size"),
        lambda t: thermostats.fit_heritage(t, geometry="depth", scale="size"),
    ):
        with pytest.raises(UsageError, match="a column has no name") as caught:
            fit(models().assign(**{"": 1.0}))
        assert 'df.rename(columns={"": "NAME"})' in caught.value.next_step
