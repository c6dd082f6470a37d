"""Findings of one claim as its folder has them, `findings.json`: written with its page, read by the
pages about all."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Template

from thermostats import formatting
from thermostats.claims.calibration import Calibration, pick_worst
from thermostats.claims.claim import Claim
from thermostats.claims.evidence import DUE, POOLED
from thermostats.claims.finding import Finding, FittedModel, Undrawn, read_finding
from thermostats.claims.judge import pick_verdicts
from thermostats.claims.levels import BOUNDS, NOTHING_RAISED, PLAUSIBLE, UNMOVED, WITHOUT
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, UNMEASURED, Reason
from thermostats.claims.rule import ALPHA
from thermostats.claims.stored import Made
from thermostats.claims.study import find_study, is_own
from thermostats.errors import DataError
from thermostats.formatting import format_count, join_words
from thermostats.modelling import checks, draws
from thermostats.modelling.specification import SpecificationCurve
from thermostats.plots.svg import render_svg
from thermostats.reporting.pages import WORLDS_TABLE, name_folder
from thermostats.reporting.render import Files, Text, make_slug, render_link, render_text
from thermostats.reporting.state import hash_inputs
from thermostats.tables.choices import CALLED

MOVES = {
    "choice": "choice",
    "alone": "explains alone",
    "together": "with its interplay",
    "lowest": "lowest with",
    "highest": "highest with",
}
"""Columns of the table of choices, with their headings."""


def describe_universes(
    finding: Finding, number: int, suffix: str, files: Files, *, is_first: bool = True
) -> dict[str, Any] | None:
    """What the template shows of the curve of a finding, whose files end in `suffix`; None for one
    without.

    is_first: of the curves of a page, whose caption says how all are read.
    """
    if (curve := finding.curve) is None:
        return None
    size = format_count(len(curve.table), "universe")
    of = f"finding {number}" if number > 1 else "the first finding"
    caption = f"Estimate of {of} in {size}, in order."
    if is_first:
        caption += (
            " Below: how common each option is at that place; in brackets, the share of the "
            "variance that each choice explains alone."
        )
    name = f"universes{suffix}.csv"
    figure = files.add_figure(render_svg(curve.plot), f"universes{suffix}.svg", caption, name)
    moves = files.add_table(
        curve.moves,
        "Which choice moves the estimate how much",
        f"choices{suffix}.csv",
        excerpt=_select_shown(curve),
    )
    files.add_rows(name, curve.table)
    choices = []
    for choice, options in curve.labels.items():
        choices.append(f"{choice} ({len(options)})")
    still = curve.moves.loc[curve.moves["together"] < STILL, "choice"]
    reasons = curve.failed["why"].unique()
    empty = [f"“{option}”" for option in _list_empty_options(curve)]
    return {
        "curve": curve,
        "figure": figure,
        "moves": moves,
        "file": name,
        "of": of,
        "choices": join_words(choices),
        "still": join_words(list(map(str, still))),
        "why": join_words(list(map(str, reasons))),
        "empty": join_words(empty),
    }


def _list_empty_options(curve: SpecificationCurve) -> list[str]:
    """Options with which no universe has an estimate."""
    empty = []
    for name, options in curve.labels.items():
        estimated = set(curve.table[name])
        empty += [option for option in options if option not in estimated]
    return empty


STILL = 0.01
"""Share of the variance, interplay included, below which a choice does not matter."""


def _select_shown(curve: SpecificationCurve) -> Any:
    shares = {}
    for name in ("alone", "together"):
        shares[name] = curve.moves[name].map("{:.0%}".format)
    return curve.moves.assign(**shares)[list(MOVES)].rename(columns=MOVES)


@dataclass(frozen=True)
class Entry:
    """One claim on the index: its findings as written to its folder, or the reason why there are
    none."""

    id: str
    claim: Claim | None
    findings: tuple[Finding, ...] = ()
    inputs: tuple[str, ...] = ()
    """SHA-256 of what each finding is made of."""
    error: str = ""
    posteriors: tuple[Mapping[str, Any] | None, ...] = ()
    """What the file of each finding says of its posterior."""


def encode_findings(claim: Claim, findings: Sequence[Finding], inputs: Sequence[str]) -> bytes:
    """Content of the file. inputs: SHA-256 of script, words, error rates and the rows that each
    finding is made of."""
    rows = []
    for finding, sha in zip(findings, inputs, strict=True):
        rows.append(_convert_finding(finding) | {"inputs_sha": sha})
    content = {"claim": claim.columns(), "findings": rows}
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_entry(content: bytes) -> Entry:
    """Entry of a claim from its file of findings.

    Raises DataError where it is damaged.
    """
    try:
        read = json.loads(content)
        posteriors = tuple(item.pop("posterior", None) for item in read["findings"])
        inputs = tuple(item.pop("inputs_sha") for item in read["findings"])
        findings = tuple(map(read_finding, read["findings"]))
        claim = Claim.read_columns(read["claim"])
        return Entry(claim.id, claim, findings, inputs, "", posteriors)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            "the findings of a claim are damaged",
            got=str(error)[:80],
            next_step="thermostats report --all",
        ) from error


def _convert_finding(finding: Finding) -> dict[str, Any]:
    """A finding without its table and figures, fit for JSON."""
    plain: dict[str, Any] = _convert_fields(finding.columns())
    posterior = finding.posterior
    if posterior is None:
        return plain | {"posterior": None}
    if isinstance(posterior, Undrawn):
        shown = {}
        for name in ("model", "rule", "statement", "why"):
            shown[name] = _convert_json(getattr(posterior, name))
        if posterior.earlier is not None:
            shown |= {
                "probability": posterior.earlier.probability,
                "probability_error": posterior.earlier.error,
            }
            shown["drawn"] = posterior.earlier.drawn
        return plain | {"posterior": shown}
    tables = {"checks": posterior.gate.table(), "summary": posterior.summary}
    tables["diagnostics"] = posterior.computation.diagnostics
    converted = _convert_fields(posterior.columns()) | {"passes": posterior.gate.passes}
    for name, frame in tables.items():
        converted[name] = list(map(_convert_json, frame.to_dict("records")))
    return plain | {"posterior": converted}


def _convert_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _convert_json(value) for name, value in values.items()}


def _convert_floats(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _convert_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        converted = {}
        for name, item in value.items():
            if _convert_json(item) is not None:
                converted[str(name)] = _convert_json(item)
        return converted
    if isinstance(value, tuple | list):
        return list(map(_convert_json, value))
    if pd.api.types.is_bool(value):
        return bool(value)
    if pd.api.types.is_integer(value):
        return int(value)
    if pd.api.types.is_float(value):
        return float(value) if math.isfinite(value) else None
    return None if value is pd.NA else value


DECIDED = (SUPPORTED, AGAINST)
FOLDED = 12
"""Published figures above which those that agree stand in a file alone."""
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
SUMMARY = ("quantity", "mean", "lower", "upper", "rhat", "ess_bulk", "mcse")
POINTWISE = "pit"
"""Column of a check's table that has a row for every observation, too long for a page."""
PLACES = {"prior-to-posterior": "prior", "posterior": "posterior", "posterior-predictive": "checks"}
"""Section of a panel by its name; any other is a file that the page links to."""
MOST_ROWS = 6
"""Rows of a table on a claim's page; the file with it has all."""
OTHER_SETS = "other-sets.csv"
"""File of further questions on other sets, where they are more."""
SHORT = 20
"""Words up to which what a page says of p is repeated where another finding has the same."""
MOST_OF_P = 60
"""Words that a page says of p unfolded."""
OF_ERRORS = re.compile(r"\b(?:errors|variance|mean|SD)\b")
"""With which what a world assumes of errors begins, after its size."""


class Surely(NamedTuple):
    """How often a study in which a side is false gives it as clearly: from `low` to `high`, 0 and 1
    where not known."""

    side: str
    low: float
    high: float
    world: str


def estimate_surely(finding: Finding) -> Surely | None:
    """P(level of a study ≤ that of the finding) in the worst plausible world, between the shares
    that are simulated.

    Of the side that is given, or to which an open verdict leans; None where no such world was
    tried.
    """
    strength = finding.strength
    rows = _select_plausible(finding)
    if rows is None or strength.level is None:
        return None
    reached = [0.0]
    beyond = [0.0]
    for row in rows.to_dict("records"):
        shares = [(float(row[name]), share) for name, share in BOUNDS.items()]
        shares.append((ALPHA, float(row["rate"])))
        below = [share for level, share in shares if level <= strength.level]
        above = [share for level, share in shares if level > strength.level]
        reached.append(max(below, default=0.0))
        beyond.append(min(above, default=1.0))
    worst = pick_worst(rows)
    return Surely(_choose_side(finding), max(reached), max(beyond), str(worst["words"]))


def _choose_side(finding: Finding) -> str:
    """The side that is given, or to which an open verdict leans."""
    return str(finding.strength.leans or (SUPPORTED if finding.reason else finding.verdict))


def _select_plausible(finding: Finding) -> pd.DataFrame | None:
    """Plausible worlds in which the side is false; None where no such world was tried."""
    table = finding.criterion.levels
    if table is None:
        return None
    of_side = table["side"] == _choose_side(finding)
    rows = table[(table["box"] == PLAUSIBLE) & of_side]
    return None if rows.empty else rows


def state_p(finding: Finding) -> Text:
    """p of the side that is given or leant to, the largest that 5% of simulated studies reach
    falsely, what is assumed in them, and the tipping point; empty where nothing has a level."""
    at = finding.strength
    if at.level is None:
        return Text()
    values = {
        "at": at,
        "side": _choose_side(finding),
        "bar": ALPHA,
        "without": WITHOUT,
        **_describe_tipping(finding),
    }
    said = _write_p(finding, values)
    if values["open"] and ("…" in said or len(said.split()) > MOST_OF_P):
        said = _write_p(finding, {**values, "falls": [], "stands": False})
    return Text(said)


def _write_p(finding: Finding, values: Mapping[str, Any]) -> str:
    """The sentences on p, with as much of what is assumed as there is room for."""
    rest = len(render_text("p.md", assumed="", cut=False, **values).split())
    assumed, cut = _describe_assumed(_select_plausible(finding), MOST_OF_P - rest)
    return render_text("p.md", assumed=assumed, cut=cut, **values)


def state_tipping(finding: Finding) -> Text:
    """p of an open verdict and the p below which it would be given, in one sentence; empty for
    another verdict, and where no p gives it."""
    parts = _describe_tipping(finding)
    if not parts["open"] or finding.strength.level is None:
        return Text()
    said = render_text("open.md", **{**parts, "stands": False}).strip()
    values = {"at": finding.strength, "side": _choose_side(finding), "said": said}
    return Text(render_text("p_open.md", **values) if said else "")


def _describe_tipping(finding: Finding) -> dict[str, Any]:
    """What a sentence on the tipping point is made from: whether the verdict is open, the p below
    which it would be given and whether p lies within its error, the unit that it hangs on and the p
    that may be without it.

    Where it depends on what is called geometry no p decides.
    """
    limit = finding.strength.limit
    needed = ALPHA if limit is None else min(limit, ALPHA)
    is_open = bool(finding.reason) and finding.reason != Reason.CODING
    falls = [point for point in list_falls(finding) if not point.startswith(NOTHING_RAISED)]
    return {
        "open": is_open,
        "needed": needed,
        "near": finding.reason == Reason.AT_LIMIT,
        "most": WITHOUT * needed,
        "unit": finding.decisive_unit,
        "stands": _stands_everywhere(finding),
        "falls": falls,
    }


def _stands_everywhere(finding: Finding) -> bool:
    """Whether its p would do with each nuisance raised as far as is plausible, one by one."""
    tried = finding.strength.tipping
    return bool(tried) and all(point.startswith(UNMOVED) for point in tried)


def list_falls(finding: Finding) -> list[str]:
    """Tipping points at which a verdict falls, or up to which an open one would be given; not those
    at which it still stands."""
    return [point for point in finding.strength.tipping if not point.startswith(UNMOVED)]


def _describe_assumed(worlds: pd.DataFrame | None, most: int) -> tuple[str, bool]:
    """What the worst of some worlds assumes of errors, or its size where it assumes nothing of
    them, and whether something was cut: what is beyond `most` words is left to the table of
    worlds."""
    if worlds is None:
        return "", False
    every = str(pick_worst(worlds)["words"]).split(", ")
    after = (place for place, part in enumerate(every) if place and OF_ERRORS.search(part))
    said, *parts = every[next(after, 0) :]
    for part in parts:
        if len(f"{said}, {part}, …".split()) > most:
            return said, True
        said = f"{said}, {part}"
    return said, False


def build_claim_files(
    claim: Claim, made: Sequence[Made], script: str, made_of: Mapping[str, Any]
) -> dict[str, bytes]:
    """Files of one claim by name within the report, `index.md` of its folder among them.

    made_of: SHA-256 of `inputs`, `script` and `package`, the number of `selections` and the
    `machine`.
    """
    inputs = [hash_inputs(made_of["script"], each.selections) for each in made]
    files = Files(name_folder(claim.id))
    findings = [each.finding for each in made]
    parts = _build_parts(made, files)
    worlds = collect_worlds(findings)
    whole = _list_whole_parts(findings)
    compared = collect_compared_figures(parts)
    views = _list_views(findings)
    notes = dict.fromkeys(note for view in views for note in view.notes)
    shown: set[int] = set()
    for row in whole:
        shown |= {id(row["own"]), id(row["every"])}
    further = []
    for part in parts[1:]:
        if id(part["finding"]) not in shown:
            further.append(part)
    other_views = [view for view in views if id(view) not in shown]
    own_set, every_set = pick_verdicts(findings)
    other_verdicts = _find_other_verdicts(findings)
    if own_set is not None:
        other_verdicts = [view for view in other_verdicts if view is not every_set]
    other_sets = _list_other_sets(other_views)
    further_sets = _sort_further_sets(other_sets)
    _add_tables(files, worlds, compared, further_sets, parts)
    page = render_text(
        "claim.md",
        claim=claim,
        parts=parts,
        compared=compared,
        bar=ALPHA,
        without=WITHOUT,
        whole=whole,
        further=further,
        views=views,
        leading_sets=[row for row in other_sets if row["leads"]],
        other_sets=other_sets,
        further_sets=further_sets[:MOST_ROWS],
        n_further=len(further_sets),
        other_sets_file=OTHER_SETS,
        other_verdicts=other_verdicts,
        model_names=_list_model_names(findings),
        lone_sources=_find_lone_sources(findings),
        notes=list(notes),
        file=script,
        own=is_own(claim.id),
        rule_fixed=_describe_rule_date(claim, findings),
        folded=FOLDED,
        draws=draws,
        checks=checks,
        decisive=_format_probability,
        capital=set_capital,
        both={"own": own_set, "every": every_set},
        pooled=_list_pooled_fits(findings),
        pooled_earlier=_list_earlier_fits(findings),
        sets={name: f"{words} ({name})" for name, words in CALLED.items()},
        surely=estimate_surely,
        state_p=state_p,
        state_tipping=state_tipping,
        list_falls=list_falls,
        number_of={part["finding"].id: part["number"] for part in parts},
        worlds=worlds is not None,
        tiny=_explain_tiny(findings),
        **made_of,
    )
    files.add("index.md", page.encode())
    files.add("findings.json", encode_findings(claim, findings, inputs))
    return files.contents


def _add_tables(
    files: Files,
    worlds: pd.DataFrame | None,
    compared: Sequence[formatting.Compared],
    further_sets: Sequence[Mapping[str, Any]],
    parts: Sequence[Mapping[str, Any]],
) -> None:
    """Add the table of worlds, and those of published figures and of other sets where the page does
    not show all of them."""
    if worlds is not None:
        files.add_rows(WORLDS_TABLE, worlds)
    if len(compared) > FOLDED:
        files.add_rows("figures.csv", pd.DataFrame(compared))
    if len(further_sets) > MOST_ROWS:
        listed = _tabulate_other_sets([row["finding"] for row in further_sets], parts)
        files.add_rows(OTHER_SETS, listed)


def _build_parts(made: Sequence[Made], files: Files) -> list[dict[str, Any]]:
    """A part of the page for every finding on its own set; the first figure that one has heads the
    page."""
    with_figure = (number for number, each in enumerate(made, 1) if each.figure)
    with_curve = (number for number, each in enumerate(made, 1) if each.finding.curve is not None)
    leading = Leading(next(with_figure, 0), next(with_curve, 0))
    lead = leading.figure
    names = _name_files([each.finding for each in made])
    parts = []
    for number, each in enumerate(made, 1):
        if not each.finding.sample.view_of:
            called = names[each.finding.id]
            parts.append(_build_part(number, each, files, leading, called))
    if lead:
        first_figure = parts[lead - 1]["figure"]
        parts[lead - 1]["figure"] = Text()
        parts[0]["figure"] = first_figure
    fitted = next((part["number"] for part in parts if part["posterior"]), 0)
    rules = [part["finding"].criterion.words for part in parts]
    said: set[str] = set()
    first_with: dict[str, int] = {}
    built = []
    for part, rule in zip(parts, rules, strict=True):
        notes = [note for note in part["finding"].notes if note not in said]
        said.update(notes)
        of_p = _state_shown_p(part["finding"], part["number"])
        is_long = len(of_p.split()) > SHORT
        p_of = part["number"]
        if is_long:
            p_of = first_with.setdefault(of_p, p_of)
        whole = {
            **part,
            "ruled_by": rules.index(rule) + 1,
            "fit_shown": part["number"] == fitted,
            "of_p": of_p,
            "p_of": p_of,
            "notes": notes,
        }
        built.append(whole)
    return built


def _state_shown_p(finding: Finding, number: int) -> Text:
    """What the page says of the p of a finding: in full of the first one, and of further ones whose
    tipping points are known."""
    if number == 1 or finding.strength.tipping:
        return state_p(finding)
    return state_tipping(finding)


def _list_whole_parts(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The parts that a claim's verdict is over, each on the set that it was asked of first and on
    all evidence."""
    ids = findings[0].criterion.parts
    own = {}
    for n, finding in enumerate(findings, 1):
        if not finding.sample.view_of:
            own[finding.id] = (n, finding)
    every = {}
    for finding in findings:
        if finding.sample.evidence == POOLED:
            every[finding.id] = finding
    whole_parts: list[dict[str, Any]] = []
    for id_ in ids:
        number, asked_first = own[id_]
        every_set = every.get(id_)
        whole_parts.append({"number": number, "own": asked_first, "every": every_set})
    return whole_parts


def _list_pooled_fits(findings: Sequence[Finding]) -> dict[str, Finding]:
    """Findings on all evidence that a fit accompanies, by their id."""
    pooled_fits: dict[str, Finding] = {}
    for finding in findings:
        if (
            finding.sample.view_of
            and finding.sample.evidence == POOLED
            and isinstance(finding.posterior, FittedModel)
        ):
            pooled_fits[finding.id] = finding
    return pooled_fits


def _list_earlier_fits(findings: Sequence[Finding]) -> dict[str, Finding]:
    """Findings on all evidence whose fit an earlier report drew, by their id."""
    earlier_fits: dict[str, Finding] = {}
    for finding in findings:
        if (
            finding.sample.view_of
            and finding.sample.evidence == POOLED
            and isinstance(finding.posterior, Undrawn)
            and finding.posterior.earlier is not None
        ):
            earlier_fits[finding.id] = finding
    return earlier_fits


def _name_files(findings: Sequence[Finding]) -> dict[str, str]:
    """What files of a finding are called after: its name, with what it is asked over where that
    tells it apart."""
    ids = dict.fromkeys(finding.id for finding in findings)
    asked = Counter(id_.split(".")[1] for id_ in ids)
    called = {}
    for id_ in ids:
        name = id_.split(".")[1]
        words = name if asked[name] == 1 else id_.partition(".")[2]
        called[id_] = make_slug(words)
    return called


class Leading(NamedTuple):
    """Numbers of the first finding that has a figure, and of the first that has a curve; 0 where
    none has."""

    figure: int
    curve: int


def _build_part(
    number: int, made: Made, files: Files, leading: Leading, called: str
) -> dict[str, Any]:
    """What a template shows of a finding: figure, table, curve, published figures, worst worlds,
    posterior."""
    finding = made.finding
    suffix = "" if number == 1 else f"-{called}"
    figure = Text()
    table = Text()
    data = ""
    if finding.table is not None:
        data = f"table{suffix}.csv"
        label = f"Numbers behind finding {number}"
        table = files.add_table(finding.table, label, data, most=MOST_ROWS)
        if number > 1:
            table = Text(f"{label}: {render_link(data, data)}")
    screen = Text()
    if finding.screen.table is not None:
        screen = files.add_table(finding.screen.table, finding.screen.label, f"screen{suffix}.csv")
    if made.figure:
        name = f"figure{'' if number == leading.figure else suffix}.svg"
        caption = finding.figure.caption or finding.plain
        figure = files.add_figure(made.figure, name, caption, data)
    audit = finding.audit
    published = _convert_floats(audit.published)
    reproduced = _convert_floats(audit.reproduced)
    universes = describe_universes(finding, number, suffix, files, is_first=number == leading.curve)
    compared = formatting.compare_figures(published, reproduced)
    part = {"finding": finding, "number": number, "figure": figure, "table": table}
    part |= {"screen": screen, "universes": universes, "compared": compared}
    return part | _describe_posterior(made, number, suffix, files)


def _explain_tiny(findings: Sequence[Finding]) -> dict[str, str]:
    """What makes limits below a millionth so, by the id of the finding."""
    explained: dict[str, str] = {}
    for finding in findings:
        if finding.criterion.levels is not None and not finding.sample.view_of:
            explained[finding.id] = Calibration(finding.criterion.levels).explain_tiny()
    return explained


def collect_worlds(findings: Sequence[Finding]) -> pd.DataFrame | None:
    """The simulated worlds of all findings on the sets that they are asked of first; None without
    any."""
    tables = {}
    for finding in findings:
        if finding.criterion.levels is not None and not finding.sample.view_of:
            tables[finding.id] = finding.criterion.levels
    if not tables:
        return None
    return pd.concat(tables, names=["finding"]).reset_index("finding").reset_index(drop=True)


def _describe_posterior(made: Made, number: int, suffix: str, files: Files) -> dict[str, Any]:
    """The fitted model, how many models and groups it rests on, its intervals, figures and tables
    by place, and files.

    The page shows those of the first finding with a fit; of others it lists the files.
    """
    sample = made.finding.sample
    posterior = made.finding.posterior
    if not isinstance(posterior, FittedModel):
        return {"posterior": None, "undrawn": posterior}
    before = set(files.contents)
    placed = _place_posterior(posterior, made.panels, files, f"posterior{suffix}")
    written = []
    for name in files.contents:
        if name not in before:
            written.append(name.rpartition("/")[2])
    if number > 1:
        placed["posterior"] = placed["prior"] + placed["posterior"]
    numbered = ((sample.n_models, "model"), (sample.n_groups, sample.group))
    rests_on = [formatting.format_count(n, noun) for n, noun in numbered if n]
    intervals = _list_interval_kinds(posterior)
    links = [render_link(name, name) for name in written]
    fitted = {"posterior": posterior, "undrawn": None, "rests_on": rests_on}
    return fitted | {"intervals": intervals, "placed": placed, "files": links}


def collect_compared_figures(parts: Sequence[Mapping[str, Any]]) -> list[formatting.Compared]:
    """Every published figure once, with the recomputed one; of equal names each says which finding
    it belongs to."""
    first = {}
    for part in reversed(parts):
        for row in part["compared"]:
            first[row] = part["number"]
    times = Counter(each.name for each in first)
    rows = dict.fromkeys(row for part in parts for row in part["compared"])
    compared_figures: list[formatting.Compared] = []
    for row in rows:
        compared = row
        if times[row.name] > 1:
            compared = row._replace(name=f"{row.name}, finding {first[row]}")
        compared_figures.append(compared)
    return compared_figures


def _list_other_sets(views: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings on other sets of evidence, one row each; sets that carry none of them are named in
    one row.

    The page folds all but those of the first question that is put to others.
    """
    carried = [view for view in views if view.verdict != UNMEASURED]
    first = {}
    for view in reversed(views):
        if view.verdict == UNMEASURED:
            first[view.sample.evidence] = view
    for view in carried:
        first.pop(view.sample.evidence, None)
    leading = views[0].id if views else ""
    other_sets: list[dict[str, Any]] = []
    for view in (*carried, *first.values()):
        other_sets.append(
            {"finding": view, "by_p": _is_p_decisive(view), "leads": view.id == leading}
        )
    return other_sets


def _sort_further_sets(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of further questions, answers on all evidence before those on parts of it."""
    further = [row for row in rows if not row["leads"]]
    return sorted(further, key=lambda row: row["finding"].sample.evidence != POOLED)


def _tabulate_other_sets(
    views: Sequence[Finding], parts: Sequence[Mapping[str, Any]]
) -> pd.DataFrame:
    """Findings on other sets of evidence, a row each, as the page has them."""
    number_of = {part["finding"].id: part["number"] for part in parts}
    rows = []
    for view in views:
        row = {
            "set_of_evidence": view.sample.evidence,
            "number": number_of[view.id],
            "finding": view.estimand,
            "verdict": view.stands,
            "estimate": view.headline.value,
            "lower": view.headline.lower,
            "upper": view.headline.upper,
            "interval": view.headline.interval,
            "p": view.strength.level,
            "needed": view.strength.limit,
            "n_models": view.sample.n_models,
            "n_groups": view.sample.n_groups,
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _is_p_decisive(finding: Finding) -> bool:
    """Whether a p-value decided where the interval holds a number that the rule compares with."""
    head = finding.headline
    rule = finding.criterion
    bars = [bar for bar in (rule.above, rule.below) if bar is not None]
    if finding.verdict not in DECIDED or head.lower is None or head.upper is None:
        return False
    holds_bar = any(head.lower < bar < head.upper for bar in bars)
    return formatting.is_p_value(head.p_kind) and holds_bar


def _find_other_verdicts(findings: Sequence[Finding]) -> list[Finding]:
    """The first question on other sets, where its verdict is another: any on all rows together, or
    a decided one."""
    first = findings[0]
    views = []
    for view in findings:
        if view.sample.view_of and view.id == first.id and view.verdict != first.verdict:
            views.append(view)
    other_verdicts: list[Finding] = []
    for view in views:
        if view.verdict in DECIDED or (view.sample.evidence == POOLED and view.verdict == OPEN):
            other_verdicts.append(view)
    return other_verdicts


def _list_model_names(findings: Sequence[Finding]) -> dict[str, str]:
    """Models of small sets of evidence, by set: of its finding that rests on most of them."""
    named = {}
    for view in _sort_findings(findings):
        if models := view.plain.partition(": ")[2]:
            named[view.sample.evidence] = models
    return named


def _find_lone_sources(findings: Sequence[Finding]) -> dict[str, str]:
    """Labs that one source alone measured, by set: of its finding that rests on most models. What
    follows from that stands after the last alone."""
    said = {}
    for view in _sort_findings(findings):
        if view.sample.coincidence:
            said[view.sample.evidence] = view.sample.coincidence
    for name in list(said)[:-1]:
        said[name] = said[name].removesuffix(DUE)
    return said


def _sort_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Findings on other sets of evidence, those of most models last."""
    return sorted(_list_views(findings), key=attrgetter("sample.n_models"))


def _list_views(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.sample.view_of]


def _describe_rule_date(claim: Claim, findings: Sequence[Finding]) -> str:
    """When the rule was fixed, in words."""
    study = find_study(claim.id)
    if study is None or not study.report.fixed:
        return "as the script states it"
    fitted = any(finding.posterior for finding in findings)
    return str(Template(study.report.fixed).render(changed=bool(claim.history), fitted=fitted))


def _place_posterior(
    posterior: FittedModel, drawn: Sequence[bytes], files: Files, stem: str
) -> dict[str, list[Text]]:
    """Figures, then tables of a posterior, by section of its page."""
    sections = ("prior", "priors", "computation", "posterior", "checks", "sensitivity", "more")
    placed: dict[str, list[Text]] = {name: [] for name in sections}

    def add(
        section: str,
        frame: pd.DataFrame,
        label: str,
        name: str = "",
        excerpt: pd.DataFrame | None = None,
    ) -> None:
        excerpt = (frame if excerpt is None else excerpt).rename(columns=HEADINGS)
        words = re.split(r"[:(,]", label)[0]
        called = f"{stem}-{name or make_slug(words)}.csv"
        shown = files.add_table(frame, label, called, excerpt=excerpt, most=MOST_ROWS)
        if section == "more":
            shown = render_link(called, called)
        placed[section].append(shown)

    rule = f"Rule: {posterior.conclusion.rule}"
    model = "\n".join([posterior.model, "", *posterior.equations, "", rule, ""])
    files.add(f"{stem}-model.txt", model.encode())
    for panel, svg in zip(posterior.panels, drawn, strict=True):
        name = f"{stem}-{make_slug(panel.name)}.svg"
        figure = files.add_figure(svg, name, _shorten_caption(panel.caption, posterior.model))
        section = PLACES.get(make_slug(panel.name), "more")
        placed[section].append(render_link(name, name) if section == "more" else figure)
    if posterior.priors:
        priors = pd.DataFrame(posterior.priors, columns=["quantity", "distribution", "why"])
        add("priors", priors, "Priors", excerpt=priors[["quantity", "distribution"]])
    diagnostics = posterior.computation.diagnostics
    if len(diagnostics) and all(diagnostics.get("passes", [False])):
        name = f"{stem}-diagnostics.csv"
        files.add_rows(name, diagnostics)
        within = formatting.escape_markdown(join_words(diagnostics["diagnostic"].to_list()))
        numbers = render_link(name, name)
        placed["computation"].append(Text(f"Within their limits: {within}. Numbers: {numbers}"))
    elif len(diagnostics):
        shown = diagnostics.drop(columns="failure", errors="ignore")
        add("computation", diagnostics, "Diagnostics of the sampler", "diagnostics", shown)
    columns = [name for name in SUMMARY if name in posterior.summary]
    all_columns = len(_list_interval_kinds(posterior)) != 1
    excerpt = posterior.summary if all_columns else posterior.summary[columns]
    add("posterior", posterior.summary, "Summary of the posterior", "summary", excerpt)
    if posterior.gate.checks:
        name = f"{stem}-checks.csv"
        files.add_rows(name, posterior.gate.table())
        placed["checks"].append(_list_checks(posterior, name))
    if posterior.sensitivity is not None:
        alternatives = posterior.sensitivity
        varied = [name for name in alternatives if alternatives[name].nunique(dropna=False) > 1]
        add("sensitivity", alternatives, "Alternatives", "sensitivity", alternatives[varied])
    for check in posterior.gate.checks:
        is_shown = posterior.sensitivity is not None and check.table.equals(posterior.sensitivity)
        if len(check.table) and POINTWISE not in check.table and not is_shown:
            add("more", check.table, set_capital(check.name))
    for title, frame in posterior.tables.items():
        add("more", frame, title)
    return placed


def _shorten_caption(caption: str, model: str) -> str:
    """A caption without the sentence on the model, which stands above it."""
    return caption.removeprefix(model).strip() or caption


def _list_checks(posterior: FittedModel, name: str) -> Text:
    """A line for each check of a fit that did not pass, and one of the names of those that did, as
    the file has them all."""
    lines = []
    passed = []
    for check in posterior.gate.checks:
        if check.outcome == draws.PASSED:
            passed.append(check.name)
            continue
        said = f"{set_capital(check.name)}: {check.outcome}; {check.reason}"
        lines.append(f"- {formatting.escape_markdown(said)}")
    if passed:
        lines.append(f"- Passed: {formatting.escape_markdown(join_words(passed))}")
    lines += ["", f"With reasons: {render_link(name, name)}"]
    return Text("\n".join(lines))


def _list_interval_kinds(posterior: FittedModel) -> list[str]:
    """Kinds and levels of the intervals of the summary, in words."""
    if not {"kind", "level"} <= set(posterior.summary):
        return []
    pairs = (
        posterior.summary[["kind", "level"]].drop_duplicates().itertuples(index=False, name=None)
    )
    kinds = []
    for kind, level in pairs:
        kinds.append(f"{100 * float(level):g}% {INTERVALS.get(str(kind), str(kind))}")
    return sorted(kinds)


def _format_probability(posterior: FittedModel) -> str:
    """The decisive probability with its Monte-Carlo error: `P(slope < 0) = 0.973 (Monte-Carlo error
    0.0030)`."""
    by = posterior.conclusion
    if by.error is None:
        return by.chance
    error = formatting.format_number(by.error, 2)
    return f"{by.chance} (Monte-Carlo error {error})"


def set_capital(name: str) -> str:
    """With a capital, but for a Greek letter, which is a symbol."""
    capital = name[:1].upper()
    return f"{capital}{name[1:]}" if name[:1].isascii() else name
