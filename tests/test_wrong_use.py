"""What is wrong, and what there is, is said without anything large loaded, so that nobody waits
seconds for it."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import thermostats
from thermostats.cli.app import app
from thermostats.errors import UsageError
from thermostats.tables import store
from thermostats.tables.choices import MOST_LINES

LARGE = ["arviz", "huggingface_hub", "jinja2", "matplotlib", "numpy", "nutpie", "pandas"]
LARGE += ["pymc", "ray", "scipy", "statsmodels", "torch", "transformers"]
ASKED = """
import contextlib, io, json, sys
from thermostats.cli.app import main
cases, large = json.load(sys.stdin)
told = []
for arguments in cases:
    sys.argv, said, out = ["thermostats", *arguments], io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
            main()
    except SystemExit as end:
        assert "Traceback" not in said.getvalue() and bool(out.getvalue()) == (not end.code), arguments
        told.append([end.code, said.getvalue(), [name for name in large if name in sys.modules]])
print(json.dumps(told))
"""  # noqa: E501
CASES = [
    ("chek", "did you mean 'check'?"),
    ("ls model", "Next: thermostats ls models"),
    ("ls columns modells", "allowed: models, lineage, candidates, prompts,"),
    ("ls columns modells", "did you mean models?"),
    ("ls columns feature", "did you mean features?"),
    ("ls models runs", "thermostats ls columns runs"),
    (
        "ls models gpt2",
        "only columns are listed by table: got models gpt2. Next: thermostats ls models",
    ),
    ("ls models --data nowhere", "begins it: thermostats measure MODEL --data nowhere"),
    ("ls runs --own", "thermostats ls runs --own --data mine"),
    ("measur my-model", "thermostats measure my-model"),
    ("ls prompts --lab OpenAI", "allowed: models, runs"),
    ("measure a/b c/d --set name=me/mine --data mine", "a name can be given to only one model"),
    ("ls claims --analyses nowhere", "no such folder of analyses"),
    ("check --data nowhere", "no such data folder"),
    ("report C99", "no such claim: got C99"),
    ("report C01 --all", "not both"),
    ("report C4", "did you mean C04?"),
    ("report --analyses nowhere", "no such folder of analyses"),
    ("findings", "thermostats report --all"),
    ("cite --data nowhere", "no such data folder"),
    ("export out --format xls", "allowed: csv, parquet"),
    ("export out modells", "did you mean models?"),
    ("export out --partition model_id", "only Parquet is partitioned"),
    ("new claim !?", "no letters"),
    ("ls runs --paths", "thermostats ls models --paths"),
    ("join nothing.csv --data mine", "no such file"),
    ("join nothing.csv", "--data mine"),
    ("join nothing.csv --map nothing.toml --data mine", "no such file"),
    ("power C05", "thermostats power C05 --models 20,40,80 --labs 10"),
    ("power C99 --models 20 --labs 5", "no such claim"),
    ("power C05 --models 20,many --labs 5", "not a whole number above 0"),
    ("power C05 --models 3 --labs 2", "no study can have this size"),
    ("power C05 --models 12 --labs 13", "a model or more in each"),
    ("power C05 --sizes 12,0", "not a whole number above 0"),
    ("power C05 --models 20 --labs 5 --studies 5", "20"),
    ("predict --layers 24", "no --heads, --head-width, --params"),
    ("measure gpt2", "--data mine"),
    ("measure gpt2 --data mine --what gain", "allowed: weights, gains"),
    ("measure gpt2 --data mine --dtype float8", "allowed: float32"),
    ("measure gpt2 --data mine --prompts cor", "did you mean core?"),
    ("measure gpt2 --data mine --prompts nothing", "thermostats ls prompts"),
    ("measure gpt2 --data mine --set engine=rai", "did you mean ray?"),
    ("measure gpt2 --data mine --set engine=slurm", "allowed: local, ray"),
    ("measure --data mine", "no model is named"),
    ("measure gpt2 --data mine --shard 0/4", "allowed: K/N"),
    ("measure gpt2 --data mine --shard 5/4", "allowed: K/N"),
    ("measure gpt2 --data mine --set devise=cpu", "did you mean device?"),
    ("measure gpt2 --data mine --set device=gpu", "allowed: auto, cpu, cuda"),
    ("measure gpt2 --data mine --set device=cuda:999", "no such GPU on this machine"),
    ("measure gpt2 --data mine --set device_map=even", "allowed: auto, balanced"),
    ("measure gpt2 --data mine --set gpu_memory=-1", "allowed: a number"),
    ("measure gpt2 --data mine --set token_budget=0", "allowed: a whole number"),
    ("measure gpt2 --data mine --set trust_remote_code=maybe", "yes or no"),
    ("measure nothing.toml --data mine", "no such file of specs"),
]
TABLES_READ = [
    ("ls models --lab Eleuther", "did you mean EleutherAI?"),
    ("ls models --family pythai", "did you mean pythia?"),
    ("export out --format parquet --partition modl_id", "did you mean model_id?"),
    ("measure ./nowhere --data mine", "thermostats ls models --paths"),
    ("measure a/b/c/d --data mine", "hub id"),
]
"""Told with a design, the tables' columns or the hub's names of models, which take less than a
second to load."""
NEEDED = {"huggingface_hub", "numpy", "pandas"}


def told(
    cases: list[list[str]], large: list[str], folder: Path
) -> list[tuple[int, str, list[str]]]:
    """Of each command in one process: its exit code, standard error, and the large libraries loaded
    by then."""
    asked = json.dumps([cases, large])
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    found: list[tuple[int, str, list[str]]] = json.loads(done.stdout)
    return found


def test_wrong_use_is_told_before_anything_large_is_loaded(tmp_path: Path) -> None:
    cases = [*CASES, *TABLES_READ]
    found = told([words.split() for words, _ in cases], LARGE, tmp_path)
    for (arguments, words), (code, said, loaded) in zip(cases, found, strict=True):
        assert (code, words in said) == (2, True), f"{arguments}: {code} {said}"
        assert set(loaded) <= (NEEDED if (arguments, words) in TABLES_READ else set()), (
            f"{arguments} loads {loaded}"
        )
    assert list(tmp_path.iterdir()) == []


LISTED = ["--help", "ls claims", "ls models"]


def test_what_there_is_is_listed_with_nothing_larger_than_tables(tmp_path: Path) -> None:
    """In one process after another: what one loads, the next would have."""
    Path(tmp_path / "findings.csv").write_bytes(
        store.encode_csv(store.load("findings"), "findings")
    )
    for case in [*(words.split() for words in LISTED), ["findings", "--out", str(tmp_path)]]:
        [(code, _, loaded)] = told([case], LARGE, tmp_path)
        assert (code, set(loaded) - {"numpy", "jinja2", "pandas"}) == (0, set()), case


@pytest.mark.parametrize(
    "name", [name for name in thermostats.__all__ if not name.startswith("__")]
)
def test_an_argument_that_is_missing_is_named(name: str) -> None:
    """With the function, before anything is done, and with a call to paste."""
    function = getattr(thermostats, name)
    if not callable(function):
        return
    parameters = inspect.signature(function).parameters.values()
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [
        each.name for each in parameters if each.default is each.empty and each.kind not in several
    ]
    if needed:
        with pytest.raises(
            UsageError, match=f"{name}.* missing .* argument.*{needed[0]}"
        ) as refused:
            function()
        assert re.match(
            rf"thermostats\.{name}\((df|{needed[0].upper()})\b", refused.value.next_step
        )


def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_is_measured() -> None:
    models = [f"owner/model-{number}" for number in range(MOST_LINES + 1)]
    done = CliRunner().invoke(app, ["measure", *models, "--data", "mine", "--figure", "gains.svg"])
    assert isinstance(done.exception, UsageError)
    said = str(done.exception)
    assert "more models than lines" in said
    assert f"draw some: thermostats measure {' '.join(models[:MOST_LINES])} --data" in said
