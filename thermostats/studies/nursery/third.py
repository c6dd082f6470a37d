"""The third study's tables and what its findings ask of them: 20 recipes, each trained on four corpora at every shape.

Recipes are the unit. A model's log gain is that of its penultimate block (L − 1) at the last token, a mean over prompts
of its own corpus; gains on the prompts of every corpus are shown as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.noise import Noise, Random
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import NEVER, AtLeast, Decide, Each, EveryRow, Gate, Some, V
from thermostats.claims.worlds import TOTAL, Outcomes, Worlds, along, family, standard
from thermostats.modelling.draws import Array
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026.stated_facts import LEVEL
from thermostats.studies.nursery.crossed import (
    ALIKE,
    LOGS,
    RECIPE,
    THRESHOLDS,
    coded,
    lines,
    mean_ratios,
    ratios,
    spreads,
    table,
)
from thermostats.studies.nursery.crossed import SHAPE_OF_WORLDS as SHAPE
from thermostats.studies.nursery.study_rows import by_t
from thermostats.studies.nursery.training_choices import ranked_in
from thermostats.tables.folders import shipped
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
    **dict.fromkeys(("optimiser", "schedule"), "levels"),
    **dict.fromkeys(("log_rate", "shrinking", "depth_power", "log_init", "log_embed", "dropout"), "number"),
    **dict.fromkeys(("log_warmup", "log_batch", "log_clip", "log_tokens"), "number"),
}
"""All that recipes were drawn to differ in but the corpus: levels, or numbers."""
SLOPES = ["corpus", "slope", "slope_lower", "slope_upper", "slope_p", "error", "df"]


def third_along(tables: Evidence) -> pd.DataFrame:
    """One row per model, checkpoint and set of prompts: columns of models, `trained_on`, `step`, `share`, `prompts`.

    `log_gain` and `log_gain_sd` are those of block L − 1, over prompts; `recipe` is the same in every corpus.
    """
    models = tables.table("third_models").fillna(dict.fromkeys(("kind", "parent", "replicate_of"), ""))
    stem = models["recipe"].astype(str).str.split("-").str[0]
    logs = {name: np.log(models[column].astype(float)) for name, column in COLUMNS.items()}
    logs |= {"log_shape": logs["log_L"] - logs["log_d"], "log_N": logs["log_L"] + 2 * logs["log_d"]}
    named = models.assign(model_id=NURSERY + "/" + models["model"].astype(str), recipe=stem, heritage=stem, **logs)
    rows = named.rename(columns={"corpus": "trained_on"}).merge(tables.table("third_gains"), on="model")
    return rows.assign(share=rows["step"] / rows["steps"])


def spectra(tables: Evidence) -> pd.DataFrame:
    """Means over layers of log σ_max at the end of training, `log_wv` and `log_wo`, by model."""
    norms = tables.table("third_spectra")
    logs = {f"log_{name}": np.log(norms[f"{name}_norm"].astype(float)) for name in ("wv", "wo")}
    return norms[["model"]].assign(**logs).groupby("model").mean()


def on_own(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `along` on prompts of a model's own corpus."""
    return rows[rows["prompts"] == rows["trained_on"]]


def ends(tables: Evidence) -> pd.DataFrame:
    """One row per model of the design at the end, first seeds: on prompts of its own corpus, `ON`, and `spectra`."""
    rows = third_along(tables)
    rows = rows[(rows["kind"] == "") & (rows["replicate_of"] == "") & (rows["step"] == rows["steps"])]
    every = rows.pivot(index="model", columns="prompts", values="log_gain").reindex(columns=list(CORPORA))
    gains = on_own(rows).merge(every.rename(columns=ON), left_on="model", right_index=True)
    gains = gains[np.isfinite(gains["log_gain"].astype(float))].reset_index(drop=True)
    return gains.assign(**{name: gains["model"].map(logs) for name, logs in spectra(tables).items()})


def enough(tables: Evidence) -> pd.DataFrame:
    """Rows of `ends`. Raises TooFew for less than `HALF`."""
    return HALF.of(ends(tables))


def read(tables: Evidence) -> pd.DataFrame:
    """What tests read of `enough`, in plain types: subsets of them are made in no time."""
    names = ["model_id", "heritage", "recipe", "trained_on"]
    return enough(tables)[[*names, *LOGS, "log_shape", "log_N", "log_gain"]].astype(dict.fromkeys(names, object))


def repeats(tables: Evidence) -> pd.Series:
    """How much the log gain at the end of models trained with another seed differs from that with the first."""
    return between_seeds(on_own(third_along(tables)))


def between_seeds(rows: pd.DataFrame) -> pd.Series:
    """Differences of log gains between seeds, of rows along the training, one per model and checkpoint."""
    rows = rows[rows["step"] == rows["steps"]].set_index("model")
    again = rows[rows["replicate_of"] != ""]
    return again["log_gain"] - rows["log_gain"].reindex(again["replicate_of"]).to_numpy()


def extent(rows: pd.DataFrame) -> dict[str, list[int]]:
    """Depths, widths and numbers of tokens of models, each once, in order: how far what is found of them reaches."""
    columns = {"depths": "n_layers", "widths": "d_model", "tokens": "tokens"}
    return {name: sorted({int(value) for value in rows[column]}) for name, column in columns.items()}


def recipes(tables: Evidence, gain: str = "log_gain") -> pd.DataFrame:
    """One row per recipe and corpus, recipes that have a gain in every corpus at every shape: mean log gain, `n`.

    With the factors of a recipe (`FACTORS`), `log_rate` off the optimiser's mean. gain: of `ON` another.
    """
    rows = enough(tables).assign(log_gain=lambda frame: frame[gain])
    cells = len(rows[["trained_on", *LOGS]].drop_duplicates())
    wide = with_factors(rows[rows.groupby("recipe")["model"].transform("size") == cells]).assign(n=1)
    by = {"log_gain": "mean", "n": "sum", **dict.fromkeys(FACTORS, "first")}
    means = wide.groupby(["recipe", "trained_on"], as_index=False).agg(by)
    means["log_rate"] -= means.groupby("optimiser")["log_rate"].transform("mean")
    return means.assign(model_id=means["recipe"] + " " + means["trained_on"], heritage=means["recipe"])


def with_factors(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the numbers of FACTORS."""
    coded = rows.assign(
        log_rate=np.log(rows["rate"]),
        shrinking=np.log1p(rows["rate"] * rows["decay"] * rows["steps"]),
        log_init=np.log(rows["init"]),
        log_embed=np.log(rows["embed"]),
        log_warmup=np.log(rows["warmup"]),
        log_batch=np.log(rows["batch"]),
        log_tokens=np.log(rows["steps"] * rows["batch"]),
    )
    clipped = coded["clip"] > 0
    return coded.assign(log_clip=np.log(coded["clip"].where(clipped, coded["clip"].max())))


def by_recipe(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per recipe with decay, by an optimiser whose step does not grow with the gradient: AdamW, Lion and Muon.

    Means over its `n` models, off the optimiser's; `log_ratio` is log √(rate/decay), `log_norm` the mean of both
    spectra, `synthetic` the share of its models that were trained on the synthetic corpus.
    """
    tuned = rows[rows["optimiser"].isin(SET_STEPS) & (rows["decay"] > 0)]
    rate, decay = np.log(tuned["rate"]), np.log(tuned["decay"])
    synthetic = (tuned["trained_on"] == "synthetic").astype(float)
    tuned = tuned.assign(log_rate=rate, log_decay=decay, log_ratio=0.5 * (rate - decay), synthetic=synthetic)
    columns = ["log_rate", "log_decay", "log_ratio", "log_wv", "log_wo", "log_gain"]
    by = dict.fromkeys([*columns, "synthetic"], "mean") | {"n": "sum"}
    means = tuned.assign(n=1).groupby(["recipe", "optimiser"], as_index=False).agg(by)
    means[columns] -= means.groupby("optimiser")[columns].transform("mean")
    names = dict.fromkeys(("heritage", "model_id"), means["recipe"])
    return means.assign(log_norm=(means["log_wv"] + means["log_wo"]) / 2, **names)


def mediated(rows: pd.DataFrame, mask: npt.NDArray[np.bool_] | None = None) -> tuple[float, float]:
    """Effect of log √(rate/decay) on the log gain through log σ_max, c − c', and its sensitivity.

    Sensitivity: the correlation between the errors of spectrum and gain at which the effect would be nothing (Imai,
    Keele and Yamamoto 2010, doi:10.1214/10-STS321). Every optimiser has a level of its own.
    """
    chosen = rows if mask is None else rows[mask]
    values = chosen[["log_ratio", "log_norm", "log_gain"]].to_numpy(np.float64)
    controls = np.column_stack([pd.get_dummies(chosen["optimiser"]), chosen["synthetic"]]).astype(np.float64)
    x, m, y = (values - controls @ np.linalg.lstsq(controls, values, rcond=None)[0]).T
    total, first = x @ y / (x @ x), x @ m / (x @ x)
    errors = np.column_stack([m - first * x, y - total * x])
    second = errors[:, 0] @ errors[:, 1] / (errors[:, 0] @ errors[:, 0])
    return float(first * second), float(np.corrcoef(errors.T)[0, 1])


TERMS = {"log_L": (LOGS, 1), "log_rho": (LOGS, 2), "log_shape": ("coded", 1), "log_N": ("coded", 3)}
"""Slopes by their coding, and their place in it: depth and density at one width; depth over width, and size."""

WORDS = {"log_L": "log L", "log_rho": "log ρ", "log_shape": "log L/d at one size", "log_N": "log N at one shape"}


def slopes(rows: pd.DataFrame, term: str) -> tuple[Array, list[str]]:
    """Slope of the log gain on one of TERMS of every recipe in every corpus, (corpora, recipes); the corpora."""
    y, x, corpora = table(rows)
    coding, place = TERMS[term]
    z = coded(x) if coding == "coded" else x - x.mean(axis=0)
    return lines(y, z)[0][..., place], corpora


def slopes_of_corpora(rows: pd.DataFrame, term: str) -> pd.DataFrame:
    """Mean over recipes of the slope on one of TERMS, a row a corpus: SLOPES, with 95% t intervals."""
    every, corpora = slopes(rows, term)
    rows_of = []
    for corpus, group in zip(corpora, every, strict=True):
        error, df = float(stats.sem(group)), len(group) - 1
        at = by_t(group.mean(), error, df, "")
        rows_of.append((corpus, at.value, at.lower, at.upper, at.p, error, df))
    return pd.DataFrame(rows_of, columns=SLOPES)


def early_and_late(tables: Evidence, share: float = TENTH, on: str = "") -> pd.DataFrame:
    """One row per model of the design, first seeds: `early` and `end`, log gains at a share of training and at the end.

    `cell` holds all of its shape and the corpus; `ranked` is the rank of `early`, off the mean rank of its cell. on:
    prompts of one corpus for all.
    """
    rows, late = third_along(tables), ends(tables)
    rows = rows[rows["prompts"] == on] if on else on_own(rows)
    late = late.assign(log_gain=late[ON[on]]) if on else late
    then = rows[rows["step"] == (share * rows["steps"]).round()].set_index("model")["log_gain"]
    return with_early(late, then)


def with_early(late: pd.DataFrame, then: pd.Series) -> pd.DataFrame:
    """Models at the end with `early`, `end`, `cell` and `ranked`; then: earlier log gains by model."""
    cells = late["n_layers"].astype(str)
    for name in ("rho", "d_model", "trained_on"):
        cells = cells + " " + late[name].astype(str)
    late = late.assign(end=late["log_gain"], early=late["model"].map(then), cell=cells)
    late = late.dropna(subset="early").reset_index(drop=True)
    return late.assign(ranked=ranked_in(late["early"], late["cell"]) if len(late) else late["early"])


def with_sides(rows: pd.DataFrame, prompts: int) -> pd.DataFrame:
    """The rows with `side`, the sign of the log gain, 0 where its 95% t interval over so many prompts holds 0."""
    half = rows["log_gain_sd"] * stats.t.ppf((1 + LEVEL) / 2, prompts - 1) / np.sqrt(prompts)
    return rows.assign(side=np.sign(rows["log_gain"]) * (rows["log_gain"].abs() > half))


def pairs(tables: Evidence) -> pd.DataFrame:
    """One row per base and what was tuned from it, both on prompts of the base's corpus.

    Columns: log gains `base` and `tuned`, `dampens` (the base), and `flips`: whether the two 95% t intervals over
    prompts exclude 0 and lie on opposite sides of it.
    `flips_on_new`: the same on prompts of the corpus that the tuned model was trained on last.
    """
    rows = third_along(tables)
    finished = with_sides(rows[rows["step"] == rows["steps"]], PROMPTS)
    at = finished.set_index(["model", "prompts"])
    tuned = finished[(finished["kind"] != "") & (finished["prompts"] == finished["trained_on"])].reset_index(drop=True)
    bases = tuned["parent"].str.split("/").str[0]
    learned = bases.map(finished.drop_duplicates("model").set_index("model")["trained_on"])
    before, after, fresh = (
        at.reindex(pd.MultiIndex.from_arrays(keys))
        for keys in ((bases, learned), (tuned["model"], learned), (bases, tuned["trained_on"]))
    )
    return tuned[["model_id", "heritage", "kind"]].assign(
        pair=bases,
        base=before["log_gain"].to_numpy(),
        tuned=after["log_gain"].to_numpy(),
        dampens=before["log_gain"].to_numpy() < 0,
        flips=before["side"].to_numpy() * after["side"].to_numpy() < 0,
        flips_on_new=fresh["side"].to_numpy() * tuned["side"].to_numpy() < 0,
    )


def prompts_of_others(rows: pd.DataFrame) -> pd.DataFrame:
    """How a model's mean log gain on its own corpus's prompts differs from that on the others', by what it learned.

    Columns: corpus, and in words; own and others, mean log gains; difference with lower and upper (95% t interval over
    recipes), p; least and most, of a recipe.
    """
    rows_of = []
    for corpus, group in rows.groupby("trained_on", sort=False):
        others = group[[column for name, column in ON.items() if name != corpus]].mean(axis=1)
        each = (group["log_gain"] - others).groupby(group["recipe"]).mean()
        at = by_t(each.mean(), each.sem(), len(each) - 1, "")
        means = (group["log_gain"].mean(), others.mean(), at.value, at.lower, at.upper, at.p)
        rows_of.append((corpus, IN_WORDS[str(corpus)], *means, each.min(), each.max()))
    columns = ["corpus", "words", "own", "others", "difference", "lower", "upper", "p", "least", "most"]
    return pd.DataFrame(rows_of, columns=columns)


def scored(rows: pd.DataFrame) -> pd.DataFrame:
    """What the second study predicted of its two corpora before this one was trained, and what it found there.

    Columns: corpus, quantity, predicted, lower, upper; found, found_lower, found_upper (95%); inside, whether what was
    found lies in the predicted interval.
    """
    predictions = pd.read_csv(shipped("data") / "nursery" / "third" / "predictions.csv")
    predictions = predictions.rename(columns={"estimate": "predicted"})
    seen: dict[tuple[str, str], tuple[float, ...]] = {}
    y, x, corpora = table(rows)
    names = {"log_shape": "log L/d", "log_rho": "log rho", "log_N": "log N"}
    for term, name in names.items():
        for row in slopes_of_corpora(rows, term).to_dict("records"):
            seen[row["corpus"], f"slope on {name}"] = (row["slope"], row["slope_lower"], row["slope_upper"])
    for place, corpus in enumerate(corpora):
        for name, estimate in ratios(y[[place]], x).items():
            seen[corpus, name] = (estimate.estimate, estimate.lower, estimate.upper)
    keys = zip(predictions["corpus"], predictions["quantity"], strict=True)
    predictions[["found", "found_lower", "found_upper"]] = [seen.get(key, (np.nan,) * 3) for key in keys]
    return predictions.assign(
        inside=(predictions["lower"] <= predictions["found"]) & (predictions["found"] <= predictions["upper"])
    )


def of_unlearned(rows: pd.DataFrame) -> pd.Series:
    """Whether some model of a row's recipe did not learn, which is not asked of the shuffled corpus."""
    bad = ~rows["learned"].astype(bool) & (rows["trained_on"] != "shuffled")
    return bad.groupby(rows["recipe"]).transform("any")


CORPUS = "corpus"


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean log gains, recipes × corpora, of rows with one of each."""
    return rows.pivot(index="recipe", columns="trained_on", values="log_gain").dropna()


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `third.recipes` as one a recipe, means over its corpora."""
    by = {"log_gain": "mean", "n": "sum"} if "n" in rows else {"log_gain": "mean"}
    table = rows.groupby("recipe", as_index=False).agg(by | dict.fromkeys(FACTORS, "first"))
    return table.assign(model_id=table["recipe"], heritage=table["recipe"])


def hotelling(y: Array) -> tuple[Any, int, int, Any]:
    """That the columns of y (…, units, columns) have one mean: F, its degrees of freedom, p."""
    off = y[..., 1:] - y[..., :1]
    n, df = off.shape[-2:]
    mean = off.mean(axis=-2)
    centred = off - mean[..., None, :]
    covariance = np.swapaxes(centred, -1, -2) @ centred / (n - 1)
    f = n * np.einsum("...i,...ij,...j->...", mean, np.linalg.pinv(covariance), mean) * (n - df) / (df * (n - 1))
    return f, df, n - df, stats.f.sf(f, df, n - df)


def residual(y: Array, x: Array) -> tuple[Any, int]:
    """Residual sum of squares of least squares of y (…, units), and rank of the columns, the mean among them."""
    u, s, _ = np.linalg.svd(np.column_stack([np.ones(len(x)), x - x.mean(axis=0)]), full_matrices=False)
    u = u[:, s > s[0] * 1e-9]
    return np.square(y).sum(axis=-1) - np.square(y @ u).sum(axis=-1), u.shape[1]


def factor_tests(table: pd.DataFrame, factors: dict[str, str]) -> pd.DataFrame:
    """F of every factor alone over recipes: factor, F, df, df_error, p.

    table: one row per recipe; factors: column → `levels`, or `number`.
    """
    tests = of_factors(table["log_gain"].to_numpy(np.float64), table, factors)
    return pd.DataFrame(tests, columns=["factor", "F", "df", "df_error", "p"])


def of_factors(y: Array, table: pd.DataFrame, factors: dict[str, str]) -> list[tuple[str, Any, int, int, Any]]:
    """The same of outcomes y (…, recipes), a row a factor."""
    (left, rank), tests = residual(y, np.empty((len(table), 0))), []
    for name, kind in factors.items():
        squares, both = residual(y, _columns(table, name, kind))
        df, rest = both - rank, len(table) - both
        f = (left - squares) / df / (squares / rest) if df and rest else np.full_like(left, np.nan)
        tests.append((name, f, df, rest, stats.f.sf(f, df, rest)))
    return tests


def _columns(table: pd.DataFrame, name: str, kind: str) -> Array:
    columns = pd.get_dummies(table[name]) if kind == "levels" else table[[name]]
    return np.asarray(columns, dtype=np.float64)


def contrasts_of(table: pd.DataFrame, factors: dict[str, str], *, among: int | None = None) -> pd.DataFrame:
    """Of every factor alone, how far apart it sets the gain: more columns of `factor_tests`.

    `what` is compared, its highest level with its lowest, or one SD of a number; `ratio` of geometric mean gains;
    `lower` and `upper`, 95% t interval, Bonferroni over factors (`among` so many) and pairs of levels; `share` of the
    variance between recipes.
    """
    tests, y, rows = factor_tests(table, factors), table["log_gain"].to_numpy(np.float64), []
    for (name, kind), test in zip(factors.items(), tests.itertuples(), strict=True):
        columns = _columns(table, name, kind)
        x = np.column_stack([np.ones(y.size), columns if kind == "levels" else columns / columns.std(ddof=1)])
        inverse = np.linalg.pinv(x.T @ x)
        slopes = inverse @ x.T @ y
        contrast, pairs, what = np.ones(1), 1, "one SD more"
        if kind == "levels":
            effects, levels = slopes[1:], pd.get_dummies(table[name]).columns
            high, low = effects.argmax(), effects.argmin()
            contrast = np.eye(len(levels))[high] - np.eye(len(levels))[low]
            pairs, what = math.comb(len(levels), 2), f"{levels[high]} against {levels[low]}"
        contrast = np.append(0.0, contrast)
        variance = np.square(y - x @ slopes).sum() / test.df_error
        half = stats.t.isf((1 - LEVEL) / 2 / (among or len(factors)) / pairs, test.df_error)
        ends = contrast @ slopes + np.array([0, -1, 1]) * half * np.sqrt(variance * contrast @ inverse @ contrast)
        rows.append((what, *np.exp(ends), test.F * test.df / (test.F * test.df + test.df_error)))
    return tests.join(pd.DataFrame(rows, columns=["what", "ratio", "lower", "upper", "share"]))


def tests(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """F of every factor alone, of the corpus among them or not: columns of `factor_tests`."""
    others = factor_tests(means(rows), FACTORS)
    if not corpus:
        return others
    of_corpus = pd.DataFrame([(CORPUS, *hotelling(wide(rows).to_numpy(np.float64)))], columns=others.columns)
    return pd.concat([of_corpus, others], ignore_index=True)


def contrasts(rows: pd.DataFrame, *, corpus: bool) -> pd.DataFrame:
    """The same with how far apart each factor sets the gain: columns of `contrasts_of`.

    `share` of the corpus is that of the variance of all recipes in all corpora. Intervals are Bonferroni over factors.
    """
    among = len(FACTORS) + corpus
    others = contrasts_of(means(rows), FACTORS, among=among)
    if not corpus:
        return others
    y = wide(rows)
    high, low = y.mean().idxmax(), y.mean().idxmin()
    each, pairs = y[high] - y[low], math.comb(y.shape[1], 2)
    half = stats.t.isf((1 - LEVEL) / 2 / among / pairs, len(each) - 1) * each.sem()
    ends = np.exp(each.mean() + half * np.array([0, -1, 1]))
    values = y.to_numpy(np.float64)
    share = np.square(values.mean(axis=0) - values.mean()).mean() / values.var()
    row = (*tests(rows, corpus=True).iloc[0], f"{high} against {low}", *ends, share)
    return pd.concat([pd.DataFrame([row], columns=others.columns), others], ignore_index=True)


def in_each(rows: pd.DataFrame, factor: str) -> pd.DataFrame:
    """A factor's contrast in every corpus alone: corpus, and columns of `contrasts_of`."""
    parts = [
        contrasts_of(group, {factor: FACTORS[factor]}).assign(corpus=corpus)
        for corpus, group in rows.groupby("trained_on")
    ]
    return pd.concat(parts, ignore_index=True)


def without_each(rows: pd.DataFrame) -> dict[str, float]:
    """p of the corpus without each corpus in turn."""
    y = wide(rows)
    return {str(name): hotelling(y.drop(columns=name).to_numpy(np.float64))[3] for name in y}


OVER_ARCHITECTURE, OVER_SIZE = "SD of recipe / SD of architecture", "SD of shape / SD of size"
SHARED = "share of what recipes do that all corpora have"
NAMES = {RECIPE: OVER_ARCHITECTURE, SHAPE: OVER_SIZE, ALIKE: SHARED}
"""The frozen rules' names, and those of their quantities."""
LEFT, CONTROL = "other choices", "shuffled"
SQUARES = "squares averaged over all four corpora, the frozen estimate"
INTERVAL = "95% jackknife t interval over recipes"


def rule(name: str) -> Decide:
    """The frozen rule, and that no corpus and no set of prompts is needed for what it says."""
    quantity, bar = V(NAMES[name]), THRESHOLDS[name]
    return Decide(
        (quantity.interval > bar) & Gate(Each(LEFT, quantity > bar)),
        (quantity.interval < bar) & Gate(Each(LEFT, quantity < bar)),
    )


def with_language(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of corpora that have language."""
    return rows[rows["trained_on"] != CONTROL]


def by_ratios(rows: pd.DataFrame, name: str) -> Result:
    """All three, headed by one; the same without each corpus in turn."""
    y, x, corpora = table(with_language(rows))
    left = without_corpora(y, x, corpora)
    return Result.of(rows, estimates(y, x), estimate=NAMES[name], table=None, rows={LEFT: left})


def estimates(y: Array, x: Array) -> dict[str, Estimate]:
    """The ratios as means over corpora, and what recipes share in all, with intervals, by the names that pages use."""
    by_block = {**mean_ratios(y, x)[0], ALIKE: ratios(y, x)[ALIKE]}
    return {
        NAMES[name]: Estimate(float(at.estimate), float(at.lower), float(at.upper), INTERVAL)
        for name, at in by_block.items()
    }


def without_corpora(y: Array, x: Array, corpora: list[str]) -> pd.DataFrame:
    """The estimates without each corpus in turn."""
    rest = [np.arange(len(corpora)) != place for place in range(len(corpora))]
    values = [{name: at.value for name, at in estimates(y[remaining], x).items()} for remaining in rest]
    names = [f"without {IN_WORDS.get(corpus, corpus)}" for corpus in corpora]
    return pd.DataFrame([{"choice": name, **value} for name, value in zip(names, values, strict=True)])


def on_prompts(rows: pd.DataFrame) -> pd.DataFrame:
    """The estimates with all models on the prompts of one corpus, each in turn."""
    parts = []
    for corpus, column in ON.items():
        y, x, _ = table(with_language(rows), column)
        values = {name: at.value for name, at in estimates(y, x).items()}
        parts.append({"choice": f"all on prompts of {IN_WORDS[corpus]}", **values})
    return pd.DataFrame(parts)


def by_other_choices(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """The estimates with their intervals for other gains, models and means, on which nothing rests.

    The penultimate gain of the mean over tokens, the last gain, recipes all of whose models learned, shuffled English
    among the corpora, and squares averaged over all four, as the frozen rule had them.
    """
    means = tables.table("third_means").set_index("model")
    others = {"gain of the mean over tokens": "penultimate_gain_of_mean", "gain of the last block": "last_gain"}
    frames = {"recipes whose models all learned": rows[~of_unlearned(rows)]}
    frames |= {words: rows.assign(log_gain=rows["model"].map(means[gain])) for words, gain in others.items()}
    parts = []
    for words, chosen in frames.items():
        y, x, _ = table(with_language(chosen))
        parts.append({"choice": words, "recipes": y.shape[1], **_flat(estimates(y, x))})
    y, x, _ = table(rows)
    squares = {NAMES[name]: Estimate(at.estimate, at.lower, at.upper) for name, at in ratios(y, x).items()}
    for words, made in (("shuffled English among the corpora", estimates(y, x)), (SQUARES, squares)):
        parts.append({"choice": words, "recipes": y.shape[1], **_flat(made)})
    return pd.DataFrame(parts)


def _flat(estimates_of: Mapping[str, Estimate]) -> dict[str, float | None]:
    return {
        f"{name}{end}": value
        for name, at in estimates_of.items()
        for end, value in (("", at.value), ("_lower", at.lower), ("_upper", at.upper))
    }


def with_choices(name: str, rows: pd.DataFrame) -> Result:
    """The ratios by the rule, on each set of prompts too; each corpus alone, the control among them."""
    result = by_ratios(rows, name)
    choices = pd.concat([result.rows[LEFT], on_prompts(rows)], ignore_index=True)
    y, x, corpora = table(rows)
    alone = {IN_WORDS[corpus]: estimates(y[[i]], x)[NAMES[name]] for i, corpus in enumerate(corpora)}
    return replace(result, rows={LEFT: choices}).adding(words={"choices": choices.to_dict("records"), "alone": alone})


def weights_of(rows: pd.DataFrame) -> dict[str, dict[str, float]]:
    """How much each corpus that has language counts in the mean of either ratio."""
    y, x, corpora = table(with_language(rows))
    by_ratio = mean_ratios(y, x)[1].T
    names = [IN_WORDS.get(corpus, corpus) for corpus in corpora]
    return {
        name: dict(zip(names, weights, strict=True)) for name, weights in zip((RECIPE, SHAPE), by_ratio, strict=True)
    }


def spreads_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Standard deviations with 95% intervals, of all corpora and of each: of, block, estimate, lower, upper."""
    y, x, corpora = table(rows)
    every = {"all corpora": spreads(y, x)}
    every |= {IN_WORDS.get(name, name): spreads(y[[place]], x) for place, name in enumerate(corpora)}
    return pd.DataFrame(
        [{"of": of, "block": block} | vars(at) for of, spread in every.items() for block, at in spread.items()]
    )


ALPHA = 0.05
SMALL = float(np.log(1.05) / np.log(2))
"""A slope on a logarithm that moves the gain by 5% where the logarithm's argument doubles."""
QUARTER, BETWEEN = 0.5, 0.2
"""What would be of interest: a quarter of the variance (r = ±0.5; the null is none), where 20% lie between recipes."""
MEAN, APART = "mean slope over corpora", "difference between corpora"


def below(slope: V) -> Decide:
    """The rule of a slope: below 0, or not as much as a fall of 5% a doubling."""
    return Decide((slope < 0) & (slope.p <= ALPHA), slope.lower > -SMALL)


IN_EVERY = EveryRow(below(V("slope")), "corpora")


def _falling(by: Mapping[str, float], rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
    r = rows["trained_on"].map(by).to_numpy(np.float64)
    x, levels = standard(rows["column"].to_numpy(np.float64)), standard(random.levels(rows, "recipe"))
    return {"log_gain": TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows) + BETWEEN**0.5 * levels)}


def in_all() -> Worlds:
    """Log gains that fall with a column at r = −0.5 in models of every corpus, of none, or of all but English."""
    at_rest = along("column", ordered=False, group="recipe")
    falls, flat = (dict.fromkeys(CORPORA, r) for r in (-QUARTER, 0.0))
    others = {"all corpora but English": {**falls, "english": 0.0}}
    return family(_falling, "correlations {}", "log_gain", at_rest, falls, flat, others=others)


IN_ALL = in_all()


def by_crossed(rows: pd.DataFrame) -> Result:
    """Slopes of recipes that are in all corpora: their mean, and how far the steepest corpus lies from the flattest.

    Its p is by Hotelling's T² that all corpora have one slope, its interval Bonferroni over their pairs.
    """
    term = rows["term"].iloc[0]
    by_corpus, corpora = slopes(rows, term)
    every = by_corpus.mean(axis=0)
    mean = by_t(every.mean(), float(stats.sem(every)), len(every) - 1, "95% t interval, recipes as the unit")
    each = by_corpus[by_corpus.mean(axis=1).argmax()] - by_corpus[by_corpus.mean(axis=1).argmin()]
    pairs = len(corpora) * (len(corpora) - 1) / 2
    half = float(stats.t.isf(0.025 / pairs, len(each) - 1) * stats.sem(each))
    middle, p = float(each.mean()), hotelling(by_corpus.T)[3]
    words = "95% t interval, recipes as the unit, Bonferroni over pairs of corpora"
    apart = Estimate(middle, middle - half, middle + half, words, p)
    by = slopes_of_corpora(rows, term)
    return Result.of(rows, {MEAN: mean, APART: apart}, table=None, rows={"corpora": by})


def other_terms(rows: pd.DataFrame) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Slopes by corpus on every other of the terms."""
    named = rows["term"].iloc[0]
    terms = {WORDS[term]: term for term in TERMS if term != named}
    return {words: in_words(slopes_of_corpora(rows, term)) for words, term in terms.items()}


def in_words(table: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Slope with its interval by corpus, in words."""
    return {IN_WORDS[row.corpus]: (row.slope, row.slope_lower, row.slope_upper) for row in table.itertuples()}


def on_each_set(rows: pd.DataFrame) -> dict[str, Result]:
    """Slopes with all models on the prompts of one corpus, each in turn."""
    return {corpus: by_crossed(rows.assign(log_gain=rows[column])) for corpus, column in ON.items()}


def shown_by_corpus(rows: pd.DataFrame, on: str) -> Result:
    """`by_crossed` with its figure, table and words; on: what the slope is on, in words."""
    result = by_crossed(rows)
    table, sets = result.rows["corpora"], on_each_set(rows)
    words = {
        "by": in_words(table),
        "doubled": {corpus: np.expm1(by[0] * np.log(2)) for corpus, by in in_words(table).items()},
        "others": other_terms(rows),
        "extent": extent(rows),
        "on": {IN_WORDS[corpus]: IN_EVERY.verdict(each) for corpus, each in sets.items()},
    }
    every = pd.concat({"own": table} | {name: each.rows["corpora"] for name, each in sets.items()}, names=["prompts"])
    estimates = table.rename(columns={"slope": "estimate", "slope_lower": "lower", "slope_upper": "upper"})
    named = estimates.assign(row=estimates["corpus"].map(IN_WORDS))
    draw = drawing(forest, named, label="row", xlabel=f"slope of the log penultimate gain on {on}")
    return result.adding(words=words, table=every.reset_index("prompts"), draw=draw)


RATIO = "ratio"
MOVED = Decide(Some("factors", V("F").p <= ALPHA, adjust="holm"), NEVER)
STRONGEST = "F of the strongest factor"
FACTORS_IN_WORDS = {
    "log_rate": "log rate",
    "shrinking": "decay over training",
    "depth_power": "init by depth",
    "log_init": "log init",
    "log_embed": "log embedding",
    "log_warmup": "log warm-up",
    "log_batch": "log batch",
    "log_clip": "log clipping",
    "log_tokens": "log tokens",
}
"""Factors whose columns do not say what they are."""


def strongest(rows: pd.DataFrame, tests: pd.DataFrame) -> Result:
    """The factor with the least p of some tests."""
    best = tests.loc[tests["p"].idxmin()]
    f = Estimate(float(best["F"]), p=float(min(1.0, best["p"] * len(tests))), p_kind="p-value, Bonferroni")
    return Result.of(rows, {STRONGEST: f}, rows={"factors": tests}, words={"factor": best["factor"]})


def by_corpus_and_others(rows: pd.DataFrame) -> Result:
    """The corpus, which every recipe has in turn, and all else in which recipes differ."""
    return strongest(rows, tests(rows, corpus=True))


def by_all_else(rows: pd.DataFrame) -> Result:
    """Everything in which recipes differ but the corpus, of rows with one a recipe."""
    return strongest(rows, factor_tests(rows, FACTORS))


def headed(result: Result, rows: pd.DataFrame, table: pd.DataFrame) -> Result:
    """A result headed by its factor's ratio in a table of contrasts, which it shows."""
    row = table.set_index("factor").loc[result.words["factor"]]
    interval = f"95% t interval, recipes as the unit, Bonferroni over {len(table)} factors"
    ends = {name: row[name] for name in ("lower", "upper")}
    ratio = replace(result.quantities[STRONGEST], value=row["ratio"], interval=interval, **ends)
    return replace(
        result,
        quantities={RATIO: ratio, **result.quantities},
        n_models=int(rows["n"].sum()),
        table=table,
        words={
            "factor": FACTORS_IN_WORDS.get(str(row.name), row.name),
            "what": row["what"],
            "of_variance": row["share"],
            "tests": len(table),
        },
        draw=of_ratios(table.assign(factor=table["factor"].replace(FACTORS_IN_WORDS))),
    )


def of_ratios(table: pd.DataFrame) -> Callable[..., None]:
    """Figure of the ratios of a table."""
    named, xlabel = table.assign(row=table["factor"] + ": " + table["what"]), "ratio of geometric mean gains"
    return drawing(forest, named, label="row", estimate="ratio", null=1.0, xlabel=xlabel, log="x")
