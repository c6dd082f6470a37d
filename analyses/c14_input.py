"""C14: the signature is robust to the input, over 25 prompts per model."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import MEASURED, Audit, Claim, Estimate, Evidence, Result
from thermostats.claims.rule import NEVER, Above, AtLeast, Decide, Posterior
from thermostats.modelling.classical.mixed import variance_components
from thermostats.modelling.classical.resampling import bca
from thermostats.modelling.laws.ranking import fit_benchmark
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import drawing, strip_by_group
from thermostats.studies.delia2026 import audit, by_prompt
from thermostats.studies.delia2026.by_prompt import BENCHMARK, LAST_GAIN_FILES, gain_by_prompt
from thermostats.studies.delia2026.gains import PYTHIA
from thermostats.studies.delia2026.hierarchy import ORDER

SEED, ROBUST, HALF = 14, 0.90, 0.5
BY_PROMPT = "gain by prompt; tick: mean of the model"
FEWEST = AtLeast(models=4)
"""Models measured here from which they have verdicts of their own."""
SHARE, BETWEEN = "mean share of prompts on the model's own side", "models' share of the variance"
KEEPS, MOST = Posterior(f"share > {ROBUST:g}"), Posterior(f"{BETWEEN} > {HALF:g}")
CLAIM = Claim.read(__file__)


@CLAIM.shared
def last_gains(evidence: Evidence) -> pd.DataFrame:
    """Last gain by prompt of the published files, one run a model, with categories."""
    rows = by_prompt.one_run_each(gain_by_prompt(evidence, "last_gain", *LAST_GAIN_FILES), LAST_GAIN_FILES)
    return by_prompt.with_category(evidence, rows)


def measured(evidence: Evidence) -> pd.DataFrame:
    """Last gain by prompt of models measured here."""
    return FEWEST.of(by_prompt.measured_here(evidence, "last_gain"))


def own_side(rows: pd.DataFrame, whose: str, audit: Audit | None = None) -> Result:
    """Mean over models of the share of prompts whose gain is on the side of 1 where the model's mean is."""
    mean = rows.groupby("model_id")["value"].transform("mean")
    sides = rows.assign(agrees=(rows["value"] < 1) == (mean < 1))
    table = sides.groupby(["model_id", "heritage"], as_index=False).agg(
        prompts=("value", "size"),
        mean_gain=("value", "mean"),
        smallest=("value", "min"),
        largest=("value", "max"),
        share_on_own_side=("agrees", "mean"),
    )
    table = table.sort_values("share_on_own_side", ignore_index=True)
    shares = table["share_on_own_side"].to_numpy(np.float64)
    average = float(shares.mean())
    lower, upper, kind = average, average, "no interval: every model alike"
    if np.ptp(shares) > 0:
        lower, upper, kind = bca(shares, np.mean, level=0.95, seed=SEED)
    sources = sorted(set(rows["source"]))
    return Result.of(
        table,
        {SHARE: Estimate(average, lower, upper, f"{kind}, over models, 95 %")},
        draw=drawing(
            strip_by_group, rows, value="value", group="model_id", xlabel="gain by prompt; tick: mean of the model"
        ),
        audit=audit or Audit(),
        fit=fit_share(sides, "agrees", against=ROBUST, group="model_id", sources=sources, seed=SEED),
        fit_tables=("groups",),
        words={"whose": whose, "least": table.iloc[0], "always": int((shares == 1).sum()), "robust": ROBUST},
    )


def with_parts(rows: pd.DataFrame) -> dict[str, Any]:
    """The model of gains by models, prompts and categories, and its statement about the models' share."""
    asked = ORDER if set(ORDER) <= set(rows["model_id"]) else None
    fit = fit_benchmark(rows, "last_gain", order=asked, seed=SEED)
    share = fit.quantities["share"][..., fit.labels["share"].index("model")]
    return {"fit": fit, "statements": {MOST.statement: share > HALF}, "fit_tables": ("shares", "ranks")}


def parts_of_variance(rows: pd.DataFrame, whose: str) -> Result:
    """How much of the variance of log gain lies between models, between prompts, and in their interplay."""
    logs = rows.assign(log_gain=np.log(rows["value"]))
    parts = variance_components(logs, "log_gain", "model_id", "prompt_id", seed=SEED)
    named = {
        "share_of_variance": parts.shares,
        "lower": parts.shares_lower,
        "upper": parts.shares_upper,
        "sd_of_log_gain": parts.sd,
    }
    columns = {name: list(values.values()) for name, values in named.items()}
    table = pd.DataFrame({"component": ["model", "prompt", "residual"], **columns})
    ends = parts.shares_lower["model_id"], parts.shares_upper["model_id"]
    return Result(
        quantities={BETWEEN: Estimate(parts.shares["model_id"], *ends, f"{parts.interval}, 95 %")},
        n_models=parts.n_rows,
        n_groups=rows["heritage"].nunique(),
        table=table,
        words={"whose": whose, "shares": parts.shares},
        **with_parts(rows),
    )


@CLAIM.finding("own_side.penultimate_gain", primary=Above(SHARE, ROBUST), robustness=KEEPS)
def of_pythia(evidence: Evidence) -> Result:
    """The Pythia family of figure 7."""
    rows = gain_by_prompt(evidence, "penultimate_gain", PYTHIA)
    return own_side(rows, "penultimate gain, Pythia family", audit.figure_7_audit(evidence, rows))


@CLAIM.finding("own_side.last_gain", primary=Above(SHARE, ROBUST), robustness=KEEPS)
def of_last_gains(evidence: Evidence) -> Result:
    """Every model whose last gain was published by prompt."""
    figures = audit.benchmark_audit(evidence, gain_by_prompt(evidence, "last_gain", BENCHMARK))
    return own_side(last_gains(evidence), "last gain, all models measured by prompt", figures)


@CLAIM.finding("variance", primary=Above(BETWEEN, HALF), robustness=MOST)
def variance(evidence: Evidence) -> Result:
    """Parts of the variance of the same gains."""
    return parts_of_variance(last_gains(evidence), "last gain, all models measured by prompt")


@CLAIM.finding("entropy", primary=Decide(NEVER, NEVER))
def entropy(evidence: Evidence) -> Result:
    """The study's own test of one model's input: gain with the final norm against entropy over few prompts."""
    table = audit.of_one_model(evidence)
    r = stats.pearsonr(table["value"], table["entropy"])
    ends = r.confidence_interval()
    kind = "Fisher-z confidence interval, 95 %, unit: the prompt"
    return Result(
        quantities={"correlation": Estimate(float(r.statistic), float(ends.low), float(ends.high), kind)},
        n_models=1,
        n_groups=1,
        table=table,
        audit=audit.entropy_audit(evidence, table),
        words={"rows": table},
    )


@CLAIM.finding("own_side.measured", primary=Above(SHARE, ROBUST), robustness=KEEPS, evidence=MEASURED, needs=FEWEST)
def of_measured(evidence: Evidence) -> Result:
    """Models measured here."""
    return own_side(measured(evidence), "last gain, models measured here")


@CLAIM.finding("variance.measured", primary=Above(BETWEEN, HALF), robustness=MOST, evidence=MEASURED, needs=FEWEST)
def variance_measured(evidence: Evidence) -> Result:
    """Parts of the variance over models measured here."""
    return parts_of_variance(measured(evidence), "last gain, models measured here")


if __name__ == "__main__":
    CLAIM.main()
