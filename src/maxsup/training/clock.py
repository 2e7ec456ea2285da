"""Where the time of a run goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Clock:
    """Seconds by phase; what is inside no phase counts as the rest.

    Phases: ``data`` (waiting for a batch), ``step`` (forward, backward, optimiser), ``log``, ``validation``,
    ``checkpoint``.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.num_images = 0
        self._start = time.perf_counter()

    def state(self) -> dict[str, Any]:
        """What a later clock needs to go on from here."""
        return {"total": self.total, "num_images": self.num_images, "seconds": dict(self.seconds)}

    def restore(self, state: dict[str, Any]) -> None:
        """Count on top of an earlier clock."""
        self.seconds.update(state["seconds"])
        self.num_images = state["num_images"]
        self._start -= state["total"]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside under ``name``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    @property
    def total(self) -> float:
        """Seconds since the clock was made, and those before."""
        return time.perf_counter() - self._start

    def images_per_second(self) -> float:
        """Training images over the time of the training steps, with their data and logging."""
        spent = sum(self.seconds[name] for name in ("data", "step", "log"))
        return self.num_images / spent if spent else 0.0

    def shares(self) -> dict[str, float]:
        """Share of the whole time a phase took; ``outside`` is all that is neither a training step nor validation."""
        total = self.total
        shares = {name: self.seconds[name] / total for name in ("data", "step", "log", "validation", "checkpoint")}
        return {**shares, "outside": 1.0 - shares["step"] - shares["validation"]}
