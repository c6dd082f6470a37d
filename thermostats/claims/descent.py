"""The tree of descent of a set of evidence, its rows remembered as all that a finding reads."""

from __future__ import annotations

from collections.abc import Sequence

from thermostats.claims.evidence import Evidence
from thermostats.modelling.draws import Array
from thermostats.tables.growing import grown
from thermostats.tables.lineage import joined
from thermostats.tables.tree import Tree


def tree_of(evidence: Evidence, models: Sequence[str]) -> Tree:
    """Root, labs, families, parents and models, of the tables that the evidence hands out."""
    return grown(joined(evidence.table("models"), evidence.table("lineage"))).keep(models)


def covariance_of(evidence: Evidence, models: Sequence[str]) -> Array:
    """K of models in their order: the path from the root that two share, the highest model at 1."""
    return tree_of(evidence, models).covariance(models)
