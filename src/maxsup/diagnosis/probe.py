"""Probe frozen features with multinomial logistic regression or nearest neighbours.

The linear probe follows Kornblith et al. (2019): of 45 penalties from 1e-6 to 1e5, choose the best on validation data
and refit on training and validation data together. Features are not standardised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from maxsup.diagnosis.logistic import MAX_STEPS, LogisticPath, Solution
from maxsup.metrics.predictions import check_matrix, labels_of_features, not_finite

DEFAULT_STRENGTHS = tuple(10.0 ** (-6.0 + 0.25 * index) for index in range(45))
"""From 1e-6 to 1e5, four per decade."""
BLOCK_ELEMENTS = 1 << 22  # similarities computed at a time


@dataclass(frozen=True)
class Probe:
    """A linear probe and the search for its strength.

    Attributes:
        strength: The chosen strength.
        strengths: All strengths tried, as given.
        accuracies: Validation accuracy of each strength.
        objectives: Training objective of each strength: ``sum CE + strength / 2 |W|^2`` at its minimum.
        weight: ``(classes, D)``, fitted on training and validation data.
        bias: ``(classes,)``; ``-inf`` for a class that occurs in neither.
    """

    strength: float
    strengths: tuple[float, ...]
    accuracies: tuple[float, ...]
    objectives: tuple[float, ...]
    weight: Tensor
    bias: Tensor

    def predict(self, features: Tensor) -> Tensor:
        """Return the predicted class of each row of features ``(N, D)``."""
        check_matrix("features", features, "(samples, dimensions)")
        _check_width("features", features, self.weight.shape[1])
        return _top_class(self.weight, self.bias, features.detach().cpu())

    def accuracy(self, features: Tensor, labels: Tensor) -> float:
        """Return the share of correct predictions. A class the probe was not fitted on is never correct."""
        labels = labels_of_features("features", features, labels)
        return float((self.predict(features) == labels).double().mean())


def fit_probe(
    train_features: Tensor,
    train_labels: Tensor,
    val_features: Tensor,
    val_labels: Tensor,
    strengths: Sequence[float] | None = None,
    *,
    max_steps: int = MAX_STEPS,
    on_step: Callable[[int, int], None] | None = None,
) -> Probe:
    """Fit a linear probe, with the strength that is best on validation data.

    The objective is ``sum CE + strength / 2 |W|^2`` with an unpenalised bias, so ``strength`` is ``1 / C`` of
    scikit-learn. Ties go to the strongest penalty. The final weights are fitted on training and validation data. A
    class that is missing from both is never predicted.

    Args:
        train_features: ``(N, D)``.
        train_labels: Class indices, ``(N,)``.
        val_features: ``(M, D)``.
        val_labels: Class indices, ``(M,)``.
        strengths: Penalties to try; by default 45 from 1e-6 to 1e5.
        max_steps: Largest number of solver steps per strength.
        on_step: Called after each strength with the number done and the number in all.

    Example:
        >>> x = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])
        >>> probe = fit_probe(x, torch.tensor([0, 0, 1, 1]), x, torch.tensor([0, 0, 1, 1]), strengths=[0.1, 1.0])
        >>> probe.strength, probe.accuracies, probe.predict(torch.tensor([[-0.5], [0.5]])).tolist()
        (1.0, (1.0, 1.0), [0, 1])
    """
    train_features, train_labels = _checked_samples("train", train_features, train_labels)
    val_features, val_labels = _checked_samples("val", val_features, val_labels)
    _check_width("val_features", val_features, train_features.shape[1])
    strengths = DEFAULT_STRENGTHS if strengths is None else tuple(strengths)
    if not strengths:
        raise ValueError("strengths must not be empty. Leave it out for the usual 45.")
    for strength in strengths:
        if isinstance(strength, bool) or not isinstance(strength, float | int) or not 0.0 < strength < math.inf:
            raise ValueError(f"strengths must be numbers above 0; got {strength!r}. Use 1e-6 for next to no penalty.")
    path = _ClassPath(train_features, train_labels, max_steps)
    accuracies, objectives = [0.0] * len(strengths), [0.0] * len(strengths)
    best: tuple[float, Solution] | None = None
    for done, index in enumerate(sorted(range(len(strengths)), key=lambda index: -strengths[index]), start=1):
        found = path.solve(strengths[index])
        is_right = _top_class(found.weight, found.bias, val_features) == val_labels
        accuracies[index], objectives[index] = float(is_right.double().mean()), found.objective
        if best is None or accuracies[index] > best[0]:
            best = accuracies[index], found
        if on_step is not None:
            on_step(done, len(strengths))
    assert best is not None
    both = _ClassPath(torch.cat([train_features, val_features]), torch.cat([train_labels, val_labels]), max_steps)
    refitted = both.solve_from(best[1])
    weights = refitted.weight.float(), refitted.bias.float()
    return Probe(refitted.strength, strengths, tuple(accuracies), tuple(objectives), *weights)


class _ClassPath:
    """A logistic path over the classes that occur. The others get a weight of 0 and a bias of ``-inf``."""

    def __init__(self, features: Tensor, labels: Tensor, max_steps: int) -> None:
        self._classes, place = labels.unique(return_inverse=True)
        if len(self._classes) < 2:
            raise ValueError(
                f"train_labels must hold at least two classes; got only class {int(self._classes[0])}. "
                "Add samples of another class."
            )
        self._path = LogisticPath(features, place, len(self._classes), max_steps=max_steps)

    def solve(self, strength: float) -> Solution:
        """Return the best weights, with one row for every class up to the last that occurs."""
        found = self._path.solve(strength)
        num_classes = int(self._classes[-1]) + 1
        weight = found.weight.new_zeros(num_classes, found.weight.shape[1])
        bias = found.bias.new_full((num_classes,), -math.inf)
        weight[self._classes], bias[self._classes] = found.weight, found.bias
        return found._replace(weight=weight, bias=bias)

    def solve_from(self, start: Solution) -> Solution:
        """Return the best weights at the strength of another solution, starting from that solution."""
        is_known = self._classes < len(start.bias)
        known = self._classes.where(is_known, 0)
        weight = start.weight[known] * is_known.unsqueeze(1)
        bias = start.bias[known].where(is_known, -math.inf)
        # A new class starts as the least likely one.
        self._path.start_at(weight, bias.where(bias.isfinite(), bias[bias.isfinite()].min()))
        return self.solve(start.strength)


def knn_accuracy(train_features: Tensor, train_labels: Tensor, features: Tensor, labels: Tensor, k: int = 20) -> float:
    """Return the accuracy of a vote among the ``k`` training samples nearest by cosine.

    Features are ``(N, D)`` and labels ``(N,)``. Ties go to the class whose neighbours are nearer, by the sum of their
    cosines.

    Example:
        >>> x = torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0]])
        >>> knn_accuracy(x, torch.tensor([0, 0, 1]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]), k=1)
        1.0
    """
    train_features, train_labels = _checked_samples("train", train_features, train_labels)
    labels = labels_of_features("features", features, labels)
    _check_width("features", features, train_features.shape[1])
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= len(train_labels):
        raise ValueError(
            f"k must be an integer from 1 to {len(train_labels)}, the number of training samples; got {k!r}."
        )
    train = torch.nn.functional.normalize(train_features.float(), dim=1)
    num_classes = max(int(train_labels.max()), int(labels.max())) + 1
    num_rows = max(1, BLOCK_ELEMENTS // len(train))
    num_right = 0
    for rows, part in zip(features.detach().cpu().split(num_rows), labels.split(num_rows), strict=True):
        nearest = (torch.nn.functional.normalize(rows.float(), dim=1) @ train.T).topk(k, dim=1)
        # A vote counts 1; a small multiple of its cosine breaks ties.
        votes = 1.0 + (nearest.values.double() + 1.0) / (4 * k)
        scores = torch.zeros(len(part), num_classes, dtype=torch.float64)
        scores.scatter_add_(1, train_labels[nearest.indices], votes)
        num_right += int((scores.argmax(dim=1) == part).sum())
    return num_right / len(labels)


def _top_class(weight: Tensor, bias: Tensor, features: Tensor) -> Tensor:
    weight, bias = weight.float(), bias.float()
    num_rows = max(1, BLOCK_ELEMENTS // len(weight))
    return torch.cat([torch.addmm(bias, rows.float(), weight.T).argmax(dim=1) for rows in features.split(num_rows)])


def _checked_samples(name: str, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    labels, features = labels_of_features(f"{name}_features", features, labels), features.detach().cpu()
    is_finite = features.isfinite().all(dim=1)
    if not is_finite.all():
        raise not_finite(f"{name}_features", int((~is_finite).nonzero()[0]))
    return features, labels


def _check_width(name: str, features: Tensor, width: int) -> None:
    if features.shape[1] != width:
        raise ValueError(
            f"{name} must have {width} columns, as in training; got {features.shape[1]}. Use the same model."
        )
