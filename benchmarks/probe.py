"""The whole path of 45 probes against scikit-learn's logistic regression, objective by objective."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.report import judged, lined_up
from maxsup.diagnosis.logistic import LogisticPath
from maxsup.diagnosis.probe import DEFAULT_STRENGTHS

# scikit-learn is timed at every 11th strength; its path over all of them is extrapolated.
STRIDE = 11
TOLERANCE = 1e-8


def made_features(num_samples: int, width: int, num_classes: int) -> tuple[Tensor, Tensor]:
    """Classes that overlap, with 8 % of labels drawn at random."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(num_classes, width, generator=generator)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    features = 0.5 * centres[labels] + torch.randn(num_samples, width, generator=generator) * 2.0
    noisy = torch.rand(num_samples, generator=generator) < 0.08
    labels[noisy] = torch.randint(num_classes, (int(noisy.sum()),), generator=generator)
    return features, labels


def objective(features: Tensor, labels: Tensor, weight: Tensor, bias: Tensor, strength: float) -> float:
    """``sum CE + strength / 2 |W|^2`` in double precision."""
    logits = features.double() @ weight.double().t() + bias.double()
    return float(F.cross_entropy(logits, labels, reduction="sum") + strength / 2 * weight.double().square().sum())


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Times of both, the excess of our objective over the better of the two, and accuracies at equal strength."""
    from sklearn.linear_model import LogisticRegression

    del rounds  # one round takes minutes
    shape = (600, 20, 5) if is_quick else (10_000, 512, 100)
    features, labels = made_features(2 * shape[0], shape[1], shape[2])
    (train, test), (train_labels, test_labels) = features.split(shape[0]), labels.split(shape[0])
    strengths = sorted(DEFAULT_STRENGTHS, reverse=True)
    begin = time.thread_time()
    path = LogisticPath(train, train_labels, shape[2])
    ours = [path.solve(strength) for strength in strengths]
    our_seconds = time.thread_time() - begin

    warnings.filterwarnings("ignore")
    timed = strengths[::STRIDE]
    array, classes = train.double().numpy(), train_labels.numpy()
    peer = LogisticRegression(C=1.0, tol=TOLERANCE, max_iter=2_000, warm_start=True)
    their_seconds, gaps, points, rows = 0.0, [], [], []
    for strength in timed:
        peer.C = 1.0 / strength
        begin = time.thread_time()
        peer.fit(array, classes)
        their_seconds += time.thread_time() - begin
        own = ours[strengths.index(strength)]
        mine = objective(train, train_labels, own.weight, own.bias, strength)
        weight, bias = torch.from_numpy(peer.coef_), torch.from_numpy(peer.intercept_)
        theirs = objective(train, train_labels, weight, bias, strength)
        right = (test.double() @ own.weight.double().t() + own.bias.double()).argmax(dim=1) == test_labels
        accuracy, other = float(right.double().mean()), float(peer.score(test.numpy(), test_labels.numpy()))
        gaps.append(max(mine / min(mine, theirs) - 1.0, 0.0))
        points.append(100 * abs(accuracy - other))
        numbers = (f"{mine:.6g}", f"{theirs:.6g}", f"{gaps[-1]:.1e}", f"{accuracy:.4f}", f"{other:.4f}")
        rows.append([f"{strength:.1e}", *numbers])
    extrapolated = their_seconds * len(strengths) / len(timed)
    show(f"\nprobe, {shape[0]:,} x {shape[1]}, {shape[2]} classes, one thread")
    header = ["strength", "objective", "scikit-learn", "our excess", "accuracy", "scikit-learn"]
    show(lined_up(header, rows))
    show(
        f"ours, all {len(strengths)} strengths: {our_seconds:.1f} s; "
        f"scikit-learn (lbfgs, warm start, tol {TOLERANCE:g}), "
        f"{len(timed)} strengths: {their_seconds:.1f} s, all {len(strengths)} extrapolated: {extrapolated:.0f} s"
    )
    case = "x".join(str(length) for length in shape)
    goals = [
        judged("probe path, time / scikit-learn", case, our_seconds / extrapolated, 0.2),
        judged("probe, objective above the better of both", case, max(gaps), 1e-4),
    ]
    return {
        "shape": list(shape),
        "our_seconds": our_seconds,
        "their_seconds": their_seconds,
        "timed_strengths": timed,
        "gaps": gaps,
        "accuracy_difference_points": points,
        "goals": goals,
    }
