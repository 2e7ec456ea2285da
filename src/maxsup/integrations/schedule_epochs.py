"""Whether a schedule over epochs can move at all, for every adapter that advances one. Nothing here imports torch."""

from __future__ import annotations

from maxsup.core.schedules import Schedule


def check_epochs(schedule: Schedule | None, num_epochs: int | None, fix: str) -> None:
    """Raise where a schedule would silently stay at its first value.

    Args:
        schedule: What is to be advanced by epochs; None needs nothing.
        num_epochs: How many the whole run has, None if nobody can say.
        fix: What to do about it in this trainer.

    Example:
        >>> from maxsup.schedules import Linear
        >>> check_epochs(Linear(0.1, 0.2), 1, "Train longer.")
        Traceback (most recent call last):
        ValueError: the epochs of Linear(start=0.1, end=0.2) must be at least 2, for it moves from one to the next; got
        1. Train longer.
    """
    if schedule is not None and (num_epochs is None or num_epochs < 2):
        shown = "a run without a known end" if num_epochs is None else num_epochs
        raise ValueError(
            f"the epochs of {schedule!r} must be at least 2, for it moves from one to the next; got {shown}. {fix}"
        )
