"""The command ``maxsup``, also as ``python -m maxsup`` where the script is not on the path."""

import os
import sys

# `python -m` finds modules in the current folder first, where anybody's files may lie; a script does not.
if __name__ == "__main__" and sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from maxsup.lab.core.signals import leave_on_signals


def main() -> None:
    """Run the command of this process, and exit; from its first line on, a signal ends it with a sentence."""
    leave_on_signals()
    from maxsup.lab.cli import main as run

    run()


if __name__ == "__main__":
    main()
