"""Command line: parse, print, exit. No mathematics here.

Exit codes: 0 fine, 2 what was typed, 3 a number became non-finite, 4 data, 5 files of runs and weights, 130 or 143
interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from maxsup.core.errors import Interruption, MaxsupError, exit_code, out_of_memory
from maxsup.core.interrupt import SignalGuard

_EXPECTED = (ImportError, MaxsupError, OSError, TypeError, ValueError)


def _sentence(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in {"rich", "typer"}:
        from maxsup.core.installation import install_command

        return f"the command line needs {error.name}, which is not installed; run {install_command('lab')}."
    return str(error)


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code; an error is one sentence unless ``--debug`` is given.

    Args:
        argv: Words after the program's name; those of the process by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    # At any place: it is what one appends to the command that just failed.
    debug = "--debug" in words
    code: int | str | None
    try:
        # From the start, so that a signal during the imports ends like one in the middle of an epoch.
        with SignalGuard():
            if argv is None:
                _guard_streams()
                if not debug:
                    # A sentence for people, without the line of code that said it.
                    warnings.formatwarning = lambda message, *_: f"maxsup: warning: {message}\n"
            # Late: without the extra there is no typer, and that too deserves a sentence.
            from maxsup.cli.app import run

            run([word for word in words if word != "--debug"])
    except SystemExit as leaving:
        code = leaving.code
    except (KeyboardInterrupt, Interruption) as stop:
        if debug:
            raise
        _say(_sentence(stop) or "stopped by SIGINT.")
        code = stop.exit_code if isinstance(stop, Interruption) else 130
    except _EXPECTED as error:
        if debug:
            raise
        _say(_sentence(error))
        code = exit_code(error)
    except (MemoryError, RuntimeError) as error:
        shortage = out_of_memory(error)
        if debug or shortage is None:
            raise
        _say(str(shortage))
        code = shortage.exit_code
    if argv is None and "torch" in sys.modules and "WORLD_SIZE" not in os.environ:
        # All is written. Python would spend seconds on taking torch apart, and triton would print pages about it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
    sys.exit(code)


class _Stream(io.FileIO):
    """A stream of this process whose reader may go away: what nobody reads must not end a run."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            return len(content)


def _guard_streams() -> None:
    """Give this process streams that can always be written to, also where they came closed or their reader leaves."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            closed = os.open(os.devnull, os.O_RDWR)
            if closed != number:
                os.dup2(closed, number)
                os.close(closed)
        if number == 0:
            sys.stdin = stream or os.fdopen(0)
            continue
        buffer = io.BufferedWriter(_Stream(number, "w", closefd=False))
        # Names of files need not be UTF-8.
        text = io.TextIOWrapper(
            buffer,
            encoding=stream.encoding if stream else "utf-8",
            errors="backslashreplace",
            # Unbuffered (python -u) is by line here.
            line_buffering=stream is not None and (stream.line_buffering or stream.write_through),
        )
        setattr(sys, name, text)


def _say(sentence: str) -> None:
    print(f"maxsup: {sentence}", file=sys.stderr, flush=True)
