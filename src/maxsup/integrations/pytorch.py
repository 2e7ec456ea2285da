"""Plain PyTorch: replace label smoothing by MaxSup of equal strength, and let a criterion follow the model's mode."""

from __future__ import annotations

from typing import Any, cast, overload

from torch import nn
from torch.utils.hooks import RemovableHandle

from maxsup.core.schedules import Schedule
from maxsup.losses import MaxSupLoss, RegularizedLoss
from maxsup.losses.reduction import ReductionName

__all__ = ["follow_model", "replace_label_smoothing"]


def follow_model(criterion: RegularizedLoss, model: nn.Module) -> RemovableHandle:
    """Switch a criterion to the model's mode in every forward pass, for trainers that switch only the model.

    Call ``remove()`` on the returned handle to stop.

    Example:
        >>> criterion, model = MaxSupLoss(alpha=0.1), torch.nn.Linear(2, 3)
        >>> handle = follow_model(criterion, model)
        >>> logits = model.eval()(torch.zeros(1, 2))
        >>> criterion.training
        False
    """
    if not isinstance(criterion, RegularizedLoss):
        raise TypeError(
            f"criterion must be a loss of maxsup, which has modes; got {type(criterion).__name__}. Torch's own losses "
            "compute the same in both modes."
        )

    def switch(module: nn.Module, given: Any) -> None:
        if criterion.training != module.training:
            criterion.train(module.training)

    return model.register_forward_pre_hook(switch)


@overload
def replace_label_smoothing(criterion: nn.CrossEntropyLoss, *, schedule: Schedule | None = None) -> MaxSupLoss: ...
@overload
def replace_label_smoothing(criterion: nn.Module, *, schedule: Schedule | None = None) -> nn.Module: ...


def replace_label_smoothing(criterion: nn.Module, *, schedule: Schedule | None = None) -> nn.Module:
    """Return the ``MaxSupLoss`` that replaces a criterion with label smoothing.

    Smoothing ``a`` becomes ``alpha=a``. Without class weights, the value is that of the old criterion on correct
    predictions and larger by ``alpha (z_max - z_gt)`` on errors. Class weights scale the whole sample, whereas torch
    weights every class of the smoothed label separately. In ``eval()`` mode the new criterion is plain cross-entropy,
    whereas the old one still smooths.

    Args:
        criterion: ``nn.CrossEntropyLoss`` with ``label_smoothing`` above 0, timm's ``LabelSmoothingCrossEntropy``, or a
            module that holds such criteria. Weights, their device and the mode (training or evaluation) are kept. **A
            module that holds criteria is changed in place and returned**; its criteria without smoothing stay.
        schedule: A schedule of the strength that replaces the old smoothing, such as ``Linear(0.1, 0.2)``. Advance it
            with ``set_progress``.

    Example:
        >>> criterion = replace_label_smoothing(torch.nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=255))
        >>> criterion
        MaxSupLoss(alpha=0.1, ignore_index=255, reduction='mean')
    """
    if _is_cross_entropy(criterion):
        return _replacement(criterion, schedule)
    if not isinstance(criterion, nn.Module) or not list(criterion.children()):
        name = getattr(criterion, "__name__", type(criterion).__name__)
        raise TypeError(
            f"criterion must be nn.CrossEntropyLoss or timm's LabelSmoothingCrossEntropy, or hold one; got {name}. "
            "MaxSup replaces the smoothing of a softmax cross-entropy."
        )
    # A criterion shared by two parents stays shared.
    made: dict[nn.Module, MaxSupLoss] = {}
    for parent in list(criterion.modules()):
        for name, child in parent._modules.items():
            if child is not None and _is_cross_entropy(child) and _smoothing(child) > 0:
                if name == "_orig_mod":
                    raise ValueError(
                        "criterion must be replaced before it is compiled, because compiled code keeps the old one; "
                        f"got a compiled {type(child).__name__}. Call torch.compile on what this function returns."
                    )
                if child not in made:
                    made[child] = _replacement(child, schedule)
                parent._modules[name] = made[child]
    if not made:
        raise ValueError(
            "criterion must hold a cross-entropy with label smoothing above 0; got none in "
            f"{type(criterion).__name__}. Put MaxSupLoss(alpha=0.1) where its loss is made."
        )
    return criterion


def _is_cross_entropy(criterion: nn.Module) -> bool:
    """Return True for torch's own class or timm's, whose formulas are known. A subclass may compute anything."""
    if getattr(type(criterion), "forward", None) is nn.CrossEntropyLoss.forward:
        return True
    return type(criterion).__name__ == "LabelSmoothingCrossEntropy" and hasattr(criterion, "smoothing")


def _smoothing(criterion: nn.Module) -> float:
    return float(getattr(criterion, "label_smoothing", None) or getattr(criterion, "smoothing", 0.0))  # type: ignore[arg-type]


def _replacement(criterion: nn.Module, schedule: Schedule | None) -> MaxSupLoss:
    alpha = _smoothing(criterion)
    if not alpha > 0:
        raise ValueError(
            f"label smoothing of the criterion must be above 0; got {alpha!r}. "
            "Write MaxSupLoss(alpha=0.1) to choose the strength yourself."
        )
    strength = alpha if schedule is None else schedule
    if isinstance(criterion, nn.CrossEntropyLoss):
        reduction = cast(ReductionName, criterion.reduction)  # torch types it as any text
        loss = MaxSupLoss(strength, criterion.weight, criterion.ignore_index, reduction)
    else:
        loss = MaxSupLoss(strength)
    return loss.train(criterion.training)
