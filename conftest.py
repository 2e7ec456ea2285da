"""What the examples in docstrings may take for granted."""

import os
import tempfile
from importlib.util import find_spec

import pytest
import torch

# Keras would look for TensorFlow, and write its settings into the home folder of whoever runs the tests.
os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("KERAS_HOME", tempfile.gettempdir())

# JAX starts threads, and a process with threads must not be forked, as loading images does: the tests of JAX run in a
# process of their own, which test_everything_holds_on_jax starts.
collect_ignore = [
    "src/maxsup/integrations/jax.py",
    "tests/unit/integrations/test_jax.py",
    "tests/integration/integrations/test_jax.py",
]
if os.environ["KERAS_BACKEND"] == "jax":
    collect_ignore.clear()
# It switches Triton's interpreter on, which must not happen to other tests.
collect_ignore.append("tests/integration/integrations/liger_numbers.py")
if find_spec("triton") is None:
    collect_ignore.append("src/maxsup/losses/device/kernels.py")


@pytest.fixture(autouse=True)
def torch_in_doctests(doctest_namespace: dict[str, object]) -> None:
    """Examples say torch.tensor without importing torch first."""
    doctest_namespace["torch"] = torch
