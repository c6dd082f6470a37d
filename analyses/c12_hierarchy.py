"""C12: the unified hierarchy Pythia 0.80 < Mistral 1.11 < LLaMA 1.48 < Gemma 2.31."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import (
    Claim,
    Estimate,
    Evidence,
    Inference,
    OneByOne,
    Result,
    Trial,
    Views,
)
from thermostats.claims.rule import Always, Decide, Each, Posterior, Some, V
from thermostats.claims.worlds import worlds_of_levels
from thermostats.errors import UsageError
from thermostats.formatting import short_name
from thermostats.modelling.classical.many import counted, exponential, means
from thermostats.modelling.fit import Fit
from thermostats.modelling.ranking import fit_benchmark
from thermostats.modelling.specification import between_labs, smallest_step
from thermostats.plots.general import drawing, strip_by_group
from thermostats.studies.delia2026 import curves, hierarchy
from thermostats.studies.delia2026.hierarchy import ORDER
from thermostats.studies.delia2026.stated_facts import (
    BENCHMARK,
    LAST_GAIN_FILES,
    TWIN,
    published_or_set,
    wide,
)

SEED = 12
LEAST_BASES = 2
RATIO = V("ratio")
BASES = V("base models of the family with fewest")
REVERSED = "clear reversals that share no model"
RISES, FALLS = Each("steps", V(hierarchy.OVER_CATEGORIES).lower > 1), Some("steps", RATIO.upper < 1)
"""Over prompts "supported" would be false more often where prompts of a category are alike."""
OF_MODELS = Posterior(" < ".join(map(short_name, ORDER)))
OF_FAMILIES = Posterior("every model above every one of the family before it")
STATED, TIED = (0.80, 1.11, 1.48, 2.31), (0.80, 1.11, 1.11, 2.31)
"""Levels by place as the claim states them, and the null nearest to them: two neighbours alike."""
LEVELS, NULL = (dict(enumerate(map(np.log, own))) for own in (STATED, TIED))
WORLDS = worlds_of_levels("log_gain", LEVELS, NULL, unit="place", column="place")
CLAIM = Claim.read(__file__)


def in_order(rows: pd.DataFrame) -> Result:
    """Every step; it is headed by the one of the lowest limit, and by the largest p."""
    order = hierarchy.steps(rows)
    worst = order.loc[order["ratio_lower"].idxmin()]
    bases = rows[~rows["tuned"]].drop_duplicates("model_id")
    kind = f"paired t interval of the log ratio, {100 * (1 - 0.05 / len(order)):.1f}%"
    ratio, lower, upper = (float(worst[name]) for name in ("ratio", "ratio_lower", "ratio_upper"))
    estimate = Estimate(ratio, lower, upper, kind, float(order["p"].max()), "one-sided p-value")
    return Result(
        quantities={
            RATIO.name: estimate,
            BASES.name: Estimate(int(bases.groupby("place").size().min())),
            REVERSED: Estimate(hierarchy.replicated(order, rows)),
        },
        rows={"steps": order},
        table=order,
        n_models=rows["model_id"].nunique(),
        n_groups=rows["heritage"].nunique(),
    )


def steps_at_once(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Every step of models that met the same prompts, over prompts and over categories, of many
    studies."""
    pairs = hierarchy.neighbours(rows)
    places = rows.assign(at=np.arange(len(rows))).pivot(
        index=["prompt_id", "category"], columns="model_id", values="at"
    )
    if places.isna().any(axis=None):
        raise UsageError("models of different prompts")
    gains = outcomes["log_gain"][:, places.to_numpy(np.int64)]
    names, (codes, categories) = (
        list(places.columns),
        pd.factorize(places.index.get_level_values("category")),
    )
    by_category = (codes[:, None] == np.arange(len(categories))) / np.bincount(codes)
    steps = []
    for low, high in pairs:
        apart = gains[..., names.index(high)] - gains[..., names.index(low)]
        over = {
            RATIO.name: (apart, 0.05 / len(pairs)),
            hierarchy.OVER_CATEGORIES: (apart @ by_category, 0.05),
        }
        steps.append(
            {
                name: exponential(means(logs, level=1 - alpha))
                for name, (logs, alpha) in over.items()
            }
        )
    return {"steps": steps}


def members_at_once(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """The same with reversals that share no model, and base models."""
    found = steps_at_once(rows, outcomes)
    pairs = pd.DataFrame(hierarchy.neighbours(rows), columns=["lower", "higher"])
    upper = np.stack([step[RATIO.name].upper for step in found["steps"]], axis=1)
    reversed_ = [
        hierarchy.replicated(pairs.assign(ratio_upper=of_study), rows) for of_study in upper
    ]
    bases = (
        rows[~rows["tuned"].astype(bool)].drop_duplicates("model_id").groupby("place").size().min()
    )
    return {
        **found,
        REVERSED: counted(np.array(reversed_)),
        BASES.name: counted(np.full(len(upper), bases)),
    }


@CLAIM.shared
def last_gains(evidence: Evidence) -> pd.DataFrame:
    """Last gains by prompt of every file, every run, with categories."""
    return published_or_set(evidence, "last_gain", *LAST_GAIN_FILES)


def members(evidence: Evidence) -> pd.DataFrame:
    """Logs of last gains of every measured model of the families, tuned ones too, by the place of
    the family."""
    tuned = evidence.table("models", variant="instruct")["model_id"]
    rows = hierarchy.placed(hierarchy.members(last_gains(evidence)))
    return rows.assign(tuned=rows["model_id"].isin(tuned))


def four(rows: pd.DataFrame) -> pd.DataFrame:
    """Logs of gains of the four models."""
    return hierarchy.placed(hierarchy.the_four(rows)).assign(tuned=False)


def last_of_four(evidence: Evidence) -> pd.DataFrame:
    """Their last gains."""
    return four(last_gains(evidence))


def total_of_four(evidence: Evidence) -> pd.DataFrame:
    """Their total amplification."""
    return four(published_or_set(evidence, "total_amplification", BENCHMARK))


@CLAIM.shared
def fit_members(evidence: Evidence) -> Fit:
    """Gains of every measured model of the four families by model and category of prompts."""
    return fit_benchmark(
        hierarchy.members(last_gains(evidence)), "last_gain", order=ORDER, seed=SEED
    )


def in_order_together(
    evidence: Evidence, statement: str, pairs: Sequence[tuple[str, str]]
) -> Inference:
    """The fit, and whether all pairs (lower, higher) of models are in order together."""

    def rises(drawn: Mapping[str, Any]) -> Any:
        return np.all(
            [drawn[high] > drawn[low] for low, high in pairs if {low, high} <= set(drawn)], axis=0
        )

    return Inference(
        fit_members(evidence), tables=("ranks", "shares"), statements={statement: rises}
    )


VIEWS = Views(models=4, groups=4)
TRIED = partial(Trial, unit="category", worlds=WORLDS)
FOUR = partial(TRIED, test=OneByOne(in_order, steps_at_once))


@CLAIM.finding(
    "families",
    primary=Always(REVERSED, RISES & (BASES >= LEAST_BASES)),
    robustness=OF_FAMILIES,
    trial=TRIED(members, OneByOne(in_order, members_at_once)),
    views=VIEWS,
)
def families(evidence: Evidence) -> Result:
    """Every measured model of the families, tuned ones too."""
    shown = members(evidence)
    found = in_order(shown)
    tuned = shown.loc[shown["tuned"], "model_id"]
    order = found.rows["steps"]
    untuned = order[~order["lower"].isin(tuned) & ~order["higher"].isin(tuned)]
    xlabel = "last gain, one point per prompt; tick: mean"
    return found.adding(
        draw=drawing(strip_by_group, shown, value="value", group="model_id", xlabel=xlabel),
        audit=hierarchy.means_audit(evidence, last_gains(evidence)),
        words={
            "steps": order,
            "against": order[order["ratio_upper"] < 1],
            "untuned": untuned,
            "contradict": int((untuned["ratio_upper"] < 1).sum()),
            "reversed": found.quantities[REVERSED].value,
            "bases": found.quantities[BASES.name].value,
            "least": LEAST_BASES,
        },
        inference=in_order_together(evidence, OF_FAMILIES.statement, hierarchy.neighbours(shown)),
    )


def four_models(rows: pd.DataFrame, name: str) -> Result:
    """Order of the four models under one named gain."""
    found = in_order(rows)
    table = wide(rows)[list(ORDER)]
    order = found.rows["steps"]
    means = table.mean().sort_values(kind="stable")
    xlabel = f"{name}, one point per prompt; tick: mean"
    draw = drawing(strip_by_group, rows, value="value", group="model_id", xlabel=xlabel, log="x")
    words = {
        "name": name,
        "means": list(means.items()),
        "prompts": len(table),
        "held": int((table.diff(axis=1).iloc[:, 1:] > 0).all(axis=1).sum()),
        "worst": order.loc[order["ratio_lower"].idxmin()],
    }
    return found.adding(draw=draw, words=words)


@CLAIM.finding(
    "models.last_gain",
    primary=Decide(RISES, FALLS),
    robustness=OF_MODELS,
    trial=FOUR(last_of_four),
    views=VIEWS,
)
def by_last_gain(evidence: Evidence) -> Result:
    """The four models of the abstract by last gain."""
    rows = last_gains(evidence)
    own = last_of_four(evidence)
    again = (wide(rows[rows["source"] == TWIN]).mean() / wide(own).mean() - 1).dropna().abs()
    inference = in_order_together(evidence, OF_MODELS.statement, list(pairwise(ORDER)))
    return four_models(own, "last gain").adding(words={"again": again}, inference=inference)


@CLAIM.finding(
    "models.total_amplification",
    primary=Decide(RISES, FALLS),
    trial=FOUR(total_of_four),
    views=VIEWS,
)
def by_total_amplification(evidence: Evidence) -> Result:
    """Does the order hold of the same four models by the norm after the last block over that after
    the first?"""
    return four_models(total_of_four(evidence), "total amplification n_L/n_1")


def of_every_universe(evidence: Evidence) -> pd.DataFrame:
    """Last gains of all members and total amplification of the four, by prompt; `four`: the models
    of the abstract."""
    last = members(evidence).assign(of="last")
    total = total_of_four(evidence).assign(of="total")
    rows = pd.concat([last, total], ignore_index=True)
    return rows.assign(outcome=rows["log_gain"], four=rows["model_id"].isin(ORDER))


def least_step(rows: pd.DataFrame) -> Result:
    """Every step, headed by the log of the smallest ratio."""
    result = in_order(rows)
    least = Estimate(float(np.log(result.rows["steps"]["ratio"].min())))
    return result.adding(quantities={"log of the smallest ratio": least, **result.quantities})


CLAIM.curve(
    "families",
    rows=of_every_universe,
    choices=curves.HIERARCHY,
    estimate=smallest_step("place", "model_id"),
    null=between_labs(lab="model_id"),
    test=least_step,
)


if __name__ == "__main__":
    CLAIM.main()
