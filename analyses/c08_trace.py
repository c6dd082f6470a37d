"""C08: the trace of the sheaf Laplacian separates expanders from dampeners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, Each, Posterior, Some, V
from thermostats.modelling.classical.separation import pairs_above, separation
from thermostats.modelling.laws.lines import fit_line
from thermostats.plots.general import legend_above
from thermostats.plots.labels import place_labels
from thermostats.plots.marks import mark
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.stated import H4_V2
from thermostats.studies.delia2026.traces import FILES, GPT2, OPT, by_layer, mean_traces, subsampled, trace_audit
from thermostats.words import short_name

ALPHA, SEED = 0.05, 8
SCALE = 1.5
"""Traces of one file that differ by a factor e^1.5 = 4.5 would be no surprise."""
SHARE = V("share of pairs")
AROUND = V("kinds on both sides of the other")
SEPARATES = Decide(
    (Each("files", SHARE >= 1) | Each("files", SHARE <= 0)) & (SHARE.p <= ALPHA), Some("files", AROUND > 0)
)
LARGER = Posterior("expanders have the larger log trace")
CLAIM = Claim.read(__file__)


def separated(rows: pd.DataFrame, behaviour: str, variant: str, how: str, **more: Any) -> Result:
    """Pairs of an expander and a dampener of one file, for one way to say what expands and one variant of the trace."""
    found = separation(rows[variant], rows[behaviour], rows["source"].map(FILES))
    files = found.groups.rename(columns={"share": SHARE.name, "straddling": AROUND.name})
    words = {"how": how, "files": files.to_dict("records"), "around": files[AROUND.name].any(), "alpha": ALPHA}
    words |= {"smallest": found.smallest_p, **more.pop("words", {})}
    counts = {"n_models": len(rows), "n_groups": rows["heritage"].nunique()}
    share = Estimate(found.share, p=found.p)
    return Result(quantities={SHARE.name: share}, rows={"files": files}, words=words, **counts, **more)


def with_line(rows: pd.DataFrame, behaviour: str) -> dict[str, Any]:
    """The line of the log trace on the behaviour, every file with a level of its own."""
    known = rows[rows["multi_head"].notna()]
    logs = np.log(known["multi_head"].astype(float))
    known = known.assign(log_trace=logs - logs.mean(), expander=known[behaviour].astype(float))
    sources = sorted(set(known["source"]))
    fit = fit_line(known, "log_trace", ["expander"], scale=SCALE, group="source", sources=sources, seed=SEED)
    return {"fit": fit, "statements": {LARGER.statement: fit.quantities["expander"] > 0}, "fit_tables": ("rows",)}


@CLAIM.finding("trace.as_labelled", primary=SEPARATES, robustness=LARGER)
def as_labelled(evidence: Evidence) -> Result:
    """Behaviour as the study labels it; with what its figures rest on."""
    rows, every = mean_traces(evidence), by_layer(evidence)["model_id"].unique()
    small = rows[rows["source"] == H4_V2].set_index("model_id")
    before = subsampled(evidence)
    kinds = small["by_label"].reindex(before.index).to_numpy(bool)

    def draw(axes: Axes) -> None:
        for (lab, expands), points in rows.groupby(["heritage", "by_label"]):
            color, marker = mark(str(lab))
            x, y = points["multi_head"], points["source"].map(FILES)
            face = color if expands else "white"
            axes.scatter(x, y, s=60, facecolor=face, edgecolor=color, marker=marker, label=str(lab), zorder=3)
        axes.set(xlabel="mean trace over layers, sum over heads", ylim=(-0.6, 1.6))
        log_axis(axes, "x")
        legend_above(axes)
        places = pd.factorize(rows["source"])[0]
        place_labels(axes, rows["multi_head"], places, [short_name(name) for name in rows["model_id"]])

    words = {
        "alike": bool(small["by_label"][GPT2] == small["by_label"][OPT]),
        "ratio": small["multi_head"][GPT2] / small["multi_head"][OPT],
        "means": small.groupby("by_label")[["multi_head", "first_head"]].mean().reindex([True, False]),
        "disagree": list(rows.loc[rows["by_label"] != rows["by_gain"], "model_id"]),
        "missing": rows[rows["layers_missing"] > 0],
        "unknown": [name for name in every if name not in set(rows["model_id"])],
        "subsampled": (pairs_above(before.to_numpy(), kinds), int(kinds.sum() * (~kinds).sum())),
    }
    more = {
        "table": rows.drop(columns=["by_label", "by_gain"]),
        "draw": draw,
        "audit": trace_audit(evidence, rows),
        "words": words,
    }
    return separated(rows, "by_label", "multi_head", "behaviour as labelled", **more | with_line(rows, "by_label"))


@CLAIM.finding("trace.by_gain", primary=SEPARATES, robustness=LARGER)
def by_gain(evidence: Evidence) -> Result:
    """Behaviour as the gain that the study gives for the model has it."""
    rows = mean_traces(evidence)
    return separated(rows, "by_gain", "multi_head", "behaviour by the stated gain", **with_line(rows, "by_gain"))


@CLAIM.finding("trace.first_head", primary=SEPARATES)
def first_head(evidence: Evidence) -> Result:
    """The other published trace."""
    how = "behaviour as labelled, trace of the first head"
    return separated(mean_traces(evidence), "by_label", "first_head", how)


if __name__ == "__main__":
    CLAIM.main()
