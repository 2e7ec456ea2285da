"""The damage report in a real browser: it asks for nothing, runs nothing foreign, sorts, and reads in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from maxsup.diagnosis.diagnosis import diagnose
from maxsup.lab.reports.diagnosis import diagnosis_page
from tests.browser.conftest import watch

HOSTILE = "<img src=x onerror=alert(1)>"
NAMES = (HOSTILE, "<script>document.title = 'taken'</script>", '"><svg onload=alert(1)>', "{{ 7 * 7 }}", "=1+1", "dog")

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Contrast of text in figures with the card they stand on, as the guidelines for accessible pages define it.
CONTRAST = """(selector) => {
  const channels = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let node = element; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
    }
  };
  return [...document.querySelectorAll(selector)].map((element) => {
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const [high, low] = [light(ink), light(ground(element))].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  });
}"""

# Words and numbers in cells of tables that take more than one line.
BROKEN_WORDS = """() => [...document.querySelectorAll("th, td")].flatMap((cell) => {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const numbers = cell.matches("td.number") && node.data.trim() ? [{ 0: node.data, index: 0 }] : [];
    for (const word of [...numbers, ...node.data.matchAll(/[\\w.+-]+/g)]) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(900) % len(NAMES)
    features = torch.randn(len(NAMES), 8, generator=generator)[labels] + torch.randn(900, 8, generator=generator)
    logits = 2.5 * F.one_hot(labels) + 1.3 * torch.randn(900, len(NAMES), generator=generator)
    page = diagnosis_page(diagnose(logits, labels, features, NAMES), source=HOSTILE)
    file = tmp_path_factory.mktemp("page") / "diagnosis.html"
    file.write_text(page, encoding="utf-8")
    return file


@pytest.fixture(params=["light", "dark"])
def opened(browser: Any, path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Any, list[str], list[str]]]:
    """The page in light and in dark, what it complained about, and what it asked for."""
    context = browser.new_context(color_scheme=request.param, viewport={"width": 1100, "height": 900})
    page = context.new_page()
    complaints, requests = watch(page)
    page.goto(path.as_uri())
    yield page, complaints, requests
    context.close()


@contextmanager
def opened_with(browser: Any, path: Path, **options: Any) -> Iterator[Any]:
    """The page in a context with options of its own."""
    with browser.new_context(**options) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        yield page


def column(page: Any, index: int) -> list[str]:
    """Cells of a column of the table of classes."""
    cells = page.locator("table", has_text="One row per class").locator(f"tbody tr > :nth-child({index + 1})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_the_page_opens_without_complaint_and_asks_for_nothing(opened: Any, path: Path) -> None:
    page, complaints, requests = opened
    page.wait_for_load_state("networkidle")
    assert complaints == []
    assert requests == [path.as_uri()]


def test_names_stay_text(opened: Any) -> None:
    page, complaints, _ = opened
    assert sorted(column(page, 0)) == sorted(NAMES)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert page.title() == "Damage report"
    assert complaints == []


def test_every_plot_is_drawn_with_a_size_and_a_name(opened: Any) -> None:
    page, _, _ = opened
    plots = page.locator("svg.plot")
    assert plots.count() == 5
    for place in range(plots.count()):
        box = plots.nth(place).bounding_box()
        assert box["width"] > 300
        assert box["height"] > 150
        drawn = plots.nth(place).locator("path").first.evaluate("path => path.getBBox().width")
        assert drawn > 0
    assert page.get_by_role("img", name="Reliability before and after a temperature").count() == 1


def test_no_word_or_number_in_a_table_is_broken_on_a_phone(browser: Any, path: Path) -> None:
    with opened_with(browser, path, viewport={"width": 360, "height": 740}) as page:
        assert page.evaluate(BROKEN_WORDS) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_click_sorts_a_table_and_a_second_one_turns_it_round(opened: Any) -> None:
    page, _, _ = opened
    head = page.locator("table", has_text="One row per class").get_by_role("button", name="accuracy")
    head.click()
    values = [float(value) for value in column(page, 2)]
    assert values == sorted(values)
    assert head.locator("xpath=..").get_attribute("aria-sort") == "ascending"
    head.click()
    assert [float(value) for value in column(page, 2)] == sorted(values, reverse=True)
    assert head.locator("xpath=..").get_attribute("aria-sort") == "descending"


def test_the_keyboard_sorts_too_and_shows_where_it_is(opened: Any) -> None:
    page, _, _ = opened
    head = page.locator("table", has_text="One row per class").get_by_role("button", name="class", exact=True)
    head.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert head.evaluate("button => getComputedStyle(button).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    first = column(page, 0)
    page.keyboard.press("Space")
    assert column(page, 0) == first[::-1]
    assert head.locator("xpath=..").get_attribute("aria-sort") == "descending"


def test_the_first_stop_of_the_keyboard_skips_to_the_content(opened: Any) -> None:
    page, _, _ = opened
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_text_reads_in_light_and_in_dark(opened: Any) -> None:
    page, _, _ = opened
    for selector in ("p", "h1", "h2", "td", "th button", "figcaption", ".level", ".advice", "a:not(.skip)"):
        ratios = page.evaluate(CONTRAST, selector)
        assert ratios
        assert min(ratios) >= 4.5, selector
    assert min(page.evaluate(CONTRAST, "svg.plot text:not([fill-opacity])")) >= 4.5


def test_light_and_dark_differ(browser: Any, path: Path) -> None:
    for scheme, ground in {"light": "rgb(252, 252, 250)", "dark": "rgb(20, 22, 26)"}.items():
        with opened_with(browser, path, color_scheme=scheme) as page:
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground


def test_the_data_behind_a_plot_can_be_downloaded(opened: Any, tmp_path: Path) -> None:
    page, _, _ = opened
    with page.expect_download() as caught:
        page.locator("figcaption a[download='confidence.csv']").click()
    assert caught.value.suggested_filename == "confidence.csv"
    caught.value.save_as(tmp_path / "confidence.csv")
    lines = (tmp_path / "confidence.csv").read_text().splitlines()
    assert lines[0] == "lower edge,upper edge,share of right,share of wrong"
    assert len(lines) == 41


def test_a_name_that_starts_like_a_formula_is_quoted_in_the_download(opened: Any, tmp_path: Path) -> None:
    page, _, _ = opened
    with page.expect_download() as caught:
        page.locator('a[download="every-class.csv"]').click()
    caught.value.save_as(tmp_path / "classes.csv")
    assert "'=1+1," in (tmp_path / "classes.csv").read_text()


def test_nothing_is_wider_than_a_narrow_screen(browser: Any, path: Path) -> None:
    with opened_with(browser, path, viewport={"width": 380, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_in_print_colours_are_those_of_paper(browser: Any, path: Path) -> None:
    with opened_with(browser, path, color_scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert page.locator("nav").first.is_hidden()


def test_without_scripts_everything_is_there(browser: Any, path: Path) -> None:
    with opened_with(browser, path, java_script_enabled=False) as page:
        assert page.locator("svg.plot").count() == 5
        assert page.locator("table").count() >= 6
