"""What a claim's questions still need: how far each set of evidence carries them, which models lack which rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import MEASURED, PUBLISHED, Evidence
from thermostats.claims.judge import again
from thermostats.claims.own_models import TABLES
from thermostats.claims.question import Question
from thermostats.claims.verdict import UNMEASURED
from thermostats.next_steps import command
from thermostats.tables.invariants import BALANCED, READ, unread
from thermostats.tables.reading import of_last_revision
from thermostats.tables.vocabulary import NURSERY

BYTES, PROCESS = 4, 600 * 2**20
"""Bytes of a weight in float32, and those of a process without its model."""
PROMPTS, TOKENS = "core", 12
"""Prompts that are measured where nothing else is asked for, and about how many tokens each has."""
LATER = {READ, BALANCED}
"""What rows of older versions lack, so that the model is measured again."""
PRODUCT = 1024
"""Size of the matrix product by which the machine is timed."""


@dataclass(frozen=True)
class Lacking:
    """A model that a claim could read and that lacks rows."""

    model_id: str
    lacks: tuple[str, ...]
    """What was not measured: of `TABLES`, or of `LATER`; `lab` where nobody said who trained it."""
    own: bool
    """Whether it lies in the user's folder."""
    disk: float
    """Bytes of its weights in float32, the most that it downloads."""
    memory: float
    """Bytes that a process takes with it in float32."""
    seconds: float
    """Forward passes over the core prompts at this machine's speed; loading comes on top."""


@dataclass(frozen=True)
class Needs:
    """What one claim still needs."""

    claim: str
    title: str
    sets: tuple[dict[str, Any], ...]
    """How far each set of evidence carries a question: finding, evidence, verdict, models, groups, and where it has no
    verdict what it `needs`, with how many models its rule has a power of 0.8."""
    models: tuple[Lacking, ...]
    commands: tuple[str, ...]
    """Lines that bring the models in, the user's own first."""


def needs(claim: Claim, data: str | Path | None = None) -> Needs:
    """What the questions of a claim still need, computed from the rows at hand; nothing is downloaded.

    Models are those of published rows and the user's own. A claim of mathematics has none.
    """
    evidence = Evidence(data)
    views = [(question, name) for question in claim.questions if question.views for name in question.views.sets]
    sets = tuple(_carried(question, evidence.named(name)) for question, name in views)
    models = _lacking(claim.measures, evidence) if claim.measures else ()
    return Needs(claim.id, claim.title, sets, models, _commands(claim.measures, models, data))


def _carried(question: Question, evidence: Evidence) -> dict[str, Any]:
    finding = again(question, evidence)
    return {
        "finding": question.id,
        "evidence": evidence.name,
        "verdict": finding.verdict,
        "models": finding.sample.n_models,
        "groups": finding.sample.n_groups,
        "needs": finding.criterion.settles * (finding.verdict == UNMEASURED),
    }


def _lacking(measures: Sequence[str], evidence: Evidence) -> tuple[Lacking, ...]:
    published = set(evidence.named(PUBLISHED).table("runs")["model_id"])
    here = evidence.named(MEASURED)
    yours = set(here.table("runs")["model_id"]) - published
    models = of_last_revision(evidence.table("models"), "model_id").drop_duplicates("model_id")
    models = models[models["model_id"].isin(published | yours) & (models["heritage"] != NURSERY)]
    has = {what: set(here.table(TABLES[what])["model_id"]) for what in measures}
    rows = (here.table(name) for name in ("runs", "models", "layers", "weights"))
    again = unread(*rows).groupby("model_id")["lacks"].agg(lambda lacks: tuple(dict.fromkeys(lacks))).to_dict()
    tokens, rate = TOKENS * len(evidence.table("prompts", prompt_set=PROMPTS)), _rate()
    lacking = []
    for row in models.sort_values("n_params").itertuples():
        lacks = tuple(what for what in measures if row.model_id not in has[what]) + ("lab",) * (not row.heritage)
        lacks += again.get(row.model_id, ())
        n = float(row.n_params) if pd.notna(row.n_params) else np.nan
        if lacks:
            costs = (n * BYTES, n * BYTES + PROCESS, 2 * n * tokens / rate)
            lacking.append(Lacking(str(row.model_id), lacks, row.model_id in yours, *costs))
    return tuple(sorted(lacking, key=lambda each: not each.own))


def _rate() -> float:
    """Floating-point operations a second of this machine, by the fastest of three matrix products."""
    a = np.ones((PRODUCT, PRODUCT), dtype=np.float32)
    took = []
    for _ in range(3):
        start = time.perf_counter()
        a @ a
        took.append(time.perf_counter() - start)
    return 2 * PRODUCT**3 / min(took)


def _commands(measures: Sequence[str], models: Sequence[Lacking], data: str | Path | None) -> tuple[str, ...]:
    folder = "mine" if data is None else data
    labless = [model.model_id for model in models if "lab" in model.lacks]
    lines = [command("set", name, "heritage=LAB", data=folder) for name in labless]
    named = [model.model_id for model in models if set(model.lacks) - {"lab", *LATER}]
    if named:
        lines.append(command("measure", *named, what=",".join(measures), data=folder))
    if again := [model.model_id for model in models if not LATER.isdisjoint(model.lacks)]:
        lines.append(command("measure", *again, what="weights,gains", set="older=again", data=folder))
    return tuple(lines)
