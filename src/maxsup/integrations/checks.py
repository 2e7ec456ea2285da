"""Checks that adapters share: is the library installed, and can the schedule move? Nothing here imports torch."""

from __future__ import annotations

from maxsup.core.installation import install_command
from maxsup.core.schedules import Schedule


def not_installed(adapter: str, needs: str = "", extra: str = "") -> ImportError:
    """Return the error for a missing library. Library and extra have the name of the adapter by default."""
    return ImportError(
        f"maxsup.integrations.{adapter} needs {needs or adapter}, which is not installed. Install it with "
        f"{install_command(extra or adapter)}."
    )


def check_epochs(schedule: Schedule | None, num_epochs: int | None, fix: str) -> None:
    """Raise if a schedule would silently stay at its first value. ``num_epochs`` is None if the end is unknown.

    Example:
        >>> from maxsup.schedules import Linear
        >>> check_epochs(Linear(0.1, 0.2), 1, "Train longer.")
        Traceback (most recent call last):
        ValueError: epochs must be at least 2 for Linear(start=0.1, end=0.2), which moves between epochs; got 1. Train
        longer.
    """
    if schedule is not None and (num_epochs is None or num_epochs < 2):
        shown = "a run without a known end" if num_epochs is None else num_epochs
        raise ValueError(f"epochs must be at least 2 for {schedule!r}, which moves between epochs; got {shown}. {fix}")
