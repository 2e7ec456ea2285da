r"""The one place where per-sample values become a loss.

A loss states the cost of each class (``-log q`` for most) and a penalty per sample. Everything else of the
``nn.CrossEntropyLoss`` contract happens here, once, for all losses: shapes, probability targets, class weights, ignored
targets, precision, reduction and the denominator.

.. math:: v_i = s_i \Bigl( \sum_k t_{ik} c_{ik} + r_i \Bigr), \qquad s_i = w_{y_i}

with class costs ``c``, penalty ``r``, class weights ``w`` and the target ``t``; see :func:`weighted_target` for weights
with probability targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, NoReturn, TypedDict, get_args

import torch
from torch import Tensor
from typing_extensions import Never, Unpack

from maxsup.core.checks import check_choice, check_number, require_number
from maxsup.core.errors import hint

ReductionName = Literal["none", "mean", "sum"]
EmptyMean = Literal["nan", "zero"]
REDUCTIONS: tuple[ReductionName, ...] = get_args(ReductionName)
EMPTY: tuple[EmptyMean, ...] = get_args(EmptyMean)
HALF = (torch.float16, torch.bfloat16)

Terms = Callable[[Tensor, Tensor], "tuple[Tensor, Tensor | None]"]
"""(rows of logits, targets) -> (class costs ``(N, K)``, penalty ``(N,)`` or None)."""


class LossOptions(TypedDict, total=False):
    """Keyword options of every loss. The first three mean what they mean in ``F.cross_entropy``.

    ``weight`` is a factor per class, which scales the whole sample. With ``empty="zero"`` the mean is 0 and keeps the
    graph when no target is left or ``num_items`` is 0; with ``"nan"`` it is ``nan``, as in torch. ``z_loss=c`` adds
    ``c (log sum_k exp z_k)^2`` to every sample that is not ignored, inside its weight.
    """

    weight: Tensor | None
    ignore_index: int
    reduction: ReductionName
    empty: EmptyMean
    z_loss: float


class ReductionOptions(LossOptions, total=False):
    """The same for a loss as a function, which also takes the denominator of ``reduction="mean"``.

    Give every micro-batch or rank of an optimiser step the number of targets in the whole step as ``num_items``, and
    their gradients add up to those of the whole batch.
    """

    num_items: float | Tensor | None


class Reduction(NamedTuple):
    """The same options with their defaults."""

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: ReductionName = "mean"
    num_items: float | Tensor | None = None
    empty: EmptyMean = "nan"
    z_loss: float = 0.0


def whole(value: Any) -> Any:
    """Gather a tensor that is spread over processes (``DTensor``); return anything else as it is."""
    return value if type(value) is Tensor or not hasattr(value, "full_tensor") else value.full_tensor()


def reduced_loss(input: Tensor, target: Tensor, terms: Terms, **options: Unpack[ReductionOptions]) -> Tensor:
    """The loss whose class costs and penalty are ``terms``."""
    input, target = whole(input), whole(target)
    check_options(input, target, **options)
    weight, ignore_index, reduction, num_items, empty, z_loss = Reduction(**options)
    if num_classes(input) == 0:
        raise ValueError(
            f"input must have at least one class; got {described(input)}. Check the number of classes of the model."
        )

    def terms_with_z_loss(rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        costs, penalty = terms(rows, target)
        if z_loss == 0:
            return costs, penalty
        square = z_loss * rows.logsumexp(dim=-1).square()
        return costs, square if penalty is None else penalty + square

    rows = class_rows(input)
    if weight is not None:
        weight = weight.to(rows.dtype)
    denominator: float | Tensor
    if target.is_floating_point():
        probs, scale = weighted_target(class_rows(target).to(rows.dtype), weight, axis=1)
        costs, penalty = terms_with_z_loss(rows, probs)
        # A masked class costs inf. Where its target is 0 it must count 0, and 0 * inf would be nan.
        costs = costs.masked_fill((costs == math.inf) & (probs == 0), 0.0)
        values = weighted_values(with_penalty((probs * costs).sum(dim=-1), penalty), scale.squeeze(1))
        denominator = rows.shape[0]
    else:
        labels = target.reshape(-1).long()
        valid = labels != ignore_index
        labels = labels.where(valid, 0)
        rows = torch.where(valid.unsqueeze(-1), rows, 0)
        try:
            costs, penalty = terms_with_z_loss(rows, labels)
            values = costs.gather(1, labels.unsqueeze(-1)).squeeze(-1)
        except (IndexError, RuntimeError):
            raise_if_out_of_range(target, ignore_index, num_classes(input))
            raise
        values = with_penalty(values, penalty)
        scale = valid.to(rows.dtype) if weight is None else torch.where(valid, weight[labels], 0)
        values = torch.where(valid, values * scale, 0)
        denominator = scale.sum()

    return reduced_values(values, denominator, input, reduction, num_items, empty)


def reduced_values(
    values: Tensor, denominator: Any, input: Tensor, reduction: str, num_items: float | Tensor | None, empty: str
) -> Tensor:
    """The loss of the values of all samples; ``denominator`` is that of a mean without ``num_items``."""
    if reduction == "none":
        return values.reshape(sample_shape(input))
    total = values.sum()
    if reduction == "sum":
        return total
    if num_items is not None:
        denominator = single(num_items)
    return total / (at_least_one_if_zero(denominator) if empty == "zero" else denominator)


def with_penalty(values: Tensor, penalty: Tensor | None) -> Tensor:
    """Costs plus penalty; what costs inf, such as a masked true class, does so whatever a penalty takes off."""
    return values if penalty is None else torch.where(values == math.inf, values, values + penalty)


def weighted_values(values: Tensor, scale: Tensor) -> Tensor:
    """Values times the weight of each sample; under an infinite weight, whose target is nan, they are inf."""
    return torch.where(scale == math.inf, scale, scale * values)


def weighted_target(probs: Tensor, weight: Tensor | None, axis: int) -> tuple[Tensor, Tensor]:
    """Probabilities weighted by class, and how much each sample counts (class axis kept).

    ``sum_k w_k t_k c_k`` is ``s`` times the loss under the target ``w t / s`` with ``s = sum_k w_k t_k``, so a mixed
    label weighs what its parts weigh. A row of zero probabilities counts nothing.
    """
    if weight is None:
        return probs, (probs.sum(axis, keepdim=True) != 0).to(probs.dtype)
    shape = [1] * probs.dim()
    shape[axis] = -1
    mass = probs * weight.to(probs.dtype).reshape(shape)
    scale = mass.sum(axis, keepdim=True)
    return mass / scale.masked_fill(scale == 0, 1.0), scale


def per_sample(input: Tensor, values: Callable[[Tensor], Tensor]) -> Tensor:
    """``values`` of the rows of ``input``, in the shape of its samples."""
    return values(class_rows(input)).reshape(sample_shape(input))


def class_axis(input: Tensor) -> int:
    """Axis 1 of a batch, axis 0 of a single sample."""
    return 0 if input.dim() == 1 else 1


def num_classes(input: Tensor) -> int:
    """Length of the class axis."""
    return input.shape[class_axis(input)]


def sample_shape(input: Tensor) -> tuple[int, ...]:
    """Shape without the class axis."""
    axis = class_axis(input)
    return (*input.shape[:axis], *input.shape[axis + 1 :])


def class_rows(input: Tensor) -> Tensor:
    """One row per sample, at least in float32: ``(K,)``, ``(N, K)`` and ``(N, K, ...)`` become ``(M, K)``."""
    rows = input.movedim(class_axis(input), -1)
    rows = rows.unsqueeze(0) if rows.dim() == 1 else rows.flatten(end_dim=-2)
    # Sums over K round badly in half precision, and in fp16 they overflow from about ten thousand classes.
    return rows.float() if rows.dtype in HALF else rows


def target_values(rows: Tensor, target: Tensor) -> Tensor:
    """The entry of each row at its label, or the mean of the row under its target probabilities."""
    if target.is_floating_point():
        held = rows.masked_fill(rows.isinf() & (target == 0), 0.0)
        return (held * target).sum(dim=-1)
    return rows.gather(1, target.unsqueeze(-1)).squeeze(-1)


def target_columns(rows: Tensor, target: Tensor) -> Tensor:
    """The column of the label, ``(N, 1)``; all columns for probability targets."""
    return rows if target.is_floating_point() else rows.gather(1, target.unsqueeze(-1))


def finite_mean(rows: Tensor) -> Tensor:
    """Mean over the classes that are not masked with ``-inf``; masked classes get no gradient."""
    masked = rows == -math.inf
    # Divided first: the sum of large logits may be inf where their mean is not.
    return (rows.masked_fill(masked, 0.0) / (~masked).sum(dim=-1, keepdim=True)).sum(dim=-1)


def expected_log(probs: Tensor, log_probs: Tensor) -> Tensor:
    """``sum_k p_k log q_k`` over the classes that are not masked."""
    return (probs * log_probs.masked_fill(log_probs == -math.inf, 0.0)).sum(dim=-1)


def confidence_weights(rows: Tensor, log_probs: Tensor) -> Tensor:
    """``1 - H(q) / log K`` of rows of logits, where K counts the classes that are not masked."""
    count = (rows != -math.inf).sum(dim=-1)
    certain = 1.0 + expected_log(log_probs.exp(), log_probs) / count.clamp(min=2).to(rows.dtype).log()
    return torch.where(count > 1, certain, 1.0)


def require_labels(name: str, target: Tensor) -> None:
    """Raise for probability targets of a loss that needs one true class per sample."""
    if isinstance(target, Tensor) and target.is_floating_point():
        raise ValueError(
            f"target of {name} must be class indices, because the loss compares with one true class; "
            "got probabilities. Switch mixup and cutmix off, or use 'maxsup' or 'ls', which take them."
        )


def check_strength(
    name: str, value: Any, high: float = math.inf, *, above: bool = False, input: Tensor | None = None
) -> None:
    """Raise unless ``value`` passes ``check_number`` or is a tensor of one number, whose value is not read.

    Where ``input`` is given, it may also hold one number for each of its samples.
    """
    if not isinstance(value, Tensor):
        check_number(name, value, high=high, above=above)
    elif value.dim() > 0 and value.numel() != 1:
        shape = sample_shape(input) if isinstance(input, Tensor) and input.dim() > 0 else None
        if value.shape == shape and value.is_floating_point():
            return
        for_each = "" if shape is None else f", or one a sample, floating-point of shape {tuple(shape)}"
        raise ValueError(
            f"{name} must be one number for all samples{for_each}; got {described(value)}. Pass class weights as "
            "weight=weights."
        )


def strength_of_rows(strength: Tensor, dtype: torch.dtype) -> Tensor:
    """One number without dimensions, or the strengths of samples in the order of their rows."""
    strength = whole(strength)
    return single(strength) if strength.numel() == 1 else strength.reshape(-1).to(dtype)


def _refuse(unknown: Mapping[str, Any]) -> NoReturn:
    """Raise for options that no loss as a function has; ``F.cross_entropy`` has one of them."""
    name, value = next(iter(unknown.items()))
    fix = hint(name, ReductionOptions.__annotations__)
    if name == "label_smoothing":
        fix = f"Use label_smoothing_cross_entropy(input, target, {value!r}), or maxsup_cross_entropy in its place."
    raise TypeError(f"options of a loss must be those it has; got {name}={value!r}. {fix}")


def check_num_items(num_items: Any, reduction: str) -> None:
    """Raise unless ``num_items`` can be the denominator of a mean; the value of a tensor is not read."""
    if num_items is None:
        return
    if reduction != "mean":
        raise ValueError(
            f"num_items must go with reduction='mean', whose denominator it is; got reduction={reduction!r}. "
            "Divide by it yourself, or use reduction='mean'."
        )
    if isinstance(num_items, Tensor):
        if num_items.numel() != 1:
            raise ValueError(
                f"num_items must be one number; got a tensor of shape {tuple(num_items.shape)}. Pass its sum."
            )
        return
    if torch.compiler.is_compiling():  # a number may be a symbol without a value
        return
    require_number("num_items", num_items)
    if not num_items >= 0:  # true of nan too
        raise ValueError(
            f"num_items must be a number of at least 0; got {num_items!r}. Pass the number of targets in the step."
        )


def single(value: Any) -> Any:
    """A tensor of one number without its dimensions, which would become those of the loss; anything else as it is."""
    return value.reshape(()) if isinstance(value, Tensor) and value.dim() > 0 else value


def check_options(
    input: Tensor,
    target: Tensor,
    # By name and not as a Reduction, and each check only where it may raise: small batches notice every call.
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: ReductionName = "mean",
    num_items: float | Tensor | None = None,
    empty: EmptyMean = "nan",
    z_loss: float = 0.0,
    **unknown: Never,
) -> None:
    """Raise one sentence for arguments that do not fit each other."""
    if unknown:
        _refuse(unknown)
    if not isinstance(input, Tensor):
        raise TypeError(
            f"input must be a tensor of logits; got {type(input).__name__}. Models with several outputs (distilled "
            "ones, auxiliary heads) need a loss each: pass outputs[0], or the key that holds the logits."
        )
    if not isinstance(target, Tensor):
        raise TypeError(
            f"target must be a tensor of class indices or probabilities; got {type(target).__name__}. "
            "Use torch.as_tensor(target)."
        )
    if reduction not in REDUCTIONS:
        check_choice("reduction", reduction, REDUCTIONS)
    if empty not in EMPTY:
        check_choice("empty", empty, EMPTY)
    if type(z_loss) is not float or z_loss != 0:
        check_number("z_loss", z_loss)
    if num_items is not None:
        check_num_items(num_items, reduction)
    if input.dim() == 0 or not input.is_floating_point():
        raise ValueError(
            f"input must be floating-point logits of shape (K,), (N, K) or (N, K, d1, ...); got {described(input)}. "
            "Pass the raw outputs of the classifier."
        )
    if weight is not None and tuple(weight.shape) != (num_classes(input),):
        raise ValueError(
            f"weight must have one entry per class, shape ({num_classes(input)},); got {tuple(weight.shape)}. "
            "Check the number of classes of the model."
        )
    if target.is_floating_point():
        if target.shape != input.shape:
            raise ValueError(
                f"target must be class indices of shape {sample_shape(input)} or probabilities of shape "
                f"{tuple(input.shape)}; got {described(target)}. Use target.long() for class indices."
            )
        if ignore_index >= 0:
            raise ValueError(
                f"ignore_index must be negative with probability targets; got {ignore_index!r}. "
                "Give rows to be ignored all-zero probabilities."
            )
    elif target.dtype == torch.bool or target.shape != sample_shape(input):
        raise ValueError(
            f"target must be class indices of shape {sample_shape(input)} for input of shape {tuple(input.shape)}; "
            f"got {described(target)}. Pass one class index a sample."
        )


def raise_if_out_of_range(target: Tensor, ignore_index: int, size: int) -> None:
    """Name the first label outside ``[0, size)``, if there is one."""
    if target.is_floating_point():
        return
    target = target.long()  # in a narrow integer type, 200 or -100 would wrap around to another number
    bad = (target != ignore_index) & ((target < 0) | (target >= size))
    if not bad.any():
        return
    position = tuple(bad.nonzero()[0].tolist())
    row = position[0] if len(position) == 1 else position
    raise ValueError(
        f"target must hold classes from 0 to {size - 1}, or ignore_index={ignore_index}; "
        f"got {int(target[position])} in row {row}. Check the label mapping or the size of the classifier."
    ) from None


def described(tensor: Tensor) -> str:
    """Type and shape: ``float32 of shape (2, 3)``."""
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def at_least_one_if_zero(denominator: float | Tensor) -> float | Tensor:
    """1 in place of a denominator of 0, so that an empty sum stays 0."""
    if isinstance(denominator, Tensor):
        return denominator.masked_fill(denominator == 0, 1.0)
    return denominator or 1.0
