import sys

import pytest

from maxsup.analysis.progress import BarProgress, LineProgress, create_progress


def test_a_stage_is_one_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with create_progress() as progress:
        assert isinstance(progress, LineProgress)
        progress.start("CE: outputs", 3)
        progress.advance()
        progress.say("done")
    assert capsys.readouterr().err == "CE: outputs\ndone\n"


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(create_progress(), BarProgress)


def test_a_bar_takes_brackets_for_text_and_starts_anew_with_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with BarProgress() as progress:
        progress.start("LS [bold]: outputs", 2)
        progress.advance()
        progress.start("LS: probe", 1)
        progress.advance()
        progress.say("[red] said")
        [task] = progress._bars.tasks
        assert (task.description, task.completed, task.total) == ("LS: probe", 1, 1)
    assert "[red] said" in capsys.readouterr().err
