"""Ctrl-C, SIGTERM and SIGHUP: finish the step, save, leave with 130, 143 or 129."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from maxsup.core.errors import Interruption
from maxsup.lab.core.signals import stop_signals

_entered: list[SignalGuard] = []
_noted: list[int] = []
_raised: list[int] = []


class SignalGuard:
    """While entered, a signal is noted instead of killing; a second one leaves at once.

    Before ``is_deferring`` is set there is nothing to save, and the first signal raises :class:`Interruption` at once.
    A library may swallow it, for instance in ``__del__``, or raise an error of its own because its import was
    interrupted. So the note stays until the outermost guard is left: :func:`raise_if_noted` raises again, and that
    guard puts the interruption in the place of such an error.
    """

    def __init__(self) -> None:
        self.is_deferring = False
        self._previous: dict[int, object] = {}

    @property
    def received(self) -> int | None:
        """The number of the first signal, if there was one."""
        return _noted[0] if _noted else None

    def __enter__(self) -> SignalGuard:
        raise_if_noted()
        # Python lets only the main thread install handlers; in other threads the caller handles signals.
        if threading.current_thread() is threading.main_thread():
            _entered.append(self)
            for number in stop_signals():
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._previous:
            return
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()
        _entered.remove(self)
        if _entered:
            return
        first = _raised[0] if _raised else None
        _noted.clear()
        _raised.clear()
        if first is not None and kind is not None and not issubclass(kind, Interruption | SystemExit):
            raise _stopped(first) from error

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_first = not _noted
        _noted.append(number)
        if not is_first or not self.is_deferring:
            _raised.append(number)
            raise _stopped(number)


def raise_if_noted() -> None:
    """Leave if a signal came and the exception that it raised was swallowed."""
    if _noted:
        raise _stopped(_noted[0])


def _stopped(number: int) -> Interruption:
    name = signal.Signals(number).name
    return Interruption(f"stopped at once by {name}; the last checkpoint, if any, holds.", signal_number=number)
