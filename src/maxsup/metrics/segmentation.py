"""Segmentation metrics, from one confusion matrix over a whole split."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from maxsup.metrics.predictions import class_indices


class ConfusionSums:
    """Accumulate a confusion matrix over pixels, without those labelled ``ignore_index``.

    Example:
        >>> sums = ConfusionSums(2)
        >>> sums.update(torch.tensor([[0, 1, 1, 0]]), torch.tensor([[0, 1, 0, 255]]))
        >>> sums.compute() == {"accuracy": 2 / 3, "class_accuracy": 0.75, "miou": 0.5}
        True
        >>> sums.class_iou()
        tensor([0.5000, 0.5000], dtype=torch.float64)
    """

    def __init__(self, num_classes: int, ignore_index: int = 255) -> None:
        self.num_classes = num_classes
        self.ignore_index = ignore_index
        self.matrix = torch.zeros(num_classes, num_classes, dtype=torch.int64)
        # The counts already reduced over all processes.
        self._shared = torch.zeros_like(self.matrix)

    def update(self, predictions: Tensor, labels: Tensor) -> None:
        """Add predicted and true classes of pixels, two integer tensors of the same shape."""
        if predictions.shape != labels.shape:
            raise ValueError(
                f"predictions must have the shape of labels; got {tuple(predictions.shape)} for "
                f"{tuple(labels.shape)}. Resize logits to the labels before taking the maximum."
            )
        labels, predictions = class_indices("labels", labels), class_indices("predictions", predictions)
        is_labelled = labels != self.ignore_index
        labels, predictions = labels[is_labelled], predictions[is_labelled]
        self._check_classes("labels", labels, f", or ignore_index={self.ignore_index}")
        self._check_classes("predictions", predictions)
        counts = torch.bincount(labels * self.num_classes + predictions, minlength=self.num_classes**2)
        self.matrix += counts.view(self.num_classes, self.num_classes).to(self.matrix.device)

    def merge(self, other: ConfusionSums) -> None:
        """Add the counts of another instance with the same classes."""
        if other.num_classes != self.num_classes:
            raise ValueError(
                f"other must have {self.num_classes} classes too; got {other.num_classes}. Count it apart."
            )
        self.matrix += other.matrix
        self._shared += other._shared

    def sync(self, device: torch.device) -> None:
        """All-reduce the counts over all processes. No count is added twice."""
        matrix = (self.matrix - self._shared).to(device)
        dist.all_reduce(matrix)
        self.matrix = self._shared + matrix.cpu()
        self._shared = self.matrix.clone()

    def _check_classes(self, name: str, values: Tensor, exception: str = "") -> None:
        if len(values) == 0:
            return
        for value in map(int, values.aminmax()):
            if not 0 <= value < self.num_classes:
                raise ValueError(
                    f"{name} must be classes from 0 to {self.num_classes - 1}{exception}; got {value}. "
                    "Check the label mapping or num_classes."
                )

    @property
    def num_present(self) -> int:
        """Number of classes among the labels."""
        return int((self.matrix.sum(1) > 0).sum())

    def class_iou(self) -> Tensor:
        """Return the intersection over union of each class, ``nan`` if it is neither present nor predicted."""
        matrix = self.matrix.double()
        both = matrix.diagonal()
        return both / (matrix.sum(0) + matrix.sum(1) - both)

    def compute(self) -> dict[str, float]:
        """Return pixel ``accuracy``, ``class_accuracy`` (mean recall) and ``miou``. Means over classes skip ``nan``."""
        matrix = self.matrix.double()
        both, present = matrix.diagonal(), matrix.sum(1)
        return {
            "accuracy": float(both.sum() / present.sum()),
            "class_accuracy": float((both / present).nanmean()),
            "miou": float(self.class_iou().nanmean()),
        }

    def majority_miou(self) -> float:
        """Return the mIoU of predicting the most frequent class everywhere, which a model should clearly exceed."""
        present = self.matrix.sum(1).double()
        return float(present.max() / present.sum() / self.num_present)
