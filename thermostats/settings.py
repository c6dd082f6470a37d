"""Choices that a session makes once instead of in every call: `thermostats.options`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any

from thermostats.errors import UsageError, build_unknown_error

CACHE_VARIABLE = "THERMOSTATS_CACHE"
OFF = "off"
THOROUGH_VARIABLE = "THERMOSTATS_THOROUGH"
"""Set while a report refits sampled posteriors too, under other priors and without each unit."""
DRAW_VARIABLE = "THERMOSTATS_DRAW"
"""Set while a report draws what PyMC alone can draw."""
CALIBRATE_VARIABLE = "THERMOSTATS_CALIBRATE"
"""Set while a report simulates rules on the rows at hand."""
LEVEL = 0.94
"""Default level of intervals: that of the study's report."""
LEAST_LEVEL = 0.5
SAMPLERS = ("pymc", "pytensor", "nutpie", "arviz", "arviz-stats")
"""Libraries that draws and the measures of their convergence depend on."""


class Options:
    """Choices of this session, each an attribute: `thermostats.options.level = 0.9`.

    Attributes
    ----------
    level : float
        Probability of the intervals in summaries of fits made from then on, at least 0.5; a report
        keeps to its own.
    cores : int or None
        At most so many for the chains of a fit; None: all there are.
    cache : str or None
        Folder of draws that are kept, `"off"` for none, None for the platform's; it is
        `$THERMOSTATS_CACHE` of this process.

    Raises
    ------
    UsageError
        For other names and values.

    Examples
    --------
    >>> import thermostats
    >>> thermostats.options.level = 0.9
    >>> thermostats.options.level
    0.9
    >>> thermostats.options.reset()
    >>> thermostats.options.level
    0.94
    """

    level: float
    cores: int | None
    cache: str | None

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Take back all but the cache.

        Examples
        --------
        >>> import thermostats
        >>> thermostats.options.cores = 2
        >>> thermostats.options.reset()
        >>> print(thermostats.options.cores)
        None
        """
        vars(self).update(level=LEVEL, cores=None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in NAMES:
            raise build_unknown_error("no such option", name, NAMES, where="thermostats.options")
        if name == "cache":
            _set_cache(value)
            return
        if name == "level":
            value = check_coverage(value, "thermostats.options.level = {}")
        if name == "cores" and value is not None and not (type(value) is int and value > 0):
            raise UsageError(
                "not a number of cores",
                got=repr(value)[:60],
                allowed="a whole number from 1, or None",
            )
        vars(self)[name] = value

    def __getattr__(self, name: str) -> Any:
        if name == "cache":
            return os.environ.get(CACHE_VARIABLE) or None
        raise AttributeError(f"no such option: {name}; there are {', '.join(NAMES)}")

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {getattr(self, name)}" for name in NAMES)


def check_coverage(level: Any, line: str = "level={}") -> float:
    """The level of an interval, from one half; UsageError with what is meant by less, put into
    `line`.

    Less than one half is a probability outside the interval, as statsmodels' alpha is.
    """
    number = float(level) if isinstance(level, Real) and not isinstance(level, bool) else -1.0
    if LEAST_LEVEL <= number < 1:
        return number
    meant = (
        1 - number if 0 < number < LEAST_LEVEL else number / 100 if 50 <= number < 100 else LEVEL
    )
    raise UsageError(
        "not a level of intervals, the probability inside",
        got=repr(level)[:60],
        allowed=f"a number from {LEAST_LEVEL:g} to below 1",
        next_step=line.format(f"{meant:.12g}"),
    )


NAMES = ("level", "cores", "cache")
options = Options()


@contextmanager
def set_level(level: float = LEVEL) -> Iterator[None]:
    """Whatever the session chose, intervals of this level; by default as a report states them."""
    chosen = options.level
    options.level = level
    try:
        yield
    finally:
        options.level = chosen


def is_calibrating() -> bool:
    """Whether rules are simulated on the rows at hand where no table knows their design."""
    return CALIBRATE_VARIABLE in os.environ


def is_drawing() -> bool:
    """Whether posteriors that PyMC alone can draw are drawn for a report."""
    return DRAW_VARIABLE in os.environ or THOROUGH_VARIABLE in os.environ


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stop_with_parent() -> None:
    """From now on this process ends with the one that started it, however that ends: nobody takes
    its results then."""
    from multiprocessing import parent_process  # noqa: PLC0415
    from threading import Thread  # noqa: PLC0415

    parent = parent_process()
    if parent is not None:
        Thread(target=_wait_sentinel, args=(parent.sentinel,), daemon=True).start()


def _wait_sentinel(sentinel: int) -> None:
    """End this process, whatever it is doing, once the sentinel of another says that that one has
    ended."""
    from multiprocessing.connection import wait  # noqa: PLC0415

    wait([sentinel])
    os._exit(1)


@contextmanager
def set_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Variables as processes started meanwhile shall find them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _set_cache(value: Any) -> None:
    if value is None:
        os.environ.pop(CACHE_VARIABLE, None)
    elif isinstance(value, (str, Path)) and str(value):
        os.environ[CACHE_VARIABLE] = str(value)
    else:
        raise UsageError("not a cache", got=repr(value)[:60], allowed=f'a folder, "{OFF}", or None')
