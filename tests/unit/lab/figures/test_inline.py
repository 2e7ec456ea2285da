"""Figures inside a page: no style, no identity of their own, ink and paper of the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from maxsup.lab.figures.inline import dark_rules, inline_svg


def drawing(label: str = "axis") -> Figure:
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#0072B2", label="line")
    axes.scatter([0.5], [0.5], color="#8A8A8A")
    axes.fill_between([0, 1], [0, 1], color="#FFFFFF")
    axes.set_xlabel(label)
    axes.set_title("title", fontweight="bold")
    axes.grid(color="#E4E4E4")
    axes.legend()
    return figure


def svg(name: str = "one", label: str = "axis") -> str:
    return inline_svg(drawing(label), name, title="A title", description="A description")


def test_there_is_no_style_no_metadata_and_no_declaration() -> None:
    found = svg()
    for word in ("style=", "<style", "<metadata", "<?xml", "DOCTYPE", "ns0:"):
        assert word not in found


def test_all_ids_start_with_the_name_and_all_references_are_met() -> None:
    found = svg("one")
    ids = re.findall(r' id="([^"]+)"', found)
    assert ids
    assert all(identity.startswith("one-") for identity in ids)
    assert len(set(ids)) == len(ids)
    referred = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', found)
    assert {first or second for first, second in referred} <= set(ids)


def test_black_and_grey_become_ink_and_white_becomes_paper() -> None:
    found = svg()
    assert 'fill="currentColor"' in found
    assert 'stroke="#0072b2"' in found
    assert "paper-fill" in found
    assert not re.search(r'"#(000000|8a8a8a|e4e4e4)"', found)


def test_screen_readers_get_a_title_and_a_description() -> None:
    root = ElementTree.fromstring(svg())
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "one-title one-desc"
    assert [child.text for child in list(root)[:2]] == ["A title", "A description"]


def test_text_stays_text_and_is_escaped() -> None:
    found = svg(label="<img src=x onerror=alert(1)>")
    assert "&lt;img src=x onerror=alert(1)&gt;" in found
    assert "<img" not in found
    assert 'font-weight="700"' in found
    assert "DejaVu" not in found


def luminance(color: str) -> float:
    parts = [value / 255 for value in bytes.fromhex(color[1:])]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", ["#0072b2", "#56138e", "#1703b0", "#702802", "#000080"])
def test_a_dark_colour_gets_a_tone_that_reads_in_the_dark(color: str) -> None:
    [lighter] = set(re.findall(r"(?:fill|stroke): (#\w+);", dark_rules(f'<path fill="{color}"/>')))
    assert (luminance(lighter) + 0.05) / (luminance("#1c1f25") + 0.05) >= 4.0


def test_a_light_colour_stays_as_it_is() -> None:
    assert dark_rules('<path fill="#e69f00"/>') == ""
