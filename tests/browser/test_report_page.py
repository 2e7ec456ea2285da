"""The report in a browser: it draws, sorts, prints, reads in the dark, and runs nothing of what it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from maxsup.lab.reports import write_report
from tests.browser.conftest import watch
from tests.unit.lab.reports.made import hostile_names, make_folder

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Contrast of everything that is read, by WCAG; what is drawn over lets its ground through.
CONTRAST = """() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1 };
  };
  const over = (top, alpha, ground) => top.map((value, i) => value * alpha + ground[i] * (1 - alpha));
  const linear = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = (rgb) => 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
  const ground = (element) => {
    for (let node = element; node; node = node.parentElement) {
      const found = parse(getComputedStyle(node).backgroundColor.replace(/^color\\(srgb/, ""));
      if (found.alpha === 1 && found.rgb.some((value) => value > 1)) return found.rgb;
    }
    return parse(getComputedStyle(document.body).backgroundColor).rgb;
  };
  const rows = [];
  for (const element of document.querySelectorAll("body *:not(script):not(title):not(desc)")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3 && node.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!text.length || box.width < 2 || element.closest(".hidden, .skip, title, desc")) continue;
    const style = getComputedStyle(element);
    const isDrawn = element instanceof SVGElement;
    const ink = parse(isDrawn ? style.fill : style.color);
    let alpha = ink.alpha * (isDrawn ? Number(style.fillOpacity) : 1);
    for (let node = element; node; node = node.parentElement) alpha *= Number(getComputedStyle(node).opacity);
    const paper = ground(element);
    const [high, low] = [luminance(over(ink.rgb, alpha, paper)), luminance(paper)].sort((a, b) => b - a);
    const words = text[0].textContent.trim().slice(0, 30);
    rows.push({ words, isDrawn, ratio: (high + 0.05) / (low + 0.05) });
  }
  return rows;
}"""


class Opened(NamedTuple):
    """A page and what it complained about or asked for."""

    page: Any
    complaints: list[str]
    requests: list[str]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything a report can hold, with class names that try to be more than text."""
    folder = make_folder(
        tmp_path_factory.mktemp("report") / "study",
        seeds=(0, 1),
        failed=[("maxsup", 1)],
        scale="tiny",
        published=True,
        class_names=hostile_names(4),
    )
    return write_report(folder)[0]


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 runs, each under a hostile name, of 20 losses with hostile titles."""
    names = hostile_names(200)
    folder = make_folder(
        tmp_path_factory.mktemp("hostile") / "a",
        arms=[f"arm{place}" for place in range(20)],
        titles=names[:20],
        seeds=range(10),
        run_names=names,
        has_analyses=False,
    )
    return write_report(folder)[0]


@pytest.fixture(scope="module")
def wide_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six losses and nine numbers, as the comparison that the README shows."""
    arms = ("ce", "ls", "zipf_ls", "ols", "maxsup", "logit_penalty")
    folder = make_folder(tmp_path_factory.mktemp("wide") / "a", arms=arms, has_analyses=False)
    summary = json.loads((folder / "summary.json").read_text())
    names = ["AURC", "confidence on errors", "within (train)", "r_squared (train)", "probe: place (x)"]
    for place, title in enumerate([*names, "probe: hue", "ECE"]):
        summary["table"]["columns"].append({"name": f"n{place}", "title": title, "group": ""})
        for cells in summary["table"]["cells"].values():
            cells[f"n{place}"] = cells["nll"] | {"text": "0.0261 ± 0.0079"}
    for cells in summary["table"]["cells"].values():
        for cell in cells.values():
            cell["difference_text"] = "+0.0238 [-0.0068, +0.0265]"
    (folder / "summary.json").write_text(json.dumps(summary))
    return write_report(folder)[0]


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Opens a report; its page is closed after the test."""
    with ExitStack() as stack:

        def opening(path: Path, *, width: int = 1280, scheme: str = "light") -> Opened:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            stack.callback(page.close)
            watched = watch(page)
            page.goto(path.as_uri())
            return Opened(page, *watched)

        yield opening


def column(page: Any, place: int) -> list[str]:
    """The first lines of a column of the main table, and of its row names for 0."""
    cells = page.locator("table.results tbody tr").all()
    return [row.locator("th, td").nth(place).inner_text().splitlines()[0] for row in cells]


def test_nothing_is_complained_about_and_nothing_leaves_the_page(opened: Any, report: Path) -> None:
    found = opened(report)
    assert found.complaints == []
    assert found.requests == [report.as_uri()]


def test_every_figure_is_drawn(opened: Any, report: Path) -> None:
    page = opened(report).page
    boxes = [plot.bounding_box() for plot in page.locator("svg.plot").all()]
    assert len(boxes) >= 9
    assert all(box["width"] > 200 and box["height"] > 80 for box in boxes)
    marks = page.eval_on_selector_all("svg.plot", "all => all.map(svg => svg.querySelectorAll('path').length)")
    assert min(marks) > 5
    sizes = page.eval_on_selector_all("img.plot", "all => all.map(image => image.naturalWidth)")
    assert len(sizes) == 2
    assert min(sizes) > 200


def test_tables_sort_by_mouse_and_by_keyboard(opened: Any, report: Path) -> None:
    page = opened(report).page
    head = page.locator("table.results thead th", has_text="NLL")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    ascending = [float(text.split()[0]) for text in column(page, 2)]
    assert ascending == sorted(ascending)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(text.split()[0]) for text in column(page, 2)] == ascending[::-1]
    page.locator("table.results thead th button").first.click()
    names = column(page, 0)
    assert names == sorted(names)


def test_rows_of_a_long_table_are_filtered_by_words(opened: Any, report: Path) -> None:
    page = opened(report).page
    rows = page.locator("table.runs tbody tr")
    whole = rows.count()
    page.get_by_label(re.compile("Filter rows of: ")).last.fill("maxsup 1")
    shown = [row.inner_text() for row in rows.all() if row.is_visible()]
    assert 0 < len(shown) < whole
    assert all("maxsup" in text and "1" in text for text in shown)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_that_is_read_stands_out(opened: Any, report: Path, scheme: str) -> None:
    page = opened(report, scheme=scheme).page
    page.eval_on_selector_all("details", "all => all.forEach(item => item.open = true)")
    rows = page.evaluate(CONTRAST)
    assert len(rows) > 150
    # 4.5 for text (WCAG AA); 3 for words within figures, of which the grey notes are the faintest.
    assert [row for row in rows if row["ratio"] < (3.0 if row["isDrawn"] else 4.5)] == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(value) for value in paper[4:-1].split(",")) < 200) == (scheme == "dark")


def test_lines_of_figures_stand_out_in_the_dark(opened: Any, report: Path) -> None:
    page = opened(report, scheme="dark").page
    colors = page.eval_on_selector_all(
        "svg.plot [stroke^='#']", "all => [...new Set(all.map(item => getComputedStyle(item).stroke))]"
    )
    assert len(colors) >= 3
    for color in colors:
        red, green, blue = (int(value) for value in color[4:-1].split(","))
        assert 0.2126 * red + 0.7152 * green + 0.0722 * blue > 90, color


def test_two_hundred_hostile_names_stay_text(opened: Any, hostile_report: Path) -> None:
    found = opened(hostile_report)
    page = found.page
    rows = page.locator("table.runs tbody tr")
    assert rows.count() == 200
    shown = page.eval_on_selector_all("table.runs tbody tr", "all => all.map(row => row.cells[3].textContent)")
    for name, text in zip(hostile_names(200), shown, strict=True):
        assert [word for word in name.split() if word.isascii() and word.isprintable()] == [
            word for word in text.split() if word.isascii() and word.isprintable()
        ]
    assert page.title() == "Losses on made-up data"
    assert page.locator("img:not(.plot), iframe, object, embed, form").count() == 0
    assert page.locator("script").count() == 1
    assert found.complaints == []
    assert found.requests == [hostile_report.as_uri()]


@pytest.mark.parametrize("width", [1200, 800])
def test_a_table_of_six_losses_and_nine_numbers_is_seen_whole(opened: Any, wide_report: Path, width: int) -> None:
    page = opened(wide_report, width=width).page
    scroll = page.locator(".scroll", has=page.locator("table.results"))
    assert scroll.evaluate("item => item.scrollWidth - item.clientWidth") <= 0
    assert page.locator("table.results thead th").count() == 7
    assert page.locator("table.results tbody tr").count() == 9
    # Numbers of several kinds under one another have no order.
    assert page.locator("table.results button").count() == 0


def test_the_page_fits_a_telephone(opened: Any, report: Path) -> None:
    page = opened(report, width=390).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_page_prints_on_white_with_all_that_was_folded(opened: Any, report: Path) -> None:
    page = opened(report, scheme="dark").page
    content = page.pdf(format="A4")
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) >= 3
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    folded = page.eval_on_selector_all("details", "all => all.map(item => item.lastElementChild.checkVisibility())")
    assert len(folded) == 2
    assert all(folded)


def test_data_behind_a_figure_can_be_downloaded(opened: Any, report: Path) -> None:
    page = opened(report).page
    with page.expect_download() as download:
        page.locator("figure a[download='seeds.csv']").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "metric,loss,seed,value"
    assert len(lines) == 1 + 2 * 3 * 2


def test_the_picture_of_a_figure_can_be_downloaded(opened: Any, report: Path) -> None:
    page = opened(report, scheme="dark").page
    with page.expect_download() as download:
        page.locator("figure a[download='seeds.svg']").click()
    drawn = Path(download.value.path()).read_text()
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("color") == "black"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 5
    pictures = page.locator("figure a[download$='.png']")
    assert pictures.count() == page.locator("img.plot").count() == 2
    with page.expect_download() as download:
        pictures.first.click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_keys_alone_lead_through_the_page(opened: Any, report: Path) -> None:
    page = opened(report).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    unnamed = page.eval_on_selector_all(
        "a, button, [role=region], img, svg[role=img]",
        "all => all.filter(item => !(item.textContent.trim() || item.getAttribute('aria-label') || item.alt)).length",
    )
    assert unnamed == 0
    assert page.eval_on_selector_all("h1", "all => all.length") == 1
