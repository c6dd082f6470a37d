"""C09: the transition layer L* follows from depth and heads, L* = L (0.11 + 0.012 L + 4.9/H).

Claim: the formula errs by 4.8 % of depth within a heritage and 15.7 % across heritages, where L/2 errs by 25 %.
Estimand: error of depth, |predicted − empirical L*|/L, of L/2 less that of the formula, model by model, for every
published definition of the empirical L*; primary: the values of figure 5. Unit: the model, means over prompts.
Rule: supported where the 95 % paired t interval of the difference lies above 0 (the formula errs less than L/2), not
supported where it lies below 0; everything else is inconclusive. The files find the steepest change on the trace of
the first head in the small models and on that of all heads in the larger ones; it is judged with all heads as well.
Beside each the posterior of the mean difference, labs with levels of their own: supported where P(mean > 0) is at least
0.95, not supported where it is at most 0.05. Apart, what the formula says of depth and heads: error of the mean
fraction of the other labs less that of the formula, beside P(relatively later in deeper networks and earlier with more
heads) in a model that keeps L* inside the network. A finding has the verdict that both come to, and is inconclusive
where they differ or where a check of the fit fails.
Source: section 5.3, equation 6, figure 5; l_star_sign_change, H4_v2_validation, H4_v2_extended.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import SENTENCES, if_above
from thermostats.modelling.classical.means import paired_difference
from thermostats.modelling.laws.lines import LEAST, fit_line
from thermostats.modelling.laws.transition import fit_transition
from thermostats.plots.general import INK, MUTED, legend_above
from thermostats.studies.delia2026.gains import features_of
from thermostats.studies.delia2026.stated import H4_EXTENDED, H4_V2, stated, stated_by_model
from thermostats.studies.delia2026.transition_layers import (
    A_PRIORI,
    ALL_HEADS,
    BY_MODEL,
    CONSTANTS,
    SIGN_CHANGE,
    empirical,
    from_gains,
    sign_changes,
    with_predictions,
)
from thermostats.words import number, short_name

SEED = 9
SCALE = 10.0
"""Errors that differ by ten points of depth would be no surprise."""
STATED = {
    "error within heritage, % of depth": "section 5.3 within",
    "error across heritages, % of depth": "fig. 5",
    "error of L/2, % of depth": "section 5.3 naive",
}
IN_THE_FILE = {
    "error the file compares with, %": "/comparison_v2_argmax",
    "error by the first change of sign, % of depth": "/overall_mape",
    "improvement, points": "/improvement_pp",
}
FIGURE_5 = "L* of {} in figure 5"
DEFINITIONS = {
    "figure": "values of figure 5",
    "max_abs_gradient": "steepest change of the trace",
    "first_sign_change": "first change of sign of the trace's slope",
}
IN_WORDS = "steepest change of the trace of all heads"
WORDS = DEFINITIONS | {ALL_HEADS: IN_WORDS}
MARKERS = dict(zip(DEFINITIONS, "os^", strict=True))

CLAIM = Claim(
    id="C09",
    title="L* = L(0.11 + 0.012 L + 4.9/H)",
    said="The formula misses the transition layer by 4.8 % of depth within a heritage and by 15.7 % across "
    "heritages, where L/2 misses it by 25 %.",
    estimand="error of depth of L/2 less that of the formula, paired by model, for each published definition of L*",
    rule="Supported where the 95 % paired t interval of the difference lies above 0, not supported where it lies "
    "below 0. Beside it the posterior of the mean difference; the verdict is what both come to.",
    source="Section 5.3, equation 6, figure 5; l_star_sign_change, H4_v2_validation, H4_v2_extended",
    rows="study",
)


def error_of_fraction(rows: pd.DataFrame) -> float:
    """Error of depth in per cent of L* put at the mean fraction of the other models."""
    fraction = rows["layer"] / rows["n_layers"]
    of_others = (fraction.sum() - fraction) / (len(rows) - 1)
    return float(100 * (of_others - fraction).abs().mean())


def relative_error(rows: pd.DataFrame, name: str) -> float:
    """Mean absolute percentage error relative to L*; infinite where an L* is 0."""
    return float((100 * (rows[name] - rows["layer"]).abs() / rows["layer"]).mean())


def one_definition(rows: pd.DataFrame, kind: str) -> Finding:
    """The finding on one definition of the empirical L*."""
    rows = rows[rows["kind"] == kind]
    gained = paired_difference(rows["error_half"], rows["error_formula"], log=False, seed=SEED)
    decided = if_above(gained.lower, gained.upper, 0.0)
    errors = [relative_error(rows, name) for name in ("formula", "half")]
    usual = f"Relative to L* itself the errors are {errors[0]:.0f} % and {errors[1]:.0f} %. " * isfinite(errors[0])
    better = int((rows["error_formula"] < rows["error_half"]).sum())
    return Finding(
        claim="C09",
        estimand=f"error of L/2 less error of the formula, {WORDS[kind]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: by the {WORDS[kind]}, the formula misses L* by "
        f"{rows['error_formula'].mean():.1f} % of depth on average and L/2 by {rows['error_half'].mean():.1f} %; the "
        f"formula is nearer in {better} of {len(rows)} models, and the mean difference is {number(gained.estimate)} "
        f"points (95 % interval {number(gained.lower)} to {number(gained.upper)}). {usual}"
        "The other models' mean fraction of depth, which knows neither L nor H, misses by "
        f"{error_of_fraction(rows):.1f} %.",
        estimate=gained.estimate,
        lower=gained.lower,
        upper=gained.upper,
        interval=f"95 % {gained.interval}, points of depth",
        probability=gained.p_permutation,
        probability_kind="p-value",
        n_models=len(rows),
        n_heritages=rows["heritage"].nunique(),
        notes=(f"The p-value is of the two-sided paired sign-flip test, {gained.permutation}.",),
    )


def with_mean(rows: pd.DataFrame, kind: str, finding: Finding) -> Finding:
    """The finding on one definition with the posterior of the mean difference, where there are models enough."""
    rows = rows[rows["kind"] == kind]
    if len(rows) < LEAST:
        return finding
    gained = rows.assign(points_gained=rows["error_half"] - rows["error_formula"])
    fit = fit_line(gained, "points_gained", scale=SCALE, sources=[CLAIM.source], seed=SEED)
    told = posterior_of(
        fit,
        model=f"Mean of the error of L/2 less that of the formula, points of depth, {WORDS[kind]}.",
        statement="mean > 0",
        truth=fit.quantities["mean"] > 0,
        classical=finding.verdict,
        tables=["rows"],
    )
    return beside(finding, fit, told)


def form(tables: Evidence) -> Finding:
    """The finding on what the formula says of depth and heads, against the mean fraction of other labs."""
    fit = fit_transition(features_of(tables, SIGN_CHANGE), "first_sign_change", source=SIGN_CHANGE, seed=SEED)
    models = fit.table("models")
    errors = {
        name: 100 * (models[name] - models["L_star"]).abs() / models["n_layers"]
        for name in ("published formula", "mean fraction", "logit")
    }
    gained = paired_difference(errors["mean fraction"], errors["published formula"], log=False, seed=SEED)
    decided = if_above(gained.lower, gained.upper, 0.0)
    later, earlier = fit.quantities["slope_n_layers"] > 0, fit.quantities["slope_n_heads"] < 0
    finding = Finding(
        claim="C09",
        estimand="error of other labs' mean fraction less error of the formula, first change of sign",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: predicting labs that were left out, their mean fraction of depth misses by "
        f"{errors['mean fraction'].mean():.1f} % of depth, the formula by {errors['published formula'].mean():.1f} % "
        f"and a model of depth and heads fitted to the other labs by {errors['logit'].mean():.1f} %; the mean "
        f"difference of the first two is {number(gained.estimate)} points (95 % interval {number(gained.lower)} to "
        f"{number(gained.upper)}).",
        estimate=gained.estimate,
        lower=gained.lower,
        upper=gained.upper,
        interval=f"95 % {gained.interval}, points of depth",
        probability=gained.p_permutation,
        probability_kind="p-value",
        n_models=fit.n_models,
        n_heritages=fit.n_heritages,
    )
    told = posterior_of(
        fit,
        model="L*/L on the logit by depth and heads, labs partially pooled, first change of sign of the trace's slope.",
        statement="relatively later in deeper networks and earlier with more heads",
        truth=later & earlier,
        classical=decided,
        tables=["errors", "errors_within_labs", "models", "polynomial"],
        sensitivity=fit.table("sensitivity"),
    )
    return beside(finding, fit, told)


def analyse(tables: Evidence) -> list[Finding]:
    """Figure 5, the two definitions that the files hold, the steepest change with all heads, and the formula's form."""
    rows = with_predictions(empirical(tables), tables)
    rows = rows[rows["kind"].isin([*WORDS, "calibration"])].reset_index(drop=True)
    primary, *others = [with_mean(rows, kind, one_definition(rows, kind)) for kind in WORDS]
    figure, calibrated = (rows[rows["kind"] == kind] for kind in ("figure", "calibration"))
    published = stated(tables, STATED)
    file = stated(tables, IN_THE_FILE, SIGN_CHANGE)
    published |= {name: file.pop(name) for name in list(IN_THE_FILE)[:1]}
    published |= {FIGURE_5.format(short_name(row.model_id)): float(row.layer) for row in figure.itertuples()}
    across = float(figure["error_formula"].mean())
    reproduced = {
        "error within heritage, % of depth": float(calibrated["error_formula"].mean()),
        "error across heritages, % of depth": across,
        "error of L/2, % of depth": float(figure["error_half"].mean()),
        "error the file compares with, %": across,
    }
    shapes = len(figure[["n_layers", "n_heads"]].drop_duplicates())
    at = stated(tables, CONSTANTS)
    leaves = (1 - at["a"] - at["c"] / 64) / at["b"]
    relative = relative_error(calibrated, "half")
    errors_of_half = {
        f"{kind} on the {words}": value
        for words, part in (("calibration values", calibrated), ("values of figure 5", figure))
        for kind, value in (
            ("error of depth", float(part["error_half"].mean())),
            ("error relative to L*", relative_error(part, "half")),
        )
    }
    wanted = published["error of L/2, % of depth"]
    nearest = min(errors_of_half, key=lambda name: abs(errors_of_half[name] - wanted))
    missing = tables.table("transitions", source=H4_EXTENDED, definition="max_abs_gradient")
    gone = ", ".join(short_name(name) for name in missing.loc[missing["layer"].isna(), "model_id"])
    seen = sorted(set(figure["model_id"]) & set(calibrated["model_id"]))
    notes = (
        *primary.notes,
        f"The {len(figure)} models of figure 5 have {shapes} different pairs (L, H), so that the formula's three "
        f"constants cannot be told from these data, and {len(seen)} of them are in the file as calibration values: "
        "the error across heritages is not one of unseen models.",
        "No error of 4.8 % follows from the files; the calibration values give "
        f"{number(reproduced['error within heritage, % of depth'])} %. On them L/2 misses by "
        f"{number(float(calibrated['error_half'].mean()))} % of depth, or {number(relative)} % relative to L*; on "
        f"the rows of figure 5, where the formula has its {number(across)} %, L/2 misses by "
        f"{number(float(figure['error_half'].mean()))} %.",
        f"Nearest to the published {wanted:g} % of L/2 is its {nearest}, {number(errors_of_half[nearest])} %.",
        "The values of figure 5 were read off the figure; no file holds the curves beneath them, so they cannot be "
        "recomputed.",
        f"With 64 heads the formula puts L* behind the last layer from {leaves:.0f} layers on.",
        f"Left out for the steepest change: {gone or 'no model'}, where the published index is that of the first "
        "layer that overflowed. Indices count from 0, as in the study; the values of figure 5 are taken as they "
        "stand. Were they counts from 1, " + from_one(figure),
    )

    def draw(axes: Axes) -> None:
        names = list(rows.loc[rows["kind"].isin(DEFINITIONS), "model_id"].drop_duplicates())
        at_row = {name: i for i, name in enumerate(names)}
        for kind, words in DEFINITIONS.items():
            part = rows[rows["kind"] == kind]
            axes.scatter(
                part["layer"] / part["n_layers"],
                part["model_id"].map(at_row),
                marker=MARKERS[kind],
                s=40,
                label=words,
                zorder=3,
            )
        one = rows.drop_duplicates("model_id").set_index("model_id").loc[names]
        axes.scatter(one["formula"] / one["n_layers"], range(len(names)), marker="|", s=260, color=INK, label="formula")
        axes.axvline(0.5, color=MUTED, linestyle="--", linewidth=1)
        axes.set_yticks(range(len(names)), [short_name(name) for name in names])
        axes.set(xlabel="L* / L (dashed: L/2)", xlim=(-0.03, 1.03), ylim=(len(names) - 0.5, -0.5))
        legend_above(axes)

    primary = replace(
        primary,
        published=published,
        reproduced=reproduced,
        notes=notes,
        table=rows[
            ["kind", "model_id", "heritage", "n_layers", "n_heads", "layer", "formula", "error_formula", "error_half"]
        ],
        draw=draw,
        caption="Empirical L* as a fraction of depth by three published definitions, with what the formula predicts "
        f"(bars). On the values of figure 5 the formula misses by {across:.1f} % of depth and L/2 by "
        f"{figure['error_half'].mean():.1f} %.",
    )
    steepest, first, throughout = others
    steepest = replace(
        steepest,
        published=stated_by_model(tables, H4_V2, {A_PRIORI: r"/results/\d+/L_star_apriori"}),
        reproduced=from_gains(tables),
        notes=(
            *steepest.notes,
            *in_sample(rows),
            "The file of the small models predicts L* by another formula, (L/2)(1 + tanh(5(G − 1))) with the gains "
            "that it copies; it is recomputed here and not judged.",
        ),
    )
    changed = sign_changes(tables, rows[rows["kind"] == "first_sign_change"])
    error = float(rows.loc[rows["kind"] == "first_sign_change", "error_formula"].mean())
    changed |= dict(
        zip(list(IN_THE_FILE)[1:], (error, published["error the file compares with, %"] - error), strict=True)
    )
    first = replace(first, published=file | stated_by_model(tables, SIGN_CHANGE, BY_MODEL), reproduced=changed)
    return [primary, steepest, throughout, first, form(tables)]


def from_one(figure: pd.DataFrame) -> str:
    """What the errors of figure 5 would be, were its values counted from 1."""
    shifted = figure.assign(layer=figure["layer"] - 1)
    errors = [
        float((100 * (shifted[name] - shifted["layer"]).abs() / shifted["n_layers"]).mean())
        for name in ("formula", "half")
    ]
    return f"the formula would miss by {errors[0]:.1f} % of depth and L/2 by {errors[1]:.1f} %."


def in_sample(rows: pd.DataFrame) -> tuple[str, ...]:
    """What the steepest change rests on: heads that differ between files, calibration values, single models."""
    part = rows[rows["kind"] == "max_abs_gradient"].reset_index(drop=True)
    made = rows[rows["kind"] == "calibration"].set_index("model_id")["layer"]
    same = part["model_id"].map(made) == part["layer"]
    new = part[~same]
    without = {model: one_definition(part[part["model_id"] != model], "max_abs_gradient") for model in part["model_id"]}
    other = {
        model: found
        for model, found in without.items()
        if found.verdict != one_definition(part, "max_abs_gradient").verdict
    }
    changed = "; ".join(
        f"without {short_name(model)} the difference is {number(found.estimate)} ({number(found.lower)} to "
        f"{number(found.upper)}) and the verdict {found.verdict}"
        for model, found in other.items()
    )
    return (
        f"{int(same.sum())} of these {len(part)} values are those on which the file calibrates the formula, so that "
        f"they do not test it; on the other {len(new)} ({', '.join(map(short_name, new['model_id']))}) the formula "
        f"misses by {new['error_formula'].mean():.1f} % of depth and L/2 by {new['error_half'].mean():.1f} %.",
        "The files take the trace of the first head in the small models and of all heads in the larger ones; the next "
        "finding, added after a review, has all heads throughout.",
        f"One model left out: {changed or 'no single model changes the verdict'}.",
    )


if __name__ == "__main__":
    run(CLAIM, analyse)
