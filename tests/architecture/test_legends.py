"""A legend inside its axes covers data sooner or later; each belongs to its figure and stands outside."""

import ast
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, called_name, parsed_files


def legends_inside(folder: Path) -> list[str]:
    """Where a legend is drawn that does not stand outside the axes."""
    found = []
    for path, tree in parsed_files(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and called_name(node) == "legend":
                places = [ast.literal_eval(word.value) for word in node.keywords if word.arg == "loc"]
                if not places or not str(places[0]).startswith("outside"):
                    found.append(f"{path.relative_to(folder)}:{node.lineno}")
    return found


def test_every_legend_stands_outside_the_axes() -> None:
    assert legends_inside(PACKAGE) == []


@pytest.mark.parametrize("call", ["axes.legend()", 'axes.legend(loc="upper left")', "figure.legend(handles=handles)"])
def test_a_legend_inside_would_be_seen(tmp_path: Path, call: str) -> None:
    (tmp_path / "plot.py").write_text(call)
    assert legends_inside(tmp_path) == ["plot.py:1"]
