"""C15: phases are counted on curves of known shape, before and after training."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, YES, altered, by_rules_alone, judged
from simulated_studies import Trained

from thermostats.studies.nursery import load_shipped_table


@pytest.mark.parametrize(("levels", "verdict"), [((0, 2, 0.5, 3, 1), YES), ((0, 3, 1), NO)])
def test_phases_of_measured_curves_are_counted(levels: tuple[float, ...], verdict: str) -> None:
    c15 = by_rules_alone("c15")
    rng, curve = np.random.default_rng(1), np.repeat(np.array(levels) / 5, 60 // len(levels))

    def curves(_: pd.DataFrame) -> pd.DataFrame:
        columns = {"source": "made up", "revision": "main", "run_id": "r"}
        return pd.DataFrame(
            {
                "model_id": f"m{m}",
                "heritage": f"lab{m % 3}",
                "layer": place,
                "anisotropy": a + 0.01 * rng.normal(),
            }
            | columns
            for m in range(12)
            for place, a in enumerate(curve, 1)
        )

    found = judged(c15, altered(layers=curves), "phases.published")
    assert found["phases.published"].verdict == verdict


@pytest.mark.parametrize(("levels", "verdict"), [((0, 2, 1, 3, 1), YES), ((0, 3, 1), NO)])
def test_phases_of_trained_models_are_counted_at_the_end_and_before_training(
    levels: tuple[int, ...], verdict: str
) -> None:
    found = judged(by_rules_alone("c15"), Trained(96, levels=levels), "phases.trained")[
        "phases.trained"
    ]
    deep = int((load_shipped_table()["n_layers"] >= 20).sum())
    assert (
        found.verdict == verdict
        and found.sample.n_models == deep
        and found.sample.group == "recipe"
    )
    assert f"Before any training 0 of the same {deep} models" in " ".join(found.notes)
