"""N03: depth and head density, set by design, move the gain as the study says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import PUBLISHED, Evidence
from thermostats.claims.result import Audit, Estimate, Result
from thermostats.claims.rule import NEVER, AtLeast, Decide, Pick, Posterior, V, Within
from thermostats.modelling.classical.counts import classification_accuracy, one_sample_bound
from thermostats.modelling.classical.estimates import holm
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.laws.depth import fit_kleiber
from thermostats.modelling.laws.lines import fit_line
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.studies.delia2026.stated import stated
from thermostats.studies.nursery.rows import LEAST_MODELS, LEAST_RECIPES, final, judged
from thermostats.studies.nursery.signs import standard_errors
from thermostats.studies.nursery.slopes import (
    LARGEST,
    PENULTIMATE,
    TOTAL,
    WORDS,
    against_published,
    both_slopes,
    draw_density,
    draw_depth,
    extra_terms,
    held,
    jackknifed_curve,
    mean_traces,
    mediated,
    slope_on,
)
from thermostats.tables.vocabulary import NURSERY

SEED, ALPHA = 103, 0.05
SMALL = float(np.log(1.05) / np.log(2))
"""A slope on a logarithm that moves the gain by 5 % where the logarithm's argument doubles."""
SCALE = 0.5
"""Gains that differ by a factor e^0.5 = 1.6 over one SD of log L or log ρ would be no surprise."""
NEAR, TOLERATED, MOST = 2.0, 0.05, 0.25
CUTS = {"lower": "section 7 lower", "upper": "section 7 upper"}
CLAIM = Claim.read(__file__)
COMMON: dict[str, Any] = {"evidence": NURSERY, "needs": AtLeast(models=LEAST_MODELS, groups=LEAST_RECIPES)}


@CLAIM.shared
def rows_of(evidence: Evidence, gain: str) -> pd.DataFrame:
    """Models that a gain is judged by, with their traces; recipes stand as `heritage`."""
    every = final(evidence)
    rows = judged(every.assign(trace=every["model_id"].map(mean_traces(evidence, NURSERY))), gain)
    return rows.assign(heritage=rows["recipe"])


def falls(term: str) -> dict[str, Any]:
    """The rule of a slope: below 0, or not as much as a fall of 5 % a doubling."""
    slope, known = V("slope"), V("converged") > 0
    posterior = Posterior(f"slope on {WORDS[term]} < 0", against=f"slope on {WORDS[term]} < −{SMALL:.3g}")
    return {"primary": Decide(known & (slope.upper < 0), known & (slope.lower > -SMALL)), "robustness": posterior}


def slope(evidence: Evidence, term: str, **more: Any) -> Result:
    """Slope of the log penultimate gain on one term, by a mixed model and by a Bayesian line."""
    rows, words = rows_of(evidence, PENULTIMATE), more.pop("words", {})
    if len(rows) < LEAST_MODELS:
        return Result.of(rows, {})
    others = [name for name in held(rows) if name != term]
    found = slope_on(rows, term, others, "recipe")
    known = rows.assign(error=standard_errors(rows, PENULTIMATE))
    columns = [*others, term]  # influence is checked of the last column
    fit = fit_line(known, "log_gain", columns, scale=SCALE, group="recipe", error="error", sources=[NURSERY], seed=SEED)
    rule, drawn = falls(term)["robustness"], fit.quantities[term]
    interval = "95 % Wald t interval of a mixed model, recipes as groups"
    estimate = Estimate(found.estimate, found.lower, found.upper, interval, found.p_value)
    doubled = [float(np.expm1(v * np.log(2))) for v in (found.estimate, found.lower, found.upper)]
    return Result.of(
        rows,
        {"slope": estimate, "converged": Estimate(float(found.converged))},
        fit=fit,
        statements={rule.statement: drawn < 0, rule.against: drawn < -SMALL},
        **{"table": None, **more},
        words={"on": WORDS[term], "doubled": doubled, "note": found.note, **words},
    )


@CLAIM.finding("depth", **falls("log_L"), **COMMON)
def depth(evidence: Evidence) -> Result:
    """Slope on the log of depth; both slopes under other choices of models."""
    every, rows = final(evidence), rows_of(evidence, PENULTIMATE)
    if len(rows) < LEAST_MODELS:
        return Result.of(rows, {})
    others = {
        "with models normed after the sum": judged(every, PENULTIMATE, pinned=True),
        "without models that learned nothing": judged(every[every["learned"].astype(bool)], PENULTIMATE),
        "of the mean gain a block, all depths": judged(every, "geometric_gain"),
    }
    words = {"others": {name: (len(own), both_slopes(own)) for name, own in others.items() if len(own)}}
    table = against_published(evidence.named(PUBLISHED), rows, tolerated=TOLERATED)
    return slope(evidence, "log_L", table=table, draw=draw_depth(rows, seed=SEED), words=words)


@CLAIM.finding("density", **falls("log_rho"), **COMMON)
def density(evidence: Evidence) -> Result:
    """Slope on the log of head density."""
    return slope(evidence, "log_rho", draw=draw_density(rows_of(evidence, PENULTIMATE), seed=SEED))


@CLAIM.shared
def law(evidence: Evidence) -> Fitted:
    """The power law of the largest gain over depth and its envelope."""
    rows = rows_of(evidence, PENULTIMATE)
    return fit_kleiber(rows, LARGEST, source=NURSERY, error_from=PENULTIMATE, seed=SEED)


AS_PUBLISHED = Posterior(f"exponent and level within a factor {NEAR:g} of the published")
LIKE = Within("exponent β", 1 / NEAR, NEAR) & Within("level at the middle depth, times 1/L", 1 / NEAR, NEAR)


@CLAIM.finding("exponent", primary=LIKE, robustness=AS_PUBLISHED, **COMMON)
def exponent(evidence: Evidence) -> Result:
    """Exponent and level against the published curve 10^(1/L)."""
    rows = rows_of(evidence, PENULTIMATE)
    if len(rows) < LEAST_MODELS:
        return Result.of(rows, {})
    curve, fit = jackknifed_curve(rows), law(evidence)
    interval = f"95 % jackknife t interval over {rows['recipe'].nunique()} recipes"
    quantities = {
        "exponent β": Estimate(*curve.beta, interval),
        "level at the middle depth, times 1/L": Estimate(*curve.level, interval),
    }
    beta = fit.quantities["beta"]
    level = fit.quantities["k"] * curve.middle ** (1 - beta)
    holds = (beta > 1 / NEAR) & (beta < NEAR) & (level > 1 / NEAR) & (level < NEAR)
    audit = Audit(dict.fromkeys(quantities, 1.0), {name: float(q.value or 0) for name, q in quantities.items()})
    return Result.of(
        rows,
        quantities,
        table=None,
        fit=fit,
        fit_tables=("quantiles", "rivals"),
        sensitivity=fit.table("sensitivity"),
        statements={AS_PUBLISHED.statement: holds},
        audit=audit,
        words={"level": list(quantities.values())[1], "curve": curve},
    )


ABOVE = V("models above the bound")
BOUND = Decide((ABOVE <= 0) & (V("share of models above").upper < MOST), ABOVE > 0)


@CLAIM.finding("bound", primary=BOUND, robustness=Posterior("every model below 10^(1/L)"), **COMMON)
def bound(evidence: Evidence) -> Result:
    """10^(1/L) as a bound of the largest gain."""
    rows = rows_of(evidence, PENULTIMATE)
    if len(rows) < LEAST_MODELS:
        return Result.of(rows, {})
    limit = TOTAL ** (1 / rows["n_layers"])
    found = one_sample_bound(rows[LARGEST], limit, tolerated=TOLERATED)
    share = Estimate(found.estimate, found.lower, found.upper, f"95 % {found.interval}")
    return Result.of(
        rows,
        {"share of models above": share, ABOVE.name: Estimate(found.n_above)},
        table=None,
        fit=law(evidence),
        fit_tables=("models",),
        words={"found": found, "recipes": rows.loc[rows[LARGEST] > limit, "recipe"].nunique()},
    )


BEST = Pick("thresholds", largest="accuracy")
BETTER = Decide(BEST.where(V("accuracy").p <= ALPHA), BEST.where(V("accuracy") <= V("majority")))


@CLAIM.finding("threshold", primary=BETTER, robustness=Posterior("share > {majority:g}", pick=BEST), **COMMON)
def threshold(evidence: Evidence) -> Result:
    """Is ρ at or above the published threshold on the dampening side, more often than always naming one side?"""
    rows, cuts = rows_of(evidence, PENULTIMATE), stated(evidence.named(PUBLISHED), CUTS)
    dampens, words = rows[PENULTIMATE] < 1, {True: "dampens", False: "expands"}
    if len(rows) < LEAST_MODELS or dampens.nunique() < 2:
        return Result.of(rows, {}, table=None, rows={"thresholds": pd.DataFrame()}, words={"one_side": True})
    tried = {cut: classification_accuracy((rows["rho"] >= cut).map(words), dampens.map(words)) for cut in cuts.values()}
    table = pd.DataFrame(
        [(cut, t.estimate, t.p_value, t.majority) for cut, t in tried.items()],
        columns=["cut", "accuracy", "p", "majority"],
    )
    best = float(table.loc[table["accuracy"].idxmax(), "cut"])
    found = tried[best]
    right = rows.assign(side_named_rightly=(rows["rho"] >= best) == dampens)
    fit = fit_share(right, "side_named_rightly", against=found.majority, sources=[NURSERY], seed=SEED)
    interval = f"95 % {found.interval}"
    accuracy = Estimate(found.estimate, found.lower, found.upper, interval, found.p_value, "one-sided p-value")
    return Result.of(
        rows,
        {"accuracy": accuracy},
        table=None,
        rows={"thresholds": table},
        fit=fit,
        fit_tables=("groups",),
        words={"one_side": False, "best": best, "found": found},
    )


@dataclass(frozen=True)
class Term:
    """What straight lines leave out."""

    id: str
    what: str


SHAPE = (Term("depth", "curvature over depth"), Term("density", "curvature over head density"))
RECIPES = (Term("depth", "recipe factors × depth"), Term("density", "recipe factors × head density"))
ADDS = Decide(V("p after Holm") <= ALPHA, NEVER)


@CLAIM.shared
def terms(evidence: Evidence) -> pd.DataFrame:
    """F tests of the four terms, p adjusted over them by Holm."""
    table = extra_terms(rows_of(evidence, "geometric_gain"), seed=SEED)
    return table.assign(p_holm=holm(table["p"].to_dict()))


@CLAIM.finding("curvature", primary=ADDS, over=SHAPE, **COMMON)
@CLAIM.finding("interaction", primary=ADDS, over=RECIPES, **COMMON)
def extra(evidence: Evidence, term: Term) -> Result:
    """Curvature, and recipe × geometry, of the mean gain a block over all depths."""
    rows = rows_of(evidence, "geometric_gain")
    if len(rows) < LEAST_MODELS:
        return Result.of(rows, {})
    row = terms(evidence).set_index("what").loc[term.what]
    gained = Estimate(float(row["gained"]), p=float(row["p"]))
    quantities = {"share of variance added": gained, "p after Holm": Estimate(float(row["p_holm"]))}
    return Result.of(rows, quantities, table=terms(evidence), words={"row": row})


INDIRECT = V("indirect effect")


@CLAIM.finding("through_trace", primary=Decide((INDIRECT.lower > 0) | (INDIRECT.upper < 0), NEVER), **COMMON)
def through_trace(evidence: Evidence) -> Result:
    """The part of the effect of ρ that goes with the trace of the sheaf Laplacian."""
    rows = rows_of(evidence, PENULTIMATE)
    table = mediated(rows)
    if table.empty or table.iloc[0]["mediator"] != "trace of the sheaf Laplacian":
        return Result.of(rows[rows["trace"].notna()], {})
    main = table.iloc[0]
    indirect = Estimate(main["indirect"], main["lower"], main["upper"], f"95 % {main['interval']}")
    return Result(
        quantities={INDIRECT.name: indirect},
        table=table,
        words={"main": main},
        n_models=int(main["n_models"]),
        n_groups=int(main["groups"]),
    )


if __name__ == "__main__":
    CLAIM.main()
