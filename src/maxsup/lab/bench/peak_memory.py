"""Measure the peak memory of a function, to the byte, from torch's allocations."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable

import torch
from torch.autograd.profiler import profile


def peak_memory(work: Callable[[], object], *, device: str = "cpu") -> int:
    """Return the peak number of bytes that ``work`` allocates, its result included.

    ``work`` is called once. Call it before if allocations of the first call should not count. On a CPU the profiler
    records every allocation of torch, but not the scratch memory of a matrix product.

    Example:
        >>> held = torch.ones(1000, 1000)
        >>> peak_memory(lambda: (held + held) * held) / held.nbytes  # the sum and the product at the same time
        2.0
    """
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    # Silence the profiler's messages on standard error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profile(profile_memory=True) as record:
        held = work()
    assert record.kineto_results is not None
    changes = [
        (event.start_ns(), event.nbytes()) for event in record.kineto_results.events() if event.name() == "[memory]"
    ]
    del held
    total = peak = 0
    for _, num_bytes in sorted(changes, key=lambda change: change[0]):
        total += num_bytes
        peak = max(peak, total)
    return peak
