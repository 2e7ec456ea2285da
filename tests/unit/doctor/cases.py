"""Batches for the doctor, a Mixup it knows, and short forms of what it says."""

from __future__ import annotations

import torch
from torch import Tensor

from maxsup.doctor import Finding


def made_logits(num_rows: int = 8, num_classes: int = 10) -> Tensor:
    return 3 * torch.randn(num_rows, num_classes)


def made_labels(num_rows: int = 8, num_classes: int = 10) -> Tensor:
    return torch.arange(num_rows) % num_classes


def smoothed(labels: Tensor, num_classes: int, floor: float) -> Tensor:
    """One-hot targets lifted to a floor, as both conventions make them."""
    return torch.full((len(labels), num_classes), floor).scatter(1, labels[:, None], 1 - (num_classes - 1) * floor)


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    return finding


def names(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.topic, finding.level) for finding in findings]


class Mixup:
    """As timm's to the doctor, without the seconds that importing timm takes."""

    def __init__(self, label_smoothing: float = 0.1) -> None:
        self.label_smoothing = label_smoothing
        self.num_classes = 10
