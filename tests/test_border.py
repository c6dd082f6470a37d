"""Outside `thermostats/studies` no study is named, nor what one brings."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from thermostats.claims.study import GROUP, load_studies
from thermostats.tables import store
from thermostats.tables.schemas import NURSERY

PACKAGE = Path(__file__).resolve().parents[1] / "thermostats"
INSTRUMENT = sorted(
    path for path in PACKAGE.rglob("*.py") if PACKAGE / "studies" not in path.parents
)
REGISTRY = {"measurement/architectures.py", "measurement/model_row.py", "measurement/gguf_files.py"}
REGISTRY |= {"measurement/same_function.py", "tables/identities.py"}
REGISTRY |= {"measurement/gguf_defaults.py", "measurement/gguf_tokenizers.py"}
"""Where architectures are told apart by the names that transformers gives them."""
EXAMPLES = {
    "cli/app.py",
    "cli/planning.py",
    "measurement/hub.py",
    "modelling/heritage/prediction.py",
}
"""Help and messages that show a model's name as an example."""


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def texts(path: Path) -> tuple[str, ...]:
    """Texts of a module but its docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_bytes())))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in alone)
    return tuple(node.value for node in texts if isinstance(node.value, str))


def names_of_models_and_labs() -> set[str]:
    models = store.load("models")
    ids = set(models["model_id"])
    labs = set(models["heritage"]) - {"", NURSERY}  # the name of a set of evidence too
    return {*ids, *(name.rsplit("/", 1)[-1] for name in ids), *labs}


def test_the_instrument_names_no_module_and_no_file_of_a_study() -> None:
    stems = "|".join(
        {
            re.escape(re.sub(r"_\d{8}_\d{6}", "", Path(file).stem))
            for file in store.load("sources")["file"]
        }
    )
    named = rf"{re.escape(GROUP)}\.|(?<![\w-])({stems})(_\d{{8}}_\d{{6}})?\.(json|csv)"
    found = {
        name_of(path): [text for text in texts(path) if re.search(named, text)]
        for path in INSTRUMENT
    }
    assert {name: words for name, words in found.items() if words} == {}


def test_the_instrument_names_no_model_and_no_lab() -> None:
    names = names_of_models_and_labs()
    word = re.compile(
        rf"(?<![\w/.-])({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})(?![\w/-])"
    )
    held = [path for path in INSTRUMENT if name_of(path) not in REGISTRY | EXAMPLES]
    found = {
        name_of(path): {m[0] for text in texts(path) for m in word.finditer(text)} for path in held
    }
    assert {name: words for name, words in found.items() if words} == {}


def test_neither_the_package_nor_an_analysis_imports_the_training() -> None:
    for path in [*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "analyses").glob("*.py")]:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
        names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        names |= {
            name.name for node in nodes if isinstance(node, ast.Import) for name in node.names
        }
        assert not {name for name in names if name.partition(".")[0] == "nursery"}, path


def test_a_study_can_be_taken_away() -> None:
    """What the instrument knows of a study it knows from the study's registration."""
    for name, study in load_studies().items():
        for path in filter(None, [study.verbs, study.read_table, *study.pages.values()]):
            assert path.startswith((f"{GROUP}.{name}.", f"{GROUP}.{name}:"))
