"""Which public models to measure next for a claim, what they cost, and what verdict they would
bring.

Rows that candidates would add are those that the claim's own selection takes from tables in which
they were measured (`planning.candidates`). Sets of them are sought by the closed-form variance of
the effect in the claim's own worlds (`planning.contrast`, `planning.search`); the best three are
judged by the claim's own rule in simulated studies (`planning.scoring`). What comes out is
`planning.advice`; of all claims `planning.campaign`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.judge import weigh
from thermostats.claims.machine_speed import estimate_seconds
from thermostats.claims.planning.advice import NOT_STATED, NextModel, NextModels, NextSet
from thermostats.claims.planning.candidates import (
    MEASURED_TABLES,
    planned_evidence,
    planned_tables,
    read_candidates,
)
from thermostats.claims.planning.contrast import complete_rows, contrast_of
from thermostats.claims.planning.scoring import Looks, verdicts_on
from thermostats.claims.planning.search import Budget, Chosen, Pool, SetSearch
from thermostats.claims.planning.shipped_advice import digest_rule
from thermostats.claims.question import Question, convert_numpy
from thermostats.claims.result import TooFew
from thermostats.claims.run import load_claim
from thermostats.claims.stored import Stored
from thermostats.claims.study import choose_claims, list_scripts
from thermostats.errors import UsageError
from thermostats.formatting import strip_owner
from thermostats.measurement.spec import MADE
from thermostats.next_steps import write_command
from thermostats.tables.choices import DECODER
from thermostats.tables.folders import find_shipped

Names = frozenset[str]
"""Names of models."""
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
    "it compares models on the same prompts, and most of those at hand met prompts whose texts are "
    "not public, so models that are measured now do not enter its rows"
)
CELL = ("n_layers", "n_heads", "d_model")
PROMPTS = {"vision": MADE}
"""Prompts of modalities that do not read the ones that are measured where nothing is said."""
OWN_FOLDER = "mine"


@dataclass(frozen=True)
class Terms:
    """On which terms advice is asked for."""

    budget: Budget = field(default_factory=partial(Budget, GIGABYTES, MODELS))
    looks: Looks = field(default_factory=Looks)
    finding: str = ""
    """Empty: the claim's first that reads measured models."""
    data: str | Path | None = None
    """The folder that the lines measure into."""
    seed: int = 1


@dataclass(frozen=True)
class Prospect:
    """A question as a study to come would put it: rows at hand, and those that candidates add."""

    question: Question
    here: Evidence
    at_hand: pd.DataFrame
    facts: pd.DataFrame
    """Candidates by name, those without a run."""
    tables: Mapping[str, pd.DataFrame]
    """Rows of tables that measuring them would add."""
    measures: Sequence[str]
    empty: NextModels
    """The advice before any set is known."""
    seed: int = 1

    @property
    def within(self) -> str:
        """The column of groups within which the test compares; empty for none."""
        return self.question.require_trial()[1].within

    @property
    def paired(self) -> bool:
        """Whether rows are pairs of models."""
        return self.question.require_trial()[1].larger == PAIR

    def plan_rows(self, names: frozenset[str]) -> tuple[pd.DataFrame, str]:
        """Rows that the claim would read with some candidates; none where there are too few, and
        then why."""
        return read_rows(self.question, planned_evidence(self.here, self.tables, names))

    def list_files(self, rows: pd.DataFrame, among: frozenset[str]) -> tuple[frozenset[str], ...]:
        """What to download for each row: its model, and where rows are pairs both models, of those
        among some candidates."""
        columns = [name for name in PAIRED if name in rows] if self.paired else ["model_id"]
        named = rows[columns].astype(str).to_numpy()
        files: list[frozenset[str]] = []
        for names in named.tolist():
            files.append(frozenset(set(names) & among))
        return tuple(files)


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
) -> NextModels:
    """Suggest public models to measure next for a claim: the three best sets within a budget.

        I(S) = x'Px of the rows at hand and those of S

    Sets are ordered by what they would tell of the claim's effect, in the claim's own worlds (of a
    claim about variances that of the covariance). A verdict's probability is simulated with the
    claim's rule, its level and α*, once with the effect drawn from its posterior given the rows at
    hand, and once at the size that the claim states. A look at the verdict has the level .05/L.
    What was computed of the same rows, worlds and candidates is kept in the cache.

    Parameters
    ----------
    claim : str
        Its id.
    budget : float
        10⁹ bytes of downloads.
    models : int
        How many at most.
    candidates : str or Path
        A CSV file of one's own, by default `data/candidates.csv`.
    looks, taken : int
        L, how often the verdict is asked for in all, at most five, and how often it was already;
        the rows at hand are one.
    finding : str
        As for `power`.
    data : str or Path
        A user's folder, read together with the package's own tables.
    analyses : str or Path
        A folder of analyses of your own.

    Returns
    -------
    NextModels
        The sets with their models, downloads and chances of a verdict.

    Raises
    ------
    UsageError
        For an unknown claim or finding, a budget that no candidate fits, candidates without shape,
        and more looks than declared.

    Examples
    --------
    >>> import thermostats
    >>> advice = thermostats.next_models("C01", budget=25, models=2)
    >>> advice.claim, len(advice.sets) <= 3
    ('C01', True)
    """
    terms = Terms(Budget(float(budget), int(models)), Looks(looks, taken), finding, data)
    paths = list_scripts(analyses if analyses is not None else find_shipped("analyses"))
    (name,) = choose_claims([claim], paths)
    pool = read_candidates(candidates)
    return find_advice(load_claim(paths[name]), Evidence(data), pool, terms)


def find_advice(
    claim: Claim, evidence: Evidence, candidates: pd.DataFrame, terms: Terms
) -> NextModels:
    """The advice for a claim as it is kept, or made and kept; see `next_models`."""
    asked = asked_question(claim, terms.finding)
    if asked is None:
        return plan_claim(claim, evidence, candidates, terms)
    question, set_name = asked
    store = Stored(f"next-{claim.id}", digest_rule(question, candidates))
    settings = (question.id, terms.budget, terms.looks, str(terms.data), terms.seed)
    part = (str(settings), set_name)
    make = partial(plan_claim, claim, candidates=candidates, terms=terms)
    advice: NextModels = store.keep_value(part, evidence, make)
    store.write()
    sets = tuple(_renew_minutes(each, candidates) for each in advice.sets)
    return replace(advice, sets=sets)


def _renew_minutes(of: NextSet, candidates: pd.DataFrame) -> NextSet:
    """A set with minutes of today: what is kept has those of the hour in which it was made."""
    n_params = candidates.set_index("model_id")["n_params"].astype(float)
    models = []
    for model in of.models:
        minutes = estimate_seconds(n_params[model.model_id]) / 60
        models.append(replace(model, minutes=minutes))
    return replace(of, models=tuple(models))


def judge_together(
    claim: Claim, evidence: Evidence, candidates: pd.DataFrame, terms: Terms, names: frozenset[str]
) -> NextSet | None:
    """What some models show of a claim together, as it is kept, or made and kept; None where they
    add no row to it."""
    asked = asked_question(claim, terms.finding)
    if asked is None:
        return None
    question, set_name = asked
    store = Stored(f"next-{claim.id}", digest_rule(question, candidates))
    settings = (question.id, terms.looks, terms.seed, sorted(names))
    part = (str(settings), set_name)

    def judge(here: Evidence) -> NextSet | None:
        prospect = _look_ahead(claim, here, candidates, terms)
        if isinstance(prospect, NextModels):
            return None
        every, _ = prospect.plan_rows(names)
        adding = frozenset[str]().union(*prospect.list_files(every, names))
        return judge_set(prospect, adding, math.nan) if adding else None

    shown: NextSet | None = store.keep_value(part, evidence, judge)
    store.write()
    return shown and _renew_minutes(shown, candidates)


def plan_claim(
    claim: Claim, evidence: Evidence, candidates: pd.DataFrame, terms: Terms
) -> NextModels:
    """The advice for a claim of some rows at hand; see `next_models`."""
    prospect = _look_ahead(claim, evidence, candidates, terms)
    if isinstance(prospect, NextModels):
        return prospect
    return _find_sets(prospect, str(terms.data or OWN_FOLDER))


def _look_ahead(
    claim: Claim, evidence: Evidence, candidates: pd.DataFrame, terms: Terms
) -> Prospect | NextModels:
    """The question with what candidates could add; the advice itself where none can."""
    budget = terms.budget
    asked = asked_question(claim, terms.finding)
    if asked is None:
        why = f"no question of it is put to public models; `{write_command('needs', claim.id)}`"
        why += " says what it takes"
        return NextModels(claim.id, claim.title, "", "", 0, budget, terms.looks, why=why)
    question, where = asked
    here = evidence.named(where)
    at_hand, _ = read_rows(question, here)
    empty = NextModels(
        claim.id,
        claim.title,
        question.id,
        where,
        len(at_hand),
        budget,
        terms.looks,
        verdict=_judge_rows(question, here, at_hand),
        made_of=digest_rule(question, candidates),
    )
    if not question.require_trial()[1].larger:
        return replace(empty, why=_say_at_will(claim, question))
    pool = leave_held_out(candidates, evidence)
    _check_budget(claim, pool, budget)
    measures = [kind for kind in claim.basis.measures if kind in MEASURED_TABLES]
    if not measures:
        return replace(empty, why="it reads nothing that is measured on public models")
    fits = pool["download_gb"] <= budget.gigabytes
    tables = planned_tables(pool[fits].reset_index(drop=True), evidence, measures)
    facts = pool.set_index("model_id")
    return Prospect(question, here, at_hand, facts, tables, measures, empty, terms.seed)


def _say_at_will(claim: Claim, question: Question) -> str:
    """Why no model settles what can be set at will, and which findings models inform."""
    others = []
    for each in claim.questions:
        if each.growing_set and each.id != question.id and each.require_trial()[1].larger:
            others.append(write_command("next", claim.id, finding=each.id.partition(".")[2]))
    why = (
        "as a cause nothing does: what it asks about can be set at will while a model's outputs "
        "stay the same (docs/explanation/properties.md)"
    )
    also = " and ".join(f"`{line}`" for line in others)
    return f"{why}. Models inform other findings of it: {also}" if others else why


def _check_budget(claim: Claim, pool: pd.DataFrame, budget: Budget) -> None:
    """Raise UsageError where no candidate is left, or none fits."""
    if pool.empty:
        raise UsageError(
            "no candidate is left to measure",
            got="all are at hand",
            next_step=write_command("needs", claim.id),
        )
    if budget.models < 1 or not (pool["download_gb"] <= budget.gigabytes).any():
        least = pool.loc[pool["download_gb"].idxmin()]
        got = f"{budget.gigabytes:g} GB and {budget.models} models"
        allowed = f"{least['download_gb']:.2g} GB or more, the size of {least['model_id']}"
        step = write_command("next", claim.id, budget="10GB")
        raise UsageError(
            "no candidate fits the budget",
            where="--budget",
            got=got,
            allowed=allowed,
            next_step=step,
        )


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


def _judge_rows(question: Question, evidence: Evidence, rows: pd.DataFrame) -> str:
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
        held |= {str(name).partition(":")[0] for name in held}
        left = known[-1]
        known.append(left[~left["model_id"].isin(held)])
    return known[-1].reset_index(drop=True)


def _find_sets(prospect: Prospect, data: str) -> NextModels:
    """Sets of candidates and what they would show."""
    empty = prospect.empty
    every, why = prospect.plan_rows(frozenset(prospect.facts.index))
    one_each = [name for name in PAIRED if name in every] if prospect.paired else ["model_id"]
    every = every.drop_duplicates(one_each)
    held = prospect.at_hand.drop_duplicates(one_each if empty.rows else ["model_id"])
    entering = every[_fitting(every, prospect)]
    least = find_new_groups(prospect, held, entering)
    entering = _keep_read(entering, least, prospect.within)
    if entering.empty:
        if every.empty and empty.rows:
            return replace(empty, why=OTHER_PROMPTS)
        end = f" ({why})" if why else ""
        line = write_command("needs", empty.claim)
        text = f"no candidate within the budget enters the rows that it reads{end}; see `{line}`"
        return replace(empty, why=text)
    pool = _build_pool(prospect, held, entering, least)
    made = []
    for chosen in SetSearch(pool, empty.budget).best_sets(SETS):
        made.append(judge_set(prospect, pool.list_models(chosen), pool.narrow(chosen)))
    made.sort(key=_rank_set, reverse=True)
    lines = write_lines(made[0].modalities, prospect.measures, data) if made else ()
    return replace(empty, sets=tuple(made), lines=lines)


def _build_pool(
    prospect: Prospect, held: pd.DataFrame, entering: pd.DataFrame, least: Mapping[Hashable, Names]
) -> Pool:
    """Rows at hand and those that candidates add, as the search has them.

    least: of each new group the models without which none of it is read.
    """
    question = prospect.question
    files = prospect.list_files(entering, frozenset(prospect.facts.index))
    rows = complete_rows(question, pd.concat([held, entering], ignore_index=True))
    gigabytes = prospect.facts["download_gb"].astype(float).to_dict()
    groups = []
    for label, names in least.items():
        own = frozenset(entering.index[entering[prospect.within] == label])
        groups.append((own, frozenset(place for place in own if files[place] <= names)))
    small = _group_rows(entering, prospect.within, gigabytes)
    together = tuple(dict.fromkeys((*small, *(needed for _, needed in groups))))
    fewest = question.views.models if question.views is not None else 0
    contrast = contrast_of(question, rows)
    return Pool(contrast, len(held), files, gigabytes, together, fewest, tuple(groups))


def find_new_groups(
    prospect: Prospect, held: pd.DataFrame, rows: pd.DataFrame
) -> dict[Hashable, Names]:
    """Of each group within which a test compares and that the rows at hand lack, the models without
    which the claim reads none of it; of a group that it never reads, no model.

    The claim itself is asked, of all groups at once: the models of a group come in, that of the
    smallest download first, until a row of the group is read; then those are left out, the last
    first, without which one is still read.
    """
    within = prospect.within
    if not within or rows.empty:
        return {}
    known = set(held[within]) if len(held) else set()
    sizes = prospect.facts["download_gb"].astype(float).to_dict()
    members = {}
    for label, own in rows.groupby(within):
        if label not in known:
            files = prospect.list_files(own, frozenset(prospect.facts.index))
            names = sorted(frozenset[str]().union(*files))
            members[label] = sorted(names, key=sizes.__getitem__)
    return _leave_unneeded(prospect, _take_smallest(prospect, members))


def _take_smallest(
    prospect: Prospect, members: Mapping[Hashable, Sequence[str]]
) -> dict[Hashable, Sequence[str]]:
    """The first models of each group with which a row of it is read; of a group that is never read,
    none.

    members: models of each group, in the order in which they come in.
    """
    taken: dict[Hashable, Sequence[str]] = {}
    for count in range(1, max(map(len, members.values()), default=0) + 1):
        if len(taken) == len(members):
            break
        tried = {}
        for label, models in members.items():
            tried[label] = taken.get(label, models[:count])
        read = _list_read(prospect, tried)
        taken = {}
        for label, models in tried.items():
            if label in read:
                taken[label] = models
    return {label: taken.get(label, ()) for label in members}


def _leave_unneeded(
    prospect: Prospect, taken: Mapping[Hashable, Sequence[str]]
) -> dict[Hashable, Names]:
    """The models of each group without those that a row of it is read without."""
    least = {label: frozenset(models) for label, models in taken.items()}
    # none was read without the last
    others = {}
    for label, models in taken.items():
        others[label] = models[:-1]
    for place in reversed(range(max(map(len, others.values()), default=0))):
        tried = {}
        for label, models in others.items():
            tried[label] = least[label] - {*models[place : place + 1]}
        read = _list_read(prospect, tried)
        least = {label: tried[label] if label in read else least[label] for label in taken}
    return least


def _list_read(prospect: Prospect, tried: Mapping[Hashable, Collection[str]]) -> set[Hashable]:
    """The groups of which the claim reads rows with some models of each."""
    rows, _ = prospect.plan_rows(frozenset[str]().union(*tried.values()))
    return set(rows[prospect.within]) if len(rows) else set()


def _keep_read(rows: pd.DataFrame, least: Mapping[Hashable, Names], within: str) -> pd.DataFrame:
    """Rows without those of groups that are never read."""
    never = [label for label, models in least.items() if not models]
    kept = rows[~rows[within].isin(never)] if never else rows
    return kept.reset_index(drop=True)


def _fitting(rows: pd.DataFrame, prospect: Prospect) -> NDArray[np.bool_]:
    """Which rows have something to download that fits the budget."""
    budget = prospect.empty.budget
    sizes = prospect.facts["download_gb"].astype(float)
    fits = []
    for own in prospect.list_files(rows, frozenset(prospect.facts.index)):
        gigabytes = sizes[sorted(own)].sum()
        fits.append(0 < len(own) <= budget.models and gigabytes <= budget.gigabytes)
    return np.array(fits, dtype=bool)


def _group_rows(
    rows: pd.DataFrame, within: str, gigabytes: Mapping[str, float]
) -> tuple[Chosen, ...]:
    """The two or three smallest models of each group within which a test compares."""
    if not within:
        return ()
    groups = []
    for _, own in rows.groupby(within):
        by_size = sorted(own.index, key=lambda place: gigabytes[rows.loc[place, "model_id"]])
        for n in range(2, min(OF_GROUP, len(by_size)) + 1):
            groups.append(frozenset(by_size[:n]))
    return tuple(groups)


def judge_set(prospect: Prospect, names: frozenset[str], narrower: float) -> NextSet:
    """Some models judged by the rule on the rows that the claim would read with them."""
    question = prospect.question
    at_hand = prospect.at_hand
    rows, why = prospect.plan_rows(names)
    width = _measure_width(question, at_hand)
    models = tuple(_describe_model(name, prospect) for name in sorted(names))
    widths = (width, width * (1 - narrower))
    made = NextSet(models, len(rows), narrower, widths, None, why)
    if rows.empty:
        return replace(made, why=f"the rows do not carry the test ({why})")
    views = question.views
    try:
        if views is not None:
            rows = convert_numpy(views.check_rows(rows))
    except TooFew:
        needed = views.words() if views else ""
        return replace(made, why=f"the {len(rows)} rows are still too few: {needed}")
    new = np.array([bool(own) for own in prospect.list_files(rows, names)])
    if not new.any():
        return replace(made, why=OTHER_PROMPTS)
    rows = complete_rows(question, rows)
    looks = prospect.empty.looks if prospect.empty.open else Looks(1, 0)
    contrast = contrast_of(question, rows)
    return replace(made, verdicts=verdicts_on(question, rows, new, contrast, looks, prospect.seed))


def _measure_width(question: Question, rows: pd.DataFrame) -> float:
    """Width of the interval of the headline on the rows at hand; NaN where it has none."""
    try:
        head = question.require_trial()[1].test(rows).headline
    except (TooFew, UsageError, KeyError):
        return math.nan
    if head.lower is None or head.upper is None:
        return math.nan
    return float(head.upper - head.lower)


def _rank_set(made: NextSet) -> tuple[float, float, float]:
    """A set's rank: by the probability of a verdict, then by that at the stated size."""
    declared = made.verdicts.declared if made.verdicts is not None else -1.0
    return (made.chance, declared, -made.download_gb)


def write_lines(
    modalities: Mapping[str, str], measures: Sequence[str], data: str = OWN_FOLDER
) -> tuple[str, ...]:
    """The commands that measure some models: one for those that read texts, one for those that
    read images.

    modalities: of each model, by its name.
    """
    names: dict[str, list[str]] = {}
    for model, modality in modalities.items():
        names.setdefault(PROMPTS.get(modality, ""), []).append(model)
    what = ",".join(measures)
    lines: list[str] = []
    for prompts, own in sorted(names.items()):
        lines.append(write_command("measure", *own, prompts=prompts, what=what, data=data))
    return tuple(lines)


def _describe_model(name: str, prospect: Prospect) -> NextModel:
    row = prospect.facts.loc[name]
    gated = row["gated"]
    whether = NOT_STATED
    if not pd.isna(gated):
        whether = "yes" if gated else "no"
    minutes = estimate_seconds(float(row["n_params"])) / 60
    return NextModel(
        model_id=name,
        download_gb=float(row["download_gb"]),
        minutes=minutes,
        gated=whether,
        adds=_describe_addition(name, row, prospect),
        modality=str(row["modality"]),
    )


def _describe_addition(name: str, row: pd.Series, prospect: Prospect) -> str:
    """What a model has that the rows at hand lack, in a few words."""
    at_hand = prospect.at_hand
    parts = []
    if "heritage" in at_hand and row["heritage"] not in set(at_hand["heritage"]):
        parts.append(f"new lab {row['heritage']}")
    elif "family" in at_hand and row["family"] not in set(at_hand["family"]):
        parts.append(f"new family {row['family']}")
    else:
        parts.append(str(row["family"] or row["heritage"]))
    if set(CELL) <= set(at_hand):
        cell = list(CELL)
        same = (at_hand[cell].to_numpy() == row[cell].to_numpy()).all(axis=1)
        shape = " × ".join(str(int(row[label])) for label in CELL)
        there = at_hand.loc[same, "model_id"].nunique()
        parts.append(f"shape {shape} ({there} at hand)" if there else f"new shape {shape}")
    if row["modality"] != DECODER:
        parts.append(str(row["modality"]))
    if row["parent"] and row["variant"] == "instruct":
        parts.append(f"tuned from {strip_owner(str(row['parent']))}")
    if prospect.paired and row["variant"] != "instruct":
        tuned = _find_tuned(name, prospect)
        parts += [f"base of {strip_owner(tuned)}"] if tuned else []
    return ", ".join(parts)


def _find_tuned(name: str, prospect: Prospect) -> str:
    """A tuned model of this base: of those at hand, else of the candidates; empty for none."""
    lineage = prospect.here.table("models")
    own = lineage.loc[lineage["parent"] == name, "model_id"]
    if len(own):
        return f"{own.iloc[0]} (at hand)"
    tuned = prospect.facts.index[prospect.facts["parent"] == name]
    return str(tuned[0]) if len(tuned) else ""
