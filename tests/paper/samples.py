"""Constants and comparisons of the claims."""

import torch
import torch.nn.functional as F

ALPHA = 0.1
NUM_CLASSES = 7
TOLERANCE = 1e-12


def one_hot(labels: torch.Tensor) -> torch.Tensor:
    return F.one_hot(labels, NUM_CLASSES).double()


def close(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE)
