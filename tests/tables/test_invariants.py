"""Numbers that no change of weights moves, from rows: where P = I they follow, where they lack they
are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import layer, model, run, table

import thermostats
from thermostats.tables.features import AS_READ, combine, fill_read_gains
from thermostats.tables.invariants import (
    BALANCED,
    READ,
    compute_balanced_ratio,
    compute_ov_read,
    find_unread,
    load_balanced_ratio,
    load_ov_read,
)
from thermostats.tables.reading import Selection
from thermostats.tables.runs import mark_superseded
from thermostats.tables.schemas import READ_GAINS

RMS = {"norm_kind": "RMSNorm", "norm_place": "pre"}
LAYER_NORM = {"norm_kind": "LayerNorm", "norm_place": "pre"}
POST = {"norm_kind": "LayerNorm", "norm_place": "post"}
GAINS = (2.0, 3.0, 5.0)


def weight(run_id: str, matrix: str, head: str = "", **values: float) -> dict[str, object]:
    return {
        "run_id": run_id,
        "layer": 1,
        "matrix": matrix,
        "head": head,
        "spectral_norm": 1.0,
        **values,
    }


@pytest.mark.parametrize(("norms", "known"), [(RMS, True), (LAYER_NORM, False), (POST, False)])
def test_where_norms_keep_the_mean_the_gains_are_read_gains(
    norms: dict[str, str], known: bool
) -> None:
    it = run()
    models, runs = table("models", {**model(), **norms}), table("runs", it)
    layers = table("layers", *(layer(it, i, gain) for i, gain in enumerate(GAINS, 1)))
    empty = {name: table(name) for name in ("summaries", "transitions", "weights")}
    row = combine(runs, models, layers, **empty).iloc[0]
    assert row["last_gain"] == 5
    assert row[list(READ_GAINS)].notna().all() == known
    if known:
        assert row["last_read_gain"] == 5 and row["penultimate_read_gain"] == 3
        assert row["geometric_read_gain"] == pytest.approx(np.sqrt(15))
    assert fill_read_gains(layers, runs, models)["gain_read"].notna().all() == known


def test_what_was_measured_stands_before_what_follows() -> None:
    it = run()
    layers = table("layers", {**layer(it, 1, 2.0), "gain_read": 1.5}, layer(it, 2, 3.0))
    read = fill_read_gains(layers, table("runs", it), table("models", {**model(), **RMS}))
    assert read["gain_read"].tolist() == [1.5, 3.0]
    assert set(AS_READ) <= set(read)


def test_runs_that_lack_them_are_named_once_for_each_kind() -> None:
    kinds = {"rms": RMS, "ln": LAYER_NORM, "post": POST}
    models = table("models", *({**model(f"lab/{name}"), **norms} for name, norms in kinds.items()))
    gains, spectra = (
        {name: run(f"lab/{name}", attention=how) for name in kinds} for how in ("default", "")
    )
    runs = table("runs", *gains.values(), *spectra.values())
    layers = table("layers", *(layer(each, 1, 2.0) for each in gains.values()))
    weights = table("weights", *(weight(str(each["run_id"]), "W_V") for each in spectra.values()))
    listed = find_unread(runs, models, layers, weights)
    assert set(zip(listed["model_id"], listed["lacks"], strict=True)) == {
        ("lab/ln", READ),
        ("lab/ln", BALANCED),
        ("lab/rms", BALANCED),
    }
    measured = find_unread(
        runs, models, layers.assign(read_norm=1.0), weights.assign(balanced_norm=1.0)
    )
    assert measured.empty


def test_they_are_ratios_of_the_rows_by_hand() -> None:
    spectra, gains = run(attention=""), run(attention="default")
    runs, name = table("runs", spectra, gains), str(spectra["run_id"])
    weights = table(
        "weights",
        weight(name, "W_V", balanced_norm=6.0),
        weight(name, "W_O", balanced_norm=4.0),
        weight(name, "OV", "1", ov_read_norm=8.0),
        weight(name, "OV", "2"),
    )
    layers = table(
        "layers",
        *({**layer(gains, 1, 2.0, p), "read_norm": n} for p, n in (("a", 1.0), ("b", 4.0))),
    )
    assert compute_balanced_ratio(runs, weights)["balanced_ratio"].tolist() == [1.5]
    heads = compute_ov_read(runs, weights, layers)
    assert heads["head"].tolist() == ["1"] and heads["ov_read"].tolist() == [pytest.approx(8 / 2)]


def test_a_run_gives_way_to_one_of_the_same_weights_alone() -> None:
    old, new = (run(measure_version=version, model_sha="abc") for version in ("2", "3"))
    other = run(measure_version="2", model_sha="def")
    rows = table("runs", old, new, other)
    assert set(rows.loc[mark_superseded(rows), "run_id"]) == {old["run_id"]}


def test_trained_models_that_ship_have_them() -> None:
    shipped = ("nursery/r03-1", "nursery/r07-5", "nursery/r15-2", "karpathy/stories260K")
    heads, ratios = load_ov_read(), load_balanced_ratio()
    for name in shipped:
        depth = ratios.loc[ratios["model_id"] == name, "layer"].nunique()
        assert depth == heads.loc[heads["model_id"] == name, "layer"].nunique() > 4
    assert (heads["ov_read"] > 0).all() and ratios["balanced_ratio"].between(0.2, 5).all()
    rows = thermostats.load("layers", models=True)
    rows = rows[rows["model_id"].isin(shipped) & rows["gain_read"].notna()]
    assert set(rows["model_id"]) == set(shipped)
    keeps_mean = rows["model_id"].isin(["nursery/r03-1", "karpathy/stories260K"])
    assert (rows.loc[keeps_mean, "gain_read"] == rows.loc[keeps_mean, "gain_block"]).all()
    apart = np.log(rows.loc[~keeps_mean, "gain_read"] / rows.loc[~keeps_mean, "gain_block"]).abs()
    assert 0 < apart.median() < 0.01


def test_selections_leave_out_what_was_measured_again(tmp_path: Path) -> None:
    old, new = (run(measure_version=version, model_sha="abc") for version in ("2", "3"))
    for name, rows in (
        ("models", [model()]),
        ("prompts", [{"prompt_set": "two", "prompt_id": "a", "text_sha256": "0" * 64}]),
        ("runs", [old, new]),
        ("layers", [layer(old, 1, 2.0), layer(new, 1, 3.0)]),
    ):
        thermostats.join(table(name, *rows), data=tmp_path)
    chosen = Selection(tmp_path)
    assert chosen.table("layers", model_id="lab/small")["gain_block"].tolist() == [3.0]
    assert chosen.table("runs", model_id="lab/small")["run_id"].tolist() == [new["run_id"]]
