"""C17: the exponent follows the law that is put in, one block that does not contract decides."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, by_rules_alone, judged, of, shipped


@pytest.mark.parametrize(("exponent", "verdict"), [(0.35, YES), (0.1, OPEN)])
def test_the_exponent_decides_where_the_rest_holds(exponent: float, verdict: str) -> None:
    sizes = shipped().table("models").set_index("model_id")["n_params"]

    def law(frame: pd.DataFrame) -> pd.DataFrame:
        rows = of("", "scaling_law")(frame)
        size = frame.loc[rows, "model_id"].map(sizes).astype(float)
        frame.loc[rows, "gain_attention"] *= 0.5
        wobble = 1 + 0.02 * np.sin(np.arange(int(rows.sum())))
        frame.loc[rows, "gain_mlp"] = 0.01 * size**exponent * wobble
        return frame

    found = judged(by_rules_alone("c17"), altered(layers=law))
    assert found["exponent"].verdict == verdict
    assert found["whole"].verdict == (OPEN if verdict == YES else NO)
    assert found["attention"].verdict == OPEN  # every block contracts, but support is false in too many worlds
    assert found["last_mlp"].verdict == (OPEN if exponent > 0.3 else NO)  # its support is false in too many worlds
