"""Bars and lines."""

import sys

import pytest

from maxsup.lab.core.display import BarDisplay, Display, LineDisplay, create_display


def test_a_stage_is_one_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with create_display() as display:
        assert isinstance(display, LineDisplay)
        display.start("CE: outputs", 3)
        display.advance()
        display.move("CE: outputs", 2, 3, "fast")
        display.say("done")
    assert capsys.readouterr().err == "CE: outputs\ndone\n"


@pytest.mark.parametrize(("is_terminal", "kind"), [(True, BarDisplay), (False, LineDisplay)])
def test_the_terminal_decides(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, kind: type[Display]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    assert type(create_display()) is kind
    assert type(create_display(is_shown=False)) is Display


def test_a_bar_takes_brackets_for_text_and_starts_anew_with_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with BarDisplay() as display:
        display.start("LS [bold]: outputs", 2)
        display.advance()
        display.start("LS: probe", 1)
        display.advance()
        display.say("[red] said")
        [task] = display._bars.tasks
        assert (task.description, task.completed, task.total) == ("LS: probe", 1, 1)
    assert "[red] said" in capsys.readouterr().err


def test_a_training_within_an_analysis_moves_the_same_bar_and_does_not_end_it() -> None:
    with BarDisplay() as display:
        display.start("LS: outputs", 2)
        with display:
            display.move("epoch 1/2", 3, 10, "loss 1.0")
        assert display._bars.live.is_started
        [task] = display._bars.tasks
        assert (task.description, task.completed, task.total) == ("epoch 1/2", 3, 10)
    assert not display._bars.live.is_started
