"""The tree of descent of a set of evidence, its rows remembered as all that a finding reads."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.modelling.draws import Array
from thermostats.tables.growing import grown
from thermostats.tables.lineage import joined
from thermostats.tables.tree import Tree


def tree_of(evidence: Evidence, rows: pd.DataFrame) -> Tree:
    """Root, labs, families, parents and the models of rows with model_id, heritage and family.

    Parents are those of the tables; a model that the tables lack hangs on the lab and family of its row.
    """
    known = joined(evidence.table("models"), evidence.table("lineage"))
    lacking = rows.loc[~rows["model_id"].isin(known["model_id"]), ["model_id", "heritage", "family"]]
    if len(lacking):
        known = pd.concat([known, lacking.assign(parent="", kind="")], ignore_index=True)
    return grown(known).keep(rows["model_id"])


def covariance_of(evidence: Evidence, rows: pd.DataFrame) -> Array:
    """K of the models of rows, in their order: the path from the root that two share, the highest model at 1."""
    return tree_of(evidence, rows).covariance(list(rows["model_id"]))
