"""The methods page: how verdicts come about; its numbers are the constants that the code decides by."""

from __future__ import annotations

from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, SURE, UNMEASURED
from thermostats.modelling.inference import checks, draws, fitted
from thermostats.modelling.inference.draws import Settings
from thermostats.reporting.pages.claim import INTERVALS
from thermostats.reporting.pages.index import LEVEL
from thermostats.reporting.stale import SAMPLERS, machine
from thermostats.reporting.text import records, table, text
from thermostats.tables.features import GAINS
from thermostats.tables.vocabulary import POSITIONS, TRANSITION_DEFINITIONS

CLASSICAL_LEVEL = 0.95
MEANINGS = {
    SUPPORTED: "the rule was met in the claim’s favour",
    AGAINST: "the rule was met against it: an interval on the other side of its bar, or a counterexample",
    OPEN: "the tables do not settle it: tests disagree, an interval holds the bar, or a check of the fit failed",
    UNMEASURED: "no published or measured figures could settle it",
}


def methods_text() -> str:
    """The page's Markdown."""
    known = machine()
    return text(
        "methods.md",
        meanings=MEANINGS,
        open=OPEN,
        sure=SURE,
        draws=draws,
        settings=Settings(),
        level=CLASSICAL_LEVEL,
        adjusted=LEVEL,
        interval=INTERVALS[draws.KIND],
        checks_table=table(records(_checks(), "check", "what it asks"), "Checks of every fit"),
        gains=table(records(GAINS, "name", "definition"), "Gains of a model"),
        positions=table(records(POSITIONS, "position", "token"), "Positions"),
        layers=table(records(TRANSITION_DEFINITIONS, "name", "definition"), "Transition layers L*"),
        samplers={name: version for name, version in known.items() if name in SAMPLERS},
        machine=known,
    )


def _checks() -> dict[str, str]:
    powers = " and ".join(f"{power:g}" for power in fitted.POWERS)
    return {
        "prior predictive": f"each statistic of the data within the central {100 * (1 - 2 * checks.EXTREME):g} % of "
        "what the prior gives",
        "posterior predictive": f"fails where a tail probability is below {checks.EXTREME:g}, undecided below "
        f"{checks.DOUBTFUL:g}",
        "LOO-PIT": "probability integral transforms with each observation left out, held against the uniform "
        "distribution; fails and is undecided at the same tails; importance weights with Pareto k above "
        f"{checks.PARETO_LIMIT:g} are not trusted",
        "prior sensitivity": f"priors raised to the powers {powers}; undecided where what decides moves by more than "
        f"{checks.LARGE_SHIFT:g} posterior standard deviations",
        "influence": "exact refits with each lab left out, where there are enough; undecided where the verdict changes",
    }
