"""A user's model that a question does not read is named, with the reason and the line that brings
it in."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
import pytest
from conftest import shipped_tables

from thermostats.claims.evidence import MEASURED, Evidence
from thermostats.claims.question import describe_missing_models
from thermostats.tables import store

MODELS = [
    ("me/none", "", "base", "", "", 12),
    ("me/nobody", "", "base", "", "", 12),
    ("me/tuned", "Me", "instruct", "me/used", "", 12),
    ("me/child", "Me", "instruct", "me/other", "", 12),
    ("me/second", "Me", "base", "", "me/used", 12),
    ("me/flat", "Me", "base", "", "", 2),
    ("me/other", "Me", "base", "", "", 12),
    ("me/used", "Me", "base", "", "", 12),
]
SAID = {
    "me/none": "it has no gains. `thermostats measure me/none --what gains --data {}`",
    "me/nobody": "the tables name no lab that trained it. `thermostats set me/nobody heritage=LAB "
    "--data {}`",
    "me/tuned": "me/used, from which it was tuned, represents it",
    "me/child": "no rows of the quantity in question, or the question is of base models alone; see "
    "`thermostats needs",
    "me/second": "counted with the other seeds of me/used",
    "me/flat": "it has 2 blocks",
    "me/other": "no rows of the quantity in question; see `thermostats needs C03`",
}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    facts = store.load("models").query("n_layers == 12").iloc[0].to_dict()
    columns = ("model_id", "heritage", "variant", "parent", "seed_of", "n_layers")
    rows = pd.DataFrame(
        [facts | dict(zip(columns, values, strict=True)) | {"source": "me"} for values in MODELS]
    )
    store.save(store.validate(rows, "models"), "models", tmp_path / "models.csv")
    return tmp_path


class Rows(Evidence):
    """Layers of every model but one."""

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        if name != "layers":
            return super().table(name, **equals)
        return pd.DataFrame({"model_id": [row[0] for row in MODELS if row[0] != "me/none"]})


def test_every_model_left_out_has_its_reason(mine: Path) -> None:
    evidence = Rows(mine)
    evidence.name = MEASURED
    told = list(describe_missing_models("C03", ["gains"], {"me/used"}, evidence))
    assert len(told) == len(SAID)
    for name, words in SAID.items():
        assert any(
            line.startswith(name) and words.format(shlex.quote(str(mine))) in line for line in told
        ), name


def test_nobody_is_named_without_own_rows() -> None:
    assert not list(
        describe_missing_models("C03", ["gains"], set(), shipped_tables().named(MEASURED))
    )
