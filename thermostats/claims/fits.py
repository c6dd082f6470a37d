"""From a fit of any family to what a page shows of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.choices import options
from thermostats.claims import rule
from thermostats.claims.posterior import Panel, Posterior
from thermostats.claims.result import Result
from thermostats.errors import DataError
from thermostats.modelling.display import updates
from thermostats.modelling.draws import mcse, versions
from thermostats.modelling.fit import Fit
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Draws, Weights
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.inference.shown import update_table
from thermostats.plots.posterior import posterior_predictive_panels, prior_to_posterior
from thermostats.words import chance_of

MOST_UPDATED = 12
"""Quantities that the figure of priors and posteriors can hold."""


def of_fit(result: Result, asked: rule.Posterior, model: str, test: rule.Rule | None) -> Posterior:
    """The page's record of a fit: its checks run, refits only where they are exact and cheap or asked for."""
    fit: Fit = result.fit  # type: ignore[assignment]
    refits = fit.draws.exact or options.thorough
    statements, summary = asked.asked(result), fit.summary()
    gate = fit.check(statements, refits=refits)
    statement, probability = f"P({asked.stated(result)})", asked.probability(result)
    tables = result.fit_tables
    if not isinstance(tables, Mapping):
        tables = {name.replace("_", " "): fit.table(name) for name in tables}
    caption = f"{model} {chance_of(statement, probability)}; intervals are equal-tailed, {fit.level:.0%}."
    replicated = next(check for check in gate.checks if check.name == "posterior predictive")
    effective = summary.get("ess_bulk", fit.draws.effective)
    truth = asked.truth(result)
    return Posterior(
        model=model,
        equations=fit.law.equations,
        priors=fit.law.priors,
        rule=_sentence(asked),
        statement=statement,
        probability=probability,
        verdict=asked.verdict(result),
        gate=gate,
        diagnostics=fit.draws.diagnostics,
        summary=summary.assign(mcse=summary["sd"] / np.sqrt(effective)),
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
            *result.panels,
        ),
        warnings=fit.warnings,
        seed=fit.seed,
        versions=versions(),
        classical=test.verdict(result) if test else "",
        classical_rule=_sentence(test) if test else "",
        sources=fit.sources,
        computation=_drawn_by(fit),
        probability_error=(
            float(np.sqrt(probability * (1 - probability) / fit.draws.effective))
            if truth is None
            else mcse(truth.astype(np.float64))
            if np.ptp(truth.astype(np.float64)) > 0
            else 0.0
        ),
    )


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


def posterior_of(result: Result, asked: rule.Posterior, model: str, test: rule.Rule | None = None) -> Posterior:
    """The page's record of a result's fit, all its checks run.

    asked: the rule on its posterior. model: what was fitted to what, in one sentence. test: the classical rule.
    Raises DataError where the result has no fit.
    """
    fit = result.fit
    if fit is None:
        raise DataError("a rule asks for a posterior, but the result has no fit", got=asked.statement)
    if isinstance(fit, Fit):
        return of_fit(result, asked, model, test)
    said, summary = asked.asked(result), fit.summary()
    gate = fit.check(said)
    statement = f"P({asked.stated(result)})"
    probability = asked.probability(result)
    tables = result.fit_tables
    if not isinstance(tables, Mapping):
        tables = {fit.titles.get(name, name.replace("_", " ")): fit.table(name) for name in tables}
    caption = f"{model} {chance_of(statement, probability)}; intervals are equal-tailed, {fit.level:.0%}."
    found = Posterior(
        model=model,
        equations=fit.equations,
        priors=fit.priors,
        rule=_sentence(asked),
        statement=statement,
        probability=probability,
        verdict=asked.verdict(result),
        gate=gate,
        diagnostics=fit.diagnostics(),
        summary=summary.assign(mcse=summary["sd"] / np.sqrt(_sizes(fit, summary))),
        sensitivity=fit.sensitivity(said),
        tables=dict(tables),
        panels=(
            Panel(name="posterior", draw=fit.plot, caption=caption),
            *_updated(fit),
            *(
                Panel(
                    name=f"{check.name.split(': ')[0]}-predictive".replace(" ", "-"),
                    draw=partial(posterior_predictive_panels, check.table),
                    caption=f"Test quantities of posterior predictive replications, and as observed: {check.reason}.",
                )
                for check in gate.checks
                if check.name.endswith("posterior predictive")
            ),
            *result.panels,
        ),
        warnings=fit.warnings,
        seed=fit.seed,
        versions=next(iter(fit.sampled.values())).versions,
        classical=test.verdict(result) if test else "",
        classical_rule=_sentence(test) if test else "",
        sources=fit.sources,
        computation=" ".join(_computation(name, draws) for name, draws in fit.sampled.items()),
        probability_error=_error(fit, probability, asked.truth(result)),
    )
    return in_words(found, fit.called) if fit.called else found


def in_words(found: Any, called: Mapping[str, str]) -> Any:
    """A record, table, mapping, sequence or text with words called otherwise, those of file names and parts too."""
    same = partial(in_words, called=called)
    if isinstance(found, str):
        return re.sub("|".join(rf"(?<![A-Za-z]){word}(?![A-Za-z])" for word in called), lambda m: called[m[0]], found)
    if isinstance(found, pd.DataFrame):
        return found.rename(columns=same).map(same)
    if isinstance(found, Mapping):
        return {same(name): same(value) for name, value in found.items()}
    if isinstance(found, tuple):
        return tuple(map(same, found))
    if is_dataclass(found) and not isinstance(found, type):
        return replace(found, **{part.name: same(getattr(found, part.name)) for part in fields(found) if part.init})
    return found


def _updated(fit: Fitted) -> tuple[Panel, ...]:
    updates = fit.updates()
    if not updates:
        return ()
    table = update_table(dict(list(updates.items())[:MOST_UPDATED]), fit.level)
    wide = table.assign(width=table["upper"] - table["lower"]).pivot(index="quantity", columns="stage", values="width")
    narrowed = (wide["posterior"] / wide["prior"]).sort_values()
    learned = f"{narrowed.index[0]} narrowed most, to {narrowed.iloc[0]:.0%} of its prior interval"
    caption = f"Quantities before and after the data: {learned}."
    return (Panel(name="prior-to-posterior", draw=partial(prior_to_posterior, table), caption=caption),)


def _sentence(asked: rule.Rule) -> str:
    said = asked.words()
    return f"{said[0].upper()}{said[1:]}, else inconclusive."


def _computation(name: str, draws: Draws) -> str:
    """How a part was sampled, in one sentence."""
    own = draws.settings
    if draws.exact:
        return f"{name}: {own.chains * own.draws} independent draws, without chains."
    if draws.short:
        return f"{name}: {own.chains} groups of short chains started at weighted draws, {own.draws} draws a group."
    attempts = "one attempt" if draws.attempts == 1 else "second attempt, with smaller steps and twice the draws"
    return (
        f"{name}: {own.sampler}, {own.chains} chains of {own.draws} draws after {own.tune} of adaptation, target "
        f"acceptance {own.target_accept:g}, {attempts}."
    )


def _error(fit: Fitted, probability: float, truth: rule.Truth | None) -> float:
    """Monte-Carlo error of a probability; where its draws are not known by the smallest effective sample of the fit."""
    if truth is None:
        return float(np.sqrt(probability * (1 - probability) / ess_min(fit)))
    values = truth.astype(np.float64)
    return sampling.mcse(values) if np.ptp(values) > 0 else 0.0


def _sizes(fit: Fitted, summary: pd.DataFrame) -> pd.Series:
    """Effective number of draws of every quantity; of independent ones that of their weights, at most all."""
    weighed = min((draws.effective for draws in fit.sampled.values() if draws.exact), default=np.nan)
    return summary["ess_bulk"].fillna(weighed) if "ess_bulk" in summary else pd.Series(weighed, index=summary.index)


def ess_min(fit: Fitted) -> float:
    """Smallest effective sample size of any part."""
    return min(draws.effective for draws in fit.sampled.values())


def convergence(fit: Fitted | Fit) -> dict[str, float | int | None]:
    """Largest R-hat and divergences of what was sampled, and the smallest effective sample of it or of its weights."""
    if isinstance(fit, Fit):
        worst = fit.draws.diagnostics.set_index("diagnostic")["worst"]
        divergences = worst.get("divergences")
        return {
            "rhat_max": worst.get("R-hat"),
            "ess_min": fit.draws.effective,
            "divergences": None if divergences is None else int(divergences),
        }
    known = [draws.diagnostics for draws in fit.sampled.values()]
    chains = [own for own in known if not isinstance(own, Weights)]
    weighed = any(isinstance(own, Weights) and np.isfinite(own.effective) for own in known)
    return {
        "rhat_max": max((own.rhat_max for own in chains), default=None),
        "ess_min": ess_min(fit) if chains or weighed else None,
        "divergences": sum(own.divergences for own in chains) if chains else None,
    }
