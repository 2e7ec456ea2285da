import math

from maxsup.lab.figures.comparisons import (
    Difference,
    Point,
    differences_figure,
    published_figure,
    seeds_figure,
    sweep_figure,
    training_figure,
)
from maxsup.lab.figures.style import run_looks

LOOKS = run_looks({"ce": "ce", "ls": "ls"})


def test_runs_of_a_seed_are_joined_and_a_bar_marks_the_mean() -> None:
    figure = seeds_figure([("accuracy (%)", {"ce": {"0": 90.0, "1": 92.0}, "ls": {"0": 94.0}})], LOOKS)
    [axes] = figure.axes
    lines = [[list(line.get_xdata()), list(line.get_ydata())] for line in axes.get_lines()]
    assert [[90.0, 94.0], [0, 1]] in lines
    assert [[91.0, 91.0], [-0.32, 0.32]] in lines
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ce", "ls"]
    assert axes.get_title(loc="left") == "accuracy (%)"


def test_a_difference_that_shows_nothing_is_hollow_and_zero_is_in_sight() -> None:
    found = {"ce": Difference(1.0, 0.5, 1.5, True), "ls": Difference(2.0, math.nan, math.nan, False)}
    [axes] = differences_figure([("NLL", "left is better", found)], LOOKS).axes
    faces = {
        line.get_xdata()[0]: line.get_markerfacecolor() for line in axes.get_lines() if line.get_marker() != "None"
    }
    assert faces == {1.0: LOOKS["ce"].color, 2.0: "white"}
    assert axes.get_xlim()[0] < 0 < axes.get_xlim()[1]
    assert axes.get_xlabel() == "left is better"


def test_published_and_measured_have_the_same_axes_and_unknown_losses_are_grey() -> None:
    points = [Point(LOOKS["ce"], 76.0, 75.0, 0.1), Point(None, 77.0, 78.0, math.nan)]
    figure = published_figure({"accuracy (%)": points})
    [axes] = figure.axes
    assert axes.get_xlim() == axes.get_ylim()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ce"]


def test_one_epoch_is_a_mark_and_several_are_a_line() -> None:
    curves = {"training loss": {"ce": [(1, 2.0, 1.5, 2.5)], "ls": [(1, 3.0, 3.0, 3.0), (2, 2.0, 2.0, 2.0)]}}
    [axes] = training_figure(curves, LOOKS).axes
    assert [line.get_marker() for line in axes.get_lines()] == ["o", "None"]
    assert axes.get_xlabel() == "epoch"


def test_a_sweep_has_a_line_through_the_means() -> None:
    [axes] = sweep_figure({"ECE": {"ls": {0.1: [1.0, 3.0], 0.2: [4.0]}}}, LOOKS).axes
    line, first, second = axes.get_lines()
    assert list(line.get_ydata()) == [2.0, 4.0]
    assert list(first.get_ydata()) == [1.0, 3.0]
    assert list(second.get_ydata()) == [4.0]
