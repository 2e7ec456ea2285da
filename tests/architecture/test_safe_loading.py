"""A checkpoint from elsewhere must not run code: torch.load always gets weights_only=True."""

import ast
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, parsed_files


def unsafe_loads(folder: Path) -> list[str]:
    """Where torch.load is called without weights_only=True, or imported under a name that hides it."""
    found = []
    for path, tree in parsed_files(folder):
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load"), keywords=keywords):
                    unsafe = not any(
                        word.arg == "weights_only" and isinstance(word.value, ast.Constant) and word.value.value is True
                        for word in keywords
                    )
                case ast.ImportFrom(module="torch", names=names):
                    unsafe = any(alias.name == "load" for alias in names)
                case _:
                    unsafe = False
            if unsafe:
                found.append(f"{path.relative_to(folder)}:{node.lineno}")
    return found


def test_torch_load_is_always_restricted_to_weights() -> None:
    assert unsafe_loads(PACKAGE) == []


@pytest.mark.parametrize(
    ("line", "unsafe"),
    [
        ("torch.load(path)", True),
        ("torch.load(path, weights_only=False)", True),
        ("torch.load(path, weights_only=flag)", True),
        ("torch.load(path, **options)", True),
        ("from torch import load", True),
        ("torch.load(path, map_location='cpu', weights_only=True)", False),
        ("json.load(file)", False),
    ],
)
def test_the_walk_finds_a_planted_unsafe_load(tmp_path: Path, line: str, unsafe: bool) -> None:
    (tmp_path / "planted.py").write_text(line + "\n")
    assert unsafe_loads(tmp_path) == ["planted.py:1"] * unsafe
