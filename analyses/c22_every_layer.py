"""C22: a model that dampens passes on a little less at every layer."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    Claim,
    Estimate,
    Evidence,
    Result,
    Test,
    TooFew,
    Trial,
    Views,
)
from thermostats.claims.noise import Noise, Random
from thermostats.claims.rule import Decide, V
from thermostats.claims.worlds import (
    TOTAL,
    Outcomes,
    World,
    Worlds,
    build_errors,
    build_mean_worlds,
    build_shift_worlds,
)
from thermostats.formatting import format_declared
from thermostats.modelling.classical.many import Many, estimate_differences, estimate_means
from thermostats.plots.general import draw_lines_by_layer, prepare_drawing
from thermostats.studies.delia2026.block_gains import collect_block_gains
from thermostats.studies.delia2026.stated_audits import FOCAL

SEED = 22
EVERY, HALF = 1.0, 0.5
"""Difference between labs in the share of blocks below 1 as the words have it, all of one lab's and
none of others'; and half of it."""
STATED = 0.99 / 1.01
"""What a block passes on in a model that loses over what it passes on in one that gains, as the
account has them."""
BLOCKS = 10
"""Blocks before the last in which labs are compared, the deepest ones of every model that has so
many."""
SHARE = V("difference in the share")
DEPTH = V("blocks from the end")
EARLIER = V("earlier blocks")
OF_BLOCKS = V("share of blocks")
MOST_BLOCKS = Decide(OF_BLOCKS.lower > HALF, OF_BLOCKS.upper < HALF)
MOSTLY = Decide(SHARE.lower > HALF, SHARE.upper < HALF)
ALIKE = Decide(EARLIER.upper < 0, EARLIER.lower > 0)
"""Of a difference that is the same at every block the earlier blocks have more than half of the
penultimate one's."""
INTERVAL = "95% t interval over families"
MOVED = "p-value, families moved whole"
RESAMPLES = 500
LEAST = 4
"""Models without which no mean share has an interval to speak of."""
LEVEL = 0.95
AT = tuple(f"block L − {k}" for k in range(1, BLOCKS + 1))
"""Columns: log gain of a block by its distance from the end, the penultimate one first."""
CLAIM = Claim.read(__file__)

load_block_gains = CLAIM.shared(collect_block_gains)


def summarise_models(blocks: pd.DataFrame) -> pd.DataFrame:
    """One row a model: how many of its blocks there are and lie below 1, their share, and its
    penultimate gain."""
    named = ["model_id", "heritage", "family", "source", "n_layers", "focal"]
    ordered = blocks.sort_values("layer").assign(below=lambda t: t["log_gain"] < 0)
    rows = ordered.groupby(named, as_index=False).agg(
        blocks=("below", "size"),
        below=("below", "sum"),
        share=("below", "mean"),
        penultimate=("log_gain", "last"),
    )
    return rows.astype({"share": float})


def select_shares(evidence: Evidence) -> pd.DataFrame:
    """The rows on which the first rule decides."""
    return summarise_models(load_block_gains(evidence))


def compare_labs(rows: pd.DataFrame, values: np.ndarray, name: str) -> dict[str, Many]:
    """Mean over EleutherAI's families less the mean over the others', of values study × row."""
    return {
        name: estimate_differences(values, rows["focal"].to_numpy(bool), rows["family"], seed=SEED)
    }


def compare_shares(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Difference between EleutherAI and the others in the share of a model's blocks below 1."""
    return compare_labs(rows, outcomes["share"], SHARE.name)


def select_dampening(evidence: Evidence) -> pd.DataFrame:
    """Models whose penultimate gain is below 1, with the shares of their other blocks: that block
    chose them."""
    rows = select_shares(evidence)
    chosen = rows[rows["penultimate"] < 0].reset_index(drop=True)
    others = chosen.assign(blocks=chosen["blocks"] - 1, below=chosen["below"] - 1)
    return others.assign(share=others["below"] / others["blocks"])


def estimate_mean_share(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Mean over models of the share of blocks below 1; raises TooFew below `LEAST` models."""
    if len(rows) < LEAST:
        raise TooFew(Result.build(rows))
    return {OF_BLOCKS.name: estimate_means(outcomes["share"], HALF)}


MEAN = Test(estimate_mean_share, ("share",), "95% t interval over models")
DIFFERENCE = Test(compare_shares, ("share",), INTERVAL, MOVED)
BESIDE = (POOLED, EXTERNAL, MEASURED)
"""The controlled study is of one lab."""
VIEWS = Views(models=6, groups=2, including=(FOCAL,), sets=BESIDE)
DAMPENING = Trial(
    select_dampening, MEAN, "model_id", build_mean_worlds("share", EVERY, 0.0, TOTAL, "family")
)
SHARES = Trial(
    select_shares,
    DIFFERENCE,
    "family",
    build_shift_worlds(
        "share", EVERY, TOTAL, by="focal", group="family", measured="share_of_blocks"
    ),
)


@CLAIM.finding(
    "dampening", primary=MOST_BLOCKS, trial=DAMPENING, views=Views(models=LEAST, sets=BESIDE)
)
def judge_dampening_models(evidence: Evidence) -> Result:
    """Whether most blocks of a model lie below 1 whose penultimate one does."""
    rows = select_dampening(evidence)
    shown = rows.drop(columns=["focal", "source"]).assign(penultimate=np.exp(rows["penultimate"]))
    return MEAN(rows).adding(table=shown, words=count_blocks(rows))


@CLAIM.finding("every_layer", primary=MOSTLY, trial=SHARES, views=VIEWS)
def judge_every_layer(evidence: Evidence) -> Result:
    """Whether blocks of EleutherAI's models lie below 1 that do not in others."""
    blocks = load_block_gains(evidence)
    rows = summarise_models(blocks)
    shown = blocks.assign(
        gain=np.exp(blocks["log_gain"]), blocks_before_the_last=blocks["layer"] - blocks["n_layers"]
    )
    shown["labs"] = np.where(shown["focal"], FOCAL, "other labs")
    return DIFFERENCE(rows).adding(
        table=rows.drop(columns=["focal", "source"]).assign(
            penultimate=np.exp(rows["penultimate"])
        ),
        draw=prepare_drawing(
            draw_lines_by_layer, shown, y="gain", x="blocks_before_the_last", null=1.0, by="labs"
        ),
        words={
            "own": count_blocks(rows[rows["focal"]]),
            "others": count_blocks(rows[~rows["focal"]]),
        },
    )


def count_blocks(rows: pd.DataFrame) -> dict[str, int]:
    """Models, their blocks, and how many of these lie below 1."""
    return {
        "models": len(rows),
        "blocks": int(rows["blocks"].sum()),
        "below": int(rows["below"].sum()),
    }


def select_last_blocks(evidence: Evidence) -> pd.DataFrame:
    """One row a model of enough blocks: log gains of the `BLOCKS` before the last one, by distance
    from the end."""
    blocks = load_block_gains(evidence)
    placed = blocks.assign(at=blocks["n_layers"] - blocks["layer"])
    wide = placed[placed["at"] <= BLOCKS].pivot(index="model_id", columns="at", values="log_gain")
    wide = wide.reindex(columns=range(1, BLOCKS + 1)).set_axis(list(AT), axis=1).dropna()
    return summarise_models(blocks).merge(wide.reset_index(), on="model_id")


def find_step(profile: np.ndarray) -> np.ndarray:
    """Blocks K of the step that fits differences d_1 … d_n best: d̄ up to block K and 0 beyond,
    least squares.

    The sum of squares that it takes off is (d_1 + … + d_K)² / K.
    """
    return np.asarray(
        (np.cumsum(profile, axis=-1) ** 2 / np.arange(1, profile.shape[-1] + 1)).argmax(axis=-1) + 1
    )


def estimate_depth(rows: pd.DataFrame) -> Estimate:
    """Blocks from the end within which labs differ; interval: families drawn anew on each side."""
    means = rows.groupby(["focal", "family"])[list(AT)].mean()
    rng = np.random.default_rng(SEED)
    sides = [means.loc[side].to_numpy() for side in (True, False)]
    drawn = [
        side[rng.integers(len(side), size=(RESAMPLES, len(side)))].mean(axis=1) for side in sides
    ]
    ends = np.quantile(
        find_step(drawn[0] - drawn[1]), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf"
    )
    value = int(find_step(sides[0].mean(axis=0) - sides[1].mean(axis=0)))
    return Estimate(value, float(ends[0]), float(ends[1]), "95% bootstrap interval over families")


def measure_earlier_excess(values: Mapping[str, Any]) -> np.ndarray:
    """Mean log gain of the earlier blocks less half of the penultimate one's."""
    earlier = np.mean([np.asarray(values[name], np.float64) for name in AT[1:]], axis=0)
    return np.asarray(earlier - np.asarray(values[AT[0]], np.float64) / 2)


def compare_distances(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Whether earlier blocks have more than half of the penultimate one's difference."""
    return compare_labs(rows, measure_earlier_excess(outcomes), EARLIER.name)


def describe_distance(rows: pd.DataFrame, result: Result) -> Result:
    """The result headed by the depth within which labs differ."""
    return result.adding(quantities={DEPTH.name: estimate_depth(rows), **result.quantities})


DISTANCE = Test(compare_distances, AT, INTERVAL, MOVED, describe_distance)


def simulate_blocks(part: float, rows: pd.DataFrame, noise: Noise, _: Random) -> Outcomes:
    """The penultimate block lowered by as much as stated where the lab is EleutherAI, earlier ones
    by a part of it.

    Half of the errors' variance is a model's in all of its blocks.
    """
    lowered = np.log(STATED) * rows["focal"].to_numpy(np.float64)
    common = noise(rows)
    errors = {name: TOTAL * (common + noise(rows)) / 2**0.5 for name in AT}
    return {name: lowered * (1.0 if name == AT[0] else part) + errors[name] for name in AT}


AT_REST, BOX = build_errors("focal", ordered=False, group="family")


def build_profile_world(part: float, *, kind: str, **nuisances: Any) -> World:
    """The world of a part; in a sample without end the earlier blocks have (part − 1/2) log
    `STATED`."""
    errors = replace(AT_REST, kind=kind, **nuisances)
    words = (
        f"earlier blocks with a part {format_declared(part)} of the penultimate one's difference, "
        f"{errors.words}"
    )
    large = Result(quantities={EARLIER.name: Estimate((part - 0.5) * float(np.log(STATED)))})
    return World(words, partial(simulate_blocks, part), errors, large)


PROFILES = Trial(
    select_last_blocks,
    DISTANCE,
    "family",
    Worlds(build_profile_world, claimed=1.0, null=0.0, box=BOX),
    version=2,
)


@CLAIM.finding("from_the_end", primary=ALIKE, trial=PROFILES, views=VIEWS)
def judge_end_distance(evidence: Evidence) -> Result:
    """Within how many blocks from the end labs differ."""
    rows = select_last_blocks(evidence)
    families = rows.groupby(["focal", "family"])[list(AT)].mean()
    sides = families.groupby(level="focal").mean()
    ratios = np.exp(sides.loc[True] - sides.loc[False])
    table = pd.DataFrame({"block": list(AT), "ratio EleutherAI / others": ratios.to_numpy()})
    return DISTANCE(rows).adding(table=table, words={"within": BLOCKS, "profile": ratios})


if __name__ == "__main__":
    CLAIM.main()
