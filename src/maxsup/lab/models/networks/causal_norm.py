r"""The causal-norm classifier: normalised heads, from which the effect of the mean feature is removed at test time.

**Formula.** Features and class weights are cut into ``num_heads`` parts. With ``x`` a part of the features, ``w`` the
same part of a class weight and ``c`` the direction of the mean feature in that part:

.. math:: z = \frac{\tau}{H} \sum_{h=1}^{H} \frac{w_h^T}{\lVert w_h \rVert + \gamma}
   \left( \frac{x_h}{\lVert x_h \rVert} - s \cos(x_h, c_h) \, c_h \right)

Training leaves the second term out; the mean is a moving sum ``0.9 m + batch mean`` (only its direction matters).
**Defaults** two heads, tau 16, gamma 1/32, s 1: the values behind the long-tail table, so ``|z| < 16`` in training.
**Source.** Tang et al. 2020. The long-tail results of the MaxSup paper use it for every loss without saying so.
**Interacts with** gradient accumulation: the mean moves once a forward pass, not once an update. Across processes the
mean is that of the global batch.
"""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from maxsup.core.checks import check_number


def causal_norm_logits(
    features: Tensor,
    weight: Tensor,
    mean: Tensor | None = None,
    *,
    num_heads: int = 2,
    tau: float = 16.0,
    gamma: float = 1 / 32,
    strength: float = 1.0,
) -> Tensor:
    """Logits of normalised ``features (..., D)`` and ``weight (K, D)``, less the part along ``mean (D,)`` if given.

    ``D`` is cut into ``num_heads`` parts, which share ``tau``, the scale of the logits. ``gamma`` is added to the norm
    of a weight, which therefore still matters a little. ``strength`` is how much of the part along the mean is removed;
    a part of the mean that is zero removes nothing.

    Example:
        >>> features, weight = torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> causal_norm_logits(features, weight, num_heads=1, tau=1.0, gamma=0.0)
        tensor([[0.6000, 0.8000]])
        >>> causal_norm_logits(features, weight, torch.tensor([9.0, 0.0]), num_heads=1, tau=1.0, gamma=0.0)
        tensor([[0.0000, 0.8000]])
    """
    parts = F.normalize(features.unflatten(-1, (num_heads, -1)), dim=-1)
    weights = weight.unflatten(-1, (num_heads, -1))
    weights = weights / (weights.norm(dim=-1, keepdim=True) + gamma)
    if mean is not None:
        direction = F.normalize(mean.unflatten(-1, (num_heads, -1)), dim=-1).to(parts.dtype)
        parts = parts - strength * (parts * direction).sum(dim=-1, keepdim=True) * direction
    return F.linear(parts.flatten(start_dim=-2), weights.flatten(start_dim=-2)) * (tau / num_heads)


class CausalNormHead(nn.Module):
    """Linear head with causal normalisation, which learns the mean feature as it trains.

    Features of two dimensions are images and move the mean in ``train()`` mode; those of more dimensions are positions
    of feature maps and leave it alone.
    """

    mean: Tensor

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        num_heads: int = 2,
        tau: float = 16.0,
        gamma: float = 1 / 32,
        strength: float = 1.0,
        momentum: float = 0.9,
    ) -> None:
        super().__init__()
        if num_features % num_heads:
            raise ValueError(
                f"num_features must be a multiple of num_heads={num_heads}; got {num_features}. "
                "Choose widths that can be cut into heads, or classifier='linear'."
            )
        check_number("tau", tau, above=True)
        check_number("gamma", gamma)
        check_number("strength", strength)
        check_number("momentum", momentum, high=1.0)
        self.momentum = momentum
        self.num_heads, self.tau, self.gamma, self.strength = num_heads, tau, gamma, strength
        bound = 1 / math.sqrt(num_features)
        self.weight = nn.Parameter(torch.empty(num_classes, num_features).uniform_(-bound, bound))
        self.register_buffer("mean", torch.zeros(num_features))

    def forward(self, features: Tensor) -> Tensor:
        """Logits ``(..., K)``; only in ``eval()`` mode is the effect of the mean removed."""
        if self.training and features.ndim == 2:
            self._observe(features.detach())
        mean = None if self.training else self.mean
        options = {"tau": self.tau, "gamma": self.gamma, "strength": self.strength}
        return causal_norm_logits(features, self.weight, mean, num_heads=self.num_heads, **options)

    def extra_repr(self) -> str:
        """The options, as ``print(model)`` shows them."""
        num_classes, num_features = self.weight.shape
        return f"{num_features}, {num_classes}, num_heads={self.num_heads}, tau={self.tau}, strength={self.strength}"

    @torch.no_grad()
    def _observe(self, features: Tensor) -> None:
        total = torch.cat([features.sum(dim=0).to(self.mean.dtype), self.mean.new_tensor([len(features)])])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(total)
        self.mean.mul_(self.momentum).add_(total[:-1] / total[-1])
