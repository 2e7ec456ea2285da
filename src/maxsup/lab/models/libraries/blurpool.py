"""Anti-aliased convolutions: a blur in front of every convolution with a stride.

**Form.** A 3x3 binomial filter of stride 1 on each channel, then the convolution as it was. Convolutions of fewer than
16 channels, such as the first one of a network, stay as they are.
**Source.** Zhang 2019, "Making Convolutional Networks Shift-Invariant Again", in the form of FFCV's ImageNet training,
which the released code of the MaxSup paper takes over: weights are called ``X.conv.weight`` and ``X.blur_filter``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FILTER = "blur_filter"
"""Last part of the name of every filter in a file of weights."""

MIN_CHANNELS = 16

_BINOMIAL = (0.25, 0.5, 0.25)


class BlurConv2d(nn.Module):
    """A convolution whose input is blurred first.

    Example:
        >>> layer = BlurConv2d(nn.Conv2d(16, 8, 1, stride=2, bias=False))
        >>> layer(torch.ones(1, 16, 6, 6)).shape, sorted(layer.state_dict())
        (torch.Size([1, 8, 3, 3]), ['blur_filter', 'conv.weight'])
    """

    blur_filter: Tensor

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        line = torch.tensor(_BINOMIAL)
        self.register_buffer(FILTER, torch.outer(line, line).expand(conv.in_channels, 1, 3, 3).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        """Output of the convolution for the blurred ``x``."""
        blurred: Tensor = F.conv2d(x, self.blur_filter, padding=1, groups=self.conv.in_channels)
        output: Tensor = self.conv(blurred)
        return output


def blur_strided_convolutions(model: nn.Module) -> int:
    """Put a blur in front of each strided convolution of at least 16 channels, in place; return how many there are.

    Example:
        >>> blur_strided_convolutions(nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.Conv2d(16, 32, 3, stride=2)))
        1
    """
    count = 0
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Conv2d) and max(child.stride) > 1 and child.in_channels >= MIN_CHANNELS:
            setattr(model, name, BlurConv2d(child))
            count += 1
        elif not isinstance(child, BlurConv2d):
            count += blur_strided_convolutions(child)
    return count
