import math

import pytest
import torch

from maxsup.losses.computing import blocks
from maxsup.losses.computing.blocks import first_max


@pytest.fixture(params=["numpy", "stretches", "max"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numpy is there, where it is not, and where it is not and classes are few."""
    monkeypatch.setattr(blocks, "HAS_NUMPY", request.param == "numpy")
    monkeypatch.setattr(blocks, "PLAIN_MAX_LENGTH", 2 if request.param == "stretches" else 10_000)


@pytest.mark.parametrize("num_classes", [2, 7, 24, 101, 1000])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.usefixtures("each_way")
def test_the_first_of_equal_logits_is_found_wherever_they_stand(num_classes: int, axis: int) -> None:
    # Few different values, so that most samples have ties.
    logits = torch.randint(3, (60, num_classes)).float()
    expected = torch.tensor([row.index(max(row)) for row in logits.tolist()])
    top, index = first_max(logits if axis == 1 else logits.t().contiguous(), axis)
    assert torch.equal(index.flatten(), expected)
    assert torch.equal(top.flatten(), logits.amax(dim=1))
    assert top.shape == index.shape == ((60, 1) if axis == 1 else (1, 60))


@pytest.mark.usefixtures("each_way")
def test_masked_classes_are_never_the_top() -> None:
    logits = torch.full((3, 300), -math.inf)
    logits[torch.arange(3), torch.tensor([0, 150, 299])] = torch.tensor([-5.0, 0.0, 7.0])
    assert first_max(logits, 1)[1].flatten().tolist() == [0, 150, 299]


@pytest.mark.usefixtures("each_way")
def test_a_logit_that_is_not_a_number_is_reported_as_the_top() -> None:
    logits = torch.zeros(1, 300)
    logits[0, 17] = math.nan
    assert first_max(logits, 1)[0].isnan().all()
