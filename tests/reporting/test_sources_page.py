"""The page of sources: what its first sentence says, and sources as fitted levels."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables

from thermostats.claims.evidence import POOLED, describe_coincidence
from thermostats.reporting.pages import sources


@pytest.fixture(scope="module")
def page() -> dict[str, bytes]:
    return sources.build_files(shipped_tables())


@pytest.mark.slow
def test_the_first_sentence_says_where_lab_and_source_coincide(page: dict[str, bytes]) -> None:
    pooled = shipped_tables().named(POOLED)
    said = describe_coincidence(pooled, set(pooled.table("features")["model_id"]))
    body = page["sources.md"].decode().split("[All claims](index.md)")[1].strip()
    assert said and body.startswith(said)


@pytest.mark.slow
def test_sources_are_fitted_and_hold_the_plain_differences(page: dict[str, bytes]) -> None:
    levels = pd.read_csv(io.BytesIO(page["levels-of-sources.csv"])).set_index(
        ["gain", "kind", "level"]
    )
    spreads = pd.read_csv(io.BytesIO(page["spreads-of-sources.csv"]))
    assert set(spreads["gain"]) == set(sources.FITTED) and (spreads["status"] == "passed").all()
    assert (spreads["lower"] < spreads["median"]).all() and (
        spreads["median"] < spreads["upper"]
    ).all()
    of_measurements = spreads[~spreads["quantity"].isin(["sd_heritage", "sd_model_id"])]
    assert (of_measurements["by_moments"] <= of_measurements["upper"]).all() and of_measurements[
        "by_moments"
    ].max() > 0
    pairs = pd.read_csv(io.BytesIO(page["gains-by-two-sources.csv"]))
    for gain, kinds in levels.groupby("gain"):
        assert {"source", "prompt_set", "dtype"} == set(kinds.index.get_level_values("kind"))
        apart = np.log(kinds["upper"] / kinds["lower"])
        # what two sources differ by on one model lies in what their levels may be apart
        own = pairs[pairs["gain"] == gain]
        assert (
            len(own)
            and own["log_ratio"].abs().max()
            < apart.loc[:, "source"].max() + apart.loc[:, "prompt_set"].max()
        )


def test_without_models_of_two_sources_nothing_is_fitted() -> None:
    rows = pd.DataFrame(
        {"model_id": ["a", "b"], "source": ["x", "y"], "last_gain": 1.0, "comparable": True}
    )
    assert sources.fit_levels(rows.assign(penultimate_gain=np.nan)) == {}
    assert sources.summarise_spreads({}, {}).empty and sources.list_levels({}).empty
