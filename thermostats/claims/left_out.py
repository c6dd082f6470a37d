"""The user's own models that a question does not read: why, and the line that brings each in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from thermostats.claims.evidence import Evidence
from thermostats.claims.model_rows import SHALLOW
from thermostats.tables.evidence import DECODER
from thermostats.tables.folders import shipped
from thermostats.tables.model_facts import own_models
from thermostats.tables.reading import of_last_revision
from thermostats.words import listed

TABLES = {"gains": "layers", "weights": "weights", "outputs": "outputs", "attention": "attention"}
"""What can be measured, and the table that shows that it was."""


def left_out(claim: str, measures: Sequence[str], used: Collection[str], evidence: Evidence) -> Iterator[str]:
    """One sentence for each own model that is not among those used; `measures`: what the claim reads of a model."""
    if evidence.data.resolve() == shipped("data").resolve():
        return
    own = of_last_revision(own_models(evidence.data), "model_id").drop_duplicates("model_id")
    there, folder = set(evidence.table("models")["model_id"]), evidence.data
    has = {what: set(evidence.table(TABLES[what])["model_id"]) for what in measures} if len(own) else {}
    for row in own[~own["model_id"].isin(used)].sort_values("model_id").itertuples():
        name, lacks = str(row.model_id), [what for what in has if row.model_id not in has[what]]
        if row.modality != DECODER:
            kind = f"it is {'a vision model' if row.modality == 'vision' else 'an encoder'}"
            yield f"{name} is left out: {kind}, and the statement is about decoders; X02 reads this model."
        elif lacks:
            line = f"`thermostats measure {name} --what {','.join(lacks)} --data {folder}`"
            yield f"{name} is left out: it has no {listed(lacks)}. {line} brings it in."
        elif not row.heritage:
            line = f"`thermostats set {name} heritage=LAB --data {folder}`"
            yield f"{name} is left out: the tables name no lab that trained it. {line} brings it in."
        elif row.variant == "instruct" and row.parent in there:
            yield f"{name} is left out: {row.parent}, from which it was tuned, represents it."
        elif row.seed_of:
            yield f"{name} is counted with the other seeds of {row.seed_of}."
        elif row.n_layers <= SHALLOW:
            yield f"{name} is left out: it has {row.n_layers} blocks, none of which is an inner block."
        else:
            yield f"{name} is left out: it has no rows of the quantity in question; see `thermostats needs {claim}`."
