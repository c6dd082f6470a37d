"""A finding's question put to another set of evidence: the same test on its rows, the same rule, and no new fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.error_rates import ErrorRates, nearest, untried
from thermostats.claims.evidence import MEASURED, POOLED, SETS, Evidence
from thermostats.claims.finding import Criterion, Finding, Sample
from thermostats.claims.judge import headline, standing
from thermostats.claims.left_out import hangs_on, hangs_on_source
from thermostats.claims.question import Question
from thermostats.claims.result import Result, TooFew
from thermostats.claims.sources import READS, coincidence, lacking
from thermostats.claims.verdict import UNMEASURED
from thermostats.errors import DataError, UsageError
from thermostats.formatting import listed, plural, with_interval
from thermostats.next_steps import command
from thermostats.tables.evidence import DECODER
from thermostats.tables.folders import shipped
from thermostats.tables.model_facts import own_models
from thermostats.tables.model_rows import SHALLOW
from thermostats.tables.reading import of_last_revision
from thermostats.tables.seeds import seed_noise
from thermostats.tables.vocabulary import GAINS, NURSERY

TABLES = {"gains": "layers", "weights": "weights", "outputs": "outputs", "attention": "attention"}
"""What can be measured, and the table that shows that it was."""
ABOUT = 1.25
"""Designs that differ by less than this factor count as of one size."""
GAIN = "penultimate_gain"
"""Whose noise is shown where a question is not over gains."""
FACTS = ("family", "d_head", "n_kv_heads", "d_ff", "n_params_nonembedding")
"""Facts of a model that questions read and that a joined row need not state."""
NAMED = 12
"""Models up to which a set is listed."""


def viewed(
    question: Question, evidence: Evidence, first: Finding | None = None, measures: Sequence[str] = ()
) -> Finding:
    """The finding of one question on a named set of evidence; `first`: on the set that it was asked of first.

    measures: what the claim reads of a model; with it, notes say which of the user's models are left out, and why.

    Rows that are too few, or that do not carry the test, need measurement; `settles` says what it takes. Raises
    DataError for a question without a trial.
    """
    trial, primary, needs = question.trial, question.primary, question.views
    if trial is None or primary is None or needs is None:
        raise DataError("a question without a trial can have only one set of evidence", where=question.id)
    group = "recipe" if evidence.name == NURSERY else question.group
    first = first or Finding(question.id, question.name, UNMEASURED, "", sample=Sample(question.evidence))
    criterion = first.criterion
    finding = Finding(
        id=first.id,
        estimand=first.estimand,
        verdict=UNMEASURED,
        plain=f"The same question for {SETS[evidence.name]}.",
        criterion=Criterion(words=criterion.words, above=criterion.above, below=criterion.below),
        sample=Sample(evidence.name, first.sample.evidence, group=group),
    )
    there, used, claim = Result(), set[str](), finding.claim
    try:
        rows = trial.of(evidence, question.over)
        used = set(rows["model_id"])
        finding = replace(finding, notes=tuple(own_models_missing(claim, measures, used, evidence)))
        rows = needs.of(rows)
        sample = replace(finding.sample, coincidence=coincidence(evidence, used))
        finding = replace(finding, plain=f"{finding.plain[:-1]}{_named(rows)}.", sample=sample)
        there = Result(n_models=rows["model_id"].nunique(), n_groups=rows["heritage"].nunique())
        result = trial.test(rows)
    except TooFew as few:
        errors = ErrorRates(nearest(question, needs.models)[0], larger=trial.larger)
        notes = finding.notes if used else tuple(own_models_missing(claim, measures, used, evidence))
        without = lacking(evidence, needs.reads or [READS[kind] for kind in measures])
        lacks = f"The set {evidence.name} has no values of {listed(without)}. " * bool(without)
        takes = f"{lacks}It {needs.words()}. {errors.takes(group, needs.models)}".strip()
        return _with(replace(finding, notes=notes), few.result, settles=takes)
    except UsageError as error:
        return _with(finding, there, settles=f"The test cannot be made: {error.what}.")
    by_rule, (tried, size) = primary.verdict(result), nearest(question, len(rows))
    design = (
        "this design"
        if size == len(rows)
        else f"a design of {plural(size, 'row')}, the nearest in size to the {len(rows):,} here"
    )
    unit = hangs_on(primary, trial, rows, by_rule)
    source = "" if unit else hangs_on_source(question, evidence, rows, by_rule, needs)
    smaller, waiting = size < len(rows) / ABOUT, untried(question, tried)
    errors = ErrorRates(tried, unit, source, trial.larger, design, smaller=smaller, untried=waiting)
    verdict, reason = standing(primary, result, errors, by_rule)
    notes = (*finding.notes, *(_noise(question, used, evidence) if needs.groups > 1 else ()))
    return _with(
        replace(finding, verdict=verdict, reason=reason, notes=notes),
        result,
        settles=errors.sentence(by_rule, group, reason),
        could=errors.could(),
        worlds=len(tried),
        untried=waiting,
        rates=tried if len(tried) else None,
    )


def _with(finding: Finding, result: Result, **criterion: Any) -> Finding:
    """A finding with the headline and the counts of a result, and with more of its criterion."""
    return replace(
        finding,
        headline=headline(result),
        criterion=replace(finding.criterion, **criterion),
        sample=replace(finding.sample, n_models=result.n_models, n_groups=result.n_groups),
    )


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


def _noise(question: Question, used: Collection[str], evidence: Evidence) -> tuple[str, ...]:
    """How much of the variance of a gain the causes can have at most, where there are models of several seeds."""
    gain = getattr(question.over, "column", GAIN)
    gain = gain if gain in GAINS else GAIN
    rows = of_last_revision(evidence.table("features").dropna(subset=gain), "model_id").drop_duplicates("model_id")
    noise = seed_noise(rows[rows["model_id"].isin(used) | rows["seed_of"].isin(used)], gain)
    if noise is None:
        return ()
    share = with_interval(noise.ceiling, noise.lower, noise.upper)
    return (
        f"{SETS[evidence.name].capitalize()}: seeds alone change the {gain.replace('_', ' ')} by a factor of "
        f"{np.exp(noise.sd):.2f} (SD), so lab, shape and size together explain at most {share} of its log variance.",
    )


def _named(rows: pd.DataFrame) -> str:
    """The models, where they are few."""
    names = sorted(set(rows["model_id"]))
    return f": {listed(names)}" if len(names) <= NAMED else ""
