"""X01: tuning can move the gain of the last block across 1."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import MEASURED, Case, Claim, Estimate, Evidence, Result, Trial
from thermostats.claims.rule import AtLeast, Sometimes, V
from thermostats.claims.worlds import worlds_of_levels
from thermostats.formatting import short_name
from thermostats.modelling.classical.association import one_sample
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.classical.many import Many, by_group, counted, means, shares
from thermostats.plots.general import slopes

SEED = 101
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
def last_blocks(evidence: Evidence, over: Case) -> pd.DataFrame:
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


def interval(own: pd.DataFrame) -> tuple[float, float, float]:
    """Gain with its t interval over categories of inputs, as inputs of a category may be alike."""
    found = one_sample(own["log_gain"], groups=own["category"], seed=SEED)
    return tuple(float(np.exp(x)) for x in (found.estimate, found.lower, found.upper))  # type: ignore[return-value]


def crossings(rows: pd.DataFrame) -> Result:
    """How many tuned encoders stand clear of 1 on the other side than their base."""
    known = {model: (interval(own), own) for model, own in rows.groupby("model_id", sort=False)}
    pairs = []
    for model, base in (
        rows.loc[rows["role"] == "tuned", ["model_id", "base_id"]].drop_duplicates().to_numpy()
    ):
        (b, b_low, b_high), before = known[base]
        (t, t_low, t_high), after = known[model]
        crosses = (b_high < 1 < t_low) or (t_high < 1 < b_low)
        above = {
            "prompts_above": (after["log_gain"] > 0).sum(),
            "base_prompts_above": (before["log_gain"] > 0).sum(),
        }
        ends = {"base_lower": b_low, "base_upper": b_high, "lower": t_low, "upper": t_high}
        one = {
            "model_id": model,
            "heritage": after["heritage"].iloc[0],
            "base_id": base,
            "base": b,
            "gain": t,
        }
        pairs.append({**one, **ends, **above, "n_prompts": len(after), "crosses": crosses})
    table = pd.DataFrame(pairs)
    n = int(table["crosses"].sum())
    share = Estimate.of(proportion(n, len(table)), "Clopper–Pearson exact interval, 95%")
    return Result(
        quantities={SHARE.name: share, CROSS.name: Estimate(n)},
        n_models=len(known),
        n_groups=rows["heritage"].nunique(),
        table=table,
        words={"pairs": table, "crossing": table[table["crosses"]]},
    )


def crossings_at_once(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """`crossings` of many studies."""
    parts = rows.assign(place=np.arange(len(rows))).groupby("model_id", sort=False)
    gain = {
        model: means(by_group(outcomes["log_gain"][:, own["place"]], own["category"]))
        for model, own in parts
    }
    pairs = rows.loc[rows["role"] == "tuned", ["model_id", "base_id"]].drop_duplicates().to_numpy()
    crosses = np.stack([_cross(gain[base], gain[model]) for model, base in pairs], axis=1)
    return {SHARE.name: shares(crosses), CROSS.name: counted(crosses.sum(axis=1))}


def _cross(base: Many, tuned: Many) -> Any:
    return ((base.upper < 0) & (tuned.lower > 0)) | ((tuned.upper < 0) & (base.lower > 0))


def answer(evidence: Evidence, over: Case) -> Result:
    """Does tuning move the gain of the last block, norm included, or the sum before the norm,
    across 1?"""
    rows = AtLeast(models=2).of(last_blocks(evidence, over))
    found = crossings(rows)
    models = evidence.table("models", modality="encoder")
    left = models[(models["parent"] != "") & ~models["model_id"].isin(rows["model_id"])]

    def draw(axes: Axes) -> None:
        table = found.words["pairs"]
        shown = table.assign(pair=[short_name(model) for model in table["model_id"]])
        before = ("base", "base_lower", "base_upper")
        after = ("gain", "lower", "upper")
        slopes(shown, axes, before=before, after=after, label="pair", names=("base", "tuned"))
        axes.set_ylabel(f"{QUANTITIES[over.column]}, {over.words}")

    return found.adding(draw=draw, words={"left_out": left})


WORLDS = worlds_of_levels(
    "log_gain",
    {"base": BEFORE, "tuned": AFTER},
    {"base": BEFORE, "tuned": 0.0},
    SCATTER,
    unit="role",
)
TRIAL = Trial(last_blocks, crossings, "category", WORLDS, "prompt", crossings_at_once)


for asked, column in (("sign", "gain_block"), ("sum", "gain_sum_mlp")):
    cases = [Case(position, words, column) for position, words in POSITIONS.items()]
    CLAIM.finding(asked, primary=CAN, trial=TRIAL, evidence=MEASURED, over=cases)(answer)


if __name__ == "__main__":
    CLAIM.main()
