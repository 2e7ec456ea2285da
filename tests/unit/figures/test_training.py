from maxsup.figures.style import run_looks
from maxsup.figures.training import sweep_figure, training_figure


def test_one_epoch_is_a_mark_and_several_are_a_line() -> None:
    curves = {"training loss": {"CE": [(1, 2.0, 1.5, 2.5)], "LS": [(1, 3.0, 3.0, 3.0), (2, 2.0, 2.0, 2.0)]}}
    [axes] = training_figure(curves, run_looks({"CE": "ce", "LS": "ls"})).axes
    assert [line.get_marker() for line in axes.get_lines()] == ["o", "None"]
    assert axes.get_xlabel() == "epoch"


def test_a_sweep_has_a_line_through_the_means() -> None:
    [axes] = sweep_figure({"ECE": {"ls": {0.1: [1.0, 3.0], 0.2: [4.0]}}}, run_looks({"ls": "ls"})).axes
    line, first, second = axes.get_lines()
    assert list(line.get_ydata()) == [2.0, 4.0]
    assert list(first.get_ydata()) == [1.0, 3.0]
    assert list(second.get_ydata()) == [4.0]
