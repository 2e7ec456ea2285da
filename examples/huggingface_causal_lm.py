"""A causal language model with the Hugging Face Trainer and MaxSup: labels are shifted as the model itself would.

The changed line is `compute_loss_func=loss, callbacks=[loss.callback()]`, in place of `label_smoothing_factor=0.1`.
"""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from maxsup.integrations.huggingface import TrainerLoss
from maxsup.schedules import Linear

LENGTH, VOCABULARY = 16, 24


def texts(num_samples: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Rows that count upwards; each begins with a prompt of random length that is not learnt."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randint(VOCABULARY, (num_samples, 1), generator=generator)
    tokens = (start + torch.arange(LENGTH)) % VOCABULARY
    prompt = torch.randint(0, LENGTH - 4, (num_samples, 1), generator=generator)
    labels = tokens.masked_fill(torch.arange(LENGTH) < prompt, -100)
    return [{"input_ids": row, "labels": targets} for row, targets in zip(tokens, labels, strict=True)]


def main(num_epochs: int = 3) -> list[float]:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
                    num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=LENGTH)
    )  # fmt: skip
    loss = TrainerLoss(alpha=Linear(0.1, 0.2))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, num_train_epochs=num_epochs, per_device_train_batch_size=8, gradient_accumulation_steps=2,
            learning_rate=5e-3, logging_steps=1, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(
            model, args, train_dataset=texts(128, 0), compute_loss_func=loss, callbacks=[loss.callback(per_step=True)]
        )
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


if __name__ == "__main__":
    print("loss of every step:", [round(loss, 3) for loss in main()])
