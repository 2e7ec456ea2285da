"""What is known of a pretrained network before it is run: its weights, its preprocessing, the names of its classes."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from maxsup.core.installation import imported
from maxsup.lab.models.base import MODELS, Preprocessing
from maxsup.lab.models.libraries.hf_models import HF_PREFIX, hf_config, hf_preprocessing, hub_has
from maxsup.lab.models.libraries.timm_models import TIMM_PREFIX, timm_name, timm_preprocessing
from maxsup.lab.models.libraries.torchvision_models import (
    TORCHVISION_PREFIX,
    torchvision_preprocessing,
    torchvision_weights,
)
from maxsup.lab.models.weights import adapted_weights, no_published_weights

_UNNAMED = re.compile(r"LABEL_\d+")  # what transformers calls a class without a name


def has_weights_here(name: str) -> bool:
    """Whether the published weights of a model are on this machine, or the place that publishes them answers.

    Our own models have none. A failed download would take a minute of retries to give the same answer.
    """
    config = None if name in MODELS else imported("timm").get_pretrained_cfg(name.removeprefix(TIMM_PREFIX))
    if config is None or not config.has_weights:
        return False
    if config.url and (Path(torch.hub.get_dir()) / "checkpoints" / config.url.rpartition("/")[2]).is_file():
        return True
    return hub_has(config.hf_hub_id, ("model.safetensors", "pytorch_model.bin"))


def published_preprocessing(name: str, pretrained: bool | str) -> Preprocessing | None:
    """How the library of a network prepares images for it; None for our own models.

    ``pretrained`` is True for the published weights, or a file of weights.
    """
    file = None if isinstance(pretrained, bool) else pretrained
    if name.startswith(HF_PREFIX):
        return hf_preprocessing(name.removeprefix(HF_PREFIX))
    if name.startswith(TORCHVISION_PREFIX):
        return torchvision_preprocessing(name.removeprefix(TORCHVISION_PREFIX), file)
    return None if name in MODELS else timm_preprocessing(timm_name(name))


def num_classes_of(name: str, pretrained: bool | str, **options: Any) -> int:
    """The number of classes of the published weights of a network (True), or of a file of weights.

    ``options`` are those of the network.
    """
    from maxsup.lab.models import create_model

    if pretrained is not True:
        given = adapted_weights(create_model(name, 2, **options), Path(str(pretrained)))
        # Without a linear head nothing is known, and loading the file will report what is wrong with it.
        return len(given.get("head.weight", range(2)))
    if name.startswith(HF_PREFIX):
        return int(hf_config(name.removeprefix(HF_PREFIX)).num_labels)
    if name.startswith(TORCHVISION_PREFIX):
        weights = torchvision_weights(name.removeprefix(TORCHVISION_PREFIX))
        found = None if weights is None else len(weights.meta["categories"])
    else:
        config = None if name in MODELS else imported("timm").get_pretrained_cfg(timm_name(name))
        found = config.num_classes if config is not None and config.has_weights else None
    if found is None:
        raise no_published_weights(name)
    return int(found)


@lru_cache(maxsize=8)
def class_names_of(name: str, num_classes: int) -> tuple[tuple[str, ...], ...]:
    """All names of each class of a network; empty if none are known.

    A network of Hugging Face has the names it was saved with. If the number of classes is that of ImageNet or of a
    known part of it, names are the ids and words of WordNet.

    Example:
        >>> class_names_of("timm:resnet18", 1000)[1]
        ('n01443537', 'goldfish', 'Carassius auratus')
    """
    if name.startswith(HF_PREFIX):
        labels = hf_config(name.removeprefix(HF_PREFIX)).id2label
        names = tuple(str(labels[index]) for index in range(num_classes) if index in labels)
        if len(names) == num_classes and not any(_UNNAMED.fullmatch(label) for label in names):
            return tuple((label, *label.split(", ")) for label in names)
    imagenet = imported("timm.data.imagenet_info")
    subset = imagenet.infer_imagenet_subset({"num_classes": num_classes})
    if subset is None:
        return ()
    info = imagenet.ImageNetInfo(subset)
    return tuple((wnid, *info.index_to_description(index).split(", ")) for index, wnid in enumerate(info.label_names()))
