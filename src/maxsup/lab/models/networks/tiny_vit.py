"""A tiny vision transformer for laptops: what DeiT is to ImageNet, for images of 8 to 64 pixels.

**Form.** timm's VisionTransformer with a class token: 8x8 patches of the image, 4 blocks, 128 wide, 4 heads, MLP twice
as wide. 0.5 M parameters for 32 pixels.
"""

from __future__ import annotations

from typing import Any

from maxsup.core.installation import imported
from maxsup.lab.models.base import MODELS, Classifier
from maxsup.lab.models.libraries.timm_models import TimmClassifier, explained_options

SETTINGS = {"embed_dim": 128, "depth": 4, "num_heads": 4, "mlp_ratio": 2.0}


@MODELS.register("tiny_vit", about="vision transformer of 8x8 patches, 0.5 M parameters", source="Touvron et al. 2021")
def tiny_vit(num_classes: int, in_channels: int = 3, *, image_size: int | None = None, **options: Any) -> Classifier:
    """A vision transformer of four blocks for images of 32 pixels, or of ``image_size``.

    ``options`` are those of timm's VisionTransformer and override the settings here.

    Example:
        >>> tiny_vit(10, in_channels=1, image_size=8).dense_logits(torch.randn(2, 1, 8, 8)).shape
        torch.Size([2, 10, 8, 8])
    """
    side = image_size or 32
    settings = {"patch_size": max(side // 8, 1), **SETTINGS, **options}
    transformer = imported("timm").models.VisionTransformer
    with explained_options("tiny_vit"):
        return TimmClassifier(transformer(side, in_chans=in_channels, num_classes=num_classes, **settings))
