"""The page's figures on weight decay are those of the models trained with it and without it, and of
real weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "properties.md"
HEADER = "| recipe | at the start | without decay | with decay |"


@pytest.fixture(scope="module")
def pairs() -> pd.DataFrame:
    """The file's heads, how far V and O are apart, of which pair of models and when."""
    rows = pd.read_csv(ROOT / "data" / "nursery" / "second" / "balance.csv")
    return rows.assign(
        apart=np.log(rows["wv_norm"] / rows["wo_norm"]).abs(),
        recipe=rows["model"].str.split("-").str[0] + ", " + rows["optimiser"],
        shape=rows["model"].str.split("-").str[-1],
        when=np.where(rows["step"] == 0, "start", np.where(rows["decay"] > 0, "with", "without")),
    )


def text() -> str:
    """The page without its line breaks."""
    return " ".join(PAGE.read_text(encoding="utf-8").split())


def test_the_table_is_that_of_the_pairs(pairs: pd.DataFrame) -> None:
    means = pairs.groupby(["recipe", "when"])["apart"].mean().unstack()
    expected = [
        [recipe, *(f"{mean:.2f}" for mean in row)]
        for recipe, row in means[["start", "without", "with"]].iterrows()
    ]
    table = PAGE.read_text(encoding="utf-8").split(HEADER)[1].split("\n\n")[0]
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]
    assert shown == expected


def test_the_count_of_pairs_is_that_of_the_file(pairs: pd.DataFrame) -> None:
    means = pairs.groupby(["recipe", "shape", "when"])["apart"].mean().unstack()
    smaller = (means["with"] < means["without"]).sum()
    assert f"is smaller with decay in {smaller} of {len(means)} pairs of models" in text()


def test_the_sentence_on_real_models_is_that_of_their_weights() -> None:
    heads = thermostats.load("weights").query("head != '' and matrix in ['W_V', 'W_O']")
    heads = heads.merge(thermostats.load("runs")[["run_id", "model_id"]])
    heads = heads[~heads["model_id"].str.startswith("nursery/")]
    norms = heads.pivot_table(
        index=["model_id", "layer", "head"], columns="matrix", values="frobenius_norm"
    )
    means = np.log(norms["W_V"] / norms["W_O"]).abs().groupby("model_id").mean()
    sentence = (
        f"In the {len(means)} real models at hand it is {means.min():.2f} ({means.idxmin()}) to "
        f"{means.max():.2f} ({means.idxmax()})"
    )
    assert sentence in text()
