"""Gains early in training against those at its end, among models of one shape: rows, tests and worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from thermostats.claims.rule import Decide, Given
from thermostats.claims.worlds import Search, World, searches_among, worlds_of_line
from thermostats.studies.nursery.signs import HALF, KAPPA, RARE, RARER, R, by_ranks, fixed_from, log_gains, ranked_in

ALPHA, FIXED = 0.05, 0.9
"""Level, and the correlation with the end that is called fixed; the null is 0, what chance keeps."""
CELL = ["n_layers", "rho", "d_model"]
SETTLES = Given(RARE >= RARER, Decide(R.lower > HALF, R.upper < HALF))
"""The rule of the later studies."""
PREDICTS = Given(RARE >= RARER, Decide((R.p <= ALPHA) & (R.lower > HALF), R.upper < HALF))
"""That of the first."""
ON_A_LINE = worlds_of_line("end", "ranked", FIXED)
FREE = 5 / 8
"""Share of the errors' variance that lies inside the cells of the design: 24 cells of 64 models."""


def inside(r: float, free: float = FREE) -> World:
    """A world in which a moment goes with the end at r inside cells, which needs less over all rows.

    free: the share of the errors' variance that lies inside cells, 1 − cells/models.
    """
    over_all = (r**2 * free / (1 - r**2 * (1 - free))) ** 0.5
    return replace(worlds_of_line("end", "ranked", over_all)[0], words=f"correlation {r:g} inside cells, normal errors")


def halfway(free: float = FREE) -> World:
    """The bar of the rules: on either side of it a verdict is false."""
    return replace(inside(HALF, free), id="half", holds=False, declared=False)


AT_HALF = halfway()
WORLDS = (inside(FIXED), AT_HALF, *ON_A_LINE[1:])


def at_the_bar(cells: int, models: int) -> tuple[Search, ...]:
    """Where rules of ranks are looked at hardest: at their bar and as claimed, with errors alike in recipes.

    Errors are normal: others have another rank correlation, and lie off the bar.
    """
    free = 1 - cells / models
    tried = (inside(FIXED, free), halfway(free))
    return searches_among(tried, group="recipe", outcome="end", mean=(-1.0, 1.0), kinds=("normal",), sided=True)


@dataclass(frozen=True)
class Moment:
    """A share of training, in words, and the factor of the recipe that colours its figure."""

    id: str
    share: float
    words: str
    factor: str


MOMENTS = (Moment("tenth", 0.1, "10% of training", "init"), Moment("start", 0.0, "initialisation", "optimiser"))


def at(logs: pd.DataFrame) -> tuple[float, float] | None:
    """Shares of models whose sign is final from a tenth of training, and from its start; None without models."""
    fixed = fixed_from(logs)
    return (float(fixed[0.1].mean()), float(fixed[0.0].mean())) if len(logs) else None


def with_models(rows: pd.DataFrame, gain: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Log gains by share of training, and models with the cell of the design that holds all of the shape."""
    logs = log_gains(rows, gain)
    models = rows[~rows["tuned"]].drop_duplicates("model", keep="last").set_index("model").loc[logs.index].reset_index()
    return logs, models.assign(cell=models[CELL].astype(str).agg(" ".join, axis=1))


def early_and_end(logs: pd.DataFrame, models: pd.DataFrame, share: float) -> pd.DataFrame:
    """Log gains at a share of training and at the end."""
    rows = models.filter(["model_id", "recipe", "heritage", "cell", "study"])
    return rows.assign(early=logs[share].to_numpy(), end=logs.iloc[:, -1].to_numpy())


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the rank of the early gain off the mean rank of its cell."""
    return rows.assign(ranked=ranked_in(rows["early"], rows["cell"]))


def of_corpus(rows: pd.DataFrame) -> dict[str, float | None]:
    """Models on either side at the end, those that kept their side, and the correlation; of one corpus."""
    r = by_ranks(rows).quantities[R.name]
    ends = {"r": r.value, "lower": r.lower, "upper": r.upper}
    same_side = int(((rows["early"] > 0) == (rows["end"] > 0)).sum())
    return {**ends, "models": len(rows), "dampen": int((rows["end"] < 0).sum()), "kept": same_side}


def along_training(at_share: Callable[[float], pd.DataFrame], shares: Sequence[float]) -> pd.DataFrame:
    """By share of training: models that dampen, correlation with the end inside cells and κ, with their intervals."""
    rows = []
    for share in shares:
        if (at_step := at_share(share)).empty:
            continue
        quantities = by_ranks(at_step).quantities
        row: dict[str, float | None] = {
            "share": share,
            "models": len(at_step),
            "dampen": int((at_step["early"] < 0).sum()),
        }
        for name, q in (("r", quantities[R.name]), ("kappa", quantities[KAPPA])):
            row |= {name: q.value, f"{name}_lower": q.lower, f"{name}_upper": q.upper}
        rows.append(row)
    return pd.DataFrame(rows)
