"""What the examples in docstrings may take for granted."""

import pytest
import torch


@pytest.fixture(autouse=True)
def torch_in_doctests(doctest_namespace: dict[str, object]) -> None:
    """Examples say torch.tensor without importing torch first."""
    doctest_namespace["torch"] = torch
