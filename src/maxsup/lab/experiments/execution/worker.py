"""What a worker does for one run: train it, then analyse it; nothing is done twice.

A job that names ``runs`` trains nothing: it makes analyses that need several finished runs at once.

``python -m maxsup.lab.experiments.execution.worker FOLDER`` does one job and exits with the code of what went wrong.
``--orders N`` reads jobs from file descriptor ``N``, one folder per line as JSON, and answers each with a line. When
the orders end, also because their writer has died, the worker saves and exits. ``--ranks N``, before either, trains
each run in ``N`` processes.

The folder of a run holds everything that is needed::

    job.json         what is to be done: recipe, name and analyses, perhaps the folders of other runs
    started.json     an attempt has begun; process, host and GPUs, for people
    failure.json     why the last attempt failed: sentence and exit code
    worker.log       everything that attempts have printed
    analysis/.done/  one file per finished analysis: what was asked for, what was written
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
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from maxsup.core.errors import ExitCode, Interruption, MaxsupError, StorageError, error_code, exit_code, out_of_memory
from maxsup.lab.core.files.reading import as_written, read_json
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.interrupt import SignalGuard
from maxsup.lab.experiments.execution.cards import visible_names
from maxsup.lab.experiments.execution.mirror import mirrored

if TYPE_CHECKING:
    from maxsup.lab.analysis.outputs import RunOutputs
    from maxsup.lab.experiments.execution.heartbeat import PulseReporter
    from maxsup.lab.training.progress import Reporter

JOB, STARTED, FAILURE, LOG = "job.json", "started.json", "failure.json", "worker.log"

ORDERS, RANKS = "--orders", "--ranks"

SAVE_SECONDS = 60.0  # that workers may take to save before they are killed; their last checkpoint stays valid
WAIT_SECONDS = 120.0  # for another worker to leave the folder: one whose launcher has died saves first
_LOOK_SECONDS = 0.2


def analysis_marker(folder: Path, request: Mapping[str, Any]) -> Path:
    """The file that marks an analysis of a job as finished and lists what it wrote.

    Example:
        >>> analysis_marker(Path("run"), {"what": "collapse", "split": "test"}).as_posix()
        'run/analysis/.done/collapse-e4861d81.json'
    """
    text = json.dumps(request, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return RunDir(folder).analysis / ".done" / f"{request['what']}-{digest}.json"


def is_done(folder: Path, job: Mapping[str, Any] | None = None) -> bool:
    """Whether a run is trained, if it has to be, and all analyses of its job, or of another ``job``, are finished."""
    has_summary = RunDir(folder).summary.exists()
    if job is None and not has_summary and not (folder / JOB).exists():
        return False
    asked = read_json(folder / JOB) if job is None else job
    return (has_summary or "runs" in asked) and not _open_requests(folder, asked)


def attempt(
    folder: str | Path,
    *,
    wait_seconds: float = WAIT_SECONDS,
    num_ranks: int = 1,
    on_pulse: Callable[[], None] | None = None,
) -> int:
    """Do what ``job.json`` says, on one thread, with a log, alone in the folder; an error goes to ``failure.json``.

    If another process works in the folder, this one waits. With ``num_ranks`` above 1 so many processes train, and this
    one makes the analyses. ``on_pulse`` is called about every second and means that
    this process is not a worker's own: its output and its number of threads stay as they are.

    Returns:
        The exit code: 0, that of the error, or 129, 130 or 143 after a signal, which is no failure: the run is saved.
    """
    run = RunDir(folder)
    run.path.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        log = stack.enter_context((run.path / LOG).open("a", buffering=1, encoding="utf-8"))
        if on_pulse is None:
            stack.enter_context(_redirected(log))
        try:
            with SignalGuard():
                stack.callback(_locked(run, wait_seconds, log))
                (run.path / FAILURE).unlink(missing_ok=True)
                started = {"process": os.getpid(), "host": socket.gethostname()}
                run.write_json(run.path / STARTED, started | ({"gpus": gpus} if (gpus := visible_names()) else {}))
                # Imported here, so that a signal or an error during the imports is dealt with too.
                import torch

                from maxsup.lab.experiments.execution.heartbeat import PulseReporter

                stack.callback(torch.set_num_threads, torch.get_num_threads())
                if on_pulse is None:
                    torch.set_num_threads(1)
                stack.enter_context(mirrored(run.path, lambda sentence: print(sentence, file=log)))
                _run_job(run.path, PulseReporter(log, run.path, on_pulse), num_ranks)
        except Interruption as stop:
            print(stop, file=log)
            return stop.exit_code
        except Exception as error:
            traceback.print_exc(file=log)
            failure = failure_of(error)
            run.write_json(run.path / FAILURE, failure)
            return int(failure["exit_code"])
    return 0


def failure_of(error: Exception) -> dict[str, Any]:
    """What ``failure.json`` says about an error."""
    known = out_of_memory(error) or error
    code, sentence = exit_code(known), str(known) or type(error).__name__
    is_bug = code == ExitCode.CRASH and not isinstance(known, MaxsupError)
    sentence = f"{type(error).__name__}: {sentence}" if is_bug else sentence
    return {"sentence": sentence, "exit_code": code, "code": error_code(known)}


def train_job(folder: Path, job: Mapping[str, Any], reporter: Reporter | None) -> None:
    """Train the run of a folder as its ``job.json`` says."""
    from maxsup.lab.core.config import parse_recipe
    from maxsup.lab.experiments.imports import import_all
    from maxsup.lab.training import train

    import_all(job.get("imports", ()))
    with as_written(folder / JOB):
        recipe, name = parse_recipe(job["recipe"], source=str(folder / JOB)), str(job["name"])
    train(recipe, folder, name=name, reporter=reporter)


def _run_job(folder: Path, reporter: PulseReporter, num_ranks: int) -> None:
    """Train what ``job.json`` says, then make the analyses that are missing.

    An analysis that fails does not stop the others; the first error is raised at the end.
    """
    import torch

    from maxsup.lab.experiments.execution.ranks import train_on_ranks
    from maxsup.lab.experiments.imports import import_all

    job, num_threads = read_json(folder / JOB), torch.get_num_threads()
    import_all(job.get("imports", ()))
    run = RunDir(folder)
    runs = [folder / other for other in job.get("runs", ())]
    if not runs and not run.summary.exists():
        if num_ranks > 1:
            train_on_ranks(folder, num_ranks)
        else:
            train_job(folder, job, reporter)

    @lru_cache(maxsize=1)
    def opened(weights: str, *overrides: str) -> list[RunOutputs]:
        """The runs with data and model, which analyses share; one set of them, because data may be large."""
        from maxsup.lab.analysis.outputs import RunOutputs

        return [RunOutputs(path, weights=weights, overrides=overrides) for path in runs or [folder]]

    errors: list[Exception] = []
    for request in _open_requests(folder, job):
        if _is_analyzed(folder, request):  # meanwhile, under another name
            continue
        reporter.work_on(f"analysis {request['what']}")
        try:
            done = _analyzed(folder, request, opened)
            for same in job["analyses"]:
                if same | {"name": None} == request | {"name": None}:
                    run.write_json(analysis_marker(folder, same), {"request": same, **done})
        except Exception as error:
            reporter.say(traceback.format_exc())
            errors.append(error)
        torch.set_num_threads(num_threads)  # training within an analysis may have changed it
    if errors:
        raise errors[0]


def _open_requests(folder: Path, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [request for request in job.get("analyses", ()) if not _is_analyzed(folder, request)]


def _is_analyzed(folder: Path, request: Mapping[str, Any]) -> bool:
    path = analysis_marker(folder, request)
    try:
        with as_written(path):
            return all((folder / name).exists() for name in read_json(path)["files"])
    except StorageError:
        return False


def _analyzed(folder: Path, request: Mapping[str, Any], opened: Callable[..., list[RunOutputs]]) -> dict[str, Any]:
    """Analyse runs; gives the content of the marker."""
    from maxsup.lab.analysis import analyze
    from maxsup.lab.core.display import Display

    name, data = request["what"], request.get("data") or {}
    overrides = (f"data.{key}={json.dumps(value)}" for key, value in data.items() if value not in (None, {}))
    done = analyze(
        opened(request.get("weights") or "last", *overrides),
        [name],
        split=request.get("split") or "test",
        options={name: request.get("options") or {}},
        with_figures=False,
        progress=Display(),
    )
    base = folder.resolve()
    return {"files": [os.path.relpath(file.resolve(), base) for file in done.files], "skipped": done.skipped}


def _locked(run: RunDir, seconds: float, log: TextIO) -> Callable[[], None]:
    """Become the only worker of a run, after waiting for another one; gives the function that releases the folder."""
    # Not the lock of training, which is released when analyses begin.
    place = RunDir(run.path / ".worker")
    end, is_told = time.monotonic() + seconds, False
    while True:
        try:
            return place.lock()
        except StorageError:
            raise  # no lock at all, however long one waits
        except MaxsupError as refusal:
            if time.monotonic() >= end:
                raise
            if not is_told:
                print(f"waiting for at most {seconds:.0f} s: {refusal}", file=log)
            is_told = True
            time.sleep(_LOOK_SECONDS)


@contextmanager
def _redirected(log: TextIO) -> Iterator[None]:
    """Send everything that this process prints to a file, also what libraries print past Python."""
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


def _serve(orders: FileIO, answer: Callable[[str], None], num_ranks: int) -> int:
    """Do jobs as their folders come in; a failure ends the process, so that the next job gets a fresh one."""
    folders: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    is_busy = threading.Event()

    def listen() -> None:
        for line in orders:
            is_busy.set()
            folders.put(json.loads(line))
        folders.put(None)
        if is_busy.is_set():
            # The launcher is gone or wants to stop: save and exit.
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(SAVE_SECONDS)
            # This process hangs, and nobody else may be left to end it and its data loaders.
            os.killpg(0, signal.SIGKILL)

    threading.Thread(target=listen, daemon=True).start()
    while (folder := folders.get()) is not None:
        if code := attempt(folder, num_ranks=num_ranks):
            return code
        is_busy.clear()
        answer("done")
    return 0


def main(words: Sequence[str]) -> int:
    """Do the job of one folder, or those that come in as orders; gives the exit code."""
    num_ranks = 1
    if len(words) > 2 and words[0] == RANKS:
        num_ranks, words = int(words[1]), words[2:]
    if len(words) == 1:
        return attempt(words[0], num_ranks=num_ranks)
    if len(words) != 2 or words[0] != ORDERS:
        print(f"words must be one folder, or {ORDERS} and a number; got {list(words)}.", file=sys.stderr)
        return 2
    # Without a buffer, and so without a lock that a fork could leave locked.
    with FileIO(int(words[1])) as orders, os.fdopen(os.dup(1), "w", buffering=1) as channel:
        os.set_inheritable(orders.fileno(), False)
        return _serve(orders, lambda word: print(word, file=channel), num_ranks)


if __name__ == "__main__":
    _code = main(sys.argv[1:])
    _flush()
    # Everything is written, and Python would spend seconds on unloading torch.
    os._exit(_code)
