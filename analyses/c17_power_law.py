"""C17: attention always contracts, the last MLP always expands, its gain goes as params^0.35."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import Claim, Estimate, Evidence, Finding, Result
from thermostats.claims.rule import Decide, Posterior, V
from thermostats.modelling.classical.association import power_law
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.lines import fit_line
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import drawing, lines_by_layer
from thermostats.studies.delia2026 import subblock_gains as gains
from thermostats.studies.delia2026.anomalies import follows
from thermostats.studies.delia2026.claim_figures import gain_by_size

STATED, MARGIN = 0.35, 0.10
SEED = 17
SCALE = 1.0
"""Last MLP gains that differ by a factor e over one SD of size would be no surprise."""
PARTS = ("exponent", "attention", "last_mlp")
INTERVAL = "Clopper–Pearson exact interval over models, 95 %"
EXPONENT = V("exponent")
WITHIN = (EXPONENT.lower >= STATED - MARGIN) & (EXPONENT.upper <= STATED + MARGIN)
EXCLUDED = (EXPONENT.lower > STATED) | (EXPONENT.upper < STATED)
HOLDS = (EXPONENT.lower <= STATED) & (EXPONENT.upper >= STATED)
AS_STATED = Posterior(
    f"exponent within {STATED:g} ± {MARGIN:g}",
    draws=(V("log_params") >= STATED - MARGIN) & (V("log_params") <= STATED + MARGIN),
)
EXPANDS = Posterior("share > 0.5", draws=V("share") > 0.5)
CLAIM = Claim.read(__file__)


def always(counterexamples: str) -> Decide:
    """One counterexample is against it; without one, the share of models must lie above one half."""
    return Decide((V(counterexamples) <= 0) & (V("share of models").lower > 0.5), V(counterexamples) > 0)


def share(k: int, last: pd.DataFrame) -> Estimate:
    """A share of the models with its exact interval."""
    return Estimate.of(proportion(k, len(last)), INTERVAL)


@CLAIM.shared
def last_blocks(evidence: Evidence) -> pd.DataFrame:
    """One row a model."""
    return gains.of_last_block(evidence)


@CLAIM.overall(all_of=PARTS)
def whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """The three parts together."""
    parts = {found[name].estimand: found[name].verdict for name in PARTS}
    return Result(table=last_blocks(evidence), words={"parts": parts, "follows": follows(evidence, gains.SCALING)})


@CLAIM.finding("exponent", primary=Decide(WITHIN & HOLDS, EXCLUDED), robustness=AS_STATED)
def exponent(evidence: Evidence) -> Result:
    """Exponent of the last MLP gain over the number of parameters."""
    last = last_blocks(evidence)
    found = power_law(last["n_params"], last["gain_mlp"], against=STATED)
    line = stats.linregress(np.log10(last["n_params"]), np.log10(last["gain_mlp"]))
    logs = last.assign(log_gain=np.log(last["gain_mlp"]), log_params=np.log(last["n_params"]))
    fit = fit_line(logs, "log_gain", ["log_params"], scale=SCALE, group=None, sources=[gains.SCALING], seed=SEED)

    estimate = Estimate.of(found, f"{found.interval}, 95 %", found.p_value, "p of the stated exponent")
    return Result.of(
        last,
        {"exponent": estimate},
        draw=partial(gain_by_size, last=last, found=found, stated=STATED),
        fit=fit,
        fit_tables=("rows",),
        audit=gains.exponent_audit(evidence, line),
        words={"line": line, "stated": STATED, "without": (found.smallest_without_one, found.largest_without_one)},
    )


@CLAIM.finding("attention", primary=always("blocks at or above 1"))
def attention(evidence: Evidence) -> Result:
    """Is every attention gain below 1?"""
    layers, last = gains.by_layer(evidence), last_blocks(evidence)
    breaking = layers[layers["gain_attention"] >= 1]
    ylabel = "attention gain, output over normed input"
    again = evidence.table("layers", source=gains.FFN)
    contract = share(int((last["largest_attention_gain"] < 1).sum()), last)
    return Result.of(
        last,
        {"share of models": contract, "blocks at or above 1": Estimate(len(breaking))},
        table=breaking if len(breaking) else last,
        draw=drawing(lines_by_layer, layers, y="gain_attention", null=1.0, ylabel=ylabel),
        audit=gains.contracting_audit(evidence, layers),
        words={
            "blocks": len(layers),
            "breaking": breaking,
            "again": again["model_id"].nunique(),
            "largest": float(again["gain_attention"].max()),
        },
    )


@CLAIM.finding("last_mlp", primary=always("models that do not expand"), robustness=EXPANDS)
def last_mlp(evidence: Evidence) -> Result:
    """Is the last MLP's gain above 1 in every model?"""
    layers, last = gains.by_layer(evidence), last_blocks(evidence)
    expands = last["gain_mlp"] > 1
    fit = fit_share(last.assign(expands=expands), "expands", group=None, sources=[gains.SCALING], seed=SEED)
    others = layers.merge(last[["model_id", "layer"]].rename(columns={"layer": "end"}), on="model_id")
    largest = layers.loc[layers.groupby("model_id")["gain_mlp"].idxmax()].merge(last, on=["model_id", "layer"])
    ylabel = "MLP gain, output over normed input"
    k = int(expands.sum())
    return Result.of(
        last,
        {"share of models": share(k, last), "models that do not expand": Estimate(len(last) - k)},
        table=last[["model_id", "gain_mlp"]],
        draw=drawing(lines_by_layer, layers, y="gain_mlp", null=1.0, ylabel=ylabel),
        fit=fit,
        fit_tables=("groups",),
        words={
            "above": k,
            "least": float(last["gain_mlp"].min()),
            "most": float(last["gain_mlp"].max()),
            "at_end": len(largest),
            "before": float((others.loc[others["layer"] < others["end"], "gain_mlp"] > 1).mean()),
        },
    )


if __name__ == "__main__":
    CLAIM.main()
