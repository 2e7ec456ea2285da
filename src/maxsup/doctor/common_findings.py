"""Findings that several checks share, each in the same words wherever it is found."""

from __future__ import annotations

from maxsup.core.finding import Finding


def double_smoothing(first: str, second: str, fix: str) -> Finding:
    """Two places smooth; each is given as words with its number, such as ``MaxSup in the loss (alpha=0.1)``."""
    return Finding("double_smoothing", "error", f"Targets are smoothed twice: by {first} and by {second}.", fix)


def computed_as(device: str, form: str, reason: str) -> Finding:
    """Which form of a loss a device gets."""
    sentence = f"Losses of logits on {device} are computed in the form {form!r}: {reason}."
    return Finding("form", "note", sentence, "Nothing to do; maxsup.functional.implementation() chooses another.")


def smoothed_evaluation(what: str, fix: str) -> Finding:
    """An evaluation reports something else than cross-entropy."""
    sentence = f"{what}, so what it reports is not cross-entropy and cannot be compared across losses."
    return Finding("smoothed_evaluation", "warning", sentence, fix)


def other_convention(what: str, strength: float, num_classes: int | None = None) -> Finding:
    """Smoothing over the K - 1 other classes.

    Example:
        >>> other_convention("The loss", 0.1, num_classes=5).sentence
        'The loss spreads 0.1 over the K - 1 other classes, which equals alpha=0.125 over all K=5.'
    """
    if num_classes is None:
        equal = f"alpha={strength:g} K / (K - 1) over all K"
    else:
        equal = f"alpha={strength * num_classes / max(num_classes - 1, 1):.6g} over all K={num_classes}"
    return Finding(
        "k_minus_1_convention",
        "note",
        f"{what} spreads {strength:g} over the K - 1 other classes, which equals {equal}.",
        "Give MaxSup, and torch's label_smoothing, that alpha where strengths are to be equal.",
    )
