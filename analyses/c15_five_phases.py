"""C15: anisotropy over depth has five phases, not three."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from thermostats.claims.claim import POOLED, Claim, Evidence, Result, Test, Trial
from thermostats.claims.common_tests import EXACT_95, count_rows
from thermostats.claims.rule import AtLeast, Decide, V
from thermostats.claims.worlds import build_share_worlds
from thermostats.modelling.classical.counts import LEAST_POINTS, fit_phases
from thermostats.modelling.classical.many import Many
from thermostats.plots.general import draw_lines_by_layer, prepare_drawing
from thermostats.studies.nursery.study_rows import select_end_rows
from thermostats.tables.schemas import NURSERY

SAID = 5
RIVAL = 3
MARGIN = 6.0
"""A model prefers one number of pieces where its BIC is lower by as much."""
MOSTLY, HALF = 0.9, 0.5
"""Share of models that prefer five if anisotropy has five phases, and under the null."""
LEAST_LAYERS = SAID * LEAST_POINTS
LEAST_JUDGED = 6
"""Models without which no share has an exact 95% interval above one half."""
START = "step00000"
ENOUGH = V("models that prefer either") >= LEAST_JUDGED
SHARE = V("share that prefers five")
ANY = AtLeast(models=1)
MOST = Decide(ENOUGH & (SHARE.lower > HALF), ENOUGH & (SHARE.upper < HALF))

CLAIM = Claim.read(__file__)


def build_curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Anisotropy by model and layer, mean over prompts, of models deep enough to show five
    pieces."""
    rows = rows[rows["anisotropy"].notna() & (rows["layer"].astype(float) > 0)]
    mean = rows.groupby(["model_id", "heritage", "layer"], as_index=False)["anisotropy"].mean()
    deep = mean.groupby("model_id")["layer"].transform("size") >= LEAST_LAYERS
    return mean[deep].astype({"layer": float, "anisotropy": float})


def find_preferences(table: pd.DataFrame) -> pd.DataFrame:
    """One row per model: fall of BIC from three pieces to five, the number of the lowest BIC, and
    what it prefers."""
    rows = []
    for (model, heritage), curve in table.groupby(["model_id", "heritage"]):
        found = fit_phases(curve["layer"], curve["anisotropy"])
        gain = found[RIVAL].bic - found[SAID].bic
        prefers = SAID if gain >= MARGIN else RIVAL if gain <= -MARGIN else 0
        rows.append((model, heritage, gain, min(found, key=lambda k: found[k].bic), prefers))
    return pd.DataFrame(
        rows, columns=["model_id", "heritage", "bic_gain_of_five", "best_number", "prefers"]
    )


def count_five(_: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """The share of models that prefer five among those that prefer either."""
    return count_rows(outcomes["five"], SHARE.name, n="models that prefer either")


def describe_five(decided: pd.DataFrame, result: Result) -> Result:
    """Of no models the whole range is no interval."""
    return result.name_intervals({SHARE.name: ""}) if decided.empty else result


FIVE = Test(count_five, ("five",), EXACT_95, "p-value", describe_five)


def select_decided(models: pd.DataFrame) -> pd.DataFrame:
    """Models that prefer one of the two, and whether it is five."""
    return (
        models[models["prefers"] > 0]
        .assign(five=lambda rows: rows["prefers"] == SAID)
        .reset_index(drop=True)
    )


def name_preferences(models: pd.DataFrame) -> pd.DataFrame:
    """What every model prefers, in words with how many do."""
    words = models["prefers"].map(
        {SAID: f"prefers {SAID} pieces", RIVAL: f"prefers {RIVAL} pieces", 0: "fits either"}
    )
    return models[["model_id"]].assign(
        prefers=words + " (" + words.map(words.value_counts()).astype(str) + ")"
    )


def judge_models(
    table: pd.DataFrame, models: pd.DataFrame, start: pd.DataFrame | None = None
) -> Result:
    """`shares` of models with their curves; `start`: the same models before training."""
    decided = select_decided(models)
    shown = models
    five = int(decided["five"].sum())
    if start is not None:
        shown = models.merge(
            start, on=["model_id", "heritage"], suffixes=("", "_before"), how="left"
        )
    return Result.build(
        models,
        FIVE(decided).quantities,
        table=shown,
        draw=prepare_drawing(
            draw_lines_by_layer,
            table.merge(name_preferences(models), on="model_id"),
            y="anisotropy",
            by="prefers",
        ),
        words={
            "five": five,
            "three": len(decided) - five,
            "least": LEAST_LAYERS,
            "before": None if start is None else int((start["prefers"] == SAID).sum()),
            "started": 0 if start is None else len(start),
            "top": int((models["best_number"] >= SAID).sum()),
        },
    )


@CLAIM.shared
def load_known(evidence: Evidence, here: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Curves and preferences of models that others trained, or of those trained here at the end of
    training."""
    rows = select_end_rows(evidence, "layers") if here else evidence.table("layers")
    table = ANY.check_rows(build_curves(rows), least=LEAST_LAYERS)
    return table, find_preferences(table)


def load_decided(evidence: Evidence, here: bool) -> pd.DataFrame:
    """`select_decided` of the same."""
    return select_decided(load_known(evidence, here)[1])


TRIED = partial(Trial, test=FIVE, worlds=build_share_worlds("five", MOSTLY, HALF))
OTHERS, HERE = (TRIED(partial(load_decided, here=here)) for here in (False, True))


@CLAIM.finding("phases.published", primary=MOST, evidence=POOLED, needs=ANY, trial=OTHERS)
def judge_others(evidence: Evidence) -> Result:
    """Models that others trained, of which no published file holds anisotropy."""
    return judge_models(*load_known(evidence, False))


@CLAIM.finding("phases.trained", primary=MOST, evidence=NURSERY, needs=ANY, trial=HERE)
def judge_trained(evidence: Evidence) -> Result:
    """Models trained here, at the end of training and before it."""
    table, models = load_known(evidence, True)
    recipes = table.groupby("model_id")["heritage"].first()
    before = evidence.table("layers", source=NURSERY, revision=START).drop(columns="heritage")
    before = before.assign(heritage=before["model_id"].map(recipes)).dropna(subset="heritage")
    return judge_models(table, models, find_preferences(build_curves(before)))


if __name__ == "__main__":
    CLAIM.main()
