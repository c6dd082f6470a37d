"""Rows that can hardly be what they say are asked about, by row and cause; whoever insists may join
them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import model, snapshot, table

from thermostats.errors import DataError
from thermostats.tables.join import join

SMALL = "lab/small"
"""The model of the small store: 3 layers, a vocabulary of 10 words."""


def of_run(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"model_id": [SMALL], "source": "mine", "prompt_id": "", **columns})


def layers(*gains: float) -> pd.DataFrame:
    return pd.concat(
        [
            of_run(layer=k, position="last", gain_block=x)
            for k, x in enumerate(gains, 4 - len(gains))
        ]
    )


def summary(estimand: str, value: float) -> pd.DataFrame:
    return of_run(estimand=estimand, value=value)


def peak(**columns: float) -> pd.DataFrame:
    return of_run(definition="peak", trace_variant="unstated", layer=2.0, **columns)


def norms(**columns: float) -> pd.DataFrame:
    return of_run(layer=1, matrix="W_V", head="", **columns).drop(columns="prompt_id")


def other(**columns: Any) -> pd.DataFrame:
    return table("models", {**model("me/x"), "architecture": "mine", "heritage": "Me", **columns})


USUAL = (1.12, 0.97)
DOUBTFUL: list[tuple[str, pd.DataFrame, str]] = [
    ("layers", layers(*(100 * gain for gain in USUAL)), "per cent"),
    ("layers", layers(*(abs(math.log(gain)) for gain in USUAL)), "a logarithm"),
    ("layers", layers(*(1000 * gain for gain in USUAL)), "another unit"),
    ("summaries", summary("penultimate_gain_mean", 112.0), "per cent"),
    ("summaries", summary("last_gain", -5.0), "above 0"),
    ("summaries", summary("penultimate_gain", 0.0), "above 0"),
    ("summaries", summary("gain", 1.1), "nothing reads it"),
    ("summaries", summary("penultimate_gain_sd", -0.1), "standard deviation"),
    ("models", other(n_heads=12, n_kv_heads=8, d_head=1), "key/value heads"),
    ("models", other(d_embed=4), "d_embed"),
    ("models", other(n_params=3, n_params_nonembedding=2), "in thousands or millions"),
    *(
        ("models", other().assign(heritage=lab), "'Lab'")
        for lab in ("Lab ", "LaB", "L ab", "\u00a0Lab")
    ),
    ("weights", norms(spectral_norm=3.0, frobenius_norm=2.0), "Frobenius"),
    ("outputs", of_run(entropy=math.log2(10)), "in bits"),
    ("transitions", peak(relative_depth=50.0), "per cent"),
]


@pytest.mark.parametrize(("name", "rows", "cause"), DOUBTFUL)
def test_what_is_doubtful_is_asked_about_once_and_joined_by_whoever_insists(
    name: str, rows: pd.DataFrame, cause: str, small_store: Path
) -> None:
    before = snapshot(small_store)
    with pytest.raises(DataError, match="hardly what they say") as caught:
        join(rows, table=name, data=small_store)
    assert (
        any(cause in doubt for doubt in caught.value.rows) and "--accept" in caught.value.next_step
    )
    assert (
        name == "models"
        or cause == "nothing reads it"
        or all(SMALL in doubt for doubt in caught.value.rows)
    )
    assert snapshot(small_store) == before
    assert sum(done.added for done in join(rows, table=name, data=small_store, accept=True)) >= len(
        rows
    )
    assert sum(done.added + done.replaced for done in join(rows, table=name, data=small_store)) == 0


FAIR = [("layers", layers(*USUAL)), ("summaries", summary("last_gain", 1.2)), ("models", other())]
FAIR += [
    ("transitions", peak(relative_depth=2 / 3)),
    ("models", other(architecture="albert", d_embed=4)),
]


@pytest.mark.parametrize(("name", "rows"), FAIR)
def test_what_is_usual_is_taken_as_it_is(name: str, rows: pd.DataFrame, small_store: Path) -> None:
    assert join(rows, table=name, data=small_store)[-1].added == len(rows)


def test_a_dry_run_counts_and_writes_nothing(small_store: Path) -> None:
    before = snapshot(small_store)
    done = join(layers(*USUAL), table="layers", data=small_store, dry_run=True)
    assert [(each.table, each.added) for each in done] == [("runs", 1), ("layers", 2)]
    with pytest.raises(DataError, match="hardly"):
        join(layers(120.0), table="layers", data=small_store, dry_run=True)
    assert snapshot(small_store) == before
