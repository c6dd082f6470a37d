"""Lines of files as pandas and Python's csv module write them, one cell at a time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import layer, run, table

from thermostats.tables import incoming
from thermostats.tables.incoming import build_csv_lines

RNG = np.random.default_rng(5)
TEXTS = ["", "a", 'say "so"', "a,b", "a\nb", "a\rb", "\x1e", " a ", "é\U0001f600", "'", ";", "=1"]


@pytest.mark.parametrize("block", [250_000, 7])
def test_cells_are_written_as_pandas_writes_them(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "BLOCK", block)
    n = 60
    gains = np.exp(RNG.normal(0, 40, n)) * RNG.choice([1.0, 1e-7], n)
    gains[:6] = [1.0, 1e16, 1e15, 1e-4, 1e-5, 5e-324]
    rows = table("outputs", *({"run_id": "r", "prompt_id": f"p{i:02d}"} for i in range(n)))
    rows["entropy"] = np.where(RNG.random(n) < 0.3, np.nan, gains)
    rows["top_token"] = pd.array(RNG.choice(TEXTS, n), dtype="str")
    lines = build_csv_lines(rows, "outputs")
    expected = (
        rows.to_csv(index=False, lineterminator="\x1e\r\n").replace("\x1e\r\n", "\n").encode()
    )
    assert lines.pack_rows(0, n) == expected
    parts = [lines.pack_rows(i, i + 5).removeprefix(lines.header) for i in range(0, n, 5)]
    assert lines.header + b"".join(parts) == expected


def test_whole_numbers_and_what_is_missing() -> None:
    rows = table("layers", {**layer(run(), 1, 1.5), "n_tokens": 7}, layer(run(), 2, 2.0))
    written = build_csv_lines(
        rows[["layer", "gain_block", "n_tokens", "missing"]], "layers"
    ).pack_rows(0, 2)
    assert written == b"layer,gain_block,n_tokens,missing\n1,1.5,7,\n2,2.0,,\n"
