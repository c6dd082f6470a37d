"""How a fit is shown: a few lines at a prompt, a table in a notebook, figures by kind, JSON."""

from __future__ import annotations

import math
import warnings
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermostats.errors import UsageError, build_unknown_error
from thermostats.formatting import format_count, format_number, format_statement_chance
from thermostats.modelling import checks
from thermostats.modelling.draws import find_equal_tailed, list_versions, name_elements
from thermostats.modelling.fit_power import is_planned
from thermostats.modelling.fitted_law import FittedLaw
from thermostats.modelling.group_effects import LAB, list_group_kinds
from thermostats.modelling.mixed_model import MixedDesign
from thermostats.plots.general import draw_forest, set_title, start_axes
from thermostats.plots.posterior import draw_predictive_panels, draw_prior_to_posterior

WIDTH = 80
"""Characters of a line of a fit at a prompt."""
FIRST = 4
"""Quantities, and probabilities, that are among them."""
CLASSICAL = "classical"
"""The table with the block tests, of a law that has it."""
FEW_LABS = 3
"""So many say nothing of the spread of labs that there could be."""
MOST_ROWS = 20
"""Most quantities in a notebook's table or in a figure."""


def format_lines(fit: FittedLaw) -> list[str]:
    """A fit in a few lines of at most `WIDTH` characters, the last with what it can be asked."""
    few = say_few_labs(fit)
    tested = [] if few else _say_test(fit)
    rows = []
    for quantity, row in fit.summary().head(FIRST - len(few) - len(tested)).iterrows():
        median, lower, upper = map(format_number, row[["median", "lower", "upper"]])
        rows.append(f"  {quantity}: {median} [{lower}, {upper}]")
    chances = format_chances(fit)[:2]
    ends = f"  median and {fit.level:.0%} equal-tailed interval"
    if fit.sources:
        ends += f"; sources: {', '.join(fit.sources)}"
    warned = []
    if fit.warnings:
        number = format_count(len(fit.warnings), "warning")
        warned.append(f"{number} (fit.warnings), first: {fit.warnings[0]}")
    lines: list[str] = []
    for line in [format_headline(fit), *few, *rows]:
        lines += wrap(line, WIDTH, subsequent_indent="    ")
    lines.append(_cut(ends))
    for line in chances:
        lines += wrap(line, WIDTH, subsequent_indent="    ")
    return [*lines, *tested, *map(_cut, warned), write_methods(fit)]


def _say_test(fit: FittedLaw) -> list[str]:
    """Where the test stands that asks whether labs differ at all, which is less than that they
    matter most."""
    if CLASSICAL not in fit.law.tables or LAB not in list_group_kinds(fit):
        return []
    return [f'whether labs differ at all, given the rest: fit.table("{CLASSICAL}")']


def _cut(line: str) -> str:
    """A line that loses its end where it is too long."""
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def write_methods(fit: FittedLaw) -> str:
    """What a fit can be asked next, in a line."""
    groups = ["effects", "contrast"] if list_group_kinds(fit) else []
    planned = ["power"] if is_planned(fit) else []
    names = ["summary", *groups, "check", "predict", *planned, "plot", "to_latex"]
    calls = [f"{name}()" for name in names]
    return f"next: {' '.join(calls)}"


def format_chances(fit: FittedLaw) -> list[str]:
    """Probability of every statement of the law; a range of what hangs on names of columns."""
    lines = []
    for name, value in fit.probabilities.items():
        if name in fit.ranges:
            low, high = map(format_number, fit.ranges[name])
            lines.append(f"P({name}) from {low} to {high}, by which column is which")
        else:
            lines.append(f"P({name}) = {format_number(value)}")
    return lines


def say_few_labs(fit: FittedLaw) -> list[str]:
    """That the spread of two or three labs is no spread of labs that there could be."""
    kind = list_group_kinds(fit).get(LAB)
    if kind is None:
        return []
    number = len(fit.designed(MixedDesign).effects[kind.block].names)
    if number > FEW_LABS:
        return []
    return [
        f"{format_count(number, 'lab')}: what labs differ by holds for these alone, for no others"
    ]


def format_headline(fit: FittedLaw) -> str:
    """Law, outcome, size and status of a fit."""
    rows = fit.rows
    size = f"{len(rows)} rows"
    if "model_id" in rows:
        size = format_count(rows["model_id"].nunique(), "model")
        labs = set(rows["heritage"]) - {""} if "heritage" in rows else ()
        size += f" of {format_count(len(labs), 'lab')}" if labs else ""
    return f"{fit.law.name} fit of {fit.estimand or 'y'}: {size}, {fit.status}"


def render_html(fit: FittedLaw) -> str:
    """Title, first quantities and remarks, for a notebook."""
    table = fit.summary()
    chances = format_chances(fit)[:FIRST]
    left = len(table) - MOST_ROWS
    remarks = [*say_few_labs(fit), *chances, *fit.warnings]
    if left > 0:
        remarks.append(f"{left} rows more")
    items = "".join(f"<li>{escape(line)}</li>" for line in remarks)
    shown = table.head(MOST_ROWS).rename_axis(None)
    body = shown.to_html(border=0, float_format=lambda x: f"{x:.4g}")
    headline = escape(format_headline(fit))
    listed = f"<ul>{items}</ul>" if items else ""
    return f"<p><b>{headline}</b></p>{body}{listed}"


def render_latex(fit: FittedLaw, digits: int) -> str:
    """Summary and probabilities as a table of LaTeX with booktabs; UsageError for digits that are
    no number from 1."""
    if not isinstance(digits, int) or isinstance(digits, bool) or digits < 1:
        what = "digits are a whole number"
        allowed = "significant digits from 1"
        raise UsageError(
            what, got=repr(digits), allowed=allowed, next_step="fit.to_latex(digits=3)"
        )
    rows = []
    for name, row in fit.summary().iterrows():
        numbers = [_format_significant(float(value), digits) for value in row]
        mean, sd, median, lower, upper = numbers
        quantity = _escape_text(str(name))
        rows.append(rf"{quantity} & {mean} & {sd} & {median} & [{lower}, {upper}] \\")
    chances = []
    for name, value in fit.probabilities.items():
        ends = fit.ranges.get(name, (value,))
        text = " to ".join(_format_significant(end, digits) for end in ends)
        chances.append(rf"P({_escape_text(name)}) & \multicolumn{{4}}{{r}}{{{text}}} \\")
    if chances:
        chances.insert(0, r"\midrule")
    sources = ", ".join(fit.sources) or "none named"
    coverage = round(100 * fit.level, 1)
    lines_of_table = [
        f"% {_put_on_one_line(format_headline(fit))}",
        f"% intervals are equal-tailed; sources: {_put_on_one_line(sources)}",
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        rf"Quantity & Mean & SD & Median & {coverage:g}\% interval \\",
        r"\midrule",
        *rows,
        *chances,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines_of_table) + "\n"


def _format_significant(value: float, digits: int) -> str:
    """A number in mathematics with so many significant digits, in powers of ten beyond 1e-4 and
    1e6."""
    if not math.isfinite(value):
        return "--"
    power = math.floor(math.log10(abs(value))) if value else 0
    if not -4 <= power < 6:
        mantissa = f"{value / 10.0**power:.{digits - 1}f}"
        return f"${mantissa} \\times 10^{{{power}}}$"
    decimals = max(digits - 1 - power, 0)
    return f"${value:.{decimals}f}$"


def _escape_text(text: str) -> str:
    """Text with what LaTeX obeys made plain."""
    plain = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
    }
    plain |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    return "".join(plain.get(sign, sign) for sign in _put_on_one_line(text))


def _put_on_one_line(text: str) -> str:
    """Text without ends of lines, which would end a comment of LaTeX or a row."""
    return " ".join(text.split())


def summarise_updates(fit: FittedLaw) -> pd.DataFrame:
    """Median and interval of what is reported before and after the data: quantity, stage, median,
    lower, upper."""
    before = fit.model.draw_prior(checks.OF_PRIOR, np.random.default_rng(fit.seed))
    as_one_chain = {name: values[None] for name, values in before.items()}
    prior = fit.law.quantities(as_one_chain, fit.design)
    rows: list[tuple[str, str, float, float, float]] = []
    for name, after in fit.reported.items():
        for stage, values in (("prior", prior[name]), ("posterior", after)):
            shape = values.shape[2:]
            columns = values.reshape(-1, int(np.prod(shape)))
            lower, upper = find_equal_tailed(columns, fit.level)
            medians = np.median(columns, axis=0)
            labels = name_elements(name, shape)
            stages = [stage] * len(labels)
            rows += zip(labels, stages, medians, lower, upper, strict=True)
    return pd.DataFrame(rows, columns=["quantity", "stage", "median", "lower", "upper"])


def draw(fit: FittedLaw, kind: str, axes: Axes | None) -> Axes:
    """Draw one kind of figure; see `Fit.plot`."""
    kinds = {
        **fit.law.figures,
        "intervals": _draw_intervals,
        "prior": _draw_prior,
        "replicated": _draw_replicated,
    }
    if isinstance(kind, str) and not kind:
        kind = next(iter(kinds))
    if kind not in kinds:
        raise build_unknown_error(
            "no such figure of the fit", kind, kinds, where=fit.law.name, line='fit.plot("{}")'
        )
    drawn = axes if axes is not None else start_axes()
    kinds[kind](fit, drawn)
    if axes is None:
        make_room(drawn)
    return drawn


def _draw_intervals(fit: FittedLaw, axes: Axes) -> object:
    table = fit.summary().head(MOST_ROWS).reset_index()
    drawn = draw_forest(table, axes, label="quantity", estimate="median")
    about = f"{fit.law.name} of {fit.estimand}, {fit.level:.0%} intervals"
    first = next(iter(fit.law.statements), "")
    said = format_statement_chance(f"P({first})", fit.probability(first)) if first else about
    set_title(axes, said)
    if first:
        axes.set_xlabel(about, parse_math=False)
    return drawn


def _draw_prior(fit: FittedLaw, axes: Axes) -> object:
    updates = summarise_updates(fit)
    return draw_prior_to_posterior(updates.head(2 * MOST_ROWS), axes)


def _draw_replicated(fit: FittedLaw, axes: Axes) -> object:
    gate = checks.run_checks(fit, {}, refits=False, seed=fit.seed)
    tables = [check.table for check in gate.checks if check.name == "posterior predictive"]
    table = pd.concat(tables, ignore_index=True)
    return draw_predictive_panels(table, axes)


def make_room(axes: Axes) -> None:
    """Enlarge a figure until all that is drawn lies in it, and the names of rows do not overlap."""
    figure = axes.get_figure(root=True)
    if not isinstance(figure, Figure):
        return
    rows = sum(bool(label.get_text()) for label in axes.get_yticklabels())
    figure.set_figheight(max(figure.get_figheight(), 0.9 + 0.22 * rows))
    for _ in range(3):
        with warnings.catch_warnings():  # no room at first is what this mends
            warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
            figure.draw_without_rendering()
        drawn = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        beyond_width = max(0.0, drawn.x1 - width)
        beyond_height = max(0.0, drawn.y1 - height)
        across = max(0.0, -drawn.x0) + beyond_width
        down = max(0.0, -drawn.y0) + beyond_height
        if across < 0.01 and down < 0.01:
            return
        figure.set_size_inches(width + 1.1 * across, height + 1.1 * down)


def dump_fit(fit: FittedLaw) -> dict[str, Any]:
    """A fit without its draws, as JSON takes it."""
    summary = fit.summary().reset_index()
    chances = {}
    for name, value in fit.probabilities.items():
        chances[name] = convert_number(value)
    tables = {}
    for name in fit.law.tables:
        tables[name] = convert_records(fit.table(name))
    return {
        "law": fit.law.name,
        "estimand": fit.estimand,
        "sources": list(fit.sources),
        "status": fit.status,
        "engine": fit.draws.engine,
        "level": fit.level,
        "seed": fit.seed,
        "equations": list(fit.law.equations),
        "priors": [list(prior) for prior in fit.law.priors],
        "versions": dict(list_versions()),
        "gate": list(fit.draws.failures()),
        "summary": convert_records(summary),
        "probabilities": chances,
        "tables": tables,
        "warnings": list(fit.warnings),
    }


def convert_records(table: pd.DataFrame) -> list[dict[str, object]]:
    """Rows of a table as JSON takes them."""
    records = []
    for row in table.to_dict("records"):
        record = {}
        for name, value in row.items():
            record[str(name)] = convert_number(value)
        records.append(record)
    return records


def convert_number(value: Any) -> Any:
    """A number as JSON takes it: missing and infinite become null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if value is pd.NA else value
