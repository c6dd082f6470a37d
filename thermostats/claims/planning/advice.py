"""The advice which models to measure next: its records, and what they say in words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from thermostats.claims.levels import SIDES
from thermostats.claims.planning.scoring import Looks, Verdicts
from thermostats.claims.planning.search import Budget
from thermostats.claims.result import SUPPORTED
from thermostats.formatting import (
    format_apart,
    format_count,
    format_number,
    format_percent,
    join_words,
    strip_owner,
)
from thermostats.modelling.planned import WANTED

UNKNOWN = "—"
NOT_STATED = "not stated"


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
    modality: str = ""


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
    def modalities(self) -> dict[str, str]:
        """What each model reads, by its name."""
        return {model.model_id: model.modality for model in self.models}

    @property
    def minutes(self) -> float:
        """Minutes of all."""
        return sum(model.minutes for model in self.models)

    @property
    def chance(self) -> float:
        """Probability of a verdict given the rows at hand; where these do not say how large the
        effect is, of “supported” at the size that the claim states; 0 without a test."""
        if self.verdicts is None:
            return 0.0
        decided = self.verdicts.decided
        return self.verdicts.declared if math.isnan(decided) else decided


@dataclass(frozen=True)
class NextModels:
    """The advice for one claim."""

    claim: str
    title: str
    finding: str
    evidence: str
    rows: int
    """Rows at hand."""
    budget: Budget
    looks: Looks
    sets: tuple[NextSet, ...] = ()
    """The best first."""
    why: str = ""
    """Why there is no set, in a sentence."""
    lines: tuple[str, ...] = ()
    """The commands that measure the best set, one for each kind of prompts."""
    verdict: str = ""
    """Of the rows at hand, by the report's rule; empty where they do not carry the test."""
    made_of: str = ""
    """Digest of the rule, its worlds, the rows at hand and the candidates."""

    def __repr__(self) -> str:
        return "\n".join([*write_sentences(self), *self.lines])

    @property
    def first_line(self) -> str:
        """What it comes to, in a sentence or two."""
        if not self.sets:
            return self._say_without_sets()
        best = self.sets[0]
        what = f"{format_count(len(best.models), 'model')} ({best.download_gb:.3g} GB)"
        if best.verdicts is None:
            return f"No {self._most} settle this: with the best set, {what}, {best.why}."
        if self.verdict in SIDES:
            return self._say_decided(what, best.verdicts)
        found = best.verdicts
        ahead = f"a verdict comes in {format_percent(found.decided)} of studies that keep the rows "
        ahead += "at hand and simulate theirs"
        if math.isnan(found.decided):
            ahead = "how often a verdict comes is not known, as the rows at hand do not say how "
            ahead += "large the effect is"
        true = f"“supported” in {format_percent(found.declared)} of studies in which the claim is "
        true += "true at the size that it states"
        if self.predicts_less:
            true += " (the rows at hand show a smaller effect)"
        if self.settled:
            return f"{what} would probably settle this. With them, {ahead}; {true}."
        return f"No {self._most} settle this. With the best set, {what}, {ahead}; {true}."

    def _say_without_sets(self) -> str:
        """Of a claim whose rows no model enters, or which has none."""
        why = f"{self.why[:1].upper()}{self.why[1:]}."
        if self.verdict in SIDES:
            return f"{self._decided} No public models would add to them. {why}"
        return f"No public models settle this. {why}"

    def _say_decided(self, what: str, found: Verdicts) -> str:
        """Of a claim that has a verdict."""
        if not found.predicted:
            return (
                f"{self._decided} Nothing has to be measured for it. With {what} more, how often "
                f"that would change is not known, as these rows do not say how large the effect is."
            )
        share = found.predicted.get(self.verdict, 0.0)
        kept = f"With {what} more it stays so in {format_percent(share)} of simulated studies."
        if share < WANTED:
            return f"{self._decided} More rows may reopen it. {kept}"
        return f"{self._decided} Nothing has to be measured for it. {kept}"

    @property
    def _decided(self) -> str:
        return f"The rows at hand decide this: {self.verdict}."

    @property
    def settled(self) -> bool:
        """Whether the best set mostly brings a verdict."""
        return bool(self.sets) and self.sets[0].chance >= WANTED

    @property
    def predicts_less(self) -> bool:
        """Whether the best set would mostly support the claim at the size that it states, and with
        the effect that the rows at hand have would not."""
        found = self.sets[0].verdicts if self.sets else None
        if found is None or not found.predicted:
            return False
        return found.declared >= WANTED and found.predicted[str(SUPPORTED)] <= 1 - WANTED

    @property
    def open(self) -> bool:
        """Whether the rows at hand leave the claim open."""
        return self.verdict not in SIDES

    @property
    def _most(self) -> str:
        within = f" within {self.budget.gigabytes:g} GB"
        return f"{format_count(self.budget.models, 'model')}{within}"


def write_sentences(advice: NextModels) -> list[str]:
    """The claim, what is at hand, and what the sets come to."""
    lines = [f"{advice.claim}. {advice.title}"]
    if advice.evidence:
        stands = advice.verdict or "too few for the test"
        rows = format_count(advice.rows, "row")
        lines.append(
            f"At hand: {rows} of the set “{advice.evidence}” for its "
            f"finding {advice.finding}: {stands}."
        )
    lines.append(advice.first_line)
    if not advice.sets:
        return lines
    best = advice.sets[0]
    if best.verdicts is not None:
        lines += _say_limits(advice, best.verdicts)
    unstated = []
    for model in best.models:
        if model.gated == NOT_STATED:
            unstated.append(strip_owner(model.model_id))
    if unstated:
        whether = "whether it is" if len(unstated) == 1 else "whether they are"
        lines.append(
            f"No source says of {join_words(unstated)} {whether} given to everyone on the hub "
            f"(huggingface.co); a page there that asks for a request wants it before the download."
        )
    budget = advice.budget
    lines.append(
        f"Sought were sets of at most {format_count(budget.models, 'model')} (--models) and "
        f"{budget.gigabytes:g} GB (--budget), one model added after the other and exchanged, not "
        f"every set there is."
    )
    if best.verdicts is not None:
        error = 196 * (0.25 / best.verdicts.studies) ** 0.5
        lines.append(
            f"Each share is of {best.verdicts.studies} simulated studies, so exact to "
            f"{error:.0f} percentage points."
        )
    return lines


def _say_limits(advice: NextModels, found: Verdicts) -> list[str]:
    """The limits of both sides, and which side the design of set 1 cannot reach."""
    lines = []
    for side in found.out_of_reach:
        least, limit = format_apart(found.least[side], found.limits[side])
        studies = f"{3 * found.studies:,} simulated studies"
        lines.append(
            f"“{side}” is out of reach of set 1: the smallest p of {studies} "
            f"is {least}, and it is given below {limit}."
        )
    if advice.open:
        limits = []
        for side in SIDES:
            limits.append(f"{format_number(found.limits[str(side)], 2)} ({side})")
        looks = advice.looks
        look = f"look {looks.taken + 1} of {looks.declared}"
        share = f"{100 * looks.share:.3g}%"
        lines.append(
            f"To ask for the verdict with new rows is {look} "
            f"(--looks, --taken); asking `next` is none. It is given at p below "
            f"{' or '.join(limits)}: 5% for all looks together, so {share} for "
            f"each, and less where plausible errors would bring it falsely more often. Looks, up "
            f"to five, are declared before the first."
        )
    return lines


COSTS = ("set", "models", "GB", "minutes", "gated", "rows", "interval")
CHANCES = ("set", *map(str, SIDES), "open", "if true", "if none", "least p")
"""Columns of the two tables over sets: what they cost and add, and which verdicts they bring."""
LEGEND = (
    "Sets stand by how often a verdict comes, then by “if true”, then by GB. GB: the download of "
    "bfloat16 files. minutes: forward passes on this machine as busy as it is now, without "
    "download and loading. gated: models that are given on request alone. rows: all that the claim "
    "would then read; a set may let models at hand enter, such as the second of a lab, or take the "
    "place of those tuned from its own. interval: width of the 95% interval of the finding, now "
    "and about then.",
    "supported, not supported, open: share of simulated studies in which the rows at hand stay as "
    "they are and the effect is drawn from what they say of it. if true: “supported” where the "
    "claim is true at the size that it states (the report's page “Simulated worlds” has it). if "
    "none: “not supported” where there is no effect. least p: the smallest of any simulated study, "
    "for “supported” / “not supported”; 0 where the claim is about every model and counterexamples "
    "refute it.",
    "adds: what is new to the rows at hand, and how many of them have what is not. shape: blocks × "
    "heads × width; 0 heads: a model without attention.",
)


def tabulate_costs(advice: NextModels) -> list[dict[str, Any]]:
    """What each set costs, and what it adds."""
    rows = []
    for place, each in enumerate(advice.sets, 1):
        gated = [model.gated for model in each.models]
        unstated = gated.count(NOT_STATED)
        values = (
            place,
            len(each.models),
            f"{each.download_gb:.3g}",
            f"{each.minutes:.2g}",
            f"{gated.count('yes')}" + f", {unstated} {NOT_STATED}" * (unstated > 0),
            each.rows,
            _write_interval(each),
        )
        rows.append(dict(zip(COSTS, values, strict=True)))
    return rows


def tabulate_chances(advice: NextModels) -> list[dict[str, Any]]:
    """How often each set brings each verdict."""
    chances: list[dict[str, Any]] = []
    for place, each in enumerate(advice.sets, 1):
        chances.append(dict(zip(CHANCES, (place, *_list_chances(each.verdicts)), strict=True)))
    return chances


def _list_chances(found: Verdicts | None) -> tuple[str, ...]:
    if found is None:
        return (UNKNOWN,) * (len(CHANCES) - 1)
    ahead = [UNKNOWN] * 3
    if found.predicted:
        ahead = [format_percent(share) for share in found.predicted.values()]
    least = [format_number(found.least[str(side)], 2) for side in SIDES]
    return (*ahead, format_percent(found.declared), format_percent(found.null), " / ".join(least))


def _write_interval(of: NextSet) -> str:
    if math.isnan(of.narrower):
        return "a first one"
    if math.isnan(of.width[0]):
        return f"{format_percent(of.narrower)} narrower"
    return f"{format_number(of.width[0], 2)} → {format_number(of.width[1], 2)}"


MODELS = ("model_id", "GB", "minutes", "gated", "adds")
"""Columns of the table over the models of a set."""


def tabulate_models(of: NextSet) -> list[dict[str, Any]]:
    """The models of a set."""
    rows = []
    for model in of.models:
        size = format_number(model.download_gb, 2)
        cost = (size, format_number(model.minutes, 2), model.gated)
        rows.append(dict(zip(MODELS, (model.model_id, *cost, model.adds), strict=True)))
    return rows


SUMMARY = ("claim", "at hand", "models", "GB", "verdict comes", "if true", "says")
"""Columns of the table over claims."""
SUMMARY_LEGEND = (
    "claim: `thermostats ls claims` names them, `thermostats next CLAIM` lists the best sets of "
    "one and the line that measures each. models, GB: the best set for this claim alone, of at "
    "most {models} models (--models) within {gigabytes:g} GB (--budget), and its download. "
    "verdict comes: of studies that keep the rows at hand and simulate those of the set, the "
    "share that gives “supported” or “not supported”, for a claim that is decided the share in "
    "which its verdict stays; —: not known, or no set. if true: the share that gives "
    "“supported” where the claim is true at the size that it states. too few rows: the test "
    "cannot be made yet."
)
"""What these columns mean."""


def summarise_advice(advice: NextModels) -> dict[str, Any]:
    """A claim's row of that table."""
    best = advice.sets[0] if advice.sets else None
    found = best.verdicts if best else None
    decided = found.decided if found else math.nan
    values = (
        advice.claim,
        advice.verdict or "too few rows",
        len(best.models) if best else 0,
        f"{best.download_gb:.3g}" if best else UNKNOWN,
        UNKNOWN if math.isnan(decided) else format_percent(decided),
        format_percent(found.declared) if found else UNKNOWN,
        advice.first_line,
    )
    return dict(zip(SUMMARY, values, strict=True))


def clear_numbers(value: Any) -> Any:
    """Records as JSON has them: what is no finite number is null."""
    if isinstance(value, dict):
        return {str(name): clear_numbers(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [clear_numbers(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def export_advice(advice: NextModels) -> dict[str, Any]:
    """The advice for JSON, with its sentences."""
    content: dict[str, Any] = clear_numbers(asdict(advice))
    return {**content, "says": write_sentences(advice)}
