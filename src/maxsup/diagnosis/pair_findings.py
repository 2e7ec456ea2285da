"""What differs between two models on the same images, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxsup.core.finding import Finding
from maxsup.diagnosis.findings import too_few
from maxsup.diagnosis.novelty_findings import TOPIC as OTHER_IMAGES
from maxsup.metrics.paired import MIN_PAIRED, McNemar

SIGNIFICANT = 0.05
_CALIBRATED = ("better calibrated", "less well calibrated")
_NOTICED = ("it notices more", "it notices less")
_MORE = "Give more images of another kind."
_FPR = "fpr95_max_probability"

Numbers = Mapping[str, Mapping[str, Any]]


def pair_findings(
    first: str, second: str, numbers: Numbers, test: McNemar, cka: float | None, num_samples: int
) -> list[Finding]:
    """Report how the second model differs from the first. ``numbers`` are differences with their intervals."""
    found = [
        _accuracy(first, second, numbers, test, num_samples),
        _calibration(first, second, numbers),
        _confidence(first, second, numbers),
        _ranking(first, second, numbers),
    ]
    return found if cka is None else [*found, _features(first, second, cka)]


def differs(number: Mapping[str, Any]) -> bool:
    """Return whether the interval of a difference excludes 0."""
    low, high = number.get("low"), number.get("high")
    return low is not None and high is not None and not low <= 0 <= high and low == low


def _accuracy(first: str, second: str, numbers: Numbers, test: McNemar, num_samples: int) -> Finding:
    value, low, high = (100 * numbers["accuracy"][key] for key in ("value", "low", "high"))
    is_sure = test.p_value < SIGNIFICANT
    sentence = (
        f"On the same {num_samples:,} images the accuracy of {second} differs from that of {first} by {value:+.2f} "
        f"points, between {low:+.2f} and {high:+.2f}: {_verdict('more accurate', 'less accurate', value, is_sure)}. "
        f"Only {second} is right on {test.only_second:,} images, only {first} on {test.only_first:,} (McNemar's exact "
        f"test: p = {test.p_value:.2g})."
    )
    advice = "One training run each: another seed may differ by as much." if is_sure else "Judge on more images."
    return Finding("Accuracy", "note" if is_sure else "unknown", sentence, advice, test.p_value, SIGNIFICANT)


def _calibration(first: str, second: str, numbers: Numbers) -> Finding:
    raw, before, after, nll = (numbers[name] for name in ("ece", "ece_before", "ece_after", "nll_after"))
    # The sentence is about calibration: a lower error is better calibrated.
    words = _verdict(*_CALIBRATED, -raw["value"], differs(raw))
    sentence = (
        f"As trained, the calibration error of {second} differs from that of {first} by {_shown(raw)}: {words}. After "
        f"a temperature of its own for each, fitted on one half and evaluated on the other, it differs by "
        f"{_shown(after)} (before: {_shown(before)}), and the NLL by {_shown(nll)}: "
        f"{_verdict(*_CALIBRATED, -after['value'], differs(after))} after a temperature."
    )
    is_sure = differs(raw) or differs(after)
    advice = (
        "Whoever fits a temperature before deployment should choose by the second half of the sentence."
        if is_sure
        else "Choose by something else."
    )
    return Finding("Calibration", "note" if is_sure else "unknown", sentence, advice, raw["value"], 0.0)


def _confidence(first: str, second: str, numbers: Numbers) -> Finding:
    wrong, right, gap = (numbers[f"confidence_{name}"] for name in ("wrong", "correct", "gap"))
    if wrong["value"] != wrong["value"]:
        sentence = f"Cannot tell how confident errors are: {first} or {second} has none."
        return Finding("Confidence on errors", "unknown", sentence, "Give harder images.")
    change = "widens" if gap["value"] > 0 else "narrows"
    sentence = (
        f"On errors the mean confidence of {second} differs from that of {first} by {_shown(wrong)}, on right "
        f"predictions by {_shown(right)}: the gap between the two {change if differs(gap) else 'does not change'} "
        f"({_shown(gap)})."
    )
    advice = (
        "A lower confidence on errors helps only as far as the gap widens; confidence that falls everywhere is what "
        "more smoothing does."
    )
    return Finding(
        "Confidence on errors", "note" if differs(wrong) else "unknown", sentence, advice, wrong["value"], 0.0
    )


def _ranking(first: str, second: str, numbers: Numbers) -> Finding:
    aurc = numbers["aurc"]
    sentence = (
        f"The risk averaged over coverage (AURC) of {second} differs from that of {first} by {_shown(aurc, 4)}: "
        f"{_verdict('fewer errors', 'more errors', -aurc['value'], differs(aurc))} when the least confident "
        "predictions are rejected."
    )
    return Finding(
        "Selective classification", "note" if differs(aurc) else "unknown", sentence, "See risk and coverage below."
    )


def _features(first: str, second: str, cka: float) -> Finding:
    sentence = (
        f"The features of {second} and {first} have a linear CKA of {cka:.3f} (1: equal up to rotation and scale; two "
        "trainings of one recipe that differ in the seed alone are the scale to read it on)."
    )
    return Finding("Features", "note", sentence, "Train one of them with another seed to have that scale.", cka)


def novelty_pair_finding(first: str, second: str, numbers: Numbers, num_others: int) -> Finding:
    """Report which of two models notices images of another kind; the scores are the top probability and the energy."""
    if num_others < MIN_PAIRED:
        return too_few(OTHER_IMAGES, f"{num_others} other images", str(MIN_PAIRED), num_others, MIN_PAIRED, _MORE)
    usual, energy, rejected = (numbers[f"ood_{name}"] for name in ("auroc_max_probability", "auroc_energy", _FPR))
    sentence = (
        f"In telling {num_others:,} other images from its own, the AUROC of the top probability of {second} differs "
        f"from that of {first} by {_shown(usual)}: {_verdict(*_NOTICED, usual['value'], differs(usual))}. That of the "
        f"energy differs by {_shown(energy)}: {_verdict(*_NOTICED, energy['value'], differs(energy))}. The share of "
        f"its own images that is rejected with 95 % of the others differs by {_shown(rejected)}."
    )
    is_sure = differs(usual) or differs(energy)
    advice = "Choose by the score that rejects images in use." if is_sure else "Judge on more images."
    return Finding(OTHER_IMAGES, "note" if is_sure else "unknown", sentence, advice, usual["value"], 0.0)


def _shown(number: Mapping[str, Any], digits: int = 3) -> str:
    value, low, high = (number.get(key, float("nan")) for key in ("value", "low", "high"))
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def _verdict(better: str, worse: str, gain: float, is_sure: bool) -> str:
    if not is_sure:
        return "no difference that these images show"
    return better if gain > 0 else worse
