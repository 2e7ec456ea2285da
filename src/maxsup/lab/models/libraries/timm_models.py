"""Any classification model of timm behind the interface of this package.

timm's classifier becomes ``head``; the rest is ``body``, with timm's own parameter names. Feature maps may be channels
first, channels last or tokens. For tokens (ViT) ``dense_logits`` applies all that follows the final norm to each patch
token, and ``cam_layer`` is the first norm of the last block, because with a class token the patch tokens behind that
block have no gradient.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from maxsup.core.errors import StorageError, hint
from maxsup.core.installation import imported
from maxsup.lab.models.base import MODELS, Preprocessing
from maxsup.lab.models.libraries.cut import CutClassifier
from maxsup.lab.models.weights import no_published_weights, warn_new_head

TIMM_PREFIX = "timm:"


def timm_name(name: str) -> str:
    """The name in timm; raises if timm has no such model."""
    bare = name.removeprefix(TIMM_PREFIX)
    timm = imported("timm")
    # A tag after a dot names published weights; is_model accepts any tag.
    known = timm.list_pretrained() if "." in bare else timm.list_models()
    if timm.is_model(bare) and ("." not in bare or bare in known):
        return bare
    known += MODELS.names() if bare == name else []
    # Without a similar name a hint would list more than a thousand.
    is_near = bool(get_close_matches(bare, known, n=1))
    nearest = hint(bare, known) if is_near else "See `maxsup ls models` and timm.list_models()."
    raise ValueError(f"model must be a registered name or one of timm; got {name!r}. {nearest}")


class TimmClassifier(CutClassifier):
    """A model of timm, cut before its classifier, which must be linear.

    Example:
        >>> model = TimmClassifier(imported("timm").create_model("resnet18", num_classes=10))
        >>> model.num_features, model.dense_logits(torch.randn(1, 3, 64, 64)).shape
        (512, torch.Size([1, 10, 2, 2]))
    """

    def __init__(self, model: Any) -> None:
        head = model.get_classifier()
        if not isinstance(head, nn.Linear):
            raise ValueError(
                f"model must have one linear classifier; got {type(head).__name__} in {type(model).__name__}. "
                "Choose a model of timm that is neither distilled nor without a head."
            )
        super().__init__(model, next(name for name, module in model.named_modules() if module is head))

    def feature_map(self, images: Tensor) -> Tensor:
        """Output of ``forward_features``: of the last stage of a CNN, of the final norm of a ViT."""
        return self.body.forward_features(images)

    def pool(self, feature_map: Tensor) -> Tensor:
        """Everything timm does between feature map and classifier."""
        return self.body.forward_head(feature_map, pre_logits=True)

    def cam_layer(self) -> nn.Module:
        """The first norm of the last block of a ViT, or the layer that computes the last feature map."""
        modules = dict(self.body.named_modules())
        last_stage: str = self.body.feature_info[-1]["module"]
        if f"{last_stage}.norm1" in modules:
            return modules[f"{last_stage}.norm1"]
        # MobileNetV2 and EfficientNet go on after their last stage.
        return modules["bn2"] if {"conv_head", "bn2"} <= modules.keys() else modules[last_stage]

    def to_map(self, activations: Tensor) -> Tensor:
        """Channels first for any layout, without class and register tokens."""
        if activations.ndim == 3:
            height, width = self._token_grid(activations.shape[1])
            patches = activations[:, activations.shape[1] - height * width :]
            return patches.transpose(1, 2).unflatten(2, (height, width))
        return activations.permute(0, 3, 1, 2) if self._is_channels_last(activations) else activations

    def from_positions(self, positions: Tensor, feature_map: Tensor) -> Tensor:
        """Maps of one position; a vector fills all tokens, so that any kind of pooling returns it."""
        if feature_map.ndim == 3:
            num_tokens = feature_map.shape[1]
            height, width = self._token_grid(num_tokens)
            return positions[:, None, :].expand(-1, num_tokens - height * width + 1, -1)
        is_last = self._is_channels_last(feature_map)
        return positions[:, None, None, :] if is_last else super().from_positions(positions, feature_map)

    def adapted_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Names may be ours or timm's; timm converts old layouts and resizes position embeddings."""
        if self._has_own_names(weights):
            weights = {
                name.removeprefix("body.")
                if name.startswith("body.")
                else self.head_name + name.removeprefix("head"): value
                for name, value in weights.items()
            }
        convert = getattr(sys.modules[type(self.body).__module__], "checkpoint_filter_fn", None)
        return self._rename(weights if convert is None else convert(weights, self.body))

    def _is_channels_last(self, feature_map: Tensor) -> bool:
        num_channels = self.body.num_features
        return feature_map.shape[1] != num_channels and feature_map.shape[3] == num_channels

    def _token_grid(self, num_tokens: int) -> tuple[int, int]:
        """Height and width of the patch grid of ``num_tokens`` tokens."""
        num_prefix: int = getattr(self.body, "num_prefix_tokens", 0)
        known = getattr(getattr(self.body, "patch_embed", None), "grid_size", None)
        for num_others in (num_prefix, 0, 1):  # some families have a class token without declaring it
            side = math.isqrt(num_tokens - num_others)
            for height, width in (known or (side, side), (side, side)):
                if height * width == num_tokens - num_others:
                    return height, width
        raise ValueError(
            f"tokens must come from a square of patches or from the size the model was made for; got {num_tokens} in "
            f"{type(self.body).__name__}. Give image_size to create_model."
        )


def create_timm_model(
    name: str,
    num_classes: int,
    in_channels: int = 3,
    *,
    image_size: int | None = None,
    pretrained: bool = False,
    **options: Any,
) -> TimmClassifier:
    """A model by its timm name; ``pretrained`` fetches the published weights.

    ``name`` may have the tag of the weights. ``image_size`` is for models that are made for one size (ViT, Swin);
    ``options`` are for the class of the model in timm, for instance ``drop_path_rate=0.1``.
    """
    timm = imported("timm")
    config = timm.get_pretrained_cfg(name)
    if pretrained and (config is None or not config.has_weights):
        raise no_published_weights(name)
    if image_size is not None and config is not None and config.fixed_input_size:
        options.setdefault("img_size", image_size)
    try:
        with explained_options(name):
            model = timm.create_model(name, pretrained, num_classes=num_classes, in_chans=in_channels, **options)
    except OSError as error:
        raise StorageError(
            f"published weights of {name!r} must be in the cache or within reach; got {type(error).__name__}. "
            "Write model.pretrained=false to train from the start, or fetch model.safetensors where there is a network "
            "and write model.pretrained=FILE, for diagnose --weights FILE.",
            code="weights-unreachable",
        ) from error
    if pretrained and config.num_classes != num_classes:
        warn_new_head(f"the published {name}", config.num_classes, num_classes)
    return TimmClassifier(model)


def timm_preprocessing(name: str) -> Preprocessing | None:
    """The preprocessing in timm's ``pretrained_cfg``, as timm reads it; None for a model without one.

    Example:
        >>> wanted = timm_preprocessing("tf_efficientnet_lite0")
        >>> wanted.image_size, wanted.crop_pct, wanted.interpolation, wanted.mean
        (224, 0.875, 'bicubic', (0.5, 0.5, 0.5))
    """
    config = imported("timm").get_pretrained_cfg(name)
    if config is None:
        return None
    wanted = imported("timm.data.config").resolve_data_config(pretrained_cfg=config.to_dict())
    return Preprocessing(
        wanted["input_size"][1],
        crop_pct=wanted["crop_pct"],
        crop_mode="squash" if wanted["crop_mode"] == "squash" else "center",
        interpolation=wanted["interpolation"],
        mean=tuple(wanted["mean"]),
        std=tuple(wanted["std"]),
        source=f"timm's {'.'.join(filter(None, (config.architecture, config.tag)))}",
    )


@contextmanager
def explained_options(name: str) -> Iterator[None]:
    """Turn timm's error about an unknown option into a sentence that names model and class."""
    try:
        yield
    except TypeError as error:
        refused = re.search(r"(\w+)\.__init__.* unexpected keyword argument '(\w+)'", str(error))
        if refused is None:
            raise
        owner, option = refused.groups()
        raise TypeError(
            f"option of model {name!r} must be one that timm's {owner} takes; got {option!r}. "
            f"help(timm.models.{owner}) lists them."
        ) from error
