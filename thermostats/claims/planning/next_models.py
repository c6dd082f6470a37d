"""Which public models to measure next for a claim, what they cost, and what verdict they would
bring.

Rows that candidates would add are those that the claim's own selection takes from tables in which
they were measured (`planning.candidates`). Sets of them are sought by the closed-form variance of
the effect in the claim's own worlds (`planning.contrast`, `planning.search`); the best three are
judged by the claim's own rule in simulated studies (`planning.scoring`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.judge import weigh
from thermostats.claims.levels import SIDES, WANTED
from thermostats.claims.planning.candidates import (
    MEASURED_TABLES,
    planned_evidence,
    planned_tables,
    read_candidates,
)
from thermostats.claims.planning.contrast import contrast_of
from thermostats.claims.planning.scoring import Looks, Verdicts, verdicts_on
from thermostats.claims.planning.search import Budget, Chosen, Pool, SetSearch
from thermostats.claims.question import Question, convert_numpy
from thermostats.claims.result import SUPPORTED, TooFew
from thermostats.claims.run import load_claim, minutes_of
from thermostats.claims.study import choose_claims, list_scripts
from thermostats.errors import UsageError
from thermostats.formatting import format_count, format_number, format_percent, strip_owner
from thermostats.next_steps import write_command
from thermostats.tables.choices import DECODER
from thermostats.tables.folders import find_shipped

GIGABYTES, MODELS = 60.0, 6
"""What a study to come takes at most where nothing else is said."""
SETS = 3
"""Sets that are judged by the claim's rule."""
OF_GROUP = 3
"""Models of one group that are tried together."""
PAIR = "pair"
PAIRED = ("model_id", "instruct", "parent")
"""What a larger study has more of where rows are pairs, and the columns that name their models."""
OTHER_PROMPTS = (
    "the claim reads models that met the same prompts, and most of those at hand met others than "
    "are measured by default, so these models would not be among its rows"
)
CELL = ("n_layers", "n_heads", "d_model")


@dataclass(frozen=True)
class NextModel:
    """One model of a set."""

    model_id: str
    download_gb: float
    minutes: float
    """Of the forward passes over the core prompts at this machine's speed."""
    gated: str
    """`yes`, `no`, or `not stated`."""
    adds: str
    """What the rows at hand lack and it has."""


@dataclass(frozen=True)
class NextSet:
    """Models to measure, and what they would show."""

    models: tuple[NextModel, ...]
    rows: int
    """Rows that the claim would read with them."""
    narrower: float
    """Share by which the interval of the effect gets narrower, in closed form; NaN where the rows
    at hand have none."""
    width: tuple[float, float]
    """Width of the interval of the headline at hand, and about with them; NaN where it has
    none."""
    verdicts: Verdicts | None
    """None where the rows would still be too few for the test."""
    why: str = ""
    """Why there are none."""

    @property
    def download_gb(self) -> float:
        """10⁹ bytes of all."""
        return sum(model.download_gb for model in self.models)

    @property
    def minutes(self) -> float:
        """Minutes of all."""
        return sum(model.minutes for model in self.models)


@dataclass(frozen=True)
class NextModels:
    """The advice for one claim."""

    claim: str
    finding: str
    evidence: str
    rows: int
    """Rows at hand."""
    entering: int
    """Candidates whose rows the claim would read."""
    budget: Budget
    looks: Looks
    sets: tuple[NextSet, ...]
    """The best first."""
    why: str = ""
    """Why there is no set, in a sentence."""
    line: str = ""
    """The command that measures the best set."""
    verdict: str = ""
    """Of the rows at hand, by the report's rule; empty where they do not carry the test."""

    @property
    def first_line(self) -> str:
        """What it comes to, in a sentence."""
        if not self.sets:
            return f"{self.claim}: {self.why}"
        best = self.sets[0]
        what = f"{format_count(len(best.models), 'model')} ({best.download_gb:.3g} GB)"
        if best.verdicts is None:
            return f"No {self._most} settle this: {best.why or 'the rows do not carry the test'}."
        found = best.verdicts
        declared = (
            f"{format_percent(found.declared)} if {self.claim} is true at the size that it states"
        )
        if self.verdict in SIDES:
            kept = format_percent(found.predicted.get(self.verdict, math.nan))
            return (
                f"The rows at hand decide this: {self.verdict}; with {what} it stays so in {kept}."
            )
        ahead = f"P(verdict) {format_percent(found.decided)} given the rows at hand"
        if math.isnan(found.decided):
            ahead = "the rows at hand do not say how large the effect is"
        if self.settled:
            return f"{what} would settle this: {ahead}, {declared}."
        return f"No {self._most} settle this: of {what}, the best found, {ahead}, {declared}."

    @property
    def settled(self) -> bool:
        """Whether the best set mostly brings a verdict: given the rows at hand, or where they do
        not say how large the effect is, at the size that the claim states."""
        best = self.sets[0].verdicts if self.sets else None
        if best is None:
            return False
        return (best.declared if math.isnan(best.decided) else best.decided) >= WANTED

    @property
    def _most(self) -> str:
        within = f" within {self.budget.gigabytes:g} GB"
        return f"{format_count(self.budget.models, 'model')}{within}"


def next_models(
    claim: str,
    *,
    budget: float = GIGABYTES,
    models: int = MODELS,
    candidates: str | Path | None = None,
    looks: int = 2,
    taken: int = 1,
    finding: str = "",
    data: str | Path | None = None,
    analyses: str | Path | None = None,
    seed: int = 1,
) -> NextModels:
    """Public models to measure next for a claim: the three best sets within a budget, by what they
    would tell of its effect.

    I(S) = x'Px of the rows at hand and those of S in the claim's own worlds (of a claim about
    variances that of the covariance) orders sets; a verdict's probability is simulated with the
    claim's rule, its level and α*, once with the effect drawn from its posterior given the rows at
    hand, and once at the size that the claim states. A look at the verdict has the level .05/L.

    claim: its id. budget: 10⁹ bytes of downloads. models: how many at most. candidates: a CSV file
    of one's own, by default `data/candidates.csv`. looks, taken: L, how often the verdict is asked
    for in all, at most five, and how often it was already; the rows at hand are one. finding: as
    for `power`.

    Raises UsageError for an unknown claim or finding, a budget that no candidate fits, candidates
    without shape, and more looks than declared.
    """
    asked = Looks(looks, taken)
    within = Budget(float(budget), int(models))
    paths = list_scripts(analyses if analyses is not None else find_shipped("analyses"))
    (name,) = choose_claims([claim], paths)
    pool = read_candidates(candidates)
    return plan_claim(load_claim(paths[name]), Evidence(data), pool, within, asked, finding, seed)


def plan_claim(
    claim: Claim,
    evidence: Evidence,
    candidates: pd.DataFrame,
    budget: Budget,
    looks: Looks,
    finding: str = "",
    seed: int = 1,
) -> NextModels:
    """The advice for a claim of some rows at hand; see `next_models`."""
    asked = asked_question(claim, finding)
    if asked is None:
        why = "no question of it is put to measured models, so none can settle it."
        return NextModels(claim.id, "", "", 0, 0, budget, looks, (), why)
    question, where = asked
    empty = NextModels(claim.id, question.id, where, 0, 0, budget, looks, ())
    here = evidence.named(where)
    at_hand, why = read_rows(question, here)
    empty = replace(empty, rows=len(at_hand), verdict=_verdict(question, here, at_hand))
    if not question.require_trial()[1].larger:
        why = "what it asks about can be set at will while a model's outputs stay the same, so no"
        return replace(empty, why=f"{why} number of models settles it as a cause.")
    pool = leave_held_out(candidates, evidence)
    if pool.empty:
        raise UsageError(
            "no candidate is left to measure",
            got="all are at hand",
            next_step=write_command("needs", claim.id),
        )
    fits = pool["download_gb"] <= budget.gigabytes
    if budget.models < 1 or not fits.any():
        least = pool.loc[pool["download_gb"].idxmin()]
        raise UsageError(
            "no candidate fits the budget",
            where="--budget",
            got=f"{budget.gigabytes:g} GB and {budget.models} models",
            allowed=f"{least['download_gb']:.2g} GB or more, the size of {least['model_id']}",
            next_step=write_command("next", claim.id, budget="10GB"),
        )
    measures = [kind for kind in claim.basis.measures if kind in MEASURED_TABLES]
    if not measures:
        return replace(empty, why="it reads nothing that is measured on public models.")
    tables = planned_tables(pool[fits].reset_index(drop=True), evidence, measures)
    planned = planned_evidence(here, tables, set(pool["model_id"]))
    return _planned(question, here, at_hand, pool, planned, tables, (empty, measures, seed))


def plan_all(
    budget: float = GIGABYTES,
    models: int = MODELS,
    *,
    candidates: str | Path | None = None,
    looks: int = 2,
    taken: int = 1,
    data: str | Path | None = None,
    analyses: str | Path | None = None,
) -> Iterator[NextModels]:
    """The advice for every claim that reads measured models, one after the other; see
    `next_models`."""
    asked = Looks(looks, taken)
    within = Budget(float(budget), int(models))
    paths = list_scripts(analyses if analyses is not None else find_shipped("analyses"))
    pool = read_candidates(candidates)
    for path in paths.values():
        claim = load_claim(path)
        if asked_question(claim) is not None:
            yield plan_claim(claim, Evidence(data), pool, within, asked)


def campaign(advice: Sequence[NextModels], budget: float) -> tuple[list[NextModels], list[str]]:
    """Claims whose sets together fit a budget, the smallest first, and the models of these
    sets.

    Claims that the rows at hand decide, and sets that would mostly leave a claim open, are passed
    over.
    """
    open_ones = [each for each in advice if each.settled and each.verdict not in SIDES]
    open_ones.sort(key=lambda each: each.sets[0].download_gb)
    taken: dict[str, float] = {}
    served = []
    for each in open_ones:
        more = {model.model_id: model.download_gb for model in each.sets[0].models} | taken
        if sum(more.values()) <= budget:
            taken = more
            served.append(each)
    return served, sorted(taken)


def asked_question(claim: Claim, finding: str = "") -> tuple[Question, str] | None:
    """The finding that is asked about, and the set of evidence that new models enter; None where
    no question of the claim reads measured models.

    Raises UsageError for a finding that is not there.
    """
    found = [(each, each.growing_set) for each in claim.questions if each.growing_set]
    if not finding:
        return found[0] if found else None
    for question, where in found:
        if finding in (question.id, question.id.partition(".")[2]):
            return question, where
    raise UsageError(
        "no such finding that reads measured models",
        got=finding,
        allowed=", ".join(q.id.partition(".")[2] for q, _ in found) or "none",
        next_step=write_command("next", claim.id),
    )


def read_rows(question: Question, evidence: Evidence) -> tuple[pd.DataFrame, str]:
    """Rows of a question, none where there are too few, and then why."""
    try:
        return convert_numpy(question.require_trial()[1].read_rows(evidence, question.over)), ""
    except TooFew as few:
        return pd.DataFrame({"model_id": []}), str(few)
    except UsageError as error:
        return pd.DataFrame({"model_id": []}), error.what


def _verdict(question: Question, evidence: Evidence, rows: pd.DataFrame) -> str:
    """What the rows at hand say; empty where they are too few."""
    try:
        if question.views is not None:
            rows = question.views.check_rows(rows)
        result = question.require_trial()[1].test(rows)
    except (TooFew, UsageError, KeyError):
        return ""
    return str(weigh(question, evidence, result, rows, question.views).verdict)


def leave_held_out(candidates: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """Candidates of which no set of evidence has a run."""
    known = [candidates]
    for modality in sorted(set(candidates["modality"])):
        kind = {} if modality == DECODER else {"modality": modality}
        held = set(evidence.named(POOLED).table("runs", **kind)["model_id"])
        known.append(known[-1][~known[-1]["model_id"].isin(held)])
    return known[-1].reset_index(drop=True)


def _planned(
    question: Question,
    here: Evidence,
    at_hand: pd.DataFrame,
    pool: pd.DataFrame,
    planned: Evidence,
    tables: Mapping[str, pd.DataFrame],
    rest: tuple[NextModels, Sequence[str], int],
) -> NextModels:
    """Sets of candidates and what they would show."""
    empty, measures, seed = rest
    every, why = read_rows(question, planned)
    facts = pool.set_index("model_id")
    paired = question.require_trial()[1].larger == PAIR
    one_each = [name for name in PAIRED if name in every] if paired else ["model_id"]
    every = every.drop_duplicates(one_each)
    held = at_hand.drop_duplicates(one_each if len(at_hand) else ["model_id"])
    files = _files(every, facts, paired)
    entering = every[_fitting(files, facts, empty.budget)].reset_index(drop=True)
    if entering.empty:
        end = f" ({why})" if why else ""
        line = write_command("needs", empty.claim)
        text = f"no candidate within the budget enters the rows that it reads{end}; see `{line}`."
        return replace(empty, why=text)
    files = _files(entering, facts, paired)
    rows = pd.concat([held, entering], ignore_index=True)
    contrast = contrast_of(question, rows)
    gigabytes = facts["download_gb"].astype(float).to_dict()
    within = question.require_trial()[1].within
    choice = Pool(contrast, len(held), files, gigabytes, _groups(entering, within, gigabytes))
    sets = SetSearch(choice, empty.budget).best_sets(SETS)
    made = [
        _judged(question, here, tables, (at_hand, facts, choice, entering), chosen_, (empty, seed))
        for chosen_ in sets
    ]
    made.sort(key=_worth, reverse=True)
    line = ""
    if made:
        names = [model.model_id for model in made[0].models]
        line = write_command("measure", *names, what=",".join(measures), data="mine")
    return replace(empty, entering=len(entering), sets=tuple(made), line=line)


def _files(rows: pd.DataFrame, facts: pd.DataFrame, paired: bool) -> tuple[frozenset[str], ...]:
    """Candidates to download for each row: its model, and where rows are pairs both models, of
    those that are not at hand."""
    columns = [name for name in PAIRED if name in rows] if paired else ["model_id"]
    named = rows[columns].astype(str).to_numpy()
    known = set(facts.index)
    return tuple(frozenset(set(names) & known) for names in named.tolist())


def _fitting(
    files: Sequence[frozenset[str]], facts: pd.DataFrame, budget: Budget
) -> NDArray[np.bool_]:
    """Which rows have something to download that fits a budget."""
    sizes = facts["download_gb"].astype(float)
    fits = [
        0 < len(own) <= budget.models and sizes[sorted(own)].sum() <= budget.gigabytes
        for own in files
    ]
    return np.array(fits, dtype=bool)


def _groups(rows: pd.DataFrame, within: str, gigabytes: Mapping[str, float]) -> tuple[Chosen, ...]:
    """The two or three smallest models of each group within which a test compares."""
    if not within:
        return ()
    groups = []
    for _, own in rows.groupby(within):
        by_size = sorted(own.index, key=lambda place: gigabytes[rows.loc[place, "model_id"]])
        groups += [frozenset(by_size[:n]) for n in range(2, min(OF_GROUP, len(by_size)) + 1)]
    return tuple(groups)


def _judged(
    question: Question,
    here: Evidence,
    tables: Mapping[str, pd.DataFrame],
    known: tuple[pd.DataFrame, pd.DataFrame, Pool, pd.DataFrame],
    chosen_: Chosen,
    rest: tuple[NextModels, int],
) -> NextSet:
    """One set judged by the rule on the rows that the claim would read with it."""
    at_hand, facts, pool, entering = known
    advice, seed = rest
    names = frozenset[str]().union(*(pool.files[place] for place in chosen_))
    rows, why = read_rows(question, planned_evidence(here, tables, names))
    narrower = _narrower(pool, chosen_)
    width = _width(question, at_hand)
    models = tuple(_model(name, facts, at_hand, entering) for name in sorted(names))
    made = NextSet(models, len(rows), narrower, (width, width * (1 - narrower)), None, why)
    if rows.empty:
        return made
    views = question.views
    try:
        if views is not None:
            rows = convert_numpy(views.check_rows(rows))
    except TooFew:
        return replace(made, why=f"the rows are still too few: {views.words() if views else ''}")
    paired = question.require_trial()[1].larger == PAIR
    new = np.array([bool(own & names) for own in _files(rows, facts.loc[sorted(names)], paired)])
    if not new.any():
        return replace(made, why=OTHER_PROMPTS)
    looks = Looks(1, 0) if advice.verdict in SIDES else advice.looks
    found = verdicts_on(question, rows, new, contrast_of(question, rows), looks, seed)
    return replace(made, verdicts=found)


def _narrower(pool: Pool, chosen_: Chosen) -> float:
    before = pool.information(frozenset())
    after = pool.information(chosen_)
    return 1 - math.sqrt(before / after) if before > 0 and after > 0 else math.nan


def _width(question: Question, rows: pd.DataFrame) -> float:
    """Width of the interval of the headline on the rows at hand; NaN where it has none."""
    try:
        head = question.require_trial()[1].test(rows).headline
    except (TooFew, UsageError, KeyError):
        return math.nan
    if head.lower is None or head.upper is None:
        return math.nan
    return float(head.upper - head.lower)


def _worth(of: NextSet) -> tuple[float, float, float]:
    """A set's rank: by the probability of a verdict, then by what the effect is known to."""
    if of.verdicts is None:
        return (-1.0, 0.0, 0.0)
    decided = of.verdicts.decided
    declared = of.verdicts.declared
    return (declared if math.isnan(decided) else decided, declared, -of.download_gb)


def _model(
    name: str, facts: pd.DataFrame, at_hand: pd.DataFrame, entering: pd.DataFrame
) -> NextModel:
    row = facts.loc[name]
    gated = row["gated"]
    stated = "not stated" if pd.isna(gated) else ("yes" if gated else "no")
    return NextModel(
        model_id=name,
        download_gb=float(row["download_gb"]),
        minutes=minutes_of(float(row["n_params"])),
        gated=stated,
        adds=_adds(row, at_hand),
    )


def _adds(row: pd.Series, at_hand: pd.DataFrame) -> str:
    """What a model has that the rows at hand lack, in a few words."""
    parts = []
    if "heritage" in at_hand and row["heritage"] not in set(at_hand["heritage"]):
        parts.append(f"lab {row['heritage']}")
    elif "family" in at_hand and row["family"] not in set(at_hand["family"]):
        parts.append(f"family {row['family']}")
    else:
        parts.append(f"a model of {row['family'] or row['heritage']}")
    if set(CELL) <= set(at_hand):
        same = (at_hand[list(CELL)].to_numpy() == row[list(CELL)].to_numpy()).all(axis=1)
        shape = " × ".join(str(int(row[name])) for name in CELL)
        there = at_hand.loc[same, "model_id"].nunique()
        parts.append(f"shape {shape}, that of {there} at hand" if there else f"shape {shape}")
    if "modality" in row and row["modality"] != DECODER:
        parts.append(str(row["modality"]))
    if row["parent"] and row["variant"] == "instruct":
        parts.append(f"tuned from {strip_owner(str(row['parent']))}")
    return ", ".join(parts)


def table_of(advice: NextModels) -> list[dict[str, Any]]:
    """The sets, a row each."""
    return [_row(place, each) for place, each in enumerate(advice.sets, 1)]


COLUMNS = (
    "set",
    "models",
    "GB",
    "minutes",
    "gated",
    "rows",
    "interval",
    "least",
    "supported",
    "not supported",
    "open",
    "if true",
    "if none",
)
UNKNOWN = "—"


def _row(place: int, of: NextSet) -> dict[str, Any]:
    found = of.verdicts
    gated = [model.gated for model in of.models]
    row = {
        "set": place,
        "models": len(of.models),
        "GB": f"{of.download_gb:.3g}",
        "minutes": f"{of.minutes:.2g}",
        "gated": f"{gated.count('yes')}, {gated.count('not stated')} not stated",
        "rows": of.rows,
        "interval": _interval(of),
        **dict.fromkeys(COLUMNS[7:], UNKNOWN),
    }
    if found is None:
        return row
    ahead = {name: format_percent(share) for name, share in found.predicted.items()}
    row |= {
        "least": format_number(found.least, 2),
        "supported": ahead.get("supported", UNKNOWN),
        "not supported": ahead.get("not supported", UNKNOWN),
        "open": ahead.get("inconclusive", UNKNOWN),
        "if true": format_percent(found.declared),
        "if none": format_percent(found.null),
    }
    return row


def _interval(of: NextSet) -> str:
    if math.isnan(of.narrower):
        return "a first one"
    if math.isnan(of.width[0]):
        return f"{format_percent(of.narrower)} narrower"
    return f"{format_number(of.width[0], 2)} → {format_number(of.width[1], 2)}"


def sentences(advice: NextModels) -> list[str]:
    """What the table says, and how to read it."""
    lines = [advice.first_line]
    if not advice.sets:
        return lines
    best = advice.sets[0]
    looks = advice.looks
    if best.verdicts is not None and advice.verdict not in SIDES:
        limits = best.verdicts.limits
        lines.append(
            f"This is look {looks.taken + 1} of {looks.declared}, each at "
            f"{100 * looks.share:.3g}%: a verdict stands where its attained level lies below "
            f"{format_number(limits[SUPPORTED], 2)} (supported) or "
            f"{format_number(limits['not supported'], 2)} (not supported). More looks, up to five, "
            f"are "
            f"declared by --looks before the first of them."
        )
    unstated = [model.model_id for model in best.models if model.gated == "not stated"]
    if unstated:
        lines.append(
            f"Whether files are given to everyone is not stated of "
            f"{format_count(len(unstated), 'model')}"
            f" of set 1."
        )
    return lines


def legend() -> tuple[str, ...]:
    """What the columns are."""
    return (
        "supported, not supported, open: simulated with the rows at hand as they are and the "
        "effect drawn from its posterior",
        "if true: “supported” where the claim is true at the size that it states; if none: “not "
        "supported” where there is no effect",
        "least: the smallest level of a simulated study; interval: its width at hand and with the "
        "set",
    )


SUMMARY = ("claim", "at hand", "models", "GB", "verdict comes", "if true", "says")
"""Columns of the table over claims."""


def summary(advice: NextModels) -> dict[str, Any]:
    """A claim's row of that table."""
    best = advice.sets[0] if advice.sets else None
    found = best.verdicts if best else None
    decided = found.decided if found else math.nan
    return {
        "claim": advice.claim,
        "at hand": advice.verdict or "too few rows",
        "models": len(best.models) if best else 0,
        "GB": f"{best.download_gb:.3g}" if best else UNKNOWN,
        "verdict comes": UNKNOWN if math.isnan(decided) else format_percent(decided),
        "if true": format_percent(found.declared) if found else UNKNOWN,
        "says": advice.first_line,
    }
