"""The page that all reports share: escaped, self-contained, the same every time."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from matplotlib.figure import Figure

from maxsup.core.finding import Finding
from maxsup.lab.reports.blocks import Block, Chapter, Column, Findings, Page, Plot, Section, Table, Text
from maxsup.lab.reports.page import data_uri, page_html

PAYLOADS = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "<<style>>",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "\ud800 half a pair",
)


class Elements(HTMLParser):
    """What a page consists of."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def drawing() -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [0, 1])
    return figure


def page_with(text: str) -> Page:
    """The text in every place that takes one."""
    table = Table(text, [Column(text, is_number=False), Column(text)], [[text, 1.5], ["b", None]], name="t")
    blocks: list[Block] = [
        Text(text),
        Findings([Finding(text, "error", text, text)]),
        table,
        Plot("plot", text, text, drawing(), "a,b\n"),
        Plot("picture", text, text, drawing(), "a,b\n", is_picture=True),
    ]
    return Page(text, [Chapter(text, [Section(text, blocks)], lead=text, facts={text: text})])


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_stays_text_in_every_place(payload: str) -> None:
    plain, attacked = Elements(page_html(page_with("harmless"))), Elements(page_html(page_with(payload)))
    assert attacked.tags == plain.tags
    names = {name for name, _ in attacked.attributes}
    assert not [name for name in names if name.startswith("on")]
    assert "style" not in names
    assert payload.encode("utf-8", "replace").decode() in attacked.text


def test_links_lead_to_the_page_itself_or_to_data_in_it() -> None:
    html = page_html(page_with("javascript:alert(1)"))
    links = [value for name, value in Elements(html).attributes if name in ("href", "src", "xlink:href")]
    assert links
    assert all(link.startswith(("#", "data:,", "data:text/csv", "data:image/png")) for link in links)


def test_the_policy_names_the_one_script_and_the_one_style_by_their_hashes() -> None:
    html = page_html(page_with("a"))
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    policy = policy.replace("&#39;", "'")
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_a_template_of_another_kind_is_rendered_with_its_own_style() -> None:
    empty = Page("a", [Chapter("a", [])])
    assert ".banner {" in page_html(empty)
    assert ".banner {" not in page_html(empty, styles=("page.css",))


def test_tables_say_what_readers_and_screen_readers_need() -> None:
    html = page_html(page_with("a"))
    assert '<th scope="row">a</th>' in html
    assert html.count('<th scope="col"') == 2
    assert "<caption>a</caption>" in html
    assert '<td class="number" data-value="1.5">1.500</td>' in html
    assert '<td class="number" data-value="">-</td>' in html


def test_headings_are_in_order_and_the_language_is_set() -> None:
    html = page_html(page_with("a"))
    assert '<html lang="en">' in html
    assert [int(level) for level in re.findall(r"<h(\d)", html)] == [1, 2, 2, 3]


def test_data_can_be_read_back_from_its_address() -> None:
    address = data_uri("a,b\n1,é\n")
    assert base64.b64decode(address.partition("base64,")[2]).decode() == "a,b\n1,é\n"
