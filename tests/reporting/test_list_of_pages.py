"""The list of pages about all claims: what it names is there, and no page is there that it
lacks."""

import ast
from pathlib import Path

from thermostats.claims.study import load_named
from thermostats.reporting import pages, state
from thermostats.reporting.pages import PAGES

FOLDER = Path(pages.__file__).parent


def with_files() -> set[str]:
    """Modules of the folder that are pages: those with a function `build_files`."""
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.py")}
    return {
        name
        for name, tree in trees.items()
        if any(
            isinstance(node, ast.FunctionDef) and node.name == "build_files" for node in tree.body
        )
    }


def test_every_page_has_its_module_and_its_template_and_is_listed() -> None:
    of_tables = {name for name, page in PAGES.items() if not page.at_once}
    assert of_tables == with_files()
    assert all(
        callable(load_named(module).build_files) for module in state.list_table_pages().values()
    )
    assert all((FOLDER.parent / "templates" / f"{name}.md").is_file() for name in of_tables)


def test_pages_have_a_title_each_and_the_bundle_that_holds_them_is_last() -> None:
    titles = [page.title for page in PAGES.values()]
    assert all(titles) and len(set(titles)) == len(titles)
    assert [*PAGES][-1] == state.ABOUT[-1] == state.BUNDLE
    assert state.build_navigation(["atlas", "sources"]) == {"atlas.html": PAGES["atlas"].title}
