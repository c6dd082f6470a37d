"""Other people's measurements: made again byte for byte, as was known of them before, and never
without terms."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.modelling.classical.counts import fit_phases
from thermostats.tables import export as provenance
from thermostats.tables import store
from thermostats.tables.choices import EXTERNAL
from thermostats.tables.column_map import NO_RAW
from thermostats.tables.store import check_licence, check_licences

ROOT = Path(__file__).parents[2]
FILES = ROOT.parent / "shared" / "external"
SHIPPED = ROOT / "data" / "external"
sys.path.insert(0, str(ROOT / "scripts" / "external"))
import make  # noqa: E402

PENULTIMATE = {
    "01-ai/Yi-34B": 1.184,
    "Qwen/Qwen2.5-72B": 1.554,
    "Qwen/Qwen3-14B": 1.378,
    "Qwen/Qwen3-8B": 1.457,
    "google/gemma-2-27b": 1.068,
    "google/gemma-2-9b": 1.133,
    "meta-llama/Meta-Llama-3-70B": 1.150,
    "meta-llama/Meta-Llama-3-8B": 1.150,
    "mistralai/Mistral-7B-v0.1": 1.125,
    "mistralai/Mistral-Small-24B-Base-2501": 1.226,
}
"""As computed by others from the same file, before these tables were made."""
SIX = {
    "Qwen/Qwen2.5-0.5B": 1.066,
    "Qwen/Qwen2.5-0.5B-Instruct": 1.074,
    "Qwen/Qwen2.5-1.5B": 1.226,
    "facebook/opt-1.3b": 1.121,
    "meta-llama/Llama-3.2-1B": 1.235,
    "openai-community/gpt2-xl": 1.070,
}
"""Ratio of the last two norms before the final norm, divided by hand from the source's files."""
CALIBRATION = {
    "EleutherAI/pythia-160m": (12, 12, 7.2, 8.0),
    "EleutherAI/pythia-410m": (24, 16, 17.5, 17.0),
    "EleutherAI/pythia-1b": (16, 8, 14.3, 16.0),
    "EleutherAI/pythia-2.8b": (32, 32, 22.0, None),
    "EleutherAI/pythia-6.9b": (32, 32, 22.0, None),
    "facebook/opt-125m": (12, 12, 7.2, 9.0),
    "google/gemma-2b": (18, 8, 16.8, 18.0),
    "openai-community/gpt2": (12, 12, 7.2, 10.0),
}
"""Depth, heads, what the notes' table predicts, and the layer counted from 1 where its index is no
NaN's: by hand."""
CHECKPOINTS = {
    "01-ai/Yi-34B": 34_388_917_248,
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-72B": 72_706_203_648,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": 8_030_261_248,
    "google/gemma-2-27b": 27_227_128_320,
    "google/gemma-2-9b-it": 9_241_705_984,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Meta-Llama-3-70B": 70_553_706_496,
    "meta-llama/Meta-Llama-3-8B": 8_030_261_248,
    "mistralai/Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "mistralai/Mistral-Small-24B-Base-2501": 23_572_403_200,
}
"""Weights counted in the checkpoints, as their pages on the hub show them; ours follow from the
configurations."""


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    every = store.load("runs")
    return every[every["measure_version"] == EXTERNAL]


def rows(table: str, runs: pd.DataFrame) -> pd.DataFrame:
    return store.load(table).merge(
        runs[["run_id", "model_id", "source", "prompt_set"]], on="run_id"
    )


@pytest.mark.skipif(not FILES.is_dir(), reason="no ../shared/external")
def test_the_same_files_give_the_same_bytes() -> None:
    there = {
        path.relative_to(SHIPPED).as_posix(): path.read_bytes()
        for path in SHIPPED.rglob("*")
        if path.is_file()
    }
    assert make.files(FILES) == there


def test_every_run_says_source_licence_instrument_and_precision(runs: pd.DataFrame) -> None:
    assert runs[["source", "licence", "instrument", "dtype"]].ne("").all(axis=None)
    assert set(runs["source"]) == {path.name for path in SHIPPED.iterdir() if path.is_dir()}
    assert all((SHIPPED / name / "LICENSE").is_file() for name in runs["source"].unique())
    assert {"instrument", "licence"} <= set(thermostats.load("layers", models=True))


def test_gains_are_those_that_others_computed_from_the_same_norms() -> None:
    gains = thermostats.features(source="logos-in-layers").set_index("model_id")["penultimate_gain"]
    assert gains.round(3).to_dict() == pytest.approx(PENULTIMATE, abs=1e-9)


def test_six_models_come_with_the_gains_that_their_norms_have(runs: pd.DataFrame) -> None:
    of_source = runs[runs["source"] == "standard-model-of-transformers"]
    assert (len(of_source), len(rows("layers", of_source)), len(rows("summaries", of_source))) == (
        6,
        158,
        6,
    )
    gains = thermostats.features(source="standard-model-of-transformers", every=True).set_index(
        "model_id"
    )
    assert gains["penultimate_gain"].round(3).to_dict() == pytest.approx(SIX, abs=1e-9)
    assert gains.loc["Qwen/Qwen2.5-0.5B", "normed_gain"] == pytest.approx(3.848, abs=5e-4)
    pair = of_source.set_index("model_id").loc[
        ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B-Instruct"], "prompt_set"
    ]
    assert pair.nunique() == 1


@pytest.mark.skipif(not FILES.is_dir(), reason="no ../shared/external")
def test_the_row_that_repeats_another_is_the_one_left_out() -> None:
    path = FILES / "standard-model-of-transformers" / "phase293_shock_waves.json"
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert (
        results["7B"]["avg_norms"] == results["1.5B"]["avg_norms"] != results["0.5B"]["avg_norms"]
    )
    said = {each.name: each.left_out for each in provenance.list_sources()}[
        "standard-model-of-transformers"
    ]
    assert "“7B”" in said and "repeats the norms of Qwen2.5-1.5B" in said


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("title = 3\n", "not an entry"),
        ("name = 'x'\n", "lacks entries"),
        ("title\n", "is no TOML"),
        (None, "not say where"),
    ],
)
def test_a_record_of_a_source_that_is_none_is_refused(
    text: str | None, what: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / provenance.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=what):
        provenance.read_source(tmp_path / provenance.FILE)


def test_weights_of_models_are_those_of_their_checkpoints() -> None:
    counts = store.read_typed(SHIPPED / "models.csv", "models").set_index("model_id")["n_params"]
    assert counts.to_dict() == CHECKPOINTS


def test_what_is_not_at_the_last_token_enters_no_gain_at_it(runs: pd.DataFrame) -> None:
    layers = rows("layers", runs)
    positions = layers.groupby("model_id")["position"].agg(set)
    assert (
        positions["google/gemma-2-9b-it"]
        == positions["mistralai/Mistral-7B-Instruct-v0.3"]
        == {"unstated"}
    )
    assert positions["deepseek-ai/DeepSeek-R1-Distill-Llama-8B"] == {"mean_norm"}
    last = thermostats.features(evidence=EXTERNAL, every=True).dropna(subset="penultimate_gain")
    assert set(last["model_id"]) <= set(layers.loc[layers["position"] == "last", "model_id"])


def test_gains_of_a_centred_stream_are_read_gains_and_no_others(runs: pd.DataFrame) -> None:
    centred = rows("layers", runs)[lambda table: table["source"] == "ie7374-gpt2-pythia"]
    assert centred["model_id"].nunique() == 3 and centred["gain_read"].notna().all()
    assert centred[["norm_in", "gain_block"]].isna().all(axis=None) and set(centred["missing"]) == {
        NO_RAW
    }
    features = (
        thermostats.features(evidence="external").set_index("source").loc["ie7374-gpt2-pythia"]
    )
    assert (
        features["penultimate_gain"].isna().all()
        and features["penultimate_read_gain"].notna().all()
    )


def test_a_figure_that_repeats_a_published_one_has_another_name(runs: pd.DataFrame) -> None:
    """Means over prompts are published to the last digit, so that the prompts' own values may not
    count as well."""
    every = store.load("summaries").merge(store.load("runs")[["run_id", "model_id"]], on="run_id")
    alone = every[every["estimand"] == "normed_gain_by_prompt"].groupby("model_id")["value"].mean()
    stated = every[(every["estimand"] == "normed_gain") & every["model_id"].isin(alone.index)]
    nearest = [
        np.abs(stated.loc[stated["model_id"] == name, "value"] - value).min()
        for name, value in alone.items()
    ]
    assert len(alone) == 8 and max(nearest) < 1e-12
    others = rows("summaries", runs[runs["model_id"].isin(alone.index)])
    assert "normed_gain" not in set(others["estimand"])


def profile(runs: pd.DataFrame, model: str, prompts: str) -> pd.Series:
    of_model = rows("layers", runs)[
        lambda all_: (all_["model_id"] == model) & (all_["prompt_set"] == prompts)
    ]
    return np.log(of_model.groupby("layer")["gain_block"].mean())


@pytest.mark.parametrize(
    ("model", "prompts", "r"),
    [
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama_scope_slimpajama", 0.95),
        ("meta-llama/Llama-3.1-8B-Instruct", "kameshkanna_instructions_50", 0.91),
    ],
)
def test_profiles_agree_as_others_found(
    runs: pd.DataFrame, model: str, prompts: str, r: float
) -> None:
    base = profile(runs, "meta-llama/Llama-3.1-8B", "llama_scope_slimpajama")
    both = pd.concat([base, profile(runs, model, prompts)], axis=1, join="inner")
    assert float(both.corr().iloc[0, 1]) == pytest.approx(r, abs=0.03)


@pytest.fixture(scope="module")
def calibration(runs: pd.DataFrame) -> pd.DataFrame:
    """The eight models of the formula's calibration: index from 0, prediction, and layer from 1
    where there is one."""
    of_source = runs[runs["source"] == "buk81-lstar-calibration"]
    values = rows("summaries", of_source).pivot(
        index="model_id", columns="estimand", values="value"
    )
    layers = rows("transitions", of_source).set_index("model_id")[
        ["layer", "relative_depth", "missing"]
    ]
    facts = (
        store.load("models")
        .drop_duplicates("model_id")
        .set_index("model_id")[["n_layers", "n_heads", "heritage"]]
    )
    return values.join(layers).join(facts.astype({"n_layers": float, "n_heads": float}))


def test_the_calibration_of_the_formula_is_that_of_its_notes(calibration: pd.DataFrame) -> None:
    of_model = calibration[["n_layers", "n_heads", "L_star_calibration_predicted", "layer"]]
    given = {
        model: tuple(None if pd.isna(x) else x for x in row)
        for model, *row in of_model.itertuples()
    }
    assert given == CALIBRATION
    index, found = calibration["L_star_calibration_index"], calibration["layer"].notna()
    assert (calibration["layer"][found] == index[found] + 1).all() and index[~found].tolist() == [
        26.0,
        21.0,
    ]
    assert set(calibration.loc[~found, "missing"]) == {
        "the published index is where the first NaN stands, not an extreme"
    }
    np.testing.assert_allclose(
        calibration["relative_depth"], calibration["layer"] / calibration["n_layers"]
    )


def test_errors_on_the_calibration_are_those_computed_by_hand(calibration: pd.DataFrame) -> None:
    L, H = calibration["n_layers"], calibration["n_heads"]
    truth = calibration["L_star_calibration_index"]

    def error(guess: pd.Series) -> float:
        return float((100 * (guess - truth).abs() / L).mean())

    assert error(L * (0.11 + 0.012 * L + 4.9 / H)) == pytest.approx(5.15, abs=0.005)
    assert error(L / 2) == pytest.approx(25.22, abs=0.005)
    assert error(calibration["L_star_calibration_predicted"]) == pytest.approx(6.34, abs=0.005)
    assert (
        calibration["heritage"].nunique() == 4
        and len(calibration[["n_layers", "n_heads"]].drop_duplicates()) == 5
    )
    design = np.column_stack([np.ones(8), L, 1 / H])
    others = (calibration["heritage"] != "EleutherAI").to_numpy()
    assert np.linalg.matrix_rank(design) == 3 and np.linalg.matrix_rank(design[others]) == 2
    left_out = truth.copy()
    for i in range(8):
        kept = np.arange(8) != i
        constants = np.linalg.lstsq(design[kept], (truth / L).to_numpy()[kept], rcond=None)[0]
        left_out.iloc[i] = L.iloc[i] * (design[i] @ constants)
    assert error(left_out) == pytest.approx(8.31, abs=0.005)


def test_the_printed_constants_are_those_of_least_deviations_on_the_calibration(
    calibration: pd.DataFrame,
) -> None:
    """A linear programme: y = X b + u − v, smallest sum of u, v ≥ 0; the published 4.8% is its
    error, in sample."""
    L, H = calibration["n_layers"].to_numpy(), calibration["n_heads"].to_numpy()
    share = calibration["L_star_calibration_index"].to_numpy() / L
    design = np.column_stack([np.ones(8), L, 1 / H])
    cost = np.concatenate([np.zeros(3), np.full(16, 1 / 8)])
    equal = np.column_stack([design, np.eye(8), -np.eye(8)])
    bounds = [(None, None)] * 3 + [(0, None)] * 16
    solved = optimize.linprog(cost, A_eq=equal, b_eq=share, bounds=bounds)
    assert [round(solved.x[0], 2), round(solved.x[1], 3), round(solved.x[2], 1)] == [
        0.11,
        0.012,
        4.9,
    ]
    assert 100 * solved.fun == pytest.approx(4.816, abs=5e-4)
    row = (
        store.load("inconsistencies").set_index("inconsistency_id").loc["4.8 per cent is in sample"]
    )
    assert row["value"] == pytest.approx(100 * solved.fun) and row["other_value"] == pytest.approx(
        5.15, abs=0.005
    )
    assert "0.1111, 0.0122 and 4.903" in row["what"]


def test_the_calibration_that_the_study_published_is_in_it(calibration: pd.DataFrame) -> None:
    """Four of the eight stand in a published file, the two that are no extremes in another as they
    were published."""
    runs = store.load("runs")
    published = (
        store.load("transitions").merge(runs, on="run_id").query("definition == 'calibration'")
    )
    published = published[published["measure_version"] == "published"].set_index("model_id")[
        "layer"
    ]
    assert len(published) == 4 and (published == calibration.loc[published.index, "layer"]).all()
    stated = store.load("statements")
    by_nan = stated[
        stated["statistic"] == "L* (max_abs_gradient), 0-based, as published"
    ].set_index("model_id")["value"]
    alike = by_nan.index.intersection(calibration.index)
    assert sorted(alike) == ["EleutherAI/pythia-2.8b", "EleutherAI/pythia-6.9b"]
    assert (by_nan[alike] == calibration.loc[alike, "L_star_calibration_index"]).all()
    noted = stated[stated["source"] == "L_STAR_FORMULA_V3_RESULT.md"]
    of_notes = noted[noted["statistic"] == "L* of calibration, 0-based"].set_index("model_id")[
        "value"
    ]
    assert of_notes.to_dict() == calibration["L_star_calibration_index"].to_dict()


def test_three_phases_fit_the_profile_of_the_five_better(runs: pd.DataFrame) -> None:
    """Fall of BIC from three straight pieces to five, as trying every partition of the profile
    gives it."""
    stated = rows("summaries", runs)[lambda table: table["model_id"] == "EleutherAI/pythia-6.9b"]
    profile = stated[stated["estimand"].str.startswith("intrinsic_dim_ratio_state_")].sort_values(
        "estimand"
    )["value"]
    shares, states = profile.to_numpy(), np.arange(33.0)
    for part, fall in ((slice(0, 33), -27.6), (slice(0, 32), -25.3), (slice(1, 32), -27.5)):
        found = fit_phases(states[part], shares[part])
        assert found[3].bic - found[5].bic == pytest.approx(fall, abs=0.05)


def test_a_curve_without_its_rows_gives_no_gain(runs: pd.DataFrame) -> None:
    features = thermostats.features(source="buk81-lstar-calibration", every=True)
    gains = features[[name for name in features if name.endswith("_gain")]]
    assert len(features) == 8 and gains.isna().all(axis=None)
    found = features.set_index("model_id")["L_star_calibration"].dropna()
    assert found.to_dict() == {
        model: row[3] for model, row in CALIBRATION.items() if row[3] is not None
    }


@pytest.mark.parametrize("licence", ["CC-BY-NC-4.0", "CC-BY-ND-4.0", ""])
def test_a_licence_that_forbids_shipping_is_refused(licence: str, runs: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="does not permit that the rows ship") as caught:
        check_licence(licence, "someone")
    assert caught.value.got == (licence or "none stated") and "MIT" in caught.value.allowed
    with pytest.raises(UsageError, match="does not permit"):
        check_licences(runs.assign(licence=licence))
    check_licences(runs)


def test_a_licence_is_the_one_declared_and_stays_beside_the_rows(tmp_path: Path) -> None:
    declared = provenance.Source("x", "rows", "example.org/x", "abc", "MIT")
    (tmp_path / "LICENSE").write_text("MIT License\n\nCopyright", encoding="utf-8")
    assert make.licence(declared, tmp_path) == b"MIT License\n\nCopyright"
    (tmp_path / "LICENSE").write_text("Creative Commons, no derivatives\n", encoding="utf-8")
    with pytest.raises(DataError, match="not the one declared"):
        make.licence(declared, tmp_path)


def test_a_third_of_an_interleaved_matrix_is_no_value_matrix(runs: pd.DataFrame) -> None:
    weights = rows("weights", runs)
    counted = weights.groupby(["source", "matrix"]).size()
    assert counted["buk81-removed", "W_V"] == 60 and counted["buk81-removed", "W_O"] == 120
    whose = weights.loc[weights["matrix"] == "W_V", "model_id"]
    assert not whose.str.contains("pythia|bloom").any()
    of_o = weights[(weights["matrix"] == "W_O") & weights["model_id"].str.contains("pythia|bloom")]
    assert of_o["model_id"].nunique() == 3


def test_norms_after_the_final_norm_are_no_gain_of_the_last_block(runs: pd.DataFrame) -> None:
    pooled = rows("layers", runs)[lambda table: table["position"] == "all"]
    depth = store.load("models").drop_duplicates("model_id").set_index("model_id")["n_layers"]
    assert (pooled["layer"] < pooled["model_id"].map(depth)).all()
    normed = rows("summaries", runs)[lambda table: table["estimand"] == "normed_gain_all_tokens"]
    assert len(normed) == pooled["run_id"].nunique() == 4
