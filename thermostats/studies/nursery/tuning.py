"""Pairs of a trained model and one tuned from it: whether a gain crosses 1 and by how much it changes, and worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import AtLeast, Decide, Each, Some, V
from thermostats.claims.worlds import searches_of_share, worlds_of_groups, worlds_of_share
from thermostats.modelling.classical.counts import clustered_share, proportion

ALPHA, MOST_FLIPS, NEGLIGIBLE = 0.05, 0.10, 0.05
WITHOUT_A_FLIP = int(np.ceil(np.log(0.025) / np.log(1 - MOST_FLIPS)))
"""Pairs without a flip that an upper limit below MOST_FLIPS takes."""
FLIPS, RATIO = V("pairs that change sides"), V("ratio")
CANNOT = Decide((FLIPS <= 0) & (V("share of flips").upper < MOST_FLIPS), FLIPS > 0)
MOVED = Decide(
    Some("pairs", RATIO.p <= ALPHA, adjust="holm"),
    Each("pairs", (RATIO.lower > 1 - NEGLIGIBLE) & (RATIO.upper < 1 + NEGLIGIBLE)),
)
PAIRS = AtLeast(models=16)
SOME, MANY, SHOULD = 0.01, 0.10, 0.20
"""Crossings in more than 1% are some; in fewer than 10% tuning as good as never crosses; 20% should be found."""
TUNED, CROSSED = AtLeast(models=40), V("share of pairs that cross 1")
BETWEEN = 0.2
"""Share of the variance of log ratios between pairs that would be of interest: pairs that change by 9% where prompts
differ by 18%; the null is none, so that a recipe that does differ is no world of it."""
CHANGES = tuple(
    world for world in worlds_of_groups("log_ratio", "pair", BETWEEN, 0.0) if world.id != "one outlying lab"
)
CAN_CROSS = Decide(CROSSED.lower > SOME, CROSSED.upper < MANY)
NONE_ACROSS = worlds_of_share("flips", 0.0, MOST_FLIPS)
ACROSS = worlds_of_share("flips", SHOULD, 0.0, "pair")
NONE_AT_WORST = searches_of_share("flips", 0.0, MOST_FLIPS)
ACROSS_AT_WORST = searches_of_share("flips", SHOULD, 0.0)


def by_flips(table: pd.DataFrame) -> Result:
    """Pairs whose intervals lie on both sides of 1."""
    flips = int(table["flips"].sum())
    share = Estimate.of(proportion(flips, len(table)), "Clopper–Pearson exact interval, 95%")
    return Result.of(table, {"share of flips": share, FLIPS.name: Estimate(flips)}, n_models=2 * len(table))


def by_prompts(rows: pd.DataFrame) -> Result:
    """Ratio of every pair with its t interval over prompts, Bonferroni over pairs."""
    by = rows.groupby("pair")["log_ratio"]
    table = pd.DataFrame({"mean": by.mean(), "error": by.sem(), "df": by.size() - 1})
    level = 1 - ALPHA / len(table)
    off = stats.t.ppf((1 + level) / 2, table["df"]) * table["error"]
    table = table.assign(
        **{f"ratio{end}": np.exp(table["mean"] + k * off) for end, k in (("", 0), ("_lower", -1), ("_upper", 1))}
    )
    table = table.assign(p=2 * stats.t.sf(np.abs(table["mean"] / table["error"]), table["df"])).reset_index()
    most = table.loc[table["p"].idxmin()]
    interval = f"paired t interval of the log ratio over prompts, {100 * level:.1f}%"
    clearest = Estimate(most["ratio"], most["ratio_lower"], most["ratio_upper"], interval, most["p"])
    moved = int(((table["ratio_lower"] > 1) | (table["ratio_upper"] < 1)).sum())
    words = {"moved": moved, "pairs": len(table), "most": most["pair"]}
    return Result.of(rows, {"ratio": clearest}, n_models=2 * len(table), table=None, rows={"pairs": table}, words=words)


def by_bases(rows: pd.DataFrame) -> Result:
    """Share of pairs that cross 1 clearly."""
    return Result.of(rows, {CROSSED.name: Estimate.of(clustered_share(rows["flips"], rows["pair"]))})


def crossings(rows: pd.DataFrame) -> dict[str, Any]:
    """Pairs that cross 1 by kind, of how many bases, and from how far."""
    crossing = rows[rows["flips"]]
    far = crossing["base"].abs()
    within = rows["base"].abs() <= (far.max() if len(far) else 0)
    return {
        "flips": len(crossing),
        "pairs": len(rows),
        "kinds": rows.groupby("kind")["flips"].agg(["sum", "size"]).to_dict("index"),
        "bases": rows["pair"].nunique(),
        "crossed": crossing["pair"].nunique(),
        "dampened": int(rows.drop_duplicates("pair")["dampens"].sum()),
        "downwards": int((crossing["base"] > 0).sum()),
        "farthest": float(np.exp(crossing["base"].loc[far.idxmax()])) if len(far) else None,
        "as_near": int(within.sum()),
    }
