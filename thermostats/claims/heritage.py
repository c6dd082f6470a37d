"""What pages show of a fit of the heritage model: figures with their captions, and tables by their titles."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pandas as pd

from thermostats.claims.posterior import Panel
from thermostats.formatting import number
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.left_out import leave_one_out
from thermostats.plots.posterior import left_out_errors

TITLES = {
    "orders": "orders of the blocks",
    "labs": "labs: P(dampens) of the mean of these models, of the lab's population of models, and of its next model",
    "superpopulation": "standard deviation over all labs there could be, which decides nothing",
    "classical": "classical counterparts",
    "dominance": "dominance and its permutation null",
    "commonality": "unique and common parts",
}


def tables_of(fit: Fit, names: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Tables of a fit by their titles."""
    return {TITLES.get(name, name): fit.table(name) for name in names}


def variance_shares(fit: Fit) -> Panel:
    """Shares of the blocks."""
    caption = "Posterior share of every block in the variance over models, with its prior mean."
    return Panel(name="variance-shares", draw=lambda axes: fit.plot("shares", axes), caption=caption)


def orders(fit: Fit) -> Panel:
    """Orders of the blocks, of which the longest without families is the one that is named."""
    table = fit.table("orders")
    row = table.loc[table["statement"].str.count(">").idxmax()]
    return Panel(
        name="orders",
        draw=lambda axes: fit.plot("orders", axes),
        caption=f"Posterior and prior probability of every order. P({row['statement']}) = {number(row['probability'])} "
        f"against {number(row['prior'])} before the data, a Bayes factor of {number(row['bayes_factor'])}.",
    )


def labs(fit: Fit) -> Panel:
    """Effects of labs."""
    caption = "Effect of every lab on the log gain, partially pooled, with P(the mean of these models dampens)."
    return Panel(name="labs", draw=lambda axes: fit.plot("labs", axes), caption=caption)


def left_out_panel(fit: Fit, by: str) -> Panel:
    """Predictions without every model, or without every lab (`by` as in `leave_one_out`)."""
    held = leave_one_out(fit, by=by)
    what, helped = ("model", "its lab") if by == "model" else ("lab", "geometry and scale")
    gained = f"{number(held.elpd_difference)} ± {number(held.elpd_difference_error, 2)}"
    return Panel(
        name=f"left-out-{what}",
        draw=partial(left_out_errors, held.predictions),
        caption=f"Every model predicted without its {what}: root mean squared error {number(held.rmse)}, the mean "
        f"of the others {number(held.rmse_baseline)}; {held.coverage:.0%} lie in their intervals. Knowing {helped} "
        f"changes the log predictive density by {gained}.",
    )


def panels_of(fit: Fit) -> tuple[Panel, ...]:
    """Every panel of a heritage fit: shares, orders, labs, predictions without a model and without a lab."""
    return (variance_shares(fit), orders(fit), labs(fit), left_out_panel(fit, "model"), left_out_panel(fit, "heritage"))
