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

    ``teacher_logits`` come from a given teacher, else from the best checkpoint so far, in evaluation mode; before there
    is one they are zeros, a uniform prediction. ``dense_logits`` are the classifier at every position of the feature
    map, from the same pass.

    Example:
        >>> needs = Needs(["teacher_logits"])
        >>> logits, extras = needs.forward(nn.Linear(2, 3), torch.ones(1, 2))
        >>> extras
        {'teacher_logits': tensor([[0., 0., 0.]])}
    """

    def __init__(self, names: Sequence[str], teacher: nn.Module | None = None) -> None:
        for name in names:
            check_choice("need of a loss", name, SERVED)
        self._has_teacher = "teacher_logits" in names
        self._has_dense = "dense_logits" in names
        self._teacher = teacher
        self.is_own_teacher = self._has_teacher and teacher is None

    def forward(self, model: Callable[..., Any], images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits of the model, and keyword arguments for the loss."""
        extras: dict[str, Tensor] = {}
        if self._has_dense:
            logits, extras["dense_logits"] = model(images, with_dense=True)
        else:
            logits = model(images)
        if self._has_teacher:
            extras["teacher_logits"] = self._teacher_logits(images, logits)
        return logits, extras

    def set_teacher(self, model: nn.Module) -> None:
        """Let the model as it is now be the teacher, where a loss wants one and none was given."""
        if self.is_own_teacher:
            self._teacher = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def _teacher_logits(self, images: Tensor, logits: Tensor) -> Tensor:
        if self._teacher is None:
            return torch.zeros_like(logits)
        return self._teacher(images)


def check_teacher(teacher: str | None, loss: str, needs: Sequence[str]) -> None:
    """Raise where a teacher is given to a loss that would not ask it."""
    if teacher is not None and "teacher_logits" not in needs:
        raise ValueError(
            f"teacher must go with a loss that needs one; got {teacher!r} with {loss!r}. "
            "Use loss.name=distillation, or leave teacher out."
        )
