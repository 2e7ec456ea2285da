"""A card for each loss: its formula, its gradient, what it costs and needs, and where it is from."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import maxsup
from tools.site import drawing
from tools.site.costs import cost_rows, measured_when
from tools.site.rst import code, document, figure, hidden_toctree, listing, prose, table, titled

_FUNCTION = re.compile(r":func:`(\w+)`")
_MATH = re.compile(r"\.\. math::(.+?)(?=\n\s*\n)", re.DOTALL)
SLOPE_CAPTION = (
    "The push on the true logit as it grows past its rivals, which stay at 2, 0.5, -1 and 0. "
    "Above 0 it is raised, below 0 it is lowered; dashed is cross-entropy."
)


def pages(root: Path) -> dict[str, str]:
    """A page for every registered loss, and the list of them."""
    rows = maxsup.losses.describe_losses()
    made = {f"losses/{row['name']}.rst": card(row, root) for row in rows}
    return {**made, "losses/index.rst": _index(rows)}


def card(row: Mapping[str, Any], root: Path) -> str:
    """The page of one loss, from what ``describe_losses`` says of it and from its docstrings."""
    name = row["name"]
    kind = maxsup.losses.LOSSES[name]
    function = kind.function
    return document(
        titled(f"{name}: {prose(row['summary'].partition(':')[0])}", "="),
        _summary(function.__doc__),
        formula_of(function),
        figure(drawing.gradients(name), _caption(row)),
        figure(drawing.slope(name), SLOPE_CAPTION),
        table(["", ""], _facts(row, kind.__name__, function.__name__)),
        titled("About", "-"),
        about(str(sys.modules[kind.__module__].__doc__)),
        titled("Cost", "-"),
        _cost(name, root),
        titled("Reference", "-"),
        f".. autoclass:: maxsup.losses.{kind.__name__}\n   :members:\n   :show-inheritance:",
        f".. autofunction:: maxsup.functional.{function.__name__}",
    )


def formula_of(function: Any) -> str:
    """The formula in a function's docstring, as a directive."""
    found = _MATH.search(inspect.cleandoc(str(function.__doc__)) + "\n\n")
    if found is None:
        raise ValueError(f"the docstring of {function.__name__} must have a formula; got none. Add a math directive.")
    return f".. math:: {' '.join(found[1].split())}"


def about(docstring: str) -> str:
    """The card in a module's docstring: a sentence, then an item for each of its bold words; tables stay."""
    first, _, rest = inspect.cleandoc(docstring).partition("\n\n")
    parts = re.split(r"(?:^|\s)(?=\*\*[A-Z])", rest)
    items = ["\n\n".join(map(_block, part.strip().split("\n\n"))) for part in parts if part.strip()]
    return "\n\n".join([" ".join(first.split()), listing(items)])


def _block(text: str) -> str:
    return text if text.startswith("==") else " ".join(text.split())


def _summary(docstring: str | None) -> str:
    first = inspect.cleandoc(str(docstring)).partition("\n\n")[0]
    return _FUNCTION.sub(r"``\1``", " ".join(first.split()))


def _facts(row: Mapping[str, Any], class_name: str, function_name: str) -> list[list[str]]:
    default = "none" if row["strength"] is None else f"``{row['strength']}={row['default']:g}``"
    return [
        ["Make it", code(f'maxsup.create_loss("{row["name"]}")')],
        ["Module", f":py:class:`~maxsup.losses.{class_name}`"],
        ["Function", f":py:func:`~maxsup.functional.{function_name}`"],
        ["Strength", default],
        ["Needs", ", ".join(code(need) for need in row["needs"]) or "logits and targets, nothing else"],
        ["From", row["source"]],
        ["In words of the program", code(row["formula"])],
    ]


def _caption(row: Mapping[str, Any]) -> str:
    has_teacher = "teacher_logits" in row["needs"]
    taught = ", with a teacher that gives the true class half of the probability" if has_teacher else ""
    return (
        f"How one step moves five logits (the negative gradient), with its defaults{taught}. "
        "Grey is plain cross-entropy. Left the network is right; right it prefers class 0 while class 4 is true."
    )


def _cost(name: str, root: Path) -> str:
    rows = cost_rows(root, name)
    if not rows:
        return "Not measured yet; ``python -m benchmarks catalogue`` does it."
    header = ["logits", "time against torch's label smoothing", "peak memory, in logits"]
    return table(header, rows) + f"\n\n{measured_when(root)} :doc:`All losses <../cost>`."


def _index(rows: list[dict[str, Any]]) -> str:
    cells = [
        [
            f":doc:`{row['name']} <{row['name']}>`",
            prose(row["summary"]),
            "" if row["strength"] is None else f"``{row['strength']}={row['default']:g}``",
        ]
        for row in rows
    ]
    return document(
        titled("Losses", "="),
        f"{len(rows)} objectives under one contract, that of ``nn.CrossEntropyLoss``. "
        "Each has a name for :py:func:`maxsup.create_loss`, a module and a pure function. "
        "Evaluation mode makes every one of them plain cross-entropy.",
        table(["name", "objective", "default"], cells),
        hidden_toctree(f"{row['name']} <{row['name']}>" for row in rows),
    )
