"""Peak memory as the operating system sees it, scratch of the matrix products included."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from maxsup.lab.bench.peak_memory import peak_memory

PROCESS = Path("/proc/self")


class PeakSince:
    """Growth of the process from here on; Linux only."""

    def __init__(self) -> None:
        gc.collect()
        (PROCESS / "clear_refs").write_text("5")  # sets the high-water mark back to what is resident now
        self._before = _status("VmRSS")

    def grown(self) -> int:
        """Bytes by which the process has grown at its peak."""
        return _status("VmHWM") - self._before


def resident_peak(work: Callable[[], object]) -> int:
    """Bytes by which the process grows at its peak; elsewhere than on Linux, what torch allocates."""
    try:
        peak = PeakSince()
    except OSError:
        return peak_memory(work)
    work()
    return peak.grown()


def _status(field: str) -> int:
    lines = (PROCESS / "status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return 1024 * int(kilobytes)
