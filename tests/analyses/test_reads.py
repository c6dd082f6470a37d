"""Whose rows a claim says it reads are those that it read when the report was built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from thermostats.reporting.runner import claims

from thermostats.tables.schemas import TABLES
from thermostats.tables.vocabulary import NURSERY

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "reports" / "manifest.json"
RECORDS = json.loads(MANIFEST.read_text()) if MANIFEST.is_file() else {}
pytestmark = pytest.mark.skipif(not RECORDS, reason="make report writes which rows each claim read")
OF_RUNS = {"runs", "features", *(name for name in TABLES if "run_id" in TABLES[name].columns)}
CLAIMS = {claim.id: claim.rows for claim in claims(ROOT / "analyses")}


def read(claim: str) -> list[set[str]]:
    """Sources of every selection of measurements that an analysis asked for; none named: all but the nursery's."""
    asked = [json.loads(selection) for selection in RECORDS[claim]["selections"]]
    sources = [equals.get("source", []) for name, equals in asked if name in OF_RUNS]
    return [{named} if isinstance(named, str) else set(named) for named in sources]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_says_whose_rows_it_reads(claim: str) -> None:
    sources = read(claim)
    anyone_s = any(not named or "thermostats" in named for named in sources)
    if claim.startswith("N"):
        assert CLAIMS[claim] == NURSERY
        assert {NURSERY} in sources and not anyone_s
    else:
        assert CLAIMS[claim] == ("study and measured" if anyone_s else "study")
