"""The interface of all models: images -> feature map -> features -> logits, with access to each step.

A model is a ``body`` (images to the last feature map) and a ``head`` (features to logits). Losses that rank classes by
position use ``dense_logits``, class activation maps use ``cam_layer``, and analyses of representations ``features``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, overload

import torch
from torch import Tensor, nn

from maxsup.core.registry import Registry


@dataclass(frozen=True)
class Preprocessing:
    """The images that a pretrained network expects: size, crop, interpolation and normalisation, as in a recipe.

    ``image_size`` is None for images of any size. ``source`` names the origin of these values.
    """

    image_size: int | None
    crop_pct: float
    crop_mode: str
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: str


class Classifier(nn.Module):
    """A network that classifies images and gives access to its features.

    This is a convolutional network with global average pooling: ``body`` turns images into the feature map
    ``(B, C, h, w)``, which its last child computes, and ``head`` turns features ``(..., num_features)`` into logits
    ``(..., K)``. Other kinds override ``feature_map``, ``pool``, ``to_map``, ``from_positions`` and ``cam_layer``.

    Example:
        >>> model = Classifier(nn.Sequential(nn.Conv2d(3, 8, 3)), nn.Linear(8, 5), num_features=8)
        >>> images = torch.randn(2, 3, 6, 6)
        >>> model(images).shape, model.features(images).shape, model.dense_logits(images).shape
        (torch.Size([2, 5]), torch.Size([2, 8]), torch.Size([2, 5, 4, 4]))
    """

    def __init__(self, body: nn.Module, head: nn.Module, num_features: int) -> None:
        super().__init__()
        self.body, self.head, self.num_features = body, head, num_features

    @overload
    def forward(self, images: Tensor, *, with_dense: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, images: Tensor, *, with_dense: Literal[True]) -> tuple[Tensor, Tensor]: ...

    def forward(self, images: Tensor, *, with_dense: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Logits ``(B, K)``, and on request the logits at every position, from the same pass but without a gradient."""
        feature_map = self.feature_map(images)
        logits: Tensor = self.head(self.pool(feature_map))
        if not with_dense:
            return logits
        with torch.no_grad():
            return logits, self._logits_by_position(feature_map)

    def features(self, images: Tensor) -> Tensor:
        """The input of the head, ``(B, D)``."""
        return self.pool(self.feature_map(images))

    def dense_logits(self, images: Tensor) -> Tensor:
        """The head at every position of the last feature map, ``(B, K, h, w)``.

        Everything between the map and the logits is applied to each position as if it were the whole map. If that is
        linear, as average pooling and a linear head are, the mean over positions is the logits.
        """
        return self._logits_by_position(self.feature_map(images))

    def cam_layer(self) -> nn.Module:
        """The layer whose output class activation maps weight; ``to_map`` gives that output its shape."""
        return [self.body, *self.body.children()][-1]

    def feature_map(self, images: Tensor) -> Tensor:
        """Output of the body, in the layout that ``pool`` takes."""
        return self.body(images)

    def pool(self, feature_map: Tensor) -> Tensor:
        """One feature vector per image, ``(B, D)``."""
        return feature_map.mean(dim=(2, 3))

    def to_map(self, activations: Tensor) -> Tensor:
        """Output of the body or of ``cam_layer()`` as ``(B, C, h, w)``, whatever its layout."""
        return activations

    def from_positions(self, positions: Tensor, feature_map: Tensor) -> Tensor:
        """Vectors ``(n, C)`` as ``n`` feature maps with one position each, in the layout of ``feature_map``."""
        return positions[:, :, None, None]

    def adapted_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Weights from a file under the names of this model."""
        return weights

    def _logits_by_position(self, feature_map: Tensor) -> Tensor:
        grid = self.to_map(feature_map).permute(0, 2, 3, 1)
        features = self.pool(self.from_positions(grid.flatten(end_dim=2), feature_map))
        # Four dimensions, so that a head that keeps statistics of images does not mistake positions for images.
        logits: Tensor = self.head(features.view(*grid.shape[:3], -1))
        return logits.permute(0, 3, 1, 2)


def check_rgb(name: str, in_channels: int) -> None:
    """Raise unless images are in colour, which most networks of other libraries require."""
    if in_channels != 3:
        raise ValueError(
            f"images must be in colour for model {name!r}; got {in_channels} channels. Models of timm take any number."
        )


MODELS: Registry[Callable[..., Classifier]] = Registry("model", group="maxsup.models")
