"""Settings shared by every test: one thread, fixed seeds, deterministic Hypothesis runs."""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

from maxsup.functional import implementation
from maxsup.losses.computing import blocks, small
from maxsup.losses.head import blocks as head_blocks
from tests.reference.cases import CASE_OF

torch.set_num_threads(1)

settings.register_profile(
    "stable",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("stable")

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether Triton's kernels run on CPU tensors, slowly; nothing else is then tested in this process."""


def examples(count: int) -> int:
    """How many examples a property is tried on: fewer where every call of a loss takes a twentieth of a second."""
    return 3 if IS_INTERPRETED else count


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A loss without a closed gradient is computed in one way, whichever is chosen: once by formula is enough."""
    kept = [item for item in items if not _is_repetition(item)]
    config.hook.pytest_deselected(items=[item for item in items if _is_repetition(item)])
    items[:] = kept


def _is_repetition(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    form = parameters.get("each_implementation")
    case = CASE_OF.get(parameters.get("name"))
    if IS_INTERPRETED:
        has_kernels = case is None or case.has_kernel
        return item.path.name != "interpreted.py" and (form is None or not has_kernels)
    return form in ("blocks", "eager") and case is not None and not case.is_fused


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Every test starts from the same random state, in any order and on any worker."""
    torch.manual_seed(20250)


@pytest.fixture(
    params=["triton"]
    if IS_INTERPRETED
    else [
        "fused",
        pytest.param("blocks", marks=pytest.mark.slow),
        "eager",
        pytest.param("reference", marks=pytest.mark.slow),
    ]
)
def each_implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """All ways to compute a loss: as chosen for the batch, in blocks of a few samples, as on a device, by formula.

    A process that interprets Triton, started by ``tests/contract/test_triton.py``, goes through the kernels alone.
    """
    if request.param == "blocks":
        monkeypatch.setattr(small, "SMALL_NUMEL", 0)
        monkeypatch.setattr(small, "SMALL_NARROW_NUMEL", 0)
        monkeypatch.setattr(blocks, "HAS_NUMPY", False)
        monkeypatch.setattr(blocks, "CPU_BLOCK_BYTES", (48, 48))
        monkeypatch.setattr(blocks, "WHOLE_BYTES", 0)
        monkeypatch.setattr(blocks, "NARROW_PLANE", 2)
        monkeypatch.setattr(blocks, "PLAIN_MAX_LENGTH", 2)
        monkeypatch.setattr(head_blocks, "SMALL_BYTES", 0)
    with implementation("fused" if request.param == "blocks" else request.param):
        yield request.param
