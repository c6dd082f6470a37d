"""What leaving a block out does: by hand, and on the rows that ship, which `do` makes again."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables

from thermostats.claims.evidence import INTERVENED
from thermostats.modelling.left_out import describe_left_out, list_left_out
from thermostats.tables.folders import list_shipped_models


def row(block: int, before: list[float], after: list[float], model: str = "m") -> dict[str, object]:
    """A row of `interventions` of one block left out, gains by hand."""
    named = [
        json.dumps({f"block {place}": gain for place, gain in enumerate(gains, 1)})
        for gains in (before, after)
    ]
    facts = {"model_id": model, "revision": "main", "operation": "do", "kl": 0.1}
    facts |= {"what": f"without block {block}"}
    return {**facts, "gains_before": named[0], "gains_after": named[1]}


BEFORE = [3.0, 2.0, 1.5, 1.2, 1.1]


def test_a_block_that_others_make_up_for_has_no_share() -> None:
    kept = row(2, BEFORE, [3.0, 1.0, 3.0, 1.2, 1.1])
    lost = row(3, BEFORE, [3.0, 2.0, 1.0, 1.2, 1.1])
    found = list_left_out(pd.DataFrame([kept, lost]))
    assert found["product"].tolist() == pytest.approx([0, -np.log(1.5)])
    assert found["own"].tolist() == pytest.approx([np.log(2), np.log(1.5)])
    assert found["penultimate"].tolist() == pytest.approx([0, 0])
    assert describe_left_out(pd.DataFrame([lost]))["share"] == pytest.approx(-1)
    assert describe_left_out(pd.DataFrame([kept]))["share"] == pytest.approx(0)


def test_only_inner_blocks_count_and_the_penultimate_has_no_gain_of_its_own_left() -> None:
    rows = [row(block, BEFORE, BEFORE) for block in range(1, 6)]
    others = [{**rows[0], "what": "W_V * 2"}, {**rows[0], "operation": "steer"}]
    twice = [{**rows[1], "kl": 0.2}]
    found = list_left_out(pd.DataFrame([*rows, *others, *twice]))
    assert found["block"].tolist() == [2, 3, 4]
    assert found["penultimate"].isna().tolist() == [False, False, True]
    assert found["kl"].tolist() == [0.1] * 3
    assert describe_left_out(pd.DataFrame(others)) is None


def test_shipped_rows_have_every_block_of_the_packaged_models() -> None:
    rows = shipped_tables().named(INTERVENED).table("interventions")
    found = list_left_out(rows)
    depths = found.groupby("model_id")["n_blocks"].agg(["first", "size"])
    assert {f"nursery/{path.name}" for path in list_shipped_models()} <= set(depths.index)
    assert (depths["size"] == depths["first"] - 2).all()


def test_shipped_rows_come_out_of_do() -> None:
    thermostats = pytest.importorskip("thermostats")
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    (folder,) = [path for path in list_shipped_models() if path.name == "r07-5"]
    made = thermostats.do(folder, "without block 4", prompts="core")
    rows = shipped_tables().named(INTERVENED).table("interventions")
    here = rows[(rows["model_id"] == "nursery/r07-5") & (rows["what"] == "without block 4")]
    assert made["kl"].item() == pytest.approx(here["kl"].item(), rel=1e-3)
    after, shipped = (json.loads(each["gains_after"].item()) for each in (made, here))
    assert {name: after[name] for name in shipped} == pytest.approx(shipped, rel=1e-4)
