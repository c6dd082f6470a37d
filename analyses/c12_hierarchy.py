"""C12: the unified hierarchy Pythia 0.80 < Mistral 1.11 < LLaMA 1.48 < Gemma 2.31."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Result, Test, Trial, Views
from thermostats.claims.rule import Always, Decide, Each, Some, V
from thermostats.claims.worlds import build_level_worlds
from thermostats.modelling.classical.many import (
    Many,
    estimate_means,
    take_group_means,
    transform_logs,
    wrap_counts,
)
from thermostats.modelling.columns import Array
from thermostats.modelling.specification import build_smallest_step, permute_between_labs
from thermostats.plots.general import prepare_drawing, strip_by_group
from thermostats.studies.delia2026 import curves, family_order
from thermostats.studies.delia2026.family_order import ORDER
from thermostats.studies.delia2026.prompt_gains import (
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
RISES = Each("steps", V(family_order.OVER_CATEGORIES).lower > 1)
FALLS = Some("steps", RATIO.upper < 1)
"""Over prompts "supported" would be false more often where prompts of a category are alike."""
STATED, TIED = (0.80, 1.11, 1.48, 2.31), (0.80, 1.11, 1.11, 2.31)
"""Levels by place as the claim states them, and the null nearest to them: two neighbours alike."""
LEVELS, NULL = (dict(enumerate(map(np.log, own))) for own in (STATED, TIED))
CLAIM = Claim.read(__file__)


def name_steps(levels: Mapping[int, float]) -> Result:
    """Every step over endless prompts of endless models of the four families."""
    steps = [math.exp(high - low) for low, high in pairwise(levels.values())]
    table = pd.DataFrame({RATIO.name: steps, family_order.OVER_CATEGORIES: steps})
    return Result(quantities={BASES.name: Estimate(math.inf)}, rows={"steps": table})


WORLDS = partial(
    build_level_worlds, "log_gain", LEVELS, NULL, unit="place", column="place", large=name_steps
)


def estimate_steps(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Every step from a model to one of the next place, over the prompts of both and over their
    categories; clear reversals that share no model, and base models.

    `ratio` has t intervals over prompts, Bonferroni over pairs, as one pair is enough against an
    order; that over categories has 95%, as an order needs every pair. p is one-sided, for "the
    higher one is not higher".
    """
    pairs = family_order.list_neighbours(rows)
    places = rows.assign(at=np.arange(len(rows))).pivot(
        index=["prompt_id", "category"], columns="model_id", values="at"
    )
    categories = places.index.get_level_values("category")
    steps = []
    for low, high in pairs:
        both = places[[low, high]].notna().all(axis=1)
        first, second = (
            outcomes["log_gain"][:, places.loc[both, model].to_numpy(np.int64)]
            for model in (low, high)
        )
        apart = second - first
        over_prompts = estimate_means(apart, level=1 - 0.05 / len(pairs))
        over_categories = estimate_means(take_group_means(apart, categories[both]))
        half = over_prompts.p / 2
        not_higher = np.where(over_prompts.estimate > 0, half, 1 - half)
        steps.append(
            {
                "n_prompts": wrap_counts(np.full(len(apart), apart.shape[1])),
                RATIO.name: replace(transform_logs(over_prompts), p=not_higher),
                family_order.OVER_CATEGORIES: replace(
                    transform_logs(over_categories), p=np.full(len(apart), np.nan)
                ),
                "prompts_in_order": wrap_counts((apart > 0).sum(axis=1)),
            }
        )
    bases = rows[~rows["tuned"].astype(bool)].drop_duplicates("model_id").groupby("place").size()
    return {
        BASES.name: wrap_counts(np.full(len(outcomes["log_gain"]), bases.min())),
        REVERSED: wrap_counts(count_reversals(rows, steps)),
        "steps": steps,
    }


def count_reversals(rows: pd.DataFrame, steps: Sequence[Mapping[str, Many]]) -> Array:
    """Clear reversals of every study that share no model."""
    pairs = pd.DataFrame(family_order.list_neighbours(rows), columns=["lower", "higher"])
    upper = np.stack([step[RATIO.name].upper for step in steps], axis=1)
    return np.array(
        [family_order.count_replicated(pairs.assign(ratio_upper=study), rows) for study in upper]
    )


def describe_steps(rows: pd.DataFrame, result: Result) -> Result:
    """The steps by their models, headed by the one of the lowest limit, and by the largest p."""
    pairs = pd.DataFrame(family_order.list_neighbours(rows), columns=["lower", "higher"])
    counts = {"n_prompts": int, "prompts_in_order": int}
    order = pairs.join(result.rows["steps"].astype(counts))
    worst = order.loc[order["ratio_lower"].idxmin()]
    kind = f"paired t interval of the log ratio, {100 * (1 - 0.05 / len(order)):.1f}%"
    ratio, lower, upper = (float(worst[name]) for name in ("ratio", "ratio_lower", "ratio_upper"))
    headed = Estimate(ratio, lower, upper, kind, float(order["p"].max()), "one-sided p-value")
    return replace(
        result,
        quantities={RATIO.name: headed, **result.quantities},
        rows={"steps": order},
        table=order,
        n_models=rows["model_id"].nunique(),
    )


STEPS = Test(estimate_steps, ("log_gain",), describe=describe_steps)


@CLAIM.shared
def load_last_gains(evidence: Evidence) -> pd.DataFrame:
    """Last gains by prompt of every file, every run, with categories."""
    return load_prompt_gains(evidence, "last_gain", *LAST_GAIN_FILES)


def select_members(evidence: Evidence) -> pd.DataFrame:
    """Logs of last gains of every measured model of the families, tuned ones too, by the place of
    the family."""
    tuned = evidence.table("models", variant="instruct")["model_id"]
    rows = family_order.add_places(family_order.select_members(load_last_gains(evidence)))
    return rows.assign(tuned=rows["model_id"].isin(tuned))


def select_four(rows: pd.DataFrame) -> pd.DataFrame:
    """Logs of gains of the four models."""
    return family_order.add_places(family_order.select_four(rows)).assign(tuned=False)


def select_last_gains(evidence: Evidence) -> pd.DataFrame:
    """Their last gains."""
    return select_four(load_last_gains(evidence))


def select_total_gains(evidence: Evidence) -> pd.DataFrame:
    """Their total amplification."""
    return select_four(load_prompt_gains(evidence, "total_amplification", BENCHMARK))


VIEWS = Views(models=4, groups=4)
TRIED = partial(Trial, test=STEPS, unit="category", worlds=WORLDS(measured="last_gain_prompts"))
OF_TOTALS = TRIED(select_total_gains, worlds=WORLDS(measured="total_amplification_prompts"))


@CLAIM.finding(
    "families",
    primary=Always(REVERSED, RISES & (BASES >= LEAST_BASES)),
    trial=TRIED(select_members),
    views=VIEWS,
)
def judge_families(evidence: Evidence) -> Result:
    """Every measured model of the families, tuned ones too."""
    shown = select_members(evidence)
    found = STEPS(shown)
    tuned = shown.loc[shown["tuned"], "model_id"]
    order = found.rows["steps"]
    untuned = order[~order["lower"].isin(tuned) & ~order["higher"].isin(tuned)]
    xlabel = "last gain, one point per prompt; tick: mean"
    return found.adding(
        draw=prepare_drawing(strip_by_group, shown, value="value", group="model_id", xlabel=xlabel),
        audit=family_order.check_means(evidence, load_last_gains(evidence)),
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
    found = STEPS(rows)
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
    "models.last_gain", primary=Decide(RISES, FALLS), trial=TRIED(select_last_gains), views=VIEWS
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
    "models.total_amplification", primary=Decide(RISES, FALLS), trial=OF_TOTALS, views=VIEWS
)
def judge_total_amplification(evidence: Evidence) -> Result:
    """Does the order hold of the same four models by the norm after the last block over that after
    the first?"""
    return judge_four_models(select_total_gains(evidence), "total amplification n_L/n_1")


def collect_universe_rows(evidence: Evidence) -> pd.DataFrame:
    """Last gains of all members and total amplification of the four, by prompt; `four`: the
    models of the abstract."""
    last = select_members(evidence).assign(of="last")
    total = select_total_gains(evidence).assign(of="total")
    rows = pd.concat([last, total], ignore_index=True)
    return rows.assign(outcome=rows["log_gain"], four=rows["model_id"].isin(ORDER))


def estimate_least_step(rows: pd.DataFrame) -> Result:
    """Every step, headed by the log of the smallest ratio."""
    result = STEPS(rows)
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
