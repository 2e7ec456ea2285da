"""Numbers in the tables of the paper's LaTeX source."""

from __future__ import annotations

import re
from dataclasses import dataclass

Number = tuple[float, float | None]

# Cells of a row that hold numbers; elsewhere the first cell is a title and the rest are numbers.
_CELLS = {
    "tab:pre": slice(-1, None),
    "tab:alpha": slice(2, 4),
    "tab:lt": slice(-4, None),
    "tab:miou": slice(-1, None),
}
# Macros whose last argument is what is printed.
_WRAPPERS = re.compile(
    r"\\(?:textbf|underline|text|textcolor\{\w+\}|multicolumn\{\d\}\{[^}]*\}|multirow\{\d\}\{\*\})\s*\{([^{}]*)\}"
)
_NUMBER = re.compile(r"^(\d+(?:\.\d+)?)(?:±(\d+\.\d+)|\((\d+\.\d+)\))?$")
_DURATION = re.compile(r"^(\d+) min (\d+) s$")


@dataclass(frozen=True)
class TexRow:
    """What a row is called, and its numbers with their spreads."""

    title: str
    numbers: list[Number]


def table_labels(tex: str) -> set[str]:
    """Labels of all tables that have a tabular under or above them in their environment."""
    return set(re.findall(r"\\label\{((?:app:)?tab:[^}]+)\}", tex))


def table_rows(tex: str, label: str) -> list[TexRow]:
    """The rows with numbers of the table under a label."""
    start = tex.index(f"\\label{{{label}}}")
    body = tex[tex.index("\\begin{tabular}", start) : tex.index("\\end{tabular}", start)]
    rows = []
    for line in body.split("\\\\"):
        cells = [_plain(cell) for cell in line.split("&")]
        chosen = cells[_CELLS.get(label, slice(1, None))]
        numbers = [number for cell in chosen if (number := _number(cell)) is not None]
        if label == "tab:deit-small-comparison" and len(numbers) == 2:
            # Mean and standard deviation have a column each.
            numbers = [(numbers[0][0], numbers[1][0])]
        if numbers:
            titles = cells[: len(cells) - len(chosen)]
            rows.append(TexRow(titles[-1] if label in ("tab:lt", "tab:miou") else titles[0], numbers))
    return rows


def _number(cell: str) -> Number | None:
    if found := _DURATION.match(cell):
        return 60.0 * int(found[1]) + int(found[2]), None
    if found := _NUMBER.match(cell):
        spread = found[2] or found[3]
        return float(found[1]), float(spread) if spread else None
    return None


def _plain(cell: str) -> str:
    """A cell without what only sets its type: rules, fonts, differences to another row in brackets."""
    text = re.sub(r"\\(?:hline|midrule|toprule|bottomrule|cmidrule(?:\([lr]+\))?\{[^}]*\})", "", cell)
    text = text.replace("\\pm", "±").replace("$", "").replace("\\(", "(").replace("\\)", ")")
    text = re.sub(r"\(\(?\+\d+\.\d+\)?\)", "", text)
    while (shorter := _WRAPPERS.sub(r"\1", text)) != text:
        text = shorter
    # Spaces around ± are not the same in all tables.
    return re.sub(r"\s*±\s*", "±", " ".join(text.split()))
