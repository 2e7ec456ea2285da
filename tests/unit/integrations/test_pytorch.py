"""A criterion with label smoothing becomes MaxSup of equal strength."""

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import maxsup.integrations
from maxsup import MaxSupLoss
from maxsup.functional import maxsup_cross_entropy, maxsup_penalty
from maxsup.integrations import follow_model, replace_label_smoothing
from maxsup.schedules import Linear
from tests.reference.losses import argmax
from tests.reference.losses import maxsup as reference_maxsup


class LabelSmoothingCrossEntropy(nn.Module):
    """What is known of timm's class: its name and these two attributes."""

    def __init__(self, smoothing: float = 0.1) -> None:
        super().__init__()
        self.smoothing, self.confidence = smoothing, 1.0 - smoothing


class TwoHeads(nn.Module):
    """A model that keeps its criteria, one of them in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.criteria = nn.ModuleDict({"main": nn.CrossEntropyLoss(label_smoothing=0.1), "aux": nn.CrossEntropyLoss()})
        self.same = self.again = self.criteria["main"]


@pytest.mark.parametrize("is_right", [True, False])
def test_it_is_larger_by_alpha_times_the_gap_which_is_0_on_right_predictions(is_right: bool) -> None:
    logits = torch.randn(64, 10, dtype=torch.float64)
    target = logits.argmax(dim=1) if is_right else logits.argmin(dim=1)
    smoothed = nn.CrossEntropyLoss(label_smoothing=0.15, reduction="none")
    gap = logits.max(dim=1).values - logits.gather(1, target[:, None])[:, 0]
    difference = replace_label_smoothing(smoothed)(logits, target) - smoothed(logits, target)
    torch.testing.assert_close(difference, 0.15 * gap, rtol=0, atol=1e-12)
    assert all((argmax(row) == label) == is_right for row, label in zip(logits.tolist(), target.tolist(), strict=True))


def test_options_of_the_old_criterion_are_kept() -> None:
    weight = torch.tensor([1.0, 2.0, 3.0])
    old = nn.CrossEntropyLoss(weight=weight, ignore_index=7, reduction="sum", label_smoothing=0.2)
    new = replace_label_smoothing(old)
    assert isinstance(new, MaxSupLoss)
    assert (new.alpha, new.ignore_index, new.reduction) == (0.2, 7, "sum")
    assert new.weight is weight
    logits, target = torch.randn(4, 3), torch.tensor([0, 7, 2, 1])
    rows = zip(logits.tolist(), target.tolist(), strict=True)
    expected = sum(weight[y].item() * reference_maxsup(z, y, alpha=0.2) for z, y in rows if y != 7)
    assert new(logits, target).item() == pytest.approx(expected, abs=1e-5)


def test_weights_stay_on_their_device() -> None:
    new = replace_label_smoothing(nn.CrossEntropyLoss(weight=torch.ones(3, device="meta"), label_smoothing=0.1))
    assert new.weight is not None
    assert new.weight.device.type == "meta"


@pytest.mark.parametrize("is_training", [True, False])
def test_the_mode_is_kept(is_training: bool) -> None:
    old = nn.CrossEntropyLoss(label_smoothing=0.1).train(is_training)
    assert replace_label_smoothing(old).training is is_training


def test_in_evaluation_it_is_plain_cross_entropy() -> None:
    logits, target = torch.randn(8, 5), torch.randint(5, (8,))
    new = replace_label_smoothing(nn.CrossEntropyLoss(label_smoothing=0.1)).eval()
    assert torch.equal(new(logits, target), F.cross_entropy(logits, target))


def test_the_criterion_of_timm_is_known_by_its_name() -> None:
    new = replace_label_smoothing(LabelSmoothingCrossEntropy(0.05))
    assert isinstance(new, MaxSupLoss)
    assert new.alpha == 0.05


def test_a_schedule_takes_the_place_of_the_constant() -> None:
    new = replace_label_smoothing(nn.CrossEntropyLoss(label_smoothing=0.1), schedule=Linear(0.1, 0.2))
    new.set_progress(1.0)
    assert new.alpha == pytest.approx(0.2, abs=1e-12)


def test_a_module_that_holds_criteria_is_changed_in_place() -> None:
    model = TwoHeads()
    plain, head = model.criteria["aux"], model.head
    assert replace_label_smoothing(model) is model
    assert isinstance(model.criteria["main"], MaxSupLoss)
    assert model.same is model.again is model.criteria["main"]
    assert model.criteria["aux"] is plain
    assert model.head is head


@pytest.mark.parametrize(
    ("criterion", "sentence"),
    [
        (nn.CrossEntropyLoss(), "must be above 0; got 0.0"),
        (LabelSmoothingCrossEntropy(0.0), "must be above 0; got 0.0"),
        (nn.Sequential(nn.Linear(2, 2), nn.CrossEntropyLoss()), "got none in Sequential"),
    ],
)
def test_without_smoothing_there_is_nothing_to_replace(criterion: nn.Module, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        replace_label_smoothing(criterion)


class HalvedCrossEntropy(nn.CrossEntropyLoss):
    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 0.5 * super().forward(input, target)


@pytest.mark.parametrize("criterion", [nn.BCEWithLogitsLoss(), nn.MSELoss(), HalvedCrossEntropy(label_smoothing=0.1)])
def test_other_losses_are_refused(criterion: nn.Module) -> None:
    with pytest.raises(TypeError, match=f"got {type(criterion).__name__}"):
        replace_label_smoothing(criterion)


def test_other_names_are_not_there() -> None:
    assert "replace_label_smoothing" in dir(maxsup.integrations)
    with pytest.raises(AttributeError, match="no attribute 'replace_smoothing'"):
        maxsup.integrations.replace_smoothing  # noqa: B018


def test_a_compiled_criterion_is_refused_because_it_would_stay_the_old_one() -> None:
    compiled = torch.compile(nn.CrossEntropyLoss(label_smoothing=0.1), backend="eager")
    for holder in (compiled, nn.ModuleDict({"loss": compiled})):
        with pytest.raises(ValueError, match=r"must be replaced before it is compiled.+a compiled CrossEntropyLoss"):
            replace_label_smoothing(holder)


@pytest.mark.parametrize("criterion", [F.cross_entropy, "CrossEntropyLoss"], ids=["function", "name"])
def test_what_is_no_module_is_refused(criterion: Any) -> None:
    with pytest.raises(TypeError, match=r"criterion must be nn.CrossEntropyLoss.+got (cross_entropy|str)\. "):
        replace_label_smoothing(criterion)


def test_a_weight_for_each_sample_scales_its_value_and_gradient() -> None:
    """Mixup, importance sampling: what ``sample_weight`` is elsewhere is a product with ``reduction="none"`` here."""
    logits, target = torch.randn(6, 4, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 2, 3, -100, 1])
    sample_weight = torch.rand(6, dtype=torch.float64)
    values = MaxSupLoss(alpha=0.3, reduction="none")(logits, target)
    (values * sample_weight).sum().backward()
    rows = zip(logits.detach().split(1), target.split(1), sample_weight.tolist(), strict=True)
    parts = []
    for row, label, factor in rows:
        row.requires_grad_()
        (factor * MaxSupLoss(alpha=0.3, reduction="sum")(row, label)).backward()
        parts.append(row.grad)
    torch.testing.assert_close(logits.grad, torch.cat(parts), rtol=0, atol=1e-12)
    pairs = zip(logits.tolist(), target.tolist(), strict=True)
    expected = [0.0 if y == -100 else reference_maxsup(z, y, alpha=0.3) for z, y in pairs]
    assert values.tolist() == pytest.approx(expected, abs=1e-12)


def test_the_penalty_can_be_added_to_any_other_loss() -> None:
    logits, target = torch.randn(6, 4, dtype=torch.float64), torch.randint(4, (6,))
    added = F.cross_entropy(logits, target) + 0.3 * maxsup_penalty(logits).mean()
    torch.testing.assert_close(added, MaxSupLoss(alpha=0.3)(logits, target), rtol=0, atol=1e-12)


# The mode of the model


def test_a_criterion_that_follows_is_plain_when_the_model_is_evaluated() -> None:
    model, criterion = nn.Linear(2, 3), MaxSupLoss(alpha=0.5)
    handle = follow_model(criterion, model)
    inputs, labels = torch.randn(4, 2), torch.tensor([0, 1, 2, 0])
    for is_training in (True, False, True):
        logits = model.train(is_training)(inputs)
        expected = maxsup_cross_entropy(logits, labels, 0.5 if is_training else 0.0)
        assert torch.equal(criterion(logits, labels), expected)
    handle.remove()
    model.eval()(inputs)
    assert criterion.training


def test_only_losses_that_know_evaluation_can_follow() -> None:
    with pytest.raises(TypeError, match=r"criterion must be a loss of maxsup.+got CrossEntropyLoss"):
        follow_model(nn.CrossEntropyLoss(), nn.Linear(2, 3))


def test_an_objective_without_gradients_is_told_of_once() -> None:
    criterion, logits, labels = MaxSupLoss(alpha=0.1), torch.randn(2, 3), torch.tensor([0, 1])
    with warnings.catch_warnings(record=True) as seen, torch.no_grad():
        warnings.simplefilter("always")
        criterion.eval()(logits, labels)
        assert seen == []
        for _ in range(3):
            criterion.train()(logits, labels)
    assert [str(each.message).partition(":")[0] for each in seen] == [
        "MaxSupLoss is in training mode and gradients are off"
    ]
    assert seen[0].filename == __file__
