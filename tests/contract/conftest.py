"""A contract that takes a ``name`` holds for every registered loss, unless the test says for which."""

import pytest

from tests.contract.calls import NAMES


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param
