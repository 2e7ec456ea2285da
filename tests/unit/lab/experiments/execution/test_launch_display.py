"""What a launch shows."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from maxsup.lab.experiments.execution.heartbeat import Pulse
from maxsup.lab.experiments.execution.launch import Job, JobState
from maxsup.lab.experiments.execution.launch_display import (
    LineView,
    TableView,
    create_view,
    state_table,
    total_seconds_left,
)

JOB = Job("maxsup-s0", Path("runs/maxsup-s0"), 10)
OTHER = Job("ls-s0", Path("runs/ls-s0"), 10)


def printed(states: list[JobState], height: int = 25, width: int = 100) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(state_table(states, height=height))
    return stream.getvalue()


def lines(*looks: list[JobState]) -> list[str]:
    stream = io.StringIO()
    with LineView(stream) as view:
        for states in looks:
            view.update(states)
    return stream.getvalue().splitlines()


def test_a_line_is_printed_when_a_run_starts_and_when_it_ends() -> None:
    queued, running = JobState(OTHER, "queued"), JobState(JOB, "running", 1)
    assert lines(
        [JobState(JOB, "queued"), queued],
        [JobState(JOB, "running"), queued],
        [running, queued],
        [JobState(JOB, "done", 10, 75.0), JobState(OTHER, "failed", sentence="no images.", log=Path("worker.log"))],
    ) == [
        "[0/2] maxsup-s0 has started",
        "[2/2] maxsup-s0 is done, trained in 1 min 15 s",
        "[2/2] ls-s0 has failed: no images. Log: worker.log",
    ]


def test_how_far_a_run_is_is_said_now_and_then_with_its_rate_and_time_left() -> None:
    looks = [(0, 5), (5, 9), (16, 30), (20, 40), (40, 45)]
    times, stream = iter([second for second, _ in looks]), io.StringIO()
    view = LineView(stream, clock=lambda: float(next(times)))
    for _, step in looks:
        view.update([JobState(JOB, "running", 0, None, 90.0, pulse=Pulse(0, step, 45, 512.0))])
    assert stream.getvalue().splitlines() == [
        "[0/1] maxsup-s0 has started",
        "[0/1] maxsup-s0 is in epoch 1/10, step 30/45, 512 images/s, 1 min 30 s left",
        "[0/1] maxsup-s0 is in epoch 1/10, validation, 512 images/s, 1 min 30 s left",
    ]


def test_a_run_that_does_not_move_is_named_with_where_it_stands_and_not_too_often() -> None:
    def still(age: float) -> list[JobState]:
        return [JobState(JOB, "running", 1, log=Path("worker.log"), pulse=Pulse(1, 3, 45, 512.0, age=age))]

    where = "is in epoch 2/10, step 3/45, 512 images/s. Log: worker.log"
    assert lines(*(still(age) for age in (1, 59, 61, 100, 125, 200, 1, 62))) == [
        "[0/1] maxsup-s0 goes on after epoch 1",
        f"[0/1] maxsup-s0 has not moved for 1 min 01 s: {where}",
        f"[0/1] maxsup-s0 has not moved for 2 min 05 s: {where}",
        f"[0/1] maxsup-s0 has not moved for 1 min 02 s: {where}",
    ]
    assert "has not moved for 2 min 00 s: is in epoch 2/10" in printed(still(120), width=160)


def test_runs_that_are_there_already_are_said_once() -> None:
    done = JobState(JOB, "done", 10, 3.0)
    assert lines([done], [done]) == ["[1/1] maxsup-s0 is there already"]


def test_another_attempt_is_said() -> None:
    assert lines([JobState(JOB, "running", 2)], [JobState(JOB, "queued", 2)], [JobState(JOB, "running", 2)]) == [
        "[0/1] maxsup-s0 goes on after epoch 2",
        "[0/1] maxsup-s0 waits for another attempt",
        "[0/1] maxsup-s0 goes on after epoch 2",
    ]


def test_the_table_holds_every_run_with_its_time_left() -> None:
    running = JobState(JOB, "running", 4, 40.0, 61.0, pulse=Pulse(4, 1, 9, 256.4))
    text = printed([running, JobState(OTHER, "failed", sentence="no images.")])
    assert "2 runs: 1 running, 1 failed, about 1 min 01 s left" in text
    [row] = [line.split() for line in text.splitlines() if line.startswith("maxsup-s0")]
    assert "━" in row[2]
    assert [row[1], *row[-6:]] == ["running", "4/10", "1", "min", "01", "s", "256"]
    assert "no images." in text


def test_names_that_look_like_markup_stay_text() -> None:
    text = printed([JobState(Job("[bold]x[/] [link=http://a]", Path("x"), 1), "failed", sentence="[red]got[/red]")])
    assert "[bold]x[/] [link=http://a]" in text
    assert "[red]got[/red]" in text


def test_a_long_table_shows_what_runs_and_what_failed_first() -> None:
    states = [JobState(Job(f"done{i}", Path(f"d{i}"), 1), "done", 1) for i in range(40)]
    states += [JobState(JOB, "running"), JobState(OTHER, "failed")]
    text = printed(states, height=12)
    assert len(text.splitlines()) <= 12
    assert all(word in text for word in ("maxsup-s0", "ls-s0", "and 36 done"))


def test_a_narrow_terminal_gets_no_broken_lines() -> None:
    states = [JobState(JOB, "failed", sentence="word " * 40)] * 3
    assert len(printed(states, width=70).splitlines()) == 5


def test_time_left_counts_what_is_queued() -> None:
    states = [JobState(JOB, "running", 5, 50.0, 50.0), JobState(OTHER, "queued")]
    assert total_seconds_left(states) == 150.0
    assert total_seconds_left([JobState(JOB, "running"), *states[1:]]) is None
    assert total_seconds_left([JobState(JOB, "done", 10, 3.0, 0.0)]) is None


def test_the_live_table_draws_on_a_terminal() -> None:
    stream = io.StringIO()
    with TableView(Console(file=stream, force_terminal=True, width=100, height=20)) as view:
        view.update([JobState(JOB, "done", 10, 3.0, 0.0)])
    assert "maxsup-s0" in stream.getvalue()


def test_lines_are_for_what_is_no_terminal() -> None:
    assert isinstance(create_view(), LineView)


def test_a_notebook_gets_one_table_that_is_drawn_anew_where_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, content: dict[str, str], *, raw: bool) -> None:
            shown.append(content)

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        shown.append(content)
        return Handle()

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    view = create_view()
    job = Job("ce-<b>", Path("runs/ce"), 4)
    for epoch in (1, 1, 2):
        view.update([JobState(job, "running", epoch)])
    assert [content["text/plain"].count("1/4") for content in shown] == [1, 0]
    assert "<pre>1 run: 1 running" in shown[-1]["text/html"]
    assert "ce-&lt;b&gt;" in shown[-1]["text/html"]


def test_a_shell_without_a_kernel_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=SimpleNamespace))
    assert type(create_view()) is LineView


def test_the_table_names_the_gpus_of_each_run_and_has_no_column_without_any() -> None:
    text = printed([JobState(JOB, "running", 1, gpus="2,3"), JobState(OTHER, "queued")])
    assert "GPU" in text
    assert "2,3" in text
    assert "GPU" not in printed([JobState(JOB, "running", 1), JobState(OTHER, "queued")])
