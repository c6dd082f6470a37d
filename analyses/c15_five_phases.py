"""C15: anisotropy over depth has five phases, not three.

Claim: the anisotropy of the residual stream, followed from block 1 to block L, shows five phases and not three.
Estimand: per model the difference in BIC between the best three and the best five straight pieces of the curve
"anisotropy of x_l over l" (mean over prompts); over models, the share that prefers five.
Rule: the unit is the model. A model prefers five where its BIC is at least MARGIN lower with five pieces than with
three, and three where it is MARGIN higher; models with fewer than LEAST_LAYERS blocks cannot show five pieces and are
left out. Supported where the exact 95 % interval of the share preferring five, among those that prefer one, lies above
one half; against where it lies below. Everything else is inconclusive, and without measured anisotropy the claim needs
measurement.
Source: appendix C, which prints no figures; no file holds anisotropy.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.modelling.contingency import proportion
from thermostats.modelling.phases import LEAST_POINTS, phases
from thermostats.reporting.findings import Claim, Finding, Tables, run
from thermostats.reporting.plots import lines_by_layer
from thermostats.reporting.verdicts import SENTENCES, UNMEASURED, if_above
from thermostats.reporting.words import number

SAID, RIVAL = 5, 3
MARGIN = 6.0
LEAST_LAYERS = SAID * LEAST_POINTS

CLAIM = Claim(
    id="C15",
    title="Anisotropy over depth has five phases, not three",
    said=f"Followed layer by layer, anisotropy shows {SAID} phases where earlier work saw {RIVAL}.",
    estimand=f"share of models whose curve of anisotropy over layers prefers {SAID} straight pieces to {RIVAL} by BIC",
    rule=f"A model prefers {SAID} where BIC falls by {MARGIN:g} or more from {RIVAL} to {SAID} pieces, {RIVAL} where "
    "it rises by as much. Supported where the exact 95 % interval of the share lies above one half, against where "
    "below; without measured anisotropy: needs measurement.",
    source="Appendix C; no file",
)


def curves(tables: Tables) -> pd.DataFrame:
    """Anisotropy by model and layer, mean over prompts, of models deep enough to show five pieces."""
    rows = tables.read("layers")
    rows = rows[rows["anisotropy"].notna()]
    mean = rows.groupby(["model_id", "heritage", "layer"], as_index=False)["anisotropy"].mean()
    deep = mean.groupby("model_id")["layer"].transform("size") >= LEAST_LAYERS
    return mean[deep].astype({"layer": float, "anisotropy": float})


def analyse(tables: Tables) -> list[Finding]:
    """One finding: needs measurement, or the share of models that prefer five phases."""
    table = curves(tables)
    if table.empty:
        return [
            Finding(
                claim="C15",
                estimand="share of models with five phases of anisotropy",
                verdict=UNMEASURED,
                plain="How anisotropy runs over depth is in none of the published files, so the number of its "
                "phases has to be measured. The preprint names five phases and prints no figure that could be "
                "checked.",
                notes=(
                    f"Asked for: the column anisotropy of the table layers for models of at least {LEAST_LAYERS} "
                    "blocks.",
                ),
            )
        ]
    rows = []
    for (model, heritage), curve in table.groupby(["model_id", "heritage"]):
        found = phases(curve["layer"], curve["anisotropy"])
        gain = found[RIVAL].bic - found[SAID].bic
        best = min(found, key=lambda k: found[k].bic)
        rows.append({"model_id": model, "heritage": heritage, "bic_gain_of_five": gain, "best_number": best})
    models = pd.DataFrame(rows)
    five, three = (int((np.sign(s) * models["bic_gain_of_five"] >= MARGIN).sum()) for s in (1, -1))
    share = proportion(five, five + three) if five + three else None
    lower, upper = (share.lower, share.upper) if share else (0.0, 1.0)
    verdict = if_above(lower, upper, 0.5)

    def draw(axes: Axes) -> None:
        lines_by_layer(table, axes, y="anisotropy")

    said = (
        f"Of {len(models)} models deep enough to show it, {five} follow {SAID} phases of anisotropy better than "
        f"{RIVAL}, {three} the other way round, and the rest could be either"
    )
    return [
        Finding(
            claim="C15",
            estimand="share of models with five phases of anisotropy",
            verdict=verdict,
            plain=f"{said}. {SENTENCES[verdict]}: the share lies between {number(lower)} and {number(upper)}.",
            estimate=share.estimate if share else None,
            lower=lower,
            upper=upper,
            interval="Clopper–Pearson exact interval, 95 %",
            n_models=len(models),
            n_heritages=models["heritage"].nunique(),
            table=models,
            draw=draw,
            caption=f"Anisotropy over layers, mean over prompts. {said}.",
        )
    ]


if __name__ == "__main__":
    run(CLAIM, analyse)
