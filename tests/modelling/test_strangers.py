"""Tables of other people's habits: every line that a refusal proposes is run, until a fit is laid
out, and held against what was asked."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import command
from pasted import OF_THE_USER, TEXT, code_in

import thermostats
from thermostats.claims.power import suggest_file_fit
from thermostats.errors import ThermostatsError, UsageError
from thermostats.modelling.fit import Fit

FOLDER = Path(__file__).parents[1] / "strangers"
READ: dict[str, dict[str, Any]] = {"german": {"sep": ";", "decimal": ","}}
ONE_A_MODEL = {
    "models": ("Last-layer gain", "Organization", "SE"),
    "german": ("Verstärkung", "Labor", "Standardfehler"),
    "per_cent": ("gain %", "vendor", ""),
    "text_sizes": ("final_gain", "company", ""),
    "dates": ("gain", "lab", "gain_std"),
    "missing": ("last_layer_gain", "lab", "se"),
}
"""Tables of a row a model: columns of the gain that they are of, of labs and of errors."""
OF_BLOCKS = {
    "wide": ("gain_L12", "lab"),
    "nnsight": ("last_token_norm", "model"),
    "transformer_lens": ("norm", "model"),
    "wandb": ("resid_norm/layer_11", "model"),
}
"""Tables of blocks: an outcome that one may mean, and what may stand for labs."""
CALLS = {
    "fit_heritage": "thermostats.fit_heritage(df{outcome})",
    "fit_line": "thermostats.fit_line(df{outcome})",
    "fit_kleiber": "thermostats.fit_kleiber(df{outcome})",
    "fit_envelope": "thermostats.fit_envelope(df{outcome})",
    "fit_matched": "thermostats.fit_matched(df{outcome})",
    "fit_share": "thermostats.fit_share(df)",
    "fit_transition": "thermostats.fit_transition(df{outcome})",
    "fit_sources": "thermostats.fit_sources(df)",
}
OTHERS = ("fit_transition", "fit_sources")
"""Fits of another outcome than a gain, and of several measurements: these tables have neither."""
HOPS = 8
"""Lines that are followed, each out of the refusal of the one before."""


class ReachedError(Exception):
    """A fit is about to draw."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self.fit = fit


def stop(fit: Fit) -> None:
    raise ReachedError(fit)


@dataclass
class Way:
    """What came of following lines."""

    fit: Fit | None
    lines: list[str]
    said: str
    """All that the refusals said."""


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"{name}.csv", **READ.get(name, {}))


def follow(call: str, df: pd.DataFrame, known: Mapping[str, str]) -> Way:
    """Run a call, and the line that its refusal proposes; words in capitals are filled in, where
    they are known.

    A line that was run before, or that ends in anything but a refusal in words, fails.
    """
    way = Way(None, [], "")
    names = {"thermostats": thermostats, "pd": pd, "np": np, "df": df}
    for _ in range(HOPS):
        assert call not in way.lines, f"a line is proposed again: {call}"
        way.lines.append(call)
        try:
            eval(call, names)  # noqa: S307
        except ReachedError as reached:
            way.fit = reached.fit
            return way
        except ThermostatsError as error:
            way.said += f"{error}\n"
            call = next((line for line in code_in(error.next_step) if "fit_" in line), "")
        for word, value in known.items():
            call = re.sub(rf"\b{word}\b", json.dumps(value, ensure_ascii=False), call)
        if not call or OF_THE_USER.search(TEXT.sub("", call)):
            return way
    return way


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fit, "draws", property(stop))


def ask(name: str, function: str, outcome: str, lab: str, *, asked: bool) -> Way:
    df = read(name)
    words = f", outcome={json.dumps(outcome, ensure_ascii=False)}" * asked
    known = {"FOCAL": str(df[lab].dropna().iloc[0]), "OUTCOME": outcome}
    known["HOLDS"] = f"`{outcome}` > 1"
    return follow(CALLS[function].format(outcome=words), df, known)


@pytest.mark.parametrize("asked", [False, True], ids=["bare", "outcome"])
@pytest.mark.parametrize("function", [name for name in CALLS if name not in OTHERS])
@pytest.mark.parametrize("name", ONE_A_MODEL)
def test_lines_lead_to_a_fit_of_what_was_asked(name: str, function: str, asked: bool) -> None:
    """The gain, never its errors, which are taken as such or named; every row, or those that are
    left out are told."""
    outcome, lab, errors = ONE_A_MODEL[name]
    way = ask(name, function, outcome, lab, asked=asked)
    assert way.fit is not None, way
    assert way.fit.estimand.replace("`", "").removesuffix(" > 1") == outcome
    others = re.sub(r'se="[^"]*"', "", way.lines[-1])
    assert not errors or f'"{errors}"' not in others
    if len(way.fit.rows) < len(read(name)):
        assert "leaves out" in way.said or "left out" in " ".join(way.fit.warnings)
    groups = {f'lab="{lab}"', f'group="{lab}"'}
    assert any(group in way.lines[-1] for group in groups) or (function, asked) == (
        "fit_line",
        True,
    )


@pytest.mark.parametrize("name", ["models", "german", "missing"])
def test_errors_that_a_line_leaves_out_are_named_with_what_takes_them(name: str) -> None:
    errors = ONE_A_MODEL[name][2]
    way = follow("thermostats.fit_heritage(df)", read(name), {})
    assert f"se={json.dumps(errors, ensure_ascii=False)}" in way.said


@pytest.mark.parametrize("name", ONE_A_MODEL)
def test_a_refused_join_names_the_fit_that_takes_the_file(name: str) -> None:
    """Its line runs in a shell, on every row or with those that it leaves out named."""
    said = suggest_file_fit(FOLDER / f"{name}.csv")
    command, *code = shlex.split(said.split("\n")[0])[1:]
    assert command == "-c"
    with pytest.raises(ReachedError) as reached:
        exec(code[0], {})  # noqa: S102
    assert reached.value.fit.estimand == ONE_A_MODEL[name][0]
    assert len(reached.value.fit.rows) == len(read(name)) or "leaves out" in said


@pytest.mark.parametrize("name", OF_BLOCKS)
def test_rows_of_blocks_have_no_fit_without_a_join(name: str) -> None:
    assert suggest_file_fit(FOLDER / f"{name}.csv") == ""


@pytest.mark.parametrize("ending", ["json", "jsonl", "parquet", "tsv"])
def test_files_of_every_kind_are_joined_or_fitted_as_said(ending: str, tmp_path: Path) -> None:
    df = read("text_sizes")
    path = tmp_path / f"table.{ending}"
    writers: dict[str, Callable[[], object]] = {
        "json": lambda: df.to_json(path, orient="records"),
        "jsonl": lambda: df.to_json(path, orient="records", lines=True),
        "parquet": lambda: df.to_parquet(path),
        "tsv": lambda: df.to_csv(path, sep="\t", index=False),
    }
    writers[ending]()
    refused = command("join", path, "--data", "mine", cwd=tmp_path)
    assert refused.returncode == 2
    line = refused.stderr.partition("no join is needed: ")[2].splitlines()[0]
    with pytest.raises(ReachedError) as reached:
        exec(shlex.split(line)[2], {})  # noqa: S102
    assert reached.value.fit.estimand == ONE_A_MODEL["text_sizes"][0]
    assert len(reached.value.fit.rows) == len(df) or "leaves out" in refused.stderr


def test_a_refused_join_of_blocks_or_of_several_files_offers_no_fit(tmp_path: Path) -> None:
    models = FOLDER / "text_sizes.csv"
    for files in ([FOLDER / "wandb.csv"], [models, models]):
        refused = command("join", *files, "--data", "mine", cwd=tmp_path)
        assert refused.returncode == 2 and "no join is needed" not in refused.stderr


def test_errors_without_a_gap_are_taken_where_the_outcome_is_guessed() -> None:
    table = pd.DataFrame({"Model": list("abcdef"), "Lab": list("xxyyzz"), "Layers": [4] * 6})
    table = table.assign(Gain=np.linspace(1, 1.5, 6), SE=0.1, Heads=range(2, 8), Params=1e6)
    assert ', se="SE")' in refuse(table, "")
    assert "se=" not in refuse(table, ', outcome="Gain"').split("\n")[0]
    holed = refuse(table.assign(SE=[0.1, None] * 3), "")
    assert "se=" not in holed.split("\n")[0] and 'se="SE"' in holed


def refuse(df: pd.DataFrame, words: str) -> str:
    with pytest.raises(UsageError) as refused:
        eval(f"thermostats.fit_heritage(df{words})", {"thermostats": thermostats, "df": df})  # noqa: S307
    return refused.value.next_step


@pytest.mark.parametrize("function", CALLS)
@pytest.mark.parametrize("name", [*ONE_A_MODEL, *OF_BLOCKS])
def test_no_line_fails_raw_or_comes_again(name: str, function: str) -> None:
    outcome, lab, *_ = {**ONE_A_MODEL, **OF_BLOCKS}[name]
    for asked in (False, True):
        way = ask(name, function, outcome, lab, asked=asked)
        assert way.fit is not None or way.said


def test_one_missing_cell_of_the_size_leaves_a_row_out_and_not_the_size() -> None:
    df = read("models").fillna({"Heads": 16, "Last-layer gain": 1.0})
    way = follow("thermostats.fit_heritage(df)", df, {})
    assert way.fit is not None and 'scale=["Params (B)"]' in way.lines[-1]
    assert len(way.fit.rows) == len(df) - 1 and "leaves out 1 of 40 rows" in way.said


JOINED = {
    "nnsight": ("last_token_norm", '"norm": "last_token_norm"'),
    "transformer_lens": ("norm", 'recipe="transformer-lens"'),
    "wandb": ("resid_norm/layer_*", '"value": "norm"'),
    "wide": ("gain_L*", '"value": "gain_block"'),
    "models": ("Last-layer gain", '"Last-layer gain": "last_gain"'),
    "german": ("Verstärkung", '"Verstärkung": '),
    "dates": ("gain", '"gain": '),
    "missing": ("last_layer_gain", '"last_layer_gain": "last_gain"'),
    "text_sizes": ("final_gain", '"final_gain": '),
    "per_cent": ("gain %", '"gain %": '),
}
"""Per table the column of its numbers, and what a suggested join makes of it."""
FACTS = {"LAYERS": 12, "HEADS": 12, "WIDTH": 768, "PARAMETERS": 2e9}
"""What only the user knows."""


def join_as_said(step: str, df: pd.DataFrame, mine: Path, **facts: Any) -> list[str]:
    """Run the lines of a join out of a next step, of two that are for rows of either kind each
    into a folder of its own, and return them.

    facts: what only the user knows, where it differs from `FACTS`.
    """
    lines = [line.replace('"LAB"', '"Who"') for line in code_in(step) if "join(" in line]
    names = {"thermostats": thermostats, "pd": pd, "df": df, **FACTS, **facts}
    if "\nif " in f"\n{step}":  # one line or another, as the user's rows are
        folder = str(mine)
        lines = [
            line.replace(folder, f"{folder}{k}" if k else folder) for k, line in enumerate(lines)
        ]
    joined = [each for line in lines for each in eval(line, names)]  # noqa: S307
    assert sum(each.added for each in joined) > 0
    return lines


@pytest.mark.parametrize("name", JOINED)
def test_a_suggested_join_runs_and_reads_the_numbers_as_what_they_are(
    name: str, tmp_path: Path
) -> None:
    column, made = JOINED[name]
    df = read(name)
    with pytest.raises(UsageError) as refused:
        thermostats.join(df, data=tmp_path / "mine")
    lines = join_as_said(refused.value.next_step, df, tmp_path / "mine")
    assert made in " ".join(lines), (column, refused.value.next_step)


@pytest.mark.parametrize("name", ONE_A_MODEL)
def test_a_figure_over_depth_of_rows_of_models_is_of_their_gain(name: str) -> None:
    outcome, _, errors = ONE_A_MODEL[name]
    way = follow("thermostats.profile(df)", read(name), {})
    assert way.fit is not None, way
    assert way.fit.estimand.replace("`", "") == outcome
    assert not errors or f'"{errors}"' not in way.lines[-1]
    assert len(way.fit.design.mixed.covariates) == 1, "not over depth"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ONE_A_MODEL)
def test_studies_like_a_table_are_planned_by_a_fit_of_its_gain(name: str) -> None:
    """The sizes that were asked for stay, and so do outcome, lab and rows."""
    outcome, lab, _ = ONE_A_MODEL[name]
    way = follow("thermostats.power(df, models=[20, 40], labs=9)", read(name), {})
    assert way.fit is not None, way
    assert way.lines[-1].endswith(").power(models=[20, 40], labs=9)")
    assert way.fit.estimand.replace("`", "") == outcome and f'lab="{lab}"' in way.lines[-1]
    assert len(way.fit.rows) == len(read(name)) or "leaves out" in way.said


@pytest.mark.parametrize("name", OF_BLOCKS)
def test_rows_of_blocks_are_joined_then_drawn_or_planned_by(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    df = read(name)
    with pytest.raises(UsageError) as refused:
        thermostats.profile(df, "gain")
    heads = np.resize([8, 12, 16], df["model"].nunique()) if name == "wide" else 12
    facts = {"HEADS": heads, "PARAMETERS": heads * 1e8}
    join_as_said(refused.value.next_step, df, Path("mine"), **facts)
    (line,) = [each for each in code_in(refused.value.next_step) if "profile(" in each]
    axes = eval(line, {"thermostats": thermostats})  # noqa: S307
    named = {label.partition(",")[0] for label in axes.get_legend_handles_labels()[1]}
    assert len(named) == min(8, df["model"].nunique() - (name != "wide"))
    assert {each.rpartition("/")[2] for each in named} <= set(df["model"])
    with pytest.raises(UsageError) as refused:
        thermostats.power(df, models=40, labs=9)
    (line,) = [each for each in code_in(refused.value.next_step) if "fit_heritage(" in each]
    assert line.endswith(".power(models=40, labs=9)")
    way = follow(line, df, {})
    assert way.fit is not None and len(way.lines) == 1, way.lines
    assert set(df["model"].str.rpartition("/")[2]) & set(
        way.fit.rows["model_id"].str.rpartition("/")[2]
    )
    assert name != "wide" or len(way.fit.rows) == df["model"].nunique()
