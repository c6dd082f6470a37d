"""The README's table is the report's, its figure is there, and the commands that CI and users rely on stand in it."""

from __future__ import annotations

import importlib.util
import re

from page_blocks import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_table_is_that_of_the_report() -> None:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    table = generate.verdicts(ROOT / "reports")
    held = [claim for claim in generate.IN_README if (ROOT / "reports" / f"{claim.lower()}.md").is_file()]
    assert table.count("\n| [") == len(held) > 5
    assert generate.BEGIN + table + generate.END in README, "write it anew: make snapshot"


def test_figure_is_one_of_the_report() -> None:
    figures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert [figure.startswith("reports/") and (ROOT / figure).is_file() for figure in figures] == [True]


def test_set_up_commands_stand() -> None:
    assert "\nmake report " in README
    assert "\nmake test " in README
