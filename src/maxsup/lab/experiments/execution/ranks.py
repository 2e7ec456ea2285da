"""A run trained by several processes with a GPU each, which see what ``torchrun`` would give them.

The worker of the run holds the store through which they meet, so no port is guessed, and starts them again from the
last checkpoint if one is killed. It does not use torchrun's own agent, whose processes are in sessions of their own and
outlive an agent that is killed: these leave when the worker does, because their lifeline, a pipe, ends.

``python -m maxsup.lab.experiments.execution.ranks FOLDER N`` is one of them; its lifeline is file descriptor ``N``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from maxsup.core.errors import ExitCode, Interruption, LostProcessError, MaxsupError
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.interrupt import SignalGuard
from maxsup.lab.experiments.execution.worker import JOB, SAVE_SECONDS, failure_of, train_job

NUM_RESTARTS = 2  # of a run that has lost a process
GRACE_SECONDS = 15.0  # that the others get to say what they saw when one has failed
_LOOK_SECONDS = 0.1


class RankError(MaxsupError):
    """What one of the processes of a run said before it failed, with its codes."""

    def __init__(self, sentence: str, exit_code: int, code: str) -> None:
        super().__init__(sentence, code=code)
        self.exit_code = exit_code


def train_on_ranks(folder: Path, num_ranks: int) -> None:
    """Train the run of a folder in so many processes; raise what one of them raised.

    Raises:
        Interruption: A signal came to this process; all of them have saved.
    """
    for _ in range(1 + NUM_RESTARTS):
        if _attempt(folder, num_ranks):
            return
        print("a process of this run was lost; all start again from the last checkpoint", flush=True)
    raise LostProcessError(
        f"all {num_ranks} processes of a run must stay until its end; got one that was killed {1 + NUM_RESTARTS} "
        "times. Look for what kills it, for instance too little memory; the same command goes on."
    )


def _attempt(folder: Path, num_ranks: int) -> bool:
    """Train until all processes have ended; False if one was killed."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    for rank in range(num_ranks):
        _failure(folder, rank).unlink(missing_ok=True)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    read_end, write_end = os.pipe()
    ranks: list[subprocess.Popen[bytes]] = []
    with FileIO(read_end) as lifeline, FileIO(write_end, "w") as held, SignalGuard() as guard:
        guard.is_deferring = True
        try:
            for rank in range(num_ranks):
                ranks.append(_start(folder, rank, num_ranks, store.port, lifeline.fileno()))
            _wait(ranks, guard, held)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
        if guard.received is not None and any(process.returncode for process in ranks):
            raise Interruption("stopped, and saved by all processes.", signal_number=guard.received)
    return _are_done(folder, [process.returncode for process in ranks])


def _start(folder: Path, rank: int, num_ranks: int, port: int, lifeline: int) -> subprocess.Popen[bytes]:
    place = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": num_ranks, "LOCAL_WORLD_SIZE": num_ranks}
    # The store is that of the parent, as it is the agent's under torchrun.
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": True}
    variables = {name: str(value) for name, value in (place | meeting).items()}
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder), str(lifeline)],
        stdin=subprocess.DEVNULL,
        pass_fds=[lifeline],
        env=os.environ | {"OMP_NUM_THREADS": "1", "TORCHELASTIC_RESTART_COUNT": "0"} | variables,
    )


def _wait(ranks: Sequence[subprocess.Popen[bytes]], guard: SignalGuard, held: FileIO) -> None:
    """Wait until all have ended, or those that are left have had their time."""
    end = None
    while None in (codes := [process.poll() for process in ranks]):
        if guard.received is not None and not held.closed:
            # Not a signal: a cluster may have sent it to all of them already, and a second one means "at once".
            held.close()
            end = time.monotonic() + SAVE_SECONDS
        if end is None and any(codes):
            end = time.monotonic() + GRACE_SECONDS
        if end is not None and time.monotonic() > end:
            return
        time.sleep(_LOOK_SECONDS)


def _are_done(folder: Path, codes: Sequence[int]) -> bool:
    """Whether all processes succeeded; False if one was killed, and an error if one raised it."""
    if not any(codes):
        return True
    said = [read_json(path) for rank in range(len(codes)) if (path := _failure(folder, rank)).exists()]
    own = [failure for failure in said if not failure["is_lost"]]
    if own:
        raise RankError(str(own[0]["sentence"]), int(own[0]["exit_code"]), str(own[0]["code"]))
    if not any(code < 0 for code in codes) and not said:
        raise RankError(f"processes of the run ended with exit codes {list(codes)}.", ExitCode.CRASH, "bug")
    return False


def _failure(folder: Path, rank: int) -> Path:
    return folder / f".rank-{rank}.json"


def _follow(lifeline: FileIO) -> None:
    """Save and leave when the worker is gone or wants to stop."""
    lifeline.read(1)
    if SignalGuard().received is None:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SAVE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def main(words: Sequence[str]) -> int:
    """Be one of the processes of a run; gives the exit code."""
    # SLURM tells all processes of a job that its time is up; the worker decides what follows.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    folder, rank = Path(words[0]), int(os.environ["RANK"])
    threading.Thread(target=_follow, args=(FileIO(int(words[1])),), daemon=True).start()
    try:
        with SignalGuard():
            import torch

            from maxsup.lab.experiments.execution.heartbeat import PulseReporter
            from maxsup.lab.training.processes import leave_group

            torch.set_num_threads(1)
            train_job(folder, read_json(folder / JOB), PulseReporter(sys.stdout, folder) if rank == 0 else None)
            leave_group()
    except Interruption as stop:
        print(stop, flush=True)
        return stop.exit_code
    except Exception as error:
        traceback.print_exc()
        failure = failure_of(error)
        place = RunDir(folder)
        place.write_json(_failure(folder, rank), {**failure, "is_lost": isinstance(error, LostProcessError)})
        return int(failure["exit_code"])
    return 0


if __name__ == "__main__":
    _code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # As a worker does: Python would spend seconds on unloading torch.
    os._exit(_code)
