"""Out-of-distribution detection: do scores of a classifier tell its own kind of images from others?

Four scores, each higher for images like those of training: the top probability (Hendrycks and Gimpel 2017), the top
logit (Hendrycks et al. 2022), the negative energy ``log sum exp z`` (Liu et al. 2020), and the negative distance to the
k-th nearest training feature, all features scaled to unit length (Sun et al. 2022).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from maxsup.metrics.predictions import FEATURE_ELEMENTS, check_count, check_matrix, check_samples, checked_confidence

NUM_NEIGHBOURS = 50

SCORES = ("max_probability", "max_logit", "energy", "knn")


class Detection(NamedTuple):
    """How well a score separates two sets.

    Attributes:
        auroc: Chance that a sample of the known kind has the higher score; a tie counts half.
        fpr95: Share of the known samples that are rejected when 95 % of the others are, as in OpenOOD.
    """

    auroc: float
    fpr95: float


def novelty_scores(logits: Tensor) -> dict[str, Tensor]:
    """Return top probability, top logit and negative energy of logits ``(N, K)``, in float64.

    Example:
        >>> {name: round(float(score), 3) for name, score in novelty_scores(torch.tensor([[1.0, 1.0]])).items()}
        {'max_probability': 0.5, 'max_logit': 1.0, 'energy': 1.693}
    """
    check_matrix("logits", logits, "(samples, classes)")
    rows = logits.detach().cpu().double()
    top = rows.max(dim=1).values
    energy = rows.logsumexp(dim=1)
    return {"max_probability": (top - energy).exp(), "max_logit": top, "energy": energy}


@torch.no_grad()
def neighbour_score(train_features: Tensor, features: Tensor, k: int = NUM_NEIGHBOURS) -> Tensor:
    """Return the negative distance of features ``(N, D)`` to the ``k``-th nearest of ``train_features (M, D)``.

    Example:
        >>> neighbour_score(torch.eye(2), torch.tensor([[3.0, 0.0]]), k=2)
        tensor([-1.4142], dtype=torch.float64)
    """
    check_matrix("train_features", train_features, "(samples, dimensions)")
    check_matrix("features", features, "(samples, dimensions)")
    check_count("k", k, usual=NUM_NEIGHBOURS)
    if k > len(train_features) or features.shape[1] != train_features.shape[1]:
        raise ValueError(
            f"train_features must be at least k={k} rows of width {features.shape[1]}; got shape "
            f"{tuple(train_features.shape)}. Give features of the same layer, or a smaller k."
        )
    train = F.normalize(train_features.detach().cpu().double(), dim=1)
    parts = F.normalize(features.detach().cpu().double(), dim=1).split(max(1, FEATURE_ELEMENTS // len(train)))
    # Of unit vectors the squared distance is 2 - 2 cos.
    cosines = [(part @ train.T).topk(k, dim=1).values[:, -1] for part in parts]
    return -(2.0 - 2.0 * torch.cat(cosines)).clamp(min=0.0).sqrt()


def detection(known: Tensor, others: Tensor) -> Detection:
    """Return how well scores ``(N,)`` of known samples stand above those of others ``(M,)``.

    Example:
        >>> detection(torch.tensor([0.9, 0.8, 0.4]), torch.tensor([0.5, 0.1]))
        Detection(auroc=0.8333333333333334, fpr95=0.3333333333333333)
    """
    check_samples("known", known)
    check_samples("others", others)
    known = checked_confidence(known, len(known)).sort().values
    others = checked_confidence(others, len(others)).sort().values
    below = torch.searchsorted(others, known) + torch.searchsorted(others, known, right=True)
    auroc = float(below.double().mean()) / (2 * len(others))
    threshold = others[math.ceil(0.95 * len(others) - 1e-9) - 1]
    return Detection(auroc, float((known <= threshold).double().mean()))
