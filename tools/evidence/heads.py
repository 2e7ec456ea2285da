"""Classifiers on frozen features, many seeds at once: capacity alone decides how many training errors stay.

A seed fixes the projection, the initial weights and the order of samples, whatever the loss is. Seeds are trained
side by side as one batched product, and their losses add up, so that no seed sees another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from maxsup.losses import RegularizedLoss
from tools.evidence.features import FeatureSet, Part

EPOCHS = 20
BATCH_SIZE = 64
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4


@dataclass(frozen=True)
class Head:
    """A linear head on ``width`` random projections (0: on all features), or one hidden layer of ``width`` units."""

    kind: str
    width: int

    @property
    def name(self) -> str:
        """How files and tables call it."""
        return f"{self.kind}-{self.width or 'all'}"


@dataclass(frozen=True)
class HeadOutputs:
    """Logits ``(S, N, K)`` of every seed at the end, and its training accuracy ``(S, EPOCHS)`` while training."""

    train: Tensor
    val: Tensor
    test: Tensor
    curve: Tensor


def train_heads(
    data: FeatureSet, head: Head, criterion: RegularizedLoss, lr: float, seeds: Sequence[int]
) -> HeadOutputs:
    """Train one head for every seed with SGD on a cosine, and return what they say about the three splits."""
    weights = _initial(data, head, seeds)
    projection = _projection(data, head, seeds)
    inputs = [_projected(part.features, projection) for part in (data.train, data.val, data.test)]
    train, labels = inputs[0], data.train.labels
    num_samples = len(labels)
    orders = [torch.Generator().manual_seed(seed) for seed in seeds]
    optimizer = torch.optim.SGD(weights, lr=lr, momentum=MOMENTUM, nesterov=True, weight_decay=WEIGHT_DECAY)
    num_steps = -(-num_samples // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * num_steps)
    criterion.train()
    rows = torch.arange(len(seeds))[:, None]
    curve = torch.zeros(len(seeds), EPOCHS)
    for epoch in range(EPOCHS):
        order = torch.stack([torch.randperm(num_samples, generator=generator) for generator in orders])
        for indices in order.split(BATCH_SIZE, dim=1):
            batch = train[indices] if train.dim() == 2 else train[rows, indices]
            logits, targets = _logits(batch, weights), labels[indices]
            # The mean over seeds and samples, times the seeds: each seed has the gradient that it has alone.
            loss = criterion(logits.flatten(0, 1), targets.flatten()) * len(seeds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            curve[:, epoch] += (logits.detach().argmax(2) == targets).float().sum(1) / num_samples
    with torch.no_grad():
        outputs = [_logits(part, weights) for part in inputs]
    return HeadOutputs(*outputs, curve)


def _projection(data: FeatureSet, head: Head, seeds: Sequence[int]) -> Tensor | None:
    """Random directions ``(S, D, width)`` that keep the scale of standardised features."""
    if head.kind != "linear" or not head.width:
        return None
    size = data.train.features.shape[1]
    drawn = [torch.randn(size, head.width, generator=torch.Generator().manual_seed(10_000 + seed)) for seed in seeds]
    return torch.stack(drawn) / size**0.5


def _projected(features: Tensor, projection: Tensor | None) -> Tensor:
    return features if projection is None else features @ projection


def _initial(data: FeatureSet, head: Head, seeds: Sequence[int]) -> list[Tensor]:
    """Weights and biases of every layer, ``(S, in, out)`` and ``(S, 1, out)``."""
    size, num_classes = data.train.features.shape[1], data.num_classes
    sizes = [head.width or size, num_classes] if head.kind == "linear" else [size, head.width, num_classes]
    drawn: list[list[Tensor]] = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(20_000 + seed)
        drawn.append(
            [torch.randn(before, after, generator=generator) / before**0.5 for before, after in pairwise(sizes)]
        )
    weights = [torch.stack(layer) for layer in zip(*drawn, strict=True)]
    weights[-1] *= 0.1  # predictions start uncertain
    biases = [torch.zeros(len(seeds), 1, layer.shape[-1]) for layer in weights]
    return [tensor.requires_grad_() for pair in zip(weights, biases, strict=True) for tensor in pair]


def _logits(inputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """``(S, B, K)`` from ``(S, B, D)``, or from ``(N, D)`` that all seeds share."""
    hidden = inputs
    for layer, (weight, bias) in enumerate(zip(weights[::2], weights[1::2], strict=True)):
        hidden = (hidden.relu() if layer else hidden) @ weight + bias
    return hidden


def training_error(outputs: Tensor, part: Part) -> Tensor:
    """Share of wrong predictions of every seed."""
    return (outputs.argmax(-1) != part.labels).float().mean(-1)
