"""What changes move, as the committed table has it: measured again, and held against what columns
say of themselves."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import gauge_table  # noqa: E402

from thermostats.cli import listing  # noqa: E402
from thermostats.errors import UsageError  # noqa: E402
from thermostats.tables.export import write_codebook  # noqa: E402
from thermostats.tables.features import FEATURES, TRANSITION  # noqa: E402
from thermostats.tables.folders import list_shipped_models  # noqa: E402
from thermostats.tables.invariants import CLASSES, find_moves, read_table  # noqa: E402
from thermostats.tables.schemas import FLOAT, FUNCTION, STORED, TABLES  # noqa: E402

OTHERWISE = {
    (
        "layers",
        "gain_sum_mlp",
    ),  # moved by 1's that the feed-forward layer writes; those tried are attention's
    (
        "layers",
        "read_norm",
    ),  # moved with the scale of the stream, which the changes that are tried leave
    ("weights", "ov_read_norm"),  # as read_norm, by which it is divided
    ("weights", "balanced_norm"),  # W_O times c before a norm moves both; their ratio not
}
MEASURED = ("layers", "outputs", "weights", "attention", "transitions")


@pytest.mark.parametrize(
    ("name", "how"), [("r03-1", "W_V × 8 and W_O / 8 in every block"), ("r07-5", "block 8")]
)
def test_the_committed_rows_of_a_trained_model_are_what_it_gives(name: str, how: str) -> None:
    _, folder, changed, changes = next(each for each in gauge_table.trained() if each[0] == name)
    chosen = tuple(change for change in changes if how in change[1])
    rows = gauge_table.rows_of(*gauge_table.open_model(folder, **changed), chosen)
    both = read_table()[read_table()["model"] == name].merge(
        rows, on=["change", "how", "table", "quantity"], suffixes=("", "_now")
    )
    assert len(both) > 60 * len(chosen)
    assert set(both["table"]) >= {*MEASURED, "features", "summaries"}
    for label in ("before", "after"):
        np.testing.assert_allclose(both[label], both[f"{label}_now"], rtol=1e-5)
    moved = both["moved_now"].where(both["moved_now"] > gauge_table.LEFT, 0.0)
    np.testing.assert_allclose(both["moved"], moved, rtol=1e-4)


def test_the_committed_rows_of_both_halves_are_what_do_gives() -> None:
    _, folder, changed, _ = next(each for each in gauge_table.trained() if each[0] == "r03-1")
    rows = gauge_table.compare_halves(*gauge_table.open_model(folder, **changed))
    both = read_table()[read_table()["model"] == "r03-1"].merge(
        rows, on=["change", "how", "table", "quantity"], suffixes=("", "_now")
    )
    assert len(both) > 60
    for label in ("before", "after"):
        np.testing.assert_allclose(both[label], both[f"{label}_now"], rtol=1e-5)


def test_columns_of_the_function_are_never_moved_and_the_others_are() -> None:
    rows = read_table().assign(column=lambda frame: frame["quantity"].str.partition(" of ")[0])
    farthest = rows.groupby(["table", "column"])["moved"].max()
    for name in MEASURED:
        for label, column in TABLES[name].columns.items():
            if column.dtype == FLOAT and (name, label) not in OTHERWISE:
                assert column.of in (FUNCTION, STORED), (name, label)
                assert (farthest[name, label] > 0) == (column.of == STORED), (name, label)
    for label, moved in farthest["features"].items():
        declared = FEATURES[TRANSITION if label.startswith("L_star") else label]
        assert declared.of == STORED if moved > 0 else declared.of in (FUNCTION, STORED), label


def test_every_change_was_tried_on_classes_and_on_a_trained_model() -> None:
    rows = read_table()
    assert set(rows["change"]) == set(gauge_table.gauge.CHANGES)
    trained = rows[rows["model"] != CLASSES]
    assert set(trained["change"]) == set(gauge_table.gauge.CHANGES)
    assert (rows.loc[rows["quantity"].isin(["entropy", "top_probability"]), "moved"] == 0).all()


def test_what_moves_a_quantity_comes_with_how_far() -> None:
    rows = find_moves("wv_wo_ratio")
    assert (rows["moved"].diff().dropna() <= 0).all() and CLASSES not in set(rows["model"])
    eight = rows[rows["how"] == "W_V × 8 and W_O / 8 in every block"]
    np.testing.assert_allclose(eight["after"] / eight["before"], 64, rtol=1e-5)
    assert len(find_moves("wv_wo_ratio", shipped_only=False)) > len(rows)
    assert find_moves("entropy").empty
    with pytest.raises(UsageError, match="did you mean wv_wo_ratio"):
        find_moves("wv_wo_ration")


def test_a_number_that_comes_or_goes_has_moved_without_end() -> None:
    from thermostats.measurement.gauge_moves import measure_moves

    before = {"features": pd.DataFrame({"last_gain": [1.0], "L_star_peak_exact": [2.0]})}
    after = {"features": pd.DataFrame({"last_gain": [1.5], "L_star_peak_exact": [np.nan]})}
    assert dict(measure_moves("heads", before, after)[["quantity", "moved"]].to_numpy()) == {
        "last_gain": 0.5,
        "L_star_peak_exact": np.inf,
    }


def of(rows: pd.DataFrame, *quantities: str) -> dict[str, tuple[float, float]]:
    """Before and after of some quantities."""
    chosen = rows.set_index("quantity").loc[list(quantities)]
    return dict(zip(quantities, zip(chosen["before"], chosen["after"], strict=True), strict=True))


def test_the_three_demonstrations_have_the_numbers_that_the_page_says() -> None:
    from thermostats.measurement import gauge
    from thermostats.measurement.gauge_moves import measure_change

    folders = {path.name: path for path in list_shipped_models()}
    eight = partial(gauge.turn_heads, turn=gauge.make_scaling_turn(8.0))
    knob = of(
        measure_change(folders["r03-1"], eight),
        "wv_wo_ratio",
        "penultimate_gain",
        "entropy",
        "trace of exact",
    )
    assert knob["wv_wo_ratio"] == pytest.approx((1.251, 80.077), abs=5e-4)
    assert knob["trace of exact"] == pytest.approx((44.699, 2860.72), abs=5e-3)
    for same in ("penultimate_gain", "entropy"):
        assert knob[same][1] == pytest.approx(knob[same][0], rel=1e-5)

    def dampened(weights: gauge.ModelWeights) -> gauge.ModelWeights:
        early = gauge.add_ones(weights, 64.0, layer=0, spread=0.0)
        return gauge.add_ones(early, -64.0, layer=7, spread=0.0)

    late = partial(gauge.add_ones, amount=64.0, layer=7, spread=0.0)
    for change, gain in ((dampened, 0.612), (late, 1.815)):
        sign = of(
            measure_change(folders["r07-5"], change),
            "penultimate_gain",
            "penultimate_read_gain",
            "entropy",
        )
        assert sign["penultimate_gain"] == pytest.approx((1.073, gain), abs=5e-4)
        for same in ("penultimate_read_gain", "entropy"):
            assert sign[same][1] == pytest.approx(sign[same][0], rel=1e-5)
    table = measure_change(folders["r15-2"], gauge.scale_post_norms, do_layer_norm_before=False)
    post = of(table, "penultimate_gain", "last_gain", "entropy")
    assert post["penultimate_gain"][1] == pytest.approx(4 * post["penultimate_gain"][0], rel=1e-5)
    assert post["last_gain"][1] == pytest.approx(post["last_gain"][0] / 4, rel=1e-5)
    assert post["entropy"][1] == pytest.approx(post["entropy"][0], rel=1e-5)


def test_the_codebook_and_the_listing_say_of_what_a_column_is_a_property() -> None:
    assert "| gain_read | number | ratio | function | yes |" in write_codebook()
    assert "| wv_wo_ratio | number | ratio | weights as stored |" in write_codebook()
    listed, columns = listing.list_table_rows("columns", None, table="layers")
    of = {row["column"]: row["of"] for row in listed}
    assert "of" in columns
    assert (of["gain_block"], of["gain_read"], of["prompt_id"]) == (
        "weights as stored",
        "function",
        "",
    )
