"""L01: the stream grows exponentially with depth, a law of other papers."""

import pandas as pd

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    PUBLISHED,
    Claim,
    Evidence,
    Result,
    Trial,
    Views,
)
from thermostats.claims.common_tests import count_share_in_groups
from thermostats.claims.rule import Above, AtLeast
from thermostats.claims.worlds import build_share_worlds
from thermostats.plots.general import draw_forest, prepare_drawing
from thermostats.studies.literature.exponential import (
    STRONG,
    build_profiles,
    compare_training_steps,
    fit_laws,
)
from thermostats.tables.schemas import NURSERY

SHARE = "share of models"
MOST, HALF = 0.9, 0.5
"""Share of models in which the law fits better where it holds, and where neither does."""
RULE = Above(SHARE, HALF)
LEAST = AtLeast(models=8, groups=2)
DEEPEST, DESCRIBED = 3, "openai-community/gpt2-xl"
"""Deepest models that the page names, and the one in which the law was described."""
CLAIM = Claim.read(__file__)


@CLAIM.shared
def fit_models(evidence: Evidence) -> pd.DataFrame:
    """Both laws fitted to every model."""
    return LEAST.check_rows(fit_laws(build_profiles(evidence)))


SHARED = count_share_in_groups(SHARE, "exponential", "heritage")
"""In how many models the exponential law fits better; models of one lab are alike."""
WORLDS = build_share_worlds("exponential", MOST, HALF)
TRIAL = Trial(fit_models, SHARED, worlds=WORLDS)
OF_RECIPES = Trial(fit_models, SHARED, worlds=WORLDS, larger="recipe")


def judge_laws(evidence: Evidence) -> Result:
    """The share, with how far apart the laws are in every model."""
    rows = fit_models(evidence).sort_values("delta", ignore_index=True)
    strong = rows["delta"].abs() >= STRONG
    shown = rows.assign(lower=rows["delta"].clip(upper=0), upper=rows["delta"].clip(lower=0))
    label = "BIC of the exponential law minus that of the power"
    return SHARED(rows).adding(
        table=rows,
        draw=prepare_drawing(
            draw_forest,
            shown,
            label="model_id",
            estimate="delta",
            heritage="heritage",
            xlabel=label,
        ),
        words={
            "k": int(rows["exponential"].sum()),
            "clear": int((strong & rows["exponential"]).sum()),
            "contrary": int((strong & ~rows["exponential"]).sum()),
            "strong": STRONG,
            "growth": float(rows["growth"].median()),
            "power": float(rows["power"].median()),
            "neighbours": float(rows["neighbours"].median()),
            "increments": float(rows["neighbours_of_increments"].median()),
            "described": rows[rows["model_id"] == DESCRIBED].to_dict("records"),
            "deepest": rows.nlargest(DEEPEST, "n_layers").to_dict("records"),
        },
    )


@CLAIM.finding(
    "models",
    primary=RULE,
    trial=TRIAL,
    evidence=POOLED,
    needs=LEAST,
    views=Views(models=8, groups=2, sets=(PUBLISHED, EXTERNAL, MEASURED)),
)
def judge_real_models(evidence: Evidence) -> Result:
    """Does one growth rate fit most models better than one that falls with depth?"""
    return judge_laws(evidence)


@CLAIM.finding("nursery", primary=RULE, trial=OF_RECIPES, evidence=NURSERY, needs=LEAST)
def judge_nursery_models(evidence: Evidence) -> Result:
    """The same of the controlled study's deep models, at the end of training and on the way."""
    return judge_laws(evidence).adding(
        words={"steps": compare_training_steps(evidence).to_dict("records")}
    )


if __name__ == "__main__":
    CLAIM.main()
