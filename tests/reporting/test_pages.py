from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from workplaces import EVIL, make_workplace, write_analysis

from thermostats.reporting.engine import report

VOID = {"meta", "img", "br", "circle", "path", "rect", "link", "input", "hr"}


class Page(HTMLParser):
    """Tags, attributes and texts of a page; every tag is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open += [tag] * (tag not in VOID)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workplace = make_workplace(tmp_path_factory.mktemp("pages"), draws=True)
    assert report(**workplace, processes=1).ok
    return workplace["out"]


PAGES = ("index.html", "c01/index.html", "c02/index.html")


@pytest.mark.parametrize("name", PAGES)
def test_pages_stand_alone(out: Path, name: str) -> None:
    text = (out / name).read_text(encoding="utf-8")
    page = Page(text)
    links = [value for _, attributes in page.tags for key, value in attributes.items() if key in {"href", "src"}]
    assert not [link for link in links if link and re.match(r"(https?:)?//", link)]
    assert "@import" not in text and "url(" not in text
    assert not [tag for tag, _ in page.tags if tag in {"script", "link", "iframe"}]
    for link in links:
        assert link is not None
        assert link.startswith("#") or ((out / name).parent / link).is_file(), link


@pytest.mark.parametrize("name", PAGES)
def test_pages_can_be_read_aloud(out: Path, name: str) -> None:
    page = Page((out / name).read_text(encoding="utf-8"))
    assert all(attributes.get("alt") for tag, attributes in page.tags if tag == "img")
    assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")
    assert [attributes["lang"] for tag, attributes in page.tags if tag == "html"] == ["en"]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)) and "main" in ids


def test_a_hostile_name_is_shown_as_it_is(out: Path) -> None:
    page = Page((out / "c02" / "index.html").read_text(encoding="utf-8"))
    assert EVIL in page.texts
    assert any("Gains of TII <b>" in text for text in page.texts)
    index = (out / "index.html").read_text(encoding="utf-8")
    assert "<script" not in index and "&lt;script&gt;" in index
    assert "<script" not in (out / "c02" / "figure.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["index.md", "c02/index.md"])
def test_markdown_tables_hold_their_columns(out: Path, name: str) -> None:
    text = (out / name).read_text(encoding="utf-8")
    assert "<script" not in text and "<b>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\|\\`x\\`" in text
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.M)
    assert blocks
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_the_index_tells_each_verdict_and_the_adjusted_p(out: Path) -> None:
    text = (out / "index.md").read_text(encoding="utf-8")
    assert "✔ 2 supported" in text
    rows = [line for line in text.splitlines() if line.startswith("| [C0")]
    assert len(rows) == 2
    assert all("= 0.040" in row for row in rows)  # Holm on 0.02 and 0.03: 2·0.02, then at least that


def test_claims_supported_without_the_adjusted_p_are_named(tmp_path: Path, out: Path) -> None:
    assert "own rule with an adjusted p" not in (out / "index.md").read_text(encoding="utf-8")
    workplace = make_workplace(tmp_path)
    write_analysis(workplace["analyses"], "C02", "TII", p=0.04)
    assert report(**workplace, processes=1).ok
    for name in ("index.md", "index.html"):
        text = (workplace["out"] / name).read_text(encoding="utf-8")
        assert (
            "2 claims are supported by their own rule with an adjusted p above 0.05: C01 (p = 0.060); C02 (p = 0.060)."
            in (text)
        )


def test_a_rule_corrected_after_its_test_is_said_to_be(tmp_path: Path, out: Path) -> None:
    assert "fixed before its test was run" in (out / "c01" / "index.html").read_text(encoding="utf-8")
    assert "A review" not in (out / "index.html").read_text(encoding="utf-8")
    workplace = make_workplace(tmp_path)
    path = write_analysis(workplace["analyses"], "C02", "TII", p=0.02)
    text = path.read_text(encoding="utf-8")
    note = 'notes=("The rule was corrected after a review, because it was wrong.",), estimate=mean'
    path.write_text(text.replace("estimate=mean", note), encoding="utf-8")
    assert report(**workplace, processes=1).ok
    for name in ("c02/index.html", "c02/index.md"):
        assert "corrected after its test was run" in (workplace["out"] / name).read_text(encoding="utf-8")
    for name in ("index.html", "index.md"):
        assert "corrections of the rules of C02" in (workplace["out"] / name).read_text(encoding="utf-8")


def test_the_index_says_what_is_estimated_and_what_the_limit_is(out: Path) -> None:
    for name in ("index.html", "index.md"):
        text = (out / name).read_text(encoding="utf-8")
        assert "More" in text and "mean gain" in text and "no evidence for the claim’s" in text


def test_agreement_is_told_on_the_claim_page(out: Path) -> None:
    text = (out / "c01" / "index.md").read_text(encoding="utf-8")
    assert "| mean | 1 | 1 | yes |" in text
    assert "| p | 0.01 | not recomputed |  |" in text
