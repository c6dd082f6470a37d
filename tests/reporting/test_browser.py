"""The report and its atlas in a real browser, opened from disk: nothing is asked of the network."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from thermostats.reporting.pages import atlas

CLAIMS = ("c01", "c02", "c03", "c05")
ABOUT = ("growth.html", "methods.html", "data.html", "figures.html", "next.html")
OURS = ("index.html", *(f"{claim}/index.html" for claim in CLAIMS), *ABOUT)
PAGES = (*OURS, "atlas.html", "thermostats-report.html")
LINES = "#atlas figure:not([hidden]) .line:not([hidden])"
WIDTHS = [1280, 390]
pytestmark = pytest.mark.slow
axe = pytest.mark.skipif(
    find_spec("axe_playwright_python") is None, reason="axe-playwright-python is not installed"
)


@pytest.fixture
def out(report_of_five: Path) -> Path:
    return report_of_five


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory, page_of_atlas: str) -> Path:
    path = tmp_path_factory.mktemp("atlas") / "atlas.html"
    path.write_text(page_of_atlas, encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens pages without a network; what one complains of or asks for fails the test."""
    pages, heard = [], []

    def opens(path: Path, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, **options
        )
        page = context.new_page()
        pages.append(page)
        page.on(
            "console",
            lambda message: (
                heard.append(message.text) if message.type in {"error", "warning"} else 0
            ),
        )
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: (heard.append("dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda asked: (
                asked.url.startswith(("file:", "data:", "about:")) or heard.append(asked.url)
            ),
        )
        page.goto(path.as_uri())
        page.wait_for_timeout(100)
        if path.name == "atlas.html":
            page.wait_for_selector("#atlas[data-ready]", timeout=30_000)
        return page

    yield opens
    for page in pages:
        page.context.close()
    assert heard == []


def ids(page: Any) -> list[str]:
    return list(
        page.locator("table.claims tbody tr:visible").evaluate_all(
            "rows => rows.map(row => row.id)"
        )
    )


def lines_of(page: Any) -> int:
    page.wait_for_timeout(300)
    return int(page.locator(LINES).count())


def curves_of(rows: pd.DataFrame, model: str, *, whole: bool = False) -> int:
    """Curves in the atlas of models whose name begins so, or is so: one a quantity, instrument and
    source."""
    mine = rows["model_id"] == model if whole else rows["model_id"].str.startswith(model)
    return len(rows[mine].drop_duplicates([*atlas.MODEL, "quantity"]))


def point_at(page: Any, number: int) -> tuple[float, float]:
    """Where a point of the first line that is shown stands on the screen; the pointer is moved
    there."""
    place = page.locator(LINES).first.evaluate(
        """(line, i) => {
          const pair = line.firstElementChild.getAttribute("d").slice(1).split("L")[i].split(",").map(Number);
          line.scrollIntoView({ block: "center" });
          const at = new DOMPoint(...pair).matrixTransform(line.getScreenCTM());
          return [at.x, at.y];
        }""",  # noqa: E501
        number,
    )
    page.mouse.move(*place)
    return place[0], place[1]


def status(page: Any) -> str:
    return str(page.locator("#status").inner_text())


@pytest.mark.parametrize("name", PAGES)
def test_pages_open_from_disk_and_are_no_wider_than_a_phone(
    opened: Any, out: Path, name: str
) -> None:
    assert opened(out / name).title()
    assert opened(out / name, width=390).evaluate("document.documentElement.scrollWidth") <= 390


@axe
@pytest.mark.parametrize("name", [*OURS, "thermostats-report.html", "atlas"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing(opened: Any, out: Path, shipped: Path, name: str, width: int) -> None:
    page = opened(shipped if name == "atlas" else out / name, width)
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {iframes: false})")["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []


def test_the_verdict_table_sorts(opened: Any, out: Path) -> None:
    page = opened(out / "index.html")
    assert ids(page) == ["C04", "C01", "C02", "C03", "C05"]
    heading = page.get_by_role("columnheader", name="claim")
    assert heading.get_attribute("aria-sort") is None
    heading.get_by_role("button").click()
    assert ids(page) == ["C01", "C02", "C03", "C04", "C05"]
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.get_by_role("button").click()
    assert (
        ids(page) == ["C05", "C04", "C03", "C02", "C01"]
        and heading.get_attribute("aria-sort") == "descending"
    )
    page.get_by_role("columnheader", name="on the study’s own files").get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert ids(page) == ["C01", "C02", "C03", "C04", "C05"], "supported ones first"
    assert heading.get_attribute("aria-sort") is None
    page.keyboard.press("Enter")
    assert ids(page) == ["C04", "C05", "C01", "C02", "C03"]
    page.get_by_label("Sort by").select_option("models")
    assert set(ids(page)) == {"C01", "C02", "C03", "C04", "C05"}


@pytest.mark.parametrize("width", [1280, 390])
def test_the_verdict_table_filters(opened: Any, out: Path, width: int) -> None:
    page = opened(out / "index.html", width)
    page.get_by_label("Verdict", exact=True).select_option("inconclusive")
    assert ids(page) == ["C04", "C05"]
    assert page.locator("form.controls output").inner_text() == "2 of 5 claims shown"
    page.get_by_label("Verdict", exact=True).select_option("")
    page.get_by_label("Words").fill("gains tii")
    assert ids(page) == ["C02"]
    page.get_by_label("Words").fill("")
    assert len(ids(page)) == 5


@pytest.mark.parametrize("width", [500, 390])
def test_figures_are_seen_whole_and_verdicts_stand_below_one_another_on_a_phone(
    opened: Any, out: Path, width: int
) -> None:
    page = opened(out / "c03" / "index.html", width)
    ends = page.locator("figure svg").evaluate_all(
        "all => all.map(svg => svg.getBoundingClientRect().right)"
    )
    assert ends and max(ends) <= width
    listed = opened(out / "index.html", width)
    cells = listed.locator("table.stacked tbody tr").first.locator("td")
    assert len({cell["x"] for cell in (cells.nth(i).bounding_box() for i in range(3))}) == 1


def test_a_page_can_be_used_by_the_keyboard(opened: Any, out: Path) -> None:
    page = opened(out / "index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main-index"


def test_links_of_the_bundle_lead_within_it_and_it_holds_the_atlas(opened: Any, out: Path) -> None:
    page = opened(out / "thermostats-report.html")
    page.locator("#index a", has_text="C03").first.click()
    assert page.evaluate("location.hash") == "#c03"
    assert abs(page.locator("#c03").bounding_box()["y"]) < 900
    page.locator("iframe.atlas").scroll_into_view_if_needed()
    page.frame_locator("iframe.atlas").locator("#atlas[data-ready]").wait_for(
        state="attached", timeout=30_000
    )


def test_labs_of_the_atlas_are_chosen_with_the_keyboard_alone(opened: Any, shipped: Path) -> None:
    page = opened(shipped)
    page.get_by_role("button", name="All labs").click()
    before, box = lines_of(page), page.get_by_label("EleutherAI", exact=True)
    assert box.is_checked()
    box.focus()
    page.keyboard.press("Space")
    assert not box.is_checked()
    assert 0 < lines_of(page) < before
    assert "Labs shown:" in status(page) and "EleutherAI" not in status(page)
    page.get_by_role("button", name="No lab").press("Enter")
    assert lines_of(page) == 0
    page.get_by_role("button", name="All labs").press("Enter")
    assert lines_of(page) == before


@pytest.mark.parametrize("words", ["bigscience", "Bloom"])
def test_the_atlas_is_searched_by_lab_and_family_and_its_address_keeps_the_choice(
    opened: Any, shipped: Path, rows_of_atlas: pd.DataFrame, words: str
) -> None:
    page, bloom = opened(shipped), curves_of(rows_of_atlas, "bigscience/bloom")
    page.get_by_label("Search").fill(words)
    assert lines_of(page) == bloom > 1 and f"search={words}" in page.url
    page.reload()
    page.wait_for_selector("#atlas[data-ready]")
    assert lines_of(page) == bloom and page.get_by_label("Search").input_value() == words


def test_a_point_says_what_it_is_and_its_model_stands_out_in_every_panel(
    opened: Any, shipped: Path
) -> None:
    page = opened(shipped)
    page.get_by_role("button", name="No lab").click()
    page.get_by_label("TII", exact=True).check()
    page.wait_for_timeout(300)
    point_at(page, 5)
    tooltip = page.locator("#tip").inner_text()
    assert "tiiuae/falcon-7b" in tooltip and "TII" in tooltip and "of 32" in tooltip
    line = page.locator(LINES).first
    layer, value = (line.get_attribute(f"data-{name}").split()[5] for name in ("layers", "values"))
    assert f"{layer} of 32" in tooltip and value in tooltip
    widths = page.locator(f"{LINES} .way").evaluate_all(
        "all => all.map(way => parseFloat(getComputedStyle(way).strokeWidth))"
    )
    assert len(widths) >= 2 and min(widths) > 3
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()


def test_one_model_is_chosen_by_a_click_or_from_the_list_and_let_go_by_the_keyboard(
    opened: Any, shipped: Path, rows_of_atlas: pd.DataFrame
) -> None:
    page = opened(shipped)
    x, y = point_at(page, 5)
    page.mouse.click(x, y)
    name = page.get_by_label("Model", exact=True).input_value()
    seen = page.locator(LINES).evaluate_all(
        "all => all.map(line => [line.dataset.model, !line.classList.contains('faded')])"
    )
    assert len({model for model, _ in seen}) == atlas.FIRST and all(
        (model == name) == bright for model, bright in seen
    )
    page.keyboard.press("Escape")
    assert (
        page.get_by_label("Model", exact=True).input_value() == ""
        and page.locator(".faded").count() == 0
    )
    page.get_by_label("Model", exact=True).select_option("tiiuae/falcon-7b")
    assert "Chosen model: tiiuae/falcon-7b." in status(page)
    assert page.locator(f"{LINES}:not(.faded)").count() == curves_of(
        rows_of_atlas, "tiiuae/falcon-7b", whole=True
    )


@pytest.mark.parametrize("scripts", [True, False])
def test_four_models_are_named_and_drawn_with_scripts_and_without(
    browser: Any, shipped: Path, scripts: bool
) -> None:
    context = browser.new_context(java_script_enabled=scripts, offline=True)
    page = context.new_page()
    page.goto(shipped.as_uri())
    named = page.locator("#key li:visible").all_inner_texts()
    lines = page.locator(LINES)
    drawn = {lines.nth(i).get_attribute("data-model") for i in range(lines.count())}
    assert {name.strip() for name in named} == drawn and len(drawn) == atlas.FIRST
    assert page.locator("#controls").is_visible() == scripts
    context.close()


def test_the_whole_range_of_gains_is_drawn_on_demand(opened: Any, shipped: Path) -> None:
    page = opened(shipped)
    leaving, key = page.locator(".leaving:visible"), page.locator("#key li:visible")
    assert leaving.count() == 0, "the models that it opens with lie inside the panel"
    assert key.count() == atlas.FIRST
    page.get_by_role("button", name="All labs").click()
    assert leaving.count() > 0 and page.locator("[data-span]:visible").count() == 1
    page.get_by_label("Whole range of gains").check()
    assert (
        leaving.count() == 0
        and page.locator("[data-span]:visible").get_attribute("data-span") == "whole"
    )
    assert key.count() == 0, "more models than the key names"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_panels_fit_the_width(opened: Any, shipped: Path, width: int) -> None:
    page = opened(shipped, width)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert 0.75 * (width - 40) < page.locator("#atlas").bounding_box()["width"] <= width
    panels = page.locator("#atlas figure:visible").evaluate_all(
        "all => all.map(panel => panel.getBoundingClientRect().toJSON())"
    )
    assert max(panel["right"] for panel in panels) <= width
    assert len({panel["left"] for panel in panels}) == (2 if width > 800 else 1)
