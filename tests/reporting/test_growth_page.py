"""The page that weighs claims: each sentence follows the verdict that it links to, and its numbers
are computed."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables

from thermostats.claims.finding import Finding, Sample
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, UNMEASURED, Estimate
from thermostats.claims.study import find_account
from thermostats.studies.delia2026 import growth
from thermostats.studies.delia2026.block_gains import choose_spread_models

SENTENCES = [sentence for part in growth.WORDS["part"] for sentence in part["sentence"]]
ASKED = [sentence for sentence in SENTENCES if "finding" in sentence]
COMPUTED = {
    "guesses": ("family", "lab", "mean", "shape"),
    "norms": ("one", "several"),
    "at_will": ("moved", "unmoved"),
}
MOST_WORDS = 650
"""What stands on one screen of 1280 × 1600."""


def finding(sentence: dict[str, str], verdict: str) -> Finding:
    head = Estimate(0.4321, 0.4009, 0.4703)
    sample = Sample(sentence["evidence"])
    return Finding(
        sentence["finding"],
        "ratio, corpus: one; the strongest",
        verdict,
        "",
        headline=head,
        sample=sample,
    )


def page(verdict: str) -> str:
    return growth.build_files([finding(sentence, verdict) for sentence in ASKED], shipped_tables())[
        "growth.md"
    ].decode()


def test_there_is_a_sentence_for_every_verdict_and_none_has_a_number_typed_in() -> None:
    assert {"H01", "C04", "C21", "C22", "N01", "N02", "N03"} <= set(growth.list_claims())
    for sentence in SENTENCES:
        cases = (
            COMPUTED[sentence["computed"]] if "computed" in sentence else (SUPPORTED, AGAINST, OPEN)
        )
        said = [sentence[case] for case in cases]
        assert len(set(said)) == len(said) and sentence["changes"]
        for words in [*said, sentence["changes"]]:
            typed = re.findall(r"\d+", re.sub(r"\{\{.*?\}\}|(above|below) 1\b", "", words))
            assert typed == [], words


@pytest.mark.parametrize("verdict", [SUPPORTED, AGAINST, OPEN])
def test_each_sentence_is_that_of_its_verdict(verdict: str) -> None:
    text = page(verdict)
    seen = re.sub(r"!\[.*\]\(.*\)", "", text)
    assert len(seen.split()) <= MOST_WORDS
    for sentence in ASKED:
        claim = sentence["finding"][:3]
        [line] = [
            line for line in text.splitlines() if line.startswith(f"- **{sentence['about']}.**")
        ]
        begins = re.split(r"\{\{", sentence[verdict])[0]
        assert line.startswith(f"- **{sentence['about']}.** {begins}")
        assert f"([{claim}]({claim.lower()}/index.md): {verdict})" in line
        assert "*Would change it:*" in line
        assert re.search(r"0\.4|\d\d%", line)
    assert "Not weighed" not in text


def test_what_is_not_there_is_named_and_what_is_not_measured_left_out() -> None:
    findings = [replace(finding(sentence, SUPPORTED), verdict=UNMEASURED) for sentence in ASKED[:1]]
    text = growth.build_files(findings, shipped_tables())["growth.md"].decode()
    assert "**Descent.**" not in text and "[H01](h01/index.md)" in text
    assert re.search(r"this report lacks them: .*C04.*N03", text)
    assert "[C04]" not in text and "](c05/" not in text


def test_the_best_guess_is_that_of_least_error_when_a_model_is_left_out() -> None:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {"heritage": np.repeat(["a", "b", "c"], 6), "family": np.repeat(list("uvwxyz"), 3)}
    )
    rows = rows.assign(
        model_id=[f"m{i}" for i in rows.index],
        n_layers=rng.integers(6, 60, 18),
        d_model=768,
        rho=0.1,
    )
    rows = rows.assign(
        rho=rng.uniform(0.05, 0.4, 18), n_params_nonembedding=rng.uniform(1e7, 1e10, 18)
    )
    levels = dict(zip("uvwxyz", (-0.3, 0.2, 0.0, 0.5, -0.6, 0.1), strict=True))
    by_family = growth.guess_gains(
        rows.assign(log_gain=rows["family"].map(levels) + rng.normal(0, 0.01, 18))
    )
    assert growth.choose_best_guess(by_family)[0] == "family"
    z = np.log(
        np.column_stack(
            [rows["n_layers"] / rows["d_model"], rows["rho"], rows["n_params_nonembedding"]]
        )
    )
    line = rows.assign(log_gain=z @ [0.3, -0.1, 0.02] + rng.normal(0, 0.01, 18))
    guessed = growth.guess_gains(line)
    case, errors = growth.choose_best_guess(guessed)
    assert case == "shape"
    others = []
    for i in range(18):
        left = np.delete(np.arange(18), i)
        x = np.column_stack([np.ones(18), z])
        beta = np.linalg.lstsq(x[left], line["log_gain"].to_numpy()[left], rcond=None)[0]
        others.append(x[i] @ beta)
    np.testing.assert_allclose(guessed["by_shape"], others, rtol=1e-9)
    assert errors["shape"] == pytest.approx(
        np.sqrt(np.mean((np.array(others) - line["log_gain"]) ** 2))
    )
    alone = rows.assign(log_gain=0.0, family=[*rows["family"][:-1], "only"])
    assert len(growth.guess_gains(alone)) == 17


def test_a_report_without_claims_of_the_study_has_no_such_page() -> None:
    assert find_account(["U01", "N01"]) == ""
    assert find_account(["U01", "C04"]).endswith("growth")


def test_the_picture_counts_the_blocks_that_it_says() -> None:
    """Numbers of the caption by another way: sums over models, from the table that lies beside."""
    files = growth.build_files([], shipped_tables())
    blocks = pd.read_csv(io.BytesIO(files["block-gains.csv"]))
    by_model = [
        rows.sort_values("layer")["log_gain"].tolist() for _, rows in blocks.groupby("model_id")
    ]
    above = sum(gain > 0 for gains in by_model for gain in gains)
    shrinking = sum(gains[-1] < 0 for gains in by_model)
    caption = growth.describe_profiles(blocks)
    assert re.findall(r"\d+", caption.replace(",", "").partition(". ")[2])[:4] == [
        str(number) for number in (sum(map(len, by_model)), len(by_model), above, 1)
    ]
    assert f"; {shrinking} models are said" in caption
    assert b"<svg" in files["growth.svg"]


def test_the_picture_shows_the_lowest_and_the_highest_of_deep_models() -> None:
    rows = [
        {
            "model_id": f"{lab}/m",
            "heritage": lab,
            "n_layers": depth,
            "layer": layer,
            "log_gain": last,
        }
        for lab, depth, last in (("a", 12, -1.0), ("b", 12, 0.0), ("c", 24, 2.0), ("d", 5, 9.0))
        for layer in range(2, depth)
    ]
    shown = choose_spread_models(pd.DataFrame(rows), 2)
    assert set(shown["heritage"]) == {"a", "c"}
