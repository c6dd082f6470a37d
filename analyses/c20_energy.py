"""C20: the product of gains over the blocks is above 1 in every family."""

from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.claim import PUBLISHED, Claim, Evidence, Inference, Result, Trial, Views
from thermostats.claims.rule import Always, Each, Gate, Posterior, V
from thermostats.claims.worlds import worlds_of_mean
from thermostats.modelling.shares import fit_share
from thermostats.studies.delia2026.curves import net_amplification
from thermostats.studies.delia2026.gains_of_claims import (
    BELOW,
    amplification,
    declare_amplifying,
    product_audit,
    published_product,
)
from thermostats.tables.labels import having
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


def logs(table: pd.DataFrame) -> pd.DataFrame:
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


def of_models(evidence: Evidence) -> pd.DataFrame:
    """Models over the blocks after the first."""
    if evidence.name != PUBLISHED:
        rows = having(model_rows(evidence, "total_amplification"), "heritage")
        half = (rows["upper"] / rows["gain"] - 1).fillna(0.0)
        return rows.assign(log=rows["log_gain"], half=half)
    return logs(amplification(evidence, seed=SEED))


def of_products(evidence: Evidence) -> pd.DataFrame:
    """The study's products."""
    return logs(published_product(evidence))


WORLDS = worlds_of_mean("log", STATED, 0.0, APART)


@CLAIM.finding(
    "families",
    primary=AMPLIFY,
    robustness=MOST,
    trial=Trial(of_models, SHARE, "", WORLDS),
    views=Views(models=4),
)
def families(evidence: Evidence) -> Result:
    """Does every family amplify over the blocks after the first?"""
    table = amplification(evidence, seed=SEED)
    found = SHARE(logs(table))
    fair = found.rows[MODELS]
    by_family = found.rows["families"]
    rows = by_family.assign(model_id=by_family["family"])
    later = partial(fit_share, rows, "amplifies", sources=[CLAIM.basis.source], seed=SEED)
    shown = fair.assign(least=fair.groupby("family")["amplification"].transform("min")).sort_values(
        "least"
    )
    draw = net_amplification(shown, "net amplification, blocks after the first", "family")
    words = {
        "shown": shown,
        "left_out": list(table.loc[~table["comparable"], "model_id"]),
        "over_root": float(fair["over_root_of_L"].median()),
        "under_root": int((fair["over_root_of_L"] < 1).sum()),
    }
    return found.adding(
        table=table, draw=draw, words=words, inference=Inference(later=later, tables=("groups",))
    )


@CLAIM.finding("with_input_and_norm", primary=AMPLIFY, trial=Trial(of_products, SHARE, "", WORLDS))
def with_input_and_norm(evidence: Evidence) -> Result:
    """The study's product, over block 1 and the final norm, all tokens pooled."""
    table = published_product(evidence)
    shown = table.assign(lower=table["without_block_1"], upper=table["amplification"])
    draw = net_amplification(shown, "product of all gains (point), without block 1 (end of bar)")
    words = {
        "first": float((np.log(table["of_block_1"]) / np.log(table["amplification"])).median()),
        "smallest": table.loc[table["blocks_2_to_before_last"].idxmin()],
    }
    return SHARE(logs(table)).adding(
        table=table, draw=draw, words=words, audit=product_audit(evidence, table)
    )


if __name__ == "__main__":
    CLAIM.main()
