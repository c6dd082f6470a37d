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

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.modelling.contingency import classification_accuracy, one_sample_bound
from thermostats.modelling.draws import Array
from thermostats.modelling.estimates import holm
from thermostats.modelling.fitted import Fitted
from thermostats.modelling.kleiber import fit_kleiber
from thermostats.modelling.line import fit_line
from thermostats.modelling.mediation import mediation
from thermostats.modelling.share import fit_share
from thermostats.reporting.evidence import LEVEL, gains, stated
from thermostats.reporting.findings import Claim, Finding, Tables, run
from thermostats.reporting.fits import beside, posterior_of
from thermostats.reporting.nursery_fit import LEAST_MODELS, LEAST_RECIPES, NAMED_GAINS, judged, too_few
from thermostats.reporting.nursery_rows import final
from thermostats.reporting.nursery_slopes import EDGES, LINES, curve_of, extra_terms, held, mean_traces, slope_on
from thermostats.reporting.plots import DASHES, MUTED, reference
from thermostats.reporting.verdicts import AGAINST, OPEN, SENTENCES, SUPPORTED, SURE, UNMEASURED
from thermostats.reporting.words import number, relation
from thermostats.tables.vocabulary import NURSERY

SEED = 103
ALPHA = 0.05
SMALL = float(np.log(1.05) / np.log(2))
"""A slope on a logarithm that moves the gain by 5 % where the logarithm's argument doubles."""
NEAR = 2.0
SCALE = 0.5
"""Gains that differ by a factor e^0.5 = 1.6 over one SD of log L or log ρ would be no surprise."""
TOTAL, TOLERATED, MOST = 10.0, 0.05, 0.25
"""As in C02."""
PENULTIMATE, LARGEST, MEAN = "penultimate_gain", "max_gain_to_penultimate", "geometric_gain"
CUTS = {"lower": "section 7 lower", "upper": "section 7 upper"}
WORDS = {"log_L": "the log of depth", "log_rho": "the log of head density ρ"}
LIMITS = (
    "Small models, 600 steps of 512 tokens, two corpora (novels by Jane Austen; a synthetic language whose distant "
    "dependencies such budgets are too short to learn). What carries over to large models is a hypothesis."
)

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


def law(rows: pd.DataFrame, fit: Fitted) -> Finding:
    """The finding on the published curve: exponent, and level at the middle depth over 1/L0."""
    L, y = rows["n_layers"].to_numpy(np.float64), np.log10(rows[LARGEST].to_numpy(np.float64))
    middle = float(np.exp(np.log(L).mean()))

    def figures(kept: Array) -> Array:
        m, beta = curve_of(L[kept], y[kept], middle)
        return np.array([beta, m * middle])

    recipes = sorted(set(rows["recipe"]))
    whole = figures(np.ones(L.size, dtype=bool))
    without = np.array([figures((rows["recipe"] != recipe).to_numpy()) for recipe in recipes])
    n = len(recipes)
    error = np.sqrt((n - 1) / n * np.square(without - without.mean(axis=0)).sum(axis=0))
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * error
    lower, upper = whole - half, whole + half
    inside = (lower > 1 / NEAR) & (upper < NEAR)
    outside = (upper < 1 / NEAR) | (lower > NEAR)
    decided = AGAINST if outside.any() else SUPPORTED if inside.all() else OPEN
    finding = Finding(
        claim="N03",
        estimand="exponent β of log10 of the largest gain over depth, published as 1",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: through the middle of {L.size} models log10 of the largest gain of blocks 2 to "
        f"L − 1 falls as L^(−β) with β = {number(whole[0])} (95 % interval {number(lower[0])} to {number(upper[0])}; "
        f"published 1), and at {number(middle)} blocks it is {number(whole[1])} times 1/L ({number(lower[1])} to "
        f"{number(upper[1])}; published 1).",
        estimate=float(whole[0]),
        lower=float(lower[0]),
        upper=float(upper[0]),
        interval=f"95 % jackknife t interval over {n} recipes",
        n_models=L.size,
        n_heritages=n,
        published={"exponent β": 1.0, "level at the middle depth, times 1/L": 1.0},
        reproduced={"exponent β": float(whole[0]), "level at the middle depth, times 1/L": float(whole[1])},
        notes=(
            "Some of these curves have no exponent of their own, the search ends at its edge: on average the largest "
            "gains lie close to 1 or below it, where the curve has no form.",
        ) if {*without[:, 0], whole[0]} & {EDGES[0], EDGES[1]} else (),
    )  # fmt: skip
    beta, level = fit.quantities["beta"], fit.quantities["k"] * middle ** (1 - fit.quantities["beta"])
    truth = (beta > 1 / NEAR) & (beta < NEAR) & (level > 1 / NEAR) & (level < NEAR)
    told = posterior_of(
        fit,
        model="Power law of log10 of the largest gain over depth, k L^(−β), recipes as groups, and its envelope.",
        statement=f"exponent and level within a factor {NEAR:g} of the published",
        truth=np.asarray(truth),
        classical=decided,
        tables=["quantiles", "rivals"],
        sensitivity=fit.table("sensitivity"),
    )
    return beside(finding, fit, told)


def bound(rows: pd.DataFrame, fit: Fitted) -> Finding:
    """The finding on 10^(1/L) as a bound, as in C02."""
    limit = TOTAL ** (1 / rows["n_layers"])
    found = one_sample_bound(rows[LARGEST], limit, tolerated=TOLERATED, seed=SEED)
    above = rows[rows[LARGEST] > limit]
    decided = AGAINST if found.n_above else SUPPORTED if found.upper < MOST else OPEN
    finding = Finding(
        claim="N03",
        estimand="share of models whose largest gain of blocks 2 to L − 1 lies above 10^(1/L)",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: the largest gain of blocks 2 to L − 1 lies above 10^(1/L) in {found.n_above} of "
        f"{found.n} models ({above['recipe'].nunique()} of {rows['recipe'].nunique()} recipes), a share of "
        f"{found.estimate:.0%} (95 % interval {found.lower:.0%} to {found.upper:.0%}). On average it is "
        f"{number(found.ratio)} times the bound, at most {number(found.largest_ratio)} times.",
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        interval=f"95 % {found.interval}",
        n_models=found.n,
        n_heritages=rows["recipe"].nunique(),
    )
    told = posterior_of(
        fit,
        model="The same fit as of the exponent.",
        statement="every model below 10^(1/L)",
        classical=decided,
        tables=["models"],
    )
    return beside(finding, fit, told)


def threshold(rows: pd.DataFrame, cuts: dict[str, float]) -> Finding:
    """The finding on the threshold of ρ, as in C10."""
    dampens = rows[PENULTIMATE] < 1
    commoner = float(max(dampens.mean(), 1 - dampens.mean()))
    estimand = "accuracy of ρ ≥ threshold in the controlled study"
    if commoner == 1:
        side = "dampen" if dampens.all() else "expand"
        return Finding(
            claim="N03", estimand=estimand, verdict=OPEN, n_models=len(rows), n_heritages=rows["recipe"].nunique(),
            plain=f"{SENTENCES[OPEN]}: all {len(rows)} models {side}, whatever their head density, so that no rule can "
            "name the side better than always naming that one.",
        )  # fmt: skip
    words = {True: "dampens", False: "expands"}
    tried = {cut: classification_accuracy((rows["rho"] >= cut).map(words), dampens.map(words)) for cut in cuts.values()}
    best = max(tried, key=lambda cut: tried[cut].estimate)
    found = tried[best]
    decided = SUPPORTED if found.p_value <= ALPHA else AGAINST if found.estimate <= found.majority else OPEN
    finding = Finding(
        claim="N03",
        estimand=estimand,
        verdict=decided,
        plain=f"{SENTENCES[decided]}: ρ ≥ {best:g} names the right side of gain 1 in {found.estimate:.0%} of {found.n} "
        f"models (95 % interval {found.lower:.0%} to {found.upper:.0%}), and always naming the commoner side in "
        f"{found.majority:.0%} (one-sided p of being better {relation(found.p_value)}). Its balanced accuracy is "
        f"{found.balanced_accuracy:.0%}, where a coin has 50%.",
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        interval=f"95 % {found.interval}",
        probability=found.p_value,
        probability_kind="one-sided p-value",
        n_models=found.n,
        n_heritages=rows["recipe"].nunique(),
    )
    right = rows.assign(heritage=rows["recipe"], side_named_rightly=(rows["rho"] >= best) == dampens)
    fit = fit_share(right, "side_named_rightly", against=commoner, sources=[NURSERY], seed=SEED)
    told = posterior_of(
        fit,
        model="Share of models whose side of 1 follows from the threshold of ρ, recipes as groups.",
        statement=f"share > {commoner:g}",
        classical=decided,
        tables=["groups"],
    )
    return beside(finding, fit, told)


def extra(rows: pd.DataFrame) -> list[Finding]:
    """The findings on curvature and on recipe × geometry, of the mean gain a block over all depths."""
    table = extra_terms(rows, seed=SEED)
    adjusted = holm(dict(zip(table["what"], table["p"], strict=True)))
    table = table.assign(p_holm=table["what"].map(adjusted))
    findings: list[Finding] = []
    for row in table.to_dict("records"):
        decided = SUPPORTED if row["p_holm"] <= ALPHA else OPEN
        findings.append(Finding(
            claim="N03",
            estimand=f"{row['what']}, mean gain a block",
            verdict=decided,
            plain=f"{SENTENCES[decided]}: over {len(rows)} models {row['what']} adds {row['gained']:.1%} to the "
            f"variance explained, F({row['columns']}, {row['residual_df']}) = {number(row['f'])}, p "
            f"{relation(row['p'])}, p {relation(row['p_holm'])} after Holm over "
            f"{len(table)} tests and p {relation(row['p_shuffled'])} by shuffled residuals.",
            estimate=row["gained"], probability=row["p"], probability_kind="p-value", n_models=len(rows),
            n_heritages=rows["recipe"].nunique(), table=table if not findings else None,
        ))  # fmt: skip
    return findings


def through(rows: pd.DataFrame) -> Finding:
    """The finding on the trace as a mediator of ρ's effect, W_V and W_O beside it."""
    mediators = {"trace": "trace of the sheaf Laplacian", "wv_norm": "‖W_V‖", "wo_norm": "‖W_O‖"}
    others = [name for name in held(rows) if name != "log_rho"]
    found = {}
    for column, words in mediators.items():
        known = rows[rows[column].notna() & (rows[column] > 0)]
        if too_few(known):
            continue
        logs = known.assign(mediator=np.log(known[column].astype("float64")))
        found[words] = mediation(logs, "log_gain", "log_rho", "mediator", others, group="recipe")
    estimand = "effect of log ρ through the log trace of the sheaf Laplacian, penultimate gain"
    first = next(iter(mediators.values()))
    if first not in found:
        return unmeasured(estimand, int(rows["trace"].notna().sum()), rows["recipe"].nunique())
    main = found[first]
    decided = SUPPORTED if main.lower > 0 or main.upper < 0 else OPEN
    table = pd.DataFrame([
        {"mediator": words, "indirect": m.estimate, "lower": m.lower, "upper": m.upper, "total": m.total,
         "direct": m.direct, "n_models": m.n}
        for words, m in found.items()
    ])  # fmt: skip
    return Finding(
        claim="N03",
        estimand=estimand,
        verdict=decided,
        plain=f"{SENTENCES[decided]}: of the slope of the log gain on log ρ, {number(main.total)}, the part that goes "
        f"with the trace at the end of training is {number(main.estimate)} (95 % interval {number(main.lower)} to "
        f"{number(main.upper)}), and {number(main.direct)} is beside it. ρ was set by design and the trace was not: "
        "what moves trace and gain both would look the same.",
        estimate=main.estimate, lower=main.lower, upper=main.upper, interval=f"95 % {main.interval}",
        n_models=main.n, n_heritages=main.n_groups, table=table,
    )  # fmt: skip


def unmeasured(estimand: str, models: int, recipes: int) -> Finding:
    """A finding where too few models are measured."""
    return Finding(
        claim="N03", estimand=estimand, verdict=UNMEASURED, n_models=models, n_heritages=recipes,
        plain=f"{SENTENCES[UNMEASURED]}: {models} models of {recipes} recipes are in the tables, and the rule asks for "
        f"{LEAST_MODELS} of {LEAST_RECIPES}.",
    )  # fmt: skip


def published_beside(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
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
            found.append({
                "what": f"slope on {words}", "study": study, "estimate": slope.estimate, "lower": slope.lower,
                "upper": slope.upper, "n_models": slope.n, "groups": slope.n_groups,
            })  # fmt: skip
    for study, frame, group in (
        ("here, by design", rows, "recipe"),
        ("published models, as observed", known, "heritage"),
    ):
        of = frame.dropna(subset=LARGEST)
        share = one_sample_bound(of[LARGEST], TOTAL ** (1 / of["n_layers"]), tolerated=TOLERATED, seed=SEED)
        found.append({
            "what": "share above 10^(1/L)", "study": study, "estimate": share.estimate, "lower": share.lower,
            "upper": share.upper, "n_models": share.n, "groups": of[group].nunique(),
        })  # fmt: skip
    return pd.DataFrame(found)


def slopes_of(rows: pd.DataFrame) -> str:
    """Both slopes of some rows in words."""
    others = held(rows)
    said = []
    for term, words in WORDS.items():
        found = slope_on(rows, term, [name for name in others if name != term], "recipe")
        said.append(f"{number(found.estimate)} ({number(found.lower)} to {number(found.upper)}) on {words}")
    return f"{' and '.join(said)} over {len(rows)} models"


def draw_depth(rows: pd.DataFrame) -> Callable[[Axes], None]:
    """Largest gain over depth, marked by head density, with the published curve."""

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        spread = np.random.default_rng(SEED)
        for rho, own in rows.groupby("rho", sort=True):
            shift = np.exp(spread.uniform(-0.06, 0.06, len(own)))
            axes.scatter(own["n_layers"] * shift, own[LARGEST], s=26, alpha=0.85, label=f"ρ = {rho:g}")
        L = np.linspace(float(rows["n_layers"].min()), float(rows["n_layers"].max()), 100)
        axes.plot(L, TOTAL ** (1 / L), color=MUTED, linestyle=DASHES[1], label="10^(1/L)")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sorted(set(rows["n_layers"])), [str(L) for L in sorted(set(rows["n_layers"]))])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("layers, L")
        axes.set_ylabel("largest gain, blocks 2 to L − 1")
        axes.legend()

    return draw


def draw_density(rows: pd.DataFrame) -> Callable[[Axes], None]:
    """Penultimate gain over head density, marked by depth."""

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        spread = np.random.default_rng(SEED)
        for depth, own in rows.groupby("n_layers", sort=True):
            shift = np.exp(spread.uniform(-0.1, 0.1, len(own)))
            axes.scatter(own["rho"] * shift, own[PENULTIMATE], s=26, alpha=0.85, label=f"L = {depth}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("head density ρ = H / d_h")
        axes.set_ylabel("gain of the last block but one")
        axes.legend()

    return draw


def analyse(tables: Tables) -> list[Finding]:
    """Slope on depth and on ρ, law, bound, threshold, curvature and interactions, mediator."""
    every = final(tables)
    every = every.assign(trace=every["model_id"].map(mean_traces(tables, NURSERY)))
    rows, mean = judged(every, PENULTIMATE), judged(every, MEAN)
    asked = {term: f"slope on {words}, {NAMED_GAINS[PENULTIMATE]}" for term, words in WORDS.items()}
    if too_few(rows):
        return [unmeasured(estimand, len(rows), rows["recipe"].nunique()) for estimand in asked.values()]
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
        draw=draw_depth(rows),
        caption=f"Largest gain of blocks 2 to L − 1 over depth in {len(rows)} models, by head density, with the "
        "published 10^(1/L). " + f"The slope of the log penultimate gain on log L is {number(depth.estimate)}.",
    )
    density = replace(
        density,
        draw=draw_density(rows),
        caption=f"Penultimate gain over head density in {len(rows)} models, by depth. The slope of the log gain on log "
        f"ρ is {number(density.estimate)}, interval {number(density.lower)} to {number(density.upper)}.",
    )
    cuts = stated(tables, CUTS)
    own = (primary, density, law(rows, fit), bound(rows, fit), threshold(rows, cuts), *extra(mean), through(rows))
    return [replace(finding, group="recipe") for finding in own]


if __name__ == "__main__":
    run(CLAIM, analyse)
