from typing import Any

from maxsup.lab.figures.corruption import corruption_figures, corruption_map


def result(error: float) -> dict[str, Any]:
    cells = [
        {"corruption": kind, "severity": severity, "error": error * severity, "nll": 1.0, "ece": 0.1}
        for kind in ("fog", "gaussian_noise")
        for severity in (1, 2)
    ]
    return {"facts": {"loss": "ce"}, "data": {"cells": cells}}


def test_errors_are_drawn_in_percent_by_severity_and_as_a_map() -> None:
    figures = corruption_figures({"CE": result(0.1)})
    assert list(figures["corruption"].axes[0].get_lines()[0].get_ydata()) == [10.0, 20.0]
    [axes] = figures["corruption_map"].axes
    assert [text.get_text() for text in axes.texts] == ["10", "20", "10", "20"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fog", "gaussian noise"]


def test_a_cell_that_a_loss_lacks_stays_empty() -> None:
    figure = corruption_map({"CE": {("fog", 1): 10.0, ("fog", 2): 20.0}, "LS": {("fog", 1): 30.0}})
    assert [len(axes.texts) for axes in figure.axes] == [2, 1]
