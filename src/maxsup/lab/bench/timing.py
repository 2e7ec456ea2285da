"""Compare the time of functions on a shared machine.

On a shared machine, wall time of several threads is unreliable, because every parallel region waits for the scheduler.
Repeatable numbers are the CPU time of one thread, with candidates taking turns in every round, and the ratio of two
candidates within a round. On a GPU the time between two events replaces CPU time.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

Work = Callable[[], object]

# In shorter measurements the overhead of clock and loop is visible.
MIN_SECONDS = 0.005
# Quartiles of fewer rounds are meaningless.
MIN_ROUNDS = 5


class Quartiles(NamedTuple):
    """Median, lower and upper quartile."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}-{self.high:.2f}]"


def quartiles(values: Sequence[float]) -> Quartiles:
    """Return the median and the quartiles.

    Example:
        >>> str(quartiles([1.0, 2.0, 3.0, 4.0, 9.0]))
        '3.00 [2.00-4.00]'
    """
    if len(values) == 1:
        return Quartiles(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Quartiles(median, low, high)


def time_ratio(times: Mapping[str, Sequence[float]], name: str, baseline: str) -> Quartiles:
    """Return the quartiles of the time of one candidate divided by that of another in the same round.

    Example:
        >>> time_ratio({"ours": [1.0, 2.0, 3.0], "theirs": [2.0, 4.0, 3.0]}, "ours", "theirs").median
        0.5
    """
    return quartiles([own / other for own, other in zip(times[name], times[baseline], strict=True)])


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread, so that the thread's CPU time covers all of the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def interleaved_times(
    candidates: Mapping[str, Work],
    *,
    rounds: int = 15,
    budget: float = math.inf,
    min_seconds: float = MIN_SECONDS,
    device: str = "cpu",
) -> dict[str, list[float]]:
    """Return the seconds per call of every candidate, one number per round.

    Each candidate is called once before timing, so that compilation and first allocations do not count.

    Args:
        candidates: Functions to time, by name.
        rounds: Number of rounds; every candidate takes one turn in each.
        budget: Seconds after which no further round starts, once there are ``MIN_ROUNDS``.
        min_seconds: Shortest measurement; a quick candidate is repeated until it lasts this long.
        device: ``"cpu"`` for CPU time of the calling thread (use :func:`one_thread`), or ``"cuda"``.
    """
    seconds = _device_seconds if device == "cuda" else _thread_seconds
    repetitions = {name: _repetitions(work, min_seconds, seconds) for name, work in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    shuffler = random.Random(0)
    spent = 0.0
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            if turn >= MIN_ROUNDS and spent > budget:
                break
            # Shuffle, so that no candidate always finds the caches of the same predecessor.
            shuffler.shuffle(order)
            for name in order:
                taken = seconds(candidates[name], repetitions[name])
                times[name].append(taken / repetitions[name])
                spent += taken
    finally:
        if was_collecting:
            gc.enable()
    return times


def _repetitions(work: Work, min_seconds: float, seconds: Callable[[Work, int], float]) -> int:
    seconds(work, 1)
    repetitions = 1
    while seconds(work, repetitions) < min_seconds:
        repetitions *= 2
    return repetitions


def _thread_seconds(work: Work, repetitions: int) -> float:
    before = time.thread_time()
    for _ in range(repetitions):
        work()
    return time.thread_time() - before


def _device_seconds(work: Work, repetitions: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(repetitions):
        work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1000
