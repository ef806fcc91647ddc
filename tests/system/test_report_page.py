"""The report, in a real browser, with no network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import LONG
from playwright.sync_api import Page, sync_playwright

from forerun import Study, write_report


@pytest.fixture(scope="module")
def page(chromium: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=1000 * LONG
        )
        context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
        context.set_default_timeout(1000 * LONG)
        yield context.new_page()
        browser.close()


@pytest.fixture(scope="module")
def complaints(page: Page, fitted_file: Path) -> list[str]:
    """What the browser complained of while it drew the report; `page` shows it from now on."""
    heard: list[str] = []
    page.on("console", lambda said: heard.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda one: heard.append(one.url) if "file:" not in one.url else None)
    report = fitted_file.with_suffix(".html")
    write_report(Study.open(fitted_file), report)
    page.goto(report.as_uri())
    page.wait_for_function("document.querySelectorAll('.plot .main-svg').length > 0")
    return heard


def test_the_browser_complains_of_nothing_and_asks_no_network(complaints: list[str]) -> None:
    assert complaints == []


@pytest.mark.usefixtures("complaints")
def test_every_figure_is_drawn(page: Page) -> None:
    places = page.locator("div.plot")
    assert places.count() > 3
    for i in range(places.count()):
        places.nth(i).scroll_into_view_if_needed()
        drawn = places.nth(i).locator(".main-svg").first
        drawn.wait_for(state="visible")
        box = drawn.bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 100


@pytest.mark.usefixtures("complaints")
def test_the_page_fits_a_telephone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    page.wait_for_function("document.querySelectorAll('.plot .main-svg').length > 0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
