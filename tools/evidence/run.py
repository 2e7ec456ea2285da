"""Run what is missing of the plan, one task after another, each in a process of its own.

    python -m tools.evidence.run --data DIR --output DIR [--experiments C A] [--seeds 100 105] [--pause FILE]

The same command goes on after an interruption, and on another machine where the results were collected. Two of them,
with different experiments, use two cores. While the pause file exists the running task is stopped, and it continues
when the file is gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.evidence.plan import Plan, Task, load_plan, tasks
from tools.evidence.results import is_done
from tools.evidence.store import RESULTS, done_runs

POLL_SECONDS = 0.5
ATTEMPTS = 2


def missing(plan: Plan, output: Path, experiments: set[str], seeds: range, results: Path = RESULTS) -> Iterator[Task]:
    """Tasks whose runs are neither collected nor under ``output``, in the order of the plan."""
    collected = done_runs(plan, results)
    for task in tasks(plan):
        is_wanted = plan.pools[task.pool].experiment in experiments and set(task.seeds) & set(seeds)
        if is_wanted and not collected.issuperset(task.runs) and not is_done(output / task.name):
            yield task


def run_task(task: Task, data: Path, output: Path, pause: Path | None) -> bool:
    """Do a task in a process of its own; says whether it ended well."""
    folder = output / task.name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tools.evidence.work", task.name, "--data", str(data), "--output", str(output)]
    with (folder / "log.txt").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})
        try:
            _wait(process, pause)
        except BaseException:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait()
            raise
    return process.returncode == 0


def _wait(process: subprocess.Popen[bytes], pause: Path | None) -> None:
    is_stopped = False
    while process.poll() is None:
        should_stop = pause is not None and pause.exists()
        if should_stop != is_stopped:
            process.send_signal(signal.SIGSTOP if should_stop else signal.SIGCONT)
            is_stopped = should_stop
        time.sleep(POLL_SECONDS)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--experiments", nargs="+", default=["A", "B", "C", "D", "E"])
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 10**6), help="the first and the last")
    parser.add_argument("--pause", type=Path)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan, seeds = load_plan(), range(given.seeds[0], given.seeds[1] + 1)
    for task in missing(plan, given.output, set(given.experiments), seeds):
        while given.pause is not None and given.pause.exists():
            time.sleep(POLL_SECONDS)
        is_well = any(run_task(task, given.data, given.output, given.pause) for _ in range(ATTEMPTS))
        print(f"{time.strftime('%H:%M:%S')} {task.name}{'' if is_well else ' FAILED, see log.txt'}", flush=True)


if __name__ == "__main__":
    main()
