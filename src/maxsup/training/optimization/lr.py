"""The learning rate as a function of position alone: nothing to save, nothing to restore."""

from __future__ import annotations

import math

from maxsup.core.config import OptimizerConfig, ScheduleConfig


def learning_rate(
    optimizer: OptimizerConfig,
    schedule: ScheduleConfig,
    num_epochs: int,
    epoch: int,
    share: float,
    steps_per_epoch: int | None = None,
) -> float:
    """The rate at a point of training: ``share`` of the 0-based ``epoch`` is done, from 0 to below 1.

    With ``interval="step"`` it changes inside an epoch. With ``interval="epoch"`` it is constant there, and an epoch of
    the warm-up already has the value that its end stands for. Decays by cosine or line begin where the warm-up ends.
    ``steps_per_epoch`` is given where training is counted in iterations, as a warm-up then may be.

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
    left = max(num_epochs - warmup, 1e-9)
    done = min((position - warmup) / left, 1.0)
    if schedule.name == "cosine":
        return schedule.final_lr + (optimizer.lr - schedule.final_lr) * (1.0 + math.cos(math.pi * done)) / 2.0
    if schedule.name in ("linear", "polynomial"):
        return schedule.final_lr + (optimizer.lr - schedule.final_lr) * (1.0 - done) ** schedule.power
    if schedule.name == "step":
        return optimizer.lr * schedule.gamma ** (epoch // schedule.step_size)
    passed = sum(epoch >= milestone for milestone in schedule.milestones)
    return optimizer.lr * schedule.gamma**passed
