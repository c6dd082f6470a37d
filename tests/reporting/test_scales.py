"""Ticks of logarithmic axes."""

import pytest
from matplotlib.figure import Figure

from thermostats.plots.scales import log_axis


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((0.7, 3.2), ["1", "1.5", "2", "2.5", "3"]),
        ((0.7, 4.0), ["1", "2"]),
        ((0.9, 30000.0), ["1", "10", "100", "1,000", "10,000"]),
        ((3e3, 3e8), ["10⁴", "10⁵", "10⁶", "10⁷", "10⁸"]),
    ],
)
def test_ticks_are_plain_numbers_within_the_limits(limits, expected):
    axes = Figure().add_subplot()
    axes.plot(limits, limits)
    axes.set_xlim(*limits)
    log_axis(axes, "x")
    ticks = [tick for tick in axes.get_xticks() if limits[0] <= tick <= limits[1]]
    assert [axes.xaxis.get_major_formatter()(tick, 0) for tick in ticks] == expected
    assert axes.get_xlim() == limits
