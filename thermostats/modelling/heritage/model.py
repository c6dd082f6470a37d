"""The heritage model as PyMC declares it, the arrays it reads, and what its draws say of the blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import null_space

from thermostats.modelling.heritage.averages import CENTRE, SPREAD
from thermostats.modelling.heritage.blocks import BLOCKS, EFFECTS, FAMILY, Design, block_sds, orders
from thermostats.modelling.heritage.laws import BY_LAB, NORMAL, SKEW, STUDENT, Law, law
from thermostats.modelling.inference.draws import Array, Draws

AUTO, SAMPLING, CLOSED = "auto", "sampling", "closed form"
TOTAL_SD = 0.5
"""Prior scale of τ: models that differ by a factor of e^0.5 = 1.6 are no surprise."""
CATEGORIES = 0.1
"""Prior scale of what categories do, and of what they do to one model."""
TAILS = 2.0, 10.0
"""Shape and scale of the gamma prior of ν."""
PRIOR_DRAWS, PRIOR_SHOWN = 20_000, 500
PRIOR_NUMBERS = 6_000_000
"""Draws times models: of very many models fewer draws."""
LAWS = {
    STUDENT: "τ√φ_model t_ν, scaled to unit variance, ν ~ Gamma(2, rate 0.1) above 2.5",
    SKEW: "τ√φ_model (δ(E − 1) + √(1 − δ²) z), E exponential, z normal, δ uniform on (−0.95, 0.95)",
    BY_LAB: "N(0, τ²φ_model λ_lab(i)), log λ normal with mean of λ 1 and SD half-normal(1)",
}
"""Laws of the residuals, in symbols."""
OF_LAB = "mean log gain of "
"""How the names of labs begin among the draws that statements may ask about."""
AVERAGES = ("average", "average_variance", "average_n", "average_model")


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
    share = pm.Dirichlet("share", np.full(len(BLOCKS) + (data["rank_family"] > 0), data["concentration"]))
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
    if data["rank_family"]:
        v = pm.Normal("v", 0.0, 1.0, shape=data["rank_family"])
        predicted = predicted + tau * pm.math.sqrt(share[3]) * (data["family"] * v).sum(axis=1)
    own, seen, unseen = tau * pm.math.sqrt(share[-1]), data["seen"], 1 - data["seen"]
    raw = pm.Normal("m_raw", seen * predicted, seen * own + unseen, shape=data["n_models"])
    m = pm.Deterministic("m", seen * raw + unseen * (predicted + own * raw))
    spread, middle = pm.LogNormal("sigma_spread", *SPREAD), pm.Normal("sigma_centre", *CENTRE)
    log_sigma = pm.Normal("log_sigma", seen * middle, seen * spread + unseen, shape=data["n_models"])
    sigma = pm.math.exp(log_sigma)
    if data["averaged"]:
        own, n = sigma[data["average_model"]], data["average_n"]
        pm.Normal("average_gain", m[data["average_model"]], own / n**0.5, observed=data["average"])
        half = (n - 1) / 2
        pm.Gamma("average_spread", alpha=half, beta=half / own**2, observed=data["average_variance"])
    if data["n_prompted"]:
        if data["crossed"]:
            size = data["n_categories"] - 1
            category = pm.HalfNormal("category_sd", CATEGORIES) * pm.Normal("category", 0.0, 1.0, shape=size)
            crossed = pm.Normal("crossed", 0.0, 1.0, shape=(data["n_prompted"], size))
            effects = pm.math.dot(category + pm.HalfNormal("crossed_sd", CATEGORIES) * crossed, data["contrasts"].T)
            cells = m[data["prompted"]][:, None] + effects
            centre = cells[data["y_prompted"], data["y_category"]]
        else:
            centre = m[data["y_model"]]
        nu = pm.Gamma("nu", TAILS[0], 1 / TAILS[1])
        pm.StudentT("log_gain", nu=nu, mu=centre, sigma=sigma[data["y_model"]], observed=data["y"])


def priors(
    total_sd: float, concentration: float, lab_df: float, *, families: bool = False
) -> tuple[tuple[str, str, str], ...]:
    """Every prior of the model with its reason."""
    shares = ", ".join([f"{concentration:g}"] * (len(BLOCKS) + families))
    effect = f"t_{lab_df:g}, scaled to unit variance" if lab_df else "N(0, 1)"
    return (
        ("α", f"N(0, {2 * total_sd:g})", "gains between a seventh and seven times are no surprise"),
        ("τ", f"half-normal({total_sd:g})", "models that differ by that many e-folds are no surprise"),
        ("φ", f"Dirichlet({shares})", "no block has a head start"),
        ("u_lab", effect, "labs are exchangeable; their scale is τ√φ"),
        *((("u_family", "N(0, 1)", "families are exchangeable within and across labs"),) if families else ()),
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


def equations(columns: Mapping[str, Sequence[str]], laid_out: Design, residuals: str) -> tuple[str, ...]:
    """The model in lines; `columns` of the blocks, none for those of labs, shape and size."""
    families, interaction = laid_out.families, laid_out.interaction
    further = ("f_i,family + " if families else "") + ("f_i,lab × geometry + " if interaction else "")
    heritage, geometry, scale = (", ".join(columns.get(name, ())) for name in BLOCKS[:-1])
    shape = f"geometry: {geometry}; scale: {scale}"
    if not columns:
        heritage, shape = "lab", "geometry: log L, log H, log d_h; scale: log of all weights"
    of_families = "family: X u = c·(u_family(i) − mean over models); lineage: f_heritage + f_family"
    return (
        "log G_ip = m_i + c_k(p) + d_i,k(p) + e_ip,   e_ip ~ t_ν(0, σ_i)   (model i, prompt p, category k)",
        "mean and spread over prompts alone known: ȳ_i ~ N(m_i, σ_i/√n_i), (n_i − 1)s_i²/σ_i² ~ χ²(n_i − 1)",
        f"m_i = α + f_i,heritage + f_i,geometry + f_i,scale + {further}f_i,model",
        "f_b = τ √φ_b X_b u_b,   X_b scaled so that E Σ_i f_b,i²/M = τ² φ_b",
        f"heritage: X u = c·(u_{heritage}(i) − mean over models); {shape}",
        "estimands: S_b = SD over the M models of f_b (finite population); order: S_heritage > S_geometry > S_scale",
        *((of_families,) if families else ()),
        *(("lab × geometry: geometry's slopes differ between labs, X their products",) if interaction else ()),
        *((f"f_i,model: {LAWS[residuals]}",) if residuals != NORMAL else ()),
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
    residuals: str = NORMAL
    """Law of what is left between models, a name of `laws`."""
    leave_out: tuple[str, ...] = ("heritage", "model")
    """What the check of influence leaves out."""
    seed: int

    @cached_property
    def contributions(self) -> dict[str, Array]:
        """Contribution of every block to every model's log gain, chain × draw × model."""
        return block_contributions(self.design, self.draws)

    @property
    def priors_given(self) -> dict[str, float]:
        """The numbers that the priors are made of."""
        return {"total_sd": self.total_sd, "concentration": self.concentration, "lab_df": self.lab_df}

    def data(self) -> dict[str, Any]:
        """What `heritage_model` reads."""
        return arrays(self.design, **self.priors_given)

    @property
    def reported(self) -> dict[str, Array]:
        """Finite-population standard deviations, shares and τ, each chain × draw."""
        design, draws, parts = self.design, self.draws, self.contributions
        lineage = {}
        if design.families:
            both = {"lineage": parts["heritage"] + parts[FAMILY]}
            shares = draws["share"][..., [0, design.blocks.index(FAMILY)]]
            lineage = block_sds(both) | {"lineage_share": shares.sum(axis=-1)}
        return {
            **block_sds(parts),
            **{f"share_{name}": draws["share"][..., b] for b, name in enumerate(design.blocks)},
            **lineage,
            "total_sd": draws["tau"],
            "mean_log_gain": draws["m"].mean(axis=-1),
            **geometry_and_scale(design, parts),
        }

    @property
    def lab_means(self) -> dict[str, Array]:
        """Mean log gain over the models of every lab, chain × draw, as statements may ask about it."""
        means = self.draws["m"] @ self.design.lab_means()
        return {f"{OF_LAB}{lab}": means[..., j] for j, lab in enumerate(self.design.labs)}


def arrays(
    laid_out: Design, *, total_sd: float = TOTAL_SD, concentration: float = 1.0, lab_df: float = 0.0
) -> dict[str, Any]:
    """The record that `heritage_model` reads: arrays that a refit may change, numbers that it may not."""
    bases = laid_out.bases()
    record: dict[str, Any] = {
        "n_models": laid_out.n_models,
        "rank_family": 0,
        **{f"rank_{name}": basis.shape[1] for name, basis in bases.items()},
        **bases,
        "n_categories": len(laid_out.categories),
        "n_prompted": laid_out.prompted.size,
        "averaged": laid_out.prompted.size < laid_out.n_models,
        "crossed": len(laid_out.categories) > 1,
        "total_sd": total_sd,
        "concentration": concentration,
        "lab_df": lab_df,
        "seen": np.isin(np.arange(laid_out.n_models), [*laid_out.y_model, *laid_out.average_model]).astype(np.float64),
    }
    if record["n_prompted"]:
        record |= {"y": laid_out.y, "y_model": laid_out.y_model}
        if record["crossed"]:
            record |= {"prompted": laid_out.prompted, "y_category": laid_out.y_category}
            record["y_prompted"] = np.searchsorted(laid_out.prompted, laid_out.y_model)
            record["contrasts"] = null_space(np.ones((1, len(laid_out.categories))))
    if record["averaged"]:
        record |= {name: getattr(laid_out, name) for name in AVERAGES}
    return record


def block_contributions(laid_out: Design, draws: Draws | Mapping[str, Array]) -> dict[str, Array]:
    """Contribution of every block to every model's log gain, chain × draw × model."""
    scale = draws["tau"][..., None] * np.sqrt(draws["share"])
    parts = {
        name: scale[..., [b]] * (draws[EFFECTS[name]] @ basis.T)
        for b, (name, basis) in enumerate(laid_out.bases().items())
    }
    return {**parts, "model": draws["m"] - draws["alpha"][..., None] - sum(parts.values())}


def explained(laid_out: Design, draws: Draws) -> tuple[Array, Array]:
    """What the blocks say of every model's mean, draws × M, and the SD of what is left to it, draws × 1."""
    parts = block_contributions(laid_out, draws)
    mean = np.asarray(draws["m"] - parts["model"])
    own = (draws["tau"] * np.sqrt(draws["share"][..., -1])).reshape(-1, 1)
    return mean.reshape(own.size, -1), own


def prior_blocks(
    laid_out: Design, *, total_sd: float, concentration: float, lab_df: float, seed: int, residuals: str = NORMAL
) -> dict[str, Array]:
    """Draws from the prior: `total_sd`, `sd_` and `share_` of every block, SD of the `lineage`, `m` (500 draws × M)."""
    rng = np.random.default_rng(seed)
    M = laid_out.n_models
    draws = min(PRIOR_DRAWS, PRIOR_NUMBERS // M)
    share = rng.dirichlet(np.full(len(laid_out.blocks), concentration), size=draws)
    total = np.abs(rng.normal(scale=total_sd, size=draws))
    found, lineage = {"total_sd": total}, np.zeros((draws, M))
    shown = rng.normal(0, 2 * total_sd, (PRIOR_SHOWN, 1)) + np.zeros(M)
    for b, (name, basis) in enumerate([*laid_out.bases().items(), (BLOCKS[-1], None)]):
        size = (draws, M if basis is None else basis.shape[1])
        heavy = lab_df and b == 0
        u = rng.standard_t(lab_df, size) * ((lab_df - 2) / lab_df) ** 0.5 if heavy else rng.normal(size=size)
        if basis is None and residuals != NORMAL:
            u = standard_residuals(law(residuals), laid_out, rng, draws)
        part = u if basis is None else u @ basis.T
        scale = total * np.sqrt(share[:, b])
        found |= {f"sd_{name}": scale * part.std(axis=-1), f"share_{name}": share[:, b]}
        if name in ("heritage", FAMILY):
            lineage += scale[:, None] * part
        shown += scale[:PRIOR_SHOWN, None] * part[:PRIOR_SHOWN]
    return found | {"m": shown, "lineage": lineage.std(axis=-1)}


def standard_residuals(own: Law, laid_out: Design, rng: np.random.Generator, draws: int) -> Array:
    """Residuals between models in units of their standard deviation under the prior, draws × M."""
    shape = rng.choice(own.shape.size, draws, p=np.exp(own.log_prior))
    factor, shift = own.draws(shape, len(laid_out.labs) if own.of_labs else laid_out.n_models, rng)
    if own.of_labs:
        factor, shift = factor[:, laid_out.lab], shift[:, laid_out.lab]
    return np.asarray(shift + np.sqrt(factor) * rng.normal(size=factor.shape))


def prior_orders(laid_out: Design, *, concentration: float, lab_df: float = 0.0, seed: int) -> dict[str, float]:
    """Prior probabilities of the orders on this design, by simulation; τ, which multiplies all blocks, is left out."""
    before = prior_blocks(laid_out, total_sd=1.0, concentration=concentration, lab_df=lab_df, seed=seed)
    return orders(before | {"sd_lineage": before["lineage"]}, laid_out.orders)


def geometry_and_scale(laid_out: Design, parts: Mapping[str, Array]) -> dict[str, Array]:
    """Draws of the SD of geometry and scale together, and of what each has beyond the other's columns.

    Of the joint contribution f_g + f_s: what regression on scale leaves is geometry's alone, and the reverse.
    """
    together = parts["geometry"] + parts["scale"]
    centred = together - together.mean(axis=-1, keepdims=True)

    def beyond(basis: Array) -> Array:
        q, _ = np.linalg.qr(basis)
        return np.asarray((centred - (centred @ q) @ q.T).std(axis=-1))

    return {
        "sd_geometry_and_scale": centred.std(axis=-1),
        "sd_geometry_alone": beyond(laid_out.scale),
        "sd_scale_alone": beyond(laid_out.geometry),
    }
