"""C16: restriction maps ρ_ij = √A_ij W_V contract before L* and expand after.

Claim: below the transition layer the restriction maps shrink what they carry, above it they enlarge it.
Estimand: per model, the geometric mean over layers of the norm of the restriction maps relative to ‖W_V‖₂ (the file's
contraction ratio, the mean of √A_ij) before and after L*; apart, of their operator norm √A_ij ‖W_V‖₂.
Rule: unit is the model. A model shows the pattern under a definition of L* where the mean is below 1 before and above 1
after it. Against where the study's own model shows it under none of the definitions that the study gives (minimum of
the contraction ratio, steepest change of the trace, formula); supported where the exact 95 % interval of the share of
models that show it lies above one half, for which at least 6 models have to; otherwise inconclusive. An operator norm
that was computed with a matrix that is not W_V needs measurement.
Models trained here, apart, at the end of training, with the right W_V and one definition of L* after the other among
those with blocks on both sides: a model of at least LEAST_BLOCKS blocks shows the pattern where any definition does,
which is the reading most favourable to the claim. Supported where the exact 95 % interval of the share that shows it
lies above one half, against where it lies below, else inconclusive; fewer than LEAST_TRAINED models need measurement.
Beside it the posterior of the share, models of a recipe alike: P(share > one half) at least 0.95 supports, at most 0.05
is against; the verdict is what both come to. Models measured here that others trained are shown and not counted.
Source: appendix D; restriction_maps_results.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, UNMEASURED, if_above
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import MUTED, forest, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.provenance import follows
from thermostats.studies.nursery.norms import at_the_end
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import number, short_name

LEAST_BLOCKS, LEAST_TRAINED, SEED = 4, 24, 16
DEFINITIONS = ("minimum", "steepest", "formula")
SOURCE = "restriction_maps_results.json"
WORDS = {"contraction_ratio": "norm relative to W_V", "operator_norm": "operator norm"}
WRONG = (
    "W_V was cut out of the fused matrix in thirds, which for this architecture is not W_V; its norm scales the "
    "operator norms, while the norm relative to W_V, the mean of √A_ij, does not depend on it."
)
CORRECTED = (
    "The rule was corrected after a review, because it judged the operator norm although the file computed it with a "
    "matrix that is not W_V; under the earlier rule the verdict was not supported too, resting on that norm."
)

CLAIM = Claim(
    id="C16",
    title="Restriction maps contract before L* and expand after",
    said="The restriction maps √A_ij W_V have norms below 1 before the transition layer and above 1 after it "
    "(Pythia-1.4B).",
    estimand="geometric mean over layers of the restriction maps' norm relative to W_V, before and after L*; apart, of "
    "their operator norm",
    rule="Against where the study's model shows the pattern (below 1 before, above 1 after) under none of the "
    "study's definitions of L*; supported where the exact 95 % interval of the share of models that show it lies "
    "above one half. An operator norm computed with a matrix that is not W_V needs measurement. Unit: the model. "
    "Models trained here, apart: that interval against one half either way, and the posterior of the share.",
    source="Appendix D; restriction_maps_results",
    rows="study and measured",
)


def transition_layers(maps: pd.DataFrame, traces: pd.DataFrame, model: pd.Series) -> dict[str, float]:
    """L* (1-based) by each definition of the study, among the layers that are numbers."""
    L, H = float(model["n_layers"]), float(model["n_heads"])
    steep = np.abs(np.gradient(traces["trace"].to_numpy(float)))  # missing beside missing layers
    return {
        "minimum of the contraction ratio": float(maps.loc[maps["contraction_ratio"].idxmin(), "layer"]),
        "steepest change of the trace": float(traces["layer"].iloc[int(np.nanargmax(steep))]),
        "formula L(0.11 + 0.012 L + 4.9/H)": L * (0.11 + 0.012 * L + 4.9 / H),
    }


def analyse(tables: Evidence) -> list[Finding]:
    """Norms relative to W_V, then operator norms; then both over the models trained here."""
    rows = tables.table("attention", source=SOURCE)
    model_id = rows["model_id"].iloc[0]
    model = tables.table("models", model_id=model_id).iloc[0]
    every = rows[rows["variant"] == "unstated"].sort_values("layer")
    maps = every[["layer", *WORDS]].dropna().astype(float).reset_index(drop=True)
    traces = rows[rows["variant"] == "subsampled"].sort_values("layer")[["layer", "trace"]].astype(float)
    slopes = np.abs(np.gradient(every["contraction_ratio"].to_numpy(float)))
    layers = transition_layers(maps, traces, model)
    stated = tables.table("statements", source=SOURCE).set_index("pointer")["value"]
    published = {
        "L* minimum, from 0": float(stated["/restriction_maps/L_star_min_contraction"]),
        "L* inflection, from 0": float(stated["/restriction_maps/L_star_inflection"]),
    }
    reproduced = {
        "L* minimum, from 0": layers["minimum of the contraction ratio"] - 1,
        "L* inflection, from 0": float(every["layer"].iloc[int(np.nanargmax(slopes))]) - 1,
    }
    lost = len(every) - len(maps)
    sizes = tables.table("summaries", source=SOURCE)["estimand"]
    wrong = bool(sizes.str.startswith("W_V_spectral_norm_published_thirds").any())
    notes = (
        f"In {lost} of {len(every)} layers attention overflowed in half precision and is no number. A search for the "
        "smallest value stops at the first such entry: the published L* is the place of the overflow, not an "
        "extreme of the curve.",
        *((WRONG,) if wrong else ()),
        follows(tables, SOURCE),
        "One model, one prompt; neighbouring layers are not independent, so no interval over layers is given. With one "
        "model the exact interval of a share never lies above one half: these data cannot support the claim, and "
        "there is no share over models whose posterior could be fitted.",
    )
    first, second = (
        finding(
            measure,
            maps,
            layers,
            model_id,
            str(model["heritage"]),
            published,
            reproduced,
            notes,
            unmeasured=wrong and measure == "operator_norm",
        )
        for measure in WORDS
    )
    return [replace(first, notes=(CORRECTED, *notes)), second, *trained(tables)]


def by_layer(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a model and layer: geometric mean over prompts of both measures, mean trace; all heads together."""
    whole = rows[(rows["head"] == "") & (rows["variant"] == "exact")].dropna(subset=[*WORDS, "trace"])
    logs = whole.assign(**{name: np.log(whole[name].astype(float)) for name in WORDS})
    mean = logs.groupby(["model_id", "heritage", "layer"], as_index=False)[[*WORDS, "trace"]].mean()
    return mean.assign(**{name: np.exp(mean[name]) for name in WORDS})


def patterns(layers: pd.DataFrame, models: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row a model deep enough: means before and after every L*, whether any definition shows the pattern."""
    known, rows = models.drop_duplicates("model_id").set_index("model_id"), []
    for (model, heritage), own in layers.groupby(["model_id", "heritage"]):
        if len(own) < LEAST_BLOCKS:
            continue
        curve = own.sort_values("layer").astype({"layer": float}).reset_index(drop=True)
        row: dict[str, object] = {"model_id": model, "heritage": heritage}
        log, shows = np.log(curve[measure]), False
        for name, at in zip(DEFINITIONS, transition_layers(curve, curve, known.loc[model]).values(), strict=True):
            before, after = log[curve["layer"] < at].mean(), log[curve["layer"] > at].mean()
            row |= {f"before_{name}": float(np.exp(before)), f"after_{name}": float(np.exp(after))}
            shows |= bool(before < 0 < after)
        rows.append(row | {"largest": float(curve[measure].max()), "shows_it": shows})
    means = [f"{side}_{name}" for name in DEFINITIONS for side in ("before", "after")]
    return pd.DataFrame(rows, columns=["model_id", "heritage", *means, "largest", "shows_it"])


def trained(tables: Evidence) -> list[Finding]:
    """The two measures over the models trained here."""
    own = by_layer(at_the_end(tables, "attention"))
    others = by_layer(tables.table("attention", variant="exact"))
    known = tables.table("models", source=NURSERY), tables.table("models")
    return [of_trained(patterns(own, known[0], name), patterns(others, known[1], name), name) for name in WORDS]


def of_trained(table: pd.DataFrame, others: pd.DataFrame, measure: str) -> Finding:
    """One measure over the models trained here; `others` are shown."""
    words, n = WORDS[measure], len(table)
    estimand = f"{words} of the restriction maps: share of models trained here that show the pattern"
    if n < LEAST_TRAINED:
        return Finding(
            claim="C16",
            estimand=estimand,
            verdict=UNMEASURED,
            n_models=n,
            n_heritages=table["heritage"].nunique(),
            group="recipe",
            plain=f"{SENTENCES[UNMEASURED]}: the tables hold {n} models trained here of at least {LEAST_BLOCKS} blocks "
            f"with attention, and the rule asks for {LEAST_TRAINED}.",
        )
    shown = int(table["shows_it"].sum())
    share = proportion(shown, n)
    verdict = if_above(share.lower, share.upper, 0.5)
    each = pd.DataFrame(
        [
            {
                "definition": name,
                "part": part,
                "estimate": float(np.exp(logs.median())),
                "lower": float(np.exp(logs.quantile(0.05))),
                "upper": float(np.exp(logs.quantile(0.95))),
            }
            for name in DEFINITIONS
            for part in ("before", "after")
            for logs in [np.log(table[f"{part}_{name}"].dropna())]
        ]
    )
    each["row"] = "L* by " + each["definition"] + ", " + each["part"]
    middle = each.set_index(["definition", "part"])["estimate"]["minimum"]
    listed = "; ".join(
        f"{short_name(r.model_id)}, {r.heritage}: before {number(r.before_minimum)}, after {number(r.after_minimum)}"
        for r in others.itertuples()
    )

    def draw(axes: Axes) -> None:
        forest(each, axes, label="row", null=1.0)
        axes.set_xlabel(f"{words}, mean over edges: median and 90 % of models")
        log_axis(axes, "x")

    found = Finding(
        claim="C16",
        estimand=estimand,
        verdict=verdict,
        plain=f"{SENTENCES[verdict]}: of {n} models trained here {shown} have restriction maps whose {words} is on "
        "average below 1 before L* and above 1 after it by any definition (share between "
        f"{number(share.lower)} and {number(share.upper)}). With L* where the contraction ratio is smallest the median "
        f"model has {number(middle['before'])} before and {number(middle['after'])} after; the largest value of any "
        f"block is {number(table['largest'].max())}.",
        estimate=share.estimate,
        lower=share.lower,
        upper=share.upper,
        interval=f"{share.interval}, 95 %",
        probability=share.p_value,
        probability_kind="p-value",
        n_models=n,
        n_heritages=table["heritage"].nunique(),
        group="recipe",
        table=table,
        draw=draw,
        caption=f"{words[0].upper()}{words[1:]} before and after L* over {n} models trained here, by three definitions "
        "of L*: median and middle 90 % of models.",
        notes=(
            *((f"Measured here, trained by others, shown and not counted: {listed}.",) if listed else ()),
            "The scale of W_V is not fixed by what a model computes: doubling W_V and halving W_O changes nothing in "
            "the model, and doubles the operator norm of its maps, so that 1 is no natural border for it."
            if measure == "operator_norm"
            else "The norm relative to W_V is a mean of √A_ij and cannot exceed 1: this measure can show no expansion.",
            "Small models, trained for a short time on two corpora.",
        ),
    )
    fit = fit_share(table, "shows_it", sources=[NURSERY], seed=SEED)
    told = posterior_of(
        fit,
        model="Share of models that show the pattern, models of a recipe alike.",
        statement="share > 0.5",
        classical=verdict,
        tables=["groups"],
    )
    return beside(found, fit, told)


def judge(shown: int, models: int) -> str:
    """Verdict where so many of the models measured, the study's own first among them, show the pattern."""
    share = proportion(shown, models)
    return AGAINST if not shown else SUPPORTED if if_above(share.lower, share.upper, 0.5) == SUPPORTED else OPEN


def finding(
    measure: str,
    maps: pd.DataFrame,
    layers: dict[str, float],
    model_id: str,
    heritage: str,
    published: dict[str, float],
    reproduced: dict[str, float],
    notes: tuple[str, ...],
    *,
    unmeasured: bool,
) -> Finding:
    """One measure of the maps before and after every L*."""
    log = np.log(maps[measure])
    table = pd.DataFrame(
        [
            {
                "definition": name,
                "L_star": at,
                "before": float(np.exp(log[maps["layer"] < at].mean())),
                "after": float(np.exp(log[maps["layer"] > at].mean())),
                "layers_below_1_before": int((log[maps["layer"] < at] < 0).sum()),
                "layers_before": int((maps["layer"] < at).sum()),
            }
            for name, at in layers.items()
        ]
    )
    table["shows_it"] = (table["before"] < 1) & (table["after"] > 1)
    shown = int(table["shows_it"].any())
    verdict = UNMEASURED if unmeasured else judge(shown, 1)
    first = table.iloc[0]
    largest = float(maps[measure].max())
    bounded = measure == "contraction_ratio"
    title = WORDS[measure][0].upper() + WORDS[measure][1:]
    lead = (
        "No attention weight exceeds 1, so relative to W_V the restriction maps contract in every layer of every model "
        f"and expand in none. {SENTENCES[verdict]}: in"
        if bounded and largest <= 1
        else "With the right matrix this has not been measured: the file's operator norms were computed with a third "
        "of the fused matrix, which is not W_V. As published, in"
        if unmeasured
        else f"{SENTENCES[verdict]}: in"
    )

    def draw(axes: Axes) -> None:
        axes.plot(maps["layer"], maps[measure], marker="o", label=short_name(model_id))
        reference(axes, 1.0, text="1")
        for dash, row in zip((":", "--", "-."), table.itertuples(), strict=False):
            axes.axvline(row.L_star, color=MUTED, linestyle=dash, linewidth=1, label=f"L*, {row.definition}")
        axes.set(xlabel="layer l", ylabel=f"{WORDS[measure]}, mean over edges")
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0.94))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        log_axis(axes, "y")

    return Finding(
        claim="C16",
        estimand=f"{WORDS[measure]} of the restriction maps, geometric mean over the layers before L*",
        verdict=verdict,
        plain=f"{lead} the one model measured the {WORDS[measure]} of the maps is on average {number(first['before'])} "
        f"before L* and {number(first['after'])} after it (L* as the layer of the smallest contraction ratio), and "
        f"{int(table['shows_it'].sum())} of the {len(table)} definitions of L* show the pattern. Of the layers before "
        f"L* {first['layers_below_1_before']} of {first['layers_before']} lie below 1, and the largest value of all is "
        f"{number(largest)}.",
        estimate=first["before"],
        published=published,
        reproduced=reproduced,
        n_models=1,
        n_heritages=1,
        table=table,
        draw=draw,
        notes=notes,
        caption=f"{title} of the restriction maps over the layers of {short_name(model_id)} "
        f"({heritage}), log scale, with L* by three definitions. {int(table['shows_it'].sum())} of {len(table)} show "
        "values below 1 before and above 1 after.",
    )


if __name__ == "__main__":
    run(CLAIM, analyse)
