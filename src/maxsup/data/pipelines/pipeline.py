"""The way from a split to batches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maxsup.data.bundle import MaskSplit, MemorySplit, Split
from maxsup.data.masks.pipeline import MaskPipeline
from maxsup.data.masks.transforms import TrainingCutout, check_dense, check_not_dense
from maxsup.data.pipelines.batches import BatchFinish, BatchPlan, Pipeline
from maxsup.data.pipelines.memory import MemoryPipeline
from maxsup.data.pipelines.streaming import StreamingPipeline
from maxsup.data.pipelines.transforms import check_effective

if TYPE_CHECKING:
    from maxsup.core.config import AugmentConfig, DenseConfig


def build_pipeline(
    split: Split,
    *,
    batch_size: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    seed: int,
    is_training: bool,
    augment: AugmentConfig,
    image_size: int | None,
    num_classes: int,
    dense: DenseConfig | None = None,
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
    augmentation only exists for single images (RandAugment, random resized crops, ``crop_pct``). Images with masks are
    always read one by one; evaluation gives each as a batch of its own, in its own size.

    Args:
        split: The images.
        batch_size: Of the global batch; each process gets its slice of it. The slice of a last batch with fewer
            samples than processes can be empty.
        mean: Mean of each channel.
        std: Standard deviation of each channel.
        seed: Seed of order and augmentation.
        is_training: Whether to shuffle and augment.
        augment: What is done to training images, and how images are resized.
        image_size: Side of the images a model wants; None leaves images in memory as they are. For images with masks,
            the side of the training crop.
        num_classes: Number of classes.
        dense: What is done to images with masks; leave it alone for others.
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
    if isinstance(split, MaskSplit):
        check_dense(augment, image_size, is_training=is_training)
        if not is_training:
            # Images of any size, one for each process at a time.
            batch_size = world_size
    else:
        check_effective(augment, is_training=is_training)
        if dense is not None:
            check_not_dense(dense)
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
    if isinstance(split, MaskSplit):
        return _mask_pipeline(split, plan, finish, augment, dense, image_size if is_training else None, num_workers)
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


def _mask_pipeline(
    split: MaskSplit,
    plan: BatchPlan,
    finish: BatchFinish,
    augment: AugmentConfig,
    dense: DenseConfig | None,
    crop: int | None,
    num_workers: int,
) -> MaskPipeline:
    if dense is None:
        from maxsup.core.config import DenseConfig

        dense = DenseConfig()
    cutout = None if crop is None else TrainingCutout(dense, augment.flip, crop)
    return MaskPipeline(split, plan, finish, dense, cutout=cutout, num_workers=num_workers)
