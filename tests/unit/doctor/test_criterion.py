"""The doctor finds what a criterion, its evaluation and a Mixup do together, given as objects or in words."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from maxsup.doctor import examine_criterion
from maxsup.doctor.criterion import parse_call
from maxsup.losses import MaxSupLoss, create_loss, list_losses
from maxsup.schedules import Linear
from tests.unit.doctor.cases import Mixup, names, only


@pytest.mark.parametrize(
    "criterion", [MaxSupLoss(alpha=0.1), nn.CrossEntropyLoss(label_smoothing=0.1), create_loss("ls", alpha=0.2)]
)
def test_a_loss_and_a_mixup_that_both_smooth_are_found(criterion: Any) -> None:
    finding = only(examine_criterion(criterion, mixup=Mixup()))
    assert (finding.topic, finding.level) == ("double_smoothing", "error")
    assert "Mixup (label_smoothing=0.1)" in finding.sentence
    assert examine_criterion(criterion, mixup=Mixup(label_smoothing=0.0)) == []


def test_label_smoothing_and_maxsup_in_one_criterion_are_found() -> None:
    both = nn.ModuleList([MaxSupLoss(alpha=0.1), nn.CrossEntropyLoss(label_smoothing=0.2)])
    finding = only(examine_criterion(both))
    assert finding.topic == "double_smoothing"
    assert "alpha=0.1" in finding.sentence
    assert "label_smoothing=0.2" in finding.sentence


def test_a_loss_inside_an_adapter_is_seen() -> None:
    finding = only(examine_criterion(SimpleNamespace(criterion=MaxSupLoss(alpha=0.3)), mixup=Mixup()))
    assert "MaxSup in MaxSupLoss (alpha=0.3)" in finding.sentence


def test_a_smoothed_evaluation_is_found() -> None:
    for smooths in (nn.CrossEntropyLoss(label_smoothing=0.1), MaxSupLoss(alpha=0.1), create_loss("ls")):
        finding = only(examine_criterion(MaxSupLoss(), evaluation_criterion=smooths))
        assert (finding.topic, finding.level) == ("smoothed_evaluation", "warning")
    assert examine_criterion(MaxSupLoss(), evaluation_criterion=MaxSupLoss().eval()) == []


@pytest.mark.parametrize("criterion", [MaxSupLoss(), "MaxSupLoss(alpha=0.1)"], ids=["object", "words"])
def test_one_loss_for_both_is_reminded_of_its_modes(criterion: Any) -> None:
    assert names(examine_criterion(criterion, evaluation_criterion=criterion)) == [("evaluation_mode", "note")]


def test_training_in_evaluation_mode_is_found() -> None:
    assert names(examine_criterion(MaxSupLoss().eval())) == [("evaluation_mode", "warning")]


def test_a_schedule_that_nobody_advanced_is_found() -> None:
    criterion = MaxSupLoss(alpha=Linear(0.1, 0.2))
    finding = only(examine_criterion(criterion))
    assert (finding.topic, finding.level) == ("schedule_not_advanced", "warning")
    assert "alpha=Linear(start=0.1, end=0.2)" in finding.sentence
    criterion.set_progress(0.0)
    assert examine_criterion(criterion) == []


def test_the_other_convention_is_noted_with_the_equal_alpha() -> None:
    found = examine_criterion(create_loss("ls", alpha=0.1, convention="k-1"), mixup=Mixup(label_smoothing=0))
    assert names(found) == [("k_minus_1_convention", "note")]
    assert "equals alpha=0.111111 over all K=10" in found[0].sentence


def test_two_ignore_indices_are_found() -> None:
    plain = nn.CrossEntropyLoss()
    finding = only(examine_criterion(MaxSupLoss(ignore_index=255), evaluation_criterion=plain))
    assert (finding.topic, finding.level) == ("ignore_index", "warning")


def test_no_finding_for_healthy_criteria() -> None:
    plain = nn.CrossEntropyLoss()
    for criterion in [plain, *(create_loss(name) for name in list_losses())]:
        assert examine_criterion(criterion, evaluation_criterion=plain, mixup=Mixup(label_smoothing=0.0)) == []
    assert examine_criterion(nn.Sequential(nn.LayerNorm(3), nn.BatchNorm1d(3))) == []


@pytest.mark.slow
def test_losses_and_mixup_of_timm_are_recognised() -> None:
    loss, data = pytest.importorskip("timm.loss"), pytest.importorskip("timm.data")
    plain, mixup = nn.CrossEntropyLoss(), data.Mixup(num_classes=10)
    assert examine_criterion(loss.SoftTargetCrossEntropy(), evaluation_criterion=plain, mixup=mixup) == []
    assert examine_criterion(loss.BinaryCrossEntropy(), evaluation_criterion=plain, mixup=mixup) == []
    assert examine_criterion(loss.LabelSmoothingCrossEntropy(0.1), evaluation_criterion=plain) == []
    smoothed = examine_criterion(plain, evaluation_criterion=loss.LabelSmoothingCrossEntropy(0.1))
    assert names(smoothed) == [("smoothed_evaluation", "warning")]
    assert names(examine_criterion(loss.LabelSmoothingCrossEntropy(), mixup=mixup)) == [("mixed_targets", "error")]
    assert names(examine_criterion(MaxSupLoss(), mixup=mixup)) == [("double_smoothing", "error")]


@pytest.mark.slow
def test_the_label_smoother_of_transformers_is_recognised() -> None:
    smoother = pytest.importorskip("transformers.trainer_pt_utils").LabelSmoother(epsilon=0.2)
    finding = only(examine_criterion(nn.CrossEntropyLoss(), evaluation_criterion=smoother))
    assert "epsilon=0.2" in finding.sentence


def test_a_criterion_in_words_is_the_object() -> None:
    words = examine_criterion("torch.nn.CrossEntropyLoss(label_smoothing=0.1)", mixup="Mixup()")
    assert words == examine_criterion(nn.CrossEntropyLoss(label_smoothing=0.1), mixup=Mixup())


@pytest.mark.parametrize(
    "text",
    [
        "CrossEntropyLoss(label_smoothing=__import__('os').getpid())",
        "CrossEntropyLoss(0.1)",
        "(lambda: 0)()",
        "CrossEntropyLoss(label_smoothing=",
        "1 + 1",
        "(" * 5000,
    ],
)
def test_words_are_read_and_never_executed(text: str) -> None:
    with pytest.raises(ValueError, match="criterion must be a name with literal options"):
        parse_call(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("CrossEntropyLoss(label_smooting=0.1)", "got 'label_smooting'. Did you mean 'label_smoothing'"),
        ("MaxSupLoss(label_smoothing=0.1)", "option of MaxSupLoss must be one it has; got 'label_smoothing'"),
        ("SoftTargetCrossEntropy(smoothing=0.1)", "option of SoftTargetCrossEntropy must be one it has"),
        ("CrossEntropyLoss(**{'label_smoothing': 0.1})", "must be a name with literal options"),
        ("CrossEntropyLoss(label_smoothing=3)", "label_smoothing must be at most 1; got 3"),
        ("MaxSupLoss(alpha=-1)", "alpha must be a number of at least 0; got -1"),
        ("MaxSupLoss(alpha='high')", "alpha must be a number; got 'high'"),
        ("MaxSupLoss(ignore_index='x')", "ignore_index of MaxSupLoss must be a whole number; got 'x'"),
        ("LabelSmoothingLoss(convention='k+1')", "convention of LabelSmoothingLoss must be one of 'k', 'k-1'"),
        ("Mixup()", "criterion must be a class that doctor knows; got 'Mixup'"),
        ("CrossEntropyLos()", "Did you mean 'CrossEntropyLoss'"),
    ],
)
def test_options_in_words_are_never_ignored(text: str, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        examine_criterion(text)


def test_a_loss_is_no_mixup() -> None:
    with pytest.raises(ValueError, match="mixup must be a class that doctor knows; got 'MaxSupLoss'"):
        examine_criterion("MaxSupLoss()", mixup="MaxSupLoss()")
