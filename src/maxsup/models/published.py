"""Whether published weights can be had here, found out without the minute of retries that a download takes to fail."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from maxsup.models.base import MODELS
from maxsup.models.timm_models import import_timm

SECONDS = 3.0
"""How long the hub may take to answer."""

_FILES = ("model.safetensors", "pytorch_model.bin")


def has_weights_here(name: str) -> bool:
    """Whether the published weights of a model are on this machine, or the place they are published at answers.

    Args:
        name: As in :func:`~maxsup.models.create_model`; none of our own models has any.
    """
    if name in MODELS:
        return False
    import torch
    from huggingface_hub import constants, try_to_load_from_cache

    config = import_timm().get_pretrained_cfg(name.removeprefix("timm:"))
    if config is None or not config.has_weights:
        return False
    if config.hf_hub_id and any(
        isinstance(try_to_load_from_cache(config.hf_hub_id, file, constants.HF_HUB_CACHE), str) for file in _FILES
    ):
        return True
    if config.url and (Path(torch.hub.get_dir()) / "checkpoints" / config.url.rpartition("/")[2]).is_file():
        return True
    return not constants.HF_HUB_OFFLINE and _answers(constants.ENDPOINT)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=SECONDS):
            return True
    except (OSError, ValueError):
        return False
