"""What a TrainerLoss does with outputs, labels and counts, without a Trainer."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from maxsup.functional import maxsup_cross_entropy
from maxsup.integrations.huggingface import DecoderInputsCollator, TrainerLoss
from maxsup.integrations.huggingface.models import shifts_labels
from maxsup.schedules import Linear

TOLERANCE = 1e-6
ALPHA = 0.3


class LlamaForCausalLM(nn.Module):
    """A model that is known by the name of its class only."""


class Adapted(nn.Module):
    """Stands for a PEFT model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def get_base_model(self) -> nn.Module:
        return self.inner


class Wrapped(nn.Module):
    """Stands for DistributedDataParallel."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.module = model


def arguments(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"label_smoothing_factor": 0.0, "label_names": None, "gradient_accumulation_steps": 1} | changes
    )


def logits_of(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def sequence() -> tuple[Tensor, Tensor]:
    labels = torch.tensor([[1, 2, 0, 3, 1], [-100, -100, 4, 2, -100]])
    return logits_of(2, 5, 6), labels


def classified() -> tuple[Tensor, Tensor]:
    return logits_of(4, 3), torch.tensor([0, 1, 2, 1])


def of_trainer(outputs: Any, labels: Tensor, num_items: Any = None, loss: str = "maxsup", alpha: Any = ALPHA) -> Tensor:
    """The loss as a Trainer without a callback asks for it."""
    return TrainerLoss(loss, alpha=alpha, shift=False)(outputs, labels, num_items_in_batch=num_items)


@pytest.mark.parametrize("num_items", [7, 7.0, torch.tensor(7)], ids=["int", "float", "tensor"])
def test_the_sum_is_divided_by_num_items(num_items: Any) -> None:
    logits, labels = logits_of(4, 3), torch.tensor([0, 1, 2, -100])
    expected = maxsup_cross_entropy(logits, labels, ALPHA, reduction="sum") / 7
    assert abs(of_trainer({"logits": logits}, labels, num_items) - expected) <= TOLERANCE


def test_without_num_items_the_targets_here_are_counted() -> None:
    logits, labels = logits_of(4, 3), torch.tensor([0, 1, 2, -100])
    assert abs(of_trainer((logits, None), labels) - maxsup_cross_entropy(logits, labels, ALPHA)) <= TOLERANCE


def test_under_data_parallel_the_factor_of_the_trainer_cancels() -> None:
    # Trainer repeats the number for each of two devices and multiplies the loss of the gathered outputs by 2.
    logits, labels = classified()
    loss = of_trainer({"logits": logits}, labels, torch.tensor(4).unsqueeze(0).expand(2, -1))
    assert loss.dim() == 0
    assert abs(2 * loss - maxsup_cross_entropy(logits, labels, ALPHA)) <= TOLERANCE


@pytest.mark.parametrize("num_items", [0, torch.tensor(0)], ids=["int", "tensor"])
def test_a_step_in_which_nothing_counts_adds_nothing(num_items: Any) -> None:
    logits = logits_of(4, 3)
    loss = of_trainer({"logits": logits}, torch.full((4,), -100), num_items)
    loss.backward()
    assert loss == 0
    assert torch.count_nonzero(logits.grad) == 0


def test_the_loss_may_be_scaled_in_place_as_the_trainer_does() -> None:
    logits, labels = classified()
    loss = of_trainer({"logits": logits}, labels, 4)
    loss *= 2
    loss.backward()
    whole = torch.autograd.grad(maxsup_cross_entropy(logits, labels, ALPHA), logits)[0]
    assert (logits.grad - 2 * whole).abs().max() <= TOLERANCE


@pytest.mark.parametrize("shift", [True, False])
def test_shifted_labels_belong_to_the_position_before(shift: bool) -> None:
    logits, labels = sequence()
    loss = TrainerLoss(alpha=ALPHA, shift=shift)({"logits": logits}, labels, num_items_in_batch=5)
    rows, targets = (logits[:, :-1], labels[:, 1:]) if shift else (logits, labels)
    expected = maxsup_cross_entropy(rows.flatten(0, 1), targets.flatten(), ALPHA, num_items=5)
    assert abs(loss - expected) <= TOLERANCE


@pytest.mark.parametrize("wrap", [lambda model: model, Adapted, Wrapped], ids=["bare", "peft", "ddp"])
def test_a_causal_model_is_known_by_its_name_also_when_wrapped(wrap: Any) -> None:
    assert shifts_labels(wrap(LlamaForCausalLM()))
    assert not shifts_labels(wrap(nn.Linear(2, 2)))


def test_without_gradients_the_loss_is_plain_cross_entropy() -> None:
    logits, labels = sequence()
    with torch.no_grad():
        loss = of_trainer({"logits": logits}, labels, 9, alpha=Linear(0.1, 0.9))
    assert torch.equal(loss, F.cross_entropy(logits.flatten(0, 1), labels.flatten()))


def test_a_model_in_evaluation_mode_gets_plain_cross_entropy_even_with_gradients() -> None:
    loss = TrainerLoss(alpha=0.5)
    model = nn.Linear(2, 3)
    loss.attach(model, arguments())
    logits, labels = classified()
    trained = loss({"logits": logits}, labels)
    model.eval()
    assert torch.equal(loss({"logits": logits}, labels), F.cross_entropy(logits, labels))
    assert trained > F.cross_entropy(logits, labels)


def test_half_precision_is_evaluated_in_single_precision() -> None:
    logits, labels = classified()
    with torch.no_grad():
        loss = of_trainer({"logits": logits.to(torch.bfloat16)}, labels)
    assert torch.equal(loss, F.cross_entropy(logits.to(torch.bfloat16).float(), labels))


def test_probability_labels_are_counted_by_row_though_the_trainer_counts_entries() -> None:
    logits, labels = logits_of(4, 3), 0.9 * F.one_hot(torch.arange(4) % 3, 3) + 0.1 / 3
    with pytest.warns(UserWarning, match="smoothed already"):
        loss = of_trainer({"logits": logits}, labels, torch.tensor(12))
    assert abs(loss - maxsup_cross_entropy(logits, labels, ALPHA)) <= TOLERANCE


def test_another_registered_loss_goes_by_its_name() -> None:
    logits, labels = classified()
    loss = of_trainer({"logits": logits}, labels, 4, loss="ls", alpha=0.2)
    assert abs(loss - F.cross_entropy(logits, labels, label_smoothing=0.2)) <= TOLERANCE


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss": "adaptive_ls"}, "must need logits and labels only; got 'adaptive_ls', which needs teacher_logits"),
        ({"loss": "ols", "num_classes": 3}, "must not learn from epoch to epoch"),
        ({"reduction": "sum"}, "reduction must be 'mean'"),
        ({"alpah": 0.1}, "Did you mean 'alpha'"),
        ({"loss": "maxsub"}, "Did you mean 'maxsup'"),
        ({"label_smoothing": 0.1}, "must not be combined with label smoothing; got label_smoothing=0.1"),
        ({"heads": {}}, "heads must name one output or more; got none"),
    ],
)
def test_losses_and_options_that_do_not_fit_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        TrainerLoss(**options)


@pytest.mark.parametrize(
    ("outputs", "labels", "sentence"),
    [
        ({"logits": torch.zeros(2, 3)}, None, "labels must be one tensor.+got NoneType"),
        ({"logits": torch.zeros(2, 3)}, (torch.zeros(2), torch.zeros(2)), "got tuple. Rename the column"),
        ({"logits": torch.zeros(2, 3)}, torch.zeros(2, 1).long(), r"got \(2, 3\) and \(2, 1\). Use labels.squeeze"),
        ({"logits": torch.zeros(2, 3)}, torch.zeros(2, 3).long(), "Integers of that shape are no class indices"),
        ({"logits": torch.zeros(2, 3)}, torch.zeros(2), "Labels of float32 are no class indices"),
        ({"logits": torch.zeros(2, 1)}, torch.zeros(2, 1), "logits must have two classes or more; got one"),
        ({"logits": torch.zeros(2, 3)}, torch.ones(2, 3), "must sum to 1 in every row; got 3"),
        ({"start_logits": torch.zeros(2, 3), "end_logits": torch.zeros(2, 3)}, torch.zeros(2).long(), "got end_logits"),
        ({"logits": None, "loss": torch.zeros(())}, torch.zeros(2).long(), "one tensor of logits; got logits, loss"),
        ({"logits": torch.zeros(2, 3)}, torch.zeros(2), r"got \(2, 3\) and \(2,\)"),
        ({"logits": torch.zeros(2, 3, 4, 4, 4)}, torch.zeros(2, 4, 4, 4).long(), "For other heads call MaxSupLoss"),
        ({"logits": torch.zeros(2, 5, 3)}, torch.zeros(2, 4).long(), r"got \(2, 5, 3\) and \(2, 4\)"),
    ],
)
def test_outputs_and_labels_that_are_not_one_head_are_refused(outputs: Any, labels: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TrainerLoss(shift=False)(outputs, labels)


@pytest.mark.parametrize(
    ("loss", "more", "sentence"),
    [
        (TrainerLoss(shift=True), {}, "shift must be False for one label per sample"),
        (TrainerLoss(shift=False), {"aux_loss": torch.tensor(0.1)}, "must not hold another loss.+got aux_loss"),
        (TrainerLoss(alpha=Linear(0.1, 0.2), shift=False), {}, "a schedule must be advanced by the callback"),
    ],
    ids=["shift", "auxiliary loss", "schedule"],
)
def test_a_loss_that_would_do_something_else_is_refused(loss: TrainerLoss, more: Any, sentence: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=sentence):
        loss({"logits": logits_of(2, 3)} | more, torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"label_smoothing_factor": 0.1}, r"label_smoothing_factor must be 0.+got 0\.1"),
        ({"label_names": ["start_positions", "end_positions"]}, r"label_names must be \['labels'\]"),
        ({"use_liger_kernel": True}, "use_liger_kernel must not replace the loss"),
    ],
)
def test_arguments_that_would_be_ignored_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TrainerLoss().begin(nn.Linear(2, 2), arguments(**changes))


def test_a_liger_without_its_loss_is_accepted_also_if_only_training_begins_without_it() -> None:
    # TRL takes the fused loss out of Liger's settings after callbacks have heard of the new Trainer.
    loss, args = TrainerLoss(), arguments(use_liger_kernel=True)
    loss.attach(nn.Linear(2, 2), args)
    args.liger_kernel_config = {"fused_linear_cross_entropy": False}
    loss.begin(nn.Linear(2, 2), args)
    assert loss({"logits": logits_of(2, 3)}, torch.tensor([0, 1])).requires_grad


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_problems_without_one_true_class_are_refused(problem: str) -> None:
    model = nn.Linear(2, 2)
    model.config = SimpleNamespace(problem_type=problem, is_encoder_decoder=False)
    with pytest.raises(ValueError, match=f"got '{problem}', for which MaxSup is not defined"):
        TrainerLoss().attach(model, arguments())


def test_a_missing_count_under_accumulation_is_refused() -> None:
    loss = TrainerLoss()
    loss.attach(nn.Linear(2, 2), arguments(gradient_accumulation_steps=4))
    with pytest.raises(RuntimeError, match="num_items_in_batch must be given under accumulation over 4"):
        loss({"logits": logits_of(2, 3)}, torch.tensor([0, 1]))


def test_sequences_without_callback_or_shift_are_refused() -> None:
    logits, labels = sequence()
    with torch.no_grad(), pytest.raises(RuntimeError, match="or whether labels are shifted; got neither"):
        TrainerLoss()({"logits": logits}, labels)


def test_a_collator_keeps_decoder_inputs_that_are_there() -> None:
    model = SimpleNamespace(prepare_decoder_input_ids_from_labels=lambda labels: labels.roll(1))
    made = DecoderInputsCollator(lambda features: {"labels": torch.tensor(features)}, model)([1, 2, 3])
    kept = DecoderInputsCollator(lambda features: {"labels": features, "decoder_input_ids": 7}, model)([1, 2, 3])
    assert made["decoder_input_ids"].tolist() == [3, 1, 2]
    assert kept["decoder_input_ids"] == 7


def test_a_collator_for_a_model_without_a_decoder_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must have prepare_decoder_input_ids_from_labels.+got Linear"):
        DecoderInputsCollator(lambda features: features, nn.Linear(2, 2))


class Scores(nn.Module):
    """Gives random logits of one label a position."""

    def forward(self, num_samples: int) -> dict[str, Tensor]:
        return {"logits": logits_of(num_samples, 5, 6)}


class ScoresForCausalLM(Scores):
    """The same for the label of the next position."""

    loss_type = "ForCausalLM"


def test_each_of_two_models_is_judged_by_its_own_rules() -> None:
    tagger, writer, loss = Scores(), ScoresForCausalLM(), TrainerLoss(alpha=ALPHA)
    _, labels = sequence()
    for model in (tagger, writer, tagger, writer):
        loss.attach(model, arguments())
    tagger.eval()
    for model, is_shifted in ((tagger, False), (writer, True), (tagger, False)):
        outputs = model(2)
        rows, targets = outputs["logits"], labels
        if is_shifted:
            rows, targets = rows[:, :-1], targets[:, 1:]
        alpha = ALPHA if model.training else 0.0
        expected = maxsup_cross_entropy(rows.flatten(0, 1), targets.flatten(), alpha)
        assert abs(loss(outputs, labels) - expected) <= TOLERANCE


def test_a_model_that_is_attached_again_has_the_rules_of_its_new_trainer() -> None:
    model, other, loss = Scores(), Scores(), TrainerLoss(alpha=ALPHA)
    loss.attach(model, arguments(gradient_accumulation_steps=2))
    loss.attach(other, arguments())
    loss.attach(model, arguments())
    assert loss(model(2), sequence()[1]).isfinite()
