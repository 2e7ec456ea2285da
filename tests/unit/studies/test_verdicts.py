"""The text under a table says what can be concluded, and what cannot."""

import math

import pytest

from maxsup.reports.summary import SummaryMetric
from maxsup.studies.statistics.paired import compare_losses
from maxsup.studies.verdicts import BOLD_RULE, verdict_sentences

ACCURACY = SummaryMetric(title="accuracy", unit="%", factor=100, digits=2)
BASE = [0.90, 0.91, 0.89, 0.90, 0.92, 0.90, 0.91, 0.89]


def text(values: dict[str, list[float]], **options) -> str:
    return "\n".join(verdict_sentences(compare_losses(values, "ce", **options), "ce", ACCURACY))


def shifted(amounts: list[float]) -> list[float]:
    return [base + amount for base, amount in zip(BASE, amounts, strict=False)]


def test_a_conclusive_difference_is_called_better_or_worse_by_the_direction() -> None:
    gain = {"ce": BASE[:6], "maxsup": shifted([0.01, 0.02, 0.015, 0.01, 0.02, 0.012])}
    assert "maxsup: accuracy is 1.45 points higher than with ce on average over 6 seeds" in text(gain)
    assert "Under this recipe it is better." in text(gain)
    assert "Under this recipe it is worse." in text(gain, direction="lower")
    assert "Under this recipe it is different." in text(gain, direction="none")


def test_a_difference_that_may_be_none_is_left_open_with_what_was_missed() -> None:
    found = text({"ce": BASE[:6], "ls": shifted([0.01, -0.01, 0.02, -0.02, 0.01, 0.0])})
    assert "No conclusion: no difference at all would fit these numbers too." in found
    assert "true differences below 2." in found
    assert "better" not in found


@pytest.mark.parametrize(("num_seeds", "least"), [(1, "1"), (3, "0.25"), (5, "0.0625")])
def test_few_seeds_conclude_nothing_however_large_the_difference(num_seeds: int, least: str) -> None:
    found = text({"ce": [0.1] * num_seeds, "maxsup": [0.9] * num_seeds})
    assert "nothing can be concluded from that" in found
    assert f"can give is {least}." in found
    assert "Under this recipe" not in found


def test_six_seeds_and_two_losses_are_leads_to_be_confirmed() -> None:
    up, down = shifted([0.02] * 6), shifted([-0.02] * 6)
    found = text({"ce": BASE[:6], "maxsup": up, "ls": down})
    assert "none of these differences stands after correction; with 6 seeds none can, 7 or more are needed" in found
    assert "Read maxsup and ls as leads to be confirmed." in found


def test_what_stands_after_correction_is_told_from_what_does_not() -> None:
    # Of 7 seeds: 2/128 * 3 passes 0.05, 4/128 * 2 does not.
    sure, weak = shifted([0.02] * 7), shifted([0.02, 0.02, 0.02, 0.02, 0.02, 0.02, -0.001])
    found = text({"ce": BASE[:7], "maxsup": sure, "ls": weak, "zipf_ls": shifted([0.001, -0.001] * 4)[:7]})
    assert "Taken together (3 comparisons, Holm): maxsup stands; ls does not." in found


def test_equal_within_a_margin_is_said_and_so_is_its_absence() -> None:
    near, far = shifted([0.001, -0.001, 0.002, -0.002, 0.001, 0.0]), shifted([0.03, -0.03, 0.02, -0.02, 0.04, -0.01])
    found = text({"ce": BASE[:6], "ls": near, "ols": far}, margin=0.005)
    assert "The two are equal within 0.50 points" in found
    assert "That they are equal within 0.50 points is not shown either" in found


def test_a_real_difference_below_the_margin_is_called_small() -> None:
    found = text({"ce": BASE[:6], "ls": shifted([0.001, 0.0011, 0.0012, 0.001, 0.0011, 0.0009])}, margin=0.005)
    assert "Under this recipe it is better. The difference is smaller than 0.50 points" in found


def test_missing_runs_are_mentioned() -> None:
    found = text({"ce": BASE[:7], "ls": [math.nan, *shifted([0.02] * 7)[1:]], "ols": [math.nan] * 7})
    assert "over 6 seeds" in found
    assert "1 seed is missing; runs that fail are seldom a random choice." in found
    assert "ols: no seed has both this loss and ce" in found


def test_an_exact_tie_is_called_equal() -> None:
    assert "ls: mean accuracy equals that of ce over 6 seeds" in text({"ce": BASE[:6], "ls": BASE[:6]})


def test_the_rule_of_bold_is_stated_for_the_page() -> None:
    assert "at least 6 paired seeds" in BOLD_RULE
    assert "excludes 0" in BOLD_RULE
