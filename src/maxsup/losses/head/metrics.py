"""Token accuracy and entropy of a linear head, from the pass that computes the loss."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.losses.computing.closed_form import Block, working_dtype

NUM_MEASURES = 3


class HeadMetrics(NamedTuple):
    """Sums over the rows that count, so that those of micro-batches and processes can be added up.

    Attributes:
        num_counted: Number of rows that are not ignored.
        num_correct: Rows whose first largest logit is that of their label.
        entropy_sum: Sum of the entropies of the predictions, in nats.
        z_loss_sum: Sum of ``(log sum_k exp z_k)^2``, without any factor.
    """

    num_counted: Tensor
    num_correct: Tensor
    entropy_sum: Tensor
    z_loss_sum: Tensor

    @property
    def accuracy(self) -> Tensor:
        """Share of correct rows; ``nan`` where none counts."""
        return self.num_correct / self.num_counted

    @property
    def entropy(self) -> Tensor:
        """Mean entropy."""
        return self.entropy_sum / self.num_counted

    @property
    def z_loss(self) -> Tensor:
        """Mean of ``(log sum_k exp z_k)^2``."""
        return self.z_loss_sum / self.num_counted

    @classmethod
    def of(cls, measures: Tensor, valid: Tensor) -> HeadMetrics:
        """The sums of ``measures`` of all rows."""
        return cls(valid.sum(), *measures.where(valid, 0).sum(1).unbind())


def write_measures(out: Tensor, top_index: Tensor, labels: Tensor, entropy: Tensor, log_norm: Tensor) -> None:
    """Write what is measured of some rows, whose values have shape ``(R, 1)``, to ``out``."""
    out[0] = (top_index == labels).squeeze(1)
    out[1] = entropy.squeeze(1)
    out[2] = log_norm.square().squeeze(1)


def write_measures_of_block(out: Tensor, block: Block) -> None:
    """The same of a block whose statistics are known; its logits are not masked where they are 0."""
    # A product of vectors, because all products of probabilities and logits at once would take their memory again.
    expected = torch.bmm(block.exponentials.unsqueeze(1), block.logits.unsqueeze(2)).squeeze(2)
    write_measures(out, block.top_index, block.target, block.log_norm - expected, block.log_norm + block.offset)


@torch.no_grad()
def measures_of_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """The same of rows of logits alone."""
    out = torch.empty(NUM_MEASURES, len(logits), dtype=working_dtype(logits), device=logits.device)
    rows = logits.detach().to(out.dtype)
    log_norm = rows.logsumexp(1, keepdim=True)
    expected = (rows - log_norm).exp().mul_(rows.masked_fill(rows == -math.inf, 0.0)).sum(1, keepdim=True)
    write_measures(out, rows.argmax(1, keepdim=True), labels.unsqueeze(1), log_norm - expected, log_norm)
    return out
