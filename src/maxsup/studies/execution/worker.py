"""What a worker does for one run: train it, then analyse it; what is there already is not done again.

A job that names ``runs`` trains nothing: it makes analyses that need several finished runs at once.

``python -m maxsup.studies.execution.worker FOLDER`` does one job and exits with the code of what went wrong.
``--orders N`` takes jobs from file descriptor ``N``, one folder in JSON a line, and answers each with a line. When the
orders end, also because whoever writes them has died, it saves and leaves.

A run's folder is all that is needed::

    job.json       recipe, name and analyses, perhaps the folders of other runs: what is to be done
    started.json   an attempt has begun; process and host, for people
    failure.json   why the last attempt failed: sentence and exit code
    worker.log     all that attempts have printed
    analysis/.done/  one file an analysis that is over: what was asked for, what was written
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from maxsup.core.errors import Interruption, MaxsupError, StorageError, exit_code, out_of_memory
from maxsup.core.files.reading import as_written, read_json
from maxsup.core.files.rundir import RunDir
from maxsup.core.interrupt import SignalGuard

if TYPE_CHECKING:
    from maxsup.studies.execution.heartbeat import PulseReporter

JOB, STARTED, FAILURE, LOG = "job.json", "started.json", "failure.json", "worker.log"

ORDERS = "--orders"

# How long workers may take to save before they are killed; their last checkpoint holds.
SAVE_SECONDS = 60.0
# How long a worker waits for another one to leave its folder: one whose launcher has died saves first.
WAIT_SECONDS = 120.0
_LOOK_SECONDS = 0.2


def read_job(folder: Path) -> dict[str, Any]:
    """What ``job.json`` asks for."""
    return read_json(folder / JOB)


def analysis_marker(folder: Path, request: Mapping[str, Any]) -> Path:
    """The file that says that an analysis of a job is over, and what it wrote.

    Example:
        >>> analysis_marker(Path("run"), {"what": "collapse", "split": "test"}).as_posix()
        'run/analysis/.done/collapse-e4861d81.json'
    """
    text = json.dumps(request, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return RunDir(folder).analysis / ".done" / f"{request['what']}-{digest}.json"


def is_done(folder: Path, job: Mapping[str, Any] | None = None) -> bool:
    """Whether a run is trained, where it is to be, and all analyses of its job, or of another ``job``, are over."""
    has_summary = RunDir(folder).summary.exists()
    if job is None and not has_summary and not (folder / JOB).exists():
        return False
    asked = read_job(folder) if job is None else job
    return (has_summary or "runs" in asked) and not _open_requests(folder, asked)


def run_job(folder: str | Path, reporter: PulseReporter | None = None) -> None:
    """Train what ``job.json`` says, then do the analyses that are not there yet.

    An analysis that fails does not keep the others from being made; the first error is raised at the end.
    """
    import torch

    from maxsup.core.config import parse_recipe
    from maxsup.studies.imports import import_all
    from maxsup.training import train
    from maxsup.training.progress import Reporter

    folder = Path(folder)
    job, num_threads = read_job(folder), torch.get_num_threads()
    import_all(job.get("imports", ()))
    run = RunDir(folder)
    runs = [folder / other for other in job.get("runs", ())]
    if not runs and not run.summary.exists():
        with as_written(folder / JOB):
            recipe, name = parse_recipe(job["recipe"], source=str(folder / JOB)), str(job["name"])
        train(recipe, folder, name=name, reporter=reporter or Reporter())
    errors: list[Exception] = []
    for request in _open_requests(folder, job):
        if _is_analyzed(folder, request):  # meanwhile, under another name
            continue
        if reporter is not None:
            reporter.work_on(f"analysis {request['what']}")
        try:
            done = _analyzed(folder, request, runs or [folder])
            for same in job["analyses"]:
                if same | {"name": None} == request | {"name": None}:
                    run.write_json(analysis_marker(folder, same), {"request": same, **done})
        except Exception as error:
            # To the log: a process that watches itself shows other things.
            print(traceback.format_exc(), file=sys.stderr) if reporter is None else reporter.say(traceback.format_exc())
            errors.append(error)
        # Training may have asked for more; analyses are a worker's business like everything else.
        torch.set_num_threads(num_threads)
    if errors:
        raise errors[0]


def attempt(
    folder: str | Path, *, wait_seconds: float = WAIT_SECONDS, on_pulse: Callable[[], None] | None = None
) -> int:
    """:func:`run_job` on one thread, with its log, alone in its folder; what goes wrong is left in ``failure.json``.

    Where another process works there, it is waited for. ``on_pulse`` is called every second or so; a process that
    watches itself is not the worker's own: what it prints and the number of its threads stay as they are.

    Returns:
        The exit code: 0, that of the error, or 130 or 143 after a signal, which is no failure: the run is saved.
    """
    run = RunDir(folder)
    run.path.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        log = stack.enter_context((run.path / LOG).open("a", buffering=1, encoding="utf-8"))
        if on_pulse is None:
            stack.enter_context(_redirected(log))
        try:
            with SignalGuard(), _claimed(run, wait_seconds, log):
                (run.path / FAILURE).unlink(missing_ok=True)
                run.write_json(run.path / STARTED, {"process": os.getpid(), "host": socket.gethostname()})
                _run(run.path, log, on_pulse)
        except Interruption as stop:
            print(stop, file=log)
            return stop.exit_code
        except Exception as error:
            traceback.print_exc(file=log)
            known = out_of_memory(error) or error
            code = exit_code(known)
            sentence = str(known) or type(error).__name__
            if code == 1:
                sentence = f"{type(error).__name__}: {sentence}"
            run.write_json(run.path / FAILURE, {"sentence": sentence, "exit_code": code})
            return code
    return 0


def _run(folder: Path, log: TextIO, on_pulse: Callable[[], None] | None) -> None:
    import torch

    from maxsup.studies.execution.heartbeat import PulseReporter

    before = torch.get_num_threads()
    if on_pulse is None:
        torch.set_num_threads(1)
    try:
        run_job(folder, PulseReporter(log, folder, on_pulse))
    finally:
        torch.set_num_threads(before)


def _open_requests(folder: Path, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [request for request in job.get("analyses", ()) if not _is_analyzed(folder, request)]


def _is_analyzed(folder: Path, request: Mapping[str, Any]) -> bool:
    path = analysis_marker(folder, request)
    try:
        with as_written(path):
            return all((folder / name).exists() for name in read_json(path)["files"])
    except StorageError:
        return False


def _analyzed(folder: Path, request: Mapping[str, Any], runs: Sequence[Path]) -> dict[str, Any]:
    """Make an analysis of runs; gives what its marker says of it."""
    from maxsup.analysis import analyze
    from maxsup.core.display import Display

    name, data = request["what"], request.get("data") or {}
    done = analyze(
        runs,
        [name],
        split=request.get("split") or "test",
        weights=request.get("weights") or "last",
        overrides=[f"data.{key}={json.dumps(value)}" for key, value in data.items() if value not in (None, {})],
        options={name: request.get("options") or {}},
        with_figures=False,
        progress=Display(),
    )
    base = folder.resolve()
    return {"files": [os.path.relpath(file.resolve(), base) for file in done.files], "skipped": done.skipped}


@contextmanager
def _claimed(run: RunDir, seconds: float, log: TextIO) -> Iterator[None]:
    """Be the only worker of a run; wait for another one, since what it does need not be done again."""
    # Beside the lock of training, which is let go of when analyses begin.
    place = RunDir(run.path / ".worker")
    end, is_told = time.monotonic() + seconds, False
    while True:
        try:
            release = place.lock()
            break
        except MaxsupError as refusal:
            if time.monotonic() >= end:
                raise
            if not is_told:
                print(f"waiting for at most {seconds:.0f} s: {refusal}", file=log)
            is_told = True
            time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        release()


@contextmanager
def _redirected(log: TextIO) -> Iterator[None]:
    """All that this process prints goes to a file, also what libraries print past Python."""
    kept = {number: os.dup(number) for number in (1, 2)}
    _flush()
    for number in kept:
        os.dup2(log.fileno(), number)
    try:
        yield
    finally:
        _flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _serve(orders: FileIO, answer: Callable[[str], None]) -> int:
    """Do jobs as their folders come in; a failure ends the process, so that the next job finds a fresh one."""
    folders: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    is_busy = threading.Event()

    def listen() -> None:
        for line in orders:
            is_busy.set()
            folders.put(json.loads(line))
        folders.put(None)
        if is_busy.is_set():
            # Whoever wanted the job is gone or wants to stop: save and leave.
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(SAVE_SECONDS)
            # This process hangs, and nobody else may be left to end it and the processes that load its data.
            os.killpg(0, signal.SIGKILL)

    threading.Thread(target=listen, daemon=True).start()
    while (folder := folders.get()) is not None:
        code = attempt(folder)
        if code:
            return code
        is_busy.clear()
        answer("done")
    return 0


def main(words: Sequence[str]) -> int:
    """Do the job of one folder, or those that come in as orders; gives the exit code."""
    if len(words) == 1:
        return attempt(words[0])
    if len(words) != 2 or words[0] != ORDERS:
        print(f"words must be one folder, or {ORDERS} and a number; got {list(words)}.", file=sys.stderr)
        return 2
    # Without a buffer, and so without a lock that a fork could leave locked.
    with FileIO(int(words[1])) as orders, os.fdopen(os.dup(1), "w", buffering=1) as channel:
        os.set_inheritable(orders.fileno(), False)
        return _serve(orders, lambda word: print(word, file=channel))


if __name__ == "__main__":
    _code = main(sys.argv[1:])
    _flush()
    # All is written, and Python would spend seconds on taking torch apart.
    os._exit(_code)
