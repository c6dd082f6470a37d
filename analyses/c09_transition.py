"""C09: the transition layer L* follows from depth and heads, L* = L (0.11 + 0.012 L + 4.9/H)."""

from __future__ import annotations

from math import isfinite
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above, Posterior
from thermostats.modelling.classical.means import Difference, paired_difference
from thermostats.modelling.laws.lines import LEAST, fit_line
from thermostats.modelling.laws.transition import fit_transition
from thermostats.plots.general import INK, MUTED, legend_above
from thermostats.studies.delia2026 import transition_layers as layers
from thermostats.studies.delia2026.gains import features_of
from thermostats.studies.delia2026.stated import H4_EXTENDED, stated
from thermostats.studies.delia2026.transition_layers import DEFINITIONS, Definition
from thermostats.words import short_name

SEED = 9
SCALE = 10.0
"""Errors that differ by ten points of depth would be no surprise."""
GAINED = "error of L/2 minus error of the formula"
OVER_LABS = "error of other labs' mean fraction minus error of the formula"
NEARER = Above(GAINED, 0)
MEAN = Posterior("mean > 0")
SHAPE = Posterior("relatively later in deeper networks and earlier with more heads")
TABLES = ("errors", "errors_within_labs", "models", "polynomial")
COLUMNS = ["kind", "model_id", "heritage", "n_layers", "n_heads", "layer", "formula", "error_formula", "error_half"]
MARKERS = "os^"
CLAIM = Claim.read(__file__)


@CLAIM.shared
def predicted(evidence: Evidence) -> pd.DataFrame:
    """Empirical L* by model and definition, calibration values too, with what the formulas say."""
    rows = layers.with_predictions(layers.empirical(evidence), evidence)
    return rows[rows["kind"].isin([*(one.kind for one in DEFINITIONS), "calibration"])].reset_index(drop=True)


def estimate(found: Difference) -> Estimate:
    """A difference of errors with its sign-flip p-value."""
    interval = f"95 % {found.interval}, points of depth"
    return Estimate(found.estimate, found.lower, found.upper, interval, found.p_permutation)


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
    return {"fit": fit, "statements": {MEAN.statement: fit.quantities["mean"] > 0}, "fit_tables": ("rows",)}


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
        words = figure_words(evidence, part, calibrated)
        return compared(part, **more, table=rows[COLUMNS], draw=lambda axes: draw(rows, axes), words=words)
    if definition.id == "steepest":
        same = part["model_id"].map(calibrated.set_index("model_id")["layer"]) == part["layer"]
        more["words"] = {"same": int(same.sum()), "new": part[~same], "without_one": without_one(part)}
    return compared(part, **more)


def figure_words(evidence: Evidence, figure: pd.DataFrame, calibrated: pd.DataFrame) -> dict[str, Any]:
    """What the published errors rest on."""
    at = stated(evidence, layers.CONSTANTS)
    errors = {
        f"{kind} on the {words}": value
        for words, part in (("calibration values", calibrated), ("values of figure 5", figure))
        for kind, value in (
            ("error of depth", float(part["error_half"].mean())),
            ("error relative to L*", layers.relative_error(part, "half")),
        )
    }
    published = layers.error_audit(evidence, predicted(evidence), "figure").published["error of L/2, % of depth"]
    missing = evidence.table("transitions", source=H4_EXTENDED, definition="max_abs_gradient")
    return {
        "shapes": len(figure[["n_layers", "n_heads"]].drop_duplicates()),
        "seen": len(set(figure["model_id"]) & set(calibrated["model_id"])),
        "calibrated": calibrated[["error_formula", "error_half"]].mean(),
        "calibrated_relative": layers.relative_error(calibrated, "half"),
        "published": published,
        "nearest": min(errors.items(), key=lambda item: abs(item[1] - published)),
        "leaves": (1 - at["a"] - at["c"] / 64) / at["b"],
        "missing": list(missing.loc[missing["layer"].isna(), "model_id"]),
        "from_one": layers.errors(figure.assign(layer=figure["layer"] - 1)).mean(),
    }


def draw(rows: pd.DataFrame, axes: Axes) -> None:
    """L*/L by model: three published definitions, the formula and L/2."""
    published = DEFINITIONS[0], DEFINITIONS[1], DEFINITIONS[3]
    names = list(rows.loc[rows["kind"].isin([one.kind for one in published]), "model_id"].drop_duplicates())
    places = {name: i for i, name in enumerate(names)}
    for definition, marker in zip(published, MARKERS, strict=True):
        part = rows[rows["kind"] == definition.kind]
        x, y = part["layer"] / part["n_layers"], part["model_id"].map(places)
        axes.scatter(x, y, marker=marker, s=40, label=definition.words, zorder=3)
    one = rows.drop_duplicates("model_id").set_index("model_id").loc[names]
    axes.scatter(one["formula"] / one["n_layers"], range(len(names)), marker="|", s=260, color=INK, label="formula")
    axes.axvline(0.5, color=MUTED, linestyle="--", linewidth=1)
    axes.set_yticks(range(len(names)), [short_name(name) for name in names])
    axes.set(xlabel="L* / L (dashed: L/2)", xlim=(-0.03, 1.03), ylim=(len(names) - 0.5, -0.5))
    legend_above(axes)


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
        statements={SHAPE.statement: (fit.quantities["slope_n_layers"] > 0) & (fit.quantities["slope_n_heads"] < 0)},
        words={"errors": {name: values.mean() for name, values in errors.items()}},
    )


if __name__ == "__main__":
    CLAIM.main()
