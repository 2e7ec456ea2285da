"""The signals that ask a command to stop; it imports next to nothing, because the command line needs it first."""

import os
import signal


def stop_signals() -> list[int]:
    """Ctrl-C, SIGTERM, and SIGHUP of a terminal that closes, unless it is ignored: that is what ``nohup`` does."""
    numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


def leave_on_signals() -> None:
    """Leave at once on a signal, as long as there is nothing to save and no :class:`SignalGuard` to note it."""
    for number in stop_signals():
        signal.signal(number, _leave)


def _leave(number: int, frame: object) -> None:
    # No exception: Python drops those that are raised in callbacks, for instance of its imports.
    os.write(2, f"maxsup: stopped by {signal.Signals(number).name}.\n".encode())
    os._exit(128 + number)
