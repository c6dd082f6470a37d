"""N01: with recipes given by design, is the gain a matter of recipe first, then of shape, then of size?

Claim: C04's order, heritage > geometry > scale, holds where recipe, shape and size were crossed by design, so that each
share is that of a cause. Estimand: C04's, shares of the variance of the log gain over models, averaged over all orders
of entry and less what noise would give as many columns; blocks recipe (16 levels), architecture (family, norm,
position, tying), geometry (log L, log ρ), scale (log d). Unit: the model; primary: penultimate gain, as in C04. Models
whose norm pins gains near 1 are left out, two-block models for the penultimate gain (it would be their first block's).
Rule: supported where the intervals (95 %, residuals bootstrapped, the design fixed) of recipe − geometry and of
geometry − scale both lie above 0; not supported where one of them lies below 0; else
inconclusive. Beside it C04's model with recipes as heritage: supported where P(recipe > geometry > scale) is at least
0.95, not supported where at most 0.05. A verdict is what both come to, and none where a check of the fit fails or fewer
than LEAST_MODELS models or LEAST_RECIPES recipes were measured. Seed: "has almost nothing to do with it" is supported
where the 95 % χ² interval of the variance between seeds, over that of all models, ends below SMALL, not supported where
it begins above SMALL. A recipe not seen: that geometry and scale foretell its models is supported where the 95 % t
interval over recipes of the gain in log predictive density lies above 0, not supported where below 0.
Foretold before the published gains were looked at beside the nursery's: the nursery's slopes of log L, log ρ and log d,
about the published models' own means, foretell the published penultimate gains better than their mean does. Supported
where the jackknife interval (95 %, labs left out) of the mean squared error of the mean less that of the prediction
lies above 0, not supported where below 0, else inconclusive; the posterior of the slopes stands beside it.
Source: the controlled study; C04 for the claim.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.posterior import Panel
from thermostats.claims.verdict import SENTENCES, if_above, if_all, if_below
from thermostats.errors import UsageError
from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.heritage.shares import block_f, corrected_shares, drawn_shares, freedman_lane
from thermostats.plots.general import forest
from thermostats.plots.posterior import variance_shares
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.predictions import foretold, published_rows, unseen
from thermostats.studies.nursery.recipe_fit import (
    C04_GEOMETRY,
    C04_SCALE,
    GEOMETRY,
    LEAST_MODELS,
    LEAST_RECIPES,
    LIMITS,
    NAMED_GAINS,
    SCALE,
    columns_of_block,
    distinct,
    fit_recipes,
    judged,
    named,
    too_few,
    unmeasured,
)
from thermostats.studies.nursery.rows import final
from thermostats.words import number, relation

SEED = 101
SMALL = 0.05
"""C04's bar for "almost nothing"."""
PRIMARY = next(iter(NAMED_GAINS))
LEAST_PAIRS = 5
"""Pairs of seeds below which nothing is said of the seed."""
BLOCKS = ("recipe", "architecture", "geometry", "scale")
DIFFERENCES = (("recipe", "geometry"), ("geometry", "scale"))

CLAIM = Claim(
    id="N01",
    title="Recipe > geometry > scale, under control",
    said="With recipes assigned by design, who trains a model still matters more for its gain than its shape, and its "
    "shape more than its size.",
    estimand="shares of the variance of the log gain, corrected for the number of columns of each block; unit: the "
    "trained model",
    rule="Supported where the 95 % intervals of recipe − geometry and of geometry − scale lie above 0 (residuals "
    "bootstrapped, design fixed); not supported where one lies below 0. "
    "Beside it C04's model with recipes as heritage; a verdict is what both come to. "
    f"Fewer than {LEAST_MODELS} models or {LEAST_RECIPES} recipes: needs measurement. Seed: its share of the variance "
    f"against {SMALL:g}. Recipes not seen: log predictive density with geometry and scale less that without. Foretold "
    "for the published models: squared error of their mean less that of the nursery's slopes, labs left out.",
    source="The controlled study; C04",
    rows="nursery",
)


def design_blocks(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Columns of every block of rows of `judged`."""
    return {
        "recipe": ["recipe"],
        "architecture": columns_of_block(rows, "architecture"),
        "geometry": list(GEOMETRY),
        "scale": list(SCALE),
    }


def shares(rows: pd.DataFrame, columns: dict[str, list[str]]) -> pd.DataFrame:
    """Corrected shares of all blocks and the differences that the claim is about: what, estimate, lower, upper."""
    first = next(iter(columns))
    x = pd.get_dummies(rows[[name for own in columns.values() for name in own]]).to_numpy(np.float64)
    df = len(rows) - 1 - int(np.linalg.matrix_rank(x - x.mean(axis=0)))
    drawn = pd.DataFrame(drawn_shares(rows, "log_gain", columns, seed=SEED), columns=list(columns))
    table = pd.concat([pd.DataFrame([corrected_shares(rows, "log_gain", columns)]), drawn], ignore_index=True)
    for a, b in ((first, "geometry"), ("geometry", "scale")):
        table[f"{a} − {b}"] = table[a] - table[b]
    half = stats.t.ppf((1 + LEVEL) / 2, df) * table.iloc[1:].std(ddof=1)
    whole = table.iloc[0]
    return pd.DataFrame(
        {
            "what": table.columns,
            "estimate": whole.to_numpy(),
            "lower": (whole - half).to_numpy(),
            "upper": (whole + half).to_numpy(),
        }
    )


def order(rows: pd.DataFrame, gain: str) -> Finding:
    """The finding on the order of the blocks, for one named gain."""
    columns = design_blocks(rows)
    table = shares(rows, columns)
    at = table.set_index("what")
    first, second = (at.loc[f"{a} − {b}"] for a, b in DIFFERENCES)
    decided = if_all(if_above(float(row["lower"]), float(row["upper"]), 0.0) for row in (first, second))
    listed = ", ".join(f"{name} {at.loc[name, 'estimate']:.0%}" for name in BLOCKS).replace("-", "−")
    tests = block_f(rows, "log_gain", columns)
    partial = "; ".join(
        f"{name} F({test.df_block}, {test.df_residual}) = {number(test.f)}, p {relation(test.p_holm)} after Holm, "
        f"{relation(freedman_lane(rows, 'log_gain', columns, name, seed=SEED).p_value)} by shuffling residuals"
        for name, test in tests.items()
    )
    return Finding(
        claim="N01",
        estimand=f"share of variance of recipe less that of geometry, {NAMED_GAINS[gain]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: over {len(rows)} models trained by {rows['recipe'].nunique()} recipes that were "
        f"assigned by design, the shares of the variance of the log gain are {listed}. Recipe less geometry is "
        f"{number(first['estimate'])} ({number(first['lower'])} to {number(first['upper'])}), geometry less scale "
        f"{number(second['estimate'])} ({number(second['lower'])} to {number(second['upper'])}).",
        estimate=float(first["estimate"]),
        lower=float(first["lower"]),
        upper=float(first["upper"]),
        interval="95 % t interval of recipe − geometry, residuals bootstrapped with the design fixed",
        n_models=len(rows),
        n_heritages=rows["recipe"].nunique(),
        notes=(f"Partial tests, each block given the others: {partial}.",),
        table=table,
    )


def with_posterior(fit: HeritageFit, finding: Finding, *, panels: tuple[Panel, ...] = ()) -> Finding:
    """The finding on the order with C04's model beside it, recipes in the place of labs."""
    told = posterior_of(
        fit,
        model=f"C04's model of the log {fit.estimand.replace('_', ' ')}: recipes in the place of labs (heritage), "
        "architecture in the part of the single model.",
        statement=ORDER,
        truth=fit.holds(ORDER),
        classical=finding.verdict,
        tables={"orders of the blocks": fit.orders(), "recipes": fit.labs()},
        panels=panels,
    )
    return beside(finding, fit, named(told, {"geometry": GEOMETRY, "scale": SCALE}))


def side_by_side(rows: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Shares of the nursery and of the published models, by the design's columns and by C04's: a row a block."""
    frames = []
    for columns, geometry, scale in (("the design's", GEOMETRY, SCALE), ("C04's", C04_GEOMETRY, C04_SCALE)):
        nursery = design_blocks(rows) | {"geometry": list(geometry), "scale": list(scale)}
        lab = {"heritage": ["heritage"], "geometry": list(geometry), "scale": list(scale)}
        frames += [
            shares(rows, nursery).assign(study="nursery, caused", columns=columns),
            shares(published, lab).assign(study="published, observed", columns=columns),
        ]
    table = pd.concat(frames, ignore_index=True)
    return table[["study", "columns", "what", "estimate", "lower", "upper"]]


def draw(axes: Axes, table: pd.DataFrame) -> None:
    """Shares by the design's columns, nursery above published."""
    shown = table[table["columns"] == "the design's"]
    forest(shown.assign(row=shown["what"] + ", " + shown["study"].str.split(",").str[0]), axes, label="row", null=0.0)
    axes.set_xlabel("share of the variance of the log gain, corrected for columns")


def seeds(rows: pd.DataFrame) -> Finding:
    """The finding on the seed: variance between two trainings of the same model, over that of all models."""
    unit = distinct(rows)
    pairs = rows[unit.duplicated(keep=False)].groupby(unit)["log_gain"]
    if len(pairs) < LEAST_PAIRS:
        return unmeasured("N01", f"share of variance of the seed, {NAMED_GAINS[PRIMARY]}", rows)
    differences = pairs.agg(lambda values: values.iloc[0] - values.iloc[1]).to_numpy(dtype=np.float64)
    k, total = differences.size, float(rows["log_gain"].var(ddof=1))
    squares = float(np.square(differences).sum()) / 2
    share = squares / k / total
    lower, upper = (squares / stats.chi2.ppf(q, k) / total for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    decided = if_below(lower, upper, SMALL)
    sides = int(pairs.agg(lambda values: (values > 0).nunique() == 1).sum())
    full = block_f(rows, "log_gain", design_blocks(rows))["recipe"]
    rss = (1 - full.r_squared) * total * (len(rows) - 1)
    df = full.df_residual - k
    f = (rss - squares) / df / (squares / k)
    return Finding(
        claim="N01",
        estimand=f"share of variance of the seed, {NAMED_GAINS[PRIMARY]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]} (the seed has almost nothing to do with it): between two seeds of the same model "
        f"lies {share:.1%} of the variance over all models ({lower:.1%} to {upper:.1%}, {k} pairs). {sides} of {k} "
        f"pairs stand on one side of 1; two seeds differ by a factor of {number(np.exp(np.sqrt(2 * squares / k)))} "
        "(root mean square).",
        estimate=share,
        lower=lower,
        upper=upper,
        interval="95 % χ² interval, variance over all models taken as known",
        n_models=2 * k,
        n_heritages=rows.loc[unit.duplicated(keep=False), "recipe"].nunique(),
        notes=(
            f"Lack of fit of the additive model against the seeds' pure error: F({df}, {k}) = {number(f)}, p "
            f"{relation(float(stats.f.sf(f, df, k)))}; what it holds are interactions and curvature, which the shares "
            "count as nobody's.",
        ),
    )


def analyse(tables: Evidence) -> list[Finding]:
    """The order by the penultimate gain, then by the others; seeds, recipes not seen, and published models foretold."""
    everything = final(tables)
    rows = judged(everything, PRIMARY)
    if too_few(rows):
        return [unmeasured("N01", f"share of variance of recipe less that of geometry, {NAMED_GAINS[PRIMARY]}", rows)]
    published = published_rows(tables)
    fit = fit_recipes(rows, PRIMARY, seed=SEED, left_out=True)
    table = side_by_side(rows, published)
    plain = order(rows, PRIMARY)
    panels = (
        Panel(
            name="variance-shares",
            draw=lambda axes: variance_shares(fit.summary(), axes),
            caption="Posterior share of every block in the variance over models, with its prior mean; heritage is "
            "the recipe.",
        ),
    )
    primary = with_posterior(fit, plain, panels=panels)
    known = primary.posterior
    assert known is not None  # noqa: S101
    others = []
    for gain in list(NAMED_GAINS)[1:]:
        chosen = judged(everything, gain)
        others.append(with_posterior(fit_recipes(chosen, gain, seed=SEED), order(chosen, gain)))
    primary = replace(
        primary,
        table=table,
        draw=lambda axes: draw(axes, table),
        caption=f"Corrected shares of the variance of the log penultimate gain with 95 % intervals: "
        f"{len(rows)} models of the nursery, where blocks were assigned, and {len(published)} published ones, where "
        "they were not.",
        notes=(*plain.notes, *notes(everything, rows, published, table)),
    )
    own = (primary, *others, seeds(rows), unseen(fit, SEED))
    return [*(replace(finding, group="recipe") for finding in own), foretold(fit, rows, published, known)]


def notes(everything: pd.DataFrame, rows: pd.DataFrame, published: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """What stands beside the primary finding: the observed answer, sensitivities, what the design can say."""
    chosen = (table["study"] == "published, observed") & (table["columns"] == "the design's")
    observed = table[chosen].set_index("what")["estimate"]
    said = [
        f"The published tables, by the same estimand and columns, {len(published)} models: heritage "
        f"{observed['heritage']:.0%}, geometry {observed['geometry']:.0%}, scale {observed['scale']:.0%}. There labs "
        "chose everything at once; here recipe, architecture, geometry and scale were crossed by design, so that a "
        "share is that of what was assigned.".replace("-", "−"),
        "Recipes are the 16 points of an orthogonal array and stand for the recipes that could be made of these "
        "factors, not for labs: a share depends on how widely each factor was set to vary.",
    ]
    for words, others in (
        ("with models whose norm pins gains near 1", judged(everything, PRIMARY, pinned=True)),
        ("without models flagged as not having learned", rows[rows["learned"].astype(bool)].reset_index(drop=True)),
        ("without second seeds", rows[~distinct(rows).duplicated()].reset_index(drop=True)),
    ):
        try:
            found = corrected_shares(others, "log_gain", design_blocks(others))
        except UsageError as error:
            said.append(f"Sensitivity, {words}: not possible ({error}).")
            continue
        listed = ", ".join(f"{name} {value:.0%}" for name, value in found.items())
        said.append(f"Sensitivity, {words}, {len(others)} models: {listed}.".replace("-", "−"))
    pinned, flagged = int((~everything["comparable"]).sum()), int((~everything["learned"].astype(bool)).sum())
    said.append(
        f"{len(everything)} models were measured; {pinned} norm after the residual sum and are left out, {flagged} are "
        "flagged as not having learned and stay in."
    )
    said.append(
        "The interval was changed after simulations and before any measured gain was fitted: with as many columns as "
        "these for so few models the jackknife of C04 was so wide that no causes could have made the order come out "
        "as supported. The design is fixed, so that residuals are drawn anew, not models."
    )
    return [*said, LIMITS]


if __name__ == "__main__":
    run(CLAIM, analyse)
