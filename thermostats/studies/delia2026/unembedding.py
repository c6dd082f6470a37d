"""Do models with a large unembedding have a small last gain? Over published models, and over those trained here."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, UNMEASURED
from thermostats.modelling.laws.line import fit_line
from thermostats.plots.general import reference, scatter_labelled
from thermostats.studies.delia2026.derived import BY_FILE, LLAMA_FILE, MISTRAL_FILE, projectors
from thermostats.studies.delia2026.evidence import stated_by_model
from thermostats.studies.delia2026.provenance import follows
from thermostats.studies.nursery.norms import at_the_end
from thermostats.studies.nursery.rows import final
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import number, short_name

SEED, ALPHA, LEAST, LEAST_LINE, MOST_EXACT, LEAST_TRAINED = 19, 0.05, 4, 5, 8, 24
BETWEEN = 0.5
"""Prior scale of log gains between models of different labs, a factor 1.6."""


def unembedding(tables: Evidence, gains: pd.DataFrame) -> Finding:
    """Do models with a small last gain have a large unembedding?"""
    spectra = tables.table("weights", source=LLAMA_FILE, matrix="unembedding").set_index("model_id")
    copied = tables.table("statements", source=LLAMA_FILE, statistic="last gain, copied by hand")
    measured = gains.groupby("model_id")["value"].mean()
    table = pd.DataFrame(
        {
            "heritage": spectra["heritage"],
            "spectral_norm": spectra["spectral_norm"],
            "gain_stated": copied.set_index("model_id")["value"],
            "last_gain_measured": measured.reindex(spectra.index),
        }
    )
    table["effective_amplification"] = table["spectral_norm"] * table["gain_stated"]
    x, y = np.log(table["spectral_norm"].to_numpy(float)), np.log(table["gain_stated"].to_numpy(float))
    r = float(np.corrcoef(x, y)[0, 1])
    p = float(stats.pearsonr(x, y, alternative="less").pvalue)
    if len(y) <= MOST_EXACT:
        p = float(np.mean([np.corrcoef(x, y[list(to)])[0, 1] <= r + 1e-12 for to in permutations(range(len(y)))]))
    enough = len(table) >= LEAST
    lower, upper = (float(v) for v in stats.pearsonr(x, y).confidence_interval()) if enough else (-1.0, 1.0)
    verdict = SUPPORTED if enough and r < 0 and p < ALPHA else AGAINST if enough and lower > 0 else OPEN
    lacking = [short_name(str(m)) for m in table.index[table["last_gain_measured"].isna()]]
    found = Finding(
        claim="C19",
        estimand="Mistral and LLaMA: correlation over models of the logs of unembedding norm and last gain",
        verdict=verdict,
        plain=f"Over the {len(table)} models with a published unembedding, larger norms go with "
        f"{'larger' if r > 0 else 'smaller'} last gains (correlation of logs {number(r)}). {SENTENCES[verdict]}; "
        "making up for one another asks for a clearly negative "
        f"one{'' if enough else f', and {len(table)} models cannot show it: these data can only leave it open'}.",
        estimate=r,
        lower=lower,
        upper=upper,
        interval="Fisher-z confidence interval, 95 %" if enough else "whole range: too few models",
        probability=p,
        probability_kind="one-sided p-value",
        n_models=len(table),
        n_heritages=table["heritage"].nunique(),
        table=table.reset_index(),
        published={
            k: v for file in (LLAMA_FILE, MISTRAL_FILE) for k, v in stated_by_model(tables, file, BY_FILE[file]).items()
        },
        reproduced=projectors(tables, table),
        notes=(
            "The gains that the file multiplies are copied from other files, some with the final norm in them and "
            "pooled over tokens.",
            *(f"The gain beside {name} is another model's: it was never measured itself." for name in lacking),
            follows(tables, LLAMA_FILE),
            *((f"No line is fitted: that takes {LEAST_LINE} models or more.",) if len(table) < LEAST_LINE else ()),
        ),
    )
    if len(table) < LEAST_LINE:
        return found
    rows = table.reset_index().assign(log_norm=x, log_gain=y)
    fit = fit_line(rows, "log_gain", ["log_norm"], scale=BETWEEN, sources=[LLAMA_FILE], seed=SEED)
    told = posterior_of(
        fit,
        model="Line of the log last gain over the log spectral norm of the unembedding.",
        statement="log_norm < 0",
        truth=fit.quantities["log_norm"] < 0,
        classical=verdict,
        tables=["rows"],
    )
    return beside(found, fit, told)


def trained_unembedding(tables: Evidence) -> Finding:
    """The same over the models trained here, their gains measured and not copied."""
    norms = at_the_end(tables, "weights", head="", matrix="unembedding").groupby("model_id")["spectral_norm"].first()
    models = final(tables)
    table = models[models["comparable"].astype(bool)].assign(heritage=lambda f: f["recipe"])
    table = table.assign(spectral_norm=table["model_id"].map(norms).astype(float)).dropna(
        subset=["spectral_norm", "last_gain"]
    )
    estimand = "models trained here, no part of the whole: correlation of the logs of unembedding norm and last gain"
    n, recipes = len(table), table["heritage"].nunique()
    if n < LEAST_TRAINED:
        return Finding(
            claim="C19",
            estimand=estimand,
            verdict=UNMEASURED,
            n_models=n,
            n_heritages=recipes,
            group="recipe",
            plain=f"{SENTENCES[UNMEASURED]}: the tables hold {n} models trained here whose gain can be compared, and "
            f"the rule asks for {LEAST_TRAINED}.",
        )
    table = table.assign(log_norm=np.log(table["spectral_norm"]), log_gain=np.log(table["last_gain"].astype(float)))
    x, y = table["log_norm"].to_numpy(float), table["log_gain"].to_numpy(float)
    r, p = float(np.corrcoef(x, y)[0, 1]), float(stats.pearsonr(x, y, alternative="less").pvalue)
    lower, upper = (float(v) for v in stats.pearsonr(x, y).confidence_interval())
    verdict = SUPPORTED if r < 0 and p < ALPHA else AGAINST if lower > 0 else OPEN
    tied = table["tied"].astype(str).eq("True")
    parts = ", ".join(
        f"{words} {number(float(np.corrcoef(x[mask], y[mask])[0, 1]))}"
        for words, mask in (("tied to the embedding", tied.to_numpy()), ("of its own", ~tied.to_numpy()))
        if mask.sum() >= LEAST
    )

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        scatter_labelled(table, axes, x="spectral_norm", y="last_gain", labels=False)
        axes.set(xscale="log", yscale="log", xlabel="spectral norm of the unembedding", ylabel="last gain")

    found = Finding(
        claim="C19",
        estimand=estimand,
        verdict=verdict,
        plain=f"{SENTENCES[verdict]}: over {n} models trained here larger unembeddings go with "
        f"{'larger' if r > 0 else 'smaller'} last gains (correlation of logs {number(r)}, 95 % interval "
        f"{number(lower)} to {number(upper)}).",
        estimate=r,
        lower=lower,
        upper=upper,
        interval="Fisher-z confidence interval, 95 %",
        probability=p,
        probability_kind="one-sided p-value",
        n_models=n,
        n_heritages=recipes,
        group="recipe",
        table=table[["model_id", "heritage", "tied", "spectral_norm", "last_gain", "learned"]],
        draw=draw,
        caption=f"Last gain over the spectral norm of the unembedding, {n} models trained here; colours are recipes.",
        notes=(
            *((f"Correlation by whether the unembedding is tied: {parts}.",) if parts else ()),
            "The test counts models of a recipe as independent, the line beside it does not. Norm and gain are both "
            "outcomes of training: a correlation shows which way they go together, not that one makes up for the "
            "other. Small models, trained for a short time on two corpora.",
        ),
    )
    fit = fit_line(table, "log_gain", ["log_norm"], scale=BETWEEN, sources=[NURSERY], seed=SEED)
    told = posterior_of(
        fit,
        model="Line of the log last gain over the log spectral norm of the unembedding, recipes with levels.",
        statement="log_norm < 0",
        truth=fit.quantities["log_norm"] < 0,
        classical=verdict,
        tables=["rows"],
    )
    return beside(found, fit, told)
