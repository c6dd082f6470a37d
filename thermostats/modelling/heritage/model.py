"""The heritage model as PyMC declares it, the arrays it reads, and what its draws say of the blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from thermostats.modelling.heritage.blocks import BLOCKS, Design, block_sds, in_order, orders, stacked_sds
from thermostats.modelling.inference.draws import Array, Draws

AUTO, SAMPLING, CLOSED = "auto", "sampling", "closed form"
TOTAL_SD = 0.5
"""Prior scale of τ: models that differ by a factor of e^0.5 = 1.6 are no surprise."""
PRIOR_DRAWS, PRIOR_SHOWN = 20_000, 500
PRIOR_NUMBERS = 6_000_000
"""Draws times models: of very many models fewer draws."""
AVERAGES = ("average", "average_error", "average_df", "average_model")


def heritage_model(pm: Any, data: Mapping[str, Any]) -> None:
    """The model as PyMC declares it; `data` as `arrays` gives it.

    Means and log scales of models that were seen are centred on their distributions, since each rests on its own
    prompts; everything else is not: labs, categories, and models that a refit leaves out. Scales differ by a factor of
    e^0.5 or so between models, and not by nothing: a prior that allows equal scales makes a funnel.
    Effects of categories, and of categories within a model, sum to zero: coefficients of orthonormal contrasts. Means
    are formed once for every cell of model and category, a third quicker than for every prompt.
    """
    alpha = pm.Normal("alpha", 0.0, 2 * data["total_sd"])
    tau = pm.HalfNormal("tau", data["total_sd"])
    share = pm.Dirichlet("share", np.full(len(BLOCKS), data["concentration"]))
    df = data["lab_df"]
    u = (
        pm.StudentT("u", nu=df, mu=0.0, sigma=((df - 2) / df) ** 0.5, shape=data["rank_heritage"])
        if df
        else pm.Normal("u", 0.0, 1.0, shape=data["rank_heritage"])
    )
    b_geometry = pm.Normal("b_geometry", 0.0, 1.0, shape=data["rank_geometry"])
    b_scale = pm.Normal("b_scale", 0.0, 1.0, shape=data["rank_scale"])
    predicted = alpha + tau * (
        pm.math.sqrt(share[0]) * (data["heritage"] * u).sum(axis=1)
        + pm.math.sqrt(share[1]) * (data["geometry"] * b_geometry).sum(axis=1)
        + pm.math.sqrt(share[2]) * (data["scale"] * b_scale).sum(axis=1)
    )
    own, seen, unseen = tau * pm.math.sqrt(share[3]), data["seen"], 1 - data["seen"]
    raw = pm.Normal("m_raw", seen * predicted, seen * own + unseen, shape=data["n_models"])
    m = pm.Deterministic("m", seen * raw + unseen * (predicted + own * raw))
    if data["averaged"]:
        pm.StudentT(
            "average_gain",
            nu=data["average_df"],
            mu=m[data["average_model"]],
            sigma=data["average_error"],
            observed=data["average"],
        )
    if data["n_prompted"]:
        spread, middle = pm.LogNormal("sigma_spread", np.log(0.5), 0.5), pm.Normal("sigma_centre", -3.0, 1.5)
        seen = data["seen_prompts"]
        log_sigma = pm.Normal("log_sigma", seen * middle, seen * spread + 1 - seen, shape=data["n_prompted"])
        if data["crossed"]:
            size = data["n_categories"] - 1
            category = pm.HalfNormal("category_sd", 0.1) * pm.Normal("category", 0.0, 1.0, shape=size)
            crossed = pm.Normal("crossed", 0.0, 1.0, shape=(data["n_prompted"], size))
            effects = pm.math.dot(category + pm.HalfNormal("crossed_sd", 0.1) * crossed, data["contrasts"].T)
            cells = m[data["prompted"]][:, None] + effects
            centre = cells[data["y_prompted"], data["y_category"]]
        else:
            centre = m[data["y_model"]]
        pm.StudentT(
            "log_gain",
            nu=pm.Gamma("nu", 2.0, 0.1),
            mu=centre,
            sigma=pm.math.exp(log_sigma)[data["y_prompted"]],
            observed=data["y"],
        )


def priors(total_sd: float, concentration: float, lab_df: float) -> tuple[tuple[str, str, str], ...]:
    """Every prior of the model with its reason."""
    effect = f"t_{lab_df:g}, scaled to unit variance" if lab_df else "N(0, 1)"
    return (
        ("α", f"N(0, {2 * total_sd:g})", "gains between a seventh and seven times are no surprise"),
        ("τ", f"half-normal({total_sd:g})", "models that differ by that many e-folds are no surprise"),
        ("φ", f"Dirichlet({', '.join([f'{concentration:g}'] * len(BLOCKS))})", "no block has a head start"),
        ("u_lab, u_family", effect, "labs are exchangeable; their scale is τ√φ"),
        ("u_geometry, u_scale", "N(0, 1)", "orthonormal columns of equal expected weight"),
        ("f_model", "N(0, τ√φ_model)", "what no block explains"),
        (
            "log σ_i",
            "N(μ_σ, ω), μ_σ ~ N(−3, 1.5), ω ~ log-normal(log 0.5, 0.5)",
            "models differ in their spread, by a factor of about 1.6",
        ),
        ("ν", "Gamma(2, rate 0.1)", "tails between Cauchy-like and normal, Juárez and Steel 2010"),
        ("c_k, d_ik", "normal, SDs half-normal(0.1)", "categories shift a gain by a tenth or so; both sum to zero"),
    )


def equations(columns: Mapping[str, Sequence[str]], families: bool) -> tuple[str, ...]:
    """The model in lines; `columns` of the blocks, none for those of labs, shape and size."""
    heritage, geometry, scale = (", ".join(columns.get(name, ())) for name in BLOCKS[:-1])
    shape = f"geometry: {geometry}; scale: {scale}"
    if not columns:
        heritage, shape = "lab", "geometry: log L, log H, log d_h; scale: log of all weights"
    of_families = "heritage with families: X u = (lab part + family part)/√2, each of unit expected variance"
    return (
        "log G_ip = m_i + c_k(p) + d_i,k(p) + e_ip,   e_ip ~ t_ν(0, σ_i)   (model i, prompt p, category k)",
        "mean over prompts alone known: ȳ_i ~ t_(n_i − 1)(m_i, s_i/√n_i)",
        "m_i = α + f_i,heritage + f_i,geometry + f_i,scale + f_i,model",
        "f_b = τ √φ_b X_b u_b,   X_b scaled so that E Σ_i f_b,i²/M = τ² φ_b",
        f"heritage: X u = c·(u_{heritage}(i) − mean over models); {shape}",
        "estimands: S_b = SD over the M models of f_b (finite population); order: S_heritage > S_geometry > S_scale",
        *((of_families,) if families else ()),
    )


@dataclass(frozen=True, kw_only=True)
class HeritagePosterior:
    """Draws of the heritage model of a design, with its priors."""

    design: Design
    draws: Draws
    method: str
    """`sampling`, or `closed form`: Gaussian means of the models, prompts summed up beforehand."""
    total_sd: float
    concentration: float
    lab_df: float
    """Degrees of freedom of the lab effects; 0: normal."""
    leave_out: tuple[str, ...] = ("heritage", "model")
    """What the check of influence leaves out."""
    seed: int
    contributions: Mapping[str, Array]
    """Contribution of every block to every model's log gain, chain × draw × model."""

    @property
    def priors_given(self) -> dict[str, float]:
        """The numbers that the priors are made of."""
        return {"total_sd": self.total_sd, "concentration": self.concentration, "lab_df": self.lab_df}

    def data(self) -> dict[str, Any]:
        """What `heritage_model` reads."""
        return arrays(self.design, **self.priors_given)

    def holds(self, order: str) -> NDArray[np.bool_]:
        """Draws in which the blocks' standard deviations come in this order, chain × draw."""
        return in_order(order, stacked_sds(self.contributions))


def arrays(
    laid_out: Design, *, total_sd: float = TOTAL_SD, concentration: float = 1.0, lab_df: float = 0.0
) -> dict[str, Any]:
    """The record that `heritage_model` reads: arrays that a refit may change, numbers that it may not."""
    basis = laid_out.heritage()
    record: dict[str, Any] = {
        "n_models": laid_out.n_models,
        "rank_heritage": basis.shape[1],
        "rank_geometry": laid_out.geometry.shape[1],
        "rank_scale": laid_out.scale.shape[1],
        "n_categories": len(laid_out.categories),
        "n_prompted": laid_out.prompted.size,
        "averaged": laid_out.prompted.size < laid_out.n_models,
        "crossed": len(laid_out.categories) > 1,
        "total_sd": total_sd,
        "concentration": concentration,
        "lab_df": lab_df,
        "seen": np.isin(np.arange(laid_out.n_models), [*laid_out.y_model, *laid_out.average_model]).astype(np.float64),
        "heritage": basis,
        "geometry": laid_out.geometry,
        "scale": laid_out.scale,
    }
    if record["n_prompted"]:
        record |= {"y": laid_out.y, "y_model": laid_out.y_model}
        record["seen_prompts"] = np.isin(laid_out.prompted, laid_out.y_model).astype(np.float64)
        record["y_prompted"] = np.searchsorted(laid_out.prompted, laid_out.y_model)
        if record["crossed"]:
            record |= {"prompted": laid_out.prompted, "y_category": laid_out.y_category}
            record["contrasts"] = null_space(np.ones((1, len(laid_out.categories))))
    if record["averaged"]:
        record |= {name: getattr(laid_out, name) for name in AVERAGES}
    return record


def without(laid_out: Design, models: Array) -> Design:
    """The same design with the observations of some models (their numbers) left out."""
    y, average = ~np.isin(laid_out.y_model, models), ~np.isin(laid_out.average_model, models)
    kept = {name: getattr(laid_out, name)[y] for name in ("y", "y_model", "y_category")}
    return replace(laid_out, **kept, **{name: getattr(laid_out, name)[average] for name in AVERAGES})


def block_contributions(laid_out: Design, draws: Draws) -> dict[str, Array]:
    """Contribution of every block to every model's log gain, chain × draw × model."""
    scale = draws["tau"][..., None] * np.sqrt(draws["share"])
    parts = {
        "heritage": scale[..., [0]] * (draws["u"] @ laid_out.heritage().T),
        "geometry": scale[..., [1]] * (draws["b_geometry"] @ laid_out.geometry.T),
        "scale": scale[..., [2]] * (draws["b_scale"] @ laid_out.scale.T),
    }
    return {**parts, "model": draws["m"] - draws["alpha"][..., None] - sum(parts.values())}


def explained(laid_out: Design, draws: Draws) -> tuple[Array, Array]:
    """What labs, geometry and scale say of every model's mean, draws × M, and the SD of what is left, draws × 1."""
    parts = block_contributions(laid_out, draws)
    mean = np.asarray(draws["alpha"][..., None] + sum(parts[name] for name in BLOCKS[:-1]))
    own = (draws["tau"] * np.sqrt(draws["share"][..., -1])).reshape(-1, 1)
    return mean.reshape(own.size, -1), own


def heritage_levels(laid_out: Design, draws: Draws) -> dict[str, Array]:
    """Parts of the heritage contribution, chain × draw × model: `lab`, and `family` where families are told apart."""
    scale = (draws["tau"] * np.sqrt(draws["share"][..., 0]))[..., None]
    found, start = {}, 0
    for name, basis in laid_out.heritage_levels().items():
        u = draws["u"][..., start : start + basis.shape[1]]
        found[name], start = scale * (u @ basis.T), start + basis.shape[1]
    return found


def prior_blocks(
    laid_out: Design, *, total_sd: float, concentration: float, lab_df: float, seed: int
) -> dict[str, Array]:
    """Draws from the prior: `sd` and `share` (draws × blocks), `total`, `m` (500 draws × M)."""
    rng = np.random.default_rng(seed)
    M = laid_out.n_models
    draws = min(PRIOR_DRAWS, PRIOR_NUMBERS // M)
    share = rng.dirichlet(np.full(len(BLOCKS), concentration), size=draws)
    total = np.abs(rng.normal(scale=total_sd, size=draws))
    sd, shown = np.empty_like(share), rng.normal(0, 2 * total_sd, (PRIOR_SHOWN, 1)) + np.zeros(M)
    for b, basis in enumerate((laid_out.heritage(), laid_out.geometry, laid_out.scale, None)):
        size = (draws, M if basis is None else basis.shape[1])
        heavy = lab_df and b == 0
        u = rng.standard_t(lab_df, size) * ((lab_df - 2) / lab_df) ** 0.5 if heavy else rng.normal(size=size)
        part = u if basis is None else u @ basis.T
        scale = total * np.sqrt(share[:, b])
        sd[:, b] = scale * block_sds(part)
        shown += scale[:PRIOR_SHOWN, None] * part[:PRIOR_SHOWN]
    return {"sd": sd, "share": share, "total": total, "m": shown}


def prior_orders(laid_out: Design, *, concentration: float, lab_df: float = 0.0, seed: int) -> dict[str, float]:
    """Prior probabilities of the orders on this design, by simulation; τ, which multiplies all blocks, is left out."""
    return orders(prior_blocks(laid_out, total_sd=1.0, concentration=concentration, lab_df=lab_df, seed=seed)["sd"])
