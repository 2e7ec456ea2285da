"""Optimisers, and which parameters decay."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from maxsup.core.config import OptimizerConfig


def create_optimizer(model: nn.Module, config: OptimizerConfig) -> Optimizer:
    """The optimiser over the parameters that train, in a group that decays and a group that does not."""
    groups = [
        {"params": [parameter for _, parameter in named], "weight_decay": decay}
        for named, decay in zip(split_by_decay(model, config.decay_filter), (config.weight_decay, 0.0), strict=True)
        if named
    ]
    if config.name == "adamw":
        device = next(model.parameters()).device.type
        # Fused: a quarter of the time on a CPU too. Its kernels want one memory format, which restoring keeps.
        return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, fused=device in {"cpu", "cuda"})
    return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov, foreach=True)


def split_by_decay(
    model: nn.Module, decay_filter: str
) -> tuple[list[tuple[str, nn.Parameter]], list[tuple[str, nn.Parameter]]]:
    """Named parameters that decay, and those that do not.

    ``weights`` leaves out biases, norms and what the model itself lists in ``no_weight_decay()`` (position embeddings);
    ``norms`` leaves out the last two only.
    ``paper_names`` is the rule of the published ImageNet code: a name with ``bn`` or ``bias`` in it does not decay,
    which forgets the norms of shortcut branches and all of MobileNetV2's.

    Example:
        >>> decayed, spared = split_by_decay(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), "weights")
        >>> [name for name, _ in decayed], [name for name, _ in spared]
        (['0.weight'], ['0.bias', '1.weight', '1.bias'])
    """
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    listed = {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if callable(getattr(module, "no_weight_decay", None))
        for name in module.no_weight_decay()
    }

    in_norms = {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if isinstance(module, nn.LayerNorm | nn.GroupNorm | nn.modules.batchnorm._NormBase)
        for name, _ in module.named_parameters(recurse=False)
    }

    def decays(name: str, parameter: nn.Parameter) -> bool:
        if decay_filter == "weights":
            return parameter.ndim > 1 and name not in listed
        if decay_filter == "norms":
            return name not in in_norms and name not in listed
        return decay_filter == "all" or not ("bn" in name or "bias" in name)

    return [item for item in named if decays(*item)], [item for item in named if not decays(*item)]
