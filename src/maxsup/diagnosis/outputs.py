"""What a model says about labelled samples, wherever that came from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model says about labelled samples.

    Args:
        logits: ``(N, K)``, before any softmax.
        labels: Class indices, ``(N,)``.
        features: Input of the head, ``(N, D)``.
        indices: Position of each sample in its split.
        class_names: One a class.
        num_missing: Images that could not be read and are not among the samples.
    """

    logits: Tensor
    labels: Tensor
    features: Tensor | None = None
    indices: Tensor | None = None
    class_names: tuple[str, ...] = ()
    num_missing: int = 0

    def __post_init__(self) -> None:
        for name in ("labels", "features", "indices"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.logits):
                raise ValueError(
                    f"{name} must have one entry for each row of logits; got {len(column)} for "
                    f"{len(self.logits)} rows. Give both for the same samples."
                )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """Columns of the logits."""
        return self.logits.shape[1]

    @property
    def num_a_class(self) -> int:
        """Median number of samples of the classes that occur."""
        counts = torch.bincount(self.labels)
        return int(counts[counts > 0].median())
