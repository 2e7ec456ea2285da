"""The way of batches to a device: pinned, and one batch ahead of the step that uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self


class Movable(Protocol):
    """A batch whose tensors can be moved."""

    def on(self, move: Callable[[Tensor], Tensor]) -> Self:
        """Return the batch with its tensors moved."""


B = TypeVar("B", bound=Movable)


def fed(batches: Iterator[B], device: torch.device) -> Iterator[B]:
    """Batches on a device. While one is used, a thread reads the next and sends it."""
    if device.type == "cpu":
        yield from batches
        return
    send = _CudaSender(device) if device.type == "cuda" else _Sender(device)
    # Read here: the thread that trains is the one that may fork workers.
    first = next(batches, None)
    with ThreadPoolExecutor(1, "feed") as thread:
        coming = thread.submit(send.sent, first)
        while (found := coming.result()) is not None:
            coming = thread.submit(_next_sent, batches, send)
            yield send.received(found)


def _next_sent(batches: Iterator[Any], send: _Sender) -> Any:
    return send.sent(next(batches, None))


class _Sender:
    """Sends batches to a device that has no streams for copies."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def sent(self, batch: Any) -> Any:
        """The batch on the device, as seen by the thread that sends; None after the last."""
        return None if batch is None else batch.on(lambda part: part.to(self.device))

    def received(self, sent: Any) -> Any:
        """The batch as the thread that trains may use it."""
        return sent


class _CudaSender(_Sender):
    """Copies from pinned memory in a stream of its own, beside the kernels of the step before."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._stream = torch.cuda.Stream(device)

    def sent(self, batch: Any) -> Any:
        """The batch, and the event of its arrival."""
        if batch is None:
            return None
        with torch.cuda.stream(self._stream):
            moved = batch.on(lambda part: part.pin_memory().to(self.device, non_blocking=True))
            return moved, self._stream.record_event()

    def received(self, sent: Any) -> Any:
        """The batch; the stream of the step waits for it, the host does not."""
        batch, arrival = sent
        current = torch.cuda.current_stream(self.device)
        current.wait_event(arrival)

        def used(part: Tensor) -> Tensor:
            part.record_stream(current)
            return part

        return batch.on(used)
