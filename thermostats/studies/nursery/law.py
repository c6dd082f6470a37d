"""N03's depth law: exponent, level and bound of the largest gain over depth in the controlled study."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED
from thermostats.modelling.classical.counts import one_sample_bound
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.fitted import Fitted
from thermostats.plots.general import DASHES, MUTED, legend_above, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.slopes import EDGES, curve_of
from thermostats.words import number

LARGEST = "max_gain_to_penultimate"
NEAR = 2.0
TOTAL, TOLERATED, MOST = 10.0, 0.05, 0.25
"""As in C02."""


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
        )
        if {*without[:, 0], whole[0]} & {EDGES[0], EDGES[1]}
        else (),
    )
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


def bound(rows: pd.DataFrame, fit: Fitted, *, seed: int) -> Finding:
    """The finding on 10^(1/L) as a bound, as in C02."""
    limit = TOTAL ** (1 / rows["n_layers"])
    found = one_sample_bound(rows[LARGEST], limit, tolerated=TOLERATED, seed=seed)
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


def draw_depth(rows: pd.DataFrame, *, seed: int) -> Callable[[Axes], None]:
    """Largest gain over depth, marked by head density, with the published curve."""

    def draw(axes: Axes) -> None:
        reference(axes, 1.0)
        spread = np.random.default_rng(seed)
        for rho, own in rows.groupby("rho", sort=True):
            shift = np.exp(spread.uniform(-0.06, 0.06, len(own)))
            axes.scatter(own["n_layers"] * shift, own[LARGEST], s=26, alpha=0.85, label=f"ρ = {rho:g}")
        L = np.linspace(float(rows["n_layers"].min()), float(rows["n_layers"].max()), 100)
        axes.plot(L, TOTAL ** (1 / L), color=MUTED, linestyle=DASHES[1], label="10^(1/L)")
        log_axis(axes, "x")
        log_axis(axes, "y")
        axes.set_xticks(sorted(set(rows["n_layers"])), [str(L) for L in sorted(set(rows["n_layers"]))])
        axes.set_xlabel("layers, L")
        axes.set_ylabel("largest gain, blocks 2 to L − 1")
        legend_above(axes)

    return draw
