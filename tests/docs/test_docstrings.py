"""Docstrings of public names have numpydoc's sections, name the parameters that there are, and
their examples run."""

from __future__ import annotations

import builtins
import doctest
import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from surface import ROOT

import thermostats
from thermostats.claims import condition, rule
from thermostats.claims.run import claims
from thermostats.studies import delia2026

SECTION = re.compile(r"^(\w+)\n-+$", re.MULTILINE)
PAGES = ("package", "fits")
"""Pages of the reference whose classes are what public functions take and return."""
ENGINE = "thermostats.modelling.gaussian"
"""On the page of fits, but what laws are made of: nobody is given one."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def list_functions() -> dict[str, Callable[..., Any]]:
    """Functions of the package and of the study, by the name under which they are imported."""
    no_functions = {"__version__", "claims", "options"}
    names = [name for name in thermostats.__all__ if name not in no_functions]
    found = {f"thermostats.{name}": getattr(thermostats, name) for name in names}
    found["thermostats.claims"] = claims
    own = [name for name in delia2026.__all__ if name.startswith("fit_")]
    return found | {f"{delia2026.HOME}.{name}": getattr(delia2026, name) for name in own}


def list_page_names() -> list[tuple[str, str]]:
    """Modules and names of functions and classes on these pages."""
    folder = ROOT / "docs" / "reference" / "api"
    texts = [(folder / f"{page}.md").read_text(encoding="utf-8") for page in PAGES]
    found = re.findall(r"^::: (\S+)\.(\w+)$", "".join(texts), re.MULTILINE)
    return [(module, name) for module, name in found if module != ENGINE]


def list_other_functions() -> dict[str, Callable[..., Any]]:
    """Functions on these pages that are imported from modules of their own."""
    known = {*thermostats.__all__, *delia2026.__all__}
    others = [(module, name) for module, name in list_page_names() if name not in known]
    found = {f"{module}.{name}": getattr(import_module(module), name) for module, name in others}
    return {name: each for name, each in found.items() if inspect.isfunction(each)}


def list_methods() -> dict[str, Callable[..., Any]]:
    """Methods of the classes on these pages, properties and fields apart."""
    found = {}
    for module, name in list_page_names():
        home = getattr(import_module(module), name)
        if not inspect.isclass(home):
            continue
        fields = {field for kind in home.__mro__ for field in inspect.get_annotations(kind)}
        for method, function in inspect.getmembers(home, inspect.isroutine):
            own = str(getattr(function, "__module__", "")).startswith("thermostats")
            if own and method not in fields and method[0] != "_":
                found[f"{module}.{name}.{method}"] = getattr(function, "__func__", function)
    return found


def list_rules() -> dict[str, Any]:
    """Functions and classes of which an analysis makes its rule."""
    return {
        f"{module.__name__}.{name}": each
        for module in (rule, condition)
        for name, each in vars(module).items()
        if name[0] != "_" and getattr(each, "__module__", "") == module.__name__
        if inspect.isfunction(each) or inspect.isclass(each)
    }


FUNCTIONS = list_functions()
RULES = list_rules()
DOCUMENTED = FUNCTIONS | list_other_functions() | list_methods()
DOCUMENTED |= {name: each for name, each in RULES.items() if inspect.isfunction(each)}
WITH_EXAMPLES = DOCUMENTED | RULES


def split_sections(function: Callable[..., Any]) -> dict[str, str]:
    """Sections of a docstring by heading; what is above the first is under the empty heading."""
    first, *rest = SECTION.split(inspect.getdoc(function) or "")
    return {"": first} | dict(zip(rest[::2], rest[1::2], strict=True))


def read_names(section: str) -> list[str]:
    """Names that a section begins a line with, those of a line with several apart."""
    heads = re.findall(r"^(\S[^:\n]*?)(?: : .*)?$", section, re.MULTILINE)
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def test_there_are_many_public_names() -> None:
    assert len(FUNCTIONS) > 45 and len(DOCUMENTED) > len(FUNCTIONS) + 20


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_have_their_sections(name: str) -> None:
    function = DOCUMENTED[name]
    sections = split_sections(function)
    summary, *_ = sections[""].split("\n\n")
    assert "\n" not in summary and summary.endswith("."), "the first sentence is a line of its own"
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters if each not in {"self", "cls"}]
    assert sorted(read_names(sections.get("Parameters", ""))) == sorted(parameters)
    returns = signature.return_annotation not in {None, "None"}
    assert ("Returns" in sections) == returns
    raised = read_names(sections.get("Raises", ""))
    assert set(raised) <= {*vars(thermostats.errors), *vars(builtins)}
    assert ">>> " in sections["Examples"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_docstrings_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = inspect.getdoc(WITH_EXAMPLES[name]) or ""
    for module in ("torch", "transformers"):
        if f"import {module}" in text:
            pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    printed: list[str] = []
    results = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=printed.append)
    assert results.attempted and not results.failed, "".join(printed)
