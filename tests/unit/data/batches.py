"""When two pipelines give the same."""

import torch

from maxsup.data import Batch


def assert_equal_batches(first: list[Batch], second: list[Batch]) -> None:
    """Everything in every batch, to the bit."""
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for name in ("images", "target", "labels", "indices"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
