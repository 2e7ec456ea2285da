"""Judge the claims on the collected runs by the rule of the protocol: ``python -m tools.evidence.judge``.

A claim is judged when all of its seeds are there; until then it only says how many are.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from maxsup.lab.experiments.statistics import holm
from tools.evidence.claims import Claim, Contrast, load_claims
from tools.evidence.contrasts import NoOverlapError, Rows, Weights, contrast_weights, needed_runs, planned_seeds, value
from tools.evidence.plan import Plan, Run, blocks, load_plan
from tools.evidence.resample import NUMBERS, Arrays, Counts, draw_counts, num_units, resampled_number, shared_images
from tools.evidence.store import RESULTS, read_arrays, read_rows

LEVEL = 0.05

Verdict = Literal["confirmed", "not reproduced", "no difference within the margin", "inconclusive"]


@dataclass(frozen=True)
class Estimate:
    """A mean contrast, its standard error, and the degrees of freedom of the latter."""

    mean: float
    error: float
    freedom: float

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % interval."""
        half = float(stats.t.ppf(1 - LEVEL / 2, self.freedom)) * self.error
        return self.mean - half, self.mean + half

    @property
    def p(self) -> float:
        """Of "there is no difference"."""
        if self.error == 0:
            return float(self.mean == 0)
        return 2 * float(stats.t.sf(abs(self.mean) / self.error, self.freedom))

    def p_beyond(self, margin: float) -> float:
        """Of "the difference is beyond the margin": the larger one of both sides."""
        if self.error == 0:
            return float(abs(self.mean) >= margin)
        return float(stats.t.sf((margin - abs(self.mean)) / self.error, self.freedom))


@dataclass(frozen=True)
class Judgement:
    """A claim with how many of its seeds are there and, when all are, its estimate and verdict.

    ``holm`` and ``holm_beyond`` are its p values after the correction within its family.
    """

    claim: Claim
    num_there: int
    num_planned: int
    estimate: Estimate | None = None
    holm: float | None = None
    holm_beyond: float | None = None
    verdict: Verdict | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all seeds are there."""
        return self.num_there == self.num_planned


class Collected:
    """The runs of some pools, and their numbers on resampled images, each computed once."""

    def __init__(self, plan: Plan, pools: Sequence[str], folder: Path = RESULTS) -> None:
        self.plan, self.folder = plan, folder
        self.rows: Rows = {row.run: row for pool in pools for row in read_rows(pool, folder)}
        self._arrays: dict[Run, Arrays] = {}
        for block in blocks(plan):
            if block.pool in pools:
                self._arrays |= read_arrays(block, folder)
        self._counts: dict[tuple[str, int], Counts] = {}
        self._numbers: dict[tuple[Run, str], NDArray[np.float64]] = {}

    def resampled(self, run: Run, name: str) -> NDArray[np.float64]:
        """A number of a run on every resample of its test set."""
        if (run, name) not in self._numbers:
            arrays = self._arrays[run]
            key = shared_images(self.plan, run.pool), num_units(arrays)
            if key not in self._counts:
                self._counts[key] = draw_counts(*key)
            self._numbers[run, name] = resampled_number(name, arrays, self._counts[key])
        return self._numbers[run, name]

    def resampled_sum(self, weights: Weights, name: str) -> NDArray[np.float64]:
        """The weighted sum of a number over runs, on every resample."""
        return np.sum([weight * self.resampled(run, name) for run, weight in weights.items()], axis=0)

    def num_units(self, runs: Sequence[Run]) -> int:
        """The size of the smallest test set of these runs."""
        return min(num_units(self._arrays[run]) for run in runs)


def two_way(contrasts: ArrayLike, shared: ArrayLike, num_images: float) -> tuple[NDArray[np.float64], ...]:
    """Variance of a mean over seeds and images, and its degrees of freedom, of contrasts ``(..., S)``.

    Args:
        contrasts: The contrast of every seed, along the last axis.
        shared: The mean covariance ``(...)`` between different seeds over resampled images.
        num_images: The number of images that are resampled.

    Example:
        >>> two_way([1.0, 2.0, 3.0], 0.0, 1000)
        (array(0.33333333), array(2.))
    """
    values = np.asarray(contrasts, np.float64)
    num_seeds = values.shape[-1]
    of_seeds = values.var(axis=-1, ddof=1) / num_seeds
    of_images = np.maximum(0.0, shared)
    variance = of_seeds + of_images
    scatter = of_seeds**2 / (num_seeds - 1) + of_images**2 / (num_images - 1)
    with np.errstate(invalid="ignore"):
        freedom = np.where(scatter > 0, variance**2 / scatter, num_seeds - 1)
    return np.asarray(variance), freedom


def mean_covariance(resampled: NDArray[np.float64]) -> float:
    """Mean covariance between different seeds of their contrasts ``(S, B)`` on resampled images."""
    num_seeds = len(resampled)
    of_sum, of_each = resampled.sum(axis=0).var(ddof=1), resampled.var(axis=1, ddof=1).sum()
    return float(of_sum - of_each) / (num_seeds * (num_seeds - 1))


def estimate(contrast: Contrast, collected: Collected, seeds: Sequence[int]) -> Estimate:
    """A contrast over these seeds, of which all runs must be there."""
    weights = contrast_weights(contrast, collected.plan, collected.rows, seeds)
    contrasts = np.array([_sum(weights[seed], collected.rows, contrast.number) for seed in seeds])
    shared, num_images = 0.0, np.inf
    if contrast.number in NUMBERS:
        resampled = [collected.resampled_sum(weights[seed], contrast.number) for seed in seeds]
        shared = mean_covariance(np.stack(resampled))
        num_images = collected.num_units(list(chain.from_iterable(weights.values())))
    variance, freedom = two_way(contrasts, shared, num_images)
    return Estimate(float(contrasts.mean()), float(variance) ** 0.5, float(freedom))


def _sum(weights: Weights, rows: Rows, number: str) -> float:
    return sum(weight * value(rows[run], number) for run, weight in weights.items())


def verdict(claim: Claim, estimated: Estimate, adjusted: float, adjusted_beyond: float) -> Verdict:
    """The word that the protocol's table gives."""
    if adjusted_beyond <= LEVEL:
        return "confirmed" if claim.direction == "equal" else "no difference within the margin"
    if adjusted <= LEVEL:
        is_claimed = claim.direction == ("higher" if estimated.mean > 0 else "lower")
        return "confirmed" if is_claimed else "not reproduced"
    return "inconclusive"


def judge(claims: Mapping[str, Claim], plan: Plan, folder: Path = RESULTS) -> dict[str, Judgement]:
    """All claims of all families; in Holm's correction a claim that is not judged yet counts with p = 1."""
    found: dict[str, Judgement] = {}
    for family in dict.fromkeys(claim.family for claim in claims.values()):
        own = {name: claim for name, claim in claims.items() if claim.family == family}
        collected = Collected(plan, list(dict.fromkeys(pool for claim in own.values() for pool in claim.pools)), folder)
        found |= judge_family(own, collected)
    return found


def judge_family(claims: Mapping[str, Claim], collected: Collected) -> dict[str, Judgement]:
    """The claims of one family."""
    counted = {name: _counted(claim, collected) for name, claim in claims.items()}
    estimates = {name: _estimate_when_complete(each, collected) for name, each in counted.items()}
    pairs = [(claims[name], found) for name, found in estimates.items()]
    adjusted = holm([1.0 if found is None else found.p for _, found in pairs])
    adjusted_beyond = holm([1.0 if found is None else found.p_beyond(claim.margin) for claim, found in pairs])
    judged: dict[str, Judgement] = {}
    for (name, found), p, p_beyond in zip(estimates.items(), adjusted, adjusted_beyond, strict=True):
        each = counted[name]
        if found is not None:
            word = verdict(each.claim, found, p, p_beyond)
            judged[name] = replace(each, estimate=found, holm=p, holm_beyond=p_beyond, verdict=word)
        else:
            judged[name] = replace(each, verdict="inconclusive" if each.is_complete else None)
    return judged


def _counted(claim: Claim, collected: Collected) -> Judgement:
    planned = planned_seeds(claim, collected.plan)
    there = [seed for seed in planned if collected.rows.keys() >= set(needed_runs(claim, collected.plan, seed))]
    return Judgement(claim, len(there), len(planned))


def _estimate_when_complete(judgement: Judgement, collected: Collected) -> Estimate | None:
    if not judgement.is_complete:
        return None
    try:
        return estimate(judgement.claim, collected, planned_seeds(judgement.claim, collected.plan))
    except NoOverlapError:
        return None


def main() -> None:
    """Read the command line and print every claim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    plan = load_plan()
    for name, found in judge(load_claims(plan), plan, given.results).items():
        print(f"{name:24} {_line(found)}")


def _line(found: Judgement) -> str:
    if not found.is_complete:
        return f"{found.num_there} of {found.num_planned} seeds are there"
    if found.estimate is None:
        return f"{found.verdict}: the curves of a seed have no confidence in common"
    mean, low, high = (f"{part:+.3g}" for part in (found.estimate.mean, *found.estimate.interval))
    return f"{found.verdict}: {mean} [{low}, {high}] {found.claim.unit} (p = {found.holm:.2g} after Holm)"


if __name__ == "__main__":
    main()
