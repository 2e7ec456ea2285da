"""Plain cross-entropy, where two of its options do not go together."""

import pytest
import torch

from maxsup.losses.computing.plain import plain_cross_entropy


def test_label_smoothing_beside_a_z_loss_is_refused_and_not_ignored():
    logits, target = torch.randn(3, 4), torch.tensor([0, 1, 3])
    with pytest.raises(ValueError, match=r"label_smoothing must be 0 beside a z_loss; got 0\.1 and z_loss=0\.01"):
        plain_cross_entropy(logits, target, 0.1, z_loss=0.01)
    smoothed = plain_cross_entropy(logits, target, 0.1)
    assert torch.equal(smoothed, torch.nn.functional.cross_entropy(logits, target, label_smoothing=0.1))
