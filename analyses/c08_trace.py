"""C08: the trace of the sheaf Laplacian separates expanders from dampeners."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Evidence, Result, Test, Trial, Views
from thermostats.claims.rule import Decide, Each, Gate, Some, V
from thermostats.claims.worlds import build_shift_worlds
from thermostats.modelling.classical.counts import count_pairs_above
from thermostats.modelling.classical.many import (
    ROUNDING,
    draw_chance_distances,
    find_sided_groups,
    measure_separations,
    wrap_counts,
)
from thermostats.modelling.columns import RESAMPLES as FINE
from thermostats.studies.delia2026.curves import draw_file_traces
from thermostats.studies.delia2026.layer_traces import (
    FILES,
    SMALL_OPT,
    SMALLEST_GPT2,
    load_layer_traces,
    load_subsampled_traces,
    summarise_traces,
    trace_audit,
)
from thermostats.studies.delia2026.stated_facts import H4_V2

ALPHA = 0.05
FOLD, ALIKE = 26.0, 1.0
"""The published ratio of an expander's trace to a dampener's; traces of one kind differ by a factor
e."""
SHARE = V("share of pairs")
AROUND = V("kinds on both sides of the other")
MOST = 0.95
"""Kinds of which fewer pairs are in order overlap; published is a ratio at which 99% are."""
SEPARATES = Decide(
    Gate(Each("files", SHARE >= 1) | Each("files", SHARE <= 0))
    & (SHARE.p <= ALPHA)
    & ((SHARE >= MOST) | (SHARE <= 1 - MOST)),
    Gate(Some("files", AROUND > 0)) & (SHARE < MOST) & (SHARE > 1 - MOST),
)
"""All pairs in order, or a kind on both sides of the other, is a fact about a sample; a share is
about the kinds."""
CLAIM = Claim.read(__file__)


def separate_kinds(
    rows: pd.DataFrame, outcomes: Mapping[str, Any], **finely: Any
) -> dict[str, Any]:
    """Pairs of an expander and a dampener of one file."""
    share, files = measure_separations(
        outcomes["log_trace"], rows["expander"].to_numpy(bool), name_files(rows), **finely
    )
    each = [
        {SHARE.name: wrap_counts(of_file), AROUND.name: wrap_counts(around)}
        for of_file, around in files
    ]
    return {SHARE.name: share, "files": each}


def name_files(rows: pd.DataFrame) -> pd.Series:
    """The file of every row in words."""
    return rows["source"].map(FILES).fillna(rows["source"])


def describe_files(rows: pd.DataFrame, result: Result) -> Result:
    """Files with both kinds, how many models and pairs each has, and the least p that these traces
    can give."""
    file = name_files(rows).to_numpy()
    member = rows["expander"].to_numpy(bool)
    groups = find_sided_groups(member, file)
    sizes = [
        (file[ours[0]], ours.size + others.size, ours.size * others.size) for ours, others in groups
    ]
    files = pd.DataFrame(sizes, columns=["group", "n", "pairs"]).join(result.rows["files"])
    files.insert(3, "above", files["pairs"] * files[SHARE.name])
    chance = draw_chance_distances(rows[["log_trace"]].to_numpy(np.float64).T, groups, FINE)
    smallest = float((chance >= chance[-1] - ROUNDING).mean())
    words = {
        "files": files.to_dict("records"),
        "around": files[AROUND.name].any(),
        "smallest": smallest,
    }
    return result.adding(rows={"files": files}, words=words)


KINDS = Test(
    separate_kinds,
    ("log_trace",),
    p_kind="p-value",
    describe=describe_files,
    finely={"resamples": FINE},
)


def select_behaviour(rows: pd.DataFrame, behaviour: str, variant: str) -> pd.DataFrame:
    """One way to say what expands, and one variant of the trace."""
    return rows.assign(
        expander=rows[behaviour].astype(bool), log_trace=np.log(rows[variant].astype(float))
    )


def select_variant_traces(evidence: Evidence, behaviour: str, variant: str) -> pd.DataFrame:
    """Mean traces by model, said one way."""
    return select_behaviour(summarise_traces(evidence), behaviour, variant)


def judge_separation(rows: pd.DataFrame, behaviour: str, variant: str, how: str) -> Result:
    """Pairs of an expander and a dampener, with how behaviour and trace were taken in words."""
    return KINDS(select_behaviour(rows, behaviour, variant)).adding(
        words={"how": how, "alpha": ALPHA}
    )


def build_trial(behaviour: str, variant: str) -> dict[str, Any]:
    """How one way is judged, tried in worlds and without each model: a counterexample must not be
    one model."""
    worlds = build_shift_worlds("log_trace", np.log(FOLD), ALIKE, "expander")
    own = partial(select_variant_traces, behaviour=behaviour, variant=variant)
    trial = Trial(own, KINDS, "model_id", worlds, larger="")
    return {"primary": SEPARATES, "trial": trial}


@CLAIM.finding("trace.as_labelled", **build_trial("by_label", "multi_head"))
def judge_labelled(evidence: Evidence) -> Result:
    """Behaviour as the study labels it; with what its figures rest on."""
    rows = summarise_traces(evidence)
    every = load_layer_traces(evidence)["model_id"].unique()
    small = rows[rows["source"] == H4_V2].set_index("model_id")
    before = load_subsampled_traces(evidence)
    kinds = small["by_label"].reindex(before.index).to_numpy(bool)

    words = {
        "alike": bool(small["by_label"][SMALLEST_GPT2] == small["by_label"][SMALL_OPT]),
        "ratio": small["multi_head"][SMALLEST_GPT2] / small["multi_head"][SMALL_OPT],
        "means": small.groupby("by_label")[["multi_head", "first_head"]]
        .mean()
        .reindex([True, False]),
        "disagree": list(rows.loc[rows["by_label"] != rows["by_gain"], "model_id"]),
        "missing": rows[rows["layers_missing"] > 0],
        "unknown": [name for name in every if name not in set(rows["model_id"])],
        "subsampled": (
            count_pairs_above(before.to_numpy(), kinds),
            int(kinds.sum() * (~kinds).sum()),
        ),
    }
    return judge_separation(rows, "by_label", "multi_head", "behaviour as labelled").adding(
        table=rows.drop(columns=["by_label", "by_gain"]),
        draw=partial(draw_file_traces, rows=rows, files=FILES),
        audit=trace_audit(evidence, rows),
        words=words,
    )


@CLAIM.finding("trace.by_gain", views=Views(models=4), **build_trial("by_gain", "multi_head"))
def judge_gain(evidence: Evidence) -> Result:
    """Behaviour as the gain that the study gives for the model has it."""
    rows = summarise_traces(evidence)
    return judge_separation(rows, "by_gain", "multi_head", "behaviour by the stated gain")


@CLAIM.finding("trace.first_head", **build_trial("by_label", "first_head"))
def judge_first_head(evidence: Evidence) -> Result:
    """The other published trace."""
    how = "behaviour as labelled, trace of the first head"
    return judge_separation(summarise_traces(evidence), "by_label", "first_head", how)


if __name__ == "__main__":
    CLAIM.main()
