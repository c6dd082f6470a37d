"""N02: which part of the recipe moves the gain, by how much, and can any of it put the gain on the other side of 1?

Claim: what a lab decides about training (optimiser, initialisation, decay, schedule, peak, dropout, corpus) moves the
gain, and sets its sign. Estimand: ratio of geometric mean gains between levels of one factor, all else as in the
design (least squares on all factors, architecture, geometry and scale); primary: penultimate gain, models that the
design left comparable. Unit: the model.
Rule, effect: supported where a factor's partial F has a Holm-adjusted p (over the seven factors) of at most ALPHA; not
supported where the simultaneous 95 % interval (Bonferroni over the contrasts) of every contrast lies within
±NEGLIGIBLE of no change; else inconclusive. Beside it C04's model with recipes as heritage, their effects
partially pooled, factors as contrasts of them: supported where, for the factor of smallest p, P(its extreme levels
differ by more than NEGLIGIBLE) is at least 0.95, not supported where at most 0.05.
Rule, sign: a factor sets the sign where two of its levels have mean gains whose simultaneous 95 % intervals (over all
levels of all factors) lie on opposite sides of 1. Supported where one does; not supported where the intervals of all
levels lie on one and the same side; else inconclusive. Beside it, by the same model: for the factor with the largest
posterior probability that the means of its levels lie on both sides of 1, that probability, by the limits above.
Rule, mediator: the effect of the recipe splits exactly into one through log(‖W_V‖₂/‖W_O‖₂) and one beside it; the share
through it is cov(total, through)/var(total) over the models. "Most of it goes through the ratio" is supported where the
95 % jackknife interval (distinct models left out) lies above MOST, not supported where below, else inconclusive.
A verdict is what both come to where there are both; fewer models than in N01: needs measurement.
Source: the controlled study; section 4.3 of the preprint for the ratio.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.heritage.shares import block_f
from thermostats.modelling.inference.draws import Array
from thermostats.plots.general import forest
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.factor_effects import (
    contrasts,
    covariates,
    estimate,
    factor_columns,
    factor_tests,
    intervals,
    level_rows,
    with_curves,
)
from thermostats.studies.nursery.factors import RECIPE
from thermostats.studies.nursery.ratio import ALPHA, MOST, PRIMARY, mediator
from thermostats.studies.nursery.recipe_fit import (
    GEOMETRY,
    LEAST_MODELS,
    LEAST_RECIPES,
    LIMITS,
    NAMED_GAINS,
    SCALE,
    fit_recipes,
    judged,
    named,
    restated,
    too_few,
    unmeasured,
)
from thermostats.studies.nursery.rows import final
from thermostats.words import chance, listed, number, relation

SEED = 102
NEGLIGIBLE = 0.05
"""As in C11."""


CLAIM = Claim(
    id="N02",
    title="A factor of the recipe moves the gain and sets its sign",
    said="What a lab decides about training moves the gain of otherwise equal models, and decides whether they dampen "
    "or expand.",
    estimand="ratio of geometric mean gains between levels of one recipe factor, all else as designed; unit: the "
    "trained model",
    rule=f"Effect: supported where a factor has a Holm-adjusted p of at most {ALPHA:g} over {len(RECIPE)} factors; not "
    f"supported where every simultaneous interval lies within ±{NEGLIGIBLE:.0%} of no change. Sign: supported "
    "where two levels of a factor have mean gains with simultaneous 95 % intervals on opposite sides of 1; not "
    "supported where all levels’ lie on one side. Beside both C04’s model with recipes as heritage; "
    "the verdict is what both come to. Mediator: share of the "
    f"recipe’s effect through the ratio of W_V and W_O against {MOST:g}. Fewer than {LEAST_MODELS} models or "
    f"{LEAST_RECIPES} recipes: needs measurement.",
    source="The controlled study; section 4.3",
    rows="nursery",
)


def left_over(rows: pd.DataFrame) -> str:
    """What the recipes hold beyond the main effects of their factors, in words."""
    factors = [name for names in factor_columns(rows).values() for name in names]
    blocks = {"factors": factors, "architecture, geometry, scale": covariates(rows)}
    whole = block_f(rows, "log_gain", {"recipe": ["recipe"], "else": blocks["architecture, geometry, scale"]})["recipe"]
    main = block_f(rows, "log_gain", blocks)["factors"]
    df = whole.df_block - main.df_block
    if df < 1:
        return "So few recipes leave nothing to tell interactions of factors by."
    f = (whole.r_squared - main.r_squared) / df / ((1 - whole.r_squared) / whole.df_residual)
    return (
        f"What recipes hold beyond the main effects of their factors, interactions of optimiser and initialisation "
        f"above all: F({df}, {whole.df_residual}) = {number(f)}, p "
        f"{relation(float(stats.f.sf(f, df, whole.df_residual)))}. "
        "Each two-level factor is aliased with part of that interaction; where it is large, so may be what is told of "
        "them."
    )


def pooled(rows: pd.DataFrame, gain: str) -> HeritageFit:
    """C04's model with recipes as heritage; architecture stands with geometry, so that only the seed's part is left."""
    beside = [name for name in covariates(rows) if name != "log_d"]
    return fit_recipes(rows, gain, geometry=beside, scale=["log_d"], seed=SEED)


def drawn_levels(fit: HeritageFit, rows: pd.DataFrame) -> dict[tuple[str, str], Array]:
    """Draws, chain × draw, of the mean log gain at every level of every factor, all other columns at their mean.

    Effects of factors are those of least squares on the factors' columns of the recipes' partially pooled effects.
    """
    factors = factor_columns(rows)
    names = [column for own in factors.values() for column in own]
    x = rows.set_index("model").loc[list(fit.design.models), names].to_numpy(np.float64)
    centres, mean = x.mean(axis=0), fit.draws["m"].mean(axis=-1)
    slopes = fit.contributions["heritage"] @ np.linalg.pinv(x - centres).T
    found = {}
    for (factor, level), row in level_rows(names).items():
        own = np.isin(names, factors[factor])
        found[factor, level] = np.asarray(mean + slopes[..., own] @ (row - centres)[own])
    return found


def by_factor(drawn: dict[tuple[str, str], Array]) -> dict[str, Array]:
    """Draws of the levels of every factor, chain × draw × levels."""
    return {name: np.stack([drawn[name, level] for level in levels], axis=-1) for name, levels in RECIPE.items()}


def effects_table(rows: pd.DataFrame, fit: HeritageFit | None) -> pd.DataFrame:
    """A row a contrast: factor, what, ratio with its simultaneous interval, p_holm, and the posterior's beside."""
    fitted = estimate(rows, "log_gain")
    chosen = contrasts(fitted.columns)
    table = intervals(fitted, chosen, mean=False, level=LEVEL)
    adjusted = factor_tests(rows, seed=SEED).set_index("factor")["p_holm"]
    shown = pd.DataFrame(
        {
            "factor": table["factor"],
            "what": table["what"],
            "ratio": np.exp(table["log_ratio"]),
            "lower": np.exp(table["lower"]),
            "upper": np.exp(table["upper"]),
            "p_holm": table["factor"].map(adjusted),
        }
    )
    if fit is None:
        return shown
    drawn = drawn_levels(fit, rows)
    pooled = []
    for factor, what in zip(shown["factor"], shown["what"], strict=True):
        first, second = what.split(" against ")
        against = np.mean([drawn[factor, one] for one in RECIPE[factor]], axis=0) if second == "the mean" else None
        ratio = np.exp(drawn[factor, first] - (drawn[factor, second] if against is None else against))
        pooled.append((float(np.median(ratio)), *np.quantile(ratio, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])))
    flips = {name: float(both_sides(levels).mean()) for name, levels in by_factor(drawn).items()}
    shown[["pooled", "pooled_lower", "pooled_upper"]] = pooled
    return shown.assign(p_flip=shown["factor"].map(flips))


def both_sides(levels: Array) -> NDArray[np.bool_]:
    """Where the levels' means lie on both sides of no change, chain × draw."""
    return np.asarray((levels.min(axis=-1) < 0) & (levels.max(axis=-1) > 0), dtype=np.bool_)


def effect(rows: pd.DataFrame, table: pd.DataFrame, found: pd.DataFrame) -> Finding:
    """The classical finding on effects."""
    moved = found[found["p_holm"] <= ALPHA]
    still = bool(((table["lower"] > 1 / (1 + NEGLIGIBLE)) & (table["upper"] < 1 + NEGLIGIBLE)).all())
    decided = SUPPORTED if len(moved) else AGAINST if still else OPEN
    strongest = found.loc[found["p"].idxmin()]
    own = table[table["factor"] == strongest["factor"]]
    most = own.loc[np.log(own["ratio"]).abs().idxmax()]
    names = listed([f"{row.factor} (p {relation(row.p_holm)})" for row in moved.itertuples()]) or "none"
    return Finding(
        claim="N02",
        estimand=f"ratio of geometric mean gains, {strongest['factor']}: {most['what']}; {NAMED_GAINS[PRIMARY]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]} (a factor of the recipe moves the gain): of {len(RECIPE)} factors {len(moved)} do "
        f"with Holm-adjusted p of at most {ALPHA:g}: {names}. The most certain is {strongest['factor']}, "
        f"{most['what']}: {number(most['ratio'])} times the gain ({number(most['lower'])} to {number(most['upper'])}).",
        estimate=float(most["ratio"]),
        lower=float(most["lower"]),
        upper=float(most["upper"]),
        interval=f"95 % t interval, Bonferroni over {len(table)} contrasts",
        probability=float(strongest["p_holm"]),
        probability_kind="p-value",
        n_models=len(rows),
        n_heritages=rows["recipe"].nunique(),
        table=table,
        draw=lambda axes: draw(axes, table),
        caption=f"Ratios of geometric mean gains between levels of every recipe factor, {len(rows)} models, with 95 % "
        "intervals that hold for all contrasts at once.",
    )


def draw(axes: Axes, table: pd.DataFrame) -> None:
    """Contrasts with their intervals."""
    shown = table.assign(row=table["factor"] + ": " + table["what"])
    forest(shown, axes, label="row", estimate="ratio", null=1.0)
    axes.set_xlabel("ratio of geometric mean gains")
    log_axis(axes, "x")


def sign(rows: pd.DataFrame) -> Finding:
    """The classical finding on sign: levels' mean gains with simultaneous intervals."""
    fitted = estimate(rows, "log_gain")
    table = intervals(fitted, level_rows(fitted.columns), mean=True, level=LEVEL)
    below, above = table["upper"] < 0, table["lower"] > 0
    sets = sorted(set(table.loc[below, "factor"]) & set(table.loc[above, "factor"]))
    decided = SUPPORTED if sets else AGAINST if below.all() or above.all() else OPEN
    low, high = table.loc[table["log_ratio"].idxmin()], table.loc[table["log_ratio"].idxmax()]
    shown = table.assign(gain=np.exp(table["log_ratio"]), lower=np.exp(table["lower"]), upper=np.exp(table["upper"]))
    dampen = int((rows["log_gain"] < 0).sum())
    return Finding(
        claim="N02",
        estimand=f"lowest geometric mean gain at a level of a factor, {low['factor']} {low['what']}; "
        f"{NAMED_GAINS[PRIMARY]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]} (a factor of the recipe sets the sign): of {listed(sets) or 'no factor'} levels "
        f"lie on both sides of 1 beyond doubt. Mean gains at the levels run from {number(np.exp(low['log_ratio']))} "
        f"({low['factor']} {low['what']}) to {number(np.exp(high['log_ratio']))} ({high['factor']} {high['what']}); "
        f"{dampen} of {len(rows)} models dampen.",
        estimate=float(np.exp(low["log_ratio"])),
        lower=float(np.exp(low["lower"])),
        upper=float(np.exp(low["upper"])),
        interval=f"95 % t interval, Bonferroni over {len(table)} levels",
        n_models=len(rows),
        n_heritages=rows["recipe"].nunique(),
        table=shown[["factor", "what", "gain", "lower", "upper"]],
    )


def with_line(
    rows: pd.DataFrame, effect: Finding, sign: Finding, fit: HeritageFit, strongest: str
) -> tuple[Finding, Finding]:
    """Both findings with what one fit says of them."""
    levels = by_factor(drawn_levels(fit, rows))
    model = (
        "C04's model of the log penultimate gain: recipes in the place of labs (heritage), partially pooled, and "
        "factors as contrasts of them."
    )
    wide = np.ptp(levels[strongest], axis=-1) > np.log1p(NEGLIGIBLE)
    of_effect = posterior_of(
        fit,
        model=model,
        statement=f"levels of {strongest} differ by more than {NEGLIGIBLE:.0%}",
        truth=np.asarray(wide),
        classical=effect.verdict,
    )
    of_effect = named(of_effect, {"geometry": ["architecture", *GEOMETRY, "their squares"], "scale": SCALE})
    likely = max(levels, key=lambda name: float(both_sides(levels[name]).mean()))
    of_sign = restated(
        of_effect,
        model=model,
        statement=f"levels of {likely} have mean gains on both sides of 1",
        truth=both_sides(levels[likely]),
        classical=sign.verdict,
    )
    chances = ", ".join(f"{name} {chance(float(both_sides(values).mean()))}" for name, values in levels.items())
    noted = replace(sign, notes=(*sign.notes, f"P(levels on both sides of 1) of every factor: {chances}."))
    return beside(effect, fit, of_effect), beside(noted, fit, of_sign)


def analyse(tables: Evidence) -> list[Finding]:
    """Effects first, then sign, then the mediator."""
    everything = final(tables)
    rows = judged(everything, PRIMARY)
    if too_few(rows):
        estimand = f"ratio of geometric mean gains between levels of a recipe factor, {NAMED_GAINS[PRIMARY]}"
        return [unmeasured("N02", estimand, rows)]
    rows = with_curves(rows)
    found = factor_tests(rows, seed=SEED)
    strongest = str(found.loc[found["p"].idxmin(), "factor"])
    fit = pooled(rows, PRIMARY)
    moving, flipping = with_line(rows, effect(rows, effects_table(rows, fit), found), sign(rows), fit, strongest)
    primary = replace(moving, notes=(*moving.notes, *notes(everything, rows, found)))
    return [replace(finding, group="recipe") for finding in (primary, flipping, mediator(rows, seed=SEED))]


def moving(rows: pd.DataFrame) -> str:
    """Factors with a Holm-adjusted p of at most ALPHA, in words."""
    found = factor_tests(rows, seed=SEED)
    return listed(
        [f"{row.factor} (p {relation(row.p_holm)})" for row in found.itertuples() if row.p_holm <= ALPHA]
    ) or ("no factor")


def notes(everything: pd.DataFrame, rows: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """What stands beside the primary finding: all tests, other gains, sensitivities."""
    listed_tests = "; ".join(
        f"{row.factor} F = {number(row.F)} on {row.df}, p {relation(row.p)}, shuffled {relation(row.p_shuffled)}, Holm "
        f"{relation(row.p_holm)}"
        for row in found.itertuples()
    )
    others = [f"{NAMED_GAINS[gain]}: {moving(with_curves(judged(everything, gain)))}" for gain in list(NAMED_GAINS)[1:]]
    pinned = with_curves(judged(everything, PRIMARY, pinned=True))
    learned = with_curves(judged(everything[everything["learned"].astype(bool)], PRIMARY))
    return [
        f"Partial tests of every factor given all else: {listed_tests}.",
        left_over(rows),
        f"Factors that move the other gains, each with Holm over its own seven tests: {'; '.join(others)}.",
        f"With models whose norm pins gains near 1 ({len(pinned)} models): {moving(pinned)}.",
        f"Without models flagged as not having learned ({len(learned)} models): {moving(learned)}.",
        f"{len(everything)} models were measured, {len(rows)} are judged by. Weight decay does not exist under Adam, "
        "where its contrast is 0; two corpora and one tokenizer stand for what corpora do.",
        "The model beside the tests was changed after simulations, before any measured gain was fitted: a line "
        "whose coefficients had normal priors of their own foretold more spread than any such study has. Recipes are "
        "the levels that are pooled, so that factors with many levels have no head start.",
        LIMITS,
    ]


if __name__ == "__main__":
    run(CLAIM, analyse)
