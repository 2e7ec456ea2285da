"""All penalties in closed form, with their gradients; the formula of each stands beside its loss."""

from __future__ import annotations

import torch
from torch import Tensor

from maxsup.core.checks import LARGEST
from maxsup.losses.computing.blocks import first_index
from maxsup.losses.computing.closed_form import (
    Block,
    Factor,
    FusedPenalty,
    add_at,
    add_one,
    probabilities,
    target_logit,
)

# Its strength is always 0, where the kernels of any penalty serve it.
NO_PENALTY = FusedPenalty(
    value=lambda block: torch.zeros_like(block.top),
    add_gradient=lambda block, value, grad, push: None,
    is_centred=True,
    kernel="maxsup",
    on_shards="none",
)


def _raise_top(signed: Tensor, logits: Tensor, target: Tensor, alpha: float) -> None:
    """Make the paper's own form (``app:grad``) of a signed target: add alpha at the top class."""
    add_one(signed, 1, first_index(logits, 1), alpha)


def _few_calls(surprise: Tensor, block: Block, label_logits: Tensor, alpha: float) -> Tensor:
    """``-log q_max + (1 + alpha) z_max - z_gt - alpha mean z``, which is cross-entropy and penalty."""
    return torch.add(surprise, block.top, alpha=1.0 + alpha).sub_(label_logits).sub_(block.mean, alpha=alpha)


MAXSUP = FusedPenalty(
    value=lambda block: block.top - block.mean,
    add_gradient=lambda block, value, grad, push: add_at(grad, block.axis, block.top_index, push),
    is_centred=True,
    signed=_raise_top,
    few_calls=_few_calls,
    kernel="maxsup",
    on_shards="maxsup",
)


def _target_gap(block: Block) -> Tensor:
    gap = target_logit(block) - block.mean
    # The offset cancels unless probabilities do not sum to 1.
    return gap if not isinstance(block.mass, Tensor) else gap + (block.mass - 1) * block.offset


def _add_target(block: Block, value: Tensor, grad: Tensor, push: Factor) -> None:
    if block.target.is_floating_point():
        grad.add_(block.target * push)
    else:
        add_at(grad, block.axis, block.target, push)


def _raise_target(signed: Tensor, logits: Tensor, target: Tensor, alpha: float) -> None:
    if target.is_floating_point():
        signed.add_(target, alpha=alpha)
    else:
        add_one(signed, 1, target, alpha)


LABEL_SMOOTHING = FusedPenalty(
    value=_target_gap,
    add_gradient=_add_target,
    is_centred=True,
    signed=_raise_target,
    kernel="ls",
    on_shards="ls",
)


def beyond_margin(margin: float) -> FusedPenalty:
    """Mean distance below the top beyond a margin; without a margin that is MaxSup."""
    if margin == 0:
        return MAXSUP

    def excess(block: Block) -> Tensor:
        beyond = (block.top - block.logits).sub_(margin).clamp_(min=0)
        return beyond if block.masked is None else beyond.masked_fill_(block.masked, 0.0)

    def add_gradient(block: Block, value: Tensor, grad: Tensor, push: Factor) -> None:
        is_open = (excess(block) > 0).to(grad.dtype)
        each = push / block.num_present
        add_at(grad, block.axis, block.top_index, is_open.sum(block.axis, keepdim=True) * each)
        grad.sub_(is_open.mul_(each))

    return FusedPenalty(
        value=lambda block: excess(block).sum(block.axis, keepdim=True) / block.num_present,
        add_gradient=add_gradient,
        is_centred=False,
        kernel="mbls",
        on_shards="mbls",
        margin=margin,
    )


def _add_logits(block: Block, value: Tensor, grad: Tensor, push: Factor) -> None:
    grad.add_(block.logits * push)


LOGIT_PENALTY = FusedPenalty(
    value=lambda block: block.logits.square().sum(block.axis, keepdim=True) / 2,
    add_gradient=_add_logits,
    is_centred=False,
    is_invariant=False,
    on_shards="logit_penalty",
)


def _log_probabilities(block: Block) -> Tensor:
    # Where the probability is 0, its logarithm must be finite.
    return (block.logits - block.log_norm).clamp_(min=-LARGEST)


def _negative_entropy(block: Block) -> Tensor:
    return _log_probabilities(block).mul_(probabilities(block)).sum(block.axis, keepdim=True)


def _add_entropy_gradient(block: Block, value: Tensor, grad: Tensor, push: Factor) -> None:
    grad.add_(_log_probabilities(block).sub_(value).mul_(probabilities(block)).mul_(push))


CONFIDENCE_PENALTY = FusedPenalty(_negative_entropy, _add_entropy_gradient, is_centred=False)


def _doubt(block: Block) -> Tensor:
    if block.target.is_floating_point():
        return 1 - (block.target * probabilities(block)).sum(block.axis, keepdim=True)
    return 1 - probabilities(block).gather(block.axis, block.target)


def _add_doubt_gradient(block: Block, value: Tensor, grad: Tensor, push: Factor) -> None:
    probs, certain = probabilities(block), (1 - value) * push
    grad.add_(probs * certain)
    if block.target.is_floating_point():
        grad.sub_(probs * block.target * push)
    else:
        add_at(grad, block.axis, block.target, -certain)


POLY1 = FusedPenalty(_doubt, _add_doubt_gradient, is_centred=False)
