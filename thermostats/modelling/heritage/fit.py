"""Is log gain decided by heritage, geometry or scale? Models in labs, with a prior that favours no block.

log G_ip = m_i + c_k + d_ik + e_ip, e_ip ~ t_ν(0, σ_i);
m_i = α + f_i,heritage + f_i,geometry + f_i,scale + f_i,model.

Every block's contribution f_b is scaled to unit expected variance and multiplied by τ√φ_b, τ half-normal and shares
φ ~ Dirichlet(a, …, a), one of them the family's where families are stated, so that blocks of many columns have no head
start (cf. Zhang et al. 2022, R2D2M2, and the joint variance priors of Fuglstad et al. 2020, doi:10.1214/19-BA1185).
Heritage is the lab's. The estimands are finite-population standard deviations of the contributions over the models at
hand (Gelman 2005, doi:10.1214/009053604000001048).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import numbers
from thermostats.modelling.heritage import classical
from thermostats.modelling.heritage.blocks import (
    LARGE_STUDY,
    LINEAGE_ORDER,
    ORDER,
    bayes_factor,
    design,
    in_order,
    orders,
    verdict,
)
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.expansion import EXPANSIONS, compared, expanded, not_reproduced, preferred
from thermostats.modelling.heritage.held_out import HeldOut, leave_one_out
from thermostats.modelling.heritage.laws import NORMAL
from thermostats.modelling.heritage.model import (
    AUTO,
    CLOSED,
    SAMPLING,
    TOTAL_SD,
    HeritagePosterior,
    arrays,
    equations,
    heritage_model,
    prior_orders,
    priors,
)
from thermostats.modelling.heritage.population import labs_table, superpopulation
from thermostats.modelling.heritage.predictive import part_of
from thermostats.modelling.heritage.rows import said_of
from thermostats.modelling.heritage.sensitivity import alternatives, left_out
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import PASSED, SEED, Settings
from thermostats.modelling.inference.fitted import NO_SOURCE, Deferred, Fitted, Panel
from thermostats.plots import posterior as plots
from thermostats.plots.general import forest
from thermostats.words import number

CAREFUL = Settings(draws=1500, target_accept=0.98)
"""Shares near 0 and averages with heavy tails need smaller steps, and move slowly."""
SUMMED = ("total_amplification", "total_amplification_from_input")
SUMMED_TOTAL_SD = 2.0
"""For gains that multiply over all layers."""
TITLES = {
    "orders": "orders of the blocks",
    "expansions": "expanded models, compared by the log predictive density of labs left out",
    "labs": "labs: P(dampens) of the mean of these models, of the lab's population of models, and of its next model",
    "superpopulation": "standard deviation over all labs there could be, which decides nothing",
    "classical": "classical counterparts",
    "dominance": "dominance and its permutation null",
    "commonality": "unique and common parts",
}


def fit_heritage(
    table: pd.DataFrame,
    *,
    estimand: str = "gain",
    seed: int = SEED,
    blocks: Mapping[str, Sequence[str]] | None = None,
    concentration: float = 1.0,
    lab_df: float = 0.0,
    method: str = AUTO,
    settings: Settings = CAREFUL,
    leave_out: Sequence[str] = ("heritage", "model"),
    cache: bool = True,
    progress: bool | None = None,
) -> HeritageFit:
    """Fit the heritage model to a table of gains.

    `table`: as `gain_rows(estimand)` gives it: model_id, heritage, n_layers, n_heads, d_head, n_params and `gain`, one
    row per prompt (`prompt_id`, `category`) or one row with `gain_sd` and `n_prompts`; `family` where known, which is
    then a block of its own. `estimand`
    names the gain and sets the prior scale of τ. `blocks`: the columns of heritage, geometry and scale, as they are,
    and as `shares` takes them; by default the lab, and the logs of
    n_layers, n_heads, d_head and of n_params. `lab_df` above 2: Student-t lab effects. `leave_out`: what the check of
    influence leaves out one by one; none, no such check. `method`: sampling, or the closed form of the models' means,
    which `auto` takes for more than `LARGE_STUDY` models, and with a warning where sampling fails.

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
    laid_out = design(table, estimand, blocks=blocks)
    numbers(np.concatenate([laid_out.y, laid_out.average]), f"log {estimand}", varied=True)
    total_sd = SUMMED_TOTAL_SD if estimand in SUMMED else TOTAL_SD
    chosen = method if method != AUTO else CLOSED if laid_out.n_models > LARGE_STUDY else SAMPLING
    said = (*said_of(table), *laid_out.warnings, *(() if laid_out.sources else (NO_SOURCE,)))
    if chosen == CLOSED and lab_df:
        raise UsageError("Student-t lab effects have no closed form", got=lab_df, allowed=f"method {SAMPLING}")
    if chosen == SAMPLING:
        data = arrays(laid_out, total_sd=total_sd, concentration=concentration, lab_df=lab_df)
        draws = sampling.fit(heritage_model, data, seed=seed, settings=settings, cache=cache, progress=progress)
        if method == AUTO and not lab_df and (failed := draws.failures()):
            chosen, said = CLOSED, (*said, f"sampling failed ({'; '.join(failed)})")
    if chosen == CLOSED:
        said = (*said, "closed form of the models' means: the spread over prompts is normal, categories are averaged")
        draws = closed_form(laid_out, total_sd=total_sd, concentration=concentration, seed=seed, settings=settings)
    posterior = HeritagePosterior(
        design=laid_out,
        draws=draws,
        method=chosen,
        total_sd=total_sd,
        concentration=concentration,
        lab_df=lab_df,
        leave_out=tuple(leave_out),
        seed=seed,
    )
    return _fitted(posterior, blocks or {}, said)


def _fitted(
    posterior: HeritagePosterior, columns: Mapping[str, Sequence[str]], warnings: tuple[str, ...]
) -> HeritageFit:
    """What follows from design and draws."""
    group, quantities, laid_out = columns.get("heritage", ("heritage",))[0], posterior.reported, posterior.design

    @functools.cache
    def expand(name: str) -> HeritageFit:
        said = (*warnings, f"{name}, in closed form of the models' means")
        return _fitted(expanded(posterior, name), columns, said)

    probabilities = orders(quantities, laid_out.orders)
    prior = prior_orders(laid_out, concentration=posterior.concentration, lab_df=posterior.lab_df, seed=posterior.seed)
    return HeritageFit(
        **{own.name: getattr(posterior, own.name) for own in fields(posterior)},
        family="heritage",
        estimand=laid_out.estimand,
        sources=laid_out.sources,
        n_models=laid_out.n_models,
        n_heritages=len(laid_out.labs),
        parts={"heritage": part_of(posterior, quantities)},
        quantities=quantities,
        more=posterior.lab_means,
        statements={order: partial(in_order, order) for order in (ORDER, LINEAGE_ORDER) if order in laid_out.orders},
        probabilities=probabilities,
        prior=prior,
        tables=Deferred(
            {
                "orders": partial(_orders, probabilities, prior),
                "labs": partial(labs_table, posterior),
                "superpopulation": partial(superpopulation, posterior),
                "models": partial(_models, posterior),
                "classical": partial(classical.classical, laid_out, seed=posterior.seed),
                "dominance": partial(classical.dominance_table, laid_out, seed=posterior.seed),
                "commonality": partial(classical.commonality, laid_out),
            }
        ),
        warnings=warnings,
        figure=_figure,
        alternatives=partial(alternatives, posterior),
        left_out=partial(left_out, posterior) if posterior.leave_out else None,
        equations=equations(columns, laid_out, posterior.residuals),
        expand=expand,
        priors=priors(**posterior.priors_given, families=bool(laid_out.families)),
        titles=TITLES,
        called={"heritage": group, "labs": f"{group}s", "lab": group} if group != "heritage" else {},
        prefixed=False,
    )


@dataclass(frozen=True, kw_only=True)
class HeritageFit(HeritagePosterior, Fitted):
    """Posterior of the heritage model; nothing may be concluded where `status` is not `passed`."""

    prior: Mapping[str, float]
    """Prior probabilities of the orders, by simulation on this design."""
    expand: Callable[[str], HeritageFit]
    """Name of a model in `EXPANSIONS` to its fit."""

    @cached_property
    def answer(self) -> HeritageFit:
        """This fit where its replications miss no test quantity, nor tails nor skew; else the declared model without
        such a miss that best predicts labs left out (`expansions` compares all of them), and this one where all miss.

        Its warnings say why, and which models predict about as well.
        """
        missed = self._missed
        if not missed:
            return self
        others = {} if self.lab_df else {name: self.expand(name) for name in EXPANSIONS if name != NORMAL}
        whole = {name: fit for name, fit in others.items() if not fit._missed}
        told = {NORMAL: missed} | {name: fit._missed for name, fit in others.items() if name not in whole}
        said = "; ".join(f"not reproduced by {name}: {', '.join(what)}" for name, what in told.items())
        if not whole:
            return replace(self, warnings=(*self.warnings, f"no declared model reproduces the data; {said}"))
        name, why = preferred(whole, self.seed)
        return replace(whole[name], warnings=(*whole[name].warnings, f"{why}; {said}"))

    @cached_property
    def _missed(self) -> list[str]:
        """What keeps this model from answering: quantities that its replications miss, or its status."""
        return not_reproduced(self, self.seed) if self.status == PASSED else [f"anything ({self.status})"]

    @cached_property
    def expansions(self) -> pd.DataFrame:
        """Every declared model, compared by the log predictive density of labs left out (`expansion.compared`).

        A column more has P(order) by each; the last row is their stack, by the weights.
        """
        table = compared({name: self.expand(name) for name in EXPANSIONS}, self.seed)
        table[ORDER] = [self.expand(name).probabilities[ORDER] for name in EXPANSIONS]
        stack = {"model": "stacked", "weight": 1.0, ORDER: float((table["weight"] * table[ORDER]).sum())}
        return pd.concat([table, pd.DataFrame([stack])], ignore_index=True)

    @cached_property
    def held_out(self) -> Mapping[str, HeldOut]:
        """Exact refits without every `model`, and without every `heritage`; each is computed when first asked for."""
        return Deferred({by: partial(leave_one_out, self, by=by, seed=self.seed) for by in ("model", "heritage")})

    @cached_property
    def panels(self) -> Mapping[str, Panel]:
        """Figures by name: variance-shares, orders, labs, left-out-model, left-out-lab."""
        return Deferred(_panels(self))

    def verdict(self) -> str:
        """Supported where P(order) ≥ 0.95, not supported where ≤ 0.05, else inconclusive; the gate comes first."""
        return self.status if self.status != PASSED else verdict(self.probabilities[ORDER])

    def table(self, name: str) -> pd.DataFrame:
        """One of `tables`, or by exact refits, which take minutes: `left out`, errors of predictions; `expansions`."""
        if name == "left out":
            return pd.concat([held.table() for held in self.held_out.values()])
        if name == "expansions":
            return self.expansions
        return super().table(name)

    def orders(self) -> pd.DataFrame:
        """Per order of blocks: posterior and prior probability, and the Bayes factor of the order restriction."""
        return self.table("orders")

    def labs(self) -> pd.DataFrame:
        """Per lab: partially pooled effect on log gain; P(log gain < 0) of its models' mean, population, next model."""
        return self.table("labs")

    def models(self) -> pd.DataFrame:
        """Per model: log gain over prompts of all categories alike, and P(model dampens) = P(log gain < 0)."""
        return self.table("models")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as JSON takes it: missing and infinite numbers are null."""
        return super().to_dict() | {"method": self.method, "verdict": self.verdict()}


def _orders(after: Mapping[str, float], before: Mapping[str, float]) -> pd.DataFrame:
    rows = [(order, after[order], before[order], bayes_factor(after[order], before[order])) for order in after]
    return pd.DataFrame(rows, columns=["statement", "probability", "prior", "bayes_factor"])


def _models(posterior: HeritagePosterior) -> pd.DataFrame:
    m = posterior.draws["m"]
    table = sampling.summary({"m": m}, exact=["m"] if posterior.draws.exact else []).drop(columns="quantity")
    table.insert(0, "model_id", list(posterior.design.models))
    table.insert(1, "heritage", [posterior.design.labs[j] for j in posterior.design.lab])
    return table.assign(probability_dampens=(m < 0).mean(axis=(0, 1)))


def _figure(fit: HeritageFit, axes: Axes) -> Axes:
    """Finite-population standard deviations of the blocks with their intervals."""
    blocks = fit.design.blocks
    rows = fit.summary().set_index("quantity").loc[[f"sd_{name}" for name in blocks]].reset_index()
    named = {"model": "residual between models"} | dict(fit.called)
    rows["quantity"] = [named.get(name, name) for name in blocks]
    forest(rows, axes, label="quantity", estimate="median", null=0.0)
    axes.set_xlabel(f"standard deviation over models, log {fit.estimand.replace('_', ' ')}")
    return axes


def _panels(fit: HeritageFit) -> dict[str, Callable[[], Panel]]:
    def orders() -> Panel:
        row = fit.orders().set_index("statement").loc[ORDER]
        return Panel(
            name="orders",
            draw=lambda axes: plots.order_probability_bar(fit.orders(), axes),
            caption=f"Posterior and prior probability of every order. P({ORDER}) = {number(row['probability'])} "
            f"against {number(row['prior'])} before the data, a Bayes factor of {number(row['bayes_factor'])}.",
        )

    def left_out(by: str, what: str, helped: str) -> Panel:
        held = fit.held_out[by]
        return Panel(
            name=f"left-out-{what}",
            draw=lambda axes: plots.left_out_errors(held.predictions, axes),
            caption=f"Every model predicted without its {what}: root mean squared error {number(held.rmse)}, the mean "
            f"of the others {number(held.rmse_baseline)}; {held.coverage:.0%} lie in their intervals. Knowing {helped} "
            f"changes the log predictive density by {number(held.elpd_difference)} ± "
            f"{number(held.elpd_difference_error, 2)}.",
        )

    return {
        "variance-shares": lambda: Panel(
            name="variance-shares",
            draw=lambda axes: plots.variance_shares(fit.summary(), axes, fit.called),
            caption="Posterior share of every block in the variance over models, with its prior mean.",
        ),
        "orders": orders,
        "labs": lambda: Panel(
            name="labs",
            draw=lambda axes: plots.lab_forest(fit.labs(), axes),
            caption="Effect of every lab on the log gain, partially pooled, with P(the mean of these models dampens).",
        ),
        "left-out-model": partial(left_out, "model", "model", "its lab"),
        "left-out-lab": partial(left_out, "heritage", "lab", "geometry and scale"),
    }
