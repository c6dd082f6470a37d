"""Claims put to two sets of evidence by the same test and the same rule, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.verdict import UNMEASURED
from thermostats.claims.views import viewed

PARTS = ("verdict", "estimate", "lower", "upper", "n_models")
"""Fields of a finding that are compared with those on the other set."""


def both_sets(claims: Sequence[Claim], tables: Evidence, sets: tuple[str, str]) -> pd.DataFrame:
    """One row for each question that can be put to either set.

    Columns: claim, title, finding, `PARTS` of the first set, those of the second with `_again`, same (the verdicts),
    settles (what the second still takes). Verdicts are of the primary rule on the rows of a set, without a fit.
    """
    rows = []
    for claim in claims:
        for question in (each for each in claim.questions if each.views):
            empty = Finding(claim=claim.id, estimand=question.name, verdict=UNMEASURED, plain="", id=question.id)
            first, second = (viewed(question, empty, tables.named(name)) for name in sets)
            row = {"claim": claim.id, "title": claim.title, "finding": question.id}
            row |= {name: getattr(first, name) for name in PARTS}
            row |= {f"{name}_again": getattr(second, name) for name in PARTS}
            rows.append(row | {"same": first.verdict == second.verdict, "settles": second.settles})
    return pd.DataFrame(rows)
