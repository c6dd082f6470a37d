"""Findings of today's code against the frozen ones; all of them by `make golden`."""

import json
from pathlib import Path

import pytest
from golden import HERE, agreement, as_frozen, compared, refrozen

from thermostats.claims.finding import read_finding
from thermostats.claims.run import Run, load_claim, run_one
from thermostats.claims.stored import Made
from thermostats.claims.study import list_scripts
from thermostats.tables import store

SCRIPTS = list_scripts(store.find_shipped("analyses"))
QUICK, BY_FITS = ("C06",), ("C07", "C09")
"""A claim without a fit; another, and claims of whose estimates some are of a fit."""


def marks(claim: str) -> list[pytest.MarkDecorator]:
    return (
        [] if claim in QUICK else [pytest.mark.slow, *[pytest.mark.long] * (claim not in BY_FITS)]
    )


@pytest.mark.parametrize("claim", [pytest.param(claim, marks=marks(claim)) for claim in SCRIPTS])
def test_findings_are_the_frozen_ones(claim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Posteriors too; curves have `tests/analyses/test_curves.py`, rules alone
    `tests/analyses/test_frozen.py`."""
    monkeypatch.setattr("thermostats.claims.claim.build_curve", lambda *_: None)
    frozen, allowed = (
        json.loads((Path(HERE) / f"{name}.json").read_text()) for name in ("findings", "changes")
    )
    run = run_one(SCRIPTS[claim], store.find_data_folder())
    assert compared(run, frozen, allowed, 1e-9) == []
    said = " ".join(finding.plain for finding in run.findings).replace(",", " ").replace("[", " ")
    assert not {"nan", "None", "inf"} & set(said.split())


OTHER_THAN_PUBLISHED = {
    "C01.depth.penultimate_gain": {"r of the text", "p of the text"},
    "C02.bound.max_gain": {"total gain ≤"},
    "C03.sign.penultimate_gain": {"others expand, %", "Fisher p <", "mean gain EleutherAI"},
    "C09.error.figure_5": {"error within heritage, % of depth", "error of L/2, % of depth"},
    "C13.accuracy.hunt": {"accuracy without, %"},
    "C16.contraction.absolute": {"L* minimum, from 0", "L* inflection, from 0"},
    "C16.contraction.relative": {"L* minimum, from 0", "L* inflection, from 0"},
    "C17.exponent": {"exponent as claimed"},
}
"""Published figures that the published rows do not give."""


def test_published_figures_agree_but_for_those_that_are_listed() -> None:
    """As frozen: that they are so today is held by `test_findings_are_the_frozen_ones` and
    `test_frozen.py`."""
    frozen = json.loads((Path(HERE) / "findings.json").read_text())
    words = {key: agreement(finding) for key, finding in frozen.items()}
    others = {
        key: {name for name, word in by.items() if word == "does not agree"}
        for key, by in words.items()
    }
    assert {key: names for key, names in others.items() if names} == OTHER_THAN_PUBLISHED
    assert sum(word == "agrees" for by in words.values() for word in by.values()) >= 296


def test_freezing_says_which_verdicts_and_agreements_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    published = {"r": 0.81, "n": 20.0, "slope": 1.0}
    figures = {"published": published, "reproduced": {"r": 0.8099, "n": 19.0}}
    finding = read_finding(
        {"id": "C07.cost", "estimand": "cost", "plain": "So.", "verdict": "supported", **figures}
    )
    run = Run(load_claim(SCRIPTS["C07"]), (Made(finding, b"", (), {}),))
    other = {"C06.late": {"verdict": "supported"}}
    before = as_frozen(finding) | {"verdict": "inconclusive", "reproduced": {"r": 0.9, "n": 20.0}}
    assert refrozen(run, other | {"C07.cost": before}) == other | {"C07.cost": as_frozen(finding)}
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "C07.cost, n: agrees, now does not agree",
        "C07.cost, r: does not agree, now agrees",
        "C07.cost: inconclusive, now supported",
    ]


def test_every_frozen_finding_is_of_a_claim_and_every_change_has_a_reason() -> None:
    frozen, allowed = (
        json.loads((Path(HERE) / f"{name}.json").read_text()) for name in ("findings", "changes")
    )
    assert {key.split(".")[0] for key in frozen} == set(SCRIPTS)
    assert all(any(reasons.values()) for reasons in allowed.values())
