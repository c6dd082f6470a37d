"""C09: the transition layer L* follows from depth and heads, L* = L (0.11 + 0.012 L + 4.9/H)."""

from functools import partial
from math import isfinite
from typing import Any

import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Above, Posterior, V
from thermostats.modelling.classical.means import Difference, paired_difference
from thermostats.modelling.laws.lines import LEAST, fit_line
from thermostats.modelling.laws.transition import fit_transition
from thermostats.studies.delia2026 import claim_figures
from thermostats.studies.delia2026 import transition_layers as layers
from thermostats.studies.delia2026.gains import features_of
from thermostats.studies.delia2026.transition_layers import DEFINITIONS, Definition

SEED = 9
SCALE = 10.0
"""Errors that differ by ten points of depth would be no surprise."""
GAINED = "error of L/2 minus error of the formula"
OVER_LABS = "error of other labs' mean fraction minus error of the formula"
NEARER = Above(GAINED, 0)
MEAN = Posterior("mean > 0", draws=V("mean") > 0)
SHAPE = Posterior(
    "relatively later in deeper networks and earlier with more heads",
    draws=(V("slope_n_layers") > 0) & (V("slope_n_heads") < 0),
)
TABLES = ("errors", "errors_within_labs", "models", "polynomial")
COLUMNS = ["kind", "model_id", "heritage", "n_layers", "n_heads", "layer", "formula", "error_formula", "error_half"]
SHOWN = {one.kind: one.words for one in DEFINITIONS if one.id != "steepest_all_heads"}
CLAIM = Claim.read(__file__)


@CLAIM.shared
def predicted(evidence: Evidence) -> pd.DataFrame:
    """Empirical L* by model and definition, calibration values too, with what the formulas say."""
    rows = layers.with_predictions(layers.empirical(evidence), evidence)
    return rows[rows["kind"].isin([*(one.kind for one in DEFINITIONS), "calibration"])].reset_index(drop=True)


def estimate(found: Difference) -> Estimate:
    """A difference of errors with its sign-flip p-value."""
    return Estimate.of(found, f"95 % {found.interval}, points of depth", found.p_permutation)


def compared(rows: pd.DataFrame, **more: Any) -> Result:
    """Errors of depth of the formula and of L/2 over models, by one definition of L*."""
    gained = paired_difference(rows["error_half"], rows["error_formula"], log=False, seed=SEED)
    relative = [layers.relative_error(rows, name) for name in ("formula", "half")]
    words = {
        "formula": rows["error_formula"].mean(),
        "half": rows["error_half"].mean(),
        "nearer": int((rows["error_formula"] < rows["error_half"]).sum()),
        "relative": relative if isfinite(relative[0]) else [],
        "fraction": layers.error_of_fraction(rows),
        "permutation": gained.permutation,
        **more.pop("words", {}),
    }
    return Result.of(rows, {GAINED: estimate(gained)}, words=words, **{"table": None, **more})


def with_line(rows: pd.DataFrame) -> dict[str, Any]:
    """The mean difference of the errors, labs with levels of their own; empty for too few models."""
    if len(rows) < LEAST:
        return {}
    gained = rows.assign(points_gained=rows["error_half"] - rows["error_formula"])
    fit = fit_line(gained, "points_gained", scale=SCALE, sources=[CLAIM.source], seed=SEED)
    return {"fit": fit, "fit_tables": ("rows",)}


def without_one(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Models without which the test has another verdict, and what it says then."""
    whole = NEARER.verdict(compared(rows))
    parts = {model: compared(rows[rows["model_id"] != model]) for model in rows["model_id"]}
    verdicts = {model: NEARER.verdict(part) for model, part in parts.items()}
    return [
        {"model_id": model, "gained": parts[model].headline, "verdict": verdict}
        for model, verdict in verdicts.items()
        if verdict != whole
    ]


@CLAIM.finding("error", primary=NEARER, robustness=MEAN, over=DEFINITIONS)
def error(evidence: Evidence, definition: Definition) -> Result:
    """Is the formula nearer to L* than L/2, by this definition?"""
    rows = predicted(evidence)
    part, calibrated = (rows[rows["kind"] == kind].reset_index(drop=True) for kind in (definition.kind, "calibration"))
    more = with_line(part) | {"audit": layers.error_audit(evidence, rows, definition.kind)}
    if definition.id == "figure_5":
        words = layers.figure_words(evidence, rows)
        return compared(
            part,
            **more,
            table=rows[COLUMNS],
            draw=partial(claim_figures.transition_layers, rows=rows, kinds=SHOWN),
            words=words,
        )
    if definition.id == "steepest":
        same = part["model_id"].map(calibrated.set_index("model_id")["layer"]) == part["layer"]
        more["words"] = {"same": int(same.sum()), "new": part[~same], "without_one": without_one(part)}
    return compared(part, **more)


@CLAIM.finding("across_labs", primary=Above(OVER_LABS, 0), robustness=SHAPE)
def across_labs(evidence: Evidence) -> Result:
    """What the formula says of depth and heads, against the mean fraction of other labs."""
    rows = features_of(evidence, layers.SIGN_CHANGE)
    fit = fit_transition(rows, "first_sign_change", source=layers.SIGN_CHANGE, published=layers.FORMULA, seed=SEED)
    models = fit.table("models")
    rules = ("mean fraction", "published formula", "logit")
    errors = {name: 100 * (models[name] - models["L_star"]).abs() / models["n_layers"] for name in rules}
    gained = paired_difference(errors["mean fraction"], errors["published formula"], log=False, seed=SEED)
    return Result(
        quantities={OVER_LABS: estimate(gained)},
        n_models=fit.n_models,
        n_groups=fit.n_heritages,
        fit=fit,
        fit_tables=TABLES,
        words={"errors": {name: values.mean() for name, values in errors.items()}},
    )


if __name__ == "__main__":
    CLAIM.main()
