"""Rules that every file keeps, each with planted code that would break it."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, TESTS, called_name, parsed_files

Rule = Callable[[ast.AST], bool]


def unsafe_load(node: ast.AST) -> bool:
    """A checkpoint from elsewhere must not run code: torch.load always gets weights_only=True, under its own name."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load"), keywords=keywords):
            return not any(
                word.arg == "weights_only" and isinstance(word.value, ast.Constant) and word.value.value is True
                for word in keywords
            )
        case ast.ImportFrom(module="torch", names=names):
            return any(alias.name == "load" for alias in names)
    return False


def legend_inside(node: ast.AST) -> bool:
    """A legend inside its axes covers data sooner or later; each belongs to its figure and stands outside."""
    if not isinstance(node, ast.Call) or called_name(node) != "legend":
        return False
    places = [ast.literal_eval(word.value) for word in node.keywords if word.arg == "loc"]
    return not places or not str(places[0]).startswith("outside")


def silent_test(node: ast.AST) -> bool:
    """A test that asserts nothing passes for ever."""
    is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    return is_test and not any(map(can_fail, ast.walk(node)))


def can_fail(node: ast.AST) -> bool:
    """Whether a node is an assert, pytest.raises, warns or refused, or a call of a helper that is named so."""
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    name = called_name(node) if isinstance(node, ast.Call) else ""
    return name in {"raises", "refused", "warns"} or name.startswith(("assert_", "check_"))


def broken(rule: Rule, folder: Path, pattern: str = "*.py") -> list[str]:
    """Where a rule is broken."""
    return [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path, tree in parsed_files(folder, pattern)
        for node in ast.walk(tree)
        if rule(node)
    ]


@pytest.mark.parametrize(
    ("rule", "folder", "pattern"),
    [(unsafe_load, PACKAGE, "*.py"), (legend_inside, PACKAGE, "*.py"), (silent_test, TESTS, "test_*.py")],
)
def test_no_file_breaks_the_rule(rule: Rule, folder: Path, pattern: str) -> None:
    assert broken(rule, folder, pattern) == []


@pytest.mark.parametrize(
    ("rule", "line", "is_broken"),
    [
        (unsafe_load, "torch.load(path)", True),
        (unsafe_load, "torch.load(path, weights_only=False)", True),
        (unsafe_load, "torch.load(path, weights_only=flag)", True),
        (unsafe_load, "torch.load(path, **options)", True),
        (unsafe_load, "from torch import load", True),
        (unsafe_load, "torch.load(path, map_location='cpu', weights_only=True)", False),
        (unsafe_load, "json.load(file)", False),
        (legend_inside, "axes.legend()", True),
        (legend_inside, 'axes.legend(loc="upper left")', True),
        (legend_inside, "figure.legend(handles=handles)", True),
        (silent_test, "pass", True),
        (silent_test, "assert True", True),
        (silent_test, "print(check)", True),
        (silent_test, "assert value == 1", False),
        (silent_test, "with pytest.raises(ValueError): f()", False),
        (silent_test, "with pytest.warns(UserWarning): f()", False),
        (silent_test, "torch.testing.assert_close(a, b)", False),
        (silent_test, "check_gradients(loss)", False),
        (silent_test, "for x in y: assert torch.autograd.gradcheck(f, x)", False),
    ],
)
def test_planted_code_that_breaks_the_rule_is_found(tmp_path: Path, rule: Rule, line: str, is_broken: bool) -> None:
    if rule is silent_test:
        line = f"class TestPlanted:\n    def test_it(self):\n        {line}"
    (tmp_path / "planted.py").write_text(line + "\n")
    place = 2 if rule is silent_test else 1
    assert broken(rule, tmp_path) == [f"planted.py:{place}"] * is_broken
