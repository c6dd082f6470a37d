"""N03: depth and head density, set by design, move the gain as the study says."""

from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import PUBLISHED, Audit, Case, Claim, Estimate, Evidence, Result, TooFew
from thermostats.claims.rule import NEVER, Decide, Pick, Posterior, V, Within
from thermostats.modelling.classical.counts import classification_accuracy, one_sample_bound
from thermostats.modelling.classical.estimates import holm
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.laws.depth import fit_kleiber
from thermostats.modelling.laws.lines import fit_line
from thermostats.modelling.laws.shares_of_models import fit_share
from thermostats.studies.delia2026.stated import stated
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, final, judged
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


@CLAIM.shared
def rows_of(evidence: Evidence, gain: str) -> pd.DataFrame:
    """Models that a gain is judged by, with their traces."""
    every = final(evidence)
    return ENOUGH.of(judged(every.assign(trace=every["model_id"].map(mean_traces(evidence, NURSERY))), gain))


def falls(term: str) -> dict[str, Any]:
    """The rule of a slope: below 0, or not as much as a fall of 5 % a doubling."""
    slope, known, on = V("slope"), V("converged") > 0, f"slope on {WORDS[term]}"
    posterior = Posterior(f"{on} < 0", draws=V(term) < 0, against=f"{on} < −{SMALL:.3g}")
    return {"primary": Decide(known & (slope.upper < 0), known & (slope.lower > -SMALL)), "robustness": posterior}


def slope(evidence: Evidence, term: str, words: dict[str, Any] | None = None, **shown: Any) -> Result:
    """Slope of the log penultimate gain on one term, by a mixed model and by a Bayesian line."""
    rows = rows_of(evidence, PENULTIMATE)
    others = [name for name in held(rows) if name != term]
    found = slope_on(rows, term, others, "recipe")
    known = rows.assign(error=standard_errors(rows, PENULTIMATE))
    columns = [*others, term]  # influence is checked of the last column
    fit = fit_line(known, "log_gain", columns, scale=SCALE, group="recipe", error="error", sources=[NURSERY], seed=SEED)
    estimate = Estimate.of(found, "95 % Wald t interval of a mixed model, recipes as groups", found.p_value)
    doubled = [float(np.expm1(v * np.log(2))) for v in (found.estimate, found.lower, found.upper)]
    return Result.of(
        rows,
        {"slope": estimate, "converged": Estimate(float(found.converged))},
        fit=fit,
        statements={falls(term)["robustness"].against: fit.quantities[term] < -SMALL},
        words={"on": WORDS[term], "doubled": doubled, "note": found.note, **(words or {})},
        **{"table": None, **shown},
    )


@CLAIM.finding("depth", **falls("log_L"), **CONTROLLED)
def depth(evidence: Evidence) -> Result:
    """Slope on the log of depth; both slopes under other choices of models."""
    every, rows = final(evidence), rows_of(evidence, PENULTIMATE)
    others = {
        "with models normed after the sum": judged(every, PENULTIMATE, pinned=True),
        "without models that learned nothing": judged(every[every["learned"].astype(bool)], PENULTIMATE),
        "of the mean gain a block, all depths": judged(every, "geometric_gain"),
    }
    words = {"others": {name: (len(own), both_slopes(own)) for name, own in others.items() if len(own)}}
    table = against_published(evidence.named(PUBLISHED), rows, tolerated=TOLERATED)
    return slope(evidence, "log_L", words, table=table, draw=draw_depth(rows, seed=SEED))


@CLAIM.finding("density", **falls("log_rho"), **CONTROLLED)
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


@CLAIM.finding("exponent", primary=LIKE, robustness=AS_PUBLISHED, **CONTROLLED)
def exponent(evidence: Evidence) -> Result:
    """Exponent and level against the published curve 10^(1/L)."""
    rows, fit = rows_of(evidence, PENULTIMATE), law(evidence)
    curve = jackknifed_curve(rows)
    interval = f"95 % jackknife t interval over {rows['recipe'].nunique()} recipes"
    quantities = {
        "exponent β": Estimate(*curve.beta, interval),
        "level at the middle depth, times 1/L": Estimate(*curve.level, interval),
    }
    beta = fit.quantities["beta"]
    level = fit.quantities["k"] * curve.middle ** (1 - beta)
    return Result.of(
        rows,
        quantities,
        table=None,
        fit=fit,
        fit_tables=("quantiles", "rivals"),
        sensitivity=fit.table("sensitivity"),
        statements={AS_PUBLISHED.statement: (beta > 1 / NEAR) & (beta < NEAR) & (level > 1 / NEAR) & (level < NEAR)},
        audit=Audit(dict.fromkeys(quantities, 1.0), {name: float(q.value or 0) for name, q in quantities.items()}),
        words={"level": list(quantities.values())[1], "curve": curve},
    )


ABOVE, SHARE = V("models above the bound"), V("share of models above")
BOUND = Decide((ABOVE <= 0) & (SHARE.upper < MOST), ABOVE > 0)


@CLAIM.finding("bound", primary=BOUND, robustness=Posterior("every model below 10^(1/L)"), **CONTROLLED)
def bound(evidence: Evidence) -> Result:
    """10^(1/L) as a bound of the largest gain."""
    rows = rows_of(evidence, PENULTIMATE)
    limit = TOTAL ** (1 / rows["n_layers"])
    found = one_sample_bound(rows[LARGEST], limit, tolerated=TOLERATED)
    quantities = {SHARE.name: Estimate.of(found), ABOVE.name: Estimate(found.n_above)}
    words = {"found": found, "recipes": rows.loc[rows[LARGEST] > limit, "recipe"].nunique()}
    return Result.of(rows, quantities, table=None, fit=law(evidence), fit_tables=("models",), words=words)


BEST = Pick("thresholds", largest="accuracy")
BETTER = Decide(BEST.where(V("accuracy").p <= ALPHA), BEST.where(V("accuracy") <= V("majority")))


@CLAIM.finding("threshold", primary=BETTER, robustness=Posterior("share > {majority:g}", pick=BEST), **CONTROLLED)
def threshold(evidence: Evidence) -> Result:
    """Is ρ at or above the published threshold on the dampening side, more often than always naming one side?"""
    rows, cuts = rows_of(evidence, PENULTIMATE), stated(evidence.named(PUBLISHED), CUTS)
    dampens = rows[PENULTIMATE] < 1
    if dampens.nunique() < 2:
        return Result.of(rows, table=None, rows={"thresholds": pd.DataFrame()}, words={"one_side": True})
    tried = {cut: classification_accuracy(rows["rho"] >= cut, dampens) for cut in cuts.values()}
    table = pd.DataFrame(
        [(cut, t.estimate, t.p_value, t.majority) for cut, t in tried.items()],
        columns=["cut", "accuracy", "p", "majority"],
    )
    best = float(table.loc[table["accuracy"].idxmax(), "cut"])
    found = tried[best]
    right = rows.assign(side_named_rightly=(rows["rho"] >= best) == dampens)
    fit = fit_share(right, "side_named_rightly", against=found.majority, sources=[NURSERY], seed=SEED)
    return Result.of(
        rows,
        {"accuracy": Estimate.of(found, p=found.p_value, p_kind="one-sided p-value")},
        table=None,
        rows={"thresholds": table},
        fit=fit,
        fit_tables=("groups",),
        words={"one_side": False, "best": best, "found": found},
    )


SHAPE = (Case("depth", "curvature over depth"), Case("density", "curvature over head density"))
RECIPES = (Case("depth", "recipe factors × depth"), Case("density", "recipe factors × head density"))
ADDS = Decide(V("p after Holm") <= ALPHA, NEVER)


@CLAIM.shared
def terms(evidence: Evidence) -> pd.DataFrame:
    """F tests of the four terms, p adjusted over them by Holm."""
    table = extra_terms(rows_of(evidence, "geometric_gain"), seed=SEED)
    return table.assign(p_holm=holm(table["p"].to_dict()))


@CLAIM.finding("curvature", primary=ADDS, over=SHAPE, **CONTROLLED)
@CLAIM.finding("interaction", primary=ADDS, over=RECIPES, **CONTROLLED)
def extra(evidence: Evidence, term: Case) -> Result:
    """Curvature, and recipe × geometry, of the mean gain a block over all depths."""
    table = terms(evidence)
    row = table.set_index("what").loc[term.words]
    gained = Estimate(float(row["gained"]), p=float(row["p"]))
    quantities = {"share of variance added": gained, "p after Holm": Estimate(float(row["p_holm"]))}
    return Result.of(rows_of(evidence, "geometric_gain"), quantities, table=table, words={"row": row})


INDIRECT = V("indirect effect")


@CLAIM.finding("through_trace", primary=Decide((INDIRECT.lower > 0) | (INDIRECT.upper < 0), NEVER), **CONTROLLED)
def through_trace(evidence: Evidence) -> Result:
    """The part of the effect of ρ that goes with the trace of the sheaf Laplacian."""
    rows = rows_of(evidence, PENULTIMATE)
    table = mediated(rows)
    if table.empty or table.iloc[0]["mediator"] != "trace of the sheaf Laplacian":
        raise TooFew(Result.of(rows[rows["trace"].notna()]))
    main = table.iloc[0]
    indirect = Estimate(main["indirect"], main["lower"], main["upper"], f"95 % {main['interval']}")
    return Result(
        quantities={INDIRECT.name: indirect},
        n_models=int(main["n_models"]),
        n_groups=int(main["groups"]),
        table=table,
        words={"main": main},
    )


if __name__ == "__main__":
    CLAIM.main()
