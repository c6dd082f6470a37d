"""A mapping that rows were joined by is kept with them: rows of the same columns need none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from test_suggested_map import LAYERS, MODELS, ONE

import thermostats
from thermostats.errors import UsageError
from thermostats.next_steps import set_shell_lines
from thermostats.tables.kept_mappings import FILE
from thermostats.tables.mapping import build_mapping


def counts(done: list[thermostats.tables.join.Joined]) -> list[tuple[int, int]]:
    return [(each.added, each.unchanged) for each in done]


def test_a_file_that_was_joined_is_joined_again_without_its_mapping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    MODELS.to_csv("theirs.csv", index=False)
    thermostats.join("theirs.csv", mapping=build_mapping(MODELS, "mine"), data="mine")
    again = thermostats.join("theirs.csv", data="mine")
    assert counts(again) == [(0, 2), (0, 2), (0, 2)]
    assert again[0].remembered == (
        "nothing changed; no mapping given: read as rows of these columns before, "
        "model → model_id, lab → heritage, layers → n_layers, heads → n_heads, hidden → d_model, "
        "params_m → n_params, gain → last_gain, source = mine"
    )
    more = pd.concat([MODELS, MODELS.iloc[:1].assign(model="a-3")])
    grown = thermostats.join(more, data="mine")
    assert counts(grown) == [(1, 2), (1, 2), (1, 2)]
    assert grown[0].remembered.startswith("no mapping given: ")
    thermostats.forget("mine", data="mine")
    with pytest.raises(UsageError, match="its columns are not ours"):
        thermostats.join("theirs.csv", data="mine")


def test_rows_of_one_stated_model_are_taken_again_and_not_more(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    thermostats.join([ONE], data=mine)
    rows = LAYERS.drop(columns="model")
    using = {
        "table": "layers",
        "columns": {"block": "layer", "prompt": "prompt_id", "growth": "gain_block"},
        "constants": {"model_id": "a-1", "source": "hooks", "position": "last"},
    }
    thermostats.join(rows, mapping=using, data=mine)
    assert counts(thermostats.join(rows, data=mine)) == [(0, 1), (0, 4)]
    with pytest.raises(UsageError, match="of which model are these") as refused:
        thermostats.join(rows.assign(prompt="q"), data=mine)
    df = rows.assign(prompt="q")
    _, _, line = refused.value.next_step.partition("if they are of a-1, too: ")
    assert eval(line, {"thermostats": thermostats, "df": df})[1].added == 4  # noqa: S307


def test_what_is_dry_or_cannot_be_kept_is_not(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    using = build_mapping(MODELS, "mine")
    thermostats.join(MODELS, mapping=using, data=mine, dry_run=True)
    assert not mine.exists()
    thermostats.join(MODELS, mapping={**using, "ignore": ["gain", "note"]}, data=mine)
    (mine / FILE).write_text("[{]")
    with pytest.raises(UsageError, match="its columns are not ours"):
        thermostats.join(MODELS, data=mine)


def test_a_file_with_semicolons_is_joined_by_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    MODELS.to_csv("theirs.csv", index=False, sep=";", decimal=",")
    with set_shell_lines(), pytest.raises(UsageError) as refused:
        thermostats.join("theirs.csv", data="mine")
    assert 'thermostats.join(pd.read_csv("theirs.csv", sep=";", decimal=",")' in str(refused.value)
    assert "mapping=" in refused.value.next_step
    with pytest.raises(UsageError) as refused:
        thermostats.join("theirs.csv", data="mine")
    line = refused.value.next_step.partition("\n")[0]
    assert eval(line, {"thermostats": thermostats, "pd": pd})[0].added == 2  # noqa: S307
    assert counts(thermostats.join("theirs.csv", data="mine"))[0] == (0, 2)


def test_a_row_with_an_empty_cell_is_left_out_of_a_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heads = pd.Series([4, None, 4])
    rows = pd.concat([MODELS, MODELS.iloc[:1].assign(model="a-3")], ignore_index=True)
    rows.assign(heads=heads).to_csv("theirs.csv", index=False)
    with pytest.raises(UsageError) as refused:
        thermostats.join("theirs.csv", data="mine")
    assert "leaves out 1 of 3 rows, with empty cells" in refused.value.next_step
    line = refused.value.next_step.partition("\n")[0]
    assert eval(line, {"thermostats": thermostats, "pd": pd})[0].added == 2  # noqa: S307
    again = thermostats.join("theirs.csv", data="mine")
    assert "left out 1 of 3 rows, with empty cells: a-2" in again[0].remembered
