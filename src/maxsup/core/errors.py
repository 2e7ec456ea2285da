"""How this package words its complaints."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def hint(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, as the end of an error message.

    Example:
        >>> hint("maxsub", ["ce", "ls", "maxsup"])
        "Did you mean 'maxsup'?"
        >>> hint("zzz", ["ce", "ls"])
        'Known: ce, ls.'
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."


class MaxsupError(Exception):
    """What went wrong, in one sentence; the command line prints it and exits with ``exit_code``.

    Example:
        >>> DataError("image files must be readable; got 12 of 100 that are not.").exit_code
        4
    """

    exit_code = 2


class NonFiniteError(MaxsupError):
    """A loss became infinite or not a number; nothing was updated with it."""

    exit_code = 3


class DataError(MaxsupError):
    """Data is missing, unreadable or not what it was said to be."""

    exit_code = 4


class StorageError(MaxsupError):
    """A file could not be written or read back; what was there before still is."""

    exit_code = 5


class Interruption(MaxsupError):
    """A signal asked to stop; everything is saved.

    Example:
        >>> Interruption("stopped.", signal_number=15).exit_code
        143
    """

    def __init__(self, sentence: str, *, signal_number: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + signal_number
