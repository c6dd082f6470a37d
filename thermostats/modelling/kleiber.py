"""log₁₀ Gᵢ = m (Lᵢ/L₀)^(−β) + u_lab + εᵢ: does the largest gain fall with depth, and does k = β = 1
bound it?

The curve goes through the middle. An envelope of the same form lies above, y = m e^(−β x) − w + v
(w half-normal, v normal: a stochastic frontier, Aigner, Lovell and Schmidt 1977,
doi:10.1016/0304-4076(77)90052-5), whose density is skew-normal. Without a model: quantile lines,
and who lies above 10^(1/L), errors and all.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats
from statsmodels.regression.quantile_regression import QuantReg
from statsmodels.tools.sm_exceptions import IterationLimitWarning

from thermostats.modelling.columns import (
    Columns,
    build_gain_columns,
    check_prior_scale,
    read_numbers,
)
from thermostats.modelling.draws import SEED, Array, Statement, Statistic, find_equal_tailed
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.gaussian import Gaussian, HalfNormals, Mixture
from thermostats.modelling.laws import LOG10, Design, Law, Prior
from thermostats.modelling.leave_out import build_model_and_lab_folds
from thermostats.modelling.lines import compare
from thermostats.modelling.mixed_model import read_numbers_or_zeros
from thermostats.modelling.model_gains import (
    ModelGains,
    Preference,
    fill_known_errors,
    read_model_gains,
)
from thermostats.modelling.populations import index_levels
from thermostats.modelling.sampling import Declare, Sampled, pad_levels
from thermostats.plots.general import ABOVE

RESAMPLES = 1000
ENUMERABLE = 200
"""Up to so many models the lines of resamples are found among all lines through two models."""
FLOOR = 0.1
"""Outcomes not above 0 are put at this share of the smallest that is: a quantile line above them
does not move."""


def fit_quantile_power_law(
    L: Array,
    y: Array,
    quantiles: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95),
    *,
    seed: int,
    level: float | None = None,
) -> pd.DataFrame:
    """Quantiles of y = log10 G as k L^(−β): log10 y on log10 L by quantile regression (Koenker and
    Bassett 1978).

    A quantile goes through a monotone transformation unchanged, so the log-log line is the quantile
    of y itself; rows with y ≤ 0 are kept below every line (`n_floored`). Intervals: percentile
    bootstrap over models, asymptotic above `ENUMERABLE` models. One row per quantile: k, beta and
    their bounds, and `above_claim`, the share of resamples whose line lies above 1/L at the mean
    log depth. No row where no y is above 0.
    """
    if not (y > 0).any():
        return pd.DataFrame(
            columns=["quantile", "k", "k_lower", "k_upper", "beta", "beta_lower", "beta_upper"]
        )
    x = np.log10(L)
    floor = FLOOR * y[y > 0].min()
    z = np.log10(np.maximum(y, floor))
    even = np.full(x.size, 1 / x.size)
    counts = np.random.default_rng(seed).multinomial(x.size, even, RESAMPLES)
    few = x.size <= ENUMERABLE
    rows = []
    for tau in quantiles:
        a, b, spread = _fit_line(x, z, tau)
        if few:
            drawn = _bootstrap(x, z, tau, counts)
        else:
            rng = np.random.default_rng(seed)
            drawn = rng.multivariate_normal([a, b], spread, RESAMPLES)
        (low, beta_high), (high, beta_low) = find_equal_tailed(drawn, level)
        at_mean = drawn @ np.array([1.0, x.mean()])
        above_claim = at_mean > -x.mean()
        row = {
            "quantile": tau,
            "k": 10**a,
            "k_lower": 10**low,
            "k_upper": 10**high,
            "beta": -b,
            "beta_lower": -beta_low,
            "beta_upper": -beta_high,
            "above_claim": float(above_claim.mean()),
            "level": level,
            "interval": "bootstrap over models" if few else "asymptotic, kernel",
            "n": x.size,
            "n_floored": int((y <= 0).sum()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _fit_line(x: Array, z: Array, tau: float) -> tuple[float, float, Array]:
    """Intercept, slope and their covariance."""
    columns = np.column_stack([np.ones(x.size), x])
    with warnings.catch_warnings():
        # it cycles between lines of equal loss
        warnings.simplefilter("ignore", IterationLimitWarning)
        fit = QuantReg(z, columns).fit(q=tau, max_iter=300)
    intercept, slope = fit.params
    return float(intercept), float(slope), np.asarray(fit.cov_params())


def _bootstrap(x: Array, z: Array, tau: float, counts: NDArray[np.int64]) -> Array:
    """Intercept and slope of every resample: the best of all lines through two models, where the
    optimum lies."""
    i, j = np.triu_indices(x.size, 1)
    apart = x[i] != x[j]
    i = i[apart]
    j = j[apart]
    rise = z[j] - z[i]
    slope = rise / (x[j] - x[i])
    intercept = z[i] - slope * x[i]
    residual = z - intercept[:, None] - slope[:, None] * x
    below = (tau - 1) * residual
    loss = np.where(residual > 0, tau * residual, below)
    best = (counts @ loss.T).argmin(axis=1)
    return np.column_stack([intercept[best], slope[best]])


SCALE = 0.3
"""Prior scale of log10 of one block's gain: a factor of two."""
BETA = (0.5, 1.0)
"""Normal prior of β: no dependence (0) and the claim (1) are equally likely beforehand."""
NOISE = 1 / 6
"""Prior scale of the noise around the envelope, as a share of that of the gains."""
ALIKE = 1e-6
"""Prior scale of what labs differ by, where there is one."""
NODES, REACH = 15, 4.0
"""Exponents at which the power law is compared with its rivals, over so many posterior SDs to
either side."""
RIVALS = {"depth": "n_layers", "density": "rho", "scale": "n_params_nonembedding"}
"""Columns whose logarithm is a rival explanation."""
BELOW = "every model below 10^(1/L)"
CURVE: dict[str, Statement] = {
    "beta > 0": lambda q: q["beta"] > 0,
    "beta < 1": lambda q: q["beta"] < 1,
    BELOW: lambda q: (q["excess"] < 0).all(axis=-1),
    "new model at the middle depth above 10^(1/L)": lambda q: q["new_model_over_bound"] > 1,
}
ENVELOPE: dict[str, Statement] = {
    "frontier beta > 0": lambda q: q["frontier_beta"] > 0,
    "frontier above 10^(1/L) at the middle depth": lambda q: q["frontier_over_bound"] > 1,
}
REPORTED = (
    "k",
    "beta",
    "sigma",
    "lab_sd",
    "frontier_k",
    "frontier_beta",
    "below",
    "noise",
    "frontier_over_bound",
)
OUTCOME = "yᵢ = log₁₀ Gᵢ,  xᵢ = log(Lᵢ/L₀),  sᵢ the standard error of yᵢ over prompts"


def declare_curve(data: Mapping[str, Any]) -> None:
    """The curve through the middle."""
    import pymc as pm  # noqa: PLC0415

    m = pm.Normal("m", 0.0, data["scale"])
    beta = pm.Normal("beta", *BETA)
    sigma = pm.HalfNormal("sigma", data["share"])
    tau = pm.HalfNormal("tau", data["labs_scale"])
    of_labs = tau * pm.Normal("u", shape=data["n_labs"])[data["lab"]]
    mean = m * pm.math.exp(-beta * data["x"]) + of_labs
    spread = pm.math.sqrt(sigma**2 + data["error"] ** 2)
    pm.Normal("y", mean, spread, observed=data["y_observed"])


def declare_envelope(data: Mapping[str, Any]) -> None:
    """The envelope: what lies below it is half-normal, and noise and errors of measurement are
    normal."""
    import pymc as pm  # noqa: PLC0415

    m = pm.HalfNormal("m", data["scale"])
    beta = pm.Normal("beta", *BETA)
    below = pm.HalfNormal("below", data["scale"])
    noise = pm.HalfNormal("noise", NOISE * data["scale"])
    around = pm.math.sqrt(noise**2 + data["error"] ** 2)
    spread = pm.math.sqrt(below**2 + around**2)
    mean = m * pm.math.exp(-beta * data["x"])
    skew = -below / around
    pm.SkewNormal("y", mu=mean, sigma=spread, alpha=skew, observed=data["y_observed"])


def read_bounded_rows(
    table: pd.DataFrame,
    estimand: str,
    *,
    se: str | float | None = None,
    error_from: str | None = "penultimate_gain",
    **chosen: Any,
) -> ModelGains:
    """The rows of `fit_kleiber`, with log10_gain and its error; raises as it does. `chosen`:
    source, prompt_counts."""
    known = error_from if error_from in table else None
    models = read_model_gains(
        table,
        estimand,
        outcome=estimand,
        errors=fill_known_errors,
        names=["heritage"],
        quantities=["n_layers"],
        optional=list(RIVALS.values()),
        se=se,
        preference=Preference(error_from=known, **chosen),
    )
    rows = models.table
    warnings = list(models.warnings)
    read_numbers(rows["log_gain"], f"log {estimand}", least=4, varied=True)
    read_numbers(rows["n_layers"], "n_layers", varied=True)
    labs = rows["heritage"].astype(str)
    if labs.nunique() == 1:
        warnings.append("only one lab: nothing here applies to other labs, and no lab is left out")
    elif not labs.duplicated().any():
        warnings.append(
            "one model of every lab: labs cannot be separated from models, so their prior decides"
        )
    if not (rows["log_gain"] > 0).any():
        warnings.append(
            "no gain is above 1: no envelope of the claimed form, and no quantile lines"
        )
    rows = rows.assign(
        log10_gain=rows["log_gain"] / math.log(10),
        log10_error=rows["error"] / math.log(10),
        # stated errors are those of no number of prompts
        n_prompts=rows.get("n_prompts", 0.0),
    )
    return replace(models, table=rows, warnings=tuple(warnings))


def _scale(models: ModelGains, scale: float | None) -> float:
    """Prior scale of log10 G: that asked for, or `SCALE`, of a mean over the blocks over the root
    of their number."""
    if scale is not None:
        return check_prior_scale(scale, "scale")
    blocks = 1.0
    if models.estimand.startswith("geometric_gain"):
        depths = models.table["n_layers"].to_numpy(dtype=np.float64)
        blocks = max(_find_middle(depths) - 2, 1)
    return SCALE / math.sqrt(blocks)


@record_call
def fit_kleiber(
    table: pd.DataFrame,
    outcome: str = "max_gain_to_penultimate",
    *,
    model: str = "model_id",
    lab: str | None = "heritage",
    depth: str = "n_layers",
    se: str | float | None = None,
    source: str | Sequence[str] | None = None,
    error_from: str | None = "penultimate_gain",
    prompt_counts: Mapping[str, int] | None = None,
    scale: float | None = None,
    seed: int = SEED,
) -> Fit:
    """Fit a power of depth to the gain: the curve in the middle of the models.

        log10 G_i = m (L_i/L₀)^(−β) + u_lab + ε_i = k L_i^(−β) + …

    Parameters
    ----------
    table : DataFrame
        Rows of `features`, or your own, one per model or per model and prompt (`prompt_id`).
        `<outcome>_sd` (divisor n − 1) with `n_prompts`, where there, are the errors.
    outcome, model, lab, depth : str
        Columns of the gain, the model's name, its lab (None: all are of one) and its number of
        layers.
    se : str or float
        States the errors instead, a column or a number, of the gain as given, known whatever n.
    source : str or sequence of str
        Files to take, in order of preference, all but the controlled study by default.
    error_from : str
        The gain whose relative spread stands in where that of the outcome is not known.
    prompt_counts : mapping of str to int
        Prompts of each prompt set, for averages that have no number of prompts, whose standard
        deviations then count as published (divisor n).
    scale : float
        Prior scale of log10 G, by default `SCALE`, and for a mean over the blocks `SCALE` over the
        root of their number.
    seed : int
        Of the draws.

    Returns
    -------
    Fit
        Quantities: k, beta, sigma, lab_sd, new_model_over_bound (log10 G of a new model at the
        middle depth over 1/L). Tables: `models` (P(above 10^(1/L)) with each model's error of
        measurement), `quantiles` (the envelope by quantile regression), `rivals` (evidence, leave
        one model out and leave one lab out; `published` is k = β = 1 through the middle with its
        spread free).

    Raises
    ------
    UsageError
        For fewer than 4 models, one depth only, or a gain that is not finite and above 0.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.features(source="pythia_family")
    >>> fit = thermostats.fit_kleiber(rows, "max_gain_to_penultimate")
    >>> round(float(fit.params["beta"]), 1)
    0.5
    """
    columns = build_gain_columns("fit_kleiber", outcome, model=model, lab=lab, depth=depth, se=se)
    rows = columns.read(table)
    sources = {"source": source, "prompt_counts": prompt_counts}
    bounded = read_bounded_rows(rows, outcome, error_from=error_from, se=se, **sources)
    scale = _scale(bounded, scale)
    labs = bounded.table["heritage"].nunique() > 1
    of_labs = (" + u_lab(i)", ",  u_lab ~ N(0, τ²)") if labs else ("", "")
    line = f"yᵢ = m e^(−β xᵢ){of_labs[0]} + εᵢ{of_labs[1]},  εᵢ ~ N(0, σ² + sᵢ²)"
    equations = (OUTCOME, line, "k = m L₀^β")
    priors = partial(state_curve_priors, labs)
    return _build_fit(
        declare_curve, bounded, scale, _compute_curve, CURVE, equations, priors, seed, columns
    )


@record_call
def fit_envelope(
    table: pd.DataFrame,
    outcome: str = "max_gain_to_penultimate",
    *,
    model: str = "model_id",
    lab: str | None = "heritage",
    depth: str = "n_layers",
    se: str | float | None = None,
    source: str | Sequence[str] | None = None,
    error_from: str | None = "penultimate_gain",
    prompt_counts: Mapping[str, int] | None = None,
    scale: float | None = None,
    seed: int = SEED,
) -> Fit:
    """Fit the curve below which the gains of models lie, a power of depth.

        log10 G_i = m (L_i/L₀)^(−β) − w_i + v_i, w half-normal, v normal

    Parameters
    ----------
    table, outcome, model, lab, depth, se, source, error_from, prompt_counts, scale, seed
        As in `fit_kleiber`.

    Returns
    -------
    Fit
        Quantities: frontier_k, frontier_beta, below (scale of w), noise (of v), frontier_over_bound
        (its height over 1/L at the middle depth). Tables: those of `fit_kleiber`.

    Raises
    ------
    UsageError
        As `fit_kleiber` does.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.features(source="pythia_family")
    >>> fit = thermostats.fit_envelope(rows, "max_gain_to_penultimate")
    >>> list(fit.priors.index)
    ['m', 'β', 'ω', 'η']
    """
    columns = build_gain_columns("fit_envelope", outcome, model=model, lab=lab, depth=depth, se=se)
    rows = columns.read(table)
    sources = {"source": source, "prompt_counts": prompt_counts}
    bounded = read_bounded_rows(rows, outcome, error_from=error_from, se=se, **sources)
    scale = _scale(bounded, scale)
    equations = (
        OUTCOME,
        "yᵢ = m e^(−β xᵢ) − wᵢ + vᵢ,  wᵢ ~ half-normal(ω),  vᵢ ~ N(0, η² + sᵢ²)",
        "k = m L₀^β",
    )
    priors = state_envelope_priors
    return _build_fit(
        declare_envelope,
        bounded,
        scale,
        _compute_envelope,
        ENVELOPE,
        equations,
        priors,
        seed,
        columns,
    )


EXPONENT: Prior = (
    "β",
    f"N({BETA[0]:g}, {BETA[1]:g}²)",
    "no dependence (0) and the claim (1) are equally likely beforehand",
)


def state_curve_priors(labs: bool, scale: float) -> tuple[Prior, ...]:
    """Those of the curve, with labs where there are several."""
    half = f"half-normal({scale / 2**0.5:.3g})"
    location = f"N(0, {scale:.3g}²)"
    of_labs = ("τ", half, "labs: the other half")
    priors = (
        ("m", location, _name_factor(scale)),
        EXPONENT,
        ("σ", half, "models within labs: half the variance of log10 gains"),
    )
    return (*priors, of_labs) if labs else priors


def state_envelope_priors(scale: float) -> tuple[Prior, ...]:
    """Those of the envelope."""
    above = f"an envelope of this form lies above 1; {_name_factor(scale)}"
    half = f"half-normal({scale:.3g})"
    noise = f"half-normal({NOISE * scale:.3g})"
    return (
        ("m", half, above),
        EXPONENT,
        ("ω", half, "models may lie far below an envelope"),
        ("η", noise, "few lie above it, and not far: a sixth of that"),
    )


def _build_fit(
    model: Declare,
    bounded: ModelGains,
    scale: float,
    quantities: Any,
    statements: Mapping[str, Statement],
    equations: tuple[str, ...],
    priors: Callable[[float], tuple[Prior, ...]],
    seed: int,
    columns: Columns,
) -> Fit:
    others = {"half the prior scale": 0.5, "twice the prior scale": 2.0}
    tables: dict[str, Callable[[Fit], pd.DataFrame]] = {
        "models": _list_models,
        "quantiles": _list_quantiles,
        "rivals": partial(_compare_rivals, scale),
    }
    law = Law(
        name=model.__name__,
        of=partial(_build_design, model, scale),
        quantities=quantities,
        reported=REPORTED,
        statements=statements,
        statistics=_build_statistics,
        equations=equations,
        priors=priors(scale),
        tables=tables,
        figures={"fit": _draw_figure},
    )
    wider = {}
    for name, factor in others.items():
        other = factor * scale
        design_rows = partial(_build_design, model, other)
        wider[name] = replace(law, of=design_rows, priors=priors(other))
    law = replace(law, alternatives=wider)
    return build_fit(
        law,
        bounded.table,
        seed=seed,
        estimand=bounded.estimand,
        sources=bounded.sources,
        warnings=bounded.warnings,
        reads=columns.read_new,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveDesign(Design):
    """Models by depth, with the middle depth and the labs that the curve has."""

    declare: Declare
    factor: float
    """Prior scale of log10 G."""
    middle: float
    """L₀."""
    labs: tuple[str, ...]
    L: Array
    y: Array
    error: Array
    degrees: Array
    """Of freedom of the errors."""

    def build_new(self, rows: pd.DataFrame) -> CurveDesign:
        """Other models about the same middle."""
        return _build_design(self.declare, self.factor, rows, self)


def _build_design(
    declare: Declare, factor: float, rows: pd.DataFrame, fitted: CurveDesign | None = None
) -> CurveDesign:
    """Models about their middle depth, or that of a fit, whose labs come first."""
    L = rows["n_layers"].to_numpy(dtype=np.float64)
    middle = _find_middle(L) if fitted is None else fitted.middle
    before = () if fitted is None else fitted.labs
    names, lab = index_levels(rows["heritage"].astype(str), before)
    y = read_numbers_or_zeros(rows, "log10_gain")
    error = np.maximum(read_numbers_or_zeros(rows, "log10_error"), 0.0)
    share = factor / 2**0.5
    labs_scale = share if len(names) > 1 else ALIKE
    data = {
        "y_observed": y,
        "error": error,
        "x": np.log(L / middle),
        "lab": lab,
        "n_labs": pad_levels(len(names)),
        "scale": np.asarray(factor),
        "share": np.asarray(share),
        "labs_scale": np.asarray(labs_scale),
    }
    if declare is declare_envelope:
        data = {name: data[name] for name in ("y_observed", "error", "x", "scale")}
    prompts = rows["n_prompts"] if "n_prompts" in rows else pd.Series(0.0, index=rows.index)
    per_row = tuple(name for name in ("y_observed", "error", "x", "lab") if name in data)
    degrees = _count_degrees(prompts.astype("float64").to_numpy())
    model = Sampled(declare=declare, data=data, per_row=per_row)
    return CurveDesign(
        model=model,
        outcomes=tuple(rows.index),
        scale=LOG10,
        groups=("heritage",) * (declare is declare_curve),
        covariates=("n_layers",),
        declare=declare,
        factor=factor,
        middle=middle,
        labs=names,
        L=L,
        y=y,
        error=error,
        degrees=degrees,
    )


def _compute_curve(values: Mapping[str, Array], design: CurveDesign) -> dict[str, Array]:
    """`excess`: log10 of every model's true gain less its bound, of what was measured and Student-t
    errors alone."""
    middle = design.middle
    beta = values["beta"]
    m = values["m"]
    rng = np.random.default_rng(beta.size)
    L = design.L
    errors = rng.standard_t(design.degrees, (*beta.shape, L.size))
    spread = np.hypot(values["sigma"], values["tau"])
    new = m + spread * rng.standard_normal(m.shape)
    beyond_bound = design.y - 1 / L
    return {
        "k": m * middle**beta,
        "beta": beta,
        "sigma": values["sigma"],
        "lab_sd": values["tau"],
        "excess": beyond_bound + design.error * errors,
        "new_model_over_bound": new * middle,
    }


def _compute_envelope(values: Mapping[str, Array], design: CurveDesign) -> dict[str, Array]:
    middle = design.middle
    beta = values["beta"]
    m = values["m"]
    return {
        "frontier_k": m * middle**beta,
        "frontier_beta": beta,
        "below": values["below"],
        "noise": values["noise"],
        "frontier_over_bound": m * middle,
    }


def _build_statistics(design: CurveDesign) -> Mapping[str, Statistic]:
    L = design.L
    deep = np.median(L) < L
    statistics: dict[str, Statistic] = {
        "largest": lambda y: y.max(axis=-1),
        "spread": lambda y: y.std(axis=-1),
        "share above 10^(1/L)": lambda y: (y > 1 / L).mean(axis=-1),
    }
    if deep.any() and not deep.all():

        def compare_depths(y: Array) -> Array:
            shallow_mean = y[..., ~deep].mean(axis=-1)
            return np.asarray(y[..., deep].mean(axis=-1) - shallow_mean)

        statistics["deep less shallow"] = compare_depths
    return statistics


def _list_models(fit: Fit) -> pd.DataFrame:
    design = fit.designed(CurveDesign)
    y = design.y
    error = design.error
    bound = 1 / design.L
    prompts = fit.rows["n_prompts"].astype("float64").to_numpy()
    above = compute_probability_above(y, error, bound, prompts)
    models = fit.rows[["model_id", "heritage", "n_layers"]]
    return models.assign(log10_gain=y, error=error, bound=bound, p_above=above)


def _list_quantiles(fit: Fit) -> pd.DataFrame:
    design = fit.designed(CurveDesign)
    return fit_quantile_power_law(design.L, design.y, seed=fit.seed)


def _compare_rivals(scale: float, fit: Fit) -> pd.DataFrame:
    """The power law, k = β = 1, a constant, and a line on the log of depth, head density and
    size."""
    rows = fit.rows
    design = fit.designed(CurveDesign)
    L = design.L
    constant = np.ones((L.size, 1))
    x = np.log(L / design.middle)
    beta = fit.quantities["beta" if "beta" in fit.quantities else "frontier_beta"]
    reach = REACH * beta.std()
    grid = np.linspace(beta.mean() - reach, beta.mean() + reach, NODES)
    step = grid[1] - grid[0]
    curves = []
    for b in grid:
        power = np.exp(-b * x)[:, None]
        curves.append(_build_exact_model(rows, power, scale))
    beyond_published = rows.assign(log10_gain=rows["log10_gain"] - 1 / L)
    nothing = np.empty((L.size, 0))
    power_law = Mixture(
        nodes=tuple(curves), weights=stats.norm.pdf(grid, *BETA) * step, seed=fit.seed
    )
    rivals: dict[str, Gaussian | Mixture] = {
        "published": _build_exact_model(beyond_published, nothing, scale),
        "power law": power_law,
        "constant": _build_exact_model(rows, constant, scale),
    }
    for name, column in RIVALS.items():
        values = rows.get(column, pd.Series(dtype="float64")).astype("float64")
        varies = values.nunique() > 1
        if varies and np.isfinite(values).all() and values.gt(0).all():
            z = stats.zscore(np.log(values.to_numpy()))
            columns = np.column_stack([constant, z])
            rivals[name] = _build_exact_model(rows, columns, scale)
    return compare(rivals, build_model_and_lab_folds(rows), seed=fit.seed)


def _build_exact_model(rows: pd.DataFrame, X: Array, scale: float) -> Gaussian:
    """A linear model of the same outcomes, with levels of labs."""
    labs = rows["heritage"].astype(str).to_numpy()
    names = np.unique(labs)
    levels = (labs[:, None] == names).astype(np.float64)
    blocks = {"lab": levels} if names.size > 1 else {}
    share = scale / 2**0.5
    sd = np.full(X.shape[1], scale)
    prior = HalfNormals((share,) * (len(blocks) + 1))
    y = rows["log10_gain"].to_numpy(dtype=np.float64)
    error = rows["log10_error"].to_numpy(dtype=np.float64)
    return Gaussian(y=y, X=X, sd=sd, blocks=blocks, prior=prior, error=error)


def _draw_figure(fit: Fit, axes: Axes) -> Axes:
    models = fit.table("models")
    middle = fit.designed(CurveDesign).middle
    depth = models["n_layers"]
    L = np.linspace(depth.min(), depth.max(), 60).astype("float64")
    values = fit.draws.few(500)
    power = (L / middle) ** -values["beta"][:, None]
    curves = 10 ** (values["m"][:, None] * power)
    lower, upper = find_equal_tailed(curves)
    label = "envelope" if fit.law.name == "envelope" else "through the middle"
    axes.plot(L, np.median(curves, axis=0), label=label)
    axes.fill_between(L, lower, upper, alpha=0.2)
    axes.plot(L, 10 ** (1 / L), linestyle="--", label="10^(1/L)")
    axes.scatter(models["n_layers"], 10 ** models["log10_gain"], s=30, zorder=3)
    axes.set_xlabel("layers, L")
    axes.set_ylabel(fit.estimand.replace("_", " "))
    axes.legend(**ABOVE)
    return axes


def _find_middle(L: Array) -> float:
    """L₀, the geometric mean."""
    return float(np.exp(np.log(L).mean()))


def _name_factor(scale: float) -> str:
    return f"log10 gains within a factor of {10**scale:.2g} either way are no surprise"


def compute_probability_above(value: Array, error: Array, bound: Array, n: Array) -> Array:
    """P(true value > bound): (true − value)/error is Student-t, n − 1 degrees of freedom, normal
    where n is not known.

    Where the error is 0 the value is exact and the probability is 0 or 1.
    """
    degrees = _count_degrees(n)
    certain = (value > bound).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = stats.t.cdf((value - bound) / error, degrees)
    return np.where(error > 0, above, certain)


def _count_degrees(n: Array) -> Array:
    """Degrees of freedom of a mean of n; as good as normal where n is not known."""
    return np.where(np.isfinite(n) & (n > 1), n - 1, 1e9)
