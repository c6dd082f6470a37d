"""The advice that ships: `data/next.csv`, made by `scripts/next_models.py`, and whether it is of
the rules, worlds, candidates and rows as they are now."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import pandas as pd

from thermostats.claims.calibration import load_levels
from thermostats.claims.evidence import POOLED, Evidence, hash_rows
from thermostats.claims.planning.candidates import read_candidates
from thermostats.claims.question import Question
from thermostats.next_steps import write_command
from thermostats.tables.folders import ADVICE, find_shipped

VERSION = 3
"""Of what is computed here: whoever changes it raises the number, so that nothing kept counts."""
CHANCES = " With "
"""What the sentence about chances begins with (`NextModels.first_line`)."""
TEXTS = (
    "claim",
    "finding",
    "evidence",
    "at_hand",
    "set",
    "models",
    "out_of_reach",
    "says",
    "made_of",
    "runs",
)
NUMBERS = ("download_gb", "minutes", "rows", "chance", "supported", "against", "declared")
COLUMNS = (*TEXTS[:6], *NUMBERS, *TEXTS[6:])
OWN_SET = "own"
"""The set that is best for one claim alone; others are campaigns, named by their budget."""
MODALITIES = ("", "encoder", "vision")


@cache
def load_advice() -> pd.DataFrame:
    """The table, a row for each claim and set, and one without a claim for each campaign; empty
    where none ships."""
    path = find_shipped("data") / ADVICE
    if not path.is_file():
        return pd.DataFrame(columns=list(COLUMNS))
    texts = dict.fromkeys(TEXTS, str)
    empty = {name: [""] for name in NUMBERS}
    return pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=empty)


@cache
def _hash_shipped_candidates() -> str:
    return hash_rows(read_candidates())


def digest_rule(question: Question, candidates: pd.DataFrame | None = None) -> str:
    """SHA-256 of what advice is made of but rows at hand: the rule with its worlds, its levels in
    them, the candidates, and the version of what is computed.

    candidates: by default those that ship.
    """
    levels = load_levels()
    own = hash_rows(levels[levels["rule"] == question.key].drop(columns="words"))
    listed = _hash_shipped_candidates() if candidates is None else hash_rows(candidates)
    parts = (str(VERSION), question.id, question.digest(), own, listed)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def digest_runs(evidence: Evidence) -> str:
    """SHA-256 of which runs there are of which models: the rows of a run never change."""
    parts = []
    for modality in MODALITIES:
        kind: dict[str, Any] = {"modality": modality} if modality else {}
        runs = evidence.named(POOLED).table("runs", **kind)
        parts.append(hash_rows(runs[["run_id", "model_id"]].sort_values(["run_id"])))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def advise(question: Question) -> str:
    """What the shipped advice says of a question, without how often studies would say so, and the
    command that says more; the command alone where it has none of the question as it is now."""
    advice = load_advice()
    claim, _, name = question.id.partition(".")
    of_claim = advice[advice["claim"] == claim]
    own = of_claim[(of_claim["finding"] == question.id) & (of_claim["set"] == OWN_SET)]
    line = write_command("next", claim, finding=name if len(of_claim) and own.empty else "")
    if own.empty or own["made_of"].iloc[0] != digest_rule(question):
        return f"`{line}` says which models would settle it."
    answer, _, _ = str(own["says"].iloc[0]).partition(CHANCES)
    return f"On all evidence (pooled) `{line}` says: {answer}"
