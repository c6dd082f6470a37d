"""A join that is refused ends in the call that would pass: run as it stands, in Python and in a
shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import thermostats
from thermostats.errors import ThermostatsError
from thermostats.next_steps import set_shell_lines

NAMES = {"model": "model_id", "block": "layer", "text": "prompt_id", "my gain": "gain_block"}
FIXED = {"source": "hooks", "position": "last"}
MODEL = {
    "model_id": "a-1",
    "heritage": "A",
    "n_layers": 4,
    "n_heads": 4,
    "d_model": 64,
    "n_params": 1_000_000,
}
ROWS = pd.DataFrame(
    {"model": "a-1", "block": [1, 2, 3, 4], "text": "p", "my gain": [1.1, 1.2, 0.9, 1.3]}
)
Rows = Callable[[pd.DataFrame], pd.DataFrame]
CASES: dict[str, tuple[Rows, int]] = {
    "a gain that is an empty text": (
        lambda df: df.assign(**{"my gain": ["1.1", "", "0.9", "1.3"]}),
        3,
    ),
    "per cent": (lambda df: df.assign(**{"my gain": df["my gain"] * 100}), 4),
    "layers from 0": (lambda df: df.assign(block=df["block"] - 1), 4),
    "layers in texts": (lambda df: df.assign(block="block_" + df["block"].astype(str)), 4),
    "contradictory duplicates": (lambda df: pd.concat([df, df.assign(**{"my gain": 1.0})]), 4),
    "no gain and no reason": (
        lambda df: df.assign(**{"my gain": df["my gain"].where(df["block"] > 1)}),
        3,
    ),
    "a model misspelt": (lambda df: df.assign(model="a_1"), 4),
    "a name misspelt": (lambda df: df.rename(columns={"text": "texts"}), 4),
    "one wrong cell": (lambda df: df.assign(**{"my gain": ["x", 1.2, 0.9, 1.3]}), 3),
    "a column that says nothing": (lambda df: df.assign(note="x"), 4),
}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    thermostats.join(pd.DataFrame([MODEL]), data=tmp_path / "mine")
    return tmp_path / "mine"


def line(source: Any, **arguments: Any) -> str:
    """The call that a refusal ends in."""
    with pytest.raises(ThermostatsError) as caught:
        thermostats.join(source, **arguments)
    said = caught.value.next_step
    return said[said.index("thermostats.join(") :]


def added(call: str, **names: Any) -> dict[str, int]:
    done = eval(call, {"thermostats": thermostats, "pd": pd, **names})  # noqa: S307
    return {each.table: each.added + each.replaced for each in done}


@pytest.mark.parametrize("case", CASES)
def test_the_call_of_a_refusal_joins_the_rows(mine: Path, case: str) -> None:
    spoilt, rows = CASES[case]
    df = spoilt(ROWS)
    call = line(df, mapping=NAMES, constants=FIXED, data=mine)
    assert added(call, df=df)["layers"] == rows


def test_a_folder_is_named_where_none_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THERMOSTATS_DATA", raising=False)
    models = pd.DataFrame([MODEL])
    call = line(models)
    assert call == 'thermostats.join(df, data="mine")' and added(call, df=models) == {"models": 1}


def test_other_values_are_replaced_or_insisted_on(mine: Path) -> None:
    how: dict[str, Any] = {"mapping": NAMES, "constants": FIXED, "data": mine}
    thermostats.join(ROWS, **how)
    changed = ROWS.assign(**{"my gain": 2.0})
    assert added(line(changed, **how), df=changed)["layers"] == 4
    far = ROWS.assign(text="q", **{"my gain": [1.0, 1e9, 2.0, 2.0]})
    call = line(far, **how)
    assert call.endswith("accept=True)") and added(call, df=far)["layers"] == 4


def test_a_model_that_is_not_there_is_joined_first_with_its_facts_named(mine: Path) -> None:
    call = line(ROWS.assign(model="zulu-9"), mapping=NAMES, constants=FIXED, data=mine)
    facts = {"LAB": "Z", "LAYERS": "4", "HEADS": "4", "WIDTH": "64", "PARAMETERS": "1000000"}
    for word, fact in facts.items():
        assert word in call
        call = call.replace(word, fact)
    assert added(call) == {"models": 1}


def test_parameters_in_millions_and_columns_a_layer(mine: Path) -> None:
    models = pd.DataFrame([{**MODEL, "model_id": "b-1", "n_params": 1.5}])
    call = line(models, mapping={name: name for name in models}, data=mine)
    assert added(call, df=models) == {"models": 1}
    wide = pd.DataFrame(
        [{"model": "a-1", "text": "w", **{f"layer_{k}": 1 + k / 10 for k in range(1, 5)}}]
    )
    names = {"model": "model_id", "text": "prompt_id", "layer_{layer}": "gain_block"}
    assert added(line(wide, mapping=names, constants=FIXED, data=mine), df=wide)["layers"] == 4


def test_files_of_other_separators_and_names(mine: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    how: dict[str, Any] = {"mapping": NAMES, "constants": FIXED, "data": mine}
    ROWS.to_csv(path, sep=";", decimal=",", index=False)
    assert added(line(path, **how))["layers"] == 4
    ROWS.assign(text="q").to_csv(path)
    assert added(line(path, **how))["layers"] == 4
    ROWS.assign(text="r").to_csv(path, index=False)
    assert added(line(tmp_path / "row.csv", **how))["layers"] == 4
    ROWS.assign(text="s", block=ROWS["block"] - 1).to_csv(path, index=False)
    assert added(line(str(path), **how))["layers"] == 4


@pytest.mark.slow  # a process of its own
def test_a_shell_gets_a_line_of_its_own(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ROWS.to_csv("rows.csv", sep=";", decimal=",", index=False)
    Path("map.toml").write_text(
        "[columns]\n" + "".join(f'"{a}" = "{b}"\n' for a, b in NAMES.items())
    )
    with set_shell_lines(), pytest.raises(ThermostatsError) as caught:
        thermostats.join(Path("rows.csv"), mapping=Path("map.toml"), constants=FIXED, data=mine)
    said = caught.value.next_step
    command = said[said.index("python -c") :].replace("python", sys.executable, 1)
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)  # noqa: S602
    assert "Joined(table='layers', added=4" in done.stdout
    ROWS.assign(**{"my gain": 1.5}).to_csv("other.csv", index=False)
    with set_shell_lines(), pytest.raises(ThermostatsError) as caught:
        thermostats.join(Path("other.csv"), mapping=Path("map.toml"), constants=FIXED, data=mine)
    words = [
        "join",
        "other.csv",
        "--map",
        "map.toml",
        "--constant",
        "source=hooks",
        "--constant",
        "position=last",
    ]
    command = shlex.join(["thermostats", *words, "--data", str(mine)])
    assert caught.value.next_step == f"to keep the new values: {command} --replace"
