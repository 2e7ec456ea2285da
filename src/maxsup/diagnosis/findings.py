"""Sentences about a model, each with the number and the threshold behind it, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

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
    """Whether label smoothing was used.

    Args:
        found: The estimate.
        num_classes: Of the model.
        recipe: What the run's recipe says, where there is one.
    """
    topic = "Label smoothing"
    said = f" The recipe says {recipe}." if recipe else ""
    if found.alpha is None:
        return Finding(
            topic,
            "unknown",
            f"Cannot tell whether label smoothing was used: {found.reason}.",
            f"Give raw logits (no temperature, no averaging) of at least a thousand images, best of training.{said}",
            None,
            SMALLEST_ALPHA,
        )
    if found.verdict == "none":
        return Finding(
            topic,
            "good",
            f"No label smoothing: the strength is 0, at most {found.high:.3f} (it counts from {SMALLEST_ALPHA} on).",
            f"Nothing to do; confidence may still be too high, see calibration.{said}",
            found.alpha,
            SMALLEST_ALPHA,
        )
    epsilon = found.alpha * (num_classes - 1) / num_classes
    return Finding(
        topic,
        "note",
        f"Trained with label smoothing or MaxSup of strength {found.alpha:.3f}, between {found.low:.3f} and "
        f"{found.high:.3f} (it counts from {SMALLEST_ALPHA} on).",
        "Read on before you rely on its confidence. Logits alone do not say which of the two it was, as both have the "
        "same minimum on samples classified right. Written with epsilon/(K-1) for the other classes, epsilon is "
        f"{epsilon:.3f}.{said}",
        found.alpha,
        SMALLEST_ALPHA,
    )


def confidence_finding(numbers: Numbers, num_wrong: int) -> Finding:
    """How sure the model is where it is wrong."""
    topic = "Confidence on errors"
    if num_wrong < MIN_ERRORS:
        return _too_few_errors(topic, num_wrong)
    value, usual = numbers["confidence_wrong"]["value"], numbers["confidence_wrong_if_calibrated"]["value"]
    allowed, much = EXCESS_CONFIDENCE
    excess = value - usual
    sentence = (
        f"Wrong predictions have a mean confidence of {value:.3f}, where a calibrated model with the same confidences "
        f"would have {usual:.3f} (up to {allowed} more is fine)"
    )
    if excess > allowed:
        return Finding(
            topic,
            "error" if excess > much else "warning",
            f"{sentence}: errors look too certain.",
            "Do not filter errors by this confidence as it stands; use the temperature below, or train with MaxSup or "
            "label smoothing and compare (maxsup train RECIPE loss.name=maxsup).",
            value,
            usual + allowed,
        )
    if excess < -allowed:
        return Finding(
            topic,
            "note",
            f"{sentence}: errors look less certain than they should.",
            "Thresholds on confidence that were chosen for another model do not carry over; choose them anew on "
            "held-out data, after the temperature below.",
            value,
            usual - allowed,
        )
    return Finding(topic, "good", f"{sentence}.", "Nothing to do.", value, usual + allowed)


def calibration_finding(numbers: Numbers, how_fitted: str, num_samples: int) -> Finding:
    """Calibration of all samples, and what a temperature changes on those it was not fitted on."""
    if num_samples < MIN_SAMPLES:
        return _too_few("Calibration", f"{num_samples} samples", str(MIN_SAMPLES), num_samples, MIN_SAMPLES)
    found, before, after = (numbers[name] for name in ("ece", "ece_before", "ece_after"))
    # Few samples have an error by chance alone; what chance explains is no finding.
    chance = numbers["ece_if_calibrated"]["value"]
    limit = max(ECE_FINE, chance)
    temperature = numbers["temperature"]["value"]
    sure = numbers["mean_confidence"]["value"] - numbers["accuracy"]["value"]
    kind = "over-confident" if sure > 0 else "under-confident"
    level = "error" if found["value"] > max(ECE_LARGE, chance) else "warning" if found["value"] > limit else "good"
    why = ", which chance alone can give so few samples" if chance > ECE_FINE else ""
    sentence = (
        f"The calibration error is {found['value']:.3f}, between {found['low']:.3f} and {found['high']:.3f} (up to "
        f"{limit:.3f} is fine{why}), the model {kind} by {abs(sure):.3f} on average; a temperature of "
        f"{temperature:.2f}, {how_fitted}, changes it from {before['value']:.3f} to {after['value']:.3f} where it is "
        "judged."
    )
    if level == "good":
        advice = "Nothing to do."
    elif after["value"] < 0.7 * before["value"]:
        advice = (
            f"Divide the logits by {temperature:.2f} before the softmax: predictions stay the same, and probabilities "
            "can be used."
        )
    else:
        advice = (
            "One temperature does not repair this; look at the reliability diagram and calibrate by class or region."
        )
    return Finding("Calibration", level, sentence, advice, found["value"], limit)


def selection_finding(numbers: Numbers, power: int | None, num_wrong: int, how_fitted: str) -> Finding:
    """Whether confidence tells errors, before and after logit normalisation."""
    topic = "Selective classification"
    if num_wrong < MIN_ERRORS:
        return _too_few_errors(topic, num_wrong)
    before, after = numbers["aurc_before"]["value"], numbers["aurc_after"]["value"]
    gain = (before - after) / before if before > 0 else 0.0
    some, much = AURC_GAIN
    if power is None:
        return Finding(
            topic,
            "good",
            f"No logit norm, {how_fitted}, ranks errors better than the softmax does (AURC {before:.4f}; a gain of "
            f"{some:.0%} would count).",
            "Nothing to do: the order of confidences is as good as normalisation makes it.",
            0.0,
            some,
        )
    sentence = (
        f"Ranking by mean-centred logits over their {power}-norm, {how_fitted}, changes AURC from {before:.4f} to "
        f"{after:.4f}, a gain of {gain:.1%} (from {some:.0%} on it counts)"
    )
    if gain <= some:
        return Finding(
            topic, "good", f"{sentence}.", "Nothing to do: the softmax ranks errors about as well.", gain, some
        )
    return Finding(
        topic,
        "error" if gain > much else "warning",
        f"{sentence}: the softmax hides errors that the logits would show, as label smoothing is known to make it.",
        f"Reject by max(z - mean z) / ||z - mean z||_{power} in place of the top probability; no training is needed.",
        gain,
        some,
    )


def collapse_finding(numbers: Numbers, num_classes: int, num_a_class: int) -> Finding:
    """How much features vary within classes, against the paper's values."""
    if "within" not in numbers:
        return _too_few_a_class("Collapse", num_a_class)
    within, r_squared = numbers["within"]["value"], numbers["r_squared"]["value"]
    smoothed, plain, maxsup = (REFERENCES[name][0] for name in ("LS", "CE", "MaxSup"))
    compared = (
        f"{smoothed} with label smoothing, {maxsup} with MaxSup and {plain} without (ResNet-50 on ImageNet validation "
        f"images, {REFERENCE_SOURCE} of the paper)"
    )
    is_low = within < smoothed
    is_comparable = num_classes >= _MIN_CLASSES_TO_COMPARE
    level = ("warning" if is_low else "good") if is_comparable else "note"
    advice = (
        "Only the same network on the same data, trained with plain cross-entropy, says how much of this is the loss: "
        "maxsup analyze RUN RUN --what collapse."
    )
    if is_low and is_comparable:
        advice = "Expect weaker transfer; probe the features on another task before reusing them. " + advice
    return Finding(
        "Collapse",
        level,
        f"Features vary within classes by {within:.3f} (mean cosine distance; r_squared {r_squared:.3f}), "
        f"{'less' if is_low else 'not less'} than {compared}.",
        advice,
        within,
        smoothed,
    )


def probe_finding(numbers: Numbers, num_classes: int, num_a_class: int) -> Finding:
    """Whether a fresh classifier finds the classes in the features."""
    if "probe_accuracy" not in numbers:
        return _too_few_a_class("Probe", num_a_class)
    num_judged = int(numbers["num_probe_judged"]["value"])
    num_probed = int(numbers["num_probe_classes"]["value"])
    among = f", among the {num_probed} most frequent classes," if num_probed < num_classes else ""
    own, probe, knn = (numbers[name]["value"] for name in ("accuracy_judged", "probe_accuracy", "knn_accuracy"))
    # Twice the standard error of the difference of two shares of so few samples.
    spread = sum(max(share * (1 - share), _LEAST_SPREAD) for share in (own, probe))
    margin = max(PROBE_MARGIN, 2 * math.sqrt(spread / num_judged))
    short = own - probe
    sentence = (
        f"A linear probe, fitted on half of the features and judged on the other, reaches{among} {probe:.1%} and 20 "
        f"nearest neighbours reach {knn:.1%}, where the model has {own:.1%} (up to {margin:.1%} less is fine)"
    )
    if short > margin or own - knn > 2 * margin:
        return Finding(
            "Probe",
            "warning",
            f"{sentence}.",
            "The features alone say less than the model: check that they are the input of the last layer, and use the "
            "logits where neighbours are searched.",
            probe,
            own - margin,
        )
    return Finding(
        "Probe",
        "good",
        f"{sentence}.",
        "The classes are in the features; whether more is, another task tells: "
        "maxsup analyze RUN --what probe probe.target=DATA.",
        probe,
        own - margin,
    )


def _too_few_errors(topic: str, num_wrong: int) -> Finding:
    return _too_few(topic, f"{num_wrong} wrong predictions", str(MIN_ERRORS), num_wrong, MIN_ERRORS)


def _too_few_a_class(topic: str, num_a_class: int) -> Finding:
    needed = f"{MIN_A_CLASS} a class and {MIN_SAMPLES} in all"
    return _too_few(
        topic, f"about {num_a_class} sample{'' if num_a_class == 1 else 's'} a class", needed, num_a_class, MIN_A_CLASS
    )


def _too_few(topic: str, given: str, needed: str, value: int, threshold: int) -> Finding:
    return Finding(
        topic,
        "unknown",
        f"Cannot tell from {given}; at least {needed} are needed.",
        "Give more held-out samples." if "wrong" not in given else "Give more or harder held-out samples.",
        float(value),
        float(threshold),
    )
