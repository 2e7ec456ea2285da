"""What a training script says about its losses, its mixing and their smoothing. It is read, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import maxsup
from maxsup.core.errors import hint
from maxsup.core.finding import Finding
from maxsup.doctor.common_findings import double_smoothing, schedule_not_advanced, softmax_before_loss
from maxsup.doctor.criterion import (
    CRITERIA,
    MIXERS,
    Smoother,
    examine_criterion,
    examine_mixup,
    smoothed_twice,
    with_options,
)
from maxsup.doctor.script_values import Values, branches, called_name, is_exclusive, is_nested, original_names

# Functions and registered names that stand for a class.
_FUNCTIONS = {
    "cross_entropy": "CrossEntropyLoss",
    "label_smoothing_cross_entropy": "LabelSmoothingLoss",
    "maxsup_cross_entropy": "MaxSupLoss",
    "maxsup_penalty": "MaxSupLoss",
}
_CREATED = {"ce": "CrossEntropyLoss", "ls": "LabelSmoothingLoss", "maxsup": "MaxSupLoss"}
# Classes whose first argument is their strength.
_STRENGTH_FIRST = ("MaxSupLoss", "LabelSmoothingLoss", "LabelSmoothingCrossEntropy", "BinaryCrossEntropy")
_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig")
_KNOWN = CRITERIA | MIXERS
# The option that holds the strength of what a script may call.
_OPTIONS = {name: known.option for name, known in _KNOWN.items()}
_OPTIONS |= dict.fromkeys(_ARGUMENTS, "label_smoothing_factor")
_EVALUATION = ("val", "eval", "test")
# Each of these advances a schedule.
_ADVANCING = ("set_progress", "MaxSupCallback", "TrainerLoss", "TrainerLossCallback", "use_linear_loss",
              "LinearSFTTrainer")  # fmt: skip


@dataclass(frozen=True)
class _Call:
    """A loss, a mixing or the arguments of a trainer, at its place in the script."""

    node: ast.Call
    name: str
    option: str  # that holds its strength
    given: dict[str, Any]  # numbers by option; None where the script does not say the number
    variable: str

    @property
    def strength(self) -> float | None:
        """What its option is set to, 0 where it is not set; None where the script does not say it."""
        return self.given.get(self.option, 0.0)

    @property
    def smoother(self) -> Smoother:
        """What a loss or a mixing does; a strength that is not known counts as 0."""
        given = {name: number for name, number in self.given.items() if number is not None}
        if self.strength is None:
            given[self.option] = 0.0
        return with_options(_KNOWN[self.name], given)

    @property
    def is_evaluation(self) -> bool:
        return any(part.startswith(_EVALUATION) for part in self.variable.lower().split("_"))


def examine_script(source: str) -> list[Finding]:
    r"""What is wrong with a training script, from its text alone.

    Names are followed through imports, values through constants and the defaults of argparse. A loss and a mixing in
    branches that exclude each other are not examined together.

    Example:
        >>> source = "from maxsup import MaxSupLoss\nloss = MaxSupLoss(0.1)\nmixup_fn = Mixup(mixup_alpha=0.8)"
        >>> [finding] = examine_script(source)
        >>> finding.sentence
        'Line 2: Targets are smoothed twice: by MaxSup in MaxSupLoss (alpha=0.1) and by Mixup (label_smoothing=0.1).'
    """
    try:
        tree = ast.parse(source)
    except (MemoryError, RecursionError, SyntaxError, ValueError) as error:
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ValueError(f"script must be Python that can be read; got an error{where}: {error}. Repair it.") from None
    calls = list(_calls(tree))
    losses = [call for call in calls if call.name in CRITERIA]
    training = [loss for loss in losses if not loss.is_evaluation]
    found = [*_examine_imports(tree), *_examine_sums(tree, training), *_examine_use(tree, losses)]
    found += _examine_skorch(tree)
    for loss in training:
        found += _with_line(loss.node, examine_criterion(loss.smoother))
        for other in calls:
            if other.name not in CRITERIA:
                found += _examine_pair(tree, loss, other)
    for loss in losses:
        if loss.is_evaluation:
            found += _with_line(loss.node, examine_criterion("CrossEntropyLoss()", evaluation_criterion=loss.smoother))
    return list(dict.fromkeys(found))


def _calls(tree: ast.Module) -> Iterator[_Call]:
    names, values, variables = original_names(tree), Values(tree), _variables(tree)
    for node in _all_calls(tree):
        name = called_name(node, names)
        name = _FUNCTIONS.get(name, name)
        first = node.args[0] if node.args else None
        if name == "create_loss" and isinstance(first, ast.Constant):
            name, first = _CREATED.get(str(first.value), ""), None
        if name not in _OPTIONS:
            continue
        option = _OPTIONS[name]
        given = {word.arg: word.value for word in node.keywords if word.arg}
        if name in _STRENGTH_FIRST and called_name(node, names) == name and first is not None:
            given.setdefault(option, first)
        numbers = {key: values.of(value) for key, value in given.items() if key in (option, "ignore_index")}
        yield _Call(node, name, option, numbers, variables.get(node, ""))


def _variables(tree: ast.Module) -> dict[ast.AST, str]:
    """The name that a call is assigned to, for ``self.criterion`` the last part."""
    found: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        made = {node.value, *_receivers(node.value)}
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name | ast.Attribute):
                found |= dict.fromkeys(made, target.id if isinstance(target, ast.Name) else target.attr)
    return found


def _receivers(value: ast.expr) -> Iterator[ast.expr]:
    """The calls before the last, such as ``MaxSupLoss()`` in ``MaxSupLoss().to(device)``."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
        yield value


def _examine_imports(tree: ast.Module) -> Iterator[Finding]:
    """Names that are imported from this package and are not there."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] != "maxsup":
            continue
        known = _importable_names(str(node.module))
        for alias in node.names:
            if known and alias.name not in {*known, "*"}:
                sentence = f"Line {node.lineno}: {node.module} has no {alias.name!r}."
                yield Finding("unknown_name", "error", sentence, hint(alias.name, known))


def _importable_names(module: str) -> set[str]:
    """What can be imported from a module of this package, read from its file; empty if there is no such file."""
    path = Path(maxsup.__file__).parent.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.is_file():
        return set()
    inside = {entry.stem for entry in path.iterdir() if entry.stem[0] != "_"} if path.is_dir() else set()
    inside |= set(maxsup.__all__) if module == "maxsup" else set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    # Names that a package offers on demand are imported in its block for type checkers.
    for node in [*tree.body, *(inner for block in tree.body if isinstance(block, ast.If) for inner in block.body)]:
        if isinstance(node, ast.ImportFrom | ast.Import):
            inside |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            inside |= {target.id for target in targets if isinstance(target, ast.Name)}
    return inside


def _examine_pair(tree: ast.Module, loss: _Call, other: _Call) -> Iterator[Finding]:
    """What a loss does together with a mixing or with the arguments of a trainer."""
    where, elsewhere = branches(tree, loss.node), branches(tree, other.node)
    if is_exclusive(where, elsewhere):
        return
    smoother = loss.smoother
    if other.strength is None and smoother.method == "MaxSup" and smoother.strength > 0:
        what = f"Line {other.node.lineno}: the script does not say how much {other.name} smooths ({other.option})."
        fix = f"Make sure that {other.option} is 0: MaxSup takes the place of label smoothing."
        yield Finding("unknown_smoothing", "note", what, fix)
    found: list[Finding] = []
    if other.name in MIXERS:
        found += examine_mixup([smoother], other.smoother)
    elif (other.strength or 0.0) > 0 and smoother.strength > 0:
        words = f"{other.name} ({other.option}={other.strength:g})"
        fix = f"Set {other.option} to 0: {smoother.name} is the loss."
        found.append(double_smoothing(smoother.described, words, fix))
    for one in found:
        if not is_nested(where, elsewhere):
            sentence = f"where line {other.node.lineno} is reached too, {one.sentence[0].lower()}{one.sentence[1:]}"
            one = replace(one, level="warning", sentence=sentence)
        yield from _with_line(loss.node, [one])


def _examine_sums(tree: ast.Module, losses: list[_Call]) -> Iterator[Finding]:
    """A sum of MaxSup and a smoothed loss, made on the spot or called by its variable."""
    by_variable: dict[str, list[_Call]] = {}
    for loss in losses:
        by_variable.setdefault(loss.variable, []).append(loss)
    by_node = {loss.node: loss for loss in losses}
    for node in ast.walk(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        added: list[Smoother] = []
        for call in _all_calls(node):
            # A variable that is assigned twice is one of several losses, not their sum.
            meant = [by_node[call]] if call in by_node else by_variable.get(called_name(call, {}), [])
            added += [meant[0].smoother] if len(meant) == 1 else []
        yield from _with_line(node, smoothed_twice(added))


def _examine_use(tree: ast.Module, losses: list[_Call]) -> Iterator[Finding]:
    """A softmax before a loss, and a schedule that nobody advances."""
    names = original_names(tree)
    variables = {loss.variable for loss in losses if loss.variable}
    soft = {name for made, name in _variables(tree).items() if _is_call(made, names, "softmax")}
    for node in _all_calls(tree):
        if node.args and called_name(node, names) in variables | {"cross_entropy"}:
            first = node.args[0]
            if _is_call(first, names, "softmax") or (isinstance(first, ast.Name) and first.id in soft):
                yield softmax_before_loss(f"Line {node.lineno}: the loss gets the output of a softmax.")
    words = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in ast.walk(tree)}
    for loss in losses:
        given = [word.value for word in loss.node.keywords if word.arg == loss.option] + loss.node.args[:1]
        is_scheduled = any(_is_call(value, names, "Linear", "Cosine", "Piecewise") for value in given)
        if loss.name == "MaxSupLoss" and is_scheduled and words.isdisjoint(_ADVANCING):
            yield schedule_not_advanced(f"Line {loss.node.lineno}: alpha follows a schedule")


def _examine_skorch(tree: ast.Module) -> Iterator[Finding]:
    """A classifier of skorch that takes the logits under our loss for probabilities."""
    names = original_names(tree)
    for node in _all_calls(tree):
        if called_name(node, names) != "NeuralNetClassifier":
            continue
        given = {word.arg: word.value for word in node.keywords}
        criterion = given.get("criterion")
        is_ours = isinstance(criterion, ast.Name) and names.get(criterion.id, criterion.id) == "MaxSupLoss"
        if is_ours and "predict_nonlinearity" not in given:
            sentence = f"Line {node.lineno}: predict_proba of NeuralNetClassifier gives logits with MaxSupLoss."
            fix = "Use RegularizedClassifier of maxsup.integrations.skorch in its place."
            yield Finding("logits_as_probabilities", "error", sentence, fix)


def _all_calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _is_call(node: ast.AST, names: dict[str, str], *called: str) -> bool:
    return isinstance(node, ast.Call) and called_name(node, names) in called


def _with_line(node: ast.expr, found: list[Finding]) -> Iterator[Finding]:
    for one in found:
        yield replace(one, sentence=f"Line {node.lineno}: {one.sentence}")
