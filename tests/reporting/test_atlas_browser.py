"""The atlas in a real browser, loaded from disk: choosing, pointing, and nothing from the network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from workplaces import EVIL, make_workplace

from thermostats.claims.evidence import Evidence
from thermostats.reporting.pages import atlas

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WAIT = 30_000
LINES = "#atlas .mark-line path"
POINTS = "#atlas .mark-symbol path"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("atlas") / "atlas.html"
    path.write_text(atlas.page(Evidence()), encoding="utf-8")
    return path


def opened(browser: Any, path: Path, width: int = 1280) -> tuple[Any, list[str]]:
    page, heard = browser.new_page(viewport={"width": width, "height": 900}), []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("dialog", lambda dialog: (heard.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: heard.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.wait_for_selector("#atlas[data-ready]", timeout=WAIT)
    return page, heard


def lines_of(page: Any) -> int:
    page.wait_for_timeout(300)
    return int(page.locator(LINES).count())


def test_labs_are_chosen_with_the_keyboard_alone(browser: Any, shipped: Path) -> None:
    page, heard = opened(browser, shipped)
    before = lines_of(page)
    box = page.get_by_label("EleutherAI", exact=True)
    assert box.is_checked()
    box.focus()
    page.keyboard.press("Space")
    assert not box.is_checked()
    fewer = lines_of(page)
    assert 0 < fewer < before
    assert (
        "Labs shown:" in page.locator("#status").inner_text()
        and "EleutherAI" not in page.locator("#status").inner_text()
    )
    page.get_by_role("button", name="No lab").press("Enter")
    assert lines_of(page) == 0
    page.get_by_role("button", name="All labs").press("Enter")
    assert lines_of(page) == before
    assert heard == []
    page.close()


def test_models_of_the_nursery_are_drawn_when_they_are_asked_for(browser: Any, shipped: Path) -> None:
    page, heard = opened(browser, shipped)
    box, before = page.get_by_label("trained in the nursery", exact=True), lines_of(page)
    assert not box.is_checked()
    assert "Sources not shown: trained in the nursery." in page.locator("#status").inner_text()
    box.check()
    assert lines_of(page) > before
    assert "Sources" not in page.locator("#status").inner_text()
    assert heard == []
    page.close()


def test_a_point_says_what_it_is_and_its_model_stands_out_in_every_panel(browser: Any, shipped: Path) -> None:
    page, heard = opened(browser, shipped)
    page.get_by_role("button", name="No lab").click()
    page.get_by_label("TII", exact=True).check()
    page.wait_for_timeout(300)
    page.locator(POINTS).nth(5).hover()
    page.wait_for_timeout(300)
    tooltip = page.locator("#vg-tooltip-element").inner_text()
    assert "tiiuae/falcon-7b" in tooltip and "TII" in tooltip and "of 32" in tooltip
    widths = page.locator(LINES).evaluate_all("paths => paths.map(path => Number(path.getAttribute('stroke-width')))")
    assert len(widths) >= 2 and min(widths) > 3
    assert heard == []
    page.close()


def test_a_chosen_model_fades_the_others_in_every_panel(browser: Any, shipped: Path) -> None:
    page, heard = opened(browser, shipped)
    page.locator("#model select").select_option(label="openai-community/gpt2")
    page.wait_for_timeout(300)
    seen = page.locator(LINES).evaluate_all(
        "paths => paths.map(p => Number(p.getAttribute('opacity') || p.getAttribute('stroke-opacity') || 1))"
    )
    assert sum(opacity > 0.5 for opacity in seen) == 1
    assert "openai-community/gpt2" in page.locator("#status").inner_text()
    assert heard == []
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_panels_fit_the_width(browser: Any, shipped: Path, width: int) -> None:
    page, heard = opened(browser, shipped, width)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    svg = page.locator("#atlas svg").bounding_box()
    assert 0.75 * (width - 40) < svg["width"] <= width
    assert heard == []
    page.close()


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.slow)])
def test_axe_finds_nothing_serious(browser: Any, shipped: Path, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    page, _ = opened(browser, shipped, width)
    page.evaluate(files(axe).joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in {"serious", "critical"}] == []
    page.close()


def test_a_model_named_like_a_script_is_shown_and_not_run(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "atlas.html"
    path.write_text(atlas.page(Evidence(make_workplace(tmp_path)["data"])), encoding="utf-8")
    page, heard = opened(browser, path)
    assert EVIL in page.locator("#model select").inner_text()
    page.get_by_label("Meta", exact=True).uncheck()
    page.wait_for_timeout(300)
    page.locator(POINTS).last.hover()
    page.wait_for_timeout(300)
    assert EVIL in page.locator("#vg-tooltip-element").inner_text()
    assert heard == []
    page.close()
