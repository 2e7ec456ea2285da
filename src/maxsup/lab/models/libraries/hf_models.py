"""Image classifiers of Hugging Face transformers, from a local folder or by their name on the hub."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from maxsup.core.errors import StorageError
from maxsup.core.installation import imported
from maxsup.lab.models.base import Preprocessing, check_rgb
from maxsup.lab.models.libraries.cut import CutClassifier, last_linear
from maxsup.lab.models.weights import warn_new_head

HF_PREFIX = "hf:"

_RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # the numbers of Pillow
_PATIENCE = 3.0  # seconds that the hub may take to answer


def create_hf_model(
    name: str, num_classes: int, in_channels: int = 3, *, pretrained: bool = False, **options: Any
) -> CutClassifier:
    """An image classifier of transformers; ``pretrained`` loads the weights too, not only the layout.

    ``name`` is a folder that ``save_pretrained`` wrote, or a name on the hub; none of its code is run. ``options`` are
    those of the configuration, for instance ``hidden_dropout_prob=0.1``.
    """
    auto = _import_transformers().AutoModelForImageClassification
    check_rgb(name, in_channels)
    config = hf_config(name)
    old = config.num_labels
    if old != num_classes:
        options = {**options, "num_labels": num_classes}
    if pretrained:
        model = _load(auto, name, ignore_mismatched_sizes=True, **options)
        if old != num_classes:
            warn_new_head(name, old, num_classes)
    else:
        for key, value in options.items():
            setattr(config, key, value)
        model = auto.from_config(config)
    return CutClassifier(model, last_linear(model, num_classes))


def hf_config(name: str) -> Any:
    """The configuration of a saved network."""
    return _load(_import_transformers().AutoConfig, name)


@lru_cache(maxsize=8)
def hf_preprocessing(name: str) -> Preprocessing | None:
    """The preprocessing in its ``preprocessor_config.json``; None if it has none."""
    if Path(name).is_dir() and not (Path(name) / "preprocessor_config.json").is_file():
        return None
    wanted = _load(_import_transformers().AutoImageProcessor, name)
    # transformers itself reads the sizes, which every version writes differently.
    size = {key: side for key, side in dict(wanted.size).items() if side is not None}
    shorter = size.get("shortest_edge")
    if shorter is None and "height" not in size:
        raise StorageError(
            f"preprocessor_config.json of {name} must give the size of images by height or shortest edge; got "
            f"{', '.join(size) or 'none'}. Write data.image_size and augment.crop_pct in a copy of its folder without "
            "that file."
        )
    scaled = shorter or size["height"]
    crop = dict(wanted.crop_size)["height"] if getattr(wanted, "do_center_crop", False) else scaled
    crop_pct = crop / scaled
    if getattr(wanted, "crop_pct", None) and shorter:  # ConvNeXt: a ratio, and none from 384 pixels on
        shorter, crop_pct = (shorter, wanted.crop_pct) if shorter < 384 else (None, 1.0)
    channels = len(wanted.image_mean or (0.0,) * 3)
    mean, std = (wanted.image_mean, wanted.image_std) if wanted.do_normalize else ((0.0,) * channels, (1.0,) * channels)
    # transformers first multiplies pixels by a factor, and moves some to [-1, 1]; here they are in [0, 1].
    factor = 255 * wanted.rescale_factor if wanted.do_rescale else 255.0
    shift = 1.0 if getattr(wanted, "rescale_offset", False) else 0.0
    return Preprocessing(
        crop,
        crop_pct=min(crop_pct, 1.0),
        crop_mode="center" if shorter else "squash",
        interpolation=_RESAMPLING.get(int(wanted.resample), "bilinear"),
        mean=tuple((value + shift) / factor for value in mean),
        std=tuple(value / factor for value in std),
        source=f"preprocessor_config.json of {name}",
    )


def hub_has(repository: str | None, files: Sequence[str]) -> bool:
    """Whether one of these files of a repository is in the cache of the hub, or the hub answers."""
    from huggingface_hub import constants, try_to_load_from_cache

    cached = (try_to_load_from_cache(repository, file, constants.HF_HUB_CACHE) for file in files if repository)
    if any(isinstance(path, str) for path in cached):
        return True
    return not constants.HF_HUB_OFFLINE and _answers(constants.ENDPOINT)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_PATIENCE):
            return True
    except (OSError, ValueError):
        return False


def _import_transformers() -> Any:
    return imported("transformers", "models of hf:", "hf")


def _load(auto: Any, name: str, **options: Any) -> Any:
    rule = f"model {HF_PREFIX}{name} must be a folder that save_pretrained wrote, or a name on the hub within reach"
    is_path = name.startswith((".", "/", "~")) or name.count("/") > 1
    if not Path(name).is_dir() and (is_path or not hub_has(name, ["config.json"])):
        raise StorageError(f"{rule}; got neither. Check the path.", code="model-not-found")
    logging = _import_transformers().utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()  # warn_new_head says what it would say of a new head
    try:
        return auto.from_pretrained(name, **options)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise StorageError(f"{rule}; got {reason!r}. Check the path.", code="model-not-found") from error
    finally:
        logging.set_verbosity(level)
