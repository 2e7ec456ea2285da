"""Two gloo processes give what one process gives."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import maxsup
from maxsup.losses import OnlineLabelSmoothingLoss
from maxsup.monitor import DecompositionMonitor

pytestmark = pytest.mark.distributed
WORLD_SIZE = 2
TOLERANCE = 1e-6
SPLIT = (0, 5, 12)
"""Rank 0 has five samples, rank 1 seven."""


def whole_batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(11)
    features = torch.randn(12, 3, generator=generator)
    target = torch.randint(4, (12,), generator=generator)
    target[[1, 2, 8]] = -100
    weights = torch.randn(4, 3, generator=generator)
    return features, target, weights


def linear_model() -> torch.nn.Linear:
    model = torch.nn.Linear(3, 4, bias=False)
    model.weight.data = whole_batch()[2]
    return model


def rows_of(rank: int) -> slice:
    return slice(SPLIT[rank], SPLIT[rank + 1])


def gradient_of_a_rank(rank: int) -> torch.Tensor:
    """Each rank knows the number of valid targets of both; gradients are summed."""
    features, target, _ = whole_batch()
    features, target = features[rows_of(rank)], target[rows_of(rank)]
    num_items = (target != -100).sum()
    dist.all_reduce(num_items)
    model = linear_model()
    maxsup.MaxSupLoss(0.3)(model(features), target, num_items=num_items).backward()
    dist.all_reduce(model.weight.grad)
    return model.weight.grad


def gradient_under_ddp(rank: int) -> torch.Tensor:
    """DistributedDataParallel averages gradients, so the denominator is the mean number of targets a rank."""
    features, target, _ = whole_batch()
    features, target = features[rows_of(rank)], target[rows_of(rank)]
    num_items = (target != -100).sum()
    dist.all_reduce(num_items)
    model = torch.nn.parallel.DistributedDataParallel(linear_model())
    maxsup.MaxSupLoss(0.3)(model(features), target, num_items=num_items / WORLD_SIZE).backward()
    return model.module.weight.grad


def matrix_of_a_rank(rank: int) -> torch.Tensor:
    features, target, _ = whole_batch()
    loss = OnlineLabelSmoothingLoss(num_classes=4)
    loss.end_epoch()
    loss(linear_model()(features[rows_of(rank)]).detach(), target[rows_of(rank)])
    loss.end_epoch()
    return torch.cat([loss.matrix.flatten(), loss.accumulator.flatten(), loss.counts])


class LossInside(torch.nn.Module):
    """A model that computes its loss itself, as a LightningModule does."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.criterion = linear_model(), OnlineLabelSmoothingLoss(num_classes=4)

    def forward(self, features: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.criterion(self.model(features), target)


def matrix_under_ddp(rank: int) -> torch.Tensor:
    """Batches of two and more samples: DistributedDataParallel copies buffers of the first rank before each."""
    features, target, _ = whole_batch()
    model = torch.nn.parallel.DistributedDataParallel(LossInside())
    model.module.criterion.end_epoch()
    for part in range(2):
        model(features[rows_of(rank)][part::2], target[rows_of(rank)][part::2])
    for _ in range(2):  # the second finds no new batch
        model.module.criterion.end_epoch()
    return model.module.criterion.matrix.flatten()


def matrix_where_one_rank_saw_nothing(rank: int) -> torch.Tensor:
    features, target, _ = whole_batch()
    loss = OnlineLabelSmoothingLoss(num_classes=4)
    loss.end_epoch()
    if rank == 0:
        loss(linear_model()(features).detach(), target)
    loss.end_epoch()
    return loss.matrix.flatten()


def matrices_of_unusual_epochs(rank: int) -> torch.Tensor:
    return torch.stack([matrix_where_one_rank_saw_nothing(rank), matrix_under_ddp(rank)])


def report_of_a_rank(rank: int) -> torch.Tensor:
    features, target, _ = whole_batch()
    monitor = DecompositionMonitor()
    monitor.update(linear_model()(features[rows_of(rank)]).detach(), target[rows_of(rank)])
    for _ in range(2):  # the second adds nothing
        monitor.sync()
    report = monitor.compute()
    return torch.tensor([report[key] for key in sorted(report)], dtype=torch.float64)


def run_rank(rank: int, work: Callable[[int], torch.Tensor], folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=WORLD_SIZE,
        timeout=timedelta(seconds=60),
    )
    try:
        torch.save(work(rank), Path(folder) / f"{rank}.pt")
    finally:
        dist.destroy_process_group()


def results_of_both_ranks(work: Callable[[int], torch.Tensor], folder: Path) -> list[torch.Tensor]:
    mp.spawn(run_rank, args=(work, str(folder)), nprocs=WORLD_SIZE, join=True)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD_SIZE)]


def whole_gradient() -> torch.Tensor:
    features, target, _ = whole_batch()
    model = linear_model()
    maxsup.MaxSupLoss(0.3)(model(features), target).backward()
    return model.weight.grad


def whole_matrix() -> OnlineLabelSmoothingLoss:
    features, target, _ = whole_batch()
    loss = OnlineLabelSmoothingLoss(num_classes=4)
    loss.end_epoch()
    loss(linear_model()(features).detach(), target)
    loss.end_epoch()
    return loss


@pytest.mark.parametrize("work", [gradient_of_a_rank, gradient_under_ddp], ids=["summed", "ddp"])
def test_gradients_of_two_ranks_equal_those_of_the_whole_batch(work: Callable[[int], torch.Tensor], tmp_path: Path):
    for gradient in results_of_both_ranks(work, tmp_path):
        assert (gradient - whole_gradient()).abs().max() <= TOLERANCE


def test_online_label_smoothing_ends_an_epoch_alike_on_both_ranks(tmp_path: Path):
    first, second = results_of_both_ranks(matrix_of_a_rank, tmp_path)
    single = whole_matrix()
    expected = torch.cat([single.matrix.flatten(), single.accumulator.flatten(), single.counts])
    assert torch.equal(first, second)
    assert (first - expected).abs().max() <= TOLERANCE


def test_online_label_smoothing_learns_the_whole_epoch_where_one_rank_saw_nothing_and_under_ddp(tmp_path: Path):
    first, second = results_of_both_ranks(matrices_of_unusual_epochs, tmp_path)
    assert torch.equal(first, second)
    assert (first - whole_matrix().matrix.flatten()).abs().max() <= TOLERANCE


def test_a_synchronised_monitor_reports_the_whole_batch_on_both_ranks(tmp_path: Path):
    first, second = results_of_both_ranks(report_of_a_rank, tmp_path)
    features, target, _ = whole_batch()
    monitor = DecompositionMonitor()
    monitor.update(linear_model()(features).detach(), target)
    report = monitor.compute()
    expected = torch.tensor([report[key] for key in sorted(report)], dtype=torch.float64)
    assert torch.equal(first, second)
    assert torch.allclose(first, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
