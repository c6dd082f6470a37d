"""N03: depth law and head density where both were set by design.

Claims of the study, asked of models in which depth and head density were crossed by design with everything else: the
gain falls with depth (C01), the largest gain follows or is bounded by 10^(1/L) (C02), dense heads dampen (C10).
Estimand: slope of the log penultimate gain on log L and on log ρ, architecture, width and the other one held, every
recipe with a level of its own; m and β of log10 G_max = m (L/L0)^(−β), G_max the largest gain of blocks 2 to L − 1;
the share of models above 10^(1/L); the share whose side of 1 follows from ρ ≥ threshold. Unit: the trained model. Where
L = 2 the last block but one is the first, and no block lies between: those models are left out but where the mean gain
a block (blocks 2 to L) is asked. Models normed after the sum are left out, and shown with the others in a note.
Rule, slopes: supported where the 95 % interval of the mixed model lies below 0; not supported where it lies above
−SMALL, less than 5 % a doubling; else inconclusive. Beside it a Bayesian line: supported where P(slope < 0) is at least
0.95, else not supported where P(slope < −SMALL) is at most 0.05.
Rule, law: with the published k = β = 1 the exponent is 1 and the curve at the middle depth L0 is 1 times 10^(1/L0) on
the log scale. Supported where both 95 % intervals (jackknife over recipes) lie within a factor NEAR of 1 (β from
1/NEAR to NEAR); not supported where one lies wholly outside; else inconclusive. Beside it P(both within) by 0.95, 0.05.
Rule, bound: as in C02. Rule, threshold: as in C10, beside it P(share right > share of the commoner side) by 0.95, 0.05.
Rule, curvature and recipe × geometry (mean gain a block, four depths): supported where the p of F, Holm over the four
tests, is at most ALPHA, else inconclusive. Rule, mediator: "ρ acts through the trace of the sheaf Laplacian" is
supported where the 95 % interval of the indirect effect (jackknife over recipes) excludes 0, else inconclusive.
Where there are two, a verdict is what both come to, and inconclusive where they differ or a check of the fit fails.
Fewer than LEAST_MODELS models or LEAST_RECIPES recipes: needs measurement.
Source: the controlled study; sections 4.1, 5.4 and 7 of the preprint.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, SURE
from thermostats.modelling.classical.counts import one_sample_bound
from thermostats.modelling.classical.estimates import holm
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.laws.depth import fit_kleiber
from thermostats.modelling.laws.lines import fit_line
from thermostats.studies.delia2026.gains import gains
from thermostats.studies.delia2026.stated import stated
from thermostats.studies.nursery.density import ALPHA, PENULTIMATE, draw_density, threshold, through
from thermostats.studies.nursery.law import LARGEST, NEAR, TOLERATED, TOTAL, bound, draw_depth, law
from thermostats.studies.nursery.recipe_fit import (
    LEAST_MODELS,
    LEAST_RECIPES,
    LIMITS,
    NAMED_GAINS,
    judged,
    too_few,
    unmeasured,
)
from thermostats.studies.nursery.rows import final
from thermostats.studies.nursery.slopes import LINES, extra_terms, held, mean_traces, slope_on
from thermostats.tables.vocabulary import NURSERY
from thermostats.words import number, relation

SEED = 103
SMALL = float(np.log(1.05) / np.log(2))
"""A slope on a logarithm that moves the gain by 5 % where the logarithm's argument doubles."""
SCALE = 0.5
"""Gains that differ by a factor e^0.5 = 1.6 over one SD of log L or log ρ would be no surprise."""
MEAN = "geometric_gain"
CUTS = {"lower": "section 7 lower", "upper": "section 7 upper"}
WORDS = {"log_L": "the log of depth", "log_rho": "the log of head density ρ"}

CLAIM = Claim(
    id="N03",
    title="Depth and head density, set by design, move the gain as the study says",
    said="The gain falls with depth, the largest gain as 10^(1/L) and never above it, and models of dense heads "
    "dampen: asked of models whose depth and head density were crossed by design with everything else.",
    estimand="slope of the log penultimate gain on log L and on log ρ; exponent and share above of 10^(1/L); unit: the "
    "trained model",
    rule="Slopes: supported where the 95 % interval lies below 0, not supported where it lies above a fall of 5 % a "
    f"doubling. Law: supported where exponent and level lie within a factor {NEAR:g} of 10^(1/L), not supported where "
    "one lies outside. Bound and threshold of ρ: as in C02 and C10. Beside each the posterior of the same statement; "
    f"the verdict is what both come to. Curvature, recipe × geometry and mediator by tests alone. Fewer than "
    f"{LEAST_MODELS} models or {LEAST_RECIPES} recipes: needs measurement.",
    source="The controlled study; sections 4.1, 5.4, 7",
    rows="nursery",
)


def judge_slope(lower: float, upper: float) -> str:
    """The rule for slopes."""
    return SUPPORTED if upper < 0 else AGAINST if lower > -SMALL else OPEN


def slope_finding(rows: pd.DataFrame, term: str, gain: str) -> Finding:
    """The finding on one slope of one gain, the posterior line beside the mixed model."""
    others = [name for name in held(rows) if name != term]
    found = slope_on(rows, term, others, "recipe")
    decided = judge_slope(found.lower, found.upper) if found.converged else OPEN
    doubled = [float(np.expm1(value * np.log(2))) for value in (found.estimate, found.lower, found.upper)]
    finding = Finding(
        claim="N03",
        estimand=f"slope on {WORDS[term]}, {NAMED_GAINS[gain]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: over {found.n} models of {found.n_groups} recipes the slope of the log gain on "
        f"{WORDS[term]} is {number(found.estimate)} (95 % interval {number(found.lower)} to {number(found.upper)}), "
        f"which is {doubled[0]:+.0%} a doubling ({doubled[1]:+.0%} to {doubled[2]:+.0%}). Depth and density were set "
        "by design, so this is an effect and no mere association, in models of this size.".replace("-", "−"),
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        interval="95 % Wald t interval of a mixed model, recipes as groups",
        probability=found.p_value,
        probability_kind="p-value",
        n_models=found.n,
        n_heritages=found.n_groups,
        notes=(found.note[0].upper() + found.note[1:] + ".",) if found.note else (),
    )
    fit = line(rows, term, others)
    drawn = fit.quantities[term]
    falls, falls_more = float((drawn < 0).mean()), float((drawn < -SMALL).mean())
    told = posterior_of(
        fit,
        model=f"Line of the log gain ({NAMED_GAINS[gain]}) over architecture, width, depth and head density; every "
        "recipe has a level of its own.",
        statement=f"slope on {WORDS[term]} < 0",
        truth=np.asarray(drawn < 0),
        verdict=SUPPORTED if falls >= SURE else AGAINST if falls_more <= 1 - SURE else OPEN,
        rule=f"Supported where P(slope < 0) is at least {SURE:g}; else not supported where P(slope < "
        f"{number(-SMALL)}), a fall of 5 % a doubling, is at most {1 - SURE:.2g}; else inconclusive.",
        classical=decided,
    )
    return beside(finding, fit, told)


def line(rows: pd.DataFrame, term: str, others: list[str]) -> Fitted:
    """The Bayesian line, the column that is asked last (influence is checked of the last column)."""
    labelled = rows.assign(heritage=rows["recipe"], error=relative_error(rows, PENULTIMATE))
    return fit_line(
        labelled, "log_gain", [*others, term], scale=SCALE, group="recipe", error="error", sources=[NURSERY], seed=SEED
    )


def relative_error(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Standard error of the log gain over prompts."""
    return rows[f"{gain}_sd"] / rows[gain] / np.sqrt(rows[f"{gain}_n"].astype("float64"))


def extra(rows: pd.DataFrame) -> list[Finding]:
    """The findings on curvature and on recipe × geometry, of the mean gain a block over all depths."""
    table = extra_terms(rows, seed=SEED)
    adjusted = holm(dict(zip(table["what"], table["p"], strict=True)))
    table = table.assign(p_holm=table["what"].map(adjusted))
    findings: list[Finding] = []
    for row in table.to_dict("records"):
        decided = SUPPORTED if row["p_holm"] <= ALPHA else OPEN
        findings.append(
            Finding(
                claim="N03",
                estimand=f"{row['what']}, mean gain a block",
                verdict=decided,
                plain=f"{SENTENCES[decided]}: over {len(rows)} models {row['what']} adds {row['gained']:.1%} to the "
                f"variance explained, F({row['columns']}, {row['residual_df']}) = {number(row['f'])}, p "
                f"{relation(row['p'])}, p {relation(row['p_holm'])} after Holm over "
                f"{len(table)} tests and p {relation(row['p_shuffled'])} by shuffled residuals.",
                estimate=row["gained"],
                probability=row["p"],
                probability_kind="p-value",
                n_models=len(rows),
                n_heritages=rows["recipe"].nunique(),
                table=table if not findings else None,
            )
        )
    return findings


def published_beside(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """The same estimands here and over the published models, whose labs take the place of recipes."""
    every = gains(tables)
    known = every[every["comparable"]].reset_index(drop=True)
    logs = {"log_L": "n_layers", "log_rho": "rho", "log_d": "d_model"}
    known = known.assign(**{name: np.log(known[column].astype("float64")) for name, column in logs.items()})
    found = []
    for term, words in list(WORDS.items()):
        for study, frame, others, group in (
            ("here, by design", rows, held(rows), "recipe"),
            ("published models, as observed", known, list(LINES), "heritage"),
        ):
            slope = slope_on(frame, term, [name for name in others if name != term], group)
            found.append(
                {
                    "what": f"slope on {words}",
                    "study": study,
                    "estimate": slope.estimate,
                    "lower": slope.lower,
                    "upper": slope.upper,
                    "n_models": slope.n,
                    "groups": slope.n_groups,
                }
            )
    for study, frame, group in (
        ("here, by design", rows, "recipe"),
        ("published models, as observed", known, "heritage"),
    ):
        of = frame.dropna(subset=LARGEST)
        share = one_sample_bound(of[LARGEST], TOTAL ** (1 / of["n_layers"]), tolerated=TOLERATED, seed=SEED)
        found.append(
            {
                "what": "share above 10^(1/L)",
                "study": study,
                "estimate": share.estimate,
                "lower": share.lower,
                "upper": share.upper,
                "n_models": share.n,
                "groups": of[group].nunique(),
            }
        )
    return pd.DataFrame(found)


def slopes_of(rows: pd.DataFrame) -> str:
    """Both slopes of some rows in words."""
    others = held(rows)
    said = []
    for term, words in WORDS.items():
        found = slope_on(rows, term, [name for name in others if name != term], "recipe")
        said.append(f"{number(found.estimate)} ({number(found.lower)} to {number(found.upper)}) on {words}")
    return f"{' and '.join(said)} over {len(rows)} models"


def analyse(tables: Evidence) -> list[Finding]:
    """Slope on depth and on ρ, law, bound, threshold, curvature and interactions, mediator."""
    every = final(tables)
    every = every.assign(trace=every["model_id"].map(mean_traces(tables, NURSERY)))
    rows, mean = judged(every, PENULTIMATE), judged(every, MEAN)
    asked = {term: f"slope on {words}, {NAMED_GAINS[PENULTIMATE]}" for term, words in WORDS.items()}
    if too_few(rows):
        return [unmeasured("N03", estimand, rows) for estimand in asked.values()]
    depth, density = (slope_finding(rows, term, PENULTIMATE) for term in WORDS)
    table = published_beside(tables, rows)
    fit = fit_kleiber(rows.assign(heritage=rows["recipe"]), LARGEST, source=NURSERY, error_from=PENULTIMATE, seed=SEED)
    learned = judged(every[every["learned"].astype(bool)], PENULTIMATE)
    pinned = judged(every, PENULTIMATE, pinned=True)
    notes = (
        LIMITS,
        f"Of {len(every)} models {int((~every['comparable']).sum())} norm after the sum, which pins their gains near "
        f"1, and are left out; with them the slopes are {slopes_of(pinned)}. Without the "
        f"{int((~every['learned'].astype(bool)).sum())} models that learned nothing: {slopes_of(learned)}. Of the "
        f"mean gain a block, all depths: {slopes_of(mean)}.",
        "The published models beside them are those of C01, C02 and C10, one row a model, labs in the place of "
        "recipes: there depth, density and lab were chosen together, here they were not.",
    )
    primary = replace(
        depth,
        notes=(*depth.notes, *notes),
        table=table,
        draw=draw_depth(rows, seed=SEED),
        caption=f"Largest gain of blocks 2 to L − 1 over depth in {len(rows)} models, by head density, with the "
        "published 10^(1/L). " + f"The slope of the log penultimate gain on log L is {number(depth.estimate)}.",
    )
    density = replace(
        density,
        draw=draw_density(rows, seed=SEED),
        caption=f"Penultimate gain over head density in {len(rows)} models, by depth. The slope of the log gain on log "
        f"ρ is {number(density.estimate)}, interval {number(density.lower)} to {number(density.upper)}.",
    )
    cuts = stated(tables, CUTS)
    own = (
        primary,
        density,
        law(rows, fit),
        bound(rows, fit, seed=SEED),
        threshold(rows, cuts, seed=SEED),
        *extra(mean),
        through(rows),
    )
    return [replace(finding, group="recipe") for finding in own]


if __name__ == "__main__":
    run(CLAIM, analyse)
