"""Where the source lives, read without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "maxsup"
TESTS = ROOT / "tests"


def parsed_files(folder: Path, pattern: str = "*.py") -> Iterator[tuple[Path, ast.Module]]:
    """Every file under ``folder`` whose name fits, with its syntax tree."""
    for path in sorted(folder.rglob(pattern)):
        yield path, ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def called_name(call: ast.Call) -> str:
    """Last part of what is called: ``assert_close`` in ``torch.testing.assert_close(a, b)``."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
