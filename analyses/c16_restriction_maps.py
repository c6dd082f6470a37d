"""C16: restriction maps ρ_ij = √A_ij W_V contract before L* and expand after."""

from dataclasses import replace
from functools import partial

import pandas as pd

from thermostats.claims.claim import POOLED, Case, Claim, Estimate, Evidence, Result, Trial
from thermostats.claims.common_tests import count_share
from thermostats.claims.rule import Above, AtLeast, Decide, V
from thermostats.claims.worlds import build_share_worlds
from thermostats.plots.general import draw_forest, prepare_drawing
from thermostats.studies.delia2026 import curves as claim_figures
from thermostats.studies.delia2026 import restriction_maps as maps
from thermostats.studies.delia2026.anomalies import check_derived
from thermostats.studies.nursery.study_rows import select_end_rows
from thermostats.tables.schemas import NURSERY

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


SHARED = count_share(SHARE.name, "shows_it", true=SHOWN.name, p_kind="p-value")
"""The share of models that show the pattern."""


def load_study_model(evidence: Evidence, measure: Case) -> pd.DataFrame:
    """The study's own model: a row, and whether any definition of L* shows the pattern."""
    curve, layers, model = maps.load_published_maps(evidence)
    shows = bool(maps.compare_transition_sides(curve, layers, measure.column)["shows_it"].any())
    return pd.DataFrame(
        [{"model_id": model["model_id"], "heritage": model["heritage"], "shows_it": shows}]
    )


def load_trained(evidence: Evidence, measure: Case) -> pd.DataFrame:
    """Models trained here, with the right W_V."""
    models = evidence.table("models", source=NURSERY)
    table = maps.find_patterns(
        maps.summarise_layers(select_end_rows(evidence, "attention")), models, measure.column
    )
    return ENOUGH.check_rows(table, least=ENOUGH.models)


STUDY, TRIED = (
    Trial(rows, SHARED, unit, build_share_worlds("shows_it", share, HALF))
    for rows, unit, share in (
        (load_study_model, "", EVERY_MODEL),
        (load_trained, "heritage", MOSTLY),
    )
)


@CLAIM.finding(
    "contraction",
    primary=Decide(SHARE.lower > HALF, SHOWN <= 0),
    needs=AtLeast(rows={"models measured with W_V itself": 1}),
    over=(RELATIVE, ABSOLUTE),
    trial=STUDY,
)
def judge_contraction(evidence: Evidence, measure: Case) -> Result:
    """The study's own model, before and after L* by each of its definitions."""
    curve, layers, model = maps.load_published_maps(evidence)
    table = maps.compare_transition_sides(curve, layers, measure.column)
    sliced = maps.is_wrong_matrix(evidence)
    judged = pd.DataFrame(
        {"model_id": [] if sliced and measure == ABSOLUTE else [model["model_id"]]}
    )
    found = SHARED(load_study_model(evidence, measure)).quantities
    labels = {
        "y": measure.column,
        "model": model["model_id"],
        "ylabel": f"{measure.words}, mean over edges",
    }
    audit, lost, every = maps.check_maps(evidence, layers)

    return Result(
        quantities={"mean before L*": Estimate(float(table["before"].iloc[0])), **found},
        rows={"models measured with W_V itself": judged},
        n_models=1,
        n_groups=1,
        table=table,
        draw=partial(claim_figures.draw_restriction_maps, curve=curve, table=table, **labels),
        audit=audit,
        words={
            "first": table.iloc[0],
            "table": table,
            "largest": float(curve[measure.column].max()),
            "model": model,
            "sliced": sliced,
            "lost": lost,
            "layers": every,
            "follows": check_derived(evidence, maps.SOURCE),
        },
    )


@CLAIM.finding(
    "contraction",
    primary=Above(SHARE.name, HALF),
    evidence=NURSERY,
    needs=ENOUGH,
    over=TRAINED,
    section="trained",
    trial=TRIED,
)
def judge_trained(evidence: Evidence, measure: Case) -> Result:
    """Models trained here, with the right W_V; models measured here that others trained are
    shown."""
    table = load_trained(evidence, measure)
    found = SHARED(table)
    every = evidence.named(POOLED)
    others = maps.summarise_layers(every.table("attention", variant="exact"))
    middle = maps.summarise_models(table)
    xlabel = f"{measure.words}, mean over edges: median and 90% of models"
    return found.adding(
        table=table,
        draw=prepare_drawing(draw_forest, middle, label="row", null=1.0, xlabel=xlabel, log="x"),
        words={
            "shown": found.quantities[SHOWN.name].value,
            "largest": float(table["largest"].max()),
            "at_minimum": middle[middle["definition"] == "minimum"].set_index("part")["estimate"],
            "others": maps.find_patterns(others, every.table("models"), measure.column),
        },
    )


if __name__ == "__main__":
    CLAIM.main()
