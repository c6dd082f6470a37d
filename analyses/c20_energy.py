"""C20: the product of gains over the blocks is above 1 in every family."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Decide, Each, Posterior, Some, V
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026.amplification import amplification, product_audit, published_product

SEED = 20
INTERVAL = "Clopper–Pearson exact interval of the share of families, 95 %"
NET = V("amplification")
BELOW = Some("comparable models", NET.upper < 1)
AMPLIFY = Decide(Each("comparable models", NET.lower > 1) & (V("share of families").lower > 0.5), BELOW)

MOST = Posterior("share > 0.5", draws=V("share") > 0.5, refuted=BELOW)

CLAIM = Claim.read(__file__)


def figure(rows: pd.DataFrame, xlabel: str) -> Callable[[Axes], None]:
    """Amplification by model."""
    options = {"estimate": "amplification", "heritage": "heritage", "null": 1.0}
    return drawing(forest, rows, label="model_id", xlabel=xlabel, log="x", **options)


def share(table: pd.DataFrame) -> dict[str, Any]:
    """Families all of whose comparable models lie above 1, and the exact interval of their share.

    A product without an interval over prompts counts as exact.
    """
    known = table.reindex(columns=[*table, "lower", "upper"]) if "lower" not in table else table
    known = known.assign(**{end: known[end].fillna(known["amplification"]) for end in ("lower", "upper")})
    fair = known[known["comparable"]]
    families = (
        fair.assign(amplifies=fair["lower"] > 1).groupby(["heritage", "family"], as_index=False)["amplifies"].all()
    )
    k = int(families["amplifies"].sum())
    found = proportion(k, len(families))
    return {
        "quantities": {"share of families": Estimate(k / len(families), found.lower, found.upper, INTERVAL)},
        "rows": {"comparable models": fair, "families": families},
        "n_models": len(fair),
        "n_groups": fair["heritage"].nunique(),
        "table": table,
        "words": {"k": k, "families": len(families), "least": fair.loc[fair["amplification"].idxmin()], "shown": known},
    }


@CLAIM.finding("families", primary=AMPLIFY, robustness=MOST)
def families(evidence: Evidence) -> Result:
    """Does every family amplify over the blocks after the first?"""
    table = amplification(evidence, seed=SEED)
    found = share(table)
    fair, shown = found["rows"]["comparable models"], found["words"]["shown"]
    rows = found["rows"]["families"].assign(model_id=found["rows"]["families"]["family"])
    fit = fit_share(rows, "amplifies", sources=[CLAIM.source], seed=SEED)
    found["draw"] = figure(shown, "net amplification over the blocks after the first (log scale)")
    found["words"] |= {
        "left_out": list(table.loc[~table["comparable"], "model_id"]),
        "over_root": float(fair["over_root_of_L"].median()),
        "under_root": int((fair["over_root_of_L"] < 1).sum()),
    }
    return Result(**found, fit=fit, fit_tables=("groups",))


@CLAIM.finding("with_input_and_norm", primary=AMPLIFY)
def with_input_and_norm(evidence: Evidence) -> Result:
    """The study's product, over block 1 and the final norm, all tokens pooled."""
    table = published_product(evidence)
    found = share(table)
    shown = table.assign(lower=table["without_block_1"], upper=table["amplification"])
    found["draw"] = figure(shown, "product of all gains (point) and without block 1 (end of the bar); log scale")
    found["words"] |= {
        "first": float((np.log(table["of_block_1"]) / np.log(table["amplification"])).median()),
        "smallest": table.loc[table["blocks_2_to_before_last"].idxmin()],
    }
    return Result(**found, audit=product_audit(evidence, table))


if __name__ == "__main__":
    CLAIM.main()
