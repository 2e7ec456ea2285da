"""The losses that are measured side by side."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.cases import Case
from maxsup.functional import maxsup_cross_entropy
from maxsup.lab.bench.baselines import NO_LABEL, naive_maxsup, torch_cross_entropy, torch_label_smoothing

Loss = Callable[..., Tensor]

YARDSTICK = "torch label smoothing"
OURS = "maxsup"
# Losses of other packages, measured where these are installed; they know rows and hard labels only.
OTHERS = {
    "timm label smoothing": ("ls", "timm.loss", "LabelSmoothingCrossEntropy", {"smoothing": 0.1}),
    "torch-uncertainty MaxSup": ("maxsup", "torch_uncertainty.losses", "CrossEntropyMaxSupLoss", {"max_sup": 0.1}),
}


def gradient(loss: Loss, logits: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    """Forward and backward."""
    return torch.autograd.grad(loss(logits, target), logits)


class Candidate(NamedTuple):
    """A loss as it is timed; ``formula`` names the reference that it must agree with."""

    peer: str
    form: str
    formula: str
    loss: Loss

    @property
    def name(self) -> str:
        return self.peer if self.form == "eager" else f"{self.peer}, compiled"

    @property
    def is_ours(self) -> bool:
        return self.peer == OURS


def candidates(case: Case) -> list[Candidate]:
    """All losses that support a case, eager ones first."""
    losses: dict[str, tuple[str, Loss]] = {
        "torch cross-entropy": ("ce", torch_cross_entropy),
        YARDSTICK: ("ls", torch_label_smoothing),
        "naive MaxSup": ("maxsup", naive_maxsup),
        **(_installed_losses() if case.layout == "rows" and case.ignore_index == NO_LABEL else {}),
        OURS: ("maxsup", maxsup_cross_entropy),
    }
    eager = [
        Candidate(peer, "eager", formula, _with_ignored(loss, case.ignore_index))
        for peer, (formula, loss) in losses.items()
    ]
    compiled = [
        one._replace(form="compiled", loss=torch.compile(one.loss, dynamic=False))
        for one in eager
        if one.peer in case.compiled
    ]
    return [*eager, *compiled]


def _with_ignored(loss: Loss, ignore_index: int) -> Loss:
    if ignore_index == NO_LABEL:
        return loss
    return lambda logits, target: loss(logits, target, ignore_index=ignore_index)


def _installed_losses() -> dict[str, tuple[str, Loss]]:
    found = {}
    for peer, (formula, module, name, options) in OTHERS.items():
        try:
            found[peer] = (formula, getattr(import_module(module), name)(**options))
        except ModuleNotFoundError:
            continue
    return found
