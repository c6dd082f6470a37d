"""C11: fine-tuning changes the magnitude of the gain (up to 50 %) and cannot change its sign."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Decide, Each, Posterior, Some, V
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.pairs import fit_invariance
from thermostats.plots.general import MUTED, paired
from thermostats.studies.delia2026 import tuned_pairs
from thermostats.studies.delia2026.anomalies import follows
from thermostats.studies.delia2026.by_prompt import TWIN
from thermostats.words import short_name

SEED = 11
MOST_FLIPS, NEGLIGIBLE = 0.10, 0.05
SHARE, FLIPS, RATIO = V("share of pairs that flip"), V("pairs that flip"), V("ratio")
FLIPPED = FLIPS > 0
"""Both 95 % intervals of a pair exclude 1, on opposite sides: one such pair is enough against "cannot"."""
CANNOT = Decide((FLIPS <= 0) & (SHARE.upper < MOST_FLIPS), FLIPPED)
MOVED = (RATIO.lower > 1) | (RATIO.upper < 1)
STILL = (RATIO.lower > 1 - NEGLIGIBLE) & (RATIO.upper < 1 + NEGLIGIBLE)
KEEPS = Posterior("no related pair changes the sign of its mean log gain", refuted=FLIPPED)
MOVES = Posterior(f"some related pair changes by more than {NEGLIGIBLE:.0%}")
CLAIM = Claim.read(__file__)


@CLAIM.shared
def pairs(evidence: Evidence) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All pairs, and those of a base and a model tuned from it."""
    table = tuned_pairs.pairs(evidence, seed=SEED)
    return table, table[table["base_and_child"]]


@CLAIM.shared
def posterior(evidence: Evidence) -> dict[str, Any]:
    """One fit to the related pairs, and what both findings ask of it."""
    fit = fit_invariance(tuned_pairs.by_prompt(evidence), margin=1 + NEGLIGIBLE, seed=SEED)
    drawn = fit.sampled["changes"]
    level, change = drawn["level"], drawn["change"]
    flips, moved = (level > 0) != (level + change > 0), np.abs(np.expm1(change)) > NEGLIGIBLE
    return {"fit": fit, "statements": {KEEPS.statement: ~flips.any(axis=-1), MOVES.statement: moved.any(axis=-1)}}


@CLAIM.finding("sign", primary=CANNOT, robustness=KEEPS)
def sign(evidence: Evidence) -> Result:
    """Does any tuned model stand on the other side of 1 than its base?"""
    (table, true), fitted = pairs(evidence), posterior(evidence)
    share = proportion(int(true["flips"].sum()), len(true))
    new = fitted["fit"].table("new_pair").set_index("pair").loc["any pair"] if fitted["fit"] else None

    def draw(axes: Axes) -> None:
        for position, row in enumerate(table.itertuples()):
            axes.hlines(position - 0.22, row.base_lower, row.base_upper, color=MUTED, linewidth=1.2)
            axes.hlines(position + 0.22, row.instruct_lower, row.instruct_upper, color=MUTED, linewidth=1.2)
        ends = np.where(table["base_and_child"], "", " (not base and child)")
        shown = table.assign(pair=[f"{short_name(m)}{end}" for m, end in zip(table["model_id"], ends, strict=True)])
        paired(shown, axes, before="base_geometric", after="instruct_geometric", label="pair")
        axes.set_xlabel("gain of the last block, geometric mean over prompts with 95 % interval")

    return Result(
        quantities={
            SHARE.name: Estimate.of(share, "Clopper–Pearson exact interval, 95 %"),
            FLIPS.name: Estimate(int(true["flips"].sum())),
        },
        n_models=2 * len(true),
        n_groups=true["heritage"].nunique(),
        table=table,
        draw=draw,
        audit=tuned_pairs.counts_audit(evidence, table),
        fit_tables=("pairs", "new_pair", "shown"),
        words={
            "pairs": table,
            "related": true,
            "dampeners": int((table["base_upper"] < 1).sum()),
            "needed": int(np.ceil(np.log(0.025) / np.log(1 - MOST_FLIPS))),
            "most": MOST_FLIPS,
            "new": new,
            "follows": follows(evidence, TWIN),
        },
        **fitted,
    )


@CLAIM.finding("magnitude", primary=Decide(Some("pairs", MOVED), Each("pairs", STILL)), robustness=MOVES)
def magnitude(evidence: Evidence) -> Result:
    """By how much does tuning change the gain?"""
    table, true = pairs(evidence)
    moved = (true["ratio_lower"] > 1) | (true["ratio_upper"] < 1)
    most = true.loc[np.log(true["ratio"]).abs().idxmax()]
    kind = f"paired t interval of the log ratio over prompts, {100 * (1 - 0.05 / len(table)):.1f} %"
    return Result(
        quantities={RATIO.name: Estimate(most["ratio"], most["ratio_lower"], most["ratio_upper"], kind, most["p"])},
        n_models=2 * len(true),
        n_groups=true["heritage"].nunique(),
        rows={"pairs": true},
        table=table,
        audit=tuned_pairs.gains_audit(evidence, table),
        fit_tables=("pairs",),
        words={"related": true, "most": most, "moved": int(moved.sum())},
        **posterior(evidence),
    )


if __name__ == "__main__":
    CLAIM.main()
