"""A command that is stopped at many moments of its start: at each of them a child is forked, which gets a signal.

Prints one line a child, ``number status``; what a child says goes to ``FOLDER/number.txt``.
"""

import os
import signal
import sys
from pathlib import Path

from maxsup.lab.core.signals import leave_on_signals

NUM_MOMENTS = 30
NUM_EARLY = 12
EARLY, EVERY = 5, 80
"""Modules that are imported between two moments: at first, while the command line itself is imported, and later."""


def start(folder: Path, *words: str) -> None:
    children: list[int] = []
    num_imports, is_child = 0, False

    def look(event: str, arguments: object) -> None:
        nonlocal num_imports, is_child
        if event != "import" or is_child or len(children) == NUM_MOMENTS:
            return
        num_imports += 1
        if num_imports % (EARLY if len(children) < NUM_EARLY else EVERY):
            return
        child = os.fork()
        if child:
            children.append(child)
            return
        is_child = True
        said = os.open(folder / f"{len(children)}.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.kill(os.getpid(), signal.SIGTERM if len(children) % 2 else signal.SIGINT)

    # As the entry point does, before it imports anything else.
    leave_on_signals()
    sys.addaudithook(look)
    try:
        from maxsup.lab.cli import main

        main([*words, "--output", str(folder / "run")])
    except SystemExit as leaving:
        if is_child:
            os._exit(int(leaving.code or 0))
    except BaseException:
        if not is_child:
            raise
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    for number, child in enumerate(children):
        print(number, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    start(Path(sys.argv[1]), *sys.argv[2:])
