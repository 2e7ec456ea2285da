"""Check a training script by its source. The script is parsed, never run.

Only mistakes that nothing else in the script can correct are reported. Those that depend on flags, other files or the
order of calls are left to the losses, which check their first step (``losses/first_step.py``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import maxsup
from maxsup.core.errors import hint
from maxsup.core.finding import Finding
from maxsup.doctor.common_findings import double_smoothing, schedule_not_advanced, softmax_before_loss
from maxsup.doctor.criterion import MIXERS

_MIXUP = MIXERS["Mixup"]
_LOSSES = ("CrossEntropyLoss", "MaxSupLoss", "LabelSmoothingLoss", "create_loss")
_MOVES = ("to", "cuda", "cpu", "train")
_SCHEDULES = ("Linear", "Cosine", "Piecewise")
# Parts of this package that advance the schedule of a loss.
_ADVANCING = ("maxsup.integrations", "maxsup.lab.training")


def examine_script(source: str) -> list[Finding]:
    r"""Check the source of a training script, and return the findings.

    Example:
        >>> source = "from maxsup import MaxSupLoss\nfrom timm.data import Mixup\n"
        >>> [finding] = examine_script(source + "loss = MaxSupLoss(0.1)\nmixup_fn = Mixup(mixup_alpha=0.8)")
        >>> finding.sentence
        'Line 3: Targets are smoothed twice: by MaxSup in MaxSupLoss and by Mixup (label_smoothing=0.1).'
    """
    try:
        tree = ast.parse(source)
    except (MemoryError, RecursionError, SyntaxError, ValueError) as error:
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ValueError(f"script must be valid Python; got an error{where}: {error}. Repair it.") from None
    script = _Script(tree)
    found = [
        *_examine_imports(tree),
        *_examine_mixup(script),
        *_examine_softmax(script),
        *_examine_schedules(script),
        *_examine_skorch(script),
    ]
    return list(dict.fromkeys(found))


class _Script:
    """The calls of a script, by the full names that follow from its imports."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.imported: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.imported |= {each.asname: each.name for each in node.names if each.asname}
            elif isinstance(node, ast.ImportFrom):
                self.imported |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def full_name(self, node: ast.AST) -> str:
        """Return a full name such as ``torch.nn.CrossEntropyLoss``, empty for any other expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts, node = [node.attr, *parts], node.value
        return ".".join([self.imported.get(node.id, node.id), *parts]) if isinstance(node, ast.Name) else ""

    def called(self, package: str, *names: str) -> list[ast.Call]:
        """Return the calls of these names of a package, in any of its modules."""
        return [call for call in self.calls if self.is_of(call.func, package, *names)]

    def is_of(self, node: ast.AST, package: str, *names: str) -> bool:
        """Return True if an expression is one of these names of a package."""
        first, _, rest = self.full_name(node).partition(".")
        return first == package and rest.rpartition(".")[2] in names

    def conditions(self, node: ast.AST) -> dict[ast.AST, str]:
        """Return the conditions around a node, each with the branch that holds the node."""
        parents = {child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)}
        found: dict[ast.AST, str] = {}
        while node in parents:
            child, node = node, parents[node]
            if isinstance(node, ast.If | ast.IfExp):
                body = node.body if isinstance(node, ast.If) else [node.body]
                found[node] = "body" if child in body else "orelse"
        return found


def _examine_imports(tree: ast.Module) -> Iterator[Finding]:
    """Report names imported from this package that do not exist."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] != "maxsup":
            continue
        known = _importable_names(str(node.module))
        for alias in node.names:
            if known and alias.name not in {*known, "*"}:
                sentence = f"Line {node.lineno}: {node.module} has no {alias.name!r}."
                yield Finding("unknown_name", "error", sentence, hint(alias.name, known))


def _importable_names(module: str) -> set[str]:
    """Return the names that a module of this package offers, read from its file, or none if it has no file."""
    path = Path(maxsup.__file__).parent.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        return set()
    inside = {entry.stem for entry in path.iterdir() if entry.stem[0] != "_"} if path.is_dir() else set()
    inside |= set(maxsup.__all__) if module == "maxsup" else set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    # Lazily imported names are listed in the package's block for type checkers.
    for node in [*tree.body, *(inner for block in tree.body if isinstance(block, ast.If) for inner in block.body)]:
        if isinstance(node, ast.ImportFrom | ast.Import):
            inside |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            inside |= {target.id for target in targets if isinstance(target, ast.Name)}
    return inside


def _examine_mixup(script: _Script) -> Iterator[Finding]:
    """Report MaxSup together with a timm Mixup that smooths by default or by a number in the script."""
    losses = script.called("maxsup", "MaxSupLoss", "maxsup_cross_entropy")
    losses += [call for call in script.called("maxsup", "create_loss") if _literal(call.args[:1]) == "maxsup"]
    for mixup in script.called("timm", "Mixup"):
        given = {word.arg: word.value for word in mixup.keywords}
        value = _literal([given[_MIXUP.option]]) if _MIXUP.option in given else _MIXUP.strength
        if mixup.args or None in given or not isinstance(value, int | float) or value <= 0:
            continue
        for loss in losses:
            where, elsewhere = script.conditions(loss).items(), script.conditions(mixup).items()
            if where <= elsewhere or elsewhere <= where:
                words = f"Mixup ({_MIXUP.option}={value:g})"
                fix = "Set the smoothing of the mixing to 0: Mixup(label_smoothing=0); mixed labels may stay."
                yield _at(loss, double_smoothing("MaxSup in MaxSupLoss", words, fix))


def _examine_softmax(script: _Script) -> Iterator[Finding]:
    """Report a softmax in the call of a loss."""
    variables = _criteria(script)
    for call in script.calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        is_loss = name in variables or script.is_of(call.func, "torch", "cross_entropy")
        if is_loss and call.args and _is_softmax(call.args[0]):
            yield _at(call, softmax_before_loss("The loss gets the output of a softmax."))


def _criteria(script: _Script) -> set[str]:
    """Return variables and attributes that only ever hold losses with a built-in softmax."""
    assigned: dict[str, list[bool]] = {}
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        made = node.value
        while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _MOVES:
            made = made.func.value
        is_loss = isinstance(made, ast.Call) and (
            script.is_of(made.func, "torch", "CrossEntropyLoss") or script.is_of(made.func, "maxsup", *_LOSSES)
        )
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name | ast.Attribute):
                name = target.id if isinstance(target, ast.Name) else target.attr
                assigned.setdefault(name, []).append(is_loss)
    return {name for name, are_losses in assigned.items() if all(are_losses)}


def _is_softmax(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) == "softmax"


def _examine_schedules(script: _Script) -> Iterator[Finding]:
    """Report a schedule that nothing in the script advances."""
    is_advanced = any(isinstance(node, ast.Attribute) and node.attr == "set_progress" for node in ast.walk(script.tree))
    if is_advanced or any(name.startswith(_ADVANCING) for name in script.imported.values()):
        return
    for loss in script.called("maxsup", "MaxSupLoss"):
        given = [word.value for word in loss.keywords if word.arg == "alpha"] + loss.args[:1]
        if any(isinstance(each, ast.Call) and script.is_of(each.func, "maxsup", *_SCHEDULES) for each in given):
            yield _at(loss, schedule_not_advanced("Alpha follows a schedule"))


def _examine_skorch(script: _Script) -> Iterator[Finding]:
    """Report a skorch classifier that returns logits as probabilities with our loss."""
    for call in script.called("skorch", "NeuralNetClassifier"):
        given = {word.arg: word.value for word in call.keywords}
        is_ours = "criterion" in given and script.is_of(given["criterion"], "maxsup", "MaxSupLoss")
        if is_ours and not {"predict_nonlinearity", None} & given.keys():
            sentence = "With MaxSupLoss, predict_proba of NeuralNetClassifier returns logits."
            fix = "Use RegularizedClassifier of maxsup.integrations.skorch instead."
            yield _at(call, Finding("logits_as_probabilities", "error", sentence, fix))


def _literal(nodes: list[ast.expr]) -> Any:
    """Return the value of a single literal, None for anything else."""
    return nodes[0].value if len(nodes) == 1 and isinstance(nodes[0], ast.Constant) else None


def _at(node: ast.expr, found: Finding) -> Finding:
    return replace(found, sentence=f"Line {node.lineno}: {found.sentence}")
