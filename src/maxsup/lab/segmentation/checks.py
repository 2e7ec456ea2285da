"""What networks, losses and settings must be where images have masks, and where they have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxsup.lab.data.bundle import IGNORED_LABEL
from maxsup.lab.segmentation.segmenters import SEGMENTERS
from maxsup.losses import RegularizedLoss

if TYPE_CHECKING:
    from maxsup.lab.core.config import AugmentConfig, DenseConfig, ModelConfig

# Settings of augment that apply to masks too, and values besides the default that do nothing.
_FOR_MASKS = ("flip", "mean", "std")
_NEUTRAL = {"crop_pct": 1.0, "crop_mode": "center", "interpolation": "bilinear"}


def check_segmenter(model: ModelConfig, *, has_masks: bool) -> None:
    """Raise if a classifier shall label pixels, or a segmenter whole images."""
    if has_masks and model.name not in SEGMENTERS:
        raise ValueError(
            f"model must be a segmenter where images have masks; got {model.name!r}. Write for instance "
            f"model.name=upernet and model.options.backbone={model.name}."
        )
    if has_masks and model.classifier != "linear":
        raise ValueError(
            f"model.classifier must be linear for a segmenter; got {model.classifier!r}. Only classifiers have another."
        )
    if not has_masks and model.name in SEGMENTERS:
        raise ValueError(
            f"data must have masks for the segmenter {model.name!r}; got labels of whole images. Choose data with "
            "masks (`maxsup ls data`, or a folder with train/images and train/masks) or a classifier."
        )


def prepare_for_masks(criterion: RegularizedLoss) -> None:
    """Make a loss ignore the pixels that masks ignore; raise for a loss that cannot train pixels."""
    if criterion.needs:
        raise ValueError(
            f"loss must need nothing but logits where images have masks; got {type(criterion).__name__}, which needs "
            f"{' and '.join(criterion.needs)}. Choose another loss."
        )
    if type(criterion).end_epoch is not RegularizedLoss.end_epoch:
        raise ValueError(
            f"loss must not learn from epoch to epoch where images have masks; got {type(criterion).__name__}, which "
            "would learn from the auxiliary head too. Choose another loss."
        )
    if criterion.ignore_index not in (-100, IGNORED_LABEL):
        raise ValueError(
            f"loss.ignore_index must be {IGNORED_LABEL} or left out where images have masks; got "
            f"{criterion.ignore_index}. The data set decides which pixels are ignored."
        )
    criterion.ignore_index = IGNORED_LABEL


def check_dense(augment: AugmentConfig, size: int | None, *, is_training: bool) -> None:
    """Raise if a setting has no effect on images with masks, or the size of the crop is missing."""
    for name, field in type(augment).model_fields.items():
        value = getattr(augment, name)
        if name not in _FOR_MASKS and value not in (field.default, _NEUTRAL.get(name)):
            raise ValueError(
                f"augment.{name} must be left alone for images with masks; got {value!r}. "
                "Use augment.flip and the settings of dense."
            )
    if is_training and size is None:
        raise ValueError(
            "image_size must be given for images with masks; got None. "
            "Set data.image_size, the side of the training crop, for instance 512."
        )


def check_not_dense(dense: DenseConfig) -> None:
    """Raise if a setting for masks is given and there are none."""
    for name, field in type(dense).model_fields.items():
        value = getattr(dense, name)
        if value != field.default:
            raise ValueError(
                f"dense.{name} must be left alone for images without masks; got {value!r}. Use the settings of augment."
            )
