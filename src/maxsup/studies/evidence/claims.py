"""Evidence: what the rule of the protocol makes of the numbers of pools, and all pools at a glance.

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

from pydantic import PositiveFloat

from maxsup.core.config import Section
from maxsup.core.errors import hint
from maxsup.core.recipes import read_yaml
from maxsup.core.validation import validated
from maxsup.studies.evidence.pools import TRIALS, Row, Tables, read_tables, trial_scores
from maxsup.studies.statistics import MIN_SEEDS, PairedComparison, paired_comparison, student_interval
from maxsup.studies.study_files import study_path
from maxsup.studies.tuning import TUNED_FACTORS, TUNING_SEEDS, best_trial

CLAIMS, SETTINGS, RESULTS = "claims.yaml", "settings.yaml", "results"

SWEEPS = {"digits_w": "drawn digits", "c10_w": "CIFAR-10", "c100_w": "CIFAR-100"}
"""Sweeps over widths: the prefix of their pools, and the title for readers."""

SWEPT_LOSSES = ("maxsup alpha=0.2", "ls alpha=0.2")
TRAINING_ACCURACY = "collapse.train_accuracy"

NUMBERS = ("test.accuracy", "test.nll", "test.ece", "test.confidence_wrong", "collapse.train_within")
"""Shown for every pool that has them, beside the numbers that claims about it use."""

Word = Literal["confirmed", "contradicted", "undecided"]


class Claim(Section):
    """A claim as a number: ``claim`` minus ``than``, seed by seed, and the sign that is claimed for it."""

    label: str
    states: str
    paper: str
    setting: str
    pools: tuple[str, ...]
    number: str
    factor: PositiveFloat = 1.0
    unit: str = ""
    claim: str
    than: str
    direction: Literal["higher", "lower", "equal"]
    margin: PositiveFloat


class Setting(Section):
    """What the runs behind a claim stand for."""

    scale: str
    limits: str


class Verdict(NamedTuple):
    """What the rule of the protocol says about a claim; numbers are in printed units, nan without enough pairs.

    ``values`` are, for each pair, the seed and the numbers of both losses.
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
    return {name: validated(Claim, values, source=f"claim {name} of {CLAIMS}") for name, values in found.items()}


def claim_entries(folder: Path) -> list[dict[str, Any]]:
    """Claims and verdicts as plain values, for pages and JSON; ``tuned`` is the same with tuned strengths, or None."""
    tables, trials = read_tables(folder / RESULTS), read_tables(folder / RESULTS / TRIALS)
    settings, entries = read_yaml(folder / SETTINGS), []
    for name, claim in read_claims(folder).items():
        if claim.setting not in settings:
            raise ValueError(
                f"setting of claim {name!r} must be one of {SETTINGS}; got {claim.setting!r}. "
                f"{hint(claim.setting, settings)}"
            )
        setting = validated(Setting, settings[claim.setting], source=f"setting {claim.setting} of {SETTINGS}")
        found, tuned = verdict(claim, tables), tuned_claim(claim, trials)
        try:
            names = {"name": name, "study": study_path(claim.label).stem}
        except ValueError as error:
            raise ValueError(f"label of claim {name} of {CLAIMS}: {error}") from None
        entry = {**names, **claim.model_dump(), **setting.model_dump(), **found._asdict()}
        entry["tuned"] = None if tuned is None else tuned.model_dump() | verdict(tuned, tables)._asdict()
        entries.append(entry | {"has_enough_seeds": found.num_pairs >= MIN_SEEDS})
    return entries


def tuned_claim(claim: Claim, trials: Tables) -> Claim | None:
    """The claim about losses with tuned strengths; None where one of its losses was not tuned to the end.

    Pools that a claim reads together are also tuned together. Cross-entropy has nothing to tune.
    """
    chosen, num_trials = [], len(TUNING_SEEDS) * len(claim.pools)
    for loss in (claim.claim, claim.than):
        scores = trial_scores(trials, claim.pools, loss.split()[0])
        is_complete = len(scores) == len(TUNED_FACTORS) and all(len(each) == num_trials for each in scores.values())
        if loss != "ce" and not (is_complete and loss in scores):
            return None
        chosen.append(loss if loss == "ce" else best_trial(scores))
    return claim.model_copy(update={"claim": chosen[0], "than": chosen[1]})


def verdict(claim: Claim, tables: Tables) -> Verdict:
    """The verdict on a claim by the rule of the protocol; differences of several pools are averaged within a seed."""
    values = [paired_values(tables.get(pool, []), claim.number, (claim.claim, claim.than)) for pool in claim.pools]
    seeds = sorted(set.intersection(*(set(found) for found in values)))
    own, other = ([fmean(found[seed][side] for found in values) for seed in seeds] for side in (0, 1))
    found = paired_comparison(own, other, margin=claim.margin / claim.factor)
    word, reason = _judged(found, claim)
    mean, low, high = (value * claim.factor for value in (found.mean_difference, found.low, found.high))
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


def sweep_entries(folder: Path) -> list[dict[str, Any]]:
    """The sweeps over widths of a folder of evidence as plain values."""
    tables = read_tables(folder / RESULTS)
    return [{"title": title, **width_sweep(tables, prefix)} for prefix, title in SWEEPS.items()]


def width_sweep(tables: Tables, prefix: str) -> dict[str, Any]:
    """Accuracy of MaxSup minus label smoothing against the training error, over the pools with a prefix (``c10_w``).

    A point is a width: training error of label smoothing, then mean and interval of the difference. Each seed has a
    line; slope and intercept are nan without enough seeds.
    """
    widths: list[dict[int, tuple[float, float]]] = []  # by seed: training error, and difference
    for rows in (rows for pool, rows in tables.items() if pool.startswith(prefix)):
        numbers, fitted = (paired_values(rows, key, SWEPT_LOSSES) for key in ("test.accuracy", TRAINING_ACCURACY))
        shared = sorted(numbers.keys() & fitted.keys())
        widths.append({seed: (1 - fitted[seed][1], numbers[seed][0] - numbers[seed][1]) for seed in shared})
    columns = (zip(*found.values(), strict=True) for found in widths if found)
    points = sorted((fmean(wrong), differences) for wrong, differences in columns)
    seeds = sorted(set(widths[0]).intersection(*widths)) if len(widths) > 1 else []
    lines = [linear_regression(*zip(*(found[seed] for found in widths), strict=True)) for seed in seeds]
    slope, intercept = (paired_comparison([line[side] for line in lines], [0.0] * len(lines)) for side in (0, 1))
    word: Word = "undecided"
    if len(lines) >= MIN_SEEDS and slope.excludes_zero:
        word = "confirmed" if slope.low > 0 else "contradicted"
    return {
        "points": [(wrong, fmean(differences), *student_interval(differences)) for wrong, differences in points],
        "slope": slope.mean_difference,
        "slope_interval": (slope.low, slope.high),
        "intercept": intercept.mean_difference,
        "intercept_interval": (intercept.low, intercept.high),
        "word": word,
        "num_seeds": len(lines),
    }


def paired_values(rows: Sequence[Row], number: str, losses: tuple[str, str]) -> dict[int, tuple[float, float]]:
    """The number of two losses for every seed that has both."""
    first, second = ({row["seed"]: row.get(number, math.nan) for row in rows if row["loss"] == loss} for loss in losses)
    pairs = {seed: (first[seed], second[seed]) for seed in first if seed in second}
    return {seed: pair for seed, pair in pairs.items() if all(map(math.isfinite, pair))}


def pool_entries(folder: Path) -> list[dict[str, Any]]:
    """The pools of a folder of evidence as plain values: a row per loss, and ``contrast``, MaxSup minus LS."""
    tables, asked = read_tables(folder / RESULTS), dict[str, list[str]]()
    for claim in read_claims(folder).values():
        for pool in claim.pools:
            # Times are compared within a pool only, on the page of the claim.
            if not claim.number.startswith("timing."):
                asked.setdefault(pool, []).append(claim.number)
    return [pool_entry(pool, rows, asked.get(pool, [])) for pool, rows in tables.items()]


def pool_entry(pool: str, rows: list[Row], asked: list[str]) -> dict[str, Any]:
    """What is shown for a pool; numbers that no run of it has are left out."""
    numbers = [name for name in dict.fromkeys([*NUMBERS, *asked]) if _finite(rows, name)]
    maxsup, smoothing = _contrasted(rows)
    losses = sorted(
        {row["loss"] for row in rows}, key=lambda loss: (loss.split()[0] not in ("ce", "ls", "maxsup"), loss)
    )
    return {
        "pool": pool,
        "numbers": numbers,
        "rows": [
            {
                "loss": loss,
                "num_seeds": sum(row["loss"] == loss for row in rows),
                "means": [fmean(found) if (found := _finite(rows, number, loss)) else None for number in numbers],
                "difference": _difference(rows, "test.accuracy", loss, smoothing),
            }
            for loss in losses
        ],
        "smoothing": smoothing,
        "contrast": {number: _difference(rows, number, maxsup, smoothing) for number in numbers},
    }


def _contrasted(rows: list[Row]) -> tuple[str, str]:
    """MaxSup without a schedule, and the label smoothing of the same strength."""
    losses = {row["loss"] for row in rows}
    for alpha in ("0.1", "0.2"):
        smoothing = sorted(loss for loss in losses if loss.startswith(f"ls alpha={alpha}") and ".." not in loss)
        if smoothing and f"maxsup alpha={alpha}" in losses:
            return f"maxsup alpha={alpha}", smoothing[0]
    return "", ""


def _difference(rows: list[Row], number: str, loss: str, than: str) -> tuple[float, float, float, int] | None:
    """Mean of paired differences, the ends of its 95 % interval, and the number of pairs."""
    pairs = paired_values(rows, number, (loss, than)).values()
    if loss == than or not pairs:
        return None
    differences = [own - other for own, other in pairs]
    return fmean(differences), *student_interval(differences), len(differences)


def _finite(rows: list[Row], number: str, loss: str | None = None) -> list[float]:
    """The numbers of the runs of a loss, or of all runs, that have one."""
    found = (row.get(number, math.nan) for row in rows if loss in (None, row["loss"]))
    return [value for value in found if math.isfinite(value)]
