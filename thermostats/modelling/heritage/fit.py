"""Is log gain decided by heritage, geometry or scale? Models in labs, with a prior that favours no block.

log G_ip = m_i + c_k + d_ik + e_ip, e_ip ~ t_ν(0, σ_i);
m_i = α + f_i,heritage + f_i,geometry + f_i,scale + f_i,model.

Every block's contribution f_b is scaled to unit expected variance and multiplied by τ√φ_b, τ half-normal and shares
φ ~ Dirichlet(a, a, a, a), so that blocks of many columns have no head start (cf. Zhang et al. 2022, R2D2M2, and the
joint variance priors of Fuglstad et al. 2020, doi:10.1214/19-BA1185). The estimands are finite-population standard
deviations of the contributions over the models at hand (Gelman 2005, doi:10.1214/009053604000001048).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache as kept
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import numbers
from thermostats.modelling.heritage import classical
from thermostats.modelling.heritage.blocks import (
    BLOCKS,
    LARGE_STUDY,
    ORDER,
    ORDERS,
    Design,
    bayes_factor,
    block_sds,
    design,
)
from thermostats.modelling.heritage.calibration import of_fit
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.held_out import HeldOut, leave_one_out
from thermostats.modelling.heritage.model import (
    AUTO,
    CLOSED,
    EQUATIONS,
    FAMILY_EQUATION,
    SAMPLING,
    TOTAL_SD,
    arrays,
    block_contributions,
    heritage_levels,
    heritage_model,
    prior_blocks,
    prior_orders,
    priors,
)
from thermostats.modelling.heritage.predictive import (
    density_of_means,
    from_prior,
    model_statistics,
    new_models,
    prompt_pit,
)
from thermostats.modelling.heritage.rows import said_of
from thermostats.modelling.heritage.sensitivity import alternatives, influence, sensitivity, verdict
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.checks import Check
from thermostats.modelling.inference.draws import Array, Draws, Settings
from thermostats.modelling.inference.fitted import NO_SOURCE, Deferred, Fitted, Panel, Part, Prior, Update
from thermostats.words import number

CAREFUL = Settings(draws=1500, target_accept=0.98)
"""Shares near 0 and averages with heavy tails need smaller steps, and move slowly."""
SUMMED = ("total_amplification", "total_amplification_from_input")
SUMMED_TOTAL_SD = 2.0
"""For gains that multiply over all layers."""
TITLES = {
    "orders": "orders of the blocks",
    "classical": "classical counterparts",
    "dominance": "dominance and its permutation null",
    "commonality": "unique and common parts",
}


def fit_heritage(
    table: pd.DataFrame,
    *,
    estimand: str,
    seed: int,
    blocks: Mapping[str, Sequence[str]] | None = None,
    concentration: float = 1.0,
    lab_df: float = 0.0,
    residualise: str = "",
    method: str = AUTO,
    settings: Settings = CAREFUL,
    leave_out: Sequence[str] = ("heritage", "model"),
    cache: bool = True,
    progress: bool | None = None,
) -> HeritageFit:
    """Fit the heritage model to a table of gains.

    `table`: as `gain_rows(estimand)` gives it: model_id, heritage, n_layers, n_heads, d_head, n_params
    and `gain`, one row per prompt (`prompt_id`, `category`) or one row with `gain_sd` and `n_prompts`; `family` where
    known. `estimand` names the gain and sets the prior scale of τ. `blocks`: the columns
    of heritage, geometry and scale, as they are, and as `shares` takes them; by default the lab, and the logs of
    n_layers, n_heads, d_head and of n_params. `lab_df` above 2: Student-t lab effects; `residualise`: see `design`.
    `leave_out`: what the check of influence leaves out one by one; none, no such check. `method`: sampling, or the
    closed form of the models' means, which `auto` takes for more than `LARGE_STUDY` models.

    Raises UsageError as `design` does, for gains that are all the same, and for Student-t effects in closed form.
    """
    if not (0 < concentration < math.inf and (lab_df == 0 or 2 < lab_df < math.inf)):
        raise UsageError(
            "priors out of range",
            got=f"concentration {concentration}, lab_df {lab_df}",
            allowed="concentration above 0; lab_df 0 or above 2",
        )
    if method not in (AUTO, SAMPLING, CLOSED):
        raise UsageError("no such method", got=method, allowed=f"{AUTO}, {SAMPLING}, {CLOSED}")
    laid_out = design(table, estimand, blocks=blocks, residualise=residualise)
    numbers(np.concatenate([laid_out.y, laid_out.average]), f"log {estimand}", varied=True)
    total_sd = SUMMED_TOTAL_SD if estimand in SUMMED else TOTAL_SD
    chosen = method if method != AUTO else CLOSED if laid_out.n_models > LARGE_STUDY else SAMPLING
    said = (*said_of(table), *laid_out.warnings, *(() if laid_out.sources else (NO_SOURCE,)))
    if chosen == CLOSED:
        if lab_df:
            raise UsageError("Student-t lab effects have no closed form", got=lab_df, allowed=f"method {SAMPLING}")
        said = (*said, "closed form of the models' means: the spread over prompts is normal, categories are averaged")
        draws = closed_form(laid_out, total_sd=total_sd, concentration=concentration, seed=seed, settings=settings)
    else:
        data = arrays(laid_out, total_sd=total_sd, concentration=concentration, lab_df=lab_df)
        draws = sampling.fit(heritage_model, data, seed=seed, settings=settings, cache=cache, progress=progress)
    return HeritageFit(
        design=laid_out,
        draws=draws,
        method=chosen,
        total_sd=total_sd,
        concentration=concentration,
        lab_df=lab_df,
        leave_out=tuple(leave_out),
        columns=dict(blocks or {}),
        seed=seed,
        prior=prior_orders(laid_out, concentration=concentration, lab_df=lab_df, seed=seed),
        warnings=said,
    )


@dataclass(frozen=True, kw_only=True)
class HeritageFit(Fitted):
    """Posterior of the heritage model; nothing may be concluded where `status` is not `passed`."""

    design: Design
    draws: Draws
    method: str
    """`sampling`, or `closed form`: Gaussian means of the models, prompts summed up beforehand."""
    total_sd: float
    concentration: float
    lab_df: float
    """Degrees of freedom of the lab effects; 0: normal."""
    prior: Mapping[str, float]
    """Prior probabilities of the orders, by simulation on this design."""
    leave_out: tuple[str, ...] = ("heritage", "model")
    """What the check of influence leaves out."""
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Columns of the blocks; empty: those of labs, shape and size."""
    family: str = "heritage"
    prefixed: bool = False
    estimand: str = field(init=False)
    sources: tuple[str, ...] = field(init=False)
    n_models: int = field(init=False)
    n_heritages: int = field(init=False)
    parts: Mapping[str, Part] = field(init=False)
    quantities: Mapping[str, Array] = field(init=False)
    probabilities: Mapping[str, float] = field(init=False)
    tables: Mapping[str, pd.DataFrame] = field(init=False)
    figure: Callable[[Any, Axes], Axes] = field(init=False)
    refits: Callable[[int], pd.DataFrame] = field(init=False)
    influence: Callable[[int], Check | None] = field(init=False)
    equations: tuple[str, ...] = field(init=False)
    priors: tuple[Prior, ...] = field(init=False)
    titles: Mapping[str, str] = field(default_factory=lambda: TITLES)

    def __post_init__(self) -> None:
        """What follows from design and draws."""
        derived = {
            "estimand": self.design.estimand,
            "sources": self.design.sources,
            "n_models": self.design.n_models,
            "n_heritages": len(self.design.labs),
            "parts": Deferred({self.family: partial(_part, self)}),
            "quantities": _quantities(self),
            "tables": Deferred(_tables(self)),
            "figure": _figure,
            "refits": kept(lambda seed: sensitivity(self, seed=seed)),
            "influence": partial(influence, self),
            "equations": _equations(self),
            "priors": priors(self.total_sd, self.concentration, self.lab_df),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "probabilities", {order: float(self.holds(order).mean()) for order in ORDERS})

    @cached_property
    def contributions(self) -> dict[str, Array]:
        """Contribution of every block to every model's log gain, chain × draw × model."""
        return block_contributions(self.design, self.draws)

    @cached_property
    def held_out(self) -> Mapping[str, HeldOut]:
        """Exact refits without every `model`, and without every `heritage`; each is computed when first asked for."""
        return Deferred({by: partial(leave_one_out, self, by=by, seed=self.seed) for by in ("model", "heritage")})

    @cached_property
    def panels(self) -> Mapping[str, Panel]:
        """Figures by name: variance-shares, orders, labs, left-out-model, left-out-lab."""
        return Deferred(_panels(self))

    @property
    def sampled(self) -> dict[str, Draws]:
        """The draws, by name of the part."""
        return {self.family: self.draws}

    def holds(self, order: str) -> NDArray[np.bool_]:
        """Draws in which the blocks' standard deviations come in this order, chain × draw."""
        sds = [self.quantities[f"sd_{name}"] for name in order.split(" > ")]
        return np.asarray(np.logical_and.reduce([a > b for a, b in pairwise(sds)]))

    def verdict(self) -> str:
        """Supported where P(order) ≥ 0.95, not supported where ≤ 0.05, else inconclusive; the gate comes first."""
        return self.status if self.draws.diagnostics.failures() else verdict(self.probabilities[ORDER])

    def table(self, name: str) -> pd.DataFrame:
        """One of `tables`, or `left out`: errors of predictions by exact refits, which take minutes."""
        if name == "left out":
            return pd.concat([held.table() for held in self.held_out.values()])
        return super().table(name)

    def orders(self) -> pd.DataFrame:
        """Per order of blocks: posterior and prior probability, and the Bayes factor of the order restriction."""
        return self.table("orders")

    def labs(self) -> pd.DataFrame:
        """Per lab: partially pooled effect on log gain, and P(the mean log gain of its models is below 0)."""
        return self.table("labs")

    def models(self) -> pd.DataFrame:
        """Per model: log gain over prompts of all categories alike, and P(model dampens) = P(log gain < 0)."""
        return self.table("models")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as JSON takes it: missing and infinite numbers are null."""
        return super().to_dict() | {"method": self.method, "verdict": self.verdict()}


def _quantities(fit: HeritageFit) -> dict[str, Array]:
    """Finite-population standard deviations, shares and τ, each chain × draw."""
    levels = heritage_levels(fit.design, fit.draws) if fit.design.families else {}
    parts = fit.contributions
    return {
        **{f"sd_{name}": block_sds(part) for name, part in (parts | levels).items()},
        **{f"share_{name}": fit.draws["share"][..., b] for b, name in enumerate(BLOCKS)},
        "total_sd": fit.draws["tau"],
        "mean_log_gain": fit.draws["m"].mean(axis=-1),
        **classical.shape_parts(parts["geometry"], parts["scale"], fit.design),
    }


def _equations(fit: HeritageFit) -> tuple[str, ...]:
    lines = (*EQUATIONS, FAMILY_EQUATION) if fit.design.families else EQUATIONS
    if not fit.columns:
        return lines
    heritage, geometry, scale = (", ".join(fit.columns[name]) for name in ("heritage", "geometry", "scale"))
    own = f"heritage: X u = c·(u_{heritage}(i) − mean over models); geometry: {geometry}; scale: {scale}"
    return tuple(own if line.startswith("heritage: X u") else line for line in lines)


def _part(fit: HeritageFit) -> Part:
    prompted = fit.method == SAMPLING and fit.design.prompted.size
    return Part(
        draws=fit.draws,
        observed=fit.design.means()[0],
        statistics=model_statistics(fit.design),
        decisive={**{order: fit.holds(order) for order in ORDERS}, "total SD": fit.draws["tau"]},
        prior=partial(from_prior, fit),
        replicate=partial(new_models, fit),
        density=partial(density_of_means, fit),
        log_prior=lambda: -0.5 * np.square(fit.draws["tau"] / fit.total_sd),
        alternatives=partial(alternatives, fit),
        updates=partial(_updates, fit),
        simulator=of_fit(fit),
        loo=partial(prompt_pit, fit) if prompted else None,
    )


def _updates(fit: HeritageFit, seed: int) -> dict[str, Update]:
    """Standard deviations of the blocks, shares and τ before and after the data."""
    before = prior_blocks(
        fit.design, total_sd=fit.total_sd, concentration=fit.concentration, lab_df=fit.lab_df, seed=seed
    )
    after = {name: values.ravel() for name, values in fit.quantities.items()}
    found = {"total_sd": Update(prior=before["total"], posterior=after["total_sd"])}
    for b, name in enumerate(BLOCKS):
        for kind in ("sd", "share"):
            found[f"{kind}_{name}"] = Update(prior=before[kind][:, b], posterior=after[f"{kind}_{name}"])
    return found


def _tables(fit: HeritageFit) -> dict[str, Callable[[], pd.DataFrame]]:
    return {
        "orders": partial(_orders, fit),
        "labs": partial(_labs, fit),
        "models": partial(_models, fit),
        "classical": partial(classical.classical, fit.design, seed=fit.seed),
        "dominance": partial(_dominance, fit),
        "commonality": partial(classical.commonality, fit.design),
    }


def _orders(fit: HeritageFit) -> pd.DataFrame:
    before, after = fit.prior, fit.probabilities
    return pd.DataFrame(
        {
            "statement": ORDERS,
            "probability": [after[order] for order in ORDERS],
            "prior": [before[order] for order in ORDERS],
            "bayes_factor": [bayes_factor(after[order], before[order]) for order in ORDERS],
        }
    )


def _labs(fit: HeritageFit) -> pd.DataFrame:
    sizes = fit.design.lab_sizes()
    indicators = np.eye(sizes.size)[fit.design.lab] / sizes[fit.design.lab][:, None]
    effect, mean = fit.contributions["heritage"] @ indicators, fit.draws["m"] @ indicators
    table = sampling.summary({"effect": effect}, level=fit.level).drop(columns="quantity")
    table.insert(0, "heritage", list(fit.design.labs))
    table.insert(1, "n_models", sizes)
    return table.assign(mean_log_gain=mean.mean(axis=(0, 1)), probability_dampens=(mean < 0).mean(axis=(0, 1)))


def _models(fit: HeritageFit) -> pd.DataFrame:
    m = fit.draws["m"]
    table = sampling.summary({"m": m}, level=fit.level).drop(columns="quantity")
    table.insert(0, "model_id", list(fit.design.models))
    table.insert(1, "heritage", [fit.design.labs[j] for j in fit.design.lab])
    return table.assign(probability_dampens=(m < 0).mean(axis=(0, 1)))


def _dominance(fit: HeritageFit) -> pd.DataFrame:
    try:
        return classical.dominance_table(classical.block_dominance(fit.design, seed=fit.seed))
    except UsageError as error:
        return pd.DataFrame({"note": [f"not possible: {error}"]})


def _figure(fit: HeritageFit, axes: Axes) -> Axes:
    """Finite-population standard deviations of the blocks with their intervals."""
    from thermostats.plots.general import forest  # noqa: PLC0415 (matplotlib is loaded when a figure is drawn)

    rows = fit.summary().set_index("quantity").loc[[f"sd_{name}" for name in BLOCKS]].reset_index()
    rows["quantity"] = [name if name != "model" else "single model" for name in BLOCKS]
    forest(rows, axes, label="quantity", estimate="median", null=0.0)
    axes.set_xlabel(f"standard deviation over models, log {fit.estimand.replace('_', ' ')}")
    return axes


def _panels(fit: HeritageFit) -> dict[str, Callable[[], Panel]]:
    from thermostats.plots.posterior import lab_forest, order_probability_bar, variance_shares  # noqa: PLC0415

    def orders() -> Panel:
        row = fit.orders().set_index("statement").loc[ORDER]
        return Panel(
            name="orders",
            draw=lambda axes: order_probability_bar(fit.orders(), axes),
            caption=f"Posterior and prior probability of every order. P({ORDER}) = {number(row['probability'])} "
            f"against {number(row['prior'])} before the data, a Bayes factor of {number(row['bayes_factor'])}.",
        )

    return {
        "variance-shares": lambda: Panel(
            name="variance-shares",
            draw=lambda axes: variance_shares(fit.summary(), axes),
            caption="Posterior share of every block in the variance over models, with its prior mean.",
        ),
        "orders": orders,
        "labs": lambda: Panel(
            name="labs",
            draw=lambda axes: lab_forest(fit.labs(), axes),
            caption="Effect of every lab on the log gain, partially pooled, with P(its models' mean dampens).",
        ),
        "left-out-model": lambda: _left_out(fit.held_out["model"], "model", "its lab"),
        "left-out-lab": lambda: _left_out(fit.held_out["heritage"], "lab", "geometry and scale"),
    }


def _left_out(held: HeldOut, what: str, helped: str) -> Panel:
    """Predictions of models, or of labs, by refits that have not seen them."""
    from thermostats.plots.posterior import left_out_errors  # noqa: PLC0415

    return Panel(
        name=f"left-out-{what}",
        draw=lambda axes: left_out_errors(held.predictions, axes),
        caption=f"Every model predicted without its {what}: root mean squared error {number(held.rmse)}, the mean of "
        f"the others {number(held.rmse_baseline)}; {held.coverage:.0%} lie in their intervals. Knowing {helped} "
        f"changes the log predictive density by {number(held.elpd_difference)} ± "
        f"{number(held.elpd_difference_error, 2)}.",
    )
