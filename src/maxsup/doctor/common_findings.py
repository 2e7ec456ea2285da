"""Findings that several checks share."""

from __future__ import annotations

from maxsup.core.finding import Finding


def double_smoothing(first: str, second: str, fix: str) -> Finding:
    """Report targets that are smoothed in two places, each described as in ``MaxSup in the loss (alpha=0.1)``."""
    return Finding("double_smoothing", "error", f"Targets are smoothed twice: by {first} and by {second}.", fix)


def computed_as(device: str, form: str, reason: str) -> Finding:
    """Report which implementation of a loss runs on a device."""
    sentence = f"Losses of logits on {device} are computed in the form {form!r}: {reason}."
    return Finding("form", "note", sentence, "Nothing to do; maxsup.functional.implementation() chooses another.")


def index_with_probabilities(what: str) -> Finding:
    """Report probability targets that are used with an ``ignore_index``."""
    fix = "Leave ignore_index at -100 and give rows to be ignored all-zero probabilities."
    return Finding("ignore_index", "error", f"{what} have no index to ignore.", fix)


def schedule_not_advanced(what: str) -> Finding:
    """Report a loss whose schedule is never advanced."""
    sentence = f"{what}, but nothing calls set_progress: the first training step will raise an error."
    fix = "Start every epoch with criterion.set_progress(epoch / max(num_epochs - 1, 1)), or use a trainer's callback."
    return Finding("schedule_not_advanced", "warning", sentence, fix)


def softmax_before_loss(sentence: str) -> Finding:
    """Report a loss that gets probabilities instead of logits."""
    fix = "Give the loss the input of the softmax; it applies the softmax itself."
    return Finding("softmax_before_loss", "error", sentence, fix)


def smoothed_evaluation(what: str, fix: str) -> Finding:
    """Report an evaluation whose loss is not plain cross-entropy."""
    sentence = f"{what}, so what it reports is not cross-entropy and cannot be compared across losses."
    return Finding("smoothed_evaluation", "warning", sentence, fix)


def other_convention(what: str, strength: float, num_classes: int | None = None) -> Finding:
    """Report label smoothing that spreads its mass over the K - 1 other classes.

    Example:
        >>> other_convention("The loss", 0.1, num_classes=5).sentence
        'The loss spreads 0.1 over the K - 1 other classes, which equals alpha=0.125 over all K=5.'
    """
    if num_classes is None:
        equal = f"alpha={strength:g} K / (K - 1) over all K"
    else:
        equal = f"alpha={strength * num_classes / max(num_classes - 1, 1):.6g} over all K={num_classes}"
    sentence = f"{what} spreads {strength:g} over the K - 1 other classes, which equals {equal}."
    fix = "Give MaxSup, and torch's label_smoothing, that alpha for an equal strength."
    return Finding("k_minus_1_convention", "note", sentence, fix)
