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
    check_figures,
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
_IN_THE_HUNT = "/h26_lab_signatures/{}/{}"
SIGNS_IN_THE_HUNT = {
    f"mean gain {lab} in the hunt": _IN_THE_HUNT.format(lab, "mean_gain") for lab in LABS
} | {f"{lab} dampens in the hunt, %": _IN_THE_HUNT.format(lab, "dampen_pct") for lab in LABS}
FINAL_NORM = {
    "accuracy with the norm, %": "appendix B with",
    "accuracy without, %": "appendix B without",
}
RIGHT_IN_FILES = {
    HUNT: ("hunt, without the norm, %", "hunt, with it, %"),
    PYTHIA: ("Pythia family, without, %", "Pythia family, with, %"),
    CLEAN: ("two models, without, %", "two models, with, %"),
}
"""Accuracies without the final norm and with it."""
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
    predicted = (rows["rho"] >= cut).map(words)
    observed = (rows["gain"] < 1).map(words)
    return measure_accuracy(predicted, observed)


def _load_penultimate(evidence: Evidence, source: str) -> pd.DataFrame:
    rows = build_source_features(evidence, source)
    return rows.assign(gain=rows["penultimate_gain"])


def check_density(evidence: Evidence, every: pd.DataFrame, best_cut: float) -> Audit:
    """Accuracies of the rule on ρ, and the densities of the two named models; `every`: rows of
    `load_gains`."""
    low, high = load_published_thresholds(evidence)
    published = load_stated(evidence, DENSITY)
    accuracies = {}
    for file, name in ACCURACY.items():
        published |= load_stated(evidence, {name: "/h25_accuracy"}, file)
        rows = _load_penultimate(evidence, file)
        accuracies[file] = score_density_rule(rows, high).estimate
    published |= {"critical ρ, lower": low, "critical ρ, upper": high}
    rho = every.set_index("model_id")["rho"]
    dense = rho[DENSE]
    sparse = rho[SPARSE]
    reproduced = {
        "accuracy in the hunt, %": 100 * accuracies[HUNT],
        "ρ of Pythia-6.9B": float(dense),
        "ρ of GPT-J-6B": float(sparse),
        "ratio of the two": float(dense / sparse),
        ACCURACY[HUNT]: accuracies[HUNT],
        ACCURACY[CLEAN]: 100 * accuracies[CLEAN],
        "best cut of ρ": best_cut,
    }
    return Audit(published, reproduced)


def check_family_density(evidence: Evidence, rows: pd.DataFrame, *, seed: int) -> Audit:
    """What the Pythia family's file says of ρ; `rows`: the family's of `load_gains`."""
    r = estimate_correlation(rows["rho"], rows["gain"], seed=seed)
    _, threshold = load_published_thresholds(evidence)
    dense = rows["rho"] >= threshold
    dampen = rows.loc[dense, "gain"] < 1
    expand = rows.loc[~dense, "gain"] > 1
    values = (r.estimate, r.p_value, dampen.mean(), expand.mean())
    return check_figures(evidence, DENSITY_IN_THE_FAMILY, values, PYTHIA)


def check_pair_density(evidence: Evidence) -> Audit:
    """Gains of the two named models on three prompts."""
    rows = _load_penultimate(evidence, CLEAN)
    gains = ((row.model_id, [row.gain]) for row in rows.itertuples())
    names = {ON_THREE_PROMPTS: r"/results/[^/]+/gain_no_ln_mean"}
    return check_model_figures(evidence, CLEAN, names, gains)


def check_final_norm(evidence: Evidence, rows: pd.DataFrame, threshold: float) -> Audit:
    """Accuracies of the rule on ρ with and without the final norm.

    `rows`: a model and file each, with source, rho, penultimate_gain, right_with and right_without.
    """
    published = load_stated(evidence, FINAL_NORM)
    for file, names in FINAL_NORM_IN_FILES.items():
        published |= load_stated(evidence, names, file)
    by_file = {source: rows[rows["source"] == source] for source in RIGHT_IN_FILES}
    family = by_file[PYTHIA]
    dense = family["rho"] >= threshold
    dense_below = family.loc[dense, "penultimate_gain"] < 1
    others_above = family.loc[~dense, "penultimate_gain"] > 1
    hunt_with = float(by_file[HUNT]["right_with"].mean())
    hunt_without = float(by_file[HUNT]["right_without"].mean())
    figures = {
        "accuracy with the norm, %": 100 * hunt_with,
        "accuracy without, %": 100 * hunt_without,
        "hunt, without the norm, share": hunt_without,
        "Pythia family, dense models below 1, share": float(dense_below.mean()),
        "Pythia family, other models above 1, share": float(others_above.mean()),
    }
    for source, (without, with_norm) in RIGHT_IN_FILES.items():
        of_file = by_file[source]
        figures[without] = 100 * float(of_file["right_without"].mean())
        figures[with_norm] = 100 * float(of_file["right_with"].mean())
    return Audit(published, figures)


def check_depth(evidence: Evidence, rows: pd.DataFrame, *, seed: int) -> Audit:
    """Correlations of the Pythia family's gains, and the points of figure 1; `rows`: the family's
    of `load_gains`.

    Standard deviations have the divisor n, as in the file.
    """
    values = []
    for name in ("n_layers", "n_layers", "rho"):
        r = estimate_correlation(rows[name], rows["gain"], seed=seed)
        values += [r.estimate, r.p_value]
    published = load_stated(evidence, DEPTH) | load_stated(evidence, DEPTH_IN_THE_FILE, PYTHIA)
    to_population = np.sqrt(1 - 1 / rows["n_prompts"])
    sd = rows["penultimate_gain_sd"] * to_population
    moments = zip(rows["gain"], sd, strict=True)
    points = zip(rows["model_id"], moments, strict=True)
    reproduced = dict(zip(published, values, strict=True))
    correlations = Audit(published, reproduced)
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
        table = [[a, inside - a], [c, outside - c]]
        return run_fisher_exact(table).p_value


def load_stated_shares(evidence: Evidence) -> StatedShares:
    """The study's shares and bound."""
    figures = load_stated(evidence, SIGNS)
    focal = figures[DAMPENS] / 100
    others = 1 - figures[EXPAND] / 100
    return StatedShares(focal, others, figures[FISHER])


def count_dampening(rows: pd.DataFrame, value: str) -> list[list[int]]:
    """Models below 1 and others, in EleutherAI and elsewhere."""
    inside = rows["heritage"] == FOCAL
    dampens = rows[value] < 1
    counts = []
    for group in (inside, ~inside):
        below = dampens[group]
        n_below = int(below.sum())
        counts.append([n_below, len(below) - n_below])
    return counts


def check_lab_signs(evidence: Evidence, every: pd.DataFrame) -> Audit:
    """Shares of dampening models and mean gains of labs; `every`: rows of `load_gains`."""
    hunt = build_source_features(evidence, HUNT)
    counts = count_dampening(hunt, "penultimate_gain")
    (a, b), (c, d) = counts
    p = run_fisher_exact(counts).p_value
    means = every.groupby("heritage")["gain"].mean()
    figures = {DAMPENS: 100 * a / (a + b), EXPAND: 100 * d / (c + d), FISHER: p}
    for lab in LABS:
        if lab in means:
            figures[f"mean gain {lab}"] = float(means[lab])
    for lab, gain in hunt.groupby("heritage")["penultimate_gain"]:
        below = gain < 1
        figures[f"mean gain {lab} in the hunt"] = float(gain.mean())
        figures[f"{lab} dampens in the hunt, %"] = 100 * float(below.mean())
    focal = every.loc[every["heritage"] == FOCAL, "gain"]
    figures[f"median gain {FOCAL}"] = float(focal.median())
    published = load_stated(evidence, SIGNS) | load_stated(evidence, SIGNS_IN_THE_HUNT, HUNT)
    return Audit(published, figures)


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
    most = rows.groupby("model_id").size().max()

    def moments(of_model: pd.DataFrame) -> tuple[float, ...]:
        value = of_model["value"]
        return value.mean(), value.std(ddof=0)

    prompts = check_figures(tables, {PROMPTS: "fig. 7"}, [most])
    by_model = iterate_model_figures(rows, moments)
    return join_audits(prompts, check_model_figures(tables, PYTHIA, FIGURE_7, by_model))


def check_benchmark(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Range of the gain over prompts and its Spearman correlation with complexity; `rows`: gains by
    prompt."""
    key = ["prompt_set", "prompt_id"]
    sets = sorted(set(rows["prompt_set"]))
    prompts = tables.table("prompts", prompt_set=sets)
    both = rows.merge(prompts[[*key, "complexity"]], on=key)

    def figures(of_model: pd.DataFrame) -> tuple[float, ...]:
        value = of_model["value"]
        low = value.min()
        high = value.max()
        complexity = of_model["complexity"].astype(float)
        r = stats.spearmanr(complexity, value)
        return (low, high, high - low, *r)

    return check_model_figures(
        tables, BENCHMARK, OVER_PROMPTS, iterate_model_figures(both, figures)
    )


def load_single_model(tables: Evidence) -> pd.DataFrame:
    """Gain with the final norm (`value`) and entropy over the prompts of the file on one model's
    input."""
    gains = tables.table("summaries", source=INPUT, estimand="normed_gain_all_tokens")
    entropy = tables.table("outputs", source=INPUT)[["prompt_id", "entropy"]]
    columns = ["model_id", "heritage", "prompt_id", "value", "entropy"]
    return gains.merge(entropy, on="prompt_id")[columns]


def check_entropy(tables: Evidence, rows: pd.DataFrame) -> Audit:
    """Correlations of gain and entropy over prompts; `rows` from `load_single_model`."""
    r = stats.pearsonr(rows["value"], rows["entropy"])
    rho = stats.spearmanr(rows["value"], rows["entropy"])
    figures = (r.statistic, r.pvalue, rho.statistic, rho.pvalue)
    return check_figures(tables, CORRELATION, figures, INPUT)
