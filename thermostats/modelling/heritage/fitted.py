"""What the heritage model gives: its tables, probabilities of orders of blocks, and the rule that decides by them.

The model and its fit are in `heritage`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED
from thermostats.errors import UsageError
from thermostats.modelling.heritage import classical as heritage_classical
from thermostats.modelling.heritage.blocks import BLOCKS, ORDER, Design, bayes_factor, block_sds, orders, stacked_sds
from thermostats.modelling.heritage.model import (
    EQUATIONS,
    FAMILY_EQUATION,
    block_contributions,
    heritage_levels,
    prior_blocks,
    priors,
)
from thermostats.modelling.heritage.shares import Dominance
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.calibration import Calibration, calibrate
from thermostats.modelling.inference.draws import LEVEL, Array, Draws
from thermostats.modelling.inference.fitted import Prior, Replicates, Update, new_axes, records, sampler_table

SUPPORTED_ABOVE, AGAINST_BELOW = 0.95, 0.05


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
        sds = {f"sd_{name}": block_sds(part) for name, part in self.contributions.items()}
        levels = heritage_levels(self.design, self.draws) if self.design.families else {}
        shares = {f"share_{name}": self.draws["share"][..., b] for b, name in enumerate(BLOCKS)}
        shape = heritage_classical.shape_parts(self.contributions["geometry"], self.contributions["scale"], self.design)
        return {
            **sds,
            **{f"sd_{name}": block_sds(part) for name, part in levels.items()},
            **shares,
            "total_sd": self.draws["tau"],
            "mean_log_gain": self.draws["m"].mean(axis=-1),
            **shape,
        }

    @cached_property
    def probabilities(self) -> dict[str, float]:
        """Posterior probability of every order of blocks."""
        return orders(stacked_sds(self.contributions))

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
                "bayes_factor": bayes_factor(probability, self.prior[statement]),
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
        from thermostats.modelling.heritage.checks import model_statistics, new_models  # noqa: PLC0415 (imports this)

        replicated = new_models(self, self.seed if seed is None else seed)
        observed, _ = self.design.means()
        return {
            "models": Replicates(observed=observed, replicated=replicated, statistics=model_statistics(self.design))
        }

    def check(self, *, seed: int | None = None) -> checks.Gate:
        """All checks of this fit, as `heritage_checks.check` makes them."""
        from thermostats.modelling.heritage.checks import check  # noqa: PLC0415 (it imports this module)

        return check(self, seed=self.seed if seed is None else seed)

    def calibrate(
        self,
        simulations: int = 200,
        *,
        seed: int | None = None,
        cache: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Calibration:
        """Simulation-based calibration on this design, as `calibration.calibrate` makes it: one refit a simulation."""
        from thermostats.modelling.heritage.calibration import of_fit  # noqa: PLC0415 (it imports this module)

        chosen = self.seed if seed is None else seed
        return calibrate(of_fit(self), simulations, seed=chosen, cache=cache, progress=progress)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Finite-population standard deviations of the blocks with their intervals, onto the axes or a new figure's."""
        from thermostats.plots.general import forest  # noqa: PLC0415 (matplotlib is loaded when a figure is drawn)

        rows = self.summary().set_index("quantity").loc[[f"sd_{name}" for name in BLOCKS]].reset_index()
        rows["quantity"] = [name if name != "model" else "single model" for name in BLOCKS]
        axes = forest(rows, axes or new_axes(), label="quantity", estimate="median", null=0.0)
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


def verdict(probability: float) -> str:
    """The decision rule for an order of blocks."""
    return SUPPORTED if probability >= SUPPORTED_ABOVE else AGAINST if probability <= AGAINST_BELOW else OPEN


def _per_lab(values: Array, laid_out: Design) -> Array:
    """Means over the models of every lab, along the last axis."""
    indicators = np.eye(len(laid_out.labs))[laid_out.lab] / laid_out.lab_sizes()[laid_out.lab][:, None]
    return np.asarray(values @ indicators)
