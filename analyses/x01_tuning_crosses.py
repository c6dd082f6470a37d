"""X01: tuning can move the gain of the last block across 1."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import MEASURED, Case, Claim, Evidence, Result, Test, Trial
from thermostats.claims.common_tests import EXACT_95
from thermostats.claims.rule import AtLeast, Sometimes, V
from thermostats.claims.worlds import build_level_worlds
from thermostats.errors import UsageError
from thermostats.formatting import strip_owner
from thermostats.modelling.classical.many import (
    Many,
    estimate_means,
    estimate_shares,
    take_group_means,
    transform_logs,
    wrap_counts,
)
from thermostats.plots.general import draw_slopes

OF_MODELS, ENDS = "gains", ("gain", "gain_lower", "gain_upper")
"""Gains of models as the test gives them, which are shown by pair."""
MOST, SCATTER = 0.10, 0.02
"""Share of tuned models that cross under "it can", as in C11; SD of a log gain over inputs, with
which 1.04 lies above 1 on nearly every one of 100."""
LEAST_CATEGORIES = 3
"""Categories of inputs of a model: with fewer its gain has no interval, and it is left out."""
BEFORE = float(np.log(0.95))
AFTER = float(np.log(1.04))
CROSS = V("tuned encoders that cross 1")
SHARE = V("share that cross 1")
CAN = Sometimes(CROSS.name, SHARE.upper < MOST)
POSITIONS = {"cls": "at the class token", "mean": "geometric mean over the input's own tokens"}
QUANTITIES = {
    "gain_block": "gain of the last block",
    "gain_sum_mlp": "sum before the last norm over its input",
}
CLAIM = Claim.read(__file__)


@CLAIM.shared
def load_last_blocks(evidence: Evidence, over: Case) -> pd.DataFrame:
    """Log gains of the last block by input: encoders that were tuned from a measured one, and those
    it was tuned from.

    `role` is base or tuned, `base_id` the model that it is compared with; same inputs alone.
    Models of fewer than LEAST_CATEGORIES categories of inputs are left out.
    """
    models = evidence.table("models", modality="encoder")[
        ["model_id", "revision", "n_layers", "parent"]
    ]
    rows = evidence.table("layers", modality="encoder", position=over.id).dropna(subset=over.column)
    rows = rows.merge(models, on=["model_id", "revision"]).query("layer == n_layers")
    prompts = evidence.table("prompts")[["prompt_set", "prompt_id", "category"]]
    rows = rows.merge(prompts, on=["prompt_set", "prompt_id"]).assign(
        log_gain=lambda f: np.log(f[over.column])
    )
    kinds = rows.groupby("model_id")["category"].transform("nunique")
    rows = rows[kinds >= LEAST_CATEGORIES]
    tuned = rows[rows["parent"].isin(rows["model_id"])].assign(
        role="tuned", base_id=lambda f: f["parent"]
    )
    bases = rows[rows["model_id"].isin(tuned["parent"])].assign(
        role="base", base_id=lambda f: f["model_id"]
    )
    keys = ["base_id", "prompt_set", "prompt_id"]
    both = pd.concat([bases, tuned.merge(bases[keys], on=keys)], ignore_index=True)
    return both[["model_id", "heritage", *keys, "category", "role", "log_gain"]]


def count_crossings(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """How many tuned encoders stand clear of 1 on the other side than their base, and the gain of
    every one over categories of inputs, as inputs of a category may be alike.

    Raises UsageError where none was tuned.
    """
    if not (pairs := name_pairs(rows)):
        raise UsageError("no encoder was tuned from another", got=f"{len(rows)} rows")
    parts = rows.assign(place=np.arange(len(rows))).groupby("model_id", sort=False)
    gain = {}
    for model, own in parts:
        logs = take_group_means(outcomes["log_gain"][:, own["place"]], own["category"])
        gain[model] = estimate_means(logs, least=LEAST_CATEGORIES)
    crosses = [_is_crossing(gain[base], gain[model]) for model, base in pairs]
    by_pair = np.stack(crosses, axis=1)
    gains = [{"gain": transform_logs(each)} for each in gain.values()]
    counts = {SHARE.name: estimate_shares(by_pair), CROSS.name: wrap_counts(by_pair.sum(axis=1))}
    return {**counts, OF_MODELS: gains}


def name_pairs(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Tuned encoders, each with its base."""
    tuned = rows[rows["role"] == "tuned"]
    pairs = tuned[["model_id", "base_id"]].drop_duplicates()
    return list(zip(pairs["model_id"], pairs["base_id"], strict=True))


def describe_crossings(rows: pd.DataFrame, result: Result) -> Result:
    """Pairs with both gains, and those that cross."""
    names = list(dict.fromkeys(rows["model_id"]))
    known = result.rows[OF_MODELS].set_axis(names, axis=0)
    by_model = {str(model): own for model, own in rows.groupby("model_id", sort=False)}
    pairs = []
    for model, base in name_pairs(rows):
        before, after = (tuple(known.loc[name, list(ENDS)]) for name in (base, model))
        own = by_model[model]
        pairs.append(
            {
                "model_id": model,
                "heritage": own["heritage"].iloc[0],
                "base_id": base,
                "base": before[0],
                "gain": after[0],
                "base_lower": before[1],
                "base_upper": before[2],
                "lower": after[1],
                "upper": after[2],
                "prompts_above": (own["log_gain"] > 0).sum(),
                "base_prompts_above": (by_model[base]["log_gain"] > 0).sum(),
                "n_prompts": len(own),
                "crosses": (before[2] < 1 < after[1]) or (after[2] < 1 < before[1]),
            }
        )
    table = pd.DataFrame(pairs)
    return replace(
        result,
        n_models=len(names),
        rows={},
        table=table,
        words={"pairs": table, "crossing": table[table["crosses"]]},
    )


CROSSINGS = Test(count_crossings, ("log_gain",), EXACT_95, describe=describe_crossings)


def _is_crossing(base: Many, tuned: Many) -> Any:
    return ((base.upper < 0) & (tuned.lower > 0)) | ((tuned.upper < 0) & (base.lower > 0))


def answer(evidence: Evidence, over: Case) -> Result:
    """Does tuning move the gain of the last block, norm included, or the sum before the norm,
    across 1?"""
    rows = AtLeast(models=2).check_rows(load_last_blocks(evidence, over))
    found = CROSSINGS(rows)
    models = evidence.table("models", modality="encoder")
    left = models[(models["parent"] != "") & ~models["model_id"].isin(rows["model_id"])]

    def draw(axes: Axes) -> None:
        table = found.words["pairs"]
        shown = table.assign(pair=[strip_owner(model) for model in table["model_id"]])
        before = ("base", "base_lower", "base_upper")
        after = ("gain", "lower", "upper")
        draw_slopes(shown, axes, before=before, after=after, label="pair", names=("base", "tuned"))
        axes.set_ylabel(f"{QUANTITIES[over.column]}, {over.words}")

    return found.adding(draw=draw, words={"left_out": left})


def build_trial(kind: str, over: Case) -> Trial:
    """The test at a position, in worlds whose errors go as far as residuals there allow; kind:
    `gain` or `sum`."""
    worlds = build_level_worlds(
        "log_gain",
        {"base": BEFORE, "tuned": AFTER},
        {"base": BEFORE, "tuned": 0.0},
        SCATTER,
        unit="role",
        measured=f"{over.id}_{kind}_prompts",
    )
    return Trial(load_last_blocks, CROSSINGS, "category", worlds, "prompt")


for asked, column, kind in (("sign", "gain_block", "gain"), ("sum", "gain_sum_mlp", "sum")):
    cases = [Case(position, words, column) for position, words in POSITIONS.items()]
    trial = partial(build_trial, kind)
    CLAIM.finding(asked, primary=CAN, trial=trial, evidence=MEASURED, over=cases)(answer)


if __name__ == "__main__":
    CLAIM.main()
