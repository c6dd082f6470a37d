"""Analyses, claims, studies and pages get rows from `Evidence`, which records them, and in no other
way."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from thermostats.claims.evidence import Evidence

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("analyses", "thermostats/claims", "thermostats/studies", "thermostats/reporting")
"""Whose findings and pages are kept."""
OPENING = {
    "open",
    "read_bytes",
    "read_text",
    "iterdir",
    "glob",
    "rglob",
    "is_dir",
    "load_shipped_table",
}
OPENING |= {
    "read_csv",
    "read_excel",
    "read_feather",
    "read_fwf",
    "read_json",
    "read_parquet",
    "read_table",
}
OPENING |= {"ParquetFile", "genfromtxt", "load", "loadtxt"}
"""Calls that open a file or look into a folder."""
EITHER = "model_rows"
"""A function that takes `Evidence`, or the name of a set, whose rows it then reads by itself."""
REPORT = (
    "files of a report and of its templates, and the digests of files by which it knows what is "
    "stale"
)
ALLOWED = {
    "thermostats/claims/evidence.py": "the one way to rows",
    "thermostats/claims/bounds.py": "bounds of nuisances that ship, which `hash_package` holds",
    "thermostats/claims/planning/shipped_advice.py:load_advice": "advice that ships, which "
    "`hash_package` holds",
    "thermostats/claims/calibration.py:load_levels": "levels in simulated worlds, which a page's "
    "digest "
    "holds by claim",
    "thermostats/claims/claim.py:": "whether there are rows of one's own, for an error, which "
    "nobody keeps",
    "thermostats/reporting/pages/__init__.py:": "whether there are rows of one's own, for an error",
    "thermostats/reporting/pages/__init__.py:refuse_own_findings": "the same, for its next line",
    "thermostats/claims/planning/candidates.py:read_candidates": "models that are not measured, "
    "for "
    "advice, which nobody keeps",
    "thermostats/claims/run.py:_run_analysis": "whether tables are there, for an error, which "
    "nobody "
    "keeps",
    "thermostats/claims/codec.py": "tables within what was kept before",
    "thermostats/claims/memo.py": "what was kept before",
    "thermostats/claims/power.py:": "lines that join a table, for a refusal, which nobody keeps",
    "thermostats/reporting/pages/__init__.py:read_origin": REPORT,
    "thermostats/reporting/pages/__init__.py:has_own_findings": REPORT,
    "thermostats/claims/shared.py:read_causes": "causes that the package declares",
    "thermostats/claims/study.py:group_claims": "scripts, which a page's digest holds",
    "thermostats/claims/study.py:list_scripts": "which scripts there are",
    "thermostats/claims/study.py:load_studies": "installed studies, which are no files of rows",
    "thermostats/claims/template.py:read": "words, which a page's digest holds",
    "thermostats/studies/delia2026/growth.py:": "sentences of the package",
    "thermostats/studies/nursery/__init__.py:load_shipped_table": "tables of the study, which "
    "`Evidence` alone asks for",
    "thermostats/studies/nursery/__init__.py:count_third_study": "sentences of the package, which "
    "a page's "
    "digest holds",
    "thermostats/reporting/pages/index.py:render_gain_picture": REPORT,
    "thermostats/reporting/pages/worlds.py:list_worst_worlds": REPORT,
    **{
        f"thermostats/reporting/{name}.py": REPORT
        for name in ("build", "render", "report", "snapshot", "state")
    },
}
"""What opens files all the same, by file or by function, and why that is no second way to rows."""


def sources(*rooms: str) -> Iterator[tuple[str, str]]:
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def takes_a_place(value: object) -> bool:
    """Whether a function takes a path or the folder of data, without which it can read no row."""
    called = value.__init__ if isinstance(value, type) else value  # type: ignore[misc]
    try:
        annotated = inspect.signature(called).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return any("Path" in str(each.annotation) for each in annotated)


def given_evidence(call: ast.Call) -> bool:
    """Whether a call hands rows on: its first argument is neither left out nor a set's name."""
    first = call.args[0] if call.args else ast.Constant("")
    named = isinstance(first, ast.Constant) or (isinstance(first, ast.Name) and first.id.isupper())
    return not named and all(each.arg != "data" for each in call.keywords)


class Ways(ast.NodeVisitor):
    """What of a module may be a way to rows, each as its function, line and what it is."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int, str]] = []
        self.shipped: set[str] = set()
        self.within: list[str] = []
        self.modules: dict[str, ModuleType] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.within.append(node.name)
        self.generic_visit(node)
        self.within.pop()

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            if each.name.startswith("thermostats."):
                self.add(node, f"{each.name} whole")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        room = (node.module or "").split(".")[1:2]
        if not (node.module or "").startswith("thermostats.") or room not in (
            ["tables"],
            ["measurement"],
        ):
            return
        module = importlib.import_module(str(node.module))
        for each in node.names:
            value = getattr(module, each.name, None) or importlib.import_module(
                f"{node.module}.{each.name}"
            )
            if isinstance(value, ModuleType):
                self.modules[each.asname or each.name] = value
            elif callable(value) and takes_a_place(value) and each.name != EITHER:
                self.add(node, each.name)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        of = node.value.id if isinstance(node.value, ast.Name) else ""
        if of in self.modules and takes_a_place(getattr(self.modules[of], node.attr, None)):
            self.add(node, f"{of}.{node.attr}")
        if of == "thermostats" and node.attr not in ("__version__", "report"):
            self.add(node, f"thermostats.{node.attr}")
        hidden = (
            node.attr.startswith("_")
            and node.attr in dir(Evidence)
            and not node.attr.startswith("__")
        )
        if (hidden or node.attr in HIDDEN) and of != "self":
            self.add(node, f"{of}.{node.attr}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in OPENING:
            self.add(node, name)
        if name == "find_shipped":
            self.shipped.add(self.function)
        if name == EITHER and not given_evidence(node):
            self.add(node, f"{name} of a folder")
        self.generic_visit(node)

    @property
    def function(self) -> str:
        return self.within[-1] if self.within else ""

    def add(self, node: ast.AST, what: str) -> None:
        self.found.append((self.function, getattr(node, "lineno", 0), what))


HIDDEN = set(vars(Evidence())) - {"name", "left_out"}
"""Attributes of evidence that hold rows, or what was recorded of them."""


def ways(source: str) -> list[tuple[str, int, str]]:
    found = Ways()
    found.visit(ast.parse(source))
    return found.found


def test_rows_are_read_in_one_way() -> None:
    others, used = [], set()
    for file, source in sources(*ROOMS):
        for function, line, what in ways(source):
            allowed = {file, f"{file}:{function}"} & set(ALLOWED)
            used |= allowed
            others += [f"{file}:{line} {what} in {function or 'the module'}"] * (not allowed)
    assert others == [], (
        "rows that nobody records: ask `Evidence` for them, and teach it what it lacks"
    )
    assert used == set(ALLOWED)


OF_THE_PACKAGE = {
    "thermostats/tables/export.py:_collect_tables": "a contribution, which nobody keeps",
    "thermostats/tables/export.py:_load_tables": "whether a folder is the package's",
    "thermostats/tables/folders.py": "what the folder of the package is",
    "thermostats/tables/invariants.py:read_table": "words are made of it, and `hash_package` holds "
    "it",
    "thermostats/tables/model_rows.py:list_own_ids": "whether a folder is the package's",
    "thermostats/tables/plausible.py:_load_shipped": "questions about joined rows, before they are "
    "rows",
    "thermostats/tables/register.py:load_proofs": "what measuring says of a class, and a list",
}
"""What finds a file that ships by itself, without being told of a folder."""


def test_functions_of_tables_and_fits_are_told_where_rows_are() -> None:
    found = set()
    for file, source in sources("thermostats/tables", "thermostats/modelling", "thermostats/plots"):
        ways_there = Ways()
        ways_there.visit(ast.parse(source))
        found |= {
            file if file in OF_THE_PACKAGE else f"{file}:{function}"
            for function in ways_there.shipped
        }
    assert found == set(OF_THE_PACKAGE)


@pytest.mark.parametrize(
    "source",
    [
        "import pandas as pd\nrows = pd.read_csv('data/models.csv')",
        "def read(evidence):\n    return evidence._select('models', {})",
        "def read(tables):\n    return tables._files['models']",
        "def read(evidence):\n    return evidence._folder",
        "from thermostats.tables.store import load",
        "from thermostats.tables import store\nrows = store.load('models')",
        "from thermostats.tables.model_rows import read_own_models",
        "from thermostats.tables.reading import Selection",
        "from thermostats.tables.export import list_sources",
        "from thermostats.tables.model_rows import model_rows\nrows = model_rows('pooled', "
        "data='mine')",
        "from thermostats.tables.model_rows import model_rows\nrows = model_rows()",
        "from thermostats.tables.model_rows import model_rows\nrows = model_rows(POOLED)",
        "import thermostats\nrows = thermostats.features()",
        "import thermostats.tables.store",
        "from thermostats.studies.nursery import load_shipped_table\nrows = "
        "load_shipped_table('design')",
        "import numpy as np\nrows = np.load('rows.npy')",
    ],
)
def test_a_second_way_is_found(source: str) -> None:
    assert ways(source)
