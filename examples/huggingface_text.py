"""Text classification with the Hugging Face Trainer, MaxSup and gradient accumulation.

The changed line is `compute_loss_func=loss, callbacks=[loss.callback()]`, in place of `label_smoothing_factor=0.1`.
"""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from maxsup.integrations.huggingface import TrainerLoss

NUM_CLASSES, LENGTH, VOCABULARY = 3, 12, 40


def sentences(num_samples: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Random words, three of which are special to the class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(NUM_CLASSES, (num_samples,), generator=generator)
    words = torch.randint(NUM_CLASSES, VOCABULARY, (num_samples, LENGTH), generator=generator)
    words[:, 2:5] = labels.unsqueeze(1)
    return [{"input_ids": row, "labels": label} for row, label in zip(words, labels, strict=True)]


def main(num_epochs: int = 3) -> list[float]:
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                   intermediate_size=64, max_position_embeddings=LENGTH, num_labels=NUM_CLASSES)
    )  # fmt: skip
    loss = TrainerLoss(alpha=0.1)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, num_train_epochs=num_epochs, per_device_train_batch_size=8, gradient_accumulation_steps=2,
            learning_rate=5e-3, logging_steps=1, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(
            model, args, train_dataset=sentences(128, 0), compute_loss_func=loss, callbacks=[loss.callback()]
        )
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


if __name__ == "__main__":
    print("loss of every step:", [round(loss, 3) for loss in main()])
