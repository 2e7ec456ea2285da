"""Accelerate, DDP and FSDP with two gloo processes give what one process gives."""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from examples import accelerate_training, fsdp_training
from torch import Tensor

from maxsup import MaxSupLoss
from maxsup.schedules import Linear
from tests.integration.integrations.launch import run_two_ranks
from tests.integration.integrations.two_rank_gradients import ALPHA, SPLIT, gradient, network, whole_batch

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fresh_accelerate")]
TOLERANCE = 1e-5


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
