"""The page of one claim: its Markdown, with the figures, tables and findings that accompany it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from jinja2 import Template

from thermostats import formatting
from thermostats.claims.claim import Claim
from thermostats.claims.error_rates import WANTED
from thermostats.claims.evidence import POOLED
from thermostats.claims.finding import Finding
from thermostats.claims.posterior import FittedModel
from thermostats.claims.scripts import is_own
from thermostats.claims.stored import Made
from thermostats.claims.study import study_of
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, UNMEASURED
from thermostats.modelling import checks, draws
from thermostats.reporting.names import folder_of
from thermostats.reporting.pages.entry import written
from thermostats.reporting.pages.universes import universes_of
from thermostats.reporting.text import Files, Text, slug, text

DECIDED = (SUPPORTED, AGAINST)
FOLDED = 12
"""Published figures above which those that agree are folded."""
INTERVALS = {"ETI": "equal-tailed interval", "HDI": "highest-density interval"}
"""Kinds of intervals in words."""
HEADINGS = {
    "rhat": "R-hat",
    "ess_bulk": "bulk ESS",
    "ess_tail": "tail ESS",
    "mcse": "MC error of the mean",
    "mean_under_alternative": "mean under alternative",
    "shift_in_sd": "shift in SD",
    "pareto_k": "Pareto k",
}
SUMMARY = ("quantity", "mean", "sd", "median", "lower", "upper", "rhat", "ess_bulk", "ess_tail", "mcse")
POINTWISE = "pit"
"""Column of a check's table that has a row for every observation, too long for a page."""
PLACES = {
    "prior-to-posterior": "prior",
    "predict": "checks",
    "pit": "checks",
    "left-out": "robust",
    "leave": "robust",
    "sensitiv": "sensitivity",
    "trace": "computation",
    "rank": "computation",
}
"""Section of a panel by a part of its name; any other stands with the posterior."""
UNFOLDED = {"prior": "posterior", "robust": "sensitivity"}
"""Sections of the first finding that are not folded, and where others have what stands in them."""
RATES = {
    "words": "world",
    "holds": "the statement holds",
    "simulations": "studies",
    "supported": "says supported",
    "not_supported": "says not supported",
}
"""Columns of the table of simulated worlds that a page shows, with their headings."""


def claim_files(claim: Claim, made: Sequence[Made], script: str, made_of: Mapping[str, Any]) -> dict[str, bytes]:
    """Files of one claim by name within the report, `index.md` of its folder among them.

    made_of: SHA-256 of `inputs`, `script` and `package`, the number of `selections` and the `machine`.
    """
    files, findings = Files(folder_of(claim.id)), [each.finding for each in made]
    lead = next((number for number, each in enumerate(made, 1) if each.figure), 0)
    views = [
        _view(number, each, files, number == lead)
        for number, each in enumerate(made, 1)
        if not each.finding.sample.view_of
    ]
    if lead:  # the first figure there is heads the page
        views[lead - 1]["figure"], views[0]["figure"] = Text(), views[lead - 1]["figure"]
    rules = [finding.criterion.words for finding in findings]
    for view in views:
        view["ruled_by"] = rules.index(view["finding"].criterion.words) + 1
    page = text(
        "claim.md",
        claim=claim,
        views=views,
        compared=compared_figures(views),
        others=_others(findings),
        elsewhere=_elsewhere(findings),
        named=_named(findings),
        coincident=_coincident(findings),
        notes=list(dict.fromkeys(note for finding in findings if finding.sample.view_of for note in finding.notes)),
        robust=len(views) > 1 or views[0]["posterior"] is not None,
        file=script,
        own=is_own(claim.id),
        fixed=_fixed(claim, findings),
        folded=FOLDED,
        draws=draws,
        checks=checks,
        decisive=_probability,
        capital=_capital,
        is_p_value=formatting.is_p_value,
        power=WANTED,
        **made_of,
    )
    files.add("index.md", page.encode())
    files.add("findings.json", written(claim, findings, made_of["inputs"]))
    return files.contents


def _fixed(claim: Claim, findings: Sequence[Finding]) -> str:
    """When the rule was fixed, in words."""
    study = study_of(claim.id)
    if study is None or not study.fixed:
        return "as the script states it"
    fitted = any(finding.posterior for finding in findings)
    return str(Template(study.fixed).render(changed=bool(claim.history), fitted=fitted))


def _others(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings put to other sets of evidence, one row each; sets that carry none of them are named in one row."""
    views = [finding for finding in findings if finding.sample.view_of]
    carried = [finding for finding in views if finding.verdict != UNMEASURED]
    first = {finding.sample.evidence: finding for finding in reversed(views) if finding.verdict == UNMEASURED}
    short = [finding for name, finding in first.items() if name not in {view.sample.evidence for view in carried}]
    return [{"finding": finding, "by_p": _by_p(finding)} for finding in (*carried, *short)]


def _by_p(finding: Finding) -> bool:
    """Whether a p-value decided where the interval holds a number that the rule compares with."""
    head, rule = finding.headline, finding.criterion
    bars = [bar for bar in (rule.above, rule.below) if bar is not None]
    if finding.verdict not in DECIDED or head.lower is None or head.upper is None:
        return False
    return formatting.is_p_value(head.p_kind) and any(head.lower < bar < head.upper for bar in bars)


def _elsewhere(findings: Sequence[Finding]) -> list[Finding]:
    """The first question on other sets, where its verdict is another: any on all rows together, or a decided one."""
    first = findings[0]
    views = [view for view in findings if view.sample.view_of and view.id == first.id and view.verdict != first.verdict]
    return [
        view for view in views if view.verdict in DECIDED or (view.sample.evidence == POOLED and view.verdict == OPEN)
    ]


def _named(findings: Sequence[Finding]) -> dict[str, str]:
    """Models of small sets of evidence, by set: of its finding that rests on most of them."""
    return {view.sample.evidence: names for view in _views(findings) if (names := view.plain.partition(": ")[2])}


def _coincident(findings: Sequence[Finding]) -> dict[str, str]:
    """Labs that one source alone measured, by set: of its finding that rests on most models."""
    samples = (view.sample for view in _views(findings))
    return {sample.evidence: sample.coincidence for sample in samples if sample.coincidence}


def _views(findings: Sequence[Finding]) -> list[Finding]:
    """Findings on other sets of evidence than the first, those of most models last."""
    return sorted((finding for finding in findings if finding.sample.view_of), key=lambda view: view.sample.n_models)


def compared_figures(views: Sequence[Mapping[str, Any]]) -> list[formatting.Compared]:
    """Every published figure once, with the recomputed one; of equal names each says which finding it belongs to."""
    first = {row: view["number"] for view in reversed(views) for row in view["compared"]}
    times = Counter(row.name for row in first)
    rows = dict.fromkeys(row for view in views for row in view["compared"])
    return [row._replace(name=f"{row.name}, finding {first[row]}") if times[row.name] > 1 else row for row in rows]


def _view(number: int, made: Made, files: Files, is_lead: bool) -> dict[str, Any]:
    """What a template shows of a finding."""
    finding, suffix = made.finding, "" if number == 1 else f"-{number}"
    drawn, behind, posterior = Text(), Text(), finding.posterior
    if made.figure:
        drawn = files.figure(
            made.figure, f"figure{'' if is_lead else suffix}.svg", finding.figure.caption or finding.plain
        )
    if finding.table is not None:
        behind = files.table(finding.table, f"Numbers behind finding {number}", f"table{suffix}.csv")
    published, reproduced = (
        {name: float(value) for name, value in figures.items()}
        for figures in (finding.audit.published, finding.audit.reproduced)
    )
    view = {"finding": finding, "number": number, "figure": drawn, "table": behind, "posterior": posterior}
    view["operating"], view["declared"] = Text(), None
    view["universes"] = universes_of(finding, number, files)
    view["compared"] = formatting.comparison(published, reproduced)
    sample, rates = finding.sample, finding.criterion.rates
    if rates is not None:
        here = rates["declared"].astype(bool) & (rates["n_models"] == sample.n_models)
        view["declared"] = next(iter(rates[here].to_dict("records")), None)
        label, named = "How often the rule gives each verdict", rates[list(RATES)].rename(columns=RATES)
        view["operating"] = files.table(rates, label, f"worlds{suffix}.csv", excerpt=named)
    if posterior is not None:
        numbered = ((sample.n_models, "model"), (sample.n_groups, sample.group))
        view["rests_on"] = [formatting.plural(n, noun) for n, noun in numbered if n]
        view["intervals"] = _kinds(posterior)
        view["placed"] = placed = _placed(posterior, made.panels, files, f"posterior{suffix}")
        for name, other in UNFOLDED.items():
            if number > 1:
                placed[other] = placed[name] + placed[other]
    return view


def _placed(posterior: FittedModel, drawn: Sequence[bytes], files: Files, stem: str) -> dict[str, list[Text]]:
    """Figures, then tables of a posterior, by section of its page."""
    placed: dict[str, list[Text]] = {
        name: [] for name in ("prior", "robust", "priors", "computation", "posterior", "checks", "sensitivity", "more")
    }

    def add(section: str, frame: pd.DataFrame, label: str, name: str = "", excerpt: pd.DataFrame | None = None) -> None:
        excerpt = (frame if excerpt is None else excerpt).rename(columns=HEADINGS)
        placed[section].append(files.table(frame, label, f"{stem}-{name or slug(label)}.csv", excerpt=excerpt))

    for panel, svg in zip(posterior.panels, drawn, strict=True):
        section = next((place for part, place in PLACES.items() if part in panel.name), "posterior")
        placed[section].append(files.figure(svg, f"{stem}-{slug(panel.name)}.svg", panel.caption))
    if posterior.priors:
        add("priors", pd.DataFrame(posterior.priors, columns=["quantity", "distribution", "why"]), "Priors")
    if len(posterior.computation.diagnostics):
        add("computation", posterior.computation.diagnostics, "Diagnostics of the sampler", "diagnostics")
    columns = [name for name in SUMMARY if name in posterior.summary]
    all_columns = len(_kinds(posterior)) != 1
    excerpt = posterior.summary if all_columns else posterior.summary[columns]
    add("posterior", posterior.summary, "Summary of the posterior", "summary", excerpt)
    if posterior.gate.checks:
        add("checks", posterior.gate.table(), "All checks", "checks")
    if posterior.sensitivity is not None:
        add("sensitivity", posterior.sensitivity, "Alternatives", "sensitivity")
    for word, section in (("predictive", "checks"), ("sensitivity", "sensitivity"), ("influence", "sensitivity")):
        for check in posterior.gate.checks:
            is_shown = posterior.sensitivity is not None and check.table.equals(posterior.sensitivity)
            if word in check.name and len(check.table) and POINTWISE not in check.table and not is_shown:
                add(section, check.table, _capital(check.name))
    for title, frame in posterior.tables.items():
        add("more", frame, title)
    return placed


def _kinds(posterior: FittedModel) -> list[str]:
    """Kinds and levels of the intervals of the summary, in words."""
    if not {"kind", "level"} <= set(posterior.summary):
        return []
    pairs = posterior.summary[["kind", "level"]].drop_duplicates().itertuples(index=False, name=None)
    return sorted(f"{100 * float(level):g}% {INTERVALS.get(str(kind), str(kind))}" for kind, level in pairs)


def _probability(posterior: FittedModel) -> str:
    """The decisive probability with its Monte-Carlo error: `P(slope < 0) = 0.973 (Monte-Carlo error 0.0030)`."""
    by = posterior.conclusion
    text = formatting.chance_of(by.statement, by.probability)
    return text if by.error is None else f"{text} (Monte-Carlo error {formatting.number(by.error, 2)})"


def _capital(name: str) -> str:
    """With a capital, but for a Greek letter, which is a symbol."""
    return f"{name[:1].upper()}{name[1:]}" if name[:1].isascii() else name
