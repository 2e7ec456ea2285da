"""What long work shows: a bar on a terminal, a plain line a stage elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """Shows nothing; the base of those that do."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""

    def start(self, stage: str, num_steps: int) -> None:
        """A stage of so many steps begins."""

    def advance(self) -> None:
        """A step of the stage is over."""

    def say(self, sentence: str) -> None:
        """One line of news."""


class LineProgress(Progress):
    """One line a stage on standard error."""

    def start(self, stage: str, num_steps: int) -> None:
        """Print the stage."""
        self.say(stage)

    def say(self, sentence: str) -> None:
        """Print the sentence."""
        print(sentence, file=sys.stderr, flush=True)


class BarProgress(Progress):
    """A bar for the stage that runs; sentences stay above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._task: Any = None

    def __enter__(self) -> BarProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def start(self, stage: str, num_steps: int) -> None:
        """A new bar in the place of the last one."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(stage, total=num_steps)

    def advance(self) -> None:
        """Move the bar."""
        self._bars.advance(self._task)

    def say(self, sentence: str) -> None:
        """Print the sentence above the bar."""
        self._bars.console.print(sentence, markup=False)


def create_progress() -> Progress:
    """A bar where standard error is a terminal, lines where it is not."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()
