"""From a fit of any family to what a page shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.claims.posterior import Panel, Posterior
from thermostats.claims.verdict import SURE, if_probable
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import equal_tailed
from thermostats.modelling.inference.fitted import Fitted, Update
from thermostats.plots.posterior import posterior_predictive_panels, prior_to_posterior
from thermostats.words import chance_of

MOST_UPDATED = 12
"""Quantities that the figure of priors and posteriors can hold."""


def posterior_of(
    fit: Fitted,
    *,
    model: str,
    statement: str,
    truth: NDArray[np.bool_] | None = None,
    verdict: str | None = None,
    rule: str = "",
    classical: str,
    classical_rule: str = "",
    classical_result: str = "",
    tables: Mapping[str, pd.DataFrame] | Sequence[str] = (),
    sensitivity: pd.DataFrame | None = None,
    panels: Sequence[Panel] = (),
) -> Posterior:
    """The page's record of a fit, all its checks run.

    model: what was fitted to what, in one sentence. statement: one of `fit.probabilities`, or any other with its
    `truth`, chain × draw. verdict and rule: by the probability of the statement at SURE unless both are given.
    classical: verdict of the classical test. tables: names of the fit's tables to show, or titles with tables.
    sensitivity: alternatives, by default the fit's own table of them. panels: figures beside the three that every fit
    has.
    """
    gate = fit.check()
    probability = float(truth.mean()) if truth is not None else float(fit.probabilities[statement])
    chosen = (
        tables
        if isinstance(tables, Mapping)
        else {fit.titles.get(name, name.replace("_", " ")): fit.table(name) for name in tables}
    )
    summary = fit.summary()
    drawn = list(fit.sampled.values())
    said = chance_of(f"P({statement})", probability)
    return Posterior(
        model=model,
        equations=fit.equations,
        priors=fit.priors,
        rule=rule
        or f"Supported where P({statement}) is at least {SURE:g}, not supported where it is at most "
        f"{1 - SURE:.2g}, else inconclusive.",
        statement=f"P({statement})",
        probability=probability,
        verdict=verdict or if_probable(probability),
        gate=gate,
        diagnostics=fit.diagnostics(),
        summary=summary.assign(mcse=summary["sd"] / np.sqrt(summary["ess_bulk"])),
        sensitivity=fit.tables.get("sensitivity") if sensitivity is None else sensitivity,
        tables=dict(chosen),
        panels=(
            Panel(
                name="posterior", draw=fit.plot, caption=f"{model} {said}; intervals are equal-tailed, {fit.level:.0%}."
            ),
            *_updated(fit),
            *(
                Panel(
                    name=f"{check.name.split(': ')[0]}-predictive".replace(" ", "-"),
                    draw=partial(posterior_predictive_panels, check.table),
                    caption=f"Test quantities of data that the fitted model gives again, and as observed: "
                    f"{check.reason}.",
                )
                for check in gate.checks
                if check.name.endswith("posterior predictive")
            ),
            *panels,
        ),
        warnings=fit.warnings,
        seed=fit.seed,
        versions=drawn[0].versions,
        classical=classical,
        classical_rule=classical_rule,
        classical_result=classical_result,
        sources=fit.sources,
        computation=" ".join(
            f"{name}: {draws.settings.chains * draws.settings.draws} independent draws, without chains."
            if draws.exact
            else f"{name}: {draws.settings.sampler}, {draws.settings.chains} chains of {draws.settings.draws} draws "
            f"after {draws.settings.tune} of adaptation, target acceptance {draws.settings.target_accept:g}, "
            f"{'one attempt' if draws.attempts == 1 else 'second attempt, with smaller steps and twice the draws'}."
            for name, draws in fit.sampled.items()
        ),
        probability_error=_error(fit, probability, truth),
    )


def update_table(updates: Mapping[str, Update], level: float) -> pd.DataFrame:
    """Median and interval of every quantity before and after the data: quantity, stage, median, lower, upper."""
    rows = []
    for name, update in updates.items():
        for stage, values in (("prior", update.prior), ("posterior", update.posterior)):
            lower, upper = equal_tailed(values, level)
            rows.append((name, stage, float(np.median(values)), float(lower), float(upper)))
    return pd.DataFrame(rows, columns=["quantity", "stage", "median", "lower", "upper"])


def _updated(fit: Fitted) -> tuple[Panel, ...]:
    updates = fit.updates()
    if not updates:
        return ()
    table = update_table(dict(list(updates.items())[:MOST_UPDATED]), fit.level)
    wide = table.assign(width=table["upper"] - table["lower"]).pivot(index="quantity", columns="stage", values="width")
    narrowed = (wide["posterior"] / wide["prior"]).sort_values()
    learned = f"{narrowed.index[0]} narrowed most, to {narrowed.iloc[0]:.0%} of its prior interval"
    return (
        Panel(
            name="prior-to-posterior",
            draw=partial(_draw_updates, table),
            caption=f"Quantities before and after the data: {learned}.",
        ),
    )


def _draw_updates(table: pd.DataFrame, axes: Axes) -> Axes:
    return prior_to_posterior(table, axes)


def _error(fit: Fitted, probability: float, truth: NDArray[np.bool_] | None) -> float:
    """Monte-Carlo error of a probability; where its draws are not known by the smallest effective sample of the fit."""
    if truth is None:
        return float(np.sqrt(probability * (1 - probability) / ess_min(fit)))
    values = truth.astype(np.float64)
    return sampling.mcse(values) if np.ptp(values) > 0 else 0.0


def ess_min(fit: Fitted) -> float:
    """Smallest effective sample size, bulk or tail, of any part."""
    return min(min(d.diagnostics.ess_bulk_min, d.diagnostics.ess_tail_min) for d in fit.sampled.values())
