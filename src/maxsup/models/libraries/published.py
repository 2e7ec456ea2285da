"""Whether published weights can be had here, found out without the minute of retries that a download takes to fail."""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from pathlib import Path

from maxsup.models.base import MODELS
from maxsup.models.libraries.timm_models import import_timm

SECONDS = 3.0
"""How long the hub may take to answer."""

_FILES = ("model.safetensors", "pytorch_model.bin")


def has_weights_here(name: str) -> bool:
    """Whether the published weights of a model are on this machine, or the place they are published at answers.

    None of our own models has any.
    """
    if name in MODELS:
        return False
    import torch

    config = import_timm().get_pretrained_cfg(name.removeprefix("timm:"))
    if config is None or not config.has_weights:
        return False
    if config.url and (Path(torch.hub.get_dir()) / "checkpoints" / config.url.rpartition("/")[2]).is_file():
        return True
    return hub_has(config.hf_hub_id, _FILES)


def hub_has(repository: str | None, files: Sequence[str]) -> bool:
    """Whether one of these files of a repository is in the cache of the hub, or the hub answers."""
    from huggingface_hub import constants, try_to_load_from_cache

    if repository and any(
        isinstance(try_to_load_from_cache(repository, file, constants.HF_HUB_CACHE), str) for file in files
    ):
        return True
    return not constants.HF_HUB_OFFLINE and _answers(constants.ENDPOINT)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=SECONDS):
            return True
    except (OSError, ValueError):
        return False
