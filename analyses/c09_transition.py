"""C09: the transition layer L* follows from depth and heads, L* = L (0.11 + 0.012 L + 4.9/H)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import (
    POOLED,
    Case,
    Claim,
    Evidence,
    Inference,
    Result,
    Test,
    Trial,
    Views,
)
from thermostats.claims.rule import Above, AtLeast, Posterior, V
from thermostats.claims.worlds import build_shift_worlds
from thermostats.modelling.classical.association import permute_signs
from thermostats.modelling.classical.many import Many, estimate_means, take_group_means
from thermostats.modelling.fit import Fit
from thermostats.modelling.lines import LEAST, fit_line
from thermostats.modelling.transition import fit_transition
from thermostats.studies.delia2026 import curves as claim_figures
from thermostats.studies.delia2026 import restriction_maps, transition_layers
from thermostats.studies.delia2026.prompt_gains import drop_tuned
from thermostats.studies.delia2026.published_gains import build_source_features
from thermostats.studies.delia2026.transition_layers import TRANSITION_DEFINITIONS as DEFINITIONS
from thermostats.studies.nursery.study_rows import select_end_rows
from thermostats.tables.schemas import NURSERY

SEED, FEWEST = 9, 3
"""Of the permutation; and differences that have an interval."""
SCALE = 10.0
"""Errors that differ by ten points of depth would be no surprise."""
CLAIMED = 25.0 - 15.7
"""Points of depth by which the formula is nearer, as published across heritages."""
GAINED = "error of L/2 minus error of the formula"
LEAST_IN_SCOPE = 3
"""Models that a comparison needs."""
OVER_LABS = "error of other labs' mean fraction minus error of the formula"
NEARER = Above(GAINED, 0)
MEAN = Posterior("mean difference of the errors > 0", draws=V("mean") > 0)
SHAPE = (V("slope_n_layers") > 0) & (V("slope_n_heads") < 0)
RULES = ("mean fraction", "published formula", "logit")
TABLES = ("errors", "errors_within_labs", "models", "polynomial")
COLUMNS = [
    "kind",
    "model_id",
    "heritage",
    "n_layers",
    "n_heads",
    "layer",
    "formula",
    "error_formula",
    "error_half",
]
SHOWN = {one.column: one.words for one in DEFINITIONS if one.id != "steepest_all_heads"}
MEASURABLE = ("steepest", "first_sign_change")
"""Definitions that rows of other sets of evidence have; the others are of the study's files."""
OUT_OF_SCOPE = "alibi"
"""Position scheme that the study's limitations exclude."""
CLAIM = Claim.read(__file__)


@CLAIM.shared
def load_predictions(evidence: Evidence) -> pd.DataFrame:
    """Empirical L* by model and definition, calibration values too, with what the formulas say."""
    rows = transition_layers.add_predictions(
        transition_layers.collect_transitions(evidence), evidence
    )
    return rows[
        rows["kind"].isin([*(one.column for one in DEFINITIONS), "calibration"])
    ].reset_index(drop=True)


def average_gained(
    rows: pd.DataFrame, outcomes: Mapping[str, Any], name: str = GAINED
) -> dict[str, Many]:
    """Mean of the column `gained`, points of depth."""
    return {name: estimate_means(outcomes["gained"], least=FEWEST)}


def average_groups(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """The same over means of recipes or labs."""
    return average_gained(rows, {"gained": take_group_means(outcomes["gained"], rows["heritage"])})


def describe_gained(rows: pd.DataFrame, result: Result) -> Result:
    """With the p of sign flips in the place of the t test's, and how it is counted."""
    return flip_signs(rows["gained"].to_numpy(np.float64), result)


def describe_groups(rows: pd.DataFrame, result: Result) -> Result:
    """The same of means of recipes or labs."""
    return flip_signs(rows.groupby("heritage")["gained"].mean().to_numpy(np.float64), result)


def flip_signs(gained: np.ndarray, result: Result) -> Result:
    """A result of one mean with its p by flips of signs."""
    p, counted, _ = permute_signs(gained, seed=SEED)
    [(name, mean)] = result.quantities.items()
    return result.adding(quantities={name: replace(mean, p=p)}, words={"permutation": counted})


INTERVAL = "95% t confidence interval, points of depth"
NEARER_THAN_HALF = Test(average_gained, ("gained",), INTERVAL, "p-value", describe_gained)
NEARER_THAN_OTHERS = replace(NEARER_THAN_HALF, many=partial(average_gained, name=OVER_LABS))
NEARER_IN_GROUPS = replace(NEARER_THAN_HALF, many=average_groups, describe=describe_groups)


def add_gained(rows: pd.DataFrame, other: str, formula: str = "error_formula") -> pd.DataFrame:
    """The rows with `gained`, the error of another rule minus that of the formula."""
    return rows.assign(gained=rows[other] - rows[formula])


def select_definition(evidence: Evidence, definition: Case) -> pd.DataFrame:
    """Models with L* by one definition, and what the formula gains on L/2."""
    rows = load_predictions(evidence)
    return add_gained(rows[rows["kind"] == definition.column].reset_index(drop=True), "error_half")


def compare_errors(rows: pd.DataFrame) -> Result:
    """Errors of depth of the formula and of L/2 over models, by one definition of L*."""
    relative = [
        transition_layers.measure_relative_error(rows, name) for name in ("formula", "half")
    ]
    words = {
        "formula": rows["error_formula"].mean(),
        "half": rows["error_half"].mean(),
        "nearer": int((rows["error_formula"] < rows["error_half"]).sum()),
        "relative": relative if isfinite(relative[0]) else [],
        "fraction": transition_layers.measure_fraction_error(rows),
    }
    return NEARER_THAN_HALF(add_gained(rows, "error_half")).adding(words=words)


def compare_scoped_errors(rows: pd.DataFrame) -> dict[str, Any]:
    """The same comparison without models that the study itself puts out of the formula's scope;
    empty without any."""
    outside = rows["position_scheme"] == OUT_OF_SCOPE
    if not outside.any() or (~outside).sum() < LEAST_IN_SCOPE:
        return {}
    inside = compare_errors(rows[~outside].reset_index(drop=True))
    errors = {name: inside.words[name] for name in ("formula", "half")}
    names = {"out": rows.loc[outside, "model_id"].tolist(), "n": inside.n_models}
    return names | errors | {"gained": inside.headline, "verdict": NEARER.verdict(inside)}


def fit_error_line(rows: pd.DataFrame) -> Inference:
    """The mean difference of the errors, labs with levels of their own; empty for too few
    models."""
    if len(rows) < LEAST:
        return Inference()
    gained = rows.assign(points_gained=rows["gained"])
    fit = fit_line(gained, "points_gained", scale=SCALE, sources=[CLAIM.basis.source], seed=SEED)
    return Inference(fit, tables=("rows",))


def list_decisive_models(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Models without which the test has another verdict, and what it says then."""
    whole = NEARER.verdict(compare_errors(rows))
    parts = {model: compare_errors(rows[rows["model_id"] != model]) for model in rows["model_id"]}
    verdicts = {model: NEARER.verdict(part) for model, part in parts.items()}
    return [
        {"model_id": model, "gained": parts[model].headline, "verdict": verdict}
        for model, verdict in verdicts.items()
        if verdict != whole
    ]


WORLDS = partial(build_shift_worlds, "gained", CLAIMED, SCALE, column="n_layers")
DECLARED = WORLDS()
"""Of six or seven models."""
TRIAL = Trial(select_definition, NEARER_THAN_HALF, worlds=DECLARED, larger="")
FOUND, OF_FILES = (
    [one for one in DEFINITIONS if (one.id in MEASURABLE) == found] for found in (True, False)
)


def infer_error(evidence: Evidence, definition: Case) -> Inference:
    """The same on all evidence, next to the test there."""
    return fit_error_line(select_definition(evidence, definition))


VIEWS = Views(models=4, fit=infer_error)


@CLAIM.finding("error", primary=NEARER, robustness=MEAN, over=FOUND, trial=TRIAL, views=VIEWS)
@CLAIM.finding("error", primary=NEARER, robustness=MEAN, over=OF_FILES, trial=TRIAL)
def judge_error(evidence: Evidence, definition: Case) -> Result:
    """Is the formula nearer to L* than L/2, by this definition?"""
    rows = load_predictions(evidence)
    part = select_definition(evidence, definition)
    calibrated = rows[rows["kind"] == "calibration"].reset_index(drop=True)
    audit = transition_layers.check_errors(evidence, rows, definition.column)
    found = compare_errors(part).adding(
        audit=audit, inference=fit_error_line(part), words={"scope": compare_scoped_errors(part)}
    )
    if definition.id == "figure_5":
        draw = partial(claim_figures.draw_transition_layers, rows=rows, kinds=SHOWN)
        return found.adding(
            table=rows[COLUMNS], draw=draw, words=transition_layers.describe_figure(evidence, rows)
        )
    if definition.id == "steepest":
        same = part["model_id"].map(calibrated.set_index("model_id")["layer"]) == part["layer"]
        return found.adding(
            words={
                "same": int(same.sum()),
                "new": part[~same],
                "without_one": list_decisive_models(part),
            }
        )
    return found


@CLAIM.shared
def fit_places(evidence: Evidence) -> Fit:
    """L*/L by depth and heads, labs partially pooled, first change of sign."""
    rows = build_source_features(evidence, transition_layers.SIGN_CHANGE)
    return fit_transition(
        rows,
        "first_sign_change",
        source=transition_layers.SIGN_CHANGE,
        published=transition_layers.FORMULA,
        seed=SEED,
    )


def exclude_own_lab(evidence: Evidence) -> pd.DataFrame:
    """Errors of every rule where the model's lab was left out, and what the formula gains on the
    mean fraction."""
    models = fit_places(evidence).table("models")
    errors = {
        name: 100 * (models[name] - models["L_star"]).abs() / models["n_layers"] for name in RULES
    }
    return add_gained(models.assign(**errors), RULES[0], RULES[1])


@CLAIM.finding(
    "across_labs",
    primary=Above(OVER_LABS, 0),
    robustness=MEAN,
    trial=Trial(exclude_own_lab, NEARER_THAN_OTHERS, worlds=DECLARED, larger=""),
)
def judge_labs(evidence: Evidence) -> Result:
    """What the formula says of depth and heads, against the mean fraction of other labs."""
    rows = exclude_own_lab(evidence)
    fit = fit_places(evidence)
    words = {
        "errors": rows[list(RULES)].mean().to_dict(),
        "shape": float(SHAPE.truth(fit.quantities).mean()),
    }
    tables = {name.replace("_", " "): fit.table(name) for name in TABLES}
    return NEARER_THAN_OTHERS(rows).adding(
        words=words, inference=replace(fit_error_line(rows), tables=tables)
    )


LEAST_BLOCKS = 4
"""In fewer blocks there is no place before and after a turn."""
ENOUGH = AtLeast(models=24, groups=8)


def load_curve_layers(evidence: Evidence) -> pd.DataFrame:
    """Models with the layer at which the contraction ratio is smallest (from 0), and what the
    formula gains on L/2."""
    trained = evidence.name == NURSERY
    attention = (
        select_end_rows(evidence, "attention")
        if trained
        else evidence.table("attention", variant="exact")
    )
    curves = restriction_maps.summarise_layers(attention)
    deep = curves.groupby("model_id")["layer"].transform("size") >= LEAST_BLOCKS
    lowest = (
        curves[deep]
        .sort_values(["model_id", "contraction_ratio", "layer"])
        .drop_duplicates("model_id")
    )
    places = lowest[["model_id"]].assign(
        kind="contraction", layer=lowest["layer"].astype(float) - 1
    )
    rows = transition_layers.add_predictions(places, evidence)
    rows = rows.assign(heritage=rows["model_id"].map(lowest.set_index("model_id")["heritage"]))
    return add_gained(rows if trained else drop_tuned(evidence, rows), "error_half").reset_index(
        drop=True
    )


@CLAIM.finding(
    "contraction",
    primary=NEARER,
    evidence=NURSERY,
    needs=ENOUGH,
    trial=Trial(
        load_curve_layers,
        NEARER_IN_GROUPS,
        worlds=WORLDS(measured="trained_transition_error"),
        larger="recipe",
    ),
    views=Views(models=4, groups=3, sets=(POOLED,)),
)
def judge_contraction(evidence: Evidence) -> Result:
    """Does the formula give the layer of a curve that no change of weights moves?"""
    rows = ENOUGH.check_rows(load_curve_layers(evidence))
    errors = {"formula": rows["error_formula"].mean(), "half": rows["error_half"].mean()}
    inside = rows[rows["formula"] < rows["n_layers"]]
    words = {
        "nearer": int((rows["error_formula"] < rows["error_half"]).sum()),
        "first": (rows["layer"] == 0).mean(),
        "inside": {
            "n": len(inside),
            "formula": inside["error_formula"].mean(),
            "half": inside["error_half"].mean(),
        },
    }
    return NEARER_IN_GROUPS(rows).adding(words={**errors, **words})


if __name__ == "__main__":
    CLAIM.main()
