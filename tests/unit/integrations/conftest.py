"""The adapter for Keras, imported late: that takes seconds, and most runs of the tests leave it out."""

import os
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def adapter() -> ModuleType:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    pytest.importorskip("keras")
    from maxsup.integrations import keras

    return keras
