"""The report in a real browser, opened from disk without a network; the atlas itself is in test_atlas_browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from workplaces import make_workplace, write_fitted

from thermostats.reporting.report import report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PAGES = (
    "index.html",
    "c01/index.html",
    "c02/index.html",
    "c03/index.html",
    "c05/index.html",
    "methods.html",
    "data.html",
    "figures.html",
    "atlas.html",
    "thermostats-report.html",
)
OURS = tuple(name for name in PAGES if name not in {"atlas.html", "thermostats-report.html"})
COMMITTED = Path(__file__).resolve().parents[2] / "reports"
SERIOUS = {"serious", "critical"}
axe = pytest.mark.skipif(find_spec("axe_playwright_python") is None, reason="axe-playwright-python is not installed")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workplace = make_workplace(tmp_path_factory.mktemp("browser"), draws=True)
    write_fitted(workplace["analyses"], "C03", "TII")
    write_fitted(workplace["analyses"], "C04", "TII", classical="inconclusive")
    write_fitted(workplace["analyses"], "C05", "Meta", sampler="failed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMOSTATS_CACHE", "off")
        assert report(**workplace, processes=1).ok
    return workplace["out"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


def opened(browser: Any, path: Path, width: int = 1280) -> tuple[Any, list[str]]:
    """A page without a network, and everything that it complains of or asks for."""
    heard: list[str] = []
    page = browser.new_context(viewport={"width": width, "height": 900}, offline=True).new_page()
    page.on("console", lambda message: heard.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("dialog", lambda dialog: (heard.append("dialog"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "data:", "about:")) else heard.append(request.url),
    )
    page.goto(path.as_uri())
    page.wait_for_timeout(100)
    return page, heard


def ids(page: Any) -> list[str]:
    return list(page.locator("table.claims tbody tr:visible").evaluate_all("rows => rows.map(row => row.id)"))


def committed() -> list[str]:
    return sorted(path.relative_to(COMMITTED).as_posix() for path in COMMITTED.rglob("*.html"))


@pytest.mark.parametrize("name", PAGES)
def test_pages_open_from_disk_without_complaint(browser: Any, out: Path, name: str) -> None:
    page, heard = opened(browser, out / name)
    assert not heard
    assert page.title()
    page.context.close()


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_a_phone(browser: Any, out: Path, name: str) -> None:
    page, _ = opened(browser, out / name, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.context.close()


@axe
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.slow)])
def test_axe_finds_nothing_serious(browser: Any, out: Path, name: str, width: int) -> None:
    page, _ = opened(browser, out / name, width)
    assert violations(page) == []
    page.context.close()


@axe
@pytest.mark.slow
def test_axe_finds_nothing_serious_in_the_bundle(browser: Any, out: Path) -> None:
    page, _ = opened(browser, out / "thermostats-report.html")
    assert violations(page) == []
    page.context.close()


def violations(page: Any) -> list[tuple[str, str]]:
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {iframes: false})")["violations"]
    return [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in SERIOUS]


def test_the_verdict_table_sorts(browser: Any, out: Path) -> None:
    page, heard = opened(browser, out / "index.html")
    assert ids(page) == ["C01", "C02", "C03", "C04", "C05"]
    heading = page.get_by_role("columnheader", name="claim")
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.get_by_role("button").click()
    assert ids(page) == ["C05", "C04", "C03", "C02", "C01"] and heading.get_attribute("aria-sort") == "descending"
    page.get_by_role("columnheader", name="verdict").get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert ids(page) == ["C01", "C02", "C03", "C04", "C05"] and heading.get_attribute("aria-sort") is None
    page.get_by_label("Sort by").select_option("posterior probability")
    assert set(ids(page)[:3]) == {"C03", "C04", "C05"}  # claims without one come last, whichever the direction
    page.get_by_role("columnheader", name="posterior").get_by_role("button").click()
    assert set(ids(page)[:3]) == {"C03", "C04", "C05"} and not heard
    page.context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_verdict_table_filters(browser: Any, out: Path, width: int) -> None:
    page, heard = opened(browser, out / "index.html", width)
    page.get_by_label("Verdict", exact=True).select_option("inconclusive")
    assert ids(page) == ["C04", "C05"]
    assert page.locator("form.controls output").inner_text() == "2 of 5 claims shown"
    page.get_by_label("Verdict", exact=True).select_option("")
    page.get_by_label("Words").fill("gains tii")
    assert ids(page) == ["C02"]
    page.get_by_label("Words").fill("")
    assert len(ids(page)) == 5 and not heard
    page.context.close()


def test_without_scripts_the_table_is_whole(browser: Any, out: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((out / "index.html").as_uri())
    assert page.locator("table.claims tbody tr").count() == 5
    assert not page.locator("form.controls").is_visible()
    context.close()


def test_a_page_can_be_used_by_the_keyboard(browser: Any, out: Path) -> None:
    page, _ = opened(browser, out / "index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main-index"
    page.context.close()


def test_links_of_the_bundle_lead_within_it(browser: Any, out: Path) -> None:
    page, heard = opened(browser, out / "thermostats-report.html")
    page.locator("#index a", has_text="Gains fall with depth").first.click()
    assert page.evaluate("location.hash") == "#c03"
    assert abs(page.locator("#c03").bounding_box()["y"]) < 900 and not heard
    page.context.close()


def test_the_bundle_holds_the_atlas(browser: Any, out: Path) -> None:
    page, _ = opened(browser, out / "thermostats-report.html")
    page.locator("iframe.atlas").scroll_into_view_if_needed()
    page.frame_locator("iframe.atlas").locator("#atlas[data-ready]").wait_for(state="attached", timeout=30_000)
    page.context.close()


def test_print_leaves_out_what_paper_cannot_use(browser: Any, out: Path) -> None:
    page, _ = opened(browser, out / "index.html")
    assert page.locator("form.controls").is_visible()
    page.emulate_media(media="print")
    assert not page.locator("form.controls").is_visible() and not page.locator("nav.nav").is_visible()
    assert page.locator("table.claims").is_visible()
    assert page.pdf(format="A4")[:5] == b"%PDF-"
    page.context.close()


@pytest.mark.slow
@pytest.mark.skipif(not (COMMITTED / "index.html").is_file(), reason="no report in the repository")
@pytest.mark.parametrize("name", committed())
def test_committed_pages(browser: Any, name: str) -> None:
    for width in (1280, 390):
        page, heard = opened(browser, COMMITTED / name, width)
        assert not heard
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if find_spec("axe_playwright_python") is not None and name not in {"atlas.html", "thermostats-report.html"}:
            assert violations(page) == []
        page.context.close()
