"""C20: the product of gains over the blocks is above 1 in every family."""

from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.claim import PUBLISHED, Claim, Evidence, Inference, Result, Trial, Views
from thermostats.claims.rule import Always, Each, Gate, Posterior, V
from thermostats.claims.worlds import build_mean_worlds
from thermostats.modelling.shares import fit_share
from thermostats.studies.delia2026.amplification import (
    BELOW,
    check_product,
    declare_amplifying,
    load_published_product,
    measure_amplification,
)
from thermostats.studies.delia2026.curves import draw_net_amplification
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import model_rows

SEED = 20
STATED, APART = float(np.log(124)), 1.0
"""Mean log amplification of models, that of the smallest stated product (null: 0), and their
standard deviation."""
NET = V("amplification")
MODELS = "comparable models"
AMPLIFY = Always(BELOW, Gate(Each(MODELS, NET.lower > 1)) & (V("share of families").lower > 0.5))

MOST = Posterior("share > 0.5", draws=V("share") > 0.5, refuted=AMPLIFY.against)

CLAIM = Claim.read(__file__)


def add_log_amplification(table: pd.DataFrame) -> pd.DataFrame:
    """Comparable models with the log amplification and half its interval; without prompts a product
    counts as exact."""
    half = (
        np.log(table["upper"] / table["lower"]) / 2
        if "lower" in table
        else pd.Series(np.nan, table.index)
    )
    known = table.assign(log=np.log(table["amplification"]), half=half.astype(float).fillna(0.0))
    return known[known["comparable"]].reset_index(drop=True)


SHARE = declare_amplifying(MODELS)


def load_models(evidence: Evidence) -> pd.DataFrame:
    """Models over the blocks after the first."""
    if evidence.name != PUBLISHED:
        rows = drop_unlabelled(model_rows(evidence, "total_amplification"), "heritage")
        half = (rows["upper"] / rows["gain"] - 1).fillna(0.0)
        return rows.assign(log=rows["log_gain"], half=half)
    return add_log_amplification(measure_amplification(evidence, seed=SEED))


def load_products(evidence: Evidence) -> pd.DataFrame:
    """The study's products."""
    return add_log_amplification(load_published_product(evidence))


MODELS_APART = build_mean_worlds("log", STATED, 0.0, APART, measured="total_amplification")
PRODUCTS_APART = build_mean_worlds("log", STATED, 0.0, APART)
"""The study's product, over block 1 and the final norm, is another quantity of four models, whose
bounds are declared."""


@CLAIM.finding(
    "families",
    primary=AMPLIFY,
    robustness=MOST,
    trial=Trial(load_models, SHARE, "", MODELS_APART),
    views=Views(models=4),
)
def judge_families(evidence: Evidence) -> Result:
    """Does every family amplify over the blocks after the first?"""
    table = measure_amplification(evidence, seed=SEED)
    found = SHARE(add_log_amplification(table))
    fair = found.rows[MODELS]
    by_family = found.rows["families"]
    rows = by_family.assign(model_id=by_family["family"])
    later = partial(fit_share, rows, "amplifies", sources=[CLAIM.basis.source], seed=SEED)
    shown = fair.assign(least=fair.groupby("family")["amplification"].transform("min")).sort_values(
        "least"
    )
    draw = draw_net_amplification(shown, "net amplification, blocks after the first", "family")
    words = {
        "shown": shown,
        "left_out": list(table.loc[~table["comparable"], "model_id"]),
        "over_root": float(fair["over_root_of_L"].median()),
        "under_root": int((fair["over_root_of_L"] < 1).sum()),
    }
    return found.adding(
        table=table, draw=draw, words=words, inference=Inference(later=later, tables=("groups",))
    )


@CLAIM.finding(
    "with_input_and_norm", primary=AMPLIFY, trial=Trial(load_products, SHARE, "", PRODUCTS_APART)
)
def judge_product(evidence: Evidence) -> Result:
    """The study's product, over block 1 and the final norm, all tokens pooled."""
    table = load_published_product(evidence)
    shown = table.assign(lower=table["without_block_1"], upper=table["amplification"])
    draw = draw_net_amplification(
        shown, "product of all gains (point), without block 1 (end of bar)"
    )
    words = {
        "first": float((np.log(table["of_block_1"]) / np.log(table["amplification"])).median()),
        "smallest": table.loc[table["blocks_2_to_before_last"].idxmin()],
    }
    return SHARE(add_log_amplification(table)).adding(
        table=table, draw=draw, words=words, audit=check_product(evidence, table)
    )


if __name__ == "__main__":
    CLAIM.main()
