"""C16: restriction maps ρ_ij = √A_ij W_V contract before L* and expand after.

Claim: below the transition layer the restriction maps shrink what they carry, above it they enlarge it.
Estimand: per model, the geometric mean over layers of the norm of the restriction maps relative to ‖W_V‖₂ (the file's
contraction ratio, the mean of √A_ij) before and after L*; apart, of their operator norm √A_ij ‖W_V‖₂.
Rule: unit is the model. A model shows the pattern under a definition of L* where the mean is below 1 before and above 1
after it. Against where the study's own model shows it under none of the definitions that the study gives (minimum of
the contraction ratio, steepest change of the trace, formula); supported where the exact 95 % interval of the share of
models that show it lies above one half, for which at least 6 models have to; otherwise inconclusive. An operator norm
that was computed with a matrix that is not W_V needs measurement.
Source: appendix D; restriction_maps_results.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from thermostats.modelling.contingency import proportion
from thermostats.reporting.findings import Claim, Finding, Tables, run
from thermostats.reporting.labels import short_name
from thermostats.reporting.plots import MUTED, reference
from thermostats.reporting.provenance import follows
from thermostats.reporting.scales import log_axis
from thermostats.reporting.verdicts import AGAINST, OPEN, SENTENCES, SUPPORTED, UNMEASURED, if_above
from thermostats.reporting.words import number

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
    "above one half. An operator norm computed with a matrix that is not W_V needs measurement. Unit: the model.",
    source="Appendix D; restriction_maps_results",
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


def analyse(tables: Tables) -> list[Finding]:
    """Norms relative to W_V, then operator norms."""
    rows = tables.read("attention", source=SOURCE)
    model_id = rows["model_id"].iloc[0]
    model = tables.read("models", model_id=model_id).iloc[0]
    every = rows[rows["variant"] == "unstated"].sort_values("layer")
    maps = every[["layer", *WORDS]].dropna().astype(float).reset_index(drop=True)
    traces = rows[rows["variant"] == "subsampled"].sort_values("layer")[["layer", "trace"]].astype(float)
    slopes = np.abs(np.gradient(every["contraction_ratio"].to_numpy(float)))
    layers = transition_layers(maps, traces, model)
    stated = tables.read("statements", source=SOURCE).set_index("pointer")["value"]
    published = {"L* minimum, from 0": float(stated["/restriction_maps/L_star_min_contraction"]),
                 "L* inflection, from 0": float(stated["/restriction_maps/L_star_inflection"])}  # fmt: skip
    reproduced = {"L* minimum, from 0": layers["minimum of the contraction ratio"] - 1,
                  "L* inflection, from 0": float(every["layer"].iloc[int(np.nanargmax(slopes))]) - 1}  # fmt: skip
    lost = len(every) - len(maps)
    sizes = tables.read("summaries", source=SOURCE)["estimand"]
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
            measure, maps, layers, model_id, str(model["heritage"]), published, reproduced, notes,
            unmeasured=wrong and measure == "operator_norm",
        )
        for measure in WORDS
    )  # fmt: skip
    return [replace(first, notes=(CORRECTED, *notes)), second]


def judge(shown: int, models: int) -> str:
    """Verdict where so many of the models measured, the study's own first among them, show the pattern."""
    share = proportion(shown, models)
    return AGAINST if not shown else SUPPORTED if if_above(share.lower, share.upper, 0.5) == SUPPORTED else OPEN


def finding(
    measure: str, maps: pd.DataFrame, layers: dict[str, float], model_id: str, heritage: str,
    published: dict[str, float], reproduced: dict[str, float], notes: tuple[str, ...], *, unmeasured: bool,
) -> Finding:  # fmt: skip
    """One measure of the maps before and after every L*."""
    log = np.log(maps[measure])
    table = pd.DataFrame([
        {"definition": name, "L_star": at, "before": float(np.exp(log[maps["layer"] < at].mean())),
         "after": float(np.exp(log[maps["layer"] > at].mean())),
         "layers_below_1_before": int((log[maps["layer"] < at] < 0).sum()),
         "layers_before": int((maps["layer"] < at).sum())}
        for name, at in layers.items()
    ])  # fmt: skip
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
        estimate=first["before"], published=published, reproduced=reproduced, n_models=1, n_heritages=1, table=table,
        draw=draw, notes=notes,
        caption=f"{title} of the restriction maps over the layers of {short_name(model_id)} "
        f"({heritage}), log scale, with L* by three definitions. {int(table['shows_it'].sum())} of {len(table)} show "
        "values below 1 before and above 1 after.",
    )  # fmt: skip


if __name__ == "__main__":
    run(CLAIM, analyse)
