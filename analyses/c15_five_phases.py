"""C15: anisotropy over depth has five phases, not three.

Claim: the anisotropy of the residual stream, followed from block 1 to block L, shows five phases and not three.
Estimand: per model the difference in BIC between the best three and the best five straight pieces of the curve
"anisotropy of x_l over l" (mean over prompts); over models, the share that prefers five.
Rule: the unit is the model. A model prefers five where its BIC is at least MARGIN lower with five pieces than with
three, and three where it is MARGIN higher; models with fewer than LEAST_LAYERS blocks cannot show five pieces and are
left out. Supported where the exact 95 % interval of the share preferring five, among those that prefer one, lies above
one half; against where it lies below. Everything else is inconclusive, and without measured anisotropy the claim needs
measurement. Beside the interval a posterior of the share, labs alike within: P(share > one half) at least 0.95
supports, at most 0.05 is against; the verdict is what both come to, and is inconclusive where they differ or where a
check of the fit fails. Fewer than LEAST_JUDGED models that prefer one of the two are not fitted and are inconclusive.
Models trained here, apart, by the same rule, the recipe in the place of the lab, at the end of training; beside them
the same models before training, where a phase cannot have been learned. The claim's verdict stays that of other models.
Source: appendix C, which prints no figures; no file holds anisotropy.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import OPEN, SENTENCES, UNMEASURED, if_above
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.laws.phases import LEAST_POINTS, phases
from thermostats.modelling.laws.share import fit_share
from thermostats.plots.general import lines_by_layer
from thermostats.studies.nursery.norms import at_the_end
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import number

SAID, RIVAL = 5, 3
MARGIN = 6.0
LEAST_LAYERS = SAID * LEAST_POINTS
LEAST_JUDGED = 6
"""Models without which no share has an exact 95 % interval above one half."""
START = "step00000"
SEED = 15

CLAIM = Claim(
    id="C15",
    title="Anisotropy over depth has five phases, not three",
    said=f"Followed layer by layer, anisotropy shows {SAID} phases where earlier work saw {RIVAL}.",
    estimand=f"share of models whose curve of anisotropy over layers prefers {SAID} straight pieces to {RIVAL} by BIC",
    rule=f"A model prefers {SAID} where BIC falls by {MARGIN:g} or more from {RIVAL} to {SAID} pieces, {RIVAL} where "
    "it rises by as much. Supported where the exact 95 % interval of the share lies above one half, against where "
    "below, and where the posterior says the same; without measured anisotropy: needs measurement. Models trained "
    "here: the same rule, apart.",
    source="Appendix C; no file",
    rows="study and measured",
)


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Anisotropy by model and layer, mean over prompts, of models deep enough to show five pieces."""
    rows = rows[rows["anisotropy"].notna() & (rows["layer"].astype(float) > 0)]
    mean = rows.groupby(["model_id", "heritage", "layer"], as_index=False)["anisotropy"].mean()
    deep = mean.groupby("model_id")["layer"].transform("size") >= LEAST_LAYERS
    return mean[deep].astype({"layer": float, "anisotropy": float})


def preferences(table: pd.DataFrame) -> pd.DataFrame:
    """One row a model: fall of BIC from three pieces to five, the number of pieces of the lowest BIC, and a verdict."""
    rows = []
    for (model, heritage), curve in table.groupby(["model_id", "heritage"]):
        found = phases(curve["layer"], curve["anisotropy"])
        gain = found[RIVAL].bic - found[SAID].bic
        prefers = SAID if gain >= MARGIN else RIVAL if gain <= -MARGIN else 0
        best = min(found, key=lambda k: found[k].bic)
        rows.append(
            {"model_id": model, "heritage": heritage, "bic_gain_of_five": gain, "best_number": best, "prefers": prefers}
        )
    return pd.DataFrame(rows, columns=["model_id", "heritage", "bic_gain_of_five", "best_number", "prefers"])


def judged(table: pd.DataFrame, estimand: str, sources: list[str]) -> Finding:
    """The share of models that prefer five, by its exact interval and, where there are enough, by its posterior."""
    models = preferences(table)
    decided = models[models["prefers"] > 0]
    five, n = int((decided["prefers"] == SAID).sum()), len(decided)
    share = proportion(five, n) if n else None
    lower, upper = (share.lower, share.upper) if share else (0.0, 1.0)
    verdict = if_above(lower, upper, 0.5) if n >= LEAST_JUDGED else OPEN

    def draw(axes: Axes) -> None:
        lines_by_layer(table, axes, y="anisotropy")

    said = (
        f"Of {len(models)} models deep enough to show it, {SAID} phases of anisotropy fit better than {RIVAL} in "
        f"{five}, {RIVAL} better than {SAID} in {n - five}, and the rest could be either"
    )
    found = Finding(
        claim="C15",
        estimand=estimand,
        verdict=verdict,
        plain=f"{SENTENCES[verdict]}: {said[0].lower()}{said[1:]}. The share among those that prefer one lies between "
        f"{number(lower)} and {number(upper)}.",
        estimate=share.estimate if share else None,
        lower=lower,
        upper=upper,
        interval="Clopper–Pearson exact interval, 95 %",
        probability=share.p_value if share else None,
        probability_kind="p-value" if share else "",
        n_models=len(models),
        n_heritages=models["heritage"].nunique(),
        table=models,
        draw=draw,
        caption=f"Anisotropy over layers, mean over prompts. {said}.",
    )
    if n < LEAST_JUDGED:
        return found
    fit = fit_share(decided.assign(five=decided["prefers"] == SAID), "five", sources=sources, seed=SEED)
    told = posterior_of(
        fit,
        model=f"Share of models that prefer {SAID} phases among those that prefer {SAID} or {RIVAL}, by lab or recipe.",
        statement="share > 0.5",
        classical=verdict,
        tables=["groups"],
    )
    return beside(found, fit, told)


def trained(tables: Evidence) -> Finding:
    """The finding on models trained here, with the same models before training in its notes and table."""
    name = "share of models trained here with five phases of anisotropy"
    table = curves(at_the_end(tables, "layers"))
    if table.empty:
        return Finding(
            claim="C15",
            estimand=name,
            verdict=UNMEASURED,
            plain=f"{SENTENCES[UNMEASURED]}: the tables hold no model trained here of at least {LEAST_LAYERS} blocks.",
        )
    found = judged(table, name, [NURSERY])
    recipes = table.groupby("model_id")["heritage"].first()
    before = tables.table("layers", source=NURSERY, revision=START).drop(columns="heritage")
    start = preferences(curves(before.assign(heritage=before["model_id"].map(recipes)).dropna(subset="heritage")))
    both = preferences(table).merge(start, on=["model_id", "heritage"], suffixes=("", "_before"), how="left")
    five = int((start["prefers"] == SAID).sum())
    top = int((both["best_number"] >= SAID).sum())
    return replace(
        found,
        group="recipe",
        table=both,
        notes=(
            f"The same models before any training: {SAID} phases fit better than {RIVAL} in {five} of {len(start)}. "
            "A phase that is there at the start is one of the architecture and its initial weights, not a learned one.",
            f"In {top} of {len(both)} models no fewer than {SAID} pieces have the lowest BIC. With {LEAST_LAYERS} "
            f"points no more than {SAID} pieces can be tried, so that a smooth curve, which straight pieces follow "
            "better the more they are, cannot be told from one with borders; a preference for more pieces is no proof "
            "of phases.",
            f"{len(both)} models of {LEAST_LAYERS} blocks, small and trained for a short time: what large ones do is a "
            "hypothesis.",
        ),
    )


def analyse(tables: Evidence) -> list[Finding]:
    """The share of models that prefer five phases, or that it needs measurement; then the models trained here."""
    rows = tables.table("layers")
    table = curves(rows)
    name = "share of models with five phases of anisotropy"
    if not table.empty:
        measured = rows.loc[rows["model_id"].isin(table["model_id"]), "source"]
        return [judged(table, name, sorted(set(measured))), trained(tables)]
    own = trained(tables)
    beside_it = f" On models trained here the finding is apart, and reads “{own.verdict}”." * (
        own.verdict != UNMEASURED
    )
    return [
        Finding(
            claim="C15",
            estimand=name,
            verdict=UNMEASURED,
            plain="How anisotropy runs over depth is in none of the published files, so the number of its phases has "
            f"to be measured. The preprint names five phases and prints no figure that could be checked.{beside_it}",
            notes=(
                f"Asked for: the column anisotropy of the table layers for models of at least {LEAST_LAYERS} blocks.",
            ),
        ),
        own,
    ]


if __name__ == "__main__":
    run(CLAIM, analyse)
