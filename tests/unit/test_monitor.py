"""The decomposition monitor against plain loops, in pieces, merged and pickled."""

import math
import pickle

import pytest
import torch
import torch.distributed as dist

import maxsup
from maxsup.monitor import DecompositionMonitor
from tests.reference.monitor import decomposition_statistics

KEYS = {
    "num_samples", "regularization", "error_amplification", "wrong_share", "gap_on_errors", "confidence_correct",
    "confidence_wrong", "ce", "penalty", "penalty_to_ce", "z_loss", "beyond_margin",
}  # fmt: skip


@pytest.fixture
def logits() -> torch.Tensor:
    return 2.0 * torch.randn(40, 5, dtype=torch.float64)


@pytest.fixture
def target() -> torch.Tensor:
    labels = torch.randint(5, (40,))
    labels[::7] = -100
    return labels


def same(left: dict[str, float], right: dict[str, float], tolerance: float = 1e-12) -> bool:
    return left.keys() == right.keys() and all(
        left[key] == pytest.approx(right[key], abs=tolerance, nan_ok=True) for key in left
    )


def monitored(*batches: tuple, ignore_index: int = -100) -> DecompositionMonitor:
    monitor = DecompositionMonitor(ignore_index)
    for batch in batches:
        monitor.update(*batch)
    return monitor


def test_the_report_has_twelve_numbers(logits: torch.Tensor, target: torch.Tensor):
    report = monitored((logits, target)).compute()
    assert set(report) == KEYS
    assert all(isinstance(value, float) for value in report.values())


@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_one_update_matches_the_plain_loop(logits: torch.Tensor, target: torch.Tensor, alpha: float):
    expected = decomposition_statistics(logits.tolist(), target.tolist(), alpha=alpha)
    assert same(monitored((logits, target, alpha)).compute(), expected)


def test_the_penalty_of_a_loss_with_a_margin_is_its_own(logits: torch.Tensor, target: torch.Tensor):
    loss = maxsup.create_loss("mbls", alpha=0.3, margin=1.5)
    monitor = DecompositionMonitor.of(loss)
    monitor.update(logits, target, loss.alpha)
    plain = torch.nn.functional.cross_entropy(logits, target)
    assert monitor.compute()["penalty"] == pytest.approx((loss(logits, target) - plain).item(), abs=1e-12)


def test_the_z_loss_and_the_share_of_logits_beyond_the_margin_of_a_loss_are_reported(logits: torch.Tensor, target):
    logits[:, 4] = -math.inf
    target = target.where(target != 4, 0)
    for loss, margin in (("mbls", 2.5), ("mbls", 0.0), ("maxsup", None)):
        options = {} if margin is None else {"margin": margin}
        monitor = DecompositionMonitor.of(maxsup.create_loss(loss, z_loss=0.03, **options))
        monitor.update(logits, target)
        expected = {"margin": margin or 10.0, "z_loss": 0.03, "penalty_margin": margin or 0.0}
        assert same(monitor.compute(), decomposition_statistics(logits.tolist(), target.tolist(), **expected))
        assert monitor.compute()["z_loss"] > 0
        assert (monitor.compute()["beyond_margin"] > 0) == (margin == 2.5)


def test_updates_in_pieces_equal_one_update(logits: torch.Tensor, target: torch.Tensor):
    pieces = [(logits[i : i + 9], target[i : i + 9]) for i in range(0, 40, 9)]
    assert same(monitored(*pieces).compute(), monitored((logits, target)).compute())


def test_merging_two_monitors_equals_one_that_saw_everything_and_leaves_the_other_alone(logits, target):
    left, right = monitored((logits[:13], target[:13])), monitored((logits[13:], target[13:]))
    before = right.compute()
    left.merge(right)
    assert same(left.compute(), monitored((logits, target)).compute())
    left.update(logits, target)
    assert same(right.compute(), before)


def test_merging_with_a_monitor_that_saw_nothing_changes_nothing(logits: torch.Tensor, target: torch.Tensor):
    whole = monitored((logits, target)).compute()
    used, unused = monitored((logits, target)), DecompositionMonitor()
    used.merge(DecompositionMonitor())
    unused.merge(used)
    assert same(used.compute(), whole)
    assert same(unused.compute(), whole)


def test_a_pickled_monitor_goes_on(logits: torch.Tensor, target: torch.Tensor):
    monitor = pickle.loads(pickle.dumps(monitored((logits[:13], target[:13]))))
    monitor.update(logits[13:], target[13:])
    assert same(monitor.compute(), monitored((logits, target)).compute())


def test_reset_forgets_everything(logits: torch.Tensor, target: torch.Tensor):
    monitor = monitored((logits, target))
    monitor.reset()
    assert monitor.compute()["num_samples"] == 0
    monitor.update(logits[:5], target[:5])
    assert same(monitor.compute(), monitored((logits[:5], target[:5])).compute())


def test_a_monitor_that_saw_nothing_reports_nan():
    report = DecompositionMonitor().compute()
    assert report.pop("num_samples") == 0
    assert set(report) == KEYS - {"num_samples"}
    assert all(math.isnan(value) for value in report.values())


def test_without_errors_there_is_no_confidence_on_errors(logits: torch.Tensor):
    report = monitored((logits, logits.argmax(-1))).compute()
    assert report["wrong_share"] == 0
    assert math.isnan(report["gap_on_errors"])
    assert math.isnan(report["confidence_wrong"])
    assert report["error_amplification"] == 0


def test_the_first_of_tied_classes_is_the_prediction():
    tied = torch.tensor([[1.0, 1.0, 0.0]])
    assert monitored((tied, torch.tensor([0]))).compute()["wrong_share"] == 0
    assert monitored((tied, torch.tensor([1]))).compute()["wrong_share"] == 1


def test_ignored_samples_may_hold_nan(logits: torch.Tensor, target: torch.Tensor):
    expected = monitored((logits, target)).compute()
    logits[target == -100] = math.nan
    assert same(monitored((logits, target)).compute(), expected)


def test_another_ignore_index_is_respected(logits: torch.Tensor, target: torch.Tensor):
    expected = monitored((logits, target)).compute()
    target[target == -100] = 255
    assert same(monitored((logits, target), ignore_index=255).compute(), expected)


def test_pixels_are_samples(logits: torch.Tensor, target: torch.Tensor):
    dense = logits.reshape(8, 5, 5).movedim(-1, 1)
    assert same(monitored((dense, target.reshape(8, 5))).compute(), monitored((logits, target)).compute())


def test_half_precision_is_counted_in_full(logits: torch.Tensor, target: torch.Tensor):
    half = logits.bfloat16()
    expected = decomposition_statistics(half.double().tolist(), target.tolist())
    assert same(monitored((half, target)).compute(), expected, tolerance=1e-5)


def test_the_monitor_keeps_no_graph(logits: torch.Tensor, target: torch.Tensor):
    monitor = monitored((logits.requires_grad_(), target))
    tensors = [value for value in vars(monitor).values() if isinstance(value, torch.Tensor)]
    assert tensors
    assert not any(value.requires_grad for value in tensors)


def test_sync_without_other_processes_changes_nothing(logits: torch.Tensor, target: torch.Tensor):
    monitor = monitored((logits, target))
    before = monitor.compute()
    monitor.sync()
    assert same(monitor.compute(), before)


def test_a_monitor_goes_on_from_its_state(logits, target):
    whole = monitored((logits, target, 0.2))
    first = monitored((logits[:25], target[:25], 0.2))
    second = DecompositionMonitor()
    second.load_state_dict(first.state_dict())
    second.update(logits[25:], target[25:], 0.2)
    assert same(second.compute(), whole.compute())
    # What was given away does not count on.
    assert first.compute()["num_samples"] == (target[:25] >= 0).sum()


def test_the_state_of_an_unused_monitor_resets_another(logits, target):
    used = monitored((logits, target))
    used.load_state_dict(DecompositionMonitor().state_dict())
    assert used.compute()["num_samples"] == 0


def test_the_state_of_something_else_is_refused():
    with pytest.raises(ValueError, match=r"must have 11 sums; got shape \(3,\)"):
        DecompositionMonitor().load_state_dict({"sums": torch.zeros(3)})


def test_a_state_of_nine_sums_goes_on_and_says_that_the_others_are_not_known(logits, target):
    state = {name: sums[:9] for name, sums in monitored((logits, target)).state_dict().items()}
    monitor = DecompositionMonitor()
    monitor.load_state_dict(state)
    monitor.update(logits, target)
    report, whole = monitor.compute(), monitored((logits, target), (logits, target)).compute()
    assert math.isnan(report.pop("z_loss"))
    assert math.isnan(report.pop("beyond_margin"))
    assert same(report, {name: whole[name] for name in report})


def test_a_transposed_picture_is_refused():
    monitor = DecompositionMonitor()
    with pytest.raises(ValueError, match=r"target must be class indices of shape \(2, 4, 6\)"):
        monitor.update(torch.randn(2, 5, 4, 6), torch.zeros(2, 6, 4, dtype=torch.long))
    assert monitor.compute()["num_samples"] == 0


def test_what_processes_know_of_one_another_is_not_added_again(logits, target, monkeypatch):
    # The other process counts the same as this one.
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "all_reduce", lambda sums: sums.mul_(2))
    monitor, expected = DecompositionMonitor(), DecompositionMonitor()
    for number in (2, 4, 6):
        monitor.update(logits, target)
        for _ in range(2):
            monitor.sync()
            restored = DecompositionMonitor()
            restored.load_state_dict(monitor.state_dict())
            monitor = restored
        for _ in range(2):
            expected.update(logits, target)
        assert monitor.compute() == pytest.approx(expected.compute(), rel=1e-12)
        assert monitor.compute()["num_samples"] == number * (target != -100).sum()
    twice = DecompositionMonitor()
    twice.merge(monitor)
    twice.sync()
    assert twice.compute() == monitor.compute()
