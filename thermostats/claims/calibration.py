"""What a side of a rule is worth: its attained level held against the worst worlds in which it is
false.

`make worlds` makes the table by `levels.py`; reports read it. A side is given where its level is at
most 5% and below α* of the plausible box; where it would not be given in the hostile box, the
verdict carries that condition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.condition import END
from thermostats.claims.levels import (
    BOUNDS,
    HERE,
    HOSTILE,
    PLAUSIBLE,
    POWER,
    SIDES,
    TIPPING,
    Search,
    calibrate_rule,
    name_point,
    parse_point,
)
from thermostats.claims.question import Question, convert_numpy
from thermostats.claims.result import SUPPORTED, Verdict
from thermostats.claims.rule import ALPHA
from thermostats.formatting import format_count
from thermostats.modelling.planned import WANTED
from thermostats.tables.folders import find_shipped

TINY = 1e-6
"""Limit below which a page says what makes it so."""
FAIR = 0.5
"""Power at the declared size below which an open verdict is one of too little data."""
EXPENSIVE = 20.0
"""CPU-seconds that `thermostats report --calibrate` may take for one finding."""
COUNTED = ("prompt", "recipe")
"""What a larger study has more of, of which a number says enough."""
RETRIED = 2
"""Worst worlds that it simulates on the rows at hand."""
COLUMNS = {
    **dict.fromkeys(("rule", "side", "box", "point", "words", "digest"), str),
    **dict.fromkeys(("n_models", "studies"), int),
    **dict.fromkeys(("rate", *BOUNDS, "power", "models_wanted", "groups_wanted"), float),
}
ORDER = ("rule", "n_models", "side", "box", "point", "words", "studies", "rate", *BOUNDS)
ORDER += ("power", "models_wanted", "groups_wanted", "digest")


def pick_worst(worlds: pd.DataFrame) -> pd.Series:
    """The world of the lowest limit; of several the one of most false verdicts."""
    order = worlds.sort_values(["bound_05", "rate"], ascending=[True, False], kind="stable")
    return order.iloc[0]


@dataclass(frozen=True)
class Side:
    """One side of a rule on one design: its rows of the table."""

    rows: pd.DataFrame
    tried: bool = False
    """Whether the rule was tried on the design, with this side or the other."""

    def limit(self, box: str = PLAUSIBLE) -> float:
        """α*: the level below which the side is given, in the worst world of a box; NaN for a rule
        that was not tried.

        0 where the rule was tried, but not in a world in which this side is false: it is never
        given.
        """
        return self._limits.get(box, 0.0 if self.tried else math.nan)

    @cached_property
    def _limits(self) -> dict[str, float]:
        lowest = self.rows.groupby("box")["bound_05"].min()
        return {str(box): float(low) for box, low in lowest.items()}

    def gives(self, level: float, box: str = PLAUSIBLE) -> bool:
        """Whether a level is small enough; of a rule that was not tried 5% alone decides."""
        return bool(self.mark_given(np.asarray(level), box))

    def mark_given(self, levels: NDArray[np.float64], box: str = PLAUSIBLE) -> NDArray[np.bool_]:
        """The same of many levels."""
        limit = self.limit(box)
        return np.asarray((levels <= ALPHA) & (math.isnan(limit) | (levels < limit)))

    def limit_ends(self) -> tuple[float, float]:
        """95% interval of α* over simulations, as a share of them is uncertain; NaN where it is
        not known.

        A level a is met in a share p(a) of n studies; between the bounds of 1% and 5% ln a goes
        straight with ln p, and p has the standard error √(p(1 − p)/n).
        """
        worst = self.worst
        if worst is None:
            return self.limit(), self.limit()
        share = BOUNDS["bound_05"]
        off = END * math.sqrt((1 - share) / share / worst["studies"])
        slope = 1.0
        if worst["bound_01"] > 0:
            slope = math.log(worst["bound_05"] / worst["bound_01"])
            slope /= math.log(share / BOUNDS["bound_01"])
        low = max(1 - off, 0.0) ** slope
        high = (1 + off) ** slope
        return worst["bound_05"] * low, worst["bound_05"] * high

    def is_near(self, level: float) -> bool:
        """Whether a level lies within the error of α*, where α* decides and not 5%."""
        low, high = self.limit_ends()
        return 0 < low <= level <= min(high, ALPHA)

    def p(self, level: float) -> str:
        """p in the worst plausible world, in classes; empty where it is not known."""
        of_box = self.rows[self.rows["box"] == PLAUSIBLE]
        if of_box.empty:
            return ""
        classes = (("< .001", "bound_001"), ("< .01", "bound_01"), ("≤ .05", "bound_05"))
        return next(
            (words for words, column in classes if level < of_box[column].min()), "above .05"
        )

    @cached_property
    def worst(self) -> pd.Series | None:
        """The world in which the side is falsely given most often at 5%."""
        of_box = self.rows[self.rows["box"] == PLAUSIBLE]
        return pick_worst(of_box) if len(of_box) else None

    @property
    def error_rate(self) -> str:
        """How often the side comes falsely at 5% in that world, in words; empty where none was
        tried."""
        if (worst := self.worst) is None:
            return ""
        often = f"{worst['rate']:.1%} of {worst['studies']:,} studies"
        return (
            f"at 5% it would come falsely in {often} of the worst plausible world "
            f"({worst['words']})"
        )

    @property
    def power(self) -> float:
        """How often the side is given at min(5%, α*) in the world of the declared size; NaN where
        not simulated."""
        known = self.rows.loc[self.rows["box"] == POWER, "power"]
        return float(known.iloc[0]) if len(known) else math.nan

    @property
    def wanted(self) -> tuple[float, float]:
        """Models and groups that would give a power of 0.8; NaN where that is not known."""
        known = self.rows[self.rows["box"] == POWER]
        if known.empty:
            return math.nan, math.nan
        return tuple(known[["models_wanted", "groups_wanted"]].iloc[0])

    def condition(self, level: float) -> str:
        """What must not be so for a verdict of a level to stand: the hostile world in words; empty
        where it stands."""
        rows = self.rows[self.rows["box"] == HOSTILE]
        hostile = rows[rows["bound_05"] <= level]
        return str(pick_worst(hostile)["words"]) if len(hostile) else ""

    def tipping(self, level: float) -> tuple[str, ...]:
        """Where a verdict falls as one nuisance is raised, in words; of the level that was asked
        for alone."""
        rows = self.rows[self.rows["box"] == TIPPING]
        known = rows[np.isclose(rows["rate"], level, rtol=1e-3, atol=0)]
        return tuple(known["words"])


@dataclass(frozen=True)
class Calibration:
    """What is known of a rule on the rows at hand, or on the design nearest in size."""

    rows: pd.DataFrame
    size: int = 0
    """Rows of the design that was simulated."""
    here: int = 0
    """Rows at hand."""

    def side(self, verdict: Verdict) -> Side:
        """One side of the rule."""
        return self._sides[verdict]

    @cached_property
    def _sides(self) -> dict[Verdict, Side]:
        of_side = self.rows["side"]
        return {verdict: Side(self.rows[of_side == verdict], self.tried) for verdict in SIDES}

    @property
    def tried(self) -> bool:
        """Whether the rule was tried at all."""
        return len(self.rows) > 0

    @property
    def provisional(self) -> str:
        """Why a verdict is provisional, in words; empty where it is none."""
        if not self.tried:
            return "its rule has not been tried in simulated worlds"
        if self.size == self.here:
            return ""
        return (
            f"its limits are those of a design of {format_count(self.size, 'row')}, the nearest to "
            f"the "
            f"{self.here:,} here"
        )

    def explain_tiny(self) -> str:
        """Which sides have a limit below `TINY`, and what makes it so, in a sentence each; empty
        where none has."""
        said = []
        for verdict in SIDES:
            side = self.side(verdict)
            worst = side.worst
            if worst is None or side.limit() >= TINY:
                continue
            given = f"only below {side.limit():.1g}" if side.limit() > 0 else "at no level"
            said.append(
                f"“{verdict}” is given {given}, since with {worst['words']}, where it is false, "
                f"{worst['rate']:.0%} of studies give it at 5%."
            )
        return " ".join(said)

    def takes(self, larger: str, least: int = 0) -> str:
        """What finds the declared effect mostly, with no stop; empty if unknown, up to `least`, or
        without `larger`.

        Of models and pairs no number is named, as it depends on which: `next` names them.
        """
        wanted = self.side(SUPPORTED).wanted[0]
        if larger not in COUNTED or math.isnan(wanted) or wanted <= least:
            return ""
        needed = format_count(int(wanted), larger)
        return f"{needed} would find an effect of the declared size in {WANTED:.0%} of cases"


@cache
def load_levels() -> pd.DataFrame:
    """The committed levels of every rule, design and world."""
    path = find_shipped("data") / "worlds.csv"
    if not path.is_file():
        return pd.DataFrame(columns=list(ORDER)).astype(COLUMNS)
    return pd.read_csv(path, dtype=COLUMNS).reindex(columns=list(ORDER)).fillna({"point": ""})


def select_design(question: Question, n: int) -> pd.DataFrame:
    """Rows of the table of this version of a rule on a design of so many rows; may be empty."""
    every = load_levels()
    if question.trial is None or question.trial.worlds is None or every.empty:
        return every.iloc[:0]
    of_rule = every["rule"] == question.key
    of_size = every["n_models"] == n
    mine = of_rule & of_size & (every["digest"] == question.digest())
    return every[mine].reset_index(drop=True)


def find_nearest_size(sizes: Sequence[int], n: int) -> int:
    """Of numbers of rows the one nearest to n by ratio; of two the smaller."""
    return min(sizes, key=lambda size: (abs(math.log(size / max(n, 1))), size))


def find_nearest(question: Question, n: int) -> Calibration:
    """What is known of a rule on the design nearest in size to n rows that it was tried on."""
    sizes = load_levels().loc[lambda frame: frame["rule"] == question.key, "n_models"].unique()
    by_size = {int(size): select_design(question, int(size)) for size in sizes}
    known = [size for size, rows in by_size.items() if len(rows)]
    if not known:
        return Calibration(select_design(question, n), n, n)
    size = find_nearest_size(known, n)
    return Calibration(by_size[size], size, n)


def calibrate_rows(question: Question, rows: pd.DataFrame) -> Calibration:
    """What is known of a rule on rows of one's own: its two worst worlds simulated on them, or all
    where none is known.

    It takes at most about `EXPENSIVE` CPU-seconds.
    """
    known = find_nearest(question, len(rows))
    if known.tried and known.size == len(rows):
        return known
    if question.trial is None or question.trial.worlds is None:
        return known
    if not known.tried:
        made = list(calibrate_rule(question, rows, HERE, EXPENSIVE / 100))
    else:
        worst = known.rows[known.rows["box"].isin([PLAUSIBLE, HOSTILE])].sort_values("bound_05")
        worst = worst.groupby(["side", "box"]).head(RETRIED)
        made = []
        rows_here = convert_numpy(rows)
        for row in worst.itertuples():
            side = Verdict(row.side)
            search = Search(question, rows_here, side, (), HERE, EXPENSIVE / len(worst))
            point = parse_point(str(row.point))
            simulated = search.simulate_point(point, str(row.box), HERE.fresh)
            made.append({**simulated, "point": name_point(point)})
        made += known.rows[known.rows["box"] == POWER].to_dict("records")
    return Calibration(pd.DataFrame(made).reindex(columns=list(ORDER)), len(rows), len(rows))
