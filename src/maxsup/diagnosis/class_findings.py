"""Judge single classes: the one that is right least often, and the two that are confused most."""

from __future__ import annotations

from typing import Any, NamedTuple

from maxsup.core.finding import Finding
from maxsup.diagnosis.findings import MIN_A_CLASS, too_few_a_class
from maxsup.metrics import Interval
from maxsup.metrics.classes import ClassScores, ConfusionPair, class_scores_of, class_sums, confusion_pairs_of
from maxsup.metrics.predictions import Predictions

TOPIC = "Classes"

CLASS_GAP = 0.1
"""How far the worst class may be below the accuracy of all samples."""

BAD_SHARE = 0.5
"""A class that is right less than this times as often as all samples is damage."""

CONFUSED_SHARE = 0.2
"""Share of a class that may be taken for one other class."""

_NUM_PAIRS = 20


class ClassErrors(NamedTuple):
    """Scores of all classes and their strongest confusions; intervals cover all classes, or all pairs, at once."""

    scores: ClassScores
    pairs: list[ConfusionPair]
    names: tuple[str, ...]

    @property
    def worst(self) -> int:
        """The class whose accuracy is surely low: that of the lowest upper bound, which one bad sample cannot be."""
        return int(self.scores.high.nan_to_num(nan=2.0).argmin())

    def name(self, index: int) -> str:
        """Return the name of a class, or its number."""
        return self.names[index] if self.names else f"class {index}"


def class_errors(predictions: Predictions, names: tuple[str, ...], num_classes: int) -> ClassErrors:
    """Find the errors of each class and between pairs of classes."""
    scores = class_scores_of(class_sums(predictions, num_classes), is_simultaneous=True)
    pairs = confusion_pairs_of(predictions, num_classes, _NUM_PAIRS, is_simultaneous=True)
    return ClassErrors(scores, pairs, names)


def class_numbers(found: ClassErrors) -> dict[str, float | Interval]:
    """Return the accuracy of the worst class and the share of the strongest confusion, with their intervals."""
    scores, worst = found.scores, found.scores.worst
    columns = (scores.accuracy, scores.low, scores.high)
    numbers: dict[str, float | Interval] = {
        "worst_class_accuracy": Interval(*(float(column[worst]) for column in columns)),
        "top_confusion": 0.0,
    }
    if found.pairs:
        numbers["top_confusion"] = Interval(found.pairs[0].share, found.pairs[0].low, found.pairs[0].high)
    return numbers


def classes_finding(found: ClassErrors, accuracy: float, num_a_class: int) -> Finding:
    """Report the worst class and the strongest confusion. ``accuracy`` is that of all samples."""
    if num_a_class < MIN_A_CLASS:
        return too_few_a_class(TOPIC, num_a_class)
    scores, worst = found.scores, found.worst
    value, low, high = (float(column[worst]) for column in (scores.accuracy, scores.low, scores.high))
    threshold, confused = accuracy - CLASS_GAP, found.pairs[0] if found.pairs else None
    sentence = (
        f"The worst class is {found.name(worst)!r}: {value:.1%} of its {int(scores.size[worst])} samples are right, "
        f"between {low:.1%} and {high:.1%} ({accuracy:.1%} of all samples; a class below {threshold:.1%} is reported)"
    )
    if confused is not None:
        sentence += (
            f"; the strongest confusion is {found.name(confused.label)!r} taken for "
            f"{found.name(confused.predicted)!r}, in {confused.share:.1%} of {confused.size}, "
            f"between {confused.low:.1%} and {confused.high:.1%}"
        )
    # The upper bound decides: the worst of many classes is low by chance alone, and chance is no finding.
    level, advice = "good", "Nothing to do."
    if high < threshold:
        level = "error" if high < BAD_SHARE * accuracy else "warning"
        advice = (
            f"Look at samples of {found.name(worst)!r}, and at what they are taken for, in the table of classes: "
            "too few training images, wrong labels, or two names for one thing. No loss repairs these."
        )
    elif confused is not None and confused.low > CONFUSED_SHARE:
        level = "warning"
        advice = (
            f"Look at samples of {found.name(confused.label)!r} and {found.name(confused.predicted)!r} side by side: "
            "wrong labels, or classes that images do not tell apart."
        )
    return Finding(TOPIC, level, f"{sentence}.", advice, value, threshold)


def confusion_rows(found: ClassErrors) -> list[dict[str, Any]]:
    """Return one row for each of the strongest confusions."""
    return [
        {
            "label": found.name(pair.label),
            "predicted": found.name(pair.predicted),
            "count": pair.num_confused,
            "size": pair.size,
            "share": pair.share,
            "low": pair.low,
            "high": pair.high,
        }
        for pair in found.pairs
    ]
