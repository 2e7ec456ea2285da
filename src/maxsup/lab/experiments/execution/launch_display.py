"""What a launch shows: a table of all runs on a terminal, plain lines about each of them elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO

from typing_extensions import Self

from maxsup.core.errors import counted
from maxsup.lab.core.display import Display, LineDisplay
from maxsup.lab.experiments.execution.launch import JobState, Status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ORDER: tuple[Status, ...] = ("running", "failed", "queued", "done")
_STYLES = {"running": "bold", "failed": "red", "queued": "dim", "done": "green"}
_BAR_WIDTH = 20

LINE_SECONDS = 15.0  # between two lines about the progress of a run
STILL_SECONDS = 60.0  # without progress before a run is named


class View(Display):
    """A display of runs that shows nothing; the base of those that do."""

    def update(self, states: Sequence[JobState]) -> None:
        """Show the states of all runs; a launcher calls this a few times a second."""


class LineView(View):
    """One line when a run starts or ends, and now and then its progress; a run that does not move is named."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines, self._clock = LineDisplay(stream), clock
        self._known: dict[str, str] = {}
        self._told: dict[str, tuple[float, str]] = {}
        self._still: dict[str, float] = {}

    def update(self, states: Sequence[JobState]) -> None:
        """Print what has changed."""
        num_over = sum(state.is_final for state in states)
        for state in states:
            if text := self._news(state):
                self._lines.say(f"[{num_over}/{len(states)}] {state.job.name} {text}")

    def _news(self, state: JobState) -> str:
        name, now = state.job.name, self._clock()
        before, self._known[name] = self._known.get(name), state.status
        if state.status != before and not (state.status == "queued" and before is None):
            self._told[name] = now, standing(state)
            return "is there already" if before is None and state.status == "done" else _change_text(state)
        if state.status != "running":
            return ""
        # Again after twice the time, so that the log of a night stays short.
        if state.pulse.age >= max(STILL_SECONDS, 2 * self._still.get(name, 0.0)):
            self._still[name] = state.pulse.age
            return f"{_stillness(state)}{f'. Log: {state.log}' if state.log else ''}"
        if state.pulse.age < STILL_SECONDS:
            self._still.pop(name, None)
        told, words = self._told.get(name, (now, ""))
        if now - told >= LINE_SECONDS and standing(state) != words:
            self._told[name] = now, standing(state)
            return standing(state)
        return ""


class TableView(View):
    """A table of all runs, twice a second; if they do not fit, running and failed ones come first."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, refresh_per_second=2, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def update(self, states: Sequence[JobState]) -> None:
        """Redraw."""
        self._live.update(state_table(states, height=self._console.size.height))


class NotebookView(View):
    """The same table below the cell of a notebook, as text that is redrawn in place."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._text = ""

    def update(self, states: Sequence[JobState]) -> None:
        """Redraw if something has changed."""
        from rich.console import Console

        console = Console(file=StringIO(), width=100, force_jupyter=False, force_terminal=False, color_system=None)
        console.print(state_table(states))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        content = {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
        if self._shown is None:
            self._shown = import_module("IPython.display").display(content, raw=True, display_id=True)
        elif text != self._text:
            self._shown.update(content, raw=True)
        self._text = text


def create_view() -> View:
    """A table on a terminal and in a notebook, lines elsewhere."""
    # IPython is only asked if it was imported already, as in the kernel of a notebook.
    if hasattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "kernel"):
        return NotebookView()
    return TableView() if sys.stderr.isatty() else LineView()


def state_table(states: Sequence[JobState], height: int = 25) -> Table:
    """The runs as a table of at most ``height`` lines."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    room, shown = max(height - 5, 1), list(states)
    if len(shown) > room:
        shown = sorted(shown, key=lambda state: _ORDER.index(state.status))[: max(room - 1, 1)]
    counts, left = Counter(state.status for state in states), total_seconds_left(states)
    words = [f"{counts[status]} {status}" for status in ("done", "running", "queued", "failed") if counts[status]]
    words += [] if left is None else [f"about {duration(left)} left"]
    title = f"{counted(len(states), 'run')}: {', '.join(words)}"
    table = Table(title=title, title_justify="left", title_style="", box=None, pad_edge=False)
    table.add_column("run", no_wrap=True, overflow="ellipsis")
    table.add_column("status")
    table.add_column("", width=_BAR_WIDTH)
    # No cell of a machine without GPUs.
    names = ["epoch", "left", "images/s", *(["GPU"] if any(state.gpus for state in states) else [])]
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for state in shown:
        is_running, pulse = state.status == "running", state.pulse
        done = max(state.epoch, pulse.epoch + pulse.step / max(pulse.num_steps, 1))
        # A job that trains nothing has no epochs.
        has_bar = state.job.epochs and (is_running or (state.epoch and not state.is_final))
        bar: Any = ProgressBar(state.job.epochs, done, width=_BAR_WIDTH) if has_bar else ""
        time_left = "" if not is_running or state.seconds_left is None else duration(state.seconds_left)
        epoch = f"{state.epoch}/{state.job.epochs}" if state.job.epochs else ""
        rate = f"{pulse.images_per_second:.0f}" if is_running and pulse.images_per_second is not None else ""
        sentence = _stillness(state) if is_running and pulse.age >= STILL_SECONDS else state.sentence
        # Text, not strings: names and sentences may hold what rich takes for markup.
        status = Text(state.status, style=_STYLES[state.status])
        numbers: list[Any] = [epoch, time_left, rate, Text(state.gpus)][: len(names)]
        table.add_row(Text(state.job.name), status, bar, *numbers, Text(sentence))
    if len(shown) < len(states):
        hidden = counts - Counter(state.status for state in shown)
        words = [f"{hidden[status]} {status}" for status in _ORDER if hidden[status]]
        table.add_row(Text(f"and {', '.join(words)}", style="dim"))
    return table


def standing(state: JobState) -> str:
    """Where a run is, in words.

    Example:
        >>> from pathlib import Path
        >>> from maxsup.lab.experiments.execution.launch import Job
        >>> job = Job("ce-s0", Path("runs/ce-s0"), 10)
        >>> standing(JobState(job, "running", 10, sentence="analysis collapse"))
        'is at: analysis collapse'
        >>> standing(JobState(job, "running"))
        'is loading data and model'
    """
    pulse = state.pulse
    if state.sentence:
        return f"is at: {state.sentence}"
    if not pulse.num_steps or pulse.epoch < state.epoch:
        return f"is after epoch {state.epoch}/{state.job.epochs}" if state.epoch else "is loading data and model"
    words = [f"is in epoch {pulse.epoch + 1}/{state.job.epochs}"]
    words.append("validation" if pulse.step == pulse.num_steps else f"step {pulse.step}/{pulse.num_steps}")
    if pulse.images_per_second is not None:
        words.append(f"{pulse.images_per_second:.0f} images/s")
    if state.seconds_left is not None:
        words.append(f"{duration(state.seconds_left)} left")
    return ", ".join(words)


def _stillness(state: JobState) -> str:
    return f"has not moved for {duration(state.pulse.age)}: {standing(state)}"


def duration(seconds: float) -> str:
    """Seconds in words.

    Example:
        >>> duration(7.4), duration(90), duration(3700)
        ('7 s', '1 min 30 s', '1 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def total_seconds_left(states: Sequence[JobState]) -> float | None:
    """Seconds until all runs are trained, at the present speed; None before the first epoch is over."""
    epochs = [(state.seconds, state.epoch) for state in states if state.seconds is not None and state.epoch]
    running = [state for state in states if state.status == "running"]
    if not epochs or not running:
        return None
    each = sum(seconds for seconds, _ in epochs) / sum(epoch for _, epoch in epochs)
    known = [state.seconds_left for state in running if state.seconds_left is not None]
    unknown = [state for state in running if state.seconds_left is None]
    unknown += [state for state in states if state.status == "queued"]
    return (sum(known) + each * sum(state.job.epochs - state.epoch for state in unknown)) / len(running)


def _change_text(state: JobState) -> str:
    if state.status == "running":
        return f"goes on after epoch {state.epoch}" if state.epoch else "has started"
    if state.status == "queued":
        return "waits for another attempt"
    if state.status == "done":
        return "is done" if state.seconds is None else f"is done, trained in {duration(state.seconds)}"
    where = f" Log: {state.log}" if state.log else ""
    return f"has failed: {state.sentence}{where}"
