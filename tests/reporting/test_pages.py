from __future__ import annotations

import base64
import hashlib
import html as html_text
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from workplaces import EVIL, make_workplace, write_analysis

from thermostats.claims.calibration import load_levels
from thermostats.claims.claim import Audit, Basis, Claim, Meanings
from thermostats.claims.evidence import DUE
from thermostats.claims.finding import Criterion, Finding, Sample, Strength, Undrawn, read_finding
from thermostats.claims.run import run_one
from thermostats.claims.stored import Made
from thermostats.claims.study import list_scripts
from thermostats.errors import DataError, UsageError
from thermostats.formatting import format_declared
from thermostats.reporting import render
from thermostats.reporting.claim_page import (
    MOST_OF_P,
    build_claim_files,
    estimate_surely,
    read_entry,
    state_p,
    state_tipping,
)
from thermostats.reporting.pages.methods import (
    FIGURE,
    build_methods_files,
    choose_example,
    describe_example,
    list_decided_rules,
)
from thermostats.reporting.pages.worlds import render_worlds_page
from thermostats.reporting.render import build_single, render_page
from thermostats.reporting.report import report
from thermostats.reporting.state import describe_machine, list_table_pages
from thermostats.settings import DRAW_VARIABLE
from thermostats.tables.folders import find_shipped
from thermostats.tables.store import find_data_folder

SCRIPTS = list_scripts(find_shipped("analyses"))
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


@pytest.fixture
def out(report_of_five: Path) -> Path:
    return report_of_five


ABOUT = ("index.html", "growth.html", "methods.html", "data.html")
ALONE = (*(f"{claim}/index.html" for claim in ("c01", "c02", "c03")), *ABOUT)
PAGES = (*ALONE, "figures.html", "thermostats-report.html")
INDEX = ("index.html", "index.md")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_pages_stand_alone(out: Path, name: str) -> None:
    text = re.sub(r'srcdoc="[^"]*"', "", read(out / name))
    page = Page(text)
    links = [
        value or ""
        for _, attributes in page.tags
        for key, value in attributes.items()
        if key in {"href", "src"}
    ]
    assert not [link for link in links if re.match(r"(https?:)?//|javascript:", link)]
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    assert not [
        tag for tag, attributes in page.tags if tag in {"link", "img"} or "src" in attributes
    ]
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    for _, attributes in page.tags:
        for key in ("href", "xlink:href"):
            link = attributes.get(key) or "#" + next(iter(ids))
            path, _, fragment = link.partition("#")
            beside = (out / name).parent.joinpath(path)
            assert (
                fragment in ids
                if not path
                else link.startswith("data:text/csv") or beside.is_file()
            ), link
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= ids


@pytest.mark.parametrize("name", PAGES)
def test_pages_can_be_read_aloud(out: Path, name: str) -> None:
    page = Page(read(out / name))
    figures = [
        attributes
        for tag, attributes in page.tags
        if tag == "svg" and attributes.get("class") != "icon"
    ]
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in figures)
    assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")
    assert [attributes["lang"] for tag, attributes in page.tags if tag == "html"] == ["en"]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len([tag for tag, _ in page.tags if tag == "main"]) == 1
    regions = [
        attributes["aria-label"]
        for _, attributes in page.tags
        if attributes.get("role") == "region"
    ]
    assert len(regions) == len(set(regions))


@pytest.mark.parametrize("name", [*ALONE, "figures.html"])
def test_a_page_defines_each_shape_once_and_runs_no_script_but_its_own(
    out: Path, name: str
) -> None:
    text = read(out / name)
    used = set(re.findall(r'<use [^>]*href="#([^"]+)"', text))
    defined = re.findall(r'<(?:path|g|symbol) id="([^"]+)"', text)
    assert used <= set(defined) and len(defined) == len(set(defined))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    allowed = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    assert re.search(r"script-src ([^;]*);", policy)[1] == (
        " ".join(f"'sha256-{a}'" for a in allowed) or "'none'"
    )
    assert "default-src 'none'" in policy


def test_a_hostile_name_is_shown_as_it_is(out: Path) -> None:
    page = Page(read(out / "c02" / "index.html"))
    assert EVIL in page.texts
    assert any("Gains of TII <b>" in text for text in page.texts)
    for name in PAGES:
        text = read(out / name)
        assert "<script>alert" not in text and "<b>|" not in text
        assert sum(tag == "script" for tag, _ in Page(text).tags) == (
            name in {"index.html", "thermostats-report.html"}
        )
    assert "&lt;script&gt;" in read(out / "index.html")
    assert "<script" not in read(out / "c02" / "figure.svg")


def test_what_a_reader_must_know_of_a_verdict_is_said(tmp_path: Path, out: Path) -> None:
    """How its rule changed, why it is open, and what it could have shown."""
    assert "fixed before its test was run" in read(out / "c01" / "index.html")
    workplace = make_workplace(tmp_path)
    path = write_analysis(workplace["analyses"], "C02", "TII", p=0.04)
    changed = (
        ('Basis("figure 1")', 'Basis("figure 1"), history=("Before, it was wrong.",)'),
        (
            '"supported", plain',
            '"inconclusive", plain, reason="too little data",'
            'criterion=Criterion(could="It was tried.", worlds=1, levels=WORLDS)',
        ),
        ("CLAIM =", WORLDS + "CLAIM ="),
    )
    for old, new in changed:
        path.write_text(read(path).replace(old, new, 1), encoding="utf-8")
    assert report(**workplace, processes=1).ok
    for name in INDEX:
        index, page = read(workplace["out"] / name), read(workplace["out"] / "c02" / name)
        assert "rules of C02 have changed" in index and "inconclusive (too little data)" in index
        assert "on the study’s own files" in index and "on all evidence" in index
        assert (
            "rules of 1 finding were tried in simulated worlds" in index
            and "at most about 0.1 of" in index
        )
        assert "changed after its test was first run" in page and "Before, it was wrong." in page
        assert (
            "inconclusive (too little data)" in page
            and "It was tried." not in page
            and "worlds.csv" in page
        )
    assert "no effect at all" in read(workplace["out"] / "worlds.md")
    assert (workplace["out"] / "c02" / "worlds.csv").is_file()


WORLDS = """
import pandas as pd
WORLDS = pd.DataFrame(
    {
        "side": ["supported"], "box": ["plausible"], "words": ["no effect at all"], "studies": [60], "rate": [0.02],
        "bound_05": [0.1], "bound_01": [0.01], "bound_001": [0.001], "power": [None],
    }
)
"""  # noqa: E501


CLAIM = Claim(
    id="C01",
    title="A claim",
    statement="So.",
    estimand="mean",
    rule="Above 0.",
    basis=Basis("here"),
    meanings=Meanings(
        settles={"hangs on one unit": "More labs.", "not supported": "Another rule."}
    ),
)


MADE_OF = {
    "inputs": "0",
    "script": "1",
    "package": "2",
    "selections": 1,
    "machine": {"python": "3"},
}


def files_of(*findings: Finding, drawn: dict[int, bytes] | None = None) -> dict[str, bytes]:
    """Files of a claim with these findings, some of which are drawn."""
    made = [
        Made(one, (drawn or {}).get(number, b""), (), {}) for number, one in enumerate(findings, 1)
    ]
    return build_claim_files(CLAIM, made, "c01.py", MADE_OF)


def test_what_holds_whatever_was_measured_comes_before_the_verdict() -> None:
    found = read_finding(
        {"id": "C01.a", "estimand": "mean", "verdict": "supported", "plain": "It is.", "rule": ""}
    )
    made, guide = [Made(found, b"", (), {})], "docs/explanation/properties.md"
    with_it, without = (
        build_claim_files(replace(CLAIM, exact=exact), made, "c01.py", MADE_OF)[
            "c01/index.md"
        ].decode()
        for exact in ("Doubled at no cost.", "")
    )
    exact, _, rest = with_it.partition(f"`{guide}`")
    assert "Doubled at no cost." in exact and "supported" in rest and "supported" not in exact
    assert "Exact" not in without and guide not in without
    assert (Path(__file__).resolve().parents[2] / guide).is_file()


def test_what_identifies_an_estimand_is_folded_first_among_the_details() -> None:
    found = read_finding(
        {"id": "C01.a", "estimand": "mean", "verdict": "supported", "plain": "It is.", "rule": ""}
    )
    made = build_claim_files(
        replace(CLAIM, identification="Not causal, if so."),
        [Made(found, b"", (), {})],
        "c01.py",
        MADE_OF,
    )
    text = made["c01/index.md"].decode()
    page = render_page(
        render.Page("c01/index.html", text), made.__getitem__, pages={}, bundled=False
    ).decode()
    folded = re.search(
        r'id="c01-details".*?<details id="c01-identification">(.*?)</details>', page, re.DOTALL
    )
    assert folded and "Not causal, if so." in folded[1] and "<details" not in folded[1]
    kept = read_entry(made["c01/findings.json"]).claim
    assert kept is not None and kept.identification == "Not causal, if so."


def made_by_hand(figures: int, wrong: int, *rules: str, **fields: object) -> tuple[str, str]:
    """A claim's page, HTML and Markdown, with so many published figures and a finding a rule."""
    published = {f"figure {i}": 1.0 for i in range(figures)}
    reproduced = {name: 2.0 if i < wrong else 1.0 for i, name in enumerate(published)}
    found: dict[str, Any] = {
        "verdict": "supported",
        "plain": "It is.",
        "n_models": 3,
        "n_heritages": 2,
        **fields,
    }
    first, *others = [
        read_finding(
            {"id": f"C01.{i}", "estimand": f"mean {i}", "rule": rule, "estimate": None, **found}
        )
        for i, rule in enumerate(rules or ("",))
    ]
    first = replace(first, audit=Audit(published, reproduced))
    made = files_of(first, *others)
    text = made["c01/index.md"].decode()
    return render_page(
        render.Page("c01/index.html", text), made.__getitem__, pages={}, bundled=False
    ).decode(), text


@pytest.mark.parametrize(("figures", "wrong", "open_rows"), [(12, 2, 12), (13, 2, 2), (13, 0, 0)])
def test_long_comparisons_show_what_does_not_agree_and_have_a_file_with_all(
    figures: int, wrong: int, open_rows: int
) -> None:
    page, _ = made_by_hand(figures, wrong)
    assert len(set(re.findall(r"<td>(figure \d+)", page))) == open_rows
    assert (f"{figures - wrong} of {figures} figures agree" in page) is (figures > 12)
    assert ('href="figures.csv"' in page) is (figures > 12)


OPEN_BY = {"verdict": "inconclusive", "reason": "undecided"}
TURNED = {"estimate": 0.7, "lower": 0.6, "upper": 0.8}


PARTS = (
    "how many is not known",
    "of more recipes",
    "interval below 0.5, instead of 0.70 [0.60, 0.80]",
    "interval above 0, instead of 0.70 [0.60, 0.80]",
    "opposite verdict",
    "As computed.",
    "More labs.",
    "Another rule.",
)
"""Of what a page may say, by branch; "As computed." stands for the rule's sentence, the next two
for the claim's."""


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (OPEN_BY, [0]),
        (OPEN_BY | {"settles": "As computed."}, [5]),
        (OPEN_BY | {"reason": "too little data", "group": "recipe"}, [1]),
        (OPEN_BY | {"reason": "too little data", "settles": "As computed."}, [5]),
        (OPEN_BY | {"reason": "hangs on one unit", "settles": "As computed."}, [5, 6]),
        (TURNED | {"above": 0.5}, [2]),
        (TURNED | {"below": 0.0}, [3]),
        (TURNED | {"above": 0.0, "below": 1.0}, [4]),
        ({"above": 0.5}, [4]),
        (TURNED | {"verdict": "not supported", "above": 0.5}, [7]),
    ],
)
def test_what_would_settle_it_says_no_more_than_was_computed(
    finding: dict[str, Any], expected: list[int]
) -> None:
    text = settled(made_by_hand(0, 0, **finding)[1])
    assert [part for part in PARTS if part in text] == [PARTS[i] for i in expected]


def settled(page: str) -> str:
    """What a Markdown page says would settle it."""
    section = page.partition("- **What would settle it.**")[2].partition("## Why")[0]
    return " ".join(section.replace("\\", "").split())


def test_many_answers_on_other_sets_are_a_file_with_those_on_all_evidence_shown_first() -> None:
    """Of further questions; the first question's own are all on the page."""
    first, *others = [
        replace(tried(0.01, WORSE), id=f"C01.{letter}", estimand=f"mean {letter}")
        for letter in "abcdef"
    ]
    views = [
        replace(finding, sample=Sample(evidence, "published", models, 6))
        for finding in (first, *others)
        for evidence, models in (("external", 15), ("pooled", 36))
    ]
    files = files_of(first, *others, *views)
    text = files["c01/index.md"].decode()
    rows = [line for line in text.splitlines() if " | 15 / 6 |" in line or " | 36 / 6 |" in line]
    assert [line.split(" | ")[1] for line in rows[2:]] == ["2", "3", "4", "5", "6", "2"]
    assert all("(pooled)" in line for line in rows[2:7])
    assert "The first 6 of 10 answers" in text and "[other-sets.csv](other-sets.csv)" in text
    listed = pd.read_csv(io.BytesIO(files["c01/other-sets.csv"]))
    assert list(listed["number"]) == [2, 3, 4, 5, 6] * 2
    assert listed["set_of_evidence"].iloc[[0, -1]].to_list() == ["pooled", "external"]
    assert (listed["needed"] == WORSE[2]).all() and (listed["n_models"].iloc[:5] == 36).all()
    few = files_of(first, others[0], *views[:4])
    assert "c01/other-sets.csv" not in few and "other-sets" not in few["c01/index.md"].decode()


def test_what_a_lab_of_one_source_means_is_said_once() -> None:
    finding = tried(0.01, WORSE)
    views = []
    for models, evidence in ((15, "external"), (36, "pooled")):
        said = f"Of {evidence} one source measured one lab. {DUE}"
        sample = Sample(evidence, "published", models, 6, coincidence=said)
        views.append(replace(finding, sample=sample))
    text = files_of(finding, *views)["c01/index.md"].decode()
    folded = text.partition("#### Whose models these are")[2]
    assert "Of external one source" in folded and "Of pooled one source" in folded
    assert folded.count(DUE) == 1


def test_what_is_said_of_p_stands_once_where_it_is_long() -> None:
    known = tried(0.01, WORSE)
    strength = replace(known.strength, tipping=("b at 2",))
    long = replace(known, verdict="supported", reason="", strength=strength)
    short = replace(known, strength=replace(known.strength, tipping=(), unit=""))
    letters = dict(zip("abcd", (long, long, short, short), strict=True))
    made = [replace(finding, id=f"C01.{name}") for name, finding in letters.items()]
    text = files_of(*made)["c01/index.md"].decode()
    assert text.count("The verdict falls with b at 2.") == 1
    assert text.count("**p.** As of finding 1.") == 1
    assert text.count(str(state_tipping(short))) == 2


def test_bounds_of_nuisances_and_the_page_of_worlds_are_two_paragraphs() -> None:
    finding = tried(0.01, WORSE)
    bounds = replace(finding.criterion, bounds="All are declared.")
    text = files_of(replace(finding, criterion=bounds))["c01/index.md"].decode()
    assert re.search(r"All are declared\.\n\n+The worst world", text)


def test_what_lacks_measurement_names_the_command_where_the_claim_says_what_it_reads() -> None:
    values = {
        "id": "C01.mean",
        "estimand": "mean",
        "plain": "It is.",
        "verdict": "needs measurement",
    }
    finding = read_finding(values | {"evidence": "published"})
    told = {}
    for measures in ((), ("gains",)):
        claim = replace(CLAIM, basis=Basis("here", measures=measures))
        page = build_claim_files(claim, [Made(finding, b"", (), {})], "c01.py", MADE_OF)[
            "c01/index.md"
        ]
        told[measures] = settled(page.decode())
    assert all(text.startswith("A measurement") for text in told.values())
    assert ["`thermostats needs C01`" in text for text in told.values()] == [False, True]


@pytest.mark.parametrize("name", ["c03/index.html", "c01/index.html"])
def test_a_claim_answers_before_its_details_which_are_all_folded(out: Path, name: str) -> None:
    text = read(out / name)
    head, _, details = text.partition(f'id="{name[:3]}-details"')
    said = [
        head.index(part)
        for part in ('class="verdict', "Claimed.", "Found.", "What would settle it.", ">Why</h2>")
    ]
    assert said == sorted(said)
    assert head.index("<figure>") < said[1] or name.startswith("c03")
    assert "<details" not in head.partition(">Why</h2>")[0]
    after = details.partition("</h2>")[2]
    assert after.lstrip().startswith("<details") and not re.search(r"<h[3-6]", after)
    targets = re.findall(
        r'<a href="#([^"]+)">(?:Why|Robustness|Published figures|Details)</a>', head
    )
    assert len(targets) >= 3 and all(f'id="{target}"' in text for target in targets)


@pytest.mark.parametrize(
    ("written", "set_as"),
    [
        ("ȳ_i ~ N(m_i, 1)", "<i>y\u0304</i><sub>i</sub> ~ <i>N</i>(<i>m</i><sub>i</sub>, 1)"),
        ("f_i,heritage", "<i>f</i><sub>i, <span>heritage</span></sub>"),
        (
            "log_gain_i = b_1 z_1i",
            "log gain<sub>i</sub> = <i>b</i><sub>1</sub> <i>z</i><sub>1i</sub>",
        ),
        ("log_d_h > 0, mean of it", "log <i>d</i><sub>h</sub> &gt; 0, mean of it"),
    ],
)
def test_equations_are_set(written: str, set_as: str) -> None:
    assert render.set_equation(written) == set_as


@pytest.mark.parametrize("name", ["c03/index.html", "c03/index.md"])
def test_a_fitted_model_is_reported_by_the_checklist(out: Path, name: str) -> None:
    text = read(out / name)
    headings = (
        "Model and data",
        "Priors",
        "Diagnostics",
        "Posterior of",
        "5 checks",
        "Sensitivity",
        "Further figures and tables",
    )
    pattern = r"^#### (.*)$" if name.endswith(".md") else r"<summary>([^<]*)</summary>"
    found = [
        word
        for heading in re.findall(pattern, text, re.M)
        for word in headings
        if heading.startswith(word)
    ]
    assert found == list(headings)
    expected = (
        "94% equal-tailed interval",
        "MC error of the mean",
        "Monte-Carlo error 0.0030",
        "Seed 3",
        "pymc 5.28.0",
        "1 model and 1 lab",
    )
    assert not [said for said in expected if said not in text]
    for table in ("summary", "diagnostics", "priors", "checks", "sensitivity", "labs", "influence"):
        assert (out / "c03" / f"posterior-{table}.csv").is_file()
    linked = "[posterior-labs.csv](posterior-labs.csv)"
    assert (linked if name.endswith(".md") else 'href="posterior-labs.csv"') in text
    passed = "Passed: sampler, prior predictive, posterior predictive and LOO-PIT"
    assert passed in text and "p = 0.4" not in text
    assert "Influence: warned; hangs on one unit: Meta" in text
    assert "Within their limits: R-hat, bulk ESS and divergences." in text
    failed = read(out / name.replace("c03", "c05"))
    assert "Within their limits" not in failed and "Diagnostics of the sampler" in failed
    assert not (out / "c03" / "posterior-loo-pit.csv").is_file()
    assert (out / "c03" / "posterior-prior-to-posterior.svg").is_file()


def test_a_test_that_would_decide_at_5_percent_alone_does_not_decide_beside_an_open_verdict() -> (
    None
):
    by = SimpleNamespace(classical="not supported", verdict="not supported")
    posterior = SimpleNamespace(
        conclusion=by, concluded="not supported", gate=SimpleNamespace(passes=True)
    )
    found = read_finding(
        {
            "id": "C01.a",
            "estimand": "mean",
            "verdict": "inconclusive",
            "plain": "It is.",
            "rule": "",
        }
    )
    said = render.render_text(
        "both.md", f=found, posterior=posterior, decisive=lambda _: "P = 0.01", pooled={}
    )
    assert "**Fitted model.** P = 0.01." in said and "on all evidence" not in said
    assert "answer two questions" in said and "failed" not in said


def tried(level: float, *worlds: tuple[float, float, float, float]) -> Finding:
    """An open finding of some level; worlds: level of 0.1, 1 and 5% of its studies, and share of
    them at 5%."""
    names = ("bound_001", "bound_01", "bound_05", "rate")
    rows = [dict(zip(names, world, strict=True)) for world in worlds]
    table = pd.DataFrame(rows).assign(
        side="supported", box="plausible", words="errors alike", studies=1000, power=None
    )
    strength = Strength(
        level=level, limit=table["bound_05"].min(), p="≤ .05", leans="supported", unit="EleutherAI"
    )
    values = {
        "id": "C01.a",
        "estimand": "mean",
        "verdict": "inconclusive",
        "reason": "undecided",
        "plain": "Open.",
    }
    found = read_finding({**values, "estimate": 0.5, "n_models": 3, "n_heritages": 2})
    return replace(found, strength=strength, criterion=Criterion(settles="More.", levels=table))


@pytest.mark.parametrize(
    ("level", "low", "high", "words"),
    [
        (0.0001, 0.0, 0.001, "at most 0.1%"),
        (0.0005, 0.001, 0.01, "0.1% to 1%"),
        (0.005, 0.05, 0.2, "5% to 20%"),
        (0.02, 0.05, 0.2, "5% to 20%"),
        (0.3, 0.2, 1.0, "more than 20%"),
    ],
)
def test_a_page_says_how_often_a_false_study_says_the_same(
    level: float, low: float, high: float, words: str
) -> None:
    """Bounds over all worlds, each of whose shares rises with the level."""
    found = tried(level, (0.0002, 0.001, 0.002, 0.2), (0.001, 0.01, 0.03, 0.08))
    said = estimate_surely(found)
    assert said is not None and (said.side, said.low, said.high) == ("supported", low, high)
    page = files_of(found)["c01/index.md"].decode()
    folded = page.partition("#### The exact rule, and what p is worth")[2].partition("\n## ")[0]
    assert f"is false, {words} say it with as small a p" in folded
    assert "(../worlds.md)" in folded and "(worlds.csv)" in folded


def test_a_share_that_was_never_seen_is_none_and_an_untried_rule_says_nothing() -> None:
    known = tried(0.0, (0.2, 0.3, 0.4, 0.0))
    assert "false, none say it with as small a p" in files_of(known)["c01/index.md"].decode()
    assert estimate_surely(replace(known, criterion=Criterion())) is None
    page = made_by_hand(0, 0)[1]
    assert "**p.**" not in page and "worlds.csv" not in page


WORSE = (0.0002, 0.001, 0.002, 0.2)
FALSELY = "5% of studies simulated with “supported” false reach"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, f"In the worst plausible case (errors alike) {FALSELY} p ≤ 0.0020; it needs less."),
        ({"limit": 0.08}, f"At most {FALSELY} p ≤ 0.05, in the worst plausible case (errors"),
        (
            {"limit": 0.0},
            "(errors alike) even the smallest p comes too often, so it is never given.",
        ),
        ({"limit": None}, "No simulated study says what that is worth, so 5% decides."),
        (
            {"full_level": 0.002},
            "“supported” p is 0.00200, without EleutherAI 0.0400 (4 times as much is allowed: "
            "0.0100 counts).",
        ),
        ({}, "For “supported” p is 0.0100."),
        ({"level": 0.0}, "A count decides “supported”, so that its p is 0."),
        ({"tipping": ("not up to a", "b at 2")}, "The verdict falls with b at 2."),
        ({"tipping": ("not up to a",)}, "No single assumption that was tried undoes it."),
    ],
)
def test_a_page_says_what_p_is_worth_in_words_of_the_field(
    changed: dict[str, Any], said: str
) -> None:
    """p, the largest that 5% of simulated studies reach falsely and what is assumed, the tipping
    point."""
    found = replace(tried(0.01, WORSE), verdict="supported", reason="")
    found = replace(found, strength=replace(found.strength, **changed))
    assert said in state_p(found) and "α" not in state_p(found)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"unit": ""}, "Tipping point: p below 0.0020 would give it."),
        ({"unit": "", "limit": None}, "Tipping point: p below 0.050 would give it."),
        (
            {"unit": "", "tipping": ("nothing raised, normal errors", "alike (0.2)")},
            ", or this p up to alike (0.2).",
        ),
        (
            {"unit": "", "tipping": ("not up to a, normal errors", "not up to b, normal errors")},
            "Tipping point: with any one of these alone “supported” would be given.",
        ),
        ({"unit": "", "limit": 0.0}, "so it is never given."),
    ],
)
def test_an_open_verdict_has_a_tipping_point(changed: dict[str, Any], said: str) -> None:
    """The p that would give it, and how far a nuisance may go with the p at hand."""
    found = tried(0.01, WORSE)
    strength = replace(found.strength, **changed)
    found = replace(found, verdict="inconclusive", reason="undecided", strength=strength)
    assert said in state_p(found)
    short = state_tipping(found)
    assert ("Tipping point" in short) == (strength.limit != 0)
    assert not short or "p is 0.0100. Tipping point: p below" in short
    assert not state_tipping(replace(found, verdict="supported", reason=""))
    near = replace(found, reason="at the limit", strength=replace(strength, unit="", limit=0.01))
    assert "p clearly below 0.010" in state_p(near)
    coding = replace(found, reason="depends on what is called geometry")
    assert "Tipping point" not in state_p(coding)


def test_how_far_a_nuisance_may_go_is_folded_where_there_is_no_room() -> None:
    """The p that would give an open verdict stays."""
    found = tried(0.01, WORSE)
    strength = replace(found.strength, unit="", tipping=(" ".join(["errors alike"] * 20),))
    said = state_p(replace(found, strength=strength))
    assert "p below 0.0020 would give it." in said and len(said.split()) <= MOST_OF_P


def test_an_open_verdict_that_hangs_on_a_unit_says_what_p_may_be_without_it() -> None:
    """Four times the limit."""
    found = tried(0.001, WORSE)
    strength = replace(found.strength, unit="EleutherAI", leans="supported")
    found = replace(found, verdict="inconclusive", reason="hangs on one unit", strength=strength)
    assert "Tipping point: p without EleutherAI may be at most 0.0080." in state_p(found)


def test_what_is_said_of_p_is_short_however_much_is_assumed() -> None:
    """What is beyond the words allowed is left out, and that it is left out is seen."""
    found = tried(0.01, WORSE)
    assert found.criterion.levels is not None
    words = ", ".join(["size a 1", "b 2", *["errors of one kind"] * 20])
    levels = found.criterion.levels.assign(words=words)
    strength = replace(found.strength, tipping=("neighbours err alike (0.5)",), provisional="So.")
    long = state_p(replace(found, criterion=Criterion(levels=levels), strength=strength))
    assert MOST_OF_P - 5 < len(long.split()) <= MOST_OF_P
    assert (
        "case (errors of one kind, " in long
        and ", […](#the-exact-rule" in long
        and "…" not in state_p(found)
    )


def test_a_verdict_over_findings_has_a_row_for_each_of_them_unfolded() -> None:
    """Verdicts on both sets, how surely, the limit, what would settle it; its parts are no further
    findings."""
    part = tried(0.3, (0.0002, 0.001, 0.002, 0.2))
    hangs = Strength(
        leans="supported", unit="EleutherAI", level=0.01, limit=0.02, provisional="few"
    )
    pooled = replace(
        part,
        reason="hangs on one unit",
        strength=hangs,
        sample=Sample("pooled", "published", 36, 6),
        criterion=Criterion(),
    )
    part = replace(part, sample=Sample("published", "", 20, 3))
    whole = replace(
        part,
        id="C01.whole",
        criterion=Criterion(parts=("C01.a",)),
        strength=Strength(),
        sample=Sample(),
    )
    files = files_of(whole, part, replace(part, id="C01.b", estimand="other"), pooled)
    text = files["c01/index.md"].decode()
    page = render_page(
        render.Page("c01/index.html", text), files.__getitem__, pages={}, bundled=False
    ).decode()
    row = next(line for line in text.splitlines() if line.startswith("| 2. mean |"))
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[2:4] == [
        "◐ inconclusive (undecided), leans to “supported”: 0.500",
        "◐ inconclusive (hangs on one unit, EleutherAI), leans to “supported”, provisional: 0.500",
    ]
    assert cells[4:6] == ["0.300 (0.0020)", ""]
    assert text.count("in brackets its limit") == 1
    assert "All evidence is 36 models of 6 labs." in unfolded(page) and "2. mean" in unfolded(page)
    assert "**Its parts.** ◐ 1 inconclusive" in text and "**Asked too.** ◐ 1 inconclusive" in text
    robust = text.partition("## Robustness")[2].partition("## Details")[0]
    assert "| 3 | other |" in robust and "| 2 |" not in robust
    assert "On all evidence (pooled): ◐ inconclusive (undecided), provisional" in text


def test_words_of_verdicts_are_explained_once() -> None:
    """On the page of methods, which every claim's page leads to."""
    text = build_methods_files()["methods.md"].decode()
    said = text.partition("## What the words mean")[2].partition("\n## ")[0]
    for word in ("Provisional", "Tipping point", "*box*", "Declared size", "Too little data", "α"):
        assert word in said, word
    assert "(../methods.md)" in files_of(tried(0.01, WORSE))["c01/index.md"].decode()


@pytest.mark.parametrize(("limit", "shown"), [(0.002, "0.0020"), (0.0, "never")])
def test_the_page_of_worlds_has_the_worst_world_of_every_verdict(limit: float, shown: str) -> None:
    """Of the findings that lead a claim, by the file in the claim's folder."""
    files = files_of(tried(0.01, (0.0, 0.0, limit, 0.2), (0.001, 0.01, 0.03, 0.08)))
    page = render_worlds_page([read_entry(files["c01/findings.json"])], files.get)
    [row] = [line for line in page.splitlines() if line.startswith("| [C01](c01/index.md)")]
    assert row == f"| [C01](c01/index.md) | supported | {shown} | 20% |  | errors alike |"
    assert "No rule of these claims was tried" in render_worlds_page([], files.get)


def test_the_picture_of_methods_is_of_a_world_in_which_false_studies_come_too_often() -> None:
    example = choose_example(load_levels())
    assert example is not None and example["bound_05"] < 0.05 < example["rate"]
    assert format_declared(float(f"{example['bound_05']:.2g}")) in describe_example(example)
    assert build_methods_files()[FIGURE].startswith(b"<svg")
    assert choose_example(load_levels().iloc[:0]) is None


def test_verdicts_that_differ_and_a_gate_that_is_closed_are_told(out: Path) -> None:
    assert "answer two questions" in read(out / "c04" / "index.md")
    closed = read(out / "c05" / "index.md")
    assert (
        "By its rule alone the posterior gives “supported”, but a check of the fit failed" in closed
    )
    assert closed.startswith("# C05") and "**◐ inconclusive.**" in closed


def test_the_bundle_holds_every_page_and_leads_within_itself(out: Path) -> None:
    text = read(out / "thermostats-report.html")
    page = Page(text)
    articles = [attributes["id"] for tag, attributes in page.tags if tag == "article"]
    claims, pages = (
        ["c01", "c02", "c03", "c04", "c05"],
        [*list_table_pages(), "worlds", "methods", "data"],
    )
    assert articles == ["index", "growth", *claims, *pages]
    assert 'href="#c03"' in text and "data:text/csv" in text
    assert len(text) < 15_000_000


def test_the_numbers_of_the_methods_page_are_those_of_the_code(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thermostats.modelling import draws
    from thermostats.reporting.pages.methods import render_methods

    assert f"above {draws.RHAT_LIMIT:g} for a quantity that the statement reads (Vehtari" in read(
        out / "methods.md"
    )
    monkeypatch.setattr(draws, "ESS_LIMIT", 123.0)
    assert "below 123" in render_methods()


MOST_WORDS, MOST_OPEN = 1200, 4000
"""Words of a claim's page with all folds closed, and with all of them open."""


def test_the_methods_name_the_rules_whose_limit_rests_on_more_studies() -> None:
    table = pd.DataFrame(
        {
            "rule": ["a", "a", "b", "c", "d"],
            "box": ["plausible", "plausible", "plausible", "hostile", "plausible"],
            "studies": [4000, 3 * 4000, 4000, 3 * 4000, 3 * 600],
        }
    )
    assert list_decided_rules(table) == ["a", "d"]


def opened(page: str) -> str:
    """All that a page has, figures apart."""
    text = re.sub(r"<(script|style|svg|head)\b.*?</\1>", "", page, flags=re.DOTALL)
    return html_text.unescape(re.sub(r"<[^>]+>", " ", text))


def unfolded(page: str) -> str:
    """What a reader sees of a page before anything is folded out, figures apart."""
    text = re.sub(r"<(script|style|svg|head)\b.*?</\1>", "", page, flags=re.DOTALL)
    seen, depth, in_summary = [], 0, False
    for part in re.split(r"(</?(?:details|summary)\b[^>]*>)", text):
        if part.startswith(("<details", "</details")):
            depth += -1 if part.startswith("</") else 1
        elif part.startswith(("<summary", "</summary")):
            in_summary = not part.startswith("</")
        elif depth == 0 or (in_summary and depth == 1):
            seen.append(re.sub(r"<[^>]+>", " ", part))
    return html_text.unescape(" ".join(seen))


def test_what_is_unfolded_is_counted_as_a_reader_sees_it() -> None:
    folded = (
        "<details><summary>three</summary>no <details><summary>no</summary></details></details>"
    )
    page = f"<head>a</head>one <b>two</b>{folded} four"
    assert unfolded(page).split() == ["one", "two", "three", "four"]
    assert opened(page).split() == ["one", "two", "three", "no", "no", "four"]


@pytest.mark.slow
@pytest.mark.parametrize("claim", SCRIPTS)
def test_pages_of_claims_are_short_and_begin_without_simulated_worlds(
    claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every posterior that is drawn, as the longest report has them."""
    monkeypatch.setenv(DRAW_VARIABLE, "on")
    run = run_one(SCRIPTS[claim], find_data_folder())
    assert run.claim is not None and not run.error, run.error
    made_of = {**MADE_OF, "machine": describe_machine()}
    made = build_claim_files(run.claim, run.made, SCRIPTS[claim].name, made_of)
    name = claim.lower()
    assert not any(isinstance(each.finding.posterior, Undrawn) for each in run.made)
    markdown = made[f"{name}/index.md"].decode()
    at = render.Page(f"{name}/index.html", markdown)
    page = render_page(at, made.__getitem__, pages={}, bundled=False).decode()
    assert len(unfolded(page).split()) <= MOST_WORDS
    assert len(opened(page).split()) <= MOST_OPEN
    of_p = [line for line in markdown.splitlines() if line.startswith("- **p.**")]
    assert all(len(line.split()) <= MOST_OF_P + len(["-", "**p.**"]) for line in of_p)
    first = markdown.partition("\n## Why\n")[0]
    assert not re.search(r"simulated|\bworlds?\b|studies of", first)
    figure = page.partition("<figure>")[2].partition("</figure>")[0]
    assert re.match(r'<p class="title">[^<]', figure) and 'download="figure.svg"' in figure


def test_a_page_says_what_makes_a_limit_tiny() -> None:
    run = run_one(SCRIPTS["C13"], find_data_folder())
    assert run.claim is not None and not run.error, run.error
    page = build_claim_files(run.claim, run.made, SCRIPTS["C13"].name, MADE_OF)[
        "c13/index.md"
    ].decode()
    worlds = pd.read_csv(find_shipped("data") / "worlds.csv").query("box == 'plausible'")
    for rule in ("C13.accuracy.all", "C13.accuracy.hunt"):
        of_rule = worlds[worlds["rule"] == rule]
        never = of_rule[of_rule["bound_05"] == 0]
        worst = never.loc[never["rate"].idxmax()]
        assert worst["side"] == "not supported"
        given = f"“not supported” is given at no level, since with {worst['words']}, where it is "
        assert page.count(f"{given}false, {worst['rate']:.0%} of studies give it at 5%.") == 1
    assert page.count("is given at no level") == 2


def test_a_claim_is_sent_as_one_file_or_refused_over_its_size(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = render.Page("c03/index.html", read(out / "c03" / "index.md"))
    text = build_single(sent, lambda name: (out / name).read_bytes()).decode()
    assert "<svg" in text and "data:text/csv" in text
    away = [
        href
        for href in re.findall(r'href="([^"]*)"', text)
        if not href.startswith(("#", "data:", "https:"))
    ]
    assert away == []
    monkeypatch.setattr(render, "MOST", len(text.encode()) - 1)
    with pytest.raises(
        DataError, match=r"too large for one file .C03.*allowed: .*send the folder c03"
    ):
        build_single(sent, lambda name: (out / name).read_bytes())
    with pytest.raises(UsageError, match=r"one file a claim.*thermostats report C01 --single-file"):
        report(single_file=True, out=out, check=True)
