"""Samples that the claims are checked on."""

import pytest
import torch

from tests.paper.samples import NUM_CLASSES


@pytest.fixture
def logits() -> torch.Tensor:
    return 3.0 * torch.randn(50, NUM_CLASSES, dtype=torch.float64)


@pytest.fixture
def target() -> torch.Tensor:
    return torch.randint(NUM_CLASSES, (50,))
