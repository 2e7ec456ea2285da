"""The causal-norm classifier against a plain loop, and what it remembers."""

import numpy as np
import pytest
import torch
import torch.distributed as dist

from maxsup.lab.models import CausalNormHead, causal_norm_logits, create_model


def looped(features, weight, mean=None, num_heads=2, tau=16.0, gamma=1 / 32, strength=1.0):
    """Written out from the formula: one sample, one class, one head at a time."""
    logits = np.zeros((len(features), len(weight)))
    for i, x in enumerate(features):
        for k, w in enumerate(weight):
            for part in np.split(np.arange(len(x)), num_heads):
                unit = np.array(x)[part] / np.linalg.norm(np.array(x)[part])
                if mean is not None:
                    c = np.array(mean)[part] / np.linalg.norm(np.array(mean)[part])
                    unit = unit - strength * (unit @ c) * c
                w_part = np.array(w)[part]
                logits[i, k] += tau / num_heads * (unit @ w_part) / (np.linalg.norm(w_part) + gamma)
    return torch.from_numpy(logits)


def head_and_features(num_features: int = 6, num_classes: int = 3) -> tuple[CausalNormHead, torch.Tensor]:
    return CausalNormHead(num_features, num_classes).double(), torch.randn(5, num_features, dtype=torch.float64)


@pytest.mark.parametrize("options", [{}, {"num_heads": 3, "tau": 5.0}, {"gamma": 0.5, "strength": 0.3}])
def test_the_formula_is_that_of_the_plain_loop(options: dict[str, float]):
    features, weight, mean = (torch.randn(*shape, dtype=torch.float64) for shape in ((5, 6), (4, 6), (6,)))
    lists = features.tolist(), weight.tolist()
    plain = causal_norm_logits(features, weight, **options)
    without_mean = causal_norm_logits(features, weight, mean, **options)
    assert torch.allclose(plain, looped(*lists, **options), rtol=1e-12, atol=1e-12)
    assert torch.allclose(without_mean, looped(*lists, mean.tolist(), **options), rtol=1e-12, atol=1e-12)


def test_training_subtracts_nothing_and_evaluation_subtracts_the_mean():
    head, features = head_and_features()
    weight = head.weight.tolist()
    assert torch.allclose(head(features), looped(features.tolist(), weight), rtol=1e-12)
    head.eval()
    assert torch.allclose(head(features), looped(features.tolist(), weight, head.mean.tolist()), rtol=1e-12)


def test_the_mean_is_a_moving_sum_of_batch_means():
    head, first = head_and_features()
    second = torch.randn_like(first)
    head(first)
    head(second)
    assert torch.allclose(head.mean, 0.9 * first.mean(dim=0) + second.mean(dim=0), rtol=1e-12)


def test_evaluation_and_positions_leave_the_mean_alone():
    head, features = head_and_features()
    head(features[:, None, None, :])
    head.eval()
    head(features)
    assert torch.equal(head.mean, torch.zeros(6))


def test_dense_logits_leave_the_mean_alone_and_logits_move_it_once():
    model = create_model("small_cnn", 10, in_channels=1, classifier="tde")
    images = torch.randn(4, 1, 8, 8)
    model.dense_logits(images)
    assert torch.equal(model.head.mean, torch.zeros(64))
    features = model.features(images)
    model(images, with_dense=True)
    assert torch.allclose(model.head.mean, features.mean(dim=0), atol=1e-6)


def test_without_training_nothing_is_subtracted():
    head, features = head_and_features()
    trained = head(features)
    head.mean.zero_()
    assert torch.equal(head.eval()(features), trained)


def test_a_zero_feature_gives_zero_logits():
    head, _ = head_and_features()
    assert torch.equal(head(torch.zeros(1, 6, dtype=torch.float64)), torch.zeros(1, 3))


def test_the_mean_is_part_of_the_state():
    head, features = head_and_features()
    head(features)
    again = CausalNormHead(6, 3).double()
    again.load_state_dict(head.state_dict())
    assert torch.equal(again.eval()(features), head.eval()(features))


def test_the_mean_is_that_of_the_global_batch(monkeypatch: pytest.MonkeyPatch):
    head, features = head_and_features()
    elsewhere = torch.randn(2, 6, dtype=torch.float64)

    def all_reduce(total: torch.Tensor) -> None:
        total += torch.cat([elsewhere.sum(dim=0), torch.tensor([2.0])])

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    head(features)
    assert torch.allclose(head.mean, torch.cat([features, elsewhere]).mean(dim=0), rtol=1e-12)


def test_half_precision_features_keep_a_full_precision_mean():
    head = CausalNormHead(6, 3)
    logits = head(torch.randn(5, 6, dtype=torch.bfloat16).float())
    assert head.mean.dtype == logits.dtype == torch.float32


def test_features_that_cannot_be_cut_into_heads_are_refused():
    with pytest.raises(ValueError, match="num_features must be a multiple of num_heads=2; got 7"):
        CausalNormHead(7, 3)


def test_an_unknown_classifier_is_refused():
    with pytest.raises(ValueError, match=r"classifier must be one of 'linear', 'tde'; got 'tdee'\. Did you mean 'tde'"):
        create_model("resnet20", 10, classifier="tdee")


def test_the_options_are_printed():
    assert repr(CausalNormHead(6, 3)) == "CausalNormHead(6, 3, num_heads=2, tau=16.0, strength=1.0)"
