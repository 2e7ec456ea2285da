"""UperNet: pyramid pooling on the coarsest map, a feature pyramid over all of them, and an auxiliary head.

**Backbone.** Any model of timm with intermediate maps, with weights of a classifier. A network with strides (ResNet,
Swin) brings its own pyramid. The maps of a plain transformer (ViT, DeiT) are all equally fine: a neck rescales those of
four blocks by 4, 2, 1 and 1/2. Position embeddings are resized when weights are loaded and for every image size.
**Heads.** Those of the transformers package, in the published form: 512 channels, pools of 1, 2, 3 and 6, an auxiliary
head of 256 channels with weight 0.4. Added here: dropout of whole channels before both classifiers, and the initial
weights of MMSegmentation. Where batch norms follow, the size of the weights sets how fast AdamW turns them.
**Source.** Xiao et al. 2018; the paper does not state the settings of the segmentation table (see the recipe).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from maxsup.core.checks import check_count
from maxsup.core.installation import imported
from maxsup.lab.models import Classifier, TimmClassifier, create_model
from maxsup.lab.segmentation.segmenters import SEGMENTERS, Segmenter

SCALES = (4.0, 2.0, 1.0, 0.5)
NUM_LEVELS = len(SCALES)


class MultiLevelNeck(nn.Module):
    """Equally fine maps to a pyramid: each is projected, rescaled, and smoothed by a convolution.

    Example:
        >>> neck = MultiLevelNeck(8)
        >>> [tuple(level.shape[2:]) for level in neck([torch.randn(1, 8, 6, 4)] * 4)]
        [(24, 16), (12, 8), (6, 4), (3, 2)]
    """

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Conv2d(num_channels, num_channels, 1) for _ in SCALES)
        self.convolutions = nn.ModuleList(nn.Conv2d(num_channels, num_channels, 3, padding=1) for _ in SCALES)
        for layer in [*self.projections, *self.convolutions]:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Return one level a map."""
        levels = []
        for level, scale, projection, convolution in zip(
            maps, SCALES, self.projections, self.convolutions, strict=True
        ):
            size = [max(1, math.floor(side * scale)) for side in level.shape[-2:]]
            rescaled = F.interpolate(projection(level), size=size, mode="bilinear", align_corners=False)
            levels.append(convolution(rescaled))
        return levels


class TimmMaps(nn.Module):
    """Some intermediate maps of a timm model, the finest first; layers behind the last one are cut off."""

    def __init__(self, body: Any, indices: Sequence[int]) -> None:
        super().__init__()
        infos = [body.feature_info[index] for index in indices]
        self.num_channels = [info["num_chs"] for info in infos]
        self.strides = [info["reduction"] for info in infos]
        # All maps of a plain transformer are equally fine.
        self.is_plain = len(set(self.strides)) == 1
        self.indices: list[int] = body.prune_intermediate_layers(list(indices), prune_norm=True, prune_head=True)
        self.body = body

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the maps, channels first."""
        return self.body.forward_intermediates(
            images, indices=self.indices, norm=False, output_fmt="NCHW", intermediates_only=True
        )


@SEGMENTERS.register("upernet", about="UperNet on any backbone of timm, plain transformers too", source="Xiao 2018")
def upernet(
    num_classes: int,
    in_channels: int = 3,
    *,
    image_size: int | None = None,
    pretrained: bool | str | Path = False,
    backbone: str = "deit_small_patch16_224",
    backbone_options: dict[str, Any] | None = None,
    out_indices: Sequence[int] | None = None,
    channels: int = 512,
    auxiliary_channels: int = 256,
    auxiliary_weight: float = 0.4,
    dropout: float = 0.1,
) -> Segmenter:
    """UperNet.

    Args:
        num_classes: Number of classes of a pixel.
        in_channels: Of the images.
        image_size: As of :func:`~maxsup.lab.segmentation.create_segmenter`.
        pretrained: As there.
        backbone: A model of ours that is built on timm (``tiny_vit``, ``resnet18_cifar``), or any of timm.
        backbone_options: For the backbone, for instance ``{"drop_path_rate": 0.1}``.
        out_indices: Four maps of the backbone. Default: its last four, or those after each quarter of the blocks of a
            plain transformer.
        channels: Width of the decoder.
        auxiliary_channels: Width of the auxiliary head.
        auxiliary_weight: Weight of its loss; 0 builds no such head.
        dropout: Share of channels that the classifiers do not see in training.

    Example:
        >>> model = upernet(5, image_size=32, backbone="tiny_vit", channels=16, auxiliary_channels=8).eval()
        >>> model(torch.randn(1, 3, 40, 48)).shape
        torch.Size([1, 5, 40, 48])
    """
    check_count("channels", channels)
    check_count("auxiliary_channels", auxiliary_channels)
    if auxiliary_weight < 0:
        raise ValueError(f"auxiliary_weight must be at least 0; got {auxiliary_weight!r}. Usual: 0.4.")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must be at least 0 and below 1; got {dropout!r}. Usual: 0.1.")
    maps = _maps(backbone, in_channels, image_size, pretrained, backbone_options or {}, out_indices)
    library = imported("transformers.models.upernet.modeling_upernet", "UperNet", "dense")
    config = library.UperNetConfig(
        num_labels=num_classes, hidden_size=channels, auxiliary_channels=auxiliary_channels, auxiliary_num_convs=1
    )
    decoder = library.UperNetHead(config, maps.num_channels)
    # As published: the coarsest level behind a neck, the second coarsest of a backbone's own pyramid.
    level = NUM_LEVELS - 1 if maps.is_plain else NUM_LEVELS - 2
    config.auxiliary_in_channels = maps.num_channels[level]
    auxiliary = library.UperNetFCNHead(config, maps.num_channels, in_index=level) if auxiliary_weight else None
    for head in (decoder, auxiliary) if auxiliary else (decoder,):
        for module in head.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(head.classifier.weight, std=0.01)
        nn.init.zeros_(head.classifier.bias)
        head.classifier = nn.Sequential(nn.Dropout2d(dropout), head.classifier)
    neck = MultiLevelNeck(maps.num_channels[0]) if maps.is_plain else nn.Identity()
    patch = maps.strides[0] if hasattr(maps.body, "patch_embed") else 1
    return Segmenter(maps, neck, decoder, auxiliary, auxiliary_weight, patch)


def _is_made_for_one_size(model: nn.Module) -> bool:
    return any(getattr(module, "strict_img_size", False) for module in model.modules())


def _maps(
    name: str,
    in_channels: int,
    image_size: int | None,
    pretrained: bool | str | Path,
    options: dict[str, Any],
    out_indices: Sequence[int] | None,
) -> TimmMaps:
    # Plain transformers of timm need one option to take images of any size, transformers with windows another; most
    # other networks need none.
    model: Classifier | None = None
    for sized in ({"dynamic_img_size": True}, {"strict_img_size": False}, {}):
        try:
            with warnings.catch_warnings():
                # The head is cut off in any case.
                warnings.filterwarnings("ignore", message="The head of")
                model = create_model(
                    name, 1, in_channels=in_channels, image_size=image_size, pretrained=pretrained, **(sized | options)
                )
        except TypeError as error:
            if not any(option in str(error) for option in sized):
                raise
            continue
        # Some models ignore an option that they do not know.
        if not _is_made_for_one_size(model):
            break
    fix = "Choose for instance deit_small_patch16_224, resnet50 or tiny_vit."
    if not isinstance(model, TimmClassifier) or not hasattr(model.body, "forward_intermediates"):
        raise ValueError(f"backbone must be a model of timm that gives intermediate maps; got {name!r}. {fix}")
    if _is_made_for_one_size(model):
        raise ValueError(f"backbone must take images of any size; got {name!r}, which is made for one. {fix}")
    num_maps = len(model.body.feature_info)
    default = list(range(num_maps - NUM_LEVELS, num_maps))
    if len({info["reduction"] for info in model.body.feature_info}) == 1:
        default = [num_maps * (level + 1) // NUM_LEVELS - 1 for level in range(NUM_LEVELS)]
    indices = list(out_indices) if out_indices is not None else default
    if len(indices) != NUM_LEVELS or sorted(set(indices)) != indices or not 0 <= indices[0] <= indices[-1] < num_maps:
        raise ValueError(
            f"out_indices must be {NUM_LEVELS} growing numbers below {num_maps} for backbone {name!r}; got "
            f"{indices}. Leave them out to take {default}."
        )
    return TimmMaps(model.body, indices)
