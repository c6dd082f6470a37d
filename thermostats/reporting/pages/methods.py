"""The methods page: how verdicts come about; its numbers are the constants that the code decides by."""

from __future__ import annotations

from thermostats.claims import levels
from thermostats.claims.calibration import FAIR
from thermostats.claims.result import SURE
from thermostats.claims.rule import ALPHA, NEAR
from thermostats.modelling import checks, draws
from thermostats.modelling.draws import Settings
from thermostats.reporting.claim_page import INTERVALS
from thermostats.reporting.render import text
from thermostats.reporting.state import SAMPLERS, machine
from thermostats.settings import LEVEL
from thermostats.tables.schemas import GAINS, POSITIONS, TRANSITION_DEFINITIONS

CLASSICAL_LEVEL = 0.95


def methods_text() -> str:
    """The page's Markdown."""
    versions = machine()
    return text(
        "methods.md",
        sure=SURE,
        draws=draws,
        checks=checks,
        powers=checks.POWERS,
        level_of_posteriors=LEVEL,
        settings=Settings(),
        level=CLASSICAL_LEVEL,
        simulations=levels.STUDY_BY_STUDY.fresh,
        at_once=levels.AT_ONCE.fresh,
        most_false=ALPHA,
        without=levels.WITHOUT,
        fair=FAIR,
        near=NEAR,
        interval=INTERVALS[draws.KIND],
        gains=GAINS,
        positions=POSITIONS,
        layers=TRANSITION_DEFINITIONS,
        samplers={name: version for name, version in versions.items() if name in SAMPLERS},
        machine=versions,
    )
