"""Priors that a call gives: of the intercept, of the whole standard deviation, of the shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thermostats.errors import SHOWN_OF, UsageError, find_nearest
from thermostats.modelling.heritage.law import HALF_AND_TWICE, OWN
from thermostats.modelling.mixed_model import LEFT, Mixed
from thermostats.modelling.positive import FAMILIES, PositivePrior
from thermostats.next_steps import Code, repeat_call

INTERCEPT, TOTAL_SD, SHARES = "intercept", "total_sd", "shares"
BLOCKS = (INTERCEPT, TOTAL_SD, SHARES)
"""What priors can be given of."""
WHY = "as given"
WORKING: Mapping[str, Any] = {INTERCEPT: 1, TOTAL_SD: 0.5, SHARES: 1}
"""Values of lines that work."""


def give_priors(mixed: Mixed, priors: Mapping[str, Any] | None) -> Mixed:
    """A declaration with these priors in the place of its own.

    intercept: `scipy.stats.norm(mean, sd)`, or the standard deviation of one about 0. total_sd: a
    frozen halfnorm, halfcauchy, expon, gamma or lognorm, or the scale of a half-normal. shares: the
    concentration of all, of every block by its name, families and models among them, or
    `scipy.stats.dirichlet([…])` in their order. Raises UsageError for what is none of these.
    """
    priors = priors or {}
    for name, value in priors.items():
        if name not in BLOCKS:
            kept = {}
            for known, each in priors.items():
                if known in BLOCKS:
                    kept[known] = each
            others = [each for each in BLOCKS if each not in kept]
            near = find_nearest(str(name), others)
            kept |= {near: value} if near else {}
            step = _write_call(kept or {TOTAL_SD: WORKING[TOTAL_SD]})
            raise UsageError(
                "no prior can be given of that",
                where="priors",
                got=repr(name),
                allowed=", ".join(BLOCKS),
                next_step=step,
            )
    for name, value in priors.items():
        mixed = _GIVE[name](mixed, value, priors)
    return mixed


def vary_given(mixed: Mixed, named: Iterable[str]) -> dict[str, Mixed]:
    """Half and twice the scales of the priors that were given; shares have their own."""
    others = {}
    for words, factor in HALF_AND_TWICE.items():
        scaled = mixed.scale_priors(factor)
        if INTERCEPT in named:
            of_intercept = replace(mixed, fixed=scaled.fixed)
            others[f"{words} the scale given of {INTERCEPT}"] = of_intercept
        if TOTAL_SD in named:
            of_total = replace(mixed, variance=scaled.variance)
            others[f"{words} the scale given of {TOTAL_SD}"] = of_total
    return others


def describe_given(mixed: Mixed, named: Iterable[str]) -> tuple[str, ...]:
    """The priors that were given, as a line of the equations."""
    lines = []
    for symbol, words, why in mixed.priors:
        if why == WHY:
            lines.append(f"{symbol} ~ {words}")
    return (f"priors given: {',  '.join(lines)}",) if list(named) else ()


def _give_intercept(mixed: Mixed, value: Any, priors: Any) -> Mixed:
    mean = 0.0
    sd = value
    if (frozen := _read_frozen(value)) is not None:
        name, shapes, mean, sd = frozen
        if name != "norm" or shapes:
            raise _refuse(
                "the prior of the intercept is normal",
                INTERCEPT,
                value,
                "scipy.stats.norm(mean, sd), or the SD of one about 0",
                priors,
            )
    if not _is_above_0(sd) or not math.isfinite(mean):
        raise _refuse(
            "no prior of the intercept", INTERCEPT, value, "a standard deviation above 0", priors
        )
    first, *others = mixed.fixed
    alpha = replace(first, mean=float(mean), sd=float(sd), why=WHY)
    return replace(mixed, fixed=(alpha, *others))


def _give_total(mixed: Mixed, value: Any, priors: Any) -> Mixed:
    prior = _read_positive(value, priors)
    assert mixed.variance is not None  # noqa: S101 - of shares
    whys = (WHY, mixed.variance.whys[1])
    variance = replace(mixed.variance, total=prior, whys=whys)
    return replace(mixed, variance=variance)


def _read_positive(value: Any, priors: Any) -> PositivePrior:
    """A prior of a standard deviation; UsageError for one that is none."""
    known = ", ".join(each.scipy for each in FAMILIES.values())
    allowed = f"a scale above 0, or a frozen {known} of scipy.stats with loc 0"
    frozen = _read_frozen(value)
    if frozen is None:
        if not _is_above_0(value):
            raise _refuse("no prior of a standard deviation", TOTAL_SD, value, allowed, priors)
        return PositivePrior(scale=float(value))
    name, shapes, loc, scale = frozen
    lower = value.support()[0]
    if lower < 0 or loc:
        raise _refuse(
            f"a standard deviation lies above 0, this prior from {lower:g} on",
            TOTAL_SD,
            value,
            allowed,
            priors,
        )
    families = []
    for family, each in FAMILIES.items():
        if each.scipy == name:
            families.append(family)
    numbers = (*shapes, scale)
    if not families or not all(map(_is_above_0, numbers)):
        raise _refuse("no such prior of a standard deviation", TOTAL_SD, value, allowed, priors)
    return PositivePrior(scale=scale, family=families[0], shapes=shapes)


def _give_shares(mixed: Mixed, value: Any, priors: Any) -> Mixed:
    blocks = {kind.name: kind.block for kind in mixed.kinds}
    blocks[OWN] = LEFT
    allowed = f"a number above 0, or one of each of {', '.join(blocks)}"
    if isinstance(value, Mapping):
        for name in value:
            if name not in blocks:
                kept = {}
                for known, each in value.items():
                    if known in blocks:
                        kept[known] = each
                step = _write_call({**priors, SHARES: kept or WORKING[SHARES]})
                raise UsageError(
                    "a share of no block of this fit",
                    where=f"priors, {SHARES}",
                    got=repr(name),
                    allowed=", ".join(blocks),
                    next_step=step,
                )
        named = dict(value)
    elif hasattr(value, "alpha"):
        alpha = np.atleast_1d(value.alpha)
        if alpha.size != len(blocks):
            what = f"a Dirichlet of {alpha.size} shares, where this fit has {len(blocks)}"
            what = f"a Dirichlet of {alpha.size} shares, where this fit has {len(blocks)}"
            order = f"in this order {', '.join(blocks)}"
            raise _refuse(what, SHARES, alpha.tolist(), order, priors)
        named = dict(zip(blocks, alpha.tolist(), strict=True))
    else:
        named = dict.fromkeys(blocks, value)
    for name, each in named.items():
        if not _is_above_0(each):
            raise _refuse("no prior of shares", f"{SHARES}, {name}", each, allowed, priors)
    assert mixed.variance is not None  # noqa: S101 - of shares
    given = {}
    for name, each in named.items():
        given[blocks[name]] = float(each)
    whys = (mixed.variance.whys[0], WHY)
    variance = replace(mixed.variance, concentrations=given, whys=whys)
    different = set(given.values())
    if set(given) == set(blocks.values()) and len(different) == 1:
        variance = replace(variance, concentrations={}, concentration=different.pop())
    return replace(mixed, variance=variance)


_GIVE = {INTERCEPT: _give_intercept, TOTAL_SD: _give_total, SHARES: _give_shares}


def _is_above_0(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        return False
    return 0 < float(value) < math.inf


def _read_frozen(value: Any) -> tuple[str, tuple[float, ...], float, float] | None:
    """Name, shapes, loc and scale of a frozen distribution of one number; None of all else."""
    distribution = getattr(value, "dist", None)
    if distribution is None or not hasattr(distribution, "_parse_args"):
        return None
    shapes, loc, scale = distribution._parse_args(*value.args, **value.kwds)
    numbers = []
    for each in (*shapes, loc, scale):
        number = np.asarray(each, dtype=float)
        numbers.append(np.ravel(number))
    if any(each.size != 1 for each in numbers):
        return None
    *firsts, place, width = (float(each[0]) for each in numbers)
    return distribution.name, tuple(firsts), place, width


def _refuse(what: str, where: str, value: Any, allowed: str, priors: Any) -> UsageError:
    block, *_ = where.split(",")
    step = _write_call({**priors, block: WORKING[block]})
    return UsageError(
        what, where=f"priors, {where}", got=_describe_value(value), allowed=allowed, next_step=step
    )


def _describe_value(value: Any) -> str:
    frozen = _read_frozen(value)
    if frozen is None:
        return repr(value)[:SHOWN_OF]
    return _write_distribution(frozen)


def _write_distribution(frozen: tuple[str, tuple[float, ...], float, float]) -> str:
    name, shapes, loc, scale = frozen
    numbers = [f"{each:g}" for each in (*shapes, loc, scale)]
    return f"scipy.stats.{name}({', '.join(numbers)})"


def _write_call(priors: Mapping[str, Any]) -> str:
    """The call with these priors, as it can be pasted."""
    written = {}
    for name, value in priors.items():
        frozen = _read_frozen(value)
        written[name] = value
        if frozen is not None:
            written[name] = Code(_write_distribution(frozen))
        elif hasattr(value, "alpha"):
            alpha = np.atleast_1d(value.alpha).tolist()
            written[name] = Code(f"scipy.stats.dirichlet({alpha})")
    return repeat_call(priors=written)
