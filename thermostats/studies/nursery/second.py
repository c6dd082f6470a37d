"""The second study's tables, from a folder of trainings and as they ship, and what its findings ask of them.

Recipes are the unit: each is seen at every shape, so that its mean over shapes says all of it that is not interaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.rule import AtLeast
from thermostats.modelling.draws import Array
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.components import Components, Table, freedom, squares
from thermostats.studies.nursery.rows import by_t
from thermostats.studies.nursery.signs import ranked_in
from thermostats.tables.folders import shipped
from thermostats.tables.vocabulary import NURSERY

TENTH, PROMPTS = 0.1, 6
"""Share of training that is early, and prompts that gains are means over."""
SET_STEPS = ("adamw", "lion", "muon")
"""Optimisers whose step has a set size."""
CHOSEN = "s"
"""First letter of recipes that were chosen, not drawn."""
LOGS = {"log_L": "n_layers", "log_rho": "rho", "log_d": "d_model"}
HALF, HALF_WITH_CHOSEN = AtLeast(models=192, groups=16), AtLeast(models=216, groups=18)
"""Half of the study's models and recipes, the drawn ones and all: with fewer nothing is concluded."""
STUDY: dict[str, Any] = {"evidence": NURSERY, "needs": HALF}
"""What findings over its models declare."""


def along(tables: Evidence) -> pd.DataFrame:
    """One row per model and checkpoint: columns of `models`, `step`, `share` of the training.

    Of the penultimate block (L − 1) `log_gain` (mean over prompts) and `log_gain_sd`; `log_wv` and `log_wo`, means over
    layers of log σ_max.
    """
    models = tables.table("second_models").fillna(dict.fromkeys(("kind", "parent", "replicate_of"), ""))
    gains = tables.table("second_gains")
    models = models.assign(
        model_id=NURSERY + "/" + models["model"],
        heritage=models["recipe"],
        **{name: np.log(models[column]) for name, column in LOGS.items()},
    )
    return penultimate(models, gains, ["model", "step"])


def penultimate(models: pd.DataFrame, gains: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Rows of `models` with what `along` takes from `gains`, one per value of the columns `key`."""
    spectra = gains.assign(log_wv=np.log(gains["wv_norm"].astype(float)), log_wo=np.log(gains["wo_norm"].astype(float)))
    spectra = spectra.groupby(key, as_index=False)[["log_wv", "log_wo"]].mean()
    block = gains.merge(models[["model", "n_layers"]], on="model")
    block = block.loc[block["layer"] == block["n_layers"] - 1, [*key, "log_gain", "log_gain_sd"]]
    rows = models.merge(block, on="model").merge(spectra, on=key)
    return rows.assign(share=rows["step"] / rows["steps"])


def ends(tables: Evidence, *, drawn: bool = True) -> pd.DataFrame:
    """Rows of `along` at the end, models of the design with their first seeds; drawn: without chosen recipes."""
    rows = along(tables)
    chosen = (rows["kind"] == "") & (rows["replicate_of"] == "") & (rows["step"] == rows["steps"])
    if drawn:
        chosen &= ~rows["recipe"].str.startswith(CHOSEN)
    return rows[chosen & np.isfinite(rows["log_gain"])].reset_index(drop=True)


def enough(tables: Evidence) -> pd.DataFrame:
    """Rows of `ends`. Raises TooFew for less than `HALF`."""
    return HALF.of(ends(tables))


def repeats(tables: Evidence) -> pd.Series:
    """How much the log gain at the end of models trained with another seed differs from that with the first."""
    return between_seeds(along(tables))


def between_seeds(rows: pd.DataFrame) -> pd.Series:
    """Differences of log gains between seeds, of rows along the training, one per model and checkpoint."""
    rows = rows[rows["step"] == rows["steps"]].set_index("model")
    again = rows[rows["replicate_of"] != ""]
    return again["log_gain"] - rows["log_gain"].reindex(again["replicate_of"]).to_numpy()


def at_every_shape(rows: pd.DataFrame) -> tuple[Array, Array]:
    """Log gains (recipes, shapes) of the recipes that have a gain at every shape, and the logs of the shapes."""
    wide = rows.pivot(index="recipe", columns=list(LOGS), values="log_gain").dropna()
    return wide.to_numpy(np.float64), np.array(list(wide.columns), dtype=np.float64)


def by_corpus(rows: pd.DataFrame) -> list[Table]:
    """The same of every corpus, by its name."""
    recipe, names = pd.factorize(rows["recipe"], sort=True)
    x, shape = np.unique(rows[list(LOGS)].to_numpy(np.float64), axis=0, return_inverse=True)
    y, of = np.full((len(names), len(x)), np.nan), np.empty(len(names), dtype=object)
    y[recipe, shape], of[recipe] = rows["log_gain"], rows["corpus"]
    seen = np.isfinite(y).all(axis=1)
    return [(y[seen & (of == corpus)], x) for corpus in sorted(set(of))]


@dataclass(frozen=True)
class LineErrors:
    """What lines leave over at the shapes of a recipe: whether one standard deviation can stand for all recipes."""

    kurtosis: float
    """Beyond that of a normal distribution."""
    kurtosis_by_recipe: float
    """Excess kurtosis with every recipe's residuals in units of their SD."""
    least: float
    most: float
    """Standard deviations by recipe."""
    p: float
    """That all are alike, by Levene's test about medians."""


def checked(rows: pd.DataFrame) -> LineErrors:
    """Residuals of the lines of every recipe, off what all recipes of its corpus have at a shape."""
    left, sds = [], []
    for y, x in by_corpus(rows):
        X = np.column_stack([np.ones(len(x)), x])
        residual = y - y @ np.linalg.pinv(X).T @ X.T
        left.append(residual - residual.mean(axis=0))
        sds.append(np.sqrt(squares(residual) / freedom(y, X)))
    errors, sd = np.concatenate(left), np.concatenate(sds)
    kurtosis, by_recipe = (float(stats.kurtosis(values, axis=None)) for values in (errors, errors / sd[:, None]))
    return LineErrors(kurtosis, by_recipe, float(sd.min()), float(sd.max()), float(stats.levene(*errors).pvalue))


def power() -> list[dict[str, Any]]:
    """How often studies of true sizes find the order, the smallest that does in 80%, or the largest tried; a row each.

    Columns of `sizes.csv`: sizes, holds, recipes, models, simulations, supported, not_supported.
    """
    table = pd.read_csv(shipped("data") / "nursery" / "second" / "sizes.csv")
    last = table.drop_duplicates("sizes", keep="last")
    return [{str(name): value for name, value in row.items()} for row in last.to_dict("records")]


def scored(rows: pd.DataFrame, parts: Components) -> pd.DataFrame:
    """What the first study's fit predicted before the second was trained, and what it found, one row per quantity.

    Columns: quantity, predicted, lower, upper; found, found_lower, found_upper (95%); inside, whether that lies in the
    predicted interval, missing where none was given.
    """
    predictions = pd.read_csv(shipped("data") / "nursery" / "second" / "predictions.csv")
    table = {}
    for name, slopes_of in slopes(rows).items():
        mean, half = slopes_of.mean(), stats.t.ppf((1 + LEVEL) / 2, len(slopes_of) - 1) * slopes_of.sem()
        table[f"slope on {name}"] = (mean, mean - half, mean + half)
    drawn = {
        "SD of geometry over the reference": parts.geometry,
        "SD of scale over the reference": parts.scale,
        "geometry over scale": parts.geometry / np.maximum(parts.scale, 1e-12),
        "SD of recipe": parts.recipe,
    }
    table |= {name: tuple(np.quantile(values, [0.5, 0.025, 0.975])) for name, values in drawn.items()}
    predictions[["found", "found_lower", "found_upper"]] = [table[quantity] for quantity in predictions["quantity"]]
    inside = (predictions["lower"] <= predictions["found"]) & (predictions["found"] <= predictions["upper"])
    return predictions.assign(inside=inside.astype(object).where(predictions["lower"].notna()))


FACTORS = {
    **dict.fromkeys(("corpus", "optimiser", "schedule"), "levels"),
    **dict.fromkeys(("log_rate", "shrinking", "depth_power", "log_init", "log_embed", "dropout"), "number"),
}
"""Factors of a recipe that N02 asks about: levels, or numbers."""
GIVEN_CORPUS = {name: kind for name, kind in FACTORS.items() if name != "corpus"} | dict.fromkeys(
    ("log_warmup", "log_batch", "log_clip", "log_tokens"), "number"
)
"""All that recipes were drawn to differ in, but the corpus."""


def recipes(tables: Evidence) -> pd.DataFrame:
    """One row per recipe that has a gain at every shape: mean log gain, number of models `n`, FACTORS, GIVEN_CORPUS.

    `log_rate` is off the optimiser's mean; `shrinking` is log(1 + rate · decay · steps); without clipping
    `log_clip` is that of the loosest.
    """
    rows = ends(tables)
    shapes = rows.groupby("recipe")["model"].transform("size") == len(rows[list(LOGS)].drop_duplicates())
    wide = with_factors(rows[shapes])
    by = {"log_gain": "mean", "n": "sum", **dict.fromkeys((*FACTORS, *GIVEN_CORPUS), "first")}
    table = wide.assign(n=1).groupby("recipe", as_index=False).agg(by)
    table["log_rate"] -= table.groupby("optimiser")["log_rate"].transform("mean")
    return table.assign(study="second", model_id=table["recipe"], heritage=table["recipe"])


def with_factors(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the numbers of GIVEN_CORPUS."""
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


def slopes(rows: pd.DataFrame) -> pd.DataFrame:
    """Slope of the log gain on each of LOGS, one row per recipe that has a gain at every shape: least squares."""
    y, x = at_every_shape(rows)
    fitted = np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), y.T, rcond=None)[0]
    return pd.DataFrame(fitted[1:].T, columns=list(LOGS))


def slopes_of_corpora(rows: pd.DataFrame, term: str) -> pd.DataFrame:
    """Mean over a corpus's recipes of the slope on one of LOGS, a row a corpus.

    Columns: corpus, slope, slope_lower, slope_upper (95% t interval over recipes), slope_p, error, df.
    """
    slopes_by_corpus = []
    for corpus, group in rows.groupby("corpus"):
        each = slopes(group.reset_index(drop=True))[term]
        at = by_t(each.mean(), each.sem(), len(each) - 1, "")
        slopes_by_corpus.append((corpus, at.value, at.lower, at.upper, at.p, float(each.sem()), len(each) - 1))
    return pd.DataFrame(slopes_by_corpus, columns=SLOPES)


SLOPES = ["corpus", "slope", "slope_lower", "slope_upper", "slope_p", "error", "df"]


def by_recipe(rows: pd.DataFrame, unit: Sequence[str] = ("recipe", "optimiser", "corpus")) -> pd.DataFrame:
    """One row per recipe with decay, by an optimiser whose step does not grow with the gradient: AdamW, Lion and Muon.

    Means over its `n` models, off the optimiser's; `log_ratio` is log √(rate/decay), `log_norm` the mean of both
    spectra, `synthetic` 1 for the synthetic corpus and 0 for others. unit: what tells recipes apart.
    """
    tuned = rows[rows["optimiser"].isin(SET_STEPS) & (rows["decay"] > 0)]
    rate, decay = np.log(tuned["rate"]), np.log(tuned["decay"])
    synthetic = (tuned["corpus"] == "synthetic").astype(float)
    tuned = tuned.assign(log_rate=rate, log_decay=decay, log_ratio=0.5 * (rate - decay), synthetic=synthetic)
    columns = ["log_rate", "log_decay", "log_ratio", "log_wv", "log_wo", "log_gain"]
    by = dict.fromkeys([*columns, "synthetic"], "mean") | {"n": "sum"}
    means = tuned.assign(n=1).groupby(list(unit), as_index=False).agg(by)
    means[columns] -= means.groupby("optimiser")[columns].transform("mean")
    names = dict.fromkeys(("heritage", "model_id"), means["recipe"])
    return means.assign(log_norm=(means["log_wv"] + means["log_wo"]) / 2, **names)


def mediated(rows: pd.DataFrame, mask: npt.NDArray[np.bool_] | None = None) -> tuple[float, float]:
    """Effect of log √(rate/decay) on the log gain through log σ_max, c − c', and its sensitivity.

    Sensitivity: the correlation between the errors of spectrum and gain at which the effect would be nothing (Imai,
    Keele and Yamamoto 2010, doi:10.1214/10-STS321). Every optimiser and corpus has a level of its own.
    """
    chosen = rows if mask is None else rows[mask]
    values = chosen[["log_ratio", "log_norm", "log_gain"]].to_numpy(np.float64)
    controls = np.column_stack([pd.get_dummies(chosen["optimiser"]), chosen["synthetic"]]).astype(np.float64)
    x, m, y = (values - controls @ np.linalg.lstsq(controls, values, rcond=None)[0]).T
    total, first = x @ y / (x @ x), x @ m / (x @ x)
    errors = np.column_stack([m - first * x, y - total * x])
    second = errors[:, 0] @ errors[:, 1] / (errors[:, 0] @ errors[:, 0])
    return float(first * second), float(np.corrcoef(errors.T)[0, 1])


def early_and_late(tables: Evidence, share: float = TENTH) -> pd.DataFrame:
    """One row per model of the design, first seeds: `early` and `end`, log gains at a share of training and at the end.

    `cell` holds all of its shape, and the corpus; `ranked` is the rank of `early`, off the mean rank of its cell.
    """
    late, rows = ends(tables, drawn=False), along(tables)
    then = rows[rows["step"] == (share * rows["steps"]).round()].set_index("model")["log_gain"]
    return with_early(late, then, "corpus")


def with_early(late: pd.DataFrame, then: pd.Series, corpus: str) -> pd.DataFrame:
    """Models at the end with `early`, `end`, `cell` and `ranked`; then: earlier log gains by model."""
    cells = late["n_layers"].astype(str)
    for name in ("rho", "d_model", corpus):
        cells = cells + " " + late[name].astype(str)
    late = late.assign(end=late["log_gain"], early=late["model"].map(then), cell=cells)
    late = late.dropna(subset="early").reset_index(drop=True)
    return late.assign(ranked=ranked_in(late["early"], late["cell"]) if len(late) else late["early"])


def pairs(tables: Evidence) -> pd.DataFrame:
    """One row per base and what was tuned from it: log gains `base` and `tuned`, `dampens` (the base), and `flips`.

    A pair flips if its two 95% t intervals over prompts exclude 0 and lie on opposite sides of it.
    """
    rows = along(tables)
    finished = with_sides(rows[rows["step"] == rows["steps"]], PROMPTS).set_index("model")
    tuned = finished[finished["kind"] != ""]
    bases = tuned["parent"].str.split("/").str[0]
    base, side = (bases.map(finished[name]) for name in ("log_gain", "side"))
    table = tuned[["model_id", "heritage", "kind"]].assign(
        pair=bases, base=base, tuned=tuned["log_gain"], dampens=base < 0, flips=side * tuned["side"] < 0
    )
    return table.reset_index(drop=True)


def with_sides(rows: pd.DataFrame, prompts: int) -> pd.DataFrame:
    """The rows with `side`, the sign of the log gain, 0 where its 95% t interval over so many prompts holds 0."""
    half = rows["log_gain_sd"] * stats.t.ppf((1 + LEVEL) / 2, prompts - 1) / np.sqrt(prompts)
    return rows.assign(side=np.sign(rows["log_gain"]) * (rows["log_gain"].abs() > half))
