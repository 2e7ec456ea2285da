"""Images of another kind in a diagnosis."""

import pytest
import torch

from maxsup.core.errors import DataError
from maxsup.diagnosis import diagnose
from maxsup.diagnosis.novelty_findings import TOPIC
from maxsup.metrics import detection, neighbour_score, novelty_scores, prediction_sets

GENERATOR = torch.Generator().manual_seed(0)
LABELS = torch.arange(400) % 4
LOGITS = 4.0 * torch.nn.functional.one_hot(LABELS) + torch.randn(400, 4, generator=GENERATOR)
OTHERS = torch.randn(300, 4, generator=GENERATOR)


def finding(others: torch.Tensor):
    return next(each for each in diagnose(LOGITS, LABELS, ood=others).findings if each.topic == TOPIC)


def test_a_diagnosis_says_how_well_other_images_are_noticed() -> None:
    found = diagnose(LOGITS, LABELS, ood=OTHERS)
    known, others = (novelty_scores(each)["energy"] for each in (LOGITS, OTHERS))
    assert found.numbers["ood_auroc_energy"]["value"] == detection(known, others).auroc
    assert finding(OTHERS).level == "good"


def test_images_that_are_surer_than_its_own_are_an_error() -> None:
    assert finding(20.0 * torch.eye(4)[torch.arange(300) % 4]).level == "error"


def test_features_of_training_images_add_the_distance_of_the_nearest() -> None:
    features = torch.nn.functional.one_hot(LABELS).float() + 0.1 * torch.randn(400, 4, generator=GENERATOR)
    other_features = -torch.rand(300, 4, generator=GENERATOR)
    training = LOGITS[:200], LABELS[:200], features[:200]
    found = diagnose(LOGITS, LABELS, features, train=training, ood=(OTHERS, other_features))
    scores = [neighbour_score(features[:200], each) for each in (features, other_features)]
    assert found.numbers["ood_auroc_knn"]["value"] == detection(*scores).auroc
    with pytest.raises(ValueError, match="features of ood must come with features"):
        diagnose(LOGITS, LABELS, features, ood=(OTHERS, other_features))
    with pytest.raises(DataError, match="ood features must be of the 300 images"):
        diagnose(LOGITS, LABELS, features, train=training, ood=(OTHERS, other_features[:10]))


def test_too_few_other_images_say_nothing() -> None:
    assert finding(OTHERS[:99]).level == "unknown"


def test_logits_of_another_model_are_refused() -> None:
    with pytest.raises(DataError, match="ood must have the 4 columns of the logits; got 3"):
        diagnose(LOGITS, LABELS, ood=OTHERS[:, :3])


def test_a_diagnosis_has_prediction_sets_from_validation() -> None:
    found = diagnose(LOGITS, LABELS, validation=(LOGITS[:200], LABELS[:200])).numbers
    expected = prediction_sets(LOGITS, LABELS, fitted_on=(LOGITS[:200], LABELS[:200]), level=0.95)
    assert found["set_size_lac_95"]["value"] == pytest.approx(expected.size)
    assert found["set_coverage_lac_95"]["value"] == pytest.approx(expected.coverage)
