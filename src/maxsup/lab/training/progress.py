"""The running numbers of training, its time among them, and how it shows them: a bar, and one line per epoch."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
from typing_extensions import Self

from maxsup.lab.core.display import Display, percent
from maxsup.lab.tasks import task_of_numbers
from maxsup.metrics.facts import fact

# Columns of an epoch; together they fit 80 characters.
_WIDTHS = {"alpha": 5, "img/s": 6}


@dataclass
class EpochMeter:
    """Sums over the steps of an epoch in this process; ``num_items`` is the denominator of the loss.

    Example:
        >>> meter = EpochMeter()
        >>> meter.add(EpochMeter(loss_sum=8.0, num_items=4, num_correct=3, num_labels=4, grad_norm=1.5, num_steps=1))
        >>> meter.means()
        {'loss': 2.0, 'accuracy': 0.75, 'grad_norm': 1.5}
    """

    loss_sum: float = 0.0
    num_items: float = 0.0
    num_correct: float = 0.0
    num_labels: float = 0.0
    grad_norm: float = 0.0
    num_steps: float = 0.0

    def add(self, step: EpochMeter) -> None:
        """Add the sums of a step."""
        for name, value in asdict(step).items():
            setattr(self, name, getattr(self, name) + value)

    def sum_over_processes(self, device: torch.device) -> EpochMeter:
        """Add up the sums of all processes."""
        if not (dist.is_available() and dist.is_initialized()):
            return self
        sums = torch.tensor(list(asdict(self).values()), dtype=torch.float64, device=device)
        dist.all_reduce(sums)
        return EpochMeter(*sums.tolist())

    def means(self) -> dict[str, float]:
        """Return mean loss, accuracy and gradient norm; ``nan`` if there is nothing to average."""
        ratios = {
            "loss": (self.loss_sum, self.num_items),
            "accuracy": (self.num_correct, self.num_labels),
            "grad_norm": (self.grad_norm, self.num_steps),
        }
        return {name: total / count if count else math.nan for name, (total, count) in ratios.items()}


class Clock:
    """Seconds of each phase and of each epoch, also of an epoch that was interrupted.

    Phases are ``data`` (waiting for a batch), ``step`` (forward, backward, optimiser), ``log``, ``validation`` and
    ``checkpoint``.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.num_images = 0
        self._start, self._cpu_start = time.perf_counter(), time.process_time()
        self.start_epoch()

    def start_epoch(self) -> None:
        """Count the epoch from here."""
        self._before = {"seconds": self.total, "cpu_seconds": self._cpu, "num_images": self.num_images}

    def epoch(self) -> dict[str, float]:
        """Time of the epoch so far, on the wall and of the processor, and training images per second."""
        seconds = self.total - self._before["seconds"]
        rate = (self.num_images - self._before["num_images"]) / seconds
        return {"seconds": seconds, "images_per_second": rate, "cpu_seconds": self._cpu - self._before["cpu_seconds"]}

    def state(self) -> dict[str, Any]:
        """Return the state from which :meth:`restore` continues."""
        totals = {"total": self.total, "cpu_total": self._cpu, "num_images": self.num_images}
        return {**totals, "seconds": dict(self.seconds), "before_epoch": self._before}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue an earlier clock."""
        self.seconds.update(state["seconds"])
        self.num_images = state["num_images"]
        self._start -= state["total"]
        self._cpu_start -= state.get("cpu_total", 0.0)
        self.start_epoch()
        self._before = state.get("before_epoch", self._before)  # older checkpoints have none

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

    @property
    def _cpu(self) -> float:
        return time.process_time() - self._cpu_start

    def images_per_second(self) -> float:
        """Return training images per second of training steps, with their data and logging."""
        spent = sum(self.seconds[name] for name in ("data", "step", "log"))
        return self.num_images / spent if spent else 0.0

    def shares(self) -> dict[str, float]:
        """Return the share of each phase in the total time; ``outside`` is all but training steps and validation."""
        total = self.total
        shares = {name: self.seconds[name] / total for name in ("data", "step", "log", "validation", "checkpoint")}
        return {**shares, "outside": 1.0 - shares["step"] - shares["validation"]}


class Reporter:
    """Reports training to a display; the default one shows nothing."""

    _epoch = _num_epochs = _num_steps = 0
    _has_head = False

    def __init__(self, display: Display | None = None) -> None:
        self._display = display or Display()

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._display.__exit__(*error)

    def say(self, sentence: str) -> None:
        """Show one line."""
        self._display.say(sentence)

    def start_epoch(self, epoch: int, num_epochs: int, done: int, num_steps: int) -> None:
        """Show that an epoch begins, or resumes after ``done`` steps."""
        self._epoch, self._num_epochs, self._num_steps = epoch, num_epochs, num_steps
        self._move(done, "")

    def step(self, done: int, means: dict[str, float], alpha: float, clock: Clock) -> None:
        """Show that a step is over."""
        # Short enough for 80 columns. The first step of all has no numbers yet: they are read while the next is taken.
        shown = {"loss": means["loss"], "acc": means["accuracy"]}
        words = [f"{word} {value:.3f}" for word, value in shown.items() if not math.isnan(value)]
        if not math.isnan(alpha):
            words.append(f"alpha {alpha:.3g}")
        self._move(done, " ".join([*words, f"{clock.images_per_second():.0f} img/s"]))

    def end_epoch(self, line: dict[str, Any], seconds: float, images_per_second: float) -> None:
        """Show that an epoch is over."""
        head, row = epoch_line(line, self._num_epochs, seconds, images_per_second)
        if not self._has_head:
            self.say(head)
            self._has_head = True
        self.say(row)

    def _move(self, done: int, numbers: str) -> None:
        # With one bar for all epochs the time left is that of the run.
        done, num_steps = self._epoch * self._num_steps + done, self._num_epochs * self._num_steps
        self._display.move(f"epoch {self._epoch + 1}/{self._num_epochs}", done, num_steps, numbers)


def epoch_line(line: dict[str, Any], num_epochs: int, seconds: float, images_per_second: float) -> tuple[str, str]:
    r"""Return the head of the table of epochs and the row of one.

    Example:
        >>> numbers = {"loss": 0.51234, "accuracy": 0.9}
        >>> line = {"epoch": 0, "lr": 0.1, "alpha": 0.1, "train": numbers, "val": {"accuracy": 0.8, "nll": 0.7}}
        >>> print(*epoch_line(line, 10, 2.0, 500.0), sep="\n")
          epoch     loss      acc  val acc  val nll  alpha       lr   img/s  seconds
           1/10   0.5123  90.00 %  80.00 %   0.7000    0.1      0.1     500      2.0
    """
    train, val, alpha = line["train"], line["val"], line["alpha"]
    cells = {
        "epoch": f"{line['epoch'] + 1}/{num_epochs}",
        "loss": f"{train['loss']:.4f}",
        "acc": percent(train["accuracy"]),
    }
    if val is not None:
        for word, name in task_of_numbers(val).progress_numbers.items():
            cells[f"val {word}"] = percent(val[name]) if fact(name).printed_unit == "%" else f"{val[name]:.4f}"
    if not math.isnan(alpha):
        cells["alpha"] = f"{alpha:.3g}"
    cells |= {"lr": f"{line['lr']:.3g}", "img/s": f"{images_per_second:.0f}", "seconds": f"{seconds:.1f}"}
    widths = [max(len(title), _WIDTHS.get(title, 7)) for title in cells]
    head, row = ("  ".join(map(str.rjust, words, widths)) for words in (cells.keys(), cells.values()))
    return head, row
