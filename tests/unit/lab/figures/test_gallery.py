from typing import Any

import numpy as np

from maxsup.lab.figures.gallery import encoded, gallery_figure


def result(seed: int) -> dict[str, Any]:
    image = encoded(np.full((8, 8, 1), 40 * seed, dtype=np.uint8))
    cell = {"image": image, "map": image, "label": "a", "predicted": "a"}
    return {"facts": {"loss": "ls"}, "data": {"cells": [cell] * 6, "target": "label"}}


def test_names_of_rows_are_whole_and_none_is_higher_than_its_row() -> None:
    figure = gallery_figure({"maxsup 0.2": result(1), "logit penalty 0.05": result(2)})
    figure.draw_without_rendering()
    rows = [axes for axes in figure.axes if axes.get_ylabel()]
    assert [axes.get_ylabel().split() for axes in rows] == [["image"], ["maxsup", "0.2"], ["logit", "penalty", "0.05"]]
    heights = [(axes.yaxis.label.get_window_extent().height, axes.get_window_extent().height) for axes in rows]
    assert all(name <= 1.1 * row for name, row in heights), heights
