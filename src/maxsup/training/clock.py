"""How a run spends its time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Clock:
    """Seconds of each phase.

    Phases are ``data`` (waiting for a batch), ``step`` (forward, backward, optimiser), ``log``, ``validation`` and
    ``checkpoint``.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.num_images = 0
        self._start = time.perf_counter()

    def state(self) -> dict[str, Any]:
        """The state from which :meth:`restore` continues."""
        return {"total": self.total, "num_images": self.num_images, "seconds": dict(self.seconds)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue an earlier clock."""
        self.seconds.update(state["seconds"])
        self.num_images = state["num_images"]
        self._start -= state["total"]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time inside to the phase ``name``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    @property
    def total(self) -> float:
        """Seconds since the clock was created, plus those of the clock that it continues."""
        return time.perf_counter() - self._start

    def images_per_second(self) -> float:
        """Training images per second of training steps, with their data and logging."""
        spent = sum(self.seconds[name] for name in ("data", "step", "log"))
        return self.num_images / spent if spent else 0.0

    def shares(self) -> dict[str, float]:
        """Share of each phase in the total time; ``outside`` is all but training steps and validation."""
        total = self.total
        shares = {name: self.seconds[name] / total for name in ("data", "step", "log", "validation", "checkpoint")}
        return {**shares, "outside": 1.0 - shares["step"] - shares["validation"]}
