"""A report cannot run what a table contains: hostile text in every column that pages show, in a
real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import layer, model, run, table
from workplaces import make_workplace, write_analysis, write_fitted

from thermostats.reporting.report import report
from thermostats.tables import store

HOSTILE = (
    "<script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "<svg/onload=window.ran=1>",
    "</title><script>window.ran = 1</script>",
    "</script><script>window.ran = 1</script>",
    "</style><style>body{display:none}</style>",
    '"><svg><animate onbegin=window.ran=1 attributeName=x dur=1s>',
    "' onmouseover='window.ran = 1",
    "javascript:window.ran=1",
    "[link](javascript:window.ran=1)",
    "![](x onerror=window.ran=1)",
    "data:text/html,<script>window.ran=1</script>",
    "<a href='javascript:window.ran=1'>a</a>",
    "<iframe srcdoc='<script>parent.ran=1</script>'>",
    "<base href='https://example.org/'>",
    "<meta http-equiv=refresh content='0;url=https://example.org/'>",
    "<link rel=stylesheet href='https://example.org/a.css'>",
    "url(javascript:window.ran=1)",
    "${window.ran=1}{{7*7}}{% raw %}",
    "<!-- page ends -->",
    "]]><script>window.ran=1</script>",
)
"""Names that would run, restyle, redirect or load if a page took them for more than text."""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on a lab whose every model is named, and every text of it filled, with hostile
    text."""
    places = make_workplace(tmp_path_factory.mktemp("hostile"), draws=True)
    data = places["data"]
    models, runs, layers = [], [], []
    for number, text in enumerate(HOSTILE):
        name = f"lab{number}/{text}"
        row = model(name, "Meta") | {"family": text, "source": text, "parent": text}
        models.append(row)
        runs.append(
            run(name, source=f"by {text}")
            | {"versions": text, "device": text, "special_tokens": text}
        )
        layers += [
            layer(runs[-1], depth, 0.5 + depth / 10) | {"missing": f"of {text}"}
            for depth in (1, 2, 3)
        ]
    (data / "more").mkdir()
    known = store.read_typed(data / "models.csv", "models").to_dict("records")
    store.save(table("models", *known, *models), "models", data / "models.csv")
    store.save(table("runs", *runs), "runs", data / "measured" / "runs" / "more.csv")
    store.save(table("layers", *layers), "layers", data / "measured" / "layers" / "more.csv")
    write_fitted(places["analyses"], "C03", "Meta")
    for path in places["analyses"].glob("*.py"):
        path.write_text(
            path.read_text()
            .replace("said a|b", HOSTILE[0])
            .replace('mean gain", "rule', HOSTILE[2] + '", "rule')
        )
    write_analysis(places["analyses"], "C04", "Meta")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOSTATS_CACHE", "off")
        result = report(**places, processes=1)
    assert result.ok, result
    return places["out"]


@pytest.mark.slow
def test_no_page_runs_loads_or_follows_what_a_table_contains(browser: Any, out: Path) -> None:
    pages = sorted(out.rglob("*.html")) + sorted(out.rglob("*.svg"))
    assert len(pages) > 8
    assert any("window.ran" in page.read_text(encoding="utf-8") for page in pages)
    context = browser.new_context()
    for path in pages:
        heard: list[str] = []
        page = context.new_page()
        page.on(
            "request",
            lambda r, heard=heard: (
                None
                if r.url.startswith(("file:", "data:", "about:", "blob:"))
                else heard.append(r.url)
            ),
        )
        page.on("dialog", lambda dialog, heard=heard: (heard.append("dialog"), dialog.dismiss()))
        page.goto(path.as_uri())
        page.wait_for_timeout(150)
        assert page.evaluate("window.ran") is None, path
        assert page.url.startswith(path.as_uri()), path
        assert heard == [], path
        for element in page.locator("body *").all()[:40]:
            element.dispatch_event("mouseover")
        assert page.evaluate("window.ran") is None, path
        ours = page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.protocol)")
        assert set(ours) <= {"file:", "https:", "http:", "mailto:", "data:", "blob:"}, path
        handlers = (
            "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => "
            "/^on/i.test(a.name))).length"
        )
        assert page.evaluate(handlers) == 0, path
        assert (
            page.evaluate(
                "document.querySelectorAll('base, meta[http-equiv=refresh], object, embed').length"
            )
            == 0
        ), path
        page.close()
    context.close()


@pytest.mark.slow
def test_every_page_forbids_scripts_that_are_not_its_own(out: Path) -> None:
    for path in out.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
        assert policy, path
        assert policy[1].startswith("default-src 'none'"), path
        assert not re.search(r"script-src[^;]*(\*|unsafe|https?:)", policy[1]), path


@pytest.mark.slow
def test_markdown_twins_hold_no_html_that_a_table_put_there(out: Path) -> None:
    for path in out.rglob("*.md"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"(?<!\\)<(script|img|svg|iframe|style|base|meta|link)\b", line), (
                path,
                line,
            )
            assert not re.search(r"(?<!\\)\]\(javascript:", line), (path, line)


@pytest.mark.slow
def test_rows_that_are_no_tree_are_said_to_be_none_and_the_report_is_whole(out: Path) -> None:
    page = (out / "lineage.md").read_text(encoding="utf-8")
    assert "**No tree can be drawn of these rows:** an orphan" in page and "## Branches" not in page
