"""N04: the sign of the gain is fixed early in training, and tuning cannot change it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import PUBLISHED, Claim, Estimate, Evidence, Result, TooFew
from thermostats.claims.rule import Above, AtLeast, Decide, Each, Posterior, Some, V
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.laws.pairs import fit_invariance
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import MUTED, paired
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.by_prompt import TWIN, gain_by_prompt
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, checkpoints
from thermostats.studies.nursery.signs import (
    development,
    draw_training,
    fixed_from,
    gains_of_pairs,
    log_gains,
    pair_table,
    standard_errors,
)
from thermostats.tables.vocabulary import NURSERY

SEED = 104
GAIN = "last_gain"
MOSTLY, MOST_FLIPS, NEGLIGIBLE = 0.9, 0.10, 0.05
PAIRS_WITHOUT_A_FLIP = int(np.ceil(np.log(0.025) / np.log(1 - MOST_FLIPS)))
"""Pairs without a flip that an upper limit below MOST_FLIPS takes."""
CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Moment:
    """A share of training, in words, and the factor of the recipe that colours its figure."""

    id: str
    share: float
    words: str
    factor: str


MOMENTS = (Moment("tenth", 0.1, "10% of training", "init"), Moment("start", 0.0, "initialisation", "optimiser"))


def at(logs: pd.DataFrame) -> tuple[float, float] | None:
    """Shares of models whose sign is final from a tenth of training, and from its start; None without models."""
    fixed = fixed_from(logs)
    return (float(fixed[0.1].mean()), float(fixed[0.0].mean())) if len(logs) else None


@CLAIM.finding(
    "sign",
    primary=Above("share of models", MOSTLY),
    robustness=Posterior(f"share > {MOSTLY:g}"),
    over=MOMENTS,
    **CONTROLLED,
)
def sign(evidence: Evidence, moment: Moment) -> Result:
    """Has the log gain the sign that it keeps to the end?"""
    rows = checkpoints(evidence)
    kept = rows[rows["comparable"]]
    logs = log_gains(kept, GAIN)
    models = kept[~kept["tuned"]].drop_duplicates("model", keep="last").set_index("model").loc[logs.index].reset_index()
    ENOUGH.of(models)
    table = development(logs, models["recipe"])
    row = table.set_index("share").loc[moment.share]
    holds = models.assign(sign_is_final=fixed_from(logs)[moment.share].to_numpy())
    fit = fit_share(holds, "sign_is_final", against=MOSTLY, group="recipe", sources=[NURSERY], seed=SEED)
    clear = (np.abs(np.log(models[f"{GAIN}_geometric"])) > 2 * standard_errors(models, GAIN)).to_numpy()
    interval = "95 % Korn–Graubard interval, recipes as groups"
    share = Estimate(row["estimate"], row["lower"], row["upper"], interval)
    return Result.of(
        models,
        {"share of models": share},
        table=table if moment.share else None,
        draw=draw_training(logs, models, moment.factor),
        fit=fit,
        fit_tables=("groups",),
        words={
            "row": row,
            "learned": at(logs[models["learned"].astype(bool).to_numpy()]),
            "clear": at(logs[clear]),
            "penultimate": at(log_gains(kept[kept["n_layers"] > 2], "penultimate_gain")),
            "dampen": int((logs.iloc[:, -1] < 0).sum()),
        },
    )


@CLAIM.shared
def pairs(evidence: Evidence) -> tuple[pd.DataFrame, Fitted]:
    """A trained model and the same trained on, on the other corpus: their table and the fit."""
    gains = gains_of_pairs(evidence, GAIN)
    gains = gains[gains["norm_place"] != "post"].reset_index(drop=True)
    table = pair_table(gains, seed=SEED)
    if 2 * len(table) < PAIRS.models:
        raise TooFew(Result(n_models=2 * len(table)))
    return table, fit_invariance(gains, margin=1 + NEGLIGIBLE, seed=SEED)


FLIPS, RATIO = V("pairs that change sides"), V("ratio")
CANNOT = Decide((FLIPS <= 0) & (V("share of flips").upper < MOST_FLIPS), FLIPS > 0)
NO_FLIP = Posterior("no pair changes the sign of its mean log gain", refuted=FLIPS > 0)
SOME_MOVES = Posterior(f"some pair changes by more than {NEGLIGIBLE:.0%}")
MOVED = Decide(
    Some("pairs", (RATIO.lower > 1) | (RATIO.upper < 1)),
    Each("pairs", (RATIO.lower > 1 - NEGLIGIBLE) & (RATIO.upper < 1 + NEGLIGIBLE)),
)
PAIRS = AtLeast(models=16)


@CLAIM.finding("tuning.sign", primary=CANNOT, robustness=NO_FLIP, evidence=NURSERY, needs=PAIRS)
def tuning_sign(evidence: Evidence) -> Result:
    """Does any tuned model stand on the other side of 1 than the model it was tuned from?"""
    table, fit = pairs(evidence)
    published = evidence.named(PUBLISHED)
    models = published.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    before = pair_table(gain_by_prompt(published, GAIN, TWIN).merge(models, on="model_id"), seed=SEED)
    flips, shown = int(table["flips"].sum()), table.assign(pair=table["model_id"].str.removeprefix(f"{NURSERY}/"))

    def draw(axes: Axes) -> None:
        for position, row in enumerate(shown.itertuples()):
            axes.hlines(position - 0.22, row.base_lower, row.base_upper, color=MUTED, linewidth=1.2)
            axes.hlines(position + 0.22, row.tuned_lower, row.tuned_upper, color=MUTED, linewidth=1.2)
        own = shown.drop(columns="heritage")
        paired(own, axes, before="base_gain", after="tuned_gain", label="pair", names=("trained", "tuned"))
        log_axis(axes, "x")
        axes.set_xlabel("last gain, geometric mean over prompts with 95 % interval")

    share = Estimate.of(proportion(flips, len(table)), "Clopper–Pearson exact interval, 95 %")
    both = [table.assign(study="here, by design"), before.assign(study="published, C11")]
    drawn = fit.sampled["changes"]
    holds = ((drawn["level"] > 0) == (drawn["level"] + drawn["change"] > 0)).all(axis=-1)
    return Result.of(
        table,
        {"share of flips": share, FLIPS.name: Estimate(flips)},
        n_models=2 * len(table),
        table=pd.concat(both, ignore_index=True),
        draw=draw,
        fit=fit,
        fit_tables=("pairs", "new_pair", "shown"),
        statements={NO_FLIP.statement: holds},
        words={
            "flips": flips,
            "pairs": len(table),
            "by_means": int(table["other_side"].sum()),
            "dampened": int((table["base_upper"] < 1).sum()),
            "expanded": int((table["base_lower"] > 1).sum()),
            "published": len(before),
            "published_flips": int(before["flips"].sum()),
            "published_change": float(np.exp(np.log(before["ratio"]).abs().max())),
            "change": float(np.exp(np.log(table["ratio"]).abs().max())),
            "needed": PAIRS_WITHOUT_A_FLIP,
        },
    )


@CLAIM.finding("tuning.magnitude", primary=MOVED, robustness=SOME_MOVES, evidence=NURSERY, needs=PAIRS)
def tuning_magnitude(evidence: Evidence) -> Result:
    """By how much does tuning change the gain?"""
    table, fit = pairs(evidence)
    moved = (table["ratio_lower"] > 1) | (table["ratio_upper"] < 1)
    most = table.loc[np.log(table["ratio"]).abs().idxmax()]
    interval = f"paired t interval of the log ratio over prompts, {100 * (1 - 0.05 / len(table)):.1f} %"
    change = np.abs(np.expm1(fit.sampled["changes"]["change"]))
    return Result.of(
        table,
        {"ratio": Estimate(most["ratio"], most["ratio_lower"], most["ratio_upper"], interval, most["p"])},
        n_models=2 * len(table),
        table=None,
        rows={"pairs": table},
        fit=fit,
        fit_tables=("pairs",),
        statements={SOME_MOVES.statement: (change > NEGLIGIBLE).any(axis=-1)},
        words={"moved": int(moved.sum()), "pairs": len(table), "most": most["model_id"]},
    )


if __name__ == "__main__":
    CLAIM.main()
