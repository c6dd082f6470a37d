"""Every public function of the package: sections as numpydoc has them, and an example that runs."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import thermostats

ROOT = Path(__file__).resolve().parents[2]
LISTS = {"claims": "thermostats.claims.run.list_claims"}
"""Names that are no function of that name."""
NAMES = [name for name in thermostats.__all__ if name != "__version__"]
HEADING = re.compile(r"^(\w+)\n-+$", re.MULTILINE)
PARAMETER = re.compile(r"^\*{0,2}(\w+(?:, \w+)*)(?: : .+)?$", re.MULTILINE)
MODEL = ROOT / "data" / "nursery" / "models" / "r07-5"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@cache
def find_public(name: str) -> Any:
    """The function as it is written, or of an object its class."""
    home = LISTS.get(name)
    public = (
        getattr(import_module(home.rpartition(".")[0]), home.rpartition(".")[2])
        if home
        else inspect.unwrap(getattr(thermostats, name))
    )
    return public if inspect.isfunction(public) else type(public)


def split_sections(name: str) -> dict[str, str]:
    """Texts of the sections by their headings; what comes first has none."""
    first, *rest = HEADING.split(inspect.getdoc(find_public(name)) or "")
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


@pytest.mark.parametrize("name", NAMES)
def test_sections_say_what_is_taken_and_given(name: str) -> None:
    sections = split_sections(name)
    assert "Examples" in sections
    public = find_public(name)
    if inspect.isclass(public):
        return
    assert "Returns" in sections
    documented = re.sub(r"^ .*$", "", sections.get("Parameters", ""), flags=re.MULTILINE)
    named = [each for line in PARAMETER.findall(documented) for each in line.split(", ")]
    assert sorted(named) == sorted(inspect.signature(public).parameters)


def test_first_sentences_and_sections_have_the_form_of_numpydoc() -> None:
    """By ruff's rules `D`, of which the other docstrings keep no more than that there is one."""
    places = {}
    for name in NAMES:
        lines, start = inspect.getsourcelines(find_public(name))
        path = str(Path(inspect.getsourcefile(find_public(name)) or "").resolve())
        places.setdefault(path, []).append((start, start + len(lines), name))
    asked = ["check", "--isolated", "--select", "D", "--output-format", "json", "--exit-zero"]
    asked += ["--config", 'lint.pydocstyle.convention="numpy"', *places]
    run = subprocess.run([sys.executable, "-m", "ruff", *asked], capture_output=True, check=True)
    found = []
    for fault in json.loads(run.stdout):
        row = fault["location"]["row"]
        # a class's methods are no public functions
        found += [
            (name, fault["code"], fault["message"])
            for start, end, name in places[fault["filename"]]
            if start <= row < end and fault["code"] not in {"D102", "D105", "D107"}
        ]
    assert found == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, where `my-model` is a small model for those that need one."""
    example = split_sections(name)["Examples"]
    if "my-model" in example:
        if importlib.util.find_spec("torch") is None:
            pytest.skip("this example needs torch, which is not installed")
        shutil.copytree(MODEL, tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    parsed = doctest.DocTestParser().get_doctest(example, {}, name, None, 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(parsed, out=printed.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(printed)
