"""Runs that are killed: one process pays for the imports, its children train and die as they are told.

Reads orders ``kind value directory`` from standard input, prints the status of each child: ``time 0.3`` kills it after
0.3 s, ``write 5`` in the middle of its 5th write, ``rename 2`` before its 2nd rename.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from maxsup.lab.core.config import Recipe
from maxsup.lab.core.files import storage
from maxsup.lab.training.progress import Clock, Reporter
from tests.integration.runs import tiny_recipe, train_quietly

# Look whether it has ended, without taking its status away.
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT


class StepFile(Reporter):
    """Keeps the number of steps that were really taken in a file, where a kill leaves it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT)
        self.before = 0

    def start_epoch(self, epoch: int, num_epochs: int, done: int, num_steps: int) -> None:
        self.before = epoch * num_steps

    def step(self, done: int, means: dict[str, float], alpha: float, clock: Clock) -> None:
        os.pwrite(self.file, f"{self.before + done:6d}".encode(), 0)


def deadly(function: Callable[..., Any], left: int, *, is_halfway: bool) -> Callable[..., Any]:
    """The same function, but the ``left``-th call kills the process, after half of a write if so wanted."""

    def call(first: Any, second: Any) -> Any:
        nonlocal left
        left -= 1
        if left <= 0:
            if is_halfway:
                function(first, second[: len(second) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return function(first, second)

    return call


def live(recipe: Recipe, output: Path, kind: str, value: str) -> None:
    if kind == "write":
        storage.os.write = deadly(os.write, int(value), is_halfway=True)
    if kind == "rename":
        storage.os.replace = deadly(os.replace, int(value), is_halfway=False)
    train_quietly(recipe, output, StepFile(output.with_suffix(".steps")))


def main(images: str, *words: str) -> None:
    recipe = tiny_recipe(Path(images), *words)
    with TemporaryDirectory() as scratch:
        # Imports everything that is imported late, once for all children.
        train_quietly(tiny_recipe(Path(images), *words, "epochs=1"), Path(scratch))
    for order in sys.stdin:
        kind, value, output = order.split()
        child = os.fork()
        if child == 0:
            live(recipe, Path(output), kind, value)
            os._exit(0)
        end = time.monotonic() + float(value)
        while kind == "time" and time.monotonic() < end and os.waitid(os.P_PID, child, _LOOK) is None:
            time.sleep(0.002)
        if kind == "time":
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
