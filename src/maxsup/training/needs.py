"""What losses need besides logits and targets, served by name: the only place that knows these names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from maxsup.core.checks import check_choice

SERVED = ("teacher_logits", "dense_logits")


class Needs:
    """Runs the model on images and gives, with the logits, what the loss needs.

    ``teacher_logits`` come from the best checkpoint so far, in evaluation mode; before there is one they are zeros, a
    uniform prediction. ``dense_logits`` are the classifier at every position of the feature map, from the same pass.

    Args:
        names: What the loss needs.

    Example:
        >>> needs = Needs(["teacher_logits"])
        >>> logits, extras = needs.forward(nn.Linear(2, 3), torch.ones(1, 2))
        >>> extras
        {'teacher_logits': tensor([[0., 0., 0.]])}
    """

    def __init__(self, names: Sequence[str]) -> None:
        for name in names:
            check_choice("need of a loss", name, SERVED)
        self.has_teacher = "teacher_logits" in names
        self._has_dense = "dense_logits" in names
        self._teacher: nn.Module | None = None

    def forward(self, model: Callable[..., Any], images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits of the model, and keyword arguments for the loss."""
        extras: dict[str, Tensor] = {}
        if self._has_dense:
            logits, extras["dense_logits"] = model(images, with_dense=True)
        else:
            logits = model(images)
        if self.has_teacher:
            extras["teacher_logits"] = self._teacher_logits(images, logits)
        return logits, extras

    def set_teacher(self, model: nn.Module) -> None:
        """Let the model as it is now be the teacher, where a loss wants one."""
        if self.has_teacher:
            self._teacher = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def _teacher_logits(self, images: Tensor, logits: Tensor) -> Tensor:
        if self._teacher is None:
            return torch.zeros_like(logits)
        prior: Tensor = self._teacher(images)
        return prior
