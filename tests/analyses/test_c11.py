"""C11: one flip is enough against it, many pairs without one support it, and what turns the magnitude."""

from types import ModuleType

import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, judged, of, scaled

from thermostats.studies.delia2026 import tuned_pairs
from thermostats.words import agrees, comparison


def by_tests_alone(monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame | None = None) -> ModuleType:
    """The analysis without its fit, and on made-up pairs where there are some."""
    c11 = analysis("c11")
    monkeypatch.setattr(c11, "posterior", lambda _: {"fit": None})
    if table is not None:
        monkeypatch.setattr(c11, "pairs", lambda _: (table, table))
    return c11


def test_no_flip_among_few_pairs_decides_nothing_and_the_gain_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(by_tests_alone(monkeypatch), altered())
    assert {name: one.verdict for name, one in found.items()} == {"sign": OPEN, "magnitude": YES}
    assert "[0.464, 0.547]" in found["magnitude"].plain and "was not tuned from" in " ".join(found["sign"].notes)
    rows = [row for one in found.values() for row in comparison(one.published, one.reproduced)]
    assert len(rows) >= 23 and all(row.agrees for row in rows)
    assert agrees("", 0.498, found["magnitude"].reproduced["gemma-7b-it over its base"])


def test_one_flip_is_enough_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    flipped = altered(layers=scaled(of("gemma-7b-it", "twin"), 0.5))
    assert judged(by_tests_alone(monkeypatch), flipped, "sign")["sign"].verdict == NO


@pytest.mark.parametrize(
    ("pairs", "ratio", "verdicts"),
    [(60, (0.5, 0.6), (YES, YES)), (60, (0.96, 1.04), (YES, NO)), (2, (0.9, 1.2), (OPEN, OPEN))],
)
def test_many_pairs_without_a_flip_support_it(
    pairs: int, ratio: tuple[float, float], verdicts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = altered()
    row = tuned_pairs.pairs(tables, seed=11).query("base_and_child").head(1)
    row = row.assign(ratio=sum(ratio) / 2, ratio_lower=ratio[0], ratio_upper=ratio[1])
    found = judged(by_tests_alone(monkeypatch, pd.concat([row] * pairs, ignore_index=True)), tables)
    assert (found["sign"].verdict, found["magnitude"].verdict) == verdicts


@pytest.mark.slow
def test_the_posterior_of_the_sign_is_surer_than_two_pairs_are() -> None:
    found = judged(analysis("c11"), altered())
    sign, magnitude = found["sign"].posterior, found["magnitude"].posterior
    assert (found["sign"].verdict, sign.classical, sign.verdict) == (OPEN, OPEN, YES)
    assert found["magnitude"].verdict == magnitude.verdict == YES and magnitude.gate.passes
    assert "A pair not seen" in " ".join(found["sign"].notes)
