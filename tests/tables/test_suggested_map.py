"""A join without a mapping prints one, filled in from the columns that are there, and it works when
pasted."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import thermostats
from thermostats.errors import UsageError
from thermostats.next_steps import set_shell_lines
from thermostats.tables.mapping import build_mapping, describe_doubts

MODELS = pd.DataFrame(
    {
        **{"model": ["a-1", "a-2"], "lab": "A", "layers": [4, 8], "heads": 4, "hidden": [64, 128]},
        **{"params_m": [1.5, 3.25], "gain": [1.1, 0.9], "note": "x"},
    }
)
ONE = {
    "model_id": "a-1",
    "heritage": "A",
    "n_layers": 4,
    "n_heads": 4,
    "d_model": 64,
    "n_params": 10**6,
}
LAYERS = pd.DataFrame(
    {"model": "a-1", "block": [1, 2, 3, 4], "prompt": "p", "growth": [1.1, 1.2, 0.9, 1.3]}
)
WIDE = pd.DataFrame(
    [{"model": "a-1", "prompt": "q", **{f"layer_{k}": 1 + k / 10 for k in range(1, 5)}}]
)


def refusal(source: Any, data: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        thermostats.join(source, data=data)
    return caught.value


def pasted(error: UsageError, df: pd.DataFrame) -> list[Any]:
    """What the call in a refusal does."""
    call, *others = error.next_step.splitlines()
    assert all(line.startswith("# ") for line in others)
    assert call.startswith("thermostats.join(df, ")
    return list(eval(call, {"thermostats": thermostats, "df": df}))  # noqa: S307


def test_rows_in_memory_get_a_call_that_works(tmp_path: Path) -> None:
    done = pasted(refusal(MODELS, tmp_path / "mine"), MODELS)
    assert {each.table: each.added for each in done} == {"models": 2, "runs": 2, "summaries": 2}
    rows = thermostats.features(tmp_path / "mine", source="mine").set_index("model_id")
    assert rows.loc["a-2", ["n_layers", "n_params", "last_gain"]].tolist() == [8, 3_250_000, 0.9]
    for table in (LAYERS, WIDE):
        done = pasted(refusal(table, tmp_path / "mine"), table)
        assert {each.table: each.added for each in done}["layers"] == 4
    one = LAYERS.drop(columns="prompt").assign(model="a-2")
    assert pasted(refusal(one, tmp_path / "mine"), one)[-1].added == 4
    growth = "whether growth is the gain of a block, n_l / n_(l-1)"
    last = "whether these are gains of the last token (position; else mean, all, unstated)"
    growth = f"check {last}, {growth}"
    assert describe_doubts(one) == f"{growth}, whether they are means over prompts"
    several = pd.concat([LAYERS, LAYERS.assign(prompt="r")], ignore_index=True).assign(unit="x")
    for name in ("sentence", "Item no."):
        theirs = several.rename(columns={"prompt": name})
        assert build_mapping(theirs, "x")["columns"][name] == "prompt_id" and build_mapping(
            theirs, "x"
        )["ignore"] == ["unit"]
    assert "which gain it is" in describe_doubts(MODELS) and "unit of n_params" in describe_doubts(
        MODELS
    )
    assert describe_doubts(LAYERS) == growth
    assert describe_doubts(LAYERS.rename(columns={"growth": "gain"})) == f"check {last}"


def test_a_column_in_per_cent_is_divided_and_asked_about(tmp_path: Path) -> None:
    thermostats.join([ONE], data=tmp_path / "mine")
    theirs = LAYERS.assign(growth_percent=100 * LAYERS["growth"]).drop(columns="growth")
    pasted(refusal(theirs, tmp_path / "mine"), theirs)
    held = thermostats.load("layers", tmp_path / "mine", models=True).query("model_id == 'a-1'")
    assert held["gain_block"].tolist() == pytest.approx(LAYERS["growth"])
    assert "the unit of gain_block" in describe_doubts(theirs)


def test_names_with_other_spaces_and_capitals_are_known(tmp_path: Path) -> None:
    odd = MODELS.rename(columns={"layers": "Layers\u00a0", "heads": " heads", "gain": "gain"})
    done = pasted(refusal(odd, tmp_path / "mine"), odd)
    assert {each.table: each.added for each in done} == {"models": 2, "runs": 2, "summaries": 2}
    few = MODELS.rename(columns={"layers": "n_layer", "heads": "n_head", "hidden": "n_embd"})
    assert (
        thermostats.join(few, mapping=build_mapping(few, "x"), data=tmp_path / "other")[0].added
        == 2
    )


def test_norms_are_no_gains_and_are_not_left_out_in_silence(tmp_path: Path) -> None:
    thermostats.join([ONE], data=tmp_path / "mine")
    norms = pd.DataFrame(
        {"model": "a-1", "layer": range(5), "prompt": "p", "resid_norm": [1.0, 2.0, 3.0, 4.5, 9.0]}
    )
    done = pasted(refusal(norms, tmp_path / "mine"), norms)
    assert {each.table: each.added for each in done} == {"runs": 1, "layers": 4}
    held = thermostats.load("layers", tmp_path / "mine", models=True).query("source == 'mine'")
    assert held["gain_block"].tolist() == [2.0, 1.5, 1.5, 2.0]
    both = LAYERS.assign(norm=[1.0, 1.1, 1.3, 1.2])
    assert "whether norm is what enters the block" in describe_doubts(both)
    own = MODELS.rename(columns={"gain": "penultimate_gain"})
    assert build_mapping(own, "x")["columns"]["penultimate_gain"] == "penultimate_gain"


def test_a_file_gets_a_mapping_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    MODELS.to_csv("theirs.csv", index=False)
    assert refusal("theirs.csv", Path("mine")).next_step.startswith(
        'thermostats.join("theirs.csv", mapping={'
    )
    with set_shell_lines():
        said = refusal("theirs.csv", Path("mine")).next_step
    command = re.search(
        r"END.\n(.*)\nEND\nthermostats join theirs.csv --map map.toml --data mine", said, re.DOTALL
    )
    assert command is not None and said.startswith(
        "save the mapping and join with it:\ncat > map.toml <<'END'\n"
    )
    subprocess.run(  # noqa: S602
        said.partition(":\n")[2].partition("thermostats join")[0], shell=True, check=True
    )
    done = thermostats.join("theirs.csv", mapping="map.toml", data="mine")
    assert [each.added for each in done] == [2, 2, 2]


def test_our_own_names_need_no_mapping_and_no_more_than_is_known(tmp_path: Path) -> None:
    row = {
        "model_id": "b-1",
        "heritage": "B",
        "n_layers": 4,
        "n_heads": 4,
        "d_model": 64,
        "n_params": 1e6,
    }
    thermostats.join(pd.DataFrame([row]), data=tmp_path / "mine")
    done = thermostats.join(
        [{**row, "model_id": "b-2", "last_gain": 1.2, "source": "me"}], data=tmp_path / "mine"
    )
    assert [each.table for each in done] == ["models", "runs", "summaries"]
    layers = LAYERS.set_axis(["model_id", "layer", "prompt_id", "gain_block"], axis=1).assign(
        model_id="b-1", source="hooks", position="last"
    )
    assert [each.added for each in thermostats.join(layers, data=tmp_path / "mine")] == [1, 4]


def test_sizes_as_text_are_numbers_in_the_line_that_is_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    facts = {"Layers": [12, 24], "Heads": [8, 16], "d_model": [512, 1024]}
    sizes = {"Params": ["85M", "1.21B"], "Gain": [1.1, 1.2]}
    df = pd.DataFrame({"Model": ["a", "b"], "Lab": ["A", "B"], **facts, **sizes})
    with pytest.raises(UsageError) as refused:
        thermostats.join(df, data="mine")
    line = str(refused.value).split("Next: ")[1].split("\n")[0]
    eval(line, {"thermostats": thermostats, "df": df})  # noqa: S307
    models = thermostats.load("models", data="mine", model=["a", "b"])
    assert models.set_index("model_id")["n_params"].to_dict() == {"a": 85 * 10**6, "b": 121 * 10**7}


def test_standard_errors_that_are_left_out_are_named_with_what_takes_them(tmp_path: Path) -> None:
    facts = {"Organization": "Z", "Layers": 12, "Heads": 8, "d_model": 64, "Params": 1000}
    rows = pd.DataFrame([{"Model": "z/a", **facts, "Last-layer gain": 1.1, "SE": 0.02}])
    with pytest.raises(UsageError, match="its columns are not ours") as refused:
        thermostats.join(rows, data=tmp_path / "mine")
    said = (
        'tables of measurements keep no standard errors: a fit of the same rows takes SE as se="SE"'
    )
    assert [line for line in refused.value.next_step.splitlines() if said in line]
    with pytest.raises(UsageError) as refused:
        thermostats.join(rows.drop(columns="SE"), data=tmp_path / "mine")
    assert "standard errors" not in str(refused.value)


def test_a_mapping_that_leaves_errors_unnamed_says_what_takes_them(tmp_path: Path) -> None:
    rows = pd.DataFrame({"block": [1], "growth": [1.1], "stderr": [0.1]})
    columns = {"block": "layer", "growth": "gain_block"}
    stated = {"model_id": "EleutherAI/pythia-160m", "source": "mine", "position": "last"}
    using = {"table": "layers", "columns": columns, "constants": {**stated, "prompt_id": "a"}}
    with pytest.raises(UsageError, match="the mapping does not name") as refused:
        thermostats.join(rows, mapping=using, data=tmp_path / "mine")
    assert 'a fit of the same rows takes stderr as se="stderr"' in str(refused.value)


def test_columns_in_a_message_are_cut_between_names(tmp_path: Path) -> None:
    spare = {f"column number {i} of a log": 1.0 for i in range(40)}
    rows = pd.DataFrame([{"model": "gpt2", "prompt": "a", "layer": 1, "norm": 2.0, **spare}])
    with pytest.raises(UsageError, match="its columns are not ours") as refused:
        thermostats.join(rows, data=tmp_path / "mine")
    assert refused.value.got == ("model, prompt, layer, norm, column number 0 of a log and 39 more")
    with pytest.raises(UsageError) as refused:
        thermostats.profile(rows[[*spare]].rename(columns=str.upper))
    shown = ", ".join(f"COLUMN NUMBER {i} OF A LOG" for i in range(5))
    assert refused.value.got == f"a table with columns {shown} and 35 more"
    wide = {"columns": "state_*", "name": "layer", "value": "gain_block"}
    with pytest.raises(UsageError, match="no column holds a layer each") as refused:
        thermostats.join(rows, mapping={"table": "layers", "wide": wide}, data=tmp_path / "mine")
    assert refused.value.got.endswith("column number 0 of a log and 39 more")


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
