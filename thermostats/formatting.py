"""Numbers, intervals and agreement in words, and names escaped for Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

MINUS = "\u2212"
SIGNIFICANT = 3
MOST_DIGITS = 6
"""Digits to which published figures are compared that were stored, not printed: what single
precision keeps."""
WHOLE = 1e7
"""Whole numbers below this are shown in full."""
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Compared(NamedTuple):
    """A published figure and the recomputed one."""

    name: str
    published: str
    reproduced: str
    agrees: bool | None
    """To the printed digits of the published figure; None: not recomputed."""

    @property
    def word(self) -> str:
        """Yes, no, or nothing where there is nothing to compare."""
        return {True: "yes", False: "no", None: ""}[self.agrees]


def format_number(value: float | None, significant: int = SIGNIFICANT) -> str:
    """A number to `significant` digits with a true minus sign; powers of ten where it is very large
    or small."""
    if value is None or math.isnan(value):
        return ""
    if math.isinf(value):
        return ("" if value > 0 else MINUS) + "∞"
    if value and not 1e-4 <= abs(value) < 1e7:
        mantissa, exponent = f"{value:.{significant - 1}e}".split("e")
        return f"{mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPT)}".replace("-", MINUS)
    decimals = (
        max(0, significant - 1 - int(f"{value:.{significant - 1}e}".split("e")[1])) if value else 0
    )
    return f"{value:,.{decimals}f}".replace("-", MINUS)


def format_apart(first: float, second: float) -> tuple[str, str]:
    """Two numbers with two digits, or with as many up to four as tell them apart."""
    for significant in (2, 3, 4):
        texts = format_number(first, significant), format_number(second, significant)
        if texts[0] != texts[1]:
            return texts
    return format_number(first, 2), format_number(second, 2)


def format_range(lower: float | None, upper: float | None) -> str:
    """An interval in brackets, rounded as `format_estimate` does; empty where it has no ends."""
    return format_estimate(None, lower, upper)


def format_estimate(value: float | None, lower: float | None, upper: float | None) -> str:
    """A value and its interval to the decimals that its error supports: `0.12 [0.03, 0.20]`.

    That is two significant digits of half the interval's width, and as many as tell its ends from
    zero. Without an interval the value has `SIGNIFICANT` digits.
    """
    if lower is None or upper is None:
        return format_number(value)
    width = upper - lower
    if not WHOLE > width > 1e-6 or max(abs(lower), abs(upper)) >= WHOLE:
        return f"{format_number(value)} [{format_number(lower)}, {format_number(upper)}]".strip()
    enough = 1 - math.floor(math.log10(width / 2))
    first = max((-math.floor(math.log10(abs(end))) for end in (lower, upper) if end), default=0)
    decimals = max(0, enough, min(first, enough + 2))
    interval = f"[{_format_rounded(lower, decimals)}, {_format_rounded(upper, decimals)}]"
    return (
        interval
        if value is None or math.isnan(value)
        else f"{_format_rounded(value, decimals)} {interval}"
    )


def estimate_range(estimate: Any) -> str:
    """`format_estimate` of what has `estimate`, `lower` and `upper`."""
    return format_estimate(estimate.estimate, estimate.lower, estimate.upper)


def estimate_text(estimate: Any) -> str:
    """Estimate, interval, and the interval's kind and level."""
    kind = (
        f", {estimate.interval}"
        if format_range(estimate.lower, estimate.upper) and estimate.interval
        else ""
    )
    return estimate_range(estimate) + kind


def format_probability(estimate: Any) -> str:
    """Probability with its kind; a p-value as `p = 0.014`, `one-sided p = 0.014` or `p <
    0.0001`."""
    if estimate.p is None:
        return ""
    if is_p_value(estimate.p_kind):
        side = "one-sided " if "one-sided" in estimate.p_kind else ""
        return f"{side}p {format_p_value(estimate.p)}"
    return f"{format_number(estimate.p, 2)} ({estimate.p_kind or 'probability'})"


def is_p_value(kind: str) -> bool:
    """True for the kinds `p-value` and `one-sided p-value`, which Holm's adjustment covers."""
    return kind in {"p-value", "one-sided p-value"}


def format_p_value(p: float) -> str:
    """A p-value with its sign: `= 0.014`, `= 1`, `< 0.0001`, or `> 0.99`."""
    if p < 1e-4:
        return "< 0.0001"
    return "= 1" if p >= 1 else "> 0.99" if p > 0.99 else f"= {format_number(p, 2)}"


def format_chance(p: float) -> str:
    """A posterior probability to three decimals; no finite number of draws shows 0 or 1: `< 0.001`,
    `> 0.999`."""
    return "< 0.001" if p < 0.001 else "> 0.999" if p > 0.999 else f"{p:.3f}"


def format_statement_chance(statement: str, p: float) -> str:
    """`P(slope < 0) = 0.973`, `P(slope < 0) > 0.999`."""
    text = format_chance(p)
    return f"{statement} {text}" if text[0] in "<>" else f"{statement} = {text}"


def format_figure(value: float | None, significant: int = SIGNIFICANT) -> str:
    """A number as `format_number` sets it, but whole ones without decimals and in full: 31,
    8,192."""
    if value is None or math.isnan(value) or value % 1 or abs(value) >= WHOLE:
        return format_number(value, significant)
    return f"{value:,.0f}".replace("-", MINUS)


def format_declared(value: float) -> str:
    """A number that somebody chose, as it was chosen: 0.05, −0.3, 1,000; of others `SIGNIFICANT`
    digits."""
    return (
        f"{value:,.0f}".replace("-", MINUS)
        if not value % 1
        else f"{value:.{SIGNIFICANT}g}".replace("-", MINUS)
    )


def count_decimals(value: float) -> int:
    """Decimals of a figure as it was printed: 2 for -0.81, 0 for 62696, at most `MOST_DIGITS`
    significant digits."""
    digits = Decimal(repr(float(value))).normalize()
    exponent = digits.as_tuple().exponent
    decimals = max(0, -exponent) if isinstance(exponent, int) else 0
    return min(decimals, max(0, MOST_DIGITS - 1 - digits.adjusted())) if digits else 0


def is_reproduced(name: str, published: float, reproduced: float) -> bool:
    """True where the recomputed figure rounds to the published one, or keeps to it where it is a
    bound."""
    if name.rstrip().endswith(("<", "≤")):
        return bool(reproduced <= published)
    if name.rstrip().endswith((">", "≥")):
        return bool(reproduced >= published)
    half = 0.5 * 10.0 ** -count_decimals(published)
    return bool(abs(reproduced - published) <= half * (1 + 1e-9))


def compare_figures(
    published: Mapping[str, float], reproduced: Mapping[str, float]
) -> list[Compared]:
    """Every published figure with the recomputed one, in the order given; then figures that were
    only recomputed."""
    rows = []
    for name, value in published.items():
        decimals = count_decimals(value)
        other = reproduced.get(name, math.nan)
        is_number = not math.isnan(other)
        recomputed = _format_finer(other, decimals) if is_number else ""
        rows.append(
            Compared(
                name,
                _format_fixed(value, decimals),
                recomputed,
                is_reproduced(name, value, other) if is_number else None,
            )
        )
    rows += [
        Compared(name, "", format_figure(value, 4), None)
        for name, value in reproduced.items()
        if name not in published
    ]
    return rows


def strip_owner(model_id: str) -> str:
    """Model id without its owner: `EleutherAI/pythia-70m` is shown as `pythia-70m`."""
    return model_id.rsplit("/", 1)[-1] or model_id


def format_percent(share: float, decimals: int = 0) -> str:
    """A share in per cent with a true minus sign: 0.043 is `4.3%` with one decimal."""
    return f"{share:.{decimals}%}".replace("-", MINUS)


def format_signed_percent(share: float) -> str:
    """A change in per cent with its sign: `+12%`."""
    return f"{share:+.0%}".replace("-", MINUS)


def join_words(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def format_count(count: int, noun: str) -> str:
    """`1 model`, `2 models`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


BYTES = ("B", "kB", "MB", "GB", "TB")
"""Units of sizes, each a thousand of the one before."""


def format_bytes(count: float, space: str = " ") -> str:
    """A size to three digits in the unit in which it is below 1000: 812 B, 38.5 kB, 4.2 GB.

    space: between number and unit.
    """
    for power, unit in enumerate(BYTES):
        shown = float(f"{count / 1000**power:.3g}")
        if shown < 1000 or unit == BYTES[-1]:
            break
    return f"{shown:g}{space}{unit}"


def take_sentences(text: str, most: int = 2) -> str:
    """Text up to its full stop number `most` that ends a sentence."""
    ends = [
        match.end()
        for match in re.finditer(r"(?<!\bvs)(?<!\bcf)(?<!\.[a-z])[.!?](?=\s+[A-Z“‘(])", text)
    ]
    return text[: ends[most - 1]] if len(ends) >= most else text


COMMAND = re.compile(r"(`thermostats [\w .,:/=+-]*`)")
"""A command of the package in a sentence, in words that mean nothing else in Markdown."""


def escape_markdown(value: object) -> str:
    """Text for Markdown that shows as it is, on one line: markup, HTML, table bars and mathematics
    escaped; a command of the package stays one."""
    parts = COMMAND.split(" ".join(str(value).split()))
    return "".join(part if place % 2 else _escape(part) for place, part in enumerate(parts))


def _escape(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*\[\]|$~])", r"\\\1", text)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)
    return re.sub(r"^(\d*)([#+.)-])(?=[\s#]|$)", r"\1\\\2", text)


def _format_fixed(value: float, decimals: int) -> str:
    if 0 < 1 - value < 10.0**-MOST_DIGITS:
        return f"1 {MINUS} {format_number(1 - value, 2)}"
    return (
        format_number(value)
        if value and abs(value) < 1e-4
        else f"{value:,.{decimals}f}".replace("-", MINUS)
    )


def _format_rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", MINUS)


def _format_finer(value: float, decimals: int) -> str:
    """Two digits more than the published figure, and enough to tell it from zero; whole numbers as
    they are."""
    if not decimals and not value % 1:
        return _format_fixed(value, 0)
    text = _format_fixed(value, decimals + 2)
    return format_number(value) if value and not re.search("[1-9]", text) else text
