"""The arrows between the packages point the way ARCHITECTURE.md says."""

from __future__ import annotations

import ast
import configparser
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from page_blocks import ROOT

SAMPLERS = {"arviz", "arviz_base", "arviz_stats", "nutpie", "pymc", "pytensor"}


def test_import_contracts_are_kept() -> None:
    pytest.importorskip("importlinter")
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [lint, "--no-cache"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout


def test_architecture_lists_the_layers_and_there_are_no_exceptions() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter")
    assert not [name for name in config.sections() if "ignore_imports" in config[name]]
    layers = config["importlinter:contract:layers"]["layers"].split("\n")
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    assert [re.findall(r"\w+", names) for names in listed] == [
        re.findall(r"\w+", line) for line in layers if line
    ]


def test_pymc_and_arviz_are_known_where_models_are_declared_and_drawn() -> None:
    """ArviZ by the draws, nutpie by the sampler, and PyMC there and in the laws that declare a
    model in it."""
    found = {
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "thermostats").rglob("*.py"))
        if SAMPLERS & _names(path)
    }
    laws = {"kleiber", "shares"}
    assert found == {
        f"thermostats/modelling/{name}.py" for name in ("draws", "sampling", *laws)
    } | {"thermostats/modelling/heritage/law.py"}


def test_no_claim_needs_torch_to_be_read() -> None:
    code = (
        "import sys\nfrom thermostats.claims.run import load_claims\n"
        "from thermostats.tables.folders import find_shipped\n"
        "print(len(load_claims(find_shipped('analyses'))), *sys.modules.keys() & {'torch', "
        "'transformers', "
        "'gguf'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == [str(len(list((ROOT / "analyses").glob("*.py"))))]


def test_every_law_takes_any_frame_and_can_be_read_again() -> None:
    """`fits` binds an argument `table` and keeps the call for a saved fit; a lineage has `rows` and
    a tree."""
    page = (ROOT / "docs" / "reference" / "api" / "fits.md").read_text(encoding="utf-8")
    homes = re.findall(r"^::: (thermostats\.modelling\S+)\.(fit_\w+)$", page, re.MULTILINE)
    laws = {name: getattr(import_module(module), name) for module, name in homes}
    assert len(laws) > 10
    assert [name for name, law in laws.items() if not hasattr(law, "fits")] == []
    without = [
        name for name, law in laws.items() if "table" not in inspect.signature(law).parameters
    ]
    assert without == ["fit_lineage"]


def test_no_two_files_import_each_other() -> None:
    """But for types: modules of checks, figures and files name the record of a fit, whose methods
    they are."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in (ROOT / "thermostats").rglob("*.py")
    }
    paths = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    imports = {name: _modules(path) & paths.keys() - {name} for name, path in paths.items()}
    assert sum(map(len, imports.values())) > 1000
    assert [
        (a, b) for a, others in imports.items() for b in others if a < b and a in imports[b]
    ] == []


def _modules(path: Path) -> set[str]:
    """Modules that a file names in statements of import, wherever they stand but for types
    alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    types = {each for node in typing for each in ast.walk(node)}
    nodes = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node not in types
    ]
    parts = {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
    return parts | {node.module or "" for node in nodes}


def _names(path: Path) -> set[str]:
    """First parts of everything a file imports, by statement or by `import_module`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).endswith("import_module")
            and node.args
        ):
            argument = node.args[0]
            names.add(str(argument.value) if isinstance(argument, ast.Constant) else "")
    return {name.split(".")[0] for name in names}
