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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling import checks, heritage_classical, sampling
from thermostats.modelling import heritage_gaussian as gaussian
from thermostats.modelling.blocks import Dominance
from thermostats.modelling.draws import LEVEL, Array, Draws, Settings
from thermostats.modelling.estimates import numbers
from thermostats.modelling.heritage_design import BLOCKS, LARGE_STUDY, Design, design
from thermostats.modelling.heritage_many import closed_form
from thermostats.modelling.heritage_model import (
    EQUATIONS,
    FAMILY_EQUATION,
    TOTAL_SD,
    arrays,
    block_contributions,
    heritage_levels,
    heritage_model,
    prior_blocks,
    priors,
)
from thermostats.modelling.interface import Prior, Replicates, Update, records, sampler_table
from thermostats.reporting.verdicts import AGAINST, OPEN, SUPPORTED

ORDER = "heritage > geometry > scale"
SUPPORTED_ABOVE, AGAINST_BELOW = 0.95, 0.05
CAREFUL = Settings(target_accept=0.98)
"""Shares near 0 and averages with heavy tails need smaller steps."""
SUMMED = ("total_amplification", "total_amplification_from_input")
SUMMED_TOTAL_SD = 2.0
"""For gains that multiply over all layers."""
AUTO, SAMPLING, CLOSED = "auto", "sampling", "closed form"


@dataclass(frozen=True, kw_only=True)
class HeritageFit:
    """Posterior of the heritage model; nothing may be concluded where `status` is not `passed`."""

    design: Design
    draws: Draws
    method: str
    """`sampling`, or `closed form`: Gaussian means of the models, prompts summed up beforehand."""
    total_sd: float
    concentration: float
    lab_df: float
    """Degrees of freedom of the lab effects; 0: normal."""
    seed: int
    prior: Mapping[str, float]
    """Prior probabilities of the orders, by simulation on this design."""
    warnings: tuple[str, ...]
    """What was left out or cannot be told apart, in words."""

    family = "heritage"
    level = LEVEL

    @property
    def estimand(self) -> str:
        """The gain."""
        return self.design.estimand

    @property
    def sources(self) -> tuple[str, ...]:
        """Files or measurements that the rows come from."""
        return self.design.sources

    @property
    def n_models(self) -> int:
        """Models the fit rests on."""
        return self.design.n_models

    @property
    def n_heritages(self) -> int:
        """Labs the fit rests on."""
        return len(self.design.labs)

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler`."""
        return self.draws.status

    @property
    def sampled(self) -> dict[str, Draws]:
        """The draws, by name of the part."""
        return {self.family: self.draws}

    def to_arviz(self) -> dict[str, Any]:
        """Draws of every part as the installed ArviZ has them: InferenceData before 1.0, DataTree since."""
        return {name: sampling.to_arviz(draws) for name, draws in self.sampled.items()}

    @property
    def equations(self) -> tuple[str, ...]:
        """The model, a line an equation."""
        return (*EQUATIONS, FAMILY_EQUATION) if self.design.families else EQUATIONS

    @property
    def priors(self) -> tuple[Prior, ...]:
        """Every prior with its reason."""
        return priors(self.total_sd, self.concentration, self.lab_df)

    @cached_property
    def contributions(self) -> dict[str, Array]:
        """Contribution of every block to every model's log gain, chain × draw × model."""
        return block_contributions(self.design, self.draws)

    @cached_property
    def quantities(self) -> dict[str, Array]:
        """Finite-population standard deviations, shares and τ, each chain × draw."""
        sds = {f"sd_{name}": gaussian.block_sds(part) for name, part in self.contributions.items()}
        levels = heritage_levels(self.design, self.draws) if self.design.families else {}
        shares = {f"share_{name}": self.draws["share"][..., b] for b, name in enumerate(BLOCKS)}
        shape = heritage_classical.shape_parts(self.contributions["geometry"], self.contributions["scale"], self.design)
        return {
            **sds,
            **{f"sd_{name}": gaussian.block_sds(part) for name, part in levels.items()},
            **shares,
            "total_sd": self.draws["tau"],
            "mean_log_gain": self.draws["m"].mean(axis=-1),
            **shape,
        }

    @cached_property
    def probabilities(self) -> dict[str, float]:
        """Posterior probability of every order of blocks."""
        sd = np.stack([gaussian.block_sds(part).ravel() for part in self.contributions.values()], axis=1)
        return gaussian.orders(sd)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """`orders`, `labs`, `models`, and the classical counterparts `classical`, `dominance`, `commonality`."""
        found = {"orders": self.orders(), "labs": self.labs(), "models": self.models(), "classical": self.classical()}
        try:
            found["dominance"] = heritage_classical.dominance_table(self.dominance())
        except UsageError as error:
            found["dominance"] = pd.DataFrame({"note": [f"not possible: {error}"]})
        return {**found, "commonality": heritage_classical.commonality(self.design)}

    def summary(self) -> pd.DataFrame:
        """One row per quantity: mean, sd, median, lower, upper, kind, level, rhat, ess_bulk, ess_tail, estimand."""
        table = sampling.summary(self.quantities, level=self.level)
        return table.assign(estimand=self.estimand, sources="; ".join(self.sources))

    def diagnostics(self) -> pd.DataFrame:
        """The sampler's diagnostics."""
        return sampler_table(self.sampled)

    def orders(self) -> pd.DataFrame:
        """Per order of blocks: posterior and prior probability, and the Bayes factor of the order restriction."""
        rows = [
            {
                "statement": statement,
                "probability": probability,
                "prior": self.prior[statement],
                "bayes_factor": gaussian.bayes_factor(probability, self.prior[statement]),
            }
            for statement, probability in self.probabilities.items()
        ]
        return pd.DataFrame(rows)

    def labs(self) -> pd.DataFrame:
        """Per lab: partially pooled effect on log gain, and P(the mean log gain of its models is below 0)."""
        effect = _per_lab(self.contributions["heritage"], self.design)
        mean = _per_lab(self.draws["m"], self.design)
        table = sampling.summary({"effect": effect}, level=self.level).drop(columns="quantity")
        table.insert(0, "heritage", list(self.design.labs))
        table.insert(1, "n_models", self.design.lab_sizes())
        return table.assign(mean_log_gain=mean.mean(axis=(0, 1)), probability_dampens=(mean < 0).mean(axis=(0, 1)))

    def models(self) -> pd.DataFrame:
        """Per model: log gain over prompts of all categories alike, and P(model dampens) = P(log gain < 0)."""
        m = self.draws["m"]
        table = sampling.summary({"m": m}, level=self.level).drop(columns="quantity")
        table.insert(0, "model_id", list(self.design.models))
        table.insert(1, "heritage", [self.design.labs[j] for j in self.design.lab])
        return table.assign(probability_dampens=(m < 0).mean(axis=(0, 1)))

    def classical(self) -> pd.DataFrame:
        """Partial F, Freedman–Lane and a mixed model beside it, on the models' means."""
        return heritage_classical.classical(self.design, seed=self.seed)

    def dominance(self) -> Dominance:
        """Shapley shares of R² with their permutation null; raises UsageError where no residual is left."""
        return heritage_classical.block_dominance(self.design, seed=self.seed)

    def verdict(self) -> str:
        """Supported where P(order) ≥ 0.95, not supported where ≤ 0.05, else inconclusive; the gate comes first."""
        return self.status if self.draws.diagnostics.failures() else verdict(self.probabilities[ORDER])

    def updates(self, *, seed: int | None = None) -> dict[str, Update]:
        """Standard deviations of the blocks, shares and τ before and after the data."""
        chosen = self.seed if seed is None else seed
        before = prior_blocks(
            self.design, total_sd=self.total_sd, concentration=self.concentration, lab_df=self.lab_df, seed=chosen
        )
        found = {"total_sd": Update(prior=before["total"], posterior=self.quantities["total_sd"].ravel())}
        for b, name in enumerate(BLOCKS):
            for kind in ("sd", "share"):
                after = self.quantities[f"{kind}_{name}"].ravel()
                found[f"{kind}_{name}"] = Update(prior=before[kind][:, b], posterior=after)
        return found

    def replicates(self, *, seed: int | None = None) -> dict[str, Replicates]:
        """Mean log gains of new models with the same labs, geometry and scale beside those observed."""
        from thermostats.modelling.heritage_checks import model_statistics, new_models  # noqa: PLC0415 (imports this)

        replicated = new_models(self, self.seed if seed is None else seed)
        observed, _ = self.design.means()
        return {
            "models": Replicates(observed=observed, replicated=replicated, statistics=model_statistics(self.design))
        }

    def check(self, *, seed: int | None = None) -> checks.Gate:
        """All checks of this fit, as `heritage_checks.check` makes them."""
        from thermostats.modelling.heritage_checks import check  # noqa: PLC0415 (it imports this module)

        return check(self, seed=self.seed if seed is None else seed)

    def plot(self, axes: Axes) -> Axes:
        """Finite-population standard deviations of the blocks with their intervals."""
        from thermostats.reporting.plots import forest  # noqa: PLC0415 (matplotlib is loaded when a figure is drawn)

        rows = self.summary().set_index("quantity").loc[[f"sd_{name}" for name in BLOCKS]].reset_index()
        rows["quantity"] = [name if name != "model" else "single model" for name in BLOCKS]
        axes = forest(rows, axes, label="quantity", estimate="median", null=0.0)
        axes.set_xlabel(f"standard deviation over models, log {self.estimand.replace('_', ' ')}")
        return axes

    def table(self, name: str) -> pd.DataFrame:
        """One of `tables`."""
        if name not in self.tables:
            raise UsageError("no such table in the fit", got=name, allowed=", ".join(self.tables))
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as JSON takes it: missing and infinite numbers are null."""
        return {
            "family": self.family,
            "estimand": self.estimand,
            "sources": list(self.sources),
            "n_models": self.n_models,
            "n_heritages": self.n_heritages,
            "method": self.method,
            "status": self.status,
            "verdict": self.verdict(),
            "level": self.level,
            "seed": self.seed,
            "equations": list(self.equations),
            "priors": [list(line) for line in self.priors],
            "versions": dict(self.draws.versions),
            "gate": {self.family: list(self.draws.diagnostics.failures())},
            "summary": records(self.summary()),
            "probabilities": dict(self.probabilities),
            "tables": {name: records(table) for name, table in self.tables.items()},
            "warnings": list(self.warnings),
        }


def fit_heritage(
    table: pd.DataFrame,
    *,
    estimand: str,
    seed: int,
    concentration: float = 1.0,
    lab_df: float = 0.0,
    residualise: str = "",
    method: str = AUTO,
    settings: Settings = CAREFUL,
    cache: bool = True,
    progress: bool | None = None,
) -> HeritageFit:
    """Fit the heritage model to a table of gains.

    `table`: as `heritage_rows.gain_rows(estimand)` gives it: model_id, heritage, n_layers, n_heads, d_head, n_params
    and `gain`, one row per prompt (`prompt_id`, `category`) or one row with `gain_sd` and `n_prompts`; `family` where
    known. `estimand` names the gain and sets the prior scale of τ. `lab_df` above 2: Student-t lab effects;
    `residualise`: see `design`. `method`: sampling, or the closed form of the models' means, which `auto` takes for
    more than `LARGE_STUDY` models.

    Raises UsageError as `design` does, for gains that are all the same, and for Student-t effects in closed form.
    """
    if concentration <= 0 or (lab_df and lab_df <= 2):
        raise UsageError(
            "priors out of range", got=f"concentration {concentration}, lab_df {lab_df}",
            allowed="concentration above 0; lab_df 0 or above 2",
        )  # fmt: skip
    if method not in (AUTO, SAMPLING, CLOSED):
        raise UsageError("no such method", got=method, allowed=f"{AUTO}, {SAMPLING}, {CLOSED}")
    laid_out = design(table, estimand, residualise=residualise)
    numbers(np.concatenate([laid_out.y, laid_out.average]), f"log {estimand}", varied=True)
    total_sd = SUMMED_TOTAL_SD if estimand in SUMMED else TOTAL_SD
    chosen = method if method != AUTO else CLOSED if laid_out.n_models > LARGE_STUDY else SAMPLING
    said = laid_out.warnings
    if chosen == CLOSED:
        if lab_df:
            raise UsageError("Student-t lab effects have no closed form", got=lab_df, allowed=f"method {SAMPLING}")
        said = (*said, "closed form of the models' means: the spread over prompts is normal, categories are averaged")
        draws = closed_form(
            laid_out, total_sd=total_sd, concentration=concentration, seed=seed, settings=settings
        )  # fmt: skip
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
        seed=seed,
        prior=prior_orders(laid_out, concentration=concentration, lab_df=lab_df, seed=seed),
        warnings=said,
    )


def verdict(probability: float) -> str:
    """The decision rule for an order of blocks."""
    return SUPPORTED if probability >= SUPPORTED_ABOVE else AGAINST if probability <= AGAINST_BELOW else OPEN


def prior_orders(laid_out: Design, *, concentration: float, lab_df: float = 0.0, seed: int) -> dict[str, float]:
    """Prior probabilities of the orders on this design, by simulation; τ, which multiplies all blocks, is left out."""
    drawn = prior_blocks(laid_out, total_sd=1.0, concentration=concentration, lab_df=lab_df, seed=seed)
    return gaussian.orders(drawn["sd"])


def _per_lab(values: Array, laid_out: Design) -> Array:
    """Means over the models of every lab, along the last axis."""
    indicators = np.eye(len(laid_out.labs))[laid_out.lab] / laid_out.lab_sizes()[laid_out.lab][:, None]
    return np.asarray(values @ indicators)
