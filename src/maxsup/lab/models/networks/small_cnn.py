"""A small convolutional network for laptops: digits, synthetic images, anything of 8 to 32 pixels.

**Form.** Three 3x3 convolutions, each with batch norm and ReLU, a 2x2 max-pool after the first two; average pooling
over what is left (2x2 for 8 pixels, 8x8 for 32), 64 features, a linear head. 57 thousand parameters for 10 classes.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from maxsup.core.checks import check_count
from maxsup.lab.models.base import MODELS, Classifier


@MODELS.register("small_cnn", about="three convolutions, 64 features, for 8 to 32 px", source="this package")
def small_cnn(num_classes: int, in_channels: int = 3, *, widths: Sequence[int] = (32, 64, 64)) -> Classifier:
    """A network with a convolution for each of ``widths``; the last is the number of features.

    Example:
        >>> model = small_cnn(10, in_channels=1)
        >>> model.features(torch.randn(2, 1, 8, 8)).shape, model.dense_logits(torch.randn(2, 1, 8, 8)).shape
        (torch.Size([2, 64]), torch.Size([2, 10, 2, 2]))
    """
    for width in widths:
        check_count("width", width)
    layers: list[nn.Module] = []
    for before, width in zip((in_channels, *widths), widths, strict=False):
        block = nn.Sequential(nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        layers += [block, nn.MaxPool2d(2)]
    # No pooling after the last: 8 pixels would leave a single position, and no map to draw.
    return Classifier(nn.Sequential(*layers[:-1]), nn.Linear(widths[-1], num_classes), widths[-1])
