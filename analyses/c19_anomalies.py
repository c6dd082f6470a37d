"""C19: the anomalies are explained."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, parts_of
from thermostats.claims.evidence import PUBLISHED, Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.result import Audit, Estimate, Result
from thermostats.claims.rule import AtLeast, Below, Decide, Each, EveryRow, Posterior, V, Within
from thermostats.claims.verdict import AGAINST, SUPPORTED
from thermostats.modelling.classical.means import one_sample
from thermostats.modelling.laws.lines import fit_line
from thermostats.plots.general import MUTED, forest, reference, scatter_labelled, strip_by_group
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026 import anomalies
from thermostats.studies.delia2026.anomalies import LLAMA, LLAMA_FILE, MISTRAL, OPT
from thermostats.studies.delia2026.by_prompt import BENCHMARK, GPT2, GPTJ, fit_means, gain_by_prompt, with_category
from thermostats.studies.nursery.rows import trained_unembeddings
from thermostats.tables.vocabulary import NURSERY

SEED, ALPHA, TWOFOLD = 19, 0.05, 2.0
MARGIN = 1.1
"""Changes of the norm by less than this factor count as none."""
SCALE, BETWEEN = 0.25, 0.5
"""Prior scales of log gains: of prompts of one model, a factor 1.3, and of models of different labs, 1.6."""
NONE = Audit()
INTERVAL = "t interval of the mean log over prompts, 95 %"
FISHER = "Fisher-z confidence interval, 95 %"
LEAST, LEAST_LINE, MOST_EXACT = 4, 5, 8
"""Models that a correlation takes, that a line takes, and up to which p is exact over all permutations."""
PARTS = ("opt", "unembedding", "llama")
APART = ("layer_norm", "parallel_block", "silent_exit", "unembedding_trained")
NEGATIVE = Decide(
    (V("models") >= LEAST) & (V("r") < 0) & (V("r").p < ALPHA), (V("models") >= LEAST) & (V("r").lower > 0)
)
FALLS = Posterior("slope on the log norm < 0")

CLAIM = Claim.read(__file__)


@CLAIM.shared
def gains(evidence: Evidence) -> pd.DataFrame:
    """Last gains by prompt of the models that the explanations are about."""
    return with_category(evidence, gain_by_prompt(evidence, "last_gain", BENCHMARK, GPT2, GPTJ))


def of(evidence: Evidence, column: str, value: str) -> pd.DataFrame:
    """Gains by prompt of one model, or of one file."""
    rows = gains(evidence)
    return rows[rows[column] == value]


@CLAIM.overall(all_of=PARTS)
def whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """The three explanations that the study keeps and its files allow to test."""
    asked = gains(evidence.named(PUBLISHED))
    asked = asked[~asked["model_id"].isin(anomalies.NOT_ASKED)]
    verdicts = [found[name].verdict for name in PARTS]
    table = pd.DataFrame(parts_of(found, (*PARTS, *APART), "estimand", "verdict", "estimate", "lower", "upper"))
    counts = {"parts": len(PARTS), "stand": verdicts.count(SUPPORTED), "fall": verdicts.count(AGAINST)}

    def draw(axes: Axes) -> None:
        strip_by_group(asked, axes, value="value", group="model_id")
        axes.set_xlabel("last gain, one point a prompt; tick: mean")

    return Result(table=table, words={**counts, "named": dict(zip(PARTS, verdicts, strict=True))}, draw=draw)


WEAK = Each("others", V("raw_factor") > TWOFOLD) & Each("others", V("divided_factor") <= TWOFOLD)


@CLAIM.finding("opt", primary=Decide(WEAK, Each("others", V("divided_factor") > TWOFOLD)))
def opt(evidence: Evidence) -> Result:
    """Does the norm of W_V account for OPT's small trace?"""
    table = anomalies.traces_and_norms(evidence)
    sound = ~table["sliced"]
    others = table[sound].drop(index=OPT)
    most = others.loc[others["raw_ratio"].idxmax()]

    def draw(axes: Axes) -> None:
        axes.set(xscale="log", yscale="log")
        x = np.geomspace(table["W_V_frobenius"].min() * 0.7, table["W_V_frobenius"].max() * 1.4, 20)
        at_opt = table.loc[OPT, "trace_over_W_V_squared"] * x**2
        axes.plot(x, at_opt, color=MUTED, linestyle="--", label="OPT's trace scaled by ‖W_V‖²")
        scatter_labelled(table.reset_index(), axes, x="W_V_frobenius", y="trace")
        axes.set(xlabel="Frobenius norm of W_V, mean over layers", ylabel="trace, mean over layers")
        log_axis(axes, "x")
        log_axis(axes, "y")

    return Result(
        quantities={"ratio": Estimate(float(most["divided_ratio"]))},
        rows={"others": others},
        draw=draw,
        n_models=int(sound.sum()),
        n_groups=table.loc[sound, "heritage"].nunique(),
        table=table.reset_index(),
        audit=anomalies.opt_audit(evidence),
        words={"most": most, "others": len(others), "models": len(table), "sliced": list(table.index[~sound])},
    )


@CLAIM.finding("unembedding", primary=NEGATIVE, robustness=FALLS)
def unembedding(evidence: Evidence) -> Result:
    """Do models with a small last gain have a large unembedding?"""
    table = anomalies.unembeddings(evidence, gains(evidence))
    x, y = np.log(table["spectral_norm"].to_numpy(float)), np.log(table["gain_stated"].to_numpy(float))
    r, p = float(np.corrcoef(x, y)[0, 1]), float(stats.pearsonr(x, y, alternative="less").pvalue)
    if len(y) <= MOST_EXACT:
        p = float(np.mean([np.corrcoef(x, y[list(to)])[0, 1] <= r + 1e-12 for to in permutations(range(len(y)))]))
    enough = len(table) >= LEAST
    lower, upper = stats.pearsonr(x, y).confidence_interval() if enough else (-1.0, 1.0)
    interval = FISHER if enough else "whole range: too few models"
    rows = table.reset_index().assign(log_norm=x, log_gain=y)
    fit = None
    if len(table) >= LEAST_LINE:
        fit = fit_line(rows, "log_gain", ["log_norm"], scale=BETWEEN, sources=[LLAMA_FILE], seed=SEED)
    return Result(
        quantities={
            "r": Estimate(r, float(lower), float(upper), interval, p, "one-sided p-value"),
            "models": Estimate(len(table)),
        },
        n_models=len(table),
        n_groups=table["heritage"].nunique(),
        table=table.reset_index(),
        fit=fit,
        statements={FALLS.statement: fit.quantities["log_norm"] < 0} if fit else {},
        fit_tables=("rows",),
        audit=anomalies.projector_audit(evidence, table),
        words={
            "enough": enough,
            "least": LEAST_LINE,
            "follows": anomalies.follows(evidence, LLAMA_FILE),
            "lacking": list(table.index[table["last_gain_measured"].isna()]),
        },
    )


def mean_gain(
    own: pd.DataFrame, statement: str, *, within: float = 0.0, p: bool = False, audit: Audit = NONE, **words: Any
) -> Result:
    """Geometric mean gain of one model over prompts; the statement is |log| < log `within`, or log < 0 without."""
    d, fit = one_sample(own["value"], against=1, log=True, seed=SEED), fit_means(own, scale=SCALE, seed=SEED)
    mean = fit.quantities["mean"]
    holds = np.abs(mean) < np.log(within) if within else mean < 0
    below = float(stats.t.cdf(d.statistic, d.df)) if p else None
    gain = Estimate(d.ratio, d.ratio_lower, d.ratio_upper, INTERVAL, below, "one-sided p-value")
    return Result(
        quantities={"last gain": gain},
        n_models=1,
        n_groups=1,
        fit=fit,
        fit_tables=("means",),
        statements={statement: holds.all(axis=-1)},
        words={"n": d.n, "models": fit.labels["mean"], **words},
        audit=audit,
    )


DAMPENS, EVERY_DAMPENS = Posterior("mean log gain < 0"), Posterior("every model's mean log gain < 0")
ALL_DAMPEN = EveryRow(Below("last gain", 1), "models")


@CLAIM.finding("llama", primary=Below("last gain", 1), robustness=DAMPENS)
def llama(evidence: Evidence) -> Result:
    """Does LLaMA's last block dampen at all?"""
    own = of(evidence, "model_id", LLAMA)
    audit, normed = anomalies.llama_audit(evidence, float(np.exp(np.log(own["value"]).mean())))
    return mean_gain(own, DAMPENS.statement, p=True, audit=audit, normed=normed)


def dampens(evidence: Evidence, source: str) -> Result:
    """Do the models of one file dampen, as the explanation predicts?"""
    own, rows = of(evidence, "source", source), []
    for (model, heritage), r in own.groupby(["model_id", "heritage"]):
        d = one_sample(r["value"], against=1, log=True, seed=SEED)
        bounds = {"estimate": d.ratio, "lower": d.ratio_lower, "upper": d.ratio_upper}
        rows.append({"model_id": model, "heritage": heritage, **bounds, "p": float(stats.t.cdf(d.statistic, d.df))})
    table = pd.DataFrame(rows).sort_values("estimate", ignore_index=True)
    worst, fit = table.iloc[-1], fit_means(own, scale=SCALE, seed=SEED)

    def draw(axes: Axes) -> None:
        forest(table, axes, label="model_id", heritage="heritage", null=1.0)
        axes.set_xlabel("last gain, geometric mean with 95 % interval over prompts")

    gain = Estimate(worst["estimate"], worst["lower"], worst["upper"], INTERVAL, worst["p"], "one-sided p-value")
    return Result(
        quantities={"largest last gain": gain},
        rows={"models": table.rename(columns={"estimate": "last gain"})},
        n_models=len(table),
        table=table,
        draw=draw,
        n_groups=table["heritage"].nunique(),
        fit=fit,
        fit_tables=("means",),
        audit=anomalies.test_audit(evidence, own, source),
        statements={EVERY_DAMPENS.statement: (fit.quantities["mean"] < 0).all(axis=-1)},
        words={
            "above": int((table["lower"] > 1).sum()),
            "worst": worst["model_id"],
            "models": fit.labels["mean"],
            "follows": anomalies.follows(evidence, source),
        },
    )


@CLAIM.finding("layer_norm", primary=ALL_DAMPEN, robustness=EVERY_DAMPENS)
def layer_norm(evidence: Evidence) -> Result:
    """GPT-2 in its sizes: an explanation that the study rejects itself."""
    return dampens(evidence, GPT2)


@CLAIM.finding("parallel_block", primary=ALL_DAMPEN, robustness=EVERY_DAMPENS)
def parallel_block(evidence: Evidence) -> Result:
    """GPT-J: an explanation that the study rejects itself."""
    return dampens(evidence, GPTJ)


SILENT = Posterior(f"last gain within a factor {MARGIN:g} of 1")


@CLAIM.finding("silent_exit", primary=Within("last gain", 1 / MARGIN, MARGIN), robustness=SILENT)
def silent_exit(evidence: Evidence) -> Result:
    """Does Mistral's last block leave the norm of the stream as it is?"""
    own = of(evidence, "model_id", MISTRAL)
    return mean_gain(own, SILENT.statement, within=MARGIN, margin=MARGIN)


@CLAIM.finding("unembedding_trained", primary=NEGATIVE, robustness=FALLS, evidence=NURSERY, needs=AtLeast(models=24))
def unembedding_trained(evidence: Evidence) -> Result:
    """The same over the models trained here, their gains measured and not copied."""
    table = trained_unembeddings(evidence)
    counts = {"n_models": len(table), "n_groups": table["heritage"].nunique()}
    if len(table) < LEAST_LINE:
        return Result(**counts)
    x, y, tied = table["log_norm"], table["log_gain"], table["tied"].astype(str).eq("True")
    found = stats.pearsonr(x, y)
    p = float(stats.pearsonr(x, y, alternative="less").pvalue)
    lower, upper = map(float, found.confidence_interval())
    fit = fit_line(table, "log_gain", ["log_norm"], scale=BETWEEN, sources=[NURSERY], seed=SEED)

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        scatter_labelled(table, axes, x="spectral_norm", y="last_gain", labels=False)
        axes.set(xscale="log", yscale="log", xlabel="spectral norm of the unembedding", ylabel="last gain")

    r = Estimate(float(np.corrcoef(x, y)[0, 1]), lower, upper, FISHER, p, "one-sided p-value")
    return Result(
        quantities={"r": r, "models": Estimate(len(table))},
        **counts,
        draw=draw,
        fit=fit,
        fit_tables=("rows",),
        statements={FALLS.statement: fit.quantities["log_norm"] < 0},
        table=table[["model_id", "heritage", "tied", "spectral_norm", "last_gain", "learned"]],
        words={
            "by_tie": [
                (words, float(np.corrcoef(x[mask], y[mask])[0, 1]))
                for words, mask in (("tied to the embedding", tied), ("of its own", ~tied))
                if mask.sum() >= LEAST
            ]
        },
    )


if __name__ == "__main__":
    CLAIM.main()
