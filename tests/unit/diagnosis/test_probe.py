from itertools import pairwise

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from maxsup.diagnosis.probe import DEFAULT_STRENGTHS, Probe, fit_probe, knn_accuracy

STRENGTHS = (100.0, 1.0, 0.01)


def made(num_samples: int, seed: int, num_classes: int = 4, width: int = 6) -> tuple[Tensor, Tensor]:
    """Overlapping classes around the same centres for every seed."""
    centres = torch.randn(num_classes, width, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    return centres[labels] + torch.randn(num_samples, width, generator=generator), labels


@pytest.fixture(scope="module")
def probe() -> Probe:
    return fit_probe(*made(200, 0), *made(80, 1), STRENGTHS)


def test_the_strengths_of_the_paper_are_a_quarter_of_a_decade_apart() -> None:
    strengths = sorted(DEFAULT_STRENGTHS)
    assert len(strengths) == 45
    assert strengths[0] == pytest.approx(1e-6)
    assert strengths[-1] == pytest.approx(1e5)
    ratios = [after / before for before, after in pairwise(strengths)]
    assert ratios == pytest.approx([10**0.25] * 44)


def test_the_strength_is_the_one_with_the_best_validation_accuracy(probe: Probe) -> None:
    best = max(probe.accuracies)
    assert probe.accuracies[probe.strengths.index(probe.strength)] == best


def test_the_chosen_probe_is_fitted_again_on_training_and_validation_data(probe: Probe) -> None:
    features, labels = (torch.cat(parts) for parts in zip(made(200, 0), made(80, 1), strict=True))
    peer = LogisticRegression(C=1 / probe.strength, tol=1e-10, max_iter=5000).fit(features.double(), labels)
    logits = features.double() @ probe.weight.double().t() + probe.bias.double()
    expected = torch.from_numpy(peer.decision_function(features.double()))
    centred = [scores - scores.mean(dim=1, keepdim=True) for scores in (logits, expected)]
    # Within 0.5 % of the spread of the logits: objectives agree to 1e-4, weights to its root.
    assert (centred[0] - centred[1]).abs().max() < 0.005 * centred[1].std() * 10


def test_accuracies_at_equal_strength_are_those_of_scikit_learn(probe: Probe) -> None:
    train, labels = made(200, 0)
    features, truth = made(80, 1)
    for strength, accuracy in zip(probe.strengths, probe.accuracies, strict=True):
        peer = LogisticRegression(C=1 / strength, tol=1e-10, max_iter=5000).fit(train.double(), labels)
        assert accuracy == pytest.approx(peer.score(features.double(), truth), abs=1 / 80 + 1e-9)


def test_a_probe_predicts_and_counts_on_new_data(probe: Probe) -> None:
    features, labels = made(300, 2)
    share = (probe.predict(features) == labels).double().mean()
    assert probe.accuracy(features, labels) == pytest.approx(float(share))
    assert probe.accuracy(features, labels) > 0.6


def test_one_class_alone_is_refused() -> None:
    features = torch.randn(10, 3)
    with pytest.raises(ValueError, match="at least two classes"):
        fit_probe(features, torch.zeros(10, dtype=torch.int64), features, torch.zeros(10, dtype=torch.int64))


def test_neighbours_vote_by_cosine_and_not_by_distance() -> None:
    train = torch.tensor([[100.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    labels = torch.tensor([0, 1, 1])
    # Nearer to the second by distance, in the direction of the first.
    assert knn_accuracy(train, labels, torch.tensor([[1.0, 0.1]]), torch.tensor([0]), k=1) == 1.0
    assert knn_accuracy(train, labels, torch.tensor([[0.1, 5.0]]), torch.tensor([1]), k=2) == 1.0
