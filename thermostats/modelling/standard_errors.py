"""Standard errors: those that a table states, and of means of a few values, moderated over all means and drawn.

σ_i² ~ Inv-χ²(d_0, s_0²) over the means i, s_i² ~ σ_i² χ²(d_i)/d_i with d_i = n_i − 1, so that σ_i² given s_i² is
Inv-χ²(d_0 + d_i) about (d_0 s_0² + d_i s_i²)/(d_0 + d_i); Smyth 2004, doi:10.2202/1544-6115.1027.
"""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, named, numbers
from thermostats.modelling.draws import Array

CENTRE, FACTOR = (-3.0, 1.5), (math.log(0.5), 0.5)
"""Normal priors, mean and standard deviation: of log s_0, and of the log of the standard deviation of log σ_i."""
SMALLEST = 1e-5
"""Standard deviation of values that are all alike."""
NODES = 64
"""Equally likely values of a squared error among which it is drawn."""
NEAR_INFINITE = 1e6


def stated(rows: pd.DataFrame, se: str | float, outcome: str) -> Array:
    """Standard errors of the outcome as given, of every row: a column's, or one for all.

    Raises UsageError for a column that is not there, and for errors that are missing or below 0.
    """
    if isinstance(se, str):
        columns_of(rows, se)
    elif isinstance(se, bool) or not isinstance(se, Real):
        step = f'df.assign({outcome}_se=…), and se="{outcome}_se"'
        what, allowed = "a standard error is a column or a number", "the name of a column, or a number from 0"
        raise UsageError(what, where="se", got=type(se).__name__, allowed=allowed, next_step=step)
    column = rows[se] if isinstance(se, str) else pd.Series(float(se), index=rows.index)
    lacking = column.isna()
    if lacking.any():
        units = named(set(rows.loc[lacking, "model_id"].astype(str)), 5) if "model_id" in rows else ""
        raise UsageError(
            "a standard error is missing",
            where=se,
            got=f"none of {units}" if units else f"{int(lacking.sum())} of {len(rows)} rows have none",
            allowed="a standard error of every row; 0 is an outcome without error",
            next_step=f'df = df.dropna(subset=["{se}"])',
        )
    errors = numbers(column, str(se), least=1)
    if (errors < 0).any():
        raise UsageError("a standard error below 0", where=se, got=f"{errors.min():g}", allowed="0 or above")
    return errors


def of_logs(rows: pd.DataFrame, se: str | float, outcome: str, values: Array) -> tuple[Array, str]:
    """Standard errors of log outcomes by the delta method, se/outcome, and the sentence that says so.

    Raises UsageError as `stated`, and for an error that is not below its outcome: its logarithm has no such error.
    """
    errors = stated(rows, se, outcome)
    if (large := errors >= values).any():
        first = int(np.flatnonzero(large)[0])
        divided = f'{se}=df["{se}"] / 100' if isinstance(se, str) else f"{outcome}_se={se} / 100"
        raise UsageError(
            f"is this the standard error of {outcome}? It is not smaller than {outcome} itself",
            where=se,
            got=f"{errors[first]:.4g} of {values[first]:.4g}, and {int(large.sum())} of {values.size} such rows",
            allowed=f"errors in the unit of {outcome}, one standard deviation, smaller than {outcome}",
            next_step=f"of per cent df = df.assign({divided}); rows known so badly are better left out",
        )
    return errors / values, f"errors of logs by the delta method: {se} / {outcome}"


def not_read(table: pd.DataFrame, outcome: str, se: str | float | None, *others: str) -> list[str]:
    """What a table says of errors and the fit does not read."""
    if se is None:
        return [
            f'{column} is not read: se="{column}" takes it as known' for column in (f"{outcome}_se",) if column in table
        ]
    if left := [name for name in others if name in table]:
        return [f"not read with se: {', '.join(left)}"]
    return []


def moderated(sd: Array, n: Array) -> tuple[Array, Array]:
    """Standard errors of means of n values with standard deviation `sd`, and their degrees of freedom.

    d_0 and s_0² are where likelihood and priors are largest. A single value (n = 1) has the others' spread. Where every
    mean is of one value nothing is known of errors: they are 0, exactly.
    """
    several = n > 1
    if not several.any():
        return np.zeros(n.size), np.full(n.size, np.inf)
    s, d = np.maximum(sd[several], SMALLEST), n[several] - 1

    def negative(x: Array) -> float:
        likelihood = stats.f.logpdf(np.square(s) * math.exp(-2 * x[0]), d, math.exp(x[1])) - 2 * x[0]
        log_factor = 0.5 * math.log(special.polygamma(1, math.exp(x[1]) / 2)) - math.log(2)
        return -float(likelihood.sum() + stats.norm.logpdf(x[0], *CENTRE) + stats.norm.logpdf(log_factor, *FACTOR))

    start = np.array([np.log(s).mean(), math.log(4)])
    log_s0, log_d0 = optimize.minimize(negative, start, method="Nelder-Mead").x
    d0, df = math.exp(log_d0), np.where(several, n - 1, 0.0)
    square = (d0 * math.exp(2 * log_s0) + df * np.square(np.where(several, np.maximum(sd, SMALLEST), 0.0))) / (d0 + df)
    return np.sqrt(square / n), d0 + df


def favour(error: Array, freedom: Array, square: Array, precision: Array, pulled: Array) -> tuple[Array, Array]:
    """Equally likely nodes of every squared error, error² ν/χ²(ν), and log probabilities to draw them by, n × nodes.

    Each is favoured as it alone changes the density of the outcomes, averaged over rows of draws: where squared errors
    are `square`, the inverse covariance P has the diagonal `precision`, and Py is `pulled`. A change by δ changes the
    log density by −½ log(1 + δP_ii) + ½ δ(Py)_i²/(1 + δP_ii).
    """
    nu = np.minimum(freedom, NEAR_INFINITE)[:, None]
    nodes = np.square(error)[:, None] * nu / stats.chi2.isf((np.arange(NODES) + 0.5) / NODES, nu)
    change = nodes - square[..., None]
    grown = 1 + change * precision[..., None]
    log_p = special.log_softmax(0.5 * (change * np.square(pulled)[..., None] / grown - np.log(grown)), axis=-1)
    return nodes, special.logsumexp(log_p, axis=0) - math.log(len(log_p))


def drawn_squares(nodes: Array, log_p: Array, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws of squared errors, size × n, and the log of how much likelier each row is made than it is."""
    places = [np.searchsorted(heights, rng.random(size)) for heights in np.cumsum(np.exp(log_p), axis=1)]
    at = np.arange(len(nodes)), np.minimum(np.stack(places, axis=1), NODES - 1)
    return nodes[at], (log_p[at] + math.log(NODES)).sum(axis=1)
