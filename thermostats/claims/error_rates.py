"""What is known of a rule's errors: its rows of `data/worlds.csv`, and which side errs too often to be given.

`make worlds` makes the table by `simulation.py`, one row per rule, number of models and world; reports read it and
simulate nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.question import Question
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, Reason, Verdict
from thermostats.claims.worlds import Search, World
from thermostats.formatting import plural
from thermostats.tables.folders import shipped

FALSE = 0.05
"""Largest rate of a false verdict, in every kind of world; a side that errs more often is withheld."""
WORST = 0.075
"""Largest rate of a false verdict in the worst world that was found within the bounds of a search."""
FAIR = 0.5
"""Power at the declared size below which an open verdict is one of too little data."""
WANTED = 0.8
"""Power that a larger study should have."""
NEVER_SEEN = 0.005
"""Power that is none to a per cent."""
EXAGGERATED = 1.05
"""Type M below which it is none."""
LARGER = (2, 3, 4, 6, 8, 12, 18)
"""How many times as large it is tried."""
COLUMNS = {
    "rule": str,
    "world": str,
    "words": str,
    "holds": bool,
    "declared": bool,
    "n_models": int,
    "simulations": int,
    "supported": float,
    "not_supported": float,
    "exaggeration": float,
    "models_wanted": float,
    "groups_wanted": float,
    "seed": int,
    "digest": str,
    "point": str,
    "covered": float,
}


@dataclass(frozen=True)
class ErrorRates:
    """What is known of a rule's errors on the rows at hand."""

    rates: pd.DataFrame
    """Rows of the committed table; may be empty."""
    hangs_on: str = ""
    """The unit without which the verdict would not stand."""
    source: str = ""
    """The source of rows without which it would not stand."""
    larger: str = "model"
    """What a larger study would have more of."""
    design: str = "this design"
    """What it was tried on."""
    smaller: bool = False
    """That design is smaller, so its power is not that of the rows at hand."""
    untried: int = 0
    """Kinds of worlds and searches that the rule was not tried in, where it was tried in others."""

    @property
    def power(self) -> float:
        """How often it supports the statement in the world of the declared size; NaN where that was not simulated."""
        declared = self.rates[self.rates["declared"].astype(bool)]
        return float(declared["supported"].iloc[0]) if len(declared) and not self.smaller else np.nan

    def worst(self, verdict: Verdict) -> pd.Series | None:
        """The world in which a decisive verdict is falsely given too often, so that it is withheld; None without one.

        In a world that was looked for, that is beyond 7.5%; in any other, beyond 5% by more than chance: of a rule that
        errs in 5% so many false verdicts or more would come in less than 5% of simulations.
        """
        if verdict not in {SUPPORTED, AGAINST}:
            return None
        side, holds = _side(verdict), self.rates["holds"].astype(bool)
        false = self.rates[holds if verdict == AGAINST else ~holds]
        by_chance = stats.binom.sf((false[side] * false["simulations"]).round() - 1, false["simulations"], FALSE)
        errs = np.where(false["point"] != "", false[side] > WORST, by_chance < FALSE)
        return false.loc[false.loc[errs, side].idxmax()] if errs.any() else None

    @property
    def silent(self) -> bool:
        """Whether neither side of the rule is given, whatever the data."""
        return self.worst(SUPPORTED) is not None and self.worst(AGAINST) is not None

    def withheld(self) -> str:
        """Which sides of the rule are not given, and where they err, in plain words; empty where none is withheld."""
        return " ".join(
            f"“{verdict}” is withheld: it comes falsely in {worst[_side(verdict)]:.1%} of "
            f"{worst['simulations']:,} studies with {worst['words']}."
            for verdict in (SUPPORTED, AGAINST)
            if (worst := self.worst(verdict)) is not None
        )

    def could(self) -> str:
        """What the rule could have shown, in plain words."""
        if self.rates.empty:
            return "The rule has not been tried in simulated worlds of this design, so its error rates are unknown."
        true, false = (self.rates[self.rates["holds"].astype(bool) == holds] for holds in (True, False))
        sentences = [f"The rule was tried in {plural(len(self.rates), 'kind')} of simulated worlds on {self.design}."]
        for world in true[true["declared"].astype(bool)].to_dict("records"):
            wrong = f"“not supported” in {world['not_supported']:.1%}"
            sentences.append(
                f"With {world['words']} it says “supported” in {world['supported']:.0%} of studies, {wrong}."
            )
            if world["exaggeration"] > EXAGGERATED:
                sentences.append(
                    f"In the studies that support it, the estimate is {world['exaggeration']:.2g} "
                    "times the true one on average."
                )
        if len(false):
            worst = false.loc[false["supported"].idxmax()]
            low, high = false["not_supported"].min(), false["not_supported"].max()
            most = f"in at most {worst['supported']:.1%} ({worst['words']})" if worst["supported"] else "in none"
            against = " to ".join(dict.fromkeys((f"{low:.0%}", f"{high:.0%}")))
            sentences.append(
                f"Where the statement does not hold it says “supported” {most}, and “not supported” in {against}."
            )
        if self.untried:
            more = plural(self.untried, "kind")
            sentences.append(
                f"It has not been tried in {more} yet, so its verdict may not stand: `make worlds` does that."
            )
        return " ".join(filter(None, [*sentences, self.coverage(), self.withheld()]))

    def coverage(self) -> str:
        """How often the interval holds the true value in worlds that know it; empty where none does."""
        covered = self.rates.dropna(subset="covered")
        if covered.empty:
            return ""
        low, high = covered.loc[covered["covered"].idxmin()], covered["covered"].max()
        return (
            f"Where the true value is known, the interval holds it in {low['covered']:.1%} ({low['words']}) "
            f"to {high:.1%} of studies."
        )

    def takes(self, group: str, least: int = 0) -> str:
        """What a study takes that finds the declared effect mostly, in plain words; empty where that is not known.

        It is empty too where it is no more than the `least` models without which the test is not made.
        """
        declared = self.rates[self.rates["declared"].astype(bool) & (self.rates["models_wanted"] > least)]
        if declared.empty:
            return ""
        wanted = declared.iloc[0]
        needed = plural(int(wanted["models_wanted"]), self.larger)
        needed += f" of {plural(int(wanted['groups_wanted']), group)}" if self.larger == "model" else ""
        return f"{needed} would find an effect of the declared size in {WANTED:.0%} of simulations."

    def sentence(self, verdict: Verdict, group: str, reason: Reason = Reason.NONE) -> str:
        """The error rates that bear on a verdict by the rule, in plain words; empty where nothing was simulated.

        reason: why the verdict that stands is open; where columns are put into blocks one way or another, no number of
        models settles it.
        """
        if reason == Reason.CODING:
            return "More models of this kind settle nothing: the answer is another when columns change their block."
        if self.hangs_on or self.source:
            without = self.hangs_on or f"the rows of the source {self.source}"
            return f"Without {without} the verdict would not stand, so it is left open."
        if self.silent and verdict == OPEN:
            return "The rule errs too often on either side to be believed, so neither verdict is given."
        if (worst := self.worst(verdict)) is not None:
            rate = f"{worst[_side(verdict)]:.1%} of simulated studies ({worst['words']})"
            return f"The rule says “{verdict}” falsely in {rate}, too often to be believed, so this side is withheld."
        return self.wanted(group) if verdict == OPEN and self.power < FAIR else ""

    def wanted(self, group: str) -> str:
        """What a larger study would find, in plain words; no number where the rule cannot say “supported”."""
        if self.worst(SUPPORTED) is not None:
            return "The rule cannot say “supported” of models of this kind, so no number of models is named."
        if takes := self.takes(group):
            return f"{takes} A study of this size finds it in {self.power:.0%} of them."
        often = f"finds an effect of the declared size in {self.power:.0%} of simulations"
        power = often if self.power >= NEVER_SEEN else "cannot find an effect of the declared size"
        return f"A study of this size {power}; one {LARGER[-1]} times as large does in less than {WANTED:.0%} of them."


def _side(verdict: Verdict) -> str:
    return "supported" if verdict == SUPPORTED else "not_supported"


@cache
def table() -> pd.DataFrame:
    """The committed rates of every finding and world."""
    path = shipped("data") / "worlds.csv"
    if not path.is_file():
        return pd.DataFrame(columns=list(COLUMNS)).astype(COLUMNS)
    return pd.read_csv(path, dtype=COLUMNS).reindex(columns=list(COLUMNS)).fillna({"point": ""})


def rates(question: Question, n_models: int) -> pd.DataFrame:
    """Rows of the table for one finding, of this version of its rule and a design of so many rows; may be empty."""
    every = table()
    if question.trial is None or every.empty:
        return every.iloc[:0]
    rows = every[(every["rule"] == question.key) & (every["n_models"] == n_models)]
    valid = {named.id: question.digest(named) for named in question.trial.places}
    return rows[rows["world"].map(valid) == rows["digest"]].reset_index(drop=True)


def nearest(question: Question, n_models: int) -> tuple[pd.DataFrame, int]:
    """Rates of a finding's rule on the design nearest in size that it was tried on, and the size of that design."""
    sizes = table().loc[lambda frame: frame["rule"] == question.key, "n_models"].unique()
    by_size = {int(n): rates(question, int(n)) for n in sizes}
    tried = [n for n, rows in by_size.items() if len(rows)]
    if not tried:
        return rates(question, n_models), n_models
    size = min(tried, key=lambda n: (abs(math.log(n / max(n_models, 1))), n))
    return by_size[size], size


def missing(question: Question, tried: pd.DataFrame) -> list[World | Search]:
    """Worlds and searches in which a finding's rule, tried in those of these rates, has still to be tried."""
    _, trial = question.on_trial()
    return [named for named in trial.places if named.id not in set(tried["world"])]


def untried(question: Question, tried: pd.DataFrame) -> int:
    """How many are missing of a rule that was tried in others; 0 of one that was tried in none."""
    return len(missing(question, tried)) if len(tried) else 0
