"""What people and programs find pages by: a script with the words of every page, and ``llms.txt``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from textwrap import shorten
from typing import Any

# The first that fits counts; what a reader most likely looks for has the larger weight in docs/_static/search.js.
_KINDS = (
    ("losses/", "card"),
    ("api/", "api"),
    ("cli/", "api"),
    ("evidence/claims/", "claim"),
    ("evidence/second/", "claim"),
    ("evidence/pools", "claim"),
    ("lab/studies/", "claim"),
    ("changelog", "other"),
    ("log", "other"),
    ("contributing", "other"),
    ("code_of_conduct", "other"),
)
_LEFT_OUT = ("_modules/", "_static/", "whole/", "genindex", "py-modindex", "search")
_CHARACTERS = 6_000


class _Words(HTMLParser):
    """Title, headings, names defined here, and text of the article of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: list[tuple[str, list[str]]] = []
        self.terms: list[str] = []
        self.text: list[str] = []
        self._inside = self._silent = 0
        self._head = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "article":
            self._inside += 1
        if tag in ("script", "style", "svg", "math") or "headerlink" in str(found.get("class")):
            self._silent += 1
        if tag in ("h1", "h2", "h3"):
            self._head = tag
            self.heads.append((tag, []))
        if tag == "dt" and str(found.get("id", "")).startswith("maxsup"):
            self.terms.append(str(found["id"]).rpartition(".")[2])

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._inside -= 1
        if tag in ("script", "style", "svg", "math") or (tag == "a" and self._silent):
            self._silent -= 1
        if tag == self._head:
            self._head = ""

    def handle_data(self, data: str) -> None:
        if not self._inside or self._silent:
            return
        if self._head:
            self.heads[-1][1].append(data)
        self.text.append(data)


def page_words(html: str, url: str) -> dict[str, Any]:
    """Return what the search knows of a page.

    Example:
        >>> page = page_words("<article><h1>Zipf</h1><p>Ranks.</p><h2>Cost</h2></article>", "losses/zipf_ls.html")
        >>> page["title"], page["headings"], page["text"], page["kind"]
        ('Zipf', ['Cost'], 'Zipf Ranks. Cost', 'card')
    """
    words = _Words()
    words.feed(html)
    heads = [(tag, " ".join("".join(parts).split())) for tag, parts in words.heads]
    return {
        "url": url,
        "title": next((text for tag, text in heads if tag == "h1"), url),
        "kind": next((kind for start, kind in _KINDS if url.startswith(start)), "guide"),
        "terms": " ".join(dict.fromkeys(words.terms)).lower(),
        "headings": [text for tag, text in heads if tag != "h1"],
        "text": " ".join(" ".join(words.text).split())[:_CHARACTERS],
    }


def llms_text(pages: Sequence[Mapping[str, Any]]) -> str:
    """Return a list of the pages for language models, guides first.

    Example:
        >>> page = {"url": "faq.html", "title": "FAQ", "kind": "guide", "text": "FAQ Which alpha? Start with yours."}
        >>> print(llms_text([page]), end="")
        # maxsup
        <BLANKLINE>
        > Max Suppression (MaxSup) and its relatives for PyTorch, and a laboratory to compare them.
        <BLANKLINE>
        ## guide
        <BLANKLINE>
        - [FAQ](faq.html): Which alpha? Start with yours.
    """
    lines = [
        "# maxsup",
        "",
        "> Max Suppression (MaxSup) and its relatives for PyTorch, and a laboratory to compare them.",
    ]
    for kind in ("guide", "card", "api", "claim", "other"):
        lines += ["", f"## {kind}", ""] if any(page["kind"] == kind for page in pages) else []
        for page in (page for page in pages if page["kind"] == kind):
            start = shorten(page["text"].removeprefix(page["title"]), 160, placeholder=" ...")
            lines.append(f"- [{page['title']}]({page['url']}): {start}")
    return "\n".join(lines) + "\n"


def write_words(site: Path) -> None:
    """Write ``_static/pages.js`` and ``llms.txt`` of a built site."""
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    pages = [
        page_words((site / name).read_text(encoding="utf-8"), name) for name in names if not name.startswith(_LEFT_OUT)
    ]
    (site / "llms.txt").write_text(llms_text(pages), encoding="utf-8")
    text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
    (site / "_static" / "pages.js").write_text(f"const PAGES = {text};\n", encoding="utf-8")
