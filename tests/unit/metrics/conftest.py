"""The kinds of predictions, each under its name."""

import pytest
import torch
from torch import Tensor

from tests.unit.metrics.cases import CASES, Case, usual


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    """Logits and labels of one kind after another."""
    return CASES[request.param]()


@pytest.fixture
def predictions() -> Case:
    """Logits and labels with nothing special about them."""
    return usual()


@pytest.fixture
def features() -> tuple[Tensor, Tensor]:
    """Features of eight classes of different sizes, one of a single sample, and some vectors of zeros."""
    labels = torch.cat([torch.randint(7, (60,)), torch.tensor([7])])
    rows = torch.randn(61, 5, dtype=torch.float64) + 2 * torch.randn(8, 5, dtype=torch.float64)[labels]
    rows[3] = 0.0
    rows[40] = 0.0
    return rows, labels
