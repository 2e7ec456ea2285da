"""Set-ups of the real Trainer that change what a loss is given: several heads, data without a length, PEFT."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from maxsup.functional import maxsup_cross_entropy
from maxsup.integrations.huggingface import TrainerLoss
from maxsup.schedules import Linear
from tests.integration.integrations.tiny_transformers import (
    ALPHA,
    LENGTH,
    NUM_SAMPLES,
    SHIFTED,
    arguments,
    bert_config,
    collator,
    created,
    gradient,
    gradient_of_the_whole,
    in_parts,
    samples,
    taken_step,
    trainer_for,
    weights,
)

pytestmark = pytest.mark.slow
TOLERANCE = 1e-5
HEADS = {"start_logits": "start_positions", "end_logits": "end_positions"}


# Several heads


def reader() -> nn.Module:
    torch.manual_seed(3)
    config = bert_config()
    config.num_labels = 2
    return transformers.BertForQuestionAnswering(config)


def questions() -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(8)
    ends = torch.randint(LENGTH, (NUM_SAMPLES, 2), generator=generator)
    pairs = zip(samples("text"), ends, strict=True)
    return [{"input_ids": row["input_ids"], "start_positions": s, "end_positions": e} for row, (s, e) in pairs]


def reading_loss(model: nn.Module, alpha: float) -> Tensor:
    batch = transformers.default_data_collator(questions())
    outputs = model(input_ids=batch["input_ids"])
    losses = [maxsup_cross_entropy(outputs[logits], batch[labels], alpha) for logits, labels in HEADS.items()]
    return (losses[0] + losses[1]) / 2


def test_every_head_of_a_reader_gets_the_loss(tmp_path: Path) -> None:
    model, whole = reader(), reader().train()
    step = taken_step(
        model, "text", arguments(tmp_path), TrainerLoss(alpha=ALPHA, heads=HEADS), train_dataset=questions()
    )
    reading_loss(whole, ALPHA).backward()
    assert gradient(whole).abs().max() > 0.01
    assert (step - gradient(whole)).abs().max() <= TOLERANCE


def test_at_alpha_0_the_loss_of_several_heads_is_the_models_own(tmp_path: Path) -> None:
    loss = TrainerLoss(alpha=0.0, heads=HEADS)
    step = taken_step(reader(), "text", arguments(tmp_path), loss, train_dataset=questions())
    model = reader()
    before = weights(model)
    trainer_for(model, "text", None, arguments(tmp_path), train_dataset=questions()).train()
    assert (step - (before - weights(model))).abs().max() <= TOLERANCE


def test_several_heads_are_evaluated_with_plain_cross_entropy(tmp_path: Path) -> None:
    model, loss = reader(), TrainerLoss(alpha=0.5, heads=HEADS)
    trainer = trainer_for(model, "text", loss, arguments(tmp_path), eval_dataset=questions())
    with torch.no_grad():
        expected = reading_loss(model.eval(), 0.0)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected.item(), abs=1e-6)


def test_several_heads_refuse_accumulation_whose_labels_nobody_counts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gradient_accumulation_steps must be 1 with heads.+got 4"):
        trainer_for(reader(), "text", TrainerLoss(heads=HEADS), arguments(tmp_path, gradient_accumulation_steps=4))


def test_a_reader_without_heads_is_told_of_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"one tensor of logits; got end_logits.+TrainerLoss\(heads="):
        taken_step(reader(), "text", arguments(tmp_path), train_dataset=questions())


def test_labels_that_a_head_misses_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="labels that heads name; got none under 'start_positions'"):
        taken_step(reader(), "text", arguments(tmp_path), TrainerLoss(heads=HEADS), train_dataset=samples("text"))


# Labels


@pytest.mark.parametrize("task", ["llama", "tokens"])
def test_a_step_in_which_no_label_counts_changes_nothing_and_is_told_of(task: str, tmp_path: Path) -> None:
    data = [row | {"labels": torch.full_like(row["labels"], -100)} for row in samples(task)]
    with pytest.warns(UserWarning, match="No label counted since the last log: all of them are -100"):
        step = taken_step(created(task), task, arguments(tmp_path), train_dataset=data)
    assert torch.count_nonzero(step) == 0


def test_float_labels_of_several_classes_are_refused(tmp_path: Path) -> None:
    # transformers itself would choose a sigmoid for these, from their dtype alone.
    labels = torch.eye(5) + torch.eye(5).roll(1, 0)
    data = [row | {"labels": labels[int(row["labels"])]} for row in samples("text")]
    with pytest.raises(ValueError, match=r"must sum to 1 in every row; got 2\. Several classes at once need a sigmoid"):
        taken_step(created("text"), "text", arguments(tmp_path), train_dataset=data)


def test_one_hot_labels_take_the_step_of_class_indices(tmp_path: Path) -> None:
    data = [row | {"labels": F.one_hot(row["labels"], 5).float()} for row in samples("text")]
    with pytest.warns(UserWarning, match="mixed labels are left out"):
        step = taken_step(created("text"), "text", in_parts(tmp_path, 4), train_dataset=data)
    assert (step - gradient_of_the_whole("text")).abs().max() <= TOLERANCE


# Ways to train


class Endless(IterableDataset):
    """Samples without a length."""

    def __init__(self, task: str) -> None:
        self.task = task

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return iter(samples(self.task))


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_checkpointing": True},
        {"torch_compile": True, "torch_compile_backend": "eager"},
        {"average_tokens_across_devices": False},
    ],
    ids=["checkpointing", "compile", "own tokens"],
)
def test_ways_to_train_take_the_same_step(options: dict[str, Any], tmp_path: Path) -> None:
    args = in_parts(tmp_path, 4, **options)
    assert (taken_step(created("llama"), "llama", args) - gradient_of_the_whole("llama")).abs().max() <= TOLERANCE


def test_data_without_a_length_take_the_same_step(tmp_path: Path) -> None:
    step = taken_step(created("llama"), "llama", in_parts(tmp_path, 4), train_dataset=Endless("llama"))
    assert (step - gradient_of_the_whole("llama")).abs().max() <= TOLERANCE


def test_data_without_a_length_have_no_epochs_for_a_schedule(tmp_path: Path) -> None:
    loss = TrainerLoss(alpha=Linear(0.1, 0.2))
    with pytest.raises(ValueError, match=r"got a run without a known end. Use loss.callback\(per_step=True\)"):
        taken_step(created("text"), "text", arguments(tmp_path), loss, train_dataset=Endless("text"))


def test_a_run_counted_in_steps_ends_at_the_last_alpha(tmp_path: Path) -> None:
    loss = TrainerLoss(alpha=Linear(0.1, 0.2))
    args = arguments(tmp_path, max_steps=10, per_device_train_batch_size=4)
    trainer = trainer_for(created("text"), "text", loss, args)
    trainer.train()
    alphas = [entry["maxsup/alpha"] for entry in trainer.state.log_history if "maxsup/alpha" in entry]
    assert alphas == pytest.approx([0.1] * 4 + [0.15] * 4 + [0.2] * 2, abs=1e-12)


@pytest.mark.parametrize("is_averaged", [True, False])
def test_two_devices_in_one_process_take_the_step_of_one(is_averaged: bool, tmp_path: Path) -> None:
    # Without GPUs nn.DataParallel passes the batch on whole; the count it is divided by is that of two devices.
    args = arguments(tmp_path, per_device_train_batch_size=NUM_SAMPLES // 2, average_tokens_across_devices=is_averaged)
    assert args.n_gpu <= 1
    args._n_gpu = 2
    model = created("text")
    loss = TrainerLoss(alpha=ALPHA)
    before = weights(model)
    trainer = trainer_for(model, "text", loss, args)
    trainer.train()
    assert isinstance(trainer.model_wrapped, nn.DataParallel)
    assert (before - weights(model) - gradient_of_the_whole("text")).abs().max() <= TOLERANCE


# PEFT

ADAPTED = {
    "llama": ("CAUSAL_LM", ["q_proj", "v_proj"]),
    "gpt2": ("CAUSAL_LM", ["c_attn"]),
    "t5": ("SEQ_2_SEQ_LM", ["q", "v"]),
    "text": ("SEQ_CLS", ["query"]),
    "tokens": ("TOKEN_CLS", ["query"]),
}


def adapted(task: str) -> nn.Module:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    kind, modules = ADAPTED[task]
    model = created(task)
    torch.manual_seed(7)
    config = peft.LoraConfig(task_type=kind, target_modules=modules, r=2, lora_dropout=0.0, init_lora_weights=False)
    return peft.get_peft_model(model, config)


@pytest.mark.parametrize("num_parts", [1, 4])
@pytest.mark.parametrize("task", ADAPTED)
def test_an_adapter_takes_the_step_of_the_whole_batch(task: str, num_parts: int, tmp_path: Path) -> None:
    model, whole = adapted(task), adapted(task).train()
    collate = collator(model.get_base_model())
    step = taken_step(model, task, in_parts(tmp_path, num_parts), data_collator=collate)
    batch = dict(collate(samples(task)))
    labels = batch.pop("labels")
    logits = whole(**batch).logits
    if task in SHIFTED:
        logits, labels = logits[:, :-1], labels[:, 1:]
    maxsup_cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ALPHA).backward()
    assert gradient(whole).abs().max() > 0.01
    assert (step - gradient(whole)).abs().max() <= TOLERANCE
