from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from workplaces import EVIL, make_workplace, write_analysis, write_fitted

from thermostats.reporting.report import report

VOID = {"meta", "img", "br", "circle", "path", "rect", "link", "input", "hr", "use"}


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
    write_fitted(workplace["analyses"], "C03", "TII")
    write_fitted(workplace["analyses"], "C04", "TII", classical="inconclusive")
    write_fitted(workplace["analyses"], "C05", "Meta", sampler="failed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOSTATS_CACHE", "off")
        assert report(**workplace, processes=1).ok
    return workplace["out"]


ALONE = (
    "index.html",
    "c01/index.html",
    "c02/index.html",
    "c03/index.html",
    "methods.html",
    "data.html",
    "figures.html",
)
PAGES = (*ALONE, "thermostats-report.html")


@pytest.mark.parametrize("name", PAGES)
def test_pages_stand_alone(out: Path, name: str) -> None:
    text = re.sub(r'srcdoc="[^"]*"', "", (out / name).read_text(encoding="utf-8"))
    page = Page(text)
    links = [value or "" for _, attributes in page.tags for key, value in attributes.items() if key in {"href", "src"}]
    assert not [link for link in links if re.match(r"(https?:)?//|javascript:", link)]
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    assert not [tag for tag, attributes in page.tags if tag in {"link", "img"} or "src" in attributes]
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    for _, attributes in page.tags:
        for key in ("href", "xlink:href"):
            link = attributes.get(key) or "#" + next(iter(ids))
            path, _, fragment = link.partition("#")
            beside = (out / name).parent.joinpath(path)
            assert fragment in ids if not path else link.startswith("data:text/csv") or beside.is_file(), link
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= ids


@pytest.mark.parametrize("name", PAGES)
def test_pages_can_be_read_aloud(out: Path, name: str) -> None:
    page = Page((out / name).read_text(encoding="utf-8"))
    figures = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("class") != "icon"]
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in figures)
    assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")
    assert [attributes["lang"] for tag, attributes in page.tags if tag == "html"] == ["en"]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len([tag for tag, _ in page.tags if tag == "main"]) == 1
    regions = [attributes["aria-label"] for _, attributes in page.tags if attributes.get("role") == "region"]
    assert len(regions) == len(set(regions))


@pytest.mark.parametrize("name", ALONE)
def test_every_shape_that_a_figure_uses_is_defined_once(out: Path, name: str) -> None:
    text = (out / name).read_text(encoding="utf-8")
    used = set(re.findall(r'<use [^>]*href="#([^"]+)"', text))
    defined = re.findall(r'<(?:path|g|symbol) id="([^"]+)"', text)
    assert used <= set(defined)
    assert len(defined) == len(set(defined))


@pytest.mark.parametrize("name", ALONE)
def test_a_page_runs_no_script_but_its_own(out: Path, name: str) -> None:
    text = (out / name).read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    allowed = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.search(r"script-src ([^;]*);", policy)[1] == (" ".join(f"'sha256-{a}'" for a in allowed) or "'none'")
    assert "default-src 'none'" in policy


def test_a_hostile_name_is_shown_as_it_is(out: Path) -> None:
    page = Page((out / "c02" / "index.html").read_text(encoding="utf-8"))
    assert EVIL in page.texts
    assert any("Gains of TII <b>" in text for text in page.texts)
    for name in PAGES:
        text = (out / name).read_text(encoding="utf-8")
        assert "<script>alert" not in text and "<b>|" not in text
        assert sum(tag == "script" for tag, _ in Page(text).tags) == (name in {"index.html", "thermostats-report.html"})
    assert "&lt;script&gt;" in (out / "index.html").read_text(encoding="utf-8")
    assert "<script" not in (out / "c02" / "figure.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["index.md", "c02/index.md", "c03/index.md"])
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
    assert "✔ 3 supported" in text and "◐ 2 inconclusive" in text
    rows = [line for line in text.splitlines() if line.startswith("| [C0")]
    assert len(rows) == 5
    assert all("= 0.040" in row for row in rows[:2])  # Holm on 0.02 and 0.03: 2·0.02, then at least that


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
        assert "Most claims rest on few" in text and "mean gain" in text and "no evidence for the claim’s" in text


def test_agreement_is_told_on_the_claim_page(out: Path) -> None:
    text = (out / "c01" / "index.md").read_text(encoding="utf-8")
    assert "| mean | 1 | 1 | yes |" in text
    assert "| p | 0.01 | not recomputed |  |" in text


def test_three_sentences_on_top_are_counted(out: Path) -> None:
    text = (out / "index.md").read_text(encoding="utf-8")
    assert "Of 5 claims put to the test, 3 came out as supported and 2 as inconclusive." in text
    assert "Of these, 3 rest on a fitted model and a classical test" in text
    assert "in 1 they differ, in 1 a check of the fit failed" in text


@pytest.mark.parametrize("name", ["c03/index.html", "c03/index.md"])
def test_a_fitted_model_is_reported_by_the_checklist(out: Path, name: str) -> None:
    text = (out / name).read_text(encoding="utf-8")
    headings = (
        "Data",
        "Model",
        "Priors",
        "Computation and diagnostics",
        "Posterior",
        "Predictive checks",
        "Sensitivity",
        "Further results",
        "Warnings",
    )
    pattern = r"^### (.*)$" if name.endswith(".md") else r"<h3[^>]*>([^<]*)</h3>"
    found = [heading for heading in re.findall(pattern, text, re.M) if heading in headings]
    assert found == list(headings)
    expected = (
        "94 % equal-tailed interval",
        "MC error of the mean",
        "Monte-Carlo error 0.0030",
        "Seed 3",
        "pymc 5.28.0",
        "1 model and 1 lab",
        "Both come to the same: supported",
        "at most 1.01",
        "at least 400",
        "left empty where Pareto k is above 0.7",
    )
    assert not [said for said in expected if said not in text]
    for table in ("summary", "diagnostics", "priors", "checks", "sensitivity", "labs", "influence"):
        assert (out / "c03" / f"posterior-{table}.csv").is_file()
    assert not (out / "c03" / "posterior-loo-pit.csv").is_file()
    assert (out / "c03" / "posterior-prior-to-posterior.svg").is_file()


def test_verdicts_that_differ_and_a_gate_that_is_closed_are_told(out: Path) -> None:
    assert "The two do not agree, so that the claim is inconclusive." in (out / "c04" / "index.md").read_text("utf-8")
    closed = (out / "c05" / "index.md").read_text("utf-8")
    assert "By its rule alone the posterior says “supported”, but a check of the fit failed" in closed
    assert closed.startswith("# C05") and "**◐ inconclusive.**" in closed


def test_the_bundle_holds_every_page_and_leads_within_itself(out: Path) -> None:
    text = (out / "thermostats-report.html").read_text(encoding="utf-8")
    page = Page(text)
    articles = [attributes["id"] for tag, attributes in page.tags if tag == "article"]
    assert articles == ["index", "c01", "c02", "c03", "c04", "c05", "figures", "atlas", "methods", "data"]
    assert 'href="#c03"' in text and "data:text/csv" in text
    assert len(text) < 15_000_000


def test_the_numbers_of_the_methods_page_are_those_of_the_code(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thermostats.modelling.inference import draws
    from thermostats.reporting.pages import methods

    assert f"at most {draws.RHAT_LIMIT:g} (Vehtari" in (out / "methods.md").read_text(encoding="utf-8")
    monkeypatch.setattr(draws, "ESS_LIMIT", 123.0)
    assert "at least 123" in methods.methods_text()


def test_the_data_page_lists_every_column_and_file(out: Path) -> None:
    from thermostats.tables.schemas import TABLES

    text = (out / "data.html").read_text(encoding="utf-8")
    for name, schema in TABLES.items():
        assert f'id="data-codebook-{name}"' in text
        assert all(f">{label}</td>" in text for label in schema.columns)
    digest = hashlib.sha256((out.parent / "data" / "models.csv").read_bytes()).hexdigest()
    assert digest in text and 'href="../data/models.csv"' in text
