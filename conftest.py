"""What the examples in docstrings may take for granted."""

import os
import tempfile

import pytest
import torch

# Keras would look for TensorFlow, and write its settings into the home folder of whoever runs the tests.
os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("KERAS_HOME", tempfile.gettempdir())


@pytest.fixture(autouse=True)
def torch_in_doctests(doctest_namespace: dict[str, object]) -> None:
    """Examples say torch.tensor without importing torch first."""
    doctest_namespace["torch"] = torch
