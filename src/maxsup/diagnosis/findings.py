"""Turn the numbers of a diagnosis into findings: a sentence, its number and threshold, and what to do next."""

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
# Smallest variance of a share: no error among few samples does not mean none among many.
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
    """Report whether label smoothing was used. ``recipe`` describes the run's own recipe, if there is one."""
    if found.alpha is None:
        level, sentence = "unknown", f"Cannot tell whether label smoothing was used: {found.reason}."
        advice = "Give raw logits (no temperature, no averaging) of at least 1,000 images, preferably training images."
        if found.possible is not None:
            low, high = found.possible
            sentence += (
                f" Such a scale comes from label smoothing or MaxSup of strength {low:.3f} to {high:.3f}, from images "
                "mixed in training (mixup, CutMix), or from a temperature on the logits."
            )
            advice += " If no images were mixed and these logits are raw, smoothing in that range is most likely."
    elif found.verdict == "none":
        level = "good"
        sentence = (
            f"No sign of label smoothing: the estimated alpha is 0, at most {found.high:.3f} (reported from "
            f"{SMALLEST_ALPHA} on)."
        )
        advice = "Nothing to do; confidence may still be too high, see calibration."
    else:
        level = "note"
        sentence = (
            f"Trained with label smoothing or MaxSup: the estimated alpha is {found.alpha:.3f}, between "
            f"{found.low:.3f} and {found.high:.3f} (reported from {SMALLEST_ALPHA} on)."
        )
        advice = (
            "Read on before you rely on its confidence. Logits alone cannot tell the two apart, as both have the same "
            "minimum on correctly classified samples. Written with epsilon/(K-1) for the other classes, epsilon is "
            f"{found.alpha * (num_classes - 1) / num_classes:.3f}."
        )
    said = f" The recipe says {recipe}." if recipe else ""
    return Finding("Label smoothing", level, sentence, advice + said, found.alpha, SMALLEST_ALPHA)


def confidence_finding(numbers: Numbers, num_wrong: int) -> Finding:
    """Report how confident the model is on its errors."""
    topic = "Confidence on errors"
    if num_wrong < MIN_ERRORS:
        return _too_few_errors(topic, num_wrong)
    value, usual = numbers["confidence_wrong"]["value"], numbers["confidence_wrong_if_calibrated"]["value"]
    allowed, much = EXCESS_CONFIDENCE
    excess = value - usual
    level, judgement, advice, threshold = "good", "", "Nothing to do.", usual + allowed
    if excess > allowed:
        level, judgement = "error" if excess > much else "warning", ": the model is overconfident on errors"
        advice = (
            "Do not filter errors by this raw confidence; use the temperature below, or train with MaxSup or label "
            "smoothing and compare (maxsup train RECIPE loss.name=maxsup)."
        )
    elif excess < -allowed:
        level, judgement, threshold = "note", ": the model is underconfident on errors", usual - allowed
        advice = (
            "Confidence thresholds chosen for another model do not carry over; choose them again on held-out data, "
            "after the temperature below."
        )
    sentence = (
        f"Wrong predictions have a mean confidence of {value:.3f}; a calibrated model with the same confidences would "
        f"have {usual:.3f} (up to {allowed} more is fine){judgement}."
    )
    return Finding(topic, level, sentence, advice, value, threshold)


def calibration_finding(numbers: Numbers, how_fitted: str, num_samples: int) -> Finding:
    """Report the calibration of all samples, and the effect of a temperature on samples it was not fitted on."""
    if num_samples < MIN_SAMPLES:
        return too_few("Calibration", f"{num_samples} samples", str(MIN_SAMPLES), num_samples, MIN_SAMPLES)
    ece, low, high = (numbers["ece"][name] for name in ("value", "low", "high"))
    before, after, chance, temperature, confidence, accuracy = (
        numbers[name]["value"]
        for name in ("ece_before", "ece_after", "ece_if_calibrated", "temperature", "mean_confidence", "accuracy")
    )
    # Few samples have a calibration error by chance alone, and chance is no finding.
    limit = max(ECE_FINE, chance)
    sure = confidence - accuracy
    level = "error" if ece > max(ECE_LARGE, chance) else "warning" if ece > limit else "good"
    why = ", which chance alone explains with so few samples" if chance > ECE_FINE else ""
    sentence = (
        f"The calibration error is {ece:.3f}, between {low:.3f} and {high:.3f} (up to {limit:.3f} is fine{why}), the "
        f"model {'over' if sure > 0 else 'under'}-confident by {abs(sure):.3f} on average; a temperature of "
        f"{temperature:.2f}, {how_fitted}, changes it from {before:.3f} to {after:.3f} on the evaluated samples"
    )
    loss, refinement, part = (numbers[f"nll_{when}"]["value"] for when in ("before", "after", "calibration"))
    if part > 0:
        sentence += f" and removes {part:.3f} of the NLL of {loss:.3f}; {refinement:.3f} remain"
    sentence += "."
    advice = "One temperature does not repair this; look at the reliability diagram and calibrate by class or region."
    if level == "good":
        advice = "Nothing to do."
    elif after < 0.7 * before:
        advice = (
            f"Divide the logits by {temperature:.2f} before the softmax: predictions stay the same, and the "
            "probabilities are better calibrated."
        )
    return Finding("Calibration", level, sentence, advice, ece, limit)


def selection_finding(numbers: Numbers, power: int | None, num_wrong: int, how_fitted: str) -> Finding:
    """Report how well confidence ranks errors, before and after logit normalisation."""
    topic = "Selective classification"
    if num_wrong < MIN_ERRORS:
        return _too_few_errors(topic, num_wrong)
    before, after = numbers["aurc_before"]["value"], numbers["aurc_after"]["value"]
    some, much = AURC_GAIN
    if power is None:
        sentence = (
            f"Normalising the logits, {how_fitted}, does not rank errors better than the softmax (AURC {before:.4f}; "
            f"a gain of {some:.0%} would count)."
        )
        advice = "Nothing to do: normalisation would not improve the ranking."
        return Finding(topic, "good", sentence, advice, 0.0, some)
    gain = (before - after) / before if before > 0 else 0.0
    level, judgement, advice = "good", "", "Nothing to do: the softmax ranks errors about as well."
    if gain > some:
        level = "error" if gain > much else "warning"
        judgement = ": the softmax hides errors that the logits reveal, a known effect of label smoothing"
        score = f"max(z - mean z) / ||z - mean z||_{power}"
        advice = f"Reject by {score} instead of the top probability; no training is needed."
    sentence = (
        f"Ranking by mean-centred logits over their {power}-norm, {how_fitted}, changes AURC from {before:.4f} to "
        f"{after:.4f}, a gain of {gain:.1%} (above {some:.0%} it counts){judgement}."
    )
    return Finding(topic, level, sentence, advice, gain, some)


def collapse_finding(numbers: Numbers, num_classes: int, num_a_class: int) -> Finding:
    """Report how much features vary within classes, compared with the paper's values."""
    if "within" not in numbers:
        return too_few_a_class("Collapse", num_a_class)
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
        "To see how much of this is due to the loss, train the same network on the same data with plain cross-entropy "
        "and compare: maxsup analyze RUN RUN --what collapse."
    )
    if is_low and is_comparable:
        advice = "Expect weaker transfer; probe the features on another task before reusing them. " + advice
    level = ("warning" if is_low else "good") if is_comparable else "note"
    return Finding("Collapse", level, sentence, advice, within, smoothed)


def probe_finding(numbers: Numbers, num_classes: int, num_a_class: int) -> Finding:
    """Report whether a new classifier finds the classes in the features."""
    if "probe_accuracy" not in numbers:
        return too_few_a_class("Probe", num_a_class)
    num_judged, num_probed = (int(numbers[name]["value"]) for name in ("num_probe_judged", "num_probe_classes"))
    own, probe, knn = (numbers[name]["value"] for name in ("accuracy_judged", "probe_accuracy", "knn_accuracy"))
    among = f", among the {num_probed} most frequent classes," if num_probed < num_classes else ""
    # Twice the standard error of the difference between the two shares.
    spread = sum(max(share * (1 - share), _LEAST_SPREAD) for share in (own, probe))
    margin = max(PROBE_MARGIN, 2 * math.sqrt(spread / num_judged))
    sentence = (
        f"A linear probe, fitted on one half of the features and evaluated on the other, reaches{among} {probe:.1%} "
        f"and 20 nearest neighbours {knn:.1%}; the model has {own:.1%} (up to {margin:.1%} less is fine)."
    )
    level = "warning" if own - probe > margin or own - knn > 2 * margin else "good"
    advice = (
        "The features separate the classes; to see whether they transfer, probe another task: "
        "maxsup analyze RUN --what probe probe.target=DATA."
        if level == "good"
        else "The features alone do worse than the model: check that they are the input of the last layer, and use the "
        "logits for nearest-neighbour search."
    )
    return Finding("Probe", level, sentence, advice, probe, own - margin)


def _too_few_errors(topic: str, num_wrong: int) -> Finding:
    advice = "Give more or harder held-out samples."
    return too_few(topic, f"{num_wrong} wrong predictions", str(MIN_ERRORS), num_wrong, MIN_ERRORS, advice)


def too_few_a_class(topic: str, num_a_class: int) -> Finding:
    """Report that classes have too few samples for a verdict."""
    given = f"about {counted(num_a_class, 'sample')} per class"
    return too_few(topic, given, f"{MIN_A_CLASS} per class and {MIN_SAMPLES} in all", num_a_class, MIN_A_CLASS)


def too_few(
    topic: str, given: str, needed: str, value: int, threshold: int, advice: str = "Give more held-out samples."
) -> Finding:
    """Report that nothing can be said because there is too little of what the verdict needs."""
    sentence = f"Cannot tell from {given}; at least {needed} are needed."
    return Finding(topic, "unknown", sentence, advice, float(value), float(threshold))
