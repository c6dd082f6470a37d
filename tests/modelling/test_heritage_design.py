"""What the heritage model makes of tables: what it refuses, what it warns of, families within labs,
published rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import SHA, layer, model, run, table

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.draws import Settings
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.divisions import list_divisions
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.law import list_bases
from thermostats.modelling.heritage.simulated import simulate_facts
from thermostats.modelling.mixed_model import MixedDesign
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
    assert "which column is called which; the order is given as a range" in alone.warnings[0]


def test_few_labs_are_said_to_be_no_sample_of_labs() -> None:
    for labs, said in ((2, True), (3, True), (4, False)):
        lines = repr(fitted(facts(12, labs))).splitlines()
        assert len(lines) <= 10 and max(map(len, lines)) <= 80
        assert lines[-1] == (
            "next: summary() effects() contrast() check() predict() power() plot() to_latex()"
        )
        assert lines[1].startswith(f"{labs} labs: what labs differ by") == said
        test = 'whether labs differ at all, given the rest: fit.table("classical")'
        assert (test in lines) != said
    assert "2 labs: what labs differ by" in fitted(facts(12, 2))._repr_html_()


def varied(n_models: int = 12, n_labs: int = 4) -> pd.DataFrame:
    table = facts(n_models, n_labs)
    return table.assign(gain=np.linspace(0.9, 1.5, n_models)[::-1] ** 2)


def run_line(line: str, df: pd.DataFrame) -> Fit:
    return eval(line, {"thermostats": thermostats, "df": df})  # noqa: S307


def test_models_without_a_covariate_are_left_out_and_named() -> None:
    table = varied()
    lacking = table.assign(n_params=table["n_params"].where(table.index > 0))
    fit = fit_heritage(lacking, estimand="last_gain")
    gone = table["model_id"][0]
    assert f"no n_params, left out: 1 of 12 models ({gone})" in fit.warnings
    assert set(fit.rows["model_id"]) == set(table["model_id"][1:])
    names = [kind.name for kind in fit.designed(MixedDesign).mixed.kinds]
    assert {"geometry", "scale"} <= set(names)
    with pytest.raises(UsageError, match="missing geometry") as caught:
        fit_heritage(table.assign(n_params=np.nan), estimand="last_gain")
    line = str(caught.value).split("Next: ")[1]
    assert "n_params" not in line and len(run_line(line, table).rows) == 12


def test_sizes_that_end_in_letters_are_asked_about_with_a_line_that_runs() -> None:
    table = varied()
    texts = [
        f"{size / 1e9:.4f}B" if size > 1e9 else f"{size / 1e6:.4f} m" for size in table["n_params"]
    ]
    with pytest.raises(UsageError, match="a size is no number") as caught:
        fit_heritage(table.assign(n_params=texts), estimand="last_gain")
    again = run_line(str(caught.value).split("Next: ")[1], table.assign(n_params=texts))
    sizes = table.set_index("model_id")["n_params"][again.rows["model_id"]]
    assert again.rows["n_params"].to_numpy() == pytest.approx(sizes.to_numpy(), rel=1e-3)


def test_gains_in_per_cent_are_asked_about_with_a_line_that_runs() -> None:
    table = varied().assign(gain_se=0.01)
    logs = np.log(table.sort_values("model_id")["gain"].to_numpy())
    texts = table.assign(gain=(100 * table["gain"]).map("{:.6f} %".format))
    with pytest.raises(UsageError, match="texts in per cent") as caught:
        fit_heritage(texts, estimand="last_gain")
    again = run_line(str(caught.value).split("Next: ")[1], texts)
    assert again.rows["log_gain"].to_numpy() == pytest.approx(logs, abs=1e-6)
    numbers = table.assign(gain=100 * table["gain"], gain_se=1.0)
    fit = fit_heritage(numbers, estimand="last_gain", se="gain_se")
    (asked,) = [each for each in fit.warnings if "in per cent?" in each]
    again = run_line(asked.split("Then ")[1], numbers)
    assert again.rows["log_gain"].to_numpy() == pytest.approx(logs)
    assert not [each for each in again.warnings if "per cent" in each]


# Eight ways to name layers, width and weights, of which any two give the third.
CODINGS = [
    (["Layers", "d_model"], ["Weights"]),
    (["Layers", "Weights"], ["d_model"]),
    (["d_model", "Weights"], ["Layers"]),
    (["Layers"], ["d_model", "Weights"]),
    (["d_model"], ["Layers", "Weights"]),
    (["Weights"], ["Layers", "d_model"]),
    (["d_model", "Layers"], ["Weights"]),
    (["Weights"], ["d_model", "Layers"]),
]
STRANGERS = Path(__file__).parents[3] / "shared" / "cases" / "strangers_tables" / "my_models.csv"


def made_up_stranger() -> pd.DataFrame:
    """A table like the stranger's: 37 models of nine labs, weights from layers and width."""
    rng = np.random.default_rng(6)
    layers = rng.choice([6, 12, 16, 24, 28, 32, 36, 40], 37)
    width = rng.choice([640, 1024, 1280, 1536, 1920, 2560, 3200, 3840], 37)
    labs = rng.integers(0, 9, 37)
    gain = np.exp(0.1 + 0.1 * rng.standard_normal(9)[labs] + 0.06 * rng.standard_normal(37))
    named = {"Model": [f"m{i}" for i in range(37)], "Organization": [f"lab{lab}" for lab in labs]}
    sizes = {"Layers": layers, "d_model": width, "Weights": (12 * layers * width**2 / 1e9).round(3)}
    return pd.DataFrame({**named, **sizes, "Gain": gain, "SE": 0.02})


def stranger() -> pd.DataFrame:
    table = pd.read_csv(STRANGERS).dropna(subset=["SE", "Params (B)"])
    return table.rename(columns={"Params (B)": "Weights", "Last-layer gain": "Gain"})


def fit_coded(table: pd.DataFrame, coding: tuple[list[str], list[str]]) -> Fit:
    geometry, scale = coding
    columns = {"outcome": "Gain", "model": "Model", "lab": "Organization", "se": "SE"}
    return fit_heritage(table, geometry=geometry, scale=scale, **columns)


TABLES = [
    made_up_stranger,
    pytest.param(
        stranger, marks=pytest.mark.skipif(not STRANGERS.exists(), reason="no such table here")
    ),
]


@pytest.mark.parametrize("read", TABLES)
def test_codings_of_columns_that_give_one_another_print_one_range(
    read: Callable[[], pd.DataFrame],
) -> None:
    fits = [fit_coded(read(), coding) for coding in CODINGS]
    points = [fit.probability("geometry > scale") for fit in fits]
    assert max(points) - min(points) > 0.5
    asked = {"geometry > scale", "heritage > geometry > scale"}
    for fit in fits:
        assert set(fit.ranges) == asked
        assert fit.summary().attrs["ranges"] == fit.ranges
        assert "the order is given as a range" in fit.warnings[0]
    printed = {
        tuple(line for line in repr(fit).splitlines() if "which column" in line) for fit in fits
    }
    assert len(printed) == 1
    (line,) = printed.pop()
    low, high = fits[0].ranges["heritage > geometry > scale"]
    assert low < 0.5 < high and "P(heritage > geometry > scale) from" in line
    low, high = fits[0].ranges["geometry > scale"]
    assert low < min(points) + 0.1 and high > max(points) - 0.1
    ranges = {tuple(sorted(fit.ranges.items())) for fit in fits}
    assert len(ranges) == 1
    latex = {re.search(r"P\(geometry .*", fit.to_latex())[0] for fit in fits}
    assert len(latex) == 1 and " to " in latex.pop()
    orders = fits[0].table("orders").set_index("statement")
    assert (
        tuple(orders.loc["geometry > scale", ["lowest", "highest"]])
        == fits[0].ranges["geometry > scale"]
    )
    assert orders["lowest"].isna().sum() == len(orders) - 2


def test_a_division_is_a_fit_with_one_column_given_to_the_others() -> None:
    """Weights as scale, what they leave of the others as geometry: both are orthogonal."""
    fit = fit_coded(made_up_stranger(), CODINGS[0])
    mixed = dict(list_divisions(fit.designed(MixedDesign).mixed))
    assert len(mixed) == 6
    design = mixed["Weights as scale, Layers, d_model given it as geometry"].design_rows(fit.rows)
    bases = list_bases(design)
    assert bases["scale"].shape[1] == bases["geometry"].shape[1] == 1
    assert abs(float((bases["scale"].T @ bases["geometry"]).item())) < 1e-6
    weights = np.log(fit.rows["Weights"].to_numpy())
    assert abs(np.corrcoef(bases["scale"][:, 0], weights)[0, 1]) == pytest.approx(1.0)


def test_columns_that_do_not_give_one_another_have_no_range() -> None:
    table = made_up_stranger()
    apart = table.assign(Weights=np.random.default_rng(2).permutation(table["Weights"]))
    fit = fit_coded(apart, CODINGS[0])
    assert fit.ranges == {} and "divisions" not in fit.law.tables
    assert "lowest" not in fit.table("orders")
