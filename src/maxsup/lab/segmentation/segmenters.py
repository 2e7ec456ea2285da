"""Networks with logits at every pixel; a function with a ``@SEGMENTERS.register`` decorator is one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from maxsup.core.checks import check_count
from maxsup.core.registry import Registry


class Segmenter(nn.Module):
    """Backbone to feature maps (the finest first), neck to a pyramid, decoder to logits; images may have any size.

    Args:
        backbone: Images to maps.
        neck: Maps to a pyramid.
        decoder: The pyramid to logits on its finest grid.
        auxiliary: The pyramid to logits of a second head, which only training uses.
        auxiliary_weight: Weight of that head's loss.
        patch: Images are padded with zeros on the right and at the bottom to a multiple of this; logits are cut back.
    """

    def __init__(
        self,
        backbone: nn.Module,
        neck: nn.Module,
        decoder: nn.Module,
        auxiliary: nn.Module | None = None,
        auxiliary_weight: float = 0.0,
        patch: int = 1,
    ) -> None:
        super().__init__()
        self.backbone, self.neck, self.decoder, self.auxiliary = backbone, neck, decoder, auxiliary
        self.auxiliary_weight = auxiliary_weight if auxiliary is not None else 0.0
        self.patch = patch

    def forward(self, images: Tensor, *, with_auxiliary: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Return logits ``(B, K, H, W)`` as large as the images; on request those of the auxiliary head too."""
        if len(images) == 1 and self._normalises_over_images:
            raise ValueError(
                "a segmenter must train on two images or more at a time, because it normalises over them; got 1. "
                "Raise batch_size, lower accumulation, or set batchnorm=frozen."
            )
        height, width = images.shape[-2:]
        filled = F.pad(images, (0, -width % self.patch, 0, -height % self.patch))
        pyramid = self.neck(self.backbone(filled))

        def at_pixels(logits: Tensor) -> Tensor:
            size = filled.shape[-2:]
            if logits.shape[-2:] != size:
                logits = F.interpolate(logits, size=size, mode="bilinear", align_corners=False)
            return logits[..., :height, :width]

        logits = at_pixels(self.decoder(pyramid))
        if not with_auxiliary:
            return logits
        assert self.auxiliary is not None
        return logits, at_pixels(self.auxiliary(pyramid))

    @property
    def _normalises_over_images(self) -> bool:
        # One image pooled to one cell has no variance. Frozen norms need none, synchronised ones see other images.
        return any(isinstance(module, nn.BatchNorm2d) and module.training for module in self.decoder.modules())


SEGMENTERS: Registry[Callable[..., Segmenter]] = Registry(
    "segmenter", reserved=("image_size", "pretrained"), package="maxsup.lab.segmentation"
)


def create_segmenter(
    name: str,
    num_classes: int,
    *,
    in_channels: int = 3,
    image_size: int | None = None,
    pretrained: bool | str | Path = False,
    **options: Any,
) -> Segmenter:
    """Create the segmenter registered under ``name``, for instance ``upernet``, with its own ``options``.

    ``image_size`` is the side of the training images, for backbones with position embeddings. ``pretrained`` is a file
    of weights of the backbone (from a run of ours or from timm), or True for timm's published ones.

    Example:
        >>> create_segmenter("upernett", 5)
        Traceback (most recent call last):
        ValueError: segmenter must be a registered name; got 'upernett'. Did you mean 'upernet'?
    """
    check_count("num_classes", num_classes)
    check_count("in_channels", in_channels)
    SEGMENTERS.check_options(name, options)
    return SEGMENTERS[name](num_classes, in_channels, image_size=image_size, pretrained=pretrained, **options)
