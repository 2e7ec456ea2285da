"""The adapter for Keras, as the unit tests have it, and an Accelerate without settings."""

from collections.abc import Iterator

import pytest

from tests.unit.integrations.conftest import adapter

__all__ = ["adapter", "fresh_accelerate"]


@pytest.fixture
def fresh_accelerate() -> Iterator[None]:
    """Accelerate remembers its first settings for the whole process."""
    yield
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
