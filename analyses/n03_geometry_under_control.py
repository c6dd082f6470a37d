"""N03: depth and head density, set by design, move the gain as the study says."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import PUBLISHED, Audit, Case, Claim, Estimate, Evidence, Inference, Result, Trial
from thermostats.claims.rule import NEVER, Decide, Given, Posterior, V
from thermostats.claims.worlds import (
    SPARE,
    searches_among,
    worlds_in_groups,
    worlds_of_bound,
    worlds_of_curve,
    worlds_of_path,
)
from thermostats.modelling.classical.estimates import holm
from thermostats.modelling.fit import Fit
from thermostats.modelling.kleiber import fit_kleiber
from thermostats.modelling.lines import fit_line
from thermostats.modelling.shares import fit_share
from thermostats.studies.delia2026.stated import stated
from thermostats.studies.nursery import languages, second, third, together
from thermostats.studies.nursery.design import blocks
from thermostats.studies.nursery.falling import (
    ALPHA,
    BETWEEN,
    FALLING,
    IN_ALL_BUT_ONE,
    IN_EVERY,
    IN_ONE,
    QUARTER,
    SMALL,
    below,
    by_both,
    by_crossed,
    by_recipes,
    shown_by_corpus,
)
from thermostats.studies.nursery.largest import (
    BOUND,
    LARGEST,
    LIKE,
    MOST,
    NEAR,
    PENULTIMATE,
    TOLERATED,
    TOTAL,
    as_published,
    by_bound,
    by_curve,
)
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, final, judged, read_by_tests
from thermostats.studies.nursery.second import STUDY
from thermostats.studies.nursery.signs import standard_errors
from thermostats.studies.nursery.slopes import (
    LINES,
    WORDS,
    against_published,
    both_slopes,
    by_slope,
    doubled,
    draw_density,
    draw_depth,
    draw_largest,
    extra_terms,
    held,
    mean_traces,
    mediated,
    with_terms,
)
from thermostats.studies.nursery.thresholds import (
    BEST,
    BETTER,
    CUTS,
    INDIRECT,
    RARE,
    RARER,
    by_cuts,
    by_terms,
    by_trace,
)
from thermostats.tables.vocabulary import NURSERY

SEED = 103
SCALE = 0.5
"""Gains that differ by a factor e^0.5 = 1.6 over one SD of log L or log ρ would be no surprise."""
CLAIM = Claim.read(__file__)
OVER_RECIPES = partial(searches_among, ordered=False, group="recipe", effort=SPARE)
"""Recipes and shapes were drawn independently, so errors of neighbours along a column are no nuisance."""
IN_ALL, IN_BOTH = (*FALLING, *IN_ALL_BUT_ONE), (*FALLING, *IN_ONE)
CURVED = worlds_of_curve(LARGEST, "published", "flat", 0.7)
BOUNDED = worlds_of_bound(LARGEST, "bound", "error", MOST)
SIDED = worlds_in_groups("log_side", "log_rho", -QUARTER, BETWEEN)
TRACED = worlds_of_path("log_gain", "log_rho", "log_trace", QUARTER)


@CLAIM.shared
def rows_of(evidence: Evidence, gain: str) -> pd.DataFrame:
    """Models that a gain is judged by, with their traces."""
    every = final(evidence)
    return ENOUGH.of(judged(every.assign(trace=every["model_id"].map(mean_traces(evidence, NURSERY))), gain))


def read(evidence: Evidence, gain: str = PENULTIMATE, *more: str) -> pd.DataFrame:
    """What tests read of them."""
    return read_by_tests(rows_of(evidence, gain), *more)


DEPTH, DENSITY = (Case(id_, WORDS[column], column) for id_, column in (("depth", "log_L"), ("density", "log_rho")))
IN_LOGS = (replace(DEPTH, words="log L"), replace(DENSITY, words="log ρ"))
SHAPE_AT_SIZE = Case("shape", "log L/d at one size", "log_shape")


def asked(models: Callable[[Evidence], pd.DataFrame], evidence: Evidence, term: Case) -> pd.DataFrame:
    """Models with the term that is asked about, and its values as `column`."""
    return models(evidence).assign(term=term.column, column=lambda rows: rows[term.column])


of_first, of_second, of_both, of_third = (
    partial(asked, models) for models in (read, second.enough, together.models, third.enough)
)
"""Models of the first study, of the second, of both, and of the third."""


def falls(term: Case) -> dict[str, Any]:
    """What findings of a slope of the first study declare."""
    on = f"slope on {term.words}"
    trial = Trial(
        partial(of_first, term=term), by_slope, "recipe", FALLING, searches=OVER_RECIPES(FALLING, along="column")
    )
    posterior = Posterior(f"{on} < 0", draws=V(f"slope on {term.column}") < 0, against=f"{on} < −{SMALL:.3g}")
    statement = f"the gain falls, {term.id}"
    return {"primary": below(V("slope")), "robustness": posterior, "trial": trial, "statement": statement, **CONTROLLED}


def slope(evidence: Evidence, term: Case) -> Result:
    """Slope of the log penultimate gain on one term, by least squares and by a Bayesian line."""
    rows = rows_of(evidence, PENULTIMATE)
    known = rows.assign(error=standard_errors(rows, PENULTIMATE))
    others = [name for name in held(rows) if name != term.column]
    columns = [*others, term.column]  # influence is checked of the last column
    fit = fit_line(known, "log_gain", columns, scale=SCALE, group="recipe", error="error", sources=[NURSERY], seed=SEED)
    found = by_slope(of_first(evidence, term))
    return replace(
        found,
        draw=drawn(rows, term, found.headline),
        inference=Inference(
            fit, statements={falls(term)["robustness"].against: lambda q: q[f"slope on {term.column}"] < -SMALL}
        ),
        words={"on": term.words, "doubled": doubled(found.headline)},
    )


def drawn(rows: pd.DataFrame, term: Case, slope: Estimate) -> Callable[[Axes], None]:
    """Figure of the penultimate gain over the term."""
    if term.id == DENSITY.id:
        return partial(draw_density, rows, seed=SEED)
    return partial(draw_depth, rows, float(slope.value or 0), seed=SEED)


@CLAIM.finding(
    "third",
    primary=IN_EVERY,
    over=(*IN_LOGS, SHAPE_AT_SIZE),
    trial=Trial(
        partial(asked, third.read), by_crossed, "recipe", IN_ALL, searches=OVER_RECIPES(IN_ALL, along="column")
    ),
    **third.STUDY,
)
def of_crossed_recipes(evidence: Evidence, term: Case) -> Result:
    """Slopes of the third study, recipes that were each trained on four corpora as the unit."""
    return shown_by_corpus(of_third(evidence, term), term.words)


@CLAIM.finding(
    "second",
    primary=IN_EVERY,
    over=IN_LOGS,
    trial=Trial(of_second, by_recipes, "recipe", IN_BOTH, searches=OVER_RECIPES(IN_BOTH, along="column")),
    statement="the gain falls",
    **STUDY,
)
def of_drawn_recipes(evidence: Evidence, term: Case) -> Result:
    """Slopes of the second study, recipes drawn at random as the unit."""
    rows = of_second(evidence, term)
    found = by_recipes(rows)
    gains = rows.assign(**{PENULTIMATE: np.exp(rows["log_gain"])})
    words: dict[str, Any] = {
        "doubled": {corpus: np.expm1(by[0] * np.log(2)) for corpus, by in found.words["by"].items()}
    }
    if term.id == DEPTH.id:
        words |= {"languages": languages.by_language(evidence).to_dict("records"), **languages.in_second(evidence)}
    return found.adding(words=words, draw=drawn(gains, term, found.headline))


@CLAIM.finding("depth", **falls(DEPTH))
def depth(evidence: Evidence) -> Result:
    """Slope on the log of depth; both slopes under other choices of models."""
    every, rows = final(evidence), rows_of(evidence, PENULTIMATE)
    others = {
        "by mixed models": rows,
        "with models normed after the sum": judged(every, PENULTIMATE, pinned=True),
        "without models that learned nothing": judged(every[every["learned"].astype(bool)], PENULTIMATE),
        "of the mean gain per block, all depths": judged(every, "geometric_gain"),
    }
    found = slope(evidence, DEPTH)
    words = {**found.words, "others": {name: (len(own), both_slopes(own)) for name, own in others.items() if len(own)}}
    return replace(found, words=words, table=against_published(evidence.named(PUBLISHED), rows, tolerated=TOLERATED))


@CLAIM.finding("density", **falls(DENSITY))
def density(evidence: Evidence) -> Result:
    """Slope on the log of head density."""
    return slope(evidence, DENSITY)


@CLAIM.shared
def law(evidence: Evidence) -> Fit:
    """The power law of the largest gain over depth and its envelope."""
    rows = rows_of(evidence, PENULTIMATE)
    return fit_kleiber(rows, LARGEST, source=NURSERY, error_from=PENULTIMATE, seed=SEED)


def power_law(evidence: Evidence) -> Callable[[], Fit]:
    """What draws it; its rows are read at once, as are all that a finding rests on."""
    rows_of(evidence, PENULTIMATE)
    return partial(law, evidence)


AS_PUBLISHED = Posterior(f"exponent and level within a factor {NEAR:g} of the published")


def curves(evidence: Evidence) -> pd.DataFrame:
    """Largest gains, with the log of the published curve and of one that is flat."""
    rows = read(evidence, PENULTIMATE, LARGEST)
    published = np.log(TOTAL) / rows["n_layers"].astype(float)
    return rows.assign(published=published, flat=float(published.mean()))


@CLAIM.finding(
    "exponent",
    primary=LIKE,
    robustness=AS_PUBLISHED,
    trial=Trial(curves, by_curve, "recipe", CURVED, searches=OVER_RECIPES(CURVED, along="published")),
    **CONTROLLED,
)
def exponent(evidence: Evidence) -> Result:
    """Exponent and level against the published curve 10^(1/L)."""
    found = by_curve(curves(evidence))
    quantities, curve = found.quantities, found.words["curve"]
    return replace(
        found,
        draw=partial(draw_largest, rows_of(evidence, PENULTIMATE), seed=SEED),
        inference=Inference(
            later=power_law(evidence),
            tables=("quantiles", "rivals"),
            statements={AS_PUBLISHED.statement: partial(as_published, curve.middle)},
        ),
        audit=Audit(dict.fromkeys(quantities, 1.0), {name: float(q.value or 0) for name, q in quantities.items()}),
    )


def to_bound(evidence: Evidence) -> pd.DataFrame:
    """Largest gains with the bound and their relative error of measurement, that of the penultimate gain."""
    rows = rows_of(evidence, PENULTIMATE)
    known = rows.assign(bound=TOTAL ** (1 / rows["n_layers"]), error=standard_errors(rows, PENULTIMATE))
    return read_by_tests(known, LARGEST, "bound", "error", f"{PENULTIMATE}_n")


@CLAIM.finding(
    "bound",
    primary=BOUND,
    robustness=Posterior("every model below 10^(1/L)"),
    trial=Trial(to_bound, by_bound, "", BOUNDED, searches=OVER_RECIPES(BOUNDED, along="bound")),
    **CONTROLLED,
)
def bound(evidence: Evidence) -> Result:
    """10^(1/L) as a bound of the largest gain."""
    return replace(by_bound(to_bound(evidence)), inference=Inference(later=power_law(evidence), tables=("models",)))


def to_cuts(evidence: Evidence) -> pd.DataFrame:
    """Log gains, negative on the dampening side, with the published cuts of ρ in columns."""
    rows, cuts = read(evidence, PENULTIMATE, PENULTIMATE), stated(evidence.named(PUBLISHED), CUTS)
    return rows.assign(log_side=np.log(rows[PENULTIMATE].astype(float)), **cuts)


@CLAIM.finding(
    "threshold",
    primary=Given(RARE >= RARER, BETTER),
    robustness=Posterior("share > {majority:g}", pick=BEST),
    trial=Trial(
        to_cuts,
        by_cuts,
        "recipe",
        SIDED,
        searches=OVER_RECIPES(SIDED, along="log_rho", outcome="log_side", mean=(-1.0, 1.0)),
    ),
    **CONTROLLED,
)
def threshold(evidence: Evidence) -> Result:
    """Is ρ at or above the published threshold on the dampening side, more often than always naming one side?"""
    found, rows = by_cuts(to_cuts(evidence)), rows_of(evidence, PENULTIMATE)
    if found.words["one_side"]:
        return found
    right = rows.assign(side_named_rightly=(rows["rho"] >= found.words["best"]) == (rows[PENULTIMATE] < 1))
    against = found.words["found"].majority
    later = partial(fit_share, right, "side_named_rightly", against=against, sources=[NURSERY], seed=SEED)
    return replace(found, inference=Inference(later=later, tables=("groups",)))


SHAPE = (
    Case("depth", "curvature over depth", "P2(log_L)"),
    Case("density", "curvature over head density", "P2(log_rho)"),
)
RECIPES = (
    Case("depth", "recipe factors × depth", "corpus x log_L"),
    Case("density", "recipe factors × head density", "corpus x log_rho"),
)
"""Terms, each with a column of it, by which worlds make it."""
ADDS = Decide(V("share of variance added").p <= ALPHA, NEVER)


@CLAIM.shared
def terms(evidence: Evidence) -> pd.DataFrame:
    """F tests of the four terms, p adjusted over them by Holm."""
    table = extra_terms(with_terms(rows_of(evidence, "geometric_gain")), seed=SEED)
    return table.assign(p_holm=holm(table["p"].to_dict()))


def of_term(evidence: Evidence, term: Case) -> pd.DataFrame:
    """Models of all depths, the term that is asked about and one of its columns."""
    rows = with_terms(rows_of(evidence, "geometric_gain"))
    own = [name for block in ("geometry", "recipe x geometry") for name in blocks()[block] if name not in LINES]
    return read_by_tests(rows, *own).assign(term=term.words, column=rows[term.column])


ADDED = worlds_in_groups("log_gain", "column", QUARTER, BETWEEN)
A_TERM = Trial(of_term, by_terms, "recipe", ADDED, searches=OVER_RECIPES(ADDED, along="column"))


@CLAIM.finding("curvature", primary=ADDS, over=SHAPE, trial=A_TERM, **CONTROLLED)
@CLAIM.finding("interaction", primary=ADDS, over=RECIPES, trial=A_TERM, **CONTROLLED)
def extra(evidence: Evidence, term: Case) -> Result:
    """Curvature, and recipe × geometry, of the mean gain per block over all depths."""
    found, table = by_terms(of_term(evidence, term)), terms(evidence)
    return replace(found, table=table, words={"row": table.set_index("what").loc[term.words]})


def of_traces(evidence: Evidence) -> pd.DataFrame:
    """Models with the trace of the sheaf Laplacian and its log."""
    rows = read(evidence, PENULTIMATE, "trace")
    rows = rows[rows["trace"].notna()].reset_index(drop=True)
    return rows.assign(log_trace=np.log(rows["trace"].astype(float)))


@CLAIM.finding(
    "through_trace",
    primary=Decide((INDIRECT.lower > 0) | (INDIRECT.upper < 0), NEVER),
    trial=Trial(of_traces, by_trace, "recipe", TRACED, searches=OVER_RECIPES(TRACED, along="log_rho")),
    **CONTROLLED,
)
def through_trace(evidence: Evidence) -> Result:
    """The part of the effect of ρ that goes with the trace of the sheaf Laplacian."""
    return replace(by_trace(of_traces(evidence)), table=mediated(rows_of(evidence, PENULTIMATE)))


@CLAIM.finding(
    "together",
    primary=IN_EVERY,
    over=IN_LOGS,
    trial=Trial(of_both, by_both, "recipe", IN_BOTH, searches=OVER_RECIPES(IN_BOTH, along="column")),
    statement="the gain falls",
    **STUDY,
)
def of_both_studies(evidence: Evidence, term: Case) -> Result:
    """The slope in both studies together, each with a level of its own."""
    return by_both(of_both(evidence, term))


if __name__ == "__main__":
    CLAIM.main()
