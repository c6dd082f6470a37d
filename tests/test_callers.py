"""Lines that are printed name the user's tables and fits as the user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import ThermostatsError

ROWS = pd.DataFrame(
    {
        "model": [f"m{i}" for i in range(12)],
        "lab": list("aabbccddeeff"),
        "gain": 1 + np.arange(12.0) / 10,
    }
)


def refuse(table: pd.DataFrame) -> str:
    with pytest.raises(ThermostatsError) as refused:
        thermostats.fit_line(table, "gain", "depht")
    return refused.value.next_step


def test_a_variable_stands_in_the_place_of_df() -> None:
    gains = ROWS.copy()
    with pytest.raises(ThermostatsError) as refused:
        thermostats.fit_heritage(gains)
    assert "(gains, " in refused.value.next_step and "df" not in refused.value.next_step
    assert refused.value.__suppress_context__ and refused.value.__cause__ is None
    df = ROWS.copy()
    with pytest.raises(ThermostatsError) as refused:
        thermostats.fit_heritage(df)
    assert "thermostats.fit_heritage(df, " in refused.value.next_step


def test_what_has_no_name_is_made_first_and_the_line_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models = ROWS.assign(layers=4, heads=4, hidden=64, params_m=[*range(1, 13)])
    models.to_csv("theirs.csv", index=False)
    with pytest.raises(ThermostatsError) as refused:
        thermostats.join(pd.read_csv("theirs.csv"), data="mine")
    line = refused.value.next_step.split("\n")[0]
    assert line.startswith('df = pd.read_csv("theirs.csv"); thermostats.join(df, mapping=')
    exec(line, {"thermostats": thermostats, "pd": pd})  # noqa: S102
    assert len(thermostats.load("models", "mine").query("source == 'mine'")) == 12


def test_code_of_a_command_line_is_seen_too(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "theirs.csv", index=False)
    code = 'import thermostats, pandas as pd; thermostats.fit_heritage(pd.read_csv("theirs.csv"))'
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert 'Next: df = pd.read_csv("theirs.csv"); thermostats.fit_heritage(df, ' in done.stderr


def test_where_nothing_is_seen_words_say_whose_it_is() -> None:
    code = compile("call(make())", "<nowhere>", "eval")
    with pytest.raises(ThermostatsError) as refused:
        eval(code, {"call": thermostats.fit_heritage, "make": ROWS.copy})  # noqa: S307
    assert refused.value.next_step.endswith("\n# df is your table")


def test_a_fit_is_named_and_texts_stay() -> None:
    line = thermostats.fit_line(ROWS.assign(depth=ROWS["gain"] + 1), "gain", "depth")
    with pytest.raises(ThermostatsError) as refused:
        line.predict({"dpeth": 1.0})
    assert "fit." not in refused.value.next_step
    named = ROWS.rename(columns={"gain": "df"})
    with pytest.raises(ThermostatsError) as refused:
        thermostats.fit_line(named, "df", lab="lab")
    assert '(named, "df"' in refused.value.next_step


def test_a_line_goes_on_with_the_methods_that_were_asked() -> None:
    """Of the call that was refused, over lines too; a line of another function ends as it is."""
    gains = ROWS.copy()
    with pytest.raises(ThermostatsError) as refused:
        (
            thermostats.fit_line(gains, "gain", covariate="x", model="model", group="lab")
            .power(models=[20], labs=[4])
            .plot()
        )
    assert refused.value.next_step.endswith('group="lab").power(models=[20], labs=[4]).plot()')
    with pytest.raises(ThermostatsError) as refused:
        thermostats.power(ROWS, models=20, labs=4).head()
    assert ".head()" not in refused.value.next_step
