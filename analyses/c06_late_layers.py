"""C06: late layers of EleutherAI models exceed the others 300-fold in squared W_V norm."""

from functools import partial

import numpy as np

from thermostats.claims.claim import EVERY, Audit, Claim, Estimate, Evidence, Result
from thermostats.claims.rule import AtLeast, Decide, Each, Some, V
from thermostats.plots.general import drawing, strip_by_group
from thermostats.studies.delia2026.claim_figures import squared_norms
from thermostats.studies.delia2026.stated import stated
from thermostats.studies.delia2026.value_norms import LATE, late_means, pairs, squared_by_layer, squared_means
from thermostats.studies.nursery.rows import trained_norms
from thermostats.tables.vocabulary import NURSERY

LEAST, MOST = 100.0, 1000.0
"""What "about 300 times" allows."""
FOCAL = "EleutherAI"
STATED = {"ratio of squared W_V norms, late layers": "fig. 8"}
RATIO = V("ratio")
CLAIM = Claim.read(__file__)


@CLAIM.finding(
    "late.labs",
    primary=Decide(Each("pairs", (RATIO >= LEAST) & (RATIO <= MOST)), Some("pairs", (RATIO < LEAST) | (RATIO > MOST))),
    evidence=EVERY,
    needs=AtLeast(rows={"pairs": 1}),
)
def late_labs(evidence: Evidence) -> Result:
    """Pairs of models with the right W_V, and what the published means over layers allow."""
    by_layer, means = squared_by_layer(evidence), squared_means(evidence)
    late, others = late_means(by_layer), means[means["heritage"] != FOCAL]
    both = pairs(late, "late", late["heritage"] == FOCAL)
    both = both[both["right"] & both["right_other"]]
    top = late[late["heritage"] == FOCAL].sort_values("late").iloc[-1]
    against = others.assign(ratio=top["late"] / others["squared"])

    largest = by_layer.loc[by_layer["model_id"] == top["model_id"], "squared"].max()
    return Result(
        rows={"pairs": both},
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


SOME = Some("recipes", (V("smallest") >= LEAST) & (V("largest") <= MOST))
RECIPES = Decide(SOME, Each("recipes", V("largest") < LEAST))
ENOUGH = AtLeast(models=24, groups=8)


def of_recipes(evidence: Evidence, column: str, how: str) -> Result:
    """Late layers of the models trained here with W_V taken one way."""
    models = ENOUGH.of(trained_norms(evidence).dropna(subset=["late", "late_cut"]), how=how)
    both = pairs(models[["heritage", "late", "late_cut", "learned"]], column)
    recipes = both.groupby("heritage")["ratio"].agg(smallest="min", largest="max").reset_index()
    means = np.exp(np.log(models[column]).groupby(models["heritage"]).mean())
    fused = models[models["fused"]]
    learned = both.loc[both["learned"].eq(True) & both["learned_other"].eq(True), "ratio"]
    xlabel = f"mean ‖W_V‖₂² over the last quarter of the layers, {how}"
    draw = drawing(strip_by_group, models, value=column, null=None, xlabel=xlabel, log="x")
    quantities = {"largest ratio": Estimate(float(both["ratio"].max()))}
    shown = models[["model_id", "heritage", "fused", "late", "late_cut", "learned"]]
    words = {"how": how, "means": means, "off": fused["late_cut"] / fused["late"], "learned": learned.max()}
    return Result.of(models, quantities, rows={"recipes": recipes}, table=shown, draw=draw, words=words)


@CLAIM.finding("late.trained", primary=RECIPES, evidence=NURSERY, needs=ENOUGH)
def trained(evidence: Evidence) -> Result:
    """With the right W_V."""
    return of_recipes(evidence, "late", "the right W_V")


@CLAIM.finding("late.trained_published_slicing", primary=RECIPES, evidence=NURSERY, needs=ENOUGH)
def trained_published_slicing(evidence: Evidence) -> Result:
    """With the rows that the study took for W_V."""
    return of_recipes(evidence, "late_cut", "W_V by the published slicing")


if __name__ == "__main__":
    CLAIM.main()
