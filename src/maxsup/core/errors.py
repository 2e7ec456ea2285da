"""Errors of this package, their exit codes, and the words that they share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from typing import TypeVar


class ExitCode(IntEnum):
    """How the program can end; :data:`EXIT_CODES` has the meanings."""

    DONE = 0
    CRASH = 1
    INPUT = 2
    NON_FINITE = 3
    DATA = 4
    FILES = 5
    INTERRUPTED = 130
    TERMINATED = 143
    HUNG_UP = 129


EXIT_CODES = {
    ExitCode.DONE: "done",
    ExitCode.INPUT: "what was typed: words, values, and names of runs, recipes or settings files that do not exist or "
    "cannot be parsed; also more than fits into memory",
    ExitCode.NON_FINITE: "a number became infinite or undefined",
    ExitCode.DATA: "data: images, masks, arrays or logits that are missing or cannot be used",
    ExitCode.FILES: "files of runs and weights: one that cannot be read or written",
    ExitCode.CRASH: "a worker of `compare` or `study run`, or another process of the same training, died without "
    "saying why; or a bug, with its traceback",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.TERMINATED: "interrupted by SIGTERM",
    ExitCode.HUNG_UP: "interrupted because the terminal closed (SIGHUP)",
}
"""What each exit code means, for readers; words in backticks are code."""

_OUT_OF_MEMORY = re.compile(r"out of memory|not enough memory|can't allocate memory|unable to allocate", re.IGNORECASE)
_AMOUNT = re.compile(r"allocate (\d[\d.,]* ?\w+)")


def hint(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, as the end of an error message.

    Example:
        >>> hint("maxsub", ["ce", "ls", "maxsup"]), hint("zzz", ["ce", "ls"])
        ("Did you mean 'maxsup'?", 'Known: ce, ls.')
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> counted(1, "run"), counted(6, "run"), counted(1200, "image")
        ('1 run', '6 runs', '1,200 images')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_line(error: BaseException) -> str:
    r"""The first line of what an error says, or its kind if it says nothing.

    Example:
        >>> first_line(OSError("disk full\nin line 3")), first_line(EOFError())
        ('disk full', 'EOFError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def user_stacklevel() -> int:
    """The ``stacklevel`` with which a warning of the caller points to the first line outside this package and torch.

    Between a user and a loss there may be any number of ``nn.Module.__call__``, hooks, wrappers and compiled code.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("maxsup", "torch"):
        level, frame = level + 1, frame.f_back
    return level


class MaxsupError(Exception):
    """One sentence about what went wrong; the command line prints it and exits with ``exit_code``.

    ``code`` names the kind of mistake in a word or two that stay, for programs and tests.
    """

    exit_code: int = ExitCode.INPUT
    code = "refused"

    def __init__(self, sentence: str, *, code: str | None = None) -> None:
        super().__init__(sentence)
        if code is not None:
            self.code = code


class NonFiniteError(MaxsupError):
    """A loss became infinite or not a number; nothing was updated with it."""

    exit_code = ExitCode.NON_FINITE
    code = "non-finite"


class DataError(MaxsupError):
    """Data is missing, unreadable or not what it was said to be."""

    exit_code = ExitCode.DATA
    code = "bad-data"


class StorageError(MaxsupError):
    """A file could not be written or read back; what was there before still is."""

    exit_code = ExitCode.FILES
    code = "files"


class LostProcessError(MaxsupError):
    """Another process of a training with several has died; what was saved before still is."""

    exit_code = ExitCode.CRASH
    code = "lost-process"


class Interruption(BaseException):
    """A signal asked to stop; the sentence says what is saved.

    Like ``KeyboardInterrupt`` it is no ``Exception``: libraries swallow those while they are imported.
    """

    def __init__(self, sentence: str, *, signal_number: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + signal_number
        self.code = "interrupted"


def exit_code(error: BaseException) -> int:
    """The code to exit with: that of the error, 5 for files, 2 for wrong input, 1 for a bug.

    Example:
        >>> exit_code(DataError("no images.")), exit_code(OSError()), exit_code(ValueError()), exit_code(KeyError())
        (4, 5, 2, 1)
    """
    if isinstance(error, MaxsupError | Interruption):
        return int(error.exit_code)
    if isinstance(error, OSError):
        return int(ExitCode.FILES)
    return int(ExitCode.INPUT if isinstance(error, ImportError | TypeError | ValueError) else ExitCode.CRASH)


_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (KeyboardInterrupt, "interrupted"),
    (OSError, "files"),
    (ImportError, "missing-package"),
    (TypeError, "wrong-type"),
    (ValueError, "wrong-value"),
)

E = TypeVar("E", bound=Exception)


def coded(error: E, code: str) -> E:
    """Give an error of Python a code, and return it; ``error_code`` reads it."""
    error.code = code  # type: ignore[attr-defined]
    return error


def error_code(error: BaseException) -> str:
    """Return the short, stable name of what went wrong: the error's own, else that of its kind.

    Example:
        >>> error_code(DataError("no images.", code="empty-split")), error_code(ValueError())
        ('empty-split', 'wrong-value')
    """
    shortage = out_of_memory(error) if not isinstance(error, MaxsupError) else None
    own = getattr(shortage or error, "code", None)
    return own if isinstance(own, str) else next((code for kind, code in _KINDS if isinstance(error, kind)), "bug")


def out_of_memory(error: BaseException) -> MaxsupError | None:
    """The error to show if ``error`` means too little memory, which torch and numpy word in many ways; else None.

    Example:
        >>> print(out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")))
        there is too little memory for 2.00 GiB more. Set accumulation=auto ...
    """
    is_worded = isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error))
    if not isinstance(error, MemoryError) and not is_worded:
        return None
    amount = _AMOUNT.search(str(error))
    return MaxsupError(
        f"there is too little memory for {f'{amount[1]} more' if amount else 'this'}. Set accumulation=auto (or a "
        "larger number) or precision=bfloat16, give a run more GPUs by --gpus-per-run, or choose a smaller batch_size "
        "(bench: --batch), smaller images or a smaller model.",
        code="out-of-memory",
    )
