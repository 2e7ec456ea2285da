"""Sentences about a model, each with the number and the threshold behind it, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from maxsup.core.errors import counted
from maxsup.core.finding import Finding
from maxsup.diagnosis.smoothing import SMALLEST_ALPHA, SmoothingEstimate

MIN_ERRORS = 20
MIN_SAMPLES = 100
MIN_A_CLASS = 10
ECE_FINE, ECE_LARGE = 0.02, 0.05
EXCESS_CONFIDENCE = (0.05, 0.10)
AURC_GAIN = (0.05, 0.15)
PROBE_MARGIN = 0.02
# Of a share whose samples are all right or all wrong: no error among few does not mean none among many.
_LEAST_SPREAD = 0.01

# ResNet-50 on ImageNet-1K, validation images; the labels are those of the paper's tables.
REFERENCES: dict[str, tuple[float, float]] = {
    "CE": (0.3313, 0.4451),
    "LS": (0.2543, 0.4611),
    "OLS": (0.2820, 0.5708),
    "Zipf-LS": (0.2932, 0.4790),
    "MaxSup": (0.2998, 0.4972),
    "Logit penalty": (0.3144, 0.6024),
}
"""``within`` and ``r_squared`` by method."""
REFERENCE_SOURCE = "tab:feature2"
_MIN_CLASSES_TO_COMPARE = 100

Numbers = Mapping[str, Mapping[str, Any]]


def smoothing_finding(found: SmoothingEstimate, num_classes: int, recipe: str = "") -> Finding:
    """Whether label smoothing was used; ``recipe`` is what the run's own recipe says about it, if there is one."""
    if found.alpha is None:
        level, sentence = "unknown", f"Cannot tell whether label smoothing was used: {found.reason}."
        advice = "Give raw logits (no temperature, no averaging) of at least a thousand images, best of training."
        if found.possible is not None:
            low, high = found.possible
            sentence += (
                f" What leaves such a scale: label smoothing or MaxSup of strength {low:.3f} to {high:.3f}, images "
                "mixed in training (mixup, CutMix), or a temperature on the logits."
            )
            advice += " If no images were mixed, and these logits are raw, smoothing in that range is most likely."
    elif found.verdict == "none":
        level = "good"
        sentence = (
            f"No label smoothing: the strength is 0, at most {found.high:.3f} (it counts from {SMALLEST_ALPHA} on)."
        )
        advice = "Nothing to do; confidence may still be too high, see calibration."
    else:
        level = "note"
        sentence = (
            f"Trained with label smoothing or MaxSup of strength {found.alpha:.3f}, between {found.low:.3f} and "
            f"{found.high:.3f} (it counts from {SMALLEST_ALPHA} on)."
        )
        advice = (
            "Read on before you rely on its confidence. Logits alone do not say which of the two it was, as both have "
            "the same minimum on samples classified right. Written with epsilon/(K-1) for the other classes, epsilon "
            f"is {found.alpha * (num_classes - 1) / num_classes:.3f}."
        )
    said = f" The recipe says {recipe}." if recipe else ""
    return Finding("Label smoothing", level, sentence, advice + said, found.alpha, SMALLEST_ALPHA)


def confidence_finding(numbers: Numbers, num_wrong: int) -> Finding:
    """How sure the model is where it is wrong."""
    topic = "Confidence on errors"
    if num_wrong < MIN_ERRORS:
        return _too_few_errors(topic, num_wrong)
    value, usual = numbers["confidence_wrong"]["value"], numbers["confidence_wrong_if_calibrated"]["value"]
    allowed, much = EXCESS_CONFIDENCE
    excess = value - usual
    level, judgement, advice, threshold = "good", "", "Nothing to do.", usual + allowed
    if excess > allowed:
        level, judgement = "error" if excess > much else "warning", ": errors look too certain"
        advice = (
            "Do not filter errors by this confidence as it stands; use the temperature below, or train with MaxSup or "
            "label smoothing and compare (maxsup train RECIPE loss.name=maxsup)."
        )
    elif excess < -allowed:
        level, judgement, threshold = "note", ": errors look less certain than they should", usual - allowed
        advice = (
            "Thresholds on confidence that were chosen for another model do not carry over; choose them anew on "
            "held-out data, after the temperature below."
        )
    sentence = (
        f"Wrong predictions have a mean confidence of {value:.3f}, where a calibrated model with the same confidences "
        f"would have {usual:.3f} (up to {allowed} more is fine){judgement}."
    )
    return Finding(topic, level, sentence, advice, value, threshold)


def calibration_finding(numbers: Numbers, how_fitted: str, num_samples: int) -> Finding:
    """Calibration of all samples, and what a temperature changes on those it was not fitted on."""
    if num_samples < MIN_SAMPLES:
        return _too_few("Calibration", f"{num_samples} samples", str(MIN_SAMPLES), num_samples, MIN_SAMPLES)
    ece, low, high = (numbers["ece"][name] for name in ("value", "low", "high"))
    before, after, chance, temperature, confidence, accuracy = (
        numbers[name]["value"]
        for name in ("ece_before", "ece_after", "ece_if_calibrated", "temperature", "mean_confidence", "accuracy")
    )
    # A few samples have a calibration error by chance alone; what chance explains is no finding.
    limit = max(ECE_FINE, chance)
    sure = confidence - accuracy
    level = "error" if ece > max(ECE_LARGE, chance) else "warning" if ece > limit else "good"
    why = ", which chance alone can give so few samples" if chance > ECE_FINE else ""
    sentence = (
        f"The calibration error is {ece:.3f}, between {low:.3f} and {high:.3f} (up to {limit:.3f} is fine{why}), the "
        f"model {'over' if sure > 0 else 'under'}-confident by {abs(sure):.3f} on average; a temperature of "
        f"{temperature:.2f}, {how_fitted}, changes it from {before:.3f} to {after:.3f} where it is judged."
    )
    advice = "One temperature does not repair this; look at the reliability diagram and calibrate by class or region."
    if level == "good":
        advice = "Nothing to do."
    elif after < 0.7 * before:
        advice = (
            f"Divide the logits by {temperature:.2f} before the softmax: predictions stay the same, and probabilities "
            "can be used."
        )
    return Finding("Calibration", level, sentence, advice, ece, limit)


def selection_finding(numbers: Numbers, power: int | None, num_wrong: int, how_fitted: str) -> Finding:
    """Whether confidence tells errors, before and after logit normalisation."""
    topic = "Selective classification"
    if num_wrong < MIN_ERRORS:
        return _too_few_errors(topic, num_wrong)
    before, after = numbers["aurc_before"]["value"], numbers["aurc_after"]["value"]
    some, much = AURC_GAIN
    if power is None:
        sentence = (
            f"No logit norm, {how_fitted}, ranks errors better than the softmax does (AURC {before:.4f}; a gain of "
            f"{some:.0%} would count)."
        )
        advice = "Nothing to do: the order of confidences is as good as normalisation makes it."
        return Finding(topic, "good", sentence, advice, 0.0, some)
    gain = (before - after) / before if before > 0 else 0.0
    level, judgement, advice = "good", "", "Nothing to do: the softmax ranks errors about as well."
    if gain > some:
        level = "error" if gain > much else "warning"
        judgement = ": the softmax hides errors that the logits would show, a known effect of label smoothing"
        score = f"max(z - mean z) / ||z - mean z||_{power}"
        advice = f"Reject by {score} in place of the top probability; no training is needed."
    sentence = (
        f"Ranking by mean-centred logits over their {power}-norm, {how_fitted}, changes AURC from {before:.4f} to "
        f"{after:.4f}, a gain of {gain:.1%} (from {some:.0%} on it counts){judgement}."
    )
    return Finding(topic, level, sentence, advice, gain, some)


def collapse_finding(numbers: Numbers, num_classes: int, num_a_class: int) -> Finding:
    """How much features vary within classes, against the paper's values."""
    if "within" not in numbers:
        return _too_few_a_class("Collapse", num_a_class)
    within, r_squared = numbers["within"]["value"], numbers["r_squared"]["value"]
    smoothed, plain, maxsup = (REFERENCES[name][0] for name in ("LS", "CE", "MaxSup"))
    is_low = within < smoothed
    is_comparable = num_classes >= _MIN_CLASSES_TO_COMPARE
    sentence = (
        f"Features vary within classes by {within:.3f} (mean cosine distance; r_squared {r_squared:.3f}), "
        f"{'less' if is_low else 'not less'} than {smoothed} with label smoothing, {maxsup} with MaxSup and {plain} "
        f"without (ResNet-50 on ImageNet validation images, {REFERENCE_SOURCE} of the paper)."
    )
    advice = (
        "Only the same network on the same data, trained with plain cross-entropy, says how much of this is the loss: "
        "maxsup analyze RUN RUN --what collapse."
    )
    if is_low and is_comparable:
        advice = "Expect weaker transfer; probe the features on another task before reusing them. " + advice
    level = ("warning" if is_low else "good") if is_comparable else "note"
    return Finding("Collapse", level, sentence, advice, within, smoothed)


def probe_finding(numbers: Numbers, num_classes: int, num_a_class: int) -> Finding:
    """Whether a fresh classifier finds the classes in the features."""
    if "probe_accuracy" not in numbers:
        return _too_few_a_class("Probe", num_a_class)
    num_judged, num_probed = (int(numbers[name]["value"]) for name in ("num_probe_judged", "num_probe_classes"))
    own, probe, knn = (numbers[name]["value"] for name in ("accuracy_judged", "probe_accuracy", "knn_accuracy"))
    among = f", among the {num_probed} most frequent classes," if num_probed < num_classes else ""
    # Twice the standard error of the difference of two shares of so few samples.
    spread = sum(max(share * (1 - share), _LEAST_SPREAD) for share in (own, probe))
    margin = max(PROBE_MARGIN, 2 * math.sqrt(spread / num_judged))
    sentence = (
        f"A linear probe, fitted on half of the features and judged on the other, reaches{among} {probe:.1%} and 20 "
        f"nearest neighbours reach {knn:.1%}, where the model has {own:.1%} (up to {margin:.1%} less is fine)."
    )
    level = "warning" if own - probe > margin or own - knn > 2 * margin else "good"
    advice = (
        "The classes are in the features; whether more is, another task tells: "
        "maxsup analyze RUN --what probe probe.target=DATA."
        if level == "good"
        else "The features alone say less than the model: check that they are the input of the last layer, and use the "
        "logits where neighbours are searched."
    )
    return Finding("Probe", level, sentence, advice, probe, own - margin)


def _too_few_errors(topic: str, num_wrong: int) -> Finding:
    advice = "Give more or harder held-out samples."
    return _too_few(topic, f"{num_wrong} wrong predictions", str(MIN_ERRORS), num_wrong, MIN_ERRORS, advice)


def _too_few_a_class(topic: str, num_a_class: int) -> Finding:
    given = f"about {counted(num_a_class, 'sample')} a class"
    return _too_few(topic, given, f"{MIN_A_CLASS} a class and {MIN_SAMPLES} in all", num_a_class, MIN_A_CLASS)


def _too_few(
    topic: str, given: str, needed: str, value: int, threshold: int, advice: str = "Give more held-out samples."
) -> Finding:
    sentence = f"Cannot tell from {given}; at least {needed} are needed."
    return Finding(topic, "unknown", sentence, advice, float(value), float(threshold))
