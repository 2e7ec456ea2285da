"""What is wrong with a built site: dead links, markup shown as text, and pages that ask another host for something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself; an <a> waits for a click.
_FETCHED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("source", "src"), ("video", "src")}
# Of links these are only names: no browser fetches them.
_NAMES = {"canonical", "next", "prev", "index", "search", "top", "license"}
# Elements whose text may look like markup: also signatures, and names of arguments (**options).
_VERBATIM = {"code", "dt", "math", "pre", "script", "strong", "style", "svg"}
_MARKUP = re.compile(r"={4,}|``|:\w+:`|^\.\. \w+::|\*\*\w|\]\(")


class _Page(HTMLParser):
    """Names and links of one page, and what of its text is markup that nobody turned into HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = {""}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.markup: list[str] = []
        self._verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        self._verbatim += tag in _VERBATIM
        self.names |= {found[key] for key in ("id", "name") if key in found}
        for key, value in found.items():
            if (tag, key) in _FETCHED and not set(found.get("rel", "").split()) & _NAMES:
                self.fetched.append(value)
            if key in ("href", "src"):
                self.links.append(value)

    def handle_endtag(self, tag: str) -> None:
        self._verbatim -= tag in _VERBATIM

    def handle_data(self, data: str) -> None:
        if not self._verbatim and _MARKUP.search(data):
            self.markup.append(" ".join(data.split()))


def remove_ways_back(site: Path) -> None:
    """Take out what Sphinx gets wrong on pages of source.

    Where several modules offer a name, its link back to the reference leads to the wrong one of them. The list of
    sources also names trainers that are not installed here.
    """
    for path in site.glob("_modules/**/*.html"):
        text = path.read_text(encoding="utf-8")
        shorter = re.sub(r'<a class="viewcode-back"[^>]*>[^<]*</a>', "", text)
        shorter = re.sub(r'<li><a href="(?!maxsup)[\w/]+\.html">[\w.]+</a></li>', "", shorter)
        if shorter != text:
            path.write_text(shorter, encoding="utf-8")


def problems(site: Path) -> list[str]:
    """A sentence for each broken link of a folder of HTML, piece of bare markup, or thing fetched from elsewhere."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    return [*_broken(pages, site.resolve()), *_bare(pages, site.resolve()), *_fetched(pages, site.resolve())]


def _bare(pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    for path, page in pages.items():
        for text in page.markup:
            yield f"{path.relative_to(site)}: {text[:60]!r} is markup in running text."


def _broken(pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    for path, page in pages.items():
        for link in sorted(set(page.links)):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            here = path.relative_to(site)
            if not target.is_file():
                yield f"{here}: {link} leads to no file."
            elif target in pages and unquote(parts.fragment) not in pages[target].names:
                yield f"{here}: {link} leads to a page without that place."


def _fetched(pages: dict[Path, _Page], site: Path) -> Iterator[str]:
    for path, page in pages.items():
        for address in page.fetched:
            if urlsplit(address).netloc:
                yield f"{path.relative_to(site)}: {address} is fetched from elsewhere."
    for path in sorted(site.rglob("*.css")):
        for address in re.findall(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)", path.read_text("utf-8")):
            yield f"{path.relative_to(site)}: {address} is fetched from elsewhere."


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page
