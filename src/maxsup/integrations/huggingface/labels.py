"""Match the logits of a transformers model to their labels, as rows that a loss takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

IGNORED = -100
"""The label that transformers ignores in its losses and Trainer in ``num_items_in_batch``."""
_SUM_TOLERANCE = 1e-2


def single_logits(outputs: Any) -> Tensor:
    """Return the logits of a model with one head."""
    if isinstance(outputs, Mapping):
        logits = outputs.get("logits")
    else:
        logits = outputs = outputs[0] if isinstance(outputs, list | tuple) and outputs else outputs
    if not isinstance(logits, Tensor):
        raise ValueError(
            f"outputs of the model must hold one tensor of logits; got {_contents(outputs)}. For several heads map "
            "logits to labels: "
            'TrainerLoss(heads={"start_logits": "start_positions", "end_logits": "end_positions"}).'
        )
    return logits


def named_logits(outputs: Any, name: str) -> Tensor:
    """Return the logits of one of several heads."""
    logits = outputs.get(name) if isinstance(outputs, Mapping) else None
    if not isinstance(logits, Tensor):
        names = _contents(outputs)
        raise ValueError(f"heads must name outputs of the model; got {name!r} among {names}. Use the names it returns.")
    return logits


def _contents(outputs: Any) -> str:
    return ", ".join(sorted(outputs)) if isinstance(outputs, Mapping) else type(outputs).__name__


def rows_and_targets(logits: Tensor, labels: Any, shift: bool, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Return logits ``(N, K)`` and their targets. With ``shift``, labels without a prediction are ignored.

    Example:
        >>> import torch
        >>> rows, targets = rows_and_targets(torch.zeros(1, 3, 5), torch.tensor([[4, 1, 2]]), True, -100)
        >>> rows.shape, targets
        (torch.Size([3, 5]), tensor([   1,    2, -100]))
    """
    if not isinstance(labels, Tensor):
        raise ValueError(
            f"labels must be one tensor under the name 'labels' in the batch; got {type(labels).__name__}. "
            "Rename the column, or for several heads use TrainerLoss(heads=...)."
        )
    is_sequence = logits.dim() == 3
    expected = logits.shape if labels.is_floating_point() and not is_sequence else logits.shape[:-1]
    if logits.dim() not in (2, 3) or labels.shape != expected:
        raise ValueError(
            "logits and labels must have shapes (N, K) and (N,), or (N, T, K) and (N, T); got "
            f"{tuple(logits.shape)} and {tuple(labels.shape)}. {_shape_fix(logits, labels)}"
        )
    if logits.shape[-1] < 2:
        raise ValueError(
            "logits must have two classes or more; got one, whose cross-entropy is always 0. Use the model's own loss "
            "for regression and for a sigmoid."
        )
    if labels.is_floating_point():
        # transformers reads float labels as multi-label targets, on which a softmax would train silently.
        sums = labels.detach().float().sum(dim=-1)
        wrong = sums[(sums != 0) & ((sums - 1).abs() > _SUM_TOLERANCE)]
        if len(wrong) > 0:
            raise ValueError(
                f"labels that are probabilities must sum to 1 in every row; got {float(wrong[0]):g}. Several classes "
                "at once need a sigmoid, for which MaxSup is not defined: use the model's own loss."
            )
    if not is_sequence:
        return logits, labels
    if shift:
        # Shift the labels and not the logits, because slicing the logits would copy them.
        labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    return logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)


def dense_logits_and_masks(logits: Tensor, masks: Any, ignored: int | None, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Return logits ``(N, K, h, w)`` in the size of their masks, as transformers upsamples them, and the masks.

    Pixels whose label is ``ignored``, that of the model, get ``ignore_index``, that of the loss.
    """
    if not isinstance(masks, Tensor) or masks.dim() != 3 or masks.is_floating_point() or len(masks) != len(logits):
        got = tuple(masks.shape) if isinstance(masks, Tensor) else type(masks).__name__
        raise ValueError(
            f"labels of dense logits {tuple(logits.shape)} must be class indices of shape (N, H, W); got {got}. Use "
            "labels.long() of the masks."
        )
    if logits.shape[1] < 2:
        raise ValueError(
            "logits must have two classes or more; got one, whose cross-entropy is always 0. Use the model's own loss "
            "for a sigmoid."
        )
    upsampled = F.interpolate(logits, size=masks.shape[-2:], mode="bilinear", align_corners=False)
    return upsampled, masks if ignored is None else masks.masked_fill(masks == ignored, ignore_index)


def _shape_fix(logits: Tensor, labels: Tensor) -> str:
    if logits.dim() == 2 and labels.shape == (len(logits), 1):
        return "Use labels.squeeze(1) in the data collator."
    if logits.dim() == 2 and labels.shape == logits.shape:
        return "Integers of that shape are no class indices: use labels.argmax(1), or labels.float() for probabilities."
    if labels.is_floating_point() and labels.shape == logits.shape[:-1]:
        return f"Labels of {str(labels.dtype).removeprefix('torch.')} are no class indices: use labels.long()."
    return "For other heads call MaxSupLoss yourself."


class LabelsOfHeads:
    """Cache the labels of several heads as they enter the model, because ``Trainer`` passes only ``labels`` to a loss.

    ``heads`` maps each name of logits in the outputs to the name of its labels in the batch.
    """

    def __init__(self, heads: Mapping[str, str]) -> None:
        if not heads:
            raise ValueError("heads must name one output or more; got none. Leave heads out for a model with one head.")
        self.heads = dict(heads)
        self._seen: dict[str, Any] = {}
        self._handle: RemovableHandle | None = None

    def watch(self, model: nn.Module) -> None:
        """Record the labels of every call of this model, and stop watching the previous one."""
        if self._handle is not None:
            self._handle.remove()

        def remember(module: nn.Module, positional: Any, named: dict[str, Any]) -> None:
            self._seen = {name: named.get(name) for name in self.heads.values()}

        self._handle = model.register_forward_pre_hook(remember, with_kwargs=True)

    def take(self) -> dict[str, Tensor]:
        """Return the labels of the last call by the name of their logits, and clear the cache."""
        missing = [name for name in self.heads.values() if not isinstance(self._seen.get(name), Tensor)]
        if missing:
            raise ValueError(
                f"batches must hold the labels that heads name; got none under {missing[0]!r}. Trainer drops columns "
                "that the model's forward does not name; set remove_unused_columns=False if that is why."
            )
        seen, self._seen = self._seen, {}
        return {logits: seen[name] for logits, name in self.heads.items()}
