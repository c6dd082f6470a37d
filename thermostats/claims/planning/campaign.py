"""One list of models for all claims: the sets of `planning.next_models` put together within a
budget, and every claim judged with all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.levels import WANTED
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
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.formatting import format_count
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
    claims: tuple[str, ...]
    """Claims whose own best sets it consists of."""
    judged: tuple[tuple[NextModels, NextSet], ...] = ()
    """Every open claim that some of the models inform, with what all of them show of it."""
    lines: tuple[str, ...] = ()

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
        return [advice.claim for advice, shown in self.judged if shown.chance >= WANTED]

    def write_sentences(self) -> list[str]:
        """What it is and what it brings."""
        if not self.models:
            return [f"No set within {self.gigabytes:g} GB brings a verdict on a claim that is open."]
        settled = ", ".join(self.settled) or "none"
        return [
            f"The sets of {', '.join(self.claims)} together are "
            f"{format_count(len(self.models), 'model')}, {self.download_gb:.3g} GB and "
            f"{self.minutes:.2g} minutes of forward passes.",
            f"With all of them {self.expected:.1f} of the "
            f"{format_count(len(self.judged), 'open claim')} that they inform get a verdict on "
            f"average; with a probability of at least {WANTED:.0%} these do: {settled}.",
        ]


def plan_all(
    terms: Terms,
    *,
    candidates: str | Path | None = None,
    analyses: str | Path | None = None,
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


def choose_campaign(advice: Sequence[NextModels], budget: float) -> Campaign:
    """The sets of open claims that together fit a budget, those first that bring most verdicts for
    a gigabyte more.

    Claims that the rows at hand decide, and sets that hardly bring a verdict, are passed over.
    """
    left = {
        each.claim: each.sets[0]
        for each in advice
        if each.open and each.sets and each.sets[0].chance >= LITTLE
    }
    taken: dict[str, NextModel] = {}
    served: list[str] = []
    while True:
        fitting = {
            claim: size
            for claim, of in left.items()
            if (size := _add_size(taken, of)) + _sum_sizes(taken) <= budget
        }
        if not fitting:
            return Campaign(budget, tuple(taken[name] for name in sorted(taken)), tuple(served))
        best = max(fitting, key=lambda claim: left[claim].chance / max(fitting[claim], FREE))
        taken |= {model.model_id: model for model in left.pop(best).models}
        served.append(best)


def _add_size(taken: dict[str, NextModel], of: NextSet) -> float:
    return sum(model.download_gb for model in of.models if model.model_id not in taken)


def _sum_sizes(taken: dict[str, NextModel]) -> float:
    return sum(model.download_gb for model in taken.values())


def judge_campaign(
    chosen: Campaign,
    advice: Sequence[NextModels],
    terms: Terms,
    *,
    candidates: str | Path | None = None,
    analyses: str | Path | None = None,
) -> Iterator[Campaign]:
    """A campaign with what all its models show of every open claim, once after each claim; what is
    kept is not made again."""
    paths = list_scripts(analyses if analyses is not None else find_shipped("analyses"))
    pool = read_candidates(candidates)
    evidence = Evidence(terms.data)
    names = frozenset(model.model_id for model in chosen.models)
    judged: list[tuple[NextModels, NextSet]] = []
    lines = write_lines(chosen.models, MEASURES, str(terms.data or OWN_FOLDER))
    for each in advice if names else ():
        if each.open and each.sets:
            claim = load_claim(paths[each.claim])
            shown = judge_together(claim, evidence.fork(), pool, terms, names)
            judged += [(each, shown)] if shown is not None else []
        yield Campaign(
            chosen.gigabytes, chosen.models, chosen.claims, tuple(judged), lines
        )


def export_campaign(advice: Sequence[NextModels], chosen: Campaign) -> dict[str, Any]:
    """The advice for every claim and the campaign, for JSON."""
    content: dict[str, Any] = clear_numbers(asdict(chosen))
    content["judged"] = [
        {"claim": each.claim, "chance": shown.chance, **clear_numbers(asdict(shown))}
        for each, shown in chosen.judged
    ]
    return {
        "claims": [export_advice(each) for each in advice],
        "campaign": {**content, "says": chosen.write_sentences()},
    }


COLUMNS = (
    "claim",
    "finding",
    "evidence",
    "at_hand",
    "set",
    "models",
    "download_gb",
    "minutes",
    "rows",
    "decided",
    "supported",
    "against",
    "declared",
    "out_of_reach",
    "says",
    "made_of",
)
OWN_SET = "own"
"""The set that is best for one claim alone; others are campaigns, named by their budget."""


def tabulate_campaigns(
    advice: Sequence[NextModels], campaigns: Sequence[Campaign]
) -> pd.DataFrame:
    """A row for each claim and set: its own best one, and every campaign."""
    rows = [_tabulate_set(each, each.sets[0] if each.sets else None, OWN_SET) for each in advice]
    for campaign in campaigns:
        name = f"{campaign.gigabytes:g} GB"
        rows += [_tabulate_set(each, shown, name) for each, shown in campaign.judged]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _tabulate_set(advice: NextModels, of: NextSet | None, name: str) -> tuple[Any, ...]:
    found = of.verdicts if of is not None else None
    predicted = found.predicted if found is not None else {}
    return (
        advice.claim,
        advice.finding,
        advice.evidence,
        advice.verdict,
        name,
        " ".join(model.model_id for model in of.models) if of is not None else "",
        of.download_gb if of is not None else 0.0,
        of.minutes if of is not None else 0.0,
        of.rows if of is not None else advice.rows,
        found.decided if found is not None else math.nan,
        predicted.get("supported", math.nan),
        predicted.get("not supported", math.nan),
        found.declared if found is not None else math.nan,
        ", ".join(found.out_of_reach) if found is not None else "",
        advice.first_line if name == OWN_SET else (of.why if of is not None else ""),
        advice.made_of,
    )
