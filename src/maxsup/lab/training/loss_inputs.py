"""The inputs that losses need besides logits and targets; no other module knows their names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from maxsup.core.checks import check_choice

SERVED = ("teacher_logits", "dense_logits")


class Needs:
    """Runs the model on images and returns the logits with the inputs that the loss needs.

    ``teacher_logits`` come from the given teacher, or from the best checkpoint so far in evaluation mode; before there
    is one they are zeros, a uniform prediction. ``dense_logits`` are the logits at every position of the feature map,
    from the same pass.

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
        """Return logits of the model, and keyword arguments for the loss."""
        extras: dict[str, Tensor] = {}
        if self._has_dense:
            logits, extras["dense_logits"] = model(images, with_dense=True)
        else:
            logits = model(images)
        if self._has_teacher:
            with torch.no_grad():
                extras["teacher_logits"] = torch.zeros_like(logits) if self._teacher is None else self._teacher(images)
        return logits, extras

    def set_teacher(self, model: nn.Module) -> None:
        """Make a copy of the model the teacher, if the loss needs one and none was given."""
        if self.is_own_teacher:
            self._teacher = copy.deepcopy(model).eval().requires_grad_(False)


def check_teacher(teacher: str | None, loss: str, needs: Sequence[str]) -> None:
    """Raise if a teacher is given to a loss that needs none."""
    if teacher is not None and "teacher_logits" not in needs:
        raise ValueError(
            f"teacher must go with a loss that needs one; got {teacher!r} with {loss!r}. "
            "Use loss.name=distillation, or leave teacher out."
        )
