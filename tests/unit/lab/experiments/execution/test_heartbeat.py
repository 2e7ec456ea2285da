"""How far a run is between two epochs."""

import io
import os
import time
from pathlib import Path

import pytest

from maxsup.lab.experiments.execution.heartbeat import FILE, Pulse, PulseReporter, read_pulse
from maxsup.lab.training.progress import Clock


@pytest.fixture
def started(tmp_path: Path) -> Path:
    path = tmp_path / "started.json"
    path.write_text("{}")
    os.utime(path, (time.time() - 100, time.time() - 100))
    return path


def test_a_launcher_reads_what_a_worker_wrote(tmp_path: Path, started: Path) -> None:
    reporter = PulseReporter(io.StringIO(), tmp_path)
    reporter.start_epoch(1, 4, 0, 10)
    reporter.step(1, {}, 0.1, Clock())
    pulse = read_pulse(tmp_path, started)
    assert (pulse.epoch, pulse.step, pulse.num_steps) == (1, 1, 10)
    assert pulse.seconds_left is not None
    assert pulse.age < 50
    reporter.step(2, {}, 0.1, Clock())  # within the same second: not written
    assert read_pulse(tmp_path, started).step == 1
    reporter.step(10, {}, 0.1, Clock())
    assert read_pulse(tmp_path, started).step == 10
    reporter.work_on("analysis collapse")
    assert read_pulse(tmp_path, started).doing == "analysis collapse"


def test_a_worker_that_has_written_nothing_is_as_old_as_its_start(tmp_path: Path, started: Path) -> None:
    assert read_pulse(tmp_path, started).age == pytest.approx(100, abs=20)
    (tmp_path / FILE).write_text('{"step": 7}')
    os.utime(tmp_path / FILE, (time.time() - 500, time.time() - 500))  # of an earlier attempt
    assert read_pulse(tmp_path, started) == Pulse()
    (tmp_path / FILE).write_text("{")
    assert read_pulse(tmp_path, started) == Pulse()


def test_a_run_goes_on_where_nobody_can_watch_it(tmp_path: Path, started: Path) -> None:
    reporter = PulseReporter(io.StringIO(), tmp_path / "gone")
    reporter.start_epoch(0, 1, 0, 1)
    reporter.step(1, {}, 0.1, Clock())
    assert read_pulse(tmp_path / "gone", started) == Pulse()
