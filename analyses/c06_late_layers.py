"""C06: late layers of EleutherAI models exceed the others 300-fold in squared W_V norm."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import POOLED, Audit, Claim, Estimate, Evidence, Result, Test, Trial
from thermostats.claims.result import OF_LAW
from thermostats.claims.rule import AtLeast, Decide, Each, Gate, Some, V
from thermostats.claims.worlds import build_shift_worlds
from thermostats.modelling.classical.interval_laws import StudentLaw
from thermostats.modelling.classical.many import Many, take_group_means, transform_logs, wrap_counts
from thermostats.modelling.columns import read_numbers
from thermostats.plots.general import prepare_drawing, strip_by_group
from thermostats.studies.delia2026.curves import draw_squared_norms
from thermostats.studies.delia2026.stated_facts import load_stated
from thermostats.studies.delia2026.weight_norms import (
    LATE,
    build_pairs,
    build_squared_means,
    build_squared_norms,
    measure_late_means,
)
from thermostats.studies.nursery.study_rows import load_trained_norms
from thermostats.tables.schemas import NURSERY

LEAST, FACTOR, MOST = 100.0, 300.0, 1000.0
"""What "about 300 times" allows."""
ALIKE = 0.7
"""Squared norms of models of one lab or recipe differ by a factor e^0.7 = 2, as those trained here
do."""
LEVEL = 0.95
FOCAL = "EleutherAI"
STATED = {"ratio of squared W_V norms, late layers": "fig. 8"}
RATIO = V("ratio")
MEANS = V("ratio of geometric means")
PAIRS = Decide(
    Gate(Each("pairs", (RATIO >= LEAST) & (RATIO <= MOST))) & (MEANS >= LEAST) & (MEANS <= MOST),
    Gate(Each("pairs", (RATIO < LEAST) | (RATIO > MOST))) & ((MEANS < LEAST) | (MEANS > MOST)),
)
"""Among many pairs one lies out of any limits: statements about labs are about their means."""
CLAIM = Claim.read(__file__)


def select_late_norms(evidence: Evidence) -> pd.DataFrame:
    """Late layers of the models whose published or measured matrix is W_V."""
    late = measure_late_means(build_squared_norms(evidence))
    own = late[late["right"]].reset_index(drop=True)
    return own.assign(log_late=np.log(own["late"].astype(float)), focal=own["heritage"] == FOCAL)


def compare_pairs(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Pairs of a model of the lab and another, and the geometric means of both."""
    places = rows.assign(late=1.0, place=np.arange(len(rows)))
    focal = rows["focal"].to_numpy(bool)
    both = build_pairs(places, "late", rows["focal"].astype(bool))
    logs = outcomes["log_late"]
    read_numbers(logs[0], "log_late", least=0)
    means = np.full(len(logs), np.nan)
    if focal.any() and not focal.all():
        means = np.exp(logs[:, focal].mean(axis=1) - logs[:, ~focal].mean(axis=1))
    apart = np.exp(logs[:, both["place"]] - logs[:, both["place_other"]])
    return {
        MEANS.name: wrap_counts(means),
        "pairs": [{RATIO.name: wrap_counts(each)} for each in apart.T],
    }


def describe_pairs(rows: pd.DataFrame, result: Result) -> Result:
    """Who the pairs are."""
    both = build_pairs(rows.assign(late=np.exp(rows["log_late"])), "late", rows["focal"])
    found = result.rows["pairs"].reindex(columns=[RATIO.name])
    return replace(result, rows={"pairs": both.assign(ratio=found[RATIO.name].to_numpy())})


PAIRED = Test(compare_pairs, ("log_late",), describe=describe_pairs)
LABS_APART = build_shift_worlds("log_late", np.log(FACTOR), ALIKE, "focal", group="")


@CLAIM.finding(
    "late.labs",
    primary=PAIRS,
    evidence=POOLED,
    needs=AtLeast(rows={"pairs": 1}),
    trial=Trial(select_late_norms, PAIRED, "", LABS_APART, ""),
)
def judge_late_labs(evidence: Evidence) -> Result:
    """Pairs of models with the right W_V, and what the published means over layers allow."""
    by_layer = build_squared_norms(evidence)
    means = build_squared_means(evidence)
    late = measure_late_means(by_layer)
    others = means[means["heritage"] != FOCAL]
    found = PAIRED(select_late_norms(evidence))
    both = found.rows["pairs"]
    top = late[late["heritage"] == FOCAL].sort_values("late").iloc[-1]
    against = others.assign(ratio=top["late"] / others["squared"])

    largest = by_layer.loc[by_layer["model_id"] == top["model_id"], "squared"].max()
    return Result(
        quantities=found.quantities,
        rows=found.rows,
        n_models=late["model_id"].nunique(),
        n_groups=late["heritage"].nunique(),
        table=against[["model_id", "heritage", "squared", "ratio"]],
        draw=partial(draw_squared_norms, by_layer=by_layer, others=others, late=LATE),
        audit=Audit(load_stated(evidence, STATED)),
        words={
            "top": top["model_id"],
            "against": against,
            "pairs": both,
            "within": int(against["ratio"].between(LEAST, MOST).sum()),
            "extreme": float(largest / others["squared"].min()),
            "right": sorted(set(by_layer.loc[by_layer["right"], "model_id"])),
            "limits": (LEAST, MOST),
        },
    )


RECIPES = Decide(
    Some("recipes", (RATIO.lower >= LEAST) & (RATIO.upper <= MOST)),
    Each("recipes", RATIO.upper < LEAST),
)
"""Of geometric means: all pairs of a recipe 300-fold apart lie within the limits in no simulated
study."""
ENOUGH = AtLeast(models=24, groups=8)


def compare_recipes(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """Geometric mean of each recipe over that of the others, whose units are their recipes; Welch t
    intervals."""
    logs = outcomes["log_late"]
    read_numbers(logs[0], "log_late", least=0)
    codes = pd.factorize(rows["heritage"], sort=True)[0]
    means = take_group_means(logs, codes)
    recipes = []
    for code in range(means.shape[1]):
        others = np.delete(means, code, axis=1)
        t = stats.ttest_ind(logs[:, codes == code], others, axis=1, equal_var=False)
        low, high = t.confidence_interval(LEVEL)
        law = StudentLaw(t.df)
        recipes.append(
            {
                RATIO.name: transform_logs(
                    Many(means[:, code] - others.mean(axis=1), low, high, t.pvalue, law)
                )
            }
        )
    return {"recipes": recipes}


def describe_recipes(rows: pd.DataFrame, result: Result) -> Result:
    """The recipe that exceeds the others most heads the finding."""
    ends = [RATIO.name, f"{RATIO.name}_lower", f"{RATIO.name}_upper"]
    recipes = result.rows["recipes"].reindex(columns=[*ends, f"{RATIO.name}{OF_LAW}"])
    recipes.insert(0, "heritage", sorted(set(rows["heritage"])))
    top = recipes.loc[recipes[RATIO.name].idxmax()]
    ratio, lower, upper = (float(top[end]) for end in ends)
    largest = Estimate(ratio, lower, upper, "95% Welch t interval of the log")
    words = {"top": top["heritage"]}
    return replace(
        result, quantities={"largest ratio": largest}, rows={"recipes": recipes}, words=words
    )


OF_RECIPES = Test(compare_recipes, ("log_late",), describe=describe_recipes)


def select_trained(evidence: Evidence, column: str) -> pd.DataFrame:
    """Models trained here with the log of their late norms; the first recipe is the one set apart
    in worlds."""
    rows = load_trained_norms(evidence).dropna(subset=["late", "late_cut"]).reset_index(drop=True)
    return rows.assign(
        log_late=np.log(rows[column]), apart=rows["heritage"] == rows["heritage"].min()
    )


def judge_recipes(evidence: Evidence, column: str, how: str) -> Result:
    """Late layers of the models trained here with W_V taken one way."""
    models = ENOUGH.check_rows(select_trained(evidence, column), how=how)
    both = build_pairs(models[["heritage", "late", "late_cut", "learned"]], column)
    fused = models[models["fused"]]
    learned = both.loc[both["learned"].eq(True) & both["learned_other"].eq(True), "ratio"]
    xlabel = f"mean ‖W_V‖₂² over the last quarter of the layers, {how}"
    draw = prepare_drawing(strip_by_group, models, value=column, null=None, xlabel=xlabel, log="x")
    shown = models[["model_id", "heritage", "fused", "late", "late_cut", "learned"]]
    words = {
        "how": how,
        "off": fused["late_cut"] / fused["late"],
        "learned": learned.max(),
        "pair": both["ratio"].max(),
    }
    return OF_RECIPES(models).adding(table=shown, draw=draw, words=words)


WORLDS = partial(build_shift_worlds, "log_late", np.log(FACTOR), ALIKE, "apart", units=True)
"""About recipes at hand: a recipe's own level is part of what is true of it."""
for asked, column, how, outcome in (
    ("late.trained", "late", "the right W_V", "trained_late_norm"),
    (
        "late.trained_published_slicing",
        "late_cut",
        "W_V by the published slicing",
        "trained_late_norm_sliced",
    ),
):
    trial = Trial(
        partial(select_trained, column=column), OF_RECIPES, "", WORLDS(measured=outcome), ""
    )  # about one recipe
    declare = CLAIM.finding(asked, primary=RECIPES, evidence=NURSERY, needs=ENOUGH, trial=trial)
    declare(partial(judge_recipes, column=column, how=how))


if __name__ == "__main__":
    CLAIM.main()
