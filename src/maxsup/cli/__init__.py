"""Command line: parse, print, exit. No mathematics here.

Exit codes: 0 fine, 2 what was typed, 3 a number became non-finite, 4 data, 5 files of runs and weights, 130 or 143
interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from maxsup.core.errors import MaxsupError, exit_code, out_of_memory

_EXPECTED = (ImportError, MaxsupError, OSError, TypeError, ValueError)


def _sentence(error: Exception) -> str:
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
        # Late: without the extra there is no typer, and that too deserves a sentence.
        from maxsup.cli.app import run

        run([word for word in words if word != "--debug"])
    except SystemExit as leaving:
        code = leaving.code
    except _EXPECTED as error:
        if debug:
            raise
        print(f"maxsup: {_sentence(error)}", file=sys.stderr, flush=True)
        code = exit_code(error)
    except (MemoryError, RuntimeError) as error:
        shortage = out_of_memory(error)
        if debug or shortage is None:
            raise
        print(f"maxsup: {shortage}", file=sys.stderr, flush=True)
        code = shortage.exit_code
    if argv is None and "torch" in sys.modules and "WORLD_SIZE" not in os.environ:
        # All is written. Python would spend seconds on taking torch apart, and triton would print pages about it.
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
    sys.exit(code)
