"""The contrasts of the protocol, as weights of runs: within a seed each is a weighted sum of the numbers of its runs.

Nothing here depends on test images, so the weights stay while images are resampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tools.evidence.claims import Contrast
from tools.evidence.plan import Plan, Run
from tools.evidence.results import Row

NUM_CONFIDENCES = 101

Rows = Mapping[Run, Row]
Weights = dict[Run, float]


class NoOverlapError(ValueError):
    """The curves of two losses have no confidence in common."""


def planned_seeds(contrast: Contrast, plan: Plan) -> list[int]:
    """The seeds that a contrast is about."""
    arms = ((pool, arm) for pool in contrast.pools for arm in chain(*contrast.arms(plan, pool)))
    return sorted(set.intersection(*(plan.seeds(pool, arm) for pool, arm in arms)))


def needed_runs(contrast: Contrast, plan: Plan, seed: int) -> list[Run]:
    """The runs that it compares under one seed."""
    return [
        Run(pool, head, arm, seed)
        for pool in contrast.pools
        for head in contrast.heads_of(plan, pool)
        for arm in chain(*contrast.arms(plan, pool))
    ]


def contrast_weights(contrast: Contrast, plan: Plan, rows: Rows, seeds: Sequence[int]) -> dict[int, Weights]:
    """For each seed the weights of its runs, in the unit of the contrast; pools count alike, and heads do."""
    found: dict[int, Weights] = {}
    for seed in seeds:
        found[seed] = {}
        for pool in contrast.pools:
            parts = _of_pool(contrast, plan, pool, rows, seed, seeds)
            found[seed] |= {run: contrast.factor * weight / len(contrast.pools) for run, weight in parts.items()}
    return found


def _of_pool(contrast: Contrast, plan: Plan, pool: str, rows: Rows, seed: int, seeds: Sequence[int]) -> Weights:
    heads = contrast.heads_of(plan, pool)
    ours, theirs = contrast.arms(plan, pool)
    if contrast.contrast in ("slope", "intercept"):
        errors = [1 - value(rows[Run(pool, head, contrast.than, seed)], "train_accuracy") for head in heads]
        shares = line_weights(np.array(errors))[contrast.contrast == "slope"]
    else:
        shares = np.full(len(heads), 1 / len(heads))
    weights: Weights = {}
    for head, share in zip(heads, shares, strict=True):
        if contrast.contrast == "confidence":
            sides = [[Run(pool, head, arm, seed) for arm in arms] for arms in (ours, theirs)]
            ours_at, theirs_at = curve_weights(
                *(np.array([value(rows[run], "val_confidence") for run in runs]) for runs in sides)
            )
            pairs = [*zip(sides[0], ours_at, strict=True), *zip(sides[1], -theirs_at, strict=True)]
        elif contrast.contrast == "rate":
            chosen = [best_rate(arms, pool, head, rows, seeds) for arms in (ours, theirs)]
            pairs = [(Run(pool, head, arm, seed), sign) for arm, sign in zip(chosen, (1.0, -1.0), strict=True)]
        else:
            pairs = [(Run(pool, head, contrast.claim, seed), 1.0), (Run(pool, head, contrast.than, seed), -1.0)]
        weights |= {run: share * weight for run, weight in pairs}
    return weights


def value(row: Row, name: str) -> float:
    """A number that a run must have."""
    found = row.numbers.get(name)
    if found is None:
        raise ValueError(
            f"{name} must be a number of every run that is judged; got none for {row.run}. Repeat the run."
        )
    return found


def best_rate(arms: Sequence[str], pool: str, head: str | None, rows: Rows, seeds: Sequence[int]) -> str:
    """The arm with the highest mean validation accuracy over all seeds; the first of equal ones."""
    return max(
        arms,
        key=lambda arm: np.mean([value(rows[Run(pool, head, arm, seed)], "val_accuracy") for seed in seeds]),
    )


def line_weights(errors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What intercept and slope of a least-squares line over ``errors`` weigh each of its points with.

    Example:
        >>> intercept, slope = line_weights(np.array([0.0, 0.5, 1.0]))
        >>> [round(float(weights @ np.array([1.0, 2.0, 3.0])), 6) for weights in (intercept, slope)]
        [1.0, 2.0]
    """
    intercept, slope = np.linalg.pinv(np.stack([np.ones_like(errors), errors], axis=1))
    return intercept, slope


def curve_weights(
    ours: NDArray[np.float64], theirs: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the mean height of two piecewise linear curves weighs their points with, over the confidences of both.

    Args:
        ours: Confidences of the points of one curve.
        theirs: Confidences of the points of the other.

    Example:
        >>> ours, theirs = curve_weights(np.array([0.5, 0.7]), np.array([0.8, 0.6]))
        >>> ours.round(2), theirs.round(2)  # both are linear between 0.6 and 0.7, where 0.65 is the mean
        (array([0.25, 0.75]), array([0.25, 0.75]))
    """
    lowest, highest = max(ours.min(), theirs.min()), min(ours.max(), theirs.max())
    if lowest >= highest:
        raise NoOverlapError(f"curves must share confidences; got {ours} and {theirs}. Its claim is inconclusive.")
    points = np.linspace(lowest, highest, NUM_CONFIDENCES)
    return _mean_weights(ours, points), _mean_weights(theirs, points)


def _mean_weights(knots: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    order = np.argsort(knots, kind="stable")
    hats = np.eye(len(knots))
    return np.array([np.interp(points, knots[order], hats[order, i]).mean() for i in range(len(knots))])
