"""The third study's tables: 20 recipes, each trained on four corpora at every shape.

Recipes are the unit. A model's log gain is that of its penultimate block (L − 1) at the last token,
a mean over prompts of its own corpus; gains on the prompts of every corpus are shown as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.rule import AtLeast
from thermostats.modelling.classical.many import measure_margin
from thermostats.modelling.draws import Array
from thermostats.studies.nursery.crossed import (
    LOGS,
    build_table,
    encode_shapes,
    estimate_ratios,
    fit_lines,
)
from thermostats.studies.nursery.study_rows import build_t_estimate, encode_levels, remove_columns
from thermostats.studies.nursery.training_choices import rank_cells
from thermostats.tables.schemas import NURSERY

CORPORA = ("english", "synthetic", "code", "shuffled")
IN_WORDS = {
    "english": "English",
    "synthetic": "the synthetic language",
    "code": "source code",
    "shuffled": "shuffled English",
}
COLUMNS = {"log_L": "n_layers", "log_rho": "rho", "log_d": "d_model"}
"""Logs of a shape, and the columns that they are of."""
PROMPTS, SHARES = 25, (0.0, 0.01, 0.03, 0.1, 0.3)
"""Prompts of a set, and shares of training before its end at which gains were kept."""
HALF = AtLeast(models=320, groups=10)
"""Half of the study's models and recipes: with fewer nothing is concluded."""
STUDY: dict[str, Any] = {"evidence": NURSERY, "needs": HALF}
"""What findings over its models declare."""
ON = {name: f"log_gain_on_{name}" for name in CORPORA}
"""Columns of gains on the prompts of one corpus, whatever a model was trained on."""
TENTH = 0.1
"""Share of training that is early."""
SET_STEPS = ("adamw", "lion", "muon")
"""Optimisers whose step has a set size."""
FACTORS = {
    "optimiser": "levels",
    "schedule": "levels",
    "log_rate": "number",
    "shrinking": "number",
    "depth_power": "number",
    "log_init": "number",
    "log_embed": "number",
    "dropout": "number",
    "log_warmup": "number",
    "log_batch": "number",
    "log_clip": "number",
    "log_tokens": "number",
}
"""All that recipes were drawn to differ in but the corpus: levels, or numbers."""
SLOPES = ["corpus", "slope", "slope_lower", "slope_upper", "slope_p", "error", "df"]


def load_training_rows(tables: Evidence) -> pd.DataFrame:
    """One row per model, checkpoint and set of prompts: columns of models, `trained_on`, `step`,
    `share`, `prompts`.

    `log_gain` and `log_gain_sd` are those of block L − 1, over prompts; `recipe` is the same in
    every corpus.
    """
    models = tables.table("third_models")
    models = models.fillna(dict.fromkeys(("kind", "parent", "replicate_of"), ""))
    recipe = models["recipe"].astype(str)
    stem = recipe.str.split("-").str[0]
    model_id = NURSERY + "/" + models["model"].astype(str)
    named = models.assign(model_id=model_id)
    named["recipe"] = stem
    named["heritage"] = stem
    for name, column in COLUMNS.items():
        numbers = models[column].astype(float)
        named[name] = np.log(numbers)
    named["log_shape"] = named["log_L"] - named["log_d"]
    named["log_N"] = named["log_L"] + 2 * named["log_d"]
    named = named.rename(columns={"corpus": "trained_on"})
    rows = named.merge(tables.table("third_gains"), on="model")
    return rows.assign(share=rows["step"] / rows["steps"])


def load_spectra(tables: Evidence) -> pd.DataFrame:
    """Means over layers of log σ_max at the end of training, `log_wv` and `log_wo`, by model."""
    norms = tables.table("third_spectra")
    logs = norms[["model"]].copy()
    for name in ("wv", "wo"):
        norm = norms[f"{name}_norm"].astype(float)
        logs[f"log_{name}"] = np.log(norm)
    return logs.groupby("model").mean()


def select_own_prompts(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `along` on prompts of a model's own corpus."""
    return rows[rows["prompts"] == rows["trained_on"]]


def select_ends(tables: Evidence) -> pd.DataFrame:
    """One row per model of the design at the end, first seeds: on prompts of its own corpus, `ON`,
    and `load_spectra`."""
    rows = load_training_rows(tables)
    first_seeds = (rows["kind"] == "") & (rows["replicate_of"] == "")
    finished = rows["step"] == rows["steps"]
    rows = rows[first_seeds & finished]
    every = rows.pivot(index="model", columns="prompts", values="log_gain")
    every = every.reindex(columns=list(CORPORA))
    every = every.rename(columns=ON)
    gains = select_own_prompts(rows).merge(every, left_on="model", right_index=True)
    known = np.isfinite(gains["log_gain"].astype(float))
    gains = gains[known].reset_index(drop=True)
    for name, logs in load_spectra(tables).items():
        gains[name] = gains["model"].map(logs)
    return gains


def require_enough(tables: Evidence) -> pd.DataFrame:
    """Rows of `select_ends`. Raises TooFew for less than `HALF`."""
    return HALF.check_rows(select_ends(tables))


def read(tables: Evidence) -> pd.DataFrame:
    """What tests read of `require_enough`, in plain types: subsets of them are made in no time."""
    names = ["model_id", "heritage", "recipe", "trained_on"]
    rows = require_enough(tables)[[*names, *LOGS, "log_shape", "log_N", "log_gain"]]
    return rows.astype(dict.fromkeys(names, object))


def measure_repeats(tables: Evidence) -> pd.Series:
    """How much the log gain at the end of models trained with another seed differs from that with
    the first."""
    return compare_seeds(select_own_prompts(load_training_rows(tables)))


def compare_seeds(rows: pd.DataFrame) -> pd.Series:
    """Differences of log gains between seeds, of rows along the training, one per model and
    checkpoint."""
    rows = rows[rows["step"] == rows["steps"]]
    rows = rows.set_index("model")
    again = rows[rows["replicate_of"] != ""]
    first = rows["log_gain"].reindex(again["replicate_of"])
    return again["log_gain"] - first.to_numpy()


def describe_extent(rows: pd.DataFrame) -> dict[str, list[int]]:
    """Depths, widths and numbers of tokens of models, each once, in order: how far what is found of
    them reaches."""
    columns = {"depths": "n_layers", "widths": "d_model", "tokens": "tokens"}
    extents = {}
    for name, column in columns.items():
        sizes = set(map(int, rows[column]))
        extents[name] = sorted(sizes)
    return extents


def build_recipes(tables: Evidence, gain: str = "log_gain") -> pd.DataFrame:
    """One row per recipe and corpus, recipes that have a gain in every corpus at every shape: mean
    log gain, `n`.

    With the factors of a recipe (`FACTORS`), `log_rate` off the optimiser's mean. gain: of `ON`
    another.
    """
    rows = require_enough(tables)
    rows = rows.assign(log_gain=rows[gain])
    shapes = rows[["trained_on", *LOGS]]
    cells = len(shapes.drop_duplicates())
    n_models = rows.groupby("recipe")["model"].transform("size")
    whole = rows[n_models == cells]
    wide = add_factors(whole).assign(n=1)
    by = {"log_gain": "mean", "n": "sum", **dict.fromkeys(FACTORS, "first")}
    means = wide.groupby(["recipe", "trained_on"], as_index=False).agg(by)
    rates = means.groupby("optimiser")["log_rate"]
    means["log_rate"] -= rates.transform("mean")
    names = means["recipe"] + " " + means["trained_on"]
    return means.assign(model_id=names, heritage=means["recipe"])


def add_factors(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the numbers of FACTORS."""
    clip = rows["clip"]
    clip = clip.where(clip > 0, clip.max())
    decayed = rows["rate"] * rows["decay"] * rows["steps"]
    tokens = rows["steps"] * rows["batch"]
    coded = rows.assign(log_rate=np.log(rows["rate"]), shrinking=np.log1p(decayed))
    for name in ("init", "embed", "warmup", "batch"):
        coded[f"log_{name}"] = np.log(rows[name])
    return coded.assign(log_tokens=np.log(tokens), log_clip=np.log(clip))


def group_decay_recipes(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per recipe with decay, by an optimiser whose step does not grow with the gradient:
    AdamW, Lion and Muon.

    Means over its `n` models, off the optimiser's; `log_ratio` is log √(rate/decay), `log_norm` the
    mean of both spectra, `synthetic` the share of its models that were trained on the synthetic
    corpus.
    """
    with_decay = rows["decay"] > 0
    decayed = rows["optimiser"].isin(SET_STEPS) & with_decay
    tuned = rows[decayed].assign(n=1)
    tuned["log_rate"] = np.log(tuned["rate"])
    tuned["log_decay"] = np.log(tuned["decay"])
    log_ratio = tuned["log_rate"] - tuned["log_decay"]
    tuned["log_ratio"] = 0.5 * log_ratio
    tuned["synthetic"] = (tuned["trained_on"] == "synthetic").astype(float)
    columns = ["log_rate", "log_decay", "log_ratio", "log_wv", "log_wo", "log_gain"]
    by = dict.fromkeys([*columns, "synthetic"], "mean") | {"n": "sum"}
    means = tuned.groupby(["recipe", "optimiser"], as_index=False).agg(by)
    by_optimiser = means.groupby("optimiser")[columns]
    means[columns] -= by_optimiser.transform("mean")
    names = dict.fromkeys(("heritage", "model_id"), means["recipe"])
    both = means["log_wv"] + means["log_wo"]
    return means.assign(log_norm=both / 2, **names)


def estimate_mediation(rows: pd.DataFrame) -> tuple[float, float]:
    """Effect of log √(rate/decay) on the log gain through log σ_max, c − c', and its sensitivity.

    Sensitivity: the correlation between the errors of spectrum and gain at which the effect would
    be nothing (Imai, Keele and Yamamoto 2010, doi:10.1214/10-STS321). Every optimiser has a level
    of its own.
    """
    values = rows[["log_ratio", "log_norm", "log_gain"]].to_numpy(float)
    controls = encode_levels(rows, "optimiser", ["synthetic"])
    x, m, y = remove_columns(values, controls).T
    total = x @ y / (x @ x)
    first = x @ m / (x @ x)
    of_norm = m - first * x
    of_gain = y - total * x
    errors = np.column_stack([of_norm, of_gain])
    u, v = errors.T
    second = u @ v / (u @ u)
    r = np.corrcoef(errors.T)[0, 1]
    return float(first * second), float(r)


TERMS = {"log_L": (LOGS, 1), "log_rho": (LOGS, 2), "log_shape": ("coded", 1), "log_N": ("coded", 3)}
"""Slopes by their coding, and their place in it: depth and density at one width; depth over width,
and size."""

WORDS = {
    "log_L": "log L",
    "log_rho": "log ρ",
    "log_shape": "log L/d at one size",
    "log_N": "log N at one shape",
}


def fit_recipe_slopes(rows: pd.DataFrame, term: str) -> tuple[Array, list[str]]:
    """Slope of the log gain on one of TERMS of every recipe in every corpus, (corpora, recipes);
    the corpora."""
    y, x, corpora = build_table(rows)
    coding, place = TERMS[term]
    z = encode_shapes(x) if coding == "coded" else x - x.mean(axis=0)
    effects, _ = fit_lines(y, z)
    return effects[..., place], corpora


def summarise_corpus_slopes(rows: pd.DataFrame, term: str) -> pd.DataFrame:
    """Mean over recipes of the slope on one of TERMS, a row a corpus: SLOPES, with 95% t
    intervals."""
    every, corpora = fit_recipe_slopes(rows, term)
    rows_of = []
    for corpus, group in zip(corpora, every, strict=True):
        error = float(stats.sem(group))
        df = len(group) - 1
        at = build_t_estimate(group.mean(), error, df, "")
        numbers = (at.value, at.lower, at.upper, at.p)
        rows_of.append((corpus, *numbers, error, df))
    return pd.DataFrame(rows_of, columns=SLOPES)


def select_early_and_late(tables: Evidence, share: float = TENTH, on: str = "") -> pd.DataFrame:
    """One row per model of the design, first seeds: `early` and `end`, log gains at a share of
    training and at the end.

    `cell` holds all of its shape and the corpus; `ranked` is the rank of `early`, off the mean rank
    of its cell. on: prompts of one corpus for all.
    """
    rows = load_training_rows(tables)
    late = select_ends(tables)
    if on:
        rows = rows[rows["prompts"] == on]
        late = late.assign(log_gain=late[ON[on]])
    else:
        rows = select_own_prompts(rows)
    step = (share * rows["steps"]).round()
    early = rows[rows["step"] == step]
    then = early.set_index("model")["log_gain"]
    return add_early(late, then)


def add_early(late: pd.DataFrame, then: pd.Series) -> pd.DataFrame:
    """Models at the end with `early`, `end`, `cell` and `ranked`; then: earlier log gains by
    model."""
    cells = late["n_layers"].astype(str)
    for name in ("rho", "d_model", "trained_on"):
        cells = cells + " " + late[name].astype(str)
    early = late["model"].map(then)
    late = late.assign(end=late["log_gain"], early=early, cell=cells)
    late = late.dropna(subset="early").reset_index(drop=True)
    ranked = rank_cells(late["early"], late["cell"]) if len(late) else late["early"]
    return late.assign(ranked=ranked)


def add_sides(rows: pd.DataFrame, prompts: int) -> pd.DataFrame:
    """The rows with `side`, the sign of the log gain, 0 where its 95% t interval over so many
    prompts holds 0."""
    reach = measure_margin(rows["log_gain_sd"], prompts - 1)
    half = reach / np.sqrt(prompts)
    gain = rows["log_gain"]
    clear = gain.abs() > half
    return rows.assign(side=np.sign(gain) * clear)


def build_pairs(tables: Evidence) -> pd.DataFrame:
    """One row per base and what was tuned from it, both on prompts of the base's corpus.

    Columns: log gains `base` and `tuned`, `dampens` (the base), and `flips`: whether the two 95% t
    intervals over prompts exclude 0 and lie on opposite sides of it. `flips_on_new`: the same on
    prompts of the corpus that the tuned model was trained on last.
    """
    rows = load_training_rows(tables)
    at_end = rows[rows["step"] == rows["steps"]]
    finished = add_sides(at_end, PROMPTS)
    at = finished.set_index(["model", "prompts"])
    own = finished["prompts"] == finished["trained_on"]
    is_tuned = finished["kind"] != ""
    tuned = finished[is_tuned & own].reset_index(drop=True)
    bases = tuned["parent"].str.split("/").str[0]
    corpora = finished.drop_duplicates("model").set_index("model")["trained_on"]
    learned = bases.map(corpora)
    before = _find_rows(at, bases, learned)
    after = _find_rows(at, tuned["model"], learned)
    fresh = _find_rows(at, bases, tuned["trained_on"])
    gain = before["log_gain"].to_numpy()
    side = before["side"].to_numpy()
    pairs = tuned[["model_id", "heritage", "kind"]].assign(pair=bases)
    pairs["base"] = gain
    pairs["tuned"] = after["log_gain"].to_numpy()
    pairs["dampens"] = gain < 0
    side_after = after["side"].to_numpy()
    pairs["flips"] = side * side_after < 0
    side_on_new = fresh["side"].to_numpy()
    pairs["flips_on_new"] = side_on_new * tuned["side"].to_numpy() < 0
    return pairs


def _find_rows(at: pd.DataFrame, models: pd.Series, prompts: pd.Series) -> pd.DataFrame:
    """Of rows by model and prompts those of each pair of them, missing where there are none."""
    return at.reindex(pd.MultiIndex.from_arrays((models, prompts)))


def compare_prompt_sets(rows: pd.DataFrame) -> pd.DataFrame:
    """How a model's mean log gain on its own corpus's prompts differs from that on the others', by
    what it learned.

    Columns: corpus, and in words; own and others, mean log gains; difference with lower and upper
    (95% t interval over recipes), p; least and most, of a recipe.
    """
    rows_of = []
    for corpus, group in rows.groupby("trained_on", sort=False):
        own = group["log_gain"]
        columns = [column for name, column in ON.items() if name != corpus]
        others = group[columns].mean(axis=1)
        off = own - others
        each = off.groupby(group["recipe"]).mean()
        at = build_t_estimate(each.mean(), each.sem(), len(each) - 1, "")
        ends = (at.value, at.lower, at.upper, at.p)
        extremes = (each.min(), each.max())
        means = (own.mean(), others.mean())
        rows_of.append((corpus, IN_WORDS[str(corpus)], *means, *ends, *extremes))
    names = [
        "corpus",
        "words",
        "own",
        "others",
        "difference",
        "lower",
        "upper",
        "p",
        "least",
        "most",
    ]
    return pd.DataFrame(rows_of, columns=names)


def score_predictions(evidence: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """What the second study predicted of its two corpora before this one was trained, and what it
    found there.

    Columns: corpus, quantity, predicted, lower, upper; found, found_lower, found_upper (95%);
    inside, whether what was found lies in the predicted interval.
    """
    predictions = evidence.table("third_predictions").rename(columns={"estimate": "predicted"})
    seen = {}
    y, x, corpora = build_table(rows)
    names = {"log_shape": "log L/d", "log_rho": "log rho", "log_N": "log N"}
    for term, name in names.items():
        for row in summarise_corpus_slopes(rows, term).to_dict("records"):
            ends = (row["slope"], row["slope_lower"], row["slope_upper"])
            seen[row["corpus"], f"slope on {name}"] = ends
    for place, corpus in enumerate(corpora):
        for name, estimate in estimate_ratios(y[[place]], x).items():
            ends = (estimate.estimate, estimate.lower, estimate.upper)
            seen[corpus, name] = ends
    keys = zip(predictions["corpus"], predictions["quantity"], strict=True)
    found = [seen.get(key, (np.nan,) * 3) for key in keys]
    predictions[["found", "found_lower", "found_upper"]] = found
    above = predictions["lower"] <= predictions["found"]
    inside = above & (predictions["found"] <= predictions["upper"])
    return predictions.assign(inside=inside)


def mark_unlearned(rows: pd.DataFrame) -> pd.Series:
    """Whether some model of a row's recipe did not learn, which is not asked of the shuffled
    corpus."""
    has_words = rows["trained_on"] != "shuffled"
    bad = ~rows["learned"].astype(bool) & has_words
    return bad.groupby(rows["recipe"]).transform("any")


def build_corpus_matrix(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean log gains, recipes × corpora, of rows with one of each."""
    return rows.pivot(index="recipe", columns="trained_on", values="log_gain").dropna()


def combine_corpora(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `third.recipes` as one a recipe, means over its corpora."""
    by = {"log_gain": "mean", "n": "sum"} if "n" in rows else {"log_gain": "mean"}
    by |= dict.fromkeys(FACTORS, "first")
    table = rows.groupby("recipe", as_index=False).agg(by)
    return table.assign(model_id=table["recipe"], heritage=table["recipe"])
