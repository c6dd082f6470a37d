"""Gains from norms as other tools list them: TransformerLens caches, CSV of hidden states, stacks
of block outputs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.next_steps import set_shell_lines
from thermostats.tables.column_map import convert_norms
from thermostats.tables.join import join

NORMS = np.array([1.0, 2.0, 3.0, 1.5])
STATES = {"state": "state", "norm": "norm", "last": "stream"}
OF_HOOKS = {**STATES, "form": "raw"}
MODEL, L = "EleutherAI/pythia-160m", 12
STREAM = np.cumprod([1.0, *np.linspace(1.2, 1.02, L)])
"""n_0 to n_L of a model of 12 blocks, each block with a gain of its own."""
GAIN = STREAM[1:] / STREAM[:-1]
NORMED = 40.0
"""Norm of the normed x_L."""


def states(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"state": range(4), "norm": NORMS, **columns})


def of_three(frame: pd.DataFrame, place: str = "pre") -> pd.DataFrame:
    return pd.DataFrame({"n_layers": 3, "norm_place": place}, index=frame.index)


def test_gains_are_ratios_of_norms_that_follow_each_other() -> None:
    frame = pd.concat(
        [states(prompt="a"), states(prompt="b").assign(norm=2 * NORMS)], ignore_index=True
    )
    gains, normed = convert_norms(frame, STATES, "", of_three(frame))
    assert gains["layer"].tolist() == [1, 2, 3] * 2 and normed.empty
    np.testing.assert_allclose(gains["gain_block"], [2, 1.5, 0.5] * 2)
    np.testing.assert_allclose(gains["norm_in"], [1, 2, 3, 2, 4, 6])
    assert convert_norms(states().drop(index=1), STATES, "", of_three(states()))[0][
        "layer"
    ].tolist() == [3]


def test_the_last_of_normed_states_gives_the_normed_gain() -> None:
    gains, normed = convert_norms(states(), {**STATES, "last": "normed"}, "", of_three(states()))
    assert gains["layer"].tolist() == [1, 2]
    assert normed["normed_gain"].tolist() == [0.5]
    gains, normed = convert_norms(states(), {**STATES, "last": "unknown"}, "", of_three(states()))
    assert gains["layer"].tolist() == [1, 2] and normed.empty
    with pytest.raises(DataError, match="no final norm"):
        convert_norms(states(), {**STATES, "last": "normed"}, "", of_three(states(), "post"))


def test_hooks_of_transformer_lens_are_states_and_may_stand_twice() -> None:
    hooks = [f"blocks.{block}.hook_resid_{side}" for block in range(3) for side in ("pre", "post")]
    cache = pd.DataFrame({"state": hooks, "norm": [1, 2, 2.00001, 3, 3, 1.5]})
    gains, _ = convert_norms(cache, OF_HOOKS, "", of_three(cache))
    np.testing.assert_allclose(gains["gain_block"], [2, 1.5, 0.5], rtol=1e-4)
    outputs, _ = convert_norms(cache[1::2], OF_HOOKS, "", of_three(cache))
    assert outputs["layer"].tolist() == [2, 3]  # their names say what they are
    stacked = states().assign(state=["0_pre", "1_pre", "2_pre", "final_post"])
    gains, _ = convert_norms(stacked, OF_HOOKS, "", of_three(stacked))
    np.testing.assert_allclose(gains["gain_block"], [2, 1.5, 0.5])
    with pytest.raises(DataError, match="1_mid"):
        convert_norms(
            stacked.assign(state=["0_pre", "1_mid", "2_pre", "final_post"]),
            OF_HOOKS,
            "",
            of_three(stacked),
        )


def test_a_column_without_values_tells_no_rows_apart() -> None:
    gains, _ = convert_norms(states(prompt=np.nan), STATES, "", of_three(states()))
    assert gains["layer"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("frame", "norms", "message"),
    [
        (states(), {"state": "state", "norm": "norm"}, "lacks last"),
        (states(), {**STATES, "last": "norm"}, "did you mean normed"),
        (states(), {**STATES, "states": "output"}, "did you mean outputs"),
        (states(), {**STATES, "first": 1}, "counted_from = 0"),
        (states(), {**STATES, "counted_from": 2}, "from 0 or from 1"),
        (states(), {**STATES, "stats": "outputs"}, "did you mean states"),
        (states(), {**STATES, "state": "stat"}, "did you mean state"),
        (states().assign(norm=[1, 2, 0, 1]), STATES, "above 0"),
        (states().assign(norm=["1", "2", "much", "1"]), STATES, "much"),
        (states().assign(state=["0", "1", "ln_final", "3"]), STATES, "ln_final"),
        (states().assign(state=[0, 1, 1, 2]), STATES, "two norms for one state"),
    ],
)
def test_what_is_no_norm_of_a_state_is_refused(
    frame: pd.DataFrame, norms: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError if norms is STATES else UsageError, match=message):
        convert_norms(frame, norms, "")


def stack(name: str) -> pd.DataFrame:
    """States as a tool may number them, with the norms that they have in truth."""
    numbered = {
        "outputs from 0": (range(L), STREAM[1:]),
        "outputs from 1": (range(1, L + 1), STREAM[1:]),
        "inputs from 0": (range(L), STREAM[:-1]),
        "inputs from 1": (range(1, L + 1), STREAM[:-1]),
        "all": (range(L + 1), STREAM),
    }
    state, norm = numbered[name]
    return pd.DataFrame({"state": state, "norm": norm, "prompt": "a", "model": MODEL})


MAPPING = {
    "table": "layers",
    "columns": {"prompt": "prompt_id", "model": "model_id"},
    "norms": STATES,
}
CONSTANTS = {"position": "last", "source": "stack"}
HOW: dict[str, dict[str, Any]] = {
    "[norms]": {"mapping": MAPPING},
    "--as": {"recipe": "hidden-states"},
}


def gains_of(data: Path) -> dict[int, float]:
    rows = thermostats.load("layers", data, models=True)
    rows = rows[rows["source"] == "stack"]
    return dict(zip(rows["layer"], rows["gain_block"], strict=True))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "name", ["outputs from 0", "outputs from 1", "inputs from 0", "inputs from 1"]
)
def test_as_many_states_as_blocks_are_joined_as_what_they_are_said_to_be(
    name: str, how: str, tmp_path: Path
) -> None:
    kind = name.partition(" ")[0]
    arguments = {**HOW[how], "constants": CONSTANTS, "data": tmp_path / "mine"}
    with pytest.raises(UsageError, match=r"what enters or what leaves.*12 blocks") as refused:
        join(stack(name), **arguments)
    assert not (tmp_path / "mine").exists()
    line = next(line for line in str(refused.value).splitlines() if f'states="{kind}"' in line)
    eval(line[line.index("thermostats.join(") :], {"thermostats": thermostats, "df": stack(name)})  # noqa: S307
    gains = gains_of(tmp_path / "mine")
    layers = range(2, L + 1) if kind == "outputs" else range(1, L)
    if how == "--as" and kind == "outputs":
        layers = range(2, L)  # whether the last of them is normed is not said
    assert gains == pytest.approx({layer: GAIN[layer - 1] for layer in layers})
    penultimate = thermostats.features(tmp_path / "mine", source="stack")["penultimate_gain"]
    assert penultimate.tolist() == pytest.approx([GAIN[L - 2]])


def test_the_command_line_prints_both_lines(tmp_path: Path) -> None:
    file = tmp_path / "my norms.csv"
    stack("outputs from 0").to_csv(file, index=False)
    with set_shell_lines(), pytest.raises(UsageError) as refused:
        join(file, recipe="hidden-states", constants=CONSTANTS, data=tmp_path / "mine")
    for states_are in ("inputs", "outputs"):
        words = f"thermostats join {shlex.quote(str(file))} --as hidden-states"
        assert words in str(refused.value) and f"--states {states_are}" in str(refused.value)


def test_all_states_need_no_word_and_are_no_outputs(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "mapping": MAPPING,
        "constants": CONSTANTS,
        "data": tmp_path / "mine",
    }
    with pytest.raises(UsageError, match="no outputs alone"):
        join(stack("all"), **arguments, states="outputs")
    join(stack("all"), **arguments)
    again = join(stack("all"), **arguments, states="inputs")
    assert gains_of(tmp_path / "mine") == pytest.approx(dict(enumerate(GAIN, 1)))
    assert {table.table: table.added for table in again} == {"runs": 0, "layers": 0}


def test_numbers_that_reach_neither_end_must_say_where_they_begin(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "mapping": MAPPING,
        "constants": CONSTANTS,
        "data": tmp_path / "mine",
    }
    middle = stack("outputs from 0").iloc[3:6]
    with pytest.raises(UsageError, match="from 0 or from 1") as refused:
        join(middle, **arguments, states="outputs")
    line = next(line for line in str(refused.value).splitlines() if '"counted_from": 0' in line)
    eval(line[line.index("thermostats.join(") :], {"thermostats": thermostats, "df": middle})  # noqa: S307
    assert gains_of(tmp_path / "mine") == pytest.approx(
        {layer: GAIN[layer - 1] for layer in (5, 6)}
    )


def test_a_prompt_that_lacks_a_state_is_asked_about(tmp_path: Path) -> None:
    both = pd.concat([stack("all"), stack("all").assign(prompt="b").iloc[:-1]])
    arguments: dict[str, Any] = {
        "mapping": MAPPING,
        "constants": CONSTANTS,
        "data": tmp_path / "mine",
    }
    with pytest.raises(UsageError, match="what enters or what leaves"):
        join(both, **arguments)
    join(both, **arguments, states="inputs")
    assert gains_of(tmp_path / "mine") == pytest.approx(dict(enumerate(GAIN, 1)))


def test_the_last_hidden_state_is_the_normed_gain_of_features(tmp_path: Path) -> None:
    tuple_of_states = stack("all").assign(norm=[*STREAM[:-1], NORMED])
    done = join(
        tuple_of_states, recipe="hidden-states", constants=CONSTANTS, data=tmp_path / "mine"
    )
    assert {table.table: table.added for table in done} == {
        "runs": 1,
        "layers": L - 1,
        "summaries": 1,
    }
    (row,) = thermostats.features(tmp_path / "mine", source="stack").to_dict("records")
    assert row["normed_gain"] == pytest.approx(NORMED / STREAM[-2])
    assert row["penultimate_gain"] == pytest.approx(GAIN[L - 2]) and np.isnan(row["last_gain"])
    at_all = {"position": "all", "source": "all tokens"}
    assert {
        t.table
        for t in join(
            tuple_of_states, recipe="hidden-states", constants=at_all, data=tmp_path / "mine"
        )
    } == {"runs", "layers"}


def test_states_are_of_norms(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="have no states"):
        join(stack("all"), table="layers", states="inputs", data=tmp_path / "mine")


def test_a_mapping_file_joins_norms(tmp_path: Path) -> None:
    lines = [
        'table = "layers"',
        "[norms]",
        *(f'{name} = "{value}"' for name, value in STATES.items()),
    ]
    lines += [
        'states = "outputs"',
        "[constants]",
        'position = "last"',
        f'model_id = "{MODEL}"',
        'source = "cache"',
        'prompt_id = "a"',
    ]
    (tmp_path / "map.toml").write_text("\n".join(lines), encoding="utf-8")
    states().to_csv(tmp_path / "norms.csv", index=False)
    done = thermostats.join(
        tmp_path / "norms.csv", mapping=tmp_path / "map.toml", data=tmp_path / "mine"
    )
    assert {table.table: table.added for table in done} == {"runs": 1, "layers": 3}
