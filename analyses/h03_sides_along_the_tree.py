"""H03: how often the side of 1 changes along branches of descent, and on which kind of branch."""

from collections.abc import Container
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    PUBLISHED,
    Case,
    Claim,
    Evidence,
    Result,
    Trial,
    Views,
)
from thermostats.claims.common_tests import count_share
from thermostats.claims.rule import AtLeast, Decide, V
from thermostats.claims.worlds import build_share_worlds
from thermostats.modelling.classical.counts import estimate_proportion
from thermostats.plots.general import draw_forest, prepare_drawing
from thermostats.tables.reading import keep_last_revision
from thermostats.tables.schemas import NURSERY

SELDOM, CLAIMED = 0.25, 0.05
"""Share of branches on which the side may change where it is said to change seldom; the declared
one."""
SCALED = "scaled"
"""Kind of the branch between neighbours in size that were trained from scratch by one recipe."""
SHARE = V("share of branches that change the side")
KEEPS = Decide(SHARE.upper < SELDOM, SHARE.lower > SELDOM)
LEAST = AtLeast(models=8)
GAINS = (
    Case("penultimate_gain", "penultimate gain", "penultimate_gain"),
    Case("last_gain", "gain of the last block", "last_gain"),
)
CLAIM = Claim.read(__file__)


@CLAIM.shared
def build_branches(evidence: Evidence, gain: str) -> pd.DataFrame:
    """One row per branch, both ends measured by one source: parent, model_id (the child), kind,
    changes.

    A branch leads from the nearest measured ancestor by weights, or from the next smaller model of
    the same family. `changes`: the 95% intervals over prompts exclude 1 on opposite sides.
    """
    models = load_model_gains(evidence, gain)
    above = evidence.table("lineage")
    parents = dict(zip(above["model_id"], above["parent"], strict=True))
    kinds = dict(zip(above["model_id"], above["kind"], strict=True))
    found = []
    for _, own in models.groupby("source"):
        ends = own.set_index("model_id").to_dict("index")
        pairs = {name: find_ancestor(name, parents, ends) for name in ends}
        found += [(parent, name, kinds[name], ends) for name, parent in pairs.items() if parent]
        alone = own[
            ~own["model_id"].map(pairs).astype(bool)
            & (own["family"] != "")
            & (own["seed_of"] == "")
        ]
        for _, recipe in alone.sort_values("n_params").groupby(["heritage", "family"]):
            found += [
                (smaller, larger, SCALED, ends) for smaller, larger in pairwise(recipe["model_id"])
            ]
    table = pd.DataFrame([build_row(*branch) for branch in found], columns=list(COLUMNS))
    order = table.sort_values(["model_id", "n_prompts"], ascending=[True, False], kind="stable")
    return order.drop_duplicates(["parent", "model_id"], ignore_index=True)


COLUMNS = (
    "model_id",
    "parent",
    "kind",
    "heritage",
    "family",
    "source",
    "n_prompts",
    "before",
    "after",
    "changes",
)


def build_row(
    parent: str, child: str, kind: str, ends: dict[str, dict[str, Any]]
) -> tuple[Any, ...]:
    """One branch as a row of `COLUMNS`."""
    a = ends[parent]
    b = ends[child]
    changes = (a["upper"] < 1 < b["lower"]) or (b["upper"] < 1 < a["lower"])
    n = min(a["n_prompts"], b["n_prompts"])
    return (
        child,
        parent,
        kind or "not stated",
        b["heritage"],
        b["family"],
        b["source"],
        n,
        a["gain"],
        b["gain"],
        changes,
    )


def find_ancestor(name: str, parents: dict[str, str], ends: Container[str]) -> str:
    """The nearest ancestor by weights that was measured; empty: none."""
    above = parents.get(name, "")
    while above and above not in ends:
        above = parents.get(above, "")
    return above


def load_model_gains(evidence: Evidence, gain: str) -> pd.DataFrame:
    """One row per model and source: gain with its 95% t interval over prompts, from the run with
    most prompts."""
    every = keep_last_revision(evidence.table("features").dropna(subset=gain), "model_id")
    every = every[every["comparable"] & (every[gain] > 0)]
    sizes = evidence.table("prompts").groupby("prompt_set").size()
    own = every[f"{gain}_n"].astype("float64")
    n = own.where(own > 0, every["prompt_set"].map(sizes).astype("float64"))
    half = stats.t.ppf(0.975, n - 1) * every[f"{gain}_sd"].astype("float64") / np.sqrt(n)
    value = every[gain].astype("float64")
    kept = ["model_id", "heritage", "family", "seed_of", "source", "n_params"]
    rows = every[kept].assign(gain=value, lower=value - half, upper=value + half, n_prompts=n)
    known = rows[rows["lower"].notna()]
    return known.sort_values("n_prompts", ascending=False, kind="stable").drop_duplicates(
        ["model_id", "source"]
    )


def select_rows(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """The branches that the rule reads."""
    return build_branches(evidence, gain.column)


CHANGED = count_share(SHARE.name, "changes")
"""The share of branches that change the side, with its exact interval."""
VIEWS = Views(models=8, sets=(PUBLISHED, EXTERNAL, MEASURED, NURSERY))
WORLDS = build_share_worlds("changes", CLAIMED, SELDOM)
TRIAL = Trial(select_rows, CHANGED, "heritage", WORLDS, "pair")


@CLAIM.finding(
    "sides", primary=KEEPS, over=GAINS, trial=TRIAL, evidence=POOLED, needs=LEAST, views=VIEWS
)
def judge_sides(evidence: Evidence, gain: Case) -> Result:
    """All branches, and by kind."""
    every = select_rows(evidence, gain)
    words = {
        "over_1": every[every["changes"].astype(bool)].to_dict("records"),
        "branches": len(every),
    }
    rows = LEAST.check_rows(every, shown=[], **words)
    counts = rows.groupby("kind")["changes"].agg(["sum", "size"])
    shares = [estimate_proportion(int(k), int(n)) for k, n in counts.itertuples(index=False)]
    shown = counts.reset_index().assign(
        share=[one.estimate for one in shares],
        lower=[one.lower for one in shares],
        upper=[one.upper for one in shares],
    )
    labelled = shown.assign(
        kind=[f"{kind} ({n})" for kind, n in zip(shown["kind"], shown["size"], strict=True)]
    )
    draw = prepare_drawing(
        draw_forest,
        labelled,
        label="kind",
        estimate="share",
        null=SELDOM,
        xlabel="share of branches that change the side of 1",
    )
    return CHANGED(rows).adding(
        table=rows, draw=draw, words=words | {"shown": shown.to_dict("records")}
    )


if __name__ == "__main__":
    CLAIM.main()
