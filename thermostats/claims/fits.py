"""From a fit of any law to what a page shows of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pandas as pd

import thermostats
from thermostats.claims import conditions, rule
from thermostats.claims.finding import Convergence
from thermostats.claims.posterior import Computation, Conclusion, FittedModel, Panel, Undrawn
from thermostats.claims.result import Result
from thermostats.errors import DataError
from thermostats.formatting import chance_of
from thermostats.modelling.display import updates
from thermostats.modelling.draws import KIND, mcse, versions
from thermostats.modelling.fit import Fit
from thermostats.plots.posterior import posterior_predictive_panels, prior_to_posterior
from thermostats.settings import THOROUGH_VARIABLE

MOST_UPDATED = 12
"""Quantities that the figure of priors and posteriors can hold."""


def posterior_of(result: Result, rule_asked: rule.Posterior, model: str, test: rule.Rule | None = None) -> FittedModel:
    """The page's record of a result's fit, its checks run; with refits of the exact engine, of others where asked for.

    rule_asked: the rule on its posterior. model: what was fitted to what, in one sentence. test: the classical rule.
    Raises DataError where the result has no fit.
    """
    fit = result.inference.fit
    if fit is None:
        raise DataError("a rule asks for a posterior, but the result has no fit", got=rule_asked.statement)
    statements = rule_asked.statements_of(result)
    gate = fit.check(statements, refits=fit.draws.exact or THOROUGH_VARIABLE in os.environ)
    statement, probability = f"P({rule_asked.stated(result)})", rule_asked.probability(result)
    tables = result.inference.tables
    if not isinstance(tables, Mapping):
        tables = {name.replace("_", " "): fit.table(name) for name in tables}
    caption = f"{model} {chance_of(statement, probability)}; intervals are equal-tailed, {fit.level:.0%}."
    replicated = next(check for check in gate.checks if check.name == "posterior predictive")
    conclusion = Conclusion(
        rule=_sentence(rule_asked),
        statement=statement,
        probability=probability,
        error=_error(fit, probability, rule_asked.truth(result)),
        verdict=rule_asked.verdict(result),
        classical=test.verdict(result) if test else "",
        classical_rule=_sentence(test) if test else "",
    )
    computation = Computation(
        words=_drawn_by(fit),
        diagnostics=fit.draws.diagnostics,
        seed=fit.seed,
        versions=versions(),
        drawn="" if fit.draws.exact else _drawn_with(),
        warnings=fit.warnings,
    )
    return FittedModel(
        model=model,
        equations=fit.law.equations,
        priors=fit.law.priors,
        sources=fit.sources,
        conclusion=conclusion,
        gate=gate,
        computation=computation,
        summary=_summary(fit),
        sensitivity=next(check.table for check in gate.checks if check.name == "prior sensitivity"),
        tables=dict(tables),
        panels=(
            Panel(name="posterior", draw=lambda axes: fit.plot(axes=axes), caption=caption),
            _before_and_after(fit),
            Panel(
                name="posterior-predictive",
                draw=partial(posterior_predictive_panels, replicated.table),
                caption=f"Test quantities of posterior predictive replications, and as observed: {replicated.reason}.",
            ),
            *result.inference.panels,
        ),
    )


def _summary(fit: Fit) -> pd.DataFrame:
    """A row a quantity, with kind and level of the interval, convergence, and the Monte-Carlo error of the mean."""
    convergence = fit.convergence()
    table = fit.summary().assign(kind=KIND, level=fit.level).join(convergence)
    size = table["ess_bulk"] if len(convergence) else fit.draws.effective
    return table.assign(mcse=table["sd"] / np.sqrt(size)).dropna(axis=1, how="all").reset_index()


def _before_and_after(fit: Fit) -> Panel:
    table = updates(fit)
    table = table[table["quantity"].isin(table["quantity"].unique()[:MOST_UPDATED])]
    wide = table.assign(width=table["upper"] - table["lower"]).pivot(index="quantity", columns="stage", values="width")
    narrowed = (wide["posterior"] / wide["prior"]).sort_values()
    learned = f"{narrowed.index[0]} narrowed most, to {narrowed.iloc[0]:.0%} of its prior interval"
    caption = f"Quantities before and after the data: {learned}."
    return Panel(name="prior-to-posterior", draw=partial(prior_to_posterior, table), caption=caption)


def _drawn_by(fit: Fit) -> str:
    """How a posterior was drawn, in one sentence."""
    draws, used = fit.draws, fit.draws.settings
    if draws.exact:
        return f"{draws.size} independent draws by the exact engine: scales by importance weights, all else given them."
    attempts = "one attempt" if draws.attempts == 1 else "second attempt, with smaller steps and twice the draws"
    return (
        f"NUTS by {draws.engine}, {used.chains} chains of {used.draws} draws after {used.tune} of adaptation, target "
        f"acceptance {used.target_accept:g}, {attempts}."
    )


def _drawn_with() -> str:
    """Versions of what draws, and the day."""
    there = {"thermostats": thermostats.__version__, **versions()}
    return f"{', '.join(f'{name} {number}' for name, number in there.items())}; {datetime.now(UTC):%Y-%m-%d}"


def undrawn(result: Result, rule_asked: rule.Posterior, model: str) -> Undrawn:
    """The record of a result's fit that is left for later."""
    return Undrawn(model=model, rule=_sentence(rule_asked), statement=f"P({rule_asked.stated(result)})")


def convergence(fit: Fit) -> Convergence:
    """Largest R-hat and divergences of what was sampled, and the smallest effective number of draws."""
    worst = fit.draws.diagnostics.set_index("diagnostic")["worst"]
    divergences = worst.get("divergences")
    counted = None if divergences is None else int(divergences)
    return Convergence(worst.get("R-hat"), fit.draws.effective, counted)


def _sentence(rule_asked: rule.Rule) -> str:
    words = rule_asked.words()
    return f"{words[0].upper()}{words[1:]}, else inconclusive."


def _error(fit: Fit, probability: float, truth: conditions.Truth | None) -> float:
    """Monte-Carlo error of a probability; where its draws are not known by the effective number of the fit."""
    if truth is None:
        return float(np.sqrt(probability * (1 - probability) / fit.draws.effective))
    values = truth.astype(np.float64)
    return mcse(values) if np.ptp(values) > 0 else 0.0
