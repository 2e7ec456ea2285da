"""Words of reStructuredText that the generated pages share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

# Nothing is published: an index of packages would give something else under this name.
INSTALL_LAB = "``pip install '.[lab]'`` in a checkout"


def document(*parts: str) -> str:
    """Parts of a page, one under another."""
    return "\n\n".join([*parts, ""])


def titled(title: str, line: str) -> str:
    """A heading, underlined.

    Example:
        >>> print(titled("Cost", "-"))
        Cost
        ----
    """
    return f"{title}\n{line * max(len(title), 3)}"


def code(text: str) -> str:
    """Text as code."""
    return f"``{text}``"


def code_block(language: str, text: str) -> str:
    """Lines of code; ``language`` says how they are coloured."""
    return f".. code-block:: {language}\n\n{textwrap.indent(text, '   ')}"


def hidden_toctree(names: Iterable[str]) -> str:
    """The pages that follow this one in the navigation; a table on the page shows them already."""
    tree = "\n".join(f"   {name}" for name in names)
    return f".. toctree::\n   :hidden:\n\n{tree}"


def escaped(text: str) -> str:
    r"""Text that nobody wrote as reStructuredText, so that none of its signs has a meaning.

    Example:
        >>> print(escaped("a* and `b`"))
        a\* and \`b\`
    """
    kept = "".join(f"\\{sign}" if sign in "\\*`|_" else sign for sign in text)
    # At the beginning these would make a list.
    return f"\\{kept}" if text[:1] in ("+", "-") else kept


def prose(text: str) -> str:
    r"""Text of which `words like these` are code.

    Example:
        >>> print(prose("From `maxsup ls data`, or a*b."))
        From ``maxsup ls data``, or a\*b.
    """
    parts = " ".join(text.split()).split("`")
    return "".join(code(part) if place % 2 else escaped(part) for place, part in enumerate(parts))


def listing(items: Iterable[str]) -> str:
    r"""Items one under another; an item may have several blocks.

    Example:
        >>> print(listing(["a", "b\n\nc"]))
        - a
        - b
        <BLANKLINE>
          c
    """
    return "\n".join(f"- {textwrap.indent(item, '  ')[2:]}" for item in items)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are reStructuredText themselves; without a header where its cells are empty.

    Example:
        >>> print(table(["name", "value"], [["alpha", "0.1"]]))
        .. list-table::
           :header-rows: 1
        <BLANKLINE>
           * - name
             - value
           * - alpha
             - 0.1
    """
    has_header = any(header)
    lines = [list(header)] * has_header + [list(row) for row in rows]
    body = "\n".join(f"{'* - ' if place == 0 else '  - '}{cell}" for line in lines for place, cell in enumerate(line))
    return f".. list-table::\n   :header-rows: {int(has_header)}\n\n{textwrap.indent(body, '   ')}"


def figure(svg: str, caption: str) -> str:
    """Drawings beside one another, and a sentence under them."""
    body = f'<figure class="drawn">{svg}<figcaption>{caption}</figcaption></figure>'
    return ".. raw:: html\n\n" + textwrap.indent(body, "   ")
