"""The way from a split to batches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maxsup.data.bundle import FileSplit, MemorySplit
from maxsup.data.pipelines.batches import BatchFinish, BatchPlan, Pipeline
from maxsup.data.pipelines.memory import MemoryPipeline
from maxsup.data.pipelines.streaming import StreamingPipeline
from maxsup.data.pipelines.transforms import check_effective

if TYPE_CHECKING:
    from maxsup.core.config import AugmentConfig


def build_pipeline(
    split: MemorySplit | FileSplit,
    *,
    batch_size: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    seed: int,
    is_training: bool,
    augment: AugmentConfig,
    image_size: int | None,
    num_classes: int,
    num_steps: int | None = None,
    num_workers: int = 0,
    drop_last: bool = False,
    rank: int = 0,
    world_size: int = 1,
    channels_last: bool = False,
    tolerance: float = 0.001,
    bad_files: Path | None = None,
) -> Pipeline:
    """Batches of a split; what they hold depends on seed and epoch only, not on workers, ranks or where one starts.

    Images in memory are augmented as whole batches. Files stream through workers, and so do images in memory where an
    augmentation only exists for single images (RandAugment, random resized crops, ``crop_pct``).

    Args:
        split: The images.
        batch_size: Of the global batch; each process gets its slice of it. The slice of a last batch with fewer
            samples than processes can be empty.
        mean: Mean of each channel.
        std: Standard deviation of each channel.
        seed: Seed of order and augmentation.
        is_training: Whether to shuffle and augment.
        augment: What is done to training images, and how images are resized.
        image_size: Side of the images a model wants; None leaves images in memory as they are.
        num_classes: Number of classes.
        num_steps: Batches of a training epoch, where it is not one pass over the split.
        num_workers: Processes that decode files.
        drop_last: Whether training leaves out a last batch that is not full; evaluation never does.
        rank: Number of this process.
        world_size: Number of processes.
        channels_last: Whether images come in channels-last memory format.
        tolerance: Share of unreadable files up to which a run goes on.
        bad_files: CSV file that lists them.

    Example:
        >>> from maxsup.core.config import AugmentConfig
        >>> from maxsup.data import load_data
        >>> data = load_data("digits")
        >>> batches = build_pipeline(
        ...     data.train, batch_size=64, mean=data.mean, std=data.std, seed=0, is_training=True,
        ...     augment=AugmentConfig(crop_padding=1), image_size=None, num_classes=10,
        ... )
        >>> batch = next(batches.epoch(0))
        >>> batches.num_batches, tuple(batch.images.shape), batch.target.dtype
        (21, (64, 1, 8, 8), torch.int64)
    """
    check_effective(augment, is_training=is_training)
    plan = BatchPlan(
        len(split),
        batch_size,
        seed,
        is_training,
        drop_last and is_training,
        rank,
        world_size,
        num_steps if is_training else None,
    )
    finish = BatchFinish(plan, mean, std, augment if is_training else None, num_classes, channels_last)
    is_for_single_images = (augment.crop_pct or 1.0) < 1.0 or augment.interpolation == "lanczos"
    is_for_single_images |= is_training and (
        augment.random_resized_crop or augment.random_crop or augment.randaugment is not None
    )
    if isinstance(split, MemorySplit) and not is_for_single_images:
        return MemoryPipeline(split, plan, finish, augment, is_training=is_training, image_size=image_size)
    return StreamingPipeline(
        split,
        plan,
        finish,
        augment,
        is_training=is_training,
        image_size=image_size,
        mean=mean,
        num_workers=num_workers,
        tolerance=tolerance,
        bad_files=bad_files,
    )
