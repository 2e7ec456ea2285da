"""What a run shows while it goes: a bar on a terminal, a plain line an epoch elsewhere, nothing in other processes."""

from __future__ import annotations

import math
import sys
from types import TracebackType
from typing import Any, TextIO

from maxsup.training.clock import Clock


class Reporter:
    """Shows nothing; the base of those that do."""

    def __enter__(self) -> Reporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""

    def say(self, sentence: str) -> None:
        """One line of news."""

    def start_epoch(self, epoch: int, num_epochs: int, done: int, num_steps: int) -> None:
        """An epoch begins, or goes on after ``done`` steps."""

    def step(self, done: int, means: dict[str, float], alpha: float, clock: Clock) -> None:
        """A step is over."""

    def end_epoch(self, line: dict[str, Any], seconds: float, images_per_second: float) -> None:
        """An epoch is over."""


class LineReporter(Reporter):
    """One plain line an epoch.

    Args:
        stream: Where to; standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._num_epochs = 0

    def say(self, sentence: str) -> None:
        """Print the sentence."""
        print(sentence, file=self._stream, flush=True)

    def start_epoch(self, epoch: int, num_epochs: int, done: int, num_steps: int) -> None:
        """Remember how many epochs there are."""
        self._num_epochs = num_epochs

    def end_epoch(self, line: dict[str, Any], seconds: float, images_per_second: float) -> None:
        """Print the line."""
        self.say(epoch_line(line, self._num_epochs, seconds, images_per_second))


class BarReporter(LineReporter):
    """A bar for the epoch that runs, with loss, accuracy, alpha, images a second and time left; lines above it stay."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        super().__init__()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._task: Any = None
        self._overall = ""

    def __enter__(self) -> BarReporter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, sentence: str) -> None:
        """Print the sentence above the bar."""
        self._progress.console.print(sentence, markup=False)

    def start_epoch(self, epoch: int, num_epochs: int, done: int, num_steps: int) -> None:
        """The bar runs over all epochs, so that its time left is that of the run."""
        super().start_epoch(epoch, num_epochs, done, num_steps)
        self._before = epoch * num_steps
        if self._task is None:
            self._task = self._progress.add_task(
                "", total=num_epochs * num_steps, completed=self._before + done, numbers=""
            )
        self._progress.update(self._task, description=f"epoch {epoch + 1}/{num_epochs}")

    def step(self, done: int, means: dict[str, float], alpha: float, clock: Clock) -> None:
        """Move the bar."""
        # Short enough for 80 columns.
        words = [f"loss {means['loss']:.3f}", f"acc {means['accuracy']:.3f}"]
        if not math.isnan(alpha):
            words.append(f"alpha {alpha:.3g}")
        numbers = " ".join([*words, f"{clock.images_per_second():.0f} img/s"])
        self._progress.update(self._task, completed=self._before + done, numbers=numbers)


def create_reporter(is_shown: bool = True) -> Reporter:
    """A bar where standard error is a terminal, lines where it is not, nothing where it is not wanted."""
    if not is_shown:
        return Reporter()
    return BarReporter() if sys.stderr.isatty() else LineReporter()


def epoch_line(line: dict[str, Any], num_epochs: int, seconds: float, images_per_second: float) -> str:
    """An epoch in one line.

    Example:
        >>> numbers = {"loss": 0.51234, "accuracy": 0.9}
        >>> line = {"epoch": 0, "lr": 0.1, "alpha": 0.1, "train": numbers, "val": {"accuracy": 0.8, "nll": 0.7}}
        >>> epoch_line(line, 10, 2.0, 500.0)
        'epoch 1/10  loss 0.5123  acc 0.9000  val acc 0.8000  val nll 0.7000  alpha 0.1  lr 0.1  500 img/s  2.0 s'
    """
    train, val, alpha = line["train"], line["val"], line["alpha"]
    words = [f"epoch {line['epoch'] + 1}/{num_epochs}", f"loss {train['loss']:.4f}", f"acc {train['accuracy']:.4f}"]
    if val is not None:
        words += [f"val miou {val['miou']:.4f}"] if "miou" in val else []
        words += [f"val acc {val['accuracy']:.4f}", f"val nll {val['nll']:.4f}"]
    if not math.isnan(alpha):
        words.append(f"alpha {alpha:.3g}")
    words += [f"lr {line['lr']:.3g}", f"{images_per_second:.0f} img/s", f"{seconds:.1f} s"]
    return "  ".join(words)
