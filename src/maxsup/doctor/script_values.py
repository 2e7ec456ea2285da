"""Names, values and branches of a Python script, from its syntax tree."""

from __future__ import annotations

import ast
from typing import Any

Branches = dict[ast.AST, str]
"""The conditions that a place stands under, each with the arm it is in."""


def original_names(tree: ast.Module) -> dict[str, str]:
    """The original of every name that ``import ... as`` renames."""
    return {
        alias.asname: alias.name.rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }


def called_name(call: ast.Call, names: dict[str, str]) -> str:
    """The last part of what is called, under its original name; empty for other expressions."""
    if isinstance(call.func, ast.Name):
        return names.get(call.func.id, call.func.id)
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


class Values:
    """Numbers of a script: literals, constants that are assigned once, and defaults of argparse."""

    def __init__(self, tree: ast.Module) -> None:
        assigned: dict[str, list[ast.expr]] = {}
        self._defaults: dict[str, ast.expr] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        assigned.setdefault(target.id, []).append(node.value)
            elif isinstance(node, ast.Call) and called_name(node, {}) == "add_argument":
                flags = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                given = {word.arg: word.value for word in node.keywords}
                long = [flag for flag in flags if flag.startswith("--")] or flags
                if long and "default" in given:
                    self._defaults[long[0].lstrip("-").replace("-", "_")] = given["default"]
        self._constants = {name: values[0] for name, values in assigned.items() if len(values) == 1}

    def of(self, node: ast.expr) -> Any:
        """The number that an expression stands for; None where the script does not say it."""
        if isinstance(node, ast.Name):
            node = self._constants.get(node.id, node)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            node = self._defaults.get(node.attr, node)
        try:
            value = ast.literal_eval(node)
        except (MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
            return None
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def branches(tree: ast.Module, node: ast.AST) -> Branches:
    """The conditions around a node."""
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    found: Branches = {}
    while node in parents:
        child, node = node, parents[node]
        if isinstance(node, ast.If | ast.IfExp):
            body = node.body if isinstance(node, ast.If) else [node.body]
            found[node] = "body" if child in body else "orelse"
    return found


def is_exclusive(first: Branches, second: Branches) -> bool:
    """Whether two places are in different arms of one condition."""
    return any(second.get(condition, arm) != arm for condition, arm in first.items())


def is_nested(first: Branches, second: Branches) -> bool:
    """Whether one place is always reached where the other is, as far as conditions go."""
    return first.items() <= second.items() or second.items() <= first.items()
