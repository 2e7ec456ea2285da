"""Accelerate, DDP and FSDP with two gloo processes give what one process gives."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from examples import accelerate_training, fsdp_training
from torch import Tensor

from maxsup import MaxSupLoss
from maxsup.schedules import Linear
from tests.integration.integrations.launch import run_two_ranks
from tests.integration.integrations.two_rank_gradients import ALPHA, SPLIT, gradient, network, whole_batch
from tests.reference import losses as reference

pytestmark = pytest.mark.slow
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    """Accelerate remembers its first settings for the whole process."""
    yield
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Tensor]]:
    folder = tmp_path_factory.mktemp("two_ranks")
    run_two_ranks("tests.integration.integrations.two_rank_gradients", folder)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def whole_gradient(**options: Any) -> Tensor:
    points, target = whole_batch(**options)
    model = network()
    MaxSupLoss(ALPHA)(model(points), target).backward()
    return gradient(model)


@pytest.mark.distributed
@pytest.mark.parametrize("way", ["no_sync", "accumulate", "fsdp"])
def test_unequal_ranks_and_micro_batches_give_the_gradient_of_the_whole(
    way: str, two_ranks: list[dict[str, Tensor]]
) -> None:
    for rank in two_ranks:
        assert (rank[way] - whole_gradient()).abs().max() <= TOLERANCE


@pytest.mark.distributed
def test_a_rank_without_targets_adds_nothing_when_targets_are_counted(two_ranks: list[dict[str, Tensor]]) -> None:
    expected = whole_gradient(is_second_rank_empty=True)
    assert (two_ranks[1]["empty_counted"] - expected).abs().max() <= TOLERANCE


@pytest.mark.distributed
def test_a_rank_without_targets_halves_the_mean_of_ranks_and_stays_finite(two_ranks: list[dict[str, Tensor]]) -> None:
    points, target = whole_batch()
    model = network()
    MaxSupLoss(ALPHA)(model(points[: SPLIT[1][0]]), target[: SPLIT[1][0]]).backward()
    assert (two_ranks[1]["empty_alone"] - gradient(model) / 2).abs().max() <= TOLERANCE


@pytest.mark.distributed
@pytest.mark.parametrize("name", ["accelerate", "fsdp"])
def test_the_examples_report_the_same_losses_from_two_processes(name: str, two_ranks: list[dict[str, Tensor]]) -> None:
    example = {"accelerate": accelerate_training, "fsdp": fsdp_training}[name]
    assert (two_ranks[0][f"{name}_example"] - torch.tensor(example.main())).abs().max() <= TOLERANCE


@pytest.mark.parametrize("example", [accelerate_training, fsdp_training], ids=["accelerate", "fsdp"])
def test_the_examples_learn_and_start_from_the_reference(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Tensor, Tensor]] = []
    forward = MaxSupLoss.forward

    def record(self: MaxSupLoss, input: Tensor, target: Tensor, **options: Any) -> Tensor:
        seen.append((input.detach().clone(), target.clone()))
        return forward(self, input, target, **options)

    monkeypatch.setattr(MaxSupLoss, "forward", record)
    losses = example.main()
    num_parts = len(seen) // len(losses)
    values = [
        reference.maxsup(z, y, alpha=0.1)
        for logits, target in seen[:num_parts]
        for z, y in zip(logits.double().tolist(), target.tolist(), strict=True)
        if y != -100
    ]
    assert losses[0] == pytest.approx(sum(values) / len(values), abs=TOLERANCE)
    assert losses[-1] < losses[0] - 0.5


def test_a_saved_state_brings_back_the_progress_of_a_schedule(tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    criterion = MaxSupLoss(Linear(0.1, 0.2))
    accelerator.register_for_checkpointing(criterion)
    criterion.set_progress(0.3)
    saved = criterion.alpha
    accelerator.save_state(str(tmp_path))
    criterion.set_progress(1.0)
    accelerator.load_state(str(tmp_path))
    assert criterion.alpha == saved == pytest.approx(0.13, abs=1e-12)
