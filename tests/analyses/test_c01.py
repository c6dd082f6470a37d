"""C01: the verdict follows the gains."""

import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis

from thermostats.studies.delia2026 import audit
from thermostats.studies.delia2026.gains import NAMED_GAINS
from thermostats.words import comparison


def test_the_text_has_the_figures_of_density_in_place_of_depth() -> None:
    c01, tables = analysis("c01"), altered().named("published")
    figures = audit.depth(tables, c01.models(tables), seed=c01.SEED)
    rows = comparison(figures.published, figures.reproduced)
    assert len(rows) == 22
    assert {row.name for row in rows if not row.agrees} == {"r of the text", "p of the text"}
    assert f"{figures.reproduced['r with ρ in place of depth']:.2f}" == "-0.81"
    assert {c01.FALLS.verdict(c01.other(tables, gain)) for gain in NAMED_GAINS} == {YES}


@pytest.mark.parametrize(("gains", "verdict"), [([0.5, 0.02], NO), ([0.9, 0.0], OPEN)], ids=["rising", "irregular"])
def test_verdict_follows_the_gains(gains: list[float], verdict: str) -> None:
    def changed(layers: pd.DataFrame) -> pd.DataFrame:
        last = layers.groupby("run_id")["layer"].transform("max")
        irregular = 0.1 * (last.astype(float) % 5) * (gains[1] == 0)
        value = gains[0] + gains[1] * last + irregular
        return layers.assign(gain_block=layers["gain_block"].where(layers["layer"] < last, value))

    c01 = analysis("c01")
    assert c01.FALLS.verdict(c01.other(altered(layers=changed).named("published"), NAMED_GAINS[0])) == verdict
