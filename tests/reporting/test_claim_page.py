"""The page of one claim from a finding made by hand: long comparisons are folded, groups have their name."""

from __future__ import annotations

import re

import pytest

from thermostats.claims.claim import Claim
from thermostats.claims.finding import Finding
from thermostats.reporting.pages.claim import claim_files
from thermostats.reporting.render import Page, html

CLAIM = Claim(id="C01", title="A claim", said="So.", estimand="mean", rule="Above 0.", source="here")
MADE_OF = {"inputs": "0" * 64, "script": "1" * 64, "code": "2" * 64, "selections": 1, "machine": {"python": "3"}}


def pages(figures: int, wrong: int, **fields: str) -> tuple[str, str]:
    published = {f"figure {i}": 1.0 for i in range(figures)}
    reproduced = {name: 2.0 if i < wrong else 1.0 for i, name in enumerate(published)}
    finding = Finding(
        claim="C01",
        estimand="mean",
        verdict="supported",
        plain="It is.",
        published=published,
        reproduced=reproduced,
        n_models=3,
        n_heritages=2,
        **fields,  # type: ignore[arg-type]
    )
    found = claim_files(CLAIM, [finding], {}, {}, "c01.py", MADE_OF)
    text = found["c01/index.md"].decode()
    return html(Page("c01/index.html", text), lambda name: found[name], pages={}, whole=False).decode(), text


@pytest.mark.parametrize(("figures", "wrong", "open_rows"), [(12, 2, 12), (13, 2, 2), (13, 0, 0)])
def test_long_comparisons_show_what_does_not_agree_and_fold_the_rest(figures: int, wrong: int, open_rows: int) -> None:
    page, _ = pages(figures, wrong)
    shown = page.partition("<details")[0]
    assert len(re.findall(r"<td>figure \d+", shown)) == open_rows
    assert len(set(re.findall(r"<td>(figure \d+)", page))) == figures
    assert (f"{figures - wrong} of {figures} figures agree" in page) is (figures > 12)


@pytest.mark.parametrize(
    ("fields", "named"), [({}, "3 models of 2 labs"), ({"group": "recipe"}, "3 models of 2 recipes")]
)
def test_groups_are_named(fields: dict[str, str], named: str) -> None:
    assert all(named in page for page in pages(1, 0, **fields))
