"""What the pages say of commands, options, targets and files is true."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from page_blocks import PAGES, ROOT, blocks, loaded
from surface import commands

from thermostats.claims.evidence import ROWS
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts, load_studies
from thermostats.tables.folders import find_shipped
from thermostats.tables.schemas import GAINS

COMMAND = re.compile(r"(?<![\w.])thermostats((?: [^\s`|>$()\\]+)+)")
NAMES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
NAMES["CHANGELOG.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
DEEP = ("thermostats", "data")
"""Folders whose own folders the tree in CONTRIBUTING shows too."""


def said(text: str) -> list[list[str]]:
    """Every use of the command line in a text, in code or in a console block, as words."""
    text = text.replace("\\\n", " ")
    spans = re.findall(r"`(thermostats [^`\n]+)`", text)
    for block in re.findall(r"^```(?:console|sh|bash)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        spans += [
            line for line in block.splitlines() if COMMAND.search(line) and not line.startswith("#")
        ]
    return [match[1].split() for span in spans for match in COMMAND.finditer(span)]


def exists(words: list[str], verbs: dict[str, Any]) -> bool:
    """Whether a use of the command line names a command that there is, with options that it has."""
    verb = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in verbs), None)
    if verb is None:
        groups = {name.split()[0] for name in verbs}
        return words[0] in {"--version", "--help", "--install-completion", *groups} and words[
            1:
        ] in ([], ["--help"])
    options = {option for part in verbs[verb].params for option in part.opts}
    return {word.split("=")[0] for word in words if word.startswith("--")} <= options | {"--help"}


def test_commands_and_options_exist() -> None:
    verbs = commands()
    uses = [(name, words) for name, text in NAMES.items() for words in said(text)]
    assert len(uses) > 100
    assert [
        f"{name}: thermostats {' '.join(words)}" for name, words in uses if not exists(words, verbs)
    ] == []


def test_paths_exist() -> None:
    named = re.compile(
        r"`((?:thermostats|analyses|tests|docs|reports|data|benchmarks|notebooks)/[\w./-]*)`"
    )
    made = (
        "docs/reference/",
        "data/private",
        "data/measured",
        "reports/index.html",
        "reports/atlas.html",
        "reports/c03-",
    )
    paths = [(name, path) for name, text in NAMES.items() for path in named.findall(text)]
    assert len(paths) > 100
    assert [
        (name, path)
        for name, path in paths
        if not (ROOT / path).exists() and not path.startswith(made)
    ] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.compile(r"(?:^|`|\$ )make ([a-z][\w-]*)", re.MULTILINE)
    used = {(name, target) for name, text in NAMES.items() for target in named.findall(text)}
    assert {(name, target) for name, target in used if target not in targets} == set()


def test_the_extras_named_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    found = re.findall(r"(?:\.|thermostats)\[([\w,]+)\]", "".join(NAMES.values()))
    named = {extra for several in found for extra in several.split(",")}
    assert named and named <= set(extras)


def test_the_table_of_models_is_as_made_from_the_code() -> None:
    page = (ROOT / "docs" / "reference" / "models.md").read_text(encoding="utf-8")
    assert page == loaded("docs/generate.py").models(), (
        "write it anew: python docs/generate.py --snapshot"
    )


def test_the_readme_has_the_report_s_table_and_figure_and_how_to_begin() -> None:
    readme = NAMES["README.md"]
    generate = loaded("docs/generate.py")
    table = generate.verdicts(ROOT / "reports" / "snapshot")
    held = [
        claim
        for claim in generate.IN_README
        if (ROOT / "reports" / "snapshot" / f"{claim.lower()}.md").is_file()
    ]
    assert table.count("\n| [") == len(held) > 5
    assert generate.BEGIN + table + generate.END in readme, "write it anew: make snapshot"
    figures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", readme)
    assert [(figure, (ROOT / figure).is_file()) for figure in figures] == [
        ("docs/profile.svg", True)
    ]
    assert "\nmake report " in readme and "\nmake test " in readme
    assert (ROOT / "CITATION.cff").is_file() and (ROOT / "LICENSE").is_file()


def test_the_tree_in_contributing_is_that_of_the_project() -> None:
    block = re.search(
        r"^```text\n(thermostats/ .*?)^```$", NAMES["CONTRIBUTING.md"], re.MULTILINE | re.DOTALL
    )
    assert block, "CONTRIBUTING.md has no tree"
    parents: list[str] = []
    shown = set()
    for line in block[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        parents = [*parents[:depth], line.split()[0]]
        shown.add("".join(parents))
    assert len(shown) > 15
    for path in shown:
        assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file(), path
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git knows which folders belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout
    folders = set()
    for path in map(PurePosixPath, listed.split("\0")[:-1]):
        parts = path.parent.parts
        for depth in range(1, 3 if parts[:1] and parts[0] in DEEP else 2):
            if len(parts) >= depth and not parts[0].startswith("."):
                folders.add("/".join(parts[:depth]) + "/")
    assert folders <= shown


def test_the_readme_defines_every_gain_before_its_example() -> None:
    before = NAMES["README.md"].split("## Ten lines")[1].split("```python")[0]
    assert [name for name in GAINS if f"`{name}`" not in before] == []


def test_what_contributing_names_stands_in_the_files_that_it_names() -> None:
    """Constants of a step are in a Python file of that step."""
    part = (
        NAMES["CONTRIBUTING.md"].split("## Where new code goes")[1].split("### A claim, whole")[0]
    )
    steps = re.split(r"\n(?=\d\. )", part)
    named = 0
    for step in steps:
        files = [
            ROOT / path
            for path in re.findall(r"`((?:thermostats|tests|scripts)/[\w/.]+\.py)`", step)
        ]
        for name in re.findall(r"`(_?[A-Z][A-Z_]{2,})`", step):
            assert name == "NAME" or any(
                name in file.read_text(encoding="utf-8") for file in files
            ), (name, step)
            named += 1
    assert named > 10


def test_files_that_pages_for_contributors_name_are_there() -> None:
    """Whole names, and names of files alone; what a contributor or a contribution brings is not
    there yet."""
    files = [
        "/" + path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*")
        if path.suffix and ".venv" not in path.parts
    ]
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        said = set(re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|md|csv|json|toml))`", NAMES[page]))
        own = {name for name in said if re.search(r"c24|u01|NAME|CHECKS", name)}
        assert len(said - own) > 20
        said |= set(re.findall(r"`((?:[\w.-]+/)+)`", NAMES[page]))
        assert [
            name
            for name in said - own
            if not any(
                f"/{name}" in path if name.endswith("/") else path.endswith(f"/{name}")
                for path in files
            )
        ] == []


def test_contributing_says_whose_every_letter_is() -> None:
    part = NAMES["CONTRIBUTING.md"].split("**A claim.**")[1].split("\n\n")[0]
    for study in load_studies().values():
        if study.letter:
            home = next(home for home in (study.name, "further.py") if f"studies/{home}" in part)
            assert re.search(rf"\b{study.letter}\b[^;:()]*\(`[\w/]*{re.escape(home)}", part), (
                study.letter
            )
    assert {name[0] for name in list_scripts(find_shipped("analyses"))} == {
        s.letter for s in load_studies().values() if s.letter
    }


def test_the_claim_in_contributing_has_all_that_its_steps_ask_for(tmp_path: Path) -> None:
    for block in blocks(NAMES["CONTRIBUTING.md"]):
        if block.note.startswith("file: "):
            (tmp_path / PurePosixPath(block.note.removeprefix("file: ")).name).write_text(
                block.code, encoding="utf-8"
            )
    claim = load_claim(next(tmp_path.glob("*.py")))
    (question,) = claim.questions
    assert (
        claim.basis.rows in ROWS
        and claim.words is not None
        and claim.words.facts["needs"] == "8 models"
    )
    assert {*claim.meanings.answers} == {"supported", "not supported", "inconclusive"}
    assert question.views is not None and question.views.models == 8 and question.trial is not None
    assert question.trial.worlds is not None and set(question.trial.worlds.box) == {
        "ar",
        "ratio",
        "between",
    }


def test_the_eight_files_of_a_verdict_are_there() -> None:
    page = NAMES["ARCHITECTURE.md"]
    part = page.split("read these eight files in order.")[1].split("`claims/claim.py` holds")[0]
    files = re.findall(r"^\d\. `([\w/.]+)`", part, re.MULTILINE)
    assert len(files) == 8
    assert all((ROOT / name).is_file() for name in files)
