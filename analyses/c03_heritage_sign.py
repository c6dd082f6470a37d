"""C03: the lab that trained a model fixes the sign: EleutherAI dampens, every other lab expands."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import (
    Case,
    Claim,
    Estimate,
    Evidence,
    Inference,
    Result,
    Test,
    Trial,
    Views,
)
from thermostats.claims.result import Panel
from thermostats.claims.rule import ACCIDENTS, Decide, Gate, Posterior, V
from thermostats.claims.shared import build_covariance
from thermostats.claims.worlds import SideColumns, build_contrast_worlds, build_side_worlds
from thermostats.formatting import format_number, join_words
from thermostats.modelling.causal_graph import find_confounded
from thermostats.modelling.classical.counts import run_barnard_exact, run_fisher_exact
from thermostats.modelling.classical.many import (
    Many,
    estimate_differences,
    find_least_p,
    wrap_counts,
)
from thermostats.modelling.columns import LEVEL
from thermostats.modelling.heritability import DescentSlope, estimate_descent_slope
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.law import OF_LAB
from thermostats.modelling.specification import build_fraction_difference, permute_between_labs
from thermostats.plots.general import draw_forest, prepare_drawing
from thermostats.plots.posterior import draw_lab_forest
from thermostats.studies.delia2026 import curves
from thermostats.studies.delia2026 import stated_audits as audit
from thermostats.studies.delia2026.published_gains import (
    HUNT,
    PYTHIA,
    build_source_features,
    load_gains,
    select_heritage_rows,
)
from thermostats.studies.delia2026.stated_audits import FOCAL
from thermostats.tables.labels import drop_unlabelled

ALPHA = 0.05
SEED = 3
HERITAGE_SEED = 4
"""The same fit as in C04."""
STATED, FIXED, ALIKE = (0.8, 0.0), (1.0, 0.0), 0.4
"""Shares of dampening models of EleutherAI and of the others: as published, as the claim's words
have them, and of both where the lab is nothing."""
DIFFERENCE = V("difference between families")
OTHER_SIDE = V("models on the other side of 1")
CLEARLY = V("models clearly on the other side of 1")
DIFFERS = Decide(
    (DIFFERENCE > 0) & (DIFFERENCE.p <= ALPHA), (DIFFERENCE < 0) & (DIFFERENCE.p <= ALPHA)
)
FIXES_THE_SIGN = Decide(
    DIFFERS.supported & Gate(OTHER_SIDE <= 0), DIFFERS.against | Gate(CLEARLY > ACCIDENTS)
)
"""That labs differ, and that no model lies on the other side: a statement about every unit, refuted
by a few."""
LABS = Posterior(f"{FOCAL}'s mean log gain < 0 and every other lab's > 0")

GAINS_AXIS = "penultimate gain (block L − 1)"
LAYER_NORM = "LayerNorm"
TIE = 1e-9

CLAIM = Claim.read(__file__)


GAIN = Case("penultimate_gain", "penultimate gain below 1, comparable models", "gain")
"""Models that norm after the residual sum are left out; other gains are in the curve."""


models = CLAIM.shared(load_gains)


def find_signs(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """Which models dampen, and clearly so: with the relative errors of the penultimate gain, which
    were published."""
    rows = models(evidence).dropna(subset=gain.column)
    rows = drop_unlabelled(rows[rows["comparable"]].reset_index(drop=True), "heritage", "family")
    value = rows[gain.column]
    low = rows["lower"] / rows["gain"]
    high = rows["upper"] / rows["gain"]
    clear = (value * high < 1) | (value * low > 1)
    half = (high - low) / 2
    return rows.assign(
        value=value,
        dampens=value < 1,
        clear=clear,
        half=half,
        error=half / stats.t.ppf((1 + LEVEL) / 2, rows["n_prompts"] - 1),
        focal=rows["heritage"] == FOCAL,
    )


def compare_families(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Mean share of dampening models over EleutherAI's families minus the mean over the others';
    families moved whole."""
    focal = rows["focal"].to_numpy(bool)
    dampens = outcomes["dampens"].astype(bool)
    none = ~dampens[:, focal].any(axis=1) | dampens.all(axis=1)
    if none.all():
        return {DIFFERENCE.name: wrap_counts(np.full(len(none), np.nan))}
    test = estimate_differences(dampens, focal, rows["family"])
    known = {name: np.where(none, np.nan, getattr(test, name)) for name in ("estimate", "p")}
    return {DIFFERENCE.name: replace(wrap_counts(known["estimate"]), p=known["p"])}


def describe_families(rows: pd.DataFrame, result: Result) -> Result:
    """How many families there are, and the least p that they can give; nothing where there is no
    difference."""
    if result.quantities[DIFFERENCE.name].value is None:
        return result
    dampens = rows["dampens"].to_numpy(bool)
    focal = rows["focal"].to_numpy(bool)
    least = find_least_p(dampens[None], focal, rows["family"])
    return result.adding(
        words={"test": {"n_families": rows["family"].nunique(), "smallest_p_families": least}}
    )


def count_exceptions(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """The same, and how many models lie on the other side of 1 than the claim has their lab."""
    against = outcomes["dampens"].astype(bool) != rows["focal"].to_numpy(bool)
    clear = against & outcomes["clear"].astype(bool)
    counts = {
        OTHER_SIDE.name: wrap_counts(against.sum(axis=1)),
        CLEARLY.name: wrap_counts(clear.sum(axis=1)),
    }
    return {**counts, **compare_families(rows, outcomes)}


def describe_exceptions(rows: pd.DataFrame, result: Result) -> Result:
    """Models clearly on the other side, of the lab and of others."""
    focal = rows["focal"].astype(bool)
    dampens = rows["dampens"].astype(bool)
    clear = rows[(dampens != focal) & rows["clear"].astype(bool)]
    names = {
        lab: list(clear.loc[clear["focal"].astype(bool) == lab, "model_id"])
        for lab in (True, False)
    }
    return describe_families(rows, result).adding(
        words={"inside_clear": names[True], "against": names[False]}
    )


FAMILIES = Test(compare_families, ("dampens",), p_kind="p-value", describe=describe_families)
EXCEPTIONS = Test(
    count_exceptions, ("dampens", "clear"), p_kind="p-value", describe=describe_exceptions
)
VIEWS = Views(models=5, groups=2, including=(FOCAL,))
DAMPENING = (0.2, 0.6)
"""95% interval of the share of dampening models."""
OF_SHARES = partial(
    build_contrast_worlds, "dampens", "focal", null=(ALIKE, *DAMPENING), group="family"
)
DIFFER = Trial(find_signs, FAMILIES, "", OF_SHARES(STATED))


def count_endless(shares: tuple[float, float]) -> Result:
    """The rule's numbers over endless models: a share beyond 0 or 1 has exceptions without end."""
    inside, outside = shares
    exceptions = Estimate(0.0 if shares == FIXED else np.inf)
    difference = Estimate(inside - outside)
    return Result(quantities={DIFFERENCE.name: difference, CLEARLY.name: exceptions})


MEASURED = SideColumns("dampens", "clear", "focal", "error", "half")
SIDES = build_side_worlds(MEASURED, FIXED, (ALIKE, *DAMPENING), count_endless, "family")
"""True gains on the side that the claim has them, or not; each is measured with its own error."""
FIX = Trial(find_signs, EXCEPTIONS, "", SIDES, version=2)


DESIGN = {
    "parallel_block": "parallel block",
    "norm_kind": "kind of norm",
    "norm_place": "place of norms",
    "position_scheme": "position scheme",
    "year": "year",
}
"""Facts that may be behind a difference between labs, in words."""
DESCENT = (
    "share of dampening models of EleutherAI minus that of the others under descent, next to the "
    "test over families"
)


def fit_descent(evidence: Evidence, rows: pd.DataFrame) -> dict[str, DescentSlope]:
    """The difference of shares of models by a line along the tree: at the likeliest λ, and where
    all is descent."""
    k = build_covariance(evidence, rows)
    x = np.column_stack([np.ones(len(rows)), rows["focal"].to_numpy(np.float64)])
    y = rows["dampens"].to_numpy(np.float64)
    made = {
        "λ estimated": estimate_descent_slope(y, x, k, 1),
        "λ = 1": estimate_descent_slope(y, x, k, 1, descent=1.0),
    }
    return {name: row for name, row in made.items() if row is not None}


def find_twins(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Facts that can hardly be separated from EleutherAI, and who dampens with and without them.

    `with_`, `without`: dampening models and models, of the lab and of the others.
    """
    focal = rows["focal"].astype(bool)
    found = []
    for row in find_confounded(rows, focal, DESIGN).to_dict("records"):
        has = rows[row["fact"]].astype(str) == row["value"]
        counts = [
            (int(rows.loc[at, "dampens"].sum()), int(at.sum()))
            for at in (has & focal, has & ~focal, ~has & focal, ~has & ~focal)
        ]
        value = "" if row["value"] == "True" else f" {row['value']}"
        found.append(row | {"words": f"{DESIGN[row['fact']]}{value}", "dampen": counts})
    return found


def is_claimed_order(drawn: Mapping[str, Any]) -> Any:
    """Whether the labs' mean log gains lie as claimed."""
    own = f"{OF_LAB}{FOCAL}"
    others = [drawn[name] > 0 for name in drawn if name.startswith(OF_LAB) and name != own]
    return np.all([drawn[own] < 0, *others], axis=0)


def fit_lab_means(evidence: Evidence, descent: Mapping[str, DescentSlope]) -> Inference:
    """The heritage model's means of labs, and the rows under descent."""
    rows = select_heritage_rows(evidence, "penultimate_gain", PYTHIA, HUNT)
    fit = fit_heritage(rows, estimand="penultimate_gain", seed=HERITAGE_SEED)
    found = fit.table("labs")
    below = zip(found["heritage"], found["probability_dampens"], strict=True)
    said = join_words([f"{name} {format_number(float(p), 2)}" for name, p in below])
    caption = (
        f"Effect of every lab on the log gain, partially pooled, with P(mean of its models below "
        f"1): {said}."
    )
    rows = pd.DataFrame([{"row": name, **vars(one)} for name, one in descent.items()])
    return Inference(
        fit,
        tables={"labs": found, "models": fit.table("models"), DESCENT: rows},
        panels=(
            Panel(name="labs", draw=lambda axes: draw_lab_forest(found, axes), caption=caption),
        ),
        statements={LABS.statement: is_claimed_order},
    )


def judge_audited(evidence: Evidence, gain: Case) -> Result:
    """The test over families, with what the audit says of the study's figures."""
    rows = find_signs(evidence, gain)
    stated = audit.load_stated_shares(evidence)
    (a, b), (c, d) = counts = audit.count_dampening(rows, "value")
    below = rows[rows["dampens"] & rows["clear"]]
    above = rows[~rows["dampens"] & rows["clear"]]
    words = {"a": a, "inside": a + b, "c": c, "outside": c + d, "stated": stated}
    words |= {"both_sides": sorted(set(below["heritage"]) & set(above["heritage"]))}
    if a:
        words |= {"share": run_barnard_exact(counts), "fisher": run_fisher_exact(counts).p_value}
        words |= {"fisher_stated": stated.run_fisher_test(a + b, c + d)}
    return EXCEPTIONS(rows).adding(words=words)


@CLAIM.finding(
    "sign", primary=FIXES_THE_SIGN, robustness=LABS, over=(GAIN,), trial=FIX, views=VIEWS
)
def judge_penultimate(evidence: Evidence, gain: Case) -> Result:
    """The study's gain, by a test over families and by the heritage model's means of labs."""
    every = models(evidence)
    ordered = every.sort_values(["heritage", "gain"], ascending=[False, True])
    words = {
        "shown": len(every),
        "focal": every.loc[every["heritage"] == FOCAL, "gain"],
        "hunt": audit.count_dampening(build_source_features(evidence, HUNT), "penultimate_gain"),
        "exceptions": every[(every["heritage"] != FOCAL) & (every["gain"] < 1)].to_dict("records"),
        "means": every.groupby("heritage")["gain"].mean(),
        "twins": find_twins(find_signs(evidence, gain)),
        "descent": (descent := fit_descent(evidence, find_signs(evidence, gain))),
    }
    return judge_audited(evidence, gain).adding(
        table=every[
            ["model_id", "heritage", "family", "gain", "lower", "upper", "n_prompts", "comparable"]
        ],
        draw=prepare_drawing(
            draw_forest,
            ordered,
            label="model_id",
            estimate="gain",
            heritage="heritage",
            null=1.0,
            xlabel=GAINS_AXIS,
        ),
        audit=audit.check_lab_signs(evidence, every),
        words=words,
        inference=fit_lab_means(evidence, descent),
    )


def permute_whole_labs(rows: pd.DataFrame) -> float:
    """p of a difference as large as EleutherAI's, labs moved whole: the share of labs that lie as
    far from the rest."""
    share = rows.groupby("heritage")["dampens"].mean()
    apart = (share - (share.sum() - share) / (len(share) - 1)).abs()
    return float((apart >= apart[FOCAL] - TIE).mean())


@CLAIM.finding("difference", primary=DIFFERS, over=(GAIN,), trial=DIFFER, views=VIEWS)
def judge_difference(evidence: Evidence, gain: Case) -> Result:
    """Whether EleutherAI's models dampen more often than those of other labs, whatever single
    models do."""
    rows = find_signs(evidence, gain)
    alike = rows[rows["norm_kind"] == LAYER_NORM]
    below = rows[rows["dampens"]]
    words = {
        "labs": rows["heritage"].nunique(),
        "whole_labs": permute_whole_labs(rows),
        "below": len(below),
        "below_alike": int((below["norm_kind"] == LAYER_NORM).sum()),
        "alike": FAMILIES(alike.reset_index(drop=True)) if alike["focal"].nunique() == 2 else None,
    }
    return FAMILIES(rows).adding(words=words)


CLAIM.curve(
    f"difference.{GAIN.id}",
    rows=curves.collect_universe_rows,
    choices=curves.SIGNS,
    estimate=build_fraction_difference("focal", "family"),
    null=permute_between_labs(lab="clade"),
    test=lambda rows: FAMILIES(curves.mark_sides(rows)),
)


if __name__ == "__main__":
    CLAIM.main()
