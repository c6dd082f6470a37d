"""C23: products of ten at every depth support it, blocks that are alike at every depth do not."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, by_rules_alone, judged, untried, verdict

DEPTHS = np.repeat([12, 16, 24, 32, 40, 60, 80], 4)


def models(product: np.ndarray, c23: object) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    labs = [f"lab {i % 6}" for i in range(len(DEPTHS))]
    rows = pd.DataFrame(
        {"model_id": [f"m{i}" for i in range(len(DEPTHS))], "heritage": labs, "family": labs}
    )
    noisy = np.exp(np.log(product) * np.exp(rng.normal(0, 0.05, len(DEPTHS))))
    return rows.assign(
        n_layers=DEPTHS,
        comparable=True,
        gain=1.1,
        total_to_penultimate=noisy,
        total_from_input=noisy,
    )


@pytest.mark.parametrize(
    ("product", "expected", "slope"),
    [
        (10.0 ** ((DEPTHS - 2) / DEPTHS), YES, 0.08),
        (np.exp(0.05 * (DEPTHS - 2.0)), NO, 1.0),
        (np.exp(100 / (DEPTHS - 2.0)), NO, -1.0),
    ],
    ids=["ten", "alike", "falling"],
)
def test_products_along_depth_decide(
    monkeypatch: pytest.MonkeyPatch, product: np.ndarray, expected: str, slope: float
) -> None:
    c23 = untried(by_rules_alone("c23"))
    monkeypatch.setattr(c23, "models", lambda *_: models(product, c23))
    found = judged(c23, altered(), "law.from_block_1")["law.from_block_1"]
    assert found.verdict == expected
    assert found.headline.value == pytest.approx(slope, abs=0.05)


def test_scatter_leaves_it_open() -> None:
    c23, rng = analysis("c23"), np.random.default_rng(3)
    blocks = np.log(DEPTHS - 2.0)
    rows = pd.DataFrame(
        {"model_id": range(len(DEPTHS)), "heritage": [f"lab {i % 6}" for i in range(len(DEPTHS))]}
    )
    rows = rows.assign(log_blocks=blocks, law=0.1 * blocks, excess=rng.normal(0, 2.0, len(DEPTHS)))
    assert verdict(c23, "law.from_block_1", c23.AGAINST_THE_LAW(rows)) == OPEN


def test_the_slope_is_that_of_least_squares_and_the_law_s_own_is_zero_beyond_it() -> None:
    c23 = analysis("c23")
    what = c23.PRODUCTS[0]
    assert what.evaluate_law(80.0) ** (80 / 78) == pytest.approx(10)
    blocks, law = np.log(DEPTHS - 2.0), np.log(np.log(what.evaluate_law(DEPTHS.astype(float))))
    rng = np.random.default_rng(4)
    rows = pd.DataFrame(
        {"model_id": range(len(DEPTHS)), "heritage": [f"lab {i % 6}" for i in range(len(DEPTHS))]}
    )
    rows = rows.assign(log_blocks=blocks, law=law, excess=rng.normal(0, 0.1, len(DEPTHS)))
    result = c23.AGAINST_THE_LAW(rows)
    assert result.quantities["slope"].value == pytest.approx(
        np.polyfit(blocks, law + rows["excess"], 1)[0]
    )
    assert c23.find_law_slope(rows) == pytest.approx(np.polyfit(blocks, law, 1)[0])


def test_a_product_that_does_not_grow_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    c23 = analysis("c23")
    rows = models(10.0 ** ((DEPTHS - 2) / DEPTHS), c23)
    rows.loc[0, "total_to_penultimate"] = 0.9
    monkeypatch.setattr(c23, "models", lambda *_: rows)
    kept = c23.select_growing(altered(), c23.PRODUCTS[0])
    assert len(kept) == len(rows) - 1 and np.isfinite(kept["excess"]).all()
