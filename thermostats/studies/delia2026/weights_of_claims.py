"""Entropy of the next token and last gain by prompt, and the audit of the study's correlations and
t tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import Case
from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.formatting import strip_owner
from thermostats.studies.delia2026.stated_facts import (
    BENCHMARK,
    GPT2,
    H4_EXTENDED,
    H4_V2,
    LAST_GAIN_FILES,
    check_model_figures,
    drop_tuned,
    iterate_model_figures,
    join_audits,
    load_gains,
    load_known_gains,
    load_stated,
    load_stated_models,
)
from thermostats.tables.invariants import compute_balanced_ratio, compute_ov_read
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import model_rows
from thermostats.tables.reading import keep_last_revision
from thermostats.tables.schemas import MODEL

BENTOV = "{} Pearson of entropy and |gain − 1|"
BENTOV_P = "p of " + BENTOV
IN_THE_FILE = {
    "{} Spearman": r"/entropy_correlations/\d+/Spearman_r",
    "{} Spearman p": r"/entropy_correlations/\d+/Spearman_p",
    "{} Pearson": r"/entropy_correlations/\d+/Pearson_r",
    "{} Pearson p": r"/entropy_correlations/\d+/Pearson_p",
}
IN_GPT2_FILE = {
    BENTOV: r"/bentov_law_results/\d+/Bentov_Correlation",
    BENTOV_P: r"/bentov_law_results/\d+/p_value",
}
CLICHES = {
    "{} mean entropy, clichés": r"/p3_platitude_tunnel/\d+/Cliche_Entropy_Mean",
    "{} mean entropy, novel": r"/p3_platitude_tunnel/\d+/Novel_Entropy_Mean",
    "{} t": r"/p3_platitude_tunnel/\d+/t_stat",
    "{} p": r"/p3_platitude_tunnel/\d+/p_val",
    "{} Cohen's d": r"/p3_platitude_tunnel/\d+/cohens_d",
}


def add_entropy(tables: Evidence, gains: pd.DataFrame, *sources: str) -> pd.DataFrame:
    """Gains by run and prompt with the entropy of the next token, of the files of last gains or the
    named sources.

    Of another set of evidence without sources: of the whole set.
    """
    chosen = (
        {} if tables.name in VIEWS and not sources else {"source": list(sources or LAST_GAIN_FILES)}
    )
    outputs = tables.table("outputs", **chosen)[["run_id", "prompt_id", "entropy"]]
    rows = gains.merge(outputs[outputs["entropy"].notna()], on=["run_id", "prompt_id"])
    return rows.astype({"value": float, "entropy": float})


def check_correlation(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Correlations model by model; the GPT-2 file's are of entropy and the distance of the gain
    from 1."""

    def of_gain(of_model: pd.DataFrame) -> tuple[float, ...]:
        return (
            *stats.spearmanr(of_model["entropy"], of_model["value"]),
            *stats.pearsonr(of_model["entropy"], of_model["value"]),
        )

    def of_distance(of_model: pd.DataFrame) -> tuple[float, ...]:
        return tuple(stats.pearsonr(of_model["entropy"], (of_model["value"] - 1).abs()))

    four, gpt2 = (rows[rows["source"] == file] for file in (BENCHMARK, GPT2))
    return join_audits(
        check_model_figures(tables, BENCHMARK, IN_THE_FILE, iterate_model_figures(four, of_gain)),
        check_model_figures(tables, GPT2, IN_GPT2_FILE, iterate_model_figures(gpt2, of_distance)),
    )


def check_cliches(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Mean entropies of clichés and novel prompts model by model, with the study's t test."""

    def differences(of_model: pd.DataFrame) -> tuple[float, ...]:
        first, second = (
            of_model.loc[of_model["category"] == c, "entropy"] for c in ("Cliche", "Novel")
        )
        size = (first.mean() - second.mean()) / ((first.var() + second.var()) / 2) ** 0.5
        return (first.mean(), second.mean(), *stats.ttest_ind(first, second), size)

    return check_model_figures(
        tables,
        BENCHMARK,
        CLICHES,
        iterate_model_figures(rows[rows["source"] == BENCHMARK], differences),
    )


SOURCE = "restriction_maps_results.json"
DEFINITIONS = {
    "minimum": "minimum of the contraction ratio",
    "steepest": "steepest change of the trace",
    "formula": "formula L(0.11 + 0.012 L + 4.9/H)",
}
MEASURES = ["contraction_ratio", "operator_norm"]
"""Norms of the maps: over ‖W_V‖₂, the mean of √A_ij, and as they are."""
LEAST_BLOCKS = 4
BY_INDEX = {
    "L* minimum, from 0": "/restriction_maps/L_star_min_contraction",
    "L* inflection, from 0": "/restriction_maps/L_star_inflection",
}


def find_transition_layers(
    maps: pd.DataFrame, traces: pd.DataFrame, model: pd.Series
) -> dict[str, float]:
    """L* (1-based) by the names of `DEFINITIONS`, among the layers that are numbers."""
    L = float(model["n_layers"])
    H = float(model["n_heads"])
    steep = np.abs(
        np.gradient(traces["trace"].to_numpy(float))
    )  # missing where a neighbouring layer is
    layers = (
        float(maps.loc[maps["contraction_ratio"].idxmin(), "layer"]),
        float(traces["layer"].iloc[int(np.nanargmax(steep))]),
        L * (0.11 + 0.012 * L + 4.9 / H),
    )
    return dict(zip(DEFINITIONS, layers, strict=True))


def compare_transition_sides(
    maps: pd.DataFrame, layers: dict[str, float], measure: str
) -> pd.DataFrame:
    """One row per definition: geometric means of a measure before and after L*, layers below 1
    before, `shows_it`."""
    log = np.log(maps[measure])
    rows = []
    for name, at in layers.items():
        before = log[maps["layer"] < at]
        after = log[maps["layer"] > at]
        means = float(np.exp(before.mean())), float(np.exp(after.mean()))
        rows.append((DEFINITIONS[name], at, *means, int((before < 0).sum()), len(before)))
    columns = ["definition", "L_star", "before", "after", "layers_below_1_before", "layers_before"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(shows_it=(table["before"] < 1) & (table["after"] > 1))


def load_published_maps(tables: Evidence) -> tuple[pd.DataFrame, dict[str, float], pd.Series]:
    """Both measures by layer of the file's model, its L* by definition, its row of the table of
    models.

    Layers in which attention overflowed have no numbers and are left out.
    """
    rows = tables.table("attention", source=SOURCE)
    model = tables.table("models", model_id=rows["model_id"].iloc[0]).iloc[0]
    maps = select_layer_maps(rows).dropna().astype(float).reset_index(drop=True)
    traces = (
        rows[rows["variant"] == "subsampled"].sort_values("layer")[["layer", "trace"]].astype(float)
    )
    return maps, find_transition_layers(maps, traces, model), model


def select_layer_maps(rows: pd.DataFrame) -> pd.DataFrame:
    """Layers of the file with both measures, missing where attention overflowed."""
    return rows[rows["variant"] == "unstated"].sort_values("layer")[["layer", *MEASURES]]


def is_wrong_matrix(tables: Evidence) -> bool:
    """True where the file's operator norms were computed with a third of the fused matrix, which is
    not W_V."""
    sizes = tables.table("summaries", source=SOURCE)["estimand"]
    return bool(sizes.str.startswith("W_V_spectral_norm_published_thirds").any())


def check_maps(tables: Evidence, layers: dict[str, float]) -> tuple[Audit, int, int]:
    """L* as the file gives it, counted from 0; layers without a number, and all layers. `layers`:
    from `load_published_maps`."""
    every = select_layer_maps(tables.table("attention", source=SOURCE))
    slopes = np.abs(np.gradient(every["contraction_ratio"].to_numpy(float)))
    values = (layers["minimum"] - 1, float(every["layer"].iloc[int(np.nanargmax(slopes))]) - 1)
    figures = dict(zip(BY_INDEX, values, strict=True))
    return (
        Audit(load_stated(tables, BY_INDEX, SOURCE), figures),
        int(every.isna().any(axis=1).sum()),
        len(every),
    )


def summarise_layers(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per model and layer: geometric mean over prompts of both measures, mean trace; all
    heads together."""
    all_heads = rows[(rows["head"] == "") & (rows["variant"] == "exact")].dropna(
        subset=[*MEASURES, "trace"]
    )
    logs = all_heads.assign(**{name: np.log(all_heads[name].astype(float)) for name in MEASURES})
    mean = logs.groupby(["model_id", "heritage", "layer"], as_index=False)[
        [*MEASURES, "trace"]
    ].mean()
    return mean.assign(**{name: np.exp(mean[name]) for name in MEASURES})


def find_patterns(layers: pd.DataFrame, models: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row per model deep enough: means before and after every L*, whether any definition shows
    the pattern."""
    by_model = models.drop_duplicates("model_id").set_index("model_id")
    rows = []
    for (model, heritage), of_model in layers.groupby(["model_id", "heritage"]):
        if len(of_model) < LEAST_BLOCKS:
            continue
        curve = of_model.sort_values("layer").astype({"layer": float}).reset_index(drop=True)
        sides = compare_transition_sides(
            curve, find_transition_layers(curve, curve, by_model.loc[model]), measure
        )
        means = sides[["before", "after"]].to_numpy(float).ravel()
        rows.append(
            (model, heritage, *means, float(curve[measure].max()), bool(sides["shows_it"].any()))
        )
    means = [f"{side}_{name}" for name in DEFINITIONS for side in ("before", "after")]
    return pd.DataFrame(rows, columns=["model_id", "heritage", *means, "largest", "shows_it"])


def summarise_models(table: pd.DataFrame) -> pd.DataFrame:
    """Median and middle 90% of models of every mean of `find_patterns`, one row per definition and
    side of L*."""
    rows = []
    for name in DEFINITIONS:
        for side in ("before", "after"):
            logs = np.log(table[f"{side}_{name}"].dropna())
            middle = (float(np.exp(logs.quantile(q))) for q in (0.5, 0.05, 0.95))
            rows.append((f"L* by {name}, {side}", name, side, *middle))
    return pd.DataFrame(rows, columns=["row", "definition", "part", "estimate", "lower", "upper"])


def compare_formula(
    attention: pd.DataFrame, weights: pd.DataFrame, layers: pd.DataFrame
) -> pd.DataFrame:
    """Per model, layer, head and prompt: measured trace, (n − tr A)·‖W_V^h‖_F², their residual over
    n‖W_V^h‖_F².

    n, tr A and ‖W_V^h‖_F come from tables that were measured without one another.
    """
    key = ["model_id", "revision"]
    heads = attention[(attention["variant"] == "exact") & (attention["head"] != "")].dropna(
        subset="trace"
    )
    norms = weights[(weights["matrix"] == "W_V") & (weights["head"] != "")]
    norms = norms[[*key, "layer", "head", "frobenius_norm"]].drop_duplicates(
        [*key, "layer", "head"]
    )
    lengths = layers.dropna(subset="n_tokens").drop_duplicates([*key, "prompt_set", "prompt_id"])
    lengths = lengths[[*key, "prompt_set", "prompt_id", "n_tokens"]]
    rows = heads.merge(norms, on=[*key, "layer", "head"]).merge(
        lengths, on=[*key, "prompt_set", "prompt_id"]
    )
    n = rows["n_tokens"].astype(float)
    squared = rows["frobenius_norm"].astype(float) ** 2
    trace = rows["trace"].astype(float)
    by_formula = (n - n * rows["self_attention"].astype(float)) * squared
    return rows[["model_id", "heritage", "layer", "head", "prompt_id"]].assign(
        trace=trace, by_formula=by_formula, residual=(trace - by_formula).abs() / (n * squared)
    )


def compare_exact(attention: pd.DataFrame) -> pd.DataFrame:
    """One row per model: each trace of the study over the exact one, layer by layer and prompt by
    prompt, median."""
    all_heads = attention[(attention["head"] == "") & attention["trace"].notna()]
    wide = all_heads.pivot_table(
        index=["model_id", "layer", "prompt_id"], columns="variant", values="trace", dropna=False
    )
    wide = (
        wide.reindex(columns=["exact", "first_head", "multi_head", "printed_factor"])
        .astype(float)
        .dropna()
    )
    return (
        wide.drop(columns="exact")
        .div(wide["exact"], axis=0)
        .groupby("model_id")
        .median()
        .reset_index()
    )


FILES = {H4_V2: "small models", H4_EXTENDED: "larger models"}
SUBSAMPLED = "H4_validation_20260106_014132.json"
SMALLEST_GPT2 = "openai-community/gpt2"
SMALL_OPT = "facebook/opt-125m"
STATED = {
    "mean trace of GPT-2": "section 5.2.3 GPT-2",
    "mean trace of OPT-125m": "section 5.2.3 OPT-125m",
    "ratio of the two": "section 5.2.3 ratio",
}
VARIANTS = {"multi_head": "trace of {}, all heads", "first_head": "trace of {}, first head"}
BY_MODEL = {
    H4_V2: {
        VARIANTS["multi_head"]: r"/results/\d+/mean_trace_multihead",
        VARIANTS["first_head"]: r"/results/\d+/mean_trace_full",
    },
    H4_EXTENDED: {VARIANTS["multi_head"]: r"/extended_results/\d+/mean_trace_mh"},
}
"""Mean traces in the files, whose larger models have none where a layer is no number."""


def load_layer_traces(tables: Evidence) -> pd.DataFrame:
    """Traces of every layer, of the first head and summed over heads."""
    return tables.table("attention", source=list(FILES), variant=list(VARIANTS), head="")


def summarise_traces(tables: Evidence) -> pd.DataFrame:
    """One row per model and file of stated behaviour: mean trace over the layers that are numbers,
    by variant.

    Columns besides: layers_missing, known_gain, behaviour; by_label and by_gain, whether the model
    expands. Of another set of evidence `source`, `multi_head` (exact traces added over heads) and
    `by_gain`, by the penultimate gain.
    """
    if tables.name in VIEWS:
        models = drop_unlabelled(model_rows(tables, incomparable=True), "heritage")
        heads = tables.table("attention", variant="exact").dropna(subset="trace")
        heads = heads[(heads["head"] != "") & heads["run_id"].notna()].merge(
            models[["model_id", "revision"]]
        )
        totals = heads.groupby(["model_id", "run_id", "layer", "prompt_id"])["trace"].sum()
        means = totals.groupby("model_id").mean()
        return models.assign(
            multi_head=models["model_id"].map(means), by_gain=models["gain"] > 1
        ).dropna(subset="multi_head")
    groups = load_layer_traces(tables).groupby(["source", "model_id", "heritage", "variant"])[
        "trace"
    ]
    wide = groups.mean().unstack("variant").reset_index()
    layers = groups.agg(lambda values: int(values.isna().sum())).unstack("variant").reset_index()
    wide["layers_missing"] = layers["multi_head"]
    wide = wide.merge(load_known_gains(tables, *FILES), on="model_id")
    wide = wide.assign(by_label=wide["behaviour"] == "EXPAND", by_gain=wide["known_gain"] > 1)
    return wide.sort_values(["source", "multi_head"], ignore_index=True)


def load_subsampled_traces(tables: Evidence) -> pd.Series[float]:
    """Mean trace by model of the file whose operator was subsampled."""
    rows = tables.table("attention", source=SUBSAMPLED, variant="subsampled", head="")
    return rows.groupby("model_id")["trace"].mean()


def trace_audit(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Stated mean traces and their recomputation; `rows` from `summarise_traces`."""
    published = load_stated(tables, STATED)
    for source, names in BY_MODEL.items():
        published |= load_stated_models(tables, source, names)
    small = rows[rows["source"] == H4_V2].set_index("model_id")["multi_head"]
    first = float(small[SMALLEST_GPT2])
    second = float(small[SMALL_OPT])
    reproduced = dict(zip(STATED, (first, second, first / second), strict=True))
    for (model, variant), value in (
        load_layer_traces(tables).groupby(["model_id", "variant"])["trace"].mean().items()
    ):
        name = VARIANTS[variant].format(strip_owner(model))
        if name in published:
            reproduced[name] = float(value)
    return Audit(published, reproduced)


SIGN_CHANGE = "l_star_sign_change_20260106_111315.json"
FORMULA = (0.11, 0.012, 4.9)
"""a, b, c of the study's L* = L (a + b L + c/H)."""
CONSTANTS = {"a": "section 5.3, eq. 6 a", "b": "section 5.3, eq. 6 b", "c": "section 5.3, eq. 6 c"}
TRANSITIONS_BY_MODEL = {
    "L* of {}, mean over prompts": r"/results/\d+/L_star_empirical",
    "L* of {}, SD over prompts": r"/results/\d+/L_star_std",
    "L* of {} by the formula": r"/results/\d+/L_star_predicted",
    "error for {}, % of depth": r"/results/\d+/error_pct",
}
A_PRIORI = "L* of {} from its gain"
ALL_HEADS = "max_abs_gradient_all_heads"
STATED_TRANSITIONS = {
    "error within heritage, % of depth": "section 5.3 within",
    "error across heritages, % of depth": "fig. 5",
    "error of L/2, % of depth": "section 5.3 naive",
}
COMPARED_WITH = {"error the file compares with, %": "/comparison_v2_argmax"}
TRANSITIONS_IN_THE_FILE = {
    "error by the first change of sign, % of depth": "/overall_mape",
    "improvement, points": "/improvement_pp",
}
FIGURE_5 = "L* of {} in figure 5"


TRANSITION_DEFINITIONS = (
    Case("figure_5", "values of figure 5", "figure"),
    Case("steepest", "steepest change of the trace", "max_abs_gradient"),
    Case("steepest_all_heads", "steepest change of the trace of all heads", ALL_HEADS),
    Case("first_sign_change", "first change of sign of the trace's slope", "first_sign_change"),
)
"""Definitions of the empirical L*, each with the `kind` that tables call it by."""


def collect_transitions(tables: Evidence) -> pd.DataFrame:
    """One row per model and definition: L* as the study counts it (index from 0 where its files
    hold indices).

    Of another set of evidence the mean over prompts on the exact trace, counted in the same way.
    """
    if tables.name in VIEWS:
        rows = tables.table("transitions", trace_variant="exact").dropna(subset="layer")
        rows = keep_last_revision(rows, "model_id").rename(columns={"definition": "kind"})
        rows = rows.assign(layer=rows["layer"] - 1)
        return (
            drop_tuned(tables, rows).groupby(["kind", "model_id"], as_index=False)["layer"].mean()
        )
    both = pd.concat([load_published_transitions(tables), find_all_head_transitions(tables)])
    return both.groupby(["kind", "model_id"], as_index=False)["layer"].mean()


def load_published_transitions(tables: Evidence) -> pd.DataFrame:
    """L* as the study counts it, of figure 5 and by model, prompt and definition: columns model_id,
    kind, layer."""
    figure = tables.table("statements", source="preprint")
    figure = figure[figure["statistic"].str.startswith("L* read off")].rename(
        columns={"value": "layer"}
    )
    layers = tables.table("transitions", source=[SIGN_CHANGE, H4_V2, H4_EXTENDED])
    layers = layers[layers["layer"].notna()].rename(columns={"definition": "kind"})
    layers = layers.assign(layer=layers["layer"] - 1)
    return pd.concat(
        [part[["model_id", "kind", "layer"]] for part in (figure.assign(kind="figure"), layers)]
    )


def find_all_head_transitions(tables: Evidence) -> pd.DataFrame:
    """L* (index from 0) as argmax |∂ trace/∂ layer| of the trace of all heads; models with every
    layer a number."""
    rows = tables.table(
        "attention", source=[H4_V2, H4_EXTENDED], variant="multi_head", head=""
    ).sort_values("layer")
    steepest = [
        {
            "model_id": model,
            "kind": ALL_HEADS,
            "layer": float(np.abs(np.gradient(part["trace"])).argmax()),
        }
        for model, part in rows.groupby("model_id")
        if part["trace"].notna().all()
    ]
    return pd.DataFrame(steepest, columns=["model_id", "kind", "layer"])


def add_predictions(rows: pd.DataFrame, tables: Evidence) -> pd.DataFrame:
    """Predictions of the formula and of L/2 with their errors of depth in per cent."""
    at = load_stated(tables, CONSTANTS)
    shape = tables.table("models")[
        ["model_id", "heritage", "n_layers", "n_heads", "position_scheme"]
    ]
    rows = rows.merge(shape.drop_duplicates("model_id"), on="model_id").astype(
        {"n_layers": float, "n_heads": float}
    )
    L = rows["n_layers"]
    rows["formula"] = L * (at["a"] + at["b"] * L + at["c"] / rows["n_heads"])
    rows["half"] = L / 2
    return rows.assign(**measure_errors(rows))


def measure_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Errors of depth of the formula and of L/2 in per cent: columns error_formula and
    error_half."""
    names = ("formula", "half")
    return pd.DataFrame(
        {
            f"error_{name}": 100 * (rows[name] - rows["layer"]).abs() / rows["n_layers"]
            for name in names
        }
    )


def measure_fraction_error(rows: pd.DataFrame) -> float:
    """Error of depth in per cent of L* put at the mean fraction of the other models."""
    fraction = rows["layer"] / rows["n_layers"]
    of_others = (fraction.sum() - fraction) / (len(rows) - 1)
    return float(100 * (of_others - fraction).abs().mean())


def measure_relative_error(rows: pd.DataFrame, name: str) -> float:
    """Mean absolute percentage error relative to L*; infinite where an L* is 0."""
    return float((100 * (rows[name] - rows["layer"]).abs() / rows["layer"]).mean())


def list_gain_transitions(tables: Evidence) -> Iterator[tuple[str, list[float]]]:
    """L* by the formula of the small models' file, (L/2)(1 + tanh(5(G − 1))), from the gains that
    it copies."""
    depth = tables.table("models").drop_duplicates("model_id").set_index("model_id")["n_layers"]
    for row in load_known_gains(tables, H4_V2).itertuples():
        yield row.model_id, [depth[row.model_id] / 2 * (1 + np.tanh(5 * (row.known_gain - 1)))]


def list_sign_changes(
    tables: Evidence, rows: pd.DataFrame
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Model by model: mean and standard deviation (divisor n) of L* over prompts, the formula's L*
    and its error."""
    layers = tables.table("transitions", source=SIGN_CHANGE, definition="first_sign_change")
    sd = layers.groupby("model_id")["layer"].std(ddof=0)
    for row in rows.itertuples():
        yield row.model_id, (row.layer, sd[row.model_id], row.formula, row.error_formula)


def check_errors(tables: Evidence, rows: pd.DataFrame, kind: str) -> Audit:
    """Figures that the study states for one definition of L*; `rows` from `add_predictions`."""
    if kind == ALL_HEADS:
        return Audit()
    if kind == "max_abs_gradient":
        return check_model_figures(
            tables, H4_V2, {A_PRIORI: r"/results/\d+/L_star_apriori"}, list_gain_transitions(tables)
        )
    part = rows[rows["kind"] == kind]
    error = float(part["error_formula"].mean())
    compared_with = load_stated(tables, COMPARED_WITH, SIGN_CHANGE)
    if kind == "first_sign_change":
        (other,) = compared_with.values()
        overall = dict(zip(TRANSITIONS_IN_THE_FILE, (error, other - error), strict=True))
        by_model = check_model_figures(
            tables, SIGN_CHANGE, TRANSITIONS_BY_MODEL, list_sign_changes(tables, part)
        )
        return join_audits(
            Audit(load_stated(tables, TRANSITIONS_IN_THE_FILE, SIGN_CHANGE), overall), by_model
        )
    read = {
        FIGURE_5.format(strip_owner(row.model_id)): float(row.layer) for row in part.itertuples()
    }
    within = float(rows.loc[rows["kind"] == "calibration", "error_formula"].mean())
    reproduced = dict(
        zip(STATED_TRANSITIONS, (within, error, float(part["error_half"].mean())), strict=True)
    )
    return Audit(
        load_stated(tables, STATED_TRANSITIONS) | compared_with | read,
        reproduced | dict.fromkeys(COMPARED_WITH, error),
    )


def describe_figure(evidence: Evidence, rows: pd.DataFrame) -> dict[str, Any]:
    """What the published errors of figure 5 rest on; `rows` with predictions of every definition
    and calibration."""
    figure, calibrated = (
        rows[rows["kind"] == kind].reset_index(drop=True) for kind in ("figure", "calibration")
    )
    at = load_stated(evidence, CONSTANTS)
    by_choice = {
        f"{kind} on the {words}": value
        for words, part in (("calibration values", calibrated), ("values of figure 5", figure))
        for kind, value in (
            ("error of depth", float(part["error_half"].mean())),
            ("error relative to L*", measure_relative_error(part, "half")),
        )
    }
    published_transitions = check_errors(evidence, rows, "figure").published[
        "error of L/2, % of depth"
    ]
    missing = evidence.table("transitions", source=H4_EXTENDED, definition="max_abs_gradient")
    return {
        "shapes": len(figure[["n_layers", "n_heads"]].drop_duplicates()),
        "seen": len(set(figure["model_id"]) & set(calibrated["model_id"])),
        "calibrated": calibrated[["error_formula", "error_half"]].mean(),
        "calibrated_relative": measure_relative_error(calibrated, "half"),
        "published": published_transitions,
        "nearest": min(by_choice.items(), key=lambda item: abs(item[1] - published_transitions)),
        "leaves": (1 - at["a"] - at["c"] / 64) / at["b"],
        "missing": list(missing.loc[missing["layer"].isna(), "model_id"]),
        "from_one": measure_errors(figure.assign(layer=figure["layer"] - 1)).mean(),
    }


LATE = 0.75
"""Late layers are those beyond this share of the depth."""
MAPS = "restriction_maps_results.json"
SUMMARY = "restriction_map_summary_20260105_202448.csv"
BY_LAYER = "W_V_spectral_norm_published_thirds_layer_"
MEANS = ["W_V_spectral_norm_mean", "W_V_spectral_norm_mean_published_thirds"]


def load_weight_norms(tables: Evidence) -> pd.DataFrame:
    """Spectral norms of whole matrices by model, layer and matrix; one run a model, the one with
    most layers.

    Columns: model_id, heritage, layer, matrix, value.
    """
    matrices = tables.table("weights", head="", matrix=["W_V", "W_O"]).dropna(
        subset="spectral_norm"
    )
    rows = (
        matrices.groupby(["model_id", "revision", "run_id"])["layer"]
        .size()
        .rename("rows")
        .reset_index()
    )
    chosen = rows.sort_values(
        ["model_id", "rows", "run_id"], ascending=[True, False, True]
    ).drop_duplicates("model_id")
    matrices = matrices[matrices["run_id"].isin(chosen["run_id"])].rename(
        columns={"spectral_norm": "value"}
    )
    return drop_unlabelled(
        matrices[["model_id", "heritage", "layer", "matrix", "value"]].reset_index(drop=True),
        "heritage",
    )


def load_value_norms(tables: Evidence) -> pd.DataFrame:
    """‖W_V‖₂ by model and layer, from the weights where there are some, else as the study's file
    has it.

    Columns model_id, heritage, layer, depth = l/L, value, and `right`: whether it is of W_V or of a
    published third.
    """
    measured = load_weight_norms(tables)
    thirds = tables.table("summaries", source=MAPS)
    thirds = thirds[thirds["estimand"].str.startswith(BY_LAYER)]
    thirds = thirds.assign(layer=thirds["estimand"].str.removeprefix(BY_LAYER), right=False)
    parts = [measured[measured["matrix"] == "W_V"].assign(right=True), thirds]
    columns = ["model_id", "heritage", "layer", "value", "right"]
    filled = [part[columns] for part in parts if not part.empty]
    both = pd.concat(filled or [thirds[columns]]).astype({"layer": float, "value": float})
    both = both.dropna(subset="value").drop_duplicates(["model_id", "layer"])
    depth = tables.table("models").drop_duplicates("model_id").set_index("model_id")["n_layers"]
    both["depth"] = both["layer"] / both["model_id"].map(depth).astype(float)
    return both.sort_values(["model_id", "layer"], ignore_index=True)


def build_squared_norms(tables: Evidence) -> pd.DataFrame:
    """Norms by layer with their squares, `squared`."""
    rows = load_value_norms(tables)
    return rows.assign(squared=rows["value"] ** 2)


def measure_late_means(value_norms_by_layer: pd.DataFrame) -> pd.DataFrame:
    """Mean squared norm over the last quarter of each model that has layers there."""
    late = value_norms_by_layer[value_norms_by_layer["depth"] > LATE].groupby("model_id")
    return late.agg(
        heritage=("heritage", "first"), late=("squared", "mean"), right=("right", "all")
    ).reset_index()


def build_squared_means(tables: Evidence) -> pd.DataFrame:
    """One row per model of the study's summary: the square of its mean norm over all layers,
    ascending."""
    models = tables.table("models").drop_duplicates("model_id").set_index("model_id")
    means = tables.table("summaries", source=SUMMARY, estimand=MEANS)[["model_id", "value"]]
    means = means.assign(
        heritage=means["model_id"].map(models["heritage"]), squared=means["value"] ** 2
    )
    return means.sort_values("squared")


def build_pairs(
    models: pd.DataFrame, column: str, inside: pd.Series[bool] | None = None
) -> pd.DataFrame:
    """Ratios of models to models of another lab or recipe; `inside`: rows that stand above, all
    without it."""
    above, others = (models, models) if inside is None else (models[inside], models[~inside])
    both = above.merge(others, how="cross", suffixes=("", "_other"))
    both = both[both["heritage"] != both["heritage_other"]]
    return both.assign(ratio=both[column] / both[f"{column}_other"])


W_V, CUT = MEANS
W_O = "W_O_spectral_norm_mean"
STATED_RATIOS = {"ratio of W_V norms, EleutherAI to Meta": "section 4.3"}
LABS = ("EleutherAI", "Meta")


def collect_norms_and_gains(tables: Evidence) -> pd.DataFrame:
    """One row per model: mean norms of W_V and W_O over layers, whether the published matrix is
    W_V, and its gain."""
    rows = tables.table("summaries", source=SUMMARY, estimand=[W_V, CUT, W_O])
    wide = rows.pivot(index="model_id", columns="estimand", values="value").reindex(
        columns=[W_V, CUT, W_O]
    )
    table = pd.DataFrame(
        {"W_V": wide[W_V].fillna(wide[CUT]), "W_O": wide[W_O], "right_matrix": wide[W_V].notna()}
    )
    table["ratio"] = table["W_V"] / table["W_O"]
    of_models = load_gains(tables).set_index("model_id")
    labs = (
        tables.table("models")
        .drop_duplicates("model_id")
        .set_index("model_id")[["heritage", "family"]]
    )
    return table.join(labs).join(of_models[["gain", "lower", "upper", "comparable"]]).reset_index()


def collect_unmoved(tables: Evidence) -> pd.DataFrame:
    """Balanced ratio and `ov_read` by model and revision, geometric means over layers; of
    heads `ov_read` is summed.

    Columns balanced_ratio and ov_read, a missing one where rows lack it; index model_id and
    revision.
    """
    runs = tables.table("runs")
    layers = tables.table("layers", position="last")
    weights = tables.table("weights", matrix=["W_V", "W_O", "OV"]).drop(columns=MODEL)
    of_model = ["model_id", "revision"]
    balanced = compute_balanced_ratio(runs, weights).set_index(of_model)["balanced_ratio"]
    heads = compute_ov_read(runs, weights, layers.drop(columns=MODEL))
    read = heads.groupby([*of_model, "layer"])["ov_read"].sum().droplevel("layer")
    means = {
        column: np.exp(np.log(values.astype(float)).groupby(level=of_model).mean())
        for column, values in (("balanced_ratio", balanced), ("ov_read", read))
    }
    return pd.DataFrame(means)


def check_value_norms(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Mean norm of W_V of one lab over that of the other, right matrix or not; `rows` from
    `collect_norms_and_gains`."""
    means = rows.groupby("heritage")["W_V"].mean()
    return Audit(
        load_stated(tables, STATED_RATIOS),
        dict.fromkeys(STATED_RATIOS, float(means[LABS[0]] / means[LABS[1]])),
    )
