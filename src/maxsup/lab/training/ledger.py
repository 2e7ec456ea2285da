"""What a step leaves for the host: one reduction over processes and one copy, read a step late.

The host starts a step before it has seen the numbers of the last one, so a GPU never waits for it. The sum that a step
needs anyway, the denominator of its loss, carries along what the last step and the host have to tell.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from maxsup.lab.data import Batch
from maxsup.lab.training.progress import EpochMeter

# SIGHUP is unknown to Windows.
_SIGNALS = tuple(int(getattr(signal, name, -1)) for name in ("SIGHUP", "SIGINT", "SIGTERM"))


@dataclass(frozen=True, eq=False)
class TakenStep:
    """A step that the device may still be working on.

    ``numbers`` are, on the device, the mean loss of this process, the denominator of all, correct answers, labels,
    the norm of the gradient, and whether the loss and whether the gradient is not finite.
    """

    epoch: int
    step: int
    global_step: int
    batch: Batch
    numbers: Tensor


@dataclass(frozen=True, eq=False)
class ReadStep:
    """A step whose numbers the host knows; the counts are those of processes."""

    taken: TakenStep
    meter: EpochMeter
    loss: float
    grad_norm: float
    num_bad_losses: int
    num_bad_gradients: int
    signal_number: int


class StepLedger:
    """Passes the numbers of steps to the host, each while the next one is computed.

    Args:
        device: Where steps are computed.
        num_processes: How many processes take each step together.
    """

    def __init__(self, device: torch.device, num_processes: int) -> None:
        self._device, self._is_alone = device, num_processes == 1
        self._signals = torch.zeros(len(_SIGNALS), device=device)
        self._last: TakenStep | None = None
        self._coming: Tensor | None = None
        self._arrival: torch.cuda.Event | None = None

    def note_signal(self, number: int) -> None:
        """Tell all processes, by the next reduction, that this one got a signal."""
        # An item by item assignment is a kernel; a tensor made here would have to be copied.
        self._signals[_SIGNALS.index(number)] = 1.0

    def begin(self, num_items: Tensor) -> Tensor:
        """Return the sum of ``num_items`` over processes, and send off the numbers of the last step."""
        flags = self._signals.new_zeros(2) if self._last is None else self._last.numbers[-2:]
        sums = torch.cat([num_items.reshape(1), flags, self._signals])
        if not self._is_alone:
            dist.all_reduce(sums)
        if self._last is not None:
            self._send(torch.cat([self._last.numbers[:-2], sums[1:]]))
        return sums[0]

    def end(self, taken: TakenStep) -> ReadStep | None:
        """Note a step that was started, and read the one before it; None if there is none."""
        read = self._read()
        self._last = taken
        return read

    def settle(self) -> ReadStep | None:
        """Read the last step, if it was not read yet; every process must call this."""
        if self._last is not None:
            self.begin(self._signals.new_zeros(()))
        read = self._read()
        self._last = None
        return read

    def _send(self, numbers: Tensor) -> None:
        if self._device.type != "cuda":
            self._coming = numbers
            return
        self._coming = torch.empty(numbers.shape, pin_memory=True)
        self._coming.copy_(numbers, non_blocking=True)
        self._arrival = torch.cuda.Event()
        self._arrival.record()

    def _read(self) -> ReadStep | None:
        if self._coming is None or self._last is None:
            return None
        if self._arrival is not None:
            self._arrival.synchronize()
        loss, items, correct, labels, norm, bad_losses, bad_gradients, *signals = self._coming.cpu().tolist()
        self._coming = None
        received = max((number for number, count in zip(_SIGNALS, signals, strict=True) if count), default=0)
        meter = EpochMeter(loss * items, items, correct, labels, norm, num_steps=1)
        return ReadStep(self._last, meter, loss, norm, int(bad_losses), int(bad_gradients), received)


def step_numbers(
    loss: Tensor, num_items: Tensor, num_correct: Tensor, num_labels: Tensor, grad_norm: Tensor, *, is_scaled: bool
) -> Tensor:
    """Return the numbers of a :class:`TakenStep`; with scaled losses a gradient overflows at times, and that is right.

    Example:
        >>> one = torch.tensor(1.0)
        >>> step_numbers(one, one, one, one, one / 0, is_scaled=False).tolist()
        [1.0, 1.0, 1.0, 1.0, inf, 0.0, 1.0]
    """
    bad_loss, bad_gradient = ((~value.isfinite()).to(loss) for value in (loss, grad_norm))
    if is_scaled:
        bad_gradient = torch.zeros_like(bad_loss)
    return torch.stack([loss, num_items, num_correct, num_labels, grad_norm.to(loss), bad_loss, bad_gradient])
