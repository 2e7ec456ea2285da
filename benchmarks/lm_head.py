"""One training step of a causal language model under Trainer and TRL: growth of the process, time, gradients.

``python -m benchmarks.lm_head WAY FOLDER`` takes one step in a process of its own, because memory that earlier work has
freed would be used again and not count as growth.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from benchmarks.checks import relative_error
from benchmarks.goals import LM_HEAD_GOALS
from benchmarks.memory import PROCESS, PeakSince
from benchmarks.report import judged, lined_up

ALPHA = 0.1
OWN, LINEAR, LOGITS = "Trainer, the model's own loss", "Trainer, use_linear_loss", "Trainer, TrainerLoss"
OWN_TRL, LINEAR_TRL = "TRL, its own loss", "TRL, LinearSFTTrainer"
SMOOTHED, UNMONITORED = "Trainer, label_smoothing_factor", "Trainer, TrainerLoss(monitor=False)"
WAYS = (OWN, SMOOTHED, LOGITS, UNMONITORED, LINEAR, OWN_TRL, LINEAR_TRL)
# Rows, tokens a row, vocabulary, width.
FULL, QUICK = (8, 256, 32_000, 64), (4, 64, 2_000, 16)


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Every way in its own process; gradients of the heads against those of the same loss from logits."""
    del rounds  # memory does not vary
    if not PROCESS.exists():
        show("\nlm_head is measured on Linux only, where a process can be asked for its peak")
        return {"goals": []}
    with TemporaryDirectory() as folder:
        # One process is enough to see that it runs; its growth means nothing.
        ways = [take_step(way, folder, QUICK) if is_quick else _in_a_new_process(way, folder) for way in WAYS]
        gradients = {way: torch.load(_file(folder, way), weights_only=True) for way in (LOGITS, LINEAR, LINEAR_TRL)}
    grown = {row["way"]: row["grown_bytes"] for row in ways}
    error = max(relative_error(gradients[way], gradients[LOGITS].double()) for way in (LINEAR, LINEAR_TRL))
    num_rows, length, vocabulary, width = QUICK if is_quick else FULL
    size = f"{num_rows * length} tokens, K={vocabulary}, D={width}"
    show(f"\nOne training step of a causal model, {size}; gradients of the heads off by {error:.0e}")
    rows = [[row["way"], f"{row['grown_bytes'] / 2**20:.0f}", f"{row['seconds']:.2f}"] for row in ways]
    show(lined_up(["", "growth, MiB", "CPU s"], rows))
    values = {
        "peak_ratio": grown[LINEAR] / max(grown[OWN], 1),
        "peak_ratio_trl": grown[LINEAR_TRL] / max(grown[OWN], 1),
        "gradient_error": error,
    }
    goals = [judged(text, size, values[key], limit) for key, (text, limit) in LM_HEAD_GOALS.items()]
    return {"size": size, "ways": ways, "gradient_error": error, "goals": goals}


def _in_a_new_process(way: str, folder: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.lm_head", way, folder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _file(folder: str, way: str) -> Path:
    return Path(folder) / f"{WAYS.index(way)}.pt"


def take_step(way: str, folder: str, size: tuple[int, int, int, int]) -> dict[str, Any]:
    """Train on a few tokens, so that everything is loaded, then on the batch; what that took."""
    from transformers import PrinterCallback

    num_rows, length, vocabulary, width = size
    model = _model(vocabulary, width, length)
    watch = _watch(_file(folder, way))
    trainer = _trainer(way, model, folder, _rows(num_rows, 8, vocabulary), watch)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    trainer.train_dataset = _rows(num_rows, length, vocabulary)
    trainer.train()
    return {"way": way, **watch.found}


def _model(vocabulary: int, width: int, length: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": vocabulary, "hidden_size": width, "intermediate_size": width, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": length}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads))


def _rows(num_rows: int, length: int, vocabulary: int) -> Any:
    from datasets import Dataset

    tokens = torch.randint(vocabulary, (num_rows, length), generator=torch.Generator().manual_seed(1)).tolist()
    return Dataset.from_dict({"input_ids": tokens, "labels": tokens})


def _watch(file: Path) -> Any:
    from transformers import TrainerCallback

    class Watch(TrainerCallback):
        """Notes growth, time and gradients of the last step."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.peak, self.begin = PeakSince(), time.process_time()

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, *, model: Any, **others: Any) -> None:
            self.found = {"grown_bytes": self.peak.grown(), "seconds": time.process_time() - self.begin}
            gradients = [each.grad.flatten() for each in model.parameters() if each.grad is not None]
            torch.save(torch.cat(gradients), file)

    return Watch()


def _trainer(way: str, model: nn.Module, folder: str, rows: Any, watch: Any) -> Any:
    from transformers import PreTrainedTokenizerFast, Trainer, TrainingArguments

    from maxsup import MaxSupLoss
    from maxsup.integrations.huggingface import TrainerLoss, use_linear_loss

    # A learning rate of 0: the second training begins with the weights of the first.
    options: dict[str, Any] = {
        "max_steps": 1, "per_device_train_batch_size": len(rows), "optim": "sgd", "learning_rate": 0.0, "use_cpu": True,
        "report_to": [], "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1, "max_grad_norm": 0.0,
    }  # fmt: skip
    if way.startswith("TRL"):
        import tokenizers
        from trl import SFTConfig, SFTTrainer

        from maxsup.integrations.trl import LinearSFTTrainer

        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0}, unk_token="<pad>"))
        options |= {"bf16": False, "gradient_checkpointing": False, "dataset_kwargs": {"skip_prepare_dataset": True}}
        given: dict[str, Any] = {
            "args": SFTConfig(folder, **options), "train_dataset": rows, "callbacks": [watch],
            "processing_class": PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<pad>"),
        }  # fmt: skip
        if way == OWN_TRL:
            return SFTTrainer(model, **given)
        return LinearSFTTrainer(model, loss=MaxSupLoss(alpha=ALPHA), **given)
    more: dict[str, Any] = {}
    callbacks = [watch]
    if way == LINEAR:
        callbacks.append(use_linear_loss(model, MaxSupLoss(alpha=ALPHA)).callback())
    elif way in (LOGITS, UNMONITORED):
        loss = TrainerLoss(alpha=ALPHA)
        more["compute_loss_func"] = loss
        callbacks.append(loss.callback(monitor=way == LOGITS))
    elif way == SMOOTHED:
        options["label_smoothing_factor"] = ALPHA
    return Trainer(model, TrainingArguments(folder, **options), train_dataset=rows, callbacks=callbacks, **more)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(take_step(*sys.argv[1:], FULL)))
