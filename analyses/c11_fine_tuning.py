"""C11: fine-tuning changes the magnitude of the gain (up to 50%) and cannot change its sign."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
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
from thermostats.claims.common_tests import count_share
from thermostats.claims.result import OF_LAW
from thermostats.claims.rule import Always, AtLeast, Decide, Each, Posterior, Some, V
from thermostats.claims.worlds import build_level_worlds, build_share_worlds
from thermostats.formatting import strip_owner
from thermostats.modelling.classical.many import estimate_means, take_group_means, transform_logs
from thermostats.modelling.draws import Statement
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritability import BranchChange, estimate_branch_change
from thermostats.modelling.pairs import fit_invariance, is_changing_sides
from thermostats.plots.general import draw_slopes
from thermostats.studies.delia2026 import tuned_pairs
from thermostats.studies.delia2026.anomalies import check_derived
from thermostats.studies.delia2026.prompt_gains import TWIN
from thermostats.studies.nursery import steered
from thermostats.tables.schemas import INTERVENED

SEED = 11
LEAST_CATEGORIES = 3
"""Categories of prompts over which a pair's ratio has an interval."""
MOST_FLIPS, NEGLIGIBLE, STATED = 0.10, 0.05, -0.5
"""Share of pairs that flip under "it can", a change that is none, and the one that the claim
states."""
PARTS = ("geometric", "lower", "upper")
"""Columns of a pair's gains, after `base_` and `instruct_`."""
SHARE = V("share of pairs that flip")
FLIPS = V("pairs that flip")
RATIO = V("ratio")
CANNOT = Always(FLIPS.name, SHARE.upper < MOST_FLIPS)
"""A pair flips where both its 95% intervals exclude 1, on opposite sides."""
MOVED = (RATIO.lower > 1) | (RATIO.upper < 1)
STILL = (RATIO.lower > 1 - NEGLIGIBLE) & (RATIO.upper < 1 + NEGLIGIBLE)
KEEPS = Posterior("no related pair changes the sign of its mean log gain", refuted=CANNOT.against)
CLAIM = Claim.read(__file__)


@CLAIM.shared
def build_pairs(evidence: Evidence) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All pairs, and those of a base and a model tuned from it."""
    table = tuned_pairs.build_pairs(evidence, seed=SEED)
    return table, table[table["base_and_child"].astype(bool)].reset_index(drop=True)


def select_related(evidence: Evidence) -> pd.DataFrame:
    """Pairs of a base and a model tuned from it."""
    return build_pairs(evidence)[1]


def count_models(true: pd.DataFrame, result: Result) -> Result:
    """A result over pairs with two models each."""
    return replace(result, n_models=2 * len(true))


FLIPPED = replace(count_share(SHARE.name, "flips", true=FLIPS.name), describe=count_models)
"""How many pairs flip, with the exact interval of their share."""


def measure_ratios(evidence: Evidence) -> pd.DataFrame:
    """Log ratios of tuned to base by prompt, related pairs; `build_pairs`: how many intervals are
    given."""
    table, true = build_pairs(evidence)
    return tuned_pairs.log_ratios(evidence, true).assign(pairs=len(table))


def change_pairs(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """The ratio of every pair, over categories of prompts.

    Over prompts "supported" would be false in 28% of studies in which a category's prompts are
    alike.
    """
    level = find_pair_level(rows)
    found = []
    for _, own in rows.assign(place=np.arange(len(rows))).groupby("model_id", sort=False):
        logs = take_group_means(outcomes["log_ratio"][:, own["place"]], own["category"])
        found.append(
            {RATIO.name: transform_logs(estimate_means(logs, level=level, least=LEAST_CATEGORIES))}
        )
    return {"pairs": found}


def find_pair_level(rows: pd.DataFrame) -> float:
    """Level of every pair's interval, Bonferroni over all pairs."""
    return 1 - 0.05 / int(rows["pairs"].iloc[0])


def describe_pairs(rows: pd.DataFrame, result: Result) -> Result:
    """The result headed by the largest change, pairs by name."""
    shown = ["ratio", "ratio_lower", "ratio_upper", "p", f"{RATIO.name}{OF_LAW}"]
    true = result.rows["pairs"].reindex(columns=shown)
    true.insert(0, "model_id", list(dict.fromkeys(rows["model_id"])))
    most = true.loc[np.log(true["ratio"]).abs().idxmax()]
    level = 100 * find_pair_level(rows)
    kind = f"t interval of the log ratio over categories of prompts, {level:.1f}%"
    known = Estimate(most["ratio"], most["ratio_lower"], most["ratio_upper"], kind, most["p"])
    moved = (true["ratio_lower"] > 1) | (true["ratio_upper"] < 1)
    return replace(
        result,
        quantities={RATIO.name: known},
        n_models=2 * len(true),
        rows={"pairs": true},
        words={"most": most, "moved": int(moved.sum())},
    )


CHANGES = Test(change_pairs, ("log_ratio",), describe=describe_pairs)


@CLAIM.shared
def fit_related(evidence: Evidence) -> Fit:
    """The fit to the related pairs."""
    return fit_invariance(
        tuned_pairs.collect_prompt_gains(evidence), margin=1 + NEGLIGIBLE, seed=SEED
    )


STATEMENTS: Mapping[str, Statement] = {
    KEEPS.statement: lambda q: ~is_changing_sides(q).any(axis=-1)
}
TABLES = {"pairs": "pairs", "new pair": "new_pair", "shown": "shown"}
"""Tables of the fit on the page, by title."""
DESCENT = "tuning as branches of the tree of descent"


def fit_branch_change(true: pd.DataFrame) -> BranchChange | None:
    """Pairs as branches from base to tuned model, each of which changes the log gain by a step of
    its own."""
    if true.empty:
        return None
    return estimate_branch_change(
        *(np.log(true[f"{end}_geometric"].to_numpy(np.float64)) for end in ("base", "instruct"))
    )


def build_branch_table(found: BranchChange | None) -> dict[str, pd.DataFrame]:
    """The table of the page, where there is one."""
    return {} if found is None else {DESCENT: pd.DataFrame([vars(found)])}


VIEWS = Views(models=2)
LEAST = AtLeast(models=1)
ACROSS = build_share_worlds("flips", 0.0, MOST_FLIPS)
LEVELS = build_level_worlds("log_ratio", np.log1p(STATED), 0.0, measured="tuned_ratio_prompts")
SIGN = Trial(select_related, FLIPPED, "", ACROSS, "pair")
MAGNITUDE = Trial(measure_ratios, CHANGES, "category", LEVELS, "prompt")


@CLAIM.finding("sign", primary=CANNOT, robustness=KEEPS, trial=SIGN, views=VIEWS)
def judge_sign(evidence: Evidence) -> Result:
    """Does any tuned model stand on the other side of 1 than its base?"""
    (table, true), fit = build_pairs(evidence), fit_related(evidence)
    branches = fit_branch_change(true)
    tables = {name: fit.table(of) for name, of in TABLES.items()} | build_branch_table(branches)

    def draw(axes: Axes) -> None:
        ends = np.where(table["base_and_child"], "", " (not base and child)")
        shown = table.assign(
            pair=[f"{strip_owner(m)}{end}" for m, end in zip(table["model_id"], ends, strict=True)]
        )
        before, after = ([f"{when}_{part}" for part in PARTS] for when in ("base", "instruct"))
        draw_slopes(shown, axes, before=before, after=after, label="pair")
        axes.set_ylabel("gain of the last block")

    return FLIPPED(true).adding(
        table=table,
        draw=draw,
        audit=tuned_pairs.check_counts(evidence, table),
        inference=Inference(fit, tables=tables, statements=STATEMENTS),
        words={
            "branches": branches,
            "pairs": table,
            "related": true,
            "dampeners": int((table["base_upper"] < 1).sum()),
            "needed": int(np.ceil(np.log(0.025) / np.log(1 - MOST_FLIPS))),
            "most": MOST_FLIPS,
            "new": fit.table("new_pair").set_index("pair").loc["any pair"],
            "follows": check_derived(evidence, TWIN),
        },
    )


def select_penultimate(evidence: Evidence) -> pd.DataFrame:
    """Pairs whose penultimate gains are known."""
    return LEAST.check_rows(tuned_pairs.build_penultimate_pairs(evidence))


OF_PENULTIMATE = replace(SIGN, rows=select_penultimate)


@CLAIM.finding(
    "sign_penultimate",
    primary=CANNOT,
    trial=OF_PENULTIMATE,
    evidence=POOLED,
    needs=LEAST,
    views=Views(models=2, sets=(EXTERNAL, MEASURED)),
)
def judge_sign_penultimate(evidence: Evidence) -> Result:
    """The same of pairs that are known by the gain of the block before the last."""
    rows = select_penultimate(evidence)
    return FLIPPED(rows).adding(table=rows, words={"rows": rows.to_dict("records")})


@CLAIM.finding(
    "steered",
    primary=steered.CROSSED,
    evidence=INTERVENED,
    needs=steered.STEERED,
    over=steered.GAINS,
    group="recipe",
)
def crossed_on_purpose(evidence: Evidence, gain: Case) -> Result:
    """Can tuning that aims at it move a gain across 1, and at what price?"""
    return steered.count_crossed(steered.judge_steered(evidence), gain)


@CLAIM.finding(
    "magnitude",
    primary=Decide(Some("pairs", MOVED), Each("pairs", STILL)),
    trial=MAGNITUDE,
    views=VIEWS,
)
def judge_magnitude(evidence: Evidence) -> Result:
    """By how much does tuning change the gain?"""
    table, true = build_pairs(evidence)
    return CHANGES(measure_ratios(evidence)).adding(
        table=table,
        audit=tuned_pairs.check_gains(evidence, table),
        words={"related": true, "branches": fit_branch_change(true)},
    )


if __name__ == "__main__":
    CLAIM.main()
