"""Command line: parse, print, exit. No mathematics here; :mod:`maxsup.core.errors` has the exit codes."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from maxsup.core.errors import ExitCode, Interruption, MaxsupError, error_code, exit_code, out_of_memory
from maxsup.lab.core.interrupt import SignalGuard


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command of ``argv``, by default that of this process, and exit; an error is one sentence."""
    words = list(sys.argv[1:] if argv is None else argv)
    # At any place: people append it to the command that just failed, to see the traceback.
    debug = "--debug" in words
    code: int | str | None
    try:
        # From the start, so that a signal during the imports ends like one in the middle of an epoch.
        with SignalGuard():
            if argv is None:
                _guard_streams()
                if not debug:
                    # A sentence for people, without the line of code that warned.
                    warnings.formatwarning = lambda message, *_: f"maxsup: warning: {message}\n"
            # Late: without the extra there is no typer, and that too deserves a sentence.
            from maxsup.lab.cli.app import run

            run([word for word in words if word != "--debug"])
    except SystemExit as leaving:
        code = leaving.code
    except BaseException as error:
        explained = _explained(error)
        if debug or explained is None:
            raise
        sentence, code = explained
        say(sentence)
        if "--json" in words:
            print(json.dumps({"error": error_facts(error, sentence, code)}))
    # After an error that holds for one of several processes too: it must not be there to be stopped by its launcher.
    if argv is None and "torch" in sys.modules and (code or "WORLD_SIZE" not in os.environ):
        # Everything is written. Python would take seconds to dismantle torch, and triton would print pages about it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
    sys.exit(code)


def error_facts(error: BaseException, sentence: str, code: int) -> dict[str, str | int]:
    """Return what ``--json`` says of an error."""
    return {"code": error_code(error), "message": sentence, "exit_code": int(code)}


def say(sentence: str) -> None:
    """Tell the user something on standard error."""
    print(f"maxsup: {sentence}", file=sys.stderr, flush=True)


def _explained(error: BaseException) -> tuple[str, int] | None:
    """What to say about an error and the code to exit with; None for a bug, which keeps its traceback."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by SIGINT.", ExitCode.INTERRUPTED
    if isinstance(error, ModuleNotFoundError) and error.name in {"rich", "typer"}:
        from maxsup.core.installation import install_command

        sentence = f"the command line needs {error.name}, which is not installed; run {install_command('lab')}."
        return sentence, ExitCode.INPUT
    if isinstance(error, ImportError | Interruption | MaxsupError | OSError | TypeError | ValueError):
        return str(error), exit_code(error)
    shortage = out_of_memory(error)
    return None if shortage is None else (str(shortage), shortage.exit_code)


class _Stream(io.FileIO):
    """A stream of this process whose reader may go away: output that nobody reads must not end a run."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            return len(content)


def _guard_streams() -> None:
    """Make the streams of this process writable for good, even if they were closed or their reader leaves."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if name == "stdin":
            sys.stdin = stream or os.fdopen(0)
            continue
        text = io.TextIOWrapper(
            io.BufferedWriter(_Stream(number, "w", closefd=False)),
            encoding=stream.encoding if stream else "utf-8",
            errors="backslashreplace",  # names of files need not be UTF-8
            # python -u asks for no buffer; here it gets one line.
            line_buffering=stream is not None and (stream.line_buffering or stream.write_through),
        )
        setattr(sys, name, text)
