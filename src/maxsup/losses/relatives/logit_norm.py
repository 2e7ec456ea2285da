"""Logit Normalisation: train on logits of a fixed length, so that confidence cannot grow with their norm.

**Formula.** ``CE(z / (tau (||z|| + 1e-7)), y)``.
**Use it** as a comparison; it was made for out-of-distribution detection, not for accuracy.
**Default** ``tau=0.04``. The authors' command line says 1.0, their released checkpoints 0.01, their later port 0.04;
the paper says "default". At ``tau=1`` and K=1000 the loss cannot fall below 5.9.
**Source.** Wei et al. 2022. In evaluation the raw logits are used, which ``eval()`` does.
**Interacts with** mixup: plain soft cross-entropy on the normalised logits. Class weights and ignored targets as in CE.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_number
from maxsup.losses.base import LOSSES, RegularizedLoss, Strength, named_strength
from maxsup.losses.reduction import LossOptions, ReductionOptions, check_strength, reduced_loss

NORM_OFFSET = 1e-7


def logit_norm_cross_entropy(
    input: Tensor, target: Tensor, tau: float | Tensor = 0.04, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy of normalised logits.

    .. math:: H\Bigl(y, \mathrm{softmax}\Bigl(\frac{z}{\tau (\lVert z \rVert_2 + 10^{-7})}\Bigr)\Bigr)

    Example:
        >>> logit_norm_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(10.0000)
    """
    check_strength("tau", tau, above=True)

    def terms(rows: Tensor, target: Tensor) -> tuple[Tensor, None]:
        masked = rows == -math.inf
        present = rows.masked_fill(masked, 0.0)
        norm = torch.linalg.vector_norm(present, dim=-1, keepdim=True)
        normalised = present / (tau * (norm + NORM_OFFSET))
        return -F.log_softmax(normalised.masked_fill(masked, -math.inf), dim=-1), None

    return reduced_loss(input, target, terms, **options)


@LOSSES.register(
    "logit_norm",
    summary="cross-entropy of normalised logits",
    formula="CE(z / (tau (||z|| + 1e-7)))",
    source="Wei et al. 2022",
)
class LogitNormLoss(RegularizedLoss):
    r"""Cross-entropy of logits that are scaled to a fixed norm (LogitNorm).

    .. math:: H\Bigl(y, \mathrm{softmax}\Bigl(\frac{z}{\tau (\lVert z \rVert_2 + 10^{-7})}\Bigr)\Bigr)

    Args:
        tau: Temperature; the normalised logits have norm ``1 / tau``, or a schedule such as ``Linear(0.1, 0.2)`` that
            ``set_progress`` advances.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Wei et al., "Mitigating Neural Network Overconfidence with Logit Normalization", ICML 2022.

    Example:
        >>> criterion = LogitNormLoss(tau=0.04)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(10.0000)
    """

    function = staticmethod(logit_norm_cross_entropy)
    strength = "tau"
    tau = named_strength()

    def __init__(self, tau: Strength = 0.04, **options: Unpack[LossOptions]) -> None:
        super().__init__(tau, **options)

    def _check_strength(self, value: Any) -> None:
        check_number("tau", value, above=True)
