"""Online label smoothing: what an epoch leaves behind, for the three published variants."""

import copy
import math

import pytest
import torch

from maxsup.functional import online_label_smoothing_cross_entropy
from maxsup.losses import OnlineLabelSmoothingLoss
from tests.reference import losses as reference
from tests.reference.online import VARIANTS, accumulate, initial_matrix, largest_difference, next_matrix

NUM_CLASSES = 4
TOLERANCE = 1e-6
"""The matrix is kept in float32."""


def epoch_of(seed: int, size: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of which about half are predicted correctly; class 3 never is."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, NUM_CLASSES, generator=generator)
    target = torch.randint(NUM_CLASSES, (size,), generator=generator)
    logits[torch.arange(size), target] += 1.5
    logits[:, 3] -= 9.0
    return logits, target


def ready(*args, **options) -> OnlineLabelSmoothingLoss:
    """A loss whose loop ends epochs, before the first of them."""
    loss = OnlineLabelSmoothingLoss(*args, **options)
    loss.end_epoch()
    return loss


def train_epoch(loss: OnlineLabelSmoothingLoss, logits: torch.Tensor, target: torch.Tensor, batch: int = 16) -> None:
    for start in range(0, len(logits), batch):
        loss(logits[start : start + batch], target[start : start + batch])
    loss.end_epoch()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_matrix_starts_as_the_variant_says(variant: str):
    loss = ready(variant=variant, num_classes=NUM_CLASSES)
    assert largest_difference(loss.matrix.tolist(), initial_matrix(variant, NUM_CLASSES)) < TOLERANCE


@pytest.mark.parametrize("variant", VARIANTS)
def test_three_epochs_match_the_plain_loop(variant: str):
    loss = ready(variant=variant, num_classes=NUM_CLASSES)
    expected = initial_matrix(variant, NUM_CLASSES)
    for epoch in range(3):
        logits, target = epoch_of(epoch)
        train_epoch(loss, logits, target)
        expected = next_matrix(variant, expected, *accumulate(logits.tolist(), target.tolist(), NUM_CLASSES))
        assert largest_difference(loss.matrix.tolist(), expected) < TOLERANCE


@pytest.mark.parametrize(("variant", "unseen"), [("original", 0.25), ("fine_grained", 0.25), ("reimplementation", 0.0)])
def test_a_class_without_a_correct_prediction_gets_what_the_variant_says(variant: str, unseen: float):
    loss = ready(variant=variant, num_classes=NUM_CLASSES)
    loss.matrix[3] = torch.tensor([0.0, 0.0, 0.1, 0.9])  # however sure its row was
    train_epoch(loss, *epoch_of(0))
    assert loss.matrix[3].tolist() == pytest.approx([unseen] * NUM_CLASSES, abs=TOLERANCE)


def test_a_sure_row_of_the_fine_grained_variant_is_kept():
    loss = ready(variant="fine_grained", num_classes=NUM_CLASSES)
    loss.matrix[0] = torch.tensor([0.9, 0.1, 0.0, 0.0])
    train_epoch(loss, *epoch_of(0))
    assert loss.matrix[0].tolist() == pytest.approx([0.9, 0.1, 0.0, 0.0], abs=TOLERANCE)
    assert loss.matrix[1].max() != 0.25


@pytest.mark.parametrize("variant", ["original", "reimplementation"])
def test_a_sure_row_of_the_other_variants_is_replaced(variant: str):
    loss = ready(variant=variant, num_classes=NUM_CLASSES)
    loss.matrix[0] = torch.tensor([0.9, 0.1, 0.0, 0.0])
    train_epoch(loss, *epoch_of(0))
    assert loss.matrix[0, 2] > 0


def test_the_first_epoch_of_the_original_variant_is_half_of_cross_entropy():
    logits, target = epoch_of(0)
    loss = ready(num_classes=NUM_CLASSES)
    expected = 0.5 * torch.nn.functional.cross_entropy(logits, target)
    assert torch.allclose(loss(logits, target), expected, rtol=1e-6, atol=0)


def test_the_fine_grained_variant_adds_the_soft_loss_to_the_whole_cross_entropy():
    logits, target = epoch_of(0)
    loss = ready(variant="fine_grained", num_classes=NUM_CLASSES)
    uniform = -logits.log_softmax(-1).mean(-1).mean()
    expected = torch.nn.functional.cross_entropy(logits, target) + uniform
    assert torch.allclose(loss(logits, target), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("variant", ["original", "reimplementation"])
def test_the_second_epoch_mixes_in_the_row_of_the_class(variant: str):
    loss = ready(0.3, variant=variant, num_classes=NUM_CLASSES, reduction="none").double()
    train_epoch(loss, *epoch_of(0))
    logits, target = epoch_of(1)
    matrix = loss.matrix.tolist()
    expected = [
        reference.ols(z, y, matrix=matrix, alpha=0.3) for z, y in zip(logits.tolist(), target.tolist(), strict=True)
    ]
    assert loss(logits.double(), target).tolist() == pytest.approx(expected, abs=1e-10)


def test_the_matrix_of_this_epoch_does_not_move_before_it_ends():
    loss = ready(num_classes=NUM_CLASSES)
    train_epoch(loss, *epoch_of(0))
    before = loss.matrix.clone()
    loss(*epoch_of(1))
    assert torch.equal(loss.matrix, before)
    assert loss.counts.sum() > 0


def test_the_end_of_an_epoch_forgets_what_was_counted():
    loss = ready(num_classes=NUM_CLASSES)
    train_epoch(loss, *epoch_of(0))
    assert loss.counts.sum() == 0
    assert loss.accumulator.abs().sum() == 0


@pytest.mark.parametrize("num_classes", [None, NUM_CLASSES])
def test_a_loss_of_which_nobody_ends_an_epoch_refuses_to_train(num_classes: int | None):
    logits, target = epoch_of(0)
    loss = OnlineLabelSmoothingLoss(num_classes=num_classes)
    with pytest.raises(RuntimeError, match="end_epoch must be called once before the first epoch") as error:
        loss(logits, target)
    assert str(error.value).endswith("Call criterion.end_epoch().")
    assert torch.equal(loss.eval()(logits, target), torch.nn.functional.cross_entropy(logits, target))
    loss.end_epoch()
    assert loss.train()(logits, target) < loss.eval()(logits, target)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_state_that_learnt_nothing_does_not_say_that_epochs_end(variant: str):
    loss = OnlineLabelSmoothingLoss(variant=variant, num_classes=NUM_CLASSES)
    loss.load_state_dict(OnlineLabelSmoothingLoss(variant=variant, num_classes=NUM_CLASSES).state_dict())
    with pytest.raises(RuntimeError, match="end_epoch must be called"):
        loss(*epoch_of(0))


def test_an_epoch_that_ends_twice_is_one_epoch():
    loss = ready(num_classes=NUM_CLASSES)
    train_epoch(loss, *epoch_of(0))
    before = loss.matrix.clone()
    loss.end_epoch()
    assert torch.equal(loss.matrix, before)


def test_an_epoch_without_a_correct_prediction_leaves_uniform_rows():
    loss = ready(num_classes=NUM_CLASSES)
    train_epoch(loss, torch.eye(NUM_CLASSES), torch.tensor([1, 2, 3, 0]))
    assert torch.equal(loss.matrix, torch.full((NUM_CLASSES, NUM_CLASSES), 0.25))


def test_a_state_without_its_counts_is_refused():
    loss = ready(num_classes=NUM_CLASSES)
    state = loss.state_dict()
    assert sorted(state) == ["accumulator", "counts", "matrix", "num_seen"]
    del state["counts"]
    with pytest.raises(RuntimeError, match=r'Missing key.* "counts"'):
        loss.load_state_dict(state)


def test_a_state_saved_by_version_0_1_loads_and_goes_on():
    saved, resumed = (ready(num_classes=NUM_CLASSES) for _ in range(2))
    saved(*epoch_of(0))
    old = saved.state_dict()
    old["counts"] = old["counts"].float()
    del old["num_seen"]
    resumed.load_state_dict(old)
    saved.end_epoch()
    resumed.end_epoch()
    assert torch.equal(saved.matrix, resumed.matrix)


def test_the_matrix_gets_no_gradient_and_counts_no_graph():
    logits, target = epoch_of(0)
    loss = ready(num_classes=NUM_CLASSES)
    loss(logits.requires_grad_(), target).backward()
    assert not loss.accumulator.requires_grad
    assert not loss.matrix.requires_grad
    assert torch.isfinite(logits.grad).all()


def test_evaluation_teaches_the_matrix_nothing():
    loss = ready(num_classes=NUM_CLASSES).eval()
    loss(*epoch_of(0))
    assert loss.counts.sum() == 0


@pytest.mark.parametrize("ignore_index", [-100, 255, 1])
def test_ignored_targets_teach_the_matrix_nothing(ignore_index: int):
    logits, target = epoch_of(0)
    target[::3] = ignore_index
    logits[::3] = math.nan
    loss = ready(num_classes=NUM_CLASSES, ignore_index=ignore_index)
    loss(logits, target)
    total, counts = accumulate(logits.tolist(), target.tolist(), NUM_CLASSES, ignore_index)
    assert loss.counts.tolist() == counts
    assert largest_difference(loss.accumulator.tolist(), total) < 1e-5


def test_only_pure_probability_targets_teach_the_matrix():
    logits, target = epoch_of(0)
    pure = torch.nn.functional.one_hot(target, NUM_CLASSES).float()
    mixed = 0.8 * pure + 0.2 * pure.roll(1, 0)
    is_mixed = torch.arange(len(logits)) % 2 == 0
    loss = ready(num_classes=NUM_CLASSES)
    loss(logits, torch.where(is_mixed.unsqueeze(1), mixed, pure))
    really_mixed = is_mixed & (mixed.amax(1) < 1)
    total, counts = accumulate(logits[~really_mixed].tolist(), target[~really_mixed].tolist(), NUM_CLASSES)
    assert loss.counts.tolist() == counts
    assert largest_difference(loss.accumulator.tolist(), total) < 1e-5


def test_a_mixed_target_mixes_the_rows_of_its_classes():
    logits = torch.randn(5, NUM_CLASSES, dtype=torch.float64)
    matrix = torch.randn(NUM_CLASSES, NUM_CLASSES, dtype=torch.float64).softmax(-1)
    target = torch.tensor([0.7, 0.3, 0.0, 0.0], dtype=torch.float64).expand(5, NUM_CLASSES)
    mixed = online_label_smoothing_cross_entropy(logits, target, matrix)
    pure = [online_label_smoothing_cross_entropy(logits, torch.full((5,), label), matrix) for label in (0, 1)]
    assert torch.allclose(mixed, 0.7 * pure[0] + 0.3 * pure[1], rtol=1e-12, atol=0)


def test_dense_predictions_teach_the_matrix_like_flat_ones():
    logits, target = epoch_of(0)
    flat, dense = (ready(num_classes=NUM_CLASSES) for _ in range(2))
    flat(logits, target)
    dense(logits.reshape(8, 5, NUM_CLASSES).movedim(-1, 1), target.reshape(8, 5))
    assert torch.equal(dense.counts, flat.counts)
    assert torch.allclose(dense.accumulator, flat.accumulator, rtol=0, atol=1e-5)


def test_half_precision_logits_are_counted_in_float32():
    logits, target = epoch_of(0)
    loss = ready(num_classes=NUM_CLASSES)
    loss(logits.bfloat16(), target)
    total, _ = accumulate(logits.bfloat16().float().tolist(), target.tolist(), NUM_CLASSES)
    assert loss.accumulator.dtype == torch.float32
    assert largest_difference(loss.accumulator.tolist(), total) < 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_loss_without_a_size_takes_it_from_the_first_batch(variant: str):
    sized, unsized = (ready(variant=variant, num_classes=size) for size in (NUM_CLASSES, None))
    for loss in (sized, unsized):
        train_epoch(loss, *epoch_of(0))
    assert torch.equal(sized.matrix, unsized.matrix)


@pytest.mark.parametrize("num_classes", [None, NUM_CLASSES])
def test_a_state_dict_goes_on_in_the_middle_of_an_epoch(num_classes: int | None):
    whole = ready(num_classes=NUM_CLASSES)
    train_epoch(whole, *epoch_of(0))
    logits, target = epoch_of(1)
    whole(logits[:20], target[:20])
    resumed = OnlineLabelSmoothingLoss(num_classes=num_classes)
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
    for loss in (whole, resumed):
        loss(logits[20:], target[20:])
        loss.end_epoch()
    assert torch.equal(whole.matrix, resumed.matrix)


def test_a_state_dict_of_an_unused_loss_loads_into_an_unused_loss():
    fresh = ready()
    fresh.load_state_dict(OnlineLabelSmoothingLoss().state_dict())
    train_epoch(fresh, *epoch_of(0))
    assert fresh.matrix.shape == (NUM_CLASSES, NUM_CLASSES)


def test_ending_an_epoch_that_never_began_changes_nothing():
    loss = ready()
    loss.end_epoch()
    train_epoch(loss, *epoch_of(0))
    assert torch.isfinite(loss.matrix).all()


def test_a_matrix_of_another_size_is_refused():
    logits, target = epoch_of(0)
    with pytest.raises(ValueError, match=r"matrix must .*; got \(3, 3\)") as error:
        online_label_smoothing_cross_entropy(logits, target, torch.full((3, 3), 1 / 3))
    assert "num_classes" in str(error.value)


def test_an_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="variant must be one of") as error:
        OnlineLabelSmoothingLoss(variant="orginal")
    assert "'original'" in str(error.value)
