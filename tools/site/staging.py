"""The sources that Sphinx reads: the pages of this folder beside those that are generated."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.site import api, cards, commands, costs, explore, listings, results, studies, trainers

# Pages of the repository's root that belong to the site.
ROOT_PAGES = {name: name.lower() for name in ("CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")}
# Its place on the site is beside the page that shows it.
_PICTURES = {"benchmarks/results/losses.png": "benchmarks/losses.png"}
# Folders that have a generated page.
_FOLDERS = {"docs/evidence/results": "evidence/results.rst"}
_COPIED = (".csv", ".json", ".md", ".png", ".py", ".rst", ".svg", ".yaml")
# A link, or a block of code, in which nothing is a link.
_LINK = re.compile(
    r"^(?P<fence>`{3,}).*?^(?P=fence)$|\[(?P<words>[^\]]*)\]\((?P<link>[^)\s]+)\)", re.MULTILINE | re.DOTALL
)
_SKIPPED = ("builder", "_build", "_static", "__pycache__")


def stage(root: Path, target: Path) -> None:
    """Write all sources of the site into ``target``; what did not change keeps its time, so that Sphinx skips it."""
    written = {**copied(root), **generated(root)}
    for path, content in written.items():
        _write(target / path, content)
    # Sphinx-gallery writes into a folder of its own, which stays.
    for path in [found for found in target.rglob("*") if found.is_file()]:
        name = path.relative_to(target).as_posix()
        if name not in written and not name.startswith("examples/"):
            path.unlink()


def generated(root: Path) -> dict[str, str]:
    """Pages that are made from the program and its results, by path."""
    return {
        **cards.pages(root),
        **costs.pages(root),
        **commands.pages(),
        **api.pages(),
        **listings.pages(),
        **studies.pages(root),
        **trainers.pages(root),
        **results.pages(root),
        **explore.files(),
    }


def copied(root: Path) -> dict[str, str | bytes]:
    """Pages and pictures that are written by hand, by path; links lead to where their targets are on the site."""
    places = {path.relative_to(root).as_posix(): _place(path, root) for path in _written_by_hand(root)} | _FOLDERS
    contents: dict[str, str | bytes] = {}
    for path in _written_by_hand(root):
        name, place = path.relative_to(root).as_posix(), _place(path, root)
        if path.suffix != ".md":
            contents[place] = path.read_bytes()
            continue
        contents[place] = with_links(path.read_text(encoding="utf-8"), name, places, root)
    for page, folder, generated_pages in (
        ("evidence/README.md", "evidence", []),
        ("integrations/README.md", "integrations", ["examples"]),
        ("contributing.md", "contributing", []),
    ):
        names = "\n".join(f"/{folder}/{name}" for name in [*_inside(folder, contents), *generated_pages])
        contents[page] = f"{contents[page]}\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    return contents


def _written_by_hand(root: Path) -> Iterator[Path]:
    yield from (root / name for name in ROOT_PAGES | _PICTURES)
    for path in sorted((root / "docs").rglob("*")):
        parts = path.relative_to(root / "docs").parts
        if path.suffix in _COPIED and not set(parts) & set(_SKIPPED) and parts != ("conf.py",):
            yield path


def _place(path: Path, root: Path) -> str:
    name = path.relative_to(root).as_posix()
    return (ROOT_PAGES | _PICTURES).get(name, name.removeprefix("docs/"))


def with_links(text: str, name: str, places: Mapping[str, str], root: Path) -> str:
    """The page with its relative links as they are on the site; each must lead to something that the site has."""
    here = os.path.dirname(_place(root / name, root)) or "."

    def on_the_site(match: re.Match[str]) -> str:
        if match["fence"]:
            return match[0]
        words, link = match["words"], match["link"]
        target, _, anchor = link.partition("#")
        # Generated pages are not here yet; Sphinx and the check of what it built look at links to them.
        if not target or ":" in target or target.endswith(".rst"):
            return match[0]
        meant = os.path.normpath(os.path.join(os.path.dirname(name), target))
        if not (root / meant).exists():
            raise ValueError(f"a link must lead to a file; got {link!r} in {name}. Repair it.")
        if meant == "README.md":
            place, anchor = "index.md", ""
        elif meant in places:
            place = places[meant]
        else:
            raise ValueError(
                f"a link must lead to a page or file of the site; got {link!r} in {name}. Name it as code instead."
            )
        return f"[{words}]({os.path.relpath(place, here)}{'#' * bool(anchor)}{anchor})"

    return _LINK.sub(on_the_site, text)


def _inside(folder: str, contents: Mapping[str, object]) -> list[str]:
    """Pages of a folder without their suffix; its own README leads to them and is left out."""
    names = [name.removeprefix(f"{folder}/") for name in contents if name.startswith(f"{folder}/")]
    pages = [name.removesuffix(".md") for name in names if name.endswith(".md")]
    return sorted(page for page in pages if page != "README")


def _write(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
