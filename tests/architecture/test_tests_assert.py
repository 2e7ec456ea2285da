"""A test that asserts nothing passes for ever, so there is none."""

import ast
from pathlib import Path

import pytest

from tests.architecture.source import TESTS, called_name, parsed_files


def asserts_something(node: ast.AST) -> bool:
    """Whether a statement below ``node`` can fail: assert, pytest.raises or warns, or a helper named for checking."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert) and not isinstance(inner.test, ast.Constant):
            return True
        if isinstance(inner, ast.Call):
            name = called_name(inner)
            if name in {"raises", "warns"} or name.startswith(("assert_", "check_")):
                return True
    return False


def silent_tests(folder: Path) -> list[str]:
    """Where a test function that asserts nothing is defined."""
    return [
        f"{path.relative_to(folder)}:{node.lineno} {node.name}"
        for path, tree in parsed_files(folder, "test_*.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test")
        and not asserts_something(node)
    ]


def test_every_test_asserts_something() -> None:
    assert silent_tests(TESTS) == []


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        ("pass", True),
        ("assert True", True),
        ("print(check)", True),
        ("assert value == 1", False),
        ("with pytest.raises(ValueError): f()", False),
        ("with pytest.warns(UserWarning): f()", False),
        ("torch.testing.assert_close(a, b)", False),
        ("check_gradients(loss)", False),
        ("for x in y: assert torch.autograd.gradcheck(f, x)", False),
    ],
)
def test_the_walk_finds_a_planted_silent_test(tmp_path: Path, body: str, silent: bool) -> None:
    (tmp_path / "test_planted.py").write_text(f"class TestPlanted:\n  def test_it(self):\n        {body}\n")
    assert silent_tests(tmp_path) == ["test_planted.py:2 test_it"] * silent
