"""The committed tables of the study: nothing missing without a reason, and the preprint's figures
follow from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thermostats
from thermostats.tables import store

FAMILY = "pythia_family_NO_FINAL_LN_20260105_174820.json"
DATA = Path(__file__).resolve().parents[3] / "data"


def published(name: str) -> pd.DataFrame:
    return store.read_typed(DATA / "published" / f"{name}.csv", name)


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


def gains(family: str, layer_from_end: int) -> pd.Series:
    runs = published("runs").merge(
        store.load("models", DATA)[["model_id", "n_layers"]], on="model_id"
    )
    rows = published("layers").merge(runs, on="run_id")
    rows = rows[rows["source"].str.startswith(family) & (rows["position"] == "last")]
    rows = rows[rows["layer"] == rows["n_layers"] - layer_from_end]
    single = rows[rows["prompt_id"] != ""]
    return (single if len(single) else rows).groupby("model_id")["gain_block"].mean()


def test_the_preprints_figures_follow_from_the_tables() -> None:
    last = gains("thermodynamic_benchmark", 0).round(2)
    assert sorted(last) == [0.80, 1.11, 1.48, 2.31]
    twins = gains("twin_test", 0)
    assert (
        round(twins["google/gemma-7b"], 2) == 2.32 and round(twins["google/gemma-7b-it"], 2) == 1.15
    )
    models = store.load("models", DATA).set_index("model_id")
    family = gains("pythia_family", 1)
    depth = stats.pearsonr(models.loc[family.index, "n_layers"].astype(float), family)
    density = stats.pearsonr(
        (models["n_heads"] / models["d_head"]).loc[family.index].astype(float), family
    )
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
    assert (
        round(means["openai-community/gpt2"]) == 62696 and round(means["facebook/opt-125m"]) == 2368
    )
    models = store.load("models", DATA).set_index("model_id")
    rows = published("layers").merge(runs, on="run_id")
    rows = rows[rows["source"].str.startswith("scaling_law")].set_index("model_id")
    last = rows[rows["layer"] == models.loc[rows.index, "n_layers"]]["gain_mlp"]
    fit = stats.linregress(
        np.log10(models.loc[last.index, "n_params"].astype(float)), np.log10(last)
    )
    assert (round(fit.slope, 3), round(fit.stderr, 3)) == (0.265, 0.079)


def test_what_the_documents_say_of_their_own_evidence_is_held_against_the_tables() -> None:
    rows = published("inconsistencies").set_index("inconsistency_id")
    models, runs = store.load("models", DATA), published("runs")
    own = models[models["model_id"].isin(runs["model_id"])].drop_duplicates("model_id")
    years = own["year"].astype(int)
    assert rows.loc["years", ["value", "other_value"]].tolist() == [years.min(), 2022]
    assert (
        f"{(~years.between(2022, 2024)).sum()} of the {len(own)} models"
        in rows.loc["years", "what"]
    )
    assert (
        rows.loc["GPT-NeoX-20B", "value"]
        == own["model_id"].str.contains("neox", case=False).sum()
        == 0
    )
    features = thermostats.features(evidence="published").dropna(subset="penultimate_gain")
    sequential = (
        own.set_index("model_id").loc[features["model_id"].unique(), "parallel_block"].eq(False)
    )
    assert rows.loc["equation 1", ["value", "other_value"]].tolist() == [
        sequential.sum(),
        len(sequential),
    ]
    gains = features[features["source"] == FAMILY].set_index("model_id")["penultimate_gain"]
    of_pair = [gains[f"EleutherAI/pythia-{size}"] for size in ("160m", "12b")]
    np.testing.assert_allclose(
        rows.loc["160M like 12B", ["value", "other_value"]].astype(float), of_pair, rtol=1e-6
    )
    assert rows.loc["PYTHONHASHSEED", "value"] > 1 and rows.loc["all p below .05", "value"] == 2
    assert (
        "opposite sides of 1" in rows.loc["160M like 12B", "what"] and of_pair[0] > 1 > of_pair[1]
    )
    assert (
        np.isnan(float(rows.loc["time stamps", "value"]))
        and rows.loc["time stamps", "kind"] == "unsupported"
    )


def test_what_the_removed_notes_say_of_the_formula_and_the_phases_is_held_against_them() -> None:
    """Means, shapes and labs of the eight models by hand: (1.6 + 6.3 + 4.6 + 12.5 + 3.1 + 6.3 +
    14.8 + 1.2)/8 = 6.3."""
    rows = published("inconsistencies").set_index("inconsistency_id")
    values = rows[["value", "other_value"]].astype(float)
    assert values.loc["4.8 per cent under its own column"].tolist() == pytest.approx([4.8, 6.3])
    assert (
        "misses the same L* by 5.2 % of depth"
        in rows.loc["4.8 per cent under its own column", "what"]
    )
    assert values.loc["25 per cent of two formulas"].tolist() == pytest.approx(
        [25.217, 25.0], abs=5e-4
    )
    assert values.loc["four labs within a heritage"].tolist() == [4, 1]
    assert values.loc["three constants on five shapes"].tolist() == [5, 3]
    assert "without EleutherAI 2 are left" in rows.loc["three constants on five shapes", "what"]
    for model, both in {
        "EleutherAI/pythia-2.8b": [26, 0],
        "EleutherAI/pythia-6.9b": [21, 4],
    }.items():
        assert values.loc[f"calibration L*: {model}"].tolist() == both
    assert values.loc["five phases behind the final norm"].tolist() == [0.938, 0.095]
    summaries = store.load("summaries", DATA).merge(
        store.load("runs", DATA)[["run_id", "model_id"]], on="run_id"
    )
    profile = summaries[
        summaries["estimand"].isin(["intrinsic_dim_ratio_state_31", "intrinsic_dim_ratio_state_32"])
    ]
    profile = profile[profile["model_id"] == "EleutherAI/pythia-6.9b"].sort_values("estimand")[
        "value"
    ]
    assert profile.round(3).tolist() == [0.938, 0.095]
