"""Models, losses, trainers and calls that a loss in the head refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from maxsup.integrations.huggingface import TrainerLoss, use_linear_loss
from maxsup.losses import LabelSmoothingLoss, LinearMaxSupLoss, MaxSupLoss
from maxsup.schedules import Linear
from tests.integration.integrations.tiny_transformers import (
    LENGTH,
    LLAMA,
    VOCABULARY,
    adapted,
    arguments,
    batch,
    created,
    t5,
    trainer_for,
)


def test_an_adapter_on_the_head_is_refused() -> None:
    with pytest.raises(ValueError, match=r"head of the model must be a plain nn\.Linear; got peft.+out of LoRA"):
        use_linear_loss(adapted("lm_head"), MaxSupLoss())


def test_an_adapter_that_comes_to_the_head_later_is_refused_in_the_first_call() -> None:
    model = adapted("q_proj")
    use_linear_loss(model, MaxSupLoss())
    peft = pytest.importorskip("peft", reason="peft is not installed")
    later = peft.get_peft_model(model.get_base_model(), peft.LoraConfig(target_modules=["lm_head"], r=2))
    with pytest.raises(ValueError, match="changes what its head gives before the loss"):
        later.train()(**batch())


def test_a_scale_that_is_not_the_one_in_the_config_is_refused() -> None:
    model = transformers.GraniteForCausalLM(transformers.GraniteConfig(logits_scaling=2.0, **LLAMA)).train()
    use_linear_loss(model, MaxSupLoss())
    model.config.model_type = "another"  # one that multiplies by what Granite divides by
    with pytest.raises(ValueError, match=r"GraniteForCausalLM changes what its head gives.+Use TrainerLoss"):
        model(**batch())


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (LabelSmoothingLoss(), "loss must be one that a linear head can carry; got LabelSmoothingLoss"),
        (MaxSupLoss(weight=torch.ones(VOCABULARY)), "weight of a loss in the head must be None; got a tensor"),
        (MaxSupLoss(ignore_index=0), "ignore_index of a loss in the head must be -100; got 0"),
        (MaxSupLoss(reduction="sum"), "reduction of a loss in the head must be 'mean'; got 'sum'"),
        (MaxSupLoss(adaptive=True), "adaptive of a loss in the head must be False; got True"),
        (LinearMaxSupLoss(soft_cap=3.0), "soft_cap of a loss in the head must be 0.0; got 3.0"),
    ],
    ids=["ls", "weight", "ignore_index", "reduction", "adaptive", "soft_cap"],
)
def test_losses_that_the_head_cannot_carry_are_refused(loss: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        use_linear_loss(created("llama"), loss)


@pytest.mark.parametrize("model", [t5, lambda: nn.Linear(2, 2)], ids=["encoder-decoder", "no transformer"])
def test_other_models_are_refused(model: Callable[[], nn.Module]) -> None:
    with pytest.raises(ValueError, match=r"model must be a causal language model.+Use TrainerLoss"):
        use_linear_loss(model(), MaxSupLoss())


@pytest.mark.parametrize("options", [{"label_smoothing_factor": 0.1}, {}], ids=["smoothing", "compute_loss_func"])
def test_a_trainer_that_takes_the_labels_away_is_refused(options: dict[str, float], tmp_path: Path) -> None:
    model = created("llama")
    use_linear_loss(model, MaxSupLoss())
    more = {} if options else {"compute_loss_func": TrainerLoss(shift=True)}
    trainer = trainer_for(model, "llama", None, arguments(tmp_path, **options), **more)
    with pytest.raises(ValueError, match=r"Trainer has taken the labels away.+Remove label_smoothing_factor"):
        trainer.train()


def test_the_callback_refuses_label_smoothing_when_the_trainer_is_made(tmp_path: Path) -> None:
    model = created("llama")
    callback = use_linear_loss(model, MaxSupLoss()).callback()
    with pytest.raises(ValueError, match=r"label_smoothing_factor must be 0.+got 0\.1"):
        trainer_for(model, "llama", None, arguments(tmp_path, label_smoothing_factor=0.1), callbacks=[callback])


def test_calls_that_would_get_another_loss_are_refused() -> None:
    model = created("llama").train()
    use_linear_loss(model, MaxSupLoss())
    inputs = batch()
    with pytest.raises(ValueError, match="labels must be given to the model by name"):
        model(inputs["input_ids"], None, None, None, None, inputs["labels"])
    with pytest.raises(ValueError, match=r"maxsup\.integrations\.trl\.LinearSFTTrainer"):
        model(**inputs, fused_lm_head=True)
    with pytest.raises(RuntimeError, match=r"does not work under nn\.DataParallel"):
        model._replicate_for_data_parallel()(**inputs)
    with pytest.raises(ValueError, match=rf"got \(16, 1, 16\) and \(16, {LENGTH}\)"):
        model(**inputs, logits_to_keep=1)
    own_forward = model.model.forward
    model.forward = lambda **named: {"loss": own_forward(named["input_ids"]).last_hidden_state.sum()}
    with pytest.raises(RuntimeError, match=r"did not call model\.loss_function.+use_liger_kernel"):
        model(**inputs)


def test_a_schedule_that_nobody_advances_is_refused() -> None:
    model = created("llama").train()
    use_linear_loss(model, MaxSupLoss(alpha=Linear(0.1, 0.2)))
    with pytest.raises(RuntimeError, match="set_progress must be called before training with a schedule"):
        model(**batch())
