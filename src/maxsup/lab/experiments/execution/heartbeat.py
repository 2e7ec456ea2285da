"""Progress of a run between two epochs: its worker writes it every second or two, a launcher reads it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from maxsup.lab.core.display import LineDisplay
from maxsup.lab.training.progress import Clock, Reporter

FILE = "progress.json"
_SECONDS = 1.0


@dataclass(frozen=True)
class Pulse:
    """What a run does at the moment."""

    epoch: int = 0  # the current one, counted from 0
    step: int = 0  # the last finished one
    num_steps: int = 0  # of an epoch; 0 before the first
    images_per_second: float | None = None
    seconds_left: float | None = None  # until the last epoch ends, at the speed since the worker began
    doing: str = ""  # besides training
    age: float = field(default=0.0, compare=False)  # seconds since it was written


class PulseReporter(Reporter):
    """Lines for the log of a worker, and a file with its progress; ``on_pulse`` is called when the file was written."""

    def __init__(self, stream: TextIO, folder: Path, on_pulse: Callable[[], None] | None = None) -> None:
        super().__init__(LineDisplay(stream))
        self._on_pulse = on_pulse
        self._path = folder / FILE
        self._written = 0.0
        self._start = time.monotonic()
        self._first = 0

    def start_epoch(self, epoch: int, num_epochs: int, done: int, num_steps: int) -> None:
        """Note where the epoch begins, and at the first one what an earlier attempt has done."""
        if not self._num_steps:
            self._first, self._start = epoch * num_steps + done, time.monotonic()
        super().start_epoch(epoch, num_epochs, done, num_steps)

    def step(self, done: int, means: dict[str, float], alpha: float, clock: Clock) -> None:
        """Write at most once per second, and at the end of an epoch."""
        now = time.monotonic()
        if now - self._written < _SECONDS and done < self._num_steps:
            return
        at = self._epoch * self._num_steps + done
        each = (now - self._start) / max(at - self._first, 1)
        left = each * (self._num_epochs * self._num_steps - at)
        self._write(Pulse(self._epoch, done, self._num_steps, clock.images_per_second(), left))

    def work_on(self, what: str) -> None:
        """Report work besides training."""
        self.say(what)
        self._write(Pulse(doing=what))

    def _write(self, pulse: Pulse) -> None:
        self._written = time.monotonic()
        values = {name: value for name, value in vars(pulse).items() if name != "age"}
        part = self._path.with_suffix(".part")
        try:
            part.write_text(json.dumps(values))
            os.replace(part, self._path)
        except OSError:
            return  # a run must not fail because its progress cannot be shown
        if self._on_pulse is not None:
            self._on_pulse()


def read_pulse(folder: Path, started: Path) -> Pulse:
    """What the worker of a run wrote last; if it wrote nothing since it started, the age counts from its start."""
    path, values = folder / FILE, dict[str, Any]()
    try:
        latest = started.stat().st_mtime
        if path.exists() and path.stat().st_mtime >= latest:
            latest, values = path.stat().st_mtime, json.loads(path.read_text())
    except (OSError, ValueError):
        return Pulse()
    return Pulse(**values, age=max(time.time() - latest, 0.0))
