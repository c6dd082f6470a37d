"""Is log gain decided by heritage, geometry or scale? Models in labs, with a prior that favours no block.

log G_ip = m_i + c_k + d_ik + e_ip, e_ip ~ t_ν(0, σ_i);
m_i = α + f_i,heritage + f_i,geometry + f_i,scale + f_i,model.

Every block's contribution f_b is scaled to unit expected variance and multiplied by τ√φ_b, τ half-normal and shares
φ ~ Dirichlet(a, a, a, a), so that blocks of many columns have no head start (cf. Zhang et al. 2022, R2D2M2, and the
joint variance priors of Fuglstad et al. 2020, doi:10.1214/19-BA1185). The estimands are finite-population standard
deviations of the contributions over the models at hand (Gelman 2005, doi:10.1214/009053604000001048).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import null_space

from thermostats.errors import UsageError
from thermostats.modelling import heritage_gaussian as gaussian
from thermostats.modelling import sampling
from thermostats.modelling.draws import Array, Draws, Settings
from thermostats.modelling.heritage_design import BLOCKS, Design, design, lab_basis
from thermostats.reporting.verdicts import AGAINST, OPEN, SUPPORTED

ORDER = "heritage > geometry > scale"
SUPPORTED_ABOVE, AGAINST_BELOW = 0.95, 0.05
CAREFUL = Settings(target_accept=0.98)
"""Shares near 0 and averages with heavy tails need smaller steps."""
TOTAL_SD = 0.5
"""Prior scale of τ: models that differ by a factor of e^0.5 = 1.6 are no surprise."""
SUMMED = ("total_amplification", "total_amplification_from_input")
SUMMED_TOTAL_SD = 2.0
"""For gains that multiply over all layers."""


@dataclass(frozen=True, kw_only=True)
class HeritageFit:
    """Posterior of the heritage model; nothing may be concluded where `status` is not `passed`."""

    design: Design
    draws: Draws
    total_sd: float
    concentration: float
    lab_df: float
    """Degrees of freedom of the lab effects; 0: normal."""
    prior: Mapping[str, float]
    """Prior probabilities of the orders, by simulation on this design."""

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler`."""
        return self.draws.status

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was left out or cannot be told apart, in words."""
        return self.design.warnings

    def contributions(self) -> dict[str, Array]:
        """Contribution of every block to every model's log gain, chain × draw × model."""
        return block_contributions(self.design, self.draws)

    def quantities(self) -> dict[str, Array]:
        """Finite-population standard deviations, shares and τ, each chain × draw."""
        sds = {f"sd_{name}": gaussian.block_sds(part) for name, part in self.contributions().items()}
        shares = {f"share_{name}": self.draws["share"][..., b] for b, name in enumerate(BLOCKS)}
        return {**sds, **shares, "total_sd": self.draws["tau"], "mean_log_gain": self.draws["m"].mean(axis=-1)}

    @property
    def sampled(self) -> dict[str, Draws]:
        """The draws of its one part."""
        return {"heritage": self.draws}

    def summary(self) -> pd.DataFrame:
        """One row per quantity: mean, sd, median, lower, upper, kind, level, rhat, ess_bulk, ess_tail."""
        return sampling.summary(self.quantities())

    def probabilities(self) -> pd.DataFrame:
        """Per order of blocks: posterior and prior probability, and the Bayes factor of the order restriction."""
        sd = np.stack([gaussian.block_sds(part).ravel() for part in self.contributions().values()], axis=1)
        rows = [
            {
                "statement": statement,
                "probability": probability,
                "prior": self.prior[statement],
                "bayes_factor": gaussian.bayes_factor(probability, self.prior[statement]),
            }
            for statement, probability in gaussian.orders(sd).items()
        ]
        return pd.DataFrame(rows)

    def labs(self) -> pd.DataFrame:
        """Per lab: partially pooled effect on log gain, and P(the mean log gain of its models is below 0)."""
        effect = _per_lab(self.contributions()["heritage"], self.design)
        mean = _per_lab(self.draws["m"], self.design)
        table = sampling.summary({"effect": effect}).drop(columns="quantity")
        table.insert(0, "heritage", list(self.design.labs))
        table.insert(1, "n_models", self.design.lab_sizes())
        return table.assign(mean_log_gain=mean.mean(axis=(0, 1)), probability_dampens=(mean < 0).mean(axis=(0, 1)))

    def models(self) -> pd.DataFrame:
        """Per model: log gain over prompts of all categories alike, and P(model dampens) = P(log gain < 0)."""
        m = self.draws["m"]
        table = sampling.summary({"m": m}).drop(columns="quantity")
        table.insert(0, "model_id", list(self.design.models))
        table.insert(1, "heritage", [self.design.labs[j] for j in self.design.lab])
        return table.assign(probability_dampens=(m < 0).mean(axis=(0, 1)))

    def verdict(self) -> str:
        """Supported where P(order) ≥ 0.95, not supported where ≤ 0.05, else inconclusive; the gate comes first."""
        if self.draws.diagnostics.failures():
            return self.status
        probability = float(self.probabilities().set_index("statement")["probability"][ORDER])
        return verdict(probability)

    def check(self, *, seed: int) -> Any:
        """All checks of this fit, as `heritage_checks.check` makes them."""
        from thermostats.modelling.heritage_checks import check  # noqa: PLC0415 (it imports this module)

        return check(self, seed=seed)

    def plot(self, axes: Any) -> Any:
        """Finite-population standard deviations of the blocks with their intervals."""
        from thermostats.reporting.plots import forest  # noqa: PLC0415 (matplotlib is loaded when a figure is drawn)

        rows = self.summary().set_index("quantity").loc[[f"sd_{name}" for name in BLOCKS]].reset_index()
        rows["quantity"] = [name if name != "model" else "single model" for name in BLOCKS]
        axes = forest(rows, axes, label="quantity", estimate="median", null=0.0)
        axes.set_xlabel(f"standard deviation over models, log {self.design.estimand.replace('_', ' ')}")
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as numbers and words."""
        diagnostics = self.draws.diagnostics
        return {
            "estimand": self.design.estimand,
            "n_models": self.design.n_models,
            "n_heritages": len(self.design.labs),
            "status": self.status,
            "verdict": self.verdict(),
            "warnings": list(self.warnings),
            "priors": {"total_sd": self.total_sd, "concentration": self.concentration, "lab_df": self.lab_df},
            "rhat_max": diagnostics.rhat_max,
            "ess_min": min(diagnostics.ess_bulk_min, diagnostics.ess_tail_min),
            "divergences": diagnostics.divergences,
            "summary": self.summary().to_dict("records"),
            "probabilities": self.probabilities().to_dict("records"),
            "labs": self.labs().to_dict("records"),
            "models": self.models().to_dict("records"),
        }


def fit_heritage(
    table: pd.DataFrame,
    *,
    estimand: str,
    seed: int,
    concentration: float = 1.0,
    lab_df: float = 0.0,
    residualise: str = "",
    settings: Settings = CAREFUL,
    cache: bool = True,
    progress: bool | None = None,
) -> HeritageFit:
    """Fit the heritage model to a table of gains.

    `table`: as `heritage_rows.gain_rows(estimand)` gives it: model_id, heritage, n_layers, n_heads, d_head, n_params
    and `gain`, one row per prompt (`prompt_id`, `category`) or one row with `gain_sd` and `n_prompts`. `estimand` names
    the gain and sets the prior scale of τ. `lab_df` above 2: Student-t lab effects; `residualise`: see `design`.

    Raises UsageError as `design` does.
    """
    if concentration <= 0 or (lab_df and lab_df <= 2):
        raise UsageError(
            "priors out of range", got=f"concentration {concentration}, lab_df {lab_df}",
            allowed="concentration above 0; lab_df 0 or above 2",
        )  # fmt: skip
    laid_out = design(table, estimand, residualise=residualise)
    total_sd = SUMMED_TOTAL_SD if estimand in SUMMED else TOTAL_SD
    data = arrays(laid_out, total_sd=total_sd, concentration=concentration, lab_df=lab_df)
    draws = sampling.fit(
        heritage_model, data, seed=seed, settings=settings, cache=cache, progress=progress,
    )  # fmt: skip
    return HeritageFit(
        design=laid_out,
        draws=draws,
        total_sd=total_sd,
        concentration=concentration,
        lab_df=lab_df,
        prior=prior_orders(laid_out, concentration=concentration, seed=seed),
    )


def verdict(probability: float) -> str:
    """The decision rule for an order of blocks."""
    return SUPPORTED if probability >= SUPPORTED_ABOVE else AGAINST if probability <= AGAINST_BELOW else OPEN


def heritage_model(pm: Any, data: Mapping[str, Any]) -> None:
    """The model as PyMC declares it; `data` as `arrays` gives it.

    Means and log scales of models that were seen are centred on their distributions, since each rests on its own
    prompts; everything else is not: labs, categories, and models that a refit leaves out. Scales differ by a factor of
    e^0.5 or so between models, and not by nothing: a prior that allows equal scales makes a funnel.
    Effects of categories, and of categories within a model, sum to zero: coefficients of orthonormal contrasts.
    """
    alpha = pm.Normal("alpha", 0.0, 2 * data["total_sd"])
    tau = pm.HalfNormal("tau", data["total_sd"])
    share = pm.Dirichlet("share", np.full(len(BLOCKS), data["concentration"]))
    df = data["lab_df"]
    u = (
        pm.StudentT("u", nu=df, mu=0.0, sigma=((df - 2) / df) ** 0.5, shape=data["n_labs"])
        if df
        else pm.Normal("u", 0.0, 1.0, shape=data["n_labs"])
    )
    b_geometry = pm.Normal("b_geometry", 0.0, 1.0, shape=data["rank_geometry"])
    b_scale = pm.Normal("b_scale", 0.0, 1.0, shape=data["rank_scale"])
    lab = data["lab_scale"] * (u[data["lab"]] - (u * data["lab_share"]).sum())
    predicted = alpha + tau * (
        pm.math.sqrt(share[0]) * lab
        + pm.math.sqrt(share[1]) * (data["geometry"] * b_geometry).sum(axis=1)
        + pm.math.sqrt(share[2]) * (data["scale"] * b_scale).sum(axis=1)
    )
    own, seen, unseen = tau * pm.math.sqrt(share[3]), data["seen"], 1 - data["seen"]
    raw = pm.Normal("m_raw", seen * predicted, seen * own + unseen, shape=data["n_models"])
    m = pm.Deterministic("m", seen * raw + unseen * (predicted + own * raw))
    if data["averaged"]:
        pm.StudentT(
            "average_gain", nu=data["average_df"], mu=m[data["average_model"]], sigma=data["average_error"],
            observed=data["average"],
        )  # fmt: skip
    if data["n_prompted"]:
        spread, middle = pm.LogNormal("sigma_spread", np.log(0.5), 0.5), pm.Normal("sigma_centre", -3.0, 1.5)
        seen = data["seen_prompts"]
        log_sigma = pm.Normal("log_sigma", seen * middle, seen * spread + 1 - seen, shape=data["n_prompted"])
        centre = m[data["y_model"]]
        if data["crossed"]:
            size = data["n_categories"] - 1
            category = pm.HalfNormal("category_sd", 0.1) * pm.Normal("category", 0.0, 1.0, shape=size)
            crossed = pm.Normal("crossed", 0.0, 1.0, shape=(data["n_prompted"], size))
            effects = category + pm.HalfNormal("crossed_sd", 0.1) * crossed
            centre = centre + (effects[data["y_prompted"]] * data["y_contrast"]).sum(axis=1)
        pm.StudentT(
            "log_gain", nu=pm.Gamma("nu", 2.0, 0.1), mu=centre, sigma=pm.math.exp(log_sigma[data["y_prompted"]]),
            observed=data["y"],
        )  # fmt: skip


def arrays(
    laid_out: Design, *, total_sd: float = TOTAL_SD, concentration: float = 1.0, lab_df: float = 0.0
) -> dict[str, Any]:
    """The record that `heritage_model` reads: arrays that a refit may change, numbers that it may not."""
    sizes = laid_out.lab_sizes() / laid_out.n_models
    record: dict[str, Any] = {
        "n_models": laid_out.n_models,
        "n_labs": len(laid_out.labs),
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
        "lab": laid_out.lab,
        "lab_share": sizes,
        "lab_scale": np.array(1 / np.sqrt(1 - np.square(sizes).sum())),
        "geometry": laid_out.geometry,
        "scale": laid_out.scale,
    }
    if record["n_prompted"]:
        record |= {"y": laid_out.y, "y_model": laid_out.y_model}
        record["seen_prompts"] = np.isin(laid_out.prompted, laid_out.y_model).astype(np.float64)
        record["y_prompted"] = np.searchsorted(laid_out.prompted, laid_out.y_model)
        if record["crossed"]:
            record["y_contrast"] = null_space(np.ones((1, len(laid_out.categories))))[laid_out.y_category]
    if record["averaged"]:
        names = ("average", "average_error", "average_df", "average_model")
        record |= {name: getattr(laid_out, name) for name in names}
    return record


def without(laid_out: Design, models: Array) -> Design:
    """The same design with the observations of some models (their numbers) left out."""
    y, average = ~np.isin(laid_out.y_model, models), ~np.isin(laid_out.average_model, models)
    return replace(
        laid_out,
        y=laid_out.y[y],
        y_model=laid_out.y_model[y],
        y_category=laid_out.y_category[y],
        average=laid_out.average[average],
        average_error=laid_out.average_error[average],
        average_df=laid_out.average_df[average],
        average_model=laid_out.average_model[average],
    )


def block_contributions(laid_out: Design, draws: Draws) -> dict[str, Array]:
    """Contribution of every block to every model's log gain, chain × draw × model."""
    scale = draws["tau"][..., None] * np.sqrt(draws["share"])
    parts = {
        "heritage": scale[..., [0]] * (draws["u"] @ lab_basis(laid_out.lab).T),
        "geometry": scale[..., [1]] * (draws["b_geometry"] @ laid_out.geometry.T),
        "scale": scale[..., [2]] * (draws["b_scale"] @ laid_out.scale.T),
    }
    return {**parts, "model": draws["m"] - draws["alpha"][..., None] - sum(parts.values())}


def prior_orders(laid_out: Design, *, concentration: float, seed: int) -> dict[str, float]:
    """Prior probabilities of the orders on this design, by simulation (20,000 draws)."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(len(BLOCKS), concentration), size=20_000)
    bases = (lab_basis(laid_out.lab), laid_out.geometry, laid_out.scale)
    sd = [
        np.sqrt(phi[:, b]) * gaussian.block_sds(rng.normal(size=(len(phi), basis.shape[1])) @ basis.T)
        for b, basis in enumerate(bases)
    ]
    return gaussian.orders(np.stack(sd, axis=1))


def _per_lab(values: Array, laid_out: Design) -> Array:
    """Means over the models of every lab, along the last axis."""
    indicators = np.eye(len(laid_out.labs))[laid_out.lab] / laid_out.lab_sizes()[laid_out.lab][:, None]
    return np.asarray(values @ indicators)
