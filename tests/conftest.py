"""Settings shared by every test: one thread, fixed seeds, deterministic Hypothesis runs."""

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

settings.register_profile(
    "stable",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("stable")


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Every test starts from the same random state, in any order and on any worker."""
    torch.manual_seed(20250)
