"""Published figures against measured ones: what agrees within error, what does not, and why."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from conftest import model, run, table

from thermostats.tables.agreement import BEYOND, COLUMNS, UNTOLD, WITHIN, compared, limits

STUDY = "study.json"
L = 4
EXPLAINED = (
    ("wv_norm", "wv_norm_thirds", "wrong slices"),
    ("penultimate_gain", "last_gain", "one block off"),
    ("penultimate_gain", "gain_two_before_last", "two blocks off"),
    ("normed_gain", "last_gain", "no final norm"),
)
PROMPTS = [f"p{i}" for i in range(6)]


def gains(of: dict[str, object], *by_layer: float, spread: float = 0.01, seed: int = 1) -> list[dict[str, object]]:
    """Rows of `layers`: gains of the blocks, varied a little over prompts."""
    noise = np.random.default_rng(seed).normal(0, spread, len(PROMPTS))
    return [
        {"run_id": of["run_id"], "layer": i, "prompt_id": p, "position": "last", "gain_block": gain * math.exp(e)}
        for i, gain in enumerate(by_layer, 1)
        for p, e in zip(PROMPTS, noise, strict=True)
    ]


def norms(of: dict[str, object], **by_matrix: float) -> list[dict[str, object]]:
    return [
        {"run_id": of["run_id"], "layer": 1, "matrix": name, "head": "", "spectral_norm": norm}
        for name, norm in by_matrix.items()
    ]


def tables(*runs: dict[str, object], **rows: list[dict[str, object]]) -> dict[str, pd.DataFrame]:
    names = ("layers", "summaries", "outputs", "transitions", "weights")
    prompts = [{"prompt_set": name, "prompt_id": p, "category": "x"} for name in ("two", "ours") for p in PROMPTS]
    return {
        "runs": table("runs", *runs),
        "models": table("models", model(n_layers=L)),
        "prompts": table("prompts", *prompts),
        **{name: table(name, *rows.get(name, [])) for name in names},
    }


PUBLISHED, MEASURED = run(source=STUDY, measure_version="published"), run()


def row(found: pd.DataFrame, quantity: str) -> pd.Series:
    (one,) = (each for _, each in found[found["quantity"] == quantity].iterrows())
    return one


def test_the_same_prompts_are_compared_in_pairs_and_what_precision_may_do_is_no_difference() -> None:
    there = gains(PUBLISHED, 9.0, 1.5, 1.2, 0.5, spread=0.3)
    here = [{**each, "run_id": MEASURED["run_id"], "gain_block": each["gain_block"] * 1.0005} for each in there]
    found = compared(tables(PUBLISHED, MEASURED, layers=there + here), {STUDY}, EXPLAINED)
    last = row(found, "last_gain")
    assert (last["agrees"], bool(last["same_prompts"])) == (WITHIN, True)
    assert last["log_ratio"] == pytest.approx(math.log(1.0005))
    assert last["error"] == pytest.approx(math.log1p(1e-3), rel=1e-6)  # no spread of the pairs: precision alone
    assert last["lower"] < last["value"] < last["upper"]


def test_what_is_a_block_off_is_said() -> None:
    there, here = gains(PUBLISHED, 9.0, 1.5, 1.2, 0.5), gains(MEASURED, 9.0, 1.5, 0.5, 2.0)
    found = row(compared(tables(PUBLISHED, MEASURED, layers=there + here), {STUDY}, EXPLAINED), "penultimate_gain")
    assert (found["agrees"], found["why"]) == (BEYOND, "not explained")
    here = gains(MEASURED, 9.0, 1.2, 1.5, 0.5)
    found = row(compared(tables(PUBLISHED, MEASURED, layers=there + here), {STUDY}, EXPLAINED), "penultimate_gain")
    assert (found["agrees"], found["why"]) == (BEYOND, "two blocks off")


def test_thirds_that_were_called_a_matrix_are_held_against_the_matrix() -> None:
    rows = norms(PUBLISHED, W_V_published_thirds=9.0) + norms(MEASURED, W_V=3.0, W_V_published_thirds=9.0, W_O=1.0)
    found = row(compared(tables(PUBLISHED, MEASURED, weights=rows), {STUDY}, EXPLAINED), "wv_norm")
    assert (found["value"], found["measured"], found["agrees"], found["why"]) == (9.0, 3.0, BEYOND, "wrong slices")


def test_a_precision_is_a_reason_and_the_nearest_run_is_compared_with() -> None:
    half = run(dtype="float16")
    published = run(source=STUDY, measure_version="published", dtype="float16")
    there, full = gains(published, 9.0, 1.5, 1.2, 0.5), gains(MEASURED, 9.0, 1.5, 1.2, 0.7)
    both = [*there, *full, *gains(half, 9.0, 1.5, 1.2, 0.5)]
    found = row(compared(tables(published, MEASURED, half, layers=both), {STUDY}, EXPLAINED), "last_gain")
    assert (found["measured_dtype"], found["agrees"]) == ("float16", WITHIN)
    both = [*gains(PUBLISHED, 9.0, 1.5, 1.2, 0.5), *full, *gains(half, 9.0, 1.5, 1.2, 0.5)]
    found = row(compared(tables(PUBLISHED, MEASURED, half, layers=both), {STUDY}, EXPLAINED), "last_gain")
    assert (found["measured_dtype"], found["agrees"]) == ("float32", BEYOND)
    assert found["why"].startswith("precision: it agrees with the measurement in float16")


def test_on_other_prompts_both_spreads_count_and_without_one_nothing_is_said() -> None:
    ours = run(prompt_set="ours", prompt_sha="1" * 64)
    there, here = gains(PUBLISHED, 9.0, 1.5, 1.2, 0.5, spread=0.4), gains(ours, 9.0, 1.5, 1.2, 0.6, spread=0.4, seed=2)
    found = row(compared(tables(PUBLISHED, ours, layers=there + here), {STUDY}, EXPLAINED), "last_gain")
    assert (found["agrees"], found["same_prompts"]) == (WITHIN, False)
    stated = [{"run_id": PUBLISHED["run_id"], "prompt_id": "", "estimand": "last_gain_mean", "value": 0.5}]
    found = row(compared(tables(PUBLISHED, ours, layers=here, summaries=stated), {STUDY}, EXPLAINED), "last_gain")
    assert found["agrees"] == UNTOLD and math.isnan(found["error"])
    normed = [
        {**stated[0], "estimand": name, "value": v} for name, v in (("normed_gain", 0.5), ("normed_gain_sd", 0.1))
    ]
    ownn = [
        {**stated[0], "run_id": ours["run_id"], "prompt_id": p, "estimand": "normed_gain", "value": 5.0}
        for p in PROMPTS
    ]
    found = row(compared(tables(PUBLISHED, ours, summaries=normed + ownn), {STUDY}, EXPLAINED), "normed_gain")
    assert found["agrees"] == BEYOND


def test_limits_of_agreement_are_those_of_the_log_ratios() -> None:
    ratios = [0.9, 1.0, 1.3]
    rows = pd.DataFrame(
        {
            "quantity": "last_gain",
            "model_id": ["a", "b", "c"],
            "log_ratio": np.log(ratios),
            "agrees": [WITHIN, BEYOND, UNTOLD],
        }
    )
    (found,) = limits(rows).to_dict("records")
    mean, s = np.log(ratios).mean(), np.log(ratios).std(ddof=1)
    assert found["mean_ratio"] == pytest.approx(math.exp(mean))
    assert found["limit_above"] == pytest.approx(math.exp(mean + 1.96 * s))
    assert (found["within"], found["beyond"], found["unknown"]) == (1, 1, 1)


def test_without_anything_measured_there_is_no_row() -> None:
    found = compared(tables(PUBLISHED, layers=gains(PUBLISHED, 9.0, 1.5, 1.2, 0.5)), {STUDY}, EXPLAINED)
    assert list(found) == list(COLUMNS) and found.empty
