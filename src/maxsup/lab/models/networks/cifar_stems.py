"""ResNet-18/50/101 and MobileNetV2 for images of 32 pixels: timm's networks with less downsampling.

**ResNet.** A 3x3 convolution of stride 1 in place of the 7x7 one of stride 2, no max-pool: the last map of a 32-pixel
image is 4x4. **MobileNetV2.** The first convolution and the sixth stage with stride 1: 4x4 too.
**Source.** The stems of weiaicunzai/pytorch-cifar100, which the CIFAR-100 table of the MaxSup paper follows. **Not as
there:** weights start as in timm (for ResNet the last norm of a residual branch at zero; ``zero_init_last=False`` turns
that off), and MobileNetV2 keeps the 3x3 first convolution of its paper where that code has a 1x1 one with padding.
**Options** are those of timm's ResNet and EfficientNet.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from maxsup.lab.models.base import MODELS, Classifier
from maxsup.lab.models.libraries.timm_models import create_timm_model


def _register(depth: int, millions: int) -> None:
    about = f"ResNet-{depth} with a stem for 32 px, {millions} M parameters"

    @MODELS.register(f"resnet{depth}_cifar", about=about, source="He et al. 2016")
    def resnet(num_classes: int, in_channels: int = 3, **options: Any) -> Classifier:
        """A ResNet with a 3x3 stem and no max-pool."""
        model = create_timm_model(f"resnet{depth}", num_classes, in_channels, **options)
        stem = nn.Conv2d(in_channels, model.body.conv1.out_channels, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
        model.body.conv1, model.body.maxpool = stem, nn.Identity()
        return model


for _depth, _millions in ((18, 11), (50, 24), (101, 43)):
    _register(_depth, _millions)


@MODELS.register("mobilenetv2_cifar", about="MobileNetV2 for 32 px, 2.4 M parameters", source="Sandler et al. 2018")
def mobilenetv2_cifar(num_classes: int, in_channels: int = 3, **options: Any) -> Classifier:
    """MobileNetV2 that halves the image three times instead of five.

    Example:
        >>> mobilenetv2_cifar(100).dense_logits(torch.randn(1, 3, 32, 32)).shape
        torch.Size([1, 100, 4, 4])
    """
    model = create_timm_model("mobilenetv2_100", num_classes, in_channels, **options)
    for layer in (model.body.conv_stem, model.body.blocks[5][0].conv_dw):
        layer.stride = (1, 1)
    return model
