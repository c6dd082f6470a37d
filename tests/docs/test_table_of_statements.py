"""The account of the study's statements: every place exists, all five documents are covered, no
sentence is theirs."""

import re

import pytest
from page_blocks import ROOT

from thermostats.claims.study import list_scripts
from thermostats.tables import store
from thermostats.tables.folders import find_shipped

PAGE = ROOT / "docs" / "explanation" / "statements.md"
SOURCES = ROOT.parent / "shared" / "paper"
ROWS = [
    line.strip("| ").split(" | ")
    for line in PAGE.read_text("utf-8").splitlines()
    if re.match(r"\| \d", line)
]
PLACES = [(number, place) for number, _, answered in ROWS for place in answered.split("; ")]
NUMBER = re.compile(r"([0-4])\.(\d+)")
SAME = 7
"""Words in a row that would be a quotation."""


def has_section(claim: str, finding: str) -> bool:
    """Whether a claim's words have a section of findings of this name; true where none is named."""
    script = list_scripts(find_shipped("analyses"))[claim]
    words = script.with_suffix(".md").read_text("utf-8")
    return not finding or f"\n## {finding}\n" in words


def test_every_place_that_is_named_exists() -> None:
    claims, rows = (
        set(list_scripts(find_shipped("analyses"))),
        set(store.load("inconsistencies")["inconsistency_id"]),
    )
    missing = []
    for number, place in PLACES:
        kind, _, name = place.partition(": ")
        if kind == "`inconsistencies`":
            there = name in rows
        elif kind == "not asked":
            there = bool(name)
        else:
            claim, _, finding = place.partition(".")
            if re.fullmatch(r"[A-Z]\d\d", claim):
                there = claim in claims and has_section(claim, finding)
            else:
                there = (ROOT / place.strip("`")).is_file()
        missing += [] if there else [(number, place)]
    assert missing == []


def test_all_documents_and_all_claims_of_the_study_are_in_it() -> None:
    numbers = [NUMBER.fullmatch(number) for row in ROWS for number in row[0].split(", ")]
    assert all(numbers) and {match[1] for match in numbers if match} == set("01234")
    assert len(ROWS) == len({row[1] for row in ROWS}) > 50
    named = {place for _, place in PLACES}
    of_study = {name for name in list_scripts(find_shipped("analyses")) if name.startswith("C")}
    assert of_study - named == set()


def test_lines_are_lines_of_the_documents_and_no_words_are_theirs() -> None:
    if not SOURCES.is_dir():
        pytest.skip("the five documents are not beside the checkout")
    texts = [path.read_text("utf-8").splitlines() for path in sorted(SOURCES.glob("*.txt"))]
    for number in (each for row in ROWS for each in row[0].split(", ")):
        document, line = map(int, number.split("."))
        assert len(texts[document]) >= line and texts[document][line - 1].strip(), number
    theirs = {words for text in texts for words in _in_a_row(" ".join(text))}
    assert [words for row in ROWS for words in _in_a_row(row[1]) if words in theirs] == []


def _in_a_row(text: str) -> set[str]:
    words = re.findall(r"[\w’'/.]+", text.lower())
    return {" ".join(words[at : at + SAME]) for at in range(len(words) - SAME + 1)}
