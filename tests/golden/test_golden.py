"""Findings of today's code against the frozen ones; all of them by `make golden`."""

import json
from pathlib import Path

import pytest
from golden import HERE, compared

from thermostats.claims.evidence import Evidence
from thermostats.claims.run import run_one
from thermostats.claims.scripts import scripts
from thermostats.tables import store

SCRIPTS = scripts(store.shipped("analyses"))
QUICK, BY_FITS = ("C06", "C07"), ("C09", "N01", "N02")
"""Claims without a fit, and claims of whose estimates some are of a fit."""


def marks(claim: str) -> list[pytest.MarkDecorator]:
    return [] if claim in QUICK else [pytest.mark.slow, *[pytest.mark.long] * (claim not in BY_FITS)]


@pytest.mark.parametrize("claim", [pytest.param(claim, marks=marks(claim)) for claim in SCRIPTS])
def test_findings_are_the_frozen_ones(claim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Posteriors too; curves have `tests/analyses/test_curves.py`, rules alone `tests/analyses/test_frozen.py`."""
    monkeypatch.setattr("thermostats.claims.judge.curve_of", lambda *_: None)
    frozen, allowed = (json.loads((Path(HERE) / f"{name}.json").read_text()) for name in ("findings", "changes"))
    run = run_one(SCRIPTS[claim], Evidence().data)
    assert compared(run, frozen, allowed, 1e-9) == []
    said = " ".join(finding.plain for finding in run.findings).replace(",", " ").replace("[", " ")
    assert not {"nan", "None", "inf"} & set(said.split())


def test_every_frozen_finding_is_of_a_claim_and_every_change_has_a_reason() -> None:
    frozen, allowed = (json.loads((Path(HERE) / f"{name}.json").read_text()) for name in ("findings", "changes"))
    assert {key.split(".")[0] for key in frozen} == set(SCRIPTS)
    assert all(any(reasons.values()) for reasons in allowed.values())
