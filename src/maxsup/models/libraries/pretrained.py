"""What is known of a pretrained network before it is run: how it wants images, and what its classes are called."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from maxsup.models.base import MODELS
from maxsup.models.libraries.hf_models import HF_PREFIX, hf_config, hf_preprocessing
from maxsup.models.libraries.timm_models import import_timm, timm_name, timm_preprocessing
from maxsup.models.libraries.torchvision_models import (
    TORCHVISION_PREFIX,
    torchvision_preprocessing,
    torchvision_weights,
)
from maxsup.models.preprocessing import Preprocessing
from maxsup.models.weights import no_published_weights, read_weights

_UNNAMED = re.compile(r"LABEL_\d+")  # what transformers calls a class without a name


def published_preprocessing(name: str, pretrained: bool | str) -> Preprocessing | None:
    """How the library that a network comes from prepares images for it; None for one of ours.

    Args:
        name: Of the network.
        pretrained: True for the published weights, or a file of weights.
    """
    file = None if isinstance(pretrained, bool) else pretrained
    if name.startswith(HF_PREFIX):
        return hf_preprocessing(name.removeprefix(HF_PREFIX))
    if name.startswith(TORCHVISION_PREFIX):
        return torchvision_preprocessing(name.removeprefix(TORCHVISION_PREFIX), file)
    return None if name in MODELS else timm_preprocessing(timm_name(name))


def num_classes_of(name: str, pretrained: bool | str, **options: Any) -> int:
    """How many classes the weights of a network are for.

    Args:
        name: Of the network.
        pretrained: True for the published weights, or a file of weights.
        options: Of the network.
    """
    from maxsup.models import create_model

    if pretrained is not True:
        given = create_model(name, 2, **options).adapted_weights(read_weights(Path(str(pretrained))))
        rows = given.get("head.weight")
        # Without a linear head nothing is known; whoever loads the file says what is wrong with it.
        return 2 if rows is None else len(rows)
    if name.startswith(HF_PREFIX):
        return int(hf_config(name.removeprefix(HF_PREFIX)).num_labels)
    if name.startswith(TORCHVISION_PREFIX):
        weights = torchvision_weights(name.removeprefix(TORCHVISION_PREFIX))
        found = None if weights is None else len(weights.meta["categories"])
    else:
        config = None if name in MODELS else import_timm().get_pretrained_cfg(timm_name(name))
        found = config.num_classes if config is not None and config.has_weights else None
    if found is None:
        raise no_published_weights(name)
    return int(found)


@lru_cache(maxsize=8)
def class_names_of(name: str, num_classes: int) -> tuple[tuple[str, ...], ...]:
    """All names by which each class of a network goes; empty where none are known.

    Those that a network of Hugging Face was saved with; for as many classes as ImageNet or a known part of it has, the
    ids and words of WordNet.

    Example:
        >>> class_names_of("timm:resnet18", 1000)[1]
        ('n01443537', 'goldfish', 'Carassius auratus')
    """
    if name.startswith(HF_PREFIX):
        labels = hf_config(name.removeprefix(HF_PREFIX)).id2label
        names = tuple(str(labels[index]) for index in range(num_classes) if index in labels)
        if len(names) == num_classes and not any(_UNNAMED.fullmatch(label) for label in names):
            return tuple((label, *label.split(", ")) for label in names)
    import_timm()
    from timm.data.imagenet_info import ImageNetInfo, infer_imagenet_subset

    subset = infer_imagenet_subset({"num_classes": num_classes})
    if subset is None:
        return ()
    info = ImageNetInfo(subset)
    return tuple((wnid, *info.index_to_description(index).split(", ")) for index, wnid in enumerate(info.label_names()))
