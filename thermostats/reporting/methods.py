"""The methods page: how verdicts come about; its numbers are the constants that the code decides by."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, SURE, UNMEASURED
from thermostats.modelling.inference import checks, draws, fitted
from thermostats.modelling.inference.draws import Settings
from thermostats.reporting import index_page, rendering
from thermostats.reporting.blocks import Section, view
from thermostats.reporting.checklist import INTERVALS
from thermostats.reporting.freshness import SAMPLERS, machine
from thermostats.studies.delia2026 import gains
from thermostats.tables.features import GAINS
from thermostats.tables.vocabulary import POSITIONS, TRANSITION_DEFINITIONS

LEAD = (
    "How a claim of the study becomes a verdict: what is estimated, which tests and models are used, what must hold "
    "before anything is concluded, and what the intervals and probabilities on the pages mean."
)
MEANINGS = {
    SUPPORTED: "the rule was met in the claim’s favour",
    AGAINST: "the rule was met against it: an interval on the other side of its bar, or a counterexample",
    OPEN: "the tables do not settle it: tests disagree, an interval holds the bar, or a check of the fit failed",
    UNMEASURED: "no published or measured figures could settle it",
}
SYMBOLS = (
    "L blocks, H query heads of width d_h, K key and value heads, stream of width d; ρ = H/d_h.",
    "x_0 enters the first block; x_l leaves block l, l = 1 … L, before the final norm; n_l = ‖x_l‖ at one token.",
    "G_l = n_l / n_(l-1): the gain of block l. Logarithms are natural where nothing else is said.",
)


def methods_files() -> dict[str, bytes]:
    """`methods.html` and `methods.md`."""
    shared = {
        "title": rendering.TITLES[rendering.METHODS],
        "lead": LEAD,
        "sections": sections(),
        "machine": machine(),
        "page": rendering.METHODS,
        "up": "",
    }
    return {
        "methods.html": rendering.html("sections.html", **shared),
        "methods.md": rendering.markdown("sections.md", **shared),
    }


def sections() -> list[Section]:
    """The page, section by section."""
    return [
        _verdicts(),
        _together(),
        _gate(),
        _checks(),
        _intervals(),
        _multiplicity(),
        _error(),
        _estimands(),
        _made(),
    ]


def _verdicts() -> Section:
    text = (
        "Every analysis states its decision rule, with its thresholds and with what would count against the "
        "claim, in the "
        "head of its script, before the test is run; the study’s own figures were known. Where a review led to "
        "another "
        "rule, the page says so and gives the verdict under the earlier one. Words follow from the verdict:",
    )
    items = tuple(f"{rendering.SIGNS[v]} {v}: {MEANINGS[v]}. On the page: “{SENTENCES[v]} …”." for v in MEANINGS)
    return Section("Verdicts", text, items=items)


def _together() -> Section:
    text = (
        "Where a claim rests on a fitted model too, its page shows the classical test and the posterior side by "
        "side. The "
        "claim counts as supported, or as not supported, only where both come to that; where they differ it is "
        f"{OPEN}. "
        "Neither can outvote the other, and a posterior whose checks failed decides nothing.",
        "The posterior’s rule is stated beside it. Where it is about an order or a sign, it supports from a "
        "probability of "
        f"{SURE:g} and speaks against at most {1 - SURE:.2g}; in between it is "
        f"{OPEN}.",
        "The posteriors were put beside the tests when the results of the tests were known, and for some claims fits "
        "of the same tables had been seen; the statement that a posterior is asked for was written down before it was "
        "computed for the page, and the limits are the same for all.",
    )
    equations = (
        "verdict = classical   if classical = posterior and every check of the fit passed or is undecided",
        f"verdict = {OPEN}   otherwise",
    )
    return Section("Classical test and posterior together", text, equations)


def _gate() -> Section:
    own = Settings()
    retried = own.retried()
    text = (
        "Draws are used only where all of the following hold for every quantity of the model, reported or not.",
        f"Sampling is by the No-U-Turn sampler ({own.sampler}), {own.chains} chains of {own.draws:,} draws each after "
        f"{own.tune:,} of tuning, target acceptance {own.target_accept:g}, unless a page says otherwise. A fit "
        "that fails "
        f"is tried once more, with target acceptance {retried.target_accept:g} and twice the draws; where that "
        "fails too, "
        f"the verdict is {OPEN}.",
    )
    items = (
        f"R-hat, rank-normalised and split, at most {draws.RHAT_LIMIT:g} (Vehtari et al. 2021, doi:10.1214/20-BA1221)",
        f"effective sample size in the bulk and in the tails at least {draws.ESS_LIMIT:g}",
        f"energy fraction of missing information at least {draws.BFMI_LIMIT:g} in every chain (Betancourt 2016, "
        "arXiv:1604.00695)",
        "no divergent transition",
    )
    return Section("The gate", text, items=items)


def _checks() -> Section:
    powers = " and ".join(f"{power:g}" for power in fitted.POWERS)
    rows = {
        "prior predictive": f"each statistic of the data within the central {100 * (1 - 2 * checks.EXTREME):g} % "
        "of what "
        "the prior gives",
        "posterior predictive": f"fails where a tail probability is below {checks.EXTREME:g}, undecided below "
        f"{checks.DOUBTFUL:g}",
        "LOO-PIT": "probability integral transforms with each observation left out, held against the uniform "
        "distribution; fails and is undecided at the same tails; importance weights with Pareto k above "
        f"{checks.PARETO_LIMIT:g} are not trusted",
        "prior sensitivity": f"priors raised to the powers {powers}; undecided where what decides moves by more than "
        f"{checks.LARGE_SHIFT:g} posterior standard deviations",
        "influence": "exact refits with each lab left out, where there are enough; undecided where the verdict changes",
    }
    table = pd.DataFrame({"check": list(rows), "what it asks": list(rows.values())})
    text = (
        f"Each check has passed, failed or is undecided. One that {checks.FAILED} closes the gate. One that is "
        f"{checks.UNDECIDED} is told on the page and leaves the verdict as it is.",
    )
    return Section("Checks of every fit", text, tables=(view(table, "Checks of every fit"),))


def _intervals() -> Section:
    text = (
        f"Of posteriors: {100 * draws.LEVEL:g} % {INTERVALS[draws.KIND]}s, with {100 * (1 - draws.LEVEL) / 2:g} % "
        "of the "
        "draws beyond either end; the interval of a log gain, exponentiated, is the interval of the gain.",
        f"Of classical estimates: {100 * gains.LEVEL:g} % confidence intervals where nothing else is said; the "
        "kind (t, "
        "jackknife, bootstrap, exact) and the level stand beside each.",
        "The two kinds answer different questions and need not agree, even where both rest on the same rows.",
    )
    return Section("Intervals", text)


def _multiplicity() -> Section:
    text = (
        "A p-value is two-sided, or of a test that has no sides, unless it is called one-sided. The index adjusts the "
        "p-values of the claims’ first findings by Holm’s method, one a claim, and names the claims that their "
        "own rule "
        f"supports with an adjusted p above {index_page.LEVEL:g}. Verdicts follow each claim’s own rule; the "
        "adjusted p is "
        "for comparing claims. Posterior probabilities are not adjusted: within a model, labs and models are drawn "
        "towards each other by their common prior.",
    )
    return Section("Many claims", text)


def _error() -> Section:
    text = (
        "Figures that come from draws carry Monte-Carlo error: with other random numbers they would differ a "
        "little. Pages "
        "give the standard error of the mean (MC error) and of the decisive probability.",
        "Two generations of PyMC and ArviZ are in use, one for Python 3.11, one for later versions. Seeds, "
        "models and data "
        "are the same, the streams of random numbers are not: between the two, figures from draws agree up to "
        "Monte-Carlo "
        "error, all others exactly up to rounding. Within a generation, the same versions give the same bytes.",
        "This report was made with " + ", ".join(f"{n} {v}" for n, v in machine().items() if n in SAMPLERS) + ".",
    )
    return Section("Monte-Carlo error", text)


def _estimands() -> Section:
    gains = pd.DataFrame({"name": list(GAINS), "definition": list(GAINS.values())})
    positions = pd.DataFrame({"position": list(POSITIONS), "token": list(POSITIONS.values())})
    layers = pd.DataFrame({"name": list(TRANSITION_DEFINITIONS), "definition": list(TRANSITION_DEFINITIONS.values())})
    text = ("A gain is always named, since which block is meant decides several verdicts.", *SYMBOLS)
    tables = (view(gains, "Gains of a model"), view(positions, "Positions"), view(layers, "Transition layers L*"))
    return Section("Estimands", text, tables=tables)


def _made() -> Section:
    text = (
        "Each page names the SHA-256 of its script, of the rows that it read and of the code that it imports. "
        "“thermostats report” runs the analyses for which one of these changed; “thermostats report --check” "
        "says which "
        "they are and changes nothing. Draws made before are taken from the cache of this machine, where model, data, "
        "settings, seed and versions are the same; with THERMOSTATS_CACHE=off they are made afresh.",
    )
    return Section("Reproduction", text)
