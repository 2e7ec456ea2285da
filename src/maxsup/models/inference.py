"""A network that is asked, not trained: its mode and its precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """``eval()`` inside, and every module back in the mode it had afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Mixed precision on a device, or none."""
    dtype = _PRECISIONS.get(precision)
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)
