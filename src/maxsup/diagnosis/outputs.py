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
        features: What the head saw, ``(N, D)``.
        indices: Where in its split each sample is.
        class_names: One a class.
        num_missing: Images that could not be read and are not among the samples.

    Example:
        >>> len(Outputs(torch.randn(3, 5), torch.tensor([0, 1, 4])))
        3
        >>> Outputs(torch.randn(3, 5), torch.tensor([0, 1]))
        Traceback (most recent call last):
        ValueError: labels must be one a row of logits; got 2 for 3 rows. Give both for the same samples.
    """

    logits: Tensor
    labels: Tensor
    features: Tensor | None = None
    indices: Tensor | None = None
    class_names: tuple[str, ...] = ()
    num_missing: int = 0

    def __post_init__(self) -> None:
        num_rows = len(self.logits)
        for name, column in (("labels", self.labels), ("features", self.features), ("indices", self.indices)):
            if column is not None and len(column) != num_rows:
                raise ValueError(
                    f"{name} must be one a row of logits; got {len(column)} for {num_rows} rows. "
                    "Give both for the same samples."
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
