"""The built site, opened as files in a real browser: nothing is asked of another host, and it fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.architecture.source import ROOT
from tests.browser.conftest import watch

SITE = ROOT / "docs" / "_build" / "html"
PAGES = (
    "index", "losses/maxsup", "examples/index", "examples/02_wrong_prediction", "api/maxsup.losses", "cli/compare",
    "lab/studies/tab_pre", "cost", "explore",
)  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built (make docs)"),
]


@pytest.fixture(params=["light", "dark"])
def opened(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page 360 px wide on a machine without a network; requests and complaints are kept."""
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, color_scheme=request.param, offline=True, reduced_motion="reduce"
    )
    page = context.new_page()
    page.complaints, page.asked = watch(page)
    yield page
    context.close()


def test_no_page_asks_for_anything_outside_the_site_and_none_is_wider_than_a_phone(opened: Any) -> None:
    for name in PAGES:
        opened.goto((SITE / f"{name}.html").as_uri())
        assert opened.evaluate("document.documentElement.scrollWidth") <= 360, name
    outside = [url for url in opened.asked if not url.startswith(SITE.as_uri())]
    assert len(opened.asked) > len(PAGES)
    assert (outside, opened.complaints) == ([], [])


def test_the_page_follows_the_colours_of_the_machine(opened: Any, request: pytest.FixtureRequest) -> None:
    opened.goto((SITE / "losses" / "maxsup.html").as_uri())
    background = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in background.strip("rgb()").split(",")[:3])
    assert (brightness < 200) == ("dark" in request.node.name)


def test_formulas_are_drawn_and_the_search_finds_a_loss_without_a_network(opened: Any) -> None:
    opened.goto((SITE / "losses" / "maxsup.html").as_uri())
    assert opened.evaluate("document.querySelector('math').getBoundingClientRect().width") > 100
    opened.goto((SITE / "search.html").as_uri() + "?q=zipf")
    opened.wait_for_selector("#search-results li a")
    found = opened.eval_on_selector_all("#search-results li a", "links => links.map(link => link.textContent)")
    assert any("zipf_ls" in text for text in found)
    assert [text for text in opened.complaints if "favicon" not in text] == []
