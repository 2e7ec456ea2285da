"""Linear and nearest-neighbour probes of frozen features, on the run's own data or on other data.

The linear probe is multinomial logistic regression on features without augmentation. Its strength is chosen on
validation data from 45 values (:func:`maxsup.diagnosis.fit_probe`); it is refitted on both splits and evaluated on the
test split. The other probe is a vote of the 20 nearest neighbours by cosine. If within-class factors are known
(``synthetic``), each of them is probed too: a loss that collapses classes loses them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from maxsup.diagnosis.probe import DEFAULT_STRENGTHS, fit_probe, knn_accuracy
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.data import MemorySplit, stratified_split
from maxsup.lab.figures.probes import probe_figures
from maxsup.metrics import accuracy
from maxsup.metrics.facts import numbers

RIDGE_STRENGTHS = tuple(10 ** (step / 2) for step in range(-12, 11))
"""Penalties of the ridge regression, in units of the mean variance of a feature times the number of samples."""

CIRCULAR = {"hue": 1.0}
"""Circular factors with their period."""

Samples = tuple[Tensor, Tensor]
"""Features ``(N, D)`` with labels or a factor ``(N,)``."""

_HELD_OUT = 0.1


def obstacle(run: RunOutputs, *, split: str, **options: Any) -> str | None:
    """Refuse splits other than test, because the probes are fitted on the others."""
    if split != "test":
        return f"it fits on the training and validation splits and must be evaluated on the test split, not on {split}"
    return None


def compute(run: RunOutputs, *, split: str, target: str | None = None, num_neighbours: int = 20) -> Result:
    """Compute the accuracy of both probes and, for known factors, the variance explained by the features.

    Options:
        target: A registered data set to probe on; by default the run's own.
        num_neighbours: Number of neighbours that vote.
    """
    train, test = run.features("train", target), run.features(split, target)
    if target is not None or run.has_val:
        val = run.features("val", target)
    else:
        fitted, held_out = stratified_split(train[1], _HELD_OUT, seed=0)
        train, val = ((train[0][members], train[1][members]) for members in (fitted, held_out))
    run.progress.start(f"{run.label}: probe on {target or run.recipe.data.name}", len(DEFAULT_STRENGTHS))
    probe = fit_probe(*train, *val, on_step=lambda done, total: run.progress.advance())
    both = _join(train, val)
    found = {
        "accuracy": probe.accuracy(*test),
        "knn_accuracy": knn_accuracy(*both, *test, k=min(num_neighbours, len(both[1]))),
        "strength": probe.strength,
    }
    if target is None:
        found["head_accuracy"] = accuracy(run.split(split).logits, test[1])
    factors = _factors(run, target)
    found |= {f"r_squared_{name}": value for name, value in factors.items()}
    data = {
        "target": target or run.recipe.data.name,
        "num_train": len(train[1]),
        "num_val": len(val[1]),
        "num_test": len(test[1]),
        "strengths": [float(strength) for strength in probe.strengths],
        "val_accuracies": list(probe.accuracies),
        "factors": list(factors),
    }
    return {"numbers": numbers(found), "data": data}


def factor_r_squared(name: str, train: Samples, val: Samples, test: Samples) -> float:
    """Return the share of a factor's variance on ``test`` that a linear map of the features explains.

    The share is negative if the map is worse than the mean. The strength of the ridge regression is chosen on ``val``,
    and the map is refitted on ``train`` and ``val``. A circular factor (``hue``) is regressed as a point on a circle.

    Example:
        >>> features = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> parts = [(part, part[:, 0] - 2 * part[:, 1]) for part in features.split(100)]
        >>> round(factor_r_squared("x", *parts), 3)
        1.0
    """
    train, val, test = ((features.double(), _points(name, factor)) for features, factor in (train, val, test))
    scores = [_explained(fit, *val) for fit in _ridge_path(*train)]
    best = RIDGE_STRENGTHS[scores.index(max(scores))]
    return _explained(_ridge_path(*_join(train, val), (best,))[0], *test)


def _join(one: Samples, other: Samples) -> Samples:
    return torch.cat([one[0], other[0]]), torch.cat([one[1], other[1]])


def _factors(run: RunOutputs, target: str | None) -> dict[str, float]:
    """Return the explained variance of each factor that is known and continuous in all three splits."""
    if target is None and not run.has_val:
        return {}
    bundle = run.data(target)
    splits = {name: getattr(bundle, name) for name in ("train", "val", "test")}
    known = [set(split.factors) if isinstance(split, MemorySplit) else set() for split in splits.values()]
    names = [name for name in set.intersection(*known) if splits["train"].factors[name].is_floating_point()]
    found = {}
    for factor in sorted(names):
        rows = []
        for name, split in splits.items():
            indices = run.split(name, target).indices
            rows.append((run.features(name, target)[0], split.factors[factor][indices]))
        found[factor] = factor_r_squared(factor, *rows)
    return found


def _points(name: str, factor: Tensor) -> Tensor:
    values = factor.double()
    if name not in CIRCULAR:
        return values.unsqueeze(1)
    angle = 2 * math.pi * values / CIRCULAR[name]
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def _ridge_path(features: Tensor, targets: Tensor, strengths: tuple[float, ...] = RIDGE_STRENGTHS) -> list[Samples]:
    """Return weight and offset for each strength, from one eigendecomposition."""
    centre, level = features.mean(dim=0), targets.mean(dim=0)
    centred = features - centre
    variances, axes = torch.linalg.eigh(centred.T @ centred)
    variances = variances.clamp(min=0)
    rotated = axes.T @ (centred.T @ (targets - level))
    unit = float(variances.mean()) or 1.0
    weights = [axes @ (rotated / (variances + strength * unit).unsqueeze(1)) for strength in strengths]
    return [(weight, level - centre @ weight) for weight in weights]


def _explained(fit: tuple[Tensor, Tensor], features: Tensor, targets: Tensor) -> float:
    weight, offset = fit
    rest = (targets - features @ weight - offset).square().sum()
    total = (targets - targets.mean(dim=0)).square().sum()
    return float(1 - rest / total)


ANALYSES.register(
    "probe",
    summary="linear and k-NN probe on own or other data; variance of known factors explained by features",
    paper="tab:extended_feature",
)(Analysis(compute, probe_figures, obstacle, counts=("num_neighbours",)))
