"""Transformers models of a few thousand weights, batches for them, and a Trainer that takes one plain step."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from maxsup.functional import maxsup_cross_entropy
from maxsup.integrations.huggingface import DecoderInputsCollator, TrainerLoss

NUM_SAMPLES, LENGTH, VOCABULARY, NUM_CLASSES = 16, 6, 11, 5
ALPHA = 0.3
BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
LLAMA = {"vocab_size": VOCABULARY, "num_key_value_heads": 2, **BERT}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def vit() -> nn.Module:
    config = transformers.ViTConfig(image_size=8, patch_size=4, num_labels=NUM_CLASSES, **BERT, **NO_DROPOUT)
    return transformers.ViTForImageClassification(config)


def bert_config() -> Any:
    return transformers.BertConfig(
        vocab_size=VOCABULARY, max_position_embeddings=LENGTH, num_labels=NUM_CLASSES, **BERT, **NO_DROPOUT
    )


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def gpt2_counted() -> nn.Module:
    model = gpt2()
    model.loss_type = "ForCausalLM"
    return model


def t5() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "image": vit,
    "text": lambda: transformers.BertForSequenceClassification(bert_config()),
    "tokens": lambda: transformers.BertForTokenClassification(bert_config()),
    "llama": llama,
    "gpt2": gpt2_counted,
    "t5": t5,
}
SHIFTED = {"llama", "gpt2"}


def created(task: str) -> nn.Module:
    torch.manual_seed(3)
    return MODELS[task]()


def samples(task: str, num_samples: int = NUM_SAMPLES) -> list[dict[str, Tensor]]:
    """Samples whose number of targets differs from row to row, with one row that has none."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(1, VOCABULARY, (num_samples, LENGTH), generator=generator)
    if task in ("image", "text"):
        labels = torch.randint(NUM_CLASSES, (num_samples,), generator=generator)
    else:
        num_labels = NUM_CLASSES if task == "tokens" else VOCABULARY
        labels = torch.randint(num_labels, (num_samples, LENGTH), generator=generator)
        lengths = torch.randint(1, LENGTH + 1, (num_samples, 1), generator=generator)
        lengths[2] = 0
        labels = labels.masked_fill(torch.arange(LENGTH) >= lengths, -100)
    name = "pixel_values" if task == "image" else "input_ids"
    inputs = torch.randn(num_samples, 3, 8, 8, generator=generator) if task == "image" else tokens
    return [{name: row, "labels": label} for row, label in zip(inputs, labels, strict=True)]


def batch() -> dict[str, Tensor]:
    """All samples of a causal model at once."""
    return dict(transformers.default_data_collator(samples("llama")))


def adapted(*modules: str) -> nn.Module:
    """The causal model with LoRA on some of its layers."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=list(modules), r=2, init_lora_weights=False)
    torch.manual_seed(7)
    return peft.get_peft_model(created("llama"), config).train()


def collator(model: nn.Module) -> Callable[[Any], Any]:
    if model.config.is_encoder_decoder:
        return DecoderInputsCollator(transformers.default_data_collator, model)
    return transformers.default_data_collator


def arguments(folder: Path, **options: Any) -> TrainingArguments:
    """One step of plain gradient descent of length 1, unless told otherwise."""
    settings: dict[str, Any] = {
        "optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "max_steps": 1,
        "per_device_train_batch_size": NUM_SAMPLES, "per_device_eval_batch_size": NUM_SAMPLES, "use_cpu": True,
        "report_to": [], "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1,
    }  # fmt: skip
    return TrainingArguments(str(folder), **settings | options)


def trainer_for(model: nn.Module, task: str, loss: TrainerLoss | None, args: TrainingArguments, **more: Any) -> Trainer:
    if loss is not None:
        more = {"compute_loss_func": loss, "callbacks": [loss.callback()]} | more
    options = {"train_dataset": samples(task), "eval_dataset": samples(task), "data_collator": collator(model)} | more
    return Trainer(model, args, **options)


def weights(model: nn.Module) -> Tensor:
    return torch.cat([each.detach().flatten().clone() for each in model.parameters() if each.requires_grad])


def gradient(model: nn.Module) -> Tensor:
    trained = [each for each in model.parameters() if each.requires_grad]
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).float().flatten() for p in trained])


def taken_step(model: nn.Module, task: str, args: Any, loss: TrainerLoss | None = None, **options: Any) -> Tensor:
    """The gradient of what a Trainer does in one step, as the weights saw it."""
    before = weights(model)
    trainer_for(model, task, loss or TrainerLoss(alpha=ALPHA), args, **options).train()
    return before - weights(model)


def in_parts(folder: Path, num_parts: int, num_processes: int = 1, **options: Any) -> TrainingArguments:
    """One step over all samples, in ``num_parts`` micro-batches a process."""
    size = NUM_SAMPLES // num_parts // num_processes
    return arguments(folder, per_device_train_batch_size=size, gradient_accumulation_steps=num_parts, **options)


def rows_and_targets(task: str, model: nn.Module) -> tuple[Tensor, Tensor]:
    """Logits and targets of all samples, shifted by slicing where the model predicts the next token."""
    batch = dict(collator(model)(samples(task)))
    labels = batch.pop("labels")
    logits = model(**batch).logits
    if task in SHIFTED:
        logits, labels = logits[:, :-1], labels[:, 1:]
    return logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)


def gradient_of_the_whole(task: str, **options: Any) -> Tensor:
    """The gradient of MaxSup over all samples at once, without any Trainer."""
    model = created(task).train()
    maxsup_cross_entropy(*rows_and_targets(task, model), alpha=ALPHA, **options).backward()
    return gradient(model)
