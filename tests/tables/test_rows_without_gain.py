"""Rows that lack a gain change neither which models `model_rows` has for it nor their gains,
whatever they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from conftest import SHA, layer, model, run, shipped_tables, table
from hypothesis import given, settings
from hypothesis import strategies as st

import thermostats
from thermostats.tables.features import OF_RUNS, collect_prompt_gains
from thermostats.tables.join import join
from thermostats.tables.model_rows import model_rows, prompt_rows
from thermostats.tables.reading import Selection
from thermostats.tables.schemas import EXTERNAL, GAINS, POSITIONS, READ_GAINS

Row = Mapping[str, object]
Rows = dict[str, list[Row]]
"""Rows by table."""

BLOCKS = 4
PROMPTS = ("a", "b")
REVISIONS = ("main", "step10", "step20")
MODELS = {
    "lab/base": {},
    "lab/tuned": {"variant": "instruct", "parent": "lab/base"},
    "lab/twice": {"variant": "instruct", "parent": "lab/tuned"},
    "lab/seed": {"seed_of": "lab/base"},
    "lab/other": {},
}
SOURCES = {"tests": "1", "of the study": "published", "others": EXTERNAL}
"""Who measured → as what version: a row of every set of evidence."""
SETS = ("pooled", "published", "external", "measured")
KEPT = ["model_id", "revision", "gain", "log_gain", "n_prompts", "lower", "upper"]
BY_PROMPT = ["run_id", "prompt_id", "value"]


def gain_rows(of: Row, position: str, blocks: Sequence[int]) -> list[Row]:
    """Gains and read gains of some blocks on both prompts; no two models have the same."""
    size = 1 + sum(map(ord, str(of["run_id"]))) % 97 / 100
    return [
        layer(dict(of), block, size * way, prompt) | {"position": position, "gain_read": size * way}
        for block in blocks
        for prompt, way in zip(PROMPTS, (0.9, 1.1), strict=True)
    ]


def every_gain(of: Row) -> Rows:
    """Rows from which every gain of a run follows."""
    normed = {"run_id": of["run_id"], "estimand": "normed_gain", "value": 1.3}
    layers = gain_rows(of, "last", range(1, BLOCKS + 1))
    return {"layers": layers, "summaries": [normed | {"prompt_id": prompt} for prompt in PROMPTS]}


def measured_run(model_id: str, revision: str, source: str, prompt_set: str, dtype: str) -> Row:
    version = SOURCES[source]
    fields = {"revision": revision, "source": source, "prompt_set": prompt_set, "dtype": dtype}
    return run(model_id, measure_version=version, **fields)


RUNS = st.builds(
    measured_run,
    st.sampled_from(list(MODELS)),
    st.sampled_from(REVISIONS),
    st.sampled_from(list(SOURCES)),
    st.sampled_from(["two", "other", ""]),
    st.sampled_from(["float32", "bfloat16"]),
)


@st.composite
def any_rows(draw: st.DrawFn) -> tuple[Row, Rows]:
    """A run with rows of one table, which may have some gains, none, or all."""
    of = draw(RUNS)
    key = {"run_id": of["run_id"]}
    name = draw(st.sampled_from([*OF_RUNS, "outputs"]))
    if name == "layers":
        blocks = draw(st.lists(st.integers(1, BLOCKS), min_size=1, unique=True))
        return of, {name: gain_rows(of, draw(st.sampled_from(list(POSITIONS))), blocks)}
    if name == "summaries":
        estimand = draw(st.sampled_from([*GAINS, "W_V_spectral_norm_mean", "anything"]))
        return of, {
            name: [
                {
                    **key,
                    "prompt_id": draw(st.sampled_from(["", *PROMPTS])),
                    "estimand": estimand,
                    "value": 1.7,
                }
            ]
        }
    fields: Row = {
        "weights": {"layer": 1, "matrix": "W_V", "spectral_norm": 3.0},
        "transitions": {
            "prompt_id": "a",
            "definition": "peak",
            "trace_variant": "exact",
            "layer": 2,
        },
        "outputs": {"prompt_id": "a", "entropy": 2.0},
    }[name]
    return of, {name: [{**key, **fields}]}


@cache
def fixed_tables() -> dict[str, pd.DataFrame]:
    """Every table, those of runs empty."""
    rows = [
        model(name, n_layers=BLOCKS) | {"norm_kind": "RMSNorm"} | facts
        for name, facts in MODELS.items()
    ]
    texts = [("two", name) for name in PROMPTS] + [("other", name) for name in "abcde"]
    return {name: table(name) for name in (*OF_RUNS, "outputs")} | {
        "models": table(
            "models", *(row | {"revision": revision} for row in rows for revision in REVISIONS)
        ),
        "prompts": table(
            "prompts",
            *(
                {"prompt_set": of, "prompt_id": name, "text_sha256": SHA, "category": "Plain"}
                for of, name in texts
            ),
        ),
        "sources": pd.DataFrame({"file": ["of the study"]}),
    }


def frames(runs: Sequence[Row], rows: Mapping[str, Sequence[Row]]) -> dict[str, pd.DataFrame]:
    """Tables that hold these rows of runs alone."""
    filled = {"runs": runs} | {name: some for name, some in rows.items() if some}
    return fixed_tables() | {name: table(name, *map(dict, some)) for name, some in filled.items()}


def selected(evidence: str, held: dict[str, pd.DataFrame]) -> Selection:
    """A set of evidence out of tables in memory."""
    made = Selection(name=evidence)
    made._files = dict(held)
    return made


def runs_with_gain(held: Mapping[str, pd.DataFrame], gain: str) -> set[str]:
    """Runs whose rows give the gain at the last token."""
    values = collect_prompt_gains(
        *(held[name] for name in ("runs", "models", "layers", "summaries"))
    )
    return set(values.loc[values["gain"] == gain, "run_id"])


def together(*parts: Mapping[str, Sequence[Row]]) -> Rows:
    return {
        name: [row for part in parts for row in part.get(name, ())]
        for name in (*OF_RUNS, "outputs")
    }


CASES = given(
    st.sampled_from(SETS),
    st.sampled_from([*GAINS, *READ_GAINS]),
    st.lists(RUNS, min_size=1, max_size=4, unique_by=lambda of: of["run_id"]),
    st.lists(any_rows(), min_size=1, max_size=4, unique_by=lambda each: each[0]["run_id"]),
)


def check_rows_without_gain(
    evidence: str, gain: str, with_all: list[Row], more: list[tuple[Row, Rows]]
) -> None:
    """Rows of some runs that lack a gain change nothing beside runs that have it."""
    ids = {of["run_id"] for of in with_all}
    more = [(of, rows) for of, rows in more if of["run_id"] not in ids]
    having = runs_with_gain(
        frames([of for of, _ in more], together(*(rows for _, rows in more))), gain
    )
    without = [(of, rows) for of, rows in more if of["run_id"] not in having]
    rows = together(*map(every_gain, with_all))
    alone = selected(evidence, frames(with_all, rows))
    every = frames(
        [*with_all, *(of for of, _ in without)], together(rows, *(rows for _, rows in without))
    )
    joined = selected(evidence, every)
    before, after = (model_rows(each, gain)[KEPT] for each in (alone, joined))
    pd.testing.assert_frame_equal(before, after)
    if gain in GAINS:
        before, after = (prompt_rows(gain, each)[BY_PROMPT] for each in (alone, joined))
        pd.testing.assert_frame_equal(before, after, check_dtype=len(before) > 0)


test_rows_that_lack_a_gain_never_change_the_rows_of_it = settings(max_examples=20)(
    CASES(check_rows_without_gain)
)
test_in_many_tables = pytest.mark.slow(settings(max_examples=200)(CASES(check_rows_without_gain)))


def test_a_spectral_norm_of_a_base_leaves_its_tuned_model_where_it_is(small_store: Path) -> None:
    tuned, base = run("lab/tuned"), run("lab/base", attention="", prompt_set="")
    gains = [layer(tuned, block, 1.25, prompt) for block in (1, 2, 3) for prompt in PROMPTS]
    facts = table("models", {**model("lab/tuned"), **MODELS["lab/tuned"]}, model("lab/base"))
    join([facts, table("runs", tuned), table("layers", *gains)], data=small_store, accept=True)
    assert "lab/tuned" in set(model_rows("measured", data=small_store)["model_id"])
    norm = {"run_id": base["run_id"], "layer": 1, "matrix": "W_V", "spectral_norm": 3.0}
    join([table("runs", base), table("weights", norm)], data=small_store, accept=True)
    assert "lab/tuned" in set(model_rows("measured", data=small_store)["model_id"])
    measured = run("lab/base")
    gains = [layer(measured, block, 1.5, prompt) for block in (1, 2, 3) for prompt in PROMPTS]
    join([table("runs", measured), table("layers", *gains)], data=small_store, accept=True)
    names = set(model_rows("measured", data=small_store)["model_id"])
    assert "lab/base" in names and "lab/tuned" not in names


@pytest.mark.parametrize("evidence", ["pooled", "external"])
def test_tuned_models_that_ship_stand_where_their_base_has_no_such_gain(evidence: str) -> None:
    chosen = shipped_tables().named(evidence)
    features = thermostats.features(evidence=evidence)
    for gain in GAINS:
        names = set(model_rows(chosen, gain, incomparable=True)["model_id"])
        known = features[(features[gain] > 0) & (features["n_layers"] > 2)]
        tuned = known[(known["variant"] == "instruct") & ~known["parent"].isin(known["model_id"])]
        assert set(tuned["model_id"]) <= names
    assert "meta-llama/Llama-3.1-8B-Instruct" in set(model_rows(chosen)["model_id"])
