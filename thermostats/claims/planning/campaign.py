"""One list of models for all claims: the sets of `planning.next_models` put together within a
budget, and every claim judged with all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.machine_speed import describe_speed
from thermostats.claims.planning.advice import (
    NextModel,
    NextModels,
    NextSet,
    clear_numbers,
    export_advice,
)
from thermostats.claims.planning.candidates import read_candidates
from thermostats.claims.planning.next_models import (
    OWN_FOLDER,
    Terms,
    asked_question,
    find_advice,
    judge_together,
    write_lines,
)
from thermostats.claims.planning.shipped_advice import COLUMNS, OWN_SET
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.formatting import format_count, join_words
from thermostats.modelling.planned import WANTED
from thermostats.tables.folders import find_shipped

MEASURES = ("gains", "weights", "outputs", "attention")
LITTLE = 0.05
"""Probability of a verdict below which a set is not worth its download."""
FREE = 0.1
"""10⁹ bytes that are counted for a set at least, as a model takes time too."""


@dataclass(frozen=True)
class Campaign:
    """Models that serve many claims, and what they bring."""

    gigabytes: float
    """The budget."""
    models: tuple[NextModel, ...]
    claims: Mapping[str, float]
    """Claims whose own sets it consists of, each one of its three best, and what that set alone
    downloads in 10⁹ bytes."""
    lines: tuple[str, ...]
    """The commands that measure them."""
    judged: tuple[tuple[NextModels, NextSet], ...] = ()
    """Every open claim that some of the models inform, with what all of them show of it."""

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.gigabytes:g} GB"

    @property
    def download_gb(self) -> float:
        """10⁹ bytes of all."""
        return sum(model.download_gb for model in self.models)

    @property
    def minutes(self) -> float:
        """Minutes of all."""
        return sum(model.minutes for model in self.models)

    @property
    def expected(self) -> float:
        """How many open claims get a verdict on average."""
        return sum(shown.chance for _, shown in self.judged)

    @property
    def settled(self) -> list[str]:
        """Claims that probably get one."""
        settled: list[str] = []
        for advice, shown in self.judged:
            if shown.chance >= WANTED:
                settled.append(advice.claim)
        return settled

    def write_sentences(self) -> list[str]:
        """What it is and what it brings."""
        if not self.models:
            within = f"within {self.gigabytes:g} GB"
            return [f"No set {within} is likely to bring a verdict on a claim that is open."]
        settled = ", ".join(self.settled) or "none"
        sets = []
        for claim, gigabytes in self.claims.items():
            sets.append(f"{claim} ({gigabytes:.2g} GB)")
        n_models = format_count(len(self.models), "model")
        n_claims = format_count(len(self.judged), "open claim")
        return [
            f"One of the three best sets each of {join_words(sets)}: together "
            f"{n_models}, {self.download_gb:.3g} GB to download and "
            f"{self.minutes:.2g} minutes of forward passes{describe_speed()}.",
            f"With all of them {self.expected:.1f} of the "
            f"{n_claims} that they inform get a verdict on "
            f"average; with a probability of at least {WANTED:.0%} these do: {settled}.",
        ]


def plan_all(
    terms: Terms, *, candidates: str | Path | None = None, analyses: str | Path | None = None
) -> Iterator[NextModels]:
    """The advice for every claim that reads measured models, one after the other; what is kept is
    not made again."""
    paths = list_scripts(analyses if analyses is not None else find_shipped("analyses"))
    pool = read_candidates(candidates)
    evidence = Evidence(terms.data)
    for path in paths.values():
        claim = load_claim(path)
        if asked_question(claim) is not None:
            yield find_advice(claim, evidence.fork(), pool, terms)


@dataclass(frozen=True)
class _Choice:
    """Sets taken together: their models, and the probability of a verdict by claim served."""

    taken: Mapping[str, NextModel]
    served: Mapping[str, float]
    costs: Mapping[str, float]
    """10⁹ bytes of each claim's own set."""

    @property
    def download_gb(self) -> float:
        """10⁹ bytes of all."""
        return sum(model.download_gb for model in self.taken.values())

    @property
    def verdicts(self) -> float:
        """How many verdicts they bring on average, each claim by its own set."""
        return sum(self.served.values())

    def with_set(self, claim: str, of: NextSet) -> _Choice:
        """The same with a set for a claim."""
        taken = {**self.taken, **{model.model_id: model for model in of.models}}
        served = {**self.served, claim: of.chance}
        return _Choice(taken, served, {**self.costs, claim: of.download_gb})

    def adds(self, before: _Choice) -> float:
        """Verdicts that it brings more than another choice."""
        return self.verdicts - before.verdicts

    def rate(self, before: _Choice) -> float:
        """Those for a gigabyte that it downloads more."""
        return self.adds(before) / max(self.download_gb - before.download_gb, FREE)


def choose_campaign(
    advice: Sequence[NextModels], budget: float, data: str | Path | None = None
) -> Campaign:
    """The sets of open claims that together fit a budget; how claims stand with all of them is not
    judged yet.

    Sets are taken one by one, the one first that brings most verdicts for a gigabyte more, and of
    a claim that is served already a set that brings more. Of what this comes to within every
    smaller budget the best is taken, so that more to spend never brings less. Claims that the rows
    at hand decide, and sets that hardly bring a verdict, are passed over. advice: of one claim also
    within several budgets. data: the folder that the lines measure into.
    """
    options = []
    for each in advice:
        if each.open:
            for of in each.sets:
                if of.chance >= LITTLE:
                    options.append((each.claim, of))
    best = chosen = _take_sets(options, budget)
    while chosen.served:
        chosen = _take_sets(options, math.nextafter(chosen.download_gb, 0.0))
        best = max(best, chosen, key=lambda one: (one.verdicts, -one.download_gb))
    models = tuple(best.taken[name] for name in sorted(best.taken))
    modalities = {model.model_id: model.modality for model in models}
    lines = write_lines(modalities, MEASURES, str(data or OWN_FOLDER))
    return Campaign(budget, models, dict(best.costs), lines)


def _take_sets(options: Sequence[tuple[str, NextSet]], budget: float) -> _Choice:
    """Sets by the verdicts that each adds for a gigabyte that it adds, as long as one fits.

    Any budget from what they download up to this one gives the same.
    """
    chosen = _Choice({}, {}, {})
    while True:
        after = [chosen.with_set(claim, of) for claim, of in options]
        fitting = []
        for one in after:
            if one.download_gb <= budget and one.adds(chosen) >= LITTLE:
                fitting.append(one)
        if not fitting:
            return chosen
        rates = [one.rate(chosen) for one in fitting]
        chosen = fitting[rates.index(max(rates))]


def judge_campaign(
    chosen: Campaign,
    advice: Sequence[NextModels],
    terms: Terms,
    *,
    candidates: str | Path | None = None,
    analyses: str | Path | None = None,
) -> Iterator[tuple[NextModels, NextSet]]:
    """Every open claim that some of a campaign's models inform, with what all of them show of it;
    what is kept is not made again."""
    paths = list_scripts(analyses if analyses is not None else find_shipped("analyses"))
    pool = read_candidates(candidates)
    evidence = Evidence(terms.data)
    names = frozenset(model.model_id for model in chosen.models)
    for each in advice if names else ():
        if each.open and each.sets:
            claim = load_claim(paths[each.claim])
            shown = judge_together(claim, evidence.fork(), pool, terms, names)
            if shown is not None:
                yield each, shown


def export_campaign(advice: Sequence[NextModels], chosen: Campaign) -> dict[str, Any]:
    """The advice for every claim and the campaign, for JSON."""
    content: dict[str, Any] = clear_numbers(asdict(chosen))
    judged = []
    for each, shown in chosen.judged:
        numbers = clear_numbers(asdict(shown))
        judged.append({"claim": each.claim, "chance": shown.chance, **numbers})
    content["judged"] = judged
    return {
        "claims": [export_advice(each) for each in advice],
        "campaign": {**content, "says": chosen.write_sentences()},
    }


def tabulate_campaigns(
    advice: Sequence[NextModels], campaigns: Sequence[Campaign], runs: str
) -> pd.DataFrame:
    """A row for each claim and set, its own best one and every campaign; and a row without a claim
    for each campaign, with the number of verdicts that it brings as its chance.

    runs: digest of the rows at hand.
    """
    rows = []
    for each in advice:
        rows.append(_tabulate_set(each, each.sets[0] if each.sets else None, OWN_SET))
    for campaign in campaigns:
        rows += [_tabulate_set(each, shown, campaign.name) for each, shown in campaign.judged]
        rows.append(
            {
                "set": campaign.name,
                "models": _join_names(campaign.models),
                "download_gb": campaign.download_gb,
                "minutes": campaign.minutes,
                "chance": campaign.expected,
                "says": " ".join(campaign.write_sentences()),
            }
        )
    return pd.DataFrame(rows).assign(runs=runs).reindex(columns=list(COLUMNS))


def _join_names(models: Sequence[NextModel]) -> str:
    return " ".join(model.model_id for model in models)


def _tabulate_set(advice: NextModels, of: NextSet | None, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "claim": advice.claim,
        "finding": advice.finding,
        "evidence": advice.evidence,
        "at_hand": advice.verdict,
        "set": name,
        "rows": advice.rows,
        "says": advice.first_line if name == OWN_SET else "",
        "made_of": advice.made_of,
    }
    if of is None:
        return row
    row |= {
        "models": _join_names(of.models),
        "download_gb": of.download_gb,
        "minutes": of.minutes,
        "rows": of.rows,
        "chance": of.chance,
    }
    if of.verdicts is None:
        return row
    found = of.verdicts
    row["supported"] = found.predicted.get("supported", math.nan)
    row["against"] = found.predicted.get("not supported", math.nan)
    row["declared"] = found.declared
    row["out_of_reach"] = ", ".join(found.out_of_reach)
    return row
