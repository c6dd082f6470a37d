"""A finding's fitted model as the sections of the Bayesian reporting checklist, Kruschke 2021.

doi:10.1038/s41562-021-01177-7. Question and decision rule stand above them on the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from thermostats import words
from thermostats.claims.finding import Finding
from thermostats.claims.posterior import Posterior
from thermostats.modelling.inference import checks
from thermostats.modelling.inference.draws import BFMI_LIMIT, ESS_LIMIT, LEVEL, RHAT_LIMIT
from thermostats.reporting.blocks import FigureView, Files, Section, TableView
from thermostats.reporting.rendering import slug

INTERVALS = {"ETI": "equal-tailed interval", "HDI": "highest-density interval"}
"""Kinds of intervals in words."""
CONVERGENCE = ("rhat", "ess_bulk", "ess_tail", "mcse")
SHOWN = ("quantity", "mean", "sd", "median", "lower", "upper", *CONVERGENCE)
HEADINGS = {
    "rhat": "R-hat",
    "ess_bulk": "bulk ESS",
    "ess_tail": "tail ESS",
    "mcse": "MC error of the mean",
    "mean_under_alternative": "mean under alternative",
    "shift_in_sd": "shift in SD",
    "pareto_k": "Pareto k",
}
POINTWISE = "pit"
"""Column of a check's table that has a row for every observation, too long for a page."""
DATA, MODEL, PRIORS, COMPUTATION, POSTERIOR, CHECKS, SENSITIVITY, MORE, WARNINGS = (
    "Data",
    "Model",
    "Priors",
    "Computation and diagnostics",
    "Posterior",
    "Predictive checks",
    "Sensitivity",
    "Further results",
    "Warnings",
)
PLACES = (
    ("predict", CHECKS),
    ("pit", CHECKS),
    ("left-out", SENSITIVITY),
    ("leave", SENSITIVITY),
    ("sensitiv", SENSITIVITY),
    ("trace", COMPUTATION),
    ("rank", COMPUTATION),
)
"""Where a panel stands, by a part of its name; any other stands with the posterior."""


@dataclass(frozen=True)
class Side:
    """One of the two ways to a verdict."""

    name: str
    verdict: str
    result: str
    rule: str


@dataclass(frozen=True)
class Checklist:
    """What the page shows of a fitted model."""

    sides: tuple[Side, ...]
    """The classical test and the posterior."""
    together: str
    """What they come to, in words."""
    sections: tuple[Section, ...]


def checklist(finding: Finding, rule: str, files: Files, stem: str, panels: Sequence[FigureView]) -> Checklist:
    """Sides and sections of a finding that has a posterior; its tables go to `files`, their names begin with "
    "`stem`."""
    posterior = finding.posterior
    assert posterior is not None  # noqa: S101
    made = (
        _data(finding, posterior),
        Section(MODEL, (posterior.model,), posterior.equations),
        _priors(posterior, files, stem),
        _computation(posterior, files, stem),
        _summary(posterior, files, stem),
        _checks(posterior, files, stem),
        _sensitivity(posterior, files, stem),
        Section(
            MORE,
            tables=tuple(
                files.table(table, title, f"{stem}-{slug(title)}.csv") for title, table in posterior.tables.items()
            ),
        ),
        Section(WARNINGS, items=posterior.warnings),
    )
    placed = [_with(section, [panel for panel in panels if _place(panel.name) == section.title]) for section in made]
    kept = tuple(s for s in placed if s.text or s.equations or s.items or s.tables or s.figures)
    return Checklist(_sides(finding, posterior, rule), _together(finding, posterior), kept)


def probability_words(posterior: Posterior) -> str:
    """The decisive probability with its Monte-Carlo error: `P(slope < 0) = 0.973 ± 0.002`."""
    error = posterior.probability_error
    return words.chance_of(posterior.statement, posterior.probability) + (
        f" (Monte-Carlo error {words.number(error, 2)})" if error is not None else ""
    )


def _sides(finding: Finding, posterior: Posterior, rule: str) -> tuple[Side, Side]:
    estimate = words.estimate_text(finding) if finding.estimate is not None else ""
    p = words.probability_text(finding) if words.is_p_value(finding.probability_kind) else ""
    result = posterior.classical_result or "; ".join(part for part in (estimate, p) if part)
    classical = Side("Classical test", posterior.classical or finding.verdict, result, posterior.classical_rule or rule)
    return classical, Side("Posterior", posterior.concluded, probability_words(posterior), posterior.rule)


def _together(finding: Finding, posterior: Posterior) -> str:
    if not posterior.gate.passes:
        return (
            f"By its rule alone the posterior says “{posterior.verdict}”, but a check of the fit failed, so that it "
            f"decides nothing. The claim is {finding.verdict}."
        )
    if posterior.classical in {"", posterior.concluded}:
        return f"Both come to the same: {finding.verdict}."
    return f"The two do not agree, so that the claim is {finding.verdict}."


def _data(finding: Finding, posterior: Posterior) -> Section:
    numbered = ((posterior.rows, "row"), (finding.n_models, "model"), (finding.n_heritages, finding.group))
    counts = [words.plural(n, noun) for n, noun in numbered if n]
    text = f"The fit rests on {words.listed(counts)}." if counts else ""
    sources = ("From " + words.listed(list(posterior.sources)) + ".",) if posterior.sources else ()
    return Section(DATA, (text, *sources) if text else sources)


def _priors(posterior: Posterior, files: Files, stem: str) -> Section:
    if not posterior.priors:
        return Section(PRIORS)
    frame = pd.DataFrame(posterior.priors, columns=["quantity", "distribution", "why"])
    text = (_verdict_of(posterior, "prior predictive"),)
    return Section(PRIORS, tuple(filter(None, text)), tables=(files.table(frame, "Priors", f"{stem}-priors.csv"),))


def _computation(posterior: Posterior, files: Files, stem: str) -> Section:
    versions = ", ".join(f"{name} {version}" for name, version in posterior.versions.items())
    text = (
        posterior.computation,
        f"Seed {posterior.seed}{f'; {versions}' if versions else ''}.",
        f"The draws are used where every R-hat is at most {RHAT_LIMIT:g}, every effective sample size at least "
        f"{ESS_LIMIT:g}, the energy fraction at least {BFMI_LIMIT:g} and no transition diverged. Here: "
        + ("they are used." if posterior.gate.passes else f"{'; '.join(posterior.gate.reasons)}."),
    )
    table = files.table(_headed(posterior.diagnostics), "Diagnostics of the sampler", f"{stem}-diagnostics.csv")
    return Section(COMPUTATION, tuple(filter(None, text)), tables=(table,))


def _summary(posterior: Posterior, files: Files, stem: str) -> Section:
    whole = posterior.summary
    kinds = (
        {
            f"{100 * float(level):g} % {INTERVALS.get(str(kind), str(kind))}"
            for kind, level in (whole[["kind", "level"]].drop_duplicates().itertuples(index=False, name=None))
        }
        if {"kind", "level"} <= set(whole)
        else set()
    )
    said = f"Lower and upper are the ends of the {words.listed(sorted(kinds))}." if kinds else ""
    error = (
        (
            "The MC error is the Monte-Carlo standard error of the mean: with other random numbers, or another "
            "generation of "
            "PyMC, the mean would differ by about that much."
        )
        if "mcse" in whole
        else ""
    )
    columns = [label for label in SHOWN if label in whole] if len(kinds) == 1 else list(whole)
    shown = _headed(whole[columns])
    table = files.table(whole, "Summary of the posterior", f"{stem}-summary.csv", shown=shown)
    return Section(POSTERIOR, tuple(filter(None, (probability_words(posterior) + ".", said, error))), tables=(table,))


def _checks(posterior: Posterior, files: Files, stem: str) -> Section:
    if not posterior.gate.checks:
        return Section(CHECKS)
    tables = [files.table(posterior.gate.table(), "All checks", f"{stem}-checks.csv")]
    tables += _check_tables(posterior, files, stem, "predictive")
    text = (
        f"A predictive check fails where the observed value lies in a tail of less than {checks.EXTREME:g} of "
        "what the "
        f"fitted model gives again, and is undecided below {checks.DOUBTFUL:g}. Lower and upper hold the central "
        f"{100 * LEVEL:g} % of the replicated values."
    )
    return Section(CHECKS, (text,), tables=tuple(tables))


def _sensitivity(posterior: Posterior, files: Files, stem: str) -> Section:
    found: list[TableView] = []
    text: tuple[str, ...] = ()
    if (table := posterior.sensitivity) is not None:
        found.append(files.table(_headed(table), "Alternatives", f"{stem}-sensitivity.csv"))
        if "pareto_k" in table:
            text = (
                "Alternatives with a Pareto k are the same draws under importance weights, those without one exact "
                "refits. Numbers are left empty where "
                f"Pareto k is above {checks.PARETO_LIMIT:g}: such weights cannot be trusted.",
            )
    found += _check_tables(posterior, files, stem, "sensitivity") + _check_tables(posterior, files, stem, "influence")
    return Section(SENSITIVITY, text, tables=tuple(found))


def _check_tables(posterior: Posterior, files: Files, stem: str, word: str) -> list[TableView]:
    return [
        files.table(
            check.table,
            f"{check.name[0].upper()}{check.name[1:]}",
            f"{stem}-{slug(check.name)}.csv",
            shown=_headed(check.table),
        )
        for check in posterior.gate.checks
        if word in check.name and len(check.table) and POINTWISE not in check.table
    ]


def _verdict_of(posterior: Posterior, word: str) -> str:
    return " ".join(
        f"{c.name[0].upper()}{c.name[1:]} check {c.outcome}: {c.reason}."
        for c in posterior.gate.checks
        if word in c.name
    )


def _headed(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename(columns=HEADINGS)


def _place(name: str) -> str:
    return next((place for part, place in PLACES if part in name), POSTERIOR)


def _with(section: Section, figures: Sequence[FigureView]) -> Section:
    return Section(
        section.title, section.text, section.equations, section.items, tables=section.tables, figures=tuple(figures)
    )
