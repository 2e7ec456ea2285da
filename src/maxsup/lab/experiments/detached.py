"""A launch in a process of its own that outlives the terminal, and a look at it from anywhere that sees its folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from maxsup.core.errors import ExitCode, Interruption, MaxsupError, counted
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.interrupt import SignalGuard
from maxsup.lab.experiments.execution.launch import LOOK_SECONDS, JobState, OnChange, read_state
from maxsup.lab.experiments.execution.study_folder import STUDY_FILE, StudyFolder, read_folder
from maxsup.lab.training.processes import is_gone

LAUNCH, LAUNCH_LOG = "launch.json", "launch.log"


class EndedLaunchError(MaxsupError):
    """A launch ended before its runs did."""

    exit_code = ExitCode.CRASH


def submit(words: Sequence[str], output: Path) -> int:
    """Start the program with these words for an output folder, and ``launch.log`` there; gives the process."""
    if (process := _process_at(output)) is not None:
        raise MaxsupError(
            f"output must have one launch at a time; got {str(output)!r}, in which process {process} is at work. "
            f"Look at it with maxsup study watch {output}, or end it with kill {process}, and its runs are saved.",
            code="already-running",
        )
    output.mkdir(parents=True, exist_ok=True)
    with (output / LAUNCH_LOG).open("ab") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "maxsup", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C and a terminal that closes do not reach it.
            start_new_session=True,
        )
    values = {"process": started.pid, "host": socket.gethostname(), "words": list(words)}
    RunDir(output).write_json(output / LAUNCH, values)
    return started.pid


def watch(output: Path, on_change: OnChange) -> tuple[StudyFolder, list[JobState]]:
    """Show the runs of an output folder until all have ended; gives those that failed.

    Raises:
        EndedLaunchError: Its launch has ended, and runs are left.
        Interruption: Watching was stopped; the runs go on.
    """
    with SignalGuard() as guard:
        guard.is_deferring = True
        while True:
            # Asked first, so that what a launch wrote last is seen.
            is_over = (output / LAUNCH).is_file() and _process_at(output) is None
            states = _states(output)
            if states:
                on_change(states)
            if states and all(state.is_final for state in states) and (is_over or not (output / LAUNCH).is_file()):
                return read_folder(output), [state for state in states if state.status == "failed"]
            if is_over:
                left = counted(sum(not state.is_final for state in states), "run")
                raise EndedLaunchError(
                    f"the launch in {output} has ended, and {left if states else 'all runs'} are left; {LAUNCH_LOG} "
                    "there says why. Submit the same study again to go on.",
                    code="ended-launch",
                )
            if not states and not (output / LAUNCH).is_file():
                return read_folder(output), []  # which says what is missing
            if guard.received is not None:
                raise Interruption("watching has stopped; the runs go on.", signal_number=guard.received)
            time.sleep(LOOK_SECONDS)


def _states(output: Path) -> list[JobState]:
    """The runs that the launch has written down so far."""
    if not (output / STUDY_FILE).is_file():
        return []
    return [read_state(job) for job in read_folder(output).jobs()]


def _process_at(output: Path) -> int | None:
    """The process that launches runs in a folder; None if there is none, or none any more."""
    if not (output / LAUNCH).is_file():
        return None
    record = read_json(output / LAUNCH)
    process = int(record["process"])
    return None if is_gone(process, str(record["host"])) else process
