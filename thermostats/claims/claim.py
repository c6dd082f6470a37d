"""A claim put to the test: its words, and the functions that answer its findings' questions.

This module has everything that an analysis needs of the contract except the rules.

CLAIM = Claim.read(__file__)                        # words: the Markdown file of the same name

@CLAIM.finding("order", primary=…, robustness=…, over=GAINS, evidence=PUBLISHED,
needs=AtLeast(models=12)) def order(evidence: Evidence, gain: Gain) -> Result: …

if __name__ == "__main__":
    CLAIM.main()
"""

from __future__ import annotations

import itertools
import math
import shlex
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, Protocol, TypeVar

import pandas as pd

import thermostats
from thermostats.claims.evidence import (
    EXTERNAL,
    MEASURED,
    OWN_ROWS,
    POOLED,
    PUBLISHED,
    SETS,
    Evidence,
)
from thermostats.claims.finding import Finding, check_agreement, format_finding, wrap_text
from thermostats.claims.judge import (
    answer_question,
    combine_parts,
    decide_by_rule,
    decide_parts,
    pick_own_verdict,
    pick_verdicts,
    repeat_parts,
    repeat_question,
    report_unmeasured,
)
from thermostats.claims.modality import ASSOCIATION, MODALITIES
from thermostats.claims.question import (
    Curve,
    Question,
    Scope,
    Test,
    Trial,
    Views,
    build_curve,
    describe_missing_models,
)
from thermostats.claims.result import (
    UNMEASURED,
    Audit,
    ByColumn,
    Estimate,
    Inference,
    Result,
    TooFew,
)
from thermostats.claims.rule import AtLeast, Posterior, Rule
from thermostats.claims.template import Template
from thermostats.errors import DataError, ThermostatsError, UsageError
from thermostats.formatting import estimate_range
from thermostats.modelling.specification import SpecificationCurve
from thermostats.settings import DRAW_VARIABLE, set_variables
from thermostats.tables.choices import CALLED
from thermostats.tables.folders import find_shipped
from thermostats.tables.reading import require_own_runs
from thermostats.tables.schemas import NURSERY
from thermostats.terminal import handle_closed_output, is_progress_seen, print_json, refuse

__all__ = ["EXTERNAL", "MEASURED", "POOLED", "PUBLISHED", "Audit", "Case", "Claim"]
__all__ += [
    "Estimate",
    "Evidence",
    "Finding",
    "Inference",
    "Result",
    "Test",
    "TooFew",
    "Trial",
    "Views",
]

P = ParamSpec("P")
T = TypeVar("T")
Answer = Callable[..., Result]
REQUIRED = ("Said", "Estimand", "Identification")
"""Sections without which a claim is not read."""


class Keep(Protocol):
    """Findings and curves made, or those that were kept of the same rows."""

    def __call__(
        self,
        name: str,
        evidence: Evidence,
        make: Callable[[Evidence], Finding],
        over: Sequence[Finding],
        /,
    ) -> Finding:
        """The finding of an id on a set; `over`: the findings that it rests on."""

    def add_curve(
        self,
        finding: Finding,
        evidence: Evidence,
        read: Callable[[Evidence], pd.DataFrame],
        make: Callable[[pd.DataFrame], SpecificationCurve],
    ) -> Finding:
        """A finding with the curve that is made of the rows which are read."""


class Anew:
    """Findings and curves made anew, of which nothing is kept."""

    def __call__(
        self,
        _name: str,
        evidence: Evidence,
        make: Callable[[Evidence], Finding],
        _over: Sequence[Finding],
    ) -> Finding:
        """The finding."""
        return make(evidence)

    def add_curve(
        self,
        finding: Finding,
        evidence: Evidence,
        read: Callable[[Evidence], pd.DataFrame],
        make: Callable[[pd.DataFrame], SpecificationCurve],
    ) -> Finding:
        """The finding with its curve."""
        return replace(finding, curve=make(read(evidence)))


ANEW = Anew()


def _require_evidence(evidence: object) -> Evidence:
    """What a shared function takes first; raises DataError for anything else."""
    if not isinstance(evidence, Evidence):
        raise DataError("a shared function takes evidence first", got=type(evidence).__name__)
    return evidence


@dataclass(frozen=True)
class Case:
    """One case over which a finding is asked, such as a quantity or a set of models, if no other
    record is needed."""

    id: str
    """The last part of the finding's id."""
    words: str
    column: str = ""


@dataclass(frozen=True)
class Basis:
    """What a claim rests on."""

    source: str = ""
    """Section or figure of the preprint, and files."""
    rows: str = ""
    """Whose rows it reads, a line of `ROWS` of `claims/evidence.py`; empty: not stated."""
    measures: tuple[str, ...] = ()
    """Kinds of measurement that its questions read: gains, weights, outputs, attention."""
    modality: str = ""
    """The kind of statement, a key of `MODALITIES`; empty: not stated."""


@dataclass(frozen=True)
class Meanings:
    """What a claim's verdicts mean, by verdict; most claims have some."""

    answers: Mapping[str, str] = field(default_factory=dict)
    """One short sentence without a statistic's name."""
    practice: Mapping[str, str] = field(default_factory=dict)
    """What it means for readers who pick or tune models, in one sentence."""
    settles: Mapping[str, str] = field(default_factory=dict)
    """What would settle or reopen it, one sentence, by verdict or by its reason."""


@dataclass(frozen=True)
class Claim(ByColumn):
    """One claim and the rules by which it is judged; the rules are fixed before its test is run."""

    COLUMNS = MappingProxyType(
        {
            "id": "id",
            "title": "title",
            "said": "statement",
            "estimand": "estimand",
            "rule": "rule",
            "source": "basis.source",
            "rows": "basis.rows",
            "measures": "basis.measures",
            "modality": "basis.modality",
            "history": "history",
            "answers": "meanings.answers",
            "practice": "meanings.practice",
            "settles": "meanings.settles",
            "identification": "identification",
            "exact": "exact",
        }
    )

    id: str
    title: str
    statement: str
    """What the study says, in our words, with its figures."""
    estimand: str
    """The quantity on which the verdict rests, in words."""
    rule: str
    """When the claim counts as supported and when as not supported; everything else is
    inconclusive."""
    basis: Basis = Basis()
    history: tuple[str, ...] = ()
    """How its rules changed since they were first written, with the verdicts under the earlier
    ones."""
    meanings: Meanings = Meanings()
    identification: str = ""
    """Whether a verdict is about a cause, what identifies the estimand, given what, and what if
    that fails."""
    exact: str = ""
    """What holds whatever was measured: the changes of weights that move what it is about and leave
    the outputs."""
    words: Template | None = field(default=None, compare=False, repr=False)
    questions: list[Question] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def read_columns(cls, values: Mapping[str, Any]) -> Claim:
        """A claim from what its file of findings has of it; KeyError for a column that claims do
        not have."""
        fields: dict[str, Any] = {}
        for name, value in values.items():
            record, _, part = cls.COLUMNS[name].partition(".")
            if part:
                fields.setdefault(record, {})[part] = value
            else:
                fields[record] = value
        parts = {"basis": Basis, "meanings": Meanings}
        for name, build in parts.items():
            if name in fields:
                fields[name] = build(**fields[name])
        return cls(**fields)

    @classmethod
    def read(cls, script: str | Path) -> Claim:
        """The claim whose words are in the Markdown file with the same name as a script, in the
        same folder.

        Raises DataError if the file is missing, lacks a part, or names an unknown modality.
        """
        words = Template.read(Path(script).with_suffix(".md"))
        if missing := [name for name in REQUIRED if not words.text(name)]:
            raise DataError(
                "the words of a claim lack a section",
                where=words.path.name,
                allowed=f"## {missing[0]}",
            )
        facts = words.facts
        measures = tuple(filter(None, facts.get("measures", "").split(", ")))
        modality = facts.get("modality", ASSOCIATION)
        if modality not in MODALITIES:
            raise DataError(
                "no such kind of statement",
                where=f"{words.path.name}, Modality",
                got=modality,
                allowed=", ".join(MODALITIES),
            )
        by_verdict = map(words.read_verdicts, ("Answer", "Practice", "Settles"))
        basis = Basis(facts.get("source", ""), facts.get("rows", ""), measures, modality)
        return cls(
            id=words.id,
            title=words.title,
            statement=words.text("Said"),
            estimand=words.text("Estimand"),
            rule="",
            basis=basis,
            history=words.history,
            meanings=Meanings(*by_verdict),
            identification=words.text("Identification"),
            exact=words.line("Exact", "", {}),
            words=words,
        )

    def answer(self, verdict: str) -> str:
        """The short sentence for a verdict; empty where none is written."""
        return self.meanings.answers.get(verdict, "")

    def finding(
        self,
        name: str,
        *,
        primary: Rule,
        robustness: Rule | None = None,
        trial: Trial | Callable[[Any], Trial] | None = None,
        evidence: str | None = PUBLISHED,
        needs: AtLeast | None = None,
        views: Views | None = None,
        over: Sequence[Any] = (),
        group: str = "",
        section: str = "",
        statement: str = "",
    ) -> Callable[[Answer], Answer]:
        """Declare the finding that the decorated function answers: one for each record of `over`,
        or a single one.

        primary: the rule that decides. robustness: a rule that is shown with it. trial: the rows
        that `primary` reads and the test on them, for leaving units out and for the simulated
        worlds by which the rule was chosen; a function makes that of a case of `over`. evidence: a
        name of `SETS`, None for mathematics.
        needs: with fewer models or groups the finding needs measurement. views: other sets of
        evidence to which the question is put; `trial` reads and tests their rows, and `primary`
        judges them. over: frozen records with an `id`, such as `Case`. group: what groups models,
        by default the lab, and in the controlled study the recipe. section: heading of the words,
        by default the name. statement: name of what is asked, where other findings ask it too:
        decisive verdicts on it must agree; of a case of `over` the case is part of the name.
        """
        if evidence is not None and evidence not in SETS:
            raise DataError(
                "no such set of evidence",
                where=f"{self.id}.{name}",
                got=evidence,
                allowed=", ".join(SETS),
            )
        if isinstance(primary, AtLeast):
            raise DataError(
                "a rule without a level",
                where=f"{self.id}.{name}",
                got=primary.words(),
                allowed="comparisons of V, joined with & and |, Each, Some; a count of models is "
                "`needs`",
            )
        others = views.name_sets(evidence, f"{self.id}.{name}") if views else None

        def declare(answer: Answer) -> Answer:
            for item in over or (None,):
                key = f"{self.id}.{name}" + (f".{item.id}" if item is not None else "")
                words = section or name
                groups = group or ("recipe" if evidence == NURSERY else "lab")
                stated = statement and statement + (f", {item.id}" if item is not None else "")
                own = trial(item) if callable(trial) else trial
                rules = (primary, robustness, Scope(evidence or "", needs, groups), own)
                question = Question(
                    key, words, item, answer, *rules, views=others, statement=stated
                )
                self.questions.append(question)
            return answer

        return declare

    def curve(self, name: str, **declared: Any) -> None:
        """Give a declared finding, named without the claim's id, its specification curve: the
        fields of `Curve`.

        Raises DataError for a finding that does not exist, or whose trial has no test.
        """
        places = {question.id: place for place, question in enumerate(self.questions)}
        place = places.get(f"{self.id}.{name}")
        if place is None or self.questions[place].trial is None:
            tried = [question.id for question in self.questions if question.trial]
            allowed = [key.partition(".")[2] for key in tried]
            raise DataError(
                "a curve needs a finding with a trial",
                where=self.id,
                got=name,
                allowed=", ".join(allowed),
            )
        self.questions[place] = replace(self.questions[place], curve=Curve(**declared))

    def overall(self, all_of: Sequence[str], name: str = "whole") -> Callable[[Answer], Answer]:
        """Declare a verdict over findings, named without the claim's id; it has no estimate of its
        own.

        The decorated function receives the evidence and the findings by name, and returns a Result
        with words, table and figure. The finding comes first on the page.
        """

        def declare(answer: Answer) -> Answer:
            parts = tuple(f"{self.id}.{each}" for each in all_of)
            question = Question(f"{self.id}.{name}", name, None, answer, parts=parts)
            self.questions.insert(0, question)
            return answer

        return declare

    def shared(self, function: Callable[P, T]) -> Callable[P, T]:
        """Compute a function of evidence and hashable arguments once for all findings."""

        @wraps(function)
        def run_shared(*args: P.args, **named: P.kwargs) -> T:
            evidence, *rest = args
            key = (function, *rest, *sorted(named.items()))
            return _require_evidence(evidence).computed(key, partial(function, *args, **named))

        return run_shared

    def keep(self, function: Callable[P, T]) -> Callable[P, T]:
        """Compute a function once for all findings, as `shared` does, and once for all reports of
        the same rows.

        It returns a record, whose fields are numbers, text, tables and further records.
        """

        @wraps(function)
        def run_kept(*args: P.args, **named: P.kwargs) -> T:
            evidence, *rest = args
            name = f"{function.__name__} {rest} {sorted(named.items())}"
            return _require_evidence(evidence).keep(name, partial(function, *args, **named))

        return self.shared(run_kept)

    def judge(self, evidence: Evidence, keep: Keep = ANEW) -> list[Finding]:
        """Put every question to its evidence, in the order of the file, then to the other sets that
        have rows for it, and last to the user's rows alone, where there are any.

        keep: makes a finding or its curve, or gives what it has kept of the same rows. Raises
        DataError if words, rule and result do not fit together, or if two findings decide one
        statement both ways.
        """
        if self.words is None or not self.questions:
            raise DataError("a claim without questions has no findings", where=self.id)
        answers: dict[str, Finding] = {}
        for question in sorted(self.questions, key=lambda q: bool(q.parts)):
            named = question.scope.select_evidence(evidence)
            parts = tuple(answers.values()) if question.parts else ()
            make = partial(self._answer_question, question, answers)
            answers[question.id] = keep(question.id, named, make, parts)
            curve = question.curve
            if curve is not None and answers[question.id].verdict != UNMEASURED:
                primary, trial = question.require_trial()
                build = partial(build_curve, curve, primary, trial.test)
                found = answers[question.id]
                answers[question.id] = keep.add_curve(found, named, curve.rows, build)
        findings = [answers[question.id] for question in self.questions]
        for question in self.questions:
            first = answers[question.id]
            make = partial(repeat_question, question, first=first, measures=self.basis.measures)
            for name in question.views.sets if question.views else ():
                view = keep(question.id, evidence.named(name), make, (first,))
                findings += [view] * view.has_rows
        findings += self._judge_own_rows(self.questions, evidence, answers, keep)
        check_agreement(findings)
        return findings

    def _judge_own_rows(
        self,
        questions: Sequence[Question],
        evidence: Evidence,
        answers: Mapping[str, Finding],
        keep: Keep = ANEW,
    ) -> list[Finding]:
        """Those of some questions that can be put to the user's rows alone, in the order of the
        file; none where there are no such rows.

        answers: findings on the first sets, as far as they are known.
        """
        if not evidence.has_own_runs():
            return []
        own = evidence.named(OWN_ROWS)
        measures = self.basis.measures
        views: dict[str, Finding] = {}
        for question in questions:
            if question.takes_own_rows:
                first = answers.get(question.id)
                asked = question.ask_own_rows()
                make = partial(repeat_question, asked, first=first, measures=measures)
                view = keep(question.id, own, make, (first,) if first else ())
                views |= {question.id: view} if view.has_rows else {}
        for question in questions:
            parts = [views[name] for name in question.parts if name in views]
            if parts and len(parts) == len(question.parts):
                first = answers.get(question.id)
                estimand = first.estimand if first else question.name
                make = partial(repeat_parts, question.id, estimand, parts)
                views[question.id] = keep(question.id, own, make, parts)
        return [views[question.id] for question in questions if question.id in views]

    def _answer_question(
        self, question: Question, before: Mapping[str, Finding], evidence: Evidence
    ) -> Finding:
        """The finding of one question on the set that it was asked of first; `before`: the findings
        before it."""
        assert self.words is not None  # noqa: S101
        if question.parts:
            parts = [before[name] for name in question.parts]
            by_name = {name.partition(".")[2]: part for name, part in before.items()}
            result = question.answer(evidence, by_name)
            scope = replace(question.scope, group=parts[0].sample.group)
            return combine_parts(self.words, replace(question, scope=scope), parts, result)
        rows = None
        with suppress(TooFew):  # the answer then says so
            rows = question.trial.read_rows(evidence, question.over) if question.trial else None
        used = set(rows["model_id"]) if rows is not None and "model_id" in rows else None
        missing = (
            ()
            if used is None
            else describe_missing_models(self.id, self.basis.measures, used, evidence)
        )
        try:
            result = (
                question.answer(evidence)
                if question.over is None
                else question.answer(evidence, question.over)
            )
        except TooFew as few:
            finding = report_unmeasured(self.words, question, few.result)
        else:
            finding = answer_question(self.words, question, evidence, result, rows)
        return replace(finding, notes=(*finding.notes, *missing))

    def stated(self) -> Claim:
        """The claim's facts alone, its rules in words: what a page shows and a process hands on."""
        rules: dict[str, list[str]] = {}
        for question in self.questions:
            rules.setdefault(question.rule(), []).append(question.name)
        parts = []
        for rule, names in rules.items():
            parts.append(f"{', '.join(dict.fromkeys(names))}: {rule}")
        stated = "; ".join(parts)
        facts = {}
        for item in fields(Claim):
            if item.compare:
                facts[item.name] = getattr(self, item.name)
        return Claim(**facts | {"rule": self.rule or stated})

    def decided(self, evidence: Evidence) -> Iterator[Finding]:
        """Every finding by its rule alone, as each is decided: verdict, estimate and counts; no
        words, fit or figure.

        On the set that each question is asked of first, verdicts over findings last; then the
        claim's first question on the other sets that have rows for it, and where that is one over
        findings, these on all evidence. Verdicts are those of `judge`.
        """
        answers: dict[str, Finding] = {}
        for question in sorted(self.questions, key=lambda q: bool(q.parts)):
            named = question.scope.select_evidence(evidence)
            answers[question.id] = self._decide_question(question, answers, named)
            yield answers[question.id]
        leading = self.questions[0]
        for question in self.questions:
            views = question.views.sets if question.views else ()
            asked = (
                views
                if question is leading
                else {POOLED} & {*views}
                if question.id in leading.parts
                else ()
            )
            for name in asked:
                view = repeat_question(question, evidence.named(name), answers[question.id])
                if view.has_rows:
                    yield view
        asked_first = []
        for q in self.questions:
            if q.id in (leading.id, *leading.parts):
                asked_first.append(q)
        yield from self._judge_own_rows(asked_first, evidence, answers)

    def decide_set(self, evidence: Evidence, name: str) -> Iterator[Finding]:
        """Every finding on one set of evidence by its rule alone; `name`: one of `SETS`."""
        for question in self.questions:
            if question.scope.evidence == name:
                yield self._decide_question(question, {}, evidence.named(name))
            elif question.views and name in question.views.sets:
                view = repeat_question(question, evidence.named(name))
                if view.has_rows:
                    yield view
        if name == OWN_ROWS:
            yield from self._judge_own_rows(self.questions, evidence, {})

    def _decide_question(
        self, question: Question, before: Mapping[str, Finding], evidence: Evidence
    ) -> Finding:
        """One finding by its rule alone; what has no trial, or rows in it that do not count models,
        is answered."""
        if question.parts:
            return decide_parts(
                question.id, question.name, [before[name] for name in question.parts]
            )
        if question.trial is not None and not isinstance(question.primary, Posterior):
            finding = decide_by_rule(question, evidence)
            if finding is not None:
                return finding
        return self._answer_question(replace(question, robustness=None), before, evidence)

    def first(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those of the claim's first question, by which it stands."""
        return [finding for finding in findings if finding.id == self.questions[0].id]

    def main(self) -> None:
        """What an analysis does when run as a script: print its verdict; `--help` lists the
        options."""
        run_as_script(self)


MOST_LINES = 25
MOST_FINDINGS = 12
WIDTH = 100
"""Lines on one screen, those of them that are findings, and characters of a line of prose."""
HEADS = ("finding", "verdict", "estimate [interval]", "set", "models / groups")
WIDTHS = {"verdict": 17, "estimate [interval]": 24, "set": 9}
IN_JSON = {
    "verdict",
    "reason",
    "leans",
    "unless",
    "provisional",
    "estimate",
    "lower",
    "upper",
    "interval",
}
IN_JSON |= {
    "probability",
    "level",
    "limit",
    "p_worst",
    "evidence",
    "n_models",
    "n_heritages",
    "group",
}
"""Columns of the table of findings that `--json` gives, next to `finding`."""


def run_as_script(claim: Claim) -> None:
    """Answer the command line of an analysis; the options are its help's."""
    options = _parse_options(claim)
    try:
        with handle_closed_output():
            if not options.json:
                print(f"{claim.id}  {claim.title}", flush=True)
            _answer(claim, options)
    except ThermostatsError as error:
        refuse(error, as_json=options.json)
        sys.exit(error.exit_code)


def _parse_options(claim: Claim) -> Namespace:
    parser = ArgumentParser(
        description=f"{claim.id} {claim.title}. Prints its verdict; no report is written."
    )
    parser.add_argument(
        "--data", type=Path, help="folder of your own rows, read together with the package's tables"
    )
    parser.add_argument(
        "--evidence",
        choices=list(SETS),
        help="the findings on this set of evidence alone; own: on your own rows",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--details",
        action="store_true",
        help="rules, every set of evidence, fits, notes and tables",
    )
    how.add_argument("--json", action="store_true", help="the findings as JSON")
    how.add_argument(
        "--report", action="store_true", help="write the claim's page into the folder reports"
    )
    parser.add_argument(
        "--draw", action="store_true", help="with details, also draw the posteriors that need PyMC"
    )
    return parser.parse_args()


def _answer(claim: Claim, options: Namespace) -> None:
    if options.report:
        folder = Path(sys.argv[0]).parent
        analyses = None if folder.resolve() == find_shipped("analyses").resolve() else folder
        made = thermostats.report(claim.id, data=options.data, analyses=analyses, draw=options.draw)
        print(made)
        sys.exit(not made.ok)
    evidence = Evidence(options.data)
    if options.evidence:
        _print_set(claim, evidence, options)
    elif options.json:
        print_json(dump_findings(claim, list(claim.decided(evidence))))
    elif options.details or options.draw:
        with set_variables({DRAW_VARIABLE: "1"}) if options.draw else nullcontext():
            _print_details(claim, evidence)
    else:
        _print_screen(claim, evidence, options.data)


def _print_set(claim: Claim, evidence: Evidence, options: Namespace) -> None:
    """A line a finding on one set of evidence; raises UsageError with an option that it has no
    place for, and where own rows are wanted and there are none."""
    if options.details or options.draw:
        raise UsageError(
            "details are of every set of evidence",
            got=f"--evidence {options.evidence}",
            next_step="leave out --evidence",
        )
    if options.evidence == OWN_ROWS:
        require_own_runs(options.data)
    findings = claim.decide_set(evidence, options.evidence)
    if options.json:
        print_json(dump_findings(claim, list(findings)))
        return
    width = _print_heads(claim)
    printed = 0
    for finding in _report_progress(findings, len(claim.questions)):
        print(_format_line(_format_cells(finding), width), flush=True)
        printed += 1
    if not printed:
        print(f"  {claim.id} asks nothing of {CALLED[options.evidence]}.")


def _print_heads(claim: Claim) -> int:
    """Print the heads of a claim's lines; the width of their first column."""
    names = [_name(question.id) for question in claim.questions]
    width = max(map(len, [HEADS[0], *names]))
    print("\n" + _format_line(HEADS, width), flush=True)
    return width


def _print_details(claim: Claim, evidence: Evidence) -> None:
    """Everything that a page says of the findings."""
    if claim.exact:
        print("\n" + wrap_text(f"Exact: {claim.exact}"))
    words = [wrap_text(f"Said: {claim.statement}"), wrap_text(f"Rule: {claim.stated().rule}")]
    print("\n" + "\n".join(words), flush=True)
    with _Progress("judging; about ten seconds a finding with a fit"):
        findings = claim.judge(evidence)
    for finding in findings:
        print("\n" + format_finding(finding))


def _print_screen(claim: Claim, evidence: Evidence, data: Path | None) -> None:
    """The claim's words, a line a finding as each is decided, the verdict, and what to type
    next."""
    print(wrap_text(f"Said: {claim.statement}"), flush=True)
    width = _print_heads(claim)
    findings = []
    shown = 0
    for finding in _report_progress(claim.decided(evidence), len(claim.questions)):
        findings.append(finding)
        if shown < MOST_FINDINGS:
            print(_format_line(_format_cells(finding), width), flush=True)
            shown += 1
    if len(findings) > shown:
        print(f"  and {len(findings) - shown} more, which --details and --json have")
    leading = claim.first(findings)
    for line in format_verdict([*leading, *(each for each in findings if each not in leading)]):
        print(line)
    words = ["python", sys.argv[0], *(["--data", str(data)] if data else [])]
    print(f"Next: {shlex.join([*words, '--details'])}, or with --report its page")


def format_verdict(findings: Sequence[Finding]) -> list[str]:
    """The verdict of a claim's first question, which comes first, with its condition: on its own
    files, and on all."""
    own, every = pick_verdicts(findings)
    sets = {"on the study’s own files": own, "on all evidence": every}
    sets["on your own rows"] = pick_own_verdict(findings)
    parts = []
    for where, finding in sets.items():
        if finding:
            parts.append(f"{where}: {finding.stands}")
    text = "; ".join(parts or [findings[0].stands])
    filled = textwrap.fill(text, WIDTH, initial_indent="Verdict ", subsequent_indent="  ")
    return ["", *filled.splitlines()]


def dump_findings(claim: Claim, findings: Sequence[Finding]) -> dict[str, Any]:
    """The claim and its findings by the names of columns; numbers that are not there are null."""
    rows = []
    for finding in findings:
        row: dict[str, Any] = {"finding": finding.id}
        for name, value in finding.columns().items():
            if name in IN_JSON:
                row[name] = _convert_value(value)
        rows.append(row)
    first = claim.first(findings)
    return {
        "claim": claim.id,
        "title": claim.title,
        "said": claim.statement,
        "verdict": first[0].stands if first else "",
        "findings": rows,
    }


def _convert_value(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _name(finding: str) -> str:
    return finding.partition(".")[2]


def _format_cells(finding: Finding) -> tuple[str, ...]:
    head = finding.headline
    sample = finding.sample
    estimate = (
        estimate_range(head) if head.value is not None and finding.verdict != UNMEASURED else ""
    )
    return (
        _name(finding.id),
        finding.verdict,
        estimate,
        sample.evidence,
        f"{sample.n_models} / {sample.n_groups}",
    )


def _format_line(cells: Sequence[str], width: int) -> str:
    widths = (width, *WIDTHS.values(), 0)
    columns = []
    for cell, column in zip(cells, widths, strict=True):
        columns.append(cell.ljust(column))
    return "  ".join(["", *columns]).rstrip()


def _report_progress(findings: Iterator[Finding], total: int) -> Iterator[Finding]:
    """The same findings; a terminal says meanwhile which of them is being decided."""
    for number in itertools.count(1):
        with _Progress(
            f"deciding finding {number} of {total}"
            if number <= total
            else "on other sets of evidence"
        ):
            finding = next(findings, None)
        if finding is None:
            return
        yield finding


class _Progress:
    """A passing line on a terminal's standard error."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __enter__(self) -> None:
        if is_progress_seen():
            print(f"\r\033[K  … {self.words}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if is_progress_seen():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
