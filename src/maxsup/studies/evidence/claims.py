"""Evidence: what the rule of the protocol makes of the numbers of pools.

A folder of evidence holds::

    claims.yaml    what is claimed, by which number it is judged, and the margin: the protocol for programs
    settings.yaml  what the runs stand for: their scale beside the paper's, and what they cannot show
    results/       what :func:`maxsup.studies.evidence.pools.collect` wrote
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, linear_regression
from typing import Any, Literal, NamedTuple

from maxsup.core.config import Section
from maxsup.core.errors import hint
from maxsup.core.recipes import read_yaml
from maxsup.core.validation import validated
from maxsup.studies.evidence.pools import TRIALS, Row, Tables, read_tables, trial_scores
from maxsup.studies.statistics.paired import PairedComparison, paired_comparison, student_interval
from maxsup.studies.statistics.power import MIN_SEEDS
from maxsup.studies.tuning import best_trial

CLAIMS, SETTINGS, RESULTS = "claims.yaml", "settings.yaml", "results"

SWEEPS = {"digits_w": "drawn digits", "c10_w": "CIFAR-10", "c100_w": "CIFAR-100"}
"""What the pools of a sweep are called before their width, and what readers call it."""

SWEPT_LOSSES = ("maxsup alpha=0.2", "ls alpha=0.2")
TRAINING_ACCURACY = "collapse.train_accuracy"

Word = Literal["confirmed", "contradicted", "undecided"]


class Claim(Section):
    """A claim as a number: ``claim`` minus ``than``, seed by seed, and the sign that is claimed of it."""

    label: str
    states: str
    paper: str
    setting: str
    pools: tuple[str, ...]
    number: str
    factor: float = 1.0
    unit: str = ""
    claim: str
    than: str
    direction: Literal["higher", "lower", "equal"]
    margin: float


class Setting(Section):
    """What the runs behind a claim stand for."""

    scale: str
    limits: str


class Verdict(NamedTuple):
    """What the rule of the protocol says of a claim; numbers are in printed units, nan without enough pairs.

    ``values`` are a seed and the numbers of both losses each.
    """

    word: Word
    reason: str
    mean: float
    low: float
    high: float
    p: float
    num_pairs: int
    values: tuple[tuple[int, float, float], ...]


def read_claims(folder: Path) -> dict[str, Claim]:
    """The claims of a folder of evidence, by name."""
    found = read_yaml(folder / CLAIMS)
    return {name: validated(Claim, values, source=f"claim {name}") for name, values in found.items()}


def verdicts(folder: Path) -> dict[str, Verdict]:
    """What the results of a folder of evidence say of each of its claims."""
    tables = read_tables(folder / RESULTS)
    return {name: verdict(claim, tables) for name, claim in read_claims(folder).items()}


def claim_entries(folder: Path) -> list[dict[str, Any]]:
    """Claims and verdicts as plain values, for pages and JSON; ``tuned`` is the same with tuned strengths, or None."""
    found, settings, entries = verdicts(folder), read_yaml(folder / SETTINGS), []
    tables, trials = read_tables(folder / RESULTS), read_tables(folder / RESULTS / TRIALS)
    for name, claim in read_claims(folder).items():
        if claim.setting not in settings:
            raise ValueError(
                f"setting of claim {name!r} must be one of {SETTINGS}; got {claim.setting!r}. "
                f"{hint(claim.setting, settings)}"
            )
        setting = validated(Setting, settings[claim.setting], source=f"setting {claim.setting}")
        entry = {"name": name, **claim.model_dump(), **setting.model_dump(), **found[name]._asdict()}
        tuned = tuned_claim(claim, trials)
        entry["tuned"] = None if tuned is None else tuned.model_dump() | verdict(tuned, tables)._asdict()
        entries.append(entry | {"has_enough_seeds": found[name].num_pairs >= MIN_SEEDS})
    return entries


def tuned_claim(claim: Claim, trials: Tables) -> Claim | None:
    """The claim about losses with tuned strengths; None where one of its losses was not tuned.

    Pools that a claim reads together are also tuned together. Cross-entropy has nothing to tune.
    """
    chosen = []
    for loss in (claim.claim, claim.than):
        scores = trial_scores(trials, claim.pools, loss.split()[0])
        if loss != "ce" and loss not in scores:
            return None
        chosen.append(loss if loss == "ce" else best_trial(scores))
    return claim.model_copy(update={"claim": chosen[0], "than": chosen[1]})


def sweep_entries(folder: Path) -> list[dict[str, Any]]:
    """Sweeps of widths as plain values: a point is the training error, then mean and interval of the difference."""
    tables, entries = read_tables(folder / RESULTS), []
    for prefix, title in SWEEPS.items():
        found = width_sweep(tables, prefix)
        points = [
            (point.training_error, fmean(point.differences), *student_interval(point.differences))
            for point in found.points
        ]
        lines = {"slope": found.slope[0], "slope_interval": found.slope[1:], "intercept": found.intercept[0]}
        lines |= {"intercept_interval": found.intercept[1:], "word": found.word, "num_seeds": found.num_seeds}
        entries.append({"title": title, "points": points, **lines})
    return entries


def verdict(claim: Claim, tables: Tables) -> Verdict:
    """The verdict of a claim by the rule of the protocol; of several pools a seed's differences are averaged first."""
    values = [paired_values(tables.get(pool, []), claim.number, (claim.claim, claim.than)) for pool in claim.pools]
    seeds = sorted(set.intersection(*(set(found) for found in values)))
    own, other = ([fmean(found[seed][side] for found in values) for seed in seeds] for side in (0, 1))
    found = paired_comparison(own, other, margin=claim.margin / claim.factor)
    word, reason = _judged(found, claim)
    mean, low, high = (value * claim.factor for value in _ends(found))
    pairs = tuple((seed, a * claim.factor, b * claim.factor) for seed, a, b in zip(seeds, own, other, strict=True))
    return Verdict(word, reason, mean, low, high, found.p_value, found.num_pairs, pairs)


def _judged(found: PairedComparison, claim: Claim) -> tuple[Word, str]:
    if found.num_pairs < MIN_SEEDS:
        return "undecided", f"{found.num_pairs} of at least {MIN_SEEDS} paired seeds"
    margin = claim.margin / claim.factor
    if claim.direction == "equal":
        if found.is_equivalent:
            return "confirmed", "equal within the margin"
        if found.low > margin or found.high < -margin:
            return "contradicted", "the interval lies outside the margin"
        return "undecided", "the interval reaches beyond the margin"
    low, high = (found.low, found.high) if claim.direction == "higher" else (-found.high, -found.low)
    if low > 0:
        small = ", and the difference is smaller than the margin" if found.is_equivalent else ""
        return "confirmed", f"the interval lies on the claimed side of 0{small}"
    if high < 0:
        return "contradicted", "the interval lies on the other side of 0"
    if found.is_equivalent:
        return "contradicted", "equal within the margin"
    return "undecided", "the interval holds 0 and reaches beyond the margin"


class SweepPoint(NamedTuple):
    """A width of a sweep: how many training images label smoothing leaves wrong, and the difference of each seed."""

    training_error: float
    differences: tuple[float, ...]


class Sweep(NamedTuple):
    """A sweep of widths: its points, and the line through those of each seed; nan without enough seeds."""

    points: tuple[SweepPoint, ...]
    word: Word
    slope: tuple[float, float, float]
    intercept: tuple[float, float, float]
    num_seeds: int


def width_sweep(tables: Tables, prefix: str, number: str = "test.accuracy") -> Sweep:
    """The difference of MaxSup to label smoothing against the training error, over the pools of a sweep.

    Args:
        tables: Rows of all pools.
        prefix: What the pools of the sweep are called before their width, ``c10_w`` for instance.
        number: Which number differs.
    """
    widths: list[dict[int, tuple[float, float]]] = []  # by seed: training error, and difference
    for rows in (rows for pool, rows in tables.items() if pool.startswith(prefix)):
        numbers, fitted = (paired_values(rows, key, SWEPT_LOSSES) for key in (number, TRAINING_ACCURACY))
        shared = sorted(numbers.keys() & fitted.keys())
        widths.append({seed: (1 - fitted[seed][1], numbers[seed][0] - numbers[seed][1]) for seed in shared})
    columns = [tuple(zip(*found.values(), strict=True)) for found in widths if found]
    points = sorted(SweepPoint(fmean(wrong), differences) for wrong, differences in columns)
    seeds = sorted(set(widths[0]).intersection(*widths)) if len(widths) > 1 else []
    lines = [linear_regression(*zip(*(found[seed] for found in widths), strict=True)) for seed in seeds]
    slope, intercept = (paired_comparison([line[side] for line in lines], [0.0] * len(lines)) for side in (0, 1))
    word: Word = "undecided"
    if len(lines) >= MIN_SEEDS and slope.excludes_zero:
        word = "confirmed" if slope.low > 0 else "contradicted"
    return Sweep(tuple(points), word, _ends(slope), _ends(intercept), len(lines))


def _ends(found: PairedComparison) -> tuple[float, float, float]:
    return found.mean_difference, found.low, found.high


def paired_values(rows: Sequence[Row], number: str, losses: tuple[str, str]) -> dict[int, tuple[float, float]]:
    """The number of two losses for every seed that has both."""
    found = {(row["loss"], row["seed"]): row.get(number, math.nan) for row in rows}
    pairs = {
        seed: (found.get((losses[0], seed), math.nan), found.get((losses[1], seed), math.nan)) for _, seed in found
    }
    return {seed: pair for seed, pair in pairs.items() if all(math.isfinite(value) for value in pair)}
