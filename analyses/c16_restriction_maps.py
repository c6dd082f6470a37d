"""C16: restriction maps ρ_ij = √A_ij W_V contract before L* and expand after."""

from dataclasses import replace
from functools import partial

import pandas as pd

from thermostats.claims.claim import (
    POOLED,
    Case,
    Claim,
    Estimate,
    Evidence,
    Inference,
    OneByOne,
    Result,
    Trial,
)
from thermostats.claims.rule import Above, AtLeast, Decide, Posterior, V
from thermostats.claims.worlds import worlds_of_share
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.shares import fit_share
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026 import curves as claim_figures
from thermostats.studies.delia2026 import weights_of_claims as maps
from thermostats.studies.delia2026.gains_of_claims import follows
from thermostats.studies.nursery.study_rows import at_the_end
from thermostats.tables.schemas import NURSERY

SEED = 16
ENOUGH = AtLeast(models=24)
EVERY_MODEL, MOSTLY, HALF = 1.0, 0.9, 0.5
"""Shares of models that show the pattern: as the study has it, as declared for models trained here,
of the null."""
SHARE = V("share of models that show the pattern")
SHOWN = V("models that show the pattern")
CLAIM = Claim.read(__file__)


RELATIVE = Case("relative", "norm relative to W_V", "contraction_ratio")
ABSOLUTE = Case("absolute", "operator norm", "operator_norm")
TRAINED = [replace(one, id=f"trained_{one.id}") for one in (RELATIVE, ABSOLUTE)]


def shares(table: pd.DataFrame) -> Result:
    """The share of models that show the pattern."""
    shown = int(table["shows_it"].sum())
    share = proportion(shown, len(table))
    known = Estimate.of(share, f"{share.interval}, 95%", share.p_value)
    return Result.of(table, {SHARE.name: known, SHOWN.name: Estimate(shown)})


def of_the_study(evidence: Evidence, measure: Case) -> pd.DataFrame:
    """The study's own model: a row, and whether any definition of L* shows the pattern."""
    curve, layers, model = maps.published(evidence)
    shows = bool(maps.before_and_after(curve, layers, measure.column)["shows_it"].any())
    return pd.DataFrame(
        [{"model_id": model["model_id"], "heritage": model["heritage"], "shows_it": shows}]
    )


def of_training(evidence: Evidence, measure: Case) -> pd.DataFrame:
    """Models trained here, with the right W_V."""
    models = evidence.table("models", source=NURSERY)
    table = maps.patterns(maps.by_layer(at_the_end(evidence, "attention")), models, measure.column)
    return ENOUGH.of(table, least=ENOUGH.models)


STUDY, TRIED = (
    Trial(rows, OneByOne(shares), unit, worlds_of_share("shows_it", share, HALF))
    for rows, unit, share in ((of_the_study, "", EVERY_MODEL), (of_training, "heritage", MOSTLY))
)


@CLAIM.finding(
    "contraction",
    primary=Decide(SHARE.lower > HALF, SHOWN <= 0),
    needs=AtLeast(rows={"models measured with W_V itself": 1}),
    over=(RELATIVE, ABSOLUTE),
    trial=STUDY,
)
def contraction(evidence: Evidence, measure: Case) -> Result:
    """The study's own model, before and after L* by each of its definitions."""
    curve, layers, model = maps.published(evidence)
    table = maps.before_and_after(curve, layers, measure.column)
    sliced = maps.not_W_V(evidence)
    judged = pd.DataFrame(
        {"model_id": [] if sliced and measure == ABSOLUTE else [model["model_id"]]}
    )
    found = shares(of_the_study(evidence, measure)).quantities
    labels = {
        "y": measure.column,
        "model": model["model_id"],
        "ylabel": f"{measure.words}, mean over edges",
    }
    audit, lost, every = maps.maps_audit(evidence, layers)

    return Result(
        quantities={"mean before L*": Estimate(float(table["before"].iloc[0])), **found},
        rows={"models measured with W_V itself": judged},
        n_models=1,
        n_groups=1,
        table=table,
        draw=partial(claim_figures.restriction_maps, curve=curve, table=table, **labels),
        audit=audit,
        words={
            "first": table.iloc[0],
            "table": table,
            "largest": float(curve[measure.column].max()),
            "model": model,
            "sliced": sliced,
            "lost": lost,
            "layers": every,
            "follows": follows(evidence, maps.SOURCE),
        },
    )


@CLAIM.finding(
    "contraction",
    primary=Above(SHARE.name, HALF),
    robustness=Posterior("share > 0.5"),
    evidence=NURSERY,
    needs=ENOUGH,
    over=TRAINED,
    section="trained",
    trial=TRIED,
)
def trained(evidence: Evidence, measure: Case) -> Result:
    """Models trained here, with the right W_V; models measured here that others trained are
    shown."""
    table = of_training(evidence, measure)
    found = shares(table)
    every = evidence.named(POOLED)
    others = maps.by_layer(every.table("attention", variant="exact"))
    middle = maps.over_models(table)
    xlabel = f"{measure.words}, mean over edges: median and 90% of models"
    return found.adding(
        draw=drawing(forest, middle, label="row", null=1.0, xlabel=xlabel, log="x"),
        inference=Inference(
            later=partial(fit_share, table, "shows_it", sources=[NURSERY], seed=SEED),
            tables=("groups",),
        ),
        words={
            "shown": found.quantities[SHOWN.name].value,
            "largest": float(table["largest"].max()),
            "at_minimum": middle[middle["definition"] == "minimum"].set_index("part")["estimate"],
            "others": maps.patterns(others, every.table("models"), measure.column),
        },
    )


if __name__ == "__main__":
    CLAIM.main()
