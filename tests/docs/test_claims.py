"""What the pages say of commands, options, targets and files is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_blocks import PAGES, ROOT
from surface import commands

COMMAND = re.compile(r"(?<![\w.])thermostats((?: [^\s`|>$()\\]+)+)")
NAMES = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
NAMES |= {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md",)}


def said(text: str) -> list[list[str]]:
    """Every use of the command line in a text, in code or in a console block, as words."""
    text = text.replace("\\\n", " ")
    spans = re.findall(r"`(thermostats [^`\n]+)`", text)
    for block in re.findall(r"^```(?:console|sh|bash)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        spans += [line for line in block.splitlines() if COMMAND.search(line) and not line.startswith("#")]
    return [match[1].split() for span in spans for match in COMMAND.finditer(span)]


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_options_exist(name: str) -> None:
    known = commands()
    for words in said(NAMES[name]):
        verb = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in known), None)
        if verb is None:
            groups = {command.split()[0] for command in known}
            alone = {"--version", "--help", "--install-completion", *groups}
            assert words[0] in alone and words[1:] in ([], ["--help"]), f"{name}: thermostats {' '.join(words)}"
            continue
        options = {option for part in known[verb].params for option in part.opts}
        asked = {word.split("=")[0] for word in words if word.startswith("--")}
        assert asked <= options | {"--help"}, f"{name}: thermostats {' '.join(words)}"


def test_the_reader_sees_a_wrong_option() -> None:
    assert said("`thermostats report --nonsense`") == [["report", "--nonsense"]]
    assert said("```console\n$ thermostats ls x | head\n```\n") == [["ls", "x"]]


@pytest.mark.parametrize("name", NAMES)
def test_paths_exist(name: str) -> None:
    paths = re.findall(
        r"`((?:thermostats|analyses|tests|docs|reports|data|benchmarks|notebooks)/[\w./-]*)`", NAMES[name]
    )
    made = ("docs/reference/", "data/private", "data/measured", "reports/index.html", "reports/atlas.html")
    assert not [path for path in paths if not (ROOT / path).exists() and not path.startswith(made)]


@pytest.mark.parametrize("name", NAMES)
def test_make_targets_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set(re.findall(r"(?:^|`|\$ )make ([a-z][\w-]*)", NAMES[name], re.MULTILINE))
    assert used <= targets


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", NAMES[name]) if "://" not in link]
    assert not [link for link in links if link and not (ROOT / link).exists()]


def test_the_extras_named_exist() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra
        for text in NAMES.values()
        for found in re.findall(r"(?:\.|thermostats)\[([\w,]+)\]", text)
        for extra in found.split(",")
    }
    assert named
    assert named <= set(extras)


def test_the_citation_and_the_licence_are_there() -> None:
    assert Path(ROOT / "CITATION.cff").is_file()
    assert Path(ROOT / "LICENSE").is_file()
