"""What a training run fed to its MaxSup criterion, and what the plain loops of tests/reference make of that."""

import math
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from maxsup import MaxSupLoss
from tests.architecture.source import ROOT
from tests.reference.losses import maxsup


class Call(NamedTuple):
    """One call of a criterion."""

    logits: Tensor
    target: Tensor
    alpha: float
    ignore_index: int
    is_training: bool
    value: float


@contextmanager
def captured_calls() -> Iterator[list[Call]]:
    """Every call of any MaxSupLoss within the block, wherever the loss was made."""
    calls: list[Call] = []

    def keep(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if isinstance(module, MaxSupLoss):
            logits, target = (argument.detach().clone() for argument in args)
            calls.append(Call(logits, target, module.alpha, module.ignore_index, module.training, output.item()))

    hook = register_module_forward_hook(keep)
    try:
        yield calls
    finally:
        hook.remove()


def reference_mean(*calls: Call) -> float:
    """Mean MaxSup over the targets that count in all calls, one sample or pixel after the other."""
    values: list[float] = []
    for call in calls:
        rows = call.logits.double().movedim(1, -1).reshape(-1, call.logits.shape[1]).tolist()
        is_mixed = call.target.is_floating_point()
        targets: list[Any] = (call.target.double() if is_mixed else call.target.reshape(-1)).tolist()
        pairs = [(z, y) for z, y in zip(rows, targets, strict=True) if y != call.ignore_index]
        values += [maxsup(z, y, alpha=call.alpha) for z, y in pairs]
    return math.fsum(values) / len(values)


def run_example(name: str, **options: Any) -> tuple[list[float], list[Call]]:
    """What ``main`` of ``examples/NAME.py`` returns, and the calls of its criterion."""
    with captured_calls() as calls:
        losses = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](**options)
    return losses, calls
