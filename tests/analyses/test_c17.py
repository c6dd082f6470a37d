"""C17: the exponent follows the law that is put in, one block that does not contract decides."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, YES, altered, by_rules_alone, judged, of, shipped, untried


@pytest.mark.parametrize(("exponent", "verdict", "last"), [(0.35, YES, YES), (0.1, NO, NO)])
def test_the_exponent_decides_where_the_rest_holds(
    exponent: float, verdict: str, last: str
) -> None:
    """Every block of attention contracts."""
    sizes = shipped().table("models").set_index("model_id")["n_params"]

    def law(frame: pd.DataFrame) -> pd.DataFrame:
        rows = of("", "scaling_law")(frame)
        size = frame.loc[rows, "model_id"].map(sizes).astype(float)
        frame.loc[rows, "gain_attention"] *= 0.5
        wobble = 1 + 0.02 * np.sin(np.arange(int(rows.sum())))
        frame.loc[rows, "gain_mlp"] = 0.01 * size**exponent * wobble
        return frame

    tables = altered(layers=law)
    alone = judged(untried(by_rules_alone("c17")), tables)
    parts = ("exponent", "attention", "last_mlp")
    assert [alone[part].verdict for part in (*parts, "whole")] == [verdict, YES, last, verdict]
