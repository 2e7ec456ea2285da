"""Signals at any moment end a command with 130 or 143, and output that nobody reads does not end it."""

from __future__ import annotations

import fcntl
import gc
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from maxsup.core.errors import Interruption
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.interrupt import SignalGuard, raise_if_noted
from maxsup.lab.training import builders
from tests.integration.command import run_python
from tests.integration.launching import wait_until
from tests.integration.starting import NUM_MOMENTS

QUICK = ("train", "digits_cnn", "epochs=1", "batch_size=256", "model.options.widths=[2, 4]")


class Deaf:
    """Lets a signal come where Python drops exceptions."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def swallowed_by_except() -> None:
    with suppress(BaseException):
        os.kill(os.getpid(), signal.SIGTERM)


def swallowed_by_del() -> None:
    Deaf()
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("swallow", [swallowed_by_except, swallowed_by_del])
def test_a_signal_whose_exception_was_swallowed_is_noticed_later(swallow: Callable[[], None]) -> None:
    with SignalGuard(), SignalGuard() as inner:
        swallow()
        # What the training loop looks at after every step.
        assert inner.received == signal.SIGTERM
        with pytest.raises(Interruption) as caught:
            SignalGuard().__enter__()
    assert caught.value.exit_code == 143
    raise_if_noted()


def test_an_error_of_an_import_that_a_signal_broke_off_is_the_signal() -> None:
    with pytest.raises(Interruption, match="SIGTERM"), SignalGuard():
        broken_import()


def broken_import() -> None:
    swallowed_by_except()
    raise ImportError("cannot load module more than once per process")


def test_an_exception_handler_of_a_library_does_not_take_a_signal_for_an_error() -> None:
    with pytest.raises(Interruption, match="stopped at once by SIGTERM"), SignalGuard(), suppress(Exception):
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_before_the_first_import_of_the_command_is_not_lost() -> None:
    script = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"  # as in a job that a script has put into the background
        "from maxsup.__main__ import main\n"
        "def look(event, arguments):\n"
        "    if event == 'import' and arguments[0] == 'maxsup.lab.cli':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(look)\n"
        "sys.argv = ['maxsup', 'ls', 'losses']\n"
        "main()"
    )
    assert run_python("-c", script) == (130, "", "maxsup: stopped by SIGINT.\n")


def test_a_download_does_not_begin_after_a_signal_that_was_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(builders, "load_data", lambda name, **options: begun.append(name))
    with SignalGuard():
        swallowed_by_except()
        with pytest.raises(Interruption, match="SIGTERM"):
            builders.build_data(Recipe())
    assert begun == []


def test_a_terminal_that_closes_is_noted_unless_nohup_has_the_signal_ignored() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        with SignalGuard() as guard:
            guard.is_deferring = True
            os.kill(os.getpid(), signal.SIGHUP)
            assert guard.received == signal.SIGHUP
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with SignalGuard() as guard:
            os.kill(os.getpid(), signal.SIGHUP)
            assert guard.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.distributed
def test_a_run_whose_terminal_closes_saves_and_says_so(tmp_path: Path) -> None:
    ours, terminal = pty.openpty()
    words = ["train", "digits_cnn", "epochs=300", "data.num_workers=1", "--output", str(tmp_path / "run")]
    with subprocess.Popen(
        [sys.executable, "-m", "maxsup", *words],
        stdin=terminal,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as run:
        os.close(terminal)
        wait_until(lambda: (tmp_path / "run/metrics.jsonl").exists() or run.poll() is not None)
        os.close(ours)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 129
    assert "stopped by SIGHUP after" in said
    assert "everything is saved" in said
    assert (tmp_path / "run/checkpoints/last/state.json").exists()


@pytest.mark.slow
@pytest.mark.distributed
def test_a_signal_at_any_of_thirty_moments_of_the_start_ends_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.starting", str(tmp_path), *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    codes = {int(number): int(code) for number, code in map(str.split, done.stdout.splitlines()[-NUM_MOMENTS:])}
    said = {number: (tmp_path / f"{number}.txt").read_text() for number in codes}
    assert len(codes) == NUM_MOMENTS, done.stderr
    assert {number: code for number, code in codes.items() if code != (143 if number % 2 else 130)} == {}
    assert [text for text in said.values() if "Traceback" in text or "stopped" not in text] == []


@pytest.mark.slow
def test_output_that_nobody_reads_does_not_end_a_run(tmp_path: Path) -> None:
    maxsup = f"{sys.executable} -m maxsup {' '.join(QUICK).replace('[2, 4]', '[2,4]')}"
    script = (
        f"set -o pipefail; {maxsup} --output closed >&- 2>&- <&-; echo $?; {maxsup} --output left 2>&1 | true; echo $?"
    )
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "0"], done.stderr
    assert (tmp_path / "closed/summary.json").is_file()
    assert (tmp_path / "left/summary.json").is_file()
