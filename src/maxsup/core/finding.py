"""What a check found, in one form for the doctor, the diagnosis and the pages that show them."""

from __future__ import annotations

from dataclasses import dataclass

LEVELS = {"good": "fine", "note": "note", "unknown": "cannot tell", "warning": "watch", "error": "damage"}
"""What the diagnosis of a model calls each level; ``unknown`` is where the data does not decide."""


@dataclass(frozen=True)
class Finding:
    """One sentence about one topic, and what to do next.

    Args:
        topic: What it is about, in the same words wherever it is found.
        level: One of ``LEVELS``. An error makes training fail, do something else than was meant, or damage the model.
        sentence: What was found, with its number ``value``.
        advice: What to do about it.
        value: The number in the sentence.
        threshold: The value at which the level changes.

    Example:
        >>> Finding("Calibration", "good", "The calibration error is 0.012.", "Nothing to do.", 0.012, 0.02).level
        'good'
    """

    topic: str
    level: str
    sentence: str
    advice: str
    value: float | None = None
    threshold: float | None = None
