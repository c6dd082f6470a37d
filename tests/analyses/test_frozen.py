"""Verdicts and estimates of every claim by its rules alone are the frozen ones; with posteriors:
`make golden`."""

import json

import pytest
from altered import shipped_by_rules_alone
from golden import HERE, differing

from thermostats.claims.study import list_scripts
from thermostats.tables import store

BY_FITS = {"C09"}
"""Some of its estimates are of a fit: `tests/golden/test_golden.py`."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "claim",
    [claim for claim in list_scripts(store.find_shipped("analyses")) if claim not in BY_FITS],
)
def test_verdicts_and_estimates_are_the_frozen_ones(claim: str) -> None:
    frozen, allowed = (
        json.loads((HERE / f"{name}.json").read_text()) for name in ("findings", "changes")
    )
    by_rule = {
        key: {name: value for name, value in finding.items() if name != "posterior"}
        for key, finding in frozen.items()
    }
    assert differing(claim, shipped_by_rules_alone(claim.lower()), by_rule, allowed, 1e-9) == []
