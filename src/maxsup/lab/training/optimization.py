"""Learning rate, optimiser and moving average of the weights."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from maxsup.lab.core.config import OptimizerConfig, ScheduleConfig

Named = list[tuple[str, nn.Parameter]]

FUSED = {"cpu", "cuda"}
"""Devices whose optimisers take a step in one kernel."""


def learning_rate(
    optimizer: OptimizerConfig,
    schedule: ScheduleConfig,
    num_epochs: int,
    epoch: int,
    share: float,
    steps_per_epoch: int | None = None,
) -> float:
    """Return the rate after ``share`` (below 1) of the 0-based ``epoch``; it depends on nothing that is saved.

    With ``interval="epoch"`` it is constant in an epoch, and an epoch of the warm-up has the rate of its end. Cosine
    and linear decays begin where the warm-up ends. ``steps_per_epoch`` is given if training is counted in iterations.

    Example:
        >>> form = ScheduleConfig(name="multistep", milestones=(60, 120), gamma=0.2, warmup_epochs=1)
        >>> [round(learning_rate(OptimizerConfig(lr=0.1), form, 200, *at), 6) for at in [(0, 0.5), (59, 0.9), (60, 0)]]
        [0.05, 0.1, 0.02]
    """
    by_epoch = schedule.interval == "epoch"
    position = epoch + (0.0 if by_epoch else share)
    warmup = schedule.warmup_epochs + (schedule.warmup_iterations / steps_per_epoch if steps_per_epoch else 0.0)
    if position < warmup:
        done = min((position + by_epoch) / warmup, 1.0)
        return optimizer.lr * (schedule.warmup_start + (1.0 - schedule.warmup_start) * done)
    done = min((position - warmup) / max(num_epochs - warmup, 1e-9), 1.0)
    if schedule.name == "cosine":
        return schedule.final_lr + (optimizer.lr - schedule.final_lr) * (1.0 + math.cos(math.pi * done)) / 2.0
    if schedule.name in ("linear", "polynomial"):
        return schedule.final_lr + (optimizer.lr - schedule.final_lr) * (1.0 - done) ** schedule.power
    if schedule.name == "step":
        return optimizer.lr * schedule.gamma ** (epoch // schedule.step_size)
    return optimizer.lr * schedule.gamma ** sum(epoch >= milestone for milestone in schedule.milestones)


def create_optimizer(model: nn.Module, config: OptimizerConfig) -> Optimizer:
    """Create the optimiser of all parameters that train, with one group that decays and one that does not."""
    groups = [
        {"params": [parameter for _, parameter in named], "weight_decay": decay}
        for named, decay in zip(split_by_decay(model, config.decay_filter), (config.weight_decay, 0.0), strict=True)
        if named
    ]
    device = next(model.parameters()).device.type
    if config.name == "adamw":
        # Fused takes a quarter of the time, on a CPU too. Its kernels need one memory format, which restoring keeps.
        return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, fused=device in FUSED)
    # On a CPU the fused kernel of SGD rounds differently, and gains nothing.
    kernels = {"fused": True} if device in FUSED - {"cpu"} else {"foreach": True}
    return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov, **kernels)


def take_step(stepper: Any, optimizer: Optimizer, is_broken: Tensor) -> bool:
    """Step, unless training is broken; return whether the host took it for a step.

    A fused optimiser on a device looks for itself, as it does for a gradient scaler, and the host does not wait. To
    look at memory of its own is no wait either.
    """
    if optimizer.defaults.get("fused") and is_broken.device.type != "cpu":
        optimizer.found_inf = is_broken.float()  # type: ignore[attr-defined]
    elif is_broken:
        return False
    stepper.step()
    return True


def split_by_decay(model: nn.Module, decay_filter: str) -> tuple[Named, Named]:
    """Split the named parameters into those that decay and those that do not.

    ``weights`` excludes biases, norms and all that the model lists in ``no_weight_decay()`` (position embeddings);
    ``norms`` excludes only the last two. ``paper_names`` is the rule of the published ImageNet code: a name with ``bn``
    or ``bias`` in it does not decay, which misses the norms of shortcut branches and all those of MobileNetV2.

    Example:
        >>> decayed, spared = split_by_decay(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), "weights")
        >>> [name for name, _ in decayed], [name for name, _ in spared]
        (['0.weight'], ['0.bias', '1.weight', '1.bias'])
    """
    listed, in_norms = set[str](), set[str]()
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        if callable(method := getattr(module, "no_weight_decay", None)):
            listed |= {prefix + name for name in method()}
        if isinstance(module, nn.LayerNorm | nn.GroupNorm | nn.modules.batchnorm._NormBase):
            in_norms |= {prefix + name for name in module._parameters}

    def decays(name: str, parameter: nn.Parameter) -> bool:
        if decay_filter == "weights":
            return parameter.ndim > 1 and name not in listed
        if decay_filter == "norms":
            return name not in in_norms and name not in listed
        return decay_filter == "all" or not ("bn" in name or "bias" in name)

    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    return [item for item in named if decays(*item)], [item for item in named if not decays(*item)]


class MovingAverage:
    """Keeps ``average <- decay * average + (1 - decay) * weights``, running statistics included.

    It starts as a copy of ``model``. ``torch.optim.swa_utils.AveragedModel`` does not fit: its first update copies the
    weights, and it wraps the model, so that its state has other names than a checkpoint.

    Example:
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> average = MovingAverage(layer, decay=0.9)
        >>> _ = nn.init.ones_(layer.weight)
        >>> average.update(layer)
        >>> average.model.weight.item()
        0.100...
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Average in the current weights; integer counters are copied."""
        pairs = list(zip(self.model.state_dict().values(), model.state_dict().values(), strict=True))
        averages, weights = zip(*(pair for pair in pairs if pair[0].is_floating_point()), strict=True)
        torch._foreach_lerp_(averages, weights, 1.0 - self.decay)
        for average, weight in pairs:
            if not average.is_floating_point():
                average.copy_(weight)
