"""Net amplification of the published models over their blocks, and the study's product of gains."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Audit, Estimate, Result
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.classical.means import one_sample
from thermostats.studies.delia2026.by_prompt import LAST_GAIN_FILES, one_run_each
from thermostats.studies.delia2026.gains import FOUR, gains
from thermostats.studies.delia2026.stated import audit_by_model
from thermostats.tables.prompt_rows import gain_by_prompt

OFFSET = 1e-10
"""The study adds it to a gain before taking the logarithm; the published products have it in every factor."""
BELOW = "models clearly below 1"
INTERVAL = "Clopper–Pearson exact interval of the share of families, 95%"
BY_MODEL = {
    "product of {}": r"/results/[^/]+/final_cumulative",
    "{}, % of gains below 1": r"/results/[^/]+/contracting_pct",
    "{}, % of gains from 1 on": r"/results/[^/]+/expanding_pct",
}


def amplification(tables: Evidence, *, seed: int) -> pd.DataFrame:
    """One row per model: n_L/n_1 over prompts where measured, else n_(L-1)/n_1 of the mean gains, at the last token."""
    rows = one_run_each(gain_by_prompt(tables, "total_amplification", *LAST_GAIN_FILES))
    key, models = ["model_id", "heritage", "family"], []
    for (model, heritage, family), r in rows.groupby(key):
        d = one_sample(r["value"], against=1, log=True, seed=seed)
        models.append((model, heritage, family, "n_L/n_1", d.ratio, d.ratio_lower, d.ratio_upper, True))
    columns = [*key, "what", "amplification", "lower", "upper", "comparable"]
    measured, others = pd.DataFrame(models, columns=columns), gains(tables)
    others = others[~others["model_id"].isin(measured["model_id"]) & others["total_to_penultimate"].notna()]
    rest = others[[*key, "comparable"]].assign(what="n_(L-1)/n_1", amplification=others["total_to_penultimate"])
    both = pd.concat([measured, rest], ignore_index=True)
    depth = tables.table("models").drop_duplicates("model_id").set_index("model_id")["n_layers"].astype(float)
    both["over_root_of_L"] = both["amplification"] / np.sqrt(both["model_id"].map(depth))
    return both.sort_values("amplification", ascending=False, ignore_index=True)


def families_that_amplify(rows: pd.DataFrame, name: str) -> Result:
    """Families all of whose models lie above 1, and the exact interval of their share; a rule reads models by `name`.

    rows: one a model with heritage, family, `log` amplification and `half` its interval.
    """
    ends = {end: np.exp(rows["log"] + sign * rows["half"]) for end, sign in (("lower", -1), ("upper", 1))}
    models = rows.assign(amplification=np.exp(rows["log"]), **ends)
    families = (
        models.assign(amplifies=models["lower"] > 1).groupby(["heritage", "family"], as_index=False)["amplifies"].all()
    )
    k, n = int(families["amplifies"].sum()), len(families)
    share = Estimate.of(proportion(k, n), INTERVAL) if n else Estimate(None)
    least = models.loc[models["amplification"].idxmin()] if n else None
    words = {"k": k, "families": n, "least": least}
    rows_of = {name: models, "families": families}
    below = Estimate(int((models["upper"] < 1).sum()))
    return Result.of(models, {"share of families": share, BELOW: below}, rows=rows_of, table=None, words=words)


def published_product(tables: Evidence) -> pd.DataFrame:
    """The study's product and its parts, all tokens pooled: with and without block 1 and the final norm."""
    layers, summaries = tables.table("layers", source=FOUR), tables.table("summaries", source=FOUR)
    normed = summaries[summaries["estimand"] == "normed_gain_all_tokens"].set_index("model_id")["value"]
    rows = []
    for (model, heritage, family), r in layers.groupby(["model_id", "heritage", "family"]):
        g = r.sort_values("layer")["gain_block"].dropna().to_numpy(float)
        every = np.append(g, normed[model])
        product = float(np.prod(every))
        row = {"amplification": product, "comparable": True, "as_published": float(np.prod(every + OFFSET))}
        row |= {"below_1": 100 * float(np.mean(every < 1)), "of_block_1": g[0], "without_block_1": product / g[0]}
        row["blocks_2_to_before_last"] = float(np.prod(g[1:]))
        rows.append({"model_id": model, "heritage": heritage, "family": family, **row})
    return pd.DataFrame(rows).sort_values("amplification", ascending=False, ignore_index=True)


def product_audit(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Products and shares of gains below 1 of the file, by the names of `BY_MODEL`; `table`: `published_product`."""
    rows = ((row.model_id, (row.as_published, row.below_1, 100 - row.below_1)) for row in table.itertuples())
    return audit_by_model(tables, FOUR, BY_MODEL, rows)
