"""One reading of a user's frame: the same models by prompt, as averages and with stated errors are
the same rows."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.crowding import read_crowding_rows
from thermostats.modelling.kleiber import read_bounded_rows
from thermostats.modelling.model_gains import (
    ErrorModel,
    ModelGains,
    Preference,
    add_moderated_errors,
    fill_known_errors,
    read_model_gains,
)

MODELS, PROMPTS = 8, 6
RNG = np.random.default_rng(3)
FACTS = pd.DataFrame(
    {
        "model_id": [f"m{i}" for i in range(MODELS)],
        "heritage": list("aabbccdd"),
        "n_layers": [6, 12, 12, 24, 24, 32, 36, 48],
        "rho": np.exp(RNG.normal(-1, 0.5, MODELS)),
        "source": "mine",
    }
)
GAINS = np.exp(RNG.normal(0.1, 0.2, (MODELS, 1)) + RNG.normal(0, 0.03, (MODELS, PROMPTS)))
PROMPTED = FACTS.loc[FACTS.index.repeat(PROMPTS)].assign(
    prompt_id=[f"p{k}" for k in range(PROMPTS)] * MODELS, gain=GAINS.ravel()
)
AVERAGED = FACTS.assign(
    gain=GAINS.mean(axis=1), gain_sd=GAINS.std(axis=1, ddof=1), n_prompts=PROMPTS
)
LAWS: dict[str, ErrorModel] = {"known": fill_known_errors, "moderated": add_moderated_errors}


def read(
    table: pd.DataFrame, errors: ErrorModel = fill_known_errors, **options: object
) -> ModelGains:
    return read_model_gains(
        table, "gain", outcome="gain", errors=errors, names=["heritage"], **options
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("errors", LAWS.values(), ids=LAWS)
def test_rows_by_prompt_are_their_mean_log_gain_and_its_spread(errors: ErrorModel) -> None:
    table, logs = read(PROMPTED, errors).table, np.log(GAINS)
    np.testing.assert_allclose(table["log_gain"], logs.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(table["sd"], logs.std(axis=1, ddof=1), rtol=1e-12)
    assert table["n_prompts"].tolist() == [PROMPTS] * MODELS
    assert table["model_id"].tolist() == FACTS["model_id"].tolist()


def test_known_errors_are_those_of_a_mean_of_prompts() -> None:
    by_prompt = read(PROMPTED).table["error"]
    np.testing.assert_allclose(
        by_prompt, np.log(GAINS).std(axis=1, ddof=1) / np.sqrt(PROMPTS), rtol=1e-12
    )
    np.testing.assert_allclose(read(AVERAGED).table["error"], by_prompt, rtol=0.1)


def test_an_average_is_the_mean_of_logs_to_second_order_where_its_law_asks_for_it() -> None:
    exact = np.log(GAINS).mean(axis=1)
    plain, corrected = (read(AVERAGED, errors).table["log_gain"] for errors in LAWS.values())
    np.testing.assert_allclose(plain, np.log(GAINS.mean(axis=1)), rtol=1e-12)
    assert np.abs(corrected - exact).max() < 0.3 * np.abs(plain - exact).max()
    geometric = AVERAGED.assign(gain_geometric=np.exp(exact))
    for errors in LAWS.values():
        np.testing.assert_allclose(read(geometric, errors).table["log_gain"], exact, rtol=1e-12)


def test_a_published_spread_has_the_divisor_n_and_prompts_that_the_set_counts() -> None:
    published = AVERAGED.assign(gain_sd=GAINS.std(axis=1), prompt_set="p").drop(columns="n_prompts")
    counted = read(published, preference=Preference(prompt_counts={"p": PROMPTS})).table
    np.testing.assert_allclose(counted["error"], read(AVERAGED).table["error"], rtol=1e-12)


def test_the_laws_of_depth_and_density_read_spreads_of_a_frame_of_ones_own() -> None:
    """They took the first prompt of every model, and an average as exact."""
    for table in (PROMPTED, AVERAGED):
        wanted = read(table).table
        for rows in (
            read_bounded_rows(table, "gain").table,
            read_crowding_rows(table, "gain").table,
        ):
            np.testing.assert_allclose(rows["log_gain"], wanted["log_gain"], rtol=1e-12)
            np.testing.assert_allclose(rows["error"], wanted["error"], rtol=1e-12)
            assert (rows["error"] > 0).all()


def test_of_several_measurements_that_with_most_prompts_counts_and_another_gain_lends_its_spread() -> (  # noqa: E501
    None
):
    fewer = AVERAGED.assign(gain=9.0, n_prompts=2)
    gains = read(pd.concat([fewer, AVERAGED]), preference=Preference())
    np.testing.assert_allclose(gains.table["log_gain"], np.log(AVERAGED["gain"]))
    assert any(warning.startswith("measured more than once") for warning in gains.warnings)
    lent = AVERAGED.rename(columns={"gain_sd": "other_sd"}).assign(other=2 * AVERAGED["gain"])
    lent["other_sd"] *= 2
    gains = read(lent, preference=Preference(error_from="other"))
    np.testing.assert_allclose(gains.table["error"], read(AVERAGED).table["error"], rtol=1e-12)
    assert f"error of other stands in for that of gain in {MODELS} models" in gains.warnings


def test_models_that_are_pinned_and_rows_without_a_gain_are_left_out_and_named() -> None:
    table = AVERAGED.assign(
        comparable=AVERAGED["model_id"] != "m1", gain=AVERAGED["gain"].where(AVERAGED.index > 0)
    )
    for errors in LAWS.values():
        gains = read(table, errors)
        assert gains.table["model_id"].tolist() == FACTS["model_id"].tolist()[2:]
        assert gains.warnings[:2] == (
            "no gain, left out: 1 of 8 models (m0)",
            "left out, since normalised after the sum: m1 (df.assign(comparable=True) keeps them)",
        )


def test_a_spread_that_is_not_known_is_what_the_law_makes_of_it() -> None:
    table = AVERAGED.assign(gain_sd=AVERAGED["gain_sd"].where(AVERAGED.index > 0))
    known, moderated = (read(table, errors) for errors in LAWS.values())
    assert known.table["error"][0] == known.table["error"][1:].max()
    assert known.warnings == ("error unknown, so the largest of the others is used: m0",)
    assert moderated.warnings == (
        "1 models have a single row: their spread over prompts is that of the others",
    )
    assert moderated.table["error"][0] > moderated.table["error"][1:].max(), (
        "of one value, not of several"
    )


@pytest.mark.parametrize(
    ("table", "errors", "words"),
    [
        (
            pd.concat([PROMPTED, PROMPTED[:1]]),
            fill_known_errors,
            "a prompt twice in one model .m0.",
        ),
        (
            pd.concat([PROMPTED, AVERAGED[:1]]),
            fill_known_errors,
            "a model has an average in addition",
        ),
        (
            AVERAGED.assign(n_prompts=1),
            add_moderated_errors,
            "an average without its spread or number of prompts",
        ),
        (
            AVERAGED.assign(comparable=False),
            fill_known_errors,
            "no row has a gain .*normalised after the sum: m0",
        ),
        (
            PROMPTED.assign(heritage=["b", *PROMPTED["heritage"][1:]]),
            fill_known_errors,
            "a model has two labs",
        ),
    ],
)
def test_rows_that_are_no_one_row_a_model_are_refused(
    table: pd.DataFrame, errors: ErrorModel, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        read(table, errors)
    with pytest.raises(UsageError, match="a model stands in several rows"):
        read(PROMPTED, errors, se=0.1)


def test_gains_of_several_revisions_are_those_of_the_last(tmp_path: Path) -> None:
    """Steps go by their number, not by their text: 70000 comes after 5000 and before main."""
    facts = {"model_id": "own/steps", "heritage": "own", "n_layers": 3, "n_heads": 2}
    sizes = {"d_model": 8, "n_params": 1000, "variant": "base"}
    gains = {"5000": 1.1, "70000": 1.3, "10000": 1.2}
    models = [{**facts, **sizes, "revision": revision} for revision in gains]
    data = tmp_path / "mine"
    thermostats.join(pd.DataFrame(models), data=data)
    layers = []
    for revision, gain in gains.items():
        whose = {"model_id": "own/steps", "revision": revision, "source": "own"}
        for layer in (1, 2, 3):
            row = {"prompt_id": "p", "layer": layer, "gain_block": gain, "position": "last"}
            layers.append({**whose, **row})
    thermostats.join(pd.DataFrame(layers), data=data, accept=True)
    rows = thermostats.gain_rows("last_gain", data=data, source="own")
    assert rows["gain"].tolist() == [1.3]


def test_a_table_of_very_many_columns_is_read_without_a_warning() -> None:
    table = PROMPTED.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.PerformanceWarning)
        for number in range(150):
            table[f"other_{number}"] = float(number)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(table)
