"""Embed Matplotlib figures in a page, as SVG that follows its colours and its security policy, or as PNG.

Styles become attributes, because the policy forbids inline styles. Black, white and greys become the text and
background colours of the page, so a figure is readable in light and dark mode. The same figure gives the same bytes.
"""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from maxsup.lab.figures.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_DROPPED = {f"{{{_SVG}}}{name}" for name in ("metadata", "style", "script", "foreignObject", "image")}
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT_SIZE = re.compile(r"([\d.]+)px")
_PIXELS = 1.85  # page pixels per point of the figure: text of 7 points gets the size of a caption
_DARK_PAPER, _DARK_INK = "#1c1f25", "#e8e8e4"  # --card and --ink of page.css
_PNG_DPI = 200
_MIN_CONTRAST = 4.0
_STEPS = 50
_PAINT = re.compile(r'(?:fill|stroke)="(#[0-9a-f]{6})"')
_HEX = re.compile(r"#([0-9a-f]{6})$")

ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _XLINK)


def inline_svg(figure: Figure, name: str, *, title: str, description: str) -> str:
    """Return a figure as an ``<svg>`` element, with ids prefixed by ``name`` and texts for screen readers."""
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(stream.getvalue())
    _drop(root)
    for element in root.iter():
        _rewrite(element, name)
    width, height = (float(root.attrib.pop(side).removesuffix("pt")) for side in ("width", "height"))
    root.attrib |= {
        "class": "plot",
        "viewBox": f"0 0 {width:g} {height:g}",
        "width": f"{_PIXELS * width:.0f}",
        "height": f"{_PIXELS * height:.0f}",
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
        "stroke-linejoin": "round",
        "preserveAspectRatio": "xMidYMid meet",
    }
    root.attrib.pop("version", None)
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        label = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{tag}"})
        label.text = text
        root.insert(position, label)
    return ElementTree.tostring(root, encoding="unicode")


class InlinePng(NamedTuple):
    """A figure as base64 PNG for light and dark pages, with its size on the page."""

    light: str
    dark: str
    width: int
    height: int


def inline_png(figure: Figure) -> InlinePng:
    """Render a figure of photographs or maps, whose pixels cannot follow the colours of a page."""
    from matplotlib.text import Text

    light = _png(figure, "white")
    figure.set_layout_engine("none")  # the layout is fixed by the first drawing
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_bbox_patch() is None and text.get_color() in ("black", "#000000"):
            text.set_color(_DARK_INK)
    for axes in figure.axes:
        axes.tick_params(colors=_DARK_INK)
    width, height = (round(72 * _PIXELS * float(side)) for side in figure.get_size_inches())
    return InlinePng(light, _png(figure, _DARK_PAPER), width, height)


def dark_rules(html: str) -> str:
    """Return CSS for dark pages that lightens lines and areas with too little contrast.

    Example:
        >>> print(dark_rules('<path stroke="#56138e"/><path fill="#56b4e9"/>'))
        @media screen and (prefers-color-scheme: dark) {
          .plot [fill="#56138e"] { fill: #966db9; }
          .plot [stroke="#56138e"] { stroke: #966db9; }
        }
        <BLANKLINE>
    """
    rules = [
        f'  .plot [{paint}="{color}"] {{ {paint}: {lighter}; }}\n'
        for color in sorted(set(_PAINT.findall(html)))
        if (lighter := _readable_on_dark(color)) != color
        for paint in ("fill", "stroke")
    ]
    return f"@media screen and (prefers-color-scheme: dark) {{\n{''.join(rules)}}}\n" if rules else ""


def _png(figure: Figure, paper: str) -> str:
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="png", dpi=_PNG_DPI, facecolor=paper, metadata={"Software": None})
    return base64.b64encode(buffer.getvalue()).decode()


def _readable_on_dark(color: str) -> str:
    """Mix a colour with as much white as the contrast on dark needs."""
    own, mixed = bytes.fromhex(color[1:]), color
    for step in range(_STEPS):
        mixed = f"#{bytes(round(value + (255 - value) * step / _STEPS) for value in own).hex()}"
        if (_luminance(mixed) + 0.05) / (_luminance(_DARK_PAPER) + 0.05) >= _MIN_CONTRAST:
            break
    return mixed


def _luminance(color: str) -> float:
    """Return the relative luminance as defined by WCAG."""
    shares = [value / 255 for value in bytes.fromhex(color[1:])]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _drop(element: ElementTree.Element) -> None:
    for child in list(element):
        if child.tag in _DROPPED:
            element.remove(child)
        else:
            _drop(child)


def _rewrite(element: ElementTree.Element, name: str) -> None:
    """Make ids unique on the page, turn styles into attributes, and black and white into the page's colours."""
    attributes = element.attrib
    for pair in attributes.pop("style", "").split(";"):
        key, _, value = (part.strip() for part in pair.partition(":"))
        if key == "font":  # older versions of matplotlib
            size = _FONT_SIZE.search(value)
            attributes["font-size"] = size[1] if size else "10"
            if "bold" in value or re.search(r"\b[67]00\b", value):
                attributes["font-weight"] = "bold"
        elif key and value and key != "font-family":  # the page's own font is not wider than the measured one
            attributes[key] = value
    for key, value in list(attributes.items()):
        if key == "id":
            attributes[key] = f"{name}-{value}"
        elif key in ("href", f"{{{_XLINK}}}href"):
            attributes[key] = value.replace("#", f"#{name}-", 1)
        elif "url(#" in value:
            attributes[key] = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    for paint in ("fill", "stroke"):
        _neutral(attributes, paint)
    if element.tag.endswith("}text") and "fill" not in attributes:
        attributes["fill"] = "currentColor"


def _neutral(attributes: dict[str, str], paint: str) -> None:
    """Turn grey into translucent text colour, and white into the background colour."""
    match = _HEX.match(attributes.get(paint, "").lower())
    if match is None or max(channels := bytes.fromhex(match[1])) - min(channels) > 4:
        return
    if min(channels) == 255:
        attributes["class"] = f"{attributes.get('class', '')} paper-{paint}".strip()
        return
    attributes[paint] = "currentColor"
    opacity = (1 - max(channels) / 255) * float(attributes.get(f"{paint}-opacity", "1"))
    if opacity < 1:
        attributes[f"{paint}-opacity"] = f"{opacity:.3g}"
