"""Files of specs: what they say, and what is said where they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub")

from thermostats.errors import DataError, UsageError
from thermostats.measurement.spec import RunSpec, collect_specs, expand_revisions

FILES = {
    "a.toml": '[[spec]]\nmodel = "a/b"\nrevision = ["s1", "s2"]\n[[spec]]\nmodel = "c/d"\nwhat = '
    '["gains"]\n',
    "a.csv": 'model,revision,what\na/b,s1,\na/b,s2,\nc/d,,"gains"\n',
    "a.jsonl": '{"model": "a/b", "revision": ["s1", "s2"]}\n\n{"model": "c/d", "what": "gains"}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_every_form_says_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    listed = collect_specs([str(path), "e/f", "a/b", "e/f"], {"dtype": "bfloat16"})
    assert listed == [
        RunSpec("a/b", "s1", "bfloat16"),
        RunSpec("a/b", "s2", "bfloat16"),
        RunSpec("c/d", dtype="bfloat16", what=("gains",)),
        RunSpec("e/f", dtype="bfloat16"),
        RunSpec("a/b", dtype="bfloat16"),
    ]


WRONG = {
    "field.csv": ("model,revison\na,b\n", "line 2.*'revison'.*did you mean revision"),
    "code.toml": ('[[spec]]\nmodel = "a"\ntrust_remote_code = true\n', "spec 1.*trust_remote_code"),
    "none.jsonl": ('{"revision": "x"}\n', "line 1.*without model|without model.*line 1"),
    "dtype.csv": ("model,dtype\na,int8\n", "no such precision.*line 2.*int8.*bfloat16"),
    "what.toml": ('[[spec]]\nmodel = "a"\nwhat = ["energy"]\n', "energy"),
    "cells.csv": ("model,revision\na\n", "not as many cells.*line 2"),
    "type.jsonl": ('{"model": 3}\n', "model is not of its type.*line 1.*3"),
    "json.jsonl": ("{\n", "not JSON.*line 1"),
    "list.jsonl": ("[]\n", "not a JSON object"),
    "bad.toml": ("[[spec]\n", "not TOML"),
    "other.toml": ('[model]\nmodel = "a"\n', "may hold only"),
    "empty.toml": ("", "no specs"),
    "deep.jsonl": ("[" * 100_000, "not JSON"),
    "many.jsonl": (
        json.dumps({"model": "a", "revision": ["r"] * 400, "dtype": ["float32"] * 300}) + "\n",
        "line 1.*120000.*at most 100000",
    ),
    "quotes.csv": ('model\n"a\n', "CSV is damaged.*line"),
    "budget.csv": ("model,token_budget\na,-1\n", "token_budget is not of its type"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str, tmp_path: Path) -> None:
    text, message = WRONG[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises((UsageError, DataError), match=f"(?s){message}"):
        collect_specs([str(path)], {})


def test_paths_are_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "p.txt").write_text("a b\n")
    monkeypatch.chdir(tmp_path)
    (spec,) = collect_specs(["model"], {"prompts": "p.txt"})
    assert (spec.model, spec.prompts) == (str(tmp_path / "model"), str(tmp_path / "p.txt"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("main", ["main"]),
        ("main, step10", ["main", "step10"]),
        ("step1000..step3000:1000", ["step1000", "step2000", "step3000"]),
        ("step08..12:2", ["step08", "step10", "step12"]),
        ("0..2:1,main", ["0", "1", "2", "main"]),
    ],
)
def test_lists_and_ranges_of_revisions(text: str, names: list[str]) -> None:
    assert expand_revisions(text) == names
    assert [spec.revision for spec in collect_specs(["owner/model"], {"revision": text})] == names


@pytest.mark.parametrize(
    "text", ["a1..b3:1", "a1..a3", "a1..a3:0", "a3..a1:1", "0..9999999:1", "main,", ""]
)
def test_what_is_no_list_of_revisions_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="revision"):
        expand_revisions(text)
