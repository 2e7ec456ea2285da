"""Dense prediction: one class a pixel, pixels without a label, two heads."""

import pytest
import torch

from maxsup import MaxSupLoss

smp = pytest.importorskip("segmentation_models_pytorch", reason="the extra smp is not installed")


def half_ignored() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are right everywhere, where MaxSup and label smoothing agree, and masks without the left half."""
    logits = torch.randn(2, 3, 8, 8)
    target = logits.argmax(dim=1)
    target[:, :, :4] = 255
    return logits, target


def test_ignored_pixels_leave_the_mean() -> None:
    logits, target = half_ignored()
    ours = MaxSupLoss(alpha=0.1, ignore_index=255)
    kept = target != 255
    rows = logits.permute(0, 2, 3, 1)[kept]
    assert ours(logits, target).item() == pytest.approx(MaxSupLoss(alpha=0.1)(rows, target[kept]).item(), abs=1e-6)


def test_the_smoothed_loss_of_smp_counts_ignored_pixels_in_its_mean() -> None:
    logits, target = half_ignored()
    theirs = smp.losses.SoftCrossEntropyLoss(smooth_factor=0.1, ignore_index=255)
    ours = MaxSupLoss(alpha=0.1, ignore_index=255)
    # Half of the pixels are ignored and predictions are right, so the only difference left is the denominator.
    assert theirs(logits, target).item() == pytest.approx(0.5 * ours(logits, target).item(), abs=1e-6)


def test_the_gradient_of_ignored_pixels_is_zero() -> None:
    logits, target = half_ignored()
    logits.requires_grad_()
    MaxSupLoss(alpha=0.1, ignore_index=255)(logits, target).backward()
    assert logits.grad is not None
    assert torch.count_nonzero(logits.grad[..., :4]) == 0
    assert torch.count_nonzero(logits.grad[..., 4:]) > 0
