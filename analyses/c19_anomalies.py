"""C19: the anomalies are explained."""

from collections.abc import Mapping
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import PUBLISHED, Audit, Claim, Estimate, Evidence, Finding, Result
from thermostats.claims.rule import AtLeast, Below, Decide, Each, EveryRow, Posterior, V, Within
from thermostats.claims.verdict import AGAINST, SUPPORTED
from thermostats.modelling.classical.means import one_sample
from thermostats.modelling.laws.lines import fit_line
from thermostats.plots.general import drawing, forest, reference, scatter_labelled, strip_by_group
from thermostats.studies.delia2026 import anomalies
from thermostats.studies.delia2026.anomalies import LLAMA, LLAMA_FILE, MISTRAL, OPT
from thermostats.studies.delia2026.by_prompt import BENCHMARK, GPT2, GPTJ, fit_means, gain_by_prompt, with_category
from thermostats.studies.delia2026.claim_figures import trace_by_norm
from thermostats.studies.nursery.rows import trained_unembeddings
from thermostats.tables.vocabulary import NURSERY

SEED, ALPHA, TWOFOLD = 19, 0.05, 2.0
MARGIN = 1.1
"""Changes of the norm by less than this factor count as none."""
SCALE, BETWEEN = 0.25, 0.5
"""Prior scales of log gains: of prompts of one model, a factor 1.3, and of models of different labs, 1.6."""
NONE = Audit()
LEAST, LEAST_LINE, MOST_EXACT = 4, 5, 8
"""Models that a correlation takes, that a line takes, and up to which p is exact over all permutations."""
ENOUGH = AtLeast(models=24)
PARTS = ("opt", "unembedding", "llama")
APART = ("layer_norm", "parallel_block", "silent_exit", "unembedding_trained")
SHOWN = ("estimand", "verdict", "estimate", "lower", "upper")
NEGATIVE = Decide(
    (V("models") >= LEAST) & (V("r") < 0) & (V("r").p < ALPHA), (V("models") >= LEAST) & (V("r").lower > 0)
)
FALLS = Posterior("slope on the log norm < 0", draws=V("log_norm") < 0)

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
    verdicts = {name: found[name].verdict for name in PARTS}
    table = pd.DataFrame([{name: getattr(found[part], name) for name in SHOWN} for part in (*PARTS, *APART)])
    fits = [found[part].posterior for part in (*PARTS, *APART)]
    table["statement"] = [fit.statement if fit else "" for fit in fits]
    table["probability"] = [fit.probability if fit else None for fit in fits]
    stand, fall = (list(verdicts.values()).count(verdict) for verdict in (SUPPORTED, AGAINST))
    xlabel = "last gain, one point a prompt; tick: mean"
    draw = drawing(strip_by_group, asked, value="value", group="model_id", xlabel=xlabel)
    words = {"parts": len(PARTS), "stand": stand, "fall": fall, "named": verdicts}
    return Result(table=table, words=words, draw=draw)


WEAK = Each("others", V("raw_factor") > TWOFOLD) & Each("others", V("divided_factor") <= TWOFOLD)


@CLAIM.finding("opt", primary=Decide(WEAK, Each("others", V("divided_factor") > TWOFOLD)))
def opt(evidence: Evidence) -> Result:
    """Does the norm of W_V account for OPT's small trace?"""
    table = anomalies.traces_and_norms(evidence)
    sound = ~table["sliced"]
    others = table[sound].drop(index=OPT)
    most = others.loc[others["raw_ratio"].idxmax()]

    return Result.of(
        table[sound],
        {"ratio": Estimate(float(most["divided_ratio"]))},
        rows={"others": others},
        table=table.reset_index(),
        draw=partial(trace_by_norm, table=table, at=OPT),
        audit=anomalies.opt_audit(evidence),
        words={"most": most, "others": len(others), "models": len(table), "sliced": list(table.index[~sound])},
    )


def falling(x: pd.Series, y: pd.Series) -> Estimate:
    """Correlation with a one-sided p, exact for few models."""
    r, p = float(np.corrcoef(x, y)[0, 1]), float(stats.pearsonr(x, y, alternative="less").pvalue)
    if len(y) <= MOST_EXACT:
        orders = (y.to_numpy()[list(to)] for to in permutations(range(len(y))))
        p = float(np.mean([np.corrcoef(x, order)[0, 1] <= r + 1e-12 for order in orders]))
    if len(y) < LEAST:
        return Estimate(r, -1.0, 1.0, "whole range: too few models", p, "one-sided p-value")
    lower, upper = map(float, stats.pearsonr(x, y).confidence_interval())
    return Estimate(r, lower, upper, "Fisher-z confidence interval, 95 %", p, "one-sided p-value")


def line(table: pd.DataFrame, source: str) -> dict[str, Any]:
    """Correlation and line of the log gain on the log norm."""
    fit = None
    if len(table) >= LEAST_LINE:
        fit = fit_line(table, "log_gain", ["log_norm"], scale=BETWEEN, sources=[source], seed=SEED)
    quantities = {"r": falling(table["log_norm"], table["log_gain"]), "models": Estimate(len(table))}
    return {"quantities": quantities, "fit": fit, "fit_tables": ("rows",)}


@CLAIM.finding("unembedding", primary=NEGATIVE, robustness=FALLS)
def unembedding(evidence: Evidence) -> Result:
    """Do models with a small last gain have a large unembedding?"""
    table = anomalies.unembeddings(evidence, gains(evidence))
    shown = table.reset_index()
    norm, gain = (np.log(shown[name].astype(float)) for name in ("spectral_norm", "gain_stated"))
    words = {
        "enough": len(table) >= LEAST,
        "least": LEAST_LINE,
        "follows": anomalies.follows(evidence, LLAMA_FILE),
        "lacking": list(table.index[table["last_gain_measured"].isna()]),
    }
    audit = anomalies.projector_audit(evidence, table)
    return Result.of(shown, audit=audit, words=words, **line(shown.assign(log_norm=norm, log_gain=gain), LLAMA_FILE))


def mean_gains(
    own: pd.DataFrame,
    name: str = "last gain",
    *,
    p: bool = True,
    shown: bool = False,
    audit: Audit = NONE,
    **words: Any,
) -> Result:
    """Geometric mean last gain of every model over its prompts; the largest heads the finding."""
    rows = []
    for (model, heritage), r in own.groupby(["model_id", "heritage"]):
        d = one_sample(r["value"], against=1, log=True, seed=SEED)
        below = float(stats.t.cdf(d.statistic, d.df))
        rows.append((model, heritage, d.ratio, d.ratio_lower, d.ratio_upper, below, d.n))
    columns = ["model_id", "heritage", "estimate", "lower", "upper", "p", "n"]
    table = pd.DataFrame(rows, columns=columns).sort_values("estimate", ignore_index=True)
    worst, fit = table.iloc[-1], fit_means(own, scale=SCALE, seed=SEED)
    ends, interval = (worst["lower"], worst["upper"]), "t interval of the mean log over prompts, 95 %"
    gain = Estimate(worst["estimate"], *ends, interval, worst["p"] if p else None, "one-sided p-value")
    words |= {"n": worst["n"], "worst": worst["model_id"], "above": int((table["lower"] > 1).sum())}
    xlabel = "last gain, geometric mean with 95 % interval over prompts"
    draw = drawing(forest, table, label="model_id", heritage="heritage", null=1.0, xlabel=xlabel)
    return Result.of(
        table,
        {name: gain},
        rows={"models": table.rename(columns={"estimate": "last gain"})},
        table=table.drop(columns="n") if shown else None,
        draw=draw if shown else None,
        fit=fit,
        fit_tables=("means",),
        audit=audit,
        words={"models": fit.labels["mean"], **words},
    )


DAMPENS = Posterior("mean log gain < 0", draws=V("mean") < 0)
EVERY_DAMPENS = Posterior("every model's mean log gain < 0", draws=V("mean") < 0)
ALL_DAMPEN = EveryRow(Below("last gain", 1), "models")


@CLAIM.finding("llama", primary=Below("last gain", 1), robustness=DAMPENS)
def llama(evidence: Evidence) -> Result:
    """Does LLaMA's last block dampen at all?"""
    own = of(evidence, "model_id", LLAMA)
    audit, normed = anomalies.llama_audit(evidence, float(np.exp(np.log(own["value"]).mean())))
    return mean_gains(own, audit=audit, normed=normed)


def dampens(evidence: Evidence, source: str) -> Result:
    """Do the models of one file dampen, as the explanation predicts?"""
    own = of(evidence, "source", source)
    audit, follows = anomalies.test_audit(evidence, own, source), anomalies.follows(evidence, source)
    return mean_gains(own, "largest last gain", shown=True, audit=audit, follows=follows)


@CLAIM.finding("layer_norm", primary=ALL_DAMPEN, robustness=EVERY_DAMPENS)
def layer_norm(evidence: Evidence) -> Result:
    """GPT-2 in its sizes: an explanation that the study rejects itself."""
    return dampens(evidence, GPT2)


@CLAIM.finding("parallel_block", primary=ALL_DAMPEN, robustness=EVERY_DAMPENS)
def parallel_block(evidence: Evidence) -> Result:
    """GPT-J: an explanation that the study rejects itself."""
    return dampens(evidence, GPTJ)


LOG = float(np.log(MARGIN))
SILENT = Posterior(f"last gain within a factor {MARGIN:g} of 1", draws=(V("mean") > -LOG) & (V("mean") < LOG))


@CLAIM.finding("silent_exit", primary=Within("last gain", 1 / MARGIN, MARGIN), robustness=SILENT)
def silent_exit(evidence: Evidence) -> Result:
    """Does Mistral's last block leave the norm of the stream as it is?"""
    return mean_gains(of(evidence, "model_id", MISTRAL), p=False, margin=MARGIN)


@CLAIM.finding("unembedding_trained", primary=NEGATIVE, robustness=FALLS, evidence=NURSERY, needs=ENOUGH)
def unembedding_trained(evidence: Evidence) -> Result:
    """The same over the models trained here, their gains measured and not copied."""
    table = ENOUGH.of(trained_unembeddings(evidence))
    tied = table["tied"].astype(str).eq("True")
    groups = {"tied to the embedding": table[tied], "of its own": table[~tied]}
    known = {name: own[["log_norm", "log_gain"]].corr().iloc[0, 1] for name, own in groups.items() if len(own) >= LEAST}

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        scatter_labelled(table, axes, x="spectral_norm", y="last_gain", labels=False)
        axes.set(xscale="log", yscale="log", xlabel="spectral norm of the unembedding", ylabel="last gain")

    shown = table[["model_id", "heritage", "tied", "spectral_norm", "last_gain", "learned"]]
    return Result.of(shown, draw=draw, words={"by_tie": list(known.items())}, **line(table, NURSERY))


if __name__ == "__main__":
    CLAIM.main()
