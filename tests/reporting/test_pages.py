from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from workplaces import EVIL, make_workplace, report_of_five, write_analysis

from thermostats.claims.claim import Audit, Claim
from thermostats.claims.finding import Drawing, Finding, from_columns
from thermostats.claims.stored import Made
from thermostats.formatting import comparison
from thermostats.reporting import render as rendered
from thermostats.reporting.pages.claim import claim_files, compared_figures
from thermostats.reporting.render import html
from thermostats.reporting.report import report
from thermostats.reporting.state import pages_of_tables

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
    return report_of_five(tmp_path_factory.mktemp("pages"))["out"]


ABOUT = ("index.html", "means.html", "methods.html", "data.html")
ALONE = (*(f"{claim}/index.html" for claim in ("c01", "c02", "c03")), *ABOUT)
PAGES = (*ALONE, "figures.html", "thermostats-report.html")
INDEX = ("index.html", "index.md")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_pages_stand_alone(out: Path, name: str) -> None:
    text = re.sub(r'srcdoc="[^"]*"', "", read(out / name))
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
    page = Page(read(out / name))
    figures = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("class") != "icon"]
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in figures)
    assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")
    assert [attributes["lang"] for tag, attributes in page.tags if tag == "html"] == ["en"]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len([tag for tag, _ in page.tags if tag == "main"]) == 1
    regions = [attributes["aria-label"] for _, attributes in page.tags if attributes.get("role") == "region"]
    assert len(regions) == len(set(regions))


@pytest.mark.parametrize("name", [*ALONE, "figures.html"])
def test_a_page_defines_each_shape_once_and_runs_no_script_but_its_own(out: Path, name: str) -> None:
    text = read(out / name)
    used = set(re.findall(r'<use [^>]*href="#([^"]+)"', text))
    defined = re.findall(r'<(?:path|g|symbol) id="([^"]+)"', text)
    assert used <= set(defined) and len(defined) == len(set(defined))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    allowed = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.search(r"script-src ([^;]*);", policy)[1] == (" ".join(f"'sha256-{a}'" for a in allowed) or "'none'")
    assert "default-src 'none'" in policy


def test_a_hostile_name_is_shown_as_it_is(out: Path) -> None:
    page = Page(read(out / "c02" / "index.html"))
    assert EVIL in page.texts
    assert any("Gains of TII <b>" in text for text in page.texts)
    for name in PAGES:
        text = read(out / name)
        assert "<script>alert" not in text and "<b>|" not in text
        assert sum(tag == "script" for tag, _ in Page(text).tags) == (name in {"index.html", "thermostats-report.html"})
    assert "&lt;script&gt;" in read(out / "index.html")
    assert "<script" not in read(out / "c02" / "figure.svg")


@pytest.mark.parametrize("name", ["index.md", "c02/index.md", "c03/index.md"])
def test_markdown_tables_hold_their_columns(out: Path, name: str) -> None:
    text = read(out / name)
    assert "<script" not in text and "<b>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\|\\`x\\`" in text
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.M)
    assert blocks
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_the_index_counts_verdicts(out: Path) -> None:
    text = read(out / "index.md")
    assert "✔ 3 supported" in text and "◐ 2 inconclusive" in text
    rows = [line for line in text.splitlines() if line.startswith("| [C0")]
    assert len(rows) == 5
    assert "Of 5 claims put to the test, 3 came out as supported and 2 as inconclusive." in text
    assert "3 have a fitted model as well as a test: in 1 the two differ, in 1 a check of the fit failed" in text
    assert "have changed since" not in text and "simulated worlds" not in text
    for name in INDEX:
        said = read(out / name)
        assert "Most claims rest on few" in said and "mean gain" in said and "no evidence for the claim’s" in said


def test_what_a_reader_must_know_of_a_verdict_is_said(tmp_path: Path, out: Path) -> None:
    """How its rule changed, why it is open, and what it could have shown."""
    assert "fixed before its test was run" in read(out / "c01" / "index.html")
    workplace = make_workplace(tmp_path)
    path = write_analysis(workplace["analyses"], "C02", "TII", p=0.04)
    changed = (
        ('"rule", "figure 1"', '"rule", "figure 1", history=("Before, it was wrong.",)'),
        (
            '"supported", plain',
            '"inconclusive", plain, reason="too little data",'
            'criterion=Criterion(could="It was tried.", worlds=1, rates=WORLDS)',
        ),
        ("CLAIM =", WORLDS + "CLAIM ="),
    )
    for old, new in changed:
        path.write_text(read(path).replace(old, new, 1), encoding="utf-8")
    assert report(**workplace, processes=1).ok
    for name in INDEX:
        index, page = read(workplace["out"] / name), read(workplace["out"] / "c02" / name)
        assert "rules of C02 have changed" in index and "inconclusive (too little data)" in index
        assert "rules of 1 finding were tried in simulated worlds" in index and "at most about 0.1 of" in index
        assert "changed after its test was first run" in page and "Before, it was wrong." in page
        assert "inconclusive (too little data)" in page and "It was tried." in page and "no effect at all" in page
    assert (workplace["out"] / "c02" / "worlds.csv").is_file()


WORLDS = """
import pandas as pd
WORLDS = pd.DataFrame(
    {"words": ["no effect at all"], "holds": [False], "simulations": [60], "supported": [0.02], "not_supported": [0.3]}
).assign(declared=False, n_models=3)
"""


CLAIM = Claim(
    id="C01",
    title="A claim",
    statement="So.",
    estimand="mean",
    rule="Above 0.",
    source="here",
    settles={"hangs on one unit": "More labs.", "not supported": "Another rule."},
)


MADE_OF = {"inputs": "0", "script": "1", "package": "2", "selections": 1, "machine": {"python": "3"}}


def files_of(*findings: Finding, drawn: dict[int, bytes] | None = None) -> dict[str, bytes]:
    """Files of a claim with these findings, some of which are drawn."""
    made = [Made(one, (drawn or {}).get(number, b""), (), {}) for number, one in enumerate(findings, 1)]
    return claim_files(CLAIM, made, "c01.py", MADE_OF)


def made_by_hand(
    figures: int, wrong: int, *rules: str, rates: pd.DataFrame | None = None, **fields: object
) -> tuple[str, str]:
    """A claim's page, HTML and Markdown, with so many published figures and a finding a rule."""
    published = {f"figure {i}": 1.0 for i in range(figures)}
    reproduced = {name: 2.0 if i < wrong else 1.0 for i, name in enumerate(published)}
    found: dict[str, Any] = {"verdict": "supported", "plain": "It is.", "n_models": 3, "n_heritages": 2, **fields}
    first, *others = [
        from_columns({"id": f"C01.{i}", "estimand": f"mean {i}", "rule": rule, "estimate": None, **found})
        for i, rule in enumerate(rules or ("",))
    ]
    criterion = replace(first.criterion, rates=rates)
    first = replace(first, audit=Audit(published, reproduced), criterion=criterion)
    made = files_of(first, *others)
    text = made["c01/index.md"].decode()
    return html(rendered.Page("c01/index.html", text), made.__getitem__, pages={}, bundled=False).decode(), text


@pytest.mark.parametrize(
    ("reason", "settles", "shown"),
    [
        ("undecided", "", "More models may; how many is not known."),
        ("undecided", "The rule says it falsely.", "The rule says it falsely."),
        ("too little data", "88 models would do.", "88 models would do."),
        ("hangs on one unit", "Without Meta it falls.", "Without Meta it falls. More labs."),
    ],
)
def test_what_would_settle_it_claims_no_more_than_was_computed(reason: str, settles: str, shown: str) -> None:
    _, text = made_by_hand(0, 0, verdict="inconclusive", reason=reason, settles=settles)
    (line,) = (line for line in text.splitlines() if "What would settle it." in line)
    said = line.removeprefix("- **What would settle it.** ")
    assert said == shown


@pytest.mark.parametrize(
    ("power", "wanted", "shown"),
    [
        (
            0.5475,
            96.0,
            "96 models of 32 labs would find an effect of the declared size in 80% of simulations. A study of",
        ),
        (0.99, 3.0, "declared size in 99% of simulations. The effect may be smaller than that, in which case more"),
    ],
)
def test_what_would_settle_it_names_the_models_needed_where_they_were_computed(
    power: float, wanted: float, shown: str
) -> None:
    row = {"words": "as claimed", "holds": True, "simulations": 400, "supported": power, "not_supported": 0.0}
    rates = pd.DataFrame([row | {"declared": True, "n_models": 3, "models_wanted": wanted, "groups_wanted": 32.0}])
    _, text = made_by_hand(0, 0, verdict="inconclusive", reason="undecided", rates=rates)
    assert shown in text


@pytest.mark.parametrize(
    ("verdict", "bar", "shown"),
    [
        ("supported", {"above": 0.5}, "an interval below 0.5, instead of 0.70 [0.60, 0.80], would"),
        ("not supported", {"above": 0.5}, "Another rule."),
        ("supported", {"below": 0.0}, "an interval above 0, instead of 0.70 [0.60, 0.80], would"),
        ("supported", {"above": 0.0, "below": 1.0}, "lead it to the opposite verdict"),
    ],
)
def test_what_would_reopen_a_decision_is_said_by_its_number(verdict: str, bar: dict[str, float], shown: str) -> None:
    _, text = made_by_hand(0, 0, verdict=verdict, estimate=0.7, lower=0.6, upper=0.8, **bar)
    assert shown in text.replace("\\", "")


def test_published_figures_of_equal_names_say_which_finding_they_belong_to() -> None:
    values = ({"mean": 1.0, "p": 0.5}, {"mean": 2.0, "p": 0.5})
    views = [{"number": n, "compared": comparison(figures, {})} for n, figures in enumerate(values, 1)]
    assert [row.name for row in compared_figures(views)] == ["mean, finding 1", "p", "mean, finding 2"]


@pytest.mark.parametrize(("figures", "wrong", "open_rows"), [(12, 2, 12), (13, 2, 2), (13, 0, 0)])
def test_long_comparisons_show_what_does_not_agree_and_fold_the_rest(figures: int, wrong: int, open_rows: int) -> None:
    page, _ = made_by_hand(figures, wrong)
    shown = page.partition("<details")[0]
    assert len(re.findall(r"<td>figure \d+", shown)) == open_rows
    assert len(set(re.findall(r"<td>(figure \d+)", page))) == figures
    assert (f"{figures - wrong} of {figures} figures agree" in page) is (figures > 12)


def test_groups_have_their_name() -> None:
    assert all("3 models of 2 labs" in page for page in made_by_hand(1, 0))
    assert all("3 models of 2 recipes" in page for page in made_by_hand(1, 0, group="recipe"))


@pytest.mark.parametrize("name", ["c03/index.html", "c01/index.html"])
def test_a_claim_answers_before_its_details_which_are_all_folded(out: Path, name: str) -> None:
    text = read(out / name)
    head, _, details = text.partition(f'id="{name[:3]}-details"')
    said = [head.index(part) for part in ('class="verdict', "Claimed.", "Found.", "What would settle it.", ">Why</h2>")]
    assert said == sorted(said)
    assert head.index("<figure>") < said[1] or name.startswith("c03")
    assert "<details" not in head.partition("Published figures</h2>")[0]
    after = details.partition("</h2>")[2]
    assert after.lstrip().startswith("<details") and not re.search(r"<h[3-6]", after)
    targets = re.findall(r'<a href="#([^"]+)">(?:Why|Robustness|Published figures|Details)</a>', head)
    assert len(targets) >= 3 and all(f'id="{target}"' in text for target in targets)


def test_a_caption_stands_once_below_its_figure(out: Path) -> None:
    page = Page(read(out / "c01" / "index.html"))
    assert [said for said in page.texts if said == "Mean gain over layers."] == ["Mean gain over layers."]


def test_the_first_figure_there_is_heads_the_page() -> None:
    found = [
        Finding(f"C01.{i}", f"mean {i}", "supported", "It is.", figure=Drawing(caption=f"Figure of {i}."))
        for i in range(3)
    ]
    made = files_of(*found, drawn={2: b"<svg/>", 3: b"<svg/>"})
    text = made["c01/index.md"].decode()
    assert text.index("](figure.svg)") < text.index("Claimed.") < text.index("](figure-3.svg)")
    assert text.count("![Figure of 1.]") == text.count("![Figure of 2.]") == 1 and "c01/figure-2.svg" not in made


def test_a_rule_is_short_its_exact_form_folded_and_its_changes_marked_beside_the_verdict() -> None:
    page, text = made_by_hand(1, 0, "above 0 exactly", rule_in_short="Supported where above 0.")
    assert "**Decision rule.** Supported where above 0.\n" in text
    assert re.search(r"<details[^>]*><summary>The exact rule</summary>\s*<p>Above 0 exactly\.</p>", page)
    assert "Rule fixed before its test was run" in text and "rule changed" not in text
    changed = replace(CLAIM, history=("It was above 1.",))
    made = claim_files(
        changed, [Made(Finding("C01.mean", "mean", "supported", "It is."), b"", (), {})], "c01.py", MADE_OF
    )
    assert ".** ([rule changed](#history)) It is." in made["c01/index.md"].decode()


def test_a_rule_stands_once_whatever_number_of_findings_it_decides() -> None:
    page, text = made_by_hand(0, 0, "above a", "above b", "above a")
    assert text.count("Above a") == text.count("Above b") == 1
    assert "That of finding 1." in text and "Finding 3: mean 2: supported</summary>" in page
    assert ".** Above 0." in made_by_hand(0, 0)[1]


@pytest.mark.parametrize(
    ("written", "set_as"),
    [
        ("ȳ_i ~ N(m_i, 1)", "<i>y\u0304</i><sub>i</sub> ~ <i>N</i>(<i>m</i><sub>i</sub>, 1)"),
        ("f_i,heritage", "<i>f</i><sub>i, <span>heritage</span></sub>"),
        ("log_gain_i = b_1 z_1i", "log gain<sub>i</sub> = <i>b</i><sub>1</sub> <i>z</i><sub>1i</sub>"),
        ("log_d_h > 0, mean of it", "log <i>d</i><sub>h</sub> &gt; 0, mean of it"),
    ],
)
def test_equations_are_set(written: str, set_as: str) -> None:
    assert rendered.equation(written) == set_as


def test_agreement_is_shown_on_the_claim_page(out: Path) -> None:
    text = read(out / "c01" / "index.md")
    assert "| mean | 1 | 1 | yes |" in text
    assert "| p | 0.01 | not recomputed |  |" in text


@pytest.mark.parametrize("name", ["c03/index.html", "c03/index.md"])
def test_a_fitted_model_is_reported_by_the_checklist(out: Path, name: str) -> None:
    text = read(out / name)
    headings = ("Model and data", "Priors", "Diagnostics", "Posterior of", "5 checks", "Sensitivity", "1 further table")
    pattern = r"^#### (.*)$" if name.endswith(".md") else r"<summary>([^<]*)</summary>"
    found = [word for heading in re.findall(pattern, text, re.M) for word in headings if heading.startswith(word)]
    assert found == list(headings)
    expected = (
        "94% equal-tailed interval",
        "MC error of the mean",
        "Monte-Carlo error 0.0030",
        "Seed 3",
        "pymc 5.28.0",
        "1 model and 1 lab",
        "Both give “supported”",
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
    assert "The two differ. The test is the primary analysis" in read(out / "c04" / "index.md")
    closed = read(out / "c05" / "index.md")
    assert "By its rule alone the posterior gives “supported”, but a check of the fit failed" in closed
    assert closed.startswith("# C05") and "**◐ inconclusive.**" in closed


def test_the_bundle_holds_every_page_and_leads_within_itself(out: Path) -> None:
    text = read(out / "thermostats-report.html")
    page = Page(text)
    articles = [attributes["id"] for tag, attributes in page.tags if tag == "article"]
    claims, pages = ["c01", "c02", "c03", "c04", "c05"], [*pages_of_tables(), "methods", "data"]
    assert articles == ["index", "means", *claims, *pages]
    assert 'href="#c03"' in text and "data:text/csv" in text
    assert len(text) < 15_000_000


def test_the_numbers_of_the_methods_page_are_those_of_the_code(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thermostats.modelling import draws
    from thermostats.reporting.pages import methods

    assert f"above {draws.RHAT_LIMIT:g} for a quantity that the statement reads (Vehtari" in read(out / "methods.md")
    monkeypatch.setattr(draws, "ESS_LIMIT", 123.0)
    assert "below 123" in methods.methods_text()


def test_the_data_page_lists_every_column_and_file(out: Path) -> None:
    from thermostats.tables.schemas import TABLES

    text = read(out / "data.html")
    for name, schema in TABLES.items():
        assert f'id="data-codebook-{name}"' in text
        assert all(f">{label}</td>" in text for label in schema.columns)
    digest = hashlib.sha256((out.parent / "data" / "models.csv").read_bytes()).hexdigest()
    assert digest in text and 'href="../data/models.csv"' in text


def test_another_verdict_on_another_set_is_announced_and_one_by_p_alone_explained() -> None:
    same: dict[str, Any] = {"estimand": "mean", "plain": "It is.", "id": "C01.mean", "below": 0.0}
    own = from_columns({**same, "estimate": None, "verdict": "inconclusive", "evidence": "published"})
    view = {**same, "view_of": "published", "estimate": -0.3, "lower": -0.6, "upper": 0.1, "interval": "95% t interval"}
    by_p = {"probability": 0.03, "probability_kind": "p-value", "n_models": 9, "n_heritages": 2}
    pooled = from_columns({**view, **by_p, "verdict": "supported", "evidence": "pooled"})
    text = files_of(own, pooled)["c01/index.md"].decode()
    assert "**On other evidence.** ✔ supported on the set pooled (9 models of 2 labs)." in text
    assert "On pooled a verdict is decided although its interval contains the number" in text
    assert "this one look would be falsely supported in at most about 5% of cases" in text
    alone = files_of(own)["c01/index.md"].decode()
    assert "On other evidence" not in alone and "By chance alone" not in alone
