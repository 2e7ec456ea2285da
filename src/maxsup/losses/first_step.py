"""What a loss sees at its first step, each said once as a warning.

Logits are read on a CPU only; on other devices, which would have to be waited for, only the graph behind them is.
Inside of compilers and transforms, where numbers cannot be read, nothing is said.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from maxsup.core.errors import user_stacklevel
from maxsup.losses.reduction import HALF, class_axis, class_rows

_SOFTMAX = {"SoftmaxBackward0": "probabilities", "LogSoftmaxBackward0": "log-probabilities"}
# Operations that change no value.
_VIEWS = (
    "AliasBackward0", "CloneBackward0", "PermuteBackward0", "ReshapeAliasBackward0", "SqueezeBackward1",
    "ToCopyBackward0", "TransposeBackward0", "UnsafeViewBackward0", "ViewBackward0",
)  # fmt: skip
# Enough rows to tell a softmax from chance.
_NUM_ROWS = 16
# Published strengths are at most 0.2.
_LARGEST_USUAL_ALPHA = 1.0


def can_look() -> bool:
    """Whether tensors have values here: not under compilers, tracers and the transforms of ``torch.func``."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    is_transformed = torch._C._functorch.peek_interpreter_stack() is not None
    return not is_transformed and torch._C._len_torch_dispatch_stack() == 0


def warn_of_mode(name: str, *, is_training: bool) -> None:
    """A loss in training mode without gradients, or in evaluation mode with them."""
    if is_training:
        _warn(
            f"{name} is in training mode and gradients are off: if this is a validation loss, it is the training "
            "objective. Call criterion.eval() first, or once maxsup.integrations.follow_model(criterion, model)."
        )
    else:
        _warn(
            f"{name} is in eval() mode and the logits require a gradient: if this is a training step, its objective is "
            "plain cross-entropy. Call criterion.train() first; in an evaluation, use torch.no_grad()."
        )


def warn_of_strength(name: str, alpha: float) -> None:
    """A strength that was meant for another scale."""
    if alpha > _LARGEST_USUAL_ALPHA:
        _warn(
            f"{name} has alpha={alpha:g}, and published strengths are 0.1 to 0.2: above 1 the term outweighs the "
            "cross-entropy. Use alpha=0.1 unless this is meant."
        )


def warn_of_softmax(name: str, input: Tensor) -> None:
    """Logits that a softmax has been applied to."""
    kind = softmax_output(input)
    if kind == "probabilities":
        _warn(
            f"The logits given to {name} are probabilities, and a second softmax makes its gradient small. "
            "Give it the input of the softmax."
        )
    elif kind == "log-probabilities":
        _warn(
            f"The logits given to {name} are log-probabilities: a second log_softmax changes nothing, but terms that "
            "measure the size of logits, such as z_loss, do not see it. Give it the input of the log_softmax."
        )


def warn_of_smoothed_targets(target: Tensor, strength: str, value: float) -> None:
    """Probability targets that have been smoothed."""
    minima = target.detach().amin(class_axis(target))
    smallest, largest = float(minima.min()), float(minima.max())
    # Smoothing gives all rows the same minimum; the predictions of a teacher have no zeros either, but differ.
    if smallest > 0 and largest <= 1.01 * smallest:
        _warn(
            f"Targets are smoothed already (smallest probability {smallest:.3g}), and {strength}={value:g} smooths "
            "again. Switch smoothing off where targets are made, for instance Mixup(label_smoothing=0)."
        )


def softmax_output(input: Tensor) -> str | None:
    """``"probabilities"`` or ``"log-probabilities"``, if logits are that.

    Example:
        >>> softmax_output(torch.eye(3).softmax(dim=1)), softmax_output(5 * torch.eye(3))
        ('probabilities', None)
    """
    node = input.grad_fn
    while node is not None and node.name() in _VIEWS:
        node = node.next_functions[0][0]
    if node is not None and node.name() in _SOFTMAX:
        return _SOFTMAX[node.name()]
    if input.device.type != "cpu" or type(input) is not Tensor or input.dim() < 2:
        return None
    return normalized_rows(class_rows(input.detach()[:_NUM_ROWS])[:_NUM_ROWS], is_half=input.dtype in HALF)


def normalized_rows(rows: Tensor, *, is_half: bool) -> str | None:
    """The same, from the values of rows alone; ``is_half`` if they have been rounded to half precision."""
    tolerance = 1e-2 if is_half else 1e-3
    # One row, or equal ones, may sum to 1 by chance.
    if len(rows) < 2 or bool((rows == rows[0]).all()):
        return None
    if bool((rows >= 0).all()):
        return "probabilities" if bool(((rows.sum(dim=1) - 1).abs() < tolerance).all()) else None
    is_normalized = bool((rows <= 0).all()) and bool((rows.logsumexp(dim=1).abs() < tolerance / 10).all())
    return "log-probabilities" if is_normalized else None


def _warn(sentence: str) -> None:
    warnings.warn(sentence, UserWarning, stacklevel=user_stacklevel())
