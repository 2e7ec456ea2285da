"""Evidence: what the rule of the protocol makes of the numbers of pools, and all pools at a glance.

A folder of evidence holds::

    claims.yaml    what is claimed, by which number it is judged, and the margin: the protocol for programs
    settings.yaml  what the runs stand for: their scale beside the paper's, and what they cannot show
    results/       what :func:`tools.evidence.first.pools.collect` wrote
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from pydantic import PositiveFloat

from maxsup.core.errors import hint
from maxsup.lab.core.config import Section
from maxsup.lab.core.recipes import read_yaml
from maxsup.lab.core.validation import validated
from maxsup.lab.experiments.statistics import (
    LEVEL,
    MIN_SEEDS,
    PairedComparison,
    holm,
    paired_comparison,
    student_interval,
    student_p_value,
)
from maxsup.lab.experiments.study_files import study_path
from maxsup.lab.experiments.tuning import TUNED_FACTORS, TUNING_SEEDS, best_trial
from tools.evidence.first.contrasts import (
    SWEEPS,
    Word,
    by_numbers,
    finite,
    paired_values,
    pool_entry,
    width_sweep,
)
from tools.evidence.first.pools import TRIALS, Tables, read_tables, trial_scores
from tools.evidence.first.prose import filled

CLAIMS, SETTINGS, RESULTS = "claims.yaml", "settings.yaml", "results"


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
    caveat: str = ""
    note: str = ""


class Setting(Section):
    """What the runs behind a claim stand for; ``size`` is what a verdict must not be read without."""

    size: str
    scale: str
    limits: str


class Verdict(NamedTuple):
    """What the rule of the protocol says about a claim; numbers are in printed units, nan without enough pairs.

    ``low`` and ``high`` end the 95 % interval, ``equal_low`` and ``equal_high`` the 90 % interval that equality is
    judged by. ``exact_p`` is that of sign flips, ``difference_p`` that of Student's t test, ``equality_p`` the larger
    of two one-sided t tests against the margin. ``values`` are, for each pair, the seed and the numbers of both losses.
    """

    word: Word
    reason: str
    mean: float
    low: float
    high: float
    equal_low: float
    equal_high: float
    exact_p: float
    difference_p: float
    equality_p: float
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
                f"setting of claim {name!r} of {CLAIMS} must be one of {SETTINGS}; got {claim.setting!r}. "
                f"{hint(claim.setting, settings)}"
            )
        setting = validated(Setting, settings[claim.setting], source=f"setting {claim.setting} of {SETTINGS}")
        tuned = tuned_claim(claim, trials)
        try:
            names = {"name": name, "study": study_path(claim.label).stem}
        except ValueError as error:
            raise ValueError(f"label of claim {name} of {CLAIMS}: {error}") from None
        entry = {**names, **setting.model_dump(), **judged_entry(claim, tables)}
        entry["tuned"] = None if tuned is None else judged_entry(tuned, tables)
        entry["test_images"] = _test_images(claim, tables)
        entries.append(entry)
    _corrected(entries)
    for entry in entries:
        entry |= {key: filled(entry[key], tables, entries) for key in ("note", "limits")}
    return entries


def judged_entry(claim: Claim, tables: Tables) -> dict[str, Any]:
    """Return a claim and its verdict as plain values; ``is_about_equality`` says which test the verdict rests on."""
    found = verdict(claim, tables)
    is_about_equality = claim.direction == "equal" or found.word == "no difference within the margin"
    facts = {"has_enough_seeds": found.num_pairs >= MIN_SEEDS, "is_about_equality": is_about_equality}
    return claim.model_dump() | found._asdict() | facts


def _test_images(claim: Claim, tables: Tables) -> list[int]:
    """The sizes of the test splits behind a number, each once; none for numbers of other images."""
    if not claim.number.startswith("test."):
        return []
    return [int(n) for n in dict.fromkeys(n for pool in claim.pools for n in finite(tables.get(pool, []), "test.n"))]


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
    equal_low, equal_high = student_interval(found.differences, 2 * LEVEL)
    return Verdict(
        word,
        reason,
        mean=found.difference * claim.factor,
        low=found.low * claim.factor,
        high=found.high * claim.factor,
        equal_low=equal_low * claim.factor,
        equal_high=equal_high * claim.factor,
        exact_p=found.p,
        difference_p=student_p_value(found.differences),
        equality_p=found.equivalence_p,
        num_pairs=found.num_pairs,
        values=tuple((seed, a * claim.factor, b * claim.factor) for seed, a, b in zip(seeds, own, other, strict=True)),
    )


def _corrected(entries: Sequence[dict[str, Any]]) -> None:
    """Add Holm's correction to entries of claims: those with the same pools are a family.

    ``p`` is that of the test that the verdict rests on, ``holm_p`` the same after correction over the family.
    """
    for pools in dict.fromkeys(entry["pools"] for entry in entries):
        family = [entry for entry in entries if entry["pools"] == pools]
        tests = {key: [entry[key] for entry in family] for key in ("difference_p", "equality_p")}
        corrected = {key: holm(values) for key, values in tests.items()}
        for place, entry in enumerate(family):
            key = "equality_p" if entry["is_about_equality"] else "difference_p"
            entry |= {"p": entry[key], "holm_p": corrected[key][place], "num_family": len(family)}
            entry["holds_after_correction"] = entry["word"] != "inconclusive" and entry["holm_p"] <= LEVEL


def _judged(found: PairedComparison, claim: Claim) -> tuple[Word, str]:
    if found.num_pairs < MIN_SEEDS:
        return "inconclusive", f"{found.num_pairs} of at least {MIN_SEEDS} paired seeds"
    margin = claim.margin / claim.factor
    if claim.direction == "equal":
        if found.is_equivalent:
            return "confirmed", "no difference within the margin"
        if found.low > margin or found.high < -margin:
            return "not reproduced", "the interval lies outside the margin"
        return "inconclusive", "the 90 % interval reaches beyond the margin"
    low, high = (found.low, found.high) if claim.direction == "higher" else (-found.high, -found.low)
    if low > 0:
        small = ", and the difference is smaller than the margin" if found.is_equivalent else ""
        return "confirmed", f"the interval lies on the claimed side of 0{small}"
    if high < 0:
        return "not reproduced", "the interval lies on the other side of 0"
    if found.is_equivalent:
        return "no difference within the margin", "the 90 % interval lies inside the margin"
    return "inconclusive", "the interval holds 0, and the 90 % interval reaches beyond the margin"


def sweep_entries(folder: Path) -> list[dict[str, Any]]:
    """The sweeps over widths of a folder of evidence as plain values."""
    tables = read_tables(folder / RESULTS)
    return [{"title": title, **width_sweep(tables, prefix)} for prefix, title in SWEEPS.items()]


def pool_entries(folder: Path) -> list[dict[str, Any]]:
    """The pools of a folder of evidence as plain values: a row per loss, and ``contrast``, MaxSup minus LS."""
    tables, asked = read_tables(folder / RESULTS), dict[str, list[str]]()
    for claim in read_claims(folder).values():
        for pool in claim.pools:
            # Times are compared within a pool only, on the page of the claim.
            if not claim.number.startswith("timing."):
                asked.setdefault(pool, []).append(claim.number)
    return [pool_entry(pool, tables[pool], asked.get(pool, [])) for pool in sorted(tables, key=by_numbers)]
