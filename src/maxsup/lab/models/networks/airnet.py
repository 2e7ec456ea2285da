"""A network that learns CIFAR-10 in minutes on two cores.

**Form.** Like the airbench networks: a fixed 2x2 convolution that whitens small patches, then three groups of
convolution, 2x2 max-pool, batch norm, activation, convolution, batch norm, activation; global max-pooling; a linear
head without bias whose logits are divided by 9. Convolutions start as the identity on their first channels. Batch norms
have no scale, and their biases learn 64 times faster than weights.
**Not as there:** patches are whitened by sums and differences of pixels and colours, which decorrelate natural images
nearly as well as eigenvectors computed from the training images and need no data; ReLU is the default activation
(faster than GELU on a CPU); widths are (32, 64, 128) instead of (64, 256, 256).
**Speed.** 0.3 M parameters, 20 million multiplications an image of 32 pixels; use channels_last.
**Source.** Jordan 2024, "94% on CIFAR-10 in 3.29 seconds on a single GPU".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from maxsup.core.checks import check_choice, check_count
from maxsup.lab.models.base import MODELS, Classifier

LOGIT_SCALE = 1 / 9
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU}


class ScaledLinear(nn.Linear):
    """A linear head; its output is scaled so that a large learning rate does not saturate the softmax."""

    def forward(self, features: Tensor) -> Tensor:
        """Scaled logits."""
        return super().forward(features) * LOGIT_SCALE


class FastBias(nn.Module):
    """A bias per channel that learns ``factor ** 2`` times faster than its learning rate.

    The stored parameter is the bias divided by ``factor``, so that its gradient and the effect of a step both grow by
    that factor. This works with any optimiser that steps along the gradient, and needs no parameter group of its own.
    """

    def __init__(self, width: int, factor: float = 8.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Maps with the bias added to every position."""
        return x + (self.factor * self.bias)[:, None, None]


class AirNet(Classifier):
    """Pools by the maximum: a feature says whether something is there, not how often."""

    def pool(self, feature_map: Tensor) -> Tensor:
        """The largest value of each channel, ``(B, D)``."""
        return F.adaptive_max_pool2d(feature_map, 1).flatten(start_dim=1)


def patch_filters(in_channels: int) -> Tensor:
    """Orthonormal 2x2 filters: mean and differences of pixels, times brightness and opponent colours of RGB images.

    Example:
        >>> filters = patch_filters(3)
        >>> filters.shape, filters.flatten(1).matmul(filters.flatten(1).T).allclose(torch.eye(12), atol=1e-6)
        (torch.Size([12, 3, 2, 2]), True)
    """
    pixels = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    opponents = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, -1.0], [1.0, -2.0, 1.0]])
    colours = opponents if in_channels == 3 else torch.eye(in_channels)
    filters = torch.einsum("ay,bx,kc->abkcyx", pixels, pixels, colours).reshape(-1, in_channels, 2, 2)
    return F.normalize(filters.flatten(start_dim=1), dim=1).view_as(filters)


def stem(in_channels: int) -> nn.Conv2d:
    """A fixed convolution with every patch filter and its negative, which a ReLU would otherwise lose."""
    filters = patch_filters(in_channels)
    layer = nn.Conv2d(in_channels, 2 * len(filters), 2, bias=False)
    # Without a gradient here the first learnt convolution, the most expensive one, needs no gradient of its input.
    layer.weight = nn.Parameter(torch.cat([filters, -filters]), requires_grad=False)
    return layer


def convolution(in_channels: int, out_channels: int) -> nn.Conv2d:
    """A 3x3 convolution that starts as the identity on its first channels."""
    layer = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight.data[:in_channels])
    return layer


@MODELS.register("airnet", about="learns CIFAR-10 in minutes on two cores, 0.3 M parameters", source="Jordan 2024")
def airnet(
    num_classes: int, in_channels: int = 3, *, widths: Sequence[int] = (32, 64, 128), activation: str = "relu"
) -> Classifier:
    """A network with a group of two convolutions for each of ``widths``.

    Example:
        >>> airnet(10).dense_logits(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10, 3, 3])
    """
    check_choice("activation", activation, tuple(ACTIVATIONS))
    for width in widths:
        check_count("width", width)
    act = ACTIVATIONS[activation]

    def norm(width: int) -> nn.Sequential:
        return nn.Sequential(nn.BatchNorm2d(width, affine=False), FastBias(width))

    first = stem(in_channels)
    layers = [first, nn.BatchNorm2d(first.out_channels, affine=False), act()]
    for before, width in zip((first.out_channels, *widths), widths, strict=False):
        pooled = (convolution(before, width), nn.MaxPool2d(2), norm(width), act())
        layers.append(nn.Sequential(*pooled, convolution(width, width), norm(width), act()))
    return AirNet(nn.Sequential(*layers), ScaledLinear(widths[-1], num_classes, bias=False), widths[-1])
