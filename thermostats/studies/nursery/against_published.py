"""Slopes and the share above 10^(1/L) in the controlled study and over the published models."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate
from thermostats.modelling.classical.counts import one_sample_bound
from thermostats.studies.delia2026.gains import gains
from thermostats.studies.nursery.law import LARGEST, TOTAL
from thermostats.studies.nursery.slopes import LINES, held, slope_on

WORDS = {"log_L": "the log of depth", "log_rho": "the log of head density ρ"}


def both_slopes(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Slopes on depth and on head density of some rows, by what they are on."""
    found = {WORDS[term]: slope_on(rows, term, [n for n in held(rows) if n != term], "recipe") for term in WORDS}
    return {on: Estimate(slope.estimate, slope.lower, slope.upper) for on, slope in found.items()}


def against_published(tables: Evidence, rows: pd.DataFrame, *, tolerated: float) -> pd.DataFrame:
    """The same estimands here and over the published models, whose labs take the place of recipes.

    Columns: what, study, estimate, lower, upper, n_models, groups.
    """
    every = gains(tables)
    known = every[every["comparable"]].reset_index(drop=True)
    logs = {"log_L": "n_layers", "log_rho": "rho", "log_d": "d_model"}
    known = known.assign(**{name: np.log(known[column].astype("float64")) for name, column in logs.items()})
    studies = (("here, by design", rows, held(rows), "recipe"), ("published models", known, list(LINES), "heritage"))
    found = []
    for term, words in WORDS.items():
        for study, frame, columns, group in studies:
            s = slope_on(frame, term, [name for name in columns if name != term], group)
            found.append((f"slope on {words}", study, s.estimate, s.lower, s.upper, s.n, s.n_groups))
    for study, frame, _, group in studies:
        of = frame.dropna(subset=LARGEST)
        b = one_sample_bound(of[LARGEST], TOTAL ** (1 / of["n_layers"]), tolerated=tolerated)
        found.append(("share above 10^(1/L)", study, b.estimate, b.lower, b.upper, b.n, of[group].nunique()))
    return pd.DataFrame(found, columns=["what", "study", "estimate", "lower", "upper", "n_models", "groups"])
