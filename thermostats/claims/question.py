"""A finding's question as an analysis declares it: what answers it, how it is judged, on what it is
tried."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype

from thermostats.claims.evidence import MEASURED, OWN_ROWS, POOLED, SETS, Evidence
from thermostats.claims.result import OF_LAW, Estimate, Inference, Result, TooFew
from thermostats.claims.rule import AtLeast, Posterior, Rule
from thermostats.claims.worlds import Worlds
from thermostats.errors import DataError, UsageError
from thermostats.formatting import format_estimate, join_words
from thermostats.modelling.classical.interval_laws import IntervalLaw
from thermostats.modelling.classical.many import AtOnce, Many
from thermostats.modelling.specification import (
    OUTCOME,
    Choices,
    Estimator,
    Null,
    SpecificationCurve,
    specification_curve,
)
from thermostats.next_steps import write_command
from thermostats.tables.choices import DECODER, MEASUREMENTS
from thermostats.tables.model_rows import SHALLOW, measure_seed_noise
from thermostats.tables.reading import keep_last_revision
from thermostats.tables.schemas import GAINS

Describe = Callable[[pd.DataFrame, Result], Result]


def add_nothing(_: pd.DataFrame, result: Result) -> Result:
    """The numbers of one study as they are."""
    return result


@dataclass(frozen=True)
class Test:
    """A test of many studies at once; called with rows it is that of the one study that these
    are."""

    __test__ = False  # no test of pytest's, by whose names it is imported
    many: AtOnce
    """Numbers of many studies, an element a study, of rows and of the outcomes that these have in
    every study."""
    outcomes: tuple[str, ...]
    """Columns that worlds put in the place of the measured ones."""
    interval: str = ""
    """What the intervals are, in words."""
    p_kind: str = ""
    """What the p-values are; empty: one study has none but in its tables."""
    describe: Describe = add_nothing
    """Adds to the numbers of one study what is added: counts, labels of tables,
    words."""
    finely: Mapping[str, Any] = field(default_factory=dict)
    """What one study is given next to rows and outcomes, such as more rearrangements than many
    studies can have."""

    def __call__(self, rows: pd.DataFrame) -> Result:
        """The numbers of one study; raises UsageError where its rows do not carry the test, TooFew
        where they are few."""
        own = convert_numpy(rows)
        measured = {}
        for name in self.outcomes:
            measured[name] = own[name].to_numpy()[None]
        made = self.many(own, measured, **self.finely)
        tables = {}
        numbers = {}
        for name, part in made.items():
            if isinstance(part, list):
                tables[name] = pd.DataFrame(list(map(take_first_cells, part)))
            else:
                numbers[name] = self.estimate_first(part)
        return self.describe(rows, Result.build(rows, numbers, rows=tables, table=None))

    def estimate_first(self, studies: Many) -> Estimate:
        """The estimate of the first study; what is no number is none."""
        value, lower, upper, p = take_first_numbers(studies)
        interval = "" if lower is None else self.interval
        shown_p = p if self.p_kind else None
        kind = self.p_kind or "p-value"
        law = take_first_law(studies)
        return Estimate(value, lower, upper, interval, shown_p, kind, law)


def take_first_numbers(studies: Many) -> list[float | None]:
    """Estimate, ends of the interval and p of the first study; None for what is no number."""
    first = []
    for part in (studies.estimate, studies.lower, studies.upper, studies.p):
        first.append(float(part[0]))
    return [None if math.isnan(number) else number for number in first]


def take_first_law(studies: Many) -> IntervalLaw | None:
    """The law of the first study's interval."""
    return None if studies.law is None else studies.law.take_first()


def take_first_cells(row: Mapping[str, Many]) -> dict[str, Any]:
    """The first study's cells of a row: `x`, `x_lower`, `x_upper`, `x_law`, and the p of one
    quantity as `p`, of more as `x_p`.

    Ends, law and p are left out where there are none.
    """
    cells: dict[str, Any] = {}
    numbers = {name: take_first_numbers(studies) for name, studies in row.items()}
    several = sum(p is not None for *_, p in numbers.values()) > 1
    for name, (value, lower, upper, p) in numbers.items():
        p_name = f"{name}_p" if several else "p"
        ends: dict[str, Any] = {f"{name}_lower": lower, f"{name}_upper": upper, p_name: p}
        cells[name] = math.nan if value is None else value
        ends[f"{name}{OF_LAW}"] = take_first_law(row[name])
        cells |= {column: end for column, end in ends.items() if end is not None}
    return cells


@dataclass(frozen=True)
class Trial:
    """What a primary rule reads, as a function of rows alone, so that other rows can be put in
    their place."""

    rows: Callable[..., pd.DataFrame]
    """Rows of models, of the evidence and, where the finding is asked over records, of one of
    these."""
    test: Callable[[pd.DataFrame], Result]
    """A `Test`, or a function of the rows of one study that raises UsageError or TooFew where they
    do not carry it: worlds put it to one simulated study after the other, which is slow."""
    unit: str = "heritage"
    """Column of the units that are left out one by one; empty: one counterexample decides, or the
    unit is the claim."""
    worlds: Worlds | None = None
    """Worlds in which the rule is tried; None: its levels are taken as they are, and the page says
    so."""
    larger: str = "model"
    """What a larger study would have more of: `model`, each of a group of its own, `pair`, `prompt`
    or `recipe`; empty where the quantity can be set at will while the outputs stay, so that none is
    asked for."""
    version: int = 1
    """Raised by whoever changes what `test` computes, so that what was simulated before counts for
    nothing."""
    averaged: tuple[str, ...] = ()
    """What the estimand averages over, `model`, `prompt` or both, where that is not what a larger
    study would have more of: rows are multiplied in it where the truth of a world is computed."""
    within: str = ""
    """Column of the groups whose levels the test takes out; models to measure are sought within
    them."""
    estimand: Test | None = None
    """A test with the same estimates, by which the truth of a world is computed in large samples,
    where `test` takes too long in them; None: `test` itself."""

    @property
    def many_studies(self) -> AtOnce | None:
        """The test of many studies at once, where there is one."""
        return self.test.many if isinstance(self.test, Test) else None

    def read_rows(self, evidence: Evidence, over: Any) -> pd.DataFrame:
        """The rows that were measured."""
        return self.rows(evidence) if over is None else self.rows(evidence, over)


def convert_numpy(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows in numpy's types, parts of which are taken in no time."""
    kinds: dict[Any, Any] = {}
    for name, kind in rows.dtypes.items():
        if isinstance(kind, ExtensionDtype):
            is_number = pd.api.types.is_float_dtype(kind) or pd.api.types.is_integer_dtype(kind)
            lacks = np.float64 if is_number else object
            kinds[name] = getattr(kind, "numpy_dtype", object) if not rows[name].hasnans else lacks
    return rows.astype(kinds).copy() if kinds else rows


SEED = 35
OF_INTERVAL = re.compile(r"the (lower end|upper end|interval) of ")
"""Rules that read an interval, whose levels were all those of a normal once."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The universes of one finding, declared as data; its test and its rule are those of the
    finding."""

    rows: Callable[[Evidence], pd.DataFrame]
    """All rows that some universe reads, under the columns that options name."""
    choices: Choices
    estimate: Estimator
    """The closed form of the test's headline."""
    null: Null | None = None
    """What is rearranged for the joint p; None where the statement has no null, such as a universal
    one."""
    above: bool = True
    """Whether the statement is that the estimate is large."""
    test: Callable[[pd.DataFrame], Result] | None = None
    """Where a universe's rows are not those of the finding's trial: the same test on them."""


def build_curve(
    curve: Curve, rule: Rule, test: Callable[[pd.DataFrame], Result], rows: pd.DataFrame
) -> SpecificationCurve:
    """Estimate and verdict of every universe; the verdict is the rule's alone, with no unit left
    out.

    rows: those that `curve.rows` gives.

    Raises DataError where the closed form is not the headline of the test, where that has a value.
    """

    def judge(rows: pd.DataFrame) -> Mapping[str, Any]:
        try:
            result = (curve.test or test)(rows)
        except TooFew as few:
            raise UsageError("too few models", got=few.result.n_models) from few
        head = result.headline
        outcomes = rows[OUTCOME].to_numpy(np.float64)[None]
        closed = float(curve.estimate(rows)(outcomes)[0])
        if head.value is not None and not np.isclose(head.value, closed, rtol=1e-6, atol=1e-9):
            raise DataError(
                "the closed form of a curve is not its test", got=closed, allowed=str(head.value)
            )
        ends = {"lower": head.lower, "upper": head.upper}
        return {**ends, "n_models": result.n_models, "verdict": str(rule.verdict(result))}

    return specification_curve(
        convert_numpy(rows),
        curve.choices,
        curve.estimate,
        null=curve.null,
        above=curve.above,
        judge=judge,
        seed=SEED,
    )


@dataclass(frozen=True)
class Views(AtLeast):
    """The other sets of evidence that a question is put to, and what each must have."""

    including: tuple[str, ...] = ()
    """Labs that must be among them."""
    sets: tuple[str, ...] = ()
    """Names of `SETS`; empty: all sets of measurements but the one that the finding asks first."""
    reads: tuple[str, ...] = ()
    """Columns, as `table.column`, without which it cannot be put; empty: those of what the claim
    measures."""
    fit: Callable[..., Inference] | None = None
    """The fit that accompanies the test on all evidence, of the evidence and of what the question
    is asked over; None: there is none."""
    covariate: str = ""
    """Column of models on which a line of the log gain asks the same of a user's models; empty: no
    line does."""

    def name_sets(self, first: str | None, where: str) -> Views:
        """The same with the sets named, for a finding that is asked of `first`; raises DataError
        where that is one."""
        if first in self.sets:
            allowed = ", ".join(name for name in SETS if name != first)
            raise DataError(
                "a finding's own set is no other set",
                where=where,
                got=f"views of {first}",
                allowed=allowed,
            )
        return replace(
            self, sets=self.sets or tuple(name for name in MEASUREMENTS if name != first)
        )

    def check_rows(self, rows: pd.DataFrame, group: str = "heritage", **words: Any) -> pd.DataFrame:
        """Rows handed on where they are enough; raises TooFew where not."""
        if not set(self.including) <= set(rows["heritage"]):
            raise TooFew(
                Result(
                    n_models=rows["model_id"].nunique(), n_groups=rows[group].nunique(), words=words
                )
            )
        return super().check_rows(rows, group, **words)

    def words(self) -> str:
        """How many are needed."""
        among = f", {join_words(self.including)} among them" if self.including else ""
        return f"{super().words()}{among}"


@dataclass(frozen=True)
class Scope:
    """On whose rows a question is decided."""

    evidence: str = ""
    """The first set of evidence that it is put to; empty: none."""
    needs: AtLeast | None = None
    """With fewer it needs measurement."""
    group: str = "lab"
    """What groups models."""

    def select_evidence(self, evidence: Evidence) -> Evidence:
        """That set of the evidence; the evidence itself where there is none."""
        return evidence.named(self.evidence) if self.evidence else evidence


@dataclass(frozen=True)
class Question:
    """One finding as an analysis declares it."""

    id: str
    name: str
    """Section of the words."""
    over: Any
    answer: Callable[..., Result]
    primary: Rule | None = None
    robustness: Rule | None = None
    scope: Scope = Scope()
    trial: Trial | None = None
    """The test that `primary` reads as a function of rows, to be put to other rows."""
    parts: tuple[str, ...] = ()
    """Ids of the findings that a verdict over findings rests on."""
    views: Views | None = None
    statement: str = ""
    """Name of what it asks, where other findings ask the same."""
    curve: Curve | None = None
    """The same question under every defensible choice."""

    @property
    def key(self) -> str:
        """The finding's id without what it is asked over."""
        return self.id if self.over is None else self.id.rpartition(".")[0]

    @property
    def growing_set(self) -> str:
        """The set of evidence that models measured by anybody enter; empty where it is put to
        none, or has no worlds in which they could be planned."""
        if self.trial is None or self.trial.worlds is None:
            return ""
        sets = {self.scope.evidence, *(self.views.sets if self.views else ())}
        return next((name for name in (POOLED, MEASURED) if name in sets), "")

    @property
    def takes_own_rows(self) -> bool:
        """Whether it can be put to a user's rows alone: it has a trial, and a set that those rows
        enter is among its own."""
        sets = {self.scope.evidence, *(self.views.sets if self.views else ())}
        if self.trial is None or OWN_ROWS in sets:
            return False
        return bool(sets & {MEASURED, POOLED})

    def ask_own_rows(self) -> Question:
        """The same with what own rows must have: that of its other sets, else that of its first."""
        needs = self.scope.needs or AtLeast()
        return replace(self, views=self.views or Views(needs.models, needs.groups))

    def require_trial(self) -> tuple[Rule, Trial]:
        """The rule that decides, and what it is tried on; raises DataError where it has neither."""
        if self.primary is None or self.trial is None:
            raise DataError(
                "a question without a trial can have only one set of evidence", where=self.id
            )
        return self.primary, self.trial

    def digest(self) -> str:
        """Of rule, version of the test and worlds: what was simulated of another version of them
        counts for nothing.

        Whoever changes what a test computes raises its `Trial.version`.
        """
        primary, trial = self.require_trial()
        parts = [str(trial.version), trial.unit, primary.words()]
        if (worlds := trial.worlds) is not None:
            sizes = (
                worlds.claimed,
                worlds.null,
                dict(worlds.others),
                dict(worlds.box),
                worlds.kinds,
            )
            parts += [*map(str, sizes), worlds.build_world().words]
            parts += ["levels by laws of intervals"] * bool(OF_INTERVAL.search(primary.words()))
            parts += [f"worlds {worlds.version}"] * (worlds.version > 1)
            parts += [str(worlds.limits)] * bool(worlds.limits.outcome)
        parts += [f"averaged over {', '.join(trial.averaged)}"] * bool(trial.averaged)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def rule(self) -> str:
        """How it is decided, in words; the rule of a posterior next to it stands with the fit."""
        if self.primary is None:
            parts = ", ".join(self.parts)
            return (
                f"supported if all of {parts} are supported, not supported if any of them is not "
                f"supported"
            )
        text = self.primary.words()
        if self.robustness is not None and not isinstance(self.robustness, Posterior):
            text += f"; shown with it is the test: {self.robustness.words()}"
        return text + (f"; {self.scope.needs.words()}" if self.scope.needs else "")

    def brief(self) -> str:
        """How it is decided, in a few short sentences."""
        if self.primary is None:
            return "Supported where all parts are. Not supported where any is not supported."
        return " ".join(self.primary.brief())


TABLES = {"gains": "layers", "weights": "weights", "outputs": "outputs", "attention": "attention"}
"""What can be measured, and the table that shows that it was."""
GAIN = "penultimate_gain"
"""Whose noise is shown where a question is not over gains."""
FACTS = ("family", "d_head", "n_kv_heads", "d_ff", "n_params_nonembedding")
"""Facts of a model that questions read and that a joined row need not state."""


def describe_missing_models(
    claim: str, measures: Sequence[str], used: Collection[str], evidence: Evidence
) -> Iterator[str]:
    """One sentence for each own model in the sets `measured` and `pooled` that is not among those
    used.

    measures: what the claim reads of a model; where that is not stated, there are none.
    """
    if evidence.name not in (MEASURED, POOLED) or not measures:
        return
    models = keep_last_revision(evidence.own_models(), "model_id").drop_duplicates("model_id")
    if models.empty:
        return
    has = {}
    for what in measures:
        has[what] = set(evidence.table(TABLES[what])["model_id"])
    for row in models[~models["model_id"].isin(used)].sort_values("model_id").itertuples():
        name = str(row.model_id)
        lacks = [what for what in has if row.model_id not in has[what]]
        if row.modality != DECODER:
            kind = f"it is {'a vision model' if row.modality == 'vision' else 'an encoder'}"
            yield (
                f"{name} is left out: {kind}, and the statement is about decoders; X02 reads this "
                f"model."
            )
        elif lacks:
            line = write_command("measure", name, what=",".join(lacks), data=evidence.folder())
            yield f"{name} is left out: it has no {join_words(lacks)}. `{line}` brings it in."
        elif not row.heritage:
            line = write_command("set", name, "heritage=LAB", data=evidence.folder())
            yield (
                f"{name} is left out: the tables name no lab that trained it. `{line}` brings it "
                f"in."
            )
        elif row.variant == "instruct" and row.parent in used:
            yield f"{name} is left out: {row.parent}, from which it was tuned, represents it."
        elif row.seed_of:
            yield f"{name} is counted with the other seeds of {row.seed_of}."
        elif row.n_layers <= SHALLOW:
            yield (
                f"{name} is left out: it has {row.n_layers} blocks, none of which is an inner "
                f"block."
            )
        elif unstated := [
            label for label in FACTS if pd.isna(getattr(row, label)) or getattr(row, label) == ""
        ]:
            placeholders = [f"{label}={label.upper()}" for label in unstated]
            line = write_command("set", name, *placeholders, data=evidence.folder())
            are = "is" if len(unstated) == 1 else "are"
            yield (
                f"{name} is left out: its {join_words(unstated)} {are} not stated. `{line}` brings "
                f"it in."
            )
        else:
            bases = ", or the question is of base models alone" if row.variant == "instruct" else ""
            lacking = f"it has no rows of the quantity in question{bases}"
            yield f"{name} is left out: {lacking}; see `thermostats needs {claim}`."


def describe_noise(
    question: Question, used: Collection[str], evidence: Evidence
) -> tuple[str, ...]:
    """How much of the variance of a gain the causes can have at most, where there are models of
    several seeds."""
    gain = getattr(question.over, "column", GAIN)
    gain = gain if gain in GAINS else GAIN
    rows = keep_last_revision(
        evidence.table("features").dropna(subset=gain), "model_id"
    ).drop_duplicates("model_id")
    is_used = rows["model_id"].isin(used) | rows["seed_of"].isin(used)
    of_seeds = measure_seed_noise(rows[is_used], gain)
    if of_seeds is None:
        return ()
    share = format_estimate(of_seeds.ceiling, of_seeds.lower, of_seeds.upper)
    named = gain.replace("_", " ")
    return (
        f"{SETS[evidence.name].capitalize()}: seeds alone change the {named} by a "
        f"factor of "
        f"{np.exp(of_seeds.sd):.2f} (SD), so lab, shape and size together explain at most {share} "
        f"of its log variance.",
    )
