"""X02: encoders and vision models amplify over their blocks, as decoders do."""

from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import MEASURED, POOLED, Claim, Evidence, Result, Trial
from thermostats.claims.rule import Always, AtLeast, Each, Gate, V
from thermostats.claims.worlds import build_mean_worlds
from thermostats.studies.delia2026.amplification import BELOW, declare_amplifying
from thermostats.studies.delia2026.curves import draw_net_amplification
from thermostats.tables.model_rows import model_rows

LEAST = AtLeast(models=4)
"""As C20 asks of another set of evidence."""
NET = V("amplification")
AMPLIFY = Always(BELOW, Gate(Each("models", NET.lower > 1)) & (V("share of families").lower > 0.5))
"""The rule of C20."""
OTHERS = ["encoder", "vision"]
OWN = {"encoder": "mean", "vision": "patches"}
"""Position at which a model's own tokens are."""
CLAIM = Claim.read(__file__)


@CLAIM.shared
def select_models(evidence: Evidence, post: bool) -> pd.DataFrame:
    """One row per model: log amplification with half its 95% interval over inputs; `post`: of the
    sums before the norm.

    Net over the blocks after the first, of post-norm models the mean over their sub-blocks. Of the
    runs of a model the one with most inputs counts. Of a hierarchical model only gains within
    stages could be multiplied: it is left out.
    """
    wanted = ["model_id", "revision", "n_layers", "norm_place", "stages"]
    known = evidence.table("models", modality=OTHERS)[wanted]
    known = known[((known["norm_place"] == "post") == post) & (known["stages"] == 1)]
    rows = (
        evidence.table("layers", modality=OTHERS)
        .merge(known, on=["model_id", "revision"])
        .query("layer > 1")
    )
    rows = rows[rows["position"] == rows["modality"].map(OWN)]
    logs = (
        np.log(rows["gain_sum_attention"] * rows["gain_sum_mlp"]) / 2
        if post
        else np.log(rows["gain_block"])
    )
    by = ["model_id", "heritage", "family", "modality", "n_layers", "run_id", "prompt_id"]
    grouped = rows.assign(log=logs).groupby(by)["log"]
    found = (grouped.mean() if post else grouped.sum(min_count=1)).dropna().reset_index()
    means = found.groupby(by[:-1], as_index=False)["log"].agg(["mean", "sem", "count"])
    means = (
        means.sort_values("count", ascending=False, kind="stable")
        .drop_duplicates("model_id")
        .sort_values("model_id")
    )
    half = stats.t.ppf(0.975, means["count"] - 1) * means["sem"]
    family = means["family"].where(means["family"] != "", means["model_id"])
    columns = {"log": means["mean"], "half": half, "n_prompts": means["count"], "family": family}
    return (
        means.assign(**columns)
        .drop(columns=["mean", "sem", "count", "run_id"])
        .reset_index(drop=True)
    )


SHARE = declare_amplifying("models")
NETS = build_mean_worlds("log", float(np.log(124)), 0.0, 1.0)
"""As declared for C20."""
SUMS = build_mean_worlds("log", float(np.log(2) / 2), 0.0, 0.1)
"""Writes as long as the stream and at right angles to it make a sum √2 times as long; models differ
by a tenth."""


PRE, POST = (
    Trial(partial(select_models, post=post), SHARE, "", worlds)
    for post, worlds in ((False, NETS), (True, SUMS))
)


@CLAIM.finding("pre_norm", primary=AMPLIFY, trial=PRE, evidence=MEASURED, needs=LEAST)
def judge_pre_norm(evidence: Evidence) -> Result:
    """Do encoders and vision models without post-norm amplify over the blocks after the first?"""
    found = SHARE(select_models(evidence, post=False))
    own = found.rows["models"]
    shown = own.assign(per_block=np.exp(own["log"] / (own["n_layers"] - 1)))
    decoders = model_rows(evidence.named(POOLED), "geometric_gain_to_penultimate")["gain"]
    words = {"shown": shown, "n_decoders": len(decoders), "median": float(decoders.median())}
    draw = draw_net_amplification(own, "net amplification, blocks after the first")
    return found.adding(table=own, draw=draw, words=words)


@CLAIM.finding("post_norm", primary=AMPLIFY, trial=POST, evidence=MEASURED, needs=LEAST)
def judge_post_norm(evidence: Evidence) -> Result:
    """Are the sums before the norms of post-norm encoders longer than what enters?"""
    found = SHARE(select_models(evidence, post=True))
    own = found.rows["models"]
    draw = draw_net_amplification(own, "sum before the norm over what enters, mean")
    return found.adding(table=own, draw=draw, words={"shown": own})


if __name__ == "__main__":
    CLAIM.main()
