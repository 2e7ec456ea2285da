"""Out-of-distribution detection against scikit-learn and OpenOOD's definitions."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from maxsup.metrics import detection, neighbour_score, novelty_scores

SETS = {
    "usual": (torch.randn(300, generator=torch.Generator().manual_seed(0)) + 1, torch.randn(90) - 0.5),
    "ties": (torch.arange(60).float() % 5, torch.arange(33).float() % 4),
    "equal": (torch.ones(7), torch.ones(4)),
    "apart": (torch.arange(5.0) + 10, torch.arange(5.0)),
    "reversed": (torch.arange(5.0), torch.arange(5.0) + 10),
    "single": (torch.tensor([0.3]), torch.tensor([0.1])),
}


@pytest.mark.parametrize("name", SETS)
def test_detection_is_that_of_scikit_learn_with_the_others_as_positives(name: str) -> None:
    known, others = SETS[name]
    is_other = np.r_[np.zeros(len(known)), np.ones(len(others))]
    scores = -np.r_[known.numpy(), others.numpy()].astype(np.float64)
    rejected, found, _ = roc_curve(is_other, scores, drop_intermediate=False)
    measured = detection(known, others)
    assert measured.auroc == pytest.approx(roc_auc_score(is_other, scores), abs=1e-12)
    assert measured.fpr95 == pytest.approx(rejected[np.argmax(found >= 0.95)], abs=1e-12)


def test_scores_of_logits_are_those_of_scipy() -> None:
    logits = 9 * torch.randn(50, 7, dtype=torch.float64) + 1000
    scores = {name: score.numpy() for name, score in novelty_scores(logits).items()}
    assert scores["max_probability"] == pytest.approx(softmax(logits.numpy(), axis=1).max(axis=1))
    assert scores["max_logit"] == pytest.approx(logits.numpy().max(axis=1))
    assert scores["energy"] == pytest.approx(logsumexp(logits.numpy(), axis=1))


@pytest.mark.parametrize("k", [1, 5, 40])
def test_distances_to_neighbours_are_those_of_scikit_learn(k: int) -> None:
    train, rows = torch.randn(40, 6), torch.randn(700, 6)
    search = NearestNeighbors(n_neighbors=k).fit(normalize(train.double().numpy()))
    expected = search.kneighbors(normalize(rows.double().numpy()))[0][:, -1]
    assert neighbour_score(train, rows, k).numpy() == pytest.approx(-expected, abs=1e-7)


def test_more_neighbours_than_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="train_features must be at least k=50 rows of width 6; got shape"):
        neighbour_score(torch.randn(40, 6), torch.randn(3, 6))
