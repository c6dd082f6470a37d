"""Means of several models, each fitted to rows of its own, as one fit: what holds of all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.inference import checks
from thermostats.modelling.inference.fitted import Fitted, Part
from thermostats.modelling.inference.interface import Update


def side_by_side(fits: Mapping[str, Fitted]) -> Fitted:
    """Fits of `fit_line` without covariates, by name, as one: P(all means < 0) from draws independent of each other.

    Give every fit a seed of its own. Quantities: those that all fits have, chain × draw × fit, of as many draws as the
    shortest has. Table `means`: mean, its interval and P(mean < 0) of every fit by all its draws; `rows`: outcomes. The
    gate holds the checks of every fit.

    Raises UsageError for no fits, and for fits of different outcomes.
    """
    if len({fit.estimand for fit in fits.values()}) != 1:
        raise UsageError("fits of one outcome can stand side by side", got=sorted({f.estimand for f in fits.values()}))
    first = next(iter(fits.values()))
    shortest = min(fit.quantities["mean"].shape[1] for fit in fits.values())
    common = [name for name in first.quantities if all(name in fit.quantities for fit in fits.values())]
    quantities = {
        name: np.stack([fit.quantities[name][:, :shortest] for fit in fits.values()], axis=-1) for name in common
    }
    mean = quantities["mean"]
    return replace(
        first,
        sources=tuple(dict.fromkeys(source for fit in fits.values() for source in fit.sources)),
        n_models=sum(fit.n_models for fit in fits.values()),
        n_heritages=len({lab for fit in fits.values() for lab in fit.table("rows")["heritage"]}),
        parts={name: _named(name, part) for name, fit in fits.items() for part in fit.parts.values()},
        quantities=quantities,
        probabilities={
            "every mean < 0": float((mean < 0).all(axis=-1).mean()),
            "every mean > 0": float((mean > 0).all(axis=-1).mean()),
        },
        numbers={},
        tables={
            "means": pd.DataFrame([_mean(name, fit) for name, fit in fits.items()]),
            "rows": pd.concat([fit.table("rows").assign(model_id=name) for name, fit in fits.items()]),
        },
        warnings=tuple(f"{name}: {said}" for name, fit in fits.items() for said in fit.warnings),
        figure=_figure,
        influence=partial(_influence, fits) if any(fit.influence for fit in fits.values()) else None,
        labels=dict.fromkeys(common, tuple(fits)),
    )


def _mean(name: str, fit: Fitted) -> dict[str, object]:
    """One fit's mean by all of its draws."""
    drawn = fit.quantities["mean"]
    lower, upper = np.quantile(drawn, [(1 - fit.level) / 2, (1 + fit.level) / 2])
    return {"model_id": name, "mean": drawn.mean(), "lower": lower, "upper": upper, "p_below_0": (drawn < 0).mean()}


def _named(name: str, part: Part) -> Part:
    """The part with its fit's name at the names of what it updates."""

    def updates(seed: int) -> dict[str, Update]:
        return {f"{quantity}, {name}": update for quantity, update in part.updates(seed).items()}

    return replace(part, updates=updates)


def _influence(fits: Mapping[str, Fitted], seed: int) -> checks.Check:
    found = []
    for name, fit in fits.items():
        if fit.influence is not None:
            check = fit.influence(seed)
            table = check.table.assign(left_out=name + " without " + check.table["left_out"].astype(str))
            reason = check.reason if check.outcome == checks.PASSED else f"{name}: {check.reason}"
            found.append(replace(check, reason=reason, table=table))
    return checks.joined(found)


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    """Outcomes of every fit as dots, and the interval of their mean."""
    rows, means = fitted.table("rows"), fitted.table("means")
    at = np.arange(len(means))
    for place, name in enumerate(means["model_id"]):
        own = rows.loc[rows["model_id"] == name, "outcome"]
        axes.plot(own, np.full(len(own), place - 0.18), "o", markersize=3, alpha=0.4, color="0.5")
    axes.hlines(at, means["lower"], means["upper"], linewidth=3, color="0.2")
    axes.plot(means["mean"], at, "o", color="0.2")
    axes.axvline(0, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_yticks(at, means["model_id"])
    axes.set_ylim(-0.6, len(means) - 0.4)
    axes.set_xlabel(f"{fitted.estimand.replace('_', ' ')}: outcomes (grey), mean with {fitted.level:.0%} interval")
    return axes
