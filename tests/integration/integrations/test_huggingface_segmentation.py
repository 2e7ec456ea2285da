"""Segmentation under the real Trainer: a tiny SegFormer, whose logits are smaller than its masks."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers import Trainer, default_data_collator

from maxsup.functional import maxsup_cross_entropy
from maxsup.integrations.huggingface import TrainerLoss
from tests.integration.integrations.tiny_transformers import ALPHA, arguments, gradient, weights

NUM_CLASSES, NUM_SAMPLES, SIZE = 4, 4, 32
TOLERANCE = 1e-5


def segformer() -> nn.Module:
    torch.manual_seed(3)
    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3],
        strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[1, 1], decoder_hidden_size=8, num_labels=NUM_CLASSES,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout_prob=0.0, drop_path_rate=0.0,
    )  # fmt: skip
    return transformers.SegformerForSemanticSegmentation(config)


def samples(ignored: int = 255) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(5)
    images = torch.randn(NUM_SAMPLES, 3, SIZE, SIZE, generator=generator)
    masks = torch.randint(NUM_CLASSES, (NUM_SAMPLES, SIZE, SIZE), generator=generator)
    masks[:, :5] = ignored
    masks[0, 5:20] = ignored
    return [{"pixel_values": image, "labels": mask} for image, mask in zip(images, masks, strict=True)]


def manual_loss(model: nn.Module, alpha: float) -> Tensor:
    """The mean over the pixels that count, at the size of the masks."""
    batch: dict[str, Any] = default_data_collator(samples())
    logits = model(pixel_values=batch["pixel_values"]).logits
    assert logits.shape[-1] < SIZE
    logits = F.interpolate(logits, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
    return maxsup_cross_entropy(logits, batch["labels"], alpha, ignore_index=255)


def trainer_for(model: nn.Module, loss: TrainerLoss, folder: Path, data: Any = None, **options: Any) -> Trainer:
    args = arguments(folder, per_device_train_batch_size=NUM_SAMPLES, **options)
    data = samples() if data is None else data
    return Trainer(
        model, args, train_dataset=data, eval_dataset=data, compute_loss_func=loss, callbacks=[loss.callback()]
    )


@pytest.mark.slow
@pytest.mark.parametrize("ignore_index", [-100, 255])
def test_a_step_of_a_segformer_is_that_of_the_upsampled_logits(ignore_index: int, tmp_path: Path) -> None:
    model, other = segformer().train(), segformer().train()
    before = weights(model)
    trainer_for(model, TrainerLoss(alpha=ALPHA, ignore_index=ignore_index), tmp_path).train()
    manual_loss(other, ALPHA).backward()
    assert (before - weights(model) - gradient(other)).abs().max() <= TOLERANCE


@pytest.mark.slow
def test_evaluation_of_a_segformer_is_the_models_own_loss(tmp_path: Path) -> None:
    model = segformer().eval()
    found = trainer_for(model, TrainerLoss(alpha=ALPHA), tmp_path).evaluate()["eval_loss"]
    with torch.no_grad():
        own = model(**default_data_collator(samples())).loss
    assert found == pytest.approx(own.item(), abs=1e-6)


@pytest.mark.slow
def test_pixels_that_trainer_counts_are_refused_under_accumulation(tmp_path: Path) -> None:
    loss, options = TrainerLoss(alpha=ALPHA), {"gradient_accumulation_steps": 2, "max_steps": 1}
    with pytest.raises(ValueError, match="pixels that do not count must be -100 under accumulation"):
        trainer_for(segformer(), loss, tmp_path, samples() * 2, **options).train()
    trainer = trainer_for(segformer(), TrainerLoss(alpha=ALPHA), tmp_path, samples(-100) * 2, **options)
    assert trainer.train().training_loss > 0


def test_an_auxiliary_head_that_would_not_train_is_refused() -> None:
    loss = TrainerLoss(alpha=ALPHA, shift=False)
    model = nn.Linear(1, 1)
    model.config = transformers.PretrainedConfig(use_auxiliary_head=True)
    loss.attach(model, arguments(Path("unused")))
    with pytest.raises(ValueError, match="use_auxiliary_head must be False"):
        loss({"logits": torch.zeros(1, 3, 2, 2)}, torch.zeros(1, 4, 4, dtype=torch.long))


@pytest.mark.parametrize("masks", [torch.zeros(1, 4, 4), torch.zeros(1, 4, dtype=torch.long), None], ids=str)
def test_masks_that_are_no_class_indices_are_refused(masks: Any) -> None:
    with pytest.raises(ValueError, match=r"labels of dense logits .+ must be class indices of shape \(N, H, W\)"):
        TrainerLoss(alpha=ALPHA, shift=False)({"logits": torch.zeros(1, 3, 2, 2)}, masks)
