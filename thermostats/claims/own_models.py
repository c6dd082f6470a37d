"""Models of the user's that a question does not read, with the reason, and the noise of seeds among those it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd

from thermostats.claims.evidence import MEASURED, POOLED, SETS, Evidence
from thermostats.claims.question import Question
from thermostats.formatting import listed, with_interval
from thermostats.next_steps import command
from thermostats.tables.evidence_sets import DECODER
from thermostats.tables.folders import shipped
from thermostats.tables.model_rows import SHALLOW, own_models, seed_noise
from thermostats.tables.reading import of_last_revision
from thermostats.tables.schemas import GAINS

TABLES = {"gains": "layers", "weights": "weights", "outputs": "outputs", "attention": "attention"}
"""What can be measured, and the table that shows that it was."""
GAIN = "penultimate_gain"
"""Whose noise is shown where a question is not over gains."""
FACTS = ("family", "d_head", "n_kv_heads", "d_ff", "n_params_nonembedding")
"""Facts of a model that questions read and that a joined row need not state."""


def own_models_missing(claim: str, measures: Sequence[str], used: Collection[str], evidence: Evidence) -> Iterator[str]:
    """One sentence for each own model in the sets `measured` and `pooled` that is not among those used.

    measures: what the claim reads of a model; where that is not stated, there are none.
    """
    if evidence.name not in (MEASURED, POOLED) or not measures or evidence.data.resolve() == shipped("data").resolve():
        return
    models = of_last_revision(own_models(evidence.data), "model_id").drop_duplicates("model_id")
    there, folder = set(evidence.table("models")["model_id"]), evidence.data
    has = {what: set(evidence.table(TABLES[what])["model_id"]) for what in measures} if len(models) else {}
    for row in models[~models["model_id"].isin(used)].sort_values("model_id").itertuples():
        name, lacks = str(row.model_id), [what for what in has if row.model_id not in has[what]]
        if row.modality != DECODER:
            kind = f"it is {'a vision model' if row.modality == 'vision' else 'an encoder'}"
            yield f"{name} is left out: {kind}, and the statement is about decoders; X02 reads this model."
        elif lacks:
            line = command("measure", name, what=",".join(lacks), data=folder)
            yield f"{name} is left out: it has no {listed(lacks)}. `{line}` brings it in."
        elif not row.heritage:
            line = command("set", name, "heritage=LAB", data=folder)
            yield f"{name} is left out: the tables name no lab that trained it. `{line}` brings it in."
        elif row.variant == "instruct" and row.parent in there:
            yield f"{name} is left out: {row.parent}, from which it was tuned, represents it."
        elif row.seed_of:
            yield f"{name} is counted with the other seeds of {row.seed_of}."
        elif row.n_layers <= SHALLOW:
            yield f"{name} is left out: it has {row.n_layers} blocks, none of which is an inner block."
        elif unstated := [label for label in FACTS if pd.isna(getattr(row, label)) or getattr(row, label) == ""]:
            line = command("set", name, *(f"{label}={label.upper()}" for label in unstated), data=folder)
            are = "is" if len(unstated) == 1 else "are"
            yield f"{name} is left out: its {listed(unstated)} {are} not stated. `{line}` brings it in."
        else:
            yield f"{name} is left out: it has no rows of the quantity in question; see `thermostats needs {claim}`."


def noise(question: Question, used: Collection[str], evidence: Evidence) -> tuple[str, ...]:
    """How much of the variance of a gain the causes can have at most, where there are models of several seeds."""
    gain = getattr(question.over, "column", GAIN)
    gain = gain if gain in GAINS else GAIN
    rows = of_last_revision(evidence.table("features").dropna(subset=gain), "model_id").drop_duplicates("model_id")
    of_seeds = seed_noise(rows[rows["model_id"].isin(used) | rows["seed_of"].isin(used)], gain)
    if of_seeds is None:
        return ()
    share = with_interval(of_seeds.ceiling, of_seeds.lower, of_seeds.upper)
    return (
        f"{SETS[evidence.name].capitalize()}: seeds alone change the {gain.replace('_', ' ')} by a factor of "
        f"{np.exp(of_seeds.sd):.2f} (SD), so lab, shape and size together explain at most {share} of its log variance.",
    )
