"""How spectra of attention scale with rate and decay: both exponents, of which the one-parameter law makes one.

log σ = a_o + b·(synthetic) + p log rate − q log decay + e over recipes, a_o the optimiser's level. Where rate and decay
balance, σ goes as √(rate/decay), p = q = ½.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.noise import ERRORS, Errors, Noise
from thermostats.claims.result import Estimate, Result
from thermostats.claims.worlds import Search, World, searches_among
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


def worlds() -> tuple[World, ...]:
    """Both exponents as the law has them, and at the edges of the margin or where one of the two does nothing."""
    others = {
        "both weak": (LAW - MARGIN, LAW - MARGIN),
        "weak decay": (LAW, LAW - MARGIN),
        "weak rate": (LAW - MARGIN, LAW),
        "strong rate": (LAW + MARGIN, LAW),
        "rate alone": (LAW, 0.0),
        "decay alone": (0.0, LAW),
        "neither": (0.0, 0.0),
    }
    kinds = ("normal", "t3", "heteroscedastic labs")
    made = [("as claimed", (LAW, LAW), kind) for kind in kinds]
    made += [(name, both, "normal") for name, both in others.items()]
    made += [("weak decay", others["weak decay"], kind) for kind in kinds[1:]]
    wide = [("as claimed", (LAW, LAW)), *((name, others[name]) for name in EDGES)]
    return (
        *(_tried(name, kind, *both) for name, both, kind in made),
        *(_as_wide(name, kind, *both) for name, both in wide for kind in kinds),
    )


EDGES = ("weak decay", "weak rate", "strong rate")
"""Where one of the two exponents lies at the edge of the margin."""


def searches() -> tuple[Search, ...]:
    """Where the rule is looked at hardest: the law and the edges of its margin, with SDs as designed and as found."""
    tried = [world for world in worlds() if world.holds or world.id.partition(",")[0] in EDGES]
    return searches_among(tried, along="log_rate", ordered=False, group="", sided=True)


def _as_wide(name: str, kind: str, rate: float, decay: float) -> World:
    """A world with the SD that was found."""
    made = _tried(name, kind, rate, decay, FOUND)
    return replace(made, id=f"{made.id}, SD as found", declared=False)


def _tried(name: str, kind: str, rate: float, decay: float, scatter: float = SCATTER, corpus: float = CORPUS) -> World:
    words = f"exponents {rate:g} of rate and {decay:g} of 1/decay, SD {scatter:g}, corpus {corpus:g}, {ERRORS[kind]}"
    named = name if kind == "normal" else f"{name}, {kind}"
    signal = partial(_changed, rate, decay, scatter, corpus)
    return World(named, words, name == "as claimed", signal, Errors(kind), named == "as claimed")


def _changed(
    rate: float, decay: float, scatter: float, corpus: float, rows: pd.DataFrame, noise: Noise, _: np.random.Generator
) -> pd.DataFrame:
    x = rows[["log_rate", "log_decay", "synthetic"]].to_numpy(np.float64)
    return rows.assign(spectrum=x @ np.array([rate, -decay, corpus]) + scatter * noise(rows))
