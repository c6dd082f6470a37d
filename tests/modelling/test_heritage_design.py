"""What the heritage model makes of tables: what it refuses, what it warns of, families within labs,
published rows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import SHA, layer, model, run, table

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.draws import Settings
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.law import list_bases
from thermostats.modelling.heritage.simulated import simulate_facts
from thermostats.modelling.model_gains import gain_rows, read_remarks
from thermostats.tables import store
from thermostats.tables.schemas import NURSERY


def facts(n_models: int = 12, n_labs: int = 4) -> pd.DataFrame:
    return simulate_facts(n_models, n_labs, np.random.default_rng(0)).assign(gain=1.1)


def prompted(table: pd.DataFrame, prompts: int = 3) -> pd.DataFrame:
    rows = table.loc[table.index.repeat(prompts)].reset_index(drop=True)
    rng = np.random.default_rng(1)
    return rows.assign(
        prompt_id=[f"p{i}" for i in range(prompts)] * len(table),
        category=["a", *["b"] * (prompts - 1)] * len(table),
        gain=np.exp(rng.normal(0.1, 0.05, len(rows))),
    )


def other_lab(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(heritage="other", prompt_id=table["prompt_id"] + " again")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.assign(gain=np.nan), "no row has a gain"),
        (lambda t: pd.concat([t, t.assign(heritage="other")]), "a model stands in several rows"),
        (lambda t: pd.concat([prompted(t), other_lab(prompted(t))]), "two labs"),
        (lambda t: t.drop(columns="n_heads"), "no such column"),
        (
            lambda t: t.assign(gain_sd=0.0, n_prompts=5, prompt_id=""),
            "an average without its spread",
        ),
        (lambda t: pd.concat([prompted(t), prompted(t).iloc[:2]]), "rows are repeated"),
        (
            lambda t: pd.concat(
                [prompted(t), t.iloc[:1].assign(gain_sd=0.1, n_prompts=5, prompt_id="")]
            ),
            "in addition",
        ),
    ],
)
def test_bad_tables_are_refused(change, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit_heritage(change(facts()), estimand="last_gain")


def warned(table: pd.DataFrame, words: str) -> bool:
    return any(words in warning for warning in fitted(table).warnings)


def fitted(table: pd.DataFrame) -> Fit:
    """Of gains that differ, where the table's do not matter."""
    if table["gain"].nunique() == 1:
        table = table.assign(gain=table["gain"] * np.exp(np.linspace(0, 0.3, len(table))))
    return fit_heritage(table, estimand="last_gain", settings=Settings(draws=100))


def test_doubtful_tables_carry_warnings() -> None:
    table = facts()
    assert warned(table.assign(d_head=64), "d_head is the same")
    deficient = table.assign(d_head=64, n_heads=table["n_layers"] * 2)
    assert warned(deficient, "rank 1 of 2")
    assert list_bases(fitted(deficient).design)["geometry"].shape == (12, 1)
    assert warned(
        table.assign(gain=[None, 1.2] + [1.0] * 10),
        "no gain, left out: 1 of 12 models (lab000/model0000)",
    )
    some = prompted(table)
    assert warned(
        some.assign(gain=some["gain"].where(some.index > 0)),
        "1 of 36 rows have no gain and are left out",
    )
    assert warned(table.assign(heritage=list("aaabcdefghij")), "only one lab has two")
    assert warned(prompted(table, 1), "every model has a single row")
    assert warned(prompted(table).iloc[2:], "1 models have a single row")
    assert warned(table.iloc[:5].assign(heritage=list("aabbc")), "depend strongly on the prior")


def test_families_are_a_block_of_their_own_and_what_cannot_be_told_apart_is_said() -> None:
    table = facts(12, 3).sort_values("heritage")
    two = table.assign(family=["x", "x", "y", "y"] * 3)
    fit = fitted(two)
    bases = list_bases(fit.design)
    assert list(bases) == ["heritage", "geometry", "scale", "family"]
    for name, basis in bases.items():
        assert np.trace(basis @ basis.T) / 12 == pytest.approx(1), name
    assert (bases["heritage"].shape, bases["family"].shape) == (
        (12, 3),
        (12, 6),
    )  # a family's name is its lab's
    assert not any("family" in warning for warning in fit.warnings)
    one_each = two.assign(family=two["heritage"])
    assert "family" in list_bases(fitted(one_each).design)  # pooled all the same
    assert warned(one_each, "no lab has two families")
    assert warned(two.assign(family=two["model_id"]), "no family has two models")
    gaps = two.assign(family=["x", "x", "y", ""] * 3)
    assert list_bases(fitted(gaps).design)["family"].shape == (12, 9) and warned(
        gaps, "a separate family, since none is stated: "
    )
    assert warned(table, "families are not stated") and "family" not in list_bases(
        fitted(table).design
    )


@pytest.mark.slow
def test_measured_folders(tmp_path: Path) -> None:
    """Eight models of three labs measured here; one of them a second time elsewhere."""
    rng = np.random.default_rng(0)
    models, runs, layers = [], [], []
    for i in range(8):
        heads = (2, 4, 1)[i % 3]
        shape = {"n_heads": heads, "n_kv_heads": heads, "d_head": 8 // heads}
        models.append(model(f"lab/m{i}", f"Lab {i % 3}", 3 + i // 2) | shape)
        for source in ("here", "elsewhere") if i == 0 else ("here",):
            runs.append(
                run(f"lab/m{i}", source=source, dtype="float32" if source == "here" else "bfloat16")
            )
            gains = np.exp(rng.normal(0.1, 0.1, (3 + i // 2, 2)))
            layers += [
                layer(runs[-1], number + 1, float(gains[number, p]), "ab"[p])
                for number in range(len(gains))
                for p in (0, 1)
            ]
    prompts = [
        {"prompt_set": "two", "prompt_id": name, "text_sha256": SHA, "category": "Plain"}
        for name in "ab"
    ]
    for name, rows in (("models", models), ("prompts", prompts)):
        store.save(table(name, *rows), name, tmp_path / f"{name}.csv")
    for name, rows in (("runs", runs), ("layers", layers)):
        store.save(table(name, *rows), name, tmp_path / "measured" / name / "all.csv")
    rows = gain_rows("last_gain", data=tmp_path, source=["elsewhere", "here"])
    assert len(rows) == 16
    assert set(rows.loc[rows["model_id"] == "lab/m0", "source"]) == {"elsewhere"}
    fit = fit_heritage(rows, estimand="last_gain", seed=1)
    assert fit.sources == ("elsewhere", "here")
    assert (len(fit.rows), fit.rows["heritage"].nunique(), fit.estimand) == (8, 3, "last_gain")
    record = fit.to_dict()
    assert (record["sources"], record["estimand"]) == (["elsewhere", "here"], "last_gain")
    assert fit.summary().attrs["sources"] == ["elsewhere", "here"]
    assert "heritage" in gain_rows("geometric_gain", data=tmp_path)
    assert read_remarks(rows) == ("measured more than once, so one row is used: lab/m0",)
    models[1] |= {"norm_place": "post"}
    models[2] |= {"variant": "instruct"}
    store.save(table("models", *models), "models", tmp_path / "models.csv")
    last_of_m3 = [row for row in layers if row["run_id"] == runs[4]["run_id"] and row["layer"] == 4]
    for gone, words in (
        (last_of_m3[1:], "prompts without last_gain, left out: some of lab/m3"),
        (last_of_m3, "no last_gain, left out: 1 of 7 models (lab/m3)"),
    ):
        kept = [row for row in layers if row not in gone]
        store.save(table("layers", *kept), "layers", tmp_path / "measured" / "layers" / "all.csv")
        assert set(read_remarks(gain_rows("last_gain", data=tmp_path))) == {
            "measured more than once, so one row is used: lab/m0",
            "left out, since normalised after the sum: lab/m1",
            "left out, not a base model: lab/m2",
            words,
        }


@pytest.mark.slow
def test_gains_say_their_token_position_and_those_of_several_are_refused() -> None:
    last, mean = (
        gain_rows("penultimate_gain", source=NURSERY, position=place).assign(
            heritage=lambda t: t["family"]
        )
        for place in ("last", "mean")
    )
    assert set(mean["token_position"]) == {"mean"}
    assert set(mean["model_id"]) == set(last["model_id"]) and not np.allclose(
        mean["gain"], last["gain"]
    )
    fit = fit_heritage(mean, estimand="penultimate_gain", seed=1)
    assert fit.summary().attrs["estimand"] == "penultimate_gain at mean"
    with pytest.raises(UsageError, match="several token positions"):
        fit_heritage(
            pd.concat([mean, last.assign(model_id=last["model_id"] + "'")]),
            estimand="penultimate_gain",
        )


def test_a_column_in_two_blocks_is_refused_with_a_call_that_works() -> None:
    table = facts().assign(gain=np.exp(np.random.default_rng(2).normal(0, 0.1, 12)))
    twice = {"geometry": ["n_layers", "n_params"], "scale": "n_params"}
    with pytest.raises(
        UsageError, match=r"two blocks \(n_params\): got geometry and scale"
    ) as refused:
        fit_heritage(table, **twice, seed=1)  # type: ignore[arg-type]
    fit = eval(refused.value.next_step, {"thermostats": thermostats, "df": table})  # noqa: S307
    assert {"sd_heritage", "sd_geometry", "sd_scale"} <= set(fit.quantities)
    for blocks, words in (
        ({"a": ["n_layers", "n_heads"], "b": ["n_heads"]}, r"two blocks \(n_heads\): got a and b"),
        ({"a": ["n_layers", "n_layers"]}, r"twice in a block \(n_layers\)"),
        ({"a": ["n_layers", "gain"]}, r"two blocks \(gain\): got the outcome and a"),
    ):
        with pytest.raises(UsageError, match=words):
            fit_heritage(table, blocks=blocks, seed=1)


def test_geometry_that_gives_the_size_is_the_first_warning() -> None:
    table = facts()
    apart = table.assign(n_params=np.exp(np.random.default_rng(2).normal(20, 1, len(table))))
    assert not warned(apart, "to R² =")
    given = table.assign(n_params=12 * table["n_layers"] * table["d_head"] ** 2.0)
    first, *_ = fitted(given).warnings
    assert first.startswith("n_layers, n_heads, d_head give n_params to R² = 1.00")
    assert "which column is called which; heritage > geometry and scale asks" in first
    noise = np.exp(np.random.default_rng(3).normal(0, 0.02, len(table)))
    close = fitted(given.assign(n_params=given["n_params"] * noise)).warnings[0]
    x = np.log(given[["n_layers", "n_heads", "d_head"]].to_numpy(float))
    y = np.log((given["n_params"] * noise).to_numpy(float))
    design = np.column_stack([np.ones(len(y)), x])
    left = y - design @ np.linalg.lstsq(design, y)[0]
    share = 1 - left.var() / y.var()
    shown = re.search(r"R² = ([0-9.]+):", close)
    assert shown and 0.9 < share < 1
    assert float(shown[1]) == pytest.approx(share, abs=0.5 * 10.0 ** -(len(shown[1]) - 2))
    varied = given.assign(gain=np.linspace(1.0, 1.4, len(given)))
    alone = fit_heritage(varied, estimand="last_gain", lab=None)
    assert alone.warnings[0].endswith("which column is called which")


def test_few_labs_are_said_to_be_no_sample_of_labs() -> None:
    for labs, said in ((2, True), (3, True), (4, False)):
        lines = repr(fitted(facts(12, labs))).splitlines()
        assert len(lines) <= 10
        assert lines[1].startswith(f"{labs} labs: what labs differ by") == said
    assert "2 labs: what labs differ by" in fitted(facts(12, 2))._repr_html_()


def test_the_line_for_missing_geometry_drops_models_not_the_block() -> None:
    table = facts()
    table = table.assign(n_params=table["n_params"].where(table.index > 0))
    with pytest.raises(UsageError, match="missing geometry") as caught:
        fit_heritage(table, estimand="last_gain")
    assert 'df.dropna(subset=["n_params"])' in str(caught.value)
