"""X02: encoders and vision models amplify over their blocks, as decoders do."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import MEASURED, POOLED, Claim, Estimate, Evidence, Result, Trial
from thermostats.claims.model_rows import model_rows
from thermostats.claims.rule import AtLeast, Decide, Each, Some, V
from thermostats.claims.worlds import worlds_of_mean
from thermostats.modelling.classical.counts import proportion
from thermostats.plots.general import drawing, forest

LEAST = AtLeast(models=4)
"""As C20 asks of another set of evidence."""
NET = V("amplification")
AMPLIFY = Decide(Each("models", NET.lower > 1) & (V("share of families").lower > 0.5), Some("models", NET.upper < 1))
"""The rule of C20."""
OTHERS = ["encoder", "vision"]
OWN = {"encoder": "mean", "vision": "patches"}
"""Position at which a model's own tokens are."""
CLAIM = Claim.read(__file__)


@CLAIM.shared
def models_of(evidence: Evidence, post: bool) -> pd.DataFrame:
    """One row per model: log amplification with half its 95% interval over inputs; `post`: of the sums before the norm.

    Net over the blocks after the first, of post-norm models the mean over their sub-blocks. Of the runs of a model the
    one with most inputs counts. Of a hierarchical model only gains within stages could be multiplied: it is left out.
    """
    wanted = ["model_id", "revision", "n_layers", "norm_place", "stages"]
    known = evidence.table("models", modality=OTHERS)[wanted]
    known = known[((known["norm_place"] == "post") == post) & (known["stages"] == 1)]
    rows = evidence.table("layers", modality=OTHERS).merge(known, on=["model_id", "revision"]).query("layer > 1")
    rows = rows[rows["position"] == rows["modality"].map(OWN)]
    logs = np.log(rows["gain_sum_attention"] * rows["gain_sum_mlp"]) / 2 if post else np.log(rows["gain_block"])
    by = ["model_id", "heritage", "family", "modality", "n_layers", "run_id", "prompt_id"]
    grouped = rows.assign(log=logs).groupby(by)["log"]
    found = (grouped.mean() if post else grouped.sum(min_count=1)).dropna().reset_index()
    means = found.groupby(by[:-1], as_index=False)["log"].agg(["mean", "sem", "count"])
    means = (
        means.sort_values("count", ascending=False, kind="stable").drop_duplicates("model_id").sort_values("model_id")
    )
    half = stats.t.ppf(0.975, means["count"] - 1) * means["sem"]
    family = means["family"].where(means["family"] != "", means["model_id"])
    columns = {"log": means["mean"], "half": half, "n_prompts": means["count"], "family": family}
    return means.assign(**columns).drop(columns=["mean", "sem", "count", "run_id"]).reset_index(drop=True)


def share(rows: pd.DataFrame) -> Result:
    """Families all of whose models lie above 1, and the exact interval of their share."""
    ends = {name: np.exp(rows["log"] + sign * rows["half"]) for name, sign in (("lower", -1), ("upper", 1))}
    own = rows.assign(amplification=np.exp(rows["log"]), **ends)
    families = own.assign(amplifies=own["lower"] > 1).groupby(["heritage", "family"], as_index=False)["amplifies"].all()
    found = proportion(int(families["amplifies"].sum()), len(families)) if len(families) else None
    kind = "Clopper–Pearson exact interval of the share of families, 95%"
    return Result(
        quantities={"share of families": Estimate.of(found, kind) if found else Estimate(None)},
        rows={"models": own, "families": families},
        n_models=len(own),
        n_groups=own["heritage"].nunique(),
        table=own,
        words={
            "k": int(families["amplifies"].sum()),
            "families": len(families),
            "shown": own,
            "least": own.loc[own["amplification"].idxmin()] if len(own) else None,
        },
    )


def figure(rows: pd.DataFrame, xlabel: str) -> Callable[[Axes], None]:
    """Amplification by model."""
    options = {"estimate": "amplification", "heritage": "heritage", "null": 1.0}
    return drawing(forest, rows, label="model_id", xlabel=xlabel, log="x", **options)


NETS = worlds_of_mean("log", float(np.log(124)), 0.0, 1.0)
"""As declared for C20."""
SUMS = worlds_of_mean("log", float(np.log(2) / 2), 0.0, 0.1)
"""Writes as long as the stream and at right angles to it make a sum √2 times as long; models differ by a tenth."""


PRE, POST = (Trial(partial(models_of, post=post), share, "", worlds) for post, worlds in ((False, NETS), (True, SUMS)))


@CLAIM.finding("pre_norm", primary=AMPLIFY, trial=PRE, evidence=MEASURED, needs=LEAST)
def pre_norm(evidence: Evidence) -> Result:
    """Do encoders and vision models without post-norm amplify over the blocks after the first?"""
    found = share(models_of(evidence, post=False))
    own = found.rows["models"]
    shown = own.assign(per_block=np.exp(own["log"] / (own["n_layers"] - 1)))
    decoders = model_rows(evidence.named(POOLED), "geometric_gain_to_penultimate").query("comparable")["gain"]
    words = {"shown": shown, "n_decoders": len(decoders), "median": float(decoders.median())}
    return found.adding(draw=figure(own, "net amplification, blocks after the first"), words=words)


@CLAIM.finding("post_norm", primary=AMPLIFY, trial=POST, evidence=MEASURED, needs=LEAST)
def post_norm(evidence: Evidence) -> Result:
    """Are the sums before the norms of post-norm encoders longer than what enters?"""
    found = share(models_of(evidence, post=True))
    return found.adding(draw=figure(found.rows["models"], "sum before the norm over what enters, mean"))


if __name__ == "__main__":
    CLAIM.main()
