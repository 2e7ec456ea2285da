"""What is shown while training."""

import io
import math
from typing import Any

import pytest

from maxsup.lab.core.display import BarDisplay, LineDisplay
from maxsup.lab.training.progress import Clock, EpochMeter, Reporter, epoch_line


def line(**changes: Any) -> dict[str, Any]:
    numbers = {"loss": 1.0, "accuracy": 0.5}
    return {"epoch": 1, "lr": 0.1, "alpha": 0.2, "train": numbers, "val": {"accuracy": 0.4, "nll": 2.0}, **changes}


def test_a_line_leaves_out_what_there_is_not() -> None:
    head, row = epoch_line(line(alpha=math.nan, val=None), 3, 1.0, 10.0)
    assert head.split() == ["epoch", "loss", "acc", "lr", "img/s", "seconds"]
    assert row.split() == ["2/3", "1.0000", "50.00", "%", "0.1", "10", "1.0"]


def test_without_a_terminal_there_is_one_plain_line_an_epoch_under_a_head() -> None:
    stream = io.StringIO()
    reporter = Reporter(LineDisplay(stream))
    with reporter:
        reporter.start_epoch(1, 3, 0, 5)
        reporter.step(1, {"loss": 1.0, "accuracy": 0.5}, 0.1, Clock())
        reporter.end_epoch(line(), 1.0, 10.0)
    assert stream.getvalue().count("\n") == 2
    assert "\x1b" not in stream.getvalue()


def test_the_bar_shows_loss_accuracy_alpha_speed_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with Reporter(BarDisplay()) as reporter:
        reporter.start_epoch(0, 2, 3, 10)
        reporter.step(4, {"loss": 1.2345, "accuracy": 0.5}, 0.15, Clock())
        reporter._display._bars.refresh()
        reporter.end_epoch(line(), 1.0, 10.0)
    shown = capsys.readouterr().err
    for word in ("epoch 1/2", "4/20", "loss 1.234", "acc 0.500", "alpha 0.15", "img/s", ":"):
        assert word in shown
    assert "2/2   1.0000  50.00 %" in shown


def test_an_epoch_that_was_interrupted_has_the_time_of_all_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, processor = [100.0], [5.0]
    monkeypatch.setattr("maxsup.lab.training.progress.time.perf_counter", lambda: wall[0])
    monkeypatch.setattr("maxsup.lab.training.progress.time.process_time", lambda: processor[0])
    first = Clock()
    wall[0] += 7.0
    first.num_images = 1000
    first.start_epoch()
    wall[0] += 6.0
    processor[0] += 4.0
    first.num_images += 60
    saved = first.state()
    wall[0], processor[0] = 9000.0, 1.0
    second = Clock()
    wall[0] += 3.0
    second.restore(saved)
    wall[0] += 1.0
    processor[0] += 2.0
    second.num_images += 40
    assert second.epoch() == {"seconds": 10.0, "images_per_second": 10.0, "cpu_seconds": 6.0}


def test_a_checkpoint_without_the_start_of_its_epoch_is_counted_from_where_it_goes_on() -> None:
    clock = Clock()
    clock.restore({"total": 50.0, "num_images": 500, "seconds": {}})
    assert clock.total > 50.0
    assert clock.epoch()["seconds"] < 50.0


def test_the_clock_counts_on_after_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("maxsup.lab.training.progress.time.perf_counter", lambda: now[0])
    first = Clock()
    with first.phase("step"):
        now[0] += 8.0
    now[0] += 2.0
    first.num_images = 80
    second = Clock()
    second.restore(first.state())
    assert second.total == 10.0
    assert second.images_per_second() == 10.0
    assert second.shares()["outside"] == pytest.approx(0.2)


def test_means_of_nothing_are_nan() -> None:
    assert all(math.isnan(value) for value in EpochMeter().means().values())


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (EpochMeter(2.0, 1.0, num_correct=2, num_labels=2, grad_norm=3.0, num_steps=1), (2.0, 0.75, 2.0)),
        (EpochMeter(0.0, 0.0, num_correct=0, num_labels=0, grad_norm=0.0, num_steps=1), (2.0, 0.5, 0.5)),
    ],
    ids=["a weighted loss is divided by its own denominators", "a step without a label counts for nothing"],
)
def test_means_are_over_all_steps(other: EpochMeter, expected: tuple[float, ...]) -> None:
    meter = EpochMeter()
    meter.add(EpochMeter(loss_sum=6.0, num_items=3.0, num_correct=1, num_labels=2, grad_norm=1.0, num_steps=1))
    meter.add(other)
    assert tuple(meter.means().values()) == expected
