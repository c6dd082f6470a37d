"""Figures that the preprint, its notes and its files state, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import Case
from thermostats.claims.evidence import POOLED, PUBLISHED, VIEWS, Evidence
from thermostats.claims.result import Audit
from thermostats.errors import DataError
from thermostats.formatting import strip_owner
from thermostats.modelling.classical.association import estimate_correlation
from thermostats.modelling.classical.counts import Accuracy, measure_accuracy, run_fisher_exact
from thermostats.modelling.model_gains import choose_rows
from thermostats.tables.features import collect_prompt_gains, combine
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import (
    add_category,
    choose_prompt_set,
    model_rows,
    pick_model_rows,
    read_prompt_gains,
)
from thermostats.tables.schemas import GAIN_WORDS

STATED_IN = ("preprint", "note")
H4_V2 = "H4_v2_validation_20260106_015547.json"
H4_EXTENDED = "H4_v2_extended_20260106_012606.json"
KNOWN_GAIN = "known gain"


def load_stated(tables: Evidence, names: Mapping[str, str], *sources: str) -> dict[str, float]:
    """Figures of the preprint and its notes, or of the named file: name in the finding → value.

    `names` maps the name to the figure's pointer. Raises DataError for a pointer that the table
    does not hold.
    """
    rows = tables.table(
        "statements", source=list(sources or STATED_IN), pointer=sorted(set(names.values()))
    )
    values = rows.set_index("pointer")["value"]
    absent = sorted(set(names.values()) - set(values.index))
    if absent:
        raise DataError("a stated figure is not in the table statements", got=", ".join(absent))
    return {name: float(values[pointer]) for name, pointer in names.items()}


def load_stated_models(tables: Evidence, source: str, names: Mapping[str, str]) -> dict[str, float]:
    """Figures of one file model by model: name in the finding → value; figures that are no number
    are left out.

    `names` maps a name, with {} for the model's short name, to a pattern of pointers.
    Raises DataError for a pattern without a figure.
    """
    rows = tables.table("statements", source=source)
    rows = rows[rows["value"].notna() & (rows["model_id"] != "")]
    figures: dict[str, float] = {}
    for name, pattern in names.items():
        matching = rows[rows["pointer"].str.fullmatch(pattern)]
        if matching.empty:
            raise DataError(
                "a stated figure is not in the table statements", where=source, got=pattern
            )
        figures |= {
            name.format(strip_owner(row.model_id)): float(row.value)
            for row in matching.itertuples()
        }
    return figures


def check_model_figures(
    tables: Evidence,
    source: str,
    names: Mapping[str, str],
    recomputed: Iterable[tuple[object, Sequence[float]]],
) -> Audit:
    """Figures of one file (`names` as in `load_stated_models`) against those recomputed: model and
    values in turn."""
    reproduced = {
        name.format(strip_owner(str(model))): float(value)
        for model, values in recomputed
        for name, value in zip(names, values, strict=True)
    }
    return Audit(load_stated_models(tables, source, names), reproduced)


def iterate_model_figures(
    rows: pd.DataFrame, figures: Callable[[pd.DataFrame], Sequence[float]]
) -> Iterator[tuple[object, Sequence[float]]]:
    """Every model of some rows with the figures of its own rows, as `check_model_figures` takes
    them."""
    return ((model, figures(of_model)) for model, of_model in rows.groupby("model_id"))


def join_audits(*audits: Audit) -> Audit:
    """All figures of some audits."""
    published = {name: value for audit in audits for name, value in audit.published.items()}
    return Audit(
        published, {name: value for audit in audits for name, value in audit.reproduced.items()}
    )


def load_known_gains(tables: Evidence, *sources: str) -> pd.DataFrame:
    """Gains that the files of the Laplacian copy by hand, and the behaviour they state.

    Columns model_id, known_gain, behaviour.
    One row per model; a gain whose behaviour is stated as unknown is a placeholder and left out.
    """
    rows = tables.table("statements", source=list(sources))
    rows = rows[rows["statistic"].str.startswith(KNOWN_GAIN)].drop_duplicates("model_id")
    behaviour = rows["statistic"].str.rsplit(" ", n=1).str[-1]
    copied = pd.DataFrame(
        {"model_id": rows["model_id"], "known_gain": rows["value"], "behaviour": behaviour}
    )
    return copied[copied["behaviour"] != "UNKNOWN"].reset_index(drop=True)


PYTHIA = "pythia_family_NO_FINAL_LN_20260105_174820.json"
PYTHIA_FAMILY = "pythia"
HUNT = "high_rho_hunt_NO_FINAL_LN_20260105_184728.json"
CLEAN = "clean_residual_NO_FINAL_LN_20260105_173546.json"
FOUR = "4model_validation_results.json"
LEVEL = 0.95
COLUMNS = {
    "penultimate_gain": "penultimate_gain",
    "normed_gain": "normed_gain",
    "geometric_gain": "geometric_gain_to_penultimate",
    "max_gain": "max_gain_to_penultimate",
}
"""The study's gains are those of blocks up to L − 1."""
NAMED_GAINS = tuple(Case(name, GAIN_WORDS[column], column) for name, column in COLUMNS.items())
"""The named gains that the files of penultimate gains hold; findings are declared over several."""


def build_source_features(tables: Evidence, *sources: str) -> pd.DataFrame:
    """Rows of `features` for the runs of the named files only, so that other files' rows make no
    finding stale.

    Without files: of all runs but the controlled study's.
    """
    names = ("runs", "layers", "summaries", "transitions", "weights")
    read = {name: tables.table(name, **_build_query(sources)) for name in names}
    return combine(models=tables.table("models"), **read)


def select_heritage_rows(tables: Evidence, estimand: str, *sources: str) -> pd.DataFrame:
    """Rows for `fit_heritage` of the named files, in order of preference: see
    `modelling.heritage.rows.gain_rows`.

    Without files: of all rows but the controlled study's, a user's own among them, as files written
    by `thermostats new heritage` ask.
    """
    read = {
        name: tables.table(name, **_build_query(sources))
        for name in ("runs", "layers", "summaries")
    }
    values = collect_prompt_gains(models=tables.table("models"), **read)
    rows = build_source_features(tables, *sources)
    prompts = tables.table("prompts", prompt_set=sorted(set(rows["prompt_set"])))
    return choose_rows(estimand, rows, prompts, values, sources or None)


def _build_query(sources: Sequence[str]) -> dict[str, list[str]]:
    """Which rows `Evidence.table` is asked for."""
    return {"source": list(sources)} if sources else {}


def build_penultimate_features(tables: Evidence) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Features of the files of penultimate gains, and what a fit has to know of them: files,
    prompts of every set."""
    rows = build_source_features(tables, PYTHIA, HUNT)
    sizes = (
        tables.table("prompts", prompt_set=sorted(set(rows["prompt_set"])))
        .groupby("prompt_set")
        .size()
    )
    counts = {str(name): int(size) for name, size in sizes.items()}
    return rows, {"source": [PYTHIA, HUNT], "prompt_counts": counts}


def load_gains(tables: Evidence) -> pd.DataFrame:
    """One row per model whose penultimate gain was published, with t intervals over prompts where
    there are some.

    Of another set of evidence those of `model_rows` of which a lab is known.

    A model that is in both files is taken from the one with more prompts. To the columns of
    `features` come `gain` (the penultimate one), `log_gain`, `n_prompts`, `lower`, `upper`,
    `total_to_penultimate` = n_(L-1)/n_1 and `total_from_input` = n_(L-1)/n_0. Published standard
    deviations are of the population (divisor n) and are scaled to n - 1.
    """
    if tables.name in VIEWS:
        return drop_unlabelled(model_rows(tables, incomparable=True), "heritage")
    rows, details = build_penultimate_features(tables)
    averaged = rows["penultimate_gain_n"].fillna(0) == 0
    rows["n_prompts"] = rows["prompt_set"].map(details["prompt_counts"]).astype("float64")
    n = rows["n_prompts"]
    sd = rows["penultimate_gain_sd"] * np.where(averaged, np.sqrt(n / (n - 1)), 1.0)
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * sd / np.sqrt(n)
    rows = rows.assign(gain=rows["penultimate_gain"], log_gain=np.log(rows["penultimate_gain"]))
    rows = rows.assign(lower=rows["gain"] - half, upper=rows["gain"] + half)
    rows["total_to_penultimate"] = rows["geometric_gain_to_penultimate"] ** (rows["n_layers"] - 2)
    first = tables.table("layers", source=[PYTHIA, HUNT], position="last")
    first = first[(first["layer"] == 1) & (first["prompt_id"] == "")].set_index("run_id")[
        "gain_block"
    ]
    rows["total_from_input"] = rows["total_to_penultimate"] * rows["run_id"].map(first)
    return pick_model_rows(rows.dropna(subset="gain"))


SIZES_OF_A_FAMILY = 3
"""Depths that a family must have for a question about depth within families."""


def load_family_gains(tables: Evidence) -> pd.DataFrame:
    """Comparable models of `load_gains` by depth: the Pythia models of the study's own files, and
    of other sets of evidence every family of three depths or more."""
    rows = load_gains(tables)
    if tables.name == PUBLISHED:
        rows = rows[rows["source"] == PYTHIA]
    depths = rows.groupby("family")["n_layers"].transform("nunique")
    return rows[rows["comparable"] & (depths >= SIZES_OF_A_FAMILY)].sort_values(
        "n_layers", ignore_index=True
    )


def expand_prompts(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per prompt of models of `load_gains`: values with the mean and the t interval that
    the model has.

    Columns: model_id, heritage, prompt_id, category (empty), gain.
    """
    made = (
        [pd.DataFrame(columns=["model_id", "heritage", "category", "prompt_id", "gain"])]
        if rows.empty
        else []
    )
    for row in rows.itertuples():
        n = int(row.n_prompts)
        sd = (row.upper - row.lower) / 2 / stats.t.ppf((1 + LEVEL) / 2, n - 1) * math.sqrt(n)
        columns = {
            "model_id": row.model_id,
            "heritage": row.heritage,
            "category": "",
            "prompt_id": range(n),
        }
        made.append(
            pd.DataFrame(columns).assign(gain=row.gain + sd * stats.zscore(np.arange(n), ddof=1))
        )
    return pd.concat(made, ignore_index=True)


def drop_infinite(value: float) -> float | None:
    """The value, or None where it is no number."""
    return None if math.isnan(value) else value


TWIN = "twin_test_results_20260105_160237.json"
BENCHMARK = "thermodynamic_benchmark_20260105_141034.json"
GPT2 = "gpt2_layernorm_validation_20260105_150306.json"
GPTJ = "gptj_parallel_test_20260105_152333.json"
LAST_GAIN_FILES = (BENCHMARK, TWIN, GPT2, GPTJ)
"""Files that hold the gain of the last block by prompt, in order of preference where two measured
one model."""
MEASURED = "thermostats"
"""Source of what this package measured itself."""


def select_single_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of one run a model: that of the first of `LAST_GAIN_FILES` that has it; another source
    comes last."""
    order = rows["source"].map({source: place for place, source in enumerate(LAST_GAIN_FILES)})
    order = order.fillna(len(LAST_GAIN_FILES))
    return rows[order == order.groupby(rows["model_id"]).transform("min")].reset_index(drop=True)


def load_measured_gains(tables: Evidence, gain: str) -> pd.DataFrame:
    """A named gain by prompt as this package measured it: see `choose_prompt_set`."""
    return choose_prompt_set(add_category(tables, read_prompt_gains(tables, gain, MEASURED)))


def load_prompt_gains(tables: Evidence, gain: str, *sources: str) -> pd.DataFrame:
    """A named gain by prompt with `category`: of the named files, or of another set of evidence all
    its models.

    Runs of a single prompt are left out, since they say nothing of prompts. Of the set `pooled` the
    geometric mean of all runs of a model on the same prompts.
    """
    if tables.name not in VIEWS:
        return add_category(tables, read_prompt_gains(tables, gain, *sources))
    rows = add_category(tables, read_prompt_gains(tables, gain))
    rows = rows[rows.groupby("run_id")["prompt_id"].transform("size") > 1]
    if tables.name == POOLED and len(rows):
        logs = np.log(rows["value"].astype(float)).groupby(
            [rows[n] for n in ("model_id", "prompt_set", "prompt_id")]
        )
        rows = rows.assign(value=np.exp(logs.transform("mean")))
    return choose_prompt_set(rows)


def drop_unknown_labs(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows, without their column of labs where one is not known: for what is asked of
    models alone."""
    return rows if (rows["heritage"].fillna("") != "").all() else rows.drop(columns="heritage")


def drop_tuned(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of base models; tuned ones do not count in addition to their bases."""
    return rows[~rows["model_id"].isin(tables.table("models", variant="instruct")["model_id"])]


def build_prompt_matrix(rows: pd.DataFrame, value: str = "value") -> pd.DataFrame:
    """Prompts by models; a prompt that a model lacks is missing."""
    return rows.pivot(index="prompt_id", columns="model_id", values=value).astype("float64")


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
    rho = every.set_index("model_id")["rho"]
    return Audit(
        published | {"critical ρ, lower": low, "critical ρ, upper": high},
        {
            "accuracy in the hunt, %": 100 * hunt,
            "ρ of Pythia-6.9B": float(rho[DENSE]),
            "ρ of GPT-J-6B": float(rho[SPARSE]),
            "ratio of the two": float(rho[DENSE] / rho[SPARSE]),
            ACCURACY[HUNT]: hunt,
            ACCURACY[CLEAN]: 100 * clean,
            "best cut of ρ": best_cut,
        },
    )


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
    figures = {
        "accuracy with the norm, %": 100 * hunt["right_with"].mean(),
        "accuracy without, %": 100 * hunt["right_without"].mean(),
        "hunt, without the norm, share": hunt["right_without"].mean(),
        "Pythia family, dense models below 1, share": (
            pythia.loc[dense, "penultimate_gain"] < 1
        ).mean(),
        "Pythia family, other models above 1, share": (
            pythia.loc[~dense, "penultimate_gain"] > 1
        ).mean(),
        "hunt, without the norm, %": 100 * hunt["right_without"].mean(),
        "hunt, with it, %": 100 * hunt["right_with"].mean(),
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
    r = [
        estimate_correlation(rows[name], rows["gain"], seed=seed)
        for name in ("n_layers", "n_layers", "rho")
    ]
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
    return [
        [int((group & dampens).sum()), int((group & ~dampens).sum())] for group in (inside, ~inside)
    ]


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
