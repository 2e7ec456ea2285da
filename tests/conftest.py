"""Settings shared by every test: one thread, fixed seeds, deterministic Hypothesis runs."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

from maxsup.functional import implementation
from maxsup.losses import blocks, fused

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


@pytest.fixture(
    params=[
        "fused",
        pytest.param("blocks", marks=pytest.mark.slow),
        pytest.param("reference", marks=pytest.mark.slow),
    ]
)
def each_implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """All ways to compute a loss: as chosen for the batch, forced into blocks of a few samples, and the formula."""
    if request.param == "blocks":
        monkeypatch.setattr(fused, "SMALL_NUMEL", 0)
        monkeypatch.setattr(blocks, "HAS_NUMPY", False)
        monkeypatch.setattr(blocks, "CPU_BLOCK_BYTES", (48, 48))
        monkeypatch.setattr(blocks, "WHOLE_BYTES", 0)
        monkeypatch.setattr(blocks, "PLAIN_MAX_LENGTH", 2)
    with implementation("reference" if request.param == "reference" else "fused"):
        yield request.param
