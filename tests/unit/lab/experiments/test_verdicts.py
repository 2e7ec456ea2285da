"""The text under a table says what can be concluded, and what cannot."""

import math

import pytest

from maxsup.lab.experiments.statistics import compare_losses
from maxsup.lab.experiments.verdicts import BOLD_RULE, conclusions, verdict_sentences
from maxsup.lab.reports.summary import SummaryLoss, SummaryMetric

ACCURACY = SummaryMetric(title="accuracy", unit="%", factor=100, digits=2)
BASE = [0.90, 0.91, 0.89, 0.90, 0.92, 0.90, 0.91, 0.89]

# Differences from the baseline, seed by seed.
GAIN = {"maxsup": [0.01, 0.02, 0.015, 0.01, 0.02, 0.012]}
OPEN = {"ls": [0.01, -0.01, 0.02, -0.02, 0.01, 0.0]}
BOTH = {"maxsup": [0.02] * 6, "ls": [-0.02] * 6}
# Of 7 seeds: 2/128 * 3 passes 0.05, 4/128 * 2 does not.
SURE_AND_WEAK = {"maxsup": [0.02] * 7, "ls": [0.02] * 6 + [-0.001], "zipf_ls": [0.001, -0.001] * 3 + [0.001]}
NEAR_AND_FAR = {"ls": [0.001, -0.001, 0.002, -0.002, 0.001, 0.0], "ols": [0.03, -0.03, 0.02, -0.02, 0.04, -0.01]}
SMALL = {"ls": [0.001, 0.0011, 0.0012, 0.001, 0.0011, 0.0009]}
MISSING = {"ls": [math.nan] + [0.02] * 6, "ols": [math.nan] * 7}


def text(differences: dict[str, list[float]], **options) -> str:
    [num_seeds] = {len(each) for each in differences.values()}
    losses = {
        loss: [base + each for base, each in zip(BASE, found, strict=False)] for loss, found in differences.items()
    }
    return "\n".join(
        verdict_sentences(compare_losses({"ce": BASE[:num_seeds], **losses}, "ce", **options), "ce", ACCURACY)
    )


@pytest.mark.parametrize(
    ("differences", "options", "sentence"),
    [
        (GAIN, {}, "maxsup: accuracy is 1.45 points higher than with ce on average over 6 seeds"),
        (GAIN, {}, "Under this recipe it is better."),
        (GAIN, {"direction": "lower"}, "Under this recipe it is worse."),
        (GAIN, {"direction": "none"}, "Under this recipe it is different."),
        (OPEN, {}, "No conclusion: no difference at all would fit these numbers too."),
        (OPEN, {}, "true differences below 2."),
        ({"maxsup": [0.8]}, {}, "nothing can be concluded from that: the smallest p that 1 seed can give is 1."),
        (
            {"maxsup": [0.8] * 3},
            {},
            "nothing can be concluded from that: the smallest p that 3 seeds can give is 0.25.",
        ),
        ({"maxsup": [0.8] * 5}, {}, "the smallest p that 5 seeds can give is 0.0625."),
        (BOTH, {}, "none of these differences stands after correction; with 6 seeds none can, 7 or more are needed"),
        (BOTH, {}, "Read maxsup and ls as leads to be confirmed."),
        (SURE_AND_WEAK, {}, "Taken together (3 comparisons, Holm): maxsup stands; ls does not."),
        (NEAR_AND_FAR, {"margin": 0.005}, "The two are equal within 0.50 points"),
        (NEAR_AND_FAR, {"margin": 0.005}, "That they are equal within 0.50 points is not shown either"),
        (SMALL, {"margin": 0.005}, "Under this recipe it is better. The difference is smaller than 0.50 points"),
        (MISSING, {}, "over 6 seeds"),
        (MISSING, {}, "1 seed is missing; runs that fail are seldom a random choice."),
        (MISSING, {}, "ols: no seed has both this loss and ce"),
        ({"ls": [0.0] * 6}, {}, "ls: mean accuracy equals that of ce over 6 seeds"),
    ],
)
def test_the_text_says_what_can_be_concluded(differences: dict[str, list[float]], options, sentence: str) -> None:
    assert sentence in text(differences, **options)


def test_nothing_is_called_better_without_enough_seeds_or_a_conclusion() -> None:
    assert "better" not in text(OPEN)
    assert "Under this recipe" not in text({"maxsup": [0.8] * 5})


def test_the_rule_of_bold_is_stated_for_the_page() -> None:
    assert "at least 6 paired seeds" in BOLD_RULE
    assert "excludes 0" in BOLD_RULE


def calibration_sentence(nll: float, nll_after: float, ece: float, ece_after: float, num_seeds: int = 6) -> list[str]:
    """What is said about differences of these sizes, each with a spread of 0.01 over the seeds."""
    metrics = [SummaryMetric(name=name, title=name.upper(), direction="lower") for name in ("nll", "ece")]
    metrics += [SummaryMetric(name=f"{each.name}_after", title=each.title, direction="lower") for each in metrics]
    entries = {}
    for name, shift in {"nll": nll, "nll_after": nll_after, "ece": ece, "ece_after": ece_after}.items():
        values = {
            "ls": BASE[:num_seeds],
            "maxsup": [v + shift + 0.01 * (-1) ** i for i, v in enumerate(BASE[:num_seeds])],
        }
        entries[name] = compare_losses(values, "ls", direction="lower")["maxsup"].model_dump()
    losses = [
        SummaryLoss(loss="maxsup", title="maxsup", metrics=entries),
        SummaryLoss(loss="ls", title="ls", is_baseline=True, metrics={}),
    ]
    return [each for each in conclusions(losses, metrics, "ls") if each.startswith("Calibration")]


def test_what_a_temperature_leaves_is_said_in_one_sentence() -> None:
    [sentence] = calibration_sentence(nll=0.0, nll_after=0.0, ece=0.05, ece_after=0.0)
    assert sentence.startswith("Calibration of maxsup against ls: less calibrated as trained (ECE +0.050 [")
    assert "; after a temperature no difference shown (ECE +0.000 [" in sentence
    [sentence] = calibration_sentence(nll=0.0, nll_after=-0.05, ece=-0.05, ece_after=0.05)
    assert ": better calibrated as trained (" in sentence
    assert "; after a temperature worse (ECE +0.050 [" in sentence
    assert ") and better (NLL -0.050 [" in sentence


def test_too_few_seeds_say_nothing_about_a_temperature() -> None:
    assert calibration_sentence(nll=0.0, nll_after=0.0, ece=0.05, ece_after=0.0, num_seeds=5) == []
