"""The doctor finds each trap with its number, and says nothing about what is healthy."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from maxsup.core.recipes import list_recipes, load_recipe
from maxsup.integrations.doctor import (
    Finding,
    config_kind,
    examine_accumulation,
    examine_batch,
    examine_config,
    examine_criterion,
)
from maxsup.integrations.doctor_criterion import parse_call
from maxsup.losses import MaxSupLoss, create_loss, list_losses
from maxsup.schedules import Linear


def made_logits(num_rows: int = 8, num_classes: int = 10) -> Tensor:
    return 3 * torch.randn(num_rows, num_classes)


def made_labels(num_rows: int = 8, num_classes: int = 10) -> Tensor:
    return torch.arange(num_rows) % num_classes


def smoothed(labels: Tensor, num_classes: int, floor: float) -> Tensor:
    """One-hot targets lifted to a floor, as both conventions make them."""
    return torch.full((len(labels), num_classes), floor).scatter(1, labels[:, None], 1 - (num_classes - 1) * floor)


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    return finding


def names(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.name, finding.severity) for finding in findings]


# Batches: what is wrong


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_probabilities_in_place_of_logits_are_found(dtype: torch.dtype) -> None:
    finding = only(examine_batch(made_logits().softmax(dim=1).to(dtype), made_labels()))
    assert (finding.name, finding.severity) == ("softmax_before_loss", "error")


def test_log_probabilities_are_only_a_note() -> None:
    finding = only(examine_batch(made_logits().log_softmax(dim=1), made_labels()))
    assert (finding.name, finding.severity) == ("log_softmax_before_loss", "note")


@pytest.mark.parametrize(
    ("floor", "num_classes", "words"),
    [
        (0.01, 10, "0.01 with K=10, which is alpha=0.1 over all K classes"),
        (0.1 / 9, 10, "which is 0.1 over the K - 1 other classes, the same as alpha=0.1111 over all K"),
        (0.1 / 1000, 1000, "0.0001 with K=1000, which is alpha=0.1 over all K classes"),
        (0.1 / 999, 1000, "which is 0.1 over the K - 1 other classes, the same as alpha=0.1001 over all K"),
        (0.0123, 10, "alpha=0.123 over all K classes, or 0.1107 over the K - 1 others"),
    ],
)
def test_smoothed_targets_are_found_with_their_strength(floor: float, num_classes: int, words: str) -> None:
    labels = made_labels(16, num_classes)
    finding = only(examine_batch(made_logits(16, num_classes), smoothed(labels, num_classes, floor)))
    assert (finding.name, finding.severity) == ("smoothed_targets", "warning")
    assert words in finding.sentence


def test_smoothing_is_seen_through_mixed_labels() -> None:
    targets = smoothed(made_labels(), 10, 0.02)
    finding = only(examine_batch(made_logits(), 0.3 * targets + 0.7 * targets.flip(0)))
    assert "alpha=0.2 over all K" in finding.sentence


@pytest.mark.parametrize(
    "criterion", [MaxSupLoss(alpha=0.1), nn.CrossEntropyLoss(label_smoothing=0.1), "MaxSupLoss(alpha=0.1)"]
)
def test_a_loss_that_smooths_smoothed_targets_is_an_error(criterion: Any) -> None:
    finding = only(examine_batch(made_logits(), smoothed(made_labels(), 10, 0.01), criterion=criterion))
    assert (finding.name, finding.severity) == ("double_smoothing", "error")
    assert "alpha=0.1 over all K" in finding.sentence


def test_smoothed_targets_under_plain_cross_entropy_are_fine() -> None:
    targets = smoothed(made_labels(), 10, 0.01)
    assert examine_batch(made_logits(), targets, criterion=nn.CrossEntropyLoss()) == []


def test_the_other_convention_is_noted_under_plain_cross_entropy() -> None:
    finding = only(examine_batch(made_logits(), smoothed(made_labels(), 10, 0.1 / 9), criterion=nn.CrossEntropyLoss()))
    assert (finding.name, finding.severity) == ("k_minus_1_convention", "note")
    assert "spreads 0.1 over the K - 1 other classes, which equals alpha=0.111111 over all K=10" in finding.sentence


def test_the_targets_of_a_teacher_are_only_a_note() -> None:
    assert names(examine_batch(made_logits(), made_logits().softmax(dim=1))) == [("soft_targets", "note")]


def test_masked_classes_are_a_note_and_an_error_under_the_smoothing_of_torch() -> None:
    logits = made_logits()
    logits[:, 9] = -math.inf
    assert names(examine_batch(logits, made_labels())) == [("masked_classes", "note")]
    assert names(examine_batch(logits, made_labels(), criterion=MaxSupLoss())) == [("masked_classes", "note")]
    torch_loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    finding = only(examine_batch(logits, made_labels(), criterion=torch_loss))
    assert finding.severity == "error"
    assert "8 of 80 logits are -inf" in finding.sentence
    assert torch_loss(logits, made_labels()) == math.inf


def test_a_target_on_a_masked_class_is_found() -> None:
    logits = made_logits()
    logits[:, 3] = -math.inf
    found = examine_batch(logits, made_labels())
    assert names(found) == [("masked_target", "error"), ("masked_classes", "note")]
    assert "1 of 8 samples" in found[0].sentence
    assert "sample 3" in found[0].sentence


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_broken_logits_are_found_with_their_place(value: float) -> None:
    logits = made_logits()
    logits[5, 2] = value
    finding = only(examine_batch(logits, made_labels()))
    assert (finding.name, finding.severity) == ("non_finite_logits", "error")
    assert f"1 of 80 logits are nan or inf (first: {value} in sample 5)" in finding.sentence


def test_what_ignored_rows_hold_does_not_matter() -> None:
    logits, labels = made_logits(), made_labels()
    logits[5] = math.nan
    labels[5] = -100
    assert examine_batch(logits, labels) == []


def test_a_batch_that_counts_nothing_is_found() -> None:
    labels = torch.full((8,), -100)
    assert names(examine_batch(made_logits(), labels)) == [("all_ignored", "error")]
    assert examine_batch(made_logits(), labels, criterion=MaxSupLoss(empty="zero")) == []
    assert names(examine_batch(made_logits(), torch.zeros(8, 10))) == [("all_ignored", "warning")]


@pytest.mark.parametrize(("stray", "ignore_index"), [(255, -100), (-100, 255), (-1, -100)])
def test_the_wrong_ignore_index_is_named(stray: int, ignore_index: int) -> None:
    labels = made_labels()
    labels[2:4] = stray
    finding = only(examine_batch(made_logits(), labels, ignore_index=ignore_index))
    assert finding.name == "ignore_index"
    assert finding.sentence.startswith(f"2 of 8 targets are {stray},")
    assert f"ignore_index={stray}" in finding.fix
    assert examine_batch(made_logits(), labels, ignore_index=stray) == []
    assert examine_batch(made_logits(), labels, criterion=MaxSupLoss(ignore_index=stray)) == []


def test_labels_outside_the_classes_are_found() -> None:
    finding = only(examine_batch(made_logits(num_classes=5), torch.tensor([0, 1, 2, 3, 4, 5, 6, 7])))
    assert finding.name == "label_range"
    assert "3 of 8 targets lie outside the classes 0 to 4 (first: 5 in sample 5)" in finding.sentence


def test_labels_that_count_from_one_are_recognised() -> None:
    finding = only(examine_batch(made_logits(10), made_labels(10) + 1))
    assert finding.fix == "Labels seem to count from 1: use targets - 1."


@pytest.mark.parametrize(
    ("logits", "targets", "name", "fix"),
    [
        (torch.randn(4, 6, 10), torch.zeros(4, 6, dtype=torch.long), "target_shape", "logits.movedim(-1, 1)"),
        (torch.randn(4, 10), torch.zeros(4, 1, dtype=torch.long), "target_shape", "targets.squeeze(1)"),
        (torch.randn(4, 10), torch.zeros(5, dtype=torch.long), "target_shape", "the same samples"),
        (torch.randn(4, 10), torch.arange(4.0), "label_dtype", "targets.long()"),
        (torch.randn(4, 10), torch.eye(10)[:4].long(), "label_dtype", "targets.float()"),
        (torch.ones(4, 10, dtype=torch.long), torch.arange(4), "logits_dtype", "raw outputs"),
        (torch.randn(4, 10), 2 * torch.eye(10)[:4], "target_sum", "Divide each row by its sum"),
        (torch.randn(4, 10), -torch.eye(10)[:4], "target_range", "how targets are made"),
    ],
)
def test_targets_that_do_not_fit_are_found(logits: Tensor, targets: Tensor, name: str, fix: str) -> None:
    finding = only(examine_batch(logits, targets))
    assert (finding.name, finding.severity) == (name, "error")
    assert fix in finding.fix


def test_classes_on_the_wrong_axis_are_found_by_their_number() -> None:
    found = examine_batch(torch.randn(4, 6, 10), torch.zeros(4, 10, dtype=torch.long), num_classes=10)
    assert names(found) == [("num_classes", "error")]
    assert "6 classes on axis 1, not 10" in found[0].sentence


@pytest.mark.parametrize(
    ("weight", "words"),
    [([1.0] * 9, "shape (9,) for 10 classes"), ([-1.0] * 10, "smallest is -1"), ([0.0] * 10, "has weight 0")],
)
def test_class_weights_that_cannot_work_are_found(weight: list[float], words: str) -> None:
    finding = only(examine_batch(made_logits(), made_labels(), weight=torch.tensor(weight)))
    assert finding.name == "class_weights"
    assert words in finding.sentence


def test_probability_targets_have_no_index_to_ignore() -> None:
    assert names(examine_batch(made_logits(), torch.eye(10)[:8], ignore_index=255)) == [("ignore_index", "error")]


def test_micro_batches_of_unequal_size_are_found() -> None:
    finding = only(examine_accumulation([torch.arange(8), torch.tensor([1, 2, -100, -100])]))
    assert finding.name == "accumulation_denominator"
    assert "2 to 8 targets" in finding.sentence
    assert "weighs 4 times" in finding.sentence
    assert "num_items=10" in finding.fix


def test_micro_batches_of_equal_size_are_fine() -> None:
    assert examine_accumulation([torch.arange(8), torch.arange(8)]) == []


# Batches: what is healthy

sizes = st.tuples(st.integers(1, 6), st.integers(2, 7))


@st.composite
def healthy_logits(draw: st.DrawFn) -> Tensor:
    num_rows, num_classes = draw(sizes)
    scores = st.floats(-30, 30, width=32)
    values = draw(st.lists(st.lists(scores, min_size=num_classes, max_size=num_classes), min_size=num_rows))
    logits = torch.tensor(values[:num_rows])
    # Rows that are distributions, or their logarithms, cannot be told from the outputs of a softmax.
    is_certain = (logits >= 0).all() & ((logits.sum(dim=1) - 1).abs() < 1e-2).all()
    is_log = (logits <= 0).all() & (logits.logsumexp(dim=1).abs() < 1e-2).all()
    assume(not bool(is_certain) and not bool(is_log))
    return logits


@given(healthy_logits(), st.data())
def test_no_finding_for_labels_in_range(logits: Tensor, data: st.DataObject) -> None:
    label = st.one_of(st.integers(0, logits.shape[1] - 1), st.just(-100))
    labels = data.draw(st.lists(label, min_size=len(logits), max_size=len(logits)))
    assume(any(label != -100 for label in labels))
    assert examine_batch(logits, torch.tensor(labels), num_classes=logits.shape[1], criterion=MaxSupLoss()) == []


@given(healthy_logits(), st.data())
def test_no_finding_for_one_hot_and_mixed_labels(logits: Tensor, data: st.DataObject) -> None:
    label = st.integers(0, logits.shape[1] - 1)
    first, second = (
        torch.tensor(data.draw(st.lists(label, min_size=len(logits), max_size=len(logits)))) for _ in range(2)
    )
    share = data.draw(st.floats(0, 1))
    one_hot = torch.eye(logits.shape[1])
    assert examine_batch(logits, share * one_hot[first] + (1 - share) * one_hot[second], criterion=MaxSupLoss()) == []


@pytest.mark.parametrize("shape", [(32, 1000), (5,), (4, 7, 6), (2, 3, 8, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_no_finding_for_random_logits_of_any_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    size = shape[0] if len(shape) == 1 else shape[1]
    samples = () if len(shape) == 1 else (shape[0], *shape[2:])
    labels = torch.randint(size, samples)
    for scale in (0.0, 1e-3, 1.0, 20.0):
        assert examine_batch((scale * torch.randn(shape)).to(dtype), labels, num_classes=size) == []


# Criteria


class Mixup:
    """As timm's to the doctor, without the seconds that importing timm takes."""

    def __init__(self, label_smoothing: float = 0.1) -> None:
        self.label_smoothing = label_smoothing
        self.num_classes = 10


@pytest.mark.parametrize(
    "criterion", [MaxSupLoss(alpha=0.1), nn.CrossEntropyLoss(label_smoothing=0.1), create_loss("ls", alpha=0.2)]
)
def test_a_loss_and_a_mixup_that_both_smooth_are_found(criterion: Any) -> None:
    finding = only(examine_criterion(criterion, mixup=Mixup()))
    assert (finding.name, finding.severity) == ("double_smoothing", "error")
    assert "Mixup (label_smoothing=0.1)" in finding.sentence
    assert examine_criterion(criterion, mixup=Mixup(label_smoothing=0.0)) == []


def test_label_smoothing_and_maxsup_in_one_criterion_are_found() -> None:
    both = nn.ModuleList([MaxSupLoss(alpha=0.1), nn.CrossEntropyLoss(label_smoothing=0.2)])
    finding = only(examine_criterion(both))
    assert finding.name == "double_smoothing"
    assert "alpha=0.1" in finding.sentence
    assert "label_smoothing=0.2" in finding.sentence


def test_a_loss_inside_an_adapter_is_seen() -> None:
    finding = only(examine_criterion(SimpleNamespace(criterion=MaxSupLoss(alpha=0.3)), mixup=Mixup()))
    assert "MaxSup in MaxSupLoss (alpha=0.3)" in finding.sentence


def test_a_smoothed_evaluation_is_found() -> None:
    for smooths in (nn.CrossEntropyLoss(label_smoothing=0.1), MaxSupLoss(alpha=0.1), create_loss("ls")):
        finding = only(examine_criterion(MaxSupLoss(), evaluation_criterion=smooths))
        assert (finding.name, finding.severity) == ("smoothed_evaluation", "warning")
    assert examine_criterion(MaxSupLoss(), evaluation_criterion=MaxSupLoss().eval()) == []


def test_one_loss_for_both_is_reminded_of_its_modes() -> None:
    criterion = MaxSupLoss()
    assert names(examine_criterion(criterion, evaluation_criterion=criterion)) == [("evaluation_mode", "note")]


def test_training_in_evaluation_mode_is_found() -> None:
    assert names(examine_criterion(MaxSupLoss().eval())) == [("evaluation_mode", "warning")]


def test_a_schedule_that_nobody_advanced_is_found() -> None:
    criterion = MaxSupLoss(alpha=Linear(0.1, 0.2))
    finding = only(examine_criterion(criterion))
    assert (finding.name, finding.severity) == ("schedule_not_advanced", "warning")
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
    assert (finding.name, finding.severity) == ("ignore_index", "warning")


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


def test_an_unknown_criterion_gets_a_hint() -> None:
    with pytest.raises(ValueError, match="Did you mean 'CrossEntropyLoss'"):
        examine_criterion("CrossEntropyLos()")


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
        ("Mixup()", "criterion must be one of those known; got 'Mixup'"),
    ],
)
def test_options_in_words_are_never_ignored(text: str, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        examine_criterion(text)


def test_a_loss_is_no_mixup() -> None:
    with pytest.raises(ValueError, match="mixup must be one of those known; got 'MaxSupLoss'"):
        examine_criterion("MaxSupLoss()", mixup="MaxSupLoss()")


def test_one_loss_in_words_for_both_is_reminded_of_its_modes() -> None:
    text = "MaxSupLoss(alpha=0.1)"
    [finding] = examine_criterion(text, evaluation_criterion="".join(text))
    assert (finding.name, finding.severity) == ("evaluation_mode", "note")


@pytest.mark.parametrize("criterion", ["MaxSupLoss(empty='zero')", MaxSupLoss(empty="zero")], ids=["words", "object"])
def test_a_loss_that_gives_0_for_nothing_is_believed(criterion: Any) -> None:
    targets = torch.full((4,), -100)
    assert examine_batch(torch.randn(4, 3), targets, criterion=criterion) == []


def test_class_weights_in_words_are_compared_with_the_logits() -> None:
    [finding] = examine_batch(torch.randn(4, 3), torch.arange(4) % 3, criterion="MaxSupLoss(weight=[1.0, 2.0])")
    assert finding.name == "class_weights"


def test_logits_without_classes_are_found() -> None:
    [finding] = examine_batch(torch.zeros(3, 0), torch.zeros(3, dtype=torch.long))
    assert finding.name == "logits_dtype"


def test_of_mixed_labels_the_rows_of_micro_batches_are_compared() -> None:
    [finding] = examine_accumulation([torch.eye(5), torch.eye(5)[:4]])
    assert "hold 4 to 5 targets" in finding.sentence
    assert "num_items=9," in finding.fix


# Configs

HF = {"label_smoothing_factor": 0.0, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"loss": "maxsup", "alpha": 0.1, "smoothing": 0.1, "mixup": 0.8}, ["double_smoothing"]),
        ({"loss": {"name": "maxsup", "alpha": 0.1}, "label_smoothing": "0.1"}, ["double_smoothing"]),
        ({"--loss": "maxsup", "--label-smoothing": 0.1}, ["double_smoothing"]),
        ({"loss": {"label_smoothing": 0.1}, "mixup": {"label_smoothing": 0.1}}, ["double_smoothing"]),
        ({"loss": {"name": "ls", "alpha": 0.1}, "mixup": {"label_smoothing": 0.1}}, ["double_smoothing"]),
        ({"loss": {"type": "MaxSupLoss", "alpha": 0.2}, "label_smooth": 0.1}, ["double_smoothing"]),
        ({"losses": [{"name": "maxsup"}, {"name": "dice"}], "label_smoothing": 0.1}, ["double_smoothing"]),
        (
            {"loss": {"label_smooth_val": 0.1}, "augments": [{"type": "Mixup", "label_smoothing": 0.1}]},
            ["double_smoothing"],
        ),
        (
            {"loss": {"name": "maxsup", "alpha": {"start": 0.2, "end": 0.0}}, "smoothing": 0.1, "epochs": 3},
            ["double_smoothing"],
        ),
        ({"validation": {"label_smoothing": 0.1}}, ["smoothed_evaluation"]),
        ({"label_smoothing": 0.1, "mixup_alpha": 0.2, "cutmix_alpha": 1.0}, ["smoothed_evaluation"]),
        (
            {**HF, "label_smoothing_factor": 0.1, "eval_strategy": "epoch"},
            ["smoothed_evaluation", "accumulation_denominator"],
        ),
        ({**HF, "average_tokens_across_devices": False}, ["accumulation_denominator"]),
        ({"criterion": "label_smoothed_cross_entropy", "label_smoothing": 0.1, "arch": "t"}, ["k_minus_1_convention"]),
        ({"criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1}}, ["k_minus_1_convention"]),
        ({"loss": {"name": "ls", "convention": "k-1"}, "epochs": 3}, ["k_minus_1_convention"]),
        ({"trainer": {"accumulate_grad_batches": 4}, "data": {"max_length": 128}}, ["accumulation_denominator"]),
        ({"loss": {"name": "maxsup", "alpha": {"start": 0.1, "end": 0.2}}, "epochs": 1}, ["schedule_not_advanced"]),
    ],
)
def test_traps_in_settings_are_found(values: dict[str, Any], expected: list[str]) -> None:
    found = examine_config(values)
    assert [finding.name for finding in found] == expected
    assert all(finding.sentence.endswith(".") and finding.fix.endswith(".") for finding in found)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("flags of timm", {"smoothing": 0.1, "mixup": 0.8, "cutmix": 1.0, "model": "resnet50", "grad_accum_steps": 4}),
        ("flags of timm", {"smoothing": 0.1, "mixup": 0.0, "model": "resnet50", "bce_loss": False}),
        ("flags of timm", {"loss": "maxsup", "alpha": 0.1, "alpha_end": 0.2, "smoothing": 0.0, "mixup": 0.8}),
        ("TrainingArguments of transformers", {**HF, "eval_strategy": "epoch", "average_tokens_across_devices": True}),
        ("flags of torchvision's references", {"label_smoothing": 0.0, "mixup_alpha": 0.2, "cutmix_alpha": 1.0}),
        ("settings of fairseq", {"criterion": "cross_entropy", "arch": "transformer", "update_freq": [8]}),
        ("settings", {"accumulate_grad_batches": 4, "image_size": 224}),
        ("settings", {"val_smoothing_window": 5, "optimizer": {"name": "sgd"}}),
        ("settings", {"name": "maxsup_and_ls", "logger": {"name": "maxsup"}, "label_smoothing": 0.1}),
        ("settings", {}),
    ],
)
def test_no_finding_for_healthy_settings(kind: str, values: dict[str, Any]) -> None:
    assert config_kind(values) == kind
    assert examine_config(values) == []


@pytest.mark.parametrize("name", list_recipes())
def test_no_finding_for_the_recipes_of_the_package(name: str) -> None:
    values = load_recipe(name).model_dump(mode="json")
    assert config_kind(values) == "a recipe of maxsup"
    assert examine_config(values) == []


@given(
    st.dictionaries(
        st.text("abcdefghijklmnop_-.", min_size=1, max_size=12),
        st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=8), st.lists(st.integers(), max_size=3)),
        max_size=8,
    )
)
def test_settings_about_other_things_give_no_finding(values: dict[str, Any]) -> None:
    assert examine_config({"settings": values}) == []
