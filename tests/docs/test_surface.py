"""Every public function has its place on a page, and no name of a class stands for two things."""

from __future__ import annotations

import ast
import re
from collections import Counter

from surface import ROOT


def test_every_public_function_has_a_page() -> None:
    import thermostats

    pages = "".join(page.read_text() for page in ROOT.glob("docs/reference/api/*.md"))
    lacking = [
        name for name in thermostats.__all__ if name != "__version__" and f".{name}\n" not in pages
    ]
    assert not lacking


def test_the_page_of_the_package_says_what_can_be_imported() -> None:
    """Functions there are names of the package, and of the page of fits all but those that the page
    names."""
    import thermostats

    page = (ROOT / "docs/reference/api/package.md").read_text()
    functions = [
        name for name in re.findall(r"^::: \S+\.(\w+)$", page, re.MULTILINE) if name[0].islower()
    ]
    assert not {*functions} - {*thermostats.__all__, "errors"}
    fits = re.findall(
        r"\.(fit_\w+)$", (ROOT / "docs/reference/api/fits.md").read_text(), re.MULTILINE
    )
    excepted = re.search(r"every `fit_…` but ((?:`fit_\w+`(?:,? and |, )?)+)", page)
    assert excepted, (
        "package.md does not say which fits are not exported: every `fit_…` but `fit_unit_means`, …"
    )
    assert {name for name in fits if name not in thermostats.__all__} == set(
        re.findall(r"`(fit_\w+)`", excepted[1])
    )
    others = {*thermostats.__all__} - {*functions, *fits, "__version__"}
    assert all(f"`{name}`" in page for name in others)


def test_every_fit_has_a_page() -> None:
    pages = (ROOT / "docs/reference/api/fits.md").read_text()
    fits = {
        node.name
        for path in (ROOT / "thermostats/modelling").rglob("*.py")
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("fit_")
        if any(getattr(each, "id", "") == "record_call" for each in node.decorator_list)
    }
    assert len(fits) > 8
    assert not sorted(name for name in fits if f".{name}\n" not in pages)


def test_no_name_of_a_class_stands_for_two_things() -> None:
    """But `World`: a study's own is made into one of the contract's."""
    modules = (ast.parse(path.read_bytes()).body for path in (ROOT / "thermostats").rglob("*.py"))
    classes = Counter(
        node.name for body in modules for node in body if isinstance(node, ast.ClassDef)
    )
    assert len(classes) > 100 and {name for name, times in classes.items() if times > 1} <= {
        "World"
    }


DIALECT = frozenset(
    ["found", "one", "own", "said", "known", "asked", "shown", "told", "whole", "kept", "given"]
)
KEYS = {"Lacking.own"}
"""A field that is a key of `needs --json`."""


def test_public_names_are_nouns_of_the_field() -> None:
    """Modules, classes, functions, their arguments, fields: none says only where its value came
    from."""
    names = []
    for path in (ROOT / "thermostats").rglob("*.py"):
        names += [path.stem]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
                names += [
                    node.name,
                    *(f"{node.name}.{field.id}" for field in fields if isinstance(field, ast.Name)),
                ]
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                names += [node.name, *(f"{node.name}({each.arg}" for each in arguments)]
    assert len(names) > 5000
    assert (
        sorted(
            name for name in names if re.split(r"[.(]", name)[-1] in DIALECT and name not in KEYS
        )
        == []
    )
