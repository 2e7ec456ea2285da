"""Classifiers of torchvision by name, and the preprocessing of their published weights.

``torchvision:resnet50`` has torchvision's default weights, ``torchvision:resnet50.IMAGENET1K_V1`` those of that tag.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from maxsup.core.errors import StorageError, hint
from maxsup.core.installation import imported
from maxsup.lab.models.base import Preprocessing, check_rgb
from maxsup.lab.models.libraries.cut import CutClassifier, last_linear
from maxsup.lab.models.weights import no_published_weights, warn_new_head

TORCHVISION_PREFIX = "torchvision:"


def create_torchvision_model(
    name: str, num_classes: int, in_channels: int = 3, *, pretrained: bool = False, **options: Any
) -> CutClassifier:
    """A classifier by its torchvision name; ``pretrained`` fetches the published weights.

    ``name`` may have the tag of the weights; ``options`` are for the model's function in torchvision, for instance
    ``dropout=0.1``.
    """
    check_rgb(name, in_channels)
    found = torchvision_weights(name)
    if pretrained and found is None:
        raise no_published_weights(name)
    bare = name.partition(".")[0]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The default weight initialization", category=FutureWarning)
        model = imported("torchvision.models").get_model(bare, weights=None, num_classes=num_classes, **options)
    made = CutClassifier(model, last_linear(model, num_classes))
    if pretrained:
        try:
            weights = made.adapted_weights(found.get_state_dict(progress=False, check_hash=True))
        except OSError as error:
            raise StorageError(
                f"published weights of {name!r} must be in the cache or within reach; got {type(error).__name__}. "
                f"Fetch {found.url} where there is a network and give its path as pretrained.",
                code="weights-unreachable",
            ) from error
        if len(weights["head.weight"]) != num_classes:
            warn_new_head(f"the published {name}", len(weights["head.weight"]), num_classes)
            weights |= {key: value for key, value in made.state_dict().items() if key.startswith("head.")}
        made.load_state_dict(weights)
    return made


def torchvision_weights(name: str, file: str | None = None) -> Any:
    """The published weights of a name: by its tag, by the name of a file of them, or else the default ones."""
    models = imported("torchvision.models")
    bare, _, tag = name.partition(".")
    known = models.list_models(module=models)
    if bare not in known:
        raise ValueError(f"model of torchvision must be one it has; got {bare!r}. {hint(bare, known)}")
    published = models.get_model_weights(bare)
    by_tag = {weights.name: weights for weights in published}
    if tag:
        if tag not in by_tag:
            raise ValueError(f"weights of {bare!r} must be published by torchvision; got {tag!r}. {hint(tag, by_tag)}")
        return by_tag[tag]
    by_file = {Path(weights.url).name: weights for weights in published}
    return by_file.get(Path(file or "").name, getattr(published, "DEFAULT", None))


def torchvision_preprocessing(name: str, file: str | None = None) -> Preprocessing | None:
    """The preprocessing that the weights' own ``transforms()`` do."""
    weights = torchvision_weights(name, file)
    if weights is None:
        return None
    wanted = weights.transforms()
    size = wanted.crop_size[0]
    return Preprocessing(
        size,
        crop_pct=size / wanted.resize_size[0],
        crop_mode="center",
        interpolation=wanted.interpolation.value,
        mean=tuple(wanted.mean),
        std=tuple(wanted.std),
        source=f"torchvision's {weights}",
    )
