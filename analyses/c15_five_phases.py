"""C15: anisotropy over depth has five phases, not three."""

import pandas as pd

from thermostats.claims.claim import EVERY, Claim, Estimate, Evidence, Result
from thermostats.claims.rule import AtLeast, Decide, Posterior, V
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.phases import LEAST_POINTS, phases
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.plots.general import drawing, lines_by_layer
from thermostats.studies.nursery.rows import at_the_end
from thermostats.tables.vocabulary import NURSERY

SAID, RIVAL = 5, 3
MARGIN = 6.0
"""A model prefers one number of pieces where its BIC is lower by as much."""
LEAST_LAYERS = SAID * LEAST_POINTS
LEAST_JUDGED = 6
"""Models without which no share has an exact 95 % interval above one half."""
START = "step00000"
SEED = 15
ENOUGH, SHARE = V("models that prefer either") >= LEAST_JUDGED, V("share that prefers five")
ANY = AtLeast(models=1)
MOST = Decide(ENOUGH & (SHARE.lower > 0.5), ENOUGH & (SHARE.upper < 0.5))

CLAIM = Claim.read(__file__)


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Anisotropy by model and layer, mean over prompts, of models deep enough to show five pieces."""
    rows = rows[rows["anisotropy"].notna() & (rows["layer"].astype(float) > 0)]
    mean = rows.groupby(["model_id", "heritage", "layer"], as_index=False)["anisotropy"].mean()
    deep = mean.groupby("model_id")["layer"].transform("size") >= LEAST_LAYERS
    return mean[deep].astype({"layer": float, "anisotropy": float})


def preferences(table: pd.DataFrame) -> pd.DataFrame:
    """One row a model: fall of BIC from three pieces to five, the number of the lowest BIC, and what it prefers."""
    rows = []
    for (model, heritage), curve in table.groupby(["model_id", "heritage"]):
        found = phases(curve["layer"], curve["anisotropy"])
        gain = found[RIVAL].bic - found[SAID].bic
        prefers = SAID if gain >= MARGIN else RIVAL if gain <= -MARGIN else 0
        rows.append((model, heritage, gain, min(found, key=lambda k: found[k].bic), prefers))
    return pd.DataFrame(rows, columns=["model_id", "heritage", "bic_gain_of_five", "best_number", "prefers"])


def judged(table: pd.DataFrame, sources: list[str], start: pd.DataFrame | None = None) -> Result:
    """The share of models that prefer five; `start`: the same models before training."""
    models = preferences(table)
    decided = models[models["prefers"] > 0]
    five, n = int((decided["prefers"] == SAID).sum()), len(decided)
    share = Estimate(None, 0.0, 1.0)
    if n:
        k = proportion(five, n)
        share = Estimate.of(k, "Clopper–Pearson exact interval, 95 %", k.p_value)
    fit = None
    if n >= LEAST_JUDGED:
        fit = fit_share(decided.assign(five=decided["prefers"] == SAID), "five", sources=sources, seed=SEED)
    shown = models
    if start is not None:
        shown = models.merge(start, on=["model_id", "heritage"], suffixes=("", "_before"), how="left")
    return Result.of(
        models,
        {SHARE.name: share, "models that prefer either": Estimate(n)},
        table=shown,
        draw=drawing(lines_by_layer, table, y="anisotropy"),
        fit=fit,
        fit_tables=("groups",),
        words={
            "five": five,
            "three": n - five,
            "least": LEAST_LAYERS,
            "before": None if start is None else int((start["prefers"] == SAID).sum()),
            "started": 0 if start is None else len(start),
            "top": int((models["best_number"] >= SAID).sum()),
        },
    )


PREFERS = Posterior("share > 0.5")


@CLAIM.finding("phases.published", primary=MOST, robustness=PREFERS, evidence=EVERY, needs=ANY)
def others(evidence: Evidence) -> Result:
    """Models that others trained, of which no published file holds anisotropy."""
    rows = evidence.table("layers")
    table = ANY.of(curves(rows), least=LEAST_LAYERS)
    return judged(table, sorted(set(rows.loc[rows["model_id"].isin(table["model_id"]), "source"])))


@CLAIM.finding("phases.trained", primary=MOST, robustness=PREFERS, evidence=NURSERY, needs=ANY)
def trained(evidence: Evidence) -> Result:
    """Models trained here, at the end of training and before it."""
    table = ANY.of(curves(at_the_end(evidence, "layers")), least=LEAST_LAYERS)
    recipes = table.groupby("model_id")["heritage"].first()
    before = evidence.table("layers", source=NURSERY, revision=START).drop(columns="heritage")
    before = before.assign(heritage=before["model_id"].map(recipes)).dropna(subset="heritage")
    return judged(table, [NURSERY], preferences(curves(before)))


if __name__ == "__main__":
    CLAIM.main()
