"""Ctrl-C and SIGTERM: finish the step, save, leave with 130 or 143."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from maxsup.core.errors import Interruption

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SignalGuard:
    """While entered, a signal is noted instead of killing; a second one leaves at once.

    Before ``is_deferring`` there is nothing to save yet, and the first signal leaves at once too.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.is_deferring = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> SignalGuard:
        # Python lets only the main thread install handlers; elsewhere signals are the caller's business.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None or not self.is_deferring:
            name = signal.Signals(number).name
            raise Interruption(f"stopped at once by {name}; the last checkpoint, if any, holds.", signal_number=number)
        self.received = number
