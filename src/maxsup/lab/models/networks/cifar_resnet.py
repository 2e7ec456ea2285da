"""ResNet-20, 32 and 56 for images of 32 pixels.

**Form.** A 3x3 convolution, three stages of 16, 32 and 64 channels with ``n`` blocks each (``6 n + 2`` layers), average
pooling, a linear head. Shortcuts have no parameters: where the width doubles, every second pixel is kept and the new
channels are zero (option A of the paper).
**Source.** He et al. 2016, section 4.2.
**For the long-tail table** ResNet-32 with ``classifier="tde"`` and ``num_branches=2``: the last block twice, side by
side, with concatenated features (Zhou et al. 2020), as in the network those results come from.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from maxsup.core.checks import check_count
from maxsup.lab.models.base import MODELS, Classifier

WIDTHS = (16, 32, 64)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut without parameters."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.stride = stride
        self.num_new_channels = out_channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        """Residual plus shortcut."""
        residual = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.num_new_channels))
        return F.relu(residual + shortcut)


class Branches(nn.ModuleList):
    """Blocks side by side on one input, their channels concatenated."""

    def forward(self, x: Tensor) -> Tensor:
        """All outputs as one map."""
        return torch.cat([branch(x) for branch in self], dim=1)


def cifar_resnet(num_classes: int, in_channels: int, num_blocks: int, num_branches: int) -> Classifier:
    """A ResNet of ``6 num_blocks + 2`` layers.

    Example:
        >>> model = cifar_resnet(10, in_channels=3, num_blocks=3, num_branches=1)
        >>> sum(parameter.numel() for parameter in model.parameters())
        269722
    """
    check_count("num_branches", num_branches)
    width = WIDTHS[0]
    layers: list[nn.Module] = [
        nn.Conv2d(in_channels, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    ]
    for stage_width in WIDTHS:
        layers.append(BasicBlock(width, stage_width, stride=stage_width // width))
        layers += [BasicBlock(stage_width, stage_width) for _ in range(num_blocks - 1)]
        width = stage_width
    if num_branches > 1:
        layers[-1] = Branches(BasicBlock(width, width) for _ in range(num_branches))
    body = nn.Sequential(*layers)
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    num_features = width * num_branches
    return Classifier(body, nn.Linear(num_features, num_classes), num_features)


def _register(depth: int, millions: str) -> None:
    about = f"ResNet-{depth} for 32 px, {millions} M parameters"

    @MODELS.register(f"resnet{depth}", about=about, source="He et al. 2016")
    def resnet(num_classes: int, in_channels: int = 3, *, num_branches: int = 1) -> Classifier:
        """A ResNet for CIFAR."""
        return cifar_resnet(num_classes, in_channels, (depth - 2) // 6, num_branches)


for _depth, _millions in ((20, "0.27"), (32, "0.46"), (56, "0.85")):
    _register(_depth, _millions)
