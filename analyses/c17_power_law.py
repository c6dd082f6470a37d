"""C17: attention always contracts, the last MLP always expands, its gain goes as params^0.35."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import Claim, Evidence, Finding, Inference, Result, Test, Trial, Views
from thermostats.claims.common_tests import count_share
from thermostats.claims.rule import Always, Decide, Posterior, V
from thermostats.claims.worlds import build_exponent_worlds, build_share_worlds
from thermostats.errors import UsageError
from thermostats.modelling.classical.association import fit_power_law
from thermostats.modelling.classical.interval_laws import StudentLaw
from thermostats.modelling.classical.many import Many
from thermostats.modelling.columns import read_numbers
from thermostats.modelling.lines import fit_line
from thermostats.modelling.shares import fit_share
from thermostats.plots.general import draw_lines_by_layer, prepare_drawing
from thermostats.studies.delia2026 import layer_gains as gains
from thermostats.studies.delia2026.anomalies import check_derived
from thermostats.studies.delia2026.curves import draw_attention_and_mlp, draw_gain_by_size

STATED, MARGIN, SCATTER = 0.35, 0.10, 0.35
"""The exponent, how far off it is another, and the SD of log gains about the line that makes the
stated ± 0.079."""
ALWAYS, HALF = 1.0, 0.5
"""Shares of models as claimed and under the null."""
SEED = 17
LEAST_MODELS, NEARLY_ALONE = 3, 1 - 1e-9
"""Models without which a line has no error, and the leverage of a model that alone decides it."""
ALPHA = 0.05
SCALE = 1.0
"""Last MLP gains that differ by a factor e over one SD of size would be no surprise."""
SUB_BLOCKS = ("layers.gain_attention", "layers.gain_mlp")
VIEWS = Views(models=4, reads=SUB_BLOCKS)
PARTS = ("exponent", "attention", "last_mlp")
INTERVAL = "Clopper–Pearson exact interval over models, 95%"
EXPONENT = V("exponent")
WITHIN = (EXPONENT.lower >= STATED - MARGIN) & (EXPONENT.upper <= STATED + MARGIN)
EXCLUDED = EXPONENT.p <= ALPHA
HOLDS = EXPONENT.p > ALPHA
AS_STATED = Posterior(
    f"exponent within {STATED:g} ± {MARGIN:g}",
    draws=(V("slope on log_params") >= STATED - MARGIN)
    & (V("slope on log_params") <= STATED + MARGIN),
)
MOST = V("share of models").lower > HALF
EXPANDS = Posterior("share > 0.5", draws=V("share") > 0.5)
CLAIM = Claim.read(__file__)


@CLAIM.shared
def load_last_blocks(evidence: Evidence) -> pd.DataFrame:
    """One row per model."""
    last = gains.collect_last_blocks(evidence)
    logs = {"log_gain": np.log(last["gain_mlp"]), "log_params": np.log(last["n_params"])}
    signs = {"contracts": last["largest_attention_gain"] < 1, "expands": last["gain_mlp"] > 1}
    return last.assign(**logs, **signs)


def fit_exponent(last: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """The exponent of a power law by least squares, its error by HC3, and p of the stated one.

    Raises UsageError where models are no more than the line's two coefficients, all of one size,
    or of unknown gain or size.
    """
    size = read_numbers(last["log_params"], "log_params", least=LEAST_MODELS, varied=True)
    read_numbers(outcomes["log_gain"][0], "log_gain", least=LEAST_MODELS)
    x = np.column_stack([np.ones(size.size), size])
    inverse = np.linalg.inv(x.T @ x)
    leverage = np.einsum("ij,jk,ik->i", x, inverse, x)
    if leverage.max() > NEARLY_ALONE:
        raise UsageError(
            "HC3 errors do not exist",
            where="log_params",
            got="a model with leverage 1",
            allowed="leverage below 1",
        )
    weights = (inverse @ x.T)[1]
    exponent = outcomes["log_gain"] @ weights
    df = len(last) - 2
    left = outcomes["log_gain"] - outcomes["log_gain"] @ x @ inverse @ x.T
    error = np.linalg.norm(weights * left / (1 - leverage), axis=1)
    half = stats.t.ppf(0.975, df) * error
    p = 2 * stats.t.sf(np.abs(exponent - STATED) / error, df)
    return {EXPONENT.name: Many(exponent, exponent - half, exponent + half, p, StudentLaw(df))}


CONTRACTS = "models with a block at or above 1"
EXPANDED = "models that do not expand"
WORLDS = build_exponent_worlds("log_gain", "log_params", STATED, MARGIN, SCATTER)


def describe_exponent(last: pd.DataFrame, result: Result) -> Result:
    """With what the exponent's interval is."""
    df = len(last) - 2
    words = f"t confidence interval, HC3 errors, {df} degrees of freedom, 95%"
    return result.adding(table=last).name_intervals({EXPONENT.name: words})


FITTED = Test(fit_exponent, ("log_gain",), "", "p of the stated exponent", describe_exponent)
LINE = Trial(load_last_blocks, FITTED, "model_id", WORLDS)
CONTRACTING = count_share("share of models", "contracts", false=CONTRACTS, interval=INTERVAL)
EXPANDING = count_share("share of models", "expands", false=EXPANDED, interval=INTERVAL)
"""The share of models that contract, or expand, in all that is asked, and how many are against."""
ATTENTION = Trial(load_last_blocks, CONTRACTING, "", build_share_worlds("contracts", ALWAYS, HALF))
MLP = Trial(load_last_blocks, EXPANDING, "", build_share_worlds("expands", ALWAYS, HALF))


@CLAIM.overall(all_of=PARTS)
def judge_whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """The three parts together."""
    layers = gains.collect_layer_gains(evidence)
    last = load_last_blocks(evidence)
    words = {name: found[name] for name in PARTS} | {
        "layers": layers,
        "breaking": layers[layers["gain_attention"] >= 1],
        "last": last,
        "stated": STATED,
        "follows": check_derived(evidence, gains.SCALING),
    }
    return Result.build(last, {}, draw=partial(draw_attention_and_mlp, last=last), words=words)


@CLAIM.finding(
    "exponent",
    primary=Decide(WITHIN & HOLDS, EXCLUDED),
    robustness=AS_STATED,
    trial=LINE,
    views=Views(models=8, reads=SUB_BLOCKS),
)
def judge_exponent(evidence: Evidence) -> Result:
    """Exponent of the last MLP gain over the number of parameters."""
    last = load_last_blocks(evidence)
    found = fit_power_law(last["n_params"], last["gain_mlp"], against=STATED)
    least = stats.linregress(np.log10(last["n_params"]), np.log10(last["gain_mlp"]))
    fit = fit_line(
        last,
        "log_gain",
        ["log_params"],
        scale=SCALE,
        group=None,
        sources=[gains.SCALING],
        seed=SEED,
    )
    return FITTED(last).adding(
        draw=partial(draw_gain_by_size, last=last, law=found, stated=STATED),
        inference=Inference(fit, tables=("rows",)),
        audit=gains.check_exponent(evidence, least),
        words={
            "line": least,
            "stated": STATED,
            "without": (found.smallest_without_one, found.largest_without_one),
        },
    )


@CLAIM.finding("attention", primary=Always(CONTRACTS, MOST), trial=ATTENTION, views=VIEWS)
def judge_attention(evidence: Evidence) -> Result:
    """Is every attention gain below 1?"""
    layers = gains.collect_layer_gains(evidence)
    last = load_last_blocks(evidence)
    breaking = layers[layers["gain_attention"] >= 1]
    again = evidence.table("layers", source=gains.FFN)
    return CONTRACTING(last).adding(
        table=breaking if len(breaking) else last,
        audit=gains.check_contracting(evidence, layers),
        words={
            "blocks": len(layers),
            "breaking": breaking,
            "again": again["model_id"].nunique(),
            "largest": float(again["gain_attention"].max()),
        },
    )


@CLAIM.finding(
    "last_mlp", primary=Always(EXPANDED, MOST), robustness=EXPANDS, trial=MLP, views=VIEWS
)
def judge_last_mlp(evidence: Evidence) -> Result:
    """Is the last MLP's gain above 1 in every model?"""
    layers = gains.collect_layer_gains(evidence)
    last = load_last_blocks(evidence)
    later = partial(fit_share, last, "expands", group=None, sources=[gains.SCALING], seed=SEED)
    others = layers.merge(
        last[["model_id", "layer"]].rename(columns={"layer": "end"}), on="model_id"
    )
    largest = layers.loc[layers.groupby("model_id")["gain_mlp"].idxmax()].merge(
        last, on=["model_id", "layer"]
    )
    ylabel = "MLP gain, output over normed input"
    return EXPANDING(last).adding(
        table=last[["model_id", "gain_mlp"]],
        draw=prepare_drawing(draw_lines_by_layer, layers, y="gain_mlp", null=1.0, ylabel=ylabel),
        inference=Inference(later=later, tables=("groups",)),
        words={
            "above": int(last["expands"].sum()),
            "least": float(last["gain_mlp"].min()),
            "most": float(last["gain_mlp"].max()),
            "at_end": len(largest),
            "before": float((others.loc[others["layer"] < others["end"], "gain_mlp"] > 1).mean()),
        },
    )


if __name__ == "__main__":
    CLAIM.main()
