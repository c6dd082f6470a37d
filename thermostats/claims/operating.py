"""What a rule could have shown: how often it says what in simulated worlds, and whether it hangs on one unit or source.

`make worlds` makes `data/worlds.csv`, one row per rule, number of models and world; reports read it and simulate
nothing. What a finding is asked over does not matter: outcomes are simulated.
"""

from __future__ import annotations

import hashlib
import math
import time
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype
from scipy import stats

from thermostats.claims.result import Estimate, Result, TooFew
from thermostats.claims.rule import AtLeast, Decide, Given, Rule
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, UNMEASURED, Reason, Verdict
from thermostats.claims.worlds import Search, World
from thermostats.errors import UsageError
from thermostats.formatting import plural
from thermostats.tables.folders import shipped

SIMULATIONS, LEAST = 400, 60
"""Studies a world, and the least where a test takes long."""
FALSE = 0.05
"""Largest rate of a false verdict, in every kind of world; a side that errs more often is withheld."""
WORST = 0.075
"""The same in the worst world that was found within the bounds of a search."""
FAIR = 0.5
"""Power at the declared size below which an open verdict is one of too little data."""
WANTED, TRIED = 0.8, 200
"""Power that a larger study should have, and simulations a size."""
EXAGGERATED = 1.05
"""Type M below which it is none."""
MANY = 200
"""Units above which none is left out."""
LARGER = (2, 3, 4, 6, 8, 12, 18)
NAMES = ("model_id", "heritage", "family", "recipe", "pair", "tokenizer", "corpus", "ancestor")
"""Columns of names that make units their own where a study is multiplied."""
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
class Trial:
    """What a primary rule reads, as a function of rows alone, so that other rows can be put in their place."""

    rows: Callable[..., pd.DataFrame]
    """Of the evidence, and of the record that the finding is asked over."""
    test: Callable[[pd.DataFrame], Result]
    unit: str = "heritage"
    """Column of the units that are left out one by one; empty: one counterexample decides, or the unit is the claim."""
    worlds: tuple[World, ...] = ()
    larger: str = "model"
    """What a larger study would have more of: `model`, each of a group of its own, `pair` or `prompt`."""
    searches: tuple[Search, ...] = ()
    """Where worlds are looked for in which the rule errs most."""
    version: int = 1
    """Raised by whoever changes what `test` computes or a world makes, so that rates of before count for nothing."""

    def of(self, evidence: Any, over: Any) -> pd.DataFrame:
        """The rows that were measured."""
        return self.rows(evidence) if over is None else self.rows(evidence, over)


@dataclass(frozen=True)
class Known:
    """What is known of a rule on the rows at hand."""

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
        said = [f"The rule was tried in {plural(len(self.rates), 'kind')} of simulated worlds on {self.design}."]
        for world in true[true["declared"].astype(bool)].to_dict("records"):
            wrong = f"“not supported” in {world['not_supported']:.1%}"
            said.append(f"With {world['words']} it says “supported” in {world['supported']:.0%} of studies, {wrong}.")
            if world["exaggeration"] > EXAGGERATED:
                said.append(
                    f"In the studies that support it, the estimate is {world['exaggeration']:.2g} "
                    "times the true one on average."
                )
        if len(false):
            worst = false.loc[false["supported"].idxmax()]
            low, high = false["not_supported"].min(), false["not_supported"].max()
            most = f"in at most {worst['supported']:.1%} ({worst['words']})" if worst["supported"] else "in none"
            against = " to ".join(dict.fromkeys((f"{low:.0%}", f"{high:.0%}")))
            said.append(
                f"Where the statement does not hold it says “supported” {most}, and “not supported” in {against}."
            )
        return " ".join(filter(None, [*said, self.coverage(), self.withheld()]))

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
        found = f"A study of this size finds an effect of the declared size in {self.power:.0%} of simulations"
        return f"{found}; even one {LARGER[-1]} times as large does in less than {WANTED:.0%}."


def _side(verdict: Verdict) -> str:
    return "supported" if verdict == SUPPORTED else "not_supported"


def hangs_on(rule: Rule, trial: Trial, rows: pd.DataFrame, verdict: Verdict) -> str:
    """The unit without which a decisive verdict would not be near; empty where there is none.

    Of more than `MANY` units none carries a verdict. Near: the estimate on the same side, p at most 0.20, a posterior
    probability of at least 0.80 (or at most 0.20). A unit without which the test cannot be made is passed over.
    """
    if not trial.unit or not 1 < len(units := rows[trial.unit].drop_duplicates()) <= MANY:
        return ""

    def rest(unit: Any) -> Result:
        return trial.test(rows[rows[trial.unit] != unit].reset_index(drop=True))

    return _falls_without(rule, verdict, units, rest)


def hangs_on_source(question: Any, evidence: Any, rows: pd.DataFrame, verdict: Verdict, least: AtLeast | None) -> str:
    """The source of rows without which a decisive verdict would not be near; empty where there is none.

    The rows are chosen anew without each source of the set in turn, so that a model which others measured too stays.
    Near: as for `hangs_on`. A source without which the rows are fewer than `least`, or the test cannot be made, is
    passed over, as nothing is known of it; and a set of one source has none to leave out. Where one counterexample
    decides (`Trial.unit` is empty), a verdict against the statement stands: leaving its source out takes nothing back.
    """
    if verdict == AGAINST and not question.trial.unit:
        return ""
    sources = evidence.sources(set(rows["model_id"])) if "model_id" in rows else []
    if len(sources) < 2:
        return ""

    def rest(source: str) -> Result:
        others = question.trial.of(evidence.without(source), question.over)
        if least is not None and not least.rows:
            least.of(others)
        result: Result = question.trial.test(others)
        if least is not None and least.rows and least.verdict(result) == UNMEASURED:
            raise TooFew(result)
        return result

    return _falls_without(question.primary, verdict, sources, rest)


def _falls_without(rule: Rule, verdict: Verdict, parts: Iterable[Any], rest: Callable[[Any], Result]) -> str:
    """The first part without which a decisive verdict would not be near; `rest`: the result without a part."""
    if verdict not in {SUPPORTED, AGAINST}:
        return ""
    for part in parts:
        try:
            result = rest(part)
        except (UsageError, TooFew):  # the rest does not carry the test: nothing is known of the part
            continue
        if not _stands(rule, verdict, replace(result, near=True)):
            return str(part)
    return ""


def _stands(rule: Rule, verdict: Verdict, rest: Result) -> bool:
    """Whether the condition of a verdict is still nearly met; that the other's nearly is, too, changes nothing."""
    decide = rule.rule if isinstance(rule, Given) else rule
    if not isinstance(decide, Decide):
        return decide.verdict(rest) == verdict
    return (decide.supported if verdict == SUPPORTED else decide.against).holds(rest)


def judged(rule: Rule, trial: Trial, rows: pd.DataFrame) -> tuple[Verdict, Estimate]:
    """Verdict and headline of some rows; open where they do not carry the test, or where it hangs on one unit."""
    try:
        result = trial.test(rows)
    except (UsageError, TooFew):
        return OPEN, Estimate(None)
    verdict = rule.verdict(result)
    return OPEN if hangs_on(rule, trial, rows, verdict) else verdict, result.headline


def _covered(headlines: Sequence[Estimate], truth: float) -> float:
    """Share of the intervals that hold a value, of those that there are."""
    ends = [(one.lower, one.upper) for one in headlines if one.lower is not None and one.upper is not None]
    return float(np.mean([low <= truth <= high for low, high in ends])) if ends else np.nan


def simulated(
    question: Any, rows: pd.DataFrame, world: World, n: int = SIMULATIONS, seconds: float = math.inf
) -> dict[str, Any]:
    """One row of the table: rates of verdicts over n simulated studies, and by how much support exaggerates.

    seconds: time after which no further study is made, of `LEAST` or more; the row says how many there were.
    exaggeration: mean estimate of the studies that support the statement over that of all, where it holds (type M;
    Gelman and Carlin 2014, doi:10.1177/1745691614551642).
    """
    seed = zlib.crc32(f"{key(question)} {len(rows)} {world.id}".encode())
    rng, rows = np.random.default_rng(seed), plain(rows)
    found: list[tuple[Verdict, Estimate]] = []
    start = time.process_time()
    while len(found) < n and (len(found) < LEAST or time.process_time() - start < seconds):
        found.append(judged(question.primary, question.trial, world.change(rows, rng)))
    verdicts = pd.Series([verdict for verdict, _ in found])
    estimates = pd.Series([headline.value for _, headline in found], dtype=float)
    covered = np.nan if world.truth is None else _covered([headline for _, headline in found], world.truth)
    yes = verdicts == SUPPORTED
    power = float(yes.mean())
    wanted = larger(question, rows, world, power) if world.declared else (np.nan, np.nan)
    values = (
        key(question),
        world.id,
        world.words,
        world.holds,
        world.declared,
        len(rows),
        len(found),
        power,
        float((verdicts == AGAINST).mean()),
        float(estimates[yes].mean() / estimates.mean()) if world.holds and yes.any() else np.nan,
        *wanted,
        seed,
        digest(question, world),
        "",
        covered,
    )
    return dict(zip(COLUMNS, values, strict=True))


def larger(question: Any, rows: pd.DataFrame, world: World, power: float) -> tuple[float, float]:
    """Models (or pairs, prompts) and groups that would give a power of 0.8: rows multiplied, each copy by itself.

    Units are not left out here: of many units none carries a verdict.
    """
    counted = "prompt_id" if question.trial.larger == "prompt" else "model_id"
    if power >= WANTED:
        return rows[counted].nunique(), rows["heritage"].nunique()
    every = replace(question.trial, unit="")

    def enough(times: int) -> bool:
        many, rng = multiplied(question, rows, times), np.random.default_rng(times)
        missed = 0
        for _ in range(TRIED):
            missed += judged(question.primary, every, world.change(many, rng))[0] != SUPPORTED
            if missed > TRIED * (1 - WANTED):
                return False
        return True

    if (place := bisect_left(LARGER, True, key=enough)) == len(LARGER):
        return np.nan, np.nan
    many = multiplied(question, rows, LARGER[place])
    return many[counted].nunique(), many["heritage"].nunique()


def plain(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows in numpy's types, parts of which are taken in no time."""
    kinds: dict[Any, Any] = {}
    for name, kind in rows.dtypes.items():
        if isinstance(kind, ExtensionDtype):
            lacks = np.float64 if pd.api.types.is_float_dtype(kind) or pd.api.types.is_integer_dtype(kind) else object
            kinds[name] = getattr(kind, "numpy_dtype", object) if not rows[name].hasnans else lacks
    return rows.astype(kinds).copy()


def multiplied(question: Any, rows: pd.DataFrame, times: int) -> pd.DataFrame:
    """A study so many times as large, each copy of the rows with names of its own."""
    names = ("prompt_id",) if question.trial.larger == "prompt" else NAMES
    copies = [
        rows.assign(**{name: rows[name].astype(str) + f" {copy}" for name in names if name in rows})
        for copy in range(times)
    ]
    return pd.concat(copies, ignore_index=True)


def key(question: Any) -> str:
    """The finding's id without what it is asked over."""
    return str(question.id if question.over is None else question.id.rpartition(".")[0])


def digest(question: Any, named: World | Search) -> str:
    """Of the rule, the version of the test and the world's words: rates of another version of them count for nothing.

    Whoever changes what a test computes raises its `Trial.version`; a test simulates some studies of every rule anew.
    """
    parts = (str(question.trial.version), question.primary.words(), str(named.holds), named.id, named.words)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@cache
def table() -> pd.DataFrame:
    """The committed rates of every finding and world."""
    path = shipped("data") / "worlds.csv"
    if not path.is_file():
        return pd.DataFrame(columns=list(COLUMNS)).astype(COLUMNS)
    return pd.read_csv(path, dtype=COLUMNS).reindex(columns=list(COLUMNS)).fillna({"point": ""})


def rates(question: Any, n_models: int) -> pd.DataFrame:
    """Rows of the table for one finding, of this version of its rule and a design of so many rows; may be empty."""
    every = table()
    if question.trial is None or every.empty:
        return every.iloc[:0]
    rows = every[(every["rule"] == key(question)) & (every["n_models"] == n_models)]
    valid = {named.id: digest(question, named) for named in (*question.trial.worlds, *question.trial.searches)}
    return rows[rows["world"].map(valid) == rows["digest"]].reset_index(drop=True)


def nearest(question: Any, n_models: int) -> tuple[pd.DataFrame, int]:
    """Rates of a finding's rule on the design nearest in size that it was tried on, and the size of that design."""
    sizes = table().loc[lambda own: own["rule"] == key(question), "n_models"].unique()
    found = {int(n): rates(question, int(n)) for n in sizes}
    tried = [n for n, rows in found.items() if len(rows)]
    if not tried:
        return rates(question, n_models), n_models
    size = min(tried, key=lambda n: (abs(math.log(n / max(n_models, 1))), n))
    return found[size], size


def missing(question: Any, rows: pd.DataFrame) -> Iterator[World | Search]:
    """Worlds and searches in which the finding's rule has not been tried as it is."""
    done = set(rates(question, len(rows))["world"])
    yield from (named for named in (*question.trial.worlds, *question.trial.searches) if named.id not in done)
