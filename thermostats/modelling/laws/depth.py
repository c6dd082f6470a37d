"""log₁₀ Gᵢ = m (Lᵢ/L₀)^(−β) + u_lab + εᵢ: does the largest gain fall with depth, and does k = β = 1 bound it?

The curve goes through the middle and is drawn exactly by quadrature. An envelope of the same form lies above,
y = m e^(−β x) − w + v (w half-normal, v normal: a stochastic frontier, Aigner, Lovell and Schmidt 1977,
doi:10.1016/0304-4076(77)90052-5), drawn by importance weights. Without a model: quantile lines, and who lies above
10^(1/L), errors and all.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats
from scipy.interpolate import Akima1DInterpolator
from scipy.special import log_ndtr
from statsmodels.regression.quantile_regression import QuantReg
from statsmodels.tools.sm_exceptions import IterationLimitWarning

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import numbers
from thermostats.modelling.heritage.rows import ModelRows, model_rows, standardised
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator, weighed
from thermostats.modelling.inference.checks import Check, Statistic, exact_pit
from thermostats.modelling.inference.draws import SEED, Array, Draws, Settings, Weights, equal_tailed
from thermostats.modelling.inference.fitted import Fitted, chances
from thermostats.modelling.inference.held_out import compare, few_folds, mixture, model_folds, rival
from thermostats.modelling.inference.parts import Part, direct_part, names_of, spaced
from thermostats.modelling.inference.quadrature import Lines, Posterior, log_evidence, posterior, predict
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.modelling.inference.sums import logsumexp
from thermostats.modelling.laws.lines import each_left_out
from thermostats.plots.marks import ABOVE

SCALE = 0.3
"""Prior scale of log10 of one block's gain: a factor of two."""
BETA = (0.5, 1.0)
"""Normal prior of β: no dependence (0) and the claim (1) are equally likely beforehand."""
NOISE = 1 / 6
"""Prior scale of the noise around the envelope, as a share of that of the gains."""
CURVE = ("middle", "beta", "sigma", "tau")
FRONTIER = ("frontier_middle", "frontier_beta", "below", "noise")
SIGNED = ("middle", "beta", "frontier_beta")
"""Those that may lie below 0."""
ASKED: dict[str, Statement] = {
    "beta > 0": lambda q: q["beta"] > 0,
    "beta < 1": lambda q: q["beta"] < 1,
    "frontier beta > 0": lambda q: q["frontier_beta"] > 0,
    "frontier above 10^(1/L) at the middle depth": lambda q: q["frontier_over_bound"] > 1,
    "every model below 10^(1/L)": lambda q: (q["excess"] < 0).all(axis=-1),
}
RIVALS = {"depth": "n_layers", "density": "rho", "scale": "n_params_nonembedding"}
"""Columns whose logarithm is a rival explanation."""
SETTINGS = Settings()
"""Of the draws, which are independent."""
RIVAL_NODES = 41
NODES, REACH, NEGLIGIBLE = 31, 3.5, 10.0
"""First nodes of β, prior standard deviations to either side, log density below the highest that is left out."""
STEP, HALVINGS, FINE = 1.0, 30, 16
"""Nodes are added until the log density changes by less than this from one to the next, at most so many times; and
points between two nodes in which it is interpolated."""
LEAST_EFFECTIVE = 200.0
"""Effective draws below which a refit of the envelope says nothing."""
PROPOSED, WANTED, ROUNDS, TAIL = 3000, 600, 40, 5
"""Draws a round of the importance sampler, their effective number, rounds at most, degrees of freedom of a proposal."""
MANY = 4000.0
"""Effective number of the draws that are reported."""
FOLDED = np.array([True, False, True, True])
"""Which of (m, β, below, noise) are never below 0."""
IMAGES = np.array([(a, 1, b, c) for a in (1, -1) for b in (1, -1) for c in (1, -1)])
"""Signs under which a proposal folded at 0 gives the same draw."""
RESAMPLES = 1000
ENUMERABLE = 200
"""Up to so many models the lines of resamples are found among all lines through two models."""
FLOOR = 0.1
"""Outcomes not above 0 are put at this share of the smallest that is: a quantile line above them does not move."""


@dataclass(frozen=True, kw_only=True)
class Depths:
    """Rows of both models: y = log10 G, x = log(L/L₀), standard errors of y, labs, prior scale and prior of β."""

    y: Array
    x: Array
    error: Array
    groups: NDArray[np.int64]
    """Labs from 0; −1 for one never seen."""
    n_groups: int
    """0: no effects of labs."""
    scale: float
    beta: tuple[float, float] = BETA

    def rows(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Depths:
        """The same model of some rows."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in ("y", "x", "error", "groups")})

    @property
    def share(self) -> float:
        """Prior scale of labs and of models within labs, half the variance each."""
        return self.scale / 2**0.5

    def lines(self, X: Array) -> Lines:
        """A linear model of these rows."""
        return Lines(
            y=self.y,
            X=X,
            groups=self.groups,
            n_groups=self.n_groups,
            error=self.error,
            mean=np.zeros(X.shape[1]),
            sd=np.full(X.shape[1], self.scale),
            sigma_scale=self.share,
            tau_scale=self.share,
        )


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """One row per model with what the power laws of depth take; `middle_depth`: L₀, the geometric mean of L."""

    rows: ModelRows
    L: Array
    middle_depth: float
    depths: Depths
    warnings: tuple[str, ...]


def bounded_rows(
    table: pd.DataFrame,
    estimand: str,
    *,
    error_from: str | None = "penultimate_gain",
    scale: float | None = None,
    **chosen: Any,
) -> Bounded:
    """The rows of `fit_kleiber`; raises as it does. `chosen`: source and prompt_counts."""
    if scale is not None and not (math.isfinite(scale) and scale > 0):
        raise UsageError("a prior scale must be above 0", where="scale", got=scale, allowed="a finite number above 0")
    stands = error_from if error_from in table else None
    rows = model_rows(table, estimand, error_from=stands, least=4, **chosen)
    frame, said = rows.table, list(rows.warnings)
    L = numbers(frame["n_layers"].astype("float64"), "n_layers", positive=True, varied=True)
    labs = frame["heritage"].astype(str)
    if labs.nunique() == 1:
        said.append("only one lab: nothing here applies to other labs, and no lab is left out")
    elif not labs.duplicated().any():
        said.append("one model of every lab: labs cannot be separated from models, so their prior decides")
    y, middle = frame["log_gain"].to_numpy() / math.log(10), float(np.exp(np.log(L).mean()))
    if not (y > 0).any():
        said.append("no gain is above 1: no envelope of the claimed form, and no quantile lines")
    averaged = math.sqrt(max(middle - 2, 1)) if estimand.startswith("geometric_gain") else 1.0
    depths = Depths(
        y=y,
        x=np.log(L / middle),
        error=frame["error"].to_numpy() / math.log(10),
        groups=pd.factorize(labs)[0],
        n_groups=labs.nunique() if labs.nunique() > 1 else 0,
        scale=SCALE / averaged if scale is None else scale,
    )
    return Bounded(rows=rows, L=L, middle_depth=middle, depths=depths, warnings=tuple(said))


def fit_kleiber(
    table: pd.DataFrame,
    estimand: str = "max_gain_to_penultimate",
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = "penultimate_gain",
    prompt_counts: Mapping[str, int] | None = None,
    scale: float | None = None,
    seed: int = SEED,
) -> Fitted:
    """Exponent and constant of log10 G = k L^(−β), the envelope twice, who lies above 10^(1/L), and rivals of depth.

    `table`: rows of `features`; the rest as in `model_rows`. `scale`: prior scale of log10 G, by default `SCALE`, and
    for a mean over the blocks `SCALE` over the root of their number. Quantities: k, beta, sigma, lab_sd of the curve in
    the middle; frontier_k, frontier_beta, below, noise of the envelope. Tables: `models` (P(above) with each model's
    error of measurement), `quantiles` (the envelope by quantile regression), `rivals` (exact leave one model out and
    leave one lab out; `published` is k = β = 1 through the middle with its spread free).

    Raises UsageError for fewer than 4 models, one depth only, or a gain that is not finite and above 0.
    """
    bounded = bounded_rows(
        table, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts, scale=scale
    )
    depths, L, middle = bounded.depths, bounded.L, bounded.middle_depth
    frame, said, y = bounded.rows.table, list(bounded.warnings), bounded.depths.y
    top = draw_frontier(depths, seed=seed)
    through, effects = draw_curve(depths, seed=seed)
    above = probability_above(y, depths.error, 1 / L, frame["n_prompts"].astype("float64").to_numpy())
    models = frame[["model_id", "heritage", "n_layers"]].assign(
        log10_gain=y, error=depths.error, bound=1 / L, p_above=above
    )
    shown = _of_curve(through.values, middle) | _of_envelope(top.values, middle)
    if not depths.n_groups:
        del shown["lab_sd"]
    excess = {"excess": _excess(bounded, seed)}
    above_bound = stats.norm.sf((1 / middle - through["middle"]) / np.hypot(through["sigma"], through["tau"]))
    rivals = _compared(bounded, said)
    asked: dict[str, Any] = {"statistics": _statistics(L), "of": names_of(frame)}
    return Fitted(
        family="kleiber",
        estimand=bounded.rows.estimand,
        sources=bounded.rows.sources,
        n_models=y.size,
        n_heritages=frame["heritage"].nunique(),
        parts={"curve": _part(depths, through, effects, **asked), "frontier": _part(depths, top, **asked)},
        quantities=shown,
        more=excess,
        statements=ASKED,
        probabilities=chances(ASKED, {**shown, **excess})
        | {"new model at the middle depth above 10^(1/L)": float(above_bound.mean())},
        numbers={"middle_depth": middle, "prior_scale": depths.scale},
        tables={"models": models, "quantiles": quantile_power_law(L, y, seed=seed), "rivals": rivals},
        warnings=tuple(said),
        figure=_figure,
        alternatives=partial(_alternatives, bounded),
        left_out=partial(_left_out, bounded),
        equations=(
            "yᵢ = log₁₀ Gᵢ,  xᵢ = log(Lᵢ/L₀),  sᵢ the standard error of yᵢ over prompts",
            "curve: yᵢ = m e^(−β xᵢ)" + (" + u_lab(i)" if depths.n_groups else "") + " + εᵢ,  εᵢ ~ N(0, σ² + sᵢ²)",
            *(("u_lab ~ N(0, τ²)",) if depths.n_groups else ()),
            "envelope: yᵢ = m′ e^(−β′ xᵢ) − wᵢ + vᵢ,  wᵢ ~ half-normal(ω),  vᵢ ~ N(0, η² + sᵢ²)",
            "k = m L₀^β,  k′ = m′ L₀^β′;  the claim: k = β = 1 and y ≤ 1/L",
        ),
        priors=_stated_priors(depths),
        seed=seed,
    )


def _of_curve(draws: Mapping[str, Array], middle: float) -> dict[str, Array]:
    k = draws["middle"] * middle ** draws["beta"]
    return {"k": k, "beta": draws["beta"], "sigma": draws["sigma"], "lab_sd": draws["tau"]}


def _of_envelope(draws: Mapping[str, Array], middle: float) -> dict[str, Array]:
    return {
        "frontier_k": draws["frontier_middle"] * middle ** draws["frontier_beta"],
        **{name: draws[name] for name in FRONTIER[1:]},
        "frontier_over_bound": draws["frontier_middle"] * middle,
    }


def _excess(bounded: Bounded, seed: int) -> Array:
    """log10 of every model's true gain less its bound 1/L: what was measured, and Student-t errors."""
    depths, n = bounded.depths, bounded.rows.table["n_prompts"].astype("float64").to_numpy()
    size = (SETTINGS.chains, SETTINGS.draws, depths.y.size)
    return depths.y - 1 / bounded.L + depths.error * np.random.default_rng(seed).standard_t(_degrees(n), size)


def _stated_priors(depths: Depths) -> tuple[tuple[str, str, str], ...]:
    scale, share = f"{depths.scale:.2g}", f"{depths.share:.2g}"
    factor = f"log10 gains within a factor of {10**depths.scale:.2g} either way are no surprise"
    own = (
        ("m", f"N(0, {scale}²)", factor),
        ("m′", f"half-normal({scale})", f"an envelope of this form lies above 1; {factor}"),
        ("β, β′", f"N({BETA[0]:g}, {BETA[1]:g}²)", "no dependence (0) and the claim (1) are equally likely beforehand"),
        ("σ", f"half-normal({share})", "models within labs: half the variance of log10 gains"),
        ("ω", f"half-normal({scale})", "models may lie far below an envelope"),
        ("η", f"half-normal({NOISE * depths.scale:.2g})", "few lie above it, and not far: a sixth of that"),
    )
    return (*own, ("τ", f"half-normal({share})", "labs: the other half")) if depths.n_groups else own


def _statistics(L: Array) -> dict[str, Statistic]:
    deep = np.median(L) < L
    return {
        "largest": lambda y: y.max(axis=-1),
        "spread": lambda y: y.std(axis=-1),
        "share above 10^(1/L)": lambda y: (y > 1 / L).mean(axis=-1),
        "deep less shallow": lambda y: y[..., deep].mean(axis=-1) - y[..., ~deep].mean(axis=-1),
    }


def _compared(bounded: Bounded, said: list[str]) -> pd.DataFrame:
    frame, depths = bounded.rows.table, bounded.depths
    one = np.ones((depths.y.size, 1))
    grid = np.linspace(BETA[0] - 3.5 * BETA[1], BETA[0] + 3.5 * BETA[1], RIVAL_NODES)
    found = {
        "published": rival(replace(depths, y=depths.y - 1 / bounded.L).lines(np.empty((depths.y.size, 0)))),
        "power law": mixture([node(depths, b) for b in grid], stats.norm.pdf(grid, *BETA)),
        "constant": rival(depths.lines(one)),
    }
    for name, column in RIVALS.items():
        values = frame.get(column, pd.Series(dtype="float64")).astype("float64")
        if not (values.nunique() > 1 and np.isfinite(values).all() and values.gt(0).all()):
            said.append(f"rival {name} left out: {column} is missing, constant or not above 0")
            continue
        found[name] = rival(depths.lines(np.column_stack([one, standardised(np.log(values), column)[0]])))
    folds = {"model": model_folds(depths.y.size, said)}
    if depths.n_groups:
        folds["lab"] = few_folds(frame["heritage"].astype(str).tolist(), "labs", said)
    return compare(found, folds)


def _again(bounded: Bounded, depths: Depths, seed: int) -> dict[str, Array]:
    """Quantities of an exact refit; those of the envelope are left out where its weights did not settle."""
    found, top = _of_curve(curve(depths, seed=seed).values, bounded.middle_depth), settled_frontier(depths, seed=seed)
    if top:
        found |= _of_envelope(top, bounded.middle_depth)
    return {name: values[None] for name, values in found.items()}


def _alternatives(bounded: Bounded, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits under other priors and without what a reader may doubt."""
    depths = bounded.depths
    sizes = np.bincount(depths.groups)[depths.groups]
    others = {
        "half the prior scale": replace(depths, scale=depths.scale / 2),
        "twice the prior scale": replace(depths, scale=depths.scale * 2),
        "twice as wide a prior of β": replace(depths, beta=(BETA[0], 2 * BETA[1])),
        "gains taken as exact": replace(depths, error=np.zeros(depths.y.size)),
    }
    if depths.n_groups:
        others["no effects of labs"] = replace(depths, n_groups=0)
        kept = depths.rows(sizes > 1)
        if (sizes == 1).any() and kept.y.size >= 4 and np.ptp(kept.x) > 0:
            others["without labs of one model"] = kept
    for name, other in others.items():
        yield name, _again(bounded, other, seed)


def _left_out(bounded: Bounded, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits without each lab and without each model."""
    depths, frame = bounded.depths, bounded.rows.table
    excess = _excess(bounded, seed)
    for way in ("heritage", "model_id") if depths.n_groups else ("model_id",):
        for name, kept in each_left_out(frame[way].astype(str).tolist()):
            rest = _again(bounded, depths.rows(kept), seed) if np.ptp(depths.x[kept]) else {}
            yield name, rest | {"excess": excess[..., kept]}


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    models, reference = fitted.table("models"), fitted.numbers["middle_depth"]
    L = np.linspace(models["n_layers"].min(), models["n_layers"].max(), 60).astype("float64")
    ways = (("curve", "", "through the middle"), ("frontier", "frontier_", "envelope (frontier)"))
    for part, prefix, label in ways:
        draws = fitted.parts[part].draws
        middle, beta = draws.flat(f"{prefix}middle")[::8, None], draws.flat(f"{prefix}beta")[::8, None]
        curves = 10 ** (middle * (L / reference) ** -beta)
        lower, upper = equal_tailed(curves)
        axes.plot(L, np.median(curves, axis=0), label=label)
        axes.fill_between(L, lower, upper, alpha=0.2)
    axes.plot(L, 10 ** (1 / L), linestyle="--", label="10^(1/L)")
    axes.scatter(models["n_layers"], 10 ** models["log10_gain"], s=30, zorder=3)
    axes.set_xlabel("layers, L")
    axes.set_ylabel(fitted.estimand.replace("_", " "))
    axes.legend(**ABOVE)
    return axes


def _part(depths: Depths, draws: Draws, effects: Array | None = None, **asked: Any) -> Part:
    """What the checks need of the curve, whose replicates keep labs' `effects` (draws × labs), or of the envelope."""
    envelope: Any = FRONTIER, _frontier, _below, frontier_density
    through: Any = CURVE if depths.n_groups else CURVE[:-1], _curve, _normal, stats.norm.logpdf
    names, shape, outcomes, density = envelope if effects is None else through
    chosen, priors = spaced(draws), _priors(depths)
    few = {name: draws.flat(name)[chosen] for name in draws.values}
    found = shape(depths, few if effects is None else few | {"effects": effects[chosen]})

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        rng = np.random.default_rng(seed)
        own = {name: centre + scale * rng.standard_normal(size) for name, (centre, scale) in priors.items()}
        own = {name: drawn if name in SIGNED else np.abs(drawn) for name, drawn in own.items()}
        if effects is not None:
            own["effects"] = own["tau"][:, None] * rng.standard_normal((size, depths.n_groups))
        return {name: own[name] for name in names}, outcomes(*shape(depths, own), rng)

    def again(y: Array, seed: int) -> Refit:
        other = replace(depths, y=y)
        if effects is None:
            return weighed(draw_frontier(other, seed=seed, settings=SHORT))
        return weighed(draw_curve(other, seed=seed, settings=SHORT)[0])

    def pit(seed: int) -> Check:
        """Models predicted from all others by exact refits; of many models every twentieth together."""
        folds = model_folds(depths.y.size, [])
        return exact_pit(left_out_pit(depths, folds, envelope=effects is None, seed=seed))

    return direct_part(
        draws,
        observed=depths.y,
        priors={name: priors[name] for name in names},
        simulator=Simulator(joint=joint, posterior=again),
        replicate=lambda seed: outcomes(*found, np.random.default_rng(seed)),
        density=lambda: np.asarray(density(depths.y, *found)),
        loo=pit,
        **asked,
    )


def draw_curve(depths: Depths, *, seed: int, settings: Settings = SETTINGS) -> tuple[Draws, Array]:
    """Independent draws of m, β, σ and τ, and of the labs' effects, draws × labs.

    Where the quadrature did not settle the diagnostics fail.
    """
    start = time.perf_counter()
    found = curve(depths, seed=seed, draws=settings.chains * settings.draws)
    weights = Weights(effective=math.inf if found.settled else 0.0, name="β by quadrature")
    draws = sampling.exact_draws(found.values, seed=seed, settings=settings, start=start, weights=weights)
    return draws, found.found.effects


def draw_frontier(depths: Depths, *, seed: int, settings: Settings = SETTINGS) -> Draws:
    """Draws of the envelope; where their weights are too uneven the diagnostics fail."""
    start = time.perf_counter()
    values, effective, _ = frontier(depths, seed=seed, draws=settings.chains * settings.draws, wanted=MANY)
    weights = Weights(effective=effective, name="weights of the envelope")
    return sampling.exact_draws(values, seed=seed, settings=settings, start=start, weights=weights)


def _priors(depths: Depths) -> dict[str, tuple[float, float]]:
    """Centre and scale of the normal or half-normal prior of every quantity."""
    return {
        "middle": (0.0, depths.scale),
        "beta": depths.beta,
        "sigma": (0.0, depths.share),
        "tau": (0.0, depths.share),
        "frontier_middle": (0.0, depths.scale),
        "frontier_beta": depths.beta,
        "below": (0.0, depths.scale),
        "noise": (0.0, NOISE * depths.scale),
    }


def _curve(depths: Depths, values: Mapping[str, Array]) -> tuple[Array, Array]:
    """Height of the curve with the effects of labs (draws × labs), and spread around it, draws × rows."""
    centre = values["middle"][:, None] * np.exp(-values["beta"][:, None] * depths.x)
    if depths.n_groups:
        centre = centre + values["effects"][:, depths.groups]
    return centre, np.hypot(values["sigma"][:, None], depths.error)


def _frontier(depths: Depths, values: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Envelope, width below it and noise around it, each draws × rows."""
    top = values["frontier_middle"][:, None] * np.exp(-values["frontier_beta"][:, None] * depths.x)
    noise = np.hypot(values["noise"][:, None], depths.error)
    return top, np.broadcast_to(values["below"][:, None], top.shape), noise


def _normal(centre: Array, spread: Array, rng: np.random.Generator) -> Array:
    """Outcomes around a curve."""
    return np.asarray(rng.normal(centre, spread))


def _below(top: Array, below: Array, noise: Array, rng: np.random.Generator) -> Array:
    """Outcomes below an envelope."""
    return np.asarray(rng.normal(top - np.abs(rng.standard_normal(top.shape)) * below, noise))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Draws of y = m e^(−β x) + u_lab + ε: m is the height at the middle depth L₀."""

    beta: Array
    found: Posterior
    """Its `beta` is m."""
    settled: bool
    """Whether there are nodes enough to say anything."""

    @property
    def values(self) -> dict[str, Array]:
        """Draws by the names of `CURVE`."""
        drawn = (self.found.beta[:, 0], self.beta, self.found.sigma, self.found.tau)
        return dict(zip(CURVE, drawn, strict=True))


def node(depths: Depths, beta: float) -> Lines:
    """The curve at one exponent, a linear model."""
    return depths.lines(np.exp(-beta * depths.x)[:, None])


def curve(depths: Depths, *, seed: int, draws: int = 4000) -> Curve:
    """Posterior of the curve in independent draws: β by nodes that are added where its density is, σ and τ by
    `gaussian` at the nearest node, m and the effects of labs exactly given these.

    No mode is missed for lack of a path to it. This matters where gains lie almost on a curve, since a curve with and
    one without effects of labs can then both fit.
    """
    grid, density, settled = _nodes(depths)
    fine = np.concatenate([np.linspace(a, b, FINE, endpoint=False) for a, b in pairwise(grid)])
    fine = fine + np.repeat(np.diff(grid), FINE) / FINE / 2
    width = np.repeat(np.diff(grid), FINE) / FINE
    log_mass = np.asarray(Akima1DInterpolator(grid, density)(fine)) + np.log(width)
    total = float(logsumexp(log_mass))
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(fine.size, draws, p=np.exp(log_mass - total)))
    beta = fine[chosen] + width[chosen] * rng.uniform(-0.5, 0.5, draws)
    nearest, counts = np.unique(np.abs(beta[:, None] - grid).argmin(axis=1), return_counts=True)
    parts = [
        posterior(node(depths, grid[i]), seed=seed + int(i), draws=int(n)) for i, n in zip(nearest, counts, strict=True)
    ]
    order = rng.permutation(draws)
    sigma, tau = (np.concatenate([getattr(part, name) for part in parts])[order] for name in ("sigma", "tau"))
    m, effects = _level(depths, beta[order], sigma, tau, rng)
    evidence = total - math.log(depths.beta[1] * math.sqrt(2 * math.pi))
    found = Posterior(log_evidence=evidence, beta=m[:, None], effects=effects, sigma=sigma, tau=tau)
    return Curve(beta=beta[order], found=found, settled=settled)


def _nodes(depths: Depths) -> tuple[Array, Array, bool]:
    """Nodes of β, the log of p(y | β) exp(−z²/2) at them, and whether they are close enough."""
    mean, sd = depths.beta

    def at(beta: Array) -> Array:
        return np.array([log_evidence(node(depths, b)) for b in beta]) - 0.5 * np.square((beta - mean) / sd)

    grid = np.linspace(mean - REACH * sd, mean + REACH * sd, NODES)
    density = at(grid)
    for _ in range(HALVINGS):
        steep = np.pad(np.abs(np.diff(density)) > STEP, 1)
        near = steep[:-2] | steep[1:-1] | steep[2:]
        near &= np.maximum(density[:-1], density[1:]) > density.max() - NEGLIGIBLE
        if not near.any():
            return grid, density, True
        between = (grid[:-1] + grid[1:])[near] / 2
        order = np.argsort(np.concatenate([grid, between]))
        grid, density = (np.concatenate(pair)[order] for pair in ((grid, between), (density, at(between))))
    return grid, density, False


def _level(depths: Depths, beta: Array, sigma: Array, tau: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """m, and effects of labs (draws × labs), given the rest: with ⟨a, b⟩ = Σ a_i b_i/d_i − Σ_g κ_g A_g B_g,
    A_g = Σ_{i∈g} a_i/d_i, d_i = σ² + error_i², κ_g = τ²/(1 + τ² Σ_{i∈g} 1/d_i): m ~ N(⟨f, y⟩/P, 1/P),
    P = scale⁻² + ⟨f, f⟩, and u_g ~ N(κ_g (Y_g − m F_g), κ_g).
    """
    f = np.exp(-beta[:, None] * depths.x)
    weight = 1 / (np.square(sigma)[:, None] + np.square(depths.error))
    member = (depths.groups[:, None] == np.arange(depths.n_groups)).astype(np.float64)
    of_f, of_y = (f * weight) @ member, (depths.y * weight) @ member
    shrink = np.square(tau)[:, None] / (1 + np.square(tau)[:, None] * (weight @ member))
    fy = (f * depths.y * weight).sum(axis=1) - (shrink * of_f * of_y).sum(axis=1)
    precision = depths.scale**-2.0 + (f * f * weight).sum(axis=1) - (shrink * of_f * of_f).sum(axis=1)
    m = fy / precision + rng.standard_normal(fy.size) / np.sqrt(precision)
    effects = shrink * (of_y - m[:, None] * of_f) + np.sqrt(shrink) * rng.standard_normal(shrink.shape)
    return m, effects


def frontier_density(y: Array, top: Array, below: Array, noise: Array) -> Array:
    """log p(y) of y = top − u + v: with s² = below² + noise² and e = y − top, (2/s) φ(e/s) Φ(−e below/(noise s))."""
    s = np.hypot(below, noise)
    z = (y - top) / s
    return np.asarray(math.log(2) - 0.5 * math.log(2 * math.pi) - np.log(s) - 0.5 * z**2 + log_ndtr(-z * below / noise))


def frontier(
    depths: Depths, *, seed: int, draws: int = 4000, wanted: float = WANTED
) -> tuple[dict[str, Array], float, float]:
    """Draws of the envelope, the effective number of their weights, and log p(y).

    By tempered adaptive importance sampling of (m, β, below, noise).
    """
    rng = np.random.default_rng(seed)
    spread = max(float(depths.y.std()), 0.01 * depths.scale)
    top = max(float(np.quantile(depths.y, 0.9)), 0.1 * depths.scale)
    centre = np.array([top, depths.beta[0], spread, spread / 3])
    factor = np.diag([0.7 * top, 0.7 * depths.beta[1], spread, spread / 2])
    for _ in range(ROUNDS):
        theta, log_ratio = _propose(depths, centre, factor, rng)
        power = _tempered(log_ratio)
        weights = np.exp(power * log_ratio - logsumexp(power * log_ratio))
        centre = weights @ theta
        factor = np.linalg.cholesky(np.cov(theta.T, aweights=weights) + np.diag(1e-12 + 1e-6 * np.square(centre)))
        if power == 1.0:
            break
    batches: list[tuple[Array, Array]] = []
    effective = 0.0
    while effective < wanted and len(batches) < ROUNDS:
        batches += [_propose(depths, centre, factor, rng) for _ in range(2)]
        every, ratios = (np.concatenate(part) for part in zip(*batches, strict=True))
        weights = np.exp(ratios - logsumexp(ratios))
        effective = float(1 / np.square(weights).sum())
    chosen = every[rng.choice(len(every), draws, p=weights)]
    evidence = float(logsumexp(ratios)) - math.log(len(every))
    return dict(zip(FRONTIER, chosen.T, strict=True)), effective, evidence


def settled_frontier(depths: Depths, *, seed: int) -> dict[str, Array]:
    """Draws of the envelope; none where the weights are too uneven to say anything."""
    values, effective, _ = frontier(depths, seed=seed)
    return values if effective >= LEAST_EFFECTIVE else {}


def left_out_pit(depths: Depths, folds: Sequence[str], *, envelope: bool, seed: int) -> Array:
    """Share of predictive draws below every outcome, predicted from the folds it is not in, by exact refits.

    NaN where a refit of the envelope did not settle.
    """
    fold_of, pit = np.asarray(folds), np.full(depths.y.size, np.nan)
    for k, fold in enumerate(dict.fromkeys(folds)):
        out = fold_of == fold
        rest, asked = depths.rows(~out), depths.rows(out)
        asked = replace(asked, groups=np.where(np.isin(asked.groups, rest.groups), asked.groups, -1))
        if not envelope:
            found = curve(rest, seed=seed + k)
            flat = predict(found.found, asked.lines(np.zeros((asked.y.size, 1))), seed=seed + k)
            drawn = flat + found.found.beta * np.exp(-found.beta[:, None] * asked.x)
        elif top := settled_frontier(rest, seed=seed + k):
            drawn = _below(*_frontier(asked, top), np.random.default_rng(seed + k))
        else:
            continue
        pit[out] = (drawn < asked.y).mean(axis=0)
    return pit


def _propose(depths: Depths, centre: Array, factor: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws of a multivariate Student-t, its scales folded at 0, and the log of what they should have over has."""
    z = rng.standard_normal((PROPOSED, 4)) / np.sqrt(rng.chisquare(TAIL, (PROPOSED, 1)) / TAIL)
    theta = np.where(FOLDED, np.abs(centre + z @ factor.T), centre + z @ factor.T)
    constant = math.lgamma((TAIL + 4) / 2) - math.lgamma(TAIL / 2) - 2 * math.log(TAIL * math.pi)
    inverse = np.linalg.inv(factor)
    images = [np.square((theta * signs - centre) @ inverse.T).sum(axis=1) for signs in IMAGES]
    density = logsumexp([-0.5 * (TAIL + 4) * np.log1p(image / TAIL) for image in images], axis=0)
    return theta, _log_joint(depths, theta) - (constant + density - np.log(np.diag(factor)).sum())


def _log_joint(depths: Depths, theta: Array) -> Array:
    """log p(y, θ) of draws of θ = (m, β, below, noise)."""
    m, beta, below, noise = np.maximum(theta, [1e-12, -np.inf, 1e-12, 1e-12]).T
    top = m[:, None] * np.exp(-np.clip(beta[:, None] * depths.x, -40, 40))
    found = frontier_density(depths.y, top, below[:, None], np.hypot(noise[:, None], depths.error)).sum(axis=1)
    mean, sd = depths.beta
    found = found - 0.5 * np.square((beta - mean) / sd) - math.log(sd * math.sqrt(2 * math.pi))
    for value, scale in ((m, depths.scale), (below, depths.scale), (noise, NOISE * depths.scale)):
        found = found + 0.5 * math.log(2 / math.pi) - math.log(scale) - 0.5 * np.square(value / scale)
    return np.asarray(found)


def _tempered(log_ratio: Array) -> float:
    """Largest power up to 1 at which the weights have the effective number wanted."""

    def enough(power: float) -> bool:
        scaled = power * log_ratio
        return bool(2 * logsumexp(scaled) - logsumexp(2 * scaled) >= math.log(WANTED))

    if enough(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return max(low, 1e-6)


def probability_above(value: Array, error: Array, bound: Array, n: Array) -> Array:
    """P(true value > bound): (true − value)/error is Student-t, n − 1 degrees of freedom, normal where n is not known.

    Where the error is 0 the value is exact and the probability is 0 or 1.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = stats.t.cdf((value - bound) / error, _degrees(n))
    return np.asarray(np.where(error > 0, found, (value > bound).astype(np.float64)))


def _degrees(n: Array) -> Array:
    """Degrees of freedom of a mean of n; as good as normal where n is not known."""
    return np.where(np.isfinite(n) & (n > 1), n - 1, 1e9)


def quantile_power_law(
    L: Array, y: Array, quantiles: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95), *, seed: int, level: float | None = None
) -> pd.DataFrame:
    """Quantiles of y = log10 G as k L^(−β): log10 y on log10 L by quantile regression (Koenker and Bassett 1978).

    A quantile goes through a monotone transformation unchanged, so the log-log line is the quantile of y itself; rows
    with y ≤ 0 are kept below every line (`n_floored`). Intervals: percentile bootstrap over models, asymptotic above
    `ENUMERABLE` models. One row per quantile: k, beta and their bounds, and `above_claim`, the share of resamples whose
    line lies above 1/L at the mean log depth. No row where no y is above 0.
    """
    if not (y > 0).any():
        return pd.DataFrame(columns=["quantile", "k", "k_lower", "k_upper", "beta", "beta_lower", "beta_upper"])
    x, z = np.log10(L), np.log10(np.maximum(y, FLOOR * y[y > 0].min()))
    counts = np.random.default_rng(seed).multinomial(x.size, np.full(x.size, 1 / x.size), RESAMPLES)
    few = x.size <= ENUMERABLE
    rows = []
    for tau in quantiles:
        a, b, spread = _line(x, z, tau)
        drawn = (
            _bootstrap(x, z, tau, counts)
            if few
            else np.random.default_rng(seed).multivariate_normal([a, b], spread, RESAMPLES)
        )
        (low, beta_high), (high, beta_low) = equal_tailed(drawn, level)
        at_mean = drawn @ np.array([1.0, x.mean()])
        rows.append(
            {
                "quantile": tau,
                "k": 10**a,
                "k_lower": 10**low,
                "k_upper": 10**high,
                "beta": -b,
                "beta_lower": -beta_low,
                "beta_upper": -beta_high,
                "above_claim": float((at_mean > -x.mean()).mean()),
                "level": level,
                "interval": "bootstrap over models" if few else "asymptotic, kernel",
                "n": x.size,
                "n_floored": int((y <= 0).sum()),
            }
        )
    return pd.DataFrame(rows)


def _line(x: Array, z: Array, tau: float) -> tuple[float, float, Array]:
    """Intercept, slope and their covariance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IterationLimitWarning)  # it cycles between lines of equal loss
        fit = QuantReg(z, np.column_stack([np.ones(x.size), x])).fit(q=tau, max_iter=300)
    return float(fit.params[0]), float(fit.params[1]), np.asarray(fit.cov_params())


def _bootstrap(x: Array, z: Array, tau: float, counts: NDArray[np.int64]) -> Array:
    """Intercept and slope of every resample: the best of all lines through two models, where the optimum lies."""
    i, j = np.triu_indices(x.size, 1)
    apart = x[i] != x[j]
    i, j = i[apart], j[apart]
    slope = (z[j] - z[i]) / (x[j] - x[i])
    intercept = z[i] - slope * x[i]
    residual = z - intercept[:, None] - slope[:, None] * x
    loss = np.where(residual > 0, tau * residual, (tau - 1) * residual)
    best = (counts @ loss.T).argmin(axis=1)
    return np.column_stack([intercept[best], slope[best]])
