"""The losses in the real Trainer, with tiny models made from their configs."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from examples import huggingface_causal_lm, huggingface_image, huggingface_text
from torch import Tensor
from transformers import TrainerCallback, default_data_collator

from maxsup.integrations.huggingface import TrainerLoss
from maxsup.schedules import Linear
from tests.integration.integrations.launch import run_two_ranks
from tests.integration.integrations.tiny_transformers import (
    ALPHA,
    MODELS,
    NUM_SAMPLES,
    arguments,
    created,
    gpt2,
    gradient_of_the_whole,
    in_parts,
    rows_and_targets,
    samples,
    taken_step,
    trainer_for,
    weights,
)
from tests.integration.integrations.two_rank_trainer import TASKS
from tests.reference import losses as reference

pytestmark = pytest.mark.slow
TOLERANCE = 1e-5


def log_of(trainer: Any, key: str) -> list[float]:
    return [entry[key] for entry in trainer.state.log_history if key in entry]


@pytest.mark.parametrize("num_parts", [1, 4, 8])
@pytest.mark.parametrize("task", MODELS)
def test_accumulated_gradients_equal_those_of_the_whole_batch(task: str, num_parts: int, tmp_path: Path) -> None:
    step = taken_step(created(task), task, in_parts(tmp_path, num_parts))
    whole = gradient_of_the_whole(task)
    assert whole.abs().max() > 0.01
    assert (step - whole).abs().max() <= TOLERANCE


def test_class_weights_scale_the_samples_and_leave_the_denominator(tmp_path: Path) -> None:
    weight = torch.tensor([0.5, 2.0, 1.0, 3.0, 0.1])
    whole = gradient_of_the_whole("text", weight=weight, num_items=NUM_SAMPLES)
    for num_parts in (1, 4):
        loss = TrainerLoss(alpha=ALPHA, weight=weight)
        step = taken_step(created("text"), "text", in_parts(tmp_path, num_parts), loss)
        assert (step - whole).abs().max() <= TOLERANCE


@pytest.mark.parametrize("task", ["llama", "gpt2", "t5", "tokens"])
def test_at_alpha_0_the_loss_is_the_models_own(task: str, tmp_path: Path) -> None:
    losses, steps = [], []
    for loss in (TrainerLoss(alpha=0.0), None):
        model = created(task)
        before = weights(model)
        # T5 reports a mean of its own for each micro-batch, so it is compared in one piece.
        trainer = trainer_for(model, task, loss, in_parts(tmp_path, 1 if task == "t5" else 4))
        trainer.train()
        losses.append(log_of(trainer, "loss")[0])
        steps.append(before - weights(model))
    if task != "tokens":  # the model's own token loss is a mean of each micro-batch
        assert abs(losses[0] - losses[1]) <= TOLERANCE
        assert (steps[0] - steps[1]).abs().max() <= TOLERANCE
    model = created(task).train()
    assert abs(losses[0] - F.cross_entropy(*rows_and_targets(task, model)).item()) <= TOLERANCE


@pytest.mark.parametrize("task", [*MODELS, "gpt2_uncounted"])
@pytest.mark.filterwarnings("ignore:Trainer counts the first label")
def test_evaluation_is_plain_cross_entropy(task: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    name = task.removesuffix("_uncounted")
    model = gpt2() if name != task else created(name)
    trainer = trainer_for(model, name, TrainerLoss(alpha=Linear(0.1, 0.5)), arguments(tmp_path))
    evaluated = trainer.evaluate()["eval_loss"]
    with torch.no_grad():
        rows, targets = rows_and_targets(name, model.eval())
    tolerance = 1e-6 if name in ("gpt2", "llama") else 0.0
    assert abs(evaluated - F.cross_entropy(rows, targets).item()) <= tolerance


def test_evaluation_between_steps_is_plain_and_training_goes_on(tmp_path: Path) -> None:
    loss = TrainerLoss(alpha=0.5)
    args = arguments(tmp_path, max_steps=4, learning_rate=0.0, eval_strategy="steps", eval_steps=2)
    trainer = trainer_for(created("text"), "text", loss, args)
    trainer.train()
    trained, evaluated = log_of(trainer, "loss"), log_of(trainer, "eval_loss")
    assert max(trained) - min(trained) <= 1e-6
    assert evaluated[0] == evaluated[1] < trained[0] - 0.001


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    folder = tmp_path_factory.mktemp("two_ranks")
    run_two_ranks("tests.integration.integrations.two_rank_trainer", folder)
    return torch.load(folder / "results.pt", weights_only=True)


@pytest.mark.distributed
@pytest.mark.parametrize("task", TASKS)
def test_two_processes_take_the_step_of_one(task: str, two_ranks: dict[str, Tensor]) -> None:
    assert (two_ranks[f"{task}_step"] - gradient_of_the_whole(task)).abs().max() <= TOLERANCE


@pytest.mark.distributed
@pytest.mark.parametrize("way", ["head_step", "head_sharded_with_the_rest", "head_sharded_apart"])
def test_two_processes_with_a_loss_in_the_head_take_the_step_of_one(way: str, two_ranks: dict[str, Tensor]) -> None:
    assert (two_ranks[way] - gradient_of_the_whole("llama")).abs().max() <= TOLERANCE


@pytest.mark.distributed
@pytest.mark.parametrize("task", TASKS)
def test_two_processes_evaluate_plain_cross_entropy(task: str, two_ranks: dict[str, Tensor]) -> None:
    with torch.no_grad():
        expected = F.cross_entropy(*rows_and_targets(task, created(task).eval()))
    assert abs(two_ranks[f"{task}_eval"] - expected) <= TOLERANCE


@pytest.mark.distributed
@pytest.mark.parametrize("task", TASKS)
def test_the_decomposition_counts_the_targets_of_both_processes(task: str, two_ranks: dict[str, Tensor]) -> None:
    _, targets = rows_and_targets(task, created(task))
    assert two_ranks[f"{task}_seen"] == (targets != -100).sum()


@pytest.mark.parametrize(("per_step", "num_alphas"), [(False, 4), (True, 16)])
def test_a_resumed_run_goes_on_with_the_alpha_of_an_uninterrupted_one(
    per_step: bool, num_alphas: int, tmp_path: Path
) -> None:
    def trained(folder: Path | None) -> Any:
        loss = TrainerLoss(alpha=Linear(0.1, 0.2))
        args = arguments(
            tmp_path, max_steps=-1, num_train_epochs=4, per_device_train_batch_size=4, learning_rate=0.05,
            save_strategy="steps", save_steps=6,
        )  # fmt: skip
        trainer = trainer_for(created("text"), "text", loss, args, callbacks=[loss.callback(per_step=per_step)])
        trainer.train(resume_from_checkpoint=None if folder is None else str(folder))
        return trainer

    whole, resumed = trained(None), trained(tmp_path / "checkpoint-6")
    alphas = log_of(whole, "maxsup/alpha")
    assert len(alphas) == 16
    assert len(set(alphas)) == num_alphas
    assert (alphas[0], alphas[-1]) == (0.1, 0.2)
    assert log_of(resumed, "maxsup/alpha") == alphas
    assert log_of(resumed, "loss") == pytest.approx(log_of(whole, "loss"), abs=1e-6)


def test_label_smoothing_beside_the_loss_is_refused_when_the_trainer_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"label_smoothing_factor must be 0.+got 0\.1\. Remove it"):
        trainer_for(created("text"), "text", TrainerLoss(), arguments(tmp_path, label_smoothing_factor=0.1))


def test_label_smoothing_is_refused_when_the_callback_comes_late(tmp_path: Path) -> None:
    loss = TrainerLoss()
    args = arguments(tmp_path, label_smoothing_factor=0.1)
    trainer = trainer_for(created("text"), "text", loss, args, callbacks=[])
    trainer.add_callback(loss.callback())
    with pytest.raises(ValueError, match="label_smoothing_factor must be 0"):
        trainer.train()


def test_a_loss_that_is_never_called_stops_training_before_the_first_update(tmp_path: Path) -> None:
    model = created("text")
    before = weights(model)
    trainer = trainer_for(model, "text", None, arguments(tmp_path), callbacks=[TrainerLoss().callback()])
    with pytest.raises(RuntimeError, match="must be called in every training step; got no call"):
        trainer.train()
    assert torch.equal(before, weights(model))


@pytest.mark.parametrize(
    ("task", "loss", "options", "sentence"),
    [
        ("text", TrainerLoss(), {"callbacks": []}, r"must know its Trainer.+callbacks=\[loss.callback\(\)\]"),
        ("text", TrainerLoss(alpha=Linear(0.1, 0.2)), {}, r"at least 2.+got 1\. Use loss.callback\(per_step=True\)"),
        (
            "t5",
            TrainerLoss(),
            {"data_collator": default_data_collator},
            "T5ForConditionalGeneration must hold decoder_input_ids.+DecoderInputsCollator",
        ),
    ],
    ids=["without its callback", "a schedule over one epoch", "no decoder inputs"],
)
def test_what_is_missing_is_said_before_the_first_step(
    task: str, loss: TrainerLoss, options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises((RuntimeError, ValueError), match=sentence):
        taken_step(created(task), task, arguments(tmp_path), loss, **options)


def test_a_model_whose_first_labels_are_counted_is_named(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="first label of each row of GPT2LMHeadModel"):
        trainer_for(gpt2(), "gpt2", TrainerLoss(), arguments(tmp_path))


def test_another_ignored_label_is_right_in_one_piece_and_refused_in_several(tmp_path: Path) -> None:
    data = [row | {"labels": row["labels"].masked_fill(row["labels"] == -100, 255)} for row in samples("tokens")]
    loss = TrainerLoss(alpha=ALPHA, ignore_index=255)
    step = taken_step(created("tokens"), "tokens", arguments(tmp_path), loss, train_dataset=data)
    assert (step - gradient_of_the_whole("tokens")).abs().max() <= TOLERANCE
    with pytest.raises(ValueError, match="ignore_index must be -100 under accumulation"):
        taken_step(created("tokens"), "tokens", in_parts(tmp_path, 4), loss, train_dataset=data)


class Tracker(TrainerCallback):
    """Stands for W&B or TensorBoard, which Trainer tells of a log before the callbacks of the user."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        self.seen |= logs


def test_a_callback_that_is_put_first_reaches_trackers_and_tells_the_z_loss_on_its_own(tmp_path: Path) -> None:
    loss, tracker = TrainerLoss(alpha=0.2, z_loss=0.01), Tracker()
    trainer = trainer_for(created("llama"), "llama", loss, arguments(tmp_path), callbacks=[tracker])
    trainer.callback_handler.callbacks.insert(0, loss.callback())
    trainer.train()
    rows, targets = rows_and_targets("llama", created("llama"))
    valid = targets != -100
    wrong_share = (rows[valid].argmax(-1) != targets[valid]).double().mean()
    z_loss = 0.01 * rows[valid].double().logsumexp(-1).square().mean()
    assert tracker.seen["maxsup/alpha"] == 0.2
    assert tracker.seen["maxsup/z_loss"] == pytest.approx(z_loss.item(), rel=1e-5)
    assert tracker.seen["maxsup/wrong_share"] == pytest.approx(wrong_share.item(), abs=1e-6)


@pytest.mark.parametrize(
    ("example", "num_parts", "margin"),
    [(huggingface_image, 1, 0.5), (huggingface_text, 2, 0.1), (huggingface_causal_lm, 2, 1.0)],
    ids=["image", "text", "causal_lm"],
)
def test_the_examples_learn_and_start_from_the_reference(
    example: ModuleType, num_parts: int, margin: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Tensor, Tensor]] = []
    call: Callable[..., Tensor] = TrainerLoss.__call__

    def record(self: TrainerLoss, outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        seen.append((outputs["logits"].detach().clone(), labels.clone()))
        return call(self, outputs, labels, num_items_in_batch=num_items_in_batch)

    monkeypatch.setattr(TrainerLoss, "__call__", record)
    losses = example.main()
    values = []
    for logits, labels in seen[:num_parts]:
        if logits.dim() == 3:
            logits, labels = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        pairs = zip(logits.double().tolist(), labels.tolist(), strict=True)
        values += [reference.maxsup(z, y, alpha=0.1) for z, y in pairs if y != -100]
    assert losses[0] == pytest.approx(sum(values) / len(values), abs=TOLERANCE)
    assert losses[-1] < losses[0] - margin
