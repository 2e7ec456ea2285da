"""Mode and precision of a network in evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every module is back in the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Autocast to ``precision`` on a device; off for float32."""
    dtype = _PRECISIONS.get(precision)
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)
