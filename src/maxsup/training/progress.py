"""What a training shows: a bar over all epochs on a terminal, a plain line an epoch everywhere."""

from __future__ import annotations

import math
from typing import Any

from typing_extensions import Self

from maxsup.core.display import Display
from maxsup.training.clock import Clock


class Reporter:
    """Tells a display how a training goes; by default one that shows nothing."""

    _epoch = _num_epochs = _num_steps = 0

    def __init__(self, display: Display | None = None) -> None:
        self._display = display or Display()

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._display.__exit__(*error)

    def say(self, sentence: str) -> None:
        """One line of news."""
        self._display.say(sentence)

    def start_epoch(self, epoch: int, num_epochs: int, done: int, num_steps: int) -> None:
        """An epoch begins, or goes on after ``done`` steps."""
        self._epoch, self._num_epochs, self._num_steps = epoch, num_epochs, num_steps
        self._move(done, "")

    def step(self, done: int, means: dict[str, float], alpha: float, clock: Clock) -> None:
        """A step is over."""
        # Short enough for 80 columns.
        words = [f"loss {means['loss']:.3f}", f"acc {means['accuracy']:.3f}"]
        if not math.isnan(alpha):
            words.append(f"alpha {alpha:.3g}")
        self._move(done, " ".join([*words, f"{clock.images_per_second():.0f} img/s"]))

    def end_epoch(self, line: dict[str, Any], seconds: float, images_per_second: float) -> None:
        """An epoch is over."""
        self.say(epoch_line(line, self._num_epochs, seconds, images_per_second))

    def _move(self, done: int, numbers: str) -> None:
        # One bar for all epochs, so that the time left is that of the run.
        done, num_steps = self._epoch * self._num_steps + done, self._num_epochs * self._num_steps
        self._display.move(f"epoch {self._epoch + 1}/{self._num_epochs}", done, num_steps, numbers)


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
