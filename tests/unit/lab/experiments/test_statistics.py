"""Paired statistics against scipy, against numbers worked out by hand, and against simulation."""

import json
import math

import numpy as np
import pytest
import scipy.stats

from maxsup.lab.experiments.statistics import (
    PairedComparison,
    compare_losses,
    detectable_difference,
    holm,
    paired_comparison,
    seeds_needed,
    smallest_p_value,
    student_interval,
)
from maxsup.metrics.facts import Direction

pytestmark = pytest.mark.slow

NULLS = {
    "normal": lambda dice, shape: dice.normal(size=shape),
    "heavy tails": lambda dice, shape: dice.standard_t(3, size=shape),
    "skewed runs": lambda dice, shape: dice.exponential(size=shape) - dice.exponential(size=shape),
    "coarse": lambda dice, shape: dice.integers(-3, 4, size=shape) / 359,
}


def intervals(differences: np.ndarray) -> np.ndarray:
    """The interval of every row: low ends, high ends."""
    return np.array([student_interval(row) for row in differences.tolist()]).T


def coverage(differences: np.ndarray) -> float:
    """The share of rows whose interval holds 0, their true mean."""
    low, high = intervals(differences)
    return float(((low <= 0) & (high >= 0)).mean())


# --- the interval


@pytest.mark.parametrize("num_seeds", [2, 6, 12, 20])
def test_the_interval_is_that_of_scipy(num_seeds: int) -> None:
    differences = np.random.default_rng(num_seeds).gamma(1.5, size=num_seeds)
    theirs = scipy.stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    found = paired_comparison(differences, np.zeros(num_seeds))
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize("num_seeds", [4, 6, 12])
def test_the_interval_covers_what_it_says_where_differences_are_normal(num_seeds: int) -> None:
    # Standard error 0.24 %.
    assert 0.94 <= coverage(np.random.default_rng(num_seeds).normal(size=(8000, num_seeds))) <= 0.965


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("heavy tails", 0.945, 0.975), ("skewed runs", 0.945, 0.975), ("coarse", 0.925, 0.96), ("skewed", 0.865, 0.91)],
)
def test_the_interval_covers_more_with_heavy_tails_and_less_where_differences_are_skewed(
    name: str, low: float, high: float
) -> None:
    draw = NULLS | {"skewed": lambda dice, shape: dice.exponential(size=shape) - 1}
    assert low <= coverage(draw[name](np.random.default_rng(6), (4000, 6))) <= high


def test_interval_and_bold_agree_whatever_p_is() -> None:
    differences = np.random.default_rng(3).normal(0.9, 1, (200, 6))
    found = [paired_comparison(row, np.zeros(6)) for row in differences]
    low, high = intervals(differences)
    assert [entry.is_conclusive for entry in found] == ((low > 0) | (high < 0)).tolist()
    assert 20 < sum(entry.is_conclusive for entry in found) < 180
    assert any(entry.is_conclusive and entry.p > 0.05 for entry in found)


# --- the sign-flip test


@pytest.mark.parametrize("num_seeds", [2, 5, 6, 11])
def test_the_exact_p_is_that_of_scipy(num_seeds: int) -> None:
    dice = np.random.default_rng(num_seeds)
    values, baseline = dice.normal(0.4, 1, num_seeds), dice.normal(0, 1, num_seeds)
    theirs = scipy.stats.permutation_test(
        (values, baseline),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    assert paired_comparison(values, baseline).p == pytest.approx(theirs.pvalue, abs=1e-12)


def test_the_p_of_three_is_worked_out_by_hand() -> None:
    # 1, 2, -1 sums to 2; of the 8 flips, +-(4), +-(2), +-(2), +-(0): six are at least 2 away from 0.
    assert paired_comparison([1, 2, -1], [0, 0, 0]).p == 6 / 8


def test_a_seed_without_a_difference_keeps_six_from_holding_after_correction() -> None:
    found = paired_comparison([1, 1, 1, 1, 1, 0], [0] * 6)
    assert found.p == 4 / 64
    assert found.is_conclusive
    assert not found.holds_after_correction


def test_p_does_not_depend_on_rounding_of_sums() -> None:
    # 0.1 + 0.2 is not 0.3 in binary; the flip that moves nothing must still count as equally far.
    assert paired_comparison([0.1, 0.2, -0.3, 0.6], [0.0] * 4).p == paired_comparison([1, 2, -3, 6], [0] * 4).p


def test_beyond_sixteen_seeds_flips_are_drawn_with_a_fixed_seed() -> None:
    differences = np.random.default_rng(1).normal(0.3, 1, 20)
    found, again = (paired_comparison(differences, np.zeros(20)).p for _ in range(2))
    exact = scipy.stats.permutation_test(
        (differences, np.zeros(20)), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=20_000, rng=0
    )
    assert found == again == pytest.approx(exact.pvalue, abs=0.02)


# --- cases at the edge


@pytest.mark.parametrize(("size", "is_conclusive"), [(0.25, True), (-0.25, True), (0.0, False)])
def test_equal_differences_have_an_interval_without_width(size: float, is_conclusive: bool) -> None:
    found = paired_comparison([0.5 + size] * 6, [0.5] * 6)
    assert (found.low, found.high, found.std_difference) == (size, size, 0.0)
    assert found.p == (2 / 64 if size else 1.0)
    assert found.is_conclusive is is_conclusive


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_one_seed_has_no_interval_and_two_have_a_wide_one(num_seeds: int) -> None:
    found = paired_comparison([2.0, 3.0][:num_seeds], [1.0, 1.0][:num_seeds])
    # Of 1 and 2: 1.5 less 12.7 (Student's quantile with one degree of freedom) times 0.5.
    assert found.low == pytest.approx(math.nan if num_seeds == 1 else 1.5 - 12.706 * 0.5, abs=1e-3, nan_ok=True)
    assert found.p == smallest_p_value(num_seeds)
    assert math.isnan(found.std_difference) == (num_seeds == 1)
    assert not found.is_conclusive


def test_a_missing_run_takes_its_pair_with_it_and_is_counted() -> None:
    values, baseline = [2.0, math.nan, 4.0, 5.0, math.inf], [1.0, 7.0, 1.0, math.nan, 1.0]
    found = paired_comparison(values, baseline)
    assert found.differences == (1.0, 3.0)
    assert found.num_missing == 3
    # The baseline's own mean is over all it has.
    assert found.baseline_mean == pytest.approx((1 + 7 + 1 + 1) / 4)


def test_no_pair_at_all_gives_nothing_but_nan() -> None:
    found = paired_comparison([math.nan, 1.0], [1.0, math.nan])
    assert all(math.isnan(number) for number in (found.difference, found.low, found.high, found.p))
    assert not found.is_conclusive


def test_the_result_can_be_written_as_json() -> None:
    found = paired_comparison([2.0], [1.0])
    written = json.loads(json.dumps(found.model_dump(mode="json"), allow_nan=False))
    assert written["low"] is None
    assert written["differences"] == [1.0]
    assert written["is_conclusive"] is False
    again = PairedComparison.model_validate(written)
    assert math.isnan(again.low)
    assert again.model_dump(mode="json") == written


@pytest.mark.parametrize(
    ("values", "direction", "finding"),
    [
        ([0.1] * 6, "higher", "better"),
        ([0.1] * 6, "lower", "worse"),
        ([0.1] * 6, "none", "higher"),
        ([-0.1] * 6, "none", "lower"),
        ([0.1] * 5, "higher", "too few seeds"),
        ([math.nan] * 6, "higher", "nothing"),
        ([0.001, -0.001] * 3, "higher", "equal"),
        ([1.0, -1.0] * 3, "higher", "open"),
    ],
)
def test_a_comparison_says_in_one_word_what_it_shows(values: list[float], direction: Direction, finding: str) -> None:
    assert paired_comparison(values, [0.0] * len(values), direction=direction, margin=0.01).finding() == finding


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([1, 2], [1]), {}, "one number for each seed"),
        (([1], [1]), {"direction": "up"}, "direction"),
        (([1], [1]), {"margin": 0.0}, "margin"),
        (([1], [1]), {"margin": math.nan}, "margin"),
    ],
)
def test_wrong_arguments_are_named(arguments, options, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        paired_comparison(*arguments, **options)


# --- direction, equivalence, several losses


def test_better_follows_the_direction() -> None:
    up = {name: paired_comparison([2.0] * 6, [1.0] * 6, direction=name) for name in ("higher", "lower", "none")}
    assert [up[name].is_better for name in ("higher", "lower", "none")] == [True, False, False]
    assert all(found.is_conclusive for found in up.values())


@pytest.mark.parametrize("sign", [1, -1])
def test_equivalence_is_two_one_sided_t_tests(sign: int) -> None:
    differences = sign * np.random.default_rng(5).normal(0.1, 0.3, 8)
    found = paired_comparison(differences, np.zeros(8), margin=0.4)
    above = scipy.stats.ttest_1samp(differences, -0.4, alternative="greater").pvalue
    below = scipy.stats.ttest_1samp(differences, 0.4, alternative="less").pvalue
    assert found.equivalence_p == pytest.approx(max(above, below), abs=1e-12)
    assert found.is_equivalent == (max(above, below) <= 0.05)


@pytest.mark.parametrize(("size", "p"), [(0.05, 0.0), (0.1, 1.0), (0.2, 1.0)])
def test_equal_differences_are_equivalent_inside_the_margin_only(size: float, p: float) -> None:
    assert paired_comparison([size] * 6, [0.0] * 6, margin=0.1).equivalence_p == p


def test_without_a_margin_nothing_is_equivalent() -> None:
    assert not paired_comparison([1.0] * 6, [1.0] * 6).is_equivalent


def test_holm_is_worked_out_by_hand_and_leaves_out_what_could_not_be_tested() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, never falling: 0.02, 0.03, 0.06, 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02], abs=1e-15)
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02, math.nan, 0.04]) == pytest.approx([0.04, math.nan, 0.04], nan_ok=True)


def test_losses_are_compared_with_the_baseline_and_corrected_together() -> None:
    values = {"ls": [2, 3, 4, 5, 6, 7, 8], "ce": [1, 2, 3, 4, 5, 6, 7.5], "maxsup": [1, 2, 3, 4, 5, 6, 9]}
    found = compare_losses(values, "ce")
    assert list(found) == ["ls", "maxsup"]
    assert found["ls"].p == 2 / 128
    assert found["ls"].adjusted_p == 4 / 128
    assert found["ls"].holds_after_correction
    assert found["maxsup"].adjusted_p == 1.0
    with pytest.raises(ValueError, match="Did you mean 'maxsup'"):
        compare_losses(values, "maxsub")


def test_six_seeds_cannot_pass_a_correction_for_two_losses() -> None:
    values = {"ce": [0.0] * 6, "ls": [1.0] * 6, "maxsup": [9.0] * 6}
    assert all(loss.is_conclusive and not loss.holds_after_correction for loss in compare_losses(values, "ce").values())
    seven = {name: numbers + numbers[:1] for name, numbers in values.items()}
    assert all(loss.holds_after_correction for loss in compare_losses(seven, "ce").values())


@pytest.mark.parametrize("num_comparisons", [1, 2, 3, 5, 8, 14])
def test_the_seeds_needed_are_the_fewest_that_can_pass(num_comparisons: int) -> None:
    num = seeds_needed(num_comparisons)
    assert num_comparisons * smallest_p_value(num) <= 0.05 < num_comparisons * smallest_p_value(num - 1)


# --- how often the rule finds what is there


def test_fewer_than_six_seeds_are_never_bold() -> None:
    dice = np.random.default_rng(0)
    for num_seeds in (1, 2, 3, 4, 5):
        for _ in range(20):
            assert not paired_comparison(dice.normal(50, 1, num_seeds), np.zeros(num_seeds)).is_conclusive


@pytest.mark.parametrize("num_seeds", [6, 8, 20])
def test_the_detectable_difference_is_found_in_four_cases_of_five(num_seeds: int) -> None:
    size = detectable_difference(1.0, num_seeds)
    bar = scipy.stats.t.ppf(0.975, num_seeds - 1)
    assert scipy.stats.nct.sf(bar, num_seeds - 1, size * math.sqrt(num_seeds)) == pytest.approx(0.8, abs=1e-3)
    low, high = intervals(size + np.random.default_rng(num_seeds).normal(size=(4000, num_seeds)))
    # Standard error 0.6 %.
    assert ((low > 0) | (high < 0)).mean() == pytest.approx(0.8, abs=0.02)


def test_what_seeds_can_show_needs_at_least_six_and_a_spread() -> None:
    assert detectable_difference(1.0, 5) == math.inf
    assert detectable_difference(0.0, 6) == 0.0
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="std_difference"):
            detectable_difference(wrong, 6)
    with pytest.raises(ValueError, match="num_comparisons"):
        seeds_needed(0)
