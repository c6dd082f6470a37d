"""Pairs of base and tuned models: which go together, and what is said of them."""

import numpy as np
import pandas as pd
import pytest
from simulated import pairs_table

from thermostats.errors import UsageError
from thermostats.modelling.pairs import build_pairs, fit_invariance


@pytest.fixture(scope="module")
def table():
    return pairs_table(np.random.default_rng(1), levels=[0.5, 0.3, -0.2], changes=[-0.3, 0.02, 0.4])


@pytest.fixture(scope="module")
def fitted(table):
    return fit_invariance(table, seed=1)


def test_a_tuned_model_goes_with_its_parent_or_with_the_only_base_of_its_family(table):
    rows, warnings = build_pairs(table)
    assert (
        rows["pair"].unique().tolist() == ["b0 → t0", "b1 → t1", "b2 → t2"]
        and rows["related"].all()
    )
    first = np.log(table.loc[table["model_id"].isin(["b0", "t0"]), "value"].to_numpy()).reshape(
        2, -1
    )
    assert (
        pytest.approx(np.stack([first[0], first[1] - first[0]]))
        == rows.loc[rows["pair"] == "b0 → t0", ["base", "change"]].to_numpy().T
    )
    orphan = table.assign(parent=table["parent"].replace("b0", "elsewhere"))
    assert build_pairs(orphan)[0]["pair"].nunique() == 2
    assert build_pairs(orphan)[1][0] == "t0 left out: its parent is not in the table"
    family, words = build_pairs(orphan, only_related=False)
    assert (
        "t0 was not tuned from b0" in words
        and not family.loc[family["pair"] == "b0 → t0", "related"].any()
    )
    assert (
        "all pairs are of one: what tuning does in other labs is not observed"
        in build_pairs(table.assign(heritage="one"))[1]
    )
    assert not warnings


def test_a_base_of_two_pairs_and_one_of_none_are_said(table):
    again = table[table["model_id"] == "t0"]
    noise = np.exp(np.random.default_rng(9).normal(0, 0.05, len(again)))
    lonely = table[table["model_id"] == "b1"].assign(model_id="b9", family="none")
    rows, words = build_pairs(
        pd.concat([table, again.assign(model_id="u0", value=again["value"] * noise), lonely])
    )
    assert rows["pair"].nunique() == 4
    assert "base of several pairs, which are counted as independent: b0" in words
    assert "left out, since no model tuned from it is in the table: b9" in words


def test_bad_tables_are_refused(table):
    base = table["variant"] == "base"
    apart = table["prompt_id"].where(base, "other " + table["prompt_id"])
    by_model = table.groupby("family")["value"].transform(lambda v: np.tile(v.iloc[:25], 2))
    bad = {
        "no pair": [table[base], table[~base]],
        "occurs twice": [pd.concat([table, table])],
        "too few shared prompts": [
            table[table["prompt_id"] < "p02"],
            table.assign(prompt_id=apart),
        ],
        "constant, or follows from the other exactly": [
            *(
                table.assign(value=table["value"].where(base, tuned))
                for tuned in (by_model, 1.1 * by_model, 2.0)
            ),
            table.assign(value=table["value"].where(base, by_model**2)),
            table.assign(value=table["value"].where(~base, 1.5)),
        ],
    }
    for words, tables in bad.items():
        for wrong in tables:
            with pytest.raises(UsageError, match=words):
                build_pairs(wrong)
    with pytest.raises(UsageError, match="margin"):
        fit_invariance(table, margin=1.0, seed=1)


def test_ratios_and_changes_of_sign_are_recovered(fitted):
    pairs = fitted.table("pairs")
    assert fitted.status == "passed"
    assert np.log(pairs["ratio"].to_numpy()) == pytest.approx(
        [-0.3, 0.02, 0.4], abs=4 * 0.05 / 25**0.5
    )
    assert (pairs["ratio_lower"] < pairs["ratio"]).all()
    assert pairs["p_sign_changes"].round(2).tolist() == [0, 0, 1]
    assert pairs["p_within_margin"].round(2).tolist() == [0, 1, 0]
    assert fitted.probabilities["any of these pairs changes sides"] > 0.99
    assert fitted.probabilities["every pair within the margin"] < 0.01
    gate = fitted.check(refits=False)
    assert gate.passes, gate.reasons
    assert "3 pairs: even if none of them had crossed 1, up to" in fitted.warnings[0]


def test_what_so_many_pairs_can_show_and_a_pair_that_was_not_seen(fitted):
    shown = fitted.table("shown").set_index("n_pairs")
    assert shown.loc[3, "here"] and shown.loc[3, "p_seen_at_10%"] == pytest.approx(1 - 0.9**3)
    assert shown.loc[30, "bound_had_none"] == pytest.approx(1 - (1 - fitted.level) ** (1 / 30))
    new = fitted.table("new_pair").set_index("pair")
    prior = new["from_prior_alone"]
    rng = np.random.default_rng(1)
    level, change = rng.normal(size=(2, 10**6)) + abs(rng.normal(size=(2, 10**6))) * rng.normal(
        size=(2, 10**6)
    )
    assert prior["any pair"] == pytest.approx(
        np.mean((level > 0) != (level + change > 0)), abs=0.015
    )
    assert new["p_sign_changes"].between(0, 1).all()
