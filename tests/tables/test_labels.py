"""Labels: which are the same, which are asked about, in joins, measurements, fits and
predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.measurement.prompts import read_prompts
from thermostats.tables.labels import (
    convert_label,
    convert_labels,
    find_misspelt,
    normalise_spelling,
    strip_lab,
)

SAME = [
    "Alpha",
    "Alpha ",
    "alpha",
    "ALPHA",
    "\u00a0Alpha",
    "Al\u200bpha",
    "\uff21\uff4c\uff50\uff48\uff41",
    "Alpha\t",
]
"""One lab in eight spellings: spaces, capitals, no-break space, no width, full width."""


def test_a_number_is_the_label_of_its_whole_value() -> None:
    values = [4, 4.0, np.int64(4), np.float32(4), 4.5, "4", "four", True]
    assert [convert_label(value) for value in values] == [
        "4",
        "4",
        "4",
        "4",
        "4.5",
        "4",
        "four",
        "True",
    ]
    assert convert_labels(pd.Series([1, None, 2.0, pd.NA, "x"], dtype=object)).tolist() == [
        "1",
        None,
        "2",
        None,
        "x",
    ]
    assert convert_labels(pd.Series([1.0, np.nan])).tolist() == ["1", None]


def test_spellings_of_one_label_are_found_and_others_are_not() -> None:
    assert {normalise_spelling(each) for each in SAME} == {"alpha"}
    assert find_misspelt([*SAME, "Alpha"]) == dict.fromkeys(SAME[1:], "Alpha")
    assert find_misspelt(["Alpha", "Beta", "Alpha-2", "Alpha 2", "Alpha2"]) == {}
    assert find_misspelt(["alpha", "alpha"], ["Alpha"]) == {"alpha": "Alpha"}
    assert find_misspelt(["4.0", 4]) == {"4.0": 4}
    assert strip_lab("Eleuther-AI ") == strip_lab("\uff25leuther AI") == "eleutherai"


RNG = np.random.default_rng(0)
LABS = np.repeat(["1", "2", "3", "4", "5"], 8)
EFFECT = {"1": 0.0, "2": 3.0, "3": -3.0, "4": 6.0, "5": 1.0}
ROWS = pd.DataFrame(
    {"model_id": [f"m{i}" for i in range(40)], "lab": LABS, "layers": RNG.integers(8, 48, 40)}
)
ROWS = ROWS.assign(gain=[EFFECT[lab] for lab in LABS] + RNG.normal(0, 0.1, 40))
NEW = pd.DataFrame({"model_id": ["new"], "lab": ["4"], "layers": [20]})


def line(table: pd.DataFrame, **arguments: Any) -> Any:
    return thermostats.fit_line(table, "gain", "layers", group="lab", **arguments)


@pytest.mark.parametrize("of_table", [str, int, float, np.float32])
@pytest.mark.parametrize("of_new", [str, int, float])
def test_whatever_kind_of_number_a_lab_is_it_is_the_same_lab(of_table: Any, of_new: Any) -> None:
    fit = line(ROWS.assign(lab=ROWS["lab"].map(of_table)))
    predicted = fit.predict(NEW.assign(lab=NEW["lab"].map(of_new)))
    at_hand = ROWS.loc[ROWS["lab"] == "4", "gain"].mean()
    assert (
        predicted["gain_mean"].iloc[0] == pytest.approx(at_hand, abs=0.1)
        and predicted["gain_sd"].iloc[0] < 0.2
    )


def test_kinds_of_numbers_may_mix_within_a_table() -> None:
    mixed = ROWS.assign(lab=[int(lab) if i % 2 else float(lab) for i, lab in enumerate(LABS)])
    mixed["lab"] = mixed["lab"].astype(object)
    pd.testing.assert_frame_equal(line(mixed).summary(), line(ROWS).summary())


@pytest.mark.parametrize("odd", SAME[1:])
def test_a_fit_asks_about_labels_that_differ_in_spelling_alone(odd: str) -> None:
    named = ROWS.assign(
        lab=ROWS["lab"].map(lambda lab: {"4": "Alpha", "5": odd}.get(lab, f"lab {lab}"))
    )
    with pytest.raises(UsageError, match="spelling alone") as refused:
        line(named, seed=7)
    step = refused.value.next_step
    fit = eval(step[step.index("thermostats.") :], {"thermostats": thermostats, "df": named})  # noqa: S307
    assert fit.seed == 7 and fit.rows["lab"].nunique() == 4


def test_a_prediction_asks_about_labels_that_the_fit_has_in_another_spelling() -> None:
    fit = line(ROWS.assign(lab="Lab " + ROWS["lab"]))
    new = NEW.assign(lab="lab 4")
    with pytest.raises(UsageError, match="spelling alone") as refused:
        fit.predict(new)
    step = refused.value.next_step
    predicted = eval(step[step.index("fit.") :], {"fit": fit, "df": new})  # noqa: S307
    assert predicted["gain_mean"].iloc[0] == pytest.approx(6, abs=0.3)


def test_models_that_differ_in_spelling_alone_are_no_two_models() -> None:
    twice = pd.concat([ROWS, ROWS.iloc[:1].assign(model_id="M0 ")])
    with pytest.raises(UsageError, match="'M0 ' and 'm0'"):
        line(twice)


PROMPTS = pd.DataFrame(
    {"prompt_set": "s", "prompt_id": ["a", "b", "c"], "text": ["one", "two", "three"]}
)


def test_one_text_three_times_is_not_three_prompts(tmp_path: Path) -> None:
    same = PROMPTS.assign(text="one")
    with pytest.raises(DataError, match="one text 3 times") as refused:
        thermostats.join(same, table="prompts", data=tmp_path / "mine")
    step = refused.value.next_step
    done = eval(step[step.index("thermostats.join(") :], {"thermostats": thermostats, "df": same})  # noqa: S307
    assert done[0].added == 1
    with pytest.raises(DataError, match="one text 2 times"):  # of the set that is there already
        thermostats.join(
            PROMPTS.assign(text="one").iloc[2:], table="prompts", data=tmp_path / "mine"
        )
    assert thermostats.join(PROMPTS.iloc[1:], table="prompts", data=tmp_path / "mine")[0].added == 2


def test_prompts_of_a_file_are_each_there_once(tmp_path: Path) -> None:
    path = tmp_path / "my prompts.txt"
    path.write_text("one\ntwo\none\n", encoding="utf-8")
    with pytest.raises(DataError, match="one text 2 times is not 2 prompts"):
        read_prompts(path)
    named = tmp_path / "named.csv"
    named.write_text("prompt_id,text\nA,one\na,two\n", encoding="utf-8")
    with pytest.raises(DataError, match="spelling alone"):
        read_prompts(named)
    with pytest.raises(UsageError, match=r"2 different.*prompts=\[\"one\", \"two\"\]"):
        thermostats.measure("none", prompts=["one", "two", "one"])


MODEL = {
    "model_id": "me/a",
    "heritage": "Me",
    "n_layers": 4,
    "n_heads": 4,
    "d_model": 64,
    "n_params": 10**6,
}
LAYERS = pd.DataFrame(
    {"model_id": "me/a", "layer": [2, 3], "prompt_id": "p", "gain_block": 1.1, "source": "mine"}
)


@pytest.mark.parametrize(
    ("first", "second", "table"),
    [
        (pd.DataFrame([MODEL]), pd.DataFrame([{**MODEL, "model_id": "Me/A"}]), "models"),
        (
            pd.DataFrame([MODEL | {"family": "one"}]),
            pd.DataFrame([MODEL | {"model_id": "me/b", "family": "One"}]),
            "models",
        ),
        (PROMPTS, PROMPTS.iloc[:1].assign(prompt_id="A", text="new"), "prompts"),
        (
            PROMPTS.assign(category="Fact"),
            PROMPTS.iloc[:1].assign(prompt_id="d", text="new", category="fact"),
            "prompts",
        ),
        (PROMPTS, PROMPTS.iloc[:1].assign(prompt_set="S", text="new"), "prompts"),
    ],
)
def test_a_join_asks_about_labels_that_the_tables_spell_otherwise(
    first: pd.DataFrame, second: pd.DataFrame, table: str, tmp_path: Path
) -> None:
    thermostats.join(first, table=table, data=tmp_path / "mine")
    with pytest.raises(DataError, match="spelt otherwise"):
        thermostats.join(second, table=table, data=tmp_path / "mine")
    thermostats.join(second, table=table, data=tmp_path / "mine", accept=True)
    again = thermostats.join(second, table=table, data=tmp_path / "mine")
    assert again[0].added == 0


def test_prompts_and_sources_of_gains_are_asked_about(tmp_path: Path) -> None:
    thermostats.join(pd.DataFrame([MODEL]), data=tmp_path / "mine")
    how: dict[str, Any] = {
        "table": "layers",
        "constants": {"position": "last"},
        "data": tmp_path / "mine",
    }
    both = pd.concat([LAYERS, LAYERS.assign(prompt_id="P")])
    for rows in (both, pd.concat([LAYERS, LAYERS.assign(source="Mine")])):
        with pytest.raises(DataError, match="spelt otherwise"):
            thermostats.join(rows, **how)
    thermostats.join(LAYERS, **how)
