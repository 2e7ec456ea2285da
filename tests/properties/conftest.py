"""Every property holds for every way to compute a loss."""

import pytest


@pytest.fixture(autouse=True)
def _each_implementation(each_implementation: str) -> str:
    return each_implementation
