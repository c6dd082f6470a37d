"""Standard errors of means of a few values: moderated over all means, and drawn where they are not known.

σ_i² ~ Inv-χ²(d_0, s_0²) over the means i, s_i² ~ σ_i² χ²(d_i)/d_i with d_i = n_i − 1, so that σ_i² given s_i² is
Inv-χ²(d_0 + d_i) about (d_0 s_0² + d_i s_i²)/(d_0 + d_i); Smyth 2004, doi:10.2202/1544-6115.1027.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special, stats

from thermostats.modelling.draws import Array

CENTRE, FACTOR = (-3.0, 1.5), (math.log(0.5), 0.5)
"""Normal priors, mean and standard deviation: of log s_0, and of the log of the standard deviation of log σ_i."""
SMALLEST = 1e-5
"""Standard deviation of values that are all alike."""
NODES = 64
"""Equally likely values of a squared error among which it is drawn."""
NEAR_INFINITE = 1e6


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
