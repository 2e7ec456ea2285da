"""Image classification with the Hugging Face Trainer and MaxSup.

The changed line is `compute_loss_func=loss, callbacks=[loss.callback()]`, in place of `label_smoothing_factor=0.1`.
"""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

from maxsup.integrations.huggingface import TrainerLoss
from maxsup.schedules import Linear

NUM_CLASSES = 4


def images(num_samples: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Noise with one bright quarter; the quarter is the class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(NUM_CLASSES, (num_samples,), generator=generator)
    pixels = 0.5 * torch.randn(num_samples, 3, 16, 16, generator=generator)
    for image, label in zip(pixels, labels.tolist(), strict=True):
        image[:, 8 * (label // 2) :, 8 * (label % 2) :][:, :8, :8] += 1.0
    return [{"pixel_values": image, "labels": label} for image, label in zip(pixels, labels, strict=True)]


def main(num_epochs: int = 6) -> list[float]:
    torch.manual_seed(0)
    model = ViTForImageClassification(
        ViTConfig(image_size=16, patch_size=4, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                  intermediate_size=64, num_labels=NUM_CLASSES)
    )  # fmt: skip
    loss = TrainerLoss(alpha=Linear(0.1, 0.2))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, num_train_epochs=num_epochs, per_device_train_batch_size=16, learning_rate=1e-2, logging_steps=1,
            use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(
            model, args, train_dataset=images(128, 0), eval_dataset=images(64, 1),
            compute_loss_func=loss, callbacks=[loss.callback()],
        )  # fmt: skip
        trainer.train()
        print("evaluation, plain cross-entropy:", trainer.evaluate()["eval_loss"])
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


if __name__ == "__main__":
    print("loss of every step:", [round(loss, 3) for loss in main()])
