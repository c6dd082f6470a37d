"""How spectra of attention scale with rate and decay: both exponents, of which the one-parameter law makes one.

log σ = a_o + b·(synthetic) + p log rate − q log decay + e over recipes, a_o the optimiser's level. Where rate and decay
balance, σ goes as √(rate/decay), p = q = ½.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.noise import Errors, Noise, Random
from thermostats.claims.result import Estimate, Result
from thermostats.claims.worlds import World, Worlds
from thermostats.claims.worlds.world import RATIO, Outcomes
from thermostats.studies.nursery.rows import by_t, slope_within

LAW, MARGIN = 0.5, 0.25
"""Exponents of the law; half of it up or down is no longer it."""
SCATTER, CORPUS = 0.3, 0.35
"""SD of what else differs between recipes, as in the design's simulation (rules.csv), and what the corpus does."""
FOUND = 0.5
"""That SD as the second study's recipes have it."""
RATE, DECAY, SINGLE = "exponent of rate", "exponent of 1/decay", "power of √(rate/decay)"
INTERVAL = "95% t interval over recipes"


def exponents(rows: pd.DataFrame) -> Result:
    """Least squares of `spectrum` on log_rate and log_decay, and on log_ratio alone, given optimiser and corpus."""

    def of(term: str, *others: str) -> Estimate:
        return by_t(*slope_within(rows, "spectrum", term, "optimiser", [*others, "synthetic"]), INTERVAL)

    decay = of("log_decay", "log_rate")
    value, lower, upper = (-end for end in (decay.value, decay.upper, decay.lower) if end is not None)
    quantities = {
        RATE: of("log_rate", "log_decay"),
        DECAY: Estimate(value, lower, upper, INTERVAL, decay.p),
        SINGLE: of("log_ratio"),
    }
    return Result.of(rows, quantities, estimate=DECAY, table=None)


KINDS = ("normal", "t3", "heteroscedastic labs")


def worlds() -> Worlds:
    """Both exponents as the law has them, and at the edges of the margin or where one of the two does nothing.

    SDs are as designed or as found.
    """
    others = {
        "both weak": (LAW - MARGIN, LAW - MARGIN),
        "weak rate": (LAW - MARGIN, LAW),
        "strong rate": (LAW + MARGIN, LAW),
        "rate alone": (LAW, 0.0),
        "decay alone": (0.0, LAW),
        "neither": (0.0, 0.0),
    }
    box = {"ratio": RATIO, "scatter": (SCATTER, FOUND)}
    return Worlds(_tried, (LAW, LAW), (LAW, LAW - MARGIN), box, KINDS, others)


def _tried(both: tuple[float, float], *, kind: str, ratio: float, scatter: float) -> World:
    rate, decay = both
    errors = Errors(kind, along="log_rate", ratio=ratio)
    words = f"exponents {rate:.3g} of rate and {decay:.3g} of 1/decay, SD {scatter:.3g}, {errors.words}"
    return World(words, partial(_changed, rate, decay, scatter), errors)


def _changed(rate: float, decay: float, scatter: float, rows: pd.DataFrame, noise: Noise, _: Random) -> Outcomes:
    x = rows[["log_rate", "log_decay", "synthetic"]].to_numpy(np.float64)
    return {"spectrum": x @ np.array([rate, -decay, CORPUS]) + scatter * noise(rows)}
