"""Ready-made calls of any registered loss, as a configured module or as a function."""

from typing import Any

import torch
from torch import Tensor

import maxsup
import maxsup.functional
from tests.contract.samples import NUM_CLASSES, needs_of, soft_matrix
from tests.reference.cases import CASE_OF, CASES

NAMES = [case.name for case in CASES]
MIXABLE = [case.name for case in CASES if case.takes_probabilities]
UNMIXABLE = [case.name for case in CASES if not case.takes_probabilities]
SCHEDULED = {
    name: option
    for name in NAMES
    for option in ("gamma", "tau", "beta", "epsilon", "alpha")
    if option in CASE_OF[name].strength
}
"""Losses that have a strength, which may be a schedule, with the name of that option (``alpha`` before ``gamma``)."""
SWITCHABLE = [case.name for case in CASES if case.off is not None]


def make_loss(name: str, dtype: torch.dtype = torch.float64, **options: Any) -> torch.nn.Module:
    """A training-mode module at a strength that shows, its state filled."""
    if name == "ols":
        loss = maxsup.create_loss(name, num_classes=NUM_CLASSES, **{**CASE_OF[name].strength, **options}).to(dtype)
        loss.matrix.copy_(soft_matrix(dtype))
        loss.end_epoch()
        return loss
    return maxsup.create_loss(name, **{**CASE_OF[name].strength, **options})


def call_function(name: str, logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """The pure function of the loss at the same strength and state as ``make_loss``."""
    keywords = {**CASE_OF[name].strength, **needs_of(name, logits), **options}
    if name == "ols":
        keywords["matrix"] = soft_matrix(torch.float32 if logits.element_size() == 2 else logits.dtype)
    return getattr(maxsup.functional, CASE_OF[name].function)(logits, target, **keywords)


def call_with_head(name: str, logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """The same; ``"head"`` is MaxSup on a linear head that multiplies by 1."""
    if name != "head":
        return call_function(name, logits, target, **options)
    head = torch.eye(NUM_CLASSES, dtype=torch.float64)
    return maxsup.functional.linear_maxsup_cross_entropy(logits, head, target, **{"alpha": 0.3, **options})


def value_and_gradient(name: str, logits: Tensor, target: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """The value of ``call_function``, and the gradient of its sum."""
    leaf = logits.detach().requires_grad_()
    value = call_function(name, leaf, target, **options)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient
