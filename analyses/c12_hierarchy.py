"""C12: the unified hierarchy Pythia 0.80 < Mistral 1.11 < LLaMA 1.48 < Gemma 2.31."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, OneByOne, Result, Trial, Views
from thermostats.claims.rule import Always, Decide, Each, Some, V
from thermostats.claims.worlds import build_level_worlds
from thermostats.errors import UsageError
from thermostats.modelling.classical.many import estimate_means, transform_logs, wrap_counts
from thermostats.modelling.specification import build_smallest_step, permute_between_labs
from thermostats.plots.general import prepare_drawing, strip_by_group
from thermostats.studies.delia2026 import curves, hierarchy
from thermostats.studies.delia2026.hierarchy import ORDER
from thermostats.studies.delia2026.stated_facts import (
    BENCHMARK,
    LAST_GAIN_FILES,
    TWIN,
    build_prompt_matrix,
    load_prompt_gains,
)

LEAST_BASES = 2
RATIO = V("ratio")
BASES = V("base models of the family with fewest")
REVERSED = "clear reversals that share no model"
RISES, FALLS = Each("steps", V(hierarchy.OVER_CATEGORIES).lower > 1), Some("steps", RATIO.upper < 1)
"""Over prompts "supported" would be false more often where prompts of a category are alike."""
STATED, TIED = (0.80, 1.11, 1.48, 2.31), (0.80, 1.11, 1.11, 2.31)
"""Levels by place as the claim states them, and the null nearest to them: two neighbours alike."""
LEVELS, NULL = (dict(enumerate(map(np.log, own))) for own in (STATED, TIED))
WORLDS = build_level_worlds("log_gain", LEVELS, NULL, unit="place", column="place")
CLAIM = Claim.read(__file__)


def estimate_steps(rows: pd.DataFrame) -> Result:
    """Every step; it is headed by the one of the lowest limit, and by the largest p."""
    order = hierarchy.measure_steps(rows)
    worst = order.loc[order["ratio_lower"].idxmin()]
    bases = rows[~rows["tuned"]].drop_duplicates("model_id")
    kind = f"paired t interval of the log ratio, {100 * (1 - 0.05 / len(order)):.1f}%"
    ratio, lower, upper = (float(worst[name]) for name in ("ratio", "ratio_lower", "ratio_upper"))
    estimate = Estimate(ratio, lower, upper, kind, float(order["p"].max()), "one-sided p-value")
    return Result(
        quantities={
            RATIO.name: estimate,
            BASES.name: Estimate(int(bases.groupby("place").size().min())),
            REVERSED: Estimate(hierarchy.count_replicated(order, rows)),
        },
        rows={"steps": order},
        table=order,
        n_models=rows["model_id"].nunique(),
        n_groups=rows["heritage"].nunique(),
    )


def estimate_steps_many(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Every step of models that met the same prompts, over prompts and over categories, of many
    studies."""
    pairs = hierarchy.list_neighbours(rows)
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
                name: transform_logs(estimate_means(logs, level=1 - alpha))
                for name, (logs, alpha) in over.items()
            }
        )
    return {"steps": steps}


def estimate_member_steps_many(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """The same with reversals that share no model, and base models."""
    found = estimate_steps_many(rows, outcomes)
    pairs = pd.DataFrame(hierarchy.list_neighbours(rows), columns=["lower", "higher"])
    upper = np.stack([step[RATIO.name].upper for step in found["steps"]], axis=1)
    reversed_ = [
        hierarchy.count_replicated(pairs.assign(ratio_upper=of_study), rows) for of_study in upper
    ]
    bases = (
        rows[~rows["tuned"].astype(bool)].drop_duplicates("model_id").groupby("place").size().min()
    )
    return {
        **found,
        REVERSED: wrap_counts(np.array(reversed_)),
        BASES.name: wrap_counts(np.full(len(upper), bases)),
    }


@CLAIM.shared
def load_last_gains(evidence: Evidence) -> pd.DataFrame:
    """Last gains by prompt of every file, every run, with categories."""
    return load_prompt_gains(evidence, "last_gain", *LAST_GAIN_FILES)


def select_members(evidence: Evidence) -> pd.DataFrame:
    """Logs of last gains of every measured model of the families, tuned ones too, by the place of
    the family."""
    tuned = evidence.table("models", variant="instruct")["model_id"]
    rows = hierarchy.add_places(hierarchy.select_members(load_last_gains(evidence)))
    return rows.assign(tuned=rows["model_id"].isin(tuned))


def select_four(rows: pd.DataFrame) -> pd.DataFrame:
    """Logs of gains of the four models."""
    return hierarchy.add_places(hierarchy.select_four(rows)).assign(tuned=False)


def select_last_gains(evidence: Evidence) -> pd.DataFrame:
    """Their last gains."""
    return select_four(load_last_gains(evidence))


def select_total_gains(evidence: Evidence) -> pd.DataFrame:
    """Their total amplification."""
    return select_four(load_prompt_gains(evidence, "total_amplification", BENCHMARK))


VIEWS = Views(models=4, groups=4)
TRIED = partial(Trial, unit="category", worlds=WORLDS)
FOUR = partial(TRIED, test=OneByOne(estimate_steps, estimate_steps_many))


@CLAIM.finding(
    "families",
    primary=Always(REVERSED, RISES & (BASES >= LEAST_BASES)),
    trial=TRIED(select_members, OneByOne(estimate_steps, estimate_member_steps_many)),
    views=VIEWS,
)
def judge_families(evidence: Evidence) -> Result:
    """Every measured model of the families, tuned ones too."""
    shown = select_members(evidence)
    found = estimate_steps(shown)
    tuned = shown.loc[shown["tuned"], "model_id"]
    order = found.rows["steps"]
    untuned = order[~order["lower"].isin(tuned) & ~order["higher"].isin(tuned)]
    xlabel = "last gain, one point per prompt; tick: mean"
    return found.adding(
        draw=prepare_drawing(strip_by_group, shown, value="value", group="model_id", xlabel=xlabel),
        audit=hierarchy.check_means(evidence, load_last_gains(evidence)),
        words={
            "steps": order,
            "against": order[order["ratio_upper"] < 1],
            "untuned": untuned,
            "contradict": int((untuned["ratio_upper"] < 1).sum()),
            "reversed": found.quantities[REVERSED].value,
            "bases": found.quantities[BASES.name].value,
            "least": LEAST_BASES,
        },
    )


def judge_four_models(rows: pd.DataFrame, name: str) -> Result:
    """Order of the four models under one named gain."""
    found = estimate_steps(rows)
    table = build_prompt_matrix(rows)[list(ORDER)]
    order = found.rows["steps"]
    means = table.mean().sort_values(kind="stable")
    xlabel = f"{name}, one point per prompt; tick: mean"
    draw = prepare_drawing(
        strip_by_group, rows, value="value", group="model_id", xlabel=xlabel, log="x"
    )
    words = {
        "name": name,
        "means": list(means.items()),
        "prompts": len(table),
        "held": int((table.diff(axis=1).iloc[:, 1:] > 0).all(axis=1).sum()),
        "worst": order.loc[order["ratio_lower"].idxmin()],
    }
    return found.adding(draw=draw, words=words)


@CLAIM.finding(
    "models.last_gain", primary=Decide(RISES, FALLS), trial=FOUR(select_last_gains), views=VIEWS
)
def judge_last_gain(evidence: Evidence) -> Result:
    """The four models of the abstract by last gain."""
    rows = load_last_gains(evidence)
    own = select_last_gains(evidence)
    again = (
        (
            build_prompt_matrix(rows[rows["source"] == TWIN]).mean()
            / build_prompt_matrix(own).mean()
            - 1
        )
        .dropna()
        .abs()
    )
    return judge_four_models(own, "last gain").adding(words={"again": again})


@CLAIM.finding(
    "models.total_amplification",
    primary=Decide(RISES, FALLS),
    trial=FOUR(select_total_gains),
    views=VIEWS,
)
def judge_total_amplification(evidence: Evidence) -> Result:
    """Does the order hold of the same four models by the norm after the last block over that after
    the first?"""
    return judge_four_models(select_total_gains(evidence), "total amplification n_L/n_1")


def collect_universe_rows(evidence: Evidence) -> pd.DataFrame:
    """Last gains of all members and total amplification of the four, by prompt; `select_four`: the
    models of the abstract."""
    last = select_members(evidence).assign(of="last")
    total = select_total_gains(evidence).assign(of="total")
    rows = pd.concat([last, total], ignore_index=True)
    return rows.assign(outcome=rows["log_gain"], four=rows["model_id"].isin(ORDER))


def estimate_least_step(rows: pd.DataFrame) -> Result:
    """Every step, headed by the log of the smallest ratio."""
    result = estimate_steps(rows)
    least = Estimate(float(np.log(result.rows["steps"]["ratio"].min())))
    return result.adding(quantities={"log of the smallest ratio": least, **result.quantities})


CLAIM.curve(
    "families",
    rows=collect_universe_rows,
    choices=curves.HIERARCHY,
    estimate=build_smallest_step("place", "model_id"),
    null=permute_between_labs(lab="model_id"),
    test=estimate_least_step,
)


if __name__ == "__main__":
    CLAIM.main()
