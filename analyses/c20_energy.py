"""C20: the product of gains over the blocks is above 1 in every family."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import PUBLISHED, Claim, Estimate, Evidence, Result, Trial, Views
from thermostats.claims.model_rows import model_rows
from thermostats.claims.rule import Decide, Each, Posterior, Some, V
from thermostats.claims.worlds import worlds_of_mean
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026.amplification import amplification, product_audit, published_product

SEED = 20
STATED, APART = float(np.log(124)), 1.0
"""Mean log amplification of models, that of the smallest stated product (null: 0), and their standard deviation."""
INTERVAL = "Clopper–Pearson exact interval of the share of families, 95%"
NET = V("amplification")
BELOW = Some("comparable models", NET.upper < 1)
AMPLIFY = Decide(Each("comparable models", NET.lower > 1) & (V("share of families").lower > 0.5), BELOW)

MOST = Posterior("share > 0.5", draws=V("share") > 0.5, refuted=BELOW)

CLAIM = Claim.read(__file__)


def figure(rows: pd.DataFrame, xlabel: str, label: str = "model_id") -> Callable[[Axes], None]:
    """Amplification by model, or one row a family."""
    options = {"estimate": "amplification", "heritage": "heritage", "null": 1.0}
    return drawing(forest, rows, label=label, xlabel=xlabel, log="x", **options)


def logs(table: pd.DataFrame) -> pd.DataFrame:
    """Comparable models with the log amplification and half its interval; without prompts a product counts as exact."""
    half = np.log(table["upper"] / table["lower"]) / 2 if "lower" in table else pd.Series(np.nan, table.index)
    known = table.assign(log=np.log(table["amplification"]), half=half.astype(float).fillna(0.0))
    return known[known["comparable"]].reset_index(drop=True)


def share(rows: pd.DataFrame) -> Result:
    """Families all of whose models lie above 1, and the exact interval of their share."""
    ends = {name: np.exp(rows["log"] + sign * rows["half"]) for name, sign in (("lower", -1), ("upper", 1))}
    fair = rows.assign(amplification=np.exp(rows["log"]), **ends)
    families = (
        fair.assign(amplifies=fair["lower"] > 1).groupby(["heritage", "family"], as_index=False)["amplifies"].all()
    )
    found = proportion(int(families["amplifies"].sum()), len(families))
    return Result(
        quantities={"share of families": Estimate.of(found, INTERVAL)},
        rows={"comparable models": fair, "families": families},
        n_models=len(fair),
        n_groups=fair["heritage"].nunique(),
        words={
            "k": int(families["amplifies"].sum()),
            "families": len(families),
            "least": fair.loc[fair["amplification"].idxmin()],
        },
    )


def of_models(evidence: Evidence) -> pd.DataFrame:
    """Models over the blocks after the first."""
    if evidence.name != PUBLISHED:
        rows = model_rows(evidence, "total_amplification")
        half = (rows["upper"] / rows["gain"] - 1).fillna(0.0)
        return rows[rows["comparable"]].assign(log=rows["log_gain"], half=half)
    return logs(amplification(evidence, seed=SEED))


def of_products(evidence: Evidence) -> pd.DataFrame:
    """The study's products."""
    return logs(published_product(evidence))


WORLDS = worlds_of_mean("log", STATED, 0.0, APART)


@CLAIM.finding(
    "families", primary=AMPLIFY, robustness=MOST, trial=Trial(of_models, share, "", WORLDS), views=Views(models=4)
)
def families(evidence: Evidence) -> Result:
    """Does every family amplify over the blocks after the first?"""
    table = amplification(evidence, seed=SEED)
    found = share(logs(table))
    fair, by_family = found.rows["comparable models"], found.rows["families"]
    rows = by_family.assign(model_id=by_family["family"])
    fit = fit_share(rows, "amplifies", sources=[CLAIM.source], seed=SEED)
    shown = fair.assign(least=fair.groupby("family")["amplification"].transform("min")).sort_values("least")
    draw = figure(shown, "net amplification, blocks after the first", "family")
    words = {
        "shown": shown,
        "left_out": list(table.loc[~table["comparable"], "model_id"]),
        "over_root": float(fair["over_root_of_L"].median()),
        "under_root": int((fair["over_root_of_L"] < 1).sum()),
    }
    return found.adding(table=table, draw=draw, words=words, fit=fit, fit_tables=("groups",))


@CLAIM.finding("with_input_and_norm", primary=AMPLIFY, trial=Trial(of_products, share, "", WORLDS))
def with_input_and_norm(evidence: Evidence) -> Result:
    """The study's product, over block 1 and the final norm, all tokens pooled."""
    table = published_product(evidence)
    shown = table.assign(lower=table["without_block_1"], upper=table["amplification"])
    draw = figure(shown, "product of all gains (point), without block 1 (end of bar)")
    words = {
        "first": float((np.log(table["of_block_1"]) / np.log(table["amplification"])).median()),
        "smallest": table.loc[table["blocks_2_to_before_last"].idxmin()],
    }
    return share(logs(table)).adding(table=table, draw=draw, words=words, audit=product_audit(evidence, table))


if __name__ == "__main__":
    CLAIM.main()
