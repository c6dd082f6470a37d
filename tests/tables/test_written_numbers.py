"""Numbers that a table has as something else: what the printed line makes of them is what a join
computes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from thermostats.tables.written_numbers import convert_written, read_written

WRITTEN = {
    "sizes": (["7B", "1.3b", "805 M"], [7e9, 1.3e9, 805e6]),
    "sizes, one unknown": (["7B", "n/a"], [7e9, np.nan]),
    "per cent": (["104%", "-3 %"], [1.04, -0.03]),
    "errors": (["1.2±0.1", "3 +/- .2"], [1.2, 3.0]),
    "errors in brackets": (["1.2(3)", "2.0 (1)"], [1.2, 2.0]),
    "decimal commas": (["1,25", "3,5"], [1.25, 3.5]),
    "dates": (["2026-01-01", "2026-01-03T12:00"], [0.0, 2.5]),
    "dates of pandas": (pd.to_datetime(["2026-01-02", "2026-01-01"]), [1.0, 0.0]),
    "truth values": ([True, False], [1.0, 0.0]),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_the_printed_line_makes_the_numbers_that_a_join_computes(kind: str) -> None:
    cells, numbers = WRITTEN[kind]
    column = pd.Series(cells)
    words, line = read_written(column, "column")
    assert words
    computed = convert_written(column)
    np.testing.assert_allclose(computed.astype(float), numbers, rtol=1e-15)
    printed = eval(line, {"column": column, "np": np, "pd": pd})  # noqa: S307
    pd.testing.assert_series_equal(printed, computed, check_exact=True)


def test_plain_numbers_and_words_stay_as_they_are() -> None:
    for cells in (["1.5", " 2"], [1.5, 2.0], ["many", "few"], []):
        column = pd.Series(cells)
        pd.testing.assert_series_equal(convert_written(column), column)
