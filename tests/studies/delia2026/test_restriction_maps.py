"""Means before and after L* by each definition, against those of a small model by hand."""

import numpy as np
import pandas as pd
import pytest

from thermostats.studies.delia2026.restriction_maps import find_patterns

MODELS = pd.DataFrame({"model_id": ["deep", "shallow"], "n_layers": [6, 3], "n_heads": [4, 4]})


def layers(model: str, norms: list[float]) -> pd.DataFrame:
    depth = len(norms)
    ratios, traces = [0.9, 0.5, 0.8, 0.9, 0.9, 0.9][:depth], [1.0, 1.0, 1.0, 1.0, 3.0, 9.0][:depth]
    rows = {
        "layer": range(1, depth + 1),
        "contraction_ratio": ratios,
        "trace": traces,
        "operator_norm": norms,
    }
    return (
        pd.DataFrame(rows)
        .assign(model_id=model, heritage="lab")
        .sort_values("layer", key=lambda layer: layer % 2)
    )


@pytest.mark.parametrize(
    ("norms", "shows_it"),
    [([0.5, 1.0, 2.0, 4.0, 8.0, 16.0], True), ([2.0, 2.0, 2.0, 4.0, 8.0, 16.0], False)],
)
def test_means_before_and_after_every_transition_layer(norms: list[float], shows_it: bool) -> None:
    """L* is 2 by the least ratio, 6 by the steepest trace, 6(0.11 + 0.072 + 4.9/4) = 8.4 by the
    formula."""
    every = pd.concat([layers("deep", norms), layers("shallow", norms[:3])])
    (row,) = find_patterns(every, MODELS, "operator_norm").to_dict("records")
    logs = np.log(norms)
    assert row["before_minimum"] == pytest.approx(norms[0])
    assert row["after_minimum"] == pytest.approx(np.exp(logs[2:].mean()))
    assert row["before_steepest"] == pytest.approx(np.exp(logs[:5].mean()))
    assert row["before_formula"] == pytest.approx(np.exp(logs.mean()))
    assert np.isnan(row["after_steepest"]) and np.isnan(row["after_formula"])
    assert (row["model_id"], row["heritage"], row["largest"], row["shows_it"]) == (
        "deep",
        "lab",
        16.0,
        shows_it,
    )
