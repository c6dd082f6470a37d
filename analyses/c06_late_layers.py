"""C06: late layers of EleutherAI models exceed the others 300-fold in squared W_V norm."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import POOLED, Audit, Claim, Estimate, Evidence, Result, Trial
from thermostats.claims.rule import AtLeast, Decide, Each, Gate, Some, V
from thermostats.claims.worlds import worlds_of_shift
from thermostats.modelling.classical.many import Many, counted, exponential
from thermostats.plots.general import drawing, strip_by_group
from thermostats.studies.delia2026.curves import squared_norms
from thermostats.studies.delia2026.stated_facts import stated
from thermostats.studies.delia2026.weights_of_claims import (
    LATE,
    late_means,
    pairs,
    squared_by_layer,
    squared_means,
)
from thermostats.studies.nursery.study_rows import trained_norms
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


def late_norms(evidence: Evidence) -> pd.DataFrame:
    """Late layers of the models whose published or measured matrix is W_V."""
    late = late_means(squared_by_layer(evidence))
    own = late[late["right"]].reset_index(drop=True)
    return own.assign(log_late=np.log(own["late"].astype(float)), focal=own["heritage"] == FOCAL)


def of_pairs(rows: pd.DataFrame) -> Result:
    """Pairs of a model of the lab and another."""
    both = {"pairs": pairs(rows.assign(late=np.exp(rows["log_late"])), "late", rows["focal"])}
    means = rows.groupby("focal")["log_late"].mean()
    ratio = float(np.exp(means[True] - means[False])) if len(means) > 1 else None
    return Result.of(rows, {MEANS.name: Estimate(ratio)}, rows=both)


def pairs_at_once(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """`of_pairs` of many studies."""
    places = rows.assign(late=1.0, place=np.arange(len(rows)))
    focal = rows["focal"].to_numpy(bool)
    both = pairs(places, "late", rows["focal"])
    logs = outcomes["log_late"]
    apart = (
        logs[:, at] - logs[:, other]
        for at, other in zip(both["place"], both["place_other"], strict=True)
    )
    means = np.exp(logs[:, focal].mean(axis=1) - logs[:, ~focal].mean(axis=1))
    return {
        MEANS.name: counted(means),
        "pairs": [{RATIO.name: counted(np.exp(each))} for each in apart],
    }


LABS_APART = worlds_of_shift("log_late", np.log(FACTOR), ALIKE, "focal", group="")


@CLAIM.finding(
    "late.labs",
    primary=PAIRS,
    evidence=POOLED,
    needs=AtLeast(rows={"pairs": 1}),
    trial=Trial(late_norms, of_pairs, "", LABS_APART, "", pairs_at_once),
)
def late_labs(evidence: Evidence) -> Result:
    """Pairs of models with the right W_V, and what the published means over layers allow."""
    by_layer = squared_by_layer(evidence)
    means = squared_means(evidence)
    late = late_means(by_layer)
    others = means[means["heritage"] != FOCAL]
    found = of_pairs(late_norms(evidence))
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
        draw=partial(squared_norms, by_layer=by_layer, others=others, late=LATE),
        audit=Audit(stated(evidence, STATED)),
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


def by_recipe(rows: pd.DataFrame) -> Result:
    """Geometric mean of each recipe over that of the others, whose units are their recipes; Welch t
    intervals."""
    means = rows.groupby("heritage")["log_late"].mean()
    found = []
    for name, own in rows.groupby("heritage")["log_late"]:
        t = stats.ttest_ind(own, means.drop(name), equal_var=False)
        low, high = t.confidence_interval(LEVEL)
        ratio = own.mean() - means.drop(name).mean()
        found.append((name, *np.exp([ratio, low, high])))
    recipes = pd.DataFrame(found, columns=["heritage", "ratio", "ratio_lower", "ratio_upper"])
    top = recipes.loc[recipes["ratio"].idxmax()]
    value, low, high = (float(top[name]) for name in recipes.columns[1:])
    largest = Estimate(value, low, high, "95% Welch t interval of the log")
    return Result.of(
        rows, {"largest ratio": largest}, rows={"recipes": recipes}, words={"top": top["heritage"]}
    )


def recipes_at_once(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """`by_recipe` of many studies."""
    codes, names = pd.factorize(rows["heritage"], sort=True)
    means = outcomes["log_late"] @ ((codes[:, None] == np.arange(len(names))) / np.bincount(codes))
    recipes = []
    for code in range(len(names)):
        t = stats.ttest_ind(
            outcomes["log_late"][:, codes == code],
            np.delete(means, code, 1),
            axis=1,
            equal_var=False,
        )
        low, high = t.confidence_interval(LEVEL)
        ratio = means[:, code] - np.delete(means, code, axis=1).mean(axis=1)
        recipes.append({RATIO.name: exponential(Many(ratio, low, high, t.pvalue))})
    return {"recipes": recipes}


def trained_rows(evidence: Evidence, column: str) -> pd.DataFrame:
    """Models trained here with the log of their late norms; the first recipe is the one set apart
    in worlds."""
    rows = trained_norms(evidence).dropna(subset=["late", "late_cut"]).reset_index(drop=True)
    return rows.assign(
        log_late=np.log(rows[column]), apart=rows["heritage"] == rows["heritage"].min()
    )


def of_recipes(evidence: Evidence, column: str, how: str) -> Result:
    """Late layers of the models trained here with W_V taken one way."""
    models = ENOUGH.of(trained_rows(evidence, column), how=how)
    both = pairs(models[["heritage", "late", "late_cut", "learned"]], column)
    fused = models[models["fused"]]
    learned = both.loc[both["learned"].eq(True) & both["learned_other"].eq(True), "ratio"]
    xlabel = f"mean ‖W_V‖₂² over the last quarter of the layers, {how}"
    draw = drawing(strip_by_group, models, value=column, null=None, xlabel=xlabel, log="x")
    shown = models[["model_id", "heritage", "fused", "late", "late_cut", "learned"]]
    words = {
        "how": how,
        "off": fused["late_cut"] / fused["late"],
        "learned": learned.max(),
        "pair": both["ratio"].max(),
    }
    return by_recipe(models).adding(table=shown, draw=draw, words=words)


WORLDS = worlds_of_shift("log_late", np.log(FACTOR), ALIKE, "apart")
for asked, column, how in (
    ("late.trained", "late", "the right W_V"),
    ("late.trained_published_slicing", "late_cut", "W_V by the published slicing"),
):
    trial = Trial(
        partial(trained_rows, column=column), by_recipe, "", WORLDS, "", recipes_at_once
    )  # about one recipe
    declare = CLAIM.finding(asked, primary=RECIPES, evidence=NURSERY, needs=ENOUGH, trial=trial)
    declare(partial(of_recipes, column=column, how=how))


if __name__ == "__main__":
    CLAIM.main()
