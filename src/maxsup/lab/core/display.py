"""How work shows its progress: a bar on a terminal, plain lines elsewhere, nothing where nobody looks."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from typing_extensions import Self


def percent(share: float | None) -> str:
    """Write a share as people read it; a dash where it is undefined."""
    return "-" if share is None or share != share else f"{100 * share:.2f} %"


class Display:
    """Shows nothing; the base of those that do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the terminal as it was."""

    def say(self, sentence: str) -> None:
        """Print a line of news."""

    def start(self, stage: str, num_steps: int) -> None:
        """Begin a stage of so many steps."""

    def advance(self) -> None:
        """Finish a step of the stage."""

    def move(self, stage: str, done: int, num_steps: int, numbers: str) -> None:
        """Show a stage, maybe under a new name, at step ``done``, with numbers beside it."""


class LineDisplay(Display):
    """One line a stage, on standard error by default."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def say(self, sentence: str) -> None:
        """Print the sentence."""
        print(sentence, file=self._stream, flush=True)

    def start(self, stage: str, num_steps: int) -> None:
        """Print the stage."""
        self.say(stage)


class BarDisplay(Display):
    """A bar for the stage that runs; sentences stay above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=10),  # narrow enough for a training with all its numbers in 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}", markup=False),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._task: Any = None
        self._depth = 0

    def __enter__(self) -> Self:
        self._depth += 1  # a training within an analysis enters the same display again
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._bars.stop()

    def say(self, sentence: str) -> None:
        """Print the sentence above the bar."""
        self._bars.console.print(sentence, markup=False)

    def start(self, stage: str, num_steps: int) -> None:
        """A new bar in the place of the last one."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(stage, total=num_steps, numbers="")

    def advance(self) -> None:
        """Move the bar by a step."""
        self._bars.advance(self._task)

    def move(self, stage: str, done: int, num_steps: int, numbers: str) -> None:
        """Move the bar to a step."""
        if self._task is None:
            # Steps of an earlier process must not count towards the estimate of the time left.
            self._task = self._bars.add_task(stage, total=num_steps, completed=done, numbers=numbers)
        self._bars.update(self._task, description=stage, total=num_steps, completed=done, numbers=numbers)


def create_display(is_shown: bool = True) -> Display:
    """A bar where standard error is a terminal, lines where it is not, nothing where it is not wanted."""
    if not is_shown:
        return Display()
    return BarDisplay() if sys.stderr.isatty() else LineDisplay()
