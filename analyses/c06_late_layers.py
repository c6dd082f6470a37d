"""C06: late layers of EleutherAI's models exceed the others about 300-fold in ‖W_V‖₂².

Claim: in late layers the trace proxy ‖W_V‖₂² of EleutherAI's models is some 300 times that of the other labs' models.
Estimand: mean of ‖W_V‖₂² over the last quarter of the layers of an EleutherAI model over the same of another lab's
model, pair by pair. Unit: the pair of models.
Rule: supported where every pair has a ratio between LEAST and MOST, not supported where some pair with norms of the
right matrix in both has not; needs measurement where per-layer norms of W_V are missing on one side or were cut from
the wrong rows.
Models trained here, apart, the recipe in the place of the lab: supported where some recipe has a ratio between LEAST
and MOST in every pair of one of its models with a model of another recipe, not supported where no pair of models of two
recipes reaches LEAST, else inconclusive; once with the right W_V and once with the rows that the study's slicing takes
for it. With fewer than LEAST_TRAINED models or LEAST_RECIPES recipes it needs measurement.
Source: figure 8; restriction_maps_results (layers of Pythia-1.4B), restriction_map_summary (means of seven models).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, UNMEASURED
from thermostats.plots.general import INK, strip_by_group
from thermostats.plots.marks import mark
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.stated import stated
from thermostats.studies.nursery.norms import LATE, trained_norms
from thermostats.words import number, short_name

LEAST, MOST = 100.0, 1000.0
LEAST_TRAINED, LEAST_RECIPES = 24, 8
FOCAL = "EleutherAI"
MAPS, SUMMARY = "restriction_maps_results.json", "restriction_map_summary_20260105_202448.csv"
BY_LAYER = "W_V_spectral_norm_published_thirds_layer_"
MEANS = ["W_V_spectral_norm_mean", "W_V_spectral_norm_mean_published_thirds"]
STATED = {"ratio of squared W_V norms, late layers": "fig. 8"}

CLAIM = Claim(
    id="C06",
    title="Late layers of EleutherAI models exceed the others 300-fold in squared W_V norm",
    said="In late layers ‖W_V‖₂² of EleutherAI's models is about 300 times that of the other labs' models.",
    estimand="mean ‖W_V‖₂² over the last quarter of the layers, EleutherAI over another lab, pair by pair",
    rule=f"Supported where every pair lies between {LEAST:g} and {MOST:g}, not supported where a pair with the right "
    "matrices does not; needs measurement where per-layer norms of W_V are missing on one side or are of other rows. "
    f"Models trained here, apart: supported where some recipe does so in every pair with another recipe's models, not "
    f"supported where no pair of two recipes reaches {LEAST:g}.",
    source="Figure 8; restriction_maps_results, restriction_map_summary",
    rows="study and measured",
)


def curves(tables: Evidence) -> pd.DataFrame:
    """Squared norms by layer: weights where there are some, else the published cut, marked so."""
    cut = tables.table("summaries", source=MAPS)
    cut = cut[cut["estimand"].str.startswith(BY_LAYER)]
    cut = cut.assign(layer=cut["estimand"].str.removeprefix(BY_LAYER).astype(int), right=False)
    right = tables.table("weights", matrix="W_V", head="").rename(columns={"spectral_norm": "value"}).assign(right=True)
    columns = ["model_id", "heritage", "layer", "value", "right"]
    both = pd.concat([part[columns] for part in (right, cut) if not part.empty]).dropna(subset="value")
    both = both.sort_values("right", ascending=False, kind="stable").drop_duplicates(["model_id", "layer"])
    return both.assign(squared=both["value"].astype(float) ** 2).reset_index(drop=True)


def late_means(by_layer: pd.DataFrame, depth: pd.Series) -> pd.DataFrame:
    """Mean squared norm over the last quarter of each model that has layers there."""
    late = by_layer[by_layer["layer"] > LATE * by_layer["model_id"].map(depth)]
    return (
        late.groupby("model_id")
        .agg(heritage=("heritage", "first"), late=("squared", "mean"), right=("right", "all"))
        .reset_index()
    )


def pairs(late: pd.DataFrame) -> pd.DataFrame:
    """Every EleutherAI model with per-layer norms beside every other lab's model with them."""
    inside = late["heritage"] == FOCAL
    both = late[inside].merge(late[~inside], how="cross", suffixes=("", "_other"))
    both["right"] = both["right"] & both["right_other"]
    return both.assign(ratio=both["late"] / both["late_other"])


def between_recipes(models: pd.DataFrame, column: str) -> pd.DataFrame:
    """Ratios of every model to every model of another recipe, larger or smaller: recipe, recipe_other, ratio."""
    own = models[["heritage", column]].rename(columns={"heritage": "recipe", column: "late"})
    both = own.merge(own, how="cross", suffixes=("", "_other"))
    both = both[both["recipe"] != both["recipe_other"]]
    return both.assign(ratio=both["late"] / both["late_other"])


def verdict_of_recipes(both: pd.DataFrame) -> str:
    """The rule for models trained here."""
    if both["ratio"].between(LEAST, MOST).groupby(both["recipe"]).all().any():
        return SUPPORTED
    return AGAINST if both["ratio"].max() < LEAST else OPEN


def trained(tables: Evidence) -> list[Finding]:
    """Late layers of the models trained here: the right W_V, then the study's slicing."""
    models = trained_norms(tables).dropna(subset=["late", "late_cut"])
    slicings = {"late": "the right W_V", "late_cut": "W_V by the published slicing"}
    return [of_recipes(models, column, words) for column, words in slicings.items()]


def of_recipes(models: pd.DataFrame, column: str, words: str) -> Finding:
    """The finding on models trained here with W_V taken one way."""
    n, recipes = len(models), models["heritage"].nunique()
    finding = partial(
        Finding,
        claim="C06",
        estimand=f"largest ratio of squared norms in late layers between recipes, {words}, models trained here",
        n_models=n,
        n_heritages=recipes,
        group="recipe",
    )
    if n < LEAST_TRAINED or recipes < LEAST_RECIPES:
        return finding(
            verdict=UNMEASURED,
            plain=f"{SENTENCES[UNMEASURED]}: the tables hold {n} models trained here, and the rule asks for "
            f"{LEAST_TRAINED} models of {LEAST_RECIPES} recipes at least.",
        )
    both = between_recipes(models, column)
    decided = verdict_of_recipes(both)
    means = np.exp(np.log(models[column]).groupby(models["heritage"]).mean())
    fused = models[models["fused"]]
    off = fused["late_cut"] / fused["late"]
    learned = between_recipes(models[models["learned"].eq(True)], column)

    def draw(axes: Axes) -> None:
        strip_by_group(models, axes, value=column, null=None)
        axes.set_xlabel(f"mean ‖W_V‖₂² over the last quarter of the layers, {words}")
        log_axis(axes, "x")

    return finding(
        verdict=decided,
        plain=f"{SENTENCES[decided]}: over {n} models trained here the late layers of two models of different recipes "
        f"differ at most {number(both['ratio'].max())}-fold in ‖W_V‖₂² ({words}), and the geometric means of two "
        f"recipes at most {number(means.max() / means.min())}-fold, between {means.idxmax()} and {means.idxmin()}.",
        estimate=float(both["ratio"].max()),
        table=models[["model_id", "heritage", "fused", "late", "late_cut", "learned"]],
        draw=draw,
        caption=f"Mean squared norm of the last quarter of the layers ({words}), one point a model, one row a recipe; "
        "tick: mean.",
        notes=(
            f"In the {len(fused)} models with a fused matrix the published slicing changes the squared norm of late "
            f"layers by factors from {number(off.min())} to {number(off.max())}, median {number(off.median())}; "
            f"that alone, without any difference between recipes, is {number(off.max() / off.min())}-fold.",
            f"Of models that learned the largest ratio is {number(learned['ratio'].max())}.",
            "The models are small and trained for a short time; that recipes could do more in large models is not "
            "excluded by this. No model is fitted: the rule asks for the extremes of pairs.",
        ),
    )


def verdict(both: pd.DataFrame) -> str:
    """The rule."""
    right = both[both["right"]]
    if right.empty:
        return UNMEASURED
    return SUPPORTED if right["ratio"].between(LEAST, MOST).all() else AGAINST


def analyse(tables: Evidence) -> list[Finding]:
    """The models of the study, and beside it what the means over layers allow; then the models trained here."""
    models = tables.table("models").drop_duplicates("model_id").set_index("model_id")
    by_layer = curves(tables)
    late = late_means(by_layer, models["n_layers"])
    both = pairs(late)
    means = tables.table("summaries", source=SUMMARY, estimand=MEANS)[["model_id", "value"]]
    means = means.assign(heritage=means["model_id"].map(models["heritage"]), squared=means["value"] ** 2)
    others = means[means["heritage"] != FOCAL].sort_values("squared")
    top = late[late["heritage"] == FOCAL].sort_values("late").iloc[-1]
    against = others.assign(ratio=top["late"] / others["squared"])
    decided = verdict(both)
    listed = ", ".join(f"{short_name(row.model_id)} {number(row.ratio)}" for row in against.itertuples())
    name = short_name(top["model_id"])
    here = ", ".join(short_name(model) for model in sorted(set(by_layer.loc[by_layer["right"], "model_id"])))
    measured = f"With the right W_V, measured here: {here}. " * bool(here)
    if decided == UNMEASURED:
        seen = (
            f"per-layer norms are published for {name} alone, and not of W_V but of a third of the fused weights. Its "
            "late layers exceed the squared mean norm over all layers of other labs' models by these factors: "
            f"{listed}."
        )
    else:
        ratios = both.loc[both["right"], "ratio"]
        seen = (
            f"over {len(ratios)} pairs of models the ratio runs from {number(ratios.min())} to {number(ratios.max())}."
        )
    notes = (
        "The square of a model's mean norm is at most the mean of its squared norms, so that these ratios are at least "
        "the ratios to the other models' mean squared norm over all layers; of their late layers alone they say "
        f"nothing. In {int(against['ratio'].between(LEAST, MOST).sum())} of {len(against)} the ratio is between "
        f"{LEAST:g} and {MOST:g}.",
        f"The largest layer of {name} against the smallest of those means gives "
        f"{number(by_layer.loc[by_layer['model_id'] == top['model_id'], 'squared'].max() / others['squared'].min())}.",
        "The published factor cannot be recomputed: norms of the other models by layer are drawn in figure 8, which is "
        "not in the files; nothing was read off it.",
        "No model is fitted: a ratio of single norms has no replicates whose spread could be modelled.",
    )

    def draw(axes: Axes) -> None:
        for model, rows in by_layer.sort_values("layer").groupby("model_id"):
            lab = mark(str(rows["heritage"].iloc[0]))
            depth = rows["layer"] / models["n_layers"][model]
            axes.plot(depth, rows["squared"], color=lab.color, marker=lab.marker, markersize=4, label=short_name(model))
        for row in others.itertuples():
            axes.axhline(row.squared, color=mark(row.heritage).color, linestyle="--", linewidth=1)
            axes.annotate(
                short_name(row.model_id),
                (0.02, row.squared),
                xytext=(0, 2),
                textcoords="offset points",
                fontsize=7.5,
                color=INK,
            )
        axes.axvspan(LATE, 1.0, color="#d5d2cb", alpha=0.35, linewidth=0)
        axes.set(yscale="log", xlabel="relative depth l / L", ylabel="‖W_V‖₂²", xlim=(0, 1.02))
        axes.legend(loc="upper left")

    return [
        Finding(
            claim="C06",
            estimand="ratio of squared W_V norms in late layers, EleutherAI to others",
            verdict=decided,
            plain=f"{SENTENCES[decided]}: {seen}",
            published=stated(tables, STATED),
            n_models=int(late["model_id"].nunique()),
            n_heritages=int(late["heritage"].nunique()),
            notes=notes,
            table=against[["model_id", "heritage", "squared", "ratio"]],
            draw=draw,
            caption=f"Squared norms by layer as published for {name} (the third of the fused weights that was called "
            f"W_V), and the squared mean norms of other labs' models over all their layers (dashed). {measured}The "
            "last quarter is shaded.",
        ),
        *trained(tables),
    ]


if __name__ == "__main__":
    run(CLAIM, analyse)
