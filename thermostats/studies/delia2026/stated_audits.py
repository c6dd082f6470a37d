"""The study's stated figures computed again from its rows, statement by statement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit
from thermostats.modelling.classical.association import estimate_correlation
from thermostats.modelling.classical.counts import Accuracy, measure_accuracy, run_fisher_exact
from thermostats.studies.delia2026.prompt_gains import BENCHMARK
from thermostats.studies.delia2026.published_gains import CLEAN, HUNT, PYTHIA, build_source_features
from thermostats.studies.delia2026.stated_facts import (
    check_model_figures,
    iterate_model_figures,
    join_audits,
    load_stated,
)

DENSE, SPARSE = "EleutherAI/pythia-6.9b", "EleutherAI/gpt-j-6b"
"""The two models that the study names for head density."""
DENSITY = {
    "accuracy in the hunt, %": "appendix B with",
    "ρ of Pythia-6.9B": "section 5.4 Pythia-6.9B",
    "ρ of GPT-J-6B": "section 5.4 GPT-J-6B",
    "ratio of the two": "section 5.4 ratio",
}
ACCURACY = {
    HUNT: "accuracy in the hunt's file, share",
    CLEAN: "accuracy in the clean residual's file, %",
}
DENSITY_IN_THE_FAMILY = {
    "r of ρ and gain in the file": "/analysis/rho_gain_correlation",
    "its p": "/analysis/correlation_p_value",
    "share of dense models that dampen": "/analysis/high_rho_dampen_rate",
    "share of other models that expand": "/analysis/low_rho_expand_rate",
}
ON_THREE_PROMPTS = "gain of {} on three prompts"
DEPTH = {
    "r of the text": "abstract (1) r",
    "p of the text": "abstract (1) p",
    "r of the later note": "Kleiber r",
    "p of the later note": "Kleiber p",
}
DEPTH_IN_THE_FILE = {
    "r with ρ in place of depth": "/analysis/rho_gain_correlation",
    "p with ρ in place of depth": "/analysis/correlation_p_value",
}
DEPTH_POINTS = {
    "mean gain of {}": r"/models/\d+/residual_gain_mean",
    "SD of {}": r"/models/\d+/residual_gain_std",
}
FOCAL = "EleutherAI"
LABS = (FOCAL, "TII", "StabilityAI", "Meta", "BigScience")
DAMPENS = "EleutherAI dampens, %"
EXPAND = "others expand, %"
FISHER = "Fisher p <"
SIGNS = {
    DAMPENS: "abstract (2) EleutherAI",
    EXPAND: "abstract (2) others",
    FISHER: "section 4.2 Fisher",
} | {f"mean gain {lab}": f"fig. 2 {lab}" for lab in LABS}
SIGNS_IN_THE_HUNT = {
    f"mean gain {lab} in the hunt": f"/h26_lab_signatures/{lab}/mean_gain" for lab in LABS
} | {f"{lab} dampens in the hunt, %": f"/h26_lab_signatures/{lab}/dampen_pct" for lab in LABS}
FINAL_NORM = {
    "accuracy with the norm, %": "appendix B with",
    "accuracy without, %": "appendix B without",
}
FINAL_NORM_IN_FILES = {
    HUNT: {"hunt, without the norm, share": "/h25_accuracy"},
    CLEAN: {"two models, without, %": "/h25_accuracy"},
    PYTHIA: {
        "Pythia family, dense models below 1, share": "/analysis/high_rho_dampen_rate",
        "Pythia family, other models above 1, share": "/analysis/low_rho_expand_rate",
    },
}


def load_published_thresholds(evidence: Evidence) -> tuple[float, float]:
    """Both ends of the published range of the threshold of ρ."""
    ends = load_stated(evidence, {"lower": "section 7 lower", "upper": "section 7 upper"})
    return ends["lower"], ends["upper"]


def score_density_rule(rows: pd.DataFrame, cut: float) -> Accuracy:
    """How often ρ ≥ cut names the side of 1 on which the column `gain` is."""
    words = {True: "dampens", False: "expands"}
    return measure_accuracy((rows["rho"] >= cut).map(words), (rows["gain"] < 1).map(words))


def _load_penultimate(evidence: Evidence, source: str) -> pd.DataFrame:
    return build_source_features(evidence, source).assign(
        gain=lambda frame: frame["penultimate_gain"]
    )


def check_density(evidence: Evidence, every: pd.DataFrame, best_cut: float) -> Audit:
    """Accuracies of the rule on ρ, and the densities of the two named models; `every`: rows of
    `load_gains`."""
    low, high = load_published_thresholds(evidence)
    published = load_stated(evidence, DENSITY)
    for file, name in ACCURACY.items():
        published |= load_stated(evidence, {name: "/h25_accuracy"}, file)
    hunt, clean = (
        score_density_rule(_load_penultimate(evidence, file), high).estimate
        for file in (HUNT, CLEAN)
    )
    published |= {"critical ρ, lower": low, "critical ρ, upper": high}
    rho = every.set_index("model_id")["rho"]
    reproduced = {
        "accuracy in the hunt, %": 100 * hunt,
        "ρ of Pythia-6.9B": float(rho[DENSE]),
        "ρ of GPT-J-6B": float(rho[SPARSE]),
        "ratio of the two": float(rho[DENSE] / rho[SPARSE]),
        ACCURACY[HUNT]: hunt,
        ACCURACY[CLEAN]: 100 * clean,
        "best cut of ρ": best_cut,
    }
    return Audit(published, reproduced)


def check_family_density(evidence: Evidence, rows: pd.DataFrame, *, seed: int) -> Audit:
    """What the Pythia family's file says of ρ; `rows`: the family's of `load_gains`."""
    r = estimate_correlation(rows["rho"], rows["gain"], seed=seed)
    dense = rows["rho"] >= load_published_thresholds(evidence)[1]
    shares = (rows.loc[dense, "gain"] < 1).mean(), (rows.loc[~dense, "gain"] > 1).mean()
    figures = dict(
        zip(DENSITY_IN_THE_FAMILY, (r.estimate, r.p_value, *map(float, shares)), strict=True)
    )
    return Audit(load_stated(evidence, DENSITY_IN_THE_FAMILY, PYTHIA), figures)


def check_pair_density(evidence: Evidence) -> Audit:
    """Gains of the two named models on three prompts."""
    rows = ((row.model_id, [row.gain]) for row in _load_penultimate(evidence, CLEAN).itertuples())
    return check_model_figures(
        evidence, CLEAN, {ON_THREE_PROMPTS: r"/results/[^/]+/gain_no_ln_mean"}, rows
    )


def check_final_norm(evidence: Evidence, rows: pd.DataFrame, threshold: float) -> Audit:
    """Accuracies of the rule on ρ with and without the final norm.

    `rows`: a model and file each, with source, rho, penultimate_gain, right_with and right_without.
    """
    published = load_stated(evidence, FINAL_NORM)
    for file, names in FINAL_NORM_IN_FILES.items():
        published |= load_stated(evidence, names, file)
    hunt, pythia, clean = (rows[rows["source"] == source] for source in (HUNT, PYTHIA, CLEAN))
    dense = pythia["rho"] >= threshold
    dense_below = pythia.loc[dense, "penultimate_gain"] < 1
    others_above = pythia.loc[~dense, "penultimate_gain"] > 1
    hunt_with = hunt["right_with"].mean()
    hunt_without = hunt["right_without"].mean()
    figures = {
        "accuracy with the norm, %": 100 * hunt_with,
        "accuracy without, %": 100 * hunt_without,
        "hunt, without the norm, share": hunt_without,
        "Pythia family, dense models below 1, share": dense_below.mean(),
        "Pythia family, other models above 1, share": others_above.mean(),
        "hunt, without the norm, %": 100 * hunt_without,
        "hunt, with it, %": 100 * hunt_with,
        "Pythia family, without, %": 100 * pythia["right_without"].mean(),
        "Pythia family, with, %": 100 * pythia["right_with"].mean(),
        "two models, without, %": 100 * clean["right_without"].mean(),
        "two models, with, %": 100 * clean["right_with"].mean(),
    }
    return Audit(published, {name: float(value) for name, value in figures.items()})


def check_depth(evidence: Evidence, rows: pd.DataFrame, *, seed: int) -> Audit:
    """Correlations of the Pythia family's gains, and the points of figure 1; `rows`: the family's
    of `load_gains`.

    Standard deviations have the divisor n, as in the file.
    """
    r = []
    for name in ("n_layers", "n_layers", "rho"):
        r.append(estimate_correlation(rows[name], rows["gain"], seed=seed))
    figures = [value for fit in r for value in (fit.estimate, fit.p_value)]
    published = load_stated(evidence, DEPTH) | load_stated(evidence, DEPTH_IN_THE_FILE, PYTHIA)
    sd = rows["penultimate_gain_sd"] * np.sqrt(1 - 1 / rows["n_prompts"])
    points = zip(rows["model_id"], zip(rows["gain"], sd, strict=True), strict=True)
    correlations = Audit(published, dict(zip(published, figures, strict=True)))
    return join_audits(correlations, check_model_figures(evidence, PYTHIA, DEPTH_POINTS, points))


@dataclass(frozen=True)
class StatedShares:
    """Shares of dampening models as stated, of EleutherAI and of all other labs, and the bound of
    Fisher's p."""

    focal: float
    others: float
    bound: float

    def run_fisher_test(self, inside: int, outside: int) -> float:
        """Fisher's two-sided p of the stated shares with so many models in EleutherAI and
        elsewhere."""
        a = round(self.focal * inside)
        c = round(self.others * outside)
        return run_fisher_exact([[a, inside - a], [c, outside - c]]).p_value


def load_stated_shares(evidence: Evidence) -> StatedShares:
    """The study's shares and bound."""
    figures = load_stated(evidence, SIGNS)
    return StatedShares(figures[DAMPENS] / 100, 1 - figures[EXPAND] / 100, figures[FISHER])


def count_dampening(rows: pd.DataFrame, value: str) -> list[list[int]]:
    """Models below 1 and others, in EleutherAI and elsewhere."""
    inside = rows["heritage"] == FOCAL
    dampens = rows[value] < 1
    dampening: list[list[int]] = []
    for group in (inside, ~inside):
        dampening.append([int((group & dampens).sum()), int((group & ~dampens).sum())])
    return dampening


def check_lab_signs(evidence: Evidence, every: pd.DataFrame) -> Audit:
    """Shares of dampening models and mean gains of labs; `every`: rows of `load_gains`."""
    hunt = build_source_features(evidence, HUNT)
    (a, b), (c, d) = counts = count_dampening(hunt, "penultimate_gain")
    means = every.groupby("heritage")["gain"].mean()
    figures = {
        DAMPENS: 100 * a / (a + b),
        EXPAND: 100 * d / (c + d),
        FISHER: run_fisher_exact(counts).p_value,
    }
    figures |= {f"mean gain {lab}": float(means[lab]) for lab in LABS if lab in means}
    for lab, gain in hunt.groupby("heritage")["penultimate_gain"]:
        figures[f"mean gain {lab} in the hunt"] = float(gain.mean())
        figures[f"{lab} dampens in the hunt, %"] = 100 * float((gain < 1).mean())
    figures[f"median gain {FOCAL}"] = float(every.loc[every["heritage"] == FOCAL, "gain"].median())
    return Audit(
        load_stated(evidence, SIGNS) | load_stated(evidence, SIGNS_IN_THE_HUNT, HUNT), figures
    )


INPUT = "input_dependency_thermodynamics.json"
PROMPTS = "prompts per model"
FIGURE_7 = {
    "mean penultimate gain of {}": r"/models/\d+/residual_gain_mean",
    "SD of the penultimate gain of {}": r"/models/\d+/residual_gain_std",
}
OVER_PROMPTS = {
    "smallest last gain of {}": r"/modulation_ranges/[^/]+/min",
    "largest last gain of {}": r"/modulation_ranges/[^/]+/max",
    "range of the last gain of {}": r"/modulation_ranges/[^/]+/range",
    "complexity and last gain of {}, "
    "Spearman": r"/complexity_correlations/\d+/Complexity_Spearman_r",
    "complexity and last gain of {}, p": r"/complexity_correlations/\d+/Complexity_Spearman_p",
}
CORRELATION = {
    "Pearson r": "/correlation/pearson_r",
    "Pearson p": "/correlation/pearson_p",
    "Spearman ρ": "/correlation/spearman_r",
    "Spearman p": "/correlation/spearman_p",
}


def check_figure_7(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Prompts per model, means and standard deviations (divisor n, as in the file); `rows`: gains
    by prompt."""
    most = float(rows.groupby("model_id").size().max())
    moments = iterate_model_figures(
        rows, lambda of_model: (of_model["value"].mean(), of_model["value"].std(ddof=0))
    )
    return join_audits(
        Audit(load_stated(tables, {PROMPTS: "fig. 7"}), {PROMPTS: most}),
        check_model_figures(tables, PYTHIA, FIGURE_7, moments),
    )


def check_benchmark(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Range of the gain over prompts and its Spearman correlation with complexity; `rows`: gains by
    prompt."""
    prompts = tables.table("prompts", prompt_set=sorted(set(rows["prompt_set"])))
    both = rows.merge(
        prompts[["prompt_set", "prompt_id", "complexity"]], on=["prompt_set", "prompt_id"]
    )

    def figures(of_model: pd.DataFrame) -> tuple[float, ...]:
        low = of_model["value"].min()
        high = of_model["value"].max()
        return (
            low,
            high,
            high - low,
            *stats.spearmanr(of_model["complexity"].astype(float), of_model["value"]),
        )

    return check_model_figures(
        tables, BENCHMARK, OVER_PROMPTS, iterate_model_figures(both, figures)
    )


def load_single_model(tables: Evidence) -> pd.DataFrame:
    """Gain with the final norm (`value`) and entropy over the prompts of the file on one model's
    input."""
    gains = tables.table("summaries", source=INPUT, estimand="normed_gain_all_tokens")
    entropy = tables.table("outputs", source=INPUT)[["prompt_id", "entropy"]]
    return gains.merge(entropy, on="prompt_id")[
        ["model_id", "heritage", "prompt_id", "value", "entropy"]
    ]


def check_entropy(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Correlations of gain and entropy over prompts; `rows` from `load_single_model`."""
    r = stats.pearsonr(rows["value"], rows["entropy"])
    rho = stats.spearmanr(rows["value"], rows["entropy"])
    figures = (r.statistic, r.pvalue, rho.statistic, rho.pvalue)
    return Audit(
        load_stated(tables, CORRELATION, INPUT),
        dict(zip(CORRELATION, map(float, figures), strict=True)),
    )
