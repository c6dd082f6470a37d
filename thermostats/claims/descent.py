"""The tree of descent of a set of evidence and what models have from their ancestors, rows remembered as all are."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.modelling.draws import Array
from thermostats.tables.lineage import joined
from thermostats.tables.tree import Tree
from thermostats.tables.tree_of_models import grown

CARRIED = ("tokenizer", "corpus")
"""What a tuned model has from the one it was tuned from."""


def tree_of(evidence: Evidence, rows: pd.DataFrame) -> Tree:
    """Root, labs, families, parents and the models of rows with model_id, heritage and family.

    Parents are those of the tables; a model that the tables lack hangs on the lab and family of its row.
    """
    lineage = joined(evidence.table("models"), evidence.table("lineage"))
    lacking = rows.loc[~rows["model_id"].isin(lineage["model_id"]), ["model_id", "heritage", "family"]]
    if len(lacking):
        lineage = pd.concat([lineage, lacking.assign(parent="", kind="")], ignore_index=True)
    return grown(lineage).keep(rows["model_id"])


def covariance_of(evidence: Evidence, rows: pd.DataFrame) -> Array:
    """K of the models of rows, in their order: the path from the root that two share, the highest model at 1."""
    return tree_of(evidence, rows).covariance(list(rows["model_id"]))


def inherited(evidence: Evidence, models: Iterable[str]) -> pd.DataFrame:
    """What models have from their ancestors by weights: tokenizer, corpus, a row a model.

    tokenizer, corpus: of the nearest that states it, as tuning keeps the tokenizer and most of what training has left,
    empty where none does.
    """
    table = evidence.table("lineage").drop_duplicates("model_id").set_index("model_id")
    facts = {name: table[name].fillna("").to_dict() for name in ("parent", *CARRIED)}
    rows = []
    for model in models:
        line = [model]
        while (parent := facts["parent"].get(line[-1], "")) and parent not in line:
            line.append(parent)
        rows.append([next(filter(None, (facts[name].get(each) for each in line)), "") for name in CARRIED])
    return pd.DataFrame(rows, columns=list(CARRIED), dtype=object)
