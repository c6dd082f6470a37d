"""Gains from norms as other tools list them: TransformerLens caches, CSV of hidden states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables.norms import gains_from_norms

NORMS = np.array([1.0, 2.0, 3.0, 1.5])
STATES = {"state": "state", "norm": "norm", "last": "stream"}


def states(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"state": range(4), "norm": NORMS, **columns})


def test_gains_are_ratios_of_norms_that_follow_each_other() -> None:
    gains = gains_from_norms(pd.concat([states(prompt="a"), states(prompt="b").assign(norm=2 * NORMS)]), STATES, "")
    assert gains["layer"].tolist() == [1, 2, 3] * 2
    np.testing.assert_allclose(gains["gain_block"], [2, 1.5, 0.5] * 2)
    np.testing.assert_allclose(gains["norm_in"], [1, 2, 3, 2, 4, 6])
    assert gains_from_norms(states().drop(index=1), STATES, "")["layer"].tolist() == [3]
    normed = gains_from_norms(states(), {**STATES, "last": "normed"}, "")  # no gain of the last block
    assert normed["layer"].tolist() == [1, 2]


def test_hooks_of_transformer_lens_are_states_and_may_stand_twice() -> None:
    hooks = [f"blocks.{block}.hook_resid_{side}" for block in range(3) for side in ("pre", "post")]
    cache = pd.DataFrame({"state": hooks, "norm": [1, 2, 2.00001, 3, 3, 1.5]})
    gains = gains_from_norms(cache, STATES, "")
    np.testing.assert_allclose(gains["gain_block"], [2, 1.5, 0.5], rtol=1e-4)


@pytest.mark.parametrize(
    ("frame", "norms", "message"),
    [
        (states(), {"state": "state", "norm": "norm"}, "lacks last"),
        (states(), {**STATES, "last": "norm"}, "did you mean normed"),
        (states(), {**STATES, "state": "stat"}, "did you mean state"),
        (states().assign(norm=[1, 2, 0, 1]), STATES, "above 0"),
        (states().assign(norm=["1", "2", "much", "1"]), STATES, "much"),
        (states().assign(state=["0", "1", "ln_final", "3"]), STATES, "ln_final"),
        (states().assign(state=[0, 1, 1, 2]), STATES, "two norms for one state"),
    ],
)
def test_what_is_no_norm_of_a_state_is_refused(frame: pd.DataFrame, norms: dict[str, str], message: str) -> None:
    with pytest.raises(DataError if norms is STATES else UsageError, match=message):
        gains_from_norms(frame, norms, "")


def test_a_mapping_file_joins_norms(tmp_path: Path) -> None:
    lines = ['table = "layers"', "[norms]", *(f'{name} = "{value}"' for name, value in STATES.items())]
    lines += [
        "[constants]",
        'position = "last"',
        'model_id = "EleutherAI/pythia-70m"',
        'source = "cache"',
        'prompt_id = "a"',
    ]
    (tmp_path / "map.toml").write_text("\n".join(lines), encoding="utf-8")
    states().to_csv(tmp_path / "norms.csv", index=False)
    done = thermostats.join(tmp_path / "norms.csv", mapping=tmp_path / "map.toml", data=tmp_path / "mine")
    assert {table.table: table.added for table in done} == {"runs": 1, "layers": 3}
